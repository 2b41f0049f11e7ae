/* emulator/machine.h: the machine that decoded PTX runs on: instructions, warps, blocks, launches, workers.
 *
 * A kernel is an array of emu_inst_t. A warp owns a frame: one lane vector (32 lanes, 4 or 8 bytes each) per
 * special register, constant and virtual register, and one 32-bit mask per predicate; operands are byte
 * offsets into the frame, so that an instruction never asks what kind of operand it has. Each lane has a
 * program counter; the lanes of a warp that share the lowest one run together as w->mask. Program counters
 * rest only on LEADERS: instructions where a basic block begins, marked by a pseudo instruction that counts,
 * merges lanes and checks budgets.
 *
 * Written by ptx_*.c (instructions), launch.c and schedule.c (the rest); run by exec_*.c and lanes_*.c.
 * Thread: a block belongs to one worker at a time, a launch is shared by its workers.
 */
#ifndef KILN_EMULATOR_MACHINE_H
#define KILN_EMULATOR_MACHINE_H

#include "base/cuda_abi.h"
#include "emulator/kernel.h"
#include "emulator/memory.h"
#include "emulator/traffic.h"

#include <stdatomic.h>

#define EMU_NEVER UINT32_MAX /* a program counter that no lane has */

#define EMU_WARP_QUANTUM 8192 /* instructions until the next warp's turn */
#define EMU_YIELD_AFTER 256   /* back edges a group may take while other lanes of its warp are kept waiting */

/* A cp.async that has not happened yet. */
typedef struct {
  unsigned char *to;
  const unsigned char *from; /* NULL to fill with zeros */
  uint8_t bytes, read_bytes;
  uint8_t lane;
  uint32_t group;
} emu_copy_t;

/* Work of the asynchronous proxy that has not happened yet: it does when somebody asks whether it has. */
typedef enum { EMU_TRANSFER_COPY, EMU_TRANSFER_REDUCE, EMU_TRANSFER_ARRIVE } emu_transfer_kind_t;
typedef struct {
  emu_transfer_kind_t kind;
  unsigned char *to;
  const unsigned char *from;
  const emu_inst_t *inst; /* of a reduction: what it does to each element */
  unsigned char *barrier; /* the mbarrier that is told; NULL for the bulk group of its thread */
  uint32_t bytes;
  uint32_t warp, lane, group;
} emu_transfer_t;

/* What a lane's calls within a cycle of calls have kept, the latest last. */
typedef struct {
  unsigned char *bytes;
  size_t used, capacity;
  uint32_t calls;
} emu_stack_t;

struct emu_warp {
  unsigned char *frame;
  uint32_t mask;  /* lanes that run the current instruction */
  uint32_t group; /* lanes that share the program counter; mask is this or, under a guard, fewer */
  uint32_t lanes; /* lanes that exist */
  /* A lane that exists is in one of these or has exited. */
  uint32_t ready, at_barrier, at_warp_sync;
  bool fresh;              /* nothing ran yet: all lanes are at 0, whatever pc says */
  uint32_t same_pc;        /* lanes at a warp sync whose partners must be at the same instruction */
  uint32_t served;         /* lanes that ran since the last time all had their turn */
  uint32_t stop_pc;        /* where the group meets other lanes, or EMU_NEVER */
  uint32_t pc[32];         /* of the lanes that are not in the group */
  uint32_t sync_mask[32];  /* lanes that a lane at a warp sync waits for */
  uint32_t barrier_id[32]; /* barrier that a lane waits at */
  uint32_t index;          /* in its block */
  emu_copy_t *copies;
  uint32_t copy_count, copy_capacity;
  uint32_t copy_group[32];  /* groups that each lane has committed */
  uint32_t bulk_group[32];  /* likewise, of bulk copies */
  emu_stack_t *stacks;      /* of 32 lanes; NULL until a function calls itself */
  uint32_t cluster_arrived; /* lanes that arrived at the cluster's barrier and have yet to pass it */
  int64_t budget;           /* instructions until the warp is preempted */
  uint32_t yields;          /* back edges the group took while others were kept waiting */
  emu_block_t *block;
  emu_worker_t *worker;
};

typedef struct {
  uint32_t arrived;  /* threads; 0 while the barrier is idle */
  uint32_t expected; /* threads; 0 for all that have not exited */
  uint32_t warps;    /* that arrived, a bit each */
  uint32_t holding;  /* threads whose predicate held, for bar.red */
} emu_barrier_t;

#define EMU_CLUSTER_BARRIER 16u /* behind the block's own 16 */

typedef struct emu_shadow emu_shadow_t;

struct emu_block {
  emu_launch_t *launch;
  uint32_t id[3];
  uint64_t linear;
  uint32_t warp_count;
  uint32_t live_threads;
  uint32_t next_warp; /* whose turn it is */
  emu_warp_t *warps;
  unsigned char *frames;
  unsigned char *shared;
  unsigned char *local; /* per thread, kernel->local_bytes each */
  emu_shadow_t *shadow; /* of shared memory, for the checkers; NULL when they are off */
  uint64_t instructions;
  emu_barrier_t barriers[EMU_CLUSTER_BARRIER + 1];
  uint32_t barriers_busy; /* a bit for each at which threads have arrived */
  emu_transfer_t *transfers;
  uint32_t transfer_count, transfer_capacity;
  emu_sector_set_t sectors;
  emu_block_t *next; /* in its worker's list */
};

