/* tests/unit/test_passes_horizontal.c: which vertical groups share a launch, and what must never happen then.
 *
 * Families are those of tests/support/fake_families.h. Launches are written as kind and number of members:
 * "c3 r1" is a contraction of three members, then rows alone. The faults are those of a well-known pass that
 * groups matrix products and layer norms; its own results stand in the comments.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ir/canonical.h"
#include "passes/passes.h"
#include "tests/support/equivalence.h"
#include "tests/support/fake_families.h"
#include "tests/support/grouping_check.h"
#include "tests/support/random_graph.h"

/* Memory is no question but where a test makes it one: the limits are relative to all that a graph holds. */
static const kiln_target_t target = {.arch = "sm_90", .sm_count = 132, .memory_gb_per_s = 4800};

static const kiln_graph_t *optimize(kiln_arena_t *arena, const kiln_graph_t *graph) {
  kiln_options_t options = {0};
  kiln_pass_report_t report;
  kiln_status_t status = kiln_passes_run(arena, graph, &options, NULL, &graph, &report);
  if (status) fail_msg("%s", kiln_status_message(status));
  return graph;
}

static const kiln_grouping_t *group_with(kiln_arena_t *arena, const kiln_graph_t *optimized,
                                         const kiln_cuts_t *cuts) {
  kiln_options_t options = {0};
  const kiln_grouping_t *grouping;
  kiln_families_t families = kiln_test_families();
  kiln_status_t status = kiln_group(arena, optimized, &families, &target, &options, cuts, &grouping);
  if (status) fail_msg("%s", kiln_status_message(status));
  const char *fault = kiln_test_grouping_fault(arena, optimized, grouping);
  if (fault) fail_msg("%s", fault);
  return grouping;
}

static const kiln_grouping_t *group(kiln_arena_t *arena, const kiln_graph_t *graph) {
  return group_with(arena, optimize(arena, graph), NULL);
}

static const char *launches_of(kiln_arena_t *arena, const kiln_grouping_t *grouping) {
  kiln_buffer_t *out = kiln_buffer_in_arena(arena);
  for (uint32_t i = 0; i < grouping->group_count; i++)
    kiln_buffer_printf(out, i ? " %c%u" : "%c%u", grouping->groups[i].kind[0],
                       grouping->groups[i].member_count);
  return kiln_buffer_text(out);
}

static int set_up(void **state) {
  *state = calloc(1, sizeof(kiln_arena_t));
  return *state ? 0 : -1;
}

static int tear_down(void **state) {
  kiln_arena_deinit(*state);
  free(*state);
  return 0;
}

static void expect(kiln_arena_t *arena, const char *launches, const char *text) {
  const char *got = launches_of(arena, group(arena, kiln_test_graph(arena, text)));
  if (strcmp(got, launches)) fail_msg("%s, not %s: %s", got, launches, text);
}

/* --- gemms (faults 1, 2, 3, 6, 14) --------------------------------------------------------------------- */

/* A product over nothing reads what no launch has written. */
static void gemm_of_an_empty_result_needs_no_launch_before(void **state) {
  const char *text = "graph g(%a: f32[4,0]) { %b = neg(%a) %y = gemm_rcr(%a, %b) return %y }";
  const kiln_graph_t *graph = kiln_test_graph(*state, text); /* the passes would find that it is 0 */
  assert_string_equal(launches_of(*state, group_with(*state, graph, NULL)), "c1");
}

/* It crashes while rewriting. */
static void gemms_of_different_m_share_a_launch(void **state) {
  expect(*state, "c2",
         "graph g(%a: f16[128,64], %b: f16[256,64], %v: f16[32,64], %w: f16[32,64]) {"
         " %x = gemm_rcr(%a, %v) %y = gemm_rcr(%b, %w) return %x, %y }");
}

static void gemm_of_a_tensor_with_itself_shares_a_launch(void **state) {
  expect(*state, "c2",
         "graph g(%a: f16[64,64], %w: f16[64,64]) { %x = gemm_rcr(%a, %a) %y = gemm_rcr(%a, %w)"
         " return %x, %y }");
}

