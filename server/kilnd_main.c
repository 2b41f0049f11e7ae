/* server/kilnd_main.c: kilnd: reads the options and becomes what it was started as.
 *
 * People and service managers start the supervisor; the supervisor starts this executable again, with "--role
 * NAME INDEX" as its first arguments, as the server, a compile worker or the process of one device.
 */
#include "kiln_fingerprint.h"
#include "server/device_process.h"
#include "server/server.h"
#include "server/supervisor.h"
#include "server/worker.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

/* A child ends with its supervisor, and leaves the terminal's interrupt to it. */
static void become_child(void) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  signal(SIGINT, SIG_IGN);
  signal(SIGTERM, SIG_IGN);
}

static int run_child(kiln_arena_t *arena, const config_t *config, const char *role, uint32_t index) {
  become_child();
  if (!strcmp(role, role_name(ROLE_WORKER))) return worker_run(config);
  if (!strcmp(role, role_name(ROLE_DEVICE)) && index < config->device.count)
    return device_process_run(config, config->device.items[index]);
  if (!strcmp(role, role_name(ROLE_SERVER))) return server_run(arena, config);
  return 2;
}

static bool answer_at_once(int count, char **arguments) {
  for (int i = 1; i < count; i++) {
    if (!strcmp(arguments[i], "--help")) {
      config_print_help();
      return true;
    }
    if (!strcmp(arguments[i], "--version")) {
      printf("kilnd %s (fingerprint %.16s)\n", KILN_VERSION, KILN_FINGERPRINT);
      return true;
    }
  }
  return false;
}

int main(int count, char **arguments) {
  if (answer_at_once(count, arguments)) return 0;
  bool child = count >= 4 && !strcmp(arguments[1], "--role");
  size_t skipped = child ? 3 : 0;
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  config_t config;
  kiln_status_t status = config_read(&arena, (size_t)count - skipped, arguments + skipped, &config);
  int exit_status = 2;
  if (status) {
    fprintf(stderr, "kilnd: %s\n", kiln_status_message(status));
    kiln_status_free(status);
  } else if (child) {
    exit_status = run_child(&arena, &config, arguments[2], (uint32_t)strtoul(arguments[3], NULL, 10));
  } else {
    exit_status = supervisor_run(&arena, &config);
  }
  kiln_arena_deinit(&arena);
  return exit_status;
}
