/* tests/support/fake_daemon.c: a daemon that does what a test says; see fake_daemon.h.
 *
 * A poll loop over a wake-up pipe, the listener and the connections. Replies are written with blocking sends:
 * what a client does not read holds this daemon up, which some tests want.
 */
#include "tests/support/fake_daemon.h"
#include "tests/support/folder.h"

#include "ir/mpack.h"
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { MAX_CONNECTIONS = 64, MAX_HELD = 64, FLOOD_BYTES = 8 << 20 };

typedef struct {
  int socket;
  uint64_t serial;
  kiln_buffer_t input;
  kiln_mpack_scanner_t scanner;
} peer_t;

typedef struct {
  uint64_t peer_serial, id;
} held_t;

struct fake_daemon {
  char *folder;
  char path[100]; /* shorter than an address holds */
  uint64_t max_message_bytes;
  pthread_t thread;
  int listener, wake[2];
  peer_t peers[MAX_CONNECTIONS];
  size_t peer_count;
  held_t held[MAX_HELD];
  atomic_uint held_count, connections, compiles, cancels;
};

static const kiln_mpack_limits_t limits = {UINT64_C(1) << 32, UINT64_C(1) << 24, 16};

static void must(int good, const char *what) {
  if (good) return;
  perror(what);
  abort();
}

/* -- replies -------------------------------------------------------------------------------------------- */

static void send_all(peer_t *peer, const kiln_buffer_t *message) {
  for (size_t sent = 0; sent < message->size;) {
    ssize_t size = send(peer->socket, message->data + sent, message->size - sent, MSG_NOSIGNAL);
    if (size <= 0) return;
    sent += (size_t)size;
  }
}

static void start_reply(kiln_buffer_t *out, uint64_t id) {
  kiln_buffer_init(out);
  kiln_mpack_array(out, 4);
  kiln_mpack_uint(out, 1);
  kiln_mpack_uint(out, id);
}

static void finish_reply(peer_t *peer, kiln_buffer_t *out) {
  send_all(peer, out);
  kiln_buffer_deinit(out);
}

static void reply_number(peer_t *peer, uint64_t id, int64_t n) {
  kiln_buffer_t out;
  start_reply(&out, id);
  kiln_mpack_nil(&out);
  kiln_mpack_map(&out, 1);
  kiln_mpack_str(&out, "n");
  kiln_mpack_int(&out, n);
  finish_reply(peer, &out);
}

static void reply_error(peer_t *peer, uint64_t id, const char *code, const char *message) {
  kiln_buffer_t out;
  start_reply(&out, id);
  kiln_mpack_map(&out, 4);
  kiln_mpack_str(&out, "code");
  kiln_mpack_str(&out, code);
  kiln_mpack_str(&out, "message");
  kiln_mpack_str(&out, message);
  kiln_mpack_str(&out, "detail");
  kiln_mpack_map(&out, 1);
  kiln_mpack_str(&out, "field");
  kiln_mpack_str(&out, "x");
  kiln_mpack_str(&out, "retry");
  kiln_mpack_bool(&out, false);
  kiln_mpack_nil(&out);
  finish_reply(peer, &out);
}

static void reply_bytes(peer_t *peer, uint64_t id, size_t size) {
  kiln_buffer_t out;
  char *bytes = malloc(size);
  must(bytes != NULL, "malloc");
  memset(bytes, 7, size);
  start_reply(&out, id);
  kiln_mpack_nil(&out);
  kiln_mpack_map(&out, 1);
  kiln_mpack_str(&out, "data");
  kiln_mpack_bin(&out, bytes, size);
  free(bytes);
  finish_reply(peer, &out);
}

static void reply_hello(fake_daemon_t *daemon, peer_t *peer, uint64_t id) {
  kiln_buffer_t out;
  start_reply(&out, id);
  kiln_mpack_nil(&out);
  kiln_mpack_map(&out, 2);
  kiln_mpack_str(&out, "protocol");
  kiln_mpack_uint(&out, 1);
  kiln_mpack_str(&out, "limits");
  kiln_mpack_map(&out, 1);
  kiln_mpack_str(&out, "max_message");
  kiln_mpack_uint(&out, daemon->max_message_bytes);
  finish_reply(peer, &out);
}

