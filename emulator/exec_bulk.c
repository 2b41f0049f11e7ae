/* emulator/exec_bulk.c: bulk copies between global and shared memory (cp.async.bulk), and all work of the
 * asynchronous proxy that a block has pending.
 *
 * Like cp.async, a transfer happens as late as the program allows: when somebody asks the mbarrier that it
 * tells of its end, or waits for its bulk group, or when its thread, or its whole block, exits. A kernel that
 * does not wait sees what was there before. Bounds are checked, sectors counted and bytes marked as read and
 * written when the instruction is issued, 512 bytes to a request. See ops.h for who calls these.
 */
#include "emulator/checks.h"
#include "emulator/exec_memory.h"
#include "emulator/ops.h"

#include <stdlib.h>
#include <string.h>

#define GRAIN 16u /* bytes; sizes and addresses are multiples */

/* --- what is pending --- */

bool emu_transfer_add(emu_warp_t *w, emu_transfer_t transfer) {
  emu_block_t *block = w->block;
  if (block->transfer_count == block->transfer_capacity) {
    uint32_t capacity = block->transfer_capacity ? 2 * block->transfer_capacity : 16;
    emu_transfer_t *transfers = realloc(block->transfers, capacity * sizeof *transfers);
    if (!transfers) return false;
    block->transfers = transfers;
    block->transfer_capacity = capacity;
  }
  block->transfers[block->transfer_count++] = transfer;
  return true;
}

static bool is_shared(const emu_block_t *block, const unsigned char *p) {
  size_t bytes = (size_t)block->launch->kernel->shared_bytes + block->launch->dynamic_shared_bytes;
  return p >= block->shared && p < block->shared + bytes;
}

static void reduce(emu_block_t *block, const emu_transfer_t *t) {
  bool global = !is_shared(block, t->to);
  for (uint32_t at = 0; at < t->bytes; at += t->inst->bytes) {
    uint64_t value = 0;
    memcpy(&value, t->from + at, t->inst->bytes);
    emu_atomic_update(t->to + at, t->inst, value, 0, global);
  }
}

static void perform(emu_block_t *block, const emu_transfer_t *t) {
  if (t->kind == EMU_TRANSFER_ARRIVE) {
    emu_copies_finish_all(&block->warps[t->warp], 1u << t->lane);
    emu_mbarrier_arrive(t->barrier);
    return;
  }
  if (t->kind == EMU_TRANSFER_REDUCE)
    reduce(block, t);
  else if (t->bytes)
    memmove(t->to, t->from, t->bytes);
  if (t->barrier) emu_mbarrier_complete(t->barrier, t->bytes);
}

/* Performs, in order, and forgets those for which `wanted` holds. */
static void perform_wanted(emu_block_t *block, bool (*wanted)(const emu_transfer_t *t, const void *what),
                           const void *what) {
  uint32_t kept = 0;
  for (uint32_t n = 0; n < block->transfer_count; n++) {
    emu_transfer_t t = block->transfers[n];
    if (wanted(&t, what))
      perform(block, &t);
    else
      block->transfers[kept++] = t;
  }
  block->transfer_count = kept;
}

static bool tells(const emu_transfer_t *t, const void *barrier) { return t->barrier == barrier; }

void emu_transfers_of_barrier(emu_block_t *block, const unsigned char *barrier) {
  perform_wanted(block, tells, barrier);
}

typedef struct {
  const emu_warp_t *warp;
  uint32_t lanes, groups_left;
  bool uncommitted;
} groups_t;

static bool is_of_groups(const emu_transfer_t *t, const void *what) {
  const groups_t *groups = what;
  if (t->barrier || t->warp != groups->warp->index || !(groups->lanes >> t->lane & 1)) return false;
  return groups->uncommitted || t->group + groups->groups_left < groups->warp->bulk_group[t->lane];
}

static bool any(const emu_transfer_t *t, const void *what) {
  (void)t, (void)what;
  return true;
}

void emu_transfers_of_exit(emu_warp_t *w, uint32_t lanes) {
  groups_t groups = {.warp = w, .lanes = lanes, .uncommitted = true};
  perform_wanted(w->block, w->block->live_threads ? is_of_groups : any, &groups);
}

/* --- the instructions --- */

static uint64_t address_of(emu_warp_t *w, const emu_inst_t *i, uint32_t operand, uint32_t lane) {
  if (i->width == 8) return emu_u64(w, operand)[lane] + (uint64_t)i->offset;
  return emu_u32(w, operand)[lane] + (uint32_t)i->offset;
}

