/* ir/text_lexer.h: graph text as tokens. Internal to the text parser (ir/text_parser.h).
 *
 * White space and comments (# to the end of the line) separate tokens and mean nothing else. A token points
 * into the text.
 */
#ifndef KILN_IR_TEXT_LEXER_H
#define KILN_IR_TEXT_LEXER_H

#include "base/arena.h"
#include "base/status.h"

typedef enum {
  KILN_TOKEN_END,
  KILN_TOKEN_WORD,    /* graph, f32, T */
  KILN_TOKEN_VALUE,   /* %x: text without the % */
  KILN_TOKEN_INTEGER, /* 12, 0x1f */
  KILN_TOKEN_REAL,    /* 1.5, 1e-5, 0x1.8p3 */
  KILN_TOKEN_STRING,  /* "tanh": decoded, in the arena */
  KILN_TOKEN_MARK     /* one of ( ) [ ] { } , : = + - * / */
} kiln_token_kind_t;

typedef struct {
  kiln_token_kind_t kind;
  const char *text;
  size_t size;
  uint32_t line, column; /* from 1; columns count characters */
  bool is_hex;
  uint64_t integer; /* INTEGER: the magnitude */
  double real;      /* REAL */
} kiln_token_t;

typedef struct {
  kiln_arena_t *arena; /* decoded strings */
  const char *file;
  const char *text;
  size_t size, at;
  uint32_t line, column; /* of the character at `counted` */
  size_t counted;
  kiln_token_t token; /* the one that stands next */
} kiln_lexer_t;

/* Starts at the first token. */
kiln_status_t kiln_lexer_init(kiln_lexer_t *lexer, kiln_arena_t *arena, const char *file, const char *text,
                              size_t size);
/* Moves to the next token. INVALID_GRAPH where none begins. */
kiln_status_t kiln_lexer_next(kiln_lexer_t *lexer);

/* An error "<file>:<line>:<column>: ..." at a token, with details line and column. */
kiln_status_t kiln_lexer_error(const kiln_lexer_t *lexer, const kiln_token_t *token, kiln_code_t code,
                               const char *format, ...)
    __attribute__((format(printf, 4, 5), returns_nonnull));
/* Places an error from elsewhere at a token; takes it over, keeps its details. NULL stays NULL. */
kiln_status_t kiln_lexer_place(const kiln_lexer_t *lexer, const kiln_token_t *token, kiln_status_t status);

bool kiln_token_is(const kiln_token_t *token, const char *text); /* a WORD or MARK of this text */
/* "expected <what>, found '...'" */
kiln_status_t kiln_lexer_expected(const kiln_lexer_t *lexer, const char *what)
    __attribute__((returns_nonnull));
kiln_status_t kiln_lexer_expect(kiln_lexer_t *lexer, const char *text); /* moves past it, or is an error */
/* Moves past the token when it is this one. */
kiln_status_t kiln_lexer_accept(kiln_lexer_t *lexer, const char *text, bool *out_accepted);

#endif
