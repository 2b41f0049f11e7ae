/* codegen/columns_emit.c: reductions along an axis that does not lie along memory, as CUDA source.
 *
 *   place of the thread -> for each level of reductions: { loop over every DEPTH-th element of the thread's
 *   results, a tree over the DEPTH threads that share them, through shared memory } -> stores
 *
 * The lanes of a thread are neighbouring results, neighbouring threads have neighbouring vectors of them: 8
 * threads read 128 bytes of a row, DEPTH rows at a time. Where rows have odd places, a thread has one result
 * and up to 128 stand side by side, so that little is read twice at the ends. The order of a sum follows from
 * the shape alone. Called by rows.c.
 */
#include "codegen/reduce_emit.h"
#include "codegen/rows.h"

enum {
  VECTORS = 8,     /* of one row, side by side in a block */
  SINGLES = 128,   /* the same where each is one element */
  LEAST_DEPTH = 4, /* threads with one vector: a warp has all of them, or a whole number of warps has one */
  MOST_DEPTH = 64,
  MOST_THREADS = 1024,
  ELEMENTS_PER_THREAD = 8,
};

typedef struct {
  kiln_reduce_writer_t base;
  uint32_t width, depth;
  const char *count; /* elements of a result */
  bool count_is_wide;
} writer_t;

static kiln_emitter_t *emitter_of(const writer_t *w) { return w->base.r.emitter; }

/* As many threads side by side as there are vectors, and as many behind them as leave each a few elements. */
static void choose_block(writer_t *w, kiln_extent_t vectors, int64_t length) {
  w->width = w->base.r.region->lanes > 1 ? VECTORS : SINGLES;
  while (w->width > VECTORS && kiln_dim_is_constant(vectors.dim) && vectors.dim.constant <= w->width / 2)
    w->width /= 2;
  w->depth = LEAST_DEPTH;
  while (w->depth < MOST_DEPTH && w->depth * w->width < MOST_THREADS &&
         (int64_t)w->depth * ELEMENTS_PER_THREAD < length)
    w->depth *= 2;
}

/* --- the thread's place -------------------------------------------------------------------------------- */

/* `thread` is the number of the vector of results. One past the end does what the first does, and stores
 * nothing: all threads of a block meet at its barriers. */
static void emit_place(writer_t *w) {
  kiln_emitter_t *emitter = emitter_of(w);
  const kiln_region_t *region = w->base.r.region;
  bool wide;
  const char *count = kiln_emit_thread_count(emitter, region, &wide);
  const char *type = wide ? "unsigned long long" : "unsigned";
  kiln_emit_line(emitter, "// %u threads share %u result%s, and %u vectors of them a block.", w->depth,
                 region->lanes, region->lanes > 1 ? "s" : "", w->width);
  kiln_emit_line(emitter, "const %s place = %s * %u%s + threadIdx.x %% %u;", type, kiln_emit_block(emitter),
                 w->width, wide ? "ull" : "u", w->width);
  kiln_emit_line(emitter, "const bool inside = place < %s;", count);
  kiln_emit_line(emitter, "const %s thread = inside ? place : 0;", type);
  kiln_emit_line(emitter, "const int member = threadIdx.x / %u;", w->width);
  kiln_emit_start_region(emitter);
  kiln_emit_axes(&w->base.r, wide);
}

static void name_row(writer_t *w) {
  kiln_emitter_t *emitter = emitter_of(w);
  kiln_dim_t extent = emitter->kernel->axes[w->base.row_axis].extent;
  w->count_is_wide = !kiln_emit_fits(emitter, extent);
  w->count = kiln_emit_dim(emitter, extent, w->count_is_wide);
  kiln_emit_name_axis(emitter, w->base.row_axis, "step", w->count_is_wide);
  if (w->base.r.region->lanes > 1) kiln_emit_name_axis(emitter, w->base.r.region->lane_axis, "lane", false);
}

