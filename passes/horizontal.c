/* passes/horizontal.c: vertical groups of one class side by side in one launch.
 *
 * Part of kiln_group (passes/group.c), when the vertical groups stand in an order in which they could run.
 * The result is another such order, in which some entries are several groups. It is found by list scheduling:
 *
 * 1. A group is *ready* when all that it waits for has been launched. A launch takes groups of one class
 *    (classes.c) that are all ready; so what is launched together is independent, whatever else is merged,
 * and no order of launches can have a cycle. In the end they are counted: all groups have run.
 * 2. A class needs as many launches as its highest rank, and no more when each takes all that is left of the
 *    highest rank. So a class is *due* when every group of its highest rank still left is ready; everything
 * of it that is ready goes along. Groups of lower rank that are not ready lose nothing: a later launch of the
 *    class is needed anyhow.
 * 3. Of all that is due, and of groups that no launch can share, the one that stands first in the given order
 *    goes first; so an order without company stays as it is. When nothing is due, the class goes of whose
 *    highest rank the largest share is ready; of several, one that makes another class due.
 * 4. company.c says who had better run alone, memory.c how many fit under a limit.
 */
#include <assert.h>
#include <stdlib.h>

#include "passes/horizontal.h"

enum { CLASSES_SEARCHED = 256, READERS_SEARCHED = 16 }; /* when nothing is due */
static const double memory_ratio = 1.1; /* what sharing launches may make of the memory of an execution */

/* What is due (3). */
typedef struct {
  uint32_t first; /* its first group: less goes first */
  uint32_t class; /* NO_CLASS: the group alone */
} due_t;

typedef struct {
  const grouping_t *g;
  const kiln_group_t *groups;
  classes_t classes;
  dependencies_t dependencies;
  due_t *due; /* a heap */
  size_t due_count, due_capacity;
  uint32_t *waiting; /* classes with something ready that were not due then */
  size_t waiting_count, waiting_capacity;
  uint32_t *waits; /* per group: what it still waits for */
  memory_t memory;
  double memory_limit;
  uint32_t *levels; /* per value: of the launches that have written it, + 1 */
  kiln_group_t *out;
  uint32_t out_count, launched;
} schedule_t;

/* --- what is due (3) ----------------------------------------------------------------------------------- */

static void push_due(schedule_t *s, due_t due) {
  KILN_PUSH(s->g->arena, s->due, s->due_count, s->due_capacity, due);
  size_t i = s->due_count - 1;
  for (; i && due.first < s->due[(i - 1) / 2].first; i = (i - 1) / 2) s->due[i] = s->due[(i - 1) / 2];
  s->due[i] = due;
}

static due_t pop_due(schedule_t *s) {
  due_t first = s->due[0], last = s->due[--s->due_count];
  size_t i = 0;
  while (2 * i + 1 < s->due_count) {
    size_t child = 2 * i + 1;
    if (child + 1 < s->due_count && s->due[child + 1].first < s->due[child].first) child++;
    if (last.first <= s->due[child].first) break;
    s->due[i] = s->due[child];
    i = child;
  }
  if (s->due_count) s->due[i] = last;
  return first;
}

/* Puts a class among what is due when its time has come. */
static void queue_if_due(schedule_t *s, uint32_t number) {
  class_t *class = &s->classes.items[number];
  if (class->is_queued || !class->ready_count) return;
  const tier_t *top = &class->tiers[class->tier];
  if (top->ready < top->left) return;
  uint32_t first = class->ready[0];
  for (uint32_t i = 1; i < class->ready_count; i++) {
    if (class->ready[i] < first) first = class->ready[i];
  }
  class->is_queued = true;
  push_due(s, (due_t){first, number});
}

/* Something of the class became ready: it is due, or waits for more. */
static void enlist(schedule_t *s, uint32_t number) {
  class_t *class = &s->classes.items[number];
  queue_if_due(s, number);
  if (class->is_queued || class->is_waiting || !class->ready_count) return;
  class->is_waiting = true;
  KILN_PUSH(s->g->arena, s->waiting, s->waiting_count, s->waiting_capacity, number);
}

