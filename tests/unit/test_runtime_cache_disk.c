/* tests/unit/test_runtime_cache_disk.c: the disk tier of the cache: what is stored is served whole or not at
 * all, whatever happens to the files, the writers and the disk. Deaths of writers happen in forked children.
 */
#include "tests/support/cache_fixture.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* --- files, as they are on the disk -------------------------------------------------------------------- */

static size_t read_file(const char *path, char *out, size_t capacity) {
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  size_t size = fread(out, 1, capacity, file);
  fclose(file);
  return size;
}

static void write_file(const char *path, const char *data, size_t size) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(data, 1, size, file), size);
  fclose(file);
}

/* Files below v1 whose names are no entries. */
static int count_leftovers(const cache_fixture_t *fixture) {
  char command[512], answer[32] = "";
  snprintf(command, sizeof command, "find '%s/v1' -type f -name '.tmp-*' | wc -l", fixture->folder);
  FILE *pipe = popen(command, "r");
  assert_non_null(pipe);
  assert_non_null(fgets(answer, sizeof answer, pipe));
  pclose(pipe);
  return atoi(answer);
}

/* --- plain use --------------------------------------------------------------------------------- */

static void what_was_put_is_got_by_another_daemon_on_the_folder(void **state) {
  cache_fixture_t *fixture = *state;
  kiln_disk_cache_t *other = cache_fixture_open(fixture, 0);
  for (int i = 0; i < 20; i++) assert_int_equal(cache_sample_look(other, i), 0);
  for (int i = 0; i < 20; i++) assert_true(cache_sample_put(fixture->cache, i));
  for (int i = 0; i < 20; i++) assert_int_equal(cache_sample_look(other, i), 1);
  cache_sample_t s = cache_sample(3);
  kiln_disk_cache_remove(other, &s.key);
  kiln_disk_cache_remove(other, &s.key);
  assert_int_equal(cache_sample_look(fixture->cache, 3), 0);
  assert_int_equal(cache_fixture_warnings(fixture), 0);
  assert_int_equal(count_leftovers(fixture), 0);
  kiln_disk_cache_close(other);
}

static void an_empty_content_and_an_empty_full_key_are_stored(void **state) {
  cache_fixture_t *fixture = *state;
  kiln_digest_t key = kiln_sha256("", 0);
  kiln_buffer_t out;
  kiln_buffer_init(&out);
  assert_true(kiln_disk_cache_put(fixture->cache, &key, NULL, 0, NULL, 0));
  assert_true(kiln_disk_cache_get(fixture->cache, &key, NULL, 0, &out));
  assert_int_equal(out.size, 0);
  assert_false(kiln_disk_cache_get(fixture->cache, &key, "x", 1, &out));
  kiln_buffer_deinit(&out);
}

static void the_same_entry_is_the_same_bytes(void **state) {
  cache_fixture_t *fixture = *state;
  char first[8192], second[8192];
  char *path = cache_sample_path(fixture, 5);
  assert_true(cache_sample_put(fixture->cache, 5));
  size_t first_bytes = read_file(path, first, sizeof first);
  assert_true(cache_sample_put(fixture->cache, 5));
  assert_int_equal(read_file(path, second, sizeof second), first_bytes);
  assert_memory_equal(first, second, first_bytes);
  free(path);
}

static void two_keys_with_one_hash_never_get_each_others_entry(void **state) {
  cache_fixture_t *fixture = *state;
  assert_true(kiln_faults_parse(&fixture->faults, "cache_short_hash:-1:0"));
  assert_true(cache_sample_put(fixture->cache, 1));
  assert_int_equal(cache_sample_look(fixture->cache, 1), 1);
  assert_int_equal(cache_sample_look(fixture->cache, 2), 0);
  assert_true(cache_sample_put(fixture->cache, 2));
  assert_int_equal(cache_sample_look(fixture->cache, 1), 0);
  assert_int_equal(cache_sample_look(fixture->cache, 2), 1);
  assert_int_equal(cache_fixture_warnings(fixture), 0);
}

static int64_t modified_s(const char *path) {
  struct stat status;
  assert_int_equal(stat(path, &status), 0);
  return status.st_mtime;
}

static void a_hit_renews_the_time_of_use_at_most_hourly(void **state) {
  cache_fixture_t *fixture = *state;
  char *path = cache_sample_path(fixture, 1);
  assert_true(cache_sample_put(fixture->cache, 1));
  cache_sample_set_age(path, 1800);
  int64_t before = modified_s(path);
  assert_int_equal(cache_sample_look(fixture->cache, 1), 1);
  assert_int_equal(modified_s(path), before);
  cache_sample_set_age(path, 3700);
  assert_int_equal(cache_sample_look(fixture->cache, 1), 1);
  assert_true(modified_s(path) >= before + 1700);
  free(path);
}

