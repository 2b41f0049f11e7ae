/* codegen/rows_emit.c: a region whose rows are shared by threads, as CUDA source.
 *
 *   place of the thread -> kept loads -> for each level of reductions: { loop over the row, adding to partial
 *   results of columns; totals over the threads, and over parts of the row (reduce_parts.c); what follows
 * from them } -> loop that stores -> one per row
 *
 * Loads that several loops need are kept in registers in the rounds that are unrolled; the loop behind them
 * reads again. Where rows begin anywhere, neighbouring threads put their vectors together: then all threads
 * of a row go through each step together, also those that find nothing there. Called by rows.c.
 */
#include "codegen/reduce_emit.h"
#include "codegen/rows.h"

typedef struct {
  kiln_reduce_writer_t base;
  kiln_rows_tile_t tile;
  kiln_parts_t parts;
  const char *steps; /* of the row, in vectors */
  bool steps_are_wide;
} writer_t;

static kiln_emitter_t *emitter_of(const writer_t *w) { return w->base.r.emitter; }

static const kiln_region_t *region_of(const writer_t *w) { return w->base.r.region; }

/* Marks the loads that more than one loop needs, and sums up what an element costs. */
static kiln_rows_cost_t find_kept(kiln_reduce_writer_t *w) {
  uint32_t *uses = KILN_NEW_ARRAY(w->r.emitter->kernel->arena, uint32_t, w->r.count);
  kiln_rows_cost_t cost = {0};
  for (uint32_t level = 1; level <= w->levels + 1; level++) {
    bool *needed = kiln_reduce_needed(w, level, false);
    for (kiln_expr_id_t i = 0; i < w->r.count; i++) {
      const kiln_expr_t *expr = kiln_reduce_expr(w, i);
      uses[i] += needed[i];
      cost.functions += needed[i] && expr->kind == KILN_EXPR_OP && kiln_op_info(expr->op)->ulp_f32 > 0;
    }
  }
  for (kiln_expr_id_t i = 0; i < w->r.count; i++) {
    w->kept[i] = uses[i] > 1 && kiln_reduce_expr(w, i)->kind == KILN_EXPR_LOAD && w->level[i] == 0;
    w->keeps |= w->kept[i];
    if (w->kept[i]) cost.kept_bytes += (uint32_t)kiln_dtype_bytes(kiln_reduce_expr(w, i)->dtype);
  }
  return cost;
}

static void keep_nothing(kiln_reduce_writer_t *w) {
  for (kiln_expr_id_t i = 0; i < w->r.count; i++) w->kept[i] = false;
  w->keeps = false;
}

/* --- the thread's place -------------------------------------------------------------------------------- */

static kiln_region_t without_row(const kiln_region_t *region) {
  kiln_region_t rows = *region;
  rows.axis_count--;
  return rows;
}

static void tell(writer_t *w) {
  const kiln_rows_tile_t *tile = &w->tile;
  uint32_t lanes = region_of(w)->lanes, per_block = tile->block_threads / tile->threads;
  if (per_block > 1)
    kiln_emit_line(emitter_of(w), "// %u threads share a row, %u rows a block.", tile->threads, per_block);
  else if (tile->parts > 1)
    kiln_emit_line(emitter_of(w), "// A row has %u parts, %s. A block has %u threads.", tile->parts,
                   w->parts.is_split ? "each of which is a block's"
                                     : "which a block does one after the other",
                   tile->threads);
  else
    kiln_emit_line(emitter_of(w), "// A block of %u threads has a row.", tile->threads);
  if (tile->rounds)
    kiln_emit_line(emitter_of(w),
                   "// A thread adds up %u of every %u columns; %u x %u of its elements are unrolled%s.",
                   lanes * tile->groups, tile->columns, tile->rounds * tile->groups, lanes,
                   w->base.keeps ? ", and kept" : "");
  else
    kiln_emit_line(emitter_of(w), "// A thread adds up %u of every %u columns.", lanes * tile->groups,
                   tile->columns);
}

