/* server/stream.h: a non-blocking stream socket under the event loop: clients, workers and device processes
 * alike.
 *
 * Bytes that arrive are handed on at once; bytes to send go out at once as far as the socket takes them, the
 * rest is kept in order. Reading goes through one table of functions, so that another transport is another
 * table. Thread: the loop's.
 */
#ifndef KILN_SERVER_STREAM_H
#define KILN_SERVER_STREAM_H

#include "base/buffer.h"

#include <sys/uio.h>
#include <uv.h>

typedef struct stream stream_t;

/* As recv(2) and sendmsg(2): bytes moved, 0 at the end, -1 with errno. */
typedef struct {
  ssize_t (*read)(int descriptor, void *data, size_t size);
  ssize_t (*write)(int descriptor, const struct iovec *spans, size_t count);
} transport_t;

extern const transport_t transport_socket;

typedef struct {
  void (*bytes)(stream_t *stream, const char *data, size_t size);
  void (*end)(stream_t *stream); /* the other end is gone, or the socket failed; the stream is still open */
  void (*drained)(stream_t *stream); /* everything that was kept back has been sent; may be NULL */
  void (*closed)(stream_t *stream);  /* after stream_close, from the loop: the memory may go */
} stream_events_t;

struct stream {
  uv_poll_t poll;
  const transport_t *transport;
  const stream_events_t *events;
  void *owner;
  kiln_buffer_t unsent;
  size_t unsent_at; /* where it begins in `unsent` */
  uint64_t bytes_in, bytes_out;
  int descriptor;
  bool paused; /* does not read */
  bool closing;
};

/* Takes the descriptor over. False when the loop does not take it (the descriptor is then closed). */
bool stream_open(stream_t *stream, uv_loop_t *loop, int descriptor, const stream_events_t *events,
                 void *owner);
/* Sends the spans, or keeps what does not go out now. False when memory is short: the stream is then broken.
 */
bool stream_send(stream_t *stream, const struct iovec *spans, size_t count);
size_t stream_unsent(const stream_t *stream);
void stream_pause(stream_t *stream, bool paused);
/* Tells the other end that nothing more comes; reading goes on. */
void stream_finish(stream_t *stream);
/* Ends the stream; `closed` follows from the loop. Accepts a closing one. */
void stream_close(stream_t *stream);

#endif
