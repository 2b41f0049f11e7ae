/* codegen/vectorize.c: the innermost axis of a region cut into vectors, so that memory is accessed 16 bytes
 * at a time.
 *
 * The width follows the dtype that makes most of the traffic; it is halved until every store is a whole,
 * aligned vector and every load along the axis either is one as well or cannot be one at all. A region of one
 * axis may end in a partial vector; one whose neighbouring threads can exchange parts of vectors takes rows
 * that begin and end anywhere. Called through schedule.h.
 */
#include "codegen/lanes.h"
#include "codegen/schedule.h"

enum {
  MOST_FUNCTIONS = 128, /* of a thread: about 0.4 s of NVRTC's time */
  MANY_TIMES = 64,
  LEAST_VECTORS = 4, /* of a row that begins anywhere: its ends cost as much as a vector each */
};

/* Which expressions differ along one of these axes. */
static const bool *moves_along(const kiln_kernel_t *kernel, const bool *axes) {
  bool *moves = KILN_NEW_ARRAY(kernel->arena, bool, kernel->expr_count);
  for (size_t i = 0; i < kernel->expr_count; i++) {
    const kiln_expr_t *expr = &kernel->exprs[i];
    moves[i] = expr->kind == KILN_EXPR_AXIS && axes[expr->bits];
    for (uint32_t k = 0; k < expr->operand_count; k++) moves[i] |= moves[expr->operands[k]];
  }
  return moves;
}

static const bool *moves_inside(const kiln_kernel_t *kernel, const kiln_region_t *region) {
  bool *axes = KILN_NEW_ARRAY(kernel->arena, bool, kernel->axis_count);
  axes[region->axes[region->axis_count - 1]] = true;
  return moves_along(kernel, axes);
}

/* What is read again and again for one point of the region: along a row that is not among its axes. */
static const bool *moves_outside(const kiln_kernel_t *kernel, const kiln_region_t *region) {
  bool *axes = KILN_NEW_ARRAY(kernel->arena, bool, kernel->axis_count);
  for (size_t i = 0; i < kernel->axis_count; i++) axes[i] = true;
  for (uint32_t i = 0; i < region->axis_count; i++) axes[region->axes[i]] = false;
  return moves_along(kernel, axes);
}

static bool is_global(const kiln_kernel_t *kernel, uint32_t buffer) {
  return kernel->buffers[buffer].kind != KILN_KERNEL_SHARED;
}

/* Bytes per point of the region that each dtype's global loads and stores along the innermost axis make. A
 * load that is repeated counts many times. */
static void measure_traffic(const kiln_kernel_t *kernel, const kiln_region_t *region,
                            uint64_t bytes[KILN_DTYPE_COUNT]) {
  const bool *reachable = kiln_region_reachable(kernel, region);
  const bool *moves = moves_inside(kernel, region), *repeats = moves_outside(kernel, region);
  for (uint32_t i = 0; i < region->store_count; i++) {
    kiln_dtype_t dtype = kernel->buffers[region->stores[i].buffer].dtype;
    bool is_one_per_row = region->has_row && !moves[region->stores[i].offset];
    if (!is_global(kernel, region->stores[i].buffer) || is_one_per_row) continue;
    bytes[dtype] += kiln_dtype_bytes(dtype);
  }
  for (size_t i = 0; i < kernel->expr_count; i++) {
    const kiln_expr_t *expr = &kernel->exprs[i];
    if (!reachable[i] || expr->kind != KILN_EXPR_LOAD || !moves[expr->operands[0]]) continue;
    if (!is_global(kernel, (uint32_t)expr->bits)) continue;
    bytes[expr->dtype] += kiln_dtype_bytes(expr->dtype) * (repeats[expr->operands[0]] ? MANY_TIMES : 1);
  }
}

/* Elements in 16 bytes of the dtype with most traffic, the narrower one of two with as much. */
static uint32_t widest(const kiln_kernel_t *kernel, const kiln_region_t *region) {
  uint64_t bytes[KILN_DTYPE_COUNT] = {0};
  kiln_dtype_t best = KILN_DTYPE_bool;
  measure_traffic(kernel, region, bytes);
  for (kiln_dtype_t i = 0; i < KILN_DTYPE_COUNT; i++) {
    bool narrower = kiln_dtype_bytes(i) < kiln_dtype_bytes(best);
    if (bytes[i] > bytes[best] || (bytes[i] == bytes[best] && narrower)) best = i;
  }
  return 16 / (uint32_t)kiln_dtype_bytes(best);
}

/* Functions of the math library are long, and every lane has its own copy: too many make a kernel slow to
 * compile. */
