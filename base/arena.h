/* base/arena.h: memory that lives and dies together.
 *
 * An arena per request holds graph, plan and source; passes never free. Allocations are zeroed, aligned to 16
 * bytes and never NULL: an arena that reaches its limit, or finds the system's memory exhausted, unwinds to
 * the guard that the entry point set (kiln_arena_guard) so that thousands of allocations need no check each;
 * without a guard it logs and aborts, which a compile worker may. What is not in the arena when it unwinds
 * must hang on it by kiln_arena_defer. Thread: one at a time.
 */
#ifndef KILN_BASE_ARENA_H
#define KILN_BASE_ARENA_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct kiln_arena_block kiln_arena_block_t;
typedef struct kiln_arena_deferred kiln_arena_deferred_t;

typedef struct {
  kiln_arena_block_t *blocks;
  kiln_arena_deferred_t *deferred;
  size_t used_bytes;
  size_t limit_bytes; /* 0: no limit */
  jmp_buf *guard;     /* NULL: exhaustion aborts */
} kiln_arena_t;

void kiln_arena_init(kiln_arena_t *arena, size_t limit_bytes);
void kiln_arena_deinit(kiln_arena_t *arena); /* runs deferred calls, newest first; accepts a zeroed arena */

/* An arena inside another: the same guard, what is left of the limit, and gone with it at the latest. */
kiln_arena_t *kiln_arena_create_inside(kiln_arena_t *arena);
/* Gives up everything but a block for what comes next. */
void kiln_arena_reset(kiln_arena_t *arena);

void *kiln_arena_alloc(kiln_arena_t *arena, size_t size_bytes);
void *kiln_arena_copy(kiln_arena_t *arena, const void *data, size_t size_bytes);
char *kiln_arena_strndup(kiln_arena_t *arena, const char *text, size_t length);
char *kiln_arena_strdup(kiln_arena_t *arena, const char *text);
char *kiln_arena_printf(kiln_arena_t *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Calls function(argument) when the arena is deinitialized. */
void kiln_arena_defer(kiln_arena_t *arena, void (*function)(void *argument), void *argument);

/* Makes room for one more element of a growing array whose storage is in the arena. */
void *kiln_arena_grow(kiln_arena_t *arena, void *items, size_t count, size_t *capacity, size_t item_bytes);

#define KILN_NEW(arena, type) ((type *)kiln_arena_alloc((arena), sizeof(type)))
#define KILN_NEW_ARRAY(arena, type, count) ((type *)kiln_arena_alloc((arena), sizeof(type) * (size_t)(count)))
/* Appends to a {items, count, capacity} triple of struct members or locals. */
#define KILN_PUSH(arena, items, count, capacity, ...)                                                        \
  do {                                                                                                       \
    if ((count) == (capacity))                                                                               \
      (items) = kiln_arena_grow((arena), (items), (count), &(capacity), sizeof *(items));                    \
    (items)[(count)++] = (__VA_ARGS__);                                                                      \
  } while (0)

/* Runs function(argument) with a guard on the arena; OUT_OF_MEMORY when it was exhausted, else the function's
 * own status. */
typedef struct kiln_status *(*kiln_arena_guarded_t)(void *argument);
struct kiln_status *kiln_arena_guard(kiln_arena_t *arena, kiln_arena_guarded_t function, void *argument);

#endif
