/* ir/reference_reduce.c: reductions: sum, mean, prod, amax, amin, var, argmax, argmin, any, all.
 *
 * One walk goes over the kept axes, a second one, which ends where it began, over the reduced ones. Sums are
 * taken in long double; the bound says what any tree-shaped order in the device's accumulator may give
 * (docs/numerics.md), and is zero where every order is exact. Integers wrap at the result's dtype, to which
 * terms are converted first.
 */
#include "ir/reference_impl.h"

typedef struct {
  kiln_ref_run_t *run;
  const kiln_node_t *node;
  const kiln_ref_value_t *operand;
  kiln_ref_value_t *result;
  kiln_walk_t kept, terms;
  int64_t count;      /* terms of one result */
  kiln_dtype_t dtype; /* in which terms are taken: the result's for sum and prod, else the operand's */
} reduction_t;

static kiln_ref_scalar_t term(const reduction_t *r) {
  kiln_ref_scalar_t scalar = kiln_ref_read(r->operand, r->terms.at[0]);
  if (r->dtype == r->operand->tensor.dtype) return scalar;
  return kiln_ref_cast(scalar, r->operand->tensor.dtype, r->dtype);
}

static void write_discrete(reduction_t *r, int64_t to, int64_t value, double bound) {
  kiln_ref_write(r->run, r->result, to, (kiln_ref_scalar_t){.integer = value, .bound = bound});
}

/* -- sums ----------------------------------------------------------------------------------------------- */

static kiln_ref_sum_t sum_of_terms(reduction_t *r) {
  kiln_ref_sum_t sum = KILN_REF_EMPTY_SUM;
  for (int64_t i = 0; i < r->count; i++, kiln_walk_next(&r->terms)) {
    kiln_ref_scalar_t x = term(r);
    kiln_ref_sum_add(&sum, x.real, kiln_ref_error(r->dtype, x.bound));
  }
  return sum;
}

static void reduce_sum(reduction_t *r, int64_t to) {
  kiln_ref_sum_t sum = sum_of_terms(r);
  kiln_ref_settle(r->run, r->result, to, sum.total, kiln_ref_sum_error(&sum, r->dtype) + KILN_REF_ANY_FORM);
}

static void reduce_mean(reduction_t *r, int64_t to) {
  kiln_ref_sum_t sum = sum_of_terms(r);
  long double mean;
  double error = kiln_ref_mean(&sum, r->dtype, &mean);
  kiln_ref_settle(r->run, r->result, to, mean, error + KILN_REF_ANY_FORM);
}

static void reduce_integer_sum(reduction_t *r, int64_t to) {
  int64_t sum = 0;
  double bound = 0;
  for (int64_t i = 0; i < r->count; i++, kiln_walk_next(&r->terms)) {
    kiln_ref_scalar_t x = term(r);
    sum += x.integer;
    bound = fmax(bound, x.bound);
  }
  write_discrete(r, to, sum, bound);
}

/* Two passes: the mean, then the squares of the distances from it. A mean that is off by m adds count * m^2.
 */
static void reduce_var(reduction_t *r, int64_t to) {
  double correction =
      kiln_node_attr(r->node, KILN_ATTR_correction) ? kiln_node_attr(r->node, KILN_ATTR_correction)->real : 1;
  kiln_ref_sum_t sum = sum_of_terms(r), squares = KILN_REF_EMPTY_SUM;
  long double mean, divisor = fmaxl(0, r->count - (long double)correction);
  double mean_error = kiln_ref_stored_mean(&sum, r->dtype, &mean), carried = 0;
  for (int64_t i = 0; i < r->count; i++, kiln_walk_next(&r->terms)) {
    kiln_ref_scalar_t x = term(r);
    double distance = (double)(x.real - mean), error = kiln_ref_error(r->dtype, x.bound);
    kiln_ref_sum_add(&squares, (x.real - mean) * (x.real - mean), 0);
    carried += (2 * fabs(distance) + error) * error;
  }
  double error =
      kiln_ref_squares_error(&squares, r->dtype) + (double)r->count * mean_error * mean_error + carried;
  long double var = squares.total / divisor;
  error = (double)(error / divisor) + 2 * kiln_ref_epsilon(r->dtype) * (double)var;
  kiln_ref_settle(r->run, r->result, to, var, isfinite(sum.total) && divisor > 0 ? error : KILN_REF_ANY_FORM);
}

/* -- products ------------------------------------------------------------------------------------------- */

/* What any order of multiplying may have on the way: the product of all that grows, and of all that shrinks.
 */
