/* tests/unit/test_codegen_grouped.c: many members in one launch, on the emulated device.
 *
 * Groups of one level and class are merged by brute force; the results must be those of the reference, and
 * where the order of sums decides, those of the same graph with a launch for each, bit for bit.
 * Labels: release-only (sanitized, the emulator takes minutes; test_passes_groups makes such kernels there)
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/batch.h"
#include "tests/support/graphs.h"
#include "tests/support/random_graph.h"

static const kiln_symbol_class_t no_symbols = {{1, 1, 1, 1, 1, 1, 1, 1}, false};

typedef struct {
  kiln_arena_t arena;
  kiln_batch_t *batch;
} fixture_t;

static void setup(fixture_t *f) {
  kiln_arena_init(&f->arena, 0);
  f->batch = kiln_batch_create(&f->arena, "sm_80");
}

static void end(fixture_t *f) {
  kiln_batch_destroy(f->batch);
  kiln_arena_deinit(&f->arena);
}

static uint32_t launches(fixture_t *f, uint32_t number) {
  return kiln_batch_pipeline(f->batch, number)->grouping->group_count;
}

/* The graph merged, in this many launches, and (the next number) with a launch for each group. */
static void add_both(fixture_t *f, const char *text, uint32_t expected) {
  const kiln_graph_t *graph = graph_from(&f->arena, text);
  uint32_t number = kiln_batch_add_regrouped(f->batch, graph, true, &no_symbols, NULL);
  if (launches(f, number) != expected)
    fail_msg("%u launches instead of %u: %s", launches(f, number), expected, text);
  kiln_batch_add_regrouped(f->batch, graph, false, &no_symbols, NULL);
}

static kiln_tensor_t *inputs_of(fixture_t *f, uint32_t number, uint64_t seed, const int64_t *symbols) {
  const kiln_graph_t *graph = kiln_batch_pipeline(f->batch, number)->input;
  kiln_tensor_t *inputs = KILN_NEW_ARRAY(&f->arena, kiln_tensor_t, graph->input_count);
  kiln_random_inputs(&f->arena, graph, seed, symbols, inputs);
  return inputs;
}

static void check_same(fixture_t *f, uint32_t number, const kiln_tensor_t *inputs) {
  uint32_t count = kiln_batch_pipeline(f->batch, number)->input->output_count;
  kiln_tensor_t *merged = KILN_NEW_ARRAY(&f->arena, kiln_tensor_t, count),
                *alone = KILN_NEW_ARRAY(&f->arena, kiln_tensor_t, count);
  kiln_batch_run(f->batch, number, NULL, inputs, merged);
  kiln_batch_run(f->batch, number + 1, NULL, inputs, alone);
  for (uint32_t i = 0; i < count; i++) {
    size_t bytes = (size_t)kiln_tensor_elements(&merged[i]) * kiln_dtype_bytes(merged[i].dtype);
    if (memcmp(merged[i].data, alone[i].data, bytes))
      fail_msg("graph %u, output %u: other bits", number / 2, i);
  }
}

static void check_all(fixture_t *f, bool same_bits) {
  kiln_batch_compile(f->batch);
  for (uint32_t i = 0; i < kiln_batch_count(f->batch); i += 2) {
    kiln_tensor_t *inputs = inputs_of(f, i, i + 1, NULL);
    kiln_batch_check(f->batch, i, NULL, inputs, "merged");
    if (same_bits) check_same(f, i, inputs);
  }
  end(f);
}

/* --- graphs of many members ---------------------------------------------------------------------------- */

typedef struct {
  int m, n;
} shape_t;

