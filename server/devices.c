/* server/devices.c: device processes: turns, commands, replies, deaths.
 *
 * Commands go out as soon as their turn comes and the device has room; the reply to the first pending command
 * is the next one that arrives. A process that cannot open its device says so and ends: it is tried again
 * with backoff, and who waits is told UNAVAILABLE with what it said.
 */
#include "server/devices.h"

#include "base/clock.h"
#include "server/error_wire.h"
#include "server/rpc_execute.h"
#include "server/server.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_SPANS = 40, COPY_BYTES = 64 << 10, MAX_BACKOFF_STEPS = 7 };
#define FIRST_BACKOFF_NS 100000000ull
#define MAX_BACKOFF_NS 10000000000ull

const char *device_state_name(device_state_t state) {
  static const char *const names[] = {"starting", "ready", "lost"};
  return names[state];
}

/* --- commands --------------------------------------------------------------------------------------- */

static bool send_body(device_t *device, command_kind_t kind, uint64_t id, const kiln_buffer_t *body) {
  frame_t frame = {.kind = kind, .id = id};
  struct iovec span = {.iov_base = body->data, .iov_len = body->size};
  return !body->failed && channel_send(&device->channel, &frame, &span, 1);
}

static bool send_load(device_t *device, variant_t *variant) {
  const recipe_t *recipe = &variant->recipe;
  command_load_t head = {.plan_bytes = recipe->plan_size,
                         .launch_count = recipe->plan->launch_count,
                         .artifact_count = recipe->kernel_count};
  kiln_buffer_t body;
  kiln_buffer_init(&body);
  kiln_buffer_append(&body, &head, sizeof head);
  kiln_buffer_append(&body, recipe->launch_kernels, head.launch_count * sizeof *recipe->launch_kernels);
  kiln_buffer_append(&body, recipe->plan_bytes, recipe->plan_size);
  for (uint32_t i = 0; i < recipe->kernel_count; i++) {
    uint64_t size = variant->kernels[i]->artifact.size;
    kiln_buffer_append(&body, &size, sizeof size);
    kiln_buffer_append(&body, variant->kernels[i]->artifact.data, size);
  }
  bool sent = send_body(device, COMMAND_LOAD, variant->id, &body);
  kiln_buffer_deinit(&body);
  if (sent) variant->loaded[device->index] = device->life;
  device->server->counters[COUNTER_loads]++;
  return sent;
}

void devices_unload(server_t *server, variant_t *variant) {
  for (uint32_t i = 0; i < server->devices.count; i++) {
    device_t *device = &server->devices.items[i];
    if (device->state != DEVICE_READY || variant->loaded[i] != device->life) continue;
    frame_t frame = {.kind = COMMAND_UNLOAD, .id = variant->id};
    channel_send(&device->channel, &frame, NULL, 0);
  }
}

/* Head, symbols and sizes; the inputs' bytes too unless they are sent from where they lie. */
static void encode_execute(const request_t *request, const kiln_plan_t *plan, bool with_inputs,
                           kiln_buffer_t *out) {
  const execution_t *execution = &request->execution;
  command_execute_t head = {.symbol_count = plan->symbol_count,
                            .input_count = plan->input_count,
                            .output_count = plan->output_count};
  kiln_buffer_append(out, &head, sizeof head);
  kiln_buffer_append(out, execution->symbols, plan->symbol_count * sizeof *execution->symbols);
  for (uint32_t i = 0; i < plan->input_count; i++) {
    uint64_t size = execution->inputs[i].bytes;
    kiln_buffer_append(out, &size, sizeof size);
  }
  kiln_buffer_append(out, execution->output_bytes, plan->output_count * sizeof *execution->output_bytes);
  for (uint32_t i = 0; with_inputs && i < plan->input_count; i++)
    kiln_buffer_append(out, execution->inputs[i].data, execution->inputs[i].bytes);
}

