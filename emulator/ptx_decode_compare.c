/* emulator/ptx_decode_compare.c: decodes comparisons: setp, set and slct, of packed halves too. Each becomes
 * a comparison of lanes.def into a predicate and, where a value is wanted, a select; see ptx_decode.h. */
#include "emulator/ptx_decode.h"

#include <string.h>

static const emu_type_t predicate_type = {"pred", EMU_T_PRED, 0};

/* Frame offsets: predicates to write (q: the opposite, 0 for none) and operands to compare. */
typedef struct {
  uint32_t p, q, left, right;
} compared_t;

/* setp.lt.and.f32 p|q, a, b, !c */
static uint8_t take_combiner(emu_statement_t *s) {
  return emu_take(s, "and") ? 1 : emu_take(s, "or") ? 2 : emu_take(s, "xor") ? 3 : 0;
}

/* `statement` is a setp, whose last operand is the predicate to combine with, if it combines. */
static void put_compare(emu_builder_t *b, const emu_statement_t *statement, compared_t c, emu_type_t type) {
  emu_statement_t rest = *statement, *s = &rest;
  uint8_t combiner = take_combiner(s);
  emu_modes_t modes = emu_take_modes(s);
  const emu_lane_op_t *op = emu_find_op(s, type.name);
  if (!op || modes.rounding || modes.integral || modes.saturate) emu_unknown(b, statement);
  emu_operands(b, statement, combiner ? 4 : 3, combiner ? 4 : 3);
  emu_inst_t inst = {.fn = op->fn, .class = op->class, .kind = combiner, .arg = {c.p, c.q, c.left, c.right}};
  if (combiner) {
    inst.arg[4] = emu_source(b, s, &s->operands[3], 0);
    inst.mode = s->operands[3].negated;
  }
  if (modes.flush && emu_is_half(type)) {
    inst.arg[2] = emu_flushed_source(b, s, c.left, type);
    inst.arg[3] = emu_flushed_source(b, s, c.right, type);
  } else if (modes.flush) {
    inst.flush = true;
    inst.inner = inst.fn;
    inst.fn = emu_exec_rounded;
  }
  emu_put(b, s, inst);
}

static bool is_packed(emu_type_t type) { return strstr(type.name, "x2") != NULL; }

static emu_type_t half_of(emu_type_t packed) {
  return packed.name[0] == 'b' ? (emu_type_t){"bf16", EMU_T_FLOAT, 2} : (emu_type_t){"f16", EMU_T_FLOAT, 2};
}

/* The halves of a packed operand, the lower first, in slots of their own. */
static void put_halves(emu_builder_t *b, const emu_statement_t *s, const emu_operand_t *operand,
                       uint32_t *out_halves) {
  uint32_t args[3] = {emu_frame_slot(b, 4), emu_frame_slot(b, 4), emu_source(b, s, operand, 4)};
  emu_put(b, s,
          (emu_inst_t){
              .fn = emu_exec_unpack, .args = emu_args(b, args, 3), .arg_count = 3, .mode = 16, .width = 4});
  memcpy(out_halves, args, 2 * sizeof *args);
}

/* Compares both halves: the lower into p, the upper into q. */
static void put_packed_compare(emu_builder_t *b, const emu_statement_t *s, uint32_t p, uint32_t q,
                               emu_type_t type) {
  uint32_t left[2], right[2];
  put_halves(b, s, &s->operands[1], left);
  put_halves(b, s, &s->operands[2], right);
  put_compare(b, s, (compared_t){p, 0, left[0], right[0]}, half_of(type));
  if (q) put_compare(b, s, (compared_t){q, 0, left[1], right[1]}, half_of(type));
}

static compared_t sources(emu_builder_t *b, const emu_statement_t *s, emu_type_t type) {
  uint32_t width = emu_lane_bytes(type);
  return (compared_t){.left = emu_source(b, s, &s->operands[1], width),
                      .right = emu_source(b, s, &s->operands[2], width)};
}

static void decode_setp(emu_builder_t *b, emu_statement_t *s) {
  emu_type_t type = emu_last_type(b, s, 0);
  emu_operands(b, s, 3, 4);
  uint32_t p = emu_result(b, s, &s->operands[0], predicate_type).offset, q = 0;
  if (s->operands[0].second) q = emu_result(b, s, s->operands[0].second, predicate_type).offset;
  if (is_packed(type)) {
    put_packed_compare(b, s, p, q, type);
    return;
  }
  compared_t compared = sources(b, s, type);
  compared.p = p, compared.q = q;
  put_compare(b, s, compared, type);
}

