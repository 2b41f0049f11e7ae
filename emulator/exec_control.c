/* emulator/exec_control.c: branches, calls, exits, guards, predicates and the moves that are no lane loop.
 * See ops.h for who calls these. */
#include "base/clock.h"
#include "emulator/ops.h"

/* Lanes of the group for which the guard holds. */
static uint32_t guarded_lanes(emu_warp_t *w, const emu_inst_t *i) {
  if (!i->guarded) return w->group;
  uint32_t p = *emu_u32(w, i->guard);
  return w->group & (i->guarded > 0 ? p : ~p);
}

const emu_inst_t *emu_exec_leader(emu_warp_t *w, const emu_inst_t *i) {
  uint32_t pc = i->arg[0];
  if (pc >= w->stop_pc) return emu_jump(w, w->group, pc); /* meets lanes that wait here, or are lower now */
  if (w->budget <= 0) {
    EMU_EACH_LANE(lane, w->group) w->pc[lane] = pc;
    w->group = w->mask = 0;
    return NULL;
  }
  w->budget -= i->arg[1];
  emu_block_count_t *count = &w->worker->block_counts[i->target];
  count->runs++;
  count->lanes += emu_lane_count(w->group);
  return i + 1;
}

const emu_inst_t *emu_exec_guarded(emu_warp_t *w, const emu_inst_t *i) {
  w->mask = guarded_lanes(w, i);
  const emu_inst_t *next = w->mask ? i->base(w, i) : i + 1;
  w->mask = w->group; /* which may be another one now */
  return next;
}

/* All lanes of the group go to `pc`. Backward jumps of a group that keeps others waiting end in a yield. */
static const emu_inst_t *go(emu_warp_t *w, const emu_inst_t *from, uint32_t pc) {
  const emu_inst_t *code = w->block->launch->kernel->code;
  if (w->group == w->ready) return code + pc;
  if (code + pc <= from) w->yields++;
  if (w->yields < EMU_YIELD_AFTER && pc < w->stop_pc && code + pc > from) return code + pc;
  return emu_jump(w, w->group, pc);
}

const emu_inst_t *emu_exec_branch(emu_warp_t *w, const emu_inst_t *i) {
  uint32_t taken = guarded_lanes(w, i);
  if (taken == w->group) return go(w, i, i->target);
  if (!taken) return i + 1;
  uint32_t next = (uint32_t)(i + 1 - w->block->launch->kernel->code);
  w->worker->counters.divergent_branches++;
  if (i->target < next) w->yields++;
  EMU_EACH_LANE(lane, taken) w->pc[lane] = i->target;
  return emu_jump(w, w->group & ~taken, next);
}

const emu_inst_t *emu_exec_branch_index(emu_warp_t *w, const emu_inst_t *i) {
  const uint32_t *index = emu_u32(w, i->arg[0]);
  uint32_t taken = guarded_lanes(w, i), next = (uint32_t)(i + 1 - w->block->launch->kernel->code);
  EMU_EACH_LANE(lane, taken) {
    if (index[lane] >= i->arg_count)
      return emu_fault(w, i, lane, CUDA_ERROR_INVALID_PC, "brx.idx: index %u of %u targets", index[lane],
                       i->arg_count);
    w->pc[lane] = i->args[index[lane]];
  }
  w->yields++;
  return emu_jump(w, w->group & ~taken, next);
}

const emu_inst_t *emu_exec_exit(emu_warp_t *w, const emu_inst_t *i) {
  uint32_t lanes = guarded_lanes(w, i);
  if (w->copy_count) emu_copies_finish_all(w, lanes);
  w->block->live_threads -= emu_lane_count(lanes);
  if (w->block->transfer_count) emu_transfers_of_exit(w, lanes);
  w->ready &= ~lanes;
  w->group &= ~lanes;
  w->mask = w->group;
  if (w->block->barriers_busy) emu_barriers_recheck(w->block);
  if (w->group) return i + 1;
  return w->ready || w->at_warp_sync ? emu_reschedule(w) : NULL;
}

const emu_inst_t *emu_exec_call(emu_warp_t *w, const emu_inst_t *i) {
  uint32_t lanes = guarded_lanes(w, i), next = (uint32_t)(i + 1 - w->block->launch->kernel->code);
  uint32_t *return_pc = emu_u32(w, i->arg[0]);
  EMU_EACH_LANE(lane, lanes) return_pc[lane] = next;
  if (lanes == w->group) return go(w, i, i->target);
  EMU_EACH_LANE(lane, lanes) w->pc[lane] = i->target;
  return emu_jump(w, w->group & ~lanes, next);
}

/* arg: the pointer, which is to no function. */
const emu_inst_t *emu_exec_lost_call(emu_warp_t *w, const emu_inst_t *i) {
  uint32_t lane = (uint32_t)__builtin_ctz(w->mask);
  return emu_fault(w, i, lane, CUDA_ERROR_INVALID_PC,
                   "a call through a pointer to no function that fits: 0x%llx",
                   (unsigned long long)emu_u64(w, i->arg[0])[lane]);
}

