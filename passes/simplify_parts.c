/* passes/simplify_parts.c: rules for slice, pad, cat, repeat and reverse.
 *
 * Part of simplify; see passes/simplify_rules.def for the list and passes/simplify.h for what a rule may do.
 * A comparison of dimensions that symbols leave open counts as no: the rule does not fire.
 */
#include <string.h>

#include "passes/simplify.h"

/* Both keep the work linear: a chain of cats would flatten into quadratically many operands, and a wide cat
 * that is cut into as many slices would be searched as often. */
enum { CAT_FLATTEN_OPERANDS = 64, SLICED_CAT_OPERANDS = 256 };

/* Turns the draft into a slice of value, if that has the draft's type. */
static bool draft_slice(rewrite_t *rw, draft_t *draft, kiln_value_id_t value, const range_t *ranges) {
  uint32_t rank = draft->type.rank;
  kiln_dim_t starts[KILN_MAX_RANK], limits[KILN_MAX_RANK];
  int64_t steps[KILN_MAX_RANK];
  bool stepped = false;
  for (uint32_t i = 0; i < rank; i++) {
    starts[i] = ranges[i].start;
    limits[i] = ranges[i].limit;
    steps[i] = ranges[i].step;
    stepped |= steps[i] != 1;
  }
  kiln_attr_value_t attrs[] = {attr_dims(KILN_ATTR_starts, starts, rank),
                               attr_dims(KILN_ATTR_limits, limits, rank),
                               attr_ints(KILN_ATTR_steps, steps, rank)};
  return draft_set(rw, draft, KILN_OP_slice, &value, 1, attrs, stepped ? 3 : 2);
}

bool simplify_slice_whole(rewrite_t *rw, draft_t *draft) {
  const kiln_type_t *type = rewrite_type(rw, draft->operands[0]);
  for (uint32_t i = 0; i < type->rank; i++) {
    if (!range_is_whole(range_of(draft->attrs, draft->attr_count, i), type->dims[i])) return false;
  }
  return draft_become(draft, draft->operands[0]);
}

/* Range `outer` of what range `inner` gives, as one range; elements start, start+step ... below limit. */
static bool merge_ranges(kiln_arena_t *arena, range_t inner, range_t outer, range_t *out) {
  out->step = inner.step * outer.step;
  bool constant = kiln_dim_is_constant(outer.start) && kiln_dim_is_constant(outer.limit);
  if (inner.step != 1 && !constant) return false;
  if (inner.step > INT32_MAX || outer.step > INT32_MAX) return false;
  kiln_dim_t step = kiln_dim_constant(inner.step), start, limit;
  kiln_dim_t last = kiln_dim_constant(inner.step - 1); /* what a step leaves behind the last element */
  return kiln_dim_mul(arena, outer.start, step, &start) &&
         kiln_dim_add(arena, inner.start, start, &out->start) &&
         kiln_dim_mul(arena, outer.limit, step, &limit) && kiln_dim_sub(arena, limit, last, &limit) &&
         kiln_dim_add(arena, inner.start, limit, &out->limit);
}

bool simplify_slice_merge(rewrite_t *rw, draft_t *draft) {
  const kiln_node_t *inner = rewrite_match(rw, draft->operands[0], KILN_OP_slice);
  if (!inner) return false;
  range_t ranges[KILN_MAX_RANK];
  for (uint32_t i = 0; i < draft->type.rank; i++) {
    range_t first = range_of(inner->attrs, inner->attr_count, i);
    range_t second = range_of(draft->attrs, draft->attr_count, i);
    if (!merge_ranges(rw->arena, first, second, &ranges[i])) return false;
  }
  return draft_slice(rw, draft, inner->operands[0], ranges);
}

