/* codegen/lower.c: the walk from a stored value back to what is read.
 *
 * A request is a value at an index, under a guard. What it needs are requests for operands; when all of those
 * have their scalars, its own is built. An explicit stack takes the place of recursion (a client chooses the
 * depth), and every request is answered once, so that what two users share stays shared. Called through
 * lower.h.
 */
#include "codegen/lower.h"
#include "codegen/constant.h"
#include "codegen/lower_reduce.h"

#include <string.h>

/* Answers per kernel. A graph of a few nodes can ask for exponentially many elements (each concatenation of
 * shifted copies of the last one doubles them); such a group must be cut into several kernels. */
enum { MOST_ANSWERS = 20000 };

struct kiln_lowering {
  kiln_kernel_t *kernel;
  const kiln_grouping_t *grouping;
  bool *is_read;       /* per value: it is read from memory, not computed here */
  kiln_map_t *answers; /* request -> scalar */
  kiln_request_t *stack;
  size_t stack_count, stack_capacity;
  kiln_request_t *needs; /* of the request on top of the stack */
  size_t need_count, need_capacity;
  bool has_row;
  uint32_t row_axis;   /* what REDUCEs run over */
  const char *refusal; /* why the group is not one kernel; NULL: it is */
};

kiln_lowering_t *kiln_lowering_create(kiln_kernel_t *kernel, const kiln_grouping_t *grouping,
                                      const kiln_group_t *group) {
  kiln_lowering_t *lowering = KILN_NEW(kernel->arena, kiln_lowering_t);
  lowering->kernel = kernel;
  lowering->grouping = grouping;
  lowering->is_read = KILN_NEW_ARRAY(kernel->arena, bool, kernel->graph->value_count);
  lowering->answers = kiln_map_create(kernel->arena);
  for (uint32_t i = 0; i < kernel->graph->input_count; i++) lowering->is_read[i] = true;
  for (uint32_t i = 0; i < group->input_count; i++) lowering->is_read[group->inputs[i]] = true;
  return lowering;
}

void kiln_lowering_set_row(kiln_lowering_t *lowering, uint32_t axis) {
  lowering->has_row = true;
  lowering->row_axis = axis;
}

static const kiln_type_t *type_of(const kiln_lowering_t *lowering, kiln_value_id_t value) {
  return &lowering->kernel->graph->types[value];
}

/* --- requests
 * ----------------------------------------------------------------------------------------------- */

static uint64_t *find_answer(const kiln_lowering_t *lowering, const kiln_request_t *request) {
  size_t rank = type_of(lowering, request->value)->rank;
  return kiln_map_find(lowering->answers, request,
                       offsetof(kiln_request_t, index) + rank * sizeof request->index[0]);
}

static void answer(kiln_lowering_t *lowering, const kiln_request_t *request, kiln_expr_id_t scalar) {
  size_t rank = type_of(lowering, request->value)->rank;
  *kiln_map_put(lowering->answers, request, offsetof(kiln_request_t, index) + rank * sizeof request->index[0],
                NULL) = scalar;
}

/* An index that is in range by its bounds alone needs no guard, and is then the same request wherever it
 * comes from. Unless it divides what only the guard keeps from being negative. */
static kiln_request_t without_needless_guard(kiln_lowering_t *lowering, kiln_request_t request) {
  const kiln_type_t *type = type_of(lowering, request.value);
  for (uint32_t i = 0; i < type->rank; i++) {
    kiln_expr_id_t index = request.index[i];
    bool within = kiln_index_is_within(lowering->kernel, index, type->dims[i]);
    if (!within || !lowering->kernel->exprs[index].total) return request;
  }
  request.guard = kiln_condition_true(lowering->kernel);
  return request;
}

static kiln_request_t *need(kiln_lowering_t *lowering, kiln_value_id_t value, kiln_expr_id_t guard) {
  kiln_request_t request = {.value = value, .guard = guard};
  KILN_PUSH(lowering->kernel->arena, lowering->needs, lowering->need_count, lowering->need_capacity, request);
  return &lowering->needs[lowering->need_count - 1];
}

