/* codegen/member_graph.c: the small graph of a member: what all members of its class compute, over symbols.
 *
 * A plane has two axes, M rows of N; what is a row, a column or a point of it has 1 there, so that NumPy's
 * broadcasting says the rest. Leaves are inputs with strides. Called by grouped.c, and by member.c for the
 * key of the class, which are the bytes of this graph.
 */
#include "codegen/member.h"

#include <string.h>

enum { MOST_ATTRS = 8 };

typedef struct {
  kiln_arena_t *arena;
  const kiln_member_t *member;
  kiln_graph_builder_t *builder;
  kiln_value_id_t *results; /* per step */
  uint32_t align_multiple;
  kiln_member_graph_t *out;
} writer_t;

static kiln_dim_t symbol(const writer_t *w, uint32_t number) { return kiln_dim_symbol(w->arena, number); }

static kiln_dim_t columns_of(const writer_t *w) {
  return kiln_member_keeps_columns(w->member) ? w->member->symbols[KILN_MEMBER_N] : symbol(w, KILN_MEMBER_N);
}

static kiln_dim_t size(const writer_t *w, uint32_t axes, uint32_t axis) {
  static const uint32_t has[] = {
      [KILN_MEMBER_M] = KILN_HAS_M, [KILN_MEMBER_N] = KILN_HAS_N, [KILN_MEMBER_K] = KILN_HAS_K};
  if (!(axes & has[axis])) return kiln_dim_constant(1);
  return axis == KILN_MEMBER_N ? columns_of(w) : symbol(w, axis);
}

static kiln_type_t plane_type(const writer_t *w, uint32_t axes, kiln_dtype_t dtype) {
  return (kiln_type_t){
      .dtype = dtype, .rank = 2, .dims = {size(w, axes, KILN_MEMBER_M), size(w, axes, KILN_MEMBER_N)}};
}

/* --- leaves -------------------------------------------------------------------------------------------- */

static kiln_type_t leaf_type(const writer_t *w, const kiln_leaf_t *leaf, kiln_layout_t *layout) {
  const kiln_dim_t one = kiln_dim_constant(1);
  uint32_t bytes = (uint32_t)kiln_dtype_bytes(leaf->dtype) * w->align_multiple, outer, inner;
  *layout = (kiln_layout_t){.has_strides = true, .align_bytes = bytes < 16 ? bytes : 16};
  layout->strides[0] = layout->strides[1] = one;
  if (leaf->is_vector) return (kiln_type_t){.dtype = leaf->dtype, .rank = 1, .dims = {columns_of(w)}};
  kiln_leaf_axes(leaf, &outer, &inner);
  kiln_type_t type = {
      .dtype = leaf->dtype, .rank = 2, .dims = {size(w, leaf->axes, outer), size(w, leaf->axes, inner)}};
  bool is_plane = (leaf->axes & (leaf->axes - 1)) != 0;
  if (is_plane)
    layout->strides[leaf->is_transposed] =
        leaf->stride_symbol >= 0 ? symbol(w, (uint32_t)leaf->stride_symbol) : type.dims[!leaf->is_transposed];
  return type;
}

static void add_inputs(writer_t *w) {
  for (size_t i = 0; i < w->member->leaf_count; i++) {
    const kiln_leaf_t *leaf = &w->member->leaves[i];
    kiln_layout_t layout;
    kiln_type_t type = leaf_type(w, leaf, &layout);
    kiln_graph_builder_input(w->builder, NULL, type, &layout);
  }
}

/* --- steps --------------------------------------------------------------------------------------------- */

static kiln_value_id_t operand(const writer_t *w, uint32_t number) {
  if (number == UINT32_MAX) return KILN_NO_VALUE;
  return number % 2 ? w->results[number / 2] : number / 2;
}

static kiln_attr_value_t list_of(const writer_t *w, kiln_attr_t attr, const kiln_dim_t *dims,
                                 uint32_t count) {
  kiln_attr_value_t value = {.attr = attr};
  value.list.count = count;
  value.list.dims = kiln_arena_copy(w->arena, dims, count * sizeof *dims);
  return value;
}

