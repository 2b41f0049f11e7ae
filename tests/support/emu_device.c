/* tests/support/emu_device.c: see emu_device.h. */
#include "tests/support/emu_device.h"

#include "tests/support/nvrtc_compile.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char report_text[65536];

/* The emulator that is linked in, through the table that a GPU's driver is called through. */
static const kiln_cuda_t linked = {
#define KILN_CUDA(need, name, params) .name = name,
#include "base/cuda.def"
#undef KILN_CUDA
};

const kiln_cuda_t *test_driver(void) {
  static kiln_cuda_t cuda;
  if (!test_on_cuda()) return &linked;
  if (!cuda.cuInit) cuda = test_cuda_open();
  return &cuda;
}

const char *emu_report(void) {
  report_text[0] = 0;
  if (test_on_cuda()) return report_text;
  kilnEmuGetReport(report_text, sizeof report_text, NULL);
  kilnEmuResetLaunches();
  return report_text;
}

void emu_expect(CUresult result, CUresult expected, const char *call) {
  if (result == expected) return;
  const char *name = NULL, *wanted = NULL;
  test_driver()->cuGetErrorName(result, &name);
  test_driver()->cuGetErrorName(expected, &wanted);
  fail_msg("%s gave %s instead of %s\n%s", call, name, wanted, emu_report());
}

/* A GPU keeps its primary context from test to test; the emulator's is new for each, to find leaks. */
static CUcontext open_cuda_context(void) {
  const kiln_cuda_t *cuda = test_driver();
  CUdevice device;
  CUcontext context;
  EMU_OK(cuda->cuDeviceGet(&device, 0));
  EMU_OK(cuda->cuDevicePrimaryCtxRetain(&context, device));
  EMU_OK(cuda->cuCtxSetCurrent(context));
  return context;
}

int emu_setup(void **state) {
  CUcontext context;
  if (test_on_cuda()) {
    *state = open_cuda_context();
    return 0;
  }
  EMU_OK(cuInit(0));
  EMU_OK(kilnEmuSetChecks(KILN_EMU_CHECK_ALL & ~KILN_EMU_CHECK_LEAK));
  EMU_OK(cuCtxCreate_v2(&context, 0, 0));
  *state = context;
  return 0;
}

int emu_teardown(void **state) {
  char left[2048];
  if (test_on_cuda()) return test_driver()->cuDevicePrimaryCtxRelease_v2(0) != CUDA_SUCCESS;
  snprintf(left, sizeof left, "%s", emu_report());
  EMU_OK(cuCtxDestroy_v2(*state));
  if (!left[0]) return 0;
  fprintf(stderr, "%s\n", left);
  return 1;
}

CUresult emu_load(CUmodule *module, const char *ptx) { return test_driver()->cuModuleLoadData(module, ptx); }

void emu_unload(CUmodule module) { EMU_OK(test_driver()->cuModuleUnload(module)); }

CUmodule emu_compile_for(const char *source, const char *architecture) {
  CUmodule module = NULL;
  char *ptx = test_nvrtc_compile(source, architecture, NULL);
  assert_non_null(ptx);
  EMU_OK(emu_load(&module, ptx));
  free(ptx);
  return module;
}

CUmodule emu_compile(const char *source) { return emu_compile_for(source, "compute_80"); }

CUfunction emu_function(CUmodule module, const char *name) {
  CUfunction function = NULL;
  EMU_OK(test_driver()->cuModuleGetFunction(&function, module, name));
  return function;
}

CUdeviceptr emu_alloc(size_t bytes) {
  CUdeviceptr address = 0;
  EMU_OK(test_driver()->cuMemAlloc_v2(&address, bytes));
  return address;
}

CUdeviceptr emu_upload(const void *data, size_t bytes) {
  CUdeviceptr address = emu_alloc(bytes);
  EMU_OK(test_driver()->cuMemcpyHtoD_v2(address, data, bytes));
  return address;
}

void emu_download(void *data, CUdeviceptr from, size_t bytes) {
  EMU_OK(test_driver()->cuMemcpyDtoH_v2(data, from, bytes));
}

void emu_needs_capability(int major) {
  int has = 0;
  if (!test_on_cuda()) return;
  EMU_OK(test_driver()->cuDeviceGetAttribute(&has, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
  if (has >= major) return;
  print_message("needs compute capability %d.0\n", major);
  skip();
}

void emu_free(CUdeviceptr address) { EMU_OK(test_driver()->cuMemFree_v2(address)); }

CUresult emu_run(CUfunction function, unsigned grid, unsigned block, unsigned shared_bytes,
                 void **arguments) {
  const kiln_cuda_t *cuda = test_driver();
  CUresult result =
      cuda->cuLaunchKernel(function, grid, 1, 1, block, 1, 1, shared_bytes, NULL, arguments, NULL);
  return result ? result : cuda->cuCtxSynchronize();
}

kiln_emu_launch_t emu_last_launch(void) {
  test_needs_emulated("counters");
  static kiln_emu_launch_t launch;
  uint64_t total = 0;
  uint32_t count = 0;
  EMU_OK(kilnEmuGetLaunches(0, 0, NULL, &count, &total));
  assert_true(total > 0);
  EMU_OK(kilnEmuGetLaunches(total - 1, 1, &launch, &count, &total));
  return launch;
}
