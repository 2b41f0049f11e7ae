/* tests/unit/test_server_config.c: options from arguments and files, and what a child gets of them.
 *
 * Expected values are written out from the meaning of the units.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/config.h"

static kiln_status_t read_words(kiln_arena_t *arena, const char *words, config_t *out) {
  char *arguments[32] = {(char *)"kilnd"};
  size_t count = 1;
  for (char *word = strtok(kiln_arena_strdup(arena, words), " "); word; word = strtok(NULL, " "))
    arguments[count++] = word;
  return config_read(arena, count, arguments, out);
}

static void sizes_are_read_with_binary_units(void **state) {
  (void)state;
  static const struct {
    const char *text;
    uint64_t bytes;
  } good[] = {{"0", 0},           {"4096", 4096},       {"1KiB", 1024}, {"3MiB", 3145728},
              {"2GiB", 1u << 31}, {"1TiB", 1ull << 40}, {"7B", 7}};
  static const char *const bad[] = {
      "", "-1", "KiB", "1KB", "1kib", "1 KiB", "0x10", "99999999999999999999", "9000000TiB"};
  uint64_t bytes;
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
    assert_true(config_parse_size(good[i].text, &bytes));
    assert_int_equal(bytes, good[i].bytes);
  }
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) assert_false(config_parse_size(bad[i], &bytes));
}

static void both_spellings_of_an_option_mean_the_same(void **state) {
  (void)state;
  kiln_arena_t arena;
  config_t config;
  kiln_arena_init(&arena, 0);
  assert_null(read_words(
      &arena, "--workers=3 --cache-size 1MiB --test-hooks --listen unix:/a --listen=unix:/b", &config));
  assert_int_equal(config.workers, 3);
  assert_int_equal(config.cache_size, 1 << 20);
  assert_true(config.test_hooks);
  assert_int_equal(config.listen.count, 2);
  assert_string_equal(config.listen.items[1], "unix:/b");
  kiln_arena_deinit(&arena);
}

static void seconds_may_be_fractions(void **state) {
  (void)state;
  kiln_arena_t arena;
  config_t config;
  kiln_arena_init(&arena, 0);
  assert_null(read_words(&arena, "--drain-timeout 0.25", &config));
  assert_int_equal(config.drain_timeout, 250000000);
  assert_int_equal(config.compile_timeout, 60000000000);
  kiln_arena_deinit(&arena);
}

static void a_child_reads_back_the_very_configuration(void **state) {
  (void)state;
  kiln_arena_t arena;
  config_t config, again;
  kiln_arena_init(&arena, 0);
  assert_null(read_words(
      &arena, "--workers=3 --device cuda:1 --device emulated --drain-timeout 1.5 --log-format json",
      &config));
  char **arguments = config_arguments(&arena, &config, ROLE_DEVICE, 1);
  assert_string_equal(arguments[1], "--role");
  assert_string_equal(arguments[2], "device");
  assert_string_equal(arguments[3], "1");
  size_t count = 3;
  while (arguments[count]) count++;
  assert_null(config_read(&arena, count - 3, arguments + 3, &again));
  assert_int_equal(again.workers, 3);
  assert_int_equal(again.device.count, 2);
  assert_string_equal(again.device.items[0], "cuda:1");
  assert_int_equal(again.drain_timeout, config.drain_timeout);
  assert_string_equal(again.log_format, "json");
  kiln_arena_deinit(&arena);
}

static void what_is_no_option_is_named(void **state) {
  (void)state;
  static const char *const bad[] = {"--colour",  "colour",           "--workers x",
                                    "--workers", "--log-level loud", "--max-message 1"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    kiln_arena_t arena;
    config_t config;
    kiln_arena_init(&arena, 0);
    kiln_status_t status = read_words(&arena, bad[i], &config);
    assert_int_equal(kiln_status_code(status), KILN_INVALID_ARGUMENT);
    kiln_status_free(status);
    kiln_arena_deinit(&arena);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sizes_are_read_with_binary_units),
      cmocka_unit_test(both_spellings_of_an_option_mean_the_same),
      cmocka_unit_test(seconds_may_be_fractions),
      cmocka_unit_test(a_child_reads_back_the_very_configuration),
      cmocka_unit_test(what_is_no_option_is_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
