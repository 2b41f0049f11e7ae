/* bench/kernels.c: what generated kernels move and execute, next to plain ones written by hand.
 *
 * For each job of bench/kernels.def the graph's kernels and the plain kernel run on the emulated device, on
 * the same inputs. Columns, for either: bytes moved (distinct sectors per block) and sectors requested, over
 * the tensors' own bytes; passes over the banks of shared memory, per 128 of those bytes; the part of
 * accesses that have 16 bytes; instructions of a warp per 32 elements (of the largest tensor). Counts are the
 * same in every run. A plain kernel with another result than the reference's is an error.
 *
 * Usage: kernels [PART OF A FAMILY OR JOB]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/text.h"
#include "runtime/compile.h"
#include "tests/support/batch.h"
#include "tests/support/emu_device.h"
#include "tests/support/random_graph.h"

enum { MOST_TENSORS = 16 };

typedef struct {
  const char *family, *name, *graph;
  unsigned grid, block;
  const char *source;
} job_t;

static const job_t jobs[] = {
#define KILN_JOB(family, name, graph, grid, block, source) {family, name, graph, grid, block, source},
#include "bench/kernels.def"
#undef KILN_JOB
};

typedef struct {
  double bytes, sectors, wavefronts, instructions, wide;
} counts_t;

static counts_t counts_of(const kiln_emu_counters_t *counters) {
  return (counts_t){.bytes = (double)counters->bytes_moved,
                    .sectors = (double)(counters->global_load_sectors + counters->global_store_sectors),
                    .wavefronts = (double)counters->shared_wavefronts,
                    .instructions = (double)counters->instructions,
                    .wide = (double)counters->global_wide_accesses / (double)counters->global_accesses};
}

static void fail(const job_t *job, const char *what) {
  fprintf(stderr, "bench/kernels: %s, %s: %s\n", job->family, job->name, what);
  exit(1);
}

static const kiln_graph_t *parse(kiln_arena_t *arena, const job_t *job) {
  kiln_graph_list_t list = {0};
  kiln_status_t status = kiln_text_parse(arena, job->name, job->graph, strlen(job->graph), &list);
  if (status) fail(job, kiln_status_message(status));
  return list.graphs[0];
}

static uint64_t tensor_bytes(const kiln_tensor_t *tensor) {
  uint64_t bytes = kiln_dtype_bytes(tensor->dtype);
  for (uint32_t i = 0; i < tensor->rank; i++) bytes *= (uint64_t)tensor->sizes[i];
  return bytes;
}

static double larger(double elements, const kiln_tensor_t *tensor) {
  double own = (double)tensor_bytes(tensor) / (double)kiln_dtype_bytes(tensor->dtype);
  return own > elements ? own : elements;
}

/* --- the two sides
 * ------------------------------------------------------------------------------------------- */

static void compare(const job_t *job, const char *side, const kiln_reference_t *expected,
                    const kiln_tensor_t *outputs, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    if (kiln_reference_compare(&expected[i], &outputs[i]).wrong) fail(job, side);
  }
}

static counts_t count_generated(kiln_arena_t *arena, const job_t *job, const kiln_graph_t *graph,
                                const kiln_tensor_t *inputs, kiln_tensor_t *outputs,
                                const kiln_reference_t *expected) {
  static const kiln_options_t plain = {0};
  static const kiln_symbol_class_t any_size = {{1, 1, 1, 1, 1, 1, 1, 1}, false};
  const int64_t symbols[KILN_MAX_SYMBOLS] = {0};
  kiln_batch_t *batch = kiln_batch_create(arena, "sm_90");
  kiln_batch_add(batch, graph, &plain, &any_size, NULL);
  kiln_batch_compile(batch);
  kiln_batch_run(batch, 0, symbols, inputs, outputs);
  compare(job, "the generated kernel's result is wrong", expected, outputs, graph->output_count);
  kiln_emu_counters_t counters = kiln_batch_counters(batch, 0, symbols, inputs);
  kiln_batch_destroy(batch);
  return counts_of(&counters);
}

static CUfunction load_plain(kiln_arena_t *arena, const job_t *job) {
  kiln_target_t target;
  kiln_compiler_t *compiler = NULL;
  kiln_kernel_artifact_t artifact;
  CUmodule module = NULL;
  kiln_status_t status = kiln_target_parse("sm_90", &target);
  if (!status) status = kiln_compiler_create(NULL, &compiler);
  if (status) fail(job, kiln_status_message(status));
  status = kiln_compiler_compile(compiler, arena, job->source, "plain", &target, KILN_IMAGE_PTX, &artifact);
  kiln_compiler_destroy(compiler);
  if (status) fail(job, kiln_status_detail(status, "log"));
  EMU_OK(cuModuleLoadData(&module, artifact.ptx));
  return emu_function(module, "plain");
}

