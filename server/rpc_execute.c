/* server/rpc_execute.c: execute: tensors in, a plan found or compiled, the device's turn, tensors out.
 *
 *   rpc_execute: joins the session's operations -> step: program, inputs, symbols, plan, sizes -> ready
 *   -> devices_pump_session, when it is the first of its session -> device -> rpc_execute_done -> reply
 *
 * The inputs' bytes are those of the message: nothing copies them before they go to the device.
 */
#include "server/rpc_execute.h"

#include "base/clock.h"
#include "server/command.h"
#include "server/error_wire.h"
#include "server/graph_request.h"
#include "server/server.h"

#include <string.h>

/* --- inputs ----------------------------------------------------------------------------------------- */

static kiln_status_t read_dtype(const fields_t *fields, kiln_dtype_t *out) {
  const char *name;
  KILN_TRY(field_text(fields, "dtype", "", &name));
  return kiln_dtype_parse(name, strlen(name), out) ? NULL
                                                   : field_wrong(fields, "dtype", "the name of a dtype");
}

static kiln_status_t read_data(const fields_t *fields, kiln_host_span_t *out) {
  const kiln_mpack_t *value;
  const void *data;
  const char *text;
  if (field_find(fields, "buffer") || field_find(fields, "segment"))
    return kiln_error_detail(
        kiln_error(KILN_UNSUPPORTED, "tensors in buffers and segments are not supported yet"), "field",
        "%s%s", fields->path, field_find(fields, "buffer") ? "buffer" : "segment");
  KILN_TRY(field_require(fields, "data", &value));
  if (kiln_mpack_get_bin(value, &data, &out->bytes)) {
    out->data = (void *)data;
  } else if (kiln_mpack_get_str(value, &text, &out->bytes)) {
    out->data = (void *)text;
  } else {
    return field_wrong(fields, "data", "bytes");
  }
  return NULL;
}

static kiln_status_t read_tensor(request_t *request, const kiln_mpack_t *value, uint32_t index) {
  execution_t *execution = &request->execution;
  kiln_tensor_t *tensor = &execution->input_tensors[index];
  fields_t fields = {.arena = &request->arena,
                     .map = value,
                     .path = kiln_arena_printf(&request->arena, "inputs[%u].", index)};
  const int64_t *sizes;
  const kiln_mpack_t *shape;
  size_t rank, stride_count;
  if (kiln_mpack_kind(value) != KILN_MPACK_MAP)
    return field_wrong(&request->fields, kiln_arena_printf(&request->arena, "inputs[%u]", index),
                       "a tensor: a map");
  KILN_TRY(fields_known(&fields, "dtype shape strides data buffer segment offset"));
  KILN_TRY(read_dtype(&fields, &tensor->dtype));
  KILN_TRY(field_require(&fields, "shape", &shape));
  KILN_TRY(field_ints(&fields, "shape", 0, INT64_MAX, KILN_MAX_RANK, &sizes, &rank));
  KILN_TRY(field_ints(&fields, "strides", 0, INT64_MAX, KILN_MAX_RANK, &execution->input_strides[index],
                      &stride_count));
  if (execution->input_strides[index] && stride_count != rank)
    return field_wrong(&fields, "strides", "one stride per dimension");
  tensor->rank = (uint32_t)rank;
  if (rank) memcpy(tensor->sizes, sizes, rank * sizeof *sizes);
  KILN_TRY(read_data(&fields, &execution->inputs[index]));
  execution->input_total += execution->inputs[index].bytes;
  return NULL;
}

static kiln_status_t read_inputs(request_t *request) {
  execution_t *execution = &request->execution;
  const program_t *program = request->program;
  const kiln_mpack_t *list = field_find(&request->fields, "inputs");
  size_t count = list ? kiln_mpack_count(list) : 0;
  if ((list && kiln_mpack_kind(list) != KILN_MPACK_ARRAY) || count != program->input_count)
    return field_wrong(&request->fields, "inputs",
                       kiln_arena_printf(&request->arena, "an array of %u tensors", program->input_count));
  execution->inputs = KILN_NEW_ARRAY(&request->arena, kiln_host_span_t, count);
  execution->input_strides = KILN_NEW_ARRAY(&request->arena, const int64_t *, count);
  execution->input_tensors = KILN_NEW_ARRAY(&request->arena, kiln_tensor_t, count + 1);
  for (uint32_t i = 0; i < count; i++) KILN_TRY(read_tensor(request, kiln_mpack_item(list, i), i));
  KILN_TRY(graph_request_symbols(request));
  KILN_TRY(kiln_symbols_bind(program->symbols, program->symbol_count, program->input_types,
                             program->input_count, execution->input_tensors, request->symbols));
  memcpy(execution->symbols, request->symbols, sizeof execution->symbols);
  return NULL;
}

/* --- sizes ------------------------------------------------------------------------------------------ */

