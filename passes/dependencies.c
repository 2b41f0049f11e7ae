/* passes/dependencies.c: which groups wait for which (passes/horizontal.h).
 *
 * A group waits for every group that writes a value it reads, or a window of it. The edges lie in one array,
 * in order of the group that is waited for: what horizontal.c walks again and again stays in the cache.
 */
#include "passes/horizontal.h"

/* Per value, a list of the groups that write it or a part of it. */
typedef struct {
  uint32_t *first; /* per value: entry + 1 */
  uint32_t *groups, *next;
  size_t count;
} writers_t;

static writers_t find_writers(const grouping_t *g, const kiln_group_t *groups, uint32_t count) {
  size_t total = 0;
  for (uint32_t i = 0; i < count; i++) total += groups[i].store_count;
  writers_t writers = {.first = KILN_NEW_ARRAY(g->arena, uint32_t, g->graph->value_count),
                       .groups = KILN_NEW_ARRAY(g->arena, uint32_t, total),
                       .next = KILN_NEW_ARRAY(g->arena, uint32_t, total)};
  for (uint32_t i = 0; i < count; i++) {
    for (uint32_t k = 0; k < groups[i].store_count; k++) {
      uint32_t *first = &writers.first[held_value(&groups[i].stores[k])];
      if (*first && writers.groups[*first - 1] == i) continue; /* stored twice */
      writers.groups[writers.count] = i;
      writers.next[writers.count++] = *first;
      *first = (uint32_t)writers.count;
    }
  }
  return writers;
}

/* Calls `visit` for each edge; the order is the same each time. */
static void walk_edges(const grouping_t *g, const kiln_group_t *groups, const writers_t *writers,
                       dependencies_t *out, void (*visit)(dependencies_t *out, uint32_t from, uint32_t to)) {
  for (uint32_t i = 0; i < out->count; i++) {
    for (uint32_t k = 0; k < groups[i].input_count; k++) {
      kiln_value_id_t input = groups[i].inputs[k];
      if (input < g->graph->input_count) continue;
      for (uint32_t w = writers->first[input]; w; w = writers->next[w - 1])
        visit(out, writers->groups[w - 1], i);
    }
  }
}

static void count_edge(dependencies_t *out, uint32_t from, uint32_t to) {
  out->starts[from + 1]++;
  out->waits[to]++;
}

/* starts[from] is where the next edge goes, and in the end where those of from + 1 begin. */
static void place_edge(dependencies_t *out, uint32_t from, uint32_t to) {
  out->readers[out->starts[from]++] = to;
}

dependencies_t find_dependencies(const grouping_t *g, const kiln_group_t *groups, uint32_t count) {
  writers_t writers = find_writers(g, groups, count);
  dependencies_t out = {.count = count,
                        .starts = KILN_NEW_ARRAY(g->arena, uint32_t, count + 1),
                        .waits = KILN_NEW_ARRAY(g->arena, uint32_t, count)};
  walk_edges(g, groups, &writers, &out, count_edge);
  for (uint32_t i = 0; i < count; i++) out.starts[i + 1] += out.starts[i];
  out.readers = KILN_NEW_ARRAY(g->arena, uint32_t, out.starts[count]);
  walk_edges(g, groups, &writers, &out, place_edge);
  for (uint32_t i = count; i > 0; i--) out.starts[i] = out.starts[i - 1];
  out.starts[0] = 0;
  return out;
}
