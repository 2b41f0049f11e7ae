/* emulator/shadow.c: see shadow.h. */
#include "emulator/shadow.h"

#include "emulator/lanes.h"

#include <stdlib.h>
#include <string.h>

#define MOST_WARPS 32
#define LAST_CLOCK (1u << 24) /* stamps stay positive as signed numbers */
#define WINDOW 32             /* bytes whose bits are looked at together */

struct emu_shadow {
  uint32_t bytes, warps;
  uint32_t oldest;                        /* clocks up to this are of earlier blocks */
  uint32_t clock[MOST_WARPS];             /* of each warp */
  uint32_t known[MOST_WARPS][MOST_WARPS]; /* known[a][b]: b's clock as warp a was told */
  uint32_t told[MOST_WARPS];              /* warp a was told of all accesses up to this clock */
  emu_stamps_t stamps;
  uint8_t *written; /* a bit per byte, and space to read one window past the end */
  uint32_t memory[];
};

emu_shadow_t *emu_shadow_create(uint32_t bytes, uint32_t warps) {
  size_t stamp_bytes = sizeof(uint32_t) * bytes;
  emu_shadow_t *shadow = calloc(1, sizeof *shadow + 3 * stamp_bytes + bytes / 8 + sizeof(uint64_t) + 1);
  if (!shadow) return NULL;
  shadow->bytes = bytes;
  shadow->warps = warps;
  shadow->stamps = (emu_stamps_t){shadow->memory, {shadow->memory + bytes, shadow->memory + 2 * bytes}};
  shadow->written = (uint8_t *)(shadow->memory + 3 * bytes);
  return shadow;
}

void emu_shadow_destroy(emu_shadow_t *shadow) { free(shadow); }

/* All clocks start over; who accessed what before is forgotten, which can hide a race but invents none. */
static void forget_stamps(emu_shadow_t *shadow) {
  memset(shadow->memory, 0, 3 * sizeof(uint32_t) * shadow->bytes);
  memset(shadow->clock, 0, sizeof shadow->clock);
  shadow->oldest = 0;
}

static void start_clocks(emu_shadow_t *shadow) {
  for (uint32_t n = 0; n < shadow->warps; n++) {
    shadow->clock[n] = shadow->oldest + 1;
    shadow->told[n] = shadow->oldest;
    for (uint32_t other = 0; other < shadow->warps; other++) shadow->known[n][other] = shadow->oldest;
  }
}

void emu_shadow_restart(emu_shadow_t *shadow) {
  for (uint32_t n = 0; n < shadow->warps; n++)
    if (shadow->clock[n] > shadow->oldest) shadow->oldest = shadow->clock[n];
  if (shadow->oldest >= LAST_CLOCK) forget_stamps(shadow);
  start_clocks(shadow);
  memset(shadow->written, 0, shadow->bytes / 8 + 1);
}

static void update_told(emu_shadow_t *shadow, uint32_t warp) {
  uint32_t told = UINT32_MAX;
  for (uint32_t n = 0; n < shadow->warps; n++)
    if (n != warp && shadow->known[warp][n] < told) told = shadow->known[warp][n];
  shadow->told[warp] = told < LAST_CLOCK ? told : LAST_CLOCK; /* which a warp alone is told */
}

void emu_shadow_join(emu_shadow_t *shadow, uint32_t warps) {
  uint32_t joined[MOST_WARPS] = {0};
  bool last = false;
  EMU_EACH_LANE(warp, warps) {
    for (uint32_t n = 0; n < shadow->warps; n++)
      if (shadow->known[warp][n] > joined[n]) joined[n] = shadow->known[warp][n];
    joined[warp] = shadow->clock[warp];
  }
  EMU_EACH_LANE(warp, warps) {
    for (uint32_t n = 0; n < shadow->warps; n++) shadow->known[warp][n] = joined[n];
    update_told(shadow, warp);
    last |= ++shadow->clock[warp] >= LAST_CLOCK;
  }
  if (!last) return;
  forget_stamps(shadow);
  start_clocks(shadow);
}

/* --- written bits --- */

static uint64_t window_at(const emu_shadow_t *shadow, uint32_t offset, uint32_t bytes, uint64_t *out_wanted) {
  uint64_t window;
  memcpy(&window, shadow->written + offset / 8, sizeof window);
  *out_wanted = ((1ull << bytes) - 1) << offset % 8;
  return window;
}

