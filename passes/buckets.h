/* passes/buckets.h: what is to be stored and which stores share a kernel, between group.c, which finds it
 * out, and kernels.c, which makes the groups of it. */
#ifndef KILN_PASSES_BUCKETS_H
#define KILN_PASSES_BUCKETS_H

#include "base/map.h"
#include "passes/grouping.h"

/* A value to be stored (2). One that is returned very often is stored in several parts, for some of its
 * outputs each. */
typedef struct {
  kiln_value_id_t value;
  uint32_t first_use, use_count; /* which of its outputs, in order; none: a temporary */
  uint32_t level, window;
  uint32_t space, base_space; /* of the value, and of what a repetition at its end repeats */
  bool is_cut, is_small;
  const kiln_window_t *at; /* where in a dissolved concatenation; NULL: in a buffer of its own */
  size_t number;           /* in the order of their making */
} stored_t;

static inline bool is_of_region(const stored_t *stored) { return stored->window >= FIRST_REGION_WINDOW; }

/* A kernel in the making (3). */
typedef struct {
  stored_t *items;
  size_t count, capacity;
  uint32_t level, window;
  uint32_t buffer_count; /* of its stores */
  uint32_t space_count;
  uint64_t mask;
  const char *full; /* why it once refused a store; NULL: never */
} bucket_t;

typedef struct {
  grouping_t g;
  cone_t cone;
  uint32_t *levels;      /* per value */
  uint32_t *apart;       /* per value: the number of the only kernels that may store it; 0: any */
  uint32_t *output_uses; /* per value: how often it is returned */
  windows_t windows;
  bool *is_part;      /* per value: it is stored to a window */
  bool *is_read;      /* per value: some kernel reads it from memory */
  kiln_map_t *spaces; /* number of elements as words -> space */
  kiln_map_t *open;   /* (level, window, space) -> bucket + 1 */
  stored_t *stored;
  size_t stored_count, stored_capacity;
  bucket_t *buckets;
  size_t bucket_count, bucket_capacity;
  uint32_t most_uses; /* outputs of one part of a stored value */
  uint32_t max_level;
  uint32_t temp_count;
} state_t;

/* The first family of a mask; NULL for none. */
static inline const kiln_family_t *family_of(const grouping_t *g, uint64_t mask) {
  for (size_t f = 0; f < g->families->count; f++) {
    if (mask >> f & 1) return &g->families->items[f];
  }
  return NULL;
}

/* Vertical groups in order of level, then of their first store; temporaries have numbers and no slots yet. */
kiln_grouping_t *make_groups(state_t *state);
/* Why each temporary is stored. */
void explain_temps(const state_t *state, kiln_grouping_t *grouping);

#endif
