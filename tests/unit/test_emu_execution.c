/* tests/unit/test_emu_execution.c: threads that work together on the emulated device: warps, blocks, waits,
 * atomics.
 *
 * Kernels are compiled by NVRTC when the test runs; expected values are worked out in the test from the
 * definition of what the kernel computes.
 */
#include "tests/support/emu_device.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static CUdeviceptr zeros(size_t bytes) {
  void *data = calloc(1, bytes);
  CUdeviceptr address = emu_upload(data, bytes);
  free(data);
  return address;
}

static void shuffles_read_the_lane_that_the_isa_names(void **state) {
  (void)state;
  static const char source[] = "extern \"C\" __global__ void k(int *o) {\n"
                               "  int l = threadIdx.x;\n"
                               "  o[l] = __shfl_sync(~0u, l * 10, l / 2 + 3);\n"
                               "  o[32 + l] = __shfl_up_sync(~0u, l, 3);\n"
                               "  o[64 + l] = __shfl_down_sync(~0u, l, 5, 16);\n"
                               "  o[96 + l] = __shfl_xor_sync(~0u, l, 9);\n}\n";
  CUdeviceptr out = zeros(128 * 4);
  int o[128];
  EMU_OK(emu_run(emu_function(emu_compile(source), "k"), 1, 32, 0, EMU_ARGS(&out)));
  emu_download(o, out, sizeof o);
  for (int l = 0; l < 32; l++) {
    assert_int_equal(o[l], (l / 2 + 3) % 32 * 10);
    assert_int_equal(o[32 + l], l < 3 ? l : l - 3);
    assert_int_equal(o[64 + l], l % 16 + 5 < 16 ? l + 5 : l);
    assert_int_equal(o[96 + l], l ^ 9);
  }
}

/* Each half of a warp is a team of its own; one lane of the second comes late. */
static void a_shuffle_waits_for_the_partners_of_every_lane(void **state) {
  (void)state;
  static const char source[] =
      "extern \"C\" __global__ void k(int *o, int late) {\n"
      "  int l = threadIdx.x, v = l;\n"
      "  if (l == late) for (int i = 0; i < 100; i++) v = (v * 5 + o[64 + i % 8]) % 1000;\n"
      "  o[l] = __shfl_up_sync(l < 16 ? 0xffffu : 0xffff0000u, v, 1, 16);\n"
      "  o[32 + l] = v;\n}\n";
  CUdeviceptr out = zeros(72 * 4);
  int o[64], late = 16;
  EMU_OK(emu_run(emu_function(emu_compile(source), "k"), 1, 32, 0, EMU_ARGS(&out, &late)));
  emu_download(o, out, sizeof o);
  for (int l = 0; l < 32; l++) assert_int_equal(o[l], o[32 + (l % 16 ? l - 1 : l)]);
}

static void votes_matches_and_reductions_see_every_lane(void **state) {
  (void)state;
  static const char source[] =
      "extern \"C\" __global__ void k(unsigned *o) {\n"
      "  unsigned l = threadIdx.x;\n"
      "  o[l] = __ballot_sync(~0u, l % 3 == 0);\n"
      "  o[32 + l] = __any_sync(~0u, l == 7) + 2 * __all_sync(~0u, l < 31) + 4 * __all_sync(~0u, l < 32);\n"
      "  o[64 + l] = __match_any_sync(~0u, l % 4);\n"
      "  o[96 + l] = __reduce_add_sync(~0u, l) + __reduce_max_sync(~0u, (int)l - 40) + "
      "__reduce_xor_sync(~0u, l & 1);\n"
      "  o[128 + l] = l < 10 ? __activemask() : 0;\n}\n";
  CUdeviceptr out = zeros(160 * 4);
  unsigned o[160], thirds = 0;
  EMU_OK(emu_run(emu_function(emu_compile(source), "k"), 1, 32, 0, EMU_ARGS(&out)));
  emu_download(o, out, sizeof o);
  for (unsigned l = 0; l < 32; l += 3) thirds |= 1u << l;
  for (unsigned l = 0; l < 32; l++) {
    assert_int_equal(o[l], thirds);
    assert_int_equal(o[32 + l], 1 + 4);
    assert_int_equal(o[64 + l], 0x11111111u << l % 4);
    assert_int_equal(o[96 + l], 31 * 32 / 2 + (31 - 40) + 0);
    if (l < 10) assert_int_equal(o[128 + l], 0x3ff);
  }
}

