/* tests/support/batch.c: bulk execution of graphs for tests (tests/support/batch.h). */
#include "tests/support/batch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ir/text.h"
#include "tests/support/merge.h"
#include "tests/support/test_device.h"

typedef struct {
  kiln_options_t options;
  kiln_pipeline_t pipeline;
  kiln_kernel_source_t *kernels; /* with entry names of their own */
  kiln_executable_t *executable;
} job_t;

/* A source that the translation unit has already, and the entry that it got there. */
typedef struct {
  const char *source, *entry;
} known_kernel_t;

struct kiln_batch {
  kiln_arena_t *arena;
  kiln_target_t target;
  kiln_buffer_t source;
  job_t *jobs;
  size_t job_count, job_capacity;
  known_kernel_t *known;
  size_t known_count, known_capacity;
  kiln_compiler_t *compiler, *own_compiler; /* own: to be destroyed */
  kiln_kernel_artifact_t artifact;
  kiln_device_t *device;
  bool misaligned;
};

static void require(kiln_status_t status, const char *what) {
  if (!status) return;
  const char *log = kiln_status_detail(status, "log"), *report = kiln_status_detail(status, "report");
  fail_msg("%s: %s\n%s%s", what, kiln_status_message(status), log ? log : "", report ? report : "");
}

kiln_batch_t *kiln_batch_create(kiln_arena_t *arena, const char *arch) {
  kiln_batch_t *batch = KILN_NEW(arena, kiln_batch_t);
  batch->arena = arena;
  kiln_buffer_init(&batch->source);
  require(kiln_target_parse(arch, &batch->target), "target");
  if (test_on_cuda()) { /* it takes cubins of its own architecture */
    batch->device = test_device_open();
    batch->target = kiln_device_info(batch->device)->target;
  }
  return batch;
}

void kiln_batch_destroy(kiln_batch_t *batch) {
  for (size_t i = 0; batch->device && i < batch->job_count; i++) {
    if (batch->jobs[i].executable) kiln_device_unload(batch->device, batch->jobs[i].executable);
  }
  if (batch->device) kiln_device_destroy(batch->device);
  kiln_compiler_destroy(batch->own_compiler);
  kiln_buffer_deinit(&batch->source);
}

void kiln_batch_use_compiler(kiln_batch_t *batch, kiln_compiler_t *compiler) { batch->compiler = compiler; }

void kiln_batch_misalign(kiln_batch_t *batch) { batch->misaligned = true; }

/* The kernel's source, as one of many in a translation unit; each source once. */
static void append_kernel(kiln_batch_t *batch, kiln_kernel_source_t *kernel) {
  for (size_t i = 0; i < batch->known_count; i++) {
    if (strcmp(batch->known[i].source, kernel->source)) continue;
    kernel->entry = batch->known[i].entry;
    return;
  }
  unsigned number = (unsigned)batch->known_count;
  const char *entry = kiln_arena_printf(batch->arena, "%s_%u", kernel->entry, number);
  kiln_buffer_printf(&batch->source, "#define %s %s\nnamespace kernel_%u {\n%s}\n#undef %s\n", kernel->entry,
                     entry, number, kernel->source, kernel->entry);
  KILN_PUSH(batch->arena, batch->known, batch->known_count, batch->known_capacity,
            (known_kernel_t){kernel->source, entry});
  kernel->entry = entry;
}

static uint32_t add_job(kiln_batch_t *batch, job_t job) {
  uint32_t count = job.pipeline.grouping->group_count;
  job.kernels = kiln_arena_copy(batch->arena, job.pipeline.kernels, count * sizeof *job.kernels);
  for (uint32_t i = 0; i < count; i++) append_kernel(batch, &job.kernels[i]);
  job.pipeline.kernels = job.kernels;
  KILN_PUSH(batch->arena, batch->jobs, batch->job_count, batch->job_capacity, job);
  return (uint32_t)batch->job_count - 1;
}

kiln_status_t kiln_batch_try_add(kiln_batch_t *batch, const kiln_graph_t *graph,
                                 const kiln_options_t *options, const kiln_symbol_class_t *symbol_class,
                                 const kiln_pass_run_t *run, uint32_t *out_number) {
  job_t job = {.options = *options};
  kiln_status_t status =
      kiln_pipeline_generate(batch->arena, graph, &batch->target, options, symbol_class, run, &job.pipeline);
  if (status) return kiln_error_note(status, "generating");
  *out_number = add_job(batch, job);
  return NULL;
}

