/* tests/unit/test_codegen_grouped.c: many members in one launch, on the emulated device.
 *
 * Groups of one level and class are merged by brute force; the results must be those of the reference, and
 * where the order of sums decides, those of the same graph with a launch for each, bit for bit.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ir/text.h"
#include "tests/support/batch.h"
#include "tests/support/random_graph.h"

static const kiln_options_t plain = {0};
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

static const kiln_graph_t *parse(fixture_t *f, const char *text) {
  kiln_graph_list_t list = {0};
  kiln_status_t status = kiln_text_parse(&f->arena, "test", text, strlen(text), &list);
  if (status) fail_msg("%s\n%s", kiln_status_message(status), text);
  return list.graphs[0];
}

static uint32_t launches(fixture_t *f, uint32_t number) {
  return kiln_batch_pipeline(f->batch, number)->grouping->group_count;
}

/* The graph merged, in this many launches, and (the next number) with a launch for each group. */
static void add_both(fixture_t *f, const char *text, uint32_t expected) {
  const kiln_graph_t *graph = parse(f, text);
  uint32_t number = kiln_batch_add_merged(f->batch, graph, &no_symbols, NULL);
  if (launches(f, number) != expected)
    fail_msg("%u launches instead of %u: %s", launches(f, number), expected, text);
  kiln_batch_add(f->batch, graph, &plain, &no_symbols, NULL);
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(contractions_of_any_size_are_one_launch),
      cmocka_unit_test(norms_of_a_class_are_one_launch_with_the_same_bits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
