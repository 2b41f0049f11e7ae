/* base/arena.c: a chain of zeroed blocks, each twice the size of the one before up to a bound.
 *
 * The newest block serves allocations from its front; what a block has left when the next one is made is
 * given up. Under the address sanitizer every allocation is a block of its own, so that an overrun is seen
 * where it happens. Exhaustion (the arena's limit or the system's) leaves by longjmp to the guard; nothing is
 * half done at that point.
 */
#include "base/arena.h"

#include "base/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __has_feature
#define HAS_FEATURE(name) __has_feature(name)
#else
#define HAS_FEATURE(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || HAS_FEATURE(address_sanitizer)
enum { FIRST_BLOCK_BYTES = 0, LAST_BLOCK_BYTES = 0 };
#else
enum { FIRST_BLOCK_BYTES = 4 << 10, LAST_BLOCK_BYTES = 1 << 20 };
#endif

enum { ALIGNMENT_BYTES = 16 };

struct kiln_arena_block {
  kiln_arena_block_t *older;
  size_t size_bytes; /* of data */
  size_t used_bytes;
  _Alignas(ALIGNMENT_BYTES) char data[];
};

struct kiln_arena_deferred {
  kiln_arena_deferred_t *older;
  void (*function)(void *argument);
  void *argument;
};

void kiln_arena_init(kiln_arena_t *arena, size_t limit_bytes) {
  *arena = (kiln_arena_t){.limit_bytes = limit_bytes};
}

static void run_deferred(kiln_arena_t *arena) {
  for (kiln_arena_deferred_t *deferred = arena->deferred; deferred; deferred = deferred->older) {
    deferred->function(deferred->argument);
  }
  arena->deferred = NULL;
}

static void free_blocks(kiln_arena_block_t *block) {
  while (block) {
    kiln_arena_block_t *older = block->older;
    free(block);
    block = older;
  }
}

void kiln_arena_deinit(kiln_arena_t *arena) {
  run_deferred(arena);
  free_blocks(arena->blocks);
  *arena = (kiln_arena_t){0};
}

static void deinit_inside(void *arena) { kiln_arena_deinit(arena); }

kiln_arena_t *kiln_arena_create_inside(kiln_arena_t *arena) {
  kiln_arena_t *inside = KILN_NEW(arena, kiln_arena_t);
  kiln_arena_init(inside, arena->limit_bytes ? arena->limit_bytes - arena->used_bytes : 0);
  inside->guard = arena->guard;
  kiln_arena_defer(arena, deinit_inside, inside);
  return inside;
}

void kiln_arena_reset(kiln_arena_t *arena) {
  kiln_arena_block_t *newest = arena->blocks;
  run_deferred(arena);
  arena->used_bytes = 0;
  if (!newest) return;
  free_blocks(newest->older);
  newest->older = NULL;
  memset(newest->data, 0, newest->used_bytes);
  newest->used_bytes = 0;
}

static _Noreturn void exhausted(kiln_arena_t *arena, size_t size_bytes) {
  if (arena->guard) longjmp(*arena->guard, 1);
  fprintf(stderr, "kiln: out of memory: %zu bytes wanted, %zu in use in this arena\n", size_bytes,
          arena->used_bytes);
  abort();
}

static size_t next_block_bytes(const kiln_arena_t *arena, size_t wanted_bytes) {
  size_t bytes = arena->blocks ? arena->blocks->size_bytes * 2 : FIRST_BLOCK_BYTES;
  if (bytes > LAST_BLOCK_BYTES) bytes = LAST_BLOCK_BYTES;
  return bytes > wanted_bytes ? bytes : wanted_bytes;
}

/* Makes a block with room for wanted_bytes the newest. False when the system has no memory. */
static bool add_block(kiln_arena_t *arena, size_t wanted_bytes) {
  size_t bytes = next_block_bytes(arena, wanted_bytes);
  kiln_arena_block_t *block = calloc(1, sizeof *block + bytes);
  if (!block) return false;
  block->older = arena->blocks;
  block->size_bytes = bytes;
  arena->blocks = block;
  return true;
}

