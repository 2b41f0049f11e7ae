/* emulator/ptx_decode_warp.c: decodes what lanes, warps and blocks do together: barriers, shuffles, votes. */
#include "emulator/ptx_decode.h"

#include <string.h>

/* Waits end their basic block: the lanes go on at the next one. */
static void put_waiting(emu_builder_t *b, const emu_statement_t *s, emu_inst_t inst) {
  inst.class = EMU_CLASS_CONTROL;
  emu_put(b, s, inst);
  emu_begin_block(b);
}

enum { SYNC, ARRIVE, RED_POPC, RED_AND, RED_OR };

static void decode_warp_barrier(emu_builder_t *b, emu_statement_t *s) {
  emu_operands(b, s, 1, 1);
  put_waiting(b, s, (emu_inst_t){.fn = emu_exec_warp_barrier, .arg = {emu_source(b, s, &s->operands[0], 4)}});
}

/* bar.sync a{, n}; bar.arrive a, n; bar.red.popc.u32 d, a{, n}, p; barrier.* likewise, without .aligned for
 * any lanes. */
static void decode_barrier(emu_builder_t *b, emu_statement_t *s) {
  emu_statement_t original = *s;
  bool aligned = strcmp(s->parts[0], "bar") == 0;
  emu_take(s, "cta");
  aligned |= emu_take(s, "aligned");
  if (emu_take(s, "warp")) {
    decode_warp_barrier(b, s);
    return;
  }
  emu_inst_t inst = {.fn = emu_exec_barrier, .is_signed = aligned};
  uint32_t at = 0;
  emu_type_t type = {"u32", EMU_T_UNSIGNED, 4};
  if (emu_take(s, "arrive")) {
    inst.kind = ARRIVE;
  } else if (emu_take(s, "red")) {
    inst.kind = emu_take(s, "popc") ? RED_POPC : emu_take(s, "and") ? RED_AND : RED_OR;
    type = emu_last_type(b, s, 0);
    emu_operands(b, s, 3, 4);
    inst.arg[0] = emu_result(b, s, &s->operands[at++], type).offset;
  } else if (!emu_take(s, "sync")) {
    emu_unknown(b, &original);
  }
  emu_operands(b, s, at + 1, at + 3);
  inst.arg[1] = emu_source(b, s, &s->operands[at++], 4);
  if (at + (inst.kind >= RED_POPC) < s->operand_count) {
    inst.width = 1;
    inst.arg[2] = emu_source(b, s, &s->operands[at++], 4);
  }
  if (inst.kind >= RED_POPC) {
    inst.mode = s->operands[at].negated;
    inst.arg[3] = emu_source(b, s, &s->operands[at], 0);
  }
  if (inst.kind == ARRIVE && !inst.width) emu_unknown(b, &original);
  put_waiting(b, s, inst);
}

bool emu_decode_builtin_call(emu_builder_t *b, emu_statement_t *s, const char *name,
                             const emu_operand_t *results, const emu_operand_t *arguments) {
  (void)b, (void)s, (void)name, (void)results, (void)arguments;
  return false;
}

const emu_decoder_row_t emu_warp_decoders[] = {
    {"bar", decode_barrier}, {"barrier", decode_barrier}, {NULL, NULL}};
