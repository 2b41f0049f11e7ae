/* codegen/reduce_emit.c: statements that all layouts of reductions are made of. See reduce_emit.h.
 *
 * Which expressions vary and on what level they stand is found in one loop over the pool; the rest writes
 * statements in its order. Called by rows_emit.c and columns_emit.c.
 */
#include "codegen/reduce_emit.h"

static kiln_emitter_t *emitter_of(const kiln_reduce_writer_t *w) { return w->r.emitter; }

const kiln_expr_t *kiln_reduce_expr(const kiln_reduce_writer_t *w, kiln_expr_id_t id) {
  return &w->r.emitter->kernel->exprs[id];
}

/* --- analysis ------------------------------------------------------------------------------------------ */

static bool is_own_axis(const kiln_reduce_writer_t *w, const kiln_expr_t *expr) {
  const kiln_region_t *region = w->r.region;
  if (expr->kind != KILN_EXPR_AXIS) return false;
  return expr->bits == w->row_axis || (region->lanes > 1 && expr->bits == region->lane_axis);
}

static void find_levels(kiln_reduce_writer_t *w) {
  for (kiln_expr_id_t i = 0; i < w->r.count; i++) {
    const kiln_expr_t *expr = kiln_reduce_expr(w, i);
    w->varies[i] = is_own_axis(w, expr);
    for (uint32_t k = 0; k < expr->operand_count; k++) {
      w->varies[i] |= w->varies[expr->operands[k]];
      if (w->level[expr->operands[k]] > w->level[i]) w->level[i] = w->level[expr->operands[k]];
    }
    if (expr->kind != KILN_EXPR_REDUCE) continue;
    w->varies[i] = w->lanes_are_results && w->r.lanes.depends[i];
    w->level[i]++;
    if (w->r.reachable[i] && w->level[i] > w->levels) w->levels = w->level[i];
  }
}

kiln_reduce_writer_t kiln_reduce_writer(kiln_emitter_t *emitter, const kiln_region_t *region,
                                        uint32_t row_axis, bool lanes_are_results) {
  kiln_arena_t *arena = emitter->kernel->arena;
  kiln_reduce_writer_t w = {.r = kiln_region_writer(emitter, region), .row_axis = row_axis};
  w.lanes_are_results = lanes_are_results;
  w.varies = KILN_NEW_ARRAY(arena, bool, w.r.count);
  w.level = KILN_NEW_ARRAY(arena, uint32_t, w.r.count);
  w.kept = KILN_NEW_ARRAY(arena, bool, w.r.count);
  w.kept_names = KILN_NEW_ARRAY(arena, const char *, w.r.count);
  find_levels(&w);
  return w;
}

bool kiln_reduce_is_at(const kiln_reduce_writer_t *w, kiln_expr_id_t id, uint32_t level) {
  return w->r.reachable[id] && kiln_reduce_expr(w, id)->kind == KILN_EXPR_REDUCE && w->level[id] == level;
}

bool kiln_reduce_store_varies(const kiln_reduce_writer_t *w, const kiln_kernel_store_t *store) {
  return w->varies[store->offset];
}

bool *kiln_reduce_needed(const kiln_reduce_writer_t *w, uint32_t level, bool at_hand) {
  bool *needed = KILN_NEW_ARRAY(emitter_of(w)->kernel->arena, bool, w->r.count);
  const kiln_region_t *region = w->r.region;
  for (kiln_expr_id_t i = 0; i < w->r.count; i++) {
    if (kiln_reduce_is_at(w, i, level)) needed[kiln_reduce_expr(w, i)->operands[0]] = true;
  }
  for (uint32_t i = 0; level > w->levels && i < region->store_count; i++) {
    if (!kiln_reduce_store_varies(w, &region->stores[i])) continue;
    needed[region->stores[i].offset] = needed[region->stores[i].value] = true;
  }
  for (kiln_expr_id_t i = (kiln_expr_id_t)w->r.count; i-- > 0;) {
    needed[i] &= w->varies[i];
    const kiln_expr_t *expr = kiln_reduce_expr(w, i);
    bool stops = expr->kind == KILN_EXPR_REDUCE || (at_hand && w->kept[i]);
    for (uint32_t k = 0; needed[i] && !stops && k < expr->operand_count; k++)
      needed[expr->operands[k]] = true;
  }
  return needed;
}

/* --- points -------------------------------------------------------------------------------------------- */

bool kiln_reduce_is_per_lane(const kiln_reduce_writer_t *w, kiln_expr_id_t load) {
  return w->r.lanes.depends[load] && w->r.load_widths[load] <= 1;
}

