/* codegen/lower_views.c: the index maps of views: from an index into the result to an index into the operand.
 *
 * Called by lower.c for each view on the way from what is stored to what is read; maps compose by being
 * applied in turn, and simplify while they do. Everything is read off the types and the verified attributes.
 */
#include "codegen/lower.h"

static const kiln_type_t *operand_type(const kiln_kernel_t *kernel, const kiln_node_t *node) {
  return &kernel->graph->types[node->operands[0]];
}

static const kiln_type_t *result_type(const kiln_kernel_t *kernel, const kiln_node_t *node) {
  return &kernel->graph->types[node->first_result];
}

static kiln_expr_id_t zero_index(kiln_kernel_t *kernel) {
  return kiln_index_constant(kernel, kiln_dim_constant(0));
}

uint32_t kiln_view_axis(int64_t dim, uint32_t rank) { return (uint32_t)(dim < 0 ? dim + rank : dim); }

/* Bit i is set when dims names axis i. */
static uint32_t axis_set(const kiln_node_t *node, uint32_t rank) {
  const kiln_attr_value_t *dims = kiln_node_attr(node, KILN_ATTR_dims);
  uint32_t set = 0;
  for (uint32_t i = 0; i < dims->list.count; i++) set |= 1u << kiln_view_axis(dims->list.integers[i], rank);
  return set;
}

kiln_expr_id_t kiln_view_linear(kiln_kernel_t *kernel, uint32_t rank, const kiln_expr_id_t *index,
                                const kiln_dim_t *strides) {
  kiln_expr_id_t sum = zero_index(kernel);
  for (uint32_t i = 0; i < rank; i++) sum = kiln_index_add_scaled(kernel, sum, strides[i], index[i]);
  return sum;
}

/* --- reshape
 * ------------------------------------------------------------------------------------------------ */

/* Runs of axes of both shapes with the same number of elements, found from the innermost ones: [4,6,5] to
 * [24,5] has (5 -> 5) and (4,6 -> 24). Index arithmetic stays inside a run. */
typedef struct {
  uint32_t operand_first, operand_end, result_first, result_end;
} run_t;

/* The next run to the left of (operand_end, result_end): the shorter product takes one more axis until they
 * agree. */
static run_t next_run(kiln_kernel_t *kernel, const kiln_type_t *operand, const kiln_type_t *result,
                      uint32_t operand_end, uint32_t result_end) {
  run_t run = {operand_end, operand_end, result_end, result_end};
  kiln_dim_t inside = kiln_dim_constant(1), outside = kiln_dim_constant(1);
  do {
    bool extend_operand = run.operand_first && (!run.result_first || kiln_dim_provably_ge(outside, inside));
    if (extend_operand)
      inside = kiln_kernel_dim_mul(kernel, inside, operand->dims[--run.operand_first]);
    else if (run.result_first)
      outside = kiln_kernel_dim_mul(kernel, outside, result->dims[--run.result_first]);
  } while ((run.operand_first || run.result_first) && !kiln_dim_equal(inside, outside));
  return run;
}

/* Splits a position in a run into the operand's axes: the outermost needs no remainder. */
static void delinearize(kiln_kernel_t *kernel, const kiln_type_t *operand, run_t run, kiln_expr_id_t position,
                        kiln_expr_id_t *out_index) {
  for (uint32_t i = run.operand_end; i-- > run.operand_first;) {
    bool last = i == run.operand_first;
    out_index[i] = last ? position : kiln_index_mod(kernel, position, operand->dims[i]);
    if (!last) position = kiln_index_div(kernel, position, operand->dims[i]);
  }
}

static void reshape_run(kiln_kernel_t *kernel, const kiln_type_t *operand, const kiln_type_t *result,
                        run_t run, const kiln_expr_id_t *index, kiln_expr_id_t *out_index) {
  kiln_expr_id_t position = zero_index(kernel);
  kiln_dim_t stride = kiln_dim_constant(1);
  for (uint32_t i = run.result_end; i-- > run.result_first;) {
    position = kiln_index_add_scaled(kernel, position, stride, index[i]);
    stride = kiln_kernel_dim_mul(kernel, stride, result->dims[i]);
  }
  delinearize(kernel, operand, run, position, out_index);
}

