/* ir/reference_elementwise.c: element-wise nodes: the reference columns of ops.def as two tables of
 * functions.
 *
 * A value that is exact needs one call. Where an operand has a bound, the op is evaluated at the corners of
 * the box of values that the operands may have (x - e, x, x + e, and 0 where it lies between: zero is where
 * poles, branches and kinks are). That stands in for the derivative and is no less: every op here is, over a
 * box that a bound spans, monotone in each operand or has one extremum, near which it is quadratic, and then
 * a corner is at least as far away. sin, cos and tan are periodic and count as undecided when an operand is
 * wide.
 */
#include "ir/reference_impl.h"

#include <string.h>

typedef double (*real_function_t)(double a, double b, double c, const kiln_node_t *node);
typedef int64_t (*integer_function_t)(int64_t a, int64_t b, int64_t c, int W, const kiln_node_t *node);

#define UNUSED __attribute__((unused))
#define KILN_ELEMENTWISE(name, arity, dtypes, result, attrs, ulp32, ulp64, device_real, device_integer,      \
                         real, integer)                                                                      \
  static double real_##name(UNUSED double a, UNUSED double b, UNUSED double c,                               \
                            UNUSED const kiln_node_t *node) {                                                \
    return real;                                                                                             \
  }                                                                                                          \
  static int64_t integer_##name(UNUSED int64_t a, UNUSED int64_t b, UNUSED int64_t c, UNUSED int W,          \
                                UNUSED const kiln_node_t *node) {                                            \
    return integer;                                                                                          \
  }
#include "ir/ops.def"
#undef KILN_ELEMENTWISE

static const real_function_t real_functions[KILN_OP_COUNT] = {
#define KILN_ELEMENTWISE(name, ...) [KILN_OP_##name] = real_##name,
#include "ir/ops.def"
#undef KILN_ELEMENTWISE
};

static const integer_function_t integer_functions[KILN_OP_COUNT] = {
#define KILN_ELEMENTWISE(name, ...) [KILN_OP_##name] = integer_##name,
#include "ir/ops.def"
#undef KILN_ELEMENTWISE
};

enum { MAX_OPERANDS = 3 };

/* What is known of a node before its elements. */
typedef struct {
  const kiln_ref_call_t *call;
  const kiln_node_t *node;
  const kiln_ref_value_t *operands[MAX_OPERANDS];
  uint32_t operand_count;
  kiln_dtype_t dtype; /* of the operands */
  double ulp;         /* of the op itself, in the arithmetic type; the host's own double included */
  bool inexact;       /* some operand has bounds */
} element_op_t;

/* -- bounds --------------------------------------------------------------------------------------------- */

/* Ops whose result jumps: where corners differ, it is undecided. */
static bool jumps(kiln_op_t op) {
  switch (op) {
  case KILN_OP_floor:
  case KILN_OP_ceil:
  case KILN_OP_round:
  case KILN_OP_trunc:
  case KILN_OP_sign:
  case KILN_OP_floordiv:
    return true;
  default:
    return kiln_op_info(op)->result == KILN_RESULT_BOOL;
  }
}

/* An op that jumps wherever this one does, though not at every corner: x == y may hold inside a box and at
 * none of its corners, but then x < y differs among them. */
static kiln_op_t jumps_with(kiln_op_t op) {
  switch (op) {
  case KILN_OP_eq:
  case KILN_OP_ne:
    return KILN_OP_lt;
  case KILN_OP_remainder:
    return KILN_OP_floordiv;
  default:
    return op;
  }
}

static bool is_periodic(kiln_op_t op) { return op == KILN_OP_sin || op == KILN_OP_cos || op == KILN_OP_tan; }

/* Fills the points at which an operand is tried; returns how many. */
static int corner_points(double x, double e, double points[4]) {
  int count = 0;
  points[count++] = x;
  if (e > 0) {
    points[count++] = x - e;
    points[count++] = x + e;
    if (fabs(x) < e) points[count++] = 0;
  }
  return count;
}

/* How far the result at y is from the one at the centre; a jump is infinitely far, the other zero next to
 * nothing. */
static double deviation(const element_op_t *op, double value, const double x[3], const double y[3]) {
  kiln_op_t id = op->node->op, with = jumps_with(id);
  double other = real_functions[id](y[0], y[1], y[2], op->node);
  if (with != id &&
      real_functions[with](x[0], x[1], x[2], op->node) != real_functions[with](y[0], y[1], y[2], op->node))
    return INFINITY;
  if (value == other && !value && signbit(value) != signbit(other)) return KILN_REF_ANY_FORM;
  if (value == other || (isnan(value) && isnan(other))) return 0;
  return jumps(id) || isnan(value - other) ? INFINITY : fabs(value - other);
}