static void need_elementwise(kiln_lowering_t *lowering, const kiln_request_t *top, const kiln_node_t *node) {
  uint32_t rank = type_of(lowering, top->value)->rank;
  for (uint32_t i = 0; i < node->operand_count; i++) {
    kiln_request_t *operand = need(lowering, node->operands[i], top->guard);
    kiln_view_broadcast(lowering->kernel, type_of(lowering, node->operands[i]), rank, top->index,
                        operand->index);
  }
}

static void need_view(kiln_lowering_t *lowering, const kiln_request_t *top, const kiln_node_t *node) {
  kiln_request_t *operand = need(lowering, node->operands[0], top->guard);
  kiln_view_index(lowering->kernel, node, top->value - node->first_result, top->index, operand->index);
}

/* Where a pad reads its operand, given what is known already. */
static kiln_expr_id_t pad_condition(kiln_lowering_t *lowering, const kiln_request_t *top,
                                    const kiln_node_t *node, kiln_expr_id_t *out_index) {
  kiln_expr_id_t inside = kiln_view_pad(lowering->kernel, node, top->index, out_index);
  return kiln_condition_given(lowering->kernel, inside, top->guard);
}

static void need_pad(kiln_lowering_t *lowering, const kiln_request_t *top, const kiln_node_t *node) {
  kiln_expr_id_t index[KILN_MAX_RANK], inside = pad_condition(lowering, top, node, index);
  if (kiln_condition_is_false(lowering->kernel, inside)) return;
  kiln_request_t *operand =
      need(lowering, node->operands[0], kiln_condition_and(lowering->kernel, top->guard, inside));
  memcpy(operand->index, index, sizeof index);
}

/* The ids are wanted first; the table when they are there. */
static void need_indexed(kiln_lowering_t *lowering, const kiln_request_t *top, const kiln_node_t *node) {
  kiln_kernel_t *kernel = lowering->kernel;
  const kiln_type_t *table = type_of(lowering, node->operands[0]),
                    *ids = type_of(lowering, node->operands[1]);
  bool is_gather = node->op == KILN_OP_gather;
  kiln_request_t *wanted = need(lowering, node->operands[1], top->guard);
  memcpy(wanted->index, top->index, ids->rank * sizeof wanted->index[0]);
  *wanted = without_needless_guard(lowering, *wanted);
  const uint64_t *scalar = find_answer(lowering, wanted);
  if (!scalar) return;
  uint32_t axis = is_gather ? kiln_view_axis(kiln_node_int(node, KILN_ATTR_dim, 0), table->rank) : 0;
  wanted = need(lowering, node->operands[0], top->guard);
  if (is_gather)
    memcpy(wanted->index, top->index, table->rank * sizeof wanted->index[0]);
  else
    memcpy(wanted->index + 1, top->index + ids->rank, (table->rank - 1) * sizeof wanted->index[0]);
  wanted->index[axis] = kiln_index_clamped(kernel, (kiln_expr_id_t)*scalar, table->dims[axis]);
}

/* --- reductions
 * ---------------------------------------------------------------------------------------- */

static bool moves_along_row(const kiln_lowering_t *lowering, kiln_expr_id_t id) {
  const kiln_kernel_t *kernel = lowering->kernel;
  bool *moves = KILN_NEW_ARRAY(kernel->arena, bool, id + 1);
  for (kiln_expr_id_t i = 0; i <= id; i++) {
    const kiln_expr_t *expr = &kernel->exprs[i];
    if (expr->kind == KILN_EXPR_REDUCE) continue;
    moves[i] = expr->kind == KILN_EXPR_AXIS && expr->bits == lowering->row_axis;
    for (uint32_t k = 0; k < expr->operand_count; k++) moves[i] |= moves[expr->operands[k]];
  }
  return moves[id];
}

