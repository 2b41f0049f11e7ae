/* tests/unit/test_runtime_cache_disk.c: the disk tier of the cache: what is stored is served whole or not at
 * all, whatever happens to the files, the writers and the disk. Deaths of writers happen in forked children.
 */
#include "base/clock.h"
#include "runtime/cache.h"
#include "tests/support/folder.h"

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

/* --- a cache on a folder of its own, with its warnings in a pipe ------------------------------- */

typedef struct {
  char *folder;
  int warnings; /* end of the pipe to read */
  kiln_log_t log;
  kiln_faults_t faults;
  kiln_disk_cache_t *cache;
} fixture_t;

static kiln_disk_cache_t *open_cache(fixture_t *fixture, uint64_t limit_bytes) {
  kiln_disk_cache_options_t options = {fixture->folder, limit_bytes, &fixture->faults, &fixture->log};
  kiln_disk_cache_t *cache = NULL;
  assert_null(kiln_disk_cache_open(&options, &cache));
  return cache;
}

static int set_up(void **state) {
  fixture_t *fixture = calloc(1, sizeof *fixture);
  int ends[2];
  if (!fixture || pipe2(ends, O_NONBLOCK | O_CLOEXEC)) return -1;
  fixture->folder = kiln_test_folder_create();
  fixture->warnings = ends[0];
  fixture->log = (kiln_log_t){ends[1], KILN_LOG_WARNING, false, "test"};
  fixture->cache = open_cache(fixture, 0);
  *state = fixture;
  return 0;
}

static int tear_down(void **state) {
  fixture_t *fixture = *state;
  kiln_disk_cache_close(fixture->cache);
  close(fixture->warnings);
  close(fixture->log.descriptor);
  kiln_test_folder_remove(fixture->folder);
  free(fixture);
  return 0;
}

static int count_warnings(const fixture_t *fixture) {
  int lines = 0;
  char text[4096];
  ssize_t got;
  while ((got = read(fixture->warnings, text, sizeof text)) > 0) {
    for (ssize_t i = 0; i < got; i++) lines += text[i] == '\n';
  }
  return lines;
}

/* Entry `number`: its key, its full key and a content that follow from the number. */
typedef struct {
  kiln_digest_t key;
  char full_key[32];
  char content[6000];
  size_t content_bytes;
} sample_t;

static sample_t sample(int number) {
  sample_t sample = {.content_bytes = 40 + (size_t)(number * 37 % 5900)};
  snprintf(sample.full_key, sizeof sample.full_key, "full key of %d", number);
  sample.key = kiln_sha256(sample.full_key, strlen(sample.full_key));
  for (size_t i = 0; i < sample.content_bytes; i++) sample.content[i] = (char)(number + (int)i);
  return sample;
}

static bool put(kiln_disk_cache_t *cache, int number) {
  sample_t s = sample(number);
  return kiln_disk_cache_put(cache, &s.key, s.full_key, strlen(s.full_key), s.content, s.content_bytes);
}

/* 1: there, with the right content; 0: not there; -1: there and wrong. */
static int look(kiln_disk_cache_t *cache, int number) {
  sample_t s = sample(number);
  kiln_buffer_t out;
  kiln_buffer_init(&out);
  int result = 0;
  if (kiln_disk_cache_get(cache, &s.key, s.full_key, strlen(s.full_key), &out)) {
    result = out.size == s.content_bytes && !memcmp(out.data, s.content, out.size) ? 1 : -1;
  }
  kiln_buffer_deinit(&out);
  return result;
}

static char *path_of(const fixture_t *fixture, int number) {
  sample_t s = sample(number);
  char hex[65], *path = NULL;
  kiln_digest_hex(&s.key, hex);
  assert_true(asprintf(&path, "%s/v1/%.2s/%s", fixture->folder, hex, hex) > 0);
  return path;
}

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
static int count_leftovers(const fixture_t *fixture) {
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
  fixture_t *fixture = *state;
  kiln_disk_cache_t *other = open_cache(fixture, 0);
  for (int i = 0; i < 20; i++) assert_int_equal(look(other, i), 0);
  for (int i = 0; i < 20; i++) assert_true(put(fixture->cache, i));
  for (int i = 0; i < 20; i++) assert_int_equal(look(other, i), 1);
  sample_t s = sample(3);
  kiln_disk_cache_remove(other, &s.key);
  kiln_disk_cache_remove(other, &s.key);
  assert_int_equal(look(fixture->cache, 3), 0);
  assert_int_equal(count_warnings(fixture), 0);
  assert_int_equal(count_leftovers(fixture), 0);
  kiln_disk_cache_close(other);
}

