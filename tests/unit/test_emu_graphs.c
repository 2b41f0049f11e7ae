/* tests/unit/test_emu_graphs.c: stream capture and CUDA graphs on the emulated device: what is captured, what
 * a launch of the graph does, and which error each breach of the rules gives.
 *
 * Rules and codes are those of the CUDA Driver API's reference ("Stream Management", "Graph Management"). The
 * module is PTX by hand, so that nothing but the emulator's own threads is under the sanitizer.
 * Labels: tsan
 */
#include "tests/support/emu_device.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The word becomes 3 * word + n: no two orders of two such steps give the same. */
static const char source[] =
    ".version 7.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry step(.param .u64 p, .param .u32 n) {\n"
    "  .reg .b64 %a; .reg .b32 %v, %n;\n"
    "  ld.param.u64 %a, [p]; ld.param.u32 %n, [n];\n"
    "  ld.global.u32 %v, [%a]; mad.lo.u32 %v, %v, 3, %n; st.global.u32 [%a], %v; ret;\n}\n";

typedef struct {
  CUmodule module;
  CUfunction step;
  CUstream a, b;
  CUevent fork, join;
  CUdeviceptr word;
} fixture_t;

static fixture_t prepare(void) {
  fixture_t f;
  uint32_t zero = 0;
  EMU_OK(cuModuleLoadData(&f.module, source));
  f.step = emu_function(f.module, "step");
  EMU_OK(cuStreamCreate(&f.a, CU_STREAM_NON_BLOCKING));
  EMU_OK(cuStreamCreate(&f.b, CU_STREAM_NON_BLOCKING));
  EMU_OK(cuEventCreate(&f.fork, CU_EVENT_DISABLE_TIMING));
  EMU_OK(cuEventCreate(&f.join, CU_EVENT_DISABLE_TIMING));
  f.word = emu_upload(&zero, sizeof zero);
  return f;
}

static CUresult step(const fixture_t *f, CUdeviceptr word, uint32_t n, CUstream stream) {
  return cuLaunchKernel(f->step, 1, 1, 1, 1, 1, 1, 0, stream, EMU_ARGS(&word, &n), NULL);
}

static void begin(CUstream stream) { EMU_OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL)); }

static CUgraph end(CUstream stream) {
  CUgraph graph = NULL;
  EMU_OK(cuStreamEndCapture(stream, &graph));
  assert_non_null(graph);
  return graph;
}

/* Ends a capture that something made invalid: an error, and no graph. */
static void end_invalid(CUstream stream, CUresult expected) {
  CUgraph graph = (CUgraph)&graph;
  EMU_RESULT(cuStreamEndCapture(stream, &graph), expected);
  assert_null(graph);
}

static CUgraphExec instantiate(CUgraph graph) {
  CUgraphExec exec = NULL;
  EMU_OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
  return exec;
}

static uint32_t word_at(CUdeviceptr at) {
  uint32_t word;
  emu_download(&word, at, sizeof word);
  return word;
}

static void on_called(void *calls) { ++*(int *)calls; }

/* --- what a graph does --- */

static void captured_work_runs_at_each_launch_with_the_parameters_of_the_capture(void **state) {
  (void)state;
  fixture_t f = prepare();
  uint32_t in = 7, out = 0;
  int calls = 0;
  begin(f.a);
  EMU_OK(cuMemcpyHtoDAsync_v2(f.word, &in, sizeof in, f.a)); /* pageable: read when the graph runs */
  EMU_OK(step(&f, f.word, 5, f.a));
  EMU_OK(cuMemcpyDtoHAsync_v2(&out, f.word, sizeof out, f.a));
  EMU_OK(cuMemsetD32Async(f.word, 9, 1, f.a));
  EMU_OK(cuLaunchHostFunc(f.a, on_called, &calls));
  CUgraph graph = end(f.a);
  EMU_OK(cuStreamSynchronize(f.a));
  assert_int_equal(out, 0);
  assert_int_equal(calls, 0);
  CUgraphNode nodes[6];
  size_t count = 6;
  EMU_OK(cuGraphGetNodes(graph, nodes, &count));
  assert_int_equal(count, 5);
  static const CUgraphNodeType types[] = {CU_GRAPH_NODE_TYPE_MEMCPY, CU_GRAPH_NODE_TYPE_KERNEL,
                                          CU_GRAPH_NODE_TYPE_MEMCPY, CU_GRAPH_NODE_TYPE_MEMSET,
                                          CU_GRAPH_NODE_TYPE_HOST};
  for (size_t n = 0; n < count; n++) {
    CUgraphNodeType type;
    EMU_OK(cuGraphNodeGetType(nodes[n], &type));
    assert_int_equal(type, types[n]);
  }
  CUgraphExec exec = instantiate(graph);
  EMU_OK(cuGraphDestroy(graph)); /* what was made of it stays */
  for (int n = 1; n <= 3; n++) {
    in = (uint32_t)n;
    EMU_OK(cuGraphLaunch(exec, n == 2 ? f.b : f.a));
    EMU_OK(cuCtxSynchronize());
    assert_int_equal(out, 3 * n + 5);
    assert_int_equal(word_at(f.word), 9);
    assert_int_equal(calls, n);
  }
  EMU_OK(cuGraphExecDestroy(exec));
}

