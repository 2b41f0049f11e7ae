/* tests/unit/test_ir_tables.c: the tables made from .def files: dtypes, ops, attributes, targets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ir/op.h"
#include "ir/target.h"

static void dtypes_have_the_sizes_and_classes_of_their_names(void **state) {
  (void)state;
  static const struct {
    const char *name;
    size_t bytes;
    bool is_float, is_integer, is_half;
  } expected[] = {
      {"bool", 1, false, false, false}, {"u8", 1, false, true, false},  {"i8", 1, false, true, false},
      {"i32", 4, false, true, false},   {"i64", 8, false, true, false}, {"f16", 2, true, false, true},
      {"bf16", 2, true, false, true},   {"f32", 4, true, false, false}, {"f64", 8, true, false, false},
  };
  assert_int_equal(KILN_DTYPE_COUNT, sizeof expected / sizeof *expected);
  for (size_t i = 0; i < KILN_DTYPE_COUNT; i++) {
    kiln_dtype_t dtype;
    assert_true(kiln_dtype_parse(expected[i].name, strlen(expected[i].name), &dtype));
    assert_int_equal(kiln_dtype_bytes(dtype), expected[i].bytes);
    assert_int_equal(kiln_dtype_is_float(dtype), expected[i].is_float);
    assert_int_equal(kiln_dtype_is_integer(dtype), expected[i].is_integer);
    assert_int_equal(kiln_dtype_is_half(dtype), expected[i].is_half);
    assert_int_equal(kiln_dtype_in(dtype, KILN_DTYPES_F), expected[i].is_float);
    assert_int_equal(kiln_dtype_in(dtype, KILN_DTYPES_I), expected[i].is_integer);
    assert_true(kiln_dtype_in(dtype, KILN_DTYPES_A));
  }
  kiln_dtype_t ignored;
  assert_false(kiln_dtype_parse("f3", 2, &ignored));
  assert_false(kiln_dtype_parse("f321", 4, &ignored));
  assert_true(kiln_dtype_is_reserved("u64", 3));
  assert_false(kiln_dtype_is_reserved("f32", 3));
}

static void every_op_and_attribute_is_found_by_its_name(void **state) {
  (void)state;
  for (unsigned op = 0; op < KILN_OP_COUNT; op++) {
    const char *name = kiln_op_info(op)->name;
    kiln_op_t found;
    assert_true(kiln_op_parse(name, strlen(name), &found));
    assert_int_equal(found, op);
    assert_false(kiln_op_is_reserved(name, strlen(name)));
  }
  for (unsigned attr = 0; attr < KILN_ATTR_COUNT; attr++) {
    const char *name = kiln_attr_name(attr);
    kiln_attr_t found;
    assert_true(kiln_attr_parse(name, strlen(name), &found));
    assert_int_equal(found, attr);
  }
  kiln_op_t ignored;
  assert_false(kiln_op_parse("addd", 4, &ignored));
  assert_true(kiln_op_is_reserved("attention", 9));
}

static void rows_say_what_an_op_takes(void **state) {
  (void)state;
  const kiln_attr_rule_t *keepdim = kiln_op_attr_rule(KILN_OP_sum, KILN_ATTR_keepdim);
  assert_int_equal(keepdim->presence, KILN_PRESENCE_DEFAULT);
  assert_true(keepdim->number == 0);
  assert_int_equal(kiln_op_attr_rule(KILN_OP_cat, KILN_ATTR_dim)->presence, KILN_PRESENCE_REQUIRED);
  assert_int_equal(kiln_op_attr_rule(KILN_OP_pad, KILN_ATTR_value)->presence, KILN_PRESENCE_OPTIONAL);
  assert_string_equal(kiln_op_attr_rule(KILN_OP_gelu, KILN_ATTR_approximate)->word, "none");
  assert_true(kiln_op_attr_rule(KILN_OP_layernorm, KILN_ATTR_eps)->number == 1e-5);
  assert_null(kiln_op_attr_rule(KILN_OP_add, KILN_ATTR_dim));
  assert_int_equal(kiln_op_info(KILN_OP_where)->operands_most, 3);
  assert_int_equal(kiln_op_info(KILN_OP_cat)->operands_most, KILN_MANY);
  assert_int_equal(kiln_op_info(KILN_OP_layernorm)->optional_operands, 1 << 1 | 1 << 2);
  assert_int_equal(kiln_op_info(KILN_OP_add)->attr_count, 0);
}

/* By NVIDIA's occupancy calculator. */
static void occupancy_is_the_least_of_what_each_resource_allows(void **state) {
  (void)state;
  static const struct {
    const char *arch;
    uint32_t threads, registers, shared_bytes, by_registers, by_threads, by_shared, blocks;
  } rows[] = {
      {"sm_80", 256, 32, 0, 8, 8, 164, 8},        {"sm_80", 256, 40, 0, 6, 8, 164, 6},
      {"sm_80", 128, 255, 0, 2, 16, 164, 2},      {"sm_80", 32, 16, 0, 128, 64, 164, 32},
      {"sm_90", 128, 64, 100 << 10, 8, 16, 2, 2}, {"sm_86", 1024, 32, 0, 2, 1, 100, 1},
      {"sm_86", 32, 16, 0, 128, 48, 100, 16},     {"sm_89", 96, 72, 0, 9, 16, 100, 9},
      {"sm_80", 1024, 65, 0, 0, 2, 164, 0},       {"sm_80", 256, 0, 0, 32, 8, 164, 8},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    kiln_target_t target;
    assert_null(kiln_target_parse(rows[i].arch, &target));
    kiln_occupancy_t got =
        kiln_target_occupancy(&target, rows[i].threads, rows[i].registers, rows[i].shared_bytes);
    assert_int_equal(got.by_registers, rows[i].by_registers);
    assert_int_equal(got.by_threads, rows[i].by_threads);
    assert_int_equal(got.by_shared, rows[i].by_shared);
    assert_int_equal(got.blocks, rows[i].blocks);
    assert_int_equal(got.threads, rows[i].blocks * rows[i].threads);
  }
}

static void a_target_named_alone_has_the_device_of_its_row(void **state) {
  (void)state;
  kiln_target_t target;
  assert_null(kiln_target_parse("sm_90", &target));
  assert_string_equal(target.arch, "sm_90");
  assert_int_equal(target.sm_count, 132);
  assert_int_equal(target.shared_bytes_per_block,
                   232448); /* CUDA C++ Programming Guide, compute capabilities */
  assert_int_equal(target.major * 10 + target.minor, 90);
  for (size_t i = 0; kiln_target_name(i); i++) assert_null(kiln_target_parse(kiln_target_name(i), &target));
}

static void unknown_targets_are_answered_with_the_known_ones(void **state) {
  (void)state;
  kiln_target_t target;
  kiln_status_t status = kiln_target_parse("sm_91", &target);
  assert_int_equal(kiln_status_code(status), KILN_UNSUPPORTED);
  assert_non_null(strstr(kiln_status_message(status), "unknown target 'sm_91'; known are sm_80, "));
  kiln_status_free(status);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(dtypes_have_the_sizes_and_classes_of_their_names),
      cmocka_unit_test(every_op_and_attribute_is_found_by_its_name),
      cmocka_unit_test(rows_say_what_an_op_takes),
      cmocka_unit_test(a_target_named_alone_has_the_device_of_its_row),
      cmocka_unit_test(occupancy_is_the_least_of_what_each_resource_allows),
      cmocka_unit_test(unknown_targets_are_answered_with_the_known_ones),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
