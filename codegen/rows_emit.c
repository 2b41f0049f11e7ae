/* codegen/rows_emit.c: a region with a row axis as CUDA source.
 *
 *   place of the thread -> kept loads -> for each level of reductions: { loop over the row, adding to partial
 *   results of columns; totals over the threads; what follows from them } -> loop that stores -> one per row
 *
 * An expression is either the same along the row, and defined once as soon as the reductions below it are
 * known (its level), or it differs, and is defined in each loop that needs it. Loads that several loops need
 * are kept in registers in the rounds that are unrolled; the loop behind them reads again. Called by rows.c.
 */
#include "codegen/emit_region.h"
#include "codegen/rows.h"

enum {
  RUN = 16 /* elements of a column that are summed one after the other, in the loop behind the rounds */
};

typedef struct {
  kiln_region_writer_t r;
  kiln_rows_tile_t tile;
  bool *on_row;    /* per expression: differs along the row */
  uint32_t *level; /* per expression: of how many reductions on top of each other it needs the results */
  uint32_t levels; /* of all reductions */
  bool *kept;      /* per LOAD: stays in registers */
  const char **kept_names;
  const char *steps; /* of the row, in vectors */
  bool steps_are_wide;
} writer_t;

static kiln_emitter_t *emitter_of(const writer_t *w) { return w->r.emitter; }

static const kiln_expr_t *expr_at(const writer_t *w, kiln_expr_id_t id) {
  return &w->r.emitter->kernel->exprs[id];
}

static uint32_t row_axis(const writer_t *w) { return w->r.region->axes[w->r.region->axis_count - 1]; }

/* --- analysis ------------------------------------------------------------------------------------------ */

static void find_levels(writer_t *w) {
  kiln_arena_t *arena = emitter_of(w)->kernel->arena;
  w->on_row = KILN_NEW_ARRAY(arena, bool, w->r.count);
  w->level = KILN_NEW_ARRAY(arena, uint32_t, w->r.count);
  for (kiln_expr_id_t i = 0; i < w->r.count; i++) {
    const kiln_expr_t *expr = expr_at(w, i);
    bool is_axis = expr->kind == KILN_EXPR_AXIS;
    w->on_row[i] = is_axis && (expr->bits == row_axis(w) ||
                               (w->r.region->lanes > 1 && expr->bits == w->r.region->lane_axis));
    for (uint32_t k = 0; k < expr->operand_count; k++) {
      w->on_row[i] |= w->on_row[expr->operands[k]];
      if (w->level[expr->operands[k]] > w->level[i]) w->level[i] = w->level[expr->operands[k]];
    }
    if (expr->kind != KILN_EXPR_REDUCE) continue;
    w->on_row[i] = false;
    w->level[i]++;
    if (w->r.reachable[i] && w->level[i] > w->levels) w->levels = w->level[i];
  }
}

static bool is_reduce_at(const writer_t *w, kiln_expr_id_t id, uint32_t level) {
  return w->r.reachable[id] && expr_at(w, id)->kind == KILN_EXPR_REDUCE && w->level[id] == level;
}

static bool stores_on_row(const writer_t *w, const kiln_kernel_store_t *store) {
  return w->on_row[store->offset];
}

/* What a loop has to define: all that differs along the row below the operands of the reductions of a level,
 * or, past the last level, below what is stored along the row. Kept loads end the way when `stop_at_kept`. */
static bool *needed_in_loop(const writer_t *w, uint32_t level, bool stop_at_kept) {
  bool *needed = KILN_NEW_ARRAY(emitter_of(w)->kernel->arena, bool, w->r.count);
  const kiln_region_t *region = w->r.region;
  for (kiln_expr_id_t i = 0; i < w->r.count; i++) {
    if (is_reduce_at(w, i, level)) needed[expr_at(w, i)->operands[0]] = true;
  }
  for (uint32_t i = 0; level > w->levels && i < region->store_count; i++) {
    if (!stores_on_row(w, &region->stores[i])) continue;
    needed[region->stores[i].offset] = needed[region->stores[i].value] = true;
  }
  for (kiln_expr_id_t i = (kiln_expr_id_t)w->r.count; i-- > 0;) {
    needed[i] &= w->on_row[i];
    const kiln_expr_t *expr = expr_at(w, i);
    bool stops = stop_at_kept && expr->kind == KILN_EXPR_LOAD && w->kept[i];
    for (uint32_t k = 0; needed[i] && !stops && k < expr->operand_count; k++)
      needed[expr->operands[k]] = true;
  }
  return needed;
}

