/* client/cli_run.c: `kiln run`: a graph executed once or more, its results checked, written, reported.
 *
 *   file -> graph -> symbols and inputs -> daemon, or this process with --local -> outputs
 *        -> [reference evaluator] -> [DIR/NAME.npy] -> report
 */
#include "client/cli_run.h"
#include "base/launch_text.h"
#include "client/cli_daemon.h"
#include "client/cli_json.h"
#include "client/cli_local.h"
#include "client/cli_verify.h"

#include <string.h>

enum { MAX_TIMEOUT_S = 86400 };

/* -- the check ------------------------------------------------------------------------------------------ */

static kiln_status_t check(kiln_cli_t *cli, const kiln_graph_t *graph, const kiln_cli_values_t *values,
                           const kiln_cli_execution_t *execution, kiln_cli_check_t *out) {
  kiln_reference_t *references = KILN_NEW_ARRAY(cli->arena, kiln_reference_t, graph->output_count);
  const kiln_options_t options = kiln_cli_code_options(cli);
  kiln_cli_progress("evaluating the reference");
  kiln_status_t status =
      kiln_reference_run_with(cli->arena, graph, &options, values->symbols, values->inputs, 0, references);
  if (kiln_status_code(status) == KILN_TOO_LARGE)
    return kiln_error_note(status, "checking: give smaller symbols, or leave out --check");
  if (status) return kiln_error_note(status, "evaluating the reference");
  *out = kiln_cli_compare(cli, graph, references, execution->outputs);
  return NULL;
}

/* -- reports -------------------------------------------------------------------------------------------- */

static json_t *check_json(const kiln_cli_check_t *check) {
  /* JSON has no infinity: a bound of 0 that was missed leaves the ratio out. */
  bool finite = check->worst_ratio <= 1e300;
  return json_pack("{s:b, s:I, s:I, s:I, s:o}", "passed", !check->wrong, "elements",
                   (json_int_t)check->elements, "undecided", (json_int_t)check->undecided, "wrong",
                   (json_int_t)check->wrong, "worst_ratio",
                   finite ? json_real(check->worst_ratio) : json_null());
}

static json_t *outputs_json(kiln_cli_t *cli, const kiln_graph_t *graph, const kiln_tensor_t *outputs) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < graph->output_count; i++) {
    json_t *shape = json_array();
    for (uint32_t d = 0; d < outputs[i].rank; d++)
      json_array_append_new(shape, json_integer(outputs[i].sizes[d]));
    json_array_append_new(list,
                          json_pack("{s:s, s:s, s:o}", "name", kiln_cli_output_name(cli->arena, graph, i),
                                    "dtype", kiln_dtype_name(outputs[i].dtype), "shape", shape));
  }
  return list;
}

static json_t *symbols_json(const kiln_graph_t *graph, const int64_t *symbols) {
  json_t *map = json_object();
  for (uint32_t s = 0; s < graph->symbol_count; s++)
    json_object_set_new(map, graph->symbols[s].name, json_integer(symbols[s]));
  return map;
}

static json_t *timings_json(const kiln_cli_execution_t *execution) {
  return json_pack("{s:I, s:I, s:I, s:I, s:I}", "plan_ns", (json_int_t)execution->plan_ns, "compile_ns",
                   (json_int_t)execution->compile_ns, "upload_ns", (json_int_t)execution->upload_ns,
                   "launch_ns", (json_int_t)execution->launch_ns, "download_ns",
                   (json_int_t)execution->download_ns);
}

static void print_json(kiln_cli_t *cli, const kiln_graph_t *graph, const int64_t *symbols,
                       const kiln_cli_run_t *run, const kiln_cli_execution_t *execution,
                       const kiln_cli_check_t *checked) {
  json_t *report = json_pack(
      "{s:s, s:s, s:s, s:s, s:I, s:I, s:{s:I, s:I}, s:I, s:o, s:o, s:o}", "graph", graph->name, "key",
      execution->key, "cache", execution->cache, "device", execution->device, "launches",
      (json_int_t)execution->launches, "realigned", (json_int_t)execution->realigned, "kernels", "found",
      (json_int_t)execution->kernels_found, "compiled", (json_int_t)execution->kernels_compiled, "repeat",
      (json_int_t)run->repeat, "timings", timings_json(execution), "symbols", symbols_json(graph, symbols),
      "outputs", outputs_json(cli, graph, execution->outputs));
  if (checked) json_object_set_new(report, "check", check_json(checked));
  if (execution->counters)
    json_object_set_new(report, "counters", json_loads(execution->counters, JSON_DECODE_ANY, NULL));
  json_dumpf(report, stdout, JSON_COMPACT);
  putchar('\n');
  json_decref(report);
}

static void read_sizes(const json_t *launch, const char *key, uint32_t sizes[3]) {
  for (size_t n = 0; n < 3; n++)
    sizes[n] = (uint32_t)json_integer_value(json_array_get(json_object_get(launch, key), n));
}

static kiln_emu_launch_t read_launch(const json_t *from) {
  kiln_emu_launch_t launch = {.shared_bytes = (uint32_t)kiln_cli_json_integer(from, "shared_bytes"),
                              .wall_ns = (uint64_t)kiln_cli_json_integer(from, "wall_ns"),
                              .estimated_ns = (uint64_t)kiln_cli_json_integer(from, "estimated_ns"),
                              .schedule_dependent =
                                  json_is_true(json_object_get(from, "schedule_dependent"))};
  snprintf(launch.kernel, sizeof launch.kernel, "%s", kiln_cli_json_text(from, "kernel"));
  read_sizes(from, "grid", launch.grid);
  read_sizes(from, "block", launch.block);
#define COUNTER(name, text) launch.counters.name = (uint64_t)kiln_cli_json_integer(from, #name);
  KILN_EMU_COUNTERS(COUNTER)
#undef COUNTER
  return launch;
}

