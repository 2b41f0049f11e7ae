/* tests/support/random_graph.c: random graphs from a seed (tests/support/random_graph.h).
 *
 * Each step picks an op and operands and lets the shape rules decide; what they refuse is tried again with
 * other choices. Attributes are drawn so that most are accepted, and so that the patterns that passes look
 * for turn up often: a value concatenated with itself, pads that tile, slices that split, expands between
 * reshapes.
 */
#include "tests/support/random_graph.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "ir/verify.h"

enum { MAX_ELEMENTS = 3000, MAX_INPUTS = 5, ATTEMPTS_PER_NODE = 50 };

uint64_t kiln_random_next(uint64_t *state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

uint32_t kiln_random_below(uint64_t *state, uint32_t bound) {
  return (uint32_t)((kiln_random_next(state) >> 32) * bound >> 32);
}

typedef struct {
  kiln_arena_t *arena;
  kiln_graph_builder_t *builder;
  uint64_t state;
  uint32_t value_count;
} maker_t;

/* One node in the making. */
typedef struct {
  kiln_op_t op;
  kiln_value_id_t operands[8];
  uint32_t operand_count;
  kiln_attr_value_t attrs[4];
  uint32_t attr_count;
} attempt_t;

static uint32_t below(maker_t *m, uint32_t bound) { return kiln_random_below(&m->state, bound); }
static bool one_in(maker_t *m, uint32_t n) { return below(m, n) == 0; }
static const kiln_type_t *type_of(const maker_t *m, kiln_value_id_t value) {
  return kiln_graph_builder_type(m->builder, value);
}
static int64_t size_of(const kiln_type_t *type, uint32_t axis) { return type->dims[axis].constant; }

static int64_t elements_of(const kiln_type_t *type) {
  int64_t elements = 1;
  for (uint32_t i = 0; i < type->rank; i++) elements *= size_of(type, i);
  return elements;
}

static int64_t random_size(maker_t *m) {
  static const int64_t sizes[] = {1, 1, 2, 2, 3, 4, 4, 5, 6, 7, 8, 8, 16};
  return one_in(m, 40) ? 0 : sizes[below(m, sizeof sizes / sizeof *sizes)];
}

static kiln_dtype_t random_dtype(maker_t *m) {
  return one_in(m, 2) ? KILN_DTYPE_f32 : (kiln_dtype_t)below(m, KILN_DTYPE_COUNT);
}

/* --- attributes ---------------------------------------------------------------------------------------- */

static kiln_attr_value_t *add_attr(attempt_t *attempt, kiln_attr_t attr) {
  attempt->attrs[attempt->attr_count] = (kiln_attr_value_t){.attr = attr};
  return &attempt->attrs[attempt->attr_count++];
}

static void add_dims(maker_t *m, attempt_t *attempt, kiln_attr_t attr, const int64_t *sizes, uint32_t count) {
  kiln_dim_t *dims = KILN_NEW_ARRAY(m->arena, kiln_dim_t, count);
  for (uint32_t i = 0; i < count; i++) dims[i] = kiln_dim_constant(sizes[i]);
  kiln_attr_value_t *value = add_attr(attempt, attr);
  value->list.count = count;
  value->list.dims = dims;
}

static void add_ints(maker_t *m, attempt_t *attempt, kiln_attr_t attr, const int64_t *integers,
                     uint32_t count) {
  kiln_attr_value_t *value = add_attr(attempt, attr);
  value->list.count = count;
  value->list.integers = kiln_arena_copy(m->arena, integers, count * sizeof *integers);
}

static kiln_number_t random_number(maker_t *m, kiln_dtype_t dtype) {
  static const double reals[] = {0, -0.0, 1, 1, -1, 2, 0.5, 3, INFINITY, -INFINITY, 1e-40, 65504};
  if (!kiln_dtype_is_float(dtype)) {
    int64_t integer = below(m, dtype == KILN_DTYPE_bool ? 2 : 6);
    return (kiln_number_t){true, integer, (double)integer};
  }
  return (kiln_number_t){.real = reals[below(m, sizeof reals / sizeof *reals)]};
}

static void make_reshape(maker_t *m, attempt_t *attempt, const kiln_type_t *type) {
  int64_t sizes[KILN_MAX_RANK], rest = elements_of(type);
  uint32_t count = 0;
  if (one_in(m, 3)) { /* only axes of size 1 come and go */
    for (uint32_t i = 0; i < type->rank && count + 2 < KILN_MAX_RANK; i++) {
      if (one_in(m, 3)) sizes[count++] = 1;
      if (size_of(type, i) != 1 || one_in(m, 2)) sizes[count++] = size_of(type, i);
    }
  } else if (rest) {
    static const int64_t factors[] = {2, 4, 8, 3, 5, 7};
    for (int i = 0; i < 6 && count < 5; i++) {
      if (rest % factors[i] || one_in(m, 3)) continue;
      sizes[count++] = factors[i];
      rest /= factors[i];
    }
    sizes[count++] = rest;
  }
  add_dims(m, attempt, KILN_ATTR_shape, sizes, count);
}

static void make_permute(maker_t *m, attempt_t *attempt, uint32_t rank) {
  int64_t dims[KILN_MAX_RANK];
  for (uint32_t i = 0; i < rank; i++) {
    uint32_t place = below(m, i + 1);
    dims[i] = dims[place];
    dims[place] = i;
  }
  add_ints(m, attempt, KILN_ATTR_dims, dims, rank);
}

static void make_expand(maker_t *m, attempt_t *attempt, const kiln_type_t *type) {
  int64_t sizes[KILN_MAX_RANK];
  uint32_t added = type->rank < 4 && one_in(m, 3) ? 1 : 0;
  if (added) sizes[0] = random_size(m);
  for (uint32_t i = 0; i < type->rank; i++) {
    sizes[added + i] = size_of(type, i) == 1 && !one_in(m, 3) ? random_size(m) : size_of(type, i);
  }
  add_dims(m, attempt, KILN_ATTR_shape, sizes, type->rank + added);
}

static void make_slice(maker_t *m, attempt_t *attempt, const kiln_type_t *type) {
  int64_t starts[KILN_MAX_RANK], limits[KILN_MAX_RANK], steps[KILN_MAX_RANK];
  bool stepped = one_in(m, 4), halves = one_in(m, 2);
  for (uint32_t i = 0; i < type->rank; i++) {
    int64_t size = size_of(type, i);
    bool whole = one_in(m, 2);
    starts[i] = whole || (halves && one_in(m, 2)) ? 0 : halves ? size / 2 : below(m, (uint32_t)size + 1);
    limits[i] = whole    ? size
                : halves ? starts[i] + size / 2
                         : starts[i] + below(m, (uint32_t)(size - starts[i]) + 1);
    steps[i] = 1 + below(m, 3);
  }
  add_dims(m, attempt, KILN_ATTR_starts, starts, type->rank);
  add_dims(m, attempt, KILN_ATTR_limits, limits, type->rank);
  if (stepped) add_ints(m, attempt, KILN_ATTR_steps, steps, type->rank);
}

static void make_pad(maker_t *m, attempt_t *attempt, const kiln_type_t *type) {
  int64_t low[KILN_MAX_RANK] = {0}, high[KILN_MAX_RANK] = {0};
  for (uint32_t i = 0; i < type->rank; i++) {
    if (one_in(m, 2)) continue;
    *(one_in(m, 2) ? &low[i] : &high[i]) = one_in(m, 2) ? size_of(type, i) : below(m, 4);
  }
  add_dims(m, attempt, KILN_ATTR_low, low, type->rank);
  add_dims(m, attempt, KILN_ATTR_high, high, type->rank);
  if (one_in(m, 2)) add_attr(attempt, KILN_ATTR_value)->number = random_number(m, type->dtype);
}

static void make_split(maker_t *m, attempt_t *attempt, const kiln_type_t *type) {
  uint32_t axis = below(m, type->rank);
  int64_t first = below(m, (uint32_t)size_of(type, axis) + 1);
  add_attr(attempt, KILN_ATTR_dim)->integer = axis;
  add_dims(m, attempt, KILN_ATTR_sizes, (int64_t[]){first, size_of(type, axis) - first}, 2);
}

static void make_repeat(maker_t *m, attempt_t *attempt, const kiln_type_t *type) {
  int64_t times[KILN_MAX_RANK];
  uint32_t count = type->rank + (type->rank < 4 && one_in(m, 4));
  for (uint32_t i = 0; i < count; i++) times[i] = one_in(m, 2) ? 1 : 1 + below(m, 3);
  add_ints(m, attempt, KILN_ATTR_times, times, count);
}

static void make_axes(maker_t *m, attempt_t *attempt, const kiln_type_t *type, bool only_ones) {
  int64_t dims[KILN_MAX_RANK];
  uint32_t count = 0;
  for (uint32_t i = 0; i < type->rank; i++) {
    if (one_in(m, 2) && (!only_ones || size_of(type, i) == 1)) dims[count++] = i;
  }
  add_ints(m, attempt, KILN_ATTR_dims, dims, count);
}

static void make_broadcast(maker_t *m, attempt_t *attempt, const kiln_type_t *type) {
  int64_t dims[KILN_MAX_RANK];
  uint32_t count = 0;
  for (uint32_t i = 0; i <= type->rank && count < 2; i++) {
    if (one_in(m, 2)) dims[count++] = i;
  }
  add_ints(m, attempt, KILN_ATTR_dims, dims, count);
}

static void make_creation(maker_t *m, attempt_t *attempt) {
  int64_t sizes[3];
  uint32_t rank = below(m, 4);
  kiln_dtype_t dtype = random_dtype(m);
  int64_t elements = 1;
  for (uint32_t i = 0; i < rank; i++) elements *= sizes[i] = random_size(m);
  add_attr(attempt, KILN_ATTR_dtype)->dtype = dtype;
  add_dims(m, attempt, KILN_ATTR_shape, sizes, rank);
  if (attempt->op == KILN_OP_full) add_attr(attempt, KILN_ATTR_value)->number = random_number(m, dtype);
  if (attempt->op == KILN_OP_iota) add_attr(attempt, KILN_ATTR_dim)->integer = rank ? below(m, rank) : 0;
  if (attempt->op != KILN_OP_constant || elements > MAX_ELEMENTS) return;
  kiln_number_t *numbers = KILN_NEW_ARRAY(m->arena, kiln_number_t, elements);
  for (int64_t i = 0; i < elements; i++) numbers[i] = random_number(m, dtype);
  kiln_attr_value_t *values = add_attr(attempt, KILN_ATTR_values);
  values->list.count = (uint32_t)elements;
  values->list.numbers = numbers;
}

static void make_attrs(maker_t *m, attempt_t *attempt) {
  const kiln_type_t *type = attempt->operand_count ? type_of(m, attempt->operands[0]) : NULL;
  switch (attempt->op) {
  case KILN_OP_cast:
  case KILN_OP_bitcast:
    add_attr(attempt, KILN_ATTR_dtype)->dtype = random_dtype(m);
    return;
  case KILN_OP_clamp:
    if (one_in(m, 2)) add_attr(attempt, KILN_ATTR_min)->number = random_number(m, type->dtype);
    if (one_in(m, 2)) add_attr(attempt, KILN_ATTR_max)->number = random_number(m, type->dtype);
    return;
  case KILN_OP_gelu:
    add_attr(attempt, KILN_ATTR_approximate)->word = one_in(m, 2) ? "none" : "tanh";
    return;
  case KILN_OP_reshape:
    return make_reshape(m, attempt, type);
  case KILN_OP_permute:
    return make_permute(m, attempt, type->rank);
  case KILN_OP_squeeze:
    return make_axes(m, attempt, type, true);
  case KILN_OP_reverse:
    return make_axes(m, attempt, type, false);
  case KILN_OP_broadcast:
    return make_broadcast(m, attempt, type);
  case KILN_OP_expand:
    return make_expand(m, attempt, type);
  case KILN_OP_slice:
    return make_slice(m, attempt, type);
  case KILN_OP_pad:
    return make_pad(m, attempt, type);
  case KILN_OP_cat:
  case KILN_OP_gather:
    add_attr(attempt, KILN_ATTR_dim)->integer = type->rank ? below(m, type->rank) : 0;
    return;
  case KILN_OP_split:
    if (type->rank) make_split(m, attempt, type);
    return;
  case KILN_OP_repeat:
    return make_repeat(m, attempt, type);
  case KILN_OP_full:
  case KILN_OP_iota:
  case KILN_OP_constant:
    return make_creation(m, attempt);
  default:
    return;
  }
}

/* --- nodes --------------------------------------------------------------------------------------------- */

static kiln_op_t random_op(maker_t *m) {
  static const kiln_op_t favourites[] = {KILN_OP_cat,     KILN_OP_repeat,  KILN_OP_pad, KILN_OP_slice,
                                         KILN_OP_reshape, KILN_OP_expand,  KILN_OP_add, KILN_OP_mul,
                                         KILN_OP_cast,    KILN_OP_permute, KILN_OP_neg, KILN_OP_where,
                                         KILN_OP_gather};
  if (one_in(m, 2)) return favourites[below(m, sizeof favourites / sizeof *favourites)];
  kiln_op_t op;
  do {
    op = (kiln_op_t)below(m, KILN_OP_COUNT);
  } while (kiln_op_info(op)->op_class > KILN_CLASS_INDEXING);
  return op;
}

/* Recent values more often, so that graphs are deep as well as wide. */
static kiln_value_id_t random_value(maker_t *m) {
  uint32_t recent = m->value_count < 6 ? m->value_count : 6;
  return one_in(m, 2) ? below(m, m->value_count) : m->value_count - 1 - below(m, recent);
}

static kiln_value_id_t random_value_of(maker_t *m, kiln_dtype_set_t dtypes, kiln_value_id_t otherwise) {
  for (int i = 0; i < 12; i++) {
    kiln_value_id_t value = random_value(m);
    if (kiln_dtype_in(type_of(m, value)->dtype, dtypes)) return value;
  }
  return otherwise;
}

static void choose_operands(maker_t *m, attempt_t *attempt) {
  const kiln_op_info_t *info = kiln_op_info(attempt->op);
  uint32_t count = info->operands_most == KILN_MANY ? 1 + below(m, 4) : info->operands_most;
  kiln_value_id_t first = count ? random_value_of(m, info->dtypes, 0) : 0;
  bool same = one_in(m, 3);
  attempt->operand_count = count;
  for (uint32_t i = 0; i < count; i++) {
    kiln_dtype_set_t like_first = 1u << type_of(m, first)->dtype;
    attempt->operands[i] = !i || same ? first : random_value_of(m, like_first, first);
  }
  if (attempt->op == KILN_OP_where) attempt->operands[0] = random_value_of(m, KILN_DTYPES_B, 0);
  if (info->op_class == KILN_CLASS_INDEXING) {
    kiln_dtype_set_t indices = 1u << KILN_DTYPE_i32 | 1u << KILN_DTYPE_i64;
    attempt->operands[1] = random_value_of(m, indices, 0);
  }
}

static bool small(const kiln_type_t *types, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    if (types[i].rank > 6 || elements_of(&types[i]) > MAX_ELEMENTS) return false;
  }
  return true;
}

