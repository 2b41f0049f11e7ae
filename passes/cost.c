/* passes/cost.c: the cost rule of grouping: when is a value worth a launch and a trip through memory of its
 * own?
 *
 * Part of kiln_group (passes/group.c). Fusing computes a value wherever it is needed. That is free where each
 * element is needed once, and cheap where it is a cast or a sum: an H200 moves 4.8 TB/s and computes 25 T
 * operations/s, so a handful of operations per byte costs nothing. It is dear where a sine is needed at 40
 * heads. The rule, in numbers:
 *
 * 1. evaluations(v): how often elements of v are computed: a reader that is computed e times reads v e times;
 * a cat or a pad reads each of its operands for that operand's share only. Several readers count as the
 * largest of them, since in one kernel they share the value. A stored value is computed once per element.
 * 2. saved(v) = (evaluations(v) - elements(v)) * instructions of its op, for the ops below; all others count
 * as free.
 * 3. The value to store is the narrowest on the way from v to the first node that has several readers or more
 * elements: for a rotary table the bf16 cosine before it is repeated and broadcast over the heads.
 * 4. It is stored when the time saved on this target exceeds one launch and writing and reading the stored
 * bytes.
 * 5. Reductions, normalizations and contractions are computed once, and what follows them in place with them
 * (regions.c): that is not weighed here.
 *
 * Symbols count with their typical values. Instruction counts are rounded from the SASS of sm_90.
 */
#include "passes/grouping.h"

enum { LANES_PER_SM = 128 };
static const double clock_ghz =
    1.5; /* sustained; the factor between rows of targets is below what the rule can resolve */

double typical_elements(const kiln_graph_t *graph, const kiln_type_t *type) {
  int64_t symbols[KILN_MAX_SYMBOLS];
  kiln_graph_typical_symbols(graph, symbols);
  double elements = 1;
  for (uint32_t i = 0; i < type->rank; i++) {
    int64_t size;
    elements *= kiln_dim_eval(type->dims[i], symbols, &size) ? (double)size : 1e18;
  }
  return elements;
}

double typical_bytes(const kiln_graph_t *graph, const kiln_type_t *type) {
  return typical_elements(graph, type) * (double)kiln_dtype_bytes(type->dtype);
}

/* Instructions of an op that is too dear to repeat at will; 0 for all others. */
static double instructions(kiln_op_t op, kiln_dtype_t dtype) {
  double factor = dtype == KILN_DTYPE_f64 ? 4 : 1;
  switch (op) {
  case KILN_OP_sin:
  case KILN_OP_cos:
  case KILN_OP_tan:
    return 40 * factor; /* the fast path; large arguments take ten times that */
  case KILN_OP_exp:
  case KILN_OP_exp2:
  case KILN_OP_expm1:
  case KILN_OP_log:
  case KILN_OP_log2:
  case KILN_OP_log1p:
  case KILN_OP_tanh:
  case KILN_OP_erf:
  case KILN_OP_sigmoid:
  case KILN_OP_silu:
    return 20 * factor;
  case KILN_OP_gelu:
  case KILN_OP_pow:
  case KILN_OP_atan2:
    return 50 * factor;
  case KILN_OP_sqrt:
  case KILN_OP_rsqrt:
  case KILN_OP_reciprocal:
  case KILN_OP_div:
  case KILN_OP_floordiv:
  case KILN_OP_remainder:
    return 10 * factor;
  default:
    return 0;
  }
}

bool is_dear(kiln_op_t op) { return instructions(op, KILN_DTYPE_f32) > 0; }

typedef struct {
  grouping_t *grouping;
  double *elements;    /* per value */
  double *evaluations; /* per value; (1) */
  double *saved;       /* per value: what storing it would save; (2) */
  uint32_t *readers;   /* per value: nodes that read it, and outputs */
  uint32_t *last_reader;
  kiln_value_id_t *narrowest; /* per value; (3) */
  bool *follows;              /* per value: element-wise work behind a reduction or a contraction, see (5) */
} costs_t;

/* Is the node done by one kernel only, which computes each element once? */
static bool is_first_of_region(const grouping_t *g, uint32_t node) {
  return kiln_op_info(g->graph->nodes[node].op)->op_class >= KILN_CLASS_REDUCTION && !(g->masks[node] & 1);
}

/* (5) */
static void find_followers(const grouping_t *g, bool *follows) {
  for (uint32_t n = 0; n < g->graph->node_count; n++) {
    const kiln_node_t *node = &g->graph->nodes[n];
    bool stays = kiln_op_info(node->op)->op_class == KILN_CLASS_ELEMENTWISE || node->op == KILN_OP_reshape ||
                 node->op == KILN_OP_expand;
    follows[node->first_result] = is_first_of_region(g, n);
    for (uint32_t i = 0; stays && i < node->operand_count; i++) {
      follows[node->first_result] |= node->operands[i] != KILN_NO_VALUE && follows[node->operands[i]];
    }
  }
}

