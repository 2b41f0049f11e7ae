/* server/flight_parts.h: what the files of a flight share: flight.c, flight_plan.c, flight_verdict.c,
 * flight_kernel.c. Not for others.
 *
 * A plan flight moves through LOOKUP -> (LOCKED -> LOOKUP)* -> QUEUED -> RUNNING -> KERNELS, and back to
 * QUEUED when a kernel is unfit (server/verdict.h), a kernel flight through the same without KERNELS.
 * Look-ups and jobs always answer later, from the loop, so that nothing here is entered twice.
 */
#ifndef KILN_SERVER_FLIGHT_PARTS_H
#define KILN_SERVER_FLIGHT_PARTS_H

#include "server/flight.h"
#include "server/store.h"
#include "server/workers.h"

typedef enum { FLIGHT_LOOKUP, FLIGHT_LOCKED, FLIGHT_QUEUED, FLIGHT_RUNNING, FLIGHT_KERNELS } flight_state_t;

/* What both kinds are made of. */
typedef struct {
  server_t *server;
  flight_state_t state;
  kiln_digest_t key, storage_key;
  store_lookup_t lookup;
  job_t job;
  int lock;
  uint64_t begun_ns, retry_ns;
} flight_t;

/* A plan flight's interest in a kernel flight. */
typedef struct interest {
  TAILQ_ENTRY(interest) link;
  plan_flight_t *plan;
  kernel_flight_t *kernel; /* NULL once it is there */
  uint32_t index;          /* of the variant's kernels */
  uint64_t compile_ns;     /* that the kernel took; 0: it was found */
} interest_t;

struct plan_flight {
  flight_t flight;
  program_t *program;
  request_list_t waiters;
  variant_t *variant;    /* from KERNELS on */
  interest_t *interests; /* per kernel of the variant */
  uint32_t missing;      /* kernels not there yet */
  kiln_arena_t arena;    /* of the verdicts */
  verdicts_t verdicts;   /* that its job applies */
  bool fresh;            /* the variant was made by a worker, and is not on disk */
  kiln_status_t stopped; /* the compile of this kernel was: a plan that still has it fails with this */
  kiln_digest_t stopped_kernel;
  plan_outcome_t outcome; /* but for the variant */
};

struct kernel_flight {
  flight_t flight;
  kiln_buffer_t entry, source;
  TAILQ_HEAD(, interest) waiters;
};

/* -- both kinds (flight.c): under_way is the map that the flight is in ----------------------------------- */
/* False when memory is short. lookup.owner is what the map refers to. */
bool flight_register(flight_t *flight, kiln_map_t *under_way);
/* Out of the map before the answers: a request that is answered may ask for the same, and make another
 * flight. */
void flight_take_off(flight_t *flight, kiln_map_t *under_way);
void flight_deinit(flight_t *flight, kiln_map_t *under_way);
void flight_look_up(flight_t *flight);
/* A look-up has answered: found, missed, or locked by another process. True when the flight must now compile.
 */
bool flight_must_compile(flight_t *flight);
void flight_submit(flight_t *flight);

/* -- plans (flight_plan.c) ------------------------------------------------------------------------------- */
/* miss: why the plan is not in memory. NULL when memory is short. */
plan_flight_t *plan_flight_start(request_t *request, const flight_target_t *target,
                                 const kiln_symbol_class_t *symbol_class, const kiln_digest_t *key,
                                 const char *miss);
void plan_flight_destroy(plan_flight_t *plan);
/* Takes the status. */
void plan_flight_fail(plan_flight_t *plan, kiln_status_t status, bool accident);
/* The kernel that the interest is in is there: held by the variant from now on. Completes the flight when it
 * was the last. */
void plan_flight_got_kernel(interest_t *interest, kernel_t *kernel, tier_t tier, uint64_t duration_ns);
/* Raises what its requests want: see job_t.wanted. */
void plan_flight_note_wanted(const plan_flight_t *plan, bool *wanted, int64_t *priority, uint64_t *turn);
void plan_flight_note_served(const plan_flight_t *plan);

/* The kernel that the interest is in cannot be had; takes the status. A kernel whose compile was stopped is
 * unfit, and the flight goes on with another plan if there is one. */
void plan_flight_lost_kernel(interest_t *interest, kiln_status_t status, bool accident);
/* All kernels are there: true when some are unfit; plan->verdicts is then what the next plan is made with
 * (flight_verdict.c). */
bool plan_flight_judge(plan_flight_t *plan);
/* The same for the one kernel whose compile was stopped. */
bool plan_flight_condemn(plan_flight_t *plan, uint32_t kernel);

/* -- kernels (flight_kernel.c) --------------------------------------------------------------------------- */
/* Finds the kernel of the interest in memory (returned, not held), or joins or starts its flight (NULL;
 * interest->kernel is NULL too when memory is short). */
kernel_t *kernel_flight_want(interest_t *interest);
void kernel_flight_destroy(kernel_flight_t *kernel);

#endif
