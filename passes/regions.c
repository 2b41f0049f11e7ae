/* passes/regions.c: what is computed in one kernel with a reduction, a normalization or a contraction.
 *
 * Part of kiln_group, called by cuts.c for one node after the other. A region is what one kernel computes:
 * its first node, and every node behind it whose elements are where a thread already has them (spaces.h):
 * softmax written out, both reductions of a layer norm, bias and activation of a contraction. Everything in
 * front (element-wise work, views) is computed on the way, wherever it is needed. The rules:
 *
 * 1. A reduction or normalization joins the region that makes its operand, or one that reads the same tensor
 *    along the same axes; else it begins one. A contraction begins one; in front of it only views and casts
 * are computed, everything else would be done again for each tile.
 * 2. Any other node joins the latest region that it reads from and fits into; regions of one space that meet
 *    become one.
 * 3. A region has a level, above those of the regions that it reads from. It rises with what joins, until
 *    somebody reads from the region; from then on only what is there in time can join. So there are no
 * cycles.
 * 4. Where several blocks share a row (the family says so: few rows, so long that one block would take far
 * longer than a launch and reading them again), only what has one element per row joins; a normalization
 * written out over such rows becomes a kernel for each reduction and one for the rest.
 * 5. What others read is cut: the narrowest value on the way to it from which it is cheap to compute.
 */
#include "base/map.h"
#include "passes/grouping.h"
#include "passes/spaces.h"

enum { MOST_STEPS = 8, /* of (5) */ SIBLING_LEAVES = 16, SIBLING_NODES = 64, MOST_OPERANDS = 3 };

typedef struct {
  space_t space;
  uint64_t mask;  /* families that accept all of it */
  uint32_t level; /* (3) */
  bool is_read;
  bool shares_rows;                         /* (4) */
  uint32_t cost_nodes, cost_leaves, stores; /* upper bounds of its kernel */
  uint32_t *nodes;
  size_t node_count, node_capacity;
} region_t;

/* What is known of a value of a region. */
typedef struct {
  uint32_t region; /* + 1; 0: of none */
  form_t form;
  uint32_t layout;  /* how views have rearranged it: a number, 0 when they have not */
  bool is_exported; /* can be computed from what is cut */
} place_t;

struct regions {
  region_t *items;
  size_t count, capacity;
  place_t *places;      /* per value */
  kiln_map_t *siblings; /* (input, reduced axes) -> region + 1 */
};

/* What a node takes along into a region: the cones of its operands from outside. */
typedef struct {
  uint64_t mask;
  uint32_t nodes, leaves, level;
} load_t;

static const kiln_type_t *type_of(const measure_t *m, kiln_value_id_t value) {
  return &m->grouping->graph->types[value];
}

static place_t *place_of(const measure_t *m, kiln_value_id_t value) { return &m->regions->places[value]; }

static region_t *region_at(const measure_t *m, uint32_t number) { return &m->regions->items[number - 1]; }

static uint32_t window_of_region(uint32_t number) { return FIRST_REGION_WINDOW + number; }

/* The region at whose kernel's hand the value is; 0: none. */
static uint32_t region_of(const measure_t *m, kiln_value_id_t value) {
  if (value == KILN_NO_VALUE) return 0;
  uint32_t number = place_of(m, value)->region;
  return number && !is_leaf(m->grouping, window_of_region(number), value) ? number : 0;
}

bool is_in_region(const measure_t *m, kiln_value_id_t value) { return place_of(m, value)->region != 0; }

uint32_t region_level(const measure_t *m, kiln_value_id_t value) {
  return region_at(m, place_of(m, value)->region)->level;
}

regions_t *regions_create(measure_t *m) {
  regions_t *regions = KILN_NEW(m->grouping->arena, regions_t);
  regions->places = KILN_NEW_ARRAY(m->grouping->arena, place_t, m->grouping->graph->value_count);
  regions->siblings = kiln_map_create(m->grouping->arena);
  return regions;
}

/* --- what others read (5) ------------------------------------------------------------------------------ */

