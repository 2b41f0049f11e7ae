/* tests/unit/test_passes_groups.c: which nodes become one launch, and where results lie.
 *
 * The kernel family here takes element-wise, view, creation and indexing nodes, as the real one does; its
 * limits are the test's. Launch counts are those of the reference cases (nvFuser's repeat tests and its
 * rotary benchmarks) or follow from the rules in passes/group.c and cost.c.
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
#include "tests/support/grouping_check.h"
#include "tests/support/random_graph.h"

static bool accepts(const kiln_graph_t *graph, uint32_t node) {
  return kiln_op_info(graph->nodes[node].op)->op_class <= KILN_CLASS_INDEXING;
}

/* What one test works on. */
typedef struct {
  kiln_arena_t arena;
  const kiln_graph_t *graph;
  const kiln_grouping_t *grouping;
  kiln_pass_report_t report;
  uint32_t max_nodes, max_buffers;
  kiln_cuts_t cuts;
  uint64_t seed; /* of a random graph */
} fixture_t;

#define REQUIRE(f, condition)                                                                                \
  do {                                                                                                       \
    if (!(condition)) fail_msg("seed %llu: not %s", (unsigned long long)(f)->seed, #condition);              \
  } while (0)

static const kiln_target_t target = {.arch = "sm_90", .sm_count = 132, .memory_gb_per_s = 4800};

static kiln_status_t optimize_and_group(fixture_t *f, const kiln_graph_t *graph, kiln_options_t options) {
  if (!f->max_nodes) f->max_nodes = 400;
  if (!f->max_buffers) f->max_buffers = 480;
  kiln_family_t family = {"elementwise", accepts, f->max_nodes, f->max_buffers, NULL, NULL};
  kiln_families_t families = {&family, 1};
  kiln_pass_run_t run = {.list = options.unfused ? "" : NULL};
  kiln_status_t status = kiln_passes_run(&f->arena, graph, &options, &run, &f->graph, &f->report);
  if (status) return status;
  return kiln_group(&f->arena, f->graph, &families, &target, &options, &f->cuts, &f->grouping);
}

static void group_text(fixture_t *f, const char *text) {
  kiln_status_t status = optimize_and_group(f, kiln_test_graph(&f->arena, text), (kiln_options_t){0});
  if (status) fail_msg("%s", kiln_status_message(status));
}

static int set_up(void **state) {
  *state = calloc(1, sizeof(fixture_t));
  return *state ? 0 : -1;
}

static int tear_down(void **state) {
  kiln_arena_deinit(&((fixture_t *)*state)->arena);
  free(*state);
  return 0;
}

/* --- what must hold of every grouping ------------------------------------------------------------------ */

static void check_grouping(fixture_t *f) {
  const char *fault = kiln_test_grouping_fault(&f->arena, f->graph, f->grouping);
  if (fault) fail_msg("seed %llu: %s", (unsigned long long)f->seed, fault);
  for (uint32_t i = 0; i < f->grouping->group_count; i++) {
    const kiln_group_t *group = &f->grouping->groups[i];
    REQUIRE(f, group->node_count <= f->max_nodes);
    REQUIRE(f, group->input_count + group->store_count <= f->max_buffers);
  }
}

static void check_random(uint64_t seed, uint32_t max_nodes, uint32_t max_buffers, bool unfused) {
  fixture_t f = {.max_nodes = max_nodes, .max_buffers = max_buffers, .seed = seed};
  kiln_random_options_t random = {.node_count = 5 + (uint32_t)(seed % 60), .elementwise = true};
  const kiln_graph_t *graph = kiln_graph_canonicalize(&f.arena, kiln_random_graph(&f.arena, seed, &random));
  kiln_status_t status = optimize_and_group(&f, graph, (kiln_options_t){.unfused = unfused});
  if (status) fail_msg("seed %llu: %s", (unsigned long long)seed, kiln_status_message(status));
  check_grouping(&f);
  kiln_arena_deinit(&f.arena);
}

static void groups_of_random_graphs_are_closed_ordered_and_within_limits(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 300; seed++) {
    check_random(seed, 400, 480, false);
    check_random(seed, 12, 16, false);
    check_random(seed, 3, 8, false);
    check_random(seed, 400, 480, true);
  }
}

