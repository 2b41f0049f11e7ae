/* ir/canonical.h: the one form of a graph, and its hash.
 *
 * Defaults are filled, negative dims resolved, equal nodes shared, unreachable ones dropped, nodes renumbered
 * in one post-order from the outputs, names left out. Two graphs that differ in names or node order have the
 * same bytes.
 */
#ifndef KILN_IR_CANONICAL_H
#define KILN_IR_CANONICAL_H

#include "base/hash.h"
#include "ir/graph.h"

/* The canonical graph of a verified graph (names kept in the side table, for people). */
const kiln_graph_t *kiln_graph_canonicalize(kiln_arena_t *arena, const kiln_graph_t *graph);
/* The bytes of a canonical graph: the full key. Input signature, layouts and symbols (not their names)
 * included. */
void kiln_graph_key_bytes(kiln_arena_t *arena, const kiln_graph_t *canonical, kiln_buffer_t *out);
kiln_digest_t kiln_graph_hash(kiln_arena_t *arena, const kiln_graph_t *canonical);

#endif
