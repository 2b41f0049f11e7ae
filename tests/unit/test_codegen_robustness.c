/* tests/unit/test_codegen_robustness.c: what went wrong in other compilers, by hand: graphs, inputs and the
 * right values as numbers, for sm_80 and sm_90 code, optimized and node by node.
 *
 * Each row begins with the words of the list that it comes from, "Shapes and addresses" and "Numbers" of
 * public bug reports. The values are those of IEEE arithmetic and of PyTorch's documentation, written down
 * here; the reference evaluator must agree as well. Tensors whose addresses pass 2^31 lie in the emulated
 * device's sparse memory, of which little is touched.
 * Labels: device, release-only (test_codegen_random runs the same code under the sanitizers)
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ir/number.h"
#include "ir/text.h"
#include "tests/support/batch.h"
#include "tests/support/emu_device.h"
#include "tests/support/graphs.h"

/* Elements of a tensor, repeated as often as it takes. */
typedef struct {
  uint32_t count;
  const double *at;
} values_t;
#define V(...)                                                                                               \
  {                                                                                                          \
    sizeof((double[]){__VA_ARGS__}) / sizeof(double), (const double[]) { __VA_ARGS__ }                       \
  }

enum { MOST = 6 };

typedef struct {
  const char *row, *text;
  values_t inputs[MOST], outputs[MOST];
} row_t;

#define N NAN
#define I INFINITY
/* The two operands of the NaN row, and of the row of floordiv. */
#define NAN_X V(-3, N, -1, 0, 1, 2, N)
#define NAN_Y V(0, 0, N, 0, 0, 0, 0)
#define NAN_GRAPH(d)                                                                                         \
  "graph g(%x: " d "[7], %y: " d "[7]) { %r = relu(%x) %c = clamp(%x) {min=0.5, max=inf} "                   \
  "%a = maximum(%x, %y) %i = minimum(%x, %y) %m = amax(%x) %n = amin(%x) return %r, %c, %a, %i, %m, %n }"
#define NAN_RESULTS                                                                                          \
  {                                                                                                          \
    V(0, N, 0, 0, 1, 2, N), V(0.5, N, 0.5, 0.5, 1, 2, N), V(0, N, N, 0, 1, 2, N), V(-3, N, N, 0, 0, 0, N),   \
        V(N), V(N)                                                                                           \
  }
#define DIVIDE_GRAPH(d)                                                                                      \
  "graph g(%a: " d "[8], %b: " d "[8]) { %q = floordiv(%a, %b) %r = remainder(%a, %b) return %q, %r }"
#define DIVIDE_INPUTS                                                                                        \
  { V(-7, 7, -7, 7, -1, 1, -5, 5), V(2, 2, -2, -2, 3, -3, 3, -3) }
#define DIVIDE_RESULTS                                                                                       \
  { V(-4, 3, 3, -4, -1, -1, -2, -2), V(1, 1, -1, -1, 2, -2, 1, -1) }
#define CAST_GRAPH(d)                                                                                        \
  "graph g(%x: " d "[6]) { %a = cast(%x) {dtype=u8} %b = cast(%x) {dtype=i8} %c = cast(%x) {dtype=i32} "     \
  "%d = cast(%x) {dtype=i64} %e = cast(%x) {dtype=bool} return %a, %b, %c, %d, %e }"