static tier_t *tier_of(const schedule_t *s, uint32_t index) {
  const class_t *class = &s->classes.items[s->classes.classes[index]];
  return &class->tiers[class->tiers_of[s->classes.places[index]]];
}

static void make_ready(schedule_t *s, uint32_t index) {
  uint32_t number = s->classes.classes[index];
  if (number == NO_CLASS) {
    push_due(s, (due_t){index, NO_CLASS});
    return;
  }
  class_t *class = &s->classes.items[number];
  class->ready[class->ready_count++] = index;
  tier_of(s, index)->ready++;
  enlist(s, number);
}

/* Would another class be due when what is ready of this one has been launched? */
static bool helps_another(const schedule_t *s, const class_t *class) {
  for (uint32_t i = 0; i < class->ready_count && i < READERS_SEARCHED; i++) {
    const uint32_t *edges = &s->dependencies.starts[class->ready[i]];
    for (uint32_t e = edges[0]; e < edges[1] && e < edges[0] + READERS_SEARCHED; e++) {
      uint32_t reader = s->dependencies.readers[e], number = s->classes.classes[reader];
      if (s->waits[reader] != 1 || number == NO_CLASS) continue;
      const class_t *other = &s->classes.items[number];
      const tier_t *top = &other->tiers[other->tier];
      if (other != class && tier_of(s, reader) == top && top->ready + 1 == top->left) return true;
    }
  }
  return false;
}

/* The class of whose highest rank the largest share is ready, of several one that helps another; something is
 * ready when nothing is due. Classes that have nothing ready any more leave the list. */
static uint32_t find_readiest(schedule_t *s) {
  uint32_t best = NO_CLASS;
  double best_share = -1;
  bool best_helps = false;
  for (size_t i = 0; i < s->waiting_count && i < CLASSES_SEARCHED;) {
    uint32_t number = s->waiting[i];
    class_t *class = &s->classes.items[number];
    if (!class->ready_count) {
      class->is_waiting = false;
      s->waiting[i] = s->waiting[--s->waiting_count];
      continue;
    }
    i++;
    const tier_t *top = &class->tiers[class->tier];
    double share = (double)top->ready / top->left;
    bool helps = share >= best_share && helps_another(s, class);
    if (share < best_share || (share == best_share && (best_helps || !helps))) continue;
    best = number;
    best_share = share;
    best_helps = helps;
  }
  assert(best != NO_CLASS);
  return best;
}

/* --- launching ----------------------------------------------------------------------------------------- */

static const char *with_reason(kiln_arena_t *arena, const char *reason, const char *more) {
  if (!*reason || !more) return more ? more : reason;
  return kiln_arena_printf(arena, "%s; %s", reason, more);
}

/* One launch of groups that are all ready. */
static void launch(schedule_t *s, const uint32_t *indices, uint32_t count, const char *reason) {
  const kiln_group_t **run = KILN_NEW_ARRAY(s->g->arena, const kiln_group_t *, count);
  for (uint32_t i = 0; i < count; i++) run[i] = &s->groups[indices[i]];
  kiln_group_t group = count > 1 ? merge_groups(s->g->arena, s->groups, indices, count) : *run[0];
  group.reason = with_reason(s->g->arena, group.reason, reason);
  set_level(s->g, &group, s->levels);
  s->out[s->out_count++] = group;
  s->launched += count;
  memory_run(&s->memory, run, count);
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t *edges = &s->dependencies.starts[indices[i]];
    for (uint32_t e = edges[0]; e < edges[1]; e++) {
      uint32_t reader = s->dependencies.readers[e];
      if (!--s->waits[reader]) make_ready(s, reader);
    }
  }
}

/* As many of these as memory has room for, at least one. */
static uint32_t count_fitting(const schedule_t *s, const uint32_t *indices, uint32_t count) {
  double bytes = s->memory.live_bytes;
  for (uint32_t i = 0; i < count; i++) {
    bytes += memory_needed(&s->memory, &s->groups[indices[i]]);
    if (i && bytes > s->memory_limit) return i;
  }
  return count;
}