/* A tree over shared memory, then over shuffles: 32 warps of a block, all its barriers. */
static void a_block_reduces_through_shared_memory_and_shuffles(void **state) {
  (void)state;
  static const char source[] =
      "extern \"C\" __global__ void k(const float *a, float *o) {\n"
      "  __shared__ float part[32]; int t = threadIdx.x;\n"
      "  float v = a[blockIdx.x * 1024 + t];\n"
      "  for (int d = 16; d; d /= 2) v += __shfl_down_sync(~0u, v, d);\n"
      "  if (t % 32 == 0) part[t / 32] = v;\n"
      "  __syncthreads();\n"
      "  if (t < 32) { v = part[t]; for (int d = 16; d; d /= 2) v += __shfl_down_sync(~0u, v, d); }\n"
      "  if (t == 0) o[blockIdx.x] = v;\n}\n";
  static float a[8 * 1024], o[8];
  for (int n = 0; n < 8 * 1024; n++) a[n] = (float)(n % 97);
  CUdeviceptr in = emu_upload(a, sizeof a), out = emu_alloc(sizeof o);
  EMU_OK(emu_run(emu_function(emu_compile(source), "k"), 8, 1024, 0, EMU_ARGS(&in, &out)));
  emu_download(o, out, sizeof o);
  for (int b = 0; b < 8; b++) {
    float sum = 0; /* integers below 2^24: exact in any order */
    for (int n = 0; n < 1024; n++) sum += a[b * 1024 + n];
    assert_float_equal(o[b], sum, 0);
  }
}

/* Lane 0 waits for lane 31 of its own warp, which on lockstep hardware would never come. */
static void lanes_of_a_warp_may_wait_for_each_other(void **state) {
  (void)state;
  static const char source[] = "extern \"C\" __global__ void k(volatile int *flag, int *o) {\n"
                               "  int l = threadIdx.x;\n"
                               "  if (l == 31) { flag[0] = 7; } else { while (flag[0] == 0) ; }\n"
                               "  o[l] = flag[0];\n}\n"
                               "extern \"C\" __global__ void lock(int *mutex, int *count) {\n"
                               "  while (atomicCAS(mutex, 0, 1) != 0) ;\n"
                               "  *(volatile int *)count = *(volatile int *)count + 1; __threadfence();\n"
                               "  atomicExch(mutex, 0);\n}\n";
  CUmodule module = emu_compile(source);
  CUdeviceptr flag = zeros(4), out = zeros(32 * 4), mutex = zeros(4), count = zeros(4);
  int o[32], counted;
  EMU_OK(emu_run(emu_function(module, "k"), 1, 32, 0, EMU_ARGS(&flag, &out)));
  emu_download(o, out, sizeof o);
  for (int l = 0; l < 32; l++) assert_int_equal(o[l], 7);
  EMU_OK(emu_run(emu_function(module, "lock"), 4, 64, 0, EMU_ARGS(&mutex, &count)));
  emu_download(&counted, count, 4);
  assert_int_equal(counted, 256);
}

/* The first blocks wait for the last one, which is resident with them on the modelled device. */
static void resident_blocks_may_wait_for_each_other(void **state) {
  (void)state;
  static const char source[] =
      "extern \"C\" __global__ void k(unsigned *arrived, int *o) {\n"
      "  if (threadIdx.x == 0) {\n"
      "    atomicAdd(arrived, 1u);\n"
      "    while (*(volatile unsigned *)arrived < gridDim.x) ;\n"
      "  }\n"
      "  __syncthreads();\n"
      "  o[blockIdx.x * blockDim.x + threadIdx.x] = *(volatile unsigned *)arrived;\n}\n";
  CUdeviceptr arrived = zeros(4), out = zeros(132 * 64 * 4);
  static int o[132 * 64];
  EMU_OK(emu_run(emu_function(emu_compile(source), "k"), 132, 64, 0, EMU_ARGS(&arrived, &out)));
  emu_download(o, out, sizeof o);
  for (int n = 0; n < 132 * 64; n++) assert_int_equal(o[n], 132);
  assert_true(emu_last_launch().schedule_dependent);
}

static void a_kernel_that_never_ends_is_stopped_at_the_limit(void **state) {
  (void)state;
  CUfunction kernel =
      emu_function(emu_compile("extern \"C\" __global__ void k(volatile int *p) { while (*p == 0) ; }"), "k");
  CUdeviceptr p = zeros(4);
  EMU_OK(kilnEmuSetInstructionLimit(3000000));
  EMU_RESULT(emu_run(kernel, 2, 32, 0, EMU_ARGS(&p)), CUDA_ERROR_LAUNCH_TIMEOUT);
  EMU_OK(kilnEmuSetInstructionLimit(0));
  assert_non_null(strstr(emu_report(), "3000000"));
}

