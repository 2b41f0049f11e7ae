/* emulator/ptx_values.c: instructions that need not run: moves, and loads of kernel parameters.
 *
 * A register that one unguarded move alone writes becomes another name of the move's source: of a constant, a
 * special register, a parameter, or of a register that was written in the same basic block, which cannot be
 * written again without the move following. A parameter that one load alone reads into a register is put
 * there when a warp's frame is set up. The instructions are counted as if they ran. NVRTC writes each
 * register once, so that about a third of an element-wise kernel goes. Which registers have one definition is
 * found by a look at a body's tokens before it is read: results are always an instruction's first operand.
 * Called by ptx_body.c and the decoders; see ptx_body.h. Thread: the loading one.
 */
#include "emulator/ptx_body.h"

#include <string.h>

/* --- definitions --- */

static void skip_line(emu_module_t *m) {
  uint32_t line = emu_ptx_peek(m)->line;
  while (emu_ptx_peek(m)->line == line && emu_ptx_peek(m)->kind != EMU_TOKEN_END) emu_ptx_next(m);
}

static void skip_to_end(emu_module_t *m) {
  while (emu_ptx_peek(m)->kind != EMU_TOKEN_END && !emu_ptx_accept(m, ";")) emu_ptx_next(m);
}

static void skip_guard_and_opcode(emu_module_t *m) {
  if (emu_ptx_accept(m, "@")) {
    emu_ptx_accept(m, "!");
    emu_ptx_next(m);
  }
  if (emu_ptx_peek(m)->kind == EMU_TOKEN_WORD) emu_ptx_next(m);
  while (emu_ptx_peek(m)->kind == EMU_TOKEN_WORD && emu_ptx_peek(m)->text[0] == '.') emu_ptx_next(m);
}

/* Counts the names in an instruction's first operand, which may be "p|q", "{a, b}" or "(a)". */
static void count_results(emu_builder_t *b) {
  emu_module_t *m = b->m;
  int depth = 0;
  for (;;) {
    const emu_token_t *token = emu_ptx_peek(m);
    if (token->kind == EMU_TOKEN_END || emu_token_is(token, ";") || (!depth && emu_token_is(token, ",")))
      return;
    depth += emu_token_is(token, "{") || emu_token_is(token, "(") || emu_token_is(token, "[");
    depth -= emu_token_is(token, "}") || emu_token_is(token, ")") || emu_token_is(token, "]");
    bool added;
    if (token->kind == EMU_TOKEN_WORD) ++*kiln_map_put(b->definitions, token->text, token->length, &added);
    emu_ptx_next(m);
  }
}

static bool at_label(const emu_module_t *m) {
  return m->tokens.tokens[m->at].kind == EMU_TOKEN_WORD && m->tokens.tokens[m->at].text[0] != '.' &&
         emu_token_is(&m->tokens.tokens[m->at + 1], ":");
}

void emu_count_definitions(emu_builder_t *b) {
  emu_module_t *m = b->m;
  size_t resume = m->at;
  uint32_t depth = 0;
  b->definitions = kiln_map_create(&m->arena);
  do {
    const emu_token_t *token = emu_ptx_peek(m);
    if (emu_ptx_accept(m, "{")) {
      depth++;
    } else if (emu_ptx_accept(m, "}")) {
      depth--;
    } else if (at_label(m)) {
      emu_ptx_next(m);
      emu_ptx_next(m);
    } else if (emu_token_is(token, ".loc")) {
      skip_line(m);
    } else if (token->kind == EMU_TOKEN_WORD && token->text[0] == '.') {
      skip_to_end(m);
    } else {
      skip_guard_and_opcode(m);
      count_results(b);
      skip_to_end(m);
    }
  } while (depth && emu_ptx_peek(m)->kind != EMU_TOKEN_END);
  m->at = resume;
}

static bool is_defined_once(const emu_builder_t *b, const emu_operand_t *operand) {
  const uint64_t *count = kiln_map_find(b->definitions, operand->text, strlen(operand->text));
  return count && *count == 1;
}

/* --- instructions left out --- */

/* Whether `d` keeps its value when the source's register is written: it never is, or not before the move runs
 * again. */
static bool stays_equal(const emu_builder_t *b, const emu_operand_t *source, uint32_t width) {
  if (source->kind == EMU_OPERAND_SPECIAL) return width == 4 && source->bits < EMU_SPECIAL_COUNT;
  if (source->kind != EMU_OPERAND_REGISTER)
    return source->kind == EMU_OPERAND_IMMEDIATE || source->kind == EMU_OPERAND_ADDRESS;
  const emu_span_t *span = &b->spans[source->span];
  return emu_lane_bytes(source->type) == width && is_defined_once(b, source) &&
         (span->fixed || span->defined_in == emu_block_number(b));
}

static bool is_only_result(const emu_builder_t *b, const emu_statement_t *s, const emu_operand_t *result,
                           emu_type_t type) {
  return !s->guarded && result->kind == EMU_OPERAND_REGISTER && type.kind != EMU_T_PRED &&
         emu_lane_bytes(result->type) == emu_lane_bytes(type) && is_defined_once(b, result);
}

bool emu_leave_out_move(emu_builder_t *b, const emu_statement_t *s, emu_type_t type,
                        uint32_t (*source)(emu_builder_t *, const emu_statement_t *, const emu_operand_t *,
                                           uint32_t)) {
  const emu_operand_t *d = &s->operands[0], *a = &s->operands[1];
  uint32_t width = emu_lane_bytes(type);
  if (type.bytes < 4 || !d->first_use || !is_only_result(b, s, d, type) || !stays_equal(b, a, width))
    return false;
  emu_span_t *span = &b->spans[d->span];
  *d->first_use = source(b, s, a, width);
  span->fixed = a->kind != EMU_OPERAND_REGISTER || b->spans[a->span].fixed;
  span->defined_in = emu_block_number(b);
  return true;
}

bool emu_leave_out_load(emu_builder_t *b, const emu_statement_t *s, emu_type_t type, const emu_inst_t *load) {
  const emu_operand_t *results = &s->operands[0];
  if (results->kind == EMU_OPERAND_VECTOR) results = results->elements;
  for (uint32_t n = 0; n < load->vector; n++)
    if (!is_only_result(b, s, &results[n], type)) return false;
  for (uint32_t n = 0; n < load->vector; n++) b->spans[results[n].span].fixed = true;
  KILN_PUSH(&b->m->arena, b->setup, b->setup_count, b->setup_capacity, *load);
  return true;
}
