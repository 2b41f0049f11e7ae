/* ir/verify.c: the verifier: a whole graph against every rule of rules.def.
 *
 * Boundary values first, then each node's operands and the types its op gives, then the outputs. Linear in
 * the graph. Runs on what the parser and the decoder made and after every pass; what it lets through, later
 * stages do not check again.
 */
#include "ir/verify.h"

#include <string.h>

#include "ir/shape.h"
#include "ir/text.h"

enum { MAX_ALIGN_BYTES = 4096 };

/* --- boundary tensors ----------------------------------------------------------------------------------- */

static kiln_status_t check_strides(const kiln_shape_t *shape, const kiln_type_t *type,
                                   const kiln_layout_t *layout) {
  kiln_dim_t last = kiln_dim_constant(0); /* the offset of the last element */
  for (uint32_t i = 0; i < type->rank; i++) {
    KILN_TRY(kiln_shape_require_ge(shape, KILN_RULE_stride_negative, layout->strides[i], kiln_dim_constant(0),
                                   i, "a stride is negative"));
    kiln_dim_t span;
    KILN_TRY(kiln_shape_mul(shape, layout->strides[i], type->dims[i], &span));
    KILN_TRY(kiln_shape_add(shape, last, span, &last));
  }
  KILN_TRY(kiln_shape_mul(shape, last, kiln_dim_constant((int64_t)kiln_dtype_bytes(type->dtype)), &last));
  return kiln_shape_require_ge(shape, KILN_RULE_size_overflow, kiln_dim_constant(INT64_MAX), last,
                               KILN_NO_AXIS, "the storage of a tensor has more bytes than 63 bits count");
}

/* The stride for some middling values of the symbols: enough to guess an order of axes from. */
static int64_t typical_stride(kiln_dim_t stride) {
  int64_t symbols[KILN_MAX_SYMBOLS], value;
  for (unsigned s = 0; s < KILN_MAX_SYMBOLS; s++) symbols[s] = 1000;
  return kiln_dim_eval(stride, symbols, &value) ? value : INT64_MAX;
}

/* The axes that have more than one element, by rising stride. */
static uint32_t order_axes(const kiln_type_t *type, const kiln_layout_t *layout,
                           uint32_t order[KILN_MAX_RANK]) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < type->rank; i++) {
    if (kiln_dim_is(type->dims[i], 1)) continue;
    int64_t stride = typical_stride(layout->strides[i]);
    uint32_t place = count++;
    for (; place && typical_stride(layout->strides[order[place - 1]]) > stride; place--)
      order[place] = order[place - 1];
    order[place] = i;
  }
  return count;
}

/* Strides nest when, in some order of the axes, each is at least the room that the axes before it take: then
 * no two elements share an address. The order may be guessed, since what is required holds for the order
 * taken. An empty tensor has no elements to share. */
static kiln_status_t check_no_overlap(const kiln_shape_t *shape, const kiln_type_t *type,
                                      const kiln_layout_t *layout) {
  uint32_t order[KILN_MAX_RANK], count = order_axes(type, layout, order);
  kiln_dim_t room = kiln_dim_constant(1);
  if (kiln_type_is_empty(type)) return NULL;
  for (uint32_t i = 0; i < count; i++) {
    uint32_t axis = order[i];
    KILN_TRY(kiln_shape_require_ge(shape, KILN_RULE_output_overlap, layout->strides[axis], room, axis,
                                   "elements of an output would share memory"));
    kiln_dim_t steps, reach; /* room += (size - 1) * stride */
    KILN_TRY(kiln_shape_add(shape, type->dims[axis], kiln_dim_constant(-1), &steps));
    KILN_TRY(kiln_shape_mul(shape, steps, layout->strides[axis], &reach));
    KILN_TRY(kiln_shape_add(shape, room, reach, &room));
  }
  return NULL;
}