static void forks_and_joins_by_events_order_the_work_of_two_streams(void **state) {
  (void)state;
  fixture_t f = prepare();
  begin(f.a);
  EMU_OK(step(&f, f.word, 1, f.a));
  EMU_OK(cuEventRecord(f.fork, f.a));
  EMU_OK(cuStreamWaitEvent(f.b, f.fork, 0));
  CUstreamCaptureStatus status;
  EMU_OK(cuStreamIsCapturing(f.b, &status));
  assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  EMU_OK(step(&f, f.word, 2, f.b));
  EMU_OK(cuEventRecord(f.join, f.b));
  EMU_OK(cuStreamWaitEvent(f.a, f.join, 0));
  EMU_OK(step(&f, f.word, 3, f.a));
  CUgraphExec exec = instantiate(end(f.a));
  EMU_OK(cuStreamIsCapturing(f.b, &status));
  assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_NONE);
  EMU_OK(cuGraphLaunch(exec, f.a));
  EMU_OK(cuStreamSynchronize(f.a));
  assert_int_equal(word_at(f.word), ((0 * 3 + 1) * 3 + 2) * 3 + 3);
}

/* Launches of one executable graph wait for each other, whatever their streams. */
static void launches_of_one_graph_in_two_streams_do_not_overlap(void **state) {
  (void)state;
  fixture_t f = prepare();
  uint32_t want = 0;
  begin(f.a);
  EMU_OK(step(&f, f.word, 1, f.a));
  EMU_OK(step(&f, f.word, 2, f.a));
  CUgraphExec exec = instantiate(end(f.a));
  for (int n = 0; n < 20; n++) EMU_OK(cuGraphLaunch(exec, n & 1 ? f.a : f.b));
  EMU_OK(cuCtxSynchronize());
  for (int n = 0; n < 20; n++) want = (want * 3 + 1) * 3 + 2;
  assert_int_equal(word_at(f.word), want);
}

static void a_captured_launch_of_a_graph_becomes_its_nodes(void **state) {
  (void)state;
  fixture_t f = prepare();
  size_t count = 0;
  begin(f.a);
  EMU_OK(step(&f, f.word, 1, f.a));
  EMU_OK(step(&f, f.word, 2, f.a));
  CUgraphExec inner = instantiate(end(f.a));
  begin(f.b);
  EMU_OK(step(&f, f.word, 3, f.b));
  EMU_OK(cuGraphLaunch(inner, f.b));
  EMU_OK(step(&f, f.word, 4, f.b));
  CUgraph graph = end(f.b);
  EMU_OK(cuGraphGetNodes(graph, NULL, &count));
  assert_int_equal(count, 4);
  EMU_OK(cuGraphLaunch(instantiate(graph), f.b));
  EMU_OK(cuStreamSynchronize(f.b));
  assert_int_equal(word_at(f.word), ((3 * 3 + 1) * 3 + 2) * 3 + 4);
}

static void external_events_are_nodes_that_work_outside_can_wait_for(void **state) {
  (void)state;
  fixture_t f = prepare();
  begin(f.a);
  EMU_OK(step(&f, f.word, 1, f.a));
  EMU_OK(cuEventRecordWithFlags(f.fork, f.a, CU_EVENT_RECORD_EXTERNAL));
  EMU_OK(cuStreamWaitEvent(f.a, f.join, CU_EVENT_WAIT_EXTERNAL));
  EMU_OK(step(&f, f.word, 2, f.a));
  CUgraphExec exec = instantiate(end(f.a));
  EMU_OK(cuEventRecord(f.join, f.b));
  EMU_OK(cuGraphLaunch(exec, f.a));
  EMU_OK(cuEventSynchronize(f.fork));
  EMU_OK(cuStreamSynchronize(f.a));
  assert_int_equal(word_at(f.word), (0 * 3 + 1) * 3 + 2);
  EMU_RESULT(cuStreamWaitEvent(f.a, f.join, CU_EVENT_WAIT_EXTERNAL), CUDA_ERROR_ILLEGAL_STATE);
}

