/* tests/unit/test_emu_counters.c: the counters of a launch against counts worked out by hand, and the same in
 * every run. */
#include "tests/support/emu_device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static CUdeviceptr filled(size_t bytes) {
  CUdeviceptr address = emu_alloc(bytes);
  EMU_OK(cuMemsetD8_v2(address, 0, bytes));
  return address;
}

/* 1,024 floats copied by 4 blocks of 256: 32 warps, each one load and one store of 4 sectors. */
static void a_copy_moves_each_byte_once_in_and_once_out(void **state) {
  (void)state;
  CUfunction kernel = emu_function(emu_compile("extern \"C\" __global__ void k(const float *a, float *b) {\n"
                                               "  int i = blockIdx.x * 256 + threadIdx.x; b[i] = a[i]; }"),
                                   "k");
  CUdeviceptr a = filled(4096), b = emu_alloc(4096);
  EMU_OK(emu_run(kernel, 4, 256, 0, EMU_ARGS(&a, &b)));
  kiln_emu_launch_t launch = emu_last_launch();
  assert_string_equal(launch.kernel, "k");
  assert_int_equal(launch.grid[0], 4);
  assert_int_equal(launch.block[0], 256);
  assert_int_equal(launch.counters.global_load_requests, 32);
  assert_int_equal(launch.counters.global_store_requests, 32);
  assert_int_equal(launch.counters.global_load_sectors, 128);
  assert_int_equal(launch.counters.global_store_sectors, 128);
  assert_int_equal(launch.counters.bytes_read, 4096);
  assert_int_equal(launch.counters.bytes_written, 4096);
  assert_int_equal(launch.counters.bytes_moved, 8192);
  assert_int_equal(launch.counters.lane_instructions, 32 * launch.counters.instructions);
  assert_int_equal(launch.schedule_dependent, 0);
}

/* Every warp reads with a stride of 32 bytes: 32 sectors to a request, 8 times the bytes used. */
static void strided_reads_request_a_sector_per_lane(void **state) {
  (void)state;
  CUfunction kernel = emu_function(emu_compile("extern \"C\" __global__ void k(const float *a, float *b) {\n"
                                               "  b[threadIdx.x] = a[threadIdx.x * 8]; }"),
                                   "k");
  CUdeviceptr a = filled(64 * 32), b = emu_alloc(256);
  EMU_OK(emu_run(kernel, 1, 64, 0, EMU_ARGS(&a, &b)));
  kiln_emu_launch_t launch = emu_last_launch();
  assert_int_equal(launch.counters.global_load_sectors, 64);
  assert_int_equal(launch.counters.bytes_read, 64 * 32);
}

/* 48 lanes copy 16 bytes each, one of them 4 more. */
static void accesses_of_16_bytes_are_counted_apart(void **state) {
  (void)state;
  CUfunction kernel =
      emu_function(emu_compile("extern \"C\" __global__ void k(const float4 *a, float4 *b) {\n"
                               "  b[threadIdx.x] = a[threadIdx.x];\n"
                               "  if (threadIdx.x == 0) b[48].y = a[48].y; }"),
                   "k");
  CUdeviceptr a = filled(49 * 16), b = emu_alloc(49 * 16);
  EMU_OK(emu_run(kernel, 1, 48, 0, EMU_ARGS(&a, &b)));
  kiln_emu_launch_t launch = emu_last_launch();
  assert_int_equal(launch.counters.global_wide_accesses, 96);
  assert_int_equal(launch.counters.global_accesses, 98);
}

/* A table of 64 bytes that all 10 blocks read, twice each, and 128 bytes of their own. */
static void what_all_blocks_read_counts_once_per_launch(void **state) {
  (void)state;
  CUfunction kernel =
      emu_function(emu_compile("extern \"C\" __global__ void k(const float *t, const float *a, float *b) {\n"
                               "  int i = blockIdx.x * 32 + threadIdx.x;\n"
                               "  b[i] = a[i] * t[threadIdx.x % 16] + t[15 - threadIdx.x % 16]; }"),
                   "k");
  CUdeviceptr t = filled(64), a = filled(1280), b = emu_alloc(1280);
  EMU_OK(emu_run(kernel, 10, 32, 0, EMU_ARGS(&t, &a, &b)));
  kiln_emu_launch_t launch = emu_last_launch();
  assert_int_equal(launch.counters.bytes_read, 1280 + 10 * 64);
  assert_int_equal(launch.counters.bytes_moved, 1280 + 64 + 1280);
}

/* Banks: 32 lanes in a row or at an odd stride need one pass, a stride of 2 words two, of 8 words eight, one
 * word one. */
