/* tests/support/test_device.h: the device that tests run kernels on: emulated, or a GPU where
 * KILN_TEST_DEVICE=cuda asks for it (the stage "gpu" of scripts/check.py does).
 *
 * Tests that run kernels open their device here, through kiln's own runtime or as a bare driver, and are the
 * same on either. On a GPU there are no checkers and no counters; a test that needs them skips itself there.
 * A program that is asked for a GPU and finds none ends at once, as one skip with the reason. Thread: the
 * test's.
 */
#ifndef KILN_TESTS_SUPPORT_TEST_DEVICE_H
#define KILN_TESTS_SUPPORT_TEST_DEVICE_H

#include "runtime/device.h"
#include "runtime/driver/cuda.h"

/* What a program ends with that is one skip as a whole; scripts/check.py and the bundle's run.sh count it. */
enum { TEST_SKIP_EXIT_CODE = 77 };

bool test_on_cuda(void);
/* All checkers on where it is emulated. */
kiln_device_t *test_device_open(void);
/* "all", "none" or a list of checkers; nothing to do on a GPU. */
void test_device_check(kiln_device_t *device, const char *checkers);
/* Opens the GPU's driver. */
kiln_cuda_t test_cuda_open(void);
/* Skips the test on a GPU: what it looks at, only the emulated device has. */
void test_needs_emulated(const char *what);

#endif
