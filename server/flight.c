/* server/flight.c: plan flights and kernel flights, as server/flight.h says.
 *
 * A plan flight moves through LOOKUP -> (LOCKED -> LOOKUP)* -> QUEUED -> RUNNING -> KERNELS, a kernel flight
 * through the same without KERNELS. Look-ups and jobs always answer later, from the loop, so that no function
 * here is entered twice.
 */
#include "server/flight.h"

#include "base/clock.h"
#include "server/error_wire.h"
#include "server/server.h"

#include <stdlib.h>
#include <string.h>

#define LOCK_RETRY_NS 25000000ull
#define LOCK_PATIENCE_NS (120 * 1000000000ull) /* then it is compiled here as well */

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
} interest_t;

struct plan_flight {
  flight_t flight;
  program_t *program;
  request_list_t waiters;
  variant_t *variant;     /* from KERNELS on */
  interest_t *interests;  /* per kernel of the variant */
  uint32_t missing;       /* kernels not there yet */
  plan_outcome_t outcome; /* but for the variant */
};

struct kernel_flight {
  flight_t flight;
  kiln_buffer_t entry, source;
  TAILQ_HEAD(, interest) waiters;
};

const char *tier_name(tier_t tier) {
  static const char *const names[] = {"memory", "disk", "compiled"};
  return names[tier];
}

/* --- priorities ------------------------------------------------------------------------------------- */

static void note_wanted(const plan_flight_t *plan, bool *wanted, int64_t *priority, uint64_t *turn) {
  const request_t *request;
  TAILQ_FOREACH(request, &plan->waiters, waiting) {
    if (!*wanted || request->priority > *priority) *priority = request->priority;
    if (!*wanted || request->session->served < *turn) *turn = request->session->served;
    *wanted = true;
  }
}

static void note_served(const plan_flight_t *plan) {
  const request_t *request = TAILQ_FIRST(&plan->waiters);
  if (request) request->session->served = ++plan->flight.server->turn;
}

/* --- ends ------------------------------------------------------------------------------------------- */

/* Out of the map before the answers: a request that is answered may ask for the same again, and make another
 * flight. */
static void take_off(flight_t *flight, kiln_map_t *under_way) {
  const uint64_t *place = kiln_map_find(under_way, &flight->storage_key, sizeof flight->storage_key);
  if (place && *place == (uintptr_t)flight->lookup.owner)
    kiln_map_remove(under_way, &flight->storage_key, sizeof flight->storage_key);
}

static void flight_deinit(flight_t *flight, kiln_map_t *under_way) {
  take_off(flight, under_way);
  store_unlock(&flight->lock);
  kiln_buffer_deinit(&flight->lookup.full_key);
  kiln_buffer_deinit(&flight->lookup.body);
}

static void lose_interest(plan_flight_t *plan) {
  for (uint32_t i = 0; plan->interests && i < plan->variant->recipe.kernel_count; i++) {
    interest_t *interest = &plan->interests[i];
    if (interest->kernel) TAILQ_REMOVE(&interest->kernel->waiters, interest, link);
    interest->kernel = NULL;
  }
}

static void destroy_plan(plan_flight_t *plan) {
  server_t *server = plan->flight.server;
  lose_interest(plan);
  flight_deinit(&plan->flight, server->flights.plans);
  server->flights.count--;
  free(plan->interests);
  variant_release(plan->variant);
  program_release(plan->program);
  free(plan);
}

static void destroy_kernel(kernel_flight_t *kernel) {
  flight_deinit(&kernel->flight, kernel->flight.server->flights.kernels);
  kiln_buffer_deinit(&kernel->entry);
  kiln_buffer_deinit(&kernel->source);
  free(kernel);
}

static void fail_plan(plan_flight_t *plan, kiln_status_t status, bool accident) {
  server_t *server = plan->flight.server;
  failures_add(&server->flights.failures, &plan->flight.storage_key, status, accident,
               kiln_clock_monotonic_ns());
  take_off(&plan->flight, server->flights.plans);
  requests_fail(&plan->waiters, status);
  kiln_status_free(status);
  destroy_plan(plan);
}

