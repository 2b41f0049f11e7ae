/* tests/unit/test_runtime_execute.c: from CUDA C++ by NVRTC through a loaded plan to values, on the emulated
 * device, with all of its checkers on. Nothing here is kiln's own code generation: kernels and plans are
 * written by hand.
 * Labels: device */
#include "base/clock.h"
#include "tests/support/scale_plan.h"
#include "tests/support/test_device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct {
  kiln_compiler_t *compiler;
  kiln_device_t *device;
  kiln_arena_t arena;
} fixture_t;

static int set_up(void **state) {
  fixture_t *fixture = calloc(1, sizeof *fixture);
  if (!fixture) return -1;
  *state = fixture;
  kiln_arena_init(&fixture->arena, 0);
  fixture->device = test_device_open();
  kiln_status_t status = kiln_compiler_create(NULL, &fixture->compiler);
  if (status) print_message("%s\n", kiln_status_message(status));
  kiln_status_free(status);
  return status ? -1 : 0;
}

static int tear_down(void **state) {
  fixture_t *fixture = *state;
  kiln_device_destroy(fixture->device);
  kiln_compiler_destroy(fixture->compiler);
  kiln_arena_deinit(&fixture->arena);
  free(fixture);
  return 0;
}

static kiln_kernel_artifact_t compile(fixture_t *fixture, const char *source, const char *entry) {
  const kiln_device_info_t *info = kiln_device_info(fixture->device);
  kiln_kernel_artifact_t artifact;
  assert_null(kiln_compiler_compile(fixture->compiler, &fixture->arena, source, entry, &info->target,
                                    info->image_kind, &artifact));
  return artifact;
}

static kiln_executable_t *load_scale(fixture_t *fixture) {
  kiln_scale_plan_t s;
  kiln_executable_t *executable;
  kiln_scale_plan_make(&s);
  s.artifacts[0] = s.artifacts[1] = compile(fixture, KILN_SCALE_SOURCE, "scale");
  assert_null(kiln_device_load(fixture->device, &s.plan, s.artifacts, &executable));
  return executable;
}

static void expect_scaled(fixture_t *fixture, kiln_executable_t *executable, int64_t t) {
  float *x = calloc((size_t)t + 1, sizeof *x), *y = calloc((size_t)t + 1, sizeof *y);
  kiln_host_span_t input = {x, (size_t)t * 4}, output = {y, (size_t)t * 4};
  for (int64_t i = 0; i < t; i++) x[i] = (float)(i % 1000) - 500.25f;
  kiln_execution_timings_t timings;
  kiln_status_t status = kiln_device_execute(fixture->device, executable, &t, &input, &output, &timings);
  if (status) print_message("%s\n%s\n", kiln_status_message(status), kiln_status_detail(status, "report"));
  assert_null(status);
  for (int64_t i = 0; i < t; i++) assert_true(y[i] == 3.0f * ((float)t * x[i]));
  assert_int_equal(timings.launches, t ? 2 : 0);
  free(x);
  free(y);
}

static void a_plan_with_a_symbol_and_a_temporary_computes_for_each_value(void **state) {
  static const int64_t sizes[] = {1, 3, 128, 129, 1021, 0, 5, 70000, 3};
  fixture_t *fixture = *state;
  kiln_executable_t *executable = load_scale(fixture);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) expect_scaled(fixture, executable, sizes[i]);
  kiln_device_unload(fixture->device, executable);
}

static void results_do_not_depend_on_where_buffers_lie(void **state) {
  fixture_t *fixture = *state;
  kiln_executable_t *executable = load_scale(fixture);
  expect_scaled(fixture, executable, 777);
  test_device_check(fixture->device, "none");
  expect_scaled(fixture, executable, 777);
  expect_scaled(fixture, executable, 778);
  test_device_check(fixture->device, "all");
  expect_scaled(fixture, executable, 777);
  kiln_device_unload(fixture->device, executable);
}