kiln_status_t kiln_shape_check_boundary(const kiln_shape_t *shape, const kiln_type_t *type,
                                        const kiln_layout_t *layout, bool is_output) {
  uint32_t align = layout->align_bytes;
  KILN_TRY(kiln_shape_check_type(shape, type, is_output ? "the output" : "the input"));
  if (!align || align > MAX_ALIGN_BYTES || (align & (align - 1))) {
    return kiln_shape_refuse(shape, KILN_RULE_align, "an alignment is a power of two from 1 to %d",
                             MAX_ALIGN_BYTES);
  }
  if (!layout->has_strides) return NULL;
  KILN_TRY(check_strides(shape, type, layout));
  return is_output ? check_no_overlap(shape, type, layout) : NULL;
}

/* --- symbols -------------------------------------------------------------------------------------------- */

static kiln_status_t check_symbols(const kiln_shape_t *shape, const kiln_graph_t *graph) {
  if (graph->symbol_count > KILN_MAX_SYMBOLS) {
    return kiln_shape_refuse(shape, KILN_RULE_symbol_count, "a graph has at most %d symbols",
                             KILN_MAX_SYMBOLS);
  }
  for (uint32_t s = 0; s < graph->symbol_count; s++) {
    const kiln_symbol_t *symbol = &graph->symbols[s];
    if (!kiln_text_is_name(symbol->name, strlen(symbol->name), false)) {
      return kiln_shape_refuse(shape, KILN_RULE_symbol_name, "symbol %u has no proper name", s);
    }
    for (uint32_t other = 0; other < s; other++) {
      if (strcmp(graph->symbols[other].name, symbol->name)) continue;
      return kiln_shape_refuse(shape, KILN_RULE_symbol_name, "two symbols are called %s", symbol->name);
    }
    if (symbol->typical < 0) {
      return kiln_shape_refuse(shape, KILN_RULE_symbol_typical, "the typical value of %s is negative",
                               symbol->name);
    }
  }
  return NULL;
}

/* --- nodes ---------------------------------------------------------------------------------------------- */

static kiln_status_t check_operand_ids(const kiln_shape_t *shape, const kiln_graph_t *graph,
                                       const kiln_node_t *node) {
  for (uint32_t i = 0; i < node->operand_count; i++) {
    kiln_value_id_t operand = node->operands[i];
    if (operand == KILN_NO_VALUE || operand < node->first_result) continue;
    kiln_rule_t rule = operand < graph->value_count ? KILN_RULE_value_order : KILN_RULE_value_unknown;
    return kiln_shape_refuse(shape, rule, "operand %u is value %u, which is not defined before", i, operand);
  }
  return NULL;
}

/* Types and pointers of one node at a time; reused, so that a node costs no memory. */
typedef struct {
  const kiln_type_t **operands;
  kiln_type_t *results;
  uint32_t operand_capacity, result_capacity;
} scratch_t;

static void reserve(kiln_arena_t *arena, scratch_t *scratch, const kiln_node_t *node) {
  if (node->operand_count > scratch->operand_capacity) {
    scratch->operand_capacity = node->operand_count * 2;
    scratch->operands = KILN_NEW_ARRAY(arena, const kiln_type_t *, scratch->operand_capacity);
  }
  if (node->result_count > scratch->result_capacity) {
    scratch->result_capacity = node->result_count * 2;
    scratch->results = KILN_NEW_ARRAY(arena, kiln_type_t, scratch->result_capacity);
  }
}

static kiln_status_t check_node(const kiln_shape_t *outer, const kiln_graph_t *graph, const kiln_node_t *node,
                                scratch_t *scratch) {
  kiln_shape_t shape = *outer;
  shape.op = node->op;
  KILN_TRY(check_operand_ids(&shape, graph, node));
  reserve(shape.arena, scratch, node);
  for (uint32_t i = 0; i < node->operand_count; i++) {
    scratch->operands[i] = node->operands[i] == KILN_NO_VALUE ? NULL : &graph->types[node->operands[i]];
  }
  uint32_t result_count;
  KILN_TRY(kiln_shape_result_count(node->op, node->attrs, node->attr_count, &result_count));
  if (result_count != node->result_count) {
    return kiln_shape_refuse(&shape, KILN_RULE_type_claimed, "gives %u results, not %u", result_count,
                             node->result_count);
  }
  KILN_TRY(kiln_shape_infer_named(shape.arena, graph->symbols, node->op, scratch->operands,
                                  node->operand_count, node->attrs, node->attr_count, scratch->results,
                                  result_count, shape.constraints));
  for (uint32_t i = 0; i < result_count; i++) {
    const kiln_type_t *claimed = &graph->types[node->first_result + i];
    if (kiln_type_equal(claimed, &scratch->results[i])) continue;
    return kiln_shape_refuse(&shape, KILN_RULE_type_claimed, "result %u is %s, not %s", i,
                             kiln_shape_type_text(&shape, &scratch->results[i]),
                             kiln_shape_type_text(&shape, claimed));
  }
  return NULL;
}