/* The operand from which a value is cheap to compute: the only one of the region. */
static kiln_value_id_t step_back(const measure_t *m, kiln_value_id_t value, bool only_renames) {
  const kiln_node_t *node = kiln_graph_producer(m->grouping->graph, value);
  kiln_op_class_t op_class = kiln_op_info(node->op)->op_class;
  uint32_t number = place_of(m, value)->region;
  kiln_value_id_t back = KILN_NO_VALUE;
  if (op_class > KILN_CLASS_VIEW || is_dear(node->op)) return KILN_NO_VALUE;
  if (only_renames && op_class == KILN_CLASS_ELEMENTWISE && node->op != KILN_OP_cast) return KILN_NO_VALUE;
  for (uint32_t i = 0; i < node->operand_count; i++) {
    kiln_value_id_t operand = node->operands[i];
    if (region_of(m, operand) != number || operand == back) continue;
    if (back != KILN_NO_VALUE) return KILN_NO_VALUE;
    back = operand;
  }
  return back;
}

/* Bytes moved when a value is read by others, given what is stored anyway. */
static double cost_of_export(const measure_t *m, kiln_value_id_t value) {
  bool is_stored = m->output_uses[value] || m->grouping->cuts[value] != CUT_NONE;
  return typical_bytes(m->grouping->graph, type_of(m, value)) * (is_stored ? 1 : 2);
}

/* Makes a value of a region available to others. */
static void export_value(measure_t *m, kiln_value_id_t value, bool only_renames) {
  place_t *place = place_of(m, value);
  if (place->is_exported) return;
  kiln_value_id_t chain[MOST_STEPS + 1] = {value};
  uint32_t best = 0;
  for (uint32_t i = 0; i < MOST_STEPS; i++) {
    chain[i + 1] = step_back(m, chain[i], only_renames);
    if (chain[i + 1] == KILN_NO_VALUE) break;
    if (cost_of_export(m, chain[i + 1]) < cost_of_export(m, chain[best])) best = i + 1;
  }
  region_at(m, place->region)->is_read = true;
  cut(m, chain[best], CUT_REGION);
  for (uint32_t i = best + 1; i-- > 0;) {
    place_of(m, chain[i])->is_exported = true;
    if (i != best) measure_node(m, m->grouping->graph->producers[chain[i]]);
  }
}

/* Others read all of these, from memory or by computing them from what is cut. */
static void export_operands(measure_t *m, const kiln_node_t *node, uint32_t except, bool only_renames) {
  for (uint32_t i = 0; i < node->operand_count; i++) {
    kiln_value_id_t operand = node->operands[i];
    if (operand == KILN_NO_VALUE || !is_in_region(m, operand)) continue;
    uint32_t number = place_of(m, operand)->region;
    if (number == except) continue;
    if (region_of(m, operand)) export_value(m, operand, only_renames);
    region_at(m, number)->is_read = true;
  }
}

/* --- joining ------------------------------------------------------------------------------------------- */

/* Adds an operand from outside, which is exported afterwards when it is another region's. */
static void load_operand(const measure_t *m, uint32_t window, kiln_value_id_t operand, load_t *load) {
  bool is_inside_another = region_of(m, operand) && !place_of(m, operand)->is_exported;
  bool leaf = is_inside_another || is_leaf(m->grouping, window, operand);
  uint32_t level = leaf ? level_behind(m, operand) : m->levels[operand];
  if (level > load->level) load->level = level;
  load->leaves += leaf ? 1 : m->leaves[operand];
  load->nodes += leaf ? 0 : m->nodes[operand];
  if (!leaf) load->mask &= m->masks[operand];
}

/* False when an operand is read from what the region itself stores. */
static bool load_node(const measure_t *m, uint32_t number, uint32_t index, load_t *load) {
  const kiln_node_t *node = &m->grouping->graph->nodes[index];
  *load = (load_t){.mask = m->grouping->masks[index], .nodes = 1};
  for (uint32_t i = 0; i < node->operand_count; i++) {
    kiln_value_id_t operand = node->operands[i];
    if (operand == KILN_NO_VALUE) continue;
    if (region_of(m, operand) == number) continue;
    if (is_in_region(m, operand) && place_of(m, operand)->region == number) return false;
    load_operand(m, window_of_region(number), operand, load);
  }
  return true;
}

