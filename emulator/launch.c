/* emulator/launch.c: runs a launch: workers take blocks, set up their warps, run them (schedule.c), and add
 * up counters.
 *
 * Blocks are started in order. A worker runs one block at a time and keeps those that used up their quantum;
 * while the modelled device would hold more blocks it starts new ones first, so that blocks that wait for
 * later blocks meet them. Frames are set up once per worker and warp: constants and the identity of threads
 * stay, only %ctaid changes from block to block. See launch.h.
 */
#include "emulator/launch.h"

#include "base/clock.h"
#include "emulator/lanes.h"
#include "emulator/schedule.h"
#include "emulator/shadow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HELP_AFTER_NS 200000u

emu_launch_t *emu_launch_create(const emu_launch_setup_t *setup) {
  emu_launch_t *launch = calloc(1, sizeof *launch);
  if (!launch) return NULL;
  launch->params = calloc(1, setup->kernel->param_bytes + 32u);
  if (!launch->params) {
    free(launch);
    return NULL;
  }
  launch->kernel = setup->kernel;
  launch->memory = setup->memory;
  memcpy(launch->grid, setup->grid, sizeof launch->grid);
  memcpy(launch->block, setup->block, sizeof launch->block);
  launch->dynamic_shared_bytes = setup->dynamic_shared_bytes;
  launch->threads_per_block = setup->block[0] * setup->block[1] * setup->block[2];
  launch->warps_per_block = (launch->threads_per_block + 31) / 32;
  launch->block_count = (uint64_t)setup->grid[0] * setup->grid[1] * setup->grid[2];
  launch->resident_limit = setup->resident_limit ? setup->resident_limit : 1;
  launch->instruction_limit = setup->instruction_limit;
  launch->stack_bytes = setup->stack_bytes;
  launch->checks = setup->checks;
  launch->serial = setup->serial;
  if (setup->checks) launch->finding_counts = calloc(setup->kernel->code_count, 1);
  launch->counting = setup->counting;
  launch->deterministic = setup->deterministic;
  kiln_buffer_init(&launch->report);
  pthread_mutex_init(&launch->lock, NULL);
  return launch;
}

void emu_launch_destroy(emu_launch_t *launch) {
  if (!launch) return;
  emu_common_deinit(&launch->common);
  kiln_buffer_deinit(&launch->report);
  pthread_mutex_destroy(&launch->lock);
  free(launch->finding_counts);
  free(launch->params);
  free(launch);
}

/* --- frames --- */

static void fill_constants(const emu_kernel_t *kernel, unsigned char *frame) {
  for (uint32_t n = 0; n < kernel->constant_count; n++) {
    const emu_constant_t *constant = &kernel->constants[n];
    uint32_t *narrow = (uint32_t *)(frame + constant->offset);
    uint64_t *wide = (uint64_t *)(frame + constant->offset);
    if (constant->width == 0) *narrow = constant->bits ? ~0u : 0;
    for (uint32_t lane = 0; lane < 8 * constant->width; lane++) {
      if (constant->width == 4)
        narrow[lane % 32] = (uint32_t)constant->bits;
      else
        wide[lane % 32] = constant->bits;
    }
  }
}