/* Marks the loads that more than one loop needs, and sums up what an element costs. */
static kiln_rows_cost_t find_kept(writer_t *w) {
  kiln_arena_t *arena = emitter_of(w)->kernel->arena;
  uint32_t *uses = KILN_NEW_ARRAY(arena, uint32_t, w->r.count);
  kiln_rows_cost_t cost = {0};
  w->kept = KILN_NEW_ARRAY(arena, bool, w->r.count);
  w->kept_names = KILN_NEW_ARRAY(arena, const char *, w->r.count);
  for (uint32_t level = 1; level <= w->levels + 1; level++) {
    bool *needed = needed_in_loop(w, level, false);
    for (kiln_expr_id_t i = 0; i < w->r.count; i++) {
      const kiln_expr_t *expr = expr_at(w, i);
      uses[i] += needed[i];
      cost.functions += needed[i] && expr->kind == KILN_EXPR_OP && kiln_op_info(expr->op)->ulp_f32 > 0;
    }
  }
  for (kiln_expr_id_t i = 0; i < w->r.count; i++) {
    w->kept[i] = uses[i] > 1 && expr_at(w, i)->kind == KILN_EXPR_LOAD && w->level[i] == 0;
    if (w->kept[i]) cost.kept_bytes += (uint32_t)kiln_dtype_bytes(expr_at(w, i)->dtype);
  }
  return cost;
}

/* --- the thread's place -------------------------------------------------------------------------------- */

static kiln_region_t without_row(const kiln_region_t *region) {
  kiln_region_t rows = *region;
  rows.axis_count--;
  return rows;
}

static void tell(writer_t *w) {
  const kiln_rows_tile_t *tile = &w->tile;
  uint32_t lanes = w->r.region->lanes, per_block = tile->block_threads / tile->threads;
  if (per_block > 1)
    kiln_emit_line(emitter_of(w), "// %u threads share a row, %u rows a block.", tile->threads, per_block);
  else
    kiln_emit_line(emitter_of(w), "// A block of %u threads has a row.", tile->threads);
  kiln_emit_line(
      emitter_of(w),
      "// A thread adds up %u column%s of every %u, and keeps what it reads twice of %u x %u elements.",
      lanes * tile->groups, lanes * tile->groups > 1 ? "s" : "", tile->columns, tile->rounds * tile->groups,
      lanes);
}

/* `thread` is the number of the row, `member` that of the thread among those of the row. */
static void emit_place(writer_t *w) {
  kiln_emitter_t *emitter = emitter_of(w);
  kiln_region_t rows = without_row(w->r.region);
  const kiln_region_t *region = w->r.region;
  uint32_t per_block = w->tile.block_threads / w->tile.threads;
  bool wide;
  const char *count = kiln_emit_thread_count(emitter, &rows, &wide);
  const char *type = wide ? "unsigned long long" : "unsigned";
  if (per_block > 1) {
    kiln_emit_line(emitter, "const %s thread = blockIdx.x * %u%s + threadIdx.x / %uu;", type, per_block,
                   wide ? "ull" : "u", w->tile.threads);
    kiln_emit_line(emitter, "if (thread >= %s) return;", count);
    kiln_emit_line(emitter, "const int member = threadIdx.x %% %u;", w->tile.threads);
  } else {
    if (rows.axis_count) kiln_emit_line(emitter, "const %s thread = blockIdx.x;", type);
    kiln_emit_line(emitter, "const int member = threadIdx.x;");
  }
  kiln_emit_start_region(emitter);
  w->r.region = &rows;
  kiln_emit_axes(&w->r, wide);
  w->r.region = region;
}

static void name_row(writer_t *w) {
  kiln_emitter_t *emitter = emitter_of(w);
  const kiln_region_t *region = w->r.region;
  kiln_axis_t axis = emitter->kernel->axes[row_axis(w)];
  kiln_dim_t counted = axis.extent;
  if (kiln_dim_is_constant(counted)) counted.constant /= axis.divisor;
  w->steps_are_wide = !kiln_emit_fits(emitter, counted);
  w->steps = kiln_emit_steps(emitter, axis.extent, axis.divisor, w->steps_are_wide);
  kiln_emit_name_axis(emitter, row_axis(w), "step", w->steps_are_wide);
  if (region->lanes > 1) kiln_emit_name_axis(emitter, region->lane_axis, "lane", false);
}

