/* server/program.c: from what a client sent to a program; everything that is derived once per graph is
 * derived here. */
#include "server/program.h"

#include "ir/text.h"
#include "ir/wire.h"

#include <stdlib.h>
#include <string.h>

/* --- identity --------------------------------------------------------------------------------------- */

static kiln_digest_t digest_of(const char *name, const kiln_options_t *options, const void *bytes,
                               size_t size) {
  uint8_t chosen[] = {options->excess_precision, options->allow_tf32, options->unfused};
  kiln_hasher_t *hasher = kiln_hasher_create();
  if (!hasher) return (kiln_digest_t){0};
  kiln_hasher_field(hasher, chosen, sizeof chosen);
  kiln_hasher_field(hasher, name, strlen(name));
  kiln_hasher_field(hasher, bytes, size);
  return kiln_hasher_finish(hasher);
}

bool program_source_digest(const program_source_t *source, kiln_digest_t *out) {
  if (!source->text) return false;
  *out = digest_of(source->name, &source->options, source->text, source->text_size);
  return true;
}

/* --- making one ------------------------------------------------------------------------------------- */

typedef struct {
  program_t *program;
  const program_source_t *source;
  kiln_arena_t *scratch; /* of the graph, which is not kept */
} making_t;

static kiln_status_t choose(const kiln_graph_list_t *graphs, const char *name, const kiln_graph_t **out) {
  if (!graphs->count) return kiln_error(KILN_INVALID_GRAPH, "the text holds no graph");
  for (size_t i = 0; i < graphs->count; i++) {
    *out = graphs->graphs[i];
    if (*name ? !strcmp((*out)->name, name) : graphs->count == 1) return NULL;
  }
  if (*name) return kiln_error(KILN_NOT_FOUND, "the text holds no graph '%s'", name);
  return kiln_error_detail(
      kiln_error(KILN_INVALID_ARGUMENT, "the text holds %zu graphs: say which by name", graphs->count),
      "field", "name");
}

static kiln_status_t read_graph(making_t *making, const kiln_graph_t **out) {
  kiln_arena_t *arena = making->scratch;
  const program_source_t *source = making->source;
  if (!source->text) return kiln_graph_decode(arena, source->form, out);
  kiln_graph_list_t graphs = {0};
  KILN_TRY(kiln_text_parse(arena, "graph", source->text, source->text_size, &graphs));
  return choose(&graphs, source->name, out);
}

/* The same graph, with names that say nothing. */
static const kiln_graph_t *without_names(kiln_arena_t *arena, const kiln_graph_t *graph) {
  kiln_graph_t *bare = kiln_arena_copy(arena, graph, sizeof *graph);
  kiln_symbol_t *symbols = KILN_NEW_ARRAY(arena, kiln_symbol_t, graph->symbol_count);
  for (uint32_t i = 0; i < graph->symbol_count; i++) symbols[i].name = kiln_arena_printf(arena, "s%u", i);
  bare->name = "graph";
  bare->symbols = symbols;
  bare->value_names = NULL;
  return bare;
}

/* What executions ask of the graph. */
static void keep_boundary(program_t *program, const kiln_graph_t *graph) {
  kiln_arena_t *arena = &program->arena;
  kiln_symbol_t *symbols = KILN_NEW_ARRAY(arena, kiln_symbol_t, graph->symbol_count);
  kiln_type_t *types = KILN_NEW_ARRAY(arena, kiln_type_t, graph->input_count);
  bool *strided = KILN_NEW_ARRAY(arena, bool, graph->output_count);
  for (uint32_t i = 0; i < graph->symbol_count; i++) {
    symbols[i] = graph->symbols[i];
    symbols[i].name = kiln_arena_strdup(arena, graph->symbols[i].name);
  }
  for (uint32_t i = 0; i < graph->input_count; i++) {
    types[i] = graph->types[i];
    for (uint32_t axis = 0; axis < types[i].rank; axis++)
      types[i].dims[axis] = kiln_dim_copy(arena, types[i].dims[axis]);
  }
  for (uint32_t i = 0; i < graph->output_count; i++) strided[i] = graph->output_layouts[i].has_strides;
  program->symbols = symbols;
  program->input_types = types;
  program->output_strided = strided;
  program->symbol_count = graph->symbol_count;
  program->input_count = graph->input_count;
  program->output_count = graph->output_count;
}

