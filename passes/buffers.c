/* passes/buffers.c: where the results of the groups lie.
 *
 * Last step of kiln_group (passes/group.c). A returned value is read from its output buffer; every other
 * stored value is a temporary. A temporary lives from the launch that stores it to the last that reads it;
 * launches run in order, so those whose lives do not meet may share a slot of the arena. Slots are chosen by
 * linear scan: of the free ones, one whose latest temporary has the same size, else the smallest constant one
 * that is large enough, else the largest, which grows. A slot is as large as the largest of its temporaries.
 */
#include <assert.h>

#include "passes/grouping.h"

enum { SLOTS_SEARCHED = 64 };

typedef struct {
  uint32_t first_launch, last_launch;
  kiln_dim_t bytes;
} life_t;

typedef struct {
  kiln_arena_t *arena;
  uint32_t *free_slots; /* indices of slots, the last freed at the end */
  size_t free_count, free_capacity;
  kiln_dim_t *slot_bytes; /* of the largest temporary where that is known, else of the latest */
  size_t slot_count, slot_capacity;
} slots_t;

/* How well a free slot fits: 0 same size, then large enough, then too small; less is better. */
static double misfit(kiln_dim_t slot, kiln_dim_t wanted) {
  if (kiln_dim_equal(slot, wanted)) return 0;
  if (!kiln_dim_is_constant(slot) || !kiln_dim_is_constant(wanted)) return 1e40;
  double more = (double)slot.constant - (double)wanted.constant;
  return more > 0 ? more : 1e20 - more;
}

static uint32_t take_slot(slots_t *slots, kiln_dim_t bytes) {
  size_t best = SIZE_MAX;
  size_t lowest = slots->free_count > SLOTS_SEARCHED ? slots->free_count - SLOTS_SEARCHED : 0;
  for (size_t i = slots->free_count; i-- > lowest;) {
    double fit = misfit(slots->slot_bytes[slots->free_slots[i]], bytes);
    if (best == SIZE_MAX || fit < misfit(slots->slot_bytes[slots->free_slots[best]], bytes)) best = i;
  }
  if (best == SIZE_MAX) {
    KILN_PUSH(slots->arena, slots->slot_bytes, slots->slot_count, slots->slot_capacity, bytes);
    return (uint32_t)slots->slot_count - 1;
  }
  uint32_t slot = slots->free_slots[best];
  slots->free_slots[best] = slots->free_slots[--slots->free_count];
  if (!kiln_dim_provably_ge(slots->slot_bytes[slot], bytes)) slots->slot_bytes[slot] = bytes;
  return slot;
}

static kiln_dim_t bytes_of(kiln_arena_t *arena, const kiln_type_t *type) {
  kiln_dim_t bytes, element = kiln_dim_constant((int64_t)kiln_dtype_bytes(type->dtype));
  bool fits = kiln_type_elements(arena, type, &bytes) && kiln_dim_mul(arena, bytes, element, &bytes);
  assert(fits); /* the verifier refuses types whose bytes leave 63 bits */
  return bytes;
}

/* Where each temporary is stored first and read last; temporaries are numbered in launch order. */
static life_t *find_lives(const grouping_t *g, const kiln_grouping_t *out, kiln_buffer_ref_t *storage,
                          kiln_value_id_t *temps) {
  life_t *lives = KILN_NEW_ARRAY(g->arena, life_t, out->temp_count);
  for (uint32_t i = 0; i < out->group_count; i++) {
    const kiln_group_t *group = &out->groups[i];
    for (uint32_t k = 0; k < group->store_count; k++) {
      kiln_store_t store = group->stores[k];
      if (store.buffer.kind != KILN_BUFFER_TEMP) continue;
      storage[store.value] = store.buffer;
      temps[store.buffer.index] = store.value;
      lives[store.buffer.index] = (life_t){i, i, bytes_of(g->arena, &g->graph->types[store.value])};
    }
    for (uint32_t k = 0; k < group->input_count; k++) {
      kiln_buffer_ref_t read = storage[group->inputs[k]];
      if (read.kind == KILN_BUFFER_TEMP) lives[read.index].last_launch = i;
    }
  }
  return lives;
}

static uint32_t *assign_slots(kiln_arena_t *arena, const life_t *lives, kiln_grouping_t *out) {
  slots_t slots = {.arena = arena};
  uint32_t *assigned = KILN_NEW_ARRAY(arena, uint32_t, out->temp_count);
  uint32_t *ends =
      KILN_NEW_ARRAY(arena, uint32_t, out->group_count); /* per launch, the first that ends there + 1 */
  uint32_t *others = KILN_NEW_ARRAY(arena, uint32_t, out->temp_count); /* the next one + 1 */
  uint32_t next = 0;
  for (uint32_t launch = 0; launch < out->group_count; launch++) {
    for (; next < out->temp_count && lives[next].first_launch == launch; next++) {
      assigned[next] = take_slot(&slots, lives[next].bytes);
      others[next] = ends[lives[next].last_launch];
      ends[lives[next].last_launch] = next + 1;
    }
    for (uint32_t t = ends[launch]; t; t = others[t - 1]) {
      KILN_PUSH(arena, slots.free_slots, slots.free_count, slots.free_capacity, assigned[t - 1]);
    }
  }
  out->slot_count = (uint32_t)slots.slot_count;
  return assigned;
}

void plan_buffers(const grouping_t *g, kiln_grouping_t *out) {
  const kiln_graph_t *graph = g->graph;
  kiln_buffer_ref_t *storage = KILN_NEW_ARRAY(g->arena, kiln_buffer_ref_t, graph->value_count);
  kiln_value_id_t *temps = KILN_NEW_ARRAY(g->arena, kiln_value_id_t, out->temp_count);
  for (uint32_t o = graph->output_count; o-- > 0;)
    storage[graph->outputs[o]] = (kiln_buffer_ref_t){KILN_BUFFER_OUTPUT, o};
  for (uint32_t i = 0; i < graph->input_count; i++) storage[i] = (kiln_buffer_ref_t){KILN_BUFFER_INPUT, i};
  const life_t *lives = find_lives(g, out, storage, temps);
  out->storage = storage;
  out->temp_values = temps;
  out->temp_slots = assign_slots(g->arena, lives, out);
}
