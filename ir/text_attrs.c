/* ir/text_attrs.c: dimension expressions and attribute values. Which form a value has follows from the
 * attribute's kind (attrs.def), so `dims=[0,1]` is a list of integers and `shape=[T,64]` one of dimensions
 * without any mark on them. */
#include "ir/text_parser.h"

#include <math.h>
#include <string.h>

#include "ir/shape.h"
#include "ir/text.h"

enum { MAX_NESTING = 100 }; /* of parentheses */

static kiln_status_t fail(const kiln_parser_t *parser, const kiln_token_t *token, const char *message) {
  return kiln_lexer_error(&parser->lexer, token, KILN_INVALID_GRAPH, "%s", message);
}

/* Signs before a number or factor; out_negative: an odd number of minus signs. */
static kiln_status_t parse_signs(kiln_parser_t *parser, bool *out_negative) {
  *out_negative = false;
  for (bool minus;;) {
    KILN_TRY(kiln_lexer_accept(&parser->lexer, "-", &minus));
    if (!minus) return NULL;
    *out_negative = !*out_negative;
  }
}

/* The integer that stands next. Hexadecimal ones may use all 64 bits, as storage bits do. */
static kiln_status_t parse_magnitude(kiln_parser_t *parser, bool negative, int64_t *out) {
  const kiln_token_t token = parser->lexer.token;
  if (token.kind != KILN_TOKEN_INTEGER) return kiln_lexer_expected(&parser->lexer, "an integer");
  uint64_t most = token.is_hex && !negative ? UINT64_MAX : (uint64_t)INT64_MAX + negative;
  if (token.integer > most) return fail(parser, &token, "the integer does not fit 64 bits");
  *out = (int64_t)(negative ? 0 - token.integer : token.integer);
  return kiln_lexer_next(&parser->lexer);
}

static kiln_status_t parse_integer(kiln_parser_t *parser, int64_t *out) {
  bool negative;
  KILN_TRY(parse_signs(parser, &negative));
  return parse_magnitude(parser, negative, out);
}

/* --- dimensions: sum, product, factor; the nesting of parentheses is bounded, and with it the recursion - */

static kiln_status_t parse_sum(kiln_parser_t *parser, int nesting, kiln_dim_t *out);

static kiln_status_t find_symbol(kiln_parser_t *parser, kiln_dim_t *out) {
  const kiln_token_t *token = &parser->lexer.token;
  for (uint32_t s = 0; s < parser->symbol_count; s++) {
    const char *name = parser->symbols[s].name;
    if (strlen(name) != token->size || memcmp(name, token->text, token->size)) continue;
    *out = kiln_dim_symbol(parser->arena, s);
    return kiln_lexer_next(&parser->lexer);
  }
  return kiln_lexer_error(&parser->lexer, token, KILN_INVALID_GRAPH, "unknown symbol '%.*s'",
                          (int)token->size, token->text);
}

static kiln_status_t negate(kiln_parser_t *parser, const kiln_token_t *at, kiln_dim_t *dim) {
  if (kiln_dim_sub(parser->arena, kiln_dim_constant(0), *dim, dim)) return NULL;
  return fail(parser, at, "the dimension leaves 64 bits");
}

static kiln_status_t parse_factor(kiln_parser_t *parser, int nesting, kiln_dim_t *out) {
  kiln_lexer_t *lexer = &parser->lexer;
  const kiln_token_t start = lexer->token;
  bool negative, open;
  KILN_TRY(parse_signs(parser, &negative));
  if (lexer->token.kind == KILN_TOKEN_INTEGER) {
    *out = kiln_dim_constant(0);
    return parse_magnitude(parser, negative, &out->constant);
  }
  KILN_TRY(kiln_lexer_accept(lexer, "(", &open));
  if (open) {
    if (nesting == MAX_NESTING) return fail(parser, &start, "parentheses are nested too deeply");
    KILN_TRY(parse_sum(parser, nesting + 1, out));
    KILN_TRY(kiln_lexer_expect(lexer, ")"));
  } else if (lexer->token.kind == KILN_TOKEN_WORD) {
    KILN_TRY(find_symbol(parser, out));
  } else {
    return kiln_lexer_expected(lexer, "a dimension");
  }
  return negative ? negate(parser, &start, out) : NULL;
}

