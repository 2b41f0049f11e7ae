/* emulator/exec_tensor.h: elements of matrix instructions, shared by mma.sync (exec_tensor.c) and wmma
 * (exec_wmma.c). Thread: the block's worker. */
#ifndef KILN_EMULATOR_EXEC_TENSOR_H
#define KILN_EMULATOR_EXEC_TENSOR_H

#include "emulator/machine.h"

uint32_t emu_tensor_bits(emu_tensor_type_t type);
/* The value of element e of a lane's register at frame offset `operand`. */
double emu_tensor_element(emu_warp_t *w, uint32_t operand, uint32_t lane, emu_tensor_type_t type, uint32_t e);
/* Rounds a sum to the result type; integers wrap or, with .satfinite, are clamped. */
uint64_t emu_tensor_encode(const emu_mma_t *m, double sum);
/* All lanes of a warp must run a matrix instruction together; a fault and false when they do not. */
bool emu_whole_warp(emu_warp_t *w, const emu_inst_t *i);

#endif
