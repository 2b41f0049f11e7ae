/* ir/reference_views.c: the ops that move storage bits, or make them: views, creation, gather and embedding.
 *
 * Every view is one walk over a box of elements with two strided offsets, from the operand and to the result.
 * Bounds travel with the bits, so -0.0 and NaN payloads survive as the design says.
 */
#include "ir/number.h"
#include "ir/reference_impl.h"

#include <string.h>

static uint32_t axis_of(int64_t dim, uint32_t rank) { return (uint32_t)(dim < 0 ? dim + rank : dim); }

static void move_element(kiln_ref_run_t *run, const kiln_ref_value_t *from, int64_t at, kiln_ref_value_t *to,
                         int64_t to_at) {
  const char *source = from->tensor.data;
  char *target = to->tensor.data;
  switch (kiln_dtype_bytes(to->tensor.dtype)) {
  case 1:
    target[to_at] = source[at];
    break;
  case 2:
    memcpy(target + 2 * to_at, source + 2 * at, 2);
    break;
  case 4:
    memcpy(target + 4 * to_at, source + 4 * at, 4);
    break;
  default:
    memcpy(target + 8 * to_at, source + 8 * at, 8);
    break;
  }
  if (from->bound && from->bound[at]) kiln_ref_set_bound(run, to, to_at, from->bound[at]);
}

/* Stream 0 of the walk runs through `from`, stream 1 through `to`. */
static void move_box(kiln_ref_run_t *run, kiln_walk_t *walk, const kiln_ref_value_t *from,
                     kiln_ref_value_t *to) {
  int64_t count = kiln_walk_count(walk);
  for (int64_t i = 0; i < count; i++, kiln_walk_next(walk))
    move_element(run, from, walk->at[0], to, walk->at[1]);
}

/* -- views ---------------------------------------------------------------------------------------------- */

/* Operand, result and their row-major strides. */
typedef struct {
  const kiln_ref_call_t *call;
  const kiln_ref_value_t *from;
  kiln_ref_value_t *to;
  int64_t from_strides[KILN_MAX_RANK], to_strides[KILN_MAX_RANK];
} view_t;

static view_t view_between(const kiln_ref_call_t *call, uint32_t operand, uint32_t result) {
  view_t view = {.call = call, .from = kiln_ref_operand(call, operand), .to = &call->results[result]};
  kiln_walk_row_major(view.from->tensor.rank, view.from->tensor.sizes, view.from_strides);
  kiln_walk_row_major(view.to->tensor.rank, view.to->tensor.sizes, view.to_strides);
  return view;
}

static int64_t dim_attr(const kiln_ref_call_t *call, kiln_attr_t attr, uint32_t index) {
  int64_t value = 0;
  kiln_dim_eval(kiln_node_attr(call->node, attr)->list.dims[index], call->run->symbols, &value);
  return value;
}

static const int64_t *int_list(const kiln_ref_call_t *call, kiln_attr_t attr) {
  const kiln_attr_value_t *value = kiln_node_attr(call->node, attr);
  return value ? value->list.integers : NULL;
}

/* reshape, squeeze, broadcast: the same elements in the same order. */
static void move_all(const kiln_ref_call_t *call) {
  view_t view = view_between(call, 0, 0);
  kiln_walk_t walk = {0};
  kiln_walk_axis(&walk, view.to->elements, 1, 1);
  move_box(call->run, &walk, view.from, view.to);
}

static void permute(const kiln_ref_call_t *call) {
  view_t view = view_between(call, 0, 0);
  kiln_walk_t walk = {0};
  uint32_t rank = view.to->tensor.rank;
  for (uint32_t axis = 0; axis < rank; axis++) {
    uint32_t source = axis_of(int_list(call, KILN_ATTR_dims)[axis], rank);
    kiln_walk_axis(&walk, view.to->tensor.sizes[axis], view.from_strides[source], view.to_strides[axis]);
  }
  move_box(call->run, &walk, view.from, view.to);
}

static void expand(const kiln_ref_call_t *call) {
  view_t view = view_between(call, 0, 0);
  kiln_walk_t walk = {0};
  uint32_t added = view.to->tensor.rank - view.from->tensor.rank;
  for (uint32_t axis = 0; axis < view.to->tensor.rank; axis++) {
    bool stands = axis < added || view.from->tensor.sizes[axis - added] == 1;
    kiln_walk_axis(&walk, view.to->tensor.sizes[axis], stands ? 0 : view.from_strides[axis - added],
                   view.to_strides[axis]);
  }
  move_box(call->run, &walk, view.from, view.to);
}

