/* ir/shape_views.c: shape rules of the ops that only move elements. Sizes are dimension expressions
 * throughout. */
#include "ir/shape.h"

static kiln_status_t check_length(const kiln_shape_t *shape, kiln_attr_t attr, uint32_t rank) {
  const kiln_attr_value_t *list = kiln_shape_attr(shape, attr);
  if (!list || list->list.count == rank) return NULL;
  return kiln_shape_refuse(shape, KILN_RULE_list_length, "%s has %u entries for an operand of rank %u",
                           kiln_attr_name(attr), list->list.count, rank);
}

/* The rank of a result, before its dims are written into an array of KILN_MAX_RANK. */
static kiln_status_t set_rank(const kiln_shape_t *shape, uint32_t rank) {
  if (rank > KILN_MAX_RANK) {
    return kiln_shape_refuse(shape, KILN_RULE_rank, "the result would have rank %u; at most %d is supported",
                             rank, KILN_MAX_RANK);
  }
  shape->results[0].rank = rank;
  return NULL;
}

/* --- reshape -------------------------------------------------------------------------------------------- */

/* Solves for the one -1: elements / the product of the others. */
static kiln_status_t infer_size(const kiln_shape_t *shape, kiln_dim_t elements, kiln_dim_t others,
                                kiln_dim_t *out) {
  if (kiln_dim_is(others, 0)) {
    return kiln_shape_refuse(shape, KILN_RULE_reshape_inferred, "-1 is any size when another is 0");
  }
  if (kiln_dim_div(shape->arena, elements, others, out)) return NULL;
  return kiln_shape_refuse(shape, KILN_RULE_reshape_elements, "%s elements do not divide by %s",
                           kiln_shape_dim_text(shape, elements), kiln_shape_dim_text(shape, others));
}

kiln_status_t kiln_shape_reshape(const kiln_shape_t *shape) {
  const kiln_attr_value_t *sizes = kiln_shape_attr(shape, KILN_ATTR_shape);
  kiln_type_t *result = &shape->results[0];
  KILN_TRY(set_rank(shape, sizes->list.count));
  kiln_dim_t elements, others = kiln_dim_constant(1);
  if (!kiln_type_elements(shape->arena, shape->operands[0], &elements)) {
    return kiln_shape_refuse(shape, KILN_RULE_size_overflow, "the operand is too large");
  }
  kiln_dim_t *inferred = NULL;
  for (uint32_t i = 0; i < result->rank; i++) {
    result->dims[i] = sizes->list.dims[i];
    if (!kiln_dim_is(result->dims[i], -1)) {
      KILN_TRY(kiln_shape_mul(shape, others, result->dims[i], &others));
    } else if (inferred) {
      return kiln_shape_refuse(shape, KILN_RULE_reshape_inferred, "only one size may be -1");
    } else {
      inferred = &result->dims[i];
    }
  }
  if (inferred) return infer_size(shape, elements, others, inferred);
  if (kiln_dim_equal(elements, others)) return NULL;
  return kiln_shape_refuse(shape, KILN_RULE_reshape_elements, "the operand has %s elements, the shape %s",
                           kiln_shape_dim_text(shape, elements), kiln_shape_dim_text(shape, others));
}

/* --- moving, dropping and adding axes ------------------------------------------------------------------- */

kiln_status_t kiln_shape_permute(const kiln_shape_t *shape) {
  const kiln_type_t *x = shape->operands[0];
  const kiln_attr_value_t *dims = kiln_shape_attr(shape, KILN_ATTR_dims);
  uint32_t axes;
  KILN_TRY(kiln_shape_axes(shape, dims, x->rank, false, &axes));
  if (dims->list.count != x->rank) {
    return kiln_shape_refuse(shape, KILN_RULE_permute_dims, "dims names %u of %u axes", dims->list.count,
                             x->rank);
  }
  KILN_TRY(set_rank(shape, x->rank));
  for (uint32_t i = 0; i < x->rank; i++) {
    uint32_t axis;
    KILN_TRY(kiln_shape_axis(shape, dims->list.integers[i], x->rank, false, &axis));
    shape->results[0].dims[i] = x->dims[axis];
  }
  return NULL;
}