static void emit_lane_count(writer_t *w) {
  const kiln_region_t *region = w->base.r.region;
  kiln_emitter_t *emitter = emitter_of(w);
  kiln_dim_t extent = emitter->kernel->axes[region->axes[0]].extent;
  bool wide = !kiln_emit_fits(emitter, extent);
  if (!region->has_tail) return;
  kiln_emit_line(emitter, "const %s left = %s - %u * %sa0;", wide ? "long long" : "int",
                 kiln_emit_dim(emitter, extent, wide), region->lanes, wide ? "(long long)" : "");
  kiln_emit_line(emitter, "const int count = left < %u ? left : %u;", region->lanes, region->lanes);
}

/* --- reductions ---------------------------------------------------------------------------------------- */

static void emit_loop(writer_t *w, uint32_t level) {
  kiln_emitter_t *emitter = emitter_of(w);
  const bool *needed = kiln_reduce_needed(&w->base, level, false);
  const char *type = w->count_is_wide ? "long long" : "int";
  kiln_emit_line(emitter, "for (%s first = member; first < %s; first += %u) {", type, w->count,
                 KILN_REDUCE_RUN * w->depth);
  emitter->indent++;
  kiln_reduce_begin_run(&w->base, level);
  kiln_emit_line(emitter, "const %s step = first + k * %u;", type, w->depth);
  kiln_emit_line(emitter, "if (step < %s) {", w->count);
  emitter->indent++;
  kiln_reduce_emit_shared(&w->base, needed, false);
  kiln_reduce_open_lanes(&w->base);
  kiln_reduce_emit_lane(&w->base, needed, false);
  kiln_reduce_emit_additions(&w->base, level, "q", w->base.r.region->lanes > 1 ? "lane" : "0", "step");
  kiln_reduce_close_lanes(&w->base);
  emitter->indent--;
  kiln_emit_line(emitter, "}");
  kiln_reduce_end_run(&w->base, level);
  emitter->indent--;
  kiln_emit_line(emitter, "}");
}

/* What stands for the results: the columns of the partial ones, all of which have the total now. */
static void emit_totals(writer_t *w, uint32_t level) {
  kiln_emitter_t *emitter = emitter_of(w);
  for (kiln_expr_id_t i = 0; i < w->base.r.count; i++) {
    if (!kiln_reduce_is_at(&w->base, i, level)) continue;
    const char *part = kiln_reduce_finds_place(kiln_reduce_expr(&w->base, i)->op) ? ".at" : "";
    const char *column = w->base.varies[i] ? "lane" : "0";
    kiln_emit_line(emitter, "p%u.share<%u, %u>();", i, w->width, w->depth);
    emitter->names[i] = kiln_arena_printf(emitter->kernel->arena, "p%u.of[%s]%s", i, column, part);
  }
}

static void emit_stores(writer_t *w) {
  kiln_emitter_t *emitter = emitter_of(w);
  kiln_emit_line(emitter, "if (member == 0 && inside) {");
  emitter->indent++;
  if (w->base.r.region->lanes > 1)
    kiln_reduce_emit_varying_stores(&w->base, kiln_reduce_needed(&w->base, w->base.levels + 1, false), false);
  else
    kiln_reduce_emit_single_stores(&w->base);
  emitter->indent--;
  kiln_emit_line(emitter, "}");
}

void kiln_columns_emit(kiln_emitter_t *emitter, const kiln_region_t *region, uint32_t row_axis,
                       kiln_kernel_source_t *kernel) {
  writer_t w = {.base = kiln_reduce_writer(emitter, region, row_axis, true)};
  kiln_extent_t threads = kiln_emit_threads(emitter->kernel, region), one = {kiln_dim_constant(1), 1};
  choose_block(&w, threads,
               kiln_rows_typical_length(emitter->kernel, emitter->kernel->axes[row_axis].extent));
  emit_place(&w);
  name_row(&w);
  emit_lane_count(&w);
  kiln_reduce_emit_level(&w.base, 0);
  for (uint32_t level = 1; level <= w.base.levels; level++) {
    kiln_reduce_declare(&w.base, level, region->lanes);
    emit_loop(&w, level);
    emit_totals(&w, level);
    kiln_reduce_emit_level(&w.base, level);
  }
  emit_stores(&w);
  kernel->grid[0] = (kiln_extent_t){threads.dim, threads.divisor * w.width};
  kernel->grid[1] = kernel->grid[2] = one;
  kernel->block[0] = w.width * w.depth;
  kernel->block[1] = kernel->block[2] = 1;
}
