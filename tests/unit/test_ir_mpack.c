/* tests/unit/test_ir_mpack.c: MessagePack in and out, and the scanner against hostile bytes.
 *
 * Expected encodings are those of the MessagePack specification's format table.
 */
#include "ir/mpack.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

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

static const kiln_mpack_limits_t limits = {1 << 20, 1000, 16};

/* --- encoding ------------------------------------------------------------------------------------------- */

static void values_have_the_encodings_of_the_specification(void **state) {
  (void)state;
  kiln_buffer_t out;
  kiln_buffer_init(&out);
  kiln_mpack_array(&out, 12);
  kiln_mpack_nil(&out);
  kiln_mpack_bool(&out, true);
  kiln_mpack_bool(&out, false);
  kiln_mpack_int(&out, -1);
  kiln_mpack_int(&out, -129);
  kiln_mpack_uint(&out, UINT64_MAX);
  kiln_mpack_double(&out, -0.0);
  kiln_mpack_str(&out, "ab");
  kiln_mpack_strn(&out, "", 0);
  kiln_mpack_bin(&out, "\0\1", 2);
  kiln_mpack_map(&out, 1);
  kiln_mpack_int(&out, 0);
  kiln_mpack_int(&out, 200);
  kiln_mpack_bin_header(&out, 300);
  static const char expected[] = "\x9c\xc0\xc3\xc2\xff\xd1\xff\x7f\xcf\xff\xff\xff\xff\xff\xff\xff\xff"
                                 "\xcb\x80\0\0\0\0\0\0\0\xa2"
                                 "ab"
                                 "\xa0\xc4\2\0\1\x81\0\xcc\xc8\xc5\1\x2c";
  assert_int_equal(out.size, sizeof expected - 1);
  assert_memory_equal(out.data, expected, out.size);
  kiln_buffer_deinit(&out);
}

/* --- decoding ------------------------------------------------------------------------------------------- */

static const kiln_mpack_t *decode(const char *bytes, size_t size) {
  const kiln_mpack_t *value;
  assert_null(kiln_mpack_decode(&arena, bytes, size, &value));
  return value;
}
#define DECODE(literal) decode(literal, sizeof(literal) - 1)

static void members_are_a_key_and_its_value(void **state) {
  (void)state;
  const kiln_digest_t digest = {{0xab, 0x01}};
  kiln_buffer_t out;
  kiln_buffer_init(&out);
  kiln_mpack_map(&out, 8);
  kiln_mpack_member_bool(&out, "b", true);
  kiln_mpack_member_int(&out, "i", -1);
  kiln_mpack_member_uint(&out, "u", 200);
  kiln_mpack_member_str(&out, "s", "x");
  kiln_mpack_member_bin(&out, "n", "\0", 1);
  kiln_mpack_member_hex(&out, "h", &digest);
  kiln_mpack_member_array(&out, "a", 0);
  kiln_mpack_member_map(&out, "m", 0);
  static const char expected[] = "\x88\xa1"
                                 "b\xc3\xa1"
                                 "i\xff\xa1"
                                 "u\xcc\xc8\xa1"
                                 "s\xa1x\xa1"
                                 "n\xc4\1\0\xa1"
                                 "h\xd9\x40"
                                 "ab01000000000000000000000000000000000000000000000000000000000000\xa1"
                                 "a\x90\xa1"
                                 "m\x80";
  assert_int_equal(out.size, sizeof expected - 1);
  assert_memory_equal(out.data, expected, out.size);
  kiln_buffer_deinit(&out);
}

