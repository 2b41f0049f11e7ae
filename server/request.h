/* server/request.h: one request from its bytes to its one reply.
 *
 *   message -> request_begin: decode, check the common fields, find the method -> rpc_<method> sets `step`
 *           -> step(request): goes as far as it can; what it waits for calls it again -> reply or failure ->
 * gone
 *
 * A request is in at most one wait list at a time. It ends exactly once: by a reply, a failure, or silently
 * when its client is gone; work on libuv's pool that still uses it holds its memory (`holds`). Thread: the
 * loop's, but for such work.
 */
#ifndef KILN_SERVER_REQUEST_H
#define KILN_SERVER_REQUEST_H

#include "ir/tensor.h"
#include "runtime/device.h"
#include "server/fields.h"
#include "server/flight.h"
#include "server/program.h"

#include <sys/queue.h>

typedef struct server server_t;
typedef struct session session_t;
typedef struct request request_t;
TAILQ_HEAD(request_list, request);
typedef struct request_list request_list_t;

typedef struct {
  const char *name;
  bool admin;
  const char *fields; /* all names that it takes */
  kiln_status_t (*start)(request_t *request);
} method_t;

/* Of an execute: what goes to the device. */
typedef struct {
  kiln_host_span_t *inputs;
  kiln_tensor_t *input_tensors;  /* dtype and sizes, as given; NULL before they were read */
  const int64_t **input_strides; /* as given, each may be NULL */
  int64_t symbols[KILN_MAX_SYMBOLS];

  uint64_t *output_bytes;
  uint64_t input_total, output_total;
  bool counters;
  bool ready;    /* may go to the device when its turn comes */
  bool reloaded; /* was compiled again after the device refused its image */
} execution_t;

struct request {
  TAILQ_ENTRY(request) of_session; /* session->requests */
  TAILQ_ENTRY(request) waiting;    /* *waits_in */
  TAILQ_ENTRY(request) in_order;   /* session->operations, of an execute not yet with the device */
  request_list_t *waits_in;        /* NULL: in none */
  server_t *server;
  session_t *session; /* NULL once the request has ended */
  const method_t *method;
  uint64_t id;
  kiln_arena_t arena;
  kiln_buffer_t message; /* params points into it */
  fields_t fields;
  uint64_t arrived_ns, deadline_ns; /* 0: none */
  int64_t priority;
  uint32_t device;
  bool progress;
  unsigned holds;
  kiln_status_t (*step)(request_t *request);
  /* What it has come by so far. */
  program_t *program;
  plan_flight_t *flight; /* that it waits for */
  bool has_symbols;
  int64_t symbols[KILN_MAX_SYMBOLS];
  uint32_t target_count; /* 0: the device's */
  kiln_target_t targets[8];
  const char *target_names[8];
  plan_outcome_t outcomes[8];
  uint32_t outcome_count;
  bool wants_artifacts;
  execution_t execution;
  bool ordered; /* in session->operations */
};

/* Starts the request that `message` (one whole MessagePack object) is. PROTOCOL_ERROR when it is none:
 * *out_id is then its id where it has one (has_id). */
kiln_status_t request_begin(session_t *session, const void *message, size_t size, uint64_t now_ns,
                            bool *out_has_id, uint64_t *out_id);
/* Runs its step, and ends it when that fails. What the request waited for calls this. */
void request_resume(request_t *request);

void request_wait(request_t *request, request_list_t *list);
void request_stop_waiting(request_t *request);
/* Resumes all that wait in the list now, or fails them with copies of the status. */
void requests_resume(request_list_t *list);
void requests_fail(request_list_t *list, kiln_status_t status);

/* The reply's beginning, up to the result, which the caller appends; then request_reply ends the request. */
kiln_buffer_t *request_open_reply(request_t *request);
void request_reply(request_t *request);
/* Replies with the error, and frees it. */
void request_fail(request_t *request, kiln_status_t status);
/* Ends it without a reply: its client is gone. */
void request_drop(request_t *request);
/* Frees a request that has ended once nothing holds it. */
void request_unhold(request_t *request);

void request_progress(request_t *request, const char *stage, uint64_t done, uint64_t total);

/* [1, id or nil, error, nil], for what never became a request. */
void reply_error(kiln_buffer_t *out, bool has_id, uint64_t id, kiln_status_t status);

/* The methods (methods.def). */
#define KILN_METHOD(name, who, fields) kiln_status_t rpc_##name(request_t *request);
#include "server/methods.def"
#undef KILN_METHOD

#endif