/* --- rank 0 and constants ---------------------------------------------------------------------- */

/* y: f64 = the sum of a constant of three */
static void a_scalar_from_a_constant_needs_no_input(void **state) {
  fixture_t *fixture = *state;
  static const double constant[3] = {0.5, 1.25, 40.25};
  kiln_kernel_artifact_t artifact =
      compile(fixture,
              "extern \"C\" __global__ void total(const double *c, double *y, int n) {\n"
              "  double sum = 0;\n"
              "  for (int i = 0; i < n; i++) sum += c[i];\n"
              "  *y = sum;\n"
              "}\n",
              "total");
  const kiln_dim_t one = kiln_dim_constant(1);
  const kiln_slot_t slots[] = {{.kind = KILN_SLOT_CONSTANT},
                               {.kind = KILN_SLOT_BUFFER, .buffer = {KILN_BUFFER_OUTPUT, 0}},
                               {.kind = KILN_SLOT_DIM32, .dim = kiln_dim_constant(3)}};
  const kiln_launch_t launch = {.kernel = kiln_sha256("total", 5),
                                .entry = "total",
                                .grid = {{one, 1}, {one, 1}, {one, 1}},
                                .block = {1, 1, 1},
                                .slots = slots,
                                .slot_count = 3};
  const kiln_plan_tensor_t output = {.type = {.dtype = KILN_DTYPE_f64}, .align_bytes = 16};
  kiln_plan_t plan = {.outputs = &output, .output_count = 1, .launches = &launch, .launch_count = 1};
  __typeof__(*plan.constants) constants[] = {{constant, sizeof constant}};
  plan.constants = constants;
  plan.constant_count = 1;
  kiln_executable_t *executable;
  assert_null(kiln_device_load(fixture->device, &plan, &artifact, &executable));
  double y = 0;
  kiln_host_span_t span = {&y, sizeof y};
  assert_null(kiln_device_execute(fixture->device, executable, NULL, NULL, &span, NULL));
  assert_true(y == 42.0);
  kiln_device_unload(fixture->device, executable);
}

/* --- blocks that work together ----------------------------------------------------------------- */

/* Each block leaves its number + 1 in the workspace; the last of them to arrive adds them up, and more. */
#define MEET_SOURCE                                                                                          \
  "extern \"C\" __global__ void meet(int *y, int *workspace, unsigned *counters, int left) {\n"              \
  "  workspace[blockIdx.x] = blockIdx.x + 1;\n"                                                              \
  "  __threadfence();\n"                                                                                     \
  "  if (atomicAdd(counters + 2, 1) + 1 < gridDim.x) return;\n"                                              \
  "  __threadfence();\n"                                                                                     \
  "  int sum = 0;\n"                                                                                         \
  "  for (int i = 0; i < gridDim.x; i++) sum += workspace[i];\n"                                             \
  "  *y = sum;\n"                                                                                            \
  "  counters[2] = left;\n"                                                                                  \
  "}\n"

static kiln_executable_t *load_meet(fixture_t *fixture, int blocks, int left) {
  kiln_kernel_artifact_t artifact = compile(fixture, MEET_SOURCE, "meet");
  const kiln_dim_t one = kiln_dim_constant(1);
  const kiln_slot_t slots[] = {{.kind = KILN_SLOT_BUFFER, .buffer = {KILN_BUFFER_OUTPUT, 0}},
                               {.kind = KILN_SLOT_WORKSPACE},
                               {.kind = KILN_SLOT_COUNTERS},
                               {.kind = KILN_SLOT_DIM32, .dim = kiln_dim_constant(left)}};
  const kiln_launch_t launch = {.kernel = kiln_sha256("meet", 4),
                                .entry = "meet",
                                .grid = {{kiln_dim_constant(blocks), 1}, {one, 1}, {one, 1}},
                                .block = {1, 1, 1},
                                .scratch = {kiln_dim_constant(4 * blocks), kiln_dim_constant(3)},
                                .slots = slots,
                                .slot_count = 4};
  const kiln_plan_tensor_t output = {.type = {.dtype = KILN_DTYPE_i32}, .align_bytes = 16};
  const kiln_plan_t plan = {.outputs = &output, .output_count = 1, .launches = &launch, .launch_count = 1};
  kiln_executable_t *executable;
  assert_null(kiln_device_load(fixture->device, &plan, &artifact, &executable));
  return executable;
}

