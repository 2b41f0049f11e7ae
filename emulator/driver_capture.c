/* emulator/driver_capture.c: stream capture: what streams and events do while a graph is made of their work.
 *
 * A capture begins on one stream, its origin. Each capturing stream holds the nodes that its next operation
 * comes after; recording an event keeps them in the event, and a stream that waits for such an event is drawn
 * into the capture (a fork) or adds them to its own (a join). What would make work outside depend on work
 * that never runs, or the other way round, is refused and invalidates the captures concerned: their streams
 * refuse everything until the capture is ended, which then gives no graph. Rules and errors are those of the
 * CUDA Driver API's reference, "Stream Management" and "cuThreadExchangeStreamCaptureMode". See driver.h.
 */
#include "emulator/driver.h"

#include <stdlib.h>

struct emu_capture {
  uint64_t serial; /* from 1 */
  CUstream origin;
  CUstreamCaptureMode mode;
  pthread_t thread;
  bool invalid;
  emu_nodes_t *nodes;
  emu_capture_t *next; /* in its context */
};

/* How the calling thread's unsafe calls meet captures that are going on. */
static _Thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

emu_nodes_t *emu_capture_nodes(emu_capture_t *capture) { return capture->nodes; }

static emu_capture_t *find_capture(CUcontext context, uint64_t serial) {
  emu_capture_t *c = context->captures;
  while (c && c->serial != serial) c = c->next;
  return c;
}

static CUresult invalidate(emu_capture_t *capture, CUresult result) {
  if (capture) capture->invalid = true;
  return result;
}

/* --- operations on streams --- */

/* The default stream waits for all blocking ones: using it would tie it to captures that they take part in.
 */
static bool is_implicit(CUcontext context, CUstream stream) {
  if (stream != &context->default_stream) return false;
  for (CUstream s = context->streams; s; s = s->next)
    if (s->capture && s->blocking) return true;
  return false;
}

static void invalidate_blocking(CUcontext context) {
  for (CUstream s = context->streams; s; s = s->next)
    if (s->capture && s->blocking) s->capture->invalid = true;
}

CUresult emu_capture_refuses(CUcontext context, CUstream stream) {
  if (stream->capture) return stream->capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
  if (!is_implicit(context, stream)) return CUDA_SUCCESS;
  invalidate_blocking(context);
  return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
}

static CUresult add_node(CUstream stream, const emu_op_t *op) {
  emu_capture_t *c = stream->capture;
  uint32_t node = c->nodes->count;
  if (!emu_nodes_add(c->nodes, op, &stream->captured)) return invalidate(c, CUDA_ERROR_OUT_OF_MEMORY);
  stream->captured.count = 0;
  return emu_node_set_add(&stream->captured, &node, 1) ? CUDA_SUCCESS
                                                       : invalidate(c, CUDA_ERROR_OUT_OF_MEMORY);
}

static CUresult record(CUstream stream, CUevent event) {
  event->captured.count = 0;
  event->capture = stream->capture->serial;
  if (emu_node_set_add(&event->captured, stream->captured.items, stream->captured.count)) return CUDA_SUCCESS;
  return invalidate(stream->capture, CUDA_ERROR_OUT_OF_MEMORY);
}