/* The operand along the whole row: at a point that stands still while the row is walked. */
static void need_row(kiln_lowering_t *lowering, const kiln_request_t *top, const kiln_node_t *node,
                     const kiln_reduced_t *reduced) {
  kiln_kernel_t *kernel = lowering->kernel;
  kiln_request_t *row = need(lowering, node->operands[0], top->guard);
  kiln_expr_id_t nowhere = kiln_index_constant(kernel, kiln_dim_constant(0));
  if (!lowering->has_row) {
    lowering->refusal = "a long reduction needs a kernel that works row by row";
  } else if (!kiln_dim_equal(kernel->axes[lowering->row_axis].extent, reduced->count)) {
    lowering->refusal = "its reductions have rows of different lengths";
  } else {
    kiln_reduce_index(kernel, reduced, top->index, nowhere, row->index);
    for (uint32_t i = 0; i < reduced->source->rank; i++) {
      if (moves_along_row(lowering, row->index[i]))
        lowering->refusal = "its reductions are along different axes";
    }
    kiln_reduce_index(kernel, reduced, top->index, kiln_index_axis(kernel, lowering->row_axis), row->index);
    *row = without_needless_guard(lowering, *row);
    if (moves_along_row(lowering, row->guard))
      lowering->refusal = "only a part of a row asks for its reduction";
  }
  if (lowering->refusal) lowering->need_count = 0;
}

static void need_points(kiln_lowering_t *lowering, const kiln_request_t *top, const kiln_node_t *node,
                        const kiln_reduced_t *reduced, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    kiln_expr_id_t position = kiln_index_constant(lowering->kernel, kiln_dim_constant(i));
    kiln_request_t *point = need(lowering, node->operands[0], top->guard);
    kiln_reduce_index(lowering->kernel, reduced, top->index, position, point->index);
  }
}

/* First the points of the row; for a normalization then the operand at this point, gamma and beta. */
static void need_reduced(kiln_lowering_t *lowering, const kiln_request_t *top, const kiln_node_t *node) {
  kiln_reduced_t reduced = kiln_reduced_of(lowering->kernel, node);
  uint32_t points;
  if (kiln_reduce_is_inline(lowering->kernel->graph, node, &points))
    need_points(lowering, top, node, &reduced, points);
  else
    need_row(lowering, top, node, &reduced);
  if (lowering->refusal || kiln_op_info(node->op)->op_class == KILN_CLASS_REDUCTION) return;
  kiln_request_t *own = need(lowering, node->operands[0], top->guard);
  memcpy(own->index, top->index, sizeof top->index);
  for (uint32_t i = 1; i < node->operand_count; i++) {
    if (node->operands[i] == KILN_NO_VALUE) continue;
    kiln_request_t *affine = need(lowering, node->operands[i], top->guard);
    kiln_reduce_affine_index(&reduced, top->index, affine->index);
  }
}

static kiln_expr_id_t build_reduced(kiln_lowering_t *lowering, const kiln_node_t *node,
                                    const kiln_expr_id_t *scalars) {
  uint32_t points, count;
  bool is_inline = kiln_reduce_is_inline(lowering->kernel->graph, node, &points);
  count = is_inline ? points : 1;
  return kiln_reduce_build(lowering->kernel, node, scalars, is_inline ? points : KILN_ROW, scalars + count);
}

/* --- concatenation
 * ------------------------------------------------------------------------------------------ */

/* The operands of a cat that a request may read, and where each begins. */
typedef struct {
  uint32_t axis, count;
  uint32_t *operands;
  kiln_dim_t *starts;
  kiln_expr_id_t *conditions;
} parts_t;

static parts_t parts_of(kiln_lowering_t *lowering, const kiln_request_t *top, const kiln_node_t *node) {
  kiln_kernel_t *kernel = lowering->kernel;
  parts_t parts = {
      .axis = kiln_view_axis(kiln_node_int(node, KILN_ATTR_dim, 0), type_of(lowering, top->value)->rank),
      .operands = KILN_NEW_ARRAY(kernel->arena, uint32_t, node->operand_count),
      .starts = KILN_NEW_ARRAY(kernel->arena, kiln_dim_t, node->operand_count),
      .conditions = KILN_NEW_ARRAY(kernel->arena, kiln_expr_id_t, node->operand_count)};
  kiln_dim_t start = kiln_dim_constant(0);
  for (uint32_t i = 0; i < node->operand_count; i++) {
    kiln_dim_t end =
        kiln_kernel_dim_add(kernel, start, type_of(lowering, node->operands[i])->dims[parts.axis]);
    kiln_expr_id_t inside =
        kiln_condition_and(kernel, kiln_condition_at_least(kernel, top->index[parts.axis], start),
                           kiln_condition_below(kernel, top->index[parts.axis], end));
    inside = kiln_condition_given(kernel, inside, top->guard);
    if (!kiln_condition_is_false(kernel, inside)) {
      parts.operands[parts.count] = i;
      parts.starts[parts.count] = start;
      parts.conditions[parts.count++] = inside;
    }
    start = end;
  }
  return parts;
}

