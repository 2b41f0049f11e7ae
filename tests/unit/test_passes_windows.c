/* tests/unit/test_passes_windows.c: parts of a concatenation that are written straight to their place.
 *
 * A graph is grouped with the families of tests/support/fake_families.h. What is expected is written as the
 * launches (kind and members) and, for each window in launch order, where it starts: "0,60" is row 0,
 * column 60.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "passes/passes.h"
#include "tests/support/equivalence.h"
#include "tests/support/fake_families.h"
#include "tests/support/grouping_check.h"

static const kiln_target_t target = {.arch = "sm_90", .sm_count = 132, .memory_gb_per_s = 4800};

typedef struct {
  const char *launches, *windows;
  uint32_t temps;
  const char *text;
} case_t;

static void print_windows(kiln_buffer_t *out, const kiln_graph_t *graph, const kiln_group_t *group) {
  for (uint32_t i = 0; i < group->store_count; i++) {
    const kiln_window_t *window = group->stores[i].window;
    if (!window) continue;
    for (uint32_t k = 0; k < graph->types[window->as].rank; k++)
      kiln_buffer_printf(out, k ? ",%lld" : " %lld", (long long)window->start[k].constant);
  }
}

static void check_case(const case_t *c) {
  kiln_arena_t arena = {0};
  kiln_options_t options = {0};
  kiln_pass_report_t report;
  kiln_families_t families = kiln_test_families();
  const kiln_graph_t *graph = kiln_test_graph(&arena, c->text);
  const kiln_grouping_t *grouping;
  assert_null(kiln_passes_run(&arena, graph, &options, NULL, &graph, &report));
  assert_null(kiln_group(&arena, graph, &families, &target, &options, NULL, &grouping));
  const char *fault = kiln_test_grouping_fault(&arena, graph, grouping);
  if (fault) fail_msg("%s: %s", fault, c->text);
  kiln_buffer_t *launches = kiln_buffer_in_arena(&arena), *windows = kiln_buffer_in_arena(&arena);
  for (uint32_t i = 0; i < grouping->group_count; i++) {
    const kiln_group_t *group = &grouping->groups[i];
    kiln_buffer_printf(launches, " %c%u", group->kind[0], group->member_count);
    print_windows(windows, graph, group);
  }
  if (strcmp(kiln_buffer_text(launches), c->launches) || strcmp(kiln_buffer_text(windows), c->windows) ||
      grouping->temp_count != c->temps)
    fail_msg("%s, windows%s, %u temporaries: %s", kiln_buffer_text(launches), kiln_buffer_text(windows),
             grouping->temp_count, c->text);
  kiln_arena_deinit(&arena);
}

#define CHECK(cases)                                                                                         \
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_case(&cases[i])

static void results_of_gemms_are_stored_to_their_columns(void **state) {
  (void)state;
  static const case_t cases[] = {
      {" c2", " 0,0 0,60", 0,
       "graph returned(%x: f16[256,128], %y: f16[256,192], %v: f16[60,128], %w: f16[64,192]) {"
       " %a = gemm_rcr(%x, %v) %b = gemm_rcr(%y, %w) %c = cat(%a, %b) {dim=1} return %c }"},
      {" c2 c1", " 0,0 0,60", 1,
       "graph read_on(%x: f16[256,128], %y: f16[256,192], %v: f16[60,128], %w: f16[64,192], %u: f16[32,124]) {"
       " %a = gemm_rcr(%x, %v) %b = gemm_rcr(%y, %w) %c = cat(%a, %b) {dim=1} %d = gemm_rcr(%c, %u) return %d }"},
      {" c2", " 0,0 0,60", 0,
       "graph reshaped(%x: f16[256,128], %y: f16[256,192], %v: f16[60,128], %w: f16[64,192]) {"
       " %a = gemm_rcr(%x, %v) %b = gemm_rcr(%y, %w) %c = cat(%a, %b) {dim=1} %r = reshape(%c) {shape=[4,64,124]}"
       " return %r }"},
      {" c3", " 0,0 0,4 3,0", 0,
       "graph both_ways(%x: f16[3,64], %y: f16[5,64], %v: f16[4,64], %u: f16[6,64], %w: f16[10,64]) {"
       " %a = gemm_rcr(%x, %v) %b = gemm_rcr(%x, %u) %c = gemm_rcr(%y, %w) %d = cat(%a, %b) {dim=1}"
       " %e = cat(%d, %c) {dim=0} return %e }"},
      {" r1", " 0,0 1,0", 0, /* rows of one space are one kernel */
       "graph of_row(%x: f16[1,64], %y: f16[1,64]) { %a = softmax(%x) {dim=1} %b = softmax(%y) {dim=1}"
       " %c = cat(%a, %b) {dim=0} return %c }"},
  };
  CHECK(cases);
}

