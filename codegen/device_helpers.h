/* codegen/device_helpers.h: the functions that generated source may call, as tables of text.
 *
 * A helper stands after those that it calls itself; those for memory (device_memory.c) before all others
 * (device_helpers.c). Inside codegen/ only.
 */
#ifndef KILN_CODEGEN_DEVICE_HELPERS_H
#define KILN_CODEGEN_DEVICE_HELPERS_H

#include <stddef.h>

typedef struct {
  const char *name;
  const char *text;
} kiln_device_helper_t;

#define KILN_DEVICE_FUNCTION "__device__ __forceinline__ "

extern const kiln_device_helper_t kiln_memory_helpers[];
extern const size_t kiln_memory_helper_count;

#endif
