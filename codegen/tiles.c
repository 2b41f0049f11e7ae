/* codegen/tiles.c: which regions are transposed through shared memory, and how large their tiles are.
 *
 * Rows of a tile should be 128 bytes or more on either side, and a tile should give each of a block's 256
 * threads 16 bytes to move: 64 x 64 elements of 2 or 4 bytes, 32 x 32 of 8, 128 x 128 of 1. Only loads that
 * see the two axes as plain terms are staged; others are read where they are needed. Called by elementwise.c
 * instead of the schedule for plain regions.
 */
#include "codegen/tiles.h"

#include "codegen/schedule.h"

enum {
  LEAST_EXTENT = 32,           /* of either axis, to be worth a tile */
  MOST_TURNED = 64,            /* elements that a thread turns at a time: each takes a register */
  MOST_SHARED_BYTES = 48 << 10 /* without asking for more */
};

/* --- which loads
 * --------------------------------------------------------------------------------------------- */

/* Per expression: does it depend on one of the axes? */
static const bool *depends_on(const kiln_kernel_t *kernel, const uint32_t *axes, uint32_t count) {
  bool *depends = KILN_NEW_ARRAY(kernel->arena, bool, kernel->expr_count);
  for (size_t i = 0; i < kernel->expr_count; i++) {
    const kiln_expr_t *expr = &kernel->exprs[i];
    for (uint32_t k = 0; expr->kind == KILN_EXPR_AXIS && k < count; k++) depends[i] |= expr->bits == axes[k];
    for (uint32_t k = 0; k < expr->operand_count; k++) depends[i] |= depends[expr->operands[k]];
  }
  return depends;
}

/* Do the axes occur in the sum as plain terms only? */
static bool has_plain_axes(const kiln_kernel_t *kernel, kiln_expr_id_t offset, const bool *depends) {
  const kiln_expr_t *linear = &kernel->exprs[offset];
  for (uint32_t i = 0; i < linear->operand_count; i++) {
    if (depends[linear->operands[i]] && kernel->exprs[linear->operands[i]].kind != KILN_EXPR_AXIS)
      return false;
  }
  return true;
}

/* Is the load contiguous along the column axis, and not along the row axis, which it depends on? */
static bool is_transposed(kiln_kernel_t *kernel, const kiln_expr_t *load, uint32_t row, uint32_t column) {
  const uint32_t axes[] = {row, column};
  kiln_expr_id_t offset = load->operands[0];
  kiln_dim_t stride = kiln_schedule_stride(kernel, offset, row);
  return kiln_condition_is_true(kernel, load->operands[1]) && !kiln_dim_is(stride, 0) &&
         !kiln_dim_is(stride, 1) && kiln_dim_is(kiln_schedule_stride(kernel, offset, column), 1) &&
         has_plain_axes(kernel, offset, depends_on(kernel, axes, 2));
}

static bool is_long_enough(const kiln_kernel_t *kernel, uint32_t axis) {
  kiln_dim_t extent = kernel->axes[axis].extent;
  return !kiln_dim_is_constant(extent) || extent.constant >= LEAST_EXTENT;
}

/* The position of the axis along which most bytes of transposed loads are contiguous; false when there are
 * none. */
static bool find_column(kiln_kernel_t *kernel, const kiln_region_t *region, uint32_t *out_position) {
  const bool *reachable = kiln_region_reachable(kernel, region);
  uint32_t row = region->axes[region->axis_count - 1], most = 0;
  for (uint32_t i = 0; i + 1 < region->axis_count; i++) {
    uint32_t bytes = 0;
    if (!is_long_enough(kernel, region->axes[i])) continue;
    for (size_t k = 0, count = kernel->expr_count; k < count; k++) {
      const kiln_expr_t *expr = &kernel->exprs[k];
      if (reachable[k] && expr->kind == KILN_EXPR_LOAD && is_transposed(kernel, expr, row, region->axes[i]))
        bytes += (uint32_t)kiln_dtype_bytes(expr->dtype);
    }
    if (bytes <= most) continue;
    most = bytes;
    *out_position = i;
  }
  return most > 0;
}

