/* client/connection.c: one socket shared by many threads, and the requests that wait on it; see connection.h.
 *
 * Two roles on the socket, each held by at most one thread: `reading` (poll, then take in all that came) and
 * `writing` (a whole message). A role is held across poll, during which the lock is free; everything else
 * happens under the lock. `changed` is signalled when a role becomes free, a reply was taken in, or the
 * connection is lost.
 */
#include "client/connection.h"
#include "client/socket.h"

#include "base/clock.h"
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
  READ_CHUNK_BYTES = 64 * 1024,
  HELLO_TIMEOUT_MS = 10000,
  STALL_TIMEOUT_MS = 30000, /* for which a daemon may take nothing of a message */
  PARTS_PER_SEND = 512,     /* below IOV_MAX */
  PROTOCOL = 1,
};

/* A reply may be as large as the daemon makes it; its depth bounds recursion in json.c. */
static const kiln_mpack_limits_t reply_limits = {UINT64_C(1) << 40, UINT64_C(1) << 32, 24};

struct kiln_request {
  kiln_connection_t *connection;
  kiln_request_t *next; /* in the connection's list while it waits */
  uint64_t id;
  bool done;
  kiln_status_t status; /* when done: the outcome, or the reply */
  kiln_reply_t *reply;
  int event;  /* an eventfd written when done; -1 until asked for */
  int notice; /* the epoll descriptor over socket and event */
};

struct kiln_connection {
  atomic_uint references;
  pid_t process;
  int socket;
  uint64_t max_message_bytes; /* 0: not known yet */
  pthread_mutex_t lock;
  pthread_cond_t changed;
  /* under the lock: */
  bool reading, writing, lost;
  uint64_t last_id;
  kiln_request_t *waiting;
  kiln_buffer_t input;
  kiln_mpack_scanner_t scanner;
};

/* -- life ----------------------------------------------------------------------------------------------- */

static kiln_status_t create(int socket, kiln_connection_t **out_connection) {
  kiln_connection_t *connection = calloc(1, sizeof *connection);
  pthread_condattr_t attributes;
  if (!connection) {
    close(socket);
    return kiln_error(KILN_OUT_OF_MEMORY, "no memory for a connection");
  }
  connection->references = 1;
  connection->process = getpid();
  connection->socket = socket;
  pthread_mutex_init(&connection->lock, NULL);
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&connection->changed, &attributes);
  pthread_condattr_destroy(&attributes);
  kiln_buffer_init(&connection->input);
  kiln_mpack_scan_init(&connection->scanner, &reply_limits);
  *out_connection = connection;
  return NULL;
}

void kiln_connection_retain(kiln_connection_t *connection) { connection->references++; }

void kiln_connection_release(kiln_connection_t *connection) {
  if (!connection || --connection->references) return;
  close(connection->socket);
  kiln_buffer_deinit(&connection->input);
  /* In a process forked off, a thread that is not there may hold the lock. */
  if (connection->process == getpid()) {
    pthread_cond_destroy(&connection->changed);
    pthread_mutex_destroy(&connection->lock);
  }
  free(connection);
}

static bool is_ours(const kiln_connection_t *connection) { return connection->process == getpid(); }

/* -- outcomes; under the lock --------------------------------------------------------------------------- */

static void complete(kiln_request_t *request, kiln_status_t status, kiln_reply_t *reply) {
  request->status = status;
  request->reply = reply;
  request->done = true;
  if (request->event >= 0) eventfd_write(request->event, 1);
}

static kiln_request_t **find_waiting(kiln_connection_t *connection, uint64_t id) {
  kiln_request_t **link = &connection->waiting;
  while (*link && (*link)->id != id) link = &(*link)->next;
  return link;
}

/* reason: what the daemon said last, or NULL. */
static void lose(kiln_connection_t *connection, const char *reason) {
  connection->lost = true;
  shutdown(connection->socket, SHUT_RDWR);
  while (connection->waiting) {
    kiln_request_t *request = connection->waiting;
    connection->waiting = request->next;
    complete(request,
             kiln_error(KILN_CONNECTION_LOST, "the connection to the daemon was lost before it answered%s%s",
                        reason ? ": " : "", reason ? reason : ""),
             NULL);
  }
  pthread_cond_broadcast(&connection->changed);
}