/* A table per launch. */
static void print_counters(const char *text) {
  json_t *counters = json_loads(text, 0, NULL), *from;
  size_t index;
  kiln_buffer_t out;
  kiln_buffer_init(&out);
  json_array_foreach(json_object_get(counters, "launches"), index, from) {
    kiln_emu_launch_t launch = read_launch(from);
    kiln_buffer_puts(&out, "\n");
    kiln_launch_text(&out, &launch);
  }
  fputs(kiln_buffer_text(&out), stdout);
  kiln_buffer_deinit(&out);
  json_decref(counters);
}

static void print_text(kiln_cli_t *cli, const kiln_graph_t *graph, const int64_t *symbols,
                       const kiln_cli_run_t *run, const kiln_cli_execution_t *execution,
                       const kiln_cli_check_t *checked) {
  printf("%-9s %s", "graph", graph->name);
  for (uint32_t s = 0; s < graph->symbol_count; s++)
    printf(" %s=%lld", graph->symbols[s].name, (long long)symbols[s]);
  printf("\n%-9s %.16s (%s)\n", "plan", execution->key, execution->cache);
  printf("%-9s %u found, %u compiled\n", "kernels", execution->kernels_found, execution->kernels_compiled);
  printf("%-9s %u\n", "launches", execution->launches);
  for (uint32_t i = 0; i < graph->output_count; i++)
    printf("%-9s %s %s\n", "output", kiln_cli_output_name(cli->arena, graph, i),
           kiln_cli_shape_text(cli->arena, &execution->outputs[i]));
  printf("%-9s plan %.1f ms, compile %.1f ms, upload %.2f ms, launches %.2f ms, download %.2f ms", "time",
         (double)execution->plan_ns / 1e6, (double)execution->compile_ns / 1e6,
         (double)execution->upload_ns / 1e6, (double)execution->launch_ns / 1e6,
         (double)execution->download_ns / 1e6);
  if (run->repeat > 1) printf(" (fastest of %lld)", (long long)run->repeat);
  putchar('\n');
  if (checked)
    printf("%-9s %s: %lld elements, %lld wrong, %lld undecided, worst error %.3g of its bound\n", "check",
           checked->wrong ? "FAILED" : "passed", (long long)checked->elements, (long long)checked->wrong,
           (long long)checked->undecided, checked->worst_ratio);
  if (execution->counters) print_counters(execution->counters);
}

/* -- the command ---------------------------------------------------------------------------------------- */

static kiln_status_t read_options(const kiln_cli_t *cli, kiln_cli_run_t *out) {
  int64_t timeout_s;
  KILN_TRY(kiln_cli_integer(cli, "--repeat", 1, 1000000, 1, &out->repeat));
  KILN_TRY(kiln_cli_integer(cli, "--timeout", 1, MAX_TIMEOUT_S, 0, &timeout_s));
  out->timeout_ms = timeout_s * 1000;
  out->counters = kiln_cli_flag(cli, "--counters");
  return NULL;
}

static kiln_status_t run(kiln_cli_t *cli) {
  kiln_cli_source_t source;
  kiln_cli_values_t values;
  kiln_cli_run_t how;
  kiln_cli_execution_t execution;
  kiln_cli_check_t checked;
  KILN_TRY(read_options(cli, &how));
  KILN_TRY(kiln_cli_load(cli, 0, &source));
  const kiln_graph_t *graph = source.graph;
  KILN_TRY(kiln_cli_values(cli, graph, &values));
  const char *folder = kiln_cli_value(cli, "--output-dir");
  if (folder) KILN_TRY(kiln_cli_make_folder(folder)); /* before anything is spent on what cannot be kept */
  KILN_TRY(kiln_cli_flag(cli, "--local") ? kiln_cli_run_local(cli, graph, &values, &how, &execution)
                                         : kiln_cli_run_daemon(cli, &source, &values, &how, &execution));
  bool with_check = kiln_cli_flag(cli, "--check");
  if (with_check) KILN_TRY(check(cli, graph, &values, &execution, &checked));
  if (folder) KILN_TRY(kiln_cli_write_outputs(cli, folder, graph, execution.outputs));
  kiln_cli_progress_clear();
  (kiln_cli_flag(cli, "--json") ? print_json : print_text)(cli, graph, values.symbols, &how, &execution,
                                                           with_check ? &checked : NULL);
  return NULL;
}

static const kiln_cli_option_t options[] = {
    KILN_CLI_OPTION_GRAPH,
    KILN_CLI_OPTIONS_INPUTS,
    {"--output-dir", "DIR", "write NAME.npy per result (bf16 as uint16 bits)"},
    {"--check", NULL, "compare with the reference evaluator; exit 1 past its bound"},
    {"--repeat", "N", "execute N times and report the fastest (default 1)"},
    {"--counters", NULL, "report what the emulated device counted, in the last execution"},
    {"--json", NULL, "report as one JSON object"},
    KILN_CLI_OPTION_TF32,
    {"--timeout", "S", "give up after S seconds of compiling or of one execution (not with --local)"},
    KILN_CLI_OPTIONS_LOCAL,
    {NULL, NULL, NULL},
};

const kiln_cli_command_t kiln_cli_run = {
    .name = "run",
    .operands = "FILE",
    .operands_least = 1,
    .operands_most = 1,
    .summary = "Execute a graph on a device, through the daemon or in this process.",
    .options = options,
    .run = run,
};
