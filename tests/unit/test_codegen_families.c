/* tests/unit/test_codegen_families.c: every op that is not element-wise, on every dtype that it takes, for
 * sm_80 and sm_90: the reference's values on the emulated device. (Element-wise ops: test_codegen_ops.c.)
 *
 * The rows of ops.def are the list: an op without a graph here fails the test. D stands for the dtype.
 * Labels: device, release-only (test_codegen_random runs the same code under the sanitizers)
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/batch.h"
#include "tests/support/graphs.h"
#include "tests/support/random_graph.h"

typedef struct {
  kiln_op_t op;
  const char *text; /* %y is what the graph returns, and %z where there are two */
} row_t;

/* One operand %x. */
#define ROW(op, shape, attrs)                                                                                \
  { KILN_OP_##op, "%x: D" shape "|%y = " #op "(%x) {" attrs "}" }

static const row_t rows[] = {
    ROW(reshape, "[5,6]", "shape=[3,10]"),
    ROW(permute, "[5,6,3]", "dims=[2,0,1]"),
    ROW(squeeze, "[5,1,6]", "dims=[1]"),
    ROW(broadcast, "[5,6]", "dims=[1]"),
    ROW(expand, "[5,1]", "shape=[2,5,6]"),
    ROW(slice, "[7,6]", "starts=[1,2], limits=[7,6], steps=[2,1]"),
    ROW(pad, "[5,6]", "low=[1,0], high=[0,2], value=1"),
    ROW(repeat, "[5,6]", "times=[2,2,3]"),
    ROW(reverse, "[5,6]", "dims=[0,1]"),
    {KILN_OP_cat, "%x: D[5,6], %w: D[5,3]|%y = cat(%x, %w, %x) {dim=1}"},
    {KILN_OP_split, "%x: D[5,6]|%y, %z = split(%x) {dim=1, sizes=[2,4]}"},
    {KILN_OP_full, "%x: D[1]|%y = full() {shape=[3,5], value=1, dtype=D}"},
    {KILN_OP_iota,
     "%x: D[1]|%y = iota() {shape=[3,5], dim=0, dtype=D} %z = iota() {shape=[300], dim=0, dtype=D}"},
    {KILN_OP_constant, "%x: D[1]|%y = constant() {shape=[2,2], values=[1,0,1,1], dtype=D}"},
    {KILN_OP_gather, "%x: D[5,6], %i: i64[4,6]|%y = gather(%x, %i) {dim=0}"},
    {KILN_OP_gather, "%x: D[5,6], %i: i32[5,9]|%y = gather(%x, %i) {dim=1}"},
    {KILN_OP_embedding, "%x: D[5,16], %i: i32[2,7]|%y = embedding(%x, %i)"},
    {KILN_OP_embedding, "%x: D[5,3], %i: i64[7]|%y = embedding(%x, %i)"},
    ROW(sum, "[7,45]", "dims=[1]"),
    ROW(sum, "[45,16]", "dims=[0]"),
    ROW(mean, "[7,45]", "dims=[1], keepdim=true"),
    ROW(mean, "[45,7]", "dims=[0]"),
    ROW(prod, "[6,9,3]", "dims=[0,2]"),
    ROW(amax, "[7,45]", "dims=[1]"),
    ROW(amax, "[45,16]", "dims=[0]"),
    ROW(amin, "[3,130]", ""),
    ROW(var, "[7,45]", "dims=[1], correction=0"),
    ROW(var, "[45,16]", "dims=[0]"),
    ROW(argmax, "[7,45]", "dim=1"),
    ROW(argmax, "[45,8]", "dim=0"),
    ROW(argmin, "[7,45]", "dim=1, keepdim=true"),
    ROW(argmin, "[5,60]", ""),
    ROW(any, "[7,45]", "dims=[1]"),
    ROW(all, "[45,8]", "dims=[0]"),
    ROW(softmax, "[7,45]", "dim=1"),
    ROW(softmax, "[45,8]", "dim=0"),
    ROW(log_softmax, "[7,45]", "dim=1"),
    {KILN_OP_layernorm,
     "%x: D[5,48], %g: D[48], %b: D[48]|%y = layernorm(%x, %g, %b) {normalized_shape=[48]}"},
    {KILN_OP_rmsnorm, "%x: D[5,37], %g: D[37]|%y = rmsnorm(%x, %g) {normalized_shape=[37]}"},
    {KILN_OP_layernorm_sigmoid_mul,
     "%x: D[5,48], %g: D[48], %b: D[48]|%y = layernorm_sigmoid_mul(%x, %g, %b) {normalized_shape=[48]}"},
    {KILN_OP_gemm_rcr, "%a: D[19,35], %b: D[23,35]|%y = gemm_rcr(%a, %b)"},
    {KILN_OP_gemm_rcr, "%a: D[3,1,16], %b: D[40,16]|%y = gemm_rcr(%a, %b)"},
    {KILN_OP_gemm_rcr_bias, "%a: D[19,35], %b: D[23,35], %c: D[23]|%y = gemm_rcr_bias(%a, %b, %c)"},
    {KILN_OP_gemm_rcr_bias_relu, "%a: D[19,32], %b: D[24,32], %c: D[24]|%y = gemm_rcr_bias_relu(%a, %b, %c)"},
    {KILN_OP_gemm_rcr_bias_sigmoid,
     "%a: D[19,32], %b: D[24,32], %c: D[24]|%y = gemm_rcr_bias_sigmoid(%a, %b, %c)"},
    {KILN_OP_matmul, "%a: D[3,17,33], %b: D[33,20]|%y = matmul(%a, %b)"},
    {KILN_OP_matmul, "%a: D[40], %b: D[2,40,9]|%y = matmul(%a, %b)"},
};
enum { ROWS = sizeof rows / sizeof *rows };

/* graph g(<inputs>) { <nodes> return %y } of "<inputs>|<nodes>", with the dtype for D. */
static const kiln_graph_t *graph_for(kiln_arena_t *arena, const char *text, const char *dtype) {
  kiln_buffer_t *out = kiln_buffer_in_arena(arena);
  kiln_buffer_puts(out, "graph g(");
  for (const char *at = text; *at; at++) {
    if (*at == 'D')
      kiln_buffer_puts(out, dtype);
    else if (*at == '|')
      kiln_buffer_puts(out, ") { ");
    else
      kiln_buffer_append(out, at, 1);
  }
  kiln_buffer_puts(out, strstr(text, "%z = ") ? " return %y, %z }" : " return %y }");
  return graph_from(arena, kiln_buffer_text(out));
}

static void add_rows(kiln_arena_t *arena, kiln_batch_t *batch, kiln_dtype_t dtype) {
  static const kiln_symbol_class_t no_symbols = {{1, 1, 1, 1, 1, 1, 1, 1}, false};
  static const kiln_options_t plain = {0};
  static const kiln_pass_run_t no_passes = {.list = ""};
  for (int i = 0; i < ROWS; i++) {
    const kiln_op_info_t *info = kiln_op_info(rows[i].op);
    bool creates = info->op_class == KILN_CLASS_CREATION; /* its dtype is an attribute */
    if (creates ? rows[i].op == KILN_OP_iota && dtype == KILN_DTYPE_bool
                : !kiln_dtype_in(dtype, info->dtypes))
      continue;
    const kiln_graph_t *graph = graph_for(arena, rows[i].text, kiln_dtype_name(dtype));
    kiln_batch_add(batch, graph, &plain, &no_symbols, &no_passes);
  }
}

/* Two seeds: what the inputs hold is drawn anew for each. */
static void check_dtype(kiln_dtype_t dtype, const char *arch) {
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  kiln_batch_t *batch = kiln_batch_create(&arena, arch);
  add_rows(&arena, batch, dtype);
  kiln_batch_compile(batch);
  for (uint32_t i = 0; i < kiln_batch_count(batch); i++) {
    const kiln_graph_t *graph = kiln_batch_pipeline(batch, i)->input;
    kiln_tensor_t inputs[3];
    for (uint64_t seed = 2 * i; seed < 2 * i + 2; seed++) {
      kiln_random_inputs(&arena, graph, seed, NULL, inputs);
      const kiln_node_t *last = kiln_graph_producer(graph, graph->outputs[0]);
      kiln_batch_check(batch, i, NULL, inputs,
                       kiln_arena_printf(&arena, "%s of %s for %s", kiln_op_info(last->op)->name,
                                         kiln_dtype_name(dtype), arch));
    }
  }
  kiln_batch_destroy(batch);
  kiln_arena_deinit(&arena);
}

/* 75 numbers in the source, of which three at a time are wanted: the compiler reads four. */
static void a_table_is_read_in_wider_pieces_than_wanted(void **state) {
  (void)state;
  static const kiln_symbol_class_t no_symbols = {{1, 1, 1, 1, 1, 1, 1, 1}, false};
  static const kiln_options_t plain = {0};
  static const kiln_pass_run_t no_passes = {.list = ""};
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  kiln_buffer_t *text = kiln_buffer_in_arena(&arena);
  kiln_buffer_puts(text, "%i: i32[25,1]|%c = constant() {shape=[25,3], dtype=D, values=[0");
  for (int i = 1; i < 75; i++) kiln_buffer_printf(text, ",%d", i * 7 % 11);
  kiln_buffer_puts(text, "]} %s = log_softmax(%c) {dim=1} %y = gather(%s, %i) {dim=1}");
  kiln_batch_t *batch = kiln_batch_create(&arena, "sm_80");
  const kiln_graph_t *graph = graph_for(&arena, kiln_buffer_text(text), "f32");
  kiln_batch_add(batch, graph, &plain, &no_symbols, &no_passes);
  kiln_batch_compile(batch);
  kiln_tensor_t input;
  kiln_random_inputs(&arena, graph, 1, NULL, &input);
  kiln_batch_check(batch, 0, NULL, &input, "a table");
  kiln_batch_destroy(batch);
  kiln_arena_deinit(&arena);
}

static void every_op_has_a_graph_here(void **state) {
  (void)state;
  for (kiln_op_t op = 0; op < KILN_OP_COUNT; op++) {
    bool found = kiln_op_info(op)->op_class == KILN_CLASS_ELEMENTWISE;
    for (int i = 0; i < ROWS; i++) found |= rows[i].op == op;
    if (!found) fail_msg("none for %s", kiln_op_info(op)->name);
  }
}

static void every_dtype_has_the_reference_values_on_sm_80(void **state) {
  (void)state;
  for (kiln_dtype_t dtype = 0; dtype < KILN_DTYPE_COUNT; dtype++) check_dtype(dtype, "sm_80");
}

static void every_dtype_has_the_reference_values_on_sm_90(void **state) {
  (void)state;
  for (kiln_dtype_t dtype = 0; dtype < KILN_DTYPE_COUNT; dtype++) check_dtype(dtype, "sm_90");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_op_has_a_graph_here),
      cmocka_unit_test(a_table_is_read_in_wider_pieces_than_wanted),
      cmocka_unit_test(every_dtype_has_the_reference_values_on_sm_80),
      cmocka_unit_test(every_dtype_has_the_reference_values_on_sm_90),
  };
  return cmocka_run_group_tests_name("codegen: families", tests, NULL, NULL);
}