/* `thread` is the number of the row, `member` that of the thread among those of the row. */
static void emit_place(writer_t *w) {
  kiln_emitter_t *emitter = emitter_of(w);
  kiln_region_t rows = without_row(region_of(w));
  const kiln_region_t *region = region_of(w);
  uint32_t per_block = w->tile.block_threads / w->tile.threads;
  bool wide;
  const char *count = kiln_emit_thread_count(emitter, &rows, &wide);
  const char *type = wide ? "unsigned long long" : "unsigned";
  if (per_block > 1) {
    kiln_emit_line(emitter, "const %s thread = %s * %u%s + threadIdx.x / %uu;", type,
                   kiln_emit_block(emitter), per_block, wide ? "ull" : "u", w->tile.threads);
    kiln_emit_line(emitter, "if (thread >= %s) return;", count);
    kiln_emit_line(emitter, "const int member = threadIdx.x %% %u;", w->tile.threads);
  } else {
    if (rows.axis_count) kiln_emit_line(emitter, "const %s thread = %s;", type, kiln_emit_block(emitter));
    kiln_emit_line(emitter, "const int member = threadIdx.x;");
  }
  kiln_emit_start_region(emitter);
  w->base.r.region = &rows;
  kiln_emit_axes(&w->base.r, wide);
  w->base.r.region = region;
}

static void name_row(writer_t *w) {
  kiln_emitter_t *emitter = emitter_of(w);
  const kiln_region_t *region = region_of(w);
  kiln_axis_t axis = emitter->kernel->axes[w->base.row_axis];
  kiln_dim_t counted = axis.extent;
  if (kiln_dim_is_constant(counted)) counted.constant /= axis.divisor;
  /* the last turn of a loop ends behind the row */
  int64_t turn = (int64_t)KILN_REDUCE_RUN * w->tile.threads * w->tile.groups * w->tile.parts;
  if (!w->tile.is_enough) counted = kiln_kernel_dim_add(emitter->kernel, counted, kiln_dim_constant(turn));
  w->steps_are_wide = !kiln_emit_fits(emitter, counted);
  w->steps = kiln_emit_steps(emitter, axis.extent, axis.divisor, w->steps_are_wide);
  kiln_emit_name_axis(emitter, w->base.row_axis, "step", w->steps_are_wide);
  if (region->lanes > 1) kiln_emit_name_axis(emitter, region->lane_axis, "lane", false);
}

/* --- bodies of loops ----------------------------------------------------------------------------------- */

/* How a loop is written: over the rounds, with kept loads at hand (or being made), or behind them. */
typedef struct {
  uint32_t level;
  bool in_rounds;
  bool loads; /* fills the kept loads, and nothing else */
  const bool *needed;
} loop_t;

static void keep(writer_t *w, bool per_lane) {
  for (kiln_expr_id_t i = 0; i < w->base.r.count; i++) {
    if (w->base.kept[i] && kiln_reduce_is_per_lane(&w->base, i) == per_lane)
      kiln_emit_line(emitter_of(w), "%s = %s;", kiln_reduce_kept(&w->base, i), emitter_of(w)->names[i]);
  }
}

/* Fills the registers of one step. */
static void emit_keeping(writer_t *w, const bool *needed) {
  bool any_per_lane = false;
  for (kiln_expr_id_t i = 0; i < w->base.r.count; i++)
    any_per_lane |= w->base.kept[i] && kiln_reduce_is_per_lane(&w->base, i);
  kiln_reduce_emit_shared(&w->base, needed, false);
  keep(w, false);
  if (!any_per_lane) return;
  kiln_reduce_open_lanes(&w->base);
  kiln_reduce_emit_lane(&w->base, needed, false);
  keep(w, true);
  kiln_reduce_close_lanes(&w->base);
}

static void emit_additions(writer_t *w, const loop_t *loop) {
  kiln_emitter_t *emitter = emitter_of(w);
  kiln_arena_t *arena = emitter->kernel->arena;
  uint32_t lanes = region_of(w)->lanes;
  const char *place = lanes > 1 ? kiln_arena_printf(arena, "%uLL * step + lane", lanes) : "step";
  const char *column = lanes > 1 ? "lane" : "0";
  if (w->tile.groups > 1) column = lanes > 1 ? kiln_arena_printf(arena, "g * %u + lane", lanes) : "g";
  kiln_reduce_emit_shared(&w->base, loop->needed, loop->in_rounds);
  kiln_reduce_open_lanes(&w->base);
  kiln_reduce_emit_lane(&w->base, loop->needed, loop->in_rounds);
  if (region_of(w)->has_tail) kiln_emit_line(emitter, "if (lane >= count) break;");
  kiln_reduce_emit_additions(&w->base, loop->level, loop->in_rounds ? "p" : "q", column, place);
  kiln_reduce_close_lanes(&w->base);
}

