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

static void check_global(emu_warp_t *w, const emu_inst_t *i, const emu_request_t *r, uint32_t lane) {
  uint64_t address = (uint64_t)(uintptr_t)r->pointers[lane];
  uint32_t bytes = (uint32_t)i->bytes * i->vector;
  emu_range_t found;
  const emu_range_t *range = r->range;
  if (!range) range = emu_memory_find(w->block->launch->memory, address, &found) ? &found : NULL;
  if (!range || !range->written) return;
  if (r->access != EMU_ACCESS_WRITE && !emu_range_is_written(range, address, bytes))
    emu_finding(w, i, lane,
                "read of %u bytes that nobody wrote, %" PRIu64 " bytes into an allocation of %" PRIu64, bytes,
                address - range->base, range->bytes);
  if (r->access != EMU_ACCESS_READ) emu_range_mark_written(range, address, bytes);
}

void emu_check_access(emu_warp_t *w, const emu_inst_t *i, const emu_request_t *r) {
  unsigned checks = w->block->launch->checks;
  if (r->space == EMU_SPACE_SHARED && w->block->shadow)
    EMU_EACH_LANE(lane, w->mask) check_shared(w, i, r, lane);
  if (r->space == EMU_SPACE_GLOBAL && checks & KILN_EMU_CHECK_INIT)
    EMU_EACH_LANE(lane, w->mask) check_global(w, i, r, lane);
}
