/* tests/support/random_graph.h: random graphs and inputs from a seed, for tests that compare two ways to run
 * one graph.
 *
 * All ops of all families, every dtype; shapes with sizes 0, 1 and primes, now and then a long axis; strided
 * and barely aligned boundaries; symbols on request. Beside single nodes the graphs hold motifs: patterns of
 * real models and those that broke compilers (chains of views, cats of cats, pads under a where, norms and
 * attention written out, their backward forms). Inputs are small integers (every order of adding is exact),
 * plain numbers, or awkward ones. The same seed gives the same graph, so a test that fails prints its seed.
 */
#ifndef KILN_TESTS_SUPPORT_RANDOM_GRAPH_H
#define KILN_TESTS_SUPPORT_RANDOM_GRAPH_H

#include "ir/tensor.h"

typedef struct {
  uint32_t node_count; /* how many nodes are made; some may not be reached from an output */
  bool strided;        /* some inputs and outputs are declared with strides or an alignment below 16 */
  bool elementwise;    /* no reductions, normalizations or contractions */
  /* Values that the graph's symbols, symbol_count of them, will be given: every node is legal for each set.
   */
  uint32_t symbol_count, value_set_count;
  const int64_t (*value_sets)[KILN_MAX_SYMBOLS];
} kiln_random_options_t;

/* A graph that the verifier accepts. */
const kiln_graph_t *kiln_random_graph(kiln_arena_t *arena, uint64_t seed,
                                      const kiln_random_options_t *options);
/* One tensor per input (logical, dense); elements along an axis of stride 0 are equal. What an input holds
 * depends on the seed and its name (its number, without one), so that it stays when other inputs go. */
void kiln_random_inputs(kiln_arena_t *arena, const kiln_graph_t *graph, uint64_t seed, const int64_t *symbols,
                        kiln_tensor_t *out_inputs);

/* The generator itself: splitmix64 (Steele, Lea, Flood 2014). */
uint64_t kiln_random_next(uint64_t *state);
/* 0 .. bound - 1. */
uint32_t kiln_random_below(uint64_t *state, uint32_t bound);

#endif