/* What is done at one step of the row. */
static void emit_body(writer_t *w, const loop_t *loop) {
  kiln_emitter_t *emitter = emitter_of(w);
  if (region_of(w)->has_tail) {
    kiln_dim_t extent = emitter->kernel->axes[w->base.row_axis].extent;
    kiln_emit_line(emitter, "const %s left = %s - %u * step;", w->steps_are_wide ? "long long" : "int",
                   kiln_emit_dim(emitter, extent, w->steps_are_wide), region_of(w)->lanes);
    kiln_emit_line(emitter, "const int count = left < %u ? left : %u;", region_of(w)->lanes,
                   region_of(w)->lanes);
  }
  if (loop->loads)
    emit_keeping(w, loop->needed);
  else if (loop->level > w->base.levels)
    kiln_reduce_emit_varying_stores(&w->base, loop->needed, loop->in_rounds);
  else
    emit_additions(w, loop);
}

/* --- loops --------------------------------------------------------------------------------------------- */

static const char *step_type(const writer_t *w) { return w->steps_are_wide ? "long long" : "int"; }

static void open_groups(writer_t *w) {
  if (w->tile.groups == 1) return;
  kiln_emit_line(emitter_of(w), "#pragma unroll");
  kiln_emit_line(emitter_of(w), "for (int g = 0; g < %u; ++g) {", w->tile.groups);
  emitter_of(w)->indent++;
}

static void close_groups(writer_t *w) {
  if (w->tile.groups == 1) return;
  emitter_of(w)->indent--;
  kiln_emit_line(emitter_of(w), "}");
}

/* One step, in the braces of a loop, where the row has it. */
static void emit_guarded_body(writer_t *w, const loop_t *loop, bool is_sure) {
  kiln_emitter_t *emitter = emitter_of(w);
  if (!is_sure) {
    kiln_emit_line(emitter, "if (step%s < %s) {", region_of(w)->realigns ? " - member" : "", w->steps);
    emitter->indent++;
  }
  emit_body(w, loop);
  if (is_sure) return;
  emitter->indent--;
  kiln_emit_line(emitter, "}");
}

/* k counts vectors of columns: it goes in steps of a round. */
static void emit_rounds(writer_t *w, const loop_t *loop) {
  kiln_emitter_t *emitter = emitter_of(w);
  uint32_t groups = w->tile.groups;
  if (!w->tile.rounds) return;
  kiln_emit_line(emitter, "#pragma unroll");
  kiln_emit_line(emitter,
                 groups > 1 ? "for (int k = 0; k < %u; k += %u) {" : "for (int k = 0; k < %u; ++k) {",
                 w->tile.rounds * groups, groups);
  emitter->indent++;
  open_groups(w);
  kiln_emit_line(emitter, "const %s step = %s * %u + member;", step_type(w), w->base.kept_slot,
                 w->tile.threads);
  emit_guarded_body(w, loop, w->tile.is_whole);
  close_groups(w);
  emitter->indent--;
  kiln_emit_line(emitter, "}");
}

/* The rest of the row, a run at a time; of a part of it while reducing. */
static void emit_rest(writer_t *w, const loop_t *loop) {
  kiln_emitter_t *emitter = emitter_of(w);
  kiln_arena_t *arena = emitter->kernel->arena;
  bool reduces = loop->level <= w->base.levels;
  uint32_t round = w->tile.threads * w->tile.groups, turn_by = round * (reduces ? w->tile.parts : 1);
  const char *group = w->tile.groups > 1 ? kiln_arena_printf(arena, " + g * %u", w->tile.threads) : "";
  const char *turn = reduces ? kiln_arena_printf(arena, " + k * %u", turn_by) : "";
  const char *start = kiln_arena_printf(arena, "%u", w->tile.rounds * round);
  uint32_t turns = kiln_reduce_turns(emitter->kernel->axes[w->base.row_axis].extent,
                                     (int64_t)turn_by * region_of(w)->lanes);
  if (reduces && w->tile.parts > 1) start = kiln_arena_printf(arena, "part * %u", round);
  kiln_emit_line(emitter, "for (%s first = %s + member; first%s < %s; first += %u) {", step_type(w), start,
                 region_of(w)->realigns ? " - member" : "", w->steps, reduces ? turns * turn_by : turn_by);
  emitter->indent++;
  if (reduces) kiln_reduce_begin_run(&w->base, loop->level, turns);
  open_groups(w);
  kiln_emit_line(emitter, "const %s step = first%s%s;", step_type(w), turn, group);
  emit_guarded_body(w, loop, false);
  close_groups(w);
  if (reduces) kiln_reduce_end_run(&w->base, loop->level);
  emitter->indent--;
  kiln_emit_line(emitter, "}");
}