kiln_status_t kiln_shape_squeeze(const kiln_shape_t *shape) {
  const kiln_type_t *x = shape->operands[0];
  kiln_type_t *result = &shape->results[0];
  uint32_t axes;
  KILN_TRY(kiln_shape_axes(shape, kiln_shape_attr(shape, KILN_ATTR_dims), x->rank, false, &axes));
  for (uint32_t i = 0; i < x->rank; i++) {
    if (!(axes >> i & 1)) {
      result->dims[result->rank++] = x->dims[i];
    } else if (!kiln_dim_is(x->dims[i], 1)) {
      return kiln_shape_refuse(shape, KILN_RULE_squeeze_size, "axis %u has size %s, not 1", i,
                               kiln_shape_dim_text(shape, x->dims[i]));
    }
  }
  return NULL;
}

kiln_status_t kiln_shape_broadcast_axes(const kiln_shape_t *shape) {
  const kiln_type_t *x = shape->operands[0];
  const kiln_attr_value_t *dims = kiln_shape_attr(shape, KILN_ATTR_dims);
  kiln_type_t *result = &shape->results[0];
  KILN_TRY(set_rank(shape, x->rank + dims->list.count));
  uint32_t axes, next = 0;
  KILN_TRY(kiln_shape_axes(shape, dims, result->rank, false, &axes));
  for (uint32_t i = 0; i < result->rank; i++) {
    result->dims[i] = axes >> i & 1 ? kiln_dim_constant(1) : x->dims[next++];
  }
  return NULL;
}

kiln_status_t kiln_shape_expand(const kiln_shape_t *shape) {
  const kiln_type_t *x = shape->operands[0];
  const kiln_attr_value_t *sizes = kiln_shape_attr(shape, KILN_ATTR_shape);
  kiln_type_t *result = &shape->results[0];
  KILN_TRY(set_rank(shape, sizes->list.count));
  if (result->rank < x->rank) {
    return kiln_shape_refuse(shape, KILN_RULE_expand_shape, "the shape has %u axes, the operand %u",
                             result->rank, x->rank);
  }
  uint32_t added = result->rank - x->rank;
  for (uint32_t i = 0; i < result->rank; i++) {
    kiln_dim_t wanted = sizes->list.dims[i], old = i < added ? kiln_dim_constant(1) : x->dims[i - added];
    if (i < added && kiln_dim_is(wanted, -1)) {
      return kiln_shape_refuse(shape, KILN_RULE_expand_shape, "-1 keeps a size, and axis %u is new", i);
    }
    if (kiln_dim_is(wanted, -1)) wanted = old;
    if (!kiln_dim_is(old, 1) && !kiln_dim_equal(old, wanted)) {
      return kiln_shape_refuse(shape, KILN_RULE_expand_shape, "axis %u has size %s and cannot become %s",
                               i - added, kiln_shape_dim_text(shape, old),
                               kiln_shape_dim_text(shape, wanted));
    }
    result->dims[i] = wanted;
  }
  return NULL;
}

kiln_status_t kiln_shape_reverse(const kiln_shape_t *shape) {
  uint32_t axes;
  KILN_TRY(
      kiln_shape_axes(shape, kiln_shape_attr(shape, KILN_ATTR_dims), shape->operands[0]->rank, false, &axes));
  shape->results[0] = *shape->operands[0];
  return NULL;
}

/* --- slice and pad -------------------------------------------------------------------------------------- */

