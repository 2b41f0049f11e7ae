/* emulator/ptx_decode_tensor.c: decodes matrix multiply-accumulate: mma.sync, and wmma's loads, products and
 * stores. Which shapes and types there are is the PTX ISA's "Warp Level Matrix Multiply-Accumulate
 * Instructions"; see ptx_decode.h. */
#include "emulator/ptx_decode.h"

#include <string.h>

/* --- mma --- */

static emu_tensor_type_t tensor_type(emu_builder_t *b, const emu_statement_t *s, const char *name) {
  static const struct {
    const char *name;
    emu_tensor_type_t type;
  } types[] = {{"f64", EMU_TENSOR_F64},   {"f32", EMU_TENSOR_F32},   {"tf32", EMU_TENSOR_TF32},
               {"f16", EMU_TENSOR_F16},   {"bf16", EMU_TENSOR_BF16}, {"e4m3", EMU_TENSOR_E4M3},
               {"e5m2", EMU_TENSOR_E5M2}, {"s32", EMU_TENSOR_S32},   {"s8", EMU_TENSOR_S8},
               {"u8", EMU_TENSOR_U8},     {"s4", EMU_TENSOR_S4},     {"u4", EMU_TENSOR_U4},
               {"b1", EMU_TENSOR_B1}};
  for (size_t n = 0; n < sizeof types / sizeof types[0]; n++)
    if (strcmp(types[n].name, name) == 0) return types[n].type;
  emu_unknown(b, s);
}

static uint32_t bits_of(emu_tensor_type_t type) {
  static const uint8_t bits[] = {
      [EMU_TENSOR_F64] = 64,  [EMU_TENSOR_F32] = 32, [EMU_TENSOR_TF32] = 32, [EMU_TENSOR_F16] = 16,
      [EMU_TENSOR_BF16] = 16, [EMU_TENSOR_E4M3] = 8, [EMU_TENSOR_E5M2] = 8,  [EMU_TENSOR_S32] = 32,
      [EMU_TENSOR_S8] = 8,    [EMU_TENSOR_U8] = 8,   [EMU_TENSOR_S4] = 4,    [EMU_TENSOR_U4] = 4,
      [EMU_TENSOR_B1] = 1};
  return bits[type];
}

static uint32_t registers_of(uint32_t elements, emu_tensor_type_t type) {
  uint32_t bits = bits_of(type);
  return bits == 64 ? elements / 32 : elements * bits / 32 / 32;
}

static bool take_shape(emu_statement_t *s, emu_mma_t *m) {
  static const struct {
    const char *name;
    uint32_t m, k;
  } shapes[] = {{"m8n8k4", 8, 4},     {"m8n8k16", 8, 16},     {"m8n8k32", 8, 32},    {"m8n8k128", 8, 128},
                {"m16n8k4", 16, 4},   {"m16n8k8", 16, 8},     {"m16n8k16", 16, 16},  {"m16n8k32", 16, 32},
                {"m16n8k64", 16, 64}, {"m16n8k128", 16, 128}, {"m16n8k256", 16, 256}};
  for (size_t n = 0; n < sizeof shapes / sizeof shapes[0]; n++) {
    if (!emu_take(s, shapes[n].name)) continue;
    m->m = shapes[n].m;
    m->k = shapes[n].k;
    return true;
  }
  return false;
}

static bool is_float8(emu_tensor_type_t type) { return type == EMU_TENSOR_E4M3 || type == EMU_TENSOR_E5M2; }
static bool is_short_integer(emu_tensor_type_t type) {
  return type >= EMU_TENSOR_S8 && type <= EMU_TENSOR_U4;
}

/* Factors are of one type, or both 8-bit floats, or integers of one width. */
static bool valid_factors(const emu_mma_t *m) {
  if (m->a_type == m->b_type) return m->a_type != EMU_TENSOR_F32 && m->a_type != EMU_TENSOR_S32;
  if (is_float8(m->a_type) && is_float8(m->b_type)) return true;
  return is_short_integer(m->a_type) && is_short_integer(m->b_type) &&
         bits_of(m->a_type) == bits_of(m->b_type);
}

