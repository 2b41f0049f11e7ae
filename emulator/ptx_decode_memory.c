/* emulator/ptx_decode_memory.c: decodes loads, stores and address conversions; see ptx_decode.h. */
#include "emulator/lanes.h"
#include "emulator/ptx_decode.h"

#include <string.h>

/* Cache operators, eviction priorities and scopes: they change when others see data, not what it is. */
void emu_take_hints(emu_statement_t *s) {
  static const char *const hints[] = {"ca",      "cg",    "cs",   "lu",   "cv",     "wb",
                                      "wt",      "nc",    "weak", "cta",  "gpu",    "sys",
                                      "cluster", "entry", "func", "mmio", "unified"};
  for (size_t n = 0; n < sizeof hints / sizeof hints[0]; n++) emu_take(s, hints[n]);
  for (uint32_t n = 1; n < s->part_count;) {
    if (strncmp(s->parts[n], "L1::", 4) == 0 || strncmp(s->parts[n], "L2::", 4) == 0)
      emu_take(s, s->parts[n]);
    else
      n++;
  }
}

bool emu_take_order(emu_statement_t *s) {
  bool strong = false;
  static const char *const orders[] = {"volatile", "relaxed", "acquire", "release", "acq_rel"};
  for (size_t n = 0; n < sizeof orders / sizeof orders[0]; n++) strong |= emu_take(s, orders[n]);
  return strong;
}

emu_space_t emu_take_space(emu_statement_t *s) {
  static const struct {
    const char *name;
    emu_space_t space;
  } spaces[] = {{"global", EMU_SPACE_GLOBAL},         {"shared", EMU_SPACE_SHARED},
                {"shared::cta", EMU_SPACE_SHARED},    {"local", EMU_SPACE_LOCAL},
                {"param", EMU_SPACE_PARAM},           {"const", EMU_SPACE_GLOBAL},
                {"param::entry", EMU_SPACE_PARAM},    {"param::func", EMU_SPACE_PARAM},
                {"shared::cluster", EMU_SPACE_SHARED}}; /* a cluster is one block */
  for (size_t n = 0; n < sizeof spaces / sizeof spaces[0]; n++)
    if (emu_take(s, spaces[n].name)) return spaces[n].space;
  return EMU_SPACE_GENERIC;
}

void emu_address(emu_builder_t *b, const emu_statement_t *s, const emu_operand_t *operand, emu_inst_t *inst,
                 uint32_t *out_offset) {
  if (operand->kind != EMU_OPERAND_MEMORY)
    emu_ptx_fail(b->m, s->line, "'%s' needs an address in brackets", s->parts[0]);
  const emu_operand_t *base = &operand->elements[0];
  inst->offset = (int64_t)operand->bits;
  /* .param names in a function are variables in local memory. */
  if (inst->space == EMU_SPACE_PARAM && base->kind == EMU_OPERAND_ADDRESS) inst->space = base->space;
  bool narrow = base->kind == EMU_OPERAND_REGISTER && emu_lane_bytes(base->type) == 4;
  inst->width = narrow ? 4 : 8;
  *out_offset = emu_source(b, s, base, inst->width);
  inst->target = b->kernel->site_count++;
}

static uint8_t take_vector(emu_statement_t *s) {
  return emu_take(s, "v8") ? 8 : emu_take(s, "v4") ? 4 : emu_take(s, "v2") ? 2 : 1;
}

enum { PLAIN, WIDE }; /* an emu_inst_t's kind: elements are operands, or the halves of one b128 register */

/* A memory access of the statement's type: elements up to 8 bytes. b128 is two of them. */
static emu_inst_t access_inst(emu_builder_t *b, emu_statement_t *s, emu_type_t *out_type) {
  emu_statement_t original = *s;
  emu_inst_t inst = {.class = EMU_CLASS_MEMORY};
  emu_take_hints(s);
  inst.strong = emu_take_order(s);
  inst.space = (uint8_t)emu_take_space(s);
  inst.vector = take_vector(s);
  *out_type = emu_last_type(b, s, 0);
  if (out_type->bytes == 16 && inst.vector == 1) {
    *out_type = (emu_type_t){"b64", EMU_T_BITS, 8};
    inst.vector = 2;
    inst.kind = WIDE;
  }
  if (s->part_count != 2 || out_type->kind == EMU_T_PRED || out_type->bytes > 8 ||
      inst.vector * out_type->bytes > 32)
    emu_unknown(b, &original);
  inst.bytes = out_type->bytes;
  inst.is_signed = out_type->kind == EMU_T_SIGNED;
  return inst;
}

