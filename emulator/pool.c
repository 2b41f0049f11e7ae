/* emulator/pool.c: see pool.h. */
#include "emulator/pool.h"

#include <string.h>

void emu_pool_init(emu_pool_t *pool, unsigned limit) {
  memset(pool, 0, sizeof *pool);
  pool->limit = limit < EMU_POOL_MAX ? limit : EMU_POOL_MAX;
  pthread_mutex_init(&pool->lock, NULL);
  pthread_cond_init(&pool->wake, NULL);
  pthread_cond_init(&pool->done, NULL);
}

void emu_pool_deinit(emu_pool_t *pool) {
  pthread_mutex_lock(&pool->lock);
  pool->stopping = true;
  pthread_cond_broadcast(&pool->wake);
  pthread_mutex_unlock(&pool->lock);
  for (unsigned n = 0; n < pool->thread_count; n++) pthread_join(pool->threads[n], NULL);
  pthread_cond_destroy(&pool->done);
  pthread_cond_destroy(&pool->wake);
  pthread_mutex_destroy(&pool->lock);
}

static void *helper_main(void *argument) {
  emu_pool_t *pool = argument;
  unsigned long seen = 0;
  pthread_mutex_lock(&pool->lock);
  while (!pool->stopping) {
    if (!pool->work || pool->round == seen) {
      pthread_cond_wait(&pool->wake, &pool->lock);
      continue;
    }
    seen = pool->round;
    pool->running++;
    void (*work)(void *) = pool->work;
    void *work_argument = pool->argument;
    pthread_mutex_unlock(&pool->lock);
    work(work_argument);
    pthread_mutex_lock(&pool->lock);
    if (--pool->running == 0) pthread_cond_broadcast(&pool->done);
  }
  pthread_mutex_unlock(&pool->lock);
  return NULL;
}

bool emu_pool_start(emu_pool_t *pool, void (*work)(void *argument), void *argument) {
  pthread_mutex_lock(&pool->lock);
  bool taken = !pool->busy && pool->limit > 0;
  if (taken) {
    while (pool->thread_count < pool->limit &&
           pthread_create(&pool->threads[pool->thread_count], NULL, helper_main, pool) == 0)
      pool->thread_count++;
    pool->busy = true;
    pool->work = work;
    pool->argument = argument;
    pool->round++;
    pthread_cond_broadcast(&pool->wake);
  }
  pthread_mutex_unlock(&pool->lock);
  return taken;
}

void emu_pool_finish(emu_pool_t *pool) {
  pthread_mutex_lock(&pool->lock);
  pool->work = NULL; /* who has not come yet need not come any more */
  while (pool->running) pthread_cond_wait(&pool->done, &pool->lock);
  pool->busy = false;
  pthread_mutex_unlock(&pool->lock);
}
