/* emulator/checks.c: see checks.h. */
#include "emulator/checks.h"

#include <inttypes.h>
#include <stdlib.h>

typedef struct {
  uint32_t clock; /* 0: never, or in an earlier block */
  uint8_t warp;
  bool atomic;
} access_stamp_t;

typedef struct {
  access_stamp_t written;
  access_stamp_t read[2]; /* by different warps */
} byte_shadow_t;

struct emu_shadow {
  uint32_t bytes;
  uint32_t oldest;        /* clocks up to this are of earlier blocks */
  uint32_t clock[32];     /* of each warp */
  uint32_t known[32][32]; /* known[a][b]: b's clock as warp a was told */
  byte_shadow_t shadow[];
};

emu_shadow_t *emu_shadow_create(uint32_t bytes) {
  emu_shadow_t *shadow = calloc(1, sizeof *shadow + bytes * sizeof *shadow->shadow);
  if (shadow) shadow->bytes = bytes;
  return shadow;
}

void emu_shadow_destroy(emu_shadow_t *shadow) { free(shadow); }

void emu_shadow_restart(emu_shadow_t *shadow) {
  for (uint32_t n = 0; n < 32; n++)
    if (shadow->clock[n] > shadow->oldest) shadow->oldest = shadow->clock[n];
  for (uint32_t n = 0; n < 32; n++) {
    shadow->clock[n] = shadow->oldest + 1;
    for (uint32_t other = 0; other < 32; other++) shadow->known[n][other] = shadow->oldest;
  }
}

void emu_shadow_join(emu_block_t *block, uint32_t warps) {
  emu_shadow_t *shadow = block->shadow;
  uint32_t joined[32] = {0};
  EMU_EACH_LANE(warp, warps) {
    for (uint32_t n = 0; n < 32; n++)
      if (shadow->known[warp][n] > joined[n]) joined[n] = shadow->known[warp][n];
    joined[warp] = shadow->clock[warp];
  }
  EMU_EACH_LANE(warp, warps) {
    for (uint32_t n = 0; n < 32; n++) shadow->known[warp][n] = joined[n];
    shadow->clock[warp]++;
  }
}

/* Whether the stamped access was by another warp and is not known to have been before what warp `warp` does
 * now. */
static bool unordered(const emu_shadow_t *shadow, const access_stamp_t *stamp, uint32_t warp) {
  return stamp->clock > shadow->oldest && stamp->warp != warp &&
         stamp->clock > shadow->known[warp][stamp->warp];
}

static void stamp_read(byte_shadow_t *byte, access_stamp_t stamp) {
  if (byte->read[0].warp != stamp.warp) byte->read[1] = byte->read[0];
  byte->read[0] = stamp;
}

/* The conflicting earlier access, in words, or NULL. */
static const char *find_race(const emu_shadow_t *shadow, const byte_shadow_t *byte, uint32_t warp,
                             emu_access_t access) {
  bool atomic = access == EMU_ACCESS_ATOMIC;
  if (unordered(shadow, &byte->written, warp) && !(atomic && byte->written.atomic)) return "written";
  if (access == EMU_ACCESS_READ) return NULL;
  for (int n = 0; n < 2; n++)
    if (unordered(shadow, &byte->read[n], warp)) return "read";
  return NULL;
}

static void check_shared(emu_warp_t *w, const emu_inst_t *i, const emu_request_t *r, uint32_t lane) {
  emu_shadow_t *shadow = w->block->shadow;
  unsigned checks = w->block->launch->checks;
  uint64_t offset = (uint64_t)(r->pointers[lane] - w->block->shared);
  bool unwritten = false;
  const char *race = NULL;
  for (uint32_t n = 0; n < (uint32_t)i->bytes * i->vector; n++) {
    byte_shadow_t *byte = &shadow->shadow[offset + n];
    access_stamp_t stamp = {shadow->clock[w->index], (uint8_t)w->index, r->access == EMU_ACCESS_ATOMIC};
    unwritten |= r->access != EMU_ACCESS_WRITE && byte->written.clock <= shadow->oldest;
    if (!race) race = find_race(shadow, byte, w->index, r->access);
    if (r->access == EMU_ACCESS_READ)
      stamp_read(byte, stamp);
    else
      byte->written = stamp;
  }
  if (unwritten && checks & KILN_EMU_CHECK_INIT)
    emu_finding(w, i, lane, "read of shared memory that nobody wrote, at 0x%" PRIx64, offset);
  if (race && checks & KILN_EMU_CHECK_RACE)
    emu_finding(w, i, lane,
                "race in shared memory at 0x%" PRIx64 ": %s by another warp with no barrier between", offset,
                race);
}

/* --- global memory --- */

