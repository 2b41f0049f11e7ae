/* passes/merge.c: several vertical groups become one group, and what level that has (passes/horizontal.h). */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "passes/horizontal.h"

static int by_number(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

/* Sorted, each once; `total` counts what the lists hold together. */
static const uint32_t *unite(kiln_arena_t *arena, uint32_t *all, uint32_t total, uint32_t *out_count) {
  if (total) qsort(all, total, sizeof *all, by_number);
  uint32_t count = 0;
  for (uint32_t i = 0; i < total; i++) {
    if (!count || all[count - 1] != all[i]) all[count++] = all[i];
  }
  *out_count = count;
  return kiln_arena_copy(arena, all, count * sizeof *all);
}

/* The lists of all members one behind the other. */
typedef struct {
  uint32_t *nodes, *inputs;
  kiln_store_t *stores;
  uint32_t node_count, input_count, store_count;
} lists_t;

static void append(lists_t *lists, const kiln_group_t *member) {
  memcpy(lists->nodes + lists->node_count, member->nodes, member->node_count * sizeof *member->nodes);
  memcpy(lists->inputs + lists->input_count, member->inputs, member->input_count * sizeof *member->inputs);
  memcpy(lists->stores + lists->store_count, member->stores, member->store_count * sizeof *member->stores);
  lists->node_count += member->node_count;
  lists->input_count += member->input_count;
  lists->store_count += member->store_count;
}

kiln_group_t merge_groups(kiln_arena_t *arena, const kiln_group_t *groups, const uint32_t *indices,
                          uint32_t count) {
  kiln_group_t *members = KILN_NEW_ARRAY(arena, kiln_group_t, count);
  uint32_t node_count = 0, input_count = 0, store_count = 0;
  for (uint32_t i = 0; i < count; i++) {
    members[i] = groups[indices[i]];
    node_count += members[i].node_count;
    input_count += members[i].input_count;
    store_count += members[i].store_count;
  }
  lists_t lists = {.nodes = KILN_NEW_ARRAY(arena, uint32_t, node_count),
                   .inputs = KILN_NEW_ARRAY(arena, uint32_t, input_count),
                   .stores = KILN_NEW_ARRAY(arena, kiln_store_t, store_count)};
  for (uint32_t i = 0; i < count; i++) append(&lists, &members[i]);
  kiln_group_t group = members[0];
  group.nodes = unite(arena, lists.nodes, node_count, &group.node_count);
  group.inputs = unite(arena, lists.inputs, input_count, &group.input_count);
  group.stores = lists.stores;
  group.store_count = store_count;
  group.members = members;
  group.member_count = count;
  return group;
}

void set_level(const grouping_t *g, kiln_group_t *group, uint32_t *levels) {
  group->level = 0;
  for (uint32_t i = 0; i < group->input_count; i++) {
    kiln_value_id_t input = group->inputs[i];
    if (input < g->graph->input_count || kiln_type_is_empty(&g->graph->types[input])) continue;
    assert(levels[input]);
    if (levels[input] > group->level) group->level = levels[input];
  }
  for (uint32_t i = 0; i < group->store_count; i++) {
    uint32_t *level = &levels[held_value(&group->stores[i])];
    if (group->level >= *level) *level = group->level + 1;
  }
}
