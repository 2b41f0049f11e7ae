/* client/json.c: a MessagePack value as JSON text; see json.h.
 *
 * Recursive, which the scanner's limit on depth bounds (client/connection.c).
 */
#include "client/json.h"

#include <inttypes.h>
#include <math.h>

static void print_string(kiln_buffer_t *out, const char *text, size_t length) {
  kiln_buffer_puts(out, "\"");
  for (size_t i = 0; i < length; i++) {
    unsigned char c = (unsigned char)text[i];
    if (c == '"' || c == '\\')
      kiln_buffer_printf(out, "\\%c", c);
    else if (c < 0x20)
      kiln_buffer_printf(out, "\\u%04x", c);
    else
      kiln_buffer_append(out, &text[i], 1);
  }
  kiln_buffer_puts(out, "\"");
}

static void print_binary(kiln_buffer_t *out, const uint8_t *data, size_t size) {
  kiln_buffer_puts(out, "\"");
  for (size_t i = 0; i < size; i++) kiln_buffer_printf(out, "%02x", data[i]);
  kiln_buffer_puts(out, "\"");
}

static void print_integer(kiln_buffer_t *out, const kiln_mpack_t *value) {
  int64_t negative;
  uint64_t positive;
  if (kiln_mpack_get_uint(value, &positive))
    kiln_buffer_printf(out, "%" PRIu64, positive);
  else if (kiln_mpack_get_int(value, &negative))
    kiln_buffer_printf(out, "%" PRId64, negative);
}

static void print_double(kiln_buffer_t *out, double value) {
  if (isfinite(value))
    kiln_buffer_printf(out, "%.17g", value);
  else
    kiln_buffer_puts(out, "null");
}

static void print_array(kiln_buffer_t *out, const kiln_mpack_t *array) {
  kiln_buffer_puts(out, "[");
  for (size_t i = 0; i < kiln_mpack_count(array); i++) {
    if (i) kiln_buffer_puts(out, ", ");
    kiln_json_print(out, kiln_mpack_item(array, i));
  }
  kiln_buffer_puts(out, "]");
}

static void print_map(kiln_buffer_t *out, const kiln_mpack_t *map) {
  kiln_buffer_puts(out, "{");
  for (size_t i = 0; i < kiln_mpack_count(map); i++) {
    const char *key = "";
    size_t length = 0;
    if (i) kiln_buffer_puts(out, ", ");
    kiln_mpack_get_str(kiln_mpack_pair_key(map, i), &key, &length);
    print_string(out, key, length);
    kiln_buffer_puts(out, ": ");
    kiln_json_print(out, kiln_mpack_pair_value(map, i));
  }
  kiln_buffer_puts(out, "}");
}

void kiln_json_print(kiln_buffer_t *out, const kiln_mpack_t *value) {
  bool flag = false;
  double real = 0;
  const char *text = "";
  const void *data = NULL;
  size_t size = 0;
  switch (kiln_mpack_kind(value)) {
  case KILN_MPACK_BOOL:
    kiln_mpack_get_bool(value, &flag);
    kiln_buffer_puts(out, flag ? "true" : "false");
    break;
  case KILN_MPACK_INT:
    print_integer(out, value);
    break;
  case KILN_MPACK_DOUBLE:
    kiln_mpack_get_double(value, &real);
    print_double(out, real);
    break;
  case KILN_MPACK_STR:
    kiln_mpack_get_str(value, &text, &size);
    print_string(out, text, size);
    break;
  case KILN_MPACK_BIN:
    kiln_mpack_get_bin(value, &data, &size);
    print_binary(out, data, size);
    break;
  case KILN_MPACK_ARRAY:
    print_array(out, value);
    break;
  case KILN_MPACK_MAP:
    print_map(out, value);
    break;
  default:
    kiln_buffer_puts(out, "null");
    break;
  }
}