static void complete_plan(plan_flight_t *plan) {
  server_t *server = plan->flight.server;
  const kiln_buffer_t *full_key = &plan->flight.lookup.full_key;
  kiln_status_t status =
      kiln_memory_cache_put(server->plans, &plan->flight.storage_key, full_key->data, full_key->size,
                            variant_retain(plan->variant), variant_bytes(plan->variant));
  if (status) variant_release(plan->variant);
  kiln_status_free(status);
  take_off(&plan->flight, server->flights.plans);
  request_t *request;
  while ((request = TAILQ_FIRST(&plan->waiters))) {
    request_stop_waiting(request);
    request->flight = NULL;
    request->outcomes[request->outcome_count] = plan->outcome;
    request->outcomes[request->outcome_count++].variant = variant_retain(plan->variant);
    request_resume(request);
  }
  destroy_plan(plan);
}

static void raise_tier(plan_flight_t *plan, tier_t tier) {
  if (tier > plan->outcome.tier) plan->outcome.tier = tier;
}

/* --- a kernel --------------------------------------------------------------------------------------- */

static void kernel_is_there(plan_flight_t *plan, interest_t *interest, kernel_t *artifact) {
  plan->variant->kernels[interest->index] = kernel_retain(artifact);
  interest->kernel = NULL;
  plan->missing--;
}

static void report_progress(plan_flight_t *plan) {
  uint32_t total = plan->variant->recipe.kernel_count;
  for (request_t *request = TAILQ_FIRST(&plan->waiters), *next; request; request = next) {
    next = TAILQ_NEXT(request, waiting);
    request_progress(request, "kernels", total - plan->missing, total);
  }
}

static void complete_kernel(kernel_flight_t *kernel, const void *artifact, size_t size, tier_t tier,
                            uint64_t duration_ns) {
  server_t *server = kernel->flight.server;
  const kiln_buffer_t *full_key = &kernel->flight.lookup.full_key;
  kernel_t *made = kernel_create(artifact, size);
  take_off(&kernel->flight, server->flights.kernels);
  kiln_status_t status =
      made ? kiln_memory_cache_put(server->kernels, &kernel->flight.storage_key, full_key->data,
                                   full_key->size, kernel_retain(made), size)
           : NULL;
  if (status) kernel_release(made);
  kiln_status_free(status);
  for (interest_t *interest; (interest = TAILQ_FIRST(&kernel->waiters));) {
    plan_flight_t *plan = interest->plan;
    TAILQ_REMOVE(&kernel->waiters, interest, link);
    interest->kernel = NULL;
    if (!made) {
      fail_plan(plan,
                kiln_error_detail(kiln_error(KILN_OUT_OF_MEMORY, "no memory for a kernel"), "where", "host"),
                false);
      continue;
    }
    kernel_is_there(plan, interest, made);
    raise_tier(plan, tier);
    tier == TIER_COMPILED ? plan->outcome.compiled++ : plan->outcome.found++;
    plan->outcome.compile_ns += duration_ns;
    report_progress(plan);
    if (!plan->missing) complete_plan(plan);
  }
  kernel_release(made);
  destroy_kernel(kernel);
}

static void fail_kernel(kernel_flight_t *kernel, kiln_status_t status, bool accident) {
  take_off(&kernel->flight, kernel->flight.server->flights.kernels);
  for (interest_t *interest; (interest = TAILQ_FIRST(&kernel->waiters));)
    fail_plan(interest->plan, error_copy(status), accident); /* takes its interest out of the list */
  kiln_status_free(status);
  destroy_kernel(kernel);
}

static kernel_flight_t *kernel_of(job_t *job) {
  return (kernel_flight_t *)((char *)job - offsetof(kernel_flight_t, flight.job));
}

static bool kernel_wanted(job_t *job, int64_t *out_priority, uint64_t *out_turn) {
  bool wanted = false;
  const interest_t *interest;
  TAILQ_FOREACH(interest, &kernel_of(job)->waiters, link)
  note_wanted(interest->plan, &wanted, out_priority, out_turn);
  return wanted;
}

