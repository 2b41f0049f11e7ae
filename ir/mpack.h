/* ir/mpack.h: MessagePack in and out; the one home of <msgpack.h>.
 *
 * Writing appends to a buffer. Reading decodes one complete object whose strings and binaries point into the
 * bytes, after kiln_mpack_scan has found its end and checked its limits. Getters return false on another
 * kind, so that a caller reports the field by name.
 */
#ifndef KILN_IR_MPACK_H
#define KILN_IR_MPACK_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/hash.h"
#include "base/status.h"

void kiln_mpack_nil(kiln_buffer_t *out);
void kiln_mpack_bool(kiln_buffer_t *out, bool value);
void kiln_mpack_int(kiln_buffer_t *out, int64_t value);
void kiln_mpack_uint(kiln_buffer_t *out, uint64_t value);
void kiln_mpack_double(kiln_buffer_t *out, double value);
void kiln_mpack_str(kiln_buffer_t *out, const char *text);
void kiln_mpack_strn(kiln_buffer_t *out, const char *text, size_t length);
void kiln_mpack_bin(kiln_buffer_t *out, const void *data, size_t size);
void kiln_mpack_bin_header(kiln_buffer_t *out,
                           size_t size); /* the payload is appended, or sent, by the caller */
void kiln_mpack_array(kiln_buffer_t *out, size_t count);
void kiln_mpack_map(kiln_buffer_t *out, size_t count);

/* A pair of a map: its key, then its value. */
void kiln_mpack_member_bool(kiln_buffer_t *out, const char *key, bool value);
void kiln_mpack_member_int(kiln_buffer_t *out, const char *key, int64_t value);
void kiln_mpack_member_uint(kiln_buffer_t *out, const char *key, uint64_t value);
void kiln_mpack_member_str(kiln_buffer_t *out, const char *key, const char *text);
void kiln_mpack_member_bin(kiln_buffer_t *out, const char *key, const void *data, size_t size);
void kiln_mpack_member_hex(kiln_buffer_t *out, const char *key, const kiln_digest_t *digest);
/* The key of a pair whose value follows. */
void kiln_mpack_member_array(kiln_buffer_t *out, const char *key, size_t count);
void kiln_mpack_member_map(kiln_buffer_t *out, const char *key, size_t count);

typedef struct msgpack_object kiln_mpack_t;
typedef enum {
  KILN_MPACK_NIL,
  KILN_MPACK_BOOL,
  KILN_MPACK_INT, /* signed or unsigned */
  KILN_MPACK_DOUBLE,
  KILN_MPACK_STR,
  KILN_MPACK_BIN,
  KILN_MPACK_ARRAY,
  KILN_MPACK_MAP,
  KILN_MPACK_EXT
} kiln_mpack_kind_t;

/* The bytes must be exactly one scanned object and outlive the result. PROTOCOL_ERROR otherwise. */
kiln_status_t kiln_mpack_decode(kiln_arena_t *arena, const void *bytes, size_t size,
                                const kiln_mpack_t **out);
kiln_mpack_kind_t kiln_mpack_kind(const kiln_mpack_t *value);
bool kiln_mpack_get_bool(const kiln_mpack_t *value, bool *out);
bool kiln_mpack_get_int(const kiln_mpack_t *value, int64_t *out);
bool kiln_mpack_get_uint(const kiln_mpack_t *value, uint64_t *out);
bool kiln_mpack_get_double(const kiln_mpack_t *value, double *out); /* accepts integers */
bool kiln_mpack_get_str(const kiln_mpack_t *value, const char **out_text, size_t *out_length);
bool kiln_mpack_get_bin(const kiln_mpack_t *value, const void **out_data, size_t *out_size);
bool kiln_mpack_is_str(const kiln_mpack_t *value, const char *text);
size_t kiln_mpack_count(const kiln_mpack_t *value); /* items of an array, pairs of a map; 0 otherwise */
const kiln_mpack_t *kiln_mpack_item(const kiln_mpack_t *array, size_t index);
const kiln_mpack_t *kiln_mpack_pair_key(const kiln_mpack_t *map, size_t index);
const kiln_mpack_t *kiln_mpack_pair_value(const kiln_mpack_t *map, size_t index);
const kiln_mpack_t *kiln_mpack_find(const kiln_mpack_t *map,
                                    const char *key); /* NULL when absent or no map */

/* --- the scanner ---------------------------------------------------------------------------------------- */
typedef struct {
  uint64_t max_bytes;    /* of one message */
  uint64_t max_elements; /* besides bin payload */
  uint32_t max_depth;
} kiln_mpack_limits_t;

/* Walks one message as its bytes arrive; never looks at a byte twice, allocates nothing for bytes that have
 * not come. */
typedef struct {
  kiln_mpack_limits_t limits;
  uint64_t position; /* bytes of the message seen so far */
  uint64_t elements;
  uint64_t skip; /* payload bytes still to pass over */
  uint32_t depth;
  uint64_t remaining[32]; /* per level: objects still to come */
} kiln_mpack_scanner_t;

typedef enum {
  KILN_SCAN_MORE,      /* the message is not complete yet */
  KILN_SCAN_COMPLETE,  /* it ends at `position` */
  KILN_SCAN_TOO_LARGE, /* more bytes than a message may have */
  KILN_SCAN_TOO_MANY,  /* more elements */
  KILN_SCAN_TOO_DEEP,
  KILN_SCAN_MALFORMED
} kiln_scan_t;

void kiln_mpack_scan_init(kiln_mpack_scanner_t *scanner, const kiln_mpack_limits_t *limits);
/* message: the start of the message; size: the bytes of it that have arrived (grows from call to call). */
kiln_scan_t kiln_mpack_scan(kiln_mpack_scanner_t *scanner, const void *message, size_t size);

#endif