/* Names the node in an error: details node (its first result, or its number) and line, and a note. */
static kiln_status_t place(const kiln_graph_t *graph, uint32_t index, kiln_status_t status) {
  const kiln_node_t *node = &graph->nodes[index];
  const char *name = graph->value_names && node->result_count ? graph->value_names[node->first_result] : NULL;
  status =
      name ? kiln_error_detail(status, "node", "%%%s", name) : kiln_error_detail(status, "node", "%u", index);
  if (node->line) status = kiln_error_detail(status, "line", "%u", node->line);
  return kiln_error_note(status, "verifying node %u of graph '%s'", index, graph->name);
}

/* --- the whole ------------------------------------------------------------------------------------------ */

static kiln_status_t check_outputs(const kiln_shape_t *shape, const kiln_graph_t *graph) {
  if (!graph->output_count)
    return kiln_shape_refuse(shape, KILN_RULE_output_none, "the graph returns nothing");
  for (uint32_t i = 0; i < graph->output_count; i++) {
    kiln_value_id_t value = graph->outputs[i];
    if (value >= graph->value_count) {
      return kiln_shape_refuse(shape, KILN_RULE_value_unknown, "output %u is value %u, which does not exist",
                               i, value);
    }
    kiln_status_t status =
        kiln_shape_check_boundary(shape, &graph->types[value], &graph->output_layouts[i], true);
    if (status) return kiln_error_note(status, "verifying output %u of graph '%s'", i, graph->name);
  }
  return NULL;
}

kiln_status_t kiln_graph_verify(kiln_arena_t *arena, const kiln_graph_t *graph,
                                kiln_constraints_t *out_constraints) {
  if (out_constraints) *out_constraints = (kiln_constraints_t){0};
  const kiln_shape_t shape = {
      .arena = arena, .symbols = graph->symbols, .op = KILN_OP_COUNT, .constraints = out_constraints};
  scratch_t scratch = {0};
  KILN_TRY(check_symbols(&shape, graph));
  for (uint32_t i = 0; i < graph->input_count; i++) {
    kiln_status_t status =
        kiln_shape_check_boundary(&shape, &graph->types[i], &graph->input_layouts[i], false);
    if (status) return kiln_error_note(status, "verifying input %u of graph '%s'", i, graph->name);
  }
  for (uint32_t i = 0; i < graph->node_count; i++) {
    kiln_status_t status = check_node(&shape, graph, &graph->nodes[i], &scratch);
    if (status) return place(graph, i, status);
  }
  return check_outputs(&shape, graph);
}

/* --- at execution --------------------------------------------------------------------------------------- */

kiln_status_t kiln_constraints_check(const kiln_constraints_t *constraints, const int64_t *symbols) {
  for (size_t i = 0; i < constraints->count; i++) {
    const kiln_constraint_t *constraint = &constraints->items[i];
    int64_t left, right;
    if (!kiln_dim_eval(constraint->left, symbols, &left) ||
        !kiln_dim_eval(constraint->right, symbols, &right)) {
      return kiln_error(KILN_TOO_LARGE, "%s: a size leaves 64 bits", constraint->message);
    }
    if (constraint->equal ? left == right : left >= right) continue;
    kiln_status_t status =
        kiln_error(KILN_INVALID_ARGUMENT, "%s: %lld must be %s%lld", constraint->message, (long long)left,
                   constraint->equal ? "" : "at least ", (long long)right);
    return kiln_error_detail(status, "field", "symbols");
  }
  return NULL;
}
