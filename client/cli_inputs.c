/* client/cli_inputs.c: values for a graph's symbols and inputs, from the command line or made up.
 *
 * A symbol's value comes from --symbol, else from the shape of an input that is read from a file, else it is
 * the typical value that the graph declares. Then every input has a shape, is filled, and is passed through
 * its storage once, so that an expanded input (a stride of 0) is what a device would read.
 */
#include "client/cli.h"

#include <string.h>

enum { UNKNOWN = -1 };

/* -- symbols -------------------------------------------------------------------------------------------- */

static kiln_status_t no_value(const kiln_symbol_t *symbol) {
  return kiln_error(KILN_INVALID_ARGUMENT, "symbol '%s' has no value: give --symbol %s=N", symbol->name,
                    symbol->name);
}

kiln_status_t kiln_cli_given_symbols(kiln_cli_t *cli, const kiln_graph_t *graph, int64_t *symbols) {
  size_t cursor = 0;
  for (const char *text; (text = kiln_cli_next(cli, "--symbol", &cursor));) {
    const char *name, *value;
    uint32_t s = 0;
    KILN_TRY(kiln_cli_pair(cli->arena, "--symbol", text, &name, &value));
    while (s < graph->symbol_count && strcmp(graph->symbols[s].name, name)) s++;
    if (s == graph->symbol_count)
      return kiln_error(KILN_INVALID_ARGUMENT, "--symbol %s: graph '%s' has no symbol '%s'", text,
                        graph->name, name);
    if (!kiln_cli_parse_integer(value, &symbols[s]) || symbols[s] < 0)
      return kiln_error(KILN_INVALID_ARGUMENT, "--symbol %s: give a whole number from 0 up", text);
  }
  return NULL;
}

kiln_status_t kiln_cli_typical_symbols(kiln_cli_t *cli, const kiln_graph_t *graph,
                                       const int64_t **out_symbols, bool *out_all_known) {
  int64_t *symbols = KILN_NEW_ARRAY(cli->arena, int64_t, KILN_MAX_SYMBOLS);
  *out_all_known = true;
  for (uint32_t s = 0; s < graph->symbol_count; s++)
    symbols[s] = graph->symbols[s].typical ? graph->symbols[s].typical : UNKNOWN;
  KILN_TRY(kiln_cli_given_symbols(cli, graph, symbols));
  for (uint32_t s = 0; s < graph->symbol_count; s++) {
    if (symbols[s] != UNKNOWN) continue;
    if (kiln_cli_value(cli, "--symbol")) return no_value(&graph->symbols[s]);
    *out_all_known = false;
  }
  *out_symbols = symbols;
  return NULL;
}

/* The symbol that a dimension consists of, alone; UNKNOWN for anything else. */
static int bare_symbol(kiln_dim_t dim) {
  if (dim.term_count != 1 || dim.terms[0].coefficient != 1) return UNKNOWN;
  for (int s = 0; s < KILN_MAX_SYMBOLS; s++)
    if (dim.terms[0].powers == UINT64_C(1) << (8 * s)) return s;
  return UNKNOWN;
}

static void symbols_from_shape(const kiln_type_t *type, const kiln_tensor_t *tensor, int64_t *symbols) {
  if (!tensor->data || tensor->rank != type->rank) return;
  for (uint32_t d = 0; d < type->rank; d++) {
    int s = bare_symbol(type->dims[d]);
    if (s != UNKNOWN && symbols[s] == UNKNOWN) symbols[s] = tensor->sizes[d];
  }
}

static kiln_status_t symbols_from_declarations(const kiln_graph_t *graph, int64_t *symbols) {
  for (uint32_t s = 0; s < graph->symbol_count; s++) {
    if (symbols[s] != UNKNOWN) continue;
    symbols[s] = graph->symbols[s].typical;
    if (!symbols[s]) return no_value(&graph->symbols[s]);
  }
  return NULL;
}

/* -- inputs --------------------------------------------------------------------------------------------- */

static const char *input_name(kiln_arena_t *arena, const kiln_graph_t *graph, uint32_t input) {
  return kiln_graph_value_name(arena, graph, input) + 1; /* without the % */
}

/* Where an input comes from: a fill, or a file whose tensor is read already. */
typedef struct {
  kiln_cli_fill_t fill;
  const char *path; /* NULL: made up */
} source_t;