static void an_empty_content_and_an_empty_full_key_are_stored(void **state) {
  fixture_t *fixture = *state;
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
  fixture_t *fixture = *state;
  char first[8192], second[8192];
  char *path = path_of(fixture, 5);
  assert_true(put(fixture->cache, 5));
  size_t first_bytes = read_file(path, first, sizeof first);
  assert_true(put(fixture->cache, 5));
  assert_int_equal(read_file(path, second, sizeof second), first_bytes);
  assert_memory_equal(first, second, first_bytes);
  free(path);
}

static void two_keys_with_one_hash_never_get_each_others_entry(void **state) {
  fixture_t *fixture = *state;
  assert_true(kiln_faults_parse(&fixture->faults, "cache_short_hash:-1:0"));
  assert_true(put(fixture->cache, 1));
  assert_int_equal(look(fixture->cache, 1), 1);
  assert_int_equal(look(fixture->cache, 2), 0);
  assert_true(put(fixture->cache, 2));
  assert_int_equal(look(fixture->cache, 1), 0);
  assert_int_equal(look(fixture->cache, 2), 1);
  assert_int_equal(count_warnings(fixture), 0);
}

static int64_t modified_s(const char *path) {
  struct stat status;
  assert_int_equal(stat(path, &status), 0);
  return status.st_mtime;
}

static void set_age(const char *path, int64_t age_s) {
  int64_t then = (int64_t)(kiln_clock_wall_ms() / 1000) - age_s;
  const struct timespec times[2] = {{.tv_sec = then}, {.tv_sec = then}};
  assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void a_hit_renews_the_time_of_use_at_most_hourly(void **state) {
  fixture_t *fixture = *state;
  char *path = path_of(fixture, 1);
  assert_true(put(fixture->cache, 1));
  set_age(path, 1800);
  int64_t before = modified_s(path);
  assert_int_equal(look(fixture->cache, 1), 1);
  assert_int_equal(modified_s(path), before);
  set_age(path, 3700);
  assert_int_equal(look(fixture->cache, 1), 1);
  assert_true(modified_s(path) >= before + 1700);
  free(path);
}

/* --- damage ------------------------------------------------------------------------------------ */

/* The damaged entry is a miss, told once, and replaced by the next put. */
static void expect_miss_then_replace(fixture_t *fixture, int number) {
  assert_int_equal(look(fixture->cache, number), 0);
  assert_int_equal(count_warnings(fixture), 1);
  assert_true(put(fixture->cache, number));
  assert_int_equal(look(fixture->cache, number), 1);
  assert_int_equal(count_warnings(fixture), 0);
}

static void an_entry_cut_to_any_length_is_a_miss(void **state) {
  fixture_t *fixture = *state;
  char whole[8192];
  char *path = path_of(fixture, 0);
  assert_true(put(fixture->cache, 0));
  size_t size = read_file(path, whole, sizeof whole);
  for (size_t cut = 0; cut < size; cut++) {
    write_file(path, whole, cut);
    expect_miss_then_replace(fixture, 0);
  }
  free(path);
}

static void an_entry_with_bytes_behind_it_is_a_miss(void **state) {
  fixture_t *fixture = *state;
  char whole[8192];
  char *path = path_of(fixture, 0);
  assert_true(put(fixture->cache, 0));
  size_t size = read_file(path, whole, sizeof whole);
  whole[size] = 0;
  write_file(path, whole, size + 1);
  expect_miss_then_replace(fixture, 0);
  free(path);
}

static void an_entry_with_any_bit_flipped_is_a_miss(void **state) {
  fixture_t *fixture = *state;
  char whole[8192];
  char *path = path_of(fixture, 0);
  assert_true(put(fixture->cache, 0));
  size_t size = read_file(path, whole, sizeof whole);
  for (size_t bit = 0; bit < size * 8; bit++) {
    whole[bit / 8] ^= (char)(1 << bit % 8);
    write_file(path, whole, size);
    whole[bit / 8] ^= (char)(1 << bit % 8);
    assert_int_equal(look(fixture->cache, 0), 0);
    assert_int_equal(count_warnings(fixture), 1);
  }
  free(path);
}

static void an_entry_replaced_by_a_folder_is_a_miss(void **state) {
  fixture_t *fixture = *state;
  char *path = path_of(fixture, 0);
  assert_true(put(fixture->cache, 0));
  assert_int_equal(unlink(path), 0);
  assert_int_equal(mkdir(path, 0700), 0);
  expect_miss_then_replace(fixture, 0);
  free(path);
}

static void a_folder_with_files_in_place_of_an_entry_is_moved_aside(void **state) {
  fixture_t *fixture = *state;
  char *path = path_of(fixture, 0), inner[600];
  assert_true(put(fixture->cache, 0));
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
  fixture_t *fixture = *state;
  char *path = path_of(fixture, 0), *other = path_of(fixture, 1);
  assert_true(put(fixture->cache, 0));
  assert_int_equal(unlink(path), 0);
  assert_int_equal(mkfifo(path, 0600), 0);
  expect_miss_then_replace(fixture, 0);
  assert_true(put(fixture->cache, 1));
  assert_int_equal(unlink(path), 0);
  assert_int_equal(symlink(other, path), 0);
  expect_miss_then_replace(fixture, 0);
  free(path);
  free(other);
}

static void an_unreadable_entry_is_a_miss(void **state) {
  fixture_t *fixture = *state;
  if (!geteuid()) {
    print_message("root reads every file\n");
    skip();
  }
  char *path = path_of(fixture, 0);
  assert_true(put(fixture->cache, 0));
  assert_int_equal(chmod(path, 0), 0);
  expect_miss_then_replace(fixture, 0);
  free(path);
}

static void a_process_out_of_descriptors_throws_no_entry_away(void **state) {
  fixture_t *fixture = *state;
  assert_true(put(fixture->cache, 0));
  pid_t child = fork();
  if (!child) {
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){0, 0});
    _exit(look(fixture->cache, 0) == 0 ? 0 : 1);
  }
  int ended;
  assert_int_equal(waitpid(child, &ended, 0), child);
  assert_int_equal(ended, 0);
  assert_int_equal(look(fixture->cache, 0), 1);
}

