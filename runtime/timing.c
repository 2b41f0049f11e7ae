/* runtime/timing.c: how long the device takes for what it is given, between two events on its stream; see
 * device.h.
 *
 * For benchmarks only: executions of clients are timed on the host (execute.c). Everything is queued without
 * waiting, so that the launches follow each other as closely as the device can take them.
 */
#include "runtime/device_state.h"

typedef struct {
  kiln_device_t *device;
  CUevent begin, end;
} stopwatch_t;

static kiln_status_t start(stopwatch_t *timer) {
  const kiln_cuda_t *cuda = &timer->device->cuda;
  KILN_CUDA_TRY(cuda, cuEventCreate, &timer->begin, CU_EVENT_DEFAULT);
  KILN_CUDA_TRY(cuda, cuEventCreate, &timer->end, CU_EVENT_DEFAULT);
  KILN_CUDA_TRY(cuda, cuEventRecord, timer->begin, timer->device->stream);
  return NULL;
}

static kiln_status_t stop(const stopwatch_t *timer, uint32_t repeat, double *out_ns) {
  const kiln_cuda_t *cuda = &timer->device->cuda;
  float milliseconds;
  KILN_CUDA_TRY(cuda, cuEventRecord, timer->end, timer->device->stream);
  KILN_CUDA_TRY(cuda, cuEventSynchronize, timer->end);
  KILN_CUDA_TRY(cuda, cuEventElapsedTime, &milliseconds, timer->begin, timer->end);
  *out_ns = (double)milliseconds * 1e6 / repeat;
  return NULL;
}

/* Also after an error: what is queued still uses memory that is about to be freed. */
static void end(stopwatch_t *timer) {
  const kiln_cuda_t *cuda = &timer->device->cuda;
  cuda->cuStreamSynchronize(timer->device->stream);
  if (timer->begin) cuda->cuEventDestroy_v2(timer->begin);
  if (timer->end) cuda->cuEventDestroy_v2(timer->end);
}

/* --- launches ---------------------------------------------------------------------------------- */

static kiln_status_t time_launches(stopwatch_t *timer, kiln_executable_t *executable,
                                   const kiln_host_span_t *inputs, uint32_t repeat, double *out_ns) {
  uint32_t launches = 0;
  KILN_TRY(kiln_execution_upload(timer->device, executable, inputs));
  KILN_TRY(kiln_tables_upload(timer->device, executable));
  KILN_TRY(kiln_execution_launch(timer->device, executable, &launches));
  KILN_TRY(start(timer));
  for (uint32_t i = 0; i < repeat; i++) KILN_TRY(kiln_execution_launch(timer->device, executable, &launches));
  return stop(timer, repeat, out_ns);
}

kiln_status_t kiln_device_time(kiln_device_t *device, kiln_executable_t *executable, const int64_t *symbols,
                               const kiln_host_span_t *inputs, uint32_t repeat, double *out_ns) {
  stopwatch_t timer = {.device = device};
  KILN_TRY(kiln_device_enter(device));
  KILN_TRY(kiln_executable_prepare(device, executable, symbols));
  for (uint32_t i = 0; i < executable->plan->input_count; i++) {
    if (inputs[i].bytes != executable->places[i].bytes)
      return kiln_error(KILN_INVALID_ARGUMENT, "input %u has %zu bytes, the plan wants %llu", i,
                        inputs[i].bytes, (unsigned long long)executable->places[i].bytes);
  }
  kiln_status_t status = kiln_places_acquire(device, executable);
  if (!status) status = time_launches(&timer, executable, inputs, repeat, out_ns);
  end(&timer);
  status = kiln_device_settle(device, status);
  kiln_places_release(device, executable, status != NULL);
  return status;
}

/* --- copies ------------------------------------------------------------------------------------ */

static kiln_status_t time_copies(stopwatch_t *timer, CUdeviceptr to, CUdeviceptr from, uint64_t bytes,
                                 uint32_t repeat, double *out_ns) {
  const kiln_cuda_t *cuda = &timer->device->cuda;
  CUstream stream = timer->device->stream;
  KILN_CUDA_TRY(cuda, cuMemsetD8Async, from, 0, bytes, stream);
  KILN_CUDA_TRY(cuda, cuMemcpyDtoDAsync_v2, to, from, bytes, stream);
  KILN_TRY(start(timer));
  for (uint32_t i = 0; i < repeat; i++) KILN_CUDA_TRY(cuda, cuMemcpyDtoDAsync_v2, to, from, bytes, stream);
  return stop(timer, repeat, out_ns);
}

kiln_status_t kiln_device_time_copy(kiln_device_t *device, uint64_t bytes, uint32_t repeat, double *out_ns) {
  const kiln_cuda_t *cuda = &device->cuda;
  stopwatch_t timer = {.device = device};
  CUdeviceptr from = 0, to = 0;
  KILN_TRY(kiln_device_enter(device));
  kiln_status_t status = kiln_cuda_status(cuda, cuda->cuMemAlloc_v2(&from, bytes), "cuMemAlloc");
  if (!status) status = kiln_cuda_status(cuda, cuda->cuMemAlloc_v2(&to, bytes), "cuMemAlloc");
  if (!status) status = time_copies(&timer, to, from, bytes, repeat, out_ns);
  end(&timer);
  if (from) cuda->cuMemFree_v2(from);
  if (to) cuda->cuMemFree_v2(to);
  return kiln_device_settle(device, status);
}
