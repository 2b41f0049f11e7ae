/* emulator/ptx_decode_move.c: decodes moves, with their packing and unpacking, special registers that are
 * read by an instruction of their own, and logic, of predicates too; see ptx_decode.h. */
#include "emulator/ptx_decode.h"

#include <string.h>

static void put_pack(emu_builder_t *b, emu_statement_t *s, emu_type_t type) {
  const emu_operand_t *vector = &s->operands[1];
  uint32_t args[1 + EMU_MAX_VECTOR], count = vector->element_count;
  if (count != 2 && count != 4) emu_unknown(b, s);
  uint32_t bits = 8u * type.bytes / count;
  for (uint32_t n = 0; n < count; n++) args[n + 1] = emu_source(b, s, &vector->elements[n], 4);
  args[0] = emu_result(b, s, &s->operands[0], type).offset;
  emu_put(b, s,
          (emu_inst_t){.fn = emu_exec_pack,
                       .class = EMU_CLASS_INTEGER,
                       .args = emu_args(b, args, count + 1),
                       .arg_count = count + 1,
                       .mode = (uint8_t)bits,
                       .width = (uint8_t)emu_lane_bytes(type)});
}

static void put_unpack(emu_builder_t *b, emu_statement_t *s, emu_type_t type) {
  const emu_operand_t *vector = &s->operands[0];
  uint32_t args[1 + EMU_MAX_VECTOR], count = vector->element_count;
  if (count != 2 && count != 4) emu_unknown(b, s);
  emu_type_t part = {"b32", EMU_T_BITS, (uint8_t)(type.bytes / count)};
  for (uint32_t n = 0; n < count; n++) args[n] = emu_result(b, s, &vector->elements[n], part).offset;
  args[count] = emu_source(b, s, &s->operands[1], emu_lane_bytes(type));
  emu_put(b, s,
          (emu_inst_t){.fn = emu_exec_unpack,
                       .class = EMU_CLASS_INTEGER,
                       .args = emu_args(b, args, count + 1),
                       .arg_count = count + 1,
                       .mode = (uint8_t)(8u * part.bytes),
                       .width = (uint8_t)emu_lane_bytes(type)});
}

static void put_clock(emu_builder_t *b, emu_statement_t *s, emu_type_t type) {
  emu_result_t result = emu_result(b, s, &s->operands[0], type);
  uint8_t mode = (uint8_t)(s->operands[1].bits - EMU_SPECIAL_COUNT);
  emu_put(b, s,
          (emu_inst_t){.fn = emu_exec_clock,
                       .class = EMU_CLASS_INTEGER,
                       .arg = {result.offset},
                       .mode = mode,
                       .width = (uint8_t)emu_lane_bytes(type)});
  emu_written(b, s, &result);
}

/* The lower and upper 64 bits of a b128 operand: a register, or a vector of two. */
static void wide_halves(emu_builder_t *b, const emu_statement_t *s, const emu_operand_t *operand, bool result,
                        uint32_t *out_halves) {
  static const emu_type_t wide = {"b128", EMU_T_BITS, 16}, half = {"b64", EMU_T_BITS, 8};
  if (operand->kind != EMU_OPERAND_VECTOR) {
    out_halves[0] = result ? emu_result(b, s, operand, wide).offset : emu_source(b, s, operand, 16);
    out_halves[1] = out_halves[0] + EMU_WIDE_HALF;
    return;
  }
  for (uint32_t n = 0; n < 2; n++) {
    const emu_operand_t *element = emu_element(b, s, operand, 2, n);
    out_halves[n] = result ? emu_result(b, s, element, half).offset : emu_source(b, s, element, 8);
  }
}

/* mov.b128 d, a; mov.b128 d, {a, b}; mov.b128 {a, b}, d: two moves, of which one is counted. Sources are read
 * before results are written, as {a, b} may be a register's halves exchanged. */
static void put_wide_move(emu_builder_t *b, const emu_statement_t *s) {
  emu_exec_t move = emu_lane_op_find("mov.b64")->fn;
  uint32_t from[2], to[2], kept = emu_frame_slot(b, 8);
  wide_halves(b, s, &s->operands[1], false, from);
  wide_halves(b, s, &s->operands[0], true, to);
  emu_put(b, s, (emu_inst_t){.fn = move, .class = EMU_CLASS_INTEGER, .arg = {kept, from[1]}});
  emu_put(b, s, (emu_inst_t){.fn = move, .arg = {to[0], from[0]}});
  emu_put(b, s, (emu_inst_t){.fn = move, .arg = {to[1], kept}});
}

