/* codegen/codegen.h: from a group of nodes to a kernel's source and launch record.
 *
 *   group -> lower_*.c: kernel IR (ir/kernel.h) -> emit_*.c: CUDA C++ and kiln_kernel_source_t
 *
 * Called by server/pipeline.c in a compile worker or a command. One file per kernel family. The same group,
 * target, options and symbol class always give the same bytes.
 */
#ifndef KILN_CODEGEN_CODEGEN_H
#define KILN_CODEGEN_CODEGEN_H

#include "ir/plan.h"

/* Collects what the generated code relies on beyond the graph. */
typedef struct {
  kiln_guard_t *items;
  size_t count, capacity;
} kiln_guards_t;

typedef struct {
  const kiln_target_t *target;
  const kiln_options_t *options;
  const kiln_symbol_class_t *symbol_class;
  kiln_guards_t *guards;
  const struct kiln_grouped *grouped; /* inside codegen: the kernel is for many members; else NULL */
  struct kiln_part *part;             /* inside codegen: a device function is made, no kernel; else NULL */
} kiln_codegen_context_t;

/* Families for kiln_group, in the order in which they are asked. */
kiln_families_t kiln_codegen_families(void);

/* The kernels of one group, usually one. INTERNAL when the group cannot be lowered (a bug: the family
 * accepted it). */
kiln_status_t kiln_codegen_group(kiln_arena_t *arena, const kiln_graph_t *graph,
                                 const kiln_grouping_t *grouping, uint32_t group,
                                 const kiln_codegen_context_t *context, kiln_kernel_source_t *out_kernel);

/* The storage bytes of a large constant: a slot of kind KILN_SLOT_CONSTANT names its node in buffer.index.
 * (Up to 64 KiB they are part of the source.) The plan's maker puts them into the plan and the plan's number
 * into the slot. */
const void *kiln_codegen_constant(kiln_arena_t *arena, const kiln_graph_t *graph, uint32_t node,
                                  size_t *out_bytes);

#endif
