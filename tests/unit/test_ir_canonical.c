/* tests/unit/test_ir_canonical.c: graphs that mean the same have one key, graphs that do not have different
 * ones. */
#include "ir/canonical.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "ir/number.h"
#include "ir/verify.h"
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

static const kiln_graph_t *canonical(const char *text) {
  const kiln_graph_t *graph = kiln_graph_canonicalize(&arena, graph_from(&arena, text));
  assert_null(kiln_graph_verify(&arena, graph, NULL));
  return graph;
}

static kiln_digest_t hash_of(const char *text) {
  kiln_digest_t once = kiln_graph_hash(&arena, canonical(text));
  kiln_digest_t twice = kiln_graph_hash(&arena, kiln_graph_canonicalize(&arena, canonical(text)));
  assert_true(kiln_digest_equal(&once, &twice)); /* canonicalizing again changes nothing */
  return once;
}

/* A graph of inputs and statements, wrapped, so that a case is one line. */
static const char *wrap(const char *inputs, const char *body) {
  return kiln_arena_printf(&arena, "graph g[T=100](%s) { %s return %%y }", inputs, body);
}

typedef struct {
  const char *inputs, *one, *other;
} pair_t;

static void assert_pairs(const pair_t *pairs, size_t count, bool equal) {
  for (size_t i = 0; i < count; i++) {
    kiln_digest_t one = hash_of(wrap(pairs[i].inputs, pairs[i].one));
    kiln_digest_t other = hash_of(wrap(pairs[i].inputs, pairs[i].other));
    if (kiln_digest_equal(&one, &other) != equal) print_message("%s\n%s\n", pairs[i].one, pairs[i].other);
    assert_int_equal(kiln_digest_equal(&one, &other), equal);
  }
}

static void spelling_does_not_matter(void **state) {
  (void)state;
  static const pair_t pairs[] = {
      {"%x: f32[4,8]", "%y = cat(%x, %x) {dim=-1}", "%y = cat(%x, %x) {dim=1}"},
      {"%x: f32[4,8]", "%a = neg(%x) %y = add(%a, %x)", "%zz = neg(%x) %y = add(%zz, %x)"},
      {"%x: f32[4,8]", "%a = neg(%x) %b = abs(%x) %y = add(%a, %b)",
       "%b = abs(%x) %a = neg(%x) %y = add(%a, %b)"},
      {"%x: f32[4,8]", "%a = neg(%x) %b = neg(%x) %y = add(%a, %b)", "%a = neg(%x) %y = add(%a, %a)"},
      {"%x: f32[4,8]", "%dead = exp(%x) %y = neg(%x)", "%y = neg(%x)"},
      {"%x: f32[4,8]", "%y = sum(%x)", "%y = sum(%x) {dims=[-1,0], keepdim=false, dtype=f32}"},
      {"%x: f32[4,8]", "%y = var(%x) {dims=[0]}", "%y = var(%x) {dims=[-2], correction=1}"},
      {"%x: f16[4]", "%y = clamp(%x) {min=0.1}", "%y = clamp(%x) {min=0.0999755859375}"},
      {"%x: f32[4,8]", "%y = gelu(%x)", "%y = gelu(%x) {approximate=\"none\"}"},
      {"%x: f32[4,8]", "%y = reshape(%x) {shape=[2,-1]}", "%y = reshape(%x) {shape=[2,16]}"},
      {"%x: f32[4,1]", "%y = expand(%x) {shape=[-1,3]}", "%y = expand(%x) {shape=[4,3]}"},
      {"%x: f32[4,8]", "%y = slice(%x) {starts=[0,0], limits=[4,4]}",
       "%y = slice(%x) {starts=[0,0], limits=[4,4], steps=[1,1]}"},
      {"%x: f32[4]", "%y = pad(%x) {low=[1], high=[0]}", "%y = pad(%x) {low=[1], high=[0], value=0.0}"},
      {"%x: f32[1,4,1]", "%y = squeeze(%x) {dims=[2,0]}", "%y = squeeze(%x) {dims=[0,-1]}"},
      {"%x: f32[4]", "%y = broadcast(%x) {dims=[0,-1]}", "%y = broadcast(%x) {dims=[2,0]}"},
      {"%x: f32[]", "%y = argmax(%x) {dim=0}", "%y = argmax(%x)"},
      {"%x: f32[]", "%y = sum(%x) {dims=[-1]}", "%y = sum(%x) {dims=[]}"},
      {"%x: f32[]", "%y = softmax(%x) {dim=-1}", "%y = softmax(%x) {dim=0}"},
      {"%a: f32[4,8], %b: f32[3,8]", "%y = gemm_rcr(%a, %b)", "%y = gemm_rcr(%a, %b) {alpha=1, out=f32}"},
      {"", "%y = full() {shape=[2], value=1, dtype=f32}", "%y = full() {shape=[2], value=1.0, dtype=f32}"},
      {"", "%y = full() {shape=[2], value=0.1, dtype=f16}",
       "%y = full() {shape=[2], value=0.0999755859375, dtype=f16}"},
      {"", "%y = constant() {shape=[2], dtype=f32, values=[1.0,-0.0]}",
       "%y = constant() {shape=[2], dtype=f32, bits=[0x3f800000,0x80000000]}"},
      {"%x: f32[T,8]", "%y = reshape(%x) {shape=[T*2,4]}", "%y = reshape(%x) {shape=[T+T,-1]}"},
  };
  assert_pairs(pairs, sizeof pairs / sizeof *pairs, true);
}

