/* bench/passes.c: how the time of passes and of grouping grows with the graph.
 *
 * Four shapes of graph at 1,000 to 1,000,000 nodes: a chain of element-wise ops, layers of a contraction, a
 * normalization and a residual, siblings that all read one input, and 64 branches in which every fifth node
 * is a contraction that may share a launch with those of the other branches. Then 2,304 products in 48 layers
 * of 48 branches. Each line has the time of the passes and that of grouping alone (processor time), the
 * exponent of growth since the size before (1 is linear), and the memory of all of it.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "ir/canonical.h"
#include "ir/verify.h"
#include "server/pipeline.h"

enum { SMALLEST = 1000, LARGEST = 1000000, WIDTH = 64, BRANCHES = 64 };

typedef const kiln_graph_t *(*make_t)(kiln_arena_t *arena, uint32_t nodes);

static kiln_type_t matrix(int64_t rows, int64_t columns) {
  return (kiln_type_t){
      .dtype = KILN_DTYPE_f32, .rank = 2, .dims = {kiln_dim_constant(rows), kiln_dim_constant(columns)}};
}

static kiln_value_id_t add(kiln_graph_builder_t *builder, kiln_op_t op, kiln_value_id_t a, kiln_value_id_t b,
                           const kiln_attr_value_t *attrs, uint32_t attr_count) {
  kiln_value_id_t operands[] = {a, b}, result;
  uint32_t count = kiln_op_info(op)->operands_most;
  kiln_status_t status =
      kiln_graph_builder_infer(builder, op, operands, count, attrs, attr_count, 0, &result);
  if (status) {
    fprintf(stderr, "%s\n", kiln_status_message(status));
    exit(2);
  }
  return result;
}

static const kiln_graph_t *make_chain(kiln_arena_t *arena, uint32_t nodes) {
  kiln_graph_builder_t *builder = kiln_graph_builder_create(arena, "chain");
  kiln_value_id_t x = kiln_graph_builder_input(builder, NULL, matrix(WIDTH, WIDTH), NULL), value = x;
  for (uint32_t i = 0; i < nodes; i++)
    value = add(builder, i % 3 ? KILN_OP_sin : KILN_OP_sub, value, x, NULL, 0);
  kiln_graph_builder_output(builder, value, NULL);
  return kiln_graph_builder_finish(builder);
}

static const kiln_graph_t *make_layers(kiln_arena_t *arena, uint32_t nodes) {
  kiln_graph_builder_t *builder = kiln_graph_builder_create(arena, "layers");
  kiln_value_id_t x = kiln_graph_builder_input(builder, NULL, matrix(WIDTH, WIDTH), NULL);
  kiln_value_id_t w = kiln_graph_builder_input(builder, NULL, matrix(WIDTH, WIDTH), NULL);
  const kiln_attr_value_t dim = {.attr = KILN_ATTR_dim, .integer = 1};
  for (uint32_t i = 0; i < nodes; i += 4) {
    kiln_value_id_t c = add(builder, KILN_OP_gemm_rcr, x, w, NULL, 0);
    kiln_value_id_t a = add(builder, KILN_OP_tanh, c, c, NULL, 0);
    kiln_value_id_t n = add(builder, KILN_OP_softmax, a, a, &dim, 1);
    x = add(builder, KILN_OP_add, n, x, NULL, 0);
  }
  kiln_graph_builder_output(builder, x, NULL);
  return kiln_graph_builder_finish(builder);
}

static const kiln_graph_t *make_siblings(kiln_arena_t *arena, uint32_t nodes) {
  kiln_graph_builder_t *builder = kiln_graph_builder_create(arena, "siblings");
  kiln_value_id_t x = kiln_graph_builder_input(builder, NULL, matrix(WIDTH, WIDTH), NULL), before = x;
  for (uint32_t i = 0; i < nodes; i += 2) {
    kiln_value_id_t y = add(builder, KILN_OP_add, x, before, NULL, 0);
    before = add(builder, KILN_OP_neg, y, y, NULL, 0);
    if (i % 16 == 0) kiln_graph_builder_output(builder, before, NULL);
  }
  return kiln_graph_builder_finish(builder);
}

/* Each branch has its own number of rows, so that nothing but a horizontal group can join two of them. */
static const kiln_graph_t *make_candidates(kiln_arena_t *arena, uint32_t nodes) {
  kiln_graph_builder_t *builder = kiln_graph_builder_create(arena, "candidates");
  kiln_value_id_t w = kiln_graph_builder_input(builder, NULL, matrix(WIDTH, WIDTH), NULL), values[BRANCHES];
  for (uint32_t i = 0; i < BRANCHES; i++)
    values[i] = kiln_graph_builder_input(builder, NULL, matrix(16 + i, WIDTH), NULL);
  for (uint32_t i = 0; i < nodes / 5; i++) {
    kiln_value_id_t x = values[i % BRANCHES];
    kiln_value_id_t c = add(builder, KILN_OP_gemm_rcr, x, w, NULL, 0);
    kiln_value_id_t s = add(builder, KILN_OP_sigmoid, c, c, NULL, 0);
    kiln_value_id_t m = add(builder, KILN_OP_mul, c, s, NULL, 0);
    kiln_value_id_t t = add(builder, KILN_OP_tanh, m, m, NULL, 0);
    values[i % BRANCHES] = add(builder, KILN_OP_add, t, x, NULL, 0);
  }
  for (uint32_t i = 0; i < BRANCHES; i++) kiln_graph_builder_output(builder, values[i], NULL);
  return kiln_graph_builder_finish(builder);
}