static bool send_execute(device_t *device, const request_t *request) {
  const variant_t *variant = request->outcomes[0].variant;
  const execution_t *execution = &request->execution;
  uint32_t count = variant->recipe.plan->input_count;
  bool copied = execution->input_total <= COPY_BYTES || count > MAX_SPANS;
  struct iovec spans[MAX_SPANS + 1];
  kiln_buffer_t body = device->body;
  kiln_buffer_clear(&body);
  encode_execute(request, variant->recipe.plan, copied, &body);
  spans[0] = (struct iovec){body.data, body.size};
  for (uint32_t i = 0; !copied && i < count; i++)
    spans[i + 1] = (struct iovec){execution->inputs[i].data, execution->inputs[i].bytes};
  frame_t frame = {
      .kind = COMMAND_EXECUTE, .flags = execution->counters ? COMMAND_COUNT : 0, .id = variant->id};
  bool sent = !body.failed && channel_send(&device->channel, &frame, spans, copied ? 1 : count + 1);
  if (body.capacity > 2 * COPY_BYTES) kiln_buffer_deinit(&body);
  device->body = body;
  return sent;
}

static kiln_status_t unavailable(const device_t *device) {
  kiln_status_t status = kiln_error(KILN_UNAVAILABLE, "device %u cannot be opened", device->index);
  return device->failure ? kiln_error_note(status, "opening it: %s", kiln_status_message(device->failure))
                         : status;
}

/* --- turns ------------------------------------------------------------------------------------------ */

static bool has_room(const device_t *device) {
  return device->state == DEVICE_READY && device->pending_count < DEVICE_MAX_PENDING &&
         (!device->pending_count || device->pending_bytes < DEVICE_MAX_PENDING_BYTES);
}

static uint64_t bytes_of(const request_t *request) {
  return request->execution.input_total + request->execution.output_total;
}

/* The emulated device has a limit of its own, in instructions, and is slow by design. */
static bool is_watched(const device_t *device) {
  return device->pending_count && !device->info.emulated && device->server->config->execution_timeout;
}

static void watch_first(device_t *device) {
  device->first_since_ns = kiln_clock_monotonic_ns();
  if (is_watched(device)) server_watch(device->server);
}

static void send_request(device_t *device, request_t *request) {
  variant_t *variant = request->outcomes[0].variant;
  device->pending[(device->first_pending + device->pending_count++) % DEVICE_MAX_PENDING] = request;
  device->pending_bytes += bytes_of(request);
  if (device->pending_count == 1) watch_first(device);
  request->holds++;
  bool sent = variant->loaded[device->index] == device->life || send_load(device, variant);
  if (sent && send_execute(device, request)) return;
  device->pending_count--; /* memory is short: nothing of the command has gone out, or the stream is broken */
  device->pending_bytes -= bytes_of(request);
  request_fail(request,
               kiln_error_detail(kiln_error(KILN_OUT_OF_MEMORY, "no memory for a command"), "where", "host"));
  request_unhold(request);
}

static void leave_turn(session_t *session) {
  if (!session->turn_device) return;
  device_t *device = &session->server->devices.items[session->turn_device - 1];
  TAILQ_REMOVE(&device->turns, session, turns);
  session->turn_device = 0;
}

static void wait_for_turn(session_t *session, device_t *device) {
  if (session->turn_device == device->index + 1) return;
  leave_turn(session);
  TAILQ_INSERT_TAIL(&device->turns, session, turns);
  session->turn_device = device->index + 1;
}

/* Sends the first operation if it is ready and its device has room. */
static bool send_first(session_t *session) {
  request_t *request = TAILQ_FIRST(&session->operations);
  if (!request || !request->execution.ready) return false;
  device_t *device = &session->server->devices.items[request->device];
  if (!has_room(device)) {
    wait_for_turn(session, device);
    return false;
  }
  leave_turn(session);
  TAILQ_REMOVE(&session->operations, request, in_order);
  request->ordered = false;
  send_request(device, request);
  return true;
}

void devices_pump_session(session_t *session) {
  while (!session->stream.closing && send_first(session)) {
  }
}

/* One operation per session and round. */
static void pump_device(device_t *device) {
  session_t *session;
  while (has_room(device) && (session = TAILQ_FIRST(&device->turns))) {
    leave_turn(session);
    if (!send_first(session)) continue;
    request_t *next = TAILQ_FIRST(&session->operations);
    if (next && next->execution.ready && next->device == device->index) wait_for_turn(session, device);
  }
}