static const row_t rows[] = {
    /* --- shapes and addresses */
    {"f32 [0,4] with [3,4] in cat",
     "graph g(%a: f32[0,4], %b: f32[3,4]) { %y = cat(%a, %b) {dim=0} %z = cat(%b, %a, %b) {dim=0} return %y, %z }",
     {V(0), V(1, 2, 3, 4)},
     {V(1, 2, 3, 4), V(1, 2, 3, 4)}},
    {"[0,3] argmin over 1", "graph g(%x: f32[0,3]) { %y = argmin(%x) {dim=1} return %y }", {V(0)}, {V(0)}},
    {"sum of [3,0] over 1 = 0, prod = 1, mean = NaN",
     "graph g(%x: f32[3,0]) { %s = sum(%x) {dims=[1]} %p = prod(%x) {dims=[1]} %m = mean(%x) {dims=[1]} "
     "%v = var(%x) {dims=[1]} return %s, %p, %m, %v }",
     {V(0)},
     {V(0), V(1), V(N), V(N)}},
    {"sum of [3,0] over 1 = 0, prod = 1 (of integers; any, all)",
     "graph g(%x: i32[3,0]) { %s = sum(%x) {dims=[1]} %p = prod(%x) {dims=[1]} %a = any(%x) {dims=[1]} "
     "%b = all(%x) {dims=[1]} return %s, %p, %a, %b }",
     {V(0)},
     {V(0), V(1), V(0), V(1)}},
    {"rank 0: mean over dim 0 or -1",
     "graph g(%x: f32[]) { %a = mean(%x) {dims=[0]} %b = mean(%x) {dims=[-1]} %c = softmax(%x) {dim=-1} "
     "%d = argmax(%x) {dim=0} %e = var(%x) {dims=[0], correction=0} return %a, %b, %c, %d, %e }",
     {V(2.5)},
     {V(2.5), V(2.5), V(1), V(0), V(0)}},
    {"broadcast of a scalar with anything",
     "graph g(%s: f32[], %x: f32[2,3], %e: f32[0,3]) { %a = add(%s, %x) %b = mul(%e, %s) %c = sub(%s, %s) "
     "return %a, %b, %c }",
     {V(10), V(1, 2, 3, 4, 5, 6), V(0)},
     {V(11, 12, 13, 14, 15, 16), V(0), V(0)}},
    {"reshape [16,100] -> [16,5,20] then slice of the last dim 1:10",
     "graph g() { %i = iota() {shape=[1600], dim=0, dtype=i32} %x = reshape(%i) {shape=[16,100]} "
     "%r = reshape(%x) {shape=[16,5,20]} %s = slice(%r) {starts=[0,0,1], limits=[16,5,10]} "
     "%t = slice(%s) {starts=[15,3,0], limits=[16,5,9]} return %t }",
     {V(0)},
     {V(1561, 1562, 1563, 1564, 1565, 1566, 1567, 1568, 1569, 1581, 1582, 1583, 1584, 1585, 1586, 1587, 1588,
        1589)}},
    /* x[i, j] = 35 i + j; the 35 are 5 by 7, turned to 7 by 5, merged with i and split by 3 */
    {"split-merge chains with odd factors",
     "graph g(%x: i32[3,35]) { %a = reshape(%x) {shape=[3,5,7]} %b = permute(%a) {dims=[0,2,1]} "
     "%c = reshape(%b) {shape=[105]} %d = reshape(%c) {shape=[15,7]} %e = permute(%d) {dims=[1,0]} "
     "%f = reshape(%e) {shape=[7,3,5]} %g = slice(%f) {starts=[2,1,0], limits=[3,3,5]} return %g }",
     {V(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27,
        28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52,
        53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63, 64, 65, 66, 67, 68, 69, 70, 71, 72, 73, 74, 75, 76, 77,
        78, 79, 80, 81, 82, 83, 84, 85, 86, 87, 88, 89, 90, 91, 92, 93, 94, 95, 96, 97, 98, 99, 100, 101, 102,
        103, 104)},
     /* by NumPy */
     {V(49, 64, 45, 60, 41, 84, 99, 80, 95, 76)}},
    {"1-D x, slices at offsets 4, 2 and 0 added",
     "graph g(%x: f32[13]) { %a = slice(%x) {starts=[4], limits=[13]} %b = slice(%x) {starts=[2], limits=[11]} "
     "%c = slice(%x) {starts=[0], limits=[9]} %d = add(%a, %b) %y = add(%d, %c) return %y }",
     {V(0, 1, 4, 9, 16, 25, 36, 49, 64, 81, 100, 121, 144)},
     {V(20, 35, 56, 83, 116, 155, 200, 251, 308)}},
    /* --- numbers */
    {"x = [-3, NaN, -1, 0, 1, 2, NaN], y = [0, 0, NaN, 0, 0, 0, 0] f32",
     NAN_GRAPH("f32"),
     {NAN_X, NAN_Y},
     NAN_RESULTS},
    {"x = [-3, NaN, -1, 0, 1, 2, NaN], y = [0, 0, NaN, 0, 0, 0, 0] f16",
     NAN_GRAPH("f16"),
     {NAN_X, NAN_Y},
     NAN_RESULTS},
    {"f16 rmsnorm and layernorm of width 2048, values +-200",
     "graph g(%x: f16[2,2048]) { %a = rmsnorm(%x, none) {normalized_shape=[2048]} "
     "%b = layernorm(%x, none, none) {normalized_shape=[2048]} return %a, %b }",
     {V(200, -200)},
     {V(1, -1), V(1, -1)}},
    {"a row of all 3.0 with eps 1e-12 (beta 0.25)",
     "graph g(%x: f16[2,2048], %b: f16[2048]) { %a = layernorm(%x, none, %b) {normalized_shape=[2048], eps=1e-12} "
     "%f = cast(%x) {dtype=f32} %c = layernorm(%f, none, none) {normalized_shape=[2048], eps=1e-12} "
     "return %a, %c }",
     {V(3), V(0.25)},
     {V(0.25), V(0)}},
    {"f32 ones [20000000,2], mean over 0 (scaled down)",
     "graph g(%x: f32[20000,2]) { %y = mean(%x) {dims=[0]} return %y }",
     {V(1)},
     {V(1)}},
    {"f32 [100,100,100] of 100 summed",
     "graph g(%x: f32[100,100,100]) { %y = sum(%x) return %y }",
     {V(100)},
     {V(1e8)}},
    {"f16 ones [100000] mean", "graph g(%x: f16[100000]) { %y = mean(%x) return %y }", {V(1)}, {V(1)}},
    {"floordiv and remainder, i32", DIVIDE_GRAPH("i32"), DIVIDE_INPUTS, DIVIDE_RESULTS},
    {"floordiv and remainder, i64", DIVIDE_GRAPH("i64"), DIVIDE_INPUTS, DIVIDE_RESULTS},
    {"floordiv and remainder, i8", DIVIDE_GRAPH("i8"), DIVIDE_INPUTS, DIVIDE_RESULTS},
    {"floordiv and remainder, f32", DIVIDE_GRAPH("f32"), DIVIDE_INPUTS, DIVIDE_RESULTS},
    {"floordiv and remainder, f16", DIVIDE_GRAPH("f16"), DIVIDE_INPUTS, DIVIDE_RESULTS},
    {"by zero and INT_MIN / -1 defined",
     "graph g(%a: i32[5], %b: i32[5]) { %q = floordiv(%a, %b) %r = remainder(%a, %b) return %q, %r }",
     {V(-2147483648.0, 7, -7, 0, -2147483648.0), V(-1, 0, 0, 0, 0)},
     {V(-2147483648.0, 0, 0, 0, 0), V(0)}},
    {"simplification of (x*4 + 3) floordiv 4 for negative x",
     "graph g(%x: i32[6]) { %k = full() {shape=[], value=4, dtype=i32} %t = full() {shape=[], value=3, dtype=i32} "
     "%m = mul(%x, %k) %a = add(%m, %t) %q = floordiv(%a, %k) %r = remainder(%a, %k) return %q, %r }",
     {V(-3, -1, 0, 1, 536870912.0, -536870913.0)},
     {V(-3, -1, 0, 1, -536870912.0, 536870911.0), V(3)}},
    {"1e-40 f32 through mul by 1",
     "graph g(%x: f32[3]) { %o = full() {shape=[], value=1.0, dtype=f32} %y = mul(%x, %o) %z = mul(%y, %y) "
     "%n = neg(%y) return %y, %n }",
     {V(0x1p-133, -0x1p-149, 0x1.8p-140)},
     {V(0x1p-133, -0x1p-149, 0x1.8p-140), V(-0x1p-133, 0x1p-149, -0x1.8p-140)}},
    {"casts of NaN, +-inf, 1e10, -1 to u8, i8, i32, i64, bool (f32)",
     CAST_GRAPH("f32"),
     {V(N, I, -I, 1e10, -1, 0)},
     {V(0, 255, 0, 255, 0, 0), V(0, 127, -128, 127, -1, 0),
      V(0, 2147483647.0, -2147483648.0, 2147483647.0, -1, 0), V(0, 0x1p63, -0x1p63, 1e10, -1, 0),
      V(1, 1, 1, 1, 1, 0)}},
    {"casts of NaN, +-inf, 1e10, -1 to u8, i8, i32, i64, bool (f64)",
     CAST_GRAPH("f64"),
     {V(N, I, -I, 1e10, -1, 0)},
     {V(0, 255, 0, 255, 0, 0), V(0, 127, -128, 127, -1, 0),
      V(0, 2147483647.0, -2147483648.0, 2147483647.0, -1, 0), V(0, 0x1p63, -0x1p63, 1e10, -1, 0),
      V(1, 1, 1, 1, 1, 0)}},
    {"casts of NaN, +-inf, 300, -1 to u8, i8, i32, i64, bool (f16)",
     CAST_GRAPH("f16"),
     {V(N, I, -I, 300, -1, 0)},
     {V(0, 255, 0, 255, 0, 0), V(0, 127, -128, 127, -1, 0), V(0, 2147483647.0, -2147483648.0, 300, -1, 0),
      V(0, 0x1p63, -0x1p63, 300, -1, 0), V(1, 1, 1, 1, 1, 0)}},
    {"softmax of a row of -inf but one; of large equal values",
     "graph g(%x: f32[2,4]) { %y = softmax(%x) {dim=1} return %y }",
     {V(-I, -I, 7, -I, 3e38, 3e38, 3e38, 3e38)},
     {V(0, 0, 1, 0, 0.25, 0.25, 0.25, 0.25)}},
    {"softmax of large equal values, written out",
     "graph g(%x: f16[2,4]) { %m = amax(%x) {dims=[1], keepdim=true} %d = sub(%x, %m) %e = exp(%d) "
     "%s = sum(%e) {dims=[1], keepdim=true} %y = div(%e, %s) return %y }",
     {V(-I, -I, 7, -I, 60000, 60000, 60000, 60000)},
     {V(0, 0, 1, 0, 0.25, 0.25, 0.25, 0.25)}},
    {"log_softmax far from the maximum",
     "graph g(%x: f32[1,3]) { %y = log_softmax(%x) {dim=1} return %y }",
     {V(-100000, 0, -300)},
     {V(-100000, 0, -300)}},
    /* --- argmax and argmin as PyTorch: the first of equals, a NaN before all */
    {"argmax, argmin: ties and NaN",
     "graph g(%x: f32[5,6]) { %a = argmax(%x) {dim=1} %b = argmin(%x) {dim=1} return %a, %b }",
     {V(1, 5, 5, 0, 0, 5, 2, N, 9, N, -9, 3, I, 1, I, -I, 2, -I, 0.0, -0.0, 0.0, -0.0, 0.0, -0.0, 4, 4, 4, 4,
        4, 4)},
     {V(1, 1, 0, 0, 0), V(3, 1, 3, 0, 0)}},
    {"argmax, argmin over columns: ties and NaN",
     "graph g(%x: f16[4,3]) { %a = argmax(%x) {dim=0} %b = argmin(%x) {dim=0} return %a, %b }",
     {V(1, N, 2, 3, 8, 2, 3, N, 2, 1, 9, 2)},
     {V(1, 0, 0), V(0, 0, 0)}},
    {"argmax of bool and of integers, over all",
     "graph g(%x: bool[2,3], %y: i8[2,3]) { %a = argmax(%x) %b = argmin(%x) %c = argmax(%y) %d = argmin(%y) "
     "return %a, %b, %c, %d }",
     {V(0, 1, 0, 1, 1, 0), V(-128, 127, 127, 0, -128, 3)},
     {V(1), V(0), V(1), V(0)}},
    {"amax, amin, any, all with NaN, -0.0 and infinities",
     "graph g(%x: f32[4,3]) { %a = amax(%x) {dims=[1]} %b = amin(%x) {dims=[1]} %c = any(%x) {dims=[1]} "
     "%d = all(%x) {dims=[1]} return %a, %b, %c, %d }",
     {V(1, N, 2, -I, -I, -I, I, -I, 0, 0, -0.0, 0)},
     {V(N, -I, I, 0), V(N, -I, -I, 0), V(1, 1, 1, 0), V(1, 1, 0, 0)}},
};
enum { ROWS = sizeof rows / sizeof *rows };

