/* ir/wire.c: the structured form of a graph on the wire, in (docs/wire-graph.md).
 *
 * The decoder builds a graph as the text parser does: types are inferred node by node, types that the sender
 * states are compared with them, and the verifier has the last word. Ids are checked here, where they come
 * in. Linear in the message.
 */
#include "ir/wire.h"

#include <string.h>

#include "ir/mpack_path.h"
#include "ir/shape.h"
#include "ir/text.h"

typedef struct {
  kiln_arena_t *arena;
  kiln_graph_builder_t *builder;
  kiln_symbol_t symbols[KILN_MAX_SYMBOLS];
  uint32_t symbol_count;
  uint32_t value_count; /* so far */
} decoder_t;

static kiln_path_t step(const kiln_path_t *outer, const char *key) { return (kiln_path_t){outer, key, 0}; }
static kiln_path_t item(const kiln_path_t *outer, size_t index) { return (kiln_path_t){outer, NULL, index}; }

/* --- dims, types, layouts ------------------------------------------------------------------------------- */

/* An integer, or a string with an expression of the symbols. */
static kiln_status_t decode_dim(decoder_t *decoder, const kiln_path_t *at, const kiln_mpack_t *value,
                                kiln_dim_t *out) {
  const char *text;
  size_t length;
  *out = kiln_dim_constant(0);
  if (kiln_mpack_get_int(value, &out->constant)) return NULL;
  if (!kiln_mpack_get_str(value, &text, &length))
    return kiln_path_error(at, "must be an integer or an expression");
  kiln_status_t status =
      kiln_text_parse_dim(decoder->arena, text, length, decoder->symbols, decoder->symbol_count, out);
  if (!status) return NULL;
  kiln_status_t placed = kiln_path_error(at, "is no dimension: %s", kiln_status_message(status));
  kiln_status_free(status);
  return placed;
}

static kiln_status_t decode_dims(decoder_t *decoder, const kiln_path_t *at, const kiln_mpack_t *value,
                                 kiln_dim_t **out, uint32_t *out_count) {
  KILN_TRY(kiln_path_array(at, value, out_count));
  *out = KILN_NEW_ARRAY(decoder->arena, kiln_dim_t, *out_count);
  for (uint32_t i = 0; i < *out_count; i++) {
    kiln_path_t here = item(at, i);
    KILN_TRY(decode_dim(decoder, &here, kiln_mpack_item(value, i), &(*out)[i]));
  }
  return NULL;
}

static kiln_status_t decode_dtype(const kiln_path_t *at, const kiln_mpack_t *value, kiln_dtype_t *out) {
  const char *name;
  size_t length;
  if (!kiln_mpack_get_str(value, &name, &length)) return kiln_path_error(at, "must be the name of a dtype");
  if (kiln_dtype_parse(name, length, out)) return NULL;
  int shown = length < 32 ? (int)length : 32;
  if (!kiln_dtype_is_reserved(name, length)) return kiln_path_error(at, "is no dtype: '%.*s'", shown, name);
  return kiln_error(KILN_UNSUPPORTED, "dtype %.*s is not supported yet", shown, name);
}

/* The dtype and shape of a map. */
static kiln_status_t decode_type(decoder_t *decoder, const kiln_path_t *at, const kiln_mpack_t *map,
                                 kiln_type_t *out) {
  const kiln_mpack_t *value;
  kiln_dim_t *dims;
  kiln_path_t dtype_at = step(at, "dtype"), shape_at = step(at, "shape");
  *out = (kiln_type_t){0};
  KILN_TRY(kiln_path_need(at, map, "dtype", &value));
  KILN_TRY(decode_dtype(&dtype_at, value, &out->dtype));
  KILN_TRY(kiln_path_need(at, map, "shape", &value));
  KILN_TRY(decode_dims(decoder, &shape_at, value, &dims, &out->rank));
  if (out->rank > KILN_MAX_RANK)
    return kiln_path_error(&shape_at, "has more than %d dimensions", KILN_MAX_RANK);
  for (uint32_t i = 0; i < out->rank; i++) out->dims[i] = dims[i];
  return NULL;
}

