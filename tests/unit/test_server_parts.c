/* tests/unit/test_server_parts.c: the server's small parts, without a socket: fields, errors, failures,
 * programs, control. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/control.h"
#include "server/error_wire.h"
#include "server/failures.h"
#include "server/fields.h"
#include "server/program.h"

#define SECOND_NS 1000000000ull

/* --- fields -------------------------------------------------------------------------------------------- */

/* {a: 1, a: 2, f: nil, t: "text", l: [1, 2]} */
static const uint8_t map_bytes[] = {0x85, 0xa1, 'a', 1,   0xa1, 'a', 2,    0xa1, 'f',  0xc0, 0xa1,
                                    't',  0xa4, 't', 'e', 'x',  't', 0xa1, 'l',  0x92, 1,    2};

typedef struct {
  kiln_arena_t arena;
  fields_t fields;
} fixture_t;

static int open_fields(void **state) {
  fixture_t *fixture = calloc(1, sizeof *fixture);
  kiln_arena_init(&fixture->arena, 0);
  fixture->fields = (fields_t){.arena = &fixture->arena, .path = "inputs[2]."};
  assert_null(kiln_mpack_decode(&fixture->arena, map_bytes, sizeof map_bytes, &fixture->fields.map));
  *state = fixture;
  return 0;
}

static int close_fields(void **state) {
  fixture_t *fixture = *state;
  kiln_arena_deinit(&fixture->arena);
  free(fixture);
  return 0;
}

static void expect_field(kiln_status_t status, const char *field) {
  assert_int_equal(kiln_status_code(status), KILN_INVALID_ARGUMENT);
  assert_string_equal(kiln_status_detail(status, "field"), field);
  kiln_status_free(status);
}

static void a_wrong_field_is_named_with_its_path(void **state) {
  const fields_t *fields = &((fixture_t *)*state)->fields;
  const int64_t *list;
  size_t count;
  bool flag;
  int64_t number;
  expect_field(field_int(fields, "t", 0, 9, 0, &number), "inputs[2].t");
  expect_field(field_bool(fields, "a", false, &flag), "inputs[2].a");
  expect_field(field_ints(fields, "l", 0, 1, 8, &list, &count), "inputs[2].l[1]");
  expect_field(field_ints(fields, "l", 0, 9, 1, &list, &count), "inputs[2].l");
}

static void a_field_that_is_nil_is_absent(void **state) {
  const fields_t *fields = &((fixture_t *)*state)->fields;
  const char *text;
  assert_null(field_find(fields, "f"));
  assert_null(field_text(fields, "f", "otherwise", &text));
  assert_string_equal(text, "otherwise");
}

static void unknown_and_repeated_keys_are_refused(void **state) {
  const fields_t *fields = &((fixture_t *)*state)->fields;
  expect_field(fields_known(fields, "a f t l"), "inputs[2].a");
  expect_field(fields_known(fields, "f t l aa"), "inputs[2].a");
}

/* --- errors -------------------------------------------------------------------------------------------- */

static void an_error_survives_the_wire(void **state) {
  (void)state;
  kiln_status_t status =
      kiln_error_detail(kiln_error(KILN_INVALID_GRAPH, "node 3 is %s", "odd"), "node", "%s", "%y");
  kiln_buffer_t bytes;
  kiln_buffer_init(&bytes);
  error_encode(&bytes, status);
  kiln_status_t again = error_decode(bytes.data, bytes.size);
  assert_int_equal(kiln_status_code(again), KILN_INVALID_GRAPH);
  assert_string_equal(kiln_status_message(again), "node 3 is odd");
  assert_string_equal(kiln_status_detail(again, "node"), "%y");
  kiln_status_free(again);
  for (size_t size = 0; size < bytes.size; size++) { /* a cut-off error is an error of another kind */
    again = error_decode(bytes.data, size);
    assert_non_null(again);
    kiln_status_free(again);
  }
  kiln_status_free(status);
  kiln_buffer_deinit(&bytes);
}