bool simplify_slice_of_cat(rewrite_t *rw, draft_t *draft) {
  const kiln_node_t *cat = rewrite_match(rw, draft->operands[0], KILN_OP_cat);
  if (!cat || cat->operand_count > SLICED_CAT_OPERANDS) return false;
  int64_t axis = kiln_node_int(cat, KILN_ATTR_dim, 0);
  range_t ranges[KILN_MAX_RANK];
  for (uint32_t i = 0; i < draft->type.rank; i++) ranges[i] = range_of(draft->attrs, draft->attr_count, i);
  range_t *range = &ranges[axis];
  kiln_dim_t offset = kiln_dim_constant(0);
  for (uint32_t i = 0; i < cat->operand_count; i++) {
    kiln_dim_t end;
    if (!kiln_dim_provably_ge(range->start, offset)) return false;
    if (!kiln_dim_add(rw->arena, offset, rewrite_type(rw, cat->operands[i])->dims[axis], &end)) return false;
    if (kiln_dim_provably_ge(end, range->limit)) {
      return kiln_dim_sub(rw->arena, range->start, offset, &range->start) &&
             kiln_dim_sub(rw->arena, range->limit, offset, &range->limit) &&
             draft_slice(rw, draft, cat->operands[i], ranges);
    }
    offset = end;
  }
  return false;
}

bool simplify_slice_of_pad(rewrite_t *rw, draft_t *draft) {
  const kiln_node_t *pad = rewrite_match(rw, draft->operands[0], KILN_OP_pad);
  if (!pad) return false;
  const kiln_type_t *type = rewrite_type(rw, pad->operands[0]);
  const kiln_dim_t *low = kiln_node_attr(pad, KILN_ATTR_low)->list.dims;
  range_t ranges[KILN_MAX_RANK];
  for (uint32_t i = 0; i < draft->type.rank; i++) {
    ranges[i] = range_of(draft->attrs, draft->attr_count, i);
    if (!kiln_dim_provably_ge(ranges[i].start, low[i])) return false;
    if (!kiln_dim_sub(rw->arena, ranges[i].start, low[i], &ranges[i].start)) return false;
    if (!kiln_dim_sub(rw->arena, ranges[i].limit, low[i], &ranges[i].limit)) return false;
    if (!kiln_dim_provably_ge(type->dims[i], ranges[i].limit)) return false;
  }
  return draft_slice(rw, draft, pad->operands[0], ranges);
}

bool simplify_pad_nothing(rewrite_t *rw, draft_t *draft) {
  return kiln_type_same_shape(rewrite_type(rw, draft->operands[0]), &draft->type) &&
         draft_become(draft, draft->operands[0]);
}

bool simplify_pad_of_empty(rewrite_t *rw, draft_t *draft) {
  if (!kiln_type_is_empty(rewrite_type(rw, draft->operands[0]))) return false;
  return draft_full(rw, draft, number_of_pad(draft_attr(draft, KILN_ATTR_value), draft->type.dtype));
}

bool simplify_pad_merge(rewrite_t *rw, draft_t *draft) {
  const kiln_node_t *inner = rewrite_match(rw, draft->operands[0], KILN_OP_pad);
  if (!inner) return false;
  kiln_dtype_t dtype = draft->type.dtype;
  kiln_number_t fill = number_of_pad(draft_attr(draft, KILN_ATTR_value), dtype);
  if (!number_equal(fill, number_of_pad(kiln_node_attr(inner, KILN_ATTR_value), dtype))) return false;
  kiln_dim_t low[KILN_MAX_RANK], high[KILN_MAX_RANK];
  for (uint32_t i = 0; i < draft->type.rank; i++) {
    kiln_dim_t outer_low = draft_attr(draft, KILN_ATTR_low)->list.dims[i];
    kiln_dim_t outer_high = draft_attr(draft, KILN_ATTR_high)->list.dims[i];
    if (!kiln_dim_add(rw->arena, outer_low, kiln_node_attr(inner, KILN_ATTR_low)->list.dims[i], &low[i]) ||
        !kiln_dim_add(rw->arena, outer_high, kiln_node_attr(inner, KILN_ATTR_high)->list.dims[i], &high[i])) {
      return false;
    }
  }
  kiln_attr_value_t attrs[] = {attr_dims(KILN_ATTR_low, low, draft->type.rank),
                               attr_dims(KILN_ATTR_high, high, draft->type.rank),
                               {.attr = KILN_ATTR_value, .number = fill}};
  return draft_set(rw, draft, KILN_OP_pad, &inner->operands[0], 1, attrs, 3);
}

/* A list of operands that grows. */
typedef struct {
  kiln_value_id_t *items;
  size_t count, capacity;
} operands_t;

static bool draft_cat(rewrite_t *rw, draft_t *draft, const operands_t *operands) {
  if (operands->count == 1) return draft_become(draft, operands->items[0]);
  return draft_set(rw, draft, KILN_OP_cat, operands->items, (uint32_t)operands->count, draft->attrs,
                   draft->attr_count);
}

