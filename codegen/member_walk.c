/* codegen/member_walk.c: a group as planes: which axes each value has, where leaves lie, what is computed.
 *
 * 1. One node says what the plane is: the contraction, the first reduction, else the first store.
 * 2. Nodes are walked in order. A view of something read is read there: offset and strides. A view of
 *    something computed must keep rows rows and columns columns. An operation's result has the axes that its
 *    operands have; operands that lie otherwise than NumPy's broadcasting of planes would have it end the
 * walk.
 * 3. Which axes a leaf has is told by how it is used, not by its sizes, so that a member with one row is of
 *    the class of those with many.
 * Linear in the nodes but for the search of inputs. Called by member.c.
 */
#include "codegen/member_view.h"

#include "codegen/lower.h"
#include "codegen/lower_reduce.h"
#include "ir/number.h"

#include <string.h>

enum { MOST_NODES = 64, NONE = UINT32_MAX };

/* What a value is: read, or an operand of the small graph. */
typedef struct {
  const kiln_member_view_t *view; /* NULL: computed, */
  uint32_t operand;               /* as this */
  uint32_t axes;
} state_t;

typedef struct {
  kiln_arena_t *arena;
  kiln_member_t *member;
  const kiln_graph_t *graph;
  const kiln_grouping_t *grouping;
  state_t *states; /* per node of the group: its first result */
  kiln_dim_t m, n;
  uint32_t rank, split; /* of the type that the plane is told by */
  uint32_t full;        /* the axes of a whole plane */
  bool in_rows;         /* what is flat is taken as rows all the same */
  uint32_t always;      /* axes that every value has: there is nothing to tell them by */
} walk_t;

static const kiln_type_t *type_of(const walk_t *walk, kiln_value_id_t value) {
  return &walk->graph->types[value];
}

static bool product(kiln_arena_t *arena, const kiln_dim_t *dims, uint32_t count, kiln_dim_t *out) {
  *out = kiln_dim_constant(1);
  for (uint32_t i = 0; i < count; i++) {
    if (!kiln_dim_mul(arena, *out, dims[i], out)) return false;
  }
  return true;
}

/* --- planes -------------------------------------------------------------------------------------------- */

/* Do the leading and the trailing axes of a type with all elements of the plane make rows and columns? */
static bool splits_at(const walk_t *walk, const kiln_type_t *type, uint32_t *out_split) {
  kiln_dim_t rows, columns;
  for (uint32_t i = 0; i <= type->rank + 1; i++) { /* the plane's own first, then from the end */
    uint32_t split = i ? type->rank + 1 - i : walk->split;
    if (!i && type->rank != walk->rank) continue;
    if (!product(walk->arena, type->dims, split, &rows) ||
        !product(walk->arena, type->dims + split, type->rank - split, &columns))
      return false;
    if (kiln_dim_equal(rows, walk->m) && kiln_dim_equal(columns, walk->n)) {
      *out_split = split;
      return true;
    }
  }
  return false;
}

/* Which axes an operand of NumPy's rule has, given the result's type and the split of that. Where sizes of 1
 * leave it open, an axis counts when the operand spells it out. */
static bool operand_axes(const walk_t *walk, const kiln_type_t *result, uint32_t split,
                         const kiln_type_t *operand, uint32_t *out_axes) {
  uint32_t padding = result->rank - operand->rank;
  bool equal[2] = {true, true}, one[2] = {true, true};
  if (operand->rank > result->rank) return false;
  for (uint32_t i = 0; i < result->rank; i++) {
    kiln_dim_t size = i < padding ? kiln_dim_constant(1) : operand->dims[i - padding];
    equal[i >= split] &= i >= padding && kiln_dim_equal(size, result->dims[i]);
    one[i >= split] &= kiln_dim_is(size, 1);
  }
  if (!(equal[0] || one[0]) || !(equal[1] || one[1])) return false;
  *out_axes = (equal[0] && split > 0 ? KILN_HAS_M : 0) | (equal[1] && split < result->rank ? KILN_HAS_N : 0);
  *out_axes |= walk->always;
  return true;
}

