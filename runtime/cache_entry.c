/* runtime/cache_entry.c: writes and reads the bytes of a cache entry; see cache_entry.h. */
#include "runtime/cache_entry.h"
#include "base/hash.h"
#include "ir/mpack.h"

#include <endian.h>
#include <string.h>

enum { VERSION = 1 };

typedef struct {
  char magic[8];
  uint32_t version;
  uint32_t zero;
  uint64_t length;
  uint8_t checksum[32];
  uint8_t signature[48];
} header_t;
_Static_assert(sizeof(header_t) == 104, "the header has no padding");

static const header_t blank = {.magic = {'k', 'i', 'l', 'n', 'c', 'a', 'c', 'h'}};

/* False when memory is short. */
static bool compute_checksum(const header_t *header, const void *body, size_t body_bytes, uint8_t out[32]) {
  kiln_hasher_t *hasher = kiln_hasher_create();
  if (!hasher) return false;
  kiln_hasher_update(hasher, &header->version, 16);
  kiln_hasher_update(hasher, body, body_bytes);
  kiln_digest_t digest = kiln_hasher_finish(hasher);
  memcpy(out, digest.bytes, sizeof digest.bytes);
  return true;
}

void kiln_cache_entry_encode(kiln_buffer_t *out, const void *full_key, size_t full_key_bytes,
                             const void *content, size_t content_bytes) {
  size_t start = out->size;
  kiln_buffer_reserve(out, sizeof(header_t) + full_key_bytes + content_bytes + 16);
  kiln_buffer_append(out, &blank, sizeof blank);
  kiln_mpack_array(out, 2);
  kiln_mpack_bin(out, full_key, full_key_bytes);
  kiln_mpack_bin(out, content, content_bytes);
  if (out->failed) return;
  header_t header = blank;
  const char *body = out->data + start + sizeof header;
  size_t body_bytes = out->size - start - sizeof header;
  header.version = htole32(VERSION);
  header.length = htole64(body_bytes);
  if (!compute_checksum(&header, body, body_bytes, header.checksum)) out->failed = true;
  memcpy(out->data + start, &header, sizeof header);
}

static bool header_is_right(const header_t *header, const void *body, size_t body_bytes) {
  header_t wanted = blank;
  wanted.version = htole32(VERSION);
  wanted.length = htole64(body_bytes);
  return compute_checksum(header, body, body_bytes, wanted.checksum) &&
         !memcmp(header, &wanted, sizeof wanted);
}

/* Takes a bin from the front of the bytes at *at, without a tree of objects: there are only two. */
static bool take_bin(const uint8_t **at, const uint8_t *end, const void **out_data, size_t *out_size) {
  static const uint8_t length_bytes[] = {1, 2, 4}; /* of 0xc4, 0xc5, 0xc6 */
  size_t left = (size_t)(end - *at);
  if (left < 1 || (*at)[0] < 0xc4 || (*at)[0] > 0xc6) return false;
  size_t head = 1u + length_bytes[(*at)[0] - 0xc4];
  if (left < head) return false;
  size_t size = 0;
  for (size_t i = 1; i < head; i++) size = size << 8 | (*at)[i];
  if (left - head < size) return false;
  *out_data = *at + head;
  *out_size = size;
  *at += head + size;
  return true;
}

kiln_entry_state_t kiln_cache_entry_decode(const void *bytes, size_t size, const void *full_key,
                                           size_t full_key_bytes, const void **out_content,
                                           size_t *out_content_bytes) {
  header_t header;
  if (size < sizeof header + 1) return KILN_ENTRY_DAMAGED;
  memcpy(&header, bytes, sizeof header);
  const uint8_t *at = (const uint8_t *)bytes + sizeof header, *end = (const uint8_t *)bytes + size;
  if (!header_is_right(&header, at, (size_t)(end - at))) return KILN_ENTRY_DAMAGED;
  const void *key;
  size_t key_bytes;
  if (*at++ != 0x92) return KILN_ENTRY_DAMAGED; /* array of two */
  if (!take_bin(&at, end, &key, &key_bytes) || !take_bin(&at, end, out_content, out_content_bytes) ||
      at != end) {
    return KILN_ENTRY_DAMAGED;
  }
  bool same = key_bytes == full_key_bytes && (!key_bytes || !memcmp(key, full_key, key_bytes));
  return same ? KILN_ENTRY_GOOD : KILN_ENTRY_OTHER_KEY;
}
