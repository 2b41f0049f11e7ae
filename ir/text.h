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
/* A number so that parsing gives the same bits: "-0.0", "1e-05", "inf", "nan", "nan(0x7ff8000000000001)". */
void kiln_text_print_number(kiln_buffer_t *out, kiln_number_t number);
/* Can it be a graph's, symbol's or value's name? Letters, digits, _ and dots; no dot first, and no digit
 * unless a value's. */
bool kiln_text_is_name(const char *name, size_t length, bool digit_first);
/* One dimension expression over the symbols, as "2*T*T+3*T-1" or "(T+1)*64/2". INVALID_GRAPH when it is
 * none. */
kiln_status_t kiln_text_parse_dim(kiln_arena_t *arena, const char *text, size_t size,
                                  const kiln_symbol_t *symbols, uint32_t symbol_count, kiln_dim_t *out);
/* GraphViz source of the graph. */
void kiln_text_print_dot(kiln_arena_t *arena, kiln_buffer_t *out, const kiln_graph_t *graph);

#endif
