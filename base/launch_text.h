/* base/launch_text.h: a launch's counters as people read them. Called by libkiln-emu (kilnEmuGetLaunchesText)
 * and by `kiln run --counters`, which gets the same numbers through the daemon. Thread: any. */
#ifndef KILN_BASE_LAUNCH_TEXT_H
#define KILN_BASE_LAUNCH_TEXT_H

#include "base/buffer.h"
#include "base/cuda_abi.h"

/* Appends some ten lines; rows that would say zero are left out. Times are named estimate or measurement. */
void kiln_launch_text(kiln_buffer_t *out, const kiln_emu_launch_t *launch);

#endif
