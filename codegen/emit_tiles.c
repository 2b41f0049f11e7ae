/* codegen/emit_tiles.c: a region of tiles (tiles.h) as CUDA source.
 *
 * A block finds its tile, its threads copy what is staged to shared memory, wait for each other, and then
 * walk the tile's points as the stores lie. Every block of the region runs to the barrier with all its
 * threads. Called by emit.c and, for what is staged, by emit_region.c.
 */
#include "codegen/emit_region.h"
#include "codegen/tiles.h"

/* The number of steps along an axis of a block's number: tiles for two of them. */
static const char *steps(kiln_emitter_t *emitter, const kiln_region_t *region, uint32_t position) {
  const struct kiln_tile *tile = region->tile;
  bool is_row = position + 1 == region->axis_count, is_column = position == tile->column;
  kiln_dim_t extent = emitter->kernel->axes[region->axes[position]].extent;
  bool wide = !kiln_emit_fits(emitter, extent);
  return kiln_emit_steps(emitter, extent, is_row || is_column ? tile->size : 1, wide);
}

const char *kiln_emit_tile_count(kiln_emitter_t *emitter, const kiln_region_t *region) {
  const char *text = steps(emitter, region, 0);
  for (uint32_t i = 1; i < region->axis_count; i++) {
    text = kiln_arena_printf(emitter->kernel->arena, "%s * %s", text, steps(emitter, region, i));
  }
  return text;
}

/* The axis's part of the tile's number: a place on the axis, or the first point of the tile along it. */
static void emit_place_on_axis(kiln_emitter_t *emitter, const kiln_region_t *region, uint32_t position) {
  const struct kiln_tile *tile = region->tile;
  kiln_arena_t *arena = emitter->kernel->arena;
  bool is_row = position + 1 == region->axis_count, is_column = position == tile->column;
  uint32_t axis = is_row ? tile->first_row : is_column ? tile->first_column : region->axes[position];
  kiln_dim_t extent = emitter->kernel->axes[axis].extent;
  bool wide = !kiln_emit_fits(emitter, extent);
  const char *type = wide ? "long long" : "int";
  const char *name = is_row      ? "first_row"
                     : is_column ? "first_column"
                                 : kiln_arena_printf(arena, "a%u", position);
  kiln_emit_name_axis(emitter, axis, name, wide);
  if (kiln_dim_is_constant(extent) && extent.constant <= (is_row || is_column ? tile->size : 1)) {
    kiln_emit_line(emitter, "const %s %s = 0;", type, name);
    return;
  }
  const char *scale = is_row || is_column ? kiln_arena_printf(arena, " * %u", tile->size) : "";
  const char *count = steps(emitter, region, position);
  kiln_emit_line(emitter, "const %s %s = (%s)(tile %% %s)%s;", type, name, type, count, scale);
  if (position) kiln_emit_line(emitter, "tile /= %s;", count);
}

/* Takes the tile's number apart, the last axis first. */
static void emit_place(kiln_emitter_t *emitter, const kiln_region_t *region, const char *block) {
  kiln_emit_line(emitter, "unsigned tile = %s;", block);
  kiln_emit_line(emitter, "if (tile >= %s) return;", kiln_emit_tile_count(emitter, region));
  for (uint32_t i = region->axis_count; i-- > 0;) emit_place_on_axis(emitter, region, i);
}

static void emit_stage(kiln_emitter_t *emitter, const kiln_region_t *region, uint32_t number) {
  const struct kiln_tile *tile = region->tile;
  kiln_kernel_t *kernel = emitter->kernel;
  const kiln_staged_load_t *staged = &tile->loads[number];
  const kiln_expr_t *load = &kernel->exprs[staged->load];
  const char *type = kiln_emit_storage_type(load->dtype);
  kiln_dim_t reach = kiln_kernel_dim_mul(kernel, staged->stride, kiln_dim_constant(tile->size));
  kiln_emit_line(emitter, "%s *const tile%u = reinterpret_cast<%s *>(kiln_shared + %u);", type, number, type,
                 staged->at_bytes);
  kiln_emit_line(emitter, "{");
  emitter->indent++;
  const char *from = kiln_emit_offset(emitter, staged->from);
  kiln_emit_line(emitter, "kiln_stage<%u, %u>(tile%u, %s + %s, %s, rows, columns);", tile->size,
                 staged->width, number, emitter->buffer_names[load->bits], from,
                 kiln_emit_dim(emitter, staged->stride, !kiln_emit_fits(emitter, reach)));
  emitter->indent--;
  kiln_emit_line(emitter, "}");
}

