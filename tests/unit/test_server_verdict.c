/* tests/unit/test_server_verdict.c: which compiled kernels are unfit, and lists of verdicts that make a plan
 * again. */
#include "server/verdict.h"
#include "tests/support/equivalence.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SECOND_NS 1000000000ull

static int set_up(void **state) {
  kiln_arena_t *arena = calloc(1, sizeof *arena);
  kiln_arena_init(arena, 0);
  *state = arena;
  return 0;
}

static int tear_down(void **state) {
  kiln_arena_deinit(*state);
  free(*state);
  return 0;
}

static void spills_and_slow_compiles_are_unfit_and_nothing_else(void **state) {
  static const struct {
    int32_t store_bytes, load_bytes;
    uint64_t compile_ns, slow_ns;
    const char *says; /* NULL: fit */
  } rows[] = {
      {0, 0, 0, SECOND_NS, NULL},
      {-1, -1, SECOND_NS, SECOND_NS, NULL}, /* PTX: spills are not known; and just in time */
      {0, 0, SECOND_NS + 1, SECOND_NS, "took more than 1 s"},
      {0, 0, UINT64_MAX, 0, NULL}, /* no limit */
      {8, 4, 0, SECOND_NS, "spilled 8 bytes"},
      {0, 12, 0, SECOND_NS, "spilled 12 bytes"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const kiln_kernel_artifact_t artifact = {.spill_store_bytes = rows[i].store_bytes,
                                             .spill_load_bytes = rows[i].load_bytes};
    const char *why = verdict_of(*state, &artifact, rows[i].compile_ns, rows[i].slow_ns);
    assert_true(rows[i].says ? why && strstr(why, rows[i].says) : !why);
  }
}

static void a_list_survives_its_bytes(void **state) {
  kiln_buffer_t *bytes = kiln_buffer_in_arena(*state);
  verdicts_t verdicts = {0}, again = {0};
  const kiln_mpack_t *list;
  assert_int_equal(verdicts_next_round(&verdicts), 0);
  verdicts_add(*state, &verdicts, 0, 3, "it spills");
  verdicts_add(*state, &verdicts, 1, 70000, "");
  assert_int_equal(verdicts_next_round(&verdicts), 2);
  verdicts_encode(&verdicts, bytes);
  assert_null(kiln_mpack_decode(*state, bytes->data, bytes->size, &list));
  assert_true(verdicts_decode(*state, list, &again));
  assert_int_equal(again.count, 2);
  for (size_t i = 0; i < 2; i++) {
    assert_int_equal(again.items[i].round, verdicts.items[i].round);
    assert_int_equal(again.items[i].verdict.group, verdicts.items[i].verdict.group);
    assert_string_equal(again.items[i].verdict.why, verdicts.items[i].verdict.why);
  }
}

static void what_is_no_list_is_refused(void **state) {
  static const struct {
    const char *bytes;
    size_t size;
  } rows[] = {{"\xc0", 1},                                   /* nil */
              {"\x91\x92\x00\x01", 4},                       /* a pair */
              {"\x91\x93\x00\x01\x02", 5},                   /* a number for why */
              {"\x91\x93\xff\x01\xa0", 5},                   /* round -1 */
              {"\x91\x93\x05\x01\xa0", 5},                   /* a round past the last */
              {"\x91\x93\x00\xcf\0\0\0\1\0\0\0\0\xa0", 13}}; /* launch 2^32 */
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const kiln_mpack_t *list;
    verdicts_t verdicts = {0};
    assert_null(kiln_mpack_decode(*state, rows[i].bytes, rows[i].size, &list));
    assert_false(verdicts_decode(*state, list, &verdicts));
  }
  verdicts_t verdicts = {0};
  assert_false(verdicts_decode(*state, NULL, &verdicts));
}

static const kiln_options_t options = {0};
static const kiln_symbol_class_t no_symbols = {{1, 1, 1, 1, 1, 1, 1, 1}, false};

static kiln_pipeline_t generate(kiln_arena_t *arena, kiln_target_t *target) {
  kiln_pipeline_t pipeline;
  assert_null(kiln_target_parse("sm_90", target));
  assert_null(kiln_pipeline_generate(
      arena,
      kiln_test_graph(arena, "graph g(%x: f32[100]) { %a = neg(%x) %b = abs(%a) %c = sqrt(%b) %d = floor(%c)"
                             " %e = exp(%d) return %e }"),
      target, &options, &no_symbols, NULL, &pipeline));
  return pipeline;
}

static void applying_a_list_gives_the_plan_that_its_verdicts_came_from(void **state) {
  kiln_target_t target;
  const kiln_verdict_t first = {0, "one"}, second[] = {{0, "two"}, {1, "three"}};
  kiln_pipeline_t divided = generate(*state, &target), again = generate(*state, &target);
  assert_null(kiln_pipeline_divide(*state, &target, &options, &no_symbols, &first, 1, &divided));
  assert_null(kiln_pipeline_divide(*state, &target, &options, &no_symbols, second, 2, &divided));
  assert_int_equal(divided.grouping->group_count, 4);
  verdicts_t verdicts = {0};
  verdicts_add(*state, &verdicts, 0, 0, "one");
  verdicts_add(*state, &verdicts, 1, 0, "two");
  verdicts_add(*state, &verdicts, 1, 1, "three");
  assert_null(verdicts_apply(*state, &verdicts, &target, &options, &no_symbols, &again));
  assert_int_equal(again.grouping->group_count, 4);
  for (uint32_t i = 0; i < 4; i++) assert_string_equal(again.kernels[i].source, divided.kernels[i].source);
}

static void a_verdict_on_a_launch_that_is_not_there_is_an_error(void **state) {
  kiln_target_t target;
  kiln_pipeline_t pipeline = generate(*state, &target);
  verdicts_t verdicts = {0};
  verdicts_add(*state, &verdicts, 0, 1, "of another plan");
  kiln_status_t status = verdicts_apply(*state, &verdicts, &target, &options, &no_symbols, &pipeline);
  assert_int_equal(kiln_status_code(status), KILN_INTERNAL);
  kiln_status_free(status);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(spills_and_slow_compiles_are_unfit_and_nothing_else),
      TEST(a_list_survives_its_bytes),
      TEST(what_is_no_list_is_refused),
      TEST(applying_a_list_gives_the_plan_that_its_verdicts_came_from),
      TEST(a_verdict_on_a_launch_that_is_not_there_is_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
