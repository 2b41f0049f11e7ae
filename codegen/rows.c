/* codegen/rows.c: from a group with reductions to a region with a row axis.
 *
 * One reduction of the group says what a row is: the points of its operand along the reduced axes, as one
 * axis. The region has an axis for each axis that is kept, and the row. A stored value either has the kept
 * shape, one element per row, or the whole one, up to views that only rearrange; anything else is refused, as
 * is a reduction along other axes. Called by codegen.c for groups of the kind "rows".
 */
#include "codegen/rows.h"
#include "codegen/elementwise.h"
#include "codegen/grouped.h"
#include "codegen/lower.h"
#include "codegen/lower_reduce.h"
#include "codegen/reduce_emit.h"
#include "codegen/schedule.h"

#include <string.h>

enum {
  MOST_CHAINS_OF_A_BLOCK = 64, /* of columns_emit.c, where a block has 8 vectors of results */
  MOST_VIEWS = 16,             /* looked through behind a reduction */
  MOST_PARTIAL_REGISTERS = 64, /* of a thread, for reductions of several results */
  LEAST_RESULTS = 128,         /* side by side, for neighbours to exchange parts of their vectors */
};

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

/* Typical numbers of rows, and of points of each. True when rows lie along memory, as graphs have it. */
static bool measure_rows(const kiln_graph_t *graph, const kiln_node_t *node, int64_t *rows, int64_t *length) {
  const kiln_type_t *source = &graph->types[node->operands[0]];
  uint32_t axes = kiln_reduce_axes(node, source->rank);
  *rows = *length = 1;
  for (uint32_t i = 0; i < source->rank; i++) {
    int64_t *product = axes >> i & 1 ? length : rows;
    int64_t size = kiln_rows_typical_length(graph, source->dims[i]);
    if (__builtin_mul_overflow(*product, size, product)) *product = INT64_MAX;
  }
  return source->rank && axes >> (source->rank - 1) & 1;
}

bool kiln_rows_shares(const kiln_graph_t *graph, uint32_t node, const kiln_target_t *target) {
  const kiln_node_t *reduction = &graph->nodes[node];
  int64_t rows, length;
  uint32_t points;
  bool is_one_fold = kiln_op_info(reduction->op)->op_class == KILN_CLASS_REDUCTION &&
                     reduction->op != KILN_OP_var && !kiln_reduce_is_inline(graph, reduction, &points);
  return is_one_fold && measure_rows(graph, reduction, &rows, &length) &&
         kiln_rows_parts(rows, length, target->sm_count) > 1;
}

