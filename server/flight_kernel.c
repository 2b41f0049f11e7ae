/* server/flight_kernel.c: kernel flights: one kernel on its way from disk or a worker to all plans that want
 * it. */
#include "server/error_wire.h"
#include "server/flight_parts.h"
#include "server/server.h"

#include <stdlib.h>

#include "base/clock.h"

/* --- ends ---------------------------------------------------------------------------------------------- */

void kernel_flight_destroy(kernel_flight_t *kernel) {
  flight_deinit(&kernel->flight, kernel->flight.server->flights.kernels);
  kiln_buffer_deinit(&kernel->entry);
  kiln_buffer_deinit(&kernel->source);
  free(kernel);
}

static void fail(kernel_flight_t *kernel, kiln_status_t status, bool accident) {
  flight_take_off(&kernel->flight, kernel->flight.server->flights.kernels);
  for (interest_t *interest; (interest = TAILQ_FIRST(&kernel->waiters));)
    plan_flight_lost_kernel(interest, error_copy(status), accident); /* takes its interest out of the list */
  kiln_status_free(status);
  kernel_flight_destroy(kernel);
}

static void complete(kernel_flight_t *kernel, const void *artifact, size_t size, tier_t tier,
                     uint64_t duration_ns) {
  server_t *server = kernel->flight.server;
  const kiln_buffer_t *full_key = &kernel->flight.lookup.full_key;
  flight_take_off(&kernel->flight, server->flights.kernels);
  kernel_t *made = kernel_create(artifact, size);
  if (!made) {
    fail(kernel, kiln_error_detail(kiln_error(KILN_OUT_OF_MEMORY, "no memory for a kernel"), "where", "host"),
         false);
    return;
  }
  kiln_status_t status = kiln_memory_cache_put(server->kernels, &kernel->flight.storage_key, full_key->data,
                                               full_key->size, kernel_retain(made), size);
  if (status) kernel_release(made);
  kiln_status_free(status);
  for (interest_t *interest; (interest = TAILQ_FIRST(&kernel->waiters));) {
    TAILQ_REMOVE(&kernel->waiters, interest, link);
    interest->kernel = NULL;
    plan_flight_got_kernel(interest, made, tier, duration_ns);
  }
  kernel_release(made);
  kernel_flight_destroy(kernel);
}

/* --- the job ------------------------------------------------------------------------------------------- */

static kernel_flight_t *kernel_of(job_t *job) {
  return (kernel_flight_t *)((char *)job - offsetof(kernel_flight_t, flight.job));
}

static bool kernel_wanted(job_t *job, int64_t *out_priority, uint64_t *out_turn) {
  bool wanted = false;
  const interest_t *interest;
  TAILQ_FOREACH(interest, &kernel_of(job)->waiters, link)
  plan_flight_note_wanted(interest->plan, &wanted, out_priority, out_turn);
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
  if (interest) plan_flight_note_served(interest->plan);
}

static void drop_kernel(job_t *job) {
  fail(kernel_of(job), kiln_error(KILN_CANCELLED, "nobody waits for this kernel"), false);
}

static void kernel_done(job_t *job, const void *bytes, size_t size, uint64_t duration_ns,
                        kiln_status_t status, bool accident) {
  kernel_flight_t *kernel = kernel_of(job);
  flight_t *flight = &kernel->flight;
  if (status) {
    fail(kernel, status, accident);
    return;
  }
  flight->server->counters[COUNTER_kernels_compiled]++;
  store_write(&flight->server->loop, flight->server->disk, &flight->storage_key, &flight->lookup.full_key,
              bytes, size, flight->lock);
  flight->lock = -1;
  complete(kernel, bytes, size, TIER_COMPILED, duration_ns);
}

/* --- asking -------------------------------------------------------------------------------------------- */

static void kernel_looked_up(store_lookup_t *lookup) {
  kernel_flight_t *kernel = lookup->owner;
  bool compile = flight_must_compile(&kernel->flight);
  if (TAILQ_EMPTY(&kernel->waiters)) {
    kernel_flight_destroy(kernel);
  } else if (compile) {
    flight_submit(&kernel->flight);
  } else if (lookup->answer == STORE_FOUND) {
    kernel->flight.server->counters[COUNTER_kernel_hits_disk]++;
    complete(kernel, lookup->body.data, lookup->body.size, TIER_DISK, 0);
  }
}

static void kernel_full_key(const recipe_kernel_t *kernel, kiln_image_kind_t kind, kiln_buffer_t *out) {
  uint8_t kind_byte = (uint8_t)kind;
  kiln_buffer_append(out, &kernel->key, sizeof kernel->key);
  kiln_buffer_append(out, &kind_byte, 1);
  kiln_buffer_puts(out, kernel->source);
}

/* Takes the full key over when it succeeds; NULL when memory is short. */
static kernel_flight_t *start(plan_flight_t *plan, const recipe_kernel_t *recipe, const kiln_digest_t *key,
                              kiln_buffer_t *full_key) {
  server_t *server = plan->flight.server;
  kernel_flight_t *kernel = calloc(1, sizeof *kernel);
  if (!kernel) return NULL;
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
  kiln_buffer_init(full_key);
  TAILQ_INIT(&kernel->waiters);
  kiln_buffer_puts(&kernel->entry, recipe->entry);
  kiln_buffer_puts(&kernel->source, recipe->source);
  if (kernel->entry.failed || kernel->source.failed ||
      !flight_register(&kernel->flight, server->flights.kernels)) {
    kernel_flight_destroy(kernel);
    return NULL;
  }
  flight_look_up(&kernel->flight);
  return kernel;
}

kernel_t *kernel_flight_want(interest_t *interest) {
  plan_flight_t *plan = interest->plan;
  server_t *server = plan->flight.server;
  const recipe_kernel_t *recipe = &plan->variant->recipe.kernels[interest->index];
  kiln_image_kind_t kind = plan->flight.job.target.image_kind;
  kiln_digest_t key = storage_key(&recipe->key, kind);
  kiln_buffer_t full_key;
  kiln_buffer_init(&full_key);
  kernel_full_key(recipe, kind, &full_key);
  kernel_t *there = kiln_memory_cache_get(server->kernels, &key, full_key.data, full_key.size);
  const uint64_t *place = kiln_map_find(server->flights.kernels, &key, sizeof key);
  if (there) {
    server->counters[COUNTER_kernel_hits_memory]++;
  } else if (place) {
    interest->kernel = (kernel_flight_t *)(uintptr_t)*place;
  } else {
    interest->kernel = start(plan, recipe, &key, &full_key);
  }
  if (interest->kernel) TAILQ_INSERT_TAIL(&interest->kernel->waiters, interest, link);
  kiln_buffer_deinit(&full_key);
  return there;
}
