/* tests/unit/test_codegen_reduce.c: reductions and normalizations on the emulated device against the
 * reference evaluator.
 *
 * Rows of one element to more than a block holds, of every dtype, whole and odd, with NaN, infinities and
 * zeros of both signs among the inputs; chains of operations and reductions in one kernel; symbols. The
 * graphs of a test are compiled together and run with all checkers on.
 * Labels: device, release-only (the sanitized emulator takes minutes; test_codegen_reduce_cost runs the same
 * code)
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ir/text.h"
#include "tests/support/batch.h"
#include "tests/support/graphs.h"
#include "tests/support/random_graph.h"

static const kiln_options_t plain = {0};
static const kiln_symbol_class_t no_symbols = {{1, 1, 1, 1, 1, 1, 1, 1}, false};
static const kiln_pass_run_t no_passes = {.list = ""};

typedef struct {
  kiln_arena_t arena;
  kiln_batch_t *batch;
} fixture_t;

static void setup(fixture_t *f, const char *arch) {
  kiln_arena_init(&f->arena, 0);
  f->batch = kiln_batch_create(&f->arena, arch);
}

static void add_for(fixture_t *f, const char *text, const kiln_symbol_class_t *symbol_class) {
  kiln_batch_add(f->batch, graph_from(&f->arena, text), &plain, symbol_class, &no_passes);
}

static void add(fixture_t *f, const char *text) { add_for(f, text, &no_symbols); }

static void check(fixture_t *f, uint32_t number, const int64_t *symbols) {
  const kiln_graph_t *graph = kiln_batch_pipeline(f->batch, number)->input;
  kiln_tensor_t *inputs = KILN_NEW_ARRAY(&f->arena, kiln_tensor_t, graph->input_count);
  kiln_random_inputs(&f->arena, graph, number + 1, symbols, inputs);
  kiln_buffer_t *text = kiln_buffer_in_arena(&f->arena);
  kiln_text_print(&f->arena, text, graph);
  kiln_batch_check(f->batch, number, symbols, inputs, kiln_buffer_text(text));
}

static void check_and_end(fixture_t *f) {
  kiln_batch_compile(f->batch);
  for (uint32_t i = 0; i < kiln_batch_count(f->batch); i++) check(f, i, NULL);
  kiln_batch_destroy(f->batch);
  kiln_arena_deinit(&f->arena);
}

/* --- every op ------------------------------------------------------------------------------------------ */

