/* server/worker.h: the compile worker's process. */
#ifndef KILN_SERVER_WORKER_H
#define KILN_SERVER_WORKER_H

#include "server/config.h"

/* Serves jobs on CONTROL_DESCRIPTOR until the server closes it; the process's exit status. */
int worker_run(const config_t *config);

#endif
