/* ir/reference_contract.c: contractions: the gemm_rcr family and matmul.
 *
 * Both are a batch of products of a's rows with b's columns. One matrix of b at a time and one row of a are
 * copied into 64-bit cells, so that the inner loop reads two plain arrays. Sums are taken in long double; the
 * bound is that of a device which accumulates in its arithmetic type (docs/numerics.md), zero where every
 * order is exact. Where operands may be rounded to tf32 first, what that changes is an error of theirs.
 */
#include "ir/reference_impl.h"

typedef union {
  double real;
  int64_t integer;
} cell_t;

/* A row or column of count cells. */
typedef struct {
  cell_t *cells;
  double *errors; /* NULL when the operand is exact */
  int quantum;    /* of all of it; kiln_ref_quantum */
} line_t;

typedef struct {
  kiln_ref_run_t *run;
  const kiln_node_t *node;
  const kiln_ref_value_t *a, *b, *bias;
  kiln_ref_value_t *result;
  kiln_dtype_t dtype; /* of the operands */
  int64_t m, n, k;
  int64_t b_column_stride, b_stride; /* in elements, from one column to the next and along k */
  kiln_walk_t batch;                 /* stream 0: a's matrix, stream 1: b's */
  line_t row, *columns;
  cell_t *b_cells;
  double *b_errors;
  double alpha;
} contraction_t;

/* -- shapes --------------------------------------------------------------------------------------------- */

/* The batch axes of both operands, aligned at the last one; those of size 1 stand still. */
static void lay_out_batch(contraction_t *c, uint32_t a_rank, uint32_t b_rank) {
  int64_t a_stride = c->m * c->k, b_stride = c->n * c->k;
  uint32_t rank = a_rank > b_rank ? a_rank : b_rank;
  c->batch.rank = rank;
  for (uint32_t back = 1; back <= rank; back++) {
    int64_t a_size = back <= a_rank ? c->a->tensor.sizes[a_rank - back] : 1;
    int64_t b_size = back <= b_rank ? c->b->tensor.sizes[b_rank - back] : 1;
    uint32_t axis = rank - back;
    c->batch.sizes[axis] = a_size == 1 ? b_size : a_size;
    c->batch.strides[axis][0] = a_size == 1 ? 0 : a_stride;
    c->batch.strides[axis][1] = b_size == 1 ? 0 : b_stride;
    a_stride *= a_size;
    b_stride *= b_size;
  }
}

/* a[.., M, K] with b[N, K]: what leads is all M. */
static void lay_out_gemm(contraction_t *c) {
  const kiln_tensor_t *a = &c->a->tensor, *b = &c->b->tensor;
  c->k = b->sizes[1];
  c->n = b->sizes[0];
  c->m = 1;
  for (uint32_t axis = 0; axis + 1 < a->rank; axis++) c->m *= a->sizes[axis];
  c->b_column_stride = c->k;
  c->b_stride = 1;
}

/* NumPy's rule: a vector on the left is a row, one on the right a column. */
static void lay_out_matmul(contraction_t *c) {
  const kiln_tensor_t *a = &c->a->tensor, *b = &c->b->tensor;
  c->k = a->sizes[a->rank - 1];
  c->m = a->rank > 1 ? a->sizes[a->rank - 2] : 1;
  c->n = b->rank > 1 ? b->sizes[b->rank - 1] : 1;
  c->b_column_stride = 1;
  c->b_stride = c->n;
  lay_out_batch(c, a->rank > 2 ? a->rank - 2 : 0, b->rank > 2 ? b->rank - 2 : 0);
}

/* -- loading -------------------------------------------------------------------------------------------- */

/* How far a number is from tf32's next one, which has 10 bits of fraction and f32's exponents; ties away from
 * zero (PTX ISA, cvt.rna.tf32.f32). */
static double tf32_error(double value) {
  if (!isfinite(value) || value == 0) return 0;
  int exponent = ilogb(value);
  double unit = ldexp(1, (exponent < -126 ? -126 : exponent) - 10);
  double rounded = round(value / unit) * unit;
  return fabs(rounded) >= 0x1p128 ? INFINITY : fabs(rounded - value);
}

static bool rounds_to_tf32(const contraction_t *c) {
  return c->run->allows_tf32 && c->dtype == KILN_DTYPE_f32;
}

