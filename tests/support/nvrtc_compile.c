/* tests/support/nvrtc_compile.c: see nvrtc_compile.h. Only what a test needs of NVRTC, found with dlsym. */
#include "tests/support/nvrtc_compile.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  void *library;
  int (*create)(void **program, const char *source, const char *name, int header_count,
                const char *const *headers, const char *const *include_names);
  int (*compile)(void *program, int option_count, const char *const *options);
  int (*log_size)(void *program, size_t *size);
  int (*log)(void *program, char *text);
  int (*ptx_size)(void *program, size_t *size);
  int (*ptx)(void *program, char *text);
  int (*destroy)(void **program);
} nvrtc_t;

static void find(nvrtc_t *nvrtc, const char *name, void *pointer) {
  void *symbol = dlsym(nvrtc->library, name);
  memcpy(pointer, &symbol, sizeof symbol);
}

static int open_nvrtc(nvrtc_t *nvrtc) {
  const char *path = getenv("KILN_NVRTC");
  nvrtc->library = dlopen(path && *path ? path : KILN_NVRTC_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  if (!nvrtc->library) {
    fprintf(stderr, "%s\n", dlerror());
    return 0;
  }
  find(nvrtc, "nvrtcCreateProgram", &nvrtc->create);
  find(nvrtc, "nvrtcCompileProgram", &nvrtc->compile);
  find(nvrtc, "nvrtcGetProgramLogSize", &nvrtc->log_size);
  find(nvrtc, "nvrtcGetProgramLog", &nvrtc->log);
  find(nvrtc, "nvrtcGetPTXSize", &nvrtc->ptx_size);
  find(nvrtc, "nvrtcGetPTX", &nvrtc->ptx);
  find(nvrtc, "nvrtcDestroyProgram", &nvrtc->destroy);
  return nvrtc->create && nvrtc->compile && nvrtc->log_size && nvrtc->log && nvrtc->ptx_size && nvrtc->ptx &&
         nvrtc->destroy;
}

static char *read_text(int (*size_of)(void *, size_t *), int (*get)(void *, char *), void *program) {
  size_t size = 0;
  if (size_of(program, &size) != 0) return NULL;
  char *text = calloc(1, size + 1);
  if (text && get(program, text) == 0) return text;
  free(text);
  return NULL;
}

char *test_nvrtc_compile(const char *source, const char *architecture, const char *const *options) {
  nvrtc_t nvrtc = {0};
  void *program = NULL;
  char target[64], *ptx = NULL;
  const char *all[16] = {target, "-fmad=false", "-default-device", "--no-cache"};
  int count = 4;
  snprintf(target, sizeof target, "--gpu-architecture=%s", architecture);
  while (options && *options && count < 16) all[count++] = *options++;
  if (!open_nvrtc(&nvrtc) || nvrtc.create(&program, source, "test.cu", 0, NULL, NULL) != 0) return NULL;
  if (nvrtc.compile(program, count, all) == 0) {
    ptx = read_text(nvrtc.ptx_size, nvrtc.ptx, program);
  } else {
    char *log = read_text(nvrtc.log_size, nvrtc.log, program);
    fprintf(stderr, "%s\n", log ? log : "NVRTC failed without a log");
    free(log);
  }
  nvrtc.destroy(&program);
  return ptx;
}
