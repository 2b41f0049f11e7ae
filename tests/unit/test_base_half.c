/* tests/unit/test_base_half.c: half precision against the definition of the formats.
 *
 * The expected value of a narrowing is computed in double from IEEE 754's definition: the multiple of the
 * unit in the last place that rint, which rounds to nearest even, gives.
 */
#include "base/half.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static uint32_t f32_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static float f32_from_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* A format of binary floats: significand bits after the point, least and greatest exponent. */
typedef struct {
  int fraction_bits, least_exponent, greatest_exponent;
} format_t;

static const format_t f16 = {10, -14, 15}, bf16 = {7, -126, 127};

static double round_to(format_t format, double value) {
  if (!value || isinf(value)) return value;
  int exponent = ilogb(value);
  if (exponent < format.least_exponent) exponent = format.least_exponent;
  double rounded =
      ldexp(rint(ldexp(value, format.fraction_bits - exponent)), exponent - format.fraction_bits);
  return fabs(rounded) >= ldexp(1, format.greatest_exponent + 1) ? copysign(INFINITY, value) : rounded;
}

static double value_of(format_t format, uint16_t bits) {
  int exponent = (bits & 0x7fff) >> format.fraction_bits;
  int fraction = bits & ((1 << format.fraction_bits) - 1);
  double sign = bits & 0x8000 ? -1 : 1;
  if (exponent > format.greatest_exponent - format.least_exponent + 1)
    return sign * (fraction ? NAN : INFINITY);
  if (!exponent) return sign * ldexp(fraction, format.least_exponent - format.fraction_bits);
  return sign * ldexp(fraction + (1 << format.fraction_bits),
                      exponent - 1 + format.least_exponent - format.fraction_bits);
}

static void every_f16_and_bf16_widens_to_its_value(void **state) {
  (void)state;
  for (uint32_t bits = 0; bits < 65536; bits++) {
    double expected[] = {value_of(f16, (uint16_t)bits), value_of(bf16, (uint16_t)bits)};
    float actual[] = {kiln_f16_to_f32((uint16_t)bits), kiln_bf16_to_f32((uint16_t)bits)};
    for (int i = 0; i < 2; i++) {
      assert_int_equal(isnan(actual[i]) != 0, isnan(expected[i]) != 0);
      if (!isnan(expected[i])) assert_int_equal(f32_bits(actual[i]), f32_bits((float)expected[i]));
    }
  }
}

static void every_f16_and_bf16_but_signalling_nans_comes_back(void **state) {
  (void)state;
  for (uint32_t bits = 0; bits < 65536; bits++) {
    uint32_t quiet16 = (bits & 0x7fff) > 0x7c00 ? 0x200 : 0, quiet_b16 = (bits & 0x7fff) > 0x7f80 ? 0x40 : 0;
    assert_int_equal(kiln_f16_from_f32(kiln_f16_to_f32((uint16_t)bits)), bits | quiet16);
    assert_int_equal(kiln_bf16_from_f32(kiln_bf16_to_f32((uint16_t)bits)), bits | quiet_b16);
  }
}

static void check_narrowing(double value) {
  assert_true(value_of(f16, kiln_f16_from_f64(value)) == round_to(f16, value));
  assert_int_equal(kiln_f16_from_f64(value) >> 15, signbit(value) != 0);
  assert_true(value_of(bf16, kiln_bf16_from_f64(value)) == round_to(bf16, value));
  assert_int_equal(kiln_bf16_from_f64(value) >> 15, signbit(value) != 0);
  float single = (float)value;
  assert_true(value_of(f16, kiln_f16_from_f32(single)) == round_to(f16, single));
  assert_true(value_of(bf16, kiln_bf16_from_f32(single)) == round_to(bf16, single));
  assert_int_equal(kiln_bf16_from_f32(single) >> 15, signbit(value) != 0);
}

/* All numbers halfway between two neighbours, and the closest f64 and f32 on either side of them. */
static void check_around_each_tie(format_t format, uint16_t infinity) {
  for (uint32_t bits = 0; bits < infinity; bits++) {
    double low = value_of(format, (uint16_t)bits);
    double high = bits + 1 == infinity ? ldexp(1, format.greatest_exponent + 1)
                                       : value_of(format, (uint16_t)(bits + 1));
    double tie = (low + high) / 2;
    double near[] = {tie, nextafter(tie, 0), nextafter(tie, INFINITY), nextafterf((float)tie, 0),
                     nextafterf((float)tie, INFINITY)};
    for (int i = 0; i < 5; i++) {
      check_narrowing(near[i]);
      check_narrowing(-near[i]);
    }
  }
}

static void narrowing_rounds_every_tie_to_even(void **state) {
  (void)state;
  check_around_each_tie(f16, 0x7c00);
  check_around_each_tie(bf16, 0x7f80);
}

static void narrowing_rounds_a_sample_of_all_f32(void **state) {
  (void)state;
  for (uint64_t bits = 0; bits < UINT64_C(1) << 32; bits += 4099) {
    float value = f32_from_bits((uint32_t)bits);
    if (!isnan(value)) check_narrowing(value);
  }
}

static void f64_is_rounded_once(void **state) {
  (void)state;
  /* 1 + 2^-11 is a tie; a little above it must go up, though f32 would first lose that little. */
  assert_int_equal(kiln_f16_from_f64(1 + ldexp(1, -11) + ldexp(1, -40)), 0x3c01);
  assert_int_equal(kiln_f16_from_f32((float)(1 + ldexp(1, -11) + ldexp(1, -40))), 0x3c00);
  assert_int_equal(kiln_f16_from_f64(5e-324), 0);
  assert_int_equal(kiln_f16_from_f64(-1e300), 0xfc00);
  assert_int_equal(kiln_bf16_from_f64(1 + ldexp(1, -8) + ldexp(1, -40)), 0x3f81);
  assert_int_equal(kiln_bf16_from_f32((float)(1 + ldexp(1, -8) + ldexp(1, -40))), 0x3f80);
}

static void a_nan_keeps_sign_and_payload_and_becomes_quiet(void **state) {
  (void)state;
  assert_int_equal(kiln_f16_from_f32(f32_from_bits(0x7f800001)), 0x7e00);
  assert_int_equal(kiln_f16_from_f32(f32_from_bits(0xffc02000)), 0xfe01);
  assert_int_equal(kiln_bf16_from_f32(f32_from_bits(0xff810000)), 0xffc1);
  assert_int_equal(kiln_bf16_from_f32(f32_from_bits(0x7f80ffff)), 0x7fc0);
  assert_int_equal(f32_bits(kiln_f16_to_f32(0xfc01)), 0xffc02000);
  assert_int_equal(f32_bits(kiln_bf16_to_f32(0x7f81)), 0x7fc10000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_f16_and_bf16_widens_to_its_value),
      cmocka_unit_test(every_f16_and_bf16_but_signalling_nans_comes_back),
      cmocka_unit_test(narrowing_rounds_every_tie_to_even),
      cmocka_unit_test(narrowing_rounds_a_sample_of_all_f32),
      cmocka_unit_test(f64_is_rounded_once),
      cmocka_unit_test(a_nan_keeps_sign_and_payload_and_becomes_quiet),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
