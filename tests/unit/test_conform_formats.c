/* tests/unit/test_conform_formats.c: conformance of what newer targets added to lane arithmetic: 8-bit
 * floats, .satfinite, packing with saturation, minima and maxima with .relu and .xorsign.abs, 128-bit
 * registers.
 *
 * Every 8-bit float and pair of halves goes through every conversion. An 8-bit result is found by a search
 * for the nearest of all numbers of the format, whose values come from the PTX ISA's "Alternate
 * Floating-Point Data Formats": e4m3 has a bias of 7 and no infinity, e5m2 one of 15. Open: what .satfinite
 * does with NaN is that it stays one; its code 0x7f is that of CUDA's headers.
 */
#include "tests/support/conform.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
// clang-format on
#include <math.h>
#include <stdbool.h>
#include <stdio.h>

/* --- 8-bit floats --- */

typedef struct {
  int fraction, bias;
  unsigned largest; /* code of the largest number */
} format_t;
static const format_t e4m3 = {3, 7, 0x7e}, e5m2 = {2, 15, 0x7b};

static double value_of(format_t f, unsigned code) {
  int exponent = (int)((code & 127) >> f.fraction), scale = 1 << f.fraction;
  int digits = (int)(code & (unsigned)(scale - 1)) + (exponent ? scale : 0);
  double magnitude = ldexp(digits, (exponent ? exponent : 1) - f.bias - f.fraction);
  if ((code & 127) > f.largest) magnitude = f.fraction == 2 && (code & 127) == 0x7c ? INFINITY : NAN;
  return code & 128 ? -magnitude : magnitude;
}

/* The number next to x, of two the one with an even code. */
static unsigned nearest(format_t f, double x) {
  unsigned best = 0;
  if (x != x) return 0x7f;
  double limited = fabs(x) < value_of(f, f.largest) ? fabs(x) : value_of(f, f.largest);
  for (unsigned code = 1; code <= f.largest; code++) {
    double step = fabs(value_of(f, code) - limited), least = fabs(value_of(f, best) - limited);
    if (step < least || (step == least && code % 2 == 0)) best = code;
  }
  return best | (signbit(x) ? 128 : 0);
}

static double relu(double x) { return x < 0 || (x == 0 && signbit(x)) ? 0 : x; }
static double f16(uint64_t bits) { return conform_value("f16", bits & 0xffff); }
static double f32(uint64_t bits) { return (double)conform_f32(bits); }
/* A half as f32, moved by a few units in the last place: around every tie of the narrower formats. */
#define NEAR_HALF "cvt.f32.f16 r0, a; and.b32 r1, b, 3; add.u32 r0, r0, r1; sub.u32 r0, r0, 1; "
static double near_half(uint64_t a, uint64_t b) { return f32(conform_f32_bits((float)f16(a)) + (b & 3) - 1); }

#define FORMAT(X, T)                                                                                         \
  X(T##_f16x2, "mov.b32 r0, {a, b}; cvt.rn.satfinite." #T "x2.f16x2 d, r0;", "u16 f16 f16",                  \
    nearest(T, f16(b)) << 8 | nearest(T, f16(a)))                                                            \
  X(T##_f16x2_relu, "mov.b32 r0, {a, b}; cvt.rn.satfinite.relu." #T "x2.f16x2 d, r0;", "u16 f16 f16",        \
    nearest(T, relu(f16(b))) << 8 | nearest(T, relu(f16(a))))                                                \
  X(T##_f32, "cvt.rn.satfinite." #T "x2.f32 d, a, b;", "u16 f32 f32",                                        \
    nearest(T, f32(a)) << 8 | nearest(T, f32(b)))                                                            \
  X(T##_near, NEAR_HALF "cvt.rn.satfinite." #T "x2.f32 d, r0, 0f00000000;", "u16 f16 u32",                   \
    nearest(T, near_half(a, b)) << 8)                                                                        \
  X(T##_relu, NEAR_HALF "cvt.rn.satfinite.relu." #T "x2.f32 d, r0, r0;", "u16 f16 u32",                      \
    nearest(T, relu(near_half(a, b))) * 0x101)                                                               \
  X(f16_##T, "cvt.rn.f16x2." #T "x2 d, a;", "f16x2 u16",                                                     \
    conform_round_f16(value_of(T, a & 255)) | conform_round_f16(value_of(T, a >> 8)) << 16)                  \
  X(f16_##T##_relu, "cvt.rn.relu.f16x2." #T "x2 d, a;", "f16x2 u16",                                         \
    conform_round_f16(relu(value_of(T, a & 255))) | conform_round_f16(relu(value_of(T, a >> 8))) << 16)
