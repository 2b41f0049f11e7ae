/* passes/repetition.c: concatenations of one value with itself become a repeat.
 *
 *   %y = cat(%x: [4,8], %x) {dim=1}                            ->   %y: [4,16] = repeat(%x) {times=[1,2]}
 *   add(pad(%a) {high=[N]}, pad(%b) {low=[N]})                 ->   cat(%a + 0.0, %b + 0.0); a repeat when
 * they are equal reshape(expand(%x: [1,N]) {shape=[2,N]}) {shape=[2*N]}     ->   repeat(%x) {times=[2]}
 *
 * Source: nvFuser's "translate repeat to expand" (NVIDIA/Fuser PR #3645); unlike it, this checks that padded
 * windows tile the result exactly, and moves bits: a sum of pads is a copy only where it adds -0.0, elsewhere
 * the +0.0 is added to each part, as the graph did. Stands after cse, which makes operands that are equal by
 * value the same operand. An interleave (the new axis behind the repeated one) is no tile and stays. Counts
 * rewrites; `repetitions` counts repeating concatenations.
 */
#include <math.h>
#include <string.h>

#include "passes/replica.h"

enum { MAX_PADS = 64 }; /* summands looked at, so that a long sum is not searched from each of its nodes */

static bool all_same(const kiln_value_id_t *values, uint32_t count) {
  for (uint32_t i = 1; i < count; i++) {
    if (values[i] != values[0]) return false;
  }
  return count > 1;
}

/* The draft, a cat of n times x along the axis, as a repeat. */
static bool draft_repeat(rewrite_t *rw, draft_t *draft, kiln_value_id_t x, int64_t axis, uint32_t n) {
  replica_t replica = {0};
  for (uint32_t i = 0; i < draft->type.rank; i++) replica.times[i] = i == axis ? n : 1;
  if (!replica_build(rw, draft, x, &replica)) return false;
  rw->context->repetitions++;
  return true;
}

static bool rewrite_cat(rewrite_t *rw, draft_t *draft) {
  if (draft->op != KILN_OP_cat || !all_same(draft->operands, draft->operand_count)) return false;
  return draft_repeat(rw, draft, draft->operands[0], draft_int(draft, KILN_ATTR_dim), draft->operand_count);
}

/* The reshape is placed first, so that the match can look at it like at any other value. */
static bool rewrite_expand(rewrite_t *rw, draft_t *draft) {
  if (draft->op != KILN_OP_reshape) return false;
  draft_t tile = *draft;
  replica_t replica;
  draft->value = rewrite_place(rw, draft);
  if (!replica_match(rw, draft->value, &replica) || replica.interleave) return false;
  if (!replica_build(rw, &tile, replica_inner(rw, &replica), &replica)) return false;
  *draft = tile;
  return true;
}

/* --- sums of pads -------------------------------------------------------------------------------------- */

typedef struct {
  const kiln_node_t *pad;
  kiln_number_t fill; /* in the sum's dtype */
} window_t;

typedef struct {
  window_t items[MAX_PADS];
  uint32_t count;
} windows_t;

static bool adds_up(kiln_op_t op) {
  return op == KILN_OP_add || op == KILN_OP_bitwise_or || op == KILN_OP_bitwise_xor;
}

static bool is_zero(kiln_number_t number) {
  return number.is_integer ? number.integer == 0 : number.real == 0;
}

/* pad(x), or cast(pad(x)) where the fill is 0, which is 0 in every dtype. */
static bool match_window(const rewrite_t *rw, kiln_value_id_t value, window_t *out) {
  const kiln_node_t *cast = rewrite_match(rw, value, KILN_OP_cast);
  const kiln_node_t *pad = rewrite_match(rw, cast ? cast->operands[0] : value, KILN_OP_pad);
  if (!pad) return false;
  kiln_dtype_t dtype = rewrite_type(rw, value)->dtype;
  out->pad = pad;
  out->fill = number_of_pad(kiln_node_attr(pad, KILN_ATTR_value), rewrite_type(rw, pad->operands[0])->dtype);
  if (!cast) return true;
  if (kiln_dtype_is_float(dtype)) out->fill = number_real(signbit(out->fill.real) ? -0.0 : 0.0);
  return is_zero(out->fill);
}

