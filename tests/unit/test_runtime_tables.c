/* tests/unit/test_runtime_tables.c: the table of a grouped launch belongs to the launch: a captured one keeps
 * the members that it was captured with, whatever becomes of the table. On the emulated device.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ir/text.h"
#include "runtime/compile.h"
#include "runtime/device_state.h"
#include "server/pipeline.h"

enum { MEMBERS = 3, ROWS = 5, MOST_COLUMNS = 125 };

static const char text[] =
    "graph g(%a: f32[5,80], %b: f32[5,100], %c: f32[5,125]) { %x = layernorm(%a, none, none) "
    "{normalized_shape=[80]} %y = layernorm(%b, none, none) {normalized_shape=[100]} "
    "%z = layernorm(%c, none, none) {normalized_shape=[125]} return %x, %y, %z }";
static const uint32_t columns[MEMBERS] = {80, 100, 125};

typedef struct {
  kiln_arena_t arena;
  kiln_device_t *device;
  kiln_executable_t *executable;
  float in[MEMBERS][ROWS * MOST_COLUMNS], out[MEMBERS][ROWS * MOST_COLUMNS];
} fixture_t;

static void require(kiln_status_t status) {
  if (status) fail_msg("%s", kiln_status_message(status));
}

static void load(fixture_t *f) {
  static const kiln_options_t options = {0};
  static const kiln_symbol_class_t none = {{1, 1, 1, 1, 1, 1, 1, 1}, false};
  kiln_graph_list_t list;
  kiln_target_t target;
  kiln_pipeline_t pipeline;
  kiln_compiler_t *compiler;
  kiln_kernel_artifact_t artifacts[MEMBERS];
  kiln_digest_t keys[MEMBERS] = {0};
  kiln_device_spec_t spec;
  require(kiln_target_parse("sm_90", &target));
  require(kiln_text_parse(&f->arena, "test", text, strlen(text), &list));
  require(kiln_pipeline_generate(&f->arena, list.graphs[0], &target, &options, &none, NULL, &pipeline));
  uint32_t count = pipeline.grouping->group_count;
  assert_int_equal(count, 1);
  assert_non_null(pipeline.kernels[0].table);
  require(kiln_compiler_create(NULL, &compiler));
  for (uint32_t i = 0; i < count; i++) {
    keys[i].bytes[0] = (uint8_t)i;
    require(kiln_compiler_compile(compiler, &f->arena, pipeline.kernels[i].source, pipeline.kernels[i].entry,
                                  &target, KILN_IMAGE_PTX, &artifacts[i]));
  }
  kiln_compiler_destroy(compiler);
  require(kiln_device_spec_parse("emulated", &spec));
  require(kiln_device_create(&spec, &f->device));
  require(
      kiln_device_load(f->device, kiln_pipeline_plan(&f->arena, &pipeline, keys), artifacts, &f->executable));
}

static void execute(fixture_t *f) {
  kiln_host_span_t in[MEMBERS], out[MEMBERS];
  for (uint32_t i = 0; i < MEMBERS; i++) {
    for (uint32_t k = 0; k < ROWS * columns[i]; k++) f->in[i][k] = (float)((k * 7 + i) % 11);
    in[i] = (kiln_host_span_t){f->in[i], ROWS * columns[i] * sizeof(float)};
    out[i] = (kiln_host_span_t){f->out[i], ROWS * columns[i] * sizeof(float)};
  }
  require(kiln_device_execute(f->device, f->executable, NULL, in, out, NULL));
}

static void capture_and_replay(fixture_t *f) {
  const kiln_cuda_t *cuda = &f->device->cuda;
  const kiln_plan_t *plan = f->executable->plan;
  CUgraph graph;
  CUgraphExec replay;
  assert_int_equal(cuda->cuStreamBeginCapture_v2(f->device->stream, CU_STREAM_CAPTURE_MODE_GLOBAL),
                   CUDA_SUCCESS);
  for (uint32_t i = 0; i < plan->launch_count; i++) {
    const kiln_prepared_launch_t *launch = &f->executable->launches[i];
    const uint32_t *block = plan->launches[i].block;
    assert_int_equal(cuda->cuLaunchKernel(launch->function, launch->grid[0], launch->grid[1], launch->grid[2],
                                          block[0], block[1], block[2], plan->launches[i].shared_bytes,
                                          f->device->stream, launch->params, NULL),
                     CUDA_SUCCESS);
  }
  assert_int_equal(cuda->cuStreamEndCapture(f->device->stream, &graph), CUDA_SUCCESS);
  assert_int_equal(cuda->cuGraphInstantiateWithFlags(&replay, graph, 0), CUDA_SUCCESS);
  for (uint32_t i = 0; i < plan->launch_count; i++) { /* the next launch may have other members */
    const kiln_table_t *table = plan->launches[i].table;
    if (table && table->capacity)
      memset(f->executable->launches[i].table.bytes, 0xff, kiln_table_value_bytes(table));
  }
  for (int turn = 0; turn < 2; turn++)
    assert_int_equal(cuda->cuGraphLaunch(replay, f->device->stream), CUDA_SUCCESS);
  assert_int_equal(cuda->cuStreamSynchronize(f->device->stream), CUDA_SUCCESS);
  cuda->cuGraphExecDestroy(replay);
  cuda->cuGraphDestroy(graph);
}

static void a_captured_launch_keeps_its_members(void **state) {
  (void)state;
  static fixture_t f;
  kiln_arena_init(&f.arena, 0);
  load(&f);
  execute(&f);
  const kiln_place_t *outputs = f.executable->places + f.executable->plan->input_count;
  for (uint32_t i = 0; i < MEMBERS; i++)
    f.device->cuda.cuMemsetD8_v2(outputs[i].address, 0xff, outputs[i].bytes);
  capture_and_replay(&f);
  for (uint32_t i = 0; i < MEMBERS; i++) {
    float again[ROWS * MOST_COLUMNS];
    f.device->cuda.cuMemcpyDtoH_v2(again, outputs[i].address, outputs[i].bytes);
    assert_memory_equal(again, f.out[i], outputs[i].bytes);
  }
  kiln_device_unload(f.device, f.executable);
  kiln_device_destroy(f.device);
  kiln_arena_deinit(&f.arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_captured_launch_keeps_its_members)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