/* --- the tile
 * ----------------------------------------------------------------------------------------------- */

/* The widest access along the columns that is aligned in every row and whole at their end. Tiles begin at
 * multiples of any width. */
static uint32_t column_width(kiln_kernel_t *kernel, const struct kiln_tile *tile,
                             const kiln_staged_load_t *staged, const kiln_codegen_context_t *context) {
  const kiln_expr_t *load = &kernel->exprs[staged->load];
  kiln_expr_id_t first_column = kiln_index_axis(kernel, tile->first_column);
  uint32_t chunk = 16 / (uint32_t)kiln_dtype_bytes(load->dtype);
  kiln_access_t access = {.window = chunk < MOST_TURNED / chunk ? chunk : MOST_TURNED / chunk};
  access.base = kiln_index_add_scaled(kernel, staged->from, kiln_dim_constant(-1), first_column);
  int64_t multiple = kiln_dim_multiple(tile->column_extent, context->symbol_class->multiple);
  if (multiple < access.window) access.window = (uint32_t)multiple;
  uint32_t buffer = (uint32_t)load->bits;
  access.window = kiln_access_width(kernel, &access, buffer, context->symbol_class, NULL);
  if (access.window == 1) return 1;
  kiln_guard_multiple(kernel->arena, context->guards, tile->column_extent, access.window);
  return kiln_access_width(kernel, &access, buffer, context->symbol_class, context->guards);
}

/* The offset with the tile's first point in the place of the point. */
static kiln_expr_id_t tile_start(kiln_kernel_t *kernel, const struct kiln_tile *tile, kiln_expr_id_t offset,
                                 const uint32_t *axes, uint32_t axis_count, kiln_dim_t stride) {
  kiln_expr_id_t zero = kiln_index_constant(kernel, kiln_dim_constant(0));
  kiln_expr_id_t *replaced = kiln_region_same_axes(kernel);
  for (uint32_t i = 0; i < axis_count; i++) replaced[axes[i]] = zero;
  replaced[axes[0]] = kiln_index_axis(kernel, tile->first_column);
  bool *marked = KILN_NEW_ARRAY(kernel->arena, bool, kernel->expr_count);
  marked[offset] = true;
  kiln_kernel_mark(kernel, marked);
  kiln_expr_id_t start = kiln_rewrite(kernel, replaced, 0, marked)[offset];
  return kiln_index_add_scaled(kernel, start, stride, kiln_index_axis(kernel, tile->first_row));
}

/* Stages the transposed loads, as many as there is room for. */
static void stage_loads(kiln_kernel_t *kernel, const kiln_region_t *region, struct kiln_tile *tile,
                        const kiln_codegen_context_t *context) {
  const bool *reachable = kiln_region_reachable(kernel, region);
  uint32_t row = region->axes[region->axis_count - 1], column = region->axes[tile->column];
  const uint32_t axes[] = {column, row, region->lane_axis};
  uint32_t axis_count = region->lanes > 1 ? 3 : 2;
  kiln_staged_load_t *loads = KILN_NEW_ARRAY(kernel->arena, kiln_staged_load_t, kernel->expr_count);
  for (kiln_expr_id_t i = 0, count = (kiln_expr_id_t)kernel->expr_count; i < count; i++) {
    if (!reachable[i] || kernel->exprs[i].kind != KILN_EXPR_LOAD) continue;
    if (!is_transposed(kernel, &kernel->exprs[i], row, column)) continue;
    kiln_expr_id_t offset = kernel->exprs[i].operands[0];
    uint32_t bytes = tile->size * tile->size * (uint32_t)kiln_dtype_bytes(kernel->exprs[i].dtype);
    if (tile->shared_bytes + bytes > MOST_SHARED_BYTES) continue;
    kiln_staged_load_t *staged = &loads[tile->load_count++];
    *staged = (kiln_staged_load_t){.load = i, .at_bytes = tile->shared_bytes};
    staged->stride = kiln_schedule_stride(kernel, offset, region->lanes > 1 ? region->lane_axis : row);
    staged->from = tile_start(kernel, tile, offset, axes, axis_count, staged->stride);
    staged->width = column_width(kernel, tile, staged, context);
    tile->shared_bytes += bytes;
  }
  tile->loads = loads;
}

