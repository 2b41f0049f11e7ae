/* base/buffer.h: a growing byte string on the heap: printed text, encoded messages, generated source.
 *
 * Appending never fails visibly: the first allocation that fails sets `failed`, later appends do nothing, and
 * who hands the bytes on checks once. `data` is kept NUL-terminated behind `size`. Thread: one at a time.
 */
#ifndef KILN_BASE_BUFFER_H
#define KILN_BASE_BUFFER_H

#include "base/arena.h"

typedef struct {
  char *data; /* NULL while empty */
  size_t size;
  size_t capacity;
  bool failed;
} kiln_buffer_t;

void kiln_buffer_init(kiln_buffer_t *buffer);
void kiln_buffer_deinit(kiln_buffer_t *buffer);
/* A buffer that dies with the arena, also when the arena is exhausted in the middle of its use. */
kiln_buffer_t *kiln_buffer_in_arena(kiln_arena_t *arena);
void kiln_buffer_clear(kiln_buffer_t *buffer);
bool kiln_buffer_reserve(kiln_buffer_t *buffer, size_t more_bytes);
void kiln_buffer_append(kiln_buffer_t *buffer, const void *data, size_t size);
void kiln_buffer_puts(kiln_buffer_t *buffer, const char *text);
void kiln_buffer_printf(kiln_buffer_t *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));
void kiln_buffer_vprintf(kiln_buffer_t *buffer, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));
void kiln_buffer_consume(kiln_buffer_t *buffer, size_t size); /* drops bytes from the front */
const char *kiln_buffer_text(const kiln_buffer_t *buffer);    /* "" while empty */

#endif
