/* codegen/rewrite.c: the expressions of a kernel made again with other axes.
 *
 * One loop over the pool in its order, which has operands before their users. An expression below which
 * nothing changed is kept; all others go through the simplifying constructors again, which is what makes a
 * split of an axis worthwhile: a boundary between two tiles is decided in each of them. Called by lowering
 * and scheduling.
 */
#include "codegen/scalar.h"

typedef struct {
  kiln_kernel_t *kernel;
  const kiln_expr_id_t *axes;
  kiln_expr_id_t *made;
  bool *changed;
} rewrite_t;

static kiln_expr_id_t remake_linear(rewrite_t *rewrite, const kiln_expr_t *expr) {
  kiln_kernel_t *kernel = rewrite->kernel;
  kiln_dim_t one[] = {kiln_dim_constant(0), kiln_dim_constant(1)};
  kiln_expr_id_t sum = kiln_index_constant(kernel, expr->dims[0]);
  for (uint32_t i = 0; i < expr->operand_count; i++) {
    kiln_expr_id_t atom = expr->operands[i], term = rewrite->made[atom];
    if (!rewrite->changed[atom]) {
      term = kiln_kernel_intern(
          kernel,
          (kiln_expr_t){
              .kind = KILN_EXPR_LINEAR, .operand_count = 1, .operands = &atom, .dim_count = 2, .dims = one});
    }
    sum = kiln_index_add_scaled(kernel, sum, expr->dims[i + 1], term);
  }
  return sum;
}

static kiln_expr_id_t remake_condition(rewrite_t *rewrite, const kiln_expr_t *expr) {
  kiln_kernel_t *kernel = rewrite->kernel;
  kiln_expr_id_t all = kiln_condition_true(kernel);
  for (uint32_t i = 0; i < expr->operand_count; i++) {
    kiln_expr_id_t index = rewrite->made[expr->operands[i]];
    all = kiln_condition_and(kernel, all, kiln_condition_at_least(kernel, index, kiln_dim_constant(0)));
  }
  return all;
}

static kiln_expr_id_t remake_op(rewrite_t *rewrite, const kiln_expr_t *expr) {
  kiln_expr_id_t *operands = KILN_NEW_ARRAY(rewrite->kernel->arena, kiln_expr_id_t, expr->operand_count);
  for (uint32_t i = 0; i < expr->operand_count; i++) operands[i] = rewrite->made[expr->operands[i]];
  return kiln_scalar_op(rewrite->kernel, expr->op, expr->dtype, operands, expr->operand_count,
                        kiln_scalar_op_node(expr));
}

static kiln_expr_id_t remake(rewrite_t *rewrite, const kiln_expr_t *expr) {
  kiln_kernel_t *kernel = rewrite->kernel;
  kiln_expr_id_t operands[3] = {0};
  for (uint32_t i = 0; i < 3 && i < expr->operand_count; i++) operands[i] = rewrite->made[expr->operands[i]];
  switch (expr->kind) {
  case KILN_EXPR_AXIS:
    return rewrite->axes[expr->bits];
  case KILN_EXPR_LINEAR:
    return remake_linear(rewrite, expr);
  case KILN_EXPR_DIV:
    return kiln_index_div(kernel, operands[0], expr->dims[0]);
  case KILN_EXPR_MOD:
    return kiln_index_mod(kernel, operands[0], expr->dims[0]);
  case KILN_EXPR_CLAMPED:
    return kiln_index_clamped(kernel, operands[0], expr->dims[0]);
  case KILN_EXPR_ALL:
    return remake_condition(rewrite, expr);
  case KILN_EXPR_LOAD:
    return kiln_scalar_load(kernel, (uint32_t)expr->bits, operands[0], operands[1]);
  case KILN_EXPR_POSITION:
    return kiln_scalar_position(kernel, operands[0]);
  case KILN_EXPR_SELECT:
    return kiln_scalar_select(kernel, operands[0], operands[1], operands[2]);
  case KILN_EXPR_OP:
    return remake_op(rewrite, expr);
  case KILN_EXPR_REDUCE:
    return kiln_scalar_reduce(kernel, expr->op, expr->dtype, operands[0]);
  case KILN_EXPR_CONSTANT:
    break;
  }
  __builtin_unreachable(); /* a constant has no operand that could change */
}

kiln_expr_id_t *kiln_rewrite(kiln_kernel_t *kernel, const kiln_expr_id_t *axes, kiln_expr_id_t first,
                             const bool *marked) {
  size_t count = kernel->expr_count;
  rewrite_t rewrite = {kernel, axes, KILN_NEW_ARRAY(kernel->arena, kiln_expr_id_t, count),
                       KILN_NEW_ARRAY(kernel->arena, bool, count)};
  for (kiln_expr_id_t i = 0; i < count; i++) rewrite.made[i] = i;
  for (kiln_expr_id_t i = first; i < count; i++) {
    const kiln_expr_t *expr = &kernel->exprs[i];
    if (marked && !marked[i]) continue;
    bool changes = expr->kind == KILN_EXPR_AXIS && axes[expr->bits] != KILN_SAME_AXIS;
    for (uint32_t k = 0; k < expr->operand_count; k++) changes |= rewrite.changed[expr->operands[k]];
    if (!changes) continue;
    rewrite.changed[i] = true;
    rewrite.made[i] = remake(&rewrite, expr);
  }
  return rewrite.made;
}