static void write_numbers(kiln_buffer_t *out, const char *key, const char *const *names, size_t count) {
  kiln_mpack_str(out, key);
  kiln_mpack_map(out, count);
  for (size_t i = 0; i < count; i++) {
    kiln_mpack_str(out, names[i]);
    kiln_mpack_uint(out, 10 + i);
  }
}

static void write_key(kiln_buffer_t *out) {
  kiln_mpack_str(out, "key");
  kiln_mpack_str(out, "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef");
  kiln_mpack_str(out, "cache");
  kiln_mpack_str(out, "disk");
}

/* A handle says which connection it belongs to. */
static void reply_compile(fake_daemon_t *daemon, peer_t *peer, uint64_t id) {
  static const char *const kernels[] = {"found", "compiled"}, *const times[] = {"total_ns", "plan_ns",
                                                                                "compile_ns"};
  kiln_buffer_t out;
  daemon->compiles++;
  start_reply(&out, id);
  kiln_mpack_nil(&out);
  kiln_mpack_map(&out, 5);
  kiln_mpack_str(&out, "executable");
  kiln_mpack_uint(&out, 1000 + peer->serial);
  write_key(&out);
  write_numbers(&out, "kernels", kernels, 2);
  write_numbers(&out, "timings", times, 3);
  finish_reply(peer, &out);
}

/* Outputs are the inputs, with strides of their own when rank is 2: a transposed layout. */
static void write_output(kiln_buffer_t *out, const kiln_mpack_t *input) {
  const kiln_mpack_t *shape = kiln_mpack_find(input, "shape");
  const char *dtype = "";
  size_t length = 0, size = 0;
  const void *data = NULL;
  bool is_matrix = kiln_mpack_count(shape) == 2;
  kiln_mpack_get_str(kiln_mpack_find(input, "dtype"), &dtype, &length);
  kiln_mpack_get_bin(kiln_mpack_find(input, "data"), &data, &size);
  kiln_mpack_map(out, is_matrix ? 4 : 3);
  kiln_mpack_str(out, "dtype");
  kiln_mpack_strn(out, dtype, length);
  kiln_mpack_str(out, "shape");
  kiln_mpack_array(out, kiln_mpack_count(shape));
  int64_t sizes[8] = {0};
  for (size_t i = 0; i < kiln_mpack_count(shape); i++) {
    kiln_mpack_get_int(kiln_mpack_item(shape, i), &sizes[i]);
    kiln_mpack_int(out, sizes[i]);
  }
  if (is_matrix) {
    kiln_mpack_str(out, "strides");
    kiln_mpack_array(out, 2);
    kiln_mpack_int(out, 1);
    kiln_mpack_int(out, sizes[0]);
  }
  kiln_mpack_str(out, "data");
  kiln_mpack_bin(out, data, size);
}

static void reply_execute(peer_t *peer, uint64_t id, const kiln_mpack_t *params) {
  static const char *const times[] = {"total_ns", "upload_ns", "launch_ns", "download_ns"};
  const kiln_mpack_t *inputs = kiln_mpack_find(params, "inputs");
  uint64_t handle = 0;
  kiln_buffer_t out;
  kiln_mpack_get_uint(kiln_mpack_find(params, "executable"), &handle);
  if (handle != 1000 + peer->serial) return reply_error(peer, id, "NOT_FOUND", "no such executable");
  start_reply(&out, id);
  kiln_mpack_nil(&out);
  kiln_mpack_map(&out, 6);
  write_key(&out);
  write_numbers(&out, "timings", times, 4);
  kiln_mpack_str(&out, "launches");
  kiln_mpack_uint(&out, 3);
  kiln_mpack_str(&out, "realigned");
  kiln_mpack_uint(&out, 1);
  kiln_mpack_str(&out, "outputs");
  kiln_mpack_array(&out, kiln_mpack_count(inputs));
  for (size_t i = 0; i < kiln_mpack_count(inputs); i++) write_output(&out, kiln_mpack_item(inputs, i));
  finish_reply(peer, &out);
}

/* -- requests that are held ----------------------------------------------------------------------------- */

