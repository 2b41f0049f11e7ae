/* runtime/memory.c: where the buffers of an execution lie on the device.
 *
 * Executions run one at a time, so all share one pool that only grows: an execution of small tensors
 * allocates nothing. What would make the pool hold more than max_pool_bytes is allocated for one execution;
 * copying that much takes longer than allocating it. With a checker on, every buffer is an allocation of its
 * own. Called by execute.c.
 */
#include "runtime/device_state.h"

static const uint64_t min_pool_bytes = 1ull << 20, max_pool_bytes = 256ull << 20;

void kiln_pool_free(kiln_device_t *device) {
  if (device->pool) device->cuda.cuMemFree_v2(device->pool);
  device->pool = 0;
  device->pool_bytes = 0;
}

static uint64_t grown_size(uint64_t wanted_bytes) {
  uint64_t bytes = min_pool_bytes;
  while (bytes < wanted_bytes && bytes < max_pool_bytes) bytes *= 2;
  return bytes < wanted_bytes ? wanted_bytes : bytes;
}

static kiln_status_t grow_pool(kiln_device_t *device, uint64_t wanted_bytes) {
  if (wanted_bytes <= device->pool_bytes) return NULL;
  kiln_pool_free(device); /* first, so that both need not fit */
  uint64_t bytes = grown_size(wanted_bytes);
  KILN_CUDA_TRY(&device->cuda, cuMemAlloc_v2, &device->pool, bytes);
  device->pool_bytes = bytes;
  return NULL;
}

/* Writes the addresses of places to the parameters of launches. */
static void bind_parameters(kiln_executable_t *executable) {
  const kiln_plan_t *plan = executable->plan;
  for (uint32_t i = 0; i < plan->launch_count; i++) {
    for (uint32_t k = 0; k < plan->launches[i].slot_count; k++) {
      const kiln_slot_t *slot = &plan->launches[i].slots[k];
      if (slot->kind != KILN_SLOT_BUFFER) continue;
      executable->launches[i].values[k] = executable->places[kiln_place_index(plan, slot->buffer)].address;
    }
  }
}

static kiln_status_t acquire_apart(kiln_device_t *device, kiln_executable_t *executable) {
  executable->bound_base = 0;
  for (uint32_t i = 0; i < executable->place_count; i++) executable->places[i].address = 0;
  executable->apart = true;
  for (uint32_t i = 0; i < executable->place_count; i++) {
    kiln_place_t *place = &executable->places[i];
    if (place->bytes) KILN_CUDA_TRY(&device->cuda, cuMemAlloc_v2, &place->address, place->bytes);
  }
  bind_parameters(executable);
  return NULL;
}

static kiln_status_t acquire_pooled(kiln_device_t *device, kiln_executable_t *executable) {
  KILN_TRY(grow_pool(device, executable->pool_bytes));
  CUdeviceptr base =
      (device->pool + executable->pool_align - 1) / executable->pool_align * executable->pool_align;
  if (base == executable->bound_base) return NULL;
  for (uint32_t i = 0; i < executable->place_count; i++) {
    executable->places[i].address = base + executable->places[i].offset;
  }
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

void kiln_places_release(kiln_device_t *device, kiln_executable_t *executable) {
  for (uint32_t i = 0; executable->apart && i < executable->place_count; i++) {
    if (executable->places[i].address) device->cuda.cuMemFree_v2(executable->places[i].address);
  }
  executable->apart = false;
  if (device->pool_bytes > max_pool_bytes) kiln_pool_free(device);
}
