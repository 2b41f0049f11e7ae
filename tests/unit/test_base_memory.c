/* tests/unit/test_base_memory.c: arenas, buffers and maps. */
#include "base/arena.h"
#include "base/buffer.h"
#include "base/map.h"
#include "base/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* --- arena ---------------------------------------------------------------------------------------------- */

static void allocations_are_zeroed_aligned_and_apart(void **state) {
  (void)state;
  static const size_t sizes[] = {0, 1, 15, 16, 17, 4096, 5000, 3 << 20, 1};
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  unsigned char *blocks[9];
  for (size_t i = 0; i < 9; i++) {
    blocks[i] = kiln_arena_alloc(&arena, sizes[i]);
    assert_int_equal((uintptr_t)blocks[i] % 16, 0);
    for (size_t b = 0; b < sizes[i]; b++) assert_int_equal(blocks[i][b], 0);
    memset(blocks[i], (int)i + 1, sizes[i]);
  }
  for (size_t i = 0; i < 9; i++) {
    for (size_t b = 0; b < sizes[i]; b++) assert_int_equal(blocks[i][b], i + 1);
  }
  kiln_arena_deinit(&arena);
}

static void arena_that_is_reset_is_zeroed_again(void **state) {
  (void)state;
  kiln_arena_t arena = {0};
  for (int round = 0; round < 3; round++) {
    for (size_t size = 1; size < 100000; size *= 3) {
      unsigned char *block = kiln_arena_alloc(&arena, size);
      for (size_t b = 0; b < size; b++) assert_int_equal(block[b], 0);
      memset(block, 255, size);
    }
    kiln_arena_reset(&arena);
    assert_int_equal(arena.used_bytes, 0);
  }
  kiln_arena_deinit(&arena);
}

typedef struct {
  kiln_arena_t *arena;
  size_t taken;
} hunger_t;

static kiln_status_t eat_inside(void *argument) {
  hunger_t *hunger = argument;
  hunger_t inside = {kiln_arena_create_inside(hunger->arena), 0};
  for (; hunger->taken < 1000000; hunger->taken++) kiln_arena_alloc(inside.arena, 1000);
  return NULL;
}

/* What it had is freed with the arena around it: the leak checker would tell. */
static void arena_inside_another_keeps_its_limit_and_guard(void **state) {
  (void)state;
  kiln_arena_t arena;
  kiln_arena_init(&arena, 10080);
  hunger_t hunger = {&arena, 0};
  kiln_status_t status = kiln_arena_guard(&arena, eat_inside, &hunger);
  assert_int_equal(kiln_status_code(status), KILN_OUT_OF_MEMORY);
  assert_in_range(hunger.taken, 8, 10);
  kiln_status_free(status);
  kiln_arena_deinit(&arena);
}

static kiln_status_t eat_without_end(void *argument) {
  hunger_t *hunger = argument;
  for (; hunger->taken < 1000000; hunger->taken++) kiln_arena_alloc(hunger->arena, 1000);
  return NULL;
}

static void the_limit_unwinds_to_the_guard(void **state) {
  (void)state;
  kiln_arena_t arena;
  kiln_arena_init(&arena, 10080);
  hunger_t hunger = {&arena, 0};
  kiln_status_t status = kiln_arena_guard(&arena, eat_without_end, &hunger);
  assert_int_equal(kiln_status_code(status), KILN_OUT_OF_MEMORY);
  assert_string_equal(kiln_status_detail(status, "where"), "host");
  assert_int_equal(hunger.taken, 10); /* each takes 1008 */
  assert_null(arena.guard);
  kiln_status_free(status);
  kiln_arena_deinit(&arena);
}

static kiln_status_t ask_for(void *argument) {
  hunger_t *hunger = argument;
  kiln_arena_alloc(hunger->arena, hunger->taken);
  return NULL;
}

static void sizes_near_the_top_of_the_address_space_are_refused(void **state) {
  (void)state;
  static const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 15, SIZE_MAX - 64, PTRDIFF_MAX,
                                 (size_t)PTRDIFF_MAX + 1};
  kiln_arena_t arena;
  kiln_arena_init(&arena, 1 << 20);
  for (size_t i = 0; i < 5; i++) {
    kiln_status_t status = kiln_arena_guard(&arena, ask_for, &(hunger_t){&arena, sizes[i]});
    assert_int_equal(kiln_status_code(status), KILN_OUT_OF_MEMORY);
    kiln_status_free(status);
  }
  kiln_arena_deinit(&arena);
}