/* ceil(extent / step) */
static kiln_status_t divide_by_step(const kiln_shape_t *shape, kiln_dim_t extent, int64_t step,
                                    kiln_dim_t *out) {
  if (step < 1) {
    return kiln_shape_refuse(shape, KILN_RULE_slice_step, "step %lld is less than 1", (long long)step);
  }
  if (kiln_dim_is_constant(extent)) {
    *out = kiln_dim_constant(extent.constant / step + (extent.constant % step > 0));
    return NULL;
  }
  if (kiln_dim_div(shape->arena, extent, kiln_dim_constant(step), out)) return NULL;
  return kiln_shape_refuse(shape, KILN_RULE_slice_step, "step %lld does not divide the extent %s exactly",
                           (long long)step, kiln_shape_dim_text(shape, extent));
}

static kiln_status_t slice_axis(const kiln_shape_t *shape, uint32_t axis, kiln_dim_t start, kiln_dim_t limit,
                                int64_t step, kiln_dim_t *out) {
  KILN_TRY(kiln_shape_require_ge(shape, KILN_RULE_slice_bounds, start, kiln_dim_constant(0), axis,
                                 "a start is negative"));
  KILN_TRY(kiln_shape_require_ge(shape, KILN_RULE_slice_bounds, limit, start, axis,
                                 "a limit lies before its start"));
  KILN_TRY(kiln_shape_require_ge(shape, KILN_RULE_slice_bounds, shape->operands[0]->dims[axis], limit, axis,
                                 "a limit passes the size"));
  kiln_dim_t extent;
  if (!kiln_dim_sub(shape->arena, limit, start, &extent)) {
    return kiln_shape_refuse(shape, KILN_RULE_size_overflow, "limit - start leaves 64 bits");
  }
  return divide_by_step(shape, extent, step, out);
}

kiln_status_t kiln_shape_slice(const kiln_shape_t *shape) {
  const kiln_type_t *x = shape->operands[0];
  const kiln_attr_value_t *starts = kiln_shape_attr(shape, KILN_ATTR_starts);
  const kiln_attr_value_t *limits = kiln_shape_attr(shape, KILN_ATTR_limits);
  const kiln_attr_value_t *steps = kiln_shape_attr(shape, KILN_ATTR_steps);
  KILN_TRY(check_length(shape, KILN_ATTR_starts, x->rank));
  KILN_TRY(check_length(shape, KILN_ATTR_limits, x->rank));
  KILN_TRY(check_length(shape, KILN_ATTR_steps, x->rank));
  KILN_TRY(set_rank(shape, x->rank));
  for (uint32_t i = 0; i < x->rank; i++) {
    int64_t step = steps ? steps->list.integers[i] : 1;
    KILN_TRY(
        slice_axis(shape, i, starts->list.dims[i], limits->list.dims[i], step, &shape->results[0].dims[i]));
  }
  return NULL;
}

kiln_status_t kiln_shape_pad(const kiln_shape_t *shape) {
  const kiln_type_t *x = shape->operands[0];
  const kiln_attr_value_t *low = kiln_shape_attr(shape, KILN_ATTR_low),
                          *high = kiln_shape_attr(shape, KILN_ATTR_high);
  const kiln_attr_value_t *value = kiln_shape_attr(shape, KILN_ATTR_value);
  KILN_TRY(check_length(shape, KILN_ATTR_low, x->rank));
  KILN_TRY(check_length(shape, KILN_ATTR_high, x->rank));
  if (value) KILN_TRY(kiln_shape_value_fits(shape, value->number, x->dtype));
  KILN_TRY(set_rank(shape, x->rank));
  kiln_dim_t zero = kiln_dim_constant(0);
  for (uint32_t i = 0; i < x->rank; i++) {
    kiln_dim_t *size = &shape->results[0].dims[i];
    KILN_TRY(kiln_shape_require_ge(shape, KILN_RULE_pad_negative, low->list.dims[i], zero, i,
                                   "a width is negative"));
    KILN_TRY(kiln_shape_require_ge(shape, KILN_RULE_pad_negative, high->list.dims[i], zero, i,
                                   "a width is negative"));
    KILN_TRY(kiln_shape_add(shape, x->dims[i], low->list.dims[i], size));
    KILN_TRY(kiln_shape_add(shape, *size, high->list.dims[i], size));
  }
  return NULL;
}