static void meaning_does(void **state) {
  (void)state;
  static const pair_t pairs[] = {
      {"%x: f32[4,4]", "%y = cat(%x, %x) {dim=0}", "%y = cat(%x, %x) {dim=1}"},
      {"%x: f32[4], %z: f32[4]", "%y = sub(%x, %z)", "%y = sub(%z, %x)"},
      {"%x: f32[4]", "%y = neg(%x)", "%y = abs(%x)"},
      {"%x: f32[4]", "%y = clamp(%x) {min=0.0}", "%y = clamp(%x) {min=-0.0}"},
      {"%x: f32[4]", "%y = clamp(%x) {min=1}", "%y = clamp(%x) {max=1}"},
      {"%x: i8[4]", "%y = clamp(%x) {min=1}", "%y = clamp(%x) {min=257}"},
      {"%x: f32[4]", "%y = gelu(%x)", "%y = gelu(%x) {approximate=\"tanh\"}"},
      {"%x: f32[4]", "%y = pad(%x) {low=[1], high=[0], value=0.0}",
       "%y = pad(%x) {low=[1], high=[0], value=-0.0}"},
      {"%x: f32[4]", "%y = pad(%x) {low=[1], high=[0]}", "%y = pad(%x) {low=[0], high=[1]}"},
      {"", "%y = full() {shape=[2], value=nan, dtype=f64}",
       "%y = full() {shape=[2], value=nan(0x7ff8000000000001), dtype=f64}"},
      {"", "%y = constant() {shape=[2], dtype=f32, values=[1,2]}",
       "%y = constant() {shape=[2], dtype=f32, values=[2,1]}"},
      {"", "%y = constant() {shape=[2], dtype=f32, values=[1,2]}",
       "%y = constant() {shape=[1,2], dtype=f32, values=[1,2]}"},
      {"%x: f32[4,4]", "%y = permute(%x) {dims=[0,1]}", "%y = permute(%x) {dims=[1,0]}"},
      {"%x: f32[4,4]", "%y = argmax(%x)", "%y = argmax(%x) {dim=0}"},
      {"%x: f32[4,8], %w: f32[8]", "%y = layernorm(%x, %w, none) {normalized_shape=[8]}",
       "%y = layernorm(%x, none, %w) {normalized_shape=[8]}"},
      {"%x: f32[4,8]", "%a, %y = split(%x) {dim=1, sizes=[4,4]}", "%y, %a = split(%x) {dim=1, sizes=[4,4]}"},
      {"%x: f32[T,8]", "%y = slice(%x) {starts=[0,0], limits=[T,4]}",
       "%y = slice(%x) {starts=[0,0], limits=[100,4]}"},
  };
  assert_pairs(pairs, sizeof pairs / sizeof *pairs, false);
}

