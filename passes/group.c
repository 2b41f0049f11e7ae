/* passes/group.c: groups the nodes of an optimized graph into launches.
 *
 * Behind the passes, before codegen; called by server/pipeline.c through kiln_group. The steps:
 *
 * 1. Every node that an output needs must be accepted by some family; cost.c and cuts.c decide which values
 * are cut.
 * 2. What must be stored: graph outputs and cut values, each with the level at which it can be computed
 * (levels.c). Empty values are not stored.
 * 3. Stores of one level and one iteration space (the same number of elements, before or after a repetition
 * at the end) share a kernel, as do those that read the same result of an earlier kernel, within the family's
 * limits: nothing of one level depends on anything else of it, so this cannot make a cycle. They need not
 * share an input; a launch is saved all the same and a thread does what two would have done. Stores that
 * nobody reads may join a later level when a kernel of their space is there.
 * 4. Groups in order of level, then of their first store; then buffers.c.
 */
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "passes/grouping.h"

enum {
  LEVELS_SEARCHED = 64,
  REGION_SPACE = 0, /* the bucket key of a region */
  SMALL_SPACE = 0,  /* the bucket key that all small stores of a level share; other spaces count from 1 */
  SIBLING_SPACES = 1 << 30, /* from here on: the bucket keys of those that read one value */
  MOST_SPACES = 16,         /* of one kernel; each is a region of its own in the source */
};

/* A value to be stored (2). One that is returned very often is stored in several parts, for some of its
 * outputs each. */
typedef struct {
  kiln_value_id_t value;
  uint32_t first_use, use_count; /* which of its outputs, in order; none: a temporary */
  uint32_t level, window;
  uint32_t space, base_space; /* of the value, and of what a repetition at its end repeats */
  bool is_cut, is_small;
  const kiln_window_t *at; /* where in a dissolved concatenation; NULL: in a buffer of its own */
  size_t number;           /* in the order of their making */
} stored_t;

static bool is_of_region(const stored_t *stored) { return stored->window >= FIRST_REGION_WINDOW; }

/* A kernel in the making (3). */
typedef struct {
  stored_t *items;
  size_t count, capacity;
  uint32_t level, window;
  uint32_t buffer_count; /* of its stores */
  uint32_t space_count;
  uint64_t mask;
  const char *full; /* why it once refused a store; NULL: never */
} bucket_t;

typedef struct {
  grouping_t g;
  cone_t cone;
  uint32_t *levels;      /* per value */
  uint32_t *apart;       /* per value: the number of the only kernels that may store it; 0: any */
  uint32_t *output_uses; /* per value: how often it is returned */
  windows_t windows;
  bool *is_part;      /* per value: it is stored to a window */
  bool *is_read;      /* per value: some kernel reads it from memory */
  kiln_map_t *spaces; /* number of elements as words -> space */
  kiln_map_t *open;   /* (level, window, space) -> bucket + 1 */
  stored_t *stored;
  size_t stored_count, stored_capacity;
  bucket_t *buckets;
  size_t bucket_count, bucket_capacity;
  uint32_t most_uses; /* outputs of one part of a stored value */
  uint32_t max_level;
  uint32_t temp_count;
} state_t;

/* --- 1. what is there ---------------------------------------------------------------------------------- */

static void find_live(grouping_t *g) {
  const kiln_graph_t *graph = g->graph;
  bool *needed = KILN_NEW_ARRAY(g->arena, bool, graph->value_count);
  for (uint32_t i = 0; i < graph->output_count; i++) needed[graph->outputs[i]] = true;
  for (uint32_t n = graph->node_count; n-- > 0;) {
    const kiln_node_t *node = &graph->nodes[n];
    for (uint32_t r = 0; r < node->result_count; r++) g->live[n] |= needed[node->first_result + r];
    for (uint32_t i = 0; g->live[n] && i < node->operand_count; i++) {
      if (node->operands[i] != KILN_NO_VALUE) needed[node->operands[i]] = true;
    }
  }
}

