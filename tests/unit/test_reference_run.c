/* tests/unit/test_reference_run.c: the walk of the reference evaluator: deep and wide graphs, results that
 * are inputs or returned twice, constraints on symbols, limits, and memory when the arena unwinds. What the
 * ops compute is checked against NumPy in tests/py/test_reference_numpy.py.
 */
#include "base/buffer.h"
#include "ir/reference.h"
#include "ir/text.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static kiln_arena_t arena;
static kiln_buffer_t text;

static int set_up(void **state) {
  (void)state;
  kiln_arena_init(&arena, 0);
  kiln_buffer_init(&text);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  kiln_arena_deinit(&arena);
  kiln_buffer_deinit(&text);
  return 0;
}

/* The graph that `text` holds. */
static const kiln_graph_t *parse(void) {
  kiln_graph_list_t graphs = {0};
  kiln_status_t status = kiln_text_parse(&arena, "test", kiln_buffer_text(&text), text.size, &graphs);
  if (status) fail_msg("%s", kiln_status_message(status));
  return graphs.graphs[0];
}

static kiln_tensor_t f32_tensor(int64_t size, float *data) {
  return (kiln_tensor_t){.dtype = KILN_DTYPE_f32, .rank = 1, .sizes = {size}, .data = data};
}

static void expect_code(kiln_status_t status, kiln_code_t code, const char *part) {
  assert_int_equal(kiln_status_code(status), code);
  assert_non_null(strstr(kiln_status_message(status), part));
  kiln_status_free(status);
}

static void a_chain_of_50000_nodes_is_evaluated(void **state) {
  (void)state;
  kiln_buffer_puts(
      &text,
      "graph g(%x: i32[2]) {\n  %one = full() {shape=[1], value=1, dtype=i32}\n  %t0 = add(%x, %one)\n");
  for (int i = 1; i < 50000; i++) kiln_buffer_printf(&text, "  %%t%d = add(%%t%d, %%one)\n", i, i - 1);
  kiln_buffer_puts(&text, "  return %t49999\n}\n");
  int32_t data[] = {5, -7};
  kiln_tensor_t input = {.dtype = KILN_DTYPE_i32, .rank = 1, .sizes = {2}, .data = data};
  kiln_reference_t output;
  assert_null(kiln_reference_run(&arena, parse(), NULL, &input, 1024, &output));
  assert_memory_equal(output.value.data, ((int32_t[]){50005, 49993}), 8);
}

static void a_cat_of_500_operands_is_evaluated(void **state) {
  (void)state;
  kiln_buffer_puts(&text, "graph g(%x: f32[1]) {\n  %y = cat(%x");
  for (int i = 1; i < 500; i++) kiln_buffer_puts(&text, ", %x");
  kiln_buffer_puts(&text, ") {dim=0}\n  return %y\n}\n");
  float one = 1;
  kiln_tensor_t input = f32_tensor(1, &one);
  kiln_reference_t output;
  assert_null(kiln_reference_run(&arena, parse(), NULL, &input, 0, &output));
  for (int i = 0; i < 500; i++) assert_true(((float *)output.value.data)[i] == 1);
}

static void inputs_may_be_returned_and_values_returned_twice(void **state) {
  (void)state;
  kiln_buffer_puts(&text, "graph g(%x: f32[2]) {\n  %y = neg(%x)\n  return %y, %x, %y\n}\n");
  float data[] = {1, 2};
  kiln_tensor_t input = f32_tensor(2, data);
  kiln_reference_t outputs[3];
  assert_null(kiln_reference_run(&arena, parse(), NULL, &input, 0, outputs));
  for (int i = 0; i < 3; i++) {
    float sign = i == 1 ? 1 : -1;
    assert_true(((float *)outputs[i].value.data)[1] == sign * 2);
    assert_true(outputs[i].bound[0] == 0 && outputs[i].bound[1] == 0);
  }
}

static void results_that_nobody_reads_cost_nothing_later(void **state) {
  (void)state;
  kiln_buffer_puts(&text, "graph g(%x: f32[1]) {\n");
  for (int i = 0; i < 100; i++) kiln_buffer_printf(&text, "  %%t%d = expand(%%x) {shape=[100]}\n", i);
  kiln_buffer_puts(&text, "  %y = neg(%x)\n  return %y\n}\n");
  float one = 1;
  kiln_tensor_t input = f32_tensor(1, &one);
  kiln_reference_t output;
  assert_null(kiln_reference_run(&arena, parse(), NULL, &input, 500, &output));
}

static void a_constraint_on_symbols_that_fails_is_an_error(void **state) {
  (void)state;
  kiln_buffer_puts(&text,
                   "graph g[T](%x: f32[T]) {\n  %y = slice(%x) {starts=[2], limits=[T-1]}\n  return %y\n}\n");
  float data[3] = {1, 2, 3};
  const kiln_graph_t *graph = parse();
  kiln_tensor_t input = f32_tensor(2, data);
  kiln_reference_t output;
  int64_t symbol = 2;
  expect_code(kiln_reference_run(&arena, graph, &symbol, &input, 0, &output), KILN_INVALID_ARGUMENT, "");
  symbol = 3;
  input.sizes[0] = 3;
  assert_null(kiln_reference_run(&arena, graph, &symbol, &input, 0, &output));
  assert_int_equal(output.value.sizes[0], 0);
}

