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

static char *compile(const kiln_nvrtc_t *nvrtc, nvrtcProgram program, int count, const char *const *options) {
  if (nvrtc->nvrtcCompileProgram(program, count, options) == NVRTC_SUCCESS)
    return read_text(nvrtc->nvrtcGetPTXSize, nvrtc->nvrtcGetPTX, program);
  char *log = read_text(nvrtc->nvrtcGetProgramLogSize, nvrtc->nvrtcGetProgramLog, program);
  fprintf(stderr, "%s\n", log ? log : "NVRTC failed without a log");
  free(log);
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

char *test_nvrtc_compile(const char *source, const char *architecture, const char *const *options) {
  const kiln_nvrtc_t *nvrtc = find_nvrtc();
  nvrtcProgram program;
  char target[64];
  const char *all[MOST_OPTIONS] = {target, "-fmad=false", "-default-device", "--no-cache"};
  int count = 4;
  snprintf(target, sizeof target, "--gpu-architecture=%s", architecture);
  while (options && *options && count < MOST_OPTIONS) all[count++] = *options++;
  if (!nvrtc || nvrtc->nvrtcCreateProgram(&program, source, "test.cu", 0, NULL, NULL) != NVRTC_SUCCESS)
    return NULL;
  char *ptx = compile(nvrtc, program, count, all);
  nvrtc->nvrtcDestroyProgram(&program);
  return ptx;
}
