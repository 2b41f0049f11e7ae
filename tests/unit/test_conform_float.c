/* tests/unit/test_conform_float.c: conformance of f32 and f64 arithmetic and of conversions, in every
 * rounding mode.
 *
 * Expectations are the host's IEEE arithmetic in the same mode, volatile so that its compiler neither folds
 * nor moves it. Left open by the ISA and not judged: payloads of f64 NaNs, and whether .ftz looks at a result
 * before or after it is rounded up to the least normal number.
 * Labels: device, release-only (clang turns unsigned integers to floats by a subtraction, which gives -0 when
 * rounding down: the host's own answers are wrong there)
 */
#include "tests/support/conform.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
// clang-format on
#include <math.h>
#include <stdbool.h>

/* --- arithmetic --- */

typedef enum { ADD, SUB, MUL, DIV, FMA, SQRT, RCP } operation_t;

static uint64_t single(operation_t operation, float a_value, float b_value, float c_value) {
  volatile float a = a_value, b = b_value, c = c_value, one = 1;
  volatile float r = operation == ADD    ? a + b
                     : operation == SUB  ? a - b
                     : operation == MUL  ? a * b
                     : operation == DIV  ? a / b
                     : operation == FMA  ? fmaf(a, b, c)
                     : operation == SQRT ? sqrtf(a)
                                         : one / a;
  return conform_f32_bits(r);
}

static uint64_t wide(operation_t operation, uint64_t a_bits, uint64_t b_bits, uint64_t c_bits) {
  volatile double a = conform_f64(a_bits), b = conform_f64(b_bits), c = conform_f64(c_bits), one = 1;
  volatile double r = operation == ADD    ? a + b
                      : operation == SUB  ? a - b
                      : operation == MUL  ? a * b
                      : operation == DIV  ? a / b
                      : operation == FMA  ? fma(a, b, c)
                      : operation == SQRT ? sqrt(a)
                                          : one / a;
  return conform_f64_bits(r);
}

#define SINGLE(operation) single(operation, conform_f32(a), conform_f32(b), conform_f32(c))
#define ARITHMETIC(X)                                                                                        \
  X(add_f32, "add.%s.f32 d, a, b;", "f32 f32 f32", SINGLE(ADD))                                              \
  X(sub_f32, "sub.%s.f32 d, a, b;", "f32 f32 f32", SINGLE(SUB))                                              \
  X(mul_f32, "mul.%s.f32 d, a, b;", "f32 f32 f32", SINGLE(MUL))                                              \
  X(div_f32, "div.%s.f32 d, a, b;", "f32 f32 f32", SINGLE(DIV))                                              \
  X(fma_f32, "fma.%s.f32 d, a, b, c;", "f32 f32 f32 f32", SINGLE(FMA))                                       \
  X(mad_f32, "mad.%s.f32 d, a, b, c;", "f32 f32 f32 f32", SINGLE(FMA))                                       \
  X(sqrt_f32, "sqrt.%s.f32 d, a;", "f32 f32", SINGLE(SQRT))                                                  \
  X(rcp_f32, "rcp.%s.f32 d, a;", "f32 f32", SINGLE(RCP))                                                     \
  X(add_f64, "add.%s.f64 d, a, b;", "f64 f64 f64", wide(ADD, a, b, c))                                       \
  X(sub_f64, "sub.%s.f64 d, a, b;", "f64 f64 f64", wide(SUB, a, b, c))                                       \
  X(mul_f64, "mul.%s.f64 d, a, b;", "f64 f64 f64", wide(MUL, a, b, c))                                       \
  X(div_f64, "div.%s.f64 d, a, b;", "f64 f64 f64", wide(DIV, a, b, c))                                       \
  X(fma_f64, "fma.%s.f64 d, a, b, c;", "f64 f64 f64 f64", wide(FMA, a, b, c))                                \
  X(sqrt_f64, "sqrt.%s.f64 d, a;", "f64 f64", wide(SQRT, a, b, c))                                           \
  X(rcp_f64, "rcp.%s.f64 d, a;", "f64 f64", wide(RCP, a, b, c))
ARITHMETIC(CONFORM_FUNCTION)

static void arithmetic_rounds_as_ieee_says_in_every_mode(void **state) {
  (void)state;
  static const conform_row_t rows[] = {ARITHMETIC(CONFORM_ENTRY)};
  CONFORM_ROWS(rows);
}

