/* client/kiln_main.c: the command `kiln`: a table of commands, and how an outcome becomes an exit code.
 *
 * Exit codes: 0 done; 1 a failed check, or an operation that failed; 2 misuse: wrong options, a file that
 * cannot be read or is malformed; 3 no daemon answers. Every error is one line on standard error.
 */
#include "client/cli.h"

#include <string.h>

static const kiln_cli_command_t *const commands[] = {
    &kiln_cli_run,       &kiln_cli_opt,   &kiln_cli_compile, &kiln_cli_explain,
    &kiln_cli_reference, &kiln_cli_stats, &kiln_cli_health,
};
enum { COMMAND_COUNT = sizeof commands / sizeof *commands };

static void print_usage(FILE *out) {
  fputs("usage: kiln COMMAND ...\n\ncommands:\n", out);
  for (size_t i = 0; i < COMMAND_COUNT; i++)
    fprintf(out, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
  fputs("\n'kiln COMMAND --help' explains one; 'kiln --version' tells build and compiler.\n"
        "KILN_SOCKET names the daemon's socket, KILN_NVRTC the compiler library.\n",
        out);
}

static const kiln_cli_command_t *find_command(const char *name) {
  for (size_t i = 0; i < COMMAND_COUNT; i++)
    if (!strcmp(commands[i]->name, name)) return commands[i];
  return NULL;
}

static int exit_code_of(kiln_status_t status) {
  switch (kiln_status_code(status)) {
  case KILN_INVALID_ARGUMENT:
  case KILN_INVALID_GRAPH:
    return KILN_EXIT_MISUSE;
  case KILN_CONNECTION_LOST:
    return KILN_EXIT_NO_DAEMON;
  case KILN_UNAVAILABLE:
    return kiln_status_detail(status, "socket") ? KILN_EXIT_NO_DAEMON : KILN_EXIT_FAILED;
  default:
    return KILN_EXIT_FAILED;
  }
}

/* Misuse speaks for itself; other errors carry their code, which says who must act. */
static void print_error(kiln_status_t status) {
  int code = exit_code_of(status);
  kiln_cli_progress_clear();
  if (code == KILN_EXIT_MISUSE || code == KILN_EXIT_NO_DAEMON)
    fprintf(stderr, "kiln: %s\n", kiln_status_message(status));
  else
    fprintf(stderr, "kiln: %s: %s\n", kiln_code_name(kiln_status_code(status)), kiln_status_message(status));
}

static kiln_status_t run_guarded(void *argument) {
  kiln_cli_t *cli = argument;
  KILN_TRY(cli->command->run(cli));
  kiln_cli_progress_clear();
  if (fflush(stdout) || ferror(stdout)) return kiln_error(KILN_INTERNAL, "cannot write to standard output");
  return NULL;
}

/* Options are read before anything is done. */
static kiln_status_t run_command(kiln_cli_t *cli, int count, char *const *words) {
  KILN_TRY(kiln_cli_parse(cli, count, words));
  if (kiln_cli_flag(cli, "--help")) {
    kiln_cli_help(cli->command, stdout);
    return NULL;
  }
  if (kiln_cli_flag(cli, "--version")) {
    kiln_cli_version(stdout);
    return NULL;
  }
  return kiln_arena_guard(cli->arena, run_guarded, cli);
}

static int execute(const kiln_cli_command_t *command, int count, char *const *words) {
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  kiln_cli_t cli = {.arena = &arena, .command = command};
  kiln_status_t status = run_command(&cli, count, words);
  int exit_code = cli.exit_code;
  if (status) {
    print_error(status);
    exit_code = exit_code_of(status);
    kiln_status_free(status);
  }
  kiln_arena_deinit(&arena);
  return exit_code;
}

int main(int argc, char **argv) {
  const char *name = argc > 1 ? argv[1] : NULL;
  if (!name) {
    print_usage(stderr);
    return KILN_EXIT_MISUSE;
  }
  if (!strcmp(name, "--help") || !strcmp(name, "-h")) {
    print_usage(stdout);
    return KILN_EXIT_DONE;
  }
  if (!strcmp(name, "--version")) {
    kiln_cli_version(stdout);
    return KILN_EXIT_DONE;
  }
  const kiln_cli_command_t *command = find_command(name);
  if (!command) {
    fprintf(stderr, "kiln: there is no command '%s': 'kiln --help' lists them\n", name);
    return KILN_EXIT_MISUSE;
  }
  return execute(command, argc - 2, argv + 2);
}
