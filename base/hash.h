/* base/hash.h: SHA-256 for keys and checksums (OpenSSL's EVP underneath). */
#ifndef KILN_BASE_HASH_H
#define KILN_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
  uint8_t bytes[32];
} kiln_digest_t;

typedef struct kiln_hasher kiln_hasher_t;

kiln_hasher_t *kiln_hasher_create(void); /* NULL when memory is short */
void kiln_hasher_update(kiln_hasher_t *hasher, const void *data, size_t size);
/* Length first, then the bytes: ("ab","c") and ("a","bc") differ. */
void kiln_hasher_field(kiln_hasher_t *hasher, const void *data, size_t size);
kiln_digest_t kiln_hasher_finish(kiln_hasher_t *hasher); /* destroys the hasher */

kiln_digest_t kiln_sha256(const void *data, size_t size);
bool kiln_digest_equal(const kiln_digest_t *a, const kiln_digest_t *b);
void kiln_digest_hex(const kiln_digest_t *digest, char out[65]);
bool kiln_digest_parse(const char *hex, kiln_digest_t *out);

#endif
