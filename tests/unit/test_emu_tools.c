/* tests/unit/test_emu_tools.c: what libkiln-emu offers to people: CUDA lines in reports, launches that are
 * the same in every run, counters as a table, and use in place of libcuda by a program that knows nothing of
 * it. */
#include "tests/support/emu_device.h"
#include "tests/support/nvrtc_compile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static CUdeviceptr zeros(size_t bytes) {
  CUdeviceptr address = emu_alloc(bytes);
  EMU_OK(cuMemsetD8_v2(address, 0, bytes));
  return address;
}

/* --- CUDA lines --- */

/* Line 3 writes out of bounds where n is 1; line 6 does, through a function that is inlined at line 10, where
 * it is 2. */
static const char lines_source[] = "__device__ __noinline__ void early(int *p, int n) {\n"
                                   "  if (n == 1)\n"
                                   "    p[-4096] = n;\n"
                                   "}\n"
                                   "__device__ __forceinline__ void late(int *p, int n) {\n"
                                   "  p[n == 2 ? 1 << 20 : 0] = n;\n"
                                   "}\n"
                                   "extern \"C\" __global__ void k(int *p, int n) {\n"
                                   "  early(p, n);\n"
                                   "  late(p, n);\n"
                                   "}\n";

static void report_of_line(int n, const char *expected, const char *const *options) {
  char *ptx = test_nvrtc_compile(lines_source, "compute_80", options);
  CUmodule module;
  assert_non_null(ptx);
  EMU_OK(cuModuleLoadData(&module, ptx));
  free(ptx);
  CUdeviceptr p = zeros(4096);
  EMU_RESULT(emu_run(emu_function(module, "k"), 1, 1, 0, EMU_ARGS(&p, &n)), CUDA_ERROR_ILLEGAL_ADDRESS);
  const char *report = emu_report();
  assert_non_null(strstr(report, "PTX line"));
  if (expected && !strstr(report, expected)) fail_msg("no '%s' in\n%s", expected, report);
  if (!expected && strstr(report, "CUDA line")) fail_msg("a CUDA line out of nowhere in\n%s", report);
}

static void a_report_names_the_cuda_line_of_a_function(void **state) {
  (void)state;
  report_of_line(1, "test.cu:3\n", (const char *const[]){"-lineinfo", NULL});
}

static void a_report_names_the_line_at_which_a_function_is_inlined(void **state) {
  (void)state;
  report_of_line(2, "test.cu:10\n", (const char *const[]){"-lineinfo", NULL});
}

static void without_line_information_a_report_names_no_cuda_line(void **state) {
  (void)state;
  report_of_line(1, NULL, NULL);
}

/* As a producer other than NVRTC may have it: a file named before its use, no inlining, a function without
 * lines behind one with them. */
static void a_location_ends_with_its_function(void **state) {
  (void)state;
  static const char ptx[] = ".version 7.0\n.target sm_80\n.address_size 64\n.file 3 \"dir/a.cu\"\n"
                            ".visible .entry with(.param .u64 p) {\n  .reg .b64 %a;\n  .loc 3 41 1\n"
                            "  ld.param.u64 %a, [p];\n  .loc 3 42 1\n  st.global.u64 [%a], %a;\n  ret;\n}\n"
                            ".visible .entry without(.param .u64 p) {\n  .reg .b64 %a;\n"
                            "  ld.param.u64 %a, [p];\n  st.global.u64 [%a], %a;\n  ret;\n}\n";
  for (int n = 0; n < 2; n++) {
    CUcontext context;
    CUmodule module;
    CUdeviceptr null = 0;
    EMU_OK(cuCtxCreate_v2(&context, 0, 0));
    EMU_OK(cuModuleLoadData(&module, ptx));
    EMU_RESULT(emu_run(emu_function(module, n ? "without" : "with"), 1, 1, 0, EMU_ARGS(&null)),
               CUDA_ERROR_ILLEGAL_ADDRESS);
    const char *report = emu_report();
    assert_non_null(strstr(report, n ? "PTX line 16\n" : "PTX line 10, CUDA line dir/a.cu:42\n"));
    EMU_OK(cuCtxDestroy_v2(context));
    EMU_OK(cuCtxSetCurrent(*state));
  }
}

/* --- launches that wait across blocks --- */