uint32_t kiln_batch_add(kiln_batch_t *batch, const kiln_graph_t *graph, const kiln_options_t *options,
                        const kiln_symbol_class_t *symbol_class, const kiln_pass_run_t *run) {
  uint32_t number = 0;
  require(kiln_batch_try_add(batch, graph, options, symbol_class, run, &number), "adding");
  return number;
}

kiln_status_t kiln_batch_try_add_regrouped(kiln_batch_t *batch, const kiln_graph_t *graph, bool merges,
                                           const kiln_symbol_class_t *symbol_class,
                                           const kiln_pass_run_t *run, uint32_t *out_number) {
  static const kiln_options_t options = {0};
  job_t job = {0};
  kiln_pipeline_t *pipeline = &job.pipeline;
  kiln_families_t families = kiln_codegen_families();
  KILN_TRY(kiln_pipeline_optimize(batch->arena, graph, &batch->target, &options, run, pipeline));
  pipeline->grouping = merges ? kiln_test_merge(batch->arena, pipeline->optimized, pipeline->grouping,
                                                &families, &batch->target)
                              : kiln_test_separate(batch->arena, pipeline->grouping);
  uint32_t count = pipeline->grouping->group_count;
  kiln_kernel_source_t *kernels = KILN_NEW_ARRAY(batch->arena, kiln_kernel_source_t, count);
  kiln_codegen_context_t context = {&batch->target, &options, symbol_class, &pipeline->guards, NULL, NULL};
  for (uint32_t i = 0; i < count; i++)
    KILN_TRY(
        kiln_codegen_group(batch->arena, pipeline->optimized, pipeline->grouping, i, &context, &kernels[i]));
  pipeline->kernels = kernels;
  *out_number = add_job(batch, job);
  return NULL;
}

uint32_t kiln_batch_add_regrouped(kiln_batch_t *batch, const kiln_graph_t *graph, bool merges,
                                  const kiln_symbol_class_t *symbol_class, const kiln_pass_run_t *run) {
  uint32_t number = 0;
  require(kiln_batch_try_add_regrouped(batch, graph, merges, symbol_class, run, &number), "adding");
  return number;
}

uint32_t kiln_batch_count(const kiln_batch_t *batch) { return (uint32_t)batch->job_count; }
uint32_t kiln_batch_kernel_count(const kiln_batch_t *batch) { return (uint32_t)batch->known_count; }

const kiln_pipeline_t *kiln_batch_pipeline(const kiln_batch_t *batch, uint32_t number) {
  return &batch->jobs[number].pipeline;
}

static void keep_source(const kiln_batch_t *batch) {
  const char *path = getenv("KILN_KEEP_SOURCE");
  FILE *file = path ? fopen(path, "w") : NULL;
  if (!file) return;
  fputs(kiln_buffer_text(&batch->source), file);
  fclose(file);
}

static kiln_status_t compile(kiln_batch_t *batch, kiln_image_kind_t kind) {
  keep_source(batch);
  if (!batch->compiler) {
    KILN_TRY(kiln_compiler_create(NULL, &batch->own_compiler));
    batch->compiler = batch->own_compiler;
  }
  return kiln_compiler_compile(batch->compiler, batch->arena, kiln_buffer_text(&batch->source),
                               "kiln_elementwise_0", &batch->target, kind, &batch->artifact);
}

kiln_status_t kiln_batch_try_compile(kiln_batch_t *batch) {
  return compile(batch, test_on_cuda() ? KILN_IMAGE_CUBIN : KILN_IMAGE_PTX);
}

const char *kiln_batch_compile(kiln_batch_t *batch) {
  require(kiln_batch_try_compile(batch), "compiling");
  return batch->artifact.ptx;
}

void kiln_batch_assemble(kiln_batch_t *batch) { require(compile(batch, KILN_IMAGE_CUBIN), "assembling"); }

kiln_kernel_artifact_t kiln_batch_resources(const kiln_batch_t *batch, uint32_t number, uint32_t kernel) {
  kiln_kernel_artifact_t artifact = {.entry = batch->jobs[number].kernels[kernel].entry};
  kiln_kernel_artifact_read_log(&artifact, batch->artifact.log);
  return artifact;
}

