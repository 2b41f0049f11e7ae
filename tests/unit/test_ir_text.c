/* tests/unit/test_ir_text.c: the text form: what parses, what it means, what round-trips, and what is refused
 * where. */
#include "ir/text.h"

#include <glob.h>
#include <math.h>
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

/* --- round trips ---------------------------------------------------------------------------------------- */

static void assert_round_trip(const char *text) {
  const char *once = text_of(&arena, graph_from(&arena, text));
  assert_string_equal(once, text_of(&arena, graph_from(&arena, once)));
}

static void the_worked_example_parses_and_round_trips(void **state) {
  (void)state;
  static const char text[] =
      "# Rotary embedding of a decoder layer \xe2\x80\x94 each frequency is used twice.\n"
      "graph rope_table[T=4096](%freqs: f32[T,64], %x: f16[1,32,T,128]) {\n"
      "  %emb  = cat(%freqs, %freqs) {dim=1}\n"
      "  %cos  = cos(%emb)\n"
      "  %cosh = cast(%cos) {dtype=f16}\n"
      "  %b    = broadcast(%cosh) {dims=[0,1]}\n"
      "  %y    = mul(%x, %b) : f16[1,32,T,128]\n"
      "  return %y\n"
      "}\n";
  const kiln_graph_t *graph = graph_from(&arena, text);
  assert_string_equal(graph->name, "rope_table");
  assert_int_equal(graph->input_count, 2);
  assert_int_equal(graph->node_count, 5);
  assert_int_equal(graph->symbols[0].typical, 4096);
  assert_int_equal(graph->nodes[0].line, 3);
  assert_string_equal(text_of(&arena, graph),
                      "graph rope_table[T=4096](%freqs: f32[T,64], %x: f16[1,32,T,128]) {\n"
                      "  %emb = cat(%freqs, %freqs) {dim=1} : f32[T,128]\n"
                      "  %cos = cos(%emb) : f32[T,128]\n"
                      "  %cosh = cast(%cos) {dtype=f16} : f16[T,128]\n"
                      "  %b = broadcast(%cosh) {dims=[0,1]} : f16[1,1,T,128]\n"
                      "  %y = mul(%x, %b) : f16[1,32,T,128]\n"
                      "  return %y\n"
                      "}\n");
  assert_round_trip(text);
}

static void layouts_alignments_and_several_results_round_trip(void **state) {
  (void)state;
  static const char text[] =
      "graph g[T, U=3](%x: f16[1,48,T] strides [48*T,1,48] align 4, %e: f32[8,T] strides [0,0]) {\n"
      "  %a, %b = split(%x) {dim=1, sizes=[32,16]} : f16[1,32,T], f16[1,16,T]\n"
      "  %n = layernorm(%e, none, none) {normalized_shape=[T], eps=1e-06} : f32[8,T]\n"
      "  return %a strides [32*T,1,32], %b align 256, %n, %x, %x\n"
      "}\n";
  assert_string_equal(text_of(&arena, graph_from(&arena, text)), text);
}

static void attributes_of_every_kind_round_trip(void **state) {
  (void)state;
  static const char text[] =
      "graph g[T](%x: f32[T,8]) {\n"
      "  %a = gelu(%x) {approximate=\"tanh\"} : f32[T,8]\n"
      "  %b = clamp(%a) {min=-0.0, max=inf} : f32[T,8]\n"
      "  %c = sum(%b) {dims=[], keepdim=true, dtype=f64} : f64[T,8]\n"
      "  %d = full() {shape=[2*T+1,3], value=-9223372036854775808, dtype=i64} : i64[2*T+1,3]\n"
      "  %e = constant() {shape=[4], dtype=f32, values=[1,0.5,-inf,nan]} : f32[4]\n"
      "  %f = constant() {shape=[2], dtype=i32, bits=[4294967295,0]} : i32[2]\n"
      "  %g = slice(%x) {starts=[0,1], limits=[T,8], steps=[1,2]} : f32[T,4]\n"
      "  return %c, %d, %e, %f, %g\n"
      "}\n";
  assert_string_equal(text_of(&arena, graph_from(&arena, text)), text);
}

static void the_examples_round_trip(void **state) {
  (void)state;
  glob_t files;
  assert_int_equal(glob(KILN_SOURCE_DIR "/examples/*.kiln", 0, NULL, &files), 0);
  for (size_t i = 0; i < files.gl_pathc; i++) {
    static char text[1 << 16];
    FILE *file = fopen(files.gl_pathv[i], "rb");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    assert_round_trip(text);
  }
  globfree(&files);
}