/* -- taking in; with the reading role, under the lock --------------------------------------------------- */

/* The first `size` bytes of the input, as a buffer of their own: the input itself when there is no more. */
static bool cut_message(kiln_connection_t *connection, size_t size, kiln_buffer_t *out) {
  kiln_buffer_t *input = &connection->input;
  kiln_buffer_init(out);
  if (size == input->size) {
    *out = *input;
    kiln_buffer_init(input);
    return true;
  }
  kiln_buffer_append(out, input->data, size);
  if (!out->failed) kiln_buffer_consume(input, size);
  return !out->failed;
}

/* Gives a reply to its request. Notifications, and replies that nobody waits for any more, are dropped. */
static void deliver(kiln_connection_t *connection, kiln_reply_t *reply) {
  int64_t id;
  if (!kiln_reply_is_reply(reply, &id)) {
    kiln_reply_free(reply);
    return;
  }
  kiln_status_t status = kiln_reply_error(reply);
  kiln_request_t **link = find_waiting(connection, (uint64_t)id), *request = *link;
  if (request) {
    *link = request->next;
    complete(request, status, status ? NULL : reply);
    if (status) kiln_reply_free(reply);
    return;
  }
  if (id < 0) lose(connection, kiln_status_message(status)); /* about bytes that were no message */
  kiln_status_free(status);
  kiln_reply_free(reply);
}

/* Delivers the complete messages of the input. */
static void deliver_all(kiln_connection_t *connection) {
  while (connection->input.size && !connection->lost) {
    kiln_buffer_t message;
    kiln_reply_t *reply;
    kiln_scan_t scan = kiln_mpack_scan(&connection->scanner, connection->input.data, connection->input.size);
    if (scan == KILN_SCAN_MORE) return;
    if (scan != KILN_SCAN_COMPLETE) return lose(connection, "what it sent is no message");
    if (!cut_message(connection, connection->scanner.position, &message))
      return lose(connection, "no memory for its reply");
    kiln_mpack_scan_init(&connection->scanner, &reply_limits);
    kiln_status_t status = kiln_reply_create(&message, &reply);
    if (status)
      lose(connection, kiln_status_message(status));
    else
      deliver(connection, reply);
    kiln_status_free(status);
  }
}

static void take_in(kiln_connection_t *connection) {
  kiln_buffer_t *input = &connection->input;
  while (!connection->lost) {
    if (!kiln_buffer_reserve(input, READ_CHUNK_BYTES)) return lose(connection, "no memory for its reply");
    ssize_t size =
        recv(connection->socket, input->data + input->size, input->capacity - input->size - 1, MSG_DONTWAIT);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (size <= 0) return lose(connection, NULL);
    input->size += (size_t)size;
    deliver_all(connection);
  }
}

/* Gives the lock up while it waits for the socket; if nobody reads, takes the reading role and takes in what
 * came. False when nothing happened in time. */
static bool poll_socket(kiln_connection_t *connection, short events, int timeout_ms) {
  bool reads = !connection->reading;
  struct pollfd descriptor = {.fd = connection->socket, .events = events | (reads ? POLLIN : 0)};
  connection->reading = true;
  pthread_mutex_unlock(&connection->lock);
  bool happened = poll(&descriptor, 1, timeout_ms) != 0;
  pthread_mutex_lock(&connection->lock);
  if (reads) {
    take_in(connection);
    connection->reading = false;
    pthread_cond_broadcast(&connection->changed);
  }
  return happened;
}

/* -- sending -------------------------------------------------------------------------------------------- */

/* Moves past `size` bytes of the parts. */
static void advance(struct iovec **parts, size_t *count, size_t size) {
  while (*count && size >= (*parts)->iov_len) {
    size -= (*parts)->iov_len;
    ++*parts;
    --*count;
  }
  if (!*count) return;
  (*parts)->iov_base = (char *)(*parts)->iov_base + size;
  (*parts)->iov_len -= size;
}

