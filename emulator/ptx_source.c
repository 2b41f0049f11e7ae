/* emulator/ptx_source.c: see ptx_source.h. A ".loc" holds for the lines of PTX up to the next one or to the
 * end of its function. */
#include "emulator/ptx_source.h"

#include <stdio.h>

typedef struct {
  uint32_t file, line; /* file 0: unknown */
} place_t;

typedef struct {
  uint32_t ptx_line; /* first that it holds for */
  place_t at, inlined_at;
} location_t;

typedef struct {
  uint64_t number;
  const char *name; /* into the module's text, not terminated */
  uint32_t length;
} file_t;

struct emu_source_map {
  location_t *locations; /* by ptx_line */
  size_t location_count, location_capacity;
  file_t *files;
  size_t file_count, file_capacity;
};

/* Two numbers from `token` on; the last token of all is no number, so looking at both is safe. */
static place_t read_place(const emu_token_t *token) {
  if (token[0].kind != EMU_TOKEN_NUMBER || token[1].kind != EMU_TOKEN_NUMBER) return (place_t){0};
  return (place_t){(uint32_t)token[0].bits, (uint32_t)token[1].bits};
}

/* ".loc file line column, function_name label, inlined_at file line column" */
static location_t read_location(const emu_token_t *token) {
  location_t location = {.ptx_line = token->line, .at = read_place(token + 1)};
  for (uint32_t line = token->line; token->line == line && token->kind != EMU_TOKEN_END; token++)
    if (emu_token_is(token, "inlined_at")) location.inlined_at = read_place(token + 1);
  return location;
}

emu_source_map_t *emu_source_map_create(kiln_arena_t *arena, const emu_tokens_t *tokens) {
  emu_source_map_t *map = KILN_NEW(arena, emu_source_map_t);
  for (size_t n = 0; n + 1 < tokens->count; n++) {
    const emu_token_t *token = &tokens->tokens[n];
    if (token->kind != EMU_TOKEN_WORD || token->text[0] != '.') continue;
    if (emu_token_is(token, ".loc"))
      KILN_PUSH(arena, map->locations, map->location_count, map->location_capacity, read_location(token));
    else if (emu_token_is(token, ".func") || emu_token_is(token, ".entry"))
      KILN_PUSH(arena, map->locations, map->location_count, map->location_capacity,
                (location_t){.ptx_line = token->line});
    else if (emu_token_is(token, ".file") && token[1].kind == EMU_TOKEN_NUMBER &&
             token[2].kind == EMU_TOKEN_STRING && token[2].length >= 2)
      KILN_PUSH(arena, map->files, map->file_count, map->file_capacity,
                (file_t){token[1].bits, token[2].text + 1, token[2].length - 2});
  }
  return map;
}

static size_t put_place(const emu_source_map_t *map, place_t place, const char *before, char *text,
                        size_t capacity) {
  for (size_t n = 0; place.file && n < map->file_count; n++) {
    const file_t *file = &map->files[n];
    if (file->number != place.file) continue;
    int written = snprintf(text, capacity, "%s%.*s:%u", before, file->length < 200 ? (int)file->length : 200,
                           file->name, place.line);
    return written > 0 && (size_t)written < capacity ? (size_t)written : 0;
  }
  return 0;
}

void emu_source_describe(const emu_source_map_t *map, uint32_t ptx_line, char *text, size_t capacity) {
  size_t first = 0, end = map->location_count;
  text[0] = 0;
  while (first < end) { /* the first that begins behind ptx_line */
    size_t middle = first + (end - first) / 2;
    if (map->locations[middle].ptx_line <= ptx_line)
      first = middle + 1;
    else
      end = middle;
  }
  if (!first) return;
  const location_t *location = &map->locations[first - 1];
  size_t length = put_place(map, location->at, ", CUDA line ", text, capacity);
  if (length) put_place(map, location->inlined_at, ", inlined at ", text + length, capacity - length);
}
