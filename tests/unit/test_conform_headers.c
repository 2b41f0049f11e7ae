/* tests/unit/test_conform_headers.c: every function of CUDA's headers compiles to PTX that the emulated
 * device loads: half precision, bfloat16, 8-bit floats, the math library in float and double, intrinsics,
 * warp functions and atomics, for each target from compute_75 to compute_90.
 *
 * The functions are those that the headers of the installed CUDA declare, so that a new toolkit brings its
 * own. One kernel calls one function with operands from memory and stores its result. What NVRTC itself does
 * not compile for a target (functions of newer targets, of the host, of other compilers) is left out and
 * counted; functions named in the test must be there. Labels: release-only
 */
#include "tests/support/cuda_headers.h"
#include "tests/support/emu_device.h"
#include "tests/support/nvrtc_compile.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  const char *header;
  const char *include;  /* what a program includes to have it; NULL where NVRTC has it built in */
  size_t least;         /* functions that must compile for compute_90 */
  const char *expected; /* names among them, with spaces around */
} group_t;

static const group_t groups[] = {
    {"cuda_fp16.h", "cuda_fp16.h", 200, " __hadd __hfma2 hexp2 htanh __half2int_rz __shfl_sync atomicAdd "},
    {"cuda_bf16.h", "cuda_bf16.h", 200,
     " __hadd __hfma2 hexp2 htanh __bfloat162int_rz __shfl_sync atomicAdd "},
    {"cuda_fp8.h", "cuda_fp8.h", 8,
     " __nv_cvt_float_to_fp8 __nv_cvt_fp8x2_to_halfraw2 __nv_cvt_double_to_fp8 "},
    {"crt/math_functions.h", NULL, 200,
     " sinf sin sincosf pow powf erfcinv tgamma lgammaf cyl_bessel_i0 j0 jnf yn normcdf rnorm4d remquof fma nextafter "},
    {"crt/device_functions.h", NULL, 150, " __sinf __fdividef __fmaf_rz __brev __clzll __vadd4 __byte_perm "},
    {"crt/device_double_functions.h", NULL, 50, " __dadd_ru __fma_rd __double2int_rn __hiloint2double "},
    {"sm_20_intrinsics.h", NULL, 40, " __isShared __isGlobal "},
    {"sm_32_intrinsics.h", NULL, 200, " __ldg __ldcs __stwt "},
    {"sm_61_intrinsics.h", NULL, 12, " __dp2a_lo __dp4a "},
    {"device_atomic_functions.h", NULL, 20, " atomicAdd atomicCAS atomicInc "},
    {"sm_32_atomic_functions.h", NULL, 8, " atomicMin atomicXor "},
    {"sm_60_atomic_functions.h", NULL, 60, " atomicAdd_system atomicCAS_block "},
    {"crt/sm_90_rt.h", NULL, 15, " __clusterDim __cluster_query_shared_rank "},
};

/* --- kernels --- */

static bool is_type_word(const char *word) {
  static const char *const words[] = {"int",   "unsigned", "float",  "double", "long",
                                      "short", "char",     "__half", "size_t"};
  for (size_t n = 0; n < sizeof words / sizeof words[0]; n++)
    if (!strcmp(words[n], word)) return true;
  size_t length = strlen(word);
  return length > 2 && !strcmp(word + length - 2, "_t");
}

/* "const float x" without the name, if there is one. */
static void cut_name(char *parameter) {
  size_t start = strcspn(parameter, "=");
  parameter[start] = 0;
  while (start && (isalnum((unsigned char)parameter[start - 1]) || parameter[start - 1] == '_')) start--;
  char before[256];
  snprintf(before, sizeof before, "%.*s", (int)start, parameter);
  for (size_t length = strlen(before); length && before[length - 1] == ' ';) before[--length] = 0;
  static const char *const openings[] = {"",           "const",   "struct", "enum", "const struct",
                                         "const enum", "unsigned"};
  for (size_t n = 0; n < sizeof openings / sizeof openings[0]; n++)
    if (!strcmp(before, openings[n])) return;
  if (!is_type_word(parameter + start)) parameter[start] = 0;
}

static size_t write_kernel(char *to, size_t capacity, size_t number, const test_cuda_function_t *f) {
  char parameters[1024], *rest = parameters;
  snprintf(parameters, sizeof parameters, "%s", f->parameters);
  bool nothing = !strcmp(f->result, "void ") || !strcmp(f->result, "void");
  size_t length = (size_t)snprintf(to, capacity, "extern \"C\" __global__ void k%zu(char *p) { ", number);
  if (!nothing) length += (size_t)snprintf(to + length, capacity - length, "*(%s *)p = ", f->result);
  length += (size_t)snprintf(to + length, capacity - length, "%s(", f->name);
  bool any = *parameters && strcmp(parameters, "void") != 0;
  for (size_t n = 1; any && rest; n++) {
    char *parameter = strsep(&rest, ",");
    while (*parameter == ' ') parameter++;
    cut_name(parameter);
    length += (size_t)snprintf(to + length, capacity - length, "%s*(%s *)(p + %zu)", n > 1 ? ", " : "",
                               parameter, 16 * n);
  }
  return length + (size_t)snprintf(to + length, capacity - length, "); }\n");
}