/* --- folders that cannot be used --------------------------------------------------------------- */

static void expect_no_cache(fixture_t *fixture) {
  kiln_disk_cache_t *cache = open_cache(fixture, 0);
  assert_int_equal(count_warnings(fixture), 1);
  assert_false(kiln_disk_cache_usable(cache));
  assert_false(put(cache, 1));
  assert_int_equal(look(cache, 1), 0);
  assert_int_equal(kiln_disk_cache_sweep(cache), 0);
  sample_t s = sample(1);
  kiln_disk_cache_remove(cache, &s.key);
  int lock = kiln_disk_cache_lock(cache, &s.key, UINT64_MAX);
  assert_int_equal(lock, -1);
  kiln_disk_cache_unlock(lock);
  assert_int_equal(count_warnings(fixture), 0);
  kiln_disk_cache_close(cache);
}

static void a_folder_that_others_may_write_is_not_used(void **state) {
  fixture_t *fixture = *state;
  assert_int_equal(chmod(fixture->folder, 0770), 0);
  expect_no_cache(fixture);
  assert_int_equal(chmod(fixture->folder, 0707), 0);
  expect_no_cache(fixture);
  assert_int_equal(chmod(fixture->folder, 0700), 0);
}

static void a_folder_that_cannot_be_made_is_one_warning(void **state) {
  fixture_t *fixture = *state;
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
  fixture_t *fixture = *state;
  char *good = fixture->folder;
  assert_true(asprintf(&fixture->folder, "%s/a/b//c/", good) > 0);
  kiln_disk_cache_t *cache = open_cache(fixture, 0);
  assert_true(kiln_disk_cache_usable(cache));
  assert_true(put(cache, 1));
  kiln_disk_cache_close(cache);
  free(fixture->folder);
  fixture->folder = good;
}

/* --- full disks -------------------------------------------------------------------------------- */

