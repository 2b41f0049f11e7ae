/* runtime/execute.c: one execution of a loaded plan: operands in, launches, results out.
 *
 * Called by the device process for each execute of a client, and by `--local` commands. Everything is queued
 * on the device's one stream, in the plan's order, which keeps every dependency; the host waits once, at the
 * end.
 */
#include "base/clock.h"
#include "runtime/device_state.h"

static kiln_status_t check_span(const kiln_host_span_t *span, const kiln_place_t *place, const char *what,
                                uint32_t index) {
  if (span->bytes == place->bytes) return NULL;
  kiln_status_t status = kiln_error(KILN_INVALID_ARGUMENT, "%s %u has %zu bytes, the plan wants %llu", what,
                                    index, span->bytes, (unsigned long long)place->bytes);
  return kiln_error_detail(status, "field", "%ss[%u]", what, index);
}

static kiln_status_t check_spans(const kiln_executable_t *executable, const kiln_host_span_t *inputs,
                                 const kiln_host_span_t *outputs) {
  const kiln_plan_t *plan = executable->plan;
  const kiln_place_t *place = executable->places;
  for (uint32_t i = 0; i < plan->input_count; i++) KILN_TRY(check_span(&inputs[i], place++, "input", i));
  for (uint32_t i = 0; i < plan->output_count; i++) KILN_TRY(check_span(&outputs[i], place++, "output", i));
  return NULL;
}

kiln_status_t kiln_execution_upload(const kiln_device_t *device, const kiln_executable_t *executable,
                                    const kiln_host_span_t *inputs) {
  for (uint32_t i = 0; i < executable->plan->input_count; i++) {
    if (!inputs[i].bytes) continue;
    KILN_CUDA_TRY(&device->cuda, cuMemcpyHtoDAsync_v2, executable->places[i].address, inputs[i].data,
                  inputs[i].bytes, device->stream);
  }
  return NULL;
}

/* What no kernel writes would be what an earlier execution left. */
static kiln_status_t clear_gaps(const kiln_device_t *device, const kiln_executable_t *executable,
                                uint32_t *out_launches) {
  const kiln_place_t *outputs = executable->places + executable->plan->input_count;
  for (uint32_t i = 0; i < executable->plan->output_count; i++) {
    if (!outputs[i].has_gaps || !outputs[i].bytes) continue;
    KILN_CUDA_TRY(&device->cuda, cuMemsetD8Async, outputs[i].address, 0, outputs[i].bytes, device->stream);
    ++*out_launches;
  }
  return NULL;
}

kiln_status_t kiln_execution_launch(const kiln_device_t *device, const kiln_executable_t *executable,
                                    uint32_t *out_launches) {
  const kiln_plan_t *plan = executable->plan;
  for (uint32_t i = 0; i < plan->launch_count; i++) {
    const kiln_prepared_launch_t *launch = &executable->launches[i];
    const uint32_t *grid = launch->grid, *block = plan->launches[i].block;
    if (launch->skip) continue;
    KILN_CUDA_TRY(&device->cuda, cuLaunchKernel, launch->function, grid[0], grid[1], grid[2], block[0],
                  block[1], block[2], plan->launches[i].shared_bytes, device->stream, launch->params, NULL);
    ++*out_launches;
  }
  return NULL;
}

static kiln_status_t download(const kiln_device_t *device, const kiln_executable_t *executable,
                              const kiln_host_span_t *outputs) {
  const kiln_place_t *places = executable->places + executable->plan->input_count;
  for (uint32_t i = 0; i < executable->plan->output_count; i++) {
    if (!outputs[i].bytes) continue;
    KILN_CUDA_TRY(&device->cuda, cuMemcpyDtoHAsync_v2, outputs[i].data, places[i].address, outputs[i].bytes,
                  device->stream);
  }
  return NULL;
}

static kiln_status_t queue(const kiln_device_t *device, kiln_executable_t *executable,
                           const kiln_host_span_t *inputs, const kiln_host_span_t *outputs,
                           kiln_execution_timings_t *timings) {
  uint64_t begin_ns = kiln_clock_monotonic_ns();
  KILN_TRY(kiln_execution_upload(device, executable, inputs));
  KILN_TRY(kiln_tables_upload(device, executable));
  uint64_t uploaded_ns = kiln_clock_monotonic_ns();
  KILN_TRY(clear_gaps(device, executable, &timings->launches));
  KILN_TRY(kiln_execution_launch(device, executable, &timings->launches));
  timings->upload_ns = uploaded_ns - begin_ns;
  timings->launch_ns = kiln_clock_monotonic_ns() - uploaded_ns;
  return download(device, executable, outputs);
}

/* Queues everything and waits, also after an error: queued copies use the caller's memory until then. */
static kiln_status_t run(kiln_device_t *device, kiln_executable_t *executable, const kiln_host_span_t *inputs,
                         const kiln_host_span_t *outputs, kiln_execution_timings_t *timings) {
  uint64_t begin_ns = kiln_clock_monotonic_ns();
  kiln_status_t status = queue(device, executable, inputs, outputs, timings);
  CUresult waited = device->cuda.cuStreamSynchronize(device->stream);
  /* A copy to pageable memory waits by itself, so the time from the last launch on is one figure. */
  timings->download_ns = kiln_clock_monotonic_ns() - begin_ns - timings->upload_ns - timings->launch_ns;
  return status ? status : kiln_cuda_status(&device->cuda, waited, "cuStreamSynchronize");
}

kiln_status_t kiln_device_execute(kiln_device_t *device, kiln_executable_t *executable,
                                  const int64_t *symbols, const kiln_host_span_t *inputs,
                                  const kiln_host_span_t *outputs, kiln_execution_timings_t *out_timings) {
  kiln_execution_timings_t timings = {0};
  KILN_TRY(kiln_device_enter(device));
  KILN_TRY(kiln_executable_prepare(device, executable, symbols));
  KILN_TRY(check_spans(executable, inputs, outputs));
  kiln_status_t status = kiln_places_acquire(device, executable);
  if (!status) status = run(device, executable, inputs, outputs, &timings);
  if (!status) status = kiln_counters_check(device, executable);
  status = kiln_device_settle(device, status);
  kiln_places_release(device, executable, status != NULL);
  if (out_timings) *out_timings = timings;
  return status;
}
