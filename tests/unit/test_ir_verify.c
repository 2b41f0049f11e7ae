/* tests/unit/test_ir_verify.c: every rule of ir/rules.def is broken once, and what depends on symbols is
 * checked later.
 *
 * tests/goldens/verify holds the graphs that text can express: <rule>[-<variant>].kiln, whose first line is a
 * comment with place and message of the error. Rules beyond the grammar are broken here by building graphs.
 */
#include "ir/verify.h"

#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/support/graphs.h"

static kiln_arena_t arena;

static int set_up(void **state) {
  (void)state;
  kiln_arena_init(&arena, 0);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  kiln_arena_deinit(&arena);
  return 0;
}

/* --- goldens -------------------------------------------------------------------------------------------- */

#define GOLDENS KILN_SOURCE_DIR "/tests/goldens/verify/"

static void check_golden(const char *path) {
  static char text[1 << 16];
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  text[fread(text, 1, sizeof text - 1, file)] = 0;
  fclose(file);
  const char *name = strrchr(path, '/') + 1;
  size_t rule_length = strcspn(name, "-.");
  const char *expected = kiln_arena_printf(&arena, "%s:%.*s", name, (int)strcspn(text, "\n") - 2, text + 2);
  kiln_graph_list_t list;
  kiln_status_t status = kiln_text_parse(&arena, name, text, strlen(text), &list);
  if (!status) print_message("%s is accepted\n", name);
  assert_string_equal(kiln_status_message(status), expected);
  const char *rule = kiln_status_detail(status, "rule");
  assert_string_equal(rule, kiln_arena_strndup(&arena, name, rule_length));
  bool too_large = !strcmp(rule, "size_overflow");
  assert_int_equal(kiln_status_code(status), too_large ? KILN_TOO_LARGE : KILN_INVALID_GRAPH);
  kiln_status_free(status);
}

static void each_golden_breaks_the_rule_in_its_name(void **state) {
  (void)state;
  glob_t files;
  assert_int_equal(glob(GOLDENS "*.kiln", 0, NULL, &files), 0);
  for (size_t i = 0; i < files.gl_pathc; i++) check_golden(files.gl_pathv[i]);
  globfree(&files);
}

typedef enum { TEXT, BUILT } reach_t;

static const struct {
  const char *name;
  reach_t reach;
} rules[] = {
#define KILN_RULE(name, reach, sentence) {#name, reach},
#include "ir/rules.def"
#undef KILN_RULE
};

static void each_rule_that_text_can_break_has_a_golden(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
    FILE *file = fopen(kiln_arena_printf(&arena, GOLDENS "%s.kiln", rules[i].name), "rb");
    if (!file != (rules[i].reach == BUILT)) print_message("rule %s\n", rules[i].name);
    assert_int_equal(file == NULL, rules[i].reach == BUILT);
    if (file) fclose(file);
  }
}

/* --- rules beyond the grammar --------------------------------------------------------------------------- */

static void assert_breaks(const kiln_graph_t *graph, const char *rule, const char *message) {
  kiln_status_t status = kiln_graph_verify(&arena, graph, NULL);
  assert_string_equal(kiln_status_message(status), message);
  assert_string_equal(kiln_status_detail(status, "rule"), rule);
  kiln_status_free(status);
}

static const kiln_type_t f32_2 = {.dtype = KILN_DTYPE_f32, .rank = 1, .dims = {{.constant = 2}}};

