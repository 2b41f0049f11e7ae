/* tests/unit/test_passes_pipeline.c: the composition of passes, codegen and plans, and the keys under which
 * results are stored. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ir/canonical.h"
#include "server/pipeline.h"
#include "tests/support/equivalence.h"

static const char rope[] =
    "graph rope[T=4096](%q: bf16[1,32,T,128] strides [T*4096,128,4096,1], %fr: f32[1,T,64]) {"
    " %e = cat(%fr, %fr) {dim=-1} %c = cos(%e) %ch = cast(%c) {dtype=bf16}"
    " %cf = cast(%ch) {dtype=f32} %qf = cast(%q) {dtype=f32} %p = mul(%qf, %cf)"
    " %y = cast(%p) {dtype=bf16} return %y align 256 }";

static int set_up(void **state) {
  *state = calloc(1, sizeof(kiln_arena_t));
  return *state ? 0 : -1;
}

static int tear_down(void **state) {
  kiln_arena_deinit(*state);
  free(*state);
  return 0;
}

static kiln_target_t h200(void) {
  kiln_target_t target;
  assert_null(kiln_target_parse("sm_90", &target));
  return target;
}

static const kiln_symbol_class_t any_symbols = {.multiple = {1, 1, 1, 1, 1, 1, 1, 1}};

/* f32[count] that counts from first, as text. */
static char *counting_constant(kiln_arena_t *arena, const char *name, int first, int count) {
  kiln_buffer_t text;
  kiln_buffer_init(&text);
  kiln_buffer_printf(&text, " %%%s = constant() {dtype=f32, shape=[%d], values=[", name, count);
  for (int i = 0; i < count; i++) kiln_buffer_printf(&text, i ? ",%d" : "%d", first + i);
  kiln_buffer_printf(&text, "]}");
  char *copy = kiln_arena_strdup(arena, kiln_buffer_text(&text));
  kiln_buffer_deinit(&text);
  return copy;
}

static const kiln_slot_t *constant_slot(const kiln_launch_t *launch, uint32_t which) {
  for (uint32_t i = 0; i < launch->slot_count; i++) {
    if (launch->slots[i].kind == KILN_SLOT_CONSTANT && !which--) return &launch->slots[i];
  }
  return NULL;
}

/* Two constants of 80 KB, too large for the source; the second is read by both launches. */
static void plan_carries_large_constants_once_and_numbers_them_itself(void **state) {
  kiln_arena_t *arena = *state;
  enum { COUNT = 20000 };
  const char *text = kiln_arena_printf(
      arena,
      "graph g(%%x: f32[%d], %%i: i64[%d]) {%s%s %%p = add(%%x, %%a) %%q = mul(%%p, %%b)"
      " %%r = gather(%%b, %%i) {dim=0} return %%q, %%r }",
      COUNT, COUNT, counting_constant(arena, "a", 0, COUNT), counting_constant(arena, "b", 7, COUNT));
  kiln_target_t target = h200();
  kiln_options_t options = {.unfused = true};
  kiln_pipeline_t pipeline;
  kiln_pass_run_t none = {.list = ""};
  kiln_status_t status = kiln_pipeline_generate(arena, kiln_test_graph(arena, text), &target, &options,
                                                &any_symbols, &none, &pipeline);
  if (status) fail_msg("%s", kiln_status_message(status));
  kiln_digest_t *keys = KILN_NEW_ARRAY(arena, kiln_digest_t, pipeline.grouping->group_count);
  const kiln_plan_t *plan = kiln_pipeline_plan(arena, &pipeline, keys);
  kiln_buffer_t bytes;
  kiln_buffer_init(&bytes);
  kiln_plan_encode(plan, &bytes);
  status = kiln_plan_decode(arena, bytes.data, bytes.size, &plan);
  kiln_buffer_deinit(&bytes);
  if (status) fail_msg("%s", kiln_status_message(status));
  assert_int_equal(plan->constant_count, 2);
  uint32_t readers[2] = {0};
  for (uint32_t i = 0; i < plan->launch_count; i++) {
    const kiln_slot_t *slot = constant_slot(&plan->launches[i], 0);
    if (slot) readers[slot->buffer.index]++;
  }
  assert_true(readers[0] >= 1 && readers[1] >= 1);
  for (uint32_t c = 0; c < 2; c++) {
    assert_int_equal(plan->constants[c].size, COUNT * sizeof(float));
    const float *values = plan->constants[c].data;
    assert_true(values[0] == 0 || values[0] == 7);
    assert_true(values[COUNT - 1] == values[0] + COUNT - 1);
  }
}

