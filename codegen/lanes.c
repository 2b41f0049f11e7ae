/* codegen/lanes.c: the pattern of an access across the lanes of a vector. See lanes.h.
 *
 * An index that depends on the lane is evaluated for each lane where it can be (a function of the lane
 * alone); an offset is then a base, the same for all lanes, plus such a pattern: 0,1,2,3 for a plain row,
 * 3,2,1,0 for a reversed one, 0,0,1,1 for an interleaved repetition. One load of the window serves them all.
 */
#include "codegen/lanes.h"

static void evaluate(kiln_lanes_t *lanes, kiln_expr_id_t id) {
  const kiln_expr_t *expr = &lanes->kernel->exprs[id];
  bool fixed = expr->kind <= KILN_EXPR_MOD;
  for (uint32_t i = 0; i < expr->operand_count; i++) fixed &= lanes->fixed[expr->operands[i]];
  for (uint32_t i = 0; i < expr->dim_count; i++) fixed &= kiln_dim_is_constant(expr->dims[i]);
  if (expr->kind == KILN_EXPR_AXIS) fixed = lanes->depends[id];
  lanes->fixed[id] = fixed;
  for (uint32_t lane = 0; fixed && lane < lanes->region->lanes; lane++) {
    int64_t *value = &lanes->values[id][lane], operand = 0;
    if (expr->operand_count) operand = lanes->values[expr->operands[0]][lane];
    switch (expr->kind) {
    case KILN_EXPR_AXIS:
      *value = lane;
      break;
    case KILN_EXPR_DIV:
      *value = operand / expr->dims[0].constant;
      break;
    case KILN_EXPR_MOD:
      *value = operand % expr->dims[0].constant;
      break;
    default:
      *value = expr->dims[0].constant;
      for (uint32_t i = 0; i < expr->operand_count; i++) {
        *value += expr->dims[i + 1].constant * lanes->values[expr->operands[i]][lane];
      }
    }
  }
}

kiln_lanes_t kiln_lanes_analyze(kiln_kernel_t *kernel, const kiln_region_t *region) {
  size_t count = kernel->expr_count;
  kiln_lanes_t lanes = {.kernel = kernel,
                        .region = region,
                        .depends = KILN_NEW_ARRAY(kernel->arena, bool, count),
                        .fixed = KILN_NEW_ARRAY(kernel->arena, bool, count),
                        .values = kiln_arena_alloc(kernel->arena, count * sizeof *lanes.values)};
  if (region->lanes == 1) return lanes;
  for (kiln_expr_id_t i = 0; i < count; i++) {
    const kiln_expr_t *expr = &kernel->exprs[i];
    lanes.depends[i] = expr->kind == KILN_EXPR_AXIS && expr->bits == region->lane_axis;
    for (uint32_t k = 0; k < expr->operand_count; k++) lanes.depends[i] |= lanes.depends[expr->operands[k]];
    if (expr->kind == KILN_EXPR_REDUCE && region->has_row) lanes.depends[i] = false; /* of all lanes */
    evaluate(&lanes, i);
  }
  kiln_expr_id_t *axes = KILN_NEW_ARRAY(kernel->arena, kiln_expr_id_t, kernel->axis_count);
  for (size_t i = 0; i < kernel->axis_count; i++) axes[i] = KILN_SAME_AXIS;
  axes[region->lane_axis] = kiln_index_constant(kernel, kiln_dim_constant(0));
  bool *marked = kiln_region_reachable(kernel, region);
  for (size_t i = 0; i < count; i++) marked[i] &= kernel->exprs[i].kind != KILN_EXPR_REDUCE;
  lanes.at_zero = kiln_rewrite(kernel, axes, 0, marked);
  return lanes;
}

