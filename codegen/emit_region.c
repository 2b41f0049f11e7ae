/* codegen/emit_region.c: one region as CUDA source.
 *
 * A thread finds its place on the axes, then evaluates the expressions in the order of the pool: first all
 * that is the same for the lanes of its vector (whole vectors are loaded here, too), then, in a loop over the
 * lanes, the rest; whole vectors are stored at the end. Expressions used as text (sums, constants) have no
 * statement of their own. Called by emit.c.
 */
#include "codegen/emit_region.h"
#include "codegen/tiles.h"

#include <stdarg.h>

void kiln_emit_line(kiln_emitter_t *emitter, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  for (unsigned i = 0; i < emitter->indent; i++) kiln_buffer_puts(&emitter->body, "  ");
  kiln_buffer_vprintf(&emitter->body, format, arguments);
  kiln_buffer_puts(&emitter->body, "\n");
  va_end(arguments);
}

static const kiln_expr_t *expr_at(const kiln_region_writer_t *r, kiln_expr_id_t id) {
  return &r->emitter->kernel->exprs[id];
}

/* --- threads
 * ------------------------------------------------------------------------------------------------ */

/* The last axis of a region with vectors has that many steps; others have their extent. */
const char *kiln_emit_steps(kiln_emitter_t *emitter, kiln_dim_t extent, uint32_t divisor, bool wide) {
  kiln_arena_t *arena = emitter->kernel->arena;
  if (kiln_dim_is_constant(extent)) {
    int64_t count = extent.constant / divisor + (extent.constant % divisor != 0);
    return kiln_arena_printf(arena, wide ? "%lldull" : "%lldu", (long long)count);
  }
  const char *text = kiln_emit_dim(emitter, extent, wide);
  if (divisor == 1) return kiln_arena_printf(arena, wide ? "(unsigned long long)%s" : "(unsigned)%s", text);
  return kiln_arena_printf(arena,
                           wide ? "(((unsigned long long)%s + %u) / %u)" : "(((unsigned)%s + %u) / %u)", text,
                           divisor - 1, divisor);
}

/* The extent of an axis for which ceil(extent / divisor) steps are multiplied with those of other axes: exact
 * for a number, else less than a step too many. */
static kiln_dim_t whole_steps(kiln_kernel_t *kernel, kiln_axis_t axis) {
  kiln_dim_t rest = kiln_dim_constant(axis.divisor - 1);
  if (!kiln_dim_is_constant(axis.extent)) return kiln_kernel_dim_add(kernel, axis.extent, rest);
  return kiln_dim_constant((axis.extent.constant + rest.constant) / axis.divisor * axis.divisor);
}

kiln_extent_t kiln_emit_threads(kiln_kernel_t *kernel, const kiln_region_t *region) {
  kiln_extent_t threads = {kiln_dim_constant(1), 1};
  for (uint32_t i = 0; i < region->axis_count; i++) {
    kiln_axis_t axis = kernel->axes[region->axes[i]];
    bool is_odd = region->realigns && axis.divisor > 1;
    threads.dim = kiln_kernel_dim_mul(kernel, threads.dim, is_odd ? whole_steps(kernel, axis) : axis.extent);
    threads.divisor *= axis.divisor;
  }
  return threads;
}

static const char *product_of_steps(kiln_emitter_t *emitter, const kiln_region_t *region, bool is_wide) {
  const char *text = is_wide ? "1ull" : "1u";
  for (uint32_t i = 0; i < region->axis_count; i++) {
    kiln_axis_t axis = emitter->kernel->axes[region->axes[i]];
    const char *count = kiln_emit_steps(emitter, axis.extent, axis.divisor, is_wide);
    text = i ? kiln_arena_printf(emitter->kernel->arena, "%s * %s", text, count) : count;
  }
  return text;
}

const char *kiln_emit_thread_count(kiln_emitter_t *emitter, const kiln_region_t *region, bool *out_is_wide) {
  kiln_extent_t threads = kiln_emit_threads(emitter->kernel, region);
  kiln_dim_t counted = threads.dim;
  if (kiln_dim_is_constant(counted)) counted.constant /= threads.divisor;
  *out_is_wide = !kiln_emit_fits(emitter, counted);
  if (region->realigns && !kiln_dim_is_constant(threads.dim))
    return product_of_steps(emitter, region, *out_is_wide);
  return kiln_emit_steps(emitter, threads.dim, threads.divisor, *out_is_wide);
}

