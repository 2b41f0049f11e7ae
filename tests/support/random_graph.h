/* tests/support/random_graph.h: random graphs and inputs from a seed, for tests that compare two ways to run
 * one graph.
 *
 * All element-wise, view, creation and indexing ops; several dtypes; small awkward shapes, 0 and 1 among
 * them; values with NaN, -0.0, infinity and denormals. The same seed gives the same graph, so a test that
 * fails prints its seed.
 */
#ifndef KILN_TESTS_SUPPORT_RANDOM_GRAPH_H
#define KILN_TESTS_SUPPORT_RANDOM_GRAPH_H

#include "ir/tensor.h"

typedef struct {
  uint32_t node_count; /* how many nodes are made; some may not be reached from an output */
  bool strided;        /* some inputs are declared with strides: permuted, or 0 along an axis */
} kiln_random_options_t;

/* A verified graph without symbols. */
const kiln_graph_t *kiln_random_graph(kiln_arena_t *arena, uint64_t seed,
                                      const kiln_random_options_t *options);
/* One tensor per input (logical, dense); elements along an axis of stride 0 are equal. Symbols of a graph
 * from elsewhere get their values from `symbols`. */
void kiln_random_inputs(kiln_arena_t *arena, const kiln_graph_t *graph, uint64_t seed, const int64_t *symbols,
                        kiln_tensor_t *out_inputs);

/* The generator itself: splitmix64 (Steele, Lea, Flood 2014). */
uint64_t kiln_random_next(uint64_t *state);
/* 0 .. bound - 1. */
uint32_t kiln_random_below(uint64_t *state, uint32_t bound);

#endif
