/* codegen/rows.c: from a group with reductions to a region with a row axis.
 *
 * One reduction of the group says what a row is: the points of its operand along the reduced axes, as one
 * axis. The region has an axis for each axis that is kept, and the row. A stored value either has the kept
 * shape, one element per row, or the whole one, up to views that only rearrange; anything else is refused, as
 * is a reduction along other axes. Called by codegen.c for groups of the kind "rows", and by grouping to ask.
 */
#include "codegen/rows.h"
#include "codegen/elementwise.h"
#include "codegen/lower.h"
#include "codegen/lower_reduce.h"
#include "codegen/schedule.h"

#include <string.h>

enum { MOST_VIEWS = 16 /* looked through behind a reduction */ };

typedef struct {
  kiln_kernel_t *kernel;
  const kiln_group_t *group;
  kiln_lowering_t *lowering;
  kiln_reduced_t row;
  kiln_region_t region;
  kiln_expr_id_t whole[KILN_MAX_RANK]; /* a point of the source */
} builder_t;

bool kiln_rows_accepts(const kiln_graph_t *graph, uint32_t node) {
  return kiln_node_reduces(&graph->nodes[node]) || kiln_elementwise_accepts(graph, node);
}

/* --- the domain ---------------------------------------------------------------------------------------- */

/* The first reduction that is not spelled out; NULL when there is none. */
static const kiln_node_t *leader(const kiln_graph_t *graph, const kiln_group_t *group) {
  uint32_t points;
  for (uint32_t i = 0; i < group->node_count; i++) {
    const kiln_node_t *node = &graph->nodes[group->nodes[i]];
    if (kiln_node_reduces(node) && !kiln_reduce_is_inline(graph, node, &points)) return node;
  }
  return NULL;
}

static void make_axes(builder_t *b, const kiln_node_t *node) {
  kiln_kernel_t *kernel = b->kernel;
  b->row = kiln_reduced_of(kernel, node);
  const kiln_type_t *source = b->row.source;
  uint32_t *axes = KILN_NEW_ARRAY(kernel->arena, uint32_t, KILN_MAX_RANK + 1);
  kiln_expr_id_t kept[KILN_MAX_RANK];
  uint32_t count = 0;
  for (uint32_t i = 0; i < source->rank; i++) {
    kept[i] = kiln_index_constant(kernel, kiln_dim_constant(0));
    if (b->row.axes >> i & 1 || kiln_dim_is(source->dims[i], 1)) continue;
    axes[count] = kiln_kernel_axis(kernel, source->dims[i], 1);
    kept[i] = kiln_index_axis(kernel, axes[count++]);
  }
  axes[count] = kiln_kernel_axis(kernel, b->row.count, 1);
  kiln_lowering_set_row(b->lowering, axes[count]);
  kiln_reduced_t whole = b->row;
  whole.keeps_axes = true;
  kiln_reduce_index(kernel, &whole, kept, kiln_index_axis(kernel, axes[count]), b->whole);
  b->region = (kiln_region_t){.axes = axes, .axis_count = count + 1, .lanes = 1, .has_row = true};
}

/* --- stores -------------------------------------------------------------------------------------------- */

/* Does the type have the source's sizes, but for those of size 1? Only the kept ones, when `kept`. Gives its
 * index. */
static bool matches(const builder_t *b, const kiln_type_t *type, bool kept, kiln_expr_id_t *out_index) {
  const kiln_type_t *source = b->row.source;
  uint32_t next = 0;
  for (uint32_t i = 0; i < type->rank; i++)
    out_index[i] = kiln_index_constant(b->kernel, kiln_dim_constant(0));
  for (uint32_t i = 0; i < source->rank; i++) {
    if ((kept && b->row.axes >> i & 1) || kiln_dim_is(source->dims[i], 1)) continue;
    while (next < type->rank && kiln_dim_is(type->dims[next], 1)) next++;
    if (next == type->rank || !kiln_dim_equal(type->dims[next], source->dims[i])) return false;
    out_index[next++] = b->whole[i];
  }
  while (next < type->rank && kiln_dim_is(type->dims[next], 1)) next++;
  return next == type->rank;
}

