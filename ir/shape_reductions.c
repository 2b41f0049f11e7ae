/* ir/shape_reductions.c: shape rules of reductions and normalizations. A scalar reduces over dim 0 or -1, as
 * in PyTorch. */
#include "ir/shape.h"

/* The axes that a reduction folds: all of them when neither dims nor dim is given. */
static kiln_status_t reduced_axes(const kiln_shape_t *shape, uint32_t *out_axes) {
  uint32_t rank = shape->operands[0]->rank, axis;
  const kiln_attr_value_t *dims = kiln_shape_attr(shape, KILN_ATTR_dims),
                          *dim = kiln_shape_attr(shape, KILN_ATTR_dim);
  if (dims) return kiln_shape_axes(shape, dims, rank, true, out_axes);
  *out_axes = (1u << rank) - 1;
  if (!dim) return NULL;
  KILN_TRY(kiln_shape_axis(shape, dim->integer, rank, true, &axis));
  *out_axes = 1u << axis;
  return NULL;
}

static bool needs_an_element(kiln_op_t op) {
  return op == KILN_OP_amax || op == KILN_OP_amin || op == KILN_OP_argmax || op == KILN_OP_argmin;
}

kiln_status_t kiln_shape_reduction(const kiln_shape_t *shape) {
  const kiln_type_t *x = shape->operands[0];
  const kiln_attr_value_t *keepdim = kiln_shape_attr(shape, KILN_ATTR_keepdim);
  kiln_type_t *result = &shape->results[0];
  uint32_t axes;
  KILN_TRY(reduced_axes(shape, &axes));
  for (uint32_t i = 0; i < x->rank; i++) {
    if (!(axes >> i & 1)) {
      result->dims[result->rank++] = x->dims[i];
      continue;
    }
    if (keepdim && keepdim->flag) result->dims[result->rank++] = kiln_dim_constant(1);
    if (!needs_an_element(shape->op)) continue;
    KILN_TRY(kiln_shape_require_ge(shape, KILN_RULE_reduction_empty, x->dims[i], kiln_dim_constant(1), i,
                                   "an extreme of nothing"));
  }
  return NULL;
}

kiln_status_t kiln_shape_softmax(const kiln_shape_t *shape) {
  uint32_t axis;
  shape->results[0] = *shape->operands[0];
  return kiln_shape_axis(shape, kiln_shape_attr(shape, KILN_ATTR_dim)->integer, shape->results[0].rank, true,
                         &axis);
}

static bool has_dims(const kiln_type_t *type, uint32_t first, const kiln_attr_value_t *sizes) {
  if (type->rank - first != sizes->list.count) return false;
  for (uint32_t i = 0; i < sizes->list.count; i++) {
    if (!kiln_dim_equal(type->dims[first + i], sizes->list.dims[i])) return false;
  }
  return true;
}

kiln_status_t kiln_shape_normalization(const kiln_shape_t *shape) {
  const kiln_type_t *x = shape->operands[0];
  const kiln_attr_value_t *sizes = kiln_shape_attr(shape, KILN_ATTR_normalized_shape);
  uint32_t count = sizes->list.count;
  if (!count || count > x->rank || !has_dims(x, x->rank - count, sizes)) {
    return kiln_shape_refuse(shape, KILN_RULE_normalized_shape,
                             "normalized_shape is not the end of the shape of %s",
                             kiln_shape_type_text(shape, x));
  }
  for (uint32_t i = 1; i < shape->operand_count; i++) {
    if (!shape->operands[i] || has_dims(shape->operands[i], 0, sizes)) continue;
    return kiln_shape_refuse(shape, KILN_RULE_affine_shape,
                             "operand %u is %s, which is not the normalized shape", i,
                             kiln_shape_type_text(shape, shape->operands[i]));
  }
  shape->results[0] = *x;
  return NULL;
}
