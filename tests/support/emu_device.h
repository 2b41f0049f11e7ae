/* tests/support/emu_device.h: a driver's context for a test, and a kernel launch in one line. The driver is
 * the emulated device's, linked into the program, or a GPU's where KILN_TEST_DEVICE asks for it
 * (test_device.h). Failures of the driver fail the test, with the emulator's report. Thread: the test's. */
#ifndef KILN_TESTS_EMU_DEVICE_H
#define KILN_TESTS_EMU_DEVICE_H

#include "tests/support/test_device.h"

#define KILN_CUDA(need, name, params) CUresult name params;
#include "base/cuda.def"
#undef KILN_CUDA

/* cmocka set-up and tear-down: a context with all checkers on but the one for leaks; the tear-down fails when
 * a checker found something that the test did not take with emu_report. */
int emu_setup(void **state);
int emu_teardown(void **state);

/* The driver that the tests of this program use. Tests of the emulator itself call its functions by name. */
const kiln_cuda_t *test_driver(void);

#define EMU_OK(call) emu_expect((call), CUDA_SUCCESS, #call)
#define EMU_RESULT(call, expected) emu_expect((call), (expected), #call)
void emu_expect(CUresult result, CUresult expected, const char *call);

/* Compiles CUDA C for compute_80 (or `architecture`) and loads it. */
CUmodule emu_compile(const char *source);
CUmodule emu_compile_for(const char *source, const char *architecture);
CUfunction emu_function(CUmodule module, const char *name);

CUdeviceptr emu_alloc(size_t bytes);
CUdeviceptr emu_upload(const void *data, size_t bytes);
void emu_download(void *data, CUdeviceptr from, size_t bytes);
void emu_free(CUdeviceptr address);
/* Loads PTX; the driver's own result. */
CUresult emu_load(CUmodule *module, const char *ptx);
void emu_unload(CUmodule module);

/* Skips the test on a GPU of a lower compute capability, which does not take the PTX that the test is written
 * in. */
void emu_needs_capability(int major);

/* Launches with the addresses of the arguments and synchronizes; gives the result of that. */
CUresult emu_run(CUfunction function, unsigned grid, unsigned block, unsigned shared_bytes, void **arguments);
#define EMU_ARGS(...) ((void *[]){__VA_ARGS__})

/* The report so far, which then is forgotten; valid until the next call. "" on a GPU. */
const char *emu_report(void);
/* The last launch's counters; skips the test on a GPU. */
kiln_emu_launch_t emu_last_launch(void);

#endif
