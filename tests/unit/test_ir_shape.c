/* tests/unit/test_ir_shape.c: result types of every op against NumPy's and PyTorch's, written out.
 *
 * Each case is a statement with the result type that NumPy or PyTorch gives after the colon; the parser
 * compares. What is refused has its cases in tests/goldens/verify.
 */
#include "ir/verify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/graphs.h"

static kiln_arena_t arena;

static int set_up(void **state) {
  (void)state;
  kiln_arena_init(&arena, 0);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  kiln_arena_deinit(&arena);
  return 0;
}

typedef struct {
  const char *inputs, *statement;
} case_t;

static void check(const case_t *cases, size_t count) {
  for (size_t i = 0; i < count; i++) {
    const char *text =
        kiln_arena_printf(&arena, "graph g[T,U](%s) { %s return %%y }", cases[i].inputs, cases[i].statement);
    graph_from(&arena, text);
  }
}
#define CHECK(...)                                                                                           \
  do {                                                                                                       \
    static const case_t cases[] = {__VA_ARGS__};                                                             \
    check(cases, sizeof cases / sizeof *cases);                                                              \
  } while (0)

static void elementwise_ops_broadcast(void **state) {
  (void)state;
  CHECK({"%a: f32[4,1,8], %b: f32[5,1]", "%y = add(%a, %b) : f32[4,5,8]"},
        {"%a: f32[], %b: f32[2,3]", "%y = mul(%a, %b) : f32[2,3]"},
        {"%a: f32[0,4], %b: f32[1,4]", "%y = sub(%a, %b) : f32[0,4]"},
        {"%a: f32[0], %b: f32[1]", "%y = div(%a, %b) : f32[0]"},
        {"%a: i32[3], %b: i32[3]", "%y = lt(%a, %b) : bool[3]"},
        {"%c: bool[2,1], %a: f16[3], %b: f16[]", "%y = where(%c, %a, %b) : f16[2,3]"},
        {"%a: f32[T,1], %b: f32[1,U]", "%y = add(%a, %b) : f32[T,U]"},
        {"%a: f32[2*T,8], %b: f32[T+T,1]", "%y = add(%a, %b) : f32[2*T,8]"},
        {"%a: f32[3]", "%y = cast(%a) {dtype=bool} : bool[3]"},
        {"%a: f32[3]", "%y = bitcast(%a) {dtype=i32} : i32[3]"}, {"%a: f32[3]", "%y = isnan(%a) : bool[3]"},
        {"%a: bool[3]", "%y = logical_not(%a) : bool[3]"}, {"%a: i64[3]", "%y = clamp(%a) {min=0} : i64[3]"});
}

static void views_move_axes(void **state) {
  (void)state;
  CHECK({"%x: f32[2,3,4]", "%y = permute(%x) {dims=[2,0,-2]} : f32[4,2,3]"},
        {"%x: f32[]", "%y = permute(%x) {dims=[]} : f32[]"},
        {"%x: f32[1,3,1]", "%y = squeeze(%x) {dims=[-1,0]} : f32[3]"},
        {"%x: f32[3,4]", "%y = squeeze(%x) {dims=[]} : f32[3,4]"},
        {"%x: f32[3,4]", "%y = broadcast(%x) {dims=[0,2,-1]} : f32[1,3,1,4,1]"},
        {"%x: f32[]", "%y = broadcast(%x) {dims=[0]} : f32[1]"},
        {"%x: f32[3,1]", "%y = expand(%x) {shape=[2,-1,5]} : f32[2,3,5]"},
        {"%x: f32[1,3]", "%y = expand(%x) {shape=[0,3]} : f32[0,3]"},
        {"%x: f32[1,3]", "%y = expand(%x) {shape=[T,3]} : f32[T,3]"},
        {"%x: f32[]", "%y = expand(%x) {shape=[2,2]} : f32[2,2]"},
        {"%x: f32[2,3]", "%y = reverse(%x) {dims=[-1]} : f32[2,3]"});
}

static void reshape_keeps_the_number_of_elements(void **state) {
  (void)state;
  CHECK({"%x: f32[16,100]", "%y = reshape(%x) {shape=[16,5,20]} : f32[16,5,20]"},
        {"%x: f32[6]", "%y = reshape(%x) {shape=[2,-1]} : f32[2,3]"},
        {"%x: f32[1,1]", "%y = reshape(%x) {shape=[]} : f32[]"},
        {"%x: f32[]", "%y = reshape(%x) {shape=[1,-1]} : f32[1,1]"},
        {"%x: f32[0,4]", "%y = reshape(%x) {shape=[2,0,7]} : f32[2,0,7]"},
        {"%x: f32[0,4]", "%y = reshape(%x) {shape=[4,-1]} : f32[4,0]"},
        {"%x: f32[T,4096]", "%y = reshape(%x) {shape=[1,T,32,-1]} : f32[1,T,32,128]"},
        {"%x: f32[2*T,3]", "%y = reshape(%x) {shape=[T,-1]} : f32[T,6]"},
        {"%x: f32[T*T-1]", "%y = reshape(%x) {shape=[T+1,-1]} : f32[T+1,T-1]"});
}