static const kiln_symbol_class_t no_symbols = {{1, 1, 1, 1, 1, 1, 1, 1}, false};
static const kiln_options_t fused = {0}, unfused = {.unfused = true};
static const kiln_pass_run_t no_passes = {.list = ""};

/* --- rows ----------------------------------------------------------------------------------------------- */

static uint64_t bits_of(double value, kiln_dtype_t dtype) {
  return kiln_dtype_is_float(dtype) ? kiln_real_to_bits(value, dtype) : (uint64_t)(int64_t)value;
}

static double value_of(const kiln_tensor_t *tensor, int64_t at) {
  uint64_t bits = kiln_bits_read(tensor->data, at, tensor->dtype);
  return kiln_dtype_is_float(tensor->dtype) ? kiln_real_from_bits(bits, tensor->dtype)
                                            : (double)kiln_integer_from_bits(bits, tensor->dtype);
}

static kiln_tensor_t filled(kiln_arena_t *arena, const kiln_type_t *type, values_t values) {
  kiln_tensor_t tensor;
  int64_t sizes[KILN_MAX_RANK];
  assert_null(kiln_type_sizes(type, NULL, sizes));
  assert_null(kiln_tensor_create(arena, type->dtype, type->rank, sizes, &tensor));
  for (int64_t i = 0, n = kiln_tensor_elements(&tensor); i < n; i++)
    kiln_bits_write(tensor.data, i, type->dtype, bits_of(values.at[i % values.count], type->dtype));
  return tensor;
}

