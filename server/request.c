/* server/request.c: requests: from bytes to a method, and from an outcome to the one reply. */
#include "server/request.h"

#include "base/clock.h"
#include "server/error_wire.h"
#include "server/server.h"

#include <stdlib.h>
#include <string.h>

#define ARENA_LIMIT_BYTES (1ull << 30)
#define MAX_ID ((1ll << 53) - 1)
#define COMMON_FIELDS "deadline_ms priority device progress"

enum { ANYONE, ADMIN, KEEP_CAPACITY = 1 << 20 };

static const method_t methods[] = {
#define KILN_METHOD(name, who, fields) {#name, (who) == ADMIN, COMMON_FIELDS " " fields, rpc_##name},
#include "server/methods.def"
#undef KILN_METHOD
};

/* --- from bytes to a request ------------------------------------------------------------------------ */

static const method_t *find_method(const kiln_mpack_t *name) {
  for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
    if (kiln_mpack_is_str(name, methods[i].name)) return &methods[i];
  }
  return NULL;
}

/* [], [[]] and [{}] mean no fields. */
static kiln_status_t find_fields(request_t *request, const kiln_mpack_t *params) {
  request->fields = (fields_t){.arena = &request->arena, .path = ""};
  size_t count = kiln_mpack_count(params);
  const kiln_mpack_t *only = count == 1 ? kiln_mpack_item(params, 0) : NULL;
  if (kiln_mpack_kind(params) != KILN_MPACK_ARRAY || count > 1 ||
      (only && kiln_mpack_kind(only) != KILN_MPACK_MAP && kiln_mpack_kind(only) != KILN_MPACK_NIL &&
       !(kiln_mpack_kind(only) == KILN_MPACK_ARRAY && !kiln_mpack_count(only))))
    return field_wrong(&request->fields, "params", "an array with one map");
  if (only && kiln_mpack_kind(only) == KILN_MPACK_MAP) request->fields.map = only;
  return NULL;
}

static kiln_status_t read_common_fields(request_t *request) {
  const fields_t *fields = &request->fields;
  int64_t deadline_ms, device;
  KILN_TRY(fields_known(fields, request->method->fields));
  KILN_TRY(field_int(fields, "deadline_ms", 1, 86400000, 0, &deadline_ms));
  KILN_TRY(field_int(fields, "priority", -100, 100, 0, &request->priority));
  KILN_TRY(field_int(fields, "device", 0, UINT32_MAX - 1, 0, &device));
  KILN_TRY(field_bool(fields, "progress", false, &request->progress));
  request->device = (uint32_t)device;
  if (deadline_ms) {
    request->deadline_ns = request->arrived_ns + (uint64_t)deadline_ms * 1000000;
    server_watch(request->server);
  }
  return NULL;
}

static kiln_status_t check_admission(const request_t *request) {
  const session_t *session = request->session;
  const request_t *other;
  if (session->outstanding > SESSION_MAX_REQUESTS)
    return kiln_error(KILN_OVERLOADED, "this session has %d requests without a reply", SESSION_MAX_REQUESTS);
  TAILQ_FOREACH(other, &session->requests, of_session) {
    if (other != request && other->id == request->id)
      return kiln_error_detail(
          kiln_error(KILN_INVALID_ARGUMENT, "another request with this id waits for its reply"), "field",
          "id");
  }
  return NULL;
}

typedef struct {
  request_t *request;
  const kiln_mpack_t *method, *params;
} starting_t;

/* Everything that is an error of this request and not of the connection. */
static kiln_status_t start(void *argument) {
  starting_t *starting = argument;
  request_t *request = starting->request;
  KILN_TRY(check_admission(request));
  request->method = find_method(starting->method);
  if (!request->method) {
    const char *name;
    size_t size;
    kiln_mpack_get_str(starting->method, &name, &size);
    return kiln_error(KILN_UNSUPPORTED, "no method '%.*s'", (int)(size < 64 ? size : 64), name);
  }
  KILN_TRY(find_fields(request, starting->params));
  KILN_TRY(read_common_fields(request));
  if (request->method->admin && !request->session->admin)
    return kiln_error(KILN_PERMISSION_DENIED, "'%s' needs the daemon's own user or root",
                      request->method->name);
  if (request->server->drain_end_ns && request->method->start != rpc_health &&
      request->method->start != rpc_stats)
    return kiln_error(KILN_UNAVAILABLE, "the daemon is shutting down");
  KILN_TRY(request->method->start(request));
  return request->step ? request->step(request) : NULL;
}