/* Nothing that is ready can go to a device that cannot be opened. */
static void refuse_turns(device_t *device) {
  session_t *session;
  while ((session = TAILQ_FIRST(&device->turns))) {
    leave_turn(session);
    request_fail(TAILQ_FIRST(&session->operations),
                 unavailable(device)); /* the next one may now wait for its turn */
  }
}

/* --- replies ---------------------------------------------------------------------------------------- */

static request_t *take_pending(device_t *device) {
  request_t *request = device->pending[device->first_pending];
  device->first_pending = (device->first_pending + 1) % DEVICE_MAX_PENDING;
  device->pending_count--;
  device->pending_bytes -= bytes_of(request);
  return request;
}

static void greeted(device_t *device, const frame_t *frame, const char *body) {
  server_t *server = device->server;
  if (frame->flags & COMMAND_ERROR || frame->size != sizeof device->info) {
    kiln_status_t status = error_decode(body, frame->size);
    kiln_log(&server->log, KILN_LOG_ERROR, NULL, "device %u: %s", device->index, kiln_status_message(status));
    kiln_status_free(device->failure);
    device->failure = status;
    device->state = DEVICE_LOST;
    requests_resume(&device->want_ready);
    refuse_turns(device);
    return;
  }
  memcpy(&device->info, body, sizeof device->info);
  if (!device->known)
    kiln_log(&server->log, KILN_LOG_INFO, NULL, "device %u: %s (%s%s)", device->index, device->info.name,
             device->info.target.arch, device->info.emulated ? ", emulated" : "");
  device->known = true;
  device->state = DEVICE_READY;
  requests_resume(&device->want_ready);
  pump_device(device);
}

static void on_frame(channel_t *channel, const frame_t *frame, const char *body) {
  device_t *device = channel->owner;
  if (frame->kind == COMMAND_GREETING) {
    greeted(device, frame, body);
  } else if (frame->kind == COMMAND_EXECUTE && device->pending_count) {
    request_t *request = take_pending(device);
    watch_first(device);
    device->deaths_in_a_row = 0;
    rpc_execute_done(request, frame, body);
    request_unhold(request);
    pump_device(device);
  }
}

/* --- processes -------------------------------------------------------------------------------------- */

static void start(device_t *device) {
  device->restart_ns = 0;
  device->exited = false;
  if (device->state != DEVICE_LOST || !device->failure) device->state = DEVICE_STARTING;
  device->server->counters[COUNTER_device_starts]++;
  server_spawn(ROLE_DEVICE, device->index);
}

/* 0, 0.1, 0.2 ... 10 s. */
static void schedule_restart(device_t *device) {
  if (device->open || !device->exited || device->server->drain_end_ns) return;
  uint64_t step = device->deaths_in_a_row++;
  uint64_t wait_ns =
      !step ? 0 : FIRST_BACKOFF_NS << (step - 1 < MAX_BACKOFF_STEPS ? step - 1 : MAX_BACKOFF_STEPS);
  device->restart_ns = kiln_clock_monotonic_ns() + (wait_ns < MAX_BACKOFF_NS ? wait_ns : MAX_BACKOFF_NS);
  device->restarts++;
  server_watch(device->server);
}

static kiln_status_t past_deadline(const device_t *device) {
  return kiln_error(KILN_DEVICE_LOST,
                    "the execution took longer than %g s (--execution-timeout), and the device was restarted",
                    (double)device->server->config->execution_timeout / 1e9);
}

/* Ends the process of a device whose first command is past its deadline; its end answers the requests. */
static void check_deadline(device_t *device, uint64_t now_ns) {
  server_t *server = device->server;
  if (device->overdue || now_ns < device->first_since_ns + server->config->execution_timeout) return;
  device->overdue = true;
  server->counters[COUNTER_device_kills]++;
  kiln_log(&server->log, KILN_LOG_ERROR, NULL, "device %u: an execution is past --execution-timeout",
           device->index);
  server_kill(ROLE_DEVICE, device->index);
}

