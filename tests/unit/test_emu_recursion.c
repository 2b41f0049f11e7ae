/* tests/unit/test_emu_recursion.c: functions that call themselves on the emulated device, directly, through
 * others and through pointers, each lane to a depth of its own; and the limit of a thread's stack.
 *
 * The same C functions run on the host, in the same order, for the expected values. Kernels are compiled by
 * NVRTC when the test runs; __noinline__ and results that need values of before the call keep it from making
 * loops.
 */
#include "tests/support/emu_device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LANES 64

/* One text for the device and the host. */
#define FUNCTIONS                                                                                            \
  FUNCTION(int, fibonacci, (int n), { return n < 2 ? n : fibonacci(n - 1) * 3 + fibonacci(n - 2); })         \
  FUNCTION(int, ackermann, (int m, int n), {                                                                 \
    if (m == 0) return n + 1;                                                                                \
    return n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1));                             \
  })                                                                                                         \
  DECLARE(long long, odd, (int n, long long trail))                                                          \
  FUNCTION(long long, even, (int n, long long trail),                                                        \
           { return n == 0 ? trail : odd(n - 1, trail * 5 + n) + trail; })                                   \
  FUNCTION(long long, odd, (int n, long long trail),                                                         \
           { return n == 0 ? -trail : even(n - 1, trail * 7 - n) - n; })                                     \
  FUNCTION(struct pair, split, (int n), {                                                                    \
    struct pair whole = {n, n * 0.5, {(char)n, 1, 2}};                                                       \
    if (n < 2) return whole;                                                                                 \
    struct pair left = split(n / 2), right = split(n - n / 2 - 1);                                           \
    whole.sum = left.sum + right.sum * 2 + n;                                                                \
    whole.weight = left.weight - right.weight / 2;                                                           \
    whole.tag[1] = (char)(left.tag[1] + right.tag[2]);                                                       \
    return whole;                                                                                            \
  })                                                                                                         \
  FUNCTION(int, permute, (int *items, int count, int from), {                                                \
    int own[4] = {items[0], items[1], items[2], from}, sum = 0;                                              \
    if (from == count) return items[0] * 100 + items[1] * 10 + items[2];                                     \
    for (int n = from; n < count; n++) {                                                                     \
      int kept = items[from];                                                                                \
      items[from] = items[n], items[n] = kept;                                                               \
      sum = sum * 3 + permute(items, count, from + 1) + own[(n + from) & 3];                                 \
      kept = items[from];                                                                                    \
      items[from] = items[n], items[n] = kept;                                                               \
    }                                                                                                        \
    return sum;                                                                                              \
  })

struct pair {
  int sum;
  double weight;
  char tag[3];
};
#define DECLARE(type, name, parameters) static type name parameters;
#define FUNCTION(type, name, parameters, ...) static type name parameters __VA_ARGS__
FUNCTIONS
#undef DECLARE
#undef FUNCTION

/* The same, as text. */
#define TEXT_(...) #__VA_ARGS__
#define TEXT(...) TEXT_(__VA_ARGS__)
#define DECLARE(type, name, parameters) __device__ type name parameters;
#define FUNCTION(type, name, parameters, ...) __device__ __noinline__ type name parameters __VA_ARGS__
static const char device_functions[] = "struct pair { int sum; double weight; char tag[3]; };\n"
                                       "#define static\n" TEXT(FUNCTIONS);
#undef DECLARE
#undef FUNCTION

static CUfunction compile(const char *kernel) {
  char *source = malloc(strlen(device_functions) + strlen(kernel) + 2);
  assert_non_null(source);
  strcpy(source, device_functions);
  strcat(source, "\n");
  strcat(source, kernel);
  CUfunction function = emu_function(emu_compile(source), "k");
  free(source);
  return function;
}

/* Every lane goes to its own depth, and comes back with its own values. */
static void functions_call_themselves_to_a_depth_of_each_lanes_own(void **state) {
  (void)state;
  long long got[LANES][6];
  CUdeviceptr out = emu_alloc(sizeof got);
  CUfunction k =
      compile("extern \"C\" __global__ void k(long long *o) {\n"
              "  int t = threadIdx.x, items[3] = {t, t + 1, t * 2};\n"
              "  o += t * 6; o[0] = fibonacci(t % 11);\n"
              "  o[1] = t & 1 ? ackermann(t % 3, t % 4) : -1;\n"
              "  o[2] = even(t % 13, t);\n"
              "  pair p = split(t % 17); o[3] = p.sum * 1000 + (long long)(p.weight * 8) + p.tag[1];\n"
              "  o[4] = permute(items, 3, 0); o[5] = items[0] * 10000 + items[1] * 100 + items[2];\n}\n");
  EMU_OK(emu_run(k, 1, LANES, 0, EMU_ARGS(&out)));
  emu_download(got, out, sizeof got);
  for (int t = 0; t < LANES; t++) {
    int items[3] = {t, t + 1, t * 2};
    struct pair p = split(t % 17);
    assert_int_equal(got[t][0], fibonacci(t % 11));
    assert_int_equal(got[t][1], t & 1 ? ackermann(t % 3, t % 4) : -1);
    assert_int_equal(got[t][2], even(t % 13, t));
    assert_int_equal(got[t][3], p.sum * 1000 + (long long)(p.weight * 8) + p.tag[1]);
    assert_int_equal(got[t][4], permute(items, 3, 0));
    assert_int_equal(got[t][5], t * 10000 + (t + 1) * 100 + t * 2);
  }
}

