/* client/cli_stats.c: `kiln stats` and `kiln health`: what the daemon says of itself.
 *
 * The daemon's reply, as JSON or as indented lines "name: value"; what it says is documented in docs/wire.md.
 */
#include "client/cli_daemon.h"
#include "client/cli_json.h"

static kiln_status_t ask(kiln_cli_t *cli, const char *method) {
  kiln_client_t *client;
  json_t *answer;
  KILN_TRY(kiln_cli_connect(cli, &client));
  KILN_TRY(kiln_cli_ask(cli, client, method, &answer));
  if (kiln_cli_flag(cli, "--json"))
    kiln_cli_print_json(answer);
  else
    kiln_cli_print_lines(answer, 0);
  return NULL;
}

static kiln_status_t run_stats(kiln_cli_t *cli) { return ask(cli, "stats"); }
static kiln_status_t run_health(kiln_cli_t *cli) { return ask(cli, "health"); }

static const kiln_cli_option_t options[] = {
    {"--json", NULL, "print one JSON object"},
    {NULL, NULL, NULL},
};

const kiln_cli_command_t kiln_cli_stats = {
    .name = "stats",
    .operands = "",
    .summary = "Show the daemon's counters.",
    .options = options,
    .run = run_stats,
};

const kiln_cli_command_t kiln_cli_health = {
    .name = "health",
    .operands = "",
    .summary = "Show whether the daemon and its devices are ready.",
    .options = options,
    .run = run_health,
};
