/* tests/unit/test_emu_driver.c: the driver's own behaviour: what it refuses and with which code, streams,
 * events, modules. Expected codes are those that CUDA's driver documents for the call. */
#include "tests/support/emu_device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static const char add_source[] =
    "extern \"C\" __global__ void add(int *p, int n) { *p = *p * 2 + n; }\n"
    "extern \"C\" __global__ void big() { __shared__ volatile char m[40960]; m[threadIdx.x] = 1; }\n"
    "__device__ int table[3] = {4, 5, 6};\n"
    "extern \"C\" __global__ void read(int *p) { *p = table[*p]; }\n"
    "extern \"C\" __global__ void __launch_bounds__(64) small() {}";

static void launches_that_a_gpu_refuses_are_refused(void **state) {
  (void)state;
  CUmodule module = emu_compile(add_source);
  CUfunction add = emu_function(module, "add"), big = emu_function(module, "big"),
             small = emu_function(module, "small");
  CUdeviceptr p = emu_alloc(4);
  int n = 0;
  void **arguments = EMU_ARGS(&p, &n);
  EMU_RESULT(cuLaunchKernel(add, 0, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL), CUDA_ERROR_INVALID_VALUE);
  EMU_RESULT(cuLaunchKernel(add, 1, 65536, 1, 1, 1, 1, 0, NULL, arguments, NULL), CUDA_ERROR_INVALID_VALUE);
  EMU_RESULT(cuLaunchKernel(add, 1, 1, 1, 1025, 1, 1, 0, NULL, arguments, NULL), CUDA_ERROR_INVALID_VALUE);
  EMU_RESULT(cuLaunchKernel(add, 1, 1, 1, 32, 32, 2, 0, NULL, arguments, NULL), CUDA_ERROR_INVALID_VALUE);
  EMU_RESULT(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 49153, NULL, arguments, NULL), CUDA_ERROR_INVALID_VALUE);
  EMU_RESULT(cuLaunchKernel(small, 1, 1, 1, 65, 1, 1, 0, NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
  EMU_RESULT(cuLaunchKernel(big, 1, 1, 1, 1, 1, 1, 10000, NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
  EMU_OK(cuFuncSetAttribute(big, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100000));
  EMU_OK(cuLaunchKernel(big, 1, 1, 1, 1, 1, 1, 100000, NULL, NULL, NULL));
  EMU_RESULT(cuFuncSetAttribute(big, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 232448),
             CUDA_ERROR_INVALID_VALUE);
  EMU_RESULT(cuLaunchCooperativeKernel(add, 1000000, 1, 1, 32, 1, 1, 0, NULL, arguments),
             CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
  EMU_OK(cuCtxSynchronize());
}

static void a_function_of_an_unloaded_module_is_refused(void **state) {
  (void)state;
  CUmodule module = emu_compile(add_source);
  CUfunction small = emu_function(module, "small");
  int value;
  EMU_OK(cuModuleUnload(module));
  EMU_RESULT(cuLaunchKernel(small, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), CUDA_ERROR_INVALID_HANDLE);
  EMU_RESULT(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, small), CUDA_ERROR_INVALID_HANDLE);
  EMU_RESULT(cuFuncSetAttribute(small, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1),
             CUDA_ERROR_INVALID_HANDLE);
  EMU_RESULT(cuModuleUnload(module), CUDA_ERROR_INVALID_HANDLE);
}

/* 1,024 bytes are the system's: SIZE_MAX - 1,023 and they come to nothing, which once was a divisor. */
static void no_block_has_nearly_all_of_the_address_space_as_shared_memory(void **state) {
  (void)state;
  CUfunction small = emu_function(emu_compile(add_source), "small");
  int blocks = -1;
  EMU_OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, small, 64, SIZE_MAX - 1023));
  assert_int_equal(blocks, 0);
}

static void bad_modules_name_the_line(void **state) {
  (void)state;
  CUmodule module = NULL;
  char log[256] = "";
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {log, (void *)sizeof log};
  static const char unknown[] =
      ".version 8.0\n.target sm_80\n.address_size 64\n"
      ".visible .entry k() {\n  .reg .b32 %r<3>;\n  frobnicate.b32 %r1, %r2;\n  ret;\n}\n";
  EMU_RESULT(cuModuleLoadDataEx(&module, unknown, 2, options, values), CUDA_ERROR_INVALID_PTX);
  assert_string_equal(log, "PTX line 6: unknown instruction 'frobnicate.b32'");
  EMU_RESULT(cuModuleLoadData(&module, "\177ELF\2\1\1"), CUDA_ERROR_NO_BINARY_FOR_GPU);
  EMU_RESULT(cuModuleLoadData(&module, ".version 8.0\n.target sm_100\n.address_size 64\n"),
             CUDA_ERROR_NO_BINARY_FOR_GPU);
  EMU_RESULT(cuModuleLoadData(&module, ""), CUDA_ERROR_INVALID_PTX);
  emu_report();
}

static void functions_and_globals_are_found_by_name(void **state) {
  (void)state;
  CUmodule module = emu_compile(add_source);
  CUfunction function;
  CUdeviceptr table, p;
  size_t bytes;
  int value = 2, six = 0;
  EMU_RESULT(cuModuleGetFunction(&function, module, "missing"), CUDA_ERROR_NOT_FOUND);
  EMU_OK(cuModuleGetGlobal_v2(&table, &bytes, module, "table"));
  assert_int_equal(bytes, 12);
  p = emu_upload(&value, 4);
  EMU_OK(emu_run(emu_function(module, "read"), 1, 1, 0, EMU_ARGS(&p)));
  emu_download(&six, p, 4);
  assert_int_equal(six, 6);
}

static void work_of_a_stream_runs_in_order(void **state) {
  (void)state;
  CUfunction add = emu_function(emu_compile(add_source), "add");
  CUstream stream;
  CUdeviceptr p = emu_alloc(4);
  int want = 0, got;
  EMU_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  EMU_OK(cuMemsetD8Async(p, 0, 4, stream));
  for (int n = 1; n <= 20; n++) {
    want = want * 2 + n;
    EMU_OK(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, stream, EMU_ARGS(&p, &n), NULL));
  }
  EMU_OK(cuMemcpyDtoHAsync_v2(&got, p, 4, stream));
  EMU_OK(cuStreamSynchronize(stream));
  assert_int_equal(got, want);
  EMU_OK(cuStreamDestroy_v2(stream));
}

