/* emulator/exec_warp.c: what the lanes of a warp do together: shuffles, votes, matches, reductions, election.
 *
 * Each takes a mask of the lanes that must take part. Lanes that come before the others are parked at the
 * beginning of the instruction's basic block and come back when all that have not exited are there; then the
 * operation happens once, for all of them. See ops.h for who calls these.
 */
#include "emulator/exec_warp.h"

#include "emulator/ops.h"

static uint32_t alive(const emu_warp_t *w) { return w->ready | w->at_barrier | w->at_warp_sync; }

static void check_members(emu_warp_t *w, const emu_inst_t *i, const uint32_t *members) {
  uint32_t first = (uint32_t)__builtin_ctz(w->mask);
  EMU_EACH_LANE(lane, w->mask) {
    if (!(members[lane] >> lane & 1))
      emu_finding(w, i, lane,
                  "this thread takes part in a warp operation with mask 0x%08x, which does not name it",
                  members[lane]);
    else if (members[lane] != members[first] && members[lane] & members[first])
      emu_finding(w, i, lane, "the mask 0x%08x of a warp operation differs from 0x%08x of lane %u",
                  members[lane], members[first], first);
  }
}

/* Takes the lanes back to the beginning of their basic block, as if they had not come yet. */
static void park(emu_warp_t *w, const emu_inst_t *i, const uint32_t *members) {
  const emu_kernel_t *kernel = w->block->launch->kernel;
  uint32_t block = kernel->code[i->target].target, lanes = w->mask;
  w->worker->block_counts[block].runs--;
  w->worker->block_counts[block].lanes -= emu_lane_count(w->group);
  w->budget += kernel->blocks[block].instructions;
  EMU_EACH_LANE(lane, lanes) {
    w->pc[lane] = i->target;
    w->sync_mask[lane] = members[lane];
  }
  uint32_t next = (uint32_t)(i + 1 - kernel->code);
  EMU_EACH_LANE(lane, w->group & ~lanes) w->pc[lane] = next;
  w->same_pc |= lanes;
  w->at_warp_sync |= lanes;
  w->ready &= ~lanes;
}

bool emu_gather(emu_warp_t *w, const emu_inst_t *i, uint32_t operand) {
  const uint32_t *members = emu_u32(w, operand);
  uint32_t wanted = 0; /* teams with masks of their own may be at one instruction */
  EMU_EACH_LANE(lane, w->mask) wanted |= members[lane];
  if (w->block->launch->checks & KILN_EMU_CHECK_SHUFFLE) check_members(w, i, members);
  if (!(wanted & alive(w) & ~w->mask)) return true;
  park(w, i, members);
  return false;
}

enum { UP, DOWN, BUTTERFLY, INDEX };

/* The lane that `lane` reads; false in *inside when it is outside the segment, and then it reads itself. */
static uint32_t shuffle_source(uint8_t mode, uint32_t lane, uint32_t b, uint32_t c, bool *inside) {
  uint32_t clamp = c & 31, segment = c >> 8 & 31;
  int32_t last = (int32_t)((lane & segment) | (clamp & ~segment)), first = (int32_t)(lane & segment), from;
  b &= 31;
  if (mode == UP) {
    from = (int32_t)lane - (int32_t)b;
    *inside = from >= last;
  } else {
    from = mode == DOWN        ? (int32_t)(lane + b)
           : mode == BUTTERFLY ? (int32_t)(lane ^ b)
                               : first | (int32_t)(b & ~segment);
    *inside = from <= last;
  }
  return *inside ? (uint32_t)from & 31 : lane;
}

/* arg: d, p or 0, a, b, c, members; mode: see the enum above. */
const emu_inst_t *emu_exec_shuffle(emu_warp_t *w, const emu_inst_t *i) {
  if (!emu_gather(w, i, i->arg[5])) return emu_reschedule(w);
  uint32_t *d = emu_u32(w, i->arg[0]), result[32], insides = 0;
  const uint32_t *a = emu_u32(w, i->arg[2]), *b = emu_u32(w, i->arg[3]), *c = emu_u32(w, i->arg[4]);
  bool check = w->block->launch->checks & KILN_EMU_CHECK_SHUFFLE;
  EMU_EACH_LANE(lane, w->mask) {
    bool inside;
    uint32_t from = shuffle_source(i->mode, lane, b[lane], c[lane], &inside);
    result[lane] = a[from];
    insides |= (uint32_t)inside << lane;
    if (check && inside && !(w->mask >> from & 1))
      emu_finding(w, i, lane, "a shuffle reads lane %u, which takes no part in it", from);
  }
  EMU_EACH_LANE(lane, w->mask) d[lane] = result[lane];
  if (i->arg[1]) {
    uint32_t *p = emu_u32(w, i->arg[1]);
    *p = (*p & ~w->mask) | insides;
  }
  return i + 1;
}