/* --- cat, split and repeat ------------------------------------------------------------------------------ */

static kiln_status_t check_cat_operand(const kiln_shape_t *shape, uint32_t index, uint32_t axis) {
  const kiln_type_t *first = shape->operands[0], *other = shape->operands[index];
  if (other->rank != first->rank) {
    return kiln_shape_refuse(shape, KILN_RULE_cat_shapes, "operand %u has rank %u, operand 0 has rank %u",
                             index, other->rank, first->rank);
  }
  for (uint32_t i = 0; i < first->rank; i++) {
    if (i == axis || kiln_dim_equal(first->dims[i], other->dims[i])) continue;
    return kiln_shape_refuse(shape, KILN_RULE_cat_shapes,
                             "operand %u is %s, operand 0 is %s: axis %u differs", index,
                             kiln_shape_type_text(shape, other), kiln_shape_type_text(shape, first), i);
  }
  return NULL;
}

kiln_status_t kiln_shape_cat(const kiln_shape_t *shape) {
  const kiln_type_t *first = shape->operands[0];
  if (!first->rank) return kiln_shape_refuse(shape, KILN_RULE_cat_shapes, "operand 0 has rank 0");
  uint32_t axis;
  KILN_TRY(kiln_shape_axis(shape, kiln_shape_attr(shape, KILN_ATTR_dim)->integer, first->rank, false, &axis));
  shape->results[0] = *first;
  kiln_dim_t *size = &shape->results[0].dims[axis];
  for (uint32_t i = 1; i < shape->operand_count; i++) {
    KILN_TRY(check_cat_operand(shape, i, axis));
    KILN_TRY(kiln_shape_add(shape, *size, shape->operands[i]->dims[axis], size));
  }
  return NULL;
}

kiln_status_t kiln_shape_split(const kiln_shape_t *shape) {
  const kiln_type_t *x = shape->operands[0];
  const kiln_attr_value_t *sizes = kiln_shape_attr(shape, KILN_ATTR_sizes);
  uint32_t axis;
  KILN_TRY(kiln_shape_axis(shape, kiln_shape_attr(shape, KILN_ATTR_dim)->integer, x->rank, false, &axis));
  kiln_dim_t sum = kiln_dim_constant(0);
  for (uint32_t i = 0; i < sizes->list.count; i++) {
    KILN_TRY(kiln_shape_add(shape, sum, sizes->list.dims[i], &sum));
    shape->results[i] = *x;
    shape->results[i].dims[axis] = sizes->list.dims[i];
  }
  if (kiln_dim_equal(sum, x->dims[axis])) return NULL;
  return kiln_shape_refuse(shape, KILN_RULE_split_sizes, "the sizes add up to %s, axis %u has size %s",
                           kiln_shape_dim_text(shape, sum), axis, kiln_shape_dim_text(shape, x->dims[axis]));
}

kiln_status_t kiln_shape_repeat(const kiln_shape_t *shape) {
  const kiln_type_t *x = shape->operands[0];
  const kiln_attr_value_t *times = kiln_shape_attr(shape, KILN_ATTR_times);
  kiln_type_t *result = &shape->results[0];
  KILN_TRY(set_rank(shape, times->list.count));
  if (result->rank < x->rank) {
    return kiln_shape_refuse(shape, KILN_RULE_repeat_times, "times has %u entries for an operand of rank %u",
                             result->rank, x->rank);
  }
  uint32_t added = result->rank - x->rank;
  for (uint32_t i = 0; i < result->rank; i++) {
    int64_t count = times->list.integers[i];
    if (count < 0)
      return kiln_shape_refuse(shape, KILN_RULE_repeat_times, "%lld is negative", (long long)count);
    kiln_dim_t old = i < added ? kiln_dim_constant(1) : x->dims[i - added];
    KILN_TRY(kiln_shape_mul(shape, old, kiln_dim_constant(count), &result->dims[i]));
  }
  return NULL;
}