/* With the writing role. Changes the parts. True when all were sent. */
static bool send_parts(kiln_connection_t *connection, struct iovec *parts, size_t count) {
  while (count && !connection->lost) {
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = count < PARTS_PER_SEND ? count : PARTS_PER_SEND};
    ssize_t size = sendmsg(connection->socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    bool full = size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    if (size >= 0)
      advance(&parts, &count, (size_t)size);
    else if (full && !poll_socket(connection, POLLOUT, STALL_TIMEOUT_MS))
      lose(connection, "it has stopped taking anything");
    else if (!full && errno != EINTR)
      lose(connection, NULL);
  }
  return !count;
}

/* [0, id, method, [ ; the params' map follows. */
static void write_head(kiln_buffer_t *out, uint64_t id, const char *method) {
  kiln_mpack_array(out, 4);
  kiln_mpack_uint(out, 0);
  kiln_mpack_uint(out, id);
  kiln_mpack_str(out, method);
  kiln_mpack_array(out, 1);
}

/* Sends head and params as one message, with the request on the list. Under the lock. */
static kiln_status_t send_request(kiln_connection_t *connection, kiln_request_t *request, struct iovec *parts,
                                  size_t count) {
  while (connection->writing && !connection->lost) pthread_cond_wait(&connection->changed, &connection->lock);
  if (connection->lost) return kiln_error(KILN_CONNECTION_LOST, "the connection to the daemon was lost");
  connection->writing = true;
  request->next = connection->waiting;
  connection->waiting = request;
  bool sent = send_parts(connection, parts, count);
  connection->writing = false;
  pthread_cond_broadcast(&connection->changed);
  if (sent || kiln_status_code(request->status) != KILN_CONNECTION_LOST) return NULL;
  kiln_status_t status = request->status;
  request->status = NULL;
  return status;
}

static kiln_status_t check_size(const kiln_connection_t *connection, const struct iovec *parts,
                                size_t count) {
  uint64_t total = 0;
  for (size_t i = 0; i < count; i++) total += parts[i].iov_len;
  if (!connection->max_message_bytes || total <= connection->max_message_bytes) return NULL;
  return kiln_error(KILN_TOO_LARGE, "a request of %" PRIu64 " bytes is above the daemon's limit of %" PRIu64,
                    total, connection->max_message_bytes);
}

static kiln_status_t submit_parts(kiln_connection_t *connection, const char *method, struct iovec *parts,
                                  size_t count, kiln_request_t *request) {
  kiln_buffer_t head;
  kiln_buffer_init(&head);
  pthread_mutex_lock(&connection->lock);
  request->id = ++connection->last_id;
  write_head(&head, request->id, method);
  parts[0] = (struct iovec){head.data, head.size};
  kiln_status_t status = head.failed ? kiln_error(KILN_OUT_OF_MEMORY, "no memory for a request")
                                     : check_size(connection, parts, count);
  if (!status) status = send_request(connection, request, parts, count);
  pthread_mutex_unlock(&connection->lock);
  kiln_buffer_deinit(&head);
  return status;
}

static kiln_request_t *request_create(kiln_connection_t *connection) {
  kiln_request_t *request = calloc(1, sizeof *request);
  if (!request) return NULL;
  kiln_connection_retain(connection);
  request->connection = connection;
  request->event = request->notice = -1;
  return request;
}

/* Of a request that is on no list. */
static void request_destroy(kiln_request_t *request) {
  if (request->event >= 0) close(request->event);
  if (request->notice >= 0) close(request->notice);
  kiln_status_free(request->status);
  kiln_reply_free(request->reply);
  kiln_connection_release(request->connection);
  free(request);
}

kiln_status_t kiln_connection_submit(kiln_connection_t *connection, const char *method,
                                     const struct iovec *params, size_t part_count,
                                     kiln_request_t **out_request) {
  struct iovec *parts = malloc((part_count + 1) * sizeof *parts); /* the head comes first */
  kiln_request_t *request = request_create(connection);
  kiln_status_t status;
  if (!parts || !request) {
    status = kiln_error(KILN_OUT_OF_MEMORY, "no memory for a request");
  } else {
    memcpy(parts + 1, params, part_count * sizeof *parts);
    status = submit_parts(connection, method, parts, part_count + 1, request);
  }
  free(parts);
  if (!status)
    *out_request = request;
  else if (request)
    request_destroy(request);
  return status;
}

