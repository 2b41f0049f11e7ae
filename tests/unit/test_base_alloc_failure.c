/* tests/unit/test_base_alloc_failure.c: every allocation of base/ fails once, one after the other.
 *
 * The sources are compiled in here with their allocation functions replaced by ones that count down; the
 * linker then has no need of the library's copies. Each scenario is repeated with the first, second, third
 * ... allocation failing until it runs through without a failure; the sanitizers see that nothing leaks on
 * the way.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static long allocations_until_failure; /* 0: the countdown has struck, or is off */

static bool fails_now(void) { return allocations_until_failure && !--allocations_until_failure; }
static void *failing_malloc(size_t size) { return fails_now() ? NULL : malloc(size); }
static void *failing_calloc(size_t count, size_t size) { return fails_now() ? NULL : calloc(count, size); }
static void *failing_realloc(void *memory, size_t size) { return fails_now() ? NULL : realloc(memory, size); }

#define malloc failing_malloc
#define calloc failing_calloc
#define realloc failing_realloc
#include "base/arena.c"
#include "base/buffer.c"
#include "base/map.c"
#include "base/status.c"
#undef malloc
#undef calloc
#undef realloc

/* Runs the scenario with each allocation failing in turn; returns how many failures there were. */
static int fail_each(void (*scenario)(void)) {
  for (long nth = 1;; nth++) {
    allocations_until_failure = nth;
    scenario();
    bool struck = !allocations_until_failure;
    allocations_until_failure = 0;
    if (!struck) return (int)nth - 1;
  }
}

static void make_status(void) {
  kiln_status_t status = kiln_error_errno(KILN_NOT_FOUND, 2, "cannot open '%s'", "x");
  assert_non_null(status);
  kiln_code_t code = kiln_status_code(status);
  assert_true(code == KILN_NOT_FOUND || code == KILN_OUT_OF_MEMORY);
  status = kiln_error_note(status, "reading %d", 1);
  status = kiln_error_detail(status, "field", "%d", 2);
  status = kiln_error_detail(status, "field", "%d", 3);
  assert_int_equal(kiln_status_code(status), code);
  assert_non_null(
      strstr(kiln_status_message(status), code == KILN_NOT_FOUND ? "cannot open 'x'" : "out of memory"));
  kiln_status_free(status);
}

static void a_status_survives_each_failed_allocation(void **state) {
  (void)state;
  assert_int_equal(fail_each(make_status), 9);
}

static void grow_buffer(void) {
  kiln_buffer_t buffer;
  kiln_buffer_init(&buffer);
  for (int i = 0; i < 100; i++) kiln_buffer_printf(&buffer, "%09d,", i);
  assert_int_equal(buffer.size % 10, 0);
  assert_true(buffer.failed ? buffer.size < 1000 : buffer.size == 1000);
  assert_int_equal(strlen(kiln_buffer_text(&buffer)), buffer.size);
  kiln_buffer_deinit(&buffer);
}

static void a_buffer_survives_each_failed_allocation(void **state) {
  (void)state;
  assert_int_equal(fail_each(grow_buffer), 3); /* 256, 512, 1024 */
}

static void fill_map(void) {
  kiln_map_t *map = kiln_map_create(NULL);
  if (!map) return;
  size_t stored = 0;
  for (uint32_t key = 0; key < 1000; key++) {
    bool added;
    uint64_t *value = kiln_map_put(map, &key, sizeof key, &added);
    assert_int_equal(added, value != NULL);
    if (!value) continue;
    *value = key;
    stored++;
  }
  assert_true(stored >= 999); /* one allocation failed, so at most one key is missing */
  assert_int_equal(kiln_map_count(map), stored);
  for (kiln_map_entry_t *entry = kiln_map_first(map); entry; entry = kiln_map_next(entry)) {
    assert_memory_equal(kiln_map_key(entry, NULL), kiln_map_value(entry), sizeof(uint32_t));
  }
  kiln_map_destroy(map);
}

static void a_map_survives_each_failed_allocation(void **state) {
  (void)state;
  assert_true(fail_each(fill_map) > 1000);
}

static kiln_status_t fill_arena(void *argument) {
  kiln_arena_t *arena = argument;
  kiln_map_t *map = kiln_map_create(arena);
  for (uint32_t key = 0; key < 1000; key++) {
    *kiln_map_put(map, &key, sizeof key, NULL) = key;
    kiln_arena_printf(arena, "%u", key);
  }
  return NULL;
}

static void guard_arena(void) {
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  kiln_status_t status = kiln_arena_guard(&arena, fill_arena, &arena);
  assert_true(!status == (allocations_until_failure != 0));
  if (status) assert_int_equal(kiln_status_code(status), KILN_OUT_OF_MEMORY);
  kiln_status_free(status);
  kiln_arena_deinit(&arena);
}

static void an_arena_unwinds_from_each_failed_allocation(void **state) {
  (void)state;
  assert_true(fail_each(guard_arena) > 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_status_survives_each_failed_allocation),
      cmocka_unit_test(a_buffer_survives_each_failed_allocation),
      cmocka_unit_test(a_map_survives_each_failed_allocation),
      cmocka_unit_test(an_arena_unwinds_from_each_failed_allocation),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
