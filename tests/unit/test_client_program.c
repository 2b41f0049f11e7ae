/* tests/unit/test_client_program.c: libkiln's programs, executions and tensors against a daemon made for the
 * test, whose outputs are the inputs.
 */
#include "tests/support/fake_daemon.h"

#include "kiln/kiln.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* As dmlc/dlpack's header has them. */
typedef struct {
  void *data;
  int32_t device_type, device_id;
  int32_t ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} dl_tensor_t;

struct DLManagedTensor {
  dl_tensor_t dl_tensor;
  void *manager_ctx;
  void (*deleter)(struct DLManagedTensor *);
};

typedef struct {
  fake_daemon_t *daemon;
  kiln_client_t *client;
  kiln_program_t *program;
} fixture_t;

static int set_up(void **state) {
  fixture_t *fixture = calloc(1, sizeof *fixture);
  fixture->daemon = fake_daemon_start(1 << 24);
  kiln_connect_options_t options = {.socket = fake_daemon_path(fixture->daemon)};
  assert_null(kiln_connect(&options, &fixture->client));
  assert_null(kiln_compile(fixture->client, &(kiln_compile_options_t){.graph = "g"}, &fixture->program));
  *state = fixture;
  return 0;
}

static int tear_down(void **state) {
  fixture_t *fixture = *state;
  kiln_program_free(fixture->program);
  kiln_disconnect(fixture->client);
  fake_daemon_stop(fixture->daemon);
  free(fixture);
  return 0;
}

static void assert_code(kiln_status_t failure, const char *code) {
  assert_string_equal(kiln_failure_code(failure), code);
  kiln_failure_free(failure);
}

static float numbers[6] = {1, 2, 3, 4, 5, 6}, matrix[7];
static uint16_t halves[3] = {0x3c00, 0x4000, 0x4200};

/* f32[2,3] and f16[3] */
static void two_inputs(kiln_array_t out[2]) {
  out[0] = (kiln_array_t){
      .dtype = "f32", .rank = 2, .shape = {2, 3}, .data = numbers, .size_bytes = sizeof numbers};
  out[1] =
      (kiln_array_t){.dtype = "f16", .rank = 1, .shape = {3}, .data = halves, .size_bytes = sizeof halves};
}

static kiln_reply_t *execute(kiln_program_t *program) {
  kiln_array_t inputs[2];
  kiln_reply_t *reply = NULL;
  two_inputs(inputs);
  assert_null(kiln_execute(program, &(kiln_execution_t){.inputs = inputs, .input_count = 2}, 0, &reply));
  return reply;
}

static void the_library_tells_its_abi(void **state) {
  (void)state;
  assert_int_equal(kiln_abi_version(), KILN_ABI_VERSION);
}

static void a_program_knows_where_it_came_from(void **state) {
  fixture_t *fixture = *state;
  const kiln_program_info_t *info = kiln_program_info(fixture->program);
  assert_int_equal(strlen(info->key), 64);
  assert_string_equal(info->cache, "disk");
  assert_int_equal(info->kernels_found, 10);
  assert_int_equal(info->kernels_compiled, 11);
  assert_int_equal(info->total_ns, 10);
  assert_int_equal(info->compile_ns, 12);
}

static void compile_without_a_graph_is_refused(void **state) {
  fixture_t *fixture = *state;
  kiln_program_t *program = NULL;
  assert_code(kiln_compile(fixture->client, &(kiln_compile_options_t){0}, &program), "INVALID_ARGUMENT");
}

static void outputs_are_arrays_in_the_reply(void **state) {
  fixture_t *fixture = *state;
  kiln_array_t first, second;
  kiln_reply_t *reply = execute(fixture->program);
  assert_int_equal(kiln_reply_output_count(reply), 2);
  assert_null(kiln_reply_output(reply, 0, &first));
  assert_null(kiln_reply_output(reply, 1, &second));
  assert_string_equal(first.dtype, "f32");
  assert_int_equal(first.rank, 2);
  assert_int_equal(first.shape[1], 3);
  assert_true(first.has_strides);
  assert_int_equal(first.strides[1], 2);
  assert_int_equal(first.size_bytes, sizeof numbers);
  assert_memory_equal(first.data, numbers, sizeof numbers);
  assert_false(second.has_strides);
  assert_memory_equal(second.data, halves, sizeof halves);
  assert_code(kiln_reply_output(reply, 2, &first), "INVALID_ARGUMENT");
  kiln_reply_free(reply);
}

static void an_executions_reply_has_its_timings(void **state) {
  fixture_t *fixture = *state;
  kiln_execution_info_t info;
  kiln_reply_t *other = NULL, *reply = execute(fixture->program);
  assert_null(kiln_reply_execution(reply, &info));
  assert_int_equal(info.launches, 3);
  assert_int_equal(info.realigned, 1);
  assert_int_equal(info.download_ns, 13);
  assert_null(info.counters);
  assert_string_equal(info.cache, "disk");
  kiln_reply_free(reply);
  assert_null(kiln_call(fixture->client, "echo", NULL, 0, 0, &other));
  assert_code(kiln_reply_execution(other, &info), "INVALID_ARGUMENT");
  assert_int_equal(kiln_reply_output_count(other), 0);
  kiln_reply_free(other);
}

static void a_restart_compiles_the_program_once_more(void **state) {
  fixture_t *fixture = *state;
  kiln_reply_free(execute(fixture->program));
  assert_int_equal(fake_daemon_compiles(fixture->daemon), 1);
  fake_daemon_restart(fixture->daemon);
  kiln_reply_free(execute(fixture->program));
  kiln_reply_free(execute(fixture->program));
  assert_int_equal(fake_daemon_compiles(fixture->daemon), 2);
}

