/* server/workers.c: the queue of compile jobs and the worker processes that take them.
 *
 *   ABSENT -> STARTING (asked of the supervisor) -> GREETING -> IDLE <-> BUSY -> ENDING (gone, or killed) ->
 * ABSENT
 *
 * Nothing is started before the first compile: an idle daemon has no worker. A slot is ABSENT again when both
 * its channel is closed and its process was reaped.
 */
#include "server/workers.h"

#include "base/clock.h"
#include "server/error_wire.h"
#include "server/server.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_ATTEMPTS = 2 };

const char *worker_state_name(worker_state_t state) {
  static const char *const names[] = {"absent", "starting", "greeting", "idle", "busy", "ending"};
  return names[state];
}

/* --- processes -------------------------------------------------------------------------------------- */

static void dispatch(server_t *server);

static void start_one(server_t *server) {
  for (uint32_t i = 0; i < server->workers.count; i++) {
    worker_slot_t *slot = &server->workers.slots[i];
    if (slot->state == WORKER_STARTING || slot->state == WORKER_GREETING)
      return; /* it will look for more when it is up */
    if (slot->state != WORKER_ABSENT) continue;
    slot->state = WORKER_STARTING;
    server->counters[COUNTER_worker_starts]++;
    server_spawn(ROLE_WORKER, i);
    return;
  }
}

static void become_absent(worker_slot_t *slot) {
  if (slot->open || !slot->exited) return;
  slot->state = WORKER_ABSENT;
  dispatch(slot->server);
}

static void end_slot(worker_slot_t *slot) {
  if (slot->state == WORKER_ENDING) return;
  slot->state = WORKER_ENDING;
  slot->deadline_ns = 0;
  channel_close(&slot->channel);
  server_kill(ROLE_WORKER, slot->index);
}

static void on_closed(channel_t *channel) {
  worker_slot_t *slot = channel->owner;
  slot->open = false;
  become_absent(slot);
}

void workers_exited(server_t *server, uint32_t index) {
  if (index >= server->workers.count) return;
  worker_slot_t *slot = &server->workers.slots[index];
  slot->exited = true;
  become_absent(slot); /* otherwise its channel's end comes first */
}

/* --- jobs that come back ---------------------------------------------------------------------------- */

static void queue_first(server_t *server, job_t *job) {
  TAILQ_INSERT_HEAD(&server->workers.queue, job, queued);
  server->workers.queue_length++;
}

/* The slot's jobs, in the caller's hands. */
static uint32_t take_jobs(worker_slot_t *slot, job_t *out[WORKER_MAX_JOBS]) {
  uint32_t count = slot->job_count;
  memcpy(out, slot->jobs, sizeof *out * count);
  for (uint32_t i = 0; i < count; i++) out[i]->running = false;
  slot->job_count = 0;
  slot->deadline_ns = 0;
  return count;
}

/* The worker is lost to its jobs: each is tried again, alone, or fails with the status that its last worker
 * earned. */
static void retry_or_fail(worker_slot_t *slot, kiln_code_t code, const char *message) {
  job_t *jobs[WORKER_MAX_JOBS];
  uint32_t count = take_jobs(slot, jobs);
  for (uint32_t i = 0; i < count; i++) {
    bool again = code == KILN_COMPILE_TIMEOUT ? count > 1 : ++jobs[i]->attempts < MAX_ATTEMPTS;
    if (again) {
      jobs[i]->attempts = jobs[i]->attempts ? jobs[i]->attempts : 1;
      queue_first(slot->server, jobs[i]);
    } else {
      jobs[i]->done(jobs[i], NULL, 0, 0, kiln_error(code, "%s", message), true);
    }
  }
}

/* What waits for a compiler fails when a worker finds none: no other would. */
static void refuse_all(server_t *server, kiln_status_t status) {
  requests_fail(&server->workers.want_identity, status);
  job_t *job;
  while ((job = TAILQ_FIRST(&server->workers.queue))) {
    workers_withdraw(server, job);
    job->done(job, NULL, 0, 0, error_copy(status), false);
  }
  kiln_status_free(status);
}

