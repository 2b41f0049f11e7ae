/* codegen/locality.c: the order of a region's axes by what its blocks read and write.
 *
 * A block finds in its cache what one of its threads has read, and no other block's. So axes along which much
 * is read again (the heads that share a row of a rotary table, the rows that share a bias) should be inside a
 * block: blocks are boxes of a few rows by a few columns rather than long runs. The bytes of the distinct
 * sectors that one block touches are estimated for an order, and axes are moved inwards one by one, the best
 * first. What stays innermost is a run of 128 to 256 bytes, so that rows are still read and written whole.
 * Called by elementwise.c, after the splits and before the mergers.
 */
#include "codegen/emit.h"
#include "codegen/schedule.h"

enum {
  SYMBOL_SIZE = 4096, /* what a symbol is taken for, but for one at a time, which is 1 */
  MOST_CASES = KILN_MAX_SYMBOLS + 1,
  SECTOR_BYTES = 32,
  MOST_RUN_BYTES = 256,
  LEAST_RUN_BYTES = 128,
  RUN_STEP = 32 /* elements: keeps vectors and sectors whole */
};

/* A change of order costs index arithmetic, and a cut of the innermost axis costs more of it. */
static const double worthwhile_order = 0.98, worthwhile_cut = 0.9;

typedef struct {
  uint32_t mask; /* of positions of axes that the offset depends on */
  double element_bytes;
  double stride_bytes[KILN_MAX_RANK + 1]; /* per position, where it is a plain term, else 0 */
} touch_t;

/* What is known of a region, for one choice of the symbols. */
typedef struct {
  const kiln_region_t *region;
  int64_t symbols[KILN_MAX_SYMBOLS];
  double extents[KILN_MAX_RANK + 1]; /* per position */
  double points;                     /* of a block */
  touch_t *touches;
  size_t count, capacity;
} case_t;

typedef struct {
  case_t cases[MOST_CASES];
  uint32_t count;
} estimate_t;

/* Positions of axes, the outermost first. */
typedef struct {
  uint32_t at[KILN_MAX_RANK + 1];
} order_t;

/* --- what a block touches
 * ------------------------------------------------------------------------------------ */

static double size_of(const case_t *it, kiln_dim_t dim) {
  int64_t value;
  return kiln_dim_eval(dim, it->symbols, &value) ? (double)value : (double)INT64_MAX;
}

/* Per expression: the positions of the region's axes that it depends on. */
static const uint32_t *dependences(const kiln_kernel_t *kernel, const kiln_region_t *region) {
  uint32_t *masks = KILN_NEW_ARRAY(kernel->arena, uint32_t, kernel->expr_count);
  for (size_t i = 0; i < kernel->expr_count; i++) {
    const kiln_expr_t *expr = &kernel->exprs[i];
    for (uint32_t k = 0; expr->kind == KILN_EXPR_AXIS && k < region->axis_count; k++) {
      if (region->axes[k] == expr->bits) masks[i] = 1u << k;
    }
    for (uint32_t k = 0; k < expr->operand_count; k++) masks[i] |= masks[expr->operands[k]];
  }
  return masks;
}

static void add_touch(case_t *it, const kiln_kernel_t *kernel, kiln_dtype_t dtype, kiln_expr_id_t offset,
                      const uint32_t *masks) {
  touch_t touch = {.mask = masks[offset], .element_bytes = (double)kiln_dtype_bytes(dtype)};
  for (uint32_t i = 0; i < it->region->axis_count; i++) {
    double stride = size_of(it, kiln_schedule_stride(kernel, offset, it->region->axes[i]));
    touch.stride_bytes[i] = touch.element_bytes * (stride < 0 ? -stride : stride);
  }
  KILN_PUSH(kernel->arena, it->touches, it->count, it->capacity, touch);
}

static void measure(case_t *it, const kiln_kernel_t *kernel, const kiln_region_t *region) {
  const uint32_t *masks = dependences(kernel, region);
  const bool *reachable = kiln_region_reachable(kernel, region);
  double bytes = (double)kiln_dtype_bytes(kernel->buffers[region->stores[0].buffer].dtype);
  it->region = region;
  it->points = KILN_BLOCK_THREADS * 16 / bytes;
  for (uint32_t i = 0; i < region->axis_count; i++) {
    double extent = size_of(it, kernel->axes[region->axes[i]].extent);
    it->extents[i] = extent < 1 ? 1 : extent; /* T - 4 where T is 1 */
  }
  for (uint32_t i = 0; i < region->store_count; i++) {
    const kiln_kernel_store_t *store = &region->stores[i];
    add_touch(it, kernel, kernel->buffers[store->buffer].dtype, store->offset, masks);
  }
  for (size_t i = 0; i < kernel->expr_count; i++) {
    const kiln_expr_t *expr = &kernel->exprs[i];
    if (reachable[i] && expr->kind == KILN_EXPR_LOAD)
      add_touch(it, kernel, expr->dtype, expr->operands[0], masks);
  }
}

/* Symbols are likely large, but an order that only helps if one of them is (a batch, of 1?) should give way
 * to one that helps anyway: so there is a case for each of them being 1. */
static estimate_t estimate_for(const kiln_kernel_t *kernel, const kiln_region_t *region) {
  estimate_t estimate = {.count = 1 + kernel->graph->symbol_count};
  for (uint32_t i = 0; i < estimate.count; i++) {
    case_t *it = &estimate.cases[i];
    for (uint32_t k = 0; k < KILN_MAX_SYMBOLS; k++) it->symbols[k] = k + 1 == i ? 1 : SYMBOL_SIZE;
    measure(it, kernel, region);
  }
  return estimate;
}

