/* client/cli.h: what the commands of `kiln` share.
 *
 *   main -> kiln_cli_parse -> command->run -> one status -> exit code and at most one line on stderr
 *
 * A command is a row in kiln_main.c's table and one file cli_<name>.c with its option table, from which
 * --help is printed. Commands are single-threaded, allocate from one arena and print results on stdout;
 * whatever goes wrong is returned as a status.
 */
#ifndef KILN_CLIENT_CLI_H
#define KILN_CLIENT_CLI_H

#include "base/arena.h"
#include "base/buffer.h"
#include "ir/reference.h"
#include "ir/text.h"
#include <stdio.h>

enum { KILN_EXIT_DONE = 0, KILN_EXIT_FAILED = 1, KILN_EXIT_MISUSE = 2, KILN_EXIT_NO_DAEMON = 3 };

typedef struct {
  const char *name;  /* "--symbol"; NULL ends a table */
  const char *value; /* what follows it, for --help: "NAME=VALUE"; NULL for a flag */
  const char *help;
} kiln_cli_option_t;

typedef struct kiln_cli kiln_cli_t;

typedef struct {
  const char *name;
  const char *operands; /* for --help: "FILE..." */
  uint32_t operands_least, operands_most;
  const char *summary;
  const kiln_cli_option_t *options;
  kiln_status_t (*run)(kiln_cli_t *cli);
} kiln_cli_command_t;

/* An option as it was given. */
typedef struct {
  const kiln_cli_option_t *option;
  const char *value;
} kiln_cli_setting_t;

struct kiln_cli {
  kiln_arena_t *arena;
  const kiln_cli_command_t *command;
  const char **operands;
  size_t operand_count, operand_capacity;
  kiln_cli_setting_t *settings;
  size_t setting_count, setting_capacity;
  int exit_code; /* of a command that returns no error: KILN_EXIT_FAILED after a failed check */
};

extern const kiln_cli_command_t kiln_cli_run, kiln_cli_opt, kiln_cli_compile, kiln_cli_explain,
    kiln_cli_reference, kiln_cli_stats, kiln_cli_health;

/* Rows that several commands have. */
/* clang-format off */
#define KILN_CLI_OPTION_GRAPH                                                                                \
  {"--graph", "NAME", "the graph of the file; needed when it holds several"}
#define KILN_CLI_OPTION_TF32                                                                                 \
  {"--allow-tf32", NULL, "f32 contractions may round their operands to tf32, for tensor cores"}
#define KILN_CLI_OPTIONS_INPUTS                                                                              \
  {"--symbol", "NAME=VALUE", "value of a symbol; otherwise from the .npy inputs, else the typical value"},   \
  {"--input", "NAME=SOURCE", "an input: a file ending in .npy, or random (default), zeros, arange"},         \
  {"--seed", "N", "seed of random inputs (default 0)"}
#define KILN_CLI_OPTIONS_LOCAL                                                                               \
  {"--local", NULL, "compile and run in this process, without a daemon"},                                    \
  {"--device", "DEVICE", "with --local: auto (default), cuda[:N] or emulated[:MODEL]"},                      \
  {"--checkers", "all|none|LIST", "with --local: the checkers of the emulated device (default: all with --check)"}
/* clang-format on */

/* -- options (cli_options.c) ---------------------------------------------------------------------------- */

/* Reads the words after the command's name. INVALID_ARGUMENT on what the command does not take. */
kiln_status_t kiln_cli_parse(kiln_cli_t *cli, int count, char *const *words);
void kiln_cli_help(const kiln_cli_command_t *command, FILE *out);
bool kiln_cli_flag(const kiln_cli_t *cli, const char *name);
/* The last value given; NULL when absent. */
const char *kiln_cli_value(const kiln_cli_t *cli, const char *name);
/* The values of a repeated option in order: the next from *cursor (0 at first), NULL after the last. */
const char *kiln_cli_next(const kiln_cli_t *cli, const char *name, size_t *cursor);
/* An integer between least and most, `otherwise` when absent. */
kiln_status_t kiln_cli_integer(const kiln_cli_t *cli, const char *name, int64_t least, int64_t most,
                               int64_t otherwise, int64_t *out);
/* Splits "NAME=VALUE" at the first '='; a leading % of the name is dropped. */
kiln_status_t kiln_cli_pair(kiln_arena_t *arena, const char *option, const char *text, const char **out_name,
                            const char **out_value);
bool kiln_cli_parse_integer(const char *text, int64_t *out);

/* -- files and graphs (cli_graph.c) --------------------------------------------------------------------- */

/* The whole file; "-" is standard input. NUL-terminated behind out_size. */
kiln_status_t kiln_cli_read_file(kiln_arena_t *arena, const char *path, const char **out_text,
                                 size_t *out_size);
kiln_status_t kiln_cli_write_file(const char *path, const void *data, size_t size);
/* Creates a folder (not its parents) unless it exists. */
kiln_status_t kiln_cli_make_folder(const char *path);