static void on_end(channel_t *channel) {
  worker_slot_t *slot = channel->owner;
  server_t *server = slot->server;
  bool greeting = slot->state == WORKER_GREETING;
  if (slot->job_count) server->counters[COUNTER_worker_deaths]++;
  end_slot(slot);
  retry_or_fail(slot, KILN_COMPILE_FAILED, "the compiler's process died on this graph, twice");
  if (greeting) {
    refuse_all(slot->server, kiln_error(KILN_UNAVAILABLE, "the compiler's process died while it started"));
  }
}

static void finish_plan(worker_slot_t *slot, const char *body, size_t size) {
  job_plan_done_t done;
  job_t *jobs[WORKER_MAX_JOBS];
  take_jobs(slot, jobs);
  if (size < sizeof done) {
    jobs[0]->done(jobs[0], NULL, 0, 0, kiln_error(KILN_INTERNAL, "a compile worker sent no plan"), true);
    return;
  }
  memcpy(&done, body, sizeof done);
  jobs[0]->done(jobs[0], body + sizeof done, size - sizeof done, done.plan_ns, NULL, false);
}

static void finish_kernel(job_t *job, const kiln_mpack_t *result) {
  const void *artifact = NULL;
  size_t size = 0;
  uint64_t duration_ns = 0;
  if (kiln_mpack_count(result) != 4 || !kiln_mpack_get_uint(kiln_mpack_item(result, 3), &duration_ns)) {
    job->done(job, NULL, 0, 0, kiln_error(KILN_INTERNAL, "a compile worker sent no kernel"), true);
  } else if (kiln_mpack_get_bin(kiln_mpack_item(result, 1), &artifact, &size)) {
    job->done(job, artifact, size, duration_ns, NULL, false);
  } else {
    job->done(job, NULL, 0, duration_ns, error_from(kiln_mpack_item(result, 2)), false);
  }
}

/* Results come in the order of the jobs. */
static void finish_kernels(worker_slot_t *slot, const char *body, size_t size) {
  job_t *jobs[WORKER_MAX_JOBS];
  uint32_t count = take_jobs(slot, jobs);
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  const kiln_mpack_t *list = NULL;
  kiln_status_free(kiln_mpack_decode(&arena, body, size, &list));
  bool whole = list && kiln_mpack_count(list) == count;
  for (uint32_t i = 0; i < count; i++) finish_kernel(jobs[i], whole ? kiln_mpack_item(list, i) : NULL);
  kiln_arena_deinit(&arena);
}

static void fail_jobs(worker_slot_t *slot, kiln_status_t status) {
  job_t *jobs[WORKER_MAX_JOBS];
  uint32_t count = take_jobs(slot, jobs);
  for (uint32_t i = 0; i < count; i++) jobs[i]->done(jobs[i], NULL, 0, 0, error_copy(status), false);
  kiln_status_free(status);
}

/* --- greetings -------------------------------------------------------------------------------------- */

static bool adopt_identity(worker_slot_t *slot, const char *identity, size_t size) {
  workers_t *workers = &slot->server->workers;
  if (!workers->identity || strlen(workers->identity) != size ||
      memcmp(workers->identity, identity, size) != 0) {
    char *copy = strndup(identity, size);
    if (!copy) return false;
    free(workers->identity);
    workers->identity = copy;
    workers->compiler++;
  }
  slot->compiler = workers->compiler;
  return true;
}

static void greeted(worker_slot_t *slot, const frame_t *frame, const char *body) {
  server_t *server = slot->server;
  kiln_status_t status = frame->flags & JOB_ERROR ? error_decode(body, frame->size) : NULL;
  if (!status && !adopt_identity(slot, body, frame->size))
    status =
        kiln_error_detail(kiln_error(KILN_OUT_OF_MEMORY, "no memory for a compile worker"), "where", "host");
  if (status) {
    kiln_log(&server->log, KILN_LOG_ERROR, NULL, "no compiler: %s", kiln_status_message(status));
    end_slot(slot);
    refuse_all(server, status);
    return;
  }
  slot->state = WORKER_IDLE;
  requests_resume(&server->workers.want_identity);
  dispatch(server);
}

static void on_frame(channel_t *channel, const frame_t *frame, const char *body) {
  worker_slot_t *slot = channel->owner;
  if (frame->kind == JOB_GREETING) {
    greeted(slot, frame, body);
    return;
  }
  if (slot->state != WORKER_BUSY || !slot->job_count) return;
  slot->state = WORKER_IDLE;
  slot->jobs_done++;
  if (frame->flags & JOB_ERROR) {
    fail_jobs(slot, error_decode(body, frame->size));
  } else if (frame->kind == JOB_PLAN) {
    finish_plan(slot, body, frame->size);
  } else {
    finish_kernels(slot, body, frame->size);
  }
  dispatch(slot->server);
}

