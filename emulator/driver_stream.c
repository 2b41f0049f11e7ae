/* emulator/driver_stream.c: the queues of a context: operations, the order they keep, and who runs them.
 *
 * An operation may run when it is the first of its stream, the default stream and the blocking ones allow it
 * (CUDA's legacy default stream: each waits for what the other submitted before), and the event it waits for
 * has happened. It is run by whoever waits: a thread in a synchronizing call runs what is due itself. If
 * nobody waits, the context's engine thread does it. The engine sleeps while nothing happens, and when woken
 * first naps: a caller that launches and at once synchronizes does the work on its own thread, without a
 * switch. See driver.h.
 */
#include "emulator/driver.h"

#include "base/clock.h"
#include "emulator/estimate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ENGINE_NAP_NS 1000000 /* waking more often than that would disturb who does the work itself */
#define ENGINE_NAPS 2         /* without work before it sleeps */

/* --- order --- */

static bool has_earlier(const struct CUstream_st *stream, uint64_t sequence) {
  return stream->first && stream->first->sequence < sequence;
}

static bool is_due(CUcontext context, CUstream stream) {
  const emu_op_t *op = stream->first;
  if (!op || stream->busy) return false;
  if (op->kind == EMU_OP_WAIT && op->event->reached < op->generation) return false;
  if (stream != &context->default_stream)
    return !stream->blocking || !has_earlier(&context->default_stream, op->sequence);
  for (CUstream s = context->streams; s; s = s->next)
    if (s->blocking && has_earlier(s, op->sequence)) return false;
  return true;
}

static CUstream find_due(CUcontext context) {
  if (is_due(context, &context->default_stream)) return &context->default_stream;
  for (CUstream s = context->streams; s; s = s->next)
    if (is_due(context, s)) return s;
  return NULL;
}

/* --- running --- */

static void fill(const emu_op_t *op) {
  if (op->value_bytes == 1) {
    memset(op->destination, (int)op->value, op->bytes);
    return;
  }
  uint32_t *words = op->destination;
  for (size_t n = 0; n < op->bytes / 4; n++) words[n] = op->value;
}

static void mark_written(CUcontext context, const emu_op_t *op) {
  emu_range_t range;
  uint64_t address = (uint64_t)(uintptr_t)op->destination;
  if (emu_memory_find(&context->memory, address, &range) && range.written)
    emu_range_mark_written(&range, address, op->bytes);
}

static uint64_t estimate(const emu_launch_t *launch, const kiln_emu_launch_t *record) {
  const emu_model_t *m = emu_model();
  /* Memory transfers on both edges of its clock. */
  uint64_t bytes_per_second = 2ull * (uint64_t)m->memory_clock_khz * 1000 * (uint64_t)m->bus_bits / 8;
  emu_machine_rates_t rates = {(uint32_t)m->sms, (uint64_t)m->clock_khz * 1000, bytes_per_second,
                               m->major >= 9 ? 2048 : 1024, (uint32_t)launch->resident_limit};
  return emu_estimate_ns(record, &rates);
}

static void add_report(CUcontext context, const char *text) {
  kiln_buffer_puts(&context->report, text);
  if (emu_driver()->reporting) fputs(text, stderr);
}

static void run_launch(CUcontext context, const emu_op_t *op) {
  kiln_emu_launch_t record;
  emu_launch_t *launch = op->launch;
  emu_launch_run(launch, &emu_driver()->pool, &record);
  if (launch->counting) record.estimated_ns = estimate(launch, &record);
  pthread_mutex_lock(&context->lock);
  if (launch->counting) context->launches[context->launch_count++ % EMU_LAUNCHES_KEPT] = record;
  if (launch->report.size) add_report(context, kiln_buffer_text(&launch->report));
  if (launch->fault.result && !context->sticky) {
    add_report(context, launch->fault.text);
    __atomic_store_n(&context->sticky, launch->fault.result, __ATOMIC_RELEASE);
  }
  pthread_mutex_unlock(&context->lock);
}

/* After a fault nothing runs any more, apart from host functions' successors: the queue only drains. */
static void run_op(CUcontext context, const emu_op_t *op, bool broken) {
  if (broken && op->kind != EMU_OP_RECORD) return;
  switch (op->kind) {
  case EMU_OP_LAUNCH:
    run_launch(context, op);
    break;
  case EMU_OP_COPY:
    memmove(op->destination, op->source, op->bytes);
    mark_written(context, op);
    break;
  case EMU_OP_FILL:
    fill(op);
    mark_written(context, op);
    break;
  case EMU_OP_HOST:
    op->function(op->user_data);
    break;
  case EMU_OP_RECORD:
    pthread_mutex_lock(&context->lock);
    op->event->time_ns = kiln_clock_monotonic_ns();
    if (op->event->reached < op->generation) op->event->reached = op->generation;
    pthread_mutex_unlock(&context->lock);
    break;
  case EMU_OP_WAIT:
    break;
  }
}

void emu_op_deinit(emu_op_t *op) {
  emu_launch_destroy(op->launch);
  free(op->staged);
}

static void free_op(emu_op_t *op) {
  emu_op_deinit(op);
  free(op);
}

