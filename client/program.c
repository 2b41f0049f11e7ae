/* client/program.c: compiled graphs, and their executions.
 *
 *   kiln_compile -> "compile" -> handle;   kiln_execute -> "execute" with the handle -> outputs
 *
 * A program keeps the params of its compile request. The daemon's handle is good on the connection that it
 * came by; on another one the program is compiled again, which the daemon's cache makes cheap.
 */
#include "client/client.h"

#include <stdlib.h>
#include <string.h>

/* The daemon's answer that a deadline has passed gets this long to arrive. */
enum { GRACE_MS = 1000 };

struct kiln_program {
  kiln_client_t *client;
  kiln_buffer_t params;
  uint32_t timeout_ms, device;
  kiln_program_info_t info;
  kiln_reply_t *first_reply; /* holds the info's texts */
  kiln_client_handle_t handle;
};

/* -- compiling ------------------------------------------------------------------------------------------ */

static void write_uint(kiln_buffer_t *out, const char *key, uint64_t value) {
  kiln_mpack_str(out, key);
  kiln_mpack_uint(out, value);
}

static void write_bool(kiln_buffer_t *out, const char *key, bool value) {
  kiln_mpack_str(out, key);
  kiln_mpack_bool(out, value);
}

static void write_symbols(kiln_buffer_t *out, const char *const *names, const int64_t *values,
                          uint32_t count) {
  kiln_mpack_str(out, "symbols");
  kiln_mpack_map(out, count);
  for (uint32_t i = 0; i < count; i++) {
    kiln_mpack_str(out, names[i]);
    kiln_mpack_int(out, values[i]);
  }
}

static void write_compile(kiln_buffer_t *out, const kiln_compile_options_t *options) {
  kiln_mpack_map(out, 3u + (options->name != NULL) + (options->timeout_ms > 0) + (options->symbol_count > 0));
  kiln_mpack_str(out, "graph");
  kiln_mpack_str(out, options->graph);
  if (options->name) {
    kiln_mpack_str(out, "name");
    kiln_mpack_str(out, options->name);
  }
  write_uint(out, "device", options->device);
  if (options->timeout_ms) write_uint(out, "deadline_ms", options->timeout_ms);
  if (options->symbol_count)
    write_symbols(out, options->symbol_names, options->symbol_values, options->symbol_count);
  kiln_mpack_str(out, "options");
  kiln_mpack_map(out, 2);
  kiln_mpack_str(out, "precision");
  kiln_mpack_str(out, options->excess_precision ? "excess" : "exact");
  write_bool(out, "allow_tf32", options->allow_tf32);
}

/* Compiles on this connection and remembers the handle. */
static kiln_status_t compile_on(kiln_program_t *program, kiln_connection_t *connection, uint64_t serial,
                                uint64_t *out_handle, kiln_reply_t **out_reply) {
  kiln_reply_t *reply;
  uint32_t wait_ms = program->timeout_ms ? program->timeout_ms + GRACE_MS : 0;
  KILN_TRY(kiln_connection_call(connection, "compile", &program->params, wait_ms, &reply));
  kiln_status_t status = kiln_reply_uint(kiln_reply_result(reply), "executable", out_handle);
  if (status) {
    kiln_reply_free(reply);
    return status;
  }
  kiln_client_handle_set(program->client, &program->handle, serial, *out_handle);
  *out_reply = reply;
  return NULL;
}

static kiln_status_t read_info(kiln_program_t *program) {
  kiln_reply_t *reply = program->first_reply;
  const kiln_mpack_t *result = kiln_reply_result(reply);
  const kiln_mpack_t *kernels = kiln_mpack_find(result, "kernels");
  const kiln_mpack_t *timings = kiln_mpack_find(result, "timings");
  kiln_program_info_t *info = &program->info;
  uint64_t found, compiled;
  KILN_TRY(kiln_reply_text(reply, result, "key", &info->key));
  KILN_TRY(kiln_reply_text(reply, result, "cache", &info->cache));
  KILN_TRY(kiln_reply_uint(kernels, "found", &found));
  KILN_TRY(kiln_reply_uint(kernels, "compiled", &compiled));
  KILN_TRY(kiln_reply_uint(timings, "total_ns", &info->total_ns));
  KILN_TRY(kiln_reply_uint(timings, "plan_ns", &info->plan_ns));
  KILN_TRY(kiln_reply_uint(timings, "compile_ns", &info->compile_ns));
  info->kernels_found = (uint32_t)found;
  info->kernels_compiled = (uint32_t)compiled;
  return NULL;
}

