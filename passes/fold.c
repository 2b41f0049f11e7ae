/* passes/fold.c: computes what depends on constants only.
 *
 *   %a = full() {shape=[], value=2.0, dtype=f32}; %b = mul(%a, %a)       ->   %b = full() {shape=[],
 * value=4.0, dtype=f32} %c = constant() {shape=[2], dtype=i32, values=[1,2]}; %d = neg(%c)   ->   %d =
 * constant() {..., bits=[...]}
 *
 * The reference evaluator computes; only results that it knows exactly (bound 0 everywhere) are taken, so
 * that a device would have had the same bits. Element-wise nodes of `full`s give a `full` of any size; others
 * a `constant` of at most 64 KiB, and a view never one that is larger than what it views. iota is left alone:
 * computing it beats reading it. Counts folded nodes.
 */
#include <math.h>
#include <string.h>

#include "ir/number.h"
#include "ir/reference.h"
#include "passes/rewrite.h"

enum { CONSTANT_LIMIT_BYTES = 64 << 10, EVALUATION_LIMIT_BYTES = 1 << 20 };

/* The bytes of a type without symbols; false past the limit for constants. */
static bool small_bytes(const kiln_type_t *type, uint64_t *out_bytes) {
  uint64_t bytes = kiln_dtype_bytes(type->dtype);
  for (uint32_t i = 0; i < type->rank; i++) {
    if (!kiln_dim_is_constant(type->dims[i])) return false;
    uint64_t size = (uint64_t)type->dims[i].constant;
    if (size > CONSTANT_LIMIT_BYTES) return false;
    bytes *= size;
    if (bytes > CONSTANT_LIMIT_BYTES) return false;
  }
  *out_bytes = bytes;
  return bytes > 0;
}

/* Element `index` of the tensor as its storage bits. */
static int64_t bits_at(const kiln_tensor_t *tensor, int64_t index) {
  return (int64_t)kiln_bits_read(tensor->data, index, tensor->dtype);
}

/* Evaluates the node on its operands' own nodes; with scalars, on their numbers alone. False unless exact. */
static bool evaluate(rewrite_t *rw, const draft_t *draft, bool scalars, kiln_tensor_t *out) {
  kiln_graph_builder_t *builder = kiln_graph_builder_create(rw->arena, "fold");
  kiln_value_id_t *operands = KILN_NEW_ARRAY(rw->arena, kiln_value_id_t, draft->operand_count);
  for (uint32_t i = 0; i < draft->operand_count; i++) {
    const kiln_node_t *node = kiln_graph_builder_producer(rw->builder, draft->operands[i]);
    kiln_type_t type = *rewrite_type(rw, draft->operands[i]);
    kiln_attr_value_t attrs[KILN_ATTR_COUNT];
    memcpy(attrs, node->attrs, node->attr_count * sizeof *attrs);
    for (uint32_t a = 0; scalars && a < node->attr_count; a++) {
      if (attrs[a].attr == KILN_ATTR_shape) attrs[a].list.count = 0;
    }
    if (scalars) type.rank = 0;
    operands[i] = kiln_graph_builder_node(builder, node->op, NULL, 0, attrs, node->attr_count, &type, 1, 0);
  }
  kiln_type_t type = draft->type;
  if (scalars) type.rank = 0;
  kiln_value_id_t result = kiln_graph_builder_node(builder, draft->op, operands, draft->operand_count,
                                                   draft->attrs, draft->attr_count, &type, 1, 0);
  kiln_graph_builder_output(builder, result, NULL);
  kiln_reference_t reference;
  kiln_status_t refused = kiln_reference_run(rw->arena, kiln_graph_builder_finish(builder), NULL, NULL,
                                             EVALUATION_LIMIT_BYTES, &reference);
  kiln_status_free(refused);
  if (refused) return false;
  for (int64_t i = 0, n = kiln_tensor_elements(&reference.value); i < n; i++) {
    if (reference.bound[i] != 0) return false;
    bool is_bool = reference.value.dtype == KILN_DTYPE_bool;
    if (is_bool && bits_at(&reference.value, i) > 1)
      return false; /* a bitcast can make such a bool, no constant can */
  }
  *out = reference.value;
  return true;
}

static bool operands_are(const rewrite_t *rw, const draft_t *draft, bool only_full) {
  for (uint32_t i = 0; i < draft->operand_count; i++) {
    if (rewrite_match(rw, draft->operands[i], KILN_OP_full)) continue;
    if (only_full || !rewrite_match(rw, draft->operands[i], KILN_OP_constant)) return false;
  }
  return draft->operand_count > 0;
}

static bool fold_to_full(rewrite_t *rw, draft_t *draft) {
  kiln_tensor_t tensor;
  if (kiln_op_info(draft->op)->op_class != KILN_CLASS_ELEMENTWISE || !operands_are(rw, draft, true))
    return false;
  if (!evaluate(rw, draft, true, &tensor)) return false;
  kiln_number_t number = kiln_number_from_bits((uint64_t)bits_at(&tensor, 0), tensor.dtype);
  return !isnan(number.real) &&
         draft_full(rw, draft, number); /* a NaN would not keep its payload as a number */
}

static bool fold_to_constant(rewrite_t *rw, draft_t *draft) {
  uint64_t bytes, operand_bytes = 0;
  kiln_tensor_t tensor;
  if (!operands_are(rw, draft, false) || !small_bytes(&draft->type, &bytes)) return false;
  for (uint32_t i = 0; i < draft->operand_count; i++) {
    uint64_t more = 0;
    if (rewrite_match(rw, draft->operands[i], KILN_OP_constant))
      small_bytes(rewrite_type(rw, draft->operands[i]), &more);
    operand_bytes += more;
  }
  if (kiln_op_info(draft->op)->op_class == KILN_CLASS_VIEW && bytes > operand_bytes) return false;
  if (!evaluate(rw, draft, false, &tensor)) return false;
  uint32_t count = (uint32_t)(bytes / kiln_dtype_bytes(draft->type.dtype));
  int64_t *bits = KILN_NEW_ARRAY(rw->arena, int64_t, count);
  for (uint32_t i = 0; i < count; i++) bits[i] = bits_at(&tensor, i);
  kiln_attr_value_t attrs[] = {
      attr_dtype(draft->type.dtype),
      attr_dims(KILN_ATTR_shape, draft->type.dims, draft->type.rank),
      attr_ints(KILN_ATTR_bits, bits, count),
  };
  return draft_set(rw, draft, KILN_OP_constant, NULL, 0, attrs, 3);
}

const kiln_graph_t *kiln_pass_fold(kiln_pass_context_t *context, const kiln_graph_t *graph) {
  if (!graph_has(graph, KILN_OP_full) && !graph_has(graph, KILN_OP_constant)) return graph;
  rewrite_t rw = rewrite_begin(context, graph);
  for (uint32_t n = 0; n < graph->node_count; n++) {
    const kiln_node_t *node = &graph->nodes[n];
    if (node->result_count != 1) {
      rewrite_copy(&rw, node);
      continue;
    }
    draft_t draft = rewrite_draft(&rw, node);
    if (fold_to_full(&rw, &draft) || fold_to_constant(&rw, &draft)) context->applied++;
    rw.map[node->first_result] = rewrite_place(&rw, &draft);
  }
  return rewrite_finish(&rw);
}