/* -- waiting -------------------------------------------------------------------------------------------- */

/* Milliseconds until a deadline, rounded up; -1 for none. */
static int remaining_ms(uint64_t deadline_ns) {
  uint64_t now_ns = kiln_clock_monotonic_ns();
  if (!deadline_ns) return -1;
  return deadline_ns <= now_ns ? 0 : (int)((deadline_ns - now_ns + 999999) / 1000000);
}

/* Sleeps until another thread has taken something in. */
static void sleep_until(kiln_connection_t *connection, uint64_t deadline_ns) {
  struct timespec until = {(time_t)(deadline_ns / 1000000000), (long)(deadline_ns % 1000000000)};
  if (deadline_ns)
    pthread_cond_timedwait(&connection->changed, &connection->lock, &until);
  else
    pthread_cond_wait(&connection->changed, &connection->lock);
}

/* True when the request is done, whatever its outcome. */
static bool wait_until(kiln_request_t *request, uint64_t deadline_ns) {
  kiln_connection_t *connection = request->connection;
  pthread_mutex_lock(&connection->lock);
  while (!request->done && (!deadline_ns || kiln_clock_monotonic_ns() < deadline_ns))
    if (connection->reading)
      sleep_until(connection, deadline_ns);
    else
      poll_socket(connection, 0, remaining_ms(deadline_ns));
  bool done = request->done;
  pthread_mutex_unlock(&connection->lock);
  return done;
}

static kiln_status_t of_another_process(void) {
  return kiln_error(KILN_CONNECTION_LOST, "the request belongs to the process that was forked");
}

kiln_status_t kiln_request_wait(kiln_request_t *request, uint32_t timeout_ms) {
  if (!is_ours(request->connection)) return of_another_process();
  uint64_t deadline_ns = timeout_ms ? kiln_clock_monotonic_ns() + timeout_ms * UINT64_C(1000000) : 0;
  if (wait_until(request, deadline_ns)) return NULL;
  return kiln_error(KILN_DEADLINE_EXCEEDED, "no reply within %u ms", timeout_ms);
}

bool kiln_request_poll(kiln_request_t *request) {
  kiln_connection_t *connection = request->connection;
  if (!is_ours(connection)) return true;
  pthread_mutex_lock(&connection->lock);
  if (!request->done && !connection->reading) take_in(connection);
  bool done = request->done;
  pthread_mutex_unlock(&connection->lock);
  return done;
}

/* Readable when something arrived on the socket, or another thread took this request's reply in. */
static int open_notice(kiln_request_t *request) {
  struct epoll_event readable = {.events = EPOLLIN};
  request->event = eventfd(request->done, EFD_CLOEXEC | EFD_NONBLOCK);
  request->notice = epoll_create1(EPOLL_CLOEXEC);
  if (request->event >= 0 && request->notice >= 0 &&
      !epoll_ctl(request->notice, EPOLL_CTL_ADD, request->event, &readable) &&
      !epoll_ctl(request->notice, EPOLL_CTL_ADD, request->connection->socket, &readable))
    return request->notice;
  if (request->event >= 0) close(request->event);
  if (request->notice >= 0) close(request->notice);
  return request->event = request->notice = -1;
}

int kiln_request_descriptor(kiln_request_t *request) {
  if (!is_ours(request->connection)) return -1;
  pthread_mutex_lock(&request->connection->lock);
  int descriptor = request->notice >= 0 ? request->notice : open_notice(request);
  pthread_mutex_unlock(&request->connection->lock);
  return descriptor;
}

/* -- ending --------------------------------------------------------------------------------------------- */

/* Takes the request off the list, unless it is done, and frees it. */
static void forget(kiln_request_t *request) {
  kiln_connection_t *connection = request->connection;
  if (is_ours(connection)) { /* else a thread that is not there may hold the lock */
    pthread_mutex_lock(&connection->lock);
    kiln_request_t **link = find_waiting(connection, request->id);
    if (*link) *link = request->next;
    pthread_mutex_unlock(&connection->lock);
  }
  request_destroy(request);
}