static void plan_holds_boundary_tensors_slots_and_launches(void **state) {
  kiln_arena_t *arena = *state;
  kiln_target_t target = h200();
  kiln_options_t options = {0};
  kiln_pipeline_t pipeline;
  kiln_status_t status = kiln_pipeline_generate(arena, kiln_test_graph(arena, rope), &target, &options,
                                                &any_symbols, NULL, &pipeline);
  if (status) fail_msg("%s", kiln_status_message(status));
  kiln_digest_t keys[2] = {kiln_sha256("a", 1), kiln_sha256("b", 1)};
  const kiln_plan_t *plan = kiln_pipeline_plan(arena, &pipeline, keys);
  assert_int_equal(plan->symbol_count, 1);
  assert_int_equal(plan->launch_count, 2);
  assert_true(kiln_digest_equal(&plan->launches[1].kernel, &keys[1]));
  assert_int_equal(plan->input_count, 2);
  assert_true(kiln_dim_is(plan->inputs[0].strides[2], 4096));
  assert_true(kiln_dim_is(plan->inputs[1].strides[1], 64)); /* dense, spelled out */
  assert_int_equal(plan->outputs[0].align_bytes, 256);
  assert_int_equal(plan->slot_count, 1);
  int64_t bytes, tokens = 10;
  assert_true(kiln_dim_eval(plan->slots[0].bytes[0], &tokens, &bytes));
  assert_int_equal(bytes, 10 * 64 * 2); /* the table: bf16, one half */
}

static void a_kernel_found_unfit_later_is_divided_until_it_is_one_node(void **state) {
  kiln_arena_t *arena = *state;
  kiln_target_t target = h200();
  kiln_options_t options = {0};
  kiln_pipeline_t pipeline;
  assert_null(kiln_pipeline_generate(
      arena,
      kiln_test_graph(arena, "graph g(%x: f32[100]) { %a = neg(%x) %b = abs(%a) %c = sqrt(%b) %d = floor(%c)"
                             " %y = abs(%x) return %d, %y }"),
      &target, &options, &any_symbols, NULL, &pipeline));
  assert_int_equal(pipeline.grouping->group_count, 1);
  const uint32_t launches[] = {2, 3}; /* the two results apart, then the longer one in halves */
  for (size_t i = 0; i < 2; i++) {
    const kiln_verdict_t verdict = {0, "it spills"};
    assert_null(kiln_pipeline_divide(arena, &target, &options, &any_symbols, &verdict, 1, &pipeline));
    assert_int_equal(pipeline.grouping->group_count, launches[i]);
    for (uint32_t k = 0; k < launches[i]; k++) assert_non_null(pipeline.kernels[k].source);
  }
  uint32_t single = UINT32_MAX, explained = 0;
  for (uint32_t k = 0; k < pipeline.grouping->group_count; k++) {
    if (pipeline.grouping->groups[k].node_count == 1) single = k;
    explained += strstr(pipeline.grouping->groups[k].reason, "it spills") != NULL;
  }
  assert_true(explained >= 1);
  const kiln_verdict_t verdict = {single, "it spills"};
  assert_false(kiln_pipeline_stands(&pipeline, single));
  assert_null(kiln_pipeline_divide(arena, &target, &options, &any_symbols, &verdict, 1, &pipeline));
  assert_int_equal(pipeline.grouping->group_count, launches[1]);
  assert_true(kiln_pipeline_stands(&pipeline, single));
}

static void members_that_share_an_unfit_kernel_are_divided_alike(void **state) {
  kiln_arena_t *arena = *state;
  kiln_target_t target = h200();
  kiln_options_t options = {0};
  kiln_pipeline_t pipeline;
  const kiln_verdict_t verdict = {0, "it spills"};
  assert_null(kiln_pipeline_generate(
      arena,
      kiln_test_graph(arena, "graph g(%a: f32[64,512], %b: f32[96,512]) {"
                             " %c = softmax(%a) {dim=1} %d = neg(%c) %e = exp(%d) %f = sum(%e) {dims=[1]}"
                             " %p = softmax(%b) {dim=1} %q = neg(%p) %r = exp(%q) %s = sum(%r) {dims=[1]}"
                             " return %f, %s }"),
      &target, &options, &any_symbols, NULL, &pipeline));
  assert_int_equal(pipeline.grouping->group_count, 1);
  assert_int_equal(pipeline.grouping->groups[0].member_count, 2);
  assert_null(kiln_pipeline_divide(arena, &target, &options, &any_symbols, &verdict, 1, &pipeline));
  assert_int_equal(pipeline.grouping->group_count, 2);
  for (uint32_t k = 0; k < 2; k++) assert_int_equal(pipeline.grouping->groups[k].member_count, 2);
}

static void errors_say_what_was_being_done(void **state) {
  kiln_arena_t *arena = *state;
  kiln_target_t target = h200();
  kiln_options_t options = {0};
  kiln_pipeline_t pipeline;
  kiln_pass_run_t run = {.list = "frobnicate"};
  kiln_status_t status =
      kiln_pipeline_optimize(arena, kiln_test_graph(arena, rope), &target, &options, &run, &pipeline);
  assert_int_equal(kiln_status_code(status), KILN_INVALID_ARGUMENT);
  assert_non_null(strstr(kiln_status_message(status), "while optimizing graph 'rope'"));
  kiln_status_free(status);
}

static kiln_digest_t key_of(kiln_arena_t *arena, const char *text, const kiln_target_t *target,
                            kiln_options_t options, kiln_symbol_class_t symbol_class, const char *identity) {
  return kiln_pipeline_plan_key(arena, kiln_test_graph(arena, text), target, &options, &symbol_class,
                                identity);
}

