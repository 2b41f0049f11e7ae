/* passes/kernels.c: from stores that share a kernel to groups: nodes, inputs, stores, the reason.
 *
 * Part of kiln_group, step 4 (passes/group.c). A group's nodes are the cones of what it stores. A part of a
 * dissolved concatenation is stored to its window, and to a buffer of its own only if some group reads it; a
 * group that has nothing left to store is dropped.
 */
#include <stdlib.h>

#include "passes/buckets.h"

static int by_number(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

static void sort_numbers(uint32_t *numbers, size_t count) {
  if (count) qsort(numbers, count, sizeof *numbers, by_number);
}

static int by_value(const void *a, const void *b) {
  const stored_t *x = a, *y = b;
  if (x->value != y->value) return x->value < y->value ? -1 : 1;
  return x->number < y->number ? -1 : x->number > y->number;
}

static int by_level(const void *a, const void *b) {
  const bucket_t *x = a, *y = b;
  if (x->level != y->level) return x->level < y->level ? -1 : 1;
  return by_value(&x->items[0], &y->items[0]);
}

/* Why a cut value is stored. */
static const char *cut_reason(const state_t *s, kiln_value_id_t value) {
  static const struct {
    const char *before, *after;
  } texts[] = {
      [CUT_NONE] = {"", " is returned"},
      [CUT_COST] = {"", " is computed once and stored: repeating it would cost more"},
      [CUT_SIZE] = {"cut at ", ": the kernel would have been too large"},
      [CUT_BUFFERS] = {"cut at ", ": the kernel would have read too many buffers"},
      [CUT_FAMILY] = {"", " is made by a kernel of another family"},
      [CUT_REGION] = {"", " is made by a kernel whose threads have other elements"},
      [CUT_PROLOGUE] = {"", " is stored: each tile of a contraction would compute it again"},
      [CUT_LATE] = {"cut at ", ": "},
  };
  cut_t why = s->g.cuts[value];
  if (why == CUT_UNFUSED) return "grouping is off";
  return kiln_arena_printf(s->g.arena, "%s%s%s%s", texts[why].before,
                           kiln_graph_value_name(s->g.arena, s->g.graph, value), texts[why].after,
                           why == CUT_LATE ? s->g.reasons[value] : "");
}

/* Why a group stands alone: what it waits for, or what kept a neighbour of its level apart. */
static const char *reason_of(const state_t *s, const bucket_t *bucket) {
  for (size_t i = 0; i < s->cone.leaf_count; i++) {
    kiln_value_id_t leaf = s->cone.leaves[i];
    if (s->g.cuts[leaf] != CUT_NONE && s->levels[leaf] + 1 == bucket->level) return cut_reason(s, leaf);
  }
  if (bucket->full) return bucket->full;
  if (s->apart[bucket->items[0].value]) return s->g.reasons[bucket->items[0].value];
  bool is_alone = s->bucket_count > 1 && bucket->window < FIRST_REGION_WINDOW;
  return is_alone ? "no neighbour has its iteration space" : "";
}

/* Per value, its outputs in order. */
typedef struct {
  uint32_t *first, *next; /* per value, per output: an output + 1 */
  uint32_t *temps;        /* per value: its temporary + 1 */
} homes_t;

static homes_t find_homes(kiln_arena_t *arena, const kiln_graph_t *graph) {
  homes_t homes = {KILN_NEW_ARRAY(arena, uint32_t, graph->value_count),
                   KILN_NEW_ARRAY(arena, uint32_t, graph->output_count),
                   KILN_NEW_ARRAY(arena, uint32_t, graph->value_count)};
  for (uint32_t o = graph->output_count; o-- > 0;) {
    homes.next[o] = homes.first[graph->outputs[o]];
    homes.first[graph->outputs[o]] = o + 1;
  }
  return homes;
}

static kiln_buffer_ref_t temp_of(state_t *s, homes_t *homes, kiln_value_id_t value) {
  if (!homes->temps[value]) homes->temps[value] = ++s->temp_count;
  return (kiln_buffer_ref_t){KILN_BUFFER_TEMP, homes->temps[value] - 1};
}

/* A part's own buffer is needed only if somebody reads it. */
static void add_stores(state_t *s, const bucket_t *bucket, homes_t *homes, kiln_group_t *group) {
  kiln_store_t *stores = KILN_NEW_ARRAY(s->g.arena, kiln_store_t, bucket->buffer_count);
  for (size_t i = 0; i < bucket->count; i++) {
    const stored_t *stored = &bucket->items[i];
    kiln_value_id_t held = stored->at ? stored->at->of : stored->value;
    uint32_t output = homes->first[held];
    if (stored->at || !stored->use_count) {
      bool is_needed = stored->at || !s->is_part[held] || s->is_read[held];
      kiln_buffer_ref_t home = {KILN_BUFFER_OUTPUT, output - 1};
      if (is_needed && !output) home = temp_of(s, homes, held);
      if (is_needed) stores[group->store_count++] = (kiln_store_t){stored->value, home, stored->at};
      continue;
    }
    for (uint32_t use = 0; use < stored->first_use + stored->use_count;
         use++, output = homes->next[output - 1]) {
      if (use < stored->first_use) continue;
      stores[group->store_count++] = (kiln_store_t){stored->value, {KILN_BUFFER_OUTPUT, output - 1}, NULL};
    }
  }
  group->stores = stores;
}

static kiln_group_t make_group(state_t *s, bucket_t *bucket) {
  qsort(bucket->items, bucket->count, sizeof *bucket->items, by_value);
  cone_clear(&s->cone);
  for (size_t i = 0; i < bucket->count; i++)
    cone_add(&s->cone, bucket->window, bucket->items[i].value, UINT32_MAX, UINT32_MAX);
  kiln_arena_t *arena = s->g.arena;
  uint32_t *nodes = kiln_arena_copy(arena, s->cone.nodes, s->cone.node_count * sizeof *nodes);
  kiln_value_id_t *inputs = kiln_arena_copy(arena, s->cone.leaves, s->cone.leaf_count * sizeof *inputs);
  sort_numbers(nodes, s->cone.node_count);
  sort_numbers(inputs, s->cone.leaf_count);
  const kiln_family_t *family = family_of(&s->g, bucket->mask);
  return (kiln_group_t){.kind = family ? family->name : "copy",
                        .nodes = nodes,
                        .node_count = (uint32_t)s->cone.node_count,
                        .inputs = inputs,
                        .input_count = (uint32_t)s->cone.leaf_count,
                        .member_count = 1,
                        .level = bucket->level,
                        .reason = reason_of(s, bucket)};
}

kiln_grouping_t *make_groups(state_t *s) {
  kiln_arena_t *arena = s->g.arena;
  const kiln_graph_t *graph = s->g.graph;
  if (s->bucket_count) qsort(s->buckets, s->bucket_count, sizeof *s->buckets, by_level);
  homes_t homes = find_homes(arena, graph);
  kiln_group_t *groups = KILN_NEW_ARRAY(arena, kiln_group_t, s->bucket_count);
  s->is_read = KILN_NEW_ARRAY(arena, bool, graph->value_count);
  for (size_t i = 0; i < s->bucket_count; i++) {
    groups[i] = make_group(s, &s->buckets[i]);
    for (uint32_t k = 0; k < groups[i].input_count; k++) s->is_read[groups[i].inputs[k]] = true;
  }
  uint32_t count = 0;
  for (size_t i = 0; i < s->bucket_count; i++) {
    add_stores(s, &s->buckets[i], &homes, &groups[i]);
    if (groups[i].store_count) groups[count++] = groups[i];
  }
  kiln_grouping_t *out = KILN_NEW(arena, kiln_grouping_t);
  out->groups = groups;
  out->group_count = count;
  out->temp_count = s->temp_count;
  return out;
}

void explain_temps(const state_t *s, kiln_grouping_t *grouping) {
  const char **reasons = KILN_NEW_ARRAY(s->g.arena, const char *, grouping->temp_count);
  for (uint32_t t = 0; t < grouping->temp_count; t++) reasons[t] = cut_reason(s, grouping->temp_values[t]);
  grouping->temp_reasons = reasons;
}
