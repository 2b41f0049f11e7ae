/* runtime/cache_sweep.c: keeps the disk tier below its limit.
 *
 * Called by the server, on libuv's pool, after puts and on a timer. A round goes over the 256 shards twice, a
 * few of them per call, so that no call takes long and nothing is remembered per entry, however many there
 * are:
 * 1. Count: bytes in all, and by class of age (since the last use, to an hour). Above the limit, the classes
 * tell from which age on entries must go to get down to 90%.
 * 2. Evict: those go; of the class on the border only as many as needed.
 * On the way it removes what writers that died left behind, and lock files that nobody has used for an hour.
 */
#include "base/clock.h"
#include "runtime/cache_disk.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SHARDS_PER_CALL = KILN_CACHE_SHARDS / 16, STALE_S = 3600 };
static const uint64_t recount_interval_ns = 600ull * 1000000000;

typedef struct {
  const char *name;
  uint64_t bytes;
  uint64_t age_s;
} found_t;

/* Four classes per doubling of the age: entries of one class differ by a fifth at most. */
static uint32_t age_class(uint64_t age_s) {
  if (age_s < 4) return (uint32_t)age_s;
  uint32_t exponent = 63 - (uint32_t)__builtin_clzll(age_s);
  return exponent * 4 + (uint32_t)(age_s >> (exponent - 2) & 3);
}

static bool is_entry_name(const char *name) {
  return strlen(name) == 64 && strspn(name, "0123456789abcdef") == 64;
}

/* --- the two visits to an entry ---------------------------------------------------------------- */

static void count_entry(kiln_sweep_t *sweep, const found_t *found) {
  sweep->counted_bytes += found->bytes;
  sweep->bytes_by_age[age_class(found->age_s)] += found->bytes;
}

static bool must_go(kiln_sweep_t *sweep, const found_t *found) {
  uint32_t class = age_class(found->age_s);
  if (class != sweep->oldest_kept) return class > sweep->oldest_kept;
  if (!sweep->spare_bytes) return false;
  sweep->spare_bytes -= found->bytes < sweep->spare_bytes ? found->bytes : sweep->spare_bytes;
  return true;
}

static void evict_entry(kiln_disk_cache_t *cache, int shard, const found_t *found) {
  if (!must_go(&cache->sweep, found) || unlinkat(shard, found->name, 0)) return;
  uint64_t before = atomic_load(&cache->bytes);
  while (!atomic_compare_exchange_weak(&cache->bytes, &before,
                                       before > found->bytes ? before - found->bytes : 0)) {
  }
}

static void visit(kiln_disk_cache_t *cache, int shard, const char *name) {
  struct stat status;
  if (fstatat(shard, name, &status, AT_SYMLINK_NOFOLLOW) || !S_ISREG(status.st_mode)) return;
  kiln_sweep_t *sweep = &cache->sweep;
  uint64_t modified_s = status.st_mtime < 0 ? 0 : (uint64_t)status.st_mtime;
  found_t found = {name, kiln_cache_file_bytes((uint64_t)status.st_size),
                   modified_s < sweep->round_s ? sweep->round_s - modified_s : 0};
  bool temporary = !strncmp(name, KILN_CACHE_TEMPORARY_PREFIX, strlen(KILN_CACHE_TEMPORARY_PREFIX));
  if (temporary && found.age_s > STALE_S) {
    unlinkat(shard, name, 0);
  } else if (is_entry_name(name) && sweep->phase == KILN_SWEEP_COUNT) {
    count_entry(sweep, &found);
  } else if (is_entry_name(name)) {
    evict_entry(cache, shard, &found);
  }
}

/* --- folders ----------------------------------------------------------------------------------- */

static DIR *open_folder(int parent, const char *name) {
  int folder = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  DIR *stream = folder < 0 ? NULL : fdopendir(folder);
  if (folder >= 0 && !stream) close(folder);
  return stream;
}