/* Defines a%u for axis number `position` from what is left of the thread's number, and what is left then. */
static void emit_axis(kiln_region_writer_t *r, uint32_t position, const char *left, bool is_wide) {
  kiln_emitter_t *emitter = r->emitter;
  uint32_t number = r->region->axes[position];
  kiln_axis_t axis = emitter->kernel->axes[number];
  kiln_dim_t steps_taken = axis.extent;
  if (kiln_dim_is_constant(axis.extent)) steps_taken = kiln_dim_constant(axis.extent.constant / axis.divisor);
  bool axis_is_wide = !kiln_emit_fits(emitter, steps_taken);
  const char *count = kiln_emit_steps(emitter, axis.extent, axis.divisor, axis_is_wide);
  emitter->axis_is_wide[number] = axis_is_wide;
  emitter->axis_names[number] = kiln_arena_printf(emitter->kernel->arena, "a%u", position);
  const char *type = axis_is_wide ? "long long" : "int";
  if (position == 0) {
    kiln_emit_line(emitter, "const %s a0 = %s;", type, left);
    return;
  }
  kiln_emit_line(emitter, "const %s a%u = %s %% %s;", type, position, left, count);
  if (position == 1) return;
  kiln_emit_line(emitter, "const %s rest%u = %s / %s;", is_wide ? "unsigned long long" : "unsigned",
                 position - 1, left, count);
}

/* Takes the thread's number apart, the last axis first. */
void kiln_emit_axes(kiln_region_writer_t *r, bool is_wide) {
  kiln_emitter_t *emitter = r->emitter;
  const kiln_region_t *region = r->region;
  kiln_arena_t *arena = emitter->kernel->arena;
  const char *left = "thread";
  for (uint32_t i = region->axis_count; i-- > 0;) {
    kiln_axis_t axis = emitter->kernel->axes[region->axes[i]];
    emit_axis(r, i, left, is_wide);
    if (i == 1)
      left = kiln_arena_printf(arena, "%s / %s", left,
                               kiln_emit_steps(emitter, axis.extent, axis.divisor, is_wide));
    else
      left = kiln_arena_printf(arena, "rest%u", i - 1);
  }
}

static void emit_lane_count(kiln_region_writer_t *r) {
  kiln_emitter_t *emitter = r->emitter;
  const kiln_region_t *region = r->region;
  kiln_dim_t extent = emitter->kernel->axes[region->axes[0]].extent;
  bool count_is_wide = !kiln_emit_fits(emitter, extent);
  const char *cast = count_is_wide ? "(long long)" : "";
  kiln_emit_line(emitter, "const %s left = %s - %u * %sa0;", count_is_wide ? "long long" : "int",
                 kiln_emit_dim(emitter, extent, count_is_wide), region->lanes, cast);
  kiln_emit_line(emitter, "const int count = left < %u ? left : %u;", region->lanes, region->lanes);
}

/* --- scalars
 * ------------------------------------------------------------------------------------------------ */

/* Names the scalar's variable and its arithmetic form, which is defined where something computes with it. */
void kiln_emit_scalar(kiln_region_writer_t *r, kiln_expr_id_t id, const char *text) {
  kiln_emitter_t *emitter = r->emitter;
  kiln_arena_t *arena = emitter->kernel->arena;
  kiln_dtype_t dtype = expr_at(r, id)->dtype;
  unsigned number = r->next_number++;
  emitter->names[id] = kiln_arena_printf(arena, "v%u", number);
  kiln_emit_line(emitter, "const %s v%u = %s;", kiln_emit_storage_type(dtype), number, text);
  if (!r->needs_real[id]) return;
  emitter->real_names[id] = kiln_arena_printf(arena, "f%u", number);
  kiln_emit_line(emitter, "const float f%u = kiln_float_from_%s(v%u);", number, kiln_dtype_name(dtype),
                 number);
}

/* With excess precision what follows computes with the result as it was before it was rounded; casts still
 * round. */
static void emit_excess(kiln_region_writer_t *r, kiln_expr_id_t id, const char *text) {
  kiln_emitter_t *emitter = r->emitter;
  kiln_dtype_t dtype = expr_at(r, id)->dtype;
  unsigned number = r->next_number++;
  emitter->names[id] = kiln_arena_printf(emitter->kernel->arena, "v%u", number);
  emitter->real_names[id] = kiln_arena_printf(emitter->kernel->arena, "f%u", number);
  kiln_emit_line(emitter, "const float f%u = %s;", number, text);
  kiln_emit_line(emitter, "const unsigned short v%u = kiln_%s(f%u);", number, kiln_dtype_name(dtype), number);
}