static void load_line(const contraction_t *c, const kiln_ref_value_t *from, int64_t at, int64_t stride,
                      line_t *line) {
  bool is_float = kiln_dtype_is_float(c->dtype);
  line->quantum = INT_MAX;
  for (int64_t i = 0; i < c->k; i++, at += stride) {
    if (!is_float)
      line->cells[i].integer = kiln_ref_read_integer(&from->tensor, at);
    else {
      line->cells[i].real = kiln_ref_read_real(&from->tensor, at);
      int quantum = kiln_ref_quantum(line->cells[i].real);
      if (quantum < line->quantum) line->quantum = quantum;
    }
    if (line->errors) line->errors[i] = kiln_ref_error(c->dtype, kiln_ref_bound(from, at));
    if (rounds_to_tf32(c)) line->errors[i] += tf32_error(line->cells[i].real);
  }
}

static void load_columns(contraction_t *c, int64_t at) {
  for (int64_t column = 0; column < c->n; column++) {
    c->columns[column] = (line_t){.cells = c->b_cells + column * c->k,
                                  .errors = c->b_errors ? c->b_errors + column * c->k : NULL};
    load_line(c, c->b, at + column * c->b_column_stride, c->b_stride, &c->columns[column]);
  }
}

/* -- products ------------------------------------------------------------------------------------------- */

/* Serial over at most 1024 terms, then a tree. */
static double depth(int64_t count) {
  double terms = (double)count;
  return fmin(terms, 1024) + 2 + log2(fmax(terms, 1));
}

/* |a| eb + |b| ea + ea eb. */
static double carried_by(const contraction_t *c, const line_t *row, const line_t *column) {
  double carried = 0;
  if (!row->errors && !column->errors) return 0;
  for (int64_t i = 0; i < c->k; i++) {
    double a_error = row->errors ? row->errors[i] : 0, b_error = column->errors ? column->errors[i] : 0;
    if (b_error) carried += fabs(row->cells[i].real) * b_error + a_error * b_error;
    if (a_error) carried += fabs(column->cells[i].real) * a_error;
  }
  return carried;
}

/* The product of a row and a column before the epilogue, and the error of the device's. */
static double dot(const contraction_t *c, const line_t *row, const line_t *column, long double *out_sum) {
  long double sum = 0, magnitudes = 0;
  for (int64_t i = 0; i < c->k; i++) {
    long double product = (long double)row->cells[i].real * column->cells[i].real;
    sum += product;
    magnitudes += fabsl(product);
  }
  *out_sum = sum;
  double carried = carried_by(c, row, column);
  if (!isfinite(magnitudes)) return isinf(carried) ? INFINITY : 0; /* inf or NaN, whatever the order */
  if (magnitudes > (long double)kiln_ref_largest(c->dtype)) return INFINITY;
  bool zeros = row->quantum == INT_MAX || column->quantum == INT_MAX;
  if (!carried && (zeros || kiln_ref_sum_is_exact(c->dtype, row->quantum + column->quantum, magnitudes)))
    return 0;
  double relative = depth(c->k) * kiln_ref_epsilon(c->dtype) + (double)c->k * 0x1p-64;
  return relative * (double)magnitudes + (double)c->k * kiln_ref_ulp(c->dtype, 0) + carried;
}

/* One rounding of the device in the arithmetic type: known when the value is, else part of the error. */
static void round_step(const contraction_t *c, long double *value, double *error) {
  if (*error)
    *error += kiln_ref_epsilon(c->dtype) * (double)fabsl(*value);
  else
    *value = kiln_ref_round_arithmetic(c->dtype, *value);
}

static bool has_relu(const contraction_t *c) { return c->node->op == KILN_OP_gemm_rcr_bias_relu; }

static void contract_real(const contraction_t *c, int64_t column, int64_t to) {
  long double value;
  double error = dot(c, &c->row, &c->columns[column], &value);
  if (c->alpha != 1) {
    value *= c->alpha;
    error *= fabs(c->alpha);
    if (c->bias) error += kiln_ref_epsilon(c->dtype) * (double)fabsl(value); /* fused with the bias or not */
    round_step(c, &value, &error);
  }
  if (c->bias) {
    kiln_ref_scalar_t bias = kiln_ref_read(c->bias, column);
    value += bias.real;
    error += kiln_ref_error(c->dtype, bias.bound);
    round_step(c, &value, &error);
  }
  if (has_relu(c) && value < 0) value = 0;
  if (c->node->op == KILN_OP_gemm_rcr_bias_sigmoid) {
    error = kiln_ref_sigmoid_of(c->dtype, value, error, &value);
  }
  kiln_ref_settle(c->run, c->result, to, value,
                  isfinite(value) || isinf(error) ? error + KILN_REF_ANY_FORM : 0);
}