/* --- .sat and .ftz --- */

static float clamped(float x) { return x > 1 ? 1 : x > 0 ? x : 0; }
static uint64_t flushed(operation_t operation, uint64_t a, uint64_t b, uint64_t c) {
  float r = conform_f32(single(operation, conform_flush(conform_f32(a)), conform_flush(conform_f32(b)),
                               conform_flush(conform_f32(c))));
  return conform_f32_bits(conform_flush(r));
}

#define MODIFIED(X)                                                                                          \
  X(add_sat, "add.%s.sat.f32 d, a, b;", "f32 f32 f32", conform_f32_bits(clamped(conform_f32(SINGLE(ADD)))))  \
  X(mul_sat, "mul.%s.sat.f32 d, a, b;", "f32 f32 f32", conform_f32_bits(clamped(conform_f32(SINGLE(MUL)))))  \
  X(fma_sat, "fma.%s.sat.f32 d, a, b, c;", "f32 f32 f32 f32",                                                \
    conform_f32_bits(clamped(conform_f32(SINGLE(FMA)))))                                                     \
  X(add_ftz, "add.%s.ftz.f32 d, a, b;", "f32 f32 f32", flushed(ADD, a, b, c))                                \
  X(sub_ftz, "sub.%s.ftz.f32 d, a, b;", "f32 f32 f32", flushed(SUB, a, b, c))                                \
  X(sqrt_ftz, "sqrt.%s.ftz.f32 d, a;", "f32 f32", flushed(SQRT, a, b, c))                                    \
  X(abs_ftz, "abs.ftz.f32 d, a;", "f32 f32",                                                                 \
    conform_f32(a) != conform_f32(a) ? a & 0x7fffffff                                                        \
                                     : conform_f32_bits(fabsf(conform_flush(conform_f32(a)))))               \
  X(set_ftz, "setp.gt.ftz.f32 p, a, 0f00000000; selp.u32 d, 1, 0, p;", "u32 f32",                            \
    conform_flush(conform_f32(a)) > 0)
MODIFIED(CONFORM_FUNCTION)

static void saturation_and_flushing_apply_to_the_rounded_result(void **state) {
  (void)state;
  static const conform_row_t rows[] = {MODIFIED(CONFORM_ENTRY)};
  CONFORM_ROWS(rows);
}

/* --- minima, maxima, comparisons --- */

/* The operand that is no NaN; -0 below +0. */
static double extreme(double a, double b, bool greatest, bool propagates) {
  if (a != a || b != b) return propagates ? (double)NAN : a != a ? b : a;
  if (a == b) return signbit(a) == greatest ? b : a;
  return (a < b) == greatest ? b : a;
}
#define EXTREME32(greatest, propagates)                                                                      \
  conform_f32_bits((float)extreme((double)conform_f32(a), (double)conform_f32(b), greatest, propagates))
#define EXTREME64(greatest, propagates)                                                                      \
  conform_f64_bits(extreme(conform_f64(a), conform_f64(b), greatest, propagates))
#define COMPARED(expression)                                                                                 \
  ({                                                                                                         \
    float x = conform_f32(a), y = conform_f32(b);                                                            \
    (expression) ? 1 : 0;                                                                                    \
  })