/* Within an f16's rounding of 1e-3 where the number is not exact: norms and exponentials. */
static bool is_right(double got, double expected) {
  if (isnan(expected)) return isnan(got);
  if (expected == 0 || isinf(expected)) return got == expected;
  return got == expected || (fabs(got - expected) < 1e-4 * fabs(expected) && got != rint(got));
}

static void expect_values(const char *row, uint32_t output, const kiln_tensor_t *got, values_t expected) {
  for (int64_t i = 0, n = kiln_tensor_elements(got); i < n; i++) {
    double value = value_of(got, i), wanted = expected.at[i % expected.count];
    if (!is_right(value, wanted))
      fail_msg("%s: output %u[%lld] is %a instead of %a", row, output, (long long)i, value, wanted);
  }
}

static void check_row(kiln_arena_t *arena, kiln_batch_t *batch, uint32_t number, const row_t *row) {
  const kiln_graph_t *graph = kiln_batch_pipeline(batch, number)->input;
  kiln_tensor_t inputs[MOST], outputs[MOST];
  for (uint32_t i = 0; i < graph->input_count; i++)
    inputs[i] = filled(arena, &graph->types[i], row->inputs[i]);
  kiln_batch_check(batch, number, NULL, inputs, row->row);
  kiln_batch_run(batch, number, NULL, inputs, outputs);
  for (uint32_t i = 0; i < graph->output_count; i++) {
    if (!row->outputs[i].count) fail_msg("%s: nothing is said of output %u", row->row, i);
    expect_values(row->row, i, &outputs[i], row->outputs[i]);
  }
}

