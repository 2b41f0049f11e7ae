/* base/clock.h: the one clock. Everything that waits, times or expires asks here, so that a test can turn it.
 */
#ifndef KILN_BASE_CLOCK_H
#define KILN_BASE_CLOCK_H

#include <stdint.h>

uint64_t kiln_clock_monotonic_ns(void);
uint64_t kiln_clock_wall_ms(void); /* since 1970, UTC */

#endif
