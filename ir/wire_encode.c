/* ir/wire_encode.c: the structured form of a graph on the wire, out. What kiln_graph_decode (ir/wire.c)
 * takes. */
#include "ir/wire.h"

#include <string.h>

typedef struct {
  kiln_buffer_t *out;
  const kiln_graph_t *graph;
  const char *symbols[KILN_MAX_SYMBOLS];
} encoder_t;

static void put_key(encoder_t *encoder, const char *key) { kiln_mpack_str(encoder->out, key); }

static void put_dim(encoder_t *encoder, kiln_dim_t dim) {
  if (kiln_dim_is_constant(dim)) {
    kiln_mpack_int(encoder->out, dim.constant);
    return;
  }
  kiln_buffer_t text;
  kiln_buffer_init(&text);
  kiln_dim_print(&text, dim, encoder->symbols);
  kiln_mpack_str(encoder->out, kiln_buffer_text(&text));
  encoder->out->failed = encoder->out->failed || text.failed;
  kiln_buffer_deinit(&text);
}

static void put_dims(encoder_t *encoder, const kiln_dim_t *dims, uint32_t count) {
  kiln_mpack_array(encoder->out, count);
  for (uint32_t i = 0; i < count; i++) put_dim(encoder, dims[i]);
}

static void put_type_members(encoder_t *encoder, const kiln_type_t *type) {
  put_key(encoder, "dtype");
  kiln_mpack_str(encoder->out, kiln_dtype_name(type->dtype));
  put_key(encoder, "shape");
  put_dims(encoder, type->dims, type->rank);
}

static void put_layout_members(encoder_t *encoder, const kiln_layout_t *layout, uint32_t rank) {
  put_key(encoder, "align");
  kiln_mpack_int(encoder->out, layout->align_bytes);
  if (!layout->has_strides) return;
  put_key(encoder, "strides");
  put_dims(encoder, layout->strides, rank);
}

/* --- attributes ----------------------------------------------------------------------------------------- */

static void put_number(encoder_t *encoder, kiln_number_t number) {
  if (number.is_integer) {
    kiln_mpack_int(encoder->out, number.integer);
  } else {
    kiln_mpack_double(encoder->out, number.real);
  }
}

static void put_integers(encoder_t *encoder, const int64_t *integers, uint32_t count) {
  kiln_mpack_array(encoder->out, count);
  for (uint32_t i = 0; i < count; i++) kiln_mpack_int(encoder->out, integers[i]);
}

static void put_numbers(encoder_t *encoder, const kiln_number_t *numbers, uint32_t count) {
  kiln_mpack_array(encoder->out, count);
  for (uint32_t i = 0; i < count; i++) put_number(encoder, numbers[i]);
}

static void put_attr(encoder_t *encoder, const kiln_attr_value_t *attr) {
  put_key(encoder, kiln_attr_name(attr->attr));
  switch (kiln_attr_kind(attr->attr)) {
  case KILN_ATTR_KIND_INT:
    kiln_mpack_int(encoder->out, attr->integer);
    break;
  case KILN_ATTR_KIND_FLOAT:
    kiln_mpack_double(encoder->out, attr->real);
    break;
  case KILN_ATTR_KIND_NUMBER:
    put_number(encoder, attr->number);
    break;
  case KILN_ATTR_KIND_BOOL:
    kiln_mpack_bool(encoder->out, attr->flag);
    break;
  case KILN_ATTR_KIND_DTYPE:
    kiln_mpack_str(encoder->out, kiln_dtype_name(attr->dtype));
    break;
  case KILN_ATTR_KIND_WORD:
    kiln_mpack_str(encoder->out, attr->word);
    break;
  case KILN_ATTR_KIND_INTS:
    put_integers(encoder, attr->list.integers, attr->list.count);
    break;
  case KILN_ATTR_KIND_DIMS:
    put_dims(encoder, attr->list.dims, attr->list.count);
    break;
  case KILN_ATTR_KIND_NUMBERS:
    put_numbers(encoder, attr->list.numbers, attr->list.count);
    break;
  }
}

