/* codegen/constant.c: constant nodes and the values of storage bits. Called by lowering and emission. */
#include "codegen/constant.h"
#include "codegen/codegen.h"

#include "base/half.h"

#include <string.h>

double kiln_float_from_bits(uint64_t bits, kiln_dtype_t dtype) {
  uint32_t word = (uint32_t)bits;
  float single;
  double real;
  if (dtype == KILN_DTYPE_f16) return kiln_f16_to_f32((uint16_t)bits);
  if (dtype == KILN_DTYPE_bf16) return kiln_bf16_to_f32((uint16_t)bits);
  memcpy(&single, &word, sizeof single);
  memcpy(&real, &bits, sizeof real);
  return dtype == KILN_DTYPE_f32 ? single : real;
}

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
  size_t element_bytes = kiln_dtype_bytes(graph->types[constant->first_result].dtype);
  uint32_t count = kiln_constant_count(constant);
  char *bytes = kiln_arena_alloc(arena, count * element_bytes);
  for (uint32_t i = 0; i < count; i++) {
    uint64_t bits = kiln_constant_bits(constant, i);
    memcpy(bytes + i * element_bytes, &bits, element_bytes); /* little-endian, as device and host are */
  }
  *out_bytes = count * element_bytes;
  return bytes;
}
