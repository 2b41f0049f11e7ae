/* passes/cone.c: the nodes from which a value is computed (passes/grouping.h).
 *
 * Walks with a list of its own, since a client chooses how deep a graph is. Membership is a stamp per node
 * and value, so that starting over costs nothing; the caller's limits bound the walk.
 */
#include "passes/grouping.h"

cone_t cone_create(const grouping_t *grouping) {
  return (cone_t){.grouping = grouping,
                  .node_stamps = KILN_NEW_ARRAY(grouping->arena, uint32_t, grouping->graph->node_count),
                  .value_stamps = KILN_NEW_ARRAY(grouping->arena, uint32_t, grouping->graph->value_count),
                  .stamp = 1};
}

void cone_clear(cone_t *cone) {
  cone->stamp++;
  cone->node_count = cone->leaf_count = cone->pending_count = 0;
}

static void add_node(cone_t *cone, uint32_t index) {
  kiln_arena_t *arena = cone->grouping->arena;
  const kiln_node_t *node = &cone->grouping->graph->nodes[index];
  if (cone->node_stamps[index] == cone->stamp) return;
  cone->node_stamps[index] = cone->stamp;
  KILN_PUSH(arena, cone->nodes, cone->node_count, cone->node_capacity, index);
  for (uint32_t i = 0; i < node->operand_count; i++) {
    kiln_value_id_t operand = node->operands[i];
    if (operand == KILN_NO_VALUE || cone->value_stamps[operand] == cone->stamp) continue;
    cone->value_stamps[operand] = cone->stamp;
    KILN_PUSH(arena, cone->pending, cone->pending_count, cone->pending_capacity, operand);
  }
}

bool cone_add(cone_t *cone, uint32_t window, kiln_value_id_t value, uint32_t node_limit,
              uint32_t leaf_limit) {
  const kiln_graph_t *graph = cone->grouping->graph;
  if (value < graph->input_count) {
    if (cone->value_stamps[value] != cone->stamp) {
      cone->value_stamps[value] = cone->stamp;
      KILN_PUSH(cone->grouping->arena, cone->leaves, cone->leaf_count, cone->leaf_capacity, value);
    }
    return cone->leaf_count <= leaf_limit;
  }
  add_node(cone, graph->producers[value]);
  while (cone->pending_count && cone->node_count <= node_limit && cone->leaf_count <= leaf_limit) {
    kiln_value_id_t next = cone->pending[--cone->pending_count];
    if (is_leaf(cone->grouping, window, next)) {
      KILN_PUSH(cone->grouping->arena, cone->leaves, cone->leaf_count, cone->leaf_capacity, next);
    } else {
      add_node(cone, graph->producers[next]);
    }
  }
  return cone->node_count <= node_limit && cone->leaf_count <= leaf_limit;
}
