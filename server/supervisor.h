/* server/supervisor.h: the process that owns the listening sockets and all children. */
#ifndef KILN_SERVER_SUPERVISOR_H
#define KILN_SERVER_SUPERVISOR_H

#include "server/config.h"

/* Runs until the daemon ends; the process's exit status: 0 ended as asked, 1 cannot start, 2 misuse, 4 the
 * server kept dying. */
int supervisor_run(kiln_arena_t *arena, const config_t *config);

#endif
