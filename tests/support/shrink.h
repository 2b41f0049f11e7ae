/* tests/support/shrink.h: a failing graph is made as small as it still fails.
 *
 * Greedy, as property testers do (Claessen and Hughes, "QuickCheck", 2000; Zeller, "delta debugging", 1999):
 * every edit that keeps the failure is kept, until none does. Edits: an output goes, or an earlier value is
 * returned instead; symbols become numbers, a value an input, a node one of its operands; operands of cat and
 * optional attributes go, boundaries become dense, sizes and dtypes plainer. What is left is printed as text
 * that `kiln run` takes.
 */
#ifndef KILN_TESTS_SUPPORT_SHRINK_H
#define KILN_TESTS_SUPPORT_SHRINK_H

#include "ir/graph.h"

/* Does the failure show in this graph? It is verified; its symbols are those that kiln_shrink got, or none.
 */
typedef bool (*kiln_shrink_fails_t)(void *argument, const kiln_graph_t *graph);

typedef struct {
  kiln_shrink_fails_t fails;
  void *argument;
  const int64_t *symbols; /* values that symbols may be replaced by */
  uint32_t most_tries;    /* calls of fails */
} kiln_shrink_options_t;

/* The smallest failing graph found; the graph itself when nothing smaller fails. */
const kiln_graph_t *kiln_shrink(kiln_arena_t *arena, const kiln_graph_t *graph,
                                const kiln_shrink_options_t *options);

#endif
