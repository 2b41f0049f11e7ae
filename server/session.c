/* server/session.c: connections: who may, what comes in, what goes out, and when one is cut off. */
#include "server/session.h"

#include "base/clock.h"
#include "server/server.h"

#include <grp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { UNREAD_BYTES = 1 << 20 };
#define LINGER_NS 2000000000ull

/* --- opening ---------------------------------------------------------------------------------------- */

/* The daemon's user, root, and with --socket-group who passed the socket's mode: the kernel has checked the
 * group then. */
static bool may_connect(const server_t *server, int descriptor, bool *out_admin) {
  struct ucred peer;
  socklen_t size = sizeof peer;
  if (getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0) return false;
  *out_admin = peer.uid == 0 || peer.uid == geteuid();
  return *out_admin || *server->config->socket_group;
}

static void scan_from_start(session_t *session) {
  kiln_mpack_limits_t limits = {.max_bytes = session->server->config->max_message,
                                .max_elements = SESSION_MAX_ELEMENTS,
                                .max_depth = SESSION_MAX_DEPTH};
  kiln_mpack_scan_init(&session->scanner, &limits);
}

static void on_bytes(stream_t *stream, const char *data, size_t size);
static void on_end(stream_t *stream);
static void on_drained(stream_t *stream);
static void on_closed(stream_t *stream);

static const stream_events_t events = {
    .bytes = on_bytes, .end = on_end, .drained = on_drained, .closed = on_closed};

/* Ends the session after its replies are sent. What still comes is read and thrown away for a while: a socket
 * that is closed with bytes in it would take the last reply from a peer that is still writing. */
static void end_after_replies(session_t *session) {
  session->ending_ns = kiln_clock_monotonic_ns();
  session->server->counters[COUNTER_sessions_cut]++;
  kiln_buffer_deinit(&session->in);
  if (!stream_unsent(&session->stream)) stream_finish(&session->stream);
  server_watch(session->server);
}

/* Replies to what is no request, and closes: there is no boundary to resume at. */
static void refuse(session_t *session, bool has_id, uint64_t id, kiln_status_t status) {
  kiln_buffer_t reply;
  kiln_buffer_init(&reply);
  session->server->rejections[kiln_status_code(status)]++;
  reply_error(&reply, has_id, id, status);
  session_send(session, &reply);
  kiln_buffer_deinit(&reply);
  kiln_status_free(status);
  end_after_replies(session);
}

void session_accept(server_t *server, int descriptor) {
  session_t *session = calloc(1, sizeof *session);
  kiln_map_t *handles = session ? kiln_map_create(NULL) : NULL;
  if (!handles || !stream_open(&session->stream, &server->loop, descriptor, &events, session)) {
    if (!handles) close(descriptor);
    kiln_map_destroy(handles);
    free(session);
    return;
  }
  session->server = server;
  session->handles = handles;
  session->number = ++server->sessions_made;
  session->last_output_ns = kiln_clock_monotonic_ns();
  TAILQ_INIT(&session->requests);
  TAILQ_INIT(&session->operations);
  TAILQ_INSERT_TAIL(&server->sessions, session, all);
  server->session_count++;
  server->counters[COUNTER_sessions]++;
  scan_from_start(session);
  if (!may_connect(server, descriptor, &session->admin)) {
    server->counters[COUNTER_sessions_refused]++;
    refuse(session, false, 0, kiln_error(KILN_UNAUTHENTICATED, "this socket serves other users"));
  }
}

/* --- closing ---------------------------------------------------------------------------------------- */

void session_close(session_t *session) {
  if (session->stream.closing) return;
  while (!TAILQ_EMPTY(&session->requests)) request_drop(TAILQ_FIRST(&session->requests));
  if (session->turn_device) {
    device_t *device = &session->server->devices.items[session->turn_device - 1];
    TAILQ_REMOVE(&device->turns, session, turns);
    session->turn_device = 0;
  }
  TAILQ_REMOVE(&session->server->sessions, session, all);
  session->server->session_count--;
  stream_close(&session->stream);
}

static void on_closed(stream_t *stream) {
  session_t *session = stream->owner;
  for (size_t i = 0; i < session->executable_count; i++) program_release(session->executables[i]);
  free(session->executables);
  kiln_map_destroy(session->handles);
  kiln_buffer_deinit(&session->in);
  free(session);
}

static void on_end(stream_t *stream) { session_close(stream->owner); }

/* --- in --------------------------------------------------------------------------------------------- */

static void on_bytes(stream_t *stream, const char *data, size_t size) {
  session_input(stream->owner, data, size, kiln_clock_monotonic_ns());
}

static kiln_status_t scan_error(kiln_scan_t outcome) {
  if (outcome == KILN_SCAN_TOO_LARGE)
    return kiln_error(KILN_TOO_LARGE, "the message is larger than this daemon takes; see hello.limits");
  if (outcome == KILN_SCAN_TOO_MANY)
    return kiln_error(KILN_PROTOCOL_ERROR, "the message has more elements than this daemon takes");
  if (outcome == KILN_SCAN_TOO_DEEP) return kiln_error(KILN_PROTOCOL_ERROR, "the message nests too deep");
  return kiln_error(KILN_PROTOCOL_ERROR, "the bytes are no MessagePack");
}

/* One whole message. */
static void take_message(session_t *session, const char *message, size_t size, uint64_t now_ns) {
  bool has_id = false;
  uint64_t id = 0;
  session->request_count++;
  kiln_status_t status = request_begin(session, message, size, now_ns, &has_id, &id);
  if (status) refuse(session, has_id, id, status);
}

