/* codegen/contraction_vector.c: a matrix times a vector, where memory is all that counts, and small products.
 *
 * The matrix is read once, 16 bytes a thread, whichever way it lies. Along k: a warp (or a block, when there
 * are few rows) takes a row, and its lanes add up by shuffles. Along its rows: a thread takes neighbouring
 * rows, the eight warps of a block every eighth k, and they meet in shared memory. The vector comes from the
 * caches. Sums depend on the shape alone. Called by contraction_plan.c and contraction_emit.c.
 */
#include "codegen/contraction.h"
#include "codegen/emit_region.h"

enum { WARPS = 8, READ_BYTES_PER_CYCLE = 24 /* of an SM, its share of the memory of an H200 */ };

#define LINE(w, ...) kiln_emit_line(&(w)->emitter, __VA_ARGS__)

/* --- plan ---------------------------------------------------------------------------------------------- */

/* One operand's element in the accumulator's dtype, as a store to nowhere: it decides what is read, and how
 * wide. */
static kiln_kernel_store_t part_store(kiln_contraction_t *c, uint32_t number,
                                      const kiln_space_axis_t *inner) {
  kiln_kernel_buffer_t part = {.kind = KILN_KERNEL_SHARED,
                               .name = number ? "b_part" : "a_part",
                               .ref.index = 3 + number,
                               .dtype = c->dtype,
                               .written = true,
                               .align_bytes = 16};
  kiln_expr_id_t value = number ? c->b.scalar : c->a.scalar;
  if (c->accumulator != c->dtype)
    value = kiln_scalar_op(c->kernel, KILN_OP_cast, c->accumulator, &value, 1, KILN_NO_NODE);
  return (kiln_kernel_store_t){kiln_kernel_buffer(c->kernel, part), inner->index, value};
}

/* Along rows a block has 32 times as many rows as a thread: fewer of them where that would leave SMs idle. */
static uint32_t most_lanes(const kiln_contraction_t *c, const kiln_vector_plan_t *plan) {
  uint32_t lanes = kiln_contraction_chunk(c);
  if (!plan->along_rows) return lanes;
  double rows =
      kiln_contraction_typical(c, plan->matrix->rows->extent) * kiln_contraction_typical(c, c->batch.extent);
  uint32_t least = kiln_dtype_bytes(c->dtype) < 4 ? 4 / (uint32_t)kiln_dtype_bytes(c->dtype) : 1;
  while (lanes > least && rows / (32 * lanes) < c->context->target->sm_count) lanes /= 2;
  return lanes;
}

static kiln_region_t plan_region(kiln_contraction_t *c, const kiln_vector_plan_t *plan) {
  kiln_kernel_t *kernel = c->kernel;
  const kiln_space_axis_t *rows = plan->per_thread ? &c->n : plan->matrix->rows;
  const kiln_space_axis_t *outer = plan->along_rows ? &c->k : rows, *inner = plan->along_rows ? rows : &c->k;
  kiln_kernel_store_t stores[] = {part_store(c, 0, inner), part_store(c, 1, inner)};
  const uint32_t axes[] = {c->batch.axis, outer->axis, inner->axis};
  kiln_region_t region = {.axes = kiln_arena_copy(kernel->arena, axes, sizeof axes),
                          .axis_count = 3,
                          .lanes = 1,
                          .most_lanes = most_lanes(c, plan),
                          .stores = kiln_arena_copy(kernel->arena, stores, sizeof stores),
                          .store_count = 2};
  return kiln_schedule_vectorize(kernel, region, c->context);
}

