/* server/channel.h: the server's end of a worker's or device process's socket: whole frames in, frames out.
 * Loop thread. */
#ifndef KILN_SERVER_CHANNEL_H
#define KILN_SERVER_CHANNEL_H

#include "server/frame.h"
#include "server/stream.h"

typedef struct channel channel_t;

typedef struct {
  void (*frame)(channel_t *channel, const frame_t *frame, const char *body); /* body: valid during the call */
  void (*end)(channel_t *channel);    /* the process is gone, or sent nonsense; the channel is still open */
  void (*closed)(channel_t *channel); /* after channel_close, from the loop */
} channel_events_t;

struct channel {
  stream_t stream;
  const channel_events_t *events;
  void *owner;
  kiln_buffer_t in;
};

bool channel_open(channel_t *channel, uv_loop_t *loop, int descriptor, const channel_events_t *events,
                  void *owner);
/* Sends a frame whose body is the spans; frame->size is set here. False when memory is short. */
bool channel_send(channel_t *channel, frame_t *frame, const struct iovec *spans, size_t count);
void channel_close(channel_t *channel);

#endif
