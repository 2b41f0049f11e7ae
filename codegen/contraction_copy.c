/* codegen/contraction_copy.c: source of the copies from global to shared memory.
 *
 * A tile in shared memory has outer rows of inner elements; the inner axis is k, or m (n), as planned.
 * Threads walk it in pieces of `width` elements, neighbours first, so that a warp reads whole sectors. What
 * lies outside the operand becomes 0 and is not read. Called by contraction_emit.c, inside the loop over K.
 */
#include "codegen/contraction.h"

/* One of the two coordinates of a piece. */
typedef struct {
  const kiln_space_axis_t *axis;
  const char *name; /* "m", "n", "k"; "k_by_8" for steps of 8 */
  const char *from; /* the tile's first: "tile_m * 128", "step * 4" */
  uint32_t size;    /* of the tile */
  uint32_t width;
} coordinate_t;

static coordinate_t coordinate(kiln_emitter_t *emitter, const kiln_contraction_t *c,
                               const kiln_operand_t *operand, bool is_rows, uint32_t width) {
  kiln_arena_t *arena = emitter->kernel->arena;
  coordinate_t result = {.axis = is_rows ? operand->rows : &c->k,
                         .name = is_rows ? operand->row_name : "k",
                         .size = is_rows ? operand->tile_rows : c->tile.k,
                         .width = width};
  result.from = is_rows ? kiln_arena_printf(arena, "tile_%s * %u", operand->row_name, result.size / width)
                        : kiln_arena_printf(arena, "step * %u", result.size / width);
  if (width > 1) result.name = kiln_arena_printf(arena, "%s_by_%u", result.name, width);
  return result;
}

/* Can a tile reach past the end of the axis? */
static bool is_checked(const coordinate_t *at) {
  return !kiln_dim_is_constant(at->axis->extent) || at->axis->extent.constant % at->size;
}

static const char *position(kiln_emitter_t *emitter, const coordinate_t *at) {
  if (at->width == 1) return at->name;
  return kiln_arena_printf(emitter->kernel->arena, "%u * %s", at->width, at->name);
}

static const char *bound(kiln_emitter_t *emitter, const coordinate_t *at) {
  return kiln_arena_printf(emitter->kernel->arena, "%s < %s", position(emitter, at),
                           kiln_emit_dim(emitter, at->axis->extent, false));
}

/* The condition for a piece to begin inside the operand; NULL: always. */
static const char *bounds(kiln_emitter_t *emitter, const coordinate_t *outer, const coordinate_t *inner) {
  const char *text = is_checked(outer) ? bound(emitter, outer) : NULL;
  if (!is_checked(inner)) return text;
  const char *other = bound(emitter, inner);
  return text ? kiln_arena_printf(emitter->kernel->arena, "%s && %s", text, other) : other;
}

/* A piece that goes through registers: where it is outside, zeros take its place. */
static void emit_computed_piece(kiln_emitter_t *emitter, const kiln_copy_t *copy, uint32_t bytes,
                                const char *condition) {
  if (condition) {
    kiln_emit_line(emitter, "if (!(%s)) {", condition);
    kiln_emit_line(emitter, "  kiln_clear<%u>(to);", bytes);
    kiln_emit_line(emitter, "  continue;");
    kiln_emit_line(emitter, "}");
  }
  kiln_emit_point(emitter, &copy->region);
}

/* condition: for the piece to be inside; NULL: it always is. */
static void emit_piece(kiln_emitter_t *emitter, const kiln_contraction_t *c, const kiln_copy_t *copy,
                       const char *condition) {
  uint32_t bytes = copy->width * (uint32_t)kiln_dtype_bytes(c->dtype);
  const char *from = emitter->buffer_names[copy->buffer];
  if (!copy->is_async) {
    emit_computed_piece(emitter, copy, bytes, condition);
    return;
  }
  const char *offset = kiln_emit_offset(emitter, copy->offset);
  if (condition)
    kiln_emit_line(emitter, "kiln_copy_async_part<%u>(to, %s + (%s), %s ? %u : 0);", bytes, from, offset,
                   condition, bytes);
  else
    kiln_emit_line(emitter, "kiln_copy_async<%u>(to, %s + %s);", bytes, from, offset);
}

