/* codegen/scalar.h: making the scalar expressions of a kernel, and making expressions again with other axes.
 *
 * Scalars are in storage form: a load, a selection or `where` moves bits. Called by lowering and scheduling.
 */
#ifndef KILN_CODEGEN_SCALAR_H
#define KILN_CODEGEN_SCALAR_H

#include "codegen/index.h"

kiln_expr_id_t kiln_scalar_constant(kiln_kernel_t *kernel, kiln_dtype_t dtype, uint64_t bits);
/* The index as an i64. */
kiln_expr_id_t kiln_scalar_position(kiln_kernel_t *kernel, kiln_expr_id_t index);
/* Reads only where guard holds; 0 bits elsewhere. */
kiln_expr_id_t kiln_scalar_load(kiln_kernel_t *kernel, uint32_t buffer, kiln_expr_id_t offset,
                                kiln_expr_id_t guard);
kiln_expr_id_t kiln_scalar_select(kiln_kernel_t *kernel, kiln_expr_id_t condition, kiln_expr_id_t a,
                                  kiln_expr_id_t b);
/* node: its number in the graph, whose attributes are part of the expression where they matter; or
 * KILN_NO_NODE. */
#define KILN_NO_NODE UINT32_MAX
kiln_expr_id_t kiln_scalar_op(kiln_kernel_t *kernel, kiln_op_t op, kiln_dtype_t dtype,
                              const kiln_expr_id_t *operands, uint32_t operand_count, uint32_t node);
/* The reduction of a row of operands; dtype: of the accumulator, or i64 for argmax and argmin. */
kiln_expr_id_t kiln_scalar_reduce(kiln_kernel_t *kernel, kiln_op_t op, kiln_dtype_t dtype,
                                  kiln_expr_id_t operand);
/* The node's number that an OP carries; KILN_NO_NODE when its attributes do not matter. */
uint32_t kiln_scalar_op_node(const kiln_expr_t *expr);

#define KILN_SAME_AXIS UINT32_MAX
/* Makes every expression from `first` on that is marked (NULL: all) again, with axis a replaced by axes[a],
 * an index or KILN_SAME_AXIS. Gives the new id per old one: for an atom the index that takes its place, and
 * ids below `first` as they are. New expressions are simplified as if they had been made so at first. */
kiln_expr_id_t *kiln_rewrite(kiln_kernel_t *kernel, const kiln_expr_id_t *axes, kiln_expr_id_t first,
                             const bool *marked);

#endif
