/* ir/text_parse.c: graphs from text (grammar: docs/text-format.md), one statement at a time into a graph
 * builder.
 *
 * The first error ends parsing and names its place. Shape rules are applied statement by statement, so that
 * what they refuse is reported where it stands; the verifier has the last word on every graph. Called by the
 * server (compile, execute, explain), the command line and tests.
 */
#include "ir/text.h"

#include <string.h>

#include "ir/shape.h"
#include "ir/text_parser.h"

static kiln_status_t error_at(const kiln_parser_t *parser, const kiln_token_t *token, const char *format, ...)
    __attribute__((format(printf, 3, 4), returns_nonnull));

static kiln_status_t error_at(const kiln_parser_t *parser, const kiln_token_t *token, const char *format,
                              ...) {
  va_list arguments;
  va_start(arguments, format);
  kiln_buffer_t message;
  kiln_buffer_init(&message);
  kiln_buffer_vprintf(&message, format, arguments);
  va_end(arguments);
  kiln_status_t status =
      kiln_lexer_error(&parser->lexer, token, KILN_INVALID_GRAPH, "%s", kiln_buffer_text(&message));
  kiln_buffer_deinit(&message);
  return status;
}

static kiln_status_t accept(kiln_parser_t *parser, const char *text, bool *out_accepted) {
  return kiln_lexer_accept(&parser->lexer, text, out_accepted);
}

static kiln_status_t expect(kiln_parser_t *parser, const char *text) {
  return kiln_lexer_expect(&parser->lexer, text);
}

/* The token, which must be of this kind, and moves on. */
static kiln_status_t take(kiln_parser_t *parser, kiln_token_kind_t kind, const char *what,
                          kiln_token_t *out) {
  *out = parser->lexer.token;
  return out->kind == kind ? kiln_lexer_next(&parser->lexer) : kiln_lexer_expected(&parser->lexer, what);
}

static kiln_status_t refuse_reserved(kiln_parser_t *parser, const char *word) {
  if (!kiln_token_is(&parser->lexer.token, word)) return NULL;
  return kiln_lexer_error(&parser->lexer, &parser->lexer.token, KILN_UNSUPPORTED, "'%s' is not supported yet",
                          word);
}

/* --- types and layouts ---------------------------------------------------------------------------------- */

static kiln_status_t parse_type(kiln_parser_t *parser, kiln_type_t *out) {
  const kiln_token_t start = parser->lexer.token;
  kiln_dim_t *dims;
  *out = (kiln_type_t){0};
  KILN_TRY(kiln_parser_dtype(parser, &out->dtype));
  KILN_TRY(kiln_parser_dims(parser, &dims, &out->rank));
  if (out->rank > KILN_MAX_RANK) {
    const kiln_shape_t shape = {.op = KILN_OP_COUNT};
    return kiln_lexer_place(
        &parser->lexer, &start,
        kiln_shape_refuse(&shape, KILN_RULE_rank, "a type has at most %d dimensions", KILN_MAX_RANK));
  }
  for (uint32_t i = 0; i < out->rank; i++) out->dims[i] = dims[i];
  return NULL;
}

static kiln_status_t parse_strides(kiln_parser_t *parser, uint32_t rank, kiln_layout_t *layout) {
  const kiln_token_t start = parser->lexer.token;
  kiln_dim_t *strides;
  uint32_t count;
  KILN_TRY(kiln_parser_dims(parser, &strides, &count));
  if (count != rank) return error_at(parser, &start, "%u strides for %u dimensions", count, rank);
  layout->has_strides = true;
  for (uint32_t i = 0; i < rank; i++) layout->strides[i] = strides[i];
  return NULL;
}

