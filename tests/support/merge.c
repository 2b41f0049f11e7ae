/* tests/support/merge.c: groups of one level and class become one. See merge.h. */
#include "tests/support/merge.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
  kiln_arena_t *arena;
  const kiln_graph_t *graph;
  const kiln_grouping_t *grouping;
  const kiln_families_t *families;
  const kiln_target_t *target;
  uint32_t *levels; /* per group */
  kiln_member_class_t *classes;
  bool *has_class;
} merge_t;

static void find_levels(merge_t *m) {
  uint32_t *producers = KILN_NEW_ARRAY(m->arena, uint32_t, m->graph->value_count);
  for (uint32_t g = 0; g < m->grouping->group_count; g++) {
    const kiln_group_t *group = &m->grouping->groups[g];
    for (uint32_t i = 0; i < group->input_count; i++) {
      uint32_t producer = producers[group->inputs[i]];
      if (producer && m->levels[producer - 1] >= m->levels[g]) m->levels[g] = m->levels[producer - 1] + 1;
    }
    for (uint32_t i = 0; i < group->store_count; i++) producers[group->stores[i].value] = g + 1;
  }
}

static void find_classes(merge_t *m) {
  for (uint32_t g = 0; g < m->grouping->group_count; g++) {
    const kiln_group_t *group = &m->grouping->groups[g];
    for (size_t f = 0; f < m->families->count; f++) {
      const kiln_family_t *family = &m->families->items[f];
      if (strcmp(family->name, group->kind) || !family->classify) continue;
      m->has_class[g] = family->classify(m->arena, m->graph, group, m->target, &m->classes[g]);
    }
  }
}

static bool together(const merge_t *m, uint32_t a, uint32_t b) {
  return m->levels[a] == m->levels[b] && m->has_class[a] && m->has_class[b] &&
         !strcmp(m->grouping->groups[a].kind, m->grouping->groups[b].kind) &&
         !memcmp(m->classes[a].key, m->classes[b].key, sizeof m->classes[a].key);
}

static int by_number(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

static kiln_group_t merged(merge_t *m, const kiln_group_t *members, uint32_t count) {
  kiln_group_t out = members[0];
  size_t nodes = 0, stores = 0, inputs = 0;
  for (uint32_t i = 0; i < count; i++) {
    nodes += members[i].node_count;
    stores += members[i].store_count;
    inputs += members[i].input_count;
  }
  uint32_t *all_nodes = KILN_NEW_ARRAY(m->arena, uint32_t, nodes);
  kiln_store_t *all_stores = KILN_NEW_ARRAY(m->arena, kiln_store_t, stores);
  kiln_value_id_t *all_inputs = KILN_NEW_ARRAY(m->arena, kiln_value_id_t, inputs);
  bool *is_there = KILN_NEW_ARRAY(m->arena, bool, m->graph->value_count);
  out.node_count = out.store_count = out.input_count = 0;
  for (uint32_t i = 0; i < count; i++) {
    memcpy(all_nodes + out.node_count, members[i].nodes, members[i].node_count * sizeof *all_nodes);
    memcpy(all_stores + out.store_count, members[i].stores, members[i].store_count * sizeof *all_stores);
    out.node_count += members[i].node_count;
    out.store_count += members[i].store_count;
    for (uint32_t k = 0; k < members[i].input_count; k++) {
      if (is_there[members[i].inputs[k]]) continue;
      is_there[members[i].inputs[k]] = true;
      all_inputs[out.input_count++] = members[i].inputs[k];
    }
  }
  qsort(all_nodes, out.node_count, sizeof *all_nodes, by_number);
  out.nodes = all_nodes;
  out.stores = all_stores;
  out.inputs = all_inputs;
  out.members = members;
  out.member_count = count;
  return out;
}

static const uint32_t *own_slots(kiln_arena_t *arena, const kiln_grouping_t *grouping) {
  uint32_t *slots = KILN_NEW_ARRAY(arena, uint32_t, grouping->temp_count);
  for (uint32_t i = 0; i < grouping->temp_count; i++) slots[i] = i;
  return slots;
}

const kiln_grouping_t *kiln_test_separate(kiln_arena_t *arena, const kiln_grouping_t *grouping) {
  kiln_grouping_t *out = kiln_arena_copy(arena, grouping, sizeof *out);
  kiln_group_t *groups = NULL;
  size_t count = 0, capacity = 0;
  for (uint32_t g = 0; g < grouping->group_count; g++) {
    const kiln_group_t *group = &grouping->groups[g];
    for (uint32_t i = 0; i < group->member_count && group->members; i++)
      KILN_PUSH(arena, groups, count, capacity, group->members[i]);
    if (!group->members) KILN_PUSH(arena, groups, count, capacity, *group);
  }
  out->groups = groups;
  out->group_count = (uint32_t)count;
  out->temp_slots = own_slots(arena, grouping);
  out->slot_count = grouping->temp_count;
  return out;
}

const kiln_grouping_t *kiln_test_merge(kiln_arena_t *arena, const kiln_graph_t *graph,
                                       const kiln_grouping_t *grouping, const kiln_families_t *families,
                                       const kiln_target_t *target) {
  grouping = kiln_test_separate(arena, grouping);
  uint32_t count = grouping->group_count, most = 0;
  merge_t m = {.arena = arena,
               .graph = graph,
               .grouping = grouping,
               .families = families,
               .target = target,
               .levels = KILN_NEW_ARRAY(arena, uint32_t, count),
               .classes = KILN_NEW_ARRAY(arena, kiln_member_class_t, count),
               .has_class = KILN_NEW_ARRAY(arena, bool, count)};
  kiln_grouping_t *out = kiln_arena_copy(arena, grouping, sizeof *out);
  kiln_group_t *groups = KILN_NEW_ARRAY(arena, kiln_group_t, count);
  bool *is_taken = KILN_NEW_ARRAY(arena, bool, count);
  out->group_count = 0;
  find_levels(&m);
  find_classes(&m);
  for (uint32_t g = 0; g < count; g++) most = m.levels[g] > most ? m.levels[g] : most;
  for (uint32_t level = 0; level <= most; level++) {
    for (uint32_t g = 0; g < count; g++) {
      kiln_group_t *members = KILN_NEW_ARRAY(arena, kiln_group_t, is_taken[g] ? 0 : count);
      uint32_t taken = 0;
      if (m.levels[g] != level || is_taken[g]) continue;
      for (uint32_t k = g; k < count; k++) {
        if (is_taken[k] || (k != g && !together(&m, g, k))) continue;
        is_taken[k] = true;
        members[taken++] = grouping->groups[k];
      }
      groups[out->group_count++] = taken == 1 ? members[0] : merged(&m, members, taken);
    }
  }
  out->groups = groups;
  return out;
}