static bool valid_sum_type(emu_tensor_type_t factor, emu_tensor_type_t sum) {
  if (factor >= EMU_TENSOR_S8) return sum == EMU_TENSOR_S32;
  if (factor == EMU_TENSOR_F64) return sum == EMU_TENSOR_F64;
  bool half = factor == EMU_TENSOR_F16 || is_float8(factor);
  return sum == EMU_TENSOR_F32 || (half && sum == EMU_TENSOR_F16);
}

/* Which types may be multiplied and added up together. */
static bool valid_sum(const emu_mma_t *m) {
  return valid_factors(m) && valid_sum_type(m->a_type, m->d_type) && valid_sum_type(m->a_type, m->c_type) &&
         (!m->saturate || is_short_integer(m->a_type));
}

/* m8n8k4 of f16: four products, each of eight lanes. */
static bool is_quad(const emu_mma_t *m) { return m->m == 8 && m->k == 4 && m->a_type == EMU_TENSOR_F16; }

/* Depths that exist for an element of so many bits. */
static bool valid_mma(const emu_mma_t *m) {
  uint32_t bits = bits_of(m->a_type), least = bits == 64 ? 4 : 128 / bits;
  if (!valid_sum(m)) return false;
  if (is_quad(m)) return m->d_type == EMU_TENSOR_F32 || m->c_type == EMU_TENSOR_F16;
  if (m->d_type != m->c_type || m->a_column || m->b_row) return false;
  if (m->m == 8) return (bits <= 8 || bits == 64) && m->k == least && !is_float8(m->a_type);
  return m->k == least || m->k == 2 * least || (bits == 64 && m->k == 16);
}

/* Takes ".row.col": how A lies, then how B does. */
static bool take_layouts(emu_statement_t *s, emu_mma_t *m) {
  bool columns[2];
  for (uint32_t n = 0, part = 1; n < 2; n++) {
    while (part < s->part_count && strcmp(s->parts[part], "row") != 0 && strcmp(s->parts[part], "col") != 0)
      part++;
    if (part == s->part_count) return false;
    columns[n] = strcmp(s->parts[part], "col") == 0;
    emu_take(s, s->parts[part]);
  }
  m->a_column = columns[0];
  m->b_row = !columns[1];
  return true;
}

static void count_registers(emu_mma_t *m) {
  if (is_quad(m)) {
    m->a_registers = m->b_registers = 2;
    m->c_registers = m->c_type == EMU_TENSOR_F32 ? 8 : 4;
    m->d_registers = m->d_type == EMU_TENSOR_F32 ? 8 : 4;
    return;
  }
  m->d_registers = registers_of(m->m * 8, m->d_type);
  m->a_registers = registers_of(m->m * m->k, m->a_type);
  m->b_registers = registers_of(8 * m->k, m->b_type);
  m->c_registers = registers_of(m->m * 8, m->c_type);
}

static uint32_t fragment(emu_builder_t *b, const emu_statement_t *s, uint32_t operand, uint32_t count,
                         emu_type_t type, uint32_t *args) {
  for (uint32_t n = 0; n < count; n++) {
    const emu_operand_t *r = emu_element(b, s, &s->operands[operand], count, n);
    args[n] = operand == 0 ? emu_result(b, s, r, type).offset : emu_source(b, s, r, emu_lane_bytes(type));
  }
  return count;
}

/* mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {d...}, {a...}, {b...}, {c...} */
static void decode_mma(emu_builder_t *b, emu_statement_t *s) {
  emu_statement_t original = *s;
  emu_mma_t *m = KILN_NEW(&b->m->arena, emu_mma_t);
  bool right = emu_take(s, "sync") && emu_take(s, "aligned") && take_layouts(s, m) && take_shape(s, m);
  m->saturate = emu_take(s, "satfinite");
  m->xor_popc = emu_take(s, "xor");
  emu_take(s, "and");
  emu_take(s, "popc");
  emu_take(s, "rn");
  if (!right || s->part_count != 5) emu_unknown(b, &original);
  m->d_type = tensor_type(b, &original, s->parts[1]);
  m->a_type = tensor_type(b, &original, s->parts[2]);
  m->b_type = tensor_type(b, &original, s->parts[3]);
  m->c_type = tensor_type(b, &original, s->parts[4]);
  if (!valid_mma(m)) emu_unknown(b, &original);
  emu_operands(b, &original, 4, 4);
  count_registers(m);
  bool wide = m->a_type == EMU_TENSOR_F64;
  emu_type_t type = {wide ? "b64" : "b32", EMU_T_BITS, wide ? 8 : 4};
  uint32_t args[64], count = 0;
  count += fragment(b, s, 0, m->d_registers, type, args);
  count += fragment(b, s, 1, m->a_registers, type, args + count);
  count += fragment(b, s, 2, m->b_registers, type, args + count);
  count += fragment(b, s, 3, m->c_registers, type, args + count);
  emu_put(b, s,
          (emu_inst_t){.fn = is_quad(m) ? emu_exec_mma_quads : emu_exec_mma,
                       .class = EMU_CLASS_TENSOR,
                       .mma = m,
                       .args = emu_args(b, args, count)});
}

