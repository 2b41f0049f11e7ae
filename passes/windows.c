/* passes/windows.c: concatenations whose parts are written straight to their place.
 *
 * Part of kiln_group (passes/group.c), when all cuts are made.
 *
 *   a = gemm(..), b = gemm(..)                        a = gemm(..), b = gemm(..)
 *   kernel: y = cat(a, b), reads and writes all       each is stored to its window of y, which no kernel
 * makes
 *
 * A stored value dissolves into windows when it is a concatenation (perhaps reshaped), is stored once, and
 * 1. some part is made by a kernel that stores it anyhow, and at most one part is not: an input that must be
 *    copied, or element-wise work that the concatenation's own kernel would have done; that one still takes a
 *    launch, as the concatenation did;
 * 2. nobody computes the concatenation again: who reads it reads it from memory.
 * Concatenations of concatenations dissolve together. What a part's own buffer was for then may be gone;
 * group.c does not store what nobody reads.
 */
#include "passes/grouping.h"

enum { MOST_WINDOWS = 4 /* of one value: a kernel stores it to each */ };

typedef struct {
  grouping_t *grouping;
  const uint32_t *output_uses;
  uint32_t *readers;      /* per value: live nodes that read it, each time they do */
  uint32_t *window_count; /* per value */
  kiln_value_id_t *inner; /* concatenations inside the one that is being dissolved */
  size_t inner_count, inner_capacity;
  windows_t *out;
} finder_t;

static uint32_t *count_readers(const grouping_t *g) {
  uint32_t *readers = KILN_NEW_ARRAY(g->arena, uint32_t, g->graph->value_count);
  for (uint32_t n = 0; n < g->graph->node_count; n++) {
    const kiln_node_t *node = &g->graph->nodes[n];
    for (uint32_t i = 0; g->live[n] && i < node->operand_count; i++) {
      if (node->operands[i] != KILN_NO_VALUE) readers[node->operands[i]]++;
    }
  }
  return readers;
}

static bool is_cat(const finder_t *f, kiln_value_id_t value) {
  const kiln_node_t *node = kiln_graph_producer(f->grouping->graph, value);
  return node && node->op == KILN_OP_cat;
}

/* Is the value there for one concatenation alone? */
static bool belongs_to_one(const finder_t *f, kiln_value_id_t value) {
  return f->readers[value] == 1 && !f->output_uses[value];
}

/* The concatenation of which a stored value is a reshape; KILN_NO_VALUE when it is none, or others need it.
 */
static kiln_value_id_t cat_of(const finder_t *f, kiln_value_id_t stored) {
  const grouping_t *g = f->grouping;
  kiln_value_id_t value = stored;
  while (!is_cat(f, value)) {
    const kiln_node_t *node = kiln_graph_producer(g->graph, value);
    if (!node || node->op != KILN_OP_reshape) return KILN_NO_VALUE;
    value = node->operands[0];
    if (is_leaf(g, window_of(g, stored), value) || !belongs_to_one(f, value)) return KILN_NO_VALUE;
  }
  return value;
}

/* Is the value in one buffer, in which a concatenation of this type can have windows? (2) */
static bool has_one_home(const finder_t *f, kiln_value_id_t stored, kiln_value_id_t cat) {
  const grouping_t *g = f->grouping;
  if (g->cuts[stored] == CUT_NONE && f->readers[stored]) return false;
  if (f->output_uses[stored] > 1) return false;
  if (!f->output_uses[stored] || stored == cat) return true;
  for (uint32_t o = 0; o < g->graph->output_count; o++) {
    if (g->graph->outputs[o] == stored && g->graph->output_layouts[o].has_strides) return false;
  }
  return true;
}

static void add_part(finder_t *f, kiln_value_id_t value, const kiln_window_t *window) {
  part_t part = {value, kiln_arena_copy(f->grouping->arena, window, sizeof *window)};
  KILN_PUSH(f->grouping->arena, f->out->parts, f->out->count, f->out->capacity, part);
}

/* The parts of one concatenation, which begins where the window does. False when an offset leaves 64 bits. */
static bool list_parts(finder_t *f, kiln_value_id_t cat, kiln_window_t window) {
  kiln_arena_t *arena = f->grouping->arena;
  const kiln_graph_t *graph = f->grouping->graph;
  const kiln_node_t *node = kiln_graph_producer(graph, cat);
  int64_t dim = kiln_node_int(node, KILN_ATTR_dim, 0);
  for (uint32_t i = 0; i < node->operand_count; i++) {
    const kiln_type_t *type = &graph->types[node->operands[i]];
    if (!kiln_type_is_empty(type)) add_part(f, node->operands[i], &window);
    if (!kiln_dim_add(arena, window.start[dim], type->dims[dim], &window.start[dim])) return false;
  }
  return true;
}

/* Concatenations among the parts from `first` on give way to their own parts, and are not stored then. */
static bool flatten(finder_t *f, size_t first) {
  for (size_t i = first; i < f->out->count; i++) {
    part_t part = f->out->parts[i];
    if (!is_cat(f, part.value) || !belongs_to_one(f, part.value)) continue;
    KILN_PUSH(f->grouping->arena, f->inner, f->inner_count, f->inner_capacity, part.value);
    f->out->parts[i--] = f->out->parts[--f->out->count];
    if (!list_parts(f, part.value, *part.window)) return false;
  }
  return true;
}

/* (1) */
static bool pays(const finder_t *f, size_t first) {
  uint32_t made = 0, others = 0;
  for (size_t i = first; i < f->out->count; i++) {
    kiln_value_id_t value = f->out->parts[i].value;
    bool is_made = value >= f->grouping->graph->input_count && f->grouping->cuts[value] != CUT_NONE;
    made += is_made;
    others += !is_made;
    if (f->window_count[value] == MOST_WINDOWS) return false;
  }
  return made && others <= 1;
}

static void dissolve(finder_t *f, kiln_value_id_t stored) {
  size_t first = f->out->count;
  kiln_value_id_t cat = cat_of(f, stored);
  kiln_window_t whole = {.of = stored, .as = cat};
  f->inner_count = 0;
  if (cat == KILN_NO_VALUE || !has_one_home(f, stored, cat) || f->window_count[stored]) return;
  if (!list_parts(f, cat, whole) || !flatten(f, first) || !pays(f, first)) {
    f->out->count = first;
    return;
  }
  f->out->is_dissolved[stored] = true;
  for (size_t i = first; i < f->out->count; i++) f->window_count[f->out->parts[i].value]++;
  for (size_t i = 0; i < f->inner_count; i++) f->grouping->cuts[f->inner[i]] = CUT_NONE;
}

windows_t find_windows(grouping_t *g, const uint32_t *output_uses) {
  const kiln_graph_t *graph = g->graph;
  windows_t out = {.is_dissolved = KILN_NEW_ARRAY(g->arena, bool, graph->value_count)};
  finder_t finder = {.grouping = g,
                     .output_uses = output_uses,
                     .readers = count_readers(g),
                     .window_count = KILN_NEW_ARRAY(g->arena, uint32_t, graph->value_count),
                     .out = &out};
  for (kiln_value_id_t v = graph->value_count; v-- > graph->input_count;) {
    bool is_stored = g->cuts[v] != CUT_NONE || output_uses[v];
    if (is_stored && g->live[graph->producers[v]] && !kiln_type_is_empty(&graph->types[v]))
      dissolve(&finder, v);
  }
  return out;
}
