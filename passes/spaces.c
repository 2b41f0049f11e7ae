/* passes/spaces.c: iteration spaces compared by shape (passes/spaces.h). */
#include "passes/spaces.h"

static uint32_t axis_of(int64_t dim, uint32_t rank) { return (uint32_t)(dim < 0 ? dim + rank : dim); }

/* The axes of its first operand that a reduction or a normalization runs over, as bits. */
static uint32_t reduced_axes(const kiln_graph_t *graph, const kiln_node_t *node) {
  uint32_t rank = graph->types[node->operands[0]].rank, all = (1u << rank) - 1, axes = 0;
  const kiln_attr_value_t *dim = kiln_node_attr(node, KILN_ATTR_dim);
  const kiln_attr_value_t *dims = kiln_node_attr(node, KILN_ATTR_dims);
  const kiln_attr_value_t *normalized = kiln_node_attr(node, KILN_ATTR_normalized_shape);
  if (normalized) return all & ~(all >> normalized->list.count);
  if (dim) return rank ? 1u << axis_of(dim->integer, rank) : 0;
  for (uint32_t i = 0; dims && i < dims->list.count; i++) axes |= 1u << axis_of(dims->list.integers[i], rank);
  return dims ? axes : all;
}

space_t space_of_node(const kiln_graph_t *graph, const kiln_node_t *node, form_t *out_form) {
  kiln_op_class_t op_class = kiln_op_info(node->op)->op_class;
  bool is_rows = op_class != KILN_CLASS_CONTRACTION;
  const kiln_type_t *type = &graph->types[is_rows ? node->operands[0] : node->first_result];
  uint32_t axes = is_rows ? reduced_axes(graph, node) : 0;
  space_t space = {.is_rows = is_rows};
  for (uint32_t i = 0; i < type->rank; i++) {
    if (kiln_dim_is(type->dims[i], 1)) continue;
    if (axes >> i & 1) space.reduced |= 1u << space.rank;
    space.dims[space.rank++] = type->dims[i];
  }
  *out_form = op_class == KILN_CLASS_REDUCTION ? FORM_KEPT : FORM_FULL;
  return space;
}

bool spaces_equal(const space_t *a, const space_t *b) {
  if (a->is_rows != b->is_rows || a->rank != b->rank || a->reduced != b->reduced) return false;
  for (uint32_t i = 0; i < a->rank; i++) {
    if (!kiln_dim_equal(a->dims[i], b->dims[i])) return false;
  }
  return true;
}

static bool is_in_form(const space_t *space, uint32_t axis, form_t form) {
  return form == FORM_FULL || !(space->reduced >> axis & 1);
}

bool has_form(const space_t *space, const kiln_type_t *type, form_t form) {
  uint32_t axis = 0;
  for (uint32_t i = 0; i < type->rank; i++) {
    if (kiln_dim_is(type->dims[i], 1)) continue;
    while (axis < space->rank && !is_in_form(space, axis, form)) axis++;
    if (axis == space->rank || !kiln_dim_equal(type->dims[i], space->dims[axis++])) return false;
  }
  while (axis < space->rank && !is_in_form(space, axis, form)) axis++;
  return axis == space->rank;
}

bool stays_in_place(const space_t *space, const kiln_type_t *operand, form_t form, const kiln_type_t *result,
                    form_t result_form) {
  if (operand->rank > result->rank || !has_form(space, result, result_form)) return false;
  uint32_t added = result->rank - operand->rank, axis = 0;
  for (uint32_t i = 0; i < result->rank; i++) {
    bool is_there = i >= added && !kiln_dim_is(operand->dims[i - added], 1);
    if (kiln_dim_is(result->dims[i], 1)) continue;
    while (!is_in_form(space, axis, result_form)) axis++;
    if (is_there != is_in_form(space, axis++, form)) return false;
  }
  return true;
}
