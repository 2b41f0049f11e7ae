/* runtime/compile.c: one source through NVRTC; see compile.h.
 *
 * Called for each kernel that no cache tier has. What comes out depends on source, target, library and
 * options alone: the program's name is fixed, and ptxas's log, which tells times, is read for its numbers and
 * dropped.
 */
#include "runtime/compile.h"
#include "runtime/find_nvrtc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_OPTIONS = 8, MAX_LOG_BYTES = 16384 };
static const char program_name[] = "kernel.cu";

struct kiln_compiler {
  kiln_nvrtc_t nvrtc;
  int major, minor;
  int *archs; /* 75, 80 ... */
  int arch_count;
  bool has_cache; /* 12.2 and later: --no-cache exists and is needed */
  kiln_buffer_t identity;
};

const char *kiln_compiler_options(void) {
  return "--std=c++17 -default-device -fmad=false --no-cache -Xptxas=-v (cubin)";
}

const char *kiln_compiler_identity(const kiln_compiler_t *compiler) {
  return kiln_buffer_text(&compiler->identity);
}
const char *kiln_compiler_library(const kiln_compiler_t *compiler) { return compiler->nvrtc.library.path; }

/* --- one run of NVRTC -------------------------------------------------------------------------- */

/* A program while it is compiled. It hangs on no arena, so that whoever created it destroys it. */
typedef struct {
  kiln_compiler_t *compiler;
  kiln_arena_t *arena;
  nvrtcProgram program;
  const char *entry;
  const kiln_target_t *target;
  kiln_image_kind_t kind;
  kiln_kernel_artifact_t *out;
} run_t;

static nvrtcResult run_compile(const run_t *run, const char *arch_option) {
  const char *options[MAX_OPTIONS] = {arch_option, "--std=c++17", "-default-device", "-fmad=false"};
  int count = 4;
  if (run->compiler->has_cache) options[count++] = "--no-cache";
  if (run->kind == KILN_IMAGE_CUBIN) options[count++] = "-Xptxas=-v";
  return run->compiler->nvrtc.nvrtcCompileProgram(run->program, count, options);
}

/* Reads a text or image of the program whose size NVRTC tells first; NUL-terminated in the arena. */
static kiln_status_t fetch(const run_t *run, nvrtcResult (*get_size)(nvrtcProgram, size_t *),
                           nvrtcResult (*get)(nvrtcProgram, char *), char **out, size_t *out_bytes) {
  const kiln_nvrtc_t *nvrtc = &run->compiler->nvrtc;
  KILN_TRY(kiln_nvrtc_status(nvrtc, get_size(run->program, out_bytes), "reading a size from NVRTC"));
  *out = kiln_arena_alloc(run->arena, *out_bytes + 1);
  return kiln_nvrtc_status(nvrtc, get(run->program, *out), "reading a result from NVRTC");
}

#define FETCH(run, what, out, out_bytes)                                                                     \
  fetch((run), (run)->compiler->nvrtc.nvrtcGet##what##Size, (run)->compiler->nvrtc.nvrtcGet##what, (out),    \
        (out_bytes))

static kiln_status_t with_log(const run_t *run, kiln_status_t status) {
  char *log = NULL;
  size_t log_bytes = 0;
  kiln_status_free(FETCH(run, ProgramLog, &log, &log_bytes));
  return kiln_error_detail(status, "log", "%.*s", MAX_LOG_BYTES, log ? log : "");
}

/* The PTX that is kept beside a cubin says first what ptxas made of it. */
static const char *annotate(const run_t *run, const char *ptx) {
  const kiln_kernel_artifact_t *artifact = run->out;
  if (artifact->registers < 0) return ptx;
  return kiln_arena_printf(
      run->arena,
      "// ptxas for %s: %d registers, %d bytes of static shared memory, %d bytes of stack,\n"
      "// %d bytes of spill stores, %d bytes of spill loads\n%s",
      artifact->arch, artifact->registers, artifact->static_shared_bytes, artifact->stack_bytes,
      artifact->spill_store_bytes, artifact->spill_load_bytes, ptx);
}

