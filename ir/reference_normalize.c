/* ir/reference_normalize.c: softmax, log_softmax, layernorm, rmsnorm, layernorm_sigmoid_mul: one node, one
 * rounding.
 *
 * Rows are copied into doubles, evaluated in long double and bounded by what a kernel that works in the
 * arithmetic type may do on the way. The derivations stand in docs/numerics.md under the names used here.
 */
#include "ir/reference_impl.h"

/* One row of the operand: count values, `stride` elements apart. */
typedef struct {
  const kiln_ref_call_t *call;
  const kiln_ref_value_t *operand;
  kiln_dtype_t dtype;
  int64_t offset, stride, count;
  double *x, *e;       /* values, and the errors they carry */
  double widest_error; /* of all e */
  bool is_finite;
} row_t;

static void load_row(row_t *row, int64_t offset) {
  row->offset = offset;
  row->widest_error = 0;
  row->is_finite = true;
  for (int64_t i = 0; i < row->count; i++) {
    kiln_ref_scalar_t scalar = kiln_ref_read(row->operand, offset + i * row->stride);
    row->x[i] = scalar.real;
    row->e[i] = kiln_ref_error(row->dtype, scalar.bound);
    row->widest_error = fmax(row->widest_error, row->e[i]);
    row->is_finite &= isfinite(scalar.real);
  }
}

static void settle_in_row(const row_t *row, int64_t i, long double value, double error) {
  kiln_ref_settle(row->call->run, row->call->results, row->offset + i * row->stride, value, error);
}

static double square(double x) { return x * x; }

/* -- softmax -------------------------------------------------------------------------------------------- */

/* The error of exp(x - greatest) relative to itself: the rounding of the difference, and exp's own. exp(0)
 * is 1. */
static double weight_error(const row_t *row, int64_t i, double greatest) {
  double distance = greatest - row->x[i];
  if (!distance || isinf(distance)) return 0;
  return (6 + 2 * distance) * kiln_ref_epsilon(row->dtype);
}

typedef struct {
  double greatest;
  kiln_ref_sum_t weights; /* of exp(x - greatest) */
  double relative_error;  /* of their sum */
} exponentials_t;

static exponentials_t sum_exponentials(const row_t *row) {
  exponentials_t result = {.greatest = -INFINITY, .weights = KILN_REF_EMPTY_SUM};
  double weighted = 0;
  for (int64_t i = 0; i < row->count; i++) result.greatest = kiln_ref_maximum(result.greatest, row->x[i]);
  for (int64_t i = 0; i < row->count; i++) {
    double weight = exp(row->x[i] - result.greatest);
    kiln_ref_sum_add(&result.weights, weight, weight * row->e[i]);
    weighted += weight * weight_error(row, i, result.greatest);
  }
  double error = weighted + kiln_ref_sum_error(&result.weights, row->dtype);
  result.relative_error = (double)(error / result.weights.total);
  return result;
}

/* Rows with a NaN, with +inf, or of nothing but -inf are NaN throughout. */
static bool settle_nan_row(const row_t *row, const exponentials_t *sums) {
  if (!isnan(sums->weights.total)) return false;
  for (int64_t i = 0; i < row->count; i++)
    settle_in_row(row, i, NAN, isinf(row->widest_error) ? INFINITY : 0);
  return true;
}

static void softmax_row(const row_t *row) {
  exponentials_t sums = sum_exponentials(row);
  double epsilon = kiln_ref_epsilon(row->dtype), least = kiln_ref_ulp(row->dtype, 0);
  if (settle_nan_row(row, &sums)) return;
  for (int64_t i = 0; i < row->count; i++) {
    long double y = expl((long double)row->x[i] - sums.greatest) / sums.weights.total;
    double relative = weight_error(row, i, sums.greatest) + sums.relative_error + 4 * epsilon +
                      expm1(row->e[i] + row->widest_error);
    double underflow = isinf(row->x[i]) ? 0 : 8 * least;
    settle_in_row(row, i, y, (double)y * relative + underflow);
  }
}

