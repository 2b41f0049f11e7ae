/* tests/unit/test_runtime_device.c: devices and executions against a driver that fails on demand
 * (tests/fakes/driver.c): what is called and how often, and what each failure becomes. Values that kernels
 * compute on the emulated device are tested in test_runtime_execute.c. */
#include "base/cuda_abi.h"
#include "runtime/device.h"
#include "tests/support/folder.h"
#include "tests/support/scale_plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* --- the fake driver --------------------------------------------------------------------------- */

static char *folder;

static int build_driver(void **state) {
  (void)state;
  char command[2048], path[512];
  folder = kiln_test_folder_create();
  snprintf(path, sizeof path, "%s/driver.so", folder);
  snprintf(command, sizeof command,
           "cc -std=gnu17 -D_GNU_SOURCE -w -shared -fPIC -I '%s' -o '%s' '%s/tests/fakes/driver.c' "
           "'%s/tests/fakes/driver_rest.c'",
           KILN_SOURCE_DIR, path, KILN_SOURCE_DIR, KILN_SOURCE_DIR);
  if (system(command)) return -1;
  setenv("KILN_EMU_LIBRARY", path, 1);
  snprintf(path, sizeof path, "%s/log", folder);
  setenv("FAKE_LOG", path, 1);
  return 0;
}

static int remove_driver(void **state) {
  (void)state;
  kiln_test_folder_remove(folder);
  return 0;
}

/* How often the driver was called by this name since the last forget_calls. */
static int calls(const char *name) {
  char line[128];
  int count = 0;
  FILE *log = fopen(getenv("FAKE_LOG"), "r");
  while (log && fgets(line, sizeof line, log)) {
    line[strcspn(line, "\n")] = 0;
    count += !strcmp(line, name);
  }
  if (log) fclose(log);
  return count;
}

static void forget_calls(void) { unlink(getenv("FAKE_LOG")); }

static kiln_device_t *create_device(void) {
  kiln_device_spec_t spec;
  kiln_device_t *device;
  unsetenv("FAKE_FAIL");
  unsetenv("FAKE_MEMORY");
  assert_null(kiln_device_spec_parse("emulated", &spec));
  assert_null(kiln_device_create(&spec, &device));
  forget_calls();
  return device;
}

/* The device gives back all that it took. */
static void destroy_device(kiln_device_t *device, int allocations, int modules) {
  unsetenv("FAKE_FAIL");
  kiln_device_destroy(device);
  assert_int_equal(calls("cuMemFree_v2"), allocations);
  assert_int_equal(calls("cuModuleUnload"), modules);
  assert_int_equal(calls("cuStreamDestroy_v2"), 1);
  assert_int_equal(calls("cuDevicePrimaryCtxRelease_v2"), 1);
}

static void expect_error(kiln_status_t status, kiln_code_t code, const char *part_of_message) {
  assert_int_equal(kiln_status_code(status), code);
  assert_non_null(strstr(kiln_status_message(status), part_of_message));
  kiln_status_free(status);
}

/* --- executions of the plan in tests/support/scale_plan.h ---------------------------------------- */

static kiln_executable_t *load_plan(kiln_device_t *device) {
  kiln_scale_plan_t s;
  kiln_executable_t *executable;
  kiln_scale_plan_make(&s);
  assert_null(kiln_device_load(device, &s.plan, s.artifacts, &executable));
  memset(&s, 0xee, sizeof s); /* everything was copied */
  return executable;
}

static kiln_status_t execute(kiln_device_t *device, kiln_executable_t *executable, int64_t t, float *x,
                             float *y, kiln_execution_timings_t *timings) {
  kiln_host_span_t input = {x, (size_t)t * 4}, output = {y, (size_t)t * 4};
  return kiln_device_execute(device, executable, &t, &input, &output, timings);
}