/* A look-back chain: each block waits for the sum of the one before it. */
static const char chain_source[] = "extern \"C\" __global__ void chain(volatile unsigned *sums) {\n"
                                   "  if (threadIdx.x == 0) {\n"
                                   "    unsigned before = 0;\n"
                                   "    if (blockIdx.x) while ((before = sums[blockIdx.x - 1]) == 0) ;\n"
                                   "    sums[blockIdx.x] = before + 1;\n"
                                   "  }\n"
                                   "}\n"
                                   "extern \"C\" __global__ void meet(unsigned *arrived) {\n"
                                   "  for (unsigned round = 1; round <= 3; round++) {\n"
                                   "    if (threadIdx.x == 0) {\n"
                                   "      __threadfence(); atomicAdd(arrived, 1u);\n"
                                   "      while (*(volatile unsigned *)arrived < round * gridDim.x) ;\n"
                                   "    }\n"
                                   "    __syncthreads();\n"
                                   "  }\n"
                                   "}\n";

/* The counters and the last word of memory after each of several runs are those of the first. */
static void runs_are_alike(CUfunction kernel, unsigned grid, unsigned last) {
  kiln_emu_launch_t first = {0};
  for (int run = 0; run < 4; run++) {
    CUdeviceptr memory = zeros(4 * (size_t)grid);
    unsigned word;
    EMU_OK(emu_run(kernel, grid, 64, 0, EMU_ARGS(&memory)));
    emu_download(&word, memory + 4 * (size_t)last, 4);
    assert_int_equal(word, last ? grid : 3 * grid);
    EMU_OK(cuMemFree_v2(memory));
    kiln_emu_launch_t launch = emu_last_launch();
    assert_int_equal(launch.schedule_dependent, 1);
    if (run == 0) first = launch;
    assert_memory_equal(&first.counters, &launch.counters, sizeof first.counters);
  }
}

static void a_look_back_chain_counts_the_same_under_the_deterministic_schedule(void **state) {
  (void)state;
  CUfunction kernel = emu_function(emu_compile(chain_source), "chain");
  EMU_OK(kilnEmuSetDeterministic(1));
  runs_are_alike(kernel, 200, 199);
  EMU_OK(kilnEmuSetDeterministic(0));
}

static void a_grid_barrier_counts_the_same_under_the_deterministic_schedule(void **state) {
  (void)state;
  CUfunction kernel = emu_function(emu_compile(chain_source), "meet");
  EMU_OK(kilnEmuSetDeterministic(1));
  runs_are_alike(kernel, 132, 0);
  EMU_OK(kilnEmuSetDeterministic(0));
}

/* --- the table --- */

static void the_table_reads_as_sentences_with_the_numbers_of_the_record(void **state) {
  (void)state;
  static const char source[] = "extern \"C\" __global__ void copy(const float *a, float *b) {\n"
                               "  int i = blockIdx.x * 256 + threadIdx.x; b[i] = a[i]; }";
  static char text[4096];
  size_t needed;
  CUdeviceptr a = zeros(16384), b = emu_alloc(16384);
  EMU_OK(emu_run(emu_function(emu_compile(source), "copy"), 16, 256, 0, EMU_ARGS(&a, &b)));
  EMU_OK(kilnEmuGetLaunchesText(text, sizeof text, &needed));
  assert_int_equal(needed, strlen(text) + 1);
  const char *const parts[] = {"copy: grid 16 x 1 x 1, block 256 x 1 x 1\n",
                               "32,768 moved; per block 16,384 read, 16,384 written",
                               "128 requests for 512 sectors", "32.0 lanes each", "(an estimate)"};
  for (size_t n = 0; n < sizeof parts / sizeof parts[0]; n++)
    if (!strstr(text, parts[n])) fail_msg("no '%s' in\n%s", parts[n], text);
  assert_null(strstr(text, "barriers"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, emu_setup, emu_teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(a_report_names_the_cuda_line_of_a_function),
      TEST(a_report_names_the_line_at_which_a_function_is_inlined),
      TEST(without_line_information_a_report_names_no_cuda_line),
      TEST(a_location_ends_with_its_function),
      TEST(a_look_back_chain_counts_the_same_under_the_deterministic_schedule),
      TEST(a_grid_barrier_counts_the_same_under_the_deterministic_schedule),
      TEST(the_table_reads_as_sentences_with_the_numbers_of_the_record),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