/* Special registers whose value is the same in every block; %ctaid and its kin are set for each. */
static uint32_t special_value(const emu_launch_t *launch, const emu_block_t *block, uint32_t special,
                              uint32_t warp, uint32_t lane) {
  uint32_t thread = warp * 32 + lane, x = launch->block[0], y = launch->block[1];
  switch ((emu_special_t)special) {
  case EMU_SPECIAL_TID_X:
    return thread % x;
  case EMU_SPECIAL_TID_Y:
    return thread / x % y;
  case EMU_SPECIAL_TID_Z:
    return thread / x / y;
  case EMU_SPECIAL_NTID_X:
    return launch->block[0];
  case EMU_SPECIAL_NTID_Y:
    return launch->block[1];
  case EMU_SPECIAL_NTID_Z:
    return launch->block[2];
  case EMU_SPECIAL_CTAID_X:
  case EMU_SPECIAL_CLUSTERID_X:
    return block->id[0];
  case EMU_SPECIAL_CTAID_Y:
  case EMU_SPECIAL_CLUSTERID_Y:
    return block->id[1];
  case EMU_SPECIAL_CTAID_Z:
  case EMU_SPECIAL_CLUSTERID_Z:
    return block->id[2];
  case EMU_SPECIAL_NCTAID_X:
  case EMU_SPECIAL_NCLUSTERID_X:
    return launch->grid[0];
  case EMU_SPECIAL_NCTAID_Y:
  case EMU_SPECIAL_NCLUSTERID_Y:
    return launch->grid[1];
  case EMU_SPECIAL_NCTAID_Z:
  case EMU_SPECIAL_NCLUSTERID_Z:
    return launch->grid[2];
  case EMU_SPECIAL_LANEID:
    return lane;
  case EMU_SPECIAL_WARPID:
    return warp;
  case EMU_SPECIAL_NWARPID:
    return launch->warps_per_block;
  case EMU_SPECIAL_SMID:
    return (uint32_t)(block->linear % launch->resident_limit);
  case EMU_SPECIAL_NSMID:
    return (uint32_t)launch->resident_limit;
  case EMU_SPECIAL_LANEMASK_EQ:
    return 1u << lane;
  case EMU_SPECIAL_LANEMASK_LE:
    return (2u << lane) - 1;
  case EMU_SPECIAL_LANEMASK_LT:
    return (1u << lane) - 1;
  case EMU_SPECIAL_LANEMASK_GE:
    return ~((1u << lane) - 1);
  case EMU_SPECIAL_LANEMASK_GT:
    return ~((2u << lane) - 1);
  case EMU_SPECIAL_DYNAMIC_SMEM_SIZE:
    return launch->dynamic_shared_bytes;
  case EMU_SPECIAL_TOTAL_SMEM_SIZE:
  case EMU_SPECIAL_AGGR_SMEM_SIZE:
    return launch->kernel->shared_bytes + launch->dynamic_shared_bytes;
  case EMU_SPECIAL_CLUSTER_NCTARANK:
  case EMU_SPECIAL_CLUSTER_NCTAID_X:
  case EMU_SPECIAL_CLUSTER_NCTAID_Y:
  case EMU_SPECIAL_CLUSTER_NCTAID_Z:
    return 1; /* a block is a cluster of its own */
  case EMU_SPECIAL_GRIDID:
  case EMU_SPECIAL_CLUSTER_CTARANK:
  case EMU_SPECIAL_CLUSTER_CTAID_X:
  case EMU_SPECIAL_CLUSTER_CTAID_Y:
  case EMU_SPECIAL_CLUSTER_CTAID_Z:
  case EMU_SPECIAL_COUNT:
    break;
  }
  return 0;
}

static void fill_specials(const emu_block_t *block, uint32_t warp, unsigned char *frame) {
  const emu_kernel_t *kernel = block->launch->kernel;
  for (uint32_t special = 0; special < EMU_SPECIAL_COUNT; special++) {
    uint32_t *lanes = (uint32_t *)(frame + kernel->special_offset[special]);
    if (!kernel->special_offset[special]) continue;
    for (uint32_t lane = 0; lane < 32; lane++)
      lanes[lane] = special_value(block->launch, block, special, warp, lane);
  }
}

/* Those that differ from block to block, and from no lane to another. */
static void fill_block_specials(const emu_block_t *block) {
  static const emu_special_t specials[] = {
      EMU_SPECIAL_CTAID_X,     EMU_SPECIAL_CTAID_Y,     EMU_SPECIAL_CTAID_Z, EMU_SPECIAL_CLUSTERID_X,
      EMU_SPECIAL_CLUSTERID_Y, EMU_SPECIAL_CLUSTERID_Z, EMU_SPECIAL_SMID};
  const emu_kernel_t *kernel = block->launch->kernel;
  for (size_t n = 0; n < sizeof specials / sizeof specials[0]; n++) {
    if (!kernel->special_offset[specials[n]]) continue;
    uint32_t value = special_value(block->launch, block, specials[n], 0, 0);
    for (uint32_t warp = 0; warp < block->warp_count; warp++) {
      uint32_t *lanes = emu_u32(&block->warps[warp], kernel->special_offset[specials[n]]);
      for (uint32_t lane = 0; lane < 32; lane++) lanes[lane] = value;
    }
  }
}