static void part_that_no_kernel_makes_is_copied_by_one(void **state) {
  (void)state;
  static const case_t cases[] = {
      {" e1 c2", " 0,0 0,2 0,26", 0,
       "graph behind_an_input(%h: f16[18,2], %x: f16[18,32], %y: f16[18,16], %v: f16[24,32], %w: f16[62,16]) {"
       " %a = gemm_rcr(%x, %v) %b = gemm_rcr(%y, %w) %c = cat(%h, %a, %b) {dim=1} return %c }"},
      {" c1 e1", " 0,0 0,24", 0,
       "graph before_a_function(%h: f16[18,2], %x: f16[18,32], %v: f16[24,32]) {"
       " %a = gemm_rcr(%x, %v) %s = silu(%h) %c = cat(%a, %s) {dim=1} return %c }"},
  };
  CHECK(cases);
}

static void part_that_is_needed_elsewhere_is_stored_twice(void **state) {
  (void)state;
  static const case_t cases[] = {
      {" c2", " 0,0 0,60", 0,
       "graph returned_too(%x: f16[256,128], %v: f16[60,128], %w: f16[64,128]) {"
       " %a = gemm_rcr(%x, %v) %b = gemm_rcr(%x, %w) %c = cat(%a, %b) {dim=1} return %c, %a }"},
      {" c2 r1", " 0,0 0,60", 1,
       "graph read_too(%x: f16[256,128], %v: f16[60,128], %w: f16[64,128]) {"
       " %a = gemm_rcr(%x, %v) %b = gemm_rcr(%x, %w) %c = cat(%a, %b) {dim=1} %s = softmax(%a) {dim=1}"
       " return %c, %s }"},
      {" c2", " 0,0 0,124 0,60", 0,
       "graph twice_in_one(%x: f16[256,128], %v: f16[60,128], %w: f16[64,128]) {"
       " %a = gemm_rcr(%x, %v) %b = gemm_rcr(%x, %w) %c = cat(%a, %b, %a) {dim=1} return %c }"},
  };
  CHECK(cases);
}

static void concatenation_that_others_compute_again_stays(void **state) {
  (void)state;
  static const case_t cases[] = {
      {" c2 e1", "", 2, /* its reader shares its kernel */
       "graph read_by_its_kernel(%x: f16[256,128], %v: f16[60,128], %w: f16[64,128]) {"
       " %a = gemm_rcr(%x, %v) %b = gemm_rcr(%x, %w) %c = cat(%a, %b) {dim=1} %s = relu(%c) return %c, %s }"},
      {" c2 e1", "", 2,
       "graph returned_twice(%x: f16[256,128], %v: f16[60,128], %w: f16[64,128]) {"
       " %a = gemm_rcr(%x, %v) %b = gemm_rcr(%x, %w) %c = cat(%a, %b) {dim=1} return %c, %c }"},
      {" c1 e1", "", 1, /* two parts that no kernel makes */
       "graph behind_two(%h: f16[18,2], %i: f16[18,4], %x: f16[18,32], %v: f16[24,32]) {"
       " %a = gemm_rcr(%x, %v) %c = cat(%h, %a, %i) {dim=1} return %c }"},
      {" e1", "", 0, "graph inputs(%h: f16[18,2], %i: f16[18,4]) { %c = cat(%h, %i) {dim=1} return %c }"},
      {" c2 e1", "", 2, /* the output has strides of its own, and another shape */
       "graph strided(%x: f16[256,128], %v: f16[60,128], %w: f16[64,128]) {"
       " %a = gemm_rcr(%x, %v) %b = gemm_rcr(%x, %w) %c = cat(%a, %b) {dim=1} %r = reshape(%c) {shape=[2,128,124]}"
       " return %r strides [1,248,2] }"},
  };
  CHECK(cases);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(results_of_gemms_are_stored_to_their_columns),
      cmocka_unit_test(part_that_no_kernel_makes_is_copied_by_one),
      cmocka_unit_test(part_that_is_needed_elsewhere_is_stored_twice),
      cmocka_unit_test(concatenation_that_others_compute_again_stays),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