bool simplify_cat_drops_empty(rewrite_t *rw, draft_t *draft) {
  operands_t full = {0};
  for (uint32_t i = 0; i < draft->operand_count; i++) {
    if (kiln_type_is_empty(rewrite_type(rw, draft->operands[i]))) continue;
    KILN_PUSH(rw->arena, full.items, full.count, full.capacity, draft->operands[i]);
  }
  return (full.count < draft->operand_count || full.count == 1) && full.count && draft_cat(rw, draft, &full);
}

static bool all_same(const kiln_value_id_t *operands, uint32_t count) {
  for (uint32_t i = 1; i < count; i++) {
    if (operands[i] != operands[0]) return false;
  }
  return true;
}

/* The inner cat, if it may be flattened: not a repetition, which is worth more as it is. */
static const kiln_node_t *inner_cat(const rewrite_t *rw, const draft_t *draft, kiln_value_id_t operand) {
  const kiln_node_t *cat = rewrite_match(rw, operand, KILN_OP_cat);
  if (!cat || kiln_node_int(cat, KILN_ATTR_dim, 0) != draft_int(draft, KILN_ATTR_dim)) return NULL;
  return all_same(cat->operands, cat->operand_count) ? NULL : cat;
}

bool simplify_cat_flatten(rewrite_t *rw, draft_t *draft) {
  if (draft->operand_count > CAT_FLATTEN_OPERANDS || all_same(draft->operands, draft->operand_count))
    return false;
  operands_t flat = {0};
  bool any = false;
  for (uint32_t i = 0; i < draft->operand_count; i++) {
    const kiln_node_t *cat = inner_cat(rw, draft, draft->operands[i]);
    uint32_t rest = draft->operand_count - i - 1;
    bool fits = cat && flat.count + cat->operand_count + rest <= CAT_FLATTEN_OPERANDS;
    const kiln_value_id_t *parts = fits ? cat->operands : &draft->operands[i];
    for (uint32_t k = 0; k < (fits ? cat->operand_count : 1); k++) {
      KILN_PUSH(rw->arena, flat.items, flat.count, flat.capacity, parts[k]);
    }
    any |= fits;
  }
  return any && draft_cat(rw, draft, &flat);
}

/* Extends ranges by the slice when it begins where they end along the axis and agrees with them elsewhere. */
static bool extend_ranges(range_t *ranges, const kiln_node_t *slice, uint32_t rank, int64_t axis) {
  for (uint32_t i = 0; i < rank; i++) {
    range_t next = range_of(slice->attrs, slice->attr_count, i);
    bool fits = i == axis
                    ? kiln_dim_equal(next.start, ranges[i].limit) && next.step == 1 && ranges[i].step == 1
                    : kiln_dim_equal(next.start, ranges[i].start) && next.step == ranges[i].step &&
                          kiln_dim_equal(next.limit, ranges[i].limit);
    if (!fits) return false;
  }
  ranges[axis].limit = range_of(slice->attrs, slice->attr_count, (uint32_t)axis).limit;
  return true;
}

/* One slice for the run of neighbouring slices that starts at operand `first`; *end is one past the run. */
static kiln_value_id_t join_slices(rewrite_t *rw, const draft_t *draft, uint32_t first, uint32_t *end) {
  const kiln_node_t *slice = rewrite_match(rw, draft->operands[first], KILN_OP_slice);
  *end = first + 1;
  if (!slice) return draft->operands[first];
  uint32_t rank = draft->type.rank;
  int64_t axis = draft_int(draft, KILN_ATTR_dim);
  range_t ranges[KILN_MAX_RANK];
  for (uint32_t i = 0; i < rank; i++) ranges[i] = range_of(slice->attrs, slice->attr_count, i);
  for (; *end < draft->operand_count; ++*end) {
    const kiln_node_t *next = rewrite_match(rw, draft->operands[*end], KILN_OP_slice);
    if (!next || next->operands[0] != slice->operands[0] || !extend_ranges(ranges, next, rank, axis)) break;
  }
  if (*end == first + 1) return draft->operands[first];
  draft_t joined = {.value = KILN_NO_VALUE, .type = {.rank = rank}};
  draft_slice(rw, &joined, slice->operands[0], ranges);
  return rewrite_emit(rw, KILN_OP_slice, joined.operands, 1, joined.attrs, joined.attr_count);
}

