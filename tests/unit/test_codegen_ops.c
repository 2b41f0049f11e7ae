/* tests/unit/test_codegen_ops.c: every element-wise op on every dtype that it takes, and every pair of a
 * cast: the generated code compiles for sm_80 and sm_90 and gives the reference's values on the emulated
 * device.
 *
 * The rows of ops.def are the list of tests. Inputs hold each dtype's awkward values (ends, both zeros, NaN,
 * infinities, denormals) against each other, then random ones.
 * Labels: device, release-only (the sanitized emulator takes minutes; test_codegen_random runs the same code)
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/half.h"
#include "tests/support/batch.h"
#include "tests/support/graphs.h"
#include "tests/support/random_graph.h"

enum { ELEMENTS = 420 }; /* 20 x 21: no power of two divides it but 4 */

static const kiln_options_t plain = {0};
static const kiln_symbol_class_t no_symbols = {{1, 1, 1, 1, 1, 1, 1, 1}, false};

/* --- inputs
 * ------------------------------------------------------------------------------------------------- */

static const double reals[] = {0.0,  -0.0, 1.0,   -1.0, NAN,     INFINITY, -INFINITY, 0.5, -0.5, 2.0,
                               -3.0, 7.0,  1e-40, 1e10, 65504.0, -128.5,   255.5,     1.5, -2.5, 100.0};
static const int64_t integers[] = {0,         1,         -1,        2,         -2,   3,   -3,
                                   7,         -7,        8,         127,       -128, 255, INT32_MAX,
                                   INT32_MIN, INT64_MAX, INT64_MIN, 1u << 31u, 31,   64};
enum { VALUES = 20 };

static void write_real(kiln_tensor_t *tensor, int64_t at, double value) {
  switch (tensor->dtype) {
  case KILN_DTYPE_f16:
    ((uint16_t *)tensor->data)[at] = kiln_f16_from_f64(value);
    break;
  case KILN_DTYPE_bf16:
    ((uint16_t *)tensor->data)[at] = kiln_bf16_from_f32((float)value);
    break;
  case KILN_DTYPE_f32:
    ((float *)tensor->data)[at] = (float)value;
    break;
  default:
    ((double *)tensor->data)[at] = value;
  }
}

static void write_integer(kiln_tensor_t *tensor, int64_t at, int64_t value) {
  switch (tensor->dtype) {
  case KILN_DTYPE_bool:
    ((uint8_t *)tensor->data)[at] = value & 1;
    break;
  case KILN_DTYPE_i32:
    ((int32_t *)tensor->data)[at] = (int32_t)value;
    break;
  case KILN_DTYPE_i64:
    ((int64_t *)tensor->data)[at] = value;
    break;
  default:
    ((uint8_t *)tensor->data)[at] = (uint8_t)value;
  }
}

/* Operand number `operand`: the first 400 elements are all pairs of awkward values. */
static void fill(kiln_tensor_t *tensor, uint32_t operand, uint64_t *random) {
  for (int64_t i = 0; i < ELEMENTS; i++) {
    int64_t pick = operand == 0 ? i % VALUES : operand == 1 ? i / VALUES : (i * 7 + 3) % VALUES;
    bool is_random = i >= VALUES * VALUES;
    double real = (double)(int64_t)kiln_random_next(random) * 0x1p-60;
    if (kiln_dtype_is_float(tensor->dtype))
      write_real(tensor, i, is_random ? real : reals[pick]);
    else
      write_integer(tensor, i, is_random ? (int64_t)kiln_random_next(random) : integers[pick]);
  }
}

static kiln_tensor_t *make_inputs(kiln_arena_t *arena, const kiln_graph_t *graph) {
  kiln_tensor_t *inputs = KILN_NEW_ARRAY(arena, kiln_tensor_t, graph->input_count);
  uint64_t random = 1;
  for (uint32_t i = 0; i < graph->input_count; i++) {
    int64_t size = ELEMENTS;
    assert_null(kiln_tensor_create(arena, graph->types[i].dtype, 1, &size, &inputs[i]));
    fill(&inputs[i], i, &random);
  }
  return inputs;
}

/* --- graphs
 * ------------------------------------------------------------------------------------------------- */

static void add_text(kiln_arena_t *arena, kiln_batch_t *batch, const char *text) {
  kiln_pass_run_t run = {.list = ""};
  kiln_batch_add(batch, graph_from(arena, text), &plain, &no_symbols, &run);
}