/* The operands' bounds, carried through the op. */
static double propagated(const element_op_t *op, double value, const double x[3], const double e[3]) {
  double points[MAX_OPERANDS][4], worst = 0;
  int counts[MAX_OPERANDS] = {1, 1, 1}, corners = 1;
  for (uint32_t i = 0; i < MAX_OPERANDS; i++) {
    if (isinf(e[i]) || (e[i] > 0.25 && is_periodic(op->node->op))) return INFINITY;
    counts[i] = corner_points(x[i], e[i], points[i]);
    corners *= counts[i];
  }
  for (int corner = 1; corner < corners; corner++) {
    double y[MAX_OPERANDS];
    for (int i = 0, rest = corner; i < MAX_OPERANDS; rest /= counts[i], i++)
      y[i] = points[i][rest % counts[i]];
    worst = fmax(worst, deviation(op, value, x, y));
  }
  return worst;
}

/* Where zeros of both signs meet, kernels may return either. */
static bool is_zero_of_either_sign(const element_op_t *op, double value, const double x[3]) {
  if (value) return false;
  switch (op->node->op) {
  case KILN_OP_maximum:
  case KILN_OP_minimum:
    return signbit(x[0]) != signbit(x[1]);
  case KILN_OP_clamp:
  case KILN_OP_floordiv:
  case KILN_OP_remainder:
    return true;
  default:
    return false;
  }
}

/* The spacing at the value; next below a power of two the wider one beyond it, in which its error may be
 * told. */
static double ulp_across(kiln_dtype_t dtype, double value) {
  return fmax(kiln_ref_ulp(dtype, value), kiln_ref_ulp(dtype, kiln_ref_round_arithmetic(dtype, value)));
}

/* The op's own error. A quotient of floordiv near the end of the significand cannot be told from its
 * neighbours. */
static double own_error(const element_op_t *op, double value, const double x[3]) {
  if (is_zero_of_either_sign(op, value, x)) return KILN_REF_ANY_FORM;
  if (op->ulp) return op->ulp * ulp_across(op->dtype, value);
  if (op->node->op != KILN_OP_floordiv) return 0;
  double ulp_at_quotient = kiln_ref_ulp(op->dtype, value);
  return ulp_at_quotient < 0.25 ? 0 : 2 * ulp_at_quotient;
}

/* -- elements ------------------------------------------------------------------------------------------- */

static void evaluate_real(const element_op_t *op, const int64_t at[MAX_OPERANDS], int64_t to) {
  kiln_ref_value_t *result = op->call->results;
  double x[MAX_OPERANDS] = {0}, e[MAX_OPERANDS] = {0};
  for (uint32_t i = 0; i < op->operand_count; i++) x[i] = kiln_ref_read_real(&op->operands[i]->tensor, at[i]);
  double value = real_functions[op->node->op](x[0], x[1], x[2], op->node), error = 0;
  if (op->inexact) {
    for (uint32_t i = 0; i < op->operand_count; i++) e[i] = kiln_ref_bound(op->operands[i], at[i]);
    error = propagated(op, value, x, e);
  }
  if (result->tensor.dtype == KILN_DTYPE_bool)
    kiln_ref_write(op->call->run, result, to, (kiln_ref_scalar_t){.integer = value != 0, .bound = error});
  else
    kiln_ref_settle(op->call->run, result, to, value, error + own_error(op, value, x));
}

static void evaluate_integer(const element_op_t *op, const int64_t at[MAX_OPERANDS], int64_t to) {
  int64_t x[MAX_OPERANDS] = {0};
  double bound = 0;
  for (uint32_t i = 0; i < op->operand_count; i++) {
    x[i] = kiln_ref_read_integer(&op->operands[i]->tensor, at[i]);
    bound = fmax(bound, kiln_ref_bound(op->operands[i], at[i]));
  }
  int width_bits = op->dtype == KILN_DTYPE_bool ? 1 : 8 * (int)kiln_dtype_bytes(op->dtype);
  int64_t value = integer_functions[op->node->op](x[0], x[1], x[2], width_bits, op->node);
  kiln_ref_write(op->call->run, op->call->results, to, (kiln_ref_scalar_t){.integer = value, .bound = bound});
}

