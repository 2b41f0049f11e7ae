/* server/failures.h: compiles that failed, remembered so that they are not tried again at once. Loop thread.
 *
 * What the compiler refused stays refused for as long as there is room. A crash or time-out may be an
 * accident: it is remembered for 60 s, and twice as long each time it comes again.
 */
#ifndef KILN_SERVER_FAILURES_H
#define KILN_SERVER_FAILURES_H

#include "base/hash.h"
#include "base/map.h"
#include "base/status.h"

typedef struct {
  kiln_map_t *map; /* NULL when memory was short: nothing is remembered */
} failures_t;

void failures_init(failures_t *failures);
void failures_deinit(failures_t *failures);
/* Copies the status. Others than COMPILE_FAILED, COMPILE_TIMEOUT, UNSUPPORTED, INVALID_GRAPH and TOO_LARGE
 * are not remembered. */
void failures_add(failures_t *failures, const kiln_digest_t *key, kiln_status_t status, bool accident,
                  uint64_t now_ns);
/* A copy of what is remembered; NULL when the compile may be tried. */
kiln_status_t failures_find(const failures_t *failures, const kiln_digest_t *key, uint64_t now_ns);
size_t failures_count(const failures_t *failures);

#endif