static kiln_status_t parse_product(kiln_parser_t *parser, int nesting, kiln_dim_t *out) {
  kiln_lexer_t *lexer = &parser->lexer;
  KILN_TRY(parse_factor(parser, nesting, out));
  for (;;) {
    const kiln_token_t sign = lexer->token;
    bool divide = kiln_token_is(&sign, "/");
    if (!divide && !kiln_token_is(&sign, "*")) return NULL;
    KILN_TRY(kiln_lexer_next(lexer));
    kiln_dim_t factor;
    KILN_TRY(parse_factor(parser, nesting, &factor));
    if (divide && !kiln_dim_div(parser->arena, *out, factor, out))
      return fail(parser, &sign, "the division is not exact");
    if (!divide && !kiln_dim_mul(parser->arena, *out, factor, out)) {
      return fail(parser, &sign, "the dimension leaves 64 bits");
    }
  }
}

static kiln_status_t parse_sum(kiln_parser_t *parser, int nesting, kiln_dim_t *out) {
  kiln_lexer_t *lexer = &parser->lexer;
  KILN_TRY(parse_product(parser, nesting, out));
  for (;;) {
    const kiln_token_t sign = lexer->token;
    bool subtract = kiln_token_is(&sign, "-");
    if (!subtract && !kiln_token_is(&sign, "+")) return NULL;
    KILN_TRY(kiln_lexer_next(lexer));
    kiln_dim_t term;
    KILN_TRY(parse_product(parser, nesting, &term));
    bool fits = subtract ? kiln_dim_sub(parser->arena, *out, term, out)
                         : kiln_dim_add(parser->arena, *out, term, out);
    if (!fits) return fail(parser, &sign, "the dimension leaves 64 bits");
  }
}

kiln_status_t kiln_parser_dim(kiln_parser_t *parser, kiln_dim_t *out) { return parse_sum(parser, 0, out); }

kiln_status_t kiln_text_parse_dim(kiln_arena_t *arena, const char *text, size_t size,
                                  const kiln_symbol_t *symbols, uint32_t symbol_count, kiln_dim_t *out) {
  kiln_parser_t parser = {.arena = arena, .symbol_count = symbol_count};
  if (symbol_count) memcpy(parser.symbols, symbols, symbol_count * sizeof *symbols);
  KILN_TRY(kiln_lexer_init(&parser.lexer, arena, "dimension", text, size));
  KILN_TRY(kiln_parser_dim(&parser, out));
  return parser.lexer.token.kind == KILN_TOKEN_END ? NULL : kiln_lexer_expected(&parser.lexer, "the end");
}

/* --- scalars -------------------------------------------------------------------------------------------- */

kiln_status_t kiln_parser_dtype(kiln_parser_t *parser, kiln_dtype_t *out) {
  const kiln_token_t *token = &parser->lexer.token;
  bool word = token->kind == KILN_TOKEN_WORD;
  if (word && kiln_dtype_parse(token->text, token->size, out)) return kiln_lexer_next(&parser->lexer);
  if (word && kiln_dtype_is_reserved(token->text, token->size)) {
    return kiln_lexer_error(&parser->lexer, token, KILN_UNSUPPORTED, "dtype %.*s is not supported yet",
                            (int)token->size, token->text);
  }
  return kiln_lexer_expected(&parser->lexer, "a dtype");
}

static kiln_status_t parse_flag(kiln_parser_t *parser, bool *out) {
  KILN_TRY(kiln_lexer_accept(&parser->lexer, "true", out));
  if (*out) return NULL;
  bool is_false;
  KILN_TRY(kiln_lexer_accept(&parser->lexer, "false", &is_false));
  return is_false ? NULL : kiln_lexer_expected(&parser->lexer, "true or false");
}