/* The position in row-major order of a point of this type, as an index into another type of as many elements.
 */
static void renumber(builder_t *b, const kiln_type_t *from, const kiln_expr_id_t *index,
                     const kiln_type_t *to, kiln_expr_id_t *out_index) {
  kiln_dim_t strides[KILN_MAX_RANK];
  if (!kiln_type_strides(b->kernel->arena, from, strides)) b->kernel->overflowed = true;
  kiln_expr_id_t position = kiln_view_linear(b->kernel, from->rank, index, strides);
  for (uint32_t i = to->rank; i-- > 0;) {
    out_index[i] = i ? kiln_index_mod(b->kernel, position, to->dims[i]) : position;
    if (i) position = kiln_index_div(b->kernel, position, to->dims[i]);
  }
}

/* The type of the points of rows (kept: of rows), and one of them. */
static kiln_type_t domain(const builder_t *b, bool kept, kiln_expr_id_t *out_index) {
  kiln_type_t type = {.dtype = b->row.source->dtype};
  for (uint32_t i = 0; i < b->row.source->rank; i++) {
    if (kept && b->row.axes >> i & 1) continue;
    out_index[type.rank] = b->whole[i];
    type.dims[type.rank++] = b->row.source->dims[i];
  }
  return type;
}

/* A type with as many elements as there are points or rows. */
static bool matches_in_order(builder_t *b, const kiln_type_t *type, bool kept, kiln_expr_id_t *out_index) {
  kiln_expr_id_t index[KILN_MAX_RANK];
  kiln_type_t all = domain(b, kept, index);
  kiln_dim_t wanted, elements;
  if (!kiln_type_elements(b->kernel->arena, &all, &wanted) ||
      !kiln_type_elements(b->kernel->arena, type, &elements))
    return false;
  if (!kiln_dim_equal(wanted, elements)) return false;
  renumber(b, &all, index, type, out_index);
  return true;
}

static bool only_rearranges(const kiln_node_t *node) {
  return node && (node->op == KILN_OP_reshape || node->op == KILN_OP_permute || node->op == KILN_OP_squeeze ||
                  node->op == KILN_OP_broadcast);
}

/* The index into the result of such a view for one into its operand. */
static void index_behind(builder_t *b, const kiln_node_t *view, kiln_expr_id_t *index) {
  const kiln_type_t *from = &b->kernel->graph->types[view->operands[0]];
  const kiln_type_t *to = &b->kernel->graph->types[view->first_result];
  kiln_expr_id_t before[KILN_MAX_RANK];
  memcpy(before, index, sizeof before);
  if (view->op != KILN_OP_permute) {
    renumber(b, from, before, to, index);
    return;
  }
  const kiln_attr_value_t *dims = kiln_node_attr(view, KILN_ATTR_dims);
  for (uint32_t i = 0; i < to->rank; i++) index[i] = before[kiln_view_axis(dims->list.integers[i], to->rank)];
}

/* The index of a stored value at the region's point: found where it, or what views rearrange to it, has a
 * shape that is known. The value nearest to the reduction counts: a square one has either shape. */
static bool find_index(builder_t *b, kiln_value_id_t stored, kiln_expr_id_t *out_index) {
  const kiln_graph_t *graph = b->kernel->graph;
  const kiln_node_t *views[MOST_VIEWS], *node = NULL;
  kiln_expr_id_t index[KILN_MAX_RANK];
  uint32_t count = 0, found = UINT32_MAX;
  for (kiln_value_id_t value = stored; count < MOST_VIEWS; value = node->operands[0]) {
    const kiln_type_t *type = &graph->types[value];
    if (matches(b, type, true, index) || matches(b, type, false, index)) {
      memcpy(out_index, index, sizeof index);
      found = count;
    }
    node = kiln_graph_producer(graph, value);
    if (!only_rearranges(node)) break;
    views[count++] = node;
  }
  if (found == UINT32_MAX) {
    const kiln_type_t *type = &graph->types[stored];
    return matches_in_order(b, type, true, out_index) || matches_in_order(b, type, false, out_index);
  }
  while (found > 0) index_behind(b, views[--found], out_index);
  return true;
}