static void decode_mov(emu_builder_t *b, emu_statement_t *s) {
  emu_type_t type = emu_last_type(b, s, 0);
  emu_operands(b, s, 2, 2);
  if (s->part_count != 2) emu_unknown(b, s);
  if (type.bytes == 16) {
    put_wide_move(b, s);
  } else if (s->operands[1].kind == EMU_OPERAND_VECTOR) {
    put_pack(b, s, type);
  } else if (s->operands[0].kind == EMU_OPERAND_VECTOR) {
    put_unpack(b, s, type);
  } else if (type.kind == EMU_T_PRED) {
    uint32_t d = emu_result(b, s, &s->operands[0], type).offset;
    emu_put(b, s,
            (emu_inst_t){.fn = emu_exec_mov_pred,
                         .class = EMU_CLASS_INTEGER,
                         .arg = {d, emu_source(b, s, &s->operands[1], 0)}});
  } else if (s->operands[1].kind == EMU_OPERAND_SPECIAL && s->operands[1].bits >= EMU_SPECIAL_COUNT) {
    put_clock(b, s, type);
  } else if (emu_leave_out_move(b, s, type, emu_source)) {
    emu_count_instruction(b, EMU_CLASS_INTEGER, s->line);
  } else {
    emu_decode_lanes(b, s);
  }
}

static const emu_type_t predicate_type = {"pred", EMU_T_PRED, 0};

/* lop3.and.b32 d|p, a, b, c, table, q: the result, and p = (the result is not 0) and q. */
static void decode_lop3(emu_builder_t *b, emu_statement_t *s) {
  uint8_t combiner = emu_take(s, "and") ? 1 : emu_take(s, "or") ? 2 : 0;
  emu_operand_t *second = s->operands[0].second;
  if ((combiner != 0) != (second != NULL)) emu_unknown(b, s);
  if (!combiner) {
    emu_decode_lanes(b, s);
    return;
  }
  emu_operands(b, s, 6, 6);
  emu_inst_t test = {.fn = emu_lane_op_find("setp_ne_b32")->fn, .kind = combiner};
  test.mode = s->operands[5].negated;
  test.arg[4] = emu_source(b, s, &s->operands[5], 0);
  s->operand_count = 5;
  s->operands[0].second = NULL;
  bool unnamed = s->operands[0].kind == EMU_OPERAND_NONE;
  if (unnamed) {
    s->operands[0] = (emu_operand_t){.kind = EMU_OPERAND_REGISTER, .type = {"b32", EMU_T_BITS, 4}};
    s->operands[0].offset = emu_frame_slot(b, 4);
    s->operands[0].span = EMU_NO_SPAN;
  }
  emu_decode_lanes(b, s);
  test.arg[0] = emu_result(b, s, second, predicate_type).offset;
  test.arg[2] = s->operands[0].offset;
  test.arg[3] = emu_constant(b, 0, 4);
  emu_put(b, s, test);
}

static void decode_logic(emu_builder_t *b, emu_statement_t *s) {
  if (emu_last_type(b, s, 0).kind != EMU_T_PRED) {
    emu_decode_lanes(b, s);
    return;
  }
  static const char *const names[] = {"and", "or", "xor", "not"};
  uint8_t kind = 0;
  while (strcmp(names[kind], s->parts[0]) != 0) kind++;
  emu_operands(b, s, kind == 3 ? 2 : 3, kind == 3 ? 2 : 3);
  emu_inst_t inst = {.fn = emu_exec_logic_pred, .class = EMU_CLASS_INTEGER, .kind = kind};
  for (uint32_t n = 1; n < s->operand_count; n++) inst.arg[n] = emu_source(b, s, &s->operands[n], 0);
  inst.arg[0] = emu_result(b, s, &s->operands[0], predicate_type).offset;
  emu_put(b, s, inst);
}

const emu_decoder_row_t emu_move_decoders[] = {
    {"mov", decode_mov},   {"lop3", decode_lop3}, {"and", decode_logic}, {"or", decode_logic},
    {"xor", decode_logic}, {"not", decode_logic}, {NULL, NULL}};
