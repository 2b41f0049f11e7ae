/* client/cli_run.h: one execution of a graph, wherever it ran: what `kiln run` asks for and reports. */
#ifndef KILN_CLIENT_CLI_RUN_H
#define KILN_CLIENT_CLI_RUN_H

#include "client/cli.h"

typedef struct {
  int64_t repeat;
  bool counters;
  int64_t timeout_ms; /* of the compile and of each execution by a daemon; 0: no limit */
} kiln_cli_run_t;

/* Of several executions, timings are those of the fastest. */
typedef struct {
  char key[65];
  const char *cache;  /* "memory", "disk", "compiled" */
  const char *device; /* its name, "" when not known */
  uint32_t kernels_found, kernels_compiled;
  uint64_t plan_ns, compile_ns;
  uint64_t upload_ns, launch_ns, download_ns;
  uint32_t launches, realigned;
  const char *counters; /* JSON; NULL when not asked for */
  kiln_tensor_t *outputs;
} kiln_cli_execution_t;

#endif
