/* emulator/exec_async.c: cp.async and its groups.
 *
 * A copy happens as late as the program allows: when its thread waits for its group, or exits. So a kernel
 * that reads the data without waiting reads what was there before, which is what may happen on a GPU. See
 * ops.h for who calls these.
 */
#include "emulator/exec_memory.h"
#include "emulator/ops.h"

#include <stdlib.h>
#include <string.h>

static const emu_inst_t *no_memory(emu_warp_t *w, const emu_inst_t *i) {
  return emu_fault(w, i, (uint32_t)__builtin_ctz(w->mask), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
                   "the host has no memory for pending copies");
}

static bool add_copy(emu_warp_t *w, emu_copy_t copy) {
  if (w->copy_count == w->copy_capacity) {
    uint32_t capacity = w->copy_capacity ? 2 * w->copy_capacity : 64;
    emu_copy_t *copies = realloc(w->copies, capacity * sizeof *copies);
    if (!copies) return false;
    w->copies = copies;
    w->copy_capacity = capacity;
  }
  w->copies[w->copy_count++] = copy;
  return true;
}

/* Bytes of the source that a lane reads: its third operand, where there is one. */
static uint32_t source_bytes(emu_warp_t *w, const emu_inst_t *i, uint32_t lane) {
  uint32_t bytes = i->arg[2] ? emu_u32(w, i->arg[2])[lane] : i->bytes;
  return bytes < i->bytes ? bytes : i->bytes;
}

/* A lane that reads a part of the bytes may be at the end of an allocation: its first and its last byte are
 * looked at, with the alignment of all of them. Gives NULL after a fault. */
static const unsigned char *partial_source(emu_warp_t *w, const emu_inst_t *i, uint32_t lane,
                                           uint32_t bytes) {
  emu_inst_t byte = *i->other;
  emu_request_t r;
  uint32_t active = w->mask;
  byte.bytes = 1;
  w->mask = 1u << lane;
  bool fine = emu_request(w, &byte, i->arg[1], EMU_ACCESS_READ, &r);
  if (fine && r.addresses[lane] % i->bytes) {
    emu_bad_access(w, i->other, lane, r.addresses[lane], EMU_SPACE_GLOBAL, i->bytes, EMU_ACCESS_READ);
    fine = false;
  }
  emu_space_t space = EMU_SPACE_GLOBAL;
  if (fine && !emu_lane_memory(w, &byte, lane, r.addresses[lane] + bytes - 1, 1, &space)) {
    emu_bad_access(w, &byte, lane, r.addresses[lane] + bytes - 1, EMU_SPACE_GLOBAL, 1, EMU_ACCESS_READ);
    fine = false;
  }
  w->mask = active;
  return fine ? r.pointers[lane] : NULL;
}

/* Where each lane reads; NULL for lanes that read nothing, which may have any source address. */
static bool copy_sources(emu_warp_t *w, const emu_inst_t *i, const unsigned char **sources) {
  emu_request_t r;
  uint32_t active = w->mask, whole = 0;
  EMU_EACH_LANE(lane, active) {
    uint32_t bytes = source_bytes(w, i, lane);
    sources[lane] = NULL;
    if (bytes == i->bytes)
      whole |= 1u << lane;
    else if (bytes && !(sources[lane] = partial_source(w, i, lane, bytes)))
      return false;
  }
  w->mask = whole;
  bool fine = !whole || emu_request(w, i->other, i->arg[1], EMU_ACCESS_READ, &r);
  w->mask = active;
  if (fine) EMU_EACH_LANE(lane, whole) sources[lane] = r.pointers[lane];
  return fine;
}

/* arg: destination, source, bytes to read or 0 for all. bytes: of the copy; the rest of them is zero. */
const emu_inst_t *emu_exec_copy_async(emu_warp_t *w, const emu_inst_t *i) {
  emu_request_t to;
  const unsigned char *sources[32];
  if (!copy_sources(w, i, sources) || !emu_request(w, i, i->arg[0], EMU_ACCESS_WRITE, &to)) return NULL;
  EMU_EACH_LANE(lane, w->mask) {
    emu_copy_t copy = {to.pointers[lane], sources[lane],      i->bytes, (uint8_t)source_bytes(w, i, lane),
                       (uint8_t)lane,     w->copy_group[lane]};
    if (!add_copy(w, copy)) return no_memory(w, i);
  }
  return i + 1;
}

const emu_inst_t *emu_exec_copy_commit(emu_warp_t *w, const emu_inst_t *i) {
  EMU_EACH_LANE(lane, w->mask) w->copy_group[lane]++;
  return i + 1;
}

void emu_copies_finish(emu_warp_t *w, uint32_t lanes, uint32_t groups_left) {
  uint32_t kept = 0;
  for (uint32_t n = 0; n < w->copy_count; n++) {
    emu_copy_t *copy = &w->copies[n];
    if (!(lanes >> copy->lane & 1) || copy->group + groups_left >= w->copy_group[copy->lane]) {
      w->copies[kept++] = *copy;
      continue;
    }
    if (copy->read_bytes) memcpy(copy->to, copy->from, copy->read_bytes);
    memset(copy->to + copy->read_bytes, 0, copy->bytes - copy->read_bytes);
  }
  w->copy_count = kept;
}

/* offset: groups that may stay pending; mode: 1 for cp.async.wait_all, which waits for uncommitted copies
 * too. */
const emu_inst_t *emu_exec_copy_wait(emu_warp_t *w, const emu_inst_t *i) {
  if (i->mode) EMU_EACH_LANE(lane, w->mask) w->copy_group[lane]++;
  if (w->copy_count) emu_copies_finish(w, w->mask, (uint32_t)i->offset);
  return i + 1;
}

void emu_copies_finish_all(emu_warp_t *w, uint32_t lanes) {
  EMU_EACH_LANE(lane, lanes) w->copy_group[lane]++;
  emu_copies_finish(w, lanes, 0);
}

/* cp.async.mbarrier.arrive: the barrier learns of it when this thread's copies have happened. arg: the
 * barrier; mode: it is an arrival that the barrier does not count on (not .noinc). */
const emu_inst_t *emu_exec_copy_arrive(emu_warp_t *w, const emu_inst_t *i) {
  emu_request_t r;
  if (!emu_request(w, i, i->arg[0], EMU_ACCESS_ATOMIC, &r)) return NULL;
  EMU_EACH_LANE(lane, w->mask) {
    emu_transfer_t arrival = {
        .kind = EMU_TRANSFER_ARRIVE, .barrier = r.pointers[lane], .warp = w->index, .lane = lane};
    if (i->mode) emu_mbarrier_expect_arrival(r.pointers[lane]);
    if (!emu_transfer_add(w, arrival)) return no_memory(w, i);
  }
  return i + 1;
}
