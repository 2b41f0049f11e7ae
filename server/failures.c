/* server/failures.c: a bounded map from plan keys to failures; the oldest goes first. */
#include "server/failures.h"

#include "server/error_wire.h"

#include <stdlib.h>

enum { MAX_FAILURES = 1024 };
#define FIRST_PENALTY_NS 60000000000ull
#define MAX_PENALTY_NS (3600 * 1000000000ull)

typedef struct {
  kiln_status_t status;
  uint64_t until_ns;   /* 0: for good */
  uint64_t penalty_ns; /* of the last accident; kept past until_ns, so that the next one counts double */
} failure_t;

static failure_t *at(const uint64_t *place) { return place ? (failure_t *)(uintptr_t)*place : NULL; }

static void destroy(failure_t *failure) {
  if (failure) kiln_status_free(failure->status);
  free(failure);
}

void failures_init(failures_t *failures) { failures->map = kiln_map_create(NULL); }

static void drop_oldest(failures_t *failures) {
  kiln_map_entry_t *oldest = kiln_map_first(failures->map);
  size_t size;
  const void *key = kiln_map_key(oldest, &size);
  destroy(at(kiln_map_value(oldest)));
  kiln_map_remove(failures->map, key, size);
}

void failures_deinit(failures_t *failures) {
  while (failures_count(failures)) drop_oldest(failures);
  kiln_map_destroy(failures->map);
}

static bool is_kept(kiln_code_t code) {
  return code == KILN_COMPILE_FAILED || code == KILN_COMPILE_TIMEOUT || code == KILN_UNSUPPORTED ||
         code == KILN_INVALID_GRAPH || code == KILN_TOO_LARGE;
}

void failures_add(failures_t *failures, const kiln_digest_t *key, kiln_status_t status, bool accident,
                  uint64_t now_ns) {
  if (!failures->map || !is_kept(kiln_status_code(status))) return;
  failure_t *failure = calloc(1, sizeof *failure);
  uint64_t *place = failure ? kiln_map_put(failures->map, key, sizeof *key, NULL) : NULL;
  if (!place) {
    free(failure);
    return;
  }
  failure_t *before = at(place);
  uint64_t penalty_ns = before && before->penalty_ns ? before->penalty_ns * 2 : FIRST_PENALTY_NS;
  if (penalty_ns > MAX_PENALTY_NS) penalty_ns = MAX_PENALTY_NS;
  failure->status = error_copy(status);
  failure->penalty_ns = accident ? penalty_ns : 0;
  failure->until_ns = accident ? now_ns + penalty_ns : 0;
  destroy(before);
  *place = (uintptr_t)failure;
  if (kiln_map_count(failures->map) > MAX_FAILURES) drop_oldest(failures);
}

kiln_status_t failures_find(const failures_t *failures, const kiln_digest_t *key, uint64_t now_ns) {
  const failure_t *failure = failures->map ? at(kiln_map_find(failures->map, key, sizeof *key)) : NULL;
  bool holds = failure && (!failure->until_ns || now_ns < failure->until_ns);
  return holds ? error_copy(failure->status) : NULL;
}

size_t failures_count(const failures_t *failures) {
  return failures->map ? kiln_map_count(failures->map) : 0;
}
