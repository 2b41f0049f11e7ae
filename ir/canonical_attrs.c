/* ir/canonical_attrs.c: the canonical spelling of a verified node's attributes: step 1 of canonicalization.
 */
#include "ir/canonical_attrs.h"

#include <assert.h>
#include <string.h>

/* The attributes as they are being rewritten: one place per attribute, so that they come out sorted. */
typedef struct {
  kiln_arena_t *arena;
  const kiln_node_t *node;
  const kiln_type_t *operand; /* the first; NULL when there is none */
  const kiln_type_t *result;
  bool given[KILN_ATTR_COUNT];
  kiln_attr_value_t values[KILN_ATTR_COUNT];
} spelling_t;

static kiln_attr_value_t *give(spelling_t *spelling, kiln_attr_t attr) {
  spelling->given[attr] = true;
  spelling->values[attr] = (kiln_attr_value_t){.attr = attr};
  return &spelling->values[attr];
}

static bool has_rule(const spelling_t *spelling, kiln_attr_t attr) {
  return kiln_op_attr_rule(spelling->node->op, attr) != NULL;
}

static void fill_defaults(spelling_t *spelling) {
  const kiln_op_info_t *info = kiln_op_info(spelling->node->op);
  for (uint32_t i = 0; i < info->attr_count; i++) {
    const kiln_attr_rule_t *rule = &info->attrs[i];
    if (rule->presence != KILN_PRESENCE_DEFAULT || spelling->given[rule->attr]) continue;
    kiln_attr_value_t *value = give(spelling, rule->attr);
    switch (kiln_attr_kind(rule->attr)) {
    case KILN_ATTR_KIND_BOOL:
      value->flag = rule->number != 0;
      break;
    case KILN_ATTR_KIND_FLOAT:
      value->real = rule->number;
      break;
    default:
      value->word = rule->word;
    }
  }
}

/* --- dims ----------------------------------------------------------------------------------------------- */

/* The rank that dims count in: of the result where axes are made, else of the operand. */
static uint32_t rank_of_dims(const spelling_t *spelling) {
  bool makes_axes = spelling->node->op == KILN_OP_iota || spelling->node->op == KILN_OP_broadcast;
  return makes_axes ? spelling->result->rank : spelling->operand->rank;
}

static int64_t resolve(int64_t dim, uint32_t rank) {
  if (!rank) return 0; /* of a scalar: 0 or -1 */
  return dim < 0 ? dim + rank : dim;
}

static void resolve_dim(spelling_t *spelling) {
  uint32_t rank = rank_of_dims(spelling);
  spelling->values[KILN_ATTR_dim].integer = resolve(spelling->values[KILN_ATTR_dim].integer, rank);
  /* Of a scalar, argmax over dim 0 is argmax over everything. */
  if (!rank && kiln_op_info(spelling->node->op)->op_class == KILN_CLASS_REDUCTION)
    spelling->given[KILN_ATTR_dim] = false;
}

static void resolve_dims(spelling_t *spelling) {
  kiln_attr_value_t *dims = &spelling->values[KILN_ATTR_dims];
  uint32_t rank = rank_of_dims(spelling), count = rank ? dims->list.count : 0;
  int64_t *resolved = KILN_NEW_ARRAY(spelling->arena, int64_t, count);
  for (uint32_t i = 0; i < count; i++) {
    int64_t dim = resolve(dims->list.integers[i], rank);
    uint32_t place = i;
    bool is_set = spelling->node->op != KILN_OP_permute;
    for (; is_set && place && resolved[place - 1] > dim; place--) resolved[place] = resolved[place - 1];
    resolved[place] = dim;
  }
  dims->list.integers = resolved;
  dims->list.count = count;
}

static void give_all_dims(spelling_t *spelling) {
  uint32_t rank = spelling->operand->rank;
  int64_t *all = KILN_NEW_ARRAY(spelling->arena, int64_t, rank);
  for (uint32_t i = 0; i < rank; i++) all[i] = i;
  kiln_attr_value_t *dims = give(spelling, KILN_ATTR_dims);
  dims->list.integers = all;
  dims->list.count = rank;
}

/* --- attributes that repeat what is known --------------------------------------------------------------- */

static void write_out_shape(spelling_t *spelling) {
  kiln_attr_value_t *shape = &spelling->values[KILN_ATTR_shape];
  shape->list.dims = spelling->result->dims;
  shape->list.count = spelling->result->rank;
}

static void drop_unit_steps(spelling_t *spelling) {
  const kiln_attr_value_t *steps = &spelling->values[KILN_ATTR_steps];
  bool all_one = true;
  for (uint32_t i = 0; i < steps->list.count; i++) all_one = all_one && steps->list.integers[i] == 1;
  if (all_one) spelling->given[KILN_ATTR_steps] = false;
}

/* A dtype that the result would have anyway. */
static void drop_same_dtype(spelling_t *spelling, kiln_attr_t attr) {
  const kiln_attr_rule_t *rule = kiln_op_attr_rule(spelling->node->op, attr);
  bool optional = rule && rule->presence == KILN_PRESENCE_OPTIONAL;
  if (optional && spelling->given[attr] && spelling->values[attr].dtype == spelling->operand->dtype) {
    spelling->given[attr] = false;
  }
}

static void normalize(spelling_t *spelling) {
  kiln_op_t op = spelling->node->op;
  const bool *given = spelling->given;
  fill_defaults(spelling);
  if (given[KILN_ATTR_dim]) resolve_dim(spelling);
  if (given[KILN_ATTR_dims]) {
    resolve_dims(spelling);
  } else if (has_rule(spelling, KILN_ATTR_dims)) {
    give_all_dims(spelling);
  }
  if (op == KILN_OP_reshape || op == KILN_OP_expand) write_out_shape(spelling);
  if (given[KILN_ATTR_steps]) drop_unit_steps(spelling);
  if (op == KILN_OP_pad && !given[KILN_ATTR_value]) give(spelling, KILN_ATTR_value)->number.is_integer = true;
  drop_same_dtype(spelling, KILN_ATTR_dtype);
  drop_same_dtype(spelling, KILN_ATTR_out);
}

const kiln_attr_value_t *kiln_canonical_attrs(kiln_arena_t *arena, const kiln_graph_t *graph,
                                              const kiln_node_t *node, uint32_t *out_count) {
  spelling_t spelling = {.arena = arena, .node = node, .result = &graph->types[node->first_result]};
  if (node->operand_count) spelling.operand = &graph->types[node->operands[0]];
  for (uint32_t i = 0; i < node->attr_count; i++) *give(&spelling, node->attrs[i].attr) = node->attrs[i];
  normalize(&spelling);
  kiln_attr_value_t *attrs = KILN_NEW_ARRAY(arena, kiln_attr_value_t, kiln_op_info(node->op)->attr_count);
  *out_count = 0;
  for (uint32_t attr = 0; attr < KILN_ATTR_COUNT; attr++) {
    if (spelling.given[attr]) attrs[(*out_count)++] = spelling.values[attr];
  }
  return attrs;
}