/* Counts and checks the access in pieces that a warp would have made of it. */
static void account(emu_warp_t *w, const emu_inst_t *i, uint64_t address, unsigned char *pointer,
                    uint32_t bytes, emu_space_t space, emu_access_t access) {
  uint32_t active = w->mask;
  emu_inst_t piece = *i;
  piece.bytes = GRAIN;
  piece.vector = 1;
  for (uint32_t at = 0; at < bytes; at += 32 * GRAIN) {
    uint32_t lanes = bytes - at < 32 * GRAIN ? (bytes - at) / GRAIN : 32;
    emu_request_t r = {.space = space, .access = access};
    r.pattern = lanes == 32 ? EMU_PATTERN_ROW : EMU_PATTERN_ANY;
    for (uint32_t lane = 0; lane < lanes; lane++) {
      r.addresses[lane] = address + at + lane * GRAIN;
      r.pointers[lane] = pointer + at + lane * GRAIN;
    }
    w->mask = lanes == 32 ? ~0u : (1u << lanes) - 1;
    if (w->block->launch->counting) emu_count_request(w, &piece, &r);
    if (w->block->launch->checks) emu_check_access(w, &piece, &r);
  }
  w->mask = active;
}

/* Where the lane's bytes are; NULL after a fault. */
static unsigned char *locate(emu_warp_t *w, const emu_inst_t *i, uint32_t operand, uint32_t lane,
                             uint32_t bytes, emu_access_t access) {
  uint64_t address = address_of(w, i, operand, lane), last = address + bytes - GRAIN;
  emu_space_t space = i->space;
  emu_range_t range;
  unsigned char *first = emu_lane_memory(w, i, lane, address, GRAIN, &space);
  if (!first || !emu_lane_memory(w, i, lane, last, GRAIN, &space) ||
      (space == EMU_SPACE_GLOBAL && !emu_memory_covers(w->block->launch->memory, address, bytes, &range))) {
    emu_bad_access(w, i, lane, first ? last : address, space, GRAIN, access);
    return NULL;
  }
  account(w, i, address, first, bytes, space, access);
  return first;
}

/* args: destination, source, bytes, barrier. The instruction stands for its destination, i->other for its
 * source and, where there is one, i->other->other for the barrier. arg_count: 1 for a reduction, whose kind,
 * mode and bytes are those of an atomic. */
static const emu_inst_t *issue(emu_warp_t *w, const emu_inst_t *i, uint32_t lane) {
  const emu_inst_t *source = i->other, *told = source->other;
  uint32_t bytes = emu_u32(w, i->args[2])[lane];
  emu_transfer_t t = {.kind = i->arg_count ? EMU_TRANSFER_REDUCE : EMU_TRANSFER_COPY,
                      .inst = i,
                      .bytes = bytes,
                      .warp = w->index,
                      .lane = lane,
                      .group = w->bulk_group[lane]};
  if (bytes % GRAIN)
    return emu_fault(w, i, lane, CUDA_ERROR_ILLEGAL_INSTRUCTION, "a bulk copy of %u bytes, no multiple of %u",
                     bytes, GRAIN);
  if (bytes) {
    t.from = locate(w, source, i->args[1], lane, bytes, EMU_ACCESS_READ);
    if (!t.from) return NULL;
    t.to = locate(w, i, i->args[0], lane, bytes, i->arg_count ? EMU_ACCESS_ATOMIC : EMU_ACCESS_WRITE);
    if (!t.to) return NULL;
  }
  if (told) {
    emu_space_t space = told->space;
    uint64_t address = address_of(w, told, i->args[3], lane);
    t.barrier = emu_lane_memory(w, told, lane, address, 8, &space);
    if (!t.barrier || space != EMU_SPACE_SHARED)
      return emu_bad_access(w, told, lane, address, space, 8, EMU_ACCESS_ATOMIC);
  }
  if (emu_transfer_add(w, t)) return i + 1;
  return emu_fault(w, i, lane, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
                   "the host has no memory for pending copies");
}

const emu_inst_t *emu_exec_bulk(emu_warp_t *w, const emu_inst_t *i) {
  EMU_EACH_LANE(lane, w->mask) if (!issue(w, i, lane)) return NULL;
  return i + 1;
}

const emu_inst_t *emu_exec_bulk_commit(emu_warp_t *w, const emu_inst_t *i) {
  EMU_EACH_LANE(lane, w->mask) w->bulk_group[lane]++;
  return i + 1;
}

/* offset: groups that may stay pending. */
const emu_inst_t *emu_exec_bulk_wait(emu_warp_t *w, const emu_inst_t *i) {
  groups_t groups = {.warp = w, .lanes = w->mask, .groups_left = (uint32_t)i->offset};
  perform_wanted(w->block, is_of_groups, &groups);
  return i + 1;
}
