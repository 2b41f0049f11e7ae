/* emulator/exec_memory.c: loads, stores and address conversions in every state space.
 *
 * One request: (1) compute the lanes' addresses, (2) find the memory they lie in, checking bounds and
 * alignment, (3) count sectors, (4) move the bytes. Addresses of a warp usually lie in one allocation, so (2)
 * is a compare of their lowest and highest with the range that the instruction used last. See ops.h for who
 * calls these.
 */
#include "emulator/exec_memory.h"

#include "emulator/checks.h"
#include "emulator/ops.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const space_names[] = {"generic", "global", "shared", "local", "parameter"};

const emu_inst_t *emu_bad_access(emu_warp_t *w, const emu_inst_t *i, uint32_t lane, uint64_t address,
                                 emu_space_t space, uint32_t bytes, emu_access_t access) {
  char where[160] = "";
  static const char *const verbs[] = {"read", "write", "atomic"};
  const char *verb = verbs[access];
  if (address % bytes)
    return emu_fault(w, i, lane, CUDA_ERROR_MISALIGNED_ADDRESS,
                     "misaligned %s of %u bytes at %s address 0x%" PRIx64, verb, bytes, space_names[space],
                     address);
  if (space == EMU_SPACE_GLOBAL) emu_memory_describe(w->block->launch->memory, address, where, sizeof where);
  if (space == EMU_SPACE_SHARED)
    snprintf(where, sizeof where, "the block has %u bytes",
             w->block->launch->kernel->shared_bytes + w->block->launch->dynamic_shared_bytes);
  if (space == EMU_SPACE_LOCAL)
    snprintf(where, sizeof where, "the thread has %u bytes", w->block->launch->kernel->local_bytes);
  return emu_fault(w, i, lane, CUDA_ERROR_ILLEGAL_ADDRESS,
                   "invalid %s of %u bytes at %s address 0x%" PRIx64 ": %s", verb, bytes, space_names[space],
                   address, where);
}

/* The space of a generic address; the address becomes one of that space. */
static emu_space_t space_of(uint64_t *address) {
  if (*address - EMU_SHARED_WINDOW < EMU_WINDOW_BYTES) {
    *address -= EMU_SHARED_WINDOW;
    return EMU_SPACE_SHARED;
  }
  if (*address - EMU_LOCAL_WINDOW < EMU_WINDOW_BYTES) {
    *address -= EMU_LOCAL_WINDOW;
    return EMU_SPACE_LOCAL;
  }
  return EMU_SPACE_GLOBAL;
}

/* Finds the allocation of a global access in the worker's cache or the table of allocations. */
static const emu_range_t *range_of(emu_warp_t *w, const emu_inst_t *i, uint64_t address, uint64_t bytes) {
  emu_range_t *range = &w->worker->ranges[i->target];
  if (address - range->base < range->bytes && bytes <= range->bytes - (address - range->base)) return range;
  emu_range_t found;
  if (!emu_memory_covers(w->block->launch->memory, address, bytes, &found)) return NULL;
  *range = found;
  return range;
}

unsigned char *emu_lane_memory(emu_warp_t *w, const emu_inst_t *i, uint32_t lane, uint64_t address,
                               uint32_t bytes, emu_space_t *space) {
  if (*space == EMU_SPACE_GENERIC) *space = space_of(&address);
  const emu_block_t *block = w->block;
  const emu_kernel_t *kernel = block->launch->kernel;
  uint64_t limit;
  unsigned char *base;
  switch (*space) {
  case EMU_SPACE_SHARED:
    limit = kernel->shared_bytes + block->launch->dynamic_shared_bytes;
    base = block->shared;
    break;
  case EMU_SPACE_LOCAL:
    limit = kernel->local_bytes;
    base = block->local + (size_t)(w->index * 32 + lane) * kernel->local_bytes;
    break;
  case EMU_SPACE_PARAM:
    limit = kernel->param_bytes;
    base = block->launch->params;
    break;
  default:
    if (address % bytes || !range_of(w, i, address, bytes)) return NULL;
    return (unsigned char *)(uintptr_t)address;
  }
  if (address % bytes || bytes > limit || address > limit - bytes) return NULL;
  return base + address;
}