static kiln_status_t parse_source(const char *option, const char *value, source_t *out) {
  static const struct {
    const char *name;
    kiln_cli_fill_t fill;
  } fills[] = {{"random", KILN_FILL_RANDOM}, {"zeros", KILN_FILL_ZEROS}, {"arange", KILN_FILL_ARANGE}};
  for (size_t i = 0; i < sizeof fills / sizeof *fills; i++)
    if (!strcmp(fills[i].name, value)) {
      out->fill = out->fill == KILN_FILL_INDEX && !i ? out->fill : fills[i].fill;
      out->path = NULL;
      return NULL;
    }
  size_t length = strlen(value);
  if (length < 4 || strcmp(value + length - 4, ".npy"))
    return kiln_error(KILN_INVALID_ARGUMENT, "--input %s: give a .npy file, random, zeros or arange", option);
  out->path = value;
  return NULL;
}

static kiln_status_t sources_from_options(kiln_cli_t *cli, const kiln_graph_t *graph, source_t *sources) {
  size_t cursor = 0;
  for (const char *text; (text = kiln_cli_next(cli, "--input", &cursor));) {
    const char *name, *value;
    uint32_t i = 0;
    KILN_TRY(kiln_cli_pair(cli->arena, "--input", text, &name, &value));
    while (i < graph->input_count && strcmp(input_name(cli->arena, graph, i), name)) i++;
    if (i == graph->input_count)
      return kiln_error(KILN_INVALID_ARGUMENT, "--input %s: graph '%s' has no input '%s'", text, graph->name,
                        name);
    KILN_TRY(parse_source(text, value, &sources[i]));
  }
  return NULL;
}

/* Marks the inputs that end up as indices of gather or embedding: those start small and not negative. */
static void mark_indices(kiln_arena_t *arena, const kiln_graph_t *graph, source_t *sources) {
  bool *is_index = KILN_NEW_ARRAY(arena, bool, graph->value_count);
  for (uint32_t n = graph->node_count; n-- > 0;) {
    const kiln_node_t *node = &graph->nodes[n];
    if (node->op == KILN_OP_gather || node->op == KILN_OP_embedding) is_index[node->operands[1]] = true;
    for (uint32_t r = 0; r < node->result_count; r++)
      for (uint32_t o = 0; is_index[node->first_result + r] && o < node->operand_count; o++)
        if (node->operands[o] != KILN_NO_VALUE) is_index[node->operands[o]] = true;
  }
  for (uint32_t i = 0; i < graph->input_count; i++)
    if (is_index[i] && kiln_dtype_is_integer(graph->types[i].dtype)) sources[i].fill = KILN_FILL_INDEX;
}

static kiln_status_t check_shape(kiln_arena_t *arena, const kiln_graph_t *graph, uint32_t input,
                                 const kiln_tensor_t *read, const kiln_tensor_t *wanted) {
  bool same = read->dtype == wanted->dtype && read->rank == wanted->rank;
  for (uint32_t d = 0; same && d < read->rank; d++) same = read->sizes[d] == wanted->sizes[d];
  if (same) return NULL;
  return kiln_error(KILN_INVALID_ARGUMENT, "input '%s' is %s, its file holds %s",
                    input_name(arena, graph, input), kiln_cli_shape_text(arena, wanted),
                    kiln_cli_shape_text(arena, read));
}

/* Through the storage and back. A file must not lose by it; made-up elements may. */
static kiln_status_t settle_strides(kiln_arena_t *arena, const kiln_graph_t *graph, uint32_t input,
                                    bool from_file, const kiln_cli_values_t *values) {
  int64_t strides[KILN_MAX_RANK];
  kiln_cli_bytes_t storage;
  kiln_tensor_t *tensor = &values->inputs[input], settled;
  if (!graph->input_layouts[input].has_strides) return NULL;
  KILN_TRY(kiln_cli_strides(&graph->types[input], &graph->input_layouts[input], values->symbols, strides));
  KILN_TRY(kiln_cli_input_storage(arena, graph, input, values, &storage));
  KILN_TRY(kiln_tensor_create(arena, tensor->dtype, tensor->rank, tensor->sizes, &settled));
  kiln_storage_gather(&settled, storage.data, strides);
  size_t bytes = (size_t)kiln_tensor_elements(tensor) * kiln_dtype_bytes(tensor->dtype);
  if (from_file && memcmp(settled.data, tensor->data, bytes))
    return kiln_error(
        KILN_INVALID_ARGUMENT,
        "input '%s' declares strides by which elements share memory, but its file differs there",
        input_name(arena, graph, input));
  *tensor = settled;
  return NULL;
}

