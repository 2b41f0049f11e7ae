/* tests/support/batch.h: many graphs through pipeline, NVRTC and emulated device, compiled together.
 *
 * NVRTC's start costs more than a small kernel, so bulk tests generate all their graphs first and compile the
 * kernels of all of them as one translation unit, each in a namespace and under an entry name of its own.
 * Every call fails the test on an error, except those named `try`, which hand it on.
 */
#ifndef KILN_TESTS_SUPPORT_BATCH_H
#define KILN_TESTS_SUPPORT_BATCH_H

#include "base/cuda_abi.h"
#include "ir/reference.h"
#include "runtime/compile.h"
#include "server/pipeline.h"

typedef struct kiln_batch kiln_batch_t;

/* arch: what to compile for, unless the tests run on a GPU, which has its own. */
kiln_batch_t *kiln_batch_create(kiln_arena_t *arena, const char *arch);
void kiln_batch_destroy(kiln_batch_t *batch);
/* Compiles with this one, which outlives the batch, instead of one of its own: opening NVRTC takes a while.
 */
void kiln_batch_use_compiler(kiln_batch_t *batch, kiln_compiler_t *compiler);
/* Runs with inputs and outputs at addresses that are no more aligned than they are declared. */
void kiln_batch_misalign(kiln_batch_t *batch);
/* Generates the graph's kernels; run chooses its passes (NULL: the default ones). Returns its number. */
uint32_t kiln_batch_add(kiln_batch_t *batch, const kiln_graph_t *graph, const kiln_options_t *options,
                        const kiln_symbol_class_t *symbol_class, const kiln_pass_run_t *run);
kiln_status_t kiln_batch_try_add(kiln_batch_t *batch, const kiln_graph_t *graph,
                                 const kiln_options_t *options, const kiln_symbol_class_t *symbol_class,
                                 const kiln_pass_run_t *run, uint32_t *out_number);
/* The same with everything of one level and class in one launch, or with a launch for every member
 * (tests/support/merge.h). */
uint32_t kiln_batch_add_regrouped(kiln_batch_t *batch, const kiln_graph_t *graph, bool merges,
                                  const kiln_symbol_class_t *symbol_class, const kiln_pass_run_t *run);
kiln_status_t kiln_batch_try_add_regrouped(kiln_batch_t *batch, const kiln_graph_t *graph, bool merges,
                                           const kiln_symbol_class_t *symbol_class,
                                           const kiln_pass_run_t *run, uint32_t *out_number);
uint32_t kiln_batch_count(const kiln_batch_t *batch);
/* How many kernels there are to compile: equal sources count once. */
uint32_t kiln_batch_kernel_count(const kiln_batch_t *batch);
/* What was generated for a graph of the batch. */
const kiln_pipeline_t *kiln_batch_pipeline(const kiln_batch_t *batch, uint32_t number);
/* Compiles all kernels; returns their PTX. */
const char *kiln_batch_compile(kiln_batch_t *batch);
kiln_status_t kiln_batch_try_compile(kiln_batch_t *batch);
/* Compiles all kernels to machine code, which stays unused: for what ptxas says of each. */
void kiln_batch_assemble(kiln_batch_t *batch);
kiln_kernel_artifact_t kiln_batch_resources(const kiln_batch_t *batch, uint32_t number, uint32_t kernel);
/* Runs one graph of a compiled batch on logical tensors; makes the outputs. */
void kiln_batch_run(kiln_batch_t *batch, uint32_t number, const int64_t *symbols, const kiln_tensor_t *inputs,
                    kiln_tensor_t *outputs);
kiln_status_t kiln_batch_try_run(kiln_batch_t *batch, uint32_t number, const int64_t *symbols,
                                 const kiln_tensor_t *inputs, kiln_tensor_t *outputs);
/* The counters of the emulated device, summed over the launches of one more run. */
kiln_emu_counters_t kiln_batch_counters(kiln_batch_t *batch, uint32_t number, const int64_t *symbols,
                                        const kiln_tensor_t *inputs);
/* One of them by its name in base/cuda_abi.h. */
uint64_t kiln_batch_counter(kiln_batch_t *batch, uint32_t number, const int64_t *symbols,
                            const kiln_tensor_t *inputs, const char *name);
typedef struct {
  uint64_t elements, undecided;
} kiln_batch_tally_t;
/* INTERNAL names the first output that is not within its bound. Adds to the tally, which may be NULL. */
kiln_status_t kiln_batch_compare(const kiln_reference_t *expected, const kiln_tensor_t *got, uint32_t count,
                                 kiln_batch_tally_t *tally);
/* Fails unless the reference agrees with the outputs of a run. `what` begins the message. */
void kiln_batch_check(kiln_batch_t *batch, uint32_t number, const int64_t *symbols,
                      const kiln_tensor_t *inputs, const char *what);

#endif
