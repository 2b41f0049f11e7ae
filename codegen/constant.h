/* codegen/constant.h: what lowering and emission ask of constants, beyond ir/number.h. */
#ifndef KILN_CODEGEN_CONSTANT_H
#define KILN_CODEGEN_CONSTANT_H

#include "ir/number.h"

/* Elements of a constant node. */
uint32_t kiln_constant_count(const kiln_node_t *node);
/* Are all elements the same bits (and is there one)? */
bool kiln_constant_is_uniform(const kiln_node_t *node, uint64_t *out_bits);

#endif