static void encode_kernel(job_t *job, kiln_buffer_t *out) {
  const kernel_flight_t *kernel = kernel_of(job);
  kiln_mpack_array(out, 3);
  kiln_mpack_bin(out, &kernel->flight.key, sizeof kernel->flight.key);
  kiln_mpack_strn(out, kernel->entry.data, kernel->entry.size);
  kiln_mpack_strn(out, kernel->source.data, kernel->source.size);
}

static void begin_kernel(job_t *job) {
  kernel_flight_t *kernel = kernel_of(job);
  kernel->flight.state = FLIGHT_RUNNING;
  const interest_t *interest = TAILQ_FIRST(&kernel->waiters);
  if (interest) note_served(interest->plan);
}

static void drop_kernel(job_t *job) {
  fail_kernel(kernel_of(job), kiln_error(KILN_CANCELLED, "nobody waits for this kernel"), false);
}

static void kernel_done(job_t *job, const void *bytes, size_t size, uint64_t duration_ns,
                        kiln_status_t status, bool accident) {
  kernel_flight_t *kernel = kernel_of(job);
  flight_t *flight = &kernel->flight;
  if (status) {
    fail_kernel(kernel, status, accident);
    return;
  }
  flight->server->counters[COUNTER_kernels_compiled]++;
  store_write(&flight->server->loop, flight->server->disk, &flight->storage_key, &flight->lookup.full_key,
              bytes, size, flight->lock);
  flight->lock = -1;
  complete_kernel(kernel, bytes, size, TIER_COMPILED, duration_ns);
}

/* A look-up has answered: found, missed, or locked by another process. True when the flight must now compile.
 */
static bool must_compile(flight_t *flight) {
  store_lookup_t *lookup = &flight->lookup;
  flight->lock = lookup->answer == STORE_MISSED ? lookup->lock : -1;
  lookup->lock = -1;
  uint64_t now_ns = kiln_clock_monotonic_ns();
  if (lookup->answer == STORE_LOCKED && now_ns - flight->begun_ns < LOCK_PATIENCE_NS) {
    flight->state = FLIGHT_LOCKED;
    flight->retry_ns = now_ns + LOCK_RETRY_NS;
    server_watch(flight->server);
    return false;
  }
  return lookup->answer != STORE_FOUND;
}

static void submit(flight_t *flight) {
  flight->state = FLIGHT_QUEUED;
  workers_submit(flight->server, &flight->job);
}

static void kernel_looked_up(store_lookup_t *lookup) {
  kernel_flight_t *kernel = lookup->owner;
  bool compile = must_compile(&kernel->flight);
  if (TAILQ_EMPTY(&kernel->waiters)) {
    destroy_kernel(kernel);
  } else if (compile) {
    submit(&kernel->flight);
  } else if (lookup->answer == STORE_FOUND) {
    kernel->flight.server->counters[COUNTER_kernel_hits_disk]++;
    complete_kernel(kernel, lookup->body.data, lookup->body.size, TIER_DISK, 0);
  }
}

static void look_up(flight_t *flight) {
  flight->state = FLIGHT_LOOKUP;
  store_look_up(&flight->server->loop, &flight->lookup);
}

static bool register_flight(kiln_map_t *under_way, flight_t *flight, void *pointer) {
  uint64_t *place = kiln_map_put(under_way, &flight->storage_key, sizeof flight->storage_key, NULL);
  if (place) *place = (uintptr_t)pointer;
  return place && !flight->lookup.full_key.failed;
}

static void kernel_full_key(const recipe_kernel_t *kernel, kiln_image_kind_t kind, kiln_buffer_t *out) {
  uint8_t kind_byte = (uint8_t)kind;
  kiln_buffer_append(out, &kernel->key, sizeof kernel->key);
  kiln_buffer_append(out, &kind_byte, 1);
  kiln_buffer_puts(out, kernel->source);
}

