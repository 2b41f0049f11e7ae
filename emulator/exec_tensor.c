/* emulator/exec_tensor.c: matrix multiply-accumulate (mma.sync) and the loads that feed it (ldmatrix,
 * stmatrix).
 *
 * All shapes follow one layout (PTX ISA, "Matrix Fragments for mma"): with group = lane / 4 and member = lane
 * % 4, and E elements to a register, A, register r: row group (+ 8 where r is odd and M is 16), column
 * member*E + 4*E*(r / (M/8)) + e B, register r: row member*E + 4*E*r + e, column group C and D, element n:
 * row group (+ 8 where n >= 2), column member*2 + n%2 Products are exact, sums of floats are taken in double
 * and rounded once, which is at least as accurate as any GPU's; the ISA leaves the order open. Called for the
 * whole warp; see ops.h.
 */
#include "emulator/exec_tensor.h"

#include "emulator/exec_memory.h"
#include "emulator/exec_warp.h"
#include "emulator/lane_math.h"
#include "emulator/lanes.h"
#include "emulator/ops.h"

#include <string.h>

#define MOST_ROWS 16
#define MOST_DEPTH 256

uint32_t emu_tensor_bits(emu_tensor_type_t type) {
  switch (type) {
  case EMU_TENSOR_F64:
    return 64;
  case EMU_TENSOR_F32:
  case EMU_TENSOR_TF32:
  case EMU_TENSOR_S32:
    return 32;
  case EMU_TENSOR_F16:
  case EMU_TENSOR_BF16:
    return 16;
  case EMU_TENSOR_S8:
  case EMU_TENSOR_U8:
  case EMU_TENSOR_E4M3:
  case EMU_TENSOR_E5M2:
    return 8;
  case EMU_TENSOR_S4:
  case EMU_TENSOR_U4:
    return 4;
  case EMU_TENSOR_B1:
    return 1;
  }
  return 32;
}

static double value_of(emu_tensor_type_t type, uint64_t bits) {
  switch (type) {
  case EMU_TENSOR_F64:
    return f64_of_bits(bits);
  case EMU_TENSOR_F32:
    return f32_of_bits((uint32_t)bits);
  case EMU_TENSOR_TF32:
    return f32_of_bits((uint32_t)bits & ~0x1fffu);
  case EMU_TENSOR_F16:
    return f32_of_f16((uint32_t)bits);
  case EMU_TENSOR_BF16:
    return f32_of_bits((uint32_t)bits << 16);
  case EMU_TENSOR_E4M3:
    return f32_of_f16(f16_of_e4m3((uint32_t)bits));
  case EMU_TENSOR_E5M2:
    return f32_of_f16(f16_of_e5m2((uint32_t)bits));
  case EMU_TENSOR_S32:
    return (int32_t)bits;
  case EMU_TENSOR_S8:
    return (int8_t)bits;
  case EMU_TENSOR_S4:
    return (int32_t)(bits << 28) >> 28;
  case EMU_TENSOR_U8:
  case EMU_TENSOR_U4:
  case EMU_TENSOR_B1:
    return (double)bits;
  }
  return 0;
}

double emu_tensor_element(emu_warp_t *w, uint32_t operand, uint32_t lane, emu_tensor_type_t type,
                          uint32_t e) {
  uint32_t bits = emu_tensor_bits(type);
  if (bits == 64) return f64_of_bits(emu_u64(w, operand)[lane]);
  uint32_t word = emu_u32(w, operand)[lane] >> (e * bits);
  return value_of(type, bits == 32 ? word : word & ((1u << bits) - 1));
}

typedef struct {
  double a[MOST_ROWS][MOST_DEPTH], b[MOST_DEPTH][8], c[MOST_ROWS][8];
} tiles_t;

/* Element e of a register in each lane. The type is looked at once for all lanes, which leaves vector code
 * for the types that kernels use most. */
static void read_register(emu_warp_t *w, uint32_t operand, emu_tensor_type_t type, uint32_t e, double *out) {
  const uint32_t *lanes = emu_u32(w, operand);
  switch (type) {
  case EMU_TENSOR_F32:
    for (uint32_t lane = 0; lane < 32; lane++) out[lane] = f32_of_bits(lanes[lane]);
    break;
  case EMU_TENSOR_F16:
    for (uint32_t lane = 0; lane < 32; lane++) out[lane] = f32_of_f16(lanes[lane] >> (16 * e) & 0xffff);
    break;
  case EMU_TENSOR_BF16:
    for (uint32_t lane = 0; lane < 32; lane++) out[lane] = f32_of_bits(lanes[lane] >> (16 * e) << 16);
    break;
  case EMU_TENSOR_TF32:
    for (uint32_t lane = 0; lane < 32; lane++) out[lane] = f32_of_bits(lanes[lane] & ~0x1fffu);
    break;
  default:
    for (uint32_t lane = 0; lane < 32; lane++) out[lane] = emu_tensor_element(w, operand, lane, type, e);
    break;
  }
}

