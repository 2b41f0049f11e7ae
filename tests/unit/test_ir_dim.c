/* tests/unit/test_ir_dim.c: dimension polynomials: normal form, exact division, bounds, evaluation. */
#include "ir/dim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static kiln_arena_t arena;
static kiln_dim_t T, U;

static int set_up(void **state) {
  (void)state;
  kiln_arena_init(&arena, 0);
  T = kiln_dim_symbol(&arena, 0);
  U = kiln_dim_symbol(&arena, 1);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  kiln_arena_deinit(&arena);
  return 0;
}

static kiln_dim_t constant(int64_t value) { return kiln_dim_constant(value); }

static kiln_dim_t add(kiln_dim_t a, kiln_dim_t b) {
  kiln_dim_t sum;
  assert_true(kiln_dim_add(&arena, a, b, &sum));
  return sum;
}

static kiln_dim_t sub(kiln_dim_t a, kiln_dim_t b) {
  kiln_dim_t difference;
  assert_true(kiln_dim_sub(&arena, a, b, &difference));
  return difference;
}

static kiln_dim_t mul(kiln_dim_t a, kiln_dim_t b) {
  kiln_dim_t product;
  assert_true(kiln_dim_mul(&arena, a, b, &product));
  return product;
}

static void assert_prints(kiln_dim_t dim, const char *expected) {
  static const char *const names[KILN_MAX_SYMBOLS] = {"T", "U", "V", "W", "X", "Y", "Z", "S"};
  kiln_buffer_t text;
  kiln_buffer_init(&text);
  kiln_dim_print(&text, dim, names);
  assert_string_equal(kiln_buffer_text(&text), expected);
  kiln_buffer_deinit(&text);
}

static void different_spellings_have_one_form(void **state) {
  (void)state;
  kiln_dim_t one = constant(1);
  assert_true(kiln_dim_equal(mul(add(T, one), sub(T, one)), sub(mul(T, T), one)));
  assert_true(kiln_dim_equal(add(mul(T, U), mul(U, T)), mul(constant(2), mul(U, T))));
  assert_true(kiln_dim_equal(sub(add(T, U), T), U));
  assert_true(kiln_dim_is(sub(T, T), 0));
  assert_true(kiln_dim_is_constant(sub(add(T, constant(5)), T)));
  assert_true(kiln_dim_is(sub(add(T, constant(5)), T), 5));
  assert_false(kiln_dim_equal(T, U));
  assert_false(kiln_dim_equal(T, mul(T, T)));
  assert_false(kiln_dim_is(T, 0));
}

static void order_is_total_and_zero_only_for_equal_forms(void **state) {
  (void)state;
  kiln_dim_t dims[] = {constant(-1), constant(0), constant(7),         T,        U, add(T, constant(1)),
                       mul(T, T),    mul(T, U),   mul(constant(2), T), sub(T, U)};
  for (size_t i = 0; i < 10; i++) {
    for (size_t j = 0; j < 10; j++) {
      int there = kiln_dim_order(dims[i], dims[j]), back = kiln_dim_order(dims[j], dims[i]);
      assert_int_equal(there == 0, i == j);
      assert_int_equal(there > 0, back < 0);
      for (size_t k = 0; k < 10; k++) {
        if (there < 0 && kiln_dim_order(dims[j], dims[k]) < 0)
          assert_true(kiln_dim_order(dims[i], dims[k]) < 0);
      }
    }
  }
}

static void division_is_exact_or_refused(void **state) {
  (void)state;
  kiln_dim_t q, one = constant(1);
  assert_true(kiln_dim_div(&arena, sub(mul(T, T), one), add(T, one), &q));
  assert_prints(q, "T-1");
  assert_true(kiln_dim_div(&arena, mul(constant(6), mul(T, U)), mul(constant(-2), U), &q));
  assert_prints(q, "-3*T");
  assert_true(kiln_dim_div(&arena, constant(0), T, &q));
  assert_true(kiln_dim_is(q, 0));
  assert_true(kiln_dim_div(&arena, constant(-12), constant(4), &q));
  assert_true(kiln_dim_is(q, -3));
  assert_false(kiln_dim_div(&arena, T, constant(2), &q));
  assert_false(kiln_dim_div(&arena, add(mul(T, T), one), add(T, one), &q));
  assert_false(kiln_dim_div(&arena, one, T, &q));
  assert_false(kiln_dim_div(&arena, T, constant(0), &q));
  assert_false(kiln_dim_div(&arena, T, sub(T, T), &q));
  assert_false(kiln_dim_div(&arena, constant(INT64_MIN), constant(-1), &q));
}

