/* tests/unit/test_runtime_compile.c: sources through NVRTC: what comes out, what is refused, what is never
 * loaded.
 *
 * Two kinds of library stand in where NVRTC itself would not show what is tested: a libcuda that leaves a
 * mark when it is loaded, and an NVRTC that prints its options instead of PTX. Both are compiled here, with
 * cc.
 */
#include "base/hash.h"
#include "runtime/compile.h"
#include "tests/support/folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const kiln_target_t sm_90 = {.arch = "sm_90", .major = 9};

/* Uses the slow path of cosf (a table), shared memory, a barrier and an array that no register can hold. */
static const char source[] = "extern \"C\" __global__ void turn(const float *x, float *y, int n) {\n"
                             "  __shared__ float part[256];\n"
                             "  float local[64];\n"
                             "  for (int k = 0; k < 64; k++) local[k] = x[k];\n"
                             "  int i = blockIdx.x * 256 + threadIdx.x;\n"
                             "  part[threadIdx.x] = i < n ? cosf(local[i % n & 63]) : 0.0f;\n"
                             "  __syncthreads();\n"
                             "  if (i < n) y[i] = part[threadIdx.x ^ 1];\n"
                             "}\n";

typedef struct {
  kiln_compiler_t *compiler;
  kiln_arena_t arena;
} fixture_t;

static int set_up(void **state) {
  fixture_t *fixture = calloc(1, sizeof *fixture);
  if (!fixture) return -1;
  kiln_arena_init(&fixture->arena, 0);
  kiln_status_t status = kiln_compiler_create(NULL, &fixture->compiler);
  if (status) print_message("%s\n", kiln_status_message(status));
  kiln_status_free(status);
  *state = fixture;
  return status ? -1 : 0;
}

static int tear_down(void **state) {
  fixture_t *fixture = *state;
  kiln_compiler_destroy(fixture->compiler);
  kiln_arena_deinit(&fixture->arena);
  free(fixture);
  return 0;
}

static kiln_kernel_artifact_t compile(fixture_t *fixture, kiln_image_kind_t kind) {
  kiln_kernel_artifact_t artifact;
  assert_null(
      kiln_compiler_compile(fixture->compiler, &fixture->arena, source, "turn", &sm_90, kind, &artifact));
  return artifact;
}

static void expect_error(kiln_status_t status, kiln_code_t code, const char *part_of_message) {
  assert_int_equal(kiln_status_code(status), code);
  assert_non_null(strstr(kiln_status_message(status), part_of_message));
  assert_null(strchr(kiln_status_message(status), '\n'));
  kiln_status_free(status);
}

/* --- what comes out ---------------------------------------------------------------------------- */

static void ptx_has_entry_and_target(void **state) {
  kiln_kernel_artifact_t artifact = compile(*state, KILN_IMAGE_PTX);
  assert_int_equal(artifact.kind, KILN_IMAGE_PTX);
  assert_string_equal(artifact.entry, "turn");
  assert_string_equal(artifact.arch, "sm_90");
  assert_non_null(strstr(artifact.ptx, ".entry turn("));
  assert_non_null(strstr(artifact.ptx, ".target sm_90\n"));
  assert_ptr_equal(artifact.image, artifact.ptx);
  assert_int_equal(artifact.image_bytes, strlen(artifact.ptx) + 1);
  assert_int_equal(artifact.registers, -1);
}

static void a_cubin_has_ptx_beside_it_that_says_what_ptxas_counted(void **state) {
  kiln_kernel_artifact_t artifact = compile(*state, KILN_IMAGE_CUBIN);
  assert_memory_equal(artifact.image, "\177ELF", 4);
  assert_in_range(artifact.registers, 4, 255);
  assert_int_equal(artifact.static_shared_bytes, 256 * sizeof(float));
  assert_int_equal(artifact.spill_store_bytes, 0);
  assert_int_equal(artifact.spill_load_bytes, 0);
  assert_in_range(artifact.stack_bytes, 64 * sizeof(float),
                  64 * sizeof(float) + 64); /* cosf needs some as well */
  char line[64];
  snprintf(line, sizeof line, "// ptxas for sm_90: %d registers", artifact.registers);
  assert_memory_equal(artifact.ptx, line, strlen(line));
  assert_non_null(strstr(artifact.ptx, ".entry turn("));
}

