/* server/supervisor.c: starts the server, and workers and device processes for it; restarts it when it dies.
 *
 *   listeners, lock -> [spawn server -> obey its control messages, reap -> server died: kill its children,
 * back off] -> end
 *
 * One thread, poll(2) over a signalfd and the control socket. No graph, no driver, no client byte passes
 * here. A child ends when its socket closes; that it also gets SIGKILL when this process dies is a belt.
 * Children inherit the descriptors that they are given and no other.
 */
#include "server/supervisor.h"

#include "base/clock.h"
#include "server/control.h"
#include "server/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_CHILDREN = 1024, MAX_DEATHS = 5, EXIT_SERVER_KEEPS_DYING = 4 };
#define NS_PER_S 1000000000ull
#define DEATHS_WINDOW_NS (60 * NS_PER_S)
#define DRAIN_GRACE_NS (2 * NS_PER_S) /* beyond the server's own drain time */

typedef struct {
  pid_t pid;
  role_t role;
  uint32_t index;
} child_t;

typedef struct {
  kiln_arena_t *arena;
  const config_t *config;
  kiln_log_t log;
  listener_t listeners[CONFIG_MAX_ITEMS];
  size_t listener_count;
  int signals; /* signalfd */
  int control; /* -1 while there is no server */
  pid_t server;
  child_t children[MAX_CHILDREN]; /* workers and devices of the running server */
  size_t child_count;
  uint64_t deaths_ns[MAX_DEATHS]; /* the last ones of the server, newest last */
  size_t death_count;
  uint64_t restart_ns;   /* when to start the server again; 0: now */
  uint64_t drain_end_ns; /* 0: not draining */
  int exit_status;
  bool ended;
} supervisor_t;

/* --- starting processes ----------------------------------------------------------------------------- */

/* What a worker's environment keeps: where libraries and the cache are, and how a test build reports. */
static const char *const worker_environment[] = {
    "KILN_NVRTC", "LD_LIBRARY_PATH", "CACHE_DIRECTORY", "XDG_CACHE_HOME",
    "HOME",       "KILN_FAULTS",     "ASAN_OPTIONS",    "UBSAN_OPTIONS",
    "LANG"};

static char **environment_of(kiln_arena_t *arena, role_t role) {
  if (role != ROLE_WORKER) return environ;
  size_t count = sizeof worker_environment / sizeof worker_environment[0], kept = 0;
  char **out = KILN_NEW_ARRAY(arena, char *, count + 1);
  for (size_t i = 0; i < count; i++) {
    const char *value = getenv(worker_environment[i]);
    if (value) out[kept++] = kiln_arena_printf(arena, "%s=%s", worker_environment[i], value);
  }
  return out;
}

/* Starts this executable again with its sockets at CONTROL_DESCRIPTOR and up. */
static pid_t start(supervisor_t *supervisor, role_t role, uint32_t index, const int *descriptors,
                   size_t count) {
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  char **arguments = config_arguments(&arena, supervisor->config, role, index);
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  int parked[CONFIG_MAX_ITEMS +
             1]; /* above all targets, so that one dup2 does not overwrite the source of the next */
  for (size_t i = 0; i < count; i++) {
    parked[i] = fcntl(descriptors[i], F_DUPFD_CLOEXEC, CONTROL_DESCRIPTOR + (int)count);
    posix_spawn_file_actions_adddup2(&actions, parked[i], CONTROL_DESCRIPTOR + (int)i);
  }
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t pid = -1;
  int error =
      posix_spawn(&pid, "/proc/self/exe", &actions, &attributes, arguments, environment_of(&arena, role));
  if (error)
    kiln_log(&supervisor->log, KILN_LOG_ERROR, NULL, "cannot start %s: %s", role_name(role), strerror(error));
  for (size_t i = 0; i < count; i++) close(parked[i]);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  kiln_arena_deinit(&arena);
  return error ? -1 : pid;
}

static void schedule_restart(supervisor_t *supervisor);

static void start_server(supervisor_t *supervisor) {
  int pair[2], descriptors[CONFIG_MAX_ITEMS + 1];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
    schedule_restart(supervisor);
    return;
  }
  descriptors[0] = pair[1];
  for (size_t i = 0; i < supervisor->listener_count; i++)
    descriptors[i + 1] = supervisor->listeners[i].socket;
  supervisor->server = start(supervisor, ROLE_SERVER, 0, descriptors, supervisor->listener_count + 1);
  close(pair[1]);
  supervisor->control = pair[0];
  if (supervisor->server > 0) return;
  supervisor->server = 0;
  close(supervisor->control);
  supervisor->control = -1;
  schedule_restart(supervisor);
}

/* --- what the server asks --------------------------------------------------------------------------- */

static child_t *find_child(supervisor_t *supervisor, role_t role, uint32_t index) {
  for (child_t *child = supervisor->children; child < supervisor->children + supervisor->child_count;
       child++) {
    if (child->role == role && child->index == index) return child;
  }
  return NULL;
}