static void getters_accept_their_kind_only(void **state) {
  (void)state;
  const kiln_mpack_t *values =
      DECODE("\x9a\xc0\xc3\x07\xe0\xcf\xff\xff\xff\xff\xff\xff\xff\xff\xca\x3f\xc0\0\0\xa1x\xc4\1y\x90\x80");
  int64_t i;
  uint64_t u;
  double d;
  bool b;
  const char *text;
  const void *data;
  size_t size;
  static const char accepted[10][7] = {
      /* bool int uint double str bin kind */
      {0, 0, 0, 0, 0, 0, KILN_MPACK_NIL},   {1, 0, 0, 0, 0, 0, KILN_MPACK_BOOL},
      {0, 1, 1, 1, 0, 0, KILN_MPACK_INT},   {0, 1, 0, 1, 0, 0, KILN_MPACK_INT},
      {0, 0, 1, 1, 0, 0, KILN_MPACK_INT},   {0, 0, 0, 1, 0, 0, KILN_MPACK_DOUBLE},
      {0, 0, 0, 0, 1, 0, KILN_MPACK_STR},   {0, 0, 0, 0, 0, 1, KILN_MPACK_BIN},
      {0, 0, 0, 0, 0, 0, KILN_MPACK_ARRAY}, {0, 0, 0, 0, 0, 0, KILN_MPACK_MAP},
  };
  assert_int_equal(kiln_mpack_count(values), 10);
  for (size_t n = 0; n < 10; n++) {
    const kiln_mpack_t *value = kiln_mpack_item(values, n);
    assert_int_equal(kiln_mpack_get_bool(value, &b), accepted[n][0]);
    assert_int_equal(kiln_mpack_get_int(value, &i), accepted[n][1]);
    assert_int_equal(kiln_mpack_get_uint(value, &u), accepted[n][2]);
    assert_int_equal(kiln_mpack_get_double(value, &d), accepted[n][3]);
    assert_int_equal(kiln_mpack_get_str(value, &text, &size), accepted[n][4]);
    assert_int_equal(kiln_mpack_get_bin(value, &data, &size), accepted[n][5]);
    assert_int_equal(kiln_mpack_kind(value), accepted[n][6]);
  }
  assert_true(kiln_mpack_get_int(kiln_mpack_item(values, 3), &i) && i == -32);
  assert_true(kiln_mpack_get_uint(kiln_mpack_item(values, 4), &u) && u == UINT64_MAX);
  assert_true(kiln_mpack_get_double(kiln_mpack_item(values, 5), &d) && d == 1.5);
  assert_true(kiln_mpack_is_str(kiln_mpack_item(values, 6), "x"));
  assert_int_equal(kiln_mpack_kind(DECODE("\xd4\1\2")), KILN_MPACK_EXT);
}

static void maps_are_searched_by_string_key(void **state) {
  (void)state;
  const kiln_mpack_t *map = DECODE("\x83\1\2\xa1"
                                   "a"
                                   "\3\xa2"
                                   "ab"
                                   "\4");
  int64_t value;
  assert_true(kiln_mpack_get_int(kiln_mpack_find(map, "ab"), &value) && value == 4);
  assert_true(kiln_mpack_get_int(kiln_mpack_find(map, "a"), &value) && value == 3);
  assert_null(kiln_mpack_find(map, "b"));
  assert_null(kiln_mpack_find(kiln_mpack_pair_value(map, 0), "a"));
  assert_true(kiln_mpack_is_str(kiln_mpack_pair_key(map, 1), "a"));
}

static void strings_point_into_the_bytes(void **state) {
  (void)state;
  static const char bytes[] = "\xa3xyz";
  const char *text;
  size_t size;
  assert_true(kiln_mpack_get_str(decode(bytes, 4), &text, &size));
  assert_ptr_equal(text, bytes + 1);
  assert_int_equal(size, 3);
}

static void decoding_refuses_what_is_not_one_object(void **state) {
  (void)state;
  static const struct {
    const char *bytes;
    size_t size;
  } cases[] = {{"", 0},      {"\1\2", 2},           {"\x91", 1},    {"\xc1", 1},
               {"\xa2x", 2}, {"\xdd\xff\0\0\0", 5}, {"\x91\xc1", 2}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const kiln_mpack_t *value;
    kiln_status_t status = kiln_mpack_decode(&arena, cases[i].bytes, cases[i].size, &value);
    assert_int_equal(kiln_status_code(status), KILN_PROTOCOL_ERROR);
    kiln_status_free(status);
  }
}

/* --- the scanner ---------------------------------------------------------------------------------------- */

