/* tests/unit/test_codegen_grouped_cost.c: what one grouped launch costs, counted on the emulated device,
 * against a launch for each member on the same device: sectors requested, instructions, passes of shared
 * memory. bench/grouping.c prints the whole performance suite.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ir/text.h"
#include "tests/support/batch.h"
#include "tests/support/graphs.h"
#include "tests/support/random_graph.h"

static const kiln_symbol_class_t no_symbols = {{1, 1, 1, 1, 1, 1, 1, 1}, false};

/* Grouped over alone, at most. */
static const struct {
  const char *counter;
  double most;
} bounds[] = {
    {"global_load_sectors", 1.02},
    {"global_store_sectors", 1.02},
    {"shared_wavefronts", 1.05},
};

/* Alone, sizes are constants that the compiler computes with: the less a step of K or a row has to do, the
 * more it counts. */
static const struct {
  double instructions; /* grouped over alone, at most */
  const char *text;
} graphs[] = {
    /* 2 of 256 x 256 */
    {1.0,
     "graph products(%x: f16[1024,256], %w: f16[256,256], %b: f16[256], %y: f16[1024,256], %v: f16[256,256], "
     "%c: f16[256]) { %p = gemm_rcr_bias(%x, %w, %b) %q = gemm_rcr_bias(%y, %v, %c) return %p, %q }"},
    /* unlike ones, N that is no multiple of a tile */
    {1.25, "graph unlike(%x: f16[512,120], %w: f16[360,120], %y: f16[768,256], %v: f16[200,256]) { "
           "%p = gemm_rcr(%x, %w) %q = gemm_rcr(%y, %v) return %p, %q }"},
    /* rows of one vector and less, whole and odd */
    {1.4,
     "graph norms(%a: f16[128,256], %b: f16[300,512], %c: f16[64,384]) { "
     "%x = layernorm(%a, none, none) {normalized_shape=[256]} %y = layernorm(%b, none, none) "
     "{normalized_shape=[512]} %z = layernorm(%c, none, none) {normalized_shape=[384]} return %x, %y, %z }"},
};
enum { GRAPHS = sizeof graphs / sizeof *graphs };

static void check(kiln_batch_t *batch, uint32_t number, const kiln_tensor_t *inputs, const char *counter,
                  double most) {
  double grouped = (double)kiln_batch_counter(batch, number, NULL, inputs, counter),
         alone = (double)kiln_batch_counter(batch, number + 1, NULL, inputs, counter);
  if (grouped > most * alone)
    fail_msg("%s, %s: %.0f grouped, %.0f alone: %.3f times", kiln_batch_pipeline(batch, number)->input->name,
             counter, grouped, alone, grouped / alone);
}

static void a_group_costs_what_its_members_cost(void **state) {
  (void)state;
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  kiln_batch_t *batch = kiln_batch_create(&arena, "sm_90");
  for (int i = 0; i < GRAPHS; i++) {
    const kiln_graph_t *graph = graph_from(&arena, graphs[i].text);
    uint32_t number = kiln_batch_add_regrouped(batch, graph, true, &no_symbols, NULL);
    assert_int_equal(kiln_batch_pipeline(batch, number)->grouping->group_count, 1);
    kiln_batch_add_regrouped(batch, graph, false, &no_symbols, NULL);
  }
  kiln_batch_compile(batch);
  for (uint32_t i = 0; i < 2 * GRAPHS; i += 2) {
    const kiln_graph_t *graph = kiln_batch_pipeline(batch, i)->input;
    kiln_tensor_t *inputs = KILN_NEW_ARRAY(&arena, kiln_tensor_t, graph->input_count);
    kiln_random_inputs(&arena, graph, i + 1, NULL, inputs);
    check(batch, i, inputs, "instructions", graphs[i / 2].instructions);
    for (size_t k = 0; k < sizeof bounds / sizeof *bounds; k++)
      check(batch, i, inputs, bounds[k].counter, bounds[k].most);
  }
  kiln_batch_destroy(batch);
  kiln_arena_deinit(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_group_costs_what_its_members_cost)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
