/* base/map.h: a hash map from byte strings to 64-bit values (uthash underneath, the one place that includes
 * it).
 *
 * The hash is seeded per process, so that a client cannot choose collisions; nothing observable may depend on
 * the order of iteration, which is the order of insertion. Thread: one at a time.
 */
#ifndef KILN_BASE_MAP_H
#define KILN_BASE_MAP_H

#include "base/arena.h"

typedef struct kiln_map kiln_map_t;
typedef struct kiln_map_entry kiln_map_entry_t;

/* With an arena the map dies with it and never fails; without (NULL) the caller destroys it and creation may
 * give NULL. */
kiln_map_t *kiln_map_create(kiln_arena_t *arena);
void kiln_map_destroy(kiln_map_t *map); /* heap maps only; accepts NULL */

uint64_t *kiln_map_find(const kiln_map_t *map, const void *key, size_t key_size); /* NULL when absent */
/* The value's place, made (as 0) when absent; the key is copied. NULL only for a heap map when memory is
 * short. */
uint64_t *kiln_map_put(kiln_map_t *map, const void *key, size_t key_size, bool *out_added);
bool kiln_map_remove(kiln_map_t *map, const void *key, size_t key_size);
size_t kiln_map_count(const kiln_map_t *map);

kiln_map_entry_t *kiln_map_first(const kiln_map_t *map);
kiln_map_entry_t *kiln_map_next(const kiln_map_entry_t *entry);
const void *kiln_map_key(const kiln_map_entry_t *entry, size_t *out_size);
uint64_t *kiln_map_value(kiln_map_entry_t *entry);

#endif
