/* passes/run.c: runs passes over a graph: the default order, or a list by name.
 *
 * First stage of a compile, called through kiln_passes_run by server/pipeline.c in a compile worker or a
 * command. The verifier runs after each pass that changed something, always: a pass that breaks a graph is
 * our own bug, reported as INTERNAL with the pass's input graph as a reproducer.
 */
#include <string.h>

#include "base/clock.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "passes/rewrite.h"

static const kiln_pass_t passes[] = {
#define KILN_PASS(name) {#name, kiln_pass_##name},
#include "passes/passes.def"
#undef KILN_PASS
};
enum { PASS_COUNT = sizeof passes / sizeof *passes };

const kiln_pass_t *kiln_passes_at(size_t index) { return index < PASS_COUNT ? &passes[index] : NULL; }

static const kiln_pass_t *find_pass(const char *name, size_t length) {
  for (size_t i = 0; i < PASS_COUNT; i++) {
    if (strlen(passes[i].name) == length && !memcmp(passes[i].name, name, length)) return &passes[i];
  }
  return NULL;
}

static kiln_status_t unknown_pass(kiln_arena_t *arena, const char *name, size_t length) {
  const char *known = passes[0].name;
  for (size_t i = 1; i < PASS_COUNT; i++) {
    bool first_row = find_pass(passes[i].name, strlen(passes[i].name)) == &passes[i];
    if (first_row) known = kiln_arena_printf(arena, "%s, %s", known, passes[i].name);
  }
  kiln_status_t status =
      kiln_error(KILN_INVALID_ARGUMENT, "no pass '%.*s'; there are %s", (int)length, name, known);
  return kiln_error_detail(status, "field", "passes");
}

typedef struct {
  const kiln_pass_t **items;
  size_t count, capacity;
} schedule_t;

static kiln_status_t make_schedule(kiln_arena_t *arena, const char *list, schedule_t *out) {
  for (size_t i = 0; !list && i < PASS_COUNT; i++) {
    KILN_PUSH(arena, out->items, out->count, out->capacity, &passes[i]);
  }
  while (list && *list) {
    size_t length = strcspn(list, ",");
    const kiln_pass_t *pass = find_pass(list, length);
    if (!pass) return unknown_pass(arena, list, length);
    KILN_PUSH(arena, out->items, out->count, out->capacity, pass);
    list += length + (list[length] == ',');
  }
  return NULL;
}

static kiln_status_t check(kiln_arena_t *arena, const kiln_pass_t *pass, const kiln_graph_t *before,
                           const kiln_graph_t *after) {
  kiln_status_t status = kiln_graph_verify(arena, after, NULL);
  if (!status) return NULL;
  kiln_status_t internal =
      kiln_error(KILN_INTERNAL, "pass '%s' broke the graph: %s", pass->name, kiln_status_message(status));
  kiln_status_free(status);
  kiln_buffer_t text;
  kiln_buffer_init(&text);
  kiln_text_print(arena, &text, before);
  internal = kiln_error_detail(internal, "reproducer", "%s", kiln_buffer_text(&text));
  kiln_buffer_deinit(&text);
  return internal;
}

/* --- memory: a graph between two passes lives in an arena of its own, so that only two are held at a time
 * ---- */

/* The graph as it is, in another arena. */
static const kiln_graph_t *copy_graph(kiln_arena_t *arena, const kiln_graph_t *graph) {
  kiln_pass_context_t context = {.arena = arena, .applied = 1};
  rewrite_t rw = rewrite_begin(&context, graph);
  for (uint32_t n = 0; n < graph->node_count; n++) rewrite_copy(&rw, &graph->nodes[n]);
  return rewrite_finish(&rw);
}

/* --- the run ------------------------------------------------------------------------------------------- */

kiln_status_t kiln_passes_run(kiln_arena_t *arena, const kiln_graph_t *graph, const kiln_options_t *options,
                              const kiln_pass_run_t *run, const kiln_graph_t **out_graph,
                              kiln_pass_report_t *out_report) {
  static const kiln_pass_run_t default_run = {0};
  if (!run) run = &default_run;
  schedule_t schedule = {0};
  KILN_TRY(make_schedule(arena, run->list, &schedule));
  *out_report = (kiln_pass_report_t){0};
  if (run->dump) run->dump(run->dump_argument, 0, "input", graph);
  kiln_arena_t *held = NULL; /* where graph lives; NULL: with the caller */
  for (size_t i = 0; i < schedule.count; i++) {
    const kiln_pass_t *pass = schedule.items[i];
    kiln_arena_t *scratch = kiln_arena_create_inside(arena);
    kiln_pass_context_t context = {.arena = scratch, .options = options};
    uint64_t start_ns = kiln_clock_monotonic_ns();
    const kiln_graph_t *next = pass->run(&context, graph);
    if (next != graph) KILN_TRY(check(scratch, pass, graph, next));
    kiln_arena_t *unused = next == graph ? scratch : held;
    if (unused) kiln_arena_deinit(unused);
    if (next != graph) held = scratch;
    graph = next;
    kiln_pass_record_t record = {pass->name, context.applied, kiln_clock_monotonic_ns() - start_ns};
    KILN_PUSH(arena, out_report->records, out_report->record_count, out_report->record_capacity, record);
    out_report->repetitions += context.repetitions;
    if (run->dump) run->dump(run->dump_argument, (unsigned)i + 1, pass->name, graph);
  }
  *out_graph = held ? copy_graph(arena, graph) : graph;
  if (held) kiln_arena_deinit(held);
  return NULL;
}
