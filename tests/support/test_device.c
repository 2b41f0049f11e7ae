/* tests/support/test_device.c: see test_device.h. */
#include "tests/support/test_device.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool test_on_cuda(void) {
  const char *wanted = getenv("KILN_TEST_DEVICE");
  return wanted && !strcmp(wanted, "cuda");
}

/* The whole program is one skip: none of its tests can run. */
static void end_without_device(kiln_status_t status) {
  printf("no CUDA device: %s\n", kiln_status_message(status));
  fflush(stdout);
  _Exit(TEST_SKIP_EXIT_CODE);
}

kiln_device_t *test_device_open(void) {
  kiln_device_spec_t spec;
  kiln_device_t *device = NULL;
  kiln_status_t status = kiln_device_spec_parse(test_on_cuda() ? "cuda" : "emulated", &spec);
  if (!status) status = kiln_device_create(&spec, &device);
  if (status && test_on_cuda()) end_without_device(status);
  if (status) fail_msg("opening the device: %s", kiln_status_message(status));
  test_device_check(device, "all");
  return device;
}

void test_device_check(kiln_device_t *device, const char *checkers) {
  if (!kiln_device_info(device)->emulated) return;
  kiln_status_t status = kiln_device_check(device, checkers);
  if (status) fail_msg("checkers: %s", kiln_status_message(status));
}

kiln_cuda_t test_cuda_open(void) {
  kiln_cuda_t cuda;
  int count = 0;
  kiln_status_t status = kiln_cuda_open("libcuda.so.1", &cuda);
  if (!status) status = kiln_cuda_status(&cuda, cuda.cuInit(0), "cuInit");
  if (!status) status = kiln_cuda_status(&cuda, cuda.cuDeviceGetCount(&count), "cuDeviceGetCount");
  if (!status && !count) status = kiln_error(KILN_UNAVAILABLE, "'%s' finds none", cuda.library.path);
  if (status) end_without_device(status);
  return cuda;
}

void test_needs_emulated(const char *what) {
  if (!test_on_cuda()) return;
  print_message("%s: only of the emulated device\n", what);
  skip();
}
