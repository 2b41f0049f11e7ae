/* tests/unit/test_conform_half.c: conformance of f16 and bf16: every value through every unary operation and
 * conversion, pairs and triples through the others.
 *
 * Halves are values of double, in which sums and products of two of them are exact or rounded where it does
 * no harm; fma is taken rounded to odd (Boldo and Melquiond, 2008). Results are rounded once by base/half, or
 * in directed modes by its neighbour. Left open by the ISA and not judged: the sign and payload of a NaN
 * after neg and abs.
 * Labels: device, release-only (clang turns unsigned integers to floats by a subtraction, which gives -0 when
 * rounding down: the host's own answers are wrong there)
 */
#include "tests/support/conform.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
// clang-format on
#include <fenv.h>
#include <math.h>
#include <stdbool.h>

static double f16(uint64_t bits) { return conform_value("f16", bits & 0xffff); }
static double bf16(uint64_t bits) { return conform_value("bf16", bits & 0xffff); }

/* a*b + c rounded to odd: truncated, and the last bit set where something was cut off. */
static double fma_to_odd(double a, double b, double c) {
  int mode = fegetround();
  volatile double x = a, y = b, z = c;
  fesetround(FE_TOWARDZERO);
  feclearexcept(FE_INEXACT);
  volatile double r = fma(x, y, z);
  bool inexact = fetestexcept(FE_INEXACT) != 0;
  fesetround(mode);
  return inexact ? conform_f64(conform_f64_bits(r) | 1) : r;
}

static double extreme(double a, double b, bool greatest, bool propagates) {
  if (a != a || b != b) return propagates ? (double)NAN : a != a ? b : a;
  if (a == b) return signbit(a) == greatest ? b : a;
  return (a < b) == greatest ? b : a;
}
static double clamped(double x) { return x > 1 ? 1 : x > 0 ? x : 0; }
static double relu(double x) { return x != x || x > 0 ? x : 0; }
static double flushed(double x) { return fabs(x) < 0x1p-14 ? copysign(0, x) : x; }

/* --- conversions --- */

/* Integers past 53 bits keep a sticky bit, so that the one rounding is the half's. */
static double sticky(uint64_t magnitude, bool negative) {
  if (magnitude >> 53) magnitude = (magnitude >> 11 | ((magnitude & 2047) != 0)) << 11;
  return negative ? -(double)magnitude : (double)magnitude;
}
static double of_s64(int64_t x) { return sticky(x < 0 ? 0 - (uint64_t)x : (uint64_t)x, x < 0); }

#define WIDENING(X)                                                                                          \
  X(f32_f16, "cvt.f32.f16 d, a;", "f32 f16", conform_f32_bits((float)f16(a)))                                \
  X(f64_f16, "cvt.f64.f16 d, a;", "f64 f16", conform_f64_bits(f16(a)))                                       \
  X(f32_bf16, "cvt.f32.bf16 d, a;", "f32 bf16", conform_f32_bits((float)bf16(a)))                            \
  X(f64_bf16, "cvt.f64.bf16 d, a;", "f64 bf16", conform_f64_bits(bf16(a)))                                   \
  X(f16_f16, "cvt.%si.f16.f16 d, a;", "f16 f16", conform_round_f16(nearbyint(f16(a))))                       \
  X(f16_sat, "cvt.sat.f16.f16 d, a;", "f16 f16", conform_round_f16(clamped(f16(a))))                         \
  X(bf16_f16, "cvt.%s.bf16.f16 d, a;", "bf16 f16", conform_round_bf16(f16(a)))                               \
  X(f16_bf16, "cvt.%s.f16.bf16 d, a;", "f16 bf16", conform_round_f16(bf16(a)))
WIDENING(CONFORM_FUNCTION)

static void every_half_converts_to_every_float_type(void **state) {
  (void)state;
  static const conform_row_t rows[] = {WIDENING(CONFORM_ENTRY)};
  CONFORM_ROWS(rows);
}

