/* codegen/condition.c: conditions on indices: sets of "index >= 0", all of which must hold.
 *
 * Each member is divided by what its terms have in common (8*i + j - 64 >= 0 with 0 <= j < 8 is i - 8 >= 0),
 * so that a condition depends on as few axes as it can; members that bounds or other members decide are
 * dropped. A condition that cannot hold is the set of the one member -1 >= 0.
 */
#include "codegen/index.h"

static kiln_expr_id_t make(kiln_kernel_t *kernel, const kiln_expr_id_t *members, uint32_t count) {
  return kiln_kernel_intern(
      kernel, (kiln_expr_t){.kind = KILN_EXPR_ALL, .operand_count = count, .operands = members});
}

static kiln_expr_id_t make_false(kiln_kernel_t *kernel) {
  kiln_expr_id_t never = kiln_index_constant(kernel, kiln_dim_constant(-1));
  return make(kernel, &never, 1);
}

kiln_expr_id_t kiln_condition_true(kiln_kernel_t *kernel) { return make(kernel, NULL, 0); }

bool kiln_condition_is_true(const kiln_kernel_t *kernel, kiln_expr_id_t condition) {
  return kernel->exprs[condition].operand_count == 0;
}

bool kiln_condition_is_false(const kiln_kernel_t *kernel, kiln_expr_id_t condition) {
  const kiln_expr_t *expr = &kernel->exprs[condition];
  kiln_dim_t value;
  return expr->operand_count == 1 && kiln_index_is_constant(kernel, expr->operands[0], &value) &&
         kiln_dim_is(value, -1);
}

/* For g > 0 and 0 <= r < g, g*a + r >= 0 is a >= 0. */
static kiln_expr_id_t divide_out(kiln_kernel_t *kernel, kiln_expr_id_t index) {
  for (uint32_t i = 1; i < kernel->exprs[index].dim_count; i++) {
    kiln_dim_t factor = kernel->exprs[index].dims[i], zero = kiln_dim_constant(0);
    kiln_expr_id_t quotient, rest;
    if (!kiln_dim_provably_ge(factor, zero)) factor = kiln_kernel_dim_sub(kernel, zero, factor);
    if (kiln_dim_is(factor, 1) || !kiln_dim_provably_ge(factor, zero)) continue;
    if (!kiln_index_split(kernel, index, factor, &quotient, &rest)) continue;
    index = quotient;
    i = 0;
  }
  return index;
}

static kiln_expr_id_t not_negative(kiln_kernel_t *kernel, kiln_expr_id_t index) {
  index = divide_out(kernel, index);
  const kiln_expr_t *expr = &kernel->exprs[index];
  if (expr->bounded && kiln_dim_provably_ge(expr->lower, kiln_dim_constant(0)))
    return kiln_condition_true(kernel);
  if (expr->bounded && kiln_dim_provably_ge(kiln_dim_constant(-1), expr->upper)) return make_false(kernel);
  return make(kernel, &index, 1);
}

kiln_expr_id_t kiln_condition_at_least(kiln_kernel_t *kernel, kiln_expr_id_t index, kiln_dim_t bound) {
  kiln_expr_id_t limit = kiln_index_constant(kernel, bound);
  return not_negative(kernel, kiln_index_add_scaled(kernel, index, kiln_dim_constant(-1), limit));
}

kiln_expr_id_t kiln_condition_below(kiln_kernel_t *kernel, kiln_expr_id_t index, kiln_dim_t bound) {
  kiln_dim_t last = kiln_kernel_dim_sub(kernel, bound, kiln_dim_constant(1));
  kiln_expr_id_t limit = kiln_index_constant(kernel, last);
  return not_negative(kernel, kiln_index_add_scaled(kernel, limit, kiln_dim_constant(-1), index));
}

/* a + factor * b >= 0 for a constant sum, decided where it can be. */
static bool constant_sum_at_least(kiln_kernel_t *kernel, kiln_expr_id_t a, int64_t factor, kiln_expr_id_t b,
                                  bool *out) {
  kiln_dim_t value;
  kiln_expr_id_t sum = kiln_index_add_scaled(kernel, a, kiln_dim_constant(factor), b);
  if (!kiln_index_is_constant(kernel, sum, &value)) return false;
  *out = kiln_dim_provably_ge(value, kiln_dim_constant(0));
  return *out || kiln_dim_provably_ge(kiln_dim_constant(-1), value);
}

typedef enum { UNDECIDED, IMPLIED, CONTRADICTED } verdict_t;

/* What `known` >= 0 says about `index` >= 0. */
static verdict_t judge(kiln_kernel_t *kernel, kiln_expr_id_t known, kiln_expr_id_t index) {
  bool holds;
  if (constant_sum_at_least(kernel, index, -1, known, &holds) && holds) return IMPLIED;
  if (constant_sum_at_least(kernel, index, 1, known, &holds) && !holds) return CONTRADICTED;
  return UNDECIDED;
}

kiln_expr_id_t kiln_condition_given(kiln_kernel_t *kernel, kiln_expr_id_t condition, kiln_expr_id_t known) {
  const kiln_expr_t *members = &kernel->exprs[condition], *facts = &kernel->exprs[known];
  kiln_expr_id_t *left = KILN_NEW_ARRAY(kernel->arena, kiln_expr_id_t, members->operand_count);
  uint32_t count = 0;
  if (kiln_condition_is_false(kernel, condition)) return condition;
  for (uint32_t i = 0; i < members->operand_count; i++) {
    verdict_t verdict = UNDECIDED;
    for (uint32_t k = 0; k < facts->operand_count && verdict == UNDECIDED; k++) {
      verdict = judge(kernel, facts->operands[k], members->operands[i]);
    }
    if (verdict == CONTRADICTED) return make_false(kernel);
    if (verdict == UNDECIDED) left[count++] = members->operands[i];
  }
  return make(kernel, left, count);
}

/* Both, as one ascending set in which no member implies another. */
kiln_expr_id_t kiln_condition_and(kiln_kernel_t *kernel, kiln_expr_id_t a, kiln_expr_id_t b) {
  if (kiln_condition_is_false(kernel, a) || kiln_condition_is_true(kernel, b)) return a;
  b = kiln_condition_given(kernel, b, a);
  if (kiln_condition_is_false(kernel, b)) return b;
  a = kiln_condition_given(kernel, a, b);
  const kiln_expr_t *left = &kernel->exprs[a], *right = &kernel->exprs[b];
  kiln_expr_id_t *members =
      KILN_NEW_ARRAY(kernel->arena, kiln_expr_id_t, left->operand_count + right->operand_count);
  uint32_t count = 0;
  for (uint32_t i = 0, k = 0; i < left->operand_count || k < right->operand_count;) {
    bool take_left =
        k == right->operand_count || (i < left->operand_count && left->operands[i] < right->operands[k]);
    members[count++] = take_left ? left->operands[i++] : right->operands[k++];
  }
  return make(kernel, members, count);
}
