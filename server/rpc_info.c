/* server/rpc_info.c: the methods that tell about the daemon, and those that steer it: hello, health, stats,
 * cancel, shutdown. */
#include "base/clock.h"
#include "kiln_fingerprint.h"
#include "server/server.h"

enum { PROTOCOL = 1 };

/* --- hello ------------------------------------------------------------------------------------------ */

static kiln_status_t check_protocol(request_t *request) {
  const int64_t *range;
  size_t count;
  KILN_TRY(field_ints(&request->fields, "protocol", 0, INT32_MAX, 2, &range, &count));
  if (!field_find(&request->fields, "protocol")) return NULL;
  if (count != 2 || range[0] > range[1]) return field_wrong(&request->fields, "protocol", "[least, most]");
  if (range[0] <= PROTOCOL && PROTOCOL <= range[1]) return NULL;
  return kiln_error(KILN_UNSUPPORTED, "this daemon speaks protocol %d, the client %lld to %lld", PROTOCOL,
                    (long long)range[0], (long long)range[1]);
}

static void put_devices(const server_t *server, kiln_buffer_t *out) {
  kiln_mpack_member_array(out, "devices", server->devices.count);
  for (uint32_t i = 0; i < server->devices.count; i++) {
    const device_t *device = &server->devices.items[i];
    kiln_mpack_map(out, 7);
    kiln_mpack_member_uint(out, "index", i);
    kiln_mpack_member_str(out, "name", device->info.name);
    kiln_mpack_member_str(out, "uuid", device->info.uuid);
    kiln_mpack_member_str(out, "target", device->info.target.arch);
    kiln_mpack_member_uint(out, "memory", device->info.memory_bytes);
    kiln_mpack_member_bool(out, "emulated", device->info.emulated);
    kiln_mpack_member_bool(out, "available", device->state == DEVICE_READY);
  }
}

static void put_features(kiln_buffer_t *out) {
  static const char *const features[] = {"compile", "execute", "explain", "counters", "progress", "cancel"};
  size_t count = sizeof features / sizeof features[0];
  kiln_mpack_member_array(out, "features", count);
  for (size_t i = 0; i < count; i++) kiln_mpack_str(out, features[i]);
}

static kiln_status_t finish_hello(request_t *request) {
  server_t *server = request->server;
  for (uint32_t i = 0; i < server->devices.count;
       i++) { /* devices that have just been started can be told soon */
    device_t *device = &server->devices.items[i];
    if (device->known || device->state == DEVICE_LOST) continue;
    request_wait(request, &device->want_ready);
    return NULL;
  }
  kiln_buffer_t *out = request_open_reply(request);
  kiln_mpack_map(out, 5);
  kiln_mpack_member_uint(out, "protocol", PROTOCOL);
  kiln_mpack_member_str(out, "version", KILN_VERSION);
  put_features(out);
  put_devices(server, out);
  kiln_mpack_member_map(out, "limits", 5);
  kiln_mpack_member_uint(out, "max_message", server->config->max_message);
  kiln_mpack_member_uint(out, "max_elements", SESSION_MAX_ELEMENTS);
  kiln_mpack_member_uint(out, "max_depth", SESSION_MAX_DEPTH);
  kiln_mpack_member_uint(out, "max_requests", SESSION_MAX_REQUESTS);
  kiln_mpack_member_uint(out, "max_executables", SESSION_MAX_EXECUTABLES);
  request_reply(request);
  return NULL;
}

kiln_status_t rpc_hello(request_t *request) {
  const char *client;
  KILN_TRY(check_protocol(request));
  KILN_TRY(field_text(&request->fields, "client", "", &client));
  kiln_log(&request->server->log, KILN_LOG_DEBUG, NULL, "session %llu is '%.64s'",
           (unsigned long long)request->session->number, client);
  request->step = finish_hello;
  return NULL;
}

/* --- health ----------------------------------------------------------------------------------------- */

kiln_status_t rpc_health(request_t *request) {
  server_t *server = request->server;
  bool ready = false, draining = server->drain_end_ns != 0;
  for (uint32_t i = 0; i < server->devices.count; i++)
    ready |= server->devices.items[i].state == DEVICE_READY;
  kiln_buffer_t *out = request_open_reply(request);
  kiln_mpack_map(out, 4);
  kiln_mpack_member_bool(out, "live", true);
  kiln_mpack_member_bool(out, "ready", ready && !draining);
  kiln_mpack_member_bool(out, "draining", draining);
  kiln_mpack_member_array(out, "devices", server->devices.count);
  for (uint32_t i = 0; i < server->devices.count; i++) {
    const device_t *device = &server->devices.items[i];
    kiln_mpack_map(out, 3);
    kiln_mpack_member_uint(out, "index", i);
    kiln_mpack_member_str(out, "state", device_state_name(device->state));
    kiln_mpack_member_str(out, "name", device->info.name);
  }
  request_reply(request);
  return NULL;
}

/* --- stats ------------------------------------------------------------------------------------------ */

