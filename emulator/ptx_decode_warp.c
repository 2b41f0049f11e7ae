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

/* barrier.cluster.arrive; barrier.cluster.wait */
static void decode_cluster_barrier(emu_builder_t *b, emu_statement_t *s) {
  emu_statement_t original = *s;
  emu_inst_t inst = {.fn = emu_exec_cluster_barrier, .is_signed = emu_take(s, "aligned")};
  emu_take_order(s);
  inst.mode = emu_take(s, "wait");
  if ((!inst.mode && !emu_take(s, "arrive")) || s->part_count != 1) emu_unknown(b, &original);
  emu_operands(b, s, 0, 0);
  put_waiting(b, s, inst);
}

/* bar.sync a{, n}; bar.arrive a, n; bar.red.popc.u32 d, a{, n}, p; barrier.* likewise, without .aligned for
 * any lanes. */
static void decode_barrier(emu_builder_t *b, emu_statement_t *s) {
  emu_statement_t original = *s;
  bool aligned = strcmp(s->parts[0], "bar") == 0;
  if (emu_take(s, "cluster")) {
    decode_cluster_barrier(b, s);
    return;
  }
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

/* --- warp-wide operations --- */

/* These begin a basic block, to which lanes that come early return, and end it. */
static void put_gathering(emu_builder_t *b, const emu_statement_t *s, emu_inst_t inst) {
  inst.target = b->blocks[b->block_count - 1].first;
  put_waiting(b, s, inst);
}

/* The leader must be there before helpers of operands are. */
static void begin_gathering(emu_builder_t *b, const emu_statement_t *s) {
  emu_begin_block(b);
  emu_emit(b, (emu_inst_t){.fn = emu_exec_nothing, .line = s->line});
}

static const emu_type_t u32_type = {"u32", EMU_T_UNSIGNED, 4};
static const emu_type_t predicate_type = {"pred", EMU_T_PRED, 0};

static uint8_t take_mode(emu_builder_t *b, emu_statement_t *s, const char *const *names) {
  for (uint8_t n = 0; names[n]; n++)
    if (emu_take(s, names[n])) return n;
  emu_unknown(b, s);
}

/* d and, where "d|p" is written, p; 0 otherwise. */
static void two_results(emu_builder_t *b, const emu_statement_t *s, emu_inst_t *inst) {
  inst->arg[0] = emu_result(b, s, &s->operands[0], u32_type).offset;
  if (s->operands[0].second) inst->arg[1] = emu_result(b, s, s->operands[0].second, predicate_type).offset;
}

static void decode_shfl(emu_builder_t *b, emu_statement_t *s) {
  static const char *const modes[] = {"up", "down", "bfly", "idx", NULL};
  emu_statement_t original = *s;
  if (!emu_take(s, "sync") || !emu_take(s, "b32")) emu_unknown(b, &original);
  emu_inst_t inst = {.fn = emu_exec_shuffle, .mode = take_mode(b, s, modes)};
  emu_operands(b, s, 5, 5);
  begin_gathering(b, s);
  two_results(b, s, &inst);
  for (uint32_t n = 1; n < 5; n++) inst.arg[n + 1] = emu_source(b, s, &s->operands[n], 4);
  put_gathering(b, s, inst);
}

static void decode_vote(emu_builder_t *b, emu_statement_t *s) {
  static const char *const modes[] = {"all", "any", "uni", "ballot", NULL};
  emu_statement_t original = *s;
  if (!emu_take(s, "sync")) emu_unknown(b, &original);
  emu_inst_t inst = {.fn = emu_exec_vote, .mode = take_mode(b, s, modes)};
  emu_operands(b, s, 3, 3);
  begin_gathering(b, s);
  inst.arg[0] = emu_result(b, s, &s->operands[0], inst.mode == 3 ? u32_type : predicate_type).offset;
  inst.arg[1] = emu_source(b, s, &s->operands[1], 0);
  inst.kind = s->operands[1].negated;
  inst.arg[2] = emu_source(b, s, &s->operands[2], 4);
  put_gathering(b, s, inst);
}

static void decode_match(emu_builder_t *b, emu_statement_t *s) {
  static const char *const modes[] = {"any", "all", NULL};
  emu_statement_t original = *s;
  emu_type_t type = emu_last_type(b, s, 0);
  if (!emu_take(s, "sync")) emu_unknown(b, &original);
  emu_inst_t inst = {
      .fn = emu_exec_match, .mode = take_mode(b, s, modes), .width = (uint8_t)emu_lane_bytes(type)};
  emu_operands(b, s, 3, 3);
  begin_gathering(b, s);
  two_results(b, s, &inst);
  inst.arg[2] = emu_source(b, s, &s->operands[1], inst.width);
  inst.arg[3] = emu_source(b, s, &s->operands[2], 4);
  put_gathering(b, s, inst);
}

static void decode_redux(emu_builder_t *b, emu_statement_t *s) {
  static const char *const modes[] = {"add", "min", "max", "and", "or", "xor", NULL};
  emu_statement_t original = *s;
  emu_type_t type = emu_last_type(b, s, 0);
  if (!emu_take(s, "sync") || type.bytes != 4 || type.kind == EMU_T_FLOAT) emu_unknown(b, &original);
  emu_inst_t inst = {
      .fn = emu_exec_redux, .mode = take_mode(b, s, modes), .is_signed = type.kind == EMU_T_SIGNED};
  emu_operands(b, s, 3, 3);
  begin_gathering(b, s);
  inst.arg[0] = emu_result(b, s, &s->operands[0], u32_type).offset;
  inst.arg[1] = emu_source(b, s, &s->operands[1], 4);
  inst.arg[2] = emu_source(b, s, &s->operands[2], 4);
  put_gathering(b, s, inst);
}

static void decode_elect(emu_builder_t *b, emu_statement_t *s) {
  emu_statement_t original = *s;
  if (!emu_take(s, "sync") || !s->operands[0].second) emu_unknown(b, &original);
  emu_inst_t inst = {.fn = emu_exec_elect};
  emu_operands(b, s, 2, 2);
  begin_gathering(b, s);
  two_results(b, s, &inst);
  inst.arg[2] = emu_source(b, s, &s->operands[1], 4);
  put_gathering(b, s, inst);
}

static void decode_active_mask(emu_builder_t *b, emu_statement_t *s) {
  emu_operands(b, s, 1, 1);
  emu_inst_t inst = {.fn = emu_exec_active_mask, .class = EMU_CLASS_CONTROL};
  inst.arg[0] = emu_result(b, s, &s->operands[0], u32_type).offset;
  emu_put(b, s, inst);
}

/* --- functions that the runtime of a GPU has --- */

/* A .param variable's value, loaded for a builtin. */
static uint32_t call_argument(emu_builder_t *b, const emu_statement_t *s, const emu_operand_t *arguments,
                              uint32_t n, uint32_t bytes) {
  if (!arguments || n >= arguments->element_count || arguments->elements[n].kind != EMU_OPERAND_ADDRESS ||
      arguments->elements[n].space != EMU_SPACE_LOCAL)
    emu_ptx_fail(b->m, s->line, "argument %u of the call is missing", n);
  uint32_t slot = emu_frame_slot(b, bytes), address = emu_constant(b, arguments->elements[n].bits, 8);
  uint32_t args[2] = {slot, address};
  emu_put(b, s,
          (emu_inst_t){.fn = emu_exec_load,
                       .space = EMU_SPACE_LOCAL,
                       .bytes = (uint8_t)bytes,
                       .vector = 1,
                       .width = 8,
                       .target = b->kernel->site_count++,
                       .args = emu_args(b, args, 2)});
  return slot;
}

static void put_call_result(emu_builder_t *b, const emu_statement_t *s, const emu_operand_t *results,
                            uint32_t slot) {
  if (!results || results->element_count != 1 || results->elements[0].kind != EMU_OPERAND_ADDRESS ||
      results->elements[0].space != EMU_SPACE_LOCAL)
    return;
  uint32_t args[2] = {emu_constant(b, results->elements[0].bits, 8), slot};
  emu_put(b, s,
          (emu_inst_t){.fn = emu_exec_store,
                       .space = EMU_SPACE_LOCAL,
                       .bytes = 4,
                       .vector = 1,
                       .width = 8,
                       .target = b->kernel->site_count++,
                       .args = emu_args(b, args, 2)});
}

bool emu_decode_builtin_call(emu_builder_t *b, emu_statement_t *s, const char *name,
                             const emu_operand_t *results, const emu_operand_t *arguments) {
  if (strcmp(name, "vprintf") == 0) {
    uint32_t slot = emu_frame_slot(b, 4);
    emu_inst_t inst = {.fn = emu_exec_printf, .class = EMU_CLASS_CONTROL, .arg = {slot}};
    inst.arg[1] = call_argument(b, s, arguments, 0, 8);
    inst.arg[2] = call_argument(b, s, arguments, 1, 8);
    inst.target = b->kernel->site_count++;
    emu_put(b, s, inst);
    put_call_result(b, s, results, slot);
    return true;
  }
  if (strcmp(name, "__assertfail") != 0) return false;
  emu_inst_t inst = {.fn = emu_exec_assert, .class = EMU_CLASS_CONTROL};
  inst.arg[0] = call_argument(b, s, arguments, 0, 8);
  inst.arg[1] = call_argument(b, s, arguments, 1, 8);
  inst.arg[2] = call_argument(b, s, arguments, 2, 4);
  inst.target = b->kernel->site_count++;
  emu_put(b, s, inst);
  return true;
}

const emu_decoder_row_t emu_warp_decoders[] = {{"bar", decode_barrier},
                                               {"barrier", decode_barrier},
                                               {"shfl", decode_shfl},
                                               {"vote", decode_vote},
                                               {"match", decode_match},
                                               {"redux", decode_redux},
                                               {"elect", decode_elect},
                                               {"activemask", decode_active_mask},
                                               {NULL, NULL}};
