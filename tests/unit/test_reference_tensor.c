/* tests/unit/test_reference_tensor.c: host tensors: sizes, strided storage, symbols from shapes, .npy files,
 * and what the comparison of a result with its reference calls wrong. Expected values are written out.
 */
#include "ir/reference.h"
#include "ir/tensor.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static kiln_arena_t arena;

static int set_up(void **state) {
  (void)state;
  kiln_arena_init(&arena, 0);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  kiln_arena_deinit(&arena);
  return 0;
}

static void expect_code(kiln_status_t status, kiln_code_t code, const char *part) {
  assert_int_equal(kiln_status_code(status), code);
  assert_non_null(strstr(kiln_status_message(status), part));
  kiln_status_free(status);
}

/* -- tensors and storage -------------------------------------------------------------------------------- */

static void a_tensor_whose_bytes_leave_63_bits_is_refused(void **state) {
  (void)state;
  kiln_tensor_t tensor;
  int64_t large[] = {INT64_MAX / 4, 2}, empty[] = {INT64_MAX, 0}, both[] = {INT64_MAX, 0, INT64_MAX};
  expect_code(kiln_tensor_create(&arena, KILN_DTYPE_f32, 2, large, &tensor), KILN_TOO_LARGE, "63 bits");
  expect_code(kiln_tensor_create(&arena, KILN_DTYPE_u8, 3, both, &tensor), KILN_TOO_LARGE, "63 bits");
  assert_null(kiln_tensor_create(&arena, KILN_DTYPE_u8, 2, empty, &tensor));
  assert_int_equal(kiln_tensor_elements(&tensor), 0);
}

static void a_new_tensor_is_zero_and_rank_0_has_one_element(void **state) {
  (void)state;
  kiln_tensor_t tensor;
  assert_null(kiln_tensor_create(&arena, KILN_DTYPE_f64, 0, NULL, &tensor));
  assert_int_equal(kiln_tensor_elements(&tensor), 1);
  assert_true(*(double *)tensor.data == 0);
}

static void the_storage_range_ends_behind_the_last_element(void **state) {
  (void)state;
  assert_int_equal(kiln_storage_elements(0, NULL, NULL), 1);
  assert_int_equal(kiln_storage_elements(2, (int64_t[]){3, 4}, (int64_t[]){10, 2}), 27);
  assert_int_equal(kiln_storage_elements(2, (int64_t[]){3, 0}, (int64_t[]){10, 2}), 0);
  assert_int_equal(kiln_storage_elements(1, (int64_t[]){1000}, (int64_t[]){0}), 1);
  assert_int_equal(kiln_storage_elements(1, (int64_t[]){INT64_MAX}, (int64_t[]){3}), INT64_MAX);
}

static void scatter_writes_strided_and_gather_reads_it_back(void **state) {
  (void)state;
  int16_t dense[6] = {1, 2, 3, 4, 5, 6}, back[6] = {0}, storage[12] = {0};
  int16_t expected[12] = {1, 4, 0, 0, 2, 5, 0, 0, 3, 6, 0, 0}; /* stored by columns, 4 apart */
  int64_t strides[] = {1, 4};
  kiln_tensor_t tensor = {.dtype = KILN_DTYPE_f16, .rank = 2, .sizes = {2, 3}, .data = dense};
  kiln_storage_scatter(storage, strides, &tensor);
  assert_memory_equal(storage, expected, sizeof expected);
  tensor.data = back;
  kiln_storage_gather(&tensor, storage, strides);
  assert_memory_equal(back, dense, sizeof dense);
}

static void an_expanded_axis_reads_one_element_again_and_again(void **state) {
  (void)state;
  uint8_t one = 7, out[3];
  kiln_tensor_t tensor = {.dtype = KILN_DTYPE_u8, .rank = 1, .sizes = {3}, .data = out};
  kiln_storage_gather(&tensor, &one, (int64_t[]){0});
  assert_memory_equal(out, ((uint8_t[]){7, 7, 7}), 3);
}

/* -- symbols -------------------------------------------------------------------------------------------- */

static kiln_dim_t twice_symbol(unsigned symbol) {
  kiln_dim_t out;
  assert_true(kiln_dim_mul(&arena, kiln_dim_constant(2), kiln_dim_symbol(&arena, symbol), &out));
  return out;
}