static void name_axes(kiln_emitter_t *emitter, const kiln_contraction_t *c, const kiln_copy_t *copy,
                      const coordinate_t *outer, const coordinate_t *inner, bool is_wide) {
  kiln_emit_start_region(emitter);
  kiln_emit_name_axis(emitter, c->batch.axis, "batch", is_wide);
  kiln_emit_name_axis(emitter, outer->axis->axis, outer->name, is_wide);
  if (copy->has_step_axis) kiln_emit_name_axis(emitter, copy->step_axis, inner->name, is_wide);
}

static void tell_copy(kiln_emitter_t *emitter, const kiln_operand_t *operand, const kiln_copy_t *copy) {
  kiln_emit_line(emitter, "// %s: %s, %u element%s along %s at a time.", operand->name,
                 copy->is_async ? "copied" : "computed", copy->width, copy->width == 1 ? "" : "s",
                 copy->along_rows ? operand->row_name : "k");
}

/* Elements from one step of K to the next; 0 when that is no fixed distance. */
static kiln_dim_t distance(const kiln_contraction_t *c, const kiln_copy_t *copy) {
  uint32_t axis = copy->along_rows ? c->k.axis : copy->step_axis;
  kiln_dim_t steps = kiln_dim_constant(c->tile.k / (copy->along_rows ? 1 : copy->width));
  return kiln_kernel_dim_mul(c->kernel, kiln_schedule_stride(c->kernel, copy->offset, axis), steps);
}

/* With sizes that are no constants, what does not change from step to step is kept, or the compiler would
 * make it again in each: a pointer for each piece, and its bytes: none where its row is outside. */
static bool keeps_pointers(const kiln_contraction_t *c, const kiln_operand_t *operand) {
  return operand->selector && operand->selector->count == 1 && operand->copy.is_async &&
         !kiln_dim_is(distance(c, &operand->copy), 0);
}

static void emit_piece_place(kiln_emitter_t *emitter, const kiln_contraction_t *c, uint32_t pieces,
                             uint32_t per_row) {
  kiln_emit_line(emitter, "const int piece = i * %u + threadIdx.x, row = piece / %u, column = piece %% %u;",
                 c->tile.threads, per_row, per_row);
  if (pieces % c->tile.threads) kiln_emit_line(emitter, "if (piece >= %u) break;", pieces);
}

void kiln_contraction_emit_pointers(kiln_emitter_t *emitter, const kiln_contraction_t *c,
                                    const kiln_operand_t *operand, const char *type) {
  const kiln_copy_t *copy = &operand->copy;
  if (!keeps_pointers(c, operand)) return;
  coordinate_t outer = coordinate(emitter, c, operand, !copy->along_rows, 1);
  coordinate_t inner = coordinate(emitter, c, operand, copy->along_rows, copy->width);
  uint32_t per_row = inner.size / copy->width, pieces = outer.size * per_row, threads = c->tile.threads;
  uint32_t turns = (pieces + threads - 1) / threads;
  const coordinate_t *rows = copy->along_rows ? &inner : &outer;
  *(copy->along_rows ? &outer.from : &inner.from) = "0";
  name_axes(emitter, c, copy, &outer, &inner, type[0] == 'l');
  kiln_emit_line(emitter, "// %s: where the pieces of a step come from; rows outside have no bytes.",
                 operand->name);
  kiln_emit_line(emitter, "const %s *%s_from[%u];", kiln_emit_storage_type(c->dtype), operand->name, turns);
  kiln_emit_line(emitter, "unsigned %s_bytes[%u];", operand->name, turns);
  kiln_emit_line(emitter, "#pragma unroll");
  kiln_emit_line(emitter, "for (int i = 0; i < %u; ++i) {", turns);
  emitter->indent++;
  emit_piece_place(emitter, c, pieces, per_row);
  kiln_emit_line(emitter, "const %s %s = %s + row, %s = %s + column;", type, outer.name, outer.from,
                 inner.name, inner.from);
  const char *offset = kiln_emit_offset(emitter, copy->offset);
  kiln_emit_line(emitter, "%s_from[i] = %s + (%s);", operand->name, emitter->buffer_names[copy->buffer],
                 offset);
  kiln_emit_line(emitter, "%s_bytes[i] = %s ? %u : 0;", operand->name, bound(emitter, rows),
                 copy->width * (uint32_t)kiln_dtype_bytes(c->dtype));
  emitter->indent--;
  kiln_emit_line(emitter, "}");
}

