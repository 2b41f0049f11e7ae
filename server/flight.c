/* server/flight.c: what plan flights and kernel flights have in common, and the door through which requests
 * come.
 *
 * See server/flight.h; the two kinds are flight_plan.c and flight_kernel.c.
 */
#include "server/flight.h"

#include "base/clock.h"
#include "server/flight_parts.h"
#include "server/server.h"

#define LOCK_RETRY_NS 25000000ull
#define LOCK_PATIENCE_NS (120 * 1000000000ull) /* then it is compiled here as well */

const char *tier_name(tier_t tier) {
  static const char *const names[] = {"memory", "disk", "compiled"};
  return names[tier];
}

/* --- both kinds ---------------------------------------------------------------------------------------- */

bool flight_register(flight_t *flight, kiln_map_t *under_way) {
  uint64_t *place = kiln_map_put(under_way, &flight->storage_key, sizeof flight->storage_key, NULL);
  if (place) *place = (uintptr_t)flight->lookup.owner;
  return place && !flight->lookup.full_key.failed;
}

void flight_take_off(flight_t *flight, kiln_map_t *under_way) {
  const uint64_t *place = kiln_map_find(under_way, &flight->storage_key, sizeof flight->storage_key);
  if (place && *place == (uintptr_t)flight->lookup.owner)
    kiln_map_remove(under_way, &flight->storage_key, sizeof flight->storage_key);
}

void flight_deinit(flight_t *flight, kiln_map_t *under_way) {
  flight_take_off(flight, under_way);
  store_unlock(&flight->lock);
  kiln_buffer_deinit(&flight->lookup.full_key);
  kiln_buffer_deinit(&flight->lookup.body);
}

void flight_look_up(flight_t *flight) {
  flight->state = FLIGHT_LOOKUP;
  store_look_up(&flight->server->loop, &flight->lookup);
}

bool flight_must_compile(flight_t *flight) {
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

void flight_submit(flight_t *flight) {
  flight->state = FLIGHT_QUEUED;
  workers_submit(flight->server, &flight->job);
}

/* --- asking ----------------------------------------------------------------------------------------- */

static kiln_status_t join(request_t *request, const flight_target_t *target,
                          const kiln_symbol_class_t *symbol_class, const kiln_digest_t *key,
                          const char *miss) {
  server_t *server = request->server;
  kiln_digest_t stored = storage_key(key, target->image_kind);
  const uint64_t *place = kiln_map_find(server->flights.plans, &stored, sizeof stored);
  plan_flight_t *plan = place ? (plan_flight_t *)(uintptr_t)*place : NULL;
  if (plan) {
    server->counters[COUNTER_flights_joined]++;
  } else if (server->flights.count >= server->config->max_queued_compiles) {
    return kiln_error(KILN_OVERLOADED, "the daemon has %zu compiles under way", server->flights.count);
  } else {
    plan = plan_flight_start(request, target, symbol_class, key, miss);
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
  kiln_digest_t key =
      kiln_pipeline_plan_key_of_hash(&program->hash, program->symbol_count, target->target, &program->options,
                                     symbol_class, server->workers.identity);
  const char *miss = program->class_count ? "not compiled yet for these symbol values on this device"
                                          : "no plan with this key in memory or on disk";
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
  return join(request, target, symbol_class, &key, miss);
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
  plan_flight_destroy(plan);
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
  if (now_ns >= flight->retry_ns) flight_look_up(flight);
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
    plan_flight_destroy((plan_flight_t *)(uintptr_t)*kiln_map_value(entry));
  while ((entry = kiln_map_first(server->flights.kernels)))
    kernel_flight_destroy((kernel_flight_t *)(uintptr_t)*kiln_map_value(entry));
  kiln_map_destroy(server->flights.plans);
  kiln_map_destroy(server->flights.kernels);
  failures_deinit(&server->flights.failures);
}
