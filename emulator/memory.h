/* emulator/memory.h: the memory of the emulated device: allocations, and what each address belongs to.
 *
 * A device address is the host address of the byte that stands for it (always above 2^32), so that a checked
 * access needs no translation. Every allocation is a mapping of its own between guard pages, committed page
 * by page as it is touched: a sparse allocation of many GiB costs nothing. The table of allocations is sorted
 * and locked; running kernels look an address up once per memory instruction and keep the answer in their
 * worker (an allocation cannot go away under a kernel, because freeing waits for the device to be idle).
 * Thread: any.
 */
#ifndef KILN_EMULATOR_MEMORY_H
#define KILN_EMULATOR_MEMORY_H

#include "base/cuda_abi.h"

#include <pthread.h>
#include <stdbool.h>

/* The race checker's stamp of an access to a word of 4 bytes: the launch, whether atomic, which bytes, the
 * block or, all ones, several. Numbers of launches and blocks are cut to fit: launches repeat after 1,023,
 * long before which their stamps are gone (emu_memory_forget); blocks repeat after 131,071, and two that have
 * one number are not told apart. */
#define EMU_BLOCK_STAMP_LAUNCH (1023u << 22)
#define EMU_BLOCK_STAMP_ATOMIC (1u << 21)
#define EMU_BLOCK_STAMP_BYTES (15u << 17)
#define EMU_BLOCK_STAMP_BLOCK ((1u << 17) - 1)
#define EMU_BLOCK_STAMP_LAUNCHES 1023u

typedef struct {
  uint64_t base, bytes;
  uint64_t *written;    /* init checker: one bit per byte; NULL when it was off at allocation */
  uint32_t *last_write; /* race checker: a stamp per word; NULL when it was off */
  uint32_t *last_read;
  bool on_host;   /* pinned host memory, which kernels may reach */
  bool of_module; /* a module's variables; not freed by cuMemFree */
} emu_range_t;

#define EMU_FREED_KEPT 64

typedef struct {
  pthread_mutex_t lock;
  emu_range_t *ranges; /* sorted by base */
  size_t count, capacity;
  unsigned checks; /* KILN_EMU_CHECK_* for allocations made from now on */
  uint64_t used_bytes, total_bytes;
  emu_range_t freed[EMU_FREED_KEPT]; /* the last ones, to name a use after free */
  size_t freed_count;
} emu_memory_t;

typedef enum { EMU_ON_DEVICE, EMU_ON_HOST, EMU_OF_MODULE } emu_allocation_t;

void emu_memory_init(emu_memory_t *memory, uint64_t total_bytes);
void emu_memory_deinit(emu_memory_t *memory); /* frees what is left */

/* INVALID_VALUE for no bytes, OUT_OF_MEMORY past the modelled device's size. The bytes read as zero until
 * written. */
CUresult emu_memory_alloc(emu_memory_t *memory, size_t bytes, emu_allocation_t kind, uint64_t *out_address);
/* INVALID_VALUE unless `address` is the start of an allocation of that kind. */
CUresult emu_memory_free(emu_memory_t *memory, uint64_t address, emu_allocation_t kind);

/* The allocation that `address` lies in. */
bool emu_memory_find(emu_memory_t *memory, uint64_t address, emu_range_t *out_range);
/* Whether all of [address, address + bytes) lies in one allocation. */
bool emu_memory_covers(emu_memory_t *memory, uint64_t address, uint64_t bytes, emu_range_t *out_range);
/* Writes what is known of a wild address: what it is past, before or was freed from. */
void emu_memory_describe(emu_memory_t *memory, uint64_t address, char *text, size_t capacity);
/* Device allocations alive, and their bytes. */
size_t emu_memory_live(emu_memory_t *memory, uint64_t *out_bytes);

/* Drops the stamps of all allocations: for each EMU_LAUNCHES_REMEMBERED-th launch. */
#define EMU_LAUNCHES_REMEMBERED 512
void emu_memory_forget(emu_memory_t *memory);

void emu_range_mark_written(const emu_range_t *range, uint64_t address, uint64_t bytes);
bool emu_range_is_written(const emu_range_t *range, uint64_t address, uint64_t bytes);

#endif