/* Nobody waits for the reply to this one. */
void kiln_request_cancel(kiln_request_t *request) {
  kiln_request_t *cancel = NULL;
  kiln_buffer_t params;
  if (!is_ours(request->connection) || kiln_request_poll(request)) return;
  kiln_buffer_init(&params);
  kiln_mpack_map(&params, 1);
  kiln_mpack_str(&params, "id");
  kiln_mpack_uint(&params, request->id);
  struct iovec part = {params.data, params.size};
  if (!params.failed)
    kiln_status_free(kiln_connection_submit(request->connection, "cancel", &part, 1, &cancel));
  if (cancel) forget(cancel);
  kiln_buffer_deinit(&params);
}

void kiln_request_free(kiln_request_t *request) {
  if (!request) return;
  kiln_request_cancel(request);
  forget(request);
}

kiln_status_t kiln_request_finish_within(kiln_request_t *request, uint32_t timeout_ms,
                                         kiln_reply_t **out_reply) {
  kiln_status_t status = kiln_request_wait(request, timeout_ms);
  if (status) {
    kiln_request_free(request);
    return status;
  }
  status = request->status;
  *out_reply = request->reply;
  request->status = NULL;
  request->reply = NULL;
  request_destroy(request);
  return status;
}

kiln_status_t kiln_request_finish(kiln_request_t *request, kiln_reply_t **out_reply) {
  return kiln_request_finish_within(request, 0, out_reply);
}

/* -- the whole connection ------------------------------------------------------------------------------- */

void kiln_connection_close(kiln_connection_t *connection) {
  if (!is_ours(connection)) return;
  pthread_mutex_lock(&connection->lock);
  lose(connection, "it was closed");
  pthread_mutex_unlock(&connection->lock);
}

bool kiln_connection_is_usable(kiln_connection_t *connection) {
  if (!is_ours(connection)) return false;
  pthread_mutex_lock(&connection->lock);
  if (!connection->reading) take_in(connection);
  bool usable = !connection->lost;
  pthread_mutex_unlock(&connection->lock);
  return usable;
}

kiln_status_t kiln_connection_call(kiln_connection_t *connection, const char *method,
                                   const kiln_buffer_t *params, uint32_t timeout_ms,
                                   kiln_reply_t **out_reply) {
  kiln_request_t *request;
  struct iovec part = {params->data, params->size};
  if (params->failed) return kiln_error(KILN_OUT_OF_MEMORY, "no memory for a request");
  KILN_TRY(kiln_connection_submit(connection, method, &part, 1, &request));
  return kiln_request_finish_within(request, timeout_ms, out_reply);
}

/* Learns the daemon's limit on messages; refused when the protocols do not meet. */
static kiln_status_t say_hello(kiln_connection_t *connection, const char *name) {
  kiln_reply_t *reply;
  kiln_buffer_t params;
  kiln_buffer_init(&params);
  kiln_mpack_map(&params, name ? 2 : 1);
  kiln_mpack_str(&params, "protocol");
  kiln_mpack_array(&params, 2);
  kiln_mpack_uint(&params, PROTOCOL);
  kiln_mpack_uint(&params, PROTOCOL);
  if (name) {
    kiln_mpack_str(&params, "client");
    kiln_mpack_str(&params, name);
  }
  kiln_status_t status = kiln_connection_call(connection, "hello", &params, HELLO_TIMEOUT_MS, &reply);
  kiln_buffer_deinit(&params);
  if (status) return status;
  const kiln_mpack_t *limits = kiln_mpack_find(kiln_reply_result(reply), "limits");
  status = kiln_reply_uint(limits, "max_message", &connection->max_message_bytes);
  kiln_reply_free(reply);
  return status;
}

kiln_status_t kiln_connection_open(const char *path, const char *name, kiln_connection_t **out_connection) {
  int socket;
  kiln_connection_t *connection;
  KILN_TRY(kiln_socket_connect(path, &socket));
  KILN_TRY(create(socket, &connection));
  kiln_status_t status = say_hello(connection, name);
  if (status) {
    kiln_connection_release(connection);
    return kiln_error_note(kiln_error_detail(status, "socket", "%s", path), "greeting unix:%s", path);
  }
  *out_connection = connection;
  return NULL;
}
