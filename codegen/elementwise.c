/* codegen/elementwise.c: the element-wise family: element-wise ops, views, creation and indexing, in any
 * mixture.
 *
 *   stores -> pieces (a concatenation is stored operand by operand) -> regions (pieces of one shape that are
 * split alike)
 *          -> order, split, merge, vectors -> source
 *
 * Called by codegen.c for groups of the kind "elementwise".
 */
#include "codegen/elementwise.h"
#include "codegen/emit.h"
#include "codegen/grouped.h"
#include "codegen/lower.h"
#include "codegen/lower_reduce.h"
#include "codegen/schedule.h"
#include "codegen/tiles.h"

#include <string.h>

enum {
  MOST_REGIONS = 32,
  MOST_STORES = 16,    /* of one region before its splits */
  MOST_OPERANDS = 500, /* parameters are 8 bytes each and fit 4 KiB */
  ANY_AXIS = KILN_MAX_RANK
};

bool kiln_elementwise_accepts(const kiln_graph_t *graph, uint32_t node) {
  const kiln_op_info_t *info = kiln_op_info(graph->nodes[node].op);
  uint32_t points;
  if (graph->nodes[node].operand_count > MOST_OPERANDS) return false;
  if (kiln_node_reduces(&graph->nodes[node]))
    return kiln_reduce_is_inline(graph, &graph->nodes[node], &points);
  return info->op_class == KILN_CLASS_ELEMENTWISE || info->op_class == KILN_CLASS_VIEW ||
         info->op_class == KILN_CLASS_CREATION || info->op_class == KILN_CLASS_INDEXING;
}

/* --- pieces
 * ------------------------------------------------------------------------------------------------- */

/* A box of a stored value: all of it, or the part that comes from some operands of a concatenation. */
typedef struct {
  const kiln_store_t *store;
  kiln_dim_t starts[KILN_MAX_RANK], extents[KILN_MAX_RANK];
  uint32_t rank;
  bool is_taken;
} piece_t;

typedef struct {
  kiln_kernel_t *kernel;
  kiln_lowering_t *lowering;
  const kiln_group_t *group;
  const kiln_codegen_context_t *context;
  piece_t *pieces;
  size_t piece_count, piece_capacity;
} builder_t;

static void add_piece(builder_t *builder, const piece_t *piece) {
  for (uint32_t i = 0; i < piece->rank; i++) {
    if (kiln_dim_is(piece->extents[i], 0)) return;
  }
  KILN_PUSH(builder->kernel->arena, builder->pieces, builder->piece_count, builder->piece_capacity, *piece);
}

/* The concatenation that makes a value here along this axis (ANY_AXIS: any), or NULL. */
static const kiln_node_t *computed_cat(const builder_t *builder, kiln_value_id_t value, uint32_t axis) {
  const kiln_graph_t *graph = builder->kernel->graph;
  const kiln_node_t *node = kiln_graph_producer(graph, value);
  for (uint32_t i = 0; i < builder->group->input_count; i++) {
    if (builder->group->inputs[i] == value) return NULL;
  }
  if (!node || node->op != KILN_OP_cat) return NULL;
  uint32_t along = kiln_view_axis(kiln_node_int(node, KILN_ATTR_dim, 0), graph->types[value].rank);
  return axis == ANY_AXIS || axis == along ? node : NULL;
}

/* The sizes along the axis of all operands of a concatenation, and of those that are concatenations along it
 * themselves (a wide one comes as several). */
typedef struct {
  kiln_dim_t *items;
  size_t count, capacity;
} sizes_t;

static sizes_t operand_sizes(const builder_t *builder, kiln_value_id_t value, uint32_t axis) {
  kiln_arena_t *arena = builder->kernel->arena;
  sizes_t sizes = {0};
  kiln_value_id_t *stack = NULL;
  size_t count = 0, capacity = 0;
  KILN_PUSH(arena, stack, count, capacity, value);
  while (count && sizes.count + count < MOST_REGIONS * MOST_STORES * 2) {
    value = stack[--count];
    const kiln_node_t *cat = computed_cat(builder, value, axis);
    for (uint32_t i = cat ? cat->operand_count : 0; i-- > 0;) {
      KILN_PUSH(arena, stack, count, capacity, cat->operands[i]);
    }
    if (!cat) {
      KILN_PUSH(arena, sizes.items, sizes.count, sizes.capacity,
                builder->kernel->graph->types[value].dims[axis]);
    }
  }
  while (count) { /* too many: the rest as they are */
    kiln_dim_t size = builder->kernel->graph->types[stack[--count]].dims[axis];
    KILN_PUSH(arena, sizes.items, sizes.count, sizes.capacity, size);
  }
  return sizes;
}

