/* emulator/ptx_lex.h: PTX text to tokens. Called by the PTX parser only (ptx_module.c, ptx_body.c), at module
 * load.
 *
 * Words keep their leading '.', '%' or '$'; an opcode such as "ld.global.v4.f32" is a word followed by '.'
 * words that touch it. Comments vanish. Thread: the loading one.
 */
#ifndef KILN_EMULATOR_PTX_LEX_H
#define KILN_EMULATOR_PTX_LEX_H

#include "base/arena.h"

typedef enum {
  EMU_TOKEN_END,
  EMU_TOKEN_WORD,
  EMU_TOKEN_NUMBER,
  EMU_TOKEN_STRING,
  EMU_TOKEN_PUNCTUATION
} emu_token_kind_t;

typedef struct {
  const char *text; /* into the module's text, not terminated */
  uint32_t length;
  uint32_t line;
  uint64_t bits;       /* of a number: an integer, or a float's encoding */
  uint8_t kind;        /* emu_token_kind_t */
  uint8_t float_bytes; /* of a number: 0 for an integer, 4 for 0f, 8 for 0d and decimal floats */
  bool touches;        /* no space before it */
} emu_token_t;

typedef struct {
  emu_token_t *tokens; /* the last is EMU_TOKEN_END */
  size_t count;
  uint32_t bad_line; /* 0, or where a character is no part of PTX */
} emu_tokens_t;

/* Splits `text` of `length` bytes; the tokens point into it. */
emu_tokens_t emu_ptx_lex(kiln_arena_t *arena, const char *text, size_t length);

bool emu_token_is(const emu_token_t *token, const char *text);

#endif