static kiln_status_t not_a_request(void) {
  return kiln_error(KILN_PROTOCOL_ERROR, "the message is no request: expected [0, id, method, params]");
}

static request_t *create(session_t *session, uint64_t now_ns) {
  request_t *request = calloc(1, sizeof *request);
  if (!request) return NULL;
  request->server = session->server;
  request->session = session;
  request->arrived_ns = now_ns;
  kiln_arena_init(&request->arena, ARENA_LIMIT_BYTES);
  return request;
}

static void destroy(request_t *request) {
  for (uint32_t i = 0; i < request->outcome_count; i++) variant_release(request->outcomes[i].variant);
  program_release(request->program);
  kiln_buffer_deinit(&request->message);
  kiln_arena_deinit(&request->arena);
  free(request);
}

/* What the message is: a notification (*out_params NULL), or a request's parts. */
static kiln_status_t take_apart(request_t *request, bool *out_has_id, const kiln_mpack_t **out_method,
                                const kiln_mpack_t **out_params) {
  const kiln_mpack_t *message;
  int64_t kind, id;
  *out_params = NULL;
  KILN_TRY(kiln_mpack_decode(&request->arena, request->message.data, request->message.size, &message));
  size_t count = kiln_mpack_count(message);
  if (kiln_mpack_kind(message) != KILN_MPACK_ARRAY || count < 3 || count > 4 ||
      !kiln_mpack_get_int(kiln_mpack_item(message, 0), &kind))
    return not_a_request();
  if (kind == 2 && count == 3) return NULL;
  if (kind != 0 || count != 4 || !kiln_mpack_get_int(kiln_mpack_item(message, 1), &id) || id < 0 ||
      id > MAX_ID)
    return not_a_request();
  *out_has_id = true;
  request->id = (uint64_t)id;
  *out_method = kiln_mpack_item(message, 2);
  *out_params = kiln_mpack_item(message, 3);
  return kiln_mpack_kind(*out_method) == KILN_MPACK_STR ? NULL : not_a_request();
}

kiln_status_t request_begin(session_t *session, const void *message, size_t size, uint64_t now_ns,
                            bool *out_has_id, uint64_t *out_id) {
  starting_t starting = {.request = create(session, now_ns)};
  request_t *request = starting.request;
  if (request) kiln_buffer_append(&request->message, message, size);
  if (!request || request->message.failed) {
    if (request) destroy(request);
    return kiln_error_detail(kiln_error(KILN_OUT_OF_MEMORY, "no memory for the message"), "where", "host");
  }
  kiln_status_t status = take_apart(request, out_has_id, &starting.method, &starting.params);
  *out_id = request->id;
  if (status || !starting.params) {
    destroy(request);
    return status;
  }
  TAILQ_INSERT_TAIL(&session->requests, request, of_session);
  session->outstanding++;
  session->server->counters[COUNTER_requests]++;
  request->holds++; /* through a reply that start() may give */
  status = kiln_arena_guard(&request->arena, start, &starting);
  if (status) request_fail(request, status);
  request_unhold(request);
  return NULL;
}

/* --- waiting ---------------------------------------------------------------------------------------- */

static kiln_status_t step(void *argument) {
  request_t *request = argument;
  return request->step(request);
}

void request_resume(request_t *request) {
  if (!request->session) return;
  request->holds++;
  kiln_status_t status = kiln_arena_guard(&request->arena, step, request);
  if (status) request_fail(request, status);
  request_unhold(request);
}

void request_wait(request_t *request, request_list_t *list) {
  TAILQ_INSERT_TAIL(list, request, waiting);
  request->waits_in = list;
}

void request_stop_waiting(request_t *request) {
  if (request->waits_in) TAILQ_REMOVE(request->waits_in, request, waiting);
  request->waits_in = NULL;
}

