/* codegen/schedule.c: the order of a region's axes, their splits and mergers. Vectors are in vectorize.c.
 *
 * A split is tried, not argued about: the region is rewritten with it, and kept when a thread then does less
 * work than before for as many points. Hash-consing has by then merged what the points have in common. Called
 * through schedule.h.
 */
#include "codegen/schedule.h"

#include <string.h>

enum {
  MOST_POINTS = 16,     /* per thread and store, through splits */
  MOST_CANDIDATES = 12, /* tried per round */
  MOST_BOUNDARIES = 16, /* of an axis, told apart */
  MOST_WORK = 1000      /* scalars of one thread that a split may lead to */
};

/* --- rewriting a region -------------------------------------------------------------------------------- */

kiln_expr_id_t *kiln_region_same_axes(kiln_kernel_t *kernel) {
  kiln_expr_id_t *axes = KILN_NEW_ARRAY(kernel->arena, kiln_expr_id_t, kernel->axis_count);
  for (size_t i = 0; i < kernel->axis_count; i++) axes[i] = KILN_SAME_AXIS;
  return axes;
}

kiln_region_t kiln_region_replace(kiln_kernel_t *kernel, const kiln_region_t *region,
                                  const kiln_expr_id_t *axes) {
  kiln_expr_id_t *made = kiln_rewrite(kernel, axes, 0, kiln_region_reachable(kernel, region));
  kiln_kernel_store_t *stores = KILN_NEW_ARRAY(kernel->arena, kiln_kernel_store_t, region->store_count);
  for (uint32_t i = 0; i < region->store_count; i++) {
    const kiln_kernel_store_t *store = &region->stores[i];
    stores[i] = (kiln_kernel_store_t){store->buffer, made[store->offset], made[store->value]};
  }
  kiln_region_t result = *region;
  result.stores = stores;
  return result;
}

const uint32_t *kiln_region_axes_with(kiln_kernel_t *kernel, const kiln_region_t *region, uint32_t position,
                                      uint32_t axis) {
  uint32_t *axes = kiln_arena_copy(kernel->arena, region->axes, region->axis_count * sizeof *axes);
  axes[position] = axis;
  return axes;
}

/* --- order
 * -------------------------------------------------------------------------------------------------- */

kiln_dim_t kiln_schedule_stride(const kiln_kernel_t *kernel, kiln_expr_id_t index, uint32_t axis) {
  const kiln_expr_t *linear = &kernel->exprs[index];
  for (uint32_t i = 0; i < linear->operand_count; i++) {
    const kiln_expr_t *atom = &kernel->exprs[linear->operands[i]];
    if (atom->kind == KILN_EXPR_AXIS && atom->bits == axis) return linear->dims[i + 1];
  }
  return kiln_dim_constant(0);
}

kiln_region_t kiln_schedule_order(kiln_kernel_t *kernel, kiln_region_t region) {
  uint32_t *axes = kiln_arena_copy(kernel->arena, region.axes, region.axis_count * sizeof *axes);
  for (uint32_t i = 1; i < region.axis_count; i++) {
    uint32_t axis = axes[i], k = i;
    kiln_dim_t stride = kiln_schedule_stride(kernel, region.stores[0].offset, axis);
    for (; k > 0; k--) {
      kiln_dim_t before = kiln_schedule_stride(kernel, region.stores[0].offset, axes[k - 1]);
      if (kiln_dim_provably_ge(before, stride) || !kiln_dim_provably_ge(stride, before)) break;
      axes[k] = axes[k - 1];
    }
    axes[k] = axis;
  }
  region.axes = axes;
  return region;
}

/* --- splits: how good they are
 * ------------------------------------------------------------------------------ */

/* What one thread does: loads, operations and decisions. */
static uint32_t work(const kiln_kernel_t *kernel, const kiln_region_t *region) {
  const bool *reachable = kiln_region_reachable(kernel, region);
  uint32_t count = 0;
  for (size_t i = 0; i < kernel->expr_count; i++) {
    kiln_expr_kind_t kind = kernel->exprs[i].kind;
    count += reachable[i] && (kind == KILN_EXPR_LOAD || kind == KILN_EXPR_OP || kind == KILN_EXPR_SELECT);
  }
  return count;
}

