/* emulator/checks.c: see checks.h. */
#include "emulator/checks.h"

#include "emulator/lanes.h"
#include "emulator/shadow.h"

#include <inttypes.h>

/* --- shared memory --- */

static void report_shared(emu_warp_t *w, const emu_inst_t *i, uint32_t lane, uint32_t offset,
                          emu_access_t access) {
  unsigned checks = w->block->launch->checks;
  emu_shadow_verdict_t verdict = emu_shadow_judge(w, offset, (uint32_t)i->bytes * i->vector, access);
  if (verdict.unwritten && checks & KILN_EMU_CHECK_INIT)
    emu_finding(w, i, lane, "read of shared memory that nobody wrote, at 0x%" PRIx32, offset);
  if (verdict.race && checks & KILN_EMU_CHECK_RACE)
    emu_finding(w, i, lane,
                "race in shared memory at 0x%" PRIx32 ": %s by another warp with no barrier between", offset,
                verdict.race);
}

static void check_shared(emu_warp_t *w, const emu_inst_t *i, const emu_request_t *r) {
  uint32_t offsets[32];
  uintptr_t base = (uintptr_t)w->block->shared;
  for (uint32_t lane = 0; lane < 32; lane++) offsets[lane] = (uint32_t)((uintptr_t)r->pointers[lane] - base);
  uint32_t left = emu_shadow_pass(w, w->mask, offsets, (uint32_t)i->bytes * i->vector, r->access);
  EMU_EACH_LANE(lane, left) report_shared(w, i, lane, offsets[lane], r->access);
}

/* --- global memory --- */

static uint32_t make_stamp(const emu_block_t *block, emu_access_t access, uint32_t bytes) {
  uint32_t launch = (uint32_t)(block->launch->serial % EMU_BLOCK_STAMP_LAUNCHES) + 1,
           number = (uint32_t)(block->linear % EMU_BLOCK_STAMP_BLOCK);
  return launch << 22 | (access == EMU_ACCESS_ATOMIC ? EMU_BLOCK_STAMP_ATOMIC : 0) | bytes << 17 | number;
}

static bool same_launch(uint32_t a, uint32_t b) { return !((a ^ b) & EMU_BLOCK_STAMP_LAUNCH); }
static bool same_block(uint32_t a, uint32_t b) { return !((a ^ b) & EMU_BLOCK_STAMP_BLOCK); }

/* Whether both are of this launch, of different blocks, on common bytes, and not both atomic. */
static bool conflicts(uint32_t earlier, uint32_t now) {
  uint32_t common = earlier & now;
  return same_launch(earlier, now) && !same_block(earlier, now) && common & EMU_BLOCK_STAMP_BYTES &&
         !(common & EMU_BLOCK_STAMP_ATOMIC);
}

static const char *check_word(uint32_t *last_write, uint32_t *last_read, uint32_t now, bool writes) {
  uint32_t written = __atomic_load_n(last_write, __ATOMIC_RELAXED),
           read = __atomic_load_n(last_read, __ATOMIC_RELAXED);
  const char *race = conflicts(written, now) ? "written" : writes && conflicts(read, now) ? "read" : NULL;
  if (writes) {
    bool adds =
        same_launch(written, now) && same_block(written, now) && !((written ^ now) & EMU_BLOCK_STAMP_ATOMIC);
    __atomic_store_n(last_write, adds ? now | (written & EMU_BLOCK_STAMP_BYTES) : now, __ATOMIC_RELAXED);
    return race;
  }
  uint32_t readers = now;
  if (same_launch(read, now)) {
    readers |= read & EMU_BLOCK_STAMP_BYTES;
    if (!same_block(read, now)) readers |= EMU_BLOCK_STAMP_BLOCK;
  }
  if (readers != read) __atomic_store_n(last_read, readers, __ATOMIC_RELAXED);
  return race;
}

static void check_blocks(emu_warp_t *w, const emu_inst_t *i, const emu_range_t *range, uint32_t lane,
                         uint64_t offset, emu_access_t access) {
  uint64_t end = offset + (uint64_t)i->bytes * i->vector;
  for (uint64_t word = offset / 4; word * 4 < end; word++) {
    uint32_t first = word * 4 < offset ? (uint32_t)(offset % 4) : 0,
             last = word * 4 + 4 > end ? (uint32_t)(end % 4) : 4;
    uint32_t stamp = make_stamp(w->block, access, ((1u << last) - 1) & ~((1u << first) - 1));
    const char *race =
        check_word(&range->last_write[word], &range->last_read[word], stamp, access != EMU_ACCESS_READ);
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

static bool judges_writing(const emu_launch_t *launch, const emu_range_t *range) {
  return range->written && launch->checks & KILN_EMU_CHECK_INIT;
}

/* Blocks of one launch have no order, unless they make one with atomics or flags: kernels that can are not
 * judged. */
static bool judges_blocks(const emu_launch_t *launch, const emu_range_t *range) {
  return range->last_write && launch->checks & KILN_EMU_CHECK_RACE && !launch->kernel->may_wait &&
         launch->block_count > 1;
}

static void check_global(emu_warp_t *w, const emu_inst_t *i, const emu_request_t *r, uint32_t lane) {
  const emu_launch_t *launch = w->block->launch;
  uint64_t address = (uint64_t)(uintptr_t)r->pointers[lane];
  emu_range_t found;
  const emu_range_t *range = r->range;
  if (!range) range = emu_memory_find(launch->memory, address, &found) ? &found : NULL;
  if (!range) return;
  if (judges_writing(launch, range)) check_written(w, i, range, lane, address, r->access);
  if (judges_blocks(launch, range)) check_blocks(w, i, range, lane, address - range->base, r->access);
}

void emu_check_access(emu_warp_t *w, const emu_inst_t *i, const emu_request_t *r) {
  if (r->space == EMU_SPACE_SHARED && w->block->shadow) check_shared(w, i, r);
  if (r->space == EMU_SPACE_GLOBAL) EMU_EACH_LANE(lane, w->mask) check_global(w, i, r, lane);
}

/* --- rows --- */

static bool check_global_row(emu_warp_t *w, const emu_inst_t *i, const emu_row_t *row) {
  const emu_launch_t *launch = w->worker->launch;
  const emu_range_t *range = &w->worker->ranges[i->target];
  bool writing = judges_writing(launch, range), reads = row->access == EMU_ACCESS_READ;
  if (writing && reads && !emu_range_is_written(range, row->address, row->bytes)) return false;
  if (judges_blocks(launch, range)) {
    if (row->address % 4 || row->bytes % 4) return false;
    uint64_t word = (row->address - range->base) / 4;
    uint32_t now = make_stamp(w->block, row->access, 15), *written = range->last_write + word,
             *read = range->last_read + word;
    if (!(reads ? w->worker->rows->block_reads(written, read, row->bytes / 4, now)
                : w->worker->rows->block_writes(written, read, row->bytes / 4, now)))
      return false;
  }
  if (writing && !reads) emu_range_mark_written(range, row->address, row->bytes);
  return true;
}

bool emu_check_row(emu_warp_t *w, const emu_inst_t *i, const emu_row_t *row) {
  if (i->space != EMU_SPACE_SHARED) return check_global_row(w, i, row);
  uint32_t offset = (uint32_t)row->address;
  return !w->block->shadow || !emu_shadow_pass(w, 1, &offset, row->bytes, row->access);
}