static void reshape_runs(kiln_kernel_t *kernel, const kiln_node_t *node, const kiln_expr_id_t *index,
                         kiln_expr_id_t *out_index) {
  const kiln_type_t *operand = operand_type(kernel, node), *result = result_type(kernel, node);
  run_t run = {.operand_first = operand->rank, .result_first = result->rank};
  while (run.operand_first || run.result_first) {
    run = next_run(kernel, operand, result, run.operand_first, run.result_first);
    reshape_run(kernel, operand, result, run, index, out_index);
  }
}

/* Under a guard (i - 64 of [0, 128) into 64 elements) the bounds of an index do not show that it is in range.
 * While the map is made, an axis of the right extent stands in for it, so that divisions fold as they may. */
static void reshape(kiln_kernel_t *kernel, const kiln_node_t *node, const kiln_expr_id_t *index,
                    kiln_expr_id_t *out_index) {
  const kiln_type_t *operand = operand_type(kernel, node), *result = result_type(kernel, node);
  kiln_expr_id_t stand_ins[KILN_MAX_RANK];
  uint32_t first_axis = (uint32_t)kernel->axis_count;
  kiln_expr_id_t first_expr = (kiln_expr_id_t)kernel->expr_count;
  for (uint32_t i = 0; i < result->rank; i++) {
    stand_ins[i] = index[i];
    if (kiln_index_is_within(kernel, index[i], result->dims[i])) continue;
    stand_ins[i] = kiln_index_axis(kernel, kiln_kernel_axis(kernel, result->dims[i], 1));
  }
  reshape_runs(kernel, node, stand_ins, out_index);
  if (kernel->axis_count == first_axis) return;

  kiln_expr_id_t *axes = KILN_NEW_ARRAY(kernel->arena, kiln_expr_id_t, kernel->axis_count);
  for (uint32_t i = 0; i < first_axis; i++) axes[i] = KILN_SAME_AXIS;
  for (uint32_t i = 0, axis = first_axis; i < result->rank; i++) {
    if (stand_ins[i] != index[i]) axes[axis++] = index[i];
  }
  kiln_expr_id_t *made = kiln_rewrite(kernel, axes, first_expr, NULL);
  for (uint32_t i = 0; i < operand->rank; i++) out_index[i] = made[out_index[i]];
}

/* --- the others
 * --------------------------------------------------------------------------------------------- */

static void permute(kiln_kernel_t *kernel, const kiln_node_t *node, const kiln_expr_id_t *index,
                    kiln_expr_id_t *out_index) {
  uint32_t rank = operand_type(kernel, node)->rank;
  const kiln_attr_value_t *dims = kiln_node_attr(node, KILN_ATTR_dims);
  for (uint32_t i = 0; i < rank; i++) out_index[kiln_view_axis(dims->list.integers[i], rank)] = index[i];
}

static void squeeze(kiln_kernel_t *kernel, const kiln_node_t *node, const kiln_expr_id_t *index,
                    kiln_expr_id_t *out_index) {
  uint32_t rank = operand_type(kernel, node)->rank, dropped = axis_set(node, rank), next = 0;
  for (uint32_t i = 0; i < rank; i++) out_index[i] = dropped >> i & 1 ? zero_index(kernel) : index[next++];
}

static void broadcast(kiln_kernel_t *kernel, const kiln_node_t *node, const kiln_expr_id_t *index,
                      kiln_expr_id_t *out_index) {
  uint32_t rank = result_type(kernel, node)->rank, added = axis_set(node, rank), next = 0;
  for (uint32_t i = 0; i < rank; i++) {
    if (!(added >> i & 1)) out_index[next++] = index[i];
  }
}

void kiln_view_broadcast(kiln_kernel_t *kernel, const kiln_type_t *operand, uint32_t result_rank,
                         const kiln_expr_id_t *index, kiln_expr_id_t *out_index) {
  for (uint32_t i = 0; i < operand->rank; i++) {
    bool repeats = kiln_dim_is(operand->dims[i], 1);
    out_index[i] = repeats ? zero_index(kernel) : index[result_rank - operand->rank + i];
  }
}

static void slice(kiln_kernel_t *kernel, const kiln_node_t *node, const kiln_expr_id_t *index,
                  kiln_expr_id_t *out_index) {
  const kiln_attr_value_t *starts = kiln_node_attr(node, KILN_ATTR_starts);
  const kiln_attr_value_t *steps = kiln_node_attr(node, KILN_ATTR_steps);
  for (uint32_t i = 0; i < operand_type(kernel, node)->rank; i++) {
    kiln_dim_t step = kiln_dim_constant(steps ? steps->list.integers[i] : 1);
    kiln_expr_id_t start = kiln_index_constant(kernel, starts->list.dims[i]);
    out_index[i] = kiln_index_add_scaled(kernel, start, step, index[i]);
  }
}

