/* tests/support/random_inputs.c: what the inputs of random graphs hold (tests/support/random_graph.h).
 *
 * Each input has a character. Small integers make sums and products exact in any order, so that reductions
 * and contractions are compared bit for bit; few distinct values make ties; awkward values are rare in some
 * inputs, since one NaN fills a whole row, and common in others.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "tests/support/random_graph.h"

typedef enum { SMALL_INTEGERS, UNIFORM, TIES, RARELY_AWKWARD, AWKWARD, LARGE, CHARACTERS } character_t;

static void set_float(kiln_tensor_t *tensor, int64_t at, double value) {
  float single = (float)value;
  uint16_t half = tensor->dtype == KILN_DTYPE_f16 ? kiln_f16_from_f64(value) : kiln_bf16_from_f32(single);
  size_t bytes = kiln_dtype_bytes(tensor->dtype);
  const void *source = bytes == 8 ? (void *)&value : bytes == 4 ? (void *)&single : (void *)&half;
  memcpy((char *)tensor->data + (size_t)at * bytes, source, bytes);
}

static double awkward_real(uint64_t *state) {
  static const double specials[] = {NAN,   -0.0, 0.0, INFINITY, -INFINITY, 1e-40, -1e-40,
                                    65504, 1e10, -7,  1,        2,         0.5};
  return specials[kiln_random_below(state, sizeof specials / sizeof *specials)];
}

static double random_real(uint64_t *state, character_t character) {
  double uniform = (double)(int32_t)kiln_random_next(state) / 2147483648.0;
  switch (character) {
  case SMALL_INTEGERS:
    return (double)kiln_random_below(state, 7) - 3;
  case TIES:
    return (double)kiln_random_below(state, 3) - 1;
  case RARELY_AWKWARD:
    return kiln_random_below(state, 40) ? uniform * 4 : awkward_real(state);
  case AWKWARD:
    return kiln_random_below(state, 4) ? uniform * 10 : awkward_real(state);
  case LARGE:
    return uniform * 60000;
  default:
    return uniform;
  }
}

/* Small ones are indices too, some of them outside. */
static int64_t random_integer(uint64_t *state, character_t character) {
  int64_t any = (int64_t)kiln_random_next(state);
  switch (character) {
  case LARGE:
    return any;
  case AWKWARD:
  case RARELY_AWKWARD:
    return kiln_random_below(state, 6) ? any % 17 : any;
  case TIES:
    return (int64_t)kiln_random_below(state, 3) - 1;
  default:
    return (int64_t)kiln_random_below(state, 10) - 2;
  }
}

static void set_random(kiln_tensor_t *tensor, int64_t at, uint64_t *state, character_t character) {
  size_t bytes = kiln_dtype_bytes(tensor->dtype);
  if (kiln_dtype_is_float(tensor->dtype)) return set_float(tensor, at, random_real(state, character));
  int64_t integer = random_integer(state, character);
  if (tensor->dtype == KILN_DTYPE_bool) integer &= 1;
  memcpy((char *)tensor->data + (size_t)at * bytes, &integer, bytes);
}

/* Elements that lie at the same place, because a stride is 0, get the value of the first of them. */
static void copy_along_zero_strides(kiln_tensor_t *tensor, const kiln_layout_t *layout) {
  size_t bytes = kiln_dtype_bytes(tensor->dtype);
  for (int64_t at = 0, n = kiln_tensor_elements(tensor); at < n; at++) {
    int64_t rest = at, scale = 1, from = 0;
    for (uint32_t axis = tensor->rank; axis-- > 0;) {
      bool same = kiln_dim_is(layout->strides[axis], 0);
      from += same ? 0 : rest % tensor->sizes[axis] * scale;
      rest /= tensor->sizes[axis];
      scale *= tensor->sizes[axis];
    }
    memcpy((char *)tensor->data + (size_t)at * bytes, (char *)tensor->data + (size_t)from * bytes, bytes);
  }
}

static uint64_t state_of(const kiln_graph_t *graph, uint32_t input, uint64_t seed) {
  const char *name = graph->value_names ? graph->value_names[input] : NULL;
  uint64_t state = seed ^ 0x5eed;
  for (; name && *name; name++) state = kiln_random_next(&state) ^ (unsigned char)*name;
  if (!graph->value_names || !graph->value_names[input]) state += input;
  return kiln_random_next(&state);
}

void kiln_random_inputs(kiln_arena_t *arena, const kiln_graph_t *graph, uint64_t seed, const int64_t *symbols,
                        kiln_tensor_t *out_inputs) {
  for (uint32_t i = 0; i < graph->input_count; i++) {
    const kiln_type_t *type = &graph->types[i];
    int64_t sizes[KILN_MAX_RANK];
    kiln_status_t status = kiln_type_sizes(type, symbols, sizes);
    if (!status) status = kiln_tensor_create(arena, type->dtype, type->rank, sizes, &out_inputs[i]);
    if (status) abort(); /* the test's own graphs are small */
    uint64_t state = state_of(graph, i, seed);
    character_t character = (character_t)kiln_random_below(&state, CHARACTERS);
    for (int64_t at = 0, n = kiln_tensor_elements(&out_inputs[i]); at < n; at++)
      set_random(&out_inputs[i], at, &state, character);
    if (graph->input_layouts[i].has_strides)
      copy_along_zero_strides(&out_inputs[i], &graph->input_layouts[i]);
  }
}