static const channel_events_t events = {.frame = on_frame, .end = on_end, .closed = on_closed};

void workers_started(server_t *server, uint32_t index, int descriptor) {
  if (index >= server->workers.count) {
    if (descriptor >= 0) close(descriptor);
    return;
  }
  worker_slot_t *slot = &server->workers.slots[index];
  slot->exited = descriptor < 0;
  slot->open = descriptor >= 0 && channel_open(&slot->channel, &server->loop, descriptor, &events, slot);
  slot->deadline_ns = kiln_clock_monotonic_ns() + server->config->compile_timeout;
  if (slot->open) {
    slot->state = WORKER_GREETING;
    server_watch(server);
    return;
  }
  slot->state = WORKER_ABSENT;
  refuse_all(server, kiln_error(KILN_UNAVAILABLE, "no compile worker could be started"));
}

/* --- the queue -------------------------------------------------------------------------------------- */

void workers_submit(server_t *server, job_t *job) {
  TAILQ_INSERT_TAIL(&server->workers.queue, job, queued);
  server->workers.queue_length++;
  dispatch(server);
}

void workers_withdraw(server_t *server, job_t *job) {
  TAILQ_REMOVE(&server->workers.queue, job, queued);
  server->workers.queue_length--;
}

/* The job to run next, taken out of the queue; jobs that nobody wants are dropped on the way. NULL when there
 * is none. */
static job_t *pick(server_t *server) {
  job_t *best = NULL;
  int64_t best_priority = 0;
  uint64_t best_turn = 0;
  for (job_t *job = TAILQ_FIRST(&server->workers.queue), *next; job; job = next) {
    int64_t priority = 0;
    uint64_t turn = 0;
    next = TAILQ_NEXT(job, queued);
    if (!job->wanted(job, &priority, &turn)) {
      workers_withdraw(server, job);
      job->dropped(job);
    } else if (!best || priority > best_priority || (priority == best_priority && turn < best_turn)) {
      best = job;
      best_priority = priority;
      best_turn = turn;
    }
  }
  if (best) workers_withdraw(server, best);
  return best;
}

static uint32_t count_kernel_jobs(const server_t *server) {
  uint32_t count = 0;
  const job_t *job;
  TAILQ_FOREACH(job, &server->workers.queue, queued) count += job->kind == JOB_KERNELS;
  return count;
}

static bool may_share(const job_t *first, const job_t *job) {
  return job->kind == JOB_KERNELS && !job->attempts && job->compiler == first->compiler &&
         job->target.image_kind == first->target.image_kind &&
         !memcmp(&job->target.target, &first->target.target, sizeof first->target.target);
}

/* Kernels go out several at a time, but not more than the worker's share: the others are to have work too. */
static void add_kernels(worker_slot_t *slot) {
  server_t *server = slot->server;
  const job_t *first = slot->jobs[0];
  if (first->kind != JOB_KERNELS || first->attempts) return;
  uint32_t share = (count_kernel_jobs(server) + server->workers.count) / server->workers.count;
  for (job_t *job = TAILQ_FIRST(&server->workers.queue), *next; job; job = next) {
    next = TAILQ_NEXT(job, queued);
    if (slot->job_count >= share || slot->job_count == WORKER_MAX_JOBS) return;
    if (!may_share(first, job)) continue;
    workers_withdraw(server, job);
    slot->jobs[slot->job_count++] = job;
  }
}

static bool send_jobs(worker_slot_t *slot) {
  const job_t *first = slot->jobs[0];
  kiln_buffer_t body;
  kiln_buffer_init(&body);
  kiln_buffer_append(&body, &first->target, sizeof first->target);
  if (first->kind == JOB_KERNELS) kiln_mpack_array(&body, slot->job_count);
  for (uint32_t i = 0; i < slot->job_count; i++) slot->jobs[i]->encode(slot->jobs[i], &body);
  frame_t frame = {.kind = first->kind};
  bool sent = !body.failed && channel_send(&slot->channel, &frame,
                                           &(struct iovec){.iov_base = body.data, .iov_len = body.size}, 1);
  kiln_buffer_deinit(&body);
  return sent;
}