#define F32(bits) ((double)conform_f32(bits))
#define NARROWING(X)                                                                                         \
  X(f16_f32, "cvt.%s.f16.f32 d, a;", "f16 f32", conform_round_f16(F32(a)))                                   \
  X(f16_f32_sat, "cvt.%s.sat.f16.f32 d, a;", "f16 f32", conform_round_f16(clamped(F32(a))))                  \
  X(f16_f64, "cvt.%s.f16.f64 d, a;", "f16 f64", conform_round_f16(conform_f64(a)))                           \
  X(f16_u8, "cvt.%s.f16.u8 d, a;", "f16 u8", conform_round_f16((double)(uint8_t)a))                          \
  X(f16_s16, "cvt.%s.f16.s16 d, a;", "f16 s16", conform_round_f16((double)(int16_t)a))                       \
  X(f16_s32, "cvt.%s.f16.s32 d, a;", "f16 s32", conform_round_f16((double)(int32_t)a))                       \
  X(f16_u32, "cvt.%s.f16.u32 d, a;", "f16 u32", conform_round_f16((double)(uint32_t)a))                      \
  X(f16_s64, "cvt.%s.f16.s64 d, a;", "f16 s64", conform_round_f16(of_s64((int64_t)a)))                       \
  X(f16_u64, "cvt.%s.f16.u64 d, a;", "f16 u64", conform_round_f16(sticky(a, false)))                         \
  X(bf16_f32, "cvt.%s.bf16.f32 d, a;", "bf16 f32", conform_round_bf16(F32(a)))                               \
  X(bf16_relu, "cvt.rn.relu.bf16.f32 d, a;", "bf16 f32", conform_round_bf16(relu(F32(a))))                   \
  X(bf16_f64, "cvt.%s.bf16.f64 d, a;", "bf16 f64", conform_round_bf16(conform_f64(a)))                       \
  X(bf16_s32, "cvt.%s.bf16.s32 d, a;", "bf16 s32", conform_round_bf16((double)(int32_t)a))                   \
  X(bf16_u64, "cvt.%s.bf16.u64 d, a;", "bf16 u64", conform_round_bf16(sticky(a, false)))                     \
  X(bf16_s64, "cvt.%s.bf16.s64 d, a;", "bf16 s64", conform_round_bf16(of_s64((int64_t)a)))                   \
  X(f16x2_f32, "cvt.rn.f16x2.f32 d, a, b;", "f16x2 f32 f32",                                                 \
    conform_round_f16(F32(a)) << 16 | conform_round_f16(F32(b)))                                             \
  X(bf16x2_f32, "cvt.rz.bf16x2.f32 d, a, b;", "bf16x2 f32 f32", toward_zero(a) << 16 | toward_zero(b))       \
  X(bf16x2_relu, "cvt.rn.relu.bf16x2.f32 d, a, b;", "bf16x2 f32 f32",                                        \
    conform_round_bf16(relu(F32(a))) << 16 | conform_round_bf16(relu(F32(b))))

static uint64_t toward_zero(uint64_t bits) {
  fesetround(FE_TOWARDZERO);
  uint64_t r = conform_round_bf16(F32(bits));
  fesetround(FE_TONEAREST);
  return r;
}
NARROWING(CONFORM_FUNCTION)

static void floats_and_integers_round_to_halves_in_every_mode(void **state) {
  (void)state;
  static const conform_row_t rows[] = {NARROWING(CONFORM_ENTRY)};
  CONFORM_ROWS(rows);
}

static uint64_t to_integer(double x, bool is_signed, unsigned bits) {
  double low = is_signed ? -ldexp(1, (int)bits - 1) : 0, high = ldexp(1, (int)bits - is_signed);
  double rounded = nearbyint(x);
  if (x != x) return bits == 64 ? 1ull << 63 : 0;
  if (rounded < low) return is_signed ? 1ull << (bits - 1) : 0;
  if (rounded >= high) return (is_signed ? ~0ull >> 1 : ~0ull) >> (64 - bits);
  return is_signed ? (uint64_t)(int64_t)rounded : (uint64_t)rounded;
}
#define TO_INTEGERS(X)                                                                                       \
  X(u8_f16, "cvt.%si.u8.f16 h0, a; cvt.u32.u16 d, h0;", "u32 f16", to_integer(f16(a), false, 8))             \
  X(s8_f16, "cvt.%si.s8.f16 h0, a; cvt.s32.s16 d, h0;", "s32 f16",                                           \
    (int64_t)(int8_t)to_integer(f16(a), true, 8))                                                            \
  X(s16_f16, "cvt.%si.s16.f16 d, a;", "s16 f16", to_integer(f16(a), true, 16))                               \
  X(u32_f16, "cvt.%si.u32.f16 d, a;", "u32 f16", to_integer(f16(a), false, 32))                              \
  X(s64_f16, "cvt.%si.s64.f16 d, a;", "s64 f16", to_integer(f16(a), true, 64))                               \
  X(s32_bf16, "cvt.%si.s32.bf16 d, a;", "s32 bf16", to_integer(bf16(a), true, 32))                           \
  X(u64_bf16, "cvt.%si.u64.bf16 d, a;", "u64 bf16", to_integer(bf16(a), false, 64))
