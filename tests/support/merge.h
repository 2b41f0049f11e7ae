/* tests/support/merge.h: horizontal groups by brute force, for tests of grouped kernels: whatever is of one
 * level and one class goes into one launch. Grouping proper weighs costs and moves levels (passes/). */
#ifndef KILN_TESTS_SUPPORT_MERGE_H
#define KILN_TESTS_SUPPORT_MERGE_H

#include "ir/group.h"

/* Every temporary of the result has a slot of its own. */
const kiln_grouping_t *kiln_test_merge(kiln_arena_t *arena, const kiln_graph_t *graph,
                                       const kiln_grouping_t *grouping, const kiln_families_t *families,
                                       const kiln_target_t *target);
/* The opposite: a launch for every member. */
const kiln_grouping_t *kiln_test_separate(kiln_arena_t *arena, const kiln_grouping_t *grouping);

#endif
