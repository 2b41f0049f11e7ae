/* tests/unit/test_codegen_counts.c: what kernels of every family move, over dtypes and sizes, odd ones too.
 *
 * A row is a graph and what it may move at most, times the fewest bytes, sectors and passes over shared
 * memory, and the part of its accesses that has 16 bytes. Counted on the emulated device. Where a bound is
 * looser than 1.05 for bytes (1.1 for columns, 2 for rows that do not fit) and 2 for sectors, docs/kernels.md
 * says why. Labels: release-only
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/support/goals.h"

#define COUNT(goals) (uint32_t)(sizeof(goals) / sizeof *(goals))

static const kiln_goal_run_t on_sm_90 = {.arch = "sm_90", .counts_only = true};

#define TRANSPOSE(dtype, rows, columns)                                                                      \
  "graph g(%x: " dtype "[" #rows "," #columns "]) { %y = permute(%x) {dims=[1,0]} return %y }"

/* Where rows begin anywhere, neighbouring tiles share the sectors at their edges: the bytes of such sizes are
 * bounds of what is reached, not the goal of 1.05. */
static void transposes_move_every_byte_once_and_little_more_of_odd_sizes(void **state) {
  (void)state;
  static const kiln_goal_t goals[] = {
      {TRANSPOSE("f32", 1023, 769), 1.12, 1.25, 1.05, 0}, {TRANSPOSE("f32", 513, 1025), 1.12, 1.25, 1.05, 0},
      {TRANSPOSE("f32", 512, 1001), 1.06, 1.15, 1.05, 0}, {TRANSPOSE("f16", 1023, 769), 1.25, 1.5, 1.55, 0},
      {TRANSPOSE("f16", 1023, 1026), 1.25, 1.5, 1.55, 0}, {TRANSPOSE("f16", 1024, 771), 1.13, 1.25, 1.05, 0},
      {TRANSPOSE("u8", 1023, 769), 1.27, 2, 2.55, 0},     {TRANSPOSE("u8", 1024, 2048), 1.05, 2, 1.05, 0},
      {TRANSPOSE("u8", 2047, 2049), 1.26, 2, 2.55, 0},    {TRANSPOSE("bool", 1024, 1001), 1.13, 1.5, 1.05, 0},
      {TRANSPOSE("f64", 333, 257), 1.11, 1.11, 1.05, 0},  {TRANSPOSE("f32", 2047, 2049), 1.12, 1.25, 1.05, 0},
      {TRANSPOSE("f16", 2047, 2049), 1.25, 1.5, 1.55, 0}, {TRANSPOSE("f32", 1024, 768), 1.05, 2, 1.05, 0.9},
      {TRANSPOSE("bf16", 1024, 768), 1.05, 2, 1.05, 0.9}, {TRANSPOSE("f64", 512, 256), 1.05, 2, 1.05, 0.9},
  };
  kiln_goals_check(goals, COUNT(goals), &on_sm_90);
}

#define SOFTMAX(dtype, rows, columns)                                                                        \
  "graph g(%x: " dtype "[" #rows "," #columns "]) { %y = softmax(%x) {dim=1} return %y }"
#define SUM(dtype, rows, columns)                                                                            \
  "graph g(%x: " dtype "[" #rows "," #columns "]) { %y = sum(%x) {dims=[1]} return %y }"
#define LAYERNORM(dtype, rows, columns)                                                                      \
  "graph g(%x: " dtype "[" #rows "," #columns "], %g: " dtype "[" #columns "], %b: " dtype "[" #columns      \
  "]) { %y = layernorm(%x, %g, %b) {normalized_shape=[" #columns "]} return %y }"
#define COLUMNS(op, dtype, rows, columns)                                                                    \
  "graph g(%x: " dtype "[" #rows "," #columns "]) { %y = " op "(%x) {dims=[0]} return %y }"

static void rows_of_any_size_move_every_byte_once(void **state) {
  (void)state;
  static const kiln_goal_t goals[] = {
      {SOFTMAX("f32", 64, 1000), 1.05, 2, 1, 0.9},      {SOFTMAX("f32", 64, 1001), 1.05, 2, 1, 0.9},
      {SOFTMAX("f16", 64, 1000), 1.05, 2, 1, 0.9},      {SOFTMAX("f16", 64, 1001), 1.05, 2, 1, 0.9},
      {SOFTMAX("f16", 64, 1002), 1.05, 2, 1, 0.9},      {SOFTMAX("bf16", 48, 4097), 1.05, 2, 1, 0.9},
      {SOFTMAX("f32", 8, 16385), 1.05, 2, 1, 0.9},      {SOFTMAX("f16", 8, 16385), 1.05, 2, 1, 0.9},
      {SOFTMAX("f16", 4, 65537), 2, 2.25, 1, 0.9},      {SOFTMAX("f64", 64, 333), 1.05, 2, 1, 0.9},
      {SOFTMAX("f16", 100, 257), 1.05, 2, 1, 0.85},     {SOFTMAX("f32", 100, 131), 1.05, 2, 1, 0.9},
      {SUM("f32", 64, 1001), 1.05, 2, 1, 0.9},          {SUM("f16", 64, 1001), 1.05, 2, 1, 0.9},
      {SUM("f16", 64, 1004), 1.05, 2, 1, 0.9},          {SUM("i8", 64, 2047), 1.05, 2, 1, 0.9},
      {SUM("i8", 64, 2048), 1.05, 2, 1, 0.9},           {SUM("f64", 64, 131), 1.05, 2, 1, 0.9},
      {SUM("f16", 3, 100003), 1.05, 2, 1, 0.9},         {SUM("f32", 1, 1000003), 1.05, 2, 1, 0.9},
      {LAYERNORM("f16", 200, 1024), 1.05, 2, 1, 0.9},   {LAYERNORM("f16", 200, 1001), 1.05, 2.25, 1, 0.9},
      {LAYERNORM("f32", 200, 511), 1.05, 2.25, 1, 0.9},
  };
  kiln_goals_check(goals, COUNT(goals), &on_sm_90);
}