/* (1) */
static void lane_addresses(emu_warp_t *w, const emu_inst_t *i, uint32_t operand, uint64_t *addresses) {
  if (i->width == 8) {
    const uint64_t *a = emu_u64(w, operand);
    for (uint32_t lane = 0; lane < 32; lane++) addresses[lane] = a[lane] + (uint64_t)i->offset;
  } else {
    const uint32_t *a = emu_u32(w, operand);
    for (uint32_t lane = 0; lane < 32; lane++) addresses[lane] = (uint32_t)(a[lane] + (uint32_t)i->offset);
  }
}

/* (2) Pointers for the active lanes; NULL after a fault. */
static bool lane_pointers(emu_warp_t *w, const emu_inst_t *i, emu_request_t *r) {
  uint32_t bytes = i->bytes * i->vector;
  uint64_t low = UINT64_MAX, high = 0, misaligned = 0;
  r->space = i->space;
  EMU_EACH_LANE(lane, w->mask) {
    uint64_t address = r->addresses[lane];
    misaligned |= address;
    low = address < low ? address : low;
    high = address > high ? address : high;
  }
  bool global = i->space == EMU_SPACE_GLOBAL || (i->space == EMU_SPACE_GENERIC && high < EMU_SHARED_WINDOW);
  r->range = NULL;
  if (global && !(misaligned & (bytes - 1)) && (r->range = range_of(w, i, low, high - low + bytes))) {
    r->space = EMU_SPACE_GLOBAL;
    for (uint32_t lane = 0; lane < 32; lane++)
      r->pointers[lane] = (unsigned char *)(uintptr_t)r->addresses[lane];
    return true;
  }
  EMU_EACH_LANE(lane, w->mask) {
    emu_space_t space = i->space;
    r->pointers[lane] = emu_lane_memory(w, i, lane, r->addresses[lane], bytes, &space);
    r->space = space;
    if (r->pointers[lane]) continue;
    uint64_t address = r->addresses[lane];
    if (i->space == EMU_SPACE_GENERIC) space_of(&address);
    emu_bad_access(w, i, lane, address, space, bytes, r->access);
    return false;
  }
  return true;
}

/* (3) Sectors of a request, distinct within it: lanes next to each other usually share or follow each
 * other's. */
static void count_global(emu_warp_t *w, const emu_inst_t *i, const emu_request_t *r) {
  uint32_t bytes = i->bytes * i->vector, count = 0;
  uint64_t seen[32];
  EMU_EACH_LANE(lane, w->mask) {
    uint64_t sector = r->addresses[lane] / EMU_SECTOR_BYTES;
    uint32_t n = count;
    while (n && seen[n - 1] != sector) n--;
    if (n) continue;
    seen[count++] = sector;
    emu_sectors_add(&w->block->sectors, r->addresses[lane], bytes, r->access != EMU_ACCESS_READ);
  }
  kiln_emu_counters_t *counters = &w->worker->counters;
  *(r->access ? &counters->global_store_requests : &counters->global_load_requests) += 1;
  *(r->access ? &counters->global_store_sectors : &counters->global_load_sectors) += count;
}

/* Passes over the 32 banks of 4 bytes: lanes conflict when they want different words of one bank. Accesses of
 * 8 and 16 bytes go in 2 and 4 parts of lanes. */