/* With names: two graphs that differ in names are two programs, so that no error names what another session
 * said. */
static kiln_digest_t digest_of_form(const kiln_options_t *options, const kiln_graph_t *graph) {
  kiln_buffer_t form;
  kiln_buffer_init(&form);
  kiln_graph_encode(&form, graph);
  kiln_digest_t digest = digest_of("", options, kiln_buffer_text(&form), form.size);
  kiln_buffer_deinit(&form);
  return digest;
}

static kiln_status_t make(void *argument) {
  making_t *making = argument;
  program_t *program = making->program;
  kiln_arena_t *scratch = making->scratch;
  const kiln_graph_t *graph;
  KILN_TRY(read_graph(making, &graph));
  graph = kiln_graph_canonicalize(scratch, graph);
  program->hash = kiln_graph_hash(scratch, graph);
  kiln_graph_encode(&program->wire, without_names(scratch, graph));
  kiln_buffer_append(&program->full_key, &(kiln_digest_t){0}, sizeof(kiln_digest_t));
  kiln_graph_key_bytes(scratch, graph, &program->full_key);
  keep_boundary(program, graph);
  program->extents = kiln_pipeline_extents(&program->arena, scratch, graph);
  program->options = making->source->options;
  if (!program_source_digest(making->source, &program->digest))
    program->digest = digest_of_form(&program->options, graph);
  if (!program->wire.failed && !program->full_key.failed) return NULL;
  return kiln_error_detail(kiln_error(KILN_OUT_OF_MEMORY, "no memory for the graph"), "where", "host");
}

/* Either arena may run out. */
static kiln_status_t make_guarded(void *argument) {
  making_t *making = argument;
  return kiln_arena_guard(making->scratch, make, making);
}

kiln_status_t program_create(const program_source_t *source, size_t limit_bytes, program_t **out_program) {
  program_t *program = calloc(1, sizeof *program);
  if (!program)
    return kiln_error_detail(kiln_error(KILN_OUT_OF_MEMORY, "no memory for a graph"), "where", "host");
  kiln_arena_t scratch;
  kiln_arena_init(&scratch, limit_bytes);
  kiln_arena_init(&program->arena, limit_bytes);
  program->references = 1;
  making_t making = {.program = program, .source = source, .scratch = &scratch};
  kiln_status_t status = kiln_arena_guard(&program->arena, make_guarded, &making);
  kiln_arena_deinit(&scratch);
  if (status) {
    program_release(program);
  } else {
    *out_program = program;
  }
  return status;
}

program_t *program_retain(program_t *program) {
  program->references++;
  return program;
}

void program_release(void *pointer) {
  program_t *program = pointer;
  if (!program || --program->references) return;
  kiln_buffer_deinit(&program->wire);
  kiln_buffer_deinit(&program->full_key);
  kiln_arena_deinit(&program->arena);
  free(program);
}

uint64_t program_bytes(const program_t *program) {
  return sizeof *program + program->arena.used_bytes + program->wire.capacity + program->full_key.capacity;
}

/* --- classes and keys ------------------------------------------------------------------------------- */

kiln_symbol_class_t program_class(const program_t *program, const int64_t *symbols) {
  int64_t typical[KILN_MAX_SYMBOLS];
  for (uint32_t i = 0; i < program->symbol_count; i++) {
    typical[i] = program->symbols[i].typical ? program->symbols[i].typical : -1;
  }
  return kiln_pipeline_symbol_class(&program->extents, program->symbol_count, symbols ? symbols : typical);
}

const kiln_buffer_t *program_full_key(program_t *program, const kiln_digest_t *key) {
  memcpy(program->full_key.data, key, sizeof *key);
  return &program->full_key;
}

void program_remember(program_t *program, uint32_t device, const kiln_symbol_class_t *symbol_class,
                      const kiln_digest_t *key) {
  for (size_t i = 0; i < program->class_count; i++) {
    if (program->classes[i].device == device && kiln_digest_equal(&program->classes[i].key, key)) return;
  }
  program->classes[program->class_next] =
      (program_class_t){.device = device, .symbol_class = *symbol_class, .key = *key};
  program->class_next = (program->class_next + 1) % PROGRAM_MAX_CLASSES;
  if (program->class_count < PROGRAM_MAX_CLASSES) program->class_count++;
}