static void need_parts(kiln_lowering_t *lowering, const kiln_request_t *top, const kiln_node_t *node) {
  kiln_kernel_t *kernel = lowering->kernel;
  parts_t parts = parts_of(lowering, top, node);
  for (uint32_t i = 0; i < parts.count; i++) {
    kiln_request_t *operand = need(lowering, node->operands[parts.operands[i]],
                                   kiln_condition_and(kernel, top->guard, parts.conditions[i]));
    memcpy(operand->index, top->index, sizeof top->index);
    operand->index[parts.axis] = kiln_index_add_scaled(kernel, top->index[parts.axis], kiln_dim_constant(-1),
                                                       kiln_index_constant(kernel, parts.starts[i]));
  }
}

/* A balanced tree of selections; its depth is the logarithm of the number of parts. */
static kiln_expr_id_t select_part(kiln_kernel_t *kernel, kiln_expr_id_t index, const parts_t *parts,
                                  const kiln_expr_id_t *scalars, uint32_t first, uint32_t end) {
  if (end - first == 1) return scalars[first];
  uint32_t middle = first + (end - first) / 2;
  return kiln_scalar_select(kernel, kiln_condition_below(kernel, index, parts->starts[middle]),
                            select_part(kernel, index, parts, scalars, first, middle),
                            select_part(kernel, index, parts, scalars, middle, end));
}

static kiln_expr_id_t build_cat(kiln_lowering_t *lowering, const kiln_request_t *top, const kiln_node_t *node,
                                const kiln_expr_id_t *scalars) {
  parts_t parts = parts_of(lowering, top, node);
  /* No part: the guard cannot hold, though the kernel did not see it before. */
  if (!parts.count) return kiln_scalar_constant(lowering->kernel, type_of(lowering, top->value)->dtype, 0);
  return select_part(lowering->kernel, top->index[parts.axis], &parts, scalars, 0, parts.count);
}

/* --- reads and writes
 * --------------------------------------------------------------------------------------- */

/* The strides and the alignment of a buffer that holds this value. */
static void layout_of(kiln_lowering_t *lowering, const kiln_type_t *type, kiln_buffer_ref_t ref,
                      kiln_dim_t *strides, uint32_t *align_bytes) {
  const kiln_graph_t *graph = lowering->kernel->graph;
  const kiln_layout_t *layout = ref.kind == KILN_BUFFER_INPUT    ? &graph->input_layouts[ref.index]
                                : ref.kind == KILN_BUFFER_OUTPUT ? &graph->output_layouts[ref.index]
                                                                 : NULL;
  *align_bytes = layout ? layout->align_bytes : 256;
  if (layout && layout->has_strides)
    memcpy(strides, layout->strides, sizeof layout->strides);
  else if (!kiln_type_strides(lowering->kernel->arena, type, strides))
    lowering->kernel->overflowed = true;
}

/* The guard, and that the axes along which memory stands still are not empty. No offset depends on them, so
 * that an empty row would read what it has in common with the full ones, of a tensor that has no memory. */
static kiln_expr_id_t guard_still_axes(kiln_kernel_t *kernel, const kiln_type_t *type,
                                       const kiln_dim_t *strides, kiln_expr_id_t guard) {
  for (uint32_t i = 0; i < type->rank; i++) {
    if (!kiln_dim_is(strides[i], 0) || kiln_dim_is_constant(type->dims[i])) continue;
    kiln_expr_id_t size = kiln_index_constant(kernel, type->dims[i]);
    guard = kiln_condition_and(kernel, guard, kiln_condition_at_least(kernel, size, kiln_dim_constant(1)));
  }
  return guard;
}

static kiln_expr_id_t read_value(kiln_lowering_t *lowering, const kiln_request_t *top) {
  kiln_kernel_t *kernel = lowering->kernel;
  const kiln_type_t *type = type_of(lowering, top->value);
  kiln_dim_t strides[KILN_MAX_RANK];
  kiln_kernel_buffer_t buffer = {.ref = lowering->grouping->storage[top->value], .dtype = type->dtype};
  layout_of(lowering, type, buffer.ref, strides, &buffer.align_bytes);
  kiln_expr_id_t offset = kiln_view_linear(kernel, type->rank, top->index, strides);
  kiln_expr_id_t guard = guard_still_axes(kernel, type, strides, top->guard);
  return kiln_scalar_load(kernel, kiln_kernel_buffer(kernel, buffer), offset, guard);
}