static void contract_integer(const contraction_t *c, int64_t column, int64_t to) {
  const line_t *b = &c->columns[column];
  int64_t sum = 0;
  double bound = 0;
  for (int64_t i = 0; i < c->k; i++) {
    sum += c->row.cells[i].integer * b->cells[i].integer;
    if (c->row.errors) bound = fmax(bound, c->row.errors[i]);
    if (b->errors) bound = fmax(bound, b->errors[i]);
  }
  sum *= (int64_t)c->alpha;
  if (c->bias) {
    kiln_ref_scalar_t bias = kiln_ref_read(c->bias, column);
    sum += bias.integer;
    bound = fmax(bound, bias.bound);
  }
  kiln_ref_scalar_t scalar = {.integer = sum, .bound = bound};
  scalar = kiln_ref_cast(scalar, KILN_DTYPE_i64, c->result->tensor.dtype);
  if (has_relu(c) && scalar.integer < 0) scalar.integer = 0;
  kiln_ref_write(c->run, c->result, to, scalar);
}

/* -- the node ------------------------------------------------------------------------------------------- */

static bool allocate(contraction_t *c) {
  c->row.cells = kiln_ref_alloc(c->run, c->k, sizeof *c->row.cells);
  c->columns = kiln_ref_alloc(c->run, c->n, sizeof *c->columns);
  c->b_cells = kiln_ref_alloc(c->run, c->n * c->k, sizeof *c->b_cells);
  if (c->a->bound || rounds_to_tf32(c)) c->row.errors = kiln_ref_alloc(c->run, c->k, sizeof *c->row.errors);
  if (c->b->bound || rounds_to_tf32(c))
    c->b_errors = kiln_ref_alloc(c->run, c->n * c->k, sizeof *c->b_errors);
  return !c->run->refused;
}

static void release(contraction_t *c) {
  kiln_ref_free(c->run, c->row.cells, c->k, sizeof *c->row.cells);
  kiln_ref_free(c->run, c->columns, c->n, sizeof *c->columns);
  kiln_ref_free(c->run, c->b_cells, c->n * c->k, sizeof *c->b_cells);
  kiln_ref_free(c->run, c->row.errors, c->k, sizeof *c->row.errors);
  kiln_ref_free(c->run, c->b_errors, c->n * c->k, sizeof *c->b_errors);
}

static void contract(contraction_t *c) {
  bool is_float = kiln_dtype_is_float(c->dtype);
  int64_t batches = kiln_walk_count(&c->batch), loaded = -1, to = 0;
  for (int64_t batch = 0; batch < batches; batch++, kiln_walk_next(&c->batch)) {
    if (c->batch.at[1] != loaded) load_columns(c, loaded = c->batch.at[1]);
    for (int64_t row = 0; row < c->m; row++) {
      load_line(c, c->a, c->batch.at[0] + row * c->k, 1, &c->row);
      for (int64_t column = 0; column < c->n; column++, to++) {
        if (is_float)
          contract_real(c, column, to);
        else
          contract_integer(c, column, to);
      }
    }
  }
}

kiln_status_t kiln_ref_contraction(const kiln_ref_call_t *call) {
  contraction_t c = {.run = call->run,
                     .node = call->node,
                     .a = kiln_ref_operand(call, 0),
                     .b = kiln_ref_operand(call, 1),
                     .bias = kiln_ref_operand(call, 2),
                     .result = call->results};
  const kiln_attr_value_t *alpha = kiln_node_attr(call->node, KILN_ATTR_alpha);
  c.dtype = c.a->tensor.dtype;
  c.alpha = alpha ? kiln_ref_round_arithmetic(c.dtype, alpha->real) : 1;
  if (call->node->op == KILN_OP_matmul)
    lay_out_matmul(&c);
  else
    lay_out_gemm(&c);
  if (call->results->elements && allocate(&c)) contract(&c);
  release(&c);
  return NULL;
}