/* The positions of the lanes relative to lane 0, when all that depends on the lane is fixed. */
static bool relative_positions(const kiln_lanes_t *lanes, kiln_expr_id_t offset, int64_t *out_positions) {
  const kiln_expr_t *linear = &lanes->kernel->exprs[offset];
  for (uint32_t l = 0; l < lanes->region->lanes; l++) out_positions[l] = 0;
  for (uint32_t i = 0; i < linear->operand_count; i++) {
    kiln_expr_id_t atom = linear->operands[i];
    if (!lanes->depends[atom]) continue;
    if (!lanes->fixed[atom] || !kiln_dim_is_constant(linear->dims[i + 1])) return false;
    for (uint32_t l = 0; l < lanes->region->lanes; l++) {
      out_positions[l] += linear->dims[i + 1].constant * (lanes->values[atom][l] - lanes->values[atom][0]);
    }
  }
  return true;
}

kiln_access_t kiln_lanes_access(const kiln_lanes_t *lanes, kiln_expr_id_t offset, kiln_expr_id_t guard) {
  kiln_kernel_t *kernel = lanes->kernel;
  int64_t positions[KILN_MAX_LANES], least = 0, greatest = 0;
  kiln_access_t access = {.base = offset};
  if (!lanes->depends[offset] || lanes->depends[guard] || !relative_positions(lanes, offset, positions))
    return access;
  for (uint32_t l = 0; l < lanes->region->lanes; l++) {
    if (positions[l] < least) least = positions[l];
    if (positions[l] > greatest) greatest = positions[l];
  }
  int64_t window = greatest - least + 1;
  if (window > 2 * lanes->region->lanes || window & (window - 1)) return access;
  access.is_vector = true;
  access.window = (uint32_t)window;
  access.is_contiguous = window == lanes->region->lanes;
  for (uint32_t l = 0; l < lanes->region->lanes; l++) access.is_contiguous &= positions[l] == l;
  access.base =
      kiln_index_add(kernel, lanes->at_zero[offset], kiln_index_constant(kernel, kiln_dim_constant(least)));
  access.pattern = kiln_index_add_scaled(kernel, offset, kiln_dim_constant(-1), access.base);
  return access;
}

uint32_t kiln_access_width(const kiln_kernel_t *kernel, const kiln_access_t *access, uint32_t buffer,
                           const kiln_symbol_class_t *symbol_class, kiln_guards_t *guards) {
  const kiln_expr_t *base = &kernel->exprs[access->base];
  uint32_t element_bytes = (uint32_t)kiln_dtype_bytes(kernel->buffers[buffer].dtype);
  uint32_t align_bytes = kernel->buffers[buffer].align_bytes;
  int64_t width = (align_bytes < 16 ? align_bytes : 16) / element_bytes;
  if (width > access->window) width = access->window;
  for (uint32_t i = 0; i < base->dim_count; i++) {
    int64_t multiple = kiln_dim_multiple(base->dims[i], symbol_class->multiple);
    if (multiple < width) width = multiple;
  }
  for (uint32_t i = 0; guards && width > 1 && i < base->dim_count; i++) {
    kiln_guard_multiple(kernel->arena, guards, base->dims[i], width);
  }
  return width < 1 ? 1 : (uint32_t)width;
}

uint32_t kiln_vector_bytes(const kiln_kernel_t *kernel, const kiln_region_t *region, uint32_t buffer) {
  uint32_t bytes = region->lanes * (uint32_t)kiln_dtype_bytes(kernel->buffers[buffer].dtype);
  return bytes < 16 ? bytes : 16;
}

bool kiln_access_is_realigned(const kiln_kernel_t *kernel, const kiln_region_t *region,
                              const kiln_access_t *access, uint32_t buffer,
                              const kiln_symbol_class_t *symbol_class) {
  const kiln_kernel_buffer_t *memory = &kernel->buffers[buffer];
  uint32_t bytes = kiln_vector_bytes(kernel, region, buffer);
  if (!region->realigns || !region->has_tail || !access->is_contiguous) return false;
  if (memory->kind == KILN_KERNEL_SHARED || bytes < 4 || memory->align_bytes < bytes) return false;
  return kiln_access_width(kernel, access, buffer, symbol_class, NULL) * kiln_dtype_bytes(memory->dtype) <
         bytes;
}