/* %a: f32[2*T, 3], %b: f32[T] */
static kiln_status_t bind(int64_t rows, int64_t columns, int64_t length, int64_t *symbol) {
  const kiln_symbol_t name = {.name = "T"};
  kiln_type_t types[] = {
      {.dtype = KILN_DTYPE_f32, .rank = 2, .dims = {twice_symbol(0), kiln_dim_constant(3)}},
      {.dtype = KILN_DTYPE_f32, .rank = 1, .dims = {kiln_dim_symbol(&arena, 0)}}};
  kiln_tensor_t inputs[] = {{.dtype = KILN_DTYPE_f32, .rank = 2, .sizes = {rows, columns}},
                            {.dtype = KILN_DTYPE_f32, .rank = 1, .sizes = {length}}};
  return kiln_symbols_bind(&name, 1, types, length < 0 ? 1 : 2, inputs, symbol);
}

static void a_symbol_is_found_where_a_dimension_is_just_it(void **state) {
  (void)state;
  int64_t symbol = -1;
  assert_null(bind(10, 3, 5, &symbol));
  assert_int_equal(symbol, 5);
}

static void a_dimension_that_does_not_fit_names_its_input(void **state) {
  (void)state;
  int64_t symbol = -1;
  expect_code(bind(10, 3, 4, &symbol), KILN_INVALID_ARGUMENT,
              "dimension 0 is 10, the graph wants 8; while checking input 0");
  symbol = 7;
  expect_code(bind(14, 3, 6, &symbol), KILN_INVALID_ARGUMENT, "input 1");
}

static void a_symbol_that_no_input_tells_is_named(void **state) {
  (void)state;
  int64_t symbol = -1;
  expect_code(bind(10, 3, -1, &symbol), KILN_INVALID_ARGUMENT, "symbol T has no value");
  symbol = 5;
  assert_null(bind(10, 3, -1, &symbol));
  symbol = -2;
  expect_code(bind(10, 3, -1, &symbol), KILN_INVALID_ARGUMENT, "symbol T");
}

static void an_input_of_another_dtype_or_rank_is_named(void **state) {
  (void)state;
  kiln_type_t type = {.dtype = KILN_DTYPE_f32, .rank = 1, .dims = {kiln_dim_constant(3)}};
  kiln_tensor_t input = {.dtype = KILN_DTYPE_f16, .rank = 1, .sizes = {3}};
  expect_code(kiln_symbols_bind(NULL, 0, &type, 1, &input, NULL), KILN_INVALID_ARGUMENT,
              "holds f16, the graph wants f32");
  input = (kiln_tensor_t){.dtype = KILN_DTYPE_f32, .rank = 2, .sizes = {3, 1}};
  expect_code(kiln_symbols_bind(NULL, 0, &type, 1, &input, NULL), KILN_INVALID_ARGUMENT, "rank 2");
}

/* -- .npy ----------------------------------------------------------------------------------------------- */

/* Writes bytes to a new file, whose name stays until the next call. */
static const char *file_of(const void *bytes, size_t size) {
  char *path = kiln_arena_strdup(&arena, "/tmp/kiln_npy_XXXXXX");
  int descriptor = mkstemp(path);
  assert_true(descriptor >= 0);
  assert_int_equal(write(descriptor, bytes, size), (ssize_t)size);
  close(descriptor);
  return path;
}

/* A version 1.0 file with this dict and these elements. */
static kiln_status_t read_npy(const char *dict, const void *data, size_t size, kiln_dtype_t dtype,
                              kiln_tensor_t *out) {
  char bytes[512];
  size_t length = strlen(dict);
  memcpy(bytes, "\x93NUMPY\x01\x00", 8);
  bytes[8] = (char)length;
  bytes[9] = 0;
  memcpy(bytes + 10, dict, length);
  memcpy(bytes + 10 + length, data, size);
  const char *path = file_of(bytes, 10 + length + size);
  kiln_status_t status = kiln_npy_read(&arena, path, dtype, out);
  unlink(path);
  return status;
}

