/* emulator/exec_barrier.c: block barriers (bar, barrier) with their reductions, and bar.warp.sync.
 *
 * A thread that arrives at a barrier is parked, its warp going on with other lanes or giving up its turn; the
 * thread that completes the barrier makes all of them ready again at the instruction behind theirs. See ops.h
 * for who calls these.
 */
#include "emulator/ops.h"
#include "emulator/shadow.h"

enum { SYNC, ARRIVE, RED_POPC, RED_AND, RED_OR };

/* Gives a released lane the result of the bar.red it waited at. */
static void deliver(emu_warp_t *w, uint32_t lane, const emu_inst_t *i, const emu_barrier_t *barrier) {
  if (i->kind == RED_POPC) emu_u32(w, i->arg[0])[lane] = barrier->holding;
  if (i->kind != RED_AND && i->kind != RED_OR) return;
  bool holds = i->kind == RED_AND ? barrier->holding == barrier->arrived : barrier->holding != 0;
  uint32_t *p = emu_u32(w, i->arg[0]);
  *p = (*p & ~(1u << lane)) | (uint32_t)holds << lane;
}

/* Lanes of one warp that meet at a barrier must have come to the same instruction, where it is .aligned. */
static void check_divergence(emu_warp_t *w, uint32_t id) {
  const emu_inst_t *code = w->block->launch->kernel->code, *first = NULL;
  EMU_EACH_LANE(lane, w->at_barrier) {
    const emu_inst_t *i = &code[w->pc[lane] - 1];
    if (w->barrier_id[lane] != id || !i->is_signed) continue;
    if (!first) first = i;
    if (i == first) continue;
    emu_finding(w, i, lane,
                "barrier divergence: other threads of this warp wait at the barrier of PTX line %u",
                first->line);
    return;
  }
}

static void open_barrier(emu_block_t *block, uint32_t id) {
  bool check = block->launch->checks & KILN_EMU_CHECK_BARRIER;
  if (block->shadow) emu_shadow_join(block->shadow, block->barriers[id].warps);
  for (uint32_t n = 0; n < block->warp_count; n++) {
    emu_warp_t *w = &block->warps[n];
    if (check) check_divergence(w, id);
    EMU_EACH_LANE(lane, w->at_barrier) {
      if (w->barrier_id[lane] != id) continue;
      deliver(w, lane, &block->launch->kernel->code[w->pc[lane] - 1], &block->barriers[id]);
      w->at_barrier &= ~(1u << lane);
      w->ready |= 1u << lane;
    }
  }
  block->barriers[id] = (emu_barrier_t){0};
  block->barriers_busy &= ~(1u << id);
  for (uint32_t n = 0; id == EMU_CLUSTER_BARRIER && n < block->warp_count; n++)
    block->warps[n].cluster_arrived = 0;
}

void emu_barriers_recheck(emu_block_t *block) {
  EMU_EACH_LANE(id, block->barriers_busy) {
    const emu_barrier_t *barrier = &block->barriers[id];
    uint32_t expected = barrier->expected ? barrier->expected : block->live_threads;
    if (barrier->arrived && barrier->arrived >= expected) open_barrier(block, id);
  }
}

/* Threads a group counts for: a barrier with a thread count counts whole warps, so the tail's absent lanes
 * count too. */
static uint32_t arrivals(const emu_warp_t *w, bool counted) {
  uint32_t absent = counted && w->mask & 1 ? 32 - (uint32_t)__builtin_popcount(w->lanes) : 0;
  return (uint32_t)__builtin_popcount(w->mask) + absent;
}

/* arg: result of bar.red, barrier, thread count, predicate. width: 1 when there is a thread count; mode: the
 * predicate is negated; is_signed: .aligned, all lanes of a warp must come together. */
const emu_inst_t *emu_exec_barrier(emu_warp_t *w, const emu_inst_t *i) {
  emu_block_t *block = w->block;
  uint32_t first = (uint32_t)__builtin_ctz(w->mask), next = (uint32_t)(i + 1 - block->launch->kernel->code);
  uint32_t id = emu_u32(w, i->arg[1])[first], count = i->width ? emu_u32(w, i->arg[2])[first] : 0;
  if (id > 15) return emu_fault(w, i, first, CUDA_ERROR_ILLEGAL_INSTRUCTION, "barrier %u: there are 16", id);
  if (i->width && (count == 0 || count % 32))
    return emu_fault(w, i, first, CUDA_ERROR_ILLEGAL_INSTRUCTION, "barrier of %u threads: not whole warps",
                     count);
  w->worker->counters.barriers++;
  emu_barrier_t *barrier = &block->barriers[id];
  barrier->expected = count;
  barrier->arrived += arrivals(w, i->width);
  barrier->warps |= 1u << w->index;
  block->barriers_busy |= 1u << id;
  if (i->kind >= RED_POPC) {
    uint32_t p = *emu_u32(w, i->arg[3]);
    barrier->holding += (uint32_t)__builtin_popcount((i->mode ? ~p : p) & w->mask);
  }
  uint32_t lanes = w->mask;
  EMU_EACH_LANE(lane, w->group) w->pc[lane] = next;
  if (i->kind != ARRIVE) {
    EMU_EACH_LANE(lane, lanes) w->barrier_id[lane] = id;
    w->at_barrier |= lanes;
    w->ready &= ~lanes;
  }
  emu_barriers_recheck(block);
  return emu_reschedule(w);
}

/* arg 0: the lanes that wait for each other. */
const emu_inst_t *emu_exec_warp_barrier(emu_warp_t *w, const emu_inst_t *i) {
  uint32_t next = (uint32_t)(i + 1 - w->block->launch->kernel->code), lanes = w->mask;
  const uint32_t *members = emu_u32(w, i->arg[0]);
  EMU_EACH_LANE(lane, lanes) w->sync_mask[lane] = members[lane];
  EMU_EACH_LANE(lane, w->group) w->pc[lane] = next;
  w->at_warp_sync |= lanes;
  w->ready &= ~lanes;
  return emu_reschedule(w);
}

/* A cluster is one block. Arriving and waiting are two instructions: a lane whose phase is over by the time
 * it waits goes on. */
const emu_inst_t *emu_exec_cluster_barrier(emu_warp_t *w, const emu_inst_t *i) {
  emu_block_t *block = w->block;
  emu_barrier_t *barrier = &block->barriers[EMU_CLUSTER_BARRIER];
  uint32_t lanes = w->mask, next = (uint32_t)(i + 1 - block->launch->kernel->code);
  EMU_EACH_LANE(lane, w->group) w->pc[lane] = next;
  if (i->mode) {
    uint32_t waiting = lanes & w->cluster_arrived;
    EMU_EACH_LANE(lane, waiting) w->barrier_id[lane] = EMU_CLUSTER_BARRIER;
    w->at_barrier |= waiting;
    w->ready &= ~waiting;
  } else {
    w->worker->counters.barriers++;
    barrier->arrived += (uint32_t)__builtin_popcount(lanes);
    barrier->warps |= 1u << w->index;
    block->barriers_busy |= 1u << EMU_CLUSTER_BARRIER;
    w->cluster_arrived |= lanes;
    emu_barriers_recheck(block);
  }
  return emu_reschedule(w);
}
