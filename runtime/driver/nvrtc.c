/* runtime/driver/nvrtc.c: fills NVRTC's table and translates its errors; see nvrtc.h. */
#include "runtime/driver/nvrtc.h"

static const kiln_import_t imports[] = {
#define KILN_NVRTC(type, name, parameters) {#name, offsetof(kiln_nvrtc_t, name), true},
#include "runtime/driver/nvrtc.def"
#undef KILN_NVRTC
};

kiln_status_t kiln_nvrtc_open(const char *library, kiln_nvrtc_t *out_nvrtc) {
  kiln_nvrtc_t nvrtc;
  KILN_TRY(kiln_library_open(library, imports, sizeof imports / sizeof *imports, &nvrtc, &nvrtc.library));
  *out_nvrtc = nvrtc;
  return NULL;
}

void kiln_nvrtc_close(kiln_nvrtc_t *nvrtc) { kiln_library_close(&nvrtc->library); }

static kiln_code_t code_of(nvrtcResult result) {
  switch (result) {
  case NVRTC_ERROR_OUT_OF_MEMORY:
    return KILN_OUT_OF_MEMORY;
  case NVRTC_ERROR_INVALID_OPTION:
  case NVRTC_ERROR_COMPILATION:
    return KILN_COMPILE_FAILED;
  default:
    return KILN_INTERNAL;
  }
}

kiln_status_t kiln_nvrtc_status(const kiln_nvrtc_t *nvrtc, nvrtcResult result, const char *call) {
  if (result == NVRTC_SUCCESS) return NULL;
  return kiln_error(code_of(result), "%s: %s (error %d)", call, nvrtc->nvrtcGetErrorString(result),
                    (int)result);
}
