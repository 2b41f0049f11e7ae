/* client/cli_options.c: the options of a command, read and explained from its table.
 *
 * "--name value" and "--name=value" are the same; "--" ends the options; "-o" stands for "--output-dir",
 * "-h" for "--help". A flag may come twice, of an option the last value counts unless the command takes
 * several. Nothing here knows a particular command.
 */
#include "client/cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const kiln_cli_option_t common_options[] = {
    {"--help", NULL, "print this and exit"},
    {"--version", NULL, "print build, fingerprint and compiler, and exit"},
    {NULL, NULL, NULL},
};

static const struct {
  const char *shorthand, *name;
} shorthands[] = {{"-o", "--output-dir"}, {"-h", "--help"}};

static const kiln_cli_option_t *find_in(const kiln_cli_option_t *table, const char *name, size_t length) {
  for (; table->name; table++)
    if (strlen(table->name) == length && !memcmp(table->name, name, length)) return table;
  return NULL;
}

static const kiln_cli_option_t *find_option(const kiln_cli_command_t *command, const char *name,
                                            size_t length) {
  for (size_t i = 0; i < sizeof shorthands / sizeof *shorthands; i++)
    if (strlen(shorthands[i].shorthand) == length && !memcmp(shorthands[i].shorthand, name, length))
      return find_option(command, shorthands[i].name, strlen(shorthands[i].name));
  const kiln_cli_option_t *own = find_in(command->options, name, length);
  return own ? own : find_in(common_options, name, length);
}

static bool was_given(const kiln_cli_t *cli, const char *name) {
  for (size_t i = 0; i < cli->setting_count; i++)
    if (!strcmp(cli->settings[i].option->name, name)) return true;
  return false;
}

static kiln_status_t check_operands(const kiln_cli_t *cli) {
  const kiln_cli_command_t *command = cli->command;
  if (was_given(cli, "--help") || was_given(cli, "--version")) return NULL;
  if (cli->operand_count < command->operands_least)
    return kiln_error(KILN_INVALID_ARGUMENT, "'kiln %s' needs %s: 'kiln %s --help' explains it",
                      command->name, command->operands, command->name);
  if (cli->operand_count > command->operands_most)
    return kiln_error(KILN_INVALID_ARGUMENT, "'kiln %s' does not take '%s': 'kiln %s --help' explains it",
                      command->name, cli->operands[command->operands_most], command->name);
  return NULL;
}

/* Reads one option at words[*position], and its value, which may be the next word. */
static kiln_status_t parse_option(kiln_cli_t *cli, int count, char *const *words, int *position) {
  const char *word = words[*position];
  const char *equals = strchr(word, '=');
  size_t length = equals ? (size_t)(equals - word) : strlen(word);
  const kiln_cli_option_t *option = find_option(cli->command, word, length);
  if (!option)
    return kiln_error(KILN_INVALID_ARGUMENT, "'kiln %s' has no option '%.*s': 'kiln %s --help' lists them",
                      cli->command->name, (int)length, word, cli->command->name);
  const char *value = equals ? equals + 1 : NULL;
  if (!option->value && value) return kiln_error(KILN_INVALID_ARGUMENT, "'%s' takes no value", option->name);
  if (option->value && !value) {
    if (++*position == count)
      return kiln_error(KILN_INVALID_ARGUMENT, "'%s' needs a value: %s", option->name, option->value);
    value = words[*position];
  }
  KILN_PUSH(cli->arena, cli->settings, cli->setting_count, cli->setting_capacity,
            (kiln_cli_setting_t){option, value});
  return NULL;
}

kiln_status_t kiln_cli_parse(kiln_cli_t *cli, int count, char *const *words) {
  bool options_ended = false;
  for (int i = 0; i < count; i++) {
    bool is_option = !options_ended && words[i][0] == '-' && words[i][1];
    if (is_option && !strcmp(words[i], "--"))
      options_ended = true;
    else if (is_option)
      KILN_TRY(parse_option(cli, count, words, &i));
    else
      KILN_PUSH(cli->arena, cli->operands, cli->operand_count, cli->operand_capacity, words[i]);
  }
  return check_operands(cli);
}

static void print_options(const kiln_cli_option_t *table, FILE *out) {
  for (; table->name; table++) {
    char left[64];
    snprintf(left, sizeof left, "%s%s%s", table->name, table->value ? " " : "",
             table->value ? table->value : "");
    fprintf(out, "  %-26s %s\n", left, table->help);
  }
}

void kiln_cli_help(const kiln_cli_command_t *command, FILE *out) {
  fprintf(out, "usage: kiln %s%s%s [OPTION]...\n\n%s\n\noptions:\n", command->name,
          *command->operands ? " " : "", command->operands, command->summary);
  print_options(command->options, out);
  print_options(common_options, out);
}

bool kiln_cli_flag(const kiln_cli_t *cli, const char *name) { return was_given(cli, name); }

const char *kiln_cli_next(const kiln_cli_t *cli, const char *name, size_t *cursor) {
  while (*cursor < cli->setting_count) {
    const kiln_cli_setting_t *setting = &cli->settings[(*cursor)++];
    if (!strcmp(setting->option->name, name)) return setting->value;
  }
  return NULL;
}

const char *kiln_cli_value(const kiln_cli_t *cli, const char *name) {
  const char *last = NULL;
  size_t cursor = 0;
  for (const char *value; (value = kiln_cli_next(cli, name, &cursor));) last = value;
  return last;
}

bool kiln_cli_parse_integer(const char *text, int64_t *out) {
  char *end;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  if (errno || end == text || *end) return false;
  *out = value;
  return true;
}

kiln_status_t kiln_cli_integer(const kiln_cli_t *cli, const char *name, int64_t least, int64_t most,
                               int64_t otherwise, int64_t *out) {
  const char *text = kiln_cli_value(cli, name);
  *out = otherwise;
  if (!text) return NULL;
  if (!kiln_cli_parse_integer(text, out) || *out < least || *out > most)
    return kiln_error(KILN_INVALID_ARGUMENT, "'%s %s': give a whole number between %lld and %lld", name, text,
                      (long long)least, (long long)most);
  return NULL;
}

kiln_status_t kiln_cli_pair(kiln_arena_t *arena, const char *option, const char *text, const char **out_name,
                            const char **out_value) {
  const char *equals = strchr(text, '=');
  const char *name = *text == '%' ? text + 1 : text;
  if (!equals || equals <= name || !equals[1])
    return kiln_error(KILN_INVALID_ARGUMENT, "'%s %s': it is written %s NAME=VALUE", option, text, option);
  *out_name = kiln_arena_strndup(arena, name, (size_t)(equals - name));
  *out_value = equals + 1;
  return NULL;
}
