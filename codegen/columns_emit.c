/* codegen/columns_emit.c: reductions along an axis that does not lie along memory, as CUDA source.
 *
 *   place of the thread -> for each level of reductions: { loop over the thread's chain of each of its
 *   results, a tree over the DEPTH threads that share them, through shared memory, and over parts of the
 * chains (reduce_parts.c) } -> stores
 *
 * The lanes of a thread are neighbouring results, neighbouring threads have neighbouring vectors of them: 8
 * threads read 128 bytes of a row, DEPTH rows at a time. Where rows begin anywhere, the 32 threads of a warp
 * read 512 bytes, and put their vectors together from aligned ones; where that cannot be, a thread has one
 * result and up to 128 stand side by side: so little is read twice at the ends. Fewer results than that get
 * more threads each.
 *
 * Element number e of what is folded into a result belongs to chain e % chains. A chain is added up from its
 * first element to its last, in runs; chains then as a balanced tree, neighbours first. The number of chains
 * follows from the shape and the device: as many as it takes to fill the device, if each then has 16
 * elements. Called by rows.c.
 */
#include "codegen/reduce_emit.h"
#include "codegen/rows.h"

enum {
  VECTORS = 8,   /* of one row, side by side in a block */
  WARP = 32,     /* the same where rows begin anywhere */
  SINGLES = 128, /* the same where each is one element */
  MOST_THREADS = 512,
  MOST_SINGLE_THREADS = 1024,
  LEAST_THREADS = 128,
  LEAST_ELEMENTS = 16,
  MOST_SHARED = 40 << 10,
  RESULTS_PER_SM = 4096, /* in as many chains: two blocks of 512 threads with vectors of 4 */
};

typedef struct {
  kiln_reduce_writer_t base;
  uint32_t width, depth; /* vectors of results side by side; threads that have one */
  kiln_parts_t parts;
  uint32_t turns;
  const char *count; /* elements of a result */
  bool count_is_wide;
} writer_t;

static kiln_emitter_t *emitter_of(const writer_t *w) { return w->base.r.emitter; }

/* A power of two, about RESULTS_PER_SM * SMs / results. */
uint64_t kiln_columns_chains(int64_t results, int64_t length, uint32_t sm_count) {
  uint64_t chains = 1, wanted = results ? (uint64_t)RESULTS_PER_SM * sm_count / (uint64_t)results : 1;
  while (2 * chains <= wanted && 2 * chains * LEAST_ELEMENTS <= (uint64_t)length) chains *= 2;
  return chains;
}

/* Of the trees over so many threads, at most: each warp has a value for each of its results. */
static uint64_t shared_bytes(const writer_t *w, uint32_t depth) {
  uint64_t bytes = 0, warps = w->width < 32 ? depth * w->width / 32 : depth;
  for (kiln_expr_id_t i = 0; i < w->base.r.count; i++) {
    const kiln_expr_t *expr = kiln_reduce_expr(&w->base, i);
    if (!w->base.r.reachable[i] || expr->kind != KILN_EXPR_REDUCE) continue;
    size_t each = kiln_dtype_bytes(kiln_reduce_expr(&w->base, expr->operands[0])->dtype);
    bytes += warps * w->base.r.region->lanes * w->width * (kiln_reduce_finds_place(expr->op) ? 16 : each);
  }
  return bytes;
}

/* As many threads side by side as there are vectors (and a few warps need), a chain each behind them, and
 * what does not fit into one block in parts. */