static void gemm_fed_by_two_outputs_of_one_split_shares_a_launch(void **state) {
  expect(*state, "c2",
         "graph g(%x: f16[96,64], %w: f16[32,64]) { %a, %b, %c = split(%x) {dim=0, sizes=[32,32,32]}"
         " %p = gemm_rcr(%a, %b) %q = gemm_rcr(%c, %w) return %p, %q }");
}

/* It groups them and computes nonsense. */
static void gemms_of_different_dtypes_stay_apart(void **state) {
  expect(*state, "c1 c1",
         "graph g(%a: f16[128,64], %b: f32[128,64], %v: f16[32,64], %w: f32[32,64]) {"
         " %x = gemm_rcr(%a, %v) %y = gemm_rcr(%b, %w) return %x, %y }");
}

/* It loses nodes or outputs, or keeps the copy of the split: 3 launches and more. */
static void split_outputs_with_other_readers_are_read_in_place(void **state) {
  expect(*state, "c2 e1",
         "graph g(%x: f16[64,128], %v: f16[32,64], %w: f16[32,64]) {"
         " %a, %b = split(%x) {dim=1, sizes=[64,64]} %p = gemm_rcr(%a, %v) %q = gemm_rcr(%b, %w)"
         " %r = relu(%b) return %p, %q, %r }");
  expect(*state, "e1 c2",
         "graph g(%x: f16[64,128], %v: f16[32,64], %w: f16[32,64]) {"
         " %a, %b = split(%x) {dim=1, sizes=[64,64]} %p = gemm_rcr(%a, %v) %q = gemm_rcr(%b, %w)"
         " return %p, %q, %b }");
  expect(*state, "c3",
         "graph g(%x: f16[64,128], %v: f16[32,64], %w: f16[32,64]) {"
         " %a, %b = split(%x) {dim=1, sizes=[64,64]} %p = gemm_rcr(%a, %v) %q = gemm_rcr(%b, %w)"
         " %r = gemm_rcr(%b, %v) return %p, %q, %r }");
}

/* Members rejected for a dependency are never tried again. */
static void member_that_has_to_wait_joins_a_later_launch(void **state) {
  expect(*state, "c3 c2",
         "graph g(%a: f16[32,64], %b: f16[32,64], %c: f16[32,64], %w: f16[64,64],"
         " %v: f16[64,64], %u: f16[64,64]) { %x1 = gemm_rcr(%a, %w) %p = gemm_rcr(%b, %v)"
         " %x2 = gemm_rcr(%p, %w) %q = gemm_rcr(%c, %u) %x3 = gemm_rcr(%q, %w)"
         " return %x1, %x2, %x3 }");
}

/* The same, when those that come first are of another class: x1 waits for x2 and x3. */
static void member_that_is_ready_waits_for_its_class(void **state) {
  expect(*state, "e1 c3",
         "graph g(%a: f16[32,64], %b: f16[32,64], %c: f16[32,64], %w: f16[64,64]) {"
         " %x1 = gemm_rcr(%a, %w) %p = silu(%b) %x2 = gemm_rcr(%p, %w) %q = silu(%c)"
         " %x3 = gemm_rcr(%q, %w) return %x1, %x2, %x3 }");
  expect(*state, "r2 c3",
         "graph g(%a: f16[32,64], %b: f16[32,64], %c: f16[40,64], %w: f16[64,64]) {"
         " %x1 = gemm_rcr(%a, %w) %p = softmax(%b) {dim=1} %x2 = gemm_rcr(%p, %w)"
         " %q = softmax(%c) {dim=1} %x3 = gemm_rcr(%q, %w) return %x1, %x2, %x3 }");
}

