/* passes/levels.c: in which order what is stored can be computed.
 *
 * Part of kiln_group (passes/group.c), when all cuts are made. What one kernel must store together, all
 * results of a region, is a unit; every other stored value is one by itself. A unit's level is one more than
 * the deepest of those whose values its cones read: Kahn's algorithm, with a count that proves that there is
 * no cycle.
 */
#include <assert.h>

#include "passes/grouping.h"

typedef struct {
  uint32_t to, next; /* the next edge from the same unit, + 1 */
} edge_t;

typedef struct {
  const grouping_t *grouping;
  uint32_t *units;               /* per value that is stored: its unit + 1 */
  uint32_t *first_edges, *waits; /* per unit: the first edge from it, + 1; edges to it */
  bool *is_dissolved;            /* per unit: no kernel, but a value that others make in parts */
  edge_t *edges;
  size_t edge_count, edge_capacity;
} order_t;

/* Numbers the units; returns how many there are. */
static uint32_t find_units(order_t *order, const kiln_value_id_t *stored, size_t count) {
  const grouping_t *g = order->grouping;
  uint32_t *by_region = KILN_NEW_ARRAY(g->arena, uint32_t, g->graph->node_count + 1);
  uint32_t unit_count = 0;
  for (size_t i = 0; i < count; i++) {
    uint32_t window = window_of(g, stored[i]);
    uint32_t *of_region = window >= FIRST_REGION_WINDOW ? &by_region[window - FIRST_REGION_WINDOW] : NULL;
    uint32_t unit = of_region && *of_region ? *of_region : ++unit_count;
    if (of_region) *of_region = unit;
    order->units[stored[i]] = unit;
  }
  return unit_count;
}

static void add_edge(order_t *order, uint32_t from, uint32_t to) {
  edge_t edge = {to, order->first_edges[from]};
  KILN_PUSH(order->grouping->arena, order->edges, order->edge_count, order->edge_capacity, edge);
  order->first_edges[from] = (uint32_t)order->edge_count;
  order->waits[to]++;
}

static void add_edges(order_t *order, cone_t *cone, kiln_value_id_t value) {
  const grouping_t *g = order->grouping;
  uint32_t to = order->units[value] - 1;
  cone_clear(cone);
  cone_add(cone, window_of(g, value), value, UINT32_MAX, UINT32_MAX);
  for (size_t i = 0; i < cone->leaf_count; i++) {
    uint32_t from = order->units[cone->leaves[i]];
    if (cone->leaves[i] < g->graph->input_count || !from) continue;
    add_edge(order, from - 1, to);
  }
}

/* A dissolved value is a unit that waits for its parts. Returns how many units there are then. */
static uint32_t add_dissolved(order_t *order, const windows_t *windows, uint32_t unit_count) {
  for (size_t i = 0; i < windows->count; i++) {
    uint32_t *unit = &order->units[windows->parts[i].window->of];
    if (!*unit) *unit = ++unit_count;
    order->is_dissolved[*unit - 1] = true;
    add_edge(order, order->units[windows->parts[i].value] - 1, *unit - 1);
  }
  return unit_count;
}

static uint32_t *walk(order_t *order, uint32_t unit_count) {
  kiln_arena_t *arena = order->grouping->arena;
  uint32_t *levels = KILN_NEW_ARRAY(arena, uint32_t, unit_count);
  uint32_t *queue = KILN_NEW_ARRAY(arena, uint32_t, unit_count), queued = 0, done = 0;
  for (uint32_t u = 0; u < unit_count; u++) {
    if (!order->waits[u]) queue[queued++] = u;
  }
  while (done < queued) {
    uint32_t from = queue[done++];
    for (uint32_t e = order->first_edges[from]; e; e = order->edges[e - 1].next) {
      uint32_t to = order->edges[e - 1].to;
      uint32_t level = levels[from] + !order->is_dissolved[to];
      if (levels[to] < level) levels[to] = level;
      if (!--order->waits[to]) queue[queued++] = to;
    }
  }
  assert(done == unit_count); /* regions.c lets no cycle in */
  return levels;
}

void find_levels(const grouping_t *g, cone_t *cone, const windows_t *windows, const kiln_value_id_t *stored,
                 size_t count, uint32_t *out_levels) {
  size_t most = count + windows->count;
  order_t order = {.grouping = g,
                   .units = KILN_NEW_ARRAY(g->arena, uint32_t, g->graph->value_count),
                   .first_edges = KILN_NEW_ARRAY(g->arena, uint32_t, most),
                   .waits = KILN_NEW_ARRAY(g->arena, uint32_t, most),
                   .is_dissolved = KILN_NEW_ARRAY(g->arena, bool, most)};
  uint32_t unit_count = add_dissolved(&order, windows, find_units(&order, stored, count));
  for (size_t i = 0; i < count; i++) add_edges(&order, cone, stored[i]);
  const uint32_t *levels = walk(&order, unit_count);
  for (uint32_t v = 0; v < g->graph->value_count; v++) {
    if (order.units[v]) out_levels[v] = levels[order.units[v] - 1];
  }
}