/* What `set` gives where the comparison holds: all ones, or 1.0. */
static uint32_t true_value(emu_type_t type) {
  if (type.kind != EMU_T_FLOAT) return type.bytes == 2 ? 0xffffu : ~0u;
  if (emu_is_half(type)) return type.name[0] == 'b' ? 0x3f80u : 0x3c00u;
  return 0x3f800000u;
}

static void put_select(emu_builder_t *b, const emu_statement_t *s, uint32_t to, uint32_t value, uint32_t p) {
  emu_inst_t select = {.fn = emu_lane_op_find("selp_b32")->fn,
                       .arg = {to, emu_constant(b, value, 4), emu_constant(b, 0, 4), p}};
  emu_put(b, s, select);
}

/* set.lt.f16x2.f16x2 d, a, b: a compare, a select of 16 bits and a pack, for each half. */
static void put_packed_set(emu_builder_t *b, const emu_statement_t *s, const emu_statement_t *compare,
                           emu_type_t to, emu_type_t from) {
  uint32_t p = emu_frame_slot(b, 0), q = emu_frame_slot(b, 0), args[3];
  uint32_t value = to.kind == EMU_T_FLOAT ? true_value(to) : 0xffffu;
  put_packed_compare(b, compare, p, q, from);
  args[1] = emu_frame_slot(b, 4), args[2] = emu_frame_slot(b, 4);
  put_select(b, s, args[1], value, p);
  put_select(b, s, args[2], value, q);
  args[0] = emu_result(b, s, &s->operands[0], to).offset;
  emu_put(b, s,
          (emu_inst_t){
              .fn = emu_exec_pack, .args = emu_args(b, args, 3), .arg_count = 3, .mode = 16, .width = 4});
}

/* set.lt.u32.f32 d, a, b: a compare into a predicate of its own and a select of all ones or 1.0. */
static void decode_set(emu_builder_t *b, emu_statement_t *s) {
  emu_type_t from = emu_last_type(b, s, 0), to = emu_last_type(b, s, 1);
  emu_statement_t compare = *s;
  if (emu_lane_bytes(to) != 4) emu_unknown(b, s);
  emu_operands(b, s, 3, 4);
  compare.parts[0] = "setp";
  compare.parts[--compare.part_count - 1] = s->parts[s->part_count - 1]; /* the result's type goes */
  if (is_packed(from)) {
    put_packed_set(b, s, &compare, to, from);
    return;
  }
  compared_t compared = sources(b, s, from);
  compared.p = emu_frame_slot(b, 0);
  put_compare(b, &compare, compared, from);
  emu_result_t result = emu_result(b, s, &s->operands[0], to);
  put_select(b, s, result.offset, true_value(to), compared.p);
  emu_written(b, s, &result);
}

/* slct.b32.s32 d, a, b, c: a where c >= 0, else (where c is NaN too) b. */
static void decode_slct(emu_builder_t *b, emu_statement_t *s) {
  emu_type_t tested = emu_last_type(b, s, 0), type = emu_last_type(b, s, 1);
  emu_operands(b, s, 4, 4);
  emu_statement_t compare = {.parts = {"setp", "ge", tested.name}, .part_count = 3, .operand_count = 3};
  compare.line = s->line, compare.guarded = s->guarded, compare.guard = s->guard;
  if (emu_has(s, "ftz")) {
    compare.parts[compare.part_count++ - 1] = "ftz";
    compare.parts[compare.part_count - 1] = tested.name;
  }
  compared_t compared = {.p = emu_frame_slot(b, 0),
                         .left = emu_source(b, s, &s->operands[3], emu_lane_bytes(tested)),
                         .right = emu_constant(b, 0, emu_lane_bytes(tested))};
  put_compare(b, &compare, compared, tested);
  emu_statement_t select = *s;
  select.parts[0] = "selp";
  select.parts[1] = emu_bits_name(type);
  select.part_count = 2;
  select.operands[3] =
      (emu_operand_t){.kind = EMU_OPERAND_REGISTER, .offset = compared.p, .type = predicate_type};
  emu_decode_lanes(b, &select);
}

const emu_decoder_row_t emu_compare_decoders[] = {
    {"setp", decode_setp}, {"set", decode_set}, {"slct", decode_slct}, {NULL, NULL}};
