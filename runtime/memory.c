/* runtime/memory.c: where the buffers of an execution lie on the device.
 *
 * Executions run one at a time, so all share one pool that only grows: an execution of small tensors
 * allocates nothing. What would make the pool hold more than max_pool_bytes is allocated for one execution;
 * copying that much takes longer than allocating it. With a checker on, every buffer is an allocation of its
 * own. Counters are zeroed when they are allocated and stay so: kernels leave them as they find them. Called
 * by execute.c.
 */
#include "runtime/device_state.h"

static const uint64_t min_pool_bytes = 1ull << 20, max_pool_bytes = 256ull << 20;
static const uint64_t min_counter_bytes = 4096;

static void free_counters(kiln_device_t *device) {
  if (device->counters) device->cuda.cuMemFree_v2(device->counters);
  device->counters = 0;
  device->counter_bytes = 0;
}

static void free_pool(kiln_device_t *device) {
  if (device->pool) device->cuda.cuMemFree_v2(device->pool);
  device->pool = 0;
  device->pool_bytes = 0;
}

void kiln_pool_free(kiln_device_t *device) {
  free_pool(device);
  free_counters(device);
}

static uint64_t grown_size(uint64_t wanted_bytes) {
  uint64_t bytes = min_pool_bytes;
  while (bytes < wanted_bytes && bytes < max_pool_bytes) bytes *= 2;
  return bytes < wanted_bytes ? wanted_bytes : bytes;
}

static kiln_status_t grow_pool(kiln_device_t *device, uint64_t wanted_bytes) {
  if (wanted_bytes <= device->pool_bytes) return NULL;
  free_pool(device); /* first, so that both need not fit */
  uint64_t bytes = grown_size(wanted_bytes);
  KILN_CUDA_TRY(&device->cuda, cuMemAlloc_v2, &device->pool, bytes);
  device->pool_bytes = bytes;
  return NULL;
}

/* --- counters ---------------------------------------------------------------------------------- */

/* The stream is the one that launches come on. */
static kiln_status_t allocate_counters(const kiln_device_t *device, uint64_t bytes, CUdeviceptr *out) {
  KILN_CUDA_TRY(&device->cuda, cuMemAlloc_v2, out, bytes);
  KILN_CUDA_TRY(&device->cuda, cuMemsetD8Async, *out, 0, bytes, device->stream);
  return NULL;
}

static kiln_status_t grow_counters(kiln_device_t *device, uint64_t wanted_bytes) {
  if (wanted_bytes <= device->counter_bytes) return NULL;
  free_counters(device);
  uint64_t bytes = min_counter_bytes;
  while (bytes < wanted_bytes) bytes *= 2;
  kiln_status_t status = allocate_counters(device, bytes, &device->counters);
  if (status)
    free_counters(device); /* they may not be 0 */
  else
    device->counter_bytes = bytes;
  return status;
}

kiln_status_t kiln_counters_check(const kiln_device_t *device, const kiln_executable_t *executable) {
  uint32_t values[256];
  for (uint64_t at = 0, bytes; executable->apart && at < executable->counter_bytes; at += bytes) {
    bytes = executable->counter_bytes - at < sizeof values ? executable->counter_bytes - at : sizeof values;
    KILN_CUDA_TRY(&device->cuda, cuMemcpyDtoH_v2, values, executable->counters + at, bytes);
    for (uint64_t i = 0; i < bytes / sizeof *values; i++) {
      if (values[i])
        return kiln_error(KILN_INTERNAL, "a kernel left counter %llu at %u",
                          (unsigned long long)(at / sizeof *values + i), values[i]);
    }
  }
  return NULL;
}

/* --- places ------------------------------------------------------------------------------------ */

static bool has_address(const kiln_executable_t *executable, const kiln_slot_t *slot, uint64_t *out) {
  switch (slot->kind) {
  case KILN_SLOT_BUFFER:
    *out = executable->places[kiln_place_index(executable->plan, slot->buffer)].address;
    return true;
  case KILN_SLOT_WORKSPACE:
    *out = executable->places[executable->place_count - 1].address;
    return true;
  case KILN_SLOT_COUNTERS:
    *out = executable->counters;
    return true;
  default:
    return false;
  }
}

/* Writes the addresses of places to the parameters of launches. */
static void bind_parameters(kiln_executable_t *executable) {
  const kiln_plan_t *plan = executable->plan;
  for (uint32_t i = 0; i < plan->launch_count; i++) {
    const kiln_launch_t *launch = &plan->launches[i];
    for (uint32_t k = 0; k < launch->slot_count; k++) {
      uint64_t address;
      if (has_address(executable, &launch->slots[k], &address)) executable->launches[i].values[k] = address;
    }
  }
  kiln_tables_bind(executable);
}

/* Behind as many bytes as it may be misaligned by, where that is asked for. */
static kiln_status_t allocate_place(const kiln_device_t *device, kiln_place_t *place) {
  if (!place->bytes) return NULL;
  place->shift_bytes = device->misaligned ? place->declared_align_bytes : 0;
  KILN_CUDA_TRY(&device->cuda, cuMemAlloc_v2, &place->address, place->bytes + place->shift_bytes);
  place->address += place->shift_bytes;
  return NULL;
}

static kiln_status_t acquire_apart(kiln_device_t *device, kiln_executable_t *executable) {
  executable->bound_base = 0;
  for (uint32_t i = 0; i < executable->place_count; i++) executable->places[i].address = 0;
  executable->counters = 0;
  executable->apart = true;
  for (uint32_t i = 0; i < executable->place_count; i++)
    KILN_TRY(allocate_place(device, &executable->places[i]));
  if (executable->counter_bytes)
    KILN_TRY(allocate_counters(device, executable->counter_bytes, &executable->counters));
  bind_parameters(executable);
  return NULL;
}

static kiln_status_t acquire_pooled(kiln_device_t *device, kiln_executable_t *executable) {
  KILN_TRY(grow_pool(device, executable->pool_bytes));
  KILN_TRY(grow_counters(device, executable->counter_bytes));
  CUdeviceptr base =
      (device->pool + executable->pool_align - 1) / executable->pool_align * executable->pool_align;
  if (base == executable->bound_base && device->counters == executable->counters) return NULL;
  for (uint32_t i = 0; i < executable->place_count; i++) {
    executable->places[i].address = base + executable->places[i].offset;
  }
  executable->counters = device->counters;
  bind_parameters(executable);
  executable->bound_base = base;
  return NULL;
}

kiln_status_t kiln_places_acquire(kiln_device_t *device, kiln_executable_t *executable) {
  /* An allocation is aligned as every buffer is; the few that want more come from the pool, checkers or not.
   */
  bool apart = device->apart && executable->pool_align == KILN_PLACE_ALIGN_BYTES;
  return apart ? acquire_apart(device, executable) : acquire_pooled(device, executable);
}

void kiln_places_release(kiln_device_t *device, kiln_executable_t *executable, bool has_failed) {
  for (uint32_t i = 0; executable->apart && i < executable->place_count; i++) {
    const kiln_place_t *place = &executable->places[i];
    if (place->address) device->cuda.cuMemFree_v2(place->address - place->shift_bytes);
  }
  if (executable->apart && executable->counters) device->cuda.cuMemFree_v2(executable->counters);
  executable->apart = false;
  if (has_failed) free_counters(device);
  if (device->pool_bytes > max_pool_bytes) free_pool(device);
}
