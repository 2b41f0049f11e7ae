/* codegen/lower.h: from the nodes of a group to expressions: each value at an index becomes one scalar.
 *
 * Lowering walks back from what is stored to what is read, with one index expression per dimension, through
 * all views. It is called once per store by the element-wise family; reductions and contractions will call it
 * for what they read.
 */
#ifndef KILN_CODEGEN_LOWER_H
#define KILN_CODEGEN_LOWER_H

#include "codegen/scalar.h"

/* A value at an index, wanted where guard holds (its components are in range there). */
typedef struct {
  kiln_value_id_t value;
  kiln_expr_id_t guard;
  kiln_expr_id_t index[KILN_MAX_RANK];
} kiln_request_t;

typedef struct kiln_lowering kiln_lowering_t;

kiln_lowering_t *kiln_lowering_create(kiln_kernel_t *kernel, const kiln_grouping_t *grouping,
                                      const kiln_group_t *group);

/* Reductions of rows that are not spelled out become REDUCEs over this axis, the last of the region's; all of
 * them must have its extent. Without a row there may be none. */
void kiln_lowering_set_row(kiln_lowering_t *lowering, uint32_t axis);
/* The scalar of a request. TOO_LARGE when the group would read or compute more elements per element than is
 * sensible. */
kiln_status_t kiln_lower(kiln_lowering_t *lowering, const kiln_request_t *request,
                         kiln_expr_id_t *out_scalar);
/* Where the element of a stored value at this index goes: the buffer and the offset. */
kiln_kernel_store_t kiln_lower_store(kiln_lowering_t *lowering, const kiln_store_t *store,
                                     const kiln_expr_id_t *index);

/* -- index maps of views (lower_views.c)
 * -------------------------------------------------------------------------------- */

/* Is the node a view that reads one element of its operand for each of its own, wherever it is? */
bool kiln_view_is_index_map(kiln_op_t op);
/* The index into the operand of such a view: result number `result` at `index`. */
void kiln_view_index(kiln_kernel_t *kernel, const kiln_node_t *node, uint32_t result,
                     const kiln_expr_id_t *index, kiln_expr_id_t *out_index);
/* For pad: the index into the operand, and the condition under which there is one. */
kiln_expr_id_t kiln_view_pad(kiln_kernel_t *kernel, const kiln_node_t *node, const kiln_expr_id_t *index,
                             kiln_expr_id_t *out_index);
/* NumPy's broadcasting: the index into an operand of this type, given the index into the result. */
void kiln_view_broadcast(kiln_kernel_t *kernel, const kiln_type_t *operand, uint32_t result_rank,
                         const kiln_expr_id_t *index, kiln_expr_id_t *out_index);
/* sum of index[i] * strides[i] */
kiln_expr_id_t kiln_view_linear(kiln_kernel_t *kernel, uint32_t rank, const kiln_expr_id_t *index,
                                const kiln_dim_t *strides);
/* An axis attribute, negative or not, as 0 .. rank - 1. */
uint32_t kiln_view_axis(int64_t dim, uint32_t rank);

#endif
