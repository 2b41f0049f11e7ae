/* passes/contraction_k1.c: contractions over one element or none are element-wise.
 *
 *   matmul(%a: [..,M,1], %b: [..,1,N])   ->   add(mul(%a, %b), 0.0)           one product, added to an empty
 * sum gemm_rcr(%a: [..,M,1], %b: [N,1])    ->   add(mul(%a, reshape(%b)), 0.0)  then + bias, relu, sigmoid K
 * = 0                                ->   full 0, or 0 + bias
 *
 * The 0.0 matters: a sum that starts at +0.0 never gives -0.0. An element-wise node rounds where the
 * contraction rounds only if there is one rounding, or if every rounding is to f32 or f64: so halves are left
 * when they have an epilogue, and anything is left when alpha is not 1 or when `out` rounds the accumulator
 * (f16 and bf16 to f32 is exact). Stands before repetition: the outer product of a rotary table is what gets
 * repeated.
 *
 * A gemm_rcr of K = 1 stays one where it has company: where another of its op and dtype with a larger K can
 * run at the same time, and they will share a launch (horizontal.c). Element-wise it would take one of its
 * own. Counts contractions.
 */
#include "passes/rewrite.h"

static bool has_bias(kiln_op_t op) {
  return op == KILN_OP_gemm_rcr_bias || op == KILN_OP_gemm_rcr_bias_relu ||
         op == KILN_OP_gemm_rcr_bias_sigmoid;
}

/* The dtype in which an element-wise form rounds like the contraction; false when there is none. */
static bool exact_dtype(const rewrite_t *rw, const draft_t *draft, kiln_dtype_t *out) {
  kiln_dtype_t in = rewrite_type(rw, draft->operands[0])->dtype, result = draft->type.dtype;
  *out = result;
  bool widens = kiln_dtype_is_half(in) && result == KILN_DTYPE_f32 && !has_bias(draft->op);
  if (in != result && !widens) return false;
  return !has_bias(draft->op) || !kiln_dtype_is_half(result);
}

static kiln_value_id_t zero(rewrite_t *rw, kiln_dtype_t dtype) {
  kiln_attr_value_t attrs[] = {attr_dtype(dtype),
                               attr_dims(KILN_ATTR_shape, NULL, 0),
                               {.attr = KILN_ATTR_value, .number = number_zero(dtype)}};
  return rewrite_emit(rw, KILN_OP_full, NULL, 0, attrs, 3);
}

static kiln_value_id_t binary(rewrite_t *rw, kiln_op_t op, kiln_value_id_t a, kiln_value_id_t b) {
  return rewrite_emit(rw, op, (kiln_value_id_t[]){a, b}, 2, NULL, 0);
}

static kiln_value_id_t cast(rewrite_t *rw, kiln_value_id_t value, kiln_dtype_t dtype) {
  if (rewrite_type(rw, value)->dtype == dtype) return value;
  kiln_attr_value_t attr = attr_dtype(dtype);
  return rewrite_emit(rw, KILN_OP_cast, &value, 1, &attr, 1);
}

/* b with its reduced axis in front of its last, as matmul has it; gemm_rcr has [N,1] and wants [1,N]. */
static kiln_value_id_t right_operand(rewrite_t *rw, const draft_t *draft, kiln_value_id_t b) {
  if (draft->op == KILN_OP_matmul) return b;
  kiln_dim_t dims[] = {kiln_dim_constant(1), rewrite_type(rw, b)->dims[0]};
  return rewrite_reshape(rw, b, dims, 2);
}

static kiln_value_id_t product(rewrite_t *rw, const draft_t *draft, kiln_dtype_t dtype) {
  kiln_value_id_t a = cast(rw, draft->operands[0], dtype);
  kiln_value_id_t b = right_operand(rw, draft, cast(rw, draft->operands[1], dtype));
  kiln_value_id_t result = binary(rw, KILN_OP_mul, a, b);
  return kiln_dtype_is_float(dtype) ? binary(rw, KILN_OP_add, result, zero(rw, dtype)) : result;
}

static kiln_value_id_t epilogue(rewrite_t *rw, const draft_t *draft, kiln_value_id_t value) {
  if (has_bias(draft->op)) value = binary(rw, KILN_OP_add, value, draft->operands[2]);
  if (draft->op == KILN_OP_gemm_rcr_bias_relu) value = rewrite_emit(rw, KILN_OP_relu, &value, 1, NULL, 0);
  if (draft->op == KILN_OP_gemm_rcr_bias_sigmoid)
    value = rewrite_emit(rw, KILN_OP_sigmoid, &value, 1, NULL, 0);
  return value;
}

/* matmul's vectors lose their axis of one element; everything else already has the shape. */
static bool lower(rewrite_t *rw, draft_t *draft) {
  const kiln_type_t *a = rewrite_type(rw, draft->operands[0]);
  const kiln_attr_value_t *alpha = draft_attr(draft, KILN_ATTR_alpha);
  kiln_dim_t k = a->dims[a->rank - 1];
  kiln_dtype_t dtype;
  if ((alpha && alpha->real != 1) || !exact_dtype(rw, draft, &dtype)) return false;
  if (kiln_dim_is(k, 1)) return draft_reshape(rw, draft, epilogue(rw, draft, product(rw, draft, dtype)));
  if (kiln_dim_is(k, 0)) return draft_expand(rw, draft, epilogue(rw, draft, zero(rw, dtype)));
  return false;
}

