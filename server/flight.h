/* server/flight.h: compiles under way, each at most once whoever asks.
 *
 *   request -> [memory] -> plan flight: disk -> worker plans -> its kernels: [memory] -> kernel flight: disk
 * -> worker
 *           -> all kernels there: variant into memory, requests resumed, entries to disk
 *
 * A flight belongs to nobody: it runs at the highest priority of the requests that wait for it. With none
 * left a queued flight is dropped, a running one finishes and is stored. Each request has its own deadline,
 * the flight only the workers'. Thread: the loop's.
 */
#ifndef KILN_SERVER_FLIGHT_H
#define KILN_SERVER_FLIGHT_H

#include "server/failures.h"
#include "server/program.h"
#include "server/variant.h"

typedef struct request request_t;
typedef struct plan_flight plan_flight_t;
typedef struct kernel_flight kernel_flight_t;

typedef enum { TIER_MEMORY, TIER_DISK, TIER_COMPILED } tier_t;

const char *tier_name(tier_t tier);

/* What a request gets. It holds the variant. */
typedef struct {
  variant_t *variant;
  tier_t tier; /* the slowest that the plan or a kernel came from */
  uint32_t found, compiled;
  uint64_t plan_ns, compile_ns;
  const char *miss; /* why the plan was not in memory; "" when it was */
} plan_outcome_t;

typedef struct {
  kiln_map_t *plans, *kernels; /* under way, by storage key */
  failures_t failures;
  size_t count; /* of plans under way */
} flights_t;

/* What to compile for. */
typedef struct {
  const kiln_target_t *target;
  kiln_image_kind_t image_kind;
  uint32_t device; /* or FLIGHT_NO_DEVICE for a target by name */
} flight_target_t;

#define FLIGHT_NO_DEVICE UINT32_MAX

kiln_status_t flights_init(server_t *server);
void flights_deinit(server_t *server);
/* The variant of the request's program for this class: at once (*out), or the request waits and finds it in
 * outcomes[outcome_count - 1] when it is resumed (*out_waits). Fails at once on a remembered failure, or
 * OVERLOADED. */
kiln_status_t flights_want(request_t *request, const flight_target_t *target,
                           const kiln_symbol_class_t *symbol_class, plan_outcome_t *out, bool *out_waits);
/* A variant in memory whose guards hold for these symbols; NULL when there is none. Does not hold it. */
variant_t *flights_find(server_t *server, program_t *program, uint32_t device, kiln_image_kind_t image_kind,
                        const int64_t *symbols);
/* A request that waits for the flight has gone. */
void flights_left(server_t *server, plan_flight_t *flight);
/* Forgets a variant whose image a device refuses, in memory and on disk. */
void flights_forget(server_t *server, variant_t *variant, kiln_image_kind_t image_kind);
/* Asks again for locks that other processes held. True while there are any. */
bool flights_tick(server_t *server);

#endif