static double double_of_bits(uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* nan, or nan(0x7ff8000000000001) with the bits of the double, sign included. */
static kiln_status_t parse_nan(kiln_parser_t *parser, bool negative, double *out) {
  kiln_lexer_t *lexer = &parser->lexer;
  bool open;
  KILN_TRY(kiln_lexer_next(lexer));
  KILN_TRY(kiln_lexer_accept(lexer, "(", &open));
  *out = double_of_bits(negative ? 0xfff8000000000000 : 0x7ff8000000000000);
  if (!open) return NULL;
  const kiln_token_t token = lexer->token;
  *out = double_of_bits(token.integer);
  if (token.kind != KILN_TOKEN_INTEGER || !isnan(*out) || negative) {
    return kiln_lexer_expected(lexer, "the 64 bits of a NaN, as in nan(0x7ff8000000000001)");
  }
  KILN_TRY(kiln_lexer_next(lexer));
  return kiln_lexer_expect(lexer, ")");
}

static kiln_status_t parse_number(kiln_parser_t *parser, kiln_number_t *out) {
  kiln_lexer_t *lexer = &parser->lexer;
  bool negative;
  KILN_TRY(parse_signs(parser, &negative));
  const kiln_token_t token = lexer->token;
  *out = (kiln_number_t){0};
  if (kiln_token_is(&token, "nan")) return parse_nan(parser, negative, &out->real);
  if (kiln_token_is(&token, "inf") || token.kind == KILN_TOKEN_REAL) {
    double magnitude = token.kind == KILN_TOKEN_REAL ? token.real : INFINITY;
    out->real = negative ? -magnitude : magnitude;
    return kiln_lexer_next(lexer);
  }
  out->is_integer = true;
  if (kiln_token_is(&token, "true") || kiln_token_is(&token, "false")) {
    out->integer = kiln_token_is(&token, "true");
    out->real = (double)out->integer;
    return kiln_lexer_next(lexer);
  }
  if (token.kind != KILN_TOKEN_INTEGER) return kiln_lexer_expected(lexer, "a number");
  KILN_TRY(parse_magnitude(parser, negative, &out->integer));
  out->real = (double)out->integer;
  return NULL;
}

static kiln_status_t parse_word(kiln_parser_t *parser, const char **out) {
  const kiln_token_t *token = &parser->lexer.token;
  if (token->kind != KILN_TOKEN_STRING) return kiln_lexer_expected(&parser->lexer, "a string");
  if (memchr(token->text, 0, token->size)) return fail(parser, token, "a string holds no NUL");
  *out = token->text;
  return kiln_lexer_next(&parser->lexer);
}

/* --- lists ---------------------------------------------------------------------------------------------- */

/* Calls item for each entry of "[a, b, c]"; the list may be empty. */
static kiln_status_t parse_list(kiln_parser_t *parser,
                                kiln_status_t (*item)(kiln_parser_t *parser, void *list), void *list) {
  bool more;
  KILN_TRY(kiln_lexer_expect(&parser->lexer, "["));
  KILN_TRY(kiln_lexer_accept(&parser->lexer, "]", &more));
  if (more) return NULL;
  do {
    KILN_TRY(item(parser, list));
    KILN_TRY(kiln_lexer_accept(&parser->lexer, ",", &more));
  } while (more);
  return kiln_lexer_expect(&parser->lexer, "]");
}

typedef struct {
  int64_t *items;
  size_t count, capacity;
} integer_list_t;

typedef struct {
  kiln_dim_t *items;
  size_t count, capacity;
} dim_list_t;

typedef struct {
  kiln_number_t *items;
  size_t count, capacity;
} number_list_t;

static kiln_status_t add_integer(kiln_parser_t *parser, void *argument) {
  integer_list_t *list = argument;
  int64_t item;
  KILN_TRY(parse_integer(parser, &item));
  KILN_PUSH(parser->arena, list->items, list->count, list->capacity, item);
  return NULL;
}

static kiln_status_t add_dim(kiln_parser_t *parser, void *argument) {
  dim_list_t *list = argument;
  kiln_dim_t item;
  KILN_TRY(kiln_parser_dim(parser, &item));
  KILN_PUSH(parser->arena, list->items, list->count, list->capacity, item);
  return NULL;
}

static kiln_status_t add_number(kiln_parser_t *parser, void *argument) {
  number_list_t *list = argument;
  kiln_number_t item;
  KILN_TRY(parse_number(parser, &item));
  KILN_PUSH(parser->arena, list->items, list->count, list->capacity, item);
  return NULL;
}

kiln_status_t kiln_parser_dims(kiln_parser_t *parser, kiln_dim_t **out_dims, uint32_t *out_count) {
  dim_list_t list = {0};
  KILN_TRY(parse_list(parser, add_dim, &list));
  *out_dims = list.items;
  *out_count = (uint32_t)list.count;
  return NULL;
}

static kiln_status_t parse_integers(kiln_parser_t *parser, kiln_attr_value_t *out) {
  integer_list_t list = {0};
  KILN_TRY(parse_list(parser, add_integer, &list));
  out->list.integers = list.items;
  out->list.count = (uint32_t)list.count;
  return NULL;
}

static kiln_status_t parse_numbers(kiln_parser_t *parser, kiln_attr_value_t *out) {
  number_list_t list = {0};
  KILN_TRY(parse_list(parser, add_number, &list));
  out->list.numbers = list.items;
  out->list.count = (uint32_t)list.count;
  return NULL;
}

/* --- attributes ----------------------------------------------------------------------------------------- */

static kiln_status_t parse_dims(kiln_parser_t *parser, kiln_attr_value_t *out) {
  kiln_dim_t *dims;
  KILN_TRY(kiln_parser_dims(parser, &dims, &out->list.count));
  out->list.dims = dims;
  return NULL;
}

static kiln_status_t parse_value(kiln_parser_t *parser, kiln_attr_value_t *out) {
  kiln_number_t number;
  switch (kiln_attr_kind(out->attr)) {
  case KILN_ATTR_KIND_INT:
    return parse_integer(parser, &out->integer);
  case KILN_ATTR_KIND_FLOAT:
    KILN_TRY(parse_number(parser, &number));
    out->real = number.real;
    return NULL;
  case KILN_ATTR_KIND_NUMBER:
    return parse_number(parser, &out->number);
  case KILN_ATTR_KIND_BOOL:
    return parse_flag(parser, &out->flag);
  case KILN_ATTR_KIND_DTYPE:
    return kiln_parser_dtype(parser, &out->dtype);
  case KILN_ATTR_KIND_WORD:
    return parse_word(parser, &out->word);
  case KILN_ATTR_KIND_INTS:
    return parse_integers(parser, out);
  case KILN_ATTR_KIND_DIMS:
    return parse_dims(parser, out);
  case KILN_ATTR_KIND_NUMBERS:
    return parse_numbers(parser, out);
  }
  return NULL;
}

static kiln_status_t parse_attr(kiln_parser_t *parser, kiln_op_t op) {
  const kiln_token_t name = parser->lexer.token;
  if (name.kind != KILN_TOKEN_WORD) return kiln_lexer_expected(&parser->lexer, "an attribute");
  kiln_attr_value_t value = {0};
  if (!kiln_attr_parse(name.text, name.size, &value.attr) || !kiln_op_attr_rule(op, value.attr)) {
    const kiln_shape_t shape = {.op = op};
    return kiln_lexer_place(&parser->lexer, &name,
                            kiln_shape_refuse(&shape, KILN_RULE_attr_unknown, "has no attribute '%.*s'",
                                              (int)name.size, name.text));
  }
  KILN_TRY(kiln_lexer_next(&parser->lexer));
  KILN_TRY(kiln_lexer_expect(&parser->lexer, "="));
  KILN_TRY(parse_value(parser, &value));
  KILN_PUSH(parser->arena, parser->attrs, parser->attr_count, parser->attr_capacity, value);
  return NULL;
}

kiln_status_t kiln_parser_attrs(kiln_parser_t *parser, kiln_op_t op) {
  bool more;
  KILN_TRY(kiln_lexer_expect(&parser->lexer, "{"));
  KILN_TRY(kiln_lexer_accept(&parser->lexer, "}", &more));
  if (more) return NULL;
  do {
    KILN_TRY(parse_attr(parser, op));
    KILN_TRY(kiln_lexer_accept(&parser->lexer, ",", &more));
  } while (more);
  return kiln_lexer_expect(&parser->lexer, "}");
}
