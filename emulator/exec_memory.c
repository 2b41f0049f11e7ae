/* emulator/exec_memory.c: loads, stores and address conversions in every state space.
 *
 * One request: (1) compute the lanes' addresses, (2) find the memory they lie in, checking bounds and
 * alignment, (3) count sectors, (4) move the bytes. Addresses of a warp usually lie in one allocation, so (2)
 * is a compare of their lowest and highest with the range that the instruction used last. See ops.h for who
 * calls these.
 */
#include "emulator/exec_memory.h"

#include "emulator/checks.h"
#include "emulator/lanes.h"
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
  if (*address - EMU_PARAM_WINDOW < EMU_WINDOW_BYTES) {
    *address -= EMU_PARAM_WINDOW;
    return EMU_SPACE_PARAM;
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

/* (2), lane by lane, with faults. */
static bool resolve_lanes(emu_warp_t *w, const emu_inst_t *i, emu_request_t *r) {
  uint32_t bytes = i->bytes * i->vector;
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

/* (2) Pointers for the active lanes; false after a fault. */
static bool resolve(emu_warp_t *w, const emu_inst_t *i, emu_request_t *r) {
  uint32_t bytes = i->bytes * i->vector;
  uint64_t base = 0;
  r->range = NULL;
  r->space = i->space;
  bool plain = !(r->bits & (bytes - 1)) && r->low <= r->high;
  if (i->space == EMU_SPACE_GLOBAL || (i->space == EMU_SPACE_GENERIC && r->high < EMU_SHARED_WINDOW)) {
    if (!plain || !(r->range = range_of(w, i, r->low, r->high - r->low + bytes)))
      return resolve_lanes(w, i, r);
    r->space = EMU_SPACE_GLOBAL;
  } else if (i->space == EMU_SPACE_SHARED) {
    uint64_t limit = w->worker->shared_bytes;
    if (!plain || bytes > limit || r->high > limit - bytes) return resolve_lanes(w, i, r);
    base = (uint64_t)(uintptr_t)w->block->shared;
  } else {
    r->pattern = EMU_PATTERN_ANY; /* each lane has memory of its own */
    return resolve_lanes(w, i, r);
  }
  for (uint32_t lane = 0; lane < 32; lane++)
    r->pointers[lane] = (unsigned char *)(uintptr_t)(base + r->addresses[lane]);
  return true;
}

bool emu_request(emu_warp_t *w, const emu_inst_t *i, uint32_t operand, emu_access_t access,
                 emu_request_t *r) {
  r->access = access;
  w->worker->rows->survey(w, i, operand, r); /* (1) */
  if (!resolve(w, i, r)) return false;
  if (w->block->launch->counting) emu_count_request(w, i, r); /* (3) */
  if (w->block->launch->checks) emu_check_access(w, i, r);
  return true;
}

bool emu_watch_row(emu_warp_t *w, const emu_inst_t *i, const emu_row_t *row) {
  const emu_launch_t *launch = w->worker->launch;
  if (launch->checks && !emu_check_row(w, i, row)) return false;
  if (launch->counting) emu_count_row(w, i, row);
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

/* One element of every active lane into, or out of, a frame vector. */
static void load_lanes(const emu_inst_t *i, const emu_request_t *r, uint32_t mask, uint32_t n, void *to) {
  uint32_t *narrow = to, at = n * i->bytes;
  uint64_t *wide = to;
  if (i->bytes == 8)
    EMU_EACH_LANE(lane, mask) wide[lane] = load_element(r->pointers[lane] + at, 8, false);
  else if (i->bytes == 4)
    EMU_EACH_LANE(lane, mask) narrow[lane] = (uint32_t)load_element(r->pointers[lane] + at, 4, false);
  else
    EMU_EACH_LANE(lane, mask)
  narrow[lane] = (uint32_t)load_element(r->pointers[lane] + at, i->bytes, i->is_signed);
}
static void store_lanes(const emu_inst_t *i, const emu_request_t *r, uint32_t mask, uint32_t n,
                        const void *from) {
  const uint32_t *narrow = from;
  const uint64_t *wide = from;
  uint32_t at = n * i->bytes;
  if (i->bytes == 8)
    EMU_EACH_LANE(lane, mask) store_element(r->pointers[lane] + at, 8, wide[lane]);
  else if (i->bytes == 4)
    EMU_EACH_LANE(lane, mask) store_element(r->pointers[lane] + at, 4, narrow[lane]);
  else
    EMU_EACH_LANE(lane, mask) store_element(r->pointers[lane] + at, i->bytes, narrow[lane]);
}

/* args: results, address. bytes, vector: of the elements; width: of the address. Elements go to lanes of 4
 * bytes, or of 8 where they have 8; signed ones are extended. */
const emu_inst_t *emu_exec_load(emu_warp_t *w, const emu_inst_t *i) {
  emu_request_t r;
  const uint32_t *args = i->args;
  if (i->strong) {
    atomic_store_explicit(&w->block->launch->waits, true, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
  }
  if (!emu_request(w, i, args[i->vector], EMU_ACCESS_READ, &r)) return NULL;
  for (uint32_t n = 0; n < i->vector; n++) load_lanes(i, &r, w->mask, n, w->frame + args[n]);
  return i + 1;
}

/* args: results. A kernel's parameters are the same for all threads. offset: into the parameters, checked at
 * decoding. */
const emu_inst_t *emu_exec_load_param(emu_warp_t *w, const emu_inst_t *i) {
  const uint32_t *args = i->args;
  bool all = w->mask == ~0u;
  for (uint32_t n = 0; n < i->vector; n++) {
    uint64_t value =
        load_element(w->block->launch->params + i->offset + n * i->bytes, i->bytes, i->is_signed);
    uint64_t *wide = emu_u64(w, args[n]);
    uint32_t *narrow = emu_u32(w, args[n]);
    if (i->bytes == 8) {
      for (uint32_t lane = 0; lane < 32; lane++)
        if (all || w->mask >> lane & 1) wide[lane] = value;
    } else {
      for (uint32_t lane = 0; lane < 32; lane++)
        if (all || w->mask >> lane & 1) narrow[lane] = (uint32_t)value;
    }
  }
  return i + 1;
}

/* args: address, values. */
const emu_inst_t *emu_exec_store(emu_warp_t *w, const emu_inst_t *i) {
  emu_request_t r;
  const uint32_t *args = i->args;
  if (!emu_request(w, i, args[0], EMU_ACCESS_WRITE, &r)) return NULL;
  for (uint32_t n = 0; n < i->vector; n++) store_lanes(i, &r, w->mask, n, w->frame + args[n + 1]);
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
  static const uint64_t windows[] = {[EMU_SPACE_SHARED] = EMU_SHARED_WINDOW,
                                     [EMU_SPACE_LOCAL] = EMU_LOCAL_WINDOW,
                                     [EMU_SPACE_PARAM] = EMU_PARAM_WINDOW};
  return windows[space];
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

/* Kernel parameters lie in global memory, too. */
const emu_inst_t *emu_exec_is_space(emu_warp_t *w, const emu_inst_t *i) {
  const uint64_t *a = emu_u64(w, i->arg[1]);
  uint32_t *p = emu_u32(w, i->arg[0]);
  EMU_EACH_LANE(lane, w->mask) {
    uint64_t address = a[lane];
    emu_space_t space = space_of(&address);
    bool inside = space == i->space || (space == EMU_SPACE_PARAM && i->space == EMU_SPACE_GLOBAL);
    *p = (*p & ~(1u << lane)) | (uint32_t)inside << lane;
  }
  return i + 1;
}
