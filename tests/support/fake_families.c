/* tests/support/fake_families.c: families that tests of grouping know by heart. */
#include "tests/support/fake_families.h"

#include <math.h>
#include <string.h>

static kiln_op_class_t class_of(const kiln_graph_t *graph, uint32_t node) {
  return kiln_op_info(graph->nodes[node].op)->op_class;
}

static bool takes_points(const kiln_graph_t *graph, uint32_t node) {
  return class_of(graph, node) <= KILN_CLASS_INDEXING;
}

static bool takes_rows(const kiln_graph_t *graph, uint32_t node) {
  return class_of(graph, node) != KILN_CLASS_CONTRACTION;
}

static bool takes_sums(const kiln_graph_t *graph, uint32_t node) {
  return takes_points(graph, node) || class_of(graph, node) == KILN_CLASS_CONTRACTION;
}

static double elements_of(const kiln_type_t *type) {
  double elements = 1;
  for (uint32_t i = 0; i < type->rank; i++) elements *= (double)type->dims[i].constant;
  return elements;
}

static double bytes_of(const kiln_graph_t *graph, const kiln_group_t *group) {
  double bytes = 0;
  for (uint32_t i = 0; i < group->input_count; i++) {
    const kiln_type_t *type = &graph->types[group->inputs[i]];
    bytes += elements_of(type) * (double)kiln_dtype_bytes(type->dtype);
  }
  for (uint32_t i = 0; i < group->store_count; i++) {
    const kiln_type_t *type = &graph->types[group->stores[i].value];
    bytes += elements_of(type) * (double)kiln_dtype_bytes(type->dtype);
  }
  return bytes;
}

static bool classify(kiln_arena_t *arena, const kiln_graph_t *graph, const kiln_group_t *group,
                     const kiln_target_t *target, kiln_member_class_t *out_class) {
  (void)arena;
  (void)target;
  uint64_t structure = 14695981039346656037u, width = 0; /* FNV-1a */
  double k = 0;
  for (uint32_t i = 0; i < group->node_count; i++) {
    const kiln_node_t *node = &graph->nodes[group->nodes[i]];
    if (node->op == KILN_OP_slice || node->op == KILN_OP_reshape) continue;
    const kiln_type_t *first = node->operand_count ? &graph->types[node->operands[0]] : NULL;
    structure = (structure ^ node->op) * 1099511628211u;
    structure = (structure ^ graph->types[node->first_result].dtype) * 1099511628211u;
    if (class_of(graph, group->nodes[i]) == KILN_CLASS_NORMALIZATION)
      width = (uint64_t)ceil(log2(fmax(1, (double)first->dims[first->rank - (first->rank > 0)].constant)));
    if (class_of(graph, group->nodes[i]) == KILN_CLASS_CONTRACTION)
      k = (double)first->dims[first->rank - (first->rank > 0)].constant;
  }
  double elements = elements_of(&graph->types[group->stores[0].value]);
  *out_class = (kiln_member_class_t){.key = {structure, width},
                                     .blocks = ceil(elements / (k > 0 ? 4096 : 1024)),
                                     .block_ns = k > 0 ? 2 * k : 1000,
                                     .bytes = bytes_of(graph, group),
                                     .blocks_per_sm = k > 0 ? 1 : 2};
  return true;
}

#define FAMILIES(classify)                                                                                   \
  {                                                                                                          \
    {"elementwise", takes_points, 400, 480, classify, NULL}, {"rows", takes_rows, 400, 480, classify, NULL}, \
        {"contraction", takes_sums, 400, 480, classify, NULL},                                               \
  }

kiln_families_t kiln_test_families(void) {
  static const kiln_family_t families[] = FAMILIES(classify);
  return (kiln_families_t){families, sizeof families / sizeof *families};
}

kiln_families_t kiln_test_families_alone(void) {
  static const kiln_family_t families[] = FAMILIES(NULL);
  return (kiln_families_t){families, sizeof families / sizeof *families};
}
