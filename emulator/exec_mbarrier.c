/* emulator/exec_mbarrier.c: mbarrier objects: barriers in shared memory that count arrivals and bytes.
 *
 * The object's 64 bits are opaque to programs. Here: the phase's parity (bit 63), a mark (62), the
 * transaction count (40 to 60, signed), arrivals expected in each phase (20 to 39) and still pending in this
 * one (0 to 19). A phase is complete when nothing is pending in either count; then the next begins. A state
 * that an arrival returns is the object before it. Whoever waits asks again and again, giving way in between.
 * What the race checker learns of a wait that is over is what it would of a barrier of the block. Source: PTX
 * ISA, "mbarrier". See ops.h for who calls these; a block's threads run on one worker, so that nothing here
 * is atomic.
 */
#include "emulator/mbarrier.h"
#include "emulator/ops.h"
#include "emulator/shadow.h"

#include <string.h>

#define COUNT_BITS 20
#define COUNT_MASK ((1ull << COUNT_BITS) - 1)
#define TX_SHIFT (2 * COUNT_BITS)
#define TX_MASK ((1ull << (COUNT_BITS + 1)) - 1)
#define MARK (1ull << 62)
#define PARITY (1ull << 63)

static uint64_t load(const unsigned char *p) {
  uint64_t state;
  memcpy(&state, p, sizeof state);
  return state;
}

/* Begins the next phase where this one is complete. */
static void store(unsigned char *p, uint64_t state) {
  bool complete = !(state & COUNT_MASK) && !(state >> TX_SHIFT & TX_MASK);
  if (complete) state = (state ^ PARITY) | (state >> COUNT_BITS & COUNT_MASK);
  memcpy(p, &state, sizeof state);
}

static uint64_t add_tx(uint64_t state, uint32_t bytes) {
  uint64_t tx = ((state >> TX_SHIFT) + bytes) & TX_MASK;
  return (state & ~(TX_MASK << TX_SHIFT)) | tx << TX_SHIFT;
}

/* Pending arrivals go down by `count`, and with `drop` those expected from the next phase on. */
static uint64_t take_arrivals(uint64_t state, uint32_t count, bool drop) {
  uint64_t taken = count < (state & COUNT_MASK) ? count : state & COUNT_MASK;
  uint64_t expected = state >> COUNT_BITS & COUNT_MASK, dropped = count < expected ? count : expected;
  return state - taken - (drop ? dropped << COUNT_BITS : 0);
}

void emu_mbarrier_complete(unsigned char *barrier, uint32_t bytes) {
  store(barrier, add_tx(load(barrier), 0 - bytes));
}
void emu_mbarrier_arrive(unsigned char *barrier) { store(barrier, take_arrivals(load(barrier), 1, false)); }
void emu_mbarrier_expect_arrival(unsigned char *barrier) {
  uint64_t state = load(barrier) + 1;
  memcpy(barrier, &state, sizeof state);
}

/* --- the instruction --- */

static bool resolve(emu_warp_t *w, const emu_inst_t *i, emu_request_t *r) {
  emu_access_t access = i->kind == EMU_MBARRIER_INIT ? EMU_ACCESS_WRITE : EMU_ACCESS_ATOMIC;
  if (!emu_request(w, i, i->arg[1], access, r)) return false;
  if (r->space == EMU_SPACE_SHARED) return true;
  emu_fault(w, i, (uint32_t)__builtin_ctz(w->mask), CUDA_ERROR_INVALID_ADDRESS_SPACE,
            "an mbarrier that is not in shared memory");
  return false;
}

static void check_object(emu_warp_t *w, const emu_inst_t *i, uint32_t lane, uint64_t state) {
  if (!(state & MARK) && w->block->launch->checks & KILN_EMU_CHECK_BARRIER)
    emu_finding(w, i, lane, "this mbarrier has not been initialized");
}