/* Sectors of a box of covered[i] points along each axis: axes that continue the run of bytes of those before
 * make it longer, any other multiplies the number of runs. */
static double bytes_touched(const touch_t *touch, uint32_t axis_count, const double *covered) {
  double run = touch->element_bytes, runs = 1;
  uint32_t left = touch->mask;
  for (bool found = true; found;) {
    found = false;
    for (uint32_t i = 0; i < axis_count; i++) {
      double stride = touch->stride_bytes[i];
      bool continues = stride > 0 && (stride <= run || stride < SECTOR_BYTES);
      if (!(left & 1u << i) || !continues) continue;
      run += stride * (covered[i] - 1);
      left &= ~(1u << i);
      found = true;
    }
  }
  for (uint32_t i = 0; i < axis_count; i++) runs *= left & 1u << i ? covered[i] : 1;
  return runs * (run < SECTOR_BYTES ? SECTOR_BYTES : run);
}

/* Bytes that a block touches per point, when its threads walk the axes in this order. */
static double cost_of_case(const case_t *it, const order_t *order) {
  uint32_t axis_count = it->region->axis_count;
  double covered[KILN_MAX_RANK + 1], left = it->points, points = 1, bytes = 0;
  for (uint32_t i = axis_count; i-- > 0;) {
    uint32_t position = order->at[i];
    double extent = it->extents[position];
    covered[position] = left < extent ? left : extent;
    points *= covered[position];
    left = left > extent ? (double)(int64_t)((left + extent - 1) / extent) : 1;
  }
  for (size_t i = 0; i < it->count; i++) bytes += bytes_touched(&it->touches[i], axis_count, covered);
  return bytes / points;
}

static double cost(const estimate_t *estimate, const order_t *order) {
  double sum = 0;
  for (uint32_t i = 0; i < estimate->count; i++) sum += cost_of_case(&estimate->cases[i], order);
  return sum;
}

/* --- the choice
 * ---------------------------------------------------------------------------------------------- */

/* The axis at `from` moved inwards to `to`. */
static order_t moved(order_t order, uint32_t from, uint32_t to) {
  uint32_t axis = order.at[from];
  for (uint32_t i = from; i < to; i++) order.at[i] = order.at[i + 1];
  order.at[to] = axis;
  return order;
}

/* Fills the order from the inside out, each time with the axis that costs least there; the innermost axis
 * stays. */
static double best_order(const estimate_t *estimate, order_t *out_order) {
  uint32_t axis_count = estimate->cases[0].region->axis_count;
  for (uint32_t i = 0; i < axis_count; i++) out_order->at[i] = i;
  double best = cost(estimate, out_order);
  for (uint32_t to = axis_count - 1; to-- > 1;) {
    order_t chosen = *out_order;
    for (uint32_t from = to; from-- > 0;) {
      order_t order = moved(*out_order, from, to);
      double bytes = cost(estimate, &order);
      if (bytes >= worthwhile_order * best) continue;
      best = bytes;
      chosen = order;
    }
    *out_order = chosen;
  }
  return best;
}

static kiln_region_t with_order(kiln_kernel_t *kernel, kiln_region_t region, const order_t *order) {
  uint32_t *axes = KILN_NEW_ARRAY(kernel->arena, uint32_t, region.axis_count);
  for (uint32_t i = 0; i < region.axis_count; i++) axes[i] = region.axes[order->at[i]];
  region.axes = axes;
  return region;
}

/* The innermost axis as runs; false when it has no divisor of the right size. */
static bool cut_innermost(kiln_kernel_t *kernel, kiln_region_t *region) {
  uint32_t last = region->axis_count - 1, old = region->axes[last];
  int64_t bytes = (int64_t)kiln_dtype_bytes(kernel->buffers[region->stores[0].buffer].dtype);
  kiln_dim_t extent = kernel->axes[old].extent, parts;
  int64_t length = MOST_RUN_BYTES / bytes;
  while (length * bytes >= LEAST_RUN_BYTES &&
         !kiln_dim_div(kernel->arena, extent, kiln_dim_constant(length), &parts))
    length -= RUN_STEP;
  if (length * bytes < LEAST_RUN_BYTES || kiln_dim_is(parts, 1)) return false;
  uint32_t outer = kiln_kernel_axis(kernel, parts, 1);
  uint32_t inner = kiln_kernel_axis(kernel, kiln_dim_constant(length), 1);
  kiln_expr_id_t *axes = kiln_region_same_axes(kernel);
  axes[old] = kiln_index_add_scaled(kernel, kiln_index_axis(kernel, inner), kiln_dim_constant(length),
                                    kiln_index_axis(kernel, outer));
  uint32_t *list = KILN_NEW_ARRAY(kernel->arena, uint32_t, region->axis_count + 1);
  for (uint32_t i = 0; i < last; i++) list[i] = region->axes[i];
  list[last] = outer;
  list[last + 1] = inner;
  *region = kiln_region_replace(kernel, region, axes);
  region->axes = list;
  region->axis_count++;
  return true;
}

kiln_region_t kiln_schedule_localize(kiln_kernel_t *kernel, kiln_region_t region) {
  if (region.axis_count < 2) return region;
  order_t order, order_of_runs;
  estimate_t estimate = estimate_for(kernel, &region);
  double best = best_order(&estimate, &order);
  kiln_region_t runs = region;
  if (cut_innermost(kernel, &runs)) {
    estimate = estimate_for(kernel, &runs);
    if (best_order(&estimate, &order_of_runs) < worthwhile_cut * best)
      return with_order(kernel, runs, &order_of_runs);
  }
  return with_order(kernel, region, &order);
}
