/* client/cli_local.c: a graph compiled, and run, in this process; see cli_local.h.
 *
 *   pipeline -> one NVRTC compile per distinct kernel -> plan -> device -> outputs
 */
#include "client/cli_local.h"

#include "base/clock.h"
#include "base/map.h"
#include "ir/canonical.h"

#include <stdlib.h>
#include <string.h>

/* -- compiling ------------------------------------------------------------------------------------------ */

static void destroy_compiler(void *compiler) { kiln_compiler_destroy(compiler); }
static void destroy_device(void *device) { kiln_device_destroy(device); }

kiln_status_t kiln_cli_open_compiler(kiln_cli_t *cli, kiln_compiler_t **out_compiler) {
  KILN_TRY(kiln_compiler_create(NULL, out_compiler));
  kiln_arena_defer(cli->arena, destroy_compiler, *out_compiler);
  return NULL;
}

/* What is compiled already, over all rounds of planning. */
typedef struct {
  kiln_cli_t *cli;
  kiln_compiler_t *compiler;
  const kiln_target_t *target;
  kiln_image_kind_t kind;
  kiln_map_t *by_key; /* -> built_t * */
  kiln_cli_compiled_t *out;
} build_t;

typedef struct {
  kiln_kernel_artifact_t artifact;
  uint64_t compile_ns;
} built_t;

static kiln_status_t build_kernel(build_t *build, const kiln_digest_t *key,
                                  const kiln_kernel_source_t *kernel, built_t **out) {
  bool is_new;
  uint64_t *place = kiln_map_put(build->by_key, key, sizeof *key, &is_new);
  if (is_new) {
    built_t *built = KILN_NEW(build->cli->arena, built_t);
    uint64_t started_ns = kiln_clock_monotonic_ns();
    *place = (uintptr_t)built;
    build->out->distinct_kernels++;
    KILN_TRY(kiln_compiler_compile(build->compiler, build->cli->arena, kernel->source, kernel->entry,
                                   build->target, build->kind, &built->artifact));
    built->compile_ns = kiln_clock_monotonic_ns() - started_ns;
  }
  *out = (built_t *)(uintptr_t)*place;
  return NULL;
}

/* Compiles each distinct kernel once; kernels with one key share an artifact. Adds verdicts on those that are
 * unfit. */
static kiln_status_t compile_kernels(build_t *build) {
  kiln_cli_compiled_t *out = build->out;
  kiln_arena_t *arena = build->cli->arena;
  uint32_t count = out->pipeline.grouping->group_count, round = verdicts_next_round(&out->verdicts);
  kiln_digest_t *keys = KILN_NEW_ARRAY(arena, kiln_digest_t, count);
  kiln_kernel_artifact_t *artifacts = KILN_NEW_ARRAY(arena, kiln_kernel_artifact_t, count);
  for (uint32_t i = 0; i < count; i++) {
    const kiln_kernel_source_t *kernel = &out->pipeline.kernels[i];
    built_t *built;
    kiln_cli_progress("compiling kernel %u of %u", i + 1, count);
    keys[i] =
        kiln_pipeline_kernel_key(kernel->source, build->target, kiln_compiler_identity(build->compiler));
    KILN_TRY(build_kernel(build, &keys[i], kernel, &built));
    artifacts[i] = built->artifact;
    bool judged = round < VERDICT_MAX_ROUNDS && !kiln_pipeline_stands(&out->pipeline, i);
    const char *why = judged ? verdict_of(arena, &artifacts[i], built->compile_ns, VERDICT_SLOW_NS) : NULL;
    if (why) verdicts_add(arena, &out->verdicts, round, i, why);
  }
  out->kernel_keys = keys;
  out->artifacts = artifacts;
  return NULL;
}

/* As the daemon does: plans once more while kernels are unfit (server/verdict.h). */
static kiln_status_t compile_until_fit(build_t *build, const kiln_options_t *options) {
  kiln_cli_compiled_t *out = build->out;
  for (;;) {
    size_t judged = out->verdicts.count;
    KILN_TRY(compile_kernels(build));
    if (out->verdicts.count == judged) return NULL;
    const verdicts_t added = {out->verdicts.items + judged, out->verdicts.count - judged, 0};
    KILN_TRY(verdicts_apply(build->cli->arena, &added, build->target, options, &out->symbol_class,
                            &out->pipeline));
  }
}

