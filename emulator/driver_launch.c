/* emulator/driver_launch.c: launches, streams, events. See driver.h; what a GPU refuses is refused here, with
 * its code. */
#include "emulator/driver.h"

#include <stdlib.h>
#include <string.h>

/* --- launches --- */

typedef struct {
  CUfunction function;
  unsigned int grid[3], block[3], shared_bytes;
  CUstream stream;
  bool cooperative;
} request_t;

static bool valid_sizes(const request_t *r) {
  static const unsigned int most_grid[3] = {INT32_MAX, 65535, 65535}, most_block[3] = {1024, 1024, 64};
  uint64_t threads = 1;
  for (int n = 0; n < 3; n++) {
    if (r->grid[n] == 0 || r->grid[n] > most_grid[n] || r->block[n] == 0 || r->block[n] > most_block[n])
      return false;
    threads *= r->block[n];
  }
  return threads <= r->function->kernel->max_threads &&
         r->shared_bytes <= (unsigned int)r->function->dynamic_shared_limit;
}

/* Parameters as pointers to values, or as one packed buffer behind `extra`. */
static CUresult copy_params(const emu_kernel_t *kernel, unsigned char *to, void **params, void **extra) {
  if (params && extra) return CUDA_ERROR_INVALID_VALUE; /* one way or the other */
  if (kernel->param_count == 0) return CUDA_SUCCESS;
  if (params) {
    for (uint32_t n = 0; n < kernel->param_count; n++) {
      if (!params[n]) return CUDA_ERROR_INVALID_VALUE;
      memcpy(to + kernel->params[n].offset, params[n], kernel->params[n].bytes);
    }
    return CUDA_SUCCESS;
  }
  const void *buffer = NULL;
  size_t bytes = 0;
  for (; extra && *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
      buffer = extra[1];
    else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
      bytes = *(size_t *)extra[1];
    else
      return CUDA_ERROR_INVALID_VALUE;
  }
  if (!buffer || bytes > kernel->param_bytes + 15u) return CUDA_ERROR_INVALID_VALUE;
  memcpy(to, buffer, bytes < kernel->param_bytes ? bytes : kernel->param_bytes);
  return CUDA_SUCCESS;
}

/* A launch with what the context says now; its parameters are still to be copied. NULL: out of memory. */
static emu_launch_t *create_launch(CUcontext context, const emu_kernel_t *kernel, const uint32_t grid[3],
                                   const uint32_t block[3], uint32_t dynamic_shared_bytes,
                                   uint64_t resident_limit) {
  emu_launch_setup_t setup = {.kernel = kernel,
                              .memory = &context->memory,
                              .dynamic_shared_bytes = dynamic_shared_bytes,
                              .resident_limit = resident_limit,
                              .instruction_limit = context->instruction_limit,
                              .stack_bytes = context->limits[CU_LIMIT_STACK_SIZE],
                              .checks = context->checks,
                              .counting = context->counting,
                              .deterministic = context->deterministic,
                              .serial = __atomic_add_fetch(&context->serial, 1, __ATOMIC_RELAXED)};
  memcpy(setup.grid, grid, sizeof setup.grid);
  memcpy(setup.block, block, sizeof setup.block);
  return emu_launch_create(&setup);
}

static CUresult launch_kernel(const request_t *r, void **params, void **extra) {
  CUcontext context;
  CUresult result = emu_current(&context);
  if (result) return result;
  if (!emu_is_function(context, r->function)) return CUDA_ERROR_INVALID_HANDLE;
  CUstream stream = emu_stream_of(context, r->stream);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (!valid_sizes(r)) return CUDA_ERROR_INVALID_VALUE;
  int per_sm = 0;
  int threads = (int)(r->block[0] * r->block[1] * r->block[2]);
  cuOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, r->function, threads, r->shared_bytes);
  uint64_t resident = (uint64_t)(per_sm > 0 ? per_sm : 1) * (uint64_t)emu_model()->sms;
  if (r->cooperative && (uint64_t)r->grid[0] * r->grid[1] * r->grid[2] > resident)
    return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
  emu_op_t op = {
      .kind = EMU_OP_LAUNCH,
      .launch = create_launch(context, r->function->kernel, r->grid, r->block, r->shared_bytes, resident),
      .module = r->function->module->serial};
  if (!op.launch) return CUDA_ERROR_OUT_OF_MEMORY;
  if ((result = copy_params(r->function->kernel, op.launch->params, params, extra))) {
    emu_launch_destroy(op.launch);
    return result;
  }
  return emu_enqueue(context, stream, &op);
}

