/* runtime/cache_disk.c: the disk tier: looking entries up, publishing them, locks between processes.
 *
 * Called by the server on libuv's pool after the memory tier missed, and after a reply was sent (see
 * cache.h). Publication: the whole file is written under a temporary name in the shard's folder and renamed.
 * A reader sees the old file, the new file or none, however the writer ends. Nothing is synced to the disk:
 * after a power loss a renamed file may be short or zero, which its checksum tells, and a miss costs one
 * compile; a sync per entry would cost every compile.
 */
#include "runtime/cache_disk.h"
#include "base/clock.h"
#include "runtime/cache_entry.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const uint64_t default_limit_bytes = 10ull << 30;
static const uint64_t pause_after_failure_ns = 60ull * 1000000000;
static const int64_t touch_interval_s = 3600;

uint64_t kiln_cache_file_bytes(uint64_t size) { return (size + 4095) / 4096 * 4096; }

/* --- opening ----------------------------------------------------------------------------------- */

/* The folder that the environment names, on the heap; NULL when it names none. */
static char *default_folder(void) {
  const char *directory = getenv("CACHE_DIRECTORY"); /* from systemd; may be a list */
  const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  char *folder = NULL;
  int length = -1;
  if (directory && directory[0]) {
    length = asprintf(&folder, "%.*s", (int)strcspn(directory, ":"), directory);
  } else if (xdg && xdg[0] == '/') {
    length = asprintf(&folder, "%s/kiln", xdg);
  } else if (home && home[0]) {
    length = asprintf(&folder, "%s/.cache/kiln", home);
  }
  return length < 0 ? NULL : folder;
}

/* mkdir -p, for the owner alone. What fails shows when the folder is opened. */
static void make_folders(char *path) {
  for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = 0;
    mkdir(path, 0700);
    *slash = '/';
  }
  mkdir(path, 0700);
}