static void plan_key_depends_on_everything_but_names_and_order(void **state) {
  kiln_arena_t *arena = *state;
  const char *text =
      "graph g[T](%x: f32[T], %y: f32[T]) { %a = sin(%x) %b = cos(%y) %c = add(%a, %b) return %c }";
  const char *other_names =
      "graph h[N](%p: f32[N], %q: f32[N]) { %b = cos(%q) %a = sin(%p) %s = add(%a, %b) return %s }";
  const char *other_graph =
      "graph g[T](%x: f32[T], %y: f32[T]) { %a = sin(%x) %b = sin(%y) %c = add(%a, %b) return %c }";
  kiln_target_t target = h200(), fewer_sms = h200();
  fewer_sms.sm_count--;
  kiln_options_t options = {0}, unfused = {.unfused = true};
  kiln_symbol_class_t multiple = any_symbols, wide = any_symbols, unused = any_symbols;
  multiple.multiple[0] = 16;
  unused.multiple[1] = 16; /* of a symbol that the graph has not */
  wide.wide = true;
  kiln_digest_t key = key_of(arena, text, &target, options, any_symbols, "nvrtc 12.4");
  kiln_digest_t same[] = {key_of(arena, other_names, &target, options, any_symbols, "nvrtc 12.4"),
                          key_of(arena, text, &target, options, unused, "nvrtc 12.4")};
  kiln_digest_t different[] = {key_of(arena, other_graph, &target, options, any_symbols, "nvrtc 12.4"),
                               key_of(arena, text, &fewer_sms, options, any_symbols, "nvrtc 12.4"),
                               key_of(arena, text, &target, unfused, any_symbols, "nvrtc 12.4"),
                               key_of(arena, text, &target, options, multiple, "nvrtc 12.4"),
                               key_of(arena, text, &target, options, wide, "nvrtc 12.4"),
                               key_of(arena, text, &target, options, any_symbols, "nvrtc 13.0")};
  for (size_t i = 0; i < sizeof same / sizeof *same; i++) assert_true(kiln_digest_equal(&key, &same[i]));
  for (size_t i = 0; i < sizeof different / sizeof *different; i++) {
    assert_false(kiln_digest_equal(&key, &different[i]));
  }
}

static void kernel_key_depends_on_source_target_and_compiler(void **state) {
  (void)state;
  kiln_target_t target = h200(), older;
  assert_null(kiln_target_parse("sm_80", &older));
  kiln_digest_t key = kiln_pipeline_kernel_key("source", &target, "nvrtc 12.4");
  kiln_digest_t same = kiln_pipeline_kernel_key("source", &target, "nvrtc 12.4");
  kiln_digest_t different[] = {kiln_pipeline_kernel_key("source ", &target, "nvrtc 12.4"),
                               kiln_pipeline_kernel_key("source", &older, "nvrtc 12.4"),
                               kiln_pipeline_kernel_key("source", &target, "nvrtc 13.0")};
  assert_true(kiln_digest_equal(&key, &same));
  for (size_t i = 0; i < 3; i++) assert_false(kiln_digest_equal(&key, &different[i]));
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

static void a_symbol_is_known_by_its_divisor_and_by_tensors_past_32_bits(void **state) {
  kiln_arena_t *arena = *state;
  /* 65536 * 32768 is 2^31; the unread value of 2^40 elements leaves the graph with its node. */
  const kiln_graph_t *graph = kiln_graph_canonicalize(
      arena, kiln_test_graph(arena, "graph g[T](%x: u8[T,65536]) { %d = full() {shape=[1048576,1048576], "
                                    "value=0, dtype=u8} %y = bitwise_not(%x) return %y }"));
  static const struct {
    int64_t value, multiple;
    bool wide;
  } cases[] = {{-1, 1, false}, {0, 16, false}, {24, 8, false}, {32767, 1, false}, {32768, 16, true}};
  kiln_extents_t extents = kiln_pipeline_extents(arena, arena, graph);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    kiln_symbol_class_t class = kiln_pipeline_symbol_class(&extents, 1, &cases[i].value);
    assert_int_equal(class.multiple[0], cases[i].multiple);
    assert_int_equal(class.multiple[1], 1);
    assert_int_equal(class.wide, cases[i].wide);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(plan_carries_large_constants_once_and_numbers_them_itself),
      TEST(plan_holds_boundary_tensors_slots_and_launches),
      TEST(a_kernel_found_unfit_later_is_divided_until_it_is_one_node),
      TEST(members_that_share_an_unfit_kernel_are_divided_alike),
      TEST(errors_say_what_was_being_done),
      TEST(a_symbol_is_known_by_its_divisor_and_by_tensors_past_32_bits),
      TEST(plan_key_depends_on_everything_but_names_and_order),
      TEST(kernel_key_depends_on_source_target_and_compiler),
  };
  return cmocka_run_group_tests_name("passes: pipeline", tests, NULL, NULL);
}
