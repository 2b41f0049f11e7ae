/* emulator/driver_context.c: contexts, modules and functions. See driver.h. */
#include "emulator/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local CUcontext current_context;

static bool is_alive(CUcontext context) {
  emu_driver_t *driver = emu_driver();
  pthread_mutex_lock(&driver->lock);
  CUcontext c = driver->contexts;
  while (c && c != context) c = c->next;
  pthread_mutex_unlock(&driver->lock);
  return c != NULL;
}

CUresult emu_current(CUcontext *out_context) {
  if (!emu_driver()->initialized) return CUDA_ERROR_NOT_INITIALIZED;
  *out_context = current_context;
  if (!current_context) return CUDA_ERROR_INVALID_CONTEXT;
  if (!is_alive(current_context)) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return __atomic_load_n(&current_context->sticky, __ATOMIC_ACQUIRE);
}

/* --- contexts --- */

/* What a driver begins with: a thread's stack, the buffer of printf, the heap of malloc. */
static const size_t default_limits[] = {1024, 1u << 20, 8u << 20};

static CUresult create_context(CUcontext *out_context) {
  emu_driver_t *driver = emu_driver();
  CUcontext context = calloc(1, sizeof *context);
  kiln_emu_launch_t *launches = calloc(EMU_LAUNCHES_KEPT, sizeof *launches);
  if (!context || !launches) {
    free(context);
    free(launches);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  context->launches = launches;
  memcpy(context->limits, default_limits, sizeof default_limits);
  kiln_buffer_init(&context->report);
  emu_memory_init(&context->memory, driver->model->memory_bytes);
  emu_queue_init(context);
  pthread_mutex_lock(&driver->lock);
  context->checks = context->memory.checks = driver->checks;
  context->counting = driver->counting;
  context->deterministic = driver->deterministic;
  context->instruction_limit = driver->instruction_limit;
  context->next = driver->contexts;
  driver->contexts = context;
  pthread_mutex_unlock(&driver->lock);
  *out_context = context;
  return CUDA_SUCCESS;
}

static void free_module(CUmodule module) {
  for (CUfunction f = module->functions, next; f; f = next) {
    next = f->next;
    free(f);
  }
  emu_module_destroy(module->module);
  free(module);
}

static void report_leaks(CUcontext context) {
  uint64_t bytes;
  size_t live = emu_memory_live(&context->memory, &bytes);
  if (live && context->checks & KILN_EMU_CHECK_LEAK)
    fprintf(stderr, "libkiln-emu: %zu allocations of %llu bytes were never freed\n", live,
            (unsigned long long)bytes);
}

static void destroy_context(CUcontext context) {
  emu_queue_deinit(context);
  for (CUmodule m = context->modules, next; m; m = next) {
    next = m->next;
    free_module(m);
  }
  report_leaks(context);
  emu_memory_deinit(&context->memory);
  kiln_buffer_deinit(&context->report);
  free(context->launches);
  free(context);
}

/* Takes the context out of the list of living ones; false when it is none. */
static bool unlist_context(CUcontext context) {
  emu_driver_t *driver = emu_driver();
  pthread_mutex_lock(&driver->lock);
  CUcontext *at = &driver->contexts;
  while (*at && *at != context) at = &(*at)->next;
  bool found = *at != NULL;
  if (found) *at = context->next;
  pthread_mutex_unlock(&driver->lock);
  return found;
}

CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device) {
  (void)flags;
  if (!emu_driver()->initialized) return CUDA_ERROR_NOT_INITIALIZED;
  if (!context) return CUDA_ERROR_INVALID_VALUE;
  if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
  CUresult result = create_context(context);
  if (result == CUDA_SUCCESS) current_context = *context;
  return result;
}

CUresult cuCtxCreate_v4(CUcontext *context, CUctxCreateParams *params, unsigned int flags, CUdevice device) {
  return params ? CUDA_ERROR_NOT_SUPPORTED : cuCtxCreate_v2(context, flags, device);
}

