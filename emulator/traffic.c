/* emulator/traffic.c: see traffic.h. Called for each global memory request while launches are counted. */
#include "emulator/traffic.h"

#include <stdlib.h>
#include <string.h>

static uint32_t first_slot(uint64_t page, uint32_t capacity) {
  return (uint32_t)(page * 0x9e3779b97f4a7c15ull >> 32) & (capacity - 1);
}

static uint32_t probe(const emu_page_sectors_t *slots, uint32_t capacity, uint64_t page) {
  uint32_t slot = first_slot(page, capacity);
  while (slots[slot].page && slots[slot].page != page) slot = (slot + 1) & (capacity - 1);
  return slot;
}

static bool grow(emu_sector_set_t *set) {
  uint32_t capacity = set->capacity ? 2 * set->capacity : 64;
  emu_page_sectors_t *slots = calloc(capacity, sizeof *slots);
  uint32_t *used = malloc(capacity * sizeof *used);
  if (!slots || !used) {
    free(slots);
    free(used);
    set->failed = true;
    return false;
  }
  for (uint32_t n = 0; n < set->count; n++) {
    const emu_page_sectors_t *old = &set->slots[set->used[n]];
    used[n] = probe(slots, capacity, old->page);
    slots[used[n]] = *old;
  }
  free(set->slots);
  free(set->used);
  set->slots = slots;
  set->used = used;
  set->capacity = capacity;
  set->last[0] = set->last[1] = 0;
  return true;
}

static emu_page_sectors_t *page_of(emu_sector_set_t *set, uint64_t page, bool write) {
  if (set->capacity && set->slots[set->last[write]].page == page) return &set->slots[set->last[write]];
  if (set->count * 2 >= set->capacity && !grow(set)) return NULL;
  uint32_t slot = probe(set->slots, set->capacity, page);
  if (!set->slots[slot].page) {
    set->slots[slot].page = page;
    set->used[set->count++] = slot;
  }
  set->last[write] = slot;
  return &set->slots[slot];
}

void emu_sectors_add(emu_sector_set_t *set, uint64_t address, uint32_t bytes, bool write) {
  emu_page_sectors_t *page = page_of(set, address / 4096 + 1, write);
  if (!page) return;
  uint64_t *bits = write ? page->written : page->read;
  uint32_t first = (uint32_t)(address % 4096) / EMU_SECTOR_BYTES;
  uint32_t last = (uint32_t)((address + bytes - 1) % 4096) / EMU_SECTOR_BYTES;
  uint64_t from_first = ~0ull << first % 64, to_last = ~0ull >> (63 - last % 64);
  if (first / 64 == last / 64) {
    bits[first / 64] |= from_first & to_last;
  } else {
    bits[0] |= from_first;
    bits[1] |= to_last;
  }
}

static uint64_t count_bits(const uint64_t bits[2]) {
  return (uint64_t)__builtin_popcountll(bits[0]) + (uint64_t)__builtin_popcountll(bits[1]);
}

void emu_sectors_count(const emu_sector_set_t *set, uint64_t *out_read, uint64_t *out_written) {
  *out_read = *out_written = 0;
  for (uint32_t n = 0; n < set->count; n++) {
    *out_read += count_bits(set->slots[set->used[n]].read);
    *out_written += count_bits(set->slots[set->used[n]].written);
  }
}

void emu_sectors_clear(emu_sector_set_t *set) {
  for (uint32_t n = 0; n < set->count; n++) memset(&set->slots[set->used[n]], 0, sizeof *set->slots);
  set->count = 0;
}

void emu_sectors_deinit(emu_sector_set_t *set) {
  free(set->slots);
  free(set->used);
}

static void start_common(emu_common_sectors_t *common, const emu_sector_set_t *block) {
  common->pages = malloc((block->count + 1) * sizeof *common->pages);
  if (!common->pages) {
    common->failed = true;
    return;
  }
  for (uint32_t n = 0; n < block->count; n++) {
    const emu_page_sectors_t *page = &block->slots[block->used[n]];
    if (page->read[0] | page->read[1]) common->pages[common->count++] = *page;
  }
}

/* Keeps of page n of `common` what `bits` has too; a page with nothing left is dropped. */
static bool intersect_page(emu_common_sectors_t *common, uint32_t n, const uint64_t *bits) {
  emu_page_sectors_t *page = &common->pages[n];
  page->read[0] &= bits ? bits[0] : 0;
  page->read[1] &= bits ? bits[1] : 0;
  if (page->read[0] | page->read[1]) return true;
  *page = common->pages[--common->count];
  return false;
}

void emu_common_add_block(emu_common_sectors_t *common, const emu_sector_set_t *block) {
  if (common->blocks++ == 0) {
    start_common(common, block);
    return;
  }
  for (uint32_t n = 0; n < common->count;) {
    const emu_page_sectors_t *other =
        block->count ? &block->slots[probe(block->slots, block->capacity, common->pages[n].page)] : NULL;
    if (intersect_page(common, n, other && other->page ? other->read : NULL)) n++;
  }
}

static int by_page(const void *a, const void *b) {
  uint64_t x = ((const emu_page_sectors_t *)a)->page, y = ((const emu_page_sectors_t *)b)->page;
  return x < y ? -1 : x > y;
}

void emu_common_merge(emu_common_sectors_t *common, const emu_common_sectors_t *other) {
  if (other->blocks == 0) return;
  if (common->blocks == 0) {
    common->pages = malloc((other->count + 1) * sizeof *common->pages);
    common->failed = !common->pages || other->failed;
    common->count = common->pages ? other->count : 0;
    if (common->count) memcpy(common->pages, other->pages, common->count * sizeof *common->pages);
    common->blocks = other->blocks;
    return;
  }
  common->blocks += other->blocks;
  if (other->count) qsort(other->pages, other->count, sizeof *other->pages, by_page);
  for (uint32_t n = 0; n < common->count;) {
    const emu_page_sectors_t *match =
        other->count ? bsearch(&common->pages[n], other->pages, other->count, sizeof *other->pages, by_page)
                     : NULL;
    if (intersect_page(common, n, match ? match->read : NULL)) n++;
  }
}

uint64_t emu_common_count(const emu_common_sectors_t *common) {
  uint64_t sectors = 0;
  for (uint32_t n = 0; n < common->count; n++) sectors += count_bits(common->pages[n].read);
  return sectors;
}

void emu_common_deinit(emu_common_sectors_t *common) { free(common->pages); }
