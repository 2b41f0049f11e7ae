/* client/cli_tensor.c: elements of host tensors: made up, and printed.
 *
 * Made-up elements depend on the seed and the element's index only, so that the same command line gives the
 * same bytes on every machine. Used for the inputs that a command line does not name and for values on a
 * terminal.
 */
#include "client/cli.h"

#include "base/half.h"
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

static void store_float(const kiln_tensor_t *tensor, int64_t index, double value) {
  switch (tensor->dtype) {
  case KILN_DTYPE_f16:
    ((uint16_t *)tensor->data)[index] = kiln_f16_from_f64(value);
    break;
  case KILN_DTYPE_bf16:
    ((uint16_t *)tensor->data)[index] = kiln_bf16_from_f32((float)value);
    break;
  case KILN_DTYPE_f32:
    ((float *)tensor->data)[index] = (float)value;
    break;
  default:
    ((double *)tensor->data)[index] = value;
    break;
  }
}

/* Wraps at the dtype's width; bool keeps the lowest bit. */
static void store_integer(const kiln_tensor_t *tensor, int64_t index, int64_t value) {
  if (tensor->dtype == KILN_DTYPE_bool) value &= 1;
  size_t size = kiln_dtype_bytes(tensor->dtype);
  memcpy((char *)tensor->data + (size_t)index * size, &value, size);
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

void kiln_cli_fill(const kiln_tensor_t *tensor, kiln_cli_fill_t fill, uint64_t seed) {
  int64_t count = kiln_tensor_elements(tensor);
  bool is_float = kiln_dtype_is_float(tensor->dtype);
  for (int64_t i = 0; i < count; i++)
    if (is_float)
      store_float(tensor, i, made_up_float(fill, seed, i));
    else
      store_integer(tensor, i, made_up_integer(tensor->dtype, fill, seed, i));
}

const char *kiln_cli_shape_text(kiln_arena_t *arena, const kiln_tensor_t *tensor) {
  const char *text = kiln_arena_printf(arena, "%s[", kiln_dtype_name(tensor->dtype));
  for (uint32_t d = 0; d < tensor->rank; d++)
    text = kiln_arena_printf(arena, "%s%s%lld", text, d ? "," : "", (long long)tensor->sizes[d]);
  return kiln_arena_printf(arena, "%s]", text);
}

void kiln_cli_print_element(kiln_buffer_t *out, const kiln_tensor_t *tensor, int64_t index) {
  const void *data = tensor->data;
  switch (tensor->dtype) {
  case KILN_DTYPE_bool:
    kiln_buffer_puts(out, ((const uint8_t *)data)[index] ? "true" : "false");
    break;
  case KILN_DTYPE_u8:
    kiln_buffer_printf(out, "%u", ((const uint8_t *)data)[index]);
    break;
  case KILN_DTYPE_i8:
    kiln_buffer_printf(out, "%d", ((const int8_t *)data)[index]);
    break;
  case KILN_DTYPE_i32:
    kiln_buffer_printf(out, "%d", ((const int32_t *)data)[index]);
    break;
  case KILN_DTYPE_i64:
    kiln_buffer_printf(out, "%lld", (long long)((const int64_t *)data)[index]);
    break;
  case KILN_DTYPE_f16:
    kiln_buffer_printf(out, "%.5g", kiln_f16_to_f32(((const uint16_t *)data)[index]));
    break;
  case KILN_DTYPE_bf16:
    kiln_buffer_printf(out, "%.4g", kiln_bf16_to_f32(((const uint16_t *)data)[index]));
    break;
  case KILN_DTYPE_f32:
    kiln_buffer_printf(out, "%.9g", ((const float *)data)[index]);
    break;
  case KILN_DTYPE_f64:
    kiln_buffer_printf(out, "%.17g", ((const double *)data)[index]);
    break;
  default:
    break;
  }
}
