/* tests/unit/test_shrink.c: the shrinker of failing graphs, tried on planted faults: what a fault needs
 * stays, all else goes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ir/text.h"
#include "ir/verify.h"
#include "tests/support/graphs.h"
#include "tests/support/random_graph.h"
#include "tests/support/shrink.h"

/* --- planted faults: what a broken compiler might choke on ---------------------------------------------- */

static const kiln_node_t *producer_of(const kiln_graph_t *graph, const kiln_node_t *node, uint32_t operand) {
  return kiln_graph_producer(graph, node->operands[operand]);
}

/* The softmax of a product, in rows of at least 3. */
static bool softmax_of_a_product(void *calls, const kiln_graph_t *graph) {
  ++*(uint32_t *)calls;
  for (uint32_t n = 0; n < graph->node_count; n++) {
    const kiln_node_t *node = &graph->nodes[n];
    if (node->op != KILN_OP_softmax) continue;
    const kiln_node_t *above = producer_of(graph, node, 0);
    const kiln_type_t *type = &graph->types[node->operands[0]];
    if (above && above->op == KILN_OP_mul && type->dims[type->rank - 1].constant >= 3) return true;
  }
  return false;
}

/* A cat that has one value twice, anywhere below a symbol. */
static bool cat_of_equals(void *calls, const kiln_graph_t *graph) {
  ++*(uint32_t *)calls;
  if (!graph->symbol_count) return false;
  for (uint32_t n = 0; n < graph->node_count; n++) {
    const kiln_node_t *node = &graph->nodes[n];
    for (uint32_t i = 0; node->op == KILN_OP_cat && i < node->operand_count; i++)
      for (uint32_t k = 0; k < i; k++)
        if (node->operands[i] == node->operands[k]) return true;
  }
  return false;
}

static bool strided_output(void *calls, const kiln_graph_t *graph) {
  ++*(uint32_t *)calls;
  return graph->output_layouts[graph->output_count - 1].has_strides;
}

static bool nothing(void *calls, const kiln_graph_t *graph) {
  (void)graph;
  ++*(uint32_t *)calls;
  return false;
}

/* --- tests ---------------------------------------------------------------------------------------------- */

static const char crowded[] =
    "graph g[T](%x: f16[6,T,12] align 2, %w: f16[12], %i: i64[6,1,12], %u: f32[4] strides [2]) {\n"
    "  %a = add(%x, %w)\n"
    "  %b = exp(%a)\n"
    "  %g = gather(%b, %i) {dim=1}\n"
    "  %c = mul(%b, %g)\n"
    "  %d = permute(%c) {dims=[1,0,2]}\n"
    "  %e = mul(%d, %w)\n"
    "  %s = softmax(%e) {dim=2}\n"
    "  %f = cat(%s, %d, %s) {dim=2}\n"
    "  %r = sum(%f) {dims=[1,2], keepdim=true, dtype=f64}\n"
    "  %v = neg(%u)\n"
    "  return %f, %r, %v, %s strides [144,24,2]\n"
    "}\n";

static const char *shrunk(kiln_arena_t *arena, const char *text, kiln_shrink_fails_t fails,
                          uint32_t most_tries, uint32_t *out_calls) {
  static const int64_t symbols[] = {5};
  kiln_shrink_options_t options = {fails, out_calls, symbols, most_tries};
  *out_calls = 0;
  const kiln_graph_t *smallest = kiln_shrink(arena, graph_from(arena, text), &options);
  kiln_status_t invalid = kiln_graph_verify(arena, smallest, NULL);
  if (invalid) fail_msg("%s", kiln_status_message(invalid));
  kiln_buffer_t *printed = kiln_buffer_in_arena(arena), *again = kiln_buffer_in_arena(arena);
  kiln_text_print(arena, printed, smallest);
  kiln_text_print(arena, again, graph_from(arena, kiln_buffer_text(printed)));
  assert_string_equal(kiln_buffer_text(printed), kiln_buffer_text(again)); /* `kiln run` takes it */
  return kiln_buffer_text(printed);
}