static void every_dtype_and_rank_survives_writing_and_reading(void **state) {
  (void)state;
  for (int dtype = 0; dtype < KILN_DTYPE_COUNT; dtype++) {
    for (uint32_t rank = 0; rank <= 3; rank++) {
      kiln_tensor_t tensor, back;
      assert_null(kiln_tensor_create(&arena, (kiln_dtype_t)dtype, rank, (int64_t[]){3, 1, 5}, &tensor));
      size_t bytes = (size_t)kiln_tensor_elements(&tensor) * kiln_dtype_bytes(tensor.dtype);
      for (size_t i = 0; i < bytes; i++)
        ((uint8_t *)tensor.data)[i] = dtype == KILN_DTYPE_bool ? i & 1 : (uint8_t)(37 * i);
      const char *path = file_of("", 0);
      assert_null(kiln_npy_write(path, &tensor));
      assert_null(kiln_npy_read(&arena, path, (kiln_dtype_t)dtype, &back));
      unlink(path);
      assert_int_equal(back.rank, rank);
      assert_memory_equal(back.sizes, tensor.sizes, rank * sizeof *back.sizes);
      assert_memory_equal(back.data, tensor.data, bytes);
    }
  }
}

static void column_major_files_are_turned(void **state) {
  (void)state;
  kiln_tensor_t tensor;
  int32_t columns[] = {1, 4, 2, 5, 3, 6}, rows[] = {1, 2, 3, 4, 5, 6};
  assert_null(read_npy("{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3), }\n", columns,
                       sizeof columns, KILN_DTYPE_i32, &tensor));
  assert_memory_equal(tensor.data, rows, sizeof rows);
}