/* A half-precision number as f32: its arithmetic form, which has a variable already. */
static bool is_widening(const kiln_region_writer_t *r, const kiln_expr_t *expr) {
  return expr->op == KILN_OP_cast && expr->dtype == KILN_DTYPE_f32 &&
         kiln_dtype_is_half(expr_at(r, expr->operands[0])->dtype);
}

static void emit_op(kiln_region_writer_t *r, kiln_expr_id_t id) {
  const kiln_expr_t *expr = expr_at(r, id);
  if (is_widening(r, expr)) {
    r->emitter->names[id] = kiln_emit_value(r->emitter, expr->operands[0]);
    return;
  }
  const char *text = kiln_emit_op(r->emitter, expr);
  bool moves = kiln_emit_op_moves_bits(expr);
  bool excess = r->emitter->context->options->excess_precision && kiln_dtype_is_half(expr->dtype);
  if (excess && !moves && expr->op != KILN_OP_cast)
    emit_excess(r, id, text);
  else
    kiln_emit_scalar(r, id, moves ? text : kiln_emit_rounded(r->emitter, text, expr->dtype));
}

/* --- loads
 * -------------------------------------------------------------------------------------------------- */

const char *kiln_emit_address(kiln_region_writer_t *r, uint32_t buffer, kiln_expr_id_t offset) {
  kiln_emitter_t *emitter = r->emitter;
  bool wide = kiln_emit_is_wide(emitter, offset);
  return kiln_arena_printf(emitter->kernel->arena, "%s + %s", emitter->buffer_names[buffer],
                           kiln_emit_index(emitter, offset, wide));
}

const char *kiln_emit_element(kiln_region_writer_t *r, uint32_t buffer, kiln_expr_id_t offset) {
  kiln_emitter_t *emitter = r->emitter;
  bool wide = kiln_emit_is_wide(emitter, offset);
  return kiln_arena_printf(emitter->kernel->arena, "%s[%s]", emitter->buffer_names[buffer],
                           kiln_emit_index(emitter, offset, wide));
}

const char *kiln_emit_element_load(kiln_region_writer_t *r, kiln_expr_id_t id) {
  kiln_arena_t *arena = r->emitter->kernel->arena;
  const kiln_expr_t *expr = expr_at(r, id);
  const char *staged = kiln_emit_staged(r->emitter, r->region, id);
  if (staged) return kiln_arena_printf(arena, "%s.at[0]", staged);
  const char *text = kiln_emit_element(r, (uint32_t)expr->bits, expr->operands[0]), *guard = NULL;
  if (!kiln_condition_is_true(r->emitter->kernel, expr->operands[1]))
    guard = r->emitter->names[expr->operands[1]];
  if (r->region->has_tail && r->lanes.depends[expr->operands[0]]) {
    guard = guard ? kiln_arena_printf(arena, "lane < count && %s", guard) : "lane < count";
  }
  if (guard) {
    text = kiln_arena_printf(arena, "%s ? %s : %s", guard, text, kiln_emit_bits(r->emitter, 0, expr->dtype));
  }
  return text;
}

/* A whole window, before the loop over the lanes. */
void kiln_emit_vector_load(kiln_region_writer_t *r, kiln_expr_id_t id) {
  kiln_emitter_t *emitter = r->emitter;
  const kiln_expr_t *expr = expr_at(r, id);
  const kiln_access_t *access = &r->loads[id];
  unsigned number = r->next_number++;
  const char *staged = kiln_emit_staged(emitter, r->region, id);
  if (staged) {
    emitter->names[id] = kiln_arena_printf(emitter->kernel->arena, "w%u", number);
    kiln_emit_line(emitter, "const auto w%u = %s;", number, staged);
    return;
  }
  uint32_t bytes = r->load_widths[id] * (uint32_t)kiln_dtype_bytes(expr->dtype);
  const char *from = kiln_emit_address(r, (uint32_t)expr->bits, access->base),
             *part = r->region->has_tail ? "_part" : "", *count = r->region->has_tail ? ", count" : "";
  emitter->names[id] = kiln_arena_printf(emitter->kernel->arena, "w%u", number);
  if (r->realigned[id]) {
    kiln_emit_line(emitter, "const auto w%u = kiln_load_row<%u, %u, %u>(%s, left, %s);", number,
                   access->window, bytes, r->team, from, r->is_first);
    return;
  }
  if (kiln_condition_is_true(emitter->kernel, expr->operands[1])) {
    kiln_emit_line(emitter, "const auto w%u = kiln_load%s<%u, %u>(%s%s);", number, part, access->window,
                   bytes, from, count);
    return;
  }
  kiln_emit_line(emitter, "kiln_vector<%s, %u, %u> w%u = {};", kiln_emit_storage_type(expr->dtype),
                 access->window, bytes, number);
  kiln_emit_line(emitter, "if (%s) w%u = kiln_load%s<%u, %u>(%s%s);", emitter->names[expr->operands[1]],
                 number, part, access->window, bytes, from, count);
}

