/* ir/text_lexer.c: the scanner of graph text. Bytes outside strings and comments are ASCII; NUL is refused
 * everywhere.
 *
 * Numbers are read by strtod, which is exact; programs that link this stay in the "C" locale.
 */
#include "ir/text_lexer.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "ir/text.h"

/* --- errors --------------------------------------------------------------------------------------------- */

static kiln_status_t add_position(const kiln_token_t *token, kiln_status_t status) {
  status = kiln_error_detail(status, "line", "%u", token->line);
  return kiln_error_detail(status, "column", "%u", token->column);
}

kiln_status_t kiln_lexer_error(const kiln_lexer_t *lexer, const kiln_token_t *token, kiln_code_t code,
                               const char *format, ...) {
  kiln_buffer_t message;
  kiln_buffer_init(&message);
  va_list arguments;
  va_start(arguments, format);
  kiln_buffer_vprintf(&message, format, arguments);
  va_end(arguments);
  kiln_status_t status =
      kiln_error(code, "%s:%u:%u: %s", lexer->file, token->line, token->column, kiln_buffer_text(&message));
  kiln_buffer_deinit(&message);
  add_position(token, status);
  return status;
}

kiln_status_t kiln_lexer_place(const kiln_lexer_t *lexer, const kiln_token_t *token, kiln_status_t status) {
  if (!status) return NULL;
  kiln_status_t placed =
      kiln_lexer_error(lexer, token, kiln_status_code(status), "%s", kiln_status_message(status));
  for (size_t i = 0; i < kiln_status_detail_count(status); i++) {
    const char *key, *value;
    kiln_status_detail_at(status, i, &key, &value);
    if (!kiln_status_detail(placed, key)) placed = kiln_error_detail(placed, key, "%s", value);
  }
  kiln_status_free(status);
  return placed;
}

kiln_status_t kiln_lexer_expected(const kiln_lexer_t *lexer, const char *what) {
  const kiln_token_t *token = &lexer->token;
  if (token->kind == KILN_TOKEN_END) {
    return kiln_lexer_error(lexer, token, KILN_INVALID_GRAPH, "expected %s, found the end of the text", what);
  }
  int shown = token->size < 40 ? (int)token->size : 40;
  return kiln_lexer_error(lexer, token, KILN_INVALID_GRAPH, "expected %s, found '%s%.*s'", what,
                          token->kind == KILN_TOKEN_VALUE ? "%" : "", shown, token->text);
}

