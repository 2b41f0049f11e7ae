/* server/channel.c: frames over a stream. A frame that came whole in one read is handed on without being
 * copied. */
#include "server/channel.h"

#include <string.h>

enum { KEEP_CAPACITY = 1 << 20 };

/* Hands on the whole frames at the front of the bytes; returns how many bytes they were, or -1 for nonsense.
 */
static ssize_t hand_on(channel_t *channel, const char *data, size_t size) {
  size_t at = 0;
  frame_t frame;
  while (size - at >= sizeof frame && !channel->stream.closing) {
    memcpy(&frame, data + at, sizeof frame);
    if (frame.size > FRAME_MAX_BYTES) return -1;
    if (size - at - sizeof frame < frame.size) break;
    at += sizeof frame + frame.size;
    channel->events->frame(channel, &frame, data + at - frame.size);
  }
  return (ssize_t)at;
}

static void on_bytes(stream_t *stream, const char *data, size_t size) {
  channel_t *channel = stream->owner;
  bool buffered = channel->in.size > 0;
  if (buffered) {
    kiln_buffer_append(&channel->in, data, size);
    data = channel->in.data;
    size = channel->in.size;
  }
  ssize_t taken = channel->in.failed ? -1 : hand_on(channel, data, size);
  if (channel->stream.closing) return;
  if (taken < 0) {
    channel->events->end(channel);
  } else if (buffered) {
    kiln_buffer_consume(&channel->in, (size_t)taken);
    if (!channel->in.size && channel->in.capacity > KEEP_CAPACITY) kiln_buffer_deinit(&channel->in);
  } else {
    kiln_buffer_append(&channel->in, data + taken, size - (size_t)taken);
  }
}

static void on_end(stream_t *stream) {
  channel_t *channel = stream->owner;
  channel->events->end(channel);
}

static void on_closed(stream_t *stream) {
  channel_t *channel = stream->owner;
  kiln_buffer_deinit(&channel->in);
  channel->events->closed(channel);
}

static const stream_events_t stream_events = {.bytes = on_bytes, .end = on_end, .closed = on_closed};

bool channel_open(channel_t *channel, uv_loop_t *loop, int descriptor, const channel_events_t *events,
                  void *owner) {
  *channel = (channel_t){.events = events, .owner = owner};
  return stream_open(&channel->stream, loop, descriptor, &stream_events, channel);
}

bool channel_send(channel_t *channel, frame_t *frame, const struct iovec *spans, size_t count) {
  struct iovec all[FRAME_MAX_SPANS];
  frame->size = 0;
  all[0] = (struct iovec){frame, sizeof *frame};
  for (size_t i = 0; i < count && i + 1 < FRAME_MAX_SPANS; i++) {
    all[i + 1] = spans[i];
    frame->size += spans[i].iov_len;
  }
  return stream_send(&channel->stream, all, count + 1);
}

void channel_close(channel_t *channel) { stream_close(&channel->stream); }