static bool add_node(maker_t *m) {
  attempt_t attempt = {.op = random_op(m)};
  choose_operands(m, &attempt);
  make_attrs(m, &attempt);
  const kiln_type_t *types[8];
  for (uint32_t i = 0; i < attempt.operand_count; i++) types[i] = type_of(m, attempt.operands[i]);
  kiln_type_t results[2];
  uint32_t result_count = attempt.op == KILN_OP_split ? 2 : 1;
  kiln_status_t refused =
      attempt.op == KILN_OP_split && !attempt.attr_count
          ? kiln_error(KILN_INVALID_GRAPH, "no axis to split")
          : kiln_shape_infer(m->arena, attempt.op, types, attempt.operand_count, attempt.attrs,
                             attempt.attr_count, results, result_count, NULL);
  kiln_status_free(refused);
  if (refused || !small(results, result_count)) return false;
  kiln_graph_builder_node(m->builder, attempt.op, attempt.operands, attempt.operand_count, attempt.attrs,
                          attempt.attr_count, results, result_count, 0);
  m->value_count += result_count;
  return true;
}

/* Dense strides of a random order of the axes, some 0. */
static kiln_layout_t random_layout(maker_t *m, const kiln_type_t *type) {
  kiln_layout_t layout = {.has_strides = true, .align_bytes = 16};
  attempt_t order = {0};
  make_permute(m, &order, type->rank);
  int64_t stride = 1;
  for (uint32_t i = 0; i < type->rank; i++) {
    int64_t axis = order.attrs[0].list.integers[i];
    bool expanded = one_in(m, 5);
    layout.strides[axis] = kiln_dim_constant(expanded ? 0 : stride);
    if (!expanded) stride *= size_of(type, (uint32_t)axis);
  }
  return layout;
}