static void print_job(const kiln_batch_t *batch, uint32_t number) {
  const kiln_pipeline_t *pipeline = &batch->jobs[number].pipeline;
  kiln_buffer_t text;
  kiln_buffer_init(&text);
  kiln_text_print(batch->arena, &text, pipeline->input);
  kiln_text_print(batch->arena, &text, pipeline->optimized);
  for (uint32_t i = 0; i < pipeline->grouping->group_count; i++)
    kiln_buffer_puts(&text, pipeline->kernels[i].source);
  fputs(kiln_buffer_text(&text), stderr); /* cmocka cuts long messages */
  kiln_buffer_deinit(&text);
}

static kiln_status_t open_device(kiln_batch_t *batch) {
  kiln_device_spec_t spec;
  if (batch->device) return NULL;
  KILN_TRY(kiln_device_spec_parse("emulated", &spec));
  KILN_TRY(kiln_device_create(&spec, &batch->device));
  kiln_device_misalign(batch->device, batch->misaligned);
  return kiln_device_check(batch->device, "all");
}

/* All kernels lie in one module, under one key. */
static kiln_status_t load(kiln_batch_t *batch, job_t *job) {
  uint32_t count = job->pipeline.grouping->group_count;
  kiln_digest_t *keys = KILN_NEW_ARRAY(batch->arena, kiln_digest_t, count);
  kiln_kernel_artifact_t *artifacts = KILN_NEW_ARRAY(batch->arena, kiln_kernel_artifact_t, count);
  for (uint32_t i = 0; i < count; i++) artifacts[i] = batch->artifact;
  KILN_TRY(open_device(batch));
  const kiln_plan_t *plan = kiln_pipeline_plan(batch->arena, &job->pipeline, keys);
  return kiln_device_load(batch->device, plan, artifacts, &job->executable);
}

static kiln_status_t span_of(kiln_batch_t *batch, const kiln_plan_tensor_t *tensor, const int64_t *symbols,
                             int64_t *strides, kiln_host_span_t *out) {
  uint64_t bytes = 0;
  KILN_TRY(kiln_plan_tensor_bytes(tensor, symbols, &bytes));
  for (uint32_t i = 0; i < tensor->type.rank; i++)
    assert_true(kiln_dim_eval(tensor->strides[i], symbols, &strides[i]));
  *out = (kiln_host_span_t){kiln_arena_alloc(batch->arena, bytes), bytes};
  return NULL;
}

/* The logical tensor that an output's storage holds. */
static kiln_status_t gather_output(kiln_batch_t *batch, const kiln_plan_tensor_t *tensor,
                                   const int64_t *symbols, const void *storage, kiln_tensor_t *out) {
  int64_t strides[KILN_MAX_RANK], sizes[KILN_MAX_RANK];
  for (uint32_t i = 0; i < tensor->type.rank; i++)
    assert_true(kiln_dim_eval(tensor->strides[i], symbols, &strides[i]));
  KILN_TRY(kiln_type_sizes(&tensor->type, symbols, sizes));
  KILN_TRY(kiln_tensor_create(batch->arena, tensor->type.dtype, tensor->type.rank, sizes, out));
  kiln_storage_gather(out, storage, strides);
  return NULL;
}

kiln_status_t kiln_batch_try_run(kiln_batch_t *batch, uint32_t number, const int64_t *symbols,
                                 const kiln_tensor_t *inputs, kiln_tensor_t *outputs) {
  job_t *job = &batch->jobs[number];
  if (!job->executable) KILN_TRY(load(batch, job));
  const kiln_graph_t *graph = job->pipeline.optimized;
  kiln_digest_t *keys = KILN_NEW_ARRAY(batch->arena, kiln_digest_t, job->pipeline.grouping->group_count);
  const kiln_plan_t *plan = kiln_pipeline_plan(batch->arena, &job->pipeline, keys);
  kiln_host_span_t *in = KILN_NEW_ARRAY(batch->arena, kiln_host_span_t, graph->input_count);
  kiln_host_span_t *out = KILN_NEW_ARRAY(batch->arena, kiln_host_span_t, graph->output_count);
  int64_t strides[KILN_MAX_RANK];
  for (uint32_t i = 0; i < graph->input_count; i++) {
    KILN_TRY(span_of(batch, &plan->inputs[i], symbols, strides, &in[i]));
    kiln_storage_scatter(in[i].data, strides, &inputs[i]);
  }
  for (uint32_t i = 0; i < graph->output_count; i++)
    KILN_TRY(span_of(batch, &plan->outputs[i], symbols, strides, &out[i]));
  KILN_TRY(kiln_device_execute(batch->device, job->executable, symbols, in, out, NULL));
  for (uint32_t i = 0; i < graph->output_count; i++)
    KILN_TRY(gather_output(batch, &plan->outputs[i], symbols, out[i].data, &outputs[i]));
  return NULL;
}

