/* emulator/ptx_decode_atomic.c: decodes atomics: atom and red, of single values, vectors and 128 bits; see
 * ptx_decode.h. Which operations there are of which types is the PTX ISA's table of atom. */
#include "emulator/ptx_decode.h"

#include <string.h>

/* Operations with the types that they have alone, and as elements of vectors. */
typedef struct {
  const char *name;
  emu_atomic_op_t op;
  const char *types, *vector_types;
} operation_t;

static const operation_t operations[] = {
    {"add", EMU_ATOMIC_ADD, "u32 s32 u64 f32 f64 f16 bf16 f16x2 bf16x2", "f32 f16 bf16 f16x2 bf16x2"},
    {"min", EMU_ATOMIC_MIN, "u32 s32 u64 s64", "f16 bf16 f16x2 bf16x2"},
    {"max", EMU_ATOMIC_MAX, "u32 s32 u64 s64", "f16 bf16 f16x2 bf16x2"},
    {"and", EMU_ATOMIC_AND, "b32 b64", ""},
    {"or", EMU_ATOMIC_OR, "b32 b64", ""},
    {"xor", EMU_ATOMIC_XOR, "b32 b64", ""},
    {"inc", EMU_ATOMIC_INC, "u32", ""},
    {"dec", EMU_ATOMIC_DEC, "u32", ""},
    {"exch", EMU_ATOMIC_EXCHANGE, "b32 b64 b128", ""},
    {"cas", EMU_ATOMIC_CAS, "b16 b32 b64 b128", ""}};

static bool names(const char *list, const char *name) {
  size_t length = strlen(name);
  for (const char *at = list; (at = strstr(at, name)); at += length)
    if ((at == list || at[-1] == ' ') && (at[length] == ' ' || !at[length])) return true;
  return false;
}

static const operation_t *take_operation(emu_statement_t *s) {
  for (size_t n = 0; n < sizeof operations / sizeof operations[0]; n++)
    if (emu_take(s, operations[n].name)) return &operations[n];
  return NULL;
}

static uint8_t atomic_type(emu_type_t type) {
  static const struct {
    const char *name;
    emu_atomic_type_t type;
  } floats[] = {{"f64", EMU_ATOMIC_F64},   {"f32", EMU_ATOMIC_F32},     {"f16", EMU_ATOMIC_F16},
                {"bf16", EMU_ATOMIC_BF16}, {"f16x2", EMU_ATOMIC_F16X2}, {"bf16x2", EMU_ATOMIC_BF16X2}};
  for (size_t n = 0; n < sizeof floats / sizeof floats[0]; n++)
    if (strcmp(floats[n].name, type.name) == 0) return (uint8_t)floats[n].type;
  return EMU_ATOMIC_INTEGER;
}

bool emu_atomic_operation(emu_statement_t *s, emu_type_t type, bool vector, emu_inst_t *inst) {
  const operation_t *operation = take_operation(s);
  if (!operation || !names(vector ? operation->vector_types : operation->types, type.name)) return false;
  inst->kind = (uint8_t)operation->op;
  inst->mode = atomic_type(type);
  inst->is_signed = type.kind == EMU_T_SIGNED;
  inst->bytes = type.bytes;
  return true;
}

/* Elements of a vector are updated one by one: results, address, values. */
static void put_vector(emu_builder_t *b, emu_statement_t *s, emu_inst_t inst, emu_type_t type, uint32_t at) {
  uint32_t args[17], count = inst.vector;
  emu_result_t results[8] = {0};
  inst.fn = emu_exec_atomic_vector;
  emu_address(b, s, &s->operands[at], &inst, &args[count]);
  for (uint32_t n = 0; n < count; n++) {
    args[count + 1 + n] = emu_source(b, s, emu_element(b, s, &s->operands[at + 1], count, n), 4);
    args[n] = 0;
    if (!at) continue;
    results[n] = emu_result(b, s, emu_element(b, s, &s->operands[0], count, n), type);
    args[n] = results[n].offset;
  }
  inst.args = emu_args(b, args, 2 * count + 1);
  inst.arg_count = at; /* 1 where there are results */
  b->kernel->may_wait |= at != 0;
  emu_put(b, s, inst);
  for (uint32_t n = 0; at && n < count; n++) emu_written(b, s, &results[n]);
}

static void put_single(emu_builder_t *b, emu_statement_t *s, emu_inst_t inst, emu_type_t type, uint32_t at) {
  uint32_t width = emu_lane_bytes(type);
  inst.fn = emu_exec_atomic;
  if (width == 16) {
    inst.fn = emu_exec_atomic_wide;
    inst.bytes = 8, inst.vector = 2;
  }
  emu_address(b, s, &s->operands[at], &inst, &inst.arg[1]);
  inst.arg[2] = emu_source(b, s, &s->operands[at + 1], width);
  if (inst.kind == EMU_ATOMIC_CAS) inst.arg[3] = emu_source(b, s, &s->operands[at + 2], width);
  emu_result_t result = {0};
  if (at && s->operands[0].kind != EMU_OPERAND_NONE) {
    result = emu_result(b, s, &s->operands[0], type);
    inst.arg[0] = result.offset;
    b->kernel->may_wait = true;
  }
  emu_put(b, s, inst);
  emu_written(b, s, &result);
}

static uint8_t take_vector(emu_statement_t *s) {
  return emu_take(s, "v8") ? 8 : emu_take(s, "v4") ? 4 : emu_take(s, "v2") ? 2 : 1;
}

/* atom.global.add.u32 d, [a], b; red.global.add.u32 [a], b; atom.cas has two values. */
static void decode_atom(emu_builder_t *b, emu_statement_t *s) {
  emu_statement_t original = *s;
  emu_type_t type = emu_last_type(b, s, 0);
  uint32_t at = strcmp(s->parts[0], "atom") == 0;
  emu_inst_t inst = {.class = EMU_CLASS_MEMORY, .vector = take_vector(s)};
  emu_take_hints(s);
  emu_take_order(s);
  emu_take(s, "noftz");
  inst.space = (uint8_t)emu_take_space(s);
  if (!emu_atomic_operation(s, type, inst.vector > 1, &inst) || s->part_count != 2 ||
      inst.vector * type.bytes > 16)
    emu_unknown(b, &original);
  uint32_t values = inst.kind == EMU_ATOMIC_CAS ? 2 : 1;
  if (!at && (inst.kind == EMU_ATOMIC_CAS || inst.kind == EMU_ATOMIC_EXCHANGE)) emu_unknown(b, &original);
  emu_operands(b, &original, at + 1 + values, at + 2 + values); /* one more is a cache policy */
  (inst.vector > 1 ? put_vector : put_single)(b, s, inst, type, at);
}

const emu_decoder_row_t emu_atomic_decoders[] = {{"atom", decode_atom}, {"red", decode_atom}, {NULL, NULL}};