static void visit_shard(kiln_disk_cache_t *cache, uint32_t index) {
  char name[3];
  snprintf(name, sizeof name, "%02x", index & 0xff);
  DIR *shard = open_folder(cache->entries, name);
  if (!shard) return;
  for (struct dirent *entry; (entry = readdir(shard));) visit(cache, dirfd(shard), entry->d_name);
  closedir(shard);
}

/* Who waits for a lock file looks, once it has the lock, whether the name still leads to it. */
static void remove_stale_lock(kiln_disk_cache_t *cache, const char *name) {
  struct stat status;
  int lock = openat(cache->locks, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
  if (lock < 0) return;
  bool stale = !fstat(lock, &status) && status.st_mtime + STALE_S < (int64_t)cache->sweep.round_s;
  if (stale && !flock(lock, LOCK_EX | LOCK_NB)) unlinkat(cache->locks, name, 0);
  close(lock);
}

static void remove_stale_locks(kiln_disk_cache_t *cache) {
  DIR *locks = open_folder(cache->locks, ".");
  if (!locks) return;
  for (struct dirent *entry; (entry = readdir(locks));) {
    if (is_entry_name(entry->d_name)) remove_stale_lock(cache, entry->d_name);
  }
  closedir(locks);
}

/* --- the round --------------------------------------------------------------------------------- */

static void begin_round(kiln_sweep_t *sweep) {
  *sweep = (kiln_sweep_t){.phase = KILN_SWEEP_COUNT,
                          .round_s = kiln_clock_wall_ms() / 1000,
                          .round_ns = kiln_clock_monotonic_ns()};
}

/* From the oldest class on, until enough would be gone. */
static void choose_what_goes(kiln_sweep_t *sweep, uint64_t excess_bytes) {
  uint32_t class = KILN_CACHE_AGE_CLASSES - 1;
  while (class > 0 && sweep->bytes_by_age[class] < excess_bytes)
    excess_bytes -= sweep->bytes_by_age[class --];
  sweep->oldest_kept = class;
  sweep->spare_bytes = excess_bytes;
}

static void end_pass(kiln_disk_cache_t *cache) {
  kiln_sweep_t *sweep = &cache->sweep;
  bool counted = sweep->phase == KILN_SWEEP_COUNT;
  sweep->next_shard = 0;
  sweep->phase = KILN_SWEEP_IDLE;
  if (!counted) return;
  remove_stale_locks(cache);
  atomic_store(&cache->bytes, sweep->counted_bytes);
  if (sweep->counted_bytes <= cache->limit_bytes) return;
  choose_what_goes(sweep, sweep->counted_bytes - cache->limit_bytes / 10 * 9);
  sweep->phase = KILN_SWEEP_EVICT;
  kiln_log(cache->log, KILN_LOG_INFO, NULL, "the disk cache holds %llu bytes, more than its %llu: evicting",
           (unsigned long long)sweep->counted_bytes, (unsigned long long)cache->limit_bytes);
}

static void step(kiln_disk_cache_t *cache) {
  kiln_sweep_t *sweep = &cache->sweep;
  if (sweep->phase == KILN_SWEEP_IDLE) {
    bool recent = sweep->round_ns && kiln_clock_monotonic_ns() - sweep->round_ns < recount_interval_ns;
    if (recent && atomic_load(&cache->bytes) <= cache->limit_bytes) return;
    begin_round(sweep);
  }
  for (int i = 0; i < SHARDS_PER_CALL; i++) visit_shard(cache, sweep->next_shard++);
  if (sweep->next_shard == KILN_CACHE_SHARDS) end_pass(cache);
}

uint64_t kiln_disk_cache_sweep(kiln_disk_cache_t *cache) {
  if (cache->entries < 0) return 0;
  if (!pthread_mutex_trylock(
          &cache->mutex)) { /* another thread is at it otherwise, or asks for a fault point */
    step(cache);
    pthread_mutex_unlock(&cache->mutex);
  }
  return atomic_load(&cache->bytes);
}