static kiln_status_t decode_layout(decoder_t *decoder, const kiln_path_t *at, const kiln_mpack_t *map,
                                   uint32_t rank, kiln_layout_t *out) {
  const kiln_mpack_t *strides = kiln_mpack_find(map, "strides"), *align = kiln_mpack_find(map, "align");
  kiln_path_t strides_at = step(at, "strides"), align_at = step(at, "align");
  *out = (kiln_layout_t){.align_bytes = 16};
  if (align) KILN_TRY(kiln_path_u32(&align_at, align, 1, UINT32_MAX, &out->align_bytes));
  if (!strides) return NULL;
  KILN_TRY(kiln_path_array_of(&strides_at, strides, rank));
  out->has_strides = true;
  for (uint32_t i = 0; i < rank; i++) {
    kiln_path_t here = item(&strides_at, i);
    KILN_TRY(decode_dim(decoder, &here, kiln_mpack_item(strides, i), &out->strides[i]));
  }
  return NULL;
}

static kiln_status_t decode_name(decoder_t *decoder, const kiln_path_t *at, const kiln_mpack_t *value,
                                 bool digit_first, const char **out) {
  KILN_TRY(kiln_path_str(at, value, decoder->arena, out));
  if (kiln_text_is_name(*out, strlen(*out), digit_first)) return NULL;
  return kiln_path_error(at, "must consist of letters, digits, _ and dots");
}

/* --- attributes ----------------------------------------------------------------------------------------- */

static kiln_status_t decode_number(const kiln_path_t *at, const kiln_mpack_t *value, kiln_number_t *out) {
  bool flag = false;
  *out = (kiln_number_t){0};
  if (kiln_mpack_get_bool(value, &flag) || kiln_mpack_get_int(value, &out->integer)) {
    if (flag) out->integer = 1;
    out->is_integer = true;
    out->real = (double)out->integer;
    return NULL;
  }
  bool real = kiln_mpack_kind(value) == KILN_MPACK_DOUBLE && kiln_mpack_get_double(value, &out->real);
  return real ? NULL : kiln_path_error(at, "must be a number of at most 64 bits");
}

/* Integers; unsigned ones of 64 bits are taken as they are, for storage bits. */
static kiln_status_t decode_integers(decoder_t *decoder, const kiln_path_t *at, const kiln_mpack_t *value,
                                     kiln_attr_value_t *out) {
  KILN_TRY(kiln_path_array(at, value, &out->list.count));
  int64_t *integers = KILN_NEW_ARRAY(decoder->arena, int64_t, out->list.count);
  for (uint32_t i = 0; i < out->list.count; i++) {
    kiln_path_t here = item(at, i);
    uint64_t bits;
    if (out->attr == KILN_ATTR_bits && kiln_mpack_get_uint(kiln_mpack_item(value, i), &bits)) {
      integers[i] = (int64_t)bits;
    } else {
      KILN_TRY(kiln_path_int(&here, kiln_mpack_item(value, i), INT64_MIN, INT64_MAX, &integers[i]));
    }
  }
  out->list.integers = integers;
  return NULL;
}

static kiln_status_t decode_numbers(decoder_t *decoder, const kiln_path_t *at, const kiln_mpack_t *value,
                                    kiln_attr_value_t *out) {
  KILN_TRY(kiln_path_array(at, value, &out->list.count));
  kiln_number_t *numbers = KILN_NEW_ARRAY(decoder->arena, kiln_number_t, out->list.count);
  for (uint32_t i = 0; i < out->list.count; i++) {
    kiln_path_t here = item(at, i);
    KILN_TRY(decode_number(&here, kiln_mpack_item(value, i), &numbers[i]));
  }
  out->list.numbers = numbers;
  return NULL;
}

static kiln_status_t decode_attr_dims(decoder_t *decoder, const kiln_path_t *at, const kiln_mpack_t *value,
                                      kiln_attr_value_t *out) {
  kiln_dim_t *dims;
  KILN_TRY(decode_dims(decoder, at, value, &dims, &out->list.count));
  out->list.dims = dims;
  return NULL;
}