static const kiln_graph_t *make_branches(kiln_arena_t *arena, uint32_t nodes) {
  kiln_graph_builder_t *builder = kiln_graph_builder_create(arena, "branches");
  kiln_value_id_t values[48], *weights = KILN_NEW_ARRAY(arena, kiln_value_id_t, nodes);
  for (uint32_t i = 0; i < 48; i++)
    values[i] = kiln_graph_builder_input(builder, NULL, matrix(16 + i, WIDTH), NULL);
  for (uint32_t i = 0; i < nodes; i++)
    weights[i] = kiln_graph_builder_input(builder, NULL, matrix(WIDTH, WIDTH), NULL);
  for (uint32_t i = 0; i < nodes; i++)
    values[i % 48] = add(builder, KILN_OP_gemm_rcr, values[i % 48], weights[i], NULL, 0);
  for (uint32_t i = 0; i < 48; i++) kiln_graph_builder_output(builder, values[i], NULL);
  return kiln_graph_builder_finish(builder);
}

typedef struct {
  double passes_s, grouping_s;
  size_t bytes;
  uint32_t launches;
} measured_t;

static void check(kiln_status_t status) {
  if (!status) return;
  fprintf(stderr, "%s\n", kiln_status_message(status));
  exit(2);
}

/* Of this thread, so that others on the machine do not count. */
static double cpu_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static measured_t measure(make_t make, uint32_t nodes) {
  kiln_arena_t arena = {0};
  kiln_target_t target;
  kiln_options_t options = {0};
  kiln_pass_report_t report;
  kiln_families_t families = kiln_codegen_families();
  const kiln_grouping_t *grouping;
  const kiln_graph_t *graph = make(&arena, nodes);
  check(kiln_target_parse("sm_90", &target));
  double start_s = cpu_s();
  check(kiln_passes_run(&arena, kiln_graph_canonicalize(&arena, graph), &options, NULL, &graph, &report));
  double middle_s = cpu_s();
  size_t before = arena.used_bytes;
  check(kiln_group(&arena, graph, &families, &target, &options, NULL, &grouping));
  double end_s = cpu_s();
  measured_t out = {middle_s - start_s, end_s - middle_s, arena.used_bytes - before, grouping->group_count};
  kiln_arena_deinit(&arena);
  return out;
}

static void print_line(const char *name, uint32_t nodes, const measured_t *now, const measured_t *before) {
  printf("%-10s %8u nodes %7u launches  passes %7.3f s  grouping %7.3f s %5zu MB", name, nodes, now->launches,
         now->passes_s, now->grouping_s, now->bytes >> 20);
  if (before)
    printf("  grows as n^%.2f, n^%.2f", log10(now->passes_s / before->passes_s),
           log10(now->grouping_s / before->grouping_s));
  printf("\n");
}

static void print_growth(const char *name, make_t make, uint32_t largest) {
  measured_t before = {0};
  for (uint32_t nodes = SMALLEST; nodes <= largest; nodes *= 10) {
    measured_t now = measure(make, nodes);
    print_line(name, nodes, &now, nodes > SMALLEST ? &before : NULL);
    before = now;
  }
}

/* An argument: the largest graph. */
int main(int argc, char **argv) {
  uint32_t largest = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : LARGEST;
  setvbuf(stdout, NULL, _IOLBF, 0);
  print_growth("chain", make_chain, largest);
  print_growth("layers", make_layers, largest);
  print_growth("siblings", make_siblings, largest);
  print_growth("candidates", make_candidates, largest);
  measured_t branches = measure(make_branches, 48 * 48);
  print_line("branches", 48 * 48, &branches, NULL);
  return 0;
}
