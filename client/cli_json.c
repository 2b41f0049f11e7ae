/* client/cli_json.c: JSON objects of the commands, to and from text; see cli_json.h.
 *
 * Printing recurses into nested values, whose depth the wire bounds at 16.
 */
#include "client/cli_json.h"

#include "client/json.h"

static void release(void *value) { json_decref(value); }

kiln_status_t kiln_cli_keep_json(kiln_cli_t *cli, json_t *value) {
  if (!value) return kiln_error(KILN_OUT_OF_MEMORY, "no memory for a JSON value");
  kiln_arena_defer(cli->arena, release, value);
  return NULL;
}

kiln_status_t kiln_cli_reply_json(kiln_cli_t *cli, kiln_reply_t *reply, json_t **out) {
  const char *text = kiln_reply_json(reply);
  *out = text ? json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL) : NULL;
  return kiln_cli_keep_json(cli, *out);
}

kiln_status_t kiln_cli_mpack_json(kiln_cli_t *cli, const kiln_mpack_t *value, json_t **out) {
  kiln_buffer_t *text = kiln_buffer_in_arena(cli->arena);
  kiln_json_print(text, value);
  *out = text->failed ? NULL : json_loadb(text->data, text->size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
  return kiln_cli_keep_json(cli, *out);
}

static void free_reply(void *reply) { kiln_reply_free(reply); }

kiln_status_t kiln_cli_ask(kiln_cli_t *cli, kiln_client_t *client, const char *method, json_t **out) {
  kiln_reply_t *reply;
  KILN_TRY(kiln_call(client, method, NULL, 0, 0, &reply));
  kiln_arena_defer(cli->arena, free_reply, reply);
  return kiln_cli_reply_json(cli, reply, out);
}

void kiln_cli_print_json(const json_t *value) {
  json_dumpf(value, stdout, JSON_COMPACT | JSON_ENCODE_ANY);
  putchar('\n');
}

static bool is_nested(const json_t *value) {
  return (json_is_object(value) && json_object_size(value)) ||
         (json_is_array(value) && json_array_size(value));
}

static void print_scalar(const json_t *value) {
  if (json_is_string(value))
    puts(json_string_value(value));
  else if (is_nested(value) || json_is_object(value) || json_is_array(value))
    puts("none");
  else
    kiln_cli_print_json(value);
}

static void print_member(const char *name, const json_t *value, int indent) {
  printf("%*s%s:%s", indent, "", name, is_nested(value) ? "\n" : " ");
  if (is_nested(value))
    kiln_cli_print_lines(value, indent + 2);
  else
    print_scalar(value);
}

void kiln_cli_print_lines(const json_t *value, int indent) {
  const char *key;
  json_t *member;
  size_t index;
  json_object_foreach((json_t *)value, key, member) print_member(key, member, indent);
  json_array_foreach(value, index, member) {
    char name[24];
    snprintf(name, sizeof name, "%zu", index);
    print_member(name, member, indent);
  }
}

const char *kiln_cli_json_text(const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  return text ? text : "";
}

long long kiln_cli_json_integer(const json_t *object, const char *key) {
  return json_integer_value(json_object_get(object, key));
}
