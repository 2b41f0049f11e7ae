/* tests/unit/test_conform_cuda.c: conformance of CUDA C++ as NVRTC compiles it: the half and bfloat16
 * headers, constants, structured parameters, printf, clocks.
 *
 * The headers are the CUDA toolkit's or its PyPI package's; where both are absent those tests are skipped
 * with a reason. Every half goes through every unary function. The last bits of approximate functions are
 * open; bounds are those of the headers' documentation, one unit in the last place where they state round to
 * nearest. Labels: device */
#include "tests/support/conform.h"
#include "tests/support/cuda_headers.h"
#include "tests/support/nvrtc_compile.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
// clang-format on
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HALVES 65536u

/* --- headers --- */

static double reciprocal(double x) { return 1 / x; }
static double reciprocal_sqrt(double x) { return 1 / sqrt(x); }
static double negated(double x) { return -x; }
static double twice(double x) { return x + x; }
/* Where 1 is lost in the square's last place it still decides ties: the next number stands for it. */
static double squared_plus_one(double x) { return x * x >= 0x1p53 ? nextafter(x * x, INFINITY) : x * x + 1; }
static double relu_of_square(double x) { return x * x - 1 < 0 ? 0 : x * x - 1; }
static double is_positive(double x) { return x > 0 ? 1 : 0; }

/* Functions of a half `x`; T stands for its type. `ulps` of 0: the result is the exact one, rounded. */
typedef struct {
  const char *expression;
  double (*reference)(double x);
  int ulps;
} function_t;

static const function_t functions[] = {
    {"hsqrt(x)", sqrt, 1},
    {"hrsqrt(x)", reciprocal_sqrt, 1},
    {"hrcp(x)", reciprocal, 1},
    {"hexp2(x)", exp2, 2},
    {"hexp(x)", exp, 2},
    {"hlog2(x)", log2, 2},
    {"hlog(x)", log, 2},
    {"hfloor(x)", floor, 0},
    {"hceil(x)", ceil, 0},
    {"htrunc(x)", trunc, 0},
    {"hrint(x)", nearbyint, 0},
    {"__habs(x)", fabs, 0},
    {"__hneg(x)", negated, 0},
    {"__hadd(x, x)", twice, 0},
    {"__hfma(x, x, T(1.0f))", squared_plus_one, 0},
    {"__hfma_relu(x, x, T(-1.0f))", relu_of_square, 0},
    {"__hgt(x, T(0.0f)) ? T(1.0f) : T(0.0f)", is_positive, 0},
    {"__low2half(__hmul2(__halves2half2(x, x), __float2half2_rn(2.0f)))", twice, 0},
    {"__low2half(__hgt2(__halves2half2(x, x), __float2half2_rn(0.0f)))", is_positive, 0},
    {"__hbgt2(__halves2half2(x, x), __float2half2_rn(0.0f)) ? T(1.0f) : T(0.0f)", is_positive, 0},
    {"T(0.0f) + T(float(x) * 2.0f)", twice, 0},
};
#define FUNCTIONS (sizeof functions / sizeof functions[0])

/* In bfloat16's header some functions have other names. */
static void spell(char *text, size_t capacity, const char *expression, bool brain) {
  static const char *const names[][2] = {{"__low2half(", "__low2bfloat16("},
                                         {"__halves2half2(", "__halves2bfloat162("},
                                         {"__float2half2_rn(", "__float2bfloat162_rn("}};
  size_t length = 0;
  while (*expression && length + 32 < capacity) {
    size_t n = 0;
    while (n < 3 && strncmp(expression, names[n][0], strlen(names[n][0])) != 0) n++;
    if (brain && n < 3) {
      length += (size_t)snprintf(text + length, capacity - length, "%s", names[n][1]);
      expression += strlen(names[n][0]);
    } else {
      text[length++] = *expression++;
    }
  }
  text[length] = 0;
}

