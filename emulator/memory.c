/* emulator/memory.c: see memory.h. Allocation is mmap, lookup is binary search. */
#include "emulator/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE_BYTES 4096u

void emu_memory_init(emu_memory_t *memory, uint64_t total_bytes) {
  memset(memory, 0, sizeof *memory);
  memory->total_bytes = total_bytes;
  pthread_mutex_init(&memory->lock, NULL);
}

static uint64_t mapped_bytes(uint64_t bytes) { return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES; }

static uint8_t *map_pages(uint64_t bytes) {
  void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return pages == MAP_FAILED ? NULL : pages;
}

/* The checkers' maps; a window of 64 bits or a word may begin in the last byte. */
static uint64_t written_bytes(const emu_range_t *range) { return mapped_bytes(range->bytes / 8 + 8); }
static uint64_t stamp_bytes(const emu_range_t *range) { return mapped_bytes((range->bytes / 4 + 1) * 4); }

static void unmap_range(const emu_range_t *range) {
  munmap((void *)(range->base - PAGE_BYTES), mapped_bytes(range->bytes) + 2 * PAGE_BYTES);
  if (range->written) munmap(range->written, written_bytes(range));
  if (range->last_write) munmap(range->last_write, 2 * stamp_bytes(range));
}

void emu_memory_deinit(emu_memory_t *memory) {
  for (size_t n = 0; n < memory->count; n++) unmap_range(&memory->ranges[n]);
  free(memory->ranges);
  pthread_mutex_destroy(&memory->lock);
}

/* The first range that begins above `address`; the one before it is the only one that may hold it. */
static size_t upper_bound(const emu_memory_t *memory, uint64_t address) {
  size_t low = 0, high = memory->count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (memory->ranges[middle].base > address)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

static bool insert_range(emu_memory_t *memory, emu_range_t range) {
  if (memory->count == memory->capacity) {
    size_t capacity = memory->capacity ? 2 * memory->capacity : 64;
    emu_range_t *ranges = realloc(memory->ranges, capacity * sizeof *ranges);
    if (!ranges) return false;
    memory->ranges = ranges;
    memory->capacity = capacity;
  }
  size_t place = upper_bound(memory, range.base);
  memmove(&memory->ranges[place + 1], &memory->ranges[place], (memory->count - place) * sizeof range);
  memory->ranges[place] = range;
  memory->count++;
  return true;
}

static bool map_range(emu_range_t *range, unsigned checks) {
  uint64_t bytes = mapped_bytes(range->bytes);
  uint8_t *pages = map_pages(bytes + 2 * PAGE_BYTES);
  if (!pages) return false;
  mprotect(pages, PAGE_BYTES, PROT_NONE);
  mprotect(pages + PAGE_BYTES + bytes, PAGE_BYTES, PROT_NONE);
  range->base = (uint64_t)(uintptr_t)pages + PAGE_BYTES;
  if (checks & KILN_EMU_CHECK_INIT) range->written = (uint64_t *)map_pages(written_bytes(range));
  if (checks & KILN_EMU_CHECK_RACE) range->last_write = (uint32_t *)map_pages(2 * stamp_bytes(range));
  if (range->last_write) range->last_read = range->last_write + stamp_bytes(range) / sizeof(uint32_t);
  if ((range->written || !(checks & KILN_EMU_CHECK_INIT)) &&
      (range->last_write || !(checks & KILN_EMU_CHECK_RACE)))
    return true;
  unmap_range(range);
  return false;
}

CUresult emu_memory_alloc(emu_memory_t *memory, size_t bytes, emu_allocation_t kind, uint64_t *out_address) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  bool on_host = kind == EMU_ON_HOST;
  emu_range_t range = {.bytes = bytes, .on_host = on_host, .of_module = kind == EMU_OF_MODULE};
  CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
  pthread_mutex_lock(&memory->lock);
  uint64_t free_bytes = memory->total_bytes - memory->used_bytes;
  if ((on_host || bytes <= free_bytes) && bytes <= memory->total_bytes &&
      map_range(&range, on_host ? 0 : memory->checks)) {
    if (insert_range(memory, range)) {
      if (!on_host) memory->used_bytes += mapped_bytes(bytes);
      if (memory->used_bytes > memory->total_bytes) memory->used_bytes = memory->total_bytes;
      *out_address = range.base;
      result = CUDA_SUCCESS;
    } else {
      unmap_range(&range);
    }
  }
  pthread_mutex_unlock(&memory->lock);
  return result;
}

static void remember_freed(emu_memory_t *memory, emu_range_t range) {
  range.written = NULL;
  range.last_write = range.last_read = NULL;
  memory->freed[memory->freed_count++ % EMU_FREED_KEPT] = range;
}

CUresult emu_memory_free(emu_memory_t *memory, uint64_t address, emu_allocation_t kind) {
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&memory->lock);
  size_t place = upper_bound(memory, address);
  emu_range_t *range = place ? &memory->ranges[place - 1] : NULL;
  if (range && range->base == address && range->on_host == (kind == EMU_ON_HOST) &&
      range->of_module == (kind == EMU_OF_MODULE)) {
    uint64_t pages = mapped_bytes(range->bytes);
    if (!range->on_host) memory->used_bytes -= pages < memory->used_bytes ? pages : memory->used_bytes;
    remember_freed(memory, *range);
    unmap_range(range);
    memmove(range, range + 1, (memory->count - place) * sizeof *range);
    memory->count--;
    result = CUDA_SUCCESS;
  }
  pthread_mutex_unlock(&memory->lock);
  return result;
}

