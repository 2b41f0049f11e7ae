/* tests/unit/test_emu_faults.c: what the emulated device finds: each planted fault, and silence on the kernel
 * without it.
 *
 * Reports must name the kernel, the block, the thread and the PTX line; the driver's error is CUDA's own and
 * sticks.
 */
#include "tests/support/emu_device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void report_has(const char *const *parts) {
  const char *report = emu_report();
  for (; *parts; parts++)
    if (!strstr(report, *parts)) fail_msg("no '%s' in the report:\n%s", *parts, report);
}
#define REPORT_HAS(...) report_has((const char *const[]){__VA_ARGS__, NULL})

static void silent(void) {
  const char *report = emu_report();
  if (report[0]) fail_msg("a clean kernel was reported:\n%s", report);
}

static CUdeviceptr filled(size_t bytes) {
  CUdeviceptr address = emu_alloc(bytes);
  EMU_OK(cuMemsetD8_v2(address, 0, bytes));
  return address;
}

static void a_write_past_the_end_names_thread_line_and_allocation(void **state) {
  (void)state;
  CUfunction kernel = emu_function(
      emu_compile(
          "extern \"C\" __global__ void late(float *p) { p[blockIdx.x * blockDim.x + threadIdx.x] = 1; }"),
      "late");
  CUdeviceptr p = emu_alloc(70 * 4);
  EMU_RESULT(emu_run(kernel, 3, 32, 0, EMU_ARGS(&p)), CUDA_ERROR_ILLEGAL_ADDRESS);
  REPORT_HAS("write of 4 bytes", "0 bytes past the end of an allocation of 280 bytes", "kernel late",
             "block (2,0,0)", "thread (6,0,0)", "PTX line");
}