/* Two streams through an event, and the default stream, which waits for blocking streams and they for it. */
static void events_and_the_default_stream_order_streams(void **state) {
  (void)state;
  CUfunction add = emu_function(emu_compile(add_source), "add");
  CUstream a, b;
  CUevent event;
  CUdeviceptr p = emu_alloc(4);
  int one = 1, ten = 10, hundred = 100, got;
  EMU_OK(cuStreamCreate(&a, CU_STREAM_DEFAULT));
  EMU_OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
  EMU_OK(cuEventCreate(&event, CU_EVENT_DEFAULT));
  for (int round = 0; round < 50; round++) {
    EMU_OK(cuMemsetD32Async(p, 0, 1, a));
    EMU_OK(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, NULL, EMU_ARGS(&p, &one), NULL)); /* default: after a */
    EMU_OK(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, a, EMU_ARGS(&p, &ten), NULL));    /* after the default */
    EMU_OK(cuEventRecord(event, a));
    EMU_OK(cuStreamWaitEvent(b, event, 0));
    EMU_OK(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, b, EMU_ARGS(&p, &hundred), NULL));
    EMU_OK(cuStreamSynchronize(b));
    emu_download(&got, p, 4);
    assert_int_equal(got, (1 * 2 + 10) * 2 + 100);
  }
  EMU_OK(cuEventSynchronize(event));
  EMU_OK(cuEventQuery(event));
  EMU_OK(cuEventDestroy_v2(event));
  EMU_RESULT(cuEventQuery(event), CUDA_ERROR_INVALID_HANDLE);
}

static atomic_int called;
static void on_done(void *argument) { atomic_fetch_add(&called, *(int *)argument); }

/* Nobody synchronizes: the device's own thread must get there. */
static void host_functions_run_without_anybody_waiting(void **state) {
  (void)state;
  int three = 3;
  atomic_store(&called, 0);
  EMU_OK(cuLaunchHostFunc(NULL, on_done, &three));
  for (int n = 0; n < 2000 && !atomic_load(&called); n++)
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  assert_int_equal(atomic_load(&called), 3);
  EMU_OK(cuStreamSynchronize(NULL));
  EMU_OK(cuStreamQuery(NULL));
}

static void copies_outside_allocations_are_refused(void **state) {
  (void)state;
  char host[64] = {0};
  CUdeviceptr p = emu_alloc(32);
  EMU_RESULT(cuMemcpyHtoD_v2(p, host, 33), CUDA_ERROR_INVALID_VALUE);
  EMU_RESULT(cuMemcpyDtoH_v2(host, p + 32, 1), CUDA_ERROR_INVALID_VALUE);
  EMU_RESULT(cuMemcpyDtoD_v2(p, p + 16, 17), CUDA_ERROR_INVALID_VALUE);
  EMU_RESULT(cuMemsetD32_v2(p + 2, 0, 1), CUDA_ERROR_INVALID_VALUE);
  EMU_RESULT(cuMemFree_v2(p + 1), CUDA_ERROR_INVALID_VALUE);
  EMU_RESULT(cuMemAlloc_v2(&p, 1ull << 50), CUDA_ERROR_OUT_OF_MEMORY);
}

