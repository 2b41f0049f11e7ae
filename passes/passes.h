/* passes/passes.h: the passes over a graph, in order, and the decisions that follow them: groups and buffers.
 *
 *   verified graph -> [passes.def, the verifier after each] -> kiln_group -> kiln_buffers -> codegen (not
 * from here)
 *
 * Called by server/pipeline.c in a compile worker or a command; nothing here touches a device, a file or a
 * clock but for the timings. A pass maps a const graph to a new graph (or the same one when there is nothing
 * to do), keeps its meaning exactly, is deterministic and near-linear, and never fails: what it cannot handle
 * it leaves.
 */
#ifndef KILN_PASSES_PASSES_H
#define KILN_PASSES_PASSES_H

#include "ir/group.h"
#include "ir/target.h"

typedef struct {
  kiln_arena_t *arena;
  const kiln_options_t *options;
  uint32_t applied;     /* what the pass counts: rewrites, removed nodes ... */
  uint32_t repetitions; /* repeating concatenations rewritten; the repetition pass alone raises it */
} kiln_pass_context_t;

typedef const kiln_graph_t *(*kiln_pass_function_t)(kiln_pass_context_t *context, const kiln_graph_t *graph);

typedef struct {
  const char *name;
  kiln_pass_function_t run;
} kiln_pass_t;

/* The registered passes, in default order (passes.def). */
const kiln_pass_t *kiln_passes_at(size_t index); /* NULL past the end */

typedef struct {
  const char *name;
  uint32_t applied;
  uint64_t duration_ns;
} kiln_pass_record_t;

typedef struct {
  kiln_pass_record_t *records;
  size_t record_count, record_capacity;
  uint32_t repetitions;
} kiln_pass_report_t;

typedef struct {
  const char *list; /* comma-separated names to run instead of the default order; NULL: default; "": none */
  /* Called with number 0 for the input and after each pass; may be NULL. */
  void (*dump)(void *argument, unsigned number, const char *name, const kiln_graph_t *graph);
  void *dump_argument;
} kiln_pass_run_t;

/* Runs over a verified, canonical graph (ir/canonical.h): passes rely on resolved axes and filled defaults.
 * INVALID_ARGUMENT for an unknown name in the list; INTERNAL naming the pass when its result does not verify
 * (its input graph's text is then the detail "reproducer"). */
kiln_status_t kiln_passes_run(kiln_arena_t *arena, const kiln_graph_t *graph, const kiln_options_t *options,
                              const kiln_pass_run_t *run, const kiln_graph_t **out_graph,
                              kiln_pass_report_t *out_report);

/* What a kernel that turned out to be unfit (too large, spilled registers, slow to compile) asks of grouping.
 */
typedef struct {
  kiln_value_id_t value;
  uint32_t apart;  /* 0: the value is stored, and read from memory by all that follows; else: a kernel stores
                      only  values of one number */
  const char *why; /* for explain */
} kiln_cut_t;

typedef struct {
  kiln_cut_t *items;
  size_t count, capacity;
} kiln_cuts_t;

/* Groups the nodes of an optimized graph into launches and plans the buffers. cuts may be NULL. UNSUPPORTED
 * naming the op (details op, node) when no family accepts a node. */
kiln_status_t kiln_group(kiln_arena_t *arena, const kiln_graph_t *graph, const kiln_families_t *families,
                         const kiln_target_t *target, const kiln_options_t *options, const kiln_cuts_t *cuts,
                         const kiln_grouping_t **out_grouping);
/* Adds the cuts that divide a group in two: its stores, or one store's nodes in the middle. False when it is
 * one node already. */
bool kiln_cut_group(kiln_arena_t *arena, const kiln_graph_t *graph, const kiln_group_t *group,
                    const char *why, kiln_cuts_t *cuts);
/* The same, so that the group's kernel is another one: members, which share it, are divided alike, and half
 * of them would have it still. False when each is one node. */
bool kiln_cut_kernel(kiln_arena_t *arena, const kiln_graph_t *graph, const kiln_group_t *group,
                     const char *why, kiln_cuts_t *cuts);

#endif
