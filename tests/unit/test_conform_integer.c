/* tests/unit/test_conform_integer.c: conformance of the integer instructions, one by one.
 *
 * Every expectation is a formula in wider integers or a loop over bits that follows the PTX ISA's pseudo
 * code. Left open by the ISA and not judged: division by zero (tests/unit/test_emu_arithmetic.c states what
 * the emulator does) and prmt selectors past 16 bits.
 * Labels: device */
#include "tests/support/conform.h"

#include <stdbool.h>

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
// clang-format on

typedef __int128 s128;
typedef unsigned __int128 u128;
typedef int64_t s64;
typedef int32_t s32;
typedef int16_t s16;
typedef uint64_t u64;
typedef uint32_t u32;
typedef uint16_t u16;

#define ABSOLUTE(x) ((x) < 0 ? -(x) : (x))
static s128 clamp(s128 x, s128 low, s128 high) { return x < low ? low : x > high ? high : x; }

/* --- products, sums and differences --- */

#define ARITHMETIC(X)                                                                                        \
  X(mul_lo_u16, "mul.lo.u16 d, a, b;", "u16 u16 u16", a *b)                                                  \
  X(mul_hi_u16, "mul.hi.u16 d, a, b;", "u16 u16 u16", a *b >> 16)                                            \
  X(mul_hi_s16, "mul.hi.s16 d, a, b;", "s16 s16 s16", (s32)(s16)a *(s16)b >> 16)                             \
  X(mul_hi_u32, "mul.hi.u32 d, a, b;", "u32 u32 u32", a *b >> 32)                                            \
  X(mul_hi_s32, "mul.hi.s32 d, a, b;", "s32 s32 s32", (s64)(s32)a *(s32)b >> 32)                             \
  X(mul_hi_u64, "mul.hi.u64 d, a, b;", "u64 u64 u64", (u128)a *b >> 64)                                      \
  X(mul_hi_s64, "mul.hi.s64 d, a, b;", "s64 s64 s64", (s128)(s64)a *(s64)b >> 64)                            \
  X(mul_wide_u16, "mul.wide.u16 d, a, b;", "u32 u16 u16", a *b)                                              \
  X(mul_wide_s16, "mul.wide.s16 d, a, b;", "s32 s16 s16", (s16)a *(s16)b)                                    \
  X(mul_wide_u32, "mul.wide.u32 d, a, b;", "u64 u32 u32", a *b)                                              \
  X(mul_wide_s32, "mul.wide.s32 d, a, b;", "s64 s32 s32", (s64)(s32)a *(s32)b)                               \
  X(mad_lo_s16, "mad.lo.s16 d, a, b, c;", "s16 s16 s16 s16", a *b + c)                                       \
  X(mad_lo_u32, "mad.lo.u32 d, a, b, c;", "u32 u32 u32 u32", a *b + c)                                       \
  X(mad_lo_s64, "mad.lo.s64 d, a, b, c;", "s64 s64 s64 s64", a *b + c)                                       \
  X(mad_wide_u16, "mad.wide.u16 d, a, b, c;", "u32 u16 u16 u32", a *b + c)                                   \
  X(mad_wide_s16, "mad.wide.s16 d, a, b, c;", "s32 s16 s16 s32", (s16)a *(s16)b + (s64)c)                    \
  X(mad_wide_u32, "mad.wide.u32 d, a, b, c;", "u64 u32 u32 u64", a *b + c)                                   \
  X(mad_wide_s32, "mad.wide.s32 d, a, b, c;", "s64 s32 s32 s64", (u64)((s64)(s32)a * (s32)b) + c)            \
  X(mad_hi_u32, "mad.hi.u32 d, a, b, c;", "u32 u32 u32 u32", (a * b >> 32) + c)                              \
  X(mad_hi_s32, "mad.hi.s32 d, a, b, c;", "s32 s32 s32 s32", (u64)((s64)(s32)a * (s32)b >> 32) + c)          \
  X(mad_hi_u64, "mad.hi.u64 d, a, b, c;", "u64 u64 u64 u64", (u64)((u128)a * b >> 64) + c)                   \
  X(mad_hi_s64, "mad.hi.s64 d, a, b, c;", "s64 s64 s64 s64", (u64)((s128)(s64)a * (s64)b >> 64) + c)         \
  X(mad_hi_sat, "mad.hi.sat.s32 d, a, b, c;", "s32 s32 s32 s32",                                             \
    clamp(((s64)(s32)a * (s32)b >> 32) + (s32)c, INT32_MIN, INT32_MAX))                                      \
  X(mul24_lo_u32, "mul24.lo.u32 d, a, b;", "u32 u32 u32", (a & 0xffffff) * (b & 0xffffff))                   \
  X(mul24_lo_s32, "mul24.lo.s32 d, a, b;", "s32 s32 s32", ((s32)(a << 8) >> 8) * (s64)((s32)(b << 8) >> 8))  \
  X(mul24_hi_u32, "mul24.hi.u32 d, a, b;", "u32 u32 u32", (a & 0xffffff) * (b & 0xffffff) >> 16)             \
  X(mul24_hi_s32, "mul24.hi.s32 d, a, b;", "s32 s32 s32",                                                    \
    ((s32)(a << 8) >> 8) * (s64)((s32)(b << 8) >> 8) >> 16)                                                  \
  X(mad24_lo_s32, "mad24.lo.s32 d, a, b, c;", "s32 s32 s32 s32",                                             \
    ((s32)(a << 8) >> 8) * (s64)((s32)(b << 8) >> 8) + (s64)c)                                               \
  X(mad24_hi_u32, "mad24.hi.u32 d, a, b, c;", "u32 u32 u32 u32",                                             \
    ((a & 0xffffff) * (b & 0xffffff) >> 16) + c)                                                             \
  X(add_sat, "add.sat.s32 d, a, b;", "s32 s32 s32", clamp((s64)(s32)a + (s32)b, INT32_MIN, INT32_MAX))       \
  X(sub_sat, "sub.sat.s32 d, a, b;", "s32 s32 s32", clamp((s64)(s32)a - (s32)b, INT32_MIN, INT32_MAX))       \
  X(add_u16, "add.u16 d, a, b;", "u16 u16 u16", a + b)                                                       \
  X(sub_s16, "sub.s16 d, a, b;", "s16 s16 s16", a - b)                                                       \
  X(sad_u16, "sad.u16 d, a, b, c;", "u16 u16 u16 u16", c + (a < b ? b - a : a - b))                          \
  X(sad_s16, "sad.s16 d, a, b, c;", "s16 s16 s16 s16", c + (u64)ABSOLUTE((s16)a - (s16)b))                   \
  X(sad_u32, "sad.u32 d, a, b, c;", "u32 u32 u32 u32", c + (a < b ? b - a : a - b))                          \
  X(sad_s32, "sad.s32 d, a, b, c;", "s32 s32 s32 s32", c + (u64)ABSOLUTE((s64)(s32)a - (s32)b))              \
  X(sad_u64, "sad.u64 d, a, b, c;", "u64 u64 u64 u64", c + (a < b ? b - a : a - b))                          \
  X(sad_s64, "sad.s64 d, a, b, c;", "s64 s64 s64 s64", c + (u64)ABSOLUTE((s128)(s64)a - (s64)b))             \
  X(abs_s16, "abs.s16 d, a;", "s16 s16", ABSOLUTE((s32)(s16)a))                                              \
  X(abs_s32, "abs.s32 d, a;", "s32 s32", ABSOLUTE((s64)(s32)a))                                              \
  X(abs_s64, "abs.s64 d, a;", "s64 s64", ABSOLUTE((s128)(s64)a))                                             \
  X(neg_s16, "neg.s16 d, a;", "s16 s16", 0 - a)                                                              \
  X(neg_s64, "neg.s64 d, a;", "s64 s64", 0 - a)                                                              \
  X(min_s16, "min.s16 d, a, b;", "s16 s16 s16", (s16)a < (s16)b ? a : b)                                     \
  X(max_u16, "max.u16 d, a, b;", "u16 u16 u16", a < b ? b : a)                                               \
  X(max_s64, "max.s64 d, a, b;", "s64 s64 s64", (s64)a < (s64)b ? b : a)                                     \
  X(min_s16x2, "min.s16x2 d, a, b;", "s16x2 s16x2 s16x2",                                                    \
    (u64)(u16)((s16)a < (s16)b ? a : b) | (u64)(u16)((s16)(a >> 16) < (s16)(b >> 16) ? a >> 16 : b >> 16)    \
                                              << 16)                                                         \
  X(max_u16x2, "max.u16x2 d, a, b;", "u16x2 u16x2 u16x2",                                                    \
    (u64)((u16)a < (u16)b ? (u16)b : (u16)a) | (a >> 16 < b >> 16 ? b >> 16 : a >> 16) << 16)                \
  X(add_u16x2, "add.u16x2 d, a, b;", "u16x2 u16x2 u16x2", ((a + b) & 0xffff) | ((a >> 16) + (b >> 16)) << 16)