static kiln_status_t compile_first(kiln_program_t *program) {
  kiln_connection_t *connection;
  uint64_t serial, handle;
  if (program->params.failed) return kiln_error(KILN_OUT_OF_MEMORY, "no memory for a request");
  KILN_TRY(kiln_client_connection(program->client, &connection, &serial));
  kiln_status_t status = compile_on(program, connection, serial, &handle, &program->first_reply);
  kiln_connection_release(connection);
  return status ? status : read_info(program);
}

kiln_status_t kiln_compile(kiln_client_t *client, const kiln_compile_options_t *options,
                           kiln_program_t **out_program) {
  if (!options->graph) return kiln_error(KILN_INVALID_ARGUMENT, "kiln_compile needs a graph");
  kiln_program_t *program = calloc(1, sizeof *program);
  if (!program) return kiln_error(KILN_OUT_OF_MEMORY, "no memory for a program");
  kiln_client_retain(client);
  program->client = client;
  program->timeout_ms = options->timeout_ms;
  program->device = options->device;
  kiln_buffer_init(&program->params);
  write_compile(&program->params, options);
  kiln_status_t status = compile_first(program);
  if (status)
    kiln_program_free(program);
  else
    *out_program = program;
  return status;
}

const kiln_program_info_t *kiln_program_info(const kiln_program_t *program) { return &program->info; }

void kiln_program_free(kiln_program_t *program) {
  if (!program) return;
  kiln_reply_free(program->first_reply);
  kiln_buffer_deinit(&program->params);
  kiln_client_release(program->client);
  free(program);
}

/* -- the request of an execution ------------------------------------------------------------------------ */

/* Everything but the tensors' bytes, which are sent from where they are: input i's go in at cuts[i]. */
typedef struct {
  kiln_buffer_t text;
  size_t *cuts;
  struct iovec *parts;
  size_t part_count;
} message_t;

static kiln_status_t message_init(message_t *message, uint32_t input_count) {
  *message = (message_t){.cuts = malloc((input_count + 1) * sizeof(size_t)),
                         .parts = malloc((2 * (size_t)input_count + 1) * sizeof(struct iovec))};
  kiln_buffer_init(&message->text);
  return message->cuts && message->parts ? NULL : kiln_error(KILN_OUT_OF_MEMORY, "no memory for a request");
}

static void message_deinit(message_t *message) {
  kiln_buffer_deinit(&message->text);
  free(message->cuts);
  free(message->parts);
}

static void write_integers(kiln_buffer_t *out, const char *key, const int64_t *values, uint32_t count) {
  kiln_mpack_str(out, key);
  kiln_mpack_array(out, count);
  for (uint32_t i = 0; i < count; i++) kiln_mpack_int(out, values[i]);
}

/* The tensor's data comes last, so that its bytes follow. */
static void write_array(kiln_buffer_t *out, const kiln_array_t *array) {
  kiln_mpack_map(out, array->has_strides ? 4 : 3);
  kiln_mpack_str(out, "dtype");
  kiln_mpack_str(out, array->dtype);
  write_integers(out, "shape", array->shape, array->rank);
  if (array->has_strides) write_integers(out, "strides", array->strides, array->rank);
  kiln_mpack_str(out, "data");
  kiln_mpack_bin_header(out, array->size_bytes);
}

static void write_execution(message_t *message, uint64_t handle, uint32_t device,
                            const kiln_execution_t *execution) {
  kiln_buffer_t *out = &message->text;
  kiln_mpack_map(out, 4u + (execution->symbol_count > 0) + (execution->deadline_ms > 0));
  write_uint(out, "executable", handle);
  write_uint(out, "device", device);
  write_bool(out, "counters", execution->counters);
  if (execution->deadline_ms) write_uint(out, "deadline_ms", execution->deadline_ms);
  if (execution->symbol_count)
    write_symbols(out, execution->symbol_names, execution->symbol_values, execution->symbol_count);
  kiln_mpack_str(out, "inputs");
  kiln_mpack_array(out, execution->input_count);
  for (uint32_t i = 0; i < execution->input_count; i++) {
    write_array(out, &execution->inputs[i]);
    message->cuts[i] = out->size;
  }
}

/* text up to the first cut, the first tensor's bytes, text up to the second cut ... */
static void lay_out(message_t *message, const kiln_execution_t *execution) {
  size_t from = 0;
  for (uint32_t i = 0; i < execution->input_count; i++) {
    message->parts[message->part_count++] =
        (struct iovec){message->text.data + from, message->cuts[i] - from};
    message->parts[message->part_count++] =
        (struct iovec){execution->inputs[i].data, execution->inputs[i].size_bytes};
    from = message->cuts[i];
  }
  message->parts[message->part_count++] =
      (struct iovec){message->text.data + from, message->text.size - from};
}