kiln_kernel_store_t kiln_lower_store(kiln_lowering_t *lowering, const kiln_store_t *store,
                                     const kiln_expr_id_t *index) {
  kiln_kernel_t *kernel = lowering->kernel;
  const kiln_type_t *type = type_of(lowering, store->window ? store->window->as : store->value);
  kiln_dim_t strides[KILN_MAX_RANK];
  kiln_kernel_buffer_t buffer = {.ref = store->buffer, .dtype = type->dtype, .written = true};
  layout_of(lowering, type, buffer.ref, strides, &buffer.align_bytes);
  kiln_expr_id_t offset = kiln_view_linear(kernel, type->rank, index, strides);
  if (store->window) {
    kiln_expr_id_t start[KILN_MAX_RANK];
    for (uint32_t i = 0; i < type->rank; i++) start[i] = kiln_index_constant(kernel, store->window->start[i]);
    offset = kiln_index_add(kernel, offset, kiln_view_linear(kernel, type->rank, start, strides));
  }
  return (kiln_kernel_store_t){.buffer = kiln_kernel_buffer(kernel, buffer), .offset = offset};
}

/* --- constants
 * ---------------------------------------------------------------------------------------------- */

static kiln_expr_id_t build_full(kiln_lowering_t *lowering, const kiln_node_t *node, kiln_dtype_t dtype) {
  const kiln_attr_value_t *value = kiln_node_attr(node, KILN_ATTR_value);
  return kiln_scalar_constant(lowering->kernel, dtype, kiln_number_to_bits(value->number, dtype));
}

static kiln_expr_id_t build_iota(kiln_lowering_t *lowering, const kiln_request_t *top,
                                 const kiln_node_t *node) {
  const kiln_type_t *type = type_of(lowering, top->value);
  uint32_t axis = kiln_view_axis(kiln_node_int(node, KILN_ATTR_dim, 0), type->rank);
  kiln_expr_id_t position = kiln_scalar_position(lowering->kernel, top->index[axis]);
  return kiln_scalar_op(lowering->kernel, KILN_OP_cast, type->dtype, &position, 1, KILN_NO_NODE);
}

static kiln_expr_id_t build_constant(kiln_lowering_t *lowering, const kiln_request_t *top,
                                     const kiln_node_t *node) {
  kiln_kernel_t *kernel = lowering->kernel;
  const kiln_type_t *type = type_of(lowering, top->value);
  uint64_t bits;
  if (kiln_constant_is_uniform(node, &bits)) return kiln_scalar_constant(kernel, type->dtype, bits);
  kiln_dim_t strides[KILN_MAX_RANK];
  if (!kiln_type_strides(kernel->arena, type, strides)) kernel->overflowed = true;
  kiln_kernel_buffer_t table = {.kind = KILN_KERNEL_TABLE,
                                .node = kernel->graph->producers[top->value],
                                .dtype = type->dtype,
                                .align_bytes = 16};
  kiln_expr_id_t offset = kiln_view_linear(kernel, type->rank, top->index, strides);
  return kiln_scalar_load(kernel, kiln_kernel_buffer(kernel, table), offset, top->guard);
}

/* --- the walk
 * ----------------------------------------------------------------------------------------------- */

static void find_needs(kiln_lowering_t *lowering, const kiln_request_t *top, const kiln_node_t *node) {
  lowering->need_count = 0;
  if (lowering->is_read[top->value]) return;
  if (kiln_view_is_index_map(node->op))
    need_view(lowering, top, node);
  else if (node->op == KILN_OP_pad)
    need_pad(lowering, top, node);
  else if (node->op == KILN_OP_cat)
    need_parts(lowering, top, node);
  else if (kiln_op_info(node->op)->op_class == KILN_CLASS_INDEXING)
    need_indexed(lowering, top, node);
  else if (kiln_node_reduces(node))
    need_reduced(lowering, top, node);
  else
    need_elementwise(lowering, top, node);
  for (size_t i = 0; i < lowering->need_count; i++) {
    lowering->needs[i] = without_needless_guard(lowering, lowering->needs[i]);
  }
}