/* --- damage ------------------------------------------------------------------------------------ */

/* The damaged entry is a miss, told once, and replaced by the next put. */
static void expect_miss_then_replace(cache_fixture_t *fixture, int number) {
  assert_int_equal(cache_sample_look(fixture->cache, number), 0);
  assert_int_equal(cache_fixture_warnings(fixture), 1);
  assert_true(cache_sample_put(fixture->cache, number));
  assert_int_equal(cache_sample_look(fixture->cache, number), 1);
  assert_int_equal(cache_fixture_warnings(fixture), 0);
}

static void an_entry_cut_to_any_length_is_a_miss(void **state) {
  cache_fixture_t *fixture = *state;
  char whole[8192];
  char *path = cache_sample_path(fixture, 0);
  assert_true(cache_sample_put(fixture->cache, 0));
  size_t size = read_file(path, whole, sizeof whole);
  for (size_t cut = 0; cut < size; cut++) {
    write_file(path, whole, cut);
    expect_miss_then_replace(fixture, 0);
  }
  free(path);
}

static void an_entry_with_bytes_behind_it_is_a_miss(void **state) {
  cache_fixture_t *fixture = *state;
  char whole[8192];
  char *path = cache_sample_path(fixture, 0);
  assert_true(cache_sample_put(fixture->cache, 0));
  size_t size = read_file(path, whole, sizeof whole);
  whole[size] = 0;
  write_file(path, whole, size + 1);
  expect_miss_then_replace(fixture, 0);
  free(path);
}

static void an_entry_with_any_bit_flipped_is_a_miss(void **state) {
  cache_fixture_t *fixture = *state;
  char whole[8192];
  char *path = cache_sample_path(fixture, 0);
  assert_true(cache_sample_put(fixture->cache, 0));
  size_t size = read_file(path, whole, sizeof whole);
  for (size_t bit = 0; bit < size * 8; bit++) {
    whole[bit / 8] ^= (char)(1 << bit % 8);
    write_file(path, whole, size);
    whole[bit / 8] ^= (char)(1 << bit % 8);
    assert_int_equal(cache_sample_look(fixture->cache, 0), 0);
    assert_int_equal(cache_fixture_warnings(fixture), 1);
  }
  free(path);
}

static void an_entry_replaced_by_a_folder_is_a_miss(void **state) {
  cache_fixture_t *fixture = *state;
  char *path = cache_sample_path(fixture, 0);
  assert_true(cache_sample_put(fixture->cache, 0));
  assert_int_equal(unlink(path), 0);
  assert_int_equal(mkdir(path, 0700), 0);
  expect_miss_then_replace(fixture, 0);
  free(path);
}

static void a_folder_with_files_in_place_of_an_entry_is_moved_aside(void **state) {
  cache_fixture_t *fixture = *state;
  char *path = cache_sample_path(fixture, 0), inner[600];
  assert_true(cache_sample_put(fixture->cache, 0));
  assert_int_equal(unlink(path), 0);
  assert_int_equal(mkdir(path, 0700), 0);
  snprintf(inner, sizeof inner, "%s/file", path);
  write_file(inner, "x", 1);
  expect_miss_then_replace(fixture, 0);
  snprintf(inner, sizeof inner, "%s.damaged/file", path);
  assert_int_equal(access(inner, F_OK), 0);
  free(path);
}

static void an_entry_replaced_by_a_pipe_or_a_link_is_a_miss_that_waits_for_nobody(void **state) {
  cache_fixture_t *fixture = *state;
  char *path = cache_sample_path(fixture, 0), *other = cache_sample_path(fixture, 1);
  assert_true(cache_sample_put(fixture->cache, 0));
  assert_int_equal(unlink(path), 0);
  assert_int_equal(mkfifo(path, 0600), 0);
  expect_miss_then_replace(fixture, 0);
  assert_true(cache_sample_put(fixture->cache, 1));
  assert_int_equal(unlink(path), 0);
  assert_int_equal(symlink(other, path), 0);
  expect_miss_then_replace(fixture, 0);
  free(path);
  free(other);
}

