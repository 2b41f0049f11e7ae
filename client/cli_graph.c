/* client/cli_graph.c: files in and out, and the graph that a command is about.
 *
 * The first step of every command with a FILE: read, parse, choose. What cannot be read or parsed is misuse
 * (INVALID_ARGUMENT, INVALID_GRAPH); parse errors name file, line and column.
 */
#include "client/cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static kiln_status_t read_stream(FILE *stream, const char *path, kiln_buffer_t *out) {
  char chunk[65536];
  size_t size;
  while ((size = fread(chunk, 1, sizeof chunk, stream)) > 0) kiln_buffer_append(out, chunk, size);
  if (ferror(stream)) return kiln_error_errno(KILN_INVALID_ARGUMENT, errno, "cannot read '%s'", path);
  if (out->failed) return kiln_error(KILN_OUT_OF_MEMORY, "no memory to read '%s'", path);
  return NULL;
}

kiln_status_t kiln_cli_read_file(kiln_arena_t *arena, const char *path, const char **out_text,
                                 size_t *out_size) {
  bool standard_input = !strcmp(path, "-");
  FILE *stream = standard_input ? stdin : fopen(path, "rb");
  if (!stream) return kiln_error_errno(KILN_INVALID_ARGUMENT, errno, "cannot open '%s'", path);
  kiln_buffer_t buffer;
  kiln_buffer_init(&buffer);
  kiln_status_t status = read_stream(stream, path, &buffer);
  if (!standard_input) fclose(stream);
  if (!status) {
    *out_text = kiln_arena_strndup(arena, kiln_buffer_text(&buffer), buffer.size);
    *out_size = buffer.size;
  }
  kiln_buffer_deinit(&buffer);
  return status;
}

kiln_status_t kiln_cli_write_file(const char *path, const void *data, size_t size) {
  FILE *stream = fopen(path, "wb");
  if (!stream) return kiln_error_errno(KILN_INVALID_ARGUMENT, errno, "cannot create '%s'", path);
  bool written = fwrite(data, 1, size, stream) == size;
  written = !fclose(stream) && written;
  return written ? NULL : kiln_error_errno(KILN_UNAVAILABLE, errno, "cannot write '%s'", path);
}

kiln_status_t kiln_cli_make_folder(const char *path) {
  struct stat info;
  if (!mkdir(path, 0777)) return NULL;
  if (errno == EEXIST && !stat(path, &info) && S_ISDIR(info.st_mode)) return NULL;
  return kiln_error_errno(KILN_INVALID_ARGUMENT, errno, "cannot create the folder '%s'", path);
}

/* "'a', 'b'" */
static const char *names_of(kiln_arena_t *arena, const kiln_graph_list_t *list) {
  const char *names = "";
  for (size_t i = 0; i < list->count; i++)
    names = kiln_arena_printf(arena, "%s%s'%s'", names, i ? ", " : "", list->graphs[i]->name);
  return names;
}

/* The graph of --graph alone, when it is given; the parser gives at least one. */
static kiln_status_t choose(kiln_cli_t *cli, const char *path, kiln_graph_list_t *list) {
  const char *wanted = kiln_cli_value(cli, "--graph");
  for (size_t i = 0; wanted && i < list->count; i++) {
    if (strcmp(list->graphs[i]->name, wanted)) continue;
    *list = (kiln_graph_list_t){.graphs = &list->graphs[i], .count = 1};
    return NULL;
  }
  if (!wanted) return NULL;
  return kiln_error(KILN_INVALID_ARGUMENT, "'%s' has no graph '%s'; it has %s", path, wanted,
                    names_of(cli->arena, list));
}

kiln_status_t kiln_cli_load_all(kiln_cli_t *cli, size_t operand, kiln_cli_source_t *out,
                                kiln_graph_list_t *out_graphs) {
  *out = (kiln_cli_source_t){.path = cli->operands[operand]};
  *out_graphs = (kiln_graph_list_t){0};
  KILN_TRY(kiln_cli_read_file(cli->arena, out->path, &out->text, &out->size));
  KILN_TRY(kiln_text_parse(cli->arena, out->path, out->text, out->size, out_graphs));
  return choose(cli, out->path, out_graphs);
}

kiln_status_t kiln_cli_load(kiln_cli_t *cli, size_t operand, kiln_cli_source_t *out) {
  kiln_graph_list_t list;
  KILN_TRY(kiln_cli_load_all(cli, operand, out, &list));
  if (list.count > 1)
    return kiln_error(KILN_INVALID_ARGUMENT, "'%s' holds several graphs, choose one with --graph: %s",
                      out->path, names_of(cli->arena, &list));
  out->graph = list.graphs[0];
  return NULL;
}

const char *kiln_cli_output_name(kiln_arena_t *arena, const kiln_graph_t *graph, uint32_t index) {
  const char *name = kiln_graph_value_name(arena, graph, graph->outputs[index]);
  return *name == '%' ? name + 1 : name;
}
