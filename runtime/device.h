/* runtime/device.h: one device behind the CUDA Driver API, real or emulated: memory, modules, execution of
 * plans.
 *
 * Lives in a device process (or in a `--local` command). One thread drives it. Every driver error comes back
 * as a status with the driver's name and number; a sticky one (illegal address, launch time-out) is
 * DEVICE_LOST and the device must be destroyed: its process ends and is started anew.
 */
#ifndef KILN_RUNTIME_DEVICE_H
#define KILN_RUNTIME_DEVICE_H

#include "ir/plan.h"
#include "ir/tensor.h"
#include "runtime/compile.h"

/* "auto", "cuda", "cuda:1", "emulated", "emulated:h200" */
typedef struct {
  enum { KILN_DEVICE_AUTO, KILN_DEVICE_CUDA, KILN_DEVICE_EMULATED } kind;
  uint32_t ordinal;
  char model[32];
} kiln_device_spec_t;

kiln_status_t kiln_device_spec_parse(const char *text, kiln_device_spec_t *out); /* INVALID_ARGUMENT */

typedef struct {
  char name[128];
  char uuid[48];
  kiln_target_t target;
  uint64_t memory_bytes;
  uint32_t clock_khz; /* the SMs' highest; 0 when the driver does not tell */
  bool emulated;
  kiln_image_kind_t image_kind; /* what it takes */
} kiln_device_info_t;

typedef struct kiln_device kiln_device_t;

/* Opens libcuda or libkiln-emu ($KILN_EMU_LIBRARY, else beside the executable in ../lib, else the loader's
 * path), creates a context. AUTO takes CUDA where a GPU is found and the emulated device otherwise
 * (`info.emulated` tells). UNAVAILABLE names the library and what it said. */
kiln_status_t kiln_device_create(const kiln_device_spec_t *spec, kiln_device_t **out_device);
void kiln_device_destroy(kiln_device_t *device);
const kiln_device_info_t *kiln_device_info(const kiln_device_t *device);

/* A loaded plan: modules are shared between plans by kernel key and unloaded, least recently used first, past
 * the limit. */
typedef struct kiln_executable kiln_executable_t;

/* artifacts[i] belongs to launch i's kernel (the same artifact may occur several times). Copies what it
 * needs. */
kiln_status_t kiln_device_load(kiln_device_t *device, const kiln_plan_t *plan,
                               const kiln_kernel_artifact_t *artifacts, kiln_executable_t **out_executable);
void kiln_device_unload(kiln_device_t *device, kiln_executable_t *executable);

/* A tensor that lies in host memory, in storage form with its plan's strides. */
typedef struct {
  void *data;
  size_t bytes;
} kiln_host_span_t;

typedef struct {
  uint64_t upload_ns, launch_ns, download_ns; /* host time: queueing copies in, queueing launches, then all
                                                 the rest: waiting for the device and copying out */
  uint32_t launches;  /* kernels, memcpy and memset of this execution between the copies of operands */
  uint32_t realigned; /* operands that went through an aligned temporary */
} kiln_execution_timings_t;

/* Runs the plan once: checks constraints and guards (INVALID_ARGUMENT; detail rule=guard where another plan
 * for the same graph would do), copies inputs in, launches, copies outputs out. inputs and outputs have
 * exactly the storage bytes of the plan's tensors for these symbols (INVALID_ARGUMENT otherwise). */
kiln_status_t kiln_device_execute(kiln_device_t *device, kiln_executable_t *executable,
                                  const int64_t *symbols, const kiln_host_span_t *inputs,
                                  const kiln_host_span_t *outputs, kiln_execution_timings_t *out_timings);
/* Storage bytes of boundary tensor `index` for these symbols. */
kiln_status_t kiln_plan_tensor_bytes(const kiln_plan_tensor_t *tensor, const int64_t *symbols,
                                     uint64_t *out_bytes);

/* For benchmarks: copies the inputs in (spans as of execute), runs the launches once, then `repeat` times
 * between two of the driver's events: *out_ns is the device's time for one execution's launches. On the
 * emulated device it is the host's time. */
kiln_status_t kiln_device_time(kiln_device_t *device, kiln_executable_t *executable, const int64_t *symbols,
                               const kiln_host_span_t *inputs, uint32_t repeat, double *out_ns);
/* The same for a copy of so many bytes from device memory to device memory. */
kiln_status_t kiln_device_time_copy(kiln_device_t *device, uint64_t bytes, uint32_t repeat, double *out_ns);

/* What the emulated device counted since the last call, as JSON (one object, with an array "launches");
 * UNSUPPORTED on CUDA devices. kiln_device_count(true) must have been called before. */
kiln_status_t kiln_device_count(kiln_device_t *device, bool enable);
kiln_status_t kiln_device_counters(kiln_device_t *device, kiln_buffer_t *out_json);
/* Switches the checkers of the emulated device: a comma list, "all" or "none"; UNSUPPORTED on CUDA devices.
 */
kiln_status_t kiln_device_check(kiln_device_t *device, const char *checkers);
/* While a checker is on: inputs and outputs lie at addresses that are no more aligned than they are declared,
 * so that a kernel which relies on more is found out. */
void kiln_device_misalign(kiln_device_t *device, bool enable);

#endif