static void hold(fake_daemon_t *daemon, const peer_t *peer, uint64_t id) {
  must(daemon->held_count < MAX_HELD, "too many held requests");
  daemon->held[daemon->held_count] = (held_t){peer->serial, id};
  daemon->held_count++;
}

static void release(fake_daemon_t *daemon, peer_t *peer, uint64_t id) {
  unsigned count = daemon->held_count;
  for (unsigned i = count; i-- > 0;)
    if (daemon->held[i].peer_serial == peer->serial) reply_number(peer, daemon->held[i].id, 0);
  daemon->held_count = 0;
  reply_number(peer, id, count);
}

static void cancel(fake_daemon_t *daemon, peer_t *peer, uint64_t id, const kiln_mpack_t *params) {
  uint64_t wanted = 0;
  daemon->cancels++;
  kiln_mpack_get_uint(kiln_mpack_find(params, "id"), &wanted);
  for (unsigned i = 0; i < daemon->held_count; i++) {
    if (daemon->held[i].peer_serial != peer->serial || daemon->held[i].id != wanted) continue;
    reply_error(peer, wanted, "CANCELLED", "cancelled");
    daemon->held[i] = daemon->held[daemon->held_count - 1];
    daemon->held_count--;
    break;
  }
  reply_number(peer, id, 1);
}

/* -- serving -------------------------------------------------------------------------------------------- */

/* False when the connection is to be closed. */
static bool answer(fake_daemon_t *daemon, peer_t *peer, const kiln_mpack_t *message) {
  const kiln_mpack_t *method = kiln_mpack_item(message, 2);
  const kiln_mpack_t *params = kiln_mpack_item(kiln_mpack_item(message, 3), 0);
  const kiln_mpack_t *number = kiln_mpack_find(params, "n");
  uint64_t id = 0;
  int64_t n = 0;
  kiln_mpack_get_uint(kiln_mpack_item(message, 1), &id);
  if (number) kiln_mpack_get_int(number, &n);
  if (kiln_mpack_is_str(method, "hello"))
    reply_hello(daemon, peer, id);
  else if (kiln_mpack_is_str(method, "echo"))
    reply_number(peer, id, n);
  else if (kiln_mpack_is_str(method, "hold"))
    hold(daemon, peer, id);
  else if (kiln_mpack_is_str(method, "release"))
    release(daemon, peer, id);
  else if (kiln_mpack_is_str(method, "cancel"))
    cancel(daemon, peer, id, params);
  else if (kiln_mpack_is_str(method, "fail"))
    reply_error(peer, id, "INVALID_ARGUMENT", "x is wrong");
  else if (kiln_mpack_is_str(method, "big"))
    reply_bytes(peer, id, (size_t)n);
  else if (kiln_mpack_is_str(method, "flood"))
    reply_bytes(peer, id, FLOOD_BYTES);
  else if (kiln_mpack_is_str(method, "compile"))
    reply_compile(daemon, peer, id);
  else if (kiln_mpack_is_str(method, "execute"))
    reply_execute(peer, id, params);
  else if (kiln_mpack_is_str(method, "garbage"))
    send(peer->socket, "\xc1", 1, MSG_NOSIGNAL);
  else if (kiln_mpack_is_str(method, "hangup"))
    return false;
  else
    reply_error(peer, id, "UNSUPPORTED", "no such method");
  return true;
}

/* One message, if it is complete. */
static bool serve_message(fake_daemon_t *daemon, peer_t *peer, bool *out_open) {
  const kiln_mpack_t *message;
  kiln_arena_t arena;
  if (!peer->input.size ||
      kiln_mpack_scan(&peer->scanner, peer->input.data, peer->input.size) != KILN_SCAN_COMPLETE)
    return false;
  kiln_arena_init(&arena, 0);
  size_t size = peer->scanner.position;
  kiln_status_t status = kiln_mpack_decode(&arena, peer->input.data, size, &message);
  must(!status, "a client sent what is no message");
  *out_open = answer(daemon, peer, message);
  kiln_arena_deinit(&arena);
  kiln_buffer_consume(&peer->input, size);
  kiln_mpack_scan_init(&peer->scanner, &limits);
  return *out_open;
}

