/* ir/number.h: numbers and storage bits: the one place where either becomes the other.
 *
 * Numbers are what graphs write (values of full, pad, clamp, constant) and what the reference evaluator
 * computes; bits are what tensors and keys hold, in the low bytes of a word, the others 0. Called by the
 * canonical form, the reference evaluator, folding, code generation and the command line.
 */
#ifndef KILN_IR_NUMBER_H
#define KILN_IR_NUMBER_H

#include "ir/graph.h"

/* The bits of the number rounded once to the dtype. The verifier made sure that an integer fits. */
uint64_t kiln_number_to_bits(kiln_number_t number, kiln_dtype_t dtype);
kiln_number_t kiln_number_from_bits(uint64_t bits, kiln_dtype_t dtype);

/* The same for a float dtype alone: each rounds once. A NaN keeps its sign and the top of its payload, and
 * becomes quiet where the dtype is narrower. A long double holds every i64. */
uint64_t kiln_real_to_bits(double value, kiln_dtype_t dtype);
uint64_t kiln_wide_to_bits(long double value, kiln_dtype_t dtype);
double kiln_real_from_bits(uint64_t bits, kiln_dtype_t dtype);
/* The value of an integer dtype's bits; of bool 0 or 1, however it is stored. */
int64_t kiln_integer_from_bits(uint64_t bits, kiln_dtype_t dtype);

/* Element `index` of an array in storage form. */
uint64_t kiln_bits_read(const void *elements, int64_t index, kiln_dtype_t dtype);
void kiln_bits_write(void *elements, int64_t index, kiln_dtype_t dtype, uint64_t bits);

/* The bits of element `index` of a constant node, from its values or its bits. */
uint64_t kiln_constant_bits(const kiln_node_t *node, uint32_t index);

#endif
