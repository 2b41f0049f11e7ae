/* emulator/exec_traffic.c: what one memory request of a warp adds to the counters: sectors, wavefronts,
 * bytes.
 *
 * Called by exec_memory.c for each request while launches are counted. Thread: the worker that owns the
 * block.
 */
#include "emulator/exec_memory.h"

/* Bytes behind each other: at most two pages, all sectors from the first byte to the last; gives their
 * number. */
static uint32_t count_run(emu_warp_t *w, uint64_t first, uint32_t bytes, bool write) {
  uint64_t end = first + bytes;
  uint64_t page_end = (first / 4096 + 1) * 4096, split = end < page_end ? end : page_end;
  emu_sectors_add(&w->block->sectors, first, (uint32_t)(split - first), write);
  if (split < end) emu_sectors_add(&w->block->sectors, split, (uint32_t)(end - split), write);
  return (uint32_t)((end - 1) / EMU_SECTOR_BYTES - first / EMU_SECTOR_BYTES + 1);
}

static void add_global(emu_warp_t *w, emu_access_t access, uint32_t sectors, uint32_t bytes) {
  kiln_emu_counters_t *counters = &w->worker->counters;
  *(access ? &counters->global_store_requests : &counters->global_load_requests) += 1;
  *(access ? &counters->global_store_sectors : &counters->global_load_sectors) += sectors;
  uint32_t lanes = emu_lane_count(w->mask);
  counters->global_accesses += lanes;
  counters->global_wide_accesses += bytes == 16 ? lanes : 0;
}

static void add_shared(emu_warp_t *w, emu_access_t access, uint32_t passes) {
  kiln_emu_counters_t *counters = &w->worker->counters;
  *(access ? &counters->shared_store_requests : &counters->shared_load_requests) += 1;
  counters->shared_wavefronts += passes;
}

/* Sectors of a request, distinct within it: lanes next to each other usually share or follow each
 * other's. */
static void count_global(emu_warp_t *w, const emu_inst_t *i, const emu_request_t *r) {
  uint32_t bytes = i->bytes * i->vector, count = 0;
  uint64_t seen[32];
  if (r->pattern == EMU_PATTERN_ROW)
    count = count_run(w, r->addresses[0], 32 * bytes, r->access != EMU_ACCESS_READ);
  else
    EMU_EACH_LANE(lane, w->mask) {
      uint64_t sector = r->addresses[lane] / EMU_SECTOR_BYTES;
      uint32_t n = count;
      while (n && seen[n - 1] != sector) n--;
      if (n) continue;
      seen[count++] = sector;
      emu_sectors_add(&w->block->sectors, r->addresses[lane], bytes, r->access != EMU_ACCESS_READ);
    }
  add_global(w, r->access, count, bytes);
}

/* Accesses of 8 and 16 bytes go in 2 and 4 parts of lanes. */
static uint32_t parts_of(uint32_t bytes) { return bytes <= 4 ? 1 : bytes / 4; }

/* Passes over the 32 banks of 4 bytes: lanes conflict when they want different words of one bank. */
static uint32_t wavefronts(const emu_request_t *r, uint32_t mask, uint32_t bytes) {
  uint32_t parts = parts_of(bytes), total = 0;
  if (r->pattern == EMU_PATTERN_ROW || r->pattern == EMU_PATTERN_SAME) return parts;
  for (uint32_t part = 0; part < parts; part++) {
    uint32_t lanes_per_part = 32 / parts;
    uint32_t lanes = mask & (parts == 1 ? ~0u : ((1u << lanes_per_part) - 1) << (part * lanes_per_part));
    uint64_t words[32][32];
    uint8_t used[32] = {0}, most = 0;
    EMU_EACH_LANE(lane, lanes) {
      for (uint32_t word = 0; word < (bytes + 3) / 4; word++) {
        uint64_t wanted = r->addresses[lane] / 4 + word;
        uint32_t bank = wanted % 32, n = 0;
        while (n < used[bank] && words[bank][n] != wanted) n++;
        if (n == used[bank]) words[bank][used[bank]++] = wanted;
        if (used[bank] > most) most = used[bank];
      }
    }
    total += most;
  }
  return total;
}

void emu_count_request(emu_warp_t *w, const emu_inst_t *i, const emu_request_t *r) {
  kiln_emu_counters_t *counters = &w->worker->counters;
  uint32_t bytes = i->bytes * i->vector;
  switch (r->space) {
  case EMU_SPACE_GLOBAL:
    count_global(w, i, r);
    break;
  case EMU_SPACE_SHARED:
    add_shared(w, r->access, wavefronts(r, w->mask, bytes));
    break;
  case EMU_SPACE_LOCAL:
    *(r->access ? &counters->local_store_requests : &counters->local_load_requests) += 1;
    counters->local_bytes += bytes * (uint64_t)__builtin_popcount(w->mask);
    break;
  default:
    break;
  }
}

void emu_count_row(emu_warp_t *w, const emu_inst_t *i, const emu_row_t *row) {
  uint32_t each = (uint32_t)i->bytes * i->vector;
  if (i->space == EMU_SPACE_SHARED)
    add_shared(w, row->access, parts_of(each));
  else
    add_global(w, row->access, count_run(w, row->address, row->bytes, row->access != EMU_ACCESS_READ), each);
}