/* The lane's element of a vector that was loaded before. */
void kiln_emit_lane_of_vector(kiln_region_writer_t *r, kiln_expr_id_t id) {
  const char *position = "lane";
  if (!r->loads[id].is_contiguous) position = kiln_emit_index(r->emitter, r->loads[id].pattern, false);
  kiln_emit_scalar(
      r, id, kiln_arena_printf(r->emitter->kernel->arena, "%s.at[%s]", r->emitter->names[id], position));
}

/* --- statements
 * --------------------------------------------------------------------------------------------- */

static void emit_index_variable(kiln_region_writer_t *r, kiln_expr_id_t id) {
  kiln_emitter_t *emitter = r->emitter;
  bool wide = !kiln_emit_fits(emitter, expr_at(r, id)->upper);
  const char *text = kiln_emit_atom(emitter, id, wide);
  unsigned number = r->next_number++;
  emitter->names[id] = kiln_arena_printf(emitter->kernel->arena, "i%u", number);
  kiln_emit_line(emitter, "const %s i%u = %s;", wide ? "long long" : "int", number, text);
}

static void emit_condition(kiln_region_writer_t *r, kiln_expr_id_t id) {
  unsigned number = r->next_number;
  if (kiln_condition_is_true(r->emitter->kernel, id)) return;
  const char *text = kiln_emit_condition(r->emitter, id);
  r->next_number++;
  r->emitter->names[id] = kiln_arena_printf(r->emitter->kernel->arena, "c%u", number);
  kiln_emit_line(r->emitter, "const bool c%u = %s;", number, text);
}

static void emit_position(kiln_region_writer_t *r, kiln_expr_id_t id) {
  kiln_emit_scalar(r, id, kiln_emit_index(r->emitter, expr_at(r, id)->operands[0], true));
}

static void emit_select(kiln_region_writer_t *r, kiln_expr_id_t id) {
  const kiln_expr_id_t *operands = expr_at(r, id)->operands;
  kiln_emit_scalar(r, id,
                   kiln_arena_printf(
                       r->emitter->kernel->arena, "%s ? %s : %s", r->emitter->names[operands[0]],
                       kiln_emit_stored(r->emitter, operands[1]), kiln_emit_stored(r->emitter, operands[2])));
}

void kiln_emit_expr(kiln_region_writer_t *r, kiln_expr_id_t id) {
  switch (expr_at(r, id)->kind) {
  case KILN_EXPR_DIV:
  case KILN_EXPR_MOD:
  case KILN_EXPR_CLAMPED:
    emit_index_variable(r, id);
    break;
  case KILN_EXPR_ALL:
    emit_condition(r, id);
    break;
  case KILN_EXPR_LOAD:
    kiln_emit_scalar(r, id, kiln_emit_element_load(r, id));
    break;
  case KILN_EXPR_POSITION:
    emit_position(r, id);
    break;
  case KILN_EXPR_OP:
    emit_op(r, id);
    break;
  case KILN_EXPR_SELECT:
    emit_select(r, id);
    break;
  case KILN_EXPR_LINEAR:
  case KILN_EXPR_AXIS:
  case KILN_EXPR_CONSTANT:
    break; /* text where they are used */
  case KILN_EXPR_REDUCE:
    break; /* a stage of its own (rows.c) */
  }
}

/* --- stores
 * ------------------------------------------------------------------------------------------------- */

static void emit_element_stores(kiln_region_writer_t *r) {
  for (uint32_t i = 0; i < r->region->store_count; i++) {
    const kiln_kernel_store_t *store = &r->region->stores[i];
    kiln_emit_line(r->emitter, "%s = %s;", kiln_emit_element(r, store->buffer, store->offset),
                   kiln_emit_stored(r->emitter, store->value));
  }
}

uint32_t kiln_emit_store_bytes(kiln_region_writer_t *r, uint32_t buffer) {
  return kiln_vector_bytes(r->emitter->kernel, r->region, buffer);
}