/* Each block ends long before the limit; all of them would take hours. */
static void a_grid_of_very_many_short_blocks_is_stopped_at_the_limit(void **state) {
  (void)state;
  CUfunction kernel = emu_function(emu_compile("extern \"C\" __global__ void k() {}"), "k");
  EMU_OK(kilnEmuSetInstructionLimit(5000));
  EMU_RESULT(emu_run(kernel, INT32_MAX, 1, 0, NULL), CUDA_ERROR_LAUNCH_TIMEOUT);
  EMU_OK(kilnEmuSetInstructionLimit(0));
  assert_non_null(strstr(emu_report(), "5000"));
}

static void named_barriers_join_the_threads_they_count(void **state) {
  (void)state;
  static const char source[] =
      "extern \"C\" __global__ void k(int *o) {\n"
      "  __shared__ int box[64]; int t = threadIdx.x;\n"
      "  if (t < 64) {\n" /* warps 0 and 1 talk through barrier 1, warps 2 and 3 stay out of it */
      "    box[t] = t; asm volatile(\"bar.sync 1, 64;\" ::: \"memory\"); o[t] = box[63 - t];\n"
      "  } else { o[t] = -1; }\n"
      "  int any; asm volatile(\"{ .reg .pred p, q; setp.eq.s32 p, %1, 100; bar.red.or.pred q, 0, p;\"\n"
      "                        \" selp.s32 %0, 1, 0, q; }\" : \"=r\"(any) : \"r\"(t));\n"
      "  o[128 + t] = any + __syncthreads_count(t % 3 == 0);\n}\n";
  CUdeviceptr out = zeros(256 * 4);
  int o[256];
  EMU_OK(emu_run(emu_function(emu_compile(source), "k"), 1, 128, 0, EMU_ARGS(&out)));
  emu_download(o, out, sizeof o);
  for (int t = 0; t < 128; t++) {
    assert_int_equal(o[t], t < 64 ? 63 - t : -1);
    assert_int_equal(o[128 + t], 1 + 43);
  }
}

static void atomics_of_every_kind_lose_nothing(void **state) {
  (void)state;
  static const char source[] =
      "extern \"C\" __global__ void k(int *i, unsigned long long *w, float *f, double *d) {\n"
      "  int t = blockIdx.x * blockDim.x + threadIdx.x;\n"
      "  atomicAdd(&i[0], t); atomicMin(&i[1], -t); atomicMax(&i[2], t); atomicOr(&i[3], 1 << t % 32);\n"
      "  atomicXor(&i[4], t); atomicAnd(&i[5], ~(1 << t % 31)); atomicInc((unsigned *)&i[6], 99);\n"
      "  atomicDec((unsigned *)&i[7], 99);\n"
      "  atomicAdd(w, (unsigned long long)t << 32); atomicAdd(f, 1.0f); atomicAdd(d, 0.5);\n"
      "  __shared__ int s; if (threadIdx.x == 0) s = 0; __syncthreads();\n"
      "  atomicAdd(&s, 1); __syncthreads(); if (threadIdx.x == 0) atomicAdd(&i[8], s);\n}\n";
  int start[9] = {0, 0, 0, 0, 0, -1, 0, 0, 0}, i[9];
  CUdeviceptr pi = emu_upload(start, sizeof start), pw = zeros(8), pf = zeros(4), pd = zeros(8);
  uint64_t w;
  float f;
  double d;
  EMU_OK(emu_run(emu_function(emu_compile(source), "k"), 10, 100, 0, EMU_ARGS(&pi, &pw, &pf, &pd)));
  emu_download(i, pi, sizeof i);
  emu_download(&w, pw, 8);
  emu_download(&f, pf, 4);
  emu_download(&d, pd, 8);
  int exclusive = 0;
  for (int t = 0; t < 1000; t++) exclusive ^= t;
  const int want[9] = {999 * 500, -999, 999, -1, exclusive, (int)0x80000000, 0, 0, 1000};
  assert_memory_equal(i, want, sizeof i);
  assert_int_equal(w, 999ull * 500 << 32);
  assert_float_equal(f, 1000, 0);
  assert_true(d == 500.0);
}

