/* server/workers.h: the server's side of the compile workers: a queue of jobs and the processes that take
 * them.
 *
 * Workers are started when there is something to do, up to --workers. The queue is picked from by priority,
 * then by whose session was served longest ago, then by age. A job has a deadline: its worker is killed and
 * another one started. A job whose worker died is tried once more, alone, in a fresh worker. Kernel jobs of
 * one target go out several at a time. Thread: the loop's.
 */
#ifndef KILN_SERVER_WORKERS_H
#define KILN_SERVER_WORKERS_H

#include "server/channel.h"
#include "server/job.h"
#include "server/request.h"

enum { WORKER_MAX_JOBS = 8, MAX_WORKERS = 256 };

typedef struct job job_t;
TAILQ_HEAD(job_list, job);

/* Part of a flight; the callbacks are the flight's. */
struct job {
  TAILQ_ENTRY(job) queued;
  job_kind_t kind;
  job_target_t target;
  uint64_t compiler; /* the identity that its keys belong to, as the server counts them */
  unsigned attempts; /* workers that died on it */
  bool running;
  /* The highest priority of the requests that want it and the longest-waiting session's turn; false: nobody
   * does. */
  bool (*wanted)(job_t *job, int64_t *out_priority, uint64_t *out_turn);
  void (*encode)(job_t *job, kiln_buffer_t *out);
  void (*begun)(job_t *job);
  void (*dropped)(job_t *job); /* nobody wanted it when its turn came */
  /* bytes: recipe or artifact, NULL with a status (which the callee owns). accident: the status says nothing
   * of the graph. */
  void (*done)(job_t *job, const void *bytes, size_t size, uint64_t duration_ns, kiln_status_t status,
               bool accident);
};

typedef enum {
  WORKER_ABSENT,
  WORKER_STARTING,
  WORKER_GREETING,
  WORKER_IDLE,
  WORKER_BUSY,
  WORKER_ENDING
} worker_state_t;

typedef struct {
  channel_t channel;
  server_t *server;
  uint32_t index;
  worker_state_t state;
  bool open, exited; /* the channel; the process */
  job_t *jobs[WORKER_MAX_JOBS];
  uint32_t job_count;
  uint64_t compiler; /* the identity it greeted with, as the server counts them */
  uint64_t deadline_ns, jobs_done;
} worker_slot_t;

typedef struct {
  worker_slot_t *slots;
  uint32_t count;
  struct job_list queue;
  size_t queue_length;
  char *identity;    /* of the compiler; NULL until a worker has greeted */
  uint64_t compiler; /* how many different identities were seen */
  request_list_t want_identity;
} workers_t;

kiln_status_t workers_init(server_t *server);
void workers_deinit(server_t *server);
/* True when the identity is known; otherwise the request waits, and a worker is started. */
bool workers_want_identity(request_t *request);
void workers_submit(server_t *server, job_t *job);
void workers_withdraw(server_t *server, job_t *job); /* a queued one */
const char *worker_state_name(worker_state_t state);
/* What the supervisor tells. descriptor -1: it could not be started. */
void workers_started(server_t *server, uint32_t index, int descriptor);
void workers_exited(server_t *server, uint32_t index);
/* Kills what is past its deadline. True while something has one. */
bool workers_tick(server_t *server, uint64_t now_ns);

#endif