kiln_options_t kiln_cli_code_options(const kiln_cli_t *cli) {
  return (kiln_options_t){.allow_tf32 = kiln_cli_flag(cli, "--allow-tf32")};
}

kiln_status_t kiln_cli_compile_local(kiln_cli_t *cli, kiln_compiler_t *compiler, const kiln_graph_t *graph,
                                     const int64_t *symbols, const kiln_target_t *target,
                                     kiln_image_kind_t kind, kiln_cli_compiled_t *out) {
  kiln_options_t options = kiln_cli_code_options(cli);
  uint64_t started_ns = kiln_clock_monotonic_ns();
  /* Of the canonical graph, as the daemon's, so that keys are the same. */
  kiln_extents_t extents =
      kiln_pipeline_extents(cli->arena, cli->arena, kiln_graph_canonicalize(cli->arena, graph));
  *out = (kiln_cli_compiled_t){.symbol_class =
                                   kiln_pipeline_symbol_class(&extents, graph->symbol_count, symbols)};
  KILN_TRY(
      kiln_pipeline_generate(cli->arena, graph, target, &options, &out->symbol_class, NULL, &out->pipeline));
  out->key = kiln_pipeline_plan_key(cli->arena, out->pipeline.input, target, &options, &out->symbol_class,
                                    kiln_compiler_identity(compiler));
  uint64_t planned_ns = kiln_clock_monotonic_ns();
  build_t build = {cli, compiler, target, kind, kiln_map_create(cli->arena), out};
  KILN_TRY(compile_until_fit(&build, &options));
  out->plan = kiln_pipeline_plan(cli->arena, &out->pipeline, out->kernel_keys);
  out->plan_ns = planned_ns - started_ns;
  out->compile_ns = kiln_clock_monotonic_ns() - planned_ns;
  return NULL;
}

/* -- running -------------------------------------------------------------------------------------------- */

kiln_status_t kiln_cli_open_device(kiln_cli_t *cli, kiln_device_t **out_device) {
  const char *text = kiln_cli_value(cli, "--device");
  kiln_device_spec_t spec;
  KILN_TRY(kiln_device_spec_parse(text ? text : "auto", &spec));
  KILN_TRY(kiln_device_create(&spec, out_device));
  kiln_arena_defer(cli->arena, destroy_device, *out_device);
  const kiln_device_info_t *info = kiln_device_info(*out_device);
  if (spec.kind == KILN_DEVICE_AUTO && info->emulated)
    fprintf(stderr, "kiln: no GPU was found: running on the emulated device (%s)\n", info->name);
  return NULL;
}

/* Those of --checkers; else those that the environment names (the device has them on already); else all when
 * the results are checked too, which takes longer than they do. */
static kiln_status_t choose_checkers(kiln_cli_t *cli, kiln_device_t *device) {
  const char *given = kiln_cli_value(cli, "--checkers");
  if (given) return kiln_device_check(device, given);
  bool is_default = !getenv("KILN_EMU_CHECKS") && kiln_device_info(device)->emulated;
  return is_default && kiln_cli_flag(cli, "--check") ? kiln_device_check(device, "all") : NULL;
}

static kiln_status_t upload_form(kiln_arena_t *arena, const kiln_graph_t *graph,
                                 const kiln_cli_values_t *values, kiln_host_span_t *inputs) {
  for (uint32_t i = 0; i < graph->input_count; i++) {
    kiln_cli_bytes_t bytes;
    KILN_TRY(kiln_cli_input_storage(arena, graph, i, values, &bytes));
    inputs[i] = (kiln_host_span_t){bytes.data, bytes.size_bytes};
  }
  return NULL;
}

/* Logical outputs, and the storage behind them. */
static kiln_status_t prepare_outputs(kiln_arena_t *arena, const kiln_graph_t *graph, const int64_t *symbols,
                                     kiln_tensor_t *outputs, kiln_host_span_t *spans) {
  for (uint32_t i = 0; i < graph->output_count; i++) {
    kiln_cli_bytes_t bytes;
    KILN_TRY(kiln_cli_output_storage(arena, graph, i, symbols, &outputs[i], &bytes));
    spans[i] = (kiln_host_span_t){bytes.data, bytes.size_bytes};
  }
  return NULL;
}

static void keep_fastest(kiln_cli_execution_t *best, const kiln_execution_timings_t *timings, bool is_first) {
  uint64_t total_ns = timings->upload_ns + timings->launch_ns + timings->download_ns;
  if (!is_first && total_ns >= best->upload_ns + best->launch_ns + best->download_ns) return;
  best->upload_ns = timings->upload_ns;
  best->launch_ns = timings->launch_ns;
  best->download_ns = timings->download_ns;
  best->launches = timings->launches;
  best->realigned = timings->realigned;
}

