/* passes/beside.c: a small launch stands beside an independent one of another family.
 *
 * Part of kiln_group, when the order of launches stands (horizontal.c). Launches of one family meet by class;
 * what is left over, say a rotary table beside the norm that the queries begin with, costs a launch for a few
 * blocks. Two such launches become one whose first blocks do one and whose other blocks do the other:
 *
 * 1. one of them is small: all its results are made by less threads than the target runs at once. It then
 * takes no time worth mentioning from the other, and LAUNCH_NS are saved;
 * 2. the later one waits for nothing that is launched after, or by, the earlier one, up to whose place it
 * moves;
 * 3. they are of different families, neither is a contraction (whose blocks have shared memory of their own
 * and registers for it, which the other's would take as well), and neither shares a launch already.
 */
#include "passes/horizontal.h"

#include <string.h>

enum { LAUNCHES_SEARCHED = 8 };

/* (1) */
static bool is_small(const grouping_t *g, const kiln_group_t *group) {
  double elements = 0;
  for (uint32_t i = 0; i < group->store_count; i++)
    elements += typical_elements(g->graph, &g->graph->types[group->stores[i].value]);
  return elements < (double)g->target->sm_count * THREADS_PER_SM;
}

/* (3) */
static bool is_free(const kiln_group_t *group) {
  return group->member_count == 1 && (!strcmp(group->kind, "rows") || !strcmp(group->kind, "elementwise"));
}

static bool can_stand_beside(const grouping_t *g, const uint32_t *apart, const kiln_group_t *a,
                             const kiln_group_t *b) {
  if (!is_free(a) || !is_free(b) || !strcmp(a->kind, b->kind)) return false;
  if (apart[a->stores[0].value] != apart[b->stores[0].value]) return false;
  return is_small(g, a) || is_small(g, b);
}

/* (2) The launch beside which this one can stand, + 1; 0: none. */
static uint32_t find_neighbour(const grouping_t *g, const uint32_t *apart, const uint32_t *writers,
                               const kiln_group_t *groups, uint32_t index) {
  uint32_t last = 0;
  for (uint32_t i = 0; i < groups[index].input_count; i++) {
    if (writers[groups[index].inputs[i]] > last) last = writers[groups[index].inputs[i]];
  }
  for (uint32_t i = last; i < index && i < last + LAUNCHES_SEARCHED; i++) {
    if (can_stand_beside(g, apart, &groups[i], &groups[index])) return i + 1;
  }
  return 0;
}

uint32_t join_neighbours(const grouping_t *g, const uint32_t *apart, kiln_group_t *groups, uint32_t count) {
  uint32_t *writers = KILN_NEW_ARRAY(g->arena, uint32_t, g->graph->value_count); /* the last launch, + 1 */
  uint32_t kept = 0;
  for (uint32_t i = 0; i < count; i++) {
    groups[kept] = groups[i];
    uint32_t neighbour = find_neighbour(g, apart, writers, groups, kept);
    uint32_t at = neighbour ? neighbour - 1 : kept++;
    if (neighbour) {
      groups[at] = merge_groups(g->arena, groups, (uint32_t[]){at, kept}, 2);
      groups[at].join = KILN_JOIN_BESIDE;
      groups[at].kind = "beside";
    }
    for (uint32_t k = 0; k < groups[at].store_count; k++) {
      uint32_t *writer = &writers[held_value(&groups[at].stores[k])];
      if (*writer <= at) *writer = at + 1;
    }
  }
  return kept;
}