static void an_input_that_is_not_as_declared_is_an_error(void **state) {
  (void)state;
  kiln_buffer_puts(&text, "graph g(%x: f32[3]) {\n  %y = neg(%x)\n  return %y\n}\n");
  float data[4] = {0};
  kiln_tensor_t input = f32_tensor(4, data);
  kiln_reference_t output;
  expect_code(kiln_reference_run(&arena, parse(), NULL, &input, 0, &output), KILN_INVALID_ARGUMENT,
              "input 0");
}

static void bounds_count_against_the_limit(void **state) {
  (void)state;
  kiln_buffer_puts(&text, "graph g(%x: f32[100]) {\n  %y = exp(%x)\n  return %y\n}\n");
  float data[100] = {0};
  kiln_tensor_t input = f32_tensor(100, data);
  kiln_reference_t output;
  const kiln_graph_t *graph = parse();
  expect_code(kiln_reference_run(&arena, graph, NULL, &input, 1199, &output), KILN_TOO_LARGE,
              "evaluating %y (exp)");
  assert_null(kiln_reference_run(&arena, graph, NULL, &input, 1200, &output));
}

/* exp(20) is off by more than a radian, so nothing is known of the second term; the other maximum is sin(1).
 */
static void an_undecided_extreme_leaves_the_next_one_alone(void **state) {
  (void)state;
  kiln_buffer_puts(&text,
                   "graph g(%x: f32[8]) {\n  %e = exp(%x)\n  %s = sin(%e)\n"
                   "  %r = reshape(%s) {shape=[2,2,2]}\n  %y = amax(%r) {dims=[0,2]}\n  return %y\n}\n");
  float data[8] = {0, 20, -INFINITY, -INFINITY, 0, 0, -INFINITY, 0};
  kiln_tensor_t input = f32_tensor(8, data);
  kiln_reference_t output;
  assert_null(kiln_reference_run(&arena, parse(), NULL, &input, 0, &output));
  assert_true(isinf(output.bound[0]));
  assert_true(fabs(((float *)output.value.data)[1] - sin(1)) < 1e-6 && output.bound[1] < 1e-6);
}

/* A mean of zeros has a sign that nobody fixed, and so has its product, though 5e-324 times 0.001 is 0. */
static void a_product_of_a_zero_of_either_sign_is_one_too(void **state) {
  (void)state;
  kiln_buffer_puts(&text, "graph g(%x: f32[2]) {\n  %m = mean(%x)\n  %s = full() {shape=[], value=0.001, "
                          "dtype=f32}\n  %y = mul(%m, %s)\n  return %y\n}\n");
  float data[2] = {-0.0f, -0.0f}, zeros[2] = {0.0f, -0.0f};
  kiln_tensor_t input = f32_tensor(2, data);
  kiln_reference_t output;
  assert_null(kiln_reference_run(&arena, parse(), NULL, &input, 0, &output));
  for (int i = 0; i < 2; i++) {
    kiln_tensor_t got = {.dtype = KILN_DTYPE_f32, .data = &zeros[i]};
    assert_int_equal(kiln_reference_compare(&output, &got).wrong, 0);
  }
}

/* -- unwinding ------------------------------------------------------------------------------------------ */

static kiln_status_t run_guarded(void *graph) {
  float data[100] = {0};
  kiln_tensor_t input = f32_tensor(100, data);
  kiln_reference_t outputs[2];
  return kiln_reference_run(&arena, graph, NULL, &input, 0, outputs);
}

static void memory_is_freed_when_the_arena_ends_in_the_middle(void **state) {
  (void)state;
  kiln_buffer_puts(&text,
                   "graph g(%x: f32[100]) {\n  %a = exp(%x)\n  %b = add(%a, %x)\n  return %a, %b\n}\n");
  const kiln_graph_t *graph = parse();
  for (size_t more = 0; more < 20000; more += 512) { /* the sanitizers see to the leaks */
    arena.limit_bytes = arena.used_bytes + more;
    kiln_status_t status = kiln_arena_guard(&arena, run_guarded, (void *)(uintptr_t)graph);
    assert_true(!status || kiln_status_code(status) == KILN_OUT_OF_MEMORY);
    kiln_status_free(status);
    arena.limit_bytes = 0;
  }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(a_chain_of_50000_nodes_is_evaluated),
      TEST(a_cat_of_500_operands_is_evaluated),
      TEST(inputs_may_be_returned_and_values_returned_twice),
      TEST(results_that_nobody_reads_cost_nothing_later),
      TEST(a_constraint_on_symbols_that_fails_is_an_error),
      TEST(an_input_that_is_not_as_declared_is_an_error),
      TEST(bounds_count_against_the_limit),
      TEST(an_undecided_extreme_leaves_the_next_one_alone),
      TEST(a_product_of_a_zero_of_either_sign_is_one_too),
      TEST(memory_is_freed_when_the_arena_ends_in_the_middle),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
