/* emulator/schedule.c: which lanes of a warp, which warp of a block and which block of a worker run next.
 *
 * The rules, in the order in which they matter:
 *   1. Of the lanes of a warp that can run, those with the lowest program counter run, together; lanes that
 * wait further down join when the group arrives there (stop_pc). So lanes that diverged meet again at the
 * first common point.
 *   2. A group that keeps others waiting and jumps back too often yields: lanes that have not run since the
 * last round get their turn, whatever their program counter. So a lane may wait for another lane of its warp.
 *   3. A warp runs until it waits or has used its quantum; then comes the next warp of its block.
 *   4. A block runs until it has used its quantum; then its worker starts another, while the modelled device
 * would hold it, or continues the one that waited longest. So blocks may wait for each other. The order
 * within a block depends on nothing but the kernel and its data. Thread: a worker.
 */
#include "emulator/schedule.h"

#include "emulator/ptx_source.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Warp instructions: few where a block may wait for another one, many where it only takes long. */
#define WAITING_QUANTUM (1u << 15)
#define WORKING_QUANTUM (1u << 22)

#define FINDINGS_PER_INSTRUCTION 3
#define SOURCE_CHARACTERS 480
#define PLACE_CHARACTERS (SOURCE_CHARACTERS + 224)

static void describe_place(const emu_warp_t *w, const emu_inst_t *i, uint32_t lane, char *text,
                           size_t capacity) {
  const emu_launch_t *launch = w->block->launch;
  uint32_t thread = w->index * 32 + lane, x = launch->block[0], y = launch->block[1];
  char source[SOURCE_CHARACTERS];
  emu_source_describe(launch->kernel->source, i->line, source, sizeof source);
  snprintf(text, capacity, "in kernel %.100s, block (%u,%u,%u), thread (%u,%u,%u), PTX line %u%s",
           launch->kernel->name, w->block->id[0], w->block->id[1], w->block->id[2], thread % x,
           thread / x % y, thread / x / y, i->line, source);
}

const emu_inst_t *emu_fault(emu_warp_t *w, const emu_inst_t *i, uint32_t lane, CUresult result,
                            const char *format, ...) {
  emu_launch_t *launch = w->block->launch;
  char what[256], where[PLACE_CHARACTERS];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(what, sizeof what, format, arguments);
  va_end(arguments);
  describe_place(w, i, lane, where, sizeof where);
  pthread_mutex_lock(&launch->lock);
  if (launch->fault.result == CUDA_SUCCESS) {
    launch->fault.result = result;
    snprintf(launch->fault.text, sizeof launch->fault.text, "%s\n  %s\n", what, where);
  }
  pthread_mutex_unlock(&launch->lock);
  atomic_store(&launch->stop, true);
  return NULL;
}

void emu_finding(emu_warp_t *w, const emu_inst_t *i, uint32_t lane, const char *format, ...) {
  emu_launch_t *launch = w->block->launch;
  size_t index = (size_t)(i - launch->kernel->code);
  char what[256], where[PLACE_CHARACTERS];
  if (!launch->finding_counts) return;
  if (index >= launch->kernel->code_count) index = 0; /* a part of an instruction, decoded apart */
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(what, sizeof what, format, arguments);
  va_end(arguments);
  describe_place(w, i, lane, where, sizeof where);
  pthread_mutex_lock(&launch->lock);
  uint8_t *count = &launch->finding_counts[index];
  if (*count < FINDINGS_PER_INSTRUCTION) {
    ++*count;
    kiln_buffer_printf(&launch->report, "%s\n  %s\n", what, where);
  }
  pthread_mutex_unlock(&launch->lock);
}

/* Lanes parked at warp syncs whose partners have all arrived, or exited, become ready. */
static void release_warp_syncs(emu_warp_t *w) {
  uint32_t gone = ~(w->ready | w->at_barrier | w->at_warp_sync), released = 0;
  EMU_EACH_LANE(lane, w->at_warp_sync) {
    uint32_t present = w->at_warp_sync;
    if (w->same_pc >> lane & 1)
      for (uint32_t other = 0; other < 32; other++)
        if (w->pc[other] != w->pc[lane]) present &= ~(1u << other);
    if (!(w->sync_mask[lane] & ~present & ~gone)) released |= 1u << lane;
  }
  w->at_warp_sync &= ~released;
  w->same_pc &= ~released;
  w->ready |= released;
}

/* The lowest program counter of `lanes`. */
static uint32_t lowest_pc(const emu_warp_t *w, uint32_t lanes) {
  uint32_t lowest = EMU_NEVER;
  for (uint32_t lane = 0; lane < 32; lane++) {
    uint32_t pc = lanes >> lane & 1 ? w->pc[lane] : EMU_NEVER;
    lowest = pc < lowest ? pc : lowest;
  }
  return lowest;
}