/* --- characters ----------------------------------------------------------------------------------------- */

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool is_hex_digit(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
static bool is_name_part(char c) { return is_letter(c) || is_digit(c) || c == '.'; }

bool kiln_text_is_name(const char *name, size_t length, bool digit_first) {
  if (!length || !(is_letter(name[0]) || (digit_first && is_digit(name[0])))) return false;
  for (size_t i = 1; i < length; i++) {
    if (!is_name_part(name[i])) return false;
  }
  return true;
}

/* The character `ahead` of the position; NUL past the end. */
static char peek(const kiln_lexer_t *lexer, size_t ahead) {
  return lexer->size - lexer->at > ahead ? lexer->text[lexer->at + ahead] : 0;
}

static void skip_blanks(kiln_lexer_t *lexer) {
  bool comment = false;
  for (; lexer->at < lexer->size; lexer->at++) {
    char c = lexer->text[lexer->at];
    if (c == '#') comment = true;
    if (c == '\n') comment = false;
    if (!c || (!comment && c != ' ' && c != '\t' && c != '\r' && c != '\n')) return;
  }
}

/* Moves line and column on to the position. Columns count characters: UTF-8 continuation bytes do not
 * count. */
static void count_to_position(kiln_lexer_t *lexer) {
  for (; lexer->counted < lexer->at; lexer->counted++) {
    char c = lexer->text[lexer->counted];
    lexer->column += (c & 0xc0) != 0x80;
    if (c == '\n') {
      lexer->line++;
      lexer->column = 1;
    }
  }
}

/* --- numbers -------------------------------------------------------------------------------------------- */

/* How many of the characters form a number: digits, a point and an exponent, in decimal or hexadecimal. */
static size_t number_size(const kiln_lexer_t *lexer, bool *out_hex, bool *out_real) {
  bool hex = peek(lexer, 0) == '0' && (peek(lexer, 1) == 'x' || peek(lexer, 1) == 'X');
  size_t size = hex ? 2 : 0;
  *out_hex = hex;
  *out_real = false;
  for (;; size++) {
    char c = peek(lexer, size);
    bool exponent = hex ? c == 'p' || c == 'P' : c == 'e' || c == 'E';
    if (exponent) {
      *out_real = true;
      char next = peek(lexer, size + 1);
      if (next == '-' || next == '+') size++;
    } else if (c == '.') {
      *out_real = true;
    } else if (!(hex ? is_hex_digit(c) : is_digit(c))) {
      return size;
    }
  }
}

static kiln_status_t read_number(kiln_lexer_t *lexer) {
  kiln_token_t *token = &lexer->token;
  bool real;
  char text[512], *end;
  token->size = number_size(lexer, &token->is_hex, &real);
  token->kind = real ? KILN_TOKEN_REAL : KILN_TOKEN_INTEGER;
  lexer->at += token->size;
  if (token->size >= sizeof text)
    return kiln_lexer_error(lexer, token, KILN_INVALID_GRAPH, "the number is too long");
  memcpy(text, token->text, token->size);
  text[token->size] = 0;
  errno = 0;
  if (real) {
    token->real = strtod(text, &end);
  } else {
    token->integer = strtoull(text, &end, token->is_hex ? 16 : 10);
  }
  if (*end || end == text || is_name_part(peek(lexer, 0))) {
    return kiln_lexer_error(lexer, token, KILN_INVALID_GRAPH, "malformed number");
  }
  bool overflow = real ? isinf(token->real) : errno == ERANGE;
  return overflow ? kiln_lexer_error(lexer, token, KILN_INVALID_GRAPH, "the number is out of range") : NULL;
}

/* --- strings -------------------------------------------------------------------------------------------- */

static char unescape(char c) {
  switch (c) {
  case 'n':
    return '\n';
  case 't':
    return '\t';
  case '"':
  case '\\':
    return c;
  default:
    return 0;
  }
}

static kiln_status_t read_string(kiln_lexer_t *lexer) {
  kiln_token_t *token = &lexer->token;
  token->kind = KILN_TOKEN_STRING;
  char *decoded = NULL;
  size_t count = 0, capacity = 0;
  for (lexer->at++; peek(lexer, 0) != '"'; lexer->at++) {
    char c = peek(lexer, 0);
    if (!c || c == '\n') return kiln_lexer_error(lexer, token, KILN_INVALID_GRAPH, "the string does not end");
    if (c == '\\') {
      lexer->at++;
      c = unescape(peek(lexer, 0));
      if (!c)
        return kiln_lexer_error(lexer, token, KILN_INVALID_GRAPH, "only \\n, \\t, \\\" and \\\\ are escapes");
    }
    KILN_PUSH(lexer->arena, decoded, count, capacity, c);
  }
  lexer->at++;
  token->text = kiln_arena_strndup(lexer->arena, decoded, count);
  token->size = count;
  return NULL;
}

/* --- tokens --------------------------------------------------------------------------------------------- */

static void read_name(kiln_lexer_t *lexer, kiln_token_kind_t kind) {
  lexer->token.kind = kind;
  lexer->token.text = lexer->text + lexer->at;
  while (is_name_part(peek(lexer, 0))) lexer->at++;
  lexer->token.size = (size_t)(lexer->text + lexer->at - lexer->token.text);
}

kiln_status_t kiln_lexer_next(kiln_lexer_t *lexer) {
  skip_blanks(lexer);
  char c = peek(lexer, 0);
  count_to_position(lexer);
  lexer->token =
      (kiln_token_t){.text = lexer->text + lexer->at, .line = lexer->line, .column = lexer->column};
  if (lexer->at == lexer->size) return NULL;
  if (is_letter(c)) {
    read_name(lexer, KILN_TOKEN_WORD);
  } else if (c == '%' && (is_letter(peek(lexer, 1)) || is_digit(peek(lexer, 1)))) {
    lexer->at++;
    read_name(lexer, KILN_TOKEN_VALUE);
  } else if (is_digit(c)) {
    return read_number(lexer);
  } else if (c == '"') {
    return read_string(lexer);
  } else if (c && strchr("()[]{},:=+-*/", c)) {
    lexer->at++;
    lexer->token.kind = KILN_TOKEN_MARK;
    lexer->token.size = 1;
  } else {
    return kiln_lexer_error(lexer, &lexer->token, KILN_INVALID_GRAPH, "unexpected character (byte 0x%02x)",
                            (unsigned char)c);
  }
  return NULL;
}

kiln_status_t kiln_lexer_init(kiln_lexer_t *lexer, kiln_arena_t *arena, const char *file, const char *text,
                              size_t size) {
  *lexer = (kiln_lexer_t){.arena = arena, .file = file, .text = text, .size = size, .line = 1, .column = 1};
  return kiln_lexer_next(lexer);
}

bool kiln_token_is(const kiln_token_t *token, const char *text) {
  if (token->kind != KILN_TOKEN_WORD && token->kind != KILN_TOKEN_MARK) return false;
  return token->size == strlen(text) && !memcmp(token->text, text, token->size);
}

kiln_status_t kiln_lexer_expect(kiln_lexer_t *lexer, const char *text) {
  if (kiln_token_is(&lexer->token, text)) return kiln_lexer_next(lexer);
  char what[16]; /* the longest is 'graph' */
  snprintf(what, sizeof what, "'%s'", text);
  return kiln_lexer_expected(lexer, what);
}

kiln_status_t kiln_lexer_accept(kiln_lexer_t *lexer, const char *text, bool *out_accepted) {
  *out_accepted = kiln_token_is(&lexer->token, text);
  return *out_accepted ? kiln_lexer_next(lexer) : NULL;
}