static void emit_vector_declarations(kiln_region_writer_t *r) {
  for (uint32_t i = 0; i < r->region->store_count; i++) {
    uint32_t buffer = r->region->stores[i].buffer;
    kiln_dtype_t dtype = r->emitter->kernel->buffers[buffer].dtype;
    kiln_emit_line(r->emitter, "kiln_vector<%s, %u, %u> s%u;", kiln_emit_storage_type(dtype),
                   r->region->lanes, kiln_emit_store_bytes(r, buffer), i);
  }
}

/* Alignment was settled when the width was chosen; here it is put on record. */
void kiln_emit_vector_store(kiln_region_writer_t *r, uint32_t number) {
  kiln_emitter_t *emitter = r->emitter;
  const kiln_region_t *region = r->region;
  const kiln_kernel_store_t *store = &region->stores[number];
  const kiln_symbol_class_t *class = emitter->context->symbol_class;
  kiln_access_t access = kiln_lanes_access(&r->lanes, store->offset, kiln_condition_true(emitter->kernel));
  uint32_t bytes = kiln_emit_store_bytes(r, store->buffer);
  const char *to = kiln_emit_address(r, store->buffer, access.base);
  if (kiln_access_is_realigned(emitter->kernel, region, &access, store->buffer, class)) {
    if (r->team)
      kiln_emit_line(emitter, "kiln_store_row<%u, %u, %u>(%s, s%u, left, %s);", region->lanes, bytes, r->team,
                     to, number, r->is_first);
    else
      kiln_emit_line(emitter, "kiln_store_each(%s, s%u, count);", to, number);
    return;
  }
  kiln_access_width(emitter->kernel, &access, store->buffer, class, emitter->context->guards);
  bool is_shared = emitter->kernel->buffers[store->buffer].kind == KILN_KERNEL_SHARED;
  kiln_emit_line(emitter, "kiln_%s%s<%u, %u>(%s, s%u%s);", is_shared ? "put" : "store",
                 region->has_tail ? "_part" : "", region->lanes, bytes, to, number,
                 region->has_tail ? ", count" : "");
}

/* --- the region
 * --------------------------------------------------------------------------------------------- */

/* How a load that has a pattern is done. */
static void choose_load(kiln_region_writer_t *r, kiln_expr_id_t id, kiln_access_t access) {
  const kiln_kernel_t *kernel = r->emitter->kernel;
  const kiln_symbol_class_t *class = r->emitter->context->symbol_class;
  uint32_t buffer = (uint32_t)expr_at(r, id)->bits;
  r->realigned[id] = kiln_access_is_realigned(kernel, r->region, &access, buffer, class);
  if (r->realigned[id])
    r->load_widths[id] = kiln_vector_bytes(kernel, r->region, buffer) /
                         (uint32_t)kiln_dtype_bytes(kernel->buffers[buffer].dtype);
  else if (kiln_access_width(kernel, &access, buffer, class, NULL) > 1)
    r->load_widths[id] = kiln_access_width(kernel, &access, buffer, class, r->emitter->context->guards);
  if (r->load_widths[id] > 1) r->loads[id] = access;
}

/* Chooses how each load is done and finds out which half-precision scalars are computed with. */
static void prepare(kiln_region_writer_t *r) {
  kiln_kernel_t *kernel = r->emitter->kernel;
  size_t count = kernel->expr_count;
  r->needs_real = KILN_NEW_ARRAY(kernel->arena, bool, count);
  r->loads = KILN_NEW_ARRAY(kernel->arena, kiln_access_t, count);
  r->load_widths = KILN_NEW_ARRAY(kernel->arena, uint32_t, count);
  r->realigned = KILN_NEW_ARRAY(kernel->arena, bool, count);
  for (size_t i = 0; i < count; i++) {
    const kiln_expr_t *expr = &kernel->exprs[i];
    if (!r->reachable[i]) continue;
    for (uint32_t k = 0;
         expr->kind == KILN_EXPR_OP && !kiln_emit_op_moves_bits(expr) && k < expr->operand_count; k++) {
      r->needs_real[expr->operands[k]] = kiln_dtype_is_half(kernel->exprs[expr->operands[k]].dtype);
    }
    if (expr->kind != KILN_EXPR_LOAD || r->region->lanes == 1) continue;
    kiln_access_t access = kiln_lanes_access(&r->lanes, expr->operands[0], expr->operands[1]);
    r->load_widths[i] = 1;
    if (kiln_emit_staged(r->emitter, r->region, (kiln_expr_id_t)i)) {
      r->load_widths[i] = r->region->lanes;
      r->loads[i].is_contiguous = true;
      continue;
    }
    if (!access.is_vector || (r->region->has_tail && !access.is_contiguous)) continue;
    choose_load(r, (kiln_expr_id_t)i, access);
  }
}