static void choose_block(writer_t *w, kiln_extent_t vectors, uint64_t chains) {
  bool single = w->base.r.region->lanes == 1;
  uint32_t most_threads = single ? MOST_SINGLE_THREADS : MOST_THREADS;
  w->width = single ? SINGLES : w->base.r.region->realigns ? WARP : VECTORS;
  while (w->width > 1 && kiln_dim_is_constant(vectors.dim) &&
         vectors.dim.constant <= (int64_t)vectors.divisor * w->width / 2)
    w->width /= 2;
  while (w->width * chains < LEAST_THREADS) w->width *= 2;
  w->depth = 1;
  while (w->depth * w->width < most_threads && w->depth < chains &&
         shared_bytes(w, 2 * w->depth) <= MOST_SHARED)
    w->depth *= 2;
  w->parts.count = (uint32_t)(chains / w->depth);
  w->parts.results = w->width * w->base.r.region->lanes;
  w->parts.is_split = kiln_parts_may_split(&w->base);
  w->parts.unit = "blockIdx.x";
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
  kiln_emit_line(emitter, "// %u thread%s share %u result%s, and %u vectors of them a block.", w->depth,
                 w->depth > 1 ? "s" : "", region->lanes, region->lanes > 1 ? "s" : "", w->width);
  if (w->parts.count > 1)
    kiln_emit_line(emitter, "// There are %u parts, %s.", w->parts.count,
                   w->parts.is_split ? "each of which is a block's"
                                     : "which a block does one after the other");
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
  int64_t chains = (int64_t)w->depth * w->parts.count;
  w->turns = kiln_reduce_turns(extent, chains); /* the last one of them ends behind the row */
  w->count_is_wide = !kiln_emit_fits(
      emitter, kiln_kernel_dim_add(emitter->kernel, extent, kiln_dim_constant(w->turns * chains)));
  w->count = kiln_emit_dim(emitter, extent, w->count_is_wide);
  kiln_emit_name_axis(emitter, w->base.row_axis, "step", w->count_is_wide);
  if (w->base.r.region->lanes > 1) kiln_emit_name_axis(emitter, w->base.r.region->lane_axis, "lane", false);
}

static void emit_lane_count(writer_t *w) {
  const kiln_region_t *region = w->base.r.region;
  kiln_emitter_t *emitter = w->base.r.emitter;
  uint32_t last = region->axis_count - 1;
  if (!region->has_tail) return;
  kiln_dim_t extent = emitter->kernel->axes[region->axes[last]].extent;
  bool wide = !kiln_emit_fits(emitter, extent);
  kiln_emit_line(emitter, "const %s left = inside ? %s - %u * %sa%u : 0;", wide ? "long long" : "int",
                 kiln_emit_dim(emitter, extent, wide), region->lanes, wide ? "(long long)" : "", last);
  kiln_emit_line(emitter, "const int count = left < %u ? left : %u;", region->lanes, region->lanes);
  w->base.r.team = w->width < 32 ? w->width : 32;
  w->base.r.is_first = kiln_arena_printf(emitter->kernel->arena, "a%u == 0", last);
}

/* --- reductions ---------------------------------------------------------------------------------------- */

