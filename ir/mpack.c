/* ir/mpack.c: MessagePack through msgpack-c, whose one home this is.
 *
 * Decoding runs the scanner first: msgpack-c allocates for a container what its header claims, and after the
 * scan every claimed element is known to be there.
 */
#include "ir/mpack.h"

#include <msgpack.h>
#include <string.h>

/* --- writing -------------------------------------------------------------------------------------------- */

static int append(void *buffer, const char *data, size_t size) {
  kiln_buffer_append(buffer, data, size);
  return 0;
}

static msgpack_packer packer_to(kiln_buffer_t *out) { return (msgpack_packer){out, append}; }

void kiln_mpack_nil(kiln_buffer_t *out) {
  msgpack_packer packer = packer_to(out);
  msgpack_pack_nil(&packer);
}

void kiln_mpack_bool(kiln_buffer_t *out, bool value) {
  msgpack_packer packer = packer_to(out);
  value ? msgpack_pack_true(&packer) : msgpack_pack_false(&packer);
}

void kiln_mpack_int(kiln_buffer_t *out, int64_t value) {
  msgpack_packer packer = packer_to(out);
  msgpack_pack_int64(&packer, value);
}

void kiln_mpack_uint(kiln_buffer_t *out, uint64_t value) {
  msgpack_packer packer = packer_to(out);
  msgpack_pack_uint64(&packer, value);
}

void kiln_mpack_double(kiln_buffer_t *out, double value) {
  msgpack_packer packer = packer_to(out);
  msgpack_pack_double(&packer, value);
}

void kiln_mpack_str(kiln_buffer_t *out, const char *text) { kiln_mpack_strn(out, text, strlen(text)); }

void kiln_mpack_strn(kiln_buffer_t *out, const char *text, size_t length) {
  msgpack_packer packer = packer_to(out);
  msgpack_pack_str(&packer, length);
  kiln_buffer_append(out, text, length);
}

void kiln_mpack_bin_header(kiln_buffer_t *out, size_t size) {
  msgpack_packer packer = packer_to(out);
  msgpack_pack_bin(&packer, size);
}

void kiln_mpack_bin(kiln_buffer_t *out, const void *data, size_t size) {
  kiln_mpack_bin_header(out, size);
  kiln_buffer_append(out, data, size);
}

void kiln_mpack_array(kiln_buffer_t *out, size_t count) {
  msgpack_packer packer = packer_to(out);
  msgpack_pack_array(&packer, count);
}

void kiln_mpack_map(kiln_buffer_t *out, size_t count) {
  msgpack_packer packer = packer_to(out);
  msgpack_pack_map(&packer, count);
}

void kiln_mpack_member_bool(kiln_buffer_t *out, const char *key, bool value) {
  kiln_mpack_str(out, key);
  kiln_mpack_bool(out, value);
}

void kiln_mpack_member_int(kiln_buffer_t *out, const char *key, int64_t value) {
  kiln_mpack_str(out, key);
  kiln_mpack_int(out, value);
}

void kiln_mpack_member_uint(kiln_buffer_t *out, const char *key, uint64_t value) {
  kiln_mpack_str(out, key);
  kiln_mpack_uint(out, value);
}

void kiln_mpack_member_str(kiln_buffer_t *out, const char *key, const char *text) {
  kiln_mpack_str(out, key);
  kiln_mpack_str(out, text);
}

void kiln_mpack_member_bin(kiln_buffer_t *out, const char *key, const void *data, size_t size) {
  kiln_mpack_str(out, key);
  kiln_mpack_bin(out, data, size);
}

void kiln_mpack_member_array(kiln_buffer_t *out, const char *key, size_t count) {
  kiln_mpack_str(out, key);
  kiln_mpack_array(out, count);
}

void kiln_mpack_member_map(kiln_buffer_t *out, const char *key, size_t count) {
  kiln_mpack_str(out, key);
  kiln_mpack_map(out, count);
}

void kiln_mpack_member_hex(kiln_buffer_t *out, const char *key, const kiln_digest_t *digest) {
  char hex[65];
  kiln_digest_hex(digest, hex);
  kiln_mpack_member_str(out, key, hex);
}

/* --- reading -------------------------------------------------------------------------------------------- */

enum { MAX_DEPTH = 16, ZONE_CHUNK_BYTES = 8192 };

static void free_zone(void *holder) {
  if (*(msgpack_zone **)holder) msgpack_zone_free(*(msgpack_zone **)holder);
}

/* A zone that dies with the arena. NULL when memory is short. */
static msgpack_zone *zone_in_arena(kiln_arena_t *arena) {
  msgpack_zone **holder = KILN_NEW(arena, msgpack_zone *);
  kiln_arena_defer(arena, free_zone, holder);
  *holder = msgpack_zone_new(ZONE_CHUNK_BYTES);
  return *holder;
}