static kiln_status_t run_meet(fixture_t *fixture, kiln_executable_t *executable, int *out) {
  kiln_host_span_t span = {out, sizeof *out};
  return kiln_device_execute(fixture->device, executable, NULL, NULL, &span, NULL);
}

static void blocks_meet_in_workspace_and_counters_also_the_next_time(void **state) {
  static const char *const checkers[] = {"all", "none", "none", "all", "none"};
  fixture_t *fixture = *state;
  kiln_executable_t *few = load_meet(fixture, 7, 0), *many = load_meet(fixture, 1000, 0);
  for (size_t i = 0; i < sizeof checkers / sizeof *checkers; i++) {
    int y = 0;
    test_device_check(fixture->device, checkers[i]);
    assert_null(run_meet(fixture, few, &y));
    assert_int_equal(y, 7 * 8 / 2);
    assert_null(run_meet(fixture, many, &y));
    assert_int_equal(y, 1000 * 1001 / 2);
  }
  kiln_device_unload(fixture->device, few);
  kiln_device_unload(fixture->device, many);
}

static void with_checkers_a_counter_that_is_left_above_0_is_told(void **state) {
  test_needs_emulated("checkers");
  fixture_t *fixture = *state;
  kiln_executable_t *executable = load_meet(fixture, 7, 5);
  int y = 0;
  kiln_status_t status = run_meet(fixture, executable, &y);
  assert_int_equal(kiln_status_code(status), KILN_INTERNAL);
  assert_non_null(strstr(kiln_status_message(status), "a kernel left counter 2 at 5"));
  kiln_status_free(status);
  kiln_device_unload(fixture->device, executable);
}

/* --- faults ------------------------------------------------------------------------------------ */

static void a_kernel_that_writes_past_its_output_is_told_with_a_report(void **state) {
  test_needs_emulated("checkers");
  fixture_t *fixture = *state;
  kiln_scale_plan_t s;
  kiln_executable_t *executable;
  kiln_scale_plan_make(&s);
  s.artifacts[0] = s.artifacts[1] =
      compile(fixture,
              "extern \"C\" __global__ void scale(const float *x, float *y, int n, long long k) {\n"
              "  y[threadIdx.x + 1] = (float)k * n * (x != 0);\n"
              "}\n",
              "scale");
  assert_null(kiln_device_load(fixture->device, &s.plan, s.artifacts, &executable));
  float x[128] = {0}, y[128];
  int64_t t = 128;
  kiln_host_span_t input = {x, sizeof x}, output = {y, sizeof y};
  kiln_status_t status = kiln_device_execute(fixture->device, executable, &t, &input, &output, NULL);
  assert_int_equal(kiln_status_code(status), KILN_DEVICE_LOST);
  assert_string_equal(kiln_status_detail(status, "cuda"), "CUDA_ERROR_ILLEGAL_ADDRESS");
  assert_non_null(strstr(kiln_status_detail(status, "report"), "scale"));
  kiln_status_free(status);
  status = kiln_device_execute(fixture->device, executable, &t, &input, &output, NULL);
  assert_int_equal(kiln_status_code(status), KILN_DEVICE_LOST);
  kiln_status_free(status);
  kiln_device_unload(fixture->device, executable);
}