static void the_signature_is_part_of_the_key(void **state) {
  (void)state;
  static const char *const graphs[] = {
      "graph g(%x: f32[4,8]) { %y = neg(%x) return %y }",
      "graph g(%x: f32[4,8]) { %y = neg(%x) return %y, %y }",
      "graph g(%x: f32[4,8]) { %y = neg(%x) return %x }",
      "graph g(%x: f32[4,8], %z: f32[1]) { %y = neg(%x) return %y }",
      "graph g(%z: f32[1], %x: f32[4,8]) { %y = neg(%x) return %y }",
      "graph g(%x: f16[4,8]) { %y = neg(%x) return %y }",
      "graph g(%x: f32[8,4]) { %y = neg(%x) return %y }",
      "graph g(%x: f32[4,8] align 4) { %y = neg(%x) return %y }",
      "graph g(%x: f32[4,8] strides [1,4]) { %y = neg(%x) return %y }",
      "graph g(%x: f32[4,8]) { %y = neg(%x) return %y strides [1,4] }",
      "graph g[T](%x: f32[4,8]) { %y = neg(%x) return %y }",
      "graph g[T](%x: f32[T,8]) { %y = neg(%x) return %y }",
      "graph g[T=4096](%x: f32[T,8]) { %y = neg(%x) return %y }",
      "graph g[T,U](%x: f32[T,8]) { %y = neg(%x) return %y }",
      "graph g[T,U](%x: f32[U,8]) { %y = neg(%x) return %y }",
  };
  enum { COUNT = sizeof graphs / sizeof *graphs };
  kiln_digest_t hashes[COUNT];
  for (size_t i = 0; i < COUNT; i++) {
    hashes[i] = hash_of(graphs[i]);
    for (size_t j = 0; j < i; j++) assert_false(kiln_digest_equal(&hashes[i], &hashes[j]));
  }
}

static void names_symbols_and_meaningless_strides_are_not(void **state) {
  (void)state;
  static const char *const same[][2] = {
      {"graph a[T](%x: f32[T]) { %y = neg(%x) return %y }",
       "graph b[Len](%in: f32[Len]) { %out = neg(%in) return %out }"},
      {"graph g[T=4096](%x: f32[T]) { return %x }",
       "graph g[T=5000](%x: f32[T]) { return %x }"}, /* one magnitude */
      {"graph g(%x: f32[4,8] strides [8,1]) { return %x }", "graph g(%x: f32[4,8]) { return %x }"},
      {"graph g(%x: f32[1,8] strides [5,1]) { return %x }", "graph g(%x: f32[1,8]) { return %x }"},
      {"graph g(%x: f32[1,8] strides [5,2]) { return %x }",
       "graph g(%x: f32[1,8] strides [7,2]) { return %x }"},
      {"graph g(%x: f32[0,8] strides [5,2]) { return %x }", "graph g(%x: f32[0,8]) { return %x }"},
      {"graph g[T](%x: f32[8,T] strides [T,1]) { return %x }", "graph g[T](%x: f32[8,T]) { return %x }"},
  };
  for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
    kiln_digest_t one = hash_of(same[i][0]), other = hash_of(same[i][1]);
    assert_true(kiln_digest_equal(&one, &other));
  }
}

static void the_canonical_graph_reads_well(void **state) {
  (void)state;
  const char *text =
      "graph g(%x: f32[4,8]) {\n %late = exp(%x)\n %a = sum(%x) {dims=[-1]}\n %b = sum(%x) {dims=[1]}\n"
      " %s = add(%b, %a)\n %dead = abs(%x)\n return %s, %late }";
  assert_string_equal(text_of(&arena, canonical(text)), "graph g(%x: f32[4,8]) {\n"
                                                        "  %a = sum(%x) {dims=[1], keepdim=false} : f32[4]\n"
                                                        "  %s = add(%a, %a) : f32[4]\n"
                                                        "  %late = exp(%x) : f32[4,8]\n"
                                                        "  return %s, %late\n"
                                                        "}\n");
}

static void an_unused_symbol_and_input_stay(void **state) {
  (void)state;
  const kiln_graph_t *graph = canonical("graph g[T,U](%x: f32[2], %unused: f32[U]) { return %x }");
  assert_int_equal(graph->symbol_count, 2);
  assert_int_equal(graph->input_count, 2);
}

static void deep_and_wide_graphs_are_linear_work(void **state) {
  (void)state;
  enum { COUNT = 200000 };
  kiln_graph_builder_t *builder = kiln_graph_builder_create(&arena, "g");
  kiln_type_t type = {.dtype = KILN_DTYPE_f32};
  kiln_value_id_t x = kiln_graph_builder_input(builder, "x", type, NULL), chain = x;
  for (int i = 0; i < COUNT; i++) {
    chain =
        kiln_graph_builder_node(builder, KILN_OP_add, (kiln_value_id_t[]){chain, x}, 2, NULL, 0, &type, 1, 0);
    kiln_graph_builder_node(builder, KILN_OP_neg, &x, 1, NULL, 0, &type, 1, 0); /* all equal, all dead */
  }
  kiln_graph_builder_output(builder, chain, NULL);
  assert_int_equal(kiln_graph_canonicalize(&arena, kiln_graph_builder_finish(builder))->node_count, COUNT);
}

