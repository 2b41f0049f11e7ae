/* base/log.c: one log line, built in a buffer and written with one write(2).
 *
 * Text: "2025-01-31T12:00:00.123Z server warning: message session=3". JSON: an object with the members time,
 * process, level, message and one string member per field. Messages quote what clients sent, so everything
 * that could end a line or a string is escaped, and bytes that are not UTF-8 appear as \xNN in text and as
 * U+FFFD in JSON.
 */
#include "base/log.h"

#include "base/buffer.h"
#include "base/clock.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const level_names[] = {"error", "warning", "info", "debug"};

/* --- escaping ------------------------------------------------------------------------------------------- */

/* Length in bytes of the well-formed UTF-8 sequence that text begins with, or 0 (Unicode 15, table 3-7). */
static size_t utf8_length(const unsigned char *text, size_t size) {
  unsigned char c = text[0];
  size_t length = c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;
  if (length > size) return 0;
  for (size_t i = 1; i < length; i++) {
    if ((text[i] & 0xc0) != 0x80) return 0;
  }
  if (length < 3) return length;
  unsigned char low = c == 0xe0   ? 0xa0
                      : c == 0xf0 ? 0x90
                                  : 0x80,
                high = c == 0xed   ? 0x9f
                       : c == 0xf4 ? 0x8f
                                   : 0xbf;
  return text[1] >= low && text[1] <= high ? length : 0;
}

/* Appends one character's worth of text and returns how many bytes it took. */
static size_t escape_one(kiln_buffer_t *line, const char *text, size_t size, bool json) {
  unsigned char c = (unsigned char)text[0];
  size_t length = utf8_length((const unsigned char *)text, size);
  if (!length) {
    json ? kiln_buffer_puts(line, "\xef\xbf\xbd") : kiln_buffer_printf(line, "\\x%02x", c);
    return 1;
  }
  if (c < 0x20 || c == 0x7f) {
    kiln_buffer_printf(line, json ? "\\u%04x" : "\\x%02x", c);
  } else {
    if (json && (c == '"' || c == '\\')) kiln_buffer_puts(line, "\\");
    kiln_buffer_append(line, text, length);
  }
  return length;
}

static void escape(kiln_buffer_t *line, const char *text, size_t size, bool json) {
  while (size) {
    size_t taken = escape_one(line, text, size, json);
    text += taken;
    size -= taken;
  }
}

/* --- lines ---------------------------------------------------------------------------------------------- */

static void put_time(kiln_buffer_t *line) {
  uint64_t wall_ms = kiln_clock_wall_ms();
  time_t seconds = (time_t)(wall_ms / 1000);
  struct tm utc;
  gmtime_r(&seconds, &utc);
  char text[32];
  strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
  kiln_buffer_printf(line, "%s.%03uZ", text, (unsigned)(wall_ms % 1000));
}

static void put_member(kiln_buffer_t *line, const char *key, size_t key_size, const char *value,
                       size_t value_size) {
  kiln_buffer_puts(line, ",\"");
  escape(line, key, key_size, true);
  kiln_buffer_puts(line, "\":\"");
  escape(line, value, value_size, true);
  kiln_buffer_puts(line, "\"");
}

/* "session=3 key=ab" as members of the JSON object. */
static void put_field_members(kiln_buffer_t *line, const char *fields) {
  for (const char *field = fields + strspn(fields, " "); *field;) {
    size_t size = strcspn(field, " "), key_size = strcspn(field, "= ");
    size_t value_at = key_size < size ? key_size + 1 : size;
    put_member(line, field, key_size, field + value_at, size - value_at);
    field += size;
    field += strspn(field, " ");
  }
}

static void put_json(kiln_buffer_t *line, const char *process, kiln_log_level_t level, const char *fields,
                     const kiln_buffer_t *message) {
  kiln_buffer_puts(line, "{\"time\":\"");
  put_time(line);
  kiln_buffer_puts(line, "\"");
  put_member(line, "process", 7, process, strlen(process));
  put_member(line, "level", 5, level_names[level], strlen(level_names[level]));
  put_member(line, "message", 7, kiln_buffer_text(message), message->size);
  put_field_members(line, fields);
  kiln_buffer_puts(line, "}\n");
}

static void put_text(kiln_buffer_t *line, const char *process, kiln_log_level_t level, const char *fields,
                     const kiln_buffer_t *message) {
  put_time(line);
  kiln_buffer_printf(line, " %s %s: ", process, level_names[level]);
  escape(line, kiln_buffer_text(message), message->size, false);
  if (*fields) kiln_buffer_puts(line, " ");
  escape(line, fields, strlen(fields), false);
  kiln_buffer_puts(line, "\n");
}

void kiln_log(const kiln_log_t *log, kiln_log_level_t level, const char *fields, const char *format, ...) {
  if (!log || level > log->level) return;
  int saved_errno = errno;
  kiln_buffer_t message, line;
  kiln_buffer_init(&message);
  kiln_buffer_init(&line);
  va_list arguments;
  va_start(arguments, format);
  kiln_buffer_vprintf(&message, format, arguments);
  va_end(arguments);
  const char *process = log->process ? log->process : "kiln";
  (log->json ? put_json : put_text)(&line, process, level, fields ? fields : "", &message);
  if (!line.failed) {
    while (write(log->descriptor, line.data, line.size) < 0 && errno == EINTR) {
    }
  }
  kiln_buffer_deinit(&line);
  kiln_buffer_deinit(&message);
  errno = saved_errno;
}
