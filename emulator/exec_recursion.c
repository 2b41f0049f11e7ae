/* emulator/exec_recursion.c: the stack of functions that call themselves.
 *
 * A function's registers and local memory have one place each in a warp's frame and a thread's local memory.
 * A call within a cycle of calls therefore keeps those of all functions in cycles (kernel->saved) on a stack
 * of the lane's, and takes them back when it returns; the results, which lie in the same memory, are carried
 * past that. How deep a thread may go is the limit of a GPU's stack, CU_LIMIT_STACK_SIZE, of which a call
 * takes 16 bytes and what its functions have as local variables. See ops.h for who calls these.
 */
#include "emulator/ops.h"

#include <stdlib.h>
#include <string.h>

void emu_stacks_destroy(emu_stack_t *stacks) {
  for (uint32_t lane = 0; stacks && lane < 32; lane++) free(stacks[lane].bytes);
  free(stacks);
}

void emu_stacks_restart(emu_stack_t *stacks) {
  for (uint32_t lane = 0; stacks && lane < 32; lane++) stacks[lane].used = stacks[lane].calls = 0;
}

static unsigned char *local_of(const emu_warp_t *w, uint32_t lane) {
  return w->block->local + (size_t)(w->index * 32 + lane) * w->block->launch->kernel->local_bytes;
}

static bool reserve(emu_stack_t *stack, size_t bytes) {
  if (stack->used + bytes <= stack->capacity) return true;
  size_t capacity = 2 * stack->capacity + bytes;
  unsigned char *grown = realloc(stack->bytes, capacity);
  if (!grown) return false;
  stack->bytes = grown;
  stack->capacity = capacity;
  return true;
}

/* One lane's registers and memory, to `record` or, with `back`, from it. */
static void copy_record(emu_warp_t *w, uint32_t lane, unsigned char *record, bool back) {
  const emu_saved_t *saved = &w->block->launch->kernel->saved;
  for (size_t n = 0; n < saved->slot_count; n++) {
    uint32_t width = saved->slots[n].width, *mask = emu_u32(w, saved->slots[n].offset);
    unsigned char *slot = w->frame + saved->slots[n].offset + (size_t)width * lane;
    if (width)
      memcpy(back ? slot : record, back ? record : slot, width);
    else if (back)
      *mask = (*mask & ~(1u << lane)) | (uint32_t)*record << lane;
    else
      *record = *mask >> lane & 1;
    record += width ? width : 1;
  }
  for (size_t n = 0; n < saved->range_count; n++) {
    unsigned char *memory = local_of(w, lane) + saved->ranges[n].offset;
    memcpy(back ? memory : record, back ? record : memory, saved->ranges[n].bytes);
    record += saved->ranges[n].bytes;
  }
}

const emu_inst_t *emu_exec_push(emu_warp_t *w, const emu_inst_t *i) {
  const emu_launch_t *launch = w->block->launch;
  const emu_saved_t *saved = &launch->kernel->saved;
  if (!w->stacks) w->stacks = calloc(32, sizeof *w->stacks);
  EMU_EACH_LANE(lane, w->mask) {
    emu_stack_t *stack = w->stacks ? &w->stacks[lane] : NULL;
    if (stack && (stack->calls + 1ull) * saved->frame_bytes > launch->stack_bytes)
      return emu_fault(w, i, lane, CUDA_ERROR_HARDWARE_STACK_ERROR,
                       "the thread's stack of %llu bytes is full after %u calls",
                       (unsigned long long)launch->stack_bytes, stack->calls);
    if (!stack || !reserve(stack, (size_t)saved->record_bytes + saved->result_bytes))
      return emu_fault(w, i, lane, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "the host has no memory for a stack");
    copy_record(w, lane, stack->bytes + stack->used, false);
    stack->used += saved->record_bytes;
    stack->calls++;
  }
  return i + 1;
}

/* args: of each result, where to, where from, how many bytes. */
const emu_inst_t *emu_exec_pop(emu_warp_t *w, const emu_inst_t *i) {
  const emu_saved_t *saved = &w->block->launch->kernel->saved;
  EMU_EACH_LANE(lane, w->mask) {
    emu_stack_t *stack = &w->stacks[lane];
    unsigned char *local = local_of(w, lane), *results = stack->bytes + stack->used;
    for (uint32_t n = 0; n < i->arg_count; n++) {
      memcpy(results, local + i->args[3 * n + 1], i->args[3 * n + 2]);
      results += i->args[3 * n + 2];
    }
    copy_record(w, lane, stack->bytes + stack->used - saved->record_bytes, true);
    results = stack->bytes + stack->used;
    for (uint32_t n = 0; n < i->arg_count; n++) {
      memcpy(local + i->args[3 * n], results, i->args[3 * n + 2]);
      results += i->args[3 * n + 2];
    }
    stack->used -= saved->record_bytes;
    stack->calls--;
  }
  return i + 1;
}