static bool serve(fake_daemon_t *daemon, peer_t *peer) {
  char chunk[65536];
  bool open = true;
  ssize_t size = recv(peer->socket, chunk, sizeof chunk, 0);
  if (size <= 0) return false;
  kiln_buffer_append(&peer->input, chunk, (size_t)size);
  while (serve_message(daemon, peer, &open)) continue;
  return open;
}

static void add_peer(fake_daemon_t *daemon) {
  must(daemon->peer_count < MAX_CONNECTIONS, "too many connections");
  peer_t *peer = &daemon->peers[daemon->peer_count++];
  *peer = (peer_t){.socket = accept(daemon->listener, NULL, NULL), .serial = ++daemon->connections};
  must(peer->socket >= 0, "accept");
  kiln_buffer_init(&peer->input);
  kiln_mpack_scan_init(&peer->scanner, &limits);
}

static void remove_peer(fake_daemon_t *daemon, size_t index) {
  close(daemon->peers[index].socket);
  kiln_buffer_deinit(&daemon->peers[index].input);
  daemon->peers[index] = daemon->peers[--daemon->peer_count];
}

static void *loop(void *argument) {
  fake_daemon_t *daemon = argument;
  for (;;) {
    struct pollfd polled[MAX_CONNECTIONS + 2] = {{daemon->wake[0], POLLIN, 0}, {daemon->listener, POLLIN, 0}};
    size_t count = daemon->peer_count;
    for (size_t i = 0; i < count; i++) polled[i + 2] = (struct pollfd){daemon->peers[i].socket, POLLIN, 0};
    must(poll(polled, count + 2, -1) > 0, "poll");
    if (polled[0].revents) return NULL;
    for (size_t i = count; i-- > 0;) /* from the end: removal moves the last one */
      if (polled[i + 2].revents && !serve(daemon, &daemon->peers[i])) remove_peer(daemon, i);
    if (polled[1].revents) add_peer(daemon);
  }
}

/* -- life ----------------------------------------------------------------------------------------------- */

static void begin(fake_daemon_t *daemon) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path, sizeof address.sun_path, "%s", daemon->path);
  unlink(daemon->path);
  daemon->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  must(!bind(daemon->listener, (struct sockaddr *)&address, sizeof address), "bind");
  must(!listen(daemon->listener, 64), "listen");
  must(!pipe(daemon->wake), "pipe");
  must(!pthread_create(&daemon->thread, NULL, loop, daemon), "pthread_create");
}

static void end(fake_daemon_t *daemon) {
  must(write(daemon->wake[1], "", 1) == 1, "write");
  pthread_join(daemon->thread, NULL);
  while (daemon->peer_count) remove_peer(daemon, 0);
  daemon->held_count = 0;
  close(daemon->listener);
  close(daemon->wake[0]);
  close(daemon->wake[1]);
}

fake_daemon_t *fake_daemon_start(uint64_t max_message_bytes) {
  fake_daemon_t *daemon = calloc(1, sizeof *daemon);
  must(daemon != NULL, "calloc");
  daemon->max_message_bytes = max_message_bytes;
  daemon->folder = kiln_test_folder_create();
  snprintf(daemon->path, sizeof daemon->path, "%s/fake.sock", daemon->folder);
  begin(daemon);
  return daemon;
}

const char *fake_daemon_path(const fake_daemon_t *daemon) { return daemon->path; }
const char *fake_daemon_folder(const fake_daemon_t *daemon) { return daemon->folder; }

void fake_daemon_restart(fake_daemon_t *daemon) {
  end(daemon);
  begin(daemon);
}

void fake_daemon_stop(fake_daemon_t *daemon) {
  end(daemon);
  kiln_test_folder_remove(daemon->folder);
  free(daemon);
}

unsigned fake_daemon_connections(const fake_daemon_t *daemon) { return daemon->connections; }
unsigned fake_daemon_compiles(const fake_daemon_t *daemon) { return daemon->compiles; }
unsigned fake_daemon_cancels(const fake_daemon_t *daemon) { return daemon->cancels; }
unsigned fake_daemon_held(const fake_daemon_t *daemon) { return daemon->held_count; }