static void add_inputs(maker_t *m, const kiln_random_options_t *options) {
  uint32_t count = 1 + below(m, MAX_INPUTS);
  for (uint32_t i = 0; i < count; i++) {
    kiln_type_t type = {.dtype = i == 0 ? KILN_DTYPE_f32 : random_dtype(m), .rank = below(m, 4)};
    for (uint32_t axis = 0; axis < type.rank; axis++) type.dims[axis] = kiln_dim_constant(random_size(m));
    kiln_layout_t layout;
    bool strided = options->strided && one_in(m, 3);
    if (strided) layout = random_layout(m, &type);
    kiln_graph_builder_input(m->builder, NULL, type, strided ? &layout : NULL);
    m->value_count++;
  }
}

const kiln_graph_t *kiln_random_graph(kiln_arena_t *arena, uint64_t seed,
                                      const kiln_random_options_t *options) {
  maker_t m = {.arena = arena, .builder = kiln_graph_builder_create(arena, "random"), .state = seed};
  add_inputs(&m, options);
  for (uint32_t n = 0, attempts = 0;
       n < options->node_count && attempts < options->node_count * ATTEMPTS_PER_NODE; attempts++) {
    n += add_node(&m);
  }
  uint32_t output_count = 1 + below(&m, 4);
  for (uint32_t i = 0; i < output_count; i++) {
    kiln_graph_builder_output(m.builder, i ? random_value(&m) : m.value_count - 1, NULL);
  }
  return kiln_graph_builder_finish(m.builder);
}