/* Executes for one T and checks every element. */
static void expect_right_values(kiln_device_t *device, kiln_executable_t *executable, int t) {
  float *x = calloc((size_t)t + 1, sizeof *x), *y = calloc((size_t)t + 1, sizeof *y);
  kiln_execution_timings_t timings;
  for (int i = 0; i < t; i++) x[i] = (float)i;
  assert_null(execute(device, executable, t, x, y, &timings));
  for (int i = 0; i < t; i++) assert_true(y[i] == 3.0f * ((float)t * (float)i));
  assert_int_equal(timings.launches, t ? 2 : 0);
  assert_int_equal(timings.realigned, 0);
  free(x);
  free(y);
}

/* --- opening ----------------------------------------------------------------------------------- */

static void a_device_is_named_as_the_command_line_says(void **state) {
  (void)state;
  kiln_device_spec_t spec;
  assert_null(kiln_device_spec_parse("auto", &spec));
  assert_int_equal(spec.kind, KILN_DEVICE_AUTO);
  assert_null(kiln_device_spec_parse("cuda", &spec));
  assert_int_equal(spec.kind, KILN_DEVICE_CUDA);
  assert_int_equal(spec.ordinal, 0);
  assert_null(kiln_device_spec_parse("cuda:12", &spec));
  assert_int_equal(spec.ordinal, 12);
  assert_null(kiln_device_spec_parse("emulated:a100", &spec));
  assert_int_equal(spec.kind, KILN_DEVICE_EMULATED);
  assert_string_equal(spec.model, "a100");
  static const char *const wrong[] = {
      "",          "gpu",   "cuda:", "cuda:-1",   "cuda:1x",
      "cuda:1000", "cuda1", "autos", "emulated:", "emulated:a-name-that-is-far-longer-than-any-model"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    expect_error(kiln_device_spec_parse(wrong[i], &spec), KILN_INVALID_ARGUMENT,
                 "use auto, cuda[:N] or emulated");
  }
}

static void a_device_tells_what_the_driver_told(void **state) {
  (void)state;
  kiln_device_t *device = create_device();
  const kiln_device_info_t *info = kiln_device_info(device);
  assert_string_equal(info->name, "fake");
  assert_string_equal(info->uuid, "GPU-f0f1f2f3-f4f5-f6f7-f8f9-fafbfcfdfeff");
  assert_string_equal(info->target.arch, "sm_90");
  assert_int_equal(info->target.sm_count, 7);
  assert_int_equal(info->target.shared_bytes_per_block, 100000);
  assert_int_equal(info->target.l2_bytes, 4096);
  assert_int_equal(info->memory_bytes, (3ull << 30) + 12345);
  assert_int_equal(info->target.memory_bytes, 3ull << 30);
  assert_true(info->emulated);
  assert_int_equal(info->image_kind, KILN_IMAGE_PTX);
  destroy_device(device, 0, 0);
}

static void a_driver_that_fails_at_any_step_is_unavailable_with_its_own_words(void **state) {
  (void)state;
  static const char *const steps[] = {"cuInit",          "cuDeviceGet",        "cuDeviceGetName",
                                      "cuCtxSetCurrent", "cuDeviceGetUuid_v2", "cuDevicePrimaryCtxRetain",
                                      "cuStreamCreate",  "kilnEmuSetCounting", "kilnEmuSetChecks"};
  const kiln_device_spec_t spec = {.kind = KILN_DEVICE_EMULATED};
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
    char fail[64];
    kiln_device_t *device;
    snprintf(fail, sizeof fail, "%s:999:0", steps[i]);
    setenv("FAKE_FAIL", fail, 1);
    forget_calls();
    kiln_status_t status = kiln_device_create(&spec, &device);
    assert_non_null(strstr(kiln_status_message(status), steps[i]));
    expect_error(status, KILN_UNAVAILABLE, "CUDA_ERROR_UNKNOWN, error 999");
    bool retained =
        calls("cuDevicePrimaryCtxRetain") > 0 && strcmp(steps[i], "cuDevicePrimaryCtxRetain") != 0;
    assert_int_equal(calls("cuDevicePrimaryCtxRelease_v2"), retained ? 1 : 0);
  }
  unsetenv("FAKE_FAIL");
}