static counts_t count_plain(kiln_arena_t *arena, const job_t *job, const kiln_graph_t *graph,
                            const kiln_tensor_t *inputs, kiln_tensor_t *outputs,
                            const kiln_reference_t *expected) {
  CUdeviceptr addresses[MOST_TENSORS];
  void *arguments[MOST_TENSORS];
  void *state;
  emu_setup(&state);
  EMU_OK(kilnEmuSetCounting(1));
  CUfunction plain = load_plain(arena, job);
  for (uint32_t i = 0; i < graph->input_count; i++)
    addresses[i] = emu_upload(inputs[i].data, tensor_bytes(&inputs[i]));
  for (uint32_t i = 0; i < graph->output_count; i++)
    addresses[graph->input_count + i] = emu_alloc(tensor_bytes(&outputs[i]));
  for (uint32_t i = 0; i < graph->input_count + graph->output_count; i++) arguments[i] = &addresses[i];
  EMU_OK(emu_run(plain, job->grid, job->block, 0, arguments));
  for (uint32_t i = 0; i < graph->output_count; i++)
    emu_download(outputs[i].data, addresses[graph->input_count + i], tensor_bytes(&outputs[i]));
  compare(job, "the plain kernel's result is wrong", expected, outputs, graph->output_count);
  kiln_emu_counters_t counters = emu_last_launch().counters;
  for (uint32_t i = 0; i < graph->input_count + graph->output_count; i++) EMU_OK(cuMemFree_v2(addresses[i]));
  if (emu_teardown(&state)) fail(job, "the plain kernel does what it must not");
  return counts_of(&counters);
}

/* --- the table
 * ----------------------------------------------------------------------------------------------- */

static void print_counts(const counts_t *counts, double bytes, double elements) {
  printf("  %6.3f %7.3f %6.2f %5.2f %8.2f", counts->bytes / bytes, counts->sectors * 32 / bytes,
         counts->wavefronts * 128 / bytes, counts->wide, counts->instructions * 32 / elements);
}

static void run_job(const job_t *job) {
  const int64_t symbols[KILN_MAX_SYMBOLS] = {0};
  int64_t sizes[KILN_MAX_RANK];
  double bytes = 0, elements = 0;
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  const kiln_graph_t *graph = parse(&arena, job);
  kiln_tensor_t *inputs = KILN_NEW_ARRAY(&arena, kiln_tensor_t, graph->input_count);
  kiln_tensor_t *outputs = KILN_NEW_ARRAY(&arena, kiln_tensor_t, graph->output_count);
  if (graph->input_count + graph->output_count > MOST_TENSORS) fail(job, "too many tensors");
  kiln_random_inputs(&arena, graph, 1, symbols, inputs);
  for (uint32_t i = 0; i < graph->input_count; i++) {
    bytes += (double)tensor_bytes(&inputs[i]);
    elements = larger(elements, &inputs[i]);
  }
  for (uint32_t i = 0; i < graph->output_count; i++) {
    const kiln_type_t *type = &graph->types[graph->outputs[i]];
    if (kiln_type_sizes(type, symbols, sizes) ||
        kiln_tensor_create(&arena, type->dtype, type->rank, sizes, &outputs[i]))
      fail(job, "its outputs are too large");
    bytes += (double)tensor_bytes(&outputs[i]);
    elements = larger(elements, &outputs[i]);
  }
  kiln_reference_t *expected = KILN_NEW_ARRAY(&arena, kiln_reference_t, graph->output_count);
  if (kiln_reference_run(&arena, graph, symbols, inputs, 0, expected)) fail(job, "the reference failed");
  counts_t generated = count_generated(&arena, job, graph, inputs, outputs, expected);
  counts_t plain = count_plain(&arena, job, graph, inputs, outputs, expected);
  printf("%-12s %-24s", job->family, job->name);
  print_counts(&generated, bytes, elements);
  print_counts(&plain, bytes, elements);
  printf("\n");
  fflush(stdout);
  kiln_arena_deinit(&arena);
}

int main(int argc, char **argv) {
  printf("%-12s %-24s  %-36s  %-36s\n", "", "", "generated", "plain");
  printf("%-12s %-24s", "family", "job");
  for (int i = 0; i < 2; i++) printf("  %6s %7s %6s %5s %8s", "bytes", "sectors", "banks", "wide", "instr");
  printf("\n");
  for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
    if (argc < 2 || strstr(jobs[i].family, argv[1]) || strstr(jobs[i].name, argv[1])) run_job(&jobs[i]);
  }
  return 0;
}
