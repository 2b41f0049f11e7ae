/* The part of the CUDA Driver API that kiln uses, declared by hand and ABI-exact.
 *
 * kiln opens its driver with dlopen, either NVIDIA's libcuda or our own libkiln-emu, so it needs neither
 * CUDA's headers to build nor a stub library to link. This header holds types, constants and the error table;
 * cuda.def beside it lists the functions. runtime/ uses both to call a driver, emulator/ to be one.
 *
 * Names and values are those of CUDA's own cuda.h, which is why they carry no kiln_ prefix; never include
 * both in one file. The last section declares what libkiln-emu offers beyond a driver: counters, checkers and
 * fault reports.
 */
#ifndef KILN_BASE_CUDA_ABI_H
#define KILN_BASE_CUDA_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUctxCreateParams_st CUctxCreateParams; /* only ever passed as NULL */
typedef void (*CUhostFn)(void *user_data);

typedef struct CUuuid_st {
  char bytes[16];
} CUuuid;

/* Every result that a driver call may return, with the text of cuGetErrorString. */
#define KILN_CUDA_RESULTS(X)                                                                                 \
  X(CUDA_SUCCESS, 0, "no error")                                                                             \
  X(CUDA_ERROR_INVALID_VALUE, 1, "invalid argument")                                                         \
  X(CUDA_ERROR_OUT_OF_MEMORY, 2, "out of memory")                                                            \
  X(CUDA_ERROR_NOT_INITIALIZED, 3, "initialization error")                                                   \
  X(CUDA_ERROR_DEINITIALIZED, 4, "driver shutting down")                                                     \
  X(CUDA_ERROR_STUB_LIBRARY, 34, "CUDA driver is a stub library")                                            \
  X(CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER, 36, "API call is not supported in the installed CUDA driver")     \
  X(CUDA_ERROR_DEVICE_UNAVAILABLE, 46, "CUDA-capable device(s) is/are busy or unavailable")                  \
  X(CUDA_ERROR_NO_DEVICE, 100, "no CUDA-capable device is detected")                                         \
  X(CUDA_ERROR_INVALID_DEVICE, 101, "invalid device ordinal")                                                \
  X(CUDA_ERROR_INVALID_IMAGE, 200, "device kernel image is invalid")                                         \
  X(CUDA_ERROR_INVALID_CONTEXT, 201, "invalid device context")                                               \
  X(CUDA_ERROR_MAP_FAILED, 205, "mapping of buffer object failed")                                           \
  X(CUDA_ERROR_UNMAP_FAILED, 206, "unmapping of buffer object failed")                                       \
  X(CUDA_ERROR_NO_BINARY_FOR_GPU, 209, "no kernel image is available for execution on the device")           \
  X(CUDA_ERROR_ECC_UNCORRECTABLE, 214, "uncorrectable ECC error encountered")                                \
  X(CUDA_ERROR_UNSUPPORTED_LIMIT, 215, "limit is not supported on this architecture")                        \
  X(CUDA_ERROR_INVALID_PTX, 218, "a PTX JIT compilation failed")                                             \
  X(CUDA_ERROR_NVLINK_UNCORRECTABLE, 220, "uncorrectable NVLink error detected during the execution")        \
  X(CUDA_ERROR_JIT_COMPILER_NOT_FOUND, 221, "PTX JIT compiler library not found")                            \
  X(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, 222, "the provided PTX was compiled with an unsupported toolchain.") \
  X(CUDA_ERROR_JIT_COMPILATION_DISABLED, 223, "PTX JIT compilation was disabled")                            \
  X(CUDA_ERROR_CONTAINED, 226, "Invalid access of peer GPU memory over nvlink or a hardware error")          \
  X(CUDA_ERROR_INVALID_SOURCE, 300, "device kernel image is invalid")                                        \
  X(CUDA_ERROR_FILE_NOT_FOUND, 301, "file not found")                                                        \
  X(CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND, 302, "shared object symbol not found")                        \
  X(CUDA_ERROR_SHARED_OBJECT_INIT_FAILED, 303, "shared object initialization failed")                        \
  X(CUDA_ERROR_OPERATING_SYSTEM, 304, "OS call failed or operation not supported on this OS")                \
  X(CUDA_ERROR_INVALID_HANDLE, 400, "invalid resource handle")                                               \
  X(CUDA_ERROR_ILLEGAL_STATE, 401, "the operation cannot be performed in the present state")                 \
  X(CUDA_ERROR_NOT_FOUND, 500, "named symbol not found")                                                     \
  X(CUDA_ERROR_NOT_READY, 600, "device not ready")                                                           \
  X(CUDA_ERROR_ILLEGAL_ADDRESS, 700, "an illegal memory access was encountered")                             \
  X(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, 701, "too many resources requested for launch")                      \
  X(CUDA_ERROR_LAUNCH_TIMEOUT, 702, "the launch timed out and was terminated")                               \
  X(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, 708, "cannot set while device is active in this process")             \
  X(CUDA_ERROR_CONTEXT_IS_DESTROYED, 709, "context is destroyed")                                            \
  X(CUDA_ERROR_ASSERT, 710, "device-side assert triggered")                                                  \
  X(CUDA_ERROR_HARDWARE_STACK_ERROR, 714, "hardware stack error")                                            \
  X(CUDA_ERROR_ILLEGAL_INSTRUCTION, 715, "an illegal instruction was encountered")                           \
  X(CUDA_ERROR_MISALIGNED_ADDRESS, 716, "misaligned address")                                                \
  X(CUDA_ERROR_INVALID_ADDRESS_SPACE, 717, "operation not supported on global/shared address space")         \
  X(CUDA_ERROR_INVALID_PC, 718, "invalid program counter")                                                   \
  X(CUDA_ERROR_LAUNCH_FAILED, 719, "unspecified launch failure")                                             \
  X(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, 720, "too many blocks in cooperative launch")                   \
  X(CUDA_ERROR_NOT_PERMITTED, 800, "operation not permitted")                                                \
  X(CUDA_ERROR_NOT_SUPPORTED, 801, "operation not supported")                                                \
  X(CUDA_ERROR_SYSTEM_NOT_READY, 802, "system not yet initialized")                                          \
  X(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, 803,                                                                  \
    "system has unsupported display driver / cuda driver combination")                                       \
  X(CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, 804,                                                          \
    "forward compatibility was attempted on non supported HW")                                               \
  X(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, 900, "operation not permitted when stream is capturing")          \
  X(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, 901, "operation failed due to a previous error during capture")   \
  X(CUDA_ERROR_STREAM_CAPTURE_MERGE, 902, "operation would result in a merge of separate capture sequences") \
  X(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, 903, "capture was not ended in the same stream as it began")        \
  X(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, 904, "capturing stream has unjoined work")                           \
  X(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, 905, "dependency created on uncaptured work in another stream")     \
  X(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, 906,                                                                 \
    "operation would make the legacy stream depend on a capturing blocking stream")                          \
  X(CUDA_ERROR_CAPTURED_EVENT, 907,                                                                          \
    "operation not permitted on an event last recorded in a capturing stream")                               \
  X(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, 908,                                                             \
    "attempt to terminate a thread-local capture sequence from another thread")                              \
  X(CUDA_ERROR_TIMEOUT, 909, "wait operation timed out")                                                     \
  X(CUDA_ERROR_EXTERNAL_DEVICE, 911, "an async error has occured in external entity outside of CUDA")        \
  X(CUDA_ERROR_INVALID_CLUSTER_SIZE, 912,                                                                    \
    "a kernel launch error has occurred due to cluster misconfiguration")                                    \
  X(CUDA_ERROR_UNKNOWN, 999, "unknown error")

