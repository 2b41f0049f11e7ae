/* server/pipeline.h: the one place that composes passes, codegen and plans: plain functions of plain data.
 *
 *   graph -> verify, canonicalize -> passes -> groups, buffers -> kernel sources -> plan
 *
 * Compile workers, `kiln opt`, `kiln compile --local`, tests and fuzzers call it; it knows no socket, cache,
 * NVRTC or device.
 */
#ifndef KILN_SERVER_PIPELINE_H
#define KILN_SERVER_PIPELINE_H

#include "base/map.h"
#include "codegen/codegen.h"
#include "passes/passes.h"

typedef struct {
  const kiln_graph_t *input; /* canonical, before the passes */
  const kiln_graph_t *optimized;
  kiln_digest_t hash; /* of the canonical input graph */
  kiln_pass_report_t passes;
  kiln_cuts_t cuts; /* of kernels that turned out to be unfit */
  const kiln_grouping_t *grouping;
  const kiln_kernel_source_t *kernels; /* one per launch */
  kiln_guards_t guards;
  kiln_constraints_t constraints;
  kiln_map_t *standing; /* digests of sources that are unfit and cannot be divided; NULL: none */
} kiln_pipeline_t;

/* Launch `group` of a plan came out unfit: its kernel compiles too slowly or spills registers. */
typedef struct {
  uint32_t group;
  const char *why; /* what explain says; lives as long as the arena */
} kiln_verdict_t;

/* How many elements a graph's values have, as far as symbols decide whether 32-bit indices reach. */
typedef struct {
  kiln_dim_t *counts; /* those that depend on symbols, each form once */
  size_t count, capacity;
  bool wide; /* some value has 2^31 elements or more whatever the symbols are */
} kiln_extents_t;

/* Of a canonical graph, as keys hang on it. In the arena; scratch, which may be the same, is for what is not
 * kept. */
kiln_extents_t kiln_pipeline_extents(kiln_arena_t *arena, kiln_arena_t *scratch, const kiln_graph_t *graph);
/* The class that these values of the symbols belong to. A value of -1 is not known: nothing is assumed of it,
 * and 32-bit indices unless some value is wide anyhow. */
kiln_symbol_class_t kiln_pipeline_symbol_class(const kiln_extents_t *extents, uint32_t symbol_count,
                                               const int64_t *values);

/* Passes and groups only: what `kiln opt` shows. run may be NULL. */
kiln_status_t kiln_pipeline_optimize(kiln_arena_t *arena, const kiln_graph_t *graph,
                                     const kiln_target_t *target, const kiln_options_t *options,
                                     const kiln_pass_run_t *run, kiln_pipeline_t *out);
/* All of it: kernels and guards too. */
kiln_status_t kiln_pipeline_generate(kiln_arena_t *arena, const kiln_graph_t *graph,
                                     const kiln_target_t *target, const kiln_options_t *options,
                                     const kiln_symbol_class_t *symbol_class, const kiln_pass_run_t *run,
                                     kiln_pipeline_t *out);
/* Once more, with the launches that the verdicts name divided in two. What is one node already stands: its
 * source is remembered. */
kiln_status_t kiln_pipeline_divide(kiln_arena_t *arena, const kiln_target_t *target,
                                   const kiln_options_t *options, const kiln_symbol_class_t *symbol_class,
                                   const kiln_verdict_t *verdicts, size_t count, kiln_pipeline_t *pipeline);
/* Is kernel `launch` unfit, and must be taken as it is? */
bool kiln_pipeline_stands(const kiln_pipeline_t *pipeline, uint32_t launch);
/* The plan, given each launch's kernel key. */
const kiln_plan_t *kiln_pipeline_plan(kiln_arena_t *arena, const kiln_pipeline_t *pipeline,
                                      const kiln_digest_t *kernel_keys);

/* Plan key = SHA-256 over (canonical graph, target, compiler identity, fingerprint, options, symbol class).
 */
kiln_digest_t kiln_pipeline_plan_key(kiln_arena_t *arena, const kiln_graph_t *canonical,
                                     const kiln_target_t *target, const kiln_options_t *options,
                                     const kiln_symbol_class_t *symbol_class, const char *compiler_identity);
/* The same, for who has kept the graph's hash and not the graph. */
kiln_digest_t kiln_pipeline_plan_key_of_hash(const kiln_digest_t *graph_hash, uint32_t symbol_count,
                                             const kiln_target_t *target, const kiln_options_t *options,
                                             const kiln_symbol_class_t *symbol_class,
                                             const char *compiler_identity);
/* Kernel key = SHA-256 over (source, target, compiler identity, NVRTC options). */
kiln_digest_t kiln_pipeline_kernel_key(const char *source, const kiln_target_t *target,
                                       const char *compiler_identity);

#endif