static kiln_status_t check_layout(const request_t *request, const kiln_plan_tensor_t *tensor,
                                  uint32_t index) {
  const execution_t *execution = &request->execution;
  const int64_t *sizes = execution->input_tensors[index].sizes, *given = execution->input_strides[index];
  for (uint32_t axis = 0; given && axis < tensor->type.rank; axis++) {
    int64_t stride;
    if (sizes[axis] == 1) continue;
    if (!kiln_dim_eval(tensor->strides[axis], execution->symbols, &stride) || given[axis] != stride)
      return kiln_error_detail(kiln_error(KILN_INVALID_ARGUMENT,
                                          "input %u: stride %u is %lld, the graph declares %lld", index, axis,
                                          (long long)given[axis], (long long)stride),
                               "field", "inputs[%u].strides", index);
  }
  return NULL;
}

static kiln_status_t check_inputs(const request_t *request, const kiln_plan_t *plan) {
  for (uint32_t i = 0; i < plan->input_count; i++) {
    uint64_t bytes;
    KILN_TRY(kiln_plan_tensor_bytes(&plan->inputs[i], request->execution.symbols, &bytes));
    KILN_TRY(check_layout(request, &plan->inputs[i], i));
    if (bytes == request->execution.inputs[i].bytes) continue;
    return kiln_error_detail(kiln_error(KILN_INVALID_ARGUMENT,
                                        "input %u has %zu bytes of data, its shape needs %llu", i,
                                        request->execution.inputs[i].bytes, (unsigned long long)bytes),
                             "field", "inputs[%u].data", i);
  }
  return NULL;
}

static kiln_status_t measure_outputs(request_t *request, const kiln_plan_t *plan) {
  execution_t *execution = &request->execution;
  execution->output_bytes = KILN_NEW_ARRAY(&request->arena, uint64_t, plan->output_count);
  execution->output_total = 0;
  for (uint32_t i = 0; i < plan->output_count; i++) {
    KILN_TRY(kiln_plan_tensor_bytes(&plan->outputs[i], execution->symbols, &execution->output_bytes[i]));
    if (__builtin_add_overflow(execution->output_total, execution->output_bytes[i],
                               &execution->output_total) ||
        execution->output_total > request->server->config->max_message)
      return kiln_error(KILN_TOO_LARGE, "the outputs are larger than a message may be");
  }
  return NULL;
}

/* --- the steps -------------------------------------------------------------------------------------- */

static kiln_status_t find_program(request_t *request, bool *out_waits) {
  const kiln_mpack_t *handle = field_find(&request->fields, "executable");
  if (request->program) return NULL;
  if (!handle == !field_find(&request->fields, "graph"))
    return field_wrong(&request->fields, "executable", "this or 'graph'");
  if (!handle) return graph_request_program(request, out_waits);
  int64_t number;
  KILN_TRY(field_int(&request->fields, "executable", 1, (1ll << 53) - 1, 0, &number));
  program_t *program = session_program(request->session, (uint64_t)number);
  if (!program) return kiln_error(KILN_NOT_FOUND, "this session has no executable %lld", (long long)number);
  request->program = program_retain(program);
  return NULL;
}

/* A variant that fits these symbols: one that is there, else the one of their class. */
static kiln_status_t find_variant(request_t *request, const device_t *device, bool *out_waits) {
  server_t *server = request->server;
  const kiln_device_info_t *info = &device->info;
  if (request->outcome_count) return NULL;
  plan_outcome_t *outcome = &request->outcomes[0];
  variant_t *there =
      flights_find(server, request->program, request->device, info->image_kind, request->symbols);
  if (there) {
    server->counters[COUNTER_plan_hits_memory]++;
    *outcome = (plan_outcome_t){.variant = variant_retain(there), .miss = ""};
    request->outcome_count = 1;
    return NULL;
  }
  *out_waits = !workers_want_identity(request);
  if (*out_waits) return NULL;
  kiln_symbol_class_t symbol_class = program_class(request->program, request->symbols);
  flight_target_t target = {
      .target = &info->target, .image_kind = info->image_kind, .device = request->device};
  KILN_TRY(flights_want(request, &target, &symbol_class, outcome, out_waits));
  if (!*out_waits) request->outcome_count = 1;
  return NULL;
}

static kiln_status_t prepare(request_t *request) {
  const kiln_plan_t *plan = request->outcomes[0].variant->recipe.plan;
  kiln_constraints_t constraints = {.items = (kiln_constraint_t *)plan->constraints,
                                    .count = plan->constraint_count};
  if (!kiln_plan_guards_hold(plan, request->symbols))
    return kiln_error(KILN_INTERNAL, "the plan made for these symbol values does not take them");
  KILN_TRY(kiln_constraints_check(&constraints, request->symbols));
  KILN_TRY(check_inputs(request, plan));
  return measure_outputs(request, plan);
}