static const char *const shapes[][2] = {
    {"[9,33]", "1"}, {"[40,6]", "0"}, {"[3,600]", "1"}, {"[5,64,3]", "1"}, {"[6,4]", "1"}, {"[2,1]", "1"},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* Each op of the class on each of its dtypes, over shapes in turn. */
static void every_reduction_of_every_dtype(void **state) {
  (void)state;
  fixture_t f;
  setup(&f, "sm_90");
  unsigned turn = 0;
  for (kiln_op_t op = 0; op < KILN_OP_COUNT; op++) {
    const kiln_op_info_t *info = kiln_op_info(op);
    if (info->op_class != KILN_CLASS_REDUCTION) continue;
    bool finds_place = op == KILN_OP_argmax || op == KILN_OP_argmin;
    for (kiln_dtype_t dtype = 0; dtype < KILN_DTYPE_COUNT; dtype++) {
      if (!kiln_dtype_in(dtype, info->dtypes)) continue;
      const char *const *shape = shapes[turn++ % SHAPES];
      add(&f, kiln_arena_printf(&f.arena, "graph g(%%x: %s%s) { %%y = %s(%%x) {%s} return %%y }",
                                kiln_dtype_name(dtype), shape[0], info->name,
                                kiln_arena_printf(&f.arena, finds_place ? "dim=%s" : "dims=[%s]", shape[1])));
    }
  }
  check_and_end(&f);
}

static void every_normalization_of_every_dtype(void **state) {
  (void)state;
  static const char *const dtypes[] = {"f16", "bf16", "f32", "f64"};
  fixture_t f;
  setup(&f, "sm_80");
  for (int i = 0; i < 4; i++) {
    const char *d = dtypes[i];
    kiln_arena_t *a = &f.arena;
    add(&f, kiln_arena_printf(a, "graph g(%%x: %s[7,33]) { %%y = softmax(%%x) {dim=1} return %%y }", d));
    add(&f,
        kiln_arena_printf(a, "graph g(%%x: %s[3,40,5]) { %%y = log_softmax(%%x) {dim=1} return %%y }", d));
    add(&f, kiln_arena_printf(a, "graph g(%%x: %s[3,4]) { %%y = softmax(%%x) {dim=0} return %%y }", d));
    add(&f,
        kiln_arena_printf(a,
                          "graph g(%%x: %s[3,520], %%g: %s[520], %%b: %s[520]) { %%y = layernorm(%%x, %%g, "
                          "%%b) {normalized_shape=[520]} return %%y }",
                          d, d, d));
    add(&f, kiln_arena_printf(a,
                              "graph g(%%x: %s[2,5,9], %%b: %s[5,9]) { %%y = layernorm(%%x, none, %%b) "
                              "{normalized_shape=[5,9], eps=0.5} return %%y }",
                              d, d));
    add(&f, kiln_arena_printf(a,
                              "graph g(%%x: %s[4,72], %%g: %s[72]) { %%y = rmsnorm(%%x, %%g) "
                              "{normalized_shape=[72]} return %%y }",
                              d, d));
    add(&f, kiln_arena_printf(a,
                              "graph g(%%x: %s[2,1028], %%g: %s[1028], %%b: %s[1028]) { %%y = "
                              "layernorm_sigmoid_mul(%%x, %%g, %%b) {normalized_shape=[1028]} return %%y }",
                              d, d, d));
    add(&f, kiln_arena_printf(
                a,
                "graph g(%%x: %s[3,7], %%g: %s[7]) { %%y = rmsnorm(%%x, %%g) {normalized_shape=[7]} "
                "return %%y }",
                d, d));
  }
  check_and_end(&f);
}

/* --- lengths ------------------------------------------------------------------------------------------- */

/* From a point to rows that no block keeps in registers, whole vectors and not. */
static void rows_of_every_length(void **state) {
  (void)state;
  static const int lengths[] = {1, 2, 16, 17, 31, 32, 100, 255, 257, 1000, 2048, 4097, 8192, 20000, 70001};
  fixture_t f;
  setup(&f, "sm_90");
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    const char *d = i % 3 == 0 ? "f32" : i % 3 == 1 ? "f16" : "bf16";
    add(&f, kiln_arena_printf(&f.arena, "graph g(%%x: %s[2,%d]) { %%y = softmax(%%x) {dim=1} return %%y }", d,
                              lengths[i]));
    add(&f, kiln_arena_printf(&f.arena,
                              "graph g(%%x: %s[%d]) { %%y = sum(%%x) %%z = argmax(%%x) return %%y, %%z }", d,
                              lengths[i]));
  }
  check_and_end(&f);
}

static void empty_and_single_axes_and_scalars(void **state) {
  (void)state;
  static const char *const texts[] = {
      "graph g(%x: f32[5,0]) { %y = sum(%x) {dims=[1]} return %y }",
      "graph g(%x: f32[5,0]) { %y = mean(%x) {dims=[1]} return %y }",
      "graph g(%x: f32[5,0]) { %y = prod(%x) {dims=[1]} return %y }",
      "graph g(%x: bool[5,0]) { %y = all(%x) {dims=[1]} return %y }",
      "graph g(%x: f32[0,50]) { %y = softmax(%x) {dim=1} return %y }",
      "graph g(%x: f32[0,50]) { %y = amax(%x) {dims=[1]} return %y }",
      "graph g(%x: f32[]) { %y = var(%x) return %y }",
      "graph g(%x: f32[]) { %y = argmax(%x) return %y }",
      "graph g(%x: f32[]) { %y = softmax(%x) {dim=0} return %y }",
      "graph g(%x: f32[4,1]) { %y = var(%x) {dims=[1]} return %y }",
      "graph g(%x: f32[1,80,1]) { %y = var(%x) {dims=[1], correction=0, keepdim=true} return %y }",
      "graph g(%x: f32[6,7]) { %y = sum(%x) {dims=[]} return %y }",
      "graph g(%x: i32[2,50]) { %y = argmin(%x) return %y }",
      "graph g(%x: bool[3,50]) { %y = sum(%x) {dims=[1], dtype=i64} return %y }",
      "graph g(%x: f32[3,50]) { %y = sum(%x) {dims=[1], dtype=f16} return %y }",
      "graph g(%x: f16[3,50]) { %y = prod(%x) {dims=[1], dtype=f64} return %y }",
  };
  fixture_t f;
  setup(&f, "sm_90");
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) add(&f, texts[i]);
  check_and_end(&f);
}

/* --- chains -------------------------------------------------------------------------------------------- */

