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

/* How a row lies over threads (rows_tile.c). Element number e of a row belongs to column e % (columns *
 * parts). A column is summed from its first element to its last (in runs, when there are many), columns then
 * as a balanced tree, neighbours first, those of one part before the parts. So the order of a sum depends on
 * the number and the length of rows and on the device, and on nothing else: not on the width of accesses, nor
 * on what is fused with it. */
typedef struct {
  uint32_t columns; /* of a part; a power of two */
  uint32_t parts;   /* of a row, each of which may be a block's */
  uint32_t threads; /* that share a part: a power of two, at most a block */
  uint32_t groups;  /* a thread has that many vectors of columns: columns = threads * lanes * groups */
  uint32_t rounds;  /* over all columns, unrolled: what is read in them stays in registers. 0: read again */
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
                                kiln_rows_cost_t cost, const struct kiln_grouped *grouped, uint32_t sm_count);
/* Parts of a row, when there are so many of this length. */
uint32_t kiln_rows_parts(int64_t rows, int64_t length, uint32_t sm_count);
/* Chains of each result, where memory lies along them (columns_emit.c). */
uint64_t kiln_columns_chains(int64_t results, int64_t length, uint32_t sm_count);
/* Is the node one fold of rows that are long and few, along memory as graphs have it? */
bool kiln_rows_shares(const kiln_graph_t *graph, uint32_t node, const kiln_target_t *target);
/* Do several blocks share a row of the group, so that its kernel fills the device alone? */
bool kiln_rows_fills_device(const kiln_graph_t *graph, const kiln_group_t *group,
                            const kiln_target_t *target);
/* The extent with symbols at their typical values; of several axes, all their points. INT64_MAX when there
 * are more than that. */
int64_t kiln_rows_typical_length(const kiln_graph_t *graph, kiln_dim_t extent);
int64_t kiln_rows_typical_points(const kiln_kernel_t *kernel, const uint32_t *axes, uint32_t axis_count);
/* The whole kernel but its entry. The region's last axis is the row. */
void kiln_rows_emit(kiln_emitter_t *emitter, const kiln_region_t *region, kiln_kernel_source_t *kernel);
/* The same where memory lies along a kept axis, the last of the region's, and all stores are one per row; the
 * row is not among its axes (columns_emit.c). */
void kiln_columns_emit(kiln_emitter_t *emitter, const kiln_region_t *region, uint32_t row_axis,
                       kiln_kernel_source_t *kernel);

#endif