/* What went wrong first in a launch. */
typedef struct {
  CUresult result; /* CUDA_SUCCESS while nothing did */
  char text[1024];
} emu_fault_t;

struct emu_launch {
  const emu_kernel_t *kernel;
  emu_memory_t *memory;
  uint32_t grid[3], block[3];
  uint32_t dynamic_shared_bytes;
  uint32_t threads_per_block, warps_per_block;
  uint64_t block_count;
  uint64_t resident_limit; /* blocks that the modelled device holds at a time */
  uint64_t instruction_limit;
  uint64_t stack_bytes; /* that a thread's calls may take */
  unsigned checks;
  bool counting;
  bool deterministic; /* blocks take turns on one thread, and clocks count instructions */
  unsigned char *params;
  kiln_buffer_t report;    /* checker findings; guarded by lock */
  uint8_t *finding_counts; /* per instruction; guarded by lock */
  uint64_t serial;         /* of the launch in its context */
  atomic_uint_fast64_t next_block;
  atomic_uint_fast64_t resident_blocks;
  atomic_uint_fast64_t instructions;
  atomic_bool stop;
  atomic_bool waits; /* schedule-dependent */
  pthread_mutex_t lock;
  emu_fault_t fault;          /* guarded by lock */
  kiln_emu_counters_t totals; /* guarded by lock; workers add theirs when they finish */
  emu_common_sectors_t common;
};

/* Groups that entered a basic block, and their lanes. */
typedef struct {
  uint64_t runs, lanes;
} emu_block_count_t;

/* One CPU thread's share of a launch. */
struct emu_worker {
  emu_launch_t *launch;
  const emu_row_ops_t *rows;
  uint32_t shared_bytes; /* of a block, static and dynamic */
  bool watched;          /* memory requests are counted or checked */
  kiln_emu_counters_t counters;
  emu_block_count_t *block_counts; /* per basic block */
  emu_range_t *ranges;             /* per memory instruction: the allocation it touched last */
  emu_block_t *resident;           /* blocks that were preempted, the next to run first */
  emu_block_t *spare;              /* finished blocks whose memory is used again */
  emu_common_sectors_t common;
};

/* Leaves the run loop with the launch's fault set; what handlers return when something is wrong. */
const emu_inst_t *emu_fault(emu_warp_t *w, const emu_inst_t *i, uint32_t lane, CUresult result,
                            const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Chooses the group that runs next and returns its instruction; NULL when no lane can run. */
const emu_inst_t *emu_reschedule(emu_warp_t *w);
/* Puts the running group's lanes down at `pc` and reschedules. */
const emu_inst_t *emu_jump(emu_warp_t *w, uint32_t lanes, uint32_t pc);

void emu_stacks_destroy(emu_stack_t *stacks); /* accepts NULL */
/* Empties them, for the next block. */
void emu_stacks_restart(emu_stack_t *stacks);

/* Copies that `lanes` committed happen, apart from the last `groups_left` groups. */
void emu_copies_finish(emu_warp_t *w, uint32_t lanes, uint32_t groups_left);

/* All copies of the lanes happen, committed or not. */
void emu_copies_finish_all(emu_warp_t *w, uint32_t lanes);

/* Adds a transfer to the warp's block; false when memory is short. */
bool emu_transfer_add(emu_warp_t *w, emu_transfer_t transfer);
/* What the mbarrier waits for happens. */
void emu_transfers_of_barrier(emu_block_t *block, const unsigned char *barrier);
/* What exiting lanes have pending happens, and with the block's last lane everything. */
void emu_transfers_of_exit(emu_warp_t *w, uint32_t lanes);
/* complete_tx and arrive on an mbarrier. */
void emu_mbarrier_complete(unsigned char *barrier, uint32_t bytes);
void emu_mbarrier_arrive(unsigned char *barrier);
void emu_mbarrier_expect_arrival(unsigned char *barrier);

/* Updates one element as the atomic instruction says; gives its old value. `global`: in global memory. */
uint64_t emu_atomic_update(unsigned char *p, const emu_inst_t *i, uint64_t b, uint64_t c, bool global);

/* Opens barriers that wait for nobody any more; called when threads arrive or exit. */
void emu_barriers_recheck(emu_block_t *block);

/* Adds a line to the launch's report, for what a checker found; the kernel goes on. */
void emu_finding(emu_warp_t *w, const emu_inst_t *i, uint32_t lane, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static inline uint32_t *emu_u32(emu_warp_t *w, uint32_t offset) { return (uint32_t *)(w->frame + offset); }
static inline uint64_t *emu_u64(emu_warp_t *w, uint32_t offset) { return (uint64_t *)(w->frame + offset); }

/* Nearly always all 32, and the count is a library call where the compiler may not use the instruction. */
static inline uint32_t emu_lane_count(uint32_t mask) {
  return mask == ~0u ? 32 : (uint32_t)__builtin_popcount(mask);
}

#define EMU_EACH_LANE(lane, mask)                                                                            \
  for (uint32_t left_ = (mask), lane; left_ && (lane = (uint32_t)__builtin_ctz(left_), 1); left_ &= left_ - 1)

#endif