/* What keeps the rest of its class apart from a launch, for explain: a value that one of them waits for. */
static const char *why_not_more(const schedule_t *s, class_t *class) {
  const kiln_graph_t *graph = s->g->graph;
  while (class->awaited < class->count && !s->waits[class->groups[class->awaited]]) class->awaited++;
  if (class->awaited == class->count && class->count > 1) return NULL;
  if (class->awaited == class->count)
    return kiln_arena_printf(s->g->arena, "no other group is of its class: %s", class->name);
  const kiln_group_t *waiting = &s->groups[class->groups[class->awaited]];
  uint32_t k = 0;
  while (k + 1 < waiting->input_count &&
         (waiting->inputs[k] < graph->input_count || s->levels[waiting->inputs[k]]))
    k++;
  return kiln_arena_printf(s->g->arena, "%u more of its class come later: one waits for %s", class->left,
                           kiln_graph_value_name(s->g->arena, graph, waiting->inputs[k]));
}

static const char *why_alone(const schedule_t *s, uint32_t index) {
  const kiln_member_class_t *cost = &s->classes.costs[index];
  return kiln_arena_printf(s->g->arena, "company would save less than 1 %% of its %.0f us in %.0f blocks",
                           launch_ns(s->g->target, &cost, 1) * 1e-3, cost->blocks);
}

static void launch_company(schedule_t *s, class_t *class, const uint32_t *indices, uint32_t count) {
  while (count) {
    uint32_t fitting = count_fitting(s, indices, count);
    class->left -= fitting;
    const char *why = why_not_more(s, class);
    if (fitting < count) why = "more of its class at once would raise the peak memory past the limit";
    launch(s, indices, fitting, why);
    indices += fitting;
    count -= fitting;
  }
}

static int by_number(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

/* Takes what is ready out of a class; returns how many. */
static uint32_t take_ready(schedule_t *s, class_t *class, uint32_t *out) {
  uint32_t count = class->ready_count;
  for (uint32_t i = 0; i < count; i++) {
    out[i] = class->ready[i];
    tier_t *tier = tier_of(s, out[i]);
    tier->left--;
    tier->ready--;
  }
  qsort(out, count, sizeof *out, by_number);
  class->ready_count = 0;
  while (class->tier < class->tier_count && !class->tiers[class->tier].left) class->tier++;
  return count;
}

/* All of a class that is ready, in one launch or more (4). */
static void launch_class(schedule_t *s, uint32_t number) {
  kiln_arena_t *arena = s->g->arena;
  class_t *class = &s->classes.items[number];
  uint32_t *ready = KILN_NEW_ARRAY(arena, uint32_t, class->ready_count);
  class->is_queued = true; /* what becomes ready meanwhile is for the next time */
  uint32_t count = take_ready(s, class, ready), company = 0;
  bool *is_alone = KILN_NEW_ARRAY(arena, bool, count);
  const kiln_member_class_t **costs = KILN_NEW_ARRAY(arena, const kiln_member_class_t *, count);
  for (uint32_t i = 0; i < count; i++) costs[i] = &s->classes.costs[ready[i]];
  if (count > 1) find_loners(arena, s->g->target, costs, count, is_alone);
  for (uint32_t i = 0; i < count; i++) {
    if (!is_alone[i]) {
      ready[company++] = ready[i];
      continue;
    }
    class->left--;
    launch(s, &ready[i], 1, why_alone(s, ready[i]));
  }
  launch_company(s, class, ready, company);
  class->is_queued = false;
  enlist(s, number);
}

static void run(schedule_t *s, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    if (!s->waits[i]) make_ready(s, i);
  }
  while (s->launched < count) {
    due_t due = s->due_count ? pop_due(s) : (due_t){0, find_readiest(s)};
    if (due.class == NO_CLASS)
      launch(s, &due.first, 1, NULL);
    else
      launch_class(s, due.class);
  }
}

