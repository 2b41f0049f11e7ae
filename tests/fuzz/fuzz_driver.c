/* tests/fuzz/fuzz_driver.c: a byte string as a sequence of driver calls, with handles that are alive, freed
 * or never were, and sizes from nothing to everything: each call must give a result, never a crash, hang or
 * leak.
 *
 * A call is four bytes: which, and three that choose its arguments. Host memory is always real, as no driver
 * can check it. Launches end at a few thousand instructions. One context at a time, made anew after a fault.
 */
#include "emulator/driver.h"

#include <stdlib.h>
#include <string.h>

#define SLOTS 4
#define HOST_BYTES (1u << 20)
#define MOST_CALLS 256

static const char module_text[] =
    ".version 7.0\n.target sm_80\n.address_size 64\n.global .align 8 .b8 table[64];\n"
    ".visible .entry touch(.param .u64 p, .param .u32 n) {\n  .reg .b64 %a; .reg .b32 %v, %n, %t;\n"
    "  ld.param.u64 %a, [p]; ld.param.u32 %n, [n]; mov.u32 %t, %tid.x; mul.lo.u32 %t, %t, %n;\n"
    "  mad.wide.u32 %a, %t, 4, %a; ld.global.u32 %v, [%a]; add.u32 %v, %v, 1; st.global.u32 [%a], %v; ret;\n}\n"
    ".visible .entry spin() {\n LOOP:\n  bra LOOP;\n}\n"
    ".visible .entry meet() {\n  .shared .align 4 .b8 s[256]; .reg .b32 %t;\n  mov.u32 %t, %tid.x;\n"
    "  st.shared.u32 [%t], %t; bar.sync 0; ret;\n}\n";

typedef struct {
  CUcontext context;
  CUdeviceptr addresses[SLOTS];
  void *pinned[SLOTS];
  CUstream streams[SLOTS];
  CUevent events[SLOTS];
  CUmodule modules[SLOTS];
  CUfunction functions[SLOTS];
  unsigned char *host;
  const uint8_t *input; /* all of it, as the text of a module */
  size_t input_bytes;
} session_t;

typedef struct {
  uint8_t kind, a, b, c;
} call_t;

static size_t pick_size(uint8_t byte) {
  static const size_t sizes[] = {
      0,    1,         3,          4,          16,       64,           1000,
      4096, 4097,      HOST_BYTES, 1ull << 40, SIZE_MAX, SIZE_MAX - 3, SIZE_MAX / 4 + 2,
      8,    1ull << 63};
  return sizes[byte % (sizeof sizes / sizeof sizes[0])];
}

/* An address in or near one of the session's allocations, or a wild one. */
static CUdeviceptr pick_address(const session_t *s, uint8_t byte) {
  static const CUdeviceptr wild[] = {0,          1,          4096,       0xdeadbeef000,
                                     UINT64_MAX, 1ull << 48, 1ull << 49, UINT64_MAX - 4095};
  if (byte & 128) return wild[byte % 8];
  return s->addresses[byte % SLOTS] + (byte >> 2 & 15) * 4u;
}

/* Handles of what was destroyed stay in their slots; the highest bit asks for one that never was. */
#define PICK(slots, byte) ((byte)&128 ? (void *)(uintptr_t)((byte)*8u) : (void *)(slots)[(byte) % SLOTS])

static void begin(session_t *s) {
  memset(s->addresses, 0, sizeof s->addresses);
  memset(s->pinned, 0, sizeof s->pinned);
  if (cuCtxCreate_v2(&s->context, 0, 0) != CUDA_SUCCESS) abort();
  kilnEmuSetInstructionLimit(4000);
  kilnEmuSetChecks(KILN_EMU_CHECK_ALL & ~(unsigned)KILN_EMU_CHECK_LEAK);
}

static void call_memory(session_t *s, call_t c) {
  size_t bytes = pick_size(c.c), got;
  CUdeviceptr address = pick_address(s, c.b), base;
  CUstream stream = PICK(s->streams, c.a);
  switch (c.kind % 12) {
  case 0:
    cuMemAlloc_v2(&s->addresses[c.a % SLOTS], bytes);
    break;
  case 1:
    cuMemFree_v2(address);
    break;
  case 2:
    cuMemHostAlloc(&s->pinned[c.a % SLOTS], bytes, c.b);
    break;
  case 3:
    cuMemFreeHost(c.b & 128 ? (void *)(uintptr_t)address : s->pinned[c.a % SLOTS]);
    break;
  case 4:
    cuMemcpyHtoD_v2(address, s->host, bytes);
    break;
  case 5:
    cuMemcpyDtoH_v2(s->host, address, bytes);
    break;
  case 6:
    cuMemcpyDtoDAsync_v2(address, pick_address(s, c.a), bytes, NULL);
    break;
  case 7:
    cuMemcpyDtoHAsync_v2(s->host, address, bytes, stream);
    break;
  case 8:
    cuMemsetD8Async(address, c.a, bytes, stream);
    break;
  case 9:
    cuMemsetD32Async(address, c.a, bytes, stream);
    break;
  case 10:
    cuMemGetAddressRange_v2(&base, &got, address);
    break;
  default:
    cuPointerGetAttribute(s->host, (CUpointer_attribute)c.c, address);
  }
}

static void on_called(void *argument) { (void)argument; }

