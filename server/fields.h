/* server/fields.h: the fields of a request's map, each checked; an error names the field (detail.field).
 *
 * A field that is nil counts as absent: some languages cannot leave one out. `path` is put before the name in
 * errors
 * ("inputs[1]."), "" at the top.
 */
#ifndef KILN_SERVER_FIELDS_H
#define KILN_SERVER_FIELDS_H

#include "ir/mpack.h"

typedef struct {
  kiln_arena_t *arena;
  const kiln_mpack_t *map; /* NULL: no fields */
  const char *path;
} fields_t;

/* The value, NULL when absent. */
const kiln_mpack_t *field_find(const fields_t *fields, const char *name);
kiln_status_t field_require(const fields_t *fields, const char *name, const kiln_mpack_t **out);
kiln_status_t field_int(const fields_t *fields, const char *name, int64_t least, int64_t most,
                        int64_t otherwise, int64_t *out);
kiln_status_t field_bool(const fields_t *fields, const char *name, bool otherwise, bool *out);
/* NUL-terminated, in the arena; text with a NUL inside is refused. */
kiln_status_t field_text(const fields_t *fields, const char *name, const char *otherwise, const char **out);
/* An array of integers of least..most each; *out_count 0 and *out NULL when absent. */
kiln_status_t field_ints(const fields_t *fields, const char *name, int64_t least, int64_t most,
                         size_t max_count, const int64_t **out, size_t *out_count);

/* INVALID_ARGUMENT that names the field and says what was expected. */
kiln_status_t field_wrong(const fields_t *fields, const char *name, const char *expected);
/* Every key must be one of the space-separated names, and occur once. */
kiln_status_t fields_known(const fields_t *fields, const char *names);

#endif