static kiln_status_t read_counters(kiln_cli_t *cli, kiln_device_t *device, kiln_cli_execution_t *out) {
  kiln_buffer_t json;
  kiln_buffer_init(&json);
  kiln_status_t status = kiln_device_counters(device, &json);
  if (!status && json.failed) status = kiln_error(KILN_OUT_OF_MEMORY, "no memory for the counters");
  if (!status) out->counters = kiln_arena_strdup(cli->arena, kiln_buffer_text(&json));
  kiln_buffer_deinit(&json);
  return status;
}

/* An executable goes before its device. */
typedef struct {
  kiln_device_t *device;
  kiln_executable_t *executable;
} loaded_t;

static void unload(void *argument) {
  const loaded_t *loaded = argument;
  kiln_device_unload(loaded->device, loaded->executable);
}

static kiln_status_t load(kiln_cli_t *cli, kiln_device_t *device, const kiln_cli_compiled_t *compiled,
                          kiln_executable_t **out_executable) {
  loaded_t *loaded = KILN_NEW(cli->arena, loaded_t);
  loaded->device = device;
  KILN_TRY(kiln_device_load(device, compiled->plan, compiled->artifacts, &loaded->executable));
  kiln_arena_defer(cli->arena, unload, loaded);
  *out_executable = loaded->executable;
  return NULL;
}

/* Counts the last execution only. */
static kiln_status_t execute(kiln_cli_t *cli, kiln_device_t *device, const kiln_cli_compiled_t *compiled,
                             const kiln_graph_t *graph, const kiln_cli_values_t *values,
                             const kiln_cli_run_t *run, kiln_cli_execution_t *out) {
  kiln_executable_t *executable;
  kiln_host_span_t *inputs = KILN_NEW_ARRAY(cli->arena, kiln_host_span_t, graph->input_count);
  kiln_host_span_t *spans = KILN_NEW_ARRAY(cli->arena, kiln_host_span_t, graph->output_count);
  out->outputs = KILN_NEW_ARRAY(cli->arena, kiln_tensor_t, graph->output_count);
  KILN_TRY(load(cli, device, compiled, &executable));
  KILN_TRY(upload_form(cli->arena, graph, values, inputs));
  KILN_TRY(prepare_outputs(cli->arena, graph, values->symbols, out->outputs, spans));
  for (int64_t i = 0; i < run->repeat; i++) {
    kiln_execution_timings_t timings;
    kiln_cli_progress("execution %lld of %lld", (long long)i + 1, (long long)run->repeat);
    if (run->counters && i + 1 == run->repeat) KILN_TRY(kiln_device_count(device, true));
    KILN_TRY(kiln_device_execute(device, executable, values->symbols, inputs, spans, &timings));
    keep_fastest(out, &timings, !i);
  }
  for (uint32_t i = 0; i < graph->output_count; i++)
    KILN_TRY(kiln_cli_read_storage(graph, i, values->symbols, spans[i].data, &out->outputs[i]));
  return run->counters ? read_counters(cli, device, out) : NULL;
}

kiln_status_t kiln_cli_run_local(kiln_cli_t *cli, const kiln_graph_t *graph, const kiln_cli_values_t *values,
                                 const kiln_cli_run_t *run, kiln_cli_execution_t *out) {
  kiln_device_t *device;
  kiln_compiler_t *compiler;
  kiln_cli_compiled_t compiled;
  KILN_TRY(kiln_cli_open_device(cli, &device));
  KILN_TRY(choose_checkers(cli, device));
  KILN_TRY(kiln_cli_open_compiler(cli, &compiler));
  const kiln_device_info_t *info = kiln_device_info(device);
  KILN_TRY(kiln_cli_compile_local(cli, compiler, graph, values->symbols, &info->target, info->image_kind,
                                  &compiled));
  *out = (kiln_cli_execution_t){.cache = "compiled",
                                .device = kiln_arena_strdup(cli->arena, info->name),
                                .kernels_compiled = compiled.distinct_kernels,
                                .plan_ns = compiled.plan_ns,
                                .compile_ns = compiled.compile_ns};
  kiln_digest_hex(&compiled.key, out->key);
  return execute(cli, device, &compiled, graph, values, run, out);
}