static void a_library_that_is_no_driver_is_unavailable(void **state) {
  (void)state;
  const kiln_device_spec_t spec = {.kind = KILN_DEVICE_EMULATED};
  kiln_device_t *device;
  char *good = strdup(getenv("KILN_EMU_LIBRARY"));
  setenv("KILN_EMU_LIBRARY", "libm.so.6", 1);
  expect_error(kiln_device_create(&spec, &device), KILN_UNAVAILABLE, "lacks the symbol cuInit");
  setenv("KILN_EMU_LIBRARY", "/nowhere/driver.so", 1);
  expect_error(kiln_device_create(&spec, &device), KILN_UNAVAILABLE, "/nowhere/driver.so");
  setenv("KILN_EMU_LIBRARY", good, 1);
  free(good);
}

/* --- loading ----------------------------------------------------------------------------------- */

static void launches_of_one_kernel_share_its_module_also_between_plans(void **state) {
  (void)state;
  kiln_device_t *device = create_device();
  kiln_executable_t *first = load_plan(device), *second = load_plan(device);
  assert_int_equal(calls("cuModuleLoadDataEx"), 1);
  kiln_device_unload(device, first);
  kiln_device_unload(device, second);
  assert_int_equal(calls("cuModuleUnload"), 0);
  kiln_executable_t *third = load_plan(device); /* found, though nobody used it meanwhile */
  assert_int_equal(calls("cuModuleLoadDataEx"), 1);
  kiln_device_unload(device, third);
  destroy_device(device, 0, 1);
}

static void idle_modules_are_unloaded_past_a_limit_the_oldest_first(void **state) {
  (void)state;
  enum { PLANS = 70, IMAGE_BYTES = 1 << 20 };
  kiln_device_t *device = create_device();
  char *image = calloc(1, IMAGE_BYTES);
  strcpy(image, "scale");
  for (int i = 0; i < PLANS; i++) {
    kiln_scale_plan_t s;
    kiln_executable_t *executable;
    kiln_scale_plan_make(&s);
    s.plan.launch_count = 1;
    s.launches[0].kernel = kiln_sha256(&i, sizeof i);
    s.artifacts[0].image = image;
    s.artifacts[0].image_bytes = IMAGE_BYTES;
    assert_null(kiln_device_load(device, &s.plan, s.artifacts, &executable));
    kiln_device_unload(device, executable);
  }
  assert_int_equal(calls("cuModuleLoadDataEx"), PLANS);
  assert_int_equal(calls("cuModuleUnload"), PLANS - 64);
  free(image);
  destroy_device(device, 0, PLANS);
}

static void an_image_that_does_not_load_says_that_it_is_the_image(void **state) {
  (void)state;
  static const int errors[] = {CUDA_ERROR_INVALID_PTX, CUDA_ERROR_INVALID_IMAGE,
                               CUDA_ERROR_NO_BINARY_FOR_GPU};
  kiln_device_t *device = create_device();
  kiln_executable_t *executable;
  kiln_scale_plan_t s;
  kiln_scale_plan_make(&s);
  for (int i = 0; i < 3; i++) {
    char fail[64];
    snprintf(fail, sizeof fail, "cuModuleLoadDataEx:%d:0", errors[i]);
    setenv("FAKE_FAIL", fail, 1);
    kiln_status_t status = kiln_device_load(device, &s.plan, s.artifacts, &executable);
    assert_string_equal(kiln_status_detail(status, "rule"), "image");
    assert_string_equal(kiln_status_detail(status, "log"), "line 7: not understood");
    expect_error(status, KILN_INVALID_ARGUMENT, "does not load on fake");
  }
  unsetenv("FAKE_FAIL");
  s.launches[1].entry = "other";
  s.launches[1].kernel = kiln_sha256("other", 5);
  kiln_status_t status = kiln_device_load(device, &s.plan, s.artifacts, &executable);
  assert_string_equal(kiln_status_detail(status, "rule"), "image");
  expect_error(status, KILN_INVALID_ARGUMENT, "has no entry other");
  kiln_scale_plan_make(&s);
  s.artifacts[0].kind = KILN_IMAGE_CUBIN;
  s.launches[0].kernel = kiln_sha256("cubin", 5);
  expect_error(kiln_device_load(device, &s.plan, s.artifacts, &executable), KILN_INVALID_ARGUMENT, "image");
  destroy_device(device, 0, calls("cuModuleLoadDataEx") - 3);
}