/* --- bodies of loops ----------------------------------------------------------------------------------- */

/* How a loop is written: over the rounds, with kept loads at hand (or being made), or behind them. */
typedef struct {
  uint32_t level;
  bool in_rounds;
  bool loads;          /* fills the kept loads, and nothing else */
  const char *partial; /* the prefix of the partial results that a loop adds to */
} loop_t;

static void open_lanes(writer_t *w) {
  if (w->r.region->lanes == 1) return;
  kiln_emit_line(emitter_of(w), "#pragma unroll");
  kiln_emit_line(emitter_of(w), "for (int lane = 0; lane < %u; ++lane) {", w->r.region->lanes);
  emitter_of(w)->indent++;
}

static void close_lanes(writer_t *w) {
  if (w->r.region->lanes == 1) return;
  emitter_of(w)->indent--;
  kiln_emit_line(emitter_of(w), "}");
}

/* Which of a thread's vectors of columns this is; kept loads lie there. */
static const char *round_slot(const writer_t *w) { return w->tile.groups > 1 ? "(k + g)" : "k"; }

/* Is there one value of the load for each lane, rather than a vector or one for all? */
static bool is_per_lane(const writer_t *w, kiln_expr_id_t id) {
  return w->r.lanes.depends[id] && w->r.load_widths[id] <= 1;
}

static const char *kept_element(const writer_t *w, kiln_expr_id_t id) {
  kiln_arena_t *arena = emitter_of(w)->kernel->arena;
  return kiln_arena_printf(arena, is_per_lane(w, id) ? "%s[%s][lane]" : "%s[%s]", w->kept_names[id],
                           round_slot(w));
}

/* Outside the loop over lanes: what all lanes share, and whole vectors. */
static void emit_shared_part(writer_t *w, const loop_t *loop, const bool *needed) {
  for (kiln_expr_id_t i = 0; i < w->r.count; i++) {
    if (!needed[i]) continue;
    bool is_kept = loop->in_rounds && expr_at(w, i)->kind == KILN_EXPR_LOAD && w->kept[i];
    bool is_vector = w->r.lanes.depends[i] && w->r.load_widths[i] > 1;
    if (is_kept && is_vector)
      emitter_of(w)->names[i] = kept_element(w, i);
    else if (is_kept && !w->r.lanes.depends[i])
      kiln_emit_scalar(&w->r, i, kept_element(w, i));
    else if (is_vector)
      kiln_emit_vector_load(&w->r, i);
    else if (!w->r.lanes.depends[i])
      kiln_emit_expr(&w->r, i);
  }
}

static void emit_lane_part(writer_t *w, const loop_t *loop, const bool *needed) {
  for (kiln_expr_id_t i = 0; i < w->r.count; i++) {
    if (!needed[i] || !w->r.lanes.depends[i]) continue;
    if (w->r.load_widths[i] > 1)
      kiln_emit_lane_of_vector(&w->r, i);
    else if (loop->in_rounds && expr_at(w, i)->kind == KILN_EXPR_LOAD && w->kept[i])
      kiln_emit_scalar(&w->r, i, kept_element(w, i));
    else
      kiln_emit_expr(&w->r, i);
  }
}

/* The partial results of a level take the element. */
static void emit_additions(writer_t *w, const loop_t *loop) {
  kiln_emitter_t *emitter = emitter_of(w);
  uint32_t lanes = w->r.region->lanes;
  const char *column = lanes > 1 ? "lane" : "0", *guard = w->r.region->has_tail ? "if (lane < count) " : "";
  if (w->tile.groups > 1)
    column = lanes > 1 ? kiln_arena_printf(emitter->kernel->arena, "g * %u + lane", lanes) : "g";
  for (kiln_expr_id_t i = 0; i < w->r.count; i++) {
    if (!is_reduce_at(w, i, loop->level)) continue;
    kiln_op_t op = expr_at(w, i)->op;
    const char *value = kiln_emit_value(emitter, expr_at(w, i)->operands[0]);
    if (op == KILN_OP_argmax || op == KILN_OP_argmin) {
      const char *place =
          lanes > 1 ? kiln_arena_printf(emitter->kernel->arena, "%uLL * step + lane", lanes) : "step";
      kiln_emit_line(emitter, "%s%s%u.add(%s, {%s, %s});", guard, loop->partial, i, column, value, place);
    } else {
      kiln_emit_line(emitter, "%s%s%u.add(%s, %s);", guard, loop->partial, i, column, value);
    }
  }
}