#define FORMATS(X) FORMAT(X, e4m3) FORMAT(X, e5m2)
FORMATS(CONFORM_FUNCTION)

static void every_8_bit_float_and_half_converts_to_the_nearest(void **state) {
  (void)state;
  static const conform_row_t rows[] = {FORMATS(CONFORM_ENTRY)};
  CONFORM_ROWS(rows);
}

/* --- .satfinite of wider formats --- */

static uint64_t bounded(uint64_t half, uint64_t infinity) {
  return (half & 0x7fff) == infinity ? half - 1 : half;
}
/* tf32 has the exponent of f32 and 10 bits of fraction. */
static uint64_t tf32(double x, bool ties_away, bool is_finite) {
  double largest = 0x1.ffcp127;
  if (x != x) return 0x7fffffff;
  if (isinf(x)) return conform_f32_bits((float)(is_finite ? copysign(largest, x) : x));
  int exponent = fabs(x) < 0x1p-126 ? -126 : ilogb(x);
  double scaled = ldexp(x, 10 - exponent), whole = ties_away ? round(scaled) : nearbyint(scaled);
  double rounded = ldexp(whole, exponent - 10);
  if (is_finite && fabs(rounded) > largest) rounded = copysign(largest, x);
  return conform_f32_bits((float)rounded);
}
#define FINITE(X)                                                                                            \
  X(finite_f16, "cvt.rn.satfinite.f16.f32 d, a;", "f16 f32", bounded(conform_round_f16(f32(a)), 0x7c00))     \
  X(finite_bf16, "cvt.rn.satfinite.bf16.f32 d, a;", "bf16 f32", bounded(conform_round_bf16(f32(a)), 0x7f80)) \
  X(finite_f16x2, "cvt.rn.relu.satfinite.f16x2.f32 d, a, b;", "f16x2 f32 f32",                               \
    bounded(conform_round_f16(relu(f32(a))), 0x7c00) << 16 |                                                 \
        bounded(conform_round_f16(relu(f32(b))), 0x7c00))                                                    \
  X(finite_bf16x2, "cvt.rn.satfinite.bf16x2.f32 d, a, b;", "bf16x2 f32 f32",                                 \
    bounded(conform_round_bf16(f32(a)), 0x7f80) << 16 | bounded(conform_round_bf16(f32(b)), 0x7f80))         \
  X(tf32_away, "cvt.rna.tf32.f32 d, a;", "b32 f32", tf32(f32(a), true, false))                               \
  X(tf32_even, "cvt.rn.tf32.f32 d, a;", "b32 f32", tf32(f32(a), false, false))                               \
  X(tf32_relu, "cvt.rn.relu.tf32.f32 d, a;", "b32 f32", tf32(relu(f32(a)), false, false))                    \
  X(tf32_finite, "cvt.rna.satfinite.tf32.f32 d, a;", "b32 f32", tf32(f32(a), true, true))
FINITE(CONFORM_FUNCTION)

static void satfinite_gives_the_largest_number_instead_of_infinity(void **state) {
  (void)state;
  static const conform_row_t rows[] = {FINITE(CONFORM_ENTRY)};
  CONFORM_ROWS(rows);
}

/* --- integers --- */