void kiln_contraction_plan_vector(kiln_contraction_t *c) {
  kiln_vector_plan_t *plan = &c->vector;
  if (plan->per_thread) {
    plan->region = plan_region(c, plan);
    c->tile = (kiln_tile_t){.m = 1, .n = 1, .threads = 32 * WARPS, .parts = 1};
    return;
  }
  bool is_row = kiln_dim_is(c->m.extent, 1);
  plan->matrix = is_row ? &c->b : &c->a;
  plan->along_rows = kiln_contraction_contiguous(c, plan->matrix, true) >
                     kiln_contraction_contiguous(c, plan->matrix, false);
  double rows =
      kiln_contraction_typical(c, plan->matrix->rows->extent) * kiln_contraction_typical(c, c->batch.extent);
  plan->warps_per_row = rows < 2 * c->context->target->sm_count ? WARPS : 1;
  plan->region = plan_region(c, plan);
  uint32_t tile = plan->along_rows ? 32 * plan->region.lanes : WARPS / plan->warps_per_row;
  c->tile = (kiln_tile_t){.m = is_row ? 1 : tile, .n = is_row ? tile : 1, .threads = 32 * WARPS};
  double row_bytes = (double)kiln_dtype_bytes(c->dtype); /* for each of K */
  c->tile.parts = kiln_contraction_parts(c, &c->tile, tile * row_bytes / READ_BYTES_PER_CYCLE);
}

uint32_t kiln_contraction_vector_parts(const kiln_contraction_t *c) {
  return c->vector.along_rows ? WARPS * 32 * c->vector.region.lanes : WARPS;
}

/* --- source -------------------------------------------------------------------------------------------- */

static const char *step_name(kiln_contraction_writer_t *w, const char *axis) {
  uint32_t lanes = w->c->vector.region.lanes;
  return lanes > 1 ? kiln_arena_printf(w->c->kernel->arena, "%s_by_%u", axis, lanes) : axis;
}

/* The number of steps along an axis; the lanes divide it. */
static const char *step_count(kiln_contraction_writer_t *w, kiln_dim_t extent) {
  uint32_t lanes = w->c->vector.region.lanes;
  const char *text = kiln_emit_dim(&w->emitter, extent, false);
  return lanes > 1 ? kiln_arena_printf(w->c->kernel->arena, "%s / %u", text, lanes) : text;
}

/* The product of one lane's elements is added to that lane's sum. */
static void emit_product(kiln_contraction_writer_t *w, const char *lane) {
  const kiln_kernel_store_t *stores = w->c->vector.region.stores;
  const char *sums = w->has_chains ? "part" : "total";
  LINE(w, "%s[%s] = kiln_multiply_add((%s)%s, (%s)%s, %s[%s]);", sums, lane, w->sum,
       kiln_emit_value(&w->emitter, stores[0].value), w->sum, kiln_emit_value(&w->emitter, stores[1].value),
       sums, lane);
}

/* What is the same for all lanes, whole vectors, then lane by lane. */
static void emit_products(kiln_contraction_writer_t *w) {
  kiln_region_writer_t r = kiln_region_writer(&w->emitter, &w->c->vector.region);
  bool has_lanes = r.region->lanes > 1;
  if (has_lanes) kiln_emit_name_axis(&w->emitter, r.region->lane_axis, "lane", false);
  for (kiln_expr_id_t i = 0; i < r.count; i++) {
    if (!r.reachable[i]) continue;
    if (!r.lanes.depends[i])
      kiln_emit_expr(&r, i);
    else if (r.load_widths[i] > 1)
      kiln_emit_vector_load(&r, i);
  }
  if (!has_lanes) {
    emit_product(w, "0");
    return;
  }
  LINE(w, "#pragma unroll");
  LINE(w, "for (int lane = 0; lane < %u; ++lane) {", r.region->lanes);
  w->emitter.indent++;
  for (kiln_expr_id_t i = 0; i < r.count; i++) {
    if (!r.reachable[i] || !r.lanes.depends[i]) continue;
    if (r.load_widths[i] > 1)
      kiln_emit_lane_of_vector(&r, i);
    else
      kiln_emit_expr(&r, i);
  }
  emit_product(w, "lane");
  w->emitter.indent--;
  LINE(w, "}");
}