static void give(worker_slot_t *slot, job_t *job) {
  server_t *server = slot->server;
  slot->state = WORKER_BUSY;
  slot->jobs[0] = job;
  slot->job_count = 1;
  add_kernels(slot);
  for (uint32_t i = 0; i < slot->job_count; i++) {
    slot->jobs[i]->running = true;
    slot->jobs[i]->begun(slot->jobs[i]);
  }
  slot->deadline_ns = kiln_clock_monotonic_ns() + server->config->compile_timeout;
  server_watch(server);
  if (send_jobs(slot)) return;
  slot->state = WORKER_IDLE;
  fail_jobs(slot, kiln_error_detail(kiln_error(KILN_OUT_OF_MEMORY, "no memory for a compile job"), "where",
                                    "host"));
}

static worker_slot_t *find_idle(server_t *server) {
  for (uint32_t i = 0; i < server->workers.count; i++) {
    if (server->workers.slots[i].state == WORKER_IDLE) return &server->workers.slots[i];
  }
  return NULL;
}

static void dispatch(server_t *server) {
  worker_slot_t *slot;
  while (server->workers.queue_length && (slot = find_idle(server))) {
    job_t *job = pick(server);
    if (!job) return;
    if (job->compiler == slot->compiler) {
      give(slot, job);
    } else {
      job->done(job, NULL, 0, 0,
                kiln_error(KILN_UNAVAILABLE, "the compiler was replaced meanwhile; try again"), false);
    }
  }
  if (server->workers.queue_length || !TAILQ_EMPTY(&server->workers.want_identity)) start_one(server);
}

bool workers_want_identity(request_t *request) {
  server_t *server = request->server;
  if (server->workers.identity) return true;
  request_wait(request, &server->workers.want_identity);
  dispatch(server);
  return false;
}

/* --- time, beginning and end ------------------------------------------------------------------------ */

static void check_deadline(worker_slot_t *slot) {
  slot->server->counters[COUNTER_worker_kills]++;
  bool greeting = slot->state == WORKER_GREETING;
  kiln_log(&slot->server->log, KILN_LOG_WARNING, NULL, "worker %u is killed: its job took too long",
           slot->index);
  end_slot(slot);
  retry_or_fail(slot, KILN_COMPILE_TIMEOUT, "the compile took too long");
  if (greeting) {
    refuse_all(slot->server, kiln_error(KILN_UNAVAILABLE, "the compiler took too long to start"));
  }
}

bool workers_tick(server_t *server, uint64_t now_ns) {
  bool more = false;
  for (uint32_t i = 0; i < server->workers.count; i++) {
    worker_slot_t *slot = &server->workers.slots[i];
    if (slot->state != WORKER_BUSY && slot->state != WORKER_GREETING) continue;
    if (now_ns >= slot->deadline_ns) {
      check_deadline(slot);
    } else {
      more = true;
    }
  }
  return more;
}

kiln_status_t workers_init(server_t *server) {
  workers_t *workers = &server->workers;
  TAILQ_INIT(&workers->queue);
  TAILQ_INIT(&workers->want_identity);
  uint64_t count = server->config->workers;
  workers->count = (uint32_t)(count < MAX_WORKERS ? count : MAX_WORKERS);
  workers->slots = calloc(workers->count, sizeof *workers->slots);
  if (!workers->slots) return kiln_error(KILN_OUT_OF_MEMORY, "no memory for the workers");
  for (uint32_t i = 0; i < workers->count; i++) {
    workers->slots[i].server = server;
    workers->slots[i].index = i;
  }
  return NULL;
}

/* The processes end when their sockets close. What they were at is let go of in flights_deinit. */
void workers_deinit(server_t *server) {
  workers_t *workers = &server->workers;
  workers->queue_length = 0;
  TAILQ_INIT(&workers->queue);
  for (uint32_t i = 0; i < workers->count; i++) {
    worker_slot_t *slot = &workers->slots[i];
    slot->job_count = 0;
    if (slot->open) channel_close(&slot->channel);
    slot->state = WORKER_ENDING;
  }
  free(workers->identity);
  workers->identity = NULL;
}
