/* passes/sequence.c: a contraction and one that reads its result point by point share a launch.
 *
 *   a = silu(x w)       kernel 1                    each block: its tile of silu(x w), then
 *   y = a * (x v)       kernel 2      becomes                   the same tile of a * (x v)
 *
 * Part of kiln_group, when the order of launches stands (horizontal.c). The reader moves up to what it reads:
 * that is the last of all it waits for. It needs no other block's results when
 * 1. both groups have one contraction, with results of one shape;
 * 2. what is read was made from the first one's results by element-wise work of that shape, and goes on in
 * the second group through such work only: element (m, n) comes from (m, n). That both have tiles alike,
 * codegen sees; when they have not, it refuses and the group is cut.
 */
#include "passes/horizontal.h"

#include <string.h>

typedef struct {
  const grouping_t *g;
  const uint32_t *apart;
  uint32_t *writers; /* per value: the last launch that writes it, + 1 */
  bool *is_reached;  /* per value, while one group is looked at */
} finder_t;

static bool is_contraction(const kiln_node_t *node) {
  return kiln_op_info(node->op)->op_class == KILN_CLASS_CONTRACTION;
}

/* The only contraction of a group; NULL when there are more. */
static const kiln_node_t *contraction_of(const grouping_t *g, const kiln_group_t *group) {
  const kiln_node_t *found = NULL;
  for (uint32_t i = 0; i < group->node_count; i++) {
    const kiln_node_t *node = &g->graph->nodes[group->nodes[i]];
    if (!is_contraction(node)) continue;
    if (found) return NULL;
    found = node;
  }
  return found;
}

/* Marks what element-wise work makes of `from` in this group, point by point. False when anything else
 * happens to one of those values. */
static bool follow(finder_t *f, const kiln_group_t *group, kiln_value_id_t from, bool marks) {
  const kiln_graph_t *graph = f->g->graph;
  bool stays = true;
  f->is_reached[from] = marks;
  for (uint32_t i = 0; i < group->node_count; i++) {
    const kiln_node_t *node = &graph->nodes[group->nodes[i]];
    bool reads = false;
    for (uint32_t k = 0; k < node->operand_count; k++)
      reads |= node->operands[k] != KILN_NO_VALUE && f->is_reached[node->operands[k]];
    bool in_place = kiln_op_info(node->op)->op_class == KILN_CLASS_ELEMENTWISE &&
                    kiln_type_same_shape(&graph->types[node->first_result], &graph->types[from]);
    stays &= !reads || in_place;
    if (!marks || (reads && in_place)) f->is_reached[node->first_result] = marks;
  }
  return stays;
}

/* (2) */
static bool is_point_by_point(finder_t *f, const kiln_group_t *writer, const kiln_group_t *reader,
                              kiln_value_id_t made, kiln_value_id_t read) {
  follow(f, writer, made, true);
  bool comes_in_place = f->is_reached[read];
  follow(f, writer, made, false);
  bool stays = follow(f, reader, read, true);
  follow(f, reader, read, false);
  return comes_in_place && stays;
}

static bool is_single(const kiln_group_t *group) {
  return group->member_count == 1 && !strcmp(group->kind, "contraction");
}

/* The launch with which this one can share its own, + 1; 0: none. */
static uint32_t find_partner(finder_t *f, const kiln_group_t *groups, uint32_t index) {
  const kiln_graph_t *graph = f->g->graph;
  const kiln_group_t *reader = &groups[index];
  uint32_t last = 0;
  if (!is_single(reader)) return 0;
  for (uint32_t i = 0; i < reader->input_count; i++) {
    if (f->writers[reader->inputs[i]] > last) last = f->writers[reader->inputs[i]];
  }
  const kiln_group_t *writer = last ? &groups[last - 1] : NULL;
  if (!writer || !is_single(writer)) return 0;
  if (f->apart[writer->stores[0].value] != f->apart[reader->stores[0].value]) return 0;
  const kiln_node_t *first = contraction_of(f->g, writer), *second = contraction_of(f->g, reader);
  if (!first || !second) return 0;
  if (!kiln_type_same_shape(&graph->types[first->first_result], &graph->types[second->first_result]))
    return 0;
  for (uint32_t i = 0; i < reader->input_count; i++) {
    kiln_value_id_t input = reader->inputs[i];
    bool is_shared = f->writers[input] == last;
    if (is_shared && !is_point_by_point(f, writer, reader, first->first_result, input)) return 0;
  }
  return last;
}

/* What the reader takes from the writer is no input of both. */
static kiln_group_t join(const grouping_t *g, const kiln_group_t *groups, uint32_t writer, uint32_t reader) {
  kiln_group_t joined = merge_groups(g->arena, groups, (uint32_t[]){writer, reader}, 2);
  kiln_value_id_t *inputs = KILN_NEW_ARRAY(g->arena, kiln_value_id_t, joined.input_count);
  uint32_t count = 0;
  for (uint32_t i = 0; i < joined.input_count; i++) {
    bool is_own = false;
    for (uint32_t k = 0; k < groups[writer].store_count; k++)
      is_own |= groups[writer].stores[k].value == joined.inputs[i];
    if (!is_own) inputs[count++] = joined.inputs[i];
  }
  joined.inputs = inputs;
  joined.input_count = count;
  joined.join = KILN_JOIN_SEQUENCE;
  joined.reason = "the second member reads, point by point, what the same block has made of the first";
  return joined;
}

uint32_t join_sequences(const grouping_t *g, const uint32_t *apart, kiln_group_t *groups, uint32_t count) {
  finder_t finder = {.g = g,
                     .apart = apart,
                     .writers = KILN_NEW_ARRAY(g->arena, uint32_t, g->graph->value_count),
                     .is_reached = KILN_NEW_ARRAY(g->arena, bool, g->graph->value_count)};
  uint32_t kept = 0;
  for (uint32_t i = 0; i < count; i++) {
    groups[kept] = groups[i];
    uint32_t partner = find_partner(&finder, groups, kept);
    uint32_t at = partner ? partner - 1 : kept++;
    if (partner) groups[at] = join(g, groups, at, kept);
    for (uint32_t k = 0; k < groups[at].store_count; k++)
      finder.writers[held_value(&groups[at].stores[k])] = at + 1;
  }
  return kept;
}
