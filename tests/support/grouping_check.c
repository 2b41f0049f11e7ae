/* tests/support/grouping_check.c: the rules of a grouping, checked without looking at how it was made. */
#include "tests/support/grouping_check.h"

#include <string.h>

#define RULE(condition, ...)                                                                                 \
  do {                                                                                                       \
    if (!(condition)) return kiln_arena_printf(c->arena, __VA_ARGS__);                                       \
  } while (0)

#define TRY(fault)                                                                                           \
  do {                                                                                                       \
    const char *fault_ = (fault);                                                                            \
    if (fault_) return fault_;                                                                               \
  } while (0)

typedef struct {
  kiln_arena_t *arena;
  const kiln_graph_t *graph;
  const kiln_grouping_t *grouping;
  uint32_t *stamps, stamp; /* per value: equal to stamp when it is at hand */
  int64_t *missing;        /* per value: elements that nobody has written yet; -1: nobody writes it */
  uint32_t *written_in;    /* per value: the last launch that writes it */
} check_t;

static kiln_value_id_t held_value(const kiln_store_t *store) {
  return store->window ? store->window->of : store->value;
}

static int64_t elements_of(const check_t *c, kiln_value_id_t value) {
  kiln_dim_t elements;
  bool fits = kiln_type_elements(c->arena, &c->graph->types[value], &elements);
  return fits && kiln_dim_is_constant(elements) ? elements.constant : 1; /* symbols: whole windows only */
}

static const char *check_closed(check_t *c, const kiln_group_t *group, uint32_t launch) {
  c->stamp++;
  for (uint32_t m = 0; group->join == KILN_JOIN_SEQUENCE && m < group->member_count; m++) {
    const kiln_group_t *member = &group->members[m];
    for (uint32_t i = 0; i < member->store_count; i++) c->stamps[member->stores[i].value] = c->stamp;
  }
  for (uint32_t i = 0; i < group->input_count; i++) c->stamps[group->inputs[i]] = c->stamp;
  for (uint32_t i = 0; i < group->node_count; i++) {
    const kiln_node_t *node = &c->graph->nodes[group->nodes[i]];
    RULE(!i || group->nodes[i - 1] < group->nodes[i], "launch %u: nodes are not in order", launch);
    for (uint32_t k = 0; k < node->operand_count; k++)
      RULE(node->operands[k] == KILN_NO_VALUE || c->stamps[node->operands[k]] == c->stamp,
           "launch %u: value %u is not at hand", launch, node->operands[k]);
    for (uint32_t r = 0; r < node->result_count; r++) {
      bool is_read = c->stamps[node->first_result + r] == c->stamp;
      /* A split may stand here for one of its results while another is read. */
      RULE(!is_read || group->member_count > 1 || node->result_count > 1,
           "launch %u: value %u is read and computed", launch, node->first_result + r);
      c->stamps[node->first_result + r] = c->stamp;
    }
  }
  RULE(group->store_count > 0, "launch %u stores nothing", launch);
  for (uint32_t i = 0; i < group->store_count; i++)
    RULE(c->stamps[group->stores[i].value] == c->stamp, "launch %u: value %u is stored and not at hand",
         launch, group->stores[i].value);
  return NULL;
}

static const char *check_members(check_t *c, const kiln_group_t *group, uint32_t launch) {
  uint32_t stores = 0;
  RULE(group->member_count > 1 ? group->members != NULL : group->members == NULL && group->member_count == 1,
       "launch %u: members", launch);
  for (uint32_t m = 0; group->members && m < group->member_count; m++) {
    const kiln_group_t *member = &group->members[m];
    RULE(group->join == KILN_JOIN_BESIDE || !strcmp(member->kind, group->kind),
         "launch %u: members of two families", launch);
    RULE(member->member_count == 1 && !member->members, "launch %u: a member has members", launch);
    TRY(check_closed(c, member, launch));
    stores += member->store_count;
  }
  RULE(!group->members || stores == group->store_count, "launch %u: a store is nobody's", launch);
  return NULL;
}

/* What is read was written whole by earlier launches of lower levels, unless it is empty. */
static const char *check_reads(check_t *c, const kiln_group_t *group, uint32_t launch) {
  for (uint32_t i = 0; i < group->input_count; i++) {
    kiln_value_id_t input = group->inputs[i];
    RULE(!i || group->inputs[i - 1] < input, "launch %u: inputs are not in order", launch);
    if (input < c->graph->input_count || kiln_type_is_empty(&c->graph->types[input])) continue;
    RULE(c->missing[input] == 0, "launch %u reads value %u, of which %lld elements are missing", launch,
         input, (long long)c->missing[input]);
    const kiln_group_t *writer = &c->grouping->groups[c->written_in[input]];
    RULE(c->written_in[input] < launch && writer->level < group->level,
         "launch %u of level %u reads what launch %u of level %u writes", launch, group->level,
         c->written_in[input], writer->level);
  }
  return NULL;
}