static kiln_digest_t digest_of(const kiln_kernel_artifact_t *artifact) {
  kiln_hasher_t *hasher = kiln_hasher_create();
  kiln_hasher_field(hasher, artifact->image, artifact->image_bytes);
  kiln_hasher_field(hasher, artifact->ptx, strlen(artifact->ptx));
  return kiln_hasher_finish(hasher);
}

/* In another process, from another folder and after another kernel. */
static void child_digests(int out) {
  fixture_t *fixture = NULL;
  kiln_kernel_artifact_t first;
  if (chdir("/") || set_up((void **)&fixture)) _exit(1);
  kiln_status_free(kiln_compiler_compile(fixture->compiler, &fixture->arena,
                                         "extern \"C\" __global__ void f() {}", "f", &sm_90, KILN_IMAGE_CUBIN,
                                         &first));
  for (int kind = KILN_IMAGE_PTX; kind <= KILN_IMAGE_CUBIN; kind++) {
    kiln_kernel_artifact_t artifact = compile(fixture, kind);
    kiln_digest_t digest = digest_of(&artifact);
    if (write(out, &digest, sizeof digest) != sizeof digest) _exit(1);
  }
  _exit(0);
}

static void the_same_source_is_the_same_bytes_in_every_process(void **state) {
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  pid_t child = fork();
  if (!child) child_digests(ends[1]);
  for (int kind = KILN_IMAGE_PTX; kind <= KILN_IMAGE_CUBIN; kind++) {
    kiln_digest_t theirs;
    assert_int_equal(read(ends[0], &theirs, sizeof theirs), sizeof theirs);
    kiln_kernel_artifact_t artifact = compile(*state, kind);
    kiln_digest_t ours = digest_of(&artifact);
    assert_true(kiln_digest_equal(&ours, &theirs));
  }
  int ended;
  assert_int_equal(waitpid(child, &ended, 0), child);
  assert_int_equal(ended, 0);
  close(ends[0]);
  close(ends[1]);
}

static void multiply_and_add_stay_apart(void **state) {
  fixture_t *fixture = *state;
  kiln_kernel_artifact_t artifact;
  const char *mad = "extern \"C\" __global__ void mad(float *x) { x[0] = x[1] * x[2] + x[3]; }";
  assert_null(kiln_compiler_compile(fixture->compiler, &fixture->arena, mad, "mad", &sm_90, KILN_IMAGE_PTX,
                                    &artifact));
  assert_null(strstr(artifact.ptx, "fma."));
  assert_non_null(strstr(artifact.ptx, "mul."));
  assert_non_null(strstr(artifact.ptx, "add."));
}

static void the_identity_names_version_architectures_and_build(void **state) {
  fixture_t *fixture = *state;
  const char *identity = kiln_compiler_identity(fixture->compiler);
  assert_memory_equal(identity, "NVRTC 1", 7);
  assert_non_null(strstr(identity, " 80 "));
  assert_non_null(strstr(identity, "Compiler Build ID"));
  assert_non_null(strstr(identity, "Cuda compilation tools, release "));
  assert_null(strchr(identity, '/'));
}

/* --- what is refused --------------------------------------------------------------------------- */

static void a_source_with_an_error_is_compile_failed_with_the_log(void **state) {
  fixture_t *fixture = *state;
  kiln_kernel_artifact_t artifact;
  kiln_status_t status =
      kiln_compiler_compile(fixture->compiler, &fixture->arena, "int f() {\n return wrong;\n}", "f", &sm_90,
                            KILN_IMAGE_PTX, &artifact);
  assert_int_equal(kiln_status_code(status), KILN_COMPILE_FAILED);
  assert_non_null(strstr(kiln_status_detail(status, "log"), "kernel.cu(2)"));
  assert_non_null(strstr(kiln_status_detail(status, "log"), "wrong"));
  kiln_status_free(status);
  compile(fixture, KILN_IMAGE_PTX); /* and goes on */
}

static void a_target_that_the_library_does_not_know_is_unsupported(void **state) {
  fixture_t *fixture = *state;
  kiln_kernel_artifact_t artifact;
  static const kiln_target_t unknown = {.arch = "sm_999"}, strange = {.arch = "gfx90"};
  assert_true(kiln_compiler_supports(fixture->compiler, &sm_90, KILN_IMAGE_CUBIN));
  assert_false(kiln_compiler_supports(fixture->compiler, &strange, KILN_IMAGE_PTX));
  expect_error(kiln_compiler_compile(fixture->compiler, &fixture->arena, source, "turn", &unknown,
                                     KILN_IMAGE_PTX, &artifact),
               KILN_UNSUPPORTED, "sm_999: install a newer toolkit");
}

