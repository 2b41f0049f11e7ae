/* passes/memory.c: the memory that an order of launches takes (passes/horizontal.h).
 *
 * A temporary is alive from the launch that writes it first to the last one that reads it; a launch holds all
 * that it reads and all that it writes. The sum over those alive is what any plan needs at least; slots
 * (buffers.c) come close to it. Symbols count with their typical values.
 */
#include "passes/horizontal.h"

memory_t memory_create(const grouping_t *g, const kiln_group_t *groups, uint32_t count) {
  memory_t memory = {.grouping = g,
                     .bytes = KILN_NEW_ARRAY(g->arena, double, g->graph->value_count),
                     .readers_left = KILN_NEW_ARRAY(g->arena, uint32_t, g->graph->value_count),
                     .is_held = KILN_NEW_ARRAY(g->arena, bool, g->graph->value_count)};
  for (uint32_t i = 0; i < count; i++) {
    for (uint32_t k = 0; k < groups[i].store_count; k++) {
      const kiln_store_t *store = &groups[i].stores[k];
      kiln_value_id_t held = held_value(store);
      if (store->buffer.kind == KILN_BUFFER_TEMP)
        memory.bytes[held] = typical_bytes(g->graph, &g->graph->types[held]);
    }
    for (uint32_t k = 0; k < groups[i].input_count; k++) memory.readers_left[groups[i].inputs[k]]++;
  }
  return memory;
}

/* Of a dissolved value each writer counts its own part, whoever comes first. */
double memory_needed(const memory_t *memory, const kiln_group_t *group) {
  const kiln_graph_t *graph = memory->grouping->graph;
  double bytes = 0;
  for (uint32_t k = 0; k < group->store_count; k++) {
    const kiln_store_t *store = &group->stores[k];
    kiln_value_id_t held = held_value(store);
    if (memory->is_held[held] || memory->bytes[held] <= 0) continue;
    bytes += store->window ? typical_bytes(graph, &graph->types[store->value]) : memory->bytes[held];
  }
  return bytes;
}

static void begin(memory_t *memory, kiln_value_id_t value) {
  if (memory->is_held[value]) return;
  memory->is_held[value] = true;
  memory->live_bytes += memory->bytes[value];
}

void memory_run(memory_t *memory, const kiln_group_t *const *groups, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    for (uint32_t k = 0; k < groups[i]->store_count; k++) begin(memory, held_value(&groups[i]->stores[k]));
  }
  if (memory->live_bytes > memory->peak_bytes) memory->peak_bytes = memory->live_bytes;
  for (uint32_t i = 0; i < count; i++) {
    for (uint32_t k = 0; k < groups[i]->input_count; k++) {
      kiln_value_id_t value = groups[i]->inputs[k];
      if (!--memory->readers_left[value]) memory->live_bytes -= memory->bytes[value];
    }
  }
}

double memory_of_boundary(const kiln_graph_t *graph) {
  double bytes = 0;
  for (uint32_t i = 0; i < graph->input_count; i++) bytes += typical_bytes(graph, &graph->types[i]);
  for (uint32_t i = 0; i < graph->output_count; i++)
    bytes += typical_bytes(graph, &graph->types[graph->outputs[i]]);
  return bytes;
}