/* --- wmma --- */

/* The other factor's side comes from the shape: A is m x k, B is n x k (its columns are what lies together in
 * registers), C and D are m x n. */
static bool take_wmma_shape(emu_statement_t *s, emu_mma_t *m) {
  static const struct {
    const char *name;
    uint32_t m, n, k;
  } shapes[] = {{"m16n16k16", 16, 16, 16}, {"m32n8k16", 32, 8, 16}, {"m8n32k16", 8, 32, 16},
                {"m16n16k8", 16, 16, 8},   {"m8n8k4", 8, 8, 4},     {"m8n8k32", 8, 8, 32},
                {"m8n8k128", 8, 8, 128}};
  for (size_t n = 0; n < sizeof shapes / sizeof shapes[0]; n++) {
    if (!emu_take(s, shapes[n].name)) continue;
    m->m = shapes[n].m;
    m->n = shapes[n].n;
    m->k = shapes[n].k;
    return true;
  }
  return false;
}

/* The depth that a factor's type has. */
static uint32_t wmma_depth(emu_tensor_type_t type) {
  switch (type) {
  case EMU_TENSOR_F64:
    return 4;
  case EMU_TENSOR_TF32:
    return 8;
  case EMU_TENSOR_F16:
  case EMU_TENSOR_BF16:
  case EMU_TENSOR_S8:
  case EMU_TENSOR_U8:
    return 16;
  case EMU_TENSOR_S4:
  case EMU_TENSOR_U4:
    return 32;
  case EMU_TENSOR_B1:
    return 128;
  default:
    return 0;
  }
}

/* Factors of f16 have eight registers in every shape, their elements several times where the matrix is small.
 */
static uint32_t factor_registers(uint32_t elements, emu_tensor_type_t type) {
  return type == EMU_TENSOR_F16 ? 8 : registers_of(elements, type);
}

static emu_type_t register_type(emu_tensor_type_t type) {
  return type == EMU_TENSOR_F64 ? (emu_type_t){"b64", EMU_T_BITS, 8} : (emu_type_t){"b32", EMU_T_BITS, 4};
}

/* wmma.load.a.sync.aligned.row.m16n16k16{.space}.f16 {r...}, [p]{, stride}; wmma.store.d has the address
 * first. The fragment is `m` x `k` of `a_type` in `a_registers`, whichever matrix it is of. */