static void overflow_is_refused(void **state) {
  (void)state;
  kiln_dim_t out, most = constant(INT64_MAX), least = constant(INT64_MIN);
  assert_false(kiln_dim_add(&arena, most, constant(1), &out));
  assert_false(kiln_dim_sub(&arena, least, constant(1), &out));
  assert_false(kiln_dim_sub(&arena, constant(0), least, &out));
  assert_false(kiln_dim_mul(&arena, most, constant(2), &out));
  assert_false(kiln_dim_add(&arena, mul(most, T), T, &out));
  assert_false(kiln_dim_sub(&arena, U, mul(least, T), &out));
  assert_false(kiln_dim_mul(&arena, mul(most, T), constant(-2), &out));
  assert_true(kiln_dim_add(&arena, mul(most, T), mul(least, T), &out));
  assert_prints(out, "-T");
}

static void powers_above_255_are_refused(void **state) {
  (void)state;
  kiln_dim_t power = U, out; /* of symbol 1: a carry would reach symbol 2 */
  for (int i = 1; i < 255; i++) power = mul(power, U);
  assert_false(kiln_dim_mul(&arena, power, U, &out));
  assert_true(kiln_dim_mul(&arena, power, T, &out));
  assert_int_equal(kiln_dim_symbols(out), 3);
}

static void a_polynomial_of_too_many_terms_is_refused(void **state) {
  (void)state;
  kiln_dim_t sum = constant(1), power;
  for (unsigned s = 0; s < KILN_MAX_SYMBOLS; s++) sum = add(sum, kiln_dim_symbol(&arena, s));
  power = sum; /* the fourth power has 495 terms */
  for (int i = 0; i < 2; i++) power = mul(power, sum);
  assert_int_equal(power.term_count, 165);
  assert_false(kiln_dim_mul(&arena, power, sum, &power));
}

static void what_holds_for_all_symbols_is_proven(void **state) {
  (void)state;
  kiln_dim_t zero = constant(0), one = constant(1);
  assert_true(kiln_dim_provably_ge(T, zero));
  assert_true(kiln_dim_provably_ge(add(T, one), T));
  assert_true(kiln_dim_provably_ge(mul(constant(2), T), T));
  assert_true(kiln_dim_provably_ge(zero, sub(constant(-1), U)));
  assert_true(kiln_dim_provably_ge(constant(3), constant(3)));
  assert_false(kiln_dim_provably_ge(T, one));
  assert_false(kiln_dim_provably_ge(T, U));
  assert_false(kiln_dim_provably_ge(T, add(T, one)));
  assert_false(kiln_dim_provably_ge(constant(2), constant(3)));
  assert_true(
      kiln_dim_provably_ge(constant(INT64_MAX), constant(INT64_MIN))); /* their difference overflows */
}

static void evaluation_matches_the_written_formula(void **state) {
  (void)state;
  kiln_dim_t dim = sub(add(mul(constant(2), mul(T, T)), mul(constant(3), mul(T, U))), constant(7));
  for (int64_t t = 0; t < 20; t++) {
    for (int64_t u = 0; u < 20; u++) {
      int64_t symbols[KILN_MAX_SYMBOLS] = {t, u}, value;
      assert_true(kiln_dim_eval(dim, symbols, &value));
      assert_int_equal(value, 2 * t * t + 3 * t * u - 7);
    }
  }
}

static void evaluation_refuses_overflow_but_zero_wins(void **state) {
  (void)state;
  kiln_dim_t cube = mul(mul(T, T), T);
  int64_t symbols[KILN_MAX_SYMBOLS] = {INT64_C(1) << 40, 0}, value;
  assert_false(kiln_dim_eval(cube, symbols, &value));
  assert_true(kiln_dim_eval(mul(cube, U), symbols, &value));
  assert_int_equal(value, 0);
}

