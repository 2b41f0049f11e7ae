/* codegen/lower_reduce.h: what lowering asks of reductions and normalizations.
 *
 * Either kind of node folds a row, the points of its operand along the reduced axes. A row of few points is
 * lowered point by point to a balanced tree of operations; any other to a REDUCE over the row axis of the
 * kernel. A composite becomes folds and operations of its arithmetic type, rounded once. Called by lower.c.
 */
#ifndef KILN_CODEGEN_LOWER_REDUCE_H
#define KILN_CODEGEN_LOWER_REDUCE_H

#include "codegen/scalar.h"

enum { KILN_MOST_INLINE_POINTS = 16 };

/* What a node folds. */
typedef struct {
  const kiln_type_t *source; /* of its operand */
  uint32_t axes;             /* bit a is set when axis a of the source is reduced */
  bool keeps_axes;           /* the result has them too: whole, or with size 1 */
  kiln_dim_t count;          /* points of a row */
} kiln_reduced_t;

/* Is the node a reduction or a normalization? */
bool kiln_node_reduces(const kiln_node_t *node);
/* Bit a is set when axis a of its operand, of this rank, is reduced. */
uint32_t kiln_reduce_axes(const kiln_node_t *node, uint32_t rank);
kiln_reduced_t kiln_reduced_of(kiln_kernel_t *kernel, const kiln_node_t *node);
/* Does a row have a constant number of points, few enough to be spelled out? */
bool kiln_reduce_is_inline(const kiln_graph_t *graph, const kiln_node_t *node, uint32_t *out_points);
/* The index into the operand of the point at this position of the row, for a result at `index`. */
void kiln_reduce_index(kiln_kernel_t *kernel, const kiln_reduced_t *reduced, const kiln_expr_id_t *index,
                       kiln_expr_id_t position, kiln_expr_id_t *out_index);
/* The index into gamma and beta: that of the normalized axes. */
void kiln_reduce_affine_index(const kiln_reduced_t *reduced, const kiln_expr_id_t *index,
                              kiln_expr_id_t *out_index);
/* The scalar of a result. points: the operand at each of `point_count` points of the row; KILN_ROW: one, at
 * the row axis. others: of a normalization, the operand at the result's own index and those operands that are
 * there of gamma and beta. */
#define KILN_ROW UINT32_MAX
kiln_expr_id_t kiln_reduce_build(kiln_kernel_t *kernel, const kiln_node_t *node, const kiln_expr_id_t *points,
                                 uint32_t point_count, const kiln_expr_id_t *others);

#endif
