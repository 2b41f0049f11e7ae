/* client/failure.c: failures as libkiln's callers see them, and the version of its interface.
 *
 * A failure is a status of base/status.h under names of the public header, which base cannot export.
 */
#include "base/status.h"
#include "kiln/kiln.h"

int kiln_abi_version(void) { return KILN_ABI_VERSION; }

const char *kiln_failure_code(kiln_status_t failure) { return kiln_code_name(kiln_status_code(failure)); }
const char *kiln_failure_message(kiln_status_t failure) { return kiln_status_message(failure); }

const char *kiln_failure_detail(kiln_status_t failure, const char *name) {
  return kiln_status_detail(failure, name);
}

bool kiln_failure_retryable(kiln_status_t failure) { return kiln_code_retryable(kiln_status_code(failure)); }
void kiln_failure_free(kiln_status_t failure) { kiln_status_free(failure); }