/* Can a kernel be of these sizes? */
static bool is_within_limits(const measure_t *m, uint64_t mask, uint64_t nodes, uint64_t leaves,
                             uint64_t stores) {
  uint32_t node_limit, leaf_limit, store_limit = UINT32_MAX;
  limits_of(m->grouping, mask, &node_limit, &leaf_limit);
  for (size_t f = 0; f < m->grouping->families->count; f++) {
    uint32_t most = buffers_for_stores(m->grouping->families->items[f].max_buffers);
    if (mask >> f & 1 && most < store_limit) store_limit = most;
  }
  return mask && nodes <= node_limit && leaves <= leaf_limit && stores <= store_limit;
}

static uint32_t stores_of(const measure_t *m, const kiln_node_t *node) {
  return 1 + m->output_uses[node->first_result];
}

static bool has_room(const measure_t *m, const region_t *region, const kiln_node_t *node,
                     const load_t *load) {
  if (load->level > region->level && region->is_read) return false;
  return is_within_limits(m, region->mask & load->mask, region->cost_nodes + load->nodes,
                          region->cost_leaves + load->leaves, region->stores + stores_of(m, node));
}

static void add_node(measure_t *m, uint32_t number, uint32_t index, const load_t *load, form_t form,
                     uint32_t layout) {
  region_t *region = region_at(m, number);
  const kiln_node_t *node = &m->grouping->graph->nodes[index];
  export_operands(m, node, number, false);
  region->mask &= load->mask;
  region->cost_nodes += load->nodes;
  region->cost_leaves += load->leaves;
  region->stores += stores_of(m, node);
  if (load->level > region->level) region->level = load->level;
  KILN_PUSH(m->grouping->arena, region->nodes, region->node_count, region->node_capacity, index);
  m->grouping->windows[index] = window_of_region(number);
  *place_of(m, node->first_result) = (place_t){.region = number, .form = form, .layout = layout};
  m->masks[node->first_result] = region->mask;
}

/* (2) Two regions of one space become one, if neither has to wait for the other. */
static bool merge(measure_t *m, uint32_t into, uint32_t from) {
  region_t *a = region_at(m, into), *b = region_at(m, from);
  uint32_t level = a->level > b->level ? a->level : b->level;
  if (!a->space.is_rows || !spaces_equal(&a->space, &b->space)) return false;
  if (a->shares_rows != b->shares_rows) return false;
  if ((a->is_read && a->level < level) || (b->is_read && b->level < level)) return false;
  if (!is_within_limits(m, a->mask & b->mask, a->cost_nodes + b->cost_nodes, a->cost_leaves + b->cost_leaves,
                        a->stores + b->stores))
    return false;
  a->level = level;
  a->is_read |= b->is_read;
  a->mask &= b->mask;
  a->cost_nodes += b->cost_nodes;
  a->cost_leaves += b->cost_leaves;
  a->stores += b->stores;
  for (size_t i = 0; i < b->node_count; i++) {
    uint32_t index = b->nodes[i];
    KILN_PUSH(m->grouping->arena, a->nodes, a->node_count, a->node_capacity, index);
    m->grouping->windows[index] = window_of_region(into);
    place_of(m, m->grouping->graph->nodes[index].first_result)->region = into;
  }
  *b = (region_t){0};
  return true;
}

/* --- reductions, normalizations, contractions (1) ------------------------------------------------------ */

/* (4) */
static bool shares_rows(const measure_t *m, uint32_t index) {
  const grouping_t *g = m->grouping;
  for (size_t f = 0; f < g->families->count; f++) {
    const kiln_family_t *family = &g->families->items[f];
    if (g->masks[index] >> f & 1 && family->shares_rows && family->shares_rows(g->graph, index, g->target))
      return true;
  }
  return false;
}

static uint64_t *sibling(const measure_t *m, kiln_value_id_t input, const space_t *space, bool shares,
                         bool *added) {
  uint32_t key[] = {input, space->reduced, space->rank, shares};
  return added ? kiln_map_put(m->regions->siblings, key, sizeof key, added)
               : kiln_map_find(m->regions->siblings, key, sizeof key);
}

