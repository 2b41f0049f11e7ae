/* ir/canonical_key.c: a canonical graph as bytes, the full key of a plan, and their SHA-256.
 *
 * All integers are little-endian and of fixed width, lists carry their length, and no field is optional, so
 * that two different graphs never have the same bytes. Data of constants stands by its digest.
 */
#include "ir/canonical_key.h"

#include <string.h>

#include "ir/canonical.h"
#include "ir/number.h"

/* Names the encoding; to be changed with it. */
static const char magic[] = "kiln graph 1";

static void put32(kiln_buffer_t *out, uint32_t value) { kiln_buffer_append(out, &value, sizeof value); }
static void put64(kiln_buffer_t *out, uint64_t value) { kiln_buffer_append(out, &value, sizeof value); }

static void put_real(kiln_buffer_t *out, double value) { kiln_buffer_append(out, &value, sizeof value); }

static void put_dim(kiln_buffer_t *out, kiln_dim_t dim) {
  put32(out, dim.term_count);
  if (!dim.term_count) put64(out, (uint64_t)dim.constant);
  for (uint32_t i = 0; i < dim.term_count; i++) {
    put64(out, dim.terms[i].powers);
    put64(out, (uint64_t)dim.terms[i].coefficient);
  }
}

static void put_dims(kiln_buffer_t *out, const kiln_dim_t *dims, uint32_t count) {
  put32(out, count);
  for (uint32_t i = 0; i < count; i++) put_dim(out, dims[i]);
}

static void put_type(kiln_buffer_t *out, const kiln_type_t *type) {
  put32(out, type->dtype);
  put_dims(out, type->dims, type->rank);
}

static void put_layout(kiln_buffer_t *out, const kiln_layout_t *layout, uint32_t rank) {
  put32(out, layout->align_bytes);
  put32(out, layout->has_strides);
  if (layout->has_strides) put_dims(out, layout->strides, rank);
}

/* --- nodes ---------------------------------------------------------------------------------------------- */

/* By its bits in a float dtype; an integer in full, as an end of clamp may lie outside the dtype. */
static void put_number(kiln_buffer_t *out, kiln_number_t number, kiln_dtype_t dtype) {
  put64(out, kiln_dtype_is_float(dtype) ? kiln_number_to_bits(number, dtype) : (uint64_t)number.integer);
}

static void put_attr(kiln_buffer_t *out, const kiln_attr_value_t *attr, kiln_dtype_t result_dtype) {
  put32(out, attr->attr);
  switch (kiln_attr_kind(attr->attr)) {
  case KILN_ATTR_KIND_INT:
    put64(out, (uint64_t)attr->integer);
    break;
  case KILN_ATTR_KIND_FLOAT:
    put_real(out, attr->real);
    break;
  case KILN_ATTR_KIND_NUMBER:
    put_number(out, attr->number, result_dtype);
    break;
  case KILN_ATTR_KIND_BOOL:
    put32(out, attr->flag);
    break;
  case KILN_ATTR_KIND_DTYPE:
    put32(out, attr->dtype);
    break;
  case KILN_ATTR_KIND_WORD:
    put32(out, (uint32_t)strlen(attr->word));
    kiln_buffer_puts(out, attr->word);
    break;
  case KILN_ATTR_KIND_INTS:
    put32(out, attr->list.count);
    for (uint32_t i = 0; i < attr->list.count; i++) put64(out, (uint64_t)attr->list.integers[i]);
    break;
  case KILN_ATTR_KIND_DIMS:
    put_dims(out, attr->list.dims, attr->list.count);
    break;
  case KILN_ATTR_KIND_NUMBERS:
    break; /* only of constants: their data, below */
  }
}

/* Appends the data, then replaces it by its digest. */
static void put_constant_digest(kiln_buffer_t *out, const kiln_node_t *node) {
  const kiln_attr_value_t *data = kiln_node_attr(node, KILN_ATTR_values);
  if (!data) data = kiln_node_attr(node, KILN_ATTR_bits);
  size_t start = out->size;
  for (uint32_t i = 0; i < data->list.count; i++) put64(out, kiln_constant_bits(node, i));
  if (out->failed) return;
  kiln_digest_t digest = kiln_sha256(out->data + start, out->size - start);
  out->size = start;
  kiln_buffer_append(out, digest.bytes, sizeof digest.bytes);
}

void kiln_key_node(kiln_buffer_t *out, const kiln_node_t *node, const kiln_value_id_t *operands,
                   kiln_dtype_t result_dtype) {
  put32(out, node->op);
  put32(out, node->result_count);
  put32(out, node->operand_count);
  for (uint32_t i = 0; i < node->operand_count; i++) put32(out, operands[i]);
  bool constant = node->op == KILN_OP_constant;
  for (uint32_t i = 0; i < node->attr_count; i++) {
    kiln_attr_t attr = node->attrs[i].attr;
    if (constant && (attr == KILN_ATTR_values || attr == KILN_ATTR_bits)) continue;
    put_attr(out, &node->attrs[i], result_dtype);
  }
  put32(out, KILN_ATTR_COUNT); /* ends the attributes */
  if (constant) put_constant_digest(out, node);
}

void kiln_key_check(kiln_arena_t *arena, const kiln_buffer_t *buffer) {
  if (buffer->failed) kiln_arena_alloc(arena, SIZE_MAX);
}

/* --- graphs --------------------------------------------------------------------------------------------- */

void kiln_graph_key_bytes(kiln_arena_t *arena, const kiln_graph_t *canonical, kiln_buffer_t *out) {
  kiln_buffer_append(out, magic, sizeof magic);
  put32(out, canonical->symbol_count);
  for (uint32_t s = 0; s < canonical->symbol_count; s++) put64(out, (uint64_t)canonical->symbols[s].typical);
  put32(out, canonical->input_count);
  for (uint32_t i = 0; i < canonical->input_count; i++) {
    put_type(out, &canonical->types[i]);
    put_layout(out, &canonical->input_layouts[i], canonical->types[i].rank);
  }
  put32(out, canonical->node_count);
  for (uint32_t i = 0; i < canonical->node_count; i++) {
    const kiln_node_t *node = &canonical->nodes[i];
    kiln_key_node(out, node, node->operands, canonical->types[node->first_result].dtype);
  }
  put32(out, canonical->output_count);
  for (uint32_t i = 0; i < canonical->output_count; i++) {
    put32(out, canonical->outputs[i]);
    put_layout(out, &canonical->output_layouts[i], canonical->types[canonical->outputs[i]].rank);
  }
  kiln_key_check(arena, out);
}

kiln_digest_t kiln_graph_hash(kiln_arena_t *arena, const kiln_graph_t *canonical) {
  kiln_buffer_t *key = kiln_buffer_in_arena(arena);
  kiln_graph_key_bytes(arena, canonical, key);
  return kiln_sha256(key->data, key->size);
}
