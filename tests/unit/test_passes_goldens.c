/* tests/unit/test_passes_goldens.c: the golden files of the passes, tests/goldens/passes/<pass>/<what>.kiln.
 *
 * A file holds graphs, a line "# ---- expected", and the graphs as the pass (then dce) leaves them; in the
 * folder `all` the default order runs. Each graph is evaluated before and after on random inputs.
 * KILN_UPDATE_GOLDENS=1 rewrites the expected part; the diff is reviewed like code.
 */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ir/canonical.h"
#include "ir/text.h"
#include "passes/passes.h"
#include "tests/support/equivalence.h"

#define GOLDENS KILN_SOURCE_DIR "/tests/goldens/passes"
static const char separator[] = "# ---- expected\n";

enum { SEEDS = 5 };

static const kiln_graph_t *run_passes(kiln_arena_t *arena, const char *path, const char *list,
                                      const kiln_graph_t *graph) {
  kiln_options_t options = {0};
  kiln_pass_run_t run = {.list = list};
  kiln_pass_report_t report;
  const kiln_graph_t *optimized;
  kiln_status_t status = kiln_passes_run(arena, graph, &options, &run, &optimized, &report);
  if (status) fail_msg("%s: %s", path, kiln_status_message(status));
  for (uint64_t seed = 1; seed <= SEEDS; seed++) kiln_test_same_results(graph, optimized, seed);
  return optimized;
}

static void write_golden(const char *path, const char *input, const char *expected) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  fprintf(file, "%s%s%s", input, separator, expected);
  fclose(file);
}

/* The canonical form shares equal nodes and drops dead ones, which would leave these passes nothing to show.
 */
static bool is_done_by_canonical_form(const char *list) {
  return list && (!strncmp(list, "cse", 3) || !strncmp(list, "dce", 3));
}

static void check_file(const char *path, const char *list) {
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  const char *text = kiln_test_read_file(&arena, path);
  if (!text) fail_msg("cannot read %s", path);
  const char *end = strstr(text, separator);
  const char *input = end ? kiln_arena_strndup(&arena, text, (size_t)(end - text)) : text;
  kiln_graph_list_t graphs = {0};
  kiln_status_t status = kiln_text_parse(&arena, path, input, strlen(input), &graphs);
  if (status) fail_msg("%s", kiln_status_message(status));
  kiln_buffer_t got;
  kiln_buffer_init(&got);
  for (size_t i = 0; i < graphs.count; i++) {
    const kiln_graph_t *graph = graphs.graphs[i];
    if (!is_done_by_canonical_form(list)) graph = kiln_graph_canonicalize(&arena, graph);
    kiln_text_print(&arena, &got, run_passes(&arena, path, list, graph));
  }
  if (getenv("KILN_UPDATE_GOLDENS")) {
    write_golden(path, input, kiln_buffer_text(&got));
  } else if (!end || strcmp(end + strlen(separator), kiln_buffer_text(&got)) != 0) {
    fail_msg("%s: got\n%s", path, kiln_buffer_text(&got));
  }
  kiln_buffer_deinit(&got);
  kiln_arena_deinit(&arena);
}

/* The number of golden files in a folder. */
static int check_folder(const char *name, const char *list) {
  char folder[512], path[1024];
  snprintf(folder, sizeof folder, "%s/%s", GOLDENS, name);
  DIR *directory = opendir(folder);
  if (!directory) fail_msg("no folder %s", folder);
  int count = 0;
  for (struct dirent *entry; (entry = readdir(directory));) {
    const char *dot = strrchr(entry->d_name, '.');
    if (!dot || strcmp(dot, ".kiln") != 0) continue;
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    check_file(path, list);
    count++;
  }
  closedir(directory);
  return count;
}

static void every_pass_has_goldens_and_keeps_to_them(void **state) {
  (void)state;
  char list[128];
  for (size_t i = 0; kiln_passes_at(i); i++) {
    const char *name = kiln_passes_at(i)->name;
    snprintf(list, sizeof list, "%s,dce", name);
    if (!check_folder(name, list)) fail_msg("pass '%s' has no golden", name);
  }
}

static void default_order_keeps_to_its_goldens(void **state) {
  (void)state;
  assert_true(check_folder("all", NULL) > 0);
}

static void every_rule_of_simplify_has_a_golden(void **state) {
  (void)state;
  static const char *const rules[] = {
#define KILN_RULE(op, function, text) #function,
#include "passes/simplify_rules.def"
#undef KILN_RULE
  };
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
    const char *path = kiln_arena_printf(&arena, "%s/simplify/%s.kiln", GOLDENS, rules[i]);
    if (!kiln_test_read_file(&arena, path)) fail_msg("no golden %s", path);
  }
  kiln_arena_deinit(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_pass_has_goldens_and_keeps_to_them),
      cmocka_unit_test(default_order_keeps_to_its_goldens),
      cmocka_unit_test(every_rule_of_simplify_has_a_golden),
  };
  return cmocka_run_group_tests_name("passes: goldens", tests, NULL, NULL);
}