static kiln_status_t no_family(const grouping_t *g, uint32_t index) {
  const kiln_node_t *node = &g->graph->nodes[index];
  const char *op = kiln_op_info(node->op)->name;
  const char *name = kiln_graph_value_name(g->arena, g->graph, node->first_result);
  kiln_status_t status =
      kiln_error(KILN_UNSUPPORTED, "no kernel family for op '%s' yet (it makes %s)", op, name);
  status = kiln_error_detail(status, "op", "%s", op);
  status = kiln_error_detail(status, "node", "%s", name);
  return node->line ? kiln_error_detail(status, "line", "%u", node->line) : status;
}

static kiln_status_t find_families(grouping_t *g) {
  for (uint32_t n = 0; n < g->graph->node_count; n++) {
    for (size_t f = 0; f < g->families->count; f++) {
      if (g->families->items[f].accepts(g->graph, n)) g->masks[n] |= (uint64_t)1 << f;
    }
    if (g->live[n] && !g->masks[n]) return no_family(g, n);
  }
  return NULL;
}

static void cut_everything(grouping_t *g) {
  for (uint32_t v = g->graph->input_count; v < g->graph->value_count; v++) {
    bool stored = g->live[g->graph->producers[v]] && !kiln_type_is_empty(&g->graph->types[v]);
    g->cuts[v] = stored ? CUT_UNFUSED : CUT_NONE;
  }
}

/* --- 2. what is stored --------------------------------------------------------------------------------- */

/* A number for the count of elements of a type: equal exactly when the counts are equal as expressions. */
static uint32_t space_of(state_t *s, const kiln_type_t *type) {
  kiln_dim_t elements;
  if (!kiln_type_elements(s->g.arena, type, &elements)) elements = kiln_dim_constant(-1);
  size_t term_bytes = elements.terms ? elements.term_count * sizeof *elements.terms : 0;
  char *key = kiln_arena_alloc(s->g.arena, sizeof elements.constant + term_bytes);
  memcpy(key, &elements.constant, sizeof elements.constant);
  if (term_bytes) memcpy(key + sizeof elements.constant, elements.terms, term_bytes);
  bool added;
  uint64_t *space = kiln_map_put(s->spaces, key, sizeof elements.constant + term_bytes, &added);
  if (added) *space = kiln_map_count(s->spaces); /* from 1 */
  return (uint32_t)*space;
}

/* The value that views at the end only repeat or reorder. */
static kiln_value_id_t without_repetition(const state_t *s, kiln_value_id_t value) {
  const kiln_graph_t *graph = s->g.graph;
  uint32_t window = window_of(&s->g, value);
  while (!is_leaf(&s->g, window, value)) {
    const kiln_node_t *node = kiln_graph_producer(graph, value);
    bool passes = node->op == KILN_OP_reshape || node->op == KILN_OP_permute || node->op == KILN_OP_reverse ||
                  node->op == KILN_OP_expand || node->op == KILN_OP_repeat || node->op == KILN_OP_broadcast ||
                  node->op == KILN_OP_squeeze;
    if (!passes) break;
    value = node->operands[0];
  }
  return value;
}

static stored_t describe(state_t *s, kiln_value_id_t value) {
  const kiln_type_t *types = s->g.graph->types;
  double at_once = (double)s->g.target->sm_count * THREADS_PER_SM;
  stored_t stored = {.value = value,
                     .level = s->levels[value],
                     .window = window_of(&s->g, value),
                     .space = space_of(s, &types[value]),
                     .is_cut = s->g.cuts[value] != CUT_NONE,
                     .is_small = typical_elements(s->g.graph, &types[value]) < at_once};
  stored.base_space =
      s->g.options->unfused ? stored.space : space_of(s, &types[without_repetition(s, value)]);
  if (stored.level > s->max_level) s->max_level = stored.level;
  return stored;
}

static void add_stored(state_t *s, stored_t stored) {
  stored.number = s->stored_count;
  KILN_PUSH(s->g.arena, s->stored, s->stored_count, s->stored_capacity, stored);
}

