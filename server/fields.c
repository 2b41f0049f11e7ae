/* server/fields.c: checks the fields of a map, one by one. */
#include "server/fields.h"

#include <string.h>

kiln_status_t field_wrong(const fields_t *fields, const char *name, const char *expected) {
  return kiln_error_detail(
      kiln_error(KILN_INVALID_ARGUMENT, "field '%s%s': expected %s", fields->path, name, expected), "field",
      "%s%s", fields->path, name);
}

const kiln_mpack_t *field_find(const fields_t *fields, const char *name) {
  const kiln_mpack_t *value = fields->map ? kiln_mpack_find(fields->map, name) : NULL;
  return value && kiln_mpack_kind(value) != KILN_MPACK_NIL ? value : NULL;
}

kiln_status_t field_require(const fields_t *fields, const char *name, const kiln_mpack_t **out) {
  *out = field_find(fields, name);
  return *out ? NULL : field_wrong(fields, name, "a value (it is missing)");
}

static kiln_status_t out_of_range(const fields_t *fields, const char *name, int64_t least, int64_t most) {
  return field_wrong(
      fields, name,
      kiln_arena_printf(fields->arena, "an integer from %lld to %lld", (long long)least, (long long)most));
}

kiln_status_t field_int(const fields_t *fields, const char *name, int64_t least, int64_t most,
                        int64_t otherwise, int64_t *out) {
  const kiln_mpack_t *value = field_find(fields, name);
  *out = otherwise;
  if (!value) return NULL;
  if (!kiln_mpack_get_int(value, out) || *out < least || *out > most)
    return out_of_range(fields, name, least, most);
  return NULL;
}

kiln_status_t field_bool(const fields_t *fields, const char *name, bool otherwise, bool *out) {
  const kiln_mpack_t *value = field_find(fields, name);
  *out = otherwise;
  return !value || kiln_mpack_get_bool(value, out) ? NULL : field_wrong(fields, name, "true or false");
}

kiln_status_t field_text(const fields_t *fields, const char *name, const char *otherwise, const char **out) {
  const kiln_mpack_t *value = field_find(fields, name);
  const char *text;
  size_t size;
  *out = otherwise;
  if (!value) return NULL;
  if (!kiln_mpack_get_str(value, &text, &size) || memchr(text, 0, size))
    return field_wrong(fields, name, "a string");
  *out = kiln_arena_strndup(fields->arena, text, size);
  return NULL;
}

kiln_status_t field_ints(const fields_t *fields, const char *name, int64_t least, int64_t most,
                         size_t max_count, const int64_t **out, size_t *out_count) {
  const kiln_mpack_t *list = field_find(fields, name);
  *out = NULL;
  *out_count = 0;
  if (!list) return NULL;
  size_t count = kiln_mpack_count(list);
  if (kiln_mpack_kind(list) != KILN_MPACK_ARRAY || count > max_count)
    return field_wrong(fields, name,
                       kiln_arena_printf(fields->arena, "an array of at most %zu integers", max_count));
  int64_t *values = KILN_NEW_ARRAY(fields->arena, int64_t, count);
  for (size_t i = 0; i < count; i++) {
    if (!kiln_mpack_get_int(kiln_mpack_item(list, i), &values[i]) || values[i] < least || values[i] > most)
      return out_of_range(fields, kiln_arena_printf(fields->arena, "%s[%zu]", name, i), least, most);
  }
  *out = values;
  *out_count = count;
  return NULL;
}

static bool is_listed(const char *names, const char *name, size_t size) {
  for (const char *at = names; *at;) {
    size_t length = strcspn(at, " ");
    if (length == size && !memcmp(at, name, size)) return true;
    at += length;
    at += strspn(at, " ");
  }
  return false;
}

kiln_status_t fields_known(const fields_t *fields, const char *names) {
  size_t count = fields->map ? kiln_mpack_count(fields->map) : 0;
  for (size_t i = 0; i < count; i++) {
    const kiln_mpack_t *key = kiln_mpack_pair_key(fields->map, i);
    const char *name;
    size_t size;
    if (!kiln_mpack_get_str(key, &name, &size)) return field_wrong(fields, "", "keys that are strings");
    const char *printable = kiln_arena_strndup(fields->arena, name, size < 64 ? size : 64);
    if (!is_listed(names, name, size)) return field_wrong(fields, printable, "no such field");
    if (kiln_mpack_find(fields->map, printable) != kiln_mpack_pair_value(fields->map, i))
      return field_wrong(fields, printable, "one value (it is there twice)");
  }
  return NULL;
}
