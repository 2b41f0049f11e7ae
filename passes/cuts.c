/* passes/cuts.c: cuts values where a kernel would be larger than its family takes, or where no family takes
 * both sides.
 *
 * Part of kiln_group (passes/group.c), after the cost rule. Walks the nodes in order and keeps for each value
 * an upper bound of its cone's nodes and leaves: the sums over its operands. Sums count shared parts twice,
 * so a bound past the limit is replaced by an exact count before anything is cut; that walk is bounded by the
 * limit itself.
 *
 * 1. When a cone is too large, the nodes since the last such place (the window) are closed: every value of
 * theirs that is still needed is cut, unless its cone is small. So large graphs fall into windows of about
 * one kernel each, and no node is computed in many kernels. A value is stored in its narrowest form: the bf16
 * behind a cast to f32.
 * 2. What is too large even so reads too many buffers: its operands are cut, the largest cone first.
 * 3. A cut of (2) adds a leaf to cones that were measured before it; what is stored is measured once more in
 * the end.
 */
#include "passes/grouping.h"

enum {
  ROUNDS = 8, /* of (3); each ends with fewer large cones than it began */
  WIDENING_STEPS = 4,
  SMALL_CONE = 8, /* nodes: computing them again is cheaper than a trip through memory */
};

static uint32_t saturating_add(uint32_t a, uint32_t b) { return a > UINT32_MAX - b ? UINT32_MAX : a + b; }

static bool can_cut(const measure_t *m, kiln_value_id_t value) {
  return value != KILN_NO_VALUE && !is_leaf(m->grouping, m->window, value) &&
         !kiln_type_is_empty(&m->grouping->graph->types[value]);
}

void limits_of(const grouping_t *g, uint64_t mask, uint32_t *node_limit, uint32_t *leaf_limit) {
  *node_limit = *leaf_limit = UINT32_MAX;
  for (size_t f = 0; f < g->families->count; f++) {
    const kiln_family_t *family = &g->families->items[f];
    if (!(mask >> f & 1)) continue;
    if (family->max_nodes < *node_limit) *node_limit = family->max_nodes;
    if (family->max_buffers < *leaf_limit) *leaf_limit = family->max_buffers;
  }
  *leaf_limit -= buffers_for_stores(*leaf_limit);
}

/* The value to store in place of this one: behind casts that widen and views that enlarge, as long as the
 * families take them; *mask keeps those that do. */
static kiln_value_id_t narrow(const measure_t *m, kiln_value_id_t value, uint64_t *mask) {
  const kiln_graph_t *graph = m->grouping->graph;
  for (int i = 0; i < WIDENING_STEPS; i++) {
    const kiln_node_t *node = kiln_graph_producer(graph, value);
    if (node->operand_count != 1 || !can_cut(m, node->operands[0])) break;
    kiln_value_id_t operand = node->operands[0];
    double here = typical_bytes(graph, &graph->types[value]);
    double there = typical_bytes(graph, &graph->types[operand]);
    bool cheap = node->op == KILN_OP_cast || kiln_op_info(node->op)->op_class == KILN_CLASS_VIEW;
    uint64_t accepted = *mask & m->grouping->masks[graph->producers[value]];
    if (!cheap || there >= here || !accepted) break;
    *mask = accepted;
    value = operand;
  }
  return value;
}

/* What a region stores is at hand inside it. */
void cut(measure_t *m, kiln_value_id_t value, cut_t why) {
  m->grouping->cuts[value] = is_in_region(m, value) ? CUT_REGION : (uint8_t)why;
}

uint32_t level_behind(const measure_t *m, kiln_value_id_t value) {
  if (value < m->grouping->graph->input_count) return 0;
  return 1 + (is_in_region(m, value) ? region_level(m, value) : m->levels[value]);
}

void measure_node(measure_t *m, uint32_t index) {
  const kiln_node_t *node = &m->grouping->graph->nodes[index];
  uint32_t nodes = 1, leaves = 0, level = 0;
  uint64_t mask = m->grouping->masks[index];
  for (uint32_t i = 0; i < node->operand_count; i++) {
    kiln_value_id_t operand = node->operands[i];
    if (operand == KILN_NO_VALUE) continue;
    bool leaf = is_leaf(m->grouping, m->window, operand);
    uint32_t behind = leaf ? level_behind(m, operand) : m->levels[operand];
    nodes = saturating_add(nodes, leaf ? 0 : m->nodes[operand]);
    leaves = saturating_add(leaves, leaf ? 1 : m->leaves[operand]);
    if (!leaf) mask &= m->masks[operand];
    if (behind > level) level = behind;
  }
  for (uint32_t r = 0; r < node->result_count; r++) {
    kiln_value_id_t result = node->first_result + r;
    m->nodes[result] = nodes;
    m->leaves[result] = leaves;
    m->levels[result] = level;
    m->masks[result] = mask;
  }
}

/* Cuts operands whose families do not accept this node. */
static void cut_by_family(measure_t *m, uint32_t index) {
  const kiln_node_t *node = &m->grouping->graph->nodes[index];
  uint64_t mask = m->grouping->masks[index];
  for (uint32_t i = 0; i < node->operand_count; i++) {
    kiln_value_id_t operand = node->operands[i];
    if (!can_cut(m, operand)) continue;
    if (mask & m->masks[operand]) {
      mask &= m->masks[operand];
    } else {
      cut(m, narrow(m, operand, &mask), CUT_FAMILY);
    }
  }
}