static void on_end(channel_t *channel) {
  device_t *device = channel->owner;
  server_t *server = device->server;
  bool was_ready = device->state == DEVICE_READY;
  if (was_ready) {
    server->counters[COUNTER_device_deaths]++;
    device->state = DEVICE_STARTING;
    kiln_log(&server->log, KILN_LOG_ERROR, NULL, "device %u is lost", device->index);
  } else if (device->state == DEVICE_STARTING) {
    device->state = DEVICE_LOST; /* it died before it could say why */
  }
  channel_close(channel);
  server_kill(ROLE_DEVICE, device->index);
  for (bool culprit = device->overdue; device->pending_count; culprit = false) {
    request_t *request = take_pending(device);
    request_fail(request,
                 culprit ? past_deadline(device)
                         : kiln_error(KILN_DEVICE_LOST, "the device was lost while it had this request"));
    request_unhold(request);
  }
  device->overdue = false;
  if (was_ready) return;
  requests_resume(&device->want_ready);
  refuse_turns(device);
}

static void on_closed(channel_t *channel) {
  device_t *device = channel->owner;
  device->open = false;
  schedule_restart(device);
}

static const channel_events_t events = {.frame = on_frame, .end = on_end, .closed = on_closed};

void devices_started(server_t *server, uint32_t index, int descriptor) {
  if (index >= server->devices.count) {
    if (descriptor >= 0) close(descriptor);
    return;
  }
  device_t *device = &server->devices.items[index];
  device->life++;
  device->exited = descriptor < 0;
  device->open =
      descriptor >= 0 && channel_open(&device->channel, &server->loop, descriptor, &events, device);
  if (device->open) return;
  device->state = DEVICE_LOST;
  requests_resume(&device->want_ready);
  schedule_restart(device);
}

void devices_exited(server_t *server, uint32_t index) {
  if (index >= server->devices.count) return;
  server->devices.items[index].exited = true;
  schedule_restart(&server->devices.items[index]);
}

bool devices_tick(server_t *server, uint64_t now_ns) {
  bool more = false;
  for (uint32_t i = 0; i < server->devices.count; i++) {
    device_t *device = &server->devices.items[i];
    if (is_watched(device)) {
      more = true;
      check_deadline(device, now_ns);
    }
    if (!device->restart_ns) continue;
    more = true;
    if (now_ns >= device->restart_ns && !server->drain_end_ns) start(device);
  }
  return more;
}

/* --- asking ----------------------------------------------------------------------------------------- */

kiln_status_t devices_want(request_t *request, device_t **out) {
  server_t *server = request->server;
  *out = NULL;
  if (request->device >= server->devices.count)
    return kiln_error_detail(
        kiln_error(KILN_NOT_FOUND, "no device %u: there are %u", request->device, server->devices.count),
        "field", "device");
  device_t *device = &server->devices.items[request->device];
  if (device->state == DEVICE_LOST) return unavailable(device);
  if (device->known) {
    *out = device;
  } else {
    request_wait(request, &device->want_ready);
  }
  return NULL;
}

kiln_status_t devices_init(server_t *server) {
  devices_t *devices = &server->devices;
  devices->count = (uint32_t)server->config->device.count;
  devices->items = calloc(devices->count, sizeof *devices->items);
  if (!devices->items) return kiln_error(KILN_OUT_OF_MEMORY, "no memory for the devices");
  for (uint32_t i = 0; i < devices->count; i++) {
    device_t *device = &devices->items[i];
    device->server = server;
    device->index = i;
    TAILQ_INIT(&device->want_ready);
    TAILQ_INIT(&device->turns);
    start(device);
  }
  return NULL;
}

void devices_deinit(server_t *server) {
  for (uint32_t i = 0; i < server->devices.count; i++) {
    device_t *device = &server->devices.items[i];
    while (device->pending_count) request_unhold(take_pending(device));
    if (device->open) channel_close(&device->channel);
    device->state = DEVICE_LOST;
    kiln_status_free(device->failure);
    device->failure = NULL;
    kiln_buffer_deinit(&device->body);
  }
}