static void chains_over_one_row_are_one_kernel(void **state) {
  (void)state;
  static const char *const texts[] = {
      /* softmax and rmsnorm written out, a scaled and shifted prologue, an epilogue of another shape */
      "graph g(%x: f16[4,96]) { %f = cast(%x) {dtype=f32} %m = amax(%f) {dims=[1], keepdim=true} %d = "
      "sub(%f, %m) "
      "%e = exp(%d) %s = sum(%e) {dims=[1], keepdim=true} %y = div(%e, %s) %h = cast(%y) {dtype=f16} return "
      "%h }",
      "graph g(%x: f32[2,3,64], %g: f32[64]) { %q = mul(%x, %x) %m = mean(%q) {dims=[2], keepdim=true} "
      "%c = full() {shape=[1], value=0.001, dtype=f32} %a = add(%m, %c) %r = rsqrt(%a) %n = mul(%x, %r) "
      "%y = mul(%n, %g) %p = permute(%y) {dims=[1,0,2]} %z = reshape(%p) {shape=[3,2,8,8]} return %z }",
      "graph g(%x: f32[4,40]) { %s = sum(%x) {dims=[1]} %m = amax(%x) {dims=[1]} %a = argmax(%x) {dim=1} "
      "%d = mul(%s, %m) %v = var(%x) {dims=[1], keepdim=true} return %d, %a, %v, %s }",
      "graph g(%x: f32[4,40], %y: f32[4,40]) { %p = mul(%x, %y) %s = sum(%p) {dims=[1], keepdim=true} "
      "%c = mul(%y, %s) %d = sub(%p, %c) return %d }",
      /* rows across axes that are not neighbours, through a permutation, a slice, a pad and a concatenation
       */
      "graph g(%x: f32[5,3,7]) { %y = sum(%x) {dims=[0,2]} return %y }",
      "graph g(%x: f32[5,3,9]) { %y = argmax(%x) return %y }",
      "graph g(%x: f32[40,6]) { %t = permute(%x) {dims=[1,0]} %y = softmax(%t) {dim=1} return %y }",
      "graph g(%x: f32[6,50]) { %t = slice(%x) {starts=[1,3], limits=[5,48], steps=[2,2]} %y = softmax(%t) "
      "{dim=1} "
      "return %y }",
      "graph g(%x: f16[3,30]) { %t = pad(%x) {low=[0,2], high=[0,8], value=-inf} %y = softmax(%t) {dim=1} "
      "return %y }",
      "graph g(%x: f32[3,20], %y: f32[3,20]) { %t = cat(%x, %y) {dim=1} %z = log_softmax(%t) {dim=1} return "
      "%z }",
      "graph g(%x: f32[3,40]) { %t = softmax(%x) {dim=1} %z = reverse(%t) {dims=[1]} return %z }",
      "graph g(%x: f32[30,30]) { %t = softmax(%x) {dim=0} %z = permute(%t) {dims=[1,0]} return %z }",
      /* a short reduction inside a long one, and read at several points */
      "graph g(%x: f32[3,40,4]) { %s = sum(%x) {dims=[2]} %y = softmax(%s) {dim=1} return %y }",
      "graph g(%x: f32[8,4]) { %s = amax(%x) {dims=[1], keepdim=true} %d = sub(%x, %s) %r = reverse(%d) "
      "{dims=[1]} "
      "return %r }",
      "graph g(%t: f32[50,40], %i: i64[3]) { %e = embedding(%t, %i) %y = rmsnorm(%e, none) "
      "{normalized_shape=[40]} "
      "return %y }",
      "graph g(%x: f32[2,40] strides [1,2]) { %y = softmax(%x) {dim=1} return %y strides [64,1] }",
  };
  fixture_t f;
  setup(&f, "sm_90");
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    add(&f, texts[i]);
    uint32_t launches = kiln_batch_pipeline(f.batch, (uint32_t)i)->grouping->group_count;
    if (launches != 1) fail_msg("%u launches: %s", launches, texts[i]);
  }
  check_and_end(&f);
}

