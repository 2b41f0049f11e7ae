/* tests/support/kiln_eval_main.c: evaluates graphs by the reference evaluator, for tests written in Python.
 *
 *   kiln_eval FILE FOLDER [LIMIT_BYTES]
 *
 * For each graph of FILE reads FOLDER/<graph>.<input>.npy and writes FOLDER/<graph>.<i>.npy and
 * <graph>.<i>.bound.npy for result i. Symbols come from the inputs' shapes, which are those of the files. One
 * line "<graph>: ok", or
 * "<graph>: CODE: message", per graph; exits 0 unless the file itself cannot be read.
 */
#include "ir/reference.h"
#include "ir/text.h"

#include <stdio.h>
#include <stdlib.h>

static kiln_status_t read_text(kiln_arena_t *arena, const char *path, kiln_buffer_t *out,
                               kiln_graph_list_t *graphs) {
  FILE *file = fopen(path, "rb");
  char chunk[4096];
  if (!file) return kiln_error(KILN_NOT_FOUND, "cannot open '%s'", path);
  for (size_t got; (got = fread(chunk, 1, sizeof chunk, file)) > 0;) kiln_buffer_append(out, chunk, got);
  fclose(file);
  return kiln_text_parse(arena, path, kiln_buffer_text(out), out->size, graphs);
}

static kiln_status_t evaluate(kiln_arena_t *arena, const kiln_graph_t *graph, const char *folder,
                              uint64_t limit) {
  int64_t symbols[KILN_MAX_SYMBOLS];
  kiln_tensor_t *inputs = KILN_NEW_ARRAY(arena, kiln_tensor_t, graph->input_count);
  kiln_reference_t *outputs = KILN_NEW_ARRAY(arena, kiln_reference_t, graph->output_count);
  for (int s = 0; s < KILN_MAX_SYMBOLS; s++) symbols[s] = -1;
  for (uint32_t i = 0; i < graph->input_count; i++) {
    const char *name = kiln_graph_value_name(arena, graph, i) + 1; /* without the % */
    KILN_TRY(kiln_npy_read(arena, kiln_arena_printf(arena, "%s/%s.%s.npy", folder, graph->name, name),
                           graph->types[i].dtype, &inputs[i]));
  }
  KILN_TRY(kiln_symbols_bind(graph->symbols, graph->symbol_count, graph->types, graph->input_count, inputs,
                             symbols));
  KILN_TRY(kiln_reference_run(arena, graph, symbols, inputs, limit, outputs));
  for (uint32_t i = 0; i < graph->output_count; i++) {
    kiln_tensor_t bound = outputs[i].value;
    bound.dtype = KILN_DTYPE_f64;
    bound.data = outputs[i].bound;
    KILN_TRY(
        kiln_npy_write(kiln_arena_printf(arena, "%s/%s.%u.npy", folder, graph->name, i), &outputs[i].value));
    KILN_TRY(kiln_npy_write(kiln_arena_printf(arena, "%s/%s.%u.bound.npy", folder, graph->name, i), &bound));
  }
  return NULL;
}

static void report(const kiln_graph_t *graph, kiln_status_t status) {
  if (status)
    printf("%s: %s: %s\n", graph->name, kiln_code_name(kiln_status_code(status)),
           kiln_status_message(status));
  else
    printf("%s: ok\n", graph->name);
  kiln_status_free(status);
}

int main(int argc, char **argv) {
  if (argc < 3) return fputs("usage: kiln_eval FILE FOLDER [LIMIT_BYTES]\n", stderr), 2;
  kiln_arena_t arena;
  kiln_buffer_t text;
  kiln_graph_list_t graphs = {0};
  kiln_arena_init(&arena, 0);
  kiln_buffer_init(&text);
  kiln_status_t status = read_text(&arena, argv[1], &text, &graphs);
  if (status) fprintf(stderr, "%s\n", kiln_status_message(status));
  for (size_t g = 0; !status && g < graphs.count; g++) {
    kiln_arena_t own;
    kiln_arena_init(&own, 0);
    report(graphs.graphs[g],
           evaluate(&own, graphs.graphs[g], argv[2], argc > 3 ? strtoull(argv[3], NULL, 10) : 0));
    kiln_arena_deinit(&own);
  }
  kiln_buffer_deinit(&text);
  kiln_arena_deinit(&arena);
  bool failed = status != NULL;
  kiln_status_free(status);
  return failed;
}