/* What the rows of the space are read from, as the operand's cone has it. */
static uint32_t find_inputs(measure_t *m, const space_t *space, kiln_value_id_t operand,
                            kiln_value_id_t *out) {
  uint32_t count = 0;
  if (is_leaf(m->grouping, UINT32_MAX, operand)) {
    *out = operand;
    return 1;
  }
  cone_clear(&m->cone);
  cone_add(&m->cone, UINT32_MAX, operand, SIBLING_NODES, SIBLING_LEAVES);
  for (size_t i = 0; i < m->cone.leaf_count && count < SIBLING_LEAVES; i++) {
    if (has_form(space, type_of(m, m->cone.leaves[i]), FORM_FULL)) out[count++] = m->cone.leaves[i];
  }
  return count;
}

/* The region that makes the operand, if its rows are the node's; 0: none. */
static uint32_t region_of_operand(const measure_t *m, const kiln_node_t *node, const space_t *space) {
  uint32_t number = region_of(m, node->operands[0]);
  const place_t *place = place_of(m, node->operands[0]);
  if (!number || place->form != FORM_FULL || place->layout) return 0;
  return spaces_equal(&region_at(m, number)->space, space) ? number : 0;
}

/* A region that reads one of the inputs along the same rows; 0: none. */
static uint32_t region_of_sibling(const measure_t *m, const space_t *space, bool shares,
                                  const kiln_value_id_t *inputs, uint32_t input_count) {
  for (uint32_t i = 0; i < input_count; i++) {
    const uint64_t *entry = sibling(m, inputs[i], space, shares, NULL);
    if (entry && spaces_equal(&region_at(m, (uint32_t)*entry)->space, space)) return (uint32_t)*entry;
  }
  return 0;
}

/* In front of a contraction only views and casts that do not narrow are computed. */
static void cut_prologue(measure_t *m, kiln_value_id_t value) {
  const kiln_graph_t *graph = m->grouping->graph;
  while (!is_leaf(m->grouping, UINT32_MAX, value)) {
    const kiln_node_t *node = kiln_graph_producer(graph, value);
    kiln_op_class_t op_class = kiln_op_info(node->op)->op_class;
    if (op_class == KILN_CLASS_CREATION) return;
    bool is_view = op_class == KILN_CLASS_VIEW && node->op != KILN_OP_cat && node->op != KILN_OP_pad;
    bool widens = node->op == KILN_OP_cast && kiln_dtype_bytes(type_of(m, node->operands[0])->dtype) <=
                                                  kiln_dtype_bytes(type_of(m, value)->dtype);
    if (!is_view && !widens) {
      cut(m, value, CUT_PROLOGUE);
      return;
    }
    value = node->operands[0];
  }
}

/* Cuts operands until a new region can hold the node: families first, then size. */
static void cut_to_fit(measure_t *m, uint32_t index, load_t *load) {
  const kiln_node_t *node = &m->grouping->graph->nodes[index];
  uint32_t window = UINT32_MAX;
  uint64_t mask = m->grouping->masks[index];
  *load = (load_t){.mask = mask, .nodes = 1};
  for (uint32_t i = 0; i < node->operand_count; i++) {
    kiln_value_id_t operand = node->operands[i];
    if (operand == KILN_NO_VALUE) continue;
    load_t more = *load;
    load_operand(m, window, operand, &more);
    bool fits = is_within_limits(m, more.mask, more.nodes, more.leaves + node->operand_count, 1);
    if (!fits && !kiln_type_is_empty(type_of(m, operand)) && !is_leaf(m->grouping, window, operand)) {
      cut(m, operand, more.mask ? CUT_BUFFERS : CUT_FAMILY);
      more = *load;
      load_operand(m, window, operand, &more);
    }
    *load = more;
  }
}

static void begin_region(measure_t *m, uint32_t index, const space_t *space, form_t form) {
  load_t load;
  const kiln_node_t *node = &m->grouping->graph->nodes[index];
  for (uint32_t i = 0; !space->is_rows && i < 2; i++) cut_prologue(m, node->operands[i]);
  cut_to_fit(m, index, &load);
  region_t region = {.space = *space, .mask = UINT64_MAX, .shares_rows = shares_rows(m, index)};
  KILN_PUSH(m->grouping->arena, m->regions->items, m->regions->count, m->regions->capacity, region);
  add_node(m, (uint32_t)m->regions->count, index, &load, form, 0);
}

