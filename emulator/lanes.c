/* emulator/lanes.c: chooses the lane loops for this CPU, finds handlers by key, and runs them under other
 * rounding modes. See lanes.h. */
#include "emulator/lanes.h"

#include "emulator/machine.h"

#include <fenv.h>
#include <stdlib.h>
#include <string.h>
#ifdef __x86_64__
#include <xmmintrin.h>
#endif

static const emu_lane_table_t *best_table(void) {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"))
    return &emu_lanes_avx2;
#endif
  return &emu_lanes_plain;
}

const emu_lane_op_t *emu_lane_op_find(const char *key) {
  const emu_lane_table_t *table = best_table();
  char name[64];
  size_t length = strlen(key);
  if (length >= sizeof name) return NULL;
  for (size_t n = 0; n <= length; n++) name[n] = key[n] == '.' ? '_' : key[n];
  for (uint32_t n = 0; n < table->count; n++)
    if (strcmp(table->ops[n].key, name) == 0) return &table->ops[n];
  return NULL;
}

const emu_row_ops_t *emu_row_ops(void) { return &best_table()->rows; }

#ifdef __x86_64__
/* MXCSR's rounding field by emu_rounding_t; bits 15 and 6 flush results and inputs that are denormal. */
static unsigned enter_mode(const emu_inst_t *i) {
  static const unsigned rounding[] = {0, 3u << 13, 1u << 13, 2u << 13};
  unsigned saved = _mm_getcsr();
  _mm_setcsr((saved & ~(3u << 13)) | rounding[i->rounding] | (i->flush ? 1u << 15 | 1u << 6 : 0));
  return saved;
}
static void leave_mode(unsigned saved) { _mm_setcsr(saved); }
#else
static unsigned enter_mode(const emu_inst_t *i) {
  static const int rounding[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
  fesetround(rounding[i->rounding]);
  return 0;
}
static void leave_mode(unsigned saved) {
  (void)saved;
  fesetround(FE_TONEAREST);
}
#endif

const emu_inst_t *emu_exec_rounded(emu_warp_t *w, const emu_inst_t *i) {
  /* Nothing that the handler computes may move across the switches: it is reached through a pointer and works
   * in memory. */
  unsigned saved = enter_mode(i);
  const emu_inst_t *next = i->inner(w, i);
  leave_mode(saved);
  return next;
}
