/* ir/graph.c: building graphs, and small questions about graphs and types.
 *
 * The builder grows its arrays in the arena and hands them over as they are; everything that is given to it
 * is copied deeply, so a pass may build from a graph of another arena. It trusts its callers: what comes from
 * outside is checked by the text parser and the wire decoder (ids) and by ir/verify.c (everything else).
 */
#include "ir/graph.h"

#include <assert.h>
#include <string.h>

#include "ir/shape.h"

enum { DEFAULT_ALIGN_BYTES = 16, DEFAULT_TYPICAL = 1024 };

struct kiln_graph_builder {
  kiln_arena_t *arena;
  const char *name;
  bool has_names;
  uint32_t input_count;
  kiln_symbol_t *symbols;
  kiln_type_t *types;
  const char **value_names;
  uint32_t *producers;
  kiln_layout_t *input_layouts;
  kiln_node_t *nodes;
  kiln_value_id_t *outputs;
  kiln_layout_t *output_layouts;
  size_t symbol_count, value_count, name_count, producer_count, layout_count, node_count, output_count,
      output_layout_count;
  size_t symbol_capacity, value_capacity, name_capacity, producer_capacity, layout_capacity, node_capacity,
      output_capacity, output_layout_capacity;
};

/* --- copies --------------------------------------------------------------------------------------------- */

static kiln_type_t copy_type(kiln_arena_t *arena, const kiln_type_t *type) {
  kiln_type_t copy = {.dtype = type->dtype, .rank = type->rank};
  for (uint32_t i = 0; i < type->rank; i++) copy.dims[i] = kiln_dim_copy(arena, type->dims[i]);
  return copy;
}

static kiln_layout_t copy_layout(kiln_arena_t *arena, const kiln_layout_t *layout) {
  if (!layout) return (kiln_layout_t){.align_bytes = DEFAULT_ALIGN_BYTES};
  kiln_layout_t copy = *layout;
  for (uint32_t i = 0; layout->has_strides && i < KILN_MAX_RANK; i++) {
    copy.strides[i] = kiln_dim_copy(arena, layout->strides[i]);
  }
  return copy;
}

static const kiln_dim_t *copy_dims(kiln_arena_t *arena, const kiln_dim_t *dims, uint32_t count) {
  kiln_dim_t *copy = KILN_NEW_ARRAY(arena, kiln_dim_t, count);
  for (uint32_t i = 0; i < count; i++) copy[i] = kiln_dim_copy(arena, dims[i]);
  return copy;
}

static kiln_attr_value_t copy_attr(kiln_arena_t *arena, const kiln_attr_value_t *attr) {
  kiln_attr_value_t copy = *attr;
  uint32_t count = attr->list.count;
  switch (kiln_attr_kind(attr->attr)) {
  case KILN_ATTR_KIND_WORD:
    copy.word = kiln_arena_strdup(arena, attr->word);
    break;
  case KILN_ATTR_KIND_INTS:
    copy.list.integers = kiln_arena_copy(arena, attr->list.integers, count * sizeof(int64_t));
    break;
  case KILN_ATTR_KIND_DIMS:
    copy.list.dims = copy_dims(arena, attr->list.dims, count);
    break;
  case KILN_ATTR_KIND_NUMBERS:
    copy.list.numbers = kiln_arena_copy(arena, attr->list.numbers, count * sizeof(kiln_number_t));
    break;
  default:
    break;
  }
  return copy;
}

/* A copy of the attributes, sorted by kiln_attr_t. */
static const kiln_attr_value_t *copy_attrs(kiln_arena_t *arena, const kiln_attr_value_t *attrs,
                                           uint32_t count) {
  kiln_attr_value_t *copy = KILN_NEW_ARRAY(arena, kiln_attr_value_t, count);
  for (uint32_t i = 0; i < count; i++) {
    uint32_t place = i;
    for (; place && copy[place - 1].attr > attrs[i].attr; place--) copy[place] = copy[place - 1];
    copy[place] = copy_attr(arena, &attrs[i]);
  }
  return copy;
}

/* --- building ------------------------------------------------------------------------------------------- */

kiln_graph_builder_t *kiln_graph_builder_create(kiln_arena_t *arena, const char *name) {
  kiln_graph_builder_t *builder = KILN_NEW(arena, kiln_graph_builder_t);
  builder->arena = arena;
  builder->name = kiln_arena_strdup(arena, name);
  return builder;
}

unsigned kiln_graph_builder_symbol(kiln_graph_builder_t *builder, const char *name, int64_t typical) {
  kiln_symbol_t symbol = {kiln_arena_strdup(builder->arena, name), typical};
  KILN_PUSH(builder->arena, builder->symbols, builder->symbol_count, builder->symbol_capacity, symbol);
  return (unsigned)builder->symbol_count - 1;
}

