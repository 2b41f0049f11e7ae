/* emulator/ptx_decode.c: instructions to emu_inst_t: lane operations by their key, conversions,
 * control.
 *
 * The decoder of an instruction is found by the first part of its opcode; what has no decoder of its own is a
 * lane operation and looked up in lanes.def. Called by ptx_body.c for each statement; see ptx.h for the way
 * here.
 */
#include "emulator/ptx_decode.h"

#include "emulator/lanes.h"

#include <stdio.h>
#include <string.h>

/* --- parts and operands --- */

static void spell(const emu_statement_t *s, char *text, size_t capacity) {
  size_t length = 0;
  for (uint32_t n = 0; n < s->part_count && length < capacity; n++)
    length += (size_t)snprintf(text + length, capacity - length, "%s%s", n ? "." : "", s->parts[n]);
}

void emu_unknown(emu_builder_t *b, const emu_statement_t *s) {
  char text[128];
  spell(s, text, sizeof text);
  emu_ptx_fail(b->m, s->line, "unknown instruction '%s'", text);
}

bool emu_has(const emu_statement_t *s, const char *part) {
  for (uint32_t n = 1; n < s->part_count; n++)
    if (strcmp(s->parts[n], part) == 0) return true;
  return false;
}

bool emu_take(emu_statement_t *s, const char *part) {
  for (uint32_t n = 1; n < s->part_count; n++) {
    if (strcmp(s->parts[n], part) != 0) continue;
    memmove(&s->parts[n], &s->parts[n + 1], (s->part_count - n - 1) * sizeof s->parts[0]);
    s->part_count--;
    return true;
  }
  return false;
}

emu_type_t emu_last_type(emu_builder_t *b, const emu_statement_t *s, uint32_t from_end) {
  emu_type_t type;
  if (s->part_count < 2 + from_end) emu_unknown(b, s);
  const char *part = s->parts[s->part_count - 1 - from_end];
  if (!emu_ptx_type(part, strlen(part), &type)) emu_unknown(b, s);
  return type;
}

void emu_operands(emu_builder_t *b, const emu_statement_t *s, uint32_t least, uint32_t most) {
  if (s->operand_count >= least && s->operand_count <= most) return;
  char text[128];
  spell(s, text, sizeof text);
  emu_ptx_fail(b->m, s->line, "'%s' has %u operands", text, s->operand_count);
}

emu_inst_t *emu_put(emu_builder_t *b, const emu_statement_t *s, emu_inst_t inst) {
  inst.line = s->line;
  inst.guarded = s->guarded;
  inst.guard = s->guard;
  if (s->guarded) {
    inst.base = inst.fn;
    inst.fn = emu_exec_guarded;
  }
  return emu_emit(b, inst);
}

const uint32_t *emu_args(emu_builder_t *b, const uint32_t *args, uint32_t count) {
  return kiln_arena_copy(&b->m->arena, args, count * sizeof *args);
}

static uint32_t convert_width(emu_builder_t *b, const emu_statement_t *s, uint32_t from, uint32_t width) {
  uint32_t slot = emu_frame_slot(b, width);
  emu_emit(b, (emu_inst_t){
                  .fn = width == 8 ? emu_exec_widen : emu_exec_narrow, .arg = {slot, from}, .line = s->line});
  return slot;
}

