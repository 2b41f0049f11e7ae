/* server/worker.c: a compile worker: the only process that runs passes, code generation and NVRTC.
 *
 *   open NVRTC, greet with its identity -> [frame -> plan job or kernels job -> frame] -> the socket closes:
 * end
 *
 * A process of its own, so that a compile which hangs, crashes or eats memory costs one job: the server kills
 * it at the job's deadline and has another one started. Its memory is limited by RLIMIT_DATA. One thread.
 */
#include "server/worker.h"

#include "base/clock.h"
#include "base/fault.h"
#include "ir/wire.h"
#include "runtime/cache.h"
#include "server/control.h"
#include "server/error_wire.h"
#include "server/job.h"
#include "server/recipe.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

typedef struct {
  const config_t *config;
  kiln_log_t log;
  kiln_disk_cache_t *cache;  /* for the identity only */
  kiln_buffer_t identity;    /* of the compiler, from the cache or from itself */
  kiln_compiler_t *compiler; /* NULL until the first job when the identity was in the cache */
  kiln_faults_t faults;
  frame_reader_t reader;
} worker_t;

/* --- replies ---------------------------------------------------------------------------------------- */

static bool send_reply(job_kind_t kind, uint32_t flags, uint64_t id, const kiln_buffer_t *body) {
  frame_t frame = {.kind = kind, .flags = flags, .id = id, .size = body->size};
  struct iovec spans[] = {{&frame, sizeof frame}, {body->data, body->size}};
  return frame_write(CONTROL_DESCRIPTOR, spans, 2);
}

/* Sends the body, or the error instead; both end here. */
static bool reply(job_kind_t kind, uint64_t id, kiln_buffer_t *body, kiln_status_t status) {
  if (!status && body->failed) {
    status = kiln_error_detail(
        kiln_error(KILN_OUT_OF_MEMORY, "a compile worker has no memory for the result"), "where", "worker");
  }
  if (status) {
    kiln_buffer_clear(body);
    error_encode(body, status);
  }
  bool sent = send_reply(kind, status ? JOB_ERROR : 0, id, body);
  kiln_status_free(status);
  kiln_buffer_deinit(body);
  return sent;
}

/* --- the compiler -------------------------------------------------------------------------------------- */

/* Opens NVRTC, and keeps its identity where the next worker finds it without opening anything. */
static kiln_status_t open_compiler(worker_t *worker) {
  if (worker->compiler) return NULL;
  KILN_TRY(kiln_compiler_create(NULL, &worker->compiler));
  const char *identity = kiln_compiler_identity(worker->compiler);
  kiln_log(&worker->log, KILN_LOG_INFO, NULL, "compiler: %s", kiln_compiler_library(worker->compiler));
  if (worker->identity.size && !strcmp(worker->identity.data, identity)) return NULL;
  kiln_compiler_identity_keep(NULL, worker->cache, identity);
  if (worker->identity.size) /* what it greeted with is no longer so */
    return kiln_error(KILN_UNAVAILABLE, "the compiler was replaced meanwhile; try again");
  kiln_buffer_puts(&worker->identity, identity);
  return NULL;
}

/* --- jobs ------------------------------------------------------------------------------------------- */

typedef struct {
  worker_t *worker;
  kiln_arena_t *arena;
  const job_target_t *target;
  const char *body;
  size_t size;
  kiln_buffer_t *out;
} job_t;

