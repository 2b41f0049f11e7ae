/* ir/reference_scalar.c: one element: how the reference evaluator reads, rounds, casts and bounds it, and the
 * host functions that the reference columns of ops.def name.
 *
 * Rounding follows the design: a node rounds its result to the arithmetic type (f32 for f16, bf16 and f32)
 * and from there to its dtype; a cast rounds once, from whatever it is given. Rules and bounds are told in
 * docs/numerics.md.
 */
#include "ir/reference_impl.h"

#include "ir/number.h"

#include <string.h>

/* -- reading and writing -------------------------------------------------------------------------------- */

int64_t kiln_ref_read_integer(const kiln_tensor_t *tensor, int64_t at) {
  return kiln_integer_from_bits(kiln_bits_read(tensor->data, at, tensor->dtype), tensor->dtype);
}

double kiln_ref_read_real(const kiln_tensor_t *tensor, int64_t at) {
  if (!kiln_dtype_is_float(tensor->dtype)) return (double)kiln_ref_read_integer(tensor, at);
  return kiln_real_from_bits(kiln_bits_read(tensor->data, at, tensor->dtype), tensor->dtype);
}

void kiln_ref_write_integer(const kiln_tensor_t *tensor, int64_t at, int64_t value) {
  if (tensor->dtype == KILN_DTYPE_bool) value = value != 0;
  kiln_bits_write(tensor->data, at, tensor->dtype, (uint64_t)value);
}

static void write_real(const kiln_tensor_t *tensor, int64_t at, double value) {
  kiln_bits_write(tensor->data, at, tensor->dtype, kiln_real_to_bits(value, tensor->dtype));
}

kiln_ref_scalar_t kiln_ref_read(const kiln_ref_value_t *value, int64_t at) {
  kiln_ref_scalar_t scalar = {.bound = kiln_ref_bound(value, at)};
  if (kiln_dtype_is_float(value->tensor.dtype))
    scalar.real = kiln_ref_read_real(&value->tensor, at);
  else
    scalar.integer = kiln_ref_read_integer(&value->tensor, at);
  return scalar;
}

void kiln_ref_write(kiln_ref_run_t *run, kiln_ref_value_t *value, int64_t at, kiln_ref_scalar_t scalar) {
  if (kiln_dtype_is_float(value->tensor.dtype))
    write_real(&value->tensor, at, scalar.real);
  else
    kiln_ref_write_integer(&value->tensor, at, scalar.integer);
  if (scalar.bound) kiln_ref_set_bound(run, value, at, scalar.bound);
}

void kiln_ref_set_bound(kiln_ref_run_t *run, kiln_ref_value_t *value, int64_t at, double bound) {
  if (!value->bound) value->bound = kiln_ref_alloc(run, value->elements, sizeof *value->bound);
  if (value->bound) value->bound[at] = bound;
}

/* -- the arithmetic type -------------------------------------------------------------------------------- */

double kiln_ref_ulp(kiln_dtype_t dtype, double value) {
  if (!isfinite(value)) return 0;
  int least = dtype == KILN_DTYPE_f64 ? -1022 : -126, exponent = value ? ilogb(value) : least;
  return ldexp(1, (exponent < least ? least : exponent) - (dtype == KILN_DTYPE_f64 ? 52 : 23));
}

double kiln_ref_epsilon(kiln_dtype_t dtype) { return dtype == KILN_DTYPE_f64 ? 0x1p-53 : 0x1p-24; }
double kiln_ref_largest(kiln_dtype_t dtype) { return dtype == KILN_DTYPE_f64 ? DBL_MAX : FLT_MAX; }

double kiln_ref_round_arithmetic(kiln_dtype_t dtype, long double value) {
  return dtype == KILN_DTYPE_f64 ? (double)value : (float)value;
}

/* -- rounding and bounds -------------------------------------------------------------------------------- */

/* As a cast rounds: once. */
static double round_as_cast(kiln_dtype_t dtype, long double value) {
  return kiln_real_from_bits(kiln_wide_to_bits(value, dtype), dtype);
}

