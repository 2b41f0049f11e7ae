/* base/buffer.c: the growing byte string. Capacity doubles, and one byte of it is always kept for the NUL. */
#include "base/buffer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_CAPACITY = 256 };

void kiln_buffer_init(kiln_buffer_t *buffer) { *buffer = (kiln_buffer_t){0}; }

void kiln_buffer_deinit(kiln_buffer_t *buffer) {
  free(buffer->data);
  kiln_buffer_init(buffer);
}

static void deinit_deferred(void *buffer) { kiln_buffer_deinit(buffer); }

kiln_buffer_t *kiln_buffer_in_arena(kiln_arena_t *arena) {
  kiln_buffer_t *buffer = KILN_NEW(arena, kiln_buffer_t);
  kiln_arena_defer(arena, deinit_deferred, buffer);
  return buffer;
}

void kiln_buffer_clear(kiln_buffer_t *buffer) {
  buffer->size = 0;
  buffer->failed = false;
  if (buffer->data) buffer->data[0] = 0;
}

bool kiln_buffer_reserve(kiln_buffer_t *buffer, size_t more_bytes) {
  if (buffer->failed) return false;
  size_t room = buffer->data ? buffer->capacity - buffer->size - 1 : 0;
  if (buffer->data && more_bytes <= room) return true;
  size_t wanted;
  if (__builtin_add_overflow(buffer->size + 1, more_bytes, &wanted)) {
    buffer->failed = true;
    return false;
  }
  size_t capacity = buffer->capacity ? buffer->capacity * 2 : FIRST_CAPACITY;
  if (capacity < wanted) capacity = wanted;
  char *data = realloc(buffer->data, capacity);
  if (!data) {
    buffer->failed = true;
    return false;
  }
  data[buffer->size] = 0;
  buffer->data = data;
  buffer->capacity = capacity;
  return true;
}

void kiln_buffer_append(kiln_buffer_t *buffer, const void *data, size_t size) {
  if (!size || !kiln_buffer_reserve(buffer, size)) return;
  memcpy(buffer->data + buffer->size, data, size);
  buffer->size += size;
  buffer->data[buffer->size] = 0;
}

void kiln_buffer_puts(kiln_buffer_t *buffer, const char *text) {
  kiln_buffer_append(buffer, text, strlen(text));
}

void kiln_buffer_printf(kiln_buffer_t *buffer, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  kiln_buffer_vprintf(buffer, format, arguments);
  va_end(arguments);
}

void kiln_buffer_vprintf(kiln_buffer_t *buffer, const char *format, va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  int length = vsnprintf(NULL, 0, format, again);
  va_end(again);
  if (length < 0) buffer->failed = true;
  if (length <= 0 || !kiln_buffer_reserve(buffer, (size_t)length)) return;
  vsnprintf(buffer->data + buffer->size, (size_t)length + 1, format, arguments);
  buffer->size += (size_t)length;
}

void kiln_buffer_consume(kiln_buffer_t *buffer, size_t size) {
  if (!size) return;
  buffer->size -= size;
  memmove(buffer->data, buffer->data + size, buffer->size + 1);
}

const char *kiln_buffer_text(const kiln_buffer_t *buffer) { return buffer->data ? buffer->data : ""; }