CUresult cuCtxDestroy_v2(CUcontext context) {
  if (!context || context == emu_driver()->primary || !unlist_context(context))
    return CUDA_ERROR_INVALID_CONTEXT;
  if (current_context == context) current_context = NULL;
  destroy_context(context);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  emu_driver_t *driver = emu_driver();
  if (!driver->initialized) return CUDA_ERROR_NOT_INITIALIZED;
  if (!context) return CUDA_ERROR_INVALID_VALUE;
  if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
  pthread_mutex_lock(&driver->lock);
  bool exists = driver->primary != NULL;
  if (exists) driver->primary_uses++;
  pthread_mutex_unlock(&driver->lock);
  if (!exists) {
    CUcontext made;
    CUresult result = create_context(&made);
    if (result) return result;
    pthread_mutex_lock(&driver->lock);
    driver->primary = made;
    driver->primary_uses = 1;
    pthread_mutex_unlock(&driver->lock);
  }
  *context = driver->primary;
  return CUDA_SUCCESS;
}

static CUresult end_primary(bool whatever_uses) {
  emu_driver_t *driver = emu_driver();
  CUcontext ended = NULL;
  pthread_mutex_lock(&driver->lock);
  CUresult result = driver->primary ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
  if (driver->primary && (whatever_uses || --driver->primary_uses == 0)) {
    ended = driver->primary;
    driver->primary = NULL;
    driver->primary_uses = 0;
  }
  pthread_mutex_unlock(&driver->lock);
  if (ended && unlist_context(ended)) {
    if (current_context == ended) current_context = NULL;
    destroy_context(ended);
  }
  return result;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  return device == 0 ? end_primary(false) : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
  end_primary(true);
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
  if (!emu_driver()->initialized) return CUDA_ERROR_NOT_INITIALIZED;
  if (context && !is_alive(context)) return CUDA_ERROR_INVALID_CONTEXT;
  current_context = context;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *context) {
  if (!emu_driver()->initialized) return CUDA_ERROR_NOT_INITIALIZED;
  if (!context) return CUDA_ERROR_INVALID_VALUE;
  *context = current_context;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device) {
  if (!device) return CUDA_ERROR_INVALID_VALUE;
  *device = 0;
  return current_context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuCtxSynchronize(void) {
  CUcontext context;
  CUresult result = emu_current(&context);
  if (!result) result = emu_capture_check_all(context);
  return result ? result : emu_drain(context, NULL);
}

static CUresult find_limit(CUlimit limit, CUcontext *out_context) {
  CUresult result = emu_current(out_context);
  if (result) return result;
  return (unsigned)limit <= CU_LIMIT_MALLOC_HEAP_SIZE ? CUDA_SUCCESS : CUDA_ERROR_UNSUPPORTED_LIMIT;
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
  CUcontext context;
  CUresult result = find_limit(limit, &context);
  if (result) return result;
  /* 512 KiB are what a thread's local memory may be, CUDA C++ Programming Guide. */
  if (limit == CU_LIMIT_STACK_SIZE && value > 512u << 10) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&context->lock);
  context->limits[limit] = value;
  pthread_mutex_unlock(&context->lock);
  return CUDA_SUCCESS;
}

CUresult cuCtxGetLimit(size_t *value, CUlimit limit) {
  CUcontext context;
  CUresult result = find_limit(limit, &context);
  if (result) return result;
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&context->lock);
  *value = context->limits[limit];
  pthread_mutex_unlock(&context->lock);
  return CUDA_SUCCESS;
}

/* --- modules --- */

/* Copies a message to the buffer that the caller passed for it, if any, and sets its size to what was
 * written. */