/* Runs one operation that is due; false when there is none. Called and returns with the lock held. */
static bool step(CUcontext context) {
  CUstream stream = find_due(context);
  if (!stream) return false;
  emu_op_t *op = stream->first;
  bool broken = context->sticky != CUDA_SUCCESS;
  stream->busy = true;
  pthread_mutex_unlock(&context->lock);
  run_op(context, op, broken);
  pthread_mutex_lock(&context->lock);
  stream->first = op->next;
  if (!stream->first) stream->last = NULL;
  stream->busy = false;
  context->pending--;
  free_op(op);
  pthread_cond_broadcast(&context->changed);
  return true;
}

/* --- the engine --- */

static void nap(CUcontext context) {
  struct timespec time = {.tv_nsec = ENGINE_NAP_NS};
  pthread_mutex_unlock(&context->lock);
  nanosleep(&time, NULL);
  pthread_mutex_lock(&context->lock);
}

static void *engine_main(void *argument) {
  CUcontext context = argument;
  pthread_mutex_lock(&context->lock);
  while (!context->stopping) {
    context->engine_awake = true;
    for (int naps = 0; naps < ENGINE_NAPS && !context->stopping; naps++) {
      nap(context);
      while (step(context)) naps = 0;
    }
    if (context->stopping) break;
    if (context->pending) { /* somebody else runs it, or it waits for an event */
      pthread_cond_wait(&context->changed, &context->lock);
      continue;
    }
    context->engine_awake = false;
    while (!context->engine_awake && !context->stopping)
      pthread_cond_wait(&context->engine_wake, &context->lock);
  }
  pthread_mutex_unlock(&context->lock);
  return NULL;
}

static void wake_engine(CUcontext context) {
  if (!context->engine_started)
    context->engine_started = pthread_create(&context->engine, NULL, engine_main, context) == 0;
  else if (!context->engine_awake)
    pthread_cond_signal(&context->engine_wake);
  context->engine_awake = true;
}

/* --- the interface --- */

void emu_queue_init(CUcontext context) {
  pthread_mutex_init(&context->lock, NULL);
  pthread_cond_init(&context->changed, NULL);
  pthread_cond_init(&context->engine_wake, NULL);
  context->default_stream.context = context;
  context->default_stream.blocking = true;
}

void emu_queue_deinit(CUcontext context) {
  emu_drain(context, NULL);
  pthread_mutex_lock(&context->lock);
  context->stopping = true;
  pthread_cond_broadcast(&context->changed);
  pthread_cond_broadcast(&context->engine_wake);
  pthread_mutex_unlock(&context->lock);
  if (context->engine_started) pthread_join(context->engine, NULL);
  emu_captures_deinit(context);
  emu_graphs_deinit(context);
  for (CUstream s = context->streams, next; s; s = next) {
    next = s->next;
    free(s);
  }
  for (CUevent e = context->events, next; e; e = next) {
    next = e->next;
    emu_node_set_deinit(&e->captured);
    free(e);
  }
  pthread_cond_destroy(&context->engine_wake);
  pthread_cond_destroy(&context->changed);
  pthread_mutex_destroy(&context->lock);
}

CUstream emu_stream_of(CUcontext context, CUstream handle) {
  if (handle == NULL || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD)
    return &context->default_stream;
  pthread_mutex_lock(&context->lock);
  CUstream s = context->streams;
  while (s && s != handle) s = s->next;
  pthread_mutex_unlock(&context->lock);
  return s;
}

void emu_append(CUcontext context, CUstream stream, emu_op_t *op) {
  op->next = NULL;
  op->sequence = context->sequence++;
  if (op->kind == EMU_OP_RECORD) {
    op->generation = ++op->event->recorded;
    op->event->capture = 0;
  }
  if (op->kind == EMU_OP_WAIT) op->generation = op->event->recorded;
  if (stream->last)
    stream->last->next = op;
  else
    stream->first = op;
  stream->last = op;
  context->pending++;
  wake_engine(context);
}

CUresult emu_enqueue(CUcontext context, CUstream stream, const emu_op_t *op) {
  emu_op_t *copy = malloc(sizeof *copy);
  if (!copy) {
    emu_launch_destroy(op->launch);
    free(op->staged);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *copy = *op;
  pthread_mutex_lock(&context->lock);
  CUresult result = emu_capture_refuses(context, stream);
  bool taken = !result && emu_capture_takes(context, stream, op, &result);
  if (!result && !taken) emu_append(context, stream, copy);
  pthread_mutex_unlock(&context->lock);
  if (taken)
    free(copy);
  else if (result)
    free_op(copy);
  return result;
}

CUresult emu_drain(CUcontext context, CUstream stream) {
  pthread_mutex_lock(&context->lock);
  while (stream ? stream->first != NULL : context->pending != 0)
    if (!step(context)) pthread_cond_wait(&context->changed, &context->lock);
  CUresult result = context->sticky;
  pthread_mutex_unlock(&context->lock);
  return result;
}

CUresult emu_wait_event(CUcontext context, CUevent event) {
  pthread_mutex_lock(&context->lock);
  uint64_t generation = event->recorded;
  while (event->reached < generation)
    if (!step(context)) pthread_cond_wait(&context->changed, &context->lock);
  CUresult result = context->sticky;
  pthread_mutex_unlock(&context->lock);
  return result;
}