/* --- compiling what compiles --- */

typedef struct {
  const group_t *group;
  test_cuda_function_t *functions;
  size_t count;
  bool *left_out;
} sweep_t;

static char *write_source(const sweep_t *s) {
  size_t capacity = 64 + 2048 * s->count, length = 0;
  char *source = calloc(1, capacity);
  assert_non_null(source);
  if (s->group->include) length = (size_t)snprintf(source, capacity, "#include <%s>", s->group->include);
  length += (size_t)snprintf(source + length, capacity - length, "\n");
  for (size_t n = 0; n < s->count; n++)
    if (s->left_out[n])
      length += (size_t)snprintf(source + length, capacity - length, "\n");
    else
      length += write_kernel(source + length, capacity - length, n, &s->functions[n]);
  return source;
}

/* Leaves out the kernels that the compiler's log names: kernel n is line n + 2. */
static bool leave_out(sweep_t *s, const char *log) {
  bool any = false;
  for (const char *at = log; (at = strstr(at, "test.cu(")); at++) {
    size_t line = strtoul(at + 8, NULL, 10);
    const char *kind = strchr(at, ')');
    if (!kind || strncmp(kind, "): error", 8) != 0 || line < 2 || line - 2 >= s->count) continue;
    any |= !s->left_out[line - 2];
    s->left_out[line - 2] = true;
  }
  return any;
}

static char *compile(sweep_t *s, const char *architecture) {
  for (int tries = 0; tries < 12; tries++) {
    char *log = NULL, *source = write_source(s);
    char *ptx = test_nvrtc_compile_logged(source, architecture, test_cuda_include_options(), &log);
    free(source);
    bool again = !ptx && log && leave_out(s, log);
    if (!ptx && !again) fail_msg("%s for %s: %s", s->group->header, architecture, log ? log : "no log");
    free(log);
    if (ptx) return ptx;
  }
  fail_msg("%s for %s: errors without end", s->group->header, architecture);
  return NULL;
}

static size_t compiled(const sweep_t *s, const char *name) {
  size_t count = 0;
  for (size_t n = 0; n < s->count; n++)
    count += !s->left_out[n] && (!name || !strcmp(s->functions[n].name, name));
  return count;
}

static void check_compiled(const sweep_t *s) {
  char names[512], *rest = names, *name;
  snprintf(names, sizeof names, "%s", s->group->expected);
  if (compiled(s, NULL) < s->group->least)
    fail_msg("%s: only %zu of %zu functions compile", s->group->header, compiled(s, NULL), s->count);
  while ((name = strsep(&rest, " ")))
    if (*name && !compiled(s, name)) fail_msg("%s: %s does not compile", s->group->header, name);
}

static void sweep(const group_t *group, const char *header, const char *architecture) {
  sweep_t s = {.group = group};
  CUmodule module;
  s.functions = test_cuda_functions(header, &s.count);
  s.left_out = calloc(s.count + 1, sizeof *s.left_out);
  assert_non_null(s.left_out);
  char *ptx = compile(&s, architecture);
  if (cuModuleLoadData(&module, ptx)) fail_msg("%s for %s: %s", group->header, architecture, emu_report());
  for (size_t n = 0; n < s.count; n++) {
    char name[32];
    CUfunction function;
    snprintf(name, sizeof name, "k%zu", n);
    if (!s.left_out[n]) EMU_OK(cuModuleGetFunction(&function, module, name));
  }
  EMU_OK(cuModuleUnload(module));
  if (!strcmp(architecture, "compute_90")) check_compiled(&s);
  free(ptx);
  free(s.left_out);
  test_cuda_functions_free(s.functions, s.count);
}

static void every_function_of_the_headers_loads(const char *architecture) {
  size_t swept = 0;
  if (!test_cuda_include_options()) {
    print_message("skipped: no <cuda_fp16.h> of a CUDA toolkit or PyPI package\n");
    skip();
  }
  for (size_t n = 0; n < sizeof groups / sizeof groups[0]; n++) {
    char *header = test_cuda_header(groups[n].header);
    if (!header)
      print_message("left out: no <%s>\n", groups[n].header);
    else if (strcmp(groups[n].header, "crt/sm_90_rt.h") || !strcmp(architecture, "compute_90"))
      sweep(&groups[n], header, architecture), swept++;
    free(header);
  }
  assert_true(swept >= 3);
}

static void every_function_loads_for_compute_75(void **state) {
  (void)state;
  every_function_of_the_headers_loads("compute_75");
}
static void every_function_loads_for_compute_80(void **state) {
  (void)state;
  every_function_of_the_headers_loads("compute_80");
}
static void every_function_loads_for_compute_89(void **state) {
  (void)state;
  every_function_of_the_headers_loads("compute_89");
}
static void every_function_loads_for_compute_90(void **state) {
  (void)state;
  every_function_of_the_headers_loads("compute_90");
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, emu_setup, emu_teardown)
  const struct CMUnitTest tests[] = {
      TEST(every_function_loads_for_compute_75),
      TEST(every_function_loads_for_compute_80),
      TEST(every_function_loads_for_compute_89),
      TEST(every_function_loads_for_compute_90),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