static void expect(const char *text, kiln_shrink_fails_t fails, const char *smallest) {
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  uint32_t calls = 0;
  assert_string_equal(shrunk(&arena, text, fails, 400, &calls), smallest);
  kiln_arena_deinit(&arena);
}

static void what_a_fault_needs_stays_and_all_else_goes(void **state) {
  (void)state;
  expect(crowded, softmax_of_a_product,
         "graph g(%w: f32[3], %cut7_7: f32[1,1,3]) {\n"
         "  %t2 = mul(%cut7_7, %w) : f32[1,1,3]\n"
         "  %t3 = softmax(%t2) {dim=2} : f32[1,1,3]\n"
         "  return %t3\n"
         "}\n");
}

static void symbols_stay_where_the_fault_needs_them(void **state) {
  (void)state;
  expect(crowded, cat_of_equals,
         "graph g[T](%cut8_9: f32[T,1,1]) {\n"
         "  %t1 = cat(%cut8_9, %cut8_9) {dim=2} : f32[T,1,2]\n"
         "  return %t1\n"
         "}\n");
}

static void a_layout_stays_where_the_fault_needs_it(void **state) {
  (void)state;
  expect(crowded, strided_output,
         "graph g(%cut7_9: f32[1,1,1]) {\n"
         "  return %cut7_9 strides [144,24,2]\n"
         "}\n");
}

static void a_graph_that_does_not_fail_smaller_stays(void **state) {
  (void)state;
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  kiln_buffer_t *printed = kiln_buffer_in_arena(&arena);
  uint32_t calls = 0;
  kiln_text_print(&arena, printed, graph_from(&arena, crowded));
  assert_string_equal(shrunk(&arena, crowded, nothing, 400, &calls), kiln_buffer_text(printed));
  assert_in_range(calls, 20, 400);
  shrunk(&arena, crowded, nothing, 7, &calls);
  assert_int_equal(calls, 7);
  kiln_arena_deinit(&arena);
}

/* Random graphs of all kinds: each step must give a valid graph, and the end must be a fixed point. */
static void what_is_left_of_random_graphs_cannot_lose_more(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 200; seed++) {
    kiln_arena_t arena;
    kiln_arena_init(&arena, 0);
    static const int64_t values[][KILN_MAX_SYMBOLS] = {{6, 4}};
    kiln_random_options_t random = {.node_count = 12,
                                    .strided = true,
                                    .symbol_count = seed % 2 ? 2 : 0,
                                    .value_sets = values,
                                    .value_set_count = 1};
    const kiln_graph_t *graph = kiln_random_graph(&arena, seed, &random);
    kiln_buffer_t *text = kiln_buffer_in_arena(&arena);
    kiln_text_print(&arena, text, graph);
    uint32_t calls = 0;
    if (softmax_of_a_product(&calls, graph)) {
      const char *smallest = shrunk(&arena, kiln_buffer_text(text), softmax_of_a_product, 2000, &calls);
      const kiln_graph_t *left = graph_from(&arena, smallest);
      assert_true(softmax_of_a_product(&calls, left));
      if (left->node_count != 2) fail_msg("seed %llu:\n%s", (unsigned long long)seed, smallest);
      assert_in_range(left->input_count, 1, 2);
      assert_int_equal(left->symbol_count, 0);
    }
    kiln_arena_deinit(&arena);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_a_fault_needs_stays_and_all_else_goes),
      cmocka_unit_test(symbols_stay_where_the_fault_needs_them),
      cmocka_unit_test(a_layout_stays_where_the_fault_needs_it),
      cmocka_unit_test(a_graph_that_does_not_fail_smaller_stays),
      cmocka_unit_test(what_is_left_of_random_graphs_cannot_lose_more),
  };
  return cmocka_run_group_tests_name("tests: shrinker", tests, NULL, NULL);
}
