/* server/device_process.c: the only process that opens the driver: obeys the server's commands for one
 * device.
 *
 *   open the device, greet -> [LOAD | EXECUTE | UNLOAD] -> the socket closes: end
 *
 * A process of its own, so that a kernel which faults costs what is on this device and nothing else: on a
 * sticky error it replies and ends, and the server has it started anew. One thread; commands run in the order
 * in which they come.
 */
#include "server/device_process.h"

#include "base/fault.h"
#include "base/map.h"
#include "server/command.h"
#include "server/control.h"
#include "server/error_wire.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
  kiln_executable_t *executable; /* NULL when loading failed */
  kiln_status_t failure;
} loaded_t;

typedef struct {
  kiln_device_t *device;
  kiln_map_t *loaded; /* variant -> loaded_t * */
  kiln_faults_t faults;
  frame_reader_t reader;
  kiln_buffer_t outputs; /* reused between executions */
  bool lost;
} process_t;

/* Reads a body front to back; `failed` once something did not fit. */
typedef struct {
  const char *at;
  size_t left;
  bool failed;
} cursor_t;

static const void *take(cursor_t *cursor, uint64_t size) {
  if (cursor->failed || size > cursor->left) {
    cursor->failed = true;
    return "";
  }
  const void *taken = cursor->at;
  cursor->at += size;
  cursor->left -= size;
  return taken;
}

static uint64_t take_u64(cursor_t *cursor) {
  uint64_t value = 0;
  const void *bytes = take(cursor, sizeof value);
  if (!cursor->failed) memcpy(&value, bytes, sizeof value);
  return value;
}

static kiln_status_t malformed(void) {
  return kiln_error(KILN_INTERNAL, "a device process got a command that it cannot read");
}

/* --- LOAD, UNLOAD ----------------------------------------------------------------------------------- */

typedef struct {
  process_t *process;
  kiln_arena_t *arena;
  cursor_t body;
  kiln_executable_t *executable; /* out */
} load_t;

static kiln_status_t run_load(void *argument) {
  load_t *load = argument;
  command_load_t head = {0};
  const void *bytes = take(&load->body, sizeof head);
  if (load->body.failed) return malformed();
  memcpy(&head, bytes, sizeof head);
  const void *order = take(&load->body, head.launch_count * sizeof(uint32_t));
  const void *plan_bytes = take(&load->body, head.plan_bytes);
  if (load->body.failed || head.artifact_count > head.launch_count) return malformed();
  const kiln_plan_t *plan;
  KILN_TRY(kiln_plan_decode(load->arena, plan_bytes, head.plan_bytes, &plan));
  kiln_kernel_artifact_t *distinct = KILN_NEW_ARRAY(load->arena, kiln_kernel_artifact_t, head.artifact_count);
  for (uint32_t i = 0; i < head.artifact_count; i++) {
    uint64_t size = take_u64(&load->body);
    const void *artifact = take(&load->body, size);
    if (load->body.failed) return malformed();
    KILN_TRY(kiln_kernel_artifact_decode(load->arena, artifact, size, &distinct[i]));
  }
  kiln_kernel_artifact_t *artifacts = KILN_NEW_ARRAY(load->arena, kiln_kernel_artifact_t, head.launch_count);
  for (uint32_t i = 0; i < head.launch_count; i++) {
    uint32_t kernel;
    memcpy(&kernel, (const char *)order + i * sizeof kernel, sizeof kernel);
    if (kernel >= head.artifact_count || plan->launch_count != head.launch_count) return malformed();
    artifacts[i] = distinct[kernel];
  }
  return kiln_device_load(load->process->device, plan, artifacts, &load->executable);
}

static void unload(process_t *process, uint64_t id) {
  const uint64_t *place = kiln_map_find(process->loaded, &id, sizeof id);
  if (!place) return;
  loaded_t *loaded = (loaded_t *)(uintptr_t)*place;
  if (loaded->executable) kiln_device_unload(process->device, loaded->executable);
  kiln_status_free(loaded->failure);
  free(loaded);
  kiln_map_remove(process->loaded, &id, sizeof id);
}

