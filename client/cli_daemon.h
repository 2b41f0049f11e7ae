/* client/cli_daemon.h: what the commands ask of a daemon, through libkiln. */
#ifndef KILN_CLIENT_CLI_DAEMON_H
#define KILN_CLIENT_CLI_DAEMON_H

#include "client/cli_run.h"
#include "ir/mpack.h"
#include "kiln/kiln.h"

/* Connects to $KILN_SOCKET or the default; UNAVAILABLE when no daemon answers. */
kiln_status_t kiln_cli_connect(kiln_cli_t *cli, kiln_client_t **out_client);

/* Writes the three fields of a request "graph", "name" and "options". */
void kiln_cli_write_graph(const kiln_cli_t *cli, kiln_buffer_t *out, const kiln_cli_source_t *source);
/* Writes the field "symbols". */
void kiln_cli_write_symbols(kiln_buffer_t *out, const kiln_graph_t *graph, const int64_t *symbols);

kiln_status_t kiln_cli_run_daemon(kiln_cli_t *cli, const kiln_cli_source_t *source,
                                  const kiln_cli_values_t *values, const kiln_cli_run_t *run,
                                  kiln_cli_execution_t *out);

#endif
