/* ir/reference_accumulate.c: sums, and how far off the device's may be.
 *
 * Shared by reductions, normalizations and contractions. The formulas are in docs/numerics.md,
 * "Accumulations": the classical bound depth * epsilon * sum |x| (Higham, "Accuracy and Stability of
 * Numerical Algorithms", section 4.2) with a depth that any tree with short serial runs keeps, and zero where
 * every order is exact.
 */
#include "ir/reference_impl.h"

/* Of the long double that sums are taken in. */
#define HOST_EPSILON 0x1p-64

double kiln_ref_tree_depth(int64_t count) { return 32 + log2((double)(count > 1 ? count : 1)); }

/* Freedom of form alone is no error of the number. f64 has values that small. */
double kiln_ref_error(kiln_dtype_t dtype, double bound) {
  return bound == KILN_REF_ANY_FORM && dtype != KILN_DTYPE_f64 ? 0 : bound;
}

int kiln_ref_quantum(double value) {
  if (!value) return INT_MAX;
  if (!isfinite(value)) return INT_MIN;
  int exponent;
  int64_t significand = (int64_t)ldexp(frexp(value, &exponent), DBL_MANT_DIG);
  return exponent - DBL_MANT_DIG + __builtin_ctzll((uint64_t)significand);
}

bool kiln_ref_sum_is_exact(kiln_dtype_t dtype, int quantum, long double magnitudes) {
  if (quantum == INT_MAX) return true; /* zeros only */
  bool is_f64 = dtype == KILN_DTYPE_f64;
  int digits = is_f64 ? DBL_MANT_DIG : FLT_MANT_DIG;
  int least = is_f64 ? DBL_MIN_EXP - DBL_MANT_DIG : FLT_MIN_EXP - FLT_MANT_DIG;
  return quantum >= least && magnitudes <= ldexpl(1, quantum + digits) &&
         magnitudes <= (long double)kiln_ref_largest(dtype);
}

void kiln_ref_sum_add(kiln_ref_sum_t *sum, long double value, double error) {
  int quantum = kiln_ref_quantum((double)value);
  sum->total += value;
  if (isfinite(value)) sum->magnitudes += fabsl(value);
  sum->carried += error;
  sum->count++;
  if (quantum < sum->quantum) sum->quantum = quantum;
}

bool kiln_ref_sum_exact(const kiln_ref_sum_t *sum, kiln_dtype_t dtype) {
  return sum->count <= 1 ? !sum->carried
                         : !sum->carried && kiln_ref_sum_is_exact(dtype, sum->quantum, sum->magnitudes);
}

static double error_of_depth(const kiln_ref_sum_t *sum, kiln_dtype_t dtype, double depth) {
  if (sum->count > 1 && sum->magnitudes > (long double)kiln_ref_largest(dtype)) return INFINITY;
  double relative = depth * kiln_ref_epsilon(dtype) + (double)sum->count * HOST_EPSILON;
  return relative * (double)sum->magnitudes + sum->carried;
}

double kiln_ref_sum_error(const kiln_ref_sum_t *sum, kiln_dtype_t dtype) {
  return kiln_ref_sum_exact(sum, dtype) ? 0 : error_of_depth(sum, dtype, kiln_ref_tree_depth(sum->count));
}

/* Each square carries the rounding of its difference (twice) and its own. */
double kiln_ref_squares_error(const kiln_ref_sum_t *squares, kiln_dtype_t dtype) {
  return error_of_depth(squares, dtype, kiln_ref_tree_depth(squares->count) + 4) +
         (double)squares->count * kiln_ref_ulp(dtype, 0);
}

double kiln_ref_mean(const kiln_ref_sum_t *sum, kiln_dtype_t dtype, long double *out_mean) {
  double count = (double)sum->count;
  if (!kiln_ref_sum_exact(sum, dtype)) {
    *out_mean = sum->total / count;
    if (!isfinite(sum->total)) return kiln_ref_sum_error(sum, dtype);
    return kiln_ref_sum_error(sum, dtype) / count + kiln_ref_epsilon(dtype) * (double)fabsl(*out_mean);
  }
  *out_mean = (double)sum->total / count; /* one division in double, so that f64 rounds once */
  bool count_is_exact = kiln_ref_round_arithmetic(dtype, count) == count;
  return count_is_exact ? 0 : 2 * kiln_ref_epsilon(dtype) * (double)fabsl(*out_mean);
}

double kiln_ref_stored_mean(const kiln_ref_sum_t *sum, kiln_dtype_t dtype, long double *out_mean) {
  double error = kiln_ref_mean(sum, dtype, out_mean);
  bool rounds = kiln_ref_round_arithmetic(dtype, *out_mean) != *out_mean;
  return rounds ? error + kiln_ref_epsilon(dtype) * (double)fabsl(*out_mean) : error;
}

double kiln_ref_sigmoid_of(kiln_dtype_t dtype, long double value, double error, long double *out_sigmoid) {
  long double centre = kiln_ref_wide_sigmoid(value);
  *out_sigmoid = centre;
  long double below = centre - kiln_ref_wide_sigmoid(value - error);
  long double above = kiln_ref_wide_sigmoid(value + error) - centre;
  return (double)fmaxl(below, above) + 8 * kiln_ref_ulp(dtype, (double)centre);
}
