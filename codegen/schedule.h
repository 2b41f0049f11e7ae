/* codegen/schedule.h: how the points of a region are laid over threads.
 *
 * Each step rewrites the expressions of a region for other axes and keeps what it means: axes in the order of
 * memory, an axis split so that one thread handles the points that have work in common, neighbouring axes
 * merged, the innermost one cut into vectors. Called by the families between lowering and emission.
 */
#ifndef KILN_CODEGEN_SCHEDULE_H
#define KILN_CODEGEN_SCHEDULE_H

#include "codegen/codegen.h"
#include "codegen/scalar.h"

/* Axis number `position` of a region, of extent factor * part, becomes an axis of extent `part` and a thread
 * does `factor` points: those a whole part apart (inner: false), or neighbours (inner: true). */
typedef struct {
  uint32_t position;
  kiln_dim_t part;
  uint32_t factor;
  bool inner;
  bool decides; /* parts end where a condition changes */
} kiln_axis_split_t;

typedef struct {
  kiln_axis_split_t *items;
  size_t count, capacity;
} kiln_axis_splits_t;

/* Axes in the order of the first store's strides, the largest outermost. */
kiln_region_t kiln_schedule_order(kiln_kernel_t *kernel, kiln_region_t region);
/* The splits that let a thread do less than it would for its points one by one: repeated elements are
 * computed once and stored several times, the two halves of a rotary embedding share what they read, a
 * boundary between tiles is decided. */
kiln_axis_splits_t kiln_schedule_find_splits(kiln_kernel_t *kernel, kiln_region_t region);
kiln_region_t kiln_schedule_split(kiln_kernel_t *kernel, kiln_region_t region,
                                  const kiln_axis_split_t *split);
/* Axes in the order in which blocks read the fewest bytes, where that matters. */
kiln_region_t kiln_schedule_localize(kiln_kernel_t *kernel, kiln_region_t region);
/* Merges neighbouring axes that all expressions see as one. */
kiln_region_t kiln_schedule_merge(kiln_kernel_t *kernel, kiln_region_t region);
/* Cuts the innermost axis into vectors of up to 16 bytes, where alignment allows. Records what it relies on.
 */
kiln_region_t kiln_schedule_vectorize(kiln_kernel_t *kernel, kiln_region_t region,
                                      const kiln_codegen_context_t *context);

/* -- the tools of the steps
 * ----------------------------------------------------------------------------------------------- */

/* The factor of an axis in an index; 0 when it is no plain term of it. */
kiln_dim_t kiln_schedule_stride(const kiln_kernel_t *kernel, kiln_expr_id_t index, uint32_t axis);
/* A map for kiln_region_replace that changes nothing yet. */
kiln_expr_id_t *kiln_region_same_axes(kiln_kernel_t *kernel);
/* The region with axes of the kernel replaced in all expressions, as in kiln_rewrite; its list of axes is as
 * it was. */
kiln_region_t kiln_region_replace(kiln_kernel_t *kernel, const kiln_region_t *region,
                                  const kiln_expr_id_t *axes);
/* The list of axes with the one at `position` replaced. */
const uint32_t *kiln_region_axes_with(kiln_kernel_t *kernel, const kiln_region_t *region, uint32_t position,
                                      uint32_t axis);

#endif
