/* emulator/driver_memory.c: allocations, copies, fills. See driver.h.
 *
 * Copies are checked against the table of allocations when they are called, as a driver does, and run in
 * stream order. An asynchronous copy from pageable memory takes its bytes at once; one to pageable memory
 * waits for the stream.
 */
#include "emulator/driver.h"

#include <stdlib.h>
#include <string.h>

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes) {
  CUcontext context;
  CUresult result = emu_current(&context);
  if (result) return result;
  uint64_t place = 0;
  if (!address) return CUDA_ERROR_INVALID_VALUE;
  if ((result = emu_capture_check_unsafe(context))) return result;
  result = emu_memory_alloc(&context->memory, bytes, EMU_ON_DEVICE, &place);
  if (result == CUDA_SUCCESS) *address = place;
  return result;
}

CUresult cuMemFree_v2(CUdeviceptr address) {
  CUcontext context;
  CUresult result = emu_current(&context);
  if (result) return result;
  if (!address) return CUDA_SUCCESS;
  if ((result = emu_capture_check_unsafe(context))) return result;
  emu_drain(context, NULL);
  return emu_memory_free(&context->memory, address, EMU_ON_DEVICE);
}

CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned int flags) {
  CUcontext context;
  CUresult result = emu_current(&context);
  unsigned int known = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
  if (result) return result;
  uint64_t place = 0;
  if (!pointer || flags & ~known) return CUDA_ERROR_INVALID_VALUE;
  if ((result = emu_capture_check_unsafe(context))) return result;
  result = emu_memory_alloc(&context->memory, bytes, EMU_ON_HOST, &place);
  if (result == CUDA_SUCCESS) *pointer = (void *)(uintptr_t)place;
  return result;
}

