/* base/half.c: conversions between half precision and wider formats, in integer arithmetic.
 *
 * Both narrowings cut the significand and round to nearest even by what was cut; a carry out of the
 * significand moves into the exponent field by itself, up to infinity. Source: IEEE 754-2019,
 * sections 3.4, 4.3.1 and 6.2.
 */
#include "base/half.h"

#include <string.h>

static uint32_t bits_of_f32(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static float f32_of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* significand >> cut, rounded to nearest even; 1 <= cut <= 63. */
static uint64_t round_off(uint64_t significand, int cut) {
  uint64_t kept = significand >> cut, rest = significand & ((UINT64_C(1) << cut) - 1);
  uint64_t half = UINT64_C(1) << (cut - 1);
  return kept + (rest > half || (rest == half && (kept & 1)));
}

/* A 16-bit format from f64. fraction_bits: of the significand after its leading one; bias: the greatest
 * exponent. */
static uint16_t narrow(double value, int fraction_bits, int bias) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  uint16_t sign = (uint16_t)(bits >> 48 & 0x8000), infinity = (uint16_t)((2 * bias + 1) << fraction_bits);
  int exponent = (int)(bits >> 52 & 0x7ff) - 1023, cut = 52 - fraction_bits;
  uint64_t fraction = bits & 0xfffffffffffff;
  if (exponent == 1024 && fraction) {
    return (uint16_t)(sign | infinity | 1 << (fraction_bits - 1) | fraction >> cut);
  }
  if (exponent > bias) return sign | infinity;
  if (exponent < -bias - fraction_bits) return sign; /* below half of the least denormal; f64 denormals too */
  uint64_t significand = fraction | UINT64_C(1) << 52;
  if (exponent <= -bias) return (uint16_t)(sign | round_off(significand, cut + 1 - bias - exponent));
  /* The significand's leading one adds 1 to the exponent field. */
  return (uint16_t)(sign |
                    (((uint64_t)(exponent + bias - 1) << fraction_bits) + round_off(significand, cut)));
}

uint16_t kiln_f16_from_f64(double value) { return narrow(value, 10, 15); }

uint16_t kiln_bf16_from_f64(double value) { return narrow(value, 7, 127); }

/* Widening to f64 is exact, so this rounds once too. */
uint16_t kiln_f16_from_f32(float value) { return kiln_f16_from_f64(value); }

float kiln_f16_to_f32(uint16_t bits) {
  uint32_t sign = (uint32_t)(bits & 0x8000) << 16, exponent = bits >> 10 & 31, fraction = bits & 0x3ff;
  if (exponent == 31) return f32_of_bits(sign | 0x7f800000 | (fraction ? 0x400000 : 0) | fraction << 13);
  if (exponent) return f32_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
  if (!fraction) return f32_of_bits(sign);
  int top = 31 - __builtin_clz(fraction); /* a denormal is fraction * 2^-24: normalize it */
  return f32_of_bits(sign | (uint32_t)(top + 103) << 23 | (fraction << (23 - top) & 0x7fffff));
}

uint16_t kiln_bf16_from_f32(float value) {
  uint32_t bits = bits_of_f32(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16 | 0x40);
  return (uint16_t)round_off(bits, 16);
}

float kiln_bf16_to_f32(uint16_t bits) {
  uint32_t quiet = (bits & 0x7fff) > 0x7f80 ? 0x400000 : 0;
  return f32_of_bits((uint32_t)bits << 16 | quiet);
}
