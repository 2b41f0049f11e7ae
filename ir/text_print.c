/* ir/text_print.c: graphs as text that parses to the same graph.
 *
 * Values without a name, and those whose name is taken or cannot be written, are called t<id>. Result types
 * are always written: for the reader, and so that a golden file checks them. Attributes stand in the order of
 * the op's row.
 */
#include "ir/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"

/* --- numbers -------------------------------------------------------------------------------------------- */

static void print_nan(kiln_buffer_t *out, double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  if (bits == 0x7ff8000000000000) {
    kiln_buffer_puts(out, "nan");
  } else {
    kiln_buffer_printf(out, "nan(0x%016llx)", (unsigned long long)bits);
  }
}

/* The first of some precisions that reads back as the same double; 17 digits always do. */
static void print_real(kiln_buffer_t *out, double value) {
  static const int precisions[] = {6, 9, 12, 15, 16, 17};
  char text[40];
  if (isnan(value)) {
    print_nan(out, value);
    return;
  }
  for (size_t i = 0; i < sizeof precisions / sizeof *precisions; i++) {
    snprintf(text, sizeof text, "%.*g", precisions[i], value);
    if (strtod(text, NULL) == value) break;
  }
  kiln_buffer_puts(out, text);
  if (!strpbrk(text, ".en")) kiln_buffer_puts(out, ".0"); /* not an integer; inf has its n */
}

void kiln_text_print_number(kiln_buffer_t *out, kiln_number_t number) {
  if (number.is_integer) {
    kiln_buffer_printf(out, "%lld", (long long)number.integer);
  } else {
    print_real(out, number.real);
  }
}

/* --- names ---------------------------------------------------------------------------------------------- */

typedef struct {
  const kiln_graph_t *graph;
  const char **values; /* per value, unique */
  const char *symbols[KILN_MAX_SYMBOLS];
} names_t;

static const char *own_name(const kiln_graph_t *graph, kiln_value_id_t value) {
  const char *name = graph->value_names ? graph->value_names[value] : NULL;
  return name && kiln_text_is_name(name, strlen(name), true) ? name : NULL;
}

static bool claim(kiln_map_t *taken, const char *name) {
  bool added;
  kiln_map_put(taken, name, strlen(name), &added);
  return added;
}

/* First the values that have a name of their own, then t<id>, made longer while somebody is called that. */
static void find_names(kiln_arena_t *arena, const kiln_graph_t *graph, names_t *names) {
  *names = (names_t){.graph = graph, .values = KILN_NEW_ARRAY(arena, const char *, graph->value_count)};
  kiln_map_t *taken = kiln_map_create(arena);
  for (kiln_value_id_t value = 0; value < graph->value_count; value++) {
    const char *name = own_name(graph, value);
    if (name && claim(taken, name)) names->values[value] = name;
  }
  for (kiln_value_id_t value = 0; value < graph->value_count; value++) {
    if (names->values[value]) continue;
    const char *name = kiln_arena_printf(arena, "t%u", value);
    while (!claim(taken, name)) name = kiln_arena_printf(arena, "%s_", name);
    names->values[value] = name;
  }
  for (uint32_t s = 0; s < graph->symbol_count; s++) names->symbols[s] = graph->symbols[s].name;
}

/* --- parts ---------------------------------------------------------------------------------------------- */

static void print_dims(kiln_buffer_t *out, const names_t *names, const kiln_dim_t *dims, uint32_t count) {
  kiln_buffer_puts(out, "[");
  for (uint32_t i = 0; i < count; i++) {
    if (i) kiln_buffer_puts(out, ",");
    kiln_dim_print(out, dims[i], names->symbols);
  }
  kiln_buffer_puts(out, "]");
}

static void print_type(kiln_buffer_t *out, const names_t *names, const kiln_type_t *type) {
  kiln_type_print(out, type, names->graph->symbols);
}

static void print_layout(kiln_buffer_t *out, const names_t *names, const kiln_layout_t *layout,
                         uint32_t rank) {
  if (layout->has_strides) {
    kiln_buffer_puts(out, " strides ");
    print_dims(out, names, layout->strides, rank);
  }
  if (layout->align_bytes != 16) kiln_buffer_printf(out, " align %u", layout->align_bytes);
}