/* --- inputs -------------------------------------------------------------------------------------------- */

static void set_float(kiln_tensor_t *tensor, int64_t at, double value) {
  float single = (float)value;
  uint16_t half = tensor->dtype == KILN_DTYPE_f16 ? kiln_f16_from_f64(value) : kiln_bf16_from_f32(single);
  size_t bytes = kiln_dtype_bytes(tensor->dtype);
  const void *source = bytes == 8 ? (void *)&value : bytes == 4 ? (void *)&single : (void *)&half;
  memcpy((char *)tensor->data + (size_t)at * bytes, source, bytes);
}

static double random_real(uint64_t *state) {
  static const double specials[] = {NAN,   -0.0, 0.0, INFINITY, -INFINITY, 1e-40, -1e-40,
                                    65504, 1e10, -7,  1,        2,         0.5};
  if (kiln_random_below(state, 5) == 0)
    return specials[kiln_random_below(state, sizeof specials / sizeof *specials)];
  double uniform = (double)(int32_t)kiln_random_next(state) / 2147483648.0;
  return uniform * (kiln_random_below(state, 2) ? 1 : 10);
}

static int64_t random_integer(uint64_t *state) {
  if (kiln_random_below(state, 8) == 0) return (int64_t)kiln_random_next(state);
  return (int64_t)kiln_random_below(state, 12) - 3;
}