/* A descriptor of the folder if it is ours alone to write; -1 with the reason. */
static int open_own_folder(int parent, const char *path, const char **out_reason) {
  int folder = openat(parent, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  struct stat status;
  *out_reason = NULL;
  if (folder < 0 || fstat(folder, &status)) {
    *out_reason = strerror(errno);
  } else if (status.st_uid != geteuid()) {
    *out_reason = "it belongs to another user";
  } else if (status.st_mode & (S_IWGRP | S_IWOTH)) {
    *out_reason = "others may write to it";
  } else if (faccessat(folder, ".", W_OK | X_OK, AT_EACCESS)) {
    *out_reason = strerror(errno);
  }
  if (*out_reason && folder >= 0) close(folder);
  return *out_reason ? -1 : folder;
}

static void open_folders(kiln_disk_cache_t *cache, char *path) {
  const char *reason;
  make_folders(path);
  int root = open_own_folder(AT_FDCWD, path, &reason);
  if (root >= 0) {
    mkdirat(root, "v1", 0700);
    mkdirat(root, "locks", 0700);
    cache->entries = open_own_folder(root, "v1", &reason);
    if (cache->entries >= 0) cache->locks = open_own_folder(root, "locks", &reason);
    close(root);
  }
  if (cache->locks >= 0) return;
  if (cache->entries >= 0) close(cache->entries);
  cache->entries = -1;
  kiln_log(cache->log, KILN_LOG_WARNING, NULL, "no disk cache: '%s' cannot be used: %s", path, reason);
}

kiln_status_t kiln_disk_cache_open(const kiln_disk_cache_options_t *options, kiln_disk_cache_t **out_cache) {
  kiln_disk_cache_t *cache = calloc(1, sizeof *cache);
  if (!cache) return kiln_error(KILN_OUT_OF_MEMORY, "out of memory while opening the disk cache");
  cache->entries = cache->locks = -1;
  cache->limit_bytes = options->limit_bytes ? options->limit_bytes : default_limit_bytes;
  cache->faults = options->faults;
  cache->log = options->log;
  pthread_mutex_init(&cache->mutex, NULL);
  char *path = options->folder ? strdup(options->folder) : default_folder();
  if (path && path[0]) {
    open_folders(cache, path);
  } else {
    kiln_log(cache->log, KILN_LOG_WARNING, NULL,
             "no disk cache: none of CACHE_DIRECTORY, XDG_CACHE_HOME and HOME names a folder");
  }
  free(path);
  *out_cache = cache;
  return NULL;
}

void kiln_disk_cache_close(kiln_disk_cache_t *cache) {
  if (!cache) return;
  if (cache->entries >= 0) close(cache->entries);
  if (cache->locks >= 0) close(cache->locks);
  pthread_mutex_destroy(&cache->mutex);
  free(cache);
}

bool kiln_disk_cache_usable(const kiln_disk_cache_t *cache) { return cache->entries >= 0; }

/* --- names ------------------------------------------------------------------------------------- */

static bool fault_fires(kiln_disk_cache_t *cache, kiln_fault_point_t point, int64_t *out_argument) {
  if (!cache->faults) return false;
  pthread_mutex_lock(&cache->mutex);
  bool fires = kiln_fault(cache->faults, point, out_argument);
  pthread_mutex_unlock(&cache->mutex);
  return fires;
}

typedef struct {
  char hex[65];
  char path[3 + 65]; /* "ab/<64 hex>", below v1 */
  char fields[4 + 65];
} entry_name_t;

static entry_name_t name_entry(kiln_disk_cache_t *cache, const kiln_digest_t *key) {
  kiln_digest_t seen = *key;
  int64_t bits;
  if (fault_fires(cache, KILN_FAULT_cache_short_hash, &bits)) {
    for (int64_t bit = bits < 0 ? 0 : bits; bit < 256; bit++)
      seen.bytes[bit / 8] &= (uint8_t) ~(0x80 >> bit % 8);
  }
  entry_name_t name;
  kiln_digest_hex(&seen, name.hex);
  snprintf(name.path, sizeof name.path, "%.2s/%s", name.hex, name.hex);
  snprintf(name.fields, sizeof name.fields, "key=%s", name.hex);
  return name;
}

/* --- looking up -------------------------------------------------------------------------------- */

/* Reads the file to its end, however long it has become; false when it cannot. */
static bool read_all(int file, uint64_t expected_bytes, kiln_buffer_t *out) {
  kiln_buffer_clear(out);
  for (;;) {
    size_t room = out->size < expected_bytes ? (size_t)(expected_bytes - out->size) + 1 : 4096;
    if (!kiln_buffer_reserve(out, room)) return false;
    ssize_t got = read(file, out->data + out->size, room);
    if (got < 0 && errno == EINTR) continue;
    if (got > 0) out->size += (size_t)got;
    out->data[out->size] = 0;
    if (got <= 0) return got == 0;
  }
}

/* Entries are evicted by modification time, so a hit renews it; not more often than the sweeper could tell
 * apart. */
static void touch(int file, const struct stat *status) {
  if ((int64_t)(kiln_clock_wall_ms() / 1000) - status->st_mtime > touch_interval_s) futimens(file, NULL);
}

typedef enum { FOUND, ABSENT, SPOILED } found_t;

/* FOUND leaves the content in *out; SPOILED gives a reason. What memory or descriptors were too short for is
 * ABSENT: that is not the entry's fault. */
static found_t read_entry(kiln_disk_cache_t *cache, int file, const void *full_key, size_t full_key_bytes,
                          kiln_buffer_t *out, const char **out_reason) {
  struct stat status;
  *out_reason = "it is no file";
  if (fstat(file, &status) || !S_ISREG(status.st_mode)) return SPOILED;
  *out_reason = "it is larger than the whole cache may be";
  if ((uint64_t)status.st_size > cache->limit_bytes) return SPOILED;
  *out_reason = "it cannot be read";
  if (!read_all(file, (uint64_t)status.st_size, out)) return out->failed ? ABSENT : SPOILED;
  const void *content;
  size_t content_bytes;
  *out_reason = "it is damaged";
  switch (kiln_cache_entry_decode(out->data, out->size, full_key, full_key_bytes, &content, &content_bytes)) {
  case KILN_ENTRY_DAMAGED:
    return SPOILED;
  case KILN_ENTRY_OTHER_KEY:
    return ABSENT;
  case KILN_ENTRY_GOOD:
    break;
  }
  kiln_buffer_consume(out, (size_t)((const char *)content - out->data));
  touch(file, &status);
  return FOUND;
}

static found_t open_and_read(kiln_disk_cache_t *cache, const char *path, const void *full_key,
                             size_t full_key_bytes, kiln_buffer_t *out, const char **out_reason) {
  /* O_NONBLOCK: something that is no file must not make us wait. */
  int file = openat(cache->entries, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) {
    *out_reason = strerror(errno);
    return errno == EACCES || errno == ELOOP || errno == ENXIO ? SPOILED : ABSENT;
  }
  found_t found = read_entry(cache, file, full_key, full_key_bytes, out, out_reason);
  close(file);
  return found;
}

bool kiln_disk_cache_get(kiln_disk_cache_t *cache, const kiln_digest_t *key, const void *full_key,
                         size_t full_key_bytes, kiln_buffer_t *out) {
  if (cache->entries < 0) return false;
  entry_name_t name = name_entry(cache, key);
  const char *reason;
  found_t found = open_and_read(cache, name.path, full_key, full_key_bytes, out, &reason);
  if (found == SPOILED) {
    kiln_log(cache->log, KILN_LOG_WARNING, name.fields, "a cache entry is thrown away: %s", reason);
    unlinkat(cache->entries, name.path, 0); /* so that it is met, and told, once */
  }
  if (found != FOUND) kiln_buffer_clear(out);
  return found == FOUND;
}

void kiln_disk_cache_remove(kiln_disk_cache_t *cache, const kiln_digest_t *key) {
  if (cache->entries < 0) return;
  entry_name_t name = name_entry(cache, key);
  unlinkat(cache->entries, name.path, 0);
}

/* --- publishing -------------------------------------------------------------------------------- */

static int create_temporary(kiln_disk_cache_t *cache, const entry_name_t *name, char *path,
                            size_t path_bytes) {
  uint64_t random = 0;
  if (getrandom(&random, sizeof random, 0) != sizeof random) return -1;
  snprintf(path, path_bytes, "%.2s/" KILN_CACHE_TEMPORARY_PREFIX "%016llx", name->hex,
           (unsigned long long)random);
  const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
  int file = openat(cache->entries, path, flags, 0600);
  if (file >= 0 || errno != ENOENT) return file;
  char shard[3] = {name->hex[0], name->hex[1], 0};
  mkdirat(cache->entries, shard, 0700);
  return openat(cache->entries, path, flags, 0600);
}

static bool write_all(int file, const char *data, size_t size) {
  while (size) {
    ssize_t written = write(file, data, size);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    data += written;
    size -= (size_t)written;
  }
  return true;
}

static bool write_file(kiln_disk_cache_t *cache, int file, const kiln_buffer_t *bytes) {
  size_t half = bytes->size / 2;
  if (!write_all(file, bytes->data, half)) return false;
  if (fault_fires(cache, KILN_FAULT_cache_write_dies, NULL)) raise(SIGKILL);
  if (fault_fires(cache, KILN_FAULT_cache_write_fails, NULL)) {
    errno = ENOSPC;
    return false;
  }
  return write_all(file, bytes->data + half, bytes->size - half);
}

/* Renames over what is there. A folder under the entry's name, which no rename replaces, is moved out of the
 * way. */
static bool publish(kiln_disk_cache_t *cache, const char *temporary, const entry_name_t *name) {
  if (!renameat(cache->entries, temporary, cache->entries, name->path)) return true;
  if (errno != EISDIR) return false;
  char aside[sizeof name->path + 8];
  snprintf(aside, sizeof aside, "%s.damaged", name->path);
  if (unlinkat(cache->entries, name->path, AT_REMOVEDIR) &&
      renameat(cache->entries, name->path, cache->entries, aside)) {
    return false;
  }
  return !renameat(cache->entries, temporary, cache->entries, name->path);
}

static bool store(kiln_disk_cache_t *cache, const entry_name_t *name, const kiln_buffer_t *bytes) {
  char temporary[64];
  int file = create_temporary(cache, name, temporary, sizeof temporary);
  if (file < 0) return false;
  bool stored = write_file(cache, file, bytes);
  int error = errno;
  if (close(file) && stored) { /* network file systems say only now that the disk is full */
    stored = false;
    error = errno;
  }
  if (stored && !publish(cache, temporary, name)) {
    stored = false;
    error = errno;
  }
  if (!stored) unlinkat(cache->entries, temporary, 0);
  errno = error;
  return stored;
}

static void pause_writes(kiln_disk_cache_t *cache, const char *fields, int error) {
  kiln_log(cache->log, KILN_LOG_WARNING, fields, "nothing is written to the cache for 60 s: %s",
           strerror(error));
  atomic_store(&cache->paused_until_ns, kiln_clock_monotonic_ns() + pause_after_failure_ns);
}

bool kiln_disk_cache_put(kiln_disk_cache_t *cache, const kiln_digest_t *key, const void *full_key,
                         size_t full_key_bytes, const void *body, size_t body_bytes) {
  if (cache->entries < 0 || kiln_clock_monotonic_ns() < atomic_load(&cache->paused_until_ns)) return false;
  entry_name_t name = name_entry(cache, key);
  kiln_buffer_t bytes;
  kiln_buffer_init(&bytes);
  kiln_cache_entry_encode(&bytes, full_key, full_key_bytes, body, body_bytes);
  bool fits = !bytes.failed && bytes.size <= cache->limit_bytes;
  bool stored = fits && store(cache, &name, &bytes);
  if (stored) atomic_fetch_add(&cache->bytes, kiln_cache_file_bytes(bytes.size));
  if (fits && !stored) pause_writes(cache, name.fields, errno);
  kiln_buffer_deinit(&bytes);
  return stored;
}

/* --- locks ------------------------------------------------------------------------------------- */

/* True when the name still leads to the locked file: the sweeper removes lock files, holding them as it does.
 */
static bool lock_is_current(const kiln_disk_cache_t *cache, int lock, const char *hex) {
  struct stat held, named;
  return !fstat(lock, &held) && !fstatat(cache->locks, hex, &named, 0) && held.st_ino == named.st_ino;
}

typedef enum { LOCKED, BUSY, NO_LOCK } lock_state_t;

static lock_state_t try_lock(const kiln_disk_cache_t *cache, const char *hex, int *out_lock) {
  int lock = openat(cache->locks, hex, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  *out_lock = lock;
  if (lock < 0) return NO_LOCK; /* a full disk, say: waiting would not help */
  if (!flock(lock, LOCK_EX | LOCK_NB) && lock_is_current(cache, lock, hex)) return LOCKED;
  close(lock);
  *out_lock = -1;
  return BUSY;
}

/* flock has no deadline, so this asks again, at first after a millisecond and at last every 20. */
int kiln_disk_cache_lock(kiln_disk_cache_t *cache, const kiln_digest_t *key, uint64_t deadline_ns) {
  if (cache->entries < 0) return -1;
  char hex[65];
  kiln_digest_hex(key, hex);
  const uint64_t longest_ns = 20000000;
  for (uint64_t wait_ns = 1000000;; wait_ns = wait_ns * 2 > longest_ns ? longest_ns : wait_ns * 2) {
    int lock;
    if (try_lock(cache, hex, &lock) != BUSY) return lock;
    uint64_t now_ns = kiln_clock_monotonic_ns();
    if (now_ns >= deadline_ns) return -1;
    uint64_t left_ns = deadline_ns - now_ns;
    nanosleep(&(struct timespec){.tv_nsec = (long)(wait_ns < left_ns ? wait_ns : left_ns)}, NULL);
  }
}

void kiln_disk_cache_unlock(int lock) {
  if (lock >= 0) close(lock);
}
