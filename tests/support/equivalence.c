/* tests/support/equivalence.c: graphs for tests (tests/support/equivalence.h). */
#include "tests/support/equivalence.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ir/canonical.h"
#include "ir/reference.h"
#include "ir/text.h"
#include "tests/support/random_graph.h"

const kiln_graph_t *kiln_test_graph(kiln_arena_t *arena, const char *text) {
  kiln_graph_list_t list = {0};
  kiln_status_t status = kiln_text_parse(arena, "test", text, strlen(text), &list);
  if (status) fail_msg("%s", kiln_status_message(status));
  return kiln_graph_canonicalize(arena, list.graphs[0]);
}

static void print_graph(kiln_arena_t *arena, const char *title, const kiln_graph_t *graph) {
  kiln_buffer_t text;
  kiln_buffer_init(&text);
  kiln_text_print(arena, &text, graph);
  print_message("%s:\n%s", title, kiln_buffer_text(&text));
  kiln_buffer_deinit(&text);
}

void kiln_test_same_results(const kiln_graph_t *before, const kiln_graph_t *after, uint64_t seed) {
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  int64_t symbols[KILN_MAX_SYMBOLS];
  for (int i = 0; i < KILN_MAX_SYMBOLS; i++) symbols[i] = 5 + i;
  kiln_tensor_t *inputs = KILN_NEW_ARRAY(&arena, kiln_tensor_t, before->input_count);
  kiln_random_inputs(&arena, before, seed, symbols, inputs);
  kiln_reference_t *expected = KILN_NEW_ARRAY(&arena, kiln_reference_t, before->output_count);
  kiln_reference_t *got = KILN_NEW_ARRAY(&arena, kiln_reference_t, before->output_count);
  assert_int_equal(before->output_count, after->output_count);
  kiln_status_t failed = kiln_reference_run(&arena, before, symbols, inputs, 0, expected);
  if (failed) fail_msg("seed %#llx: %s", (unsigned long long)seed, kiln_status_message(failed));
  failed = kiln_reference_run(&arena, after, symbols, inputs, 0, got);
  if (failed) fail_msg("seed %#llx, after: %s", (unsigned long long)seed, kiln_status_message(failed));
  for (uint32_t i = 0; i < before->output_count; i++) {
    kiln_comparison_t comparison = kiln_reference_compare(&expected[i], &got[i].value);
    if (!comparison.wrong) continue;
    print_graph(&arena, "before", before);
    print_graph(&arena, "after", after);
    fail_msg("seed %#llx: output %u: %lld of %lld elements differ, first %lld: %a instead of %a (bound %g)",
             (unsigned long long)seed, i, (long long)comparison.wrong, (long long)comparison.elements,
             (long long)comparison.first_wrong, comparison.got, comparison.expected, comparison.bound);
  }
  kiln_arena_deinit(&arena);
}

const char *kiln_test_read_file(kiln_arena_t *arena, const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file) return NULL;
  fseek(file, 0, SEEK_END);
  long size = ftell(file);
  rewind(file);
  char *text = kiln_arena_alloc(arena, (size_t)size + 1);
  size_t read = fread(text, 1, (size_t)size, file);
  fclose(file);
  return read == (size_t)size ? text : NULL;
}
