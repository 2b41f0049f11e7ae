/* tests/support/random_graph.c: random graphs from a seed (tests/support/random_graph.h).
 *
 * Each step makes a motif, or picks an op and operands and lets the shape rules decide; what they refuse is
 * tried again with other choices. Sizes come from a palette of a few per graph, and some inputs are made to
 * fit the first one as weights do, so that contractions, gammas and cats find partners.
 */
#include "tests/support/random_graph.h"

#include <stdlib.h>
#include <string.h>

#include "ir/verify.h"
#include "tests/support/random_maker.h"

enum { MAX_ELEMENTS = 6000, MAX_PRODUCTS = 400000, MAX_MADE_RANK = 6, TRIES_PER_OP = 8 };

uint64_t kiln_random_next(uint64_t *state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

uint32_t kiln_random_below(uint64_t *state, uint32_t bound) {
  return (uint32_t)((kiln_random_next(state) >> 32) * bound >> 32);
}

uint32_t kiln_maker_below(kiln_maker_t *m, uint32_t bound) { return kiln_random_below(&m->state, bound); }
bool kiln_maker_one_in(kiln_maker_t *m, uint32_t n) { return kiln_maker_below(m, n) == 0; }
static uint32_t below(kiln_maker_t *m, uint32_t bound) { return kiln_maker_below(m, bound); }
static bool one_in(kiln_maker_t *m, uint32_t n) { return kiln_maker_one_in(m, n); }

const kiln_type_t *kiln_maker_type(const kiln_maker_t *m, kiln_value_id_t value) {
  return kiln_graph_builder_type(m->builder, value);
}

/* --- sizes ---------------------------------------------------------------------------------------------- */

static const int64_t no_symbols[KILN_MAX_SYMBOLS];

static uint32_t set_count(const kiln_maker_t *m) {
  return m->options->value_set_count ? m->options->value_set_count : 1;
}

static const int64_t *value_set(const kiln_maker_t *m, uint32_t set) {
  return m->options->value_set_count ? m->options->value_sets[set] : no_symbols;
}

static int64_t size_in(const kiln_maker_t *m, kiln_dim_t dim, uint32_t set) {
  int64_t size = 0;
  return kiln_dim_eval(dim, value_set(m, set), &size) ? size : INT64_MAX;
}

static int64_t elements_in(const kiln_maker_t *m, const kiln_type_t *type, uint32_t set) {
  int64_t elements = 1;
  for (uint32_t i = 0; i < type->rank; i++) {
    if (__builtin_mul_overflow(elements, size_in(m, type->dims[i], set), &elements)) return INT64_MAX;
  }
  return elements;
}

int64_t kiln_maker_size(const kiln_maker_t *m, kiln_dim_t dim) { return size_in(m, dim, 0); }
int64_t kiln_maker_elements(const kiln_maker_t *m, const kiln_type_t *type) {
  return elements_in(m, type, 0);
}

static void fill_palette(kiln_maker_t *m) {
  static const int64_t small[] = {2, 2, 3, 4, 4, 5, 7, 8, 8, 11, 13, 16};
  static const int64_t medium[] = {17, 24, 31, 32, 33, 48, 64, 65};
  static const int64_t large[] = {100, 127, 128, 129, 256, 257, 512, 520, 1000, 1025, 2049, 4099};
  for (uint32_t s = 0; s < m->options->symbol_count; s++)
    m->palette[m->palette_count++] = kiln_dim_symbol(m->arena, s);
  for (int i = 0; i < 2; i++) m->palette[m->palette_count++] = kiln_dim_constant(small[below(m, 12)]);
  if (one_in(m, 2)) m->palette[m->palette_count++] = kiln_dim_constant(medium[below(m, 8)]);
  if (one_in(m, 5)) m->palette[m->palette_count++] = kiln_dim_constant(large[below(m, 12)]);
}

kiln_dim_t kiln_maker_random_dim(kiln_maker_t *m) {
  if (one_in(m, 8)) return kiln_dim_constant(1);
  if (one_in(m, 60)) return kiln_dim_constant(0);
  return m->palette[below(m, m->palette_count)];
}

kiln_dtype_t kiln_maker_random_dtype(kiln_maker_t *m) {
  return one_in(m, 3) ? KILN_DTYPE_f32 : (kiln_dtype_t)below(m, KILN_DTYPE_COUNT);
}

/* --- values --------------------------------------------------------------------------------------------- */

/* Recent values more often, so that graphs are deep as well as wide. */
static kiln_value_id_t some_value(kiln_maker_t *m) {
  uint32_t recent = m->value_count < 5 ? m->value_count : 5;
  return one_in(m, 2) ? m->value_count - 1 - below(m, recent) : below(m, m->value_count);
}

static bool broadcasts_to(const kiln_type_t *from, const kiln_type_t *to) {
  if (from->rank > to->rank) return false;
  for (uint32_t i = 1; i <= from->rank; i++) {
    kiln_dim_t dim = from->dims[from->rank - i];
    if (!kiln_dim_equal(dim, to->dims[to->rank - i]) && !kiln_dim_is(dim, 1)) return false;
  }
  return true;
}

kiln_value_id_t kiln_maker_value(kiln_maker_t *m, kiln_dtype_set_t dtypes, kiln_value_id_t like) {
  kiln_value_id_t fallback = KILN_NO_VALUE;
  for (int i = 0; i < 24; i++) {
    kiln_value_id_t value = some_value(m);
    if (!kiln_dtype_in(kiln_maker_type(m, value)->dtype, dtypes)) continue;
    fallback = value;
    if (like == KILN_NO_VALUE || broadcasts_to(kiln_maker_type(m, value), kiln_maker_type(m, like)))
      return value;
  }
  return fallback == KILN_NO_VALUE ? some_value(m) : fallback;
}

/* A value of this dtype and rank whose axis `axis` has this size; else one that will be refused. */
static kiln_value_id_t value_with_axis(kiln_maker_t *m, kiln_dtype_t dtype, uint32_t rank, uint32_t axis,
                                       kiln_dim_t size) {
  uint32_t start = below(m, m->value_count);
  for (uint32_t i = 0; i < m->value_count; i++) {
    kiln_value_id_t value = (start + i) % m->value_count;
    const kiln_type_t *type = kiln_maker_type(m, value);
    if (type->dtype == dtype && type->rank == rank && kiln_dim_equal(type->dims[axis], size)) return value;
  }
  return some_value(m);
}

/* --- nodes ---------------------------------------------------------------------------------------------- */

static kiln_op_t random_op(kiln_maker_t *m) {
  static const kiln_op_class_t classes[] = {
      KILN_CLASS_ELEMENTWISE, KILN_CLASS_ELEMENTWISE,   KILN_CLASS_ELEMENTWISE, KILN_CLASS_VIEW,
      KILN_CLASS_VIEW,        KILN_CLASS_VIEW,          KILN_CLASS_REDUCTION,   KILN_CLASS_REDUCTION,
      KILN_CLASS_CONTRACTION, KILN_CLASS_NORMALIZATION, KILN_CLASS_INDEXING,    KILN_CLASS_CREATION};
  static const kiln_op_t favourites[] = {KILN_OP_add,  KILN_OP_mul,   KILN_OP_sub,
                                         KILN_OP_cast, KILN_OP_where, KILN_OP_exp};
  kiln_op_class_t wanted = classes[below(m, sizeof classes / sizeof *classes)];
  if (wanted == KILN_CLASS_ELEMENTWISE && one_in(m, 2)) return favourites[below(m, 6)];
  kiln_op_t op;
  do {
    op = (kiln_op_t)below(m, KILN_OP_COUNT);
  } while (kiln_op_info(op)->op_class != wanted);
  return op;
}

static void choose_elementwise(kiln_maker_t *m, kiln_attempt_t *attempt, const kiln_op_info_t *info) {
  uint32_t count = info->operands_most == KILN_MANY ? 1 + below(m, 4) : info->operands_most;
  kiln_value_id_t first = kiln_maker_value(m, info->dtypes, KILN_NO_VALUE);
  kiln_dtype_set_t like_first = 1u << kiln_maker_type(m, first)->dtype;
  bool same = one_in(m, 3);
  attempt->operand_count = count;
  for (uint32_t i = 0; i < count; i++)
    attempt->operands[i] = !i || same ? first : kiln_maker_value(m, like_first, first);
  if (attempt->op == KILN_OP_where) attempt->operands[0] = kiln_maker_value(m, KILN_DTYPES_B, first);
}

static void choose_contraction(kiln_maker_t *m, kiln_attempt_t *attempt, const kiln_op_info_t *info) {
  kiln_value_id_t a = kiln_maker_value(m, info->dtypes, KILN_NO_VALUE);
  const kiln_type_t *type = kiln_maker_type(m, a);
  attempt->operand_count = info->operands_most;
  for (uint32_t i = 0; i < attempt->operand_count; i++) attempt->operands[i] = a;
  if (!type->rank) return;
  kiln_dim_t inner = type->dims[type->rank - 1];
  bool is_gemm = attempt->op != KILN_OP_matmul;
  uint32_t rank = is_gemm || !one_in(m, 3) ? 2 : 1 + 2 * below(m, 2);
  uint32_t axis = is_gemm ? 1 : rank > 1 ? rank - 2 : 0;
  attempt->operands[1] = value_with_axis(m, type->dtype, rank, axis, inner);
  if (attempt->operand_count < 3) return;
  kiln_dim_t columns = kiln_maker_type(m, attempt->operands[1])->dims[0];
  attempt->operands[2] = value_with_axis(m, type->dtype, 1, 0, columns);
}

static void choose_operands(kiln_maker_t *m, kiln_attempt_t *attempt) {
  const kiln_op_info_t *info = kiln_op_info(attempt->op);
  if (info->op_class == KILN_CLASS_CONTRACTION) return choose_contraction(m, attempt, info);
  if (info->op_class == KILN_CLASS_CREATION) return;
  choose_elementwise(m, attempt, info);
  if (info->op_class == KILN_CLASS_INDEXING) {
    kiln_dtype_set_t indices = 1u << KILN_DTYPE_i32 | 1u << KILN_DTYPE_i64;
    attempt->operands[1] = kiln_maker_value(m, indices, KILN_NO_VALUE);
  }
  const kiln_type_t *type = kiln_maker_type(m, attempt->operands[0]);
  if (info->op_class == KILN_CLASS_NORMALIZATION && type->rank) {
    for (uint32_t i = 1; i < attempt->operand_count; i++) {
      kiln_dim_t width = type->dims[type->rank - 1];
      attempt->operands[i] = one_in(m, 3) ? KILN_NO_VALUE : value_with_axis(m, type->dtype, 1, 0, width);
    }
  }
}

static bool wanted(const kiln_maker_t *m, kiln_op_t op) {
  return !m->options->elementwise || kiln_op_info(op)->op_class <= KILN_CLASS_INDEXING;
}

/* Every result must be small, and what a contraction multiplies too, whatever the symbols are. */
static bool small(const kiln_maker_t *m, const kiln_attempt_t *attempt, const kiln_type_t *types,
                  uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    if (types[i].rank > MAX_MADE_RANK) return false;
    for (uint32_t set = 0; set < set_count(m); set++) {
      if (elements_in(m, &types[i], set) > MAX_ELEMENTS) return false;
      if (kiln_op_info(attempt->op)->op_class != KILN_CLASS_CONTRACTION) continue;
      const kiln_type_t *a = kiln_maker_type(m, attempt->operands[0]);
      if (elements_in(m, &types[i], set) * size_in(m, a->dims[a->rank - 1], set) > MAX_PRODUCTS) return false;
    }
  }
  return true;
}

