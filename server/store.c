/* server/store.c: the disk cache's blocking calls, each as one piece of work on libuv's pool. */
#include "server/store.h"

#include "base/clock.h"

#include <stdlib.h>

static void look_up(uv_work_t *work) {
  store_lookup_t *lookup = work->data;
  const kiln_buffer_t *full = &lookup->full_key;
  if (kiln_disk_cache_get(lookup->disk, &lookup->key, full->data, full->size, &lookup->body)) {
    lookup->answer = STORE_FOUND;
    return;
  }
  lookup->answer = STORE_MISSED;
  if (!kiln_disk_cache_usable(lookup->disk)) return;
  lookup->lock = kiln_disk_cache_lock(lookup->disk, &lookup->key, kiln_clock_monotonic_ns());
  if (lookup->lock < 0) {
    lookup->answer = STORE_LOCKED;
  } else if (kiln_disk_cache_get(lookup->disk, &lookup->key, full->data, full->size, &lookup->body)) {
    lookup->answer = STORE_FOUND; /* its last holder wrote it just now */
    store_unlock(&lookup->lock);
  }
}

static void after_look_up(uv_work_t *work, int status) {
  store_lookup_t *lookup = work->data;
  (void)status; /* work is never cancelled */
  lookup->running = false;
  lookup->done(lookup);
}

void store_look_up(uv_loop_t *loop, store_lookup_t *lookup) {
  lookup->work.data = lookup;
  lookup->running = true;
  lookup->lock = -1;
  kiln_buffer_init(&lookup->body);
  uv_queue_work(loop, &lookup->work, look_up, after_look_up);
}

void store_unlock(int *lock) {
  if (*lock >= 0) kiln_disk_cache_unlock(*lock);
  *lock = -1;
}

typedef struct {
  uv_work_t work;
  kiln_disk_cache_t *disk;
  kiln_digest_t key;
  kiln_buffer_t full_key, body;
  int lock;
  bool removes;
} change_t;

static void change(uv_work_t *work) {
  change_t *it = work->data;
  if (it->removes) {
    kiln_disk_cache_remove(it->disk, &it->key);
  } else {
    kiln_disk_cache_put(it->disk, &it->key, it->full_key.data, it->full_key.size, it->body.data,
                        it->body.size);
    kiln_disk_cache_sweep(it->disk);
  }
}

static void after_change(uv_work_t *work, int status) {
  change_t *it = work->data;
  (void)status;
  store_unlock(&it->lock);
  kiln_buffer_deinit(&it->full_key);
  kiln_buffer_deinit(&it->body);
  free(it);
}

void store_write(uv_loop_t *loop, kiln_disk_cache_t *disk, const kiln_digest_t *key,
                 const kiln_buffer_t *full_key, const void *body, size_t size, int lock) {
  change_t *it = calloc(1, sizeof *it);
  if (!it) {
    store_unlock(&lock);
    return;
  }
  *it = (change_t){.work.data = it, .disk = disk, .key = *key, .lock = lock};
  kiln_buffer_append(&it->full_key, full_key->data, full_key->size);
  kiln_buffer_append(&it->body, body, size);
  if (it->full_key.failed || it->body.failed) {
    after_change(&it->work, 0);
  } else {
    uv_queue_work(loop, &it->work, change, after_change);
  }
}

void store_remove(uv_loop_t *loop, kiln_disk_cache_t *disk, const kiln_digest_t *key) {
  change_t *it = calloc(1, sizeof *it);
  if (!it) return;
  *it = (change_t){.work.data = it, .disk = disk, .key = *key, .lock = -1, .removes = true};
  uv_queue_work(loop, &it->work, change, after_change);
}
