/* tests/unit/test_base_services.c: hashing, log lines, clocks and fault points. */
#include "base/clock.h"
#include "base/fault.h"
#include "base/hash.h"
#include "base/log.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* --- hash: vectors of FIPS 180-4, appendix B ------------------------------------------------------------ */

static const char sha256_of_abc[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
static const char sha256_of_nothing[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

static void sha256_gives_the_published_digests(void **state) {
  (void)state;
  char hex[65];
  kiln_digest_t digest = kiln_sha256("abc", 3);
  kiln_digest_hex(&digest, hex);
  assert_string_equal(hex, sha256_of_abc);
  digest = kiln_sha256(NULL, 0);
  kiln_digest_hex(&digest, hex);
  assert_string_equal(hex, sha256_of_nothing);
}

static void a_hasher_fed_in_parts_gives_the_digest_of_the_whole(void **state) {
  (void)state;
  kiln_hasher_t *hasher = kiln_hasher_create();
  kiln_hasher_update(hasher, "a", 1);
  kiln_hasher_update(hasher, NULL, 0);
  kiln_hasher_update(hasher, "bc", 2);
  kiln_digest_t parts = kiln_hasher_finish(hasher), whole = kiln_sha256("abc", 3);
  assert_true(kiln_digest_equal(&parts, &whole));
}

static kiln_digest_t digest_of_fields(const char *first, const char *second) {
  kiln_hasher_t *hasher = kiln_hasher_create();
  kiln_hasher_field(hasher, first, strlen(first));
  kiln_hasher_field(hasher, second, strlen(second));
  return kiln_hasher_finish(hasher);
}

static void fields_do_not_run_into_each_other(void **state) {
  (void)state;
  kiln_digest_t a = digest_of_fields("ab", "c"), b = digest_of_fields("a", "bc");
  assert_false(kiln_digest_equal(&a, &b));
  kiln_digest_t expected = kiln_sha256("\2\0\0\0\0\0\0\0ab\1\0\0\0\0\0\0\0c", 19);
  assert_true(kiln_digest_equal(&a, &expected));
}

static void digests_parse_from_their_one_spelling_only(void **state) {
  (void)state;
  kiln_digest_t abc = kiln_sha256("abc", 3), parsed;
  assert_true(kiln_digest_parse(sha256_of_abc, &parsed));
  assert_true(kiln_digest_equal(&abc, &parsed));
  char bad[66];
  memcpy(bad, sha256_of_abc, 65);
  bad[63] = 'g';
  assert_false(kiln_digest_parse(bad, &parsed));
  bad[63] = 'D';
  assert_false(kiln_digest_parse(bad, &parsed));
  bad[63] = 0;
  assert_false(kiln_digest_parse(bad, &parsed));
  memcpy(bad, sha256_of_abc, 64);
  memcpy(bad + 64, "0", 2);
  assert_false(kiln_digest_parse(bad, &parsed));
  assert_false(kiln_digest_parse("", &parsed));
}

/* --- log ------------------------------------------------------------------------------------------------ */

/* What kiln_log writes for one message, NUL-terminated. */
static void capture(bool json, const char *fields, const char *message, char out[1024]) {
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  kiln_log_t log = {.descriptor = ends[1], .level = KILN_LOG_INFO, .json = json, .process = "server"};
  kiln_log(&log, KILN_LOG_WARNING, fields, "%s", message);
  kiln_log(&log, KILN_LOG_DEBUG, fields, "too talkative");
  close(ends[1]);
  ssize_t size = read(ends[0], out, 1023);
  close(ends[0]);
  assert_true(size >= 0);
  out[size] = 0;
}

static void a_text_line_has_time_process_level_message_and_fields(void **state) {
  (void)state;
  char line[1024];
  capture(false, "session=3 key=ab", "evicted", line);
  struct tm time;
  const char *rest = strptime(line, "%Y-%m-%dT%H:%M:%S", &time);
  assert_non_null(rest);
  assert_int_equal(rest[0], '.');
  assert_string_equal(rest + 4, "Z server warning: evicted session=3 key=ab\n");
}

static void a_message_cannot_forge_a_second_line(void **state) {
  (void)state;
  char line[1024];
  capture(false, NULL, "one\ntwo\x1b[31m \xff \xc3\xa9", line);
  assert_non_null(strstr(line, "one\\x0atwo\\x1b[31m \\xff \xc3\xa9\n"));
  assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
}

static void a_json_line_is_an_object_whatever_the_message(void **state) {
  (void)state;
  char line[1024];
  capture(true, "session=3  note=a=b flag",
          "say \"hi\"\\\n\x7f \xc0\x80 \xed\xa0\x80 \xf0\x9f\x94\xa5 \xe2\x82", line);
  json_error_t error;
  json_t *object = json_loads(line, 0, &error);
  assert_non_null(object);
  assert_string_equal(json_string_value(json_object_get(object, "process")), "server");
  assert_string_equal(json_string_value(json_object_get(object, "level")), "warning");
  assert_string_equal(json_string_value(json_object_get(object, "session")), "3");
  assert_string_equal(json_string_value(json_object_get(object, "note")), "a=b");
  assert_string_equal(json_string_value(json_object_get(object, "flag")), "");
#define R "\xef\xbf\xbd"
  assert_string_equal(json_string_value(json_object_get(object, "message")),
                      "say \"hi\"\\\n\x7f " R R " " R R R " \xf0\x9f\x94\xa5 " R R);
#undef R
  json_decref(object);
}

static void a_missing_log_swallows_everything(void **state) {
  (void)state;
  kiln_log(NULL, KILN_LOG_ERROR, NULL, "nobody hears %d", 1);
}

/* --- clock and faults ----------------------------------------------------------------------------------- */

static void clocks_agree_with_the_system(void **state) {
  (void)state;
  uint64_t before_ns = kiln_clock_monotonic_ns();
  assert_true(kiln_clock_monotonic_ns() >= before_ns);
  time_t seconds = time(NULL);
  uint64_t wall_ms = kiln_clock_wall_ms();
  assert_true(wall_ms / 1000 >= (uint64_t)seconds - 1 && wall_ms / 1000 <= (uint64_t)seconds + 60);
}

static void faults_fire_as_often_as_armed(void **state) {
  (void)state;
  kiln_faults_t faults;
  int64_t argument = 7;
  assert_true(kiln_faults_parse(&faults, "worker_crash,worker_hang:2:500,cache_write_fails:-1"));
  assert_true(kiln_fault(&faults, KILN_FAULT_worker_crash, NULL));
  assert_false(kiln_fault(&faults, KILN_FAULT_worker_crash, NULL));
  assert_true(kiln_fault(&faults, KILN_FAULT_worker_hang, &argument));
  assert_int_equal(argument, 500);
  assert_true(kiln_fault(&faults, KILN_FAULT_worker_hang, NULL));
  assert_false(kiln_fault(&faults, KILN_FAULT_worker_hang, NULL));
  for (int i = 0; i < 100; i++) assert_true(kiln_fault(&faults, KILN_FAULT_cache_write_fails, NULL));
  assert_false(kiln_fault(&faults, KILN_FAULT_device_crash, NULL));
  assert_false(kiln_fault(NULL, KILN_FAULT_device_crash, NULL));
}

static void malformed_fault_specifications_are_refused(void **state) {
  (void)state;
  kiln_faults_t faults;
  assert_true(kiln_faults_parse(&faults, NULL));
  assert_true(kiln_faults_parse(&faults, ""));
  static const char *const bad[] = {"no_such_point",
                                    "worker_crash:",
                                    "worker_crash:x",
                                    "worker_crash:1:2:3",
                                    "worker_crash:1x",
                                    "worker_crash worker",
                                    ",",
                                    "worker_crash:99999999999999999999"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_false(kiln_faults_parse(&faults, bad[i]));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sha256_gives_the_published_digests),
      cmocka_unit_test(a_hasher_fed_in_parts_gives_the_digest_of_the_whole),
      cmocka_unit_test(fields_do_not_run_into_each_other),
      cmocka_unit_test(digests_parse_from_their_one_spelling_only),
      cmocka_unit_test(a_text_line_has_time_process_level_message_and_fields),
      cmocka_unit_test(a_message_cannot_forge_a_second_line),
      cmocka_unit_test(a_json_line_is_an_object_whatever_the_message),
      cmocka_unit_test(a_missing_log_swallows_everything),
      cmocka_unit_test(clocks_agree_with_the_system),
      cmocka_unit_test(faults_fire_as_often_as_armed),
      cmocka_unit_test(malformed_fault_specifications_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
