/* runtime/device.c: opening a device, and what it says of itself; see device.h.
 *
 * The device process opens its device here once, before its first command, and ends when the device is lost.
 * Which library is the driver is decided here alone: everything behind kiln_cuda_t is the same for a GPU and
 * for the emulated device.
 */
#include "base/emu_checks.h"
#include "runtime/device_state.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- which device ------------------------------------------------------------------------------ */

static bool parse_ordinal(const char *text, uint32_t *out) {
  size_t digits = strspn(text, "0123456789");
  if (!digits || digits > 3 || text[digits]) return false;
  *out = (uint32_t)atoi(text);
  return true;
}

static bool parse_model(const char *text, kiln_device_spec_t *out) {
  size_t length = strlen(text);
  if (!length || length >= sizeof out->model) return false;
  memcpy(out->model, text, length + 1);
  return true;
}

kiln_status_t kiln_device_spec_parse(const char *text, kiln_device_spec_t *out) {
  kiln_device_spec_t spec = {.kind = KILN_DEVICE_AUTO};
  bool ok = true;
  if (!strcmp(text, "cuda") || !strncmp(text, "cuda:", 5)) {
    spec.kind = KILN_DEVICE_CUDA;
    if (text[4]) ok = parse_ordinal(text + 5, &spec.ordinal);
  } else if (!strcmp(text, "emulated") || !strncmp(text, "emulated:", 9)) {
    spec.kind = KILN_DEVICE_EMULATED;
    if (text[8]) ok = parse_model(text + 9, &spec);
  } else {
    ok = !strcmp(text, "auto");
  }
  if (!ok) {
    kiln_status_t status =
        kiln_error(KILN_INVALID_ARGUMENT, "no device '%s': use auto, cuda[:N] or emulated[:MODEL]", text);
    return kiln_error_detail(status, "field", "device");
  }
  *out = spec;
  return NULL;
}

/* --- opening ----------------------------------------------------------------------------------- */

/* Where libkiln-emu is: see kiln_device_create. */
static void emulator_library(char *out, size_t out_bytes) {
  const char *named = getenv("KILN_EMU_LIBRARY");
  char executable[PATH_MAX];
  ssize_t length = readlink("/proc/self/exe", executable, sizeof executable - 1);
  executable[length < 0 ? 0 : length] = 0;
  char *slash = strrchr(executable, '/');
  if (slash) *slash = 0;
  int needed = named && named[0] ? snprintf(out, out_bytes, "%s", named)
                                 : snprintf(out, out_bytes, "%s/../lib/libkiln-emu.so", executable);
  bool found = needed > 0 && (size_t)needed < out_bytes && !access(out, R_OK);
  if (!found && !(named && named[0])) snprintf(out, out_bytes, "libkiln-emu.so");
}

static kiln_status_t open_cuda(kiln_device_t *device, uint32_t ordinal) {
  KILN_TRY(kiln_cuda_open("libcuda.so.1", &device->cuda));
  const kiln_cuda_t *cuda = &device->cuda;
  int count = 0;
  KILN_CUDA_TRY(cuda, cuInit, 0);
  KILN_CUDA_TRY(cuda, cuDeviceGetCount, &count);
  if (ordinal >= (uint32_t)count) {
    return kiln_error(KILN_UNAVAILABLE, "'%s' finds %d devices, so there is no cuda:%u", cuda->library.path,
                      count, ordinal);
  }
  device->info.image_kind = KILN_IMAGE_CUBIN;
  KILN_CUDA_TRY(cuda, cuDeviceGet, &device->handle, (int)ordinal);
  return NULL;
}

static kiln_status_t open_emulated(kiln_device_t *device, const char *model) {
  char library[PATH_MAX + 32];
  emulator_library(library, sizeof library);
  KILN_TRY(kiln_cuda_open(library, &device->cuda));
  const kiln_cuda_t *cuda = &device->cuda;
  if (!cuda->kilnEmuSetModel || !cuda->kilnEmuSetChecks || !cuda->kilnEmuSetCounting ||
      !cuda->kilnEmuGetReport || !cuda->kilnEmuGetLaunchesJson || !cuda->kilnEmuResetLaunches) {
    return kiln_error(KILN_UNAVAILABLE, "'%s' is no emulated device", cuda->library.path);
  }
  KILN_CUDA_TRY(cuda, cuInit, 0);
  if (model[0] && cuda->kilnEmuSetModel(model) != CUDA_SUCCESS) {
    return kiln_error(KILN_UNAVAILABLE, "'%s' has no model '%s', or another device is in use",
                      cuda->library.path, model);
  }
  device->info.emulated = true;
  device->info.image_kind = KILN_IMAGE_PTX;
  KILN_CUDA_TRY(cuda, cuDeviceGet, &device->handle, 0);
  return NULL;
}

