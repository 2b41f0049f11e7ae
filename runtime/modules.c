/* runtime/modules.c: images loaded on the device, by kernel key.
 *
 * Executables whose plans share a kernel share its module (executable.c acquires and releases). One that
 * nobody uses stays loaded, since the same graph often comes back; past a limit the one that has been idle
 * for longest is unloaded.
 */
#include "runtime/device_state.h"

#include <stdlib.h>
#include <string.h>

static const uint64_t max_idle_bytes = 64ull << 20;

bool kiln_modules_init(kiln_modules_t *modules) {
  modules->idle.newer = modules->idle.older = &modules->idle;
  modules->by_key = kiln_map_create(NULL);
  return modules->by_key != NULL;
}

static void unload(kiln_device_t *device, kiln_module_t *module) {
  module->newer->older = module->older;
  module->older->newer = module->newer;
  device->modules.idle_bytes -= module->image_bytes;
  kiln_map_remove(device->modules.by_key, &module->key, sizeof module->key);
  device->cuda.cuModuleUnload(module->handle);
  free(module);
}

void kiln_modules_deinit(kiln_device_t *device) {
  kiln_module_t *ends = &device->modules.idle;
  while (ends->newer != ends) unload(device, ends->newer);
  kiln_map_destroy(device->modules.by_key);
}

/* --- loading ----------------------------------------------------------------------------------- */

static kiln_status_t image_error(const char *log, CUresult result, const kiln_device_t *device) {
  const char *name = "no name";
  device->cuda.cuGetErrorName(result, &name);
  kiln_status_t status = kiln_error(KILN_INVALID_ARGUMENT, "the kernel's image does not load on %s: %s",
                                    device->info.name, name);
  if (log[0]) status = kiln_error_detail(status, "log", "%s", log);
  return kiln_error_detail(status, "rule", "image");
}

/* The driver takes PTX and cubins of its own CUDA version and older ones. */
static kiln_status_t too_old(const kiln_device_t *device, const kiln_kernel_artifact_t *artifact) {
  int driver = 0;
  device->cuda.cuDriverGetVersion(&driver);
  const char *version = strstr(artifact->ptx, ".version ");
  version = version ? version + strlen(".version ") : "?";
  return kiln_error(
      KILN_UNAVAILABLE,
      "the driver '%s' is for CUDA %d.%d, too old for PTX %.*s: update the driver, or set KILN_NVRTC to "
      "the libnvrtc.so of an older toolkit",
      device->cuda.library.path, driver / 1000, driver % 1000 / 10, (int)strcspn(version, "\n "), version);
}

static CUresult load_image(const kiln_device_t *device, const void *image, char *log, size_t log_bytes,
                           CUmodule *out) {
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {log, (void *)(uintptr_t)log_bytes};
  CUresult result = device->cuda.cuModuleLoadDataEx(out, image, 2, options, values);
  log[log_bytes - 1] = 0;
  return result;
}

/* A driver that takes cubins, but not of this architecture, compiles the PTX that lies beside them. */
static kiln_status_t load(kiln_device_t *device, const kiln_kernel_artifact_t *artifact, CUmodule *out) {
  char log[4096] = "";
  if (artifact->kind != device->info.image_kind) return image_error("", CUDA_ERROR_NO_BINARY_FOR_GPU, device);
  CUresult result = load_image(device, artifact->image, log, sizeof log, out);
  if (result == CUDA_ERROR_NO_BINARY_FOR_GPU && artifact->kind == KILN_IMAGE_CUBIN)
    result = load_image(device, artifact->ptx, log, sizeof log, out);
  switch (result) {
  case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    return too_old(device, artifact);
  case CUDA_ERROR_INVALID_PTX:
  case CUDA_ERROR_INVALID_IMAGE:
  case CUDA_ERROR_INVALID_SOURCE:
  case CUDA_ERROR_NO_BINARY_FOR_GPU:
    return image_error(log, result, device);
  default:
    return kiln_cuda_status(&device->cuda, result, "cuModuleLoadDataEx");
  }
}

static kiln_status_t out_of_memory(void) {
  return kiln_error_detail(kiln_error(KILN_OUT_OF_MEMORY, "out of memory while loading a kernel"), "where",
                           "host");
}

/* A new module that is used once. */
static kiln_status_t add(kiln_device_t *device, const kiln_digest_t *key,
                         const kiln_kernel_artifact_t *artifact, kiln_module_t **out_module) {
  kiln_module_t *module = calloc(1, sizeof *module);
  if (!module) return out_of_memory();
  *module = (kiln_module_t){.key = *key, .image_bytes = artifact->image_bytes, .users = 1};
  kiln_status_t status = load(device, artifact, &module->handle);
  if (status) {
    free(module);
    return status;
  }
  uint64_t *place = kiln_map_put(device->modules.by_key, key, sizeof *key, NULL);
  if (!place) {
    device->cuda.cuModuleUnload(module->handle);
    free(module);
    return out_of_memory();
  }
  *place = (uintptr_t)module;
  *out_module = module;
  return NULL;
}

kiln_status_t kiln_module_acquire(kiln_device_t *device, const kiln_digest_t *key,
                                  const kiln_kernel_artifact_t *artifact, kiln_module_t **out_module) {
  const uint64_t *place = kiln_map_find(device->modules.by_key, key, sizeof *key);
  if (!place) return add(device, key, artifact, out_module);
  kiln_module_t *module = (kiln_module_t *)(uintptr_t)*place;
  if (!module->users++) {
    module->newer->older = module->older;
    module->older->newer = module->newer;
    device->modules.idle_bytes -= module->image_bytes;
  }
  *out_module = module;
  return NULL;
}

void kiln_module_release(kiln_device_t *device, kiln_module_t *module) {
  if (!module || --module->users) return;
  kiln_module_t *ends = &device->modules.idle;
  module->newer = ends;
  module->older = ends->older;
  module->older->newer = module;
  ends->older = module;
  device->modules.idle_bytes += module->image_bytes;
  while (device->modules.idle_bytes > max_idle_bytes) unload(device, ends->newer);
}
