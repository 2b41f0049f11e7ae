/* server/store.h: the disk cache, off the loop: look-ups and writes on libuv's pool, answers on the loop.
 *
 * A look-up that misses takes the key's lock between processes, so that two daemons on one folder do not
 * compile the same thing at once. It never waits for the lock on a pool thread (there are few): the answer
 * says that another process has it, and the flight asks again. The lock is given back after the entry was
 * written.
 */
#ifndef KILN_SERVER_STORE_H
#define KILN_SERVER_STORE_H

#include "base/buffer.h"
#include "runtime/cache.h"

#include <uv.h>

typedef struct store_lookup store_lookup_t;

typedef enum { STORE_FOUND, STORE_MISSED, STORE_LOCKED } store_answer_t;

struct store_lookup {
  uv_work_t work;
  kiln_disk_cache_t *disk;
  kiln_digest_t key;
  kiln_buffer_t full_key; /* the caller's, unchanged while the look-up runs */
  kiln_buffer_t body;     /* STORE_FOUND: the caller takes it */
  int lock;               /* STORE_MISSED: to give to store_write or store_unlock; -1: none */
  store_answer_t answer;
  bool running;
  void (*done)(store_lookup_t *lookup); /* on the loop */
  void *owner;
};

/* Starts the look-up; `done` is always called, later. */
void store_look_up(uv_loop_t *loop, store_lookup_t *lookup);
/* Copies the entry and writes it when the pool comes to it, then gives the lock back (-1: none). */
void store_write(uv_loop_t *loop, kiln_disk_cache_t *disk, const kiln_digest_t *key,
                 const kiln_buffer_t *full_key, const void *body, size_t size, int lock);
void store_remove(uv_loop_t *loop, kiln_disk_cache_t *disk, const kiln_digest_t *key);
void store_unlock(int *lock);

#endif