/* The lowest program counter at which a lane of `lanes` waits at or above `pc`. */
static uint32_t next_meeting(const emu_warp_t *w, uint32_t lanes, uint32_t pc) {
  uint32_t lowest = EMU_NEVER;
  EMU_EACH_LANE(lane, lanes) if (w->pc[lane] >= pc && w->pc[lane] < lowest) lowest = w->pc[lane];
  return lowest;
}

/* Whether no lane of a full warp is anywhere but at pc[0]: how a warp nearly always continues. */
static bool is_converged(const emu_warp_t *w) {
  uint32_t unlike_first = 0;
  if (w->ready != w->lanes) return false;
  for (uint32_t lane = 0; lane < 32; lane++) unlike_first |= w->pc[lane] ^ w->pc[0];
  return !unlike_first;
}

static const emu_inst_t *run_together(emu_warp_t *w, uint32_t pc) {
  w->mask = w->group = w->ready;
  w->served |= w->ready;
  w->stop_pc = EMU_NEVER;
  return w->block->launch->kernel->code + pc;
}

const emu_inst_t *emu_reschedule(emu_warp_t *w) {
  if (w->at_warp_sync) release_warp_syncs(w);
  w->group = w->mask = 0;
  if (!w->ready) return NULL;
  if (w->fresh) {
    w->fresh = false;
    return run_together(w, 0);
  }
  if (w->yields < EMU_YIELD_AFTER && is_converged(w)) return run_together(w, w->pc[0]);
  uint32_t candidates = w->ready, group = 0;
  if (w->yields >= EMU_YIELD_AFTER) {
    candidates = w->ready & ~w->served;
    if (!candidates) candidates = w->ready, w->served = 0;
    w->yields = 0;
  }
  uint32_t pc = lowest_pc(w, candidates);
  for (uint32_t lane = 0; lane < 32; lane++) group |= (uint32_t)(w->pc[lane] == pc) << lane;
  w->mask = w->group = group & w->ready;
  w->served |= w->group;
  w->stop_pc = next_meeting(w, w->ready & ~w->group, pc);
  return w->block->launch->kernel->code + pc;
}

const emu_inst_t *emu_jump(emu_warp_t *w, uint32_t lanes, uint32_t pc) {
  EMU_EACH_LANE(lane, lanes) w->pc[lane] = pc;
  return emu_reschedule(w);
}

/* Runs the warp until it waits, exits or has used its quantum. */
static void run_warp(emu_warp_t *w) {
  w->budget = EMU_WARP_QUANTUM;
  const emu_inst_t *i = emu_reschedule(w);
  while (i) i = i->fn(w, i);
  w->block->instructions += (uint64_t)(EMU_WARP_QUANTUM - w->budget);
}

static bool warp_can_run(emu_warp_t *w) {
  if (w->at_warp_sync) release_warp_syncs(w);
  return w->ready != 0;
}

static void report_stuck(emu_block_t *block) {
  for (uint32_t n = 0; n < block->warp_count; n++) {
    emu_warp_t *w = &block->warps[n];
    uint32_t waiting = w->at_barrier | w->at_warp_sync;
    if (!waiting) continue;
    uint32_t lane = (uint32_t)__builtin_ctz(waiting);
    emu_fault(w, &block->launch->kernel->code[w->pc[lane]], lane, CUDA_ERROR_LAUNCH_TIMEOUT,
              "waits for ever: the threads that %s waits for never arrive",
              w->at_barrier >> lane & 1 ? "a barrier" : "a warp-wide operation");
    return;
  }
}

emu_block_state_t emu_block_run(emu_block_t *block) {
  emu_launch_t *launch = block->launch;
  uint64_t counted = block->instructions,
           quantum = launch->kernel->may_wait ? WAITING_QUANTUM : WORKING_QUANTUM;
  if (launch->instruction_limit && launch->instruction_limit < quantum) quantum = launch->instruction_limit;
  uint64_t end = counted + quantum;
  uint32_t idle = 0;
  while (block->live_threads && !atomic_load_explicit(&launch->stop, memory_order_relaxed)) {
    emu_warp_t *w = &block->warps[block->next_warp];
    block->next_warp = block->next_warp + 1 == block->warp_count ? 0 : block->next_warp + 1;
    if (!warp_can_run(w)) {
      if (++idle > block->warp_count) report_stuck(block);
      continue;
    }
    idle = 0;
    run_warp(w);
    if (block->instructions >= end) break;
  }
  uint64_t ran = block->instructions - counted;
  uint64_t all = atomic_fetch_add_explicit(&launch->instructions, ran, memory_order_relaxed) + ran;
  bool unfinished = block->live_threads || atomic_load(&launch->next_block) < launch->block_count;
  if (launch->instruction_limit && all > launch->instruction_limit && unfinished)
    emu_fault(&block->warps[0], launch->kernel->code, 0, CUDA_ERROR_LAUNCH_TIMEOUT,
              "stopped after %llu warp instructions, the limit",
              (unsigned long long)launch->instruction_limit);
  return block->live_threads && !atomic_load(&launch->stop) ? EMU_BLOCK_PREEMPTED : EMU_BLOCK_DONE;
}
