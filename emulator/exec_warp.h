/* emulator/exec_warp.h: meeting the lanes that a warp-wide instruction names. Called by exec_*.c. Thread: the
 * block's worker. */
#ifndef KILN_EMULATOR_EXEC_WARP_H
#define KILN_EMULATOR_EXEC_WARP_H

#include "emulator/machine.h"

/* Whether all living lanes that the frame vector `operand` names are here; if not, the lanes are parked and
 * the caller returns emu_reschedule(w). i->target must be the leader of the instruction's basic block. */
bool emu_gather(emu_warp_t *w, const emu_inst_t *i, uint32_t operand);

#endif