static void ptx_that_is_cut_short_is_an_image_error_with_a_log(void **state) {
  fixture_t *fixture = *state;
  kiln_scale_plan_t s;
  kiln_executable_t *executable;
  kiln_scale_plan_make(&s);
  kiln_kernel_artifact_t whole = compile(fixture, KILN_SCALE_SOURCE, "scale");
  char *cut = kiln_arena_strndup(&fixture->arena, whole.ptx, strlen(whole.ptx) - 40);
  s.artifacts[0] = s.artifacts[1] = whole;
  s.artifacts[0].ptx = s.artifacts[0].image = cut;
  s.artifacts[0].image_bytes = strlen(cut) + 1;
  kiln_status_t status = kiln_device_load(fixture->device, &s.plan, s.artifacts, &executable);
  assert_int_equal(kiln_status_code(status), KILN_INVALID_ARGUMENT);
  assert_string_equal(kiln_status_detail(status, "rule"), "image");
  assert_non_null(kiln_status_detail(status, "log"));
  kiln_status_free(status);
  executable = load_scale(fixture); /* the device goes on */
  expect_scaled(fixture, executable, 10);
  kiln_device_unload(fixture->device, executable);
}

/* --- counters and speed ------------------------------------------------------------------------ */

static void launches_and_copies_are_timed_by_the_device(void **state) {
  fixture_t *fixture = *state;
  kiln_executable_t *executable = load_scale(fixture);
  float x[300] = {0};
  int64_t t = 300;
  kiln_host_span_t input = {x, sizeof x}, shorter = {x, sizeof x - 4};
  double launches_ns = 0, copy_ns = 0;
  assert_null(kiln_device_time(fixture->device, executable, &t, &input, 3, &launches_ns));
  assert_null(kiln_device_time_copy(fixture->device, 4096, 3, &copy_ns));
  assert_true(launches_ns > 0 && copy_ns > 0);
  kiln_status_t status = kiln_device_time(fixture->device, executable, &t, &shorter, 3, &launches_ns);
  assert_int_equal(kiln_status_code(status), KILN_INVALID_ARGUMENT);
  kiln_status_free(status);
  expect_scaled(fixture, executable, 70); /* and executions go on */
  kiln_device_unload(fixture->device, executable);
}

static void counters_name_each_launch_once(void **state) {
  test_needs_emulated("counters");
  fixture_t *fixture = *state;
  kiln_executable_t *executable = load_scale(fixture);
  kiln_buffer_t json;
  kiln_buffer_init(&json);
  expect_scaled(fixture, executable, 10);
  assert_null(kiln_device_count(fixture->device, true));
  expect_scaled(fixture, executable, 256);
  assert_null(kiln_device_counters(fixture->device, &json));
  const char *first = strstr(kiln_buffer_text(&json), "\"scale\"");
  assert_non_null(first);
  const char *second = strstr(first + 1, "\"scale\"");
  assert_non_null(second);
  assert_null(strstr(second + 1, "\"scale\""));
  /* Each launch reads and writes 256 floats: 1024 bytes each way. */
  assert_non_null(strstr(kiln_buffer_text(&json), "\"bytes_moved\":2048,"));
  kiln_buffer_clear(&json);
  assert_null(kiln_device_counters(fixture->device, &json));
  assert_memory_equal(kiln_buffer_text(&json), "{\"launches\": []", 15);
  kiln_buffer_deinit(&json);
  kiln_device_unload(fixture->device, executable);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(a_plan_with_a_symbol_and_a_temporary_computes_for_each_value),
      TEST(results_do_not_depend_on_where_buffers_lie),
      TEST(a_scalar_from_a_constant_needs_no_input),
      TEST(blocks_meet_in_workspace_and_counters_also_the_next_time),
      TEST(with_checkers_a_counter_that_is_left_above_0_is_told),
      TEST(a_kernel_that_writes_past_its_output_is_told_with_a_report),
      TEST(ptx_that_is_cut_short_is_an_image_error_with_a_log),
      TEST(launches_and_copies_are_timed_by_the_device),
      TEST(counters_name_each_launch_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