static uint32_t elements_of(emu_tensor_type_t type) {
  uint32_t bits = emu_tensor_bits(type);
  return bits >= 32 ? 1 : 32 / bits;
}

static void read_a(emu_warp_t *w, const emu_mma_t *m, const uint32_t *args, tiles_t *t) {
  uint32_t each = elements_of(m->a_type), halves = m->m / 8;
  double values[32];
  for (uint32_t r = 0; r < m->a_registers; r++)
    for (uint32_t e = 0; e < each; e++) {
      uint32_t row = 8 * (r % halves), column = 4 * each * (r / halves) + e;
      read_register(w, args[r], m->a_type, e, values);
      for (uint32_t lane = 0; lane < 32; lane++)
        t->a[row + lane / 4][column + lane % 4 * each] = values[lane];
    }
}

static void read_b(emu_warp_t *w, const emu_mma_t *m, const uint32_t *args, tiles_t *t) {
  uint32_t each = elements_of(m->b_type);
  double values[32];
  for (uint32_t r = 0; r < m->b_registers; r++)
    for (uint32_t e = 0; e < each; e++) {
      read_register(w, args[r], m->b_type, e, values);
      for (uint32_t lane = 0; lane < 32; lane++)
        t->b[4 * each * r + lane % 4 * each + e][lane / 4] = values[lane];
    }
}

static void read_c(emu_warp_t *w, const emu_mma_t *m, const uint32_t *args, tiles_t *t) {
  uint32_t each = emu_tensor_bits(m->c_type) == 16 ? 2 : 1;
  double values[32];
  for (uint32_t n = 0; n < m->m / 4; n++) {
    read_register(w, args[n / each], m->c_type, n % each, values);
    for (uint32_t lane = 0; lane < 32; lane++)
      t->c[lane / 4 + 8 * (n / 2)][lane % 4 * 2 + n % 2] = values[lane];
  }
}

uint64_t emu_tensor_encode(const emu_mma_t *m, double sum) {
  switch (m->d_type) {
  case EMU_TENSOR_F64:
    return bits_of_f64(sum);
  case EMU_TENSOR_F32:
    return canonical_f32((float)sum);
  case EMU_TENSOR_F16:
    return f16_of_f32((float)sum);
  default:
    return m->saturate ? (uint32_t)clamp_s32((int64_t)sum) : (uint32_t)(int64_t)sum;
  }
}

/* Where in the tile element n of a lane lies. */
static double *result_of(tiles_t *t, uint32_t n, uint32_t lane) {
  return &t->c[lane / 4 + 8 * (n / 2)][lane % 4 * 2 + n % 2];
}

static void write_d(emu_warp_t *w, const emu_mma_t *m, const uint32_t *args, tiles_t *t) {
  for (uint32_t n = 0; n < m->m / 4; n++) {
    uint32_t *lanes = emu_u32(w, args[m->d_type == EMU_TENSOR_F16 ? n / 2 : n]);
    if (m->d_type == EMU_TENSOR_F32)
      for (uint32_t lane = 0; lane < 32; lane++) lanes[lane] = canonical_f32((float)*result_of(t, n, lane));
    else
      for (uint32_t lane = 0; lane < 32; lane++) {
        uint64_t bits = emu_tensor_encode(m, *result_of(t, n, lane));
        if (m->d_type == EMU_TENSOR_F64)
          ((uint64_t *)lanes)[lane] = bits;
        else if (m->d_type == EMU_TENSOR_F16)
          ((uint16_t *)&lanes[lane])[n % 2] = (uint16_t)bits;
        else
          lanes[lane] = (uint32_t)bits;
      }
  }
}

/* In double, which holds products of floats of up to 24 bits exactly; the order of the sum is that of k. */
static void multiply(emu_warp_t *w, const emu_mma_t *m, tiles_t *t) {
  for (uint32_t row = 0; row < m->m; row += EMU_TENSOR_ROWS) {
    double sum[EMU_TENSOR_ROWS][8] = {{0}};
    w->worker->rows->tensor_rows(t->a[row], MOST_DEPTH, t->b, m->k, sum);
    for (uint32_t n = 0; n < EMU_TENSOR_ROWS; n++)
      for (uint32_t column = 0; column < 8; column++) t->c[row + n][column] += sum[n][column];
  }
}

/* Those that are no plain sum: f64 is fused into the addend, bits are compared. */
static void multiply_otherwise(const emu_mma_t *m, tiles_t *t) {
  for (uint32_t row = 0; row < m->m; row++)
    for (uint32_t k = 0; k < m->k; k++)
      for (uint32_t column = 0; column < 8; column++) {
        double a = t->a[row][k], b = t->b[k][column], *sum = &t->c[row][column];
        *sum = m->xor_popc ? *sum + (a != b) : __builtin_fma(a, b, *sum);
      }
}

