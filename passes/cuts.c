/* passes/cuts.c: cuts values where a kernel would be larger than its family takes, or where no family takes
 * both sides.
 *
 * Part of kiln_group (passes/group.c), after the cost rule. Walks the nodes in order and keeps for each value
 * an upper bound of its cone's nodes and leaves: the sums over its operands. Sums count shared parts twice,
 * so a bound past the limit is replaced by an exact count before anything is cut; that walk is bounded by the
 * limit itself. What is cut is the operand with the largest cone, or what that is widened from (the bf16
 * behind a cast to f32).
 */
#include "passes/grouping.h"

enum {
  ROUNDS = 3, /* a cut made late can add a leaf to cones that were measured before it */
  WIDENING_STEPS = 4,
};

typedef struct {
  grouping_t *grouping;
  cone_t cone;
  uint32_t *nodes, *leaves; /* per value: upper bounds of its cone */
  uint64_t *masks;          /* per value: families that accept the whole cone */
  bool any;                 /* something was cut in this round */
} measure_t;

static uint32_t saturating_add(uint32_t a, uint32_t b) { return a > UINT32_MAX - b ? UINT32_MAX : a + b; }

static bool can_cut(const measure_t *m, kiln_value_id_t value) {
  return value != KILN_NO_VALUE && !is_leaf(m->grouping, value) &&
         !kiln_type_is_empty(&m->grouping->graph->types[value]);
}

/* The families that take these nodes have the smallest of their limits. */
static void limits_of(const grouping_t *g, uint64_t mask, uint32_t *node_limit, uint32_t *leaf_limit) {
  *node_limit = *leaf_limit = UINT32_MAX;
  for (size_t f = 0; f < g->families->count; f++) {
    const kiln_family_t *family = &g->families->items[f];
    if (!(mask >> f & 1)) continue;
    if (family->max_nodes < *node_limit) *node_limit = family->max_nodes;
    if (family->max_buffers < *leaf_limit) *leaf_limit = family->max_buffers;
  }
  if (*leaf_limit != UINT32_MAX && *leaf_limit > 1) *leaf_limit -= 1; /* the store */
}

/* The value to store in place of this one: behind casts that widen and views that enlarge, as long as the
 * families take them; *mask keeps those that do. */
static kiln_value_id_t narrow(const measure_t *m, kiln_value_id_t value, uint64_t *mask) {
  const kiln_graph_t *graph = m->grouping->graph;
  for (int i = 0; i < WIDENING_STEPS; i++) {
    const kiln_node_t *node = kiln_graph_producer(graph, value);
    if (node->operand_count != 1 || !can_cut(m, node->operands[0])) break;
    kiln_value_id_t operand = node->operands[0];
    double here =
        typical_elements(graph, &graph->types[value]) * (double)kiln_dtype_bytes(graph->types[value].dtype);
    double there = typical_elements(graph, &graph->types[operand]) *
                   (double)kiln_dtype_bytes(graph->types[operand].dtype);
    bool cheap = node->op == KILN_OP_cast || kiln_op_info(node->op)->op_class == KILN_CLASS_VIEW;
    uint64_t accepted = *mask & m->grouping->masks[graph->producers[value]];
    if (!cheap || there >= here || !accepted) break;
    *mask = accepted;
    value = operand;
  }
  return value;
}

static void cut(measure_t *m, kiln_value_id_t value, cut_t why) {
  m->grouping->cuts[value] = (uint8_t)why;
  m->any = true;
}

static void measure_node(measure_t *m, const kiln_node_t *node) {
  uint32_t nodes = 1, leaves = 0;
  for (uint32_t i = 0; i < node->operand_count; i++) {
    kiln_value_id_t operand = node->operands[i];
    if (operand == KILN_NO_VALUE) continue;
    bool leaf = is_leaf(m->grouping, operand);
    nodes = saturating_add(nodes, leaf ? 0 : m->nodes[operand]);
    leaves = saturating_add(leaves, leaf ? 1 : m->leaves[operand]);
  }
  for (uint32_t r = 0; r < node->result_count; r++) {
    m->nodes[node->first_result + r] = nodes;
    m->leaves[node->first_result + r] = leaves;
  }
}

/* Cuts operands whose families do not accept this node, then sets the families of the cone. */
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
  for (uint32_t r = 0; r < node->result_count; r++) m->masks[node->first_result + r] = mask;
}

/* The operand with the largest cone, KILN_NO_VALUE when all are read already. */
static kiln_value_id_t heaviest_operand(const measure_t *m, const kiln_node_t *node) {
  kiln_value_id_t heaviest = KILN_NO_VALUE;
  for (uint32_t i = 0; i < node->operand_count; i++) {
    kiln_value_id_t operand = node->operands[i];
    if (!can_cut(m, operand)) continue;
    if (heaviest == KILN_NO_VALUE || m->nodes[operand] > m->nodes[heaviest]) heaviest = operand;
  }
  return heaviest;
}

static bool exact_fits(measure_t *m, const kiln_node_t *node, uint32_t node_limit, uint32_t leaf_limit) {
  cone_clear(&m->cone);
  if (!cone_add(&m->cone, node->first_result, node_limit, leaf_limit)) return false;
  for (uint32_t r = 0; r < node->result_count; r++) {
    m->nodes[node->first_result + r] = (uint32_t)m->cone.node_count;
    m->leaves[node->first_result + r] = (uint32_t)m->cone.leaf_count;
  }
  return true;
}

static void cut_to_size(measure_t *m, const kiln_node_t *node) {
  uint32_t node_limit, leaf_limit;
  uint64_t mask = m->masks[node->first_result];
  limits_of(m->grouping, mask, &node_limit, &leaf_limit);
  measure_node(m, node);
  if (m->nodes[node->first_result] <= node_limit && m->leaves[node->first_result] <= leaf_limit) return;
  while (!exact_fits(m, node, node_limit, leaf_limit)) {
    kiln_value_id_t heaviest = heaviest_operand(m, node);
    if (heaviest == KILN_NO_VALUE) return; /* the node alone is too large: wide_cat has seen to that */
    cut(m, narrow(m, heaviest, &mask), CUT_SIZE);
    m->nodes[heaviest] = 0; /* a few widening nodes at most */
  }
}

void cut_by_size(grouping_t *g) {
  uint32_t count = g->graph->value_count;
  measure_t m = {.grouping = g,
                 .cone = cone_create(g),
                 .nodes = KILN_NEW_ARRAY(g->arena, uint32_t, count),
                 .leaves = KILN_NEW_ARRAY(g->arena, uint32_t, count),
                 .masks = KILN_NEW_ARRAY(g->arena, uint64_t, count),
                 .any = true};
  for (int round = 0; round < ROUNDS && m.any; round++) {
    m.any = false;
    for (uint32_t n = 0; n < g->graph->node_count; n++) {
      if (!g->live[n]) continue;
      cut_by_family(&m, n);
      cut_to_size(&m, &g->graph->nodes[n]);
    }
  }
}
