/* server/device_process.h: the process of one device. */
#ifndef KILN_SERVER_DEVICE_PROCESS_H
#define KILN_SERVER_DEVICE_PROCESS_H

#include "server/config.h"

/* Opens the device that `spec` ("emulated:h200") names and obeys commands on CONTROL_DESCRIPTOR until the
 * server closes it; the process's exit status. */
int device_process_run(const config_t *config, const char *spec);

#endif
