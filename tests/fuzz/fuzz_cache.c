/* tests/fuzz/fuzz_cache.c: the readers of what lies in a cache folder: entries, and the kernels in them.
 *
 * The first byte of an input chooses a reader. Mutations of a whole file rarely get past its checksum, so one
 * of them gets the input as a body under a header that is right. What a reader takes must survive being
 * written and read again.
 */
#include "base/hash.h"
#include "runtime/cache_entry.h"
#include "runtime/compile.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char full_key[] = "full key";
enum { FULL_KEY_BYTES = sizeof full_key - 1, HEADER_BYTES = 104 };

static void read_entry(const uint8_t *bytes, size_t size) {
  const void *content;
  size_t content_bytes;
  if (kiln_cache_entry_decode(bytes, size, full_key, FULL_KEY_BYTES, &content, &content_bytes) !=
      KILN_ENTRY_GOOD) {
    return;
  }
  kiln_buffer_t again;
  kiln_buffer_init(&again);
  kiln_cache_entry_encode(&again, full_key, FULL_KEY_BYTES, content, content_bytes);
  const void *second;
  size_t second_bytes;
  assert(kiln_cache_entry_decode(again.data, again.size, full_key, FULL_KEY_BYTES, &second, &second_bytes) ==
         KILN_ENTRY_GOOD);
  assert(second_bytes == content_bytes && !memcmp(second, content, content_bytes));
  kiln_buffer_deinit(&again);
}

/* The body under a header as cache_entry.h describes it. */
static void read_sealed_entry(const uint8_t *body, size_t size) {
  uint8_t *file = calloc(1, HEADER_BYTES + size);
  memcpy(file, "kilncach", 8);
  file[8] = 1;
  for (int i = 0; i < 8; i++) file[16 + i] = (uint8_t)((uint64_t)size >> 8 * i);
  memcpy(file + HEADER_BYTES, body, size);
  kiln_hasher_t *hasher = kiln_hasher_create();
  kiln_hasher_update(hasher, file + 8, 16);
  kiln_hasher_update(hasher, body, size);
  kiln_digest_t digest = kiln_hasher_finish(hasher);
  memcpy(file + 24, digest.bytes, sizeof digest.bytes);
  read_entry(file, HEADER_BYTES + size);
  free(file);
}

static void read_artifact(const uint8_t *bytes, size_t size) {
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  kiln_kernel_artifact_t artifact, again;
  kiln_status_t status = kiln_kernel_artifact_decode(&arena, bytes, size, &artifact);
  if (!status) {
    kiln_buffer_t written;
    kiln_buffer_init(&written);
    kiln_kernel_artifact_encode(&artifact, &written);
    status = kiln_kernel_artifact_decode(&arena, written.data, written.size, &again);
    assert(!status && again.image_bytes == artifact.image_bytes && !strcmp(again.ptx, artifact.ptx));
    kiln_buffer_deinit(&written);
  }
  kiln_status_free(status);
  kiln_arena_deinit(&arena);
}

static void read_log(const uint8_t *bytes, size_t size) {
  char *log = calloc(1, size + 1);
  memcpy(log, bytes, size);
  kiln_kernel_artifact_t artifact = {.entry = "f"};
  kiln_kernel_artifact_read_log(&artifact, log);
  free(log);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static void (*const readers[])(const uint8_t *, size_t) = {read_entry, read_sealed_entry, read_artifact,
                                                             read_log};
  if (!size) return 0;
  readers[data[0] % 4](data + 1, size - 1);
  return 0;
}