static kiln_scan_t scan(const void *bytes, size_t size, kiln_mpack_limits_t within, uint64_t *out_end) {
  kiln_mpack_scanner_t scanner;
  kiln_mpack_scan_init(&scanner, &within);
  kiln_scan_t result = kiln_mpack_scan(&scanner, bytes, size);
  if (out_end) *out_end = scanner.position;
  return result;
}

/* One object of every format, first byte to last. */
static size_t every_format(uint8_t *out) {
  static const uint8_t payload[256] = {
      [0xcc] = 1, [0xcd] = 2, [0xce] = 4, [0xcf] = 8, [0xd0] = 1, [0xd1] = 2, [0xd2] = 4, [0xd3] = 8,
      [0xca] = 4, [0xcb] = 8, [0xd4] = 2, [0xd5] = 3, [0xd6] = 5, [0xd7] = 9, [0xd8] = 17};
  static const uint8_t sized[][2] = {{0xc4, 1}, {0xc5, 2}, {0xc6, 4}, {0xd9, 1}, {0xda, 2},
                                     {0xdb, 4}, {0xc7, 1}, {0xc8, 2}, {0xc9, 4}, {0xdc, 2},
                                     {0xdd, 4}, {0xde, 2}, {0xdf, 4}};
  size_t at = 0, objects = 0;
  out[at++] = 0xdc; /* array of as many objects as follow */
  at += 2;
  for (unsigned first = 0; first < 256; first++) {
    bool has_length = (first >= 0xc4 && first <= 0xc9) || first >= 0xd9;
    if (first == 0xc1 || (has_length && first < 0xe0)) continue;
    size_t bytes = first >= 0xa0 && first < 0xc0 ? first & 31 : payload[first];
    if (first >= 0x80 && first < 0xa0) bytes = first < 0x90 ? 2 * (first & 15) : first & 15; /* of fixints */
    out[at++] = (uint8_t)first;
    memset(out + at, 0, bytes);
    at += bytes;
    objects++;
  }
  for (size_t i = 0; i < sizeof sized / sizeof *sized; i++) {
    uint8_t first = sized[i][0], width = sized[i][1];
    bool is_ext = first >= 0xc7 && first <= 0xc9, is_map = first == 0xde || first == 0xdf;
    out[at++] = first;
    memset(out + at, 0, width);
    out[at + width - 1] = 3;
    at += width;
    memset(out + at, 0, 6);
    at += is_ext ? 4 : is_map ? 6 : 3;
    objects++;
  }
  out[1] = (uint8_t)(objects >> 8);
  out[2] = (uint8_t)objects;
  return at;
}

static void the_end_of_every_format_is_found(void **state) {
  (void)state;
  uint8_t bytes[8192];
  size_t size = every_format(bytes);
  uint64_t end;
  assert_int_equal(scan(bytes, size, limits, &end), KILN_SCAN_COMPLETE);
  assert_int_equal(end, size);
  bytes[size] = 0xc1; /* what follows the message is not looked at */
  assert_int_equal(scan(bytes, size + 1, limits, &end), KILN_SCAN_COMPLETE);
  assert_int_equal(end, size);
  const kiln_mpack_t *value; /* and msgpack-c sees the same */
  assert_null(kiln_mpack_decode(&arena, bytes, size, &value));
}

static void bytes_one_by_one_give_what_the_whole_gives(void **state) {
  (void)state;
  uint8_t bytes[8192];
  size_t size = every_format(bytes);
  kiln_mpack_scanner_t scanner;
  kiln_mpack_scan_init(&scanner, &limits);
  for (size_t arrived = 0; arrived < size; arrived++) {
    uint8_t *exact = malloc(arrived ? arrived : 1); /* so that the sanitizer sees a read past the end */
    memcpy(exact, bytes, arrived);
    assert_int_equal(kiln_mpack_scan(&scanner, exact, arrived), KILN_SCAN_MORE);
    free(exact);
  }
  assert_int_equal(kiln_mpack_scan(&scanner, bytes, size), KILN_SCAN_COMPLETE);
  assert_int_equal(scanner.position, size);
}

