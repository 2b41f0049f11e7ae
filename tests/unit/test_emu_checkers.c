/* tests/unit/test_emu_checkers.c: every checker as a row of one table: a kernel with a planted fault that it
 * finds, the same kernel without it, on which it stays silent.
 *
 * `bad` is the kernel's last parameter: 1 plants the fault. Each report must name kernel, block, thread, PTX
 * line and CUDA line, and the address or what else the fault is about. The faults of two checkers need more
 * than a kernel and have tests of their own: use after free in test_emu_faults.c, leaks here.
 */
#include "tests/support/emu_device.h"
#include "tests/support/nvrtc_compile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define KERNEL "extern \"C\" __global__ void k(int *p, int bad) {\n"

typedef struct {
  const char *name;
  const char *body; /* begins on line 2; p has 1,024 ints, zero but for the last 256, which nobody wrote */
  unsigned grid, block; /* one-dimensional */
  CUresult result;
  unsigned checker;   /* that finds it; 0: always on */
  const char *report; /* what it says besides the place */
  const char *place;  /* block and thread, where they are the same in every run */
  const char *line;   /* of the CUDA source */
} row_t;

/* clang-format off */
static const row_t rows[] = {
  {"global memory, out of bounds", "p[threadIdx.x + (bad ? 1000 : 0)] = 1; }", 1, 64,
   CUDA_ERROR_ILLEGAL_ADDRESS, 0, "invalid write of 4 bytes at global address 0x", "block (0,0,0), thread (24,0,0)", ":2"},
  {"global memory, misaligned", "*(int *)((char *)p + bad * 2) = 1; }", 1, 1,
   CUDA_ERROR_MISALIGNED_ADDRESS, 0, "misaligned write of 4 bytes at global address 0x", "block (0,0,0), thread (0,0,0)", ":2"},
  {"shared memory, out of bounds", "extern __shared__ int s[]; s[threadIdx.x + bad * 60] = 1;\n __syncthreads(); p[0] = s[0]; }", 1, 32,
   CUDA_ERROR_ILLEGAL_ADDRESS, 0, "shared address 0x", "thread (4,0,0)", ":2"},
  {"shared memory, misaligned", "extern __shared__ int s[]; *(int *)((char *)s + bad) = 1; p[0] = s[0]; }", 1, 1,
   CUDA_ERROR_MISALIGNED_ADDRESS, 0, "misaligned write of 4 bytes at shared address 0x1", "thread (0,0,0)", ":2"},
  {"local memory, out of bounds", "volatile int a[16];\n for (int i = 0; i < 16; i++) a[i] = i;\n p[0] = a[bad << 20]; }", 1, 1,
   CUDA_ERROR_ILLEGAL_ADDRESS, 0, "local address 0x", "thread (0,0,0)", ":4"},
  {"global memory, never written", "p[0] = p[bad ? 800 : 8]; }", 1, 1,
   CUDA_SUCCESS, KILN_EMU_CHECK_INIT, "read of 4 bytes that nobody wrote, 3200 bytes into an allocation of 4096", "thread (0,0,0)", ":2"},
  {"shared memory, never written", "__shared__ int s[64]; if (!bad || threadIdx.x != 9) s[threadIdx.x] = 1;\n __syncwarp();\n p[threadIdx.x] = s[threadIdx.x]; }", 1, 32,
   CUDA_SUCCESS, KILN_EMU_CHECK_INIT, "read of shared memory that nobody wrote, at 0x24", "thread (9,0,0)", ":4"},
  {"race in shared memory, read after write", "__shared__ int s[64]; s[threadIdx.x] = 1;\n if (!bad) __syncthreads();\n p[threadIdx.x] = s[63 - threadIdx.x]; }", 1, 64,
   CUDA_SUCCESS, KILN_EMU_CHECK_RACE, "race in shared memory at 0x", "block (0,0,0)", ":4"},
  {"race in shared memory, write after read", "__shared__ int s[64]; s[threadIdx.x] = 1; __syncthreads();\n p[threadIdx.x] = s[63 - threadIdx.x];\n if (!bad) __syncthreads();\n s[threadIdx.x] = 2; }", 1, 64,
   CUDA_SUCCESS, KILN_EMU_CHECK_RACE, "race in shared memory at 0x", "block (0,0,0)", ":5"},
  {"race in shared memory, write after write", "__shared__ int s[1]; if (!bad || threadIdx.x % 32 == 0) { if (bad || threadIdx.x == 0) s[0] = threadIdx.x; }\n __syncthreads(); p[0] = s[0]; }", 1, 64,
   CUDA_SUCCESS, KILN_EMU_CHECK_RACE, "race in shared memory at 0x0: written by another warp", "block (0,0,0), thread (32,0,0)", ":2"},
  {"race in global memory, write after write", "p[threadIdx.x + (bad ? 0 : 32 * blockIdx.x)] = 1; }", 2, 32,
   CUDA_SUCCESS, KILN_EMU_CHECK_RACE, "race in global memory, 0 bytes into an allocation of 4096", "thread (0,0,0)", ":2"},
  {"race in global memory, read and write", "int i = threadIdx.x + 32 * blockIdx.x;\n p[i] = p[bad ? 63 - i : i]; }", 2, 32,
   CUDA_SUCCESS, KILN_EMU_CHECK_RACE, "race in global memory", "block (1,0,0)", ":3"},
  {"global memory, a row's last element never written", "p[threadIdx.x] = p[threadIdx.x + (bad ? 737 : 700)]; }", 1, 32,
   CUDA_SUCCESS, KILN_EMU_CHECK_INIT, "read of 4 bytes that nobody wrote, 3072 bytes into an allocation of 4096", "thread (31,0,0)", ":2"},
  {"race in global memory, rows that share one element", "p[threadIdx.x + (bad ? 31 : 32) * blockIdx.x] = 1; }", 2, 32,
   CUDA_SUCCESS, KILN_EMU_CHECK_RACE, "race in global memory, 124 bytes into an allocation of 4096: written", "block (1,0,0), thread (0,0,0)", ":2"},
  {"race in global memory, bytes of one word", "((char *)p)[2 * threadIdx.x + (bad ? 0 : blockIdx.x)] = 1; }", 2, 32,
   CUDA_SUCCESS, KILN_EMU_CHECK_RACE, "race in global memory, 0 bytes into an allocation of 4096: written", "block (1,0,0), thread (0,0,0)", ":2"},
  {"shared memory, a row's first element never written", "__shared__ int s[64]; if (!bad || threadIdx.x) s[threadIdx.x] = 1;\n __syncthreads();\n p[threadIdx.x] = s[threadIdx.x]; }", 1, 64,
   CUDA_SUCCESS, KILN_EMU_CHECK_INIT, "read of shared memory that nobody wrote, at 0x0", "thread (0,0,0)", ":4"},
  {"race in shared memory, rows that share one element", "__shared__ int s[64]; s[threadIdx.x - (bad && threadIdx.x >= 32)] = 1;\n __syncthreads(); p[threadIdx.x] = s[threadIdx.x / 2]; }", 1, 64,
   CUDA_SUCCESS, KILN_EMU_CHECK_RACE, "race in shared memory at 0x7c: written", "thread (32,0,0)", ":2"},
  {"race in shared memory, bytes of one word", "__shared__ char s[64]; s[2 * (threadIdx.x % 32) + (bad ? 0 : threadIdx.x / 32)] = 1;\n __syncthreads(); p[threadIdx.x] = s[2 * (threadIdx.x / 2)]; }", 1, 64,
   CUDA_SUCCESS, KILN_EMU_CHECK_RACE, "race in shared memory at 0x0: written", "thread (32,0,0)", ":2"},
  {"race in shared memory, ordered by a barrier of two warps but not for the third", "__shared__ int s[32]; if (threadIdx.x < 32) s[threadIdx.x] = 1;\n if (threadIdx.x < 64) asm volatile(\"bar.sync 1, 64;\");\n if (threadIdx.x / 32 == (bad ? 2 : 1)) p[threadIdx.x] = s[threadIdx.x % 32]; }", 1, 96,
   CUDA_SUCCESS, KILN_EMU_CHECK_RACE, "race in shared memory at 0x0: written", "thread (64,0,0)", ":4"},
  {"barriers that diverge", "if (bad && threadIdx.x % 2) asm volatile(\"bar.sync 0;\");\n else asm volatile(\"bar.sync 0;\"); }", 1, 32,
   CUDA_SUCCESS, KILN_EMU_CHECK_BARRIER, "barrier divergence", "block (0,0,0)", ":"},
  {"a barrier that not all reach", "if (threadIdx.x < 32) { if (bad) asm volatile(\"bar.sync 1, 64;\"); else asm volatile(\"bar.sync 1, 32;\"); } }", 1, 64,
   CUDA_ERROR_LAUNCH_TIMEOUT, 0, "waits for ever", "block (0,0,0), thread (0,0,0)", ":2"},
  {"a shuffle's mask without the lane", "if (threadIdx.x < 16) p[threadIdx.x] = __shfl_xor_sync(bad ? 0xfff0 : 0xffff, threadIdx.x, 1); }", 1, 32,
   CUDA_SUCCESS, KILN_EMU_CHECK_SHUFFLE, "mask 0x0000fff0, which does not name it", "thread (0,0,0)", ""},
  {"a shuffle from a lane that takes no part", "if (threadIdx.x < 16) p[threadIdx.x] = __shfl_sync(0xffff, threadIdx.x, bad ? 20 : 3); }", 1, 32,
   CUDA_SUCCESS, KILN_EMU_CHECK_SHUFFLE, "a shuffle reads lane 20", "thread (0,0,0)", ""},
  {"an assertion", "if (bad) __assertfail(\"!bad\", \"here.cu\", 12, \"k\", 1); }", 1, 1,
   CUDA_ERROR_ASSERT, 0, "assertion failed: !bad, at here.cu:12", "thread (0,0,0)", ":2"},
};
/* clang-format on */