const emu_operand_t *emu_element(emu_builder_t *b, const emu_statement_t *s, const emu_operand_t *operand,
                                 uint32_t count, uint32_t n) {
  if (count == 1 && operand->kind != EMU_OPERAND_VECTOR) return operand;
  if (operand->kind != EMU_OPERAND_VECTOR || operand->element_count != count)
    emu_ptx_fail(b->m, s->line, "'%s' needs a vector of %u", s->parts[0], count);
  return &operand->elements[n];
}

/* A load of a kernel parameter at a constant place, the same for all threads. */
static bool constant_parameter(emu_builder_t *b, const emu_statement_t *s, emu_inst_t *inst) {
  const emu_operand_t *base = &s->operands[1].elements[0];
  if (inst->space != EMU_SPACE_PARAM || base->kind != EMU_OPERAND_ADDRESS || base->space != EMU_SPACE_PARAM)
    return false;
  uint64_t offset = base->bits + s->operands[1].bits;
  if (offset + inst->bytes * inst->vector > b->kernel->param_bytes || offset > b->kernel->param_bytes)
    emu_ptx_fail(b->m, s->line, "a load behind the kernel's parameters");
  if (offset % inst->bytes) return false;
  inst->offset = (int64_t)offset;
  inst->fn = emu_exec_load_param;
  return true;
}

/* The halves of a b128 register as operands, in `halves`. */
static const emu_operand_t *split_wide(emu_builder_t *b, const emu_statement_t *s, const emu_operand_t *wide,
                                       emu_operand_t *halves) {
  if (wide->kind != EMU_OPERAND_REGISTER || wide->type.bytes != 16)
    emu_ptx_fail(b->m, s->line, "'%s' of 128 bits needs a register of 128 bits", s->parts[0]);
  halves[0] = halves[1] = *wide;
  halves[0].type = halves[1].type = (emu_type_t){"b64", EMU_T_BITS, 8};
  halves[1].offset += EMU_WIDE_HALF;
  return halves;
}

/* Element n of the statement's operand `operand`, as the instruction sees it. */
static const emu_operand_t *access_element(emu_builder_t *b, const emu_statement_t *s, const emu_inst_t *inst,
                                           uint32_t operand, uint32_t n, emu_operand_t *halves) {
  if (inst->kind == WIDE) return &split_wide(b, s, &s->operands[operand], halves)[n];
  return emu_element(b, s, &s->operands[operand], inst->vector, n);
}

static void decode_ld(emu_builder_t *b, emu_statement_t *s) {
  emu_type_t type;
  emu_inst_t inst = access_inst(b, s, &type);
  emu_operands(b, s, 2, 3); /* a third is a cache policy */
  uint32_t args[9];
  emu_result_t results[8];
  emu_operand_t halves[2];
  if (s->operands[1].kind != EMU_OPERAND_MEMORY) emu_unknown(b, s);
  if (!constant_parameter(b, s, &inst)) {
    inst.fn = emu_row_ops()->load;
    emu_address(b, s, &s->operands[1], &inst, &args[inst.vector]);
  }
  for (uint32_t n = 0; n < inst.vector; n++) {
    results[n] = emu_result(b, s, access_element(b, s, &inst, 0, n, halves), type);
    args[n] = results[n].offset;
  }
  if (inst.strong) b->kernel->may_wait = true;
  inst.args = emu_args(b, args, inst.vector + 1u);
  if (inst.fn == emu_exec_load_param && inst.kind == PLAIN && emu_leave_out_load(b, s, type, &inst)) {
    emu_count_instruction(b, EMU_CLASS_MEMORY, s->line);
    return;
  }
  emu_put(b, s, inst);
  for (uint32_t n = 0; n < inst.vector; n++) emu_written(b, s, &results[n]);
}

static void decode_st(emu_builder_t *b, emu_statement_t *s) {
  emu_type_t type;
  emu_inst_t inst = access_inst(b, s, &type);
  emu_operands(b, s, 2, 3);
  uint32_t args[9];
  emu_operand_t halves[2];
  inst.fn = emu_row_ops()->store;
  emu_address(b, s, &s->operands[0], &inst, &args[0]);
  if (inst.space == EMU_SPACE_PARAM) emu_ptx_fail(b->m, s->line, "a store to the kernel's parameters");
  for (uint32_t n = 0; n < inst.vector; n++)
    args[n + 1] = emu_source(b, s, access_element(b, s, &inst, 1, n, halves), type.bytes == 8 ? 8 : 4);
  inst.args = emu_args(b, args, inst.vector + 1u);
  emu_put(b, s, inst);
}