static uint32_t wavefronts(const emu_request_t *r, uint32_t mask, uint32_t bytes) {
  uint32_t parts = bytes <= 4 ? 1 : bytes / 4, total = 0;
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

static void count_request(emu_warp_t *w, const emu_inst_t *i, const emu_request_t *r) {
  kiln_emu_counters_t *counters = &w->worker->counters;
  uint32_t bytes = i->bytes * i->vector;
  switch (r->space) {
  case EMU_SPACE_GLOBAL:
    count_global(w, i, r);
    break;
  case EMU_SPACE_SHARED:
    *(r->access ? &counters->shared_store_requests : &counters->shared_load_requests) += 1;
    counters->shared_wavefronts += wavefronts(r, w->mask, bytes);
    break;
  case EMU_SPACE_LOCAL:
    *(r->access ? &counters->local_store_requests : &counters->local_load_requests) += 1;
    counters->local_bytes += bytes * (uint64_t)__builtin_popcount(w->mask);
    break;
  default:
    break;
  }
}

bool emu_request(emu_warp_t *w, const emu_inst_t *i, uint32_t operand, emu_access_t access,
                 emu_request_t *r) {
  r->access = access;
  lane_addresses(w, i, operand, r->addresses);
  if (!lane_pointers(w, i, r)) return false;
  if (w->block->launch->counting) count_request(w, i, r);
  if (w->block->launch->checks) emu_check_access(w, i, r);
  return true;
}

/* One element for a lane: relaxed atomic, so that lanes on other threads see whole values and sanitizers
 * know. */
static inline uint64_t load_element(const unsigned char *p, uint32_t bytes, bool is_signed) {
  switch (bytes) {
  case 1: {
    uint8_t v = __atomic_load_n(p, __ATOMIC_RELAXED);
    return is_signed ? (uint64_t)(int8_t)v : v;
  }
  case 2: {
    uint16_t v = __atomic_load_n((const uint16_t *)p, __ATOMIC_RELAXED);
    return is_signed ? (uint64_t)(int16_t)v : v;
  }
  case 4:
    return __atomic_load_n((const uint32_t *)p, __ATOMIC_RELAXED);
  default:
    return __atomic_load_n((const uint64_t *)p, __ATOMIC_RELAXED);
  }
}
static inline void store_element(unsigned char *p, uint32_t bytes, uint64_t value) {
  switch (bytes) {
  case 1:
    __atomic_store_n(p, (uint8_t)value, __ATOMIC_RELAXED);
    break;
  case 2:
    __atomic_store_n((uint16_t *)p, (uint16_t)value, __ATOMIC_RELAXED);
    break;
  case 4:
    __atomic_store_n((uint32_t *)p, (uint32_t)value, __ATOMIC_RELAXED);
    break;
  default:
    __atomic_store_n((uint64_t *)p, value, __ATOMIC_RELAXED);
    break;
  }
}

/* args: results, address. bytes, vector: of the elements; width: of the address. Elements go to lanes of 4
 * bytes, or of 8 where they have 8; signed ones are extended. */
const emu_inst_t *emu_exec_load(emu_warp_t *w, const emu_inst_t *i) {
  emu_request_t r;
  const uint32_t *args = i->args ? i->args : i->arg;
  if (i->strong) {
    atomic_store_explicit(&w->block->launch->waits, true, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
  }
  if (!emu_request(w, i, args[i->vector], EMU_ACCESS_READ, &r)) return NULL;
  for (uint32_t n = 0; n < i->vector; n++) {
    if (i->bytes == 8) {
      uint64_t *d = emu_u64(w, args[n]);
      EMU_EACH_LANE(lane, w->mask) d[lane] = load_element(r.pointers[lane] + 8 * n, 8, false);
    } else if (i->bytes == 4) {
      uint32_t *d = emu_u32(w, args[n]);
      EMU_EACH_LANE(lane, w->mask) d[lane] = (uint32_t)load_element(r.pointers[lane] + 4 * n, 4, false);
    } else {
      uint32_t *d = emu_u32(w, args[n]);
      EMU_EACH_LANE(lane, w->mask)
      d[lane] = (uint32_t)load_element(r.pointers[lane] + i->bytes * n, i->bytes, i->is_signed);
    }
  }
  return i + 1;
}

/* args: results. A kernel's parameters are the same for all threads. offset: into the parameters, checked at
 * decoding. */
const emu_inst_t *emu_exec_load_param(emu_warp_t *w, const emu_inst_t *i) {
  const uint32_t *args = i->args ? i->args : i->arg;
  for (uint32_t n = 0; n < i->vector; n++) {
    uint64_t value =
        load_element(w->block->launch->params + i->offset + n * i->bytes, i->bytes, i->is_signed);
    if (i->bytes == 8)
      EMU_EACH_LANE(lane, w->mask) emu_u64(w, args[n])[lane] = value;
    else
      EMU_EACH_LANE(lane, w->mask) emu_u32(w, args[n])[lane] = (uint32_t)value;
  }
  return i + 1;
}

/* args: address, values. */
const emu_inst_t *emu_exec_store(emu_warp_t *w, const emu_inst_t *i) {
  emu_request_t r;
  const uint32_t *args = i->args ? i->args : i->arg;
  if (!emu_request(w, i, args[0], EMU_ACCESS_WRITE, &r)) return NULL;
  for (uint32_t n = 0; n < i->vector; n++) {
    if (i->bytes == 8) {
      const uint64_t *a = emu_u64(w, args[n + 1]);
      EMU_EACH_LANE(lane, w->mask) store_element(r.pointers[lane] + 8 * n, 8, a[lane]);
    } else {
      const uint32_t *a = emu_u32(w, args[n + 1]);
      EMU_EACH_LANE(lane, w->mask) store_element(r.pointers[lane] + i->bytes * n, i->bytes, a[lane]);
    }
  }
  if (i->strong) atomic_thread_fence(memory_order_seq_cst);
  return i + 1;
}

/* offset: destination, target: source, arg 0: bytes; all offsets into the thread's local memory. */
const emu_inst_t *emu_exec_copy_local(emu_warp_t *w, const emu_inst_t *i) {
  uint32_t local_bytes = w->block->launch->kernel->local_bytes;
  EMU_EACH_LANE(lane, w->mask) {
    unsigned char *local = w->block->local + (size_t)(w->index * 32 + lane) * local_bytes;
    memmove(local + i->offset, local + i->target, i->arg[0]);
  }
  return i + 1;
}

static uint64_t window_of(emu_space_t space) {
  return space == EMU_SPACE_SHARED ? EMU_SHARED_WINDOW : space == EMU_SPACE_LOCAL ? EMU_LOCAL_WINDOW : 0;
}

const emu_inst_t *emu_exec_to_generic(emu_warp_t *w, const emu_inst_t *i) {
  const uint64_t *a = emu_u64(w, i->arg[1]);
  uint64_t *d = emu_u64(w, i->arg[0]), window = window_of(i->space);
  EMU_EACH_LANE(lane, w->mask) d[lane] = a[lane] + window;
  return i + 1;
}

const emu_inst_t *emu_exec_from_generic(emu_warp_t *w, const emu_inst_t *i) {
  const uint64_t *a = emu_u64(w, i->arg[1]);
  uint64_t *d = emu_u64(w, i->arg[0]), window = window_of(i->space);
  EMU_EACH_LANE(lane, w->mask) d[lane] = a[lane] - window;
  return i + 1;
}

const emu_inst_t *emu_exec_is_space(emu_warp_t *w, const emu_inst_t *i) {
  const uint64_t *a = emu_u64(w, i->arg[1]);
  uint32_t *p = emu_u32(w, i->arg[0]);
  EMU_EACH_LANE(lane, w->mask) {
    uint64_t address = a[lane];
    *p = (*p & ~(1u << lane)) | (uint32_t)(space_of(&address) == i->space) << lane;
  }
  return i + 1;
}
