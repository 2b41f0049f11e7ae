/* runtime/identity.c: the compiler's identity without the compiler.
 *
 * A compile worker greets with its compiler's identity when it starts, long before its first job, and NVRTC
 * is large. So the identity is an entry of the disk cache under the library's path, size and time of
 * modification; a child process that opens NVRTC, asks and ends makes it. See kiln_compiler_identity_cached
 * in compile.h.
 */
#include "base/hash.h"
#include "runtime/compile.h"
#include "runtime/find_nvrtc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* What the entry lies under; false when the library that would be taken is not known by its path. */
static bool describe_library(const char *path, kiln_buffer_t *out) {
  const char *name;
  for (size_t i = 0; (name = kiln_nvrtc_candidate(path, i)); i++) {
    struct stat status;
    if (!strchr(name, '/')) return false; /* the loader searches for it */
    char *resolved = realpath(name, NULL);
    if (resolved && !stat(resolved, &status)) {
      kiln_buffer_printf(out, "compiler identity of %s, %lld bytes, of %lld.%09ld", resolved,
                         (long long)status.st_size, (long long)status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
    }
    free(resolved);
    if (out->size) return !out->failed;
  }
  return false;
}

/* --- the child --------------------------------------------------------------------------------- */

/* In the child: writes '+' and the identity, or '-' and what is wrong, and ends. */
static _Noreturn void answer(const char *path, int pipe_end) {
  kiln_compiler_t *compiler = NULL;
  kiln_status_t status = kiln_compiler_create(path, &compiler);
  const char *text = status ? kiln_status_message(status) : kiln_compiler_identity(compiler);
  bool told = write(pipe_end, status ? "-" : "+", 1) == 1;
  for (size_t left = strlen(text); told && left;) {
    ssize_t written = write(pipe_end, text, left);
    told = written > 0 || (written < 0 && errno == EINTR);
    if (written > 0) text += written, left -= (size_t)written;
  }
  _exit(told ? 0 : 1);
}

static void read_to_end(int file, kiln_buffer_t *out) {
  char part[512];
  ssize_t got;
  while ((got = read(file, part, sizeof part)) > 0 || (got < 0 && errno == EINTR)) {
    if (got > 0) kiln_buffer_append(out, part, (size_t)got);
  }
}

static kiln_status_t ask_child(const char *path, kiln_buffer_t *out_identity) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC)) return kiln_error_errno(KILN_UNAVAILABLE, errno, "cannot ask for the compiler");
  pid_t child = fork();
  if (!child) answer(path, ends[1]);
  int fork_error = errno;
  close(ends[1]);
  kiln_buffer_clear(out_identity);
  if (child > 0) read_to_end(ends[0], out_identity);
  close(ends[0]);
  if (child < 0)
    return kiln_error_errno(KILN_UNAVAILABLE, fork_error, "cannot start a process to ask the compiler");
  while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {
  }
  const char *text = kiln_buffer_text(out_identity);
  if (out_identity->failed)
    return kiln_error(KILN_OUT_OF_MEMORY, "out of memory while asking for the compiler");
  if (text[0] == '-') return kiln_error(KILN_UNAVAILABLE, "%s", text + 1);
  if (text[0] != '+') return kiln_error(KILN_UNAVAILABLE, "opening NVRTC ended the process that did it");
  kiln_buffer_consume(out_identity, 1);
  return NULL;
}

bool kiln_compiler_identity_find(const char *path, kiln_disk_cache_t *cache, kiln_buffer_t *out_identity) {
  kiln_buffer_t library;
  kiln_buffer_init(&library);
  bool found = false;
  if (cache && describe_library(path, &library)) {
    kiln_digest_t key = kiln_sha256(library.data, library.size);
    found = kiln_disk_cache_get(cache, &key, library.data, library.size, out_identity);
  }
  kiln_buffer_deinit(&library);
  return found;
}

void kiln_compiler_identity_keep(const char *path, kiln_disk_cache_t *cache, const char *identity) {
  kiln_buffer_t library;
  kiln_buffer_init(&library);
  if (cache && describe_library(path, &library)) {
    kiln_digest_t key = kiln_sha256(library.data, library.size);
    kiln_disk_cache_put(cache, &key, library.data, library.size, identity, strlen(identity));
  }
  kiln_buffer_deinit(&library);
}

kiln_status_t kiln_compiler_identity_cached(const char *path, kiln_disk_cache_t *cache,
                                            kiln_buffer_t *out_identity) {
  if (kiln_compiler_identity_find(path, cache, out_identity)) return NULL;
  KILN_TRY(ask_child(path, out_identity));
  kiln_compiler_identity_keep(path, cache, kiln_buffer_text(out_identity));
  return NULL;
}