static kiln_value_id_t add_value(kiln_graph_builder_t *builder, const kiln_type_t *type, uint32_t producer) {
  assert(builder->value_count < KILN_NO_VALUE);
  kiln_arena_t *arena = builder->arena;
  KILN_PUSH(arena, builder->types, builder->value_count, builder->value_capacity, copy_type(arena, type));
  KILN_PUSH(arena, builder->value_names, builder->name_count, builder->name_capacity, NULL);
  KILN_PUSH(arena, builder->producers, builder->producer_count, builder->producer_capacity, producer);
  return (kiln_value_id_t)builder->value_count - 1;
}

kiln_value_id_t kiln_graph_builder_input(kiln_graph_builder_t *builder, const char *name, kiln_type_t type,
                                         const kiln_layout_t *layout) {
  assert(!builder->node_count);
  kiln_value_id_t value = add_value(builder, &type, KILN_NO_VALUE);
  KILN_PUSH(builder->arena, builder->input_layouts, builder->layout_count, builder->layout_capacity,
            copy_layout(builder->arena, layout));
  if (name) kiln_graph_builder_name(builder, value, name);
  builder->input_count++;
  return value;
}

kiln_value_id_t kiln_graph_builder_node(kiln_graph_builder_t *builder, kiln_op_t op,
                                        const kiln_value_id_t *operands, uint32_t operand_count,
                                        const kiln_attr_value_t *attrs, uint32_t attr_count,
                                        const kiln_type_t *result_types, uint32_t result_count,
                                        uint32_t line) {
  kiln_arena_t *arena = builder->arena;
  kiln_node_t node = {
      .op = op,
      .operand_count = operand_count,
      .result_count = result_count,
      .attr_count = attr_count,
      .first_result = (kiln_value_id_t)builder->value_count,
      .operands = kiln_arena_copy(arena, operands, operand_count * sizeof *operands),
      .attrs = copy_attrs(arena, attrs, attr_count),
      .line = line,
  };
  for (uint32_t i = 0; i < result_count; i++)
    add_value(builder, &result_types[i], (uint32_t)builder->node_count);
  KILN_PUSH(arena, builder->nodes, builder->node_count, builder->node_capacity, node);
  return node.first_result;
}

kiln_status_t kiln_graph_builder_infer(kiln_graph_builder_t *builder, kiln_op_t op,
                                       const kiln_value_id_t *operands, uint32_t operand_count,
                                       const kiln_attr_value_t *attrs, uint32_t attr_count, uint32_t line,
                                       kiln_value_id_t *out_first_result) {
  kiln_arena_t *arena = builder->arena;
  const kiln_type_t **types = KILN_NEW_ARRAY(arena, const kiln_type_t *, operand_count);
  for (uint32_t i = 0; i < operand_count; i++) {
    types[i] = operands[i] == KILN_NO_VALUE ? NULL : kiln_graph_builder_type(builder, operands[i]);
  }
  uint32_t result_count;
  KILN_TRY(kiln_shape_result_count(op, attrs, attr_count, &result_count));
  kiln_type_t single,
      *results = result_count == 1 ? &single : KILN_NEW_ARRAY(arena, kiln_type_t, result_count);
  KILN_TRY(kiln_shape_infer_named(arena, builder->symbols, op, types, operand_count, attrs, attr_count,
                                  results, result_count, NULL));
  *out_first_result = kiln_graph_builder_node(builder, op, operands, operand_count, attrs, attr_count,
                                              results, result_count, line);
  return NULL;
}

void kiln_graph_builder_name(kiln_graph_builder_t *builder, kiln_value_id_t value, const char *name) {
  assert(value < builder->value_count);
  builder->value_names[value] = kiln_arena_strdup(builder->arena, name);
  builder->has_names = true;
}

const kiln_type_t *kiln_graph_builder_type(const kiln_graph_builder_t *builder, kiln_value_id_t value) {
  assert(value < builder->value_count);
  return &builder->types[value];
}

const kiln_node_t *kiln_graph_builder_producer(const kiln_graph_builder_t *builder, kiln_value_id_t value) {
  assert(value < builder->value_count);
  uint32_t node = builder->producers[value];
  return node == KILN_NO_VALUE ? NULL : &builder->nodes[node];
}

void kiln_graph_builder_output(kiln_graph_builder_t *builder, kiln_value_id_t value,
                               const kiln_layout_t *layout) {
  assert(value < builder->value_count);
  KILN_PUSH(builder->arena, builder->outputs, builder->output_count, builder->output_capacity, value);
  KILN_PUSH(builder->arena, builder->output_layouts, builder->output_layout_count,
            builder->output_layout_capacity, copy_layout(builder->arena, layout));
}