const char *kiln_reduce_kept(const kiln_reduce_writer_t *w, kiln_expr_id_t load) {
  return kiln_arena_printf(emitter_of(w)->kernel->arena,
                           kiln_reduce_is_per_lane(w, load) ? "%s[%s][lane]" : "%s[%s]", w->kept_names[load],
                           w->kept_slot);
}

void kiln_reduce_open_lanes(kiln_reduce_writer_t *w) {
  if (w->r.region->lanes == 1) return;
  kiln_emit_line(emitter_of(w), "#pragma unroll");
  kiln_emit_line(emitter_of(w), "for (int lane = 0; lane < %u; ++lane) {", w->r.region->lanes);
  emitter_of(w)->indent++;
}

void kiln_reduce_close_lanes(kiln_reduce_writer_t *w) {
  if (w->r.region->lanes == 1) return;
  emitter_of(w)->indent--;
  kiln_emit_line(emitter_of(w), "}");
}

void kiln_reduce_emit_shared(kiln_reduce_writer_t *w, const bool *needed, bool at_hand) {
  for (kiln_expr_id_t i = 0; i < w->r.count; i++) {
    if (!needed[i]) continue;
    bool is_kept = at_hand && w->kept[i], is_vector = w->r.lanes.depends[i] && w->r.load_widths[i] > 1;
    if (is_kept && is_vector)
      emitter_of(w)->names[i] = kiln_reduce_kept(w, i);
    else if (is_kept && !w->r.lanes.depends[i])
      kiln_emit_scalar(&w->r, i, kiln_reduce_kept(w, i));
    else if (is_vector)
      kiln_emit_vector_load(&w->r, i);
    else if (!w->r.lanes.depends[i])
      kiln_emit_expr(&w->r, i);
  }
}

void kiln_reduce_emit_lane(kiln_reduce_writer_t *w, const bool *needed, bool at_hand) {
  for (kiln_expr_id_t i = 0; i < w->r.count; i++) {
    if (!needed[i] || !w->r.lanes.depends[i]) continue;
    if (w->r.load_widths[i] > 1)
      kiln_emit_lane_of_vector(&w->r, i);
    else if (at_hand && w->kept[i])
      kiln_emit_scalar(&w->r, i, kiln_reduce_kept(w, i));
    else
      kiln_emit_expr(&w->r, i);
  }
}

void kiln_reduce_emit_level(kiln_reduce_writer_t *w, uint32_t level) {
  for (kiln_expr_id_t i = 0; i < w->r.count; i++) {
    if (!w->r.reachable[i] || w->varies[i] || w->level[i] != level) continue;
    if (kiln_reduce_expr(w, i)->kind != KILN_EXPR_REDUCE) kiln_emit_expr(&w->r, i);
  }
}

/* --- partial results ----------------------------------------------------------------------------------- */

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

bool kiln_reduce_finds_place(kiln_op_t op) { return op == KILN_OP_argmax || op == KILN_OP_argmin; }

const char *kiln_reduce_type(const kiln_reduce_writer_t *w, kiln_expr_id_t id) {
  const kiln_expr_t *expr = kiln_reduce_expr(w, id);
  const char *type = kiln_emit_arithmetic_type(kiln_reduce_expr(w, expr->operands[0])->dtype);
  if (!kiln_reduce_finds_place(expr->op)) return type;
  return kiln_arena_printf(emitter_of(w)->kernel->arena, "kiln_place<%s>", type);
}

const char *kiln_reduce_none(const kiln_reduce_writer_t *w, kiln_expr_id_t id) {
  const kiln_expr_t *expr = kiln_reduce_expr(w, id);
  const char *none = nothing(emitter_of(w), expr->op, kiln_reduce_expr(w, expr->operands[0])->dtype);
  if (!kiln_reduce_finds_place(expr->op)) return none;
  return kiln_arena_printf(emitter_of(w)->kernel->arena, "{%s, 0x7fffffffffffffffLL}", none);
}

void kiln_reduce_declare(kiln_reduce_writer_t *w, uint32_t level, uint32_t columns) {
  for (kiln_expr_id_t i = 0; i < w->r.count; i++) {
    if (!kiln_reduce_is_at(w, i, level)) continue;
    kiln_emit_line(emitter_of(w), "kiln_partial<kiln_%s, %s, %u> p%u(%s);",
                   kiln_op_info(kiln_reduce_expr(w, i)->op)->name, kiln_reduce_type(w, i), columns, i,
                   kiln_reduce_none(w, i));
  }
}