static void evaluate_cast(const element_op_t *op, const int64_t at[MAX_OPERANDS], int64_t to) {
  kiln_ref_value_t *result = op->call->results;
  kiln_ref_scalar_t scalar = kiln_ref_read(op->operands[0], at[0]);
  kiln_ref_write(op->call->run, result, to, kiln_ref_cast(scalar, op->dtype, result->tensor.dtype));
}

static void move_bits(const element_op_t *op, uint32_t operand, int64_t at, int64_t to, double bound) {
  kiln_ref_value_t *result = op->call->results;
  size_t bytes = kiln_dtype_bytes(result->tensor.dtype);
  const char *source = op->operands[operand]->tensor.data;
  memcpy((char *)result->tensor.data + to * (int64_t)bytes, source + at * (int64_t)bytes, bytes);
  if (bound) kiln_ref_set_bound(op->call->run, result, to, bound);
}

static void evaluate_bitcast(const element_op_t *op, const int64_t at[MAX_OPERANDS], int64_t to) {
  move_bits(op, 0, at[0], to, kiln_ref_bound(op->operands[0], at[0]) ? INFINITY : 0);
}

static void evaluate_where(const element_op_t *op, const int64_t at[MAX_OPERANDS], int64_t to) {
  uint32_t chosen = kiln_ref_read_integer(&op->operands[0]->tensor, at[0]) ? 1 : 2, other = 3 - chosen;
  double bound = kiln_ref_bound(op->operands[chosen], at[chosen]);
  if (kiln_ref_bound(op->operands[0], at[0])) {
    size_t bytes = kiln_dtype_bytes(op->operands[1]->tensor.dtype);
    const char *a = op->operands[1]->tensor.data, *b = op->operands[2]->tensor.data;
    bool same = !memcmp(a + at[1] * (int64_t)bytes, b + at[2] * (int64_t)bytes, bytes);
    bound = same ? fmax(bound, kiln_ref_bound(op->operands[other], at[other])) : INFINITY;
  }
  move_bits(op, chosen, at[chosen], to, bound);
}

/* -- the node ------------------------------------------------------------------------------------------- */

/* The operand as the result's index space sees it: aligned at the last axis, standing still where it has
 * size 1. */
static void add_operand(kiln_walk_t *walk, uint32_t stream, const kiln_tensor_t *operand) {
  int64_t strides[KILN_MAX_RANK];
  kiln_walk_row_major(operand->rank, operand->sizes, strides);
  for (uint32_t axis = 0; axis < operand->rank; axis++)
    walk->strides[walk->rank - operand->rank + axis][stream] = operand->sizes[axis] == 1 ? 0 : strides[axis];
}

typedef void (*element_function_t)(const element_op_t *op, const int64_t at[MAX_OPERANDS], int64_t to);

static element_function_t element_function(const element_op_t *op) {
  switch (op->node->op) {
  case KILN_OP_cast:
    return evaluate_cast;
  case KILN_OP_bitcast:
    return evaluate_bitcast;
  case KILN_OP_where:
    return evaluate_where;
  default:
    return kiln_dtype_is_float(op->dtype) ? evaluate_real : evaluate_integer;
  }
}

kiln_status_t kiln_ref_elementwise(const kiln_ref_call_t *call) {
  element_op_t op = {.call = call, .node = call->node, .operand_count = call->node->operand_count};
  const kiln_op_info_t *info = kiln_op_info(call->node->op);
  kiln_walk_t walk = {.rank = call->results->tensor.rank};
  memcpy(walk.sizes, call->results->tensor.sizes, sizeof call->results->tensor.sizes);
  for (uint32_t i = 0; i < op.operand_count; i++) {
    op.operands[i] = kiln_ref_operand(call, i);
    op.inexact |= op.operands[i]->bound != NULL;
    add_operand(&walk, i, &op.operands[i]->tensor);
  }
  op.dtype = op.operands[0]->tensor.dtype;
  op.ulp = op.dtype == KILN_DTYPE_f64 ? info->ulp_f64 : info->ulp_f32;
  if (op.dtype == KILN_DTYPE_f64 && op.ulp) op.ulp += 1; /* the host's functions err in double too */
  element_function_t evaluate = element_function(&op);
  for (int64_t i = 0; i < call->results->elements; i++, kiln_walk_next(&walk)) evaluate(&op, walk.at, i);
  return NULL;
}