static const char *check_writes(check_t *c, const kiln_group_t *group, uint32_t launch, int64_t *outputs) {
  for (uint32_t i = 0; i < group->store_count; i++) {
    const kiln_store_t *store = &group->stores[i];
    kiln_value_id_t held = held_value(store);
    int64_t count = elements_of(c, store->value);
    if (store->buffer.kind == KILN_BUFFER_OUTPUT) {
      kiln_type_t wanted = c->graph->types[c->graph->outputs[store->buffer.index]];
      RULE(kiln_type_equal(&wanted, &c->graph->types[held]), "launch %u: an output of another type", launch);
      outputs[store->buffer.index] -= count;
    }
    kiln_buffer_ref_t home = c->grouping->storage[held];
    if (home.kind != store->buffer.kind || home.index != store->buffer.index) continue; /* one more copy */
    if (c->missing[held] < 0) c->missing[held] = elements_of(c, held);
    c->missing[held] -= count;
    c->written_in[held] = launch;
  }
  return NULL;
}

/* One store, of this shape and width; and nothing but work on points of this shape, or single values. */
static bool may_overwrite(const check_t *c, const kiln_group_t *group, kiln_value_id_t read) {
  const kiln_type_t *types = c->graph->types, *stored = &types[group->stores[0].value];
  if (strcmp(group->kind, "elementwise") || group->member_count > 1 || group->store_count > 1) return false;
  if (!kiln_type_same_shape(stored, &types[read])) return false;
  if (kiln_dtype_bytes(stored->dtype) != kiln_dtype_bytes(types[read].dtype)) return false;
  for (uint32_t i = 0; i < group->node_count; i++) {
    kiln_value_id_t made = c->graph->nodes[group->nodes[i]].first_result;
    bool is_full = c->graph->nodes[group->nodes[i]].op == KILN_OP_full;
    bool is_elementwise =
        kiln_op_info(c->graph->nodes[group->nodes[i]].op)->op_class == KILN_CLASS_ELEMENTWISE;
    bool is_one = elements_of(c, made) == 1;
    if (!(is_full && is_one) && !(is_elementwise && (is_one || kiln_type_same_shape(stored, &types[made]))))
      return false;
  }
  return true;
}

static const char *check_slots(check_t *c) {
  const kiln_grouping_t *g = c->grouping;
  uint32_t *last = KILN_NEW_ARRAY(c->arena, uint32_t, g->temp_count);
  uint32_t *owners = KILN_NEW_ARRAY(c->arena, uint32_t, g->slot_count); /* temporary + 1 */
  for (uint32_t i = 0; i < g->group_count; i++) {
    const kiln_group_t *group = &g->groups[i];
    for (uint32_t k = 0; k < group->store_count; k++)
      if (group->stores[k].buffer.kind == KILN_BUFFER_TEMP) last[group->stores[k].buffer.index] = i;
    for (uint32_t k = 0; k < group->input_count; k++) {
      kiln_buffer_ref_t home = g->storage[group->inputs[k]];
      if (group->inputs[k] >= c->graph->input_count && home.kind == KILN_BUFFER_TEMP) last[home.index] = i;
    }
  }
  for (uint32_t i = 0; i < g->group_count; i++) {
    for (uint32_t k = 0; k < g->groups[i].store_count; k++) {
      const kiln_store_t *store = &g->groups[i].stores[k];
      if (store->buffer.kind != KILN_BUFFER_TEMP) continue;
      uint32_t temp = store->buffer.index, slot = g->temp_slots[temp];
      RULE(slot < g->slot_count && g->temp_values[temp] == held_value(store), "temporary %u", temp);
      uint32_t owner = owners[slot];
      bool in_place = owner && may_overwrite(c, &g->groups[i], g->temp_values[owner - 1]);
      RULE(!owner || owner == temp + 1 || last[owner - 1] < i || (in_place && last[owner - 1] == i),
           "temporaries %u and %u share a slot in launch %u", temp, owner - 1, i);
      owners[slot] = temp + 1;
    }
  }
  return NULL;
}

const char *kiln_test_grouping_fault(kiln_arena_t *arena, const kiln_graph_t *graph,
                                     const kiln_grouping_t *grouping) {
  check_t check = {.arena = arena,
                   .graph = graph,
                   .grouping = grouping,
                   .stamps = KILN_NEW_ARRAY(arena, uint32_t, graph->value_count),
                   .missing = KILN_NEW_ARRAY(arena, int64_t, graph->value_count),
                   .written_in = KILN_NEW_ARRAY(arena, uint32_t, graph->value_count)};
  check_t *c = &check;
  int64_t *outputs = KILN_NEW_ARRAY(arena, int64_t, graph->output_count);
  for (uint32_t v = 0; v < graph->value_count; v++) check.missing[v] = -1;
  for (uint32_t o = 0; o < graph->output_count; o++) outputs[o] = elements_of(c, graph->outputs[o]);
  for (uint32_t i = 0; i < grouping->group_count; i++) {
    const kiln_group_t *group = &grouping->groups[i];
    TRY(check_closed(c, group, i));
    TRY(check_members(c, group, i));
    TRY(check_reads(c, group, i));
    TRY(check_writes(c, group, i, outputs));
  }
  for (uint32_t o = 0; o < graph->output_count; o++)
    RULE(outputs[o] == 0, "%lld elements of output %u are not written, or twice", (long long)outputs[o], o);
  return check_slots(c);
}
