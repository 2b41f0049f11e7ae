/* codegen/member.c: members of a class: made, compared, and asked for the values of their symbols.
 *
 * The key of a class is the SHA-256 of the small graph (member_graph.c) with all that a kernel is chosen by.
 * Called by grouped.c.
 */
#include "codegen/member_view.h"

#include "base/hash.h"
#include "ir/canonical.h"

#include <string.h>

/* --- as it stands -------------------------------------------------------------------------------------- */

/* Where a value that is read, or a store, lies; NULL: in a temporary, or not known yet. */
static const kiln_layout_t *layout_of(const kiln_member_t *member, const kiln_grouping_t *grouping,
                                      const kiln_leaf_t *leaf) {
  const kiln_graph_t *graph = member->graph;
  if (!leaf->store && leaf->value < graph->input_count) return &graph->input_layouts[leaf->value];
  if (!grouping) return NULL;
  return kiln_member_layout_of(graph, leaf->store ? leaf->store->buffer : grouping->storage[leaf->value]);
}

kiln_layout_t kiln_leaf_layout(const kiln_member_t *member, const kiln_grouping_t *grouping,
                               const kiln_leaf_t *leaf) {
  const kiln_layout_t *layout = layout_of(member, grouping, leaf);
  kiln_layout_t out = {.align_bytes = 16};
  if (layout) out = *layout;
  if (out.align_bytes > 16) out.align_bytes = 16;
  return out;
}

/* Searched value by value: what is larger has work enough for a launch of its own. */
enum { MOST_LITERAL_NODES = 64, MOST_LITERAL_BUFFERS = 64 };

static kiln_member_t *create_literal(kiln_arena_t *arena, kiln_member_t *member) {
  const kiln_graph_t *graph = member->graph;
  const kiln_group_t *group = member->group;
  if (group->node_count > MOST_LITERAL_NODES ||
      group->input_count + group->store_count > MOST_LITERAL_BUFFERS)
    return NULL;
  for (uint32_t i = 0; i < group->input_count; i++) {
    kiln_leaf_t leaf = {.value = group->inputs[i], .dtype = graph->types[group->inputs[i]].dtype};
    KILN_PUSH(arena, member->leaves, member->leaf_count, member->leaf_capacity, leaf);
  }
  member->results = KILN_NEW_ARRAY(arena, kiln_leaf_t, group->store_count);
  for (uint32_t i = 0; i < group->store_count; i++) {
    const kiln_store_t *store = &group->stores[i];
    if (store->window) return NULL; /* its strides are those of something larger */
    member->results[i] =
        (kiln_leaf_t){.value = store->value, .store = store, .dtype = graph->types[store->value].dtype};
  }
  member->symbol_count = graph->symbol_count;
  for (uint32_t i = 0; i < graph->symbol_count; i++) member->symbols[i] = kiln_dim_symbol(arena, i);
  return member;
}

/* --- sizes --------------------------------------------------------------------------------------------- */

static bool is_large(const kiln_member_t *member, const kiln_leaf_t *leaf) {
  uint32_t outer, inner;
  int64_t elements;
  kiln_leaf_axes(leaf, &outer, &inner);
  kiln_dim_t rows = member->symbols[leaf->is_transposed ? inner : outer],
             columns = member->symbols[leaf->is_transposed ? outer : inner];
  if (!kiln_dim_is_constant(rows) || !kiln_dim_is_constant(columns) || !kiln_dim_is_constant(leaf->stride))
    return false; /* the class of the request says it */
  int64_t step = leaf->stride.constant > columns.constant ? leaf->stride.constant : columns.constant;
  return __builtin_mul_overflow(rows.constant, step, &elements) || elements >= INT64_C(1) << 31;
}

static bool find_wide(const kiln_member_t *member) {
  for (uint32_t i = 0; i < member->group->store_count; i++) {
    if (is_large(member, &member->results[i])) return true;
  }
  for (size_t i = 0; i < member->leaf_count; i++) {
    if (is_large(member, &member->leaves[i])) return true;
  }
  return false;
}