static kiln_status_t decode_attr(decoder_t *decoder, const kiln_path_t *at, const kiln_mpack_t *value,
                                 kiln_attr_value_t *out) {
  switch (kiln_attr_kind(out->attr)) {
  case KILN_ATTR_KIND_INT:
    return kiln_path_int(at, value, INT64_MIN, INT64_MAX, &out->integer);
  case KILN_ATTR_KIND_FLOAT:
    return kiln_mpack_get_double(value, &out->real) ? NULL : kiln_path_error(at, "must be a number");
  case KILN_ATTR_KIND_NUMBER:
    return decode_number(at, value, &out->number);
  case KILN_ATTR_KIND_BOOL:
    return kiln_path_bool(at, value, &out->flag);
  case KILN_ATTR_KIND_DTYPE:
    return decode_dtype(at, value, &out->dtype);
  case KILN_ATTR_KIND_WORD:
    return kiln_path_str(at, value, decoder->arena, &out->word);
  case KILN_ATTR_KIND_INTS:
    return decode_integers(decoder, at, value, out);
  case KILN_ATTR_KIND_DIMS:
    return decode_attr_dims(decoder, at, value, out);
  case KILN_ATTR_KIND_NUMBERS:
    return decode_numbers(decoder, at, value, out);
  }
  return NULL;
}

static kiln_status_t decode_attrs(decoder_t *decoder, const kiln_path_t *at, const kiln_mpack_t *map,
                                  kiln_attr_value_t **out, uint32_t *out_count) {
  *out_count = 0;
  if (!map) return NULL;
  size_t count = kiln_mpack_count(map);
  if (kiln_mpack_kind(map) != KILN_MPACK_MAP) return kiln_path_error(at, "must be a map");
  if (count > KILN_ATTR_COUNT) return kiln_path_error(at, "has too many entries");
  *out = KILN_NEW_ARRAY(decoder->arena, kiln_attr_value_t, count);
  for (size_t i = 0; i < count; i++) {
    const char *name;
    KILN_TRY(kiln_path_str(at, kiln_mpack_pair_key(map, i), decoder->arena, &name));
    kiln_path_t here = step(at, name);
    kiln_attr_value_t *attr = &(*out)[(*out_count)++];
    if (!kiln_attr_parse(name, strlen(name), &attr->attr)) return kiln_path_error(&here, "is no attribute");
    KILN_TRY(decode_attr(decoder, &here, kiln_mpack_pair_value(map, i), attr));
  }
  return NULL;
}

/* --- nodes ---------------------------------------------------------------------------------------------- */

static kiln_status_t decode_op(const kiln_path_t *at, const kiln_mpack_t *value, kiln_op_t *out) {
  const char *name;
  size_t length;
  if (!kiln_mpack_get_str(value, &name, &length)) return kiln_path_error(at, "must be the name of an op");
  if (kiln_op_parse(name, length, out)) return NULL;
  int shown = length < 32 ? (int)length : 32;
  if (!kiln_op_is_reserved(name, length)) return kiln_path_error(at, "is no op: '%.*s'", shown, name);
  return kiln_error(KILN_UNSUPPORTED, "op '%.*s' is not supported yet", shown, name);
}

static kiln_status_t decode_operands(decoder_t *decoder, const kiln_path_t *at, const kiln_mpack_t *value,
                                     kiln_value_id_t **out, uint32_t *out_count) {
  KILN_TRY(kiln_path_array(at, value, out_count));
  *out = KILN_NEW_ARRAY(decoder->arena, kiln_value_id_t, *out_count);
  for (uint32_t i = 0; i < *out_count; i++) {
    kiln_path_t here = item(at, i);
    const kiln_mpack_t *id = kiln_mpack_item(value, i);
    int64_t operand;
    if (kiln_mpack_kind(id) == KILN_MPACK_NIL) {
      (*out)[i] = KILN_NO_VALUE;
      continue;
    }
    if (!kiln_mpack_get_int(id, &operand) || operand < 0 || operand >= decoder->value_count) {
      return kiln_path_error(&here, "must be nil or one of the %u values before", decoder->value_count);
    }
    (*out)[i] = (kiln_value_id_t)operand;
  }
  return NULL;
}

