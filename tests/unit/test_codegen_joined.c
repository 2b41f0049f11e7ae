/* tests/unit/test_codegen_joined.c: two kernels' code in one launch, in sequence or side by side.
 *
 * Gated products: what the second reads, the same block has made just before. Rows beside a table of another
 * size. Values against the reference, with all checkers on (a thread that read what another block wrote would
 * be a race). Sizes are no multiples of a tile or a block. Labels: device */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/batch.h"
#include "tests/support/graphs.h"
#include "tests/support/random_graph.h"

typedef struct {
  uint32_t launches;
  const char *text;
} case_t;

static const case_t cases[] = {
    {1,
     "graph gated(%x: bf16[70,40], %g: bf16[150,40], %u: bf16[150,40]) { %a = gemm_rcr(%x, %g) %s = silu(%a)"
     " %b = gemm_rcr(%x, %u) %y = mul(%s, %b) return %y }"},
    {1, "graph returned_too_and_other_k(%x: f32[70,33], %z: f32[70,65], %q: f32[45,33], %r: f32[45,65]) {"
        " %a = gemm_rcr(%x, %q) %t = tanh(%a) %b = gemm_rcr(%z, %r) %y = add(%b, %t) return %y, %t }"},
    {1, "graph sized_later[T=70](%x: f16[2,T,40], %g: f16[150,40], %u: f16[150,40]) { %a = gemm_rcr(%x, %g)"
        " %b = gemm_rcr(%x, %u) %y = mul(%a, %b) return %y }"},
    {1,
     "graph beside(%x: f16[130,300], %t: f32[33,7]) { %a = softmax(%x) {dim=1} %c = cos(%t) return %a, %c }"},
    {1, "graph beside_sized_later[T=70](%x: f16[T,4096], %t: f32[T,64], %w: f16[4096]) {"
        " %a = rmsnorm(%x, %w) {normalized_shape=[4096]} %c = cos(%t) %d = sin(%t) %e = cat(%c, %d) {dim=1}"
        " return %a, %e }"},
    {1, "graph beside_nothing[T=70](%x: f32[T,40], %t: f32[5]) { %a = softmax(%x) {dim=1} %c = exp(%t)"
        " return %a, %c }"},
    /* Rows, of which no block may be too many: blocks have no bounds of their own. */
    {1, "graph beside_exactly(%x: f32[65,3,3] strides [0,2,0] align 4, %y: f32[65,1,1,3,1]) {"
        " %a = prod(%x) {dims=[0,1]} %b = neg(%y) return %b, %a }"},
    {1, "graph beside_exactly_later[T=70](%x: f32[T,3], %y: f32[3,T]) { %a = neg(%x) %b = sum(%y) {dims=[1]}"
        " return %a, %b }"},
    /* No tiles, or not the same ones: found out by codegen, then two launches. */
    {2, "graph a_thread_each(%x: f16[3,8], %g: f16[5,8], %u: f16[5,8]) { %a = gemm_rcr(%x, %g)"
        " %b = gemm_rcr(%x, %u) %y = mul(%a, %b) return %y }"},
    {2, "graph other_points(%x: f16[64,40], %g: f16[64,40], %u: f16[64,40]) { %a = gemm_rcr(%x, %g)"
        " %t = permute(%a) {dims=[1,0]} %b = gemm_rcr(%x, %u) %y = mul(%t, %b) return %y }"},
    {2, "graph operand(%x: f16[64,40], %g: f16[40,40], %u: f16[40,40]) { %a = gemm_rcr(%x, %g)"
        " %y = gemm_rcr(%a, %u) return %y }"},
};
enum { CASES = sizeof cases / sizeof *cases };

static void joined_kernels_give_the_values_of_two_launches(void **state) {
  static const kiln_options_t plain = {0};
  static const kiln_symbol_class_t any_size = {{1, 1, 1, 1, 1, 1, 1, 1}, false};
  const int64_t symbols[KILN_MAX_SYMBOLS] = {70};
  kiln_arena_t arena = {0};
  (void)state;
  kiln_batch_t *batch = kiln_batch_create(&arena, "sm_90");
  for (size_t i = 0; i < CASES; i++) {
    kiln_batch_add(batch, graph_from(&arena, cases[i].text), &plain, &any_size, NULL);
    uint32_t launches = kiln_batch_pipeline(batch, (uint32_t)i)->grouping->group_count;
    if (launches != cases[i].launches) fail_msg("%u launches: %s", launches, cases[i].text);
  }
  kiln_batch_compile(batch);
  for (uint32_t i = 0; i < CASES; i++) {
    const kiln_graph_t *graph = kiln_batch_pipeline(batch, i)->input;
    kiln_tensor_t *inputs = KILN_NEW_ARRAY(&arena, kiln_tensor_t, graph->input_count);
    kiln_random_inputs(&arena, graph, i + 1, symbols, inputs);
    kiln_batch_check(batch, i, symbols, inputs, cases[i].text);
  }
  kiln_batch_destroy(batch);
  kiln_arena_deinit(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(joined_kernels_give_the_values_of_two_launches),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