/* --- blocks --- */

static void free_block(emu_block_t *block) {
  if (!block) return;
  emu_sectors_deinit(&block->sectors);
  emu_shadow_destroy(block->shadow);
  for (uint32_t n = 0; block->warps && n < block->warp_count; n++) {
    free(block->warps[n].copies);
    emu_stacks_destroy(block->warps[n].stacks);
  }
  free(block->warps);
  free(block->transfers);
  free(block->frames);
  free(block->shared);
  free(block->local);
  free(block);
}

static unsigned char *aligned_bytes(uint64_t bytes) {
  void *memory = NULL;
  return posix_memalign(&memory, 128, bytes + 128) == 0 ? memory : NULL;
}

/* What stays in a warp's frame from block to block. */
static void fill_frame(emu_block_t *block, uint32_t index) {
  const emu_kernel_t *kernel = block->launch->kernel;
  emu_warp_t *w = &block->warps[index];
  w->block = block;
  w->frame = block->frames + (size_t)index * kernel->frame_bytes;
  w->mask = ~0u;
  fill_constants(kernel, w->frame);
  fill_specials(block, index, w->frame);
  for (uint32_t n = 0; n < kernel->setup_count; n++) kernel->setup[n].fn(w, &kernel->setup[n]);
}

static emu_block_t *make_block(emu_launch_t *launch) {
  const emu_kernel_t *kernel = launch->kernel;
  emu_block_t *block = calloc(1, sizeof *block);
  if (!block) return NULL;
  uint64_t frames_bytes = (uint64_t)kernel->frame_bytes * launch->warps_per_block;
  block->launch = launch;
  block->warp_count = launch->warps_per_block;
  block->warps = calloc(block->warp_count, sizeof *block->warps);
  block->frames = aligned_bytes(frames_bytes);
  block->shared = aligned_bytes((uint64_t)kernel->shared_bytes + launch->dynamic_shared_bytes);
  block->local = calloc((size_t)32 * block->warp_count, kernel->local_bytes + 1u);
  bool shadowed = launch->checks & (KILN_EMU_CHECK_INIT | KILN_EMU_CHECK_RACE);
  if (shadowed)
    block->shadow =
        emu_shadow_create(kernel->shared_bytes + launch->dynamic_shared_bytes, launch->warps_per_block);
  if (!block->warps || !block->frames || !block->shared || !block->local || (shadowed && !block->shadow)) {
    free_block(block);
    return NULL;
  }
  memset(block->frames, 0, frames_bytes);
  for (uint32_t n = 0; n < block->warp_count; n++) fill_frame(block, n);
  return block;
}

/* Only what a new block must not inherit is set. */
static void start_warp(emu_block_t *block, uint32_t index, emu_worker_t *worker) {
  emu_launch_t *launch = block->launch;
  emu_warp_t *w = &block->warps[index];
  uint32_t threads = launch->threads_per_block - index * 32;
  w->frame = block->frames + (size_t)index * launch->kernel->frame_bytes;
  w->lanes = w->ready = threads >= 32 ? ~0u : (1u << threads) - 1;
  w->at_barrier = w->at_warp_sync = w->same_pc = w->served = w->yields = 0;
  w->group = w->mask = w->copy_count = w->cluster_arrived = 0;
  w->fresh = true;
  emu_stacks_restart(w->stacks);
  w->index = index;
  w->block = block;
  w->worker = worker;
  w->stop_pc = EMU_NEVER;
}

/* Starts the next block of the launch, or gives NULL when all are started or memory is short, which is a
 * fault. */