/* [strides [..]] [align N], checked against the type. */
static kiln_status_t parse_layout(kiln_parser_t *parser, const kiln_token_t *at, const kiln_type_t *type,
                                  bool is_output, kiln_layout_t *out) {
  bool given;
  *out = (kiln_layout_t){.align_bytes = 16};
  KILN_TRY(accept(parser, "strides", &given));
  if (given) KILN_TRY(parse_strides(parser, type->rank, out));
  KILN_TRY(accept(parser, "align", &given));
  if (given) {
    kiln_token_t bytes;
    KILN_TRY(take(parser, KILN_TOKEN_INTEGER, "an alignment in bytes", &bytes));
    out->align_bytes = bytes.integer > UINT32_MAX ? UINT32_MAX : (uint32_t)bytes.integer; /* refused below */
  }
  const kiln_shape_t shape = {.arena = parser->arena, .symbols = parser->symbols, .op = KILN_OP_COUNT};
  return kiln_lexer_place(&parser->lexer, at, kiln_shape_check_boundary(&shape, type, out, is_output));
}

/* --- values --------------------------------------------------------------------------------------------- */

static kiln_status_t define(kiln_parser_t *parser, const kiln_token_t *name, kiln_value_id_t value) {
  bool added;
  *kiln_map_put(parser->values, name->text, name->size, &added) = value;
  if (!added) return error_at(parser, name, "%%%.*s is defined twice", (int)name->size, name->text);
  kiln_graph_builder_name(parser->builder, value, kiln_arena_strndup(parser->arena, name->text, name->size));
  return NULL;
}

static kiln_status_t parse_use(kiln_parser_t *parser, kiln_value_id_t *out, kiln_token_t *name) {
  KILN_TRY(take(parser, KILN_TOKEN_VALUE, "a value", name));
  const uint64_t *value = kiln_map_find(parser->values, name->text, name->size);
  if (!value) return error_at(parser, name, "%%%.*s is not defined above", (int)name->size, name->text);
  *out = (kiln_value_id_t)*value;
  return NULL;
}

/* --- the head: name, symbols, inputs -------------------------------------------------------------------- */

static kiln_status_t parse_symbol(kiln_parser_t *parser) {
  kiln_token_t name, typical = {0};
  bool given;
  KILN_TRY(take(parser, KILN_TOKEN_WORD, "a symbol", &name));
  if (parser->symbol_count == KILN_MAX_SYMBOLS) {
    return error_at(parser, &name, "a graph has at most %d symbols", KILN_MAX_SYMBOLS);
  }
  for (uint32_t s = 0; s < parser->symbol_count; s++) {
    if (kiln_token_is(&name, parser->symbols[s].name))
      return error_at(parser, &name, "the symbol is declared twice");
  }
  KILN_TRY(accept(parser, "=", &given));
  if (given) KILN_TRY(take(parser, KILN_TOKEN_INTEGER, "a typical value", &typical));
  if (typical.integer > INT64_MAX) return error_at(parser, &typical, "the integer does not fit 64 bits");
  kiln_symbol_t symbol = {kiln_arena_strndup(parser->arena, name.text, name.size), (int64_t)typical.integer};
  parser->symbols[parser->symbol_count++] = symbol;
  kiln_graph_builder_symbol(parser->builder, symbol.name, symbol.typical);
  return NULL;
}

static kiln_status_t parse_symbols(kiln_parser_t *parser) {
  bool more;
  KILN_TRY(accept(parser, "[", &more));
  if (!more) return NULL;
  do {
    KILN_TRY(parse_symbol(parser));
    KILN_TRY(accept(parser, ",", &more));
  } while (more);
  return expect(parser, "]");
}

static kiln_status_t parse_input(kiln_parser_t *parser) {
  kiln_token_t name;
  kiln_type_t type;
  kiln_layout_t layout;
  KILN_TRY(take(parser, KILN_TOKEN_VALUE, "an input", &name));
  KILN_TRY(expect(parser, ":"));
  KILN_TRY(parse_type(parser, &type));
  KILN_TRY(refuse_reserved(parser, "donate"));
  KILN_TRY(parse_layout(parser, &name, &type, false, &layout));
  KILN_TRY(refuse_reserved(parser, "donate"));
  return define(parser, &name, kiln_graph_builder_input(parser->builder, NULL, type, &layout));
}

