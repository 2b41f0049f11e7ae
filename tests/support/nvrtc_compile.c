/* tests/support/nvrtc_compile.c: see nvrtc_compile.h. */
#include "tests/support/nvrtc_compile.h"

#include "runtime/find_nvrtc.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST_OPTIONS = 16 };

static char *read_text(nvrtcResult (*size_of)(nvrtcProgram, size_t *),
                       nvrtcResult (*get)(nvrtcProgram, char *), nvrtcProgram program) {
  size_t size = 0;
  if (size_of(program, &size) != NVRTC_SUCCESS) return NULL;
  char *text = calloc(1, size + 1);
  if (text && get(program, text) == NVRTC_SUCCESS) return text;
  free(text);
  return NULL;
}

/* NVRTC stays open: closing and opening it for each kernel of a suite would cost more than the kernels. */
static const kiln_nvrtc_t *find_nvrtc(void) {
  static kiln_nvrtc_t nvrtc;
  kiln_status_t status = nvrtc.nvrtcVersion ? NULL : kiln_nvrtc_find(NULL, &nvrtc);
  if (status) fprintf(stderr, "%s\n", kiln_status_message(status));
  kiln_status_free(status);
  return status ? NULL : &nvrtc;
}

char *test_nvrtc_compile_logged(const char *source, const char *architecture, const char *const *options,
                                char **out_log) {
  const kiln_nvrtc_t *nvrtc = find_nvrtc();
  nvrtcProgram program;
  char target[64], *ptx = NULL;
  const char *all[MOST_OPTIONS] = {target, "-fmad=false", "-default-device", "--no-cache"};
  int count = 4;
  *out_log = NULL;
  snprintf(target, sizeof target, "--gpu-architecture=%s", architecture);
  while (options && *options && count < MOST_OPTIONS) all[count++] = *options++;
  if (!nvrtc || nvrtc->nvrtcCreateProgram(&program, source, "test.cu", 0, NULL, NULL) != NVRTC_SUCCESS)
    return NULL;
  if (nvrtc->nvrtcCompileProgram(program, count, all) == NVRTC_SUCCESS)
    ptx = read_text(nvrtc->nvrtcGetPTXSize, nvrtc->nvrtcGetPTX, program);
  else
    *out_log = read_text(nvrtc->nvrtcGetProgramLogSize, nvrtc->nvrtcGetProgramLog, program);
  nvrtc->nvrtcDestroyProgram(&program);
  return ptx;
}

char *test_nvrtc_compile(const char *source, const char *architecture, const char *const *options) {
  char *log = NULL, *ptx = test_nvrtc_compile_logged(source, architecture, options, &log);
  if (!ptx) fprintf(stderr, "%s\n", log ? log : "NVRTC failed without a log");
  free(log);
  return ptx;
}