kiln_region_t kiln_schedule_split(kiln_kernel_t *kernel, kiln_region_t region,
                                  const kiln_axis_split_t *split) {
  uint32_t old = region.axes[split->position], count = region.store_count;
  uint32_t axis = kiln_kernel_axis(kernel, split->part, 1);
  kiln_dim_t factor = kiln_dim_constant(split->factor), one = kiln_dim_constant(1);
  kiln_kernel_store_t *stores = KILN_NEW_ARRAY(kernel->arena, kiln_kernel_store_t, split->factor * count);
  for (uint32_t point = 0; point < split->factor; point++) {
    kiln_dim_t start = kiln_dim_constant(point);
    if (!split->inner) start = kiln_kernel_dim_mul(kernel, start, split->part);
    kiln_expr_id_t index = kiln_index_add_scaled(kernel, kiln_index_constant(kernel, start),
                                                 split->inner ? factor : one, kiln_index_axis(kernel, axis));
    kiln_expr_id_t *axes = kiln_region_same_axes(kernel);
    axes[old] = index;
    kiln_region_t there = kiln_region_replace(kernel, &region, axes);
    memcpy(stores + point * count, there.stores, count * sizeof *stores);
  }
  region.axes = kiln_region_axes_with(kernel, &region, split->position, axis);
  region.stores = stores;
  region.store_count = split->factor * count;
  return region;
}

/* --- splits: which there are
 * -------------------------------------------------------------------------------- */

typedef struct {
  kiln_kernel_t *kernel;
  const kiln_region_t *region;
  uint32_t most_factor;
  kiln_axis_splits_t found;
  kiln_dim_t boundaries[KILN_MAX_RANK][MOST_BOUNDARIES]; /* per axis of the region, each once */
  uint32_t boundary_counts[KILN_MAX_RANK];
} search_t;

/* The axis of the region that is all of an index but a constant, with factor 1 or -1; false when there is
 * none. */
static bool lone_axis(const search_t *search, kiln_expr_id_t index, uint32_t *out_position,
                      int64_t *out_sign) {
  const kiln_expr_t *linear = &search->kernel->exprs[index];
  if (linear->operand_count != 1 || search->kernel->exprs[linear->operands[0]].kind != KILN_EXPR_AXIS)
    return false;
  if (!kiln_dim_is(linear->dims[1], 1) && !kiln_dim_is(linear->dims[1], -1)) return false;
  *out_sign = linear->dims[1].constant;
  for (uint32_t i = 0; i < search->region->axis_count; i++) {
    *out_position = i;
    if (search->region->axes[i] == search->kernel->exprs[linear->operands[0]].bits) return true;
  }
  return false;
}

static void propose(search_t *search, kiln_axis_split_t split) {
  for (size_t i = 0; i < search->found.count; i++) {
    kiln_axis_split_t *known = &search->found.items[i];
    if (known->position != split.position || known->inner != split.inner || known->factor != split.factor)
      continue;
    known->decides |= split.decides;
    return;
  }
  if (split.factor < 2 || split.factor > search->most_factor || search->found.count == MOST_CANDIDATES)
    return;
  KILN_PUSH(search->kernel->arena, search->found.items, search->found.count, search->found.capacity, split);
}

static kiln_dim_t extent_at(const search_t *search, uint32_t position) {
  return search->kernel->axes[search->region->axes[position]].extent;
}

/* The axis falls into whole parts: a thread may do one point of each. */
static void propose_parts(search_t *search, uint32_t position, kiln_dim_t part, bool decides) {
  kiln_dim_t parts;
  if (kiln_dim_is(part, 0) || !kiln_dim_div(search->kernel->arena, extent_at(search, position), part, &parts))
    return;
  if (!kiln_dim_is_constant(parts) || parts.constant > MOST_POINTS) return;
  propose(search, (kiln_axis_split_t){position, part, (uint32_t)parts.constant, false, decides});
}

/* Runs of neighbours see the same: a thread may do one run. Not along the innermost axis, where vectors serve
 * that. */
