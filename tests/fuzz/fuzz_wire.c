/* tests/fuzz/fuzz_wire.c: MessagePack that claims to be a graph or, when the first byte is odd, a plan.
 *
 * A graph that is taken must verify; a plan that is taken must encode to the very bytes that it came from.
 */
#include <assert.h>
#include <string.h>

#include "ir/plan.h"
#include "ir/verify.h"
#include "ir/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MEMORY_BYTES = 256 << 20 };

typedef struct {
  kiln_arena_t *arena;
  const uint8_t *data;
  size_t size;
} input_t;

static kiln_status_t check_graph(const input_t *input) {
  const kiln_mpack_t *value;
  const kiln_graph_t *graph;
  KILN_TRY(kiln_mpack_decode(input->arena, input->data, input->size, &value));
  KILN_TRY(kiln_graph_decode(input->arena, value, &graph));
  assert(!kiln_graph_verify(input->arena, graph, NULL));
  return NULL;
}

static kiln_status_t check_plan(const input_t *input) {
  const kiln_plan_t *plan;
  KILN_TRY(kiln_plan_decode(input->arena, input->data, input->size, &plan));
  kiln_plan_guards_hold(plan, (int64_t[KILN_MAX_SYMBOLS]){7, 1, 0, 16, 3, 2, 5, 8});
  kiln_buffer_t *again = kiln_buffer_in_arena(input->arena);
  kiln_plan_encode(plan, again);
  assert(again->size == input->size && !memcmp(again->data, input->data, input->size));
  return NULL;
}

static kiln_status_t check(void *argument) {
  input_t *input = argument;
  bool plan = input->data[0] & 1;
  input->data++;
  input->size--;
  return plan ? check_plan(input) : check_graph(input);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!size) return 0;
  kiln_arena_t arena;
  kiln_arena_init(&arena, MEMORY_BYTES);
  input_t input = {&arena, data, size};
  kiln_status_free(kiln_arena_guard(&arena, check, &input));
  kiln_arena_deinit(&arena);
  return 0;
}
