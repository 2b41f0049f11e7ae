/* passes/rewrite.c: the frame that every pass is written in (passes/rewrite.h). */
#include "passes/rewrite.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* --- the walk ------------------------------------------------------------------------------------------ */

bool graph_has(const kiln_graph_t *graph, kiln_op_t op) {
  for (uint32_t n = 0; n < graph->node_count; n++) {
    if (graph->nodes[n].op == op) return true;
  }
  return false;
}

rewrite_t rewrite_begin(kiln_pass_context_t *context, const kiln_graph_t *source) {
  kiln_arena_t *arena = context->arena;
  rewrite_t rw = {.context = context,
                  .arena = arena,
                  .source = source,
                  .builder = kiln_graph_builder_create(arena, source->name),
                  .map = KILN_NEW_ARRAY(arena, kiln_value_id_t, source->value_count)};
  for (uint32_t i = 0; i < source->symbol_count; i++) {
    kiln_graph_builder_symbol(rw.builder, source->symbols[i].name, source->symbols[i].typical);
  }
  for (uint32_t i = 0; i < source->input_count; i++) {
    rw.map[i] = kiln_graph_builder_input(rw.builder, NULL, source->types[i], &source->input_layouts[i]);
  }
  for (uint32_t i = source->input_count; i < source->value_count; i++) rw.map[i] = KILN_NO_VALUE;
  return rw;
}

/* Each new value is named after the first old value that it stands for. */
static void carry_names(rewrite_t *rw, uint32_t value_count) {
  const kiln_graph_t *source = rw->source;
  if (!source->value_names) return;
  bool *named = KILN_NEW_ARRAY(rw->arena, bool, value_count);
  for (uint32_t i = 0; i < source->value_count; i++) {
    kiln_value_id_t value = rw->map[i];
    if (!source->value_names[i] || value == KILN_NO_VALUE || named[value]) continue;
    kiln_graph_builder_name(rw->builder, value, source->value_names[i]);
    named[value] = true;
  }
}

const kiln_graph_t *rewrite_finish(rewrite_t *rw) {
  const kiln_graph_t *source = rw->source;
  if (!rw->context->applied) return source;
  for (uint32_t i = 0; i < source->output_count; i++) {
    kiln_graph_builder_output(rw->builder, rw->map[source->outputs[i]], &source->output_layouts[i]);
  }
  carry_names(rw, kiln_graph_builder_finish(rw->builder)->value_count);
  return kiln_graph_builder_finish(rw->builder);
}

static const kiln_value_id_t *mapped_operands(const rewrite_t *rw, const kiln_node_t *node) {
  kiln_value_id_t *operands = KILN_NEW_ARRAY(rw->arena, kiln_value_id_t, node->operand_count);
  for (uint32_t i = 0; i < node->operand_count; i++) {
    operands[i] = node->operands[i] == KILN_NO_VALUE ? KILN_NO_VALUE : rw->map[node->operands[i]];
  }
  return operands;
}

draft_t rewrite_draft(const rewrite_t *rw, const kiln_node_t *node) {
  return (draft_t){.op = node->op,
                   .operands = mapped_operands(rw, node),
                   .operand_count = node->operand_count,
                   .attrs = node->attrs,
                   .attr_count = node->attr_count,
                   .line = node->line,
                   .type = rw->source->types[node->first_result],
                   .value = KILN_NO_VALUE};
}

kiln_value_id_t rewrite_place(rewrite_t *rw, const draft_t *draft) {
  if (draft->value != KILN_NO_VALUE) return draft->value;
  return kiln_graph_builder_node(rw->builder, draft->op, draft->operands, draft->operand_count, draft->attrs,
                                 draft->attr_count, &draft->type, 1, draft->line);
}

void rewrite_copy(rewrite_t *rw, const kiln_node_t *node) {
  kiln_value_id_t first = kiln_graph_builder_node(
      rw->builder, node->op, mapped_operands(rw, node), node->operand_count, node->attrs, node->attr_count,
      &rw->source->types[node->first_result], node->result_count, node->line);
  for (uint32_t i = 0; i < node->result_count; i++) rw->map[node->first_result + i] = first + i;
}

kiln_value_id_t rewrite_emit(rewrite_t *rw, kiln_op_t op, const kiln_value_id_t *operands,
                             uint32_t operand_count, const kiln_attr_value_t *attrs, uint32_t attr_count) {
  for (uint32_t i = 0; i < operand_count; i++) {
    if (operands[i] == KILN_NO_VALUE) return KILN_NO_VALUE;
  }
  kiln_value_id_t value;
  kiln_status_t refused =
      kiln_graph_builder_infer(rw->builder, op, operands, operand_count, attrs, attr_count, 0, &value);
  if (!refused) return value;
  kiln_status_free(refused);
  return KILN_NO_VALUE;
}

kiln_value_id_t rewrite_reshape(rewrite_t *rw, kiln_value_id_t value, const kiln_dim_t *dims, uint32_t rank) {
  if (value == KILN_NO_VALUE) return value;
  kiln_type_t wanted = {.rank = rank};
  if (rank) memcpy(wanted.dims, dims, rank * sizeof *dims);
  if (kiln_type_same_shape(rewrite_type(rw, value), &wanted)) return value;
  kiln_attr_value_t shape = attr_dims(KILN_ATTR_shape, dims, rank);
  return rewrite_emit(rw, KILN_OP_reshape, &value, 1, &shape, 1);
}

/* --- matching ------------------------------------------------------------------------------------------ */

const kiln_node_t *rewrite_match(const rewrite_t *rw, kiln_value_id_t value, kiln_op_t op) {
  const kiln_node_t *node = value == KILN_NO_VALUE ? NULL : kiln_graph_builder_producer(rw->builder, value);
  return node && node->op == op ? node : NULL;
}

