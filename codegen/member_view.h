/* codegen/member_view.h: something read, as it lies in memory: an offset and strides into the tensor that it
 * is a view of. Slices, splits and permutations are no work for a member. Inside codegen/ only.
 */
#ifndef KILN_CODEGEN_MEMBER_VIEW_H
#define KILN_CODEGEN_MEMBER_VIEW_H

#include "codegen/member.h"

/* Offset and strides in elements of the root, whose buffer it is. */
typedef struct {
  kiln_value_id_t root;
  kiln_type_t type;
  kiln_dim_t offset, strides[KILN_MAX_RANK];
} kiln_member_view_t;

/* Of a boundary tensor; NULL: a temporary, dense. */
const kiln_layout_t *kiln_member_layout_of(const kiln_graph_t *graph, kiln_buffer_ref_t ref);
/* The strides that a layout says (NULL: dense). These return false when a number leaves 64 bits. */
bool kiln_member_lay_out(kiln_arena_t *arena, const kiln_type_t *type, const kiln_layout_t *layout,
                         kiln_dim_t *out);
/* The view begins `start` further along an axis of this stride. */
bool kiln_member_view_shift(kiln_arena_t *arena, kiln_member_view_t *view, kiln_dim_t start,
                            kiln_dim_t stride);
/* All of a value; NULL as above. */
kiln_member_view_t *kiln_member_whole_view(kiln_arena_t *arena, const kiln_graph_t *graph,
                                           const kiln_grouping_t *grouping, kiln_value_id_t value);
/* The result of a view of something read; NULL when strides do not say it. */
const kiln_member_view_t *kiln_member_view_of(kiln_arena_t *arena, const kiln_graph_t *graph,
                                              const kiln_node_t *node, uint32_t result,
                                              const kiln_member_view_t *from);

#endif