static void multiples_are_powers_of_two_up_to_16(void **state) {
  (void)state;
  int64_t by_four[KILN_MAX_SYMBOLS] = {4, 1, 1, 1, 1, 1, 1, 1};
  assert_int_equal(kiln_dim_multiple(constant(0), NULL), 16);
  assert_int_equal(kiln_dim_multiple(constant(-12), NULL), 4);
  assert_int_equal(kiln_dim_multiple(constant(INT64_MIN), NULL), 16);
  assert_int_equal(kiln_dim_multiple(T, NULL), 1);
  assert_int_equal(kiln_dim_multiple(T, by_four), 4);
  assert_int_equal(kiln_dim_multiple(mul(T, T), by_four), 16);
  assert_int_equal(kiln_dim_multiple(mul(constant(2), mul(T, U)), by_four), 8);
  assert_int_equal(kiln_dim_multiple(add(mul(constant(8), U), constant(4)), NULL), 4);
  assert_int_equal(kiln_dim_multiple(mul(constant(1024), U), NULL), 16);
}

static void printing_is_as_one_would_write(void **state) {
  (void)state;
  assert_prints(constant(0), "0");
  assert_prints(constant(INT64_MIN), "-9223372036854775808");
  assert_prints(sub(constant(0), T), "-T");
  assert_prints(sub(add(mul(constant(2), mul(T, T)), mul(constant(3), T)), constant(1)), "2*T*T+3*T-1");
  assert_prints(sub(mul(T, U), mul(constant(4), U)), "T*U-4*U");
}

/* A small random polynomial in T and U. */
static kiln_dim_t random_dim(uint64_t *seed) {
  kiln_dim_t dim = constant(0);
  for (int i = 0; i < 4; i++) {
    *seed = *seed * 6364136223846793005 + 1442695040888963407;
    kiln_dim_t term = constant((int64_t)(*seed >> 60) - 8);
    for (uint64_t n = *seed >> 40 & 3; n; n--) term = mul(term, T);
    for (uint64_t n = *seed >> 30 & 3; n; n--) term = mul(term, U);
    dim = add(dim, term);
  }
  return dim;
}

static int64_t value_at(kiln_dim_t dim, int64_t t, int64_t u) {
  int64_t value;
  assert_true(kiln_dim_eval(dim, (int64_t[KILN_MAX_SYMBOLS]){t, u}, &value));
  return value;
}

static void arithmetic_commutes_with_evaluation(void **state) {
  (void)state;
  uint64_t seed = 1;
  for (int round = 0; round < 500; round++) {
    kiln_dim_t p = random_dim(&seed), q = random_dim(&seed), back;
    for (int64_t t = 0; t < 4; t++) {
      int64_t u = 7 - t, at_p = value_at(p, t, u), at_q = value_at(q, t, u);
      assert_int_equal(value_at(add(p, q), t, u), at_p + at_q);
      assert_int_equal(value_at(sub(p, q), t, u), at_p - at_q);
      assert_int_equal(value_at(mul(p, q), t, u), at_p * at_q);
      if (kiln_dim_provably_ge(p, q)) assert_true(at_p >= at_q);
    }
    if (kiln_dim_is(q, 0)) continue;
    assert_true(kiln_dim_div(&arena, mul(p, q), q, &back));
    assert_true(kiln_dim_equal(back, p));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(different_spellings_have_one_form),
      cmocka_unit_test(order_is_total_and_zero_only_for_equal_forms),
      cmocka_unit_test(division_is_exact_or_refused),
      cmocka_unit_test(overflow_is_refused),
      cmocka_unit_test(powers_above_255_are_refused),
      cmocka_unit_test(a_polynomial_of_too_many_terms_is_refused),
      cmocka_unit_test(what_holds_for_all_symbols_is_proven),
      cmocka_unit_test(evaluation_matches_the_written_formula),
      cmocka_unit_test(evaluation_refuses_overflow_but_zero_wins),
      cmocka_unit_test(multiples_are_powers_of_two_up_to_16),
      cmocka_unit_test(printing_is_as_one_would_write),
      cmocka_unit_test(arithmetic_commutes_with_evaluation),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
