/* ir/number.c: between numbers and storage bits; see number.h. Storage is little-endian, as device and hosts
 * are.
 */
#include "ir/number.h"

#include <math.h>
#include <string.h>

#include "base/half.h"

/* --- floats --------------------------------------------------------------------------------------------- */

static uint64_t bits_of_f32(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static float f32_of_bits(uint64_t bits) {
  uint32_t low = (uint32_t)bits;
  float value;
  memcpy(&value, &low, sizeof value);
  return value;
}

static uint64_t bits_of_f64(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static double f64_of_bits(uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

uint64_t kiln_real_to_bits(double value, kiln_dtype_t dtype) {
  switch (dtype) {
  case KILN_DTYPE_f16:
    return kiln_f16_from_f64(value);
  case KILN_DTYPE_bf16:
    return kiln_bf16_from_f64(value);
  case KILN_DTYPE_f32:
    return bits_of_f32((float)value);
  default:
    return bits_of_f64(value);
  }
}

/* To f64 with the last bit set when something was lost, so that a later rounding to fewer bits is the only
 * one. Source: Boldo and Melquiond, "When double rounding is odd" (2005). */
static double round_to_odd(long double value) {
  double rounded = (double)value;
  if (rounded == value || isnan(rounded)) return rounded;
  if (fabsl((long double)rounded) > fabsl(value)) rounded = nextafter(rounded, 0);
  return f64_of_bits(bits_of_f64(rounded) | 1);
}

uint64_t kiln_wide_to_bits(long double value, kiln_dtype_t dtype) {
  return kiln_real_to_bits(dtype == KILN_DTYPE_f64 ? (double)value : round_to_odd(value), dtype);
}

double kiln_real_from_bits(uint64_t bits, kiln_dtype_t dtype) {
  switch (dtype) {
  case KILN_DTYPE_f16:
    return kiln_f16_to_f32((uint16_t)bits);
  case KILN_DTYPE_bf16:
    return kiln_bf16_to_f32((uint16_t)bits);
  case KILN_DTYPE_f32:
    return f32_of_bits(bits);
  default:
    return f64_of_bits(bits);
  }
}

/* --- integers ------------------------------------------------------------------------------------------- */

static uint64_t low_bytes(uint64_t bits, size_t bytes) { return bits & UINT64_MAX >> (64 - 8 * bytes); }

int64_t kiln_integer_from_bits(uint64_t bits, kiln_dtype_t dtype) {
  switch (dtype) {
  case KILN_DTYPE_bool:
    return (uint8_t)bits != 0;
  case KILN_DTYPE_u8:
    return (uint8_t)bits;
  case KILN_DTYPE_i8:
    return (int8_t)bits;
  case KILN_DTYPE_i32:
    return (int32_t)bits;
  default:
    return (int64_t)bits;
  }
}

/* --- numbers -------------------------------------------------------------------------------------------- */

uint64_t kiln_number_to_bits(kiln_number_t number, kiln_dtype_t dtype) {
  if (!kiln_dtype_is_float(dtype)) return low_bytes((uint64_t)number.integer, kiln_dtype_bytes(dtype));
  if (!number.is_integer) return kiln_real_to_bits(number.real, dtype);
  return kiln_wide_to_bits(number.integer, dtype);
}

kiln_number_t kiln_number_from_bits(uint64_t bits, kiln_dtype_t dtype) {
  if (kiln_dtype_is_float(dtype)) return (kiln_number_t){.real = kiln_real_from_bits(bits, dtype)};
  int64_t integer = kiln_integer_from_bits(bits, dtype);
  return (kiln_number_t){.is_integer = true, .integer = integer, .real = (double)integer};
}

/* --- elements ------------------------------------------------------------------------------------------- */

/* Copies of a size that the compiler knows: these two are the reference evaluator's innermost loops. */
uint64_t kiln_bits_read(const void *elements, int64_t index, kiln_dtype_t dtype) {
  const char *bytes = elements;
  uint64_t bits = 0;
  switch (kiln_dtype_bytes(dtype)) {
  case 1:
    return (uint8_t)bytes[index];
  case 2:
    memcpy(&bits, bytes + 2 * index, 2);
    return bits;
  case 4:
    memcpy(&bits, bytes + 4 * index, 4);
    return bits;
  default:
    memcpy(&bits, bytes + 8 * index, 8);
    return bits;
  }
}

void kiln_bits_write(void *elements, int64_t index, kiln_dtype_t dtype, uint64_t bits) {
  char *bytes = elements;
  switch (kiln_dtype_bytes(dtype)) {
  case 1:
    bytes[index] = (char)bits;
    break;
  case 2:
    memcpy(bytes + 2 * index, &bits, 2);
    break;
  case 4:
    memcpy(bytes + 4 * index, &bits, 4);
    break;
  default:
    memcpy(bytes + 8 * index, &bits, 8);
    break;
  }
}

uint64_t kiln_constant_bits(const kiln_node_t *node, uint32_t index) {
  const kiln_attr_value_t *values = kiln_node_attr(node, KILN_ATTR_values);
  if (!values) return (uint64_t)kiln_node_attr(node, KILN_ATTR_bits)->list.integers[index];
  return kiln_number_to_bits(values->list.numbers[index], kiln_node_attr(node, KILN_ATTR_dtype)->dtype);
}