static kiln_status_t submit_on(kiln_program_t *program, kiln_connection_t *connection, uint64_t handle,
                               const kiln_execution_t *execution, kiln_request_t **out_request) {
  message_t message;
  kiln_status_t status = message_init(&message, execution->input_count);
  if (!status) {
    write_execution(&message, handle, program->device, execution);
    if (message.text.failed) status = kiln_error(KILN_OUT_OF_MEMORY, "no memory for a request");
  }
  if (!status) {
    lay_out(&message, execution);
    status = kiln_connection_submit(connection, "execute", message.parts, message.part_count, out_request);
  }
  message_deinit(&message);
  return status;
}

/* -- executing ------------------------------------------------------------------------------------------ */

/* With a handle that is good on the current connection. */
static kiln_status_t submit_once(kiln_program_t *program, const kiln_execution_t *execution,
                                 kiln_request_t **out_request) {
  kiln_connection_t *connection;
  uint64_t serial, handle;
  kiln_reply_t *reply = NULL;
  kiln_status_t status = NULL;
  KILN_TRY(kiln_client_connection(program->client, &connection, &serial));
  if (!kiln_client_handle_get(program->client, &program->handle, serial, &handle))
    status = compile_on(program, connection, serial, &handle, &reply);
  if (!status) status = submit_on(program, connection, handle, execution, out_request);
  kiln_reply_free(reply);
  kiln_connection_release(connection);
  return status;
}

kiln_status_t kiln_execute_submit(kiln_program_t *program, const kiln_execution_t *execution,
                                  kiln_request_t **out_request) {
  for (uint32_t i = 0; i < execution->input_count; i++) {
    const kiln_array_t *input = &execution->inputs[i];
    if (!input->dtype || input->rank > KILN_ARRAY_MAX_RANK || (!input->data && input->size_bytes))
      return kiln_error(KILN_INVALID_ARGUMENT, "inputs[%u] has no dtype, no data, or a rank above %d", i,
                        KILN_ARRAY_MAX_RANK);
  }
  kiln_status_t status = submit_once(program, execution, out_request);
  if (kiln_status_code(status) != KILN_CONNECTION_LOST) return status;
  kiln_status_free(status); /* the daemon never had it whole: nothing was executed */
  return submit_once(program, execution, out_request);
}

kiln_status_t kiln_execute(kiln_program_t *program, const kiln_execution_t *execution, uint32_t timeout_ms,
                           kiln_reply_t **out_reply) {
  kiln_request_t *request;
  KILN_TRY(kiln_execute_submit(program, execution, &request));
  return kiln_request_finish_within(request, timeout_ms, out_reply);
}

/* -- the reply of an execution -------------------------------------------------------------------------- */

static kiln_status_t read_execution(kiln_reply_t *reply, kiln_execution_info_t *out_info) {
  const kiln_mpack_t *result = kiln_reply_result(reply);
  const kiln_mpack_t *timings = kiln_mpack_find(result, "timings");
  uint64_t launches, realigned;
  *out_info = (kiln_execution_info_t){0};
  KILN_TRY(kiln_reply_text(reply, result, "key", &out_info->key));
  KILN_TRY(kiln_reply_text(reply, result, "cache", &out_info->cache));
  KILN_TRY(kiln_reply_uint(timings, "total_ns", &out_info->total_ns));
  KILN_TRY(kiln_reply_uint(timings, "upload_ns", &out_info->upload_ns));
  KILN_TRY(kiln_reply_uint(timings, "launch_ns", &out_info->launch_ns));
  KILN_TRY(kiln_reply_uint(timings, "download_ns", &out_info->download_ns));
  KILN_TRY(kiln_reply_uint(result, "launches", &launches));
  KILN_TRY(kiln_reply_uint(result, "realigned", &realigned));
  out_info->launches = (uint32_t)launches;
  out_info->realigned = (uint32_t)realigned;
  if (kiln_mpack_find(result, "counters"))
    return kiln_reply_text(reply, result, "counters", &out_info->counters);
  return NULL;
}

kiln_status_t kiln_reply_execution(kiln_reply_t *reply, kiln_execution_info_t *out_info) {
  if (!kiln_mpack_find(kiln_reply_result(reply), "outputs"))
    return kiln_error(KILN_INVALID_ARGUMENT, "this is not the reply of an execution");
  return read_execution(reply, out_info);
}