/* Copies happen when they are waited for, in groups; what a thread does not read is zero. */
static void asynchronous_copies_arrive_by_group(void **state) {
  (void)state;
  static const char source[] =
      "extern \"C\" __global__ void k(const int *a, int *o) {\n"
      "  __shared__ __align__(16) int s[256]; int t = threadIdx.x;\n"
      "  unsigned at = (unsigned)__cvta_generic_to_shared(s + 4 * t);\n"
      "  int left = t == 31 ? 8 : 16;\n"
      "  asm volatile(\"cp.async.cg.shared.global [%0], [%1], 16, %2;\" :: \"r\"(at), \"l\"(a + 4 * t), "
      "\"r\"(left));\n"
      "  asm volatile(\"cp.async.commit_group;\");\n"
      "  asm volatile(\"cp.async.ca.shared.global [%0], [%1], 4;\" :: \"r\"(at + 512), \"l\"(a + 128 + t));\n"
      "  asm volatile(\"cp.async.commit_group;\");\n"
      "  asm volatile(\"cp.async.wait_group 1;\" ::: \"memory\"); __syncthreads();\n"
      "  for (int n = 0; n < 4; n++) o[4 * t + n] = s[4 * t + n];\n"
      "  asm volatile(\"cp.async.wait_group 0;\" ::: \"memory\"); __syncthreads();\n"
      "  o[128 + t] = s[128 + 4 * t];\n}\n";
  int a[160], o[160];
  for (int n = 0; n < 160; n++) a[n] = 1000 + n;
  CUdeviceptr in = emu_upload(a, sizeof a), out = zeros(sizeof o);
  EMU_OK(emu_run(emu_function(emu_compile(source), "k"), 1, 32, 0, EMU_ARGS(&in, &out)));
  emu_download(o, out, sizeof o);
  for (int n = 0; n < 160; n++) assert_int_equal(o[n], n == 126 || n == 127 ? 0 : 1000 + n);
}

static void functions_are_called_and_return_their_results(void **state) {
  (void)state;
  static const char source[] =
      "struct pair { double x; int n; };\n"
      "__device__ __noinline__ pair f(double x, int n) { pair p; p.x = x * n; p.n = n + 1; return p; }\n"
      "__device__ __noinline__ int g(int n) { return n % 2 ? f(n, n).n : -n; }\n"
      "extern \"C\" __global__ void k(double *x, int *o) {\n"
      "  int t = threadIdx.x; pair p = f(0.5, t); if (t % 3) p = f(p.x, p.n);\n"
      "  x[t] = p.x; o[t] = p.n + g(t);\n}\n";
  double x[64];
  int o[64];
  CUdeviceptr px = zeros(sizeof x), po = zeros(sizeof o);
  EMU_OK(emu_run(emu_function(emu_compile(source), "k"), 1, 64, 0, EMU_ARGS(&px, &po)));
  emu_download(x, px, sizeof x);
  emu_download(o, po, sizeof o);
  for (int t = 0; t < 64; t++) {
    double want = 0.5 * t * (t % 3 ? t + 1 : 1);
    assert_true(x[t] == want);
    assert_int_equal(o[t], t + 1 + (t % 3 ? 1 : 0) + (t % 2 ? t + 1 : -t));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(shuffles_read_the_lane_that_the_isa_names, emu_setup, emu_teardown),
      cmocka_unit_test_setup_teardown(a_shuffle_waits_for_the_partners_of_every_lane, emu_setup,
                                      emu_teardown),
      cmocka_unit_test_setup_teardown(votes_matches_and_reductions_see_every_lane, emu_setup, emu_teardown),
      cmocka_unit_test_setup_teardown(a_block_reduces_through_shared_memory_and_shuffles, emu_setup,
                                      emu_teardown),
      cmocka_unit_test_setup_teardown(lanes_of_a_warp_may_wait_for_each_other, emu_setup, emu_teardown),
      cmocka_unit_test_setup_teardown(resident_blocks_may_wait_for_each_other, emu_setup, emu_teardown),
      cmocka_unit_test_setup_teardown(a_kernel_that_never_ends_is_stopped_at_the_limit, emu_setup,
                                      emu_teardown),
      cmocka_unit_test_setup_teardown(a_grid_of_very_many_short_blocks_is_stopped_at_the_limit, emu_setup,
                                      emu_teardown),
      cmocka_unit_test_setup_teardown(named_barriers_join_the_threads_they_count, emu_setup, emu_teardown),
      cmocka_unit_test_setup_teardown(atomics_of_every_kind_lose_nothing, emu_setup, emu_teardown),
      cmocka_unit_test_setup_teardown(asynchronous_copies_arrive_by_group, emu_setup, emu_teardown),
      cmocka_unit_test_setup_teardown(functions_are_called_and_return_their_results, emu_setup, emu_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