static void put_log(const char *text, unsigned int count, const CUjit_option *options, void **values) {
  char *buffer = NULL;
  size_t capacity = 0;
  for (unsigned int n = 0; n < count; n++) {
    if (options[n] == CU_JIT_ERROR_LOG_BUFFER) buffer = values[n];
    if (options[n] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) capacity = (size_t)(uintptr_t)values[n];
  }
  size_t length = text ? strlen(text) : 0;
  if (buffer && capacity) {
    length = length < capacity ? length : capacity - 1;
    if (length) memcpy(buffer, text, length);
    buffer[length] = 0;
  }
  for (unsigned int n = 0; n < count; n++)
    if (options[n] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) values[n] = (void *)(uintptr_t)length;
}

/* A cubin is an ELF file, a fat binary has its own magic number. */
static bool is_binary(const void *image) {
  static const unsigned char elf[4] = {0x7f, 'E', 'L', 'F'}, fat[4] = {0x50, 0xed, 0x55, 0xba};
  return memcmp(image, elf, 1) == 0 ? memcmp(image, elf, 4) == 0
                                    : memcmp(image, fat, 1) == 0 && memcmp(image, fat, 4) == 0;
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int option_count,
                            CUjit_option *options, void **option_values) {
  CUcontext context;
  CUresult result = emu_current(&context);
  if (result) return result;
  if (!module || !image || (option_count && (!options || !option_values))) return CUDA_ERROR_INVALID_VALUE;
  if ((result = emu_capture_check_unsafe(context))) return result;
  if (is_binary(image)) return CUDA_ERROR_NO_BINARY_FOR_GPU;
  CUmodule made = calloc(1, sizeof *made);
  if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
  char *log = NULL;
  const emu_model_t *model = emu_model();
  result = emu_module_load(&context->memory, image, (uint32_t)(10 * model->major + model->minor),
                           &made->module, &log);
  put_log(log, option_count, options, option_values);
  pthread_mutex_lock(&context->lock);
  if (log) {
    kiln_buffer_clear(&context->report);
    kiln_buffer_puts(&context->report, log);
  }
  if (result == CUDA_SUCCESS) {
    made->context = context;
    made->serial = ++context->module_serial;
    made->next = context->modules;
    context->modules = made;
  }
  pthread_mutex_unlock(&context->lock);
  free(log);
  if (result)
    free(made);
  else
    *module = made;
  return result;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  return cuModuleLoadDataEx(module, image, 0, NULL, NULL);
}

/* Whether `module` is one of the context's; a handle that is not is refused, never followed. */
static CUmodule *find_module(CUcontext context, CUmodule module) {
  CUmodule *at = &context->modules;
  while (*at && *at != module) at = &(*at)->next;
  return *at ? at : NULL;
}

CUresult cuModuleUnload(CUmodule module) {
  CUcontext context;
  CUresult result = emu_current(&context);
  if (!result) result = emu_capture_check_unsafe(context);
  if (result) return result;
  emu_drain(context, NULL);
  pthread_mutex_lock(&context->lock);
  CUmodule *at = find_module(context, module);
  if (at) *at = module->next;
  pthread_mutex_unlock(&context->lock);
  if (!at) return CUDA_ERROR_INVALID_HANDLE;
  free_module(module);
  return CUDA_SUCCESS;
}

