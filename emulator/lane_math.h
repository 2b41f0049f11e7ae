/* emulator/lane_math.h: what one lane computes where C has no operator for it: half precision, bit fields,
 * saturation, the special function unit.
 *
 * Included by lanes_loops.h only, so that everything is inlined into loops for one instruction set;
 * branch-free where a vector loop should come out. Results do not depend on the instruction set: fused
 * multiply-add is exact everywhere, nothing else is contracted. NaN results of f32 and half arithmetic are
 * the GPU's canonical ones, 0x7fffffff and 0x7fff. Source of the semantics: "Parallel Thread Execution ISA",
 * NVIDIA, sections on the instructions named.
 */
#ifndef KILN_EMULATOR_LANE_MATH_H
#define KILN_EMULATOR_LANE_MATH_H

#include "emulator/kernel.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline float f32_of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, 4);
  return value;
}
static inline uint32_t bits_of_f32(float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  return bits;
}
static inline double f64_of_bits(uint64_t bits) {
  double value;
  memcpy(&value, &bits, 8);
  return value;
}
static inline uint64_t bits_of_f64(double value) {
  uint64_t bits;
  memcpy(&bits, &value, 8);
  return bits;
}
static inline uint32_t canonical_f32(float x) { return x != x ? 0x7fffffffu : bits_of_f32(x); }

/* .ftz: a denormal becomes zero, with its sign. */
static inline uint32_t flush_bits(uint32_t bits) { return bits & 0x7f800000u ? bits : bits & 0x80000000u; }
static inline float flush(float x) { return f32_of_bits(flush_bits(bits_of_f32(x))); }
static inline double flush_f64(double x) {
  uint64_t bits = bits_of_f64(x);
  return f64_of_bits(bits & 0x7ffull << 52 ? bits : bits & 1ull << 63);
}

/* Exact. The exponent is moved by a multiplication, which also normalizes denormals; an all-ones exponent is
 * put back. */
static inline float f32_of_f16(uint32_t half) {
  uint32_t sign = (half & 0x8000) << 16, magnitude = (half & 0x7fff) << 13;
  uint32_t scaled = bits_of_f32(f32_of_bits(magnitude) * 0x1p112f);
  return f32_of_bits(sign | (magnitude >= 0x0f800000 ? magnitude | 0x7f800000 : scaled));
}