/* --- cases --------------------------------------------------------------------------------------------- */

typedef struct {
  const char *text;
  uint32_t launches, repetitions;
} case_t;

static void repetitions_are_found_and_take_one_launch(void **state) {
  (void)state;
  static const case_t cases[] = {
      {"graph g(%x: f32[32]) { %y = cat(%x, %x) {dim=-1} return %y }", 1, 1},
      {"graph g(%x: f32[32]) { %a = cat(%x, %x) {dim=0} %y = cat(%a, %a) {dim=0} return %y }", 1, 2},
      {"graph g(%x: f32[4,8]) { %a = cat(%x, %x) {dim=1} %y = cat(%a, %a) {dim=0} return %y }", 1, 2},
      {"graph g(%x: f32[4,8]) { %a = cat(%x, %x) {dim=1} %b = cat(%x, %x) {dim=1} return %a, %b }", 1, 1},
      {"graph g(%x: f32[32]) { %y = cat(%x, %x, %x, %x) {dim=-1} return %y }", 1, 1},
      {"graph g(%x: f32[32,1]) { %y = cat(%x, %x) {dim=-1} return %y }", 1, 1},
      {"graph g(%x: f32[10]) { %a = broadcast(%x) {dims=[1]} %y = repeat(%a) {times=[1,2]} return %y }", 1,
       0},
      {"graph g(%x: f32[10]) { %y = repeat(%x) {times=[2]} return %y }", 1, 0},
      {"graph g(%x: f32[2,1,3,1]) { %y = repeat(%x) {times=[2,2,2,2]} return %y }", 1, 0},
      {"graph g(%x: f32[8,128]) { %r = repeat(%x) {times=[2,1]} %y = sin(%r) return %y }", 1, 0},
      {"graph g(%x: f32[8], %y: f32[1], %z: f32[16]) { %r = repeat(%x) {times=[2]} %a = add(%r, %y) %b = "
       "sin(%a)"
       " %c = add(%b, %z) %d = cos(%c) return %d }",
       1, 0},
      {"graph g(%x: f32[1,2], %y: f32[3,2]) { %z = cat(%x, %y) {dim=0} return %z }", 1, 0},
      {"graph g(%x: f32[4,8], %y: f32[4,8]) { %a = cat(%x, %y) {dim=1} %b = cat(%x, %x, %y) {dim=1}"
       " %c = cat(%y, %x, %x) {dim=1} return %a, %b, %c }",
       1, 0},
      {"graph g(%x: f32[4,8]) { %e = slice(%x) {starts=[0,0], limits=[4,0]} %y = cat(%x, %e, %x) {dim=1} "
       "return %y }",
       1, 1},
      {"graph g(%f: f32[1,48,2048]) { %t = permute(%f) {dims=[0,2,1]} %e = cat(%t, %t) {dim=-1}"
       " %s = full() {shape=[], value=1.1902380714238083, dtype=f32} %c = cos(%e) %cs = mul(%c, %s)"
       " %ch = cast(%cs) {dtype=bf16} %d = sin(%e) %ds = mul(%d, %s) %dh = cast(%ds) {dtype=bf16} return "
       "%ch, %dh }",
       1, 1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fixture_t f = {0};
    group_text(&f, cases[i].text);
    check_grouping(&f);
    if (f.grouping->group_count != cases[i].launches || f.report.repetitions != cases[i].repetitions) {
      fail_msg("%u launches, %u repetitions: %s", f.grouping->group_count, f.report.repetitions,
               cases[i].text);
    }
    kiln_arena_deinit(&f.arena);
  }
}

/* q[1,T,heads*128] times a cosine table made of fr[1,T,64], used twice along the last axis. */
static const char *const table_at_many_heads = "graph g[T=%d](%%q: bf16[1,32,T,128], %%fr: f32[1,T,64]) {"
                                               " %%e = cat(%%fr, %%fr) {dim=-1} %%c = cos(%%e) %%ch = "
                                               "cast(%%c) {dtype=bf16} %%cb = broadcast(%%ch) {dims=[1]}"
                                               " %%cf = cast(%%cb) {dtype=f32} %%qf = cast(%%q) {dtype=f32} "
                                               "%%p = mul(%%qf, %%cf) %%y = cast(%%p) {dtype=bf16}"
                                               " return %%y }";

static void rotary_table_is_computed_once_where_that_saves_more_than_a_launch(void **state) {
  fixture_t *f = *state;
  group_text(f, kiln_arena_printf(&f->arena, table_at_many_heads, 4096));
  check_grouping(f);
  assert_int_equal(f->grouping->group_count, 2);
  assert_int_equal(f->grouping->temp_count, 1);
  const kiln_type_t *stored = &f->graph->types[f->grouping->temp_values[0]];
  assert_int_equal(stored->dtype, KILN_DTYPE_bf16); /* narrow, and before the repetition */
  assert_true(kiln_dim_is(stored->dims[stored->rank - 1], 64));
}

static void rotary_table_is_recomputed_where_a_launch_costs_more(void **state) {
  fixture_t *f = *state;
  group_text(f, kiln_arena_printf(&f->arena, table_at_many_heads, 64));
  check_grouping(f);
  assert_int_equal(f->grouping->group_count, 1);
}

static void output_that_is_read_on_shares_the_kernel(void **state) {
  fixture_t *f = *state;
  group_text(f, "graph g(%x: f32[1000000]) { %a = sin(%x) %b = add(%a, %a) %c = neg(%b) return %a, %b, %c }");
  check_grouping(f);
  assert_int_equal(f->grouping->group_count, 1);
  assert_int_equal(f->grouping->groups[0].store_count, 3);
  assert_int_equal(f->grouping->groups[0].level, 0);
}

static void inputs_and_duplicates_returned_are_copies_in_one_launch(void **state) {
  fixture_t *f = *state;
  group_text(f, "graph g(%x: f32[8], %y: f32[2,4]) { %a = neg(%x) return %x, %y, %x, %a, %a }");
  check_grouping(f);
  assert_int_equal(f->grouping->group_count, 1);
  assert_int_equal(f->grouping->groups[0].store_count, 5);
}

static void value_returned_a_thousand_times_is_stored_by_several_kernels(void **state) {
  fixture_t *f = *state;
  kiln_graph_builder_t *builder = kiln_graph_builder_create(&f->arena, "often");
  kiln_type_t type = {.dtype = KILN_DTYPE_f32, .rank = 1, .dims = {kiln_dim_constant(8)}};
  kiln_value_id_t x = kiln_graph_builder_input(builder, "x", type, NULL);
  kiln_value_id_t y = kiln_graph_builder_node(builder, KILN_OP_sin, &x, 1, NULL, 0, &type, 1, 0);
  for (int i = 0; i < 1000; i++) kiln_graph_builder_output(builder, y, NULL);
  assert_null(optimize_and_group(f, kiln_graph_builder_finish(builder), (kiln_options_t){0}));
  check_grouping(f);
  assert_int_equal(f->grouping->group_count, 3); /* of 479 outputs at most, in parts of 120 */
}

static void empty_results_take_no_launch(void **state) {
  fixture_t *f = *state;
  group_text(f, "graph g(%x: f32[0,8], %y: f32[4]) { %a = sin(%x) %b = slice(%y) {starts=[2], limits=[2]} "
                "return %a, %b, %x }");
  assert_int_equal(f->grouping->group_count, 0);
}

static void constants_can_be_returned(void **state) {
  fixture_t *f = *state;
  group_text(
      f, "graph g() { %a = full() {shape=[3], value=2.0, dtype=f32} %b = iota() {shape=[3], dim=0, dtype=i32}"
         " return %a, %b }");
  check_grouping(f);
  assert_int_equal(f->grouping->group_count, 1);
}

static void large_results_of_different_spaces_keep_their_own_launches(void **state) {
  fixture_t *f = *state;
  group_text(f, "graph g(%x: f32[3000000], %y: f32[2000000]) { %a = sin(%x) %b = sin(%y) return %a, %b }");
  check_grouping(f);
  assert_int_equal(f->grouping->group_count, 2);
  assert_string_equal(f->grouping->groups[0].reason, "no neighbour has its iteration space");
}

static void result_and_its_repetition_share_a_launch(void **state) {
  fixture_t *f = *state;
  group_text(f, "graph g(%x: f32[3000000]) { %a = sin(%x) %b = repeat(%a) {times=[2]} return %a, %b }");
  check_grouping(f);
  assert_int_equal(f->grouping->group_count, 1);
}

static void op_without_a_family_is_named(void **state) {
  fixture_t *f = *state;
  const kiln_graph_t *graph =
      kiln_test_graph(&f->arena, "graph g(%x: f32[8]) { %total = sum(%x) return %total }");
  kiln_status_t status = optimize_and_group(f, graph, (kiln_options_t){0});
  assert_int_equal(kiln_status_code(status), KILN_UNSUPPORTED);
  assert_non_null(strstr(kiln_status_message(status), "'sum'"));
  assert_string_equal(kiln_status_detail(status, "op"), "sum");
  assert_string_equal(kiln_status_detail(status, "node"), "%total");
  kiln_status_free(status);
}

static void unknown_pass_is_refused_by_name(void **state) {
  fixture_t *f = *state;
  const kiln_graph_t *graph = kiln_test_graph(&f->arena, "graph g(%x: f32[8]) { return %x }");
  kiln_options_t options = {0};
  kiln_pass_run_t run = {.list = "simplify,frobnicate"};
  kiln_status_t status = kiln_passes_run(&f->arena, graph, &options, &run, &f->graph, &f->report);
  assert_int_equal(kiln_status_code(status), KILN_INVALID_ARGUMENT);
  assert_non_null(strstr(kiln_status_message(status), "'frobnicate'"));
  kiln_status_free(status);
}

static void every_node_is_its_own_launch_when_grouping_is_off(void **state) {
  fixture_t *f = *state;
  const kiln_graph_t *graph = kiln_test_graph(
      &f->arena,
      "graph g(%x: f32[8]) { %a = neg(%x) %b = reshape(%a) {shape=[2,4]} %c = sin(%b) return %c }");
  assert_null(optimize_and_group(f, graph, (kiln_options_t){.unfused = true}));
  check_grouping(f);
  assert_int_equal(f->grouping->group_count, 3);
}

/* --- large graphs -------------------------------------------------------------------------------------- */

static const kiln_graph_t *chain(kiln_arena_t *arena, uint32_t length) {
  kiln_graph_builder_t *builder = kiln_graph_builder_create(arena, "chain");
  kiln_type_t type = {.dtype = KILN_DTYPE_f32, .rank = 1, .dims = {kiln_dim_constant(4096)}};
  kiln_value_id_t value = kiln_graph_builder_input(builder, "x", type, NULL);
  for (uint32_t i = 0; i < length; i++) {
    kiln_op_t op = i % 2 ? KILN_OP_sin : KILN_OP_exp;
    value = kiln_graph_builder_node(builder, op, &value, 1, NULL, 0, &type, 1, 0);
  }
  kiln_graph_builder_output(builder, value, NULL);
  return kiln_graph_builder_finish(builder);
}

static void chain_of_50000_nodes_is_cut_into_full_kernels_that_work_in_place(void **state) {
  fixture_t *f = *state;
  assert_null(optimize_and_group(f, chain(&f->arena, 50000), (kiln_options_t){0}));
  assert_int_equal(f->grouping->group_count, 125);
  assert_int_equal(f->grouping->temp_count, 124);
  assert_int_equal(f->grouping->slot_count, 1);
}

/* Node i adds an earlier node, of the last 50 or of all: the worst case for computing things again. */
static void no_node_of_a_tangled_graph_is_computed_in_many_kernels(void **state) {
  fixture_t *f = *state;
  enum { NODES = 10000 };
  kiln_graph_builder_t *builder = kiln_graph_builder_create(&f->arena, "tangle");
  kiln_type_t type = {.dtype = KILN_DTYPE_f32, .rank = 1, .dims = {kiln_dim_constant(4096)}};
  kiln_graph_builder_input(builder, "x", type, NULL);
  uint64_t random = 1;
  for (uint32_t i = 0; i < NODES; i++) {
    uint32_t near = i < 50 ? i + 1 : 50;
    kiln_value_id_t operands[] = {i - kiln_random_below(&random, near), kiln_random_below(&random, i + 1)};
    kiln_graph_builder_node(builder, KILN_OP_add, operands, 2, NULL, 0, &type, 1, 0);
  }
  for (uint32_t i = 0; i < 20; i++) kiln_graph_builder_output(builder, NODES - i, NULL);
  const kiln_graph_t *graph = kiln_graph_canonicalize(&f->arena, kiln_graph_builder_finish(builder));
  assert_null(optimize_and_group(f, graph, (kiln_options_t){0}));
  uint32_t computed = 0;
  for (uint32_t i = 0; i < f->grouping->group_count; i++) computed += f->grouping->groups[i].node_count;
  assert_true(computed < 4 * f->graph->node_count);
}

static void cat_of_500_operands_takes_two_launches(void **state) {
  fixture_t *f = *state;
  kiln_graph_builder_t *builder = kiln_graph_builder_create(&f->arena, "wide");
  kiln_value_id_t operands[500];
  kiln_type_t type = {.dtype = KILN_DTYPE_f32, .rank = 1, .dims = {kiln_dim_constant(3)}};
  for (uint32_t i = 0; i < 500; i++) operands[i] = kiln_graph_builder_input(builder, NULL, type, NULL);
  kiln_attr_value_t dim = {.attr = KILN_ATTR_dim, .integer = 0};
  type.dims[0] = kiln_dim_constant(1500);
  kiln_graph_builder_output(
      builder, kiln_graph_builder_node(builder, KILN_OP_cat, operands, 500, &dim, 1, &type, 1, 0), NULL);
  assert_null(optimize_and_group(f, kiln_graph_builder_finish(builder), (kiln_options_t){0}));
  check_grouping(f);
  assert_int_equal(f->grouping->group_count, 2);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(groups_of_random_graphs_are_closed_ordered_and_within_limits),
      TEST(repetitions_are_found_and_take_one_launch),
      TEST(rotary_table_is_computed_once_where_that_saves_more_than_a_launch),
      TEST(rotary_table_is_recomputed_where_a_launch_costs_more),
      TEST(output_that_is_read_on_shares_the_kernel),
      TEST(inputs_and_duplicates_returned_are_copies_in_one_launch),
      TEST(value_returned_a_thousand_times_is_stored_by_several_kernels),
      TEST(empty_results_take_no_launch),
      TEST(constants_can_be_returned),
      TEST(large_results_of_different_spaces_keep_their_own_launches),
      TEST(result_and_its_repetition_share_a_launch),
      TEST(op_without_a_family_is_named),
      TEST(unknown_pass_is_refused_by_name),
      TEST(every_node_is_its_own_launch_when_grouping_is_off),
      TEST(chain_of_50000_nodes_is_cut_into_full_kernels_that_work_in_place),
      TEST(no_node_of_a_tangled_graph_is_computed_in_many_kernels),
      TEST(cat_of_500_operands_takes_two_launches),
  };
  return cmocka_run_group_tests_name("passes: groups and buffers", tests, NULL, NULL);
}