static void emit_loops(writer_t *w, uint32_t level) {
  loop_t rounds = {.level = level, .in_rounds = true, .needed = kiln_reduce_needed(&w->base, level, true)};
  emit_rounds(w, &rounds);
  if (w->tile.is_enough) return;
  loop_t rest = {.level = level, .needed = kiln_reduce_needed(&w->base, level, false)};
  emit_rest(w, &rest);
}

/* --- kept loads ---------------------------------------------------------------------------------------- */

static void declare_kept(writer_t *w, kiln_expr_id_t id) {
  kiln_emitter_t *emitter = emitter_of(w);
  const kiln_region_writer_t *r = &w->base.r;
  kiln_dtype_t dtype = kiln_reduce_expr(&w->base, id)->dtype;
  const char *type = kiln_emit_storage_type(dtype);
  uint32_t slots = w->tile.rounds * w->tile.groups;
  w->base.kept_names[id] = kiln_arena_printf(emitter->kernel->arena, "x%u", id);
  if (kiln_reduce_is_per_lane(&w->base, id))
    kiln_emit_line(emitter, "%s x%u[%u][%u];", type, id, slots, r->region->lanes);
  else if (r->lanes.depends[id])
    kiln_emit_line(emitter, "kiln_vector<%s, %u, %u> x%u[%u];", type, r->loads[id].window,
                   r->load_widths[id] * (uint32_t)kiln_dtype_bytes(dtype), id, slots);
  else
    kiln_emit_line(emitter, "%s x%u[%u];", type, id, slots);
}

static void emit_kept(writer_t *w) {
  if (!w->base.keeps) return;
  bool *needed =
      kiln_arena_copy(emitter_of(w)->kernel->arena, w->base.kept, w->base.r.count * sizeof *needed);
  for (kiln_expr_id_t i = (kiln_expr_id_t)w->base.r.count; i-- > 0;) {
    const kiln_expr_t *expr = kiln_reduce_expr(&w->base, i);
    if (w->base.kept[i]) declare_kept(w, i);
    needed[i] &= w->base.varies[i];
    for (uint32_t k = 0; needed[i] && k < expr->operand_count; k++) needed[expr->operands[k]] = true;
  }
  emit_rounds(w, &(loop_t){.loads = true, .needed = needed});
}

/* --- the kernel ---------------------------------------------------------------------------------------- */

/* "p7.total<4, 512, 7>()" */
static const char *total_of(const writer_t *w, kiln_expr_id_t id) {
  return kiln_arena_printf(emitter_of(w)->kernel->arena, "p%u.total<%u, %u, %u>()", id, region_of(w)->lanes,
                           w->tile.threads, id);
}

/* Defines the variable of a reduction's result. */
static void emit_result(writer_t *w, kiln_expr_id_t id, const char *total) {
  const kiln_expr_t *expr = kiln_reduce_expr(&w->base, id);
  unsigned number = w->base.r.next_number++;
  emitter_of(w)->names[id] = kiln_arena_printf(emitter_of(w)->kernel->arena, "v%u", number);
  kiln_emit_line(emitter_of(w), "const %s v%u = %s%s;", kiln_emit_storage_type(expr->dtype), number, total,
                 kiln_reduce_finds_place(expr->op) ? ".at" : "");
}

