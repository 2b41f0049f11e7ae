/* tests/support/equivalence.h: do two graphs compute the same? And graphs to ask it of. */
#ifndef KILN_TESTS_SUPPORT_EQUIVALENCE_H
#define KILN_TESTS_SUPPORT_EQUIVALENCE_H

#include "ir/graph.h"

/* The text's first graph, canonical; fails the test with the parser's message. */
const kiln_graph_t *kiln_test_graph(kiln_arena_t *arena, const char *text);
/* Fails the test unless both graphs give the same on random inputs of this seed: the same bits where the
 * first is exact, else within its error bound. Symbols are 5, 6, 7 ... */
void kiln_test_same_results(const kiln_graph_t *before, const kiln_graph_t *after, uint64_t seed);
/* A whole file, NUL-terminated, in the arena; NULL when it cannot be read. */
const char *kiln_test_read_file(kiln_arena_t *arena, const char *path);

#endif