typedef struct {
  long double product, widest, grown, shrunk; /* widest: of |x| + e */
  double carried;                             /* sum of the terms' errors */
} product_t;

static void multiply(product_t *p, double x, double error) {
  long double magnitude = fabsl((long double)x);
  p->product *= x;
  p->widest *= magnitude + error;
  p->carried += error;
  if (magnitude > 1 && isfinite(x)) p->grown *= magnitude;
  if (magnitude < 1 && magnitude > 0) p->shrunk *= magnitude;
}

static double product_error(const product_t *p, kiln_dtype_t dtype, int64_t count) {
  double least = dtype == KILN_DTYPE_f64 ? DBL_MIN : FLT_MIN, epsilon = kiln_ref_epsilon(dtype);
  if (isnan(p->product)) return isinf(p->carried) ? INFINITY : 0;
  if (count > 2 && (p->grown > (long double)kiln_ref_largest(dtype) || p->shrunk < (long double)least))
    return INFINITY; /* an order that overflows or loses digits on the way would be right too */
  double carried = p->carried > 0 ? (double)(p->widest - fabsl(p->product)) : 0;
  double roundings = count > 2 ? (double)count * epsilon * 1.01 : 0;
  if (carried > 0) roundings += epsilon;
  return isinf(p->product) && !carried ? 0 : carried + roundings * (double)fabsl(p->product);
}

static void reduce_prod(reduction_t *r, int64_t to) {
  product_t p = {.product = 1, .widest = 1, .grown = 1, .shrunk = 1};
  for (int64_t i = 0; i < r->count; i++, kiln_walk_next(&r->terms)) {
    kiln_ref_scalar_t x = term(r);
    multiply(&p, x.real, kiln_ref_error(r->dtype, x.bound));
  }
  kiln_ref_settle(r->run, r->result, to, p.product, product_error(&p, r->dtype, r->count));
}

static void reduce_integer_prod(reduction_t *r, int64_t to) {
  int64_t product = 1;
  double bound = 0;
  for (int64_t i = 0; i < r->count; i++, kiln_walk_next(&r->terms)) {
    kiln_ref_scalar_t x = term(r);
    product *= x.integer;
    bound = fmax(bound, x.bound);
  }
  write_discrete(r, to, product, bound);
}

/* -- extremes ------------------------------------------------------------------------------------------- */

static bool is_least(const reduction_t *r) {
  return r->node->op == KILN_OP_amin || r->node->op == KILN_OP_argmin;
}

/* a before b in the order that is sought: NaN, then the greatest (or least). */
static bool beats(const reduction_t *r, kiln_ref_scalar_t a, kiln_ref_scalar_t b) {
  if (!kiln_dtype_is_float(r->dtype)) return is_least(r) ? a.integer < b.integer : a.integer > b.integer;
  if (isnan(a.real) || isnan(b.real)) return isnan(a.real) && !isnan(b.real);
  return is_least(r) ? a.real < b.real : a.real > b.real;
}

/* The first of the extreme terms. */
static kiln_ref_scalar_t find_extreme(reduction_t *r, int64_t *out_index) {
  kiln_ref_scalar_t best = {0};
  for (int64_t i = 0; i < r->count; i++, kiln_walk_next(&r->terms)) {
    kiln_ref_scalar_t x = term(r);
    if (i && !beats(r, x, best)) continue;
    best = x;
    *out_index = i;
  }
  return best;
}

/* How far the extreme itself may be off: between the extreme of x - e and that of x + e. (To the last term
 * whatever is found: the walk must end where it began.) */
static double extreme_error(reduction_t *r, double best) {
  double sign = is_least(r) ? -1 : 1, low = -INFINITY, high = -INFINITY, widest = 0;
  for (int64_t i = 0; i < r->count; i++, kiln_walk_next(&r->terms)) {
    kiln_ref_scalar_t x = term(r);
    widest = fmax(widest, x.bound);
    low = fmax(low, sign * x.real - x.bound);
    high = fmax(high, sign * x.real + x.bound);
  }
  if (isinf(widest)) return INFINITY;
  if (isnan(best) || high == low) return 0;
  return fmax(high - sign * best, sign * best - low);
}

static void reduce_extreme(reduction_t *r, int64_t to) {
  int64_t index = 0;
  kiln_ref_scalar_t best = find_extreme(r, &index);
  double error = r->operand->bound ? extreme_error(r, best.real) : 0;
  if (!kiln_dtype_is_float(r->dtype))
    write_discrete(r, to, best.integer, error ? INFINITY : 0);
  else
    kiln_ref_settle(r->run, r->result, to, best.real, error + (best.real ? 0 : KILN_REF_ANY_FORM));
}