static int64_t limit(uint64_t x, int64_t low, int64_t high) {
  int64_t value = (int32_t)x;
  return value < low ? low : value > high ? high : value;
}
#define PACKED(a, b, c, low, high, bits)                                                                     \
  ((uint32_t)((bits) < 16 ? (c) << (2 * (bits)) : 0) |                                                       \
   ((uint32_t)limit(a, low, high) & ((1u << (bits)) - 1)) << (bits) |                                        \
   ((uint32_t)limit(b, low, high) & ((1u << (bits)) - 1)))
#define S16(x) ((int16_t)(x))
#define HALVES(expression)                                                                                   \
  ({                                                                                                         \
    uint32_t both = 0;                                                                                       \
    for (int half = 0; half < 2; half++) {                                                                   \
      int x = S16(a >> 16 * half), y = S16(b >> 16 * half);                                                  \
      both |= (uint32_t)(uint16_t)(expression) << 16 * half;                                                 \
    }                                                                                                        \
    both;                                                                                                    \
  })
/* |a - b| of each part, in its place or added up. */
static uint64_t differences(uint64_t a, uint64_t b, int width, bool sum) {
  uint64_t result = 0;
  for (int at = 0; at < 32; at += width) {
    int64_t x = (int64_t)(a >> at & ((1ull << width) - 1)), y = (int64_t)(b >> at & ((1ull << width) - 1));
    result += (uint64_t)(x > y ? x - y : y - x) << (sum ? 0 : at);
  }
  return result;
}
#define MIN(x, y) ((x) < (y) ? (x) : (y))
#define MAX(x, y) ((x) > (y) ? (x) : (y))
#define INTEGERS(X)                                                                                          \
  X(pack_u16, "cvt.pack.sat.u16.s32 d, a, b;", "b32 s32 s32", PACKED(a, b, 0, 0, 65535, 16))                 \
  X(pack_s16, "cvt.pack.sat.s16.s32 d, a, b;", "b32 s32 s32", PACKED(a, b, 0, -32768, 32767, 16))            \
  X(pack_u8, "cvt.pack.sat.u8.s32.b32 d, a, b, c;", "b32 s32 s32 b32", PACKED(a, b, c, 0, 255, 8))           \
  X(pack_s8, "cvt.pack.sat.s8.s32.b32 d, a, b, c;", "b32 s32 s32 b32", PACKED(a, b, c, -128, 127, 8))        \
  X(pack_u4, "cvt.pack.sat.u4.s32.b32 d, a, b, c;", "b32 s32 s32 b32", PACKED(a, b, c, 0, 15, 4))            \
  X(pack_s4, "cvt.pack.sat.s4.s32.b32 d, a, b, c;", "b32 s32 s32 b32", PACKED(a, b, c, -8, 7, 4))            \
  X(pack_u2, "cvt.pack.sat.u2.s32.b32 d, a, b, c;", "b32 s32 s32 b32", PACKED(a, b, c, 0, 3, 2))             \
  X(pack_s2, "cvt.pack.sat.s2.s32.b32 d, a, b, c;", "b32 s32 s32 b32", PACKED(a, b, c, -2, 1, 2))            \
  X(min_relu, "min.relu.s32 d, a, b;", "s32 s32 s32", MAX(MIN((int32_t)a, (int32_t)b), 0))                   \
  X(max_relu, "max.s32.relu d, a, b;", "s32 s32 s32", MAX(MAX((int32_t)a, (int32_t)b), 0))                   \
  X(min_relu2, "min.s16x2.relu d, a, b;", "s16x2 s16x2 s16x2", HALVES(MAX(MIN(x, y), 0)))                    \
  X(max_relu2, "max.relu.s16x2 d, a, b;", "s16x2 s16x2 s16x2", HALVES(MAX(MAX(x, y), 0)))                    \
  X(vabsdiff4, "vabsdiff4.u32.u32.u32 d, a, b, c;", "b32 b32 b32 b32", differences(a, b, 8, false))          \
  X(vabsdiff2, "vabsdiff2.u32.u32.u32 d, a, b, c;", "b32 b32 b32 b32", differences(a, b, 16, false))         \
  X(vsad4, "vabsdiff4.u32.u32.u32.add d, a, b, c;", "b32 b32 b32 b32",                                       \
    (uint32_t)(c + differences(a, b, 8, true)))                                                              \
  X(vsad2, "vabsdiff2.u32.u32.u32.add d, a, b, c;", "b32 b32 b32 b32",                                       \
    (uint32_t)(c + differences(a, b, 16, true)))                                                             \
  X(mad_hi_u16, "mad.hi.u16 d, a, b, c;", "u16 u16 u16 u16", (uint16_t)((a * b >> 16) + c))                  \
  X(mad_hi_s16, "mad.hi.s16 d, a, b, c;", "s16 s16 s16 s16", (uint16_t)((S16(a) * S16(b) >> 16) + S16(c)))   \
  X(mad24, "mad24.hi.sat.s32 d, a, b, c;", "s32 s32 s32 s32",                                                \
    (uint32_t)MIN(                                                                                           \
        MAX((((int64_t)(a << 40) >> 40) * ((int64_t)(b << 40) >> 40) >> 16 << 32 >> 32) + (int32_t)c,        \
            INT32_MIN),                                                                                      \
        INT32_MAX))                                                                                          \
  X(lop3_and,                                                                                                \
    "setp.lt.s32 q, b, 0; lop3.and.b32 r0|p, a, b, c, 0x96, q; selp.u32 r1, 1, 0, p; xor.b32 d, r0, r1;",    \
    "b32 b32 b32 b32", (uint32_t)((a ^ b ^ c) ^ ((uint32_t)(a ^ b ^ c) != 0 && (int32_t)b < 0)))             \
  X(lop3_or, "setp.lt.s32 q, b, 0; lop3.or.b32 _|p, a, b, c, 0x80, !q; selp.u32 d, 1, 0, p;",                \
    "b32 b32 b32 b32", (a & b & c) != 0 || (int32_t)b >= 0)
