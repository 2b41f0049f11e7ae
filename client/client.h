/* client/client.h: a client's current connection, for what sends requests. */
#ifndef KILN_CLIENT_CLIENT_H
#define KILN_CLIENT_CLIENT_H

#include "client/connection.h"

void kiln_client_retain(kiln_client_t *client);
void kiln_client_release(kiln_client_t *client); /* accepts NULL */

/* The connection, made if there is none that works; the caller releases it. `serial` tells connections apart:
 * a handle of the daemon is good on the connection that it came by, only. */
kiln_status_t kiln_client_connection(kiln_client_t *client, kiln_connection_t **out_connection,
                                     uint64_t *out_serial);
/* A handle of the daemon, remembered by what it stands for. Zeroed: none yet. */
typedef struct {
  uint64_t serial, handle;
} kiln_client_handle_t;

/* True with the handle when it came by this connection. */
bool kiln_client_handle_get(kiln_client_t *client, const kiln_client_handle_t *remembered, uint64_t serial,
                            uint64_t *out_handle);
void kiln_client_handle_set(kiln_client_t *client, kiln_client_handle_t *remembered, uint64_t serial,
                            uint64_t handle);

/* kiln_connection_submit, once more on a new connection when the first was lost before all was sent. */
kiln_status_t kiln_client_submit(kiln_client_t *client, const char *method, const struct iovec *params,
                                 size_t part_count, kiln_request_t **out_request);

#endif
