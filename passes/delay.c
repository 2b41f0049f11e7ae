/* passes/delay.c: repetitions move behind the work that leaves the repeated axis alone, so that it is done
 * once per copy.
 *
 *   %r: [16,128] = repeat(%x: [8,128]) {times=[2,1]}; %y = sin(%r)   ->   %y = repeat(sin(%x)) {times=[2,1]}
 *
 * Through element-wise ops whose other operands have size 1 along the axis or are repeated the same way;
 * slices, pads and cats along other axes; permutes; reverses; reshapes that only add or drop axes of size 1.
 * The kind stays: a tile goes on as a tile, an interleave as an interleave. A repetition is an index map, so
 * one that keeps other readers costs nothing and no launch is added. Stands behind repetition. Counts ops
 * that a repetition moved behind.
 */
#include <string.h>

#include "passes/replica.h"

/* Adds what operand i says about the axes of the result (aligned at the end); false when it rules the move
 * out. */
static bool agree_on_axes(const rewrite_t *rw, const draft_t *draft, const replica_t *replicas,
                          const bool *is_replica, uint32_t axis, int64_t *out_times) {
  kiln_dim_t inner = {0};
  *out_times = 1;
  for (uint32_t i = 0; i < draft->operand_count; i++) {
    uint32_t missing = draft->type.rank - rewrite_type(rw, draft->operands[i])->rank;
    if (!is_replica[i] || axis < missing || replicas[i].times[axis - missing] == 1) continue;
    if (*out_times != 1 && (*out_times != replicas[i].times[axis - missing] ||
                            !kiln_dim_equal(inner, replicas[i].inner.dims[axis - missing]))) {
      return false;
    }
    *out_times = replicas[i].times[axis - missing];
    inner = replicas[i].inner.dims[axis - missing];
  }
  for (uint32_t i = 0; *out_times != 1 && i < draft->operand_count; i++) {
    const kiln_type_t *type = rewrite_type(rw, draft->operands[i]);
    uint32_t missing = draft->type.rank - type->rank;
    if (axis < missing || kiln_dim_is(type->dims[axis - missing], 1)) continue;
    if (!is_replica[i] || replicas[i].times[axis - missing] != *out_times) return false;
  }
  return true;
}

static bool delay_elementwise(rewrite_t *rw, draft_t *draft) {
  replica_t replicas[3], result = {0};
  bool is_replica[3], any = false;
  for (uint32_t i = 0; i < draft->operand_count; i++) {
    is_replica[i] = replica_match(rw, draft->operands[i], &replicas[i]);
    if (!is_replica[i]) continue;
    if (any && result.interleave != replicas[i].interleave) return false;
    result.interleave = replicas[i].interleave;
    any = true;
  }
  if (!any) return false;
  for (uint32_t axis = 0; axis < draft->type.rank; axis++) {
    if (!agree_on_axes(rw, draft, replicas, is_replica, axis, &result.times[axis])) return false;
  }
  kiln_value_id_t operands[3];
  for (uint32_t i = 0; i < draft->operand_count; i++) {
    operands[i] = is_replica[i] ? replica_inner(rw, &replicas[i]) : draft->operands[i];
  }
  kiln_value_id_t inner =
      rewrite_emit(rw, draft->op, operands, draft->operand_count, draft->attrs, draft->attr_count);
  return replica_build(rw, draft, inner, &result);
}

static bool delay_permute(rewrite_t *rw, draft_t *draft, const replica_t *replica) {
  const int64_t *dims = draft_attr(draft, KILN_ATTR_dims)->list.integers;
  replica_t result = *replica;
  for (uint32_t i = 0; i < draft->type.rank; i++) result.times[i] = replica->times[dims[i]];
  kiln_value_id_t inner = replica_inner(rw, replica);
  return replica_build(rw, draft, rewrite_emit(rw, draft->op, &inner, 1, draft->attrs, draft->attr_count),
                       &result);
}

static bool delay_reverse(rewrite_t *rw, draft_t *draft, const replica_t *replica) {
  kiln_value_id_t inner = replica_inner(rw, replica);
  return replica_build(rw, draft, rewrite_emit(rw, draft->op, &inner, 1, draft->attrs, draft->attr_count),
                       replica);
}

static bool delay_slice(rewrite_t *rw, draft_t *draft, const replica_t *replica) {
  const kiln_type_t *type = rewrite_type(rw, draft->operands[0]);
  kiln_dim_t limits[KILN_MAX_RANK];
  for (uint32_t i = 0; i < type->rank; i++) {
    range_t range = range_of(draft->attrs, draft->attr_count, i);
    if (replica->times[i] != 1 && !range_is_whole(range, type->dims[i])) return false;
    limits[i] = replica->times[i] == 1 ? range.limit : replica->inner.dims[i];
  }
  kiln_attr_value_t attrs[3];
  memcpy(attrs, draft->attrs, draft->attr_count * sizeof *attrs);
  for (uint32_t i = 0; i < draft->attr_count; i++) {
    if (attrs[i].attr == KILN_ATTR_limits) attrs[i].list.dims = limits;
  }
  kiln_value_id_t inner = replica_inner(rw, replica);
  return replica_build(rw, draft, rewrite_emit(rw, draft->op, &inner, 1, attrs, draft->attr_count), replica);
}

