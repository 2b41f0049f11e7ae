/* ir/mpack_scan.c: finds the end of a MessagePack message and checks its size before anything is built from
 * it.
 *
 * The first thing that looks at bytes from a socket. Works on prefixes: scalars, strings and containers
 * differ only in how many payload bytes to pass over and how many objects to expect inside, so the state is a
 * counter per open container. A header whose length field is cut off is looked at again when more arrives;
 * nothing else is. Source: the MessagePack specification, "Formats".
 */
#include <string.h>

#include "ir/mpack.h"

/* What the first byte of an object says. */
typedef struct {
  uint8_t length_bytes; /* of the big-endian length that follows the first byte */
  uint8_t extra_bytes;  /* of payload besides the length: scalars, the type of an ext */
  uint8_t objects;      /* inside, per unit of length: 1 array, 2 map; 0: the length counts payload bytes */
  uint64_t length;      /* when the first byte holds it */
} header_t;

/* Formats c0 to df; c1 is never used. */
static bool read_wide_header(uint8_t first, header_t *out) {
#define PAYLOAD(bytes)                                                                                       \
  { .extra_bytes = bytes }
#define SIZED(length, extra)                                                                                 \
  { .length_bytes = length, .extra_bytes = extra }
#define ITEMS(length, each)                                                                                  \
  { .length_bytes = length, .objects = each }
  static const header_t headers[32] = {
      PAYLOAD(0),  PAYLOAD(0),  PAYLOAD(0),  PAYLOAD(0),               /* nil, -, false, true */
      SIZED(1, 0), SIZED(2, 0), SIZED(4, 0),                           /* bin */
      SIZED(1, 1), SIZED(2, 1), SIZED(4, 1),                           /* ext */
      PAYLOAD(4),  PAYLOAD(8),                                         /* float */
      PAYLOAD(1),  PAYLOAD(2),  PAYLOAD(4),  PAYLOAD(8),               /* uint */
      PAYLOAD(1),  PAYLOAD(2),  PAYLOAD(4),  PAYLOAD(8),               /* int */
      PAYLOAD(2),  PAYLOAD(3),  PAYLOAD(5),  PAYLOAD(9),  PAYLOAD(17), /* fixext */
      SIZED(1, 0), SIZED(2, 0), SIZED(4, 0),                           /* str */
      ITEMS(2, 1), ITEMS(4, 1), ITEMS(2, 2), ITEMS(4, 2),              /* array, map */
  };
#undef PAYLOAD
#undef SIZED
#undef ITEMS
  *out = headers[first - 0xc0];
  return first != 0xc1;
}

static bool read_header(uint8_t first, header_t *out) {
  *out = (header_t){0};
  if (first >= 0xc0 && first < 0xe0) return read_wide_header(first, out);
  if (first >= 0xa0 && first < 0xc0) {
    out->length = first & 31; /* fixstr */
  } else if (first >= 0x80 && first < 0xa0) {
    out->objects = first < 0x90 ? 2 : 1; /* fixmap, fixarray */
    out->length = first & 15;
  }
  return true; /* the rest are fixints */
}

static uint64_t big_endian(const uint8_t *bytes, unsigned count) {
  uint64_t value = 0;
  for (unsigned i = 0; i < count; i++) value = value << 8 | bytes[i];
  return value;
}

void kiln_mpack_scan_init(kiln_mpack_scanner_t *scanner, const kiln_mpack_limits_t *limits) {
  *scanner = (kiln_mpack_scanner_t){.limits = *limits, .depth = 1, .remaining = {1}};
  uint32_t most =
      sizeof scanner->remaining / sizeof *scanner->remaining - 1; /* the first is the message itself */
  if (scanner->limits.max_depth > most) scanner->limits.max_depth = most;
}

/* Passes over payload that has arrived. */
static void pass_over(kiln_mpack_scanner_t *scanner, uint64_t size) {
  uint64_t arrived = size - scanner->position;
  uint64_t step = scanner->skip < arrived ? scanner->skip : arrived;
  scanner->position += step;
  scanner->skip -= step;
}

/* One object has begun: it counts in its container, and what ends with it is closed. */
static void close_containers(kiln_mpack_scanner_t *scanner) {
  while (scanner->depth && !scanner->remaining[scanner->depth - 1]) {
    scanner->depth--;
    if (scanner->depth) scanner->remaining[scanner->depth - 1]--;
  }
}

static kiln_scan_t open_container(kiln_mpack_scanner_t *scanner, uint64_t objects) {
  if (objects > scanner->limits.max_elements - scanner->elements) return KILN_SCAN_TOO_MANY;
  if (scanner->depth > scanner->limits.max_depth) return KILN_SCAN_TOO_DEEP;
  scanner->remaining[scanner->depth++] = objects;
  return KILN_SCAN_MORE;
}

/* The object at the position; leaves the position behind its header. KILN_SCAN_MORE: go on. */
static kiln_scan_t scan_object(kiln_mpack_scanner_t *scanner, const uint8_t *message,
                               const header_t *header) {
  const uint8_t *at = message + scanner->position;
  uint64_t length = header->length_bytes ? big_endian(at + 1, header->length_bytes) : header->length;
  uint64_t payload = header->extra_bytes + (header->objects ? 0 : length);
  uint64_t begun = scanner->position + 1 + header->length_bytes;
  if (begun > scanner->limits.max_bytes || payload > scanner->limits.max_bytes - begun)
    return KILN_SCAN_TOO_LARGE;
  if (scanner->elements == scanner->limits.max_elements) return KILN_SCAN_TOO_MANY;
  scanner->elements++;
  scanner->position = begun;
  scanner->skip = payload;
  kiln_scan_t result = KILN_SCAN_MORE;
  if (header->objects) {
    result = open_container(scanner, length * header->objects);
  } else {
    scanner->remaining[scanner->depth - 1]--;
  }
  close_containers(scanner);
  return result;
}

kiln_scan_t kiln_mpack_scan(kiln_mpack_scanner_t *scanner, const void *message, size_t size) {
  const uint8_t *bytes = message;
  for (;;) {
    pass_over(scanner, size);
    if (scanner->skip) return KILN_SCAN_MORE;
    if (!scanner->depth) return KILN_SCAN_COMPLETE;
    if (scanner->position == size) return KILN_SCAN_MORE;
    header_t header;
    if (!read_header(bytes[scanner->position], &header)) return KILN_SCAN_MALFORMED;
    if (size - scanner->position < 1u + header.length_bytes) return KILN_SCAN_MORE;
    kiln_scan_t result = scan_object(scanner, bytes, &header);
    if (result != KILN_SCAN_MORE) return result;
  }
}
