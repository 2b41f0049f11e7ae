/* emulator/launch.h: one kernel launch from its parameters to its counters. Called by the streams
 * (driver_stream.c). Thread: whoever runs the stream's operation; emu_launch_run brings in helpers of the
 * pool when it takes long. */
#ifndef KILN_EMULATOR_LAUNCH_H
#define KILN_EMULATOR_LAUNCH_H

#include "emulator/machine.h"
#include "emulator/pool.h"

typedef struct {
  const emu_kernel_t *kernel;
  emu_memory_t *memory;
  uint32_t grid[3], block[3];
  uint32_t dynamic_shared_bytes;
  uint64_t resident_limit;
  uint64_t instruction_limit;
  uint64_t stack_bytes; /* per thread, for functions that call themselves */
  unsigned checks;
  uint64_t serial; /* of the launch in its context, from 1 */
  bool counting;
  bool deterministic; /* blocks take turns on one thread */
} emu_launch_setup_t;

/* A launch with room for kernel->param_bytes at ->params, which the caller fills; NULL when memory is short.
 */
emu_launch_t *emu_launch_create(const emu_launch_setup_t *setup);
void emu_launch_destroy(emu_launch_t *launch); /* accepts NULL */

/* Runs all blocks. Afterwards launch->fault says whether a thread did something wrong, launch->report what
 * checkers found, and *out_record, where launches are counted, has the counters. */
void emu_launch_run(emu_launch_t *launch, emu_pool_t *pool, kiln_emu_launch_t *out_record);

#endif