/* By the narrowest dtype that is staged. */
static uint32_t tile_size(kiln_kernel_t *kernel, const kiln_region_t *region, uint32_t column) {
  const bool *reachable = kiln_region_reachable(kernel, region);
  uint32_t row = region->axes[region->axis_count - 1], bytes = 8;
  for (size_t i = 0, count = kernel->expr_count; i < count; i++) {
    const kiln_expr_t *expr = &kernel->exprs[i];
    if (!reachable[i] || expr->kind != KILN_EXPR_LOAD || !is_transposed(kernel, expr, row, column)) continue;
    if (kiln_dtype_bytes(expr->dtype) < bytes) bytes = (uint32_t)kiln_dtype_bytes(expr->dtype);
  }
  return bytes == 1 ? 128 : bytes == 8 ? 32 : 64;
}

bool kiln_schedule_tile(kiln_kernel_t *kernel, kiln_region_t region, const kiln_codegen_context_t *context,
                        kiln_region_t *out_region) {
  struct kiln_tile *tile = KILN_NEW(kernel->arena, struct kiln_tile);
  if (region.axis_count < 2 || !is_long_enough(kernel, region.axes[region.axis_count - 1])) return false;
  if (!find_column(kernel, &region, &tile->column)) return false;
  uint32_t column = region.axes[tile->column];
  tile->size = tile_size(kernel, &region, column);
  tile->row_extent = kernel->axes[region.axes[region.axis_count - 1]].extent;
  tile->column_extent = kernel->axes[column].extent;
  tile->first_row = kiln_kernel_axis(kernel, tile->row_extent, 1);
  tile->first_column = kiln_kernel_axis(kernel, tile->column_extent, 1);
  region = kiln_schedule_vectorize(kernel, region, context);
  stage_loads(kernel, &region, tile, context);
  region.tile = tile;
  *out_region = region;
  return true;
}

/* --- blocks
 * -------------------------------------------------------------------------------------------------- */

/* Multiplies the blocks by the tiles along an axis: exactly for a number, else as (extent + size - 1) / size,
 * which is less than one too many. */
static void multiply_by_tiles(kiln_kernel_t *kernel, kiln_extent_t *blocks, kiln_dim_t extent,
                              uint32_t size) {
  if (kiln_dim_is_constant(extent)) {
    kiln_dim_t tiles = kiln_dim_constant((extent.constant + size - 1) / size);
    blocks->dim = kiln_kernel_dim_mul(kernel, blocks->dim, tiles);
    return;
  }
  kiln_dim_t padded = kiln_kernel_dim_add(kernel, extent, kiln_dim_constant(size - 1));
  blocks->dim = kiln_kernel_dim_mul(kernel, blocks->dim, padded);
  blocks->divisor *= size;
}

kiln_extent_t kiln_tile_blocks(kiln_kernel_t *kernel, const kiln_region_t *region) {
  const struct kiln_tile *tile = region->tile;
  kiln_extent_t blocks = {kiln_dim_constant(1), 1};
  for (uint32_t i = 0; i + 1 < region->axis_count; i++) {
    kiln_dim_t extent = kernel->axes[region->axes[i]].extent;
    if (i != tile->column) blocks.dim = kiln_kernel_dim_mul(kernel, blocks.dim, extent);
  }
  multiply_by_tiles(kernel, &blocks, tile->column_extent, tile->size);
  multiply_by_tiles(kernel, &blocks, tile->row_extent, tile->size);
  return blocks;
}