ARITHMETIC(CONFORM_FUNCTION)

static void products_sums_and_differences_match_wider_arithmetic(void **state) {
  (void)state;
  static const conform_row_t rows[] = {ARITHMETIC(CONFORM_ENTRY)};
  CONFORM_ROWS(rows);
}

/* --- carry chains: two words at a time must be what the double word is --- */

#define WIDE_SUM(op, first, second)                                                                          \
  "mov.b64 {r0, r1}, a;\n{ .reg .b32 x, y; mov.b64 {x, y}, b;\n" op first ".u32 r0, r0, x;\n" op second      \
  ".u32 r1, r1, y; }\nmov.b64 d, {r0, r1};"
#define CARRIES(X)                                                                                           \
  X(add_cc_32, WIDE_SUM("add", ".cc", "c"), "u64 u64 u64", a + b)                                            \
  X(sub_cc_32, WIDE_SUM("sub", ".cc", "c"), "u64 u64 u64", a - b)                                            \
  X(carry_of_64, "add.cc.u64 w0, a, b; addc.u64 d, 0, 0;", "u64 u64 u64", ((u128)a + b) >> 64)               \
  X(carry_of_64_and_c, "add.cc.u64 w0, a, b; addc.cc.u64 w0, w0, c; addc.u64 d, 0, 0;", "u64 u64 u64 u64",   \
    ((u128)(u64)(a + b) + c + (((u128)a + b) >> 64)) >> 64)                                                  \
  X(borrow_of_64, "sub.cc.u64 w0, a, b; subc.u64 d, 0, 0;", "u64 u64 u64", a < b ? ~0ull : 0)                \
  X(borrow_of_32, "sub.cc.s32 r0, a, b; subc.u32 d, c, 0;", "u32 u32 u32 u32", c - (a < b))                  \
  X(mad_lo_cc, "mad.lo.cc.u32 r0, a, b, c; madc.hi.u32 r1, a, b, 0; mov.b64 d, {r0, r1};",                   \
    "u64 u32 u32 u32", a *b + c)                                                                             \
  X(mad_hi_cc, "mad.hi.cc.u32 r0, a, b, c; addc.u32 r1, 0, 0; mov.b64 d, {r0, r1};", "u64 u32 u32 u32",      \
    (a * b >> 32) + c)                                                                                       \
  X(madc_lo_cc,                                                                                              \
    "add.cc.u32 r0, c, c; madc.lo.cc.u32 r0, a, b, c; madc.hi.u32 r1, a, b, 0; mov.b64 d, {r0, r1};",        \
    "u64 u32 u32 u32", a *b + c + (c >> 31))                                                                 \
  X(mad_lo_cc_64, "mad.lo.cc.u64 w0, a, b, c; madc.hi.u64 d, a, b, 0;", "u64 u64 u64 u64",                   \
    ((u128)a * b + c) >> 64)
