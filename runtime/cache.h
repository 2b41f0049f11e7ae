/* runtime/cache.h: artifacts by content: a memory tier and a disk tier.
 *
 * An entry is a key, the full key bytes that it is the hash of, and a body; after a hash matches, the full
 * key is compared. The memory tier belongs to the server's loop thread. The disk tier's functions block: the
 * server calls them on libuv's pool only. Files: <folder>/v1/ab/<64 hex>, written to a temporary name beside
 * it and renamed; <folder>/locks/<64 hex>. docs/caches.md says what is in a file and what is promised of it.
 */
#ifndef KILN_RUNTIME_CACHE_H
#define KILN_RUNTIME_CACHE_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/fault.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/status.h"

/* -- memory
 * ------------------------------------------------------------------------------------------------------------
 */
typedef struct kiln_memory_cache kiln_memory_cache_t;

/* Entries are opaque to the cache. `destroy` is called when one is evicted, replaced or left at the end: it
 * gives up the cache's hold on it, and who shares entries with the cache counts holds itself. NULL when
 * memory is short. */
kiln_memory_cache_t *kiln_memory_cache_create(uint64_t limit_bytes, void (*destroy)(void *entry));
void kiln_memory_cache_destroy(kiln_memory_cache_t *cache);
/* The entry, now the most recently used; NULL when absent or when the full key differs. */
void *kiln_memory_cache_get(kiln_memory_cache_t *cache, const kiln_digest_t *key, const void *full_key,
                            size_t full_key_bytes);
/* Takes the entry over; replaces one of the same key; evicts least recently used ones past the limit (never
 * the new one). */
kiln_status_t kiln_memory_cache_put(kiln_memory_cache_t *cache, const kiln_digest_t *key,
                                    const void *full_key, size_t full_key_bytes, void *entry,
                                    uint64_t entry_bytes);
void kiln_memory_cache_evict(kiln_memory_cache_t *cache, const kiln_digest_t *key);
uint64_t kiln_memory_cache_bytes(const kiln_memory_cache_t *cache);
size_t kiln_memory_cache_count(const kiln_memory_cache_t *cache);

/* -- disk
 * --------------------------------------------------------------------------------------------------------------
 */
typedef struct kiln_disk_cache kiln_disk_cache_t; /* safe from several threads */

typedef struct {
  const char *folder;    /* NULL: $CACHE_DIRECTORY, else $XDG_CACHE_HOME/kiln, else ~/.cache/kiln */
  uint64_t limit_bytes;  /* 0: 10 GiB */
  kiln_faults_t *faults; /* may be NULL */
  const kiln_log_t *log;
} kiln_disk_cache_options_t;

/* OUT_OF_MEMORY. Never fails for a folder that cannot be used: it then runs without, after one warning
 * (kiln_disk_cache_usable tells). */
kiln_status_t kiln_disk_cache_open(const kiln_disk_cache_options_t *options, kiln_disk_cache_t **out_cache);
void kiln_disk_cache_close(kiln_disk_cache_t *cache);
bool kiln_disk_cache_usable(const kiln_disk_cache_t *cache);
/* True with the body in *out when a whole entry with this very full key is there. A damaged one is a miss
 * (one warning). */
bool kiln_disk_cache_get(kiln_disk_cache_t *cache, const kiln_digest_t *key, const void *full_key,
                         size_t full_key_bytes, kiln_buffer_t *out);
/* Publishes by rename; false when it could not (disk full: no writes for 60 s). */
bool kiln_disk_cache_put(kiln_disk_cache_t *cache, const kiln_digest_t *key, const void *full_key,
                         size_t full_key_bytes, const void *body, size_t body_bytes);
void kiln_disk_cache_remove(kiln_disk_cache_t *cache, const kiln_digest_t *key);
/* Evicts by modification time down to 90% of the limit when above it; returns bytes in use. Bounded work per
 * call. */
uint64_t kiln_disk_cache_sweep(kiln_disk_cache_t *cache);

/* Between processes (and threads): a lock on <folder>/locks/<key>. Blocks until it has it or the deadline
 * (monotonic ns) passes: -1 then, and at once when there can be no lock file. The caller goes on without; all
 * that is lost is a compile. */
int kiln_disk_cache_lock(kiln_disk_cache_t *cache, const kiln_digest_t *key, uint64_t deadline_ns);
void kiln_disk_cache_unlock(int lock); /* accepts -1 */

#endif