static void a_fault_sticks_to_its_context_and_not_to_the_next(void **state) {
  (void)state;
  CUcontext second;
  CUfunction kernel = emu_function(emu_compile("extern \"C\" __global__ void k(int *p) { *p = 1; }"), "k");
  CUdeviceptr null = 0, address;
  EMU_RESULT(emu_run(kernel, 1, 1, 0, EMU_ARGS(&null)), CUDA_ERROR_ILLEGAL_ADDRESS);
  EMU_RESULT(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  EMU_RESULT(cuMemAlloc_v2(&address, 4), CUDA_ERROR_ILLEGAL_ADDRESS);
  EMU_OK(cuCtxCreate_v2(&second, 0, 0));
  EMU_OK(cuMemAlloc_v2(&address, 4));
  EMU_OK(cuCtxDestroy_v2(second));
  EMU_OK(cuCtxSetCurrent(*state));
  REPORT_HAS("kernel k");
}

static void a_misaligned_vector_load_is_found(void **state) {
  (void)state;
  CUfunction kernel = emu_function(
      emu_compile(
          "extern \"C\" __global__ void k(const char *p, float4 *o) { *o = *(const float4 *)(p + 4); }"),
      "k");
  CUdeviceptr p = filled(64), o = emu_alloc(16);
  EMU_RESULT(emu_run(kernel, 1, 1, 0, EMU_ARGS(&p, &o)), CUDA_ERROR_MISALIGNED_ADDRESS);
  REPORT_HAS("misaligned read of 16 bytes");
}

static void a_use_after_free_is_named_as_such(void **state) {
  (void)state;
  CUfunction kernel = emu_function(emu_compile("extern \"C\" __global__ void k(int *p) { p[5] = 1; }"), "k");
  CUdeviceptr p = filled(64);
  EMU_OK(cuMemFree_v2(p));
  EMU_RESULT(emu_run(kernel, 1, 1, 0, EMU_ARGS(&p)), CUDA_ERROR_ILLEGAL_ADDRESS);
  REPORT_HAS("20 bytes into an allocation of 64 bytes that was freed");
}

static void shared_and_local_accesses_have_bounds_too(void **state) {
  (void)state;
  static const char source[] =
      "extern \"C\" __global__ void s(int n, int *o) { extern __shared__ int m[]; m[n] = 1; *o = m[0]; }\n"
      "extern \"C\" __global__ void l(int n, int *o) {\n"
      "  int a[8]; for (int i = 0; i < 8; i++) a[i] = i * n; *o = a[n]; }\n";
  CUmodule module = emu_compile(source);
  CUdeviceptr o = filled(4);
  int fits = 0, inside = 5, outside = 4096;
  EMU_OK(emu_run(emu_function(module, "s"), 1, 1, 64, EMU_ARGS(&fits, &o)));
  EMU_OK(emu_run(emu_function(module, "l"), 1, 1, 0, EMU_ARGS(&inside, &o)));
  silent();
  EMU_RESULT(emu_run(emu_function(module, "s"), 1, 1, 64, EMU_ARGS(&outside, &o)),
             CUDA_ERROR_ILLEGAL_ADDRESS);
  REPORT_HAS("shared address", "the block has 64 bytes");
}

static void reads_of_memory_that_nobody_wrote_are_found(void **state) {
  (void)state;
  static const char source[] =
      "extern \"C\" __global__ void g(const int *p, int *o) { o[threadIdx.x] = p[threadIdx.x]; }\n"
      "extern \"C\" __global__ void s(int *o) { __shared__ int m[64]; if (threadIdx.x < 31) m[threadIdx.x] = "
      "1;\n"
      "  __syncwarp(); o[threadIdx.x] = m[threadIdx.x]; }\n";
  CUmodule module = emu_compile(source);
  CUdeviceptr p = emu_alloc(128), o = emu_alloc(128);
  EMU_OK(cuMemsetD8_v2(p, 0, 100));
  EMU_OK(emu_run(emu_function(module, "g"), 1, 25, 0, EMU_ARGS(&p, &o)));
  EMU_OK(emu_run(emu_function(module, "s"), 1, 31, 0, EMU_ARGS(&o)));
  silent();
  EMU_OK(emu_run(emu_function(module, "g"), 1, 26, 0, EMU_ARGS(&p, &o)));
  REPORT_HAS("read of 4 bytes that nobody wrote, 100 bytes into an allocation of 128", "thread (25,0,0)");
  EMU_OK(emu_run(emu_function(module, "s"), 1, 32, 0, EMU_ARGS(&o)));
  REPORT_HAS("read of shared memory that nobody wrote", "thread (31,0,0)");
}

static const char race_source[] = "extern \"C\" __global__ void k(int *o, int sync) {\n"
                                  "  __shared__ int m[256]; int t = threadIdx.x;\n"
                                  "  m[t] = t; if (sync) __syncthreads();\n"
                                  "  o[t] = m[255 - t];\n"
                                  "  __syncthreads();\n"
                                  "  atomicAdd(&m[0], 1); __syncthreads(); if (t == 0) o[0] = m[0];\n}\n";

static void a_race_in_shared_memory_is_found_and_a_barrier_silences_it(void **state) {
  (void)state;
  CUfunction kernel = emu_function(emu_compile(race_source), "k");
  CUdeviceptr o = filled(1024);
  int sync = 1;
  EMU_OK(emu_run(kernel, 2, 256, 0, EMU_ARGS(&o, &sync)));
  silent();
  sync = 0;
  EMU_OK(emu_run(kernel, 1, 256, 0, EMU_ARGS(&o, &sync)));
  REPORT_HAS("race in shared memory", "by another warp with no barrier between");
}

static void a_race_between_blocks_is_found_and_atomics_silence_it(void **state) {
  (void)state;
  static const char source[] =
      "extern \"C\" __global__ void plain(int *p) { p[threadIdx.x] = blockIdx.x; }\n"
      "extern \"C\" __global__ void apart(int *p) { p[blockIdx.x * 32 + threadIdx.x] = 1; }\n"
      "extern \"C\" __global__ void atomic(int *p) { atomicAdd(&p[threadIdx.x], 1); }\n";
  CUmodule module = emu_compile(source);
  CUdeviceptr p = filled(1024);
  EMU_OK(emu_run(emu_function(module, "apart"), 8, 32, 0, EMU_ARGS(&p)));
  EMU_OK(emu_run(emu_function(module, "atomic"), 8, 32, 0, EMU_ARGS(&p)));
  silent();
  EMU_OK(emu_run(emu_function(module, "plain"), 2, 32, 0, EMU_ARGS(&p)));
  REPORT_HAS("race in global memory", "kernel plain");
}

static void lanes_at_different_barriers_are_a_divergence(void **state) {
  (void)state;
  static const char source[] =
      "extern \"C\" __global__ void k(int *o, int odd) {\n"
      "  if (odd && threadIdx.x % 2) { asm volatile(\"bar.sync 0;\"); o[threadIdx.x] = 1; }\n"
      "  else { asm volatile(\"bar.sync 0;\"); o[threadIdx.x] = 2; } }";
  CUfunction kernel = emu_function(emu_compile(source), "k");
  CUdeviceptr o = filled(256);
  int odd = 0;
  EMU_OK(emu_run(kernel, 1, 64, 0, EMU_ARGS(&o, &odd)));
  silent();
  odd = 1;
  EMU_OK(emu_run(kernel, 1, 64, 0, EMU_ARGS(&o, &odd)));
  REPORT_HAS("barrier divergence", "kernel k");
}

static void threads_that_wait_for_ever_are_reported_at_once(void **state) {
  (void)state;
  CUfunction kernel = emu_function(emu_compile("extern \"C\" __global__ void k(int *o) { if (threadIdx.x < "
                                               "32) asm volatile(\"bar.sync 1, 64;\"); }"),
                                   "k");
  CUdeviceptr o = filled(4);
  EMU_RESULT(emu_run(kernel, 1, 96, 0, EMU_ARGS(&o)), CUDA_ERROR_LAUNCH_TIMEOUT);
  REPORT_HAS("waits for ever", "a barrier");
}

static void wrong_shuffle_masks_are_found(void **state) {
  (void)state;
  static const char source[] =
      "extern \"C\" __global__ void k(int *o, unsigned mask, int from) {\n"
      "  if (threadIdx.x < 16) o[threadIdx.x] = __shfl_sync(mask, threadIdx.x, from); }";
  CUfunction kernel = emu_function(emu_compile(source), "k");
  CUdeviceptr o = filled(128);
  unsigned right = 0xffff, wrong = 0xfffe;
  int inside = 3, outside = 20;
  EMU_OK(emu_run(kernel, 1, 32, 0, EMU_ARGS(&o, &right, &inside)));
  silent();
  EMU_OK(emu_run(kernel, 1, 32, 0, EMU_ARGS(&o, &wrong, &inside)));
  REPORT_HAS("mask 0x0000fffe, which does not name it", "thread (0,0,0)");
  EMU_OK(emu_run(kernel, 1, 32, 0, EMU_ARGS(&o, &right, &outside)));
  REPORT_HAS("a shuffle reads lane 20, which takes no part in it");
}

static void traps_and_assertions_end_the_launch(void **state) {
  (void)state;
  CUcontext second;
  EMU_OK(cuCtxCreate_v2(&second, 0, 0));
  CUfunction trap =
      emu_function(emu_compile("extern \"C\" __global__ void k(int n) { if (n) __trap(); }"), "k");
  int n = 1;
  EMU_RESULT(emu_run(trap, 1, 1, 0, EMU_ARGS(&n)), CUDA_ERROR_LAUNCH_FAILED);
  EMU_OK(cuCtxDestroy_v2(second));
  EMU_OK(cuCtxSetCurrent(*state));
  static const char source[] = "extern \"C\" __global__ void k(int n) {\n"
                               "  if (n != 2) __assertfail(\"n == 2\", \"here.cu\", 12, \"k\", 1); }";
  CUfunction assertion = emu_function(emu_compile(source), "k");
  EMU_RESULT(emu_run(assertion, 1, 32, 0, EMU_ARGS(&n)), CUDA_ERROR_ASSERT);
  REPORT_HAS("assertion failed: n == 2, at here.cu:12");
}

static void sparse_allocations_past_2_gib_cost_nothing(void **state) {
  (void)state;
  static const char source[] = "extern \"C\" __global__ void k(unsigned char *p, long long step) { "
                               "p[(threadIdx.x + 1) * step] = threadIdx.x + 1; }";
  CUdeviceptr p = emu_alloc(40ull << 30);
  assert_true(p > UINT32_MAX);
  long long step = 5ll << 30;
  unsigned char byte;
  EMU_OK(emu_run(emu_function(emu_compile(source), "k"), 1, 7, 0, EMU_ARGS(&p, &step)));
  for (int n = 1; n <= 7; n++) {
    emu_download(&byte, p + (uint64_t)n * (5ull << 30), 1);
    assert_int_equal(byte, n);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_write_past_the_end_names_thread_line_and_allocation, emu_setup,
                                      emu_teardown),
      cmocka_unit_test_setup_teardown(a_fault_sticks_to_its_context_and_not_to_the_next, emu_setup,
                                      emu_teardown),
      cmocka_unit_test_setup_teardown(a_misaligned_vector_load_is_found, emu_setup, emu_teardown),
      cmocka_unit_test_setup_teardown(a_use_after_free_is_named_as_such, emu_setup, emu_teardown),
      cmocka_unit_test_setup_teardown(shared_and_local_accesses_have_bounds_too, emu_setup, emu_teardown),
      cmocka_unit_test_setup_teardown(reads_of_memory_that_nobody_wrote_are_found, emu_setup, emu_teardown),
      cmocka_unit_test_setup_teardown(a_race_in_shared_memory_is_found_and_a_barrier_silences_it, emu_setup,
                                      emu_teardown),
      cmocka_unit_test_setup_teardown(a_race_between_blocks_is_found_and_atomics_silence_it, emu_setup,
                                      emu_teardown),
      cmocka_unit_test_setup_teardown(lanes_at_different_barriers_are_a_divergence, emu_setup, emu_teardown),
      cmocka_unit_test_setup_teardown(threads_that_wait_for_ever_are_reported_at_once, emu_setup,
                                      emu_teardown),
      cmocka_unit_test_setup_teardown(wrong_shuffle_masks_are_found, emu_setup, emu_teardown),
      cmocka_unit_test_setup_teardown(traps_and_assertions_end_the_launch, emu_setup, emu_teardown),
      cmocka_unit_test_setup_teardown(sparse_allocations_past_2_gib_cost_nothing, emu_setup, emu_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