static kiln_status_t execute_step(request_t *request) {
  bool waits = false;
  device_t *device;
  KILN_TRY(find_program(request, &waits));
  if (waits) return NULL;
  if (!request->execution.input_tensors) KILN_TRY(read_inputs(request));
  KILN_TRY(devices_want(request, &device));
  if (!device) return NULL;
  if (request->execution.counters && !device->info.emulated)
    return kiln_error(KILN_UNSUPPORTED, "device %u counts nothing: only emulated devices do",
                      request->device);
  KILN_TRY(find_variant(request, device, &waits));
  if (waits) return NULL;
  KILN_TRY(prepare(request));
  request->execution.ready = true;
  devices_pump_session(request->session);
  return NULL;
}

kiln_status_t rpc_execute(request_t *request) {
  KILN_TRY(field_bool(&request->fields, "counters", false, &request->execution.counters));
  TAILQ_INSERT_TAIL(&request->session->operations, request, in_order);
  request->ordered = true;
  request->step = execute_step;
  return NULL;
}

/* --- the reply -------------------------------------------------------------------------------------- */

static void put_ints(kiln_buffer_t *out, const char *name, uint32_t rank, const kiln_dim_t *dims,
                     const int64_t *symbols) {
  kiln_mpack_member_array(out, name, rank);
  for (uint32_t axis = 0; axis < rank; axis++) {
    int64_t value = 0;
    kiln_dim_eval(dims[axis], symbols, &value);
    kiln_mpack_int(out, value);
  }
}

static void put_outputs(const request_t *request, const kiln_plan_t *plan, const char *bytes,
                        kiln_buffer_t *out) {
  const execution_t *execution = &request->execution;
  kiln_mpack_member_array(out, "outputs", plan->output_count);
  for (uint32_t i = 0; i < plan->output_count; i++) {
    const kiln_plan_tensor_t *tensor = &plan->outputs[i];
    bool strided = request->program->output_strided[i];
    kiln_mpack_map(out, strided ? 4 : 3);
    kiln_mpack_member_str(out, "dtype", kiln_dtype_name(tensor->type.dtype));
    put_ints(out, "shape", tensor->type.rank, tensor->type.dims, execution->symbols);
    if (strided) put_ints(out, "strides", tensor->type.rank, tensor->strides, execution->symbols);
    kiln_mpack_member_bin(out, "data", bytes, execution->output_bytes[i]);
    bytes += execution->output_bytes[i];
  }
}

static void reply(request_t *request, const command_result_t *result, const char *outputs) {
  const plan_outcome_t *outcome = &request->outcomes[0];
  kiln_buffer_t *out = request_open_reply(request);
  kiln_buffer_reserve(out, request->execution.output_total + 1024);
  kiln_mpack_map(out, request->execution.counters ? 7 : 6);
  put_outputs(request, outcome->variant->recipe.plan, outputs, out);
  kiln_mpack_member_hex(out, "key", &outcome->variant->key);
  kiln_mpack_member_str(out, "cache", tier_name(outcome->tier));
  kiln_mpack_member_map(out, "timings", 4);
  kiln_mpack_member_uint(out, "total_ns", kiln_clock_monotonic_ns() - request->arrived_ns);
  kiln_mpack_member_uint(out, "upload_ns", result->timings.upload_ns);
  kiln_mpack_member_uint(out, "launch_ns", result->timings.launch_ns);
  kiln_mpack_member_uint(out, "download_ns", result->timings.download_ns);
  kiln_mpack_member_uint(out, "launches", result->timings.launches);
  kiln_mpack_member_uint(out, "realigned", result->timings.realigned);
  if (request->execution.counters) {
    kiln_mpack_str(out, "counters");
    kiln_mpack_strn(out, outputs + request->execution.output_total, result->counters_bytes);
  }
  request_reply(request);
}

/* The device did not take the image: compiled anew, once, then tried again in the same place. */
static void compile_again(request_t *request) {
  server_t *server = request->server;
  session_t *session = request->session;
  variant_t *refused = request->outcomes[0].variant;
  server->counters[COUNTER_images_rejected]++;
  flights_forget(server, refused, server->devices.items[request->device].info.image_kind);
  variant_release(refused);
  request->outcome_count = 0;
  request->execution.reloaded = true;
  request->execution.ready = false;
  TAILQ_INSERT_HEAD(&session->operations, request, in_order);
  request->ordered = true;
  request_resume(request);
}

void rpc_execute_done(request_t *request, const frame_t *frame, const char *body) {
  command_result_t result;
  if (!request->session) return;
  if (frame->flags & COMMAND_LOAD_FAILED && !request->execution.reloaded) {
    compile_again(request);
  } else if (frame->flags & COMMAND_ERROR) {
    request_fail(request, error_decode(body, frame->size));
  } else {
    memcpy(&result, body, sizeof result);
    request->server->counters[COUNTER_executions]++;
    reply(request, &result, body + sizeof result);
  }
}
