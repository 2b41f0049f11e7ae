/* codegen/contraction_parts.c: blocks that share a tile of results along K, where tiles are too few to fill
 * the device.
 *
 *   K |--part 0--|--part 1--|--part 2--|   a block each: its sums -> workspace
 *                                          [the last to arrive] adds them, in the order of K -> epilogue
 *
 * The rule, in cycles of an SM: a part has 1/parts of the tile's work. Parts meet at the price of a fence, an
 * atomic operation and a wait for memory, about 2,500 cycles; and the last block reads the sums of all parts
 * by itself, 32 bytes a cycle. Parts are at most as many as leave each block an SM of its own, and have at
 * least 512 of K. Of those numbers the one that costs least; it follows from the shape, the tile, the dtype
 * and the device. Tiles are counted before anything runs, so sizes but K have no symbols; members of a group
 * fill the device together. Called by contraction_plan.c, contraction_vector.c and contraction_emit.c.
 */
#include "codegen/contraction.h"

#include <math.h>

enum { MEETING_CYCLES = 2500, READ_BYTES_PER_CYCLE = 32, LEAST_K = 512, MOST_PARTS = 32 };

#define LINE(w, ...) kiln_emit_line(&(w)->emitter, __VA_ARGS__)

/* --- the rule ------------------------------------------------------------------------------------------ */

bool kiln_contraction_is_static(const kiln_contraction_t *c) {
  return kiln_dim_is_constant(c->m.extent) && kiln_dim_is_constant(c->n.extent) &&
         kiln_dim_is_constant(c->batch.extent);
}

uint32_t kiln_contraction_parts(const kiln_contraction_t *c, const kiln_tile_t *tile, double cycles_per_k) {
  if (!kiln_contraction_is_static(c) || c->context->grouped) return 1;
  double tiles = ceil((double)c->m.extent.constant / tile->m) * ceil((double)c->n.extent.constant / tile->n) *
                 (double)c->batch.extent.constant;
  double k = kiln_contraction_typical(c, c->k.extent);
  double part_bytes = (double)tile->m * tile->n * (double)kiln_dtype_bytes(c->accumulator);
  uint32_t best = 1;
  double least = cycles_per_k * k;
  for (uint32_t parts = 2; tiles > 0 && parts <= MOST_PARTS; parts++) {
    if (parts * tiles > c->context->target->sm_count || k / parts < LEAST_K) break;
    double cycles = cycles_per_k * k / parts + MEETING_CYCLES + parts * part_bytes / READ_BYTES_PER_CYCLE;
    if (cycles >= least) continue;
    best = parts;
    least = cycles;
  }
  return best;
}

/* --- the launch ---------------------------------------------------------------------------------------- */

void kiln_contraction_add_parts(const kiln_contraction_t *c, kiln_kernel_source_t *kernel) {
  if (c->tile.parts == 1) return;
  int64_t tiles = kernel->grid[0].dim.constant;
  int64_t bytes = (int64_t)c->tile.m * c->tile.n * (int64_t)kiln_dtype_bytes(c->accumulator);
  kernel->grid[1] = (kiln_extent_t){kiln_dim_constant(c->tile.parts), 1};
  kernel->scratch =
      (kiln_scratch_t){kiln_dim_constant(tiles * c->tile.parts * bytes), kiln_dim_constant(tiles)};
}

/* --- source -------------------------------------------------------------------------------------------- */

void kiln_contraction_emit_range(kiln_contraction_writer_t *w, const char *type, const char *steps) {
  uint32_t parts = w->c->tile.parts;
  LINE(w,
       "// K has %u parts, each a block's; the last to arrive adds up what all have left in the workspace.",
       parts);
  LINE(w, "const %s steps_of_part = (%s + %u) / %u, first_step = blockIdx.y * steps_of_part;", type, steps,
       parts - 1, parts);
  LINE(w, "const %s end_step = first_step + steps_of_part < %s ? first_step + steps_of_part : %s;", type,
       steps, steps);
}

void kiln_contraction_emit_meeting(kiln_contraction_writer_t *w) {
  const kiln_contraction_t *c = w->c;
  uint32_t results = c->tile.m * c->tile.n;
  LINE(w, "__syncthreads();");
  LINE(w, "%s *const all_parts = reinterpret_cast<%s *>(workspace) + blockIdx.x * %lluull;", w->sum_tile,
       w->sum_tile, (unsigned long long)results * c->tile.parts);
  LINE(w, "for (int i = threadIdx.x; i < %u; i += %u)", results, c->tile.threads);
  LINE(w, "  all_parts[blockIdx.y * %u + i] = sums[i / %u * %u + i %% %u];", results, c->tile.n,
       kiln_contraction_sums_stride(c), c->tile.n);
  LINE(w, "if (!kiln_is_last<%u>(counters + blockIdx.x)) return;", c->tile.parts);
  LINE(w, "for (int i = threadIdx.x; i < %u; i += %u) {", results, c->tile.threads);
  LINE(w, "  %s total = 0;", w->sum);
  LINE(w, "#pragma unroll");
  LINE(w, "  for (int part = 0; part < %u; ++part) total += all_parts[part * %u + i];", c->tile.parts,
       results);
  LINE(w, "  sums[i / %u * %u + i %% %u] = total;", c->tile.n, kiln_contraction_sums_stride(c), c->tile.n);
  LINE(w, "}");
}
