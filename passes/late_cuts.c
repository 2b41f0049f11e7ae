/* passes/late_cuts.c: how to divide a group whose kernel turned out to be unfit.
 *
 * Called by server/pipeline.c when code generation or a compile refuses a kernel; the graph is then grouped
 * once more with these cuts. A horizontal group falls into two of half as many members, a group of several
 * stores into two of half as many. One store is computed from a value in the middle, which another kernel
 * stores. So a group of l members, n stores and m nodes takes at most log2(l) + log2(n) + log2(m) rounds.
 */
#include "passes/passes.h"

static void add_cut(kiln_arena_t *arena, kiln_cuts_t *cuts, kiln_value_id_t value, uint32_t apart,
                    const char *why) {
  kiln_cut_t one = {value, apart, why};
  KILN_PUSH(arena, cuts->items, cuts->count, cuts->capacity, one);
}

static void keep_apart(kiln_arena_t *arena, kiln_cuts_t *cuts, const kiln_store_t *stores, uint32_t count,
                       uint32_t number, const char *why) {
  for (uint32_t i = 0; i < count; i++) add_cut(arena, cuts, stores[i].value, number, why);
}

static bool is_stored(const kiln_group_t *group, kiln_value_id_t value) {
  for (uint32_t i = 0; i < group->store_count; i++) {
    if (group->stores[i].value == value) return true;
  }
  return false;
}

static uint32_t distinct_stores(const kiln_group_t *group) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < group->store_count; i++) {
    count += !i || group->stores[i].value != group->stores[i - 1].value; /* equal ones are neighbours */
  }
  return count;
}

/* The node nearest to the middle whose result could be stored; node_count when there is none. */
static uint32_t middle(const kiln_graph_t *graph, const kiln_group_t *group) {
  uint32_t half = group->node_count / 2;
  for (uint32_t step = 0; step < 2 * group->node_count; step++) {
    uint32_t i = step & 1 ? half - (step + 1) / 2 : half + step / 2; /* below zero is past the end */
    if (i >= group->node_count) continue;
    const kiln_node_t *node = &graph->nodes[group->nodes[i]];
    bool is_computed = kiln_op_info(node->op)->op_class != KILN_CLASS_CREATION;
    bool is_empty = kiln_type_is_empty(&graph->types[node->first_result]);
    if (is_computed && !is_empty && !is_stored(group, node->first_result)) return i;
  }
  return group->node_count;
}

/* A group without members; stores that go elsewhere go under this number. */
static bool cut_one(kiln_arena_t *arena, const kiln_graph_t *graph, const kiln_group_t *group,
                    uint32_t number, const char *why, kiln_cuts_t *cuts) {
  bool is_region = false;
  for (uint32_t i = 0; i < group->node_count; i++) {
    is_region |= kiln_op_info(graph->nodes[group->nodes[i]].op)->op_class >= KILN_CLASS_REDUCTION;
  }
  uint32_t stores = is_region ? 1 : distinct_stores(group);
  if (stores > 1) {
    uint32_t half = group->store_count / 2;
    keep_apart(arena, cuts, group->stores + half, group->store_count - half, number, why);
    return true;
  }
  uint32_t at = middle(graph, group);
  if (at == group->node_count) return false;
  add_cut(arena, cuts, graph->nodes[group->nodes[at]].first_result, 0, why);
  return true;
}

bool kiln_cut_group(kiln_arena_t *arena, const kiln_graph_t *graph, const kiln_group_t *group,
                    const char *why, kiln_cuts_t *cuts) {
  uint32_t number = (uint32_t)cuts->count + 1;
  if (group->member_count <= 1) return cut_one(arena, graph, group, number, why, cuts);
  for (uint32_t m = group->member_count / 2; m < group->member_count; m++)
    keep_apart(arena, cuts, group->members[m].stores, group->members[m].store_count, number, why);
  return true;
}

bool kiln_cut_kernel(kiln_arena_t *arena, const kiln_graph_t *graph, const kiln_group_t *group,
                     const char *why, kiln_cuts_t *cuts) {
  uint32_t number = (uint32_t)cuts->count + 1; /* one for all: the parts of members meet again */
  if (group->member_count <= 1) return cut_one(arena, graph, group, number, why, cuts);
  bool any = false;
  for (uint32_t m = 0; m < group->member_count; m++)
    any |= cut_one(arena, graph, &group->members[m], number, why, cuts);
  return any;
}
