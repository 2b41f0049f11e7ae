/* tests/unit/test_codegen_movement.c: what element-wise kernels move, counted on the emulated device.
 *
 * Values are compared with the reference, with all checkers on; bytes, sectors and wavefronts with the fewest
 * that the tensors' sizes allow: every byte of inputs and outputs once, 32 bytes a sector, 128 a wavefront.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/support/goals.h"
#include "tests/support/graphs.h"
#include "tests/support/random_graph.h"

static const kiln_symbol_class_t any_size = {{1, 1, 1, 1, 1, 1, 1, 1}, false};
static const kiln_symbol_class_t multiples_of_16 = {{16, 16, 16, 16, 16, 16, 16, 16}, false};

#define CHECK_GOALS(goals, class, ...)                                                                       \
  kiln_goals_check(goals, sizeof(goals) / sizeof *(goals),                                                   \
                   &(kiln_goal_run_t){.arch = "sm_80", .symbol_class = class, .symbols = {__VA_ARGS__}})

/* --- transposes
 * ---------------------------------------------------------------------------------------------- */

static void transposes_move_every_byte_once_without_bank_conflicts(void **state) {
  (void)state;
  static const kiln_goal_t goals[] = {
      {"graph g(%x: f32[256,384]) { %y = permute(%x) {dims=[1,0]} return %y }", 1, 1, 1, 0},
      {"graph g(%x: bf16[512,256]) { %y = permute(%x) {dims=[1,0]} %z = relu(%y) return %z }", 1, 1, 1, 0},
      {"graph g(%x: u8[512,768]) { %y = permute(%x) {dims=[1,0]} return %y }", 1, 1, 1, 0},
      {"graph g(%x: f64[128,256]) { %y = permute(%x) {dims=[1,0]} %z = neg(%y) return %z }", 1, 1, 1, 0},
      {"graph g(%x: i64[64,96]) { %y = permute(%x) {dims=[1,0]} return %y }", 1, 1, 1, 0},
      {"graph g(%x: bool[256,128]) { %y = permute(%x) {dims=[1,0]} %z = logical_not(%y) return %z }", 1, 1, 1,
       0},
      {"graph g(%x: f32[3,128,5,128]) { %y = permute(%x) {dims=[2,3,0,1]} return %y }", 1, 1, 1, 0},
      {"graph g(%x: f16[4,128,2,128]) { %y = permute(%x) {dims=[0,3,2,1]} %z = exp2(%y) return %z }", 1, 1, 1,
       0},
      {"graph g(%x: f32[2,1,64,2,1,2,64,2]) { %y = permute(%x) {dims=[7,0,6,3,5,1,4,2]} return %y }", 8, 8, 1,
       0},
      /* to and from wider elements: the tile is that of what is read */
      {"graph g(%x: f32[256,256]) { %c = cast(%x) {dtype=f16} %y = permute(%c) {dims=[1,0]} return %y }", 1,
       1, 1, 0},
      {"graph g(%x: u8[256,256]) { %c = cast(%x) {dtype=f32} %y = permute(%c) {dims=[1,0]} return %y }", 1, 1,
       1, 0},
      {"graph g(%x: f16[256,256]) { %c = cast(%x) {dtype=f64} %y = permute(%c) {dims=[1,0]} return %y }", 1,
       1, 1, 0},
      {"graph g(%x: f64[128,128]) { %c = cast(%x) {dtype=u8} %y = permute(%c) {dims=[1,0]} return %y }", 1, 2,
       1, 0},
      /* what is contiguous goes past the tile: half of what is read here */
      {"graph g(%x: f32[256,256], %z: f32[256,256]) { %p = permute(%x) {dims=[1,0]} %y = mul(%p, %z) return "
       "%y "
       "}",
       1, 1, 0.5, 0},
      {"graph g(%x: f32[256,128], %z: f32[256,128]) { %a = add(%x, %z) %y = permute(%a) {dims=[1,0]} return "
       "%y "
       "}",
       1, 1, 1, 0},
      {"graph g(%x: f32[128,256]) { %s = slice(%x) {starts=[0,64], limits=[128,192]} %y = permute(%s) "
       "{dims=[1,0]} return %y }",
       1, 1, 0.5, 0},
  };
  CHECK_GOALS(goals, &any_size, 0);
}

/* Rows that begin anywhere share their first and last sectors with other tiles. */
static void transposes_of_odd_sizes_stay_near(void **state) {
  (void)state;
  static const kiln_goal_t goals[] = {
      {"graph g(%x: f32[257,131]) { %y = permute(%x) {dims=[1,0]} return %y }", 1.25, 1.5, 1.2, 0},
      {"graph g(%x: f16[331,257]) { %y = permute(%x) {dims=[1,0]} return %y }", 1.5, 2, 2.2, 0},
      {"graph g(%x: u8[263,521]) { %y = permute(%x) {dims=[1,0]} return %y }", 1.5, 2.1, 3.5, 0},
      {"graph g(%x: f64[67,129]) { %y = permute(%x) {dims=[1,0]} return %y }", 1.2, 1.4, 1.2, 0},
      {"graph g(%x: f32[128,131]) { %y = permute(%x) {dims=[1,0]} return %y }", 1.2, 1.4, 1.2, 0},
      {"graph g(%x: f32[131,128]) { %y = permute(%x) {dims=[1,0]} return %y }", 1.2, 1.4, 1.2, 0},
      {"graph g(%x: bf16[3,34,258]) { %y = permute(%x) {dims=[0,2,1]} return %y }", 1.7, 2, 2.2, 0},
  };
  CHECK_GOALS(goals, &any_size, 0);
}

