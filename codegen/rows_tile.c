/* codegen/rows_tile.c: the cost rule of rows: how many threads and how many blocks share one.
 *
 * 1. Columns: about half as many as elements, so that a thread has two vectors in flight; at most 4096, so
 * that a block holds a row. Short rows have a column per element.
 * 2. Threads: one per vector of columns, at most 512 (1024 where a vector is one element): the registers of
 * an SM hold two such blocks. A few threads, a warp (up to 256 columns, in several vectors a thread) or a
 * block share a row; rows of less than a block share one.
 * 3. Rounds: as many as the row needs, if what is kept then fits 64 registers of a thread and the functions
 * of the math library are few enough to compile in time. Else none, and each pass reads the row by a loop.
 * 4. Parts: a row that is longer than what one block can keep is cut when there are too few rows to fill the
 * device: into as many parts as give each SM two blocks (of at most 512 threads; they read enough at a time
 * to keep its share of the memory busy), each long enough to be worth its meeting with the others, which
 * takes about as long as reading 32 KiB. Neither what is fused nor the dtype has a say, so that the order of
 * a sum is the same alone and in company. Symbols count with their typical values.
 */
#include "codegen/rows.h"

#include "codegen/grouped.h"

enum {
  DEFAULT_TYPICAL = 1024,
  MOST_COLUMNS = 4096,
  LEAST_COLUMNS = 32,
  WARP_COLUMNS = 256, /* that a warp has alone: no barriers, and the ends of rows are in one block */
  MOST_THREADS = 512,
  MOST_SCALAR_THREADS = 1024,
  MOST_ROUNDS = 8,
  KEPT_BYTES = 256,
  MOST_FUNCTIONS = 128,
  MOST_PARTS = 256, /* threads of the smallest block that shares a row: one for each part */
  ROUNDS_PER_PART = 4,
  BLOCKS_PER_SM = 2,
};

int64_t kiln_rows_typical_length(const kiln_graph_t *graph, kiln_dim_t extent) {
  int64_t symbols[KILN_MAX_SYMBOLS] = {0}, length;
  for (uint32_t i = 0; i < graph->symbol_count; i++) {
    symbols[i] = graph->symbols[i].typical ? graph->symbols[i].typical : DEFAULT_TYPICAL;
  }
  return kiln_dim_eval(extent, symbols, &length) ? length : INT64_MAX;
}

int64_t kiln_rows_typical_points(const kiln_kernel_t *kernel, const uint32_t *axes, uint32_t axis_count) {
  int64_t points = 1;
  for (uint32_t i = 0; i < axis_count; i++) {
    int64_t extent = kiln_rows_typical_length(kernel->graph, kernel->axes[axes[i]].extent);
    if (__builtin_mul_overflow(points, extent, &points)) return INT64_MAX;
  }
  return points;
}

static uint32_t power_above(int64_t length) {
  uint32_t power = LEAST_COLUMNS;
  while (power < 2 * MOST_COLUMNS && power < length) power *= 2;
  return power;
}

static uint32_t at_most(uint32_t value, uint32_t limit) { return value < limit ? value : limit; }

/* (3) All or none: a loop over what is left would start its runs of additions elsewhere. */
static uint32_t choose_rounds(const kiln_rows_tile_t *tile, uint32_t lanes, int64_t length,
                              kiln_rows_cost_t cost) {
  if (length > (int64_t)MOST_ROUNDS * tile->columns) return 0;
  uint32_t rounds = ((uint32_t)length + tile->columns - 1) / tile->columns;
  uint32_t elements = rounds * lanes * tile->groups; /* of a thread */
  bool fits = elements * cost.kept_bytes <= KEPT_BYTES && elements * cost.functions <= MOST_FUNCTIONS;
  return fits ? rounds : 0;
}

/* (4) */
uint32_t kiln_rows_parts(int64_t rows, int64_t length, uint32_t sm_count) {
  if (length <= (int64_t)MOST_ROUNDS * MOST_COLUMNS) return 1;
  int64_t most = length / (ROUNDS_PER_PART * MOST_COLUMNS);
  int64_t wanted = rows ? (int64_t)BLOCKS_PER_SM * sm_count / rows : 1;
  if (most > MOST_PARTS) most = MOST_PARTS;
  if (wanted > most) wanted = most;
  return wanted > 1 ? (uint32_t)wanted : 1;
}

kiln_rows_tile_t kiln_rows_tile(const kiln_kernel_t *kernel, const kiln_region_t *region,
                                kiln_rows_cost_t cost, const kiln_grouped_t *grouped, uint32_t sm_count) {
  kiln_dim_t extent = kernel->axes[region->axes[region->axis_count - 1]].extent;
  int64_t length = kiln_rows_typical_length(kernel->graph, extent);
  kiln_rows_tile_t tile = {.columns = power_above(length)};
  if (tile.columns > 256) tile.columns /= 2;
  tile.threads =
      at_most(tile.columns / region->lanes, region->lanes > 1 ? MOST_THREADS : MOST_SCALAR_THREADS);
  if (tile.columns <= WARP_COLUMNS && region->lanes > 1) tile.threads = at_most(tile.threads, 32);
  if (grouped && grouped->lanes) tile.threads = at_most(tile.columns / grouped->lanes, MOST_THREADS);
  tile.groups = tile.columns / (tile.threads * region->lanes);
  tile.parts = kiln_rows_parts(kiln_rows_typical_points(kernel, region->axes, region->axis_count - 1), length,
                               sm_count);
  tile.rounds = choose_rounds(&tile, region->lanes, length, cost);
  tile.block_threads = tile.threads <= 32 ? KILN_BLOCK_THREADS : tile.threads;
  int64_t covered = (int64_t)tile.rounds * tile.columns;
  tile.is_whole = kiln_dim_is(extent, covered);
  tile.is_enough = tile.rounds && kiln_dim_is_constant(extent) && extent.constant <= covered;
  tile.is_enough |= tile.rounds && grouped && grouped->most_columns && grouped->most_columns <= covered;
  return tile;
}