static void emit_loop(writer_t *w, uint32_t level) {
  kiln_emitter_t *emitter = emitter_of(w);
  const bool *needed = kiln_reduce_needed(&w->base, level, false);
  const char *type = w->count_is_wide ? "long long" : "int";
  uint32_t chains = w->depth * w->parts.count;
  const char *start =
      w->parts.count > 1 ? kiln_arena_printf(emitter->kernel->arena, "part * %u + ", w->depth) : "";
  kiln_emit_line(emitter, "for (%s first = %smember; first < %s; first += %u) {", type, start, w->count,
                 w->turns * chains);
  emitter->indent++;
  kiln_reduce_begin_run(&w->base, level, w->turns);
  kiln_emit_line(emitter, "const %s step = first + k * %u;", type, chains);
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

/* A tree over the threads that share results; all of them have the totals then. */
static void emit_share(writer_t *w, const char *partial, kiln_expr_id_t id) {
  kiln_emit_line(emitter_of(w), "%s%u.share<%u, %u>();", partial, id, w->width, w->depth);
}

/* The totals of a part go to the workspace, */
static void emit_part(writer_t *w, kiln_expr_id_t id) {
  uint32_t lanes = w->base.r.region->lanes;
  emit_share(w, "p", id);
  kiln_emit_line(emitter_of(w), "for (int i = 0; member == 0 && i < %u; ++i)", lanes);
  kiln_emit_line(emitter_of(w), "  w%u[(part * %u + i) * %u + threadIdx.x] = p%u.of[i];", id, lanes, w->width,
                 id);
}

/* and come back as those of all parts, each thread with a few. */
static void emit_all_parts(writer_t *w, kiln_expr_id_t id) {
  kiln_emitter_t *emitter = emitter_of(w);
  uint32_t lanes = w->base.r.region->lanes, each = w->parts.count > w->depth ? w->parts.count / w->depth : 1;
  const char *op = kiln_op_info(kiln_reduce_expr(&w->base, id)->op)->name;
  kiln_emit_line(emitter, "kiln_partial<kiln_%s, %s, %u> r%u(%s);", op, kiln_reduce_type(&w->base, id), lanes,
                 id, kiln_reduce_none(&w->base, id));
  kiln_emit_line(emitter, "for (int i = 0; member < %u && i < %u; ++i)", w->parts.count / each, lanes);
  kiln_emit_line(
      emitter, "  r%u.of[i] = kiln_fold<kiln_%s, %u, %u>(w%u + (member * %u + i) * %u + threadIdx.x %% %u);",
      id, op, each, w->parts.results, id, each * lanes, w->width, w->width);
  emit_share(w, "r", id);
}

static void emit_parts(writer_t *w, uint32_t level) {
  for (kiln_expr_id_t i = 0; i < w->base.r.count; i++) {
    if (kiln_reduce_is_at(&w->base, i, level)) emit_part(w, i);
  }
  kiln_parts_close(&w->base, &w->parts);
  for (kiln_expr_id_t i = 0; i < w->base.r.count; i++) {
    if (kiln_reduce_is_at(&w->base, i, level)) emit_all_parts(w, i);
  }
}

/* What stands for the results: the columns of what was shared. */
static void name_totals(writer_t *w, uint32_t level, const char *partial) {
  kiln_emitter_t *emitter = emitter_of(w);
  for (kiln_expr_id_t i = 0; i < w->base.r.count; i++) {
    if (!kiln_reduce_is_at(&w->base, i, level)) continue;
    const char *part = kiln_reduce_finds_place(kiln_reduce_expr(&w->base, i)->op) ? ".at" : "";
    const char *column = w->base.varies[i] ? "lane" : "0";
    emitter->names[i] = kiln_arena_printf(emitter->kernel->arena, "%s%u.of[%s]%s", partial, i, column, part);
  }
}

static void emit_level(writer_t *w, uint32_t level) {
  bool has_parts = w->parts.count > 1;
  if (has_parts) kiln_parts_open(&w->base, &w->parts);
  kiln_reduce_declare(&w->base, level, w->base.r.region->lanes);
  emit_loop(w, level);
  if (has_parts) emit_parts(w, level);
  for (kiln_expr_id_t i = 0; !has_parts && i < w->base.r.count; i++) {
    if (kiln_reduce_is_at(&w->base, i, level)) emit_share(w, "p", i);
  }
  name_totals(w, level, has_parts ? "r" : "p");
  kiln_reduce_emit_level(&w->base, level);
}

static void emit_stores(writer_t *w) {
  kiln_emitter_t *emitter = emitter_of(w);
  kiln_emit_line(emitter, "if (member == 0 && inside) {");
  emitter->indent++;
  w->base.r.team = 0; /* a warp's threads are not all here */
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
  int64_t length = kiln_rows_typical_length(emitter->kernel->graph, emitter->kernel->axes[row_axis].extent);
  int64_t results = kiln_rows_typical_points(emitter->kernel, region->axes, region->axis_count);
  choose_block(&w, threads, kiln_columns_chains(results, length, emitter->context->target->sm_count));
  emit_place(&w);
  name_row(&w);
  emit_lane_count(&w);
  kiln_reduce_emit_level(&w.base, 0);
  if (w.parts.count > 1) kiln_parts_declare(&w.base, &w.parts);
  for (uint32_t level = 1; level <= w.base.levels; level++) emit_level(&w, level);
  emit_stores(&w);
  kernel->grid[0] = (kiln_extent_t){threads.dim, threads.divisor * w.width};
  kernel->grid[1] = kernel->grid[2] = one;
  if (w.parts.count > 1) kernel->scratch = kiln_parts_scratch(&w.base, &w.parts, kernel->grid[0]);
  if (w.parts.count > 1 && w.parts.is_split) kernel->grid[1].dim = kiln_dim_constant(w.parts.count);
  kernel->block[0] = w.width * w.depth;
  kernel->block[1] = kernel->block[2] = 1;
}