static uint32_t share_launches(const grouping_t *g, const uint32_t *apart, bool is_bound, double memory_limit,
                               const kiln_group_t *groups, uint32_t count, kiln_group_t *out) {
  schedule_t s = {.g = g,
                  .groups = groups,
                  .classes = find_classes(g, groups, count, apart, is_bound),
                  .memory_limit = memory_limit,
                  .out = out};
  if (s.classes.count == 0) return count; /* out is then not needed */
  s.dependencies = find_dependencies(g, groups, count);
  s.waits = s.dependencies.waits;
  s.memory = memory_create(g, groups, count);
  s.levels = KILN_NEW_ARRAY(g->arena, uint32_t, g->graph->value_count);
  rank_classes(g->arena, &s.classes, &s.dependencies);
  run(&s, count);
  return s.out_count;
}

/* --- the limit of memory ------------------------------------------------------------------------------- */

/* The most bytes of temporaries that are alive at once in this order. */
static double peak_of(const grouping_t *g, const kiln_grouping_t *grouping) {
  memory_t memory = memory_create(g, grouping->groups, grouping->group_count);
  for (uint32_t i = 0; i < grouping->group_count; i++) {
    const kiln_group_t *group = &grouping->groups[i];
    memory_run(&memory, &group, 1);
  }
  return memory.peak_bytes;
}

/* Sequences and neighbours, then levels and buffers. */
static void finish(const grouping_t *g, const uint32_t *apart, bool moves, kiln_group_t *groups,
                   kiln_grouping_t *out) {
  uint32_t *levels = KILN_NEW_ARRAY(g->arena, uint32_t, g->graph->value_count);
  out->group_count = join_sequences(g, apart, groups, out->group_count);
  if (moves) out->group_count = join_neighbours(g, apart, groups, out->group_count);
  for (uint32_t i = 0; i < out->group_count; i++) set_level(g, &groups[i], levels);
  out->groups = groups;
  plan_buffers(g, out);
}

/* All that an execution holds (inputs, outputs, temporaries) stays within memory_ratio of what it holds
 * without sharing. Slots may need more than what is alive; so launches first take what there is room for,
 * then less, then groups meet on their levels only, and if all that takes too much memory, there is no
 * sharing but in sequence. */
void arrange_launches(const grouping_t *g, const uint32_t *apart, kiln_grouping_t *grouping) {
  plan_buffers(g, grouping);
  uint32_t count = grouping->group_count;
  double arena_bytes = arena_bytes_of(g, grouping);
  double room = (memory_ratio - 1) * (memory_of_boundary(g->graph) + arena_bytes);
  double peak_bytes = peak_of(g, grouping);
  kiln_group_t *apart_groups = kiln_arena_copy(g->arena, grouping->groups, count * sizeof *grouping->groups);
  static const struct {
    bool is_bound;
    double of_room;
  } attempts[] = {{false, 1}, {false, 0.5}, {false, 0}, {true, 0.5}, {true, 0}};
  for (size_t i = 0; i < sizeof attempts / sizeof *attempts; i++) {
    double memory_limit = peak_bytes + attempts[i].of_room * room;
    kiln_group_t *groups = KILN_NEW_ARRAY(g->arena, kiln_group_t, count);
    kiln_grouping_t shared = *grouping;
    shared.group_count =
        share_launches(g, apart, attempts[i].is_bound, memory_limit, grouping->groups, count, groups);
    if (shared.group_count == count) break;
    finish(g, apart, true, groups, &shared);
    if (arena_bytes_of(g, &shared) > arena_bytes + room) continue;
    *grouping = shared;
    return;
  }
  kiln_grouping_t joined = *grouping;
  finish(g, apart, true, kiln_arena_copy(g->arena, apart_groups, count * sizeof *apart_groups), &joined);
  bool fits = arena_bytes_of(g, &joined) <= arena_bytes + room;
  if (!fits) finish(g, apart, false, apart_groups, grouping);
  if (fits) *grouping = joined;
}