static void emit_staging(kiln_emitter_t *emitter, const kiln_region_t *region) {
  const struct kiln_tile *tile = region->tile;
  bool row_is_wide = !kiln_emit_fits(emitter, tile->row_extent);
  bool column_is_wide = !kiln_emit_fits(emitter, tile->column_extent);
  kiln_emit_line(emitter, "const auto rows = %s - first_row;",
                 kiln_emit_dim(emitter, tile->row_extent, row_is_wide));
  kiln_emit_line(emitter, "const auto columns = %s - first_column;",
                 kiln_emit_dim(emitter, tile->column_extent, column_is_wide));
  for (uint32_t i = 0; i < tile->load_count; i++) emit_stage(emitter, region, i);
  kiln_emit_line(emitter, "__syncthreads();");
}

/* The axes at a point of the tile. */
static void emit_point_axes(kiln_emitter_t *emitter, const kiln_region_t *region) {
  const struct kiln_tile *tile = region->tile;
  kiln_arena_t *arena = emitter->kernel->arena;
  uint32_t last = region->axis_count - 1, row = region->axes[last], column = region->axes[tile->column];
  bool row_is_wide = !kiln_emit_fits(emitter, tile->row_extent);
  bool column_is_wide = !kiln_emit_fits(emitter, tile->column_extent);
  const char *row_name = kiln_arena_printf(arena, "a%u", last);
  const char *column_name = kiln_arena_printf(arena, "a%u", tile->column);
  kiln_emit_line(emitter, "const int row = item %% %u * %u, column = item / %u;", tile->size / region->lanes,
                 region->lanes, tile->size / region->lanes);
  kiln_emit_line(emitter, "if (row >= rows || column >= columns) continue;");
  kiln_emit_line(emitter, "const %s %s = (first_row + row) / %u;", row_is_wide ? "long long" : "int",
                 row_name, region->lanes);
  kiln_emit_line(emitter, "const %s %s = first_column + column;", column_is_wide ? "long long" : "int",
                 column_name);
  kiln_emit_name_axis(emitter, row, row_name, row_is_wide);
  kiln_emit_name_axis(emitter, column, column_name, column_is_wide);
}

void kiln_emit_tile_region(kiln_emitter_t *emitter, const kiln_region_t *region, const char *block) {
  const struct kiln_tile *tile = region->tile;
  kiln_emit_start_region(emitter);
  emit_place(emitter, region, block);
  emit_staging(emitter, region);
  kiln_emit_line(emitter, "for (int item = threadIdx.x; item < %u; item += %u) {",
                 tile->size * (tile->size / region->lanes), KILN_BLOCK_THREADS);
  emitter->indent++;
  emit_point_axes(emitter, region);
  kiln_emit_point(emitter, region);
  emitter->indent--;
  kiln_emit_line(emitter, "}");
}

const char *kiln_emit_staged(kiln_emitter_t *emitter, const kiln_region_t *region, kiln_expr_id_t load) {
  const struct kiln_tile *tile = region->tile;
  for (uint32_t i = 0; tile && i < tile->load_count; i++) {
    if (tile->loads[i].load != load) continue;
    return kiln_arena_printf(emitter->kernel->arena, "kiln_unstage<%u, %u, %u>(tile%u, column, row)",
                             tile->size, tile->loads[i].width, region->lanes, i);
  }
  return NULL;
}
