/* client/cli_reference.c: `kiln reference`: a graph evaluated on the CPU, with no daemon and no compiler.
 *
 * The reference evaluator's values, and with --bounds how far a right answer may be from them, printed or
 * written as .npy files.
 */
#include "client/cli.h"

#include <string.h>

enum { ELEMENTS_OF_AN_END = 32 };

static void print_range(kiln_buffer_t *out, const kiln_tensor_t *tensor, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; i++) {
    kiln_buffer_puts(out, i > begin ? " " : "");
    kiln_cli_print_element(out, tensor, i);
  }
}

/* All elements of a small tensor, both ends of a large one. */
static void print_elements(kiln_buffer_t *out, const kiln_tensor_t *tensor) {
  int64_t count = kiln_tensor_elements(tensor);
  if (count <= 2 * ELEMENTS_OF_AN_END) {
    print_range(out, tensor, 0, count);
  } else {
    print_range(out, tensor, 0, ELEMENTS_OF_AN_END);
    kiln_buffer_puts(out, " ... ");
    print_range(out, tensor, count - ELEMENTS_OF_AN_END, count);
    kiln_buffer_printf(out, " (%lld elements)", (long long)count);
  }
  kiln_buffer_puts(out, "\n");
}

/* The bounds of a result, as a tensor of its shape. */
static kiln_tensor_t bounds_of(const kiln_reference_t *result) {
  kiln_tensor_t bounds = result->value;
  bounds.dtype = KILN_DTYPE_f64;
  bounds.data = result->bound;
  return bounds;
}

static kiln_status_t print_results(kiln_cli_t *cli, const kiln_graph_t *graph,
                                   const kiln_reference_t *results, bool with_bounds) {
  kiln_buffer_t text;
  kiln_buffer_init(&text);
  for (uint32_t i = 0; i < graph->output_count; i++) {
    kiln_tensor_t bounds = bounds_of(&results[i]);
    kiln_buffer_printf(&text, "%s: %s\n  ", kiln_cli_output_name(cli->arena, graph, i),
                       kiln_cli_shape_text(cli->arena, &results[i].value));
    print_elements(&text, &results[i].value);
    if (!with_bounds) continue;
    kiln_buffer_puts(&text, "  within ");
    print_elements(&text, &bounds);
  }
  bool failed = text.failed;
  fputs(kiln_buffer_text(&text), stdout);
  kiln_buffer_deinit(&text);
  return failed ? kiln_error(KILN_OUT_OF_MEMORY, "no memory to print the results") : NULL;
}

static kiln_status_t write_results(kiln_cli_t *cli, const char *folder, const kiln_graph_t *graph,
                                   const kiln_reference_t *results, bool with_bounds) {
  kiln_tensor_t *values = KILN_NEW_ARRAY(cli->arena, kiln_tensor_t, graph->output_count);
  for (uint32_t i = 0; i < graph->output_count; i++) values[i] = results[i].value;
  KILN_TRY(kiln_cli_write_outputs(cli, folder, graph, values));
  for (uint32_t i = 0; with_bounds && i < graph->output_count; i++) {
    const char *name = kiln_cli_output_name(cli->arena, graph, i);
    kiln_tensor_t bounds = bounds_of(&results[i]);
    KILN_TRY(kiln_npy_write(kiln_arena_printf(cli->arena, "%s/%s.bound.npy", folder, name), &bounds));
  }
  return NULL;
}

static kiln_status_t run(kiln_cli_t *cli) {
  kiln_cli_source_t source;
  kiln_cli_values_t values;
  KILN_TRY(kiln_cli_load(cli, 0, &source));
  const kiln_graph_t *graph = source.graph;
  KILN_TRY(kiln_cli_values(cli, graph, &values));
  kiln_reference_t *results = KILN_NEW_ARRAY(cli->arena, kiln_reference_t, graph->output_count);
  const char *folder = kiln_cli_value(cli, "--output-dir");
  if (folder) KILN_TRY(kiln_cli_make_folder(folder)); /* before anything is spent on what cannot be kept */
  kiln_cli_progress("evaluating '%s'", graph->name);
  KILN_TRY(kiln_reference_run(cli->arena, graph, values.symbols, values.inputs, 0, results));
  bool with_bounds = kiln_cli_flag(cli, "--bounds");
  return folder ? write_results(cli, folder, graph, results, with_bounds)
                : print_results(cli, graph, results, with_bounds);
}

static const kiln_cli_option_t options[] = {
    KILN_CLI_OPTION_GRAPH,
    KILN_CLI_OPTIONS_INPUTS,
    {"--output-dir", "DIR", "write NAME.npy per result instead of printing (bf16 as uint16 bits)"},
    {"--bounds", NULL, "also print, or write as NAME.bound.npy, how far a right answer may be"},
    {NULL, NULL, NULL},
};

const kiln_cli_command_t kiln_cli_reference = {
    .name = "reference",
    .operands = "FILE",
    .operands_least = 1,
    .operands_most = 1,
    .summary = "Evaluate a graph on the CPU, without a daemon.",
    .options = options,
    .run = run,
};