static void log_softmax_row(const row_t *row) {
  exponentials_t sums = sum_exponentials(row);
  double epsilon = kiln_ref_epsilon(row->dtype);
  if (settle_nan_row(row, &sums)) return;
  long double log_sum = logl(sums.weights.total);
  for (int64_t i = 0; i < row->count; i++) {
    long double distance = (long double)row->x[i] - sums.greatest, y = distance - log_sum;
    double roundings = epsilon * (double)(fabsl(distance) + 2 * fabsl(log_sum) + fabsl(y));
    double error = roundings + sums.relative_error + row->e[i] + row->widest_error;
    settle_in_row(row, i, y, isinf(y) ? row->e[i] : error);
  }
}

/* -- layernorm and its relatives ------------------------------------------------------------------------ */

/* Row by row: (x - mean) * scale, where scale = rsqrt(var + eps). */
typedef struct {
  long double mean, scale;
  double mean_error;  /* the operand's errors included */
  double scale_error; /* relative */
  double carried;     /* mean of |normalized| * e, for the operand's errors through the scale */
  bool undecided;
} moments_t;

/* How far rsqrt(var + eps) may be off, relative to itself, when var is off by error but not negative. */
static double scale_error(double var, double error, double eps, double epsilon) {
  double low = fmax(var - error, 0) + eps, high = var + error + eps, centre = var + eps;
  return fmax(sqrt(centre / low) - 1, 1 - sqrt(centre / high)) + 6 * epsilon;
}

static moments_t moments_of(const row_t *row, double eps) {
  bool centred = row->call->node->op != KILN_OP_rmsnorm;
  moments_t m = {0};
  kiln_ref_sum_t sum = KILN_REF_EMPTY_SUM, squares = KILN_REF_EMPTY_SUM;
  if (centred) {
    for (int64_t i = 0; i < row->count; i++) kiln_ref_sum_add(&sum, row->x[i], row->e[i]);
    m.mean_error = kiln_ref_stored_mean(&sum, row->dtype, &m.mean);
  }
  for (int64_t i = 0; i < row->count; i++)
    kiln_ref_sum_add(&squares, (row->x[i] - m.mean) * (row->x[i] - m.mean), 0);
  double count = (double)row->count, var = (double)(squares.total / count);
  double error = kiln_ref_squares_error(&squares, row->dtype) / count + square(m.mean_error);
  m.scale = 1 / sqrtl(squares.total / count + (long double)eps);
  m.scale_error = scale_error(var, error, eps, kiln_ref_epsilon(row->dtype));
  for (int64_t i = 0; i < row->count; i++)
    m.carried += fabs((double)((row->x[i] - m.mean) * m.scale)) * row->e[i] / count;
  /* Squares that overflow, an operand that is undecided, or off by more than the derivative reaches. */
  m.undecided = isinf(error) || isinf(row->widest_error) || row->widest_error * (double)m.scale > 0.125;
  return m;
}

/* The normalized value times gamma plus beta, and its error: mean, scale, product and sum round. */
static double affine(const row_t *row, const moments_t *m, int64_t i, const kiln_ref_value_t *gamma,
                     const kiln_ref_value_t *beta, long double *out_value) {
  double epsilon = kiln_ref_epsilon(row->dtype), scale = (double)m->scale;
  long double distance = row->x[i] - m->mean, normalized = distance * m->scale;
  double size = (double)fabsl(normalized);
  double carried = scale * (row->e[i] + size * m->carried) * 1.5;
  double distance_error = epsilon * (double)fabsl(distance) + m->mean_error;
  double error = scale * (1 + m->scale_error) * distance_error + size * m->scale_error + carried;
  kiln_ref_scalar_t g = gamma ? kiln_ref_read(gamma, i) : (kiln_ref_scalar_t){.real = 1};
  kiln_ref_scalar_t b = beta ? kiln_ref_read(beta, i) : (kiln_ref_scalar_t){0};
  long double product = normalized * g.real;
  *out_value = product + b.real;
  error = fabs(g.real) * error + (size + error) * kiln_ref_error(row->dtype, g.bound);
  error += epsilon * (double)fabsl(product) + kiln_ref_error(row->dtype, b.bound);
  if (error > 0 && beta) error += epsilon * (double)fabsl(*out_value);
  return error;
}