static CUfunction compile(const row_t *row) {
  char source[1024];
  CUmodule module;
  snprintf(source, sizeof source, KERNEL "%s\n", row->body);
  char *ptx = test_nvrtc_compile(source, "compute_80", (const char *const[]){"-lineinfo", NULL});
  if (!ptx) fail_msg("%s does not compile", row->name);
  EMU_OK(cuModuleLoadData(&module, ptx));
  free(ptx);
  return emu_function(module, "k");
}

static void run(const row_t *row, int bad) {
  CUdeviceptr p = emu_alloc(4096);
  EMU_OK(cuMemsetD8_v2(p, 0, 3072));
  CUfunction kernel = compile(row);
  CUresult result = emu_run(kernel, row->grid, row->block, 256, EMU_ARGS(&p, &bad)),
           wanted = bad ? row->result : CUDA_SUCCESS;
  char report[4096], line[64];
  snprintf(report, sizeof report, "%s", emu_report());
  if (result != wanted) fail_msg("%s, bad %d: %d instead of %d\n%s", row->name, bad, result, wanted, report);
  if (!bad && report[0]) fail_msg("%s: a clean kernel was reported:\n%s", row->name, report);
  if (!bad) return;
  snprintf(line, sizeof line, "test.cu%s", row->line);
  const char *const parts[] = {row->report, row->place, line, "kernel k", "PTX line "};
  for (size_t n = 0; n < sizeof parts / sizeof parts[0]; n++)
    if (!strstr(report, parts[n])) fail_msg("%s: no '%s' in\n%s", row->name, parts[n], report);
}

