/* tests/support/batch.h: many graphs through pipeline, NVRTC and emulated device, compiled together.
 *
 * NVRTC's start costs more than a small kernel, so bulk tests generate all their graphs first and compile the
 * kernels of all of them as one translation unit, each in a namespace and under an entry name of its own.
 * Every call fails the test on an error.
 */
#ifndef KILN_TESTS_SUPPORT_BATCH_H
#define KILN_TESTS_SUPPORT_BATCH_H

#include "base/cuda_abi.h"
#include "ir/reference.h"
#include "server/pipeline.h"

typedef struct kiln_batch kiln_batch_t;

/* arch: what to compile for, unless the tests run on a GPU, which has its own. */
kiln_batch_t *kiln_batch_create(kiln_arena_t *arena, const char *arch);
void kiln_batch_destroy(kiln_batch_t *batch);
/* Generates the graph's kernels; run chooses its passes (NULL: the default ones). Returns its number. */
uint32_t kiln_batch_add(kiln_batch_t *batch, const kiln_graph_t *graph, const kiln_options_t *options,
                        const kiln_symbol_class_t *symbol_class, const kiln_pass_run_t *run);
/* The same with everything of one level and class in one launch (tests/support/merge.h). */
uint32_t kiln_batch_add_merged(kiln_batch_t *batch, const kiln_graph_t *graph,
                               const kiln_symbol_class_t *symbol_class, const kiln_pass_run_t *run);
uint32_t kiln_batch_count(const kiln_batch_t *batch);
/* What was generated for a graph of the batch. */
const kiln_pipeline_t *kiln_batch_pipeline(const kiln_batch_t *batch, uint32_t number);
/* Compiles all kernels; returns their PTX. */
const char *kiln_batch_compile(kiln_batch_t *batch);
/* Runs one graph of a compiled batch on logical tensors; makes the outputs. */
void kiln_batch_run(kiln_batch_t *batch, uint32_t number, const int64_t *symbols, const kiln_tensor_t *inputs,
                    kiln_tensor_t *outputs);
/* The counters of the emulated device, summed over the launches of one more run. */
kiln_emu_counters_t kiln_batch_counters(kiln_batch_t *batch, uint32_t number, const int64_t *symbols,
                                        const kiln_tensor_t *inputs);
/* One of them by its name in base/cuda_abi.h. */
uint64_t kiln_batch_counter(kiln_batch_t *batch, uint32_t number, const int64_t *symbols,
                            const kiln_tensor_t *inputs, const char *name);
/* Fails unless the reference agrees with the outputs of a run. `what` begins the message. */
void kiln_batch_check(kiln_batch_t *batch, uint32_t number, const int64_t *symbols,
                      const kiln_tensor_t *inputs, const char *what);

#endif