static bool on_load(process_t *process, const frame_t *frame, const char *body) {
  unload(process, frame->id);
  loaded_t *loaded = calloc(1, sizeof *loaded);
  uint64_t *place = kiln_map_put(process->loaded, &frame->id, sizeof frame->id, NULL);
  if (!loaded || !place) {
    free(loaded);
    return false;
  }
  *place = (uintptr_t)loaded;
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  load_t load = {.process = process, .arena = &arena, .body = {.at = body, .left = frame->size}};
  loaded->failure = kiln_arena_guard(&arena, run_load, &load);
  loaded->executable = load.executable;
  kiln_arena_deinit(&arena);
  return true;
}

/* --- EXECUTE ---------------------------------------------------------------------------------------- */

typedef struct {
  int64_t symbols[KILN_MAX_SYMBOLS];
  kiln_host_span_t *inputs, *outputs;
  uint32_t input_count, output_count;
  uint64_t output_bytes;
} execution_t;

/* Input spans point into the body, output spans into the process's buffer. */
static kiln_status_t read_execution(process_t *process, kiln_arena_t *arena, cursor_t body,
                                    execution_t *out) {
  command_execute_t head = {0};
  const void *bytes = take(&body, sizeof head);
  if (body.failed) return malformed();
  memcpy(&head, bytes, sizeof head);
  const void *symbols = take(&body, head.symbol_count * sizeof(int64_t));
  if (body.failed || head.symbol_count > KILN_MAX_SYMBOLS || head.input_count > body.left ||
      head.output_count > body.left)
    return malformed();
  memcpy(out->symbols, symbols, head.symbol_count * sizeof(int64_t));
  out->inputs = KILN_NEW_ARRAY(arena, kiln_host_span_t, head.input_count);
  out->outputs = KILN_NEW_ARRAY(arena, kiln_host_span_t, head.output_count);
  out->input_count = head.input_count;
  out->output_count = head.output_count;
  for (uint32_t i = 0; i < head.input_count; i++) out->inputs[i].bytes = take_u64(&body);
  for (uint32_t i = 0; i < head.output_count; i++) {
    out->outputs[i].bytes = take_u64(&body);
    out->output_bytes += out->outputs[i].bytes;
  }
  for (uint32_t i = 0; i < head.input_count; i++)
    out->inputs[i].data = (void *)take(&body, out->inputs[i].bytes);
  if (body.failed || out->output_bytes > FRAME_MAX_BYTES) return malformed();
  kiln_buffer_clear(&process->outputs);
  if (!kiln_buffer_reserve(&process->outputs, out->output_bytes))
    return kiln_error_detail(kiln_error(KILN_OUT_OF_MEMORY, "no host memory for the outputs"), "where",
                             "device");
  char *at = process->outputs.data;
  for (uint32_t i = 0; i < head.output_count; at += out->outputs[i++].bytes) out->outputs[i].data = at;
  return NULL;
}

static kiln_status_t run(process_t *process, kiln_executable_t *executable, const execution_t *execution,
                         bool count, kiln_execution_timings_t *timings, kiln_buffer_t *counters) {
  if (count) KILN_TRY(kiln_device_count(process->device, true));
  kiln_status_t status = kiln_device_execute(process->device, executable, execution->symbols,
                                             execution->inputs, execution->outputs, timings);
  if (count && !status) status = kiln_device_counters(process->device, counters);
  if (count) kiln_status_free(kiln_device_count(process->device, false));
  return status;
}

static bool reply_error(process_t *process, const frame_t *frame, kiln_status_t status, uint32_t flags) {
  kiln_buffer_t body;
  kiln_buffer_init(&body);
  error_encode(&body, status);
  frame_t reply = {
      .kind = COMMAND_EXECUTE, .flags = flags | COMMAND_ERROR, .id = frame->id, .size = body.size};
  struct iovec spans[] = {{&reply, sizeof reply}, {body.data, body.size}};
  bool sent = frame_write(process->reader.descriptor, spans, 2);
  kiln_buffer_deinit(&body);
  return sent;
}