static void a_driver_too_old_for_the_ptx_is_told_with_both_versions(void **state) {
  (void)state;
  kiln_device_t *device = create_device();
  kiln_executable_t *executable;
  kiln_scale_plan_t s;
  kiln_scale_plan_make(&s);
  setenv("FAKE_FAIL", "cuModuleLoadDataEx:222:0", 1);
  kiln_status_t status = kiln_device_load(device, &s.plan, s.artifacts, &executable);
  assert_non_null(strstr(kiln_status_message(status), "driver.so' is for CUDA 12.2"));
  expect_error(status, KILN_UNAVAILABLE, "too old for PTX 8.0: update the driver");
  destroy_device(device, 0, 0);
}

static void a_launch_that_the_device_cannot_take_is_refused(void **state) {
  (void)state;
  kiln_device_t *device = create_device();
  kiln_executable_t *executable;
  kiln_scale_plan_t s;
  kiln_scale_plan_make(&s);
  s.launches[1].block[2] = 65;
  expect_error(kiln_device_load(device, &s.plan, s.artifacts, &executable), KILN_INVALID_ARGUMENT,
               "launch 1");
  kiln_scale_plan_make(&s);
  s.launches[1].block[1] = 9; /* 1152 threads */
  expect_error(kiln_device_load(device, &s.plan, s.artifacts, &executable), KILN_INVALID_ARGUMENT,
               "more threads");
  kiln_scale_plan_make(&s);
  s.launches[0].shared_bytes = 100001;
  expect_error(kiln_device_load(device, &s.plan, s.artifacts, &executable), KILN_INVALID_ARGUMENT,
               "shared memory");
  kiln_scale_plan_make(&s);
  s.params[1][0].buffer.index = 1;
  expect_error(kiln_device_load(device, &s.plan, s.artifacts, &executable), KILN_INVALID_ARGUMENT, "");
  destroy_device(device, 0, 0);
}

/* --- executing --------------------------------------------------------------------------------- */

static void symbols_change_sizes_grids_and_parameters(void **state) {
  (void)state;
  static const int sizes[] = {1, 2, 127, 128, 129, 1000, 0, 7, 7, 300000};
  kiln_device_t *device = create_device();
  kiln_executable_t *executable = load_plan(device);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) expect_right_values(device, executable, sizes[i]);
  kiln_device_unload(device, executable);
  destroy_device(device, calls("cuMemAlloc_v2"), 1);
}

static void a_second_execution_allocates_nothing_and_waits_once(void **state) {
  (void)state;
  kiln_device_t *device = create_device();
  kiln_executable_t *executable = load_plan(device), *other = load_plan(device);
  expect_right_values(device, executable, 100);
  assert_int_equal(calls("cuMemAlloc_v2"), 1);
  forget_calls();
  expect_right_values(device, executable, 100);
  expect_right_values(device, executable, 99);
  expect_right_values(device, other, 77);
  assert_int_equal(calls("cuMemAlloc_v2"), 0);
  assert_int_equal(calls("cuStreamSynchronize"), 3);
  assert_int_equal(calls("cuMemcpyHtoDAsync_v2"), 3);
  assert_int_equal(calls("cuLaunchKernel"), 6);
  assert_int_equal(calls("cuMemcpyDtoHAsync_v2"), 3);
  assert_int_equal(calls("cuMemsetD8Async"), 0);
  kiln_device_unload(device, executable);
  kiln_device_unload(device, other);
  destroy_device(device, 1, 1);
}

