/* client/cli_tensor.c: elements of host tensors: made up, and printed.
 *
 * Made-up elements depend on the seed and the element's index only, so that the same command line gives the
 * same bytes on every machine. Used for the inputs that a command line does not name and for values on a
 * terminal.
 */
#include "client/cli.h"

#include "ir/number.h"
#include <math.h>
#include <string.h>

/* SplitMix64 (Steele, Lea, Flood 2014): the index-th number of a stream, independent of the others. */
static uint64_t mix(uint64_t seed, uint64_t index) {
  uint64_t z = seed * UINT64_C(0xd1342543de82ef95) + (index + 1) * UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

/* Above 0, at most 1. */
static double uniform(uint64_t bits) { return (double)((bits >> 11) + 1) * 0x1p-53; }

/* A normal number by Box and Muller. */
static double normal(uint64_t seed, uint64_t index) {
  double radius = sqrt(-2 * log(uniform(mix(seed, 2 * index))));
  return radius * cos(6.283185307179586 * uniform(mix(seed, 2 * index + 1)));
}

static int64_t random_integer(kiln_dtype_t dtype, uint64_t bits) {
  switch (dtype) {
  case KILN_DTYPE_bool:
    return (int64_t)(bits >> 63);
  case KILN_DTYPE_u8:
    return (int64_t)(bits % 10);
  default:
    return (int64_t)(bits % 19) - 9;
  }
}

static int64_t made_up_integer(kiln_dtype_t dtype, kiln_cli_fill_t fill, uint64_t seed, int64_t index) {
  switch (fill) {
  case KILN_FILL_RANDOM:
    return random_integer(dtype, mix(seed, (uint64_t)index));
  case KILN_FILL_INDEX:
    return (int64_t)(mix(seed, (uint64_t)index) % 8);
  case KILN_FILL_ARANGE:
    return index;
  default:
    return 0;
  }
}

static double made_up_float(kiln_cli_fill_t fill, uint64_t seed, int64_t index) {
  if (fill == KILN_FILL_RANDOM) return normal(seed, (uint64_t)index);
  return fill == KILN_FILL_ARANGE ? (double)index : 0;
}

/* Integers wrap at the dtype's width; bool keeps the lowest bit. */
static uint64_t made_up_bits(kiln_dtype_t dtype, kiln_cli_fill_t fill, uint64_t seed, int64_t index) {
  if (kiln_dtype_is_float(dtype)) return kiln_real_to_bits(made_up_float(fill, seed, index), dtype);
  uint64_t bits = (uint64_t)made_up_integer(dtype, fill, seed, index);
  return dtype == KILN_DTYPE_bool ? bits & 1 : bits;
}

void kiln_cli_fill(const kiln_tensor_t *tensor, kiln_cli_fill_t fill, uint64_t seed) {
  int64_t count = kiln_tensor_elements(tensor);
  for (int64_t i = 0; i < count; i++)
    kiln_bits_write(tensor->data, i, tensor->dtype, made_up_bits(tensor->dtype, fill, seed, i));
}

const char *kiln_cli_shape_text(kiln_arena_t *arena, const kiln_tensor_t *tensor) {
  const char *text = kiln_arena_printf(arena, "%s[", kiln_dtype_name(tensor->dtype));
  for (uint32_t d = 0; d < tensor->rank; d++)
    text = kiln_arena_printf(arena, "%s%s%lld", text, d ? "," : "", (long long)tensor->sizes[d]);
  return kiln_arena_printf(arena, "%s]", text);
}

void kiln_cli_print_element(kiln_buffer_t *out, const kiln_tensor_t *tensor, int64_t index) {
  static const int digits[KILN_DTYPE_COUNT] = {
      [KILN_DTYPE_f16] = 5, [KILN_DTYPE_bf16] = 4, [KILN_DTYPE_f32] = 9, [KILN_DTYPE_f64] = 17};
  kiln_dtype_t dtype = tensor->dtype;
  uint64_t bits = kiln_bits_read(tensor->data, index, dtype);
  if (dtype == KILN_DTYPE_bool)
    kiln_buffer_puts(out, bits ? "true" : "false");
  else if (kiln_dtype_is_float(dtype))
    kiln_buffer_printf(out, "%.*g", digits[dtype], kiln_real_from_bits(bits, dtype));
  else
    kiln_buffer_printf(out, "%lld", (long long)kiln_integer_from_bits(bits, dtype));
}
