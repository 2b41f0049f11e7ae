/* emulator/exec_mma_quads.c: mma.m8n8k4 of f16, the shape that Volta's tensor cores have: a warp computes
 * four products of 8 x 8 x 4, each by two quads of lanes, q and q + 4 (lanes 4q to 4q+3 and 16 more).
 *
 * Layout (PTX ISA, "Matrix Fragments for mma.m8n8k4 with .f16"), with r = lane % 4, and h = 4 for the upper
 * quad, else 0: A by rows     element n: row r + h, column n           by columns  row n + h, column r B by
 * columns  element n: row n, column r + h           by rows     row r, column n + h C, D of f16   element n:
 * row r + h, column n C, D of f32   element n: row (r & 1) + (n & 2) + h, column (n & 4) + (r & 2) + (n & 1)
 * Sums are taken in double and rounded once. Called for the whole warp; see ops.h.
 */
#include "emulator/exec_tensor.h"
#include "emulator/ops.h"

typedef struct {
  uint32_t row, column;
} place_t;

typedef struct {
  double a[8][4], b[4][8], c[8][8];
} quad_tiles_t;

static place_t place_of_sum(uint32_t lane, uint32_t n, emu_tensor_type_t type) {
  uint32_t r = lane % 4, h = lane & 16 ? 4 : 0;
  if (type == EMU_TENSOR_F16) return (place_t){r + h, n};
  return (place_t){(r & 1) + (n & 2) + h, (n & 4) + (r & 2) + (n & 1)};
}

static double half_at(emu_warp_t *w, const uint32_t *registers, uint32_t lane, uint32_t n) {
  return emu_tensor_element(w, registers[n / 2], lane, EMU_TENSOR_F16, n % 2);
}

static void read_factors(emu_warp_t *w, const emu_mma_t *m, const uint32_t *a, const uint32_t *b,
                         uint32_t lane, quad_tiles_t *t) {
  uint32_t r = lane % 4, h = lane & 16 ? 4 : 0;
  for (uint32_t n = 0; n < 4; n++) {
    *(m->a_column ? &t->a[n + h][r] : &t->a[r + h][n]) = half_at(w, a, lane, n);
    *(m->b_row ? &t->b[r][n + h] : &t->b[n][r + h]) = half_at(w, b, lane, n);
  }
}

static void read_sums(emu_warp_t *w, const emu_mma_t *m, const uint32_t *c, uint32_t lane, quad_tiles_t *t) {
  for (uint32_t n = 0; n < 8; n++) {
    place_t at = place_of_sum(lane, n, m->c_type);
    t->c[at.row][at.column] = m->c_type == EMU_TENSOR_F16
                                  ? half_at(w, c, lane, n)
                                  : emu_tensor_element(w, c[n], lane, EMU_TENSOR_F32, 0);
  }
}

static void multiply(quad_tiles_t *t) {
  for (uint32_t row = 0; row < 8; row++)
    for (uint32_t column = 0; column < 8; column++) {
      double sum = 0;
      for (uint32_t k = 0; k < 4; k++) sum += t->a[row][k] * t->b[k][column];
      t->c[row][column] += sum;
    }
}

static void write_sums(emu_warp_t *w, const emu_mma_t *m, const uint32_t *d, uint32_t lane,
                       const quad_tiles_t *t) {
  for (uint32_t n = 0; n < 8; n++) {
    place_t at = place_of_sum(lane, n, m->d_type);
    uint64_t bits = emu_tensor_encode(m, t->c[at.row][at.column]);
    if (m->d_type == EMU_TENSOR_F16)
      ((uint16_t *)&emu_u32(w, d[n / 2])[lane])[n % 2] = (uint16_t)bits;
    else
      emu_u32(w, d[n])[lane] = (uint32_t)bits;
  }
}

static bool is_of_quads(uint32_t lane, uint32_t quad) { return lane % 16 / 4 == quad; }

/* args: d, a, b, c registers, as many as i->mma says. */
const emu_inst_t *emu_exec_mma_quads(emu_warp_t *w, const emu_inst_t *i) {
  const emu_mma_t *m = i->mma;
  const uint32_t *a = i->args + m->d_registers, *b = a + m->a_registers, *c = b + m->b_registers;
  if (!emu_whole_warp(w, i)) return NULL;
  for (uint32_t quad = 0; quad < 4; quad++) {
    quad_tiles_t t;
    for (uint32_t lane = 0; lane < 32; lane++) {
      if (!is_of_quads(lane, quad)) continue;
      read_factors(w, m, a, b, lane, &t);
      read_sums(w, m, c, lane, &t);
    }
    multiply(&t);
    for (uint32_t lane = 0; lane < 32; lane++)
      if (is_of_quads(lane, quad)) write_sums(w, m, i->args, lane, &t);
  }
  w->worker->counters.tensor_operations += 4 * 8 * 8 * 4;
  return i + 1;
}