static kiln_status_t fetch_artifact(const run_t *run) {
  kiln_kernel_artifact_t *artifact = run->out;
  *artifact = (kiln_kernel_artifact_t){.kind = run->kind,
                                       .entry = kiln_arena_strdup(run->arena, run->entry),
                                       .arch = kiln_arena_strdup(run->arena, run->target->arch)};
  char *ptx, *log, *cubin;
  size_t ptx_bytes, log_bytes;
  KILN_TRY(FETCH(run, PTX, &ptx, &ptx_bytes));
  KILN_TRY(FETCH(run, ProgramLog, &log, &log_bytes));
  artifact->log = log;
  kiln_kernel_artifact_read_log(artifact, log);
  artifact->ptx = annotate(run, ptx);
  artifact->image = artifact->ptx;
  artifact->image_bytes = strlen(artifact->ptx) + 1; /* a driver wants the terminator */
  if (run->kind == KILN_IMAGE_CUBIN) {
    KILN_TRY(FETCH(run, CUBIN, &cubin, &artifact->image_bytes));
    artifact->image = cubin;
  }
  return NULL;
}

static kiln_status_t run_program(void *argument) {
  const run_t *run = argument;
  const char *arch = run->target->arch + strlen("sm_");
  char option[64];
  snprintf(option, sizeof option, "--gpu-architecture=%s_%s", run->kind == KILN_IMAGE_PTX ? "compute" : "sm",
           arch);
  nvrtcResult result = run_compile(run, option);
  if (result == NVRTC_SUCCESS) return fetch_artifact(run);
  kiln_status_t status = kiln_nvrtc_status(&run->compiler->nvrtc, result, "nvrtcCompileProgram");
  return with_log(run, kiln_error_note(status, "compiling kernel %s for %s", run->entry, run->target->arch));
}

static kiln_status_t unsupported(const kiln_compiler_t *compiler, const kiln_target_t *target) {
  return kiln_error(
      KILN_UNSUPPORTED,
      "NVRTC %d.%d in '%s' knows architectures up to sm_%d, not %s: install a newer toolkit or set "
      "KILN_NVRTC to its libnvrtc.so",
      compiler->major, compiler->minor, compiler->nvrtc.library.path,
      compiler->archs[compiler->arch_count - 1], target->arch);
}

kiln_status_t kiln_compiler_compile(kiln_compiler_t *compiler, kiln_arena_t *arena, const char *source,
                                    const char *entry, const kiln_target_t *target, kiln_image_kind_t kind,
                                    kiln_kernel_artifact_t *out) {
  if (!kiln_compiler_supports(compiler, target, kind)) return unsupported(compiler, target);
  const kiln_nvrtc_t *nvrtc = &compiler->nvrtc;
  run_t run = {compiler, arena, NULL, entry, target, kind, out};
  KILN_NVRTC_TRY(nvrtc, nvrtcCreateProgram, &run.program, source, program_name, 0, NULL, NULL);
  kiln_status_t status = kiln_arena_guard(arena, run_program, &run);
  nvrtc->nvrtcDestroyProgram(&run.program);
  return status;
}

bool kiln_compiler_supports(const kiln_compiler_t *compiler, const kiln_target_t *target,
                            kiln_image_kind_t kind) {
  (void)kind; /* NVRTC's list is of virtual architectures, and it has a real one for each */
  if (strncmp(target->arch, "sm_", 3) != 0) return false;
  int wanted = atoi(target->arch + 3);
  for (int i = 0; i < compiler->arch_count; i++) {
    if (compiler->archs[i] == wanted) return true;
  }
  return false;
}

/* --- opening ----------------------------------------------------------------------------------- */

