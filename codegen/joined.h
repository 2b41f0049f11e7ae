/* codegen/joined.h: one kernel of several kernels' code: one behind the other in each block, or side by side.
 *
 * joined.c has a family make each member's source with a part in the context: emit.c then writes a device
 * function in place of a kernel, and tells its parameters; the family tells what of the results a block
 * makes. Inside codegen/ only.
 */
#ifndef KILN_CODEGEN_JOINED_H
#define KILN_CODEGEN_JOINED_H

#include "codegen/grouped.h"

typedef struct kiln_part {
  bool takes_block; /* its first parameter is the number of its block, which is not that of the kernel */
  const char *const *parameter_types; /* of the others: one for each slot */
  /* Of a contraction with tiles: the results along m, n and batch, and how many a block makes. Two parts with
   * equal tiles and grids have the same results in the same block. */
  bool has_tiles;
  kiln_extent_t tiles[3];
} kiln_part_t;

typedef kiln_generate_t (*kiln_generator_of_t)(const char *kind); /* NULL: no such family */

/* The kernel of a group whose members are in sequence or side by side. UNSUPPORTED when they do not fit. */
kiln_status_t kiln_joined_generate(kiln_arena_t *arena, const kiln_graph_t *graph,
                                   const kiln_grouping_t *grouping, const kiln_group_t *group,
                                   const kiln_codegen_context_t *context, kiln_generator_of_t generator_of,
                                   kiln_kernel_source_t *out_kernel);

#endif
