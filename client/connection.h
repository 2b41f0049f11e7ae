/* client/connection.h: one socket shared by many threads, and the requests that wait on it.
 *
 * No thread of its own: whoever waits for a reply reads for all, the others sleep until theirs has been taken
 * in or the reading is free. A sender that finds the socket full reads too, since the daemon stops reading
 * from a client that does not read. A connection is used up when it is lost or its process has forked;
 * client.c makes the next one.
 */
#ifndef KILN_CLIENT_CONNECTION_H
#define KILN_CLIENT_CONNECTION_H

#include "client/reply.h"
#include <sys/uio.h>

typedef struct kiln_connection kiln_connection_t;

/* Connects and says hello. `name` is the application's, may be NULL. */
kiln_status_t kiln_connection_open(const char *path, const char *name, kiln_connection_t **out_connection);
void kiln_connection_retain(kiln_connection_t *connection);
void kiln_connection_release(kiln_connection_t *connection); /* accepts NULL */
/* Ends it: every request that waits gets CONNECTION_LOST. */
void kiln_connection_close(kiln_connection_t *connection);
/* False when it was lost, also when that has not been noticed before, or belongs to another process. */
bool kiln_connection_is_usable(kiln_connection_t *connection);

/* Sends a request whose params are one map, given in parts. CONNECTION_LOST when it was not sent whole, so
 * that it may be sent again on another connection. */
kiln_status_t kiln_connection_submit(kiln_connection_t *connection, const char *method,
                                     const struct iovec *params, size_t part_count,
                                     kiln_request_t **out_request);
/* kiln_request_finish on a map in one part, with a deadline: DEADLINE_EXCEEDED after timeout_ms (0: none). */
kiln_status_t kiln_connection_call(kiln_connection_t *connection, const char *method,
                                   const kiln_buffer_t *params, uint32_t timeout_ms,
                                   kiln_reply_t **out_reply);
/* Waits at most timeout_ms (0: no limit), then finishes or cancels. */
kiln_status_t kiln_request_finish_within(kiln_request_t *request, uint32_t timeout_ms,
                                         kiln_reply_t **out_reply);

#endif