/* layernorm of each shape, or layernorm, sigmoid and mul. */
static const char *norms(fixture_t *f, const char *dtype, bool is_lnsm, const shape_t *shapes, int count) {
  kiln_buffer_t *text = kiln_buffer_in_arena(&f->arena);
  kiln_buffer_puts(text, "graph g(");
  for (int i = 0; i < count; i++)
    kiln_buffer_printf(text, "%s%%x%d: %s[%d,%d], %%g%d: %s[%d], %%b%d: %s[%d]", i ? ", " : "", i, dtype,
                       shapes[i].m, shapes[i].n, i, dtype, shapes[i].n, i, dtype, shapes[i].n);
  kiln_buffer_puts(text, ") {\n");
  for (int i = 0; i < count; i++) {
    kiln_buffer_printf(text, "  %%l%d = layernorm(%%x%d, %%g%d, %%b%d) {normalized_shape=[%d], eps=%g}\n", i,
                       i, i, i, shapes[i].n, strcmp(dtype, "f64") ? 1e-5 * (i % 3 + 1) : 1e-5);
    if (is_lnsm)
      kiln_buffer_printf(text, "  %%s%d = sigmoid(%%l%d)\n  %%y%d = mul(%%x%d, %%s%d)\n", i, i, i, i, i);
  }
  kiln_buffer_puts(text, "  return ");
  for (int i = 0; i < count; i++) kiln_buffer_printf(text, "%s%%%c%d", i ? ", " : "", is_lnsm ? 'y' : 'l', i);
  kiln_buffer_puts(text, "\n}\n");
  return kiln_buffer_text(text);
}

#define SHAPES(...) (const shape_t[]){__VA_ARGS__}, (int)(sizeof((shape_t[]){__VA_ARGS__}) / sizeof(shape_t))

static void norms_of_a_class_are_one_launch_with_the_same_bits(void **state) {
  (void)state;
  fixture_t f;
  setup(&f);
  static const char *const dtypes[] = {"f16", "bf16", "f32", "f64"};
  for (int d = 0; d < 4; d++) {
    add_both(&f, norms(&f, dtypes[d], d % 2, SHAPES({13, 128}, {7, 256}, {13, 125}, {1, 300}, {300, 511})),
             1);
    add_both(&f, norms(&f, dtypes[d], d % 2 == 0, SHAPES({5, 17}, {9, 64}, {2, 33}, {1, 40}, {6, 48})), 1);
  }
  add_both(&f, norms(&f, "f16", true, SHAPES({3, 1025}, {2, 1276}, {4, 1023}, {4, 1024})), 2);
  add_both(&f, norms(&f, "f32", true, SHAPES({3, 4097}, {2, 8192}, {4, 5001}, {4, 4096})), 2);
  add_both(&f, norms(&f, "f32", false, SHAPES({3, 9000}, {2, 9000}, {2, 20000})), 2);
  check_all(&f, true);
}

typedef struct {
  int m, n, k;
} product_t;

/* y_i = op(x_i[m, k], w_i[n, k]) of each size. */
static const char *products(fixture_t *f, const char *op, const char *dtype, const product_t *sizes,
                            int count) {
  kiln_buffer_t *text = kiln_buffer_in_arena(&f->arena);
  bool has_bias = strstr(op, "bias") != NULL;
  kiln_buffer_puts(text, "graph g(");
  for (int i = 0; i < count; i++) {
    kiln_buffer_printf(text, "%s%%x%d: %s[%d,%d], %%w%d: %s[%d,%d]", i ? ", " : "", i, dtype, sizes[i].m,
                       sizes[i].k, i, dtype, sizes[i].n, sizes[i].k);
    if (has_bias) kiln_buffer_printf(text, ", %%b%d: %s[%d]", i, dtype, sizes[i].n);
  }
  kiln_buffer_puts(text, ") {\n");
  for (int i = 0; i < count; i++) {
    kiln_buffer_printf(text, "  %%y%d = %s(%%x%d, %%w%d", i, op, i, i);
    if (has_bias) kiln_buffer_printf(text, ", %%b%d", i);
    kiln_buffer_puts(text, ")\n");
  }
  kiln_buffer_puts(text, "  return ");
  for (int i = 0; i < count; i++) kiln_buffer_printf(text, "%s%%y%d", i ? ", " : "", i);
  kiln_buffer_puts(text, "\n}\n");
  return kiln_buffer_text(text);
}

#define PRODUCTS(...)                                                                                        \
  (const product_t[]){__VA_ARGS__}, (int)(sizeof((product_t[]){__VA_ARGS__}) / sizeof(product_t))