uint32_t emu_source(emu_builder_t *b, const emu_statement_t *s, const emu_operand_t *operand,
                    uint32_t width) {
  switch (operand->kind) {
  case EMU_OPERAND_REGISTER: {
    uint32_t own = emu_lane_bytes(operand->type);
    if (own == width) return operand->offset;
    if (own == 0 || width == 0 || own == 16 || width == 16) break;
    return convert_width(b, s, operand->offset, width);
  }
  case EMU_OPERAND_IMMEDIATE:
    if (operand->float_bytes == 8 && width == 4) {
      double value;
      memcpy(&value, &operand->bits, 8);
      float narrow = (float)value;
      uint32_t bits;
      memcpy(&bits, &narrow, 4);
      return emu_constant(b, bits, 4);
    }
    return emu_constant(b, operand->bits, width);
  case EMU_OPERAND_ADDRESS:
    if (width == 0) break;
    return operand->dynamic_shared ? emu_dynamic_address(b, operand->bits, width)
                                   : emu_constant(b, operand->bits, width);
  case EMU_OPERAND_SPECIAL:
    if (width == 0 || operand->bits >= EMU_SPECIAL_COUNT) break;
    uint32_t special = emu_special(b, (uint32_t)operand->bits);
    return width == 4 ? special : convert_width(b, s, special, 8);
  case EMU_OPERAND_NAME: {
    uint64_t address = emu_ptx_function_address(b->m, operand->text, strlen(operand->text));
    if (address && width) return emu_constant(b, address, width);
    emu_ptx_fail(b->m, s->line, "unknown name '%s'", operand->text);
  }
  default:
    break;
  }
  emu_ptx_fail(b->m, s->line, "an operand of '%s' is of the wrong kind or size", s->parts[0]);
}

emu_result_t emu_result(emu_builder_t *b, const emu_statement_t *s, const emu_operand_t *operand,
                        emu_type_t type) {
  uint32_t width = emu_lane_bytes(type);
  emu_result_t result = {.is_signed = type.kind == EMU_T_SIGNED};
  if (operand->kind == EMU_OPERAND_NONE) {
    result.offset = emu_frame_slot(b, width);
    return result;
  }
  if (operand->kind != EMU_OPERAND_REGISTER)
    emu_ptx_fail(b->m, s->line, "the result of '%s' is no register", s->parts[0]);
  uint32_t own = emu_lane_bytes(operand->type);
  if (operand->span != EMU_NO_SPAN) b->spans[operand->span].defined_in = emu_block_number(b);
  result.offset = operand->offset;
  if (own == width) return result;
  if (own == 0 || width == 0 || own == 16 || width == 16)
    emu_ptx_fail(b->m, s->line, "the result of '%s' is of the wrong kind", s->parts[0]);
  *(own == 8 ? &result.widen_to : &result.narrow_to) = operand->offset;
  result.offset = emu_frame_slot(b, width);
  return result;
}

void emu_written(emu_builder_t *b, const emu_statement_t *s, const emu_result_t *result) {
  emu_inst_t inst = {.is_signed = result->is_signed};
  if (!result->widen_to && !result->narrow_to) return;
  inst.fn = result->widen_to ? emu_exec_widen : emu_exec_narrow;
  inst.arg[0] = result->widen_to ? result->widen_to : result->narrow_to;
  inst.arg[1] = result->offset;
  emu_put(b, s, inst);
}

/* --- lane operations --- */

emu_modes_t emu_take_modes(emu_statement_t *s) {
  static const struct {
    const char *name;
    emu_rounding_t rounding;
    bool integral;
  } roundings[] = {{"rn", EMU_ROUND_NEAREST, false}, {"rz", EMU_ROUND_ZERO, false},
                   {"rm", EMU_ROUND_DOWN, false},    {"rp", EMU_ROUND_UP, false},
                   {"rni", EMU_ROUND_NEAREST, true}, {"rzi", EMU_ROUND_ZERO, true},
                   {"rmi", EMU_ROUND_DOWN, true},    {"rpi", EMU_ROUND_UP, true}};
  emu_modes_t modes = {0};
  for (size_t n = 0; n < sizeof roundings / sizeof roundings[0]; n++) {
    if (!emu_take(s, roundings[n].name)) continue;
    modes.rounding = roundings[n].rounding;
    modes.integral = roundings[n].integral;
  }
  modes.flush = emu_take(s, "ftz");
  modes.saturate = emu_take(s, "sat");
  emu_take(s, "noftz");
  return modes;
}

const emu_lane_op_t *emu_find_op(const emu_statement_t *s, const char *last) {
  char key[96];
  size_t length = 0;
  for (uint32_t n = 0; n + 1 < s->part_count && length < sizeof key; n++)
    length += (size_t)snprintf(key + length, sizeof key - length, "%s.", s->parts[n]);
  if (length < sizeof key) length += (size_t)snprintf(key + length, sizeof key - length, "%s", last);
  return length < sizeof key ? emu_lane_op_find(key) : NULL;
}