static void call_stream(session_t *s, call_t c) {
  CUstream stream = PICK(s->streams, c.a);
  CUevent event = PICK(s->events, c.b), other = PICK(s->events, c.c);
  float milliseconds;
  switch (c.kind % 11) {
  case 0:
    cuStreamCreate(&s->streams[c.a % SLOTS], c.b);
    break;
  case 1:
    cuStreamDestroy_v2(stream);
    break;
  case 2:
    cuStreamSynchronize(stream);
    break;
  case 3:
    cuStreamQuery(stream);
    break;
  case 4:
    cuStreamWaitEvent(stream, event, c.c & 3);
    break;
  case 5:
    cuEventCreate(&s->events[c.b % SLOTS], c.c);
    break;
  case 6:
    cuEventDestroy_v2(event);
    break;
  case 7:
    cuEventRecord(event, stream);
    break;
  case 8:
    cuEventSynchronize(event);
    break;
  case 9:
    cuEventElapsedTime(&milliseconds, event, other);
    break;
  default:
    cuLaunchHostFunc(stream, c.b & 64 ? NULL : on_called, NULL);
  }
}

static void load_module(session_t *s, call_t c) {
  char *text = calloc(1, s->input_bytes + 1);
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {s->host, (void *)(uintptr_t)(c.c)};
  if (text && s->input_bytes) memcpy(text, s->input, s->input_bytes);
  cuModuleLoadDataEx(&s->modules[c.a % SLOTS], c.b & 64 ? text : module_text, c.b % 3, options, values);
  free(text);
}

static void call_module(session_t *s, call_t c) {
  static const char *const names[] = {"touch", "spin", "meet", "", "table", "no such name"};
  CUmodule module = PICK(s->modules, c.a);
  CUfunction function = PICK(s->functions, c.b);
  CUdeviceptr address;
  size_t bytes;
  int value;
  switch (c.kind % 7) {
  case 0:
    load_module(s, c);
    break;
  case 1:
    cuModuleUnload(module);
    break;
  case 2:
    cuModuleGetGlobal_v2(&address, &bytes, module, names[c.c % 6]);
    break;
  case 3:
    cuFuncGetAttribute(&value, (CUfunction_attribute)c.c, function);
    break;
  case 4:
    cuFuncSetAttribute(function, (CUfunction_attribute)(c.c % 16), (int)pick_size(c.a));
    break;
  case 5:
    cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, function, (int)pick_size(c.a), pick_size(c.c));
    break;
  default:
    cuModuleGetFunction(&s->functions[c.b % SLOTS], module, names[c.c % 6]);
  }
}

static void call_launch(session_t *s, call_t c) {
  CUfunction function = PICK(s->functions, c.a);
  CUdeviceptr address = pick_address(s, c.b);
  unsigned n = c.c, grid = (unsigned)pick_size(c.b >> 4),
           block = c.c & 64 ? (unsigned)pick_size(c.c) : c.c % 64;
  void *params[] = {&address, c.kind & 16 ? NULL : &n};
  size_t bytes = pick_size(c.c) % 64;
  void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, s->host, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                   CU_LAUNCH_PARAM_END};
  bool packed = c.kind & 32;
  if (c.kind & 64)
    cuLaunchCooperativeKernel(function, grid, 1, 1, block, 1, 1, (unsigned)bytes, PICK(s->streams, c.c),
                              params);
  else
    cuLaunchKernel(function, grid, 1, 1, block, 1 + (c.b & 1), 1, (unsigned)bytes, PICK(s->streams, c.c),
                   packed ? NULL : params, packed ? extra : NULL);
}

static void call_context(session_t *s, call_t c) {
  char text[64];
  size_t needed, total;
  CUcontext context;
  switch (c.kind % 6) {
  case 0:
    cuCtxSetCurrent(c.a & 64 ? PICK(s->streams, c.b) : s->context);
    break;
  case 1:
    cuCtxDestroy_v2(PICK(s->events, c.b));
    break;
  case 2:
    cuMemGetInfo_v2(&needed, &total);
    break;
  case 3:
    kilnEmuGetReport(text, c.a % sizeof text, &needed);
    break;
  case 4:
    kilnEmuGetLaunchesText(text, c.a % sizeof text, &needed);
    break;
  default:
    cuCtxGetCurrent(&context);
  }
}

static void run_call(session_t *s, call_t c) {
  switch (c.kind >> 5) {
  case 0:
  case 1:
    call_memory(s, c);
    break;
  case 2:
    call_stream(s, c);
    break;
  case 3:
  case 4:
    call_module(s, c);
    break;
  case 5:
  case 6:
    call_launch(s, c);
    break;
  default:
    call_context(s, c);
  }
  if (c.kind % 8) return;
  cuCtxSetCurrent(s->context);
  if (cuCtxSynchronize() == CUDA_SUCCESS) return;
  cuCtxDestroy_v2(s->context); /* a fault sticks: only a new context goes on */
  begin(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  session_t s = {.host = calloc(1, HOST_BYTES), .input = data, .input_bytes = size};
  if (!s.host || cuInit(0) != CUDA_SUCCESS) abort();
  begin(&s);
  for (size_t n = 0; n + 4 <= size && n < 4 * MOST_CALLS; n += 4)
    run_call(&s, (call_t){data[n], data[n + 1], data[n + 2], data[n + 3]});
  cuCtxSetCurrent(s.context);
  cuCtxDestroy_v2(s.context);
  free(s.host);
  return 0;
}
