/* runtime/find_nvrtc.c: the list of places where NVRTC may be, tried in order; see find_nvrtc.h. */
#include "runtime/find_nvrtc.h"
#include "base/buffer.h"

#include <stdlib.h>

enum { OLDEST_MAJOR = 12, OLDEST_MINOR = 1 };

const char *kiln_nvrtc_candidate(const char *path, size_t index) {
  static const char *const usual[] = {KILN_NVRTC_LIBRARY, "libnvrtc.so.13", "libnvrtc.so.12",
                                      "/usr/local/cuda/lib64/libnvrtc.so"};
  const size_t usual_count = sizeof usual / sizeof *usual;
  const char *named = path ? path : getenv("KILN_NVRTC");
  if (named && named[0]) return index == 0 ? named : NULL;
  if (!usual[0][0]) index++; /* the build found none */
  return index < usual_count ? usual[index] : NULL;
}

static kiln_status_t open_candidate(const char *name, kiln_nvrtc_t *out_nvrtc) {
  kiln_nvrtc_t nvrtc;
  KILN_TRY(kiln_nvrtc_open(name, &nvrtc));
  int major = 0, minor = 0;
  kiln_status_t status = kiln_nvrtc_status(&nvrtc, nvrtc.nvrtcVersion(&major, &minor), "nvrtcVersion");
  if (!status && (major < OLDEST_MAJOR || (major == OLDEST_MAJOR && minor < OLDEST_MINOR))) {
    status = kiln_error(KILN_UNAVAILABLE, "'%s' is NVRTC %d.%d, older than %d.%d", nvrtc.library.path, major,
                        minor, OLDEST_MAJOR, OLDEST_MINOR);
  }
  if (status) {
    kiln_nvrtc_close(&nvrtc);
    return status;
  }
  *out_nvrtc = nvrtc;
  return NULL;
}

kiln_status_t kiln_nvrtc_find(const char *path, kiln_nvrtc_t *out_nvrtc) {
  kiln_buffer_t tried;
  kiln_buffer_init(&tried);
  bool found = false;
  const char *name;
  for (size_t i = 0; !found && (name = kiln_nvrtc_candidate(path, i)); i++) {
    kiln_status_t status = open_candidate(name, out_nvrtc);
    if (status) kiln_buffer_printf(&tried, "%s%s", tried.size ? "; " : "", kiln_status_message(status));
    kiln_status_free(status);
    found = !status;
  }
  kiln_status_t status = NULL;
  if (!found) {
    status = kiln_error(
        KILN_UNAVAILABLE,
        "no NVRTC %d.%d or later (%s): install the CUDA toolkit or set KILN_NVRTC to its libnvrtc.so",
        OLDEST_MAJOR, OLDEST_MINOR, kiln_buffer_text(&tried));
  }
  kiln_buffer_deinit(&tried);
  return status;
}
