/* codegen/sequence.h: one kernel whose blocks do their part of several groups in turn.
 *
 * sequence.c has a family make each member's source with a part in the context: emit.c then writes a device
 * function in place of a kernel, and tells its parameters; the family tells what of the results a block
 * makes. Inside codegen/ only.
 */
#ifndef KILN_CODEGEN_SEQUENCE_H
#define KILN_CODEGEN_SEQUENCE_H

#include "codegen/grouped.h"

typedef struct kiln_part {
  const char *const *parameter_types; /* one for each slot */
  /* Of a contraction with tiles: the results along m, n and batch, and how many a block makes. Two parts with
   * equal tiles and grids have the same results in the same block. */
  bool has_tiles;
  kiln_extent_t tiles[3];
} kiln_part_t;

/* The kernel of a group whose members are in sequence. UNSUPPORTED when their blocks differ. */
kiln_status_t kiln_sequence_generate(kiln_arena_t *arena, const kiln_graph_t *graph,
                                     const kiln_grouping_t *grouping, const kiln_group_t *group,
                                     const kiln_codegen_context_t *context, kiln_generate_t generate,
                                     kiln_kernel_source_t *out_kernel);

#endif
