/* emulator/driver_device.c: the modelled devices, initialization, error texts, and what a device says of
 * itself. See driver.h. */
#include "base/emu_checks.h"
#include "emulator/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Sources: NVIDIA's data sheets of H200 SXM, H100 SXM and A100 SXM 80 GB; CUDA C++ Programming Guide, table
 * of compute capabilities. */
static const emu_model_t models[] = {
    {"h200", "kiln emulated H200", 9, 0, 132, 141ull << 30, 233472, 232448, 2048, 32, 1980000, 3201000, 6144,
     62914560},
    {"h100", "kiln emulated H100", 9, 0, 132, 80ull << 30, 233472, 232448, 2048, 32, 1980000, 2619000, 5120,
     52428800},
    {"a100", "kiln emulated A100", 8, 0, 108, 80ull << 30, 167936, 166912, 2048, 32, 1410000, 1593000, 5120,
     41943040},
};

emu_driver_t *emu_driver(void) {
  static emu_driver_t driver = {
      .lock = PTHREAD_MUTEX_INITIALIZER, .model = &models[0], .counting = true, .instruction_limit = 0};
  return &driver;
}

const emu_model_t *emu_model(void) { return emu_driver()->model; }

static const emu_model_t *find_model(const char *name) {
  for (size_t n = 0; n < sizeof models / sizeof models[0]; n++)
    if (strcmp(models[n].name, name) == 0) return &models[n];
  return NULL;
}

static bool is_on(const char *variable) {
  const char *value = getenv(variable);
  return value && *value && strcmp(value, "0") != 0;
}

/* For programs that do not know that they run on an emulated device: KILN_EMU_DEVICE names the model,
 * KILN_EMU_THREADS limits the CPU threads, KILN_EMU_LIMIT the instructions of a launch, KILN_EMU_CHECKS names
 * the checkers, KILN_EMU_DETERMINISTIC=1 fixes the order of blocks, KILN_EMU_REPORT=1 prints findings and
 * faults on standard error, as they come. */
static CUresult read_environment(emu_driver_t *driver) {
  const char *name = getenv("KILN_EMU_DEVICE"), *threads = getenv("KILN_EMU_THREADS"),
             *limit = getenv("KILN_EMU_LIMIT"), *checks = getenv("KILN_EMU_CHECKS");
  if (name && *name && !(driver->model = find_model(name))) {
    driver->model = &models[0];
    return CUDA_ERROR_NO_DEVICE;
  }
  if (checks && *checks && !kiln_emu_checks_parse(checks, &driver->checks)) {
    fprintf(stderr, "libkiln-emu: KILN_EMU_CHECKS=%s: " KILN_EMU_CHECKS_USAGE "\n", checks);
    return CUDA_ERROR_INVALID_VALUE;
  }
  long online = sysconf(_SC_NPROCESSORS_ONLN), wanted = threads ? strtol(threads, NULL, 10) : online;
  emu_pool_init(&driver->pool, wanted > 1 ? (unsigned)(wanted - 1) : 0);
  if (limit) driver->instruction_limit = strtoull(limit, NULL, 10);
  if (is_on("KILN_EMU_DETERMINISTIC")) driver->deterministic = true;
  driver->reporting = is_on("KILN_EMU_REPORT");
  return CUDA_SUCCESS;
}

CUresult cuInit(unsigned int flags) {
  if (flags) return CUDA_ERROR_INVALID_VALUE;
  emu_driver_t *driver = emu_driver();
  CUresult result = CUDA_SUCCESS;
  pthread_mutex_lock(&driver->lock);
  if (!driver->initialized) {
    result = read_environment(driver);
    driver->initialized = result == CUDA_SUCCESS;
  }
  pthread_mutex_unlock(&driver->lock);
  return result;
}

