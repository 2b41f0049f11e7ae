/* tests/support/grouping_check.h: what must hold of every grouping, whatever was merged. */
#ifndef KILN_TESTS_SUPPORT_GROUPING_CHECK_H
#define KILN_TESTS_SUPPORT_GROUPING_CHECK_H

#include "ir/group.h"

/* The first rule that is broken, in the arena; NULL when all hold: every output and every value that is read
 * is written once and whole, before it is read, in a launch of a lower level; what a group computes it has at
 * hand; members have one kind, are closed each by itself and make up their group; no two temporaries of one
 * slot are alive together. */
const char *kiln_test_grouping_fault(kiln_arena_t *arena, const kiln_graph_t *graph,
                                     const kiln_grouping_t *grouping);

#endif
