/* passes/cse.c: common subexpressions: nodes with one op, the same operands and the same attributes become
 * one.
 *
 *   %a = cast(%x) {dtype=f32}; %b = cast(%x) {dtype=f32}; %y = cat(%a, %b) {dim=0}   ->   %y = cat(%a, %a)
 * {dim=0}
 *
 * Every op is a pure function, so equal nodes have equal results. add, mul and the symmetric logical ops also
 * match with their operands exchanged; maximum and minimum do not, since -0.0 and 0.0 may come out in either
 * order. A node's key is a string of 64-bit words in a hash map. Counts nodes that were shared.
 */
#include <string.h>

#include "base/map.h"
#include "passes/rewrite.h"

typedef struct {
  kiln_arena_t *arena;
  uint64_t *items;
  size_t count, capacity;
} words_t;

static void push(words_t *words, uint64_t word) {
  KILN_PUSH(words->arena, words->items, words->count, words->capacity, word);
}

static void push_real(words_t *words, double real) {
  uint64_t bits;
  memcpy(&bits, &real, sizeof bits);
  push(words, bits);
}

static void push_number(words_t *words, kiln_number_t number) {
  push(words, number.is_integer);
  push(words, number.is_integer ? (uint64_t)number.integer : 0);
  push_real(words, number.real);
}

static void push_dim(words_t *words, kiln_dim_t dim) {
  push(words, dim.terms ? dim.term_count : 0);
  push(words, (uint64_t)dim.constant);
  for (uint32_t i = 0; dim.terms && i < dim.term_count; i++) {
    push(words, dim.terms[i].powers);
    push(words, (uint64_t)dim.terms[i].coefficient);
  }
}

static void push_word(words_t *words, const char *text) {
  push(words, strlen(text));
  for (; *text; text++) push(words, (unsigned char)*text);
}

static void push_attr(words_t *words, const kiln_attr_value_t *attr) {
  uint32_t count = attr->list.count;
  push(words, attr->attr);
  switch (kiln_attr_kind(attr->attr)) {
  case KILN_ATTR_KIND_INT:
    return push(words, (uint64_t)attr->integer);
  case KILN_ATTR_KIND_FLOAT:
    return push_real(words, attr->real);
  case KILN_ATTR_KIND_NUMBER:
    return push_number(words, attr->number);
  case KILN_ATTR_KIND_BOOL:
    return push(words, attr->flag);
  case KILN_ATTR_KIND_DTYPE:
    return push(words, attr->dtype);
  case KILN_ATTR_KIND_WORD:
    return push_word(words, attr->word);
  case KILN_ATTR_KIND_INTS:
    push(words, count);
    for (uint32_t i = 0; i < count; i++) push(words, (uint64_t)attr->list.integers[i]);
    return;
  case KILN_ATTR_KIND_DIMS:
    push(words, count);
    for (uint32_t i = 0; i < count; i++) push_dim(words, attr->list.dims[i]);
    return;
  case KILN_ATTR_KIND_NUMBERS:
    push(words, count);
    for (uint32_t i = 0; i < count; i++) push_number(words, attr->list.numbers[i]);
    return;
  }
}

static bool is_symmetric(kiln_op_t op) {
  switch (op) {
  case KILN_OP_add:
  case KILN_OP_mul:
  case KILN_OP_eq:
  case KILN_OP_ne:
  case KILN_OP_logical_and:
  case KILN_OP_logical_or:
  case KILN_OP_logical_xor:
  case KILN_OP_bitwise_and:
  case KILN_OP_bitwise_or:
  case KILN_OP_bitwise_xor:
    return true;
  default:
    return false;
  }
}

static void make_key(words_t *words, const kiln_node_t *node, const kiln_value_id_t *first) {
  words->count = 0;
  push(words, node->op);
  push(words, node->operand_count);
  bool exchange = is_symmetric(node->op) && first[node->operands[0]] > first[node->operands[1]];
  for (uint32_t i = 0; i < node->operand_count; i++) {
    kiln_value_id_t operand = node->operands[exchange ? 1 - i : i];
    push(words, operand == KILN_NO_VALUE ? operand : first[operand]);
  }
  for (uint32_t i = 0; i < node->attr_count; i++) push_attr(words, &node->attrs[i]);
}

/* Per value the first one that equals it. */
static const kiln_value_id_t *find_first(kiln_pass_context_t *context, const kiln_graph_t *graph) {
  kiln_value_id_t *first = KILN_NEW_ARRAY(context->arena, kiln_value_id_t, graph->value_count);
  kiln_map_t *seen = kiln_map_create(context->arena);
  words_t key = {.arena = context->arena};
  for (uint32_t v = 0; v < graph->value_count; v++) first[v] = v;
  for (uint32_t n = 0; n < graph->node_count; n++) {
    const kiln_node_t *node = &graph->nodes[n];
    make_key(&key, node, first);
    bool added;
    uint64_t *result = kiln_map_put(seen, key.items, key.count * sizeof *key.items, &added);
    if (added) *result = node->first_result;
    context->applied += !added;
    for (uint32_t i = 0; i < node->result_count; i++)
      first[node->first_result + i] = (kiln_value_id_t)*result + i;
  }
  return first;
}

const kiln_graph_t *kiln_pass_cse(kiln_pass_context_t *context, const kiln_graph_t *graph) {
  const kiln_value_id_t *first = find_first(context, graph);
  if (!context->applied) return graph;
  rewrite_t rw = rewrite_begin(context, graph);
  for (uint32_t n = 0; n < graph->node_count; n++) {
    const kiln_node_t *node = &graph->nodes[n];
    kiln_value_id_t result = node->first_result;
    if (first[result] == result) {
      rewrite_copy(&rw, node);
      continue;
    }
    for (uint32_t i = 0; i < node->result_count; i++) rw.map[result + i] = rw.map[first[result] + i];
  }
  return rewrite_finish(&rw);
}