static void gemms_behind_one_split_take_one_launch(void **state) {
  expect(*state, "c3",
         "graph g(%x: f16[1024,232], %u: f16[16,64], %v: f16[16,40], %w: f16[16,128], %b: f16[16]) {"
         " %p, %q, %r = split(%x) {dim=1, sizes=[64,40,128]} %a = gemm_rcr_bias(%p, %u, %b)"
         " %c = gemm_rcr_bias(%q, %v, %b) %d = gemm_rcr_bias(%r, %w, %b) return %a, %c, %d }");
}

/* --- norms (faults 4, 7, 8) ---------------------------------------------------------------------------- */

/* The wrong graph. */
static void layernorm_that_is_read_elsewhere_is_stored_as_well(void **state) {
  kiln_arena_t *arena = *state;
  const char *text =
      "graph g(%x: f16[64,128], %y: f16[64,128]) {"
      " %n = layernorm(%x, none, none) {normalized_shape=[128]} %s = sigmoid(%n) %p = mul(%x, %s)"
      " %m = layernorm(%y, none, none) {normalized_shape=[128]} %t = sigmoid(%m) %q = mul(%y, %t)"
      " %r = relu(%n) return %p, %n, %r, %q }";
  expect(arena, "r1 r1", text); /* of two structures: one stores three values */
  expect(arena, "r2",
         "graph g(%x: f16[64,128], %y: f16[64,128]) {"
         " %n = layernorm(%x, none, none) {normalized_shape=[128]} %s = sigmoid(%n) %p = mul(%x, %s)"
         " %m = layernorm(%y, none, none) {normalized_shape=[128]} %t = sigmoid(%m) %q = mul(%y, %t)"
         " return %p, %n, %q, %m }");
}

static const kiln_graph_t *many_norms(kiln_arena_t *arena, uint32_t count, uint32_t rows, uint32_t width) {
  kiln_buffer_t *text = kiln_buffer_in_arena(arena);
  kiln_buffer_puts(text, "graph norms(");
  for (uint32_t i = 0; i < count; i++)
    kiln_buffer_printf(text, "%s%%x%u: f16[%u,%u]", i ? ", " : "", i, rows, width);
  kiln_buffer_puts(text, ") {");
  for (uint32_t i = 0; i < count; i++)
    kiln_buffer_printf(text, " %%y%u = layernorm(%%x%u, none, none) {normalized_shape=[%u]}", i, i, width);
  kiln_buffer_puts(text, " return ");
  for (uint32_t i = 0; i < count; i++) kiln_buffer_printf(text, "%s%%y%u", i ? ", " : "", i);
  kiln_buffer_puts(text, " }");
  return kiln_test_graph(arena, kiln_buffer_text(text));
}

/* 39 and 1. */
static void forty_layer_norms_and_two_thousand_are_one_launch_each(void **state) {
  kiln_arena_t *arena = *state;
  assert_string_equal(launches_of(arena, group(arena, many_norms(arena, 40, 128, 64))), "r40");
  assert_string_equal(launches_of(arena, group(arena, many_norms(arena, 2000, 4, 64))), "r2000");
}

/* Its groups depend on which member comes first. */
static void classes_do_not_depend_on_the_order_of_members(void **state) {
  static const char *const widths[] = {"508", "128", "2028", "125"};
  kiln_arena_t *arena = *state;
  for (uint32_t turn = 0; turn < 4; turn++) {
    const char *w[4];
    for (uint32_t i = 0; i < 4; i++) w[i] = widths[(i + turn) % 4];
    const char *text =
        kiln_arena_printf(arena,
                          "graph g(%%a: f16[8,%s], %%b: f16[8,%s], %%c: f16[8,%s], %%d: f16[8,%s]) {"
                          " %%p = softmax(%%a) {dim=1} %%q = softmax(%%b) {dim=1} %%r = softmax(%%c) {dim=1}"
                          " %%s = softmax(%%d) {dim=1} return %%p, %%q, %%r, %%s }",
                          w[0], w[1], w[2], w[3]);
    const kiln_grouping_t *grouping = group(arena, kiln_test_graph(arena, text));
    uint32_t pairs = 0; /* 125 and 128 are of one class, whoever is first */
    for (uint32_t i = 0; i < grouping->group_count; i++) pairs += grouping->groups[i].member_count == 2;
    assert_int_equal(grouping->group_count, 3);
    assert_int_equal(pairs, 1);
  }
}

