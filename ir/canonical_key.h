/* ir/canonical_key.h: the bytes that identify parts of a canonical graph; inside ir/ only. */
#ifndef KILN_IR_CANONICAL_KEY_H
#define KILN_IR_CANONICAL_KEY_H

#include "ir/graph.h"

/* A node by op, operands as `operands` numbers them, attributes and number of results. The attributes are
 * canonical and sorted; numbers count by their bits in a result of floats. Equal bytes: equal nodes. */
void kiln_key_node(kiln_buffer_t *out, const kiln_node_t *node, const kiln_value_id_t *operands,
                   kiln_dtype_t result_dtype);
/* Ends the arena's guard when the buffer ran out of memory. */
void kiln_key_check(kiln_arena_t *arena, const kiln_buffer_t *buffer);

#endif
