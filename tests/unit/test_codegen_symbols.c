/* tests/unit/test_codegen_symbols.c: one kernel for all values of a symbol, and what it assumes of them.
 *
 * Each graph is compiled once per symbol class and run for sizes from 0 on. Widths of accesses and of index
 * arithmetic are read off the PTX and the source.
 * Labels: device */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/batch.h"
#include "tests/support/graphs.h"
#include "tests/support/random_graph.h"

static const kiln_options_t plain = {0};
static const kiln_symbol_class_t any_size = {{1, 1, 1, 1, 1, 1, 1, 1}, false};
static const kiln_symbol_class_t multiples_of_16 = {{16, 16, 16, 16, 16, 16, 16, 16}, false};
static const kiln_symbol_class_t wide = {{1, 1, 1, 1, 1, 1, 1, 1}, true};
static const kiln_pass_run_t no_passes = {.list = ""};

static const char *const graphs[] = {
    "graph flat[T](%x: bf16[T,3], %y: bf16[T,3]) { %z = add(%x, %y) return %z }",
    "graph repeated[T](%f: f32[T,64], %x: f16[1,4,T,128]) { %e = cat(%f, %f) {dim=1} %c = cos(%e) "
    "%h = cast(%c) {dtype=f16} %b = broadcast(%h) {dims=[0,1]} %y = mul(%x, %b) return %y }",
    "graph transposed[T,S](%x: f32[T,S], %y: f32[S,T]) { %z = relu(%x) %p = permute(%y) {dims=[1,0]} "
    "%q = reshape(%z) {shape=[T*S]} %r = add(%z, %p) return %q, %r }",
    "graph parts[T](%x: f32[T,4], %y: f32[8,4]) { %z = cat(%x, %y, %x) {dim=0} %w = exp(%z) return %w, %z }",
    "graph padded[T](%x: f32[T]) { %z = pad(%x) {low=[2], high=[T], value=1.5} %w = exp(%z) return %w }",
    "graph split[T](%x: i32[2*T,6]) { %a, %b = split(%x) {dim=0, sizes=[T,T]} %c = sub(%a, %b) "
    "%r = reshape(%c) {shape=[2,T,3]} %p = permute(%r) {dims=[1,0,2]} return %p }",
    "graph merged[T,S](%x: i64[T,S,4]) { %r = reshape(%x) {shape=[T*S*4]} %q = reshape(%r) {shape=[4,T,S]} "
    "%v = reverse(%q) {dims=[1]} %n = neg(%v) return %n }",
    "graph counted[T](%x: f32[T]) { %i = iota() {shape=[T], dim=0, dtype=f32} %y = add(%x, %i) return %y }",
};
enum { GRAPHS = sizeof graphs / sizeof *graphs };

static void check_sizes(const kiln_symbol_class_t *symbol_class, const int64_t (*sizes)[2], size_t count) {
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  kiln_batch_t *batch = kiln_batch_create(&arena, "sm_90");
  for (int i = 0; i < GRAPHS; i++)
    kiln_batch_add(batch, graph_from(&arena, graphs[i]), &plain, symbol_class, NULL);
  kiln_batch_compile(batch);
  for (uint32_t i = 0; i < GRAPHS; i++) {
    const kiln_graph_t *graph = kiln_batch_pipeline(batch, i)->input;
    for (size_t k = 0; k < count; k++) {
      int64_t symbols[KILN_MAX_SYMBOLS] = {sizes[k][0], sizes[k][1]};
      kiln_tensor_t *inputs = KILN_NEW_ARRAY(&arena, kiln_tensor_t, graph->input_count);
      kiln_random_inputs(&arena, graph, k, symbols, inputs);
      const char *what = kiln_arena_printf(&arena, "graph %u for %lld, %lld", i, (long long)symbols[0],
                                           (long long)symbols[1]);
      kiln_batch_check(batch, i, symbols, inputs, what);
    }
  }
  kiln_batch_destroy(batch);
  kiln_arena_deinit(&arena);
}

static const int64_t odd_sizes[][2] = {{0, 3}, {1, 1}, {2, 7}, {5, 3}, {16, 16}, {33, 5}, {100, 7}};
static const int64_t even_sizes[][2] = {{0, 16}, {16, 32}, {48, 16}};

static void one_kernel_serves_all_sizes(void **state) {
  (void)state;
  check_sizes(&any_size, odd_sizes, sizeof odd_sizes / sizeof *odd_sizes);
}

