/* runtime/find_nvrtc.h: which NVRTC is taken, and opening it.
 *
 * In order: the path that the caller names, else the one in $KILN_NVRTC; when neither is given, what the
 * build found, the loader's own search under the names of the known major versions, the usual toolkit folder.
 * Called by compile.c, and by identity.c, which must know the file without opening it.
 */
#ifndef KILN_RUNTIME_FIND_NVRTC_H
#define KILN_RUNTIME_FIND_NVRTC_H

#include "runtime/driver/nvrtc.h"

/* Candidate `index`, NULL past the end. A name without a slash is searched for by the loader. */
const char *kiln_nvrtc_candidate(const char *path, size_t index);

/* Opens the first candidate that is NVRTC 12.1 or later. UNAVAILABLE, in one line that says what is wrong
 * with each. */
kiln_status_t kiln_nvrtc_find(const char *path, kiln_nvrtc_t *out_nvrtc);

#endif
