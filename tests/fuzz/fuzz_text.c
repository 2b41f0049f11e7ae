/* tests/fuzz/fuzz_text.c: text that claims to be graphs.
 *
 * What parses must print, parse again and print the same; come back from its wire form as the same graph; and
 * have one canonical form, which verifies and is its own.
 */
#include <assert.h>
#include <string.h>

#include "ir/canonical.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "ir/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MEMORY_BYTES = 256 << 20 };

typedef struct {
  kiln_arena_t *arena;
  const char *text;
  size_t size;
} input_t;

static const char *print(kiln_arena_t *arena, const kiln_graph_t *graph) {
  kiln_buffer_t *text = kiln_buffer_in_arena(arena);
  kiln_text_print(arena, text, graph);
  return kiln_buffer_text(text);
}

static void check_text(kiln_arena_t *arena, const kiln_graph_t *graph) {
  const char *text = print(arena, graph);
  kiln_graph_list_t again;
  assert(!kiln_text_parse(arena, "printed", text, strlen(text), &again));
  assert(again.count == 1 && !strcmp(print(arena, again.graphs[0]), text));
}

static void check_wire(kiln_arena_t *arena, const kiln_graph_t *graph) {
  kiln_buffer_t *bytes = kiln_buffer_in_arena(arena);
  const kiln_mpack_t *value;
  const kiln_graph_t *back;
  kiln_graph_encode(bytes, graph);
  assert(!kiln_mpack_decode(arena, bytes->data, bytes->size, &value));
  assert(!kiln_graph_decode(arena, value, &back));
  assert(!strcmp(print(arena, back), print(arena, graph)));
}

static void check_canonical(kiln_arena_t *arena, const kiln_graph_t *graph) {
  const kiln_graph_t *once = kiln_graph_canonicalize(arena, graph);
  kiln_constraints_t constraints;
  assert(!kiln_graph_verify(arena, once, &constraints));
  kiln_status_free(
      kiln_constraints_check(&constraints, (int64_t[KILN_MAX_SYMBOLS]){7, 1, 0, 16, 3, 2, 5, 8}));
  kiln_digest_t first = kiln_graph_hash(arena, once);
  kiln_digest_t second = kiln_graph_hash(arena, kiln_graph_canonicalize(arena, once));
  assert(kiln_digest_equal(&first, &second));
}

static kiln_status_t check(void *argument) {
  const input_t *input = argument;
  kiln_graph_list_t graphs;
  KILN_TRY(kiln_text_parse(input->arena, "fuzz", input->text, input->size, &graphs));
  for (size_t i = 0; i < graphs.count; i++) {
    check_text(input->arena, graphs.graphs[i]);
    check_wire(input->arena, graphs.graphs[i]);
    check_canonical(input->arena, graphs.graphs[i]);
  }
  return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  kiln_arena_t arena;
  kiln_arena_init(&arena, MEMORY_BYTES);
  input_t input = {&arena, (const char *)data, size};
  kiln_status_free(kiln_arena_guard(&arena, check, &input));
  kiln_arena_deinit(&arena);
  return 0;
}