/* --- cycles (faults 5, 10) ----------------------------------------------------------------------------- */

/* A->C->X->M and Y->N->B->D: {A,B} with {X,Y} would be a cycle. Two sequences of four classes, of which two
 * can be had in common: six launches, and no order has fewer. */
static void groups_that_would_form_a_cycle_together_are_not_both_made(void **state) {
  const kiln_graph_t *graph = kiln_test_graph(
      *state,
      "graph g(%a: f16[64,64], %y: f16[64,64], %w: f16[64,64]) {"
      " %A = softmax(%a) {dim=1} %C = log_softmax(%A) {dim=0} %X = rmsnorm(%C, none) {normalized_shape=[64]}"
      " %M = gemm_rcr(%X, %w)"
      " %Y = rmsnorm(%y, none) {normalized_shape=[64]} %N = gemm_rcr(%Y, %w) %B = softmax(%N) {dim=1}"
      " %D = log_softmax(%B) {dim=0} return %M, %D }");
  assert_string_equal(launches_of(*state, group(*state, graph)), "r1 r1 r2 c2 r1 r1");
}

/* Layers of products, norms and element-wise work; every edge goes from one layer to a later one. */
static const kiln_graph_t *layered(kiln_arena_t *arena, uint64_t seed, uint32_t layers, uint32_t width) {
  kiln_buffer_t *text = kiln_buffer_in_arena(arena);
  uint32_t made = 1;
  kiln_buffer_puts(text, "graph layered(%v0: f16[32,32], %w: f16[32,32]) {");
  for (uint32_t i = 0; i < layers * width; i++, made++) {
    static const char *const ops[][2] = {{"gemm_rcr(", ", %w)"},
                                         {"softmax(", ") {dim=1}"},
                                         {"silu(", ")"},
                                         {"softmax(", ") {dim=0}"},
                                         {"add(%w, ", ")"}};
    uint32_t layer_start = made - i % width, reach = layer_start < 3 * width ? layer_start : 3 * width;
    const char *const *op = ops[kiln_random_below(&seed, 5)];
    kiln_buffer_printf(text, " %%v%u = %s%%v%u%s", made, op[0],
                       layer_start - 1 - kiln_random_below(&seed, reach), op[1]);
  }
  kiln_buffer_puts(text, " return ");
  for (uint32_t i = 0; i < width; i++) kiln_buffer_printf(text, "%s%%v%u", i ? ", " : "", made - 1 - i);
  kiln_buffer_puts(text, " }");
  return kiln_test_graph(arena, kiln_buffer_text(text));
}

/* The rules are checked by group(); every output is computed, so nothing was lost on a cycle. */
static void random_layers_are_ordered_without_cycles(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 60; seed++) {
    kiln_arena_t arena = {0};
    group(&arena, layered(&arena, seed, 8, 1 + (uint32_t)(seed % 12)));
    kiln_arena_deinit(&arena);
  }
}

static void random_graphs_keep_the_rules(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 400; seed++) {
    kiln_arena_t arena = {0};
    kiln_random_options_t random = {.node_count = 5 + (uint32_t)(seed % 60)};
    group(&arena, kiln_graph_canonicalize(&arena, kiln_random_graph(&arena, seed, &random)));
    kiln_arena_deinit(&arena);
  }
}

/* --- many (fault 9) ------------------------------------------------------------------------------------ */