static void put_counters(const server_t *server, kiln_buffer_t *out) {
  static const char *const names[] = {
#define KILN_COUNTER(name, help) #name,
#include "server/counters.def"
#undef KILN_COUNTER
  };
  static const char *const rejections[] = {
      NULL,
#define KILN_CODE(name, who, retry) "rejected_" #name,
#include "base/codes.def"
#undef KILN_CODE
  };
  kiln_mpack_member_map(out, "counters", COUNTER_COUNT + KILN_CODE_COUNT - 1);
  for (int i = 0; i < COUNTER_COUNT; i++) kiln_mpack_member_uint(out, names[i], server->counters[i]);
  for (int i = 1; i < KILN_CODE_COUNT; i++) kiln_mpack_member_uint(out, rejections[i], server->rejections[i]);
}

static void put_memory_cache(const server_t *server, kiln_buffer_t *out) {
  const kiln_memory_cache_t *parts[] = {server->programs, server->plans, server->kernels};
  uint64_t entries = 0, bytes = 0;
  for (size_t i = 0; i < 3; i++) {
    entries += kiln_memory_cache_count(parts[i]);
    bytes += kiln_memory_cache_bytes(parts[i]);
  }
  kiln_mpack_member_map(out, "memory_cache", 3);
  kiln_mpack_member_uint(out, "entries", entries);
  kiln_mpack_member_uint(out, "bytes", bytes);
  kiln_mpack_member_uint(out, "limit_bytes", server->config->memory_cache_size);
}

static void put_processes(const server_t *server, kiln_buffer_t *out) {
  kiln_mpack_member_array(out, "workers", server->workers.count);
  for (uint32_t i = 0; i < server->workers.count; i++) {
    kiln_mpack_map(out, 2);
    kiln_mpack_member_str(out, "state", worker_state_name(server->workers.slots[i].state));
    kiln_mpack_member_uint(out, "jobs", server->workers.slots[i].jobs_done);
  }
  kiln_mpack_member_array(out, "devices", server->devices.count);
  for (uint32_t i = 0; i < server->devices.count; i++) {
    const device_t *device = &server->devices.items[i];
    kiln_mpack_map(out, 4);
    kiln_mpack_member_uint(out, "index", i);
    kiln_mpack_member_str(out, "state", device_state_name(device->state));
    kiln_mpack_member_uint(out, "restarts", device->restarts);
    kiln_mpack_member_uint(out, "queued", device->pending_count);
  }
}

static void put_session(const session_t *session, kiln_buffer_t *out) {
  kiln_mpack_member_map(out, "session", 6);
  kiln_mpack_member_uint(out, "requests", session->request_count);
  kiln_mpack_member_uint(out, "errors", session->error_count);
  kiln_mpack_member_uint(out, "bytes_in", session->stream.bytes_in);
  kiln_mpack_member_uint(out, "bytes_out", session->stream.bytes_out);
  kiln_mpack_member_uint(out, "executables", session->executable_count);
  kiln_mpack_member_uint(out, "outstanding", session->outstanding);
}

kiln_status_t rpc_stats(request_t *request) {
  const server_t *server = request->server;
  bool all = request->session->admin;
  kiln_buffer_t *out = request_open_reply(request);
  kiln_mpack_map(out, all ? 9 : 1);
  put_session(request->session, out);
  if (all) {
    kiln_mpack_member_uint(out, "uptime_ms", (kiln_clock_monotonic_ns() - server->started_ns) / 1000000);
    kiln_mpack_member_uint(out, "sessions", server->session_count);
    put_counters(server, out);
    put_memory_cache(server, out);
    kiln_mpack_member_str(out, "compiler", server->workers.identity ? server->workers.identity : "");
    put_processes(server, out);
    kiln_mpack_member_map(out, "queue", 2);
    kiln_mpack_member_uint(out, "compiles", server->flights.count);
    kiln_mpack_member_uint(out, "failures", failures_count(&server->flights.failures));
  }
  request_reply(request);
  return NULL;
}

/* --- cancel, shutdown ------------------------------------------------------------------------------- */

static request_t *find_request(const session_t *session, uint64_t id, const request_t *not_this) {
  request_t *request;
  TAILQ_FOREACH(request, &session->requests, of_session) {
    if (request->id == id && request != not_this) return request;
  }
  return NULL;
}

kiln_status_t rpc_cancel(request_t *request) {
  int64_t id;
  KILN_TRY(field_int(&request->fields, "id", 0, (1ll << 53) - 1, -1, &id));
  if (id < 0) return field_wrong(&request->fields, "id", "a value (it is missing)");
  request_t *found = find_request(request->session, (uint64_t)id, request);
  if (found) request_fail(found, kiln_error(KILN_CANCELLED, "the request was cancelled"));
  kiln_buffer_t *out = request_open_reply(request);
  kiln_mpack_map(out, 1);
  kiln_mpack_member_bool(out, "cancelled", found != NULL);
  request_reply(request);
  return NULL;
}

kiln_status_t rpc_shutdown(request_t *request) {
  server_ask_to_drain();
  kiln_buffer_t *out = request_open_reply(request);
  kiln_mpack_map(out, 1);
  kiln_mpack_member_bool(out, "draining", true);
  request_reply(request);
  return NULL;
}
