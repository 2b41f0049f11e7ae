/* server/stream.c: sockets under uv_poll, as server/stream.h says.
 *
 * uv_poll and not uv_pipe: libuv's pipes lose passed descriptors. One read per wake-up: the loop comes again
 * while bytes are left, so that one busy peer does not starve the others.
 */
#include "server/stream.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

enum { READ_BYTES = 64 << 10, KEEP_CAPACITY = 1 << 20 };

static ssize_t socket_read(int descriptor, void *data, size_t size) {
  return recv(descriptor, data, size, MSG_DONTWAIT);
}

static ssize_t socket_write(int descriptor, const struct iovec *spans, size_t count) {
  struct msghdr message = {.msg_iov = (struct iovec *)spans, .msg_iovlen = count};
  return sendmsg(descriptor, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

const transport_t transport_socket = {.read = socket_read, .write = socket_write};

static void on_ready(uv_poll_t *poll, int status, int events);

static void rearm(stream_t *stream) {
  int events = (stream->paused ? 0 : UV_READABLE) | (stream_unsent(stream) ? UV_WRITABLE : 0);
  if (stream->closing) return;
  if (events) {
    uv_poll_start(&stream->poll, events, on_ready);
  } else {
    uv_poll_start(&stream->poll, UV_DISCONNECT, on_ready);
  }
}

static void read_some(stream_t *stream) {
  char data[READ_BYTES];
  ssize_t got = stream->transport->read(stream->descriptor, data, sizeof data);
  if (got > 0) {
    stream->bytes_in += (uint64_t)got;
    stream->events->bytes(stream, data, (size_t)got);
  } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
    stream->events->end(stream);
  }
}

static void write_some(stream_t *stream) {
  struct iovec span = {.iov_base = stream->unsent.data + stream->unsent_at, .iov_len = stream_unsent(stream)};
  ssize_t sent = stream->transport->write(stream->descriptor, &span, 1);
  if (sent < 0) {
    if (errno != EAGAIN && errno != EINTR) stream->events->end(stream);
    return;
  }
  stream->bytes_out += (uint64_t)sent;
  stream->unsent_at += (size_t)sent;
  if (stream_unsent(stream)) return;
  stream->unsent_at = 0;
  kiln_buffer_clear(&stream->unsent);
  if (stream->unsent.capacity > KEEP_CAPACITY) kiln_buffer_deinit(&stream->unsent);
  rearm(stream);
  if (stream->events->drained) stream->events->drained(stream);
}

static void on_ready(uv_poll_t *poll, int status, int events) {
  stream_t *stream = poll->data;
  if (status < 0 || ((events & UV_DISCONNECT) && !(events & UV_READABLE))) {
    stream->events->end(stream);
    return;
  }
  if ((events & UV_WRITABLE) && stream_unsent(stream)) write_some(stream);
  if ((events & UV_READABLE) && !stream->closing && !stream->paused) read_some(stream);
}

bool stream_open(stream_t *stream, uv_loop_t *loop, int descriptor, const stream_events_t *events,
                 void *owner) {
  *stream =
      (stream_t){.transport = &transport_socket, .events = events, .owner = owner, .descriptor = descriptor};
  if (uv_poll_init(loop, &stream->poll, descriptor) < 0) {
    close(descriptor);
    return false;
  }
  stream->poll.data = stream;
  rearm(stream);
  return true;
}

/* Bytes of the spans that did not go out, appended to what is kept. */
static bool keep(stream_t *stream, const struct iovec *spans, size_t count, size_t sent) {
  if (stream->unsent_at && stream->unsent_at >= stream->unsent.size / 2) {
    kiln_buffer_consume(&stream->unsent, stream->unsent_at);
    stream->unsent_at = 0;
  }
  for (size_t i = 0; i < count; i++) {
    size_t skipped = sent < spans[i].iov_len ? sent : spans[i].iov_len;
    sent -= skipped;
    kiln_buffer_append(&stream->unsent, (const char *)spans[i].iov_base + skipped,
                       spans[i].iov_len - skipped);
  }
  return !stream->unsent.failed;
}

bool stream_send(stream_t *stream, const struct iovec *spans, size_t count) {
  if (stream->closing) return true;
  size_t total = 0, sent = 0;
  for (size_t i = 0; i < count; i++) total += spans[i].iov_len;
  bool idle = !stream_unsent(stream);
  if (idle) {
    ssize_t result = stream->transport->write(stream->descriptor, spans, count);
    if (result > 0) sent = (size_t)result;
    stream->bytes_out += sent;
  }
  if (sent == total) return true;
  bool kept = keep(stream, spans, count, sent);
  if (idle) rearm(stream); /* a socket that failed is found out when it is written again */
  return kept;
}

size_t stream_unsent(const stream_t *stream) { return stream->unsent.size - stream->unsent_at; }

void stream_pause(stream_t *stream, bool paused) {
  if (stream->paused == paused) return;
  stream->paused = paused;
  rearm(stream);
}

void stream_finish(stream_t *stream) { shutdown(stream->descriptor, SHUT_WR); }

static void on_closed(uv_handle_t *handle) {
  stream_t *stream = handle->data;
  close(stream->descriptor);
  kiln_buffer_deinit(&stream->unsent);
  stream->events->closed(stream);
}

void stream_close(stream_t *stream) {
  if (stream->closing) return;
  stream->closing = true;
  uv_close((uv_handle_t *)&stream->poll, on_closed);
}
