/* passes/buffers.c: where the results of the groups lie.
 *
 * Last step of kiln_group (passes/group.c). A returned value is read from its output buffer; every other
 * stored value is a temporary. A temporary lives from the launch that stores it to the last that reads it;
 * launches run in order, so those whose lives do not meet may share a slot of the arena. Slots are chosen by
 * linear scan: of the free ones, one whose latest temporary has the same size, else the smallest constant one
 * that is large enough, else the largest, which grows. A slot is as large as the largest of its temporaries.
 *
 * In place: an element-wise kernel may write over a temporary that dies there when it reads each element only
 * for the one that it stores in its place, which one thread does. Its parameters are then not __restrict__
 * (codegen/emit.c). Rows and contractions are not done in place: their threads may fetch more than they use.
 */
#include <assert.h>
#include <string.h>

#include "passes/grouping.h"

enum { SLOTS_SEARCHED = 64 };

typedef struct {
  bool is_stored;
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

/* A temporary's life with one more launch that writes it. */
static life_t with_store(const grouping_t *g, life_t life, kiln_value_id_t held, uint32_t launch) {
  if (!life.is_stored) life = (life_t){true, launch, launch, bytes_of(g->arena, &g->graph->types[held])};
  life.last_launch = launch;
  return life;
}

/* Where each temporary is stored first and read last. */
static life_t *find_lives(const grouping_t *g, const kiln_grouping_t *out, kiln_buffer_ref_t *storage,
                          kiln_value_id_t *temps) {
  life_t *lives = KILN_NEW_ARRAY(g->arena, life_t, out->temp_count);
  for (uint32_t i = 0; i < out->group_count; i++) {
    const kiln_group_t *group = &out->groups[i];
    for (uint32_t k = 0; k < group->store_count; k++) {
      const kiln_store_t *store = &group->stores[k];
      kiln_value_id_t held = store->window ? store->window->of : store->value;
      if (store->buffer.kind != KILN_BUFFER_TEMP) continue;
      storage[held] = store->buffer;
      temps[store->buffer.index] = held;
      lives[store->buffer.index] = with_store(g, lives[store->buffer.index], held, i);
    }
    for (uint32_t k = 0; k < group->input_count; k++) {
      kiln_buffer_ref_t read = storage[group->inputs[k]];
      if (read.kind == KILN_BUFFER_TEMP) lives[read.index].last_launch = i;
    }
  }
  return lives;
}

/* Temporaries by the launch at which something happens to them, in order. */
typedef struct {
  uint32_t *first, *next; /* per launch, per temporary: a temporary + 1 */
} events_t;

static events_t events_create(kiln_arena_t *arena, const kiln_grouping_t *out) {
  return (events_t){KILN_NEW_ARRAY(arena, uint32_t, out->group_count),
                    KILN_NEW_ARRAY(arena, uint32_t, out->temp_count)};
}

static void add_event(events_t *events, uint32_t launch, uint32_t temp) {
  events->next[temp] = events->first[launch];
  events->first[launch] = temp + 1;
}

static bool is_point(const kiln_type_t *type) {
  for (uint32_t i = 0; i < type->rank; i++) {
    if (!kiln_dim_is(type->dims[i], 1)) return false;
  }
  return true;
}

/* Does one store of a group depend on the same point of everything, so that a thread has nothing but its own?
 */
static bool works_point_by_point(const kiln_graph_t *graph, const kiln_group_t *group) {
  if (strcmp(group->kind, "elementwise") || group->member_count > 1) return false;
  if (group->store_count != 1 || group->stores[0].window) return false;
  const kiln_type_t *stored = &graph->types[group->stores[0].value];
  for (uint32_t i = 0; i < group->node_count; i++) {
    const kiln_node_t *node = &graph->nodes[group->nodes[i]];
    const kiln_type_t *type = &graph->types[node->first_result];
    bool is_elementwise = kiln_op_info(node->op)->op_class == KILN_CLASS_ELEMENTWISE;
    bool fits = is_elementwise ? kiln_type_same_shape(type, stored) || is_point(type)
                               : node->op == KILN_OP_full && is_point(type);
    if (!fits) return false;
  }
  for (uint32_t i = 0; i < group->input_count; i++) {
    const kiln_type_t *type = &graph->types[group->inputs[i]];
    if (!kiln_type_same_shape(type, stored) && !is_point(type)) return false;
  }
  return true;
}

/* The temporary over which a launch may write its own, + 1; 0: none. */
static uint32_t find_overwritten(const grouping_t *g, const life_t *lives, const kiln_buffer_ref_t *storage,
                                 const kiln_group_t *group, uint32_t launch) {
  if (!works_point_by_point(g->graph, group) || g->options->unfused) return 0;
  const kiln_type_t *stored = &g->graph->types[group->stores[0].value];
  for (uint32_t i = 0; i < group->input_count; i++) {
    const kiln_type_t *type = &g->graph->types[group->inputs[i]];
    kiln_buffer_ref_t home = storage[group->inputs[i]];
    if (group->inputs[i] < g->graph->input_count || home.kind != KILN_BUFFER_TEMP) continue;
    bool is_as_wide = kiln_dtype_bytes(type->dtype) == kiln_dtype_bytes(stored->dtype);
    if (lives[home.index].last_launch == launch && is_as_wide && kiln_type_same_shape(type, stored))
      return home.index + 1;
  }
  return 0;
}

static uint32_t *assign_slots(const grouping_t *g, const life_t *lives, const kiln_buffer_ref_t *storage,
                              kiln_grouping_t *out) {
  kiln_arena_t *arena = g->arena;
  slots_t slots = {.arena = arena};
  uint32_t *assigned = KILN_NEW_ARRAY(arena, uint32_t, out->temp_count);
  bool *is_overwritten = KILN_NEW_ARRAY(arena, bool, out->temp_count);
  events_t begins = events_create(arena, out), ends = events_create(arena, out);
  for (uint32_t t = out->temp_count; t-- > 0;) {
    add_event(&begins, lives[t].first_launch, t);
    add_event(&ends, lives[t].last_launch, t);
  }
  for (uint32_t launch = 0; launch < out->group_count; launch++) {
    uint32_t overwritten =
        begins.first[launch] ? find_overwritten(g, lives, storage, &out->groups[launch], launch) : 0;
    for (uint32_t t = begins.first[launch]; t; t = begins.next[t - 1])
      assigned[t - 1] = overwritten ? assigned[overwritten - 1] : take_slot(&slots, lives[t - 1].bytes);
    if (overwritten) is_overwritten[overwritten - 1] = true;
    for (uint32_t t = ends.first[launch]; t; t = ends.next[t - 1])
      if (!is_overwritten[t - 1])
        KILN_PUSH(arena, slots.free_slots, slots.free_count, slots.free_capacity, assigned[t - 1]);
  }
  out->slot_count = (uint32_t)slots.slot_count;
  return assigned;
}

double arena_bytes_of(const grouping_t *g, const kiln_grouping_t *planned) {
  double *slots = KILN_NEW_ARRAY(g->arena, double, planned->slot_count), total = 0;
  for (uint32_t t = 0; t < planned->temp_count; t++) {
    double bytes = typical_bytes(g->graph, &g->graph->types[planned->temp_values[t]]);
    double *slot = &slots[planned->temp_slots[t]];
    if (bytes > *slot) *slot = bytes;
  }
  for (uint32_t i = 0; i < planned->slot_count; i++) total += slots[i];
  return total;
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
  out->temp_slots = assign_slots(g, lives, storage, out);
}