static void store(state_t *s, kiln_value_id_t value) {
  stored_t stored = describe(s, value);
  uint32_t uses = s->output_uses[value];
  do {
    stored.use_count = uses < s->most_uses ? uses : s->most_uses;
    add_stored(s, stored);
    stored.first_use += stored.use_count;
    uses -= stored.use_count;
  } while (uses);
}

static void store_part(state_t *s, const part_t *part) {
  stored_t stored = describe(s, part->value);
  stored.at = part->window;
  stored.is_cut |= s->g.cuts[part->window->of] != CUT_NONE;
  add_stored(s, stored);
}

static bool is_stored_whole(const state_t *s, kiln_value_id_t value) {
  bool is_stored = s->g.cuts[value] != CUT_NONE || s->output_uses[value];
  return is_stored && !s->windows.is_dissolved[value] && !kiln_type_is_empty(&s->g.graph->types[value]);
}

static void find_stores(state_t *s) {
  const kiln_graph_t *graph = s->g.graph;
  s->most_uses = UINT32_MAX;
  for (size_t f = 0; f < s->g.families->count; f++) {
    uint32_t uses = buffers_for_stores(s->g.families->items[f].max_buffers);
    if (uses < s->most_uses) s->most_uses = uses;
  }
  for (uint32_t i = 0; i < graph->output_count; i++) s->output_uses[graph->outputs[i]]++;
  s->windows = s->g.options->unfused
                   ? (windows_t){.is_dissolved = KILN_NEW_ARRAY(s->g.arena, bool, graph->value_count)}
                   : find_windows(&s->g, s->output_uses);
  s->is_part = KILN_NEW_ARRAY(s->g.arena, bool, graph->value_count);
  for (size_t i = 0; i < s->windows.count; i++) s->is_part[s->windows.parts[i].value] = true;
  kiln_value_id_t *values = KILN_NEW_ARRAY(s->g.arena, kiln_value_id_t, graph->value_count);
  size_t count = 0;
  for (uint32_t v = 0; v < graph->value_count; v++) {
    if (is_stored_whole(s, v) || s->is_part[v]) values[count++] = v;
  }
  find_levels(&s->g, &s->cone, &s->windows, values, count, s->levels);
  for (size_t i = 0; i < count; i++) {
    if (is_stored_whole(s, values[i])) store(s, values[i]);
  }
  for (size_t i = 0; i < s->windows.count; i++) store_part(s, &s->windows.parts[i]);
}

/* --- 3. which stores share a kernel -------------------------------------------------------------------- */

static uint64_t *open_bucket(state_t *s, uint32_t level, const stored_t *stored, uint32_t space) {
  uint32_t key[] = {level, stored->window, space, s->apart[stored->value]};
  bool added;
  return kiln_map_put(s->open, key, sizeof key, &added);
}

static uint32_t buffers_of(const stored_t *stored) { return stored->use_count ? stored->use_count : 1; }

/* Families that accept every node of the cone. */
static uint64_t cone_mask(const state_t *s) {
  uint64_t mask = UINT64_MAX;
  for (size_t i = 0; i < s->cone.node_count; i++) mask &= s->g.masks[s->cone.nodes[i]];
  return mask;
}

static const kiln_family_t *family_of(const grouping_t *g, uint64_t mask) {
  for (size_t f = 0; f < g->families->count; f++) {
    if (mask >> f & 1) return &g->families->items[f];
  }
  return NULL;
}

/* Why the bucket cannot take the store as well; NULL when it can. */
static const char *refuses(state_t *s, const bucket_t *bucket, const stored_t *stored) {
  const kiln_family_t *family = family_of(&s->g, bucket->mask);
  uint32_t buffers = bucket->buffer_count + buffers_of(stored);
  if (s->g.options->unfused) return "grouping is off";
  if (!family || buffers > family->max_buffers)
    return "its neighbour has all the buffers that a kernel can take";
  cone_clear(&s->cone);
  bool fits = true;
  for (size_t i = 0; fits && i < bucket->count; i++) {
    fits = cone_add(&s->cone, bucket->window, bucket->items[i].value, family->max_nodes,
                    family->max_buffers - buffers);
  }
  fits = fits &&
         cone_add(&s->cone, bucket->window, stored->value, family->max_nodes, family->max_buffers - buffers);
  if (!fits) return "its neighbour is as large as a kernel can be";
  return cone_mask(s) & bucket->mask ? NULL : "its neighbour is of another kernel family";
}

