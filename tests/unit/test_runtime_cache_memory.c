/* tests/unit/test_runtime_cache_memory.c: the memory tier of the cache. */
#include "runtime/cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* An entry knows how often it was destroyed. */
typedef struct {
  int destroyed;
} entry_t;

static void destroy_entry(void *entry) { ((entry_t *)entry)->destroyed++; }

static kiln_digest_t key_of(const char *name) { return kiln_sha256(name, strlen(name)); }

static void put(kiln_memory_cache_t *cache, const char *name, entry_t *entry, uint64_t bytes) {
  kiln_digest_t key = key_of(name);
  assert_null(kiln_memory_cache_put(cache, &key, name, strlen(name), entry, bytes));
}

static entry_t *get(kiln_memory_cache_t *cache, const char *name) {
  kiln_digest_t key = key_of(name);
  return kiln_memory_cache_get(cache, &key, name, strlen(name));
}

static void the_least_recently_used_entry_goes_first(void **state) {
  (void)state;
  entry_t entries[4] = {0};
  kiln_memory_cache_t *cache = kiln_memory_cache_create(4000000, destroy_entry);
  put(cache, "a", &entries[0], 1000000);
  put(cache, "b", &entries[1], 1000000);
  put(cache, "c", &entries[2], 1000000);
  assert_ptr_equal(get(cache, "a"), &entries[0]);
  put(cache, "d", &entries[3], 1000000); /* four and their overhead are more than the limit */
  assert_null(get(cache, "b"));
  assert_int_equal(entries[1].destroyed, 1);
  assert_ptr_equal(get(cache, "a"), &entries[0]);
  assert_ptr_equal(get(cache, "c"), &entries[2]);
  assert_ptr_equal(get(cache, "d"), &entries[3]);
  assert_int_equal(kiln_memory_cache_count(cache), 3);
  assert_true(kiln_memory_cache_bytes(cache) >= 3000000 && kiln_memory_cache_bytes(cache) <= 4000000);
  kiln_memory_cache_destroy(cache);
  for (int i = 0; i < 4; i++) assert_int_equal(entries[i].destroyed, 1);
}

static void a_new_entry_stays_though_it_is_larger_than_the_limit(void **state) {
  (void)state;
  entry_t small = {0}, large = {0};
  kiln_memory_cache_t *cache = kiln_memory_cache_create(1000, destroy_entry);
  put(cache, "small", &small, 10);
  put(cache, "large", &large, 1000000);
  assert_int_equal(small.destroyed, 1);
  assert_ptr_equal(get(cache, "large"), &large);
  kiln_memory_cache_destroy(cache);
}

static void one_hash_with_another_full_key_is_a_miss(void **state) {
  (void)state;
  entry_t entry = {0};
  kiln_memory_cache_t *cache = kiln_memory_cache_create(1000, destroy_entry);
  put(cache, "name", &entry, 1);
  kiln_digest_t key = key_of("name");
  assert_null(kiln_memory_cache_get(cache, &key, "game", 4));
  assert_null(kiln_memory_cache_get(cache, &key, "nam", 3));
  assert_null(kiln_memory_cache_get(cache, &key, NULL, 0));
  assert_ptr_equal(kiln_memory_cache_get(cache, &key, "name", 4), &entry);
  kiln_memory_cache_destroy(cache);
}

static void putting_a_key_again_replaces_its_entry(void **state) {
  (void)state;
  entry_t first = {0}, second = {0};
  kiln_memory_cache_t *cache = kiln_memory_cache_create(100000, destroy_entry);
  put(cache, "x", &first, 10);
  uint64_t bytes = kiln_memory_cache_bytes(cache);
  put(cache, "x", &second, 10);
  assert_int_equal(first.destroyed, 1);
  assert_ptr_equal(get(cache, "x"), &second);
  assert_int_equal(kiln_memory_cache_bytes(cache), bytes);
  kiln_digest_t key = key_of("x");
  kiln_memory_cache_evict(cache, &key);
  kiln_memory_cache_evict(cache, &key);
  assert_int_equal(second.destroyed, 1);
  assert_int_equal(kiln_memory_cache_bytes(cache), 0);
  assert_int_equal(kiln_memory_cache_count(cache), 0);
  kiln_memory_cache_destroy(cache);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_least_recently_used_entry_goes_first),
      cmocka_unit_test(a_new_entry_stays_though_it_is_larger_than_the_limit),
      cmocka_unit_test(one_hash_with_another_full_key_is_a_miss),
      cmocka_unit_test(putting_a_key_again_replaces_its_entry),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