/* The file of the command's operand `index`, parsed, and in it the graph of --graph. */
typedef struct {
  const char *path, *text;
  size_t size;
  const kiln_graph_t *graph;
} kiln_cli_source_t;
kiln_status_t kiln_cli_load(kiln_cli_t *cli, size_t operand, kiln_cli_source_t *out);
/* All graphs of the file, or that of --graph; out->graph is left NULL. */
kiln_status_t kiln_cli_load_all(kiln_cli_t *cli, size_t operand, kiln_cli_source_t *out,
                                kiln_graph_list_t *out_graphs);

/* The name of output `index`, without its %. */
const char *kiln_cli_output_name(kiln_arena_t *arena, const kiln_graph_t *graph, uint32_t index);

/* -- tensors (cli_tensor.c) ----------------------------------------------------------------------------- */

typedef enum { KILN_FILL_RANDOM, KILN_FILL_INDEX, KILN_FILL_ZEROS, KILN_FILL_ARANGE } kiln_cli_fill_t;

/* random: normal floats, integers in -9..9 (0..9 unsigned), bools; index: 0..7; arange: 0, 1, 2 ... as cast
 * to the dtype. The same seed gives the same elements everywhere. */
void kiln_cli_fill(const kiln_tensor_t *tensor, kiln_cli_fill_t fill, uint64_t seed);
/* "bf16[1,32,128]" */
const char *kiln_cli_shape_text(kiln_arena_t *arena, const kiln_tensor_t *tensor);
/* One element as text: integers whole, floats with enough digits to read them back. */
void kiln_cli_print_element(kiln_buffer_t *out, const kiln_tensor_t *tensor, int64_t index);

/* -- values for a graph (cli_inputs.c) ------------------------------------------------------------------ */

/* Logical inputs, which agree with their declared strides: a stride of 0 repeats an element. */
typedef struct {
  int64_t *symbols;
  kiln_tensor_t *inputs;
} kiln_cli_values_t;

/* Sets the symbols that --symbol names, leaves the others. */
kiln_status_t kiln_cli_given_symbols(kiln_cli_t *cli, const kiln_graph_t *graph, int64_t *symbols);
/* The values to specialize a compile for: --symbol's, else typical ones. Without --symbol some may be
 * unknown, -1, which *out_all_known tells. */
kiln_status_t kiln_cli_typical_symbols(kiln_cli_t *cli, const kiln_graph_t *graph,
                                       const int64_t **out_symbols, bool *out_all_known);
/* From --symbol, --input and --seed. INVALID_ARGUMENT names what does not fit. */
kiln_status_t kiln_cli_values(kiln_cli_t *cli, const kiln_graph_t *graph, kiln_cli_values_t *out);
/* All random, for given symbols. */
kiln_status_t kiln_cli_random_values(kiln_arena_t *arena, const kiln_graph_t *graph, uint64_t seed,
                                     const int64_t *symbols, kiln_cli_values_t *out);

/* -- boundary tensors as they lie in memory (cli_storage.c) --------------------------------------------- */

typedef struct {
  void *data;
  size_t size_bytes;
} kiln_cli_bytes_t;

/* TOO_LARGE for a tensor above this machine's memory, which would otherwise end the process when it is
 * filled.
 */
kiln_status_t kiln_cli_check_memory(const kiln_type_t *type, const int64_t *sizes);
/* Element strides of a boundary tensor for these symbols. */
kiln_status_t kiln_cli_strides(const kiln_type_t *type, const kiln_layout_t *layout, const int64_t *symbols,
                               int64_t strides[KILN_MAX_RANK]);
/* The storage of input `index`. */
kiln_status_t kiln_cli_input_storage(kiln_arena_t *arena, const kiln_graph_t *graph, uint32_t index,
                                     const kiln_cli_values_t *values, kiln_cli_bytes_t *out);
/* The logical tensor of output `index`, zeroed, and storage for it. */
kiln_status_t kiln_cli_output_storage(kiln_arena_t *arena, const kiln_graph_t *graph, uint32_t index,
                                      const int64_t *symbols, kiln_tensor_t *out_tensor,
                                      kiln_cli_bytes_t *out_storage);
/* Fills the logical tensor of output `index` from its storage. */
kiln_status_t kiln_cli_read_storage(const kiln_graph_t *graph, uint32_t index, const int64_t *symbols,
                                    const void *storage, const kiln_tensor_t *tensor);

/* -- results (cli_output.c) ----------------------------------------------------------------------------- */

/* Writes DIR/NAME.npy per output of the graph. */
kiln_status_t kiln_cli_write_outputs(kiln_cli_t *cli, const char *folder, const kiln_graph_t *graph,
                                     const kiln_tensor_t *outputs);
/* A line on a terminal that the next one replaces; nothing elsewhere. */
void kiln_cli_progress_clear(void);
void kiln_cli_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));

void kiln_cli_version(FILE *out); /* cli_version.c: build, fingerprint, NVRTC */

#endif