static kiln_status_t lower_stores(builder_t *b) {
  kiln_kernel_t *kernel = b->kernel;
  kiln_kernel_store_t *stores = KILN_NEW_ARRAY(kernel->arena, kiln_kernel_store_t, b->group->store_count);
  for (uint32_t i = 0; i < b->group->store_count; i++) {
    const kiln_store_t *store = &b->group->stores[i];
    kiln_request_t request = {.value = store->value, .guard = kiln_condition_true(kernel)};
    kiln_expr_id_t value;
    if (!find_index(b, store->value, request.index))
      return kiln_error(KILN_UNSUPPORTED, "a result has neither the shape of rows nor one element per row");
    KILN_TRY(kiln_lower(b->lowering, &request, &value));
    stores[i] = kiln_lower_store(b->lowering, store, request.index);
    stores[i].value = value;
  }
  b->region.stores = stores;
  b->region.store_count = b->group->store_count;
  return NULL;
}

/* The region of a group with a leader, as it was lowered. */
static kiln_status_t build(builder_t *b, const kiln_node_t *node, const kiln_grouping_t *grouping) {
  b->lowering = kiln_lowering_create(b->kernel, grouping, b->group);
  make_axes(b, node);
  return lower_stores(b);
}

/* --- the family ---------------------------------------------------------------------------------------- */

/* Kept axes that all see as one become one; the row stays by itself. */
static kiln_region_t schedule(builder_t *b, const kiln_codegen_context_t *context) {
  kiln_kernel_t *kernel = b->kernel;
  uint32_t row = b->region.axes[b->region.axis_count - 1];
  kiln_region_t region = b->region;
  region.axis_count--;
  region = kiln_schedule_merge(kernel, region);
  uint32_t *axes = KILN_NEW_ARRAY(kernel->arena, uint32_t, region.axis_count + 1);
  memcpy(axes, region.axes, region.axis_count * sizeof *axes);
  axes[region.axis_count++] = row;
  region.axes = axes;
  return kiln_schedule_vectorize(kernel, region, context);
}

const char *kiln_rows_refuses(kiln_arena_t *arena, const kiln_graph_t *graph, const kiln_group_t *group) {
  const kiln_node_t *node = leader(graph, group);
  if (!node) return "it has no reduction";
  kiln_grouping_t nowhere = {.storage = KILN_NEW_ARRAY(arena, kiln_buffer_ref_t, graph->value_count)};
  builder_t b = {.kernel = kiln_kernel_create(arena, graph), .group = group};
  kiln_status_t status = build(&b, node, &nowhere);
  if (!status) return NULL;
  const char *reason = kiln_arena_strdup(arena, kiln_status_message(status));
  kiln_status_free(status);
  return reason;
}

kiln_status_t kiln_rows_generate(kiln_arena_t *arena, const kiln_graph_t *graph,
                                 const kiln_grouping_t *grouping, const kiln_group_t *group,
                                 const kiln_codegen_context_t *context, kiln_kernel_source_t *out_kernel) {
  const kiln_node_t *node = leader(graph, group);
  if (!node) return kiln_elementwise_generate(arena, graph, grouping, group, context, out_kernel);
  builder_t b = {.kernel = kiln_kernel_create(arena, graph), .group = group};
  KILN_TRY(build(&b, node, grouping));
  kiln_region_t region = schedule(&b, context);
  kiln_emitter_t emitter = {.kernel = b.kernel, .group = group, .context = context};
  kiln_emit_begin(&emitter);
  *out_kernel = (kiln_kernel_source_t){.entry = "kiln_rows"};
  kiln_rows_emit(&emitter, &region, out_kernel);
  KILN_TRY(kiln_emit_finish(&emitter, grouping, out_kernel));
  if (b.kernel->overflowed) return kiln_error(KILN_TOO_LARGE, "an offset of a kernel leaves 64 bits");
  return NULL;
}
