/* tests/support/shrink.c: greedy reduction of a failing graph (tests/support/shrink.h).
 *
 * An edit is data; rebuilding a graph under an edit is one walk through the builder, which infers all types
 * anew, so that an edit that makes no graph is simply refused. Each kind of edit lists its candidates for a
 * graph; a sweep tries them all and starts again after each that was kept.
 */
#include "tests/support/shrink.h"

#include <string.h>

#include "ir/verify.h"

typedef enum {
  EDIT_KEEP_OUTPUT,  /* output `at` alone is returned */
  EDIT_DROP_OUTPUT,  /* output `at` is not */
  EDIT_RETURN,       /* value `at` alone is returned, which was none of the outputs */
  EDIT_SYMBOLS,      /* symbols become numbers */
  EDIT_CUT,          /* value `at` becomes an input */
  EDIT_ALIAS,        /* value `at` becomes operand `detail` of its node */
  EDIT_DROP_OPERAND, /* node `at` loses operand `detail` */
  EDIT_DENSE,        /* boundary `at`, inputs first, gets the default layout */
  EDIT_DROP_ATTR,    /* node `at` loses its attribute number `detail` */
  EDIT_SIZE,         /* every size `from` becomes `to` */
  EDIT_DTYPE,        /* every dtype `from` becomes `to` */
} edit_kind_t;

typedef struct {
  edit_kind_t kind;
  uint32_t at, detail;
  int64_t from, to;
} edit_t;

typedef struct {
  kiln_arena_t *arena;
  const kiln_shrink_options_t *options;
  const kiln_graph_t *graph; /* the smallest so far */
  uint32_t tries;
} shrinker_t;

/* One graph being rebuilt. */
typedef struct {
  const shrinker_t *s;
  const kiln_graph_t *from;
  const edit_t *edit;
  kiln_graph_builder_t *builder;
  bool *needed;             /* per value of `from` */
  kiln_value_id_t *renamed; /* per value of `from` */
} rebuild_t;

/* --- rebuilding: what is needed ------------------------------------------------------------------------- */

static bool is_edit(const rebuild_t *r, edit_kind_t kind, uint32_t at) {
  return r->edit->kind == kind && r->edit->at == at;
}

static bool keeps_output(const rebuild_t *r, uint32_t output) {
  if (r->edit->kind == EDIT_RETURN) return false;
  if (r->edit->kind == EDIT_KEEP_OUTPUT) return output == r->edit->at;
  return !is_edit(r, EDIT_DROP_OUTPUT, output);
}

/* The operand that stands for a value which is aliased; else KILN_NO_VALUE. */
static kiln_value_id_t alias_of(const rebuild_t *r, kiln_value_id_t value) {
  if (!is_edit(r, EDIT_ALIAS, value)) return KILN_NO_VALUE;
  return kiln_graph_producer(r->from, value)->operands[r->edit->detail];
}

/* Does some needed result still come from the node itself? */
static bool is_computed(const rebuild_t *r, const kiln_node_t *node) {
  for (uint32_t i = 0; i < node->result_count; i++) {
    kiln_value_id_t value = node->first_result + i;
    if (r->needed[value] && !is_edit(r, EDIT_CUT, value) && !is_edit(r, EDIT_ALIAS, value)) return true;
  }
  return false;
}

static bool keeps_operand(const rebuild_t *r, uint32_t node, uint32_t operand) {
  return r->from->nodes[node].operands[operand] != KILN_NO_VALUE &&
         !(is_edit(r, EDIT_DROP_OPERAND, node) && r->edit->detail == operand);
}

static void mark_needed(rebuild_t *r) {
  for (uint32_t i = 0; i < r->from->output_count; i++)
    if (keeps_output(r, i)) r->needed[r->from->outputs[i]] = true;
  if (r->edit->kind == EDIT_RETURN) r->needed[r->edit->at] = true;
  for (uint32_t n = r->from->node_count; n-- > 0;) {
    const kiln_node_t *node = &r->from->nodes[n];
    for (uint32_t i = 0; i < node->result_count; i++) {
      kiln_value_id_t alias = alias_of(r, node->first_result + i);
      if (alias != KILN_NO_VALUE && r->needed[node->first_result + i]) r->needed[alias] = true;
    }
    if (!is_computed(r, node)) continue;
    for (uint32_t i = 0; i < node->operand_count; i++)
      if (keeps_operand(r, n, i)) r->needed[node->operands[i]] = true;
  }
}

/* --- rebuilding: edited parts --------------------------------------------------------------------------- */

