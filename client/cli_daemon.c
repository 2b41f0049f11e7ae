/* client/cli_daemon.c: `kiln run` through a daemon; see cli_daemon.h.
 *
 * Uses libkiln's public interface alone, as an application would.
 */
#include "client/cli_daemon.h"
#include "client/cli_json.h"

#include <string.h>

static void disconnect(void *client) { kiln_disconnect(client); }
static void free_program(void *program) { kiln_program_free(program); }
static void free_reply(void *reply) { kiln_reply_free(reply); }

kiln_status_t kiln_cli_connect(kiln_cli_t *cli, kiln_client_t **out_client) {
  KILN_TRY(kiln_connect(&(kiln_connect_options_t){.name = "kiln"}, out_client));
  kiln_arena_defer(cli->arena, disconnect, *out_client);
  return NULL;
}

void kiln_cli_write_graph(const kiln_cli_t *cli, kiln_buffer_t *out, const kiln_cli_source_t *source) {
  kiln_mpack_str(out, "graph");
  kiln_mpack_strn(out, source->text, source->size);
  kiln_mpack_str(out, "name");
  kiln_mpack_str(out, source->graph->name);
  kiln_mpack_str(out, "options");
  kiln_mpack_map(out, 1);
  kiln_mpack_str(out, "allow_tf32");
  kiln_mpack_bool(out, kiln_cli_flag(cli, "--allow-tf32"));
}

void kiln_cli_write_symbols(kiln_buffer_t *out, const kiln_graph_t *graph, const int64_t *symbols) {
  kiln_mpack_str(out, "symbols");
  kiln_mpack_map(out, graph->symbol_count);
  for (uint32_t s = 0; s < graph->symbol_count; s++) {
    kiln_mpack_str(out, graph->symbols[s].name);
    kiln_mpack_int(out, symbols[s]);
  }
}

static const char *const *symbol_names(kiln_arena_t *arena, const kiln_graph_t *graph) {
  const char **names = KILN_NEW_ARRAY(arena, const char *, graph->symbol_count);
  for (uint32_t s = 0; s < graph->symbol_count; s++) names[s] = graph->symbols[s].name;
  return names;
}

/* An input as it goes over the wire: its storage, which has the layout that the graph declares. */
static kiln_status_t wire_input(kiln_arena_t *arena, const kiln_graph_t *graph, uint32_t index,
                                const kiln_cli_values_t *values, kiln_array_t *out) {
  const kiln_tensor_t *tensor = &values->inputs[index];
  kiln_cli_bytes_t bytes;
  KILN_TRY(kiln_cli_input_storage(arena, graph, index, values, &bytes));
  *out = (kiln_array_t){.dtype = kiln_dtype_name(tensor->dtype),
                        .rank = tensor->rank,
                        .data = bytes.data,
                        .size_bytes = bytes.size_bytes};
  memcpy(out->shape, tensor->sizes, sizeof out->shape);
  return NULL;
}

static kiln_status_t read_outputs(kiln_cli_t *cli, const kiln_graph_t *graph, const int64_t *symbols,
                                  const kiln_reply_t *reply, kiln_tensor_t *outputs) {
  for (uint32_t i = 0; i < graph->output_count; i++) {
    kiln_array_t array;
    kiln_cli_bytes_t storage;
    KILN_TRY(kiln_cli_output_storage(cli->arena, graph, i, symbols, &outputs[i], &storage));
    KILN_TRY(kiln_reply_output(reply, i, &array));
    if (array.size_bytes != storage.size_bytes)
      return kiln_error(KILN_INTERNAL, "the daemon sent %zu bytes for output %u, which has %zu",
                        array.size_bytes, i, storage.size_bytes);
    KILN_TRY(kiln_cli_read_storage(graph, i, symbols, array.data, &outputs[i]));
  }
  return NULL;
}

static void keep_fastest(kiln_cli_execution_t *best, const kiln_execution_info_t *info, bool is_first) {
  uint64_t total_ns = info->upload_ns + info->launch_ns + info->download_ns;
  if (!is_first && total_ns >= best->upload_ns + best->launch_ns + best->download_ns) return;
  best->upload_ns = info->upload_ns;
  best->launch_ns = info->launch_ns;
  best->download_ns = info->download_ns;
  best->launches = info->launches;
  best->realigned = info->realigned;
}

