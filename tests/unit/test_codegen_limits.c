/* tests/unit/test_codegen_limits.c: what codegen refuses, leaves out or hands on: groups that explode, names,
 * large constants, excess precision.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ir/text.h"
#include "server/pipeline.h"

static const kiln_symbol_class_t any_size = {{1, 1, 1, 1, 1, 1, 1, 1}, false};
static const kiln_pass_run_t no_passes = {.list = ""};

static kiln_status_t generate(kiln_arena_t *arena, const char *text, const kiln_options_t *options,
                              kiln_pipeline_t *out) {
  kiln_graph_list_t list = {0};
  kiln_target_t target;
  assert_null(kiln_text_parse(arena, "test", text, strlen(text), &list));
  assert_null(kiln_target_parse("sm_90", &target));
  return kiln_pipeline_generate(arena, list.graphs[0], &target, options, &any_size, &no_passes, out);
}

static const char *source_of(kiln_arena_t *arena, const char *text, const kiln_options_t *options) {
  kiln_pipeline_t pipeline;
  kiln_status_t status = generate(arena, text, options, &pipeline);
  if (status) fail_msg("%s", kiln_status_message(status));
  return pipeline.kernels[0].source;
}

/* Each step reads the one before at two places: 2^39 elements per element. */
static void a_group_that_doubles_its_reads_is_cut(void **state) {
  (void)state;
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  kiln_buffer_t text;
  kiln_buffer_init(&text);
  kiln_buffer_puts(&text, "graph g(%x: f32[64]) { %v0 = neg(%x) ");
  for (int i = 1; i < 40; i++) {
    int cut = i * 7 % 20 + 1;
    kiln_buffer_printf(
        &text,
        "%%a%d = slice(%%v%d) {starts=[%d], limits=[64]} %%b%d = slice(%%v%d) {starts=[0], limits=[%d]} "
        "%%c%d = cat(%%a%d, %%b%d) {dim=0} %%v%d = add(%%c%d, %%v%d) ",
        i, i - 1, cut, i, i - 1, cut, i, i, i, i, i, i - 1);
  }
  kiln_buffer_puts(&text, "return %v39 }");
  kiln_options_t options = {0};
  kiln_pipeline_t pipeline;
  kiln_status_t status = generate(&arena, kiln_buffer_text(&text), &options, &pipeline);
  if (status) fail_msg("%s", kiln_status_message(status));
  assert_in_range(pipeline.grouping->group_count, 2, 16); /* 39 steps; one kernel takes a dozen */
  assert_non_null(strstr(pipeline.grouping->groups[1].reason, "elements per element"));
  kiln_buffer_deinit(&text);
  kiln_arena_deinit(&arena);
}

static void names_do_not_enter_the_source(void **state) {
  (void)state;
  const kiln_options_t options = {0};
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  const char *one =
      source_of(&arena, "graph g[T](%x: f32[T,4]) { %y = neg(%x) %z = exp(%y) return %z }", &options);
  const char *other = source_of(
      &arena, "graph other[Rows](%p: f32[Rows,4]) { %q = neg(%p) %r = exp(%q) return %r }", &options);
  assert_string_equal(one, other);
  kiln_arena_deinit(&arena);
}

static void excess_precision_skips_roundings_but_not_casts(void **state) {
  (void)state;
  const char *text = "graph g(%x: f16[8]) { %a = exp(%x) %b = sqrt(%a) %c = cast(%b) {dtype=f32} return %c }";
  const char *narrow =
      "graph g(%x: f32[8]) { %a = cast(%x) {dtype=f16} %b = cast(%a) {dtype=f32} return %b }";
  const kiln_options_t rounded = {0}, excess = {.excess_precision = true};
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  assert_non_null(strstr(source_of(&arena, text, &rounded), "kiln_f16(exp("));
  assert_null(strstr(source_of(&arena, text, &excess), "kiln_f16(exp("));
  assert_non_null(strstr(source_of(&arena, narrow, &excess), "kiln_f16("));
  kiln_arena_deinit(&arena);
}

/* 70,000 numbers, all 3 but the last, which is 7: too many for the source. */
static void a_large_constant_is_a_slot(void **state) {
  (void)state;
  enum { COUNT = 70000 };
  const kiln_options_t options = {0};
  kiln_pipeline_t pipeline;
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  kiln_buffer_t text;
  kiln_buffer_init(&text);
  kiln_buffer_printf(&text, "graph g() { %%c = constant() {shape=[%d], dtype=i8, values=[", COUNT);
  for (int i = 1; i < COUNT; i++) kiln_buffer_puts(&text, "3,");
  kiln_buffer_puts(&text, "7]} return %c }");
  assert_null(generate(&arena, kiln_buffer_text(&text), &options, &pipeline));
  const kiln_kernel_source_t *kernel = &pipeline.kernels[0];
  assert_int_equal(kernel->slots[0].kind, KILN_SLOT_CONSTANT);
  assert_true(strlen(kernel->source) < 10000);
  size_t bytes;
  const char *data = kiln_codegen_constant(&arena, pipeline.optimized, kernel->slots[0].buffer.index, &bytes);
  assert_int_equal(bytes, COUNT);
  assert_int_equal(data[0], 3);
  assert_int_equal(data[COUNT - 1], 7);
  kiln_buffer_deinit(&text);
  kiln_arena_deinit(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_group_that_doubles_its_reads_is_cut),
      cmocka_unit_test(names_do_not_enter_the_source),
      cmocka_unit_test(excess_precision_skips_roundings_but_not_casts),
      cmocka_unit_test(a_large_constant_is_a_slot),
  };
  return cmocka_run_group_tests_name("codegen: limits", tests, NULL, NULL);
}