/* --- numbers -------------------------------------------------------------------------------------------- */

static kiln_number_t parse_number(const char *spelling) {
  const char *text = kiln_arena_printf(
      &arena, "graph g() {\n %%y = full() {shape=[], value=%s, dtype=f64}\n return %%y\n}", spelling);
  return kiln_node_attr(&graph_from(&arena, text)->nodes[0], KILN_ATTR_value)->number;
}

static void assert_prints_as(kiln_number_t number, const char *expected) {
  kiln_buffer_t text;
  kiln_buffer_init(&text);
  kiln_text_print_number(&text, number);
  assert_string_equal(kiln_buffer_text(&text), expected);
  kiln_buffer_deinit(&text);
}

static uint64_t bits_of(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static void numbers_keep_every_bit(void **state) {
  (void)state;
  static const uint64_t bits[] = {
      0x0000000000000000, 0x8000000000000000, 0x0000000000000001, 0x800fffffffffffff,
      0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000000, 0xfff8000000000000,
      0x7ff8000000000001, 0x7ff0000000000001, 0x3ff3333333333333, 0x3fb999999999999a,
      0x7fefffffffffffff, 0x4340000000000001, 0x3e45798ee2308c3a, 0x4024000000000000};
  for (size_t i = 0; i < sizeof bits / sizeof *bits; i++) {
    kiln_number_t number = {0};
    memcpy(&number.real, &bits[i], sizeof number.real);
    kiln_buffer_t text;
    kiln_buffer_init(&text);
    kiln_text_print_number(&text, number);
    kiln_number_t back = parse_number(kiln_buffer_text(&text));
    assert_false(back.is_integer);
    assert_true(bits_of(back.real) == bits[i]);
    kiln_buffer_deinit(&text);
  }
}

static void numbers_mean_what_they_say(void **state) {
  (void)state;
  assert_true(parse_number("0x1.8p3").real == 12.0);
  assert_true(parse_number("-1e-5").real == -1e-5);
  assert_true(parse_number("1.").real == 1.0);
  assert_true(parse_number("--1.5").real == 1.5);
  assert_true(parse_number("-inf").real == -INFINITY);
  assert_true(bits_of(parse_number("-nan").real) == 0xfff8000000000000);
  assert_true(parse_number("-9223372036854775808").integer == INT64_MIN);
  assert_true(parse_number("0x7fffffffffffffff").integer == INT64_MAX);
  assert_true(parse_number("true").is_integer);
  assert_int_equal(parse_number("true").integer, 1);
  assert_prints_as((kiln_number_t){false, 0, -0.0}, "-0.0");
  assert_prints_as((kiln_number_t){false, 0, 1e22}, "1e+22");
  assert_prints_as((kiln_number_t){false, 0, 3.0}, "3.0");
  assert_prints_as((kiln_number_t){true, 3, 3.0}, "3");
}

/* --- dimensions ----------------------------------------------------------------------------------------- */

static void assert_dim(const char *expression, const char *expected) {
  const char *text = kiln_arena_printf(&arena, "graph g[T,U](%%x: f32[%s]) { return %%x }", expression);
  const char *printed = text_of(&arena, graph_from(&arena, text));
  const char *start = strstr(printed, "f32[") + 4;
  assert_string_equal(kiln_arena_strndup(&arena, start, strcspn(start, "]")), expected);
}

static void dimension_expressions_have_the_usual_precedence(void **state) {
  (void)state;
  assert_dim("32*128", "4096");
  assert_dim("2+3*T", "3*T+2");
  assert_dim("(2+3)*T", "5*T");
  assert_dim("(T+1)*(T-1)+1", "T*T");
  assert_dim("4*T/2/2", "T");
  assert_dim("(6*T*U)/(3*U)", "2*T");
  assert_dim("10-2-3", "5");
  assert_dim("-T+2*T", "T");
  assert_dim("0x10", "16");
  assert_dim("- -4", "4");
}

/* --- errors --------------------------------------------------------------------------------------------- */

static kiln_status_t parse_error(const char *text, size_t size) {
  kiln_graph_list_t list;
  kiln_status_t status = kiln_text_parse(&arena, "f", text, size, &list);
  if (!status) print_message("accepted: %.*s\n", (int)size, text);
  assert_non_null(status);
  return status;
}

static void assert_refused(const char *text, kiln_code_t code, const char *message) {
  kiln_status_t status = parse_error(text, strlen(text));
  assert_string_equal(kiln_status_message(status), message);
  assert_int_equal(kiln_status_code(status), code);
  unsigned line, column;
  assert_int_equal(sscanf(message, "f:%u:%u:", &line, &column), 2);
  assert_int_equal(atoi(kiln_status_detail(status, "line")), line);
  assert_int_equal(atoi(kiln_status_detail(status, "column")), column);
  kiln_status_free(status);
}

#define BODY(statements) "graph g[T](%x: f32[4,8]) {\n" statements "\nreturn %x }"

static void syntax_errors_say_what_was_expected_and_where(void **state) {
  (void)state;
  static const struct {
    const char *text, *message;
  } cases[] = {
      {"", "f:1:1: expected 'graph', found the end of the text"},
      {"  # only a comment", "f:1:19: expected 'graph', found the end of the text"},
      {"grahp g() {}", "f:1:1: expected 'graph', found 'grahp'"},
      {"graph (", "f:1:7: expected the graph's name, found '('"},
      {"graph g(x", "f:1:9: expected an input, found 'x'"},
      {"graph g(%x f32[1])", "f:1:12: expected ':', found 'f32'"},
      {"graph g(%x: f33[1])", "f:1:13: expected a dtype, found 'f33'"},
      {"graph g(%x: f32[1,])", "f:1:19: expected a dimension, found ']'"},
      {"graph g(%x: f32[S])", "f:1:17: unknown symbol 'S'"},
      {"graph g(%x: f32[3/2])", "f:1:18: the division is not exact"},
      {"graph g(%x: f32[1/0])", "f:1:18: the division is not exact"},
      {"graph g(%x: f32[9223372036854775807+1])", "f:1:36: the dimension leaves 64 bits"},
      {"graph g(%x: f32[9223372036854775808])", "f:1:17: the integer does not fit 64 bits"},
      {"graph g(%x: f32[99999999999999999999])", "f:1:17: the number is out of range"},
      {"graph g(%x: f32[12ab])", "f:1:17: malformed number"},
      {"graph g[T,T](%x: f32[T]) { return %x }", "f:1:11: the symbol is declared twice"},
      {"graph g[A,B,C,D,E,F,G,H,I]() {", "f:1:25: a graph has at most 8 symbols"},
      {"graph g(%x: f32[2], %x: f32[2]) {", "f:1:21: %x is defined twice"},
      {"graph g(%x: f32[2] strides [1,1]) {", "f:1:28: 2 strides for 1 dimensions"},
      {"graph g(%x: f32[2] align x) {", "f:1:26: expected an alignment in bytes, found 'x'"},
      {"graph g() { return }", "f:1:20: expected a value, found '}'"},
      {"graph g(%x: f32[2]) { return %y }", "f:1:30: %y is not defined above"},
      {BODY("%y = add(%x, %z)"), "f:2:14: %z is not defined above"},
      {BODY("%y = add(%x, %y)"), "f:2:14: %y is not defined above"},
      {BODY("%x = neg(%x)"), "f:2:1: %x is defined twice"},
      {BODY("%y = nge(%x)"), "f:2:6: unknown op 'nge'"},
      {BODY("%y, %z = neg(%x)"), "f:2:1: neg gives 1 results, not 2"},
      {BODY("%y = split(%x) {dim=1, sizes=[4,4]}"), "f:2:1: split gives 2 results, not 1"},
      {BODY("%y = neg(%x) : f32[8,4]"), "f:2:16: the result is f32[4,8], not f32[8,4]"},
      {BODY("%y = cat(%x) {dim=1.5}"), "f:2:19: expected an integer, found '1.5'"},
      {BODY("%y = cat(%x) {dim=\"1\"}"), "f:2:19: expected an integer, found '1'"},
      {BODY("%y = sum(%x) {keepdim=1}"), "f:2:23: expected true or false, found '1'"},
      {BODY("%y = sum(%x) {dims=1}"), "f:2:20: expected '[', found '1'"},
      {BODY("%y = gelu(%x) {approximate=tanh}"), "f:2:28: expected a string, found 'tanh'"},
      {BODY("%y = gelu(%x) {approximate=\"tanh"), "f:2:28: the string does not end"},
      {BODY("%y = gelu(%x) {approximate=\"\\x\"}"), "f:2:28: only \\n, \\t, \\\" and \\\\ are escapes"},
      {BODY("%y = clamp(%x) {min=1e999}"), "f:2:21: the number is out of range"},
      {BODY("%y = clamp(%x) {min=nan(1)}"), "f:2:25: expected the 64 bits of a NaN, as in "
                                            "nan(0x7ff8000000000001), found '1'"},
      {BODY("%y = neg(%x) ;"), "f:2:14: unexpected character (byte 0x3b)"},
      {BODY("# \xc3\xa9\xc3\xa9\n%y = neg(%x) \xc3\xa9"), "f:3:14: unexpected character (byte 0xc3)"},
      {"graph g(%x: f32[2]) { return %x } graph g(%x: f32[2]) { return %x }",
       "f:1:41: graph 'g' stands twice in the file"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_refused(cases[i].text, KILN_INVALID_GRAPH, cases[i].message);
  }
}

static void reserved_words_are_unsupported_by_name(void **state) {
  (void)state;
  assert_refused(BODY("%y = attention(%x, %x, %x, none)"), KILN_UNSUPPORTED,
                 "f:2:6: op 'attention' is not supported yet");
  assert_refused("graph g(%x: i16[4])", KILN_UNSUPPORTED, "f:1:13: dtype i16 is not supported yet");
  assert_refused(BODY("%y = cast(%x) {dtype=f8e4m3}"), KILN_UNSUPPORTED,
                 "f:2:22: dtype f8e4m3 is not supported yet");
  assert_refused("graph g(%x: f32[4] donate)", KILN_UNSUPPORTED, "f:1:20: 'donate' is not supported yet");
  assert_refused("graph g(%x: f32[4] align 4 donate)", KILN_UNSUPPORTED,
                 "f:1:28: 'donate' is not supported yet");
  assert_refused("graph g(%x: f32[4]) { return %x into %x }", KILN_UNSUPPORTED,
                 "f:1:33: 'into' is not supported yet");
}

static void nul_is_refused_everywhere(void **state) {
  (void)state;
  static const char text[] = "graph g(%x: f32[4]) { # \0 comment\nreturn %x }";
  kiln_status_t status = parse_error(text, sizeof text - 1);
  assert_string_equal(kiln_status_message(status), "f:1:25: unexpected character (byte 0x00)");
  kiln_status_free(status);
}

static void nesting_is_bounded(void **state) {
  (void)state;
  enum { DEPTH = 100000 };
  static char text[2 * DEPTH + 64];
  strcpy(text, "graph g(%x: f32[");
  memset(text + strlen(text), '(', DEPTH);
  assert_refused(text, KILN_INVALID_GRAPH, "f:1:117: parentheses are nested too deeply");
  strcpy(text, "graph g(%x: f32[");
  memset(text + 16, '-', DEPTH);
  strcpy(text + 16 + DEPTH, "4]) { return %x }");
  graph_from(&arena, text);
}

static void every_truncation_is_one_clear_error(void **state) {
  (void)state;
  static const char text[] = "graph g[T=16](%x: f32[T,64] strides [64,1] align 4) {\n"
                             "  %a, %b = split(%x) {dim=1, sizes=[32,32]} : f32[T,32], f32[T,32]\n"
                             "  %c = gelu(%a) {approximate=\"tanh\"}\n"
                             "  %d = clamp(%c) {min=-1.5e-3, max=nan(0x7ff8000000000001)}\n"
                             "  return %d strides [1,T], %b\n"
                             "}";
  graph_from(&arena, text);
  for (size_t size = 0; size < sizeof text - 1; size++) {
    char *exact = malloc(size ? size : 1); /* so that the sanitizer sees a read past the end */
    memcpy(exact, text, size);
    kiln_status_free(parse_error(exact, size));
    free(exact);
  }
}

/* --- size ----------------------------------------------------------------------------------------------- */

static void a_deep_chain_parses_and_prints(void **state) {
  (void)state;
  enum { DEPTH = 50000 };
  kiln_buffer_t text;
  kiln_buffer_init(&text);
  kiln_buffer_puts(&text, "graph g(%v0: f32[2]) {\n");
  for (int i = 0; i < DEPTH; i++) kiln_buffer_printf(&text, "  %%v%d = neg(%%v%d) : f32[2]\n", i + 1, i);
  kiln_buffer_printf(&text, "  return %%v%d\n}\n", DEPTH);
  assert_string_equal(text_of(&arena, graph_from(&arena, kiln_buffer_text(&text))), kiln_buffer_text(&text));
  kiln_buffer_deinit(&text);
}

/* Columns were once counted from the start of the line for every token. */
static void a_graph_on_one_long_line_is_linear_work(void **state) {
  (void)state;
  enum { COUNT = 200000 };
  kiln_buffer_t text;
  kiln_buffer_init(&text);
  kiln_buffer_puts(&text, "graph g(%x: f32[2]) { %y = cat(%x");
  for (int i = 1; i < COUNT; i++) kiln_buffer_puts(&text, ", %x");
  kiln_buffer_puts(&text, ") {dim=0} return %y }");
  const kiln_graph_t *graph = graph_from(&arena, kiln_buffer_text(&text));
  assert_int_equal(graph->nodes[0].operand_count, COUNT);
  kiln_buffer_deinit(&text);
}

static void unnamed_and_clashing_values_get_names_of_their_own(void **state) {
  (void)state;
  kiln_graph_builder_t *builder = kiln_graph_builder_create(&arena, "g");
  kiln_type_t type = {.dtype = KILN_DTYPE_f32};
  kiln_value_id_t x = kiln_graph_builder_input(builder, "t2", type, NULL);
  kiln_value_id_t a = kiln_graph_builder_node(builder, KILN_OP_neg, &x, 1, NULL, 0, &type, 1, 0);
  kiln_value_id_t b = kiln_graph_builder_node(builder, KILN_OP_neg, &a, 1, NULL, 0, &type, 1, 0);
  kiln_value_id_t c = kiln_graph_builder_node(builder, KILN_OP_neg, &b, 1, NULL, 0, &type, 1, 0);
  kiln_graph_builder_name(builder, a, "t2");
  kiln_graph_builder_name(builder, c, "not a name");
  kiln_graph_builder_output(builder, c, NULL);
  const char *text = text_of(&arena, kiln_graph_builder_finish(builder));
  assert_string_equal(text, "graph g(%t2: f32[]) {\n  %t1 = neg(%t2) : f32[]\n  %t2_ = neg(%t1) : f32[]\n"
                            "  %t3 = neg(%t2_) : f32[]\n  return %t3\n}\n");
  assert_round_trip(text);
}

static void dot_output_names_every_node_and_edge(void **state) {
  (void)state;
  kiln_buffer_t dot;
  kiln_buffer_init(&dot);
  kiln_text_print_dot(&arena, &dot,
                      graph_from(&arena, "graph g(%x: f32[2]) { %y = add(%x, %x) return %y, %x }"));
  assert_string_equal(kiln_buffer_text(&dot), "digraph \"g\" {\n"
                                              "  node [shape=box];\n"
                                              "  i0 [shape=ellipse, label=\"%x\"];\n"
                                              "  n0 [label=\"%y = add\"];\n"
                                              "  i0 -> n0 [label=\"f32[2]\"];\n"
                                              "  i0 -> n0 [label=\"f32[2]\"];\n"
                                              "  o0 [shape=ellipse, label=\"output 0\"];\n"
                                              "  n0 -> o0;\n"
                                              "  o1 [shape=ellipse, label=\"output 1\"];\n"
                                              "  i0 -> o1;\n"
                                              "}\n");
  kiln_buffer_deinit(&dot);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_worked_example_parses_and_round_trips),
      cmocka_unit_test(layouts_alignments_and_several_results_round_trip),
      cmocka_unit_test(attributes_of_every_kind_round_trip),
      cmocka_unit_test(the_examples_round_trip),
      cmocka_unit_test(numbers_keep_every_bit),
      cmocka_unit_test(numbers_mean_what_they_say),
      cmocka_unit_test(dimension_expressions_have_the_usual_precedence),
      cmocka_unit_test(syntax_errors_say_what_was_expected_and_where),
      cmocka_unit_test(reserved_words_are_unsupported_by_name),
      cmocka_unit_test(nul_is_refused_everywhere),
      cmocka_unit_test(nesting_is_bounded),
      cmocka_unit_test(every_truncation_is_one_clear_error),
      cmocka_unit_test(a_deep_chain_parses_and_prints),
      cmocka_unit_test(a_graph_on_one_long_line_is_linear_work),
      cmocka_unit_test(unnamed_and_clashing_values_get_names_of_their_own),
      cmocka_unit_test(dot_output_names_every_node_and_edge),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
