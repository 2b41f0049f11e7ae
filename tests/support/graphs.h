/* tests/support/graphs.h: graphs from text for tests: what a test writes down is what it means. Include after
 * cmocka. */
#ifndef KILN_TESTS_SUPPORT_GRAPHS_H
#define KILN_TESTS_SUPPORT_GRAPHS_H

#include "ir/text.h"

#include <string.h>

/* The only graph of a text that must be right. */
static inline const kiln_graph_t *graph_from(kiln_arena_t *arena, const char *text) {
  kiln_graph_list_t list;
  kiln_status_t status = kiln_text_parse(arena, "test", text, strlen(text), &list);
  if (status) print_message("%s\n%s\n", kiln_status_message(status), text);
  assert_null(status);
  assert_int_equal(list.count, 1);
  return list.graphs[0];
}

/* The graph printed, in the arena. */
static inline const char *text_of(kiln_arena_t *arena, const kiln_graph_t *graph) {
  kiln_buffer_t *buffer = kiln_buffer_in_arena(arena);
  kiln_text_print(arena, buffer, graph);
  return kiln_buffer_text(buffer);
}

#endif
