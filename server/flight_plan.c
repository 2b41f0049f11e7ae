/* server/flight_plan.c: plan flights: a plan and its kernels on their way from disk or a worker to the
 * requests. */
#include "server/error_wire.h"
#include "server/flight_parts.h"
#include "server/server.h"

#include <stdlib.h>

#include "base/clock.h"

/* --- what its requests want ---------------------------------------------------------------------------- */

void plan_flight_note_wanted(const plan_flight_t *plan, bool *wanted, int64_t *priority, uint64_t *turn) {
  const request_t *request;
  TAILQ_FOREACH(request, &plan->waiters, waiting) {
    if (!*wanted || request->priority > *priority) *priority = request->priority;
    if (!*wanted || request->session->served < *turn) *turn = request->session->served;
    *wanted = true;
  }
}

void plan_flight_note_served(const plan_flight_t *plan) {
  const request_t *request = TAILQ_FIRST(&plan->waiters);
  if (request) request->session->served = ++plan->flight.server->turn;
}

/* --- ends ---------------------------------------------------------------------------------------------- */

static void lose_interest(plan_flight_t *plan) {
  for (uint32_t i = 0; plan->interests && i < plan->variant->recipe.kernel_count; i++) {
    interest_t *interest = &plan->interests[i];
    if (interest->kernel) TAILQ_REMOVE(&interest->kernel->waiters, interest, link);
    interest->kernel = NULL;
  }
}

void plan_flight_destroy(plan_flight_t *plan) {
  server_t *server = plan->flight.server;
  lose_interest(plan);
  flight_deinit(&plan->flight, server->flights.plans);
  server->flights.count--;
  free(plan->interests);
  variant_release(plan->variant);
  kiln_arena_deinit(&plan->arena);
  kiln_status_free(plan->stopped);
  program_release(plan->program);
  free(plan);
}

void plan_flight_fail(plan_flight_t *plan, kiln_status_t status, bool accident) {
  server_t *server = plan->flight.server;
  failures_add(&server->flights.failures, &plan->flight.storage_key, status, accident,
               kiln_clock_monotonic_ns());
  flight_take_off(&plan->flight, server->flights.plans);
  requests_fail(&plan->waiters, status);
  kiln_status_free(status);
  plan_flight_destroy(plan);
}

/* To disk, once its kernels are there: what is stored was judged. */
static void store(plan_flight_t *plan) {
  flight_t *flight = &plan->flight;
  const kiln_buffer_t *recipe = &plan->variant->bytes;
  store_write(&flight->server->loop, flight->server->disk, &flight->key, &flight->lookup.full_key,
              recipe->data, recipe->size, flight->lock);
  flight->lock = -1;
}

static void complete(plan_flight_t *plan) {
  server_t *server = plan->flight.server;
  const kiln_buffer_t *full_key = &plan->flight.lookup.full_key;
  kiln_status_t status =
      kiln_memory_cache_put(server->plans, &plan->flight.storage_key, full_key->data, full_key->size,
                            variant_retain(plan->variant), variant_bytes(plan->variant));
  if (status) variant_release(plan->variant);
  kiln_status_free(status);
  flight_take_off(&plan->flight, server->flights.plans);
  request_t *request;
  while ((request = TAILQ_FIRST(&plan->waiters))) {
    request_stop_waiting(request);
    request->flight = NULL;
    request->outcomes[request->outcome_count] = plan->outcome;
    request->outcomes[request->outcome_count++].variant = variant_retain(plan->variant);
    request_resume(request);
  }
  if (plan->fresh) store(plan);
  plan_flight_destroy(plan);
}

/* --- its kernels --------------------------------------------------------------------------------------- */

static void raise_tier(plan_flight_t *plan, tier_t tier) {
  if (tier > plan->outcome.tier) plan->outcome.tier = tier;
}

static void report_progress(plan_flight_t *plan) {
  uint32_t total = plan->variant->recipe.kernel_count;
  for (request_t *request = TAILQ_FIRST(&plan->waiters), *next; request; request = next) {
    next = TAILQ_NEXT(request, waiting);
    request_progress(request, "kernels", total - plan->missing, total);
  }
}

static void note_kernel(interest_t *interest, kernel_t *kernel) {
  plan_flight_t *plan = interest->plan;
  plan->variant->kernels[interest->index] = kernel_retain(kernel);
  plan->missing--;
}

