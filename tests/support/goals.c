/* tests/support/goals.c: counted traffic against bounds (tests/support/goals.h). */
#include "tests/support/goals.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ir/text.h"
#include "tests/support/graphs.h"
#include "tests/support/random_graph.h"

static const kiln_options_t plain = {0};
static const kiln_symbol_class_t any_size = {{1, 1, 1, 1, 1, 1, 1, 1}, false};

static uint64_t bytes_of(const kiln_graph_t *graph, kiln_value_id_t value, const int64_t *symbols) {
  int64_t sizes[KILN_MAX_RANK];
  const kiln_type_t *type = &graph->types[value];
  uint64_t bytes = kiln_dtype_bytes(type->dtype);
  assert_null(kiln_type_sizes(type, symbols, sizes));
  for (uint32_t i = 0; i < type->rank; i++) bytes *= (uint64_t)sizes[i];
  return bytes;
}

static void check_ratio(const char *text, const char *what, uint64_t got, double fewest, double most) {
  if ((double)got > most * fewest)
    fail_msg("%s\n%s: %llu, %.3f times %.0f, more than %g times", text, what, (unsigned long long)got,
             (double)got / fewest, fewest, most);
}

static void check_goal(kiln_arena_t *arena, kiln_batch_t *batch, uint32_t number, const kiln_goal_t *goal,
                       const kiln_goal_run_t *run) {
  const kiln_graph_t *graph = kiln_batch_pipeline(batch, number)->input;
  kiln_tensor_t *inputs = KILN_NEW_ARRAY(arena, kiln_tensor_t, graph->input_count);
  kiln_random_inputs(arena, graph, number, run->symbols, inputs);
  if (!run->counts_only) kiln_batch_check(batch, number, run->symbols, inputs, goal->text);
  uint64_t read = 0, written = 0;
  for (uint32_t i = 0; i < graph->input_count; i++) read += bytes_of(graph, i, run->symbols);
  for (uint32_t i = 0; i < graph->output_count; i++)
    written += bytes_of(graph, graph->outputs[i], run->symbols);
  kiln_emu_counters_t counters = kiln_batch_counters(batch, number, run->symbols, inputs);
  uint64_t sectors = counters.global_load_sectors + counters.global_store_sectors;
  double wide = (double)counters.global_wide_accesses / (double)counters.global_accesses;
  if (getenv("KILN_PRINT_COUNTS"))
    fprintf(stderr, "%6.3f bytes %6.3f sectors %6.3f wavefronts %5.3f wide: %s\n",
            (double)counters.bytes_moved / (double)(read + written),
            32. * (double)sectors / (double)(read + written),
            64. * (double)counters.shared_wavefronts / (double)read, wide, goal->text);
  else {
    check_ratio(goal->text, "bytes", counters.bytes_moved, (double)(read + written), goal->bytes);
    check_ratio(goal->text, "sectors", sectors, (double)(read + written) / 32, goal->sectors);
    check_ratio(goal->text, "wavefronts", counters.shared_wavefronts, (double)read / 64, goal->wavefronts);
    if (wide < goal->wide)
      fail_msg("%s\n%.3f of the accesses have 16 bytes, less than %g", goal->text, wide, goal->wide);
  }
}

void kiln_goals_check(const kiln_goal_t *goals, uint32_t count, const kiln_goal_run_t *run) {
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  kiln_batch_t *batch = kiln_batch_create(&arena, run->arch);
  for (uint32_t i = 0; i < count; i++)
    kiln_batch_add(batch, graph_from(&arena, goals[i].text), &plain,
                   run->symbol_class ? run->symbol_class : &any_size, run->passes);
  kiln_batch_compile(batch);
  for (uint32_t i = 0; i < count; i++) check_goal(&arena, batch, i, &goals[i], run);
  kiln_batch_destroy(batch);
  kiln_arena_deinit(&arena);
}
