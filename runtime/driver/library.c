/* runtime/driver/library.c: dlopen and dlsym, and the words for when they fail; see library.h. */
#include "runtime/driver/library.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

static const char *resolved_path(void *handle, const char *name) {
  struct link_map *map = NULL;
  bool known = !dlinfo(handle, RTLD_DI_LINKMAP, &map) && map->l_name[0];
  return known ? map->l_name : name;
}

static kiln_status_t fill_table(const kiln_library_t *library, const kiln_import_t *imports,
                                size_t import_count, void *table) {
  for (size_t i = 0; i < import_count; i++) {
    void *function = dlsym(library->handle, imports[i].name);
    if (!function && imports[i].required) {
      return kiln_error(KILN_UNAVAILABLE, "'%s' lacks the symbol %s", library->path, imports[i].name);
    }
    memcpy((char *)table + imports[i].offset, &function, sizeof function);
  }
  return NULL;
}

kiln_status_t kiln_library_open(const char *name, const kiln_import_t *imports, size_t import_count,
                                void *table, kiln_library_t *out_library) {
  /* Neither NVRTC nor a driver can be taken out of a process cleanly: they leave threads, exit handlers and
   * the memory of their own C++ runtime behind. So a library that was opened stays, closed or not. */
  kiln_library_t library = {.handle = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)};
  if (!library.handle) return kiln_error(KILN_UNAVAILABLE, "cannot open a library: %s", dlerror());
  library.path = resolved_path(library.handle, name);
  kiln_status_t status = fill_table(&library, imports, import_count, table);
  if (status) {
    kiln_library_close(&library);
    return status;
  }
  *out_library = library;
  return NULL;
}

void kiln_library_close(kiln_library_t *library) {
  if (library->handle) dlclose(library->handle);
  *library = (kiln_library_t){0};
}