static uint32_t count_functions(const kiln_kernel_t *kernel, const kiln_region_t *region) {
  const bool *reachable = kiln_region_reachable(kernel, region);
  uint32_t count = 0;
  for (size_t i = 0; i < kernel->expr_count; i++) {
    const kiln_expr_t *expr = &kernel->exprs[i];
    if (!reachable[i] || expr->kind != KILN_EXPR_OP || !kiln_dtype_is_float(expr->dtype)) continue;
    bool divides = expr->op == KILN_OP_floordiv || expr->op == KILN_OP_remainder;
    count += divides || kiln_op_info(expr->op)->ulp_f32 > 0;
  }
  return count;
}

/* May vectors of this many elements cover the innermost axis? */
static bool covers(kiln_kernel_t *kernel, const kiln_region_t *region, uint32_t lanes,
                   const kiln_symbol_class_t *symbol_class, bool *out_has_tail) {
  kiln_dim_t extent = kernel->axes[region->axes[region->axis_count - 1]].extent;
  bool divides = kiln_dim_is_constant(extent) ? extent.constant % lanes == 0
                                              : kiln_dim_multiple(extent, symbol_class->multiple) >= lanes;
  *out_has_tail = !divides;
  if (divides) return true;
  return region->axis_count == 1 && (!kiln_dim_is_constant(extent) || extent.constant > lanes);
}

/* The innermost axis becomes steps of `lanes` elements; no axis is left of one that is a single vector. */
static kiln_region_t cut(kiln_kernel_t *kernel, kiln_region_t region, uint32_t lanes, bool has_tail) {
  uint32_t last = region.axis_count - 1, old = region.axes[last];
  kiln_dim_t extent = kernel->axes[old].extent;
  bool is_one_vector = kiln_dim_is(extent, lanes);
  uint32_t vector = kiln_kernel_axis(kernel, extent, lanes);
  uint32_t lane = kiln_kernel_axis(kernel, kiln_dim_constant(lanes), 1);
  kiln_expr_id_t *axes = kiln_region_same_axes(kernel);
  axes[old] = kiln_index_axis(kernel, lane);
  if (!is_one_vector) {
    kiln_expr_id_t step = kiln_index_axis(kernel, vector);
    axes[old] = kiln_index_add_scaled(kernel, axes[old], kiln_dim_constant(lanes), step);
  }
  region = kiln_region_replace(kernel, &region, axes);
  region.axes = kiln_region_axes_with(kernel, &region, last, vector);
  region.axis_count -= is_one_vector;
  region.lane_axis = lane;
  region.lanes = lanes;
  region.has_tail = has_tail;
  return region;
}

/* Is an access as wide as the vector, or 16 bytes? */
static bool is_whole(const kiln_kernel_t *kernel, const kiln_region_t *region, const kiln_access_t *access,
                     uint32_t buffer, const kiln_symbol_class_t *symbol_class, uint32_t *out_width) {
  uint32_t most = 16 / (uint32_t)kiln_dtype_bytes(kernel->buffers[buffer].dtype);
  *out_width = kiln_access_width(kernel, access, buffer, symbol_class, NULL);
  return *out_width == (region->lanes < most ? region->lanes : most);
}

static bool stores_are_whole(const kiln_lanes_t *lanes, const kiln_symbol_class_t *symbol_class) {
  const kiln_region_t *region = lanes->region;
  kiln_expr_id_t always = kiln_condition_true(lanes->kernel);
  uint32_t width;
  for (uint32_t i = 0; i < region->store_count; i++) {
    if (region->has_row && !lanes->depends[region->stores[i].offset]) continue; /* one per row */
    kiln_access_t access = kiln_lanes_access(lanes, region->stores[i].offset, always);
    if (!access.is_contiguous) return false;
    if (!is_whole(lanes->kernel, region, &access, region->stores[i].buffer, symbol_class, &width))
      return false;
  }
  return true;
}

/* Loads that lie along the axis are whole; one that no width would align is read element by element, unless
 * neighbouring threads can do better. */
static bool loads_are_whole(const kiln_lanes_t *lanes, const kiln_symbol_class_t *symbol_class,
                            bool realigns) {
  const kiln_kernel_t *kernel = lanes->kernel;
  const bool *reachable = kiln_region_reachable(kernel, lanes->region);
  uint32_t width;
  for (size_t i = 0, count = kernel->expr_count; i < count; i++) {
    const kiln_expr_t *expr = &kernel->exprs[i];
    if (!reachable[i] || expr->kind != KILN_EXPR_LOAD) continue;
    kiln_access_t access = kiln_lanes_access(lanes, expr->operands[0], expr->operands[1]);
    if (!access.is_contiguous) continue;
    if (is_whole(kernel, lanes->region, &access, (uint32_t)expr->bits, symbol_class, &width)) continue;
    if (width > 1 || realigns) return false;
  }
  return true;
}