static void files_that_are_not_what_is_expected_are_refused_with_a_reason(void **state) {
  (void)state;
  static const struct {
    const char *dict, *reason;
  } cases[] = {
      {"{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }",
       "holds '<f8', but i32 is expected, which is '<i4'"},
      {"{'descr': '>i4', 'fortran_order': False, 'shape': (1,), }", "holds '>i4'"},
      {"{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (1,), }", "'descr'"},
      {"{'descr': '', 'fortran_order': False, 'shape': (1,), }", "'descr'"},
      {"{'descr': '<i4', 'fortran_order': False, }", "no 'shape'"},
      {"{'descr': '<i4', 'shape': (1,), }", "no 'fortran_order'"},
      {"{'descr': '<i4', 'fortran_order': False, 'shape': (-1,), }", "a size is no number"},
      {"{'descr': '<i4', 'fortran_order': False, 'shape': (1", "'shape' is no tuple"},
      {"{'descr': '<i4', 'fortran_order': False, 'shape': (99999999999999999999,), }", "a size is no number"},
      {"{'descr': '<i4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1), }", "rank is above 8"},
      {"{'descr': '<i4', 'fortran_order': False, 'shape': (4294967296,4294967296,), }", "63 bits"},
      {"{'descr': '<i4', 'fortran_order': False, 'shape': (1000000000000,), }", "cut off"},
      {"{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }", "cut off"},
      {"", "'descr'"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    kiln_tensor_t tensor;
    expect_code(read_npy(cases[i].dict, "\1\0\0\0", 4, KILN_DTYPE_i32, &tensor), KILN_INVALID_ARGUMENT,
                cases[i].reason);
  }
}

static void a_file_cut_at_any_byte_is_refused(void **state) {
  (void)state;
  kiln_tensor_t tensor, back;
  char bytes[256];
  assert_null(kiln_tensor_create(&arena, KILN_DTYPE_f32, 1, (int64_t[]){7}, &tensor));
  const char *path = file_of("", 0);
  assert_null(kiln_npy_write(path, &tensor));
  FILE *file = fopen(path, "rb");
  size_t size = fread(bytes, 1, sizeof bytes, file);
  fclose(file);
  unlink(path);
  assert_int_equal(size, 128 + 28);
  for (size_t cut = 0; cut < size; cut++) {
    path = file_of(bytes, cut);
    kiln_status_t status = kiln_npy_read(&arena, path, KILN_DTYPE_f32, &back);
    unlink(path);
    expect_code(status, KILN_INVALID_ARGUMENT, "not a .npy file");
  }
}

static void a_file_that_is_not_there_is_not_found(void **state) {
  (void)state;
  kiln_tensor_t tensor;
  expect_code(kiln_npy_read(&arena, "/nowhere/x.npy", KILN_DTYPE_f32, &tensor), KILN_NOT_FOUND,
              "/nowhere/x.npy");
  expect_code(kiln_npy_read(&arena, "/tmp", KILN_DTYPE_f32, &tensor), KILN_INVALID_ARGUMENT, "/tmp");
}

/* -- comparison ----------------------------------------------------------------------------------------- */

static kiln_comparison_t compare_one(float expected, double bound, float got) {
  kiln_reference_t reference = {{.dtype = KILN_DTYPE_f32, .data = &expected}, &bound};
  kiln_tensor_t tensor = {.dtype = KILN_DTYPE_f32, .data = &got};
  return kiln_reference_compare(&reference, &tensor);
}

static float nan_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static void without_a_bound_only_the_very_bits_are_right(void **state) {
  (void)state;
  assert_int_equal(compare_one(1, 0, 1).wrong, 0);
  assert_int_equal(compare_one(1, 0, nextafterf(1, 2)).wrong, 1);
  assert_int_equal(compare_one(0.0f, 0, -0.0f).wrong, 1);
  assert_int_equal(compare_one(nan_of(0x7fc00001), 0, nan_of(0x7fc00001)).wrong, 0);
  assert_int_equal(compare_one(nan_of(0x7fc00001), 0, nan_of(0x7fc00002)).wrong, 1);
}

static void the_least_bound_frees_a_zeros_sign_and_a_nans_payload(void **state) {
  (void)state;
  double least = nextafter(0, 1);
  assert_int_equal(compare_one(0.0f, least, -0.0f).wrong, 0);
  assert_int_equal(compare_one(0.0f, least, 1e-45f).wrong, 1);
  assert_int_equal(compare_one(nan_of(0x7fc00001), least, nan_of(0xffc00002)).wrong, 0);
  assert_int_equal(compare_one(nan_of(0x7fc00001), least, 1).wrong, 1);
}

static void a_bound_is_inclusive_and_its_use_is_reported(void **state) {
  (void)state;
  assert_int_equal(compare_one(1, 0.25, 1.25f).wrong, 0);
  assert_int_equal(compare_one(1, 0.25, 0.5f).wrong, 1);
  assert_float_equal(compare_one(1, 0.25, 1.125f).worst_ratio, 0.5, 0);
  assert_int_equal(compare_one(1, 0.25, NAN).wrong, 1);
  assert_int_equal(compare_one(INFINITY, 0.25, INFINITY).wrong, 0);
  assert_int_equal(compare_one(INFINITY, 0.25, 3e38f).wrong, 1);
  assert_int_equal(compare_one(3e38f, 1e38, INFINITY).wrong, 1);
  kiln_comparison_t result = compare_one(1, 0.25, 2);
  assert_int_equal(result.first_wrong, 0);
  assert_true(result.got == 2 && result.expected == 1 && result.bound == 0.25);
}

static void what_is_undecided_is_counted_and_never_wrong(void **state) {
  (void)state;
  kiln_comparison_t result = compare_one(1, INFINITY, NAN);
  assert_int_equal(result.undecided, 1);
  assert_int_equal(result.wrong, 0);
  assert_int_equal(result.elements, 1);
}

static void large_integers_are_told_apart(void **state) {
  (void)state;
  int64_t expected = INT64_MAX, got = INT64_MAX - 1;
  double bound = 0;
  kiln_reference_t reference = {{.dtype = KILN_DTYPE_i64, .data = &expected}, &bound};
  kiln_tensor_t tensor = {.dtype = KILN_DTYPE_i64, .data = &got};
  assert_int_equal(kiln_reference_compare(&reference, &tensor).wrong, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(a_tensor_whose_bytes_leave_63_bits_is_refused),
      TEST(a_new_tensor_is_zero_and_rank_0_has_one_element),
      TEST(the_storage_range_ends_behind_the_last_element),
      TEST(scatter_writes_strided_and_gather_reads_it_back),
      TEST(an_expanded_axis_reads_one_element_again_and_again),
      TEST(a_symbol_is_found_where_a_dimension_is_just_it),
      TEST(a_dimension_that_does_not_fit_names_its_input),
      TEST(a_symbol_that_no_input_tells_is_named),
      TEST(an_input_of_another_dtype_or_rank_is_named),
      TEST(every_dtype_and_rank_survives_writing_and_reading),
      TEST(column_major_files_are_turned),
      TEST(files_that_are_not_what_is_expected_are_refused_with_a_reason),
      TEST(a_file_cut_at_any_byte_is_refused),
      TEST(a_file_that_is_not_there_is_not_found),
      TEST(without_a_bound_only_the_very_bits_are_right),
      TEST(the_least_bound_frees_a_zeros_sign_and_a_nans_payload),
      TEST(a_bound_is_inclusive_and_its_use_is_reported),
      TEST(what_is_undecided_is_counted_and_never_wrong),
      TEST(large_integers_are_told_apart),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
