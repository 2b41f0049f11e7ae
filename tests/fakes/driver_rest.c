/* tests/fakes/driver_rest.c: every function of the driver that driver.c does not need to know: it succeeds at
 * once. */
#include "base/cuda_abi.h"
#include "tests/fakes/driver.h"

#define KILN_CUDA(need, name, parameters)                                                                    \
  __attribute__((weak)) CUresult name parameters { return fake_call(#name); }
#include "base/cuda.def"