static CUresult make_function(CUmodule module, const emu_kernel_t *kernel, CUfunction *out_function) {
  for (CUfunction f = module->functions; f; f = f->next) {
    if (f->kernel != kernel) continue;
    *out_function = f;
    return CUDA_SUCCESS;
  }
  CUfunction f = calloc(1, sizeof *f);
  if (!f) return CUDA_ERROR_OUT_OF_MEMORY;
  f->module = module;
  f->kernel = kernel;
  f->dynamic_shared_limit = 49152 - (int)(kernel->shared_bytes < 49152 ? kernel->shared_bytes : 49152);
  f->next = module->functions;
  module->functions = f;
  *out_function = f;
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  CUcontext context;
  CUresult result = emu_current(&context);
  if (result) return result;
  if (!function || !name) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&context->lock);
  const emu_kernel_t *kernel = NULL;
  if (!find_module(context, module))
    result = CUDA_ERROR_INVALID_HANDLE;
  else if (!(kernel = emu_module_kernel(module->module, name)))
    result = CUDA_ERROR_NOT_FOUND;
  else
    result = make_function(module, kernel, function);
  pthread_mutex_unlock(&context->lock);
  return result;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, CUmodule module, const char *name) {
  CUcontext context;
  CUresult result = emu_current(&context);
  if (result) return result;
  if (!name) return CUDA_ERROR_INVALID_VALUE;
  result = CUDA_ERROR_INVALID_HANDLE;
  pthread_mutex_lock(&context->lock);
  if (find_module(context, module)) {
    result = CUDA_ERROR_NOT_FOUND;
    for (size_t n = 0; n < module->module->variable_count; n++) {
      const emu_variable_t *variable = &module->module->variables[n];
      if (strcmp(variable->name, name) != 0) continue;
      if (address) *address = variable->address;
      if (bytes) *bytes = variable->bytes;
      result = CUDA_SUCCESS;
    }
  }
  pthread_mutex_unlock(&context->lock);
  return result;
}

/* --- functions --- */

bool emu_is_function(CUcontext context, CUfunction function) {
  bool found = false;
  pthread_mutex_lock(&context->lock);
  for (CUmodule m = context->modules; m && !found; m = m->next)
    for (CUfunction f = m->functions; f && !found; f = f->next) found = f == function;
  pthread_mutex_unlock(&context->lock);
  return found;
}

/* The calling thread's context, when the function is of a module that is loaded in it. */
static CUresult check_function(CUfunction function) {
  CUcontext context;
  CUresult result = emu_current(&context);
  if (result) return result;
  return emu_is_function(context, function) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function) {
  CUresult result = check_function(function);
  if (result) return result;
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  const emu_kernel_t *kernel = function->kernel;
  int target = (int)function->module->module->target;
  switch (attribute) {
  case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    *value = (int)kernel->max_threads;
    break;
  case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
    *value = (int)kernel->shared_bytes;
    break;
  case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
    *value = 0;
    break;
  case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
    *value = (int)kernel->local_bytes;
    break;
  case CU_FUNC_ATTRIBUTE_NUM_REGS:
    *value = (int)kernel->register_estimate;
    break;
  case CU_FUNC_ATTRIBUTE_PTX_VERSION:
  case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
    *value = target;
    break;
  case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
    *value = 0;
    break;
  case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
    *value = function->dynamic_shared_limit;
    break;
  case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
    *value = -1;
    break;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  CUresult result = check_function(function);
  if (result) return result;
  if (attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT)
    return value >= -1 && value <= 100 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  int most = emu_model()->shared_per_block - (int)function->kernel->shared_bytes;
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 || value > most)
    return CUDA_ERROR_INVALID_VALUE;
  function->dynamic_shared_limit = value;
  return CUDA_SUCCESS;
}

/* Blocks per SM: the least of the limits by blocks, threads, shared memory and (estimated) registers. */
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int block_size,
                                                     size_t dynamic_shared_bytes) {
  CUresult result = check_function(function);
  if (result) return result;
  if (!blocks || block_size <= 0 || block_size > 1024) return CUDA_ERROR_INVALID_VALUE;
  const emu_model_t *model = emu_model();
  int warps = (block_size + 31) / 32, by_threads = model->threads_per_sm / (32 * warps);
  size_t most = (size_t)model->shared_per_sm, shared = function->kernel->shared_bytes + 1024;
  size_t by_shared = dynamic_shared_bytes > most ? 0 : most / (shared + dynamic_shared_bytes);
  int registers = (int)((function->kernel->register_estimate * 32 + 255) / 256 * 256) * warps;
  int by_registers = registers ? 65536 / registers : model->blocks_per_sm;
  int least = model->blocks_per_sm < by_threads ? model->blocks_per_sm : by_threads;
  if ((size_t)least > by_shared) least = (int)by_shared;
  *blocks = least < by_registers ? least : by_registers;
  return CUDA_SUCCESS;
}
