/* emulator/lanes_plain.c: the lane loops for the instruction set that the compiler was asked for; see
 * lanes_loops.h. Chosen by lanes.c where nothing better is there. */
#define EMU_LANE_TABLE emu_lanes_plain
#include "emulator/lanes_loops.h"
