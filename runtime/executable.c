/* runtime/executable.c: from a plan and its compiled kernels to something that runs.
 *
 * Called by the device process when the server has it load an executable: the plan is copied and checked
 * against the device, modules are loaded or shared, constants go to the device. Nothing here depends on
 * symbols; that is prepare.c.
 */
#include "runtime/device_state.h"

#include <stdlib.h>
#include <string.h>

static kiln_status_t malformed(uint32_t launch, const char *what) {
  return kiln_error(KILN_INVALID_ARGUMENT, "launch %u of the plan has %s", launch, what);
}

static kiln_status_t check_launch(const kiln_device_t *device, uint32_t index, const kiln_launch_t *launch) {
  uint64_t threads = 1;
  for (int axis = 0; axis < 3; axis++) {
    if (!launch->grid[axis].divisor) return malformed(index, "a grid that divides by 0");
    if (!launch->block[axis]) return malformed(index, "a block without threads");
    if (launch->block[axis] > device->max_block[axis])
      return malformed(index, "a block too long for the device");
    threads *= launch->block[axis];
  }
  if (threads > device->max_threads) return malformed(index, "more threads to a block than the device takes");
  if (launch->shared_bytes > device->info.target.shared_bytes_per_block) {
    return malformed(index, "more shared memory than the device has");
  }
  return NULL;
}

static bool is_power_of_two(uint32_t value) { return value && !(value & (value - 1)); }

static kiln_status_t check_plan(const kiln_device_t *device, const kiln_plan_t *plan) {
  for (uint32_t i = 0; i < plan->launch_count; i++) KILN_TRY(check_launch(device, i, &plan->launches[i]));
  for (uint32_t i = 0; i < plan->input_count + plan->output_count; i++) {
    const kiln_plan_tensor_t *tensor =
        i < plan->input_count ? &plan->inputs[i] : &plan->outputs[i - plan->input_count];
    if (!is_power_of_two(tensor->align_bytes)) {
      return kiln_error(KILN_INVALID_ARGUMENT, "a tensor of the plan is aligned to %u bytes, no power of two",
                        tensor->align_bytes);
    }
  }
  return NULL;
}

/* --- kernels ----------------------------------------------------------------------------------- */

/* Above 48 KiB shared memory is given only to a function that asked for it. Functions are shared between
 * plans, so what one has is never made less. Source: CUDA C++ Programming Guide, "Shared Memory" of compute
 * capability 7.x and later. */
static kiln_status_t allow_shared_memory(const kiln_cuda_t *cuda, CUfunction function,
                                         uint32_t wanted_bytes) {
  const CUfunction_attribute which = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
  if (wanted_bytes <= 48 * 1024) return NULL;
  int has_bytes = 0;
  KILN_CUDA_TRY(cuda, cuFuncGetAttribute, &has_bytes, which, function);
  if (has_bytes >= 0 && (uint32_t)has_bytes >= wanted_bytes) return NULL;
  KILN_CUDA_TRY(cuda, cuFuncSetAttribute, function, which, (int)wanted_bytes);
  return NULL;
}

static kiln_status_t load_kernel(kiln_device_t *device, const kiln_launch_t *launch,
                                 const kiln_kernel_artifact_t *artifact, kiln_prepared_launch_t *out) {
  const kiln_cuda_t *cuda = &device->cuda;
  KILN_TRY(kiln_module_acquire(device, &launch->kernel, artifact, &out->module));
  CUresult result = cuda->cuModuleGetFunction(&out->function, out->module->handle, launch->entry);
  if (result == CUDA_ERROR_NOT_FOUND) {
    kiln_status_t status =
        kiln_error(KILN_INVALID_ARGUMENT, "the kernel's image has no entry %s", launch->entry);
    return kiln_error_detail(status, "rule", "image");
  }
  KILN_TRY(kiln_cuda_status(cuda, result, "cuModuleGetFunction"));
  return allow_shared_memory(cuda, out->function, launch->shared_bytes);
}

/* --- constants and parameters ------------------------------------------------------------------ */

static uint64_t aligned(uint64_t offset) {
  return (offset + KILN_PLACE_ALIGN_BYTES - 1) / KILN_PLACE_ALIGN_BYTES * KILN_PLACE_ALIGN_BYTES;
}