static kiln_status_t parse_inputs(kiln_parser_t *parser) {
  bool more;
  KILN_TRY(expect(parser, "("));
  KILN_TRY(accept(parser, ")", &more));
  if (more) return NULL;
  do {
    KILN_TRY(parse_input(parser));
    KILN_TRY(accept(parser, ",", &more));
  } while (more);
  return expect(parser, ")");
}

/* --- statements ----------------------------------------------------------------------------------------- */

static kiln_status_t parse_results(kiln_parser_t *parser) {
  bool more;
  parser->result_count = 0;
  do {
    kiln_token_t name;
    KILN_TRY(take(parser, KILN_TOKEN_VALUE, "a result or 'return'", &name));
    KILN_PUSH(parser->arena, parser->results, parser->result_count, parser->result_capacity, name);
    KILN_TRY(accept(parser, ",", &more));
  } while (more);
  return expect(parser, "=");
}

static kiln_status_t parse_op(kiln_parser_t *parser, kiln_op_t *out_op, kiln_token_t *out_token) {
  KILN_TRY(take(parser, KILN_TOKEN_WORD, "an op", out_token));
  if (kiln_op_parse(out_token->text, out_token->size, out_op)) return NULL;
  bool reserved = kiln_op_is_reserved(out_token->text, out_token->size);
  return kiln_lexer_error(&parser->lexer, out_token, reserved ? KILN_UNSUPPORTED : KILN_INVALID_GRAPH,
                          reserved ? "op '%.*s' is not supported yet" : "unknown op '%.*s'",
                          (int)out_token->size, out_token->text);
}

static kiln_status_t parse_operands(kiln_parser_t *parser) {
  bool more;
  parser->operand_count = 0;
  KILN_TRY(expect(parser, "("));
  KILN_TRY(accept(parser, ")", &more));
  if (more) return NULL;
  do {
    kiln_value_id_t operand = KILN_NO_VALUE;
    kiln_token_t name;
    bool absent;
    KILN_TRY(accept(parser, "none", &absent));
    if (!absent) KILN_TRY(parse_use(parser, &operand, &name));
    KILN_PUSH(parser->arena, parser->operands, parser->operand_count, parser->operand_capacity, operand);
    KILN_TRY(accept(parser, ",", &more));
  } while (more);
  return expect(parser, ")");
}

/* ": f32[4,8], f32[4,8]": the types that the writer expects. */
static kiln_status_t parse_expected_types(kiln_parser_t *parser, kiln_value_id_t first, uint32_t count) {
  const kiln_shape_t shape = {.arena = parser->arena, .symbols = parser->symbols, .op = KILN_OP_COUNT};
  for (uint32_t i = 0; i < count; i++) {
    if (i) KILN_TRY(expect(parser, ","));
    const kiln_token_t at = parser->lexer.token;
    const kiln_type_t *actual = kiln_graph_builder_type(parser->builder, first + i);
    kiln_type_t expected;
    KILN_TRY(parse_type(parser, &expected));
    if (kiln_type_equal(&expected, actual)) continue;
    return error_at(parser, &at, "the result is %s, not %s", kiln_shape_type_text(&shape, actual),
                    kiln_shape_type_text(&shape, &expected));
  }
  return NULL;
}

