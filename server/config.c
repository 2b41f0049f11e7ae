/* server/config.c: options from the command line, then from a file, then their defaults.
 *
 * Every row of options.def becomes an option_t whose parser and printer are those of its kind; nothing here
 * knows an option by name but --config itself and the checks at the end.
 */
#include "server/config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef enum { KIND_LIST, KIND_TEXT, KIND_SIZE, KIND_COUNT, KIND_SECONDS, KIND_FLAG } option_kind_t;

typedef struct {
  const char *name; /* with underscores */
  option_kind_t kind;
  size_t offset; /* in config_t */
  const char *otherwise, *argument, *help;
} option_t;

static const option_t options[] = {
#define KILN_OPTION(name, kind, otherwise, argument, help)                                                   \
  {#name, KIND_##kind, offsetof(config_t, name), otherwise, argument, help},
#include "server/options.def"
#undef KILN_OPTION
};
enum { OPTION_COUNT = sizeof options / sizeof options[0] };

static const char *const log_formats[] = {"text", "json"};
static const char *const log_levels[] = {"error", "warning", "info", "debug"}; /* as kiln_log_level_t */
static const char *const role_names[] = {"supervisor", "server", "worker", "device"};

const char *role_name(role_t role) { return role_names[role]; }

/* --- values ----------------------------------------------------------------------------------------- */

bool config_parse_size(const char *text, uint64_t *out_bytes) {
  static const struct {
    const char *suffix;
    unsigned shift;
  } units[] = {{"", 0}, {"B", 0}, {"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}};
  if (*text < '0' || *text > '9') return false;
  errno = 0;
  char *end;
  uint64_t number = strtoull(text, &end, 10);
  for (size_t i = 0; !errno && i < sizeof units / sizeof units[0]; i++) {
    if (strcmp(end, units[i].suffix) != 0) continue;
    *out_bytes = number << units[i].shift;
    return number <= (uint64_t)INT64_MAX >> units[i].shift;
  }
  return false;
}

static bool parse_count(const char *text, uint64_t *out) {
  char *end;
  errno = 0;
  *out = strtoull(text, &end, 10);
  return *text >= '0' && *text <= '9' && !*end && !errno && *out <= 1000000;
}

static bool parse_seconds(const char *text, uint64_t *out_ns) {
  char *end;
  double seconds = strtod(text, &end);
  if (*text < '0' || *text > '9' || *end || !(seconds <= 1e6)) return false;
  *out_ns = (uint64_t)(seconds * 1e9);
  return true;
}

static bool set_value(const option_t *option, config_t *config, const char *text) {
  void *place = (char *)config + option->offset;
  config_LIST_t *list = place;
  switch (option->kind) {
  case KIND_LIST:
    if (list->count == CONFIG_MAX_ITEMS) return false;
    list->items[list->count++] = text;
    return true;
  case KIND_TEXT:
    *(config_TEXT_t *)place = text;
    return true;
  case KIND_SIZE:
    return config_parse_size(text, place);
  case KIND_COUNT:
    return parse_count(text, place);
  case KIND_SECONDS:
    return parse_seconds(text, place);
  case KIND_FLAG:
    *(config_FLAG_t *)place = strcmp(text, "false") != 0;
    return true;
  }
  return false;
}

/* --- names ------------------------------------------------------------------------------------------ */

static void dashed(const char *name, char out[64]) {
  size_t i = 0;
  for (; name[i] && i < 63; i++) out[i] = name[i] == '_' ? '-' : name[i];
  out[i] = 0;
}

static const option_t *find_option(const char *name, size_t length) {
  for (const option_t *option = options; option < options + OPTION_COUNT; option++) {
    char spelled[64];
    dashed(option->name, spelled);
    if (strlen(spelled) == length && !memcmp(spelled, name, length)) return option;
  }
  return NULL;
}

/* --- the command line ------------------------------------------------------------------------------- */

/* Sets what one source gives; `given` marks the options that an earlier, stronger source gave. */
static kiln_status_t take(const option_t *option, config_t *config, const char *value) {
  if (set_value(option, config, value)) return NULL;
  char spelled[64];
  dashed(option->name, spelled);
  return kiln_error(KILN_INVALID_ARGUMENT, "option --%s does not take '%s'", spelled, value);
}

static kiln_status_t read_argument(size_t count, char **arguments, size_t *at, config_t *config,
                                   bool *given) {
  const char *text = arguments[*at];
  if (strncmp(text, "--", 2) != 0)
    return kiln_error(KILN_INVALID_ARGUMENT, "unexpected argument '%s'; try kilnd --help", text);
  size_t length = strcspn(text + 2, "=");
  const option_t *option = find_option(text + 2, length);
  if (!option) return kiln_error(KILN_INVALID_ARGUMENT, "no option '%s'; try kilnd --help", text);
  given[option - options] = true;
  if (text[2 + length]) return take(option, config, text + 2 + length + 1);
  if (option->kind == KIND_FLAG) return take(option, config, "true");
  if (*at + 1 == count) return kiln_error(KILN_INVALID_ARGUMENT, "option '%s' needs a value", text);
  return take(option, config, arguments[++*at]);
}

/* --- the file --------------------------------------------------------------------------------------- */

static char *trim(char *text) {
  text += strspn(text, " \t\r\n");
  size_t length = strlen(text);
  while (length && strchr(" \t\r\n", text[length - 1])) text[--length] = 0;
  return text;
}

static kiln_status_t read_line(kiln_arena_t *arena, char *line, config_t *config, const bool *given) {
  char *text = trim(line);
  if (!*text || *text == '#') return NULL;
  char *equals = strchr(text, '=');
  if (!equals) return kiln_error(KILN_INVALID_ARGUMENT, "expected 'name = value'");
  *equals = 0;
  char *name = trim(text), *value = trim(equals + 1);
  const option_t *option = find_option(name, strlen(name));
  if (!option) return kiln_error(KILN_INVALID_ARGUMENT, "no option '%s'", name);
  if (given[option - options]) return NULL;
  return take(option, config, kiln_arena_strdup(arena, value));
}

/* Marks what the file gave only after reading all of it: a list may have several lines. */
static kiln_status_t read_file(kiln_arena_t *arena, const char *path, config_t *config, bool *given) {
  FILE *file = fopen(path, "re");
  if (!file) return kiln_error_errno(KILN_INVALID_ARGUMENT, errno, "cannot read '%s'", path);
  kiln_status_t status = NULL;
  char line[4096];
  for (int number = 1; !status && fgets(line, sizeof line, file); number++) {
    status = kiln_error_note(read_line(arena, line, config, given), "reading %s:%d", path, number);
  }
  fclose(file);
  return status;
}

/* --- all of it -------------------------------------------------------------------------------------- */

static kiln_status_t check_choice(const char *name, const char *value, const char *const *choices,
                                  size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (!strcmp(value, choices[i])) return NULL;
  }
  return kiln_error(KILN_INVALID_ARGUMENT, "option --%s does not take '%s'", name, value);
}

static void set_defaults(config_t *config) {
  *config = (config_t){0};
  for (const option_t *option = options; option < options + OPTION_COUNT; option++) {
    if (option->kind != KIND_LIST && option->kind != KIND_FLAG) set_value(option, config, option->otherwise);
  }
}

static kiln_status_t finish(config_t *config) {
  KILN_TRY(check_choice("log-format", config->log_format, log_formats, 2));
  KILN_TRY(check_choice("log-level", config->log_level, log_levels, 4));
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  if (!config->workers) config->workers = cores > 0 ? (uint64_t)cores : 1;
  if (!config->device.count) config->device.items[config->device.count++] = "auto";
  if (config->max_message < 4096)
    return kiln_error(KILN_INVALID_ARGUMENT, "option --max-message takes 4KiB or more");
  return NULL;
}

kiln_status_t config_read(kiln_arena_t *arena, size_t count, char **arguments, config_t *out) {
  bool given[OPTION_COUNT] = {0};
  set_defaults(out);
  for (size_t i = 1; i < count; i++) KILN_TRY(read_argument(count, arguments, &i, out, given));
  if (*out->config) KILN_TRY(read_file(arena, out->config, out, given));
  return finish(out);
}

static const char *print_value(kiln_arena_t *arena, const option_t *option, const void *place, size_t index) {
  switch (option->kind) {
  case KIND_LIST:
    return ((const config_LIST_t *)place)->items[index];
  case KIND_TEXT:
    return *(const config_TEXT_t *)place;
  case KIND_SIZE:
  case KIND_COUNT:
    return kiln_arena_printf(arena, "%llu", *(const unsigned long long *)place);
  case KIND_SECONDS:
    return kiln_arena_printf(arena, "%.9f", (double)*(const uint64_t *)place / 1e9);
  case KIND_FLAG:
    return *(const bool *)place ? "true" : "false";
  }
  return "";
}

char **config_arguments(kiln_arena_t *arena, const config_t *config, role_t role, uint32_t index) {
  char **arguments = KILN_NEW_ARRAY(arena, char *, OPTION_COUNT *CONFIG_MAX_ITEMS + 5);
  size_t count = 0;
  arguments[count++] = kiln_arena_strdup(arena, "kilnd");
  arguments[count++] = kiln_arena_strdup(arena, "--role");
  arguments[count++] = kiln_arena_strdup(arena, role_name(role));
  arguments[count++] = kiln_arena_printf(arena, "%u", index);
  for (const option_t *option = options; option < options + OPTION_COUNT; option++) {
    if (option->offset == offsetof(config_t, config)) continue;
    const void *place = (const char *)config + option->offset;
    size_t values = option->kind == KIND_LIST ? ((const config_LIST_t *)place)->count : 1;
    char spelled[64];
    dashed(option->name, spelled);
    for (size_t i = 0; i < values; i++) {
      arguments[count++] = kiln_arena_printf(arena, "--%s=%s", spelled, print_value(arena, option, place, i));
    }
  }
  return arguments;
}

void config_print_help(void) {
  printf("kilnd: compiles tensor graphs to GPU kernels and runs them, for clients on a socket.\n\n"
         "usage: kilnd [OPTION]...\n\n");
  for (const option_t *option = options; option < options + OPTION_COUNT; option++) {
    char spelled[64], left[96];
    dashed(option->name, spelled);
    snprintf(left, sizeof left, "--%s %s", spelled, option->argument);
    printf("  %-32s %s", left, option->help);
    bool shown = *option->otherwise && !strstr(option->help, "(default");
    printf(shown ? " (default: %s)\n" : "\n", option->otherwise);
  }
  printf("  %-32s %s\n  %-32s %s\n\n", "--help", "print this", "--version", "print version and fingerprint");
  printf("exit status: 0 ended as asked, 1 cannot start, 2 misuse, 4 the server kept dying\n");
}

kiln_log_t config_log(const config_t *config, const char *process) {
  kiln_log_t log = {
      .descriptor = STDERR_FILENO, .json = !strcmp(config->log_format, "json"), .process = process};
  while (strcmp(log_levels[log.level], config->log_level) != 0) log.level++;
  return log;
}