static kiln_status_t run_plan(void *argument) {
  job_t *job = argument;
  const job_target_t *target = job->target;
  const kiln_mpack_t *body;
  const kiln_graph_t *graph;
  verdicts_t verdicts = {0};
  kiln_pipeline_t pipeline = {0};
  uint64_t start_ns = kiln_clock_monotonic_ns();
  KILN_TRY(kiln_mpack_decode(job->arena, job->body, job->size, &body));
  if (kiln_mpack_count(body) != 2 || !verdicts_decode(job->arena, kiln_mpack_item(body, 0), &verdicts))
    return kiln_error(KILN_INTERNAL, "a compile worker got a job that it cannot read");
  KILN_TRY(kiln_graph_decode(job->arena, kiln_mpack_item(body, 1), &graph));
  KILN_TRY(kiln_pipeline_generate(job->arena, graph, &target->target, &target->options, &target->symbol_class,
                                  NULL, &pipeline));
  KILN_TRY(verdicts_apply(job->arena, &verdicts, &target->target, &target->options, &target->symbol_class,
                          &pipeline));
  job_plan_done_t done = {.plan_ns = kiln_clock_monotonic_ns() - start_ns};
  kiln_buffer_append(job->out, &done, sizeof done);
  recipe_encode(job->arena, &pipeline, &verdicts, &target->target, kiln_buffer_text(&job->worker->identity),
                job->out);
  return NULL;
}

static void put_kernel_result(kiln_buffer_t *out, const kiln_mpack_t *key,
                              const kiln_kernel_artifact_t *artifact, kiln_status_t status,
                              uint64_t duration_ns) {
  const void *digest;
  size_t size;
  kiln_mpack_get_bin(key, &digest, &size);
  kiln_mpack_array(out, 4);
  kiln_mpack_bin(out, digest, size);
  if (status) {
    kiln_mpack_nil(out);
    error_encode(out, status);
  } else {
    kiln_buffer_t body;
    kiln_buffer_init(&body);
    kiln_kernel_artifact_encode(artifact, &body);
    kiln_mpack_bin(out, body.data, body.size);
    out->failed |= body.failed;
    kiln_buffer_deinit(&body);
    kiln_mpack_nil(out);
  }
  kiln_mpack_uint(out, duration_ns);
}

/* Faults that tests ask for: a compile that does not end, a result as of a kernel that is unfit. */
static void hang(worker_t *worker, size_t source_size) {
  int64_t argument;
  if (kiln_fault(&worker->faults, KILN_FAULT_kernel_hang, &argument) && (int64_t)source_size > argument)
    pause();
}

static void spoil(worker_t *worker, kiln_kernel_artifact_t *artifact, uint64_t *duration_ns) {
  int64_t argument;
  if (kiln_fault(&worker->faults, KILN_FAULT_kernel_spills, &argument))
    artifact->spill_store_bytes = artifact->spill_load_bytes = (int32_t)argument;
  if (kiln_fault(&worker->faults, KILN_FAULT_kernel_slow, &argument))
    *duration_ns += (uint64_t)argument * 1000000;
}

static kiln_status_t run_kernel(job_t *job, const kiln_mpack_t *kernel) {
  const char *entry, *source;
  const void *key;
  size_t entry_size, source_size, key_size;
  if (kiln_mpack_count(kernel) != 3 || !kiln_mpack_get_bin(kiln_mpack_item(kernel, 0), &key, &key_size) ||
      !kiln_mpack_get_str(kiln_mpack_item(kernel, 1), &entry, &entry_size) ||
      !kiln_mpack_get_str(kiln_mpack_item(kernel, 2), &source, &source_size))
    return kiln_error(KILN_INTERNAL, "a compile worker got a job that it cannot read");
  kiln_kernel_artifact_t artifact = {0};
  hang(job->worker, source_size);
  uint64_t start_ns = kiln_clock_monotonic_ns();
  kiln_status_t status = kiln_compiler_compile(job->worker->compiler, job->arena,
                                               kiln_arena_strndup(job->arena, source, source_size),
                                               kiln_arena_strndup(job->arena, entry, entry_size),
                                               &job->target->target, job->target->image_kind, &artifact);
  uint64_t duration_ns = kiln_clock_monotonic_ns() - start_ns;
  spoil(job->worker, &artifact, &duration_ns);
  put_kernel_result(job->out, kiln_mpack_item(kernel, 0), &artifact, status, duration_ns);
  kiln_status_free(status);
  return NULL;
}