static kiln_expr_id_t build_pad(kiln_lowering_t *lowering, const kiln_request_t *top, const kiln_node_t *node,
                                const kiln_expr_id_t *scalars) {
  kiln_dtype_t dtype = type_of(lowering, top->value)->dtype;
  const kiln_attr_value_t *value = kiln_node_attr(node, KILN_ATTR_value);
  kiln_number_t zero = {.is_integer = true};
  kiln_expr_id_t index[KILN_MAX_RANK], inside = pad_condition(lowering, top, node, index);
  kiln_expr_id_t fill =
      kiln_scalar_constant(lowering->kernel, dtype, kiln_number_to_bits(value ? value->number : zero, dtype));
  return lowering->need_count ? kiln_scalar_select(lowering->kernel, inside, scalars[0], fill) : fill;
}

/* The scalar of a request, given those of its needs. */
static kiln_expr_id_t build(kiln_lowering_t *lowering, const kiln_request_t *top, const kiln_node_t *node,
                            const kiln_expr_id_t *scalars) {
  kiln_dtype_t dtype = type_of(lowering, top->value)->dtype;
  if (lowering->is_read[top->value]) return read_value(lowering, top);
  if (kiln_view_is_index_map(node->op)) return scalars[0];
  if (kiln_node_reduces(node)) return build_reduced(lowering, node, scalars);
  switch (node->op) {
  case KILN_OP_pad:
    return build_pad(lowering, top, node, scalars);
  case KILN_OP_cat:
    return build_cat(lowering, top, node, scalars);
  case KILN_OP_gather:
  case KILN_OP_embedding:
    return scalars[1];
  case KILN_OP_full:
    return build_full(lowering, node, dtype);
  case KILN_OP_iota:
    return build_iota(lowering, top, node);
  case KILN_OP_constant:
    return build_constant(lowering, top, node);
  default:
    return kiln_scalar_op(lowering->kernel, node->op, dtype, scalars, node->operand_count,
                          (uint32_t)(node - lowering->kernel->graph->nodes));
  }
}

/* Answers the request on top of the stack, or pushes what it still needs. */
static void step(kiln_lowering_t *lowering) {
  kiln_kernel_t *kernel = lowering->kernel;
  kiln_request_t top = lowering->stack[lowering->stack_count - 1];
  const kiln_node_t *node = kiln_graph_producer(kernel->graph, top.value);
  find_needs(lowering, &top, node);
  if (lowering->refusal) return;
  kiln_expr_id_t *scalars = KILN_NEW_ARRAY(kernel->arena, kiln_expr_id_t, lowering->need_count + 1);
  bool ready = true;
  for (size_t i = lowering->need_count; i-- > 0;) {
    const uint64_t *scalar = find_answer(lowering, &lowering->needs[i]);
    if (scalar) {
      scalars[i] = (kiln_expr_id_t)*scalar;
      continue;
    }
    ready = false;
    KILN_PUSH(kernel->arena, lowering->stack, lowering->stack_count, lowering->stack_capacity,
              lowering->needs[i]);
  }
  if (!ready) return;
  lowering->stack_count--;
  if (!find_answer(lowering, &top)) answer(lowering, &top, build(lowering, &top, node, scalars));
}

kiln_status_t kiln_lower(kiln_lowering_t *lowering, const kiln_request_t *request,
                         kiln_expr_id_t *out_scalar) {
  kiln_request_t first = without_needless_guard(lowering, *request);
  KILN_PUSH(lowering->kernel->arena, lowering->stack, lowering->stack_count, lowering->stack_capacity, first);
  while (lowering->stack_count) {
    step(lowering);
    if (lowering->refusal) return kiln_error(KILN_UNSUPPORTED, "%s", lowering->refusal);
    if (kiln_map_count(lowering->answers) > MOST_ANSWERS || lowering->stack_count > 4 * MOST_ANSWERS) {
      return kiln_error(KILN_TOO_LARGE, "one kernel would need more than %d elements per element",
                        MOST_ANSWERS);
    }
  }
  *out_scalar = (kiln_expr_id_t)*find_answer(lowering, &first);
  return NULL;
}