static void emit_vector_of_store(writer_t *w, uint32_t number) {
  const kiln_kernel_store_t *store = &w->r.region->stores[number];
  kiln_dtype_t dtype = emitter_of(w)->kernel->buffers[store->buffer].dtype;
  kiln_emit_line(emitter_of(w), "kiln_vector<%s, %u, %u> s%u;", kiln_emit_storage_type(dtype),
                 w->r.region->lanes, kiln_emit_store_bytes(&w->r, store->buffer), number);
}

/* Alignment was settled when the width was chosen; here it is put on record. */
static void emit_row_store(writer_t *w, uint32_t number) {
  kiln_emitter_t *emitter = emitter_of(w);
  const kiln_region_t *region = w->r.region;
  const kiln_kernel_store_t *store = &region->stores[number];
  if (region->lanes == 1) {
    kiln_emit_line(emitter, "%s = %s;", kiln_emit_element(&w->r, store->buffer, store->offset),
                   kiln_emit_stored(emitter, store->value));
    return;
  }
  kiln_access_t access = kiln_lanes_access(&w->r.lanes, store->offset, kiln_condition_true(emitter->kernel));
  kiln_access_width(emitter->kernel, &access, store->buffer, emitter->context->symbol_class,
                    emitter->context->guards);
  kiln_emit_line(emitter, "kiln_store%s<%u, %u>(%s, s%u%s);", region->has_tail ? "_part" : "", region->lanes,
                 kiln_emit_store_bytes(&w->r, store->buffer),
                 kiln_emit_address(&w->r, store->buffer, access.base), number,
                 region->has_tail ? ", count" : "");
}

static void emit_stores(writer_t *w, const loop_t *loop, const bool *needed) {
  const kiln_region_t *region = w->r.region;
  for (uint32_t i = 0; region->lanes > 1 && i < region->store_count; i++) {
    if (stores_on_row(w, &region->stores[i])) emit_vector_of_store(w, i);
  }
  open_lanes(w);
  if (region->lanes > 1) emit_lane_part(w, loop, needed);
  for (uint32_t i = 0; region->lanes > 1 && i < region->store_count; i++) {
    if (!stores_on_row(w, &region->stores[i])) continue;
    kiln_emit_line(emitter_of(w), "s%u.at[lane] = %s;", i,
                   kiln_emit_stored(emitter_of(w), region->stores[i].value));
  }
  close_lanes(w);
  for (uint32_t i = 0; i < region->store_count; i++) {
    if (stores_on_row(w, &region->stores[i])) emit_row_store(w, i);
  }
}

static void keep(writer_t *w, bool per_lane) {
  for (kiln_expr_id_t i = 0; i < w->r.count; i++) {
    if (w->kept[i] && is_per_lane(w, i) == per_lane)
      kiln_emit_line(emitter_of(w), "%s = %s;", kept_element(w, i), emitter_of(w)->names[i]);
  }
}

/* Fills the registers of one round. */
static void emit_keeping(writer_t *w, const bool *needed) {
  loop_t plain = {0};
  bool any_per_lane = false;
  for (kiln_expr_id_t i = 0; i < w->r.count; i++) any_per_lane |= w->kept[i] && is_per_lane(w, i);
  emit_shared_part(w, &plain, needed);
  keep(w, false);
  if (!any_per_lane) return;
  open_lanes(w);
  emit_lane_part(w, &plain, needed);
  keep(w, true);
  close_lanes(w);
}

