/* passes/replica.c: recognizes and builds tiles and interleaves (passes/replica.h). */
#include "passes/replica.h"

#include <string.h>

static bool match_repeat(const rewrite_t *rw, kiln_value_id_t value, replica_t *out) {
  const kiln_node_t *repeat = rewrite_match(rw, value, KILN_OP_repeat);
  if (!repeat) return false;
  out->base = repeat->operands[0];
  out->inner = *rewrite_type(rw, out->base);
  const kiln_attr_value_t *times = kiln_node_attr(repeat, KILN_ATTR_times);
  if (times->list.count != out->inner.rank) return false;
  for (uint32_t i = 0; i < out->inner.rank; i++) out->times[i] = times->list.integers[i];
  return true;
}

/* The only axis that an expand enlarges, and by what; type is the operand's with leading ones up to the
 * result's rank. */
static bool one_expanded_axis(const kiln_type_t *type, const kiln_type_t *expanded, uint32_t *out_axis) {
  uint32_t found = 0;
  for (uint32_t i = 0; i < expanded->rank; i++) {
    if (kiln_dim_equal(type->dims[i], expanded->dims[i])) continue;
    *out_axis = i;
    found++;
  }
  return found == 1 && kiln_dim_is_constant(expanded->dims[*out_axis]);
}

static kiln_type_t with_leading_ones(const kiln_type_t *type, uint32_t rank) {
  kiln_type_t padded = {.dtype = type->dtype, .rank = rank};
  for (uint32_t i = 0; i < rank; i++) {
    uint32_t added = rank - type->rank;
    padded.dims[i] = i < added ? kiln_dim_constant(1) : type->dims[i - added];
  }
  return padded;
}

/* Does `merged` have the dims of `expanded` with axes `first` and `first + 1` made one? */
static bool merges(kiln_arena_t *arena, const kiln_type_t *expanded, const kiln_type_t *merged,
                   uint32_t first) {
  if (merged->rank + 1 != expanded->rank || first + 1 >= expanded->rank) return false;
  for (uint32_t i = 0; i < merged->rank; i++) {
    kiln_dim_t dim = expanded->dims[i < first ? i : i + 1];
    if (i == first && !kiln_dim_mul(arena, expanded->dims[i], expanded->dims[i + 1], &dim)) return false;
    if (!kiln_dim_equal(merged->dims[i], dim)) return false;
  }
  return true;
}

/* reshape(expand(base)): base [..,1,N,..] is a tile, [..,N,1,..] an interleave. */
static bool match_expand(const rewrite_t *rw, kiln_value_id_t value, replica_t *out) {
  const kiln_node_t *reshape = rewrite_match(rw, value, KILN_OP_reshape);
  const kiln_node_t *expand = reshape ? rewrite_match(rw, reshape->operands[0], KILN_OP_expand) : NULL;
  if (!expand) return false;
  const kiln_type_t *merged = rewrite_type(rw, value), *expanded = rewrite_type(rw, reshape->operands[0]);
  kiln_type_t base = with_leading_ones(rewrite_type(rw, expand->operands[0]), expanded->rank);
  uint32_t axis = 0;
  if (!one_expanded_axis(&base, expanded, &axis)) return false;
  bool tile = merges(rw->arena, expanded, merged, axis);
  out->interleave = !tile && axis > 0 && merges(rw->arena, expanded, merged, axis - 1);
  if (!tile && !out->interleave) return false;
  uint32_t repeated = tile ? axis : axis - 1;
  out->base = expand->operands[0];
  out->inner = (kiln_type_t){.dtype = base.dtype, .rank = base.rank - 1};
  for (uint32_t i = 0; i < out->inner.rank; i++) {
    out->inner.dims[i] = base.dims[i < axis ? i : i + 1];
    out->times[i] = i == repeated ? expanded->dims[axis].constant : 1;
  }
  return true;
}

bool replica_match(const rewrite_t *rw, kiln_value_id_t value, replica_t *out) {
  *out = (replica_t){0};
  return match_repeat(rw, value, out) || match_expand(rw, value, out);
}

kiln_value_id_t replica_inner(rewrite_t *rw, const replica_t *replica) {
  const kiln_node_t *reshape = rewrite_match(rw, replica->base, KILN_OP_reshape);
  if (reshape && kiln_type_equal(rewrite_type(rw, reshape->operands[0]), &replica->inner))
    return reshape->operands[0];
  return rewrite_reshape(rw, replica->base, replica->inner.dims, replica->inner.rank);
}

static bool build_interleave(rewrite_t *rw, draft_t *draft, kiln_value_id_t inner, const int64_t *times) {
  const kiln_type_t type = *rewrite_type(rw, inner);
  uint32_t axis = 0;
  while (axis < type.rank && times[axis] == 1) axis++;
  if (axis == type.rank || type.rank == KILN_MAX_RANK) return false;
  kiln_dim_t dims[KILN_MAX_RANK];
  for (uint32_t i = 0; i <= type.rank; i++) dims[i] = type.dims[i <= axis ? i : i - 1];
  dims[axis + 1] = kiln_dim_constant(1);
  kiln_value_id_t widened = rewrite_reshape(rw, inner, dims, type.rank + 1);
  dims[axis + 1] = kiln_dim_constant(times[axis]);
  kiln_attr_value_t shape = attr_dims(KILN_ATTR_shape, dims, type.rank + 1);
  return draft_reshape(rw, draft, rewrite_emit(rw, KILN_OP_expand, &widened, 1, &shape, 1));
}

bool replica_build(rewrite_t *rw, draft_t *draft, kiln_value_id_t inner, const replica_t *replica) {
  if (inner == KILN_NO_VALUE || rewrite_type(rw, inner)->rank != draft->type.rank) return false;
  if (replica->interleave) return build_interleave(rw, draft, inner, replica->times);
  kiln_attr_value_t times = attr_ints(KILN_ATTR_times, replica->times, draft->type.rank);
  return draft_set(rw, draft, KILN_OP_repeat, &inner, 1, &times, 1);
}