static void print_word(kiln_buffer_t *out, const char *word) {
  kiln_buffer_puts(out, "\"");
  for (; *word; word++) {
    if (*word == '\n') {
      kiln_buffer_puts(out, "\\n");
    } else {
      if (*word == '"' || *word == '\\') kiln_buffer_puts(out, "\\");
      kiln_buffer_append(out, word, 1);
    }
  }
  kiln_buffer_puts(out, "\"");
}

static void print_integers(kiln_buffer_t *out, const int64_t *integers, uint32_t count) {
  kiln_buffer_puts(out, "[");
  for (uint32_t i = 0; i < count; i++)
    kiln_buffer_printf(out, "%s%lld", i ? "," : "", (long long)integers[i]);
  kiln_buffer_puts(out, "]");
}

static void print_numbers(kiln_buffer_t *out, const kiln_number_t *numbers, uint32_t count) {
  kiln_buffer_puts(out, "[");
  for (uint32_t i = 0; i < count; i++) {
    if (i) kiln_buffer_puts(out, ",");
    kiln_text_print_number(out, numbers[i]);
  }
  kiln_buffer_puts(out, "]");
}

static void print_attr_value(kiln_buffer_t *out, const names_t *names, const kiln_attr_value_t *value) {
  switch (kiln_attr_kind(value->attr)) {
  case KILN_ATTR_KIND_INT:
    kiln_buffer_printf(out, "%lld", (long long)value->integer);
    break;
  case KILN_ATTR_KIND_FLOAT:
    print_real(out, value->real);
    break;
  case KILN_ATTR_KIND_NUMBER:
    kiln_text_print_number(out, value->number);
    break;
  case KILN_ATTR_KIND_BOOL:
    kiln_buffer_puts(out, value->flag ? "true" : "false");
    break;
  case KILN_ATTR_KIND_DTYPE:
    kiln_buffer_puts(out, kiln_dtype_name(value->dtype));
    break;
  case KILN_ATTR_KIND_WORD:
    print_word(out, value->word);
    break;
  case KILN_ATTR_KIND_INTS:
    print_integers(out, value->list.integers, value->list.count);
    break;
  case KILN_ATTR_KIND_DIMS:
    print_dims(out, names, value->list.dims, value->list.count);
    break;
  case KILN_ATTR_KIND_NUMBERS:
    print_numbers(out, value->list.numbers, value->list.count);
    break;
  }
}

static void print_attrs(kiln_buffer_t *out, const names_t *names, const kiln_node_t *node) {
  const kiln_op_info_t *info = kiln_op_info(node->op);
  const char *separator = " {";
  for (uint32_t i = 0; i < info->attr_count; i++) {
    const kiln_attr_value_t *value = kiln_node_attr(node, info->attrs[i].attr);
    if (!value) continue;
    kiln_buffer_printf(out, "%s%s=", separator, kiln_attr_name(value->attr));
    print_attr_value(out, names, value);
    separator = ", ";
  }
  if (node->attr_count) kiln_buffer_puts(out, "}");
}

/* --- the graph ------------------------------------------------------------------------------------------ */

static void print_head(kiln_buffer_t *out, const names_t *names) {
  const kiln_graph_t *graph = names->graph;
  kiln_buffer_printf(out, "graph %s", graph->name);
  for (uint32_t s = 0; s < graph->symbol_count; s++) {
    kiln_buffer_printf(out, "%s%s", s ? ", " : "[", graph->symbols[s].name);
    if (graph->symbols[s].typical) kiln_buffer_printf(out, "=%lld", (long long)graph->symbols[s].typical);
  }
  kiln_buffer_puts(out, graph->symbol_count ? "](" : "(");
  for (uint32_t i = 0; i < graph->input_count; i++) {
    kiln_buffer_printf(out, "%s%%%s: ", i ? ", " : "", names->values[i]);
    print_type(out, names, &graph->types[i]);
    print_layout(out, names, &graph->input_layouts[i], graph->types[i].rank);
  }
  kiln_buffer_puts(out, ") {\n");
}

