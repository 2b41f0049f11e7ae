/* emulator/checks.h: the checkers that look at each memory access: reads of bytes never written, races.
 *
 * Called by exec_memory.c when a checker is on: for a simple request of a whole warp emu_check_row, which has
 * vectors to compare, else, or when that finds anything to say, emu_check_access, which goes lane by lane and
 * reports. Global memory's marks are kept with its allocation (memory.h), shared memory's with the block
 * (shadow.h). Thread: the worker that owns the block.
 */
#ifndef KILN_EMULATOR_CHECKS_H
#define KILN_EMULATOR_CHECKS_H

#include "emulator/exec_memory.h"

/* False, with nothing marked, when there is something to report. */
bool emu_check_row(emu_warp_t *w, const emu_inst_t *i, const emu_row_t *row);
void emu_check_access(emu_warp_t *w, const emu_inst_t *i, const emu_request_t *r);

#endif
