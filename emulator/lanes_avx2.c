/* emulator/lanes_avx2.c: the lane loops for CPUs with AVX2 and FMA (2013 and later); see lanes_loops.h.
 * Chosen by lanes.c after asking the CPU. Empty on other architectures. */
#ifdef __x86_64__
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma,bmi2"))), apply_to = function)
#else
#pragma GCC target("avx2,fma,bmi2")
#endif
#define EMU_LANE_TABLE emu_lanes_avx2
#include "emulator/lanes_loops.h"
#ifdef __clang__
#pragma clang attribute pop
#endif
#else
typedef int emu_lanes_avx2_is_for_x86;
#endif