void kiln_reduce_emit_additions(kiln_reduce_writer_t *w, uint32_t level, const char *partial,
                                const char *column, const char *place) {
  for (kiln_expr_id_t i = 0; i < w->r.count; i++) {
    if (!kiln_reduce_is_at(w, i, level)) continue;
    const char *value = kiln_emit_value(emitter_of(w), kiln_reduce_expr(w, i)->operands[0]);
    if (kiln_reduce_finds_place(kiln_reduce_expr(w, i)->op))
      kiln_emit_line(emitter_of(w), "%s%u.add(%s, {%s, %s});", partial, i, column, value, place);
    else
      kiln_emit_line(emitter_of(w), "%s%u.add(%s, %s);", partial, i, column, value);
  }
}

uint32_t kiln_reduce_turns(kiln_dim_t points, int64_t step) {
  if (!kiln_dim_is_constant(points) || points.constant > KILN_REDUCE_RUN * step) return KILN_REDUCE_RUN;
  return points.constant ? (uint32_t)((points.constant + step - 1) / step) : 1;
}

void kiln_reduce_begin_run(kiln_reduce_writer_t *w, uint32_t level, uint32_t turns) {
  for (kiln_expr_id_t i = 0; i < w->r.count; i++) {
    if (kiln_reduce_is_at(w, i, level)) kiln_emit_line(emitter_of(w), "auto q%u = p%u.none();", i, i);
  }
  /* vectors that are put together take long to compile */
  kiln_emit_line(emitter_of(w), "#pragma unroll %d", w->r.region->realigns ? 1 : 4);
  kiln_emit_line(emitter_of(w), "for (int k = 0; k < %u; ++k) {", turns);
  emitter_of(w)->indent++;
}

void kiln_reduce_end_run(kiln_reduce_writer_t *w, uint32_t level) {
  emitter_of(w)->indent--;
  kiln_emit_line(emitter_of(w), "}");
  for (kiln_expr_id_t i = 0; i < w->r.count; i++) {
    if (kiln_reduce_is_at(w, i, level)) kiln_emit_line(emitter_of(w), "p%u.add(q%u);", i, i);
  }
}

/* --- stores -------------------------------------------------------------------------------------------- */

static void emit_vector_of_store(kiln_reduce_writer_t *w, uint32_t number) {
  const kiln_kernel_store_t *store = &w->r.region->stores[number];
  kiln_dtype_t dtype = emitter_of(w)->kernel->buffers[store->buffer].dtype;
  kiln_emit_line(emitter_of(w), "kiln_vector<%s, %u, %u> s%u;", kiln_emit_storage_type(dtype),
                 w->r.region->lanes, kiln_emit_store_bytes(&w->r, store->buffer), number);
}

static void emit_single_store(kiln_reduce_writer_t *w, const kiln_kernel_store_t *store) {
  kiln_emit_line(emitter_of(w), "%s = %s;", kiln_emit_element(&w->r, store->buffer, store->offset),
                 kiln_emit_stored(emitter_of(w), store->value));
}

void kiln_reduce_emit_varying_stores(kiln_reduce_writer_t *w, const bool *needed, bool at_hand) {
  const kiln_region_t *region = w->r.region;
  kiln_reduce_emit_shared(w, needed, at_hand);
  for (uint32_t i = 0; region->lanes > 1 && i < region->store_count; i++) {
    if (kiln_reduce_store_varies(w, &region->stores[i])) emit_vector_of_store(w, i);
  }
  kiln_reduce_open_lanes(w);
  kiln_reduce_emit_lane(w, needed, at_hand);
  for (uint32_t i = 0; region->lanes > 1 && i < region->store_count; i++) {
    if (!kiln_reduce_store_varies(w, &region->stores[i])) continue;
    kiln_emit_line(emitter_of(w), "s%u.at[lane] = %s;", i,
                   kiln_emit_stored(emitter_of(w), region->stores[i].value));
  }
  kiln_reduce_close_lanes(w);
  for (uint32_t i = 0; i < region->store_count; i++) {
    if (!kiln_reduce_store_varies(w, &region->stores[i])) continue;
    if (region->lanes > 1)
      kiln_emit_vector_store(&w->r, i);
    else
      emit_single_store(w, &region->stores[i]);
  }
}

void kiln_reduce_emit_single_stores(kiln_reduce_writer_t *w) {
  const kiln_region_t *region = w->r.region;
  for (uint32_t i = 0; i < region->store_count; i++) {
    if (!kiln_reduce_store_varies(w, &region->stores[i])) emit_single_store(w, &region->stores[i]);
  }
}