/* --- company ------------------------------------------------------------------------------------------- */

enum { KINDS = 4 * KILN_DTYPE_COUNT };

/* When contractions can run: a step is a contraction on the longest way from an input or to an output. */
typedef struct {
  const kiln_graph_t *graph;
  uint32_t *earliest,
      *latest; /* per value: contractions up to it; at most so many, if the graph's depth holds */
  uint32_t depth;
  uint32_t *counts[KINDS]; /* per kind of gemm_rcr: those with K > 1 whose earliest step is below the index */
} company_t;

static bool is_contraction(const kiln_node_t *node) {
  return kiln_op_info(node->op)->op_class == KILN_CLASS_CONTRACTION;
}

/* gemm_rcr's ops and dtypes, numbered; KINDS for all other nodes. */
static uint32_t kind_of(const kiln_graph_t *graph, const kiln_node_t *node) {
  static const kiln_op_t ops[] = {KILN_OP_gemm_rcr, KILN_OP_gemm_rcr_bias, KILN_OP_gemm_rcr_bias_relu,
                                  KILN_OP_gemm_rcr_bias_sigmoid};
  for (uint32_t i = 0; i < 4; i++) {
    if (node->op == ops[i]) return i * KILN_DTYPE_COUNT + graph->types[node->operands[0]].dtype;
  }
  return KINDS;
}

static bool has_k(const kiln_graph_t *graph, const kiln_node_t *node, int64_t k) {
  const kiln_type_t *a = &graph->types[node->operands[0]];
  return kiln_dim_is(a->dims[a->rank - 1], k);
}

static void find_steps(company_t *c) {
  const kiln_graph_t *graph = c->graph;
  for (uint32_t n = 0; n < graph->node_count; n++) {
    const kiln_node_t *node = &graph->nodes[n];
    uint32_t step = 0;
    for (uint32_t i = 0; i < node->operand_count; i++) {
      kiln_value_id_t operand = node->operands[i];
      if (operand != KILN_NO_VALUE && c->earliest[operand] > step) step = c->earliest[operand];
    }
    step += is_contraction(node);
    if (step > c->depth) c->depth = step;
    for (uint32_t r = 0; r < node->result_count; r++) c->earliest[node->first_result + r] = step;
  }
  for (uint32_t v = 0; v < graph->value_count; v++) c->latest[v] = c->depth;
  for (uint32_t n = graph->node_count; n-- > 0;) {
    const kiln_node_t *node = &graph->nodes[n];
    uint32_t step = c->depth;
    for (uint32_t r = 0; r < node->result_count; r++) {
      if (c->latest[node->first_result + r] < step) step = c->latest[node->first_result + r];
    }
    step -= is_contraction(node);
    for (uint32_t i = 0; i < node->operand_count; i++) {
      kiln_value_id_t operand = node->operands[i];
      if (operand != KILN_NO_VALUE && c->latest[operand] > step) c->latest[operand] = step;
    }
  }
}

static company_t find_company(kiln_arena_t *arena, const kiln_graph_t *graph) {
  company_t c = {.graph = graph,
                 .earliest = KILN_NEW_ARRAY(arena, uint32_t, graph->value_count),
                 .latest = KILN_NEW_ARRAY(arena, uint32_t, graph->value_count)};
  find_steps(&c);
  for (uint32_t n = 0; n < graph->node_count; n++) {
    const kiln_node_t *node = &graph->nodes[n];
    uint32_t kind = kind_of(graph, node);
    if (kind == KINDS || has_k(graph, node, 0) || has_k(graph, node, 1)) continue;
    if (!c.counts[kind]) c.counts[kind] = KILN_NEW_ARRAY(arena, uint32_t, c.depth + 2);
    c.counts[kind][c.earliest[node->first_result] + 1]++;
  }
  for (uint32_t kind = 0; kind < KINDS; kind++) {
    for (uint32_t step = 0; c.counts[kind] && step <= c.depth; step++)
      c.counts[kind][step + 1] += c.counts[kind][step];
  }
  return c;
}

static bool has_company(const company_t *c, const kiln_node_t *node) {
  uint32_t kind = kind_of(c->graph, node);
  if (kind == KINDS || !has_k(c->graph, node, 1) || !c->counts[kind]) return false;
  return c->counts[kind][c->latest[node->first_result] + 1] >
         c->counts[kind][c->earliest[node->first_result]];
}

static bool has_contraction(const kiln_graph_t *graph) {
  for (uint32_t n = 0; n < graph->node_count; n++) {
    if (is_contraction(&graph->nodes[n])) return true;
  }
  return false;
}

const kiln_graph_t *kiln_pass_contraction_k1(kiln_pass_context_t *context, const kiln_graph_t *graph) {
  if (!has_contraction(graph)) return graph;
  rewrite_t rw = rewrite_begin(context, graph);
  company_t company = find_company(context->arena, graph);
  for (uint32_t n = 0; n < graph->node_count; n++) {
    const kiln_node_t *node = &graph->nodes[n];
    if (!is_contraction(node) || has_company(&company, node)) {
      rewrite_copy(&rw, node);
      continue;
    }
    draft_t draft = rewrite_draft(&rw, node);
    if (lower(&rw, &draft)) context->applied++;
    rw.map[node->first_result] = rewrite_place(&rw, &draft);
  }
  return rewrite_finish(&rw);
}