/* --- failures ------------------------------------------------------------------------------------------ */

static kiln_code_t remembered(const failures_t *failures, const kiln_digest_t *key, uint64_t now_ns) {
  kiln_status_t status = failures_find(failures, key, now_ns);
  kiln_code_t code = kiln_status_code(status);
  kiln_status_free(status);
  return code;
}

static void add_failure(failures_t *failures, const kiln_digest_t *key, kiln_code_t code, bool accident,
                        uint64_t now_ns) {
  kiln_status_t status = kiln_error(code, "it failed");
  failures_add(failures, key, status, accident, now_ns);
  kiln_status_free(status);
}

static void an_accident_is_remembered_for_a_minute_then_for_two(void **state) {
  (void)state;
  failures_t failures;
  kiln_digest_t key = {{1}};
  failures_init(&failures);
  add_failure(&failures, &key, KILN_COMPILE_TIMEOUT, true, 0);
  assert_int_equal(remembered(&failures, &key, 59 * SECOND_NS), KILN_COMPILE_TIMEOUT);
  assert_int_equal(remembered(&failures, &key, 60 * SECOND_NS), KILN_OK);
  add_failure(&failures, &key, KILN_COMPILE_TIMEOUT, true, 100 * SECOND_NS);
  assert_int_equal(remembered(&failures, &key, 219 * SECOND_NS), KILN_COMPILE_TIMEOUT);
  assert_int_equal(remembered(&failures, &key, 220 * SECOND_NS), KILN_OK);
  failures_deinit(&failures);
}

static void
what_the_compiler_refused_stays_refused_and_what_says_nothing_of_the_graph_is_not_kept(void **state) {
  (void)state;
  failures_t failures;
  kiln_digest_t refused = {{1}}, cancelled = {{2}};
  failures_init(&failures);
  add_failure(&failures, &refused, KILN_COMPILE_FAILED, false, 0);
  add_failure(&failures, &cancelled, KILN_CANCELLED, false, 0);
  assert_int_equal(remembered(&failures, &refused, UINT64_MAX), KILN_COMPILE_FAILED);
  assert_int_equal(remembered(&failures, &cancelled, 0), KILN_OK);
  failures_deinit(&failures);
}

static void failures_are_bounded_and_the_oldest_goes_first(void **state) {
  (void)state;
  failures_t failures;
  failures_init(&failures);
  for (uint32_t i = 0; i < 3000; i++) {
    kiln_digest_t key = {{(uint8_t)i, (uint8_t)(i >> 8)}};
    add_failure(&failures, &key, KILN_COMPILE_FAILED, false, 0);
  }
  kiln_digest_t first = {{0}}, last = {{(uint8_t)2999, (uint8_t)(2999 >> 8)}};
  assert_int_equal(failures_count(&failures), 1024);
  assert_int_equal(remembered(&failures, &first, 0), KILN_OK);
  assert_int_equal(remembered(&failures, &last, 0), KILN_COMPILE_FAILED);
  failures_deinit(&failures);
}

/* --- programs ------------------------------------------------------------------------------------------ */

static program_t *program_of(const char *text) {
  program_source_t source = {.text = text, .text_size = strlen(text), .name = ""};
  program_t *program = NULL;
  assert_null(program_create(&source, 0, &program));
  return program;
}

static void the_class_of_symbols_is_their_largest_power_of_two_up_to_16(void **state) {
  (void)state;
  program_t *program = program_of("graph g[A,B](%x: f32[A,B]) {\n %y = neg(%x)\n return %y\n}\n");
  static const struct {
    int64_t value, multiple;
  } cases[] = {{0, 16}, {1, 1}, {2, 2}, {12, 4}, {24, 8}, {48, 16}, {64, 16}, {97, 1}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    int64_t symbols[KILN_MAX_SYMBOLS] = {cases[i].value, 3};
    kiln_symbol_class_t symbol_class = program_class(program, symbols);
    assert_int_equal(symbol_class.multiple[0], cases[i].multiple);
    assert_int_equal(symbol_class.multiple[1], 1);
    assert_false(symbol_class.wide);
  }
  program_release(program);
}

