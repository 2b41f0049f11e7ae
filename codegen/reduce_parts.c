/* codegen/reduce_parts.c: rows that several blocks share, because there are too few to fill the device.
 *
 *   a part of the row -> partial results -> workspace -> [the last block to arrive] a tree over the parts
 *
 * Which block is last differs from run to run; what it computes does not. Each row has a counter, which goes
 * back to 0 by itself. Where a result is needed before the row is over (by a second reduction on top of the
 * first, or by stores of the row's shape), blocks would have to wait for each other: there one block does all
 * parts, one after the other. So a sum is made in the same order either way. Called by rows_emit.c and
 * columns_emit.c.
 */
#include "codegen/reduce_emit.h"

static kiln_emitter_t *emitter_of(const kiln_reduce_writer_t *w) { return w->r.emitter; }

bool kiln_parts_may_split(const kiln_reduce_writer_t *w) {
  bool may = w->levels == 1;
  for (uint32_t i = 0; !w->lanes_are_results && i < w->r.region->store_count; i++)
    may &= !kiln_reduce_store_varies(w, &w->r.region->stores[i]);
  return may;
}

/* --- the workspace ------------------------------------------------------------------------------------- */

static bool is_reduction(const kiln_reduce_writer_t *w, kiln_expr_id_t id) {
  return w->r.reachable[id] && kiln_reduce_expr(w, id)->kind == KILN_EXPR_REDUCE;
}

/* Of all partial results of one reduction; a place is a value and an i64. */
static uint64_t bytes_of(const kiln_reduce_writer_t *w, const kiln_parts_t *parts, kiln_expr_id_t id) {
  const kiln_expr_t *expr = kiln_reduce_expr(w, id);
  uint64_t each = kiln_dtype_bytes(kiln_reduce_expr(w, expr->operands[0])->dtype);
  if (kiln_reduce_finds_place(expr->op))
    each = 16;
  else if (each < 4)
    each = 4; /* halves are floats here */
  return (each * parts->count * parts->results + 15) / 16 * 16;
}

static uint64_t unit_bytes(const kiln_reduce_writer_t *w, const kiln_parts_t *parts) {
  uint64_t bytes = 0;
  for (kiln_expr_id_t i = 0; i < w->r.count; i++) bytes += is_reduction(w, i) ? bytes_of(w, parts, i) : 0;
  return bytes;
}

void kiln_parts_declare(kiln_reduce_writer_t *w, const kiln_parts_t *parts) {
  unsigned long long offset = 0, step = unit_bytes(w, parts);
  for (kiln_expr_id_t i = 0; i < w->r.count; i++) {
    if (!is_reduction(w, i)) continue;
    const char *type = kiln_reduce_type(w, i);
    kiln_emit_line(emitter_of(w), "%s *const w%u = reinterpret_cast<%s *>(workspace + %s * %lluull + %llu);",
                   type, i, type, parts->unit, step, offset);
    offset += bytes_of(w, parts, i);
  }
}

/* ceil(dim / divisor) units are at most dim / divisor + 1, of bytes that the divisor divides. */
kiln_scratch_t kiln_parts_scratch(const kiln_reduce_writer_t *w, const kiln_parts_t *parts,
                                  kiln_extent_t units) {
  kiln_kernel_t *kernel = emitter_of(w)->kernel;
  kiln_dim_t count = units.dim, bytes;
  kiln_dim_t each = kiln_dim_constant((int64_t)unit_bytes(w, parts));
  if (kiln_dim_is_constant(count)) {
    count = kiln_dim_constant((count.constant + units.divisor - 1) / units.divisor);
    bytes = kiln_kernel_dim_mul(kernel, count, each);
  } else {
    kiln_dim_t share = kiln_dim_constant((each.constant + units.divisor - 1) / units.divisor);
    bytes = kiln_kernel_dim_add(kernel, kiln_kernel_dim_mul(kernel, count, share), each);
    count = kiln_kernel_dim_add(kernel, count, kiln_dim_constant(1));
  }
  return (kiln_scratch_t){bytes, parts->is_split ? count : kiln_dim_constant(0)};
}

/* --- parts --------------------------------------------------------------------------------------------- */

void kiln_parts_open(kiln_reduce_writer_t *w, const kiln_parts_t *parts) {
  if (parts->is_split) {
    kiln_emit_line(emitter_of(w), "const int part = blockIdx.y;");
    return;
  }
  kiln_emit_line(emitter_of(w), "for (int part = 0; part < %u; ++part) {", parts->count);
  emitter_of(w)->indent++;
}

void kiln_parts_close(kiln_reduce_writer_t *w, const kiln_parts_t *parts) {
  if (parts->is_split) {
    kiln_emit_line(emitter_of(w), "if (!kiln_is_last<%u>(counters + %s)) return;", parts->count, parts->unit);
    return;
  }
  kiln_emit_line(emitter_of(w), "__syncthreads();");
  emitter_of(w)->indent--;
  kiln_emit_line(emitter_of(w), "}");
}