const kiln_graph_t *kiln_graph_builder_finish(kiln_graph_builder_t *builder) {
  kiln_graph_t *graph = KILN_NEW(builder->arena, kiln_graph_t);
  *graph = (kiln_graph_t){
      .name = builder->name,
      .symbol_count = (uint32_t)builder->symbol_count,
      .input_count = builder->input_count,
      .node_count = (uint32_t)builder->node_count,
      .output_count = (uint32_t)builder->output_count,
      .value_count = (uint32_t)builder->value_count,
      .symbols = builder->symbols,
      .types = builder->types,
      .value_names = builder->has_names ? builder->value_names : NULL,
      .producers = builder->producers,
      .input_layouts = builder->input_layouts,
      .nodes = builder->nodes,
      .outputs = builder->outputs,
      .output_layouts = builder->output_layouts,
  };
  return graph;
}

/* --- reading -------------------------------------------------------------------------------------------- */

const kiln_attr_value_t *kiln_node_attr(const kiln_node_t *node, kiln_attr_t attr) {
  for (uint32_t i = 0; i < node->attr_count; i++) {
    if (node->attrs[i].attr == attr) return &node->attrs[i];
  }
  return NULL;
}

int64_t kiln_node_int(const kiln_node_t *node, kiln_attr_t attr, int64_t otherwise) {
  const kiln_attr_value_t *value = kiln_node_attr(node, attr);
  if (!value) return otherwise;
  switch (kiln_attr_kind(attr)) {
  case KILN_ATTR_KIND_BOOL:
    return value->flag;
  case KILN_ATTR_KIND_DTYPE:
    return (int64_t)value->dtype;
  default:
    assert(kiln_attr_kind(attr) == KILN_ATTR_KIND_INT);
    return value->integer;
  }
}

const kiln_node_t *kiln_graph_producer(const kiln_graph_t *graph, kiln_value_id_t value) {
  uint32_t node = graph->producers[value];
  return node == KILN_NO_VALUE ? NULL : &graph->nodes[node];
}

void kiln_graph_typical_symbols(const kiln_graph_t *graph, int64_t out[KILN_MAX_SYMBOLS]) {
  for (uint32_t i = 0; i < KILN_MAX_SYMBOLS; i++) {
    out[i] = i < graph->symbol_count ? graph->symbols[i].typical : 0;
    if (!out[i]) out[i] = DEFAULT_TYPICAL;
  }
}

const char *kiln_graph_value_name(kiln_arena_t *arena, const kiln_graph_t *graph, kiln_value_id_t value) {
  const char *name = graph->value_names ? graph->value_names[value] : NULL;
  return name ? kiln_arena_printf(arena, "%%%s", name) : kiln_arena_printf(arena, "%%t%u", value);
}

bool kiln_type_same_shape(const kiln_type_t *a, const kiln_type_t *b) {
  if (a->rank != b->rank) return false;
  for (uint32_t i = 0; i < a->rank; i++) {
    if (!kiln_dim_equal(a->dims[i], b->dims[i])) return false;
  }
  return true;
}

bool kiln_type_equal(const kiln_type_t *a, const kiln_type_t *b) {
  return a->dtype == b->dtype && kiln_type_same_shape(a, b);
}

bool kiln_type_elements(kiln_arena_t *arena, const kiln_type_t *type, kiln_dim_t *out) {
  *out = kiln_dim_constant(kiln_type_is_empty(type) ? 0 : 1);
  for (uint32_t i = 0; i < type->rank; i++) {
    if (!kiln_dim_mul(arena, *out, type->dims[i], out)) return false;
  }
  return true;
}

bool kiln_type_is_empty(const kiln_type_t *type) {
  for (uint32_t i = 0; i < type->rank; i++) {
    if (kiln_dim_is(type->dims[i], 0)) return true;
  }
  return false;
}

bool kiln_type_strides(kiln_arena_t *arena, const kiln_type_t *type, kiln_dim_t out[KILN_MAX_RANK]) {
  kiln_dim_t stride = kiln_dim_constant(1);
  for (uint32_t i = type->rank; i-- > 0;) {
    out[i] = stride;
    if (kiln_dim_mul(arena, stride, type->dims[i], &stride)) continue;
    if (!kiln_type_is_empty(type)) return false;
    stride = kiln_dim_constant(0); /* nothing is addressed */
  }
  return true;
}

void kiln_type_print(kiln_buffer_t *out, const kiln_type_t *type, const kiln_symbol_t *symbols) {
  const char *names[KILN_MAX_SYMBOLS] = {"s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7"};
  uint32_t used = 0;
  for (uint32_t i = 0; i < type->rank; i++) used |= kiln_dim_symbols(type->dims[i]);
  for (unsigned s = 0; symbols && s < KILN_MAX_SYMBOLS; s++) {
    if (used >> s & 1) names[s] = symbols[s].name;
  }
  kiln_buffer_printf(out, "%s[", kiln_dtype_name(type->dtype));
  for (uint32_t i = 0; i < type->rank; i++) {
    if (i) kiln_buffer_puts(out, ",");
    kiln_dim_print(out, type->dims[i], names);
  }
  kiln_buffer_puts(out, "]");
}
