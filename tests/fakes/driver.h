/* tests/fakes/driver.h: what the two files of the fake driver share. */
#ifndef KILN_TESTS_FAKES_DRIVER_H
#define KILN_TESTS_FAKES_DRIVER_H

/* Logs the call; the error that the test asked for, or CUDA_SUCCESS. */
CUresult fake_call(const char *name);

#endif