static bool holds_for_all_sets(const kiln_maker_t *m, const kiln_constraints_t *constraints) {
  for (uint32_t set = 0; set < set_count(m); set++) {
    kiln_status_t refused = kiln_constraints_check(constraints, value_set(m, set));
    kiln_status_free(refused);
    if (refused) return false;
  }
  return true;
}

static void sort_attrs(kiln_attempt_t *attempt) {
  for (uint32_t i = 1; i < attempt->attr_count; i++) {
    kiln_attr_value_t moved = attempt->attrs[i];
    uint32_t at = i;
    for (; at && attempt->attrs[at - 1].attr > moved.attr; at--) attempt->attrs[at] = attempt->attrs[at - 1];
    attempt->attrs[at] = moved;
  }
}

kiln_value_id_t kiln_maker_emit(kiln_maker_t *m, kiln_attempt_t *attempt) {
  const kiln_type_t *types[8];
  kiln_type_t results[8];
  uint32_t result_count = 0;
  kiln_constraints_t constraints = {0};
  for (uint32_t i = 0; i < attempt->operand_count; i++) {
    kiln_value_id_t operand = attempt->operands[i];
    types[i] = operand == KILN_NO_VALUE ? NULL : kiln_maker_type(m, operand);
  }
  if (!wanted(m, attempt->op)) return KILN_NO_VALUE;
  sort_attrs(attempt);
  kiln_status_t refused =
      kiln_shape_result_count(attempt->op, attempt->attrs, attempt->attr_count, &result_count);
  if (!refused)
    refused = kiln_shape_infer(m->arena, attempt->op, types, attempt->operand_count, attempt->attrs,
                               attempt->attr_count, results, result_count, &constraints);
  kiln_status_free(refused);
  if (refused || !small(m, attempt, results, result_count) || !holds_for_all_sets(m, &constraints))
    return KILN_NO_VALUE;
  m->value_count += result_count;
  m->node_count++;
  return kiln_graph_builder_node(m->builder, attempt->op, attempt->operands, attempt->operand_count,
                                 attempt->attrs, attempt->attr_count, results, result_count, 0);
}