static void after_a_full_disk_nothing_is_written_for_a_while(void **state) {
  fixture_t *fixture = *state;
  assert_true(put(fixture->cache, 1));
  assert_true(kiln_faults_parse(&fixture->faults, "cache_write_fails"));
  assert_false(put(fixture->cache, 2));
  assert_int_equal(count_warnings(fixture), 1);
  assert_false(put(fixture->cache, 3)); /* the fault is spent: this is the pause */
  assert_int_equal(count_warnings(fixture), 0);
  assert_int_equal(look(fixture->cache, 1), 1);
  assert_int_equal(look(fixture->cache, 2), 0);
  assert_int_equal(count_leftovers(fixture), 0);
}

/* A limit on the size of files cuts writes short as a full disk does. */
static void a_disk_that_fills_in_the_middle_of_an_entry_leaves_nothing(void **state) {
  fixture_t *fixture = *state;
  pid_t child = fork();
  if (!child) {
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){1000, 1000});
    _exit(put(fixture->cache, 0) && !put(fixture->cache, 100) ? 0
                                                              : 1); /* 40 bytes and 3740 bytes of content */
  }
  int ended;
  assert_int_equal(waitpid(child, &ended, 0), child);
  assert_int_equal(ended, 0);
  assert_int_equal(look(fixture->cache, 0), 1);
  assert_int_equal(look(fixture->cache, 100), 0);
  assert_int_equal(count_leftovers(fixture), 0);
}

/* --- writers that die -------------------------------------------------------------------------- */

static void a_writer_that_dies_in_the_middle_leaves_only_what_the_sweeper_takes(void **state) {
  fixture_t *fixture = *state;
  assert_true(put(fixture->cache, 1));
  assert_true(kiln_faults_parse(&fixture->faults, "cache_write_dies"));
  pid_t child = fork();
  if (!child) {
    put(fixture->cache, 2);
    _exit(0);
  }
  int ended;
  assert_int_equal(waitpid(child, &ended, 0), child);
  assert_true(WIFSIGNALED(ended) && WTERMSIG(ended) == SIGKILL);
  assert_int_equal(look(fixture->cache, 1), 1);
  assert_int_equal(look(fixture->cache, 2), 0);
  assert_int_equal(count_leftovers(fixture), 1);
  for (int i = 0; i < 16; i++) kiln_disk_cache_sweep(fixture->cache);
  assert_int_equal(count_leftovers(fixture), 1); /* young: its writer may be alive */
  char command[512];
  snprintf(command, sizeof command, "find '%s/v1' -name '.tmp-*' -exec touch -d '2 hours ago' {} +",
           fixture->folder);
  assert_int_equal(system(command), 0);
  kiln_disk_cache_t *later = open_cache(fixture, 0);
  for (int i = 0; i < 16; i++) kiln_disk_cache_sweep(later);
  assert_int_equal(count_leftovers(fixture), 0);
  assert_int_equal(look(later, 1), 1);
  kiln_disk_cache_close(later);
}

static void writers_killed_at_any_moment_leave_only_whole_entries(void **state) {
  fixture_t *fixture = *state;
  enum { ROUNDS = 200, ENTRIES = 8 };
  int found = 0;
  for (int round = 0; round < ROUNDS; round++) {
    pid_t child = fork();
    if (!child) {
      for (int i = 0;; i++) put(fixture->cache, i % ENTRIES);
    }
    usleep((useconds_t)(round * 53 % 4000));
    kill(child, SIGKILL);
    int ended;
    assert_int_equal(waitpid(child, &ended, 0), child);
    for (int i = 0; i < ENTRIES; i++) {
      int there = look(fixture->cache, i);
      assert_true(there >= 0);
      found += there;
    }
  }
  assert_true(found > ROUNDS); /* the children did write */
  assert_int_equal(count_warnings(fixture), 0);
}

/* --- several processes ------------------------------------------------------------------------- */

/* Puts, gets and evicts; 0 when every entry that was there was right. */
static int use_hard(fixture_t *fixture, int seed) {
  kiln_disk_cache_t *cache = open_cache(fixture, 100 * 1024);
  int wrong = 0;
  for (int i = 0; i < 600; i++) {
    int number = (i * 7 + seed * 13) % 64;
    if (i % 3 == seed % 3) put(cache, number);
    wrong += look(cache, number) < 0;
    kiln_disk_cache_sweep(cache);
  }
  kiln_disk_cache_close(cache);
  return wrong;
}