void requests_resume(request_list_t *list) {
  request_list_t now = TAILQ_HEAD_INITIALIZER(now);
  request_t *request;
  TAILQ_CONCAT(&now, list, waiting);
  TAILQ_FOREACH(request, &now, waiting)
  request->waits_in = &now; /* one that ends meanwhile leaves this list */
  while ((request = TAILQ_FIRST(&now))) {
    request_stop_waiting(request);
    request_resume(request);
  }
}

void requests_fail(request_list_t *list, kiln_status_t status) {
  request_t *request;
  while ((request = TAILQ_FIRST(list))) {
    request_stop_waiting(request);
    request->flight = NULL;
    request_fail(request, error_copy(status));
  }
}

/* --- ending ----------------------------------------------------------------------------------------- */

/* Takes it out of everything. The session's later operations may now have their turn. */
static void end(request_t *request) {
  session_t *session = request->session;
  request->session = NULL;
  request->server->requests_held++;
  request->holds++;
  request_stop_waiting(request);
  if (request->flight) flights_left(request->server, request->flight);
  request->flight = NULL;
  TAILQ_REMOVE(&session->requests, request, of_session);
  session->outstanding--;
  if (request->ordered) {
    TAILQ_REMOVE(&session->operations, request, in_order);
    request->ordered = false;
    if (!session->stream.closing) devices_pump_session(session);
  }
  request_unhold(request);
}

void request_unhold(request_t *request) {
  if (--request->holds || request->session) return;
  request->server->requests_held--;
  destroy(request);
}

void request_drop(request_t *request) { end(request); }

kiln_buffer_t *request_open_reply(request_t *request) {
  kiln_buffer_t *out = &request->server->reply;
  kiln_buffer_clear(out);
  kiln_mpack_array(out, 4);
  kiln_mpack_int(out, 1);
  kiln_mpack_uint(out, request->id);
  kiln_mpack_nil(out);
  return out;
}

static void send_and_end(request_t *request) {
  session_t *session = request->session;
  kiln_buffer_t reply = request->server->reply; /* ours until it is sent: ending may start another reply */
  kiln_buffer_init(&request->server->reply);
  request->holds++;
  end(request);
  session_send(session, &reply);
  if (!request->server->reply.data && reply.capacity <= KEEP_CAPACITY) {
    request->server->reply = reply;
  } else {
    kiln_buffer_deinit(&reply);
  }
  request_unhold(request);
}

void request_reply(request_t *request) { send_and_end(request); }

void reply_error(kiln_buffer_t *out, bool has_id, uint64_t id, kiln_status_t status) {
  kiln_mpack_array(out, 4);
  kiln_mpack_int(out, 1);
  has_id ? kiln_mpack_uint(out, id) : kiln_mpack_nil(out);
  error_encode(out, status);
  kiln_mpack_nil(out);
}

void request_fail(request_t *request, kiln_status_t status) {
  if (request->session) {
    request->server->rejections[kiln_status_code(status)]++;
    request->session->error_count++;
    kiln_log(&request->server->log, KILN_LOG_DEBUG, NULL, "session %llu request %llu: %s: %s",
             (unsigned long long)request->session->number, (unsigned long long)request->id,
             kiln_code_name(kiln_status_code(status)), kiln_status_message(status));
    kiln_buffer_clear(&request->server->reply);
    reply_error(&request->server->reply, true, request->id, status);
    send_and_end(request);
  }
  kiln_status_free(status);
}

void request_progress(request_t *request, const char *stage, uint64_t done, uint64_t total) {
  if (!request->progress || !request->session) return;
  kiln_buffer_t out;
  kiln_buffer_init(&out);
  kiln_mpack_array(&out, 3);
  kiln_mpack_int(&out, 2);
  kiln_mpack_str(&out, "progress");
  kiln_mpack_array(&out, 1);
  kiln_mpack_map(&out, total ? 4 : 2);
  kiln_mpack_str(&out, "id");
  kiln_mpack_uint(&out, request->id);
  kiln_mpack_str(&out, "stage");
  kiln_mpack_str(&out, stage);
  if (total) {
    kiln_mpack_str(&out, "done");
    kiln_mpack_uint(&out, done);
    kiln_mpack_str(&out, "total");
    kiln_mpack_uint(&out, total);
  }
  session_send(request->session, &out);
  kiln_buffer_deinit(&out);
}