static void a_compiler_that_is_not_there_is_unavailable(void **state) {
  (void)state;
  kiln_compiler_t *compiler;
  expect_error(kiln_compiler_create("/nowhere/libnvrtc.so", &compiler), KILN_UNAVAILABLE,
               "/nowhere/libnvrtc.so");
  expect_error(kiln_compiler_create("libm.so.6", &compiler), KILN_UNAVAILABLE,
               "lacks the symbol nvrtcVersion");
}

static void a_source_too_large_for_the_arena_is_out_of_memory_and_leaks_nothing(void **state) {
  fixture_t *fixture = *state;
  kiln_arena_t small;
  kiln_kernel_artifact_t artifact;
  kiln_arena_init(&small, 256);
  kiln_status_t status =
      kiln_compiler_compile(fixture->compiler, &small, source, "turn", &sm_90, KILN_IMAGE_PTX, &artifact);
  assert_int_equal(kiln_status_code(status), KILN_OUT_OF_MEMORY);
  kiln_status_free(status);
  kiln_arena_deinit(&small);
}

/* --- ptxas's log ------------------------------------------------------------------------------- */

/* As NVRTC 13.0 prints it for two kernels, one of which calls a function that was not inlined. */
static const char two_kernels_log[] =
    "ptxas info    : 24 bytes gmem\n"
    "ptxas info    : Compiling entry function 'first' for 'sm_90'\n"
    "ptxas info    : Function properties for first\n"
    "ptxas         .     40 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads\n"
    "ptxas info    : Used 255 registers, used 1 barriers, 40 bytes cumulative stack size, 1024 bytes smem\n"
    "ptxas info    : Compile time = 8.299 ms\n"
    "ptxas info    : Function properties for helper\n"
    "ptxas         .     16 bytes stack frame, 1 bytes spill stores, 2 bytes spill loads\n"
    "ptxas info    : Compiling entry function 'first_more' for 'sm_90'\n"
    "ptxas info    : Function properties for first_more\n"
    "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
    "ptxas info    : Used 8 registers\n";

static void expect_resources(const char *entry, const char *log, int registers, int stack, int stores,
                             int loads, int shared) {
  kiln_kernel_artifact_t artifact = {.entry = entry};
  kiln_kernel_artifact_read_log(&artifact, log);
  assert_int_equal(artifact.registers, registers);
  assert_int_equal(artifact.stack_bytes, stack);
  assert_int_equal(artifact.spill_store_bytes, stores);
  assert_int_equal(artifact.spill_load_bytes, loads);
  assert_int_equal(artifact.static_shared_bytes, shared);
}

static void the_log_is_read_for_the_kernel_asked_for(void **state) {
  (void)state;
  expect_resources("first", two_kernels_log, 255, 40, 8, 12, 1024);
  expect_resources("first_more", two_kernels_log, 8, 0, 0, 0, 0);
  expect_resources("firs", two_kernels_log, -1, -1, -1, -1, -1);
  expect_resources("first", "", -1, -1, -1, -1, -1);
  expect_resources("first", "ptxas info    : Compiling entry function 'first' for 'sm_90'", -1, -1, -1, -1,
                   -1);
}

/* --- bytes ------------------------------------------------------------------------------------- */

static void expect_same_artifact(const kiln_kernel_artifact_t *a, const kiln_kernel_artifact_t *b) {
  assert_int_equal(a->kind, b->kind);
  assert_string_equal(a->entry, b->entry);
  assert_string_equal(a->arch, b->arch);
  assert_string_equal(a->ptx, b->ptx);
  assert_int_equal(a->image_bytes, b->image_bytes);
  assert_memory_equal(a->image, b->image, a->image_bytes);
  assert_int_equal(a->registers, b->registers);
  assert_int_equal(a->spill_store_bytes, b->spill_store_bytes);
  assert_int_equal(a->spill_load_bytes, b->spill_load_bytes);
  assert_int_equal(a->static_shared_bytes, b->static_shared_bytes);
  assert_int_equal(a->stack_bytes, b->stack_bytes);
}