/* The pads that the draft sums up, through sums of sums; a summand that is none ends the search. */
static bool find_windows(const rewrite_t *rw, const draft_t *draft, windows_t *windows) {
  kiln_value_id_t pending[MAX_PADS];
  uint32_t pending_count = 0;
  for (uint32_t i = 0; i < draft->operand_count; i++) pending[pending_count++] = draft->operands[i];
  while (pending_count) {
    kiln_value_id_t value = pending[--pending_count];
    const kiln_node_t *sum = rewrite_match(rw, value, draft->op);
    window_t window;
    if (!kiln_type_same_shape(rewrite_type(rw, value), &draft->type)) return false;
    if (match_window(rw, value, &window)) {
      if (windows->count == MAX_PADS) return false;
      windows->items[windows->count++] = window;
    } else if (sum && pending_count + 2 <= MAX_PADS) {
      pending[pending_count++] = sum->operands[0];
      pending[pending_count++] = sum->operands[1];
    } else {
      return false;
    }
  }
  return windows->count > 1;
}

/* The one axis along which a pad widens; false when there is none or more than one. */
static bool widened_axis(const kiln_node_t *pad, uint32_t rank, uint32_t *out_axis) {
  const kiln_dim_t *low = kiln_node_attr(pad, KILN_ATTR_low)->list.dims;
  const kiln_dim_t *high = kiln_node_attr(pad, KILN_ATTR_high)->list.dims;
  uint32_t found = 0;
  for (uint32_t i = 0; i < rank; i++) {
    if (kiln_dim_is(low[i], 0) && kiln_dim_is(high[i], 0)) continue;
    *out_axis = i;
    found++;
  }
  return found == 1;
}

/* Puts the windows in order along the axis; false unless each begins where the one before it ends, from 0 to
 * the size. */
static bool order_windows(const rewrite_t *rw, windows_t *windows, const kiln_type_t *type, uint32_t axis) {
  kiln_dim_t offset = kiln_dim_constant(0);
  for (uint32_t i = 0; i < windows->count; i++) {
    uint32_t next = i;
    while (
        next < windows->count &&
        !kiln_dim_equal(kiln_node_attr(windows->items[next].pad, KILN_ATTR_low)->list.dims[axis], offset)) {
      next++;
    }
    if (next == windows->count) return false;
    window_t window = windows->items[next];
    windows->items[next] = windows->items[i];
    windows->items[i] = window;
    kiln_dim_t size = rewrite_type(rw, window.pad->operands[0])->dims[axis];
    if (!kiln_dim_add(rw->arena, offset, size, &offset)) return false;
  }
  return kiln_dim_equal(offset, type->dims[axis]);
}

/* What window i meets in the sum, as one number: the other's fill when there are two; else all fills are
 * zeros, and +0.0 when one of the others is that. False when three or more fills are not all zero: their
 * order of rounding would be lost. */
static bool addend_of(const windows_t *windows, uint32_t i, kiln_number_t *out) {
  if (windows->count == 2) {
    *out = windows->items[1 - i].fill;
    return true;
  }
  bool positive = false;
  for (uint32_t k = 0; k < windows->count; k++) {
    if (!is_zero(windows->items[k].fill)) return false;
    positive |= k != i && !signbit(windows->items[k].fill.real);
  }
  *out = number_real(positive ? 0.0 : -0.0);
  return true;
}

/* Adding -0.0 changes no float, adding 0 no integer. */
static bool is_neutral(kiln_number_t addend, kiln_dtype_t dtype) {
  return is_zero(addend) && (!kiln_dtype_is_float(dtype) || signbit(addend.real));
}

