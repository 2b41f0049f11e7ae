/* base/status.c: the status that every fallible function returns.
 *
 * A status owns its message, which notes extend, and a list of details in the order in which they were set.
 * When memory is short while a status is made, the caller gets a static OUT_OF_MEMORY status instead,
 * recognized by its address and never changed; when memory is short while one is extended, the extension is
 * lost and the status stays what it was.
 */
#include "base/status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct detail {
  struct detail *next;
  const char *key; /* a literal */
  char *value;
} detail_t;

struct kiln_status {
  kiln_code_t code;
  char *message;
  detail_t *details;
};

static const struct kiln_status memory_is_short = {KILN_OUT_OF_MEMORY, (char *)"out of memory", NULL};

static bool is_static(kiln_status_t status) { return status == &memory_is_short; }

/* --- making and extending ------------------------------------------------------------------------------- */

/* prefix followed by the formatted text; NULL when memory is short. */
__attribute__((format(printf, 2, 0))) static char *concatenate(const char *prefix, const char *format,
                                                               va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  size_t prefix_length = strlen(prefix);
  int length = vsnprintf(NULL, 0, format, again);
  va_end(again);
  if (length < 0) return NULL;
  char *text = malloc(prefix_length + (size_t)length + 1);
  if (!text) return NULL;
  memcpy(text, prefix, prefix_length);
  vsnprintf(text + prefix_length, (size_t)length + 1, format, arguments);
  return text;
}

/* Takes ownership of message, which is NULL when memory was short. */
static kiln_status_t make(kiln_code_t code, char *message) {
  kiln_status_t status = message ? malloc(sizeof *status) : NULL;
  if (!status) {
    free(message);
    return (kiln_status_t)&memory_is_short;
  }
  *status = (struct kiln_status){.code = code, .message = message};
  return status;
}

kiln_status_t kiln_error(kiln_code_t code, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  char *message = concatenate("", format, arguments);
  va_end(arguments);
  return make(code, message);
}

/* Appends to the message; what was there before stays when memory is short. */
__attribute__((format(printf, 3, 0))) static void extend(kiln_status_t status, const char *separator,
                                                         const char *format, va_list arguments) {
  if (is_static(status)) return;
  size_t old_length = strlen(status->message);
  char *added = concatenate(separator, format, arguments);
  char *message = added ? realloc(status->message, old_length + strlen(added) + 1) : NULL;
  if (message) {
    strcpy(message + old_length, added);
    status->message = message;
  }
  free(added);
}

__attribute__((format(printf, 2, 3))) static void append(kiln_status_t status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  extend(status, "", format, arguments);
  va_end(arguments);
}

kiln_status_t kiln_error_errno(kiln_code_t code, int error_number, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  kiln_status_t status = make(code, concatenate("", format, arguments));
  va_end(arguments);
  char reason[128];
  append(status, ": %s", strerror_r(error_number, reason, sizeof reason));
  return status;
}

kiln_status_t kiln_error_note(kiln_status_t status, const char *format, ...) {
  if (!status) return NULL;
  va_list arguments;
  va_start(arguments, format);
  extend(status, "; while ", format, arguments);
  va_end(arguments);
  return status;
}

/* The link to the detail of this key, or the one that ends the list. */
static detail_t **find_detail(kiln_status_t status, const char *key) {
  detail_t **link = &status->details;
  while (*link && strcmp((*link)->key, key)) link = &(*link)->next;
  return link;
}

/* Takes ownership of value. */
static void set_detail(kiln_status_t status, const char *key, char *value) {
  detail_t **link = find_detail(status, key);
  if (!*link) {
    *link = calloc(1, sizeof **link);
    if (!*link) {
      free(value);
      return;
    }
    (*link)->key = key;
  }
  free((*link)->value);
  (*link)->value = value;
}

kiln_status_t kiln_error_detail(kiln_status_t status, const char *key, const char *format, ...) {
  if (!status || is_static(status)) return status;
  va_list arguments;
  va_start(arguments, format);
  char *value = concatenate("", format, arguments);
  va_end(arguments);
  if (value) set_detail(status, key, value);
  return status;
}

void kiln_status_free(kiln_status_t status) {
  if (!status || is_static(status)) return;
  for (detail_t *detail = status->details, *next; detail; detail = next) {
    next = detail->next;
    free(detail->value);
    free(detail);
  }
  free(status->message);
  free(status);
}

/* --- reading -------------------------------------------------------------------------------------------- */

kiln_code_t kiln_status_code(kiln_status_t status) { return status ? status->code : KILN_OK; }

const char *kiln_status_message(kiln_status_t status) { return status ? status->message : ""; }

const char *kiln_status_detail(kiln_status_t status, const char *key) {
  if (!status) return NULL;
  const detail_t *detail = *find_detail(status, key);
  return detail ? detail->value : NULL;
}

size_t kiln_status_detail_count(kiln_status_t status) {
  size_t count = 0;
  for (const detail_t *detail = status ? status->details : NULL; detail; detail = detail->next) count++;
  return count;
}

void kiln_status_detail_at(kiln_status_t status, size_t index, const char **out_key, const char **out_value) {
  const detail_t *detail = status->details;
  while (index--) detail = detail->next;
  *out_key = detail->key;
  *out_value = detail->value;
}

/* --- codes ---------------------------------------------------------------------------------------------- */

static const struct {
  const char *name;
  bool retryable;
} codes[KILN_CODE_COUNT] = {
    [KILN_OK] = {"OK", false},
#define KILN_CODE(name, who, retry) [KILN_##name] = {#name, retry},
#include "base/codes.def"
#undef KILN_CODE
};

static bool is_code(kiln_code_t code) { return (unsigned)code < KILN_CODE_COUNT; }

const char *kiln_code_name(kiln_code_t code) { return is_code(code) ? codes[code].name : "UNKNOWN"; }

bool kiln_code_parse(const char *name, kiln_code_t *out_code) {
  for (unsigned code = 0; code < KILN_CODE_COUNT; code++) {
    if (strcmp(codes[code].name, name)) continue;
    *out_code = code;
    return true;
  }
  return false;
}

bool kiln_code_retryable(kiln_code_t code) { return is_code(code) && codes[code].retryable; }
