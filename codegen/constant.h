/* codegen/constant.h: what lowering and emission ask of constants, beyond ir/number.h. */
#ifndef KILN_CODEGEN_CONSTANT_H
#define KILN_CODEGEN_CONSTANT_H

#include "ir/number.h"

/* The value of storage bits of a float dtype. */
double kiln_float_from_bits(uint64_t bits, kiln_dtype_t dtype);
/* Elements of a constant node. */
uint32_t kiln_constant_count(const kiln_node_t *node);
/* Are all elements the same bits (and is there one)? */
bool kiln_constant_is_uniform(const kiln_node_t *node, uint64_t *out_bits);

#endif
