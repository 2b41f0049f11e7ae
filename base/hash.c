/* base/hash.c: SHA-256 through OpenSSL's EVP, whose one home this is.
 *
 * Making a digest context can fail for want of memory, and only the streaming form can say so. What OpenSSL
 * reports afterwards (or in the one-shot form) would leave a key that is wrong, so it ends the process
 * instead.
 */
#include "base/hash.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct kiln_hasher {
  EVP_MD_CTX *context;
};

static void require(int ok) {
  if (ok) return;
  fputs("kiln: OpenSSL cannot compute SHA-256\n", stderr);
  abort();
}

kiln_hasher_t *kiln_hasher_create(void) {
  kiln_hasher_t *hasher = malloc(sizeof *hasher);
  if (!hasher) return NULL;
  hasher->context = EVP_MD_CTX_new();
  if (hasher->context && EVP_DigestInit_ex(hasher->context, EVP_sha256(), NULL)) return hasher;
  EVP_MD_CTX_free(hasher->context);
  free(hasher);
  return NULL;
}

void kiln_hasher_update(kiln_hasher_t *hasher, const void *data, size_t size) {
  require(EVP_DigestUpdate(hasher->context, data, size));
}

void kiln_hasher_field(kiln_hasher_t *hasher, const void *data, size_t size) {
  uint64_t length = size;
  kiln_hasher_update(hasher, &length, sizeof length); /* little-endian, as every host of kiln */
  kiln_hasher_update(hasher, data, size);
}

kiln_digest_t kiln_hasher_finish(kiln_hasher_t *hasher) {
  kiln_digest_t digest;
  require(EVP_DigestFinal_ex(hasher->context, digest.bytes, NULL));
  EVP_MD_CTX_free(hasher->context);
  free(hasher);
  return digest;
}

kiln_digest_t kiln_sha256(const void *data, size_t size) {
  kiln_digest_t digest;
  require(EVP_Digest(data, size, digest.bytes, NULL, EVP_sha256(), NULL));
  return digest;
}

bool kiln_digest_equal(const kiln_digest_t *a, const kiln_digest_t *b) {
  return !memcmp(a->bytes, b->bytes, sizeof a->bytes);
}

void kiln_digest_hex(const kiln_digest_t *digest, char out[65]) {
  static const char digits[] = "0123456789abcdef";
  for (int i = 0; i < 32; i++) {
    out[2 * i] = digits[digest->bytes[i] >> 4];
    out[2 * i + 1] = digits[digest->bytes[i] & 15];
  }
  out[64] = 0;
}

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool kiln_digest_parse(const char *hex, kiln_digest_t *out) {
  if (strlen(hex) != 64) return false;
  for (int i = 0; i < 32; i++) {
    int high = hex_digit(hex[2 * i]), low = hex_digit(hex[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    out->bytes[i] = (uint8_t)(high << 4 | low);
  }
  return true;
}