static void join(state_t *s, bucket_t *bucket, const stored_t *stored) {
  KILN_PUSH(s->g.arena, bucket->items, bucket->count, bucket->capacity, *stored);
  bucket->buffer_count += buffers_of(stored);
  cone_add(&s->cone, bucket->window, stored->value, UINT32_MAX, UINT32_MAX);
  bucket->mask &= cone_mask(s);
}

static bool try_bucket(state_t *s, uint32_t level, uint32_t space, const stored_t *stored) {
  uint64_t *entry = open_bucket(s, level, stored, space);
  if (!*entry) return false;
  uint64_t number = *entry;
  bucket_t *bucket = &s->buckets[number - 1];
  const char *refusal = refuses(s, bucket, stored);
  if (refusal) {
    bucket->full = refusal;
    *entry = 0; /* the next store of the space starts afresh */
    return false;
  }
  join(s, bucket, stored);
  if (space == SMALL_SPACE || space >= SIBLING_SPACES) {
    *open_bucket(s, level, stored, stored->space) = number;
    if (++bucket->space_count == MOST_SPACES) *open_bucket(s, level, stored, space) = 0;
  }
  return true;
}

static void new_bucket(state_t *s, const stored_t *stored) {
  bucket_t bucket = {.level = stored->level, .window = stored->window, .space_count = 1, .mask = UINT64_MAX};
  cone_clear(&s->cone);
  join(s, &bucket, stored);
  KILN_PUSH(s->g.arena, s->buckets, s->bucket_count, s->bucket_capacity, bucket);
  if (is_of_region(stored)) {
    *open_bucket(s, 0, stored, REGION_SPACE) = s->bucket_count;
    return;
  }
  *open_bucket(s, stored->level, stored, stored->space) = s->bucket_count;
  *open_bucket(s, stored->level, stored, stored->base_space) = s->bucket_count;
  if (stored->is_small) *open_bucket(s, stored->level, stored, SMALL_SPACE) = s->bucket_count;
}

static bool try_levels(state_t *s, uint32_t space, const stored_t *stored) {
  uint32_t last = stored->is_cut ? stored->level : s->max_level;
  for (uint32_t level = stored->level; level <= last && level - stored->level < LEVELS_SEARCHED; level++) {
    if (try_bucket(s, level, space, stored)) return true;
  }
  return false;
}

/* All results of a region are stored by one kernel, but for later parts of a value that is returned very
 * often. */
static void place_in_region(state_t *s, const stored_t *stored) {
  uint64_t number = *open_bucket(s, 0, stored, REGION_SPACE);
  if (!number || stored->first_use) {
    new_bucket(s, stored);
    return;
  }
  cone_clear(&s->cone);
  join(s, &s->buckets[number - 1], stored);
}

/* The bucket key of stores that read the same result of an earlier kernel; SMALL_SPACE when it reads none. */
static uint32_t sibling_space(state_t *s, const stored_t *stored) {
  kiln_value_id_t last = 0;
  if (s->g.options->unfused) return SMALL_SPACE;
  cone_clear(&s->cone);
  cone_add(&s->cone, stored->window, stored->value, UINT32_MAX, UINT32_MAX);
  for (size_t i = 0; i < s->cone.leaf_count; i++) {
    if (s->cone.leaves[i] > last) last = s->cone.leaves[i];
  }
  return last < s->g.graph->input_count ? SMALL_SPACE : SIBLING_SPACES + last;
}