static void an_artifact_is_read_as_it_was_written(void **state) {
  fixture_t *fixture = *state;
  for (int kind = KILN_IMAGE_PTX; kind <= KILN_IMAGE_CUBIN; kind++) {
    kiln_kernel_artifact_t artifact = compile(fixture, kind), read;
    kiln_buffer_t bytes;
    kiln_buffer_init(&bytes);
    kiln_kernel_artifact_encode(&artifact, &bytes);
    assert_null(kiln_kernel_artifact_decode(&fixture->arena, bytes.data, bytes.size, &read));
    expect_same_artifact(&artifact, &read);
    kiln_buffer_deinit(&bytes);
  }
}

static void an_artifact_cut_anywhere_is_refused(void **state) {
  (void)state;
  static const kiln_kernel_artifact_t artifact = {
      KILN_IMAGE_CUBIN, "\177ELF and more", 13, "// ptx", "f", "sm_90", 10, 0, 0, 1024, 0, NULL};
  kiln_kernel_artifact_t read;
  kiln_buffer_t bytes;
  kiln_buffer_init(&bytes);
  kiln_kernel_artifact_encode(&artifact, &bytes);
  for (size_t cut = 0; cut <= bytes.size; cut++) {
    kiln_arena_t arena;
    kiln_arena_init(&arena, 0);
    char *exact = malloc(cut + 1); /* so that the address sanitizer sees a read past the cut */
    memcpy(exact + 1, bytes.data, cut);
    kiln_status_t status = kiln_kernel_artifact_decode(&arena, exact + 1, cut, &read);
    assert_int_equal(kiln_status_code(status), cut == bytes.size ? KILN_OK : KILN_INVALID_ARGUMENT);
    kiln_status_free(status);
    free(exact);
    kiln_arena_deinit(&arena);
  }
  kiln_buffer_deinit(&bytes);
}

/* --- libraries made for a test ----------------------------------------------------------------- */

static void build_library(const char *folder, const char *name, const char *text) {
  char command[1024], path[512];
  snprintf(path, sizeof path, "%s/%s.c", folder, name);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs(text, file);
  fclose(file);
  snprintf(command, sizeof command, "cc -w -shared -fPIC -o '%s/%s' '%s'", folder, name, path);
  assert_int_equal(system(command), 0);
}

/* Leaves a file where MARK says when it is loaded. */
static const char marking_libcuda[] = "#include <stdio.h>\n#include <stdlib.h>\n"
                                      "__attribute__((constructor)) static void loaded(void) {\n"
                                      "  FILE *mark = fopen(getenv(\"MARK\"), \"w\");\n"
                                      "  if (mark) fclose(mark);\n"
                                      "}\n";

static int compile_both_kinds(void) {
  fixture_t *fixture = NULL;
  if (set_up((void **)&fixture)) return 1;
  compile(fixture, KILN_IMAGE_PTX);
  compile(fixture, KILN_IMAGE_CUBIN);
  return tear_down((void **)&fixture);
}

/* Runs this program once more, as `mode`, with the marking libcuda where the loader looks first. */
static bool loads_libcuda(const char *folder, const char *mode) {
  char mark[512];
  snprintf(mark, sizeof mark, "%s/mark", folder);
  unlink(mark);
  pid_t child = fork();
  if (!child) {
    setenv("LD_LIBRARY_PATH", folder, 1);
    setenv("MARK", mark, 1);
    execl("/proc/self/exe", "test_runtime_compile", mode, (char *)NULL);
    _exit(1);
  }
  int ended;
  assert_int_equal(waitpid(child, &ended, 0), child);
  assert_int_equal(ended, 0);
  return !access(mark, F_OK);
}

static int open_libcuda(void) {
  kiln_compiler_t *compiler; /* by the same loader: it has none of NVRTC's functions */
  kiln_status_t status = kiln_compiler_create("libcuda.so.1", &compiler);
  kiln_status_free(status);
  return status ? 0 : 1;
}

static void nvrtc_never_loads_the_driver(void **state) {
  (void)state;
  char *folder = kiln_test_folder_create();
  build_library(folder, "libcuda.so.1", marking_libcuda);
  build_library(folder, "libcuda.so", marking_libcuda);
  assert_true(loads_libcuda(folder, "--open-libcuda")); /* the mark works */
  assert_false(loads_libcuda(folder, "--compile"));
  kiln_test_folder_remove(folder);
}