bool emu_whole_warp(emu_warp_t *w, const emu_inst_t *i) {
  if (w->mask == ~0u) return true;
  emu_fault(w, i, (uint32_t)__builtin_ctz(~w->mask), CUDA_ERROR_ILLEGAL_INSTRUCTION,
            "a matrix instruction without all lanes of the warp");
  return false;
}

/* args: d, a, b, c registers, as many as i->mma says. */
const emu_inst_t *emu_exec_mma(emu_warp_t *w, const emu_inst_t *i) {
  const emu_mma_t *m = i->mma;
  tiles_t t;
  const uint32_t *a = i->args + m->d_registers, *b = a + m->a_registers, *c = b + m->b_registers;
  if (!emu_whole_warp(w, i)) return NULL;
  read_a(w, m, a, &t);
  read_b(w, m, b, &t);
  read_c(w, m, c, &t);
  if (m->d_type == EMU_TENSOR_F64 || m->xor_popc)
    multiply_otherwise(m, &t);
  else
    multiply(w, m, &t);
  write_d(w, m, i->args, &t);
  w->worker->counters.tensor_operations += m->m * 8ull * m->k;
  return i + 1;
}

/* The row of 16 bytes that lane `lane` names, counted and checked as one request per matrix of eight rows. */
static bool matrix_rows(emu_warp_t *w, const emu_inst_t *i, uint32_t operand, emu_access_t access,
                        emu_request_t *r) {
  if (!emu_whole_warp(w, i)) return false;
  w->mask = i->vector == 4 ? ~0u : (1u << (8 * i->vector)) - 1;
  emu_inst_t row = *i;
  row.bytes = 16;
  row.vector = 1;
  bool fine = emu_request(w, &row, operand, access, r);
  w->mask = ~0u;
  return fine;
}

/* Where in its matrix the half n of a lane's register lies. */
static uint32_t half_index(const emu_inst_t *i, uint32_t lane, uint32_t n, uint32_t *row) {
  uint32_t line = lane / 4, position = lane % 4 * 2 + n;
  *row = i->mode ? position : line;
  return i->mode ? line : position;
}

/* args: registers, address. vector: matrices; mode: .trans */
const emu_inst_t *emu_exec_load_matrix(emu_warp_t *w, const emu_inst_t *i) {
  emu_request_t r;
  if (!matrix_rows(w, i, i->args[i->vector], EMU_ACCESS_READ, &r)) return NULL;
  for (uint32_t matrix = 0; matrix < i->vector; matrix++)
    for (uint32_t lane = 0; lane < 32; lane++) {
      uint16_t halves[2];
      for (uint32_t n = 0; n < 2; n++) {
        uint32_t row, index = half_index(i, lane, n, &row);
        halves[n] = ((const uint16_t *)r.pointers[8 * matrix + row])[index];
      }
      emu_u32(w, i->args[matrix])[lane] = halves[0] | (uint32_t)halves[1] << 16;
    }
  return i + 1;
}

const emu_inst_t *emu_exec_store_matrix(emu_warp_t *w, const emu_inst_t *i) {
  emu_request_t r;
  if (!matrix_rows(w, i, i->args[i->vector], EMU_ACCESS_WRITE, &r)) return NULL;
  for (uint32_t matrix = 0; matrix < i->vector; matrix++)
    for (uint32_t lane = 0; lane < 32; lane++)
      for (uint32_t n = 0; n < 2; n++) {
        uint32_t row, index = half_index(i, lane, n, &row);
        ((uint16_t *)r.pointers[8 * matrix + row])[index] =
            (uint16_t)(emu_u32(w, i->args[matrix])[lane] >> (16 * n));
      }
  return i + 1;
}

/* arg: result, source. The matrix of 8 x 8 halves that lies over the warp, with rows and columns exchanged.
 */
const emu_inst_t *emu_exec_move_matrix(emu_warp_t *w, const emu_inst_t *i) {
  uint16_t matrix[8][8];
  if (!emu_whole_warp(w, i)) return NULL;
  for (uint32_t lane = 0; lane < 32; lane++)
    for (uint32_t n = 0; n < 2; n++)
      matrix[lane % 4 * 2 + n][lane / 4] = (uint16_t)(emu_u32(w, i->arg[1])[lane] >> (16 * n));
  for (uint32_t lane = 0; lane < 32; lane++) {
    const uint16_t *pair = &matrix[lane / 4][lane % 4 * 2];
    emu_u32(w, i->arg[0])[lane] = pair[0] | (uint32_t)pair[1] << 16;
  }
  return i + 1;
}