static void a_large_execution_gives_its_memory_back(void **state) {
  (void)state;
  kiln_device_t *device = create_device();
  kiln_executable_t *executable = load_plan(device);
  expect_right_values(device, executable, 30000000); /* 3 x 114 MiB */
  assert_int_equal(calls("cuMemAlloc_v2"), 1);
  assert_int_equal(calls("cuMemFree_v2"), 1);
  expect_right_values(device, executable, 5);
  kiln_device_unload(device, executable);
  destroy_device(device, 2, 1);
}

/* With y's elements 4 bytes apart and its gaps, the reader must not see what lay there before. */
static void gaps_of_a_strided_output_are_zero(void **state) {
  (void)state;
  kiln_device_t *device = create_device();
  kiln_scale_plan_t s;
  kiln_executable_t *executable;
  kiln_scale_plan_make(&s);
  s.output.strides[0] = kiln_dim_constant(2);
  assert_null(kiln_device_load(device, &s.plan, s.artifacts, &executable));
  float x[4] = {1, 2, 3, 4}, y[7];
  memset(y, 0x11, sizeof y);
  int64_t t = 4;
  kiln_host_span_t input = {x, sizeof x}, output = {y, sizeof y};
  kiln_execution_timings_t timings;
  assert_null(kiln_device_execute(device, executable, &t, &input, &output, &timings));
  /* The fake kernel writes densely; what it did not write is zero. */
  for (int i = 4; i < 7; i++) assert_true(y[i] == 0.0f);
  assert_int_equal(timings.launches, 3);
  kiln_device_unload(device, executable);
  destroy_device(device, 1, 1);
}

static void buffers_aligned_to_a_page_are(void **state) {
  (void)state;
  kiln_device_t *device = create_device();
  kiln_scale_plan_t s;
  kiln_executable_t *executable;
  kiln_scale_plan_make(&s);
  s.output.align_bytes = 4096;
  assert_null(kiln_device_load(device, &s.plan, s.artifacts, &executable));
  for (int t = 1; t < 300000; t = t * 7 + 1) expect_right_values(device, executable, t);
  kiln_device_unload(device, executable);
  destroy_device(device, calls("cuMemAlloc_v2"), 1);
}

static void with_a_checker_on_every_buffer_is_an_allocation_of_its_own(void **state) {
  (void)state;
  kiln_device_t *device = create_device();
  kiln_executable_t *executable = load_plan(device);
  assert_null(kiln_device_check(device, "init,race"));
  expect_right_values(device, executable, 10);
  expect_right_values(device, executable, 10);
  assert_int_equal(calls("cuMemAlloc_v2"), 6);
  assert_int_equal(calls("cuMemFree_v2"), 6);
  assert_null(kiln_device_check(device, "none"));
  expect_right_values(device, executable, 10);
  assert_int_equal(calls("cuMemAlloc_v2"), 7);
  expect_error(kiln_device_check(device, "everything"), KILN_INVALID_ARGUMENT, "everything");
  expect_error(kiln_device_check(device, "init,"), KILN_INVALID_ARGUMENT, "init,");
  kiln_device_unload(device, executable);
  destroy_device(device, 7, 1);
}

static void counters_are_cleared_when_allocated_and_thrown_away_by_a_failure(void **state) {
  (void)state;
  kiln_device_t *device = create_device();
  kiln_scale_plan_t s;
  kiln_executable_t *executable;
  float x[8] = {0}, y[8];
  kiln_scale_plan_make(&s);
  s.launches[1].scratch = (kiln_scratch_t){s.four_t, s.t};
  assert_null(kiln_device_load(device, &s.plan, s.artifacts, &executable));
  for (int t = 1; t <= 1024; t *= 4) expect_right_values(device, executable, t);
  assert_int_equal(calls("cuMemsetD8Async"), 1); /* 1024 counters take 4 KiB, the least that is allocated */
  expect_right_values(device, executable, 1025);
  assert_int_equal(calls("cuMemsetD8Async"), 2);
  setenv("FAKE_FAIL", "cuLaunchKernel:1:1", 1);
  expect_error(execute(device, executable, 8, x, y, NULL), KILN_INTERNAL, "cuLaunchKernel");
  unsetenv("FAKE_FAIL");
  expect_right_values(device, executable, 8);
  assert_int_equal(calls("cuMemsetD8Async"), 3);
  kiln_device_unload(device, executable);
  destroy_device(device, 4, 1);
}