static void set_random(kiln_tensor_t *tensor, int64_t at, uint64_t *state) {
  size_t bytes = kiln_dtype_bytes(tensor->dtype);
  if (kiln_dtype_is_float(tensor->dtype)) return set_float(tensor, at, random_real(state));
  int64_t integer = tensor->dtype == KILN_DTYPE_bool ? kiln_random_below(state, 2) : random_integer(state);
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

void kiln_random_inputs(kiln_arena_t *arena, const kiln_graph_t *graph, uint64_t seed, const int64_t *symbols,
                        kiln_tensor_t *out_inputs) {
  uint64_t state = seed ^ 0x5eed;
  for (uint32_t i = 0; i < graph->input_count; i++) {
    const kiln_type_t *type = &graph->types[i];
    int64_t sizes[KILN_MAX_RANK];
    kiln_status_t status = kiln_type_sizes(type, symbols, sizes);
    if (!status) status = kiln_tensor_create(arena, type->dtype, type->rank, sizes, &out_inputs[i]);
    if (status) abort(); /* the test's own graphs are small */
    for (int64_t at = 0, n = kiln_tensor_elements(&out_inputs[i]); at < n; at++)
      set_random(&out_inputs[i], at, &state);
    if (graph->input_layouts[i].has_strides)
      copy_along_zero_strides(&out_inputs[i], &graph->input_layouts[i]);
  }
}
