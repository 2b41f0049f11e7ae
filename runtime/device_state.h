/* runtime/device_state.h: what the files that make up a device share: device.c (opening), modules.c (kernels
 * on the device), memory.c (buffers), executable.c (loading a plan), prepare.c (a plan for given symbols),
 * execute.c (running it), timing.c (how long the device takes).
 *
 * Nothing outside runtime/ sees these structs. One thread drives a device and all that is on it.
 */
#ifndef KILN_RUNTIME_DEVICE_STATE_H
#define KILN_RUNTIME_DEVICE_STATE_H

#include "base/map.h"
#include "runtime/device.h"
#include "runtime/driver/cuda.h"

/* A loaded image, shared by the executables whose plans name its kernel. */
typedef struct kiln_module {
  struct kiln_module *newer, *older; /* while idle: in the order in which they became so */
  kiln_digest_t key;
  CUmodule handle;
  uint64_t image_bytes;
  uint32_t users;
} kiln_module_t;

typedef struct {
  kiln_map_t *by_key; /* kernel key -> kiln_module_t * */
  kiln_module_t idle; /* ends of the list: idle.older is the newest, idle.newer the oldest */
  uint64_t idle_bytes;
} kiln_modules_t;

struct kiln_device {
  kiln_cuda_t cuda;
  kiln_device_info_t info;
  CUdevice handle;
  CUcontext context;
  CUstream stream;
  uint32_t max_grid[3], max_block[3], max_threads;
  bool lost; /* a sticky error came: nothing works any more */
  bool counting;
  bool apart;      /* every buffer an allocation of its own */
  bool misaligned; /* and inputs and outputs aligned as they are declared, no better */
  kiln_modules_t modules;
  CUdeviceptr pool; /* where buffers of executions lie, one execution at a time */
  uint64_t pool_bytes;
  CUdeviceptr counters; /* of executions: all 0 while none runs */
  uint64_t counter_bytes;
};

/* A buffer of an execution: an input, an output, a slot of temporaries or the workspace. */
typedef struct {
  uint64_t bytes, align_bytes;
  uint64_t offset;               /* in the pool */
  uint64_t declared_align_bytes; /* of a boundary tensor; 0: as an allocation is */
  uint64_t shift_bytes;          /* of the address from the place's own allocation */
  CUdeviceptr address;
  bool has_gaps; /* an output between whose elements no kernel writes */
} kiln_place_t;

/* The table of a grouped launch, as the kernel reads it. */
typedef struct {
  uint8_t *bytes, *rows;
  uint32_t *first;
  uint64_t *offsets; /* per cell that is a place: bytes from its buffer's address */
} kiln_prepared_table_t;

/* One launch, ready to be queued. */
typedef struct {
  kiln_module_t *module;
  CUfunction function;
  uint32_t grid[3];
  bool skip;        /* a grid without blocks */
  uint64_t *values; /* of the parameters, each in the low bytes */
  void **params;    /* their addresses, as the driver takes them */
  kiln_prepared_table_t table;
} kiln_prepared_launch_t;

struct kiln_executable {
  kiln_arena_t arena;
  const kiln_plan_t *plan;
  CUdeviceptr constants; /* all of them in one allocation; 0 when there are none */
  uint64_t *constant_offsets;
  kiln_prepared_launch_t *launches;
  CUdeviceptr tables; /* those in device memory; 0 when there are none */
  void *table_staging;
  uint64_t table_bytes;
  bool tables_changed;  /* since they were uploaded */
  kiln_place_t *places; /* inputs, then outputs, then slots, then the workspace */
  uint32_t place_count;
  /* What places and launches were last prepared for. */
  bool prepared;
  int64_t symbols[KILN_MAX_SYMBOLS];
  uint64_t pool_bytes;    /* all places, with room for the alignment of the first */
  uint64_t pool_align;    /* the largest alignment among them */
  uint64_t counter_bytes; /* that its launches count with, from 0 to 0 */
  CUdeviceptr counters;   /* the device's, or this execution's own when apart */
  CUdeviceptr bound_base; /* the addresses in places and launches follow from it; 0: from none */
  bool apart;             /* the places are allocations, to be freed after this execution */
};

/* What every allocation of a driver is aligned to, and what kernels may rely on for temporaries. */
enum { KILN_PLACE_ALIGN_BYTES = 256 };

/* Where a buffer's place stands in executable->places. */
static inline uint32_t kiln_place_index(const kiln_plan_t *plan, kiln_buffer_ref_t buffer) {
  switch (buffer.kind) {
  case KILN_BUFFER_INPUT:
    return buffer.index;
  case KILN_BUFFER_OUTPUT:
    return plan->input_count + buffer.index;
  default:
    return plan->input_count + plan->output_count + plan->temp_slots[buffer.index];
  }
}

/* device.c: every entry begins with enter (DEVICE_LOST when it is; makes the context current) and hands the
 * status of what it did to settle, which notices a lost device and adds the emulator's report. */
kiln_status_t kiln_device_enter(kiln_device_t *device);
kiln_status_t kiln_device_settle(kiln_device_t *device, kiln_status_t status);

/* modules.c */
bool kiln_modules_init(kiln_modules_t *modules); /* false when memory is short */
void kiln_modules_deinit(kiln_device_t *device); /* all executables are gone */
kiln_status_t kiln_module_acquire(kiln_device_t *device, const kiln_digest_t *key,
                                  const kiln_kernel_artifact_t *artifact, kiln_module_t **out_module);
void kiln_module_release(kiln_device_t *device, kiln_module_t *module); /* accepts NULL */

/* memory.c: gives every place of a prepared executable its address, and counters that are 0; release when the
 * execution is over. One that failed may have left counters anywhere: they are not used again. */
kiln_status_t kiln_places_acquire(kiln_device_t *device, kiln_executable_t *executable);
void kiln_places_release(kiln_device_t *device, kiln_executable_t *executable, bool has_failed);
/* INTERNAL when an execution with buffers apart has left a counter above 0. */
kiln_status_t kiln_counters_check(const kiln_device_t *device, const kiln_executable_t *executable);
void kiln_pool_free(kiln_device_t *device);

/* table.c: the tables of grouped launches: laid out when a plan is loaded; written for symbols and for
 * buffers; uploaded, where they lie in device memory, before the launches of an execution. */
kiln_status_t kiln_tables_create(kiln_device_t *device, kiln_executable_t *executable);
void kiln_tables_free(kiln_device_t *device, kiln_executable_t *executable);
kiln_status_t kiln_table_prepare(const kiln_device_t *device, kiln_executable_t *executable, uint32_t index,
                                 const int64_t *symbols);
void kiln_tables_bind(kiln_executable_t *executable);
kiln_status_t kiln_tables_upload(const kiln_device_t *device, kiln_executable_t *executable);

/* prepare.c: sizes, grids and dimension parameters for these symbols; nothing to do when they are the last
 * ones. */
kiln_status_t kiln_executable_prepare(const kiln_device_t *device, kiln_executable_t *executable,
                                      const int64_t *symbols);
/* These symbols need another plan. */
kiln_status_t kiln_guard_broken(const char *what);

/* execute.c: queues the copies in; queues the launches, and counts them. */
kiln_status_t kiln_execution_upload(const kiln_device_t *device, const kiln_executable_t *executable,
                                    const kiln_host_span_t *inputs);
kiln_status_t kiln_execution_launch(const kiln_device_t *device, const kiln_executable_t *executable,
                                    uint32_t *out_launches);

#endif