#define SETP(test) "setp." test ".f32 p, a, b; selp.u32 d, 1, 0, p;"
#define ORDER(X)                                                                                             \
  X(min_f32, "min.f32 d, a, b;", "f32 f32 f32", EXTREME32(false, false))                                     \
  X(max_f32, "max.f32 d, a, b;", "f32 f32 f32", EXTREME32(true, false))                                      \
  X(min_nan, "min.NaN.f32 d, a, b;", "f32 f32 f32", EXTREME32(false, true))                                  \
  X(max_nan, "max.NaN.f32 d, a, b;", "f32 f32 f32", EXTREME32(true, true))                                   \
  X(min_f64, "min.f64 d, a, b;", "f64 f64 f64", EXTREME64(false, false))                                     \
  X(max_f64, "max.f64 d, a, b;", "f64 f64 f64", EXTREME64(true, false))                                      \
  X(copysign_f32, "copysign.f32 d, a, b;", "f32 f32 f32", (a & 0x80000000) | (b & 0x7fffffff))               \
  X(neg_f64, "neg.f64 d, a;", "f64 f64", a ^ 1ull << 63)                                                     \
  X(eq, SETP("eq"), "u32 f32 f32", COMPARED(x == y))                                                         \
  X(ne, SETP("ne"), "u32 f32 f32", COMPARED(x<y || x> y))                                                    \
  X(lt, SETP("lt"), "u32 f32 f32", COMPARED(x < y))                                                          \
  X(le, SETP("le"), "u32 f32 f32", COMPARED(x <= y))                                                         \
  X(gt, SETP("gt"), "u32 f32 f32", COMPARED(x > y))                                                          \
  X(ge, SETP("ge"), "u32 f32 f32", COMPARED(x >= y))                                                         \
  X(equ, SETP("equ"), "u32 f32 f32", COMPARED(isunordered(x, y) || x == y))                                  \
  X(neu, SETP("neu"), "u32 f32 f32", COMPARED(isunordered(x, y) || x != y))                                  \
  X(ltu, SETP("ltu"), "u32 f32 f32", COMPARED(isunordered(x, y) || x < y))                                   \
  X(leu, SETP("leu"), "u32 f32 f32", COMPARED(isunordered(x, y) || x <= y))                                  \
  X(gtu, SETP("gtu"), "u32 f32 f32", COMPARED(isunordered(x, y) || x > y))                                   \
  X(geu, SETP("geu"), "u32 f32 f32", COMPARED(isunordered(x, y) || x >= y))                                  \
  X(ordered, SETP("num"), "u32 f32 f32", COMPARED(!isunordered(x, y)))                                       \
  X(unordered, SETP("nan"), "u32 f32 f32", COMPARED(isunordered(x, y)))                                      \
  X(is_normal, "testp.normal.f32 p, a; selp.u32 d, 1, 0, p;", "u32 f32", isnormal(conform_f32(a)) != 0)      \
  X(is_subnormal, "testp.subnormal.f32 p, a; selp.u32 d, 1, 0, p;", "u32 f32",                               \
    fpclassify(conform_f32(a)) == FP_SUBNORMAL)                                                              \
  X(is_finite, "testp.finite.f64 p, a; selp.u32 d, 1, 0, p;", "u32 f64", isfinite(conform_f64(a)) != 0)      \
  X(is_infinite, "testp.infinite.f64 p, a; selp.u32 d, 1, 0, p;", "u32 f64", isinf(conform_f64(a)) != 0)     \
  X(is_number, "testp.number.f32 p, a; selp.u32 d, 1, 0, p;", "u32 f32", !isnan(conform_f32(a)))             \
  X(is_nan, "testp.notanumber.f64 p, a; selp.u32 d, 1, 0, p;", "u32 f64", isnan(conform_f64(a)) != 0)
ORDER(CONFORM_FUNCTION)

static void order_treats_nan_and_signed_zero_as_the_isa_says(void **state) {
  (void)state;
  static const conform_row_t rows[] = {ORDER(CONFORM_ENTRY)};
  CONFORM_ROWS(rows);
}

/* --- conversions to integers --- */