/* A row that flushes by itself; then the flag is taken off the modes. */
static const emu_lane_op_t *find_flushing_op(const emu_statement_t *original, emu_modes_t *modes,
                                             emu_type_t type) {
  if (!modes->flush) return NULL;
  emu_statement_t plain = *original;
  emu_take_modes(&plain);
  memmove(&plain.parts[plain.part_count], &plain.parts[plain.part_count - 1], sizeof plain.parts[0]);
  plain.parts[plain.part_count++ - 1] = "ftz";
  const emu_lane_op_t *op = emu_find_op(&plain, type.name);
  if (op) modes->flush = false;
  return op;
}

const char *emu_bits_name(emu_type_t type) {
  return type.bytes == 8 ? "b64" : type.bytes == 4 ? "b32" : type.bytes == 2 ? "b16" : "b8";
}

/* Puts an operation under its rounding mode, if it has one that differs from the loops' own. */
static void put_moded(emu_builder_t *b, const emu_statement_t *s, emu_inst_t inst, emu_modes_t modes) {
  inst.rounding = (uint8_t)modes.rounding;
  inst.flush = modes.flush;
  if (modes.rounding != EMU_ROUND_NEAREST || modes.flush) {
    inst.inner = inst.fn;
    inst.fn = emu_exec_rounded;
  }
  emu_put(b, s, inst);
}

static const emu_lane_op_t *step_op(emu_builder_t *b, const emu_statement_t *s, const char *step,
                                    emu_type_t type) {
  char key[32];
  snprintf(key, sizeof key, "%s.%s", step, type.name);
  const emu_lane_op_t *op = emu_lane_op_find(key);
  if (!op) emu_unknown(b, s);
  return op;
}

/* A step of its own before or behind an operation: "clamp" for .sat, "flush" for .ftz of halves. */
static void put_step(emu_builder_t *b, const emu_statement_t *s, const char *step, emu_type_t type,
                     uint32_t to, uint32_t from) {
  emu_put(b, s, (emu_inst_t){.fn = step_op(b, s, step, type)->fn, .arg = {to, from}});
}

uint32_t emu_flushed_source(emu_builder_t *b, const emu_statement_t *s, uint32_t offset, emu_type_t type) {
  uint32_t slot = emu_frame_slot(b, 4);
  put_step(b, s, "flush", type, slot, offset);
  return slot;
}

bool emu_is_half(emu_type_t type) {
  return type.kind == EMU_T_FLOAT && (type.bytes == 2 || strstr(type.name, "x2") != NULL);
}

/* Lane bytes of source `n` (1 the first) of an operation: shifts and fields count in u32, .wide has narrow
 * factors. */
static uint32_t source_width(const emu_statement_t *s, emu_type_t type, uint32_t n) {
  const char *op = s->parts[0];
  uint32_t width = emu_lane_bytes(type);
  bool shift = strcmp(op, "shl") == 0 || strcmp(op, "shr") == 0;
  if (shift && n == 2) return 4;
  if (strcmp(op, "bfe") == 0 && n >= 2) return 4;
  if (strcmp(op, "bfi") == 0 && n >= 3) return 4;
  if (emu_has(s, "wide") && n == 3) return type.bytes == 4 ? 8 : 4;
  if (strcmp(op, "selp") == 0 && n == 3) return 0;
  return width;
}

static emu_type_t result_type(const emu_statement_t *s, emu_type_t type) {
  const char *op = s->parts[0];
  emu_type_t result = type;
  if (emu_has(s, "wide")) result.bytes = (uint8_t)(2 * type.bytes);
  if (strcmp(op, "popc") == 0 || strcmp(op, "clz") == 0 || strcmp(op, "bfind") == 0) result.bytes = 4;
  if (strcmp(op, "testp") == 0) result = (emu_type_t){"pred", EMU_T_PRED, 0};
  return result;
}

/* Carry chains read and write a flag that has no name. */
static bool uses_carry(const emu_statement_t *s) {
  const char *op = s->parts[0];
  return emu_has(s, "cc") || strcmp(op, "addc") == 0 || strcmp(op, "subc") == 0 || strcmp(op, "madc") == 0;
}