static void a_graph_without_nodes_can_be_launched(void **state) {
  (void)state;
  fixture_t f = prepare();
  size_t count = 7;
  begin(f.a);
  CUgraph graph = end(f.a);
  EMU_OK(cuGraphGetNodes(graph, NULL, &count));
  assert_int_equal(count, 0);
  EMU_OK(cuGraphLaunch(instantiate(graph), f.a));
  EMU_OK(cuStreamSynchronize(f.a));
}

static void a_graph_whose_module_memory_or_event_is_gone_is_refused(void **state) {
  (void)state;
  fixture_t f = prepare();
  CUdeviceptr gone = emu_alloc(4);
  begin(f.a);
  EMU_OK(cuMemsetD32Async(gone, 1, 1, f.a));
  CUgraphExec fill = instantiate(end(f.a));
  begin(f.a);
  EMU_OK(step(&f, f.word, 1, f.a));
  CUgraphExec launch = instantiate(end(f.a));
  EMU_OK(cuMemFree_v2(gone));
  EMU_RESULT(cuGraphLaunch(fill, f.a), CUDA_ERROR_INVALID_VALUE);
  EMU_OK(cuModuleUnload(f.module));
  EMU_RESULT(cuGraphLaunch(launch, f.a), CUDA_ERROR_INVALID_VALUE);
  EMU_OK(cuGraphExecDestroy(launch));
  EMU_RESULT(cuGraphExecDestroy(launch), CUDA_ERROR_INVALID_VALUE);
  EMU_RESULT(cuGraphLaunch(launch, f.a), CUDA_ERROR_INVALID_VALUE);
  EMU_RESULT(cuGraphDestroy(NULL), CUDA_ERROR_INVALID_VALUE);
}

/* --- what the rules forbid --- */

/* Breaks a rule while f->a is capturing; f->fork has been recorded in f->a, f->join outside. */
typedef CUresult (*breach_t)(fixture_t *f);

