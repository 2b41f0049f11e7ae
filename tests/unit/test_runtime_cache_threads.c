/* tests/unit/test_runtime_cache_threads.c: one disk cache used by several threads, as by libuv's pool.
 * Labels: tsan */
#include "runtime/cache.h"
#include "tests/support/folder.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { THREADS = 4, ROUNDS = 300, KEYS = 16 };

typedef struct {
  kiln_disk_cache_t *cache;
  atomic_int wrong, hits;
  atomic_int in_critical_section;
} shared_t;

static void use_once(shared_t *shared, int number) {
  char full_key[32];
  snprintf(full_key, sizeof full_key, "key %d", number);
  kiln_digest_t key = kiln_sha256(full_key, strlen(full_key));
  kiln_buffer_t out;
  kiln_buffer_init(&out);
  if (kiln_disk_cache_get(shared->cache, &key, full_key, strlen(full_key), &out)) {
    shared->hits++;
    if (strcmp(kiln_buffer_text(&out), full_key) != 0) shared->wrong++;
  } else {
    kiln_disk_cache_put(shared->cache, &key, full_key, strlen(full_key), full_key, strlen(full_key));
  }
  if (number % 4 == 0) kiln_disk_cache_remove(shared->cache, &key);
  kiln_buffer_deinit(&out);
}

static void *use(void *argument) {
  shared_t *shared = argument;
  for (int i = 0; i < ROUNDS; i++) {
    use_once(shared, i % KEYS);
    kiln_disk_cache_sweep(shared->cache);
  }
  return NULL;
}

static void *count_under_lock(void *argument) {
  shared_t *shared = argument;
  kiln_digest_t key = kiln_sha256("lock", 4);
  for (int i = 0; i < 50; i++) {
    int lock = kiln_disk_cache_lock(shared->cache, &key, UINT64_MAX);
    if (shared->in_critical_section++) shared->wrong++;
    shared->in_critical_section--;
    kiln_disk_cache_unlock(lock);
  }
  return NULL;
}

static void run_in_threads(void *(*function)(void *), shared_t *shared) {
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, function, shared), 0);
  for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
}

static void run(void *(*function)(void *), shared_t *shared) {
  char *folder = kiln_test_folder_create();
  kiln_disk_cache_options_t options = {.folder = folder, .limit_bytes = 8 * 4096};
  assert_null(kiln_disk_cache_open(&options, &shared->cache));
  run_in_threads(function, shared);
  kiln_disk_cache_close(shared->cache);
  kiln_test_folder_remove(folder);
}

static void threads_that_get_put_remove_and_evict_see_only_whole_entries(void **state) {
  (void)state;
  shared_t shared = {0};
  run(use, &shared);
  assert_int_equal(shared.wrong, 0);
  assert_true(shared.hits > 0);
}

static void a_lock_keeps_threads_apart_as_it_does_processes(void **state) {
  (void)state;
  shared_t shared = {0};
  run(count_under_lock, &shared);
  assert_int_equal(shared.wrong, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(threads_that_get_put_remove_and_evict_see_only_whole_entries),
      cmocka_unit_test(a_lock_keeps_threads_apart_as_it_does_processes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