/* To nearest even. A denormal result is aligned by adding 0.5, whose last bit is the half type's last bit. */
static inline uint32_t f16_of_f32(float x) {
  uint32_t bits = bits_of_f32(x), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  uint32_t normal = (magnitude + 0xfff + (magnitude >> 13 & 1) - 0x38000000) >> 13;
  uint32_t denormal = bits_of_f32(f32_of_bits(magnitude) + 0.5f) - 0x3f000000;
  uint32_t finite = magnitude < 0x38800000 ? denormal : normal;
  uint32_t result = magnitude >= 0x47800000 ? 0x7c00 : finite;
  return magnitude > 0x7f800000 ? 0x7fff : sign | result;
}
static inline uint32_t bf16_of_f32(float x) {
  uint32_t bits = bits_of_f32(x);
  return (bits & 0x7fffffff) > 0x7f800000 ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

/* Rounds x once to a binary format of `fraction` stored bits whose least normal exponent is `least` and
 * greatest `most`, as an integer counting the format's magnitudes; `rounding` is an emu_rounding_t. */
static inline uint32_t round_magnitude(double x, int fraction, int least, int most, unsigned rounding) {
  bool negative = signbit(x);
  double magnitude = fabs(x);
  uint32_t infinity = (uint32_t)(most - least + 2) << fraction;
  if (!isfinite(x)) return infinity;
  if (magnitude == 0) return 0;
  int exponent = ilogb(magnitude);
  if (exponent < least) exponent = least;
  double scaled = ldexp(magnitude, fraction - exponent), floored = floor(scaled), rest = scaled - floored;
  bool away = (rounding == EMU_ROUND_UP && !negative) || (rounding == EMU_ROUND_DOWN && negative);
  bool up =
      rounding == EMU_ROUND_NEAREST ? rest > 0.5 || (rest == 0.5 && fmod(floored, 2) != 0) : away && rest > 0;
  uint64_t units = (uint64_t)floored + up;
  uint64_t encoded = ((uint64_t)(exponent - least) << fraction) + units;
  bool to_infinity = rounding == EMU_ROUND_NEAREST || away;
  return encoded < infinity ? (uint32_t)encoded : to_infinity ? infinity : infinity - 1;
}
static inline uint32_t f16_rounded(double x, unsigned rounding) {
  if (x != x) return 0x7fff;
  return (signbit(x) ? 0x8000u : 0) | round_magnitude(x, 10, -14, 15, rounding);
}
static inline uint32_t bf16_rounded(double x, unsigned rounding) {
  if (x != x) return 0x7fff;
  return (signbit(x) ? 0x8000u : 0) | round_magnitude(x, 7, -126, 127, rounding);
}
/* An integer as a double that rounds to a half type as the integer would: bits below the top 40 become one
 * sticky bit. */
static inline double sticky_double(uint64_t magnitude, bool negative) {
  int shift = 24 - (magnitude ? __builtin_clzll(magnitude) : 64);
  if (shift > 0) magnitude = (magnitude >> shift | ((magnitude & ((1ull << shift) - 1)) != 0)) << shift;
  return negative ? -(double)magnitude : (double)magnitude;
}
#define is_negative(a)                                                                                       \
  ((a) < 1 && (a) != 0) /* spelled so that it compiles without warnings for unsigned types */
#define int_as_double(a) sticky_double(is_negative(a) ? 0 - (uint64_t)(a) : (uint64_t)(a), is_negative(a))
#define f16_from_int(a) f16_rounded(int_as_double(a), i->rounding)
#define bf16_from_int(a) bf16_rounded(int_as_double(a), i->rounding)

/* 8-bit floats, to nearest even: what is past the largest number becomes it, as .satfinite says, without
 * which there is no such conversion. e4m3 has no infinity, its largest code is NaN. */
static inline uint32_t e4m3_rounded(double x) {
  uint32_t magnitude = round_magnitude(x, 3, -6, 8, EMU_ROUND_NEAREST);
  return x != x ? 0x7f : (signbit(x) ? 0x80u : 0) | (magnitude < 0x7e ? magnitude : 0x7e);
}
static inline uint32_t e5m2_rounded(double x) {
  uint32_t magnitude = round_magnitude(x, 2, -14, 15, EMU_ROUND_NEAREST);
  return x != x ? 0x7f : (signbit(x) ? 0x80u : 0) | (magnitude < 0x7b ? magnitude : 0x7b);
}
static inline uint32_t f16_of_e4m3(uint32_t bits) {
  uint32_t magnitude = bits & 127;
  if (magnitude == 127) return 0x7fff;
  return (bits & 128) << 8 | f16_of_f32(f32_of_f16(magnitude << 7) * 256);
}
static inline uint32_t f16_of_e5m2(uint32_t bits) { return (bits & 127) > 0x7c ? 0x7fff : bits << 8; }

/* tf32 keeps 10 of 23 fraction bits. i->kind: ties away; i->mode: .relu */
static inline uint32_t tf32_of_bits(uint32_t bits, const emu_inst_t *i) {
  uint32_t magnitude = bits & 0x7fffffff;
  uint32_t add = i->kind ? 0x1000 : i->rounding == EMU_ROUND_ZERO ? 0 : 0xfff + (bits >> 13 & 1);
  uint32_t rounded = magnitude >= 0x7f800000 ? bits : (bits + add) & ~0x1fffu;
  if (i->finite && (rounded & 0x7fffffff) == 0x7f800000) rounded -= 0x2000;
  if (i->mode && rounded >> 31) rounded = 0;
  return magnitude > 0x7f800000 ? 0x7fffffff : rounded;
}

/* a*b + c rounded to odd in double, exact enough to be rounded once more to any half type (Boldo and
 * Melquiond, 2008): the product of two halves is exact in double, the sum's error is found by Knuth's TwoSum.
 */
static inline double fma_odd(double a, double b, double c) {
  double product = a * b, sum = product + c;
  double back = sum - product, error = (product - (sum - back)) + (c - back);
  uint64_t bits = bits_of_f64(sum);
  bool inexact = error != 0 && error == error && !(bits & 1) && sum - sum == 0;
  bool outward = (error > 0) == (sum > 0);
  return f64_of_bits(!inexact ? bits : outward ? bits + 1 : bits - 1);
}
/* Narrows to odd as well, so that the final rounding from f32 to the half type is the only one. */
static inline float narrow_odd(double x) {
  float r = (float)x;
  uint32_t bits = bits_of_f32(r);
  bool inexact = (double)r != x && x == x && !(bits & 1);
  bool outward = fabs((double)r) < fabs(x);
  return f32_of_bits(!inexact ? bits : outward ? bits + 1 : bits - 1);
}
#define FMA_f32(a, b, c) __builtin_fmaf(a, b, c)
#define FMA_f64(a, b, c) __builtin_fma(a, b, c)
#define FMA_f16(a, b, c) narrow_odd(fma_odd(a, b, c))
#define FMA_bf16(a, b, c) narrow_odd(fma_odd(a, b, c))

/* The other operand when one is NaN; -0 below +0. */
static inline float minimum_f32(float a, float b) {
  uint32_t both = bits_of_f32(a) | bits_of_f32(b);
  float least = a < b ? a : b < a ? b : f32_of_bits(both);
  return a != a ? b : b != b ? a : least;
}
static inline float maximum_f32(float a, float b) {
  uint32_t both = bits_of_f32(a) & bits_of_f32(b);
  float most = a > b ? a : b > a ? b : f32_of_bits(both);
  return a != a ? b : b != b ? a : most;
}
static inline double minimum_f64(double a, double b) {
  uint64_t both = bits_of_f64(a) | bits_of_f64(b);
  double least = a < b ? a : b < a ? b : f64_of_bits(both);
  return a != a ? b : b != b ? a : least;
}
static inline double maximum_f64(double a, double b) {
  uint64_t both = bits_of_f64(a) & bits_of_f64(b);
  double most = a > b ? a : b > a ? b : f64_of_bits(both);
  return a != a ? b : b != b ? a : most;
}
#define minimum_f16 minimum_f32
#define maximum_f16 maximum_f32
#define minimum_bf16 minimum_f32
#define maximum_bf16 maximum_f32
/* A NaN keeps its sign. */
static inline float with_product_sign(float magnitude, float a, float b) {
  uint32_t sign = (bits_of_f32(a) ^ bits_of_f32(b)) & 0x80000000u;
  return magnitude != magnitude ? magnitude : f32_of_bits(bits_of_f32(magnitude) | sign);
}
static inline float relu(float x) { return x != x || x > 0 ? x : 0; }

#define PACKED_HALF2(T, expression, a, b)                                                                    \
  ({                                                                                                         \
    float x = GET_##T(a), y = GET_##T(b);                                                                    \
    PUT_##T(expression);                                                                                     \
  })
#define PACKED2(T, expression, a, b)                                                                         \
  (PACKED_HALF2(T, expression, (a)&0xffff, (b)&0xffff) | PACKED_HALF2(T, expression, (a) >> 16, (b) >> 16)   \
                                                             << 16)
#define PACKED_HALF3(T, expression, a, b, c)                                                                 \
  ({                                                                                                         \
    float x = GET_##T(a), y = GET_##T(b), z = GET_##T(c);                                                    \
    PUT_##T(expression);                                                                                     \
  })
#define PACKED3(T, expression, a, b, c)                                                                      \
  (PACKED_HALF3(T, expression, (a)&0xffff, (b)&0xffff, (c)&0xffff) |                                         \
   PACKED_HALF3(T, expression, (a) >> 16, (b) >> 16, (c) >> 16) << 16)

/* To an integral value; the value of `rounding` is an emu_rounding_t. */
static inline double round_integral_f64(double x, unsigned rounding) {
  double down = __builtin_floor(x);
  if (rounding == EMU_ROUND_DOWN) return down;
  if (rounding == EMU_ROUND_UP) return __builtin_ceil(x);
  if (rounding == EMU_ROUND_ZERO) return __builtin_trunc(x);
  return __builtin_rint(x);
}
static inline float round_integral_f32(float x, unsigned rounding) {
  if (rounding == EMU_ROUND_DOWN) return __builtin_floorf(x);
  if (rounding == EMU_ROUND_UP) return __builtin_ceilf(x);
  if (rounding == EMU_ROUND_ZERO) return __builtin_truncf(x);
  return __builtin_rintf(x);
}
#define round_integral(x, rounding)                                                                          \
  _Generic((x), float : round_integral_f32, double : round_integral_f64)(x, rounding)

/* 2^x: the integral part goes into the exponent, in two halves so that denormal results are rounded once; the
 * rest, at most 1/2, through the Taylor series of exp(rest ln 2), whose error behind the term of degree 7 is
 * below 2^-27. */
static inline float exp2_approx(float x) {
  float least = x > -152.0f ? x : -152.0f, limited = least < 130.0f ? least : 130.0f;
  float whole = limited + 0x1.8p23f;
  float t = (limited - (whole - 0x1.8p23f)) * 0x1.62e43p-1f;
  int32_t exponent = (int32_t)bits_of_f32(whole) - 0x4b400000, half = exponent >> 1;
  float p = 1.0f / 5040;
  p = __builtin_fmaf(p, t, 1.0f / 720);
  p = __builtin_fmaf(p, t, 1.0f / 120);
  p = __builtin_fmaf(p, t, 1.0f / 24);
  p = __builtin_fmaf(p, t, 1.0f / 6);
  p = __builtin_fmaf(p, t, 0.5f);
  p = __builtin_fmaf(p, t, 1.0f);
  p = __builtin_fmaf(p, t, 1.0f);
  float first = f32_of_bits((uint32_t)(half + 127) << 23),
        second = f32_of_bits((uint32_t)(exponent - half + 127) << 23);
  return x != x ? x : p * first * second;
}
static inline float log2_approx(float x) { return (float)log2((double)x); }
static inline float sin_approx(float x) { return (float)sin((double)x); }
static inline float cos_approx(float x) { return (float)cos((double)x); }
/* rcp.approx.ftz.f64 works on the upper 32 bits only. */
static inline double upper_word(double x) { return f64_of_bits(bits_of_f64(x) & ~0xffffffffull); }

/* The value of a 64-bit integer, given as sign and bits, limited to [low, high]; as bits. */
static inline uint64_t saturated(bool negative, uint64_t x, int64_t low, uint64_t high) {
  if (negative) return (int64_t)x < low ? (uint64_t)low : x;
  return x > high ? high : x;
}
static inline int32_t clamp_s32(int64_t x) {
  return x < INT32_MIN ? INT32_MIN : x > INT32_MAX ? INT32_MAX : (int32_t)x;
}
static inline uint32_t pack_saturated(int32_t a, int32_t b, uint32_t c, int32_t low, int32_t high,
                                      uint32_t width) {
  uint32_t mask = (1u << width) - 1;
  uint32_t upper = (uint32_t)(a < low ? low : a > high ? high : a) & mask;
  uint32_t lower = (uint32_t)(b < low ? low : b > high ? high : b) & mask;
  return (width < 16 ? c << (2 * width) : 0) | upper << width | lower;
}
static inline uint32_t reverse_bits32(uint32_t x) {
  x = (x >> 1 & 0x55555555) | (x & 0x55555555) << 1;
  x = (x >> 2 & 0x33333333) | (x & 0x33333333) << 2;
  x = (x >> 4 & 0x0f0f0f0f) | (x & 0x0f0f0f0f) << 4;
  return __builtin_bswap32(x);
}
static inline uint32_t find_bit(uint64_t x) { return x ? 63 - (uint32_t)__builtin_clzll(x) : ~0u; }
static inline uint32_t shift_amount32(uint32_t x) {
  uint32_t y = (int32_t)x < 0 ? ~x : x;
  return y ? 31 - find_bit(y) : ~0u;
}
static inline uint32_t shift_amount64(uint64_t x) {
  uint64_t y = (int64_t)x < 0 ? ~x : x;
  return y ? 63 - find_bit(y) : ~0u;
}
/* The position of the offset-th set bit from `base` on, upwards or, negative, downwards; all ones when there
 * is none. */
static inline uint32_t find_nth_set(uint32_t mask, uint32_t base, int32_t offset) {
  if (base > 31) return ~0u;
  if (offset == 0) return mask >> base & 1 ? base : ~0u;
  int step = offset > 0 ? 1 : -1, wanted = offset > 0 ? offset : -offset;
  for (int bit = (int)base; bit >= 0 && bit < 32; bit += step)
    if (mask >> bit & 1 && --wanted == 0) return (uint32_t)bit;
  return ~0u;
}
static inline uint64_t low_bits(uint32_t count) { return count >= 64 ? ~0ull : (1ull << count) - 1; }
static inline uint64_t extract_unsigned(uint64_t a, uint32_t position, uint32_t length, uint32_t width) {
  position &= 255, length &= 255;
  return position >= width ? 0 : a >> position & low_bits(length);
}
static inline int64_t extract_signed(int64_t a, uint32_t position, uint32_t length, uint32_t width) {
  position &= 255, length &= 255;
  if (length == 0) return 0;
  uint32_t top = position + length - 1 < width - 1 ? position + length - 1 : width - 1;
  bool negative = (uint64_t)a >> top & 1;
  uint64_t value = position >= width ? 0 : (uint64_t)a >> position & low_bits(length);
  uint32_t kept = position >= width ? 0 : top - position + 1;
  return (int64_t)((value & low_bits(kept)) | (negative ? ~low_bits(kept) : 0));
}
static inline uint64_t insert_bits(uint64_t a, uint64_t b, uint32_t position, uint32_t length,
                                   uint32_t width) {
  position &= 255, length &= 255;
  if (position >= width) return b;
  uint64_t field = low_bits(length) << position;
  return (b & ~field) | (a << position & field);
}
static inline uint32_t bit_mask(uint32_t position, uint32_t length) {
  return position >= 32 ? 0 : (uint32_t)(low_bits(length) << position);
}
static inline uint32_t permute_bytes(uint32_t a, uint32_t b, uint32_t selector) {
  uint64_t bytes = (uint64_t)b << 32 | a;
  uint32_t result = 0;
  for (unsigned n = 0; n < 4; n++) {
    uint32_t pick = selector >> (4 * n) & 15, byte = (uint32_t)(bytes >> (8 * (pick & 7))) & 255;
    if (pick & 8) byte = byte & 128 ? 255 : 0;
    result |= byte << (8 * n);
  }
  return result;
}
/* Bit by bit, the entry of an 8-bit truth table that the bits of a, b and c select. */
static inline uint32_t logic_of_table(uint32_t a, uint32_t b, uint32_t c, uint32_t table) {
  uint32_t result = 0;
  for (uint32_t entry = 0; entry < 8; entry++) {
    uint32_t here = (entry & 4 ? a : ~a) & (entry & 2 ? b : ~b) & (entry & 1 ? c : ~c);
    result |= table >> entry & 1 ? here : 0;
  }
  return result;
}
static inline int32_t byte_of(uint32_t x, unsigned n, bool is_signed) {
  return is_signed ? (int8_t)(x >> (8 * n)) : (uint8_t)(x >> (8 * n));
}
static inline uint32_t dot4(uint32_t a, uint32_t b, uint32_t c, bool a_signed, bool b_signed) {
  for (unsigned n = 0; n < 4; n++) c += (uint32_t)(byte_of(a, n, a_signed) * byte_of(b, n, b_signed));
  return c;
}
static inline uint32_t dot2(uint32_t a, uint32_t b, uint32_t c, bool a_signed, bool b_signed) {
  for (unsigned n = 0; n < 2; n++) {
    int32_t half = a_signed ? (int16_t)(a >> (16 * n)) : (uint16_t)(a >> (16 * n));
    c += (uint32_t)half * (uint32_t)byte_of(b, n, b_signed);
  }
  return c;
}
static inline uint32_t add_halves(uint32_t a, uint32_t b) { return (a + b) & 0xffff; }
static inline uint32_t absolute_differences(uint32_t a, uint32_t b, uint32_t width) {
  uint32_t mask = (1u << width) - 1, result = 0;
  for (uint32_t at = 0; at < 32; at += width) {
    uint32_t x = a >> at & mask, y = b >> at & mask;
    result |= (x < y ? y - x : x - y) << at;
  }
  return result;
}
static inline uint32_t sum_of_parts(uint32_t x, uint32_t width) {
  uint32_t mask = (1u << width) - 1, sum = 0;
  for (uint32_t at = 0; at < 32; at += width) sum += x >> at & mask;
  return sum;
}
static inline uint32_t min_relu_halves(uint32_t a, uint32_t b) {
  int16_t least = (int16_t)a < (int16_t)b ? (int16_t)a : (int16_t)b;
  return least < 0 ? 0 : (uint32_t)least;
}
static inline uint32_t max_relu_halves(uint32_t a, uint32_t b) {
  int16_t most = (int16_t)a < (int16_t)b ? (int16_t)b : (int16_t)a;
  return most < 0 ? 0 : (uint32_t)most;
}
static inline uint32_t min_halves_u16(uint32_t a, uint32_t b) { return a < b ? a : b; }
static inline uint32_t max_halves_u16(uint32_t a, uint32_t b) { return a < b ? b : a; }
static inline uint32_t min_halves_s16(uint32_t a, uint32_t b) { return (int16_t)a < (int16_t)b ? a : b; }
static inline uint32_t max_halves_s16(uint32_t a, uint32_t b) { return (int16_t)a < (int16_t)b ? b : a; }
#define EACH_HALF(fn, a, b) (fn((a)&0xffff, (b)&0xffff) | fn((a) >> 16, (b) >> 16) << 16)

#define low_u32(a, b) ((a) * (b))
#define low_s32(a, b) ((a) * (b))
#define low_u64(a, b) ((a) * (b))
#define low_s64(a, b) ((a) * (b))
#define high_u32(a, b) ((uint32_t)((uint64_t)(a) * (b) >> 32))
#define high_s32(a, b) ((uint32_t)((int64_t)(int32_t)(a) * (int32_t)(b) >> 32))
#define high_u64(a, b) ((uint64_t)((unsigned __int128)(a) * (b) >> 64))
#define high_s64(a, b) ((uint64_t)((__int128)(int64_t)(a) * (int64_t)(b) >> 64))

#endif