/* PTX ISA, cvt: rounds in the mode, clamps; a NaN gives 0, or the top bit where either side has 64 bits. */
static uint64_t to_integer(double x, bool is_signed, unsigned bits, bool from_wide) {
  long double low = is_signed ? -ldexpl(1, (int)bits - 1) : 0, high = ldexpl(1, (int)bits - is_signed);
  volatile double rounded = nearbyint(x);
  if (x != x) return bits == 64 || from_wide ? 1ull << (bits - 1) : 0;
  if (rounded < (double)low) return is_signed ? 1ull << (bits - 1) : 0;
  if (rounded >= (double)high) return (is_signed ? ~0ull >> 1 : ~0ull) >> (64 - bits);
  return is_signed ? (uint64_t)(int64_t)rounded : (uint64_t)rounded;
}
#define FROM32(is_signed, bits) to_integer((double)conform_f32(a), is_signed, bits, false)
#define FROM64(is_signed, bits) to_integer(conform_f64(a), is_signed, bits, true)
#define TO_INTEGERS(X)                                                                                       \
  X(u8_f32, "cvt.%si.u8.f32 h0, a; cvt.u32.u16 d, h0;", "u32 f32", FROM32(false, 8))                         \
  X(s8_f32, "cvt.%si.s8.f32 h0, a; cvt.s32.s16 d, h0;", "s32 f32", (int64_t)(int8_t)FROM32(true, 8))         \
  X(u16_f32, "cvt.%si.u16.f32 d, a;", "u16 f32", FROM32(false, 16))                                          \
  X(s16_f32, "cvt.%si.s16.f32 d, a;", "s16 f32", FROM32(true, 16))                                           \
  X(u32_f32, "cvt.%si.u32.f32 d, a;", "u32 f32", FROM32(false, 32))                                          \
  X(s32_f32, "cvt.%si.s32.f32 d, a;", "s32 f32", FROM32(true, 32))                                           \
  X(u64_f32, "cvt.%si.u64.f32 d, a;", "u64 f32", FROM32(false, 64))                                          \
  X(s64_f32, "cvt.%si.s64.f32 d, a;", "s64 f32", FROM32(true, 64))                                           \
  X(s16_f64, "cvt.%si.s16.f64 d, a;", "s16 f64", FROM64(true, 16))                                           \
  X(u32_f64, "cvt.%si.u32.f64 d, a;", "u32 f64", FROM64(false, 32))                                          \
  X(s32_f64, "cvt.%si.s32.f64 d, a;", "s32 f64", FROM64(true, 32))                                           \
  X(u64_f64, "cvt.%si.u64.f64 d, a;", "u64 f64", FROM64(false, 64))                                          \
  X(s64_f64, "cvt.%si.s64.f64 d, a;", "s64 f64", FROM64(true, 64))                                           \
  X(s32_f32_ftz, "cvt.%si.ftz.s32.f32 d, a;", "s32 f32",                                                     \
    to_integer((double)conform_flush(conform_f32(a)), true, 32, false))
TO_INTEGERS(CONFORM_FUNCTION)

static void floats_round_and_clamp_to_integers_in_every_mode(void **state) {
  (void)state;
  static const conform_row_t rows[] = {TO_INTEGERS(CONFORM_ENTRY)};
  CONFORM_ROWS(rows);
}

/* --- conversions to floats --- */

static uint64_t f32_of_unsigned(uint64_t x) {
  volatile uint64_t value = x;
  volatile float r = (float)value;
  return conform_f32_bits(r);
}
static uint64_t f32_of_signed(int64_t x) {
  volatile int64_t value = x;
  volatile float r = (float)value;
  return conform_f32_bits(r);
}
static uint64_t f64_of_unsigned(uint64_t x) {
  volatile uint64_t value = x;
  volatile double r = (double)value;
  return conform_f64_bits(r);
}
static uint64_t f64_of_signed(int64_t x) {
  volatile int64_t value = x;
  volatile double r = (double)value;
  return conform_f64_bits(r);
}
static uint64_t narrowed(uint64_t bits) {
  volatile double value = conform_f64(bits);
  volatile float r = (float)value;
  return conform_f32_bits(r);
}
/* tf32 has 10 bits of fraction: .rna rounds ties away from zero. */
static uint64_t tf32_away(uint64_t a) {
  float x = conform_f32(a);
  if (x != x) return 0x7fffffff;
  return isinf(x) ? a : (a + 0x1000) & ~0x1fffull;
}

#define TO_FLOATS(X)                                                                                         \
  X(f32_u8, "cvt.%s.f32.u8 d, a;", "f32 u8", f32_of_unsigned(a))                                             \
  X(f32_s8, "cvt.%s.f32.s8 d, a;", "f32 s8", f32_of_signed((int8_t)a))                                       \
  X(f32_s16, "cvt.%s.f32.s16 d, a;", "f32 s16", f32_of_signed((int16_t)a))                                   \
  X(f32_u32, "cvt.%s.f32.u32 d, a;", "f32 u32", f32_of_unsigned(a))                                          \
  X(f32_s32, "cvt.%s.f32.s32 d, a;", "f32 s32", f32_of_signed((int32_t)a))                                   \
  X(f32_u64, "cvt.%s.f32.u64 d, a;", "f32 u64", f32_of_unsigned(a))                                          \
  X(f32_s64, "cvt.%s.f32.s64 d, a;", "f32 s64", f32_of_signed((int64_t)a))                                   \
  X(f64_u32, "cvt.%s.f64.u32 d, a;", "f64 u32", f64_of_unsigned(a))                                          \
  X(f64_s32, "cvt.%s.f64.s32 d, a;", "f64 s32", f64_of_signed((int32_t)a))                                   \
  X(f64_u64, "cvt.%s.f64.u64 d, a;", "f64 u64", f64_of_unsigned(a))                                          \
  X(f64_s64, "cvt.%s.f64.s64 d, a;", "f64 s64", f64_of_signed((int64_t)a))                                   \
  X(f32_f64, "cvt.%s.f32.f64 d, a;", "f32 f64", narrowed(a))                                                 \
  X(f64_f32, "cvt.f64.f32 d, a;", "f64 f32", conform_f64_bits((double)conform_f32(a)))                       \
  X(f32_sat, "cvt.sat.f32.f32 d, a;", "f32 f32", conform_f32_bits(clamped(conform_f32(a))))                  \
  X(integral_f32, "cvt.%si.f32.f32 d, a;", "f32 f32", conform_f32_bits(nearbyintf(conform_f32(a))))          \
  X(integral_f64, "cvt.%si.f64.f64 d, a;", "f64 f64", conform_f64_bits(nearbyint(conform_f64(a))))           \
  X(tf32_rna, "cvt.rna.tf32.f32 d, a;", "b32 f32", tf32_away(a))
