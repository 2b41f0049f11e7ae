/* emulator/driver.h: what the files that export the CUDA Driver API share: the process's device, contexts,
 * streams.
 *
 *   driver_device.c   cuInit, cuDevice*, error texts, the table of modelled devices
 *   driver_context.c  cuCtx*, cuDevicePrimaryCtx*, cuModule*, cuFunc*
 *   driver_memory.c   cuMem*, cuPointerGetAttribute
 *   driver_stream.c   the queues: operations, their order, who runs them
 *   driver_launch.c   cuLaunch*, cuStream*, cuEvent*
 *   driver_emu.c      kilnEmu*: counters, checkers, reports
 *
 * A driver has no handle to pass around, so this is the one folder with process-wide state: `emu_driver()`,
 * and the current context of each thread. A context's lock guards everything in it; no kernel runs under it.
 * Thread: every exported function may be called from any thread.
 */
#ifndef KILN_EMULATOR_DRIVER_H
#define KILN_EMULATOR_DRIVER_H

#include "emulator/launch.h"
#include "emulator/ptx.h"

/* The types of all exports are checked against the table that runtime/ calls them through. */
#define KILN_CUDA(need, name, params) CUresult name params;
#include "base/cuda.def"
#undef KILN_CUDA

typedef struct {
  const char *name;      /* as kilnEmuSetModel takes it */
  const char *full_name; /* as cuDeviceGetName gives it */
  int major, minor;
  int sms;
  uint64_t memory_bytes;
  int shared_per_sm, shared_per_block, threads_per_sm, blocks_per_sm;
  int clock_khz, memory_clock_khz, bus_bits, l2_bytes;
} emu_model_t;

#define EMU_LAUNCHES_KEPT 4096

typedef struct emu_op emu_op_t;

struct CUstream_st {
  CUcontext context;
  emu_op_t *first, *last;
  bool busy;     /* its first operation is running */
  bool blocking; /* keeps order with the default stream */
  CUstream next; /* in its context */
};

struct CUevent_st {
  CUcontext context;
  uint64_t recorded; /* generation asked for last */
  uint64_t reached;  /* generation that happened last */
  uint64_t time_ns;  /* when */
  bool timed;
  CUevent next;
};

struct CUmod_st {
  CUcontext context;
  emu_module_t *module;
  CUfunction functions;
  CUmodule next;
};

struct CUfunc_st {
  CUmodule module;
  const emu_kernel_t *kernel;
  int dynamic_shared_limit;
  CUfunction next;
};

struct CUctx_st {
  pthread_mutex_t lock;
  pthread_cond_t changed; /* an operation ended or was added */
  pthread_cond_t engine_wake;
  pthread_t engine;
  bool engine_started, engine_awake, stopping;
  struct CUstream_st default_stream;
  CUstream streams; /* all others */
  CUevent events;
  CUmodule modules;
  uint64_t pending; /* operations not ended */
  uint64_t sequence;
  CUresult sticky; /* first fault, which every later call returns */
  kiln_buffer_t report;
  emu_memory_t memory;
  unsigned checks;
  bool counting, deterministic;
  uint64_t instruction_limit;
  kiln_emu_launch_t *launches; /* ring of EMU_LAUNCHES_KEPT */
  uint64_t launch_count;
  uint64_t serial; /* of the launch submitted last */
  CUcontext next;
};

typedef struct {
  pthread_mutex_t lock;
  bool initialized;
  const emu_model_t *model;
  emu_pool_t pool;
  bool pool_ready;
  CUcontext contexts; /* alive, to tell handles from garbage */
  CUcontext primary;
  unsigned primary_uses;
  unsigned checks; /* of contexts made from now on */
  bool counting, deterministic;
  uint64_t instruction_limit;
  bool reporting; /* findings and faults go to standard error, too */
} emu_driver_t;

emu_driver_t *emu_driver(void);
const emu_model_t *emu_model(void);

/* The calling thread's context, or the error to return: NOT_INITIALIZED, INVALID_CONTEXT, or the context's
 * sticky fault. */
CUresult emu_current(CUcontext *out_context);

/* Whether the function is of a module that is loaded in the context; a handle that is not is refused, never
 * followed. */
bool emu_is_function(CUcontext context, CUfunction function);

/* --- the queue (driver_stream.c) --- */

typedef enum {
  EMU_OP_LAUNCH,
  EMU_OP_COPY,
  EMU_OP_FILL,
  EMU_OP_HOST,
  EMU_OP_RECORD,
  EMU_OP_WAIT
} emu_op_kind_t;

struct emu_op {
  emu_op_kind_t kind;
  uint64_t sequence; /* order of submission in the context */
  emu_launch_t *launch;
  void *destination;
  const void *source;
  void *staged; /* what `source` points to when the operation owns it */
  size_t bytes;
  uint32_t value, value_bytes;
  CUhostFn function;
  void *user_data;
  CUevent event;
  uint64_t generation;
  emu_op_t *next;
};

void emu_queue_init(CUcontext context);
void emu_queue_deinit(CUcontext context); /* waits for all work */

/* The stream of a handle, which may be NULL or one of CUDA's constants; NULL when it is no stream of the
 * context. */
CUstream emu_stream_of(CUcontext context, CUstream handle);
/* Appends a copy of `op`; the queue owns what it holds, also on failure. */
CUresult emu_enqueue(CUcontext context, CUstream stream, const emu_op_t *op);
/* Runs or waits until the stream, or with NULL every stream, is drained; then the sticky fault. */
CUresult emu_drain(CUcontext context, CUstream stream);
CUresult emu_wait_event(CUcontext context, CUevent event);

#endif