static void each_checker_finds_its_fault_and_is_silent_without_it(void **state) {
  for (size_t n = 0; n < sizeof rows / sizeof rows[0]; n++) {
    for (int bad = 0; bad <= 1; bad++) { /* a context each: faults stick */
      CUcontext context;
      EMU_OK(cuCtxCreate_v2(&context, 0, 0));
      run(&rows[n], bad);
      EMU_OK(cuCtxDestroy_v2(context));
    }
  }
  EMU_OK(cuCtxSetCurrent(*state));
}

static void a_checker_that_is_off_is_silent_while_the_others_are_on(void **state) {
  (void)state;
  for (size_t n = 0; n < sizeof rows / sizeof rows[0]; n++) {
    int bad = 1;
    if (!rows[n].checker) continue;
    EMU_OK(kilnEmuSetChecks(KILN_EMU_CHECK_ALL & ~(KILN_EMU_CHECK_LEAK | rows[n].checker)));
    CUdeviceptr p = emu_alloc(4096);
    EMU_OK(cuMemsetD8_v2(p, 0, 3072));
    EMU_OK(emu_run(compile(&rows[n]), rows[n].grid, rows[n].block, 256, EMU_ARGS(&p, &bad)));
    const char *report = emu_report();
    if (strstr(report, rows[n].report)) fail_msg("%s, its checker off:\n%s", rows[n].name, report);
  }
  EMU_OK(kilnEmuSetChecks(KILN_EMU_CHECK_ALL & ~KILN_EMU_CHECK_LEAK));
}