/* Takes the full key over. NULL when memory is short. */
static kernel_flight_t *start_kernel(plan_flight_t *plan, const recipe_kernel_t *recipe,
                                     const kiln_digest_t *key, kiln_buffer_t *full_key) {
  server_t *server = plan->flight.server;
  kernel_flight_t *kernel = calloc(1, sizeof *kernel);
  if (!kernel) {
    kiln_buffer_deinit(full_key);
    return NULL;
  }
  kernel->flight = (flight_t){.server = server, .key = recipe->key, .storage_key = *key, .lock = -1};
  kernel->flight.begun_ns = kiln_clock_monotonic_ns();
  kernel->flight.lookup = (store_lookup_t){.disk = server->disk,
                                           .key = *key,
                                           .full_key = *full_key,
                                           .lock = -1,
                                           .done = kernel_looked_up,
                                           .owner = kernel};
  kernel->flight.job = (job_t){.kind = JOB_KERNELS,
                               .target = plan->flight.job.target,
                               .compiler = plan->flight.job.compiler,
                               .wanted = kernel_wanted,
                               .encode = encode_kernel,
                               .begun = begin_kernel,
                               .dropped = drop_kernel,
                               .done = kernel_done};
  TAILQ_INIT(&kernel->waiters);
  kiln_buffer_puts(&kernel->entry, recipe->entry);
  kiln_buffer_puts(&kernel->source, recipe->source);
  if (kernel->entry.failed || kernel->source.failed ||
      !register_flight(server->flights.kernels, &kernel->flight, kernel)) {
    destroy_kernel(kernel);
    return NULL;
  }
  look_up(&kernel->flight);
  return kernel;
}

/* Finds kernel `index` in memory, or takes an interest in its flight. */
static bool want_kernel(plan_flight_t *plan, uint32_t index) {
  server_t *server = plan->flight.server;
  const recipe_kernel_t *recipe = &plan->variant->recipe.kernels[index];
  kiln_image_kind_t kind = plan->flight.job.target.image_kind;
  kiln_digest_t key = storage_key(&recipe->key, kind);
  interest_t *interest = &plan->interests[index];
  kiln_buffer_t full_key;
  kiln_buffer_init(&full_key);
  kernel_full_key(recipe, kind, &full_key);
  *interest = (interest_t){.plan = plan, .index = index};
  kernel_t *there = kiln_memory_cache_get(server->kernels, &key, full_key.data, full_key.size);
  if (there) {
    kiln_buffer_deinit(&full_key);
    server->counters[COUNTER_kernel_hits_memory]++;
    plan->outcome.found++;
    kernel_is_there(plan, interest, there);
    return true;
  }
  const uint64_t *place = kiln_map_find(server->flights.kernels, &key, sizeof key);
  kernel_flight_t *kernel = place ? (kernel_flight_t *)(uintptr_t)*place : NULL;
  if (kernel) {
    kiln_buffer_deinit(&full_key);
  } else {
    kernel = start_kernel(plan, recipe, &key, &full_key);
  }
  interest->kernel = kernel;
  if (kernel) TAILQ_INSERT_TAIL(&kernel->waiters, interest, link);
  return kernel != NULL;
}

/* --- a plan ----------------------------------------------------------------------------------------- */

static plan_flight_t *plan_of(job_t *job) {
  return (plan_flight_t *)((char *)job - offsetof(plan_flight_t, flight.job));
}

/* The recipe is there: takes its bytes over and asks for the kernels. */
static void want_kernels(plan_flight_t *plan) {
  uint32_t count = plan->variant->recipe.kernel_count;
  plan->flight.state = FLIGHT_KERNELS;
  plan->interests = calloc(count ? count : 1, sizeof *plan->interests);
  plan->missing = count;
  bool enough = plan->interests != NULL;
  for (uint32_t i = 0; enough && i < count; i++) enough = want_kernel(plan, i);
  if (!enough) {
    fail_plan(plan,
              kiln_error_detail(kiln_error(KILN_OUT_OF_MEMORY, "no memory to compile"), "where", "host"),
              false);
    return;
  }
  report_progress(plan);
  if (!plan->missing) complete_plan(plan);
}

static bool plan_wanted(job_t *job, int64_t *out_priority, uint64_t *out_turn) {
  bool wanted = false;
  note_wanted(plan_of(job), &wanted, out_priority, out_turn);
  return wanted;
}

static void encode_plan(job_t *job, kiln_buffer_t *out) {
  const program_t *program = plan_of(job)->program;
  kiln_buffer_append(out, program->wire.data, program->wire.size);
}

static void begin_plan(job_t *job) {
  plan_flight_t *plan = plan_of(job);
  plan->flight.state = FLIGHT_RUNNING;
  note_served(plan);
}

