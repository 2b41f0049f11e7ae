/* emulator/ptx_lex.c: see ptx_lex.h. */
#include "emulator/ptx_lex.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  const char *at, *end;
  uint32_t line;
} cursor_t;

static bool is_word_char(char c) { return isalnum((unsigned char)c) || c == '_' || c == '$'; }

/* Skips blanks and comments; false at the end. */
static bool skip_blank(cursor_t *c) {
  while (c->at < c->end) {
    if (*c->at == '\n') c->line++;
    if (isspace((unsigned char)*c->at)) {
      c->at++;
    } else if (c->end - c->at >= 2 && c->at[0] == '/' && c->at[1] == '/') {
      while (c->at < c->end && *c->at != '\n') c->at++;
    } else if (c->end - c->at >= 2 && c->at[0] == '/' && c->at[1] == '*') {
      for (c->at += 2; c->at < c->end && !(c->at[-1] == '*' && c->at[0] == '/'); c->at++)
        c->line += *c->at == '\n';
      if (c->at < c->end) c->at++;
    } else {
      return true;
    }
  }
  return false;
}

static void lex_word(cursor_t *c) {
  bool dotted = *c->at == '.';
  c->at++;
  while (c->at < c->end) {
    if (is_word_char(*c->at))
      c->at++;
    else if (dotted && c->end - c->at >= 3 && c->at[0] == ':' && c->at[1] == ':' && is_word_char(c->at[2]))
      c->at += 2;
    else
      break;
  }
}

/* 0f and 0d: the encoding in hexadecimal. */
static bool lex_encoded_float(cursor_t *c, emu_token_t *token) {
  if (c->end - c->at < 10 || c->at[0] != '0' || !strchr("fFdD", c->at[1])) return false;
  uint32_t digits = tolower((unsigned char)c->at[1]) == 'f' ? 8 : 16;
  if ((size_t)(c->end - c->at) < digits + 2) return false;
  char text[17] = "";
  for (uint32_t n = 0; n < digits; n++) {
    if (!isxdigit((unsigned char)c->at[2 + n])) return false;
    text[n] = c->at[2 + n];
  }
  token->bits = strtoull(text, NULL, 16);
  token->float_bytes = (uint8_t)(digits / 2);
  c->at += digits + 2;
  return true;
}

static void lex_number(cursor_t *c, emu_token_t *token) {
  token->kind = EMU_TOKEN_NUMBER;
  if (lex_encoded_float(c, token)) return;
  char text[64];
  size_t length = 0;
  bool hexadecimal = c->end - c->at >= 2 && c->at[0] == '0' && tolower((unsigned char)c->at[1]) == 'x',
       is_float = false;
  bool binary = c->end - c->at >= 2 && c->at[0] == '0' && tolower((unsigned char)c->at[1]) == 'b';
  while (c->at < c->end && length + 1 < sizeof text) {
    char ch = *c->at;
    bool exponent_sign =
        is_float && (ch == '-' || ch == '+') && tolower((unsigned char)text[length - 1]) == 'e';
    if (!isalnum((unsigned char)ch) && ch != '.' && !exponent_sign) break;
    if (!hexadecimal && !binary && (ch == '.' || ch == 'e' || ch == 'E')) is_float = true;
    text[length++] = ch;
    c->at++;
  }
  text[length] = 0;
  if (is_float) {
    double value = strtod(text, NULL);
    memcpy(&token->bits, &value, 8);
    token->float_bytes = 8;
  } else {
    token->bits = binary ? strtoull(text + 2, NULL, 2) : strtoull(text, NULL, 0);
  }
}

static void lex_string(cursor_t *c) {
  for (c->at++; c->at < c->end && *c->at != '"'; c->at++) c->line += *c->at == '\n';
  if (c->at < c->end) c->at++;
}

emu_tokens_t emu_ptx_lex(kiln_arena_t *arena, const char *text, size_t length) {
  emu_tokens_t result = {0};
  size_t capacity = 0;
  cursor_t c = {text, text + length, 1};
  const char *previous_end = NULL;
  while (skip_blank(&c)) {
    emu_token_t token = {.text = c.at, .line = c.line, .touches = c.at == previous_end};
    if (isalpha((unsigned char)*c.at) || strchr("_$%.", *c.at)) {
      token.kind = EMU_TOKEN_WORD;
      lex_word(&c);
    } else if (isdigit((unsigned char)*c.at)) {
      lex_number(&c, &token);
    } else if (*c.at == '"') {
      token.kind = EMU_TOKEN_STRING;
      lex_string(&c);
    } else if (strchr("{}[]()<>,;:+-*/!|&^~=@?", *c.at)) {
      token.kind = EMU_TOKEN_PUNCTUATION;
      c.at++;
    } else {
      result.bad_line = c.line;
      break;
    }
    token.length = (uint32_t)(c.at - token.text);
    previous_end = c.at;
    KILN_PUSH(arena, result.tokens, result.count, capacity, token);
  }
  KILN_PUSH(arena, result.tokens, result.count, capacity,
            (emu_token_t){.kind = EMU_TOKEN_END, .line = c.line, .text = ""});
  return result;
}

bool emu_token_is(const emu_token_t *token, const char *text) {
  return token->length == strlen(text) && memcmp(token->text, text, token->length) == 0;
}