static kiln_dim_t edited_dim(const rebuild_t *r, kiln_dim_t dim) {
  int64_t value;
  if (r->edit->kind == EDIT_SYMBOLS && kiln_dim_eval(dim, r->s->options->symbols, &value))
    return kiln_dim_constant(value);
  if (r->edit->kind == EDIT_SIZE && kiln_dim_is(dim, r->edit->from)) return kiln_dim_constant(r->edit->to);
  return dim;
}

static kiln_dtype_t edited_dtype(const rebuild_t *r, kiln_dtype_t dtype) {
  bool changes = r->edit->kind == EDIT_DTYPE && (int64_t)dtype == r->edit->from;
  return changes ? (kiln_dtype_t)r->edit->to : dtype;
}

static kiln_type_t edited_type(const rebuild_t *r, kiln_type_t type) {
  type.dtype = edited_dtype(r, type.dtype);
  for (uint32_t i = 0; i < type.rank; i++) type.dims[i] = edited_dim(r, type.dims[i]);
  return type;
}

static const kiln_layout_t *edited_layout(const rebuild_t *r, uint32_t boundary, kiln_layout_t *layout,
                                          uint32_t rank) {
  if (is_edit(r, EDIT_DENSE, boundary)) return NULL;
  if (r->edit->kind == EDIT_DTYPE && layout->align_bytes < 16) layout->align_bytes = 16; /* of any dtype */
  for (uint32_t i = 0; layout->has_strides && i < rank; i++)
    if (r->edit->kind == EDIT_SYMBOLS) layout->strides[i] = edited_dim(r, layout->strides[i]);
  return layout;
}

static kiln_attr_value_t edited_attr(const rebuild_t *r, kiln_attr_value_t attr) {
  if (kiln_attr_kind(attr.attr) == KILN_ATTR_KIND_DTYPE) attr.dtype = edited_dtype(r, attr.dtype);
  if (kiln_attr_kind(attr.attr) != KILN_ATTR_KIND_DIMS) return attr;
  kiln_dim_t *dims = KILN_NEW_ARRAY(r->s->arena, kiln_dim_t, attr.list.count);
  for (uint32_t i = 0; i < attr.list.count; i++) dims[i] = edited_dim(r, attr.list.dims[i]);
  attr.list.dims = dims;
  return attr;
}

/* --- rebuilding: the walk ------------------------------------------------------------------------------- */

static void add_inputs(rebuild_t *r) {
  const kiln_graph_t *from = r->from;
  for (uint32_t v = 0; v < from->input_count; v++) {
    if (!r->needed[v]) continue;
    kiln_layout_t layout = from->input_layouts[v];
    const char *name = from->value_names ? from->value_names[v] : NULL;
    if (!name) name = kiln_arena_printf(r->s->arena, "in%u", v);
    r->renamed[v] = kiln_graph_builder_input(r->builder, name, edited_type(r, from->types[v]),
                                             edited_layout(r, v, &layout, from->types[v].rank));
  }
  if (r->edit->kind != EDIT_CUT || !r->needed[r->edit->at]) return;
  const char *name = kiln_arena_printf(r->s->arena, "cut%u_%u", from->node_count, r->edit->at);
  r->renamed[r->edit->at] = kiln_graph_builder_input(r->builder, name, from->types[r->edit->at], NULL);
}

static kiln_status_t add_node(rebuild_t *r, uint32_t n) {
  const kiln_node_t *node = &r->from->nodes[n];
  kiln_value_id_t *operands = KILN_NEW_ARRAY(r->s->arena, kiln_value_id_t, node->operand_count), first;
  kiln_attr_value_t *attrs = KILN_NEW_ARRAY(r->s->arena, kiln_attr_value_t, node->attr_count);
  uint32_t operand_count = 0, attr_count = 0;
  for (uint32_t i = 0; i < node->operand_count; i++) {
    kiln_value_id_t operand = node->operands[i];
    if (is_edit(r, EDIT_DROP_OPERAND, n) && r->edit->detail == i) continue;
    operands[operand_count++] = operand == KILN_NO_VALUE ? operand : r->renamed[operand];
  }
  for (uint32_t i = 0; i < node->attr_count; i++) {
    if (is_edit(r, EDIT_DROP_ATTR, n) && r->edit->detail == i) continue;
    attrs[attr_count++] = edited_attr(r, node->attrs[i]);
  }
  KILN_TRY(
      kiln_graph_builder_infer(r->builder, node->op, operands, operand_count, attrs, attr_count, 0, &first));
  for (uint32_t i = 0; i < node->result_count; i++) {
    kiln_value_id_t value = node->first_result + i;
    if (!is_edit(r, EDIT_CUT, value)) r->renamed[value] = first + i;
  }
  return NULL;
}

