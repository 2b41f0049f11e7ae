/* passes/classes.c: which groups could share a launch, and their ranks (passes/horizontal.h).
 *
 * Two groups are of one class when they are of one kernel family and codegen's keys for them are equal, which
 * neither order nor a first member can influence. A group's rank is the number of groups of its class on the
 * longest way that begins with it: so many launches the class needs at least. Ranks of one class take a walk
 * over the edges; RANKED_CLASSES of the largest classes get one each, all others share the longest way
 * through groups of any class, which rises along every edge as well.
 */
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "passes/horizontal.h"

enum { RANKED_CLASSES = 64 };

/* --- classes --------------------------------------------------------------------------------------- */

static const kiln_family_t *family_of_group(const grouping_t *g, const kiln_group_t *group) {
  for (size_t f = 0; f < g->families->count; f++) {
    if (!strcmp(g->families->items[f].name, group->kind)) return &g->families->items[f];
  }
  return NULL;
}

/* A group's own class number; extra: what else must be equal. What classify needs on the way goes to scratch.
 */
static uint32_t class_of(const grouping_t *g, kiln_arena_t *scratch, classes_t *classes, kiln_map_t *known,
                         uint32_t index, const uint64_t extra[2]) {
  const kiln_group_t *group = &classes->groups[index];
  const kiln_family_t *family = family_of_group(g, group);
  kiln_member_class_t *cost = &classes->costs[index];
  if (!family || !family->classify) return NO_CLASS;
  if (!family->classify(scratch, g->graph, group, g->target, cost)) return NO_CLASS;
  const uint64_t key[] = {(uint64_t)(family - g->families->items), cost->key[0], cost->key[1], extra[0],
                          extra[1]};
  bool added;
  uint64_t *number = kiln_map_put(known, key, sizeof key, &added);
  if (added) {
    class_t class = {.name = kiln_arena_strdup(g->arena, cost->name ? cost->name : family->name)};
    *number = classes->count;
    KILN_PUSH(g->arena, classes->items, classes->count, classes->capacity, class);
  }
  return (uint32_t)*number;
}

classes_t find_classes(const grouping_t *g, const kiln_group_t *groups, uint32_t count, const uint32_t *apart,
                       bool is_bound) {
  kiln_map_t *known = kiln_map_create(g->arena);
  kiln_arena_t *scratch = kiln_arena_create_inside(g->arena);
  classes_t out = {.groups = groups,
                   .group_count = count,
                   .costs = KILN_NEW_ARRAY(g->arena, kiln_member_class_t, count),
                   .classes = KILN_NEW_ARRAY(g->arena, uint32_t, count),
                   .places = KILN_NEW_ARRAY(g->arena, uint32_t, count)};
  for (uint32_t i = 0; i < count; i++) {
    const uint64_t extra[] = {apart[groups[i].stores[0].value], is_bound ? groups[i].level : UINT64_MAX};
    out.classes[i] = class_of(g, scratch, &out, known, i, extra);
    kiln_arena_reset(scratch);
    if (out.classes[i] != NO_CLASS) out.places[i] = out.items[out.classes[i]].count++;
  }
  kiln_arena_deinit(scratch);
  for (size_t c = 0; c < out.count; c++) {
    class_t *class = &out.items[c];
    class->groups = KILN_NEW_ARRAY(g->arena, uint32_t, class->count);
    class->ready = KILN_NEW_ARRAY(g->arena, uint32_t, class->count);
    class->left = class->count;
  }
  for (uint32_t i = 0; i < count; i++) {
    if (out.classes[i] != NO_CLASS) out.items[out.classes[i]].groups[out.places[i]] = i;
  }
  return out;
}

/* --- ranks ----------------------------------------------------------------------------------------- */

/* Of each group, those on the longest way that begins with it and that are of the class; or all, for
 * NO_CLASS. Only groups first .. last can be on a way between two groups of the class. */
static void measure_ranks(const classes_t *classes, const dependencies_t *dependencies, uint32_t class,
                          uint32_t first, uint32_t last, uint32_t *ranks) {
  for (uint32_t i = last + 1; i-- > first;) {
    uint32_t rank = 0;
    for (uint32_t e = dependencies->starts[i]; e < dependencies->starts[i + 1]; e++) {
      uint32_t reader = dependencies->readers[e];
      if (reader <= last && ranks[reader] > rank) rank = ranks[reader];
    }
    ranks[i] = rank + (class == NO_CLASS || classes->classes[i] == class);
  }
}

typedef struct {
  uint32_t rank, place;
} ranked_t;

static int by_rank(const void *a, const void *b) {
  const ranked_t *x = a, *y = b;
  if (x->rank != y->rank) return x->rank > y->rank ? -1 : 1;
  return x->place < y->place ? -1 : x->place > y->place;
}

static void make_tiers(kiln_arena_t *arena, class_t *class, const uint32_t *ranks) {
  ranked_t *order = KILN_NEW_ARRAY(arena, ranked_t, class->count);
  for (uint32_t i = 0; i < class->count; i++) order[i] = (ranked_t){ranks[class->groups[i]], i};
  qsort(order, class->count, sizeof *order, by_rank);
  class->tiers_of = KILN_NEW_ARRAY(arena, uint32_t, class->count);
  class->tiers = KILN_NEW_ARRAY(arena, tier_t, class->count);
  for (uint32_t i = 0; i < class->count; i++) {
    if (!i || order[i].rank != order[i - 1].rank) class->tier_count++;
    class->tiers[class->tier_count - 1].left++;
    class->tiers_of[order[i].place] = class->tier_count - 1;
  }
}

typedef struct {
  uint32_t count, class;
} sized_t;

static int by_size(const void *a, const void *b) {
  const sized_t *x = a, *y = b;
  if (x->count != y->count) return x->count > y->count ? -1 : 1;
  return x->class < y->class ? -1 : x->class > y->class;
}

void rank_classes(kiln_arena_t *arena, classes_t *classes, const dependencies_t *dependencies) {
  if (!classes->count) return;
  uint32_t *any = KILN_NEW_ARRAY(arena, uint32_t, classes->group_count);
  uint32_t *own = KILN_NEW_ARRAY(arena, uint32_t, classes->group_count);
  sized_t *order = KILN_NEW_ARRAY(arena, sized_t, classes->count);
  for (uint32_t c = 0; c < classes->count; c++) order[c] = (sized_t){classes->items[c].count, c};
  qsort(order, classes->count, sizeof *order, by_size);
  measure_ranks(classes, dependencies, NO_CLASS, 0, classes->group_count - 1, any);
  for (uint32_t c = 0; c < classes->count; c++) {
    class_t *class = &classes->items[order[c].class];
    uint32_t first = class->groups[0], last = class->groups[class->count - 1];
    bool is_ranked = c<RANKED_CLASSES &&class->count> 1;
    if (is_ranked) measure_ranks(classes, dependencies, order[c].class, first, last, own);
    make_tiers(arena, class, is_ranked ? own : any);
  }
}