CUresult cuMemFreeHost(void *pointer) {
  CUcontext context;
  CUresult result = emu_current(&context);
  if (!result) result = emu_capture_check_unsafe(context);
  if (result) return result;
  emu_drain(context, NULL);
  return emu_memory_free(&context->memory, (uint64_t)(uintptr_t)pointer, EMU_ON_HOST);
}

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes) {
  CUcontext context;
  CUresult result = emu_current(&context);
  if (result) return result;
  if (!free_bytes || !total_bytes) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&context->memory.lock);
  *free_bytes = context->memory.total_bytes - context->memory.used_bytes;
  *total_bytes = context->memory.total_bytes;
  pthread_mutex_unlock(&context->memory.lock);
  return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr address) {
  CUcontext context;
  emu_range_t range;
  CUresult result = emu_current(&context);
  if (result) return result;
  if (!emu_memory_find(&context->memory, address, &range)) return CUDA_ERROR_NOT_FOUND;
  if (base) *base = range.base;
  if (bytes) *bytes = range.bytes;
  return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr address) {
  CUcontext context;
  emu_range_t range;
  CUresult result = emu_current(&context);
  if (result) return result;
  if (!data || !emu_memory_find(&context->memory, address, &range)) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
  case CU_POINTER_ATTRIBUTE_CONTEXT:
    *(CUcontext *)data = context;
    break;
  case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    *(unsigned int *)data = range.on_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    break;
  case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    *(CUdeviceptr *)data = address;
    break;
  case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    if (!range.on_host) return CUDA_ERROR_INVALID_VALUE;
    *(void **)data = (void *)(uintptr_t)address;
    break;
  case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    *(int *)data = 0;
    break;
  case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    *(void **)data = (void *)(uintptr_t)range.base;
    break;
  case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    *(size_t *)data = range.bytes;
    break;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

/* --- copies --- */

typedef enum { TO_DEVICE, TO_HOST, ON_DEVICE } direction_t;

static bool covers(CUcontext context, const void *pointer, size_t bytes) {
  emu_range_t range;
  return emu_memory_covers(&context->memory, (uint64_t)(uintptr_t)pointer, bytes, &range);
}

static CUresult check_copy(CUcontext context, const void *destination, const void *source, size_t bytes,
                           direction_t direction) {
  if (!destination || !source) return CUDA_ERROR_INVALID_VALUE;
  if (direction != TO_HOST && !covers(context, destination, bytes)) return CUDA_ERROR_INVALID_VALUE;
  if (direction != TO_DEVICE && !covers(context, source, bytes)) return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

/* Captured copies see pageable memory when the graph runs; others take its bytes at once, or wait. */
static CUresult pass_pageable(emu_op_t *op, direction_t direction, bool *wait) {
  if (direction == TO_HOST && !op->to_device) *wait = true;
  if (direction != TO_DEVICE || op->from_device || *wait) return CUDA_SUCCESS;
  if (!(op->staged = malloc(op->bytes))) return CUDA_ERROR_OUT_OF_MEMORY;
  op->source = memcpy(op->staged, op->source, op->bytes);
  return CUDA_SUCCESS;
}

static CUresult copy(void *destination, const void *source, size_t bytes, CUstream handle,
                     direction_t direction, bool wait) {
  CUcontext context;
  CUresult result = emu_current(&context);
  if (result) return result;
  CUstream stream = emu_stream_of(context, handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (wait && (result = emu_capture_check_unsafe(context))) return result;
  if (bytes == 0) return CUDA_SUCCESS;
  if ((result = check_copy(context, destination, source, bytes, direction))) return result;
  emu_op_t op = {.kind = EMU_OP_COPY,
                 .destination = destination,
                 .source = source,
                 .bytes = bytes,
                 .to_device = covers(context, destination, bytes),
                 .from_device = covers(context, source, bytes)};
  bool captured = emu_is_capturing(context, stream);
  if (!captured && (result = pass_pageable(&op, direction, &wait))) return result;
  if ((result = emu_enqueue(context, stream, &op))) return result;
  return wait ? emu_drain(context, stream) : CUDA_SUCCESS;
}

static void *device(CUdeviceptr address) { return (void *)(uintptr_t)address; }

CUresult cuMemcpyHtoD_v2(CUdeviceptr destination, const void *source, size_t bytes) {
  return copy(device(destination), source, bytes, NULL, TO_DEVICE, true);
}
CUresult cuMemcpyDtoH_v2(void *destination, CUdeviceptr source, size_t bytes) {
  return copy(destination, device(source), bytes, NULL, TO_HOST, true);
}
CUresult cuMemcpyDtoD_v2(CUdeviceptr destination, CUdeviceptr source, size_t bytes) {
  return copy(device(destination), device(source), bytes, NULL, ON_DEVICE, false);
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr destination, const void *source, size_t bytes, CUstream stream) {
  return copy(device(destination), source, bytes, stream, TO_DEVICE, false);
}
CUresult cuMemcpyDtoHAsync_v2(void *destination, CUdeviceptr source, size_t bytes, CUstream stream) {
  return copy(destination, device(source), bytes, stream, TO_HOST, false);
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr destination, CUdeviceptr source, size_t bytes, CUstream stream) {
  return copy(device(destination), device(source), bytes, stream, ON_DEVICE, false);
}

static CUresult set(CUdeviceptr destination, uint32_t value, uint32_t value_bytes, size_t count,
                    CUstream handle) {
  CUcontext context;
  CUresult result = emu_current(&context);
  if (result) return result;
  CUstream stream = emu_stream_of(context, handle);
  size_t bytes;
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (count == 0) return CUDA_SUCCESS;
  if (__builtin_mul_overflow(count, (size_t)value_bytes, &bytes) || destination % value_bytes ||
      !covers(context, device(destination), bytes))
    return CUDA_ERROR_INVALID_VALUE;
  emu_op_t op = {.kind = EMU_OP_FILL,
                 .destination = device(destination),
                 .bytes = bytes,
                 .value = value,
                 .value_bytes = value_bytes,
                 .to_device = true};
  return emu_enqueue(context, stream, &op);
}

CUresult cuMemsetD8_v2(CUdeviceptr destination, unsigned char value, size_t count) {
  return set(destination, value, 1, count, NULL);
}
CUresult cuMemsetD32_v2(CUdeviceptr destination, unsigned int value, size_t count) {
  return set(destination, value, 4, count, NULL);
}
CUresult cuMemsetD8Async(CUdeviceptr destination, unsigned char value, size_t count, CUstream stream) {
  return set(destination, value, 1, count, stream);
}
CUresult cuMemsetD32Async(CUdeviceptr destination, unsigned int value, size_t count, CUstream stream) {
  return set(destination, value, 4, count, stream);
}