static void check_rows(const char *arch) {
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  kiln_batch_t *batch = kiln_batch_create(&arena, arch);
  for (uint32_t i = 0; i < ROWS; i++) {
    const kiln_graph_t *graph = graph_from(&arena, rows[i].text);
    kiln_batch_add(batch, graph, &fused, &no_symbols, NULL);
    kiln_batch_add(batch, graph, &unfused, &no_symbols, &no_passes);
  }
  kiln_batch_compile(batch);
  for (uint32_t i = 0; i < 2 * ROWS; i++) check_row(&arena, batch, i, &rows[i / 2]);
  kiln_batch_destroy(batch);
  kiln_arena_deinit(&arena);
}

static void every_row_has_its_values_on_sm_80(void **state) {
  (void)state;
  check_rows("sm_80");
}

static void every_row_has_its_values_on_sm_90(void **state) {
  (void)state;
  check_rows("sm_90");
}

/* --- storage bits --------------------------------------------------------------------------------------- */

/* "-0.0 and NaN payloads through cat, pad, slice, repeat, reshape, where": bit-exact */
static void moved_bits_stay(kiln_arena_t *arena, kiln_dtype_t dtype, const uint64_t bits[8],
                            const char *arch) {
  const char *
      d = kiln_dtype_name(dtype),
     *text = kiln_arena_printf(
         arena,
         "graph g(%%x: %s[8], %%c: bool[8]) { %%a = cat(%%x, %%x) {dim=0} %%p = pad(%%x) {low=[1], high=[2], "
         "value=-0.0} %%s = slice(%%x) {starts=[1], limits=[7], steps=[2]} %%r = repeat(%%x) {times=[3]} "
         "%%h = reshape(%%x) {shape=[2,4]} %%t = permute(%%h) {dims=[1,0]} %%v = reverse(%%x) {dims=[0]} "
         "%%w = where(%%c, %%x, %%v) return %%a, %%p, %%s, %%r, %%t, %%w }",
         d);
  static const int places[6][24] = {{0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7},
                                    {-1, 0, 1, 2, 3, 4, 5, 6, 7, -1, -1},
                                    {1, 3, 5},
                                    {0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7},
                                    {0, 4, 1, 5, 2, 6, 3, 7},
                                    {0, 6, 2, 4, 4, 2, 6, 0}};
  kiln_batch_t *batch = kiln_batch_create(arena, arch);
  uint32_t numbers[2] = {kiln_batch_add(batch, graph_from(arena, text), &fused, &no_symbols, NULL),
                         kiln_batch_add(batch, graph_from(arena, text), &unfused, &no_symbols, &no_passes)};
  kiln_batch_compile(batch);
  const kiln_graph_t *graph = kiln_batch_pipeline(batch, 0)->input;
  kiln_tensor_t inputs[2], outputs[6];
  inputs[0] = filled(arena, &graph->types[0], (values_t)V(0));
  inputs[1] = filled(arena, &graph->types[1], (values_t)V(1, 0));
  for (int i = 0; i < 8; i++) kiln_bits_write(inputs[0].data, i, dtype, bits[i]);
  for (int way = 0; way < 2; way++) {
    kiln_batch_run(batch, numbers[way], NULL, inputs, outputs);
    for (int o = 0; o < 6; o++) {
      for (int64_t i = 0, n = kiln_tensor_elements(&outputs[o]); i < n; i++) {
        uint64_t wanted = places[o][i] < 0 ? bits_of(-0.0, dtype) : bits[places[o][i]];
        uint64_t got = kiln_bits_read(outputs[o].data, i, dtype);
        if (got != wanted)
          fail_msg("%s for %s: output %d[%lld] is %llx instead of %llx", d, arch, o, (long long)i,
                   (unsigned long long)got, (unsigned long long)wanted);
      }
    }
  }
  kiln_batch_destroy(batch);
}