static void place(state_t *s, const stored_t *stored) {
  if (is_of_region(stored)) {
    place_in_region(s, stored);
    return;
  }
  if (try_levels(s, stored->space, stored) || try_levels(s, stored->base_space, stored)) return;
  if (stored->is_small && try_levels(s, SMALL_SPACE, stored)) return;
  uint32_t siblings = sibling_space(s, stored);
  if (siblings != SMALL_SPACE && try_bucket(s, stored->level, siblings, stored)) return;
  new_bucket(s, stored);
  if (siblings != SMALL_SPACE) *open_bucket(s, stored->level, stored, siblings) = s->bucket_count;
}

/* Cut values first, which cannot move; then outputs, those with the least room to move first. */
static void place_all(state_t *s) {
  for (size_t i = 0; i < s->stored_count; i++) {
    if (s->stored[i].is_cut) place(s, &s->stored[i]);
  }
  size_t *heads = KILN_NEW_ARRAY(s->g.arena, size_t, s->max_level + 1); /* per level, a list of index + 1 */
  size_t *next = KILN_NEW_ARRAY(s->g.arena, size_t, s->stored_count);
  for (size_t i = s->stored_count; i-- > 0;) {
    if (s->stored[i].is_cut) continue;
    next[i] = heads[s->stored[i].level];
    heads[s->stored[i].level] = i + 1;
  }
  for (uint32_t level = s->max_level + 1; level-- > 0;) {
    for (size_t i = heads[level]; i; i = next[i - 1]) place(s, &s->stored[i - 1]);
  }
}

/* --- 4. groups ----------------------------------------------------------------------------------------- */

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

static kiln_grouping_t *make_groups(state_t *s) {
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

static void explain_temps(const state_t *s, kiln_grouping_t *grouping) {
  const char **reasons = KILN_NEW_ARRAY(s->g.arena, const char *, grouping->temp_count);
  for (uint32_t t = 0; t < grouping->temp_count; t++) reasons[t] = cut_reason(s, grouping->temp_values[t]);
  grouping->temp_reasons = reasons;
}

static void apply_cut(state_t *s, const kiln_cut_t *late) {
  s->g.reasons[late->value] = late->why;
  if (late->apart)
    s->apart[late->value] = late->apart;
  else
    s->g.cuts[late->value] = CUT_LATE;
}

kiln_status_t kiln_group(kiln_arena_t *arena, const kiln_graph_t *graph, const kiln_families_t *families,
                         const kiln_target_t *target, const kiln_options_t *options, const kiln_cuts_t *cuts,
                         const kiln_grouping_t **out_grouping) {
  state_t s = {.g = {.arena = arena,
                     .graph = graph,
                     .families = families,
                     .target = target,
                     .options = options,
                     .cuts = KILN_NEW_ARRAY(arena, uint8_t, graph->value_count),
                     .live = KILN_NEW_ARRAY(arena, bool, graph->node_count),
                     .masks = KILN_NEW_ARRAY(arena, uint64_t, graph->node_count),
                     .windows = KILN_NEW_ARRAY(arena, uint32_t, graph->node_count),
                     .reasons = KILN_NEW_ARRAY(arena, const char *, graph->value_count)},
               .apart = KILN_NEW_ARRAY(arena, uint32_t, graph->value_count),
               .levels = KILN_NEW_ARRAY(arena, uint32_t, graph->value_count),
               .output_uses = KILN_NEW_ARRAY(arena, uint32_t, graph->value_count),
               .spaces = kiln_map_create(arena),
               .open = kiln_map_create(arena)};
  find_live(&s.g);
  KILN_TRY(find_families(&s.g));
  for (size_t i = 0; cuts && i < cuts->count; i++) apply_cut(&s, &cuts->items[i]);
  if (options->unfused) {
    cut_everything(&s.g);
  } else {
    cut_by_cost(&s.g);
    cut_by_size(&s.g);
  }
  s.cone = cone_create(&s.g);
  find_stores(&s);
  place_all(&s);
  kiln_grouping_t *grouping = make_groups(&s);
  if (options->unfused)
    plan_buffers(&s.g, grouping);
  else
    arrange_launches(&s.g, s.apart, grouping);
  explain_temps(&s, grouping);
  *out_grouping = grouping;
  return NULL;
}