CUresult kilnEmuSetModel(const char *name) {
  emu_driver_t *driver = emu_driver();
  const emu_model_t *model = name ? find_model(name) : NULL;
  if (!model) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&driver->lock);
  bool free_to_change = !driver->contexts;
  if (free_to_change) driver->model = model;
  pthread_mutex_unlock(&driver->lock);
  return free_to_change ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDriverGetVersion(int *version) {
  if (!version) return CUDA_ERROR_INVALID_VALUE;
  *version = 13000;
  return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char **name) {
  if (!name) return CUDA_ERROR_INVALID_VALUE;
  *name = NULL;
  switch (error) {
#define EMU_NAME(id, value, text)                                                                            \
  case id:                                                                                                   \
    *name = #id;                                                                                             \
    break;
    KILN_CUDA_RESULTS(EMU_NAME)
#undef EMU_NAME
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char **text) {
  if (!text) return CUDA_ERROR_INVALID_VALUE;
  *text = NULL;
  switch (error) {
#define EMU_TEXT(id, value, string)                                                                          \
  case id:                                                                                                   \
    *text = string;                                                                                          \
    break;
    KILN_CUDA_RESULTS(EMU_TEXT)
#undef EMU_TEXT
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

/* Names without a version suffix find the version that is exported, as the real function does. */
CUresult cuGetProcAddress_v2(const char *symbol, void **function, int cuda_version, uint64_t flags,
                             CUdriverProcAddressQueryResult *status) {
  static const struct {
    const char *name;
    void (*function)(void);
  } exports[] = {
#define KILN_CUDA(need, name, params) {#name, (void (*)(void))name},
#include "base/cuda.def"
#undef KILN_CUDA
  };
  (void)cuda_version, (void)flags;
  if (!symbol || !function) return CUDA_ERROR_INVALID_VALUE;
  *function = NULL;
  size_t length = strlen(symbol);
  for (size_t n = 0; n < sizeof exports / sizeof exports[0]; n++) {
    const char *name = exports[n].name;
    bool versioned = strncmp(name, symbol, length) == 0 && name[length] == '_' && name[length + 1] == 'v';
    if (strcmp(name, symbol) == 0 || versioned) memcpy(function, &exports[n].function, sizeof *function);
  }
  if (status) *status = *function ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

/* --- the device --- */

static CUresult check_device(CUdevice device) {
  if (!emu_driver()->initialized) return CUDA_ERROR_NOT_INITIALIZED;
  return device == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetCount(int *count) {
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  *count = 1;
  return emu_driver()->initialized ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  if (!device) return CUDA_ERROR_INVALID_VALUE;
  *device = 0;
  return check_device(ordinal);
}

CUresult cuDeviceGetName(char *name, int capacity, CUdevice device) {
  if (!name || capacity <= 0) return CUDA_ERROR_INVALID_VALUE;
  snprintf(name, (size_t)capacity, "%s", emu_model()->full_name);
  return check_device(device);
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) {
  if (!uuid) return CUDA_ERROR_INVALID_VALUE;
  memset(uuid, 0, sizeof *uuid);
  snprintf(uuid->bytes, sizeof uuid->bytes, "kiln-emu-%s", emu_model()->name);
  return check_device(device);
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
  if (!bytes) return CUDA_ERROR_INVALID_VALUE;
  *bytes = emu_model()->memory_bytes;
  return check_device(device);
}

static bool find_attribute(const emu_model_t *m, CUdevice_attribute attribute, int *out_value) {
  const struct {
    CUdevice_attribute attribute;
    int value;
  } values[] = {
      {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, INT32_MAX},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152},
      {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536},
      {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
      {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
      {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, m->clock_khz},
      {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, m->sms},
      {CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT, 0},
      {CU_DEVICE_ATTRIBUTE_INTEGRATED, 0},
      {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, 0},
      {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
      {CU_DEVICE_ATTRIBUTE_ECC_ENABLED, 1},
      {CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 0},
      {CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, 0},
      {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, m->memory_clock_khz},
      {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, m->bus_bits},
      {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, m->l2_bytes},
      {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, m->threads_per_sm},
      {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3},
      {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
      {CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, 0},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, m->major},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, m->minor},
      {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 0},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, m->shared_per_sm},
      {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
      {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 0},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED, 1},
      {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, m->shared_per_block},
      {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, m->blocks_per_sm},
      {CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, 1024},
      {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 0},
      {CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 0},
      {CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED, 0},
  };
  for (size_t n = 0; n < sizeof values / sizeof values[0]; n++) {
    if (values[n].attribute != attribute) continue;
    *out_value = values[n].value;
    return true;
  }
  return false;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
  CUresult result = check_device(device);
  if (result) return result;
  return value && find_attribute(emu_model(), attribute, value) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
