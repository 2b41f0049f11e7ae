/* ir/verify.h: the specification of a graph: one message per rule.
 *
 * Runs on everything that comes from outside and after every pass. Re-infers every shape and dtype, so that
 * nothing a sender claims is believed. What depends on the values of symbols becomes a constraint, checked at
 * execution.
 */
#ifndef KILN_IR_VERIFY_H
#define KILN_IR_VERIFY_H

#include "ir/graph.h"

/* Holds when left >= right; `equal` when it must be equal. message says what it means, for the error at
 * execution. */
typedef struct {
  kiln_dim_t left, right;
  bool equal;
  const char *message;
} kiln_constraint_t;

typedef struct {
  kiln_constraint_t *items;
  size_t count, capacity;
} kiln_constraints_t;

/* INVALID_GRAPH with details node, op, rule (and line) when the graph breaks a rule; TOO_LARGE when a size
 * leaves 64 bits. out_constraints may be NULL. */
kiln_status_t kiln_graph_verify(kiln_arena_t *arena, const kiln_graph_t *graph,
                                kiln_constraints_t *out_constraints);

/* The result types of one op on operands of these types (NULL for an absent one); used by the verifier and by
 * passes. results has room for kiln_shape_result_count results. INVALID_GRAPH when a rule refuses. */
kiln_status_t kiln_shape_result_count(kiln_op_t op, const kiln_attr_value_t *attrs, uint32_t attr_count,
                                      uint32_t *out_count);
kiln_status_t kiln_shape_infer(kiln_arena_t *arena, kiln_op_t op, const kiln_type_t *const *operands,
                               uint32_t operand_count, const kiln_attr_value_t *attrs, uint32_t attr_count,
                               kiln_type_t *results, uint32_t result_count,
                               kiln_constraints_t *out_constraints);

/* Symbols' values against the constraints and sizes of a verified graph: INVALID_ARGUMENT names the one that
 * fails. */
kiln_status_t kiln_constraints_check(const kiln_constraints_t *constraints, const int64_t *symbols);

#endif