/* --- the graph ------------------------------------------------------------------------------------------ */

static void put_name(encoder_t *encoder, kiln_value_id_t value) {
  const char *name = encoder->graph->value_names ? encoder->graph->value_names[value] : NULL;
  if (name) {
    kiln_mpack_str(encoder->out, name);
  } else {
    kiln_mpack_nil(encoder->out);
  }
}

static void put_input(encoder_t *encoder, uint32_t index) {
  const kiln_graph_t *graph = encoder->graph;
  const kiln_layout_t *layout = &graph->input_layouts[index];
  bool named = graph->value_names && graph->value_names[index];
  kiln_mpack_map(encoder->out, 3u + layout->has_strides + named);
  if (named) {
    put_key(encoder, "name");
    put_name(encoder, index);
  }
  put_type_members(encoder, &graph->types[index]);
  put_layout_members(encoder, layout, graph->types[index].rank);
}

static void put_node(encoder_t *encoder, const kiln_node_t *node) {
  kiln_mpack_map(encoder->out, 5);
  put_key(encoder, "op");
  kiln_mpack_str(encoder->out, kiln_op_info(node->op)->name);
  put_key(encoder, "in");
  kiln_mpack_array(encoder->out, node->operand_count);
  for (uint32_t i = 0; i < node->operand_count; i++) {
    if (node->operands[i] == KILN_NO_VALUE) {
      kiln_mpack_nil(encoder->out);
    } else {
      kiln_mpack_int(encoder->out, node->operands[i]);
    }
  }
  put_key(encoder, "attrs");
  kiln_mpack_map(encoder->out, node->attr_count);
  for (uint32_t i = 0; i < node->attr_count; i++) put_attr(encoder, &node->attrs[i]);
  put_key(encoder, "out");
  kiln_mpack_array(encoder->out, node->result_count);
  for (uint32_t i = 0; i < node->result_count; i++) {
    kiln_mpack_map(encoder->out, 2);
    put_type_members(encoder, &encoder->graph->types[node->first_result + i]);
  }
  put_key(encoder, "names");
  kiln_mpack_array(encoder->out, node->result_count);
  for (uint32_t i = 0; i < node->result_count; i++) put_name(encoder, node->first_result + i);
}

static void put_output(encoder_t *encoder, uint32_t index) {
  const kiln_graph_t *graph = encoder->graph;
  const kiln_layout_t *layout = &graph->output_layouts[index];
  kiln_mpack_map(encoder->out, 2u + layout->has_strides);
  put_key(encoder, "value");
  kiln_mpack_int(encoder->out, graph->outputs[index]);
  put_layout_members(encoder, layout, graph->types[graph->outputs[index]].rank);
}

void kiln_graph_encode(kiln_buffer_t *out, const kiln_graph_t *graph) {
  encoder_t encoder = {.out = out, .graph = graph};
  kiln_mpack_map(out, 5);
  put_key(&encoder, "name");
  kiln_mpack_str(out, graph->name);
  put_key(&encoder, "symbols");
  kiln_mpack_array(out, graph->symbol_count);
  for (uint32_t s = 0; s < graph->symbol_count; s++) {
    encoder.symbols[s] = graph->symbols[s].name;
    kiln_mpack_array(out, 2);
    kiln_mpack_str(out, graph->symbols[s].name);
    kiln_mpack_int(out, graph->symbols[s].typical);
  }
  put_key(&encoder, "inputs");
  kiln_mpack_array(out, graph->input_count);
  for (uint32_t i = 0; i < graph->input_count; i++) put_input(&encoder, i);
  put_key(&encoder, "nodes");
  kiln_mpack_array(out, graph->node_count);
  for (uint32_t i = 0; i < graph->node_count; i++) put_node(&encoder, &graph->nodes[i]);
  put_key(&encoder, "outputs");
  kiln_mpack_array(out, graph->output_count);
  for (uint32_t i = 0; i < graph->output_count; i++) put_output(&encoder, i);
}