/* What a context that ends with `kept` allocations alive writes to standard error. */
static void end_context(int kept, char *said, size_t capacity) {
  FILE *capture = tmpfile();
  int saved = dup(STDERR_FILENO);
  CUcontext context;
  CUdeviceptr p;
  assert_non_null(capture);
  dup2(fileno(capture), STDERR_FILENO);
  kilnEmuSetChecks(KILN_EMU_CHECK_ALL);
  CUresult result = cuCtxCreate_v2(&context, 0, 0);
  for (int n = 0; n < 3; n++) {
    if (!result) result = cuMemAlloc_v2(&p, 1000);
    if (!result && n >= kept) result = cuMemFree_v2(p);
  }
  if (!result) result = cuCtxDestroy_v2(context);
  dup2(saved, STDERR_FILENO);
  close(saved);
  rewind(capture);
  said[fread(said, 1, capacity - 1, capture)] = 0;
  fclose(capture);
  EMU_OK(result);
}

static void allocations_alive_at_the_end_of_a_context_are_counted(void **state) {
  char said[512];
  end_context(2, said, sizeof said);
  assert_non_null(strstr(said, "2 allocations of 2000 bytes were never freed"));
  end_context(0, said, sizeof said);
  assert_string_equal(said, "");
  EMU_OK(kilnEmuSetChecks(KILN_EMU_CHECK_ALL & ~KILN_EMU_CHECK_LEAK));
  EMU_OK(cuCtxSetCurrent(*state));
}

/* Stamps of the race checker hold a launch's number in ten bits: those of launches long past must not be
 * taken for this one's. The 1,023rd launch after one writes each of its elements in the other block; those
 * between write elsewhere. */
static void launches_long_past_are_no_part_of_a_race(void **state) {
  (void)state;
  char *ptx = test_nvrtc_compile("extern \"C\" __global__ void k(int *p, int flip) {\n"
                                 "  p[32 * (flip ? 1 - blockIdx.x : blockIdx.x) + threadIdx.x] = 1; }\n",
                                 "compute_80", NULL);
  CUmodule module;
  EMU_OK(cuModuleLoadData(&module, ptx));
  free(ptx);
  CUfunction kernel = emu_function(module, "k");
  CUdeviceptr p = emu_alloc(256), elsewhere = emu_alloc(256);
  for (int n = 0; n <= 1023; n++) {
    int flip = n == 1023;
    EMU_OK(emu_run(kernel, 2, 32, 0, EMU_ARGS(n % 1023 ? &elsewhere : &p, &flip)));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(each_checker_finds_its_fault_and_is_silent_without_it, emu_setup,
                                      emu_teardown),
      cmocka_unit_test_setup_teardown(a_checker_that_is_off_is_silent_while_the_others_are_on, emu_setup,
                                      emu_teardown),
      cmocka_unit_test_setup_teardown(launches_long_past_are_no_part_of_a_race, emu_setup, emu_teardown),
      cmocka_unit_test_setup_teardown(allocations_alive_at_the_end_of_a_context_are_counted, emu_setup,
                                      emu_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