static void symbols_are_few_named_and_not_negative(void **state) {
  (void)state;
  static const struct {
    const char *first, *second, *rule, *message;
    int64_t typical;
  } cases[] = {
      {"T", "T", "symbol_name", "two symbols are called T", 0},
      {"T", "2", "symbol_name", "symbol 1 has no proper name", 0},
      {"", "T", "symbol_name", "symbol 0 has no proper name", 0},
      {"T", "U", "symbol_typical", "the typical value of U is negative", -1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    kiln_graph_builder_t *builder = kiln_graph_builder_create(&arena, "g");
    kiln_graph_builder_symbol(builder, cases[i].first, 0);
    kiln_graph_builder_symbol(builder, cases[i].second, cases[i].typical);
    kiln_graph_builder_output(builder, kiln_graph_builder_input(builder, "x", f32_2, NULL), NULL);
    assert_breaks(kiln_graph_builder_finish(builder), cases[i].rule, cases[i].message);
  }
  kiln_graph_builder_t *builder = kiln_graph_builder_create(&arena, "g");
  for (int i = 0; i < 9; i++) kiln_graph_builder_symbol(builder, kiln_arena_printf(&arena, "S%d", i), 0);
  assert_breaks(kiln_graph_builder_finish(builder), "symbol_count", "a graph has at most 8 symbols");
}

static void a_graph_must_return_something(void **state) {
  (void)state;
  kiln_graph_builder_t *builder = kiln_graph_builder_create(&arena, "g");
  kiln_graph_builder_input(builder, "x", f32_2, NULL);
  assert_breaks(kiln_graph_builder_finish(builder), "output_none", "the graph returns nothing");
}

/* x, then y = neg(operand), returned. */
static kiln_graph_t *graph_with_operand(kiln_value_id_t operand, kiln_type_t claimed) {
  kiln_graph_builder_t *builder = kiln_graph_builder_create(&arena, "g");
  kiln_graph_builder_input(builder, "x", f32_2, NULL);
  kiln_value_id_t y = kiln_graph_builder_node(builder, KILN_OP_neg, &operand, 1, NULL, 0, &claimed, 1, 0);
  kiln_graph_builder_output(builder, y, NULL);
  return (kiln_graph_t *)kiln_graph_builder_finish(builder);
}

static void operands_come_from_before(void **state) {
  (void)state;
  assert_breaks(
      graph_with_operand(1, f32_2), "value_order",
      "neg: operand 0 is value 1, which is not defined before; while verifying node 0 of graph 'g'");
  assert_breaks(
      graph_with_operand(2, f32_2), "value_unknown",
      "neg: operand 0 is value 2, which is not defined before; while verifying node 0 of graph 'g'");
}

static void outputs_exist(void **state) {
  (void)state;
  kiln_graph_t *graph = graph_with_operand(0, f32_2);
  graph->outputs = (kiln_value_id_t[]){2};
  assert_breaks(graph, "value_unknown", "output 0 is value 2, which does not exist");
}

static void claimed_types_are_not_believed(void **state) {
  (void)state;
  kiln_type_t wrong = {.dtype = KILN_DTYPE_f32, .rank = 1, .dims = {{.constant = 3}}};
  assert_breaks(graph_with_operand(0, wrong), "type_claimed",
                "neg: result 0 is f32[2], not f32[3]; while verifying node 0 of graph 'g'");
  kiln_graph_builder_t *builder = kiln_graph_builder_create(&arena, "g");
  kiln_value_id_t x = kiln_graph_builder_input(builder, "x", f32_2, NULL);
  kiln_graph_builder_node(builder, KILN_OP_neg, &x, 1, NULL, 0, (kiln_type_t[]){f32_2, f32_2}, 2, 0);
  assert_breaks(kiln_graph_builder_finish(builder), "type_claimed",
                "neg: gives 1 results, not 2; while verifying node 0 of graph 'g'");
}

static void errors_name_node_op_and_line(void **state) {
  (void)state;
  kiln_graph_builder_t *builder = kiln_graph_builder_create(&arena, "g");
  kiln_value_id_t x = kiln_graph_builder_input(builder, "x", f32_2, NULL);
  kiln_value_id_t y = kiln_graph_builder_node(builder, KILN_OP_add, &x, 1, NULL, 0, &f32_2, 1, 17);
  kiln_graph_builder_name(builder, y, "y");
  kiln_status_t status = kiln_graph_verify(&arena, kiln_graph_builder_finish(builder), NULL);
  assert_string_equal(kiln_status_detail(status, "node"), "%y");
  assert_string_equal(kiln_status_detail(status, "op"), "add");
  assert_string_equal(kiln_status_detail(status, "line"), "17");
  assert_string_equal(kiln_status_detail(status, "rule"), "operand_count");
  kiln_status_free(status);
}

/* --- constraints ---------------------------------------------------------------------------------------- */

/* The error's message for T = t; "" when the graph accepts it. */
static const char *outcome(const char *text, int64_t t) {
  kiln_constraints_t constraints;
  assert_null(kiln_graph_verify(&arena, graph_from(&arena, text), &constraints));
  kiln_status_t status = kiln_constraints_check(&constraints, (int64_t[KILN_MAX_SYMBOLS]){t});
  const char *message = kiln_arena_strdup(&arena, kiln_status_message(status));
  kiln_status_free(status);
  return message;
}

static void a_slice_that_depends_on_a_symbol_is_checked_at_execution(void **state) {
  (void)state;
  static const char text[] = "graph g[T](%x: f32[T]) { %y = slice(%x) {starts=[2], limits=[8]} return %y }";
  assert_string_equal(outcome(text, 8), "");
  assert_string_equal(outcome(text, 9), "");
  assert_string_equal(outcome(text, 7), "slice: axis 0: a limit passes the size: 7 must be at least 8");
}

static void sizes_that_may_be_negative_are_checked_at_execution(void **state) {
  (void)state;
  static const char text[] = "graph g[T](%x: f32[T-4]) { %y = neg(%x) return %y }";
  assert_string_equal(outcome(text, 4), "");
  assert_string_equal(outcome(text, 3), "axis 0: a size is negative: -1 must be at least 0");
}

static void sizes_past_63_bits_are_refused_at_execution(void **state) {
  (void)state;
  static const char text[] = "graph g[T](%x: f64[T,T]) { %y = neg(%x) return %y }";
  assert_string_equal(outcome(text, 1 << 20), "");
  assert_string_equal(outcome(text, INT64_C(1) << 31),
                      "a value has more bytes than 63 bits count: a size leaves 64 bits");
}

static void indexing_an_axis_that_may_be_empty_is_checked_at_execution(void **state) {
  (void)state;
  static const char text[] = "graph g[T](%x: f32[T,4], %i: i64[3]) { %y = embedding(%x, %i) return %y }";
  assert_string_equal(outcome(text, 1), "");
  assert_string_equal(outcome(text, 0), "embedding: an empty axis is indexed: 0 must be at least 3");
  static const char both[] = "graph g[T](%x: f32[T,4], %i: i64[T]) { %y = embedding(%x, %i) return %y }";
  assert_string_equal(outcome(both, 0), "");
}

static void an_output_may_be_transposed_by_a_symbol(void **state) {
  (void)state;
  static const char text[] = "graph g[T](%x: f32[T,32]) { %y = neg(%x) return %y strides [1,T] }";
  assert_string_equal(outcome(text, 0), "");
  assert_string_equal(outcome(text, 100), "");
  static const char fixed[] = "graph g[T](%x: f32[T,32]) { %y = neg(%x) return %y strides [1,64] }";
  assert_string_equal(outcome(fixed, 64), "");
  assert_string_equal(outcome(fixed, 65),
                      "axis 1: elements of an output would share memory: 64 must be at least 65");
}

static void constraints_name_no_symbol_and_do_not_repeat(void **state) {
  (void)state;
  kiln_constraints_t constraints;
  const kiln_graph_t *graph = graph_from(
      &arena, "graph g[Tokens](%x: f32[Tokens-4]) { %a = neg(%x) %b = neg(%a) %c = neg(%b) return %c }");
  assert_null(kiln_graph_verify(&arena, graph, &constraints));
  assert_int_equal(constraints.count, 2); /* size and bytes */
  for (size_t i = 0; i < constraints.count; i++) assert_null(strstr(constraints.items[i].message, "Tokens"));
}

static void a_million_nodes_verify(void **state) {
  (void)state;
  enum { COUNT = 1000000 };
  kiln_arena_t large;
  kiln_arena_init(&large, 0);
  kiln_graph_builder_t *builder = kiln_graph_builder_create(&large, "g");
  kiln_value_id_t value = kiln_graph_builder_input(builder, "x", f32_2, NULL);
  for (int i = 0; i < COUNT; i++) {
    value = kiln_graph_builder_node(builder, KILN_OP_neg, &value, 1, NULL, 0, &f32_2, 1, 0);
  }
  kiln_graph_builder_output(builder, value, NULL);
  assert_null(kiln_graph_verify(&large, kiln_graph_builder_finish(builder), NULL));
  kiln_arena_deinit(&large);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_golden_breaks_the_rule_in_its_name),
      cmocka_unit_test(each_rule_that_text_can_break_has_a_golden),
      cmocka_unit_test(symbols_are_few_named_and_not_negative),
      cmocka_unit_test(a_graph_must_return_something),
      cmocka_unit_test(operands_come_from_before),
      cmocka_unit_test(outputs_exist),
      cmocka_unit_test(claimed_types_are_not_believed),
      cmocka_unit_test(errors_name_node_op_and_line),
      cmocka_unit_test(a_slice_that_depends_on_a_symbol_is_checked_at_execution),
      cmocka_unit_test(sizes_that_may_be_negative_are_checked_at_execution),
      cmocka_unit_test(sizes_past_63_bits_are_refused_at_execution),
      cmocka_unit_test(indexing_an_axis_that_may_be_empty_is_checked_at_execution),
      cmocka_unit_test(an_output_may_be_transposed_by_a_symbol),
      cmocka_unit_test(constraints_name_no_symbol_and_do_not_repeat),
      cmocka_unit_test(a_million_nodes_verify),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
