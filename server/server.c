/* server/server.c: the server process: sets everything up, runs the loop, takes it down.
 *
 *   supervisor's sockets -> accept -> sessions ... ; control messages -> workers, devices, drain ; tick ->
 * time limits
 *
 * Parses, verifies, hashes and looks up; never opens the driver or NVRTC, never runs a pass, never waits on
 * the loop. It ends when drained, or when its supervisor is gone.
 */
#include "server/server.h"

#include "base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TICK_MS = 10, ACCEPTS_PER_WAKE = 64 };

/* --- the supervisor --------------------------------------------------------------------------------- */

static void tell(control_kind_t kind, role_t role, uint32_t index) {
  control_message_t message = {.kind = kind, .role = role, .index = index};
  control_send(CONTROL_DESCRIPTOR, &message, -1);
}

void server_spawn(role_t role, uint32_t index) { tell(CONTROL_SPAWN, role, index); }

void server_kill(role_t role, uint32_t index) { tell(CONTROL_KILL, role, index); }

void server_ask_to_drain(void) { tell(CONTROL_DRAIN, ROLE_SERVER, 0); }

static void obey(server_t *server, const control_message_t *message, int descriptor) {
  bool worker = message->role == ROLE_WORKER;
  switch (message->kind) {
  case CONTROL_SPAWNED:
    (worker ? workers_started : devices_started)(server, message->index, descriptor);
    return;
  case CONTROL_EXITED:
    (worker ? workers_exited : devices_exited)(server, message->index);
    break;
  case CONTROL_DRAIN:
    server_drain(server);
    break;
  case CONTROL_SPAWN:
  case CONTROL_KILL:
    break;
  }
  if (descriptor >= 0) close(descriptor);
}

static void on_control(uv_poll_t *poll, int status, int events) {
  server_t *server = poll->data;
  control_message_t message;
  int descriptor, got = -1;
  (void)events;
  while (status == 0 && (got = control_receive(CONTROL_DESCRIPTOR, &message, &descriptor)) > 0)
    obey(server, &message, descriptor);
  if (got < 0) _exit(1); /* nothing can be finished without a supervisor */
}

/* --- connections ------------------------------------------------------------------------------------ */

/* Without descriptors left the waiting connection would wake the loop again and again: the tick tries anew.
 */
static void pause_accepting(server_t *server) {
  for (size_t i = 0; i < server->listener_count; i++) uv_poll_stop(&server->listeners[i]);
  server->accepting = false;
  server_watch(server);
}