/* What names axes or sizes, as it is in the plane. */
static kiln_attr_value_t in_plane(const writer_t *w, const kiln_step_t *step, kiln_attr_value_t attr) {
  static const int64_t last = 1;
  const kiln_dim_t columns = columns_of(w), ones[] = {kiln_dim_constant(1), kiln_dim_constant(1)};
  switch (attr.attr) {
  case KILN_ATTR_normalized_shape:
    return list_of(w, attr.attr, &columns, 1);
  case KILN_ATTR_shape:
    return list_of(w, attr.attr, ones, 2);
  case KILN_ATTR_dims:
    attr.list.count = 1;
    attr.list.integers = &last;
    return attr;
  case KILN_ATTR_dim:
    attr.integer = last;
    return attr;
  case KILN_ATTR_keepdim:
    attr.flag = true;
    return attr;
  case KILN_ATTR_eps:
    if (step->eps_symbol >= 0) attr.real = 0;
    return attr;
  default:
    return attr;
  }
}

static void put_attr(kiln_attr_value_t *attrs, uint32_t *count, kiln_attr_value_t value) {
  uint32_t i = *count;
  while (i && attrs[i - 1].attr > value.attr) {
    attrs[i] = attrs[i - 1];
    i--;
  }
  attrs[i] = value;
  ++*count;
}

/* Reductions keep their axis as one of size 1, also where they say nothing of axes. */
static uint32_t step_attrs(const writer_t *w, const kiln_step_t *step, const kiln_node_t *node,
                           kiln_attr_value_t *out) {
  uint32_t count = 0;
  bool reduces = kiln_op_info(node->op)->op_class == KILN_CLASS_REDUCTION;
  bool finds_place = node->op == KILN_OP_argmax || node->op == KILN_OP_argmin;
  for (uint32_t i = 0; i < node->attr_count && i < MOST_ATTRS - 2; i++) {
    kiln_attr_t attr = node->attrs[i].attr;
    bool is_added = reduces && (attr == KILN_ATTR_dims || attr == KILN_ATTR_dim || attr == KILN_ATTR_keepdim);
    if (!is_added) put_attr(out, &count, in_plane(w, step, node->attrs[i]));
  }
  if (!reduces) return count;
  put_attr(out, &count,
           in_plane(w, step, (kiln_attr_value_t){.attr = finds_place ? KILN_ATTR_dim : KILN_ATTR_dims}));
  put_attr(out, &count, in_plane(w, step, (kiln_attr_value_t){.attr = KILN_ATTR_keepdim}));
  return count;
}

static void add_step(writer_t *w, size_t number) {
  const kiln_step_t *step = &w->member->steps[number];
  const kiln_node_t *node = &w->member->graph->nodes[step->node];
  kiln_value_id_t operands[3];
  kiln_attr_value_t attrs[MOST_ATTRS];
  uint32_t attr_count = step_attrs(w, step, node, attrs);
  for (uint32_t i = 0; i < step->operand_count; i++) operands[i] = operand(w, step->operands[i]);
  kiln_type_t type = plane_type(w, step->axes, w->member->graph->types[node->first_result].dtype);
  w->results[number] = kiln_graph_builder_node(w->builder, node->op, operands, step->operand_count, attrs,
                                               attr_count, &type, 1, 0);
  w->out->eps_symbols[number] = (uint8_t)(step->eps_symbol + 1);
}

static void add_outputs(writer_t *w) {
  for (uint32_t i = 0; i < w->member->group->store_count; i++) {
    kiln_layout_t layout;
    leaf_type(w, &w->member->results[i], &layout);
    kiln_graph_builder_output(w->builder, operand(w, w->member->stored[i]), &layout);
  }
}

/* --- as it stands -------------------------------------------------------------------------------------- */

static kiln_value_id_t renumbered(const kiln_member_t *member, const kiln_value_id_t *results,
                                  kiln_value_id_t value) {
  if (value == KILN_NO_VALUE) return value;
  for (size_t i = 0; i < member->leaf_count; i++) {
    if (member->leaves[i].value == value) return (kiln_value_id_t)i;
  }
  for (uint32_t i = 0; i < member->group->node_count; i++) {
    const kiln_node_t *node = &member->graph->nodes[member->group->nodes[i]];
    if (value >= node->first_result && value < node->first_result + node->result_count)
      return results[i] + (value - node->first_result);
  }
  return KILN_NO_VALUE;
}