static void decode_wmma_transfer(emu_builder_t *b, emu_statement_t *s, bool load) {
  emu_statement_t original = *s;
  emu_mma_t shape = {0}, *m = KILN_NEW(&b->m->arena, emu_mma_t);
  bool factor_a = emu_take(s, "a"), factor_b = emu_take(s, "b");
  bool right = factor_a || factor_b || emu_take(s, load ? "c" : "d");
  right &= emu_take(s, "sync") && emu_take(s, "aligned") && take_wmma_shape(s, &shape);
  bool column = emu_take(s, "col");
  right &= (column || emu_take(s, "row")) && (load || !(factor_a || factor_b));
  emu_take_hints(s);
  emu_inst_t inst = {
      .fn = load ? emu_exec_wmma_load : emu_exec_wmma_store, .class = EMU_CLASS_MEMORY, .mma = m};
  inst.space = (uint8_t)emu_take_space(s);
  if (!right || s->part_count != 2) emu_unknown(b, &original);
  m->a_type = tensor_type(b, &original, s->parts[1]);
  m->m = factor_b ? shape.n : shape.m;
  m->k = factor_a || factor_b ? shape.k : shape.n;
  if ((factor_a || factor_b) && wmma_depth(m->a_type) != shape.k) emu_unknown(b, &original);
  m->a_registers =
      factor_a || factor_b ? factor_registers(m->m * m->k, m->a_type) : registers_of(m->m * m->k, m->a_type);
  inst.mode = column != factor_b; /* of the fragment, which for B is the transposed matrix */
  if (bits_of(m->a_type) < 8 && inst.mode) emu_unknown(b, &original);
  emu_operands(b, &original, 2, 3);
  uint32_t args[20], count = m->a_registers;
  emu_address(b, s, &s->operands[load ? 1 : 0], &inst, &args[count]);
  args[count + 1] = s->operand_count == 3 ? emu_source(b, s, &s->operands[2], 4)
                                          : emu_constant(b, inst.mode ? m->m : m->k, 4);
  args[count + 2] = emu_frame_slot(b, 8); /* for the addresses of one request */
  emu_type_t type = register_type(m->a_type);
  for (uint32_t n = 0; n < count; n++) {
    const emu_operand_t *r = emu_element(b, s, &s->operands[load ? 0 : 1], count, n);
    args[n] = load ? emu_result(b, s, r, type).offset : emu_source(b, s, r, type.bytes);
  }
  inst.args = emu_args(b, args, count + 3);
  emu_put(b, s, inst);
}

/* wmma.mma.sync.aligned.row.col.m16n16k16.f32.f16.f16.f32 d, a, b, c; of f16 factors only d and c have types.
 */
static void decode_wmma_product(emu_builder_t *b, emu_statement_t *s) {
  emu_statement_t original = *s;
  emu_mma_t *m = KILN_NEW(&b->m->arena, emu_mma_t);
  m->saturate = emu_take(s, "satfinite");
  m->xor_popc = emu_take(s, "xor");
  emu_take(s, "and");
  emu_take(s, "popc");
  emu_take(s, "rn");
  bool right = emu_take(s, "sync") && emu_take(s, "aligned") && take_wmma_shape(s, m);
  for (int n = 0; n < 2; n++) right &= emu_take(s, "row") || emu_take(s, "col");
  bool halves = s->part_count == 3;
  if (!right || (!halves && s->part_count != 5)) emu_unknown(b, &original);
  m->d_type = tensor_type(b, &original, s->parts[1]);
  m->a_type = halves ? EMU_TENSOR_F16 : tensor_type(b, &original, s->parts[2]);
  m->b_type = halves ? EMU_TENSOR_F16 : tensor_type(b, &original, s->parts[3]);
  m->c_type = tensor_type(b, &original, s->parts[halves ? 2 : 4]);
  if (wmma_depth(m->a_type) != m->k || wmma_depth(m->b_type) != m->k || !valid_sum(m))
    emu_unknown(b, &original);
  emu_operands(b, &original, 4, 4);
  m->d_registers = registers_of(m->m * m->n, m->d_type);
  m->a_registers = factor_registers(m->m * m->k, m->a_type);
  m->b_registers = factor_registers(m->n * m->k, m->b_type);
  m->c_registers = registers_of(m->m * m->n, m->c_type);
  uint32_t args[64], count = 0;
  count += fragment(b, s, 0, m->d_registers, register_type(m->d_type), args);
  count += fragment(b, s, 1, m->a_registers, register_type(m->a_type), args + count);
  count += fragment(b, s, 2, m->b_registers, register_type(m->b_type), args + count);
  count += fragment(b, s, 3, m->c_registers, register_type(m->c_type), args + count);
  emu_put(b, s,
          (emu_inst_t){
              .fn = emu_exec_wmma, .class = EMU_CLASS_TENSOR, .mma = m, .args = emu_args(b, args, count)});
}

static void decode_wmma(emu_builder_t *b, emu_statement_t *s) {
  if (emu_take(s, "mma"))
    decode_wmma_product(b, s);
  else if (emu_take(s, "load"))
    decode_wmma_transfer(b, s, true);
  else if (emu_take(s, "store"))
    decode_wmma_transfer(b, s, false);
  else
    emu_unknown(b, s);
}

const emu_decoder_row_t emu_tensor_decoders[] = {{"mma", decode_mma}, {"wmma", decode_wmma}, {NULL, NULL}};