static void zeros_and_nan_payloads_are_moved_bit_by_bit(void **state) {
  (void)state;
  static const uint64_t halves[8] = {0x8000, 0x7e01, 0xfe55, 0x7c01, 0x0001, 0x8001, 0x7dff, 0xfc00};
  static const uint64_t brains[8] = {0x8000, 0x7fc1, 0xffd5, 0x7f81, 0x0001, 0x8001, 0x7fbf, 0xff80};
  static const uint64_t singles[8] = {0x80000000, 0x7fc00001, 0xffc12345, 0x7f800001,
                                      0x00000001, 0x80000001, 0x7fbfffff, 0xff800000};
  static const uint64_t doubles[8] = {0x8000000000000000, 0x7ff8000000000001, 0xfff8123456789abc,
                                      0x7ff0000000000001, 0x0000000000000001, 0x8000000000000001,
                                      0x7ff7ffffffffffff, 0xfff0000000000000};
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  for (int i = 0; i < 2; i++) {
    const char *arch = i ? "sm_90" : "sm_80";
    moved_bits_stay(&arena, KILN_DTYPE_f16, halves, arch);
    moved_bits_stay(&arena, KILN_DTYPE_bf16, brains, arch);
    moved_bits_stay(&arena, KILN_DTYPE_f32, singles, arch);
    moved_bits_stay(&arena, KILN_DTYPE_f64, doubles, arch);
  }
  kiln_arena_deinit(&arena);
}

/* --- what must be refused ------------------------------------------------------------------------------- */

static void what_would_need_elements_that_are_not_there_is_an_error(void **state) {
  (void)state;
  static const char *const texts[] = {
      "graph g(%x: f32[3,0]) { %y = amax(%x) {dims=[1]} return %y }",
      "graph g(%x: f32[0]) { %y = argmin(%x) return %y }",
      "graph g(%x: f32[3]) { %y = expand(%x) {shape=[4]} return %y }",
      "graph g(%x: f32[0]) { %y = expand(%x) {shape=[4]} return %y }",
      "graph g(%x: f32[3]) { %y = pad(%x) {low=[-1], high=[0]} return %y }",
      "graph g(%x: f32[3]) { %y = slice(%x) {starts=[1], limits=[4]} return %y }",
      "graph g(%x: f32[3]) { %y = slice(%x) {starts=[3], limits=[2]} return %y }",
      "graph g(%x: f32[0,4], %i: i64[1,4]) { %y = gather(%x, %i) {dim=0} return %y }",
  };
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    kiln_graph_list_t list = {0};
    kiln_status_t status = kiln_text_parse(&arena, "test", texts[i], strlen(texts[i]), &list);
    if (kiln_status_code(status) != KILN_INVALID_GRAPH) fail_msg("taken: %s", texts[i]);
    kiln_status_free(status);
  }
  kiln_arena_deinit(&arena);
}

/* --- addresses past 2^31 -------------------------------------------------------------------------------- */

/* What a kernel takes beside its input and output; none of these kernels has a dimension to be told. */
typedef struct {
  CUdeviceptr input, output, workspace, counters;
} places_t;

static CUdeviceptr *address_of(places_t *places, const kiln_slot_t *slot) {
  switch (slot->kind) {
  case KILN_SLOT_BUFFER:
    return slot->buffer.kind == KILN_BUFFER_INPUT ? &places->input : &places->output;
  case KILN_SLOT_WORKSPACE:
    return &places->workspace;
  case KILN_SLOT_COUNTERS:
    return &places->counters;
  default:
    fail_msg("a slot of kind %d", (int)slot->kind);
    return NULL;
  }
}

