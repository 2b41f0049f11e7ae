/* tests/unit/test_runtime_cache_shared.c: one folder and several daemons, the locks between them, and the
 * sweeper that keeps the folder below its limit. */
#include "base/clock.h"
#include "tests/support/cache_fixture.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* --- several processes ------------------------------------------------------------------------- */

/* Puts, gets and evicts; 0 when every entry that was there was right. */
static int use_hard(cache_fixture_t *fixture, int seed) {
  kiln_disk_cache_t *cache = cache_fixture_open(fixture, 100 * 1024);
  int wrong = 0;
  for (int i = 0; i < 600; i++) {
    int number = (i * 7 + seed * 13) % 64;
    if (i % 3 == seed % 3) cache_sample_put(cache, number);
    wrong += cache_sample_look(cache, number) < 0;
    kiln_disk_cache_sweep(cache);
  }
  kiln_disk_cache_close(cache);
  return wrong;
}

static void two_daemons_that_write_and_evict_on_one_folder_are_both_right(void **state) {
  cache_fixture_t *fixture = *state;
  pid_t child = fork();
  if (!child) _exit(use_hard(fixture, 1) ? 1 : 0);
  int wrong = use_hard(fixture, 0), ended;
  assert_int_equal(waitpid(child, &ended, 0), child);
  assert_int_equal(wrong, 0);
  assert_int_equal(ended, 0);
  assert_int_equal(cache_fixture_warnings(fixture), 0);
}

static void a_lock_is_held_by_one_until_its_process_dies(void **state) {
  cache_fixture_t *fixture = *state;
  cache_sample_t s = cache_sample(1), other = cache_sample(2);
  int ready[2];
  assert_int_equal(pipe(ready), 0);
  pid_t child = fork();
  if (!child) {
    bool held = kiln_disk_cache_lock(fixture->cache, &s.key, UINT64_MAX) >= 0;
    if (write(ready[1], held ? "y" : "n", 1) == 1) pause();
    _exit(1);
  }
  char answer;
  assert_int_equal(read(ready[0], &answer, 1), 1);
  assert_int_equal(answer, 'y');
  uint64_t begin_ns = kiln_clock_monotonic_ns();
  assert_int_equal(kiln_disk_cache_lock(fixture->cache, &s.key, begin_ns + 30000000), -1);
  assert_true(kiln_clock_monotonic_ns() - begin_ns >= 30000000);
  assert_int_equal(kiln_disk_cache_lock(fixture->cache, &s.key, 0), -1);
  int free_one = kiln_disk_cache_lock(fixture->cache, &other.key, 0);
  assert_true(free_one >= 0);
  kill(child, SIGKILL);
  assert_int_equal(waitpid(child, NULL, 0), child);
  int lock = kiln_disk_cache_lock(fixture->cache, &s.key, UINT64_MAX);
  assert_true(lock >= 0);
  kiln_disk_cache_unlock(lock);
  kiln_disk_cache_unlock(free_one);
  close(ready[0]);
  close(ready[1]);
}

static void a_lock_that_cannot_be_had_is_not_waited_for(void **state) {
  cache_fixture_t *fixture = *state;
  cache_sample_t s = cache_sample(1);
  char hex[65], path[512];
  kiln_digest_hex(&s.key, hex);
  snprintf(path, sizeof path, "%s/locks/%s", fixture->folder, hex);
  assert_int_equal(mkdir(path, 0700), 0);
  assert_int_equal(kiln_disk_cache_lock(fixture->cache, &s.key, UINT64_MAX), -1);
}

