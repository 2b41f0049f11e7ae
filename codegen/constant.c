/* codegen/constant.c: constant nodes as bytes. Called by lowering, emission and whoever made the plan. */
#include "codegen/constant.h"
#include "codegen/codegen.h"

uint32_t kiln_constant_count(const kiln_node_t *node) {
  const kiln_attr_value_t *values = kiln_node_attr(node, KILN_ATTR_values);
  return values ? values->list.count : kiln_node_attr(node, KILN_ATTR_bits)->list.count;
}

bool kiln_constant_is_uniform(const kiln_node_t *node, uint64_t *out_bits) {
  uint32_t count = kiln_constant_count(node);
  if (!count) return false;
  *out_bits = kiln_constant_bits(node, 0);
  for (uint32_t i = 1; i < count; i++) {
    if (kiln_constant_bits(node, i) != *out_bits) return false;
  }
  return true;
}

const void *kiln_codegen_constant(kiln_arena_t *arena, const kiln_graph_t *graph, uint32_t node,
                                  size_t *out_bytes) {
  const kiln_node_t *constant = &graph->nodes[node];
  kiln_dtype_t dtype = graph->types[constant->first_result].dtype;
  size_t element_bytes = kiln_dtype_bytes(dtype);
  uint32_t count = kiln_constant_count(constant);
  char *bytes = kiln_arena_alloc(arena, count * element_bytes);
  for (uint32_t i = 0; i < count; i++) kiln_bits_write(bytes, i, dtype, kiln_constant_bits(constant, i));
  *out_bytes = count * element_bytes;
  return bytes;
}
