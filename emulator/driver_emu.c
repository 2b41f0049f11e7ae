/* emulator/driver_emu.c: what libkiln-emu offers beyond a driver: counters, checkers, limits, reports. See
 * base/cuda.def. */
#include "base/launch_text.h"
#include "emulator/driver.h"

#include <inttypes.h>
#include <string.h>

/* The context of a call that also works after a fault: counters and reports are wanted most then. */
static CUresult context_with_faults(CUcontext *out_context) {
  *out_context = NULL;
  CUresult result = emu_current(out_context);
  bool none = result == CUDA_ERROR_NOT_INITIALIZED || result == CUDA_ERROR_INVALID_CONTEXT ||
              result == CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return none ? result : CUDA_SUCCESS;
}

/* Settings go to the current context, if any, and to contexts made from now on. */
static CUcontext lock_settings(void) {
  CUcontext context;
  if (context_with_faults(&context)) context = NULL;
  pthread_mutex_lock(&emu_driver()->lock);
  return context;
}

CUresult kilnEmuSetChecks(unsigned int mask) {
  if (mask & ~(unsigned int)KILN_EMU_CHECK_ALL) return CUDA_ERROR_INVALID_VALUE;
  CUcontext context = lock_settings();
  emu_driver()->checks = mask;
  if (context) context->checks = context->memory.checks = mask;
  pthread_mutex_unlock(&emu_driver()->lock);
  return CUDA_SUCCESS;
}

CUresult kilnEmuSetCounting(int enabled) {
  CUcontext context = lock_settings();
  emu_driver()->counting = enabled != 0;
  if (context) context->counting = enabled != 0;
  pthread_mutex_unlock(&emu_driver()->lock);
  return CUDA_SUCCESS;
}

CUresult kilnEmuSetDeterministic(int enabled) {
  CUcontext context = lock_settings();
  emu_driver()->deterministic = enabled != 0;
  if (context) context->deterministic = enabled != 0;
  pthread_mutex_unlock(&emu_driver()->lock);
  return CUDA_SUCCESS;
}

CUresult kilnEmuSetInstructionLimit(uint64_t warp_instructions) {
  CUcontext context = lock_settings();
  emu_driver()->instruction_limit = warp_instructions;
  if (context) context->instruction_limit = warp_instructions;
  pthread_mutex_unlock(&emu_driver()->lock);
  return CUDA_SUCCESS;
}

CUresult kilnEmuGetLaunches(uint64_t first, uint32_t capacity, kiln_emu_launch_t *launches, uint32_t *count,
                            uint64_t *total) {
  CUcontext context;
  CUresult result = context_with_faults(&context);
  if (result) return result;
  if (!count || (capacity && !launches)) return CUDA_ERROR_INVALID_VALUE;
  emu_drain(context, NULL);
  pthread_mutex_lock(&context->lock);
  uint64_t end = context->launch_count, oldest = end > EMU_LAUNCHES_KEPT ? end - EMU_LAUNCHES_KEPT : 0;
  if (first < oldest) first = oldest;
  for (*count = 0; first < end && *count < capacity; first++)
    launches[(*count)++] = context->launches[first % EMU_LAUNCHES_KEPT];
  if (total) *total = end;
  pthread_mutex_unlock(&context->lock);
  return CUDA_SUCCESS;
}

CUresult kilnEmuResetLaunches(void) {
  CUcontext context;
  CUresult result = context_with_faults(&context);
  if (result) return result;
  emu_drain(context, NULL);
  pthread_mutex_lock(&context->lock);
  context->launch_count = 0;
  kiln_buffer_clear(&context->report);
  pthread_mutex_unlock(&context->lock);
  return CUDA_SUCCESS;
}

static void give_text(const kiln_buffer_t *from, char *text, size_t capacity, size_t *needed) {
  const char *all = kiln_buffer_text(from);
  size_t length = strlen(all);
  if (needed) *needed = length + 1;
  if (!capacity) return;
  if (length > capacity - 1) length = capacity - 1;
  memcpy(text, all, length);
  text[length] = 0;
}

static void append_json(kiln_buffer_t *out, const kiln_emu_launch_t *launch) {
  kiln_buffer_puts(out, "{\"kernel\":\"");
  for (const char *c = launch->kernel; *c; c++) /* PTX names hold neither quotes nor backslashes */
    kiln_buffer_append(out, c, 1);
  kiln_buffer_printf(out, "\",\"grid\":[%u,%u,%u],\"block\":[%u,%u,%u],\"shared_bytes\":%u,", launch->grid[0],
                     launch->grid[1], launch->grid[2], launch->block[0], launch->block[1], launch->block[2],
                     launch->shared_bytes);
  kiln_buffer_printf(out, "\"schedule_dependent\":%s,\"wall_ns\":%" PRIu64 ",\"estimated_ns\":%" PRIu64,
                     launch->schedule_dependent ? "true" : "false", launch->wall_ns, launch->estimated_ns);
#define EMU_JSON(name, text) kiln_buffer_printf(out, ",\"" #name "\":%" PRIu64, launch->counters.name);
  KILN_EMU_COUNTERS(EMU_JSON)
#undef EMU_JSON
  kiln_buffer_puts(out, "}");
}

/* Puts all launches that the context keeps into a text, each by `append`, with the given text around and
 * between. */
static CUresult give_launches(void (*append)(kiln_buffer_t *out, const kiln_emu_launch_t *launch),
                              const char *const around[3], char *text, size_t capacity, size_t *needed) {
  CUcontext context;
  CUresult result = context_with_faults(&context);
  if (result) return result;
  if (capacity && !text) return CUDA_ERROR_INVALID_VALUE;
  emu_drain(context, NULL);
  kiln_buffer_t out;
  kiln_buffer_init(&out);
  kiln_buffer_puts(&out, around[0]);
  pthread_mutex_lock(&context->lock);
  uint64_t end = context->launch_count, first = end > EMU_LAUNCHES_KEPT ? end - EMU_LAUNCHES_KEPT : 0;
  for (uint64_t n = first; n < end; n++) {
    if (n > first) kiln_buffer_puts(&out, around[1]);
    append(&out, &context->launches[n % EMU_LAUNCHES_KEPT]);
  }
  pthread_mutex_unlock(&context->lock);
  kiln_buffer_puts(&out, around[2]);
  if (out.failed)
    result = CUDA_ERROR_OUT_OF_MEMORY;
  else
    give_text(&out, text, capacity, needed);
  kiln_buffer_deinit(&out);
  return result;
}

CUresult kilnEmuGetLaunchesJson(char *text, size_t capacity, size_t *needed) {
  return give_launches(append_json, (const char *const[]){"[", ",\n ", "]\n"}, text, capacity, needed);
}

CUresult kilnEmuGetLaunchesText(char *text, size_t capacity, size_t *needed) {
  return give_launches(kiln_launch_text, (const char *const[]){"", "\n", ""}, text, capacity, needed);
}

CUresult kilnEmuGetReport(char *text, size_t capacity, size_t *needed) {
  CUcontext context;
  CUresult result = context_with_faults(&context);
  if (result) return result;
  if (capacity && !text) return CUDA_ERROR_INVALID_VALUE;
  emu_drain(context, NULL);
  pthread_mutex_lock(&context->lock);
  give_text(&context->report, text, capacity, needed);
  pthread_mutex_unlock(&context->lock);
  return CUDA_SUCCESS;
}