static void a_lock_file_that_the_sweeper_removed_excludes_nobody_wrongly(void **state) {
  cache_fixture_t *fixture = *state;
  cache_sample_t s = cache_sample(1);
  char hex[65], path[512];
  kiln_digest_hex(&s.key, hex);
  snprintf(path, sizeof path, "%s/locks/%s", fixture->folder, hex);
  int held = kiln_disk_cache_lock(fixture->cache, &s.key, 0);
  cache_sample_set_age(path, 7200);
  for (int i = 0; i < 16; i++) kiln_disk_cache_sweep(fixture->cache);
  assert_int_equal(access(path, F_OK), 0); /* held, however old */
  assert_int_equal(kiln_disk_cache_lock(fixture->cache, &s.key, 0), -1);
  kiln_disk_cache_unlock(held);
  kiln_disk_cache_t *later = cache_fixture_open(fixture, 0);
  for (int i = 0; i < 16; i++) kiln_disk_cache_sweep(later);
  assert_int_equal(access(path, F_OK), -1);
  held = kiln_disk_cache_lock(later, &s.key, 0);
  assert_true(held >= 0);
  assert_int_equal(kiln_disk_cache_lock(fixture->cache, &s.key, 0), -1);
  kiln_disk_cache_unlock(held);
  kiln_disk_cache_close(later);
}

/* --- the sweeper ------------------------------------------------------------------------------- */

static void the_sweeper_evicts_the_longest_unused_down_to_nine_tenths(void **state) {
  cache_fixture_t *fixture = *state;
  enum { ENTRIES = 400 };
  uint64_t limit_bytes = 200 * 8192;
  for (int i = 0; i < ENTRIES; i++) {
    assert_true(cache_sample_put(fixture->cache, i));
    char *path = cache_sample_path(fixture, i);
    cache_sample_set_age(path, (int64_t)i * 3600); /* entry i was used i hours ago */
    free(path);
  }
  kiln_disk_cache_t *small = cache_fixture_open(fixture, limit_bytes);
  uint64_t bytes = 0;
  for (int call = 0; call < 32; call++) bytes = kiln_disk_cache_sweep(small); /* one round: count, evict */
  assert_in_range(bytes, limit_bytes / 10 * 8, limit_bytes / 10 * 9);
  int newest_gone = ENTRIES, oldest_kept = 0;
  for (int i = ENTRIES - 1; i >= 0; i--) {
    char *path = cache_sample_path(fixture, i);
    bool there = !access(path, F_OK);
    free(path);
    if (!there) newest_gone = i;
    if (there && i > oldest_kept) oldest_kept = i;
  }
  /* Ages within a fifth of each other count as equal. */
  assert_true(oldest_kept > 100);
  assert_true(newest_gone * 5 >= oldest_kept * 4 - 5);
  assert_int_equal(kiln_disk_cache_sweep(small), bytes);
  kiln_disk_cache_close(small);
}

/* A fiftieth of what a long life may leave behind, then a limit that holds a few of them. The number of steps
 * is the same for any number of entries. */
static void two_thousand_entries_are_brought_below_a_new_limit_in_bounded_steps(void **state) {
  cache_fixture_t *fixture = *state;
  enum { ENTRIES = 2000 };
  for (int i = 0; i < ENTRIES; i++) assert_true(cache_sample_put(fixture->cache, i));
  kiln_disk_cache_t *small = cache_fixture_open(fixture, 1 << 20);
  uint64_t bytes = 0;
  for (int call = 0; call < 32; call++) bytes = kiln_disk_cache_sweep(small);
  assert_in_range(bytes, (1 << 20) / 10 * 8, (1 << 20) / 10 * 9);
  int kept = 0;
  for (int i = 0; i < ENTRIES; i++) {
    int there = cache_sample_look(small, i);
    assert_true(there >= 0);
    kept += there;
  }
  assert_in_range(kept, 100, 250);
  kiln_disk_cache_close(small);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, cache_fixture_set_up, cache_fixture_tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(two_daemons_that_write_and_evict_on_one_folder_are_both_right),
      TEST(a_lock_is_held_by_one_until_its_process_dies),
      TEST(a_lock_that_cannot_be_had_is_not_waited_for),
      TEST(a_lock_file_that_the_sweeper_removed_excludes_nobody_wrongly),
      TEST(the_sweeper_evicts_the_longest_unused_down_to_nine_tenths),
      TEST(two_thousand_entries_are_brought_below_a_new_limit_in_bounded_steps),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