static void arrive(emu_warp_t *w, const emu_inst_t *i, uint32_t lane, unsigned char *p) {
  uint64_t state = load(p);
  uint32_t count = i->arg[2] ? emu_u32(w, i->arg[2])[lane] : 1;
  if (count > (state & COUNT_MASK) && w->block->launch->checks & KILN_EMU_CHECK_BARRIER)
    emu_finding(w, i, lane, "%u arrivals at an mbarrier that waits for %u", count,
                (unsigned)(state & COUNT_MASK));
  uint64_t next = i->arg[3] ? add_tx(state, emu_u32(w, i->arg[3])[lane]) : state;
  if (i->arg[0]) emu_u64(w, i->arg[0])[lane] = state;
  store(p, take_arrivals(next, count, i->kind == EMU_MBARRIER_DROP));
}

/* Whether the phase that the lane waits for is over: the parity has changed since. */
static bool is_over(emu_warp_t *w, const emu_inst_t *i, uint32_t lane, const unsigned char *p) {
  bool parity = load(p) >> 63;
  return parity != (i->mode ? emu_u32(w, i->arg[2])[lane] & 1 : emu_u64(w, i->arg[2])[lane] >> 63);
}

static void test(emu_warp_t *w, const emu_inst_t *i, const emu_request_t *r) {
  emu_block_t *block = w->block;
  uint32_t over = 0, *p = emu_u32(w, i->arg[0]);
  EMU_EACH_LANE(lane, w->mask) {
    check_object(w, i, lane, load(r->pointers[lane]));
    if (block->transfer_count) emu_transfers_of_barrier(block, r->pointers[lane]);
    over |= (uint32_t)is_over(w, i, lane, r->pointers[lane]) << lane;
  }
  *p = (*p & ~w->mask) | over;
  if (over && block->shadow)
    emu_shadow_join(block->shadow, block->warp_count == 32 ? ~0u : (1u << block->warp_count) - 1);
  if (over == w->mask) return;
  /* Other lanes of the warp are to run next, or where there are none, other warps. */
  if (w->group != w->ready)
    w->yields = EMU_YIELD_AFTER;
  else
    w->budget = 0;
}

static void change(emu_warp_t *w, const emu_inst_t *i, uint32_t lane, unsigned char *p) {
  uint64_t count = i->arg[2] ? emu_u32(w, i->arg[2])[lane] & COUNT_MASK : 0, state = load(p);
  if (i->kind != EMU_MBARRIER_INIT) check_object(w, i, lane, state);
  switch ((emu_mbarrier_op_t)i->kind) {
  case EMU_MBARRIER_INIT:
    state = MARK | count << COUNT_BITS | count;
    memcpy(p, &state, sizeof state);
    break;
  case EMU_MBARRIER_INVALIDATE:
    memset(p, 0, sizeof state);
    break;
  case EMU_MBARRIER_EXPECT:
    store(p, add_tx(state, (uint32_t)count));
    break;
  case EMU_MBARRIER_COMPLETE:
    store(p, add_tx(state, 0 - (uint32_t)count));
    break;
  case EMU_MBARRIER_ARRIVE:
  case EMU_MBARRIER_DROP:
    arrive(w, i, lane, p);
    break;
  case EMU_MBARRIER_TEST:
    break;
  }
}

/* arg: result (state or predicate) or 0, address, count or state or parity, bytes of .expect_tx; 0 where
 * absent. kind: an emu_mbarrier_op_t; mode: 1 for .parity. */
const emu_inst_t *emu_exec_mbarrier(emu_warp_t *w, const emu_inst_t *i) {
  emu_request_t r;
  if (!resolve(w, i, &r)) return NULL;
  if (i->kind == EMU_MBARRIER_TEST)
    test(w, i, &r);
  else
    EMU_EACH_LANE(lane, w->mask) change(w, i, lane, r.pointers[lane]);
  return i + 1;
}