static void propose_runs(search_t *search, uint32_t position, kiln_dim_t length) {
  kiln_dim_t runs;
  if (position + 1 == search->region->axis_count || !kiln_dim_is_constant(length) ||
      length.constant > MOST_POINTS)
    return;
  if (!kiln_dim_div(search->kernel->arena, extent_at(search, position), length, &runs)) return;
  propose(search, (kiln_axis_split_t){position, runs, (uint32_t)length.constant, true, false});
}

static int64_t gcd(int64_t a, int64_t b) { return b ? gcd(b, a % b) : a < 0 ? -a : a; }

static void note_boundary(search_t *search, uint32_t position, kiln_dim_t boundary) {
  uint32_t *count = &search->boundary_counts[position];
  for (uint32_t i = 0; i < *count; i++) {
    if (kiln_dim_equal(search->boundaries[position][i], boundary)) return;
  }
  if (*count < MOST_BOUNDARIES) search->boundaries[position][(*count)++] = boundary;
}

/* Do all boundaries of the axis fall between parts, and are there not many more parts than boundaries ask
 * for? */
static bool fits_boundaries(const search_t *search, const kiln_axis_split_t *split) {
  uint32_t count = search->boundary_counts[split->position];
  kiln_dim_t quotient;
  for (uint32_t i = 0; i < count; i++) {
    if (!kiln_dim_div(search->kernel->arena, search->boundaries[split->position][i], split->part, &quotient))
      return false;
  }
  return split->factor <= 2 * (count + 1);
}

static void drop_fragments(search_t *search) {
  size_t kept = 0;
  for (size_t i = 0; i < search->found.count; i++) {
    const kiln_axis_split_t *split = &search->found.items[i];
    if (!split->decides || fits_boundaries(search, split)) search->found.items[kept++] = *split;
  }
  search->found.count = kept;
}

/* A condition axis + c >= 0, or c - axis >= 0, changes at a boundary, which a split may put between two
 * parts. */
static void propose_boundary(search_t *search, kiln_expr_id_t index) {
  uint32_t position;
  int64_t sign;
  if (!lone_axis(search, index, &position, &sign)) return;
  kiln_dim_t constant = search->kernel->exprs[index].dims[0], zero = kiln_dim_constant(0);
  kiln_dim_t boundary = sign < 0 ? kiln_kernel_dim_add(search->kernel, constant, kiln_dim_constant(1))
                                 : kiln_kernel_dim_sub(search->kernel, zero, constant);
  kiln_dim_t extent = extent_at(search, position);
  note_boundary(search, position, boundary);
  if (kiln_dim_is_constant(boundary) && kiln_dim_is_constant(extent)) {
    boundary = kiln_dim_constant(gcd(boundary.constant, extent.constant));
  }
  propose_parts(search, position, boundary, true);
}

static kiln_axis_splits_t candidates(kiln_kernel_t *kernel, const kiln_region_t *region,
                                     uint32_t most_factor) {
  search_t search = {.kernel = kernel, .region = region, .most_factor = most_factor};
  const bool *reachable = kiln_region_reachable(kernel, region);
  uint32_t position;
  int64_t sign;
  for (size_t i = 0, count = kernel->expr_count; i < count; i++) {
    const kiln_expr_t *expr = &kernel->exprs[i];
    if (!reachable[i]) continue;
    if (expr->kind == KILN_EXPR_ALL) {
      for (uint32_t k = 0; k < expr->operand_count; k++) propose_boundary(&search, expr->operands[k]);
    } else if (expr->kind == KILN_EXPR_MOD && lone_axis(&search, expr->operands[0], &position, &sign)) {
      propose_parts(&search, position, expr->dims[0], false);
    } else if (expr->kind == KILN_EXPR_DIV && lone_axis(&search, expr->operands[0], &position, &sign)) {
      propose_runs(&search, position, expr->dims[0]);
    }
  }
  drop_fragments(&search);
  return search.found;
}

/* --- splits: the choice
 * ------------------------------------------------------------------------------------- */