/* The part's results go to the workspace; then the totals over all parts, one of them a thread. */
static void emit_totals_of_parts(writer_t *w, uint32_t level) {
  kiln_emitter_t *emitter = emitter_of(w);
  for (kiln_expr_id_t i = 0; i < w->base.r.count; i++) {
    if (!kiln_reduce_is_at(&w->base, i, level)) continue;
    kiln_emit_line(emitter, "const %s t%u = %s;", kiln_reduce_type(&w->base, i), i, total_of(w, i));
    kiln_emit_line(emitter, "if (member == 0) w%u[part] = t%u;", i, i);
  }
  kiln_parts_close(&w->base, &w->parts);
  for (kiln_expr_id_t i = 0; i < w->base.r.count; i++) {
    if (!kiln_reduce_is_at(&w->base, i, level)) continue;
    kiln_emit_line(emitter, "%s u%u = %s;", kiln_reduce_type(&w->base, i), i, kiln_reduce_none(&w->base, i));
    kiln_emit_line(emitter, "if (member < %u) u%u = w%u[member];", w->tile.parts, i, i);
    emit_result(w, i,
                kiln_arena_printf(emitter->kernel->arena, "kiln_total<kiln_%s, %u, %u>(u%u)",
                                  kiln_op_info(kiln_reduce_expr(&w->base, i)->op)->name, w->tile.threads, i,
                                  i));
  }
}

static void emit_totals(writer_t *w, uint32_t level) {
  for (kiln_expr_id_t i = 0; i < w->base.r.count; i++) {
    if (kiln_reduce_is_at(&w->base, i, level)) emit_result(w, i, total_of(w, i));
  }
}

static void emit_reductions(writer_t *w, uint32_t level) {
  bool has_parts = w->tile.parts > 1;
  if (has_parts) kiln_parts_open(&w->base, &w->parts);
  kiln_reduce_declare(&w->base, level, region_of(w)->lanes * w->tile.groups);
  emit_loops(w, level);
  if (has_parts)
    emit_totals_of_parts(w, level);
  else
    emit_totals(w, level);
  kiln_reduce_emit_level(&w->base, level);
}

static void emit_all_stores(writer_t *w) {
  kiln_emitter_t *emitter = emitter_of(w);
  bool any_varies = false, any_single = false;
  for (uint32_t i = 0; i < region_of(w)->store_count; i++) {
    bool varies = kiln_reduce_store_varies(&w->base, &region_of(w)->stores[i]);
    any_varies |= varies;
    any_single |= !varies;
  }
  if (any_varies) emit_loops(w, w->base.levels + 1);
  if (!any_single) return;
  kiln_emit_line(emitter, "if (member == 0) {");
  emitter->indent++;
  kiln_reduce_emit_single_stores(&w->base);
  emitter->indent--;
  kiln_emit_line(emitter, "}");
}

void kiln_rows_emit(kiln_emitter_t *emitter, const kiln_region_t *region, kiln_kernel_source_t *kernel) {
  uint32_t row_axis = region->axes[region->axis_count - 1];
  writer_t w = {.base = kiln_reduce_writer(emitter, region, row_axis, false)};
  kiln_region_t rows = without_row(region);
  w.tile = kiln_rows_tile(emitter->kernel, region, find_kept(&w.base), emitter->context->grouped,
                          emitter->context->target->sm_count);
  w.parts = (kiln_parts_t){w.tile.parts, kiln_parts_may_split(&w.base), 1, rows.axis_count ? "thread" : "0"};
  if (!w.tile.rounds) keep_nothing(&w.base);
  w.base.kept_slot = w.tile.groups > 1 ? "(k + g)" : "k";
  w.base.r.team = w.tile.threads < 32 ? w.tile.threads : 32;
  w.base.r.is_first = "step == 0";
  tell(&w);
  emit_place(&w);
  name_row(&w);
  kiln_reduce_emit_level(&w.base, 0);
  emit_kept(&w);
  if (w.tile.parts > 1) kiln_parts_declare(&w.base, &w.parts);
  for (uint32_t level = 1; level <= w.base.levels; level++) emit_reductions(&w, level);
  emit_all_stores(&w);
  kiln_extent_t count = kiln_emit_threads(emitter->kernel, &rows), one = {kiln_dim_constant(1), 1};
  kernel->grid[0] = (kiln_extent_t){count.dim, w.tile.block_threads / w.tile.threads};
  kernel->grid[1] = kernel->grid[2] = one;
  if (w.tile.parts > 1) kernel->scratch = kiln_parts_scratch(&w.base, &w.parts, count);
  if (w.tile.parts > 1 && w.parts.is_split) kernel->grid[1].dim = kiln_dim_constant(w.tile.parts);
  kernel->block[0] = w.tile.block_threads;
  kernel->block[1] = kernel->block[2] = 1;
}
