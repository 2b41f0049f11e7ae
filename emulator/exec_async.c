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

/* arg: destination, source, bytes to read or 0 for all. bytes: of the copy; the rest of them is zero. */
const emu_inst_t *emu_exec_copy_async(emu_warp_t *w, const emu_inst_t *i) {
  emu_request_t from, to;
  uint32_t active = w->mask;
  if (i->arg[2]) /* lanes that read nothing may have any source address */
    EMU_EACH_LANE(lane, active) if (emu_u32(w, i->arg[2])[lane] == 0) w->mask &= ~(1u << lane);
  bool fine = !w->mask || emu_request(w, i->other, i->arg[1], EMU_ACCESS_READ, &from);
  w->mask = active;
  if (!fine || !emu_request(w, i, i->arg[0], EMU_ACCESS_WRITE, &to)) return NULL;
  EMU_EACH_LANE(lane, w->mask) {
    uint32_t bytes = i->arg[2] ? emu_u32(w, i->arg[2])[lane] : i->bytes;
    if (bytes > i->bytes) bytes = i->bytes;
    emu_copy_t copy = {to.pointers[lane], bytes ? from.pointers[lane] : NULL,
                       i->bytes,          (uint8_t)bytes,
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
