/* tests/unit/test_codegen_reduce_cost.c: what reductions and normalizations cost, as the emulated device and
 * ptxas count it.
 *
 * The floor is every byte of the inputs read once and every byte of the outputs written once. Sectors are
 * what the instructions ask for, 32 bytes each; a request is one instruction of a warp.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ir/text.h"
#include "runtime/compile.h"
#include "tests/support/batch.h"
#include "tests/support/random_graph.h"

static const kiln_options_t plain = {0};
static const kiln_symbol_class_t no_symbols = {{1, 1, 1, 1, 1, 1, 1, 1}, false};
static const kiln_pass_run_t no_passes = {.list = ""};

static const kiln_graph_t *parse(kiln_arena_t *arena, const char *text) {
  kiln_graph_list_t list = {0};
  kiln_status_t status = kiln_text_parse(arena, "test", text, strlen(text), &list);
  if (status) fail_msg("%s\n%s", kiln_status_message(status), text);
  return list.graphs[0];
}

static uint64_t bytes_of(const kiln_type_t *type) {
  uint64_t bytes = kiln_dtype_bytes(type->dtype);
  for (uint32_t i = 0; i < type->rank; i++) bytes *= (uint64_t)type->dims[i].constant;
  return bytes;
}

static uint64_t fewest_bytes(const kiln_graph_t *graph) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < graph->input_count; i++) bytes += bytes_of(&graph->types[i]);
  for (uint32_t i = 0; i < graph->output_count; i++) bytes += bytes_of(&graph->types[graph->outputs[i]]);
  return bytes;
}

/* --- memory -------------------------------------------------------------------------------------------- */

typedef struct {
  const char *text;
  unsigned bytes_percent;   /* of the fewest, at most */
  unsigned sectors_percent; /* of the floor, at most */
  bool is_wide;             /* nine of ten accesses have 16 bytes a thread */
} cost_t;

static const cost_t costs[] = {
    /* rows in registers: whole vectors, odd ones */
    {"graph g(%x: f16[30,4096]) { %y = softmax(%x) {dim=1} return %y }", 105, 200, true},
    {"graph g(%x: f32[50,1024]) { %y = sum(%x) {dims=[1]} return %y }", 105, 200, true},
    {"graph g(%x: bf16[70,256]) { %y = log_softmax(%x) {dim=1} return %y }", 105, 200, true},
    {"graph g(%x: f32[30,333]) { %y = softmax(%x) {dim=1} return %y }", 105, 200, false},
    {"graph g(%x: f16[40,1001]) { %y = amax(%x) {dims=[1]} return %y }", 105, 200, false},
    {"graph g(%x: f32[200,512], %g: f32[512]) { %y = rmsnorm(%x, %g) {normalized_shape=[512]} return %y }",
     105, 200, false},
    {"graph g(%x: f16[90,2048]) { %s = sum(%x) {dims=[1]} %m = amax(%x) {dims=[1]} %a = argmax(%x) {dim=1} "
     "return %s, %m, %a }",
     105, 200, false},
    /* longer than what stays on chip: again from memory in each pass */
    {"graph g(%x: f32[3,100000]) { %y = sum(%x) {dims=[1]} return %y }", 105, 200, true},
    {"graph g(%x: f16[2,100000]) { %y = var(%x) {dims=[1]} return %y }", 200, 200, true},
    /* columns */
    {"graph g(%x: f16[1000,512]) { %y = sum(%x) {dims=[0]} return %y }", 110, 200, true},
    {"graph g(%x: f32[2,500,256]) { %y = mean(%x) {dims=[1]} return %y }", 110, 200, true},
    {"graph g(%x: f32[500,251]) { %y = amax(%x) {dims=[0]} return %y }", 110, 200, false},
};
enum { COSTS = sizeof costs / sizeof *costs };