/* Whether another term may be the extreme one as well. */
static bool has_rival(reduction_t *r, kiln_ref_scalar_t best, int64_t best_index) {
  double sign = is_least(r) ? -1 : 1;
  bool rival = false;
  for (int64_t i = 0; i < r->count; i++, kiln_walk_next(&r->terms)) {
    kiln_ref_scalar_t x = term(r);
    double slack = x.bound + best.bound;
    if (isinf(slack) || (i != best_index && slack > 0 && sign * (x.real - best.real) + slack >= 0))
      rival = true;
  }
  return rival;
}

static void reduce_arg(reduction_t *r, int64_t to) {
  int64_t index = 0;
  kiln_ref_scalar_t best = find_extreme(r, &index);
  write_discrete(r, to, index, r->operand->bound && has_rival(r, best, index) ? INFINITY : 0);
}

/* -- any, all ------------------------------------------------------------------------------------------- */

/* `any` looks for a term that is not 0, `all` for one that is; one that is so for certain decides. */
static void reduce_search(reduction_t *r, int64_t to) {
  bool wanted = r->node->op == KILN_OP_any, found = false, certain = false, doubtful = false;
  for (int64_t i = 0; i < r->count; i++, kiln_walk_next(&r->terms)) {
    kiln_ref_scalar_t truth = kiln_ref_cast(term(r), r->dtype, KILN_DTYPE_bool);
    bool hit = (truth.integer != 0) == wanted;
    found |= hit;
    certain |= hit && !truth.bound;
    doubtful |= truth.bound > 0;
  }
  write_discrete(r, to, found == wanted, doubtful && !certain ? INFINITY : 0);
}

/* -- the node ------------------------------------------------------------------------------------------- */

/* Bit a is set when axis a is reduced. */
static uint32_t reduced_axes(const kiln_node_t *node, uint32_t rank) {
  const kiln_attr_value_t *dims = kiln_node_attr(node, KILN_ATTR_dims),
                          *dim = kiln_node_attr(node, KILN_ATTR_dim);
  uint32_t axes = 0;
  if (!rank) return 0; /* dims 0 and -1 are allowed there, as PyTorch does, and mean nothing */
  if (dim) return 1u << (dim->integer < 0 ? dim->integer + rank : dim->integer);
  if (!dims) return (1u << rank) - 1;
  for (uint32_t i = 0; i < dims->list.count; i++) {
    int64_t axis = dims->list.integers[i];
    axes |= 1u << (axis < 0 ? axis + rank : axis);
  }
  return axes;
}

static void lay_out(reduction_t *r) {
  const kiln_tensor_t *tensor = &r->operand->tensor;
  int64_t strides[KILN_MAX_RANK];
  uint32_t reduced = reduced_axes(r->node, tensor->rank);
  kiln_walk_row_major(tensor->rank, tensor->sizes, strides);
  for (uint32_t axis = 0; axis < tensor->rank; axis++)
    kiln_walk_axis(reduced >> axis & 1 ? &r->terms : &r->kept, tensor->sizes[axis], strides[axis], 0);
  r->count = kiln_walk_count(&r->terms);
}

typedef void (*reducer_t)(reduction_t *r, int64_t to);

static reducer_t reducer(const reduction_t *r) {
  bool is_float = kiln_dtype_is_float(r->dtype);
  switch (r->node->op) {
  case KILN_OP_sum:
    return is_float ? reduce_sum : reduce_integer_sum;
  case KILN_OP_prod:
    return is_float ? reduce_prod : reduce_integer_prod;
  case KILN_OP_mean:
    return reduce_mean;
  case KILN_OP_var:
    return reduce_var;
  case KILN_OP_argmax:
  case KILN_OP_argmin:
    return reduce_arg;
  case KILN_OP_any:
  case KILN_OP_all:
    return reduce_search;
  default:
    return reduce_extreme;
  }
}

kiln_status_t kiln_ref_reduction(const kiln_ref_call_t *call) {
  reduction_t r = {
      .run = call->run, .node = call->node, .operand = kiln_ref_operand(call, 0), .result = call->results};
  bool converts = call->node->op == KILN_OP_sum || call->node->op == KILN_OP_prod;
  r.dtype = (converts ? &r.result->tensor : &r.operand->tensor)->dtype;
  lay_out(&r);
  reducer_t reduce = reducer(&r);
  for (int64_t i = 0; i < r.result->elements; i++, kiln_walk_next(&r.kept)) {
    r.terms.at[0] = r.kept.at[0];
    reduce(&r, i);
  }
  return NULL;
}