static emu_block_t *start_block(emu_worker_t *worker) {
  emu_launch_t *launch = worker->launch;
  if (atomic_load_explicit(&launch->next_block, memory_order_relaxed) >= launch->block_count) return NULL;
  emu_block_t *block = worker->spare ? worker->spare : make_block(launch);
  if (!block) {
    pthread_mutex_lock(&launch->lock);
    if (launch->fault.result == CUDA_SUCCESS)
      launch->fault =
          (emu_fault_t){CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "the host has no memory for a block's registers"};
    pthread_mutex_unlock(&launch->lock);
    atomic_store(&launch->stop, true);
    return NULL;
  }
  worker->spare = block->next;
  block->next = NULL;
  block->linear = atomic_fetch_add(&launch->next_block, 1);
  if (block->linear >= launch->block_count) {
    block->next = worker->spare;
    worker->spare = block;
    return NULL;
  }
  atomic_fetch_add(&launch->resident_blocks, 1);
  block->id[0] = (uint32_t)(block->linear % launch->grid[0]);
  block->id[1] = (uint32_t)(block->linear / launch->grid[0] % launch->grid[1]);
  block->id[2] = (uint32_t)(block->linear / launch->grid[0] / launch->grid[1]);
  block->live_threads = launch->threads_per_block;
  block->next_warp = 0;
  block->instructions = 0;
  memset(block->barriers, 0, sizeof block->barriers);
  block->barriers_busy = 0;
  block->transfer_count = 0;
  memset(block->shared, 0, (size_t)launch->kernel->shared_bytes + launch->dynamic_shared_bytes);
  if (block->shadow) emu_shadow_restart(block->shadow);
  for (uint32_t n = 0; n < block->warp_count; n++) start_warp(block, n, worker);
  fill_block_specials(block);
  return block;
}

static void finish_block(emu_worker_t *worker, emu_block_t *block) {
  if (worker->launch->counting) {
    uint64_t read, written;
    emu_sectors_count(&block->sectors, &read, &written);
    worker->counters.bytes_read += read * EMU_SECTOR_BYTES;
    worker->counters.bytes_written += written * EMU_SECTOR_BYTES;
    emu_common_add_block(&worker->common, &block->sectors);
    emu_sectors_clear(&block->sectors);
  }
  atomic_fetch_sub(&worker->launch->resident_blocks, 1);
  block->next = worker->spare;
  worker->spare = block;
}

/* --- workers --- */

static bool init_worker(emu_worker_t *worker, emu_launch_t *launch) {
  const emu_kernel_t *kernel = launch->kernel;
  memset(worker, 0, sizeof *worker);
  worker->launch = launch;
  worker->rows = emu_row_ops();
  worker->shared_bytes = kernel->shared_bytes + launch->dynamic_shared_bytes;
  worker->watched = launch->counting || launch->checks;
  worker->block_counts = calloc(kernel->block_count + 1u, sizeof *worker->block_counts);
  worker->ranges = calloc(kernel->site_count + 1u, sizeof *worker->ranges);
  return worker->block_counts && worker->ranges;
}

static void add_instructions(emu_worker_t *worker) {
  const emu_kernel_t *kernel = worker->launch->kernel;
  kiln_emu_counters_t *c = &worker->counters;
  for (uint32_t n = 0; n < kernel->block_count; n++) {
    const emu_basic_block_t *block = &kernel->blocks[n];
    uint64_t runs = worker->block_counts[n].runs;
    c->instructions += runs * block->instructions;
    c->lane_instructions += worker->block_counts[n].lanes * block->instructions;
    c->integer_instructions += runs * block->of_class[EMU_CLASS_INTEGER];
    c->f32_instructions += runs * block->of_class[EMU_CLASS_F32];
    c->f64_instructions += runs * block->of_class[EMU_CLASS_F64];
    c->half_instructions += runs * block->of_class[EMU_CLASS_HALF];
    c->conversion_instructions += runs * block->of_class[EMU_CLASS_CONVERSION];
    c->special_instructions += runs * block->of_class[EMU_CLASS_SPECIAL];
    c->memory_instructions += runs * block->of_class[EMU_CLASS_MEMORY];
    c->control_instructions += runs * block->of_class[EMU_CLASS_CONTROL];
    c->tensor_instructions += runs * block->of_class[EMU_CLASS_TENSOR];
  }
}

static void add_counters(kiln_emu_counters_t *sum, const kiln_emu_counters_t *more) {
#define EMU_ADD(name, text) sum->name += more->name;
  KILN_EMU_COUNTERS(EMU_ADD)
#undef EMU_ADD
}

static void deinit_worker(emu_worker_t *worker) {
  for (emu_block_t *block = worker->resident, *next; block; block = next) {
    next = block->next;
    free_block(block);
  }
  for (emu_block_t *block = worker->spare, *next; block; block = next) {
    next = block->next;
    free_block(block);
  }
  emu_common_deinit(&worker->common);
  free(worker->block_counts);
  free(worker->ranges);
}

