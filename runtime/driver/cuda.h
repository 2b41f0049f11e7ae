/* runtime/driver/cuda.h: the CUDA Driver API as a struct of function pointers, made from base/cuda.def.
 *
 * Opened once per device process, on NVIDIA's libcuda or on libkiln-emu; runtime/device.c and its neighbours
 * call through it. A CUresult becomes a status here and nowhere else, with the driver's own name and number
 * for it.
 */
#ifndef KILN_RUNTIME_DRIVER_CUDA_H
#define KILN_RUNTIME_DRIVER_CUDA_H

#include "base/cuda_abi.h"
#include "runtime/driver/library.h"

typedef struct {
  kiln_library_t library;
#define KILN_CUDA(need, name, parameters) CUresult(*name) parameters;
#include "base/cuda.def"
#undef KILN_CUDA
} kiln_cuda_t;

/* UNAVAILABLE names the library and what is wrong with it. out_cuda is filled on success only. */
kiln_status_t kiln_cuda_open(const char *library, kiln_cuda_t *out_cuda);
void kiln_cuda_close(kiln_cuda_t *cuda);

/* True for errors after which the context answers nothing else: a fault of a kernel or of the device. */
bool kiln_cuda_is_sticky(CUresult result);

/* The status of a call that returned `result`: NULL for CUDA_SUCCESS, DEVICE_LOST for a sticky error,
 * OUT_OF_MEMORY with detail where=device, else INTERNAL. `call` names the function. Detail "cuda" holds the
 * driver's name of the error. */
kiln_status_t kiln_cuda_status(const kiln_cuda_t *cuda, CUresult result, const char *call);

/* Calls a function of the table and returns its error, if any, from the caller. */
#define KILN_CUDA_TRY(cuda, function, ...)                                                                   \
  KILN_TRY(kiln_cuda_status((cuda), (cuda)->function(__VA_ARGS__), #function))

#endif