static kiln_status_t run_kernels(void *argument) {
  job_t *job = argument;
  const kiln_mpack_t *list;
  KILN_TRY(open_compiler(job->worker));
  KILN_TRY(kiln_mpack_decode(job->arena, job->body, job->size, &list));
  kiln_mpack_array(job->out, kiln_mpack_count(list));
  for (size_t i = 0; i < kiln_mpack_count(list); i++) KILN_TRY(run_kernel(job, kiln_mpack_item(list, i)));
  return NULL;
}

/* --- faults that tests ask for ---------------------------------------------------------------------- */

static void obey_faults(worker_t *worker) {
  int64_t duration_ms;
  if (kiln_fault(&worker->faults, KILN_FAULT_worker_crash, NULL)) abort();
  if (kiln_fault(&worker->faults, KILN_FAULT_worker_hang, &duration_ms))
    nanosleep(&(struct timespec){.tv_sec = duration_ms / 1000, .tv_nsec = duration_ms % 1000 * 1000000},
              NULL);
  if (kiln_fault(&worker->faults, KILN_FAULT_worker_eat_memory, NULL)) {
    const size_t step = 16 << 20;
    for (char *block; (block = malloc(step));) memset(block, 1, step);
    abort();
  }
}

/* --- the process ------------------------------------------------------------------------------------ */

static bool serve(worker_t *worker, const frame_t *frame, const char *body) {
  if (frame->size < sizeof(job_target_t)) return false;
  job_target_t target;
  memcpy(&target, body, sizeof target);
  obey_faults(worker);
  kiln_arena_t arena;
  kiln_arena_init(&arena, worker->config->compile_memory / 2);
  kiln_buffer_t out;
  kiln_buffer_init(&out);
  job_t job = {.worker = worker,
               .arena = &arena,
               .target = &target,
               .body = body + sizeof target,
               .size = frame->size - sizeof target,
               .out = &out};
  kiln_status_t status = kiln_arena_guard(&arena, frame->kind == JOB_PLAN ? run_plan : run_kernels, &job);
  kiln_arena_deinit(&arena);
  return reply((job_kind_t)frame->kind, frame->id, &out, status);
}

static bool greet(worker_t *worker) {
  kiln_buffer_t body;
  kiln_buffer_init(&body);
  kiln_status_t status = NULL;
  if (!kiln_compiler_identity_find(NULL, worker->cache, &worker->identity)) status = open_compiler(worker);
  bool usable = !status;
  kiln_buffer_append(&body, worker->identity.data, worker->identity.size);
  return reply(JOB_GREETING, 0, &body, status) && usable;
}

/* A sanitizer's shadow memory would count as ours. */
static void limit_memory(const config_t *config) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  (void)config;
#elif defined(__has_feature)
#if !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer)
  setrlimit(RLIMIT_DATA, &(struct rlimit){config->compile_memory, config->compile_memory});
#else
  (void)config;
#endif
#else
  setrlimit(RLIMIT_DATA, &(struct rlimit){config->compile_memory, config->compile_memory});
#endif
  setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
}

int worker_run(const config_t *config) {
  worker_t worker = {
      .config = config, .log = config_log(config, "worker"), .reader = {.descriptor = CONTROL_DESCRIPTOR}};
  kiln_disk_cache_options_t cache = {.folder = *config->cache_dir ? config->cache_dir : NULL,
                                     .limit_bytes = config->cache_size};
  kiln_status_free(kiln_disk_cache_open(&cache, &worker.cache)); /* without one NVRTC is asked */
  if (config->test_hooks && !kiln_faults_parse(&worker.faults, getenv("KILN_FAULTS"))) return 2;
  limit_memory(config);
  frame_t frame;
  const char *body;
  if (greet(&worker)) {
    while (frame_read(&worker.reader, &frame, &body) && serve(&worker, &frame, body)) {
    }
  }
  kiln_compiler_destroy(worker.compiler);
  kiln_disk_cache_close(worker.cache);
  kiln_buffer_deinit(&worker.identity);
  kiln_buffer_deinit(&worker.reader.bytes);
  return 0;
}