/* The types that the sender expects of the results. */
static kiln_status_t check_claims(decoder_t *decoder, const kiln_path_t *at, const kiln_mpack_t *claims,
                                  kiln_value_id_t first, uint32_t count) {
  static const char *const keys[] = {"dtype", "shape", NULL};
  if (!claims) return NULL;
  KILN_TRY(kiln_path_array_of(at, claims, count));
  for (uint32_t i = 0; i < count; i++) {
    kiln_path_t here = item(at, i);
    kiln_type_t claimed;
    KILN_TRY(kiln_path_map(&here, kiln_mpack_item(claims, i), keys));
    KILN_TRY(decode_type(decoder, &here, kiln_mpack_item(claims, i), &claimed));
    const kiln_type_t *actual = kiln_graph_builder_type(decoder->builder, first + i);
    if (kiln_type_equal(&claimed, actual)) continue;
    const kiln_shape_t shape = {.arena = decoder->arena, .symbols = decoder->symbols, .op = KILN_OP_COUNT};
    return kiln_shape_refuse(&shape, KILN_RULE_type_claimed, "value %u is %s, not %s", first + i,
                             kiln_shape_type_text(&shape, actual), kiln_shape_type_text(&shape, &claimed));
  }
  return NULL;
}

static kiln_status_t decode_names(decoder_t *decoder, const kiln_path_t *at, const kiln_mpack_t *names,
                                  kiln_value_id_t first, uint32_t count) {
  if (!names) return NULL;
  KILN_TRY(kiln_path_array_of(at, names, count));
  for (uint32_t i = 0; i < count; i++) {
    kiln_path_t here = item(at, i);
    const char *name;
    if (kiln_mpack_kind(kiln_mpack_item(names, i)) == KILN_MPACK_NIL) continue;
    KILN_TRY(decode_name(decoder, &here, kiln_mpack_item(names, i), true, &name));
    kiln_graph_builder_name(decoder->builder, first + i, name);
  }
  return NULL;
}

static kiln_status_t decode_node(decoder_t *decoder, const kiln_path_t *at, const kiln_mpack_t *node) {
  static const char *const keys[] = {"op", "in", "attrs", "out", "names", NULL};
  kiln_path_t op_at = step(at, "op"), in_at = step(at, "in"), attrs_at = step(at, "attrs");
  kiln_path_t out_at = step(at, "out"), names_at = step(at, "names");
  const kiln_mpack_t *value;
  kiln_op_t op;
  kiln_value_id_t *operands, first;
  kiln_attr_value_t *attrs = NULL;
  uint32_t operand_count, attr_count, result_count;
  KILN_TRY(kiln_path_map(at, node, keys));
  KILN_TRY(kiln_path_need(at, node, "op", &value));
  KILN_TRY(decode_op(&op_at, value, &op));
  KILN_TRY(kiln_path_need(at, node, "in", &value));
  KILN_TRY(decode_operands(decoder, &in_at, value, &operands, &operand_count));
  KILN_TRY(decode_attrs(decoder, &attrs_at, kiln_mpack_find(node, "attrs"), &attrs, &attr_count));
  KILN_TRY(
      kiln_graph_builder_infer(decoder->builder, op, operands, operand_count, attrs, attr_count, 0, &first));
  KILN_TRY(kiln_shape_result_count(op, attrs, attr_count, &result_count));
  decoder->value_count += result_count;
  KILN_TRY(check_claims(decoder, &out_at, kiln_mpack_find(node, "out"), first, result_count));
  return decode_names(decoder, &names_at, kiln_mpack_find(node, "names"), first, result_count);
}

/* --- the graph ------------------------------------------------------------------------------------------ */

static kiln_status_t decode_symbol(decoder_t *decoder, const kiln_path_t *at, const kiln_mpack_t *pair) {
  kiln_symbol_t *symbol = &decoder->symbols[decoder->symbol_count];
  kiln_path_t name_at = item(at, 0), typical_at = item(at, 1);
  if (decoder->symbol_count == KILN_MAX_SYMBOLS) return kiln_path_error(at, "is one symbol too many");
  KILN_TRY(kiln_path_array_of(at, pair, 2));
  KILN_TRY(decode_name(decoder, &name_at, kiln_mpack_item(pair, 0), false, &symbol->name));
  KILN_TRY(kiln_path_int(&typical_at, kiln_mpack_item(pair, 1), 0, INT64_MAX, &symbol->typical));
  kiln_graph_builder_symbol(decoder->builder, symbol->name, symbol->typical);
  decoder->symbol_count++;
  return NULL;
}

