/* base/emu_checks.h: the names of the emulated device's checkers.
 *
 * KILN_EMU_CHECKS, `kiln --checkers` and kiln_device_check take the same lists; emulator/ and runtime/, which
 * may not see each other, read them here.
 */
#ifndef KILN_BASE_EMU_CHECKS_H
#define KILN_BASE_EMU_CHECKS_H

#include <stdbool.h>

/* "all", "none" or names between commas -> a mask of KILN_EMU_CHECK_*; false for another name. */
bool kiln_emu_checks_parse(const char *text, unsigned *out_mask);

/* What a message says of a list that does not parse. */
#define KILN_EMU_CHECKS_USAGE "use all, none or a list of init, race, barrier, shuffle, leak"

#endif
