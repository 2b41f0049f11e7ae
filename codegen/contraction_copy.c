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

static void emit_piece(kiln_emitter_t *emitter, const kiln_contraction_t *c, const kiln_copy_t *copy) {
  if (!copy->is_async) {
    kiln_emit_point(emitter, &copy->region);
    return;
  }
  const char *offset = kiln_emit_offset(emitter, copy->offset);
  kiln_emit_line(emitter, "kiln_copy_async<%u>(to, %s + %s);",
                 copy->width * (uint32_t)kiln_dtype_bytes(c->dtype), emitter->buffer_names[copy->buffer],
                 offset);
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

static void emit_copy(kiln_emitter_t *emitter, const kiln_contraction_t *c, const kiln_operand_t *operand,
                      const kiln_copy_t *copy, const char *type) {
  coordinate_t outer = coordinate(emitter, c, operand, !copy->along_rows, 1);
  coordinate_t inner = coordinate(emitter, c, operand, copy->along_rows, copy->width);
  uint32_t per_row = inner.size / copy->width, pieces = outer.size * per_row, threads = c->tile.threads;
  uint32_t bytes = copy->width * (uint32_t)kiln_dtype_bytes(c->dtype);
  name_axes(emitter, c, copy, &outer, &inner, type[0] == 'l');
  tell_copy(emitter, operand, copy);
  kiln_emit_line(emitter, copy->is_async ? "#pragma unroll" : "#pragma unroll 2");
  kiln_emit_line(emitter, "for (int i = 0; i < %u; ++i) {", (pieces + threads - 1) / threads);
  emitter->indent++;
  kiln_emit_line(emitter, "const int piece = i * %u + threadIdx.x, row = piece / %u, column = piece %% %u;",
                 threads, per_row, per_row);
  if (pieces % threads) kiln_emit_line(emitter, "if (piece >= %u) break;", pieces);
  kiln_emit_line(emitter, "const %s %s = %s + row, %s = %s + column;", type, outer.name, outer.from,
                 inner.name, inner.from);
  kiln_emit_line(emitter, "%s *const to = %s_stage + kiln_slot%s<%u, %u>(row, column * %u);",
                 kiln_emit_storage_type(c->dtype), operand->name,
                 c->is_tf32 && copy->along_rows ? "_of_pairs" : "", inner.size, kiln_contraction_chunk(c),
                 copy->width);
  const char *condition = bounds(emitter, &outer, &inner);
  if (condition) {
    kiln_emit_line(emitter, "if (!(%s)) {", condition);
    kiln_emit_line(emitter, "  kiln_clear<%u>(to);", bytes);
    kiln_emit_line(emitter, "  continue;");
    kiln_emit_line(emitter, "}");
  }
  emit_piece(emitter, c, copy);
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
