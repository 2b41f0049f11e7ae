/* server/session.h: one client connection and all that it owns.
 *
 *   accepted, peer checked -> bytes: session_input -> scanner -> whole messages -> request_begin -> replies
 *
 * Everything a client sends passes session_input(session, bytes, time). What a session may hold is bounded:
 * requests without a reply, replies it does not read, executables. When the connection ends its requests are
 * dropped. Thread: the loop's.
 */
#ifndef KILN_SERVER_SESSION_H
#define KILN_SERVER_SESSION_H

#include "server/request.h"
#include "server/stream.h"

enum {
  SESSION_MAX_REQUESTS = 256,
  SESSION_MAX_EXECUTABLES = 65536,
  SESSION_MAX_DEPTH = 16,
  SESSION_MAX_ELEMENTS = 4000000
};

struct session {
  TAILQ_ENTRY(session) all;   /* server->sessions */
  TAILQ_ENTRY(session) turns; /* device->turns */
  uint32_t turn_device;       /* index + 1 of the device whose turn it waits for; 0: none */
  server_t *server;
  stream_t stream;
  uint64_t number;
  bool admin;
  kiln_buffer_t in; /* of a message that is not complete */
  kiln_mpack_scanner_t scanner;
  uint64_t last_input_ns, last_output_ns; /* when it last moved: idle limits */
  size_t last_unsent;
  uint64_t ending_ns;        /* since when it only waits for its peer to close; 0: it lives */
  bool broken;               /* closes at the next tick: it does not read, or memory is short */
  request_list_t requests;   /* without a reply */
  request_list_t operations; /* executes in order, not yet with a device */
  size_t outstanding;
  program_t **executables; /* handle - 1 -> program */
  size_t executable_count, executable_capacity;
  uint64_t executable_bytes;
  kiln_map_t *handles; /* program -> handle */
  uint64_t served;     /* the turn in which its last compile began */
  uint64_t request_count, error_count;
};

/* Takes the connection over. */
void session_accept(server_t *server, int descriptor);
void session_input(session_t *session, const char *bytes, size_t size, uint64_t now_ns);
/* Never closes the session, so that callers need not look. */
void session_send(session_t *session, const kiln_buffer_t *bytes);
void session_close(session_t *session);
/* The handle of a program, made when it has none. OVERLOADED when there are too many, or they are too large.
 */
kiln_status_t session_handle(session_t *session, program_t *program, uint64_t *out_handle);
program_t *session_program(const session_t *session, uint64_t handle); /* NULL when there is no such handle */
/* Closes it when it idles inside a message or does not read. True while that may happen. */
bool session_tick(session_t *session, uint64_t now_ns);

#endif
