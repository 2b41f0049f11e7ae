/* base/clock.c: the system's clocks. A test that turns time links its own definitions in place of these two.
 */
#include "base/clock.h"

#include <time.h>

static struct timespec now(clockid_t clock) {
  struct timespec time = {0};
  clock_gettime(clock, &time);
  return time;
}

uint64_t kiln_clock_monotonic_ns(void) {
  struct timespec time = now(CLOCK_MONOTONIC);
  return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

uint64_t kiln_clock_wall_ms(void) {
  struct timespec time = now(CLOCK_REALTIME);
  return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
}
