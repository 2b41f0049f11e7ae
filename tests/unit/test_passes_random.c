/* tests/unit/test_passes_random.c: random graphs compute the same before and after the passes, each alone and
 * all together. A failure prints its seed and both graphs; KILN_SEED=<number> runs that seed alone,
 * KILN_ROUNDS more of them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "ir/canonical.h"
#include "ir/verify.h"
#include "passes/passes.h"
#include "tests/support/equivalence.h"
#include "tests/support/random_graph.h"

enum { DEFAULT_ROUNDS = 400 };

static void check_seed(uint64_t seed, const char *list) {
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  kiln_random_options_t random = {.node_count = 4 + (uint32_t)(seed % 30), .strided = true};
  const kiln_graph_t *graph = kiln_random_graph(&arena, seed, &random);
  kiln_status_t status = kiln_graph_verify(&arena, graph, NULL);
  if (status) fail_msg("seed %#llx: %s", (unsigned long long)seed, kiln_status_message(status));
  graph = kiln_graph_canonicalize(&arena, graph);
  kiln_options_t options = {0};
  kiln_pass_run_t run = {.list = list};
  kiln_pass_report_t report;
  const kiln_graph_t *optimized;
  status = kiln_passes_run(&arena, graph, &options, &run, &optimized, &report);
  if (status) {
    fail_msg("seed %#llx: %s\n%s", (unsigned long long)seed, kiln_status_message(status),
             kiln_status_detail(status, "reproducer"));
  }
  kiln_test_same_results(graph, optimized, seed);
  kiln_arena_deinit(&arena);
}

static void check_rounds(const char *list, uint64_t first_seed) {
  const char *only = getenv("KILN_SEED"), *rounds_text = getenv("KILN_ROUNDS");
  uint64_t rounds = rounds_text ? strtoull(rounds_text, NULL, 0) : DEFAULT_ROUNDS;
  if (only) return check_seed(strtoull(only, NULL, 0), list);
  for (uint64_t i = 0; i < rounds; i++) check_seed(first_seed + i, list);
}

static void all_passes_keep_random_graphs_meaning(void **state) {
  (void)state;
  check_rounds(NULL, 1000000);
}

static void each_pass_alone_keeps_random_graphs_meaning(void **state) {
  (void)state;
  for (size_t i = 0; kiln_passes_at(i); i++) check_rounds(kiln_passes_at(i)->name, 2000000 + i * 100000);
}

static void passes_in_any_order_keep_random_graphs_meaning(void **state) {
  (void)state;
  check_rounds("delay,simplify,repetition,delay,cse,simplify,fold,repetition,wide_cat,delay,simplify,dce",
               5000000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_passes_keep_random_graphs_meaning),
      cmocka_unit_test(each_pass_alone_keeps_random_graphs_meaning),
      cmocka_unit_test(passes_in_any_order_keep_random_graphs_meaning),
  };
  return cmocka_run_group_tests_name("passes: random graphs", tests, NULL, NULL);
}