static void spawn_child(supervisor_t *supervisor, const control_message_t *request) {
  control_message_t reply = {.kind = CONTROL_SPAWNED, .role = request->role, .index = request->index};
  int pair[2] = {-1, -1};
  pid_t pid = -1;
  if (supervisor->child_count < MAX_CHILDREN && !find_child(supervisor, request->role, request->index) &&
      socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0)
    pid = start(supervisor, request->role, request->index, &pair[1], 1);
  if (pid > 0)
    supervisor->children[supervisor->child_count++] =
        (child_t){.pid = pid, .role = request->role, .index = request->index};
  control_send(supervisor->control, &reply, pid > 0 ? pair[0] : -1);
  if (pair[0] >= 0) close(pair[0]);
  if (pair[1] >= 0) close(pair[1]);
}

static void begin_drain(supervisor_t *supervisor, const char *why) {
  if (supervisor->drain_end_ns) return;
  kiln_log(&supervisor->log, KILN_LOG_INFO, NULL, "draining: %s", why);
  supervisor->drain_end_ns = kiln_clock_monotonic_ns() + supervisor->config->drain_timeout + DRAIN_GRACE_NS;
  control_message_t message = {.kind = CONTROL_DRAIN};
  if (!supervisor->server || !control_send(supervisor->control, &message, -1)) supervisor->ended = true;
}

static void obey(supervisor_t *supervisor, const control_message_t *message) {
  child_t *child;
  switch (message->kind) {
  case CONTROL_SPAWN:
    spawn_child(supervisor, message);
    break;
  case CONTROL_KILL:
    child = find_child(supervisor, message->role, message->index);
    if (child) kill(child->pid, SIGKILL);
    break;
  case CONTROL_DRAIN:
    begin_drain(supervisor, "a client asked for it");
    break;
  case CONTROL_SPAWNED:
  case CONTROL_EXITED:
    break;
  }
}

static void on_control(supervisor_t *supervisor) {
  control_message_t message;
  int descriptor, got = control_receive(supervisor->control, &message, &descriptor);
  if (descriptor >= 0) close(descriptor);
  if (got > 0) {
    obey(supervisor, &message);
  } else if (got < 0) { /* the server ends or has ended: reaping tells */
    close(supervisor->control);
    supervisor->control = -1;
    if (supervisor->server > 0 && !supervisor->drain_end_ns) kill(supervisor->server, SIGKILL);
  }
}

/* --- reaping ---------------------------------------------------------------------------------------- */

static void log_end(supervisor_t *supervisor, role_t role, uint32_t index, int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    kiln_log(&supervisor->log, KILN_LOG_WARNING, NULL, "%s %u was ended by signal %d", role_name(role), index,
             WTERMSIG(wait_status));
  } else {
    kiln_log(&supervisor->log, KILN_LOG_DEBUG, NULL, "%s %u exited with status %d", role_name(role), index,
             WEXITSTATUS(wait_status));
  }
}

/* 0, 0.1, 0.4, 1.6, 6.4 s: at the fifth death within the window the daemon gives up. */
static void schedule_restart(supervisor_t *supervisor) {
  uint64_t now_ns = kiln_clock_monotonic_ns();
  size_t recent = 0;
  for (size_t i = 0; i < supervisor->death_count; i++) {
    if (now_ns - supervisor->deaths_ns[i] < DEATHS_WINDOW_NS)
      supervisor->deaths_ns[recent++] = supervisor->deaths_ns[i];
  }
  supervisor->deaths_ns[recent++] = now_ns;
  supervisor->death_count = recent;
  if (recent == MAX_DEATHS) {
    kiln_log(&supervisor->log, KILN_LOG_ERROR, NULL, "the server died %d times within a minute; giving up",
             MAX_DEATHS);
    supervisor->exit_status = EXIT_SERVER_KEEPS_DYING;
    supervisor->ended = true;
    return;
  }
  uint64_t wait_ns = recent == 1 ? 0 : (NS_PER_S / 10) << (2 * (recent - 2));
  supervisor->restart_ns = now_ns + wait_ns;
}

static void server_ended(supervisor_t *supervisor, int wait_status) {
  supervisor->server = 0;
  if (supervisor->control >= 0) close(supervisor->control);
  supervisor->control = -1;
  for (size_t i = 0; i < supervisor->child_count; i++) kill(supervisor->children[i].pid, SIGKILL);
  if (supervisor->drain_end_ns) {
    supervisor->ended = true;
  } else {
    kiln_log(&supervisor->log, KILN_LOG_ERROR, NULL, "the server ended (%s %d)",
             WIFSIGNALED(wait_status) ? "signal" : "status",
             WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : WEXITSTATUS(wait_status));
    schedule_restart(supervisor);
  }
}

static void child_ended(supervisor_t *supervisor, pid_t pid, int wait_status) {
  for (size_t i = 0; i < supervisor->child_count; i++) {
    child_t child = supervisor->children[i];
    if (child.pid != pid) continue;
    supervisor->children[i] = supervisor->children[--supervisor->child_count];
    log_end(supervisor, child.role, child.index, wait_status);
    control_message_t message = {
        .kind = CONTROL_EXITED, .role = child.role, .index = child.index, .wait_status = wait_status};
    if (supervisor->control >= 0) control_send(supervisor->control, &message, -1);
    return;
  }
}