static void an_unreadable_entry_is_a_miss(void **state) {
  cache_fixture_t *fixture = *state;
  if (!geteuid()) {
    print_message("root reads every file\n");
    skip();
  }
  char *path = cache_sample_path(fixture, 0);
  assert_true(cache_sample_put(fixture->cache, 0));
  assert_int_equal(chmod(path, 0), 0);
  expect_miss_then_replace(fixture, 0);
  free(path);
}

static void a_process_out_of_descriptors_throws_no_entry_away(void **state) {
  cache_fixture_t *fixture = *state;
  assert_true(cache_sample_put(fixture->cache, 0));
  pid_t child = fork();
  if (!child) {
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){0, 0});
    _exit(cache_sample_look(fixture->cache, 0) == 0 ? 0 : 1);
  }
  int ended;
  assert_int_equal(waitpid(child, &ended, 0), child);
  assert_int_equal(ended, 0);
  assert_int_equal(cache_sample_look(fixture->cache, 0), 1);
}

/* --- folders that cannot be used --------------------------------------------------------------- */

static void expect_no_cache(cache_fixture_t *fixture) {
  kiln_disk_cache_t *cache = cache_fixture_open(fixture, 0);
  assert_int_equal(cache_fixture_warnings(fixture), 1);
  assert_false(kiln_disk_cache_usable(cache));
  assert_false(cache_sample_put(cache, 1));
  assert_int_equal(cache_sample_look(cache, 1), 0);
  assert_int_equal(kiln_disk_cache_sweep(cache), 0);
  cache_sample_t s = cache_sample(1);
  kiln_disk_cache_remove(cache, &s.key);
  int lock = kiln_disk_cache_lock(cache, &s.key, UINT64_MAX);
  assert_int_equal(lock, -1);
  kiln_disk_cache_unlock(lock);
  assert_int_equal(cache_fixture_warnings(fixture), 0);
  kiln_disk_cache_close(cache);
}

static void a_folder_that_others_may_write_is_not_used(void **state) {
  cache_fixture_t *fixture = *state;
  assert_int_equal(chmod(fixture->folder, 0770), 0);
  expect_no_cache(fixture);
  assert_int_equal(chmod(fixture->folder, 0707), 0);
  expect_no_cache(fixture);
  assert_int_equal(chmod(fixture->folder, 0700), 0);
}

static void a_folder_that_cannot_be_made_is_one_warning(void **state) {
  cache_fixture_t *fixture = *state;
  char *good = fixture->folder, *path;
  assert_true(asprintf(&path, "%s/file", good) > 0);
  write_file(path, "", 0);
  fixture->folder = path;
  expect_no_cache(fixture);
  assert_true(asprintf(&fixture->folder, "%s/below", path) > 0);
  expect_no_cache(fixture);
  free(fixture->folder);
  fixture->folder = (char *)"";
  expect_no_cache(fixture);
  free(path);
  fixture->folder = good;
}

static void a_folder_deep_below_is_made(void **state) {
  cache_fixture_t *fixture = *state;
  char *good = fixture->folder;
  assert_true(asprintf(&fixture->folder, "%s/a/b//c/", good) > 0);
  kiln_disk_cache_t *cache = cache_fixture_open(fixture, 0);
  assert_true(kiln_disk_cache_usable(cache));
  assert_true(cache_sample_put(cache, 1));
  kiln_disk_cache_close(cache);
  free(fixture->folder);
  fixture->folder = good;
}

/* --- full disks -------------------------------------------------------------------------------- */

static void after_a_full_disk_nothing_is_written_for_a_while(void **state) {
  cache_fixture_t *fixture = *state;
  assert_true(cache_sample_put(fixture->cache, 1));
  assert_true(kiln_faults_parse(&fixture->faults, "cache_write_fails"));
  assert_false(cache_sample_put(fixture->cache, 2));
  assert_int_equal(cache_fixture_warnings(fixture), 1);
  assert_false(cache_sample_put(fixture->cache, 3)); /* the fault is spent: this is the pause */
  assert_int_equal(cache_fixture_warnings(fixture), 0);
  assert_int_equal(cache_sample_look(fixture->cache, 1), 1);
  assert_int_equal(cache_sample_look(fixture->cache, 2), 0);
  assert_int_equal(count_leftovers(fixture), 0);
}