kiln_status_t kiln_mpack_decode(kiln_arena_t *arena, const void *bytes, size_t size,
                                const kiln_mpack_t **out) {
  kiln_mpack_scanner_t scanner;
  kiln_mpack_scan_init(&scanner, &(kiln_mpack_limits_t){size, size, MAX_DEPTH});
  if (kiln_mpack_scan(&scanner, bytes, size) != KILN_SCAN_COMPLETE || scanner.position != size) {
    return kiln_error(KILN_PROTOCOL_ERROR, "the bytes are not one MessagePack object");
  }
  msgpack_object *object = KILN_NEW(arena, msgpack_object);
  msgpack_zone *zone = zone_in_arena(arena);
  size_t offset = 0;
  msgpack_unpack_return result =
      zone ? msgpack_unpack(bytes, size, &offset, zone, object) : MSGPACK_UNPACK_NOMEM_ERROR;
  if (result == MSGPACK_UNPACK_NOMEM_ERROR)
    return kiln_error(KILN_OUT_OF_MEMORY, "out of memory while decoding");
  if (result != MSGPACK_UNPACK_SUCCESS) return kiln_error(KILN_PROTOCOL_ERROR, "malformed MessagePack");
  *out = object;
  return NULL;
}

kiln_mpack_kind_t kiln_mpack_kind(const kiln_mpack_t *value) {
  switch (value->type) {
  case MSGPACK_OBJECT_NIL:
    return KILN_MPACK_NIL;
  case MSGPACK_OBJECT_BOOLEAN:
    return KILN_MPACK_BOOL;
  case MSGPACK_OBJECT_POSITIVE_INTEGER:
  case MSGPACK_OBJECT_NEGATIVE_INTEGER:
    return KILN_MPACK_INT;
  case MSGPACK_OBJECT_FLOAT32:
  case MSGPACK_OBJECT_FLOAT64:
    return KILN_MPACK_DOUBLE;
  case MSGPACK_OBJECT_STR:
    return KILN_MPACK_STR;
  case MSGPACK_OBJECT_BIN:
    return KILN_MPACK_BIN;
  case MSGPACK_OBJECT_ARRAY:
    return KILN_MPACK_ARRAY;
  case MSGPACK_OBJECT_MAP:
    return KILN_MPACK_MAP;
  case MSGPACK_OBJECT_EXT:
    break;
  }
  return KILN_MPACK_EXT;
}

bool kiln_mpack_get_bool(const kiln_mpack_t *value, bool *out) {
  if (value->type != MSGPACK_OBJECT_BOOLEAN) return false;
  *out = value->via.boolean;
  return true;
}

bool kiln_mpack_get_int(const kiln_mpack_t *value, int64_t *out) {
  bool negative = value->type == MSGPACK_OBJECT_NEGATIVE_INTEGER;
  if (!negative && (value->type != MSGPACK_OBJECT_POSITIVE_INTEGER || value->via.u64 > INT64_MAX))
    return false;
  *out = value->via.i64;
  return true;
}

bool kiln_mpack_get_uint(const kiln_mpack_t *value, uint64_t *out) {
  if (value->type != MSGPACK_OBJECT_POSITIVE_INTEGER) return false;
  *out = value->via.u64;
  return true;
}

bool kiln_mpack_get_double(const kiln_mpack_t *value, double *out) {
  switch (value->type) {
  case MSGPACK_OBJECT_FLOAT32:
  case MSGPACK_OBJECT_FLOAT64:
    *out = value->via.f64;
    return true;
  case MSGPACK_OBJECT_POSITIVE_INTEGER:
    *out = (double)value->via.u64;
    return true;
  case MSGPACK_OBJECT_NEGATIVE_INTEGER:
    *out = (double)value->via.i64;
    return true;
  default:
    return false;
  }
}

bool kiln_mpack_get_str(const kiln_mpack_t *value, const char **out_text, size_t *out_length) {
  if (value->type != MSGPACK_OBJECT_STR) return false;
  *out_text = value->via.str.ptr;
  *out_length = value->via.str.size;
  return true;
}

bool kiln_mpack_get_bin(const kiln_mpack_t *value, const void **out_data, size_t *out_size) {
  if (value->type != MSGPACK_OBJECT_BIN) return false;
  *out_data = value->via.bin.ptr;
  *out_size = value->via.bin.size;
  return true;
}

bool kiln_mpack_is_str(const kiln_mpack_t *value, const char *text) {
  if (value->type != MSGPACK_OBJECT_STR || value->via.str.size != strlen(text)) return false;
  return !memcmp(value->via.str.ptr, text, value->via.str.size);
}

size_t kiln_mpack_count(const kiln_mpack_t *value) {
  if (value->type == MSGPACK_OBJECT_ARRAY) return value->via.array.size;
  return value->type == MSGPACK_OBJECT_MAP ? value->via.map.size : 0;
}

const kiln_mpack_t *kiln_mpack_item(const kiln_mpack_t *array, size_t index) {
  return &array->via.array.ptr[index];
}

const kiln_mpack_t *kiln_mpack_pair_key(const kiln_mpack_t *map, size_t index) {
  return &map->via.map.ptr[index].key;
}

const kiln_mpack_t *kiln_mpack_pair_value(const kiln_mpack_t *map, size_t index) {
  return &map->via.map.ptr[index].val;
}

const kiln_mpack_t *kiln_mpack_find(const kiln_mpack_t *map, const char *key) {
  if (map->type != MSGPACK_OBJECT_MAP) return NULL;
  for (size_t i = 0; i < map->via.map.size; i++) {
    if (kiln_mpack_is_str(&map->via.map.ptr[i].key, key)) return &map->via.map.ptr[i].val;
  }
  return NULL;
}