static void columns_of_any_size_move_every_byte_once(void **state) {
  (void)state;
  static const kiln_goal_t goals[] = {
      {COLUMNS("sum", "f32", 512, 1000), 1.1, 2, 1, 0.9},
      {COLUMNS("sum", "f32", 512, 1001), 1.1, 2, 1, 0.9},
      {COLUMNS("sum", "f16", 1000, 1024), 1.1, 2, 1, 0.9},
      {COLUMNS("sum", "f16", 1000, 1001), 1.1, 2, 1, 0.9},
      {COLUMNS("amax", "i8", 1000, 1001), 1.1, 2, 1, 0.85},
      {COLUMNS("mean", "bf16", 999, 514), 1.1, 2, 1, 0.9},
      {COLUMNS("amax", "i8", 1000, 2048), 1.1, 2, 1, 0.9},
      {COLUMNS("sum", "f64", 300, 131), 1.1, 2, 1, 0.9},
  };
  kiln_goals_check(goals, COUNT(goals), &on_sm_90);
}

#define ADD(dtype, shape)                                                                                    \
  "graph g(%a: " dtype "[" shape "], %b: " dtype "[" shape "]) { %y = add(%a, %b) return %y }"
#define BIAS(dtype, rows, columns)                                                                           \
  "graph g(%x: " dtype "[" #rows "," #columns "], %b: " dtype "[" #columns "]) { %y = add(%x, %b) return %y }"

/* A row that rows of odd length share is read by every block of one row: 1.5 times the bytes. */
static void elementwise_of_any_size_moves_every_byte_once(void **state) {
  (void)state;
  static const kiln_goal_t goals[] = {
      {ADD("f32", "1000003"), 1.05, 2, 0, 0.9},
      {ADD("f16", "1001,999"), 1.05, 2, 0, 0.9},
      {ADD("i8", "300007"), 1.05, 2, 0, 0.9},
      {ADD("f64", "3,5,7,999"), 1.05, 2, 0, 0.9},
      {BIAS("f32", 512, 1000), 1.05, 2, 0, 0.9},
      {BIAS("f32", 512, 1001), 1.6, 2, 0, 0},
      {BIAS("f16", 512, 1001), 1.6, 2, 0, 0},
      {BIAS("f16", 512, 1000), 1.05, 2, 0, 0.9},
      {BIAS("i8", 512, 1001), 1.6, 2, 0, 0},
      {"graph g(%a: f16[64,1001], %b: f16[64,333]) { %y = cat(%a, %b) {dim=1} return %y }", 1.05, 2, 0, 0},
      {"graph g(%a: f32[64,1000], %b: f32[64,332]) { %y = cat(%a, %b) {dim=1} return %y }", 1.05, 2, 0, 0.9},
      {"graph g(%a: f16[64,1001]) { %y = reverse(%a) {dims=[1]} return %y }", 1.05, 2, 0, 0},
      {"graph g(%t: f16[1000,1024], %i: i64[1000]) { %y = embedding(%t, %i) return %y }", 1.05, 2, 0, 0.6},
      {"graph g(%t: f32[1000,513], %i: i64[1000]) { %y = embedding(%t, %i) return %y }", 1.05, 2, 0, 0},
      {"graph g(%t: f32[500,512], %i: i64[200,512]) { %y = gather(%t, %i) {dim=0} return %y }", 1.5, 2.3, 0,
       0},
      {"graph g(%x: f16[5,333,7,129]) { %y = permute(%x) {dims=[0,2,1,3]} return %y }", 1.1, 2, 0, 0},
  };
  kiln_goals_check(goals, COUNT(goals), &on_sm_90);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(transposes_move_every_byte_once_and_little_more_of_odd_sizes),
      cmocka_unit_test(rows_of_any_size_move_every_byte_once),
      cmocka_unit_test(columns_of_any_size_move_every_byte_once),
      cmocka_unit_test(elementwise_of_any_size_moves_every_byte_once),
  };
  return cmocka_run_group_tests_name("codegen: counts", tests, NULL, NULL);
}
