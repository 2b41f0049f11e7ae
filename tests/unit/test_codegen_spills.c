/* tests/unit/test_codegen_spills.c: no kernel of a golden or an example keeps registers in local memory.
 *
 * The graphs of tests/goldens/codegen (compiled without passes, as there) and of examples/ (with them) are
 * assembled for each target as one translation unit; ptxas says what each kernel spills.
 * Labels: release-only
 */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ir/text.h"
#include "tests/support/batch.h"

static const kiln_options_t plain = {0};
static const kiln_symbol_class_t unknown = {{1, 1, 1, 1, 1, 1, 1, 1}, false};
static const kiln_pass_run_t no_passes = {.list = ""};

enum { MOST_BYTES = 1 << 18 };

typedef struct {
  kiln_arena_t arena;
  kiln_batch_t *batch;
  const char *names[512]; /* per graph of the batch */
} fixture_t;

static void add_file(fixture_t *f, const char *path, const kiln_pass_run_t *run) {
  char *text = kiln_arena_alloc(&f->arena, MOST_BYTES);
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  size_t size = fread(text, 1, MOST_BYTES, file);
  fclose(file);
  assert_in_range(size, 1, MOST_BYTES - 1);
  kiln_graph_list_t list = {0};
  kiln_status_t status = kiln_text_parse(&f->arena, path, text, size, &list);
  if (status) fail_msg("%s", kiln_status_message(status));
  for (uint32_t i = 0; i < list.count; i++)
    f->names[kiln_batch_add(f->batch, list.graphs[i], &plain, &unknown, run)] = path;
}

/* All graphs of a folder. */
static void add_folder(fixture_t *f, const char *folder, const kiln_pass_run_t *run) {
  DIR *entries = opendir(folder);
  assert_non_null(entries);
  for (struct dirent *entry; (entry = readdir(entries));) {
    const char *dot = strrchr(entry->d_name, '.');
    if (!dot || strcmp(dot, ".kiln")) continue;
    add_file(f, kiln_arena_printf(&f->arena, "%s/%s", folder, entry->d_name), run);
  }
  closedir(entries);
}

static void check_kernels(const fixture_t *f, const char *arch, uint32_t number) {
  const kiln_pipeline_t *pipeline = kiln_batch_pipeline(f->batch, number);
  for (uint32_t i = 0; i < pipeline->grouping->group_count; i++) {
    kiln_kernel_artifact_t artifact = kiln_batch_resources(f->batch, number, i);
    if (artifact.registers < 1 || artifact.spill_store_bytes || artifact.spill_load_bytes)
      fail_msg("%s for %s: kernel %u (%s) has %d registers, spills %d bytes and reads %d", f->names[number],
               arch, i, pipeline->kernels[i].entry, artifact.registers, artifact.spill_store_bytes,
               artifact.spill_load_bytes);
  }
}

static void check_target(const char *arch) {
  fixture_t f;
  kiln_arena_init(&f.arena, 0);
  f.batch = kiln_batch_create(&f.arena, arch);
  add_folder(&f, KILN_SOURCE_DIR "/tests/goldens/codegen", &no_passes);
  add_folder(&f, KILN_SOURCE_DIR "/examples", NULL);
  assert_true(kiln_batch_count(f.batch) > 30);
  kiln_batch_assemble(f.batch);
  for (uint32_t i = 0; i < kiln_batch_count(f.batch); i++) check_kernels(&f, arch, i);
  kiln_batch_destroy(f.batch);
  kiln_arena_deinit(&f.arena);
}

static void nothing_spills_on_sm_80(void **state) {
  (void)state;
  check_target("sm_80");
}

static void nothing_spills_on_sm_90(void **state) {
  (void)state;
  check_target("sm_90");
}

static void nothing_spills_on_sm_100(void **state) {
  (void)state;
  check_target("sm_100");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_spills_on_sm_80),
      cmocka_unit_test(nothing_spills_on_sm_90),
      cmocka_unit_test(nothing_spills_on_sm_100),
  };
  return cmocka_run_group_tests_name("codegen: spills", tests, NULL, NULL);
}