static void add_literal_node(writer_t *w, uint32_t place) {
  const kiln_member_t *member = w->member;
  const kiln_node_t *node = &member->graph->nodes[member->group->nodes[place]];
  kiln_value_id_t *operands = KILN_NEW_ARRAY(w->arena, kiln_value_id_t, node->operand_count);
  for (uint32_t i = 0; i < node->operand_count; i++)
    operands[i] = renumbered(member, w->results, node->operands[i]);
  w->results[place] = kiln_graph_builder_node(
      w->builder, node->op, operands, node->operand_count, node->attrs, node->attr_count,
      &member->graph->types[node->first_result], node->result_count, 0);
}

static void add_literal(writer_t *w, const kiln_grouping_t *grouping) {
  const kiln_member_t *member = w->member;
  const kiln_graph_t *graph = member->graph;
  for (size_t i = 0; i < member->leaf_count; i++) {
    kiln_layout_t layout = kiln_leaf_layout(member, grouping, &member->leaves[i]);
    kiln_graph_builder_input(w->builder, NULL, graph->types[member->leaves[i].value], &layout);
  }
  for (uint32_t i = 0; i < member->group->node_count; i++) add_literal_node(w, i);
  for (uint32_t i = 0; i < member->group->store_count; i++) {
    kiln_layout_t layout = kiln_leaf_layout(member, grouping, &member->results[i]);
    kiln_graph_builder_output(w->builder, renumbered(member, w->results, member->group->stores[i].value),
                              &layout);
  }
}

/* --- the graph ----------------------------------------------------------------------------------------- */

/* Leaf i is input i, store i is output i. */
static void add_group(writer_t *w, kiln_member_graph_t *out) {
  const kiln_graph_t *graph = out->graph;
  kiln_buffer_ref_t *storage = KILN_NEW_ARRAY(w->arena, kiln_buffer_ref_t, graph->value_count);
  uint32_t *nodes = KILN_NEW_ARRAY(w->arena, uint32_t, graph->node_count + 1);
  kiln_value_id_t *inputs = KILN_NEW_ARRAY(w->arena, kiln_value_id_t, graph->input_count + 1);
  kiln_store_t *stores = KILN_NEW_ARRAY(w->arena, kiln_store_t, graph->output_count);
  for (uint32_t i = 0; i < graph->node_count; i++) nodes[i] = i;
  for (uint32_t i = 0; i < graph->input_count; i++) {
    inputs[i] = i;
    storage[i] = (kiln_buffer_ref_t){KILN_BUFFER_INPUT, i};
  }
  for (uint32_t i = 0; i < graph->output_count; i++)
    stores[i] = (kiln_store_t){graph->outputs[i], {KILN_BUFFER_OUTPUT, i}, NULL};
  out->group = (kiln_group_t){.kind = w->member->group->kind,
                              .nodes = nodes,
                              .node_count = graph->node_count,
                              .inputs = inputs,
                              .input_count = graph->input_count,
                              .stores = stores,
                              .store_count = graph->output_count,
                              .member_count = 1,
                              .reason = ""};
  out->grouping = (kiln_grouping_t){.groups = &out->group, .group_count = 1, .storage = storage};
}

void kiln_member_graph(kiln_arena_t *arena, const kiln_member_t *member, const kiln_grouping_t *grouping,
                       const int64_t *typical, uint32_t align_multiple, kiln_member_graph_t *out) {
  static const char *const names[] = {"M", "N", "K", "S3", "S4", "S5", "S6", "S7"};
  bool is_literal = member->form == KILN_MEMBER_LITERAL;
  size_t count = is_literal ? member->group->node_count : member->step_count;
  *out = (kiln_member_graph_t){.eps_symbols = KILN_NEW_ARRAY(arena, uint8_t, count)};
  writer_t w = {.arena = arena,
                .member = member,
                .builder = kiln_graph_builder_create(arena, "member"),
                .results = KILN_NEW_ARRAY(arena, kiln_value_id_t, count),
                .align_multiple = align_multiple,
                .out = out};
  for (uint32_t i = 0; i < member->symbol_count; i++)
    kiln_graph_builder_symbol(w.builder, names[i], typical ? typical[i] : 0);
  if (is_literal) {
    add_literal(&w, grouping);
  } else {
    add_inputs(&w);
    for (size_t i = 0; i < member->step_count; i++) add_step(&w, i);
    add_outputs(&w);
  }
  out->graph = kiln_graph_builder_finish(w.builder);
  add_group(&w, out);
}
