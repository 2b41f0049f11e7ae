/* runtime/driver/cuda.c: fills the driver's table and translates its errors; see cuda.h. */
#include "runtime/driver/cuda.h"

enum { REQUIRED = 1, OPTIONAL = 0, EMULATED = 0 };

static const kiln_import_t imports[] = {
#define KILN_CUDA(need, name, parameters) {#name, offsetof(kiln_cuda_t, name), need},
#include "base/cuda.def"
#undef KILN_CUDA
};

kiln_status_t kiln_cuda_open(const char *library, kiln_cuda_t *out_cuda) {
  kiln_cuda_t cuda;
  KILN_TRY(kiln_library_open(library, imports, sizeof imports / sizeof *imports, &cuda, &cuda.library));
  *out_cuda = cuda;
  return NULL;
}

void kiln_cuda_close(kiln_cuda_t *cuda) { kiln_library_close(&cuda->library); }

/* Source: the descriptions of cudaError_enum in NVIDIA's cuda.h, those that say the context is left in an
 * inconsistent state and any further work returns the same error. */
bool kiln_cuda_is_sticky(CUresult result) {
  switch (result) {
  case CUDA_ERROR_ECC_UNCORRECTABLE:
  case CUDA_ERROR_NVLINK_UNCORRECTABLE:
  case CUDA_ERROR_CONTAINED:
  case CUDA_ERROR_ILLEGAL_ADDRESS:
  case CUDA_ERROR_LAUNCH_TIMEOUT:
  case CUDA_ERROR_CONTEXT_IS_DESTROYED:
  case CUDA_ERROR_ASSERT:
  case CUDA_ERROR_HARDWARE_STACK_ERROR:
  case CUDA_ERROR_ILLEGAL_INSTRUCTION:
  case CUDA_ERROR_MISALIGNED_ADDRESS:
  case CUDA_ERROR_INVALID_ADDRESS_SPACE:
  case CUDA_ERROR_INVALID_PC:
  case CUDA_ERROR_LAUNCH_FAILED:
  case CUDA_ERROR_DEINITIALIZED:
  case CUDA_ERROR_EXTERNAL_DEVICE:
    return true;
  default:
    return false;
  }
}

kiln_status_t kiln_cuda_status(const kiln_cuda_t *cuda, CUresult result, const char *call) {
  if (result == CUDA_SUCCESS) return NULL;
  const char *name = NULL, *text = NULL;
  cuda->cuGetErrorName(result, &name);
  cuda->cuGetErrorString(result, &text);
  kiln_code_t code = kiln_cuda_is_sticky(result)          ? KILN_DEVICE_LOST
                     : result == CUDA_ERROR_OUT_OF_MEMORY ? KILN_OUT_OF_MEMORY
                                                          : KILN_INTERNAL;
  kiln_status_t status = kiln_error(code, "%s: %s (%s, error %d)", call, text ? text : "unknown error",
                                    name ? name : "no name", (int)result);
  status = kiln_error_detail(status, "cuda", "%s", name ? name : "no name");
  return code == KILN_OUT_OF_MEMORY ? kiln_error_detail(status, "where", "device") : status;
}