typedef enum cudaError_enum {
#define KILN_CUDA_RESULT(name, value, text) name = value,
  KILN_CUDA_RESULTS(KILN_CUDA_RESULT)
#undef KILN_CUDA_RESULT
} CUresult;

typedef enum CUdevice_attribute_enum {
  CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
  CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X = 2,
  CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y = 3,
  CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z = 4,
  CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X = 5,
  CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y = 6,
  CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z = 7,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK = 8,
  CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY = 9,
  CU_DEVICE_ATTRIBUTE_WARP_SIZE = 10,
  CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK = 12,
  CU_DEVICE_ATTRIBUTE_CLOCK_RATE = 13, /* kHz */
  CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
  CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT = 17,
  CU_DEVICE_ATTRIBUTE_INTEGRATED = 18,
  CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY = 19,
  CU_DEVICE_ATTRIBUTE_COMPUTE_MODE = 20,
  CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS = 31,
  CU_DEVICE_ATTRIBUTE_ECC_ENABLED = 32,
  CU_DEVICE_ATTRIBUTE_PCI_BUS_ID = 33,
  CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID = 34,
  CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE = 36,       /* kHz */
  CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH = 37, /* bits */
  CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE = 38,
  CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR = 39,
  CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT = 40,
  CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING = 41,
  CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID = 50,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
  CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED = 78,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81,
  CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR = 82,
  CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY = 83,
  CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED = 90,
  CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH = 95,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
  CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 102,
  CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR = 106,
  CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK = 111,
  CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED = 115,
  CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH = 120,
  CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED = 127,
} CUdevice_attribute;

