/* codegen/rows.h: the family of reductions and normalizations, row by row.
 *
 *   rows.c: group -> region with a row axis -> rows_tile.c: how many threads share a row -> rows_emit.c:
 * source Inside codegen/ only.
 */
#ifndef KILN_CODEGEN_ROWS_H
#define KILN_CODEGEN_ROWS_H

#include "codegen/emit.h"

bool kiln_rows_accepts(const kiln_graph_t *graph, uint32_t node);
kiln_status_t kiln_rows_generate(kiln_arena_t *arena, const kiln_graph_t *graph,
                                 const kiln_grouping_t *grouping, const kiln_group_t *group,
                                 const kiln_codegen_context_t *context, kiln_kernel_source_t *out_kernel);

/* How a row lies over threads (rows_tile.c). Element number e of a row belongs to column e % columns. A
 * column is summed from its first element to its last (in runs, when there are many), columns then as a
 * balanced tree, neighbours first. So the order of a sum depends on the length of the row and on nothing
 * else: not on the width of accesses, nor on what is fused with it. */
typedef struct {
  uint32_t columns; /* a power of two */
  uint32_t threads; /* that share a row: a power of two, at most a block */
  uint32_t groups;  /* a thread has that many vectors of columns: columns = threads * lanes * groups */
  uint32_t rounds;  /* over all columns, unrolled: what is read in them stays in registers */
  bool is_whole;    /* the rounds cover every row exactly */
  bool is_enough;   /* the rounds cover every row */
  uint32_t block_threads;
} kiln_rows_tile_t;

/* Elements of a row that one thread may keep, as told by what it does with them. */
typedef struct {
  uint32_t kept_bytes; /* of an element, in all loads that are kept */
  uint32_t functions;  /* of the math library, per element and pass */
} kiln_rows_cost_t;

/* grouped: what is known of all members' rows; NULL: there is one kind of row. */
kiln_rows_tile_t kiln_rows_tile(const kiln_kernel_t *kernel, const kiln_region_t *region,
                                kiln_rows_cost_t cost, const struct kiln_grouped *grouped);
/* The extent with symbols at their typical values. */
int64_t kiln_rows_typical_length(const kiln_kernel_t *kernel, kiln_dim_t extent);
/* The whole kernel but its entry. The region's last axis is the row. */
void kiln_rows_emit(kiln_emitter_t *emitter, const kiln_region_t *region, kiln_kernel_source_t *kernel);
/* The same where memory lies along a kept axis, the last of the region's, and all stores are one per row; the
 * row is not among its axes (columns_emit.c). */
void kiln_columns_emit(kiln_emitter_t *emitter, const kiln_region_t *region, uint32_t row_axis,
                       kiln_kernel_source_t *kernel);

#endif