static bool cut_aligned(kiln_kernel_t *kernel, kiln_region_t region, uint32_t width,
                        const kiln_symbol_class_t *symbol_class, kiln_region_t *out_region,
                        bool *out_has_tail) {
  if (!covers(kernel, &region, width, symbol_class, out_has_tail)) return false;
  *out_region = cut(kernel, region, width, *out_has_tail);
  out_region->realigns = false;
  kiln_lanes_t lanes = kiln_lanes_analyze(kernel, out_region);
  return stores_are_whole(&lanes, symbol_class) && loads_are_whole(&lanes, symbol_class, region.realigns);
}

/* Is the access a whole vector, or one that neighbouring threads put together? */
static bool is_within_reach(const kiln_lanes_t *lanes, const kiln_access_t *access, uint32_t buffer,
                            const kiln_symbol_class_t *symbol_class) {
  uint32_t width;
  if (!access->is_contiguous) return false;
  return is_whole(lanes->kernel, lanes->region, access, buffer, symbol_class, &width) ||
         kiln_access_is_realigned(lanes->kernel, lanes->region, access, buffer, symbol_class);
}

/* Do all accesses along the axis lie along memory? Threads past the end of a row take part in exchanges, so
 * nothing else may be read there, and nothing under a condition. */
static bool can_realign(const kiln_lanes_t *lanes, const kiln_symbol_class_t *symbol_class) {
  const kiln_kernel_t *kernel = lanes->kernel;
  const kiln_region_t *region = lanes->region;
  const bool *reachable = kiln_region_reachable(kernel, region);
  const bool *moves = moves_inside(kernel, region);
  kiln_expr_id_t always = kiln_condition_true(lanes->kernel);
  for (size_t i = 0, count = kernel->expr_count; i < count; i++) {
    const kiln_expr_t *expr = &kernel->exprs[i];
    if (!reachable[i] || expr->kind != KILN_EXPR_LOAD) continue;
    if (!moves[expr->operands[0]] && !lanes->depends[expr->operands[0]]) continue;
    kiln_access_t access = kiln_lanes_access(lanes, expr->operands[0], expr->operands[1]);
    if (expr->operands[1] != always || !is_within_reach(lanes, &access, (uint32_t)expr->bits, symbol_class))
      return false;
  }
  for (uint32_t i = 0; i < region->store_count; i++) {
    const kiln_kernel_store_t *store = &region->stores[i];
    if (region->has_row && !lanes->depends[store->offset]) continue;
    kiln_access_t access = kiln_lanes_access(lanes, store->offset, always);
    if (!is_within_reach(lanes, &access, store->buffer, symbol_class)) return false;
  }
  return true;
}

/* The region with vectors of this many elements that begin anywhere. */
static bool cut_anywhere(kiln_kernel_t *kernel, kiln_region_t region, uint32_t width,
                         const kiln_symbol_class_t *symbol_class, kiln_region_t *out_region) {
  kiln_dim_t extent = kernel->axes[region.axes[region.axis_count - 1]].extent;
  if (!region.realigns || (kiln_dim_is_constant(extent) && extent.constant < LEAST_VECTORS * width))
    return false;
  *out_region = cut(kernel, region, width, true);
  kiln_lanes_t lanes = kiln_lanes_analyze(kernel, out_region);
  return can_realign(&lanes, symbol_class);
}

kiln_region_t kiln_schedule_vectorize(kiln_kernel_t *kernel, kiln_region_t region,
                                      const kiln_codegen_context_t *context) {
  region.lanes = 1;
  if (!region.axis_count) return region;
  kiln_dim_t extent = kernel->axes[region.axes[region.axis_count - 1]].extent;
  uint32_t functions = count_functions(kernel, &region);
  for (uint32_t width = widest(kernel, &region); width > 1; width /= 2) {
    bool has_tail;
    kiln_region_t trial;
    if (region.most_lanes && width > region.most_lanes) continue;
    if (width * functions > MOST_FUNCTIONS) continue;
    if (cut_aligned(kernel, region, width, context->symbol_class, &trial, &has_tail)) {
      if (!has_tail && !kiln_dim_is_constant(extent))
        kiln_guard_multiple(kernel->arena, context->guards, extent, width);
      return trial;
    }
    if (cut_anywhere(kernel, region, width, context->symbol_class, &trial)) return trial;
  }
  region.realigns = false;
  return region;
}
