/* emulator/estimate.c: see estimate.h.
 *
 * Rates per SM and clock, of NVIDIA's tables for compute capability 8.0 and 9.0: four schedulers issue a warp
 * instruction each; 64 lanes of f64, 16 of special functions, 32 of memory addresses; shared memory serves
 * one wavefront.
 */
#include "emulator/estimate.h"

#define LAUNCH_NS 2500.0 /* of an empty kernel, on any of the modelled devices */

static double larger(double a, double b) { return a > b ? a : b; }

/* Clocks that the SMs need for the launch when all of them work all the time. */
static double busy_clocks(const kiln_emu_counters_t *c, const emu_machine_rates_t *rates) {
  double clocks = (double)c->instructions / 4;
  clocks = larger(clocks, (double)c->f64_instructions * 32 / 64);
  clocks = larger(clocks, (double)c->special_instructions * 32 / 16);
  clocks = larger(clocks, (double)c->memory_instructions);
  clocks = larger(clocks, (double)c->shared_wavefronts);
  clocks = larger(clocks, (double)c->tensor_operations / rates->tensor_operations_per_clock);
  return clocks / rates->sms;
}

/* How much longer it takes because the last wave of blocks does not fill the device. */
static double wave_loss(const kiln_emu_launch_t *launch, const emu_machine_rates_t *rates) {
  double blocks = (double)launch->grid[0] * launch->grid[1] * launch->grid[2];
  double per_wave = rates->resident_blocks > rates->sms ? rates->sms : rates->resident_blocks;
  double waves = blocks / per_wave, whole = (double)(uint64_t)waves + (waves > (double)(uint64_t)waves);
  return waves > 0 ? whole / waves : 1;
}

uint64_t emu_estimate_ns(const kiln_emu_launch_t *launch, const emu_machine_rates_t *rates) {
  double compute_s =
      busy_clocks(&launch->counters, rates) / (double)rates->clock_hz * wave_loss(launch, rates);
  double memory_s = (double)launch->counters.bytes_moved / (double)rates->bytes_per_second;
  return (uint64_t)(LAUNCH_NS + 1e9 * larger(compute_s, memory_s));
}