/* An NVRTC that prints its options instead of PTX, counts in the file MARK how often it is asked for its
 * version, and knows no --no-cache, like 12.1. */
#define FAKE_NVRTC(version)                                                                                  \
  "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"                                           \
  "static char options[512];\n"                                                                              \
  "int nvrtcVersion(int *a, int *b) {\n"                                                                     \
  "  const char *name = getenv(\"MARK\");\n"                                                                 \
  "  FILE *mark = name ? fopen(name, \"a\") : 0;\n"                                                          \
  "  if (mark) { fputc('x', mark); fclose(mark); }\n"                                                        \
  "  return sscanf(\"" version "\", \"%d.%d\", a, b) == 2 ? 0 : 1;\n"                                        \
  "}\n"                                                                                                      \
  "const char *nvrtcGetErrorString(int e) { return \"fake error\"; }\n"                                      \
  "int nvrtcGetNumSupportedArchs(int *n) { *n = 2; return 0; }\n"                                            \
  "int nvrtcGetSupportedArchs(int *a) { a[0] = 80; a[1] = 90; return 0; }\n"                                 \
  "int nvrtcCreateProgram(void **p) { *p = options; return 0; }\n"                                           \
  "int nvrtcDestroyProgram(void **p) { *p = 0; return 0; }\n"                                                \
  "int nvrtcCompileProgram(void *p, int n, const char **o) {\n"                                              \
  "  strcpy(options, \"// Options:\");\n"                                                                    \
  "  for (int i = 0; i < n; i++) strcat(strcat(options, \" \"), o[i]);\n"                                    \
  "  return strstr(options, \"--no-cache\") ? 5 : 0;\n"                                                      \
  "}\n"                                                                                                      \
  "int nvrtcGetProgramLogSize(void *p, size_t *n) { *n = 1; return 0; }\n"                                   \
  "int nvrtcGetProgramLog(void *p, char *l) { *l = 0; return 0; }\n"                                         \
  "int nvrtcGetPTXSize(void *p, size_t *n) { *n = strlen(options) + 1; return 0; }\n"                        \
  "int nvrtcGetPTX(void *p, char *t) { strcpy(t, options); return 0; }\n"                                    \
  "int nvrtcGetCUBINSize(void *p, size_t *n) { *n = 4; return 0; }\n"                                        \
  "int nvrtcGetCUBIN(void *p, char *t) { memcpy(t, \"\\177ELF\", 4); return 0; }\n"

typedef struct {
  char *folder;
  char library[512], mark[512];
} fake_t;

static fake_t fake_begin(const char *text) {
  fake_t fake = {.folder = kiln_test_folder_create()};
  snprintf(fake.library, sizeof fake.library, "%s/libnvrtc.so", fake.folder);
  snprintf(fake.mark, sizeof fake.mark, "%s/mark", fake.folder);
  build_library(fake.folder, "libnvrtc.so", text);
  return fake;
}

static void a_library_without_a_cache_gets_the_other_options_and_no_more(void **state) {
  (void)state;
  fake_t fake = fake_begin(FAKE_NVRTC("12.1"));
  kiln_compiler_t *compiler;
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  kiln_kernel_artifact_t artifact;
  assert_null(kiln_compiler_create(fake.library, &compiler));
  assert_null(kiln_compiler_compile(compiler, &arena, "", "f", &sm_90, KILN_IMAGE_PTX, &artifact));
  assert_string_equal(artifact.ptx,
                      "// Options: --gpu-architecture=compute_90 --std=c++17 -default-device -fmad=false");
  assert_null(kiln_compiler_compile(compiler, &arena, "", "f", &sm_90, KILN_IMAGE_CUBIN, &artifact));
  assert_string_equal(
      artifact.ptx,
      "// Options: --gpu-architecture=sm_90 --std=c++17 -default-device -fmad=false -Xptxas=-v");
  kiln_compiler_destroy(compiler);
  kiln_arena_deinit(&arena);
  kiln_test_folder_remove(fake.folder);
}

static void a_library_older_than_12_1_is_refused_with_both_versions(void **state) {
  (void)state;
  fake_t fake = fake_begin(FAKE_NVRTC("12.0"));
  kiln_compiler_t *compiler;
  kiln_status_t status = kiln_compiler_create(fake.library, &compiler);
  assert_non_null(strstr(kiln_status_message(status), fake.library));
  expect_error(status, KILN_UNAVAILABLE, "is NVRTC 12.0, older than 12.1");
  kiln_test_folder_remove(fake.folder);
}

