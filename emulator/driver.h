/* emulator/driver.h: what the files that export the CUDA Driver API share: the process's device, contexts,
 * streams.
 *
 *   driver_device.c   cuInit, cuDevice*, error texts, the table of modelled devices
 *   driver_context.c  cuCtx*, cuDevicePrimaryCtx*, cuModule*, cuFunc*
 *   driver_memory.c   cuMem*, cuPointerGetAttribute
 *   driver_stream.c   the queues: operations, their order, who runs them
 *   driver_launch.c   cuLaunch*, cuStream*, cuEvent*
 *   driver_capture.c  what streams and events do while they are captured
 *   driver_graph.c    cuGraph*: nodes, executable graphs, their launches
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
typedef struct emu_capture emu_capture_t;
typedef struct emu_nodes emu_nodes_t;

/* Nodes of a graph, by number, that what is added next comes after. */
typedef struct {
  uint32_t *items;
  uint32_t count, capacity;
} emu_node_set_t;

struct CUstream_st {
  CUcontext context;
  emu_capture_t *capture; /* NULL while its work runs */
  emu_node_set_t captured;
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
  uint64_t capture; /* serial of the capture that recorded it last, 0 for none */
  emu_node_set_t captured;
  CUevent next;
};

struct CUmod_st {
  CUcontext context;
  uint64_t serial; /* no other module of the context has it, before or after */
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
  emu_capture_t *captures; /* going on */
  CUgraph graphs;
  CUgraphExec execs;
  uint64_t capture_serial, module_serial;
  uint64_t pending; /* operations not ended */
  uint64_t sequence;
  CUresult sticky; /* first fault, which every later call returns */
  kiln_buffer_t report;
  emu_memory_t memory;
  unsigned checks;
  bool counting, deterministic;
  uint64_t instruction_limit;
  size_t limits[3];            /* by CUlimit; the stack's is the one that matters here */
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
  uint64_t module;             /* of a launch: serial */
  bool external;               /* of a record or wait: as a node of a graph */
  bool to_device, from_device; /* of a copy or fill: addresses that lie in an allocation */
  emu_op_t *next;
};

void emu_queue_init(CUcontext context);
void emu_queue_deinit(CUcontext context); /* waits for all work */

/* The stream of a handle, which may be NULL or one of CUDA's constants; NULL when it is no stream of the
 * context. */
CUstream emu_stream_of(CUcontext context, CUstream handle);
/* Appends a copy of `op`, or captures it; the queue owns what it holds, also on failure. */
CUresult emu_enqueue(CUcontext context, CUstream stream, const emu_op_t *op);
/* Appends `op` itself, with the context's lock held. */
void emu_append(CUcontext context, CUstream stream, emu_op_t *op);
/* Runs or waits until the stream, or with NULL every stream, is drained; then the sticky fault. */
CUresult emu_drain(CUcontext context, CUstream stream);
CUresult emu_wait_event(CUcontext context, CUevent event);
/* Frees what an operation holds. */
void emu_op_deinit(emu_op_t *op);

/* A launch like `captured`, which has run or never will; NULL when memory is short. */
emu_launch_t *emu_launch_again(CUcontext context, const emu_launch_t *captured);
bool emu_is_event(CUcontext context, CUevent event); /* with the lock held */

/* --- captures (driver_capture.c); the first three with the context's lock held --- */

/* Why nothing may be appended to the stream: it, or a stream that it waits for, is being captured. */
CUresult emu_capture_refuses(CUcontext context, CUstream stream);
/* Takes an operation of a capturing stream, and what it holds, and records and waits of captured events.
 * False when the operation is to be queued. */
bool emu_capture_takes(CUcontext context, CUstream stream, const emu_op_t *op, CUresult *out_result);
/* Ends the capture that the stream began, or invalidates the one that it was drawn into. */
void emu_capture_forget_stream(CUcontext context, CUstream stream);
/* For calls that wait for a stream, for an event, for the context, and for calls that may do so unseen: the
 * error that they return, having invalidated the captures that they would disturb. */
CUresult emu_capture_check_wait(CUcontext context, CUstream stream);
CUresult emu_capture_check_event(CUcontext context, CUevent event);
CUresult emu_capture_check_all(CUcontext context);
CUresult emu_capture_check_unsafe(CUcontext context);
bool emu_is_capturing(CUcontext context, CUstream stream);
void emu_captures_deinit(CUcontext context);
emu_nodes_t *emu_capture_nodes(emu_capture_t *capture);

/* --- graphs (driver_graph.c) --- */

/* An operation of a graph and the nodes that it comes after, all of lower numbers. */
struct CUgraphNode_st {
  emu_op_t op;
  emu_node_set_t after;
};

/* The nodes of a graph, which its executable graphs share: nothing changes them once the capture has ended.
 */
struct emu_nodes {
  CUgraphNode *items;
  uint32_t count, capacity;
  uint32_t users; /* guarded by the context's lock */
};

emu_nodes_t *emu_nodes_create(void);
void emu_nodes_release(emu_nodes_t *nodes); /* accepts NULL */
/* Adds `op`, whose belongings go to the node, also on failure; false when memory is short. */
bool emu_nodes_add(emu_nodes_t *nodes, const emu_op_t *op, const emu_node_set_t *after);
/* The union of both sets in `set`; false when memory is short. */
bool emu_node_set_add(emu_node_set_t *set, const uint32_t *items, uint32_t count);
void emu_node_set_deinit(emu_node_set_t *set);
/* A graph of the nodes, whose owner it becomes; NULL when memory is short. */
CUgraph emu_graph_create(CUcontext context, emu_nodes_t *nodes);
void emu_graphs_deinit(CUcontext context);

#endif
