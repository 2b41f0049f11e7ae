/* emulator/schedule.h: runs blocks; see schedule.c for the rules. Called by launch.c. Thread: the block's
 * worker. */
#ifndef KILN_EMULATOR_SCHEDULE_H
#define KILN_EMULATOR_SCHEDULE_H

#include "emulator/machine.h"

typedef enum { EMU_BLOCK_DONE, EMU_BLOCK_PREEMPTED } emu_block_state_t;

/* Runs a block until all its threads exited (or the launch was stopped), or its quantum is used up. */
emu_block_state_t emu_block_run(emu_block_t *block);

#endif