/* cvta.to.shared.u64 d, a: between a space's addresses and generic ones. */
static void decode_cvta(emu_builder_t *b, emu_statement_t *s) {
  emu_statement_t original = *s;
  bool from_generic = emu_take(s, "to");
  emu_inst_t inst = {.class = EMU_CLASS_INTEGER, .space = (uint8_t)emu_take_space(s)};
  emu_operands(b, s, 2, 2);
  emu_type_t type = emu_last_type(b, s, 0);
  if (s->part_count != 2 || type.bytes != 8 || inst.space == EMU_SPACE_GENERIC) emu_unknown(b, &original);
  /* Global addresses are generic. */
  if (inst.space == EMU_SPACE_GLOBAL && emu_leave_out_move(b, s, type, emu_source)) {
    emu_count_instruction(b, EMU_CLASS_INTEGER, s->line);
    return;
  }
  inst.fn = from_generic ? emu_exec_from_generic : emu_exec_to_generic;
  inst.arg[1] = emu_source(b, s, &s->operands[1], 8);
  emu_result_t result = emu_result(b, s, &s->operands[0], type);
  inst.arg[0] = result.offset;
  if (inst.space == EMU_SPACE_GLOBAL)
    inst.fn = emu_lane_op_find("mov.b64")->fn; /* global addresses are generic */
  emu_put(b, s, inst);
  emu_written(b, s, &result);
}

static void decode_isspacep(emu_builder_t *b, emu_statement_t *s) {
  emu_inst_t inst = {
      .fn = emu_exec_is_space, .class = EMU_CLASS_INTEGER, .space = (uint8_t)emu_take_space(s)};
  emu_operands(b, s, 2, 2);
  if (s->part_count != 1 || inst.space == EMU_SPACE_GENERIC) emu_unknown(b, s);
  inst.arg[0] = emu_result(b, s, &s->operands[0], (emu_type_t){"pred", EMU_T_PRED, 0}).offset;
  inst.arg[1] = emu_source(b, s, &s->operands[1], 8);
  emu_put(b, s, inst);
}

/* ldmatrix.sync.aligned.m8n8.x4{.trans}.shared.b16 {r0, r1, r2, r3}, [p]; stmatrix with the operands
 * exchanged. */
static void decode_matrix(emu_builder_t *b, emu_statement_t *s) {
  emu_statement_t original = *s;
  bool load = strcmp(s->parts[0], "ldmatrix") == 0;
  bool right = emu_take(s, "sync") && emu_take(s, "aligned") && emu_take(s, "m8n8") && emu_take(s, "b16");
  emu_inst_t inst = {.fn = load ? emu_exec_load_matrix : emu_exec_store_matrix, .class = EMU_CLASS_MEMORY};
  inst.vector = emu_take(s, "x4") ? 4 : emu_take(s, "x2") ? 2 : emu_take(s, "x1") ? 1 : 0;
  inst.mode = emu_take(s, "trans");
  inst.space = (uint8_t)emu_take_space(s);
  if (!right || !inst.vector || s->part_count != 1 || inst.space == EMU_SPACE_GLOBAL)
    emu_unknown(b, &original);
  emu_operands(b, &original, 2, 2);
  uint32_t args[5];
  emu_type_t type = {"b32", EMU_T_BITS, 4};
  const emu_operand_t *registers = &s->operands[load ? 0 : 1];
  emu_address(b, s, &s->operands[load ? 1 : 0], &inst, &args[inst.vector]);
  for (uint32_t n = 0; n < inst.vector; n++) {
    const emu_operand_t *r = emu_element(b, s, registers, inst.vector, n);
    args[n] = load ? emu_result(b, s, r, type).offset : emu_source(b, s, r, 4);
  }
  inst.args = emu_args(b, args, inst.vector + 1u);
  emu_put(b, s, inst);
}

/* movmatrix.sync.aligned.m8n8.trans.b16 d, a */
static void decode_movmatrix(emu_builder_t *b, emu_statement_t *s) {
  emu_statement_t original = *s;
  emu_type_t type = {"b32", EMU_T_BITS, 4};
  bool right = emu_take(s, "sync") && emu_take(s, "aligned") && emu_take(s, "m8n8") && emu_take(s, "trans") &&
               emu_take(s, "b16");
  if (!right || s->part_count != 1) emu_unknown(b, &original);
  emu_operands(b, &original, 2, 2);
  emu_inst_t inst = {.fn = emu_exec_move_matrix, .class = EMU_CLASS_CONTROL};
  inst.arg[1] = emu_source(b, s, &s->operands[1], 4);
  inst.arg[0] = emu_result(b, s, &s->operands[0], type).offset;
  emu_put(b, s, inst);
}

const emu_decoder_row_t emu_memory_decoders[] = {{"ld", decode_ld},
                                                 {"ldu", decode_ld},
                                                 {"st", decode_st},
                                                 {"cvta", decode_cvta},
                                                 {"isspacep", decode_isspacep},
                                                 {"ldmatrix", decode_matrix},
                                                 {"stmatrix", decode_matrix},
                                                 {"movmatrix", decode_movmatrix},
                                                 {NULL, NULL}};
