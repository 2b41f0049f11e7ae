/* codegen/rows_tile.c: the cost rule of rows: how many threads share one.
 *
 * 1. Columns: about half as many as elements, so that a thread has two vectors in flight; at most 4096, so
 * that a block holds a row. Short rows have a column per element.
 * 2. Threads: one per vector of columns, at most 512 (1024 where a vector is one element): the registers of
 * an SM hold two such blocks. A few threads, a warp or a block share a row; rows of less than a block share
 * one.
 * 3. Rounds: as many as the row needs, if what is kept then fits 64 registers of a thread and the functions
 * of the math library are few enough to compile in time. Else one, and what is left is read again in each
 * pass by a loop. Symbols count with their typical values.
 */
#include "codegen/rows.h"

#include "codegen/grouped.h"

enum {
  DEFAULT_TYPICAL = 1024,
  MOST_COLUMNS = 4096,
  LEAST_COLUMNS = 32,
  MOST_THREADS = 512,
  MOST_SCALAR_THREADS = 1024,
  MOST_ROUNDS = 8,
  KEPT_BYTES = 256,
  MOST_FUNCTIONS = 128,
};

int64_t kiln_rows_typical_length(const kiln_kernel_t *kernel, kiln_dim_t extent) {
  int64_t symbols[KILN_MAX_SYMBOLS] = {0}, length;
  for (uint32_t i = 0; i < kernel->graph->symbol_count; i++) {
    symbols[i] = kernel->graph->symbols[i].typical ? kernel->graph->symbols[i].typical : DEFAULT_TYPICAL;
  }
  return kiln_dim_eval(extent, symbols, &length) ? length : INT64_MAX;
}

static uint32_t power_above(int64_t length) {
  uint32_t power = LEAST_COLUMNS;
  while (power < 2 * MOST_COLUMNS && power < length) power *= 2;
  return power;
}

static uint32_t at_most(uint32_t value, uint32_t limit) { return value < limit ? value : limit; }

/* (3) A row that does not fit has one round: the others would be code that saves little. */
static uint32_t choose_rounds(const kiln_rows_tile_t *tile, uint32_t lanes, int64_t length,
                              kiln_rows_cost_t cost) {
  if (length > (int64_t)MOST_ROUNDS * tile->columns) return 1;
  uint32_t rounds = ((uint32_t)length + tile->columns - 1) / tile->columns;
  uint32_t elements = rounds * lanes * tile->groups; /* of a thread */
  return elements * cost.kept_bytes > KEPT_BYTES || elements * cost.functions > MOST_FUNCTIONS || !rounds
             ? 1
             : rounds;
}

kiln_rows_tile_t kiln_rows_tile(const kiln_kernel_t *kernel, const kiln_region_t *region,
                                kiln_rows_cost_t cost, const kiln_grouped_t *grouped) {
  kiln_dim_t extent = kernel->axes[region->axes[region->axis_count - 1]].extent;
  int64_t length = kiln_rows_typical_length(kernel, extent);
  kiln_rows_tile_t tile = {.columns = power_above(length)};
  if (tile.columns > 256) tile.columns /= 2;
  tile.threads =
      at_most(tile.columns / region->lanes, region->lanes > 1 ? MOST_THREADS : MOST_SCALAR_THREADS);
  if (grouped && grouped->lanes) tile.threads = at_most(tile.columns / grouped->lanes, MOST_THREADS);
  tile.groups = tile.columns / (tile.threads * region->lanes);
  tile.rounds = choose_rounds(&tile, region->lanes, length, cost);
  tile.block_threads = tile.threads <= 32 ? KILN_BLOCK_THREADS : tile.threads;
  int64_t covered = (int64_t)tile.rounds * tile.columns;
  tile.is_whole = kiln_dim_is(extent, covered);
  tile.is_enough = kiln_dim_is_constant(extent) && extent.constant <= covered;
  tile.is_enough |= grouped && grouped->most_columns && grouped->most_columns <= covered;
  return tile;
}
