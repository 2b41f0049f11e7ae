/* codegen/contraction.c: contractions: from a group of nodes to the pieces that emission puts together.
 *
 *   node -> (batch, m, n, k) -> both operands lowered over it -> copies and tile -> epilogue -> source
 *
 * Leading axes of gemm_rcr's first operand are all m; batch axes of matmul are one axis, taken apart again
 * for each operand, where those of size 1 are read again and again. Called by codegen.c for groups of the
 * kind "contraction".
 */
#include "codegen/contraction.h"
#include "codegen/elementwise.h"

#include <string.h>

enum { MOST_STORES = 64 };

static bool is_contraction(const kiln_graph_t *graph, uint32_t node) {
  return kiln_op_info(graph->nodes[node].op)->op_class == KILN_CLASS_CONTRACTION;
}

bool kiln_contraction_accepts(const kiln_graph_t *graph, uint32_t node) {
  return is_contraction(graph, node) || kiln_elementwise_accepts(graph, node);
}

/* --- the iteration space ------------------------------------------------------------------------------- */

static kiln_space_axis_t make_axis(kiln_kernel_t *kernel, kiln_dim_t extent) {
  kiln_space_axis_t axis = {.extent = extent, .axis = kiln_kernel_axis(kernel, extent, 1)};
  axis.index = kiln_dim_is(extent, 1) ? kiln_index_constant(kernel, kiln_dim_constant(0))
                                      : kiln_index_axis(kernel, axis.axis);
  return axis;
}

static kiln_dim_t product(kiln_kernel_t *kernel, const kiln_dim_t *dims, uint32_t count) {
  kiln_dim_t total = kiln_dim_constant(1);
  for (uint32_t i = 0; i < count; i++) total = kiln_kernel_dim_mul(kernel, total, dims[i]);
  return total;
}

static const kiln_type_t *type_of(const kiln_contraction_t *c, kiln_value_id_t value) {
  return &c->kernel->graph->types[value];
}

static void find_space(kiln_contraction_t *c) {
  kiln_kernel_t *kernel = c->kernel;
  const kiln_type_t *a = type_of(c, c->node->operands[0]), *b = type_of(c, c->node->operands[1]);
  const kiln_type_t *result = type_of(c, c->node->first_result);
  const kiln_dim_t one = kiln_dim_constant(1);
  kiln_dim_t batch = one, m, n;
  if (c->node->op == KILN_OP_matmul) {
    c->batch_rank = result->rank - (a->rank > 1) - (b->rank > 1);
    batch = product(kernel, result->dims, c->batch_rank);
    m = a->rank > 1 ? a->dims[a->rank - 2] : one;
    n = b->rank > 1 ? b->dims[b->rank - 1] : one;
  } else {
    m = product(kernel, a->dims, a->rank - 1);
    n = b->dims[0];
  }
  c->batch = make_axis(kernel, batch);
  c->m = make_axis(kernel, m);
  c->n = make_axis(kernel, n);
  c->k = make_axis(kernel, a->dims[a->rank - 1]);
}

void kiln_contraction_unflatten(kiln_kernel_t *kernel, kiln_expr_id_t position, uint32_t rank,
                                const kiln_dim_t *dims, kiln_expr_id_t *out_index) {
  for (uint32_t i = rank; i-- > 0;) {
    out_index[i] = i ? kiln_index_mod(kernel, position, dims[i]) : position;
    if (i) position = kiln_index_div(kernel, position, dims[i]);
  }
}

void kiln_contraction_result_index(kiln_contraction_t *c, kiln_expr_id_t *out_index) {
  const kiln_type_t *a = type_of(c, c->node->operands[0]), *b = type_of(c, c->node->operands[1]);
  const kiln_type_t *result = type_of(c, c->node->first_result);
  if (c->node->op != KILN_OP_matmul) {
    kiln_contraction_unflatten(c->kernel, c->m.index, result->rank - 1, result->dims, out_index);
    out_index[result->rank - 1] = c->n.index;
    return;
  }
  uint32_t next = c->batch_rank;
  kiln_contraction_unflatten(c->kernel, c->batch.index, c->batch_rank, result->dims, out_index);
  if (a->rank > 1) out_index[next++] = c->m.index;
  if (b->rank > 1) out_index[next] = c->n.index;
}

const kiln_codegen_context_t *kiln_contraction_context(const kiln_contraction_t *c, uint32_t width) {
  kiln_codegen_context_t *own = kiln_arena_copy(c->kernel->arena, c->context, sizeof *own);
  kiln_symbol_class_t symbols = kiln_grouped_class(c->context->symbol_class, width);
  own->symbol_class = kiln_arena_copy(c->kernel->arena, &symbols, sizeof symbols);
  return own;
}