bool rewrite_match_full(const rewrite_t *rw, kiln_value_id_t value, kiln_number_t *out) {
  const kiln_node_t *node = rewrite_match(rw, value, KILN_OP_full);
  if (node) *out = kiln_node_attr(node, KILN_ATTR_value)->number;
  return node != NULL;
}

/* --- drafts -------------------------------------------------------------------------------------------- */

bool draft_become(draft_t *draft, kiln_value_id_t value) {
  draft->value = value;
  return value != KILN_NO_VALUE;
}

static kiln_attr_value_t copy_list(kiln_arena_t *arena, kiln_attr_value_t attr) {
  if (kiln_attr_kind(attr.attr) == KILN_ATTR_KIND_DIMS) {
    attr.list.dims = kiln_arena_copy(arena, attr.list.dims, attr.list.count * sizeof(kiln_dim_t));
  } else if (kiln_attr_kind(attr.attr) == KILN_ATTR_KIND_INTS) {
    attr.list.integers = kiln_arena_copy(arena, attr.list.integers, attr.list.count * sizeof(int64_t));
  }
  return attr;
}

bool draft_set(rewrite_t *rw, draft_t *draft, kiln_op_t op, const kiln_value_id_t *operands,
               uint32_t operand_count, const kiln_attr_value_t *attrs, uint32_t attr_count) {
  for (uint32_t i = 0; i < operand_count; i++) {
    if (operands[i] == KILN_NO_VALUE) return false;
  }
  kiln_attr_value_t *copies = KILN_NEW_ARRAY(rw->arena, kiln_attr_value_t, attr_count);
  for (uint32_t i = 0; i < attr_count; i++) copies[i] = copy_list(rw->arena, attrs[i]);
  draft->op = op;
  draft->operands = kiln_arena_copy(rw->arena, operands, operand_count * sizeof *operands);
  draft->operand_count = operand_count;
  draft->attrs = copies;
  draft->attr_count = attr_count;
  return true;
}

bool draft_expand(rewrite_t *rw, draft_t *draft, kiln_value_id_t value) {
  if (value == KILN_NO_VALUE) return false;
  if (kiln_type_equal(rewrite_type(rw, value), &draft->type)) return draft_become(draft, value);
  kiln_attr_value_t shape = attr_dims(KILN_ATTR_shape, draft->type.dims, draft->type.rank);
  return draft_set(rw, draft, KILN_OP_expand, &value, 1, &shape, 1);
}

bool draft_reshape(rewrite_t *rw, draft_t *draft, kiln_value_id_t value) {
  if (value == KILN_NO_VALUE) return false;
  if (kiln_type_equal(rewrite_type(rw, value), &draft->type)) return draft_become(draft, value);
  kiln_attr_value_t shape = attr_dims(KILN_ATTR_shape, draft->type.dims, draft->type.rank);
  return draft_set(rw, draft, KILN_OP_reshape, &value, 1, &shape, 1);
}

bool draft_full(rewrite_t *rw, draft_t *draft, kiln_number_t number) {
  kiln_attr_value_t attrs[] = {
      attr_dtype(draft->type.dtype),
      attr_dims(KILN_ATTR_shape, draft->type.dims, draft->type.rank),
      {.attr = KILN_ATTR_value, .number = number},
  };
  return draft_set(rw, draft, KILN_OP_full, NULL, 0, attrs, 3);
}

const kiln_attr_value_t *draft_attr(const draft_t *draft, kiln_attr_t attr) {
  for (uint32_t i = 0; i < draft->attr_count; i++) {
    if (draft->attrs[i].attr == attr) return &draft->attrs[i];
  }
  return NULL;
}

int64_t draft_int(const draft_t *draft, kiln_attr_t attr) {
  const kiln_attr_value_t *value = draft_attr(draft, attr);
  assert(value && kiln_attr_kind(attr) == KILN_ATTR_KIND_INT);
  return value->integer;
}

/* --- numbers and shapes -------------------------------------------------------------------------------- */

kiln_number_t number_of_pad(const kiln_attr_value_t *value, kiln_dtype_t dtype) {
  return value ? value->number : number_zero(dtype);
}

bool number_equal(kiln_number_t a, kiln_number_t b) {
  if (a.is_integer && b.is_integer) return a.integer == b.integer;
  return a.real == b.real && signbit(a.real) == signbit(b.real);
}

bool shapes_match_but_ones(const kiln_type_t *a, const kiln_type_t *b, uint32_t to_b[KILN_MAX_RANK]) {
  uint32_t next = 0;
  for (uint32_t i = 0; i < a->rank; i++) {
    if (kiln_dim_is(a->dims[i], 1)) continue;
    while (next < b->rank && kiln_dim_is(b->dims[next], 1)) next++;
    if (next == b->rank || !kiln_dim_equal(a->dims[i], b->dims[next])) return false;
    to_b[i] = next++;
  }
  while (next < b->rank && kiln_dim_is(b->dims[next], 1)) next++;
  return next == b->rank;
}

range_t range_of(const kiln_attr_value_t *attrs, uint32_t attr_count, uint32_t axis) {
  range_t range = {.step = 1};
  for (uint32_t i = 0; i < attr_count; i++) {
    if (attrs[i].attr == KILN_ATTR_starts) range.start = attrs[i].list.dims[axis];
    if (attrs[i].attr == KILN_ATTR_limits) range.limit = attrs[i].list.dims[axis];
    if (attrs[i].attr == KILN_ATTR_steps) range.step = attrs[i].list.integers[axis];
  }
  return range;
}

bool range_is_whole(range_t range, kiln_dim_t size) {
  return kiln_dim_is(range.start, 0) && kiln_dim_equal(range.limit, size) && range.step == 1;
}