/* The one stride of some axes seen as one; false when they are not one. No step is made along axes of size 1.
 */
static bool merged_stride(const walk_t *walk, const kiln_dim_t *dims, const kiln_dim_t *strides,
                          uint32_t count, bool *out_steps, kiln_dim_t *out) {
  bool is_first = true;
  kiln_dim_t wanted = kiln_dim_constant(0);
  *out = kiln_dim_constant(0);
  for (uint32_t i = count; i-- > 0;) {
    if (kiln_dim_is(dims[i], 1)) continue;
    if (is_first)
      *out = strides[i];
    else if (!kiln_dim_equal(strides[i], wanted))
      return false;
    if (!kiln_dim_mul(walk->arena, strides[i], dims[i], &wanted)) return false;
    is_first = false;
  }
  *out_steps = !is_first;
  return true;
}

/* Strides of the outer and the inner axis: one of them has neighbours in memory, the other goes to the leaf.
 */
static bool place_leaf(const walk_t *walk, const kiln_type_t *type, const kiln_dim_t *strides, uint32_t split,
                       kiln_leaf_t *leaf) {
  kiln_dim_t outer, inner;
  bool outer_steps, inner_steps;
  if (!merged_stride(walk, type->dims, strides, split, &outer_steps, &outer) ||
      !merged_stride(walk, type->dims + split, strides + split, type->rank - split, &inner_steps, &inner))
    return false;
  bool inner_has_neighbours = !inner_steps || kiln_dim_is(inner, 1);
  bool outer_has_neighbours = !outer_steps || kiln_dim_is(outer, 1);
  if (!inner_has_neighbours && !outer_has_neighbours) return false;
  leaf->is_transposed = !inner_has_neighbours;
  leaf->steps = inner_has_neighbours ? outer_steps : inner_steps;
  leaf->stride = inner_has_neighbours ? outer : inner;
  return true;
}

static bool leaf_equal(const kiln_leaf_t *a, const kiln_leaf_t *b) {
  return a->value == b->value && a->axes == b->axes && a->is_vector == b->is_vector &&
         a->k_is_outer == b->k_is_outer && a->is_transposed == b->is_transposed &&
         kiln_dim_equal(a->offset, b->offset) && kiln_dim_equal(a->stride, b->stride);
}

/* An input of the small graph for a view that is used like this; its type is cut at `split`. */
static bool add_leaf(walk_t *walk, const kiln_member_view_t *view, kiln_leaf_t leaf, uint32_t split,
                     uint32_t *out_operand) {
  kiln_member_t *member = walk->member;
  leaf.value = view->root;
  leaf.dtype = view->type.dtype;
  leaf.offset = view->offset;
  leaf.stride_symbol = -1;
  if (!place_leaf(walk, &view->type, view->strides, split, &leaf)) return false;
  uint32_t i = 0;
  while (i < member->leaf_count && !leaf_equal(&member->leaves[i], &leaf)) i++;
  if (i == member->leaf_count)
    KILN_PUSH(walk->arena, member->leaves, member->leaf_count, member->leaf_capacity, leaf);
  *out_operand = 2 * i;
  return true;
}

/* --- values -------------------------------------------------------------------------------------------- */

static bool is_read(const walk_t *walk, kiln_value_id_t value) {
  const kiln_group_t *group = walk->member->group;
  if (value < walk->graph->input_count) return true;
  for (uint32_t i = 0; i < group->input_count; i++) {
    if (group->inputs[i] == value) return true;
  }
  return false;
}

static uint32_t place_of(const walk_t *walk, uint32_t node) {
  const kiln_group_t *group = walk->member->group;
  uint32_t low = 0, high = group->node_count;
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    if (group->nodes[middle] < node)
      low = middle + 1;
    else
      high = middle;
  }
  return low < group->node_count && group->nodes[low] == node ? low : NONE;
}