TO_FLOATS(CONFORM_FUNCTION)

static void conversions_to_floats_round_in_every_mode(void **state) {
  (void)state;
  static const conform_row_t rows[] = {TO_FLOATS(CONFORM_ENTRY)};
  CONFORM_ROWS(rows);
}

/* --- approximate instructions --- */

static double three_over(double x) { return 3 / x; }
static double reciprocal(double x) { return 1 / x; }
static double reciprocal_sqrt(double x) { return 1 / sqrt(x); }

/* PTX ISA, "Floating Point Instructions". Where the bound is one on the result's size, that one; sin and cos
 * are bounded in [-2 pi, 2 pi], lg2 absolutely near 1. Denormals are where .ftz decides and are left out. */
static void approximations_are_within_the_bounds_of_the_isa(void **state) {
  (void)state;
  static const double normal = 0x1p-126, huge = 0x1p125, most = 0x1.fffffep127, two_pi = 6.2831853;
  const conform_bound_t rows[] = {
      {"rcp.approx.f32 d, a;", "f32 f32", reciprocal, 0x1p-23, 0, normal, huge},
      {"rcp.approx.ftz.f32 d, a;", "f32 f32", reciprocal, 0x1p-23, 0, normal, huge},
      {"div.approx.f32 d, 0f40400000, a;", "f32 f32", three_over, 0x1p-22, 0, normal, 0x1p124},
      {"div.full.f32 d, 0f40400000, a;", "f32 f32", three_over, 0x1p-22, 0, normal, 0x1p124},
      {"sqrt.approx.f32 d, a;", "f32 f32", sqrt, 0x1p-23, 0, normal, most},
      {"rsqrt.approx.f32 d, a;", "f32 f32", reciprocal_sqrt, 0x1p-22, 0, normal, most},
      {"rsqrt.approx.f64 d, a;", "f64 f64", reciprocal_sqrt, 0x1p-20, 0, 0x1p-1022, 0x1p1023},
      {"rcp.approx.ftz.f64 d, a;", "f64 f64", reciprocal, 0x1p-20, 0, 0x1p-1022, 0x1p1020},
      {"ex2.approx.f32 d, a;", "f32 f32", exp2, 0x1p-22, 0, 0, 125},
      {"lg2.approx.f32 d, a;", "f32 f32", log2, 0x1p-22, 0x1p-22, normal, most},
      {"sin.approx.f32 d, a;", "f32 f32", sin, 0, 0x1p-20, normal, two_pi},
      {"cos.approx.f32 d, a;", "f32 f32", cos, 0, 0x1p-20, normal, two_pi},
      {"tanh.approx.f32 d, a;", "f32 f32", tanh, 0x1p-10, 0, normal, most},
  };
  conform_check_bounds(rows, sizeof rows / sizeof rows[0]);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, emu_setup, emu_teardown)
  const struct CMUnitTest tests[] = {
      TEST(arithmetic_rounds_as_ieee_says_in_every_mode),
      TEST(saturation_and_flushing_apply_to_the_rounded_result),
      TEST(order_treats_nan_and_signed_zero_as_the_isa_says),
      TEST(floats_round_and_clamp_to_integers_in_every_mode),
      TEST(conversions_to_floats_round_in_every_mode),
      TEST(approximations_are_within_the_bounds_of_the_isa),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
