/* tests/unit/test_conform_wmma.c: conformance of nvcuda::wmma, as NVRTC compiles it, against a matrix
 * product.
 *
 * Values are small integers, so that every sum is exact in every type. Which lane holds which element the ISA
 * leaves open; a kernel may only rely on elements keeping their places between fragments of one kind, which
 * scaling a fragment shows. Skipped, with a reason, where the toolkit's <mma.h> is not found.
 * Labels: device */
#include "base/half.h"
#include "tests/support/conform.h"
#include "tests/support/nvrtc_compile.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
// clang-format on
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
  int m, n, k;
  const char *factor, *sum; /* as wmma spells them */
  int factor_bytes, sum_bytes;
} shape_t;

static const shape_t shapes[] = {
    {16, 16, 16, "half", "float", 2, 4},         {32, 8, 16, "half", "float", 2, 4},
    {8, 32, 16, "half", "half", 2, 2},           {16, 16, 16, "__nv_bfloat16", "float", 2, 4},
    {32, 8, 16, "__nv_bfloat16", "float", 2, 4}, {8, 32, 16, "__nv_bfloat16", "float", 2, 4},
    {16, 16, 16, "signed char", "int", 1, 4},    {32, 8, 16, "unsigned char", "int", 1, 4},
    {8, 32, 16, "signed char", "int", 1, 4},     {16, 16, 8, "precision::tf32", "float", 4, 4},
    {8, 8, 4, "double", "double", 8, 8},
};

/* d = 2 (a b) + c with a and b in either order of storage, c by rows and d by columns. */
static const char source_format[] =
    "#include <mma.h>\n"
    "using namespace nvcuda::wmma;\n"
    "typedef fragment<accumulator, %d, %d, %d, %s> sum_t;\n"
    "extern \"C\" __global__ void k(const void *a, const void *b, const void *c, void *d) {\n"
    "  fragment<matrix_a, %d, %d, %d, %s, %s> fa; fragment<matrix_b, %d, %d, %d, %s, %s> fb; sum_t fc, zero;\n"
    "  load_matrix_sync(fa, (const %s *)a, %d); load_matrix_sync(fb, (const %s *)b, %d);\n"
    "  load_matrix_sync(fc, (const %s *)c, %d, mem_row_major);\n"
    "  fill_fragment(zero, (%s)0);\n"
    "  mma_sync(zero, fa, fb, zero);\n"
    "  for (int i = 0; i < fc.num_elements; i++) fc.x[i] = zero.x[i] + zero.x[i] + fc.x[i];\n"
    "  store_matrix_sync((%s *)d, fc, %d, mem_col_major);\n}\n";

static const char *include_option(void) {
  static const char *const folders[] = {"/usr/local/cuda/include", "/opt/cuda/include", "/usr/include"};
  static char option[256];
  char path[256];
  for (size_t n = 0; n < sizeof folders / sizeof folders[0]; n++) {
    snprintf(path, sizeof path, "%s/mma.h", folders[n]);
    if (access(path, R_OK) != 0) continue;
    snprintf(option, sizeof option, "-I%s", folders[n]);
    return option;
  }
  return NULL;
}

static void encode(void *to, const char *type, int value) {
  uint16_t half = type[0] == '_' ? kiln_bf16_from_f32((float)value) : kiln_f16_from_f32((float)value);
  float narrow = (float)value;
  double wide = value;
  int8_t byte = (int8_t)value;
  if (!strcmp(type, "double"))
    memcpy(to, &wide, 8);
  else if (!strcmp(type, "float") || strstr(type, "tf32"))
    memcpy(to, &narrow, 4);
  else if (!strcmp(type, "int"))
    memcpy(to, &value, 4);
  else if (strstr(type, "char"))
    memcpy(to, &byte, 1);
  else
    memcpy(to, &half, 2);
}