/* The stream waits for an event that was recorded in a capture: it forks, or joins. */
static CUresult wait_for_captured(CUcontext context, CUstream stream, CUevent event) {
  emu_capture_t *c = find_capture(context, event->capture);
  if (!c) return invalidate(stream->capture, CUDA_ERROR_CAPTURED_EVENT);
  if (c->invalid) return invalidate(stream->capture, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  if (stream == &context->default_stream) return invalidate(c, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  if (stream->capture && stream->capture != c) {
    invalidate(stream->capture, CUDA_ERROR_STREAM_CAPTURE_MERGE);
    return invalidate(c, CUDA_ERROR_STREAM_CAPTURE_MERGE);
  }
  stream->capture = c;
  if (emu_node_set_add(&stream->captured, event->captured.items, event->captured.count)) return CUDA_SUCCESS;
  return invalidate(c, CUDA_ERROR_OUT_OF_MEMORY);
}

bool emu_capture_takes(CUcontext context, CUstream stream, const emu_op_t *op, CUresult *out_result) {
  bool inside = op->event && op->event->capture && !op->external;
  if (op->kind == EMU_OP_WAIT && inside) {
    *out_result = wait_for_captured(context, stream, op->event);
    return true;
  }
  if (!stream->capture) return false;
  if (op->kind == EMU_OP_WAIT && !op->external)
    *out_result = invalidate(stream->capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  else
    *out_result =
        op->kind == EMU_OP_RECORD && !op->external ? record(stream, op->event) : add_node(stream, op);
  return true;
}

/* --- calls that a capture forbids --- */

bool emu_is_capturing(CUcontext context, CUstream stream) {
  pthread_mutex_lock(&context->lock);
  bool capturing = stream->capture != NULL;
  pthread_mutex_unlock(&context->lock);
  return capturing;
}

CUresult emu_capture_check_wait(CUcontext context, CUstream stream) {
  pthread_mutex_lock(&context->lock);
  CUresult result = emu_capture_refuses(context, stream);
  if (!result && stream->capture) result = invalidate(stream->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  pthread_mutex_unlock(&context->lock);
  return result;
}

CUresult emu_capture_check_event(CUcontext context, CUevent event) {
  CUresult result = CUDA_SUCCESS;
  pthread_mutex_lock(&context->lock);
  if (event->capture) result = invalidate(find_capture(context, event->capture), CUDA_ERROR_CAPTURED_EVENT);
  pthread_mutex_unlock(&context->lock);
  return result ? result : emu_capture_check_unsafe(context);
}

CUresult emu_capture_check_all(CUcontext context) {
  CUresult result = CUDA_SUCCESS;
  pthread_mutex_lock(&context->lock);
  for (emu_capture_t *c = context->captures; c; c = c->next)
    result = invalidate(c, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  pthread_mutex_unlock(&context->lock);
  return result;
}

static bool forbids_unsafe_calls(const emu_capture_t *c) {
  if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED || c->mode == CU_STREAM_CAPTURE_MODE_RELAXED)
    return false;
  if (pthread_equal(c->thread, pthread_self())) return true;
  return thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL && c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUresult emu_capture_check_unsafe(CUcontext context) {
  CUresult result = CUDA_SUCCESS;
  pthread_mutex_lock(&context->lock);
  for (emu_capture_t *c = context->captures; c; c = c->next)
    if (forbids_unsafe_calls(c)) result = invalidate(c, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  pthread_mutex_unlock(&context->lock);
  return result;
}

/* --- beginning and end --- */

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
  if (!mode || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  CUstreamCaptureMode before = thread_mode;
  thread_mode = *mode;
  *mode = before;
  return CUDA_SUCCESS;
}

static CUresult begin(CUcontext context, CUstream stream, CUstreamCaptureMode mode) {
  if (stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
  emu_capture_t *made = calloc(1, sizeof *made);
  emu_nodes_t *nodes = emu_nodes_create();
  if (!made || !nodes) {
    free(made);
    free(nodes);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *made = (emu_capture_t){.serial = ++context->capture_serial,
                          .origin = stream,
                          .mode = mode,
                          .thread = pthread_self(),
                          .nodes = nodes,
                          .next = context->captures};
  context->captures = stream->capture = made;
  return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode) {
  CUcontext context;
  CUresult result = emu_current(&context);
  if (result) return result;
  CUstream stream = emu_stream_of(context, handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  if (stream == &context->default_stream) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  pthread_mutex_lock(&context->lock);
  result = begin(context, stream, mode);
  pthread_mutex_unlock(&context->lock);
  return result;
}

/* Takes the capture's streams out of it. The capture's nodes are the caller's. */
static emu_nodes_t *finish(CUcontext context, emu_capture_t *capture) {
  emu_nodes_t *nodes = capture->nodes;
  emu_capture_t **at = &context->captures;
  while (*at != capture) at = &(*at)->next;
  *at = capture->next;
  for (CUstream s = context->streams; s; s = s->next) {
    if (s->capture != capture) continue;
    s->capture = NULL;
    emu_node_set_deinit(&s->captured);
  }
  free(capture);
  return nodes;
}

/* Whether every node comes before the end of the origin: what is left over is a fork that never joined. */
static CUresult check_joined(const emu_capture_t *capture) {
  const emu_nodes_t *nodes = capture->nodes;
  bool *reached = calloc(nodes->count + 1u, sizeof *reached), all = true;
  if (!reached) return CUDA_ERROR_OUT_OF_MEMORY;
  for (uint32_t n = 0; n < capture->origin->captured.count; n++)
    reached[capture->origin->captured.items[n]] = true;
  for (uint32_t n = nodes->count; n-- > 0;) {
    const emu_node_set_t *after = &nodes->items[n]->after;
    all &= reached[n];
    for (uint32_t k = 0; k < after->count; k++) reached[after->items[k]] |= reached[n];
  }
  free(reached);
  return all ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
}

static CUresult end(CUcontext context, CUstream stream, CUgraph *graph) {
  emu_capture_t *capture = stream->capture;
  if (!capture) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin != stream) return invalidate(capture, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && !pthread_equal(capture->thread, pthread_self()))
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  CUresult result = capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : check_joined(capture);
  emu_nodes_t *nodes = finish(context, capture);
  if (!result && !(*graph = emu_graph_create(context, nodes))) result = CUDA_ERROR_OUT_OF_MEMORY;
  if (result) emu_nodes_release(nodes);
  return result;
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph *graph) {
  CUcontext context;
  CUresult result = emu_current(&context);
  if (result) return result;
  CUstream stream = emu_stream_of(context, handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (!graph) return CUDA_ERROR_INVALID_VALUE;
  *graph = NULL;
  pthread_mutex_lock(&context->lock);
  result = end(context, stream, graph);
  pthread_mutex_unlock(&context->lock);
  return result;
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status) {
  CUcontext context;
  CUresult result = emu_current(&context);
  if (result) return result;
  CUstream stream = emu_stream_of(context, handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (!status) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&context->lock);
  if (is_implicit(context, stream)) result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  *status = !stream->capture           ? CU_STREAM_CAPTURE_STATUS_NONE
            : stream->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                       : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  pthread_mutex_unlock(&context->lock);
  return result;
}

void emu_capture_forget_stream(CUcontext context, CUstream stream) {
  emu_capture_t *capture = stream->capture;
  if (!capture) return;
  capture->invalid = true;
  if (capture->origin == stream) emu_nodes_release(finish(context, capture));
  emu_node_set_deinit(&stream->captured);
}

void emu_captures_deinit(CUcontext context) {
  while (context->captures) emu_nodes_release(finish(context, context->captures));
}