/* --- what is refused and what fails ------------------------------------------------------------ */

static void wrong_sizes_and_symbols_are_refused_and_the_next_execution_is_right(void **state) {
  (void)state;
  kiln_device_t *device = create_device();
  kiln_executable_t *executable = load_plan(device);
  float x[16] = {0}, y[16];
  int64_t t = 4;
  kiln_host_span_t four = {x, 16}, short_one = {x, 15}, output = {y, 16}, long_one = {y, 20};
  kiln_status_t status = kiln_device_execute(device, executable, &t, &short_one, &output, NULL);
  assert_string_equal(kiln_status_detail(status, "field"), "inputs[0]");
  expect_error(status, KILN_INVALID_ARGUMENT, "has 15 bytes, the plan wants 16");
  status = kiln_device_execute(device, executable, &t, &four, &long_one, NULL);
  assert_string_equal(kiln_status_detail(status, "field"), "outputs[0]");
  kiln_status_free(status);
  expect_error(execute(device, executable, -1, x, y, NULL), KILN_INVALID_ARGUMENT, "T is a size");
  status = execute(device, executable, 100000000, x, y, NULL);
  assert_string_equal(kiln_status_detail(status, "rule"), "guard");
  kiln_status_free(status);
  assert_int_equal(calls("cuLaunchKernel"), 0);
  expect_right_values(device, executable, 4);
  kiln_device_unload(device, executable);
  destroy_device(device, 1, 1);
}

static void sizes_past_every_address_are_refused(void **state) {
  (void)state;
  kiln_device_t *device = create_device();
  kiln_scale_plan_t s;
  kiln_executable_t *executable;
  kiln_scale_plan_make(&s);
  s.guard.bound = INT64_MAX;
  assert_null(kiln_device_load(device, &s.plan, s.artifacts, &executable));
  static const int64_t sizes[] = {INT64_MAX - 1, INT64_MAX / 4, INT64_MAX / 16, INT64_C(1) << 40};
  for (size_t i = 0; i < 4; i++) {
    kiln_host_span_t span = {NULL, 0};
    kiln_status_t status = kiln_device_execute(device, executable, &sizes[i], &span, &span, NULL);
    assert_true(kiln_status_code(status) == KILN_TOO_LARGE ||
                kiln_status_code(status) == KILN_INVALID_ARGUMENT);
    kiln_status_free(status);
  }
  kiln_device_unload(device, executable);
  destroy_device(device, 0, 1);
}

static void a_device_without_room_is_out_of_memory_and_goes_on(void **state) {
  (void)state;
  kiln_device_t *device = create_device();
  kiln_executable_t *executable = load_plan(device);
  setenv("FAKE_MEMORY", "1048576", 1);
  expect_right_values(device, executable, 1000);
  float *x = calloc(1000000, sizeof *x);
  kiln_status_t status = execute(device, executable, 1000000, x, x, NULL);
  assert_string_equal(kiln_status_detail(status, "where"), "device");
  expect_error(status, KILN_OUT_OF_MEMORY, "cuMemAlloc_v2");
  free(x);
  expect_right_values(device, executable, 1000);
  kiln_device_unload(device, executable);
  destroy_device(device, 2, 1);
  unsetenv("FAKE_MEMORY");
}

static void an_error_while_queueing_waits_for_what_is_queued(void **state) {
  (void)state;
  kiln_device_t *device = create_device();
  kiln_executable_t *executable = load_plan(device);
  float x[4] = {0}, y[4];
  setenv("FAKE_FAIL", "cuLaunchKernel:1:1", 1);
  expect_error(execute(device, executable, 4, x, y, NULL), KILN_INTERNAL, "cuLaunchKernel");
  assert_int_equal(calls("cuStreamSynchronize"), 1);
  unsetenv("FAKE_FAIL");
  expect_right_values(device, executable, 4);
  kiln_device_unload(device, executable);
  destroy_device(device, 1, 1);
}

