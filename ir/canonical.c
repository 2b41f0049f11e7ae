/* ir/canonical.c: the one form of a verified graph.
 *
 *   1. every node gets the one spelling of its attributes (canonical_attrs.c)
 *   2. in node order, a node whose key (canonical_key.c) occurred before is replaced by the node that had it
 *   3. from the outputs, in post-order with an explicit stack, nodes that are needed get their new places
 *   4. boundary layouts lose what has no meaning: strides of axes of size 1, strides that are the dense ones
 *
 * Linear in the graph. Names travel along and stay out of the key. Runs in the server before every look-up.
 */
#include "ir/canonical.h"

#include "base/map.h"
#include "ir/canonical_attrs.h"
#include "ir/canonical_key.h"

typedef struct {
  kiln_arena_t *arena;
  const kiln_graph_t *graph;
  kiln_node_t *nodes;      /* with canonical attributes and operands */
  kiln_value_id_t *shared; /* per value: the first one equal to it */
  kiln_value_id_t *places; /* per value: its id in the new graph */
  kiln_graph_builder_t *builder;
} work_t;

/* --- steps 1 and 2 -------------------------------------------------------------------------------------- */

static kiln_value_id_t *share_operands(work_t *work, const kiln_node_t *node) {
  kiln_value_id_t *operands = KILN_NEW_ARRAY(work->arena, kiln_value_id_t, node->operand_count);
  for (uint32_t i = 0; i < node->operand_count; i++) {
    operands[i] = node->operands[i] == KILN_NO_VALUE ? KILN_NO_VALUE : work->shared[node->operands[i]];
  }
  return operands;
}

static void share_equal_nodes(work_t *work) {
  const kiln_graph_t *graph = work->graph;
  kiln_map_t *seen = kiln_map_create(work->arena);
  kiln_buffer_t *key = kiln_buffer_in_arena(work->arena);
  for (kiln_value_id_t input = 0; input < graph->input_count; input++) work->shared[input] = input;
  for (uint32_t i = 0; i < graph->node_count; i++) {
    kiln_node_t *node = &work->nodes[i];
    *node = graph->nodes[i];
    node->operands = share_operands(work, node);
    node->attrs = kiln_canonical_attrs(work->arena, graph, &graph->nodes[i], &node->attr_count);
    kiln_buffer_clear(key);
    kiln_key_node(key, node, node->operands, graph->types[node->first_result].dtype);
    kiln_key_check(work->arena, key);
    bool added;
    uint64_t *first = kiln_map_put(seen, key->data, key->size, &added);
    if (added) *first = node->first_result;
    for (uint32_t r = 0; r < node->result_count; r++) {
      work->shared[node->first_result + r] = (kiln_value_id_t)*first + r;
    }
  }
}

/* --- step 3 --------------------------------------------------------------------------------------------- */

static void name_value(work_t *work, kiln_value_id_t old, kiln_value_id_t value) {
  const char *name = work->graph->value_names ? work->graph->value_names[old] : NULL;
  if (name) kiln_graph_builder_name(work->builder, value, name);
}

static void emit(work_t *work, const kiln_node_t *node) {
  kiln_value_id_t *operands = (kiln_value_id_t *)node->operands; /* ours, from share_operands */
  for (uint32_t i = 0; i < node->operand_count; i++) {
    if (operands[i] != KILN_NO_VALUE) operands[i] = work->places[operands[i]];
  }
  kiln_value_id_t first = kiln_graph_builder_node(
      work->builder, node->op, operands, node->operand_count, node->attrs, node->attr_count,
      &work->graph->types[node->first_result], node->result_count, node->line);
  for (uint32_t r = 0; r < node->result_count; r++) {
    work->places[node->first_result + r] = first + r;
    name_value(work, node->first_result + r, first + r);
  }
}

/* A node on the way to an output, and how many of its operands were looked at. */
typedef struct {
  uint32_t node, next_operand;
} frame_t;

typedef struct {
  frame_t *frames;
  size_t count, capacity;
} stack_t;