/* What is done at one step of the row. */
static void emit_body(writer_t *w, const loop_t *loop, const bool *needed) {
  const kiln_region_t *region = w->r.region;
  if (region->has_tail) {
    kiln_dim_t extent = emitter_of(w)->kernel->axes[row_axis(w)].extent;
    const char *type = w->steps_are_wide ? "long long" : "int";
    kiln_emit_line(emitter_of(w), "const %s left = %s - %u * %sstep;", type,
                   kiln_emit_dim(emitter_of(w), extent, w->steps_are_wide), region->lanes, "");
    kiln_emit_line(emitter_of(w), "const int count = left < %u ? left : %u;", region->lanes, region->lanes);
  }
  if (loop->loads) {
    emit_keeping(w, needed);
    return;
  }
  emit_shared_part(w, loop, needed);
  if (loop->level > w->levels) {
    emit_stores(w, loop, needed);
    return;
  }
  open_lanes(w);
  if (region->lanes > 1) emit_lane_part(w, loop, needed);
  emit_additions(w, loop);
  close_lanes(w);
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
static void emit_guarded_body(writer_t *w, const loop_t *loop, const bool *needed, bool is_sure) {
  kiln_emitter_t *emitter = emitter_of(w);
  if (!is_sure) {
    kiln_emit_line(emitter, "if (step < %s) {", w->steps);
    emitter->indent++;
  }
  emit_body(w, loop, needed);
  if (is_sure) return;
  emitter->indent--;
  kiln_emit_line(emitter, "}");
}

/* k counts vectors of columns: it goes in steps of a round. */
static void emit_rounds(writer_t *w, loop_t loop, const bool *needed) {
  kiln_emitter_t *emitter = emitter_of(w);
  uint32_t groups = w->tile.groups;
  kiln_emit_line(emitter, "#pragma unroll");
  kiln_emit_line(emitter,
                 groups > 1 ? "for (int k = 0; k < %u; k += %u) {" : "for (int k = 0; k < %u; ++k) {",
                 w->tile.rounds * groups, groups);
  emitter->indent++;
  open_groups(w);
  kiln_emit_line(emitter, "const %s step = %s * %u + member;", step_type(w), round_slot(w), w->tile.threads);
  emit_guarded_body(w, &loop, needed, w->tile.is_whole);
  close_groups(w);
  emitter->indent--;
  kiln_emit_line(emitter, "}");
}

/* The rest of the row, a run at a time; the partial results of a run are then added to those of the row. */
static void emit_rest(writer_t *w, loop_t loop, const bool *needed) {
  kiln_emitter_t *emitter = emitter_of(w);
  uint32_t round = w->tile.threads * w->tile.groups;
  bool reduces = loop.level <= w->levels;
  kiln_emit_line(emitter, "for (%s first = %u + member; first < %s; first += %u) {", step_type(w),
                 w->tile.rounds * round, w->steps, reduces ? RUN * round : round);
  emitter->indent++;
  if (reduces) {
    loop.partial = "q";
    for (kiln_expr_id_t i = 0; i < w->r.count; i++) {
      if (is_reduce_at(w, i, loop.level)) kiln_emit_line(emitter, "auto q%u = p%u.none();", i, i);
    }
    kiln_emit_line(emitter, "for (int k = 0; k < %u; ++k) {", RUN);
    emitter->indent++;
  }
  open_groups(w);
  const char *group =
      w->tile.groups > 1 ? kiln_arena_printf(emitter->kernel->arena, " + g * %u", w->tile.threads) : "";
  if (reduces)
    kiln_emit_line(emitter, "const %s step = first + k * %u%s;", step_type(w), round, group);
  else
    kiln_emit_line(emitter, "const %s step = first%s;", step_type(w), group);
  emit_guarded_body(w, &loop, needed, false);
  close_groups(w);
  if (reduces) {
    emitter->indent--;
    kiln_emit_line(emitter, "}");
    for (kiln_expr_id_t i = 0; i < w->r.count; i++) {
      if (is_reduce_at(w, i, loop.level)) kiln_emit_line(emitter, "p%u.add(q%u);", i, i);
    }
  }
  emitter->indent--;
  kiln_emit_line(emitter, "}");
}

static void emit_loops(writer_t *w, uint32_t level) {
  emit_rounds(w, (loop_t){.level = level, .in_rounds = true, .partial = "p"}, needed_in_loop(w, level, true));
  if (!w->tile.is_enough) emit_rest(w, (loop_t){.level = level}, needed_in_loop(w, level, false));
}

/* --- kept loads ---------------------------------------------------------------------------------------- */

static void declare_kept(writer_t *w, kiln_expr_id_t id) {
  kiln_emitter_t *emitter = emitter_of(w);
  const char *type = kiln_emit_storage_type(expr_at(w, id)->dtype);
  uint32_t slots = w->tile.rounds * w->tile.groups, lanes = w->r.region->lanes;
  uint32_t bytes = w->r.load_widths[id] * (uint32_t)kiln_dtype_bytes(expr_at(w, id)->dtype);
  w->kept_names[id] = kiln_arena_printf(emitter->kernel->arena, "x%u", id);
  if (w->r.load_widths[id] > 1 && w->r.lanes.depends[id])
    kiln_emit_line(emitter, "kiln_vector<%s, %u, %u> x%u[%u];", type, w->r.loads[id].window, bytes, id,
                   slots);
  else if (w->r.lanes.depends[id])
    kiln_emit_line(emitter, "%s x%u[%u][%u];", type, id, slots, lanes);
  else
    kiln_emit_line(emitter, "%s x%u[%u];", type, id, slots);
}

static void emit_kept(writer_t *w) {
  bool any = false, *needed = KILN_NEW_ARRAY(emitter_of(w)->kernel->arena, bool, w->r.count);
  for (kiln_expr_id_t i = 0; i < w->r.count; i++) {
    if (!w->kept[i]) continue;
    declare_kept(w, i);
    any = needed[i] = true;
  }
  if (!any) return;
  for (kiln_expr_id_t i = (kiln_expr_id_t)w->r.count; i-- > 0;) {
    const kiln_expr_t *expr = expr_at(w, i);
    needed[i] &= w->on_row[i];
    for (uint32_t k = 0; needed[i] && k < expr->operand_count; k++) needed[expr->operands[k]] = true;
  }
  emit_rounds(w, (loop_t){.loads = true}, needed);
}

/* --- totals -------------------------------------------------------------------------------------------- */

static const char *lowest(kiln_emitter_t *emitter, kiln_dtype_t dtype) {
  switch (dtype) {
  case KILN_DTYPE_f64:
    return "-__longlong_as_double(0x7ff0000000000000LL)";
  case KILN_DTYPE_i64:
    return kiln_emit_number(emitter, (uint64_t)INT64_MIN, dtype);
  case KILN_DTYPE_i32:
    return kiln_emit_number(emitter, (uint64_t)INT32_MIN, dtype);
  case KILN_DTYPE_i8:
    return "(signed char)-128";
  case KILN_DTYPE_u8:
  case KILN_DTYPE_bool:
    return "0";
  default:
    return "-__int_as_float(0x7f800000)";
  }
}

static const char *highest(kiln_emitter_t *emitter, kiln_dtype_t dtype) {
  switch (dtype) {
  case KILN_DTYPE_f64:
    return "__longlong_as_double(0x7ff0000000000000LL)";
  case KILN_DTYPE_i64:
    return kiln_emit_number(emitter, (uint64_t)INT64_MAX, dtype);
  case KILN_DTYPE_i32:
    return kiln_emit_number(emitter, (uint64_t)INT32_MAX, dtype);
  case KILN_DTYPE_i8:
    return "(signed char)127";
  case KILN_DTYPE_u8:
    return "(unsigned char)255";
  case KILN_DTYPE_bool:
    return "true";
  default:
    return "__int_as_float(0x7f800000)";
  }
}

/* What a reduction of nothing is: what changes no other value. */
static const char *nothing(kiln_emitter_t *emitter, kiln_op_t op, kiln_dtype_t dtype) {
  switch (op) {
  case KILN_OP_amax:
  case KILN_OP_argmax:
    return lowest(emitter, dtype);
  case KILN_OP_amin:
  case KILN_OP_argmin:
    return highest(emitter, dtype);
  case KILN_OP_prod:
    return "1";
  case KILN_OP_all:
    return "true";
  default:
    return "0";
  }
}

static bool finds_place(kiln_op_t op) { return op == KILN_OP_argmax || op == KILN_OP_argmin; }

static void declare_partial(writer_t *w, kiln_expr_id_t id) {
  kiln_emitter_t *emitter = emitter_of(w);
  const kiln_expr_t *expr = expr_at(w, id);
  kiln_dtype_t dtype = expr_at(w, expr->operands[0])->dtype;
  const char *type = kiln_emit_arithmetic_type(dtype), *none = nothing(emitter, expr->op, dtype);
  uint32_t columns = w->r.region->lanes * w->tile.groups;
  const char *name = kiln_op_info(expr->op)->name;
  if (finds_place(expr->op))
    kiln_emit_line(emitter, "kiln_partial<kiln_%s, kiln_place<%s>, %u> p%u({%s, 0x7fffffffffffffffLL});",
                   name, type, columns, id, none);
  else
    kiln_emit_line(emitter, "kiln_partial<kiln_%s, %s, %u> p%u(%s);", name, type, columns, id, none);
}

static void emit_total(writer_t *w, kiln_expr_id_t id) {
  kiln_emitter_t *emitter = emitter_of(w);
  unsigned number = w->r.next_number++;
  emitter->names[id] = kiln_arena_printf(emitter->kernel->arena, "v%u", number);
  kiln_emit_line(emitter, "const %s v%u = p%u.total<%u, %u, %u>()%s;",
                 kiln_emit_storage_type(expr_at(w, id)->dtype), number, id, w->r.region->lanes,
                 w->tile.threads, id, finds_place(expr_at(w, id)->op) ? ".at" : "");
}

/* All that is the same along the row and known after this level. */
static void emit_level(writer_t *w, uint32_t level) {
  for (kiln_expr_id_t i = 0; i < w->r.count; i++) {
    if (!w->r.reachable[i] || w->on_row[i] || w->level[i] != level) continue;
    if (expr_at(w, i)->kind != KILN_EXPR_REDUCE) kiln_emit_expr(&w->r, i);
  }
}

static void emit_reductions(writer_t *w, uint32_t level) {
  for (kiln_expr_id_t i = 0; i < w->r.count; i++) {
    if (is_reduce_at(w, i, level)) declare_partial(w, i);
  }
  emit_loops(w, level);
  for (kiln_expr_id_t i = 0; i < w->r.count; i++) {
    if (is_reduce_at(w, i, level)) emit_total(w, i);
  }
  emit_level(w, level);
}

/* --- the kernel ---------------------------------------------------------------------------------------- */

static void emit_all_stores(writer_t *w) {
  kiln_emitter_t *emitter = emitter_of(w);
  const kiln_region_t *region = w->r.region;
  bool any_row = false, any_kept = false;
  for (uint32_t i = 0; i < region->store_count; i++) {
    bool on_row = stores_on_row(w, &region->stores[i]);
    any_row |= on_row;
    any_kept |= !on_row;
  }
  if (any_row) emit_loops(w, w->levels + 1);
  if (!any_kept) return;
  kiln_emit_line(emitter, "if (member == 0) {");
  emitter->indent++;
  for (uint32_t i = 0; i < region->store_count; i++) {
    const kiln_kernel_store_t *store = &region->stores[i];
    if (stores_on_row(w, store)) continue;
    kiln_emit_line(emitter, "%s = %s;", kiln_emit_element(&w->r, store->buffer, store->offset),
                   kiln_emit_stored(emitter, store->value));
  }
  emitter->indent--;
  kiln_emit_line(emitter, "}");
}

void kiln_rows_emit(kiln_emitter_t *emitter, const kiln_region_t *region, kiln_kernel_source_t *kernel) {
  writer_t w = {.r = kiln_region_writer(emitter, region)};
  find_levels(&w);
  w.tile = kiln_rows_tile(emitter->kernel, region, find_kept(&w));
  tell(&w);
  emit_place(&w);
  name_row(&w);
  emit_level(&w, 0);
  emit_kept(&w);
  for (uint32_t level = 1; level <= w.levels; level++) emit_reductions(&w, level);
  emit_all_stores(&w);
  kiln_region_t rows = without_row(region);
  kiln_extent_t count = kiln_emit_threads(emitter->kernel, &rows), one = {kiln_dim_constant(1), 1};
  kernel->grid[0] = (kiln_extent_t){count.dim, w.tile.block_threads / w.tile.threads};
  kernel->grid[1] = kernel->grid[2] = one;
  kernel->block[0] = w.tile.block_threads;
  kernel->block[1] = kernel->block[2] = 1;
}