CARRIES(CONFORM_FUNCTION)

static void carry_chains_add_up_to_the_wide_result(void **state) {
  (void)state;
  static const conform_row_t rows[] = {CARRIES(CONFORM_ENTRY)};
  CONFORM_ROWS(rows);
}

/* --- bits --- */

/* Field by field as the ISA's pseudo code has it. */
static u64 extract(u64 a, u64 position, u64 length, unsigned width, bool is_signed) {
  position &= 255, length &= 255;
  u64 top = position + length - 1 < width - 1 ? position + length - 1 : width - 1, result = 0;
  bool sign = is_signed && length && (a >> top & 1);
  for (unsigned bit = 0; bit < width; bit++) {
    bool set = bit < length && position + bit < width ? a >> (position + bit) & 1 : sign;
    result |= (u64)set << bit;
  }
  return result;
}
static u64 insert(u64 field, u64 into, u64 position, u64 length, unsigned width) {
  position &= 255, length &= 255;
  for (unsigned bit = 0; bit < length && position + bit < width; bit++) {
    into &= ~(1ull << (position + bit));
    into |= (field >> bit & 1) << (position + bit);
  }
  return into;
}
static u64 reverse(u64 a, unsigned width) {
  u64 result = 0;
  for (unsigned bit = 0; bit < width; bit++) result |= (a >> bit & 1) << (width - 1 - bit);
  return result;
}
/* Highest bit that differs from the sign, all ones when there is none; as a shift amount or a position. */
static u64 find(u64 a, unsigned width, bool is_signed, bool shift) {
  bool sign = is_signed && (a >> (width - 1) & 1);
  for (unsigned bit = width; bit-- > 0;)
    if ((a >> bit & 1) != sign) return shift ? width - 1 - bit : bit;
  return 0xffffffff;
}
static u64 count_bits(u64 a) {
  u64 count = 0;
  for (; a; a &= a - 1) count++;
  return count;
}
static u64 leading_zeros(u64 a, unsigned width) {
  u64 count = 0;
  while (count < width && !(a >> (width - 1 - count) & 1)) count++;
  return count;
}
static u64 nth_set(u64 mask, u64 base, s32 offset) {
  int wanted = offset < 0 ? -offset : offset, step = offset < 0 ? -1 : 1;
  if (offset == INT32_MIN) return 0xffffffff;
  if (offset == 0) return mask >> base & 1 ? base : 0xffffffff;
  for (int bit = (int)base; bit >= 0 && bit < 32; bit += step)
    if ((mask >> bit & 1) && --wanted == 0) return (u64)bit;
  return 0xffffffff;
}
static u64 permute(u64 a, u64 b, const unsigned *picks) {
  u64 bytes = a | b << 32, result = 0;
  for (unsigned n = 0; n < 4; n++) result |= (bytes >> 8 * picks[n] & 255) << 8 * n;
  return result;
}
static u64 permute_default(u64 a, u64 b, u64 c) {
  u64 bytes = a | b << 32, result = 0;
  for (unsigned n = 0; n < 4; n++) {
    u64 pick = c >> 4 * n & 15, byte = bytes >> 8 * (pick & 7) & 255;
    result |= (pick & 8 ? (byte & 128 ? 255 : 0) : byte) << 8 * n;
  }
  return result;
}
#define PICK(...) permute(a, b, (const unsigned[4][4]){__VA_ARGS__}[c & 3])
static u64 lookup(u64 a, u64 b, u64 c, unsigned table) {
  u64 result = 0;
  for (unsigned bit = 0; bit < 32; bit++)
    result |= (u64)(table >> ((a >> bit & 1) << 2 | (b >> bit & 1) << 1 | (c >> bit & 1)) & 1) << bit;
  return result;
}