/* A stamp: the launch (20 bits), whether atomic, which of the word's 4 bytes, and the block, or ANY_BLOCK. */
#define ANY_BLOCK ((1ull << 39) - 1)

static uint64_t make_stamp(const emu_block_t *block, emu_access_t access, uint32_t bytes) {
  uint64_t number = block->linear < ANY_BLOCK ? block->linear : ANY_BLOCK - 1;
  return (block->launch->serial & 0xfffff) << 44 | (uint64_t)(access == EMU_ACCESS_ATOMIC) << 43 |
         (uint64_t)(bytes & 15) << 39 | number;
}

/* Whether both are of this launch, of different blocks, on common bytes, and not both atomic. */
static bool conflicts(uint64_t earlier, uint64_t now) {
  bool same_launch = earlier >> 44 == now >> 44, same_block = (earlier & ANY_BLOCK) == (now & ANY_BLOCK);
  return same_launch && !same_block && (earlier & now & 15ull << 39) && !(earlier & now & 1ull << 43);
}

static const char *check_word(uint64_t *stamps, uint64_t now, bool writes) {
  uint64_t written = __atomic_load_n(&stamps[0], __ATOMIC_RELAXED),
           read = __atomic_load_n(&stamps[1], __ATOMIC_RELAXED);
  const char *race = conflicts(written, now) ? "written" : writes && conflicts(read, now) ? "read" : NULL;
  if (writes) __atomic_store_n(&stamps[0], now, __ATOMIC_RELAXED);
  bool read_before = read >> 44 == now >> 44;
  uint64_t readers = read_before && (read & ANY_BLOCK) != (now & ANY_BLOCK) ? now | ANY_BLOCK : now;
  if (!writes)
    __atomic_store_n(&stamps[1], read_before ? readers | (read & 15ull << 39) : now, __ATOMIC_RELAXED);
  return race;
}

/* Blocks of one launch have no order, unless they make one with atomics or flags: kernels that can are not
 * judged. */
static void check_blocks(emu_warp_t *w, const emu_inst_t *i, const emu_range_t *range, uint32_t lane,
                         uint64_t offset, emu_access_t access) {
  uint64_t end = offset + (uint64_t)i->bytes * i->vector;
  for (uint64_t word = offset / 4; word * 4 < end; word++) {
    uint32_t first = word * 4 < offset ? (uint32_t)(offset % 4) : 0,
             last = word * 4 + 4 > end ? (uint32_t)(end % 4) : 4;
    uint64_t stamp = make_stamp(w->block, access, ((1u << last) - 1) & ~((1u << first) - 1));
    const char *race = check_word(&range->accessed[2 * word], stamp, access != EMU_ACCESS_READ);
    if (!race) continue;
    emu_finding(w, i, lane,
                "race in global memory, %" PRIu64 " bytes into an allocation of %" PRIu64
                ": %s by another block",
                word * 4, range->bytes, race);
    return;
  }
}

static void check_written(emu_warp_t *w, const emu_inst_t *i, const emu_range_t *range, uint32_t lane,
                          uint64_t address, emu_access_t access) {
  uint32_t bytes = (uint32_t)i->bytes * i->vector;
  if (access != EMU_ACCESS_WRITE && !emu_range_is_written(range, address, bytes))
    emu_finding(w, i, lane,
                "read of %u bytes that nobody wrote, %" PRIu64 " bytes into an allocation of %" PRIu64, bytes,
                address - range->base, range->bytes);
  if (access != EMU_ACCESS_READ) emu_range_mark_written(range, address, bytes);
}

static void check_global(emu_warp_t *w, const emu_inst_t *i, const emu_request_t *r, uint32_t lane) {
  const emu_launch_t *launch = w->block->launch;
  uint64_t address = (uint64_t)(uintptr_t)r->pointers[lane];
  emu_range_t found;
  const emu_range_t *range = r->range;
  if (!range) range = emu_memory_find(launch->memory, address, &found) ? &found : NULL;
  if (!range) return;
  if (range->written && launch->checks & KILN_EMU_CHECK_INIT)
    check_written(w, i, range, lane, address, r->access);
  if (range->accessed && launch->checks & KILN_EMU_CHECK_RACE && !launch->kernel->may_wait &&
      launch->block_count > 1)
    check_blocks(w, i, range, lane, address - range->base, r->access);
}

void emu_check_access(emu_warp_t *w, const emu_inst_t *i, const emu_request_t *r) {
  if (r->space == EMU_SPACE_SHARED && w->block->shadow)
    EMU_EACH_LANE(lane, w->mask) check_shared(w, i, r, lane);
  if (r->space == EMU_SPACE_GLOBAL) EMU_EACH_LANE(lane, w->mask) check_global(w, i, r, lane);
}