/* --- the identity without the compiler --------------------------------------------------------- */

static size_t times_asked(const fake_t *fake) {
  struct stat status;
  return stat(fake->mark, &status) ? 0 : (size_t)status.st_size;
}

static bool this_process_has_loaded(const char *library) {
  char line[1024];
  bool found = false;
  FILE *maps = fopen("/proc/self/maps", "r");
  assert_non_null(maps);
  while (fgets(line, sizeof line, maps)) found = found || strstr(line, library);
  fclose(maps);
  return found;
}

static void expect_identity(const fake_t *fake, kiln_disk_cache_t *cache) {
  kiln_buffer_t identity;
  kiln_buffer_init(&identity);
  assert_null(kiln_compiler_identity_cached(fake->library, cache, &identity));
  assert_string_equal(kiln_buffer_text(&identity),
                      "NVRTC 12.4; architectures 80 90; Options: --gpu-architecture=compute_80 --std=c++17 "
                      "-default-device -fmad=false");
  kiln_buffer_deinit(&identity);
}

static void the_identity_is_found_without_the_library_until_that_changes(void **state) {
  (void)state;
  fake_t fake = fake_begin(FAKE_NVRTC("12.4"));
  kiln_disk_cache_options_t options = {.folder = fake.folder};
  kiln_disk_cache_t *cache;
  assert_null(kiln_disk_cache_open(&options, &cache));
  setenv("MARK", fake.mark, 1);
  expect_identity(&fake, cache);
  size_t asked = times_asked(&fake);
  assert_true(asked > 0);
  expect_identity(&fake, cache);
  assert_int_equal(times_asked(&fake), asked);
  build_library(fake.folder, "libnvrtc.so", FAKE_NVRTC("12.4") "int more;\n");
  expect_identity(&fake, cache);
  assert_int_equal(times_asked(&fake), 2 * asked);
  expect_identity(&fake, NULL);
  assert_int_equal(times_asked(&fake), 3 * asked);
  assert_false(this_process_has_loaded(fake.library));
  unsetenv("MARK");
  kiln_disk_cache_close(cache);
  kiln_test_folder_remove(fake.folder);
}

static void the_identity_of_no_library_is_the_error_of_opening_it(void **state) {
  (void)state;
  kiln_buffer_t identity;
  kiln_buffer_init(&identity);
  expect_error(kiln_compiler_identity_cached("/nowhere/libnvrtc.so", NULL, &identity), KILN_UNAVAILABLE,
               "/nowhere/libnvrtc.so");
  kiln_buffer_deinit(&identity);
}

int main(int argument_count, char **arguments) {
  if (argument_count == 2 && !strcmp(arguments[1], "--compile")) return compile_both_kinds();
  if (argument_count == 2 && !strcmp(arguments[1], "--open-libcuda")) return open_libcuda();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ptx_has_entry_and_target),
      cmocka_unit_test(a_cubin_has_ptx_beside_it_that_says_what_ptxas_counted),
      cmocka_unit_test(the_same_source_is_the_same_bytes_in_every_process),
      cmocka_unit_test(multiply_and_add_stay_apart),
      cmocka_unit_test(the_identity_names_version_architectures_and_build),
      cmocka_unit_test(a_source_with_an_error_is_compile_failed_with_the_log),
      cmocka_unit_test(a_target_that_the_library_does_not_know_is_unsupported),
      cmocka_unit_test(a_compiler_that_is_not_there_is_unavailable),
      cmocka_unit_test(a_source_too_large_for_the_arena_is_out_of_memory_and_leaks_nothing),
      cmocka_unit_test(the_log_is_read_for_the_kernel_asked_for),
      cmocka_unit_test(an_artifact_is_read_as_it_was_written),
      cmocka_unit_test(an_artifact_cut_anywhere_is_refused),
      cmocka_unit_test(nvrtc_never_loads_the_driver),
      cmocka_unit_test(a_library_without_a_cache_gets_the_other_options_and_no_more),
      cmocka_unit_test(a_library_older_than_12_1_is_refused_with_both_versions),
      cmocka_unit_test(the_identity_is_found_without_the_library_until_that_changes),
      cmocka_unit_test(the_identity_of_no_library_is_the_error_of_opening_it),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