static kiln_status_t make_input(kiln_arena_t *arena, const kiln_graph_t *graph, uint32_t input,
                                const source_t *source, uint64_t seed, kiln_cli_values_t *values) {
  int64_t sizes[KILN_MAX_RANK];
  kiln_tensor_t made, *tensor = &values->inputs[input];
  const kiln_type_t *type = &graph->types[input];
  KILN_TRY(kiln_type_sizes(type, values->symbols, sizes));
  if (source->path) {
    made = (kiln_tensor_t){.dtype = type->dtype, .rank = type->rank};
    memcpy(made.sizes, sizes, sizeof made.sizes);
    KILN_TRY(check_shape(arena, graph, input, tensor, &made));
  } else {
    KILN_TRY(kiln_cli_check_memory(type, sizes));
    KILN_TRY(kiln_tensor_create(arena, type->dtype, type->rank, sizes, tensor));
    kiln_cli_fill(tensor, source->fill, seed * UINT64_C(1000003) + input);
  }
  return settle_strides(arena, graph, input, source->path != NULL, values);
}

static kiln_status_t make_inputs(kiln_arena_t *arena, const kiln_graph_t *graph, const source_t *sources,
                                 uint64_t seed, kiln_cli_values_t *values) {
  for (uint32_t i = 0; i < graph->input_count; i++)
    KILN_TRY(make_input(arena, graph, i, &sources[i], seed, values));
  return NULL;
}

/* A file that is missing is misuse like one that does not fit. */
static kiln_status_t read_file(kiln_arena_t *arena, const char *path, kiln_dtype_t dtype,
                               kiln_tensor_t *out) {
  kiln_status_t status = kiln_npy_read(arena, path, dtype, out);
  if (kiln_status_code(status) != KILN_NOT_FOUND) return status;
  kiln_status_t misuse = kiln_error(KILN_INVALID_ARGUMENT, "%s", kiln_status_message(status));
  kiln_status_free(status);
  return misuse;
}

/* -- for commands --------------------------------------------------------------------------------------- */

static void values_init(kiln_arena_t *arena, const kiln_graph_t *graph, kiln_cli_values_t *out) {
  out->symbols = KILN_NEW_ARRAY(arena, int64_t, KILN_MAX_SYMBOLS);
  out->inputs = KILN_NEW_ARRAY(arena, kiln_tensor_t, graph->input_count);
}

kiln_status_t kiln_cli_values(kiln_cli_t *cli, const kiln_graph_t *graph, kiln_cli_values_t *out) {
  kiln_arena_t *arena = cli->arena;
  source_t *sources = KILN_NEW_ARRAY(arena, source_t, graph->input_count);
  int64_t seed;
  values_init(arena, graph, out);
  KILN_TRY(kiln_cli_integer(cli, "--seed", 0, INT64_MAX, 0, &seed));
  for (uint32_t s = 0; s < graph->symbol_count; s++) out->symbols[s] = UNKNOWN;
  KILN_TRY(kiln_cli_given_symbols(cli, graph, out->symbols));
  mark_indices(arena, graph, sources);
  KILN_TRY(sources_from_options(cli, graph, sources));
  for (uint32_t i = 0; i < graph->input_count; i++) {
    if (!sources[i].path) continue;
    KILN_TRY(read_file(arena, sources[i].path, graph->types[i].dtype, &out->inputs[i]));
    symbols_from_shape(&graph->types[i], &out->inputs[i], out->symbols);
  }
  KILN_TRY(symbols_from_declarations(graph, out->symbols));
  return make_inputs(arena, graph, sources, (uint64_t)seed, out);
}

kiln_status_t kiln_cli_random_values(kiln_arena_t *arena, const kiln_graph_t *graph, uint64_t seed,
                                     const int64_t *symbols, kiln_cli_values_t *out) {
  source_t *sources = KILN_NEW_ARRAY(arena, source_t, graph->input_count);
  values_init(arena, graph, out);
  memcpy(out->symbols, symbols, graph->symbol_count * sizeof *symbols);
  mark_indices(arena, graph, sources);
  return make_inputs(arena, graph, sources, seed, out);
}