static void numbers_become_the_bits_of_their_dtype(void **state) {
  (void)state;
  static const struct {
    kiln_number_t number;
    kiln_dtype_t dtype;
    uint64_t bits;
  } cases[] = {
      {{true, -1, -1.0}, KILN_DTYPE_i8, 0xff},
      {{true, -1, -1.0}, KILN_DTYPE_i32, 0xffffffff},
      {{true, -1, -1.0}, KILN_DTYPE_i64, UINT64_MAX},
      {{true, 1, 1.0}, KILN_DTYPE_bool, 1},
      {{true, 1, 1.0}, KILN_DTYPE_f16, 0x3c00},
      {{false, 0, -0.0}, KILN_DTYPE_bf16, 0x8000},
      {{true, 16777217, 16777217.0}, KILN_DTYPE_f32, 0x4b800000}, /* 2^24 + 1 ties to even */
      /* 2^60 + 2^36 + 1 lies above a tie of f32 that its double lies on. */
      {{true, 0x1000001000000001, 0x1.000001p60}, KILN_DTYPE_f32, 0x5d800001},
      /* The same for bf16, where rounding twice was a fault: 2^60 + 2^52 + 1 and its negative. */
      {{true, 0x1010000000000001, 0x1.01p60}, KILN_DTYPE_bf16, 0x5d81},
      {{true, -0x1010000000000001, -0x1.01p60}, KILN_DTYPE_bf16, 0xdd81},
      {{true, 0x1010000000000000, 0x1.01p60}, KILN_DTYPE_bf16, 0x5d80},
      {{false, 0, 1 + 0x1p-11 + 0x1p-40},
       KILN_DTYPE_f16,
       0x3c01}, /* above a tie of f16 that its f32 lies on */
      {{true, INT64_MAX, 0x1p63}, KILN_DTYPE_f16, 0x7c00},
      {{false, 0, 0x1.000001p0}, KILN_DTYPE_f32, 0x3f800000},
      {{false, 0, 1.0}, KILN_DTYPE_f64, 0x3ff0000000000000},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_true(kiln_number_to_bits(cases[i].number, cases[i].dtype) == cases[i].bits);
  }
}

/* Every bit pattern of every dtype, of the wide ones the ends: numbers lose nothing of their own dtype. */
static void the_bits_of_a_number_give_the_number_back(void **state) {
  (void)state;
  for (kiln_dtype_t dtype = 0; dtype < KILN_DTYPE_COUNT; dtype++) {
    uint64_t count = dtype == KILN_DTYPE_bool ? 2 : kiln_dtype_bytes(dtype) == 1 ? 256 : 65536;
    unsigned shift = 8 * (unsigned)kiln_dtype_bytes(dtype) - (kiln_dtype_bytes(dtype) == 1 ? 8 : 16);
    for (uint64_t pattern = 0; pattern < count; pattern++) {
      uint64_t bits = pattern << shift, stored[2] = {0};
      kiln_number_t number = kiln_number_from_bits(bits, dtype);
      if (isnan(number.real)) continue;
      assert_true(kiln_number_to_bits(number, dtype) == bits);
      kiln_bits_write(stored, 1, dtype, bits);
      assert_true(kiln_bits_read(stored, 1, dtype) == bits);
      assert_true(kiln_bits_read(stored, 0, dtype) == 0);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(spelling_does_not_matter),
      cmocka_unit_test(meaning_does),
      cmocka_unit_test(the_signature_is_part_of_the_key),
      cmocka_unit_test(names_symbols_and_meaningless_strides_are_not),
      cmocka_unit_test(the_canonical_graph_reads_well),
      cmocka_unit_test(an_unused_symbol_and_input_stay),
      cmocka_unit_test(deep_and_wide_graphs_are_linear_work),
      cmocka_unit_test(numbers_become_the_bits_of_their_dtype),
      cmocka_unit_test(the_bits_of_a_number_give_the_number_back),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
