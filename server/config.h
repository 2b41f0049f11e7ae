/* server/config.h: the options of kilnd, from the command line and a file, by one table (server/options.def).
 *
 * Read once by the supervisor; its children get the outcome as arguments, so that an edited file cannot give
 * them another one. Thread: one at a time; const after reading.
 */
#ifndef KILN_SERVER_CONFIG_H
#define KILN_SERVER_CONFIG_H

#include "base/arena.h"
#include "base/log.h"
#include "base/status.h"

enum { CONFIG_MAX_ITEMS = 16 }; /* of an option that may be repeated */

typedef struct {
  const char *items[CONFIG_MAX_ITEMS];
  size_t count;
} config_LIST_t;
typedef const char *config_TEXT_t;
typedef uint64_t config_SIZE_t;
typedef uint64_t config_COUNT_t;
typedef uint64_t config_SECONDS_t; /* nanoseconds */
typedef bool config_FLAG_t;

typedef struct {
#define KILN_OPTION(name, kind, otherwise, argument, help) config_##kind##_t name;
#include "server/options.def"
#undef KILN_OPTION
} config_t;

/* What the process is for; children are told by "--role NAME INDEX", their first arguments. */
typedef enum { ROLE_SUPERVISOR, ROLE_SERVER, ROLE_WORKER, ROLE_DEVICE } role_t;

const char *role_name(role_t role);

/* Reads arguments[1..count) and the file that they name. Text lives in the arena or in the arguments.
 * INVALID_ARGUMENT names the option. */
kiln_status_t config_read(kiln_arena_t *arena, size_t count, char **arguments, config_t *out);
/* The arguments that give child `index` of a role this configuration, ended by NULL, in the arena. */
char **config_arguments(kiln_arena_t *arena, const config_t *config, role_t role, uint32_t index);
void config_print_help(void);

kiln_log_t config_log(const config_t *config, const char *process);

/* "10GiB", "64MiB", "4096"; false on anything else and past 2^63. */
bool config_parse_size(const char *text, uint64_t *out_bytes);

#endif
