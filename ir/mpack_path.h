/* ir/mpack_path.h: reading decoded MessagePack with errors that say where: "nodes[17].attrs.dim must be an
 * integer".
 *
 * A path is a chain of steps on the C stack, one per level, and costs nothing until something is wrong. All
 * errors are INVALID_ARGUMENT with the path as detail `field`. Used by the graph and plan decoders; on the
 * caller's thread.
 */
#ifndef KILN_IR_MPACK_PATH_H
#define KILN_IR_MPACK_PATH_H

#include "ir/mpack.h"

typedef struct kiln_path {
  const struct kiln_path *outer; /* NULL: the first step */
  const char *key;               /* NULL: an index */
  size_t index;
} kiln_path_t;

kiln_status_t kiln_path_error(const kiln_path_t *at, const char *format, ...)
    __attribute__((format(printf, 2, 3), returns_nonnull));

/* Each is an error unless the value is of that kind (and range). */
kiln_status_t kiln_path_int(const kiln_path_t *at, const kiln_mpack_t *value, int64_t least, int64_t most,
                            int64_t *out);
kiln_status_t kiln_path_u32(const kiln_path_t *at, const kiln_mpack_t *value, uint32_t least, uint32_t most,
                            uint32_t *out);
kiln_status_t kiln_path_bool(const kiln_path_t *at, const kiln_mpack_t *value, bool *out);
/* A copy in the arena; without NUL inside. */
kiln_status_t kiln_path_str(const kiln_path_t *at, const kiln_mpack_t *value, kiln_arena_t *arena,
                            const char **out);
kiln_status_t kiln_path_array(const kiln_path_t *at, const kiln_mpack_t *value, uint32_t *out_count);
/* An array of exactly so many items. */
kiln_status_t kiln_path_array_of(const kiln_path_t *at, const kiln_mpack_t *value, uint32_t count);
/* A map whose keys are among `keys` (ended by NULL), each once. */
kiln_status_t kiln_path_map(const kiln_path_t *at, const kiln_mpack_t *value, const char *const *keys);
/* The value of a key that must be there. */
kiln_status_t kiln_path_need(const kiln_path_t *at, const kiln_mpack_t *map, const char *key,
                             const kiln_mpack_t **out);

#endif