static CUdeviceptr zeroed(size_t bytes) {
  CUdeviceptr at = emu_alloc(bytes + 4);
  EMU_OK(test_driver()->cuMemsetD8Async(at, 0, bytes + 4, NULL));
  return at;
}

static void run_kernel(const kiln_kernel_source_t *kernel, const char *ptx, CUdeviceptr input, void *output,
                       size_t output_bytes) {
  CUmodule module;
  void *arguments[8];
  places_t places = {input, emu_alloc(output_bytes),
                     emu_alloc((size_t)kernel->scratch.workspace_bytes.constant + 4),
                     zeroed((size_t)kernel->scratch.counters.constant * sizeof(uint32_t))};
  assert_in_range(kernel->slot_count, 2, 8);
  for (uint32_t i = 0; i < kernel->slot_count; i++) arguments[i] = address_of(&places, &kernel->slots[i]);
  unsigned grid[3];
  for (int i = 0; i < 3; i++) {
    const kiln_extent_t *blocks = &kernel->grid[i];
    grid[i] = (unsigned)((blocks->dim.constant + blocks->divisor - 1) / blocks->divisor);
  }
  EMU_OK(emu_load(&module, ptx));
  CUfunction function = emu_function(module, kernel->entry);
  EMU_OK(test_driver()->cuLaunchKernel(function, grid[0], grid[1], grid[2], kernel->block[0],
                                       kernel->block[1], kernel->block[2], kernel->shared_bytes, NULL,
                                       arguments, NULL));
  EMU_OK(test_driver()->cuCtxSynchronize());
  emu_download(output, places.output, output_bytes);
  emu_unload(module);
  emu_free(places.output);
  emu_free(places.workspace);
  emu_free(places.counters);
}

/* A graph of one input and one output, its input by address. */
static void launch(kiln_arena_t *arena, const char *text, const char *arch, CUdeviceptr input, void *output,
                   size_t output_bytes) {
  kiln_target_t target;
  kiln_pipeline_t pipeline;
  kiln_compiler_t *compiler;
  kiln_kernel_artifact_t artifact;
  assert_null(kiln_target_parse(arch, &target));
  const kiln_graph_t *graph = graph_from(arena, text);
  kiln_extents_t extents = kiln_pipeline_extents(arena, arena, graph);
  kiln_symbol_class_t symbol_class = kiln_pipeline_symbol_class(&extents, 0, NULL);
  kiln_status_t status =
      kiln_pipeline_generate(arena, graph, &target, &fused, &symbol_class, NULL, &pipeline);
  if (status) fail_msg("%s", kiln_status_message(status));
  assert_int_equal(pipeline.grouping->group_count, 1);
  const kiln_kernel_source_t *kernel = &pipeline.kernels[0];
  assert_null(kiln_compiler_create(NULL, &compiler));
  status = kiln_compiler_compile(compiler, arena, kernel->source, kernel->entry, &target, KILN_IMAGE_PTX,
                                 &artifact);
  if (status) fail_msg("%s", kiln_status_message(status));
  kiln_compiler_destroy(compiler);
  run_kernel(kernel, artifact.ptx, input, output, output_bytes);
}

enum { LAST_ROWS = 3, COLUMNS = 40000, FIRST_ROW = 60000 };
static const size_t far_bytes = (size_t)70000 * COLUMNS;

/* i8 [70000,40000] of which rows 60,000 to 60,002 are written: 2.8 GB of addresses, 120 KB of memory. */
static CUdeviceptr far_rows(void) {
  static int8_t row[LAST_ROWS * COLUMNS];
  for (int i = 0; i < LAST_ROWS * COLUMNS; i++) row[i] = (int8_t)(i * 7 % 251 - 125);
  CUdeviceptr input = emu_alloc(far_bytes);
  EMU_OK(test_driver()->cuMemcpyHtoD_v2(input + (size_t)FIRST_ROW * COLUMNS, row, sizeof row));
  return input;
}

static int8_t far_element(int row, int column) { return (int8_t)((row * COLUMNS + column) * 7 % 251 - 125); }