static bool try_first(measure_t *m, uint32_t number, uint32_t index, form_t form) {
  load_t load;
  const kiln_node_t *node = &m->grouping->graph->nodes[index];
  if (!number || region_at(m, number)->shares_rows != shares_rows(m, index)) return false;
  if (!load_node(m, number, index, &load)) return false;
  if (!has_room(m, region_at(m, number), node, &load)) return false;
  add_node(m, number, index, &load, form, 0);
  return true;
}

static void take_first(measure_t *m, uint32_t index) {
  const kiln_node_t *node = &m->grouping->graph->nodes[index];
  form_t form;
  space_t space = space_of_node(m->grouping->graph, node, &form);
  if (space.is_rows && try_first(m, region_of_operand(m, node, &space), index, form)) return;
  export_operands(m, node, 0, !space.is_rows);
  kiln_value_id_t inputs[SIBLING_LEAVES];
  uint32_t input_count = space.is_rows ? find_inputs(m, &space, node->operands[0], inputs) : 0;
  if (!try_first(m, region_of_sibling(m, &space, shares_rows(m, index), inputs, input_count), index, form))
    begin_region(m, index, &space, form);
  for (uint32_t i = 0; i < input_count; i++) {
    bool added;
    *sibling(m, inputs[i], &space, shares_rows(m, index), &added) = place_of(m, node->first_result)->region;
  }
}

/* --- what follows (2) ---------------------------------------------------------------------------------- */

/* A view whose result has the same elements. Threads store along the last axis that is not 1: another one may
 * take its place only where a launch of its own would cost more than scattered stores. */
static bool renames(const measure_t *m, const kiln_node_t *node) {
  const kiln_attr_value_t *dims = kiln_node_attr(node, KILN_ATTR_dims);
  const kiln_type_t *operand = type_of(m, node->operands[0]);
  if (node->op != KILN_OP_permute)
    return node->op == KILN_OP_reshape || node->op == KILN_OP_squeeze || node->op == KILN_OP_broadcast;
  if (typical_elements(m->grouping->graph, operand) < m->grouping->target->sm_count * THREADS_PER_SM)
    return true;
  uint32_t last = operand->rank - 1, at = operand->rank - 1;
  while (last && kiln_dim_is(operand->dims[last], 1)) last--;
  while (at && kiln_dim_is(operand->dims[dims->list.integers[at]], 1)) at--;
  return dims->list.integers[at] == last;
}

/* Does a view only reverse rows? */
static bool reverses_rows(const measure_t *m, const space_t *space, const kiln_node_t *node) {
  const kiln_attr_value_t *dims = kiln_node_attr(node, KILN_ATTR_dims);
  const kiln_type_t *type = type_of(m, node->first_result);
  if (node->op != KILN_OP_reverse || place_of(m, node->operands[0])->form != FORM_FULL) return false;
  for (uint32_t i = 0; i < dims->list.count; i++) {
    uint32_t axis = 0;
    for (int64_t k = 0; k < dims->list.integers[i]; k++) axis += !kiln_dim_is(type->dims[k], 1);
    if (!kiln_dim_is(type->dims[dims->list.integers[i]], 1) && !(space->reduced >> axis & 1)) return false;
  }
  return true;
}

/* A node behind the rows of a region: the form of its result. Views may rearrange what is stored, and then
 * only views may follow. */
static bool follows_rows(const measure_t *m, uint32_t number, const kiln_node_t *node, form_t *out_form,
                         uint32_t *out_layout) {
  const space_t *space = &region_at(m, number)->space;
  const kiln_type_t *result = type_of(m, node->first_result);
  const place_t *first = place_of(m, node->operands[0]);
  if (kiln_op_info(node->op)->op_class == KILN_CLASS_VIEW && renames(m, node)) {
    bool is_in_place = !first->layout && node->op != KILN_OP_permute && has_form(space, result, first->form);
    *out_form = first->form;
    *out_layout = is_in_place ? 0 : node->first_result + 1;
    return true;
  }
  bool is_elementwise = kiln_op_info(node->op)->op_class == KILN_CLASS_ELEMENTWISE;
  if (!is_elementwise && node->op != KILN_OP_expand && !reverses_rows(m, space, node)) return false;
  *out_form = has_form(space, result, FORM_FULL) ? FORM_FULL : FORM_KEPT;
  if (*out_form == FORM_FULL && region_at(m, number)->shares_rows) return false;
  for (uint32_t i = 0; i < node->operand_count; i++) {
    kiln_value_id_t operand = node->operands[i];
    if (region_of(m, operand) != number) continue;
    const place_t *place = place_of(m, operand);
    if (place->layout || !stays_in_place(space, type_of(m, operand), place->form, result, *out_form))
      return false;
  }
  return true;
}