void *kiln_arena_alloc(kiln_arena_t *arena, size_t size_bytes) {
  if (size_bytes > PTRDIFF_MAX - 2 * sizeof(kiln_arena_block_t)) exhausted(arena, size_bytes);
  size_t bytes = (size_bytes + ALIGNMENT_BYTES - 1) & ~(size_t)(ALIGNMENT_BYTES - 1);
  if (arena->limit_bytes && bytes > arena->limit_bytes - arena->used_bytes) exhausted(arena, size_bytes);
  kiln_arena_block_t *block = arena->blocks;
  if (!block || bytes > block->size_bytes - block->used_bytes) {
    if (!add_block(arena, bytes)) exhausted(arena, size_bytes);
    block = arena->blocks;
  }
  void *memory = block->data + block->used_bytes;
  block->used_bytes += bytes;
  arena->used_bytes += bytes;
  return memory;
}

void *kiln_arena_copy(kiln_arena_t *arena, const void *data, size_t size_bytes) {
  void *copy = kiln_arena_alloc(arena, size_bytes);
  if (size_bytes) memcpy(copy, data, size_bytes);
  return copy;
}

char *kiln_arena_strndup(kiln_arena_t *arena, const char *text, size_t length) {
  char *copy = kiln_arena_alloc(arena, length + 1);
  if (length) memcpy(copy, text, length);
  return copy;
}

char *kiln_arena_strdup(kiln_arena_t *arena, const char *text) {
  return kiln_arena_strndup(arena, text, strlen(text));
}

char *kiln_arena_printf(kiln_arena_t *arena, const char *format, ...) {
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  int length = vsnprintf(NULL, 0, format, again);
  va_end(again);
  size_t size = length < 0 ? 1 : (size_t)length + 1;
  char *text = kiln_arena_alloc(arena, size);
  vsnprintf(text, size, format, arguments);
  va_end(arguments);
  return text;
}

void kiln_arena_defer(kiln_arena_t *arena, void (*function)(void *argument), void *argument) {
  kiln_arena_deferred_t *deferred = KILN_NEW(arena, kiln_arena_deferred_t);
  *deferred = (kiln_arena_deferred_t){arena->deferred, function, argument};
  arena->deferred = deferred;
}

void *kiln_arena_grow(kiln_arena_t *arena, void *items, size_t count, size_t *capacity, size_t item_bytes) {
  size_t wanted = *capacity < 4 ? 8 : *capacity * 2;
  size_t bytes;
  if (__builtin_mul_overflow(wanted, item_bytes, &bytes)) bytes = SIZE_MAX;
  void *grown = kiln_arena_alloc(arena, bytes);
  if (count) memcpy(grown, items, count * item_bytes);
  *capacity = wanted;
  return grown;
}

static kiln_status_t exhaustion_error(const kiln_arena_t *arena) {
  kiln_status_t status =
      arena->limit_bytes
          ? kiln_error(KILN_OUT_OF_MEMORY, "the request needs more than %zu bytes of working memory",
                       arena->limit_bytes)
          : kiln_error(KILN_OUT_OF_MEMORY, "out of memory with %zu bytes in use", arena->used_bytes);
  return kiln_error_detail(status, "where", "host");
}

kiln_status_t kiln_arena_guard(kiln_arena_t *arena, kiln_arena_guarded_t function, void *argument) {
  jmp_buf guard;
  jmp_buf *outer = arena->guard; /* not changed after setjmp, so its value survives */
  if (setjmp(guard)) {
    arena->guard = outer;
    return exhaustion_error(arena);
  }
  arena->guard = &guard;
  kiln_status_t status = function(argument);
  arena->guard = outer;
  return status;
}