/* --- operands ------------------------------------------------------------------------------------------ */

/* The index into a matmul's operand: its batch axes, then its matrix. */
static void matrix_index(kiln_contraction_t *c, const kiln_type_t *type, kiln_expr_id_t before_last,
                         kiln_expr_id_t last, kiln_expr_id_t *out_index) {
  kiln_expr_id_t batch[KILN_MAX_RANK];
  kiln_type_t leading = *type;
  leading.rank = type->rank > 2 ? type->rank - 2 : 0;
  kiln_contraction_unflatten(c->kernel, c->batch.index, c->batch_rank,
                             type_of(c, c->node->first_result)->dims, batch);
  kiln_view_broadcast(c->kernel, &leading, c->batch_rank, batch, out_index);
  if (type->rank > 1) out_index[type->rank - 2] = before_last;
  out_index[type->rank - 1] = last;
}

static kiln_status_t lower_operand(kiln_contraction_t *c, uint32_t number, kiln_operand_t *out) {
  kiln_value_id_t value = c->node->operands[number];
  const kiln_type_t *type = type_of(c, value);
  kiln_request_t request = {.value = value, .guard = kiln_condition_true(c->kernel)};
  *out = (kiln_operand_t){
      .name = number ? "b" : "a", .rows = number ? &c->n : &c->m, .row_name = number ? "n" : "m"};
  if (c->node->op == KILN_OP_matmul) {
    bool k_is_last = number == 0 || type->rank == 1;
    matrix_index(c, type, k_is_last ? out->rows->index : c->k.index,
                 k_is_last ? c->k.index : out->rows->index, request.index);
  } else {
    kiln_contraction_unflatten(c->kernel, out->rows->index, type->rank - 1, type->dims, request.index);
    request.index[type->rank - 1] = c->k.index;
  }
  return kiln_lower(c->lowering, &request, &out->scalar);
}

/* --- the group ----------------------------------------------------------------------------------------- */

static kiln_dtype_t accumulator_of(kiln_dtype_t dtype) {
  if (dtype == KILN_DTYPE_f64 || dtype == KILN_DTYPE_i64) return dtype;
  return kiln_dtype_is_float(dtype) ? KILN_DTYPE_f32 : KILN_DTYPE_i32;
}

static const kiln_node_t *find_node(const kiln_graph_t *graph, const kiln_group_t *group) {
  for (uint32_t i = 0; i < group->node_count; i++) {
    if (is_contraction(graph, group->nodes[i])) return &graph->nodes[group->nodes[i]];
  }
  return NULL;
}

static kiln_status_t check_group(const kiln_graph_t *graph, const kiln_group_t *group) {
  kiln_value_id_t stores[MOST_STORES];
  if (group->store_count > MOST_STORES)
    return kiln_error(KILN_INTERNAL, "a contraction with too many stores");
  for (uint32_t i = 0; i < group->store_count; i++) stores[i] = group->stores[i].value;
  const char *refusal =
      kiln_contraction_refusal(graph, group->nodes, group->node_count, stores, group->store_count);
  return refusal ? kiln_error(KILN_INTERNAL, "no contraction kernel: %s", refusal) : NULL;
}

kiln_status_t kiln_contraction_generate(kiln_arena_t *arena, const kiln_graph_t *graph,
                                        const kiln_grouping_t *grouping, const kiln_group_t *group,
                                        const kiln_codegen_context_t *context,
                                        kiln_kernel_source_t *out_kernel) {
  kiln_kernel_t *kernel = kiln_kernel_create(arena, graph);
  kiln_contraction_t c = {.kernel = kernel,
                          .lowering = kiln_lowering_create(kernel, grouping, group),
                          .grouping = grouping,
                          .group = group,
                          .context = context,
                          .node = find_node(graph, group)};
  KILN_TRY(check_group(graph, group));
  c.has_widths = context->grouped && context->grouped->selector_count;
  c.dtype = type_of(&c, c.node->operands[0])->dtype;
  c.accumulator = accumulator_of(c.dtype);
  c.is_tf32 = c.dtype == KILN_DTYPE_f32 && context->options->allow_tf32;
  c.uses_tensor_cores = kiln_dtype_is_half(c.dtype) || c.is_tf32;
  find_space(&c);
  KILN_TRY(lower_operand(&c, 0, &c.a));
  KILN_TRY(lower_operand(&c, 1, &c.b));
  kiln_contraction_plan(&c);
  KILN_TRY(kiln_contraction_build_epilogue(&c));
  KILN_TRY(kiln_contraction_emit(&c, out_kernel));
  if (kernel->overflowed) return kiln_error(KILN_TOO_LARGE, "an offset of a kernel leaves 64 bits");
  return NULL;
}