static char *write_source(bool brain) {
  size_t capacity = 16384;
  char *source = malloc(capacity), expression[512];
  assert_non_null(source);
  int length = snprintf(source, capacity,
                        "#include <cuda_%s.h>\ntypedef %s T;\n"
                        "extern \"C\" __global__ void k(const T *a, T *d) {\n"
                        "  unsigned i = blockIdx.x * blockDim.x + threadIdx.x; T x = a[i];\n",
                        brain ? "bf16" : "fp16", brain ? "__nv_bfloat16" : "__half");
  for (size_t n = 0; n < FUNCTIONS; n++) {
    spell(expression, sizeof expression, functions[n].expression, brain);
    length += snprintf(source + length, capacity - (size_t)length, "  d[%zu * %u + i] = %s;\n", n, HALVES,
                       expression);
  }
  snprintf(source + length, capacity - (size_t)length, "}\n");
  return source;
}

/* The distance to the neighbouring half of the value's size. */
static double unit(double value, bool brain) {
  int exponent, least = brain ? -126 : -14, fraction = brain ? 7 : 10;
  frexp(value, &exponent);
  exponent = exponent - 1 < least ? least : exponent - 1;
  return ldexp(1, exponent - fraction);
}

static bool right(const function_t *f, uint16_t in, uint16_t out, bool brain) {
  const char *type = brain ? "bf16" : "f16";
  double want = f->reference(conform_value(type, in)), got = conform_value(type, out);
  double rounded = conform_value(type, brain ? conform_round_bf16(want) : conform_round_f16(want));
  if (want != want || got != got) return want != want && got != got;
  if (got == rounded) return true;
  return f->ulps && isfinite(got) && fabs(got - want) <= f->ulps * unit(want, brain);
}

static void check_header(bool brain, const char *architecture) {
  static uint16_t in[HALVES], out[FUNCTIONS * HALVES];
  char *source = write_source(brain),
       *ptx = test_nvrtc_compile(source, architecture, test_cuda_include_options());
  assert_non_null(ptx);
  for (uint32_t n = 0; n < HALVES; n++) in[n] = (uint16_t)n;
  CUdeviceptr a = emu_upload(in, sizeof in), d = emu_alloc(sizeof out);
  EMU_OK(emu_run(conform_kernel(ptx), HALVES / 256, 256, 0, EMU_ARGS(&a, &d)));
  emu_download(out, d, sizeof out);
  for (size_t f = 0; f < FUNCTIONS; f++)
    for (uint32_t n = 0; n < HALVES; n++)
      if (!right(&functions[f], in[n], out[f * HALVES + n], brain))
        fail_msg("%s, %s for %s: of %04x it is %04x", brain ? "bf16" : "f16", functions[f].expression,
                 architecture, in[n], out[f * HALVES + n]);
  emu_free(a);
  emu_free(d);
  free(source);
  free(ptx);
}

static void every_half_goes_through_the_functions_of_the_half_headers(void **state) {
  (void)state;
  if (!test_cuda_include_options()) {
    print_message("skipped: no <cuda_fp16.h> of a CUDA toolkit or PyPI package\n");
    skip();
  }
  for (int brain = 0; brain < 2; brain++) {
    check_header(brain, "compute_80");
    check_header(brain, "compute_90");
  }
}

/* --- constants, parameters, shared memory --- */