static kiln_status_t parse_statement(kiln_parser_t *parser) {
  const kiln_token_t start = parser->lexer.token;
  kiln_lexer_t *lexer = &parser->lexer;
  kiln_op_t op;
  kiln_token_t at;
  KILN_TRY(parse_results(parser));
  KILN_TRY(parse_op(parser, &op, &at));
  KILN_TRY(parse_operands(parser));
  parser->attr_count = 0;
  if (kiln_token_is(&lexer->token, "{")) KILN_TRY(kiln_parser_attrs(parser, op));
  kiln_value_id_t first;
  uint32_t count;
  KILN_TRY(kiln_lexer_place(lexer, &at,
                            kiln_graph_builder_infer(parser->builder, op, parser->operands,
                                                     (uint32_t)parser->operand_count, parser->attrs,
                                                     (uint32_t)parser->attr_count, at.line, &first)));
  KILN_TRY(kiln_shape_result_count(op, parser->attrs, (uint32_t)parser->attr_count, &count));
  if (count != parser->result_count) {
    return error_at(parser, &start, "%s gives %u results, not %zu", kiln_op_info(op)->name, count,
                    parser->result_count);
  }
  for (uint32_t i = 0; i < count; i++) KILN_TRY(define(parser, &parser->results[i], first + i));
  bool typed;
  KILN_TRY(accept(parser, ":", &typed));
  return typed ? parse_expected_types(parser, first, count) : NULL;
}

static kiln_status_t parse_return(kiln_parser_t *parser) {
  bool more;
  do {
    kiln_value_id_t value;
    kiln_token_t name;
    kiln_layout_t layout;
    KILN_TRY(parse_use(parser, &value, &name));
    const kiln_type_t *type = kiln_graph_builder_type(parser->builder, value);
    KILN_TRY(refuse_reserved(parser, "into"));
    KILN_TRY(parse_layout(parser, &name, type, true, &layout));
    KILN_TRY(refuse_reserved(parser, "into"));
    kiln_graph_builder_output(parser->builder, value, &layout);
    KILN_TRY(accept(parser, ",", &more));
  } while (more);
  return NULL;
}

/* --- graphs --------------------------------------------------------------------------------------------- */

static kiln_status_t parse_body(kiln_parser_t *parser) {
  bool returns;
  KILN_TRY(expect(parser, "{"));
  for (;;) {
    KILN_TRY(accept(parser, "return", &returns));
    if (returns) break;
    KILN_TRY(parse_statement(parser));
  }
  KILN_TRY(parse_return(parser));
  return expect(parser, "}");
}

static kiln_status_t parse_graph(kiln_parser_t *parser, kiln_map_t *graph_names, const kiln_graph_t **out) {
  kiln_token_t name;
  bool added;
  KILN_TRY(expect(parser, "graph"));
  KILN_TRY(take(parser, KILN_TOKEN_WORD, "the graph's name", &name));
  kiln_map_put(graph_names, name.text, name.size, &added);
  if (!added)
    return error_at(parser, &name, "graph '%.*s' stands twice in the file", (int)name.size, name.text);
  parser->builder =
      kiln_graph_builder_create(parser->arena, kiln_arena_strndup(parser->arena, name.text, name.size));
  parser->values = kiln_map_create(parser->arena);
  parser->symbol_count = 0;
  KILN_TRY(parse_symbols(parser));
  KILN_TRY(parse_inputs(parser));
  KILN_TRY(parse_body(parser));
  *out = kiln_graph_builder_finish(parser->builder);
  return kiln_lexer_place(&parser->lexer, &name, kiln_graph_verify(parser->arena, *out, NULL));
}

kiln_status_t kiln_text_parse(kiln_arena_t *arena, const char *file, const char *text, size_t size,
                              kiln_graph_list_t *out_graphs) {
  kiln_parser_t parser = {.arena = arena};
  kiln_map_t *graph_names = kiln_map_create(arena);
  *out_graphs = (kiln_graph_list_t){0};
  KILN_TRY(kiln_lexer_init(&parser.lexer, arena, file, text, size));
  do {
    const kiln_graph_t *graph;
    KILN_TRY(parse_graph(&parser, graph_names, &graph));
    KILN_PUSH(arena, out_graphs->graphs, out_graphs->count, out_graphs->capacity, graph);
  } while (parser.lexer.token.kind != KILN_TOKEN_END);
  return NULL;
}
