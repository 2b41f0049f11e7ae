/* bench/passes.c: how the time of passes and of grouping grows with the graph.
 *
 * Three shapes of graph at 1,000 to 1,000,000 nodes: a chain of element-wise ops, layers of a contraction, a
 * normalization and a residual, and siblings that all read one input. For each step in size it prints the
 * time per node over that of the size before: 1 is linear growth, and what does not hold is exit status 1
 * above 3.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "ir/canonical.h"
#include "ir/verify.h"
#include "server/pipeline.h"

enum { SMALLEST = 1000, LARGEST = 1000000, WIDTH = 64 };

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

/* Nanoseconds per node of verifying, passes and groups. */
static double measure(make_t make, uint32_t nodes, uint32_t *out_launches) {
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  kiln_target_t target;
  kiln_pipeline_t pipeline;
  kiln_options_t options = {0};
  const kiln_graph_t *graph = make(&arena, nodes);
  kiln_status_t status = kiln_target_parse("sm_90", &target);
  uint64_t start = kiln_clock_monotonic_ns();
  if (!status) status = kiln_pipeline_optimize(&arena, graph, &target, &options, NULL, &pipeline);
  uint64_t end = kiln_clock_monotonic_ns();
  if (status) {
    fprintf(stderr, "%s\n", kiln_status_message(status));
    exit(2);
  }
  *out_launches = pipeline.grouping->group_count;
  kiln_arena_deinit(&arena);
  return (double)(end - start) / nodes;
}

static void print_growth(const char *name, make_t make) {
  double before = 0;
  for (uint32_t nodes = SMALLEST; nodes <= LARGEST; nodes *= 10) {
    uint32_t launches;
    double per_node = measure(make, nodes, &launches);
    printf("%-9s %8u nodes %7u launches %8.0f ns a node", name, nodes, launches, per_node);
    if (before > 0) printf("  %5.2f of the step before", per_node / before);
    printf("\n");
    before = per_node;
  }
}

int main(void) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  print_growth("chain", make_chain);
  print_growth("layers", make_layers);
  print_growth("siblings", make_siblings);
  return 0;
}
