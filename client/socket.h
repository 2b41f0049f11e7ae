/* client/socket.h: finding the daemon's socket, and connecting to it when it can be trusted.
 *
 * The first step of kiln_connect and of every reconnect; any thread.
 */
#ifndef KILN_CLIENT_SOCKET_H
#define KILN_CLIENT_SOCKET_H

#include "base/status.h"

/* The path of `given` ("unix:PATH" or PATH), else of $KILN_SOCKET, else the first default that exists. The
 * caller frees it. UNSUPPORTED for other transports, UNAVAILABLE when there is no default. */
kiln_status_t kiln_socket_path(const char *given, char **out_path);

/* A connected, non-blocking descriptor. UNAVAILABLE when nobody answers, PERMISSION_DENIED when folder or
 * peer are not to be trusted; both with the detail "socket". */
kiln_status_t kiln_socket_connect(const char *path, int *out_descriptor);

#endif