/* What does not fit or is not plain is read where it lies, and only costs more sectors. */
static void what_cannot_be_staged_is_still_right(void **state) {
  (void)state;
  static const kiln_goal_t goals[] = {
      /* four tiles of 16 KiB, of which three fit */
      {"graph g(%a: f32[128,64], %b: f32[128,64], %c: f32[128,64], %d: f32[128,64]) { %e = add(%a, %b) "
       "%f = mul(%c, %d) %g = sub(%e, %f) %y = permute(%g) {dims=[1,0]} return %y }",
       1, 3, 0.75, 0},
      {"graph g(%x: f32[64,96]) { %p = pad(%x) {low=[1,2], high=[3,4], value=2.0} %y = permute(%p) "
       "{dims=[1,0]} return %y }",
       2, 9, 0, 0},
      {"graph g(%t: f32[64,96], %i: i64[128]) { %e = embedding(%t, %i) %y = permute(%e) {dims=[1,0]} return "
       "%y }",
       8, 24, 0, 0},
      {"graph g(%x: f16[96,64]) { %r = reverse(%x) {dims=[1]} %y = permute(%r) {dims=[1,0]} return %y }", 2,
       24, 0, 0},
  };
  CHECK_GOALS(goals, &any_size, 0);
}

static const kiln_goal_t symbolic[] = {
    {"graph g[T](%x: f32[1,48,T]) { %p = permute(%x) {dims=[0,2,1]} %e = cat(%p, %p) {dim=-1} %c = cos(%e) "
     "%s = sin(%e) %a = cast(%c) {dtype=bf16} %b = cast(%s) {dtype=bf16} return %a, %b }",
     1.05, 1.6, 1.2, 0},
    {"graph g[T,S](%x: f16[2,T,S]) { %y = permute(%x) {dims=[0,2,1]} %z = neg(%y) return %z }", 1.5, 2, 2.2,
     0},
    /* two regions of tiles of different sizes */
    {"graph g[T,S](%x: f32[T,S], %y: u8[S,3,T]) { %a = permute(%x) {dims=[1,0]} %b = permute(%y) "
     "{dims=[1,2,0]} %c = relu(%a) return %c, %b }",
     1.5, 2, 3, 0},
};

enum { SYMBOLIC = sizeof symbolic / sizeof *symbolic };

static void symbols_are_transposed_as_numbers_are(void **state) {
  (void)state;
  CHECK_GOALS(symbolic, &any_size, 250, 131);
}

static void one_kernel_transposes_every_size(void **state) {
  (void)state;
  static const kiln_options_t plain = {0};
  static const kiln_symbol_class_t wide = {{1, 1, 1, 1, 1, 1, 1, 1}, true};
  static const int64_t sizes[][2] = {{0, 3}, {3, 0}, {1, 1}, {33, 5}, {64, 64}, {65, 129}};
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  kiln_batch_t *batch = kiln_batch_create(&arena, "sm_90");
  for (uint32_t i = 0; i < 2 * SYMBOLIC; i++)
    kiln_batch_add(batch, graph_from(&arena, symbolic[i / 2].text), &plain, i % 2 ? &wide : &any_size, NULL);
  kiln_batch_compile(batch);
  for (uint32_t i = 0; i < 2 * SYMBOLIC; i++) {
    const kiln_graph_t *graph = kiln_batch_pipeline(batch, i)->input;
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
      int64_t symbols[KILN_MAX_SYMBOLS] = {sizes[k][0], sizes[k][1]};
      kiln_tensor_t *inputs = KILN_NEW_ARRAY(&arena, kiln_tensor_t, graph->input_count);
      kiln_random_inputs(&arena, graph, k, symbols, inputs);
      kiln_batch_check(batch, i, symbols, inputs, symbolic[i / 2].text);
    }
  }
  kiln_batch_destroy(batch);
  kiln_arena_deinit(&arena);
}

static void transposes_of_multiples_of_16_use_whole_vectors(void **state) {
  (void)state;
  static const kiln_goal_t goals[] = {
      {"graph g[T,S](%x: f16[2,T,S]) { %y = permute(%x) {dims=[0,2,1]} %z = neg(%y) return %z }", 1, 1, 1, 0},
  };
  CHECK_GOALS(goals, &multiples_of_16, 256, 512);
}

/* --- what blocks share
 * ----------------------------------------------------------------------------------------- */

static void a_row_that_many_read_is_read_by_few_blocks(void **state) {
  (void)state;
  static const kiln_goal_t goals[] = {
      {"graph g(%x: f32[512,4096], %b: f32[4096]) { %y = add(%x, %b) return %y }", 1.05, 1.55, 0, 0},
      {"graph g[T](%x: bf16[T,4096], %b: bf16[4096]) { %y = add(%x, %b) return %y }", 1.05, 1.55, 0, 0},
      {"graph g[T](%x: f16[32,T,128], %t: f16[T,128]) { %y = mul(%x, %t) return %y }", 1.05, 1.55, 0, 0},
      {"graph g[T](%q: bf16[T,28,128], %c: bf16[T,128]) { %p = permute(%q) {dims=[1,0,2]} %y = mul(%p, %c) "
       "return %y }",
       1.05, 1.55, 0, 0},
  };
  CHECK_GOALS(goals, &any_size, 256);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(transposes_move_every_byte_once_without_bank_conflicts),
      cmocka_unit_test(transposes_of_odd_sizes_stay_near),
      cmocka_unit_test(what_cannot_be_staged_is_still_right),
      cmocka_unit_test(symbols_are_transposed_as_numbers_are),
      cmocka_unit_test(one_kernel_transposes_every_size),
      cmocka_unit_test(transposes_of_multiples_of_16_use_whole_vectors),
      cmocka_unit_test(a_row_that_many_read_is_read_by_few_blocks),
  };
  return cmocka_run_group_tests_name("codegen: movement", tests, NULL, NULL);
}