/* What the window shows, in the sum's dtype, with what it meets in the sum. */
static kiln_value_id_t part_of(rewrite_t *rw, const draft_t *draft, const window_t *window,
                               kiln_number_t addend) {
  kiln_value_id_t part = window->pad->operands[0];
  if (rewrite_type(rw, part)->dtype != draft->type.dtype) {
    kiln_attr_value_t dtype = attr_dtype(draft->type.dtype);
    part = rewrite_emit(rw, KILN_OP_cast, &part, 1, &dtype, 1);
  }
  if (is_neutral(addend, draft->type.dtype)) return part;
  kiln_attr_value_t attrs[] = {attr_dtype(draft->type.dtype),
                               attr_dims(KILN_ATTR_shape, NULL, 0),
                               {.attr = KILN_ATTR_value, .number = addend}};
  kiln_value_id_t scalar = rewrite_emit(rw, KILN_OP_full, NULL, 0, attrs, 3);
  return rewrite_emit(rw, draft->op, (kiln_value_id_t[]){part, scalar}, 2, NULL, 0);
}

/* The axis along which all windows are padded. */
static bool common_axis(const windows_t *windows, uint32_t rank, uint32_t *out_axis) {
  for (uint32_t i = 0; i < windows->count; i++) {
    uint32_t axis = 0;
    if (!widened_axis(windows->items[i].pad, rank, &axis) || (i && axis != *out_axis)) return false;
    *out_axis = axis;
  }
  return true;
}

static bool same_parts(const windows_t *windows, const kiln_number_t *addends) {
  for (uint32_t i = 1; i < windows->count; i++) {
    if (windows->items[i].pad->operands[0] != windows->items[0].pad->operands[0]) return false;
    if (!number_equal(addends[i], addends[0])) return false;
  }
  return true;
}

static bool rewrite_sum(rewrite_t *rw, draft_t *draft) {
  windows_t windows = {.count = 0};
  uint32_t axis = 0;
  kiln_number_t addends[MAX_PADS];
  if (!adds_up(draft->op) || !find_windows(rw, draft, &windows)) return false;
  if (!common_axis(&windows, draft->type.rank, &axis) || !order_windows(rw, &windows, &draft->type, axis))
    return false;
  for (uint32_t i = 0; i < windows.count; i++) {
    if (!addend_of(&windows, i, &addends[i])) return false;
  }
  if (same_parts(&windows, addends)) {
    return draft_repeat(rw, draft, part_of(rw, draft, &windows.items[0], addends[0]), axis, windows.count);
  }
  kiln_value_id_t parts[MAX_PADS];
  for (uint32_t i = 0; i < windows.count; i++) parts[i] = part_of(rw, draft, &windows.items[i], addends[i]);
  kiln_attr_value_t dim = attr_int(KILN_ATTR_dim, axis);
  return draft_set(rw, draft, KILN_OP_cat, parts, windows.count, &dim, 1);
}

const kiln_graph_t *kiln_pass_repetition(kiln_pass_context_t *context, const kiln_graph_t *graph) {
  if (!graph_has(graph, KILN_OP_cat) && !graph_has(graph, KILN_OP_pad) && !graph_has(graph, KILN_OP_expand))
    return graph;
  rewrite_t rw = rewrite_begin(context, graph);
  for (uint32_t n = 0; n < graph->node_count; n++) {
    const kiln_node_t *node = &graph->nodes[n];
    if (node->result_count != 1) {
      rewrite_copy(&rw, node);
      continue;
    }
    draft_t draft = rewrite_draft(&rw, node);
    if (rewrite_cat(&rw, &draft) || rewrite_sum(&rw, &draft) || rewrite_expand(&rw, &draft))
      context->applied++;
    rw.map[node->first_result] = rewrite_place(&rw, &draft);
  }
  return rewrite_finish(&rw);
}
