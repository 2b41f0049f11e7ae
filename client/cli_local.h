/* client/cli_local.h: a graph compiled, and run, in this process: what --local means.
 *
 * The same server/pipeline.c and runtime/ that the daemon's workers and device process use, one after the
 * other on the calling thread, without caches. Everything opened hangs on the command's arena.
 */
#ifndef KILN_CLIENT_CLI_LOCAL_H
#define KILN_CLIENT_CLI_LOCAL_H

#include "client/cli_run.h"
#include "runtime/device.h"
#include "server/verdict.h"

/* What pipeline and compiler made of one graph for one target. */
typedef struct {
  kiln_pipeline_t pipeline;
  verdicts_t verdicts; /* that the pipeline was divided by */
  kiln_symbol_class_t symbol_class;
  kiln_digest_t key;
  const kiln_plan_t *plan;
  const kiln_digest_t *kernel_keys;        /* per launch */
  const kiln_kernel_artifact_t *artifacts; /* per launch */
  uint32_t distinct_kernels;
  uint64_t plan_ns, compile_ns;
} kiln_cli_compiled_t;

kiln_status_t kiln_cli_open_compiler(kiln_cli_t *cli, kiln_compiler_t **out_compiler);
/* symbols: the values to specialize for (their class alone matters), -1 for those that are not known. */
kiln_status_t kiln_cli_compile_local(kiln_cli_t *cli, kiln_compiler_t *compiler, const kiln_graph_t *graph,
                                     const int64_t *symbols, const kiln_target_t *target,
                                     kiln_image_kind_t kind, kiln_cli_compiled_t *out);
/* What --allow-tf32 and the like say. */
kiln_options_t kiln_cli_code_options(const kiln_cli_t *cli);
/* The device of --device; says in one line on stderr when "auto" found no GPU. */
kiln_status_t kiln_cli_open_device(kiln_cli_t *cli, kiln_device_t **out_device);

kiln_status_t kiln_cli_run_local(kiln_cli_t *cli, const kiln_graph_t *graph, const kiln_cli_values_t *values,
                                 const kiln_cli_run_t *run, kiln_cli_execution_t *out);

#endif