static void add_node(kiln_maker_t *m) {
  kiln_op_t op = random_op(m);
  for (int i = 0; i < TRIES_PER_OP; i++) {
    kiln_attempt_t attempt = {.op = op};
    choose_operands(m, &attempt);
    kiln_maker_attrs(m, &attempt);
    if (kiln_maker_emit(m, &attempt) != KILN_NO_VALUE) return;
  }
}

/* --- boundaries ----------------------------------------------------------------------------------------- */

/* Strides of a random order of the axes, some 0 where that is allowed, and perhaps an alignment below 16. */
static kiln_layout_t random_layout(kiln_maker_t *m, const kiln_type_t *type, bool may_expand) {
  uint32_t align = 1u << below(m, 5), bytes = (uint32_t)kiln_dtype_bytes(type->dtype);
  kiln_layout_t layout = {.has_strides = one_in(m, 2), .align_bytes = align < bytes ? bytes : align};
  int64_t order[KILN_MAX_RANK];
  kiln_maker_permutation(m, type->rank, order);
  kiln_dim_t stride = kiln_dim_constant(one_in(m, 4) ? 2 : 1);
  for (uint32_t i = 0; i < type->rank && layout.has_strides; i++) {
    bool expanded = may_expand && one_in(m, 5);
    layout.strides[order[i]] = expanded ? kiln_dim_constant(0) : stride;
    if (!expanded && !kiln_dim_mul(m->arena, stride, type->dims[order[i]], &stride)) abort();
  }
  return layout;
}