static void shared_wavefronts_count_bank_conflicts(void **state) {
  (void)state;
  CUmodule module = emu_compile(
      "extern \"C\" __global__ void k(int stride, int *o) {\n"
      "  __shared__ volatile int m[1024]; for (int i = threadIdx.x; i < 1024; i += 32) m[i] = i;\n"
      "  __syncthreads(); o[threadIdx.x] = m[threadIdx.x * stride]; }");
  CUdeviceptr o = emu_alloc(128);
  static const int strides[] = {1, 2, 0, 31, 8}, passes[] = {1, 2, 1, 1, 8};
  for (int n = 0; n < 5; n++) {
    int stride = strides[n];
    EMU_OK(emu_run(emu_function(module, "k"), 1, 32, 0, EMU_ARGS(&stride, &o)));
    kiln_emu_launch_t launch = emu_last_launch();
    assert_int_equal(launch.counters.shared_store_requests, 32);
    assert_int_equal(launch.counters.shared_load_requests, 1);
    assert_int_equal(launch.counters.shared_wavefronts, 32 + passes[n]);
  }
}

static const char divergent_source[] =
    "extern \"C\" __global__ void k(int *o) {\n"
    "  int t = threadIdx.x, v = t;\n"
    "  if (t % 2) { for (int i = 0; i < t; i++) v = v * 3 + o[64 + i % 8]; }\n"
    "  __syncthreads(); o[t] = v; }";

static void counters_are_the_same_in_every_run(void **state) {
  (void)state;
  CUfunction kernel = emu_function(emu_compile(divergent_source), "k");
  kiln_emu_counters_t first = {0};
  for (int run = 0; run < 5; run++) {
    CUdeviceptr o = filled(512);
    EMU_OK(emu_run(kernel, 1, 64, 0, EMU_ARGS(&o)));
    kiln_emu_launch_t launch = emu_last_launch();
    assert_true(launch.counters.divergent_branches > 0);
    assert_int_equal(launch.counters.barriers, 2);
    if (run == 0) first = launch.counters;
    assert_memory_equal(&first, &launch.counters, sizeof first);
    EMU_OK(cuMemFree_v2(o));
  }
}

static void the_json_names_every_counter(void **state) {
  (void)state;
  static char text[16384];
  size_t needed = 0;
  CUdeviceptr o = filled(512);
  EMU_OK(emu_run(emu_function(emu_compile(divergent_source), "k"), 1, 64, 0, EMU_ARGS(&o)));
  EMU_OK(kilnEmuGetLaunchesJson(NULL, 0, &needed));
  assert_true(needed > 1 && needed <= sizeof text);
  EMU_OK(kilnEmuGetLaunchesJson(text, sizeof text, &needed));
  assert_int_equal(strlen(text) + 1, needed);
#define NAMED(name, meaning) assert_non_null(strstr(text, "\"" #name "\":"));
  KILN_EMU_COUNTERS(NAMED)
#undef NAMED
  assert_non_null(strstr(text, "\"kernel\":\"k\""));
}

static void launches_are_not_recorded_while_counting_is_off(void **state) {
  (void)state;
  uint64_t total = 1;
  uint32_t count;
  CUdeviceptr o = filled(512);
  EMU_OK(kilnEmuSetCounting(0));
  EMU_OK(emu_run(emu_function(emu_compile(divergent_source), "k"), 1, 64, 0, EMU_ARGS(&o)));
  EMU_OK(kilnEmuSetCounting(1));
  EMU_OK(kilnEmuGetLaunches(0, 0, NULL, &count, &total));
  assert_int_equal(total, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_copy_moves_each_byte_once_in_and_once_out, emu_setup, emu_teardown),
      cmocka_unit_test_setup_teardown(strided_reads_request_a_sector_per_lane, emu_setup, emu_teardown),
      cmocka_unit_test_setup_teardown(accesses_of_16_bytes_are_counted_apart, emu_setup, emu_teardown),
      cmocka_unit_test_setup_teardown(what_all_blocks_read_counts_once_per_launch, emu_setup, emu_teardown),
      cmocka_unit_test_setup_teardown(shared_wavefronts_count_bank_conflicts, emu_setup, emu_teardown),
      cmocka_unit_test_setup_teardown(counters_are_the_same_in_every_run, emu_setup, emu_teardown),
      cmocka_unit_test_setup_teardown(the_json_names_every_counter, emu_setup, emu_teardown),
      cmocka_unit_test_setup_teardown(launches_are_not_recorded_while_counting_is_off, emu_setup,
                                      emu_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