/* Sizes that no tile divides, K of 1 and 0, places of every alignment; one launch. */
static void contractions_of_any_size_are_one_launch(void **state) {
  (void)state;
  static const char *const dtypes[] = {"f16", "bf16", "f32", "f64", "i32"};
  static const char *const ops[] = {"gemm_rcr_bias", "gemm_rcr", "gemm_rcr_bias_relu",
                                    "gemm_rcr_bias_sigmoid"};
  fixture_t f;
  setup(&f);
  for (int d = 0; d < 5; d++)
    add_both(
        &f,
        products(&f, d < 4 ? ops[d] : "gemm_rcr", dtypes[d],
                 PRODUCTS({40, 16, 64}, {130, 33, 40}, {7, 75, 128}, {66, 3, 13}, {65, 100, 44}, {5, 1, 2})),
        1);
  check_all(&f, false);
}

/* Of more elements than a GPU has threads: fewer share a kernel as regions already. */
static void elementwise_groups_of_a_class_are_one_launch(void **state) {
  (void)state;
  static const struct {
    const char *text;
    uint32_t launches;
  } cases[] = {
      /* flat ones of any length, odd ones too */
      {"graph g(%a: f16[260000], %b: f16[3,7,12001], %c: f16[500,640]) { %x = exp(%a) %y = exp(%b) "
       "%z = exp(%c) return %x, %y, %z }",
       1},
      /* rows with a bias: whole vectors with whole vectors, odd rows with odd rows */
      {"graph g(%a: f32[2000,128], %u: f32[128], %b: f32[2100,132], %v: f32[132], %c: f32[7000,33], "
       "%w: f32[33], %d: f32[200,35,35], %t: f32[35]) { %x = add(%a, %u) %y = add(%b, %v) %z = add(%c, %w) "
       "%s = add(%d, %t) return %x, %y, %z, %s }",
       2},
      /* columns, casts, several results; a slice of a tensor is read where it lies */
      {"graph g(%a: f16[3500,64], %u: f16[3500,1], %b: f16[2000,256], %v: f16[1900,1]) { "
       "%l = slice(%b) {starts=[3,128], limits=[1903,256]} "
       "%x = mul(%a, %u) %y = mul(%l, %v) %p = cast(%x) {dtype=f32} %q = cast(%y) {dtype=f32} "
       "return %x, %p, %y, %q }",
       1},
      /* what is no plane meets its equals only */
      {"graph g(%a: f32[640,360], %b: f32[640,360], %c: f32[600,400]) { %x = permute(%a) {dims=[1,0]} "
       "%y = permute(%b) {dims=[1,0]} %z = permute(%c) {dims=[1,0]} return %x, %y, %z }",
       2},
  };
  fixture_t f;
  setup(&f);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) add_both(&f, cases[i].text, cases[i].launches);
  check_all(&f, true);
}

/* Weights that lie along n, factors that are slices at odd places, epilogues with residuals and columns, no
 * rows at all: members of one launch where what follows the product is the same. */
static void layouts_and_epilogues_of_contractions_are_members(void **state) {
  (void)state;
  static const struct {
    const char *text;
    uint32_t launches;
  } cases[] = {
      {"graph g(%a: f16[40,64], %b: f16[64,24], %c: f16[3,7,20], %d: f16[20,33]) { "
       "%x = matmul(%a, %b) %y = matmul(%c, %d) return %x, %y }",
       1},
      {"graph g(%a: f16[0,64], %b: f16[16,64], %c: f16[5,64], %d: f16[16,64]) { "
       "%x = gemm_rcr(%a, %b) %y = gemm_rcr(%c, %d) return %x, %y }",
       1},
      {"graph g(%a: f16[50,100], %u: f16[24,36], %v: f16[40,64], %r: f16[50,24], %s: f16[50,40]) { "
       "%p, %q = split(%a) {dim=1, sizes=[36,64]} %x = gemm_rcr(%p, %u) %y = gemm_rcr(%q, %v) "
       "%k = add(%x, %r) %l = add(%y, %s) %m = silu(%k) %n = silu(%l) return %m, %n }",
       1},
      {"graph g(%a: f32[50,101], %u: f32[24,36], %v: f32[40,65], %r: f32[50,1], %s: f32[50,1]) { "
       "%p, %q = split(%a) {dim=1, sizes=[36,65]} %x = gemm_rcr(%p, %u) %y = gemm_rcr(%q, %v) "
       "%k = mul(%x, %r) %l = mul(%y, %s) return %k, %l }",
       1},
      /* other epilogues, other dtypes: other kernels */
      {"graph g(%a: f16[40,64], %b: f16[24,64], %c: f16[40,64], %d: f16[24,64], %e: f32[40,64], %f: f32[24,64]) { "
       "%x = gemm_rcr(%a, %b) %y = gemm_rcr(%c, %d) %z = gemm_rcr(%e, %f) %w = exp(%y) return %x, %w, %z }",
       3},
      /* the same tensor for both factors, and one factor for several */
      {"graph g(%a: f16[40,40], %b: f16[24,40]) { %x = gemm_rcr(%a, %a) %y = gemm_rcr(%a, %b) "
       "%z = gemm_rcr(%b, %a) return %x, %y, %z }",
       1},
      /* batches are no planes: only equals meet */
      {"graph g(%a: f16[3,40,64], %b: f16[3,64,24], %c: f16[3,40,64], %d: f16[3,64,24]) { "
       "%x = matmul(%a, %b) %y = matmul(%c, %d) return %x, %y }",
       1},
  };
  fixture_t f;
  setup(&f);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) add_both(&f, cases[i].text, cases[i].launches);
  check_all(&f, false);
}