static kiln_status_t add_nodes(rebuild_t *r) {
  for (uint32_t n = 0; n < r->from->node_count; n++) {
    const kiln_node_t *node = &r->from->nodes[n];
    if (is_computed(r, node)) KILN_TRY(add_node(r, n));
    for (uint32_t i = 0; i < node->result_count; i++) {
      kiln_value_id_t value = node->first_result + i, alias = alias_of(r, value);
      if (alias != KILN_NO_VALUE) r->renamed[value] = r->renamed[alias];
    }
  }
  return NULL;
}

static void add_outputs(rebuild_t *r) {
  const kiln_graph_t *from = r->from;
  if (r->edit->kind == EDIT_RETURN) kiln_graph_builder_output(r->builder, r->renamed[r->edit->at], NULL);
  for (uint32_t i = 0; i < from->output_count; i++) {
    if (!keeps_output(r, i)) continue;
    kiln_layout_t layout = from->output_layouts[i];
    uint32_t rank = from->types[from->outputs[i]].rank;
    kiln_graph_builder_output(r->builder, r->renamed[from->outputs[i]],
                              edited_layout(r, from->input_count + i, &layout, rank));
  }
}

/* NULL when the edit makes no graph. */
static const kiln_graph_t *rebuild(const shrinker_t *s, const edit_t *edit) {
  rebuild_t r = {.s = s, .from = s->graph, .edit = edit};
  r.builder = kiln_graph_builder_create(s->arena, s->graph->name);
  r.needed = KILN_NEW_ARRAY(s->arena, bool, s->graph->value_count);
  r.renamed = KILN_NEW_ARRAY(s->arena, kiln_value_id_t, s->graph->value_count);
  for (uint32_t i = 0; edit->kind != EDIT_SYMBOLS && i < s->graph->symbol_count; i++)
    kiln_graph_builder_symbol(r.builder, s->graph->symbols[i].name, s->graph->symbols[i].typical);
  mark_needed(&r);
  add_inputs(&r);
  kiln_status_t refused = add_nodes(&r);
  if (!refused) {
    add_outputs(&r);
    const kiln_graph_t *graph = kiln_graph_builder_finish(r.builder);
    refused = kiln_graph_verify(s->arena, graph, NULL);
    if (!refused) return graph;
  }
  kiln_status_free(refused);
  return NULL;
}

/* --- candidates ----------------------------------------------------------------------------------------- */

static bool try_edit(shrinker_t *s, edit_t edit) {
  if (s->tries >= s->options->most_tries) return false;
  const kiln_graph_t *smaller = rebuild(s, &edit);
  if (!smaller) return false;
  s->tries++;
  if (!s->options->fails(s->options->argument, smaller)) return false;
  s->graph = smaller;
  return true;
}

static bool try_outputs(shrinker_t *s) {
  for (uint32_t i = 0; s->graph->output_count > 1 && i < s->graph->output_count; i++) {
    if (try_edit(s, (edit_t){EDIT_KEEP_OUTPUT, .at = i})) return true;
  }
  for (uint32_t i = 0; s->graph->output_count > 1 && i < s->graph->output_count; i++) {
    if (try_edit(s, (edit_t){EDIT_DROP_OUTPUT, .at = i})) return true;
  }
  return false;
}

/* What the last node reads, instead of what it gives. */
static bool try_returns(shrinker_t *s) {
  const kiln_node_t *last = kiln_graph_producer(s->graph, s->graph->outputs[0]);
  for (uint32_t i = 0; s->graph->output_count == 1 && last && i < last->operand_count; i++) {
    bool computed = last->operands[i] != KILN_NO_VALUE && last->operands[i] >= s->graph->input_count;
    if (computed && try_edit(s, (edit_t){EDIT_RETURN, .at = last->operands[i]})) return true;
  }
  return false;
}

/* The last values first: what lies above a cut near the outputs goes all at once. */
static bool try_values(shrinker_t *s) {
  for (kiln_value_id_t v = s->graph->value_count; v-- > s->graph->input_count;) {
    if (try_edit(s, (edit_t){EDIT_CUT, .at = v})) return true;
    const kiln_node_t *node = kiln_graph_producer(s->graph, v);
    for (uint32_t i = 0; i < node->operand_count; i++) {
      kiln_value_id_t operand = node->operands[i];
      bool fits = operand != KILN_NO_VALUE && kiln_type_equal(&s->graph->types[operand], &s->graph->types[v]);
      if (fits && try_edit(s, (edit_t){EDIT_ALIAS, .at = v, .detail = i})) return true;
    }
  }
  return false;
}