static void on_signal(supervisor_t *supervisor) {
  struct signalfd_siginfo signal;
  if (read(supervisor->signals, &signal, sizeof signal) != sizeof signal) return;
  if (signal.ssi_signo != SIGCHLD) {
    if (supervisor->drain_end_ns) supervisor->ended = true; /* the second time: at once */
    begin_drain(supervisor, strsignal((int)signal.ssi_signo));
    return;
  }
  int wait_status;
  for (pid_t pid; (pid = waitpid(-1, &wait_status, WNOHANG)) > 0;) {
    pid == supervisor->server ? server_ended(supervisor, wait_status)
                              : child_ended(supervisor, pid, wait_status);
  }
}

/* --- the loop --------------------------------------------------------------------------------------- */

static int wait_ms(const supervisor_t *supervisor) {
  uint64_t until_ns = supervisor->drain_end_ns ? supervisor->drain_end_ns : supervisor->restart_ns;
  if (!until_ns || (!supervisor->drain_end_ns && supervisor->server)) return -1;
  uint64_t now_ns = kiln_clock_monotonic_ns();
  return until_ns > now_ns ? (int)((until_ns - now_ns) / 1000000 + 1) : 0;
}

/* The server's own children have all exited once it restarts: their indices are free. */
static bool may_start(const supervisor_t *supervisor) {
  return !supervisor->server && !supervisor->drain_end_ns && !supervisor->child_count &&
         kiln_clock_monotonic_ns() >= supervisor->restart_ns;
}

static void loop(supervisor_t *supervisor) {
  while (!supervisor->ended) {
    if (may_start(supervisor)) start_server(supervisor);
    struct pollfd waited[] = {{.fd = supervisor->signals, .events = POLLIN},
                              {.fd = supervisor->control, .events = POLLIN}};
    if (poll(waited, 2, wait_ms(supervisor)) < 0 && errno != EINTR) break;
    if (waited[1].revents) on_control(supervisor);
    if (waited[0].revents) on_signal(supervisor);
    if (supervisor->drain_end_ns && kiln_clock_monotonic_ns() >= supervisor->drain_end_ns)
      supervisor->ended = true;
  }
}

static void end_children(supervisor_t *supervisor) {
  if (supervisor->server > 0) kill(supervisor->server, SIGKILL);
  for (size_t i = 0; i < supervisor->child_count; i++) kill(supervisor->children[i].pid, SIGKILL);
  while (waitpid(-1, NULL, 0) > 0) {
  }
}

static kiln_status_t open_listeners(supervisor_t *supervisor) {
  const char *paths[CONFIG_MAX_ITEMS];
  size_t count;
  gid_t group_id = 0;
  const char *group = supervisor->config->socket_group;
  if (*group) {
    const struct group *entry = getgrnam(group);
    if (!entry) return kiln_error(KILN_INVALID_ARGUMENT, "no group '%s'", group);
    group_id = entry->gr_gid;
  }
  KILN_TRY(listen_paths(supervisor->arena, supervisor->config, paths, &count));
  for (size_t i = 0; i < count; i++) {
    KILN_TRY(listen_open(supervisor->arena, paths[i], *group ? &group_id : NULL, &supervisor->listeners[i]));
    supervisor->listener_count++;
    kiln_log(&supervisor->log, KILN_LOG_INFO, NULL, "listening on %s", paths[i]);
  }
  return NULL;
}

int supervisor_run(kiln_arena_t *arena, const config_t *config) {
  supervisor_t *supervisor = KILN_NEW(arena, supervisor_t);
  *supervisor = (supervisor_t){.arena = arena,
                               .config = config,
                               .log = config_log(config, "supervisor"),
                               .control = -1,
                               .signals = -1};
  sigset_t watched;
  sigemptyset(&watched);
  sigaddset(&watched, SIGCHLD);
  sigaddset(&watched, SIGTERM);
  sigaddset(&watched, SIGINT);
  sigprocmask(SIG_BLOCK, &watched, NULL);
  signal(SIGPIPE, SIG_IGN);
  supervisor->signals = signalfd(-1, &watched, SFD_CLOEXEC);
  kiln_status_t status = open_listeners(supervisor);
  if (status) {
    kiln_log(&supervisor->log, KILN_LOG_ERROR, NULL, "%s", kiln_status_message(status));
    supervisor->exit_status = kiln_status_code(status) == KILN_INVALID_ARGUMENT ? 2 : 1;
    kiln_status_free(status);
  } else {
    loop(supervisor);
    end_children(supervisor);
  }
  for (size_t i = 0; i < supervisor->listener_count; i++) listen_close(&supervisor->listeners[i]);
  if (supervisor->control >= 0) close(supervisor->control);
  close(supervisor->signals);
  return supervisor->exit_status;
}