/* A limit on the size of files cuts writes short as a full disk does. */
static void a_disk_that_fills_in_the_middle_of_an_entry_leaves_nothing(void **state) {
  cache_fixture_t *fixture = *state;
  pid_t child = fork();
  if (!child) {
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){1000, 1000});
    _exit(cache_sample_put(fixture->cache, 0) && !cache_sample_put(fixture->cache, 100)
              ? 0
              : 1); /* 40 bytes and 3740 bytes of content */
  }
  int ended;
  assert_int_equal(waitpid(child, &ended, 0), child);
  assert_int_equal(ended, 0);
  assert_int_equal(cache_sample_look(fixture->cache, 0), 1);
  assert_int_equal(cache_sample_look(fixture->cache, 100), 0);
  assert_int_equal(count_leftovers(fixture), 0);
}

/* --- writers that die -------------------------------------------------------------------------- */

static void a_writer_that_dies_in_the_middle_leaves_only_what_the_sweeper_takes(void **state) {
  cache_fixture_t *fixture = *state;
  assert_true(cache_sample_put(fixture->cache, 1));
  assert_true(kiln_faults_parse(&fixture->faults, "cache_write_dies"));
  pid_t child = fork();
  if (!child) {
    cache_sample_put(fixture->cache, 2);
    _exit(0);
  }
  int ended;
  assert_int_equal(waitpid(child, &ended, 0), child);
  assert_true(WIFSIGNALED(ended) && WTERMSIG(ended) == SIGKILL);
  assert_int_equal(cache_sample_look(fixture->cache, 1), 1);
  assert_int_equal(cache_sample_look(fixture->cache, 2), 0);
  assert_int_equal(count_leftovers(fixture), 1);
  for (int i = 0; i < 16; i++) kiln_disk_cache_sweep(fixture->cache);
  assert_int_equal(count_leftovers(fixture), 1); /* young: its writer may be alive */
  char command[512];
  snprintf(command, sizeof command, "find '%s/v1' -name '.tmp-*' -exec touch -d '2 hours ago' {} +",
           fixture->folder);
  assert_int_equal(system(command), 0);
  kiln_disk_cache_t *later = cache_fixture_open(fixture, 0);
  for (int i = 0; i < 16; i++) kiln_disk_cache_sweep(later);
  assert_int_equal(count_leftovers(fixture), 0);
  assert_int_equal(cache_sample_look(later, 1), 1);
  kiln_disk_cache_close(later);
}

static void writers_killed_at_any_moment_leave_only_whole_entries(void **state) {
  cache_fixture_t *fixture = *state;
  enum { ROUNDS = 200, ENTRIES = 8 };
  int found = 0;
  for (int round = 0; round < ROUNDS; round++) {
    pid_t child = fork();
    if (!child) {
      for (int i = 0;; i++) cache_sample_put(fixture->cache, i % ENTRIES);
    }
    usleep((useconds_t)(round * 53 % 4000));
    kill(child, SIGKILL);
    int ended;
    assert_int_equal(waitpid(child, &ended, 0), child);
    for (int i = 0; i < ENTRIES; i++) {
      int there = cache_sample_look(fixture->cache, i);
      assert_true(there >= 0);
      found += there;
    }
  }
  assert_true(found > ROUNDS); /* the children did write */
  assert_int_equal(cache_fixture_warnings(fixture), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, cache_fixture_set_up, cache_fixture_tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(what_was_put_is_got_by_another_daemon_on_the_folder),
      TEST(an_empty_content_and_an_empty_full_key_are_stored),
      TEST(the_same_entry_is_the_same_bytes),
      TEST(two_keys_with_one_hash_never_get_each_others_entry),
      TEST(a_hit_renews_the_time_of_use_at_most_hourly),
      TEST(an_entry_cut_to_any_length_is_a_miss),
      TEST(an_entry_with_bytes_behind_it_is_a_miss),
      TEST(an_entry_with_any_bit_flipped_is_a_miss),
      TEST(an_entry_replaced_by_a_folder_is_a_miss),
      TEST(a_folder_with_files_in_place_of_an_entry_is_moved_aside),
      TEST(an_entry_replaced_by_a_pipe_or_a_link_is_a_miss_that_waits_for_nobody),
      TEST(an_unreadable_entry_is_a_miss),
      TEST(a_process_out_of_descriptors_throws_no_entry_away),
      TEST(a_folder_that_others_may_write_is_not_used),
      TEST(a_folder_that_cannot_be_made_is_one_warning),
      TEST(a_folder_deep_below_is_made),
      TEST(after_a_full_disk_nothing_is_written_for_a_while),
      TEST(a_disk_that_fills_in_the_middle_of_an_entry_leaves_nothing),
      TEST(a_writer_that_dies_in_the_middle_leaves_only_what_the_sweeper_takes),
      TEST(writers_killed_at_any_moment_leave_only_whole_entries),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
