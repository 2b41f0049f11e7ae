/* ir/text.h: graphs as text, in and out (grammar: docs/text-format.md). Every error names file, line and
 * column. */
#ifndef KILN_IR_TEXT_H
#define KILN_IR_TEXT_H

#include "base/buffer.h"
#include "ir/graph.h"

typedef struct {
  const kiln_graph_t **graphs;
  size_t count, capacity;
} kiln_graph_list_t;

/* Parses a file of graphs. `text` need not be NUL-terminated. Result types are inferred; a type that is given
 * is checked. INVALID_GRAPH "<file>:<line>:<column>: ..." with details line and column. The graphs are
 * verified. */
kiln_status_t kiln_text_parse(kiln_arena_t *arena, const char *file, const char *text, size_t size,
                              kiln_graph_list_t *out_graphs);
/* Prints so that parsing gives the same graph. */
void kiln_text_print(kiln_arena_t *arena, kiln_buffer_t *out, const kiln_graph_t *graph);
/* GraphViz source of the graph. */
void kiln_text_print_dot(kiln_arena_t *arena, kiln_buffer_t *out, const kiln_graph_t *graph);

#endif