static void emit_next_copy(kiln_emitter_t *emitter, const kiln_contraction_t *c,
                           const kiln_operand_t *operand, const char *type) {
  const kiln_copy_t *copy = &operand->copy;
  const char *name = operand->name;
  coordinate_t outer = coordinate(emitter, c, operand, !copy->along_rows, 1);
  coordinate_t inner = coordinate(emitter, c, operand, copy->along_rows, copy->width);
  uint32_t per_row = inner.size / copy->width, pieces = outer.size * per_row, threads = c->tile.threads;
  const coordinate_t *k = copy->along_rows ? &outer : &inner;
  tell_copy(emitter, operand, copy);
  kiln_emit_line(emitter, "#pragma unroll");
  kiln_emit_line(emitter, "for (int i = 0; i < %u; ++i) {", (pieces + threads - 1) / threads);
  emitter->indent++;
  emit_piece_place(emitter, c, pieces, per_row);
  kiln_emit_line(emitter, "const %s %s = %s + %s;", type, k->name, k->from,
                 copy->along_rows ? "row" : "column");
  kiln_emit_line(emitter, "%s *const to = %s_stage + kiln_slot<%u, %u>(row, column * %u);",
                 kiln_emit_storage_type(c->dtype), name, inner.size, kiln_contraction_chunk(c), copy->width);
  kiln_emit_line(emitter, "kiln_copy_async_part<%u>(to, %s_from[i], %s ? %s_bytes[i] : 0);",
                 copy->width * (uint32_t)kiln_dtype_bytes(c->dtype), name, bound(emitter, k), name);
  kiln_emit_line(emitter, "%s_from[i] += %s;", name, kiln_emit_dim(emitter, distance(c, copy), true));
  emitter->indent--;
  kiln_emit_line(emitter, "}");
}

static void emit_copy(kiln_emitter_t *emitter, const kiln_contraction_t *c, const kiln_operand_t *operand,
                      const kiln_copy_t *copy, const char *type) {
  coordinate_t outer = coordinate(emitter, c, operand, !copy->along_rows, 1);
  coordinate_t inner = coordinate(emitter, c, operand, copy->along_rows, copy->width);
  uint32_t per_row = inner.size / copy->width, pieces = outer.size * per_row, threads = c->tile.threads;
  name_axes(emitter, c, copy, &outer, &inner, type[0] == 'l');
  tell_copy(emitter, operand, copy);
  kiln_emit_line(emitter, copy->is_async ? "#pragma unroll" : "#pragma unroll 2");
  kiln_emit_line(emitter, "for (int i = 0; i < %u; ++i) {", (pieces + threads - 1) / threads);
  emitter->indent++;
  emit_piece_place(emitter, c, pieces, per_row);
  kiln_emit_line(emitter, "const %s %s = %s + row, %s = %s + column;", type, outer.name, outer.from,
                 inner.name, inner.from);
  kiln_emit_line(emitter, "%s *const to = %s_stage + kiln_slot%s<%u, %u>(row, column * %u);",
                 kiln_emit_storage_type(c->dtype), operand->name,
                 c->is_tf32 && copy->along_rows ? "_of_pairs" : "", inner.size, kiln_contraction_chunk(c),
                 copy->width);
  emit_piece(emitter, c, copy, bounds(emitter, &outer, &inner));
  emitter->indent--;
  kiln_emit_line(emitter, "}");
}

/* Where members differ in their widths, only this copy varies. */
void kiln_contraction_emit_copy(kiln_emitter_t *emitter, const kiln_contraction_t *c,
                                const kiln_operand_t *operand, const char *type) {
  const kiln_selector_t *selector = operand->selector;
  const kiln_codegen_context_t *context = emitter->context;
  if (!selector) {
    emit_copy(emitter, c, operand, &operand->copy, type);
    return;
  }
  if (keeps_pointers(c, operand)) {
    emit_next_copy(emitter, c, operand, type);
    return;
  }
  for (uint32_t i = 0; i < selector->count; i++) {
    bool is_last = i + 1 == selector->count;
    if (is_last)
      kiln_emit_line(emitter, i ? "} else {" : "{");
    else
      kiln_emit_line(emitter, "%sif (%s == %u) {", i ? "} else " : "", selector->name, selector->widths[i]);
    emitter->indent++;
    emitter->context = kiln_contraction_context(c, selector->widths[i]);
    emit_copy(emitter, c, operand, &operand->copies[i], type);
    emitter->context = context;
    emitter->indent--;
  }
  kiln_emit_line(emitter, "}");
}