static int value_a(const shape_t *s, int row, int k) {
  return (row * 5 + k * 3) % 13 - (s->factor[0] == 'u' ? 0 : 6);
}
static int value_b(const shape_t *s, int k, int column) {
  return (column * 7 + k * 11) % 9 - (s->factor[0] == 'u' ? 0 : 4);
}
static int value_c(int row, int column) { return (row * 3 + column) % 21 - 10; }

static int expected(const shape_t *s, int row, int column) {
  int sum = 0;
  for (int k = 0; k < s->k; k++) sum += value_a(s, row, k) * value_b(s, k, column);
  return 2 * sum + value_c(row, column);
}

static CUfunction compile(const shape_t *s, const char *include, bool a_by_column, bool b_by_column) {
  char source[4096];
  const char *a = a_by_column ? "col_major" : "row_major", *b = b_by_column ? "col_major" : "row_major";
  const char *stored = strstr(s->factor, "tf32") ? "float" : s->factor;
  snprintf(source, sizeof source, source_format, s->m, s->n, s->k, s->sum, s->m, s->n, s->k, s->factor, a,
           s->m, s->n, s->k, s->factor, b, stored, a_by_column ? s->m : s->k, stored,
           b_by_column ? s->k : s->n, s->sum, s->n, s->sum, s->sum, s->m);
  const char *const options[] = {include, NULL};
  char *ptx = test_nvrtc_compile(source, "compute_80", options);
  assert_non_null(ptx);
  CUfunction function = conform_kernel(ptx);
  free(ptx);
  return function;
}

static void check(const shape_t *s, const char *include, bool a_by_column, bool b_by_column) {
  char a[32 * 16 * 8], b[32 * 16 * 8], c[32 * 32 * 8], d[32 * 32 * 8], want[8];
  for (int row = 0; row < s->m; row++)
    for (int k = 0; k < s->k; k++)
      encode(a + s->factor_bytes * (a_by_column ? k * s->m + row : row * s->k + k), s->factor,
             value_a(s, row, k));
  for (int column = 0; column < s->n; column++)
    for (int k = 0; k < s->k; k++)
      encode(b + s->factor_bytes * (b_by_column ? column * s->k + k : k * s->n + column), s->factor,
             value_b(s, k, column));
  for (int row = 0; row < s->m; row++)
    for (int column = 0; column < s->n; column++)
      encode(c + s->sum_bytes * (row * s->n + column), s->sum, value_c(row, column));
  size_t bytes = (size_t)(s->m * s->n * s->sum_bytes);
  CUdeviceptr at_a = emu_upload(a, (size_t)(s->m * s->k * s->factor_bytes)),
              at_b = emu_upload(b, (size_t)(s->n * s->k * s->factor_bytes)), at_c = emu_upload(c, bytes),
              at_d = emu_alloc(bytes);
  EMU_OK(
      emu_run(compile(s, include, a_by_column, b_by_column), 1, 32, 0, EMU_ARGS(&at_a, &at_b, &at_c, &at_d)));
  if (!test_on_cuda()) assert_int_equal(emu_last_launch().counters.tensor_operations, s->m * s->n * s->k);
  emu_download(d, at_d, bytes);
  for (int row = 0; row < s->m; row++)
    for (int column = 0; column < s->n; column++) {
      encode(want, s->sum, expected(s, row, column));
      if (memcmp(d + s->sum_bytes * (column * s->m + row), want, (size_t)s->sum_bytes) != 0)
        fail_msg("m%dn%dk%d of %s: element (%d, %d) is wrong", s->m, s->n, s->k, s->factor, row, column);
    }
}

static void wmma_of_every_shape_and_layout_is_the_matrix_product(void **state) {
  (void)state;
  const char *include = include_option();
  if (!include) {
    print_message("skipped: no <mma.h> of a CUDA toolkit\n");
    skip();
  }
  for (size_t n = 0; n < sizeof shapes / sizeof shapes[0]; n++)
    for (int order = 0; order < 4; order++) check(&shapes[n], include, order & 1, order & 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(wmma_of_every_shape_and_layout_is_the_matrix_product, emu_setup,
                                      emu_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