/* Pushes the value's node unless it has its place already. */
static void visit(work_t *work, stack_t *stack, kiln_value_id_t value) {
  if (value == KILN_NO_VALUE || work->places[value] != KILN_NO_VALUE) return;
  frame_t frame = {work->graph->producers[value], 0};
  KILN_PUSH(work->arena, stack->frames, stack->count, stack->capacity, frame);
}

/* Operands before nodes. A node stands on the stack once at most: its operands have smaller ids than it. */
static void place_nodes(work_t *work, stack_t *stack, kiln_value_id_t output) {
  visit(work, stack, output);
  while (stack->count) {
    frame_t *top = &stack->frames[stack->count - 1];
    const kiln_node_t *node = &work->nodes[top->node];
    if (top->next_operand < node->operand_count) {
      visit(work, stack, node->operands[top->next_operand++]);
    } else {
      emit(work, node);
      stack->count--;
    }
  }
}

/* --- step 4 --------------------------------------------------------------------------------------------- */

static kiln_layout_t normalize_layout(work_t *work, const kiln_type_t *type, const kiln_layout_t *layout) {
  kiln_layout_t result = {.align_bytes = layout->align_bytes};
  kiln_dim_t dense[KILN_MAX_RANK];
  if (!layout->has_strides || kiln_type_is_empty(type)) return result;
  bool comparable = kiln_type_strides(work->arena, type, dense);
  for (uint32_t i = 0; i < type->rank; i++) {
    bool counts = !kiln_dim_is(type->dims[i], 1);
    if (counts) result.strides[i] = layout->strides[i];
    if (counts && !(comparable && kiln_dim_equal(layout->strides[i], dense[i]))) result.has_strides = true;
  }
  if (!result.has_strides) return (kiln_layout_t){.align_bytes = layout->align_bytes};
  return result;
}

/* --- the whole ------------------------------------------------------------------------------------------ */

/* Cost rules see a symbol's magnitude, never its value: the power of two at or below it. */
static int64_t magnitude(int64_t typical) {
  return typical > 0 ? (int64_t)1 << (63 - __builtin_clzll((unsigned long long)typical)) : 0;
}

static void copy_boundary_in(work_t *work) {
  const kiln_graph_t *graph = work->graph;
  for (uint32_t s = 0; s < graph->symbol_count; s++) {
    kiln_graph_builder_symbol(work->builder, graph->symbols[s].name, magnitude(graph->symbols[s].typical));
  }
  for (kiln_value_id_t i = 0; i < graph->input_count; i++) {
    kiln_layout_t layout = normalize_layout(work, &graph->types[i], &graph->input_layouts[i]);
    const char *name = graph->value_names ? graph->value_names[i] : NULL;
    work->places[i] = kiln_graph_builder_input(work->builder, name, graph->types[i], &layout);
  }
}

const kiln_graph_t *kiln_graph_canonicalize(kiln_arena_t *arena, const kiln_graph_t *graph) {
  work_t work = {
      .arena = arena,
      .graph = graph,
      .nodes = KILN_NEW_ARRAY(arena, kiln_node_t, graph->node_count),
      .shared = KILN_NEW_ARRAY(arena, kiln_value_id_t, graph->value_count),
      .places = KILN_NEW_ARRAY(arena, kiln_value_id_t, graph->value_count),
      .builder = kiln_graph_builder_create(arena, graph->name),
  };
  for (uint32_t i = 0; i < graph->value_count; i++) work.places[i] = KILN_NO_VALUE;
  share_equal_nodes(&work);
  copy_boundary_in(&work);
  stack_t stack = {0};
  for (uint32_t i = 0; i < graph->output_count; i++) {
    kiln_value_id_t output = work.shared[graph->outputs[i]];
    place_nodes(&work, &stack, output);
    kiln_layout_t layout = normalize_layout(&work, &graph->types[output], &graph->output_layouts[i]);
    kiln_graph_builder_output(work.builder, work.places[output], &layout);
  }
  return kiln_graph_builder_finish(work.builder);
}