static CUresult synchronize_stream(fixture_t *f) { return cuStreamSynchronize(f->a); }
static CUresult query_stream(fixture_t *f) { return cuStreamQuery(f->a); }
static CUresult synchronize_context(fixture_t *f) {
  (void)f;
  return cuCtxSynchronize();
}
static CUresult query_event(fixture_t *f) { return cuEventQuery(f->fork); }
static CUresult synchronize_event(fixture_t *f) { return cuEventSynchronize(f->fork); }
static CUresult wait_for_event_outside(fixture_t *f) { return cuStreamWaitEvent(f->a, f->join, 0); }
static CUresult allocate(fixture_t *f) {
  CUdeviceptr address;
  (void)f;
  return cuMemAlloc_v2(&address, 64);
}
static CUresult free_memory(fixture_t *f) { return cuMemFree_v2(f->word); }
static CUresult copy_and_wait(fixture_t *f) {
  uint32_t word;
  return cuMemcpyDtoH_v2(&word, f->word, sizeof word);
}
static CUresult load_module(fixture_t *f) {
  CUmodule module;
  (void)f;
  return cuModuleLoadData(&module, source);
}
static CUresult end_on_another_stream(fixture_t *f) {
  CUgraph graph;
  EMU_OK(cuStreamWaitEvent(f->b, f->fork, 0));
  return cuStreamEndCapture(f->b, &graph);
}
static CUresult merge(fixture_t *f) {
  CUgraph graph;
  begin(f->b);
  CUresult result = cuStreamWaitEvent(f->b, f->fork, 0);
  EMU_RESULT(cuStreamEndCapture(f->b, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  return result;
}

static void each_breach_gives_its_error_and_invalidates_the_capture(void **state) {
  (void)state;
  static const struct {
    breach_t breach;
    CUresult result;
  } rows[] = {{synchronize_stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
              {query_stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
              {synchronize_context, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
              {query_event, CUDA_ERROR_CAPTURED_EVENT},
              {synchronize_event, CUDA_ERROR_CAPTURED_EVENT},
              {wait_for_event_outside, CUDA_ERROR_STREAM_CAPTURE_ISOLATION},
              {allocate, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
              {free_memory, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
              {copy_and_wait, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
              {load_module, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
              {end_on_another_stream, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED},
              {merge, CUDA_ERROR_STREAM_CAPTURE_MERGE}};
  fixture_t f = prepare();
  EMU_OK(cuEventRecord(f.join, f.b));
  for (size_t n = 0; n < sizeof rows / sizeof rows[0]; n++) {
    CUstreamCaptureStatus status;
    begin(f.a);
    EMU_OK(step(&f, f.word, 1, f.a));
    EMU_OK(cuEventRecord(f.fork, f.a));
    CUresult result = rows[n].breach(&f);
    if (result != rows[n].result) fail_msg("breach %zu: %d, not %d", n, result, rows[n].result);
    EMU_OK(cuStreamIsCapturing(f.a, &status));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    EMU_RESULT(step(&f, f.word, 1, f.a), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    EMU_RESULT(cuStreamWaitEvent(f.b, f.fork, 0), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    end_invalid(f.a, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    EMU_OK(cuEventRecord(f.fork, f.a)); /* the stream and the event work as before */
    EMU_OK(cuStreamSynchronize(f.a));
    EMU_OK(cuEventQuery(f.fork));
  }
  assert_int_equal(word_at(f.word), 0);
}

static void work_that_never_joins_the_origin_makes_no_graph(void **state) {
  (void)state;
  fixture_t f = prepare();
  begin(f.a);
  EMU_OK(cuEventRecord(f.fork, f.a));
  EMU_OK(cuStreamWaitEvent(f.b, f.fork, 0));
  EMU_OK(step(&f, f.word, 1, f.b));
  end_invalid(f.a, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  EMU_OK(step(&f, f.word, 1, f.b));
  EMU_OK(cuStreamSynchronize(f.b));
  assert_int_equal(word_at(f.word), 1);
}

static void captures_begin_once_on_a_stream_that_can_be_captured(void **state) {
  (void)state;
  fixture_t f = prepare();
  CUgraph graph;
  EMU_RESULT(cuStreamBeginCapture_v2(NULL, CU_STREAM_CAPTURE_MODE_RELAXED),
             CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EMU_RESULT(cuStreamBeginCapture_v2(f.a, (CUstreamCaptureMode)3), CUDA_ERROR_INVALID_VALUE);
  EMU_RESULT(cuStreamEndCapture(f.a, &graph), CUDA_ERROR_ILLEGAL_STATE);
  begin(f.a);
  EMU_RESULT(cuStreamBeginCapture_v2(f.a, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_ERROR_ILLEGAL_STATE);
  EMU_RESULT(cuStreamEndCapture(f.a, NULL), CUDA_ERROR_INVALID_VALUE);
  EMU_OK(cuGraphDestroy(end(f.a)));
}

/* The default stream waits for blocking streams, so that its use would depend on work that does not run. */
static void the_default_stream_is_unusable_while_a_blocking_stream_is_captured(void **state) {
  (void)state;
  fixture_t f = prepare();
  CUstream blocking;
  CUstreamCaptureStatus status;
  EMU_OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
  begin(blocking);
  EMU_RESULT(cuStreamIsCapturing(NULL, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  EMU_OK(cuStreamIsCapturing(blocking, &status));
  assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  EMU_RESULT(step(&f, f.word, 1, NULL), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  EMU_RESULT(cuMemsetD32_v2(f.word, 1, 1), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  end_invalid(blocking, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  begin(f.a);
  EMU_OK(step(&f, f.word, 1, NULL)); /* which does not wait for a stream that is not blocking */
  EMU_OK(cuGraphDestroy(end(f.a)));
  EMU_OK(cuStreamDestroy_v2(blocking));
}

static void a_captured_event_is_refused_until_it_is_recorded_again(void **state) {
  (void)state;
  fixture_t f = prepare();
  begin(f.a);
  EMU_OK(cuEventRecord(f.fork, f.a));
  EMU_OK(cuGraphDestroy(end(f.a)));
  EMU_RESULT(cuEventQuery(f.fork), CUDA_ERROR_CAPTURED_EVENT);
  EMU_RESULT(cuStreamWaitEvent(f.b, f.fork, 0), CUDA_ERROR_CAPTURED_EVENT);
  EMU_OK(cuEventRecord(f.fork, f.a));
  EMU_OK(cuEventSynchronize(f.fork));
}

/* --- modes and threads --- */

typedef struct {
  CUcontext context;
  CUstreamCaptureMode mode;
  CUstream stream;
  CUresult allocated, ended;
} other_thread_t;

static void *allocate_and_end(void *argument) {
  other_thread_t *other = argument;
  CUdeviceptr address;
  CUgraph graph;
  cuCtxSetCurrent(other->context);
  cuThreadExchangeStreamCaptureMode(&other->mode);
  other->allocated = cuMemAlloc_v2(&address, 64);
  other->ended = cuStreamEndCapture(other->stream, &graph);
  return NULL;
}

static other_thread_t in_another_thread(CUstreamCaptureMode mode, CUstream stream) {
  other_thread_t other = {.mode = mode, .stream = stream};
  pthread_t thread;
  EMU_OK(cuCtxGetCurrent(&other.context));
  assert_int_equal(pthread_create(&thread, NULL, allocate_and_end, &other), 0);
  pthread_join(thread, NULL);
  assert_int_equal(other.mode, CU_STREAM_CAPTURE_MODE_GLOBAL); /* what a thread begins with */
  return other;
}

static void modes_say_which_threads_may_make_unsafe_calls_and_end_the_capture(void **state) {
  (void)state;
  enum { GLOBAL, LOCAL, RELAXED };
  static const struct {
    int capture, thread;
    bool allocates, ends;
  } rows[] = {{GLOBAL, GLOBAL, false, false},
              {GLOBAL, LOCAL, true, false},
              {GLOBAL, RELAXED, true, false},
              {LOCAL, GLOBAL, true, false},
              {RELAXED, GLOBAL, true, true}};
  fixture_t f = prepare();
  for (size_t n = 0; n < sizeof rows / sizeof rows[0]; n++) {
    CUgraph graph;
    EMU_OK(cuStreamBeginCapture_v2(f.a, (CUstreamCaptureMode)rows[n].capture));
    other_thread_t other = in_another_thread((CUstreamCaptureMode)rows[n].thread, f.a);
    assert_int_equal(other.allocated,
                     rows[n].allocates ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_int_equal(other.ended, rows[n].ends ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    if (rows[n].ends) continue;
    EMU_RESULT(cuStreamEndCapture(f.a, &graph),
               rows[n].allocates ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  }
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  begin(f.a);
  EMU_OK(cuThreadExchangeStreamCaptureMode(&mode));
  CUdeviceptr address = emu_alloc(64); /* allowed now, in the capturing thread too */
  EMU_OK(cuThreadExchangeStreamCaptureMode(&mode));
  EMU_OK(cuGraphDestroy(end(f.a)));
  EMU_OK(cuMemFree_v2(address));
}

static void a_destroyed_stream_ends_its_capture(void **state) {
  (void)state;
  fixture_t f = prepare();
  begin(f.a);
  EMU_OK(step(&f, f.word, 1, f.a));
  EMU_OK(cuStreamDestroy_v2(f.a));
  EMU_OK(cuCtxSynchronize());
  assert_int_equal(word_at(f.word), 0);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, emu_setup, emu_teardown)
  const struct CMUnitTest tests[] = {
      TEST(captured_work_runs_at_each_launch_with_the_parameters_of_the_capture),
      TEST(forks_and_joins_by_events_order_the_work_of_two_streams),
      TEST(launches_of_one_graph_in_two_streams_do_not_overlap),
      TEST(a_captured_launch_of_a_graph_becomes_its_nodes),
      TEST(external_events_are_nodes_that_work_outside_can_wait_for),
      TEST(a_graph_without_nodes_can_be_launched),
      TEST(a_graph_whose_module_memory_or_event_is_gone_is_refused),
      TEST(each_breach_gives_its_error_and_invalidates_the_capture),
      TEST(work_that_never_joins_the_origin_makes_no_graph),
      TEST(captures_begin_once_on_a_stream_that_can_be_captured),
      TEST(the_default_stream_is_unusable_while_a_blocking_stream_is_captured),
      TEST(a_captured_event_is_refused_until_it_is_recorded_again),
      TEST(modes_say_which_threads_may_make_unsafe_calls_and_end_the_capture),
      TEST(a_destroyed_stream_ends_its_capture),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