bool kiln_rows_fills_device(const kiln_graph_t *graph, const kiln_group_t *group,
                            const kiln_target_t *target) {
  const kiln_node_t *node = leader(graph, group);
  int64_t rows, length;
  if (!node) return false;
  if (measure_rows(graph, node, &rows, &length)) return kiln_rows_parts(rows, length, target->sm_count) > 1;
  return kiln_columns_chains(rows, length, target->sm_count) > MOST_CHAINS_OF_A_BLOCK;
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

/* The region with its row as last axis. */
static kiln_region_t with_row(const builder_t *b, kiln_region_t region, uint32_t row) {
  uint32_t *axes = KILN_NEW_ARRAY(b->kernel->arena, uint32_t, region.axis_count + 1);
  memcpy(axes, region.axes, region.axis_count * sizeof *axes);
  axes[region.axis_count++] = row;
  region.axes = axes;
  region.has_row = true;
  return region;
}

/* Without the row. Kept axes that all see as one become one. */
static kiln_region_t merged(const builder_t *b) {
  kiln_region_t region = b->region;
  region.axis_count--;
  region.has_row = false;
  return kiln_schedule_merge(b->kernel, region);
}

static bool steps_along(const builder_t *b, const kiln_expr_t *load, uint32_t axis) {
  const kiln_expr_t *offset = &b->kernel->exprs[load->operands[0]];
  for (uint32_t i = 0; i < offset->operand_count; i++) {
    const kiln_expr_t *atom = &b->kernel->exprs[offset->operands[i]];
    if (atom->kind == KILN_EXPR_AXIS && atom->bits == axis) return kiln_dim_is(offset->dims[i + 1], 1);
  }
  return false;
}

/* Do the loads lie along a kept axis rather than along the row? Gives its position. */
static bool lies_across(const builder_t *b, const kiln_region_t *region, uint32_t row,
                        uint32_t *out_position) {
  const bool *reachable = kiln_region_reachable(b->kernel, region);
  size_t bytes[KILN_MAX_RANK + 1] = {0};
  for (size_t i = 0; i < b->kernel->expr_count; i++) {
    const kiln_expr_t *expr = &b->kernel->exprs[i];
    if (!reachable[i] || expr->kind != KILN_EXPR_LOAD) continue;
    if (steps_along(b, expr, row)) bytes[KILN_MAX_RANK] += kiln_dtype_bytes(expr->dtype);
    for (uint32_t k = 0; k < region->axis_count; k++) {
      if (steps_along(b, expr, region->axes[k])) bytes[k] += kiln_dtype_bytes(expr->dtype);
    }
  }
  *out_position = KILN_MAX_RANK;
  for (uint32_t k = 0; k < region->axis_count; k++) {
    if (bytes[k] > bytes[*out_position]) *out_position = k;
  }
  return *out_position != KILN_MAX_RANK;
}

static bool stores_rows_only(const builder_t *b, uint32_t row) {
  for (uint32_t i = 0; i < b->region.store_count; i++) {
    kiln_expr_id_t offset = b->region.stores[i].offset;
    kiln_kernel_store_t store = {.offset = offset, .value = offset};
    const bool *reachable =
        kiln_region_reachable(b->kernel, &(kiln_region_t){.stores = &store, .store_count = 1});
    for (size_t k = 0; k < b->kernel->expr_count; k++) {
      const kiln_expr_t *expr = &b->kernel->exprs[k];
      if (reachable[k] && expr->kind == KILN_EXPR_AXIS && expr->bits == row) return false;
    }
  }
  return true;
}

/* Does a region with vectors read single elements, a vector apart? */
static bool scatters(const builder_t *b, const kiln_region_t *region,
                     const kiln_symbol_class_t *symbol_class) {
  kiln_lanes_t lanes = kiln_lanes_analyze(b->kernel, region);
  const bool *reachable = kiln_region_reachable(b->kernel, region);
  for (size_t i = 0, count = b->kernel->expr_count; region->lanes > 1 && i < count; i++) {
    const kiln_expr_t *expr = &b->kernel->exprs[i];
    if (!reachable[i] || expr->kind != KILN_EXPR_LOAD || !lanes.depends[expr->operands[0]]) continue;
    kiln_access_t access = kiln_lanes_access(&lanes, expr->operands[0], expr->operands[1]);
    uint32_t buffer = (uint32_t)expr->bits;
    if (!access.is_vector || (kiln_access_width(b->kernel, &access, buffer, symbol_class, NULL) == 1 &&
                              !kiln_access_is_realigned(b->kernel, region, &access, buffer, symbol_class)))
      return true;
  }
  return false;
}

/* How many results a thread can have at a time: each has a partial one of its whole chain, and of the run. */
static uint32_t most_results(const builder_t *b, const kiln_region_t *region) {
  const bool *reachable = kiln_region_reachable(b->kernel, region);
  uint32_t registers = 0, results = 16;
  for (size_t i = 0; i < b->kernel->expr_count; i++) {
    const kiln_expr_t *expr = &b->kernel->exprs[i];
    if (!reachable[i] || expr->kind != KILN_EXPR_REDUCE) continue;
    bool is_wide = kiln_dtype_bytes(b->kernel->exprs[expr->operands[0]].dtype) > 4;
    registers += 2 * ((is_wide ? 2 : 1) + (kiln_reduce_finds_place(expr->op) ? 2 : 0));
  }
  while (results > 1 && results * registers > MOST_PARTIAL_REGISTERS) results /= 2;
  return results;
}

/* The axis at the position last, and vectors along it. */
static kiln_region_t across(const builder_t *b, kiln_region_t region, uint32_t position,
                            const kiln_codegen_context_t *context) {
  uint32_t *axes = kiln_arena_copy(b->kernel->arena, region.axes, region.axis_count * sizeof *axes);
  uint32_t last = axes[position];
  memmove(axes + position, axes + position + 1, (region.axis_count - 1 - position) * sizeof *axes);
  axes[region.axis_count - 1] = last;
  region.axes = axes;
  region.most_lanes = most_results(b, &region);
  kiln_region_t vectors = region;
  kiln_dim_t extent = b->kernel->axes[last].extent;
  vectors.realigns = !context->grouped && (!kiln_dim_is_constant(extent) || extent.constant >= LEAST_RESULTS);
  vectors = kiln_schedule_vectorize(b->kernel, vectors, context);
  return scatters(b, &vectors, context->symbol_class) ? region : vectors;
}

/* Grouped rows: a body for each width that some member has, of which a block takes that of its member. */
static void emit_widths(builder_t *b, kiln_emitter_t *emitter, const kiln_region_t *rows,
                        kiln_kernel_source_t *kernel) {
  const kiln_codegen_context_t *context = emitter->context;
  const kiln_selector_t *selector = &context->grouped->selectors[0];
  for (uint32_t i = 0; i < selector->count; i++) {
    kiln_symbol_class_t symbols = kiln_grouped_class(context->symbol_class, selector->widths[i]);
    kiln_codegen_context_t own = *context;
    own.symbol_class = &symbols;
    kiln_region_t region = kiln_schedule_vectorize(b->kernel, *rows, &own);
    emitter->context = &own;
    bool is_last = i + 1 == selector->count;
    if (!is_last) kiln_emit_line(emitter, "if (%s == %u) {", selector->name, selector->widths[i]);
    emitter->indent += !is_last;
    kiln_rows_emit(emitter, &region, kernel);
    if (!is_last) kiln_emit_line(emitter, "return;");
    emitter->indent -= !is_last;
    if (!is_last) kiln_emit_line(emitter, "}");
    emitter->context = context;
  }
}

kiln_status_t kiln_rows_generate(kiln_arena_t *arena, const kiln_graph_t *graph,
                                 const kiln_grouping_t *grouping, const kiln_group_t *group,
                                 const kiln_codegen_context_t *context, kiln_kernel_source_t *out_kernel) {
  const kiln_node_t *node = leader(graph, group);
  if (!node) return kiln_elementwise_generate(arena, graph, grouping, group, context, out_kernel);
  builder_t b = {.kernel = kiln_kernel_create(arena, graph), .group = group};
  bool has_widths = context->grouped && context->grouped->selector_count;
  if (context->grouped) b.kernel->eps_symbols = context->grouped->eps_symbols;
  KILN_TRY(build(&b, node, grouping));
  uint32_t row = b.region.axes[b.region.axis_count - 1], position;
  kiln_region_t region = merged(&b), rows = with_row(&b, region, row);
  rows.realigns = !context->grouped; /* members of a group have rows of one alignment */
  bool is_across = !has_widths && stores_rows_only(&b, row) && lies_across(&b, &region, row, &position);
  if (!has_widths)
    region =
        is_across ? across(&b, region, position, context) : kiln_schedule_vectorize(b.kernel, rows, context);
  kiln_emitter_t emitter = {.kernel = b.kernel, .group = group, .context = context};
  *out_kernel = (kiln_kernel_source_t){.entry = is_across ? "kiln_columns" : "kiln_rows"};
  kiln_emit_begin(&emitter);
  if (has_widths)
    emit_widths(&b, &emitter, &rows, out_kernel);
  else if (is_across)
    kiln_columns_emit(&emitter, &region, row, out_kernel);
  else
    kiln_rows_emit(&emitter, &region, out_kernel);
  KILN_TRY(kiln_emit_finish(&emitter, grouping, out_kernel));
  if (b.kernel->overflowed) return kiln_error(KILN_TOO_LARGE, "an offset of a kernel leaves 64 bits");
  return NULL;
}
