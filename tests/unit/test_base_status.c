/* tests/unit/test_base_status.c: statuses, their notes and details, and the table of codes. */
#include "base/status.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void success_has_no_text(void **state) {
  (void)state;
  assert_int_equal(kiln_status_code(NULL), KILN_OK);
  assert_string_equal(kiln_status_message(NULL), "");
  assert_null(kiln_status_detail(NULL, "node"));
  assert_int_equal(kiln_status_detail_count(NULL), 0);
  assert_null(kiln_error_note(NULL, "reading"));
  assert_null(kiln_error_detail(NULL, "node", "1"));
  kiln_status_free(NULL);
}

static void notes_are_added_outward(void **state) {
  (void)state;
  kiln_status_t status = kiln_error(KILN_INVALID_GRAPH, "rank %d", 3);
  status = kiln_error_note(status, "verifying node %d", 17);
  status = kiln_error_note(status, "compiling '%s'", "rope");
  assert_string_equal(kiln_status_message(status), "rank 3; while verifying node 17; while compiling 'rope'");
  assert_int_equal(kiln_status_code(status), KILN_INVALID_GRAPH);
  kiln_status_free(status);
}

static void a_note_may_quote_the_message_it_extends(void **state) {
  (void)state;
  kiln_status_t status = kiln_error(KILN_INTERNAL, "inner");
  status = kiln_error_note(status, "handling '%s'", kiln_status_message(status));
  assert_string_equal(kiln_status_message(status), "inner; while handling 'inner'");
  kiln_status_free(status);
}

static void details_keep_their_order_and_the_last_value(void **state) {
  (void)state;
  kiln_status_t status = kiln_error(KILN_INVALID_ARGUMENT, "bad");
  status = kiln_error_detail(status, "field", "shape");
  status = kiln_error_detail(status, "line", "%d", 4);
  status = kiln_error_detail(status, "field", "dtype");
  assert_int_equal(kiln_status_detail_count(status), 2);
  const char *key, *value;
  kiln_status_detail_at(status, 0, &key, &value);
  assert_string_equal(key, "field");
  assert_string_equal(value, "dtype");
  kiln_status_detail_at(status, 1, &key, &value);
  assert_string_equal(key, "line");
  assert_string_equal(value, "4");
  assert_string_equal(kiln_status_detail(status, "line"), "4");
  assert_null(kiln_status_detail(status, "column"));
  kiln_status_free(status);
}

static void errno_is_spelled_out(void **state) {
  (void)state;
  kiln_status_t status = kiln_error_errno(KILN_NOT_FOUND, ENOENT, "cannot open '%s'", "x");
  assert_string_equal(kiln_status_message(status), "cannot open 'x': No such file or directory");
  kiln_status_free(status);
}

static void every_code_is_found_by_its_name(void **state) {
  (void)state;
  for (unsigned code = 0; code < KILN_CODE_COUNT; code++) {
    kiln_code_t found;
    assert_true(kiln_code_parse(kiln_code_name(code), &found));
    assert_int_equal(found, code);
  }
  kiln_code_t ignored;
  assert_false(kiln_code_parse("invalid_argument", &ignored));
  assert_false(kiln_code_parse("", &ignored));
}

static void a_code_from_outside_the_table_has_a_name(void **state) {
  (void)state;
  assert_string_equal(kiln_code_name(KILN_CODE_COUNT), "UNKNOWN");
  assert_string_equal(kiln_code_name((kiln_code_t)-1), "UNKNOWN");
  assert_false(kiln_code_retryable(KILN_CODE_COUNT));
}

static void only_what_may_pass_is_retryable(void **state) {
  (void)state;
  assert_true(kiln_code_retryable(KILN_OVERLOADED));
  assert_true(kiln_code_retryable(KILN_DEVICE_LOST));
  assert_false(kiln_code_retryable(KILN_INVALID_GRAPH));
  assert_false(kiln_code_retryable(KILN_OK));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(success_has_no_text),
      cmocka_unit_test(notes_are_added_outward),
      cmocka_unit_test(a_note_may_quote_the_message_it_extends),
      cmocka_unit_test(details_keep_their_order_and_the_last_value),
      cmocka_unit_test(errno_is_spelled_out),
      cmocka_unit_test(every_code_is_found_by_its_name),
      cmocka_unit_test(a_code_from_outside_the_table_has_a_name),
      cmocka_unit_test(only_what_may_pass_is_retryable),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
