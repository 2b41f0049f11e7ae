/* codegen/member_view.c: what is read, as it lies in memory. See member_view.h. Called by member_walk.c. */
#include "codegen/member_view.h"

#include "codegen/lower.h"

#include <string.h>

const kiln_layout_t *kiln_member_layout_of(const kiln_graph_t *graph, kiln_buffer_ref_t ref) {
  if (ref.kind == KILN_BUFFER_INPUT) return &graph->input_layouts[ref.index];
  return ref.kind == KILN_BUFFER_OUTPUT ? &graph->output_layouts[ref.index] : NULL;
}

bool kiln_member_lay_out(kiln_arena_t *arena, const kiln_type_t *type, const kiln_layout_t *layout,
                         kiln_dim_t *out) {
  if (!layout || !layout->has_strides) return kiln_type_strides(arena, type, out);
  memcpy(out, layout->strides, sizeof layout->strides);
  return true;
}

kiln_member_view_t *kiln_member_whole_view(kiln_arena_t *arena, const kiln_graph_t *graph,
                                           const kiln_grouping_t *grouping, kiln_value_id_t value) {
  kiln_member_view_t *view = KILN_NEW(arena, kiln_member_view_t);
  const kiln_layout_t *layout = NULL;
  *view = (kiln_member_view_t){.root = value, .type = graph->types[value]};
  if (value < graph->input_count)
    layout = &graph->input_layouts[value];
  else if (grouping)
    layout = kiln_member_layout_of(graph, grouping->storage[value]);
  return kiln_member_lay_out(arena, &view->type, layout, view->strides) ? view : NULL;
}

bool kiln_member_view_shift(kiln_arena_t *arena, kiln_member_view_t *view, kiln_dim_t start,
                            kiln_dim_t stride) {
  return kiln_dim_mul(arena, start, stride, &start) &&
         kiln_dim_add(arena, view->offset, start, &view->offset);
}

static bool view_slice(kiln_arena_t *arena, const kiln_node_t *node, kiln_member_view_t *view) {
  const kiln_attr_value_t *starts = kiln_node_attr(node, KILN_ATTR_starts),
                          *steps = kiln_node_attr(node, KILN_ATTR_steps);
  for (uint32_t i = 0; i < view->type.rank; i++) {
    if (!kiln_member_view_shift(arena, view, starts->list.dims[i], view->strides[i])) return false;
    if (!steps) continue;
    kiln_dim_t step = kiln_dim_constant(steps->list.integers[i]);
    if (!kiln_dim_mul(arena, view->strides[i], step, &view->strides[i])) return false;
  }
  return true;
}

static bool view_split(kiln_arena_t *arena, const kiln_graph_t *graph, const kiln_node_t *node,
                       uint32_t result, kiln_member_view_t *view) {
  uint32_t axis = kiln_view_axis(kiln_node_int(node, KILN_ATTR_dim, 0), view->type.rank);
  for (uint32_t i = 0; i < result; i++) {
    if (!kiln_member_view_shift(arena, view, graph->types[node->first_result + i].dims[axis],
                                view->strides[axis]))
      return false;
  }
  return true;
}

static void view_permute(const kiln_node_t *node, kiln_member_view_t *view) {
  const kiln_attr_value_t *dims = kiln_node_attr(node, KILN_ATTR_dims);
  kiln_dim_t strides[KILN_MAX_RANK];
  memcpy(strides, view->strides, sizeof strides);
  for (uint32_t i = 0; i < view->type.rank; i++)
    view->strides[i] = strides[kiln_view_axis(dims->list.integers[i], view->type.rank)];
}

static bool is_dense(kiln_arena_t *arena, const kiln_member_view_t *view) {
  kiln_dim_t dense[KILN_MAX_RANK];
  if (!kiln_type_strides(arena, &view->type, dense)) return false;
  for (uint32_t i = 0; i < view->type.rank; i++) {
    if (!kiln_dim_is(view->type.dims[i], 1) && !kiln_dim_equal(dense[i], view->strides[i])) return false;
  }
  return true;
}

/* The result of a view of something read, as it lies in memory; NULL when strides do not say it. */
const kiln_member_view_t *kiln_member_view_of(kiln_arena_t *arena, const kiln_graph_t *graph,
                                              const kiln_node_t *node, uint32_t result,
                                              const kiln_member_view_t *from) {
  kiln_member_view_t *view = kiln_arena_copy(arena, from, sizeof *view);
  const kiln_type_t *type = &graph->types[node->first_result + result];
  bool is_fine;
  switch (node->op) {
  case KILN_OP_slice:
    is_fine = view_slice(arena, node, view);
    break;
  case KILN_OP_split:
    is_fine = view_split(arena, graph, node, result, view);
    break;
  case KILN_OP_permute:
    view_permute(node, view);
    is_fine = true;
    break;
  case KILN_OP_reshape:
  case KILN_OP_squeeze:
  case KILN_OP_broadcast:
    is_fine = is_dense(arena, view) && kiln_type_strides(arena, type, view->strides);
    break;
  default:
    is_fine = false;
  }
  view->type = *type;
  return is_fine ? view : NULL;
}