void emu_decode_lanes(emu_builder_t *b, emu_statement_t *s) {
  emu_type_t type = emu_last_type(b, s, 0);
  bool integer_saturation = type.kind == EMU_T_SIGNED && emu_has(s, "sat");
  emu_statement_t original = *s;
  emu_modes_t modes = {0};
  if (!integer_saturation) modes = emu_take_modes(s);
  const emu_lane_op_t *op = find_flushing_op(&original, &modes, type);
  if (!op) op = emu_find_op(s, type.name);
  if (!op) op = emu_find_op(s, emu_bits_name(type));
  if (!op || modes.integral) emu_unknown(b, &original);
  bool flush_halves = modes.flush && emu_is_half(type);
  modes.flush &= !flush_halves;
  bool carry = uses_carry(s);
  uint32_t sources = op->args - 1u - carry;
  emu_operands(b, &original, sources + 1, sources + 1);
  emu_inst_t inst = {.fn = op->fn, .class = op->class, .arg_count = op->args};
  for (uint32_t n = 1; n <= sources; n++) {
    inst.arg[n] = emu_source(b, s, &s->operands[n], source_width(s, type, n));
    if (flush_halves) inst.arg[n] = emu_flushed_source(b, s, inst.arg[n], type);
  }
  if (carry) {
    if (!b->carry) b->carry = emu_frame_slot(b, 4);
    inst.arg[sources + 1] = b->carry;
  }
  emu_result_t result = emu_result(b, s, &s->operands[0], result_type(s, type));
  inst.arg[0] = result.offset;
  put_moded(b, s, inst, modes);
  if (flush_halves) put_step(b, s, "flush", type, inst.arg[0], inst.arg[0]);
  if (modes.saturate) put_step(b, s, "clamp", type, inst.arg[0], inst.arg[0]);
  emu_written(b, s, &result);
}

/* prmt.b32.f4e, max.s32.relu: the mode stands behind the type, where a key has it before. */
static void decode_mode_last(emu_builder_t *b, emu_statement_t *s) {
  emu_type_t type;
  const char *last = s->parts[s->part_count - 1];
  if (s->part_count >= 3 && !emu_ptx_type(last, strlen(last), &type)) {
    s->parts[s->part_count - 1] = s->parts[s->part_count - 2];
    s->parts[s->part_count - 2] = last;
  }
  emu_decode_lanes(b, s);
}

/* vabsdiff4.u32.u32.u32.add d, a, b, c: the whole opcode is the key. */
static void decode_video(emu_builder_t *b, emu_statement_t *s) {
  char key[64];
  emu_type_t type = {"u32", EMU_T_UNSIGNED, 4};
  spell(s, key, sizeof key);
  const emu_lane_op_t *op = emu_lane_op_find(key);
  if (!op) emu_unknown(b, s);
  emu_operands(b, s, 4, 4);
  emu_inst_t inst = {.fn = op->fn, .class = op->class};
  for (uint32_t n = 1; n < 4; n++) inst.arg[n] = emu_source(b, s, &s->operands[n], 4);
  inst.arg[0] = emu_result(b, s, &s->operands[0], type).offset;
  emu_put(b, s, inst);
}

/* --- conversions --- */

/* cvt.pack.sat.u8.s32.b32 d, a, b, c */
static void decode_cvt_pack(emu_builder_t *b, emu_statement_t *s) {
  emu_type_t type = {"b32", EMU_T_BITS, 4};
  const emu_lane_op_t *op = emu_find_op(s, s->parts[s->part_count - 1]);
  if (!op) emu_unknown(b, s);
  emu_operands(b, s, op->args, op->args);
  emu_inst_t inst = {.fn = op->fn, .class = op->class, .arg_count = op->args};
  for (uint32_t n = 1; n < op->args; n++) inst.arg[n] = emu_source(b, s, &s->operands[n], 4);
  inst.arg[0] = emu_result(b, s, &s->operands[0], type).offset;
  emu_put(b, s, inst);
}