/* Some kernel is unfit. The variant is forgotten; its kernels stay in the cache, or go on their way there. */
static void plan_again(plan_flight_t *plan) {
  const kiln_verdict_t *last = &plan->verdicts.items[plan->verdicts.count - 1].verdict;
  char key[65];
  kiln_digest_hex(&plan->flight.key, key);
  kiln_log(&plan->flight.server->log, KILN_LOG_INFO, NULL, "plan %.16s is planned once more: %s", key,
           last->why);
  lose_interest(plan);
  free(plan->interests);
  plan->interests = NULL;
  variant_release(plan->variant);
  plan->variant = NULL;
  plan->outcome.found = 0;
  flight_submit(&plan->flight);
}

static void all_kernels_there(plan_flight_t *plan) {
  plan_flight_judge(plan) ? plan_again(plan) : complete(plan);
}

void plan_flight_lost_kernel(interest_t *interest, kiln_status_t status, bool accident) {
  plan_flight_t *plan = interest->plan;
  uint32_t kernel = interest->index;
  if (kiln_status_code(status) != KILN_COMPILE_TIMEOUT || !plan_flight_condemn(plan, kernel)) {
    plan_flight_fail(plan, status, accident);
    return;
  }
  kiln_status_free(plan->stopped);
  plan->stopped = status;
  plan->stopped_kernel = plan->variant->recipe.kernels[kernel].key;
  plan_again(plan);
}

/* Is the kernel whose compile was stopped still in the plan? Then there is no other plan. */
static bool needs_stopped_kernel(const plan_flight_t *plan) {
  const recipe_t *recipe = &plan->variant->recipe;
  bool found = false;
  for (uint32_t i = 0; plan->stopped && i < recipe->kernel_count; i++)
    found |= kiln_digest_equal(&recipe->kernels[i].key, &plan->stopped_kernel);
  return found;
}

void plan_flight_got_kernel(interest_t *interest, kernel_t *kernel, tier_t tier, uint64_t duration_ns) {
  plan_flight_t *plan = interest->plan;
  note_kernel(interest, kernel);
  interest->compile_ns = duration_ns;
  raise_tier(plan, tier);
  tier == TIER_COMPILED ? plan->outcome.compiled++ : plan->outcome.found++;
  plan->outcome.compile_ns += duration_ns;
  report_progress(plan);
  if (!plan->missing) all_kernels_there(plan);
}

/* True when the kernel is there or on its way; false when memory is short. */
static bool want_kernel(plan_flight_t *plan, uint32_t index) {
  interest_t *interest = &plan->interests[index];
  *interest = (interest_t){.plan = plan, .index = index};
  kernel_t *there = kernel_flight_want(interest);
  if (there) {
    plan->outcome.found++;
    note_kernel(interest, there);
  }
  return there || interest->kernel;
}

/* The recipe is there: asks for the kernels. */
static void want_kernels(plan_flight_t *plan) {
  uint32_t count = plan->variant->recipe.kernel_count;
  if (needs_stopped_kernel(plan)) {
    kiln_status_t status = plan->stopped;
    plan->stopped = NULL;
    plan_flight_fail(plan, status, true);
    return;
  }
  plan->flight.state = FLIGHT_KERNELS;
  plan->interests = calloc(count ? count : 1, sizeof *plan->interests);
  plan->missing = count;
  bool enough = plan->interests != NULL;
  for (uint32_t i = 0; enough && i < count; i++) enough = want_kernel(plan, i);
  if (!enough) {
    plan_flight_fail(
        plan, kiln_error_detail(kiln_error(KILN_OUT_OF_MEMORY, "no memory to compile"), "where", "host"),
        false);
    return;
  }
  report_progress(plan);
  if (!plan->missing) all_kernels_there(plan);
}

/* --- the job ------------------------------------------------------------------------------------------- */

static plan_flight_t *plan_of(job_t *job) {
  return (plan_flight_t *)((char *)job - offsetof(plan_flight_t, flight.job));
}

static bool plan_wanted(job_t *job, int64_t *out_priority, uint64_t *out_turn) {
  bool wanted = false;
  plan_flight_note_wanted(plan_of(job), &wanted, out_priority, out_turn);
  return wanted;
}