bool simplify_cat_of_slices(rewrite_t *rw, draft_t *draft) {
  operands_t joined = {0};
  for (uint32_t i = 0, end; i < draft->operand_count; i = end) {
    kiln_value_id_t value = join_slices(rw, draft, i, &end);
    if (value == KILN_NO_VALUE) return false;
    KILN_PUSH(rw->arena, joined.items, joined.count, joined.capacity, value);
  }
  if (joined.count == draft->operand_count) return false;
  if (joined.count > 1) return draft_cat(rw, draft, &joined);
  const kiln_node_t *slice = kiln_graph_builder_producer(rw->builder, joined.items[0]);
  return draft_set(rw, draft, slice->op, slice->operands, 1, slice->attrs, slice->attr_count);
}

static const int64_t *times_of(const draft_t *draft) {
  return draft_attr(draft, KILN_ATTR_times)->list.integers;
}

bool simplify_repeat_same_rank(rewrite_t *rw, draft_t *draft) {
  const kiln_type_t *type = rewrite_type(rw, draft->operands[0]);
  uint32_t rank = draft->type.rank, added = rank - type->rank;
  if (!added) return false;
  kiln_dim_t dims[KILN_MAX_RANK];
  for (uint32_t i = 0; i < rank; i++) dims[i] = i < added ? kiln_dim_constant(1) : type->dims[i - added];
  kiln_value_id_t x = rewrite_reshape(rw, draft->operands[0], dims, rank);
  return draft_set(rw, draft, KILN_OP_repeat, &x, 1, draft->attrs, draft->attr_count);
}

bool simplify_repeat_once(rewrite_t *rw, draft_t *draft) {
  return kiln_type_same_shape(rewrite_type(rw, draft->operands[0]), &draft->type) &&
         draft_become(draft, draft->operands[0]);
}

bool simplify_repeat_merge(rewrite_t *rw, draft_t *draft) {
  const kiln_node_t *inner = rewrite_match(rw, draft->operands[0], KILN_OP_repeat);
  if (!inner) return false;
  const int64_t *first = kiln_node_attr(inner, KILN_ATTR_times)->list.integers;
  int64_t times[KILN_MAX_RANK];
  for (uint32_t i = 0; i < draft->type.rank; i++) {
    if (__builtin_mul_overflow(first[i], times_of(draft)[i], &times[i])) return false;
  }
  kiln_attr_value_t attr = attr_ints(KILN_ATTR_times, times, draft->type.rank);
  return draft_set(rw, draft, KILN_OP_repeat, &inner->operands[0], 1, &attr, 1);
}

bool simplify_repeat_of_ones(rewrite_t *rw, draft_t *draft) {
  const kiln_type_t *type = rewrite_type(rw, draft->operands[0]);
  for (uint32_t i = 0; i < type->rank; i++) {
    if (times_of(draft)[i] != 1 && !kiln_dim_is(type->dims[i], 1)) return false;
  }
  return draft_expand(rw, draft, draft->operands[0]);
}

bool simplify_reverse_merge(rewrite_t *rw, draft_t *draft) {
  kiln_value_id_t x = draft->operands[0];
  const kiln_node_t *inner = rewrite_match(rw, x, KILN_OP_reverse);
  const kiln_attr_value_t *lists[] = {draft_attr(draft, KILN_ATTR_dims),
                                      inner ? kiln_node_attr(inner, KILN_ATTR_dims) : NULL};
  bool reversed[KILN_MAX_RANK] = {0};
  for (int k = 0; k < (inner ? 2 : 1); k++) {
    for (uint32_t i = 0; i < lists[k]->list.count; i++) reversed[lists[k]->list.integers[i]] ^= true;
  }
  int64_t dims[KILN_MAX_RANK];
  uint32_t count = 0;
  for (uint32_t i = 0; i < draft->type.rank; i++) {
    if (reversed[i] && !kiln_dim_is(draft->type.dims[i], 1)) dims[count++] = i;
  }
  kiln_value_id_t source = inner ? inner->operands[0] : x;
  if (!count) return draft_become(draft, source);
  if (!inner && count == lists[0]->list.count) return false;
  kiln_attr_value_t attr = attr_ints(KILN_ATTR_dims, dims, count);
  return draft_set(rw, draft, KILN_OP_reverse, &source, 1, &attr, 1);
}