static bool takes_rounding_itself(emu_type_t to, emu_type_t from) {
  return to.kind != EMU_T_FLOAT || emu_is_half(to) || strcmp(to.name, "tf32") == 0 ||
         (from.kind == EMU_T_FLOAT && to.bytes == from.bytes);
}

static void decode_cvt(emu_builder_t *b, emu_statement_t *s) {
  emu_statement_t original = *s;
  if (emu_has(s, "pack")) {
    decode_cvt_pack(b, s);
    return;
  }
  emu_type_t from = emu_last_type(b, s, 0), to = emu_last_type(b, s, 1);
  bool relu = emu_take(s, "relu"), ties_away = emu_take(s, "rna"), finite = emu_take(s, "satfinite");
  emu_modes_t modes = emu_take_modes(s);
  char key[48];
  snprintf(key, sizeof key, "cvt_%s_%s", to.name, from.name);
  const emu_lane_op_t *op = s->part_count == 3 ? emu_lane_op_find(key) : NULL;
  if (!op) emu_unknown(b, &original);
  emu_operands(b, &original, op->args, op->args);
  emu_inst_t inst = {
      .fn = op->fn, .class = EMU_CLASS_CONVERSION, .saturate = modes.saturate, .finite = finite};
  for (uint32_t n = 1; n < op->args; n++)
    inst.arg[n] = emu_source(b, s, &s->operands[n], emu_lane_bytes(from));
  emu_result_t result = emu_result(b, s, &s->operands[0], to);
  inst.arg[0] = result.offset;
  inst.rounding = (uint8_t)modes.rounding;
  if (to.kind != EMU_T_FLOAT && from.kind == EMU_T_FLOAT && !modes.integral) inst.rounding = EMU_ROUND_ZERO;
  inst.mode = relu || modes.integral;
  inst.kind = ties_away;
  inst.flush = modes.flush && !emu_is_half(to) && !emu_is_half(from);
  bool rounds = inst.rounding != EMU_ROUND_NEAREST && !takes_rounding_itself(to, from);
  if (rounds || inst.flush) {
    inst.inner = inst.fn;
    inst.fn = emu_exec_rounded;
  }
  bool same = strcmp(to.name, from.name) == 0, narrows_to_half = emu_is_half(to) && !same;
  bool clamps = modes.saturate && to.kind == EMU_T_FLOAT && !narrows_to_half; /* which saturates by itself */
  bool only_clamps = clamps && same && !inst.mode && inst.fn == op->fn;       /* converts nothing */
  if (only_clamps) inst.fn = step_op(b, s, "clamp", to)->fn;
  emu_put(b, s, inst);
  if (clamps && !only_clamps) put_step(b, s, "clamp", to, result.offset, result.offset);
  emu_written(b, s, &result);
}

/* --- control --- */

static void add_fixup(emu_builder_t *b, const emu_statement_t *s, const char *name, uint32_t index) {
  emu_fixup_t fixup = {(uint32_t)b->code_count - 1, index, name, s->line};
  KILN_PUSH(&b->m->arena, b->fixups, b->fixup_count, b->fixup_capacity, fixup);
}

void emu_put_control(emu_builder_t *b, const emu_statement_t *s, emu_inst_t inst) {
  inst.class = EMU_CLASS_CONTROL;
  inst.line = s->line;
  inst.guarded = s->guarded;
  inst.guard = s->guard;
  emu_emit(b, inst);
  emu_begin_block(b);
}

static void decode_bra(emu_builder_t *b, emu_statement_t *s) {
  emu_operands(b, s, 1, 1);
  emu_take(s, "uni");
  if (s->part_count != 1 || s->operands[0].kind != EMU_OPERAND_NAME) emu_unknown(b, s);
  emu_put_control(b, s, (emu_inst_t){.fn = emu_exec_branch});
  add_fixup(b, s, s->operands[0].text, EMU_UNKNOWN);
}