typedef enum CUfunction_attribute_enum {
  CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
  CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
  CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES = 2,
  CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3,
  CU_FUNC_ATTRIBUTE_NUM_REGS = 4,
  CU_FUNC_ATTRIBUTE_PTX_VERSION = 5,
  CU_FUNC_ATTRIBUTE_BINARY_VERSION = 6,
  CU_FUNC_ATTRIBUTE_CACHE_MODE_CA = 7,
  CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
  CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT = 9,
} CUfunction_attribute;

/* Options of cuModuleLoadDataEx; each value is passed as a pointer-sized integer or a buffer. */
typedef enum CUjit_option_enum {
  CU_JIT_MAX_REGISTERS = 0,
  CU_JIT_INFO_LOG_BUFFER = 3,
  CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES = 4,
  CU_JIT_ERROR_LOG_BUFFER = 5,
  CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6,
  CU_JIT_OPTIMIZATION_LEVEL = 7,
  CU_JIT_GENERATE_DEBUG_INFO = 11,
  CU_JIT_LOG_VERBOSE = 12,
  CU_JIT_GENERATE_LINE_INFO = 13,
  CU_JIT_CACHE_MODE = 14,
} CUjit_option;

typedef enum CUpointer_attribute_enum {
  CU_POINTER_ATTRIBUTE_CONTEXT = 1,
  CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
  CU_POINTER_ATTRIBUTE_DEVICE_POINTER = 3,
  CU_POINTER_ATTRIBUTE_HOST_POINTER = 4,
  CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,
  CU_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11,
  CU_POINTER_ATTRIBUTE_RANGE_SIZE = 12,
} CUpointer_attribute;

typedef enum CUmemorytype_enum {
  CU_MEMORYTYPE_HOST = 1,
  CU_MEMORYTYPE_DEVICE = 2,
} CUmemorytype;

typedef enum CUlimit_enum {
  CU_LIMIT_STACK_SIZE = 0, /* bytes per thread */
  CU_LIMIT_PRINTF_FIFO_SIZE = 1,
  CU_LIMIT_MALLOC_HEAP_SIZE = 2,
} CUlimit;

typedef enum CUdriverProcAddressQueryResult_enum {
  CU_GET_PROC_ADDRESS_SUCCESS = 0,
  CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND = 1,
  CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT = 2,
} CUdriverProcAddressQueryResult;

