/* client/cli_output.c: results as files, and progress on a terminal.
 *
 * Called at the end of run and reference, and by whatever takes long.
 */
#include "client/cli.h"

#include <stdarg.h>
#include <unistd.h>

kiln_status_t kiln_cli_write_outputs(kiln_cli_t *cli, const char *folder, const kiln_graph_t *graph,
                                     const kiln_tensor_t *outputs) {
  for (uint32_t i = 0; i < graph->output_count; i++) {
    const char *name = kiln_cli_output_name(cli->arena, graph, i);
    KILN_TRY(kiln_npy_write(kiln_arena_printf(cli->arena, "%s/%s.npy", folder, name), &outputs[i]));
  }
  return NULL;
}

void kiln_cli_progress_clear(void) {
  if (isatty(STDERR_FILENO)) fputs("\r\033[K", stderr);
}

void kiln_cli_progress(const char *format, ...) {
  if (!isatty(STDERR_FILENO)) return;
  va_list arguments;
  va_start(arguments, format);
  kiln_cli_progress_clear();
  vfprintf(stderr, format, arguments);
  fflush(stderr);
  va_end(arguments);
}
