/* client/reply.c: a message from the daemon, decoded in place; see reply.h.
 *
 * The decoded tree lives in the reply's arena and points into the reply's bytes.
 */
#include "client/reply.h"
#include "client/json.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct kiln_reply {
  atomic_uint references;
  kiln_buffer_t message;
  kiln_arena_t arena;
  const kiln_mpack_t *root;
  kiln_buffer_t json;
};

/* A reply is [1, id, error, result]. */
enum { REPLY_KIND = 1, KIND = 0, ID, ERROR, RESULT, ITEM_COUNT };

/* -- life ----------------------------------------------------------------------------------------------- */

static kiln_status_t decode(void *argument) {
  kiln_reply_t *reply = argument;
  return kiln_mpack_decode(&reply->arena, reply->message.data, reply->message.size, &reply->root);
}

kiln_status_t kiln_reply_create(kiln_buffer_t *message, kiln_reply_t **out_reply) {
  kiln_reply_t *reply = calloc(1, sizeof *reply);
  if (!reply) {
    kiln_buffer_deinit(message);
    return kiln_error(KILN_OUT_OF_MEMORY, "no memory for a reply");
  }
  reply->references = 1;
  reply->message = *message;
  kiln_buffer_init(message);
  kiln_buffer_init(&reply->json);
  kiln_arena_init(&reply->arena, 0);
  kiln_status_t status = kiln_arena_guard(&reply->arena, decode, reply);
  if (status)
    kiln_reply_free(reply);
  else
    *out_reply = reply;
  return status;
}

void kiln_reply_retain(kiln_reply_t *reply) { reply->references++; }

void kiln_reply_free(kiln_reply_t *reply) {
  if (!reply || --reply->references) return;
  kiln_buffer_deinit(&reply->json);
  kiln_arena_deinit(&reply->arena);
  kiln_buffer_deinit(&reply->message);
  free(reply);
}

/* -- the message ---------------------------------------------------------------------------------------- */

bool kiln_reply_is_reply(const kiln_reply_t *reply, int64_t *out_id) {
  int64_t kind;
  if (kiln_mpack_kind(reply->root) != KILN_MPACK_ARRAY || kiln_mpack_count(reply->root) != ITEM_COUNT ||
      !kiln_mpack_get_int(kiln_mpack_item(reply->root, KIND), &kind) || kind != REPLY_KIND)
    return false;
  if (!kiln_mpack_get_int(kiln_mpack_item(reply->root, ID), out_id)) *out_id = -1;
  return true;
}

const kiln_mpack_t *kiln_reply_result(const kiln_reply_t *reply) {
  return kiln_mpack_item(reply->root, RESULT);
}

/* Only names that the library knows can be details of a status, which keeps no copies of names. */
static kiln_status_t copy_details(kiln_status_t status, const kiln_mpack_t *detail) {
  static const char *const names[] = {"field", "line", "column", "node",   "op",
                                      "rule",  "log",  "where",  "report", "reproducer"};
  for (size_t i = 0; detail && i < sizeof names / sizeof *names; i++) {
    const char *text;
    size_t length;
    const kiln_mpack_t *value = kiln_mpack_find(detail, names[i]);
    if (value && kiln_mpack_get_str(value, &text, &length))
      status = kiln_error_detail(status, names[i], "%.*s", (int)length, text);
  }
  return status;
}

/* A code of a newer daemon counts as INTERNAL, named in the message. */
static kiln_code_t parse_code(const char *text, size_t length) {
  char name[64] = "";
  kiln_code_t code = KILN_INTERNAL;
  if (length < sizeof name) memcpy(name, text, length);
  kiln_code_parse(name, &code);
  return code == KILN_OK ? KILN_INTERNAL : code;
}

kiln_status_t kiln_reply_error(const kiln_reply_t *reply) {
  const kiln_mpack_t *error = kiln_mpack_item(reply->root, ERROR);
  const kiln_mpack_t *code = kiln_mpack_find(error, "code"), *message = kiln_mpack_find(error, "message");
  const char *code_text = "", *text = "the daemon sent an error without a message";
  size_t code_length = 0, length = strlen(text);
  if (kiln_mpack_kind(error) == KILN_MPACK_NIL) return NULL;
  if (code) kiln_mpack_get_str(code, &code_text, &code_length);
  if (message) kiln_mpack_get_str(message, &text, &length);
  return copy_details(kiln_error(parse_code(code_text, code_length), "%.*s", (int)length, text),
                      kiln_mpack_find(error, "detail"));
}

/* -- fields --------------------------------------------------------------------------------------------- */

kiln_status_t kiln_reply_uint(const kiln_mpack_t *map, const char *key, uint64_t *out) {
  const kiln_mpack_t *value = kiln_mpack_find(map, key);
  if (value && kiln_mpack_get_uint(value, out)) return NULL;
  return kiln_error(KILN_INTERNAL, "the daemon's reply has no number '%s'", key);
}

typedef struct {
  kiln_arena_t *arena;
  const char *text;
  size_t length;
} copy_t;

static kiln_status_t copy_text(void *argument) {
  copy_t *copy = argument;
  copy->text = kiln_arena_strndup(copy->arena, copy->text, copy->length);
  return NULL;
}

kiln_status_t kiln_reply_text(kiln_reply_t *reply, const kiln_mpack_t *map, const char *key,
                              const char **out) {
  const kiln_mpack_t *value = kiln_mpack_find(map, key);
  copy_t copy = {.arena = &reply->arena};
  if (!value || !kiln_mpack_get_str(value, &copy.text, &copy.length))
    return kiln_error(KILN_INTERNAL, "the daemon's reply has no text '%s'", key);
  KILN_TRY(kiln_arena_guard(&reply->arena, copy_text, &copy));
  *out = copy.text;
  return NULL;
}

/* -- public --------------------------------------------------------------------------------------------- */

/* Where item `index` of the message starts: past its header and the items before. */
static size_t item_offset(const kiln_reply_t *reply, unsigned index) {
  static const kiln_mpack_limits_t no_limits = {UINT64_MAX, UINT64_MAX, 32};
  const char *bytes = reply->message.data;
  size_t offset = (uint8_t)bytes[0] == 0xdc ? 3 : (uint8_t)bytes[0] == 0xdd ? 5 : 1; /* array 16, 32, fix */
  while (index--) {
    kiln_mpack_scanner_t scanner;
    kiln_mpack_scan_init(&scanner, &no_limits);
    kiln_mpack_scan(&scanner, bytes + offset, reply->message.size - offset);
    offset += scanner.position;
  }
  return offset;
}

const void *kiln_reply_bytes(const kiln_reply_t *reply, size_t *out_size) {
  size_t offset = item_offset(reply, RESULT);
  *out_size = reply->message.size - offset;
  return reply->message.data + offset;
}

const char *kiln_reply_json(kiln_reply_t *reply) {
  if (!reply->json.size) kiln_json_print(&reply->json, kiln_reply_result(reply));
  return reply->json.failed ? NULL : kiln_buffer_text(&reply->json);
}
