/* emulator/estimate.h: how long a counted launch would take on the modelled GPU. Called by the streams.
 * Thread: any. */
#ifndef KILN_EMULATOR_ESTIMATE_H
#define KILN_EMULATOR_ESTIMATE_H

#include "base/cuda_abi.h"

typedef struct {
  uint32_t sms;
  uint64_t clock_hz;
  uint64_t bytes_per_second;            /* of device memory */
  uint32_t tensor_operations_per_clock; /* multiply-adds of f16 per SM */
  uint32_t resident_blocks;             /* that the whole device holds */
} emu_machine_rates_t;

/* A roofline: the launch takes what its scarcest resource takes, in whole waves of blocks, plus a launch's
 * latency. */
uint64_t emu_estimate_ns(const kiln_emu_launch_t *launch, const emu_machine_rates_t *rates);

#endif
