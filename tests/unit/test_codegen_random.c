/* tests/unit/test_codegen_random.c: random graphs on the emulated device: the reference's values, and the
 * same bits whether nodes are fused or launched one by one. A failure prints its seed; KILN_SEED=<number>
 * runs that seed alone, KILN_ROUNDS more of them.
 * Labels: device */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/batch.h"
#include "tests/support/random_graph.h"

enum { DEFAULT_ROUNDS = 60, BATCH = 20 };

static const kiln_symbol_class_t no_symbols = {{1, 1, 1, 1, 1, 1, 1, 1}, false};

static const kiln_graph_t *graph_of(kiln_arena_t *arena, uint64_t seed) {
  kiln_random_options_t random = {.node_count = 4 + (uint32_t)(seed % 30), .strided = true};
  return kiln_random_graph(arena, seed, &random);
}

static void check_same_bits(kiln_batch_t *batch, uint32_t fused, uint32_t unfused,
                            const kiln_tensor_t *inputs, const char *what, kiln_arena_t *arena) {
  uint32_t count = kiln_batch_pipeline(batch, fused)->input->output_count;
  kiln_tensor_t *a = KILN_NEW_ARRAY(arena, kiln_tensor_t, count),
                *b = KILN_NEW_ARRAY(arena, kiln_tensor_t, count);
  kiln_batch_run(batch, fused, NULL, inputs, a);
  kiln_batch_run(batch, unfused, NULL, inputs, b);
  for (uint32_t i = 0; i < count; i++) {
    size_t bytes = (size_t)kiln_tensor_elements(&a[i]) * kiln_dtype_bytes(a[i].dtype);
    if (memcmp(a[i].data, b[i].data, bytes)) fail_msg("%s: output %u differs when fused", what, i);
  }
}

static void check_seeds(uint64_t first, uint64_t count) {
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  kiln_batch_t *batch = kiln_batch_create(&arena, "sm_90");
  const kiln_options_t fused = {0}, unfused = {.unfused = true};
  const kiln_pass_run_t no_passes = {.list = ""};
  for (uint64_t i = 0; i < count; i++) {
    const kiln_graph_t *graph = graph_of(&arena, first + i);
    kiln_batch_add(batch, graph, &fused, &no_symbols, NULL);
    kiln_batch_add(batch, graph, &fused, &no_symbols, &no_passes);
    kiln_batch_add(batch, graph, &unfused, &no_symbols, &no_passes);
  }
  kiln_batch_compile(batch);
  for (uint64_t i = 0; i < count; i++) {
    const kiln_graph_t *graph = kiln_batch_pipeline(batch, (uint32_t)(3 * i))->input;
    kiln_tensor_t *inputs = KILN_NEW_ARRAY(&arena, kiln_tensor_t, graph->input_count);
    kiln_random_inputs(&arena, graph, first + i, NULL, inputs);
    const char *what = kiln_arena_printf(&arena, "seed %#llx", (unsigned long long)(first + i));
    for (uint32_t k = 0; k < 3; k++) kiln_batch_check(batch, (uint32_t)(3 * i) + k, NULL, inputs, what);
    check_same_bits(batch, (uint32_t)(3 * i) + 1, (uint32_t)(3 * i) + 2, inputs, what, &arena);
  }
  kiln_batch_destroy(batch);
  kiln_arena_deinit(&arena);
}

static void random_graphs_have_the_reference_values_fused_and_unfused(void **state) {
  (void)state;
  const char *only = getenv("KILN_SEED"), *rounds_text = getenv("KILN_ROUNDS");
  uint64_t rounds = rounds_text ? strtoull(rounds_text, NULL, 0) : DEFAULT_ROUNDS;
  if (only) {
    check_seeds(strtoull(only, NULL, 0), 1);
    return;
  }
  for (uint64_t i = 0; i < rounds; i += BATCH)
    check_seeds(7000000 + i, rounds - i < BATCH ? rounds - i : BATCH);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_graphs_have_the_reference_values_fused_and_unfused),
  };
  return cmocka_run_group_tests_name("codegen: random graphs", tests, NULL, NULL);
}
