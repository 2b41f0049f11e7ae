/* tests/unit/test_passes_regions.c: what one kernel computes with a reduction or a contraction.
 *
 * The families here take what the real ones take: element-wise work in front of rows and behind rows and
 * sums. Launch counts follow from the rules in passes/regions.c: one per set of rows, one per contraction. No
 * node that reduces or contracts may stand in two groups, and every group has one space.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "passes/passes.h"
#include "tests/support/equivalence.h"
#include "tests/support/fake_families.h"

static const kiln_target_t target = {.arch = "sm_90", .sm_count = 132, .memory_gb_per_s = 4800};

/* Kinds of the groups in launch order, first letters: "rec" is rows, elementwise, contraction. "c+c" is one
 * launch of two contractions in sequence, "r+e" one of rows with element-wise work beside them. */
static const char *kinds_of(kiln_arena_t *arena, const char *text) {
  kiln_options_t options = {0};
  kiln_pass_run_t run = {0};
  kiln_pass_report_t report;
  const kiln_graph_t *graph;
  const kiln_grouping_t *grouping;
  kiln_families_t all = kiln_test_families_alone();
  assert_null(kiln_passes_run(arena, kiln_test_graph(arena, text), &options, &run, &graph, &report));
  assert_null(kiln_group(arena, graph, &all, &target, &options, NULL, &grouping));
  kiln_buffer_t *kinds = kiln_buffer_in_arena(arena);
  uint32_t *groups_of = KILN_NEW_ARRAY(arena, uint32_t, graph->node_count);
  for (uint32_t g = 0; g < grouping->group_count; g++) {
    const kiln_group_t *group = &grouping->groups[g];
    bool is_joined = group->join != KILN_JOIN_CLASS;
    if (!is_joined) kiln_buffer_append(kinds, group->kind, 1);
    for (uint32_t i = 0; is_joined && i < group->member_count; i++)
      kiln_buffer_printf(kinds, "%s%c", i ? "+" : "", group->members[i].kind[0]);
    for (uint32_t i = 0; i < group->node_count; i++) {
      bool reduces = kiln_op_info(graph->nodes[group->nodes[i]].op)->op_class >= KILN_CLASS_REDUCTION;
      if (reduces && groups_of[group->nodes[i]]++) fail_msg("computed twice: %s", text);
    }
  }
  return kiln_buffer_text(kinds);
}

typedef struct {
  const char *kinds, *text;
} case_t;

static void check(const case_t *cases, size_t count) {
  for (size_t i = 0; i < count; i++) {
    kiln_arena_t arena;
    kiln_arena_init(&arena, 0);
    const char *kinds = kinds_of(&arena, cases[i].text);
    if (strcmp(kinds, cases[i].kinds)) fail_msg("%s, not %s: %s", kinds, cases[i].kinds, cases[i].text);
    kiln_arena_deinit(&arena);
  }
}

#define CHECK(cases) check(cases, sizeof cases / sizeof *cases)

static void chains_over_the_same_rows_are_one_kernel(void **state) {
  (void)state;
  static const case_t cases[] = {
      {"r", "graph softmax(%x: f32[1000,1000]) { %m = amax(%x) {dims=[1], keepdim=true} %d = sub(%x, %m)"
            " %e = exp(%d) %s = sum(%e) {dims=[1], keepdim=true} %y = div(%e, %s) return %y }"},
      {"r", "graph layernorm(%x: f32[100,1000], %g: f32[1000]) { %m = mean(%x) {dims=[1], keepdim=true}"
            " %d = sub(%x, %m) %q = mul(%d, %d) %v = mean(%q) {dims=[1], keepdim=true} %r = rsqrt(%v)"
            " %n = mul(%d, %r) %y = mul(%n, %g) return %y, %r }"},
      {"r",
       "graph keepdims_written_out(%x: f32[100,1000]) { %m = sum(%x) {dims=[1]} %b = broadcast(%m) {dims=[1]}"
       " %y = sub(%x, %b) return %y }"},
      {"r", "graph rmsnorm_backward(%x: f32[100,1000], %dy: f32[100,1000], %g: f32[1000]) {"
            " %q = mul(%x, %x) %m = mean(%q) {dims=[1], keepdim=true} %r = rsqrt(%m) %dg = mul(%dy, %g)"
            " %p = mul(%dg, %x) %s = mean(%p) {dims=[1], keepdim=true} %r2 = mul(%r, %r) %t = mul(%s, %r2)"
            " %u = mul(%x, %t) %v = sub(%dg, %u) %dx = mul(%v, %r) return %dx }"},
      {"r", "graph reductions_of_one_input(%x: f32[100,1000], %y: f32[100,1000]) { %a = sum(%x) {dims=[1]}"
            " %b = amax(%x) {dims=[1]} %p = mul(%x, %y) %c = sum(%p) {dims=[1]} return %a, %b, %c }"},
      {"r", "graph residual(%x: f32[100,1000], %y: f32[100,1000]) { %h = add(%x, %y)"
            " %n = rmsnorm(%h, none) {normalized_shape=[1000]} return %n }"},
  };
  CHECK(cases);
}