static void print_node(kiln_buffer_t *out, const names_t *names, const kiln_node_t *node) {
  for (uint32_t i = 0; i < node->result_count; i++) {
    kiln_buffer_printf(out, "%s%%%s", i ? ", " : "  ", names->values[node->first_result + i]);
  }
  kiln_buffer_printf(out, " = %s(", kiln_op_info(node->op)->name);
  for (uint32_t i = 0; i < node->operand_count; i++) {
    kiln_value_id_t operand = node->operands[i];
    kiln_buffer_printf(out, "%s%s%s", i ? ", " : "", operand == KILN_NO_VALUE ? "" : "%",
                       operand == KILN_NO_VALUE ? "none" : names->values[operand]);
  }
  kiln_buffer_puts(out, ")");
  print_attrs(out, names, node);
  for (uint32_t i = 0; i < node->result_count; i++) {
    kiln_buffer_puts(out, i ? ", " : " : ");
    print_type(out, names, &names->graph->types[node->first_result + i]);
  }
  kiln_buffer_puts(out, "\n");
}

void kiln_text_print(kiln_arena_t *arena, kiln_buffer_t *out, const kiln_graph_t *graph) {
  names_t names;
  find_names(arena, graph, &names);
  print_head(out, &names);
  for (uint32_t i = 0; i < graph->node_count; i++) print_node(out, &names, &graph->nodes[i]);
  for (uint32_t i = 0; i < graph->output_count; i++) {
    kiln_value_id_t value = graph->outputs[i];
    kiln_buffer_printf(out, "%s%%%s", i ? ", " : "  return ", names.values[value]);
    print_layout(out, &names, &graph->output_layouts[i], graph->types[value].rank);
  }
  kiln_buffer_puts(out, "\n}\n");
}

/* --- GraphViz ------------------------------------------------------------------------------------------- */

static void print_dot_edges(kiln_buffer_t *out, const names_t *names, uint32_t index) {
  const kiln_graph_t *graph = names->graph;
  const kiln_node_t *node = &graph->nodes[index];
  for (uint32_t i = 0; i < node->operand_count; i++) {
    kiln_value_id_t operand = node->operands[i];
    if (operand == KILN_NO_VALUE) continue;
    uint32_t producer = graph->producers[operand];
    bool is_input = producer == KILN_NO_VALUE;
    kiln_buffer_printf(out, "  %s%u -> n%u [label=\"", is_input ? "i" : "n", is_input ? operand : producer,
                       index);
    print_type(out, names, &graph->types[operand]);
    kiln_buffer_puts(out, "\"];\n");
  }
}

void kiln_text_print_dot(kiln_arena_t *arena, kiln_buffer_t *out, const kiln_graph_t *graph) {
  names_t names;
  find_names(arena, graph, &names);
  kiln_buffer_printf(out, "digraph \"%s\" {\n  node [shape=box];\n", graph->name);
  for (uint32_t i = 0; i < graph->input_count; i++) {
    kiln_buffer_printf(out, "  i%u [shape=ellipse, label=\"%%%s\"];\n", i, names.values[i]);
  }
  for (uint32_t i = 0; i < graph->node_count; i++) {
    const kiln_node_t *node = &graph->nodes[i];
    kiln_buffer_printf(out, "  n%u [label=\"%%%s = %s\"];\n", i, names.values[node->first_result],
                       kiln_op_info(node->op)->name);
    print_dot_edges(out, &names, i);
  }
  for (uint32_t i = 0; i < graph->output_count; i++) {
    uint32_t producer = graph->producers[graph->outputs[i]];
    bool is_input = producer == KILN_NO_VALUE;
    kiln_buffer_printf(out, "  o%u [shape=ellipse, label=\"output %u\"];\n  %s%u -> o%u;\n", i, i,
                       is_input ? "i" : "n", is_input ? graph->outputs[i] : producer, i);
  }
  kiln_buffer_puts(out, "}\n");
}
