/* ir/walk.h: one walk over an index space that moves several strided offsets with it.
 *
 * The host's answer to every "for each element" of tensors whose layouts differ: stream s stands at at[s].
 * The innermost axis is the last one. After as many steps as the space has elements a walk is where it began,
 * ready for another round. Used by the reference evaluator, by storage copies and by .npy files; caller's
 * memory, any thread.
 */
#ifndef KILN_IR_WALK_H
#define KILN_IR_WALK_H

#include "ir/dim.h"

enum { KILN_WALK_AXES = 2 * KILN_MAX_RANK, KILN_WALK_STREAMS = 3 };

typedef struct {
  uint32_t rank;
  int64_t sizes[KILN_WALK_AXES];
  int64_t index[KILN_WALK_AXES];
  int64_t strides[KILN_WALK_AXES][KILN_WALK_STREAMS];
  int64_t at[KILN_WALK_STREAMS];
} kiln_walk_t;

/* Appends an axis, inside those there are; the strides of streams 2 and up are 0. */
static inline void kiln_walk_axis(kiln_walk_t *walk, int64_t size, int64_t stride0, int64_t stride1) {
  walk->sizes[walk->rank] = size;
  walk->strides[walk->rank][0] = stride0;
  walk->strides[walk->rank][1] = stride1;
  walk->rank++;
}

static inline int64_t kiln_walk_count(const kiln_walk_t *walk) {
  int64_t count = 1;
  for (uint32_t axis = 0; axis < walk->rank; axis++) count *= walk->sizes[axis];
  return count;
}

/* To the next element; must not be called on an empty space. */
static inline void kiln_walk_next(kiln_walk_t *walk) {
  for (uint32_t axis = walk->rank; axis-- > 0;) {
    const int64_t *strides = walk->strides[axis];
    if (++walk->index[axis] < walk->sizes[axis]) {
      for (int s = 0; s < KILN_WALK_STREAMS; s++) walk->at[s] += strides[s];
      return;
    }
    for (int s = 0; s < KILN_WALK_STREAMS; s++) walk->at[s] -= strides[s] * (walk->sizes[axis] - 1);
    walk->index[axis] = 0;
  }
}

/* Row-major element strides. A size of 0 counts as 1, which keeps the strides of empty tensors harmless. */
static inline void kiln_walk_row_major(uint32_t rank, const int64_t *sizes, int64_t *strides) {
  int64_t stride = 1;
  for (uint32_t axis = rank; axis-- > 0;) {
    strides[axis] = stride;
    stride *= sizes[axis] ? sizes[axis] : 1;
  }
}

#endif
