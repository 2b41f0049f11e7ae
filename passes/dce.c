/* passes/dce.c: drops the nodes that no output needs.
 *
 *   %a = sin(%x); %b = cos(%x); return %b   ->   %b = cos(%x); return %b
 *
 * Stands after every group of rewrites, which leave dead nodes behind. Counts dropped nodes. Inputs always
 * stay.
 */
#include "passes/rewrite.h"

static bool any_result_live(const bool *live, const kiln_node_t *node) {
  for (uint32_t i = 0; i < node->result_count; i++) {
    if (live[node->first_result + i]) return true;
  }
  return false;
}

/* Which values are needed; nodes stand in topological order, so one walk backwards finds them all. */
static const bool *find_live(kiln_arena_t *arena, const kiln_graph_t *graph) {
  bool *live = KILN_NEW_ARRAY(arena, bool, graph->value_count);
  for (uint32_t i = 0; i < graph->output_count; i++) live[graph->outputs[i]] = true;
  for (uint32_t n = graph->node_count; n-- > 0;) {
    const kiln_node_t *node = &graph->nodes[n];
    if (!any_result_live(live, node)) continue;
    for (uint32_t i = 0; i < node->operand_count; i++) {
      if (node->operands[i] != KILN_NO_VALUE) live[node->operands[i]] = true;
    }
  }
  return live;
}

const kiln_graph_t *kiln_pass_dce(kiln_pass_context_t *context, const kiln_graph_t *graph) {
  const bool *live = find_live(context->arena, graph);
  for (uint32_t n = 0; n < graph->node_count; n++) {
    if (!any_result_live(live, &graph->nodes[n])) context->applied++;
  }
  if (!context->applied) return graph;
  rewrite_t rw = rewrite_begin(context, graph);
  for (uint32_t n = 0; n < graph->node_count; n++) {
    if (any_result_live(live, &graph->nodes[n])) rewrite_copy(&rw, &graph->nodes[n]);
  }
  return rewrite_finish(&rw);
}