static void emit_step(kiln_contraction_writer_t *w, const char *step) {
  const kiln_contraction_t *c = w->c;
  const kiln_region_t *region = &c->vector.region;
  const kiln_space_axis_t *axes[] = {&c->batch, &c->m, &c->n, &c->k};
  const char *const names[] = {"batch", "m", "n", "k"};
  bool is_wide = w->type[0] == 'l';
  kiln_emit_start_region(&w->emitter);
  for (int i = 0; i < 4; i++) kiln_emit_name_axis(&w->emitter, axes[i]->axis, names[i], is_wide);
  if (region->axis_count == 3) kiln_emit_name_axis(&w->emitter, region->axes[2], step, is_wide);
  emit_products(w);
}

static void emit_add_parts(kiln_contraction_writer_t *w) {
  LINE(w, "#pragma unroll");
  LINE(w, "for (int e = 0; e < %u; ++e) total[e] += part[e], part[e] = 0;", w->c->vector.region.lanes);
}

/* for (name = first; name < end; name += stride) steps, in two levels where K may be long. */
static void emit_steps(kiln_contraction_writer_t *w, const char *name, const char *first, const char *end,
                       uint32_t stride, const char *inner) {
  uint32_t lanes = w->c->vector.region.lanes;
  LINE(w, "%s total[%u] = {};", w->sum, lanes);
  if (w->has_chains) {
    LINE(w, "%s part[%u] = {};", w->sum, lanes);
    LINE(w, "int chain = 0;");
  }
  LINE(w, "#pragma unroll 4");
  LINE(w, "for (%s %s = %s; %s < %s; %s += %u) {", w->type, name, first, name, end, name, stride);
  w->emitter.indent++;
  emit_step(w, inner);
  if (w->has_chains) {
    LINE(w, "if (++chain %% %d == 0) {", KILN_CONTRACTION_CHAIN);
    w->emitter.indent++;
    emit_add_parts(w);
    w->emitter.indent--;
    LINE(w, "}");
  }
  w->emitter.indent--;
  LINE(w, "}");
  if (w->has_chains) emit_add_parts(w);
}

/* Of this many steps, those of the block: the end, after their definition where they are a part. */
static const char *range_end(kiln_contraction_writer_t *w, const char *steps) {
  if (w->c->tile.parts == 1) return steps;
  kiln_contraction_emit_range(w, w->type, steps);
  return "end_step";
}

/* Where row `text` of the block's lies among the sums. */
static const char *place(kiln_contraction_writer_t *w, const char *text) {
  const kiln_contraction_t *c = w->c;
  if (c->vector.matrix == &c->b) return text;
  return kiln_arena_printf(c->kernel->arena, "(%s) * %u", text, kiln_contraction_sums_stride(c));
}

static void emit_along_k(kiln_contraction_writer_t *w) {
  const kiln_contraction_t *c = w->c;
  const kiln_vector_plan_t *plan = &c->vector;
  kiln_arena_t *arena = c->kernel->arena;
  const char *row = plan->matrix->row_name, *step = step_name(w, "k");
  uint32_t warps = plan->warps_per_row;
  LINE(w, "// %s takes a row, %u element%s a lane at a time.", warps == 1 ? "A warp" : "The block",
       plan->region.lanes, plan->region.lanes == 1 ? "" : "s");
  LINE(w, "const %s %s = tile_%s * %u + warp / %u;", w->type, row, row, WARPS / warps, warps);
  LINE(w, "%s sum = 0;", w->sum);
  LINE(w, "if (%s < %s) {", row, kiln_emit_dim(&w->emitter, plan->matrix->rows->extent, false));
  w->emitter.indent++;
  const char *first = kiln_arena_printf(arena, "%swarp %% %u * 32 + lane",
                                        w->c->tile.parts > 1 ? "first_step + " : "", warps);
  emit_steps(w, step, first, range_end(w, step_count(w, c->k.extent)), 32 * warps, step);
  LINE(w, "sum = kiln_add_up(total);");
  w->emitter.indent--;
  LINE(w, "}");
  LINE(w, "#pragma unroll");
  LINE(w, "for (int mask = 16; mask > 0; mask /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, mask);");
  if (warps == 1) {
    LINE(w, "if (lane == 0) sums[%s] = sum;", place(w, "warp"));
    return;
  }
  LINE(w, "if (lane == 0) parts[warp] = sum;");
  LINE(w, "__syncthreads();");
  LINE(w, "if (threadIdx.x == 0) sums[0] = kiln_add_up(*reinterpret_cast<%s(*)[%u]>(parts));", w->sum, WARPS);
}