static void emit_lanes(kiln_region_writer_t *r) {
  kiln_emitter_t *emitter = r->emitter;
  emit_vector_declarations(r);
  kiln_emit_line(emitter, "#pragma unroll");
  kiln_emit_line(emitter, "for (int lane = 0; lane < %u; ++lane) {", r->region->lanes);
  emitter->indent++;
  for (kiln_expr_id_t i = 0; i < r->count; i++) {
    if (!r->reachable[i] || !r->lanes.depends[i]) continue;
    if (r->load_widths[i] > 1)
      kiln_emit_lane_of_vector(r, i);
    else
      kiln_emit_expr(r, i);
  }
  for (uint32_t i = 0; i < r->region->store_count; i++) {
    kiln_emit_line(emitter, "s%u.at[lane] = %s;", i, kiln_emit_stored(emitter, r->region->stores[i].value));
  }
  emitter->indent--;
  kiln_emit_line(emitter, "}");
  for (uint32_t i = 0; i < r->region->store_count; i++) kiln_emit_vector_store(r, i);
}

void kiln_emit_start_region(kiln_emitter_t *emitter) {
  kiln_kernel_t *kernel = emitter->kernel;
  emitter->axis_names = KILN_NEW_ARRAY(kernel->arena, const char *, kernel->axis_count);
  emitter->axis_is_wide = KILN_NEW_ARRAY(kernel->arena, bool, kernel->axis_count);
}

void kiln_emit_name_axis(kiln_emitter_t *emitter, uint32_t axis, const char *name, bool is_wide) {
  emitter->axis_names[axis] = name;
  emitter->axis_is_wide[axis] = is_wide;
}

kiln_region_writer_t kiln_region_writer(kiln_emitter_t *emitter, const kiln_region_t *region) {
  kiln_kernel_t *kernel = emitter->kernel;
  kiln_region_writer_t r = {
      .emitter = emitter, .region = region, .lanes = kiln_lanes_analyze(kernel, region)};
  r.reachable = kiln_region_reachable(kernel, region);
  r.count = kernel->expr_count;
  emitter->names = KILN_NEW_ARRAY(kernel->arena, const char *, r.count);
  emitter->real_names = KILN_NEW_ARRAY(kernel->arena, const char *, r.count);
  prepare(&r);
  return r;
}

/* Evaluates and stores; the axes have their names. */
static void emit_stores(kiln_region_writer_t *r) {
  const kiln_region_t *region = r->region;
  if (region->lanes > 1) kiln_emit_name_axis(r->emitter, region->lane_axis, "lane", false);
  if (region->has_tail) emit_lane_count(r);
  for (kiln_expr_id_t i = 0; i < r->count; i++) {
    if (!r->reachable[i]) continue;
    if (!r->lanes.depends[i])
      kiln_emit_expr(r, i);
    else if (r->load_widths[i] > 1)
      kiln_emit_vector_load(r, i);
  }
  if (region->lanes > 1)
    emit_lanes(r);
  else
    emit_element_stores(r);
}

void kiln_emit_point(kiln_emitter_t *emitter, const kiln_region_t *region) {
  kiln_region_writer_t r = kiln_region_writer(emitter, region);
  emit_stores(&r);
}

const char *kiln_emit_offset(kiln_emitter_t *emitter, kiln_expr_id_t offset) {
  const kiln_kernel_store_t use = {.offset = offset, .value = offset};
  const kiln_region_t region = {.lanes = 1, .stores = &use, .store_count = 1};
  kiln_region_writer_t r = kiln_region_writer(emitter, &region);
  for (kiln_expr_id_t i = 0; i < r.count; i++) {
    if (r.reachable[i]) kiln_emit_expr(&r, i);
  }
  return kiln_emit_index(emitter, offset, kiln_emit_is_wide(emitter, offset));
}

void kiln_emit_region(kiln_emitter_t *emitter, const kiln_region_t *region) {
  kiln_region_writer_t r = kiln_region_writer(emitter, region);
  kiln_emit_start_region(emitter);
  bool wide;
  kiln_emit_thread_count(emitter, region, &wide);
  kiln_emit_axes(&r, wide);
  emit_stores(&r);
}