static void multiples_of_16_are_served_by_vectors(void **state) {
  (void)state;
  check_sizes(&multiples_of_16, even_sizes, sizeof even_sizes / sizeof *even_sizes);
}

static void wide_indices_give_the_same(void **state) {
  (void)state;
  check_sizes(&wide, odd_sizes, sizeof odd_sizes / sizeof *odd_sizes);
}

/* Whether the second tile begins behind the first is not known for all T. Its index, taken modulo T, is
 * negative where the first one is read. */
static void a_remainder_is_read_only_where_its_guard_holds(void **state) {
  (void)state;
  const char *text = "graph tiles[T](%x: f32[T], %c: f32[2*T-1]) { %t = repeat(%x) {times=[2]} "
                     "%y = cat(%t, %c, %t, %c) {dim=0} return %y }";
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  kiln_batch_t *batch = kiln_batch_create(&arena, "sm_90");
  uint32_t number = kiln_batch_add(batch, graph_from(&arena, text), &plain, &any_size, NULL);
  kiln_batch_compile(batch);
  for (int64_t size = 1; size < 40; size += 6) {
    int64_t symbols[KILN_MAX_SYMBOLS] = {size};
    kiln_tensor_t inputs[2];
    kiln_random_inputs(&arena, kiln_batch_pipeline(batch, number)->input, 1, symbols, inputs);
    kiln_batch_check(batch, number, symbols, inputs, text);
  }
  kiln_batch_destroy(batch);
  kiln_arena_deinit(&arena);
}

/* --- what is relied on
 * -------------------------------------------------------------------------------------- */

/* The guards of a graph's kernels, one a line. */
static const char *guards_of(kiln_arena_t *arena, const char *text, const kiln_symbol_class_t *symbol_class,
                             const char **out_source) {
  static const char *const names[] = {"T", "S", "", "", "", "", "", ""};
  kiln_target_t target;
  kiln_pipeline_t pipeline;
  kiln_buffer_t out;
  kiln_buffer_init(&out);
  assert_null(kiln_target_parse("sm_90", &target));
  assert_null(kiln_pipeline_generate(arena, graph_from(arena, text), &target, &plain, symbol_class,
                                     &no_passes, &pipeline));
  for (size_t i = 0; i < pipeline.guards.count; i++) {
    const kiln_guard_t *guard = &pipeline.guards.items[i];
    kiln_dim_print(&out, guard->dim, names);
    kiln_buffer_printf(&out, guard->kind == KILN_GUARD_BELOW ? " < %lld\n" : " %% %lld\n",
                       (long long)guard->bound);
  }
  const char *guards = kiln_arena_strdup(arena, kiln_buffer_text(&out));
  kiln_buffer_deinit(&out);
  *out_source = pipeline.kernels[0].source;
  return guards;
}

static void a_multiple_is_guarded_only_where_a_vector_needs_it(void **state) {
  (void)state;
  const char *rows =
      "graph g[T](%x: f32[8,T], %y: f32[8]) { %b = broadcast(%y) {dims=[1]} %z = add(%x, %b) return %z }";
  const char *columns = "graph g[T](%x: f32[T,8], %y: f32[8]) { %z = add(%x, %y) return %z }", *source;
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  assert_non_null(strstr(guards_of(&arena, rows, &multiples_of_16, &source), "T % 4\n"));
  assert_non_null(strstr(source, "kiln_load<4, 16>"));
  assert_null(strchr(guards_of(&arena, rows, &any_size, &source), '%'));
  assert_null(strstr(source, "kiln_load"));
  assert_null(strchr(guards_of(&arena, columns, &multiples_of_16, &source), '%'));
  assert_non_null(strstr(source, "kiln_load<4, 16>"));
  kiln_arena_deinit(&arena);
}

static void sizes_past_2_31_are_guarded_or_counted_in_64_bits(void **state) {
  (void)state;
  const char *text = "graph g[T](%x: f32[T,8]) { %z = neg(%x) return %z }", *source;
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  assert_non_null(strstr(guards_of(&arena, text, &any_size, &source), "< 2147483648\n"));
  assert_null(strstr(source, "long long"));
  assert_string_equal(guards_of(&arena, text, &wide, &source), "");
  assert_non_null(strstr(source, "const unsigned long long thread"));
  kiln_arena_deinit(&arena);
}

