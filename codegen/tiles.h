/* codegen/tiles.h: regions that transpose: their blocks are square tiles that pass through shared memory.
 *
 *   memory, contiguous along columns --16 bytes--> shared memory, contiguous along rows --16 bytes--> memory,
 *                                                                                       contiguous along rows
 *
 * A load that is contiguous along another axis than the stores would touch a sector per element. A tile of it
 * is read row by row as it lies, turned in registers and kept in shared memory; then threads walk the tile as
 * the stores lie. The words of a row are stored at places that depend on the row, so that neither side has
 * bank conflicts. tiles.c chooses the tile, emit_tiles.c writes it. Inside codegen/ only.
 */
#ifndef KILN_CODEGEN_TILES_H
#define KILN_CODEGEN_TILES_H

#include "codegen/emit.h"

typedef struct {
  kiln_expr_id_t load;
  kiln_expr_id_t from; /* LINEAR: where the tile's part of the buffer begins */
  kiln_dim_t stride;   /* elements between neighbours along the rows' axis */
  uint32_t width;      /* elements per instruction, along the columns' axis */
  uint32_t at_bytes;   /* its place in shared memory */
} kiln_staged_load_t;

/* Rows of the tile lie along the last axis of the region, columns along another one. */
struct kiln_tile {
  uint32_t size;   /* along either axis: a power of two */
  uint32_t column; /* position of the columns' axis among the region's */
  kiln_dim_t row_extent, column_extent;
  uint32_t first_row, first_column; /* axes of the kernel that stand for the tile's first point */
  const kiln_staged_load_t *loads;
  uint32_t load_count;
  uint32_t shared_bytes;
};

/* Makes a region whose axes are in order and merged one of tiles, with vectors; false when there is nothing
 * to transpose. */
bool kiln_schedule_tile(kiln_kernel_t *kernel, kiln_region_t region, const kiln_codegen_context_t *context,
                        kiln_region_t *out_region);

/* Blocks of a region of tiles: ceil(dim / divisor) or a few less, which do nothing. */
kiln_extent_t kiln_tile_blocks(kiln_kernel_t *kernel, const kiln_region_t *region);
/* The exact number, as text. */
const char *kiln_emit_tile_count(kiln_emitter_t *emitter, const kiln_region_t *region);
/* The region, for the block whose number among the region's is the text `block`. */
void kiln_emit_tile_region(kiln_emitter_t *emitter, const kiln_region_t *region, const char *block);
/* Is the load staged? Then the text of the vector that holds its lanes. */
const char *kiln_emit_staged(kiln_emitter_t *emitter, const kiln_region_t *region, kiln_expr_id_t load);

#endif