static void encode_plan(job_t *job, kiln_buffer_t *out) {
  const plan_flight_t *plan = plan_of(job);
  kiln_mpack_array(out, 2);
  verdicts_encode(&plan->verdicts, out);
  kiln_buffer_append(out, plan->program->wire.data, plan->program->wire.size);
}

static void begin_plan(job_t *job) {
  plan_flight_t *plan = plan_of(job);
  plan->flight.state = FLIGHT_RUNNING;
  plan_flight_note_served(plan);
}

static void drop_plan(job_t *job) {
  plan_flight_fail(plan_of(job), kiln_error(KILN_CANCELLED, "nobody waits for this plan"), false);
}

static void plan_done(job_t *job, const void *bytes, size_t size, uint64_t duration_ns, kiln_status_t status,
                      bool accident) {
  plan_flight_t *plan = plan_of(job);
  flight_t *flight = &plan->flight;
  server_t *server = flight->server;
  kiln_buffer_t recipe;
  kiln_buffer_init(&recipe);
  if (!status) {
    kiln_buffer_append(&recipe, bytes, size);
    status = variant_create(server, &flight->key, &recipe, &plan->variant);
  }
  if (status) {
    plan_flight_fail(plan, status, accident);
    return;
  }
  server->counters[COUNTER_plans_compiled]++;
  plan->outcome.plan_ns += duration_ns;
  plan->fresh = true;
  raise_tier(plan, TIER_COMPILED);
  want_kernels(plan);
}

/* --- the beginning ------------------------------------------------------------------------------------- */

static void plan_looked_up(store_lookup_t *lookup) {
  plan_flight_t *plan = lookup->owner;
  server_t *server = plan->flight.server;
  bool compile = flight_must_compile(&plan->flight);
  if (lookup->answer == STORE_FOUND) {
    kiln_status_t status = variant_create(server, &plan->flight.key, &lookup->body, &plan->variant);
    compile = status != NULL; /* written by a daemon with another idea of a recipe: made again */
    kiln_status_free(status);
  }
  if (TAILQ_EMPTY(&plan->waiters)) {
    server->counters[COUNTER_flights_dropped]++;
    plan_flight_destroy(plan);
  } else if (compile) {
    flight_submit(&plan->flight);
  } else if (plan->variant) {
    server->counters[COUNTER_plan_hits_disk]++;
    plan->outcome.miss = "not in memory; found on disk";
    raise_tier(plan, TIER_DISK);
    want_kernels(plan);
  }
}

plan_flight_t *plan_flight_start(request_t *request, const flight_target_t *target,
                                 const kiln_symbol_class_t *symbol_class, const kiln_digest_t *key,
                                 const char *miss) {
  server_t *server = request->server;
  program_t *program = request->program;
  plan_flight_t *plan = calloc(1, sizeof *plan);
  if (!plan) return NULL;
  const kiln_buffer_t *full_key = program_full_key(program, key);
  plan->flight = (flight_t){.server = server, .key = *key, .lock = -1};
  plan->flight.storage_key = storage_key(key, target->image_kind);
  plan->flight.begun_ns = kiln_clock_monotonic_ns();
  plan->flight.lookup =
      (store_lookup_t){.disk = server->disk, .key = *key, .lock = -1, .done = plan_looked_up, .owner = plan};
  kiln_buffer_append(&plan->flight.lookup.full_key, full_key->data, full_key->size);
  plan->flight.job = (job_t){.kind = JOB_PLAN,
                             .target = {.target = *target->target,
                                        .options = program->options,
                                        .symbol_class = *symbol_class,
                                        .image_kind = target->image_kind},
                             .compiler = server->workers.compiler,
                             .wanted = plan_wanted,
                             .encode = encode_plan,
                             .begun = begin_plan,
                             .dropped = drop_plan,
                             .done = plan_done};
  TAILQ_INIT(&plan->waiters);
  kiln_arena_init(&plan->arena, 0);
  plan->program = program_retain(program);
  plan->outcome.miss = miss;
  server->flights.count++;
  if (!flight_register(&plan->flight, server->flights.plans)) {
    plan_flight_destroy(plan);
    return NULL;
  }
  flight_look_up(&plan->flight);
  return plan;
}
