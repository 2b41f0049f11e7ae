/* codegen/scalar.c: scalar expressions that say no more than they must: a selection that is decided is no
 * selection, a load that is never done is 0, a cast to the same dtype is its operand. Called through
 * scalar.h.
 */
#include "codegen/scalar.h"

kiln_expr_id_t kiln_scalar_constant(kiln_kernel_t *kernel, kiln_dtype_t dtype, uint64_t bits) {
  return kiln_kernel_intern(kernel, (kiln_expr_t){.kind = KILN_EXPR_CONSTANT, .dtype = dtype, .bits = bits});
}

kiln_expr_id_t kiln_scalar_position(kiln_kernel_t *kernel, kiln_expr_id_t index) {
  kiln_dim_t value;
  if (kiln_index_is_constant(kernel, index, &value) && kiln_dim_is_constant(value)) {
    return kiln_scalar_constant(kernel, KILN_DTYPE_i64, (uint64_t)value.constant);
  }
  return kiln_kernel_intern(kernel, (kiln_expr_t){.kind = KILN_EXPR_POSITION,
                                                  .dtype = KILN_DTYPE_i64,
                                                  .operand_count = 1,
                                                  .operands = &index});
}

kiln_expr_id_t kiln_scalar_load(kiln_kernel_t *kernel, uint32_t buffer, kiln_expr_id_t offset,
                                kiln_expr_id_t guard) {
  kiln_dtype_t dtype = kernel->buffers[buffer].dtype;
  const kiln_expr_id_t operands[] = {offset, guard};
  if (kiln_condition_is_false(kernel, guard)) return kiln_scalar_constant(kernel, dtype, 0);
  return kiln_kernel_intern(
      kernel,
      (kiln_expr_t){
          .kind = KILN_EXPR_LOAD, .dtype = dtype, .bits = buffer, .operand_count = 2, .operands = operands});
}

kiln_expr_id_t kiln_scalar_select(kiln_kernel_t *kernel, kiln_expr_id_t condition, kiln_expr_id_t a,
                                  kiln_expr_id_t b) {
  const kiln_expr_id_t operands[] = {condition, a, b};
  if (a == b || kiln_condition_is_true(kernel, condition)) return a;
  if (kiln_condition_is_false(kernel, condition)) return b;
  return kiln_kernel_intern(kernel, (kiln_expr_t){.kind = KILN_EXPR_SELECT,
                                                  .dtype = kernel->exprs[a].dtype,
                                                  .operand_count = 3,
                                                  .operands = operands});
}

kiln_expr_id_t kiln_scalar_op(kiln_kernel_t *kernel, kiln_op_t op, kiln_dtype_t dtype,
                              const kiln_expr_id_t *operands, uint32_t operand_count, uint32_t node) {
  bool converts = op == KILN_OP_cast || op == KILN_OP_bitcast;
  bool has_attrs = !converts && kiln_op_info(op)->attr_count > 0;
  if (converts && kernel->exprs[operands[0]].dtype == dtype) return operands[0];
  return kiln_kernel_intern(kernel, (kiln_expr_t){.kind = KILN_EXPR_OP,
                                                  .dtype = dtype,
                                                  .op = op,
                                                  .bits = has_attrs ? (uint64_t)node + 1 : 0,
                                                  .operand_count = operand_count,
                                                  .operands = operands});
}

kiln_expr_id_t kiln_scalar_reduce(kiln_kernel_t *kernel, kiln_op_t op, kiln_dtype_t dtype,
                                  kiln_expr_id_t operand) {
  return kiln_kernel_intern(
      kernel,
      (kiln_expr_t){
          .kind = KILN_EXPR_REDUCE, .dtype = dtype, .op = op, .operand_count = 1, .operands = &operand});
}

uint32_t kiln_scalar_op_node(const kiln_expr_t *expr) {
  return expr->bits ? (uint32_t)(expr->bits - 1) : KILN_NO_NODE;
}
