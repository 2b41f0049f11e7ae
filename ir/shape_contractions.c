/* ir/shape_contractions.c: shape rules of gemm_rcr with its epilogues and of matmul (NumPy's rule). */
#include "ir/shape.h"

#include <math.h>

static kiln_status_t check_out(const kiln_shape_t *shape) {
  kiln_dtype_t in = shape->operands[0]->dtype, out = shape->results[0].dtype;
  bool both_float = kiln_dtype_is_float(in) && kiln_dtype_is_float(out);
  if (in == out || both_float || (in == KILN_DTYPE_i8 && out == KILN_DTYPE_i32)) return NULL;
  return kiln_shape_refuse(shape, KILN_RULE_contraction_out, "a contraction of %s cannot give %s",
                           kiln_dtype_name(in), kiln_dtype_name(out));
}

static kiln_status_t check_alpha(const kiln_shape_t *shape) {
  const kiln_attr_value_t *alpha = kiln_shape_attr(shape, KILN_ATTR_alpha);
  if (!alpha || kiln_dtype_is_float(shape->operands[0]->dtype)) return NULL;
  if (alpha->real == rint(alpha->real) && fabs(alpha->real) <= 0x1p53) return NULL;
  return kiln_shape_refuse(shape, KILN_RULE_contraction_alpha, "alpha=%g of an integer contraction",
                           alpha->real);
}

static kiln_status_t check_inner(const kiln_shape_t *shape, kiln_dim_t a, kiln_dim_t b) {
  if (kiln_dim_equal(a, b)) return NULL;
  return kiln_shape_refuse(shape, KILN_RULE_contraction_inner, "the summed axes have sizes %s and %s",
                           kiln_shape_dim_text(shape, a), kiln_shape_dim_text(shape, b));
}

static kiln_status_t refuse_ranks(const kiln_shape_t *shape) {
  return kiln_shape_refuse(shape, KILN_RULE_contraction_rank, "does not take %s and %s",
                           kiln_shape_type_text(shape, shape->operands[0]),
                           kiln_shape_type_text(shape, shape->operands[1]));
}

/* a[..,M,K], b[N,K], bias[N] -> [..,M,N] */
kiln_status_t kiln_shape_gemm(const kiln_shape_t *shape) {
  const kiln_type_t *a = shape->operands[0], *b = shape->operands[1];
  if (a->rank < 2 || b->rank != 2) return refuse_ranks(shape);
  KILN_TRY(check_inner(shape, a->dims[a->rank - 1], b->dims[1]));
  const kiln_type_t *bias = shape->operand_count > 2 ? shape->operands[2] : NULL;
  if (bias && (bias->rank != 1 || !kiln_dim_equal(bias->dims[0], b->dims[0]))) {
    return kiln_shape_refuse(shape, KILN_RULE_bias_shape, "the bias is %s for %s columns",
                             kiln_shape_type_text(shape, bias), kiln_shape_dim_text(shape, b->dims[0]));
  }
  KILN_TRY(check_out(shape));
  KILN_TRY(check_alpha(shape));
  kiln_type_t result = *a;
  result.dtype = shape->results[0].dtype;
  result.dims[result.rank - 1] = b->dims[0];
  shape->results[0] = result;
  return NULL;
}

/* The leading axes of a matrix operand. */
static kiln_type_t batch_of(const kiln_type_t *type) {
  kiln_type_t batch = *type;
  batch.rank = type->rank > 2 ? type->rank - 2 : 0;
  return batch;
}

/* a[..,M,K], b[..,K,N] -> [..,M,N]; a vector operand is a row (a) or a column (b) whose axis the result
 * lacks. */
kiln_status_t kiln_shape_matmul(const kiln_shape_t *shape) {
  const kiln_type_t *a = shape->operands[0], *b = shape->operands[1];
  if (!a->rank || !b->rank) return refuse_ranks(shape);
  KILN_TRY(check_inner(shape, a->dims[a->rank - 1], b->dims[b->rank > 1 ? b->rank - 2 : 0]));
  KILN_TRY(check_out(shape));
  kiln_type_t result = batch_of(a), batch = batch_of(b);
  KILN_TRY(kiln_shape_broadcast(shape, &result, &batch));
  if (a->rank > 1) result.dims[result.rank++] = a->dims[a->rank - 2];
  if (b->rank > 1) result.dims[result.rank++] = b->dims[b->rank - 1];
  result.dtype = shape->results[0].dtype;
  shape->results[0] = result;
  return NULL;
}