static void a_class_is_wide_from_2_to_the_31_elements_on(void **state) {
  (void)state;
  program_t *program = program_of("graph g[A,B](%x: f32[A,B]) {\n %y = neg(%x)\n return %y\n}\n");
  int64_t below[KILN_MAX_SYMBOLS] = {65535, 32768}, at[KILN_MAX_SYMBOLS] = {65536, 32768};
  assert_false(program_class(program, below).wide);
  assert_true(program_class(program, at).wide);
  program_release(program);
}

static void without_values_the_typical_ones_count(void **state) {
  (void)state;
  program_t *program = program_of("graph g[A=4096,B](%x: f32[A,B]) {\n %y = neg(%x)\n return %y\n}\n");
  kiln_symbol_class_t symbol_class = program_class(program, NULL);
  assert_int_equal(symbol_class.multiple[0], 16);
  assert_int_equal(symbol_class.multiple[1], 1);
  program_release(program);
}

static void names_change_the_program_but_not_its_key_bytes(void **state) {
  (void)state;
  program_t *one = program_of("graph g(%x: f32[3]) {\n %y = neg(%x)\n return %y\n}\n");
  program_t *two = program_of("graph h(%a: f32[3]) {\n %b = neg(%a)\n return %b\n}\n");
  assert_false(kiln_digest_equal(&one->digest, &two->digest));
  assert_int_equal(one->full_key.size, two->full_key.size);
  assert_memory_equal(one->full_key.data, two->full_key.data, one->full_key.size);
  assert_memory_equal(one->wire.data, two->wire.data, one->wire.size);
  program_release(one);
  program_release(two);
}

/* --- control ------------------------------------------------------------------------------------------- */

static void a_control_message_carries_its_descriptor(void **state) {
  (void)state;
  int pair[2], pipes[2], got;
  control_message_t message = {.kind = CONTROL_SPAWNED, .role = ROLE_DEVICE, .index = 7}, received;
  assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
  assert_int_equal(pipe(pipes), 0);
  assert_int_equal(control_receive(pair[1], &received, &got), 0);
  assert_true(control_send(pair[0], &message, pipes[1]));
  assert_int_equal(control_receive(pair[1], &received, &got), 1);
  assert_memory_equal(&received, &message, sizeof message);
  assert_int_equal(write(got, "x", 1), 1);
  char byte;
  assert_int_equal(read(pipes[0], &byte, 1), 1);
  close(pair[0]);
  assert_int_equal(control_receive(pair[1], &received, &got), -1);
  close(got);
  close(pair[1]);
  close(pipes[0]);
  close(pipes[1]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_wrong_field_is_named_with_its_path, open_fields, close_fields),
      cmocka_unit_test_setup_teardown(a_field_that_is_nil_is_absent, open_fields, close_fields),
      cmocka_unit_test_setup_teardown(unknown_and_repeated_keys_are_refused, open_fields, close_fields),
      cmocka_unit_test(an_error_survives_the_wire),
      cmocka_unit_test(an_accident_is_remembered_for_a_minute_then_for_two),
      cmocka_unit_test(
          what_the_compiler_refused_stays_refused_and_what_says_nothing_of_the_graph_is_not_kept),
      cmocka_unit_test(failures_are_bounded_and_the_oldest_goes_first),
      cmocka_unit_test(the_class_of_symbols_is_their_largest_power_of_two_up_to_16),
      cmocka_unit_test(a_class_is_wide_from_2_to_the_31_elements_on),
      cmocka_unit_test(without_values_the_typical_ones_count),
      cmocka_unit_test(names_change_the_program_but_not_its_key_bytes),
      cmocka_unit_test(a_control_message_carries_its_descriptor),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