static void hostile_headers_are_refused_as_they_arrive(void **state) {
  (void)state;
  uint8_t nested[3 * 24000], deep[10000];
  for (size_t i = 0; i < sizeof nested; i += 3) memcpy(nested + i, "\xdc\xff\xff", 3);
  memset(deep, 0x91, sizeof deep);
  kiln_mpack_limits_t roomy = {256 << 20, 4000000, 16};
  assert_int_equal(scan("\xdd\xff\0\0\0", 5, roomy, NULL), KILN_SCAN_TOO_MANY);
  assert_int_equal(scan("\xdf\xff\0\0\0", 5, roomy, NULL), KILN_SCAN_TOO_MANY);
  assert_int_equal(scan(nested, sizeof nested, roomy, NULL), KILN_SCAN_TOO_DEEP);
  assert_int_equal(scan(deep, sizeof deep, roomy, NULL), KILN_SCAN_TOO_DEEP);
  assert_int_equal(scan("\xc1", 1, roomy, NULL), KILN_SCAN_MALFORMED);
  assert_int_equal(scan("\xc6\xff\xff\xff\xff", 5, roomy, NULL), KILN_SCAN_TOO_LARGE);
  assert_int_equal(scan("\xdb\x10\0\0\0", 5, roomy, NULL), KILN_SCAN_TOO_LARGE);
}

static void depth_counts_containers(void **state) {
  (void)state;
  uint8_t bytes[40];
  memset(bytes, 0x91, sizeof bytes);
  for (uint32_t depth = 1; depth <= 31; depth++) {
    bytes[depth - 1] = 0x90;
    assert_int_equal(scan(bytes, depth, (kiln_mpack_limits_t){1000, 1000, depth}, NULL), KILN_SCAN_COMPLETE);
    assert_int_equal(scan(bytes, depth, (kiln_mpack_limits_t){1000, 1000, depth - 1}, NULL),
                     KILN_SCAN_TOO_DEEP);
    bytes[depth - 1] = 0x91;
  }
  assert_int_equal(scan(bytes, 32, (kiln_mpack_limits_t){1000, 1000, 1000}, NULL),
                   KILN_SCAN_TOO_DEEP); /* 31 at most */
}

static void a_message_may_be_as_large_as_the_limit(void **state) {
  (void)state;
  uint8_t bytes[300] = {0xc5, 0, 200}; /* 203 bytes */
  assert_int_equal(scan(bytes, 203, (kiln_mpack_limits_t){203, 1, 16}, NULL), KILN_SCAN_COMPLETE);
  assert_int_equal(scan(bytes, 3, (kiln_mpack_limits_t){202, 1, 16}, NULL), KILN_SCAN_TOO_LARGE);
  assert_int_equal(scan("\x93\1\2\3", 4, (kiln_mpack_limits_t){4, 4, 16}, NULL), KILN_SCAN_COMPLETE);
  assert_int_equal(scan("\x93\1\2\3", 4, (kiln_mpack_limits_t){3, 4, 16}, NULL), KILN_SCAN_TOO_LARGE);
  assert_int_equal(scan("\x93\1\2\3", 4, (kiln_mpack_limits_t){4, 3, 16}, NULL), KILN_SCAN_TOO_MANY);
}

static void every_truncation_asks_for_more(void **state) {
  (void)state;
  uint8_t bytes[8192];
  size_t size = every_format(bytes);
  for (size_t cut = 0; cut < size; cut++) assert_int_equal(scan(bytes, cut, limits, NULL), KILN_SCAN_MORE);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(values_have_the_encodings_of_the_specification),
      cmocka_unit_test(members_are_a_key_and_its_value),
      cmocka_unit_test(getters_accept_their_kind_only),
      cmocka_unit_test(maps_are_searched_by_string_key),
      cmocka_unit_test(strings_point_into_the_bytes),
      cmocka_unit_test(decoding_refuses_what_is_not_one_object),
      cmocka_unit_test(the_end_of_every_format_is_found),
      cmocka_unit_test(bytes_one_by_one_give_what_the_whole_gives),
      cmocka_unit_test(hostile_headers_are_refused_as_they_arrive),
      cmocka_unit_test(depth_counts_containers),
      cmocka_unit_test(a_message_may_be_as_large_as_the_limit),
      cmocka_unit_test(every_truncation_asks_for_more),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