static void a_fault_is_device_lost_with_its_report_and_stays_so(void **state) {
  (void)state;
  kiln_device_t *device = create_device();
  kiln_executable_t *executable = load_plan(device), *other;
  float x[4] = {0}, y[4];
  kiln_scale_plan_t s;
  setenv("FAKE_FAIL", "cuStreamSynchronize:700:0", 1);
  kiln_status_t status = execute(device, executable, 4, x, y, NULL);
  assert_string_equal(kiln_status_detail(status, "report"), "block 3, thread 5 read past the end");
  assert_string_equal(kiln_status_detail(status, "cuda"), "CUDA_ERROR_ILLEGAL_ADDRESS");
  expect_error(status, KILN_DEVICE_LOST, "cuStreamSynchronize");
  unsetenv("FAKE_FAIL");
  forget_calls();
  kiln_scale_plan_make(&s);
  expect_error(execute(device, executable, 4, x, y, NULL), KILN_DEVICE_LOST, "lost");
  expect_error(kiln_device_load(device, &s.plan, s.artifacts, &other), KILN_DEVICE_LOST, "lost");
  expect_error(kiln_device_count(device, true), KILN_DEVICE_LOST, "lost");
  assert_int_equal(calls("cuLaunchKernel"), 0);
  kiln_device_unload(device, executable);
  destroy_device(device, 1, 1);
}

static void counters_come_only_after_they_were_asked_for(void **state) {
  (void)state;
  kiln_device_t *device = create_device();
  kiln_buffer_t json;
  kiln_buffer_init(&json);
  expect_error(kiln_device_counters(device, &json), KILN_INVALID_ARGUMENT, "not switched on");
  assert_null(kiln_device_count(device, true));
  assert_null(kiln_device_counters(device, &json));
  assert_string_equal(kiln_buffer_text(&json), "{\"launches\": [{\"kernel\": \"scale\"}]}");
  kiln_buffer_deinit(&json);
  destroy_device(device, 0, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_device_is_named_as_the_command_line_says),
      cmocka_unit_test(a_device_tells_what_the_driver_told),
      cmocka_unit_test(a_driver_that_fails_at_any_step_is_unavailable_with_its_own_words),
      cmocka_unit_test(a_library_that_is_no_driver_is_unavailable),
      cmocka_unit_test(launches_of_one_kernel_share_its_module_also_between_plans),
      cmocka_unit_test(idle_modules_are_unloaded_past_a_limit_the_oldest_first),
      cmocka_unit_test(an_image_that_does_not_load_says_that_it_is_the_image),
      cmocka_unit_test(a_driver_too_old_for_the_ptx_is_told_with_both_versions),
      cmocka_unit_test(a_launch_that_the_device_cannot_take_is_refused),
      cmocka_unit_test(symbols_change_sizes_grids_and_parameters),
      cmocka_unit_test(a_second_execution_allocates_nothing_and_waits_once),
      cmocka_unit_test(a_large_execution_gives_its_memory_back),
      cmocka_unit_test(gaps_of_a_strided_output_are_zero),
      cmocka_unit_test(buffers_aligned_to_a_page_are),
      cmocka_unit_test(counters_are_cleared_when_allocated_and_thrown_away_by_a_failure),
      cmocka_unit_test(with_a_checker_on_every_buffer_is_an_allocation_of_its_own),
      cmocka_unit_test(wrong_sizes_and_symbols_are_refused_and_the_next_execution_is_right),
      cmocka_unit_test(sizes_past_every_address_are_refused),
      cmocka_unit_test(a_device_without_room_is_out_of_memory_and_goes_on),
      cmocka_unit_test(an_error_while_queueing_waits_for_what_is_queued),
      cmocka_unit_test(a_fault_is_device_lost_with_its_report_and_stays_so),
      cmocka_unit_test(counters_come_only_after_they_were_asked_for),
  };
  return cmocka_run_group_tests(tests, build_driver, remove_driver);
}