static void slice(const kiln_ref_call_t *call) {
  view_t view = view_between(call, 0, 0);
  kiln_walk_t walk = {0};
  const int64_t *steps = int_list(call, KILN_ATTR_steps);
  for (uint32_t axis = 0; axis < view.to->tensor.rank; axis++) {
    walk.at[0] += dim_attr(call, KILN_ATTR_starts, axis) * view.from_strides[axis];
    kiln_walk_axis(&walk, view.to->tensor.sizes[axis], view.from_strides[axis] * (steps ? steps[axis] : 1),
                   view.to_strides[axis]);
  }
  move_box(call->run, &walk, view.from, view.to);
}

static void reverse(const kiln_ref_call_t *call) {
  view_t view = view_between(call, 0, 0);
  kiln_walk_t walk = {0};
  const kiln_attr_value_t *dims = kiln_node_attr(call->node, KILN_ATTR_dims);
  for (uint32_t axis = 0; axis < view.to->tensor.rank; axis++)
    kiln_walk_axis(&walk, view.to->tensor.sizes[axis], view.from_strides[axis], view.to_strides[axis]);
  for (uint32_t i = 0; i < dims->list.count; i++) {
    uint32_t axis = axis_of(dims->list.integers[i], walk.rank);
    walk.at[0] += (walk.sizes[axis] - 1) * walk.strides[axis][0];
    walk.strides[axis][0] *= -1;
  }
  move_box(call->run, &walk, view.from, view.to);
}

static void repeat(const kiln_ref_call_t *call) {
  view_t view = view_between(call, 0, 0);
  kiln_walk_t walk = {0};
  uint32_t added = view.to->tensor.rank - view.from->tensor.rank;
  for (uint32_t axis = 0; axis < view.to->tensor.rank; axis++) {
    int64_t size = axis < added ? 1 : view.from->tensor.sizes[axis - added];
    kiln_walk_axis(&walk, size ? view.to->tensor.sizes[axis] / size : 0, 0, size * view.to_strides[axis]);
    kiln_walk_axis(&walk, size, axis < added ? 0 : view.from_strides[axis - added], view.to_strides[axis]);
  }
  move_box(call->run, &walk, view.from, view.to);
}

/* A box of the operand's (or the result's) own shape at an offset of the other side. */
static void move_part(const view_t *view, const kiln_tensor_t *box, int64_t from_offset, int64_t to_offset) {
  kiln_walk_t walk = {.at = {from_offset, to_offset}};
  for (uint32_t axis = 0; axis < box->rank; axis++)
    kiln_walk_axis(&walk, box->sizes[axis], view->from_strides[axis], view->to_strides[axis]);
  move_box(view->call->run, &walk, view->from, view->to);
}

/* With the attribute `value`, or 0 where it is absent. */
static void fill(const kiln_ref_call_t *call) {
  const kiln_ref_value_t *to = call->results;
  const kiln_attr_value_t *value = kiln_node_attr(call->node, KILN_ATTR_value);
  uint64_t bits = value ? kiln_number_to_bits(value->number, to->tensor.dtype) : 0;
  for (int64_t i = 0; i < to->elements; i++) kiln_bits_write(to->tensor.data, i, to->tensor.dtype, bits);
}

static void pad(const kiln_ref_call_t *call) {
  view_t view = view_between(call, 0, 0);
  int64_t offset = 0;
  for (uint32_t axis = 0; axis < view.to->tensor.rank; axis++)
    offset += dim_attr(call, KILN_ATTR_low, axis) * view.to_strides[axis];
  fill(call);
  move_part(&view, &view.from->tensor, 0, offset);
}

static void cat(const kiln_ref_call_t *call) {
  uint32_t axis = axis_of(kiln_node_int(call->node, KILN_ATTR_dim, 0), call->results->tensor.rank);
  int64_t begin = 0;
  for (uint32_t i = 0; i < call->node->operand_count; i++) {
    view_t view = view_between(call, i, 0);
    move_part(&view, &view.from->tensor, 0, begin * view.to_strides[axis]);
    begin += view.from->tensor.sizes[axis];
  }
}

static void split(const kiln_ref_call_t *call) {
  uint32_t axis = axis_of(kiln_node_int(call->node, KILN_ATTR_dim, 0), call->results->tensor.rank);
  int64_t begin = 0;
  for (uint32_t i = 0; i < call->node->result_count; i++) {
    view_t view = view_between(call, 0, i);
    move_part(&view, &view.to->tensor, begin * view.from_strides[axis], 0);
    begin += view.to->tensor.sizes[axis];
  }
}