static void constant_offsets_past_2_31_alone_take_64_bits(void **state) {
  (void)state;
  const char *source;
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  guards_of(
      &arena,
      "graph g(%x: i8[2147483649]) { %o = full() {shape=[], value=1, dtype=i8} %y = add(%x, %o) return %y }",
      &any_size, &source);
  assert_non_null(strstr(source, "in0 + 16LL * a0"));
  assert_non_null(strstr(source, "const unsigned thread"));
  guards_of(
      &arena,
      "graph g(%x: i8[70000,40000]) { %s = slice(%x) {starts=[60000,0], limits=[60010,40000]} return %s }",
      &any_size, &source);
  assert_non_null(strstr(source, "in0 + 16LL * a0 + 2400000000LL"));
  assert_non_null(strstr(source, "out0 + 16 * a0"));
  kiln_arena_deinit(&arena);
}

/* --- accesses, as PTX has them
 * ------------------------------------------------------------------------------ */

static int count(const char *text, const char *part) {
  int found = 0;
  for (const char *at = strstr(text, part); at; at = strstr(at + 1, part)) found++;
  return found;
}

static const char *ptx_of(kiln_arena_t *arena, const char *text) {
  kiln_batch_t *batch = kiln_batch_create(arena, "sm_90");
  kiln_batch_add(batch, graph_from(arena, text), &plain, &any_size, &no_passes);
  const char *ptx = kiln_batch_compile(batch);
  kiln_batch_destroy(batch);
  return ptx;
}

static void slices_at_offsets_4_2_and_0_are_read_in_pairs(void **state) {
  (void)state;
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  const char *ptx =
      ptx_of(&arena, "graph g(%x: f32[1004]) { %a = slice(%x) {starts=[4], limits=[1004]} "
                     "%b = slice(%x) {starts=[2], limits=[1002]} %c = slice(%x) {starts=[0], limits=[1000]} "
                     "%d = add(%a, %b) %e = add(%d, %c) return %e }");
  assert_int_equal(count(ptx, "ld.global.nc.v2.f32"), 3);
  assert_int_equal(count(ptx, "st.global.v2.b32"), 1);
  assert_int_equal(count(ptx, ".v4."), 0);
  kiln_arena_deinit(&arena);
}

static void a_rotary_embedding_reads_each_half_once_in_16_bytes(void **state) {
  (void)state;
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  const char *ptx = ptx_of(
      &arena,
      "graph g[T](%q: bf16[8,T,128], %c: bf16[T,128]) { %f = cast(%q) {dtype=f32} "
      "%hi = slice(%q) {starts=[0,0,64], limits=[8,T,128]} %hn = neg(%hi) "
      "%lo = slice(%q) {starts=[0,0,0], limits=[8,T,64]} %r = cat(%hn, %lo) {dim=2} %g = cast(%r) "
      "{dtype=f32} "
      "%k = cast(%c) {dtype=f32} %a = mul(%f, %k) %s = add(%a, %g) %y = cast(%s) {dtype=bf16} return %y }");
  assert_int_equal(count(ptx, "ld.global"), 4); /* two of q, two of the table */
  assert_int_equal(count(ptx, "ld.global.nc.v4.u32"), 4);
  assert_int_equal(count(ptx, "st.global"), 2);
  assert_int_equal(count(ptx, "st.global.v4.b32"), 2);
  kiln_arena_deinit(&arena);
}

static void repeated_elements_are_computed_once(void **state) {
  (void)state;
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  const char *ptx =
      ptx_of(&arena, "graph g(%x: f32[32,64]) { %s = exp2(%x) %t = repeat(%s) {times=[2,2]} return %t }");
  assert_int_equal(count(ptx, "ex2.approx"), 4); /* one vector */
  assert_int_equal(count(ptx, "st.global.v4.b32"), 4);
  kiln_arena_deinit(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_kernel_serves_all_sizes),
      cmocka_unit_test(multiples_of_16_are_served_by_vectors),
      cmocka_unit_test(wide_indices_give_the_same),
      cmocka_unit_test(a_remainder_is_read_only_where_its_guard_holds),
      cmocka_unit_test(a_multiple_is_guarded_only_where_a_vector_needs_it),
      cmocka_unit_test(sizes_past_2_31_are_guarded_or_counted_in_64_bits),
      cmocka_unit_test(constant_offsets_past_2_31_alone_take_64_bits),
      cmocka_unit_test(slices_at_offsets_4_2_and_0_are_read_in_pairs),
      cmocka_unit_test(a_rotary_embedding_reads_each_half_once_in_16_bytes),
      cmocka_unit_test(repeated_elements_are_computed_once),
  };
  return cmocka_run_group_tests_name("codegen: symbols and widths", tests, NULL, NULL);
}