static void other_rows_and_moved_elements_are_other_kernels(void **state) {
  (void)state;
  static const case_t cases[] = {
      {"rr",
       "graph both_ways(%x: f32[100,1000]) { %a = softmax(%x) {dim=1} %b = softmax(%a) {dim=0} return %b }"},
      {"rr",
       "graph siblings_along_other_axes(%x: f32[100,1000]) { %a = sum(%x) {dims=[1]} %b = sum(%x) {dims=[0]}"
       " return %a, %b }"},
      {"re", "graph transposed(%x: f32[3000,3000]) { %a = softmax(%x) {dim=1} %y = permute(%a) {dims=[1,0]}"
             " return %y }"},
      {"re", "graph square_meets_its_columns(%x: f32[1000,1000]) { %s = sum(%x) {dims=[1]} %y = add(%x, %s)"
             " return %y }"},
      {"re", "graph halves_swapped(%x: f32[1000,1000]) { %a = softmax(%x) {dim=1}"
             " %l, %h = split(%a) {dim=1, sizes=[500,500]} %y = add(%l, %h) return %y }"},
  };
  CHECK(cases);
}

static void contractions_take_what_follows_and_views_in_front(void **state) {
  (void)state;
  static const case_t cases[] = {
      {"c", "graph bias_silu_residual(%a: f16[100,64], %w: f16[1000,64], %r: f16[100,1000]) {"
            " %c = gemm_rcr(%a, %w) %s = silu(%c) %y = add(%s, %r) return %y }"},
      {"c", "graph transposed_operand(%a: f16[64,100], %w: f16[1000,64]) { %t = permute(%a) {dims=[1,0]}"
            " %y = gemm_rcr(%t, %w) return %y }"},
      {"c", "graph dequantized(%a: f16[100,64], %w: i8[1000,64]) { %d = cast(%w) {dtype=f16}"
            " %y = gemm_rcr(%a, %d) return %y }"},
      {"ec",
       "graph function_in_front(%a: f16[100,64], %w: f16[1000,64]) { %s = silu(%a) %y = gemm_rcr(%s, %w)"
       " return %y }"},
      {"c+c", "graph gated(%a: f16[100,64], %g: f16[1000,64], %u: f16[1000,64]) { %p = gemm_rcr(%a, %g)"
              " %q = gemm_rcr(%a, %u) %s = silu(%p) %y = mul(%s, %q) return %y }"},
      {"cc", "graph chained(%a: f16[100,64], %w: f16[64,64]) { %p = gemm_rcr(%a, %w) %y = gemm_rcr(%p, %w)"
             " return %y }"},
      {"cr",
       "graph scores(%a: f16[100,64], %w: f16[1000,64]) { %p = gemm_rcr(%a, %w) %y = softmax(%p) {dim=1}"
       " return %y }"},
      /* the sum of its elements with itself, transposed, needs all of it */
      {"ce", "graph symmetric(%a: f16[3000,64]) { %p = gemm_rcr(%a, %a) %t = permute(%p) {dims=[1,0]}"
             " %y = add(%p, %t) return %y }"},
  };
  CHECK(cases);
}

/* %late needs the first sum and is needed by the second: they cannot be one kernel. */
static void regions_that_would_wait_for_each_other_stay_apart(void **state) {
  (void)state;
  static const case_t cases[] = {
      {"re+r", "graph g(%x: f32[100,1000], %i: i64[100]) { %a = sum(%x) {dims=[1], keepdim=true}"
               " %f = reverse(%a) {dims=[0]} %y = mul(%x, %f) %b = amax(%y) {dims=[1]} return %b, %f }"},
  };
  CHECK(cases);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(chains_over_the_same_rows_are_one_kernel),
      cmocka_unit_test(other_rows_and_moved_elements_are_other_kernels),
      cmocka_unit_test(contractions_take_what_follows_and_views_in_front),
      cmocka_unit_test(regions_that_would_wait_for_each_other_stay_apart),
  };
  return cmocka_run_group_tests_name("passes: regions", tests, NULL, NULL);
}
