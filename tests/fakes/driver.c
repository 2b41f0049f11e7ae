/* tests/fakes/driver.c: a CUDA driver that fails on demand, for tests of runtime/'s devices; with
 * driver_rest.c.
 *
 * test_runtime_device.c compiles it with cc and opens it through KILN_EMU_LIBRARY. Device memory is host
 * memory. Its one kernel is `scale`: y[i] = k * x[i] for n elements, with parameters (const float *x, float
 * *y, int n, long long k). Each call appends its name to the file FAKE_LOG; FAKE_FAIL="cuMemAlloc_v2:2:1"
 * makes calls of that name return 2 after the first 1; FAKE_MEMORY is how many bytes there are.
 */
#include "base/cuda_abi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fakes/driver.h"

static unsigned long long used_bytes;

CUresult fake_call(const char *name) {
  const char *log = getenv("FAKE_LOG"), *fail = getenv("FAKE_FAIL");
  static char armed[128];
  static int passed;
  FILE *file = log ? fopen(log, "a") : NULL;
  if (file) {
    fprintf(file, "%s\n", name);
    fclose(file);
  }
  if (strcmp(armed, fail ? fail : "")) {
    snprintf(armed, sizeof armed, "%s", fail ? fail : "");
    passed = 0;
  }
  char which[64];
  int result, skip;
  if (sscanf(armed, "%63[^:]:%d:%d", which, &result, &skip) != 3 || strcmp(which, name)) return CUDA_SUCCESS;
  return passed++ < skip ? CUDA_SUCCESS : (CUresult)result;
}

CUresult cuGetErrorName(CUresult error, const char **name) {
  *name = "CUDA_ERROR_UNKNOWN";
#define NAME(result, value, text)                                                                            \
  if (error == result) *name = #result;
  KILN_CUDA_RESULTS(NAME)
  return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char **text) {
  *text = "as the test asked";
  return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version) {
  *version = 12020;
  return fake_call("cuDriverGetVersion");
}

/* --- the device -------------------------------------------------------------------------------- */

CUresult cuDeviceGetName(char *name, int capacity, CUdevice device) {
  snprintf(name, (size_t)capacity, "fake");
  return fake_call("cuDeviceGetName");
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) {
  for (int i = 0; i < 16; i++) uuid->bytes[i] = (char)(0xf0 + i);
  return fake_call("cuDeviceGetUuid_v2");
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
  *bytes = ((size_t)3 << 30) + 12345;
  return fake_call("cuDeviceTotalMem_v2");
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
  static const int values[][2] = {{CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
                                  {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
                                  {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
                                  {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
                                  {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647},
                                  {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
                                  {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
                                  {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9},
                                  {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 7},
                                  {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 4096},
                                  {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 100000}};
  *value = 0;
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
    if (values[i][0] == (int)attribute) *value = values[i][1];
  }
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  *context = (CUcontext)&used_bytes;
  return fake_call("cuDevicePrimaryCtxRetain");
}

CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
  *stream = (CUstream)&used_bytes;
  return fake_call("cuStreamCreate");
}

/* --- memory ------------------------------------------------------------------------------------ */

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes) {
  CUresult result = fake_call("cuMemAlloc_v2");
  const char *limit = getenv("FAKE_MEMORY");
  if (result) return result;
  if (limit && used_bytes + bytes > strtoull(limit, NULL, 10)) return CUDA_ERROR_OUT_OF_MEMORY;
  size_t *block = aligned_alloc(256, (bytes + 511) / 256 * 256);
  memset(block, 0x5a, bytes + 256); /* what an earlier owner left */
  *block = bytes;
  used_bytes += bytes;
  *address = (CUdeviceptr)block + 256;
  return CUDA_SUCCESS;
}

CUresult cuMemFree_v2(CUdeviceptr address) {
  size_t *block = (size_t *)(address - 256);
  used_bytes -= *block;
  free(block);
  return fake_call("cuMemFree_v2");
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
  memcpy((void *)to, from, bytes);
  return fake_call("cuMemcpyHtoD_v2");
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
  memcpy((void *)to, from, bytes);
  return fake_call("cuMemcpyHtoDAsync_v2");
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
  memcpy(to, (void *)from, bytes);
  return fake_call("cuMemcpyDtoHAsync_v2");
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream) {
  memset((void *)to, value, bytes);
  return fake_call("cuMemsetD8Async");
}

/* --- kernels ----------------------------------------------------------------------------------- */

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count, CUjit_option *options,
                            void **values) {
  CUresult result = fake_call("cuModuleLoadDataEx");
  if (result) strcpy(values[0], "line 7: not understood");
  *module = result ? NULL : (CUmodule)strdup(image);
  return result;
}

CUresult cuModuleUnload(CUmodule module) {
  free(module);
  return fake_call("cuModuleUnload");
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  *function = (CUfunction)module;
  return strstr((const char *)module, name) ? fake_call("cuModuleGetFunction") : CUDA_ERROR_NOT_FOUND;
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                        CUstream stream, void **params, void **extra) {
  const float *x = *(const float **)params[0];
  float *y = *(float **)params[1];
  int n = *(int *)params[2];
  long long k = *(long long *)params[3];
  for (int i = 0; i < n && i < (int)(grid_x * block_x); i++) y[i] = (float)k * x[i];
  return fake_call("cuLaunchKernel");
}

/* --- what the emulator has --------------------------------------------------------------------- */

CUresult kilnEmuGetReport(char *text, size_t capacity, size_t *needed) {
  *needed = (size_t)snprintf(text, capacity, "block 3, thread 5 read past the end") + 1;
  return CUDA_SUCCESS;
}

CUresult kilnEmuGetLaunchesJson(char *text, size_t capacity, size_t *needed) {
  *needed = (size_t)snprintf(text, capacity, "[{\"kernel\": \"scale\"}]") + 1;
  return CUDA_SUCCESS;
}