static void put_predicate(emu_warp_t *w, uint32_t offset, uint32_t value) {
  uint32_t *p = emu_u32(w, offset);
  *p = (*p & ~w->mask) | (value & w->mask);
}

/* arg: d, a, members; mode: 0 all, 1 any, 2 uni, 3 ballot; kind: a is negated. */
const emu_inst_t *emu_exec_vote(emu_warp_t *w, const emu_inst_t *i) {
  if (!emu_gather(w, i, i->arg[2])) return emu_reschedule(w);
  uint32_t a = *emu_u32(w, i->arg[1]);
  uint32_t holds = (i->kind ? ~a : a) & w->mask;
  if (i->mode == 3) {
    EMU_EACH_LANE(lane, w->mask) emu_u32(w, i->arg[0])[lane] = holds;
  } else {
    bool all = holds == w->mask, any = holds != 0;
    put_predicate(w, i->arg[0], (i->mode == 0 ? all : i->mode == 1 ? any : all || !any) ? ~0u : 0);
  }
  return i + 1;
}

static uint64_t lane_value(emu_warp_t *w, uint32_t operand, uint32_t width, uint32_t lane) {
  return width == 8 ? emu_u64(w, operand)[lane] : emu_u32(w, operand)[lane];
}

/* arg: d, p or 0, a, members; mode: 0 any, 1 all; width: of a. */
const emu_inst_t *emu_exec_match(emu_warp_t *w, const emu_inst_t *i) {
  if (!emu_gather(w, i, i->arg[3])) return emu_reschedule(w);
  uint32_t equal[32];
  bool all = true;
  EMU_EACH_LANE(lane, w->mask) {
    equal[lane] = 0;
    uint64_t value = lane_value(w, i->arg[2], i->width, lane);
    for (uint32_t other = 0; other < 32; other++)
      equal[lane] |= (uint32_t)(lane_value(w, i->arg[2], i->width, other) == value) << other;
    equal[lane] &= w->mask;
    all &= equal[lane] == w->mask;
  }
  EMU_EACH_LANE(lane, w->mask) emu_u32(w, i->arg[0])[lane] = i->mode == 0 ? equal[lane] : all ? w->mask : 0;
  if (i->arg[1]) put_predicate(w, i->arg[1], all ? ~0u : 0);
  return i + 1;
}

/* arg: d, a, members; mode: 0 add, 1 min, 2 max, 3 and, 4 or, 5 xor. */
const emu_inst_t *emu_exec_redux(emu_warp_t *w, const emu_inst_t *i) {
  if (!emu_gather(w, i, i->arg[2])) return emu_reschedule(w);
  const uint32_t *a = emu_u32(w, i->arg[1]);
  uint32_t flip = i->is_signed ? 1u << 31 : 0, first = (uint32_t)__builtin_ctz(w->mask), r = a[first];
  EMU_EACH_LANE(lane, w->mask & ~(1u << first)) {
    uint32_t x = a[lane];
    switch (i->mode) {
    case 0:
      r += x;
      break;
    case 1:
      r = (x ^ flip) < (r ^ flip) ? x : r;
      break;
    case 2:
      r = (x ^ flip) > (r ^ flip) ? x : r;
      break;
    case 3:
      r &= x;
      break;
    case 4:
      r |= x;
      break;
    default:
      r ^= x;
      break;
    }
  }
  EMU_EACH_LANE(lane, w->mask) emu_u32(w, i->arg[0])[lane] = r;
  return i + 1;
}

/* arg: d, p, members. The lowest lane is elected. */
const emu_inst_t *emu_exec_elect(emu_warp_t *w, const emu_inst_t *i) {
  if (!emu_gather(w, i, i->arg[2])) return emu_reschedule(w);
  uint32_t first = (uint32_t)__builtin_ctz(w->mask);
  EMU_EACH_LANE(lane, w->mask) emu_u32(w, i->arg[0])[lane] = first;
  put_predicate(w, i->arg[1], 1u << first);
  return i + 1;
}

/* arg: d */
const emu_inst_t *emu_exec_active_mask(emu_warp_t *w, const emu_inst_t *i) {
  EMU_EACH_LANE(lane, w->mask) emu_u32(w, i->arg[0])[lane] = w->mask;
  return i + 1;
}