kiln_member_t *kiln_member_create(kiln_arena_t *arena, const kiln_graph_t *graph,
                                  const kiln_grouping_t *grouping, const kiln_group_t *group) {
  kiln_member_t *member = KILN_NEW(arena, kiln_member_t);
  *member = (kiln_member_t){.graph = graph, .group = group, .contraction = UINT32_MAX};
  if (!kiln_member_walk(arena, grouping, member)) return create_literal(arena, member);
  member->is_wide = find_wide(member);
  return member;
}

bool kiln_member_dim(kiln_arena_t *arena, const kiln_member_t *member, kiln_dim_t dim, kiln_dim_t *out) {
  if (kiln_dim_is_constant(dim)) {
    *out = dim;
    return true;
  }
  *out = kiln_dim_constant(0);
  for (uint32_t i = 0; i < dim.term_count; i++) {
    kiln_dim_t term = kiln_dim_constant(dim.terms[i].coefficient);
    for (uint32_t s = 0; s < KILN_MAX_SYMBOLS; s++) {
      for (uint64_t power = dim.terms[i].powers >> 8 * s & 255; power > 0; power--) {
        if (!kiln_dim_mul(arena, term, member->symbols[s], &term)) return false;
      }
    }
    if (!kiln_dim_add(arena, *out, term, out)) return false;
  }
  return true;
}

/* --- keys ---------------------------------------------------------------------------------------------- */

void kiln_member_key(kiln_arena_t *arena, const kiln_member_t *member, const kiln_grouping_t *grouping,
                     uint32_t class, uint64_t out_key[2]) {
  kiln_member_graph_t small;
  const uint32_t rest[] = {member->form, member->is_wide, class};
  kiln_member_graph(arena, member, grouping, NULL, 16, &small);
  kiln_buffer_t *bytes = kiln_buffer_in_arena(arena);
  kiln_graph_key_bytes(arena, small.graph, bytes);
  kiln_buffer_append(bytes, rest, sizeof rest);
  kiln_digest_t digest = kiln_sha256(bytes->data, bytes->size);
  memcpy(out_key, digest.bytes, 2 * sizeof *out_key);
}

/* --- alignment ----------------------------------------------------------------------------------------- */

static uint32_t divides(kiln_dim_t dim, const kiln_symbol_class_t *symbols, uint32_t most) {
  int64_t multiple = kiln_dim_multiple(dim, symbols->multiple);
  return multiple < most ? (uint32_t)multiple : most;
}

uint32_t kiln_leaf_multiple(const kiln_member_t *member, const kiln_grouping_t *grouping,
                            const kiln_symbol_class_t *symbols, const kiln_leaf_t *leaf, uint32_t most) {
  const kiln_layout_t *layout = layout_of(member, grouping, leaf);
  uint32_t align = (layout ? layout->align_bytes : 256) / (uint32_t)kiln_dtype_bytes(leaf->dtype);
  if (align < most) most = align ? align : 1;
  most = divides(leaf->offset, symbols, most);
  return leaf->steps && (leaf->axes & (leaf->axes - 1)) ? divides(leaf->stride, symbols, most) : most;
}

uint32_t kiln_member_multiple(const kiln_member_t *member, const kiln_grouping_t *grouping,
                              const kiln_symbol_class_t *symbols, uint32_t most) {
  most = divides(member->symbols[KILN_MEMBER_N], symbols, most);
  for (uint32_t i = 0; i < member->group->store_count; i++)
    most = kiln_leaf_multiple(member, grouping, symbols, &member->results[i], most);
  for (size_t i = 0; i < member->leaf_count; i++) {
    if (!(member->leaves[i].axes & KILN_HAS_K))
      most = kiln_leaf_multiple(member, grouping, symbols, &member->leaves[i], most);
  }
  return most;
}