#define BITS(X)                                                                                              \
  X(bfe_u32, "bfe.u32 d, a, b, c;", "u32 u32 u32 u32", extract(a, b, c, 32, false))                          \
  X(bfe_s32, "bfe.s32 d, a, b, c;", "s32 s32 u32 u32", extract(a, b, c, 32, true))                           \
  X(bfe_u64, "bfe.u64 d, a, b, c;", "u64 u64 u32 u32", extract(a, b, c, 64, false))                          \
  X(bfe_s64, "bfe.s64 d, a, b, c;", "s64 s64 u32 u32", extract(a, b, c, 64, true))                           \
  X(bfi_b32, "bfi.b32 d, a, b, c, 5;", "b32 b32 b32 u32", insert(a, b, c, 5, 32))                            \
  X(bfi_b32_length, "bfi.b32 d, a, b, 7, c;", "b32 b32 b32 u32", insert(a, b, 7, c, 32))                     \
  X(bfi_b64, "bfi.b64 d, a, b, c, 40;", "b64 b64 b64 u32", insert(a, b, c, 40, 64))                          \
  X(brev_b32, "brev.b32 d, a;", "b32 b32", reverse(a, 32))                                                   \
  X(brev_b64, "brev.b64 d, a;", "b64 b64", reverse(a, 64))                                                   \
  X(bfind_u32, "bfind.u32 d, a;", "u32 u32", find(a, 32, false, false))                                      \
  X(bfind_s32, "bfind.s32 d, a;", "u32 s32", find(a, 32, true, false))                                       \
  X(bfind_u64, "bfind.u64 d, a;", "u32 u64", find(a, 64, false, false))                                      \
  X(bfind_s64, "bfind.s64 d, a;", "u32 s64", find(a, 64, true, false))                                       \
  X(bfind_shift_u32, "bfind.shiftamt.u32 d, a;", "u32 u32", find(a, 32, false, true))                        \
  X(bfind_shift_s32, "bfind.shiftamt.s32 d, a;", "u32 s32", find(a, 32, true, true))                         \
  X(bfind_shift_s64, "bfind.shiftamt.s64 d, a;", "u32 s64", find(a, 64, true, true))                         \
  X(popc_b32, "popc.b32 d, a;", "u32 b32", count_bits(a))                                                    \
  X(popc_b64, "popc.b64 d, a;", "u32 b64", count_bits(a))                                                    \
  X(clz_b32, "clz.b32 d, a;", "u32 b32", leading_zeros(a, 32))                                               \
  X(clz_b64, "clz.b64 d, a;", "u32 b64", leading_zeros(a, 64))                                               \
  X(fns_b32, "and.b32 r0, b, 31; fns.b32 d, a, r0, c;", "u32 b32 u32 s32", nth_set(a, b & 31, (s32)c))       \
  X(prmt_default, "prmt.b32 d, a, b, c;", "b32 b32 b32 b32", permute_default(a, b, c))                       \
  X(prmt_f4e, "prmt.b32.f4e d, a, b, c;", "b32 b32 b32 b32",                                                 \
    PICK({0, 1, 2, 3}, {1, 2, 3, 4}, {2, 3, 4, 5}, {3, 4, 5, 6}))                                            \
  X(prmt_b4e, "prmt.b32.b4e d, a, b, c;", "b32 b32 b32 b32",                                                 \
    PICK({0, 7, 6, 5}, {1, 0, 7, 6}, {2, 1, 0, 7}, {3, 2, 1, 0}))                                            \
  X(prmt_rc8, "prmt.b32.rc8 d, a, b, c;", "b32 b32 b32 b32",                                                 \
    PICK({0, 0, 0, 0}, {1, 1, 1, 1}, {2, 2, 2, 2}, {3, 3, 3, 3}))                                            \
  X(prmt_ecl, "prmt.b32.ecl d, a, b, c;", "b32 b32 b32 b32",                                                 \
    PICK({0, 1, 2, 3}, {1, 1, 2, 3}, {2, 2, 2, 3}, {3, 3, 3, 3}))                                            \
  X(prmt_ecr, "prmt.b32.ecr d, a, b, c;", "b32 b32 b32 b32",                                                 \
    PICK({0, 0, 0, 0}, {0, 1, 1, 1}, {0, 1, 2, 2}, {0, 1, 2, 3}))                                            \
  X(prmt_rc16, "prmt.b32.rc16 d, a, b, c;", "b32 b32 b32 b32",                                               \
    PICK({0, 1, 0, 1}, {2, 3, 2, 3}, {0, 1, 0, 1}, {2, 3, 2, 3}))                                            \
  X(shf_l_wrap, "shf.l.wrap.b32 d, a, b, c;", "b32 b32 b32 u32", (b << 32 | a) << (c & 31) >> 32)            \
  X(shf_r_wrap, "shf.r.wrap.b32 d, a, b, c;", "b32 b32 b32 u32", (b << 32 | a) >> (c & 31))                  \
  X(shf_l_clamp, "shf.l.clamp.b32 d, a, b, c;", "b32 b32 b32 u32", (b << 32 | a) << (c < 32 ? c : 32) >> 32) \
  X(shf_r_clamp, "shf.r.clamp.b32 d, a, b, c;", "b32 b32 b32 u32", (b << 32 | a) >> (c < 32 ? c : 32))       \
  X(shl_b16, "shl.b16 d, a, b;", "b16 b16 u32", b > 15 ? 0 : a << b)                                         \
  X(shl_b64, "shl.b64 d, a, b;", "b64 b64 u32", b > 63 ? 0 : a << b)                                         \
  X(shr_u16, "shr.u16 d, a, b;", "u16 u16 u32", b > 15 ? 0 : a >> b)                                         \
  X(shr_s16, "shr.s16 d, a, b;", "s16 s16 u32", (s16)a >> (b > 15 ? 15 : b))                                 \
  X(shr_s64, "shr.s64 d, a, b;", "s64 s64 u32", (s64)a >> (b > 63 ? 63 : b))                                 \
  X(shr_b64, "shr.b64 d, a, b;", "b64 b64 u32", b > 63 ? 0 : a >> b)                                         \
  X(lop3_xor, "lop3.b32 d, a, b, c, 0x96;", "b32 b32 b32 b32", lookup(a, b, c, 0x96))                        \
  X(lop3_select, "lop3.b32 d, a, b, c, 0xca;", "b32 b32 b32 b32", lookup(a, b, c, 0xca))                     \
  X(lop3_uneven, "lop3.b32 d, a, b, c, 0x1b;", "b32 b32 b32 b32", lookup(a, b, c, 0x1b))                     \
  X(szext_wrap_s, "szext.wrap.s32 d, a, b;", "s32 s32 u32", extract(a, 0, b & 31, 32, true))                 \
  X(szext_wrap_u, "szext.wrap.u32 d, a, b;", "u32 u32 u32", extract(a, 0, b & 31, 32, false))                \
  X(szext_clamp_s, "szext.clamp.s32 d, a, b;", "s32 s32 u32", extract(a, 0, b > 32 ? 32 : b, 32, true))      \
  X(szext_clamp_u, "szext.clamp.u32 d, a, b;", "u32 u32 u32", extract(a, 0, b > 32 ? 32 : b, 32, false))     \
  X(bmsk_wrap, "bmsk.wrap.b32 d, a, b;", "b32 u32 u32", insert(~0ull, 0, a & 31, b & 31, 32))                \
  X(bmsk_clamp, "bmsk.clamp.b32 d, a, b;", "b32 u32 u32",                                                    \
    insert(~0ull, 0, a > 32 ? 32 : a, b > 32 ? 32 : b, 32))                                                  \
  X(cnot_b16, "cnot.b16 d, a;", "b16 b16", a == 0)                                                           \
  X(not_b64, "not.b64 d, a;", "b64 b64", ~a)                                                                 \
  X(selp_b64, "setp.lt.s64 p, a, b; selp.b64 d, a, c, p;", "b64 s64 s64 b64", (s64)a < (s64)b ? a : c)       \
  X(slct_u32, "slct.u32.s32 d, a, b, c;", "u32 u32 u32 s32", (s32)c >= 0 ? a : b)                            \
  X(slct_b64, "slct.b64.f32 d, a, b, c;", "b64 b64 b64 f32", conform_f32(c) >= 0 ? a : b)                    \
  X(set_u32, "set.hi.u32.u32 d, a, b;", "u32 u32 u32", a > b ? 0xffffffff : 0)                               \
  X(set_and, "setp.ne.b32 p, c, 0; set.le.and.s32.s32 d, a, b, !p;", "s32 s32 s32 u32",                      \
    (s32)a <= (s32)b && !c ? 0xffffffff : 0)                                                                 \
  X(setp_both,                                                                                               \
    "setp.ge.xor.s16 p|q, a, b, 1; selp.b32 r0, 1, 0, p; selp.b32 r1, 2, 0, q; or.b32 d, r0, r1;",           \
    "u32 s16 s16", (s16)a >= (s16)b ? 2 : 1)