static void normalize_row(const row_t *row) {
  const kiln_node_t *node = row->call->node;
  const kiln_ref_value_t *gamma = kiln_ref_operand(row->call, 1), *beta = kiln_ref_operand(row->call, 2);
  const kiln_attr_value_t *eps = kiln_node_attr(node, KILN_ATTR_eps);
  moments_t m = moments_of(row, eps ? eps->real : 1e-5);
  for (int64_t i = 0; i < row->count; i++) {
    long double value;
    double error = affine(row, &m, i, gamma, beta, &value);
    if (node->op == KILN_OP_layernorm_sigmoid_mul) {
      long double gate;
      double gate_error = kiln_ref_sigmoid_of(row->dtype, value, error, &gate);
      value = row->x[i] * gate;
      error = fabs(row->x[i]) * gate_error + row->e[i] * ((double)gate + gate_error) +
              kiln_ref_epsilon(row->dtype) * (double)fabsl(value);
    }
    if (m.undecided)
      error = INFINITY;
    else if (!row->is_finite)
      error = 0; /* NaN, or what an infinite sum of squares leaves: exact either way */
    settle_in_row(row, i, value, error + KILN_REF_ANY_FORM);
  }
}

/* -- the node ------------------------------------------------------------------------------------------- */

/* softmax: the rows along `dim`, one after the other; the others: the trailing dimensions that
 * normalized_shape counts. */
static kiln_walk_t rows_of(const kiln_ref_call_t *call, row_t *row) {
  const kiln_tensor_t *tensor = &row->operand->tensor;
  const kiln_attr_value_t *dim = kiln_node_attr(call->node, KILN_ATTR_dim);
  const kiln_attr_value_t *shape = kiln_node_attr(call->node, KILN_ATTR_normalized_shape);
  int64_t strides[KILN_MAX_RANK];
  kiln_walk_t rows = {0};
  kiln_walk_row_major(tensor->rank, tensor->sizes, strides);
  uint32_t first = shape ? tensor->rank - shape->list.count
                         : (uint32_t)(dim->integer < 0 ? dim->integer + tensor->rank : dim->integer);
  uint32_t last = shape ? tensor->rank : first + 1;
  row->count = row->stride = 1;
  for (uint32_t axis = 0; axis < tensor->rank; axis++) {
    if (axis < first || axis >= last)
      kiln_walk_axis(&rows, tensor->sizes[axis], strides[axis], 0);
    else
      row->count *= tensor->sizes[axis];
  }
  if (!shape && tensor->rank) row->stride = strides[first];
  return rows;
}

kiln_status_t kiln_ref_normalization(const kiln_ref_call_t *call) {
  row_t row = {.call = call, .operand = kiln_ref_operand(call, 0), .dtype = call->results->tensor.dtype};
  kiln_walk_t rows = rows_of(call, &row);
  int64_t row_count = row.count ? kiln_walk_count(&rows) : 0;
  row.x = kiln_ref_alloc(call->run, row.count, sizeof *row.x);
  row.e = kiln_ref_alloc(call->run, row.count, sizeof *row.e);
  for (int64_t i = 0; row.x && row.e && i < row_count; i++, kiln_walk_next(&rows)) {
    load_row(&row, rows.at[0]);
    if (call->node->op == KILN_OP_softmax)
      softmax_row(&row);
    else if (call->node->op == KILN_OP_log_softmax)
      log_softmax_row(&row);
    else
      normalize_row(&row);
  }
  kiln_ref_free(call->run, row.x, row.count, sizeof *row.x);
  kiln_ref_free(call->run, row.e, row.count, sizeof *row.e);
  return NULL;
}