static bool find_state(const walk_t *walk, kiln_value_id_t value, state_t *out) {
  if (is_read(walk, value)) {
    *out = (state_t){.view = kiln_member_whole_view(walk->arena, walk->graph, walk->grouping, value)};
    return out->view != NULL;
  }
  uint32_t node = walk->graph->producers[value], place = place_of(walk, node);
  if (place == NONE) return false;
  *out = walk->states[place];
  const kiln_node_t *producer = &walk->graph->nodes[node];
  if (producer->op == KILN_OP_split && out->view) /* one state stands for all its results: the operand's */
    out->view =
        kiln_member_view_of(walk->arena, walk->graph, producer, value - producer->first_result, out->view);
  return out->view || out->operand != NONE;
}

static uint32_t add_step(walk_t *walk, uint32_t node, uint32_t axes, const uint32_t *operands,
                         uint32_t count) {
  kiln_member_t *member = walk->member;
  kiln_step_t step = {.node = node,
                      .axes = axes,
                      .operand_count = count,
                      .operands = kiln_arena_copy(walk->arena, operands, count * sizeof *operands),
                      .eps_symbol = -1};
  KILN_PUSH(walk->arena, member->steps, member->step_count, member->step_capacity, step);
  return 2 * (uint32_t)(member->step_count - 1) + 1;
}

/* --- nodes --------------------------------------------------------------------------------------------- */

/* An operand at its place in a result of this type, with the axes it turns out to have. */
static bool use(walk_t *walk, kiln_value_id_t value, const kiln_type_t *result, uint32_t split,
                uint32_t *axes, uint32_t *out_operand) {
  state_t state;
  const kiln_type_t *type = type_of(walk, value);
  if (!find_state(walk, value, &state) || !operand_axes(walk, result, split, type, axes)) return false;
  if (state.view) {
    uint32_t padding = result->rank - type->rank;
    return add_leaf(walk, state.view, (kiln_leaf_t){.axes = *axes}, split > padding ? split - padding : 0,
                    out_operand);
  }
  /* Sizes of 1 may hide an axis, or spell out one that is not there. */
  bool hides = (state.axes & ~*axes & KILN_HAS_M && !kiln_dim_is(walk->m, 1)) ||
               (state.axes & ~*axes & KILN_HAS_N && !kiln_dim_is(walk->n, 1));
  bool invents = (*axes & ~state.axes & KILN_HAS_M && !kiln_dim_is(walk->m, 1)) ||
                 (*axes & ~state.axes & KILN_HAS_N && !kiln_dim_is(walk->n, 1));
  *axes = state.axes;
  *out_operand = state.operand;
  return !hides && !invents;
}

/* Where the type of a value with these axes is cut into rows and columns. */
static bool split_of(const walk_t *walk, const kiln_type_t *type, uint32_t *out_split) {
  if (splits_at(walk, type, out_split)) return true;
  kiln_dim_t all;
  *out_split = type->rank;
  if (!product(walk->arena, type->dims, type->rank, &all)) return false;
  if (kiln_dim_equal(all, walk->m)) { /* a column, its rows spelled out and, maybe, axes of size 1 behind */
    while (*out_split && kiln_dim_is(type->dims[*out_split - 1], 1)) --*out_split;
    return true;
  }
  *out_split = 0;
  return kiln_dim_equal(all, walk->n) || kiln_dim_is(all, 1);
}

static bool walk_elementwise(walk_t *walk, uint32_t node, state_t *out) {
  const kiln_node_t *it = &walk->graph->nodes[node];
  const kiln_type_t *result = type_of(walk, it->first_result);
  uint32_t operands[3], split, axes;
  if (it->operand_count > 3 || !split_of(walk, result, &split)) return false;
  out->axes = 0;
  for (uint32_t i = 0; i < it->operand_count; i++) {
    if (!use(walk, it->operands[i], result, split, &axes, &operands[i])) return false;
    out->axes |= axes;
  }
  out->operand = add_step(walk, node, out->axes, operands, it->operand_count);
  return true;
}