/* As a node rounds: to the arithmetic type, then to the dtype. */
static double round_as_node(kiln_dtype_t dtype, long double value) {
  double result = kiln_ref_round_arithmetic(dtype, value);
  if (!kiln_dtype_is_half(dtype)) return result;
  return kiln_real_from_bits(kiln_real_to_bits(result, dtype), dtype);
}

static double distance(double a, double b) { return a == b ? 0 : fabs(a - b); }

/* The bound of a value that was rounded from somewhere between two points; low and high are those, rounded.
 */
static double bound_between(double value, double low, double high) {
  if (isnan(low) || isnan(high)) return INFINITY;
  double bound = fmax(distance(value, low), distance(value, high));
  if (!bound && signbit(low) != signbit(high)) return KILN_REF_ANY_FORM;
  return bound;
}

static kiln_ref_scalar_t rounded(kiln_dtype_t dtype, long double value, double error,
                                 double (*round_to)(kiln_dtype_t, long double)) {
  kiln_ref_scalar_t scalar = {.real = round_to(dtype, value)};
  if (isnan(error) || isinf(error))
    scalar.bound = INFINITY;
  else if (isnan(scalar.real))
    scalar.bound = KILN_REF_ANY_FORM;
  else if (error > 0)
    scalar.bound = bound_between(scalar.real, round_to(dtype, value - error), round_to(dtype, value + error));
  return scalar;
}

void kiln_ref_settle(kiln_ref_run_t *run, kiln_ref_value_t *result, int64_t at, long double value,
                     double error) {
  kiln_ref_write(run, result, at, rounded(result->tensor.dtype, value, error, round_as_node));
}

/* -- casts ---------------------------------------------------------------------------------------------- */

/* Towards zero, saturating at the ends of the dtype; a NaN gives 0. */
static int64_t integer_from_real(kiln_dtype_t dtype, double value) {
  static const struct {
    int64_t least, greatest;
  } limits[KILN_DTYPE_COUNT] = {[KILN_DTYPE_u8] = {0, UINT8_MAX},
                                [KILN_DTYPE_i8] = {INT8_MIN, INT8_MAX},
                                [KILN_DTYPE_i32] = {INT32_MIN, INT32_MAX},
                                [KILN_DTYPE_i64] = {INT64_MIN, INT64_MAX}};
  if (isnan(value)) return 0;
  if (value <= (double)limits[dtype].least) return limits[dtype].least;
  if (value >= (double)limits[dtype].greatest) return limits[dtype].greatest;
  return (int64_t)value;
}

static int64_t discrete_from_real(kiln_dtype_t dtype, double value) {
  return dtype == KILN_DTYPE_bool ? value != 0 : integer_from_real(dtype, value);
}

/* The integer as the dtype holds it. */
static int64_t wrapped(kiln_dtype_t dtype, int64_t value) {
  if (dtype == KILN_DTYPE_bool) return value != 0;
  return kiln_integer_from_bits((uint64_t)value, dtype);
}

static kiln_ref_scalar_t discrete_from_inexact(kiln_dtype_t to, double value, double error) {
  kiln_ref_scalar_t result = {.integer = discrete_from_real(to, value)};
  bool decided = result.integer == discrete_from_real(to, value - error) &&
                 result.integer == discrete_from_real(to, value + error) &&
                 !(to == KILN_DTYPE_bool && error > fabs(value));
  if (!decided || isinf(error)) result.bound = INFINITY;
  return result;
}

kiln_ref_scalar_t kiln_ref_cast(kiln_ref_scalar_t scalar, kiln_dtype_t from, kiln_dtype_t to) {
  bool from_float = kiln_dtype_is_float(from), to_float = kiln_dtype_is_float(to);
  if (to_float)
    return rounded(to, from_float ? (long double)scalar.real : (long double)scalar.integer, scalar.bound,
                   round_as_cast);
  if (from_float) return discrete_from_inexact(to, scalar.real, scalar.bound);
  return (kiln_ref_scalar_t){.integer = wrapped(to, scalar.integer), .bound = scalar.bound};
}