static kiln_status_t open_driver(kiln_device_t *device, const kiln_device_spec_t *spec) {
  if (spec->kind == KILN_DEVICE_EMULATED) return open_emulated(device, spec->model);
  kiln_status_t status = open_cuda(device, spec->ordinal);
  if (!status || spec->kind == KILN_DEVICE_CUDA) return status;
  kiln_status_free(status); /* AUTO: no GPU here */
  kiln_cuda_close(&device->cuda);
  return open_emulated(device, "");
}

/* --- what it is -------------------------------------------------------------------------------- */

/* An attribute, 0 when the driver does not know it. */
static uint32_t attribute(const kiln_device_t *device, CUdevice_attribute which) {
  int value = 0;
  CUresult result = device->cuda.cuDeviceGetAttribute(&value, which, device->handle);
  return result == CUDA_SUCCESS && value > 0 ? (uint32_t)value : 0;
}

/* Peak memory bandwidth: two transfers per clock. Newer drivers do not tell the clock; then the table's row
 * counts. */
static uint32_t bandwidth_gb_per_s(const kiln_device_t *device, const kiln_target_t *row) {
  uint64_t clock_khz = attribute(device, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
  uint64_t bus_bits = attribute(device, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
  uint64_t reported = clock_khz * 2 * bus_bits / 8 / 1000000;
  return row->memory_gb_per_s ? row->memory_gb_per_s : (uint32_t)reported;
}

static void fill_target(const kiln_device_t *device, kiln_target_t *target) {
  kiln_target_t row = {0};
  target->major = attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  target->minor = attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  snprintf(target->arch, sizeof target->arch, "sm_%u%u", target->major, target->minor);
  kiln_status_free(kiln_target_parse(target->arch, &row));
  target->sm_count = attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  target->shared_bytes_per_block = attribute(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  target->shared_bytes_per_sm = attribute(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  target->registers_per_sm = attribute(device, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
  target->threads_per_sm = attribute(device, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  target->l2_bytes = attribute(device, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  /* Whole GiB: the target is part of every key, and drivers differ in how much they keep for themselves. */
  target->memory_bytes = device->info.memory_bytes >> 30 << 30;
  target->memory_gb_per_s = bandwidth_gb_per_s(device, &row);
}

static void print_uuid(char *out, size_t out_bytes, const CUuuid *uuid) {
  static const uint8_t dash_before[16] = {[0] = 1, [4] = 1, [6] = 1, [8] = 1, [10] = 1};
  size_t used = (size_t)snprintf(out, out_bytes, "GPU");
  for (int i = 0; i < 16; i++) {
    used += (size_t)snprintf(out + used, out_bytes - used, "%s%02x", dash_before[i] ? "-" : "",
                             (unsigned char)uuid->bytes[i]);
  }
}

static kiln_status_t describe(kiln_device_t *device) {
  const kiln_cuda_t *cuda = &device->cuda;
  CUuuid uuid;
  size_t memory_bytes;
  KILN_CUDA_TRY(cuda, cuDeviceGetName, device->info.name, sizeof device->info.name, device->handle);
  KILN_CUDA_TRY(cuda, cuDeviceGetUuid_v2, &uuid, device->handle);
  KILN_CUDA_TRY(cuda, cuDeviceTotalMem_v2, &memory_bytes, device->handle);
  print_uuid(device->info.uuid, sizeof device->info.uuid, &uuid);
  device->info.memory_bytes = memory_bytes;
  device->info.clock_khz = attribute(device, CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  fill_target(device, &device->info.target);
  for (int axis = 0; axis < 3; axis++) {
    device->max_grid[axis] = attribute(device, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + axis);
    device->max_block[axis] = attribute(device, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + axis);
  }
  device->max_threads = attribute(device, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  return NULL;
}

static kiln_status_t begin_emulated(kiln_device_t *device) {
  const char *checkers = getenv("KILN_EMU_CHECKS");
  KILN_TRY(kiln_device_count(device, false));
  return kiln_device_check(device, checkers && checkers[0] ? checkers : "none");
}

static kiln_status_t begin(kiln_device_t *device, const kiln_device_spec_t *spec) {
  const kiln_cuda_t *cuda = &device->cuda;
  KILN_TRY(open_driver(device, spec));
  KILN_TRY(describe(device));
  CUcontext context;
  KILN_CUDA_TRY(cuda, cuDevicePrimaryCtxRetain, &context, device->handle);
  device->context = context;
  KILN_CUDA_TRY(cuda, cuCtxSetCurrent, context);
  KILN_CUDA_TRY(cuda, cuStreamCreate, &device->stream, CU_STREAM_NON_BLOCKING);
  return device->info.emulated ? begin_emulated(device) : NULL;
}

/* No device is the device's own trouble, not that of a caller or of kiln. */
static kiln_status_t unavailable(kiln_status_t status) {
  kiln_status_t outer =
      kiln_error(KILN_UNAVAILABLE, "%s; while opening the device", kiln_status_message(status));
  kiln_status_free(status);
  return outer;
}

kiln_status_t kiln_device_create(const kiln_device_spec_t *spec, kiln_device_t **out_device) {
  kiln_device_t *device = calloc(1, sizeof *device);
  if (!device || !kiln_modules_init(&device->modules)) {
    free(device);
    return kiln_error(KILN_OUT_OF_MEMORY, "out of memory while opening the device");
  }
  kiln_status_t status = begin(device, spec);
  if (status) {
    kiln_device_destroy(device);
    return unavailable(status);
  }
  *out_device = device;
  return NULL;
}

void kiln_device_destroy(kiln_device_t *device) {
  if (!device) return;
  const kiln_cuda_t *cuda = &device->cuda;
  if (device->context) cuda->cuCtxSetCurrent(device->context);
  kiln_modules_deinit(device);
  kiln_pool_free(device);
  if (device->stream) cuda->cuStreamDestroy_v2(device->stream);
  if (device->context) {
    cuda->cuCtxSetCurrent(NULL);
    cuda->cuDevicePrimaryCtxRelease_v2(device->handle);
  }
  kiln_cuda_close(&device->cuda);
  free(device);
}

const kiln_device_info_t *kiln_device_info(const kiln_device_t *device) { return &device->info; }

/* --- in and out of every command --------------------------------------------------------------- */

kiln_status_t kiln_device_enter(kiln_device_t *device) {
  if (device->lost) return kiln_error(KILN_DEVICE_LOST, "the device was lost by an earlier fault");
  KILN_CUDA_TRY(&device->cuda, cuCtxSetCurrent, device->context);
  return NULL;
}

kiln_status_t kiln_device_settle(kiln_device_t *device, kiln_status_t status) {
  if (kiln_status_code(status) != KILN_DEVICE_LOST || device->lost) return status;
  device->lost = true;
  char report[4096] = "";
  size_t needed;
  bool reported = device->info.emulated && !device->cuda.kilnEmuGetReport(report, sizeof report, &needed);
  return reported && report[0] ? kiln_error_detail(status, "report", "%s", report) : status;
}

/* --- counters and checkers --------------------------------------------------------------------- */

static kiln_status_t need_emulated(const kiln_device_t *device, const char *what) {
  if (device->info.emulated) return NULL;
  return kiln_error(KILN_UNSUPPORTED, "only the emulated device has %s", what);
}

kiln_status_t kiln_device_count(kiln_device_t *device, bool enable) {
  KILN_TRY(need_emulated(device, "counters"));
  KILN_TRY(kiln_device_enter(device));
  KILN_CUDA_TRY(&device->cuda, kilnEmuSetCounting, enable);
  KILN_CUDA_TRY(&device->cuda, kilnEmuResetLaunches);
  device->counting = enable;
  return NULL;
}

kiln_status_t kiln_device_counters(kiln_device_t *device, kiln_buffer_t *out_json) {
  const kiln_cuda_t *cuda = &device->cuda;
  KILN_TRY(need_emulated(device, "counters"));
  KILN_TRY(kiln_device_enter(device));
  if (!device->counting) return kiln_error(KILN_INVALID_ARGUMENT, "counting is not switched on");
  char none[1];
  size_t needed = 0;
  KILN_CUDA_TRY(cuda, kilnEmuGetLaunchesJson, none, sizeof none, &needed);
  kiln_buffer_puts(out_json, "{\"launches\": ");
  if (!kiln_buffer_reserve(out_json, needed + 1)) {
    return kiln_error(KILN_OUT_OF_MEMORY, "out of memory while reading counters");
  }
  KILN_CUDA_TRY(cuda, kilnEmuGetLaunchesJson, out_json->data + out_json->size, needed, &needed);
  out_json->size += strlen(out_json->data + out_json->size);
  kiln_buffer_puts(out_json, "}");
  KILN_CUDA_TRY(cuda, kilnEmuResetLaunches);
  return NULL;
}

kiln_status_t kiln_device_check(kiln_device_t *device, const char *checkers) {
  unsigned mask;
  KILN_TRY(need_emulated(device, "checkers"));
  KILN_TRY(kiln_device_enter(device));
  if (!kiln_emu_checks_parse(checkers, &mask))
    return kiln_error(KILN_INVALID_ARGUMENT, "no checkers '%s': " KILN_EMU_CHECKS_USAGE, checkers);
  KILN_CUDA_TRY(&device->cuda, kilnEmuSetChecks, mask);
  device->apart = mask != 0;
  return NULL;
}

void kiln_device_misalign(kiln_device_t *device, bool enable) { device->misaligned = enable; }
