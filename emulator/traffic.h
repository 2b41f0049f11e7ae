/* emulator/traffic.h: which 32-byte sectors of global memory a block touched, for the count of bytes moved.
 *
 * A GPU reads a sector once per block at best and then finds it in a cache, so the bytes that a kernel moves
 * are counted as distinct sectors per block, summed over blocks; sectors that every block reads (a weight, a
 * table) are counted once per launch. A set is a hash table of 4 KiB pages with a bitmap of sectors each; its
 * memory is used again for the next block. Thread: a set belongs to one worker at a time.
 */
#ifndef KILN_EMULATOR_TRAFFIC_H
#define KILN_EMULATOR_TRAFFIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EMU_SECTOR_BYTES 32u
#define EMU_PAGE_SECTORS 128u

typedef struct {
  uint64_t page; /* address / 4096, plus 1; 0 marks a free slot */
  uint64_t read[2], written[2];
} emu_page_sectors_t;

typedef struct {
  emu_page_sectors_t *slots;
  uint32_t *used; /* occupied slots, in order of arrival */
  uint32_t count, capacity;
  uint32_t last[2]; /* slot that a read, a write found last */
  bool failed;      /* memory was short: counts are too low */
} emu_sector_set_t;

/* Sectors that all blocks so far have read. */
typedef struct {
  emu_page_sectors_t *pages; /* `read` only */
  uint32_t count;
  uint64_t blocks;
  bool failed;
} emu_common_sectors_t;

/* Adds the sectors of [address, address + bytes), which lies in one page. */
void emu_sectors_add(emu_sector_set_t *set, uint64_t address, uint32_t bytes, bool write);
void emu_sectors_count(const emu_sector_set_t *set, uint64_t *out_read, uint64_t *out_written);
void emu_sectors_clear(emu_sector_set_t *set);
void emu_sectors_deinit(emu_sector_set_t *set);

/* Intersects with the sectors that one more block read. */
void emu_common_add_block(emu_common_sectors_t *common, const emu_sector_set_t *block);
/* Intersects with what another worker has. */
void emu_common_merge(emu_common_sectors_t *common, const emu_common_sectors_t *other);
uint64_t emu_common_count(const emu_common_sectors_t *common);
void emu_common_deinit(emu_common_sectors_t *common);

#endif
