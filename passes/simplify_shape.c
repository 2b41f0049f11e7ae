/* passes/simplify_shape.c: rules for fulls, reshape, permute, expand, and element-wise ops of expanded
 * operands.
 *
 * Part of simplify; see passes/simplify_rules.def for the list and passes/simplify.h for what a rule may do.
 */
#include <string.h>

#include "ir/verify.h"
#include "passes/simplify.h"

bool simplify_empty_result(rewrite_t *rw, draft_t *draft) {
  if (!kiln_type_is_empty(&draft->type) || draft->op == KILN_OP_full) return false;
  return draft_full(rw, draft, number_zero(draft->type.dtype));
}

bool simplify_view_of_full(rewrite_t *rw, draft_t *draft) {
  kiln_number_t number;
  if (draft->operand_count != 1 || !rewrite_match_full(rw, draft->operands[0], &number)) return false;
  if (draft->op == KILN_OP_pad) {
    kiln_number_t fill = number_of_pad(draft_attr(draft, KILN_ATTR_value), draft->type.dtype);
    if (!number_equal(number, fill)) return false;
  }
  return draft_full(rw, draft, number);
}

bool simplify_as_reshape(rewrite_t *rw, draft_t *draft) {
  return draft_reshape(rw, draft, draft->operands[0]);
}

bool simplify_reshape_merge(rewrite_t *rw, draft_t *draft) {
  kiln_value_id_t x = draft->operands[0];
  if (kiln_type_same_shape(rewrite_type(rw, x), &draft->type)) return draft_become(draft, x);
  const kiln_node_t *inner = rewrite_match(rw, x, KILN_OP_reshape);
  return inner && draft_reshape(rw, draft, inner->operands[0]);
}

static bool is_identity(const int64_t *dims, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    if (dims[i] != i) return false;
  }
  return true;
}

bool simplify_permute_merge(rewrite_t *rw, draft_t *draft) {
  kiln_value_id_t x = draft->operands[0];
  const int64_t *outer = draft_attr(draft, KILN_ATTR_dims)->list.integers;
  uint32_t rank = draft->type.rank;
  if (is_identity(outer, rank)) return draft_become(draft, x);
  const kiln_node_t *inner = rewrite_match(rw, x, KILN_OP_permute);
  if (!inner) return false;
  const int64_t *first = kiln_node_attr(inner, KILN_ATTR_dims)->list.integers;
  int64_t both[KILN_MAX_RANK];
  for (uint32_t i = 0; i < rank; i++) both[i] = first[outer[i]];
  kiln_attr_value_t dims = attr_ints(KILN_ATTR_dims, both, rank);
  return draft_set(rw, draft, KILN_OP_permute, &inner->operands[0], 1, &dims, 1);
}

bool simplify_permute_of_ones(rewrite_t *rw, draft_t *draft) {
  const kiln_type_t *type = rewrite_type(rw, draft->operands[0]);
  const int64_t *dims = draft_attr(draft, KILN_ATTR_dims)->list.integers;
  int64_t last = -1;
  for (uint32_t i = 0; i < type->rank; i++) {
    if (kiln_dim_is(type->dims[dims[i]], 1)) continue;
    if (dims[i] < last) return false;
    last = dims[i];
  }
  return draft_reshape(rw, draft, draft->operands[0]);
}

bool simplify_expand_merge(rewrite_t *rw, draft_t *draft) {
  kiln_value_id_t x = draft->operands[0];
  if (kiln_type_same_shape(rewrite_type(rw, x), &draft->type)) return draft_become(draft, x);
  const kiln_node_t *inner = rewrite_match(rw, x, KILN_OP_expand);
  return inner && draft_expand(rw, draft, inner->operands[0]);
}

/* %e = expand(%x: [1,64]) {shape=[32,64]}; sin(%e)   ->   expand(sin(%x)): an element is computed once; where
 * another operand has the axis anyway the expand just goes, since operands broadcast. */
bool simplify_expand_last(rewrite_t *rw, draft_t *draft) {
  kiln_value_id_t *bare = kiln_arena_copy(rw->arena, draft->operands, draft->operand_count * sizeof *bare);
  const kiln_type_t *types[3];
  bool any = false;
  for (uint32_t i = 0; i < draft->operand_count; i++) {
    const kiln_node_t *expand = rewrite_match(rw, bare[i], KILN_OP_expand);
    if (expand) bare[i] = expand->operands[0];
    any |= expand != NULL;
    types[i] = rewrite_type(rw, bare[i]);
  }
  kiln_type_t type;
  if (!any) return false;
  kiln_status_t refused = kiln_shape_infer(rw->arena, draft->op, types, draft->operand_count, draft->attrs,
                                           draft->attr_count, &type, 1, NULL);
  kiln_status_free(refused);
  if (refused) return false;
  if (kiln_type_same_shape(&type, &draft->type)) {
    return draft_set(rw, draft, draft->op, bare, draft->operand_count, draft->attrs, draft->attr_count);
  }
  return draft_expand(
      rw, draft, rewrite_emit(rw, draft->op, bare, draft->operand_count, draft->attrs, draft->attr_count));
}