/* Each argument of its own that the reference of the Driver API forbids. */
static void arguments_that_the_reference_forbids_are_refused(void **state) {
  (void)state;
  CUfunction add = emu_function(emu_compile(add_source), "add");
  CUdeviceptr p = emu_alloc(16), address;
  CUevent event;
  CUstream stream;
  void *pinned;
  int n = 1;
  size_t bytes = 16;
  void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &p, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                   CU_LAUNCH_PARAM_END};
  EMU_RESULT(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, NULL, EMU_ARGS(&p, &n), extra),
             CUDA_ERROR_INVALID_VALUE);
  EMU_RESULT(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
  EMU_RESULT(cuMemAlloc_v2(&address, 0), CUDA_ERROR_INVALID_VALUE);
  EMU_RESULT(cuMemAlloc_v2(NULL, 16), CUDA_ERROR_INVALID_VALUE);
  EMU_RESULT(cuMemAlloc_v2(&address, 1ull << 45), CUDA_ERROR_OUT_OF_MEMORY);
  EMU_RESULT(cuMemFree_v2(p + 4), CUDA_ERROR_INVALID_VALUE);
  EMU_OK(cuMemFree_v2(0));
  EMU_RESULT(cuMemHostAlloc(&pinned, 64, 8), CUDA_ERROR_INVALID_VALUE);
  EMU_RESULT(cuMemHostAlloc(NULL, 64, 0), CUDA_ERROR_INVALID_VALUE);
  EMU_RESULT(cuMemFreeHost(&pinned), CUDA_ERROR_INVALID_VALUE);
  EMU_RESULT(cuMemsetD32_v2(p + 2, 1, 1), CUDA_ERROR_INVALID_VALUE);
  EMU_RESULT(cuMemcpyDtoHAsync_v2(&n, p, 4, (CUstream)&n), CUDA_ERROR_INVALID_HANDLE);
  EMU_RESULT(cuEventCreate(&event, CU_EVENT_INTERPROCESS), CUDA_ERROR_INVALID_VALUE);
  EMU_RESULT(cuEventCreate(&event, 8), CUDA_ERROR_INVALID_VALUE);
  EMU_RESULT(cuEventCreate(NULL, 0), CUDA_ERROR_INVALID_VALUE);
  EMU_RESULT(cuEventRecord((CUevent)&n, NULL), CUDA_ERROR_INVALID_HANDLE);
  EMU_OK(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
  EMU_RESULT(cuStreamWaitEvent(NULL, event, 2), CUDA_ERROR_INVALID_VALUE);
  EMU_RESULT(cuStreamWaitEvent((CUstream)&n, event, 0), CUDA_ERROR_INVALID_HANDLE);
  EMU_RESULT(cuStreamCreate(&stream, 2), CUDA_ERROR_INVALID_VALUE);
  EMU_RESULT(cuStreamCreate(NULL, 0), CUDA_ERROR_INVALID_VALUE);
  EMU_RESULT(cuStreamDestroy_v2(NULL), CUDA_ERROR_INVALID_HANDLE);
  EMU_RESULT(cuStreamSynchronize((CUstream)&n), CUDA_ERROR_INVALID_HANDLE);
  EMU_RESULT(cuLaunchHostFunc(NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
}

static void errors_have_names_and_texts(void **state) {
  (void)state;
  const char *name = NULL, *text = NULL;
  EMU_OK(cuGetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &name));
  EMU_OK(cuGetErrorString(CUDA_ERROR_ILLEGAL_ADDRESS, &text));
  assert_string_equal(name, "CUDA_ERROR_ILLEGAL_ADDRESS");
  assert_string_equal(text, "an illegal memory access was encountered");
  EMU_RESULT(cuGetErrorName((CUresult)12345, &name), CUDA_ERROR_INVALID_VALUE);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(launches_that_a_gpu_refuses_are_refused, emu_setup, emu_teardown),
      cmocka_unit_test_setup_teardown(a_function_of_an_unloaded_module_is_refused, emu_setup, emu_teardown),
      cmocka_unit_test_setup_teardown(no_block_has_nearly_all_of_the_address_space_as_shared_memory,
                                      emu_setup, emu_teardown),
      cmocka_unit_test_setup_teardown(bad_modules_name_the_line, emu_setup, emu_teardown),
      cmocka_unit_test_setup_teardown(functions_and_globals_are_found_by_name, emu_setup, emu_teardown),
      cmocka_unit_test_setup_teardown(work_of_a_stream_runs_in_order, emu_setup, emu_teardown),
      cmocka_unit_test_setup_teardown(events_and_the_default_stream_order_streams, emu_setup, emu_teardown),
      cmocka_unit_test_setup_teardown(host_functions_run_without_anybody_waiting, emu_setup, emu_teardown),
      cmocka_unit_test_setup_teardown(copies_outside_allocations_are_refused, emu_setup, emu_teardown),
      cmocka_unit_test_setup_teardown(arguments_that_the_reference_forbids_are_refused, emu_setup,
                                      emu_teardown),
      cmocka_unit_test_setup_teardown(errors_have_names_and_texts, emu_setup, emu_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