/* Memory lies along what is kept: vectors of results, and single ones. */
static void columns_of_every_shape(void **state) {
  (void)state;
  static const char *const texts[] = {
      "graph g(%x: f32[100,96]) { %y = sum(%x) {dims=[0]} return %y }",
      "graph g(%x: f16[3,1000,37]) { %y = var(%x) {dims=[1]} %z = argmax(%x) {dim=1} return %y, %z }",
      "graph g(%x: f16[700,72]) { %z = argmin(%x) {dim=0} %y = mean(%x) {dims=[0]} return %z, %y }",
      "graph g(%x: bf16[50,7,96], %b: bf16[96]) { %y = sum(%x) {dims=[0,1]} %z = add(%y, %b) %w = relu(%z) return %w, %y }",
      "graph g(%x: f64[2,20,1002]) { %y = var(%x) {dims=[1], keepdim=true} return %y }",
      "graph g(%x: i8[300,64]) { %y = any(%x) {dims=[0]} %z = prod(%x) {dims=[0]} return %y, %z }",
      "graph g(%x: u8[17,1]) { %y = amax(%x) {dims=[0]} return %y }",
      "graph g(%x: f16[5000,8]) { %y = sum(%x) {dims=[0], dtype=f32} return %y }",
      "graph g(%x: f32[64,30]) { %t = permute(%x) {dims=[1,0]} %y = amin(%t) {dims=[1]} return %y }",
  };
  fixture_t f;
  setup(&f, "sm_80");
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    add(&f, texts[i]);
    const kiln_pipeline_t *pipeline = kiln_batch_pipeline(f.batch, (uint32_t)i);
    if (!strstr(pipeline->kernels[0].source, "share<") && i != 6) fail_msg("no columns: %s", texts[i]);
  }
  check_and_end(&f);
}

/* --- symbols ------------------------------------------------------------------------------------------- */

/* All elements of a row are one in memory; of empty rows there is none. */
static void rows_that_stand_still_may_be_empty(void **state) {
  (void)state;
  fixture_t f;
  setup(&f, "sm_80");
  add(&f, "graph g[T,S](%x: f32[S,T] strides [2,0]) { %y = mean(%x) {dims=[1]} %z = sum(%x) {dims=[0]} "
          "return %y, %z }");
  kiln_batch_compile(f.batch);
  static const int64_t sizes[][KILN_MAX_SYMBOLS] = {{0, 3}, {3, 0}, {4, 5}, {300, 2}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) check(&f, 0, sizes[i]);
  kiln_batch_destroy(f.batch);
  kiln_arena_deinit(&f.arena);
}

static void lengths_and_counts_of_rows_may_be_symbols(void **state) {
  (void)state;
  static const char *const texts[] = {
      "graph g[T,S](%x: f16[T,S]) { %y = softmax(%x) {dim=1} return %y }",
      "graph g[T=4,S=40000](%x: f32[T,S]) { %y = mean(%x) {dims=[1]} return %y }",
      "graph g[T,S](%x: f32[T,S,3]) { %y = var(%x) {dims=[0,1]} return %y }",
      "graph g[T,S](%x: f16[T,8*S]) { %y = mean(%x) {dims=[0]} %z = sum(%x) {dims=[0]} %d = sub(%y, %z) return %d }",
      "graph g[T,S](%x: bf16[T,4*S]) { %y = layernorm(%x, none, none) {normalized_shape=[4*S]} return %y }",
  };
  static const kiln_symbol_class_t multiples_of_8 = {{8, 8, 8, 8, 8, 8, 8, 8}, false};
  static const kiln_symbol_class_t wide = {{1, 1, 1, 1, 1, 1, 1, 1}, true};
  static const int64_t sizes[][2] = {{8, 16}, {16, 8}, {0, 8}, {8, 5000 * 8}};
  enum { TEXTS = sizeof texts / sizeof *texts };
  fixture_t f;
  setup(&f, "sm_90");
  for (size_t i = 0; i < TEXTS; i++) {
    add(&f, texts[i]);
    add_for(&f, texts[i], &multiples_of_8);
    add_for(&f, texts[i], &wide);
  }
  kiln_batch_compile(f.batch);
  for (uint32_t i = 0; i < 3 * TEXTS; i++) {
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
      int64_t symbols[KILN_MAX_SYMBOLS] = {sizes[k][0], sizes[k][1]};
      check(&f, i, symbols);
      symbols[1] += 1;
      if (i % 3 != 1) check(&f, i, symbols);
    }
  }
  kiln_batch_destroy(f.batch);
  kiln_arena_deinit(&f.arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_reduction_of_every_dtype),
      cmocka_unit_test(every_normalization_of_every_dtype),
      cmocka_unit_test(rows_of_every_length),
      cmocka_unit_test(empty_and_single_axes_and_scalars),
      cmocka_unit_test(chains_over_one_row_are_one_kernel),
      cmocka_unit_test(columns_of_every_shape),
      cmocka_unit_test(rows_that_stand_still_may_be_empty),
      cmocka_unit_test(lengths_and_counts_of_rows_may_be_symbols),
  };
  return cmocka_run_group_tests_name("codegen: reductions", tests, NULL, NULL);
}