static void slices_and_pads_change_sizes(void **state) {
  (void)state;
  CHECK({"%x: f32[10,10]", "%y = slice(%x) {starts=[0,3], limits=[10,3]} : f32[10,0]"},
        {"%x: f32[10]", "%y = slice(%x) {starts=[1], limits=[10], steps=[4]} : f32[3]"},
        {"%x: f32[10]", "%y = slice(%x) {starts=[0], limits=[10], steps=[100]} : f32[1]"},
        {"%x: f32[2*T]", "%y = slice(%x) {starts=[T], limits=[2*T]} : f32[T]"},
        {"%x: f32[2*T]", "%y = slice(%x) {starts=[0], limits=[2*T], steps=[2]} : f32[T]"},
        {"%x: f32[2,3]", "%y = pad(%x) {low=[0,1], high=[2,0], value=-0.0} : f32[4,4]"},
        {"%x: f32[0]", "%y = pad(%x) {low=[T], high=[1]} : f32[T+1]"});
}

static void cats_splits_and_repeats(void **state) {
  (void)state;
  CHECK({"%a: f32[0,4], %b: f32[3,4]", "%y = cat(%a, %b) {dim=0} : f32[3,4]"},
        {"%a: f32[2,3]", "%y = cat(%a, %a, %a) {dim=-1} : f32[2,9]"},
        {"%a: f32[2,3]", "%y = cat(%a) {dim=0} : f32[2,3]"},
        {"%a: f32[T,3], %b: f32[U,3]", "%y = cat(%a, %b) {dim=0} : f32[T+U,3]"},
        {"%x: f32[5,2]", "%a, %y, %b = split(%x) {dim=-2, sizes=[1,0,4]} : f32[1,2], f32[0,2], f32[4,2]"},
        {"%x: f32[T+8]", "%a, %y = split(%x) {dim=0, sizes=[8,T]} : f32[8], f32[T]"},
        {"%x: f32[2,3]", "%y = repeat(%x) {times=[4,1,2]} : f32[4,2,6]"},
        {"%x: f32[2]", "%y = repeat(%x) {times=[0]} : f32[0]"},
        {"%x: f32[]", "%y = repeat(%x) {times=[3]} : f32[3]"},
        {"%x: f32[T]", "%y = repeat(%x) {times=[2]} : f32[2*T]"});
}

static void creation_and_indexing(void **state) {
  (void)state;
  CHECK({"", "%y = full() {shape=[2,T], value=1, dtype=bool} : bool[2,T]"},
        {"", "%y = iota() {shape=[3,4], dim=-1, dtype=bf16} : bf16[3,4]"},
        {"", "%y = constant() {shape=[2,2], dtype=i8, values=[1,-128,127,0]} : i8[2,2]"},
        {"", "%y = constant() {shape=[0], dtype=f32, values=[]} : f32[0]"},
        {"", "%y = constant() {shape=[], dtype=f16, bits=[0xfc01]} : f16[]"},
        {"", "%y = constant() {shape=[1], dtype=f64, bits=[0xfff8000000000001]} : f64[1]"},
        {"%x: f16[4,8], %i: i64[3,2]", "%y = gather(%x, %i) {dim=0} : f16[3,2]"},
        {"%x: f16[0,8], %i: i64[0,2]", "%y = gather(%x, %i) {dim=0} : f16[0,2]"},
        {"%x: f32[100,8,2], %i: i32[5,6]", "%y = embedding(%x, %i) : f32[5,6,8,2]"},
        {"%x: f32[100], %i: i32[]", "%y = embedding(%x, %i) : f32[]"},
        {"%x: f32[0,8], %i: i32[5,0]", "%y = embedding(%x, %i) : f32[5,0,8]"});
}

