/* emulator/checks.h: the checkers that look at each memory access: reads of bytes never written, races in
 * shared memory.
 *
 * Global memory keeps a bit per byte with its allocation (memory.h). Shared memory has a shadow per block:
 * for each byte who wrote it last and which two warps read it last, each with the warp's clock then. A warp's
 * clock advances at barriers, which also tell it what the others' clocks were: an access races with an
 * earlier one that it has not been told of (the vector clocks of FastTrack, Flanagan and Freund, 2009, with
 * warps as threads and two readers remembered). Called by exec_memory.c and exec_barrier.c when a checker is
 * on. Thread: the worker that owns the block.
 */
#ifndef KILN_EMULATOR_CHECKS_H
#define KILN_EMULATOR_CHECKS_H

#include "emulator/exec_memory.h"

/* NULL when memory is short. */
emu_shadow_t *emu_shadow_create(uint32_t bytes);
void emu_shadow_destroy(emu_shadow_t *shadow); /* accepts NULL */
/* Forgets everything, for the next block. */
void emu_shadow_restart(emu_shadow_t *shadow);
/* The warps of the mask met at a barrier: what each did before is before what any of them does next. */
void emu_shadow_join(emu_block_t *block, uint32_t warps);

void emu_check_access(emu_warp_t *w, const emu_inst_t *i, const emu_request_t *r);

#endif
