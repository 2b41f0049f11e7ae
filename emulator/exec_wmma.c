/* emulator/exec_wmma.c: wmma: loads of matrix fragments, their product, stores.
 *
 * Which lane holds which element is the ISA's secret, and here this: with E elements to a register, register
 * r of a lane holds elements (r*32 + lane)*E to + E-1 of the matrix, row by row, over again where there are
 * more registers than elements. B's fragment is that of the transposed matrix, so that the elements of a
 * register are neighbours in k for both factors. Sums are as those of mma.sync. Called for the whole warp;
 * see ops.h.
 */
#include "emulator/exec_memory.h"
#include "emulator/exec_tensor.h"
#include "emulator/ops.h"

#include <math.h>
#include <string.h>

#define MOST_ELEMENTS 1024 /* 8 x 128 bits */

/* Elements that lie in one register. */
static uint32_t per_register(emu_tensor_type_t type) {
  uint32_t bits = emu_tensor_bits(type);
  return bits >= 32 ? 1 : 32 / bits;
}

/* --- transfers --- */

/* Puts the addresses of the lanes' next accesses into the scratch vector and resolves them. `element` is the
 * first of the access in each lane's register r. */
static bool resolve(emu_warp_t *w, const emu_inst_t *i, uint32_t r, uint32_t element, emu_access_t access,
                    emu_request_t *out) {
  const emu_mma_t *m = i->mma;
  const uint32_t *extra = i->args + m->a_registers; /* base, stride, scratch */
  uint32_t bits = emu_tensor_bits(m->a_type), each = per_register(m->a_type);
  for (uint32_t lane = 0; lane < 32; lane++) {
    uint32_t index = ((r * 32 + lane) * each + element) % (m->m * m->k);
    uint64_t row = index / m->k, column = index % m->k, stride = emu_u32(w, extra[1])[lane];
    uint64_t at = i->mode ? column * stride + row : row * stride + column;
    uint64_t base = i->width == 4 ? emu_u32(w, extra[0])[lane] : emu_u64(w, extra[0])[lane];
    emu_u64(w, extra[2])[lane] = base + at * bits / 8;
  }
  emu_inst_t one = *i;
  one.width = 8;
  one.vector = 1;
  one.bytes = (uint8_t)(bits < 8 ? 4 : bits / 8);
  return emu_request(w, &one, extra[2], access, out);
}

/* Elements narrower than a byte move a register at a time, others one by one. */
static uint32_t accesses_per_register(emu_tensor_type_t type) {
  return emu_tensor_bits(type) < 8 ? 1 : per_register(type);
}

static unsigned char *lane_register(emu_warp_t *w, const emu_inst_t *i, uint32_t r, uint32_t lane) {
  bool wide = emu_tensor_bits(i->mma->a_type) == 64;
  return w->frame + i->args[r] + lane * (wide ? 8 : 4);
}

static const emu_inst_t *transfer(emu_warp_t *w, const emu_inst_t *i, emu_access_t access) {
  const emu_mma_t *m = i->mma;
  uint32_t bits = emu_tensor_bits(m->a_type), bytes = bits < 8 ? 4 : bits / 8;
  emu_request_t request;
  if (!emu_whole_warp(w, i)) return NULL;
  for (uint32_t r = 0; r < m->a_registers; r++)
    for (uint32_t e = 0; e < accesses_per_register(m->a_type); e++) {
      if (!resolve(w, i, r, e, access, &request)) return NULL;
      for (uint32_t lane = 0; lane < 32; lane++) {
        unsigned char *held = lane_register(w, i, r, lane) + e * bytes;
        if (access == EMU_ACCESS_READ)
          memcpy(held, request.pointers[lane], bytes);
        else
          memcpy(request.pointers[lane], held, bytes);
      }
    }
  return i + 1;
}

/* args: registers, then address, stride and scratch. mma: m x k elements of a_type. mode: by columns */
const emu_inst_t *emu_exec_wmma_load(emu_warp_t *w, const emu_inst_t *i) {
  return transfer(w, i, EMU_ACCESS_READ);
}

const emu_inst_t *emu_exec_wmma_store(emu_warp_t *w, const emu_inst_t *i) {
  return transfer(w, i, EMU_ACCESS_WRITE);
}

/* --- product --- */

static void read_fragment(emu_warp_t *w, const uint32_t *args, uint32_t registers, emu_tensor_type_t type,
                          uint32_t elements, double *out_values) {
  uint32_t each = per_register(type);
  for (uint32_t r = 0; r < registers; r++)
    for (uint32_t lane = 0; lane < 32; lane++)
      for (uint32_t e = 0; e < each; e++)
        out_values[((r * 32 + lane) * each + e) % elements] = emu_tensor_element(w, args[r], lane, type, e);
}

static double dot(const emu_mma_t *m, const double *a, const double *b, double c) {
  bool exact = m->d_type == EMU_TENSOR_F64;
  double sum = exact ? c : 0;
  for (uint32_t k = 0; k < m->k; k++)
    sum = exact ? fma(a[k], b[k], sum) : sum + (m->xor_popc ? (double)(a[k] != b[k]) : a[k] * b[k]);
  return exact ? sum : c + sum;
}

/* args: d, a, b, c registers, as many as i->mma says. */
const emu_inst_t *emu_exec_wmma(emu_warp_t *w, const emu_inst_t *i) {
  const emu_mma_t *m = i->mma;
  double a[MOST_ELEMENTS], b[MOST_ELEMENTS], c[MOST_ELEMENTS];
  const uint32_t *args = i->args + m->d_registers;
  if (!emu_whole_warp(w, i)) return NULL;
  read_fragment(w, args, m->a_registers, m->a_type, m->m * m->k, a);
  args += m->a_registers;
  read_fragment(w, args, m->b_registers, m->b_type, m->n * m->k, b);
  args += m->b_registers;
  read_fragment(w, args, m->c_registers, m->c_type, m->m * m->n, c);
  uint32_t each = per_register(m->d_type), bytes = emu_tensor_bits(m->d_type) / 8;
  for (uint32_t index = 0; index < m->m * m->n; index++) {
    uint32_t row = index / m->n, column = index % m->n, unit = index / each;
    uint64_t bits = emu_tensor_encode(m, dot(m, a + row * m->k, b + column * m->k, c[index]));
    unsigned char *vector = w->frame + i->args[unit / 32];
    memcpy(vector + (unit % 32 * each + index % each) * bytes, &bits, bytes);
  }
  w->worker->counters.tensor_operations += (uint64_t)m->m * m->n * m->k;
  return i + 1;
}