TO_INTEGERS(CONFORM_FUNCTION)

static void every_half_rounds_and_clamps_to_integers_in_every_mode(void **state) {
  (void)state;
  static const conform_row_t rows[] = {TO_INTEGERS(CONFORM_ENTRY)};
  CONFORM_ROWS(rows);
}

/* --- arithmetic --- */

#define ROUND(T, x) conform_round_##T(x)
#define FLUSH16(x) conform_round_f16(flushed(conform_value("f16", conform_round_f16(x))))
#define EACH(T, expression)                                                                                  \
  ({                                                                                                         \
    uint64_t both = 0;                                                                                       \
    for (unsigned half = 0; half < 2; half++) {                                                              \
      double x = T(a >> 16 * half), y = T(b >> 16 * half), z = T(c >> 16 * half);                            \
      (void)x, (void)y, (void)z;                                                                             \
      both |= ROUND(T, expression) << 16 * half;                                                             \
    }                                                                                                        \
    both;                                                                                                    \
  })
#define FORMS(X, T)                                                                                          \
  X(add_##T, "add.rn." #T " d, a, b;", #T " " #T " " #T, ROUND(T, T(a) + T(b)))                              \
  X(sub_##T, "sub.rn." #T " d, a, b;", #T " " #T " " #T, ROUND(T, T(a) - T(b)))                              \
  X(mul_##T, "mul.rn." #T " d, a, b;", #T " " #T " " #T, ROUND(T, T(a) * T(b)))                              \
  X(fma_##T, "fma.rn." #T " d, a, b, c;", #T " " #T " " #T " " #T, ROUND(T, fma_to_odd(T(a), T(b), T(c))))   \
  X(fma_relu_##T, "fma.rn.relu." #T " d, a, b, c;", #T " " #T " " #T " " #T,                                 \
    ROUND(T, relu(T##_value(ROUND(T, fma_to_odd(T(a), T(b), T(c)))))))                                       \
  X(min_##T, "min." #T " d, a, b;", #T " " #T " " #T, ROUND(T, extreme(T(a), T(b), false, false)))           \
  X(max_##T, "max." #T " d, a, b;", #T " " #T " " #T, ROUND(T, extreme(T(a), T(b), true, false)))            \
  X(min_nan_##T, "min.NaN." #T " d, a, b;", #T " " #T " " #T, ROUND(T, extreme(T(a), T(b), false, true)))    \
  X(max_nan_##T, "max.NaN." #T " d, a, b;", #T " " #T " " #T, ROUND(T, extreme(T(a), T(b), true, true)))     \
  X(add_##T##x2, "add.rn." #T "x2 d, a, b;", #T "x2 " #T "x2 " #T "x2", EACH(T, x + y))                      \
  X(sub_##T##x2, "sub.rn." #T "x2 d, a, b;", #T "x2 " #T "x2 " #T "x2", EACH(T, x - y))                      \
  X(mul_##T##x2, "mul.rn." #T "x2 d, a, b;", #T "x2 " #T "x2 " #T "x2", EACH(T, x *y))                       \
  X(max_##T##x2, "max." #T "x2 d, a, b;", #T "x2 " #T "x2 " #T "x2", EACH(T, extreme(x, y, true, false)))    \
  X(min_nan_##T##x2, "min.NaN." #T "x2 d, a, b;", #T "x2 " #T "x2 " #T "x2",                                 \
    EACH(T, extreme(x, y, false, true)))                                                                     \
  X(fma_##T##x2, "fma.rn." #T "x2 d, a, b, c;", #T "x2 " #T "x2 " #T "x2 " #T "x2",                          \
    EACH(T, fma_to_odd(x, y, z)))                                                                            \
  X(lt_##T, "setp.lt." #T " p, a, b; selp.u32 d, 1, 0, p;", "u32 " #T " " #T, T(a) < T(b))                   \
  X(neu_##T, "setp.neu." #T " p, a, b; selp.u32 d, 1, 0, p;", "u32 " #T " " #T, T(a) != T(b))                \
  X(set_##T, "set.ge." #T "." #T " d, a, b;", #T " " #T " " #T, T(a) >= T(b) ? ROUND(T, 1.0) : 0)            \
  X(set_u32_##T, "set.eq.u32." #T " d, a, b;", "u32 " #T " " #T, T(a) == T(b) ? 0xffffffff : 0)              \
  X(set_##T##x2, "set.gtu." #T "x2." #T "x2 d, a, b;", #T "x2 " #T "x2 " #T "x2",                            \
    EACH(T, !(x <= y) ? 1.0 : 0.0))                                                                          \
  X(setp_##T##x2,                                                                                            \
    "setp.leu." #T "x2 p|q, a, b; selp.u32 r0, 1, 0, p; selp.u32 r1, 2, 0, q; or.b32 d, r0, r1;",            \
    "u32 " #T "x2 " #T "x2", (T(a) > T(b) ? 0 : 1) | (T(a >> 16) > T(b >> 16) ? 0 : 2))
#define f16_value f16
#define bf16_value bf16
#define ARITHMETIC(X)                                                                                        \
  FORMS(X, f16)                                                                                              \
  FORMS(X, bf16)                                                                                             \
  X(add_sat, "add.rn.sat.f16 d, a, b;", "f16 f16 f16",                                                       \
    ROUND(f16, clamped(f16(ROUND(f16, f16(a) + f16(b))))))                                                   \
  X(fma_sat, "fma.rn.sat.f16 d, a, b, c;", "f16 f16 f16 f16",                                                \
    ROUND(f16, clamped(f16(ROUND(f16, fma_to_odd(f16(a), f16(b), f16(c)))))))                                \
  X(mul_sat_x2, "mul.rn.sat.f16x2 d, a, b;", "f16x2 f16x2 f16x2", EACH(f16, clamped(f16(ROUND(f16, x *y))))) \
  X(add_ftz, "add.rn.ftz.f16 d, a, b;", "f16 f16 f16", FLUSH16(flushed(f16(a)) + flushed(f16(b))))           \
  X(mul_ftz, "mul.rn.ftz.f16 d, a, b;", "f16 f16 f16", FLUSH16(flushed(f16(a)) * flushed(f16(b))))           \
  X(fma_ftz, "fma.rn.ftz.f16 d, a, b, c;", "f16 f16 f16 f16",                                                \
    FLUSH16(fma_to_odd(flushed(f16(a)), flushed(f16(b)), flushed(f16(c)))))                                  \
  X(sub_ftz_x2, "sub.rn.ftz.f16x2 d, a, b;", "f16x2 f16x2 f16x2",                                            \
    EACH(f16, flushed(f16(ROUND(f16, flushed(x) - flushed(y))))))                                            \
  X(lt_ftz, "setp.lt.ftz.f16 p, a, b; selp.u32 d, 1, 0, p;", "u32 f16 f16",                                  \
    flushed(f16(a)) < flushed(f16(b)))                                                                       \
  X(neg_f16, "neg.f16 d, a;", "f16 f16", a ^ 0x8000)                                                         \
  X(abs_f16, "abs.f16 d, a;", "f16 f16", a & 0x7fff)                                                         \
  X(neg_bf16, "neg.bf16 d, a;", "bf16 bf16", a ^ 0x8000)                                                     \
  X(abs_bf16x2, "abs.bf16x2 d, a;", "bf16x2 bf16x2", a & 0x7fff7fff)
ARITHMETIC(CONFORM_FUNCTION)

static void half_arithmetic_rounds_once(void **state) {
  (void)state;
  static const conform_row_t rows[] = {ARITHMETIC(CONFORM_ENTRY)};
  CONFORM_ROWS(rows);
}

/* PTX ISA: ex2.approx.f16 within 2^-9.9 relatively, ex2.approx.ftz.bf16 within 2^-7; tanh.approx.f16 within
 * 2^-10.987 absolutely, tanh.approx.bf16 within 2^-8. */
static void every_half_approximates_within_the_bounds_of_the_isa(void **state) {
  (void)state;
  static const conform_bound_t rows[] = {
      {"ex2.approx.f16 d, a;", "f16 f16", exp2, 0x1.12p-10, 0x1p-25, 0, 15.99},
      {"ex2.approx.ftz.bf16 d, a;", "bf16 bf16", exp2, 0x1p-7, 0, 0, 125},
      {"tanh.approx.f16 d, a;", "f16 f16", tanh, 0, 0x1.02p-11, 0, 65504},
      {"tanh.approx.bf16 d, a;", "bf16 bf16", tanh, 0, 0x1p-8, 0, 0x1.fep127},
  };
  conform_check_bounds(rows, sizeof rows / sizeof rows[0]);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, emu_setup, emu_teardown)
  const struct CMUnitTest tests[] = {
      TEST(every_half_converts_to_every_float_type),
      TEST(floats_and_integers_round_to_halves_in_every_mode),
      TEST(every_half_rounds_and_clamps_to_integers_in_every_mode),
      TEST(half_arithmetic_rounds_once),
      TEST(every_half_approximates_within_the_bounds_of_the_isa),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
