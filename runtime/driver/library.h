/* runtime/driver/library.h: a shared library opened with dlopen, its functions in a table.
 *
 * The driver and NVRTC are found when the program runs, so that it builds and starts without either. Each has
 * a .def file from which a struct of function pointers and a list of imports are made; the table is filled
 * here, in one place, with one form of error. Called by runtime/driver/cuda.c and nvrtc.c. Thread: any.
 */
#ifndef KILN_RUNTIME_DRIVER_LIBRARY_H
#define KILN_RUNTIME_DRIVER_LIBRARY_H

#include "base/status.h"

/* One function: its exported name and where its pointer goes in the table. */
typedef struct {
  const char *name;
  size_t offset;
  bool required; /* otherwise the pointer is NULL when the library lacks it */
} kiln_import_t;

typedef struct {
  void *handle;
  const char *path; /* as the loader resolved it; owned by the loader */
} kiln_library_t;

/* Opens `name` (a path, or a name for the loader) with its symbols kept apart from everyone else's, and fills
 * the table. UNAVAILABLE with the loader's own words, or with the path of the library and the symbol that it
 * lacks. */
kiln_status_t kiln_library_open(const char *name, const kiln_import_t *imports, size_t import_count,
                                void *table, kiln_library_t *out_library);
void kiln_library_close(kiln_library_t *library); /* accepts a zeroed one */

#endif