INTEGERS(CONFORM_FUNCTION)

static void packed_clamped_and_combined_integers(void **state) {
  (void)state;
  static const conform_row_t rows[] = {INTEGERS(CONFORM_ENTRY)};
  CONFORM_ROWS(rows);
}

/* --- .xorsign.abs, .ftz of minima --- */

static double flushed(double x) { return fabs(x) < 0x1p-126 ? copysign(0, x) : x; }
static double flushed16(double x) { return fabs(x) < 0x1p-14 ? copysign(0, x) : x; }
/* PTX ISA, min: the sign of a product, the extreme of the magnitudes. */
static double signed_extreme(double x, double y, bool largest, bool propagates) {
  double a = fabs(x), b = fabs(y);
  if (propagates && (x != x || y != y)) return NAN;
  double extreme = x != x ? b : y != y ? a : largest ? fmax(a, b) : fmin(a, b);
  return extreme != extreme ? NAN : signbit(x) != signbit(y) ? -extreme : extreme;
}
static double plain_extreme(double x, double y, bool largest) {
  if (x != x || y != y) return NAN;
  if (x == y) return signbit(x) == largest ? y : x;
  return (x < y) == largest ? y : x;
}
#define TO_F32(x) conform_f32_bits((float)(x))
#define SIGNED_F(X, T, GET, PUT)                                                                             \
  X(min_##T, "min.xorsign.abs." #T " d, a, b;", #T " " #T " " #T,                                            \
    PUT(signed_extreme(GET(a), GET(b), false, false)))                                                       \
  X(max_##T, "max.xorsign.abs." #T " d, a, b;", #T " " #T " " #T,                                            \
    PUT(signed_extreme(GET(a), GET(b), true, false)))                                                        \
  X(min_nan_##T, "min.NaN.xorsign.abs." #T " d, a, b;", #T " " #T " " #T,                                    \
    PUT(signed_extreme(GET(a), GET(b), false, true)))                                                        \
  X(max_nan_##T, "max.NaN.xorsign.abs." #T " d, a, b;", #T " " #T " " #T,                                    \
    PUT(signed_extreme(GET(a), GET(b), true, true)))
