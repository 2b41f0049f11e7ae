/* ir/number.c: from written numbers to storage bits. Integers go to floats directly, not through a double. */
#include "ir/number.h"

#include <string.h>

#include "base/half.h"

static uint64_t bits_of_f32(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static uint64_t bits_of_f64(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

uint64_t kiln_number_to_bits(kiln_number_t number, kiln_dtype_t dtype) {
  switch (dtype) {
  case KILN_DTYPE_f16:
    return kiln_f16_from_f64(number.real);
  case KILN_DTYPE_bf16:
    return kiln_bf16_from_f64(number.real);
  case KILN_DTYPE_f32:
    return bits_of_f32(number.is_integer ? (float)number.integer : (float)number.real);
  case KILN_DTYPE_f64:
    return bits_of_f64(number.real);
  case KILN_DTYPE_u8:
  case KILN_DTYPE_i8:
    return (uint8_t)number.integer;
  case KILN_DTYPE_i32:
    return (uint32_t)number.integer;
  default:
    return (uint64_t)number.integer;
  }
}

uint64_t kiln_constant_bits(const kiln_node_t *node, uint32_t index) {
  const kiln_attr_value_t *values = kiln_node_attr(node, KILN_ATTR_values);
  if (!values) return (uint64_t)kiln_node_attr(node, KILN_ATTR_bits)->list.integers[index];
  return kiln_number_to_bits(values->list.numbers[index], kiln_node_attr(node, KILN_ATTR_dtype)->dtype);
}