static bool reply_result(process_t *process, const frame_t *frame, const execution_t *execution,
                         const command_result_t *result, const kiln_buffer_t *counters) {
  frame_t reply = {.kind = COMMAND_EXECUTE,
                   .id = frame->id,
                   .size = sizeof *result + execution->output_bytes + counters->size};
  struct iovec spans[] = {{&reply, sizeof reply},
                          {(void *)result, sizeof *result},
                          {process->outputs.data, execution->output_bytes},
                          {counters->data, counters->size}};
  return frame_write(process->reader.descriptor, spans, 4);
}

static bool on_execute(process_t *process, const frame_t *frame, const char *body) {
  if (kiln_fault(&process->faults, KILN_FAULT_device_crash, NULL)) abort();
  const uint64_t *place = kiln_map_find(process->loaded, &frame->id, sizeof frame->id);
  loaded_t *loaded = place ? (loaded_t *)(uintptr_t)*place : NULL;
  if (loaded && loaded->failure) return reply_error(process, frame, loaded->failure, COMMAND_LOAD_FAILED);
  kiln_arena_t arena;
  kiln_buffer_t counters;
  kiln_arena_init(&arena, 0);
  kiln_buffer_init(&counters);
  execution_t execution = {0};
  command_result_t result = {0};
  kiln_status_t status =
      loaded ? read_execution(process, &arena, (cursor_t){.at = body, .left = frame->size}, &execution)
             : malformed();
  if (!status)
    status = run(process, loaded->executable, &execution, frame->flags & COMMAND_COUNT, &result.timings,
                 &counters);
  result.counters_bytes = counters.size;
  bool sent = status ? reply_error(process, frame, status, 0)
                     : reply_result(process, frame, &execution, &result, &counters);
  process->lost = kiln_status_code(status) == KILN_DEVICE_LOST;
  kiln_status_free(status);
  kiln_buffer_deinit(&counters);
  kiln_arena_deinit(&arena);
  return sent && !process->lost;
}

/* --- the process ------------------------------------------------------------------------------------ */

static bool obey(process_t *process, const frame_t *frame, const char *body) {
  switch ((command_kind_t)frame->kind) {
  case COMMAND_LOAD:
    return on_load(process, frame, body);
  case COMMAND_EXECUTE:
    return on_execute(process, frame, body);
  case COMMAND_UNLOAD:
    unload(process, frame->id);
    return true;
  case COMMAND_GREETING:
    break;
  }
  return false;
}

static bool greet(process_t *process, kiln_status_t status) {
  kiln_buffer_t body;
  kiln_buffer_init(&body);
  if (status) {
    error_encode(&body, status);
  } else {
    kiln_buffer_append(&body, kiln_device_info(process->device), sizeof(kiln_device_info_t));
  }
  frame_t frame = {.kind = COMMAND_GREETING, .flags = status ? COMMAND_ERROR : 0, .size = body.size};
  struct iovec spans[] = {{&frame, sizeof frame}, {body.data, body.size}};
  bool sent = frame_write(process->reader.descriptor, spans, 2);
  kiln_buffer_deinit(&body);
  return sent && !status;
}

static kiln_status_t open_device(process_t *process, const char *text) {
  kiln_device_spec_t spec;
  KILN_TRY(kiln_device_spec_parse(text, &spec));
  return kiln_device_create(&spec, &process->device);
}

int device_process_run(const config_t *config, const char *spec) {
  process_t process = {.reader = {.descriptor = CONTROL_DESCRIPTOR}, .loaded = kiln_map_create(NULL)};
  if (config->test_hooks && !kiln_faults_parse(&process.faults, getenv("KILN_FAULTS"))) return 2;
  kiln_status_t status = open_device(&process, spec);
  frame_t frame;
  const char *body;
  if (process.loaded && greet(&process, status)) {
    while (frame_read(&process.reader, &frame, &body) && obey(&process, &frame, body)) {
    }
  }
  kiln_status_free(status);
  for (kiln_map_entry_t *entry; process.loaded && (entry = kiln_map_first(process.loaded));) {
    uint64_t id;
    memcpy(&id, kiln_map_key(entry, NULL), sizeof id);
    unload(&process, id);
  }
  kiln_map_destroy(process.loaded);
  kiln_device_destroy(process.device);
  kiln_buffer_deinit(&process.outputs);
  kiln_buffer_deinit(&process.reader.bytes);
  return 0;
}