static bool walk_full(walk_t *walk, uint32_t node, state_t *out) {
  out->axes = 0;
  out->operand = add_step(walk, node, 0, NULL, 0);
  return true;
}

/* A view of something computed: it may only write axes otherwise. */
static bool walk_rename(walk_t *walk, const kiln_node_t *it, const state_t *operand, state_t *out) {
  const kiln_type_t *type = type_of(walk, it->first_result);
  uint32_t split;
  bool renames = it->op == KILN_OP_reshape || it->op == KILN_OP_squeeze || it->op == KILN_OP_broadcast;
  *out = *operand;
  if (!renames || !split_of(walk, type, &split)) return false;
  if (operand->axes == walk->full) return splits_at(walk, type, &split);
  return true;
}

/* The reduced axes of the operand must be the columns. */
static bool reduces_columns(const walk_t *walk, const kiln_node_t *it) {
  const kiln_type_t *type = type_of(walk, it->operands[0]);
  kiln_kernel_t kernel = {.arena = walk->arena, .graph = walk->graph};
  uint32_t axes = kiln_reduced_of(&kernel, it).axes, split;
  if (kernel.overflowed || !splits_at(walk, type, &split)) return false;
  uint32_t all = type->rank ? (1u << type->rank) - 1 : 0;
  for (uint32_t i = 0; i < type->rank; i++) { /* those of size 1 belong to either */
    bool is_column = i >= split, is_reduced = axes >> i & 1;
    if (is_column != is_reduced && !kiln_dim_is(type->dims[i], 1)) return false;
  }
  return (axes & all) != 0;
}

static bool has_eps(kiln_op_t op) {
  return op == KILN_OP_layernorm || op == KILN_OP_rmsnorm || op == KILN_OP_layernorm_sigmoid_mul;
}

static bool add_symbol(kiln_member_t *member, kiln_dim_t value, int *out) {
  if (member->symbol_count == KILN_MAX_SYMBOLS) return false;
  *out = (int)member->symbol_count;
  member->symbols[member->symbol_count++] = value;
  return true;
}

/* The bits of eps as a number in the dtype that the node computes in. */
static bool add_eps(walk_t *walk, kiln_step_t *step, const kiln_node_t *it) {
  const kiln_attr_value_t *eps = kiln_node_attr(it, KILN_ATTR_eps);
  kiln_dtype_t dtype = type_of(walk, it->operands[0])->dtype;
  if (dtype == KILN_DTYPE_f64) return true; /* part of the key */
  kiln_number_t number = {.real = eps ? eps->real : 1e-5};
  int64_t bits = (int32_t)(uint32_t)kiln_number_to_bits(number, KILN_DTYPE_f32);
  return add_symbol(walk->member, kiln_dim_constant(bits), &step->eps_symbol);
}

static bool walk_reduction(walk_t *walk, uint32_t node, state_t *out) {
  const kiln_node_t *it = &walk->graph->nodes[node];
  const kiln_type_t *source = type_of(walk, it->operands[0]);
  uint32_t operands[3], split, axes;
  bool is_composite = kiln_op_info(it->op)->op_class == KILN_CLASS_NORMALIZATION;
  if (it->operand_count > 3 || !reduces_columns(walk, it) || !splits_at(walk, source, &split)) return false;
  if (!use(walk, it->operands[0], source, split, &axes, &operands[0]) || axes != walk->full) return false;
  for (uint32_t i = 1; i < it->operand_count; i++) {
    operands[i] = NONE;
    if (it->operands[i] == KILN_NO_VALUE) continue;
    state_t affine;
    if (!find_state(walk, it->operands[i], &affine) || !affine.view ||
        !add_leaf(walk, affine.view, (kiln_leaf_t){.axes = KILN_HAS_N, .is_vector = true}, 0, &operands[i]))
      return false;
  }
  out->axes = is_composite ? KILN_HAS_M | KILN_HAS_N : KILN_HAS_M;
  out->operand = add_step(walk, node, out->axes, operands, it->operand_count);
  return !has_eps(it->op) || add_eps(walk, &walk->member->steps[walk->member->step_count - 1], it);
}

