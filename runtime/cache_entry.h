/* runtime/cache_entry.h: a cache entry as the bytes of a file.
 *
 *   offset  bytes
 *        0      8  magic "kilncach"
 *        8      4  version, 1 (little endian, as all of them)
 *       12      4  zero
 *       16      8  length of the body
 *       24     32  SHA-256 of bytes 8 to 23, then the body
 *       56     48  zero: room for a signature
 *      104         body: MessagePack array [full key: bin, content: bin]
 *
 * Written and read by cache_disk.c; also the entrance of the cache reader's fuzzer. A reader takes any bytes.
 */
#ifndef KILN_RUNTIME_CACHE_ENTRY_H
#define KILN_RUNTIME_CACHE_ENTRY_H

#include "base/buffer.h"

#include <stdint.h>

/* Appends the whole file; out->failed when memory is short. */
void kiln_cache_entry_encode(kiln_buffer_t *out, const void *full_key, size_t full_key_bytes,
                             const void *content, size_t content_bytes);

typedef enum {
  KILN_ENTRY_GOOD,
  KILN_ENTRY_OTHER_KEY, /* whole, but of another full key */
  KILN_ENTRY_DAMAGED    /* not what encode writes */
} kiln_entry_state_t;

/* GOOD with *out_content pointing into the bytes. */
kiln_entry_state_t kiln_cache_entry_decode(const void *bytes, size_t size, const void *full_key,
                                           size_t full_key_bytes, const void **out_content,
                                           size_t *out_content_bytes);

#endif