static void an_input_without_data_is_refused(void **state) {
  fixture_t *fixture = *state;
  kiln_array_t input = {.dtype = "f32", .rank = 1, .shape = {4}, .size_bytes = 16};
  kiln_reply_t *reply = NULL;
  assert_code(
      kiln_execute(fixture->program, &(kiln_execution_t){.inputs = &input, .input_count = 1}, 0, &reply),
      "INVALID_ARGUMENT");
}

/* -- DLPack --------------------------------------------------------------------------------------------- */

static void an_exported_tensor_outlives_the_reply(void **state) {
  fixture_t *fixture = *state;
  struct DLManagedTensor *tensor = NULL;
  kiln_reply_t *reply = execute(fixture->program);
  assert_null(kiln_reply_output_dlpack(reply, 0, &tensor));
  kiln_reply_free(reply);
  assert_memory_equal(tensor->dl_tensor.data, numbers, sizeof numbers);
  assert_int_equal(tensor->dl_tensor.device_type, 1);
  assert_int_equal(tensor->dl_tensor.ndim, 2);
  assert_int_equal(tensor->dl_tensor.code, 2);
  assert_int_equal(tensor->dl_tensor.bits, 32);
  assert_int_equal(tensor->dl_tensor.lanes, 1);
  assert_int_equal(tensor->dl_tensor.shape[0], 2);
  assert_int_equal(tensor->dl_tensor.strides[1], 2);
  tensor->deleter(tensor);
}

static void an_imported_tensor_keeps_offset_and_strides(void **state) {
  (void)state;
  int64_t shape[2] = {3, 2}, strides[2] = {1, 3};
  kiln_array_t array;
  struct DLManagedTensor tensor = {.dl_tensor = {.data = matrix,
                                                 .device_type = 1,
                                                 .ndim = 2,
                                                 .code = 2,
                                                 .bits = 32,
                                                 .lanes = 1,
                                                 .shape = shape,
                                                 .strides = strides,
                                                 .byte_offset = 4}};
  assert_null(kiln_array_from_dlpack(&tensor, &array));
  assert_string_equal(array.dtype, "f32");
  assert_ptr_equal(array.data, matrix + 1);
  assert_true(array.has_strides);
  assert_int_equal(array.strides[1], 3);
  assert_int_equal(array.size_bytes, 4 * (1 + 2 * 1 + 1 * 3));
}

static void imported_sizes_of_empty_scalar_and_huge_tensors(void **state) {
  (void)state;
  int64_t shape[2] = {0, 5}, huge[2] = {INT64_MAX / 2, 8};
  kiln_array_t array;
  struct DLManagedTensor tensor = {
      .dl_tensor = {.device_type = 1, .ndim = 2, .code = 4, .bits = 16, .lanes = 1, .shape = shape}};
  assert_null(kiln_array_from_dlpack(&tensor, &array));
  assert_string_equal(array.dtype, "bf16");
  assert_int_equal(array.size_bytes, 0);
  tensor.dl_tensor.ndim = 0;
  assert_null(kiln_array_from_dlpack(&tensor, &array));
  assert_int_equal(array.size_bytes, 2);
  tensor.dl_tensor.ndim = 2;
  tensor.dl_tensor.shape = huge;
  assert_code(kiln_array_from_dlpack(&tensor, &array), "TOO_LARGE");
}

static void tensors_that_are_no_arrays_are_refused(void **state) {
  (void)state;
  int64_t shape[1] = {4}, backwards[1] = {-1};
  kiln_array_t array;
  const dl_tensor_t good = {.device_type = 1, .ndim = 1, .code = 2, .bits = 32, .lanes = 1, .shape = shape};
  struct DLManagedTensor on_gpu = {.dl_tensor = good}, complex = {.dl_tensor = good};
  struct DLManagedTensor lanes = {.dl_tensor = good}, deep = {.dl_tensor = good},
                         reversed = {.dl_tensor = good};
  on_gpu.dl_tensor.device_type = 2;
  complex.dl_tensor.code = 5;
  lanes.dl_tensor.lanes = 4;
  deep.dl_tensor.ndim = 9;
  reversed.dl_tensor.strides = backwards;
  assert_code(kiln_array_from_dlpack(&on_gpu, &array), "UNSUPPORTED");
  assert_code(kiln_array_from_dlpack(&complex, &array), "UNSUPPORTED");
  assert_code(kiln_array_from_dlpack(&lanes, &array), "UNSUPPORTED");
  assert_code(kiln_array_from_dlpack(&deep, &array), "UNSUPPORTED");
  assert_code(kiln_array_from_dlpack(&reversed, &array), "UNSUPPORTED");
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_library_tells_its_abi),
      TEST(a_program_knows_where_it_came_from),
      TEST(compile_without_a_graph_is_refused),
      TEST(outputs_are_arrays_in_the_reply),
      TEST(an_executions_reply_has_its_timings),
      TEST(a_restart_compiles_the_program_once_more),
      TEST(an_input_without_data_is_refused),
      TEST(an_exported_tensor_outlives_the_reply),
      cmocka_unit_test(an_imported_tensor_keeps_offset_and_strides),
      cmocka_unit_test(imported_sizes_of_empty_scalar_and_huge_tensors),
      cmocka_unit_test(tensors_that_are_no_arrays_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