typedef enum CUstreamCaptureMode_enum {
  CU_STREAM_CAPTURE_MODE_GLOBAL = 0,
  CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1,
  CU_STREAM_CAPTURE_MODE_RELAXED = 2,
} CUstreamCaptureMode;

typedef enum CUstreamCaptureStatus_enum {
  CU_STREAM_CAPTURE_STATUS_NONE = 0,
  CU_STREAM_CAPTURE_STATUS_ACTIVE = 1,
  CU_STREAM_CAPTURE_STATUS_INVALIDATED = 2,
} CUstreamCaptureStatus;

typedef enum CUgraphNodeType_enum {
  CU_GRAPH_NODE_TYPE_KERNEL = 0,
  CU_GRAPH_NODE_TYPE_MEMCPY = 1,
  CU_GRAPH_NODE_TYPE_MEMSET = 2,
  CU_GRAPH_NODE_TYPE_HOST = 3,
  CU_GRAPH_NODE_TYPE_WAIT_EVENT = 6,
  CU_GRAPH_NODE_TYPE_EVENT_RECORD = 7,
} CUgraphNodeType;

enum {
  CU_CTX_SCHED_AUTO = 0,
  CU_CTX_SCHED_BLOCKING_SYNC = 4,
  CU_STREAM_DEFAULT = 0,
  CU_STREAM_NON_BLOCKING = 1,
  CU_EVENT_DEFAULT = 0,
  CU_EVENT_BLOCKING_SYNC = 1,
  CU_EVENT_DISABLE_TIMING = 2,
  CU_EVENT_INTERPROCESS = 4,
  CU_EVENT_WAIT_EXTERNAL = 1,   /* of cuStreamWaitEvent: a node of the captured graph, not a dependency */
  CU_EVENT_RECORD_EXTERNAL = 1, /* of cuEventRecordWithFlags, likewise */
  CU_MEMHOSTALLOC_PORTABLE = 1,
  CU_MEMHOSTALLOC_DEVICEMAP = 2,
  CU_MEMHOSTALLOC_WRITECOMBINED = 4,
};

#define CU_STREAM_LEGACY ((CUstream)0x1)
#define CU_STREAM_PER_THREAD ((CUstream)0x2)
/* The `extra` argument of cuLaunchKernel: parameters as one packed buffer. */
#define CU_LAUNCH_PARAM_END ((void *)0x00)
#define CU_LAUNCH_PARAM_BUFFER_POINTER ((void *)0x01)
#define CU_LAUNCH_PARAM_BUFFER_SIZE ((void *)0x02)

typedef enum CUlaunchAttributeID_enum {
  CU_LAUNCH_ATTRIBUTE_IGNORE = 0,
  CU_LAUNCH_ATTRIBUTE_COOPERATIVE = 2,
  CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION = 4,
  CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6,
  CU_LAUNCH_ATTRIBUTE_PRIORITY = 8,
} CUlaunchAttributeID;

typedef union CUlaunchAttributeValue_union {
  char pad[64];
  int cooperative;
  struct {
    unsigned int x, y, z;
  } clusterDim;
  int programmaticStreamSerializationAllowed;
  int priority;
} CUlaunchAttributeValue;

typedef struct CUlaunchAttribute_st {
  CUlaunchAttributeID id;
  char pad[8 - sizeof(CUlaunchAttributeID)];
  CUlaunchAttributeValue value;
} CUlaunchAttribute;

typedef struct CUlaunchConfig_st {
  unsigned int gridDimX, gridDimY, gridDimZ;
  unsigned int blockDimX, blockDimY, blockDimZ;
  unsigned int sharedMemBytes;
  CUstream hStream;
  CUlaunchAttribute *attrs;
  unsigned int numAttrs;
} CUlaunchConfig;

/* ---- What libkiln-emu offers beyond a driver; docs/emulated-device.md explains each counter. ---- */

/* One row per counter of a launch: name, what it counts. All are sums over the launch and the same in every
 * run, unless the launch is marked schedule-dependent. "Instructions" are warp instructions: one step of up
 * to 32 lanes. */