static void check_cost(kiln_arena_t *arena, kiln_batch_t *batch, uint32_t i) {
  const kiln_graph_t *graph = kiln_batch_pipeline(batch, i)->input;
  kiln_tensor_t *inputs = KILN_NEW_ARRAY(arena, kiln_tensor_t, graph->input_count);
  kiln_random_inputs(arena, graph, 1, NULL, inputs);
  uint64_t fewest = fewest_bytes(graph), moved = kiln_batch_counter(batch, i, NULL, inputs, "bytes_moved");
  uint64_t sectors = kiln_batch_counter(batch, i, NULL, inputs, "global_load_sectors") +
                     kiln_batch_counter(batch, i, NULL, inputs, "global_store_sectors");
  uint64_t requests = kiln_batch_counter(batch, i, NULL, inputs, "global_load_requests");
  if (moved * 100 > fewest * costs[i].bytes_percent)
    fail_msg("%llu bytes moved, the fewest are %llu: %s", (unsigned long long)moved,
             (unsigned long long)fewest, costs[i].text);
  if (sectors * 32 * 100 > fewest * costs[i].sectors_percent)
    fail_msg("%llu sectors for %llu bytes: %s", (unsigned long long)sectors, (unsigned long long)fewest,
             costs[i].text);
  if (costs[i].is_wide && requests * 512 * 90 > sectors * 32 * 100)
    fail_msg("%llu loads and %llu sectors: %s", (unsigned long long)requests, (unsigned long long)sectors,
             costs[i].text);
}

static void every_byte_moves_once(void **state) {
  (void)state;
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  kiln_batch_t *batch = kiln_batch_create(&arena, "sm_90");
  for (uint32_t i = 0; i < COSTS; i++)
    kiln_batch_add(batch, parse(&arena, costs[i].text), &plain, &no_symbols, &no_passes);
  kiln_batch_compile(batch);
  for (uint32_t i = 0; i < COSTS; i++) check_cost(&arena, batch, i);
  kiln_batch_destroy(batch);
  kiln_arena_deinit(&arena);
}

/* --- registers ----------------------------------------------------------------------------------------- */

static void no_kernel_spills_registers(void **state) {
  (void)state;
  static const char *const texts[] = {
      "graph g(%x: f16[30,32768]) { %y = softmax(%x) {dim=1} return %y }",
      "graph g(%x: f32[30,16384], %g: f32[16384], %b: f32[16384]) { %y = layernorm_sigmoid_mul(%x, %g, %b) {normalized_shape=[16384]} return %y }",
      "graph g(%x: f32[30,8191]) { %y = log_softmax(%x) {dim=1} %a = argmax(%x) {dim=1} return %y, %a }",
      "graph g[T,S](%x: bf16[T,S]) { %y = softmax(%x) {dim=1} return %y }",
      "graph g(%x: i8[5000,256]) { %y = argmax(%x) {dim=0} %z = amin(%x) {dims=[0]} return %y, %z }",
  };
  static const char *const archs[] = {"sm_80", "sm_90", "sm_100"};
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  kiln_compiler_t *compiler;
  assert_null(kiln_compiler_create(NULL, &compiler));
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    kiln_target_t target;
    assert_null(kiln_target_parse(archs[i % 3], &target));
    kiln_pipeline_t pipeline;
    assert_null(kiln_pipeline_generate(&arena, parse(&arena, texts[i]), &target, &plain, &no_symbols,
                                       &no_passes, &pipeline));
    kiln_kernel_artifact_t artifact;
    kiln_status_t status =
        kiln_compiler_compile(compiler, &arena, pipeline.kernels[0].source, pipeline.kernels[0].entry,
                              &target, KILN_IMAGE_CUBIN, &artifact);
    if (status) fail_msg("%s: %s", texts[i], kiln_status_detail(status, "log"));
    if (artifact.spill_store_bytes || artifact.spill_load_bytes)
      fail_msg("%s: %d bytes spilled: %s", archs[i % 3], artifact.spill_store_bytes, texts[i]);
  }
  kiln_compiler_destroy(compiler);
  kiln_arena_deinit(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_byte_moves_once),
      cmocka_unit_test(no_kernel_spills_registers),
  };
  return cmocka_run_group_tests_name("codegen: cost of reductions", tests, NULL, NULL);
}