const emu_inst_t *emu_exec_return(emu_warp_t *w, const emu_inst_t *i) {
  uint32_t lanes = guarded_lanes(w, i), next = (uint32_t)(i + 1 - w->block->launch->kernel->code);
  const uint32_t *return_pc = emu_u32(w, i->arg[0]);
  EMU_EACH_LANE(lane, lanes) w->pc[lane] = return_pc[lane];
  return emu_jump(w, w->group & ~lanes, next);
}

const emu_inst_t *emu_exec_trap(emu_warp_t *w, const emu_inst_t *i) {
  return emu_fault(w, i, (uint32_t)__builtin_ctz(w->mask), CUDA_ERROR_LAUNCH_FAILED, "trap");
}

const emu_inst_t *emu_exec_nothing(emu_warp_t *w, const emu_inst_t *i) {
  (void)w;
  return i + 1;
}

static void put_predicate(emu_warp_t *w, uint32_t offset, uint32_t value) {
  uint32_t *p = emu_u32(w, offset);
  *p = (*p & ~w->mask) | (value & w->mask);
}

const emu_inst_t *emu_exec_mov_pred(emu_warp_t *w, const emu_inst_t *i) {
  put_predicate(w, i->arg[0], *emu_u32(w, i->arg[1]));
  return i + 1;
}

const emu_inst_t *emu_exec_logic_pred(emu_warp_t *w, const emu_inst_t *i) {
  uint32_t a = *emu_u32(w, i->arg[1]), b = i->kind == 3 ? 0 : *emu_u32(w, i->arg[2]);
  put_predicate(w, i->arg[0], i->kind == 0 ? a & b : i->kind == 1 ? a | b : i->kind == 2 ? a ^ b : ~a);
  return i + 1;
}

/* Clocks count the warp's instructions, so that they are the same in every run; globaltimer is the host's
 * clock. */
const emu_inst_t *emu_exec_clock(emu_warp_t *w, const emu_inst_t *i) {
  bool real_time = i->mode >= EMU_CLOCK_TIME && !w->block->launch->deterministic;
  uint64_t now = real_time ? kiln_clock_monotonic_ns()
                           : w->block->instructions + (uint64_t)(EMU_WARP_QUANTUM - w->budget);
  if (i->mode == EMU_CLOCK_COUNT_HIGH || i->mode == EMU_CLOCK_TIME_HIGH) now >>= 32;
  EMU_EACH_LANE(lane, w->mask) {
    if (i->width == 8)
      emu_u64(w, i->arg[0])[lane] = now;
    else
      emu_u32(w, i->arg[0])[lane] = (uint32_t)now;
  }
  return i + 1;
}

const emu_inst_t *emu_exec_pack(emu_warp_t *w, const emu_inst_t *i) {
  uint32_t parts = i->arg_count - 1;
  EMU_EACH_LANE(lane, w->mask) {
    uint64_t value = 0;
    for (uint32_t n = 0; n < parts; n++)
      value |= ((uint64_t)emu_u32(w, i->args[n + 1])[lane] & ((1ull << i->mode) - 1)) << (n * i->mode);
    if (i->width == 8)
      emu_u64(w, i->args[0])[lane] = value;
    else
      emu_u32(w, i->args[0])[lane] = (uint32_t)value;
  }
  return i + 1;
}

const emu_inst_t *emu_exec_unpack(emu_warp_t *w, const emu_inst_t *i) {
  uint32_t parts = i->arg_count - 1;
  EMU_EACH_LANE(lane, w->mask) {
    uint64_t value = i->width == 8 ? emu_u64(w, i->args[parts])[lane] : emu_u32(w, i->args[parts])[lane];
    for (uint32_t n = 0; n < parts; n++)
      emu_u32(w, i->args[n])[lane] = (uint32_t)(value >> (n * i->mode) & ((1ull << i->mode) - 1));
  }
  return i + 1;
}

const emu_inst_t *emu_exec_widen(emu_warp_t *w, const emu_inst_t *i) {
  const uint32_t *a = emu_u32(w, i->arg[1]);
  uint64_t *d = emu_u64(w, i->arg[0]);
  EMU_EACH_LANE(lane, w->mask) d[lane] = i->is_signed ? (uint64_t)(int64_t)(int32_t)a[lane] : a[lane];
  return i + 1;
}

const emu_inst_t *emu_exec_narrow(emu_warp_t *w, const emu_inst_t *i) {
  const uint64_t *a = emu_u64(w, i->arg[1]);
  uint32_t *d = emu_u32(w, i->arg[0]);
  EMU_EACH_LANE(lane, w->mask) d[lane] = (uint32_t)a[lane];
  return i + 1;
}