static kiln_status_t decode_input(decoder_t *decoder, const kiln_path_t *at, const kiln_mpack_t *input) {
  static const char *const keys[] = {"name", "dtype", "shape", "strides", "align", NULL};
  kiln_path_t name_at = step(at, "name");
  kiln_type_t type;
  kiln_layout_t layout;
  const char *name = NULL;
  KILN_TRY(kiln_path_map(at, input, keys));
  KILN_TRY(decode_type(decoder, at, input, &type));
  KILN_TRY(decode_layout(decoder, at, input, type.rank, &layout));
  const kiln_mpack_t *value = kiln_mpack_find(input, "name");
  if (value) KILN_TRY(decode_name(decoder, &name_at, value, true, &name));
  kiln_graph_builder_input(decoder->builder, name, type, &layout);
  decoder->value_count++;
  return NULL;
}

static kiln_status_t decode_output(decoder_t *decoder, const kiln_path_t *at, const kiln_mpack_t *output) {
  static const char *const keys[] = {"value", "strides", "align", NULL};
  kiln_path_t value_at = step(at, "value");
  const kiln_mpack_t *value;
  int64_t id;
  kiln_layout_t layout;
  KILN_TRY(kiln_path_map(at, output, keys));
  KILN_TRY(kiln_path_need(at, output, "value", &value));
  if (!kiln_mpack_get_int(value, &id) || id < 0 || id >= decoder->value_count) {
    return kiln_path_error(&value_at, "must be one of the %u values", decoder->value_count);
  }
  const kiln_type_t *type = kiln_graph_builder_type(decoder->builder, (kiln_value_id_t)id);
  KILN_TRY(decode_layout(decoder, at, output, type->rank, &layout));
  kiln_graph_builder_output(decoder->builder, (kiln_value_id_t)id, &layout);
  return NULL;
}

/* Calls decode for each item of graph[key]; an absent list is empty. */
static kiln_status_t decode_each(decoder_t *decoder, const kiln_mpack_t *graph, const char *key,
                                 kiln_status_t (*decode)(decoder_t *, const kiln_path_t *,
                                                         const kiln_mpack_t *)) {
  const kiln_mpack_t *list = kiln_mpack_find(graph, key);
  kiln_path_t outer = step(NULL, "graph"), at = step(&outer, key);
  uint32_t count;
  if (!list) return NULL;
  KILN_TRY(kiln_path_array(&at, list, &count));
  for (uint32_t i = 0; i < count; i++) {
    kiln_path_t here = item(&at, i);
    KILN_TRY(decode(decoder, &here, kiln_mpack_item(list, i)));
  }
  return NULL;
}

kiln_status_t kiln_graph_decode(kiln_arena_t *arena, const kiln_mpack_t *value,
                                const kiln_graph_t **out_graph) {
  static const char *const keys[] = {"name", "symbols", "inputs", "nodes", "outputs", NULL};
  decoder_t decoder = {.arena = arena};
  kiln_path_t at = step(NULL, "graph"), name_at = step(&at, "name");
  const char *name = "graph";
  KILN_TRY(kiln_path_map(&at, value, keys));
  const kiln_mpack_t *given = kiln_mpack_find(value, "name");
  if (given) KILN_TRY(decode_name(&decoder, &name_at, given, false, &name));
  decoder.builder = kiln_graph_builder_create(arena, name);
  KILN_TRY(decode_each(&decoder, value, "symbols", decode_symbol));
  KILN_TRY(decode_each(&decoder, value, "inputs", decode_input));
  KILN_TRY(decode_each(&decoder, value, "nodes", decode_node));
  KILN_TRY(decode_each(&decoder, value, "outputs", decode_output));
  const kiln_graph_t *graph = kiln_graph_builder_finish(decoder.builder);
  KILN_TRY(kiln_graph_verify(arena, graph, NULL));
  *out_graph = graph;
  return NULL;
}