kiln_status_t kiln_ref_view(const kiln_ref_call_t *call) {
  switch (call->node->op) {
  case KILN_OP_permute:
    permute(call);
    break;
  case KILN_OP_expand:
    expand(call);
    break;
  case KILN_OP_slice:
    slice(call);
    break;
  case KILN_OP_pad:
    pad(call);
    break;
  case KILN_OP_cat:
    cat(call);
    break;
  case KILN_OP_split:
    split(call);
    break;
  case KILN_OP_repeat:
    repeat(call);
    break;
  case KILN_OP_reverse:
    reverse(call);
    break;
  default:
    move_all(call);
    break;
  }
  return NULL;
}

/* -- creation ------------------------------------------------------------------------------------------- */

static void iota(const kiln_ref_call_t *call) {
  kiln_ref_value_t *to = call->results;
  kiln_walk_t walk = {0};
  uint32_t dim = axis_of(kiln_node_int(call->node, KILN_ATTR_dim, 0), to->tensor.rank);
  for (uint32_t axis = 0; axis < to->tensor.rank; axis++)
    kiln_walk_axis(&walk, to->tensor.sizes[axis], axis == dim, 0);
  for (int64_t i = 0; i < to->elements; i++, kiln_walk_next(&walk)) {
    kiln_ref_scalar_t position = {.integer = walk.at[0]};
    kiln_ref_write(call->run, to, i, kiln_ref_cast(position, KILN_DTYPE_i64, to->tensor.dtype));
  }
}

static void constant(const kiln_ref_call_t *call) {
  const kiln_ref_value_t *to = call->results;
  for (int64_t i = 0; i < to->elements; i++)
    kiln_bits_write(to->tensor.data, i, to->tensor.dtype, kiln_constant_bits(call->node, (uint32_t)i));
}

kiln_status_t kiln_ref_creation(const kiln_ref_call_t *call) {
  switch (call->node->op) {
  case KILN_OP_iota:
    iota(call);
    break;
  case KILN_OP_constant:
    constant(call);
    break;
  default:
    fill(call);
    break;
  }
  return NULL;
}

/* -- indexing ------------------------------------------------------------------------------------------- */

/* The index at a position, clamped as kernels clamp it. The verifier's constraints keep size above 0. */
static int64_t index_at(const kiln_ref_value_t *indices, int64_t at, int64_t size) {
  int64_t index = kiln_ref_read_integer(&indices->tensor, at);
  return index < 0 ? 0 : index >= size ? size - 1 : index;
}

static void gather(const kiln_ref_call_t *call) {
  const kiln_ref_value_t *table = kiln_ref_operand(call, 0), *indices = kiln_ref_operand(call, 1);
  uint32_t dim = axis_of(kiln_node_int(call->node, KILN_ATTR_dim, 0), table->tensor.rank);
  int64_t strides[KILN_MAX_RANK];
  kiln_walk_row_major(table->tensor.rank, table->tensor.sizes, strides);
  kiln_walk_t walk = {0};
  for (uint32_t axis = 0; axis < indices->tensor.rank; axis++)
    kiln_walk_axis(&walk, indices->tensor.sizes[axis], axis == dim ? 0 : strides[axis], 0);
  for (int64_t i = 0; i < indices->elements; i++, kiln_walk_next(&walk)) {
    int64_t index = index_at(indices, i, table->tensor.sizes[dim]);
    move_element(call->run, table, walk.at[0] + index * strides[dim], call->results, i);
    if (kiln_ref_bound(indices, i)) kiln_ref_set_bound(call->run, call->results, i, INFINITY);
  }
}

static void embedding(const kiln_ref_call_t *call) {
  const kiln_ref_value_t *table = kiln_ref_operand(call, 0), *indices = kiln_ref_operand(call, 1);
  int64_t rows = table->tensor.sizes[0], width = rows ? table->elements / rows : 0;
  for (int64_t i = 0; i < call->results->elements; i++) {
    int64_t row = index_at(indices, i / width, rows);
    move_element(call->run, table, row * width + i % width, call->results, i);
    if (kiln_ref_bound(indices, i / width)) kiln_ref_set_bound(call->run, call->results, i, INFINITY);
  }
}

kiln_status_t kiln_ref_indexing(const kiln_ref_call_t *call) {
  if (call->node->op == KILN_OP_gather)
    gather(call);
  else
    embedding(call);
  return NULL;
}
