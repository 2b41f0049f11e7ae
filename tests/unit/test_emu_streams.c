/* tests/unit/test_emu_streams.c: streams, events and host functions from several threads at once: the order
 * that CUDA promises, and no data race in the driver.
 *
 * The module is PTX by hand, so that nothing but the emulator's own threads is under the sanitizer.
 * Labels: tsan
 */
#include "tests/support/emu_device.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* "step": the word becomes 3 * word + n. "fill": every thread of every block writes its number. */
static const char source[] =
    ".version 7.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry step(.param .u64 p, .param .u32 n) {\n"
    "  .reg .b64 %a; .reg .b32 %v, %n;\n"
    "  ld.param.u64 %a, [p]; ld.param.u32 %n, [n];\n"
    "  ld.global.u32 %v, [%a]; mad.lo.u32 %v, %v, 3, %n; st.global.u32 [%a], %v; ret;\n}\n"
    ".visible .entry fill(.param .u64 p) {\n"
    "  .reg .b64 %a; .reg .b32 %b, %t, %n;\n"
    "  ld.param.u64 %a, [p]; mov.u32 %b, %ctaid.x; mov.u32 %t, %tid.x; mov.u32 %n, %ntid.x;\n"
    "  mad.lo.u32 %t, %b, %n, %t; mad.wide.u32 %a, %t, 4, %a; st.global.u32 [%a], %t; ret;\n}\n";

#define THREADS 4
#define ROUNDS 60

typedef struct {
  CUcontext context;
  CUfunction step;
  unsigned index;
  bool right;
  atomic_uint called;
} worker_t;

static void on_called(void *argument) { atomic_fetch_add((atomic_uint *)argument, 1); }

static bool ok(CUresult result) { return result == CUDA_SUCCESS; }

/* What `rounds` launches of step make of 0 when both streams keep their order through the events. */
static uint32_t expected(unsigned rounds, unsigned index) {
  uint32_t word = 0;
  for (unsigned n = 0; n < rounds; n++) word = 3 * (3 * word + n) + index;
  return word;
}

static bool launch_step(const worker_t *worker, CUstream stream, CUdeviceptr word, unsigned n) {
  return ok(cuLaunchKernel(worker->step, 1, 1, 1, 1, 1, 1, 0, stream, EMU_ARGS(&word, &n), NULL));
}

/* Two streams hand one word to and fro. */
static bool ping_pong(worker_t *worker) {
  CUstream here, there;
  CUevent gone, back;
  CUdeviceptr word;
  uint32_t got;
  bool right = ok(cuStreamCreate(&here, CU_STREAM_NON_BLOCKING)) &&
               ok(cuStreamCreate(&there, worker->index % 2 ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING)) &&
               ok(cuEventCreate(&gone, CU_EVENT_DEFAULT)) && ok(cuEventCreate(&back, CU_EVENT_DEFAULT)) &&
               ok(cuMemAlloc_v2(&word, 4)) && ok(cuMemsetD32Async(word, 0, 1, here));
  for (unsigned n = 0; right && n < ROUNDS; n++) {
    right = launch_step(worker, here, word, n) && ok(cuEventRecord(gone, here)) &&
            ok(cuStreamWaitEvent(there, gone, 0)) && launch_step(worker, there, word, worker->index) &&
            ok(cuLaunchHostFunc(there, on_called, &worker->called)) && ok(cuEventRecord(back, there)) &&
            ok(cuStreamWaitEvent(here, back, 0));
    if (n % 16 == 0) right = right && ok(cuEventSynchronize(back));
  }
  right = right && ok(cuMemcpyDtoHAsync_v2(&got, word, 4, here)) && ok(cuStreamSynchronize(here));
  right = right && got == expected(ROUNDS, worker->index) && atomic_load(&worker->called) == ROUNDS;
  return right && ok(cuEventDestroy_v2(gone)) && ok(cuEventDestroy_v2(back)) &&
         ok(cuStreamDestroy_v2(here)) && ok(cuStreamDestroy_v2(there)) && ok(cuMemFree_v2(word));
}

static void *worker_main(void *argument) {
  worker_t *worker = argument;
  worker->right = ok(cuCtxSetCurrent(worker->context)) && ping_pong(worker);
  return NULL;
}

static CUmodule load(void) {
  CUmodule module;
  EMU_OK(cuModuleLoadData(&module, source));
  return module;
}

static void threads_with_streams_of_one_context_keep_each_streams_order(void **state) {
  pthread_t threads[THREADS];
  worker_t workers[THREADS];
  CUfunction step = emu_function(load(), "step");
  for (unsigned n = 0; n < THREADS; n++) {
    workers[n] = (worker_t){.context = *state, .step = step, .index = n};
    assert_int_equal(pthread_create(&threads[n], NULL, worker_main, &workers[n]), 0);
  }
  for (unsigned n = 0; n < THREADS; n++) pthread_join(threads[n], NULL);
  for (unsigned n = 0; n < THREADS; n++)
    if (!workers[n].right) fail_msg("thread %u\n%s", n, emu_report());
}

static void *loader_main(void *argument) {
  worker_t *worker = argument;
  CUmodule module;
  worker->right = ok(cuCtxSetCurrent(worker->context));
  for (int n = 0; worker->right && n < 20; n++) {
    worker->right = ok(cuModuleLoadData(&module, source)) &&
                    ok(cuModuleGetFunction(&worker->step, module, "step")) && ok(cuModuleUnload(module));
  }
  return NULL;
}

/* The grid is large enough for the pool's threads to help, while another thread loads and unloads modules. */
static void a_large_launch_runs_beside_module_loads(void **state) {
  enum { BLOCKS = 4096, BLOCK = 256 };
  pthread_t thread;
  worker_t loader = {.context = *state};
  CUdeviceptr words = emu_alloc(4ull * BLOCKS * BLOCK);
  uint32_t *got = malloc(4ull * BLOCKS * BLOCK);
  assert_non_null(got);
  CUfunction fill = emu_function(load(), "fill");
  assert_int_equal(pthread_create(&thread, NULL, loader_main, &loader), 0);
  for (int n = 0; n < 3; n++) EMU_OK(emu_run(fill, BLOCKS, BLOCK, 0, EMU_ARGS(&words)));
  pthread_join(thread, NULL);
  assert_true(loader.right);
  emu_download(got, words, 4ull * BLOCKS * BLOCK);
  for (uint32_t n = 0; n < BLOCKS * BLOCK; n++)
    if (got[n] != n) fail_msg("word %u is %u", n, got[n]);
  free(got);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(threads_with_streams_of_one_context_keep_each_streams_order, emu_setup,
                                      emu_teardown),
      cmocka_unit_test_setup_teardown(a_large_launch_runs_beside_module_loads, emu_setup, emu_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
