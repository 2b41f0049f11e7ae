/* base/log.h: log lines on standard error, as text or as JSON, one write each.
 *
 * A kiln_log_t is passed around; NULL logs nothing. Fields are key=value pairs after the message: session,
 * request, key. Thread: any (one write(2) per line).
 */
#ifndef KILN_BASE_LOG_H
#define KILN_BASE_LOG_H

#include <stdbool.h>

typedef enum { KILN_LOG_ERROR, KILN_LOG_WARNING, KILN_LOG_INFO, KILN_LOG_DEBUG } kiln_log_level_t;

typedef struct {
  int descriptor;
  kiln_log_level_t level; /* the most talkative level that is written */
  bool json;
  const char *process; /* "server", "worker 2", "device 0" */
} kiln_log_t;

void kiln_log(const kiln_log_t *log, kiln_log_level_t level, const char *fields, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