static void on_connection(uv_poll_t *poll, int status, int events) {
  server_t *server = poll->data;
  (void)events;
  for (int i = 0; status == 0 && i < ACCEPTS_PER_WAKE; i++) {
    int descriptor = accept4(LISTEN_DESCRIPTOR + (int)(poll - server->listeners), NULL, NULL,
                             SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (descriptor < 0) {
      if (errno != EAGAIN && errno != ECONNABORTED && errno != EINTR) pause_accepting(server);
      return;
    }
    session_accept(server, descriptor);
  }
}

static void start_accepting(server_t *server) {
  for (size_t i = 0; i < server->listener_count; i++)
    uv_poll_start(&server->listeners[i], UV_READABLE, on_connection);
  server->accepting = true;
}

/* --- time ------------------------------------------------------------------------------------------- */

static bool sessions_tick(server_t *server, uint64_t now_ns) {
  bool more = false;
  for (session_t *session = TAILQ_FIRST(&server->sessions), *next; session; session = next) {
    next = TAILQ_NEXT(session, all);
    more |= session_tick(session, now_ns);
  }
  return more;
}

static void end_if_drained(server_t *server, uint64_t now_ns) {
  bool busy = server->requests_held > 0;
  session_t *session;
  TAILQ_FOREACH(session, &server->sessions, all)
  busy |= session->outstanding || stream_unsent(&session->stream);
  if (!busy || now_ns >= server->drain_end_ns) uv_stop(&server->loop);
}

static void on_tick(uv_timer_t *timer) {
  server_t *server = timer->data;
  uint64_t now_ns = kiln_clock_monotonic_ns();
  bool more = sessions_tick(server, now_ns);
  more |= workers_tick(server, now_ns);
  more |= devices_tick(server, now_ns);
  more |= flights_tick(server);
  if (!server->accepting && !server->drain_end_ns) start_accepting(server);
  if (server->drain_end_ns) {
    end_if_drained(server, now_ns);
  } else if (!more) {
    uv_timer_stop(timer);
  }
}

void server_watch(server_t *server) {
  if (!uv_is_active((uv_handle_t *)&server->tick)) uv_timer_start(&server->tick, on_tick, TICK_MS, TICK_MS);
}

void server_drain(server_t *server) {
  if (server->drain_end_ns) return;
  server->drain_end_ns = kiln_clock_monotonic_ns() + server->config->drain_timeout;
  pause_accepting(server);
}

/* --- set-up ----------------------------------------------------------------------------------------- */

static bool open_polls(server_t *server) {
  uv_timer_init(&server->loop, &server->tick);
  server->tick.data = server->control.data = server;
  if (uv_poll_init(&server->loop, &server->control, CONTROL_DESCRIPTOR) < 0) return false;
  uv_poll_start(&server->control, UV_READABLE, on_control);
  int type;
  socklen_t size = sizeof type;
  while (getsockopt(LISTEN_DESCRIPTOR + (int)server->listener_count, SOL_SOCKET, SO_ACCEPTCONN, &type,
                    &size) == 0) {
    uv_poll_t *listener = &server->listeners[server->listener_count];
    if (uv_poll_init(&server->loop, listener, LISTEN_DESCRIPTOR + (int)server->listener_count) < 0)
      return false;
    listener->data = server;
    server->listener_count++;
  }
  start_accepting(server);
  return true;
}

static kiln_status_t open_caches(server_t *server) {
  const config_t *config = server->config;
  uint64_t part_bytes = config->memory_cache_size / 4;
  server->programs = kiln_memory_cache_create(part_bytes, program_release);
  server->plans = kiln_memory_cache_create(2 * part_bytes, variant_release);
  server->kernels = kiln_memory_cache_create(part_bytes, kernel_release);
  if (!server->programs || !server->plans || !server->kernels)
    return kiln_error(KILN_OUT_OF_MEMORY, "no memory for the caches");
  kiln_disk_cache_options_t options = {.folder = *config->cache_dir ? config->cache_dir : NULL,
                                       .limit_bytes = config->cache_size,
                                       .faults = &server->faults,
                                       .log = &server->log};
  return kiln_disk_cache_open(&options, &server->disk);
}

static kiln_status_t open_server(server_t *server) {
  if (server->config->test_hooks && !kiln_faults_parse(&server->faults, getenv("KILN_FAULTS")))
    return kiln_error(KILN_INVALID_ARGUMENT, "KILN_FAULTS names an unknown fault point");
  if (uv_loop_init(&server->loop) < 0) return kiln_error(KILN_INTERNAL, "cannot make the event loop");
  KILN_TRY(open_caches(server));
  KILN_TRY(flights_init(server));
  KILN_TRY(workers_init(server));
  if (!open_polls(server)) return kiln_error(KILN_INTERNAL, "the loop does not take the daemon's sockets");
  return devices_init(server);
}

/* Closes what is left open, and lets the loop hand out the last callbacks: pool work included. */
static void close_server(server_t *server) {
  for (session_t *session = TAILQ_FIRST(&server->sessions), *next; session; session = next) {
    next = TAILQ_NEXT(session, all);
    session_close(session);
  }
  workers_deinit(server);
  devices_deinit(server);
  if (server->control.data) {
    uv_close((uv_handle_t *)&server->tick, NULL);
    uv_close((uv_handle_t *)&server->control, NULL);
    for (size_t i = 0; i < server->listener_count; i++) uv_close((uv_handle_t *)&server->listeners[i], NULL);
  }
  uv_run(&server->loop, UV_RUN_DEFAULT);
  flights_deinit(server);
  free(server->workers.slots);
  kiln_memory_cache_destroy(server->programs);
  kiln_memory_cache_destroy(server->plans);
  kiln_memory_cache_destroy(server->kernels);
  free(server->devices.items);
  kiln_disk_cache_close(server->disk);
  uv_loop_close(&server->loop);
  kiln_buffer_deinit(&server->reply);
}

/* A connection is a descriptor: as many as the system lets us have. */
static void raise_descriptor_limit(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) < 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

int server_run(kiln_arena_t *arena, const config_t *config) {
  raise_descriptor_limit();
  server_t *server = KILN_NEW(arena, server_t);
  server->config = config;
  server->log = config_log(config, "server");
  server->started_ns = kiln_clock_monotonic_ns();
  TAILQ_INIT(&server->sessions);
  kiln_status_t status = open_server(server);
  if (status) {
    kiln_log(&server->log, KILN_LOG_ERROR, NULL, "%s", kiln_status_message(status));
    kiln_status_free(status);
    return 1; /* the process ends: nothing to take down */
  }
  uv_run(&server->loop, UV_RUN_DEFAULT);
  close_server(server);
  return 0;
}
