/* passes/simplify.c: identities that are exact to the bit: each node is rewritten by the rules of
 * simplify_rules.def until none fits.
 *
 *   %a = permute(%x) {dims=[1,0]}; %b = permute(%a) {dims=[1,0]}; %y = mul(%b, 1)   ->   %x
 *
 * Exact means: the same bits but for the payload of a NaN that is computed rather than moved. Stands after
 * fold, and again after the passes that build new views. Operands are already simple when their reader is
 * looked at, so one walk is enough; the steps per node are bounded to keep it linear. Counts rewrites.
 */
#include "passes/simplify.h"

enum { STEPS_PER_NODE = 64 };

/* What stands in the op column of a rule for more than one op. */
enum { KILN_OP_ANY = KILN_OP_COUNT, KILN_OP_ELEMENTWISE, KILN_OP_VIEW };

typedef struct {
  int op;
  simplify_rule_t apply;
} rule_t;

static const rule_t rules[] = {
#define KILN_RULE(op, function, text) {(int)KILN_OP_##op, simplify_##function},
#include "passes/simplify_rules.def"
#undef KILN_RULE
};

static bool is_for(const rule_t *rule, kiln_op_t op) {
  kiln_op_class_t op_class = kiln_op_info(op)->op_class;
  if (rule->op == KILN_OP_ELEMENTWISE) return op_class == KILN_CLASS_ELEMENTWISE;
  if (rule->op == KILN_OP_VIEW) return op_class == KILN_CLASS_VIEW;
  return rule->op == KILN_OP_ANY || rule->op == (int)op;
}

/* Applies the first rule that fits. */
static bool step(rewrite_t *rw, draft_t *draft) {
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
    if (is_for(&rules[i], draft->op) && rules[i].apply(rw, draft)) return true;
  }
  return false;
}

static kiln_value_id_t simplify(rewrite_t *rw, draft_t *draft) {
  for (int i = 0; i < STEPS_PER_NODE && draft->value == KILN_NO_VALUE && step(rw, draft); i++) {
    rw->context->applied++;
  }
  return rewrite_place(rw, draft);
}

/* A split is one slice per result: a single kind of partial view is easier on everything downstream. */
static bool split_to_slices(rewrite_t *rw, const kiln_node_t *node) {
  draft_t draft = rewrite_draft(rw, node);
  kiln_value_id_t whole = draft.operands[0];
  int64_t axis = draft_int(&draft, KILN_ATTR_dim);
  const kiln_type_t type = *rewrite_type(rw, whole);
  kiln_dim_t starts[KILN_MAX_RANK], limits[KILN_MAX_RANK];
  for (uint32_t i = 0; i < type.rank; i++) {
    starts[i] = kiln_dim_constant(0);
    limits[i] = type.dims[i];
  }
  limits[axis] = kiln_dim_constant(0);
  for (uint32_t r = 0; r < node->result_count; r++) {
    draft = rewrite_draft(rw, node);
    draft.type = rw->source->types[node->first_result + r];
    starts[axis] = limits[axis];
    if (!kiln_dim_add(rw->arena, starts[axis], draft.type.dims[axis], &limits[axis])) return false;
    kiln_attr_value_t attrs[] = {attr_dims(KILN_ATTR_starts, starts, type.rank),
                                 attr_dims(KILN_ATTR_limits, limits, type.rank)};
    draft_set(rw, &draft, KILN_OP_slice, &whole, 1, attrs, 2);
    rw->map[node->first_result + r] = simplify(rw, &draft);
  }
  rw->context->applied++;
  return true;
}

const kiln_graph_t *kiln_pass_simplify(kiln_pass_context_t *context, const kiln_graph_t *graph) {
  rewrite_t rw = rewrite_begin(context, graph);
  for (uint32_t n = 0; n < graph->node_count; n++) {
    const kiln_node_t *node = &graph->nodes[n];
    if (node->op == KILN_OP_split && split_to_slices(&rw, node)) continue;
    if (node->result_count != 1) {
      rewrite_copy(&rw, node);
      continue;
    }
    draft_t draft = rewrite_draft(&rw, node);
    rw.map[node->first_result] = simplify(&rw, &draft);
  }
  return rewrite_finish(&rw);
}
