/* base/status.h: the one way in which a function says that it failed.
 *
 * A kiln_status_t is NULL for success; otherwise it owns a code, what happened, details by name (the place,
 * the op, the field) and notes added on the way out, from the inside to the outside. The holder frees it or
 * returns it, exactly once. Foreign errors (CUresult, errno, NVRTC) are converted once, beside the call.
 * Thread: any; a status is not shared.
 */
#ifndef KILN_BASE_STATUS_H
#define KILN_BASE_STATUS_H

#include <stdbool.h>
#include <stddef.h>

typedef enum {
  KILN_OK = 0,
#define KILN_CODE(name, who, retry) KILN_##name,
#include "base/codes.def"
#undef KILN_CODE
  KILN_CODE_COUNT
} kiln_code_t;

typedef struct kiln_status *kiln_status_t;

/* A new status. Never returns NULL: when memory is short it returns a static OUT_OF_MEMORY status, which may
 * be freed. */
kiln_status_t kiln_error(kiln_code_t code, const char *format, ...)
    __attribute__((format(printf, 2, 3), returns_nonnull));

/* An error from errno: "cannot open 'x': No such file or directory". */
kiln_status_t kiln_error_errno(kiln_code_t code, int error_number, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Adds "; while <note>" outward and returns the same status; NULL stays NULL. */
kiln_status_t kiln_error_note(kiln_status_t status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Sets detail `key` (a literal such as "field", "node", "op", "rule", "line", "column", "where") and returns
 * the same status. */
kiln_status_t kiln_error_detail(kiln_status_t status, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

kiln_code_t kiln_status_code(kiln_status_t status); /* KILN_OK for NULL */
const char *
kiln_status_message(kiln_status_t status); /* one line, with the notes; "" for NULL; owned by the status */
const char *kiln_status_detail(kiln_status_t status, const char *key); /* NULL when absent */
size_t kiln_status_detail_count(kiln_status_t status);
void kiln_status_detail_at(kiln_status_t status, size_t index, const char **out_key, const char **out_value);
void kiln_status_free(kiln_status_t status); /* accepts NULL */

const char *kiln_code_name(kiln_code_t code); /* "INVALID_ARGUMENT", "OK"; never NULL */
bool kiln_code_parse(const char *name, kiln_code_t *out_code);
bool kiln_code_retryable(kiln_code_t code);

#define KILN_TRY(expression)                                                                                 \
  do {                                                                                                       \
    kiln_status_t try_status_ = (expression);                                                                \
    if (try_status_) return try_status_;                                                                     \
  } while (0)

#endif