#define BF16(bits) conform_value("bf16", (bits)&0xffff)
#define PAIR(PUT, GET, largest, propagates)                                                                  \
  (PUT(signed_extreme(GET(a), GET(b), largest, propagates)) |                                                \
   PUT(signed_extreme(GET(a >> 16), GET(b >> 16), largest, propagates)) << 16)
#define EXTREMES(X)                                                                                          \
  SIGNED_F(X, f32, f32, TO_F32)                                                                              \
  SIGNED_F(X, f16, f16, conform_round_f16)                                                                   \
  SIGNED_F(X, bf16, BF16, conform_round_bf16)                                                                \
  X(min_ftz, "min.ftz.xorsign.abs.f32 d, a, b;", "f32 f32 f32",                                              \
    TO_F32(signed_extreme(flushed(f32(a)), flushed(f32(b)), false, false)))                                  \
  X(max_ftz, "max.ftz.NaN.xorsign.abs.f32 d, a, b;", "f32 f32 f32",                                          \
    TO_F32(signed_extreme(flushed(f32(a)), flushed(f32(b)), true, true)))                                    \
  X(min_ftz16, "min.ftz.xorsign.abs.f16 d, a, b;", "f16 f16 f16",                                            \
    conform_round_f16(signed_extreme(flushed16(f16(a)), flushed16(f16(b)), false, false)))                   \
  X(max_f16x2, "max.xorsign.abs.f16x2 d, a, b;", "f16x2 f16x2 f16x2",                                        \
    PAIR(conform_round_f16, f16, true, false))                                                               \
  X(min_bf16x2, "min.NaN.xorsign.abs.bf16x2 d, a, b;", "bf16x2 bf16x2 bf16x2",                               \
    PAIR(conform_round_bf16, BF16, false, true))                                                             \
  X(min_ftz_nan, "min.ftz.NaN.f32 d, a, b;", "f32 f32 f32",                                                  \
    TO_F32(plain_extreme(flushed(f32(a)), flushed(f32(b)), false)))                                          \
  X(max_ftz_nan, "max.ftz.NaN.f32 d, a, b;", "f32 f32 f32",                                                  \
    TO_F32(plain_extreme(flushed(f32(a)), flushed(f32(b)), true)))
EXTREMES(CONFORM_FUNCTION)

static void extremes_of_magnitudes_take_the_sign_of_a_product(void **state) {
  (void)state;
  static const conform_row_t rows[] = {EXTREMES(CONFORM_ENTRY)};
  CONFORM_ROWS(rows);
}

/* --- 128 bits --- */

#define WIDE(statements) "{ .reg .b128 q0, q1; .shared .align 16 .b8 place[4096];\n" statements " }"
#define AT "mov.u32 r0, place; mad.lo.u32 r0, j, 16, r0; "
#define REGISTERS(X)                                                                                         \
  X(exchanged,                                                                                               \
    WIDE("mov.b128 q0, {a, b}; mov.b128 q1, q0; mov.b128 {w0, w1}, q1; mov.b128 q0, {w1, w0}; "              \
         "mov.b128 {d, w0}, q0;"),                                                                           \
    "b64 b64 b64", b)                                                                                        \
  X(in_place,                                                                                                \
    WIDE("mov.u64 w0, a; mov.u64 w1, b; mov.b128 q0, {w0, w1}; mov.b128 {w1, w0}, q0; sub.u64 d, w1, w0;"),  \
    "u64 u64 u64", a - b)                                                                                    \
  X(through_memory,                                                                                          \
    WIDE(AT "mov.b128 q0, {a, b}; st.shared.b128 [r0], q0; ld.shared.b128 q1, [r0]; "                        \
            "ld.shared.b64 w0, [r0+8]; mov.b128 {w1, d}, q1; xor.b64 d, d, w0; xor.b64 d, d, w1;"),          \
    "b64 b64 b64", a)
