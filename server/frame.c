/* server/frame.c: blocking frames, for workers and device processes.
 *
 * A small frame costs one read: the reader takes whatever has arrived, header and body together.
 */
#include "server/frame.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

enum { READ_BYTES = 64 << 10 };

static bool fill(frame_reader_t *reader, size_t wanted) {
  kiln_buffer_t *bytes = &reader->bytes;
  while (bytes->size < wanted) {
    size_t missing = wanted - bytes->size;
    size_t room = missing > READ_BYTES ? missing : READ_BYTES;
    if (!kiln_buffer_reserve(bytes, room)) return false;
    ssize_t got = recv(reader->descriptor, bytes->data + bytes->size, room, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    bytes->size += (size_t)got;
  }
  return true;
}

bool frame_read(frame_reader_t *reader, frame_t *out_frame, const char **out_body) {
  kiln_buffer_consume(&reader->bytes, reader->consumed);
  reader->consumed = 0;
  if (!fill(reader, sizeof *out_frame)) return false;
  memcpy(out_frame, reader->bytes.data, sizeof *out_frame);
  if (out_frame->size > FRAME_MAX_BYTES || !fill(reader, sizeof *out_frame + out_frame->size)) return false;
  *out_body = reader->bytes.data + sizeof *out_frame;
  reader->consumed = sizeof *out_frame + out_frame->size;
  return true;
}

static void advance(struct iovec **spans, size_t *count, size_t sent) {
  while (*count && sent >= (*spans)->iov_len) {
    sent -= (*spans)->iov_len;
    ++*spans;
    --*count;
  }
  if (!*count) return;
  (*spans)->iov_base = (char *)(*spans)->iov_base + sent;
  (*spans)->iov_len -= sent;
}

bool frame_write(int descriptor, struct iovec *spans, size_t count) {
  while (count) {
    struct msghdr message = {.msg_iov = spans,
                             .msg_iovlen = count < FRAME_MAX_SPANS ? count : FRAME_MAX_SPANS};
    ssize_t sent = sendmsg(descriptor, &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return false;
    advance(&spans, &count, (size_t)sent);
  }
  return true;
}