/* Softmax, means and what follows them, of every rank; columns are stored beside planes. */
static void reductions_of_any_rank_are_members(void **state) {
  (void)state;
  static const struct {
    const char *text;
    uint32_t launches;
  } cases[] = {
      {"graph g(%a: f32[20,100], %b: f32[2,3,70], %c: f32[300]) { %x = softmax(%a) {dim=1} "
       "%y = softmax(%b) {dim=-1} %z = softmax(%c) {dim=0} return %x, %y, %z }",
       1},
      {"graph g(%a: f16[20,100], %b: f16[2,3,10,30]) { %m = mean(%a) {dims=[1], keepdim=true} "
       "%n = mean(%b) {dims=[2,3], keepdim=true} %x = sub(%a, %m) %y = sub(%b, %n) return %x, %m, %y, %n }",
       1},
      {"graph g(%a: f32[20,100], %b: f32[7,5,90]) { %x = argmax(%a) {dim=1} %y = argmax(%b) {dim=2} "
       "return %x, %y }",
       1},
      {"graph g(%a: f16[9,128], %g: f16[128], %b: f16[4,5,80], %h: f16[80]) { "
       "%x = rmsnorm(%a, %g) {normalized_shape=[128]} %y = rmsnorm(%b, %h) {normalized_shape=[80], eps=0.1} "
       "%v = mul(%x, %g) %w = mul(%y, %h) return %v, %w }",
       1},
      {"graph g(%a: f16[9,128], %b: f16[4,5,80], %h: f16[80], %c: f16[6,30], %i: f16[30]) { "
       "%x = layernorm(%a, none, none) {normalized_shape=[128]} %y = layernorm(%b, none, %h) "
       "{normalized_shape=[80]} %z = layernorm(%c, none, %i) {normalized_shape=[30]} return %x, %y, %z }",
       3},
  };
  fixture_t f;
  setup(&f);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) add_both(&f, cases[i].text, cases[i].launches);
  check_all(&f, true);
}

/* --- symbols ------------------------------------------------------------------------------------------- */

/* Dimensions of members are evaluated for each execution; none, one and many rows. */
static void members_may_depend_on_symbols(void **state) {
  (void)state;
  static const char *const text =
      "graph g[T=40](%x: f16[T,64], %g: f16[64], %y: f16[2,T,96], %h: f16[96], %w: f16[33,64], %v: f16[24,96], "
      "%u: f16[16,T]) { %a = rmsnorm(%x, %g) {normalized_shape=[64]} %b = rmsnorm(%y, %h) {normalized_shape=[96]} "
      "%c = gemm_rcr(%x, %w) %d = gemm_rcr(%y, %v) %e = gemm_rcr(%u, %u) return %a, %b, %c, %d, %e }";
  static const int64_t values[] = {1, 17, 64, 0, 16};
  fixture_t f;
  setup(&f);
  const kiln_graph_t *graph = graph_from(&f.arena, text);
  const kiln_symbol_class_t sixteen = {{16, 1, 1, 1, 1, 1, 1, 1}, false};
  kiln_batch_add_regrouped(f.batch, graph, true, &no_symbols, NULL);
  kiln_batch_add_regrouped(f.batch, graph, true, &sixteen, NULL);
  assert_int_equal(launches(&f, 0), 3); /* rows of up to 64 and up to 512; contractions */
  kiln_batch_compile(f.batch);
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
    int64_t symbols[KILN_MAX_SYMBOLS] = {values[i]};
    kiln_tensor_t *inputs = inputs_of(&f, 0, i + 1, symbols);
    kiln_batch_check(f.batch, 0, symbols, inputs, "any T");
    if (values[i] % 16 == 0) kiln_batch_check(f.batch, 1, symbols, inputs, "T in steps of 16");
  }
  end(&f);
}

