/* client/cli_verify.h: computed values against the reference, for `kiln opt --verify` and `kiln run --check`.
 */
#ifndef KILN_CLIENT_CLI_VERIFY_H
#define KILN_CLIENT_CLI_VERIFY_H

#include "client/cli.h"

/* Evaluates both graphs on the same random inputs, at the symbol values of --symbol or small ones. What
 * differs past the bounds is reported on stderr and sets the exit code. */
kiln_status_t kiln_cli_verify(kiln_cli_t *cli, const kiln_graph_t *before, const kiln_graph_t *after);

/* All outputs taken together. */
typedef struct {
  int64_t elements, undecided, wrong;
  double worst_ratio;
} kiln_cli_check_t;

/* Compares outputs with the reference's. Each output that is wrong is reported on stderr and sets the exit
 * code. */
kiln_cli_check_t kiln_cli_compare(kiln_cli_t *cli, const kiln_graph_t *graph,
                                  const kiln_reference_t *references, const kiln_tensor_t *outputs);

#endif
