/* runtime/compile.h: CUDA C++ source -> image, by NVRTC opened with dlopen.
 *
 * Called in compile workers and by `--local` commands, one thread at a time per compiler. NVRTC always gets
 * --no-cache (it would open libcuda and the driver's own cache otherwise), -fmad=false and -Xptxas=-v (a
 * cubin's registers, spills and shared memory are parsed from its log).
 */
#ifndef KILN_RUNTIME_COMPILE_H
#define KILN_RUNTIME_COMPILE_H

#include "base/arena.h"
#include "base/buffer.h"
#include "ir/target.h"
#include "runtime/cache.h"

typedef enum { KILN_IMAGE_PTX, KILN_IMAGE_CUBIN } kiln_image_kind_t;

/* One compiled kernel as it is stored and shipped. Depends on source, target, compiler and options only. */
typedef struct {
  kiln_image_kind_t kind;
  const void *image;
  size_t image_bytes;
  const char
      *ptx; /* always kept beside a cubin; the same bytes as the image for KILN_IMAGE_PTX; NUL-terminated */
  const char *entry;
  const char *arch;
  /* from ptxas, cubins only: -1 when unknown */
  int32_t registers, spill_store_bytes, spill_load_bytes, static_shared_bytes, stack_bytes;
  const char *log; /* what the compiler said; NULL for an artifact that was stored */
} kiln_kernel_artifact_t;

typedef struct kiln_compiler kiln_compiler_t;

/* Opens NVRTC: `path` if given, else $KILN_NVRTC, else what the build found, else the loader's and the usual
 * toolkit folders. UNAVAILABLE in one line that names what was tried, or the library found, its version and
 * the one needed (12.1). */
kiln_status_t kiln_compiler_create(const char *path, kiln_compiler_t **out_compiler);
void kiln_compiler_destroy(kiln_compiler_t *compiler);

/* Library version, supported architectures and the header lines of the PTX of an empty compile (which warms
 * it): part of every key. The library's path is not part of it. */
const char *kiln_compiler_identity(const kiln_compiler_t *compiler);
const char *kiln_compiler_library(const kiln_compiler_t *compiler); /* path, for people */

/* The identity of the compiler that kiln_compiler_create(path) would give, without NVRTC in this process
 * (loading it takes 30 to 45 MiB of private memory): from the cache, where it lies under the library's path,
 * size and time, else from a forked child, which leaves it there. cache may be NULL. For a process that has
 * no second thread yet. Errors as of create. */
kiln_status_t kiln_compiler_identity_cached(const char *path, kiln_disk_cache_t *cache,
                                            kiln_buffer_t *out_identity);
/* Its parts, for a process that opens NVRTC itself sooner or later: looks into the cache only, and keeps
 * there what a compiler said. */
bool kiln_compiler_identity_find(const char *path, kiln_disk_cache_t *cache, kiln_buffer_t *out_identity);
void kiln_compiler_identity_keep(const char *path, kiln_disk_cache_t *cache, const char *identity);

bool kiln_compiler_supports(const kiln_compiler_t *compiler, const kiln_target_t *target,
                            kiln_image_kind_t kind);
/* The options that enter the kernel key, in one string, the same for every compiler. */
const char *kiln_compiler_options(void);

/* COMPILE_FAILED with NVRTC's log as detail "log"; UNSUPPORTED when the library does not know the target;
 * OUT_OF_MEMORY. The artifact lives in the arena. */
kiln_status_t kiln_compiler_compile(kiln_compiler_t *compiler, kiln_arena_t *arena, const char *source,
                                    const char *entry, const kiln_target_t *target, kiln_image_kind_t kind,
                                    kiln_kernel_artifact_t *out);

/* What ptxas says in its log (-Xptxas=-v) of kernel `entry`, as a number each; all -1 when it says nothing.
 */
void kiln_kernel_artifact_read_log(kiln_kernel_artifact_t *artifact, const char *log);

/* MessagePack, the same bytes for the same artifact. */
void kiln_kernel_artifact_encode(const kiln_kernel_artifact_t *artifact, kiln_buffer_t *out);
/* INVALID_ARGUMENT on anything that encode would not have written. What it returns points into the arena. */
kiln_status_t kiln_kernel_artifact_decode(kiln_arena_t *arena, const void *bytes, size_t size,
                                          kiln_kernel_artifact_t *out);

#endif