/* --- many members -------------------------------------------------------------------------------------- */

static const char *many_norms(fixture_t *f, int count, int n) {
  shape_t *shapes = KILN_NEW_ARRAY(&f->arena, shape_t, count);
  for (int i = 0; i < count; i++) shapes[i] = (shape_t){4, n};
  return norms(f, "f16", false, shapes, count);
}

/* More than a parameter holds: the table is uploaded. Every execution has buffers and values of its own. */
static void two_thousand_members_are_one_launch_each_time_with_its_own_buffers(void **state) {
  (void)state;
  static const int counts[] = {600, 2000};
  fixture_t f;
  setup(&f);
  for (uint32_t i = 0; i < 2; i++) {
    kiln_batch_add_regrouped(f.batch, graph_from(&f.arena, many_norms(&f, counts[i], 64)), true, &no_symbols,
                             NULL);
    assert_int_equal(launches(&f, i), 1);
  }
  kiln_batch_compile(f.batch);
  for (uint64_t seed = 1; seed < 4; seed++)
    kiln_batch_check(f.batch, 0, NULL, inputs_of(&f, 0, seed, NULL), "600");
  kiln_batch_check(f.batch, 1, NULL, inputs_of(&f, 1, 9, NULL), "2000");
  end(&f);
}

/* The number of members is neither in source nor in key: at most four capacities of one kernel. */
static void members_more_or_less_do_not_change_the_source(void **state) {
  (void)state;
  static const int counts[] = {2, 8, 9, 64, 65, 600};
  fixture_t f;
  setup(&f);
  const char *sources[6];
  for (int i = 0; i < 6; i++) {
    uint32_t number = kiln_batch_add_regrouped(f.batch, graph_from(&f.arena, many_norms(&f, counts[i], 64)),
                                               true, &no_symbols, NULL);
    sources[i] = kiln_batch_pipeline(f.batch, number)->kernels[0].source;
  }
  for (int i = 0; i < 6; i += 2) assert_string_equal(sources[i], sources[i + 1]);
  assert_string_not_equal(sources[0], sources[2]);
  end(&f);
}

/* A thousand widths are at most four kernels. */
static void widths_of_a_thousand_norms_are_four_classes(void **state) {
  (void)state;
  fixture_t f;
  setup(&f);
  shape_t shapes[1000];
  for (int i = 0; i < 1000; i++) shapes[i] = (shape_t){2, i + 17};
  uint32_t number = kiln_batch_add_regrouped(
      f.batch, graph_from(&f.arena, norms(&f, "f16", true, shapes, 1000)), true, &no_symbols, NULL);
  assert_true(launches(&f, number) <= 4);
  end(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(contractions_of_any_size_are_one_launch),
      cmocka_unit_test(elementwise_groups_of_a_class_are_one_launch),
      cmocka_unit_test(layouts_and_epilogues_of_contractions_are_members),
      cmocka_unit_test(reductions_of_any_rank_are_members),
      cmocka_unit_test(members_may_depend_on_symbols),
      cmocka_unit_test(two_thousand_members_are_one_launch_each_time_with_its_own_buffers),
      cmocka_unit_test(members_more_or_less_do_not_change_the_source),
      cmocka_unit_test(widths_of_a_thousand_norms_are_four_classes),
      cmocka_unit_test(norms_of_a_class_are_one_launch_with_the_same_bits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