BITS(CONFORM_FUNCTION)

static void bit_operations_follow_the_pseudo_code_of_the_isa(void **state) {
  (void)state;
  static const conform_row_t rows[] = {BITS(CONFORM_ENTRY)};
  CONFORM_ROWS(rows);
}

/* --- dot products of bytes --- */

static u64 dot4(u64 a, u64 b, u64 c, bool a_signed, bool b_signed) {
  for (unsigned n = 0; n < 4; n++) {
    s64 x = a_signed ? (int8_t)(a >> 8 * n) : (uint8_t)(a >> 8 * n);
    s64 y = b_signed ? (int8_t)(b >> 8 * n) : (uint8_t)(b >> 8 * n);
    c += (u64)(x * y);
  }
  return c;
}
static u64 dot2(u64 a, u64 b, u64 c, bool a_signed, bool b_signed) {
  for (unsigned n = 0; n < 2; n++) {
    s64 x = a_signed ? (s16)(a >> 16 * n) : (u16)(a >> 16 * n);
    s64 y = b_signed ? (int8_t)(b >> 8 * n) : (uint8_t)(b >> 8 * n);
    c += (u64)(x * y);
  }
  return c;
}
#define DOTS(X)                                                                                              \
  X(dp4a_uu, "dp4a.u32.u32 d, a, b, c;", "u32 u32 u32 u32", dot4(a, b, c, false, false))                     \
  X(dp4a_ss, "dp4a.s32.s32 d, a, b, c;", "s32 s32 s32 s32", dot4(a, b, c, true, true))                       \
  X(dp4a_us, "dp4a.u32.s32 d, a, b, c;", "s32 u32 s32 s32", dot4(a, b, c, false, true))                      \
  X(dp4a_su, "dp4a.s32.u32 d, a, b, c;", "s32 s32 u32 s32", dot4(a, b, c, true, false))                      \
  X(dp2a_lo_uu, "dp2a.lo.u32.u32 d, a, b, c;", "u32 u32 u32 u32", dot2(a, b, c, false, false))               \
  X(dp2a_lo_su, "dp2a.lo.s32.u32 d, a, b, c;", "s32 s32 u32 s32", dot2(a, b, c, true, false))                \
  X(dp2a_hi_ss, "dp2a.hi.s32.s32 d, a, b, c;", "s32 s32 s32 s32", dot2(a, b >> 16, c, true, true))           \
  X(dp2a_hi_us, "dp2a.hi.u32.s32 d, a, b, c;", "s32 u32 s32 s32", dot2(a, b >> 16, c, false, true))
