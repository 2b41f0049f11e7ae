/* tests/fuzz/fuzz_scanner.c: bytes from a socket.
 *
 * The scanner must say the same of bytes that come one by one as of the whole, and what it calls complete
 * msgpack-c must be able to decode.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "ir/mpack.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const kiln_mpack_limits_t limits = {1 << 16, 1 << 12, 16};

static kiln_scan_t scan_one_by_one(const uint8_t *data, size_t size, uint64_t *out_end) {
  kiln_mpack_scanner_t scanner;
  kiln_mpack_scan_init(&scanner, &limits);
  kiln_scan_t result = KILN_SCAN_MORE;
  for (size_t arrived = 0; arrived <= size && result == KILN_SCAN_MORE; arrived++) {
    result = kiln_mpack_scan(&scanner, data, arrived);
  }
  *out_end = scanner.position;
  return result;
}

static void decode(const uint8_t *data, size_t size) {
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  const kiln_mpack_t *value;
  assert(!kiln_mpack_decode(&arena, data, size, &value));
  assert(kiln_mpack_kind(value) <= KILN_MPACK_EXT);
  kiln_arena_deinit(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  kiln_mpack_scanner_t scanner;
  kiln_mpack_scan_init(&scanner, &limits);
  kiln_scan_t whole = kiln_mpack_scan(&scanner, data, size);
  uint64_t end;
  assert(scan_one_by_one(data, size, &end) == whole);
  if (whole != KILN_SCAN_COMPLETE) return 0;
  assert(end == scanner.position && end <= size);
  decode(data, end);
  return 0;
}