static void emit_along_rows(kiln_contraction_writer_t *w) {
  const kiln_contraction_t *c = w->c;
  const kiln_vector_plan_t *plan = &c->vector;
  const char *row = step_name(w, plan->matrix->row_name);
  uint32_t lanes = plan->region.lanes, rows = 32 * lanes;
  LINE(w, "// A thread takes %u row%s, a warp every %uth of k.", lanes, lanes == 1 ? "" : "s", WARPS);
  LINE(w, "const %s %s = tile_%s * 32 + lane;", w->type, row, plan->matrix->row_name);
  LINE(w, "if (%s < %s) {", row, step_count(w, plan->matrix->rows->extent));
  w->emitter.indent++;
  emit_steps(w, "k", c->tile.parts > 1 ? "first_step + warp" : "warp",
             range_end(w, kiln_emit_dim(&w->emitter, c->k.extent, false)), WARPS, row);
  LINE(w, "#pragma unroll");
  LINE(w, "for (int e = 0; e < %u; ++e) parts[warp * %u + e * 32 + lane] = total[e];", lanes, rows);
  w->emitter.indent--;
  LINE(w, "}");
  LINE(w, "__syncthreads();");
  LINE(w, "if (threadIdx.x < %u && (tile_%s * 32 + threadIdx.x / %u) < %s) {", rows, plan->matrix->row_name,
       lanes, step_count(w, plan->matrix->rows->extent));
  LINE(w, "  %s total[%u];", w->sum, WARPS);
  LINE(w, "#pragma unroll");
  LINE(w,
       "  for (int i = 0; i < %u; ++i) total[i] = parts[i * %u + threadIdx.x %% %u * 32 + threadIdx.x / %u];",
       WARPS, rows, lanes, lanes);
  LINE(w, "  sums[%s] = kiln_add_up(total);", place(w, "threadIdx.x"));
  LINE(w, "}");
}

void kiln_contraction_emit_vector(kiln_contraction_writer_t *w) {
  LINE(w, "%s *const parts = reinterpret_cast<%s *>(kiln_shared);", w->sum, w->sum);
  LINE(w, "%s *const sums = reinterpret_cast<%s *>(parts + %u);", w->sum_tile, w->sum_tile,
       kiln_contraction_vector_parts(w->c));
  LINE(w, "const int lane = threadIdx.x %% 32, warp = threadIdx.x / 32;");
  if (w->c->vector.along_rows)
    emit_along_rows(w);
  else
    emit_along_k(w);
}

/* Neighbouring threads have neighbouring n. */
void kiln_contraction_emit_per_thread(kiln_contraction_writer_t *w) {
  const kiln_contraction_t *c = w->c;
  kiln_kernel_t *kernel = c->kernel;
  kiln_dim_t products = kiln_kernel_dim_mul(kernel, c->m.extent, c->n.extent);
  kiln_dim_t results = kiln_kernel_dim_mul(kernel, products, c->batch.extent);
  bool wide = w->type[0] == 'l';
  const char *n = kiln_emit_dim(&w->emitter, c->n.extent, wide),
             *mn = kiln_emit_dim(&w->emitter, products, wide);
  LINE(w, "// A thread for each result.");
  LINE(w, "const %s result = (%s)%s * %u + threadIdx.x;", w->type, w->type, kiln_emit_block(&w->emitter),
       c->tile.threads);
  LINE(w, "if (result >= %s) return;", kiln_emit_dim(&w->emitter, results, wide));
  LINE(w, "const %s batch = result / %s, m = result %% %s / %s, n = result %% %s;", w->type, mn, mn, n, n);
  emit_steps(w, step_name(w, "k"), "0", step_count(w, c->k.extent), 1, step_name(w, "k"));
  LINE(w, "const %s sums[] = {(%s)kiln_add_up(total)};", w->sum_tile, w->sum_tile);
}