static void recursion_through_pointers_returns_to_each_caller(void **state) {
  (void)state;
  int got[LANES];
  CUdeviceptr out = emu_alloc(sizeof got);
  CUfunction k = compile(
      "typedef int (*step_t)(int, int);\n"
      "__device__ int up(int, int); __device__ int down(int, int);\n"
      "__device__ step_t steps[2] = {up, down};\n"
      "__device__ __noinline__ int up(int n, int x) { return n ? steps[(n + x) & 1](n - 1, x + 1) * 2 + n : x; }\n"
      "__device__ __noinline__ int down(int n, int x) { return n ? steps[n & 1](n - 1, x - 1) + x : -x; }\n"
      "extern \"C\" __global__ void k(int *o) { int t = threadIdx.x; o[t] = steps[t & 1](t % 9, t); }\n");
  EMU_OK(emu_run(k, 1, LANES, 0, EMU_ARGS(&out)));
  emu_download(got, out, sizeof got);
  for (int t = 0; t < LANES; t++) {
    int which[16], x[16], depth = t % 9, value = 0;
    which[depth] = t & 1, x[depth] = t;
    for (int n = depth; n > 0; n--) {
      which[n - 1] = which[n] ? n & 1 : (n + x[n]) & 1;
      x[n - 1] = which[n] ? x[n] - 1 : x[n] + 1;
    }
    value = which[0] ? -x[0] : x[0];
    for (int n = 1; n <= depth; n++) value = which[n] ? value + x[n] : value * 2 + n;
    assert_int_equal(got[t], value);
  }
}

/* 64 calls of 16 bytes fill the 1,024 bytes that a driver gives a thread; more are a matter of the limit. */
static void the_stack_is_as_deep_as_its_limit(void **state) {
  (void)state;
  static const char kernel[] =
      "__device__ __noinline__ int count(int n) { return n ? count(n - 1) * 2 - n : 1; }\n"
      "extern \"C\" __global__ void k(int *o, int n) { *o = count(n); }\n";
  size_t limit = 0;
  int got, depth = 500;
  unsigned want = 1;
  EMU_OK(cuCtxGetLimit(&limit, CU_LIMIT_STACK_SIZE));
  assert_int_equal(limit, 1024);
  EMU_RESULT(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1u << 20), CUDA_ERROR_INVALID_VALUE);
  EMU_RESULT(cuCtxSetLimit((CUlimit)99, 1), CUDA_ERROR_UNSUPPORTED_LIMIT);
  EMU_RESULT(cuCtxGetLimit(NULL, CU_LIMIT_STACK_SIZE), CUDA_ERROR_INVALID_VALUE);
  EMU_OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 16384));
  CUfunction k = compile(kernel);
  CUdeviceptr out = emu_alloc(sizeof got);
  EMU_OK(emu_run(k, 1, 1, 0, EMU_ARGS(&out, &depth)));
  emu_download(&got, out, sizeof got);
  for (unsigned n = 1; n <= 500; n++) want = want * 2 - n;
  assert_int_equal((unsigned)got, want);
  EMU_OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024));
  depth = 64;
  EMU_OK(emu_run(k, 1, 1, 0, EMU_ARGS(&out, &depth)));
  depth = 65;
  EMU_RESULT(emu_run(k, 1, 1, 0, EMU_ARGS(&out, &depth)), CUDA_ERROR_HARDWARE_STACK_ERROR);
  assert_non_null(strstr(emu_report(), "the thread's stack of 1024 bytes is full after 64 calls"));
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, emu_setup, emu_teardown)
  const struct CMUnitTest tests[] = {
      TEST(functions_call_themselves_to_a_depth_of_each_lanes_own),
      TEST(recursion_through_pointers_returns_to_each_caller),
      TEST(the_stack_is_as_deep_as_its_limit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