static void decode_brx(emu_builder_t *b, emu_statement_t *s) {
  emu_operands(b, s, 2, 2);
  emu_take(s, "uni");
  if (!emu_take(s, "idx") || s->part_count != 1 || s->operands[1].kind != EMU_OPERAND_NAME) emu_unknown(b, s);
  const char *name = s->operands[1].text;
  uint64_t *found = kiln_map_find(b->list_index, name, strlen(name));
  if (!found) emu_ptx_fail(b->m, s->line, "no list of branch targets '%s'", name);
  const emu_operand_t *list = (const emu_operand_t *)(uintptr_t)*found;
  uint32_t *targets = KILN_NEW_ARRAY(&b->m->arena, uint32_t, list->element_count);
  emu_put_control(b, s,
                  (emu_inst_t){.fn = emu_exec_branch_index,
                               .arg = {emu_source(b, s, &s->operands[0], 4)},
                               .args = targets,
                               .arg_count = list->element_count});
  for (uint32_t n = 0; n < list->element_count; n++) add_fixup(b, s, list->elements[n].text, n);
}

static void decode_exit(emu_builder_t *b, emu_statement_t *s) {
  emu_operands(b, s, 0, 0);
  emu_put_control(b, s, (emu_inst_t){.fn = emu_exec_exit});
}

static void decode_ret(emu_builder_t *b, emu_statement_t *s) {
  if (!b->current) {
    decode_exit(b, s);
    return;
  }
  emu_operands(b, s, 0, 0);
  emu_put_control(b, s, (emu_inst_t){.fn = emu_exec_return, .arg = {b->current->return_counter}});
}

static void decode_trap(emu_builder_t *b, emu_statement_t *s) {
  emu_operands(b, s, 0, 0);
  emu_put(b, s, (emu_inst_t){.fn = emu_exec_trap, .class = EMU_CLASS_CONTROL});
}

/* Hints and fences: stores are in order here, and every lane sees them at once. */
static void decode_nothing(emu_builder_t *b, emu_statement_t *s) {
  emu_put(b, s, (emu_inst_t){.fn = emu_exec_nothing, .class = EMU_CLASS_CONTROL});
}

static const emu_decoder_row_t decoders[] = {{"cvt", decode_cvt},
                                             {"prmt", decode_mode_last},
                                             {"min", decode_mode_last},
                                             {"max", decode_mode_last},
                                             {"vabsdiff2", decode_video},
                                             {"vabsdiff4", decode_video},
                                             {"bra", decode_bra},
                                             {"brx", decode_brx},
                                             {"exit", decode_exit},
                                             {"ret", decode_ret},
                                             {"trap", decode_trap},
                                             {"brkpt", decode_trap},
                                             {"membar", decode_nothing},
                                             {"fence", decode_nothing},
                                             {"nanosleep", decode_nothing},
                                             {"prefetch", decode_nothing},
                                             {"prefetchu", decode_nothing},
                                             {"pmevent", decode_nothing},
                                             {"discard", decode_nothing},
                                             {"applypriority", decode_nothing},
                                             {"setmaxnreg", decode_nothing},
                                             {"griddepcontrol", decode_nothing},
                                             {NULL, NULL}};

static emu_decoder_t find_decoder(const emu_decoder_row_t *row, const char *name) {
  while (row->name && strcmp(row->name, name) != 0) row++;
  return row->decode;
}

void emu_decode(emu_builder_t *b, emu_statement_t *s) {
  emu_decoder_t decode = find_decoder(decoders, s->parts[0]);
  if (!decode) decode = find_decoder(emu_async_decoders, s->parts[0]);
  if (!decode) decode = find_decoder(emu_atomic_decoders, s->parts[0]);
  if (!decode) decode = find_decoder(emu_call_decoders, s->parts[0]);
  if (!decode) decode = find_decoder(emu_compare_decoders, s->parts[0]);
  if (!decode) decode = find_decoder(emu_memory_decoders, s->parts[0]);
  if (!decode) decode = find_decoder(emu_move_decoders, s->parts[0]);
  if (!decode) decode = find_decoder(emu_tensor_decoders, s->parts[0]);
  if (!decode) decode = find_decoder(emu_warp_decoders, s->parts[0]);
  (decode ? decode : emu_decode_lanes)(b, s);
}