/* Each reply is freed before the next execution; what the last one holds stays. */
static kiln_status_t execute(kiln_cli_t *cli, kiln_program_t *program, const kiln_graph_t *graph,
                             const int64_t *symbols, const kiln_cli_run_t *run, kiln_execution_t *request,
                             kiln_cli_execution_t *out) {
  kiln_reply_t *reply = NULL;
  kiln_execution_info_t info;
  for (int64_t i = 0; i < run->repeat; i++) {
    bool is_last = i + 1 == run->repeat;
    request->counters = run->counters && is_last;
    kiln_cli_progress("execution %lld of %lld", (long long)i + 1, (long long)run->repeat);
    KILN_TRY(kiln_execute(program, request, (uint32_t)run->timeout_ms, &reply));
    if (is_last) kiln_arena_defer(cli->arena, free_reply, reply);
    kiln_status_t status = kiln_reply_execution(reply, &info);
    if (!status) keep_fastest(out, &info, !i);
    if (!is_last) kiln_reply_free(reply);
    if (status) return status;
  }
  out->counters = info.counters;
  return read_outputs(cli, graph, symbols, reply, out->outputs);
}

/* The name of the device that programs run on, the daemon's first. */
static kiln_status_t read_device(kiln_cli_t *cli, kiln_client_t *client, const char **out_name) {
  json_t *hello;
  KILN_TRY(kiln_cli_ask(cli, client, "hello", &hello));
  *out_name = kiln_cli_json_text(json_array_get(json_object_get(hello, "devices"), 0), "name");
  return NULL;
}

/* Symbols are given, so that the plan is made for their class at once. */
static kiln_status_t compile(kiln_cli_t *cli, const kiln_cli_source_t *source, const int64_t *symbols,
                             uint32_t timeout_ms, kiln_program_t **out_program, kiln_cli_execution_t *out) {
  kiln_client_t *client;
  KILN_TRY(kiln_cli_connect(cli, &client));
  kiln_cli_progress("compiling '%s'", source->graph->name);
  kiln_compile_options_t options = {.graph = source->text,
                                    .name = source->graph->name,
                                    .timeout_ms = timeout_ms,
                                    .allow_tf32 = kiln_cli_flag(cli, "--allow-tf32"),
                                    .symbol_names = symbol_names(cli->arena, source->graph),
                                    .symbol_values = symbols,
                                    .symbol_count = source->graph->symbol_count};
  KILN_TRY(kiln_compile(client, &options, out_program));
  kiln_arena_defer(cli->arena, free_program, *out_program);
  const kiln_program_info_t *info = kiln_program_info(*out_program);
  *out = (kiln_cli_execution_t){.cache = info->cache,
                                .kernels_found = info->kernels_found,
                                .kernels_compiled = info->kernels_compiled,
                                .plan_ns = info->plan_ns,
                                .compile_ns = info->compile_ns};
  snprintf(out->key, sizeof out->key, "%s", info->key);
  return read_device(cli, client, &out->device);
}

/* They would be ignored: a daemon has its device. */
static kiln_status_t refuse_local_options(const kiln_cli_t *cli) {
  static const char *const names[] = {"--device", "--checkers"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (kiln_cli_value(cli, names[i]))
      return kiln_error(KILN_INVALID_ARGUMENT, "%s is an option of --local: the daemon has its own device",
                        names[i]);
  return NULL;
}

kiln_status_t kiln_cli_run_daemon(kiln_cli_t *cli, const kiln_cli_source_t *source,
                                  const kiln_cli_values_t *values, const kiln_cli_run_t *run,
                                  kiln_cli_execution_t *out) {
  const kiln_graph_t *graph = source->graph;
  kiln_program_t *program;
  KILN_TRY(refuse_local_options(cli));
  KILN_TRY(compile(cli, source, values->symbols, (uint32_t)run->timeout_ms, &program, out));
  kiln_array_t *inputs = KILN_NEW_ARRAY(cli->arena, kiln_array_t, graph->input_count);
  for (uint32_t i = 0; i < graph->input_count; i++)
    KILN_TRY(wire_input(cli->arena, graph, i, values, &inputs[i]));
  out->outputs = KILN_NEW_ARRAY(cli->arena, kiln_tensor_t, graph->output_count);
  kiln_execution_t request = {.inputs = inputs,
                              .input_count = graph->input_count,
                              .symbol_names = symbol_names(cli->arena, graph),
                              .symbol_values = values->symbols,
                              .symbol_count = graph->symbol_count};
  return execute(cli, program, graph, values->symbols, run, &request, out);
}
