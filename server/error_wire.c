/* server/error_wire.c: statuses as bytes and back. */
#include "server/error_wire.h"

#include <string.h>

void error_encode(kiln_buffer_t *out, kiln_status_t status) {
  kiln_mpack_map(out, 4);
  kiln_mpack_str(out, "code");
  kiln_mpack_str(out, kiln_code_name(kiln_status_code(status)));
  kiln_mpack_str(out, "message");
  kiln_mpack_str(out, kiln_status_message(status));
  kiln_mpack_str(out, "detail");
  size_t count = kiln_status_detail_count(status);
  kiln_mpack_map(out, count);
  for (size_t i = 0; i < count; i++) {
    const char *key, *value;
    kiln_status_detail_at(status, i, &key, &value);
    kiln_mpack_str(out, key);
    kiln_mpack_str(out, value);
  }
  kiln_mpack_str(out, "retry");
  kiln_mpack_bool(out, kiln_code_retryable(kiln_status_code(status)));
}

/* The details that travel between processes: a key must be a literal. */
static const char *const detail_keys[] = {"field",  "node",  "op",     "rule", "line",
                                          "column", "where", "report", "log",  "reproducer"};

static kiln_status_t copy_detail(kiln_status_t status, const char *key, size_t key_size, const char *value,
                                 size_t size) {
  for (size_t i = 0; i < sizeof detail_keys / sizeof detail_keys[0]; i++) {
    if (strlen(detail_keys[i]) == key_size && !memcmp(detail_keys[i], key, key_size))
      return kiln_error_detail(status, detail_keys[i], "%.*s", (int)size, value);
  }
  return status;
}

kiln_status_t error_from(const kiln_mpack_t *value) {
  const kiln_mpack_t *code_field = kiln_mpack_find(value, "code"),
                     *message_field = kiln_mpack_find(value, "message");
  const kiln_mpack_t *detail = kiln_mpack_find(value, "detail");
  kiln_code_t code = KILN_OK;
  for (int known = 1; code_field && known < KILN_CODE_COUNT; known++) {
    if (kiln_mpack_is_str(code_field, kiln_code_name((kiln_code_t)known))) code = (kiln_code_t)known;
  }
  const char *message = "", *key, *text;
  size_t size = 0, key_size, text_size;
  if (code == KILN_OK || !message_field || !kiln_mpack_get_str(message_field, &message, &size))
    return kiln_error(KILN_INTERNAL, "a process of the daemon sent an error that cannot be read");
  kiln_status_t status = kiln_error(code, "%.*s", (int)size, message);
  for (size_t i = 0; detail && i < kiln_mpack_count(detail); i++) {
    if (kiln_mpack_get_str(kiln_mpack_pair_key(detail, i), &key, &key_size) &&
        kiln_mpack_get_str(kiln_mpack_pair_value(detail, i), &text, &text_size))
      status = copy_detail(status, key, key_size, text, text_size);
  }
  return status;
}

kiln_status_t error_decode(const void *bytes, size_t size) {
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  const kiln_mpack_t *value = NULL;
  kiln_status_t malformed = kiln_mpack_decode(&arena, bytes, size, &value);
  kiln_status_t status = malformed ? malformed : error_from(value);
  kiln_arena_deinit(&arena);
  return status;
}

kiln_status_t error_copy(kiln_status_t status) {
  if (!status) return NULL;
  kiln_status_t copy = kiln_error(kiln_status_code(status), "%s", kiln_status_message(status));
  for (size_t i = 0; i < kiln_status_detail_count(status); i++) {
    const char *key, *value;
    kiln_status_detail_at(status, i, &key, &value);
    copy = kiln_error_detail(copy, key, "%s", value);
  }
  return copy;
}
