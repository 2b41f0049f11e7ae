/* server/server.h: the server process: what its parts share. All of it belongs to the loop's thread. */
#ifndef KILN_SERVER_SERVER_H
#define KILN_SERVER_SERVER_H

#include "server/control.h"
#include "server/devices.h"
#include "server/flight.h"
#include "server/session.h"
#include "server/store.h"
#include "server/workers.h"

typedef enum {
#define KILN_COUNTER(name, help) COUNTER_##name,
#include "server/counters.def"
#undef KILN_COUNTER
  COUNTER_COUNT
} counter_t;

TAILQ_HEAD(session_list, session);

struct server {
  const config_t *config;
  kiln_log_t log;
  kiln_faults_t faults;
  uv_loop_t loop;
  uv_timer_t tick; /* runs while something has a time limit */
  uv_poll_t control;
  uv_poll_t listeners[CONFIG_MAX_ITEMS];
  size_t listener_count;
  bool accepting;
  uint64_t started_ns;
  uint64_t counters[COUNTER_COUNT];
  uint64_t rejections[KILN_CODE_COUNT]; /* requests that failed, per code */
  struct session_list sessions;
  size_t session_count;
  uint64_t sessions_made, variants_made, turn;
  kiln_memory_cache_t *programs; /* program_t by digest */
  kiln_memory_cache_t *plans;    /* variant_t by storage key */
  kiln_memory_cache_t *kernels;  /* kernel_t by storage key */
  kiln_disk_cache_t *disk;
  flights_t flights;
  workers_t workers;
  devices_t devices;
  kiln_buffer_t reply;   /* the one being built */
  size_t requests_held;  /* ended, but still in use by the pool */
  uint64_t drain_end_ns; /* 0: not draining */
};

/* Runs until drained or the supervisor is gone; the process's exit status. */
int server_run(kiln_arena_t *arena, const config_t *config);

/* Starts the tick: something has a time limit now. */
void server_watch(server_t *server);
/* Asks the supervisor for a child, or to end one; the answers are workers_started and the like. */
void server_spawn(role_t role, uint32_t index);
void server_kill(role_t role, uint32_t index);
/* No new connections and requests; ends when those it has are answered. */
void server_drain(server_t *server);
/* Asks the supervisor to end the daemon. */
void server_ask_to_drain(void);

#endif
