/* server/rpc_execute.h: the end of an execute, for server/devices.c. */
#ifndef KILN_SERVER_RPC_EXECUTE_H
#define KILN_SERVER_RPC_EXECUTE_H

#include "server/frame.h"
#include "server/request.h"

/* The device's reply to the request, which may have ended meanwhile. */
void rpc_execute_done(request_t *request, const frame_t *frame, const char *body);

#endif