static void add_op(kiln_arena_t *arena, kiln_batch_t *batch, const kiln_op_info_t *info, kiln_dtype_t dtype,
                   const char *attrs) {
  const char *d = kiln_dtype_name(dtype), *text;
  int n = ELEMENTS;
  if (info->operands_most == 3) {
    text = kiln_arena_printf(
        arena, "graph g(%%c: bool[%d], %%a: %s[%d], %%b: %s[%d]) { %%y = %s(%%c, %%a, %%b) return %%y }", n,
        d, n, d, n, info->name);
  } else if (info->operands_most == 2) {
    text = kiln_arena_printf(arena, "graph g(%%a: %s[%d], %%b: %s[%d]) { %%y = %s(%%a, %%b) return %%y }", d,
                             n, d, n, info->name);
  } else {
    text = kiln_arena_printf(arena, "graph g(%%a: %s[%d]) { %%y = %s(%%a) {%s} return %%y }", d, n,
                             info->name, attrs);
  }
  add_text(arena, batch, text);
}

static void add_conversions(kiln_arena_t *arena, kiln_batch_t *batch, kiln_dtype_t from) {
  for (kiln_dtype_t to = 0; to < KILN_DTYPE_COUNT; to++) {
    const char *attrs = kiln_arena_printf(arena, "dtype=%s", kiln_dtype_name(to));
    add_op(arena, batch, kiln_op_info(KILN_OP_cast), from, attrs);
    if (kiln_dtype_bytes(to) != kiln_dtype_bytes(from) || to == KILN_DTYPE_bool) continue;
    add_op(arena, batch, kiln_op_info(KILN_OP_bitcast), from, attrs);
  }
}

static void add_all(kiln_arena_t *arena, kiln_batch_t *batch, kiln_dtype_t dtype) {
  for (kiln_op_t op = 0; op < KILN_OP_COUNT; op++) {
    const kiln_op_info_t *info = kiln_op_info(op);
    if (info->op_class != KILN_CLASS_ELEMENTWISE || !kiln_dtype_in(dtype, info->dtypes)) continue;
    if (op == KILN_OP_cast || op == KILN_OP_bitcast) continue;
    const char *attrs = op == KILN_OP_gelu    ? "approximate=\"tanh\""
                        : op == KILN_OP_clamp ? "min=1, max=3"
                                              : "";
    add_op(arena, batch, info, dtype, attrs);
    if (op == KILN_OP_gelu) add_op(arena, batch, info, dtype, "");
    if (op == KILN_OP_clamp) add_op(arena, batch, info, dtype, "max=2");
    if (op != KILN_OP_clamp || !kiln_dtype_is_float(dtype)) continue;
    add_op(arena, batch, info, dtype, "min=0.5, max=inf");
    add_op(arena, batch, info, dtype, "min=nan, max=1.0"); /* an end that is NaN once did not bind */
    add_op(arena, batch, info, dtype, "max=nan");
  }
  add_conversions(arena, batch, dtype);
}

static void check_dtype(kiln_dtype_t dtype, const char *arch) {
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  kiln_batch_t *batch = kiln_batch_create(&arena, arch);
  add_all(&arena, batch, dtype);
  kiln_batch_compile(batch);
  for (uint32_t i = 0; !strcmp(arch, "sm_90") && i < kiln_batch_count(batch); i++) {
    const kiln_graph_t *graph = kiln_batch_pipeline(batch, i)->input;
    const char *what =
        kiln_arena_printf(&arena, "%s of %s", kiln_op_info(graph->nodes[0].op)->name, kiln_dtype_name(dtype));
    kiln_batch_check(batch, i, NULL, make_inputs(&arena, graph), what);
  }
  kiln_batch_destroy(batch);
  kiln_arena_deinit(&arena);
}

static void every_op_and_dtype_gives_the_reference_value(void **state) {
  (void)state;
  for (kiln_dtype_t dtype = 0; dtype < KILN_DTYPE_COUNT; dtype++) check_dtype(dtype, "sm_90");
}

static void every_op_and_dtype_compiles_for_the_oldest_target(void **state) {
  (void)state;
  for (kiln_dtype_t dtype = 0; dtype < KILN_DTYPE_COUNT; dtype++) check_dtype(dtype, "sm_80");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_op_and_dtype_gives_the_reference_value),
      cmocka_unit_test(every_op_and_dtype_compiles_for_the_oldest_target),
  };
  return cmocka_run_group_tests_name("codegen: ops", tests, NULL, NULL);
}