static void two_daemons_that_write_and_evict_on_one_folder_are_both_right(void **state) {
  fixture_t *fixture = *state;
  pid_t child = fork();
  if (!child) _exit(use_hard(fixture, 1) ? 1 : 0);
  int wrong = use_hard(fixture, 0), ended;
  assert_int_equal(waitpid(child, &ended, 0), child);
  assert_int_equal(wrong, 0);
  assert_int_equal(ended, 0);
  assert_int_equal(count_warnings(fixture), 0);
}

static void a_lock_is_held_by_one_until_its_process_dies(void **state) {
  fixture_t *fixture = *state;
  sample_t s = sample(1), other = sample(2);
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
  fixture_t *fixture = *state;
  sample_t s = sample(1);
  char hex[65], path[512];
  kiln_digest_hex(&s.key, hex);
  snprintf(path, sizeof path, "%s/locks/%s", fixture->folder, hex);
  assert_int_equal(mkdir(path, 0700), 0);
  assert_int_equal(kiln_disk_cache_lock(fixture->cache, &s.key, UINT64_MAX), -1);
}

static void a_lock_file_that_the_sweeper_removed_excludes_nobody_wrongly(void **state) {
  fixture_t *fixture = *state;
  sample_t s = sample(1);
  char hex[65], path[512];
  kiln_digest_hex(&s.key, hex);
  snprintf(path, sizeof path, "%s/locks/%s", fixture->folder, hex);
  int held = kiln_disk_cache_lock(fixture->cache, &s.key, 0);
  set_age(path, 7200);
  for (int i = 0; i < 16; i++) kiln_disk_cache_sweep(fixture->cache);
  assert_int_equal(access(path, F_OK), 0); /* held, however old */
  assert_int_equal(kiln_disk_cache_lock(fixture->cache, &s.key, 0), -1);
  kiln_disk_cache_unlock(held);
  kiln_disk_cache_t *later = open_cache(fixture, 0);
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
  fixture_t *fixture = *state;
  enum { ENTRIES = 400 };
  uint64_t limit_bytes = 200 * 8192;
  for (int i = 0; i < ENTRIES; i++) {
    assert_true(put(fixture->cache, i));
    char *path = path_of(fixture, i);
    set_age(path, (int64_t)i * 3600); /* entry i was used i hours ago */
    free(path);
  }
  kiln_disk_cache_t *small = open_cache(fixture, limit_bytes);
  uint64_t bytes = 0;
  for (int call = 0; call < 32; call++) bytes = kiln_disk_cache_sweep(small); /* one round: count, evict */
  assert_in_range(bytes, limit_bytes / 10 * 8, limit_bytes / 10 * 9);
  int newest_gone = ENTRIES, oldest_kept = 0;
  for (int i = ENTRIES - 1; i >= 0; i--) {
    char *path = path_of(fixture, i);
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
  fixture_t *fixture = *state;
  enum { ENTRIES = 2000 };
  for (int i = 0; i < ENTRIES; i++) assert_true(put(fixture->cache, i));
  kiln_disk_cache_t *small = open_cache(fixture, 1 << 20);
  uint64_t bytes = 0;
  for (int call = 0; call < 32; call++) bytes = kiln_disk_cache_sweep(small);
  assert_in_range(bytes, (1 << 20) / 10 * 8, (1 << 20) / 10 * 9);
  int kept = 0;
  for (int i = 0; i < ENTRIES; i++) {
    int there = look(small, i);
    assert_true(there >= 0);
    kept += there;
  }
  assert_in_range(kept, 100, 250);
  kiln_disk_cache_close(small);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

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
      TEST(two_daemons_that_write_and_evict_on_one_folder_are_both_right),
      TEST(a_lock_is_held_by_one_until_its_process_dies),
      TEST(a_lock_that_cannot_be_had_is_not_waited_for),
      TEST(a_lock_file_that_the_sweeper_removed_excludes_nobody_wrongly),
      TEST(the_sweeper_evicts_the_longest_unused_down_to_nine_tenths),
      TEST(two_thousand_entries_are_brought_below_a_new_limit_in_bounded_steps),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