static void constants_parameters_and_dynamic_shared_memory_reach_the_kernel(void **state) {
  (void)state;
  static const char source[] =
      "struct part { char tag; double weight; short pair[3]; };\n"
      "struct given_t { struct part parts[4]; const int *table; unsigned long long big; };\n"
      "__constant__ int squares[8] = {0, 1, 4, 9, 16, 25, 36, 49};\n"
      "__constant__ struct { float f; char text[8]; double d; } mixed = {1.5f, \"kiln\", -2.25};\n"
      "__device__ int counter = 40;\n"
      "__device__ const char *names[2] = {\"one\", \"two\"};\n"
      "extern __shared__ int dynamic[];\n"
      "extern \"C\" __global__ void k(const given_t given, double *d) {\n"
      "  __shared__ int fixed[32]; int t = threadIdx.x;\n"
      "  fixed[t] = squares[t & 7]; dynamic[t] = given.table[t] + counter;\n"
      "  __syncthreads();\n"
      "  d[t] = given.parts[t & 3].tag + given.parts[t & 3].weight + given.parts[t & 3].pair[t % 3]\n"
      "    + fixed[31 - t] + dynamic[31 - t] + mixed.f + mixed.text[t & 3] + mixed.d + names[t & 1][0]\n"
      "    + (double)given.big;\n}\n";
  typedef struct {
    char tag;
    double weight;
    short pair[3];
  } part_t;
  struct {
    part_t parts[4];
    CUdeviceptr table;
    unsigned long long big;
  } given = {.big = 1ull << 40};
  int table[32];
  double d[32];
  for (int n = 0; n < 4; n++)
    given.parts[n] = (part_t){(char)(n + 1), n * 0.5, {(short)-n, 7, (short)(n * 9)}};
  for (int n = 0; n < 32; n++) table[n] = n * n;
  given.table = emu_upload(table, sizeof table);
  CUdeviceptr out = emu_alloc(sizeof d);
  EMU_OK(emu_run(emu_function(emu_compile(source), "k"), 1, 32, 32 * 4, EMU_ARGS(&given, &out)));
  emu_download(d, out, sizeof d);
  for (int t = 0; t < 32; t++) {
    const part_t *p = &given.parts[t & 3];
    double want = p->tag + p->weight + p->pair[t % 3] + ((31 - t) & 7) * ((31 - t) & 7) + table[31 - t] + 40 +
                  1.5 + "kiln"[t & 3] - 2.25 + "ot"[t & 1] + 0x1p40;
    assert_true(d[t] == want);
  }
}

/* --- calls through pointers --- */

static void calls_through_pointers_reach_the_function_that_each_lane_names(void **state) {
  (void)state;
  static const char source[] =
      "typedef int (*function_t)(int, int);\n"
      "__device__ __noinline__ int sum(int x, int y) { return x + y; }\n"
      "__device__ __noinline__ int product(int x, int y) { return x * y; }\n"
      "__device__ __noinline__ int power(int x, int y) { int r = 1; while (y-- > 0) r *= x; return r; }\n"
      "__device__ __noinline__ long long other(long long x) { return x; }\n"
      "__device__ function_t table[3] = {sum, product, power};\n"
      "extern \"C\" __global__ void k(int *d, int stride) {\n"
      "  int t = threadIdx.x; long long (*single)(long long) = stride > 100 ? 0 : other;\n"
      "  function_t f = table[t * stride % 3];\n"
      "  d[t] = f(t, 3) + (int)single(f(t, 2)); }\n"
      "extern \"C\" __global__ void wild(int *d) { ((function_t)d)(1, 2); }\n";
  int d[32], stride = 2;
  CUmodule module = emu_compile(source);
  CUdeviceptr out = emu_alloc(sizeof d);
  EMU_OK(emu_run(emu_function(module, "k"), 1, 32, 0, EMU_ARGS(&out, &stride)));
  emu_download(d, out, sizeof d);
  for (int t = 0; t < 32; t++) {
    int f = t * stride % 3;
    assert_int_equal(d[t], f == 0 ? t + 3 + t + 2 : f == 1 ? t * 3 + t * 2 : t * t * t + t * t);
  }
  if (test_on_cuda()) return; /* where a wild jump ends is the hardware's business, and the process's end */
  EMU_RESULT(emu_run(emu_function(module, "wild"), 1, 1, 0, EMU_ARGS(&out)), CUDA_ERROR_INVALID_PC);
  assert_non_null(strstr(emu_report(), "a call through a pointer to no function"));
}

/* --- printf, clocks --- */