static void split(kiln_kernel_t *kernel, const kiln_node_t *node, uint32_t result,
                  const kiln_expr_id_t *index, kiln_expr_id_t *out_index) {
  uint32_t rank = operand_type(kernel, node)->rank;
  uint32_t axis = kiln_view_axis(kiln_node_int(node, KILN_ATTR_dim, 0), rank);
  kiln_dim_t start = kiln_dim_constant(0);
  for (uint32_t i = 0; i < result; i++) {
    start = kiln_kernel_dim_add(kernel, start, kernel->graph->types[node->first_result + i].dims[axis]);
  }
  for (uint32_t i = 0; i < rank; i++) out_index[i] = index[i];
  out_index[axis] = kiln_index_add(kernel, index[axis], kiln_index_constant(kernel, start));
}

static void repeat(kiln_kernel_t *kernel, const kiln_node_t *node, const kiln_expr_id_t *index,
                   kiln_expr_id_t *out_index) {
  const kiln_type_t *operand = operand_type(kernel, node);
  uint32_t added = result_type(kernel, node)->rank - operand->rank;
  for (uint32_t i = 0; i < operand->rank; i++) {
    out_index[i] = kiln_index_mod(kernel, index[added + i], operand->dims[i]);
  }
}

static void reverse(kiln_kernel_t *kernel, const kiln_node_t *node, const kiln_expr_id_t *index,
                    kiln_expr_id_t *out_index) {
  const kiln_type_t *operand = operand_type(kernel, node);
  uint32_t reversed = axis_set(node, operand->rank);
  for (uint32_t i = 0; i < operand->rank; i++) {
    out_index[i] = index[i];
    if (!(reversed >> i & 1)) continue;
    kiln_dim_t last = kiln_kernel_dim_sub(kernel, operand->dims[i], kiln_dim_constant(1));
    out_index[i] =
        kiln_index_add_scaled(kernel, kiln_index_constant(kernel, last), kiln_dim_constant(-1), index[i]);
  }
}

kiln_expr_id_t kiln_view_pad(kiln_kernel_t *kernel, const kiln_node_t *node, const kiln_expr_id_t *index,
                             kiln_expr_id_t *out_index) {
  const kiln_type_t *operand = operand_type(kernel, node);
  const kiln_attr_value_t *low = kiln_node_attr(node, KILN_ATTR_low);
  kiln_expr_id_t inside = kiln_condition_true(kernel);
  for (uint32_t i = 0; i < operand->rank; i++) {
    kiln_expr_id_t start = kiln_index_constant(kernel, low->list.dims[i]);
    out_index[i] = kiln_index_add_scaled(kernel, index[i], kiln_dim_constant(-1), start);
    kiln_expr_id_t from = kiln_condition_at_least(kernel, out_index[i], kiln_dim_constant(0));
    kiln_expr_id_t to = kiln_condition_below(kernel, out_index[i], operand->dims[i]);
    inside = kiln_condition_and(kernel, inside, kiln_condition_and(kernel, from, to));
  }
  return inside;
}

bool kiln_view_is_index_map(kiln_op_t op) {
  return kiln_op_info(op)->op_class == KILN_CLASS_VIEW && op != KILN_OP_pad && op != KILN_OP_cat;
}

void kiln_view_index(kiln_kernel_t *kernel, const kiln_node_t *node, uint32_t result,
                     const kiln_expr_id_t *index, kiln_expr_id_t *out_index) {
  switch (node->op) {
  case KILN_OP_reshape:
    reshape(kernel, node, index, out_index);
    return;
  case KILN_OP_permute:
    permute(kernel, node, index, out_index);
    return;
  case KILN_OP_squeeze:
    squeeze(kernel, node, index, out_index);
    return;
  case KILN_OP_broadcast:
    broadcast(kernel, node, index, out_index);
    return;
  case KILN_OP_slice:
    slice(kernel, node, index, out_index);
    return;
  case KILN_OP_split:
    split(kernel, node, result, index, out_index);
    return;
  case KILN_OP_repeat:
    repeat(kernel, node, index, out_index);
    return;
  case KILN_OP_reverse:
    reverse(kernel, node, index, out_index);
    return;
  default:
    kiln_view_broadcast(kernel, operand_type(kernel, node), result_type(kernel, node)->rank, index,
                        out_index);
  }
}
