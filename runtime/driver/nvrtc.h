/* runtime/driver/nvrtc.h: NVRTC as a struct of function pointers, made from nvrtc.def, with the part of its
 * ABI that kiln uses declared by hand: no toolkit is needed to build.
 *
 * Opened once per compile worker by runtime/compile.c. Names and values are those of NVIDIA's nvrtc.h, which
 * is why they carry no kiln_ prefix.
 */
#ifndef KILN_RUNTIME_DRIVER_NVRTC_H
#define KILN_RUNTIME_DRIVER_NVRTC_H

#include "runtime/driver/library.h"

typedef struct _nvrtcProgram *nvrtcProgram;
typedef enum {
  NVRTC_SUCCESS = 0,
  NVRTC_ERROR_OUT_OF_MEMORY = 1,
  NVRTC_ERROR_INVALID_OPTION = 5,
  NVRTC_ERROR_COMPILATION = 6,
} nvrtcResult; /* others are reported by their text */

typedef struct {
  kiln_library_t library;
#define KILN_NVRTC(type, name, parameters) type(*name) parameters;
#include "runtime/driver/nvrtc.def"
#undef KILN_NVRTC
} kiln_nvrtc_t;

/* UNAVAILABLE names the library and what is wrong with it. out_nvrtc is filled on success only. */
kiln_status_t kiln_nvrtc_open(const char *library, kiln_nvrtc_t *out_nvrtc);
void kiln_nvrtc_close(kiln_nvrtc_t *nvrtc);

/* NULL for NVRTC_SUCCESS; OUT_OF_MEMORY, COMPILE_FAILED (the source, or an option) or INTERNAL. `call` names
 * the function. */
kiln_status_t kiln_nvrtc_status(const kiln_nvrtc_t *nvrtc, nvrtcResult result, const char *call);

#define KILN_NVRTC_TRY(nvrtc, function, ...)                                                                 \
  KILN_TRY(kiln_nvrtc_status((nvrtc), (nvrtc)->function(__VA_ARGS__), #function))

#endif