/* Branches of `length` products each, one behind the other. */
static const kiln_graph_t *branches(kiln_arena_t *arena, uint32_t count, uint32_t length, uint32_t size) {
  kiln_graph_builder_t *builder = kiln_graph_builder_create(arena, "branches");
  kiln_type_t type = {
      .dtype = KILN_DTYPE_f16, .rank = 2, .dims = {kiln_dim_constant(size), kiln_dim_constant(size)}};
  kiln_value_id_t *values = KILN_NEW_ARRAY(arena, kiln_value_id_t, count);
  for (uint32_t i = 0; i < count; i++) values[i] = kiln_graph_builder_input(builder, NULL, type, NULL);
  for (uint32_t i = 0; i < count * length; i++) {
    kiln_value_id_t operands[] = {values[i % count], i % count};
    assert_null(
        kiln_graph_builder_infer(builder, KILN_OP_gemm_rcr, operands, 2, NULL, 0, 0, &values[i % count]));
  }
  for (uint32_t i = 0; i < count; i++) kiln_graph_builder_output(builder, values[i], NULL);
  return kiln_graph_canonicalize(arena, kiln_graph_builder_finish(builder));
}

/* It overflows its stack; 2,304 do not finish in 8 minutes. */
static void deep_chains_and_many_branches_are_grouped_level_by_level(void **state) {
  kiln_arena_t *arena = *state;
  assert_int_equal(group(arena, branches(arena, 1, 1000, 32))->group_count, 1000);
  const kiln_grouping_t *grouping = group(arena, branches(arena, 48, 48, 32));
  assert_int_equal(grouping->groups[0].member_count, 48);
  assert_int_equal(grouping->groups[grouping->group_count - 1].member_count, 48);
}

/* --- what decides -------------------------------------------------------------------------------------- */

/* --- in sequence, and side by side ---------------------------------------------------------------------- */

static void expect_joined(kiln_arena_t *arena, uint32_t launches, kiln_join_t join, const char *text) {
  const kiln_grouping_t *grouping = group(arena, kiln_test_graph(arena, text));
  uint32_t joined = 0;
  for (uint32_t i = 0; i < grouping->group_count; i++)
    joined += grouping->groups[i].member_count > 1 && grouping->groups[i].join == join;
  if (grouping->group_count != launches || joined != (join != KILN_JOIN_CLASS))
    fail_msg("%u launches, %u joined: %s", grouping->group_count, joined, text);
}

static void reader_of_the_same_points_runs_behind_in_the_same_blocks(void **state) {
  expect_joined(
      *state, 1, KILN_JOIN_SEQUENCE,
      "graph g(%x: f16[512,64], %g: f16[512,64], %u: f16[512,64]) { %a = gemm_rcr(%x, %g) %s = silu(%a)"
      " %b = gemm_rcr(%x, %u) %y = mul(%s, %b) return %y }");
  /* Rows of the first become columns; its result is an operand; a norm is in between. */
  expect_joined(*state, 2, KILN_JOIN_CLASS,
                "graph g(%x: f16[512,64], %g: f16[512,64], %u: f16[512,64]) { %a = gemm_rcr(%x, %g)"
                " %t = permute(%a) {dims=[1,0]} %b = gemm_rcr(%x, %u) %y = mul(%t, %b) return %y }");
  expect_joined(*state, 2, KILN_JOIN_CLASS,
                "graph g(%x: f16[64,64], %g: f16[64,64]) { %a = gemm_rcr(%x, %g) %b = gemm_rcr(%a, %g)"
                " %y = mul(%a, %b) return %y }");
  expect_joined(*state, 3, KILN_JOIN_CLASS,
                "graph g(%x: f16[512,64], %g: f16[512,64], %u: f16[512,64]) { %a = gemm_rcr(%x, %g)"
                " %s = softmax(%a) {dim=1} %b = gemm_rcr(%x, %u) %y = mul(%s, %b) return %y }");
}