bool emu_memory_find(emu_memory_t *memory, uint64_t address, emu_range_t *out_range) {
  pthread_mutex_lock(&memory->lock);
  size_t place = upper_bound(memory, address);
  bool found = place && address - memory->ranges[place - 1].base < memory->ranges[place - 1].bytes;
  if (found) *out_range = memory->ranges[place - 1];
  pthread_mutex_unlock(&memory->lock);
  return found;
}

bool emu_memory_covers(emu_memory_t *memory, uint64_t address, uint64_t bytes, emu_range_t *out_range) {
  return emu_memory_find(memory, address, out_range) &&
         bytes <= out_range->bytes - (address - out_range->base);
}

static bool describe_freed(const emu_memory_t *memory, uint64_t address, char *text, size_t capacity) {
  size_t kept = memory->freed_count < EMU_FREED_KEPT ? memory->freed_count : EMU_FREED_KEPT;
  for (size_t n = 0; n < kept; n++) {
    const emu_range_t *range = &memory->freed[(memory->freed_count - 1 - n) % EMU_FREED_KEPT];
    if (address - range->base >= range->bytes) continue;
    snprintf(text, capacity, "%" PRIu64 " bytes into an allocation of %" PRIu64 " bytes that was freed",
             address - range->base, range->bytes);
    return true;
  }
  return false;
}

static void describe_neighbours(const emu_memory_t *memory, uint64_t address, char *text, size_t capacity) {
  size_t place = upper_bound(memory, address);
  const emu_range_t *below = place ? &memory->ranges[place - 1] : NULL;
  const emu_range_t *above = place < memory->count ? &memory->ranges[place] : NULL;
  uint64_t past = below ? address - (below->base + below->bytes) : UINT64_MAX;
  uint64_t before = above ? above->base - address : UINT64_MAX;
  if (below && address - below->base < below->bytes)
    snprintf(text, capacity, "reaches past the end of an allocation of %" PRIu64 " bytes, at %" PRIu64,
             below->bytes, address - below->base);
  else if (below && past <= before)
    snprintf(text, capacity, "%" PRIu64 " bytes past the end of an allocation of %" PRIu64 " bytes", past,
             below->bytes);
  else if (above)
    snprintf(text, capacity, "%" PRIu64 " bytes before an allocation of %" PRIu64 " bytes", before,
             above->bytes);
  else
    snprintf(text, capacity, "nothing is allocated");
}

void emu_memory_describe(emu_memory_t *memory, uint64_t address, char *text, size_t capacity) {
  emu_range_t ignored;
  bool live = emu_memory_find(memory, address, &ignored);
  pthread_mutex_lock(&memory->lock);
  if (live || !describe_freed(memory, address, text, capacity))
    describe_neighbours(memory, address, text, capacity);
  pthread_mutex_unlock(&memory->lock);
}

size_t emu_memory_live(emu_memory_t *memory, uint64_t *out_bytes) {
  size_t live = 0;
  *out_bytes = 0;
  pthread_mutex_lock(&memory->lock);
  for (size_t n = 0; n < memory->count; n++) {
    if (memory->ranges[n].on_host || memory->ranges[n].of_module) continue;
    live++;
    *out_bytes += memory->ranges[n].bytes;
  }
  pthread_mutex_unlock(&memory->lock);
  return live;
}

void emu_memory_forget(emu_memory_t *memory) {
  pthread_mutex_lock(&memory->lock);
  for (size_t n = 0; n < memory->count; n++) {
    const emu_range_t *range = &memory->ranges[n];
    if (range->last_write) madvise(range->last_write, 2 * stamp_bytes(range), MADV_DONTNEED);
  }
  pthread_mutex_unlock(&memory->lock);
}

/* The bits of [first, end) that lie in the word of `first`. */
static uint64_t bits_in_word(uint64_t first, uint64_t end) {
  uint64_t bits = ~0ull << first % 64;
  return end - first < 64 - first % 64 ? bits & ~(~0ull << end % 64) : bits;
}

/* Bits are set and read atomically: blocks on several threads share the words of the map. */
void emu_range_mark_written(const emu_range_t *range, uint64_t address, uint64_t bytes) {
  uint64_t first = address - range->base, end = first + bytes;
  for (; first < end; first = (first / 64 + 1) * 64) {
    uint64_t *word = &range->written[first / 64], bits = bits_in_word(first, end);
    if (bits == ~0ull)
      __atomic_store_n(word, bits, __ATOMIC_RELAXED);
    else if (bits & ~__atomic_load_n(word, __ATOMIC_RELAXED))
      __atomic_fetch_or(word, bits, __ATOMIC_RELAXED);
  }
}

bool emu_range_is_written(const emu_range_t *range, uint64_t address, uint64_t bytes) {
  uint64_t first = address - range->base, end = first + bytes;
  for (; first < end; first = (first / 64 + 1) * 64)
    if (bits_in_word(first, end) & ~__atomic_load_n(&range->written[first / 64], __ATOMIC_RELAXED))
      return false;
  return true;
}