static bool same_elements(const kiln_type_t *operand, const kiln_type_t *result) {
  space_t space = {0};
  for (uint32_t i = 0; i < operand->rank; i++) {
    if (!kiln_dim_is(operand->dims[i], 1)) space.dims[space.rank++] = operand->dims[i];
  }
  return has_form(&space, result, FORM_FULL);
}

/* A node behind a contraction: one element for each of the sums, which views may rename. */
static bool follows_contraction(const measure_t *m, uint32_t number, const kiln_node_t *node,
                                uint32_t *out_layout) {
  const kiln_type_t *result = type_of(m, node->first_result);
  bool is_known = false;
  if (kiln_op_info(node->op)->op_class == KILN_CLASS_VIEW && renames(m, node)) {
    *out_layout = node->first_result + 1;
    return true;
  }
  if (kiln_op_info(node->op)->op_class != KILN_CLASS_ELEMENTWISE) return false;
  for (uint32_t i = 0; i < node->operand_count; i++) {
    kiln_value_id_t operand = node->operands[i];
    if (region_of(m, operand) != number) continue;
    uint32_t layout = place_of(m, operand)->layout;
    if ((is_known && layout != *out_layout) || !same_elements(type_of(m, operand), result)) return false;
    *out_layout = layout;
    is_known = true;
  }
  return true;
}

static bool try_region(measure_t *m, uint32_t number, uint32_t index) {
  const kiln_node_t *node = &m->grouping->graph->nodes[index];
  form_t form = FORM_FULL;
  uint32_t layout = 0;
  bool follows = region_at(m, number)->space.is_rows ? follows_rows(m, number, node, &form, &layout)
                                                     : follows_contraction(m, number, node, &layout);
  load_t load;
  if (!follows || !load_node(m, number, index, &load)) return false;
  if (!has_room(m, region_at(m, number), node, &load)) return false;
  add_node(m, number, index, &load, form, layout);
  return true;
}

/* The operand of the latest region before `before`; KILN_NO_VALUE when there is none. */
static kiln_value_id_t latest_operand(const measure_t *m, const kiln_node_t *node, kiln_value_id_t before) {
  kiln_value_id_t latest = KILN_NO_VALUE;
  for (uint32_t i = 0; i < node->operand_count; i++) {
    kiln_value_id_t operand = node->operands[i];
    if (operand == KILN_NO_VALUE || operand >= before || !region_of(m, operand)) continue;
    if (latest == KILN_NO_VALUE || operand > latest) latest = operand;
  }
  return latest;
}

static bool take_follower(measure_t *m, uint32_t index) {
  const kiln_node_t *node = &m->grouping->graph->nodes[index];
  if (node->operand_count > MOST_OPERANDS || node->result_count != 1 ||
      kiln_type_is_empty(type_of(m, node->first_result)))
    return false;
  kiln_value_id_t latest = latest_operand(m, node, KILN_NO_VALUE);
  for (uint32_t i = 0; latest != KILN_NO_VALUE && i < node->operand_count; i++) {
    kiln_value_id_t operand = node->operands[i];
    uint32_t other = region_of(m, operand), number = region_of(m, latest);
    if (other && other != number) merge(m, number, other);
  }
  for (; latest != KILN_NO_VALUE; latest = latest_operand(m, node, latest)) {
    if (try_region(m, region_of(m, latest), index)) return true;
  }
  return false;
}

bool regions_take(measure_t *m, uint32_t index) {
  const kiln_node_t *node = &m->grouping->graph->nodes[index];
  bool is_first =
      kiln_op_info(node->op)->op_class >= KILN_CLASS_REDUCTION && !(m->grouping->masks[index] & 1);
  if (is_first) {
    take_first(m, index);
    return true;
  }
  if (take_follower(m, index)) return true;
  export_operands(m, node, 0, false);
  return false;
}