static bool walk_product(walk_t *walk, uint32_t node, state_t *out) {
  const kiln_node_t *it = &walk->graph->nodes[node];
  uint32_t operands[3], rank = type_of(walk, it->operands[0])->rank;
  state_t states[3];
  kiln_leaf_t a = {.axes = KILN_HAS_M | KILN_HAS_K}, bias = {.axes = KILN_HAS_N, .is_vector = true},
              b = {.axes = KILN_HAS_N | KILN_HAS_K, .k_is_outer = it->op == KILN_OP_matmul};
  for (uint32_t i = 0; i < it->operand_count; i++) {
    if (!find_state(walk, it->operands[i], &states[i]) || !states[i].view) return false;
  }
  if (!add_leaf(walk, states[0].view, a, rank - 1, &operands[0]) ||
      !add_leaf(walk, states[1].view, b, 1, &operands[1]))
    return false;
  if (it->operand_count > 2 && !add_leaf(walk, states[2].view, bias, 0, &operands[2])) return false;
  walk->member->contraction = (uint32_t)walk->member->step_count;
  out->axes = KILN_HAS_M | KILN_HAS_N;
  out->operand = add_step(walk, node, out->axes, operands, it->operand_count);
  return true;
}

static bool walk_node(walk_t *walk, uint32_t place) {
  uint32_t node = walk->member->group->nodes[place];
  const kiln_node_t *it = &walk->graph->nodes[node];
  state_t operand, *out = &walk->states[place];
  *out = (state_t){.operand = NONE};
  switch (kiln_op_info(it->op)->op_class) {
  case KILN_CLASS_ELEMENTWISE:
    return walk_elementwise(walk, node, out);
  case KILN_CLASS_REDUCTION:
  case KILN_CLASS_NORMALIZATION:
    return walk_reduction(walk, node, out);
  case KILN_CLASS_CONTRACTION:
    return walk_product(walk, node, out);
  case KILN_CLASS_CREATION:
    return it->op == KILN_OP_full && walk_full(walk, node, out);
  case KILN_CLASS_VIEW:
    if (!it->operand_count || !find_state(walk, it->operands[0], &operand)) return false;
    if (!operand.view) return walk_rename(walk, it, &operand, out);
    out->view = it->op == KILN_OP_split ? operand.view
                                        : kiln_member_view_of(walk->arena, walk->graph, it, 0, operand.view);
    return out->view != NULL;
  default:
    return false;
  }
}

/* --- the plane ----------------------------------------------------------------------------------------- */

static bool plane_of(walk_t *walk, const kiln_type_t *type, uint32_t split) {
  walk->rank = type->rank;
  walk->split = split;
  return product(walk->arena, type->dims, split, &walk->m) &&
         product(walk->arena, type->dims + split, type->rank - split, &walk->n);
}

static bool plane_of_product(walk_t *walk, const kiln_node_t *it, kiln_dim_t *out_k) {
  const kiln_type_t *a = type_of(walk, it->operands[0]), *b = type_of(walk, it->operands[1]);
  const kiln_type_t *result = type_of(walk, it->first_result);
  if (a->rank < 2 || b->rank != 2 || result->rank != a->rank) return false;
  *out_k = a->dims[a->rank - 1];
  return plane_of(walk, result, result->rank - 1);
}

static bool plane_of_reduction(walk_t *walk, const kiln_node_t *it) {
  const kiln_type_t *type = type_of(walk, it->operands[0]);
  kiln_kernel_t kernel = {.arena = walk->arena, .graph = walk->graph};
  uint32_t axes = kiln_reduced_of(&kernel, it).axes, split = 0;
  while (split < type->rank && !(axes >> split & 1)) split++;
  for (uint32_t i = split; i < type->rank; i++) {
    if (!(axes >> i & 1) && !kiln_dim_is(type->dims[i], 1)) return false;
  }
  return axes && plane_of(walk, type, split);
}