static bool delay_pad(rewrite_t *rw, draft_t *draft, const replica_t *replica) {
  const kiln_dim_t *low = draft_attr(draft, KILN_ATTR_low)->list.dims;
  const kiln_dim_t *high = draft_attr(draft, KILN_ATTR_high)->list.dims;
  for (uint32_t i = 0; i < draft->type.rank; i++) {
    if (replica->times[i] != 1 && !(kiln_dim_is(low[i], 0) && kiln_dim_is(high[i], 0))) return false;
  }
  kiln_value_id_t inner = replica_inner(rw, replica);
  return replica_build(rw, draft, rewrite_emit(rw, draft->op, &inner, 1, draft->attrs, draft->attr_count),
                       replica);
}

/* A reshape that only adds or drops axes of size 1: every repeated axis has its place in the result. */
static bool delay_reshape(rewrite_t *rw, draft_t *draft, const replica_t *replica) {
  const kiln_type_t *type = rewrite_type(rw, draft->operands[0]);
  uint32_t to[KILN_MAX_RANK];
  if (!shapes_match_but_ones(type, &draft->type, to)) return false;
  replica_t result = {.interleave = replica->interleave};
  kiln_dim_t dims[KILN_MAX_RANK];
  for (uint32_t i = 0; i < draft->type.rank; i++) {
    result.times[i] = 1;
    dims[i] = draft->type.dims[i];
  }
  for (uint32_t i = 0; i < type->rank; i++) {
    if (replica->times[i] == 1) continue;
    if (kiln_dim_is(type->dims[i], 1)) return false;
    result.times[to[i]] = replica->times[i];
    dims[to[i]] = replica->inner.dims[i];
  }
  kiln_value_id_t inner = rewrite_reshape(rw, replica_inner(rw, replica), dims, draft->type.rank);
  return replica_build(rw, draft, inner, &result);
}

/* Every operand is repeated the same way along axes other than the cat's. */
static bool delay_cat(rewrite_t *rw, draft_t *draft) {
  int64_t axis = draft_int(draft, KILN_ATTR_dim);
  kiln_value_id_t *inner = KILN_NEW_ARRAY(rw->arena, kiln_value_id_t, draft->operand_count);
  replica_t first, replica;
  for (uint32_t i = 0; i < draft->operand_count; i++) {
    if (!replica_match(rw, draft->operands[i], &replica) || replica.times[axis] != 1) return false;
    if (!i) first = replica;
    if (replica.interleave != first.interleave || memcmp(replica.times, first.times, sizeof first.times))
      return false;
  }
  for (uint32_t i = 0; i < draft->operand_count; i++) {
    replica_match(rw, draft->operands[i], &replica);
    inner[i] = replica_inner(rw, &replica);
  }
  return replica_build(
      rw, draft, rewrite_emit(rw, draft->op, inner, draft->operand_count, draft->attrs, draft->attr_count),
      &first);
}

static bool delay(rewrite_t *rw, draft_t *draft) {
  replica_t replica;
  if (kiln_op_info(draft->op)->op_class == KILN_CLASS_ELEMENTWISE) return delay_elementwise(rw, draft);
  if (draft->op == KILN_OP_cat) return delay_cat(rw, draft);
  if (draft->operand_count != 1 || !replica_match(rw, draft->operands[0], &replica)) return false;
  switch (draft->op) {
  case KILN_OP_permute:
    return delay_permute(rw, draft, &replica);
  case KILN_OP_reverse:
    return delay_reverse(rw, draft, &replica);
  case KILN_OP_slice:
    return delay_slice(rw, draft, &replica);
  case KILN_OP_pad:
    return delay_pad(rw, draft, &replica);
  case KILN_OP_reshape:
    return delay_reshape(rw, draft, &replica);
  default:
    return false;
  }
}

const kiln_graph_t *kiln_pass_delay(kiln_pass_context_t *context, const kiln_graph_t *graph) {
  if (!graph_has(graph, KILN_OP_repeat) && !graph_has(graph, KILN_OP_expand)) return graph;
  rewrite_t rw = rewrite_begin(context, graph);
  for (uint32_t n = 0; n < graph->node_count; n++) {
    const kiln_node_t *node = &graph->nodes[n];
    if (node->result_count != 1) {
      rewrite_copy(&rw, node);
      continue;
    }
    draft_t draft = rewrite_draft(&rw, node);
    if (delay(&rw, &draft)) context->applied++;
    rw.map[node->first_result] = rewrite_place(&rw, &draft);
  }
  return rewrite_finish(&rw);
}
