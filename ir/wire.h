/* ir/wire.h: the structured MessagePack form of a graph (docs/wire.md): what compile takes beside text. */
#ifndef KILN_IR_WIRE_H
#define KILN_IR_WIRE_H

#include "ir/graph.h"
#include "ir/mpack.h"

void kiln_graph_encode(kiln_buffer_t *out, const kiln_graph_t *graph);
/* INVALID_GRAPH or INVALID_ARGUMENT (detail.field) on anything malformed. Types are inferred, the graph is
 * verified. */
kiln_status_t kiln_graph_decode(kiln_arena_t *arena, const kiln_mpack_t *value,
                                const kiln_graph_t **out_graph);

#endif