/* A split that decides a boundary may only not cost more. One that is there for repeated elements must find
 * most of the work repeated, since it takes parallelism away: what is merely read by several threads, the
 * cache keeps. */
static bool pays(const kiln_axis_split_t *split, uint32_t before, uint32_t after) {
  if (after > MOST_WORK) return false;
  return split->decides ? after < split->factor * before : 4 * after <= (4 + split->factor) * before;
}

/* The candidate after which a thread does the least per point; false when none pays. */
static bool best_split(kiln_kernel_t *kernel, const kiln_region_t *region, uint32_t most_factor,
                       kiln_axis_split_t *out_split) {
  kiln_axis_splits_t found = candidates(kernel, region, most_factor);
  uint32_t before = work(kernel, region);
  double best = before;
  bool any = false;
  for (size_t i = 0; i < found.count; i++) {
    kiln_region_t split = kiln_schedule_split(kernel, *region, &found.items[i]);
    uint32_t after = work(kernel, &split);
    double per_point = (double)after / found.items[i].factor;
    if (per_point >= best || !pays(&found.items[i], before, after)) continue;
    best = per_point;
    *out_split = found.items[i];
    any = true;
  }
  return any;
}

kiln_axis_splits_t kiln_schedule_find_splits(kiln_kernel_t *kernel, kiln_region_t region) {
  kiln_axis_splits_t splits = {0};
  kiln_axis_split_t split;
  uint32_t most_factor = MOST_POINTS;
  while (most_factor > 1 && best_split(kernel, &region, most_factor, &split)) {
    KILN_PUSH(kernel->arena, splits.items, splits.count, splits.capacity, split);
    region = kiln_schedule_split(kernel, region, &split);
    most_factor /= split.factor;
  }
  return splits;
}

/* --- mergers
 * ------------------------------------------------------------------------------------------------ */

/* Do all indices see the two axes as outer * extent + inner? */
static bool can_merge(kiln_kernel_t *kernel, const kiln_region_t *region, uint32_t outer, uint32_t inner) {
  const bool *reachable = kiln_region_reachable(kernel, region);
  kiln_dim_t extent = kernel->axes[inner].extent;
  for (kiln_expr_id_t i = 0; i < kernel->expr_count; i++) {
    if (!reachable[i] || kernel->exprs[i].kind != KILN_EXPR_LINEAR) continue;
    kiln_dim_t expected = kiln_kernel_dim_mul(kernel, kiln_schedule_stride(kernel, i, inner), extent);
    if (!kiln_dim_equal(kiln_schedule_stride(kernel, i, outer), expected)) return false;
  }
  return true;
}

/* Axes outer and inner become one: outer stands still and inner runs over both (at once: alone, either would
 * change what is known of an index). */
static kiln_region_t merge_at(kiln_kernel_t *kernel, kiln_region_t region, uint32_t position) {
  uint32_t outer = region.axes[position], inner = region.axes[position + 1];
  kiln_dim_t extent = kiln_kernel_dim_mul(kernel, kernel->axes[outer].extent, kernel->axes[inner].extent);
  uint32_t axis = kiln_kernel_axis(kernel, extent, 1);
  kiln_expr_id_t *replaced = kiln_region_same_axes(kernel);
  replaced[outer] = kiln_index_constant(kernel, kiln_dim_constant(0));
  replaced[inner] = kiln_index_axis(kernel, axis);
  kiln_region_t merged = kiln_region_replace(kernel, &region, replaced);
  uint32_t *axes = KILN_NEW_ARRAY(kernel->arena, uint32_t, region.axis_count);
  for (uint32_t i = 0, count = 0; i < region.axis_count; i++) {
    if (i != position) axes[count++] = i == position + 1 ? axis : region.axes[i];
  }
  merged.axes = axes;
  merged.axis_count = region.axis_count - 1;
  return merged;
}

kiln_region_t kiln_schedule_merge(kiln_kernel_t *kernel, kiln_region_t region) {
  for (uint32_t i = region.axis_count; i-- > 1;) {
    if (can_merge(kernel, &region, region.axes[i - 1], region.axes[i]))
      region = merge_at(kernel, region, i - 1);
  }
  return region;
}