static void small_launch_stands_beside_an_independent_one(void **state) {
  expect_joined(
      *state, 1, KILN_JOIN_BESIDE,
      "graph g(%x: f16[4096,4096], %t: f32[64,64]) { %a = softmax(%x) {dim=1} %c = cos(%t) return %a, %c }");
  expect_joined(
      *state, 2, KILN_JOIN_CLASS, /* both are large */
      "graph g(%x: f16[4096,4096], %t: f32[8192,64]) { %a = softmax(%x) {dim=1} %c = cos(%t) return %a, %c }");
  expect_joined(
      *state, 2, KILN_JOIN_CLASS, /* one waits for the other */
      "graph g(%x: f16[64,64]) { %a = softmax(%x) {dim=1} %p = permute(%a) {dims=[1,0]} %c = cos(%p)"
      " %d = exp(%a) %e = permute(%d) {dims=[1,0]} return %c, %e }");
}

static void large_gemms_run_alone_and_say_why(void **state) {
  kiln_arena_t *arena = *state;
  const kiln_grouping_t *grouping = group(
      arena, kiln_test_graph(arena, "graph g(%a: f16[8192,8192], %v: f16[8192,8192], %w: f16[8192,8192],"
                                    " %b: f16[128,64], %t: f16[32,64], %u: f16[32,64]) {"
                                    " %p = gemm_rcr(%a, %v) %q = gemm_rcr(%a, %w)"
                                    " %r = gemm_rcr(%b, %t) %s = gemm_rcr(%b, %u) return %p, %q, %r, %s }"));
  assert_string_equal(launches_of(arena, grouping), "c1 c1 c2");
  assert_non_null(strstr(grouping->groups[0].reason, "company would save less than 1 %"));
}

/* Ten branches of three products of [64,64]. In the middle, one by one, ten temporaries and one more are
 * alive; inputs, outputs and these are 31 matrices, so that three more may be, and no launch takes more than
 * four. */
static void members_wait_when_memory_would_pass_a_tenth_more(void **state) {
  const kiln_grouping_t *grouping = group(*state, branches(*state, 10, 3, 64));
  assert_string_equal(launches_of(*state, grouping), "c10 c4 c4 c2 c10");
  assert_int_equal(grouping->slot_count, 14);
  assert_non_null(strstr(grouping->groups[1].reason, "would raise the peak memory"));
}

/* 64 branches of three products with 16, 17 .. rows: slots, each as large as its largest temporary, waste
 * more than the first try leaves room for. */
static void launches_become_smaller_where_slots_waste_memory(void **state) {
  kiln_arena_t *arena = *state;
  kiln_buffer_t *text = kiln_buffer_in_arena(arena);
  kiln_buffer_puts(text, "graph g(%w: f32[64,64]");
  for (uint32_t i = 0; i < 64; i++) kiln_buffer_printf(text, ", %%a%u: f32[%u,64]", i, 16 + i);
  kiln_buffer_puts(text, ") {");
  for (uint32_t i = 0; i < 64; i++)
    kiln_buffer_printf(
        text, " %%b%u = gemm_rcr(%%a%u, %%w) %%c%u = gemm_rcr(%%b%u, %%w) %%d%u = gemm_rcr(%%c%u, %%w)", i, i,
        i, i, i, i);
  kiln_buffer_puts(text, " return %d0");
  for (uint32_t i = 1; i < 64; i++) kiln_buffer_printf(text, ", %%d%u", i);
  kiln_buffer_puts(text, " }");
  const kiln_grouping_t *grouping = group(arena, kiln_test_graph(arena, kiln_buffer_text(text)));
  assert_in_range(grouping->group_count, 3, 20); /* 192 one by one */
}

static void group_whose_kernel_is_unfit_is_divided_by_members(void **state) {
  kiln_arena_t *arena = *state;
  const kiln_graph_t *graph = optimize(arena, many_norms(arena, 7, 128, 64));
  kiln_cuts_t cuts = {0};
  const kiln_grouping_t *grouping = group_with(arena, graph, &cuts);
  assert_true(kiln_cut_group(arena, graph, &grouping->groups[0], "it spills", &cuts));
  grouping = group_with(arena, graph, &cuts);
  assert_string_equal(launches_of(arena, grouping), "r3 r4");
  assert_string_equal(grouping->groups[1].reason, "it spills");
  assert_true(kiln_cut_group(arena, graph, &grouping->groups[1], "it spills", &cuts));
  assert_string_equal(launches_of(arena, group_with(arena, graph, &cuts)), "r3 r2 r2");
}