static kiln_status_t read_archs(kiln_compiler_t *compiler) {
  const kiln_nvrtc_t *nvrtc = &compiler->nvrtc;
  KILN_NVRTC_TRY(nvrtc, nvrtcVersion, &compiler->major, &compiler->minor);
  KILN_NVRTC_TRY(nvrtc, nvrtcGetNumSupportedArchs, &compiler->arch_count);
  if (compiler->arch_count < 1) {
    return kiln_error(KILN_UNAVAILABLE, "'%s' supports no architecture", nvrtc->library.path);
  }
  compiler->archs = calloc((size_t)compiler->arch_count, sizeof *compiler->archs);
  if (!compiler->archs) return kiln_error(KILN_OUT_OF_MEMORY, "out of memory while opening NVRTC");
  KILN_NVRTC_TRY(nvrtc, nvrtcGetSupportedArchs, compiler->archs);
  return NULL;
}

/* Appends the comments that PTX starts with, which name the build of NVVM and of the tools. */
static void append_header_lines(kiln_buffer_t *out, const char *ptx) {
  for (const char *line = ptx; !strncmp(line, "//", 2); line += strcspn(line, "\n") + 1) {
    const char *text = line + 2 + strspn(line + 2, " ");
    size_t length = strcspn(text, "\n");
    if (length) kiln_buffer_printf(out, "; %.*s", (int)length, text);
    if (!text[length]) return;
  }
}

/* An empty program: warms NVRTC, shows whether it has a cache to be kept from, and has the header that names
 * the build. */
static kiln_status_t compile_nothing(kiln_compiler_t *compiler, kiln_arena_t *arena,
                                     kiln_kernel_artifact_t *out_artifact) {
  kiln_target_t lowest = {0};
  snprintf(lowest.arch, sizeof lowest.arch, "sm_%d", compiler->archs[0]);
  compiler->has_cache = true;
  kiln_status_t status =
      kiln_compiler_compile(compiler, arena, "", "", &lowest, KILN_IMAGE_PTX, out_artifact);
  if (kiln_status_code(status) != KILN_COMPILE_FAILED) return status;
  kiln_status_free(status); /* "unrecognized option --no-cache" */
  compiler->has_cache = false;
  return kiln_compiler_compile(compiler, arena, "", "", &lowest, KILN_IMAGE_PTX, out_artifact);
}

static kiln_status_t identify(kiln_compiler_t *compiler) {
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  kiln_kernel_artifact_t empty;
  kiln_status_t status = compile_nothing(compiler, &arena, &empty);
  if (!status) {
    kiln_buffer_printf(&compiler->identity, "NVRTC %d.%d; architectures", compiler->major, compiler->minor);
    for (int i = 0; i < compiler->arch_count; i++)
      kiln_buffer_printf(&compiler->identity, " %d", compiler->archs[i]);
    append_header_lines(&compiler->identity, empty.ptx);
    if (compiler->identity.failed)
      status = kiln_error(KILN_OUT_OF_MEMORY, "out of memory while opening NVRTC");
  }
  kiln_arena_deinit(&arena);
  return status;
}

kiln_status_t kiln_compiler_create(const char *path, kiln_compiler_t **out_compiler) {
  kiln_compiler_t *compiler = calloc(1, sizeof *compiler);
  if (!compiler) return kiln_error(KILN_OUT_OF_MEMORY, "out of memory while opening NVRTC");
  kiln_status_t status = kiln_nvrtc_find(path, &compiler->nvrtc);
  if (!status) status = read_archs(compiler);
  if (!status) status = identify(compiler);
  if (status) {
    kiln_compiler_destroy(compiler);
    return kiln_error_note(status, "opening the compiler");
  }
  *out_compiler = compiler;
  return NULL;
}

void kiln_compiler_destroy(kiln_compiler_t *compiler) {
  if (!compiler) return;
  kiln_nvrtc_close(&compiler->nvrtc);
  kiln_buffer_deinit(&compiler->identity);
  free(compiler->archs);
  free(compiler);
}