#define KILN_EMU_COUNTERS(X)                                                                                 \
  X(instructions, "warp instructions of every class")                                                        \
  X(lane_instructions, "lanes active, summed over instructions")                                             \
  X(integer_instructions, "integer, logic, compare, move and address arithmetic")                            \
  X(f32_instructions, "arithmetic on f32")                                                                   \
  X(f64_instructions, "arithmetic on f64")                                                                   \
  X(half_instructions, "arithmetic on f16 and bf16")                                                         \
  X(conversion_instructions, "conversions between types")                                                    \
  X(special_instructions, "approximate functions of the special function unit")                              \
  X(memory_instructions, "loads, stores, atomics and asynchronous copies of every state space")              \
  X(control_instructions, "branches, calls, returns, barriers, fences, votes and shuffles")                  \
  X(tensor_instructions, "matrix multiply-accumulate")                                                       \
  X(divergent_branches, "branches whose lanes went two ways")                                                \
  X(barriers, "block barriers passed, counted once per warp")                                                \
  X(atomics, "atomic and reduction requests to global or shared memory")                                     \
  X(global_load_requests, "global load instructions")                                                        \
  X(global_store_requests, "global store instructions")                                                      \
  X(global_accesses, "lanes of global loads and stores")                                                     \
  X(global_wide_accesses, "of these, those that move 16 bytes in one instruction")                           \
  X(global_load_sectors, "32-byte sectors requested by global loads, distinct within a request")             \
  X(global_store_sectors, "32-byte sectors requested by global stores, distinct within a request")           \
  X(bytes_read, "distinct sectors read per block, summed over blocks, times 32; see bytes_moved")            \
  X(bytes_written, "distinct sectors written per block, summed over blocks, times 32")                       \
  X(bytes_moved, "bytes_read + bytes_written; a sector that every block reads counts once per launch")       \
  X(shared_load_requests, "shared load instructions")                                                        \
  X(shared_store_requests, "shared store instructions")                                                      \
  X(shared_wavefronts, "passes that the 32 banks of shared memory need for those requests")                  \
  X(local_load_requests, "local load instructions")                                                          \
  X(local_store_requests, "local store instructions")                                                        \
  X(local_bytes, "bytes moved to and from local memory by all lanes")                                        \
  X(tensor_operations, "multiply-adds done by matrix instructions")

typedef struct kiln_emu_counters {
#define KILN_EMU_COUNTER(name, text) uint64_t name;
  KILN_EMU_COUNTERS(KILN_EMU_COUNTER)
#undef KILN_EMU_COUNTER
} kiln_emu_counters_t;

/* The record of one finished launch. */
typedef struct kiln_emu_launch {
  char kernel[128]; /* entry name, cut to fit, terminated */
  uint32_t grid[3];
  uint32_t block[3];
  uint32_t shared_bytes;       /* static and dynamic */
  uint32_t schedule_dependent; /* 1 when blocks waited for each other */
  uint64_t wall_ns;            /* on the emulating CPU */
  uint64_t estimated_ns;       /* roofline estimate for the modelled GPU; an estimate, never a measurement */
  kiln_emu_counters_t counters;
} kiln_emu_launch_t;

/* Checkers of kilnEmuSetChecks. Bounds and alignment are always on. */
enum {
  KILN_EMU_CHECK_INIT = 1 << 0,    /* reads of global or shared memory never written */
  KILN_EMU_CHECK_RACE = 1 << 1,    /* conflicting accesses with no barrier or atomic between them */
  KILN_EMU_CHECK_BARRIER = 1 << 2, /* barriers that not all threads of the block reach */
  KILN_EMU_CHECK_SHUFFLE =
      1 << 3, /* shuffle, vote and match masks that name absent lanes, reads of inactive lanes */
  KILN_EMU_CHECK_LEAK = 1 << 4, /* allocations alive when their context ends */
  KILN_EMU_CHECK_ALL = (1 << 5) - 1,
};

#endif
