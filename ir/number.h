/* ir/number.h: numbers of a graph (values of full, pad and constant) as the storage bits of a dtype. */
#ifndef KILN_IR_NUMBER_H
#define KILN_IR_NUMBER_H

#include "ir/graph.h"

/* The bits of the number rounded once to the dtype, in the low bytes. The verifier made sure that it fits. */
uint64_t kiln_number_to_bits(kiln_number_t number, kiln_dtype_t dtype);
/* The bits of element `index` of a constant node, from its values or its bits. */
uint64_t kiln_constant_bits(const kiln_node_t *node, uint32_t index);

#endif
