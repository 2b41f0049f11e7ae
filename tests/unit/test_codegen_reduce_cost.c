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

#include "runtime/compile.h"
#include "tests/support/goals.h"
#include "tests/support/graphs.h"

static const kiln_options_t plain = {0};
static const kiln_symbol_class_t no_symbols = {{1, 1, 1, 1, 1, 1, 1, 1}, false};
static const kiln_pass_run_t no_passes = {.list = ""};

/* --- memory -------------------------------------------------------------------------------------------- */

static const kiln_goal_t goals[] = {
    /* rows in registers: whole vectors, odd ones */
    {"graph g(%x: f16[30,4096]) { %y = softmax(%x) {dim=1} return %y }", 1.05, 2, 4, 0.9},
    {"graph g(%x: f32[50,1024]) { %y = sum(%x) {dims=[1]} return %y }", 1.05, 2, 4, 0.9},
    {"graph g(%x: bf16[70,256]) { %y = log_softmax(%x) {dim=1} return %y }", 1.05, 2, 4, 0.9},
    {"graph g(%x: f32[30,333]) { %y = softmax(%x) {dim=1} return %y }", 1.05, 2, 4, 0},
    {"graph g(%x: f16[40,1001]) { %y = amax(%x) {dims=[1]} return %y }", 1.05, 2, 4, 0},
    {"graph g(%x: f32[200,512], %g: f32[512]) { %y = rmsnorm(%x, %g) {normalized_shape=[512]} return %y }",
     1.05, 2, 4, 0},
    {"graph g(%x: f16[90,2048]) { %s = sum(%x) {dims=[1]} %m = amax(%x) {dims=[1]} %a = argmax(%x) {dim=1} "
     "return %s, %m, %a }",
     1.05, 2, 4, 0},
    /* longer than what stays on chip: again from memory in each pass */
    {"graph g(%x: f32[3,100000]) { %y = sum(%x) {dims=[1]} return %y }", 1.05, 2, 4, 0.9},
    {"graph g(%x: f16[2,100000]) { %y = var(%x) {dims=[1]} return %y }", 2, 2.01, 4, 0.9},
    /* few rows of great length, down to one; the outer and the inner axis */
    {"graph g(%x: f32[200000]) { %y = sum(%x) return %y }", 1.1, 2, 4, 0.9},
    {"graph g(%x: f16[3,100001]) { %y = mean(%x) {dims=[1]} %z = argmax(%x) {dim=1} return %y, %z }", 1.1, 2,
     4, 0},
    {"graph g(%x: i8[400000]) { %y = argmin(%x) return %y }", 1.1, 2, 4, 0.9},
    {"graph g(%x: f16[200,3,520]) { %y = sum(%x) {dims=[0,2]} return %y }", 1.1, 2, 4, 0.9},
    /* columns */
    {"graph g(%x: f16[1000,512]) { %y = sum(%x) {dims=[0]} return %y }", 1.1, 2, 4, 0.9},
    {"graph g(%x: f32[2,500,256]) { %y = mean(%x) {dims=[1]} return %y }", 1.1, 2, 4, 0.9},
    {"graph g(%x: f32[500,251]) { %y = amax(%x) {dims=[0]} return %y }", 1.1, 2, 4, 0},
    /* few columns: of one vector, of less, of odd places; results that are wider than what is read */
    {"graph g(%x: f32[40000,8]) { %y = sum(%x) {dims=[0]} return %y }", 1.1, 2, 4, 0.9},
    {"graph g(%x: f16[40000,8]) { %y = mean(%x) {dims=[0]} return %y }", 1.1, 2, 4, 0.9},
    {"graph g(%x: f16[60001,3]) { %y = amax(%x) {dims=[0]} return %y }", 1.1, 2, 4, 0},
    {"graph g(%x: f32[5000,251]) { %y = sum(%x) {dims=[0]} return %y }", 1.1, 2, 4, 0},
    {"graph g(%x: i8[5000,256]) { %y = argmax(%x) {dim=0} return %y }", 1.1, 2, 4, 0},
    {"graph g(%x: f16[90,2048]) { %y = argmax(%x) {dim=1} return %y }", 1.05, 2, 4, 0.9},
    {"graph g(%x: bf16[3,4000,64]) { %y = sum(%x) {dims=[1], dtype=f32} return %y }", 1.1, 2, 4, 0.9},
};

static void every_byte_moves_once(void **state) {
  (void)state;
  kiln_goals_check(goals, sizeof goals / sizeof *goals,
                   &(kiln_goal_run_t){.arch = "sm_90", .passes = &no_passes, .counts_only = true});
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
    assert_null(kiln_pipeline_generate(&arena, graph_from(&arena, texts[i]), &target, &plain, &no_symbols,
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