static bool device_has_room(const emu_launch_t *launch) {
  return atomic_load_explicit(&((emu_launch_t *)(uintptr_t)launch)->resident_blocks, memory_order_relaxed) <
         launch->resident_limit;
}

/* The worker's next block: a new one while the device has room, else the one that waited longest. */
static emu_block_t *next_block(emu_worker_t *worker) {
  emu_block_t *block = NULL;
  if (!worker->resident || device_has_room(worker->launch)) block = start_block(worker);
  if (!block && worker->resident) {
    block = worker->resident;
    worker->resident = block->next;
    block->next = NULL;
  }
  return block;
}

static void keep_block(emu_worker_t *worker, emu_block_t *block) {
  emu_block_t **end = &worker->resident;
  while (*end) end = &(*end)->next;
  *end = block;
}

typedef struct {
  emu_launch_t *launch;
  emu_pool_t *pool;
  uint64_t started_ns;
  bool asked; /* the pool has been asked for help */
  bool helped;
} run_t;

static void run_blocks(emu_worker_t *worker, run_t *run);

static void help(void *argument) { run_blocks(NULL, argument); }

/* Asks the pool once the launch has lasted a while and blocks are left. */
static void ask_for_help(run_t *run) {
  emu_launch_t *launch = run->launch;
  if (run->asked || launch->deterministic || launch->block_count < 2 ||
      kiln_clock_monotonic_ns() - run->started_ns < HELP_AFTER_NS)
    return;
  run->asked = true;
  run->helped = emu_pool_start(run->pool, help, run);
}

/* A thread's share; the thread that began the launch brings its own worker, helpers make one. */
static void run_blocks(emu_worker_t *main_worker, run_t *run) {
  emu_launch_t *launch = run->launch;
  emu_worker_t own, *worker = main_worker ? main_worker : &own;
  bool ready = init_worker(worker, launch);
  while (ready && !atomic_load(&launch->stop)) {
    emu_block_t *block = next_block(worker);
    if (!block) break;
    if (emu_block_run(block) == EMU_BLOCK_DONE)
      finish_block(worker, block);
    else
      keep_block(worker, block);
    if (main_worker) ask_for_help(run);
  }
  add_instructions(worker);
  pthread_mutex_lock(&launch->lock);
  if (!ready && launch->fault.result == CUDA_SUCCESS)
    launch->fault =
        (emu_fault_t){CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "the host has no memory for the launch"};
  add_counters(&launch->totals, &worker->counters);
  emu_common_merge(&launch->common, &worker->common);
  pthread_mutex_unlock(&launch->lock);
  deinit_worker(worker);
}

static void fill_record(emu_launch_t *launch, uint64_t wall_ns, kiln_emu_launch_t *record) {
  memset(record, 0, sizeof *record);
  snprintf(record->kernel, sizeof record->kernel, "%s", launch->kernel->name);
  memcpy(record->grid, launch->grid, sizeof record->grid);
  memcpy(record->block, launch->block, sizeof record->block);
  record->shared_bytes = launch->kernel->shared_bytes + launch->dynamic_shared_bytes;
  record->schedule_dependent = atomic_load(&launch->waits);
  record->wall_ns = wall_ns;
  record->counters = launch->totals;
  uint64_t shared_by_all = emu_common_count(&launch->common) * EMU_SECTOR_BYTES;
  record->counters.bytes_moved =
      launch->totals.bytes_read + launch->totals.bytes_written - shared_by_all * (launch->block_count - 1);
}

void emu_launch_run(emu_launch_t *launch, emu_pool_t *pool, kiln_emu_launch_t *out_record) {
  if (launch->checks & KILN_EMU_CHECK_RACE && launch->serial % EMU_LAUNCHES_REMEMBERED == 0)
    emu_memory_forget(launch->memory);
  run_t run = {.launch = launch, .pool = pool, .started_ns = kiln_clock_monotonic_ns()};
  emu_worker_t worker;
  run_blocks(&worker, &run);
  if (run.helped) emu_pool_finish(pool);
  fill_record(launch, kiln_clock_monotonic_ns() - run.started_ns, out_record);
}