static void drop_plan(job_t *job) {
  fail_plan(plan_of(job), kiln_error(KILN_CANCELLED, "nobody waits for this plan"), false);
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
    fail_plan(plan, status, accident);
    return;
  }
  server->counters[COUNTER_plans_compiled]++;
  plan->outcome.plan_ns = duration_ns;
  raise_tier(plan, TIER_COMPILED);
  store_write(&server->loop, server->disk, &flight->key, &flight->lookup.full_key, bytes, size, flight->lock);
  flight->lock = -1;
  want_kernels(plan);
}

static void plan_looked_up(store_lookup_t *lookup) {
  plan_flight_t *plan = lookup->owner;
  server_t *server = plan->flight.server;
  bool compile = must_compile(&plan->flight);
  if (lookup->answer == STORE_FOUND) {
    kiln_status_t status = variant_create(server, &plan->flight.key, &lookup->body, &plan->variant);
    compile = status != NULL; /* written by a daemon with another idea of a recipe: made again */
    kiln_status_free(status);
  }
  if (TAILQ_EMPTY(&plan->waiters)) {
    server->counters[COUNTER_flights_dropped]++;
    destroy_plan(plan);
  } else if (compile) {
    submit(&plan->flight);
  } else if (plan->variant) {
    server->counters[COUNTER_plan_hits_disk]++;
    plan->outcome.miss = "not in memory; found on disk";
    raise_tier(plan, TIER_DISK);
    want_kernels(plan);
  }
}

static plan_flight_t *start_plan(server_t *server, program_t *program, const flight_target_t *target,
                                 const kiln_symbol_class_t *symbol_class, const kiln_digest_t *key) {
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
  plan->program = program_retain(program);
  plan->outcome.miss = "no plan with this key in memory or on disk";
  server->flights.count++;
  if (!register_flight(server->flights.plans, &plan->flight, plan)) {
    destroy_plan(plan);
    return NULL;
  }
  look_up(&plan->flight);
  return plan;
}

/* --- asking ----------------------------------------------------------------------------------------- */

static kiln_status_t join(request_t *request, const flight_target_t *target,
                          const kiln_symbol_class_t *symbol_class, const kiln_digest_t *key) {
  server_t *server = request->server;
  kiln_digest_t stored = storage_key(key, target->image_kind);
  const uint64_t *place = kiln_map_find(server->flights.plans, &stored, sizeof stored);
  plan_flight_t *plan = place ? (plan_flight_t *)(uintptr_t)*place : NULL;
  if (plan) {
    server->counters[COUNTER_flights_joined]++;
  } else if (server->flights.count >= server->config->max_queued_compiles) {
    return kiln_error(KILN_OVERLOADED, "the daemon has %zu compiles under way", server->flights.count);
  } else {
    plan = start_plan(server, request->program, target, symbol_class, key);
    if (!plan)
      return kiln_error_detail(kiln_error(KILN_OUT_OF_MEMORY, "no memory to compile"), "where", "host");
  }
  request_wait(request, &plan->waiters);
  request->flight = plan;
  request_progress(request, "planning", 0, 0);
  return NULL;
}

/* Keys of another compiler are of no use any more. */
static void check_compiler(const server_t *server, program_t *program) {
  if (program->compiler != server->workers.compiler) program->class_count = program->class_next = 0;
  program->compiler = server->workers.compiler;
}

kiln_status_t flights_want(request_t *request, const flight_target_t *target,
                           const kiln_symbol_class_t *symbol_class, plan_outcome_t *out, bool *out_waits) {
  server_t *server = request->server;
  program_t *program = request->program;
  check_compiler(server, program);
  kiln_digest_t key = kiln_pipeline_plan_key(&request->arena, program->graph, target->target,
                                             &program->options, symbol_class, server->workers.identity);
  if (target->device != FLIGHT_NO_DEVICE) program_remember(program, target->device, symbol_class, &key);
  kiln_digest_t stored = storage_key(&key, target->image_kind);
  const kiln_buffer_t *full_key = program_full_key(program, &key);
  variant_t *variant = kiln_memory_cache_get(server->plans, &stored, full_key->data, full_key->size);
  if (variant) {
    server->counters[COUNTER_plan_hits_memory]++;
    *out = (plan_outcome_t){
        .variant = variant_retain(variant), .found = variant->recipe.kernel_count, .miss = ""};
    return NULL;
  }
  kiln_status_t failure = failures_find(&server->flights.failures, &stored, kiln_clock_monotonic_ns());
  if (failure) {
    server->counters[COUNTER_failures_remembered]++;
    return failure;
  }
  *out_waits = true;
  return join(request, target, symbol_class, &key);
}