static void rows_whose_addresses_pass_2_31_are_read(kiln_arena_t *arena, const char *arch,
                                                    CUdeviceptr input) {
  static int8_t out[2 * LAST_ROWS * COLUMNS];
  launch(
      arena,
      "graph g(%x: i8[70000,40000]) { %s = slice(%x) {starts=[60000,0], limits=[60003,40000]} %n = neg(%s) "
      "%y = cat(%s, %n) {dim=0} return %y }",
      arch, input, out, sizeof out);
  for (int i = 0; i < LAST_ROWS * COLUMNS; i++) {
    assert_int_equal(out[i], far_element(0, i));
    assert_int_equal(out[LAST_ROWS * COLUMNS + i], (int8_t)-far_element(0, i));
  }
}

static void rows_whose_addresses_pass_2_31_are_summed(kiln_arena_t *arena, const char *arch,
                                                      CUdeviceptr input) {
  static int64_t sums[LAST_ROWS], columns[COLUMNS], wanted[LAST_ROWS];
  launch(arena,
         "graph g(%x: i8[70000,40000]) { %s = slice(%x) {starts=[60000,0], limits=[60003,40000]} "
         "%y = sum(%s) {dims=[1], dtype=i64} return %y }",
         arch, input, sums, sizeof sums);
  launch(arena,
         "graph g(%x: i8[70000,40000]) { %s = slice(%x) {starts=[60000,0], limits=[60003,40000]} "
         "%y = sum(%s) {dims=[0], dtype=i64} return %y }",
         arch, input, columns, sizeof columns);
  for (int c = 0; c < COLUMNS; c++) {
    int64_t column = 0;
    for (int r = 0; r < LAST_ROWS; r++) {
      column += far_element(r, c);
      wanted[r] += far_element(r, c);
    }
    assert_int_equal(columns[c], column);
  }
  for (int r = 0; r < LAST_ROWS; r++) assert_int_equal(sums[r], wanted[r]);
  memset(wanted, 0, sizeof wanted);
}

static void addresses_past_2_31_are_right(void **state) {
  (void)state;
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  CUdeviceptr input = far_rows();
  for (int i = 0; i < 2; i++) {
    rows_whose_addresses_pass_2_31_are_read(&arena, i ? "sm_90" : "sm_80", input);
    rows_whose_addresses_pass_2_31_are_summed(&arena, i ? "sm_90" : "sm_80", input);
  }
  emu_free(input);
  kiln_arena_deinit(&arena);
}

/* Five numbers a gigabyte apart and more: rows of f32[5,2] that lie 2^29 + 3 elements from each other. */
static void strides_past_2_31_bytes_are_right(void **state) {
  (void)state;
  static const size_t stride = (1u << 29) + 3;
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  CUdeviceptr input = emu_alloc((4 * stride + 2) * sizeof(float));
  for (int r = 0; r < 5; r++) {
    float row[2] = {(float)(1 << r), (float)(100 - r)};
    EMU_OK(test_driver()->cuMemcpyHtoD_v2(input + r * stride * sizeof(float), row, sizeof row));
  }
  for (int i = 0; i < 2; i++) {
    const char *arch = i ? "sm_90" : "sm_80";
    float sums[5], columns[2], total;
    int64_t place;
    launch(&arena,
           "graph g(%x: f32[5,2] strides [536870915,1] align 4) { %y = sum(%x) {dims=[1]} return %y }", arch,
           input, sums, sizeof sums);
    launch(&arena,
           "graph g(%x: f32[5,2] strides [536870915,1] align 4) { %y = sum(%x) {dims=[0]} return %y }", arch,
           input, columns, sizeof columns);
    launch(&arena, "graph g(%x: f32[5,2] strides [536870915,1] align 4) { %y = sum(%x) return %y }", arch,
           input, &total, sizeof total);
    launch(&arena, "graph g(%x: f32[5,2] strides [536870915,1] align 4) { %y = argmax(%x) return %y }", arch,
           input, &place, sizeof place);
    for (int r = 0; r < 5; r++) assert_true(sums[r] == (float)((1 << r) + 100 - r));
    assert_true(columns[0] == 31 && columns[1] == 490 && total == 521);
    assert_int_equal(place, 1);
  }
  emu_free(input);
  kiln_arena_deinit(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_row_has_its_values_on_sm_80),
      cmocka_unit_test(every_row_has_its_values_on_sm_90),
      cmocka_unit_test(zeros_and_nan_payloads_are_moved_bit_by_bit),
      cmocka_unit_test(what_would_need_elements_that_are_not_there_is_an_error),
      cmocka_unit_test_setup_teardown(addresses_past_2_31_are_right, emu_setup, emu_teardown),
      cmocka_unit_test_setup_teardown(strides_past_2_31_bytes_are_right, emu_setup, emu_teardown),
  };
  return cmocka_run_group_tests_name("codegen: robustness", tests, NULL, NULL);
}