/* The operand with the largest cone, KILN_NO_VALUE when all are read already. */
static kiln_value_id_t heaviest_operand(const measure_t *m, const kiln_node_t *node) {
  uint32_t own =
      is_in_region(m, node->first_result) ? window_of(m->grouping, node->first_result) : UINT32_MAX;
  kiln_value_id_t heaviest = KILN_NO_VALUE;
  for (uint32_t i = 0; i < node->operand_count; i++) {
    kiln_value_id_t operand = node->operands[i];
    if (!can_cut(m, operand) || window_of(m->grouping, operand) == own) continue;
    if (heaviest == KILN_NO_VALUE || m->nodes[operand] > m->nodes[heaviest]) heaviest = operand;
  }
  return heaviest;
}

static bool exact_fits(measure_t *m, const kiln_node_t *node, uint32_t node_limit, uint32_t leaf_limit) {
  cone_clear(&m->cone);
  if (!cone_add(&m->cone, window_of(m->grouping, node->first_result), node->first_result, node_limit,
                leaf_limit))
    return false;
  for (uint32_t r = 0; r < node->result_count; r++) {
    m->nodes[node->first_result + r] = (uint32_t)m->cone.node_count;
    m->leaves[node->first_result + r] = (uint32_t)m->cone.leaf_count;
  }
  return true;
}

/* (1) Cuts what the nodes of the window, up to this one, leave for it and later ones. */
static void close_window(measure_t *m, uint32_t end) {
  const kiln_graph_t *graph = m->grouping->graph;
  for (uint32_t n = m->window_start; n < end; n++) {
    const kiln_node_t *node = &graph->nodes[n];
    for (uint32_t r = 0; r < node->result_count; r++) {
      kiln_value_id_t value = node->first_result + r;
      uint64_t mask = m->masks[value];
      if (m->last_readers[value] < end || m->nodes[value] <= SMALL_CONE || !can_cut(m, value) ||
          is_in_region(m, value))
        continue;
      cut(m, narrow(m, value, &mask), CUT_SIZE);
      m->nodes[value] = m->leaves[value] = 1;
    }
  }
  m->window_start = end;
  m->grouping->windows[end] = ++m->window;
}

/* (2) */
static bool cut_operands(measure_t *m, const kiln_node_t *node, uint32_t node_limit, uint32_t leaf_limit) {
  bool any = false;
  while (!exact_fits(m, node, node_limit, leaf_limit)) {
    kiln_value_id_t heaviest = heaviest_operand(m, node);
    if (heaviest == KILN_NO_VALUE) return any; /* the node alone is too large: wide_cat has seen to that */
    uint64_t mask = m->masks[node->first_result];
    cut(m, narrow(m, heaviest, &mask), CUT_BUFFERS);
    m->nodes[heaviest] = 0;
    any = true;
  }
  return any;
}

static void cut_to_size(measure_t *m, uint32_t index) {
  const kiln_node_t *node = &m->grouping->graph->nodes[index];
  uint32_t node_limit, leaf_limit;
  measure_node(m, index);
  limits_of(m->grouping, m->masks[node->first_result], &node_limit, &leaf_limit);
  if (m->nodes[node->first_result] <= node_limit && m->leaves[node->first_result] <= leaf_limit) return;
  if (exact_fits(m, node, node_limit, leaf_limit)) return;
  close_window(m, index);
  cut_operands(m, node, node_limit, leaf_limit);
}

/* (3) Every stored value once more; true when something was cut. */
static bool check_stored(measure_t *m) {
  const grouping_t *g = m->grouping;
  bool any = false;
  for (uint32_t n = 0; n < g->graph->node_count; n++) {
    const kiln_node_t *node = &g->graph->nodes[n];
    bool stored = false;
    for (uint32_t r = 0; r < node->result_count; r++) {
      stored |= m->output_uses[node->first_result + r] || g->cuts[node->first_result + r] != CUT_NONE;
    }
    if (!g->live[n] || !stored) continue;
    uint32_t node_limit, leaf_limit;
    limits_of(g, m->masks[node->first_result], &node_limit, &leaf_limit);
    m->window = g->windows[n];
    any |= cut_operands(m, node, node_limit, leaf_limit);
  }
  return any;
}

static uint32_t *find_last_readers(const grouping_t *g) {
  uint32_t *last_readers = KILN_NEW_ARRAY(g->arena, uint32_t, g->graph->value_count);
  for (uint32_t n = 0; n < g->graph->node_count; n++) {
    const kiln_node_t *node = &g->graph->nodes[n];
    for (uint32_t i = 0; g->live[n] && i < node->operand_count; i++) {
      if (node->operands[i] != KILN_NO_VALUE) last_readers[node->operands[i]] = n;
    }
  }
  return last_readers;
}

static uint32_t *count_outputs(const grouping_t *g) {
  uint32_t *uses = KILN_NEW_ARRAY(g->arena, uint32_t, g->graph->value_count);
  for (uint32_t i = 0; i < g->graph->output_count; i++) uses[g->graph->outputs[i]]++;
  return uses;
}

void cut_by_size(grouping_t *g) {
  uint32_t count = g->graph->value_count;
  measure_t m = {.grouping = g,
                 .cone = cone_create(g),
                 .nodes = KILN_NEW_ARRAY(g->arena, uint32_t, count),
                 .leaves = KILN_NEW_ARRAY(g->arena, uint32_t, count),
                 .masks = KILN_NEW_ARRAY(g->arena, uint64_t, count),
                 .levels = KILN_NEW_ARRAY(g->arena, uint32_t, count),
                 .output_uses = count_outputs(g),
                 .last_readers = find_last_readers(g)};
  m.regions = regions_create(&m);
  for (uint32_t n = 0; n < g->graph->node_count; n++) {
    if (!g->live[n] || regions_take(&m, n)) continue;
    g->windows[n] = m.window;
    cut_by_family(&m, n);
    cut_to_size(&m, n);
  }
  for (int round = 0; round < ROUNDS && check_stored(&m); round++) continue;
}