static bool try_parts_of_nodes(shrinker_t *s) {
  for (uint32_t n = 0; n < s->graph->node_count; n++) {
    const kiln_node_t *node = &s->graph->nodes[n];
    bool drops = node->operand_count > kiln_op_info(node->op)->operands_least;
    for (uint32_t i = 0; drops && i < node->operand_count; i++) {
      if (try_edit(s, (edit_t){EDIT_DROP_OPERAND, .at = n, .detail = i})) return true;
    }
    for (uint32_t i = 0; i < node->attr_count; i++) {
      const kiln_attr_rule_t *rule = kiln_op_attr_rule(node->op, node->attrs[i].attr);
      if (rule->presence == KILN_PRESENCE_REQUIRED) continue;
      if (try_edit(s, (edit_t){EDIT_DROP_ATTR, .at = n, .detail = i})) return true;
    }
  }
  return false;
}

static bool try_layouts(shrinker_t *s) {
  const kiln_graph_t *graph = s->graph;
  for (uint32_t i = 0; i < graph->input_count + graph->output_count; i++) {
    const kiln_layout_t *layout =
        i < graph->input_count ? &graph->input_layouts[i] : &graph->output_layouts[i - graph->input_count];
    bool plain = !layout->has_strides && layout->align_bytes == 16;
    if (!plain && try_edit(s, (edit_t){EDIT_DENSE, .at = i})) return true;
  }
  return false;
}

static bool try_size(shrinker_t *s, kiln_dim_t dim) {
  if (!kiln_dim_is_constant(dim) || dim.constant < 2) return false;
  const int64_t smaller[] = {1, 2, 3, dim.constant / 2, dim.constant - 1};
  for (size_t i = 0; i < sizeof smaller / sizeof *smaller; i++) {
    if (smaller[i] >= dim.constant) continue;
    if (try_edit(s, (edit_t){EDIT_SIZE, .from = dim.constant, .to = smaller[i]})) return true;
  }
  return false;
}

static bool try_sizes(shrinker_t *s) {
  const kiln_graph_t *graph = s->graph;
  for (uint32_t v = 0; v < graph->input_count; v++) {
    for (uint32_t i = 0; i < graph->types[v].rank; i++)
      if (try_size(s, graph->types[v].dims[i])) return true;
  }
  for (uint32_t n = 0; n < graph->node_count; n++) {
    const kiln_node_t *node = &graph->nodes[n];
    for (uint32_t i = 0; i < node->attr_count; i++) {
      const kiln_attr_value_t *attr = &node->attrs[i];
      if (kiln_attr_kind(attr->attr) != KILN_ATTR_KIND_DIMS) continue;
      for (uint32_t k = 0; k < attr->list.count; k++)
        if (try_size(s, attr->list.dims[k])) return true;
    }
  }
  return false;
}

static bool try_dtypes(shrinker_t *s) {
  for (uint32_t v = 0; v < s->graph->input_count; v++) {
    kiln_dtype_t dtype = s->graph->types[v].dtype;
    kiln_dtype_t plain = kiln_dtype_is_float(dtype) ? KILN_DTYPE_f32 : KILN_DTYPE_i32;
    if (dtype == plain || dtype == KILN_DTYPE_bool) continue;
    if (try_edit(s, (edit_t){EDIT_DTYPE, .from = dtype, .to = plain})) return true;
  }
  return false;
}

static bool try_symbols(shrinker_t *s) {
  return s->graph->symbol_count && s->options->symbols && try_edit(s, (edit_t){.kind = EDIT_SYMBOLS});
}

const kiln_graph_t *kiln_shrink(kiln_arena_t *arena, const kiln_graph_t *graph,
                                const kiln_shrink_options_t *options) {
  static bool (*const sweeps[])(shrinker_t *) = {try_outputs,        try_returns, try_symbols, try_values,
                                                 try_parts_of_nodes, try_layouts, try_dtypes,  try_sizes};
  shrinker_t s = {.arena = arena, .options = options, .graph = graph};
  for (size_t i = 0; i < sizeof sweeps / sizeof *sweeps;) i = sweeps[i](&s) ? 0 : i + 1;
  return s.graph;
}