static void reductions_fold_axes(void **state) {
  (void)state;
  CHECK({"%x: f32[2,3,4]", "%y = sum(%x) : f32[]"}, {"%x: f32[2,3,4]", "%y = sum(%x) {dims=[]} : f32[2,3,4]"},
        {"%x: f32[2,3,4]", "%y = sum(%x) {dims=[0,-1]} : f32[3]"},
        {"%x: f32[2,3,4]", "%y = sum(%x) {dims=[1], keepdim=true} : f32[2,1,4]"},
        {"%x: u8[2,3]", "%y = sum(%x) {dtype=i64} : i64[]"},
        {"%x: f32[3,0]", "%y = prod(%x) {dims=[1]} : f32[3]"},
        {"%x: f32[3,0]", "%y = mean(%x) {dims=[1]} : f32[3]"},
        {"%x: f32[]", "%y = mean(%x) {dims=[-1]} : f32[]"},
        {"%x: f32[]", "%y = amax(%x) {dims=[0], keepdim=true} : f32[]"},
        {"%x: f32[0,3]", "%y = amax(%x) {dims=[1]} : f32[0]"},
        {"%x: f32[0,3]", "%y = argmin(%x) {dim=1} : i64[0]"}, {"%x: f32[2,3]", "%y = argmax(%x) : i64[]"},
        {"%x: f32[2,3]", "%y = argmax(%x) {keepdim=true} : i64[1,1]"},
        {"%x: i32[2,3]", "%y = any(%x) {dims=[0]} : bool[3]"},
        {"%x: f32[2,3]", "%y = var(%x) {dims=[0], correction=0} : f32[3]"},
        {"%x: f32[T,8]", "%y = amax(%x) {dims=[0]} : f32[8]"});
}

static void normalizations_keep_shapes(void **state) {
  (void)state;
  CHECK(
      {"%x: f32[2,3]", "%y = softmax(%x) {dim=-1} : f32[2,3]"},
      {"%x: f32[]", "%y = log_softmax(%x) {dim=0} : f32[]"},
      {"%x: f16[4,T,8], %w: f16[T,8]", "%y = layernorm(%x, none, %w) {normalized_shape=[T,8]} : f16[4,T,8]"},
      {"%x: bf16[4,8], %w: bf16[8]", "%y = rmsnorm(%x, %w) {normalized_shape=[8], eps=1e-6} : bf16[4,8]"},
      {"%x: f32[1,0], %w: f32[0]",
       "%y = layernorm_sigmoid_mul(%x, %w, %w) {normalized_shape=[0]} : f32[1,0]"});
}

static void contractions_multiply_matrices(void **state) {
  (void)state;
  CHECK(
      {"%a: f16[2,3,8], %b: f16[5,8]", "%y = gemm_rcr(%a, %b) : f16[2,3,5]"},
      {"%a: f16[3,0], %b: f16[5,0], %c: f16[5]", "%y = gemm_rcr_bias_relu(%a, %b, %c) {out=f32} : f32[3,5]"},
      {"%a: i8[3,8], %b: i8[5,8]", "%y = gemm_rcr(%a, %b) {alpha=2, out=i32} : i32[3,5]"},
      {"%a: f32[8], %b: f32[8]", "%y = matmul(%a, %b) : f32[]"},
      {"%a: f32[8], %b: f32[8,5]", "%y = matmul(%a, %b) : f32[5]"},
      {"%a: f32[3,8], %b: f32[8]", "%y = matmul(%a, %b) : f32[3]"},
      {"%a: f32[7,1,3,8], %b: f32[4,8,5]", "%y = matmul(%a, %b) : f32[7,4,3,5]"},
      {"%a: f32[8], %b: f32[4,8,5]", "%y = matmul(%a, %b) : f32[4,5]"},
      {"%a: f32[4,3,8], %b: f32[8]", "%y = matmul(%a, %b) : f32[4,3]"},
      {"%a: f32[1,48,1], %b: f32[1,1,T]", "%y = matmul(%a, %b) : f32[1,48,T]"});
}

static void sizes_past_32_bits_are_legal(void **state) {
  (void)state;
  CHECK({"%x: i8[2147483649]", "%y = neg(%x) : i8[2147483649]"},
        {"%x: i8[70000,40000]", "%y = slice(%x) {starts=[60000,0], limits=[70000,40000]} : i8[10000,40000]"},
        {"%x: i8[4611686018427387904]", "%y = neg(%x) : i8[4611686018427387904]"},
        {"%x: f32[0,4611686018427387904,16]", "%y = neg(%x) : f32[0,4611686018427387904,16]"});
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(elementwise_ops_broadcast),
      cmocka_unit_test(views_move_axes),
      cmocka_unit_test(reshape_keeps_the_number_of_elements),
      cmocka_unit_test(slices_and_pads_change_sizes),
      cmocka_unit_test(cats_splits_and_repeats),
      cmocka_unit_test(creation_and_indexing),
      cmocka_unit_test(reductions_fold_axes),
      cmocka_unit_test(normalizations_keep_shapes),
      cmocka_unit_test(contractions_multiply_matrices),
      cmocka_unit_test(sizes_past_32_bits_are_legal),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
