/* runtime/cache_disk.h: what cache_disk.c (look-up and publication) and cache_sweep.c (eviction) share of a
 * disk cache.
 *
 * Every file is reached through descriptors of folders that were checked when the cache was opened, so that a
 * path which changes later changes nothing. Thread: several; what is written after opening is atomic or
 * behind the mutex.
 */
#ifndef KILN_RUNTIME_CACHE_DISK_H
#define KILN_RUNTIME_CACHE_DISK_H

#include "runtime/cache.h"

#include <pthread.h>
#include <stdatomic.h>

#define KILN_CACHE_TEMPORARY_PREFIX ".tmp-"

enum { KILN_CACHE_SHARDS = 256, KILN_CACHE_AGE_CLASSES = 256 };

/* Where the sweeper is in its round; cache_sweep.c explains. */
typedef struct {
  enum { KILN_SWEEP_IDLE, KILN_SWEEP_COUNT, KILN_SWEEP_EVICT } phase;
  uint32_t next_shard;
  uint64_t round_s;  /* wall clock when the round began */
  uint64_t round_ns; /* monotonic, likewise; 0: there was none yet */
  uint64_t counted_bytes;
  uint64_t bytes_by_age[KILN_CACHE_AGE_CLASSES];
  uint32_t oldest_kept; /* older classes are evicted whole, of this one `spare_bytes` */
  uint64_t spare_bytes;
} kiln_sweep_t;

struct kiln_disk_cache {
  int entries; /* descriptor of <folder>/v1; -1: not usable */
  int locks;   /* of <folder>/locks */
  uint64_t limit_bytes;
  const kiln_log_t *log;
  _Atomic uint64_t bytes;           /* in use, as far as counted */
  _Atomic uint64_t paused_until_ns; /* no writes before, after one that failed */
  pthread_mutex_t mutex;            /* of faults and sweep */
  kiln_faults_t *faults;
  kiln_sweep_t sweep;
};

/* What a file of this size takes of the limit: whole blocks, as file systems give them. */
uint64_t kiln_cache_file_bytes(uint64_t size);

#endif
