/* emulator/shadow.h: what the checkers remember of a block's shared memory.
 *
 * For each byte: whether it was written in this block, and stamps of who wrote it last and which two warps
 * read it last, each with the warp's clock then. A warp's clock advances at barriers, which also tell it what
 * the others' clocks were: an access races with an earlier one that it has not been told of (the vector
 * clocks of FastTrack, Flanagan and Freund, 2009, with warps as threads and two readers remembered). Stamps
 * are kept as arrays, so that a request compares vectors of them with one bound: the clock up to which its
 * warp has been told of everything (lanes_stamps.h). Only stamps past the bound are looked at one by one.
 * Called by checks.c, exec_barrier.c and launch.c. Thread: the worker that owns the block.
 */
#ifndef KILN_EMULATOR_SHADOW_H
#define KILN_EMULATOR_SHADOW_H

#include "emulator/exec_memory.h"

/* A stamp: clock, warp, whether atomic. 0 is older than everything. */
#define EMU_STAMP_CLOCK 6
#define EMU_STAMP_WARP (31u << 1)
#define EMU_STAMP_ATOMIC 1u

/* Arrays of one stamp per byte. */
typedef struct {
  uint32_t *written;
  uint32_t *read[2]; /* by different warps */
} emu_stamps_t;

/* NULL when memory is short. */
emu_shadow_t *emu_shadow_create(uint32_t bytes, uint32_t warps);
void emu_shadow_destroy(emu_shadow_t *shadow); /* accepts NULL */
/* Forgets everything, for the next block. */
void emu_shadow_restart(emu_shadow_t *shadow);
/* The warps of the mask met at a barrier: what each did before is before what any of them does next. */
void emu_shadow_join(emu_shadow_t *shadow, uint32_t warps);

/* Checks and marks `bytes` of shared memory at the offsets of `lanes`; gives the lanes for which there is
 * something to report, where nothing was marked. */
uint32_t emu_shadow_pass(emu_warp_t *w, uint32_t lanes, const uint32_t *offsets, uint32_t bytes,
                         emu_access_t access);
/* Marks an access and tells what is wrong with it: a byte that nobody wrote is read, or a race with what was
 * "read" or "written" (NULL: none). */
typedef struct {
  bool unwritten;
  const char *race;
} emu_shadow_verdict_t;
emu_shadow_verdict_t emu_shadow_judge(emu_warp_t *w, uint32_t offset, uint32_t bytes, emu_access_t access);

#endif
