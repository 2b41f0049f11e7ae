/* tests/unit/test_codegen_goldens.c: the source of representative kernels, as a person would read it.
 *
 * tests/goldens/codegen/NAME.kiln is compiled without passes; NAME.cu holds its kernels, one after the other,
 * with their launch records and the guards that they rely on. KILN_UPDATE_GOLDENS=1 rewrites them; the
 * difference is reviewed like code. All of them compile, and give the reference's values where they are small
 * enough to run.
 */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ir/text.h"
#include "tests/support/batch.h"
#include "tests/support/random_graph.h"

#define FOLDER KILN_SOURCE_DIR "/tests/goldens/codegen"

static const kiln_options_t plain = {0};
static const kiln_symbol_class_t unknown = {{1, 1, 1, 1, 1, 1, 1, 1}, false};
static const kiln_pass_run_t no_passes = {.list = ""};

static const char *read_file(kiln_arena_t *arena, const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file) return "";
  fseek(file, 0, SEEK_END);
  long size = ftell(file);
  rewind(file);
  char *text = kiln_arena_alloc(arena, (size_t)size + 1);
  size_t got = fread(text, 1, (size_t)size, file);
  fclose(file);
  return got == (size_t)size ? text : "";
}

static const kiln_graph_t *parse(kiln_arena_t *arena, const char *path) {
  const char *text = read_file(arena, path);
  kiln_graph_list_t list = {0};
  kiln_status_t status = kiln_text_parse(arena, path, text, strlen(text), &list);
  if (status) fail_msg("%s", kiln_status_message(status));
  assert_int_equal(list.count, 1);
  return list.graphs[0];
}

/* The names of the graphs, in alphabetical order. */
static int is_graph(const struct dirent *entry) {
  const char *dot = strrchr(entry->d_name, '.');
  return dot && !strcmp(dot, ".kiln");
}

static char **graph_names(kiln_arena_t *arena, int *out_count) {
  struct dirent **entries;
  *out_count = scandir(FOLDER, &entries, is_graph, alphasort);
  assert_true(*out_count > 0);
  char **names = KILN_NEW_ARRAY(arena, char *, *out_count);
  for (int i = 0; i < *out_count; i++) {
    names[i] = kiln_arena_strndup(arena, entries[i]->d_name, strlen(entries[i]->d_name) - strlen(".kiln"));
    free(entries[i]);
  }
  free(entries);
  return names;
}

/* --- printing
 * ----------------------------------------------------------------------------------------------- */

static const char *const symbols[] = {"S0", "S1", "S2", "S3", "S4", "S5", "S6", "S7"};

static void print_kernel(kiln_buffer_t *out, const kiln_kernel_source_t *kernel) {
  kiln_buffer_puts(out, "// Grid: (");
  kiln_dim_print(out, kernel->grid[0].dim, symbols);
  kiln_buffer_printf(out, ") / %u blocks of %u threads.\n%s\n", kernel->grid[0].divisor, kernel->block[0],
                     kernel->source);
}

static void print_guards(kiln_buffer_t *out, const kiln_guards_t *guards) {
  for (size_t i = 0; i < guards->count; i++) {
    kiln_buffer_puts(out, "// Relies on: ");
    kiln_dim_print(out, guards->items[i].dim, symbols);
    kiln_buffer_printf(out,
                       guards->items[i].kind == KILN_GUARD_BELOW ? " < %lld\n" : " is a multiple of %lld\n",
                       (long long)guards->items[i].bound);
  }
}

static void check_golden(kiln_arena_t *arena, const char *name) {
  kiln_target_t target;
  assert_null(kiln_target_parse("sm_90", &target));
  kiln_pipeline_t pipeline;
  const kiln_graph_t *graph = parse(arena, kiln_arena_printf(arena, FOLDER "/%s.kiln", name));
  kiln_status_t status =
      kiln_pipeline_generate(arena, graph, &target, &plain, &unknown, &no_passes, &pipeline);
  if (status) fail_msg("%s: %s", name, kiln_status_message(status));
  kiln_buffer_t text;
  kiln_buffer_init(&text);
  for (uint32_t i = 0; i < pipeline.grouping->group_count; i++) print_kernel(&text, &pipeline.kernels[i]);
  print_guards(&text, &pipeline.guards);
  const char *path = kiln_arena_printf(arena, FOLDER "/%s.cu", name);
  if (getenv("KILN_UPDATE_GOLDENS")) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs(kiln_buffer_text(&text), file);
    fclose(file);
  } else if (strcmp(read_file(arena, path), kiln_buffer_text(&text))) {
    fputs(kiln_buffer_text(&text), stderr);
    fail_msg("%s.cu is not what is generated now; KILN_UPDATE_GOLDENS=1 rewrites it", name);
  }
  kiln_buffer_deinit(&text);
}

static void generated_source_is_as_reviewed(void **state) {
  (void)state;
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  int count;
  char **names = graph_names(&arena, &count);
  for (int i = 0; i < count; i++) check_golden(&arena, names[i]);
  kiln_arena_deinit(&arena);
}

/* --- running
 * ------------------------------------------------------------------------------------------------ */

static void goldens_compile_and_give_the_reference_values(void **state) {
  (void)state;
  const int64_t sizes[KILN_MAX_SYMBOLS] = {5, 5, 5, 5, 5, 5, 5, 5};
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  kiln_batch_t *batch = kiln_batch_create(&arena, "sm_90");
  int count;
  char **names = graph_names(&arena, &count);
  for (int i = 0; i < count; i++) {
    const kiln_graph_t *graph = parse(&arena, kiln_arena_printf(&arena, FOLDER "/%s.kiln", names[i]));
    kiln_batch_add(batch, graph, &plain, &unknown, &no_passes);
  }
  kiln_batch_compile(batch);
  for (int i = 0; i < count; i++) {
    const kiln_graph_t *graph = kiln_batch_pipeline(batch, (uint32_t)i)->input;
    if (!strcmp(names[i], "wide")) continue; /* 2.8 GB */
    kiln_tensor_t *inputs = KILN_NEW_ARRAY(&arena, kiln_tensor_t, graph->input_count);
    kiln_random_inputs(&arena, graph, 1, sizes, inputs);
    kiln_batch_check(batch, (uint32_t)i, sizes, inputs, names[i]);
  }
  kiln_batch_destroy(batch);
  kiln_arena_deinit(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(generated_source_is_as_reviewed),
      cmocka_unit_test(goldens_compile_and_give_the_reference_values),
  };
  return cmocka_run_group_tests_name("codegen: goldens", tests, NULL, NULL);
}