static void read_output_of(CUfunction function, char *text, size_t capacity) {
  fflush(stdout);
  int saved = dup(1);
  FILE *file = tmpfile();
  assert_non_null(file);
  dup2(fileno(file), 1);
  CUresult result = emu_run(function, 1, 1, 0, EMU_ARGS(NULL));
  fflush(stdout);
  dup2(saved, 1);
  close(saved);
  EMU_OK(result);
  rewind(file);
  size_t length = fread(text, 1, capacity - 1, file);
  text[length] = 0;
  fclose(file);
}

static void printf_formats_as_the_host_does(void **state) {
  (void)state;
  static const char source[] =
      "extern \"C\" __global__ void k() {\n"
      "  printf(\"%d|%5i|%-5d|%+d|%05u|%#x|%X|%o|%c|%s|%10s|%-6s|%.2s\\n\", -7, 42, 42, 42, 42u, 255u, 0xbeefu, 8u,\n"
      "         'k', \"kiln\", \"kiln\", \"ki\", \"kiln\");\n"
      "  printf(\"%f|%.3f|%e|%G|%10.2f|%lld|%llu|%ld|%%\\n\", 1.5, 3.14159, 12345.678, 1e-10, -2.5, -1234567890123ll,\n"
      "         12345678901234567890ull, -5l);\n"
      "  printf(\"%*d|%-*d|%.*f|%hhd|%hd\\n\", 6, 42, 6, 42, 2, 2.71828, 300, 70000);\n"
      "  printf(\"no arguments\\n\");\n}\n";
  char text[1024], want[1024];
  int length = snprintf(want, sizeof want, "%d|%5i|%-5d|%+d|%05u|%#x|%X|%o|%c|%s|%10s|%-6s|%.2s\n", -7, 42,
                        42, 42, 42u, 255u, 0xbeefu, 8u, 'k', "kiln", "kiln", "ki", "kiln");
  snprintf(want + length, sizeof want - (size_t)length,
           "%f|%.3f|%e|%G|%10.2f|%lld|%llu|%ld|%%\n%s\nno arguments\n", 1.5, 3.14159, 12345.678, 1e-10, -2.5,
           -1234567890123ll, 12345678901234567890ull, -5l, "    42|42    |2.72|44|4464");
  read_output_of(emu_function(emu_compile(source), "k"), text, sizeof text);
  assert_string_equal(text, want);
}

static void clocks_go_forward_and_sleep_returns(void **state) {
  (void)state;
  static const char source[] = "extern \"C\" __global__ void k(long long *d) {\n"
                               "  long long c = clock64(), g, h; int n = clock();\n"
                               "  asm volatile(\"mov.u64 %0, %globaltimer;\" : \"=l\"(g));\n"
                               "  __nanosleep(1000);\n"
                               "  for (volatile int i = 0; i < 1000; i = i + 1) ;\n"
                               "  asm volatile(\"mov.u64 %0, %globaltimer;\" : \"=l\"(h));\n"
                               "  d[0] = clock64() - c; d[1] = h - g; d[2] = clock() - n;\n}\n";
  long long d[3];
  CUdeviceptr out = emu_alloc(sizeof d);
  EMU_OK(emu_run(emu_function(emu_compile(source), "k"), 1, 1, 0, EMU_ARGS(&out)));
  emu_download(d, out, sizeof d);
  assert_true(d[0] >= 1000 && d[0] < 1000000);
  assert_true(d[1] > 0);
  assert_true(d[2] >= 1000);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, emu_setup, emu_teardown)
  const struct CMUnitTest tests[] = {
      TEST(every_half_goes_through_the_functions_of_the_half_headers),
      TEST(constants_parameters_and_dynamic_shared_memory_reach_the_kernel),
      TEST(calls_through_pointers_reach_the_function_that_each_lane_names),
      TEST(printf_formats_as_the_host_does),
      TEST(clocks_go_forward_and_sleep_returns),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