/* Regions that the operands would take one by one: those of one size share a region up to MOST_STORES. */
static uint32_t regions_of_operands(const sizes_t *sizes) {
  uint32_t regions = 0;
  for (size_t i = 0; i < sizes->count && regions <= MOST_REGIONS; i++) {
    uint32_t before = 0;
    for (size_t k = 0; k < i; k++) before += kiln_dim_equal(sizes->items[k], sizes->items[i]);
    regions += before % MOST_STORES == 0;
  }
  return regions;
}

/* How many neighbouring operands a piece takes: one, unless that makes more regions than there may be. */
static size_t operands_per_piece(const builder_t *builder, const sizes_t *sizes) {
  uint32_t room = MOST_REGIONS / builder->group->store_count;
  if (!room) return sizes->count;
  return regions_of_operands(sizes) <= room ? 1 : (sizes->count + room - 1) / room;
}

static void add_pieces_of_cat(builder_t *builder, piece_t piece, const kiln_node_t *cat) {
  kiln_kernel_t *kernel = builder->kernel;
  uint32_t axis = kiln_view_axis(kiln_node_int(cat, KILN_ATTR_dim, 0), piece.rank);
  sizes_t sizes = operand_sizes(builder, piece.store->value, axis);
  size_t step = operands_per_piece(builder, &sizes);
  for (size_t i = 0; i < sizes.count;) {
    piece.extents[axis] = kiln_dim_constant(0);
    for (size_t k = 0; k < step && i < sizes.count; k++, i++) {
      piece.extents[axis] = kiln_kernel_dim_add(kernel, piece.extents[axis], sizes.items[i]);
    }
    add_piece(builder, &piece);
    piece.starts[axis] = kiln_kernel_dim_add(kernel, piece.starts[axis], piece.extents[axis]);
  }
}

static void add_pieces(builder_t *builder, const kiln_store_t *store) {
  const kiln_type_t *type = &builder->kernel->graph->types[store->value];
  piece_t piece = {.store = store, .rank = type->rank};
  memcpy(piece.extents, type->dims, sizeof piece.extents);
  for (uint32_t i = 0; i < KILN_MAX_RANK; i++) piece.starts[i] = kiln_dim_constant(0);
  const kiln_node_t *cat = computed_cat(builder, store->value, ANY_AXIS);
  if (cat)
    add_pieces_of_cat(builder, piece, cat);
  else
    add_piece(builder, &piece);
}

/* The same extents, but for axes of size 1? Then the pieces can share axes. */
static bool have_one_shape(const piece_t *a, const piece_t *b) {
  uint32_t i = 0, k = 0;
  for (;;) {
    while (i < a->rank && kiln_dim_is(a->extents[i], 1)) i++;
    while (k < b->rank && kiln_dim_is(b->extents[k], 1)) k++;
    if (i == a->rank || k == b->rank) return i == a->rank && k == b->rank;
    if (!kiln_dim_equal(a->extents[i++], b->extents[k++])) return false;
  }
}

/* --- regions
 * ------------------------------------------------------------------------------------------------ */

/* Axes for all that is longer than 1. */
static kiln_region_t region_over(kiln_kernel_t *kernel, const piece_t *piece) {
  uint32_t *axes = KILN_NEW_ARRAY(kernel->arena, uint32_t, KILN_MAX_RANK);
  kiln_region_t region = {.axes = axes, .lanes = 1};
  for (uint32_t i = 0; i < piece->rank; i++) {
    if (!kiln_dim_is(piece->extents[i], 1))
      axes[region.axis_count++] = kiln_kernel_axis(kernel, piece->extents[i], 1);
  }
  return region;
}