static kiln_status_t fail_plainly(void *argument) {
  (void)argument;
  return kiln_error(KILN_UNSUPPORTED, "no");
}

static kiln_status_t guard_inside_guard(void *argument) {
  kiln_status_t inner = kiln_arena_guard(argument, eat_without_end, &(hunger_t){argument, 0});
  assert_int_equal(kiln_status_code(inner), KILN_OUT_OF_MEMORY);
  kiln_status_free(inner);
  return kiln_arena_guard(argument, fail_plainly, NULL);
}

static void guards_nest_and_pass_on_the_functions_status(void **state) {
  (void)state;
  kiln_arena_t arena;
  kiln_arena_init(&arena, 1 << 16);
  kiln_status_t status = kiln_arena_guard(&arena, guard_inside_guard, &arena);
  assert_int_equal(kiln_status_code(status), KILN_UNSUPPORTED);
  kiln_status_free(status);
  kiln_arena_deinit(&arena);
}

static void note_digit(void *argument) {
  char **cursor = ((char ***)argument)[0];
  *(*cursor)++ = ((char **)argument)[1][0];
}

static void deferred_calls_run_newest_first(void **state) {
  (void)state;
  char order[4] = {0}, *cursor = order;
  char *first[] = {(char *)&cursor, (char *)"1"}, *second[] = {(char *)&cursor, (char *)"2"};
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  kiln_arena_defer(&arena, note_digit, first);
  kiln_arena_defer(&arena, note_digit, second);
  kiln_arena_deinit(&arena);
  assert_string_equal(order, "21");
  kiln_arena_deinit(&arena); /* of a zeroed arena: nothing */
  assert_string_equal(order, "21");
}

static void pushed_items_survive_growth(void **state) {
  (void)state;
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  uint32_t *items = NULL;
  size_t count = 0, capacity = 0;
  for (uint32_t i = 0; i < 10000; i++) KILN_PUSH(&arena, items, count, capacity, i * 7);
  for (uint32_t i = 0; i < 10000; i++) assert_int_equal(items[i], i * 7);
  kiln_arena_deinit(&arena);
}

static void strings_are_copied_and_formatted(void **state) {
  (void)state;
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  assert_string_equal(kiln_arena_strdup(&arena, ""), "");
  assert_string_equal(kiln_arena_strndup(&arena, "abcdef", 3), "abc");
  assert_string_equal(kiln_arena_printf(&arena, "%s-%d", "node", 12), "node-12");
  assert_memory_equal(kiln_arena_copy(&arena, "a\0b", 3), "a\0b", 3);
  assert_int_equal(strlen(kiln_arena_printf(&arena, "%9000d", 1)), 9000);
  kiln_arena_deinit(&arena);
}

/* --- buffer --------------------------------------------------------------------------------------------- */

static void an_empty_buffer_reads_as_empty_text(void **state) {
  (void)state;
  kiln_buffer_t buffer;
  kiln_buffer_init(&buffer);
  assert_string_equal(kiln_buffer_text(&buffer), "");
  kiln_buffer_consume(&buffer, 0);
  kiln_buffer_append(&buffer, NULL, 0);
  kiln_buffer_clear(&buffer);
  assert_int_equal(buffer.size, 0);
  kiln_buffer_deinit(&buffer);
}

static void appended_text_is_terminated_and_consumed_from_the_front(void **state) {
  (void)state;
  kiln_buffer_t buffer;
  kiln_buffer_init(&buffer);
  for (int i = 0; i < 1000; i++) kiln_buffer_printf(&buffer, "%d,", i % 10);
  assert_int_equal(buffer.size, 2000);
  assert_int_equal(strlen(kiln_buffer_text(&buffer)), 2000);
  kiln_buffer_consume(&buffer, 1996);
  assert_string_equal(kiln_buffer_text(&buffer), "8,9,");
  kiln_buffer_puts(&buffer, "end");
  assert_string_equal(kiln_buffer_text(&buffer), "8,9,end");
  kiln_buffer_consume(&buffer, 7);
  assert_string_equal(kiln_buffer_text(&buffer), "");
  kiln_buffer_deinit(&buffer);
}

