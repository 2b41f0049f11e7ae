/* ir/mpack_path.c: paths into a message, and the getters that report them. */
#include "ir/mpack_path.h"

#include <stdarg.h>
#include <string.h>

enum { MAX_STEPS = 16 }; /* deeper than any message that is read here */

static void print_path(kiln_buffer_t *out, const kiln_path_t *at) {
  const kiln_path_t *steps[MAX_STEPS];
  int count = 0;
  for (; at && count < MAX_STEPS; at = at->outer) steps[count++] = at;
  while (count-- > 0) {
    const kiln_path_t *step = steps[count];
    if (step->key) {
      kiln_buffer_printf(out, "%s%s", out->size ? "." : "", step->key);
    } else {
      kiln_buffer_printf(out, "[%zu]", step->index);
    }
  }
}

kiln_status_t kiln_path_error(const kiln_path_t *at, const char *format, ...) {
  kiln_buffer_t path, message;
  kiln_buffer_init(&path);
  kiln_buffer_init(&message);
  print_path(&path, at);
  va_list arguments;
  va_start(arguments, format);
  kiln_buffer_vprintf(&message, format, arguments);
  va_end(arguments);
  kiln_status_t status =
      kiln_error(KILN_INVALID_ARGUMENT, "%s %s", kiln_buffer_text(&path), kiln_buffer_text(&message));
  kiln_error_detail(status, "field", "%s", kiln_buffer_text(&path));
  kiln_buffer_deinit(&path);
  kiln_buffer_deinit(&message);
  return status;
}

kiln_status_t kiln_path_int(const kiln_path_t *at, const kiln_mpack_t *value, int64_t least, int64_t most,
                            int64_t *out) {
  if (kiln_mpack_get_int(value, out) && *out >= least && *out <= most) return NULL;
  if (least == INT64_MIN && most == INT64_MAX) return kiln_path_error(at, "must be an integer");
  return kiln_path_error(at, "must be an integer from %lld to %lld", (long long)least, (long long)most);
}

kiln_status_t kiln_path_u32(const kiln_path_t *at, const kiln_mpack_t *value, uint32_t least, uint32_t most,
                            uint32_t *out) {
  int64_t wide = 0;
  KILN_TRY(kiln_path_int(at, value, least, most, &wide));
  *out = (uint32_t)wide;
  return NULL;
}

kiln_status_t kiln_path_bool(const kiln_path_t *at, const kiln_mpack_t *value, bool *out) {
  return kiln_mpack_get_bool(value, out) ? NULL : kiln_path_error(at, "must be true or false");
}

kiln_status_t kiln_path_str(const kiln_path_t *at, const kiln_mpack_t *value, kiln_arena_t *arena,
                            const char **out) {
  const char *text;
  size_t length;
  if (!kiln_mpack_get_str(value, &text, &length)) return kiln_path_error(at, "must be a string");
  if (memchr(text, 0, length)) return kiln_path_error(at, "must not hold NUL");
  *out = kiln_arena_strndup(arena, text, length);
  return NULL;
}

kiln_status_t kiln_path_array(const kiln_path_t *at, const kiln_mpack_t *value, uint32_t *out_count) {
  if (kiln_mpack_kind(value) != KILN_MPACK_ARRAY) return kiln_path_error(at, "must be an array");
  *out_count = (uint32_t)kiln_mpack_count(value);
  return NULL;
}

kiln_status_t kiln_path_array_of(const kiln_path_t *at, const kiln_mpack_t *value, uint32_t count) {
  bool fits = kiln_mpack_kind(value) == KILN_MPACK_ARRAY && kiln_mpack_count(value) == count;
  return fits ? NULL : kiln_path_error(at, "must be an array of %u", count);
}

static bool is_among(const kiln_mpack_t *key, const char *const *keys) {
  for (; *keys; keys++) {
    if (kiln_mpack_is_str(key, *keys)) return true;
  }
  return false;
}

static kiln_status_t refuse_key(const kiln_path_t *at, const kiln_mpack_t *key) {
  const char *text;
  size_t length;
  if (!kiln_mpack_get_str(key, &text, &length)) return kiln_path_error(at, "has a key that is no string");
  int shown = length < 64 ? (int)length : 64;
  return kiln_path_error(at, "has an unknown or repeated key '%.*s'", shown, text);
}

kiln_status_t kiln_path_map(const kiln_path_t *at, const kiln_mpack_t *value, const char *const *keys) {
  if (kiln_mpack_kind(value) != KILN_MPACK_MAP) return kiln_path_error(at, "must be a map");
  size_t allowed = 0, count = kiln_mpack_count(value), found = 0;
  while (keys[allowed]) allowed++;
  for (size_t i = 0; i < count && i <= allowed; i++) {
    const kiln_mpack_t *key = kiln_mpack_pair_key(value, i);
    if (!is_among(key, keys)) return refuse_key(at, key);
  }
  for (size_t i = 0; i < allowed; i++) found += kiln_mpack_find(value, keys[i]) != NULL;
  return found == count ? NULL : refuse_key(at, kiln_mpack_pair_key(value, count - 1));
}

kiln_status_t kiln_path_need(const kiln_path_t *at, const kiln_mpack_t *map, const char *key,
                             const kiln_mpack_t **out) {
  *out = kiln_mpack_find(map, key);
  return *out ? NULL : kiln_path_error(&(kiln_path_t){at, key, 0}, "is missing");
}
