/* tests/support/random_check.h: random graphs against the reference evaluator on the emulated device.
 *
 * Each graph is compiled as a client's would be, some also without passes, without passes and fusion, or with
 * all groups of one class merged; for every set of symbol values all of them must give the reference's values
 * within its bounds, with all checkers on. Graphs without sums, norms and products must in all bits be what
 * their nodes give one by one. A graph that fails is shrunk, each attempt in a process of its own, and
 * printed as text for `kiln run`.
 */
#ifndef KILN_TESTS_SUPPORT_RANDOM_CHECK_H
#define KILN_TESTS_SUPPORT_RANDOM_CHECK_H

#include "ir/graph.h"

typedef struct {
  const char *arch;
  uint64_t first_seed, count;
} kiln_random_check_t;

/* Fails the test at the first graph that is wrong. Says how much was compared. $KILN_SEED replaces the first
 * seed (and the count by 1), $KILN_COUNT the count. Fewer graphs under the sanitizers. */
void kiln_random_check(const kiln_random_check_t *check);

/* Shrinks a graph that fails on this target and prints it; false when it does not fail. The inputs are those
 * of the seed; symbols one set of values. */
bool kiln_random_reproduce(kiln_arena_t *arena, const kiln_graph_t *graph, const char *arch, uint64_t seed,
                           const int64_t *symbols, kiln_buffer_t *out_text);

#endif