/* A weight or a bias for the first input: its axes begin or end with the first one's last. */
static kiln_type_t companion(kiln_maker_t *m) {
  kiln_type_t type = *kiln_maker_type(m, 0);
  kiln_dim_t inner = type.rank ? type.dims[type.rank - 1] : kiln_dim_constant(1);
  type.rank = 1 + below(m, 2);
  type.dims[0] = type.dims[1] = inner;
  if (type.rank == 2) type.dims[below(m, 2)] = kiln_maker_random_dim(m);
  return type;
}

static void add_inputs(kiln_maker_t *m) {
  uint32_t count = 1 + below(m, 4);
  for (uint32_t i = 0; i < count; i++) {
    kiln_dtype_t dtype = one_in(m, 6) ? KILN_DTYPE_i32 : kiln_maker_random_dtype(m);
    kiln_type_t type = {.dtype = dtype, .rank = below(m, 12) ? 1 + below(m, 3) : 0};
    for (uint32_t axis = 0; axis < type.rank; axis++) type.dims[axis] = kiln_maker_random_dim(m);
    if (i && one_in(m, 2)) type = companion(m);
    for (uint32_t set = 0; set < set_count(m); set++) {
      if (elements_in(m, &type, set) > MAX_ELEMENTS) type.rank = 1;
    }
    kiln_layout_t layout;
    bool strided = m->options->strided && one_in(m, 3);
    if (strided) layout = random_layout(m, &type, true);
    const char *name = kiln_arena_printf(m->arena, "x%u", i);
    kiln_graph_builder_input(m->builder, name, type, strided ? &layout : NULL);
    m->value_count++;
  }
}

static void add_outputs(kiln_maker_t *m) {
  uint32_t count = 1 + below(m, 3);
  for (uint32_t i = 0; i < count; i++) {
    kiln_value_id_t value = i ? some_value(m) : m->value_count - 1;
    kiln_layout_t layout;
    bool strided = m->options->strided && one_in(m, 5);
    if (strided) layout = random_layout(m, kiln_maker_type(m, value), false);
    kiln_graph_builder_output(m->builder, value, strided ? &layout : NULL);
  }
}

const kiln_graph_t *kiln_random_graph(kiln_arena_t *arena, uint64_t seed,
                                      const kiln_random_options_t *options) {
  static const char *const names[] = {"T", "S", "U", "V"};
  kiln_maker_t m = {.arena = arena, .options = options, .state = seed};
  m.builder = kiln_graph_builder_create(arena, "random");
  for (uint32_t s = 0; s < options->symbol_count; s++) kiln_graph_builder_symbol(m.builder, names[s], 0);
  fill_palette(&m);
  add_inputs(&m);
  for (uint32_t steps = 0; m.node_count < options->node_count && steps < 20 * options->node_count; steps++) {
    if (one_in(&m, 4))
      kiln_maker_motif(&m);
    else
      add_node(&m);
  }
  add_outputs(&m);
  return kiln_graph_builder_finish(m.builder);
}