emu_launch_t *emu_launch_again(CUcontext context, const emu_launch_t *captured) {
  emu_launch_t *launch = create_launch(context, captured->kernel, captured->grid, captured->block,
                                       captured->dynamic_shared_bytes, captured->resident_limit);
  if (launch) memcpy(launch->params, captured->params, captured->kernel->param_bytes);
  return launch;
}

CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                        unsigned int block_x, unsigned int block_y, unsigned int block_z,
                        unsigned int shared_bytes, CUstream stream, void **params, void **extra) {
  request_t r = {function, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes, stream,
                 false};
  return launch_kernel(&r, params, extra);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                                   unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                   unsigned int block_z, unsigned int shared_bytes, CUstream stream,
                                   void **params) {
  request_t r = {function, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes, stream, true};
  return launch_kernel(&r, params, NULL);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **params, void **extra) {
  if (!config || (config->numAttrs && !config->attrs)) return CUDA_ERROR_INVALID_VALUE;
  request_t r = {.function = function,
                 .grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
                 .block = {config->blockDimX, config->blockDimY, config->blockDimZ},
                 .shared_bytes = config->sharedMemBytes,
                 .stream = config->hStream};
  for (unsigned int n = 0; n < config->numAttrs; n++) {
    const CUlaunchAttribute *attribute = &config->attrs[n];
    if (attribute->id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) r.cooperative = attribute->value.cooperative != 0;
    if (attribute->id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION &&
        (attribute->value.clusterDim.x != 1 || attribute->value.clusterDim.y != 1 ||
         attribute->value.clusterDim.z != 1))
      return CUDA_ERROR_NOT_SUPPORTED;
  }
  return launch_kernel(&r, params, extra);
}

CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void *user_data) {
  CUcontext context;
  CUresult result = emu_current(&context);
  if (result) return result;
  CUstream stream = emu_stream_of(context, handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (!function) return CUDA_ERROR_INVALID_VALUE;
  emu_op_t op = {.kind = EMU_OP_HOST, .function = function, .user_data = user_data};
  return emu_enqueue(context, stream, &op);
}

/* --- streams --- */

CUresult cuStreamCreate(CUstream *stream, unsigned int flags) {
  CUcontext context;
  CUresult result = emu_current(&context);
  if (result) return result;
  if (!stream || flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  CUstream made = calloc(1, sizeof *made);
  if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
  made->context = context;
  made->blocking = flags == CU_STREAM_DEFAULT;
  pthread_mutex_lock(&context->lock);
  made->next = context->streams;
  context->streams = made;
  pthread_mutex_unlock(&context->lock);
  *stream = made;
  return CUDA_SUCCESS;
}

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority) {
  (void)priority;
  return cuStreamCreate(stream, flags);
}

/* CUDA lets a stream's work finish after its destruction; here the call waits for it. */
CUresult cuStreamDestroy_v2(CUstream stream) {
  CUcontext context;
  CUresult result = emu_current(&context);
  if (result == CUDA_ERROR_NOT_INITIALIZED || result == CUDA_ERROR_INVALID_CONTEXT) return result;
  if (result == CUDA_ERROR_CONTEXT_IS_DESTROYED) return result;
  if (!stream || emu_stream_of(context, stream) != stream) return CUDA_ERROR_INVALID_HANDLE;
  emu_drain(context, stream);
  pthread_mutex_lock(&context->lock);
  emu_capture_forget_stream(context, stream);
  CUstream *at = &context->streams;
  while (*at != stream) at = &(*at)->next;
  *at = stream->next;
  pthread_mutex_unlock(&context->lock);
  free(stream);
  return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream handle) {
  CUcontext context;
  CUresult result = emu_current(&context);
  if (result) return result;
  CUstream stream = emu_stream_of(context, handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  result = emu_capture_check_wait(context, stream);
  return result ? result : emu_drain(context, stream);
}

CUresult cuStreamQuery(CUstream handle) {
  CUcontext context;
  CUresult result = emu_current(&context);
  if (result) return result;
  CUstream stream = emu_stream_of(context, handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if ((result = emu_capture_check_wait(context, stream))) return result;
  pthread_mutex_lock(&context->lock);
  result = stream->first ? CUDA_ERROR_NOT_READY : context->sticky;
  pthread_mutex_unlock(&context->lock);
  return result;
}

/* --- events --- */

bool emu_is_event(CUcontext context, CUevent event) {
  CUevent e = context->events;
  while (e && e != event) e = e->next;
  return e != NULL;
}

static CUresult check_event(CUevent event, CUcontext *out_context) {
  CUresult result = emu_current(out_context);
  if (result) return result;
  pthread_mutex_lock(&(*out_context)->lock);
  bool found = emu_is_event(*out_context, event);
  pthread_mutex_unlock(&(*out_context)->lock);
  return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuEventCreate(CUevent *event, unsigned int flags) {
  CUcontext context;
  CUresult result = emu_current(&context);
  if (result) return result;
  bool timed_between_processes = flags & CU_EVENT_INTERPROCESS && !(flags & CU_EVENT_DISABLE_TIMING);
  if (!event || flags > 7 || timed_between_processes) return CUDA_ERROR_INVALID_VALUE;
  CUevent made = calloc(1, sizeof *made);
  if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
  made->context = context;
  made->timed = !(flags & CU_EVENT_DISABLE_TIMING);
  pthread_mutex_lock(&context->lock);
  made->next = context->events;
  context->events = made;
  pthread_mutex_unlock(&context->lock);
  *event = made;
  return CUDA_SUCCESS;
}

/* Operations may still name the event, so it goes when they are done. */
CUresult cuEventDestroy_v2(CUevent event) {
  CUcontext context;
  CUresult result = check_event(event, &context);
  if (result) return result;
  emu_drain(context, NULL);
  pthread_mutex_lock(&context->lock);
  CUevent *at = &context->events;
  while (*at != event) at = &(*at)->next;
  *at = event->next;
  pthread_mutex_unlock(&context->lock);
  emu_node_set_deinit(&event->captured);
  free(event);
  return CUDA_SUCCESS;
}

/* External records and waits are nodes of a graph; there is none outside of a capture. */
static CUresult enqueue_event(CUevent event, CUstream handle, emu_op_kind_t kind, unsigned int flags) {
  if (flags > 1) return CUDA_ERROR_INVALID_VALUE;
  CUcontext context;
  CUresult result = check_event(event, &context);
  if (result) return result;
  CUstream stream = emu_stream_of(context, handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (flags && !emu_is_capturing(context, stream)) return CUDA_ERROR_ILLEGAL_STATE;
  emu_op_t op = {.kind = kind, .event = event, .external = flags != 0};
  return emu_enqueue(context, stream, &op);
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  return enqueue_event(event, stream, EMU_OP_RECORD, 0);
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags) {
  return enqueue_event(event, stream, EMU_OP_RECORD, flags);
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags) {
  return enqueue_event(event, stream, EMU_OP_WAIT, flags);
}

CUresult cuEventQuery(CUevent event) {
  CUcontext context;
  CUresult result = check_event(event, &context);
  if (!result) result = emu_capture_check_event(context, event);
  if (result) return result;
  pthread_mutex_lock(&context->lock);
  result = event->reached < event->recorded ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
  pthread_mutex_unlock(&context->lock);
  return result;
}

CUresult cuEventSynchronize(CUevent event) {
  CUcontext context;
  CUresult result = check_event(event, &context);
  if (!result) result = emu_capture_check_event(context, event);
  return result ? result : emu_wait_event(context, event);
}

/* Time on the emulating CPU. */
CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
  CUcontext context;
  CUresult result = check_event(start, &context);
  if (!result) result = check_event(end, &context);
  if (result) return result;
  if (!milliseconds) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&context->lock);
  if (start->capture || end->capture)
    result = CUDA_ERROR_CAPTURED_EVENT;
  else if (!start->timed || !end->timed || !start->recorded || !end->recorded)
    result = CUDA_ERROR_INVALID_HANDLE;
  else if (start->reached < start->recorded || end->reached < end->recorded)
    result = CUDA_ERROR_NOT_READY;
  else
    *milliseconds = (float)((double)(int64_t)(end->time_ns - start->time_ns) / 1e6);
  pthread_mutex_unlock(&context->lock);
  return result;
}
