/* codegen/index.h: making index expressions and conditions that are as simple as their ranges allow.
 *
 * All take and give LINEAR (or ALL) expressions of one kernel's pool. Symbols are unknown integers >= 0; an
 * extent or divisor that could be 0 is taken as >= 1, since nothing is evaluated where it is not. Called by
 * lowering, scheduling and rewriting. Source of the rules: integer division in floor form, (d*a + r) / d = a
 * + r / d for 0 <= r < d.
 */
#ifndef KILN_CODEGEN_INDEX_H
#define KILN_CODEGEN_INDEX_H

#include "ir/kernel.h"

kiln_expr_id_t kiln_index_constant(kiln_kernel_t *kernel, kiln_dim_t value);
kiln_expr_id_t kiln_index_axis(kiln_kernel_t *kernel, uint32_t axis);
kiln_expr_id_t kiln_index_add(kiln_kernel_t *kernel, kiln_expr_id_t a, kiln_expr_id_t b);
/* a + factor * b */
kiln_expr_id_t kiln_index_add_scaled(kiln_kernel_t *kernel, kiln_expr_id_t a, kiln_dim_t factor,
                                     kiln_expr_id_t b);
/* The operand must be >= 0 wherever the result is evaluated. */
kiln_expr_id_t kiln_index_div(kiln_kernel_t *kernel, kiln_expr_id_t a, kiln_dim_t divisor);
kiln_expr_id_t kiln_index_mod(kiln_kernel_t *kernel, kiln_expr_id_t a, kiln_dim_t divisor);
/* An integer scalar, clamped to [0, extent - 1]. */
kiln_expr_id_t kiln_index_clamped(kiln_kernel_t *kernel, kiln_expr_id_t scalar, kiln_dim_t extent);
/* a = divisor * quotient + rest, where the quotient takes every term that the divisor divides. True when 0 <=
 * rest < divisor is proven, so that the two are a / divisor and a % divisor, for negative `a` as well
 * (rounded down). */
bool kiln_index_split(kiln_kernel_t *kernel, kiln_expr_id_t a, kiln_dim_t divisor,
                      kiln_expr_id_t *out_quotient, kiln_expr_id_t *out_rest);
bool kiln_index_is_constant(const kiln_kernel_t *kernel, kiln_expr_id_t index, kiln_dim_t *out_value);
/* Is 0 <= index < extent proven? */
bool kiln_index_is_within(kiln_kernel_t *kernel, kiln_expr_id_t index, kiln_dim_t extent);

kiln_expr_id_t kiln_condition_true(kiln_kernel_t *kernel);
bool kiln_condition_is_true(const kiln_kernel_t *kernel, kiln_expr_id_t condition);
bool kiln_condition_is_false(const kiln_kernel_t *kernel, kiln_expr_id_t condition);
/* index >= bound; index < bound */
kiln_expr_id_t kiln_condition_at_least(kiln_kernel_t *kernel, kiln_expr_id_t index, kiln_dim_t bound);
kiln_expr_id_t kiln_condition_below(kiln_kernel_t *kernel, kiln_expr_id_t index, kiln_dim_t bound);
kiln_expr_id_t kiln_condition_and(kiln_kernel_t *kernel, kiln_expr_id_t a, kiln_expr_id_t b);
/* What is left to decide of a condition where another one is known to hold. */
kiln_expr_id_t kiln_condition_given(kiln_kernel_t *kernel, kiln_expr_id_t condition, kiln_expr_id_t known);

#endif