variant_t *flights_find(server_t *server, program_t *program, uint32_t device, kiln_image_kind_t image_kind,
                        const int64_t *symbols) {
  check_compiler(server, program);
  for (size_t i = 0; i < program->class_count; i++) {
    if (program->classes[i].device != device) continue;
    kiln_digest_t stored = storage_key(&program->classes[i].key, image_kind);
    const kiln_buffer_t *full_key = program_full_key(program, &program->classes[i].key);
    variant_t *variant = kiln_memory_cache_get(server->plans, &stored, full_key->data, full_key->size);
    if (variant && kiln_plan_guards_hold(variant->recipe.plan, symbols)) return variant;
  }
  return NULL;
}

void flights_left(server_t *server, plan_flight_t *plan) {
  if (!TAILQ_EMPTY(&plan->waiters)) return;
  if (plan->flight.state == FLIGHT_QUEUED) {
    workers_withdraw(server, &plan->flight.job);
  } else if (plan->flight.state != FLIGHT_LOCKED) {
    return; /* a look-up or job that is running finishes */
  }
  server->counters[COUNTER_flights_dropped]++;
  destroy_plan(plan);
}

void flights_forget(server_t *server, variant_t *variant, kiln_image_kind_t image_kind) {
  kiln_digest_t stored = storage_key(&variant->key, image_kind);
  for (uint32_t i = 0; i < variant->recipe.kernel_count; i++) {
    kiln_digest_t key = storage_key(&variant->recipe.kernels[i].key, image_kind);
    kiln_memory_cache_evict(server->kernels, &key);
    store_remove(&server->loop, server->disk, &key);
  }
  kiln_memory_cache_evict(server->plans, &stored);
}

/* --- time ------------------------------------------------------------------------------------------- */

static bool retry(flight_t *flight, uint64_t now_ns) {
  if (flight->state != FLIGHT_LOCKED) return false;
  if (now_ns >= flight->retry_ns) look_up(flight);
  return true;
}

bool flights_tick(server_t *server) {
  uint64_t now_ns = kiln_clock_monotonic_ns();
  bool more = false;
  for (kiln_map_entry_t *entry = kiln_map_first(server->flights.plans); entry; entry = kiln_map_next(entry))
    more |= retry(&((plan_flight_t *)(uintptr_t)*kiln_map_value(entry))->flight, now_ns);
  for (kiln_map_entry_t *entry = kiln_map_first(server->flights.kernels); entry; entry = kiln_map_next(entry))
    more |= retry(&((kernel_flight_t *)(uintptr_t)*kiln_map_value(entry))->flight, now_ns);
  return more;
}

kiln_status_t flights_init(server_t *server) {
  server->flights.plans = kiln_map_create(NULL);
  server->flights.kernels = kiln_map_create(NULL);
  failures_init(&server->flights.failures);
  if (server->flights.plans && server->flights.kernels) return NULL;
  return kiln_error(KILN_OUT_OF_MEMORY, "no memory for the compiles under way");
}

/* When the loop has ended no look-up is under way and no job runs. */
void flights_deinit(server_t *server) {
  kiln_map_entry_t *entry;
  while ((entry = kiln_map_first(server->flights.plans)))
    destroy_plan((plan_flight_t *)(uintptr_t)*kiln_map_value(entry));
  while ((entry = kiln_map_first(server->flights.kernels)))
    destroy_kernel((kernel_flight_t *)(uintptr_t)*kiln_map_value(entry));
  kiln_map_destroy(server->flights.plans);
  kiln_map_destroy(server->flights.kernels);
  failures_deinit(&server->flights.failures);
}