/* Takes whole messages from the front of the bytes; returns how many bytes they were. */
static size_t take_messages(session_t *session, const char *bytes, size_t size, uint64_t now_ns) {
  size_t at = 0;
  while (at < size && !session->ending_ns) {
    kiln_scan_t outcome = kiln_mpack_scan(&session->scanner, bytes + at, size - at);
    if (outcome == KILN_SCAN_MORE) break;
    if (outcome != KILN_SCAN_COMPLETE) {
      refuse(session, false, 0, scan_error(outcome));
      break;
    }
    size_t length = session->scanner.position;
    scan_from_start(session);
    take_message(session, bytes + at, length, now_ns);
    at += length;
  }
  return at;
}

void session_input(session_t *session, const char *bytes, size_t size, uint64_t now_ns) {
  if (session->ending_ns) return;
  session->last_input_ns = now_ns;
  bool buffered = session->in.size > 0;
  if (buffered) {
    kiln_buffer_append(&session->in, bytes, size);
    bytes = session->in.data;
    size = session->in.size;
  }
  size_t taken = take_messages(session, bytes, size, now_ns);
  if (session->ending_ns) return;
  if (!buffered) {
    kiln_buffer_append(&session->in, bytes + taken, size - taken);
  } else if (taken == size) {
    kiln_buffer_deinit(&session->in);
  } else {
    kiln_buffer_consume(&session->in, taken);
  }
  if (session->in.failed) {
    session_close(session);
  } else if (session->in.size) {
    server_watch(session->server);
  }
}

/* --- out -------------------------------------------------------------------------------------------- */

void session_send(session_t *session, const kiln_buffer_t *bytes) {
  struct iovec span = {.iov_base = bytes->data, .iov_len = bytes->size};
  stream_t *stream = &session->stream;
  bool sent = !bytes->failed && stream_send(stream, &span, 1);
  size_t unsent = stream_unsent(stream);
  if (!unsent && sent) return;
  if (!sent || unsent > 2 * session->server->config->max_message) session->broken = true;
  if (unsent > UNREAD_BYTES) stream_pause(stream, true);
  server_watch(session->server);
}

static void on_drained(stream_t *stream) {
  session_t *session = stream->owner;
  if (session->ending_ns) {
    stream_finish(stream);
  } else {
    stream_pause(stream, false);
  }
}

/* --- executables ------------------------------------------------------------------------------------ */

static bool grow_executables(session_t *session) {
  if (session->executable_count < session->executable_capacity) return true;
  size_t capacity = session->executable_capacity ? 2 * session->executable_capacity : 8;
  program_t **executables = reallocarray(session->executables, capacity, sizeof *executables);
  if (!executables) return false;
  session->executables = executables;
  session->executable_capacity = capacity;
  return true;
}

kiln_status_t session_handle(session_t *session, program_t *program, uint64_t *out_handle) {
  uint64_t *place = kiln_map_find(session->handles, &program, sizeof program);
  if (!place) {
    uint64_t bytes = session->executable_bytes + program_bytes(program);
    if (session->executable_count == SESSION_MAX_EXECUTABLES ||
        bytes > session->server->config->memory_cache_size)
      return kiln_error(KILN_OVERLOADED, "this session has too many executables");
    place = grow_executables(session) ? kiln_map_put(session->handles, &program, sizeof program, NULL) : NULL;
    if (!place)
      return kiln_error_detail(kiln_error(KILN_OUT_OF_MEMORY, "no memory for a handle"), "where", "host");
    session->executables[session->executable_count++] = program_retain(program);
    session->executable_bytes = bytes;
    *place = session->executable_count;
  }
  *out_handle = *place;
  return NULL;
}

program_t *session_program(const session_t *session, uint64_t handle) {
  return handle >= 1 && handle <= session->executable_count ? session->executables[handle - 1] : NULL;
}

/* --- time limits ------------------------------------------------------------------------------------ */

static request_t *find_expired(const session_t *session, uint64_t now_ns) {
  request_t *request;
  TAILQ_FOREACH(request, &session->requests, of_session) {
    if (request->deadline_ns && now_ns >= request->deadline_ns) return request;
  }
  return NULL;
}

/* Requests past their deadline fail; true while some have one. */
static bool check_deadlines(session_t *session, uint64_t now_ns) {
  request_t *request;
  while ((request = find_expired(session, now_ns)))
    request_fail(request, kiln_error(KILN_DEADLINE_EXCEEDED, "the request's deadline passed"));
  return find_expired(session, UINT64_MAX) != NULL;
}

bool session_tick(session_t *session, uint64_t now_ns) {
  uint64_t limit_ns = session->server->config->idle_timeout;
  size_t unsent = stream_unsent(&session->stream);
  bool more = check_deadlines(session, now_ns);
  if (!unsent || unsent != session->last_unsent) session->last_output_ns = now_ns;
  session->last_unsent = unsent;
  bool stuck_in = session->in.size && !session->stream.paused && now_ns - session->last_input_ns > limit_ns;
  bool stuck_out = unsent && now_ns - session->last_output_ns > limit_ns;
  bool over = session->ending_ns && now_ns - session->ending_ns > LINGER_NS;
  if (stuck_in || stuck_out || over || session->broken) {
    if (!over) session->server->counters[COUNTER_sessions_cut]++;
    session_close(session);
    return false;
  }
  return more || session->in.size || unsent || session->ending_ns;
}