static kiln_status_t upload_constants(kiln_device_t *device, kiln_executable_t *executable) {
  const kiln_plan_t *plan = executable->plan;
  uint64_t bytes = 0;
  executable->constant_offsets = KILN_NEW_ARRAY(&executable->arena, uint64_t, plan->constant_count);
  for (uint32_t i = 0; i < plan->constant_count; i++) {
    executable->constant_offsets[i] = bytes;
    bytes = aligned(bytes + plan->constants[i].size);
  }
  if (!bytes) return NULL;
  KILN_CUDA_TRY(&device->cuda, cuMemAlloc_v2, &executable->constants, bytes);
  for (uint32_t i = 0; i < plan->constant_count; i++) {
    CUdeviceptr to = executable->constants + executable->constant_offsets[i];
    if (!plan->constants[i].size) continue;
    KILN_CUDA_TRY(&device->cuda, cuMemcpyHtoD_v2, to, plan->constants[i].data, plan->constants[i].size);
  }
  return NULL;
}

/* The driver takes parameters as an array of pointers to them: made once, pointing at values that executions
 * change. */
static void make_parameters(kiln_executable_t *executable, uint32_t index) {
  const kiln_launch_t *launch = &executable->plan->launches[index];
  kiln_prepared_launch_t *prepared = &executable->launches[index];
  prepared->values = KILN_NEW_ARRAY(&executable->arena, uint64_t, launch->slot_count);
  prepared->params = KILN_NEW_ARRAY(&executable->arena, void *, launch->slot_count);
  for (uint32_t k = 0; k < launch->slot_count; k++) {
    prepared->params[k] = &prepared->values[k];
    if (launch->slots[k].kind == KILN_SLOT_CONSTANT) {
      prepared->values[k] =
          executable->constants + executable->constant_offsets[launch->slots[k].buffer.index];
    }
  }
}

/* --- loading ----------------------------------------------------------------------------------- */

typedef struct {
  kiln_device_t *device;
  const kiln_buffer_t *plan; /* as stored: it is copied through that form, whose reader checks every index */
  const kiln_kernel_artifact_t *artifacts;
  kiln_executable_t *executable;
} loading_t;

static kiln_status_t load(void *argument) {
  const loading_t *loading = argument;
  kiln_executable_t *executable = loading->executable;
  KILN_TRY(kiln_plan_decode(&executable->arena, loading->plan->data, loading->plan->size, &executable->plan));
  const kiln_plan_t *plan = executable->plan;
  KILN_TRY(check_plan(loading->device, plan));
  executable->place_count = plan->input_count + plan->output_count + plan->slot_count + 1;
  executable->places = KILN_NEW_ARRAY(&executable->arena, kiln_place_t, executable->place_count);
  executable->launches = KILN_NEW_ARRAY(&executable->arena, kiln_prepared_launch_t, plan->launch_count);
  KILN_TRY(upload_constants(loading->device, executable));
  for (uint32_t i = 0; i < plan->launch_count; i++) {
    make_parameters(executable, i);
    KILN_TRY(
        load_kernel(loading->device, &plan->launches[i], &loading->artifacts[i], &executable->launches[i]));
  }
  return kiln_tables_create(loading->device, executable);
}

kiln_status_t kiln_device_load(kiln_device_t *device, const kiln_plan_t *plan,
                               const kiln_kernel_artifact_t *artifacts, kiln_executable_t **out_executable) {
  KILN_TRY(kiln_device_enter(device));
  kiln_executable_t *executable = calloc(1, sizeof *executable);
  if (!executable) return kiln_error(KILN_OUT_OF_MEMORY, "out of memory while loading a plan");
  kiln_arena_init(&executable->arena, 0);
  kiln_buffer_t bytes;
  kiln_buffer_init(&bytes);
  kiln_plan_encode(plan, &bytes);
  loading_t loading = {device, &bytes, artifacts, executable};
  kiln_status_t status = bytes.failed ? kiln_error(KILN_OUT_OF_MEMORY, "out of memory")
                                      : kiln_arena_guard(&executable->arena, load, &loading);
  kiln_buffer_deinit(&bytes);
  if (status) {
    kiln_device_unload(device, executable);
    return kiln_device_settle(device, kiln_error_note(status, "loading a plan"));
  }
  *out_executable = executable;
  return NULL;
}

void kiln_device_unload(kiln_device_t *device, kiln_executable_t *executable) {
  if (!executable) return;
  device->cuda.cuCtxSetCurrent(device->context);
  for (uint32_t i = 0; executable->launches && i < executable->plan->launch_count; i++) {
    kiln_module_release(device, executable->launches[i].module);
  }
  if (executable->constants) device->cuda.cuMemFree_v2(executable->constants);
  kiln_tables_free(device, executable);
  kiln_arena_deinit(&executable->arena);
  free(executable);
}