static costs_t start(grouping_t *g) {
  const kiln_graph_t *graph = g->graph;
  uint32_t count = graph->value_count;
  costs_t costs = {g,
                   KILN_NEW_ARRAY(g->arena, double, count),
                   KILN_NEW_ARRAY(g->arena, double, count),
                   KILN_NEW_ARRAY(g->arena, double, count),
                   KILN_NEW_ARRAY(g->arena, uint32_t, count),
                   KILN_NEW_ARRAY(g->arena, uint32_t, count),
                   KILN_NEW_ARRAY(g->arena, kiln_value_id_t, count),
                   KILN_NEW_ARRAY(g->arena, bool, count)};
  for (uint32_t v = 0; v < count; v++) costs.elements[v] = typical_elements(graph, &graph->types[v]);
  for (uint32_t i = 0; i < graph->output_count; i++) {
    costs.readers[graph->outputs[i]]++;
    costs.last_reader[graph->outputs[i]] = KILN_NO_VALUE;
    costs.evaluations[graph->outputs[i]] = costs.elements[graph->outputs[i]];
  }
  return costs;
}

/* How often a node that is evaluated so often reads its operand. */
static double reads(const costs_t *costs, const kiln_node_t *node, kiln_value_id_t operand) {
  double evaluations = costs->evaluations[node->first_result];
  double share = costs->elements[operand] / costs->elements[node->first_result];
  switch (kiln_op_info(node->op)->op_class) {
  case KILN_CLASS_REDUCTION:
  case KILN_CLASS_NORMALIZATION:
  case KILN_CLASS_CONTRACTION:
    return evaluations * share;
  default:
    return node->op == KILN_OP_cat || node->op == KILN_OP_pad ? evaluations * share : evaluations;
  }
}

/* (3), from the result of the only reader, whose place is known already. */
static kiln_value_id_t find_narrowest(const costs_t *costs, kiln_value_id_t value) {
  const kiln_graph_t *graph = costs->grouping->graph;
  uint32_t reader = costs->last_reader[value];
  if (costs->readers[value] != 1 || reader == KILN_NO_VALUE || graph->nodes[reader].result_count != 1)
    return value;
  kiln_value_id_t next = graph->nodes[reader].first_result;
  if (costs->elements[next] > costs->elements[value] || costs->evaluations[next] <= costs->elements[next])
    return value;
  kiln_value_id_t behind = costs->narrowest[next];
  double here = typical_bytes(graph, &graph->types[value]);
  return here < typical_bytes(graph, &graph->types[behind]) ? value : behind;
}

/* (4) */
static bool pays(const costs_t *costs, kiln_value_id_t value) {
  const kiln_target_t *target = costs->grouping->target;
  double bytes = typical_bytes(costs->grouping->graph, &costs->grouping->graph->types[value]);
  double saved_ns = costs->saved[value] / (target->sm_count * LANES_PER_SM * clock_ghz);
  double memory_ns = target->memory_gb_per_s ? 2 * bytes / target->memory_gb_per_s : 0;
  return saved_ns > LAUNCH_NS + memory_ns;
}

/* Values on the way from value to the one that is now stored are computed once per element. */
static void settle(costs_t *costs, kiln_value_id_t value, kiln_value_id_t stored) {
  while (true) {
    costs->evaluations[value] = costs->elements[value];
    if (value == stored) return;
    value = costs->grouping->graph->nodes[costs->last_reader[value]].first_result;
  }
}

static void weigh(costs_t *costs, const kiln_node_t *node, kiln_value_id_t result) {
  grouping_t *g = costs->grouping;
  costs->narrowest[result] = find_narrowest(costs, result);
  double instruction_count = instructions(node->op, g->graph->types[result].dtype);
  double repeated = costs->evaluations[result] - costs->elements[result];
  if (instruction_count == 0 || repeated <= 0 || costs->follows[result]) return;
  kiln_value_id_t place = costs->narrowest[result];
  costs->saved[place] += repeated * instruction_count;
  if (g->cuts[place] != CUT_NONE || !pays(costs, place)) return;
  g->cuts[place] = CUT_COST;
  settle(costs, result, place);
}

static void count_reads(costs_t *costs, uint32_t index) {
  const kiln_node_t *node = &costs->grouping->graph->nodes[index];
  for (uint32_t i = 0; i < node->operand_count; i++) {
    kiln_value_id_t operand = node->operands[i];
    if (operand == KILN_NO_VALUE) continue;
    if (costs->last_reader[operand] != index || !costs->readers[operand]) costs->readers[operand]++;
    costs->last_reader[operand] = index;
    double read = reads(costs, node, operand);
    if (read > costs->evaluations[operand]) costs->evaluations[operand] = read;
  }
}

void cut_by_cost(grouping_t *g) {
  costs_t costs = start(g);
  find_followers(g, costs.follows);
  for (uint32_t n = g->graph->node_count; n-- > 0;) {
    const kiln_node_t *node = &g->graph->nodes[n];
    if (!g->live[n] || costs.elements[node->first_result] <= 0) continue;
    if (is_first_of_region(g, n)) costs.evaluations[node->first_result] = costs.elements[node->first_result];
    for (uint32_t r = 0; r < node->result_count; r++) weigh(&costs, node, node->first_result + r);
    count_reads(&costs, n);
  }
}
