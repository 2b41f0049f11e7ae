/* ir/target.c: the table of targets, made from targets.def. */
#include "ir/target.h"

#include "base/arena.h"
#include "base/buffer.h"

#include <string.h>

static const kiln_target_t targets[] = {
#define KILN_TARGET(name, cc_major, cc_minor, sms, block_kib, sm_kib, threads, l2_mb, memory_gb, gb_per_s)   \
  {.arch = #name,                                                                                            \
   .major = cc_major,                                                                                        \
   .minor = cc_minor,                                                                                        \
   .sm_count = sms,                                                                                          \
   .shared_bytes_per_block = block_kib << 10,                                                                \
   .shared_bytes_per_sm = sm_kib << 10,                                                                      \
   .registers_per_sm = 65536,                                                                                \
   .threads_per_sm = threads,                                                                                \
   .l2_bytes = l2_mb * UINT64_C(1000000),                                                                    \
   .memory_bytes = memory_gb * UINT64_C(1000000000),                                                         \
   .memory_gb_per_s = gb_per_s},
#include "ir/targets.def"
#undef KILN_TARGET
};

enum { TARGET_COUNT = sizeof targets / sizeof *targets };

const char *kiln_target_name(size_t index) { return index < TARGET_COUNT ? targets[index].arch : NULL; }

static kiln_status_t unknown_target(const char *name) {
  kiln_buffer_t known;
  kiln_buffer_init(&known);
  for (size_t i = 0; i < TARGET_COUNT; i++)
    kiln_buffer_printf(&known, "%s%s", i ? ", " : "", targets[i].arch);
  kiln_status_t status =
      kiln_error(KILN_UNSUPPORTED, "unknown target '%.32s'; known are %s", name, kiln_buffer_text(&known));
  kiln_buffer_deinit(&known);
  return status;
}

kiln_status_t kiln_target_parse(const char *name, kiln_target_t *out) {
  for (size_t i = 0; i < TARGET_COUNT; i++) {
    if (strcmp(targets[i].arch, name)) continue;
    *out = targets[i];
    return NULL;
  }
  return unknown_target(name);
}

/* --- occupancy --------------------------------------------------------------------------------- */

enum {
  WARP_LANES = 32,
  SM_PARTITIONS = 4,         /* each has a quarter of the registers; a warp lives in one */
  REGISTER_UNIT = 256,       /* a warp's registers come in so many */
  SHARED_UNIT = 128,         /* a block's shared memory comes in so many bytes */
  SHARED_SYSTEM_BYTES = 1024 /* what the system takes of every block's */
};

/* CUDA C++ Programming Guide, "Technical Specifications per Compute Capability". */
static uint32_t most_blocks(const kiln_target_t *target) {
  if (target->major == 8 && target->minor == 6) return 16;
  bool is_small = target->major == 12 || (target->major == 8 && target->minor == 9);
  return is_small ? 24 : 32;
}

static uint32_t round_up(uint32_t value, uint32_t unit) { return (value + unit - 1) / unit * unit; }

static uint32_t blocks_by_registers(const kiln_target_t *target, uint32_t warps, uint32_t registers) {
  uint32_t per_warp = round_up(registers * WARP_LANES, REGISTER_UNIT);
  return target->registers_per_sm / SM_PARTITIONS / per_warp * SM_PARTITIONS / warps;
}

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

kiln_occupancy_t kiln_target_occupancy(const kiln_target_t *target, uint32_t block_threads,
                                       uint32_t registers_per_thread, uint32_t shared_bytes_per_block) {
  uint32_t most = most_blocks(target), warps = (block_threads + WARP_LANES - 1) / WARP_LANES;
  uint32_t shared = round_up(shared_bytes_per_block + SHARED_SYSTEM_BYTES, SHARED_UNIT);
  if (!warps) warps = 1;
  kiln_occupancy_t out = {
      .by_registers = registers_per_thread ? blocks_by_registers(target, warps, registers_per_thread) : most,
      .by_threads = target->threads_per_sm / WARP_LANES / warps,
      .by_shared = target->shared_bytes_per_sm / shared,
      .by_blocks = most};
  out.blocks = least(least(out.by_registers, out.by_threads), least(out.by_shared, out.by_blocks));
  out.threads = out.blocks * warps * WARP_LANES;
  return out;
}
