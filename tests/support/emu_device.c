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

const char *emu_report(void) {
  report_text[0] = 0;
  kilnEmuGetReport(report_text, sizeof report_text, NULL);
  kilnEmuResetLaunches();
  return report_text;
}

void emu_expect(CUresult result, CUresult expected, const char *call) {
  if (result == expected) return;
  const char *name = NULL, *wanted = NULL;
  cuGetErrorName(result, &name);
  cuGetErrorName(expected, &wanted);
  fail_msg("%s gave %s instead of %s\n%s", call, name, wanted, emu_report());
}

int emu_setup(void **state) {
  CUcontext context;
  EMU_OK(cuInit(0));
  EMU_OK(kilnEmuSetChecks(KILN_EMU_CHECK_ALL & ~KILN_EMU_CHECK_LEAK));
  EMU_OK(cuCtxCreate_v2(&context, 0, 0));
  *state = context;
  return 0;
}

int emu_teardown(void **state) {
  char left[2048];
  snprintf(left, sizeof left, "%s", emu_report());
  EMU_OK(cuCtxDestroy_v2(*state));
  if (!left[0]) return 0;
  fprintf(stderr, "%s\n", left);
  return 1;
}

CUmodule emu_compile_for(const char *source, const char *architecture) {
  CUmodule module = NULL;
  char *ptx = test_nvrtc_compile(source, architecture, NULL);
  assert_non_null(ptx);
  EMU_OK(cuModuleLoadData(&module, ptx));
  free(ptx);
  return module;
}

CUmodule emu_compile(const char *source) { return emu_compile_for(source, "compute_80"); }

CUfunction emu_function(CUmodule module, const char *name) {
  CUfunction function = NULL;
  EMU_OK(cuModuleGetFunction(&function, module, name));
  return function;
}

CUdeviceptr emu_alloc(size_t bytes) {
  CUdeviceptr address = 0;
  EMU_OK(cuMemAlloc_v2(&address, bytes));
  return address;
}

CUdeviceptr emu_upload(const void *data, size_t bytes) {
  CUdeviceptr address = emu_alloc(bytes);
  EMU_OK(cuMemcpyHtoD_v2(address, data, bytes));
  return address;
}

void emu_download(void *data, CUdeviceptr from, size_t bytes) { EMU_OK(cuMemcpyDtoH_v2(data, from, bytes)); }

CUresult emu_run(CUfunction function, unsigned grid, unsigned block, unsigned shared_bytes,
                 void **arguments) {
  CUresult result = cuLaunchKernel(function, grid, 1, 1, block, 1, 1, shared_bytes, NULL, arguments, NULL);
  return result ? result : cuCtxSynchronize();
}

kiln_emu_launch_t emu_last_launch(void) {
  static kiln_emu_launch_t launch;
  uint64_t total = 0;
  uint32_t count = 0;
  EMU_OK(kilnEmuGetLaunches(0, 0, NULL, &count, &total));
  assert_true(total > 0);
  EMU_OK(kilnEmuGetLaunches(total - 1, 1, &launch, &count, &total));
  return launch;
}
