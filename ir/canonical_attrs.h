/* ir/canonical_attrs.h: one spelling of a node's attributes; inside ir/ only. */
#ifndef KILN_IR_CANONICAL_ATTRS_H
#define KILN_IR_CANONICAL_ATTRS_H

#include "ir/graph.h"

/* The node's attributes with defaults filled, negative dims resolved, inferred sizes written out, sets of
 * dims sorted and optional ones that say what their absence says left out; sorted, in the arena. */
const kiln_attr_value_t *kiln_canonical_attrs(kiln_arena_t *arena, const kiln_graph_t *graph,
                                              const kiln_node_t *node, uint32_t *out_count);

#endif