DOTS(CONFORM_FUNCTION)

static void dot_products_of_bytes_wrap_at_32_bits(void **state) {
  (void)state;
  static const conform_row_t rows[] = {DOTS(CONFORM_ENTRY)};
  CONFORM_ROWS(rows);
}

/* --- conversions between integers --- */

#define CONVERSIONS(X)                                                                                       \
  X(cvt_s8_s32, "cvt.s8.s32 h0, a; cvt.s32.s16 d, h0;", "s32 s32", (s64)(int8_t)a)                           \
  X(cvt_u8_s32, "cvt.u8.s32 h0, a; cvt.u32.u16 d, h0;", "u32 s32", (uint8_t)a)                               \
  X(cvt_s32_s8, "cvt.s32.s8 d, a;", "s32 s8", (s64)(int8_t)a)                                                \
  X(cvt_u64_u8, "cvt.u64.u8 d, a;", "u64 u8", (uint8_t)a)                                                    \
  X(cvt_s64_s32, "cvt.s64.s32 d, a;", "s64 s32", (s64)(s32)a)                                                \
  X(cvt_u64_s32, "cvt.u64.s32 d, a;", "u64 s32", (s64)(s32)a)                                                \
  X(cvt_s64_u32, "cvt.s64.u32 d, a;", "s64 u32", a)                                                          \
  X(cvt_u16_s64, "cvt.u16.s64 d, a;", "u16 s64", a)                                                          \
  X(sat_s8_s32, "cvt.sat.s8.s32 h0, a; cvt.s32.s16 d, h0;", "s32 s32", clamp((s32)a, -128, 127))             \
  X(sat_u8_s32, "cvt.sat.u8.s32 h0, a; cvt.u32.u16 d, h0;", "u32 s32", clamp((s32)a, 0, 255))                \
  X(sat_s16_u32, "cvt.sat.s16.u32 d, a;", "s16 u32", clamp(a, 0, 32767))                                     \
  X(sat_u32_s64, "cvt.sat.u32.s64 d, a;", "u32 s64", clamp((s64)a, 0, UINT32_MAX))                           \
  X(sat_s32_s64, "cvt.sat.s32.s64 d, a;", "s32 s64", clamp((s64)a, INT32_MIN, INT32_MAX))                    \
  X(sat_s32_u64, "cvt.sat.s32.u64 d, a;", "s32 u64", clamp(a, 0, INT32_MAX))                                 \
  X(sat_u64_s64, "cvt.sat.u64.s64 d, a;", "u64 s64", clamp((s64)a, 0, UINT64_MAX))                           \
  X(sat_s64_u64, "cvt.sat.s64.u64 d, a;", "s64 u64", clamp(a, 0, INT64_MAX))                                 \
  X(sat_u16_s16, "cvt.sat.u16.s16 d, a;", "u16 s16", clamp((s16)a, 0, 65535))
CONVERSIONS(CONFORM_FUNCTION)

static void integers_convert_by_extension_truncation_and_saturation(void **state) {
  (void)state;
  static const conform_row_t rows[] = {CONVERSIONS(CONFORM_ENTRY)};
  CONFORM_ROWS(rows);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, emu_setup, emu_teardown)
  const struct CMUnitTest tests[] = {
      TEST(products_sums_and_differences_match_wider_arithmetic),
      TEST(carry_chains_add_up_to_the_wide_result),
      TEST(bit_operations_follow_the_pseudo_code_of_the_isa),
      TEST(dot_products_of_bytes_wrap_at_32_bits),
      TEST(integers_convert_by_extension_truncation_and_saturation),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
