/* server/frame.h: what goes between the server and its workers and device processes: a header and a body.
 *
 * Both ends are one executable on one machine, so headers are plain structs. The reading and writing here
 * blocks and belongs to the children; the server's end is server/channel.h. Bodies: server/job.h (workers),
 * server/command.h (devices).
 */
#ifndef KILN_SERVER_FRAME_H
#define KILN_SERVER_FRAME_H

#include "base/buffer.h"

#include <sys/uio.h>

typedef struct {
  uint32_t kind;
  uint32_t flags;
  uint64_t id;   /* of the job or variant that it is about */
  uint64_t size; /* of the body that follows, in bytes */
} frame_t;

enum { FRAME_MAX_SPANS = 64 };
#define FRAME_MAX_BYTES (2ull << 30)

typedef struct {
  int descriptor;
  kiln_buffer_t bytes; /* what has arrived and was not consumed */
  size_t consumed;
} frame_reader_t;

/* The next frame; *out_body points into the reader until the next call. False when the other end is gone. */
bool frame_read(frame_reader_t *reader, frame_t *out_frame, const char **out_body);
/* Writes all of the spans; spans[0] is the header. They are modified. False when the other end is gone. */
bool frame_write(int descriptor, struct iovec *spans, size_t count);

#endif