static kiln_status_t lower_piece(builder_t *builder, const kiln_region_t *region, const piece_t *piece,
                                 kiln_kernel_store_t *out_store) {
  kiln_kernel_t *kernel = builder->kernel;
  kiln_request_t request = {.value = piece->store->value, .guard = kiln_condition_true(kernel)};
  for (uint32_t i = 0, next = 0; i < piece->rank; i++) {
    request.index[i] = kiln_index_constant(kernel, piece->starts[i]);
    if (kiln_dim_is(piece->extents[i], 1)) continue;
    request.index[i] =
        kiln_index_add(kernel, request.index[i], kiln_index_axis(kernel, region->axes[next++]));
  }
  kiln_expr_id_t value;
  KILN_TRY(kiln_lower(builder->lowering, &request, &value));
  *out_store = kiln_lower_store(builder->lowering, piece->store, request.index);
  out_store->value = value;
  return NULL;
}

static bool splits_equal(const kiln_axis_splits_t *a, const kiln_axis_splits_t *b) {
  if (a->count != b->count) return false;
  for (size_t i = 0; i < a->count; i++) {
    const kiln_axis_split_t *x = &a->items[i], *y = &b->items[i];
    if (x->position != y->position || x->factor != y->factor || x->inner != y->inner) return false;
  }
  return true;
}

static kiln_region_t ordered(kiln_kernel_t *kernel, kiln_region_t region, kiln_kernel_store_t *stores,
                             uint32_t count) {
  region.stores = stores;
  region.store_count = count;
  return kiln_schedule_order(kernel, region);
}

static void add_region(builder_t *builder, kiln_region_t region, const kiln_axis_splits_t *splits) {
  kiln_kernel_t *kernel = builder->kernel;
  for (size_t i = 0; i < splits->count; i++) region = kiln_schedule_split(kernel, region, &splits->items[i]);
  if (!kiln_schedule_tile(kernel, kiln_schedule_merge(kernel, region), builder->context, &region)) {
    region = kiln_schedule_merge(kernel, kiln_schedule_localize(kernel, region));
    region = kiln_schedule_vectorize(kernel, region, builder->context);
  }
  KILN_PUSH(kernel->arena, kernel->regions, kernel->region_count, kernel->region_capacity, region);
}

/* The region of a piece, with all pieces of its shape that want the same splits: they may share what they
 * read. */
static kiln_status_t build_region(builder_t *builder, size_t first) {
  kiln_kernel_t *kernel = builder->kernel;
  kiln_region_t region = region_over(kernel, &builder->pieces[first]);
  kiln_kernel_store_t *stores = KILN_NEW_ARRAY(kernel->arena, kiln_kernel_store_t, MOST_STORES), one;
  uint32_t count = 0;
  kiln_axis_splits_t splits = {0};
  for (size_t i = first; i < builder->piece_count && count < MOST_STORES; i++) {
    piece_t *piece = &builder->pieces[i];
    if (piece->is_taken || !have_one_shape(&builder->pieces[first], piece)) continue;
    KILN_TRY(lower_piece(builder, &region, piece, &one));
    kiln_axis_splits_t wanted = kiln_schedule_find_splits(kernel, ordered(kernel, region, &one, 1));
    if (count && !splits_equal(&splits, &wanted)) continue;
    splits = wanted;
    piece->is_taken = true;
    stores[count++] = one;
  }
  add_region(builder, ordered(kernel, region, stores, count), &splits);
  return NULL;
}

static kiln_status_t build_regions(builder_t *builder) {
  for (uint32_t i = 0; i < builder->group->store_count; i++) add_pieces(builder, &builder->group->stores[i]);
  for (size_t i = 0; i < builder->piece_count; i++) {
    if (!builder->pieces[i].is_taken) KILN_TRY(build_region(builder, i));
  }
  return NULL;
}

kiln_status_t kiln_elementwise_generate(kiln_arena_t *arena, const kiln_graph_t *graph,
                                        const kiln_grouping_t *grouping, const kiln_group_t *group,
                                        const kiln_codegen_context_t *context,
                                        kiln_kernel_source_t *out_kernel) {
  kiln_kernel_t *kernel = kiln_kernel_create(arena, graph);
  if (context->grouped) kernel->eps_symbols = context->grouped->eps_symbols;
  builder_t builder = {.kernel = kernel,
                       .lowering = kiln_lowering_create(kernel, grouping, group),
                       .group = group,
                       .context = context};
  KILN_TRY(build_regions(&builder));
  kiln_emitter_t emitter = {.kernel = kernel, .group = group, .context = context};
  KILN_TRY(kiln_emit_kernel(&emitter, grouping, "kiln_elementwise", out_kernel));
  if (kernel->overflowed) return kiln_error(KILN_TOO_LARGE, "an offset of a kernel leaves 64 bits");
  return NULL;
}