/* -- the reference columns of ops.def ------------------------------------------------------------------- */

long double kiln_ref_wide_sigmoid(long double a) { return 1 / (1 + expl(-a)); }
double kiln_ref_sigmoid(double a) { return (double)kiln_ref_wide_sigmoid(a); }
double kiln_ref_silu(double a) { return (double)(a / (1 + expl(-(long double)a))); }

/* a/2 * (1 + tanh(u)) is a * sigmoid(2u); written so, it loses nothing where tanh is near -1. */
static double gelu_tanh(long double a) {
  const long double root_2_over_pi = 0.797884560802865355879892119868763737L;
  return (double)(a / (1 + expl(-2 * root_2_over_pi * (a + 0.044715L * a * a * a))));
}

double kiln_ref_gelu(double a, const kiln_node_t *node) {
  const kiln_attr_value_t *approximate = kiln_node_attr(node, KILN_ATTR_approximate);
  if (approximate && !strcmp(approximate->word, "tanh")) return gelu_tanh(a);
  return (double)(0.5L * a * erfcl(-(long double)a * 0.707106781186547524400844362104849039L));
}

double kiln_ref_clamp(double a, const kiln_node_t *node) {
  const kiln_attr_value_t *min = kiln_node_attr(node, KILN_ATTR_min),
                          *max = kiln_node_attr(node, KILN_ATTR_max);
  if (min) a = kiln_ref_maximum(a, min->number.real);
  if (max) a = kiln_ref_minimum(a, max->number.real);
  return a;
}

int64_t kiln_ref_clamp_int(int64_t a, const kiln_node_t *node) {
  const kiln_attr_value_t *min = kiln_node_attr(node, KILN_ATTR_min),
                          *max = kiln_node_attr(node, KILN_ATTR_max);
  if (min && a < min->number.integer) a = min->number.integer;
  return max && a > max->number.integer ? max->number.integer : a;
}

/* Rounds the quotient to minus infinity. fmod is exact, so the quotient is near an integer already; what is
 * left of its rounding error is rounded away. Source: CPython, Objects/floatobject.c, float_floor_div. */
double kiln_ref_floordiv(double a, double b) {
  if (!b) return a / b;
  double modulus = fmod(a, b), quotient = (a - modulus) / b;
  if (modulus && (b < 0) != (modulus < 0)) quotient -= 1;
  if (!quotient) return copysign(0, a / b);
  double floored = floor(quotient);
  return quotient - floored > 0.5 ? floored + 1 : floored;
}

double kiln_ref_remainder(double a, double b) {
  double modulus = fmod(a, b);
  return modulus && (b < 0) != (modulus < 0) ? modulus + b : modulus;
}

/* By 0 both give 0; the least integer by -1 gives itself, remainder 0. */
int64_t kiln_ref_floordiv_int(int64_t a, int64_t b) {
  if (!b) return 0;
  if (b == -1) return -a;
  return a / b - (a % b && (a < 0) != (b < 0));
}

int64_t kiln_ref_remainder_int(int64_t a, int64_t b) {
  if (!b || b == -1) return 0;
  int64_t rest = a % b;
  return rest && (rest < 0) != (b < 0) ? rest + b : rest;
}

/* Wraps. A negative power is 1 / a^-b cut towards zero, and 0 for a = 0. */
int64_t kiln_ref_pow_int(int64_t a, int64_t b) {
  if (b < 0) return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
  int64_t power = 1;
  for (; b; b >>= 1, a *= a)
    if (b & 1) power *= a;
  return power;
}

double kiln_ref_maximum(double a, double b) { return isnan(a) || a > b ? a : b; }
double kiln_ref_minimum(double a, double b) { return isnan(a) || a < b ? a : b; }

int64_t kiln_ref_shift_left(int64_t a, int64_t b, int width_bits) {
  return b < 0 || b >= width_bits ? 0 : a << b;
}

int64_t kiln_ref_shift_right(int64_t a, int64_t b, int width_bits) {
  return a >> (b < 0 || b >= width_bits ? 63 : b);
}