/* Without either everything is one row, unless an operand is broadcast over rows. */
static bool plane_of_store(walk_t *walk) {
  const kiln_group_t *group = walk->member->group;
  const kiln_type_t *type = type_of(walk, group->stores[0].value);
  uint32_t split = 0;
  for (uint32_t i = 0; i < group->input_count && !split; i++) {
    const kiln_type_t *other = type_of(walk, group->inputs[i]);
    uint32_t equal = 0, ones = 0;
    while (ones < other->rank && other->rank == type->rank &&
           kiln_dim_is(other->dims[other->rank - 1 - ones], 1))
      ones++;
    if (ones && ones < type->rank && !kiln_dim_is(type->dims[type->rank - 1], 1)) split = type->rank - ones;
    while (equal < other->rank && equal < type->rank &&
           kiln_dim_equal(other->dims[other->rank - 1 - equal], type->dims[type->rank - 1 - equal]))
      equal++;
    if (equal && equal < type->rank) split = type->rank - equal;
  }
  if (!split && walk->in_rows && type->rank > 1) split = type->rank - 1;
  return plane_of(walk, type, split);
}

static bool find_plane(walk_t *walk) {
  const kiln_group_t *group = walk->member->group;
  kiln_member_t *member = walk->member;
  const kiln_node_t *contraction = NULL, *reduction = NULL;
  kiln_dim_t k = kiln_dim_constant(1);
  for (uint32_t i = 0; i < group->node_count; i++) {
    const kiln_node_t *it = &walk->graph->nodes[group->nodes[i]];
    bool is_contraction = kiln_op_info(it->op)->op_class == KILN_CLASS_CONTRACTION;
    if (is_contraction && contraction) return false;
    if (is_contraction) contraction = it;
    if (kiln_node_reduces(it) && !reduction) reduction = it;
  }
  if (contraction && reduction) return false;
  bool is_known = contraction ? plane_of_product(walk, contraction, &k)
                  : reduction ? plane_of_reduction(walk, reduction)
                              : plane_of_store(walk);
  member->form = contraction ? KILN_MEMBER_PRODUCT : KILN_MEMBER_PLANE;
  walk->always = !walk->split && (contraction || reduction) ? KILN_HAS_M : 0;
  walk->full = (walk->split ? KILN_HAS_M : 0) | KILN_HAS_N | walk->always;
  member->symbols[KILN_MEMBER_M] = walk->m;
  member->symbols[KILN_MEMBER_N] = walk->n;
  member->symbols[KILN_MEMBER_K] = k;
  member->symbol_count = KILN_MEMBER_K + 1;
  return is_known;
}

/* --- stores and strides -------------------------------------------------------------------------------- */

static bool place_store(walk_t *walk, const kiln_store_t *store, uint32_t axes, kiln_leaf_t *out) {
  kiln_value_id_t whole = store->window ? store->window->of : store->value;
  const kiln_type_t *type = type_of(walk, store->value);
  kiln_dim_t strides[KILN_MAX_RANK];
  const kiln_layout_t *layout = walk->grouping ? kiln_member_layout_of(walk->graph, store->buffer) : NULL;
  kiln_member_view_t view = {.type = *type};
  uint32_t split;
  if (!kiln_member_lay_out(walk->arena, type_of(walk, whole), layout, strides) ||
      !split_of(walk, type, &split))
    return false;
  for (uint32_t i = 0; store->window && i < type->rank; i++) {
    if (!kiln_member_view_shift(walk->arena, &view, store->window->start[i], strides[i])) return false;
  }
  *out = (kiln_leaf_t){.value = store->value,
                       .store = store,
                       .dtype = type->dtype,
                       .axes = axes,
                       .offset = view.offset,
                       .stride_symbol = -1};
  return place_leaf(walk, type, strides, split, out);
}

