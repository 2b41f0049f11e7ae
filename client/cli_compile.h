/* client/cli_compile.h: compiled graphs as files: what `kiln compile` writes, from the daemon or --local. */
#ifndef KILN_CLIENT_CLI_COMPILE_H
#define KILN_CLIENT_CLI_COMPILE_H

#include "client/cli.h"
#include "runtime/compile.h"

typedef struct {
  const char *key; /* 64 hexadecimal digits */
  kiln_kernel_artifact_t artifact;
} kiln_cli_kernel_t;

/* One graph for one target. */
typedef struct {
  const char *target, *key;
  const void *plan; /* encoded */
  size_t plan_bytes;
  kiln_cli_kernel_t *kernels; /* distinct */
  size_t kernel_count;
} kiln_cli_artifact_t;

kiln_status_t kiln_cli_artifact_local(kiln_cli_t *cli, const kiln_graph_t *graph, const char *target,
                                      kiln_cli_artifact_t *out);
kiln_status_t kiln_cli_artifact_daemon(kiln_cli_t *cli, const kiln_cli_source_t *source, const char *target,
                                       kiln_cli_artifact_t *out);

#endif
