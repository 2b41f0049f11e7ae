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
 * 4. Groups in order of level, then of their first store (kernels.c); which of them share a launch
 * (horizontal.c); buffers.c.
 */
#include <string.h>

#include "passes/buckets.h"

enum {
  LEVELS_SEARCHED = 64,
  REGION_SPACE = 0, /* the bucket key of a region */
  SMALL_SPACE = 0,  /* the bucket key that all small stores of a level share; other spaces count from 1 */
  SIBLING_SPACES = 1 << 30, /* from here on: the bucket keys of those that read one value */
  MOST_SPACES = 16,         /* of one kernel; each is a region of its own in the source */
};

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

/* --- the whole ----------------------------------------------------------------------------------------- */

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