static void a_buffer_that_cannot_grow_fails_once_and_keeps_its_bytes(void **state) {
  (void)state;
  kiln_buffer_t buffer;
  kiln_buffer_init(&buffer);
  kiln_buffer_puts(&buffer, "kept");
  assert_false(kiln_buffer_reserve(&buffer, SIZE_MAX - 2));
  assert_true(buffer.failed);
  kiln_buffer_puts(&buffer, "lost");
  assert_string_equal(kiln_buffer_text(&buffer), "kept");
  kiln_buffer_clear(&buffer);
  kiln_buffer_puts(&buffer, "again");
  assert_string_equal(kiln_buffer_text(&buffer), "again");
  kiln_buffer_deinit(&buffer);
}

/* --- map ------------------------------------------------------------------------------------------------ */

static void check_map(kiln_map_t *map) {
  char key[32];
  bool added;
  for (int i = 0; i < 3000; i++) {
    int size = snprintf(key, sizeof key, "key %d", i);
    *kiln_map_put(map, key, (size_t)size, &added) = (uint64_t)i;
    assert_true(added);
  }
  for (int i = 0; i < 3000; i += 3) {
    int size = snprintf(key, sizeof key, "key %d", i);
    assert_true(kiln_map_remove(map, key, (size_t)size));
    assert_false(kiln_map_remove(map, key, (size_t)size));
    assert_null(kiln_map_find(map, key, (size_t)size));
  }
  assert_int_equal(kiln_map_count(map), 2000);
  uint64_t expected = 1;
  for (kiln_map_entry_t *entry = kiln_map_first(map); entry; entry = kiln_map_next(entry)) {
    size_t size;
    const char *found = kiln_map_key(entry, &size);
    int length = snprintf(key, sizeof key, "key %d", (int)expected);
    assert_int_equal(size, length);
    assert_memory_equal(found, key, size);
    assert_int_equal(*kiln_map_value(entry), expected);
    expected += expected % 3 == 1 ? 1 : 2;
  }
}

static void a_map_iterates_in_the_order_of_insertion(void **state) {
  (void)state;
  kiln_map_t *map = kiln_map_create(NULL);
  check_map(map);
  kiln_map_destroy(map);
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  check_map(kiln_map_create(&arena));
  kiln_arena_deinit(&arena);
  kiln_map_destroy(NULL);
}

static void keys_are_bytes_with_their_length(void **state) {
  (void)state;
  kiln_map_t *map = kiln_map_create(NULL);
  static const char bytes[] = "a\0b\0\0";
  for (size_t size = 0; size <= 5; size++) *kiln_map_put(map, bytes, size, NULL) = size + 100;
  for (size_t size = 0; size <= 5; size++) assert_int_equal(*kiln_map_find(map, bytes, size), size + 100);
  assert_int_equal(kiln_map_count(map), 6);
  bool added = true;
  assert_int_equal(*kiln_map_put(map, bytes, 3, &added), 103);
  assert_false(added);
  for (size_t size = 0; size <= 5; size++) assert_true(kiln_map_remove(map, bytes, size));
  assert_int_equal(kiln_map_count(map), 0);
  assert_null(kiln_map_first(map));
  assert_int_equal(*kiln_map_put(map, bytes, 2, &added), 0);
  assert_true(added);
  kiln_map_destroy(map);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(allocations_are_zeroed_aligned_and_apart),
      cmocka_unit_test(arena_that_is_reset_is_zeroed_again),
      cmocka_unit_test(arena_inside_another_keeps_its_limit_and_guard),
      cmocka_unit_test(the_limit_unwinds_to_the_guard),
      cmocka_unit_test(sizes_near_the_top_of_the_address_space_are_refused),
      cmocka_unit_test(guards_nest_and_pass_on_the_functions_status),
      cmocka_unit_test(deferred_calls_run_newest_first),
      cmocka_unit_test(pushed_items_survive_growth),
      cmocka_unit_test(strings_are_copied_and_formatted),
      cmocka_unit_test(an_empty_buffer_reads_as_empty_text),
      cmocka_unit_test(appended_text_is_terminated_and_consumed_from_the_front),
      cmocka_unit_test(a_buffer_that_cannot_grow_fails_once_and_keeps_its_bytes),
      cmocka_unit_test(a_map_iterates_in_the_order_of_insertion),
      cmocka_unit_test(keys_are_bytes_with_their_length),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