static bool walk_stores(walk_t *walk) {
  kiln_member_t *member = walk->member;
  const kiln_group_t *group = member->group;
  member->results = KILN_NEW_ARRAY(walk->arena, kiln_leaf_t, group->store_count);
  member->stored = KILN_NEW_ARRAY(walk->arena, uint32_t, group->store_count);
  for (uint32_t i = 0; i < group->store_count; i++) {
    state_t state;
    if (!find_state(walk, group->stores[i].value, &state) || state.view) return false;
    if (state.axes != walk->full && state.axes != KILN_HAS_M) return false;
    if (!place_store(walk, &group->stores[i], state.axes, &member->results[i])) return false;
    member->stored[i] = state.operand;
  }
  return true;
}

void kiln_leaf_axes(const kiln_leaf_t *leaf, uint32_t *out_outer, uint32_t *out_inner) {
  *out_outer = leaf->axes == (KILN_HAS_N | KILN_HAS_K) ? KILN_MEMBER_N : KILN_MEMBER_M;
  *out_inner = leaf->axes & KILN_HAS_K ? KILN_MEMBER_K : KILN_MEMBER_N;
  if (leaf->k_is_outer) {
    *out_outer = KILN_MEMBER_K;
    *out_inner = KILN_MEMBER_N;
  }
}

/* What the stride is where memory is dense. */
static kiln_dim_t dense_stride(const kiln_member_t *member, const kiln_leaf_t *leaf) {
  if (leaf->is_vector || leaf->axes == KILN_HAS_N || !leaf->axes) return kiln_dim_constant(0);
  if (leaf->axes == KILN_HAS_M) return kiln_dim_constant(1);
  uint32_t outer, inner;
  kiln_leaf_axes(leaf, &outer, &inner);
  return member->symbols[leaf->is_transposed ? outer : inner];
}

/* Strides of whole planes are parameters, as far as there are symbols; others must be dense. A single row or
 * column steps over nothing. */
static bool settle_stride(kiln_member_t *member, kiln_leaf_t *leaf) {
  bool is_plane = (leaf->axes & (leaf->axes - 1)) != 0;
  if (leaf->is_transposed && !(leaf->axes & KILN_HAS_K)) return false;
  if (is_plane && add_symbol(member, leaf->stride, &leaf->stride_symbol)) return true;
  return !leaf->steps || kiln_dim_equal(leaf->stride, dense_stride(member, leaf));
}

static bool settle_strides(kiln_member_t *member) {
  for (uint32_t i = 0; i < member->group->store_count; i++) {
    if (!settle_stride(member, &member->results[i])) return false;
  }
  for (size_t i = 0; i < member->leaf_count; i++) {
    if (!settle_stride(member, &member->leaves[i])) return false;
  }
  return true;
}

static bool walk_group(kiln_arena_t *arena, const kiln_grouping_t *grouping, bool in_rows,
                       kiln_member_t *member) {
  walk_t walk = {
      .arena = arena, .member = member, .graph = member->graph, .grouping = grouping, .in_rows = in_rows};
  const kiln_group_t *group = member->group;
  walk.states = KILN_NEW_ARRAY(arena, state_t, group->node_count);
  if (!find_plane(&walk)) return false;
  for (uint32_t i = 0; i < group->node_count; i++) {
    if (!walk_node(&walk, i)) return false;
  }
  return walk_stores(&walk) && settle_strides(member);
}

bool kiln_member_walk(kiln_arena_t *arena, const kiln_grouping_t *grouping, kiln_member_t *member) {
  const kiln_group_t *group = member->group;
  kiln_member_t trial = *member;
  if (!group->node_count || group->node_count > MOST_NODES || !group->store_count) return false;
  bool is_plane = walk_group(arena, grouping, false, &trial);
  if (!is_plane) {
    trial = *member;
    is_plane = walk_group(arena, grouping, true, &trial);
  }
  if (is_plane) *member = trial;
  return is_plane;
}