static void reason_says_what_the_rest_of_a_class_waits_for(void **state) {
  kiln_arena_t *arena = *state;
  const kiln_grouping_t *grouping =
      group(arena,
            kiln_test_graph(arena, "graph g(%a: f16[32,64], %b: f16[32,64], %w: f16[64,64], %v: f16[64,64]) {"
                                   " %x = gemm_rcr(%a, %w) %p = gemm_rcr(%b, %v) %y = gemm_rcr(%p, %w)"
                                   " return %x, %y }"));
  assert_string_equal(launches_of(arena, grouping), "c2 c1");
  assert_string_equal(grouping->groups[0].reason, "1 more of its class come later: one waits for %p");
}

/* Names, the order of lines and of members change nothing. */
static void names_and_order_of_lines_change_nothing(void **state) {
  kiln_arena_t *arena = *state;
  const kiln_graph_t *a = kiln_test_graph(
      arena,
      "graph g(%a: f16[32,64], %b: f16[64,64], %w: f16[64,64]) { %x = gemm_rcr(%a, %w) %y = softmax(%b) {dim=1}"
      " %z = gemm_rcr(%b, %w) %u = softmax(%z) {dim=1} return %x, %y, %u }");
  const kiln_graph_t *b = kiln_test_graph(
      arena,
      "graph h(%i: f16[32,64], %j: f16[64,64], %k: f16[64,64]) { %r = gemm_rcr(%j, %k) %s = softmax(%r) {dim=1}"
      " %t = softmax(%j) {dim=1} %q = gemm_rcr(%i, %k) return %q, %t, %s }");
  const kiln_grouping_t *x = group(arena, a), *y = group(arena, b);
  assert_int_equal(x->group_count, y->group_count);
  for (uint32_t i = 0; i < x->group_count; i++) {
    assert_int_equal(x->groups[i].node_count, y->groups[i].node_count);
    assert_memory_equal(x->groups[i].nodes, y->groups[i].nodes, x->groups[i].node_count * sizeof(uint32_t));
  }
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      TEST(gemm_of_an_empty_result_needs_no_launch_before),
      TEST(gemms_of_different_m_share_a_launch),
      TEST(gemm_of_a_tensor_with_itself_shares_a_launch),
      TEST(gemm_fed_by_two_outputs_of_one_split_shares_a_launch),
      TEST(gemms_of_different_dtypes_stay_apart),
      TEST(split_outputs_with_other_readers_are_read_in_place),
      TEST(member_that_has_to_wait_joins_a_later_launch),
      TEST(member_that_is_ready_waits_for_its_class),
      TEST(gemms_behind_one_split_take_one_launch),
      TEST(layernorm_that_is_read_elsewhere_is_stored_as_well),
      TEST(forty_layer_norms_and_two_thousand_are_one_launch_each),
      TEST(classes_do_not_depend_on_the_order_of_members),
      TEST(groups_that_would_form_a_cycle_together_are_not_both_made),
      TEST(random_layers_are_ordered_without_cycles),
      TEST(random_graphs_keep_the_rules),
      TEST(deep_chains_and_many_branches_are_grouped_level_by_level),
      TEST(reader_of_the_same_points_runs_behind_in_the_same_blocks),
      TEST(small_launch_stands_beside_an_independent_one),
      TEST(large_gemms_run_alone_and_say_why),
      TEST(members_wait_when_memory_would_pass_a_tenth_more),
      TEST(launches_become_smaller_where_slots_waste_memory),
      TEST(group_whose_kernel_is_unfit_is_divided_by_members),
      TEST(reason_says_what_the_rest_of_a_class_waits_for),
      TEST(names_and_order_of_lines_change_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
