/* emulator/pool.h: CPU threads that help with launches that take long.
 *
 * Waking threads costs more than a small launch, so the thread that runs a launch starts alone and asks for
 * help once the launch has lasted a while. A pool serves one launch at a time; a launch that finds it busy
 * goes on alone. Thread: any.
 */
#ifndef KILN_EMULATOR_POOL_H
#define KILN_EMULATOR_POOL_H

#include <pthread.h>
#include <stdbool.h>

#define EMU_POOL_MAX 64

typedef struct {
  pthread_mutex_t lock;
  pthread_cond_t wake, done;
  pthread_t threads[EMU_POOL_MAX];
  unsigned thread_count, limit; /* threads started, threads allowed */
  void (*work)(void *argument);
  void *argument;
  unsigned long round; /* number of the current job; threads take part once in each */
  unsigned running;
  bool busy, stopping;
} emu_pool_t;

void emu_pool_init(emu_pool_t *pool, unsigned limit); /* starts nothing yet; limit 0 means no helpers */
void emu_pool_deinit(emu_pool_t *pool);

/* Has every helper call work(argument) once; false when the pool is busy or empty. */
bool emu_pool_start(emu_pool_t *pool, void (*work)(void *argument), void *argument);
/* Waits until the helpers of the job have returned. */
void emu_pool_finish(emu_pool_t *pool);

#endif
