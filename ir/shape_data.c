/* ir/shape_data.c: shape rules of the ops that make data (full, iota, constant) and that index it (gather,
 * embedding). */
#include "ir/shape.h"

#include <string.h>

/* --- creation ------------------------------------------------------------------------------------------- */

static kiln_status_t take_shape(const kiln_shape_t *shape) {
  const kiln_attr_value_t *sizes = kiln_shape_attr(shape, KILN_ATTR_shape);
  kiln_type_t *result = &shape->results[0];
  if (sizes->list.count > KILN_MAX_RANK) {
    return kiln_shape_refuse(shape, KILN_RULE_rank, "the result would have rank %u; at most %d is supported",
                             sizes->list.count, KILN_MAX_RANK);
  }
  result->rank = sizes->list.count;
  for (uint32_t i = 0; i < result->rank; i++) result->dims[i] = sizes->list.dims[i];
  return NULL;
}

kiln_status_t kiln_shape_full(const kiln_shape_t *shape) {
  KILN_TRY(take_shape(shape));
  return kiln_shape_value_fits(shape, kiln_shape_attr(shape, KILN_ATTR_value)->number,
                               shape->results[0].dtype);
}

kiln_status_t kiln_shape_iota(const kiln_shape_t *shape) {
  KILN_TRY(take_shape(shape));
  if (shape->results[0].dtype == KILN_DTYPE_bool) {
    return kiln_shape_refuse(shape, KILN_RULE_iota_dtype, "cannot count in bool");
  }
  uint32_t axis;
  return kiln_shape_axis(shape, kiln_shape_attr(shape, KILN_ATTR_dim)->integer, shape->results[0].rank, false,
                         &axis);
}

/* Storage bits as an unsigned number of the dtype's width (64-bit ones in two's complement). */
static kiln_status_t check_bits(const kiln_shape_t *shape, int64_t bits, kiln_dtype_t dtype) {
  size_t width = dtype == KILN_DTYPE_bool ? 1 : 8 * kiln_dtype_bytes(dtype);
  if (width == 64 || !((uint64_t)bits >> width)) return NULL;
  return kiln_shape_refuse(shape, KILN_RULE_value_range, "bits %#llx are more than the %zu of %s",
                           (unsigned long long)bits, width, kiln_dtype_name(dtype));
}

kiln_status_t kiln_shape_constant(const kiln_shape_t *shape) {
  const kiln_attr_value_t *values = kiln_shape_attr(shape, KILN_ATTR_values);
  const kiln_attr_value_t *bits = kiln_shape_attr(shape, KILN_ATTR_bits);
  kiln_type_t *result = &shape->results[0];
  KILN_TRY(take_shape(shape));
  if (!values == !bits) {
    return kiln_shape_refuse(shape, KILN_RULE_constant_data, "needs %s values or bits",
                             bits ? "only one of" : "one of");
  }
  uint32_t count = values ? values->list.count : bits->list.count;
  kiln_dim_t elements;
  if (!kiln_type_elements(shape->arena, result, &elements) || !kiln_dim_is(elements, count)) {
    return kiln_shape_refuse(shape, KILN_RULE_constant_shape, "%u values for %s", count,
                             kiln_shape_type_text(shape, result));
  }
  for (uint32_t i = 0; i < count; i++) {
    KILN_TRY(values ? kiln_shape_value_fits(shape, values->list.numbers[i], result->dtype)
                    : check_bits(shape, bits->list.integers[i], result->dtype));
  }
  return NULL;
}

/* --- indexing ------------------------------------------------------------------------------------------- */

/* elements * size >= elements holds exactly when the axis is not empty or nothing indexes it. */
static kiln_status_t check_not_empty(const kiln_shape_t *shape, const kiln_type_t *index, kiln_dim_t size) {
  if (kiln_dim_provably_ge(size, kiln_dim_constant(1))) return NULL;
  kiln_dim_t elements, scaled;
  if (!kiln_type_elements(shape->arena, index, &elements)) {
    return kiln_shape_refuse(shape, KILN_RULE_size_overflow, "the index is too large");
  }
  KILN_TRY(kiln_shape_mul(shape, elements, size, &scaled));
  return kiln_shape_require_ge(shape, KILN_RULE_index_empty, scaled, elements, KILN_NO_AXIS,
                               "an empty axis is indexed");
}

kiln_status_t kiln_shape_gather(const kiln_shape_t *shape) {
  const kiln_type_t *x = shape->operands[0], *index = shape->operands[1];
  if (!x->rank || x->rank != index->rank) {
    return kiln_shape_refuse(shape, KILN_RULE_gather_shape, "x has rank %u, the index rank %u", x->rank,
                             index->rank);
  }
  uint32_t axis;
  KILN_TRY(kiln_shape_axis(shape, kiln_shape_attr(shape, KILN_ATTR_dim)->integer, x->rank, false, &axis));
  for (uint32_t i = 0; i < x->rank; i++) {
    if (i == axis) continue;
    KILN_TRY(kiln_shape_require_ge(shape, KILN_RULE_gather_shape, x->dims[i], index->dims[i], i,
                                   "the index is longer than x off the axis"));
  }
  KILN_TRY(check_not_empty(shape, index, x->dims[axis]));
  kiln_dtype_t dtype = shape->results[0].dtype;
  shape->results[0] = *index;
  shape->results[0].dtype = dtype;
  return NULL;
}

kiln_status_t kiln_shape_embedding(const kiln_shape_t *shape) {
  const kiln_type_t *table = shape->operands[0], *ids = shape->operands[1];
  kiln_type_t *result = &shape->results[0];
  if (!table->rank) return kiln_shape_refuse(shape, KILN_RULE_embedding_table, "the table has rank 0");
  uint32_t rank = ids->rank + table->rank - 1;
  if (rank > KILN_MAX_RANK) {
    return kiln_shape_refuse(shape, KILN_RULE_rank, "the result would have rank %u; at most %d is supported",
                             rank, KILN_MAX_RANK);
  }
  KILN_TRY(check_not_empty(shape, ids, table->dims[0]));
  result->rank = rank;
  for (uint32_t i = 0; i < rank; i++) {
    result->dims[i] = i < ids->rank ? ids->dims[i] : table->dims[i - ids->rank + 1];
  }
  return NULL;
}