REGISTERS(CONFORM_FUNCTION)

static void registers_of_128_bits_keep_both_halves(void **state) {
  (void)state;
  static const conform_row_t rows[] = {REGISTERS(CONFORM_ENTRY)};
  CONFORM_ROWS(rows);
}

/* --- special registers --- */

/* The environment of a block that is a cluster of its own. */
static void special_registers_tell_of_a_cluster_of_one_block(void **state) {
  (void)state;
  static const struct {
    const char *name;
    uint32_t value; /* in block (1, 2, 3) of a grid of (2, 3, 4) */
  } rows[] = {
      {"%clusterid.x", 1},     {"%clusterid.y", 2},        {"%clusterid.z", 3},      {"%nclusterid.x", 2},
      {"%nclusterid.y", 3},    {"%nclusterid.z", 4},       {"%cluster_ctaid.x", 0},  {"%cluster_ctaid.y", 0},
      {"%cluster_ctaid.z", 0}, {"%cluster_nctaid.x", 1},   {"%cluster_nctaid.y", 1}, {"%cluster_nctaid.z", 1},
      {"%cluster_ctarank", 0}, {"%cluster_nctarank", 1},   {"WARP_SZ", 32},          {"%pm3", 0},
      {"%envreg7", 0},         {"%dynamic_smem_size", 48}, {"%total_smem_size", 48}};
  enum { COUNT = sizeof rows / sizeof rows[0] };
  char ptx[8192];
  size_t length = (size_t)snprintf(
      ptx, sizeof ptx,
      ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 pd)\n{\n.reg .pred p, q;\n"
      ".reg .b32 r, x, y, z;\n.reg .b64 at;\nld.param.u64 at, [pd];\nmov.u32 x, %%ctaid.x;\nmov.u32 y, %%ctaid.y;\n"
      "mov.u32 z, %%ctaid.z;\nsetp.ne.u32 p, x, 1;\n@p bra OUT;\nsetp.ne.u32 p, y, 2;\n@p bra OUT;\n"
      "setp.ne.u32 p, z, 3;\n@p bra OUT;\n");
  for (size_t n = 0; n < COUNT; n++)
    length += (size_t)snprintf(ptx + length, sizeof ptx - length,
                               "mov.u32 r, %s;\nst.global.u32 [at+%zu], r;\n", rows[n].name, 4 * n);
  snprintf(
      ptx + length, sizeof ptx - length,
      "mov.pred q, %%is_explicit_cluster;\nselp.u32 r, 1, 0, q;\nst.global.u32 [at+%zu], r;\nOUT:\nret;\n}\n",
      4 * (size_t)COUNT);
  uint32_t got[COUNT + 1];
  CUdeviceptr out = emu_alloc(sizeof got);
  EMU_OK(cuLaunchKernel(conform_kernel(ptx), 2, 3, 4, 1, 1, 1, 48, NULL, EMU_ARGS(&out), NULL));
  emu_download(got, out, sizeof got);
  for (size_t n = 0; n < COUNT; n++)
    if (got[n] != rows[n].value) fail_msg("%s is %u, not %u", rows[n].name, got[n], rows[n].value);
  assert_int_equal(got[COUNT], 0);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, emu_setup, emu_teardown)
  const struct CMUnitTest tests[] = {
      TEST(every_8_bit_float_and_half_converts_to_the_nearest),
      TEST(satfinite_gives_the_largest_number_instead_of_infinity),
      TEST(packed_clamped_and_combined_integers),
      TEST(extremes_of_magnitudes_take_the_sign_of_a_product),
      TEST(registers_of_128_bits_keep_both_halves),
      TEST(special_registers_tell_of_a_cluster_of_one_block),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