static bool is_written(const emu_shadow_t *shadow, uint32_t offset, uint32_t bytes) {
  uint64_t wanted, missing = 0;
  for (uint32_t done = 0; done < bytes; done += WINDOW) {
    uint64_t window =
        window_at(shadow, offset + done, bytes - done < WINDOW ? bytes - done : WINDOW, &wanted);
    missing |= wanted & ~window;
  }
  return !missing;
}

static void mark_written(emu_shadow_t *shadow, uint32_t offset, uint32_t bytes) {
  uint64_t wanted;
  for (uint32_t done = 0; done < bytes; done += WINDOW) {
    uint64_t window =
        window_at(shadow, offset + done, bytes - done < WINDOW ? bytes - done : WINDOW, &wanted);
    if (!(wanted & ~window)) continue;
    window |= wanted;
    memcpy(shadow->written + (offset + done) / 8, &window, sizeof window);
  }
}

/* --- accesses --- */

static uint32_t stamp_of(const emu_shadow_t *shadow, uint32_t warp, emu_access_t access) {
  return shadow->clock[warp] << EMU_STAMP_CLOCK | warp << 1 |
         (access == EMU_ACCESS_ATOMIC ? EMU_STAMP_ATOMIC : 0);
}

uint32_t emu_shadow_pass(emu_warp_t *w, uint32_t lanes, const uint32_t *offsets, uint32_t bytes,
                         emu_access_t access) {
  emu_shadow_t *shadow = w->block->shadow;
  const emu_row_ops_t *rows = w->worker->rows;
  uint32_t left = 0, now = stamp_of(shadow, w->index, access),
           bound = (shadow->told[w->index] + 1) << EMU_STAMP_CLOCK;
  if (access != EMU_ACCESS_WRITE)
    EMU_EACH_LANE(lane, lanes) left |= (uint32_t)!is_written(shadow, offsets[lane], bytes) << lane;
  lanes &= ~left;
  left |= access == EMU_ACCESS_READ ? rows->warp_reads(&shadow->stamps, lanes, offsets, bytes, now, bound)
                                    : rows->warp_writes(&shadow->stamps, lanes, offsets, bytes, now, bound);
  if (access != EMU_ACCESS_READ)
    EMU_EACH_LANE(lane, lanes & ~left) mark_written(shadow, offsets[lane], bytes);
  return left;
}

/* Whether the stamped access was by another warp and is not known to have been before what `warp` does now.
 */
static bool unordered(const emu_shadow_t *shadow, uint32_t stamp, uint32_t warp) {
  uint32_t clock = stamp >> EMU_STAMP_CLOCK, other = (stamp & EMU_STAMP_WARP) >> 1;
  return clock > shadow->oldest && other != warp && clock > shadow->known[warp][other];
}

/* The conflicting earlier access to a byte, in words, or NULL. */
static const char *find_race(const emu_shadow_t *shadow, uint32_t byte, uint32_t warp, emu_access_t access) {
  uint32_t written = shadow->stamps.written[byte];
  bool both_atomic = access == EMU_ACCESS_ATOMIC && written & EMU_STAMP_ATOMIC;
  if (unordered(shadow, written, warp) && !both_atomic) return "written";
  if (access == EMU_ACCESS_READ) return NULL;
  for (int n = 0; n < 2; n++)
    if (unordered(shadow, shadow->stamps.read[n][byte], warp)) return "read";
  return NULL;
}

emu_shadow_verdict_t emu_shadow_judge(emu_warp_t *w, uint32_t offset, uint32_t bytes, emu_access_t access) {
  emu_shadow_t *shadow = w->block->shadow;
  emu_stamps_t *stamps = &shadow->stamps;
  uint32_t now = stamp_of(shadow, w->index, access);
  emu_shadow_verdict_t verdict = {.unwritten =
                                      access != EMU_ACCESS_WRITE && !is_written(shadow, offset, bytes)};
  for (uint32_t byte = offset; byte < offset + bytes; byte++) {
    if (!verdict.race) verdict.race = find_race(shadow, byte, w->index, access);
    if (access != EMU_ACCESS_READ) {
      stamps->written[byte] = now;
      continue;
    }
    if ((stamps->read[0][byte] ^ now) & EMU_STAMP_WARP) stamps->read[1][byte] = stamps->read[0][byte];
    stamps->read[0][byte] = now;
  }
  if (access != EMU_ACCESS_READ) mark_written(shadow, offset, bytes);
  return verdict;
}