void kiln_batch_run(kiln_batch_t *batch, uint32_t number, const int64_t *symbols, const kiln_tensor_t *inputs,
                    kiln_tensor_t *outputs) {
  kiln_status_t status = kiln_batch_try_run(batch, number, symbols, inputs, outputs);
  if (status) print_job(batch, number);
  require(status, "executing");
}

/* The sum of a field over the launches that JSON lists. */
static uint64_t sum_of(const char *json, const char *name) {
  char field[64];
  uint64_t total = 0;
  snprintf(field, sizeof field, "\"%s\":", name);
  for (const char *at = json; (at = strstr(at, field));) total += strtoull(at += strlen(field), NULL, 10);
  return total;
}

kiln_emu_counters_t kiln_batch_counters(kiln_batch_t *batch, uint32_t number, const int64_t *symbols,
                                        const kiln_tensor_t *inputs) {
  test_needs_emulated("counters");
  uint32_t count = batch->jobs[number].pipeline.optimized->output_count;
  kiln_tensor_t *outputs = KILN_NEW_ARRAY(batch->arena, kiln_tensor_t, count);
  require(open_device(batch), "device");
  require(kiln_device_count(batch->device, true), "counting");
  kiln_batch_run(batch, number, symbols, inputs, outputs);
  kiln_buffer_t json;
  kiln_buffer_init(&json);
  require(kiln_device_counters(batch->device, &json), "counters");
  require(kiln_device_count(batch->device, false), "counting");
  kiln_emu_counters_t counters;
#define SUM(name, text) counters.name = sum_of(kiln_buffer_text(&json), #name);
  KILN_EMU_COUNTERS(SUM)
#undef SUM
  kiln_buffer_deinit(&json);
  return counters;
}

uint64_t kiln_batch_counter(kiln_batch_t *batch, uint32_t number, const int64_t *symbols,
                            const kiln_tensor_t *inputs, const char *name) {
  kiln_emu_counters_t counters = kiln_batch_counters(batch, number, symbols, inputs);
#define FIND(field, text)                                                                                    \
  if (!strcmp(#field, name)) return counters.field;
  KILN_EMU_COUNTERS(FIND)
#undef FIND
  fail_msg("no counter %s", name);
  return 0;
}

kiln_status_t kiln_batch_compare(const kiln_reference_t *expected, const kiln_tensor_t *got, uint32_t count,
                                 kiln_batch_tally_t *tally) {
  for (uint32_t i = 0; i < count; i++) {
    kiln_comparison_t c = kiln_reference_compare(&expected[i], &got[i]);
    if (tally) {
      tally->elements += (uint64_t)c.elements;
      tally->undecided += (uint64_t)c.undecided;
    }
    if (!c.wrong) continue;
    return kiln_error(
        KILN_INTERNAL, "output %u: %lld of %lld elements are wrong, first %lld: %a instead of %a (bound %g)",
        i, (long long)c.wrong, (long long)c.elements, (long long)c.first_wrong, c.got, c.expected, c.bound);
  }
  return NULL;
}

void kiln_batch_check(kiln_batch_t *batch, uint32_t number, const int64_t *symbols,
                      const kiln_tensor_t *inputs, const char *what) {
  const kiln_graph_t *graph = batch->jobs[number].pipeline.input;
  kiln_reference_t *expected = KILN_NEW_ARRAY(batch->arena, kiln_reference_t, graph->output_count);
  kiln_tensor_t *got = KILN_NEW_ARRAY(batch->arena, kiln_tensor_t, graph->output_count);
  require(kiln_reference_run_with(batch->arena, graph, &batch->jobs[number].options, symbols, inputs, 0,
                                  expected),
          what);
  kiln_batch_run(batch, number, symbols, inputs, got);
  kiln_status_t status = kiln_batch_compare(expected, got, graph->output_count, NULL);
  if (status) print_job(batch, number);
  require(status, what);
}
