/* codegen/contraction_epilogue.c: from sums of products to stored elements.
 *
 * Walks forward from the contraction: each value that depends on it is a scalar over (batch, m, n) and has an
 * index there, through element-wise ops and views that only rename elements. Whatever else such an op takes
 * (bias, residual) is lowered at that index. The result is an ordinary region: it reads the sums from shared
 * memory and is cut into vectors like any other. Called by contraction.c; the refusals by codegen.c.
 */
#include "codegen/constant.h"
#include "codegen/contraction.h"

#include <stdlib.h>
#include <string.h>

/* A value that depends on the sums. */
typedef struct {
  bool is_known;
  kiln_expr_id_t scalar;
  kiln_expr_id_t index[KILN_MAX_RANK];
} result_t;

typedef struct {
  kiln_contraction_t *c;
  result_t *results; /* per value of the graph */
} walk_t;

static const kiln_type_t *type_of(const walk_t *walk, kiln_value_id_t value) {
  return &walk->c->kernel->graph->types[value];
}

/* --- the contraction itself ---------------------------------------------------------------------------- */

static kiln_expr_id_t op(kiln_contraction_t *c, kiln_op_t op, kiln_dtype_t dtype, kiln_expr_id_t a,
                         kiln_expr_id_t b) {
  const kiln_expr_id_t operands[] = {a, b};
  return kiln_scalar_op(c->kernel, op, dtype, operands, b == a ? 1 : 2, KILN_NO_NODE);
}

/* The place of (m, n) in the tile of sums; a thread that makes one result has its own. */
static kiln_expr_id_t read_sum(kiln_contraction_t *c) {
  kiln_kernel_t *kernel = c->kernel;
  int64_t stride = kiln_contraction_sums_stride(c);
  kiln_kernel_buffer_t sums = {
      .kind = KILN_KERNEL_SHARED, .name = "sums", .ref.index = 2, .dtype = c->accumulator, .align_bytes = 16};
  if (c->vector.per_thread)
    return kiln_scalar_load(kernel, kiln_kernel_buffer(kernel, sums),
                            kiln_index_constant(kernel, kiln_dim_constant(0)), kiln_condition_true(kernel));
  kiln_expr_id_t row =
      kiln_index_add_scaled(kernel, c->m.index, kiln_dim_constant(-(int64_t)c->tile.m), c->tile_m);
  kiln_expr_id_t column =
      kiln_index_add_scaled(kernel, c->n.index, kiln_dim_constant(-(int64_t)c->tile.n), c->tile_n);
  kiln_expr_id_t offset = kiln_index_add_scaled(kernel, column, kiln_dim_constant(stride), row);
  return kiln_scalar_load(kernel, kiln_kernel_buffer(kernel, sums), offset, kiln_condition_true(kernel));
}

static kiln_expr_id_t apply_alpha(kiln_contraction_t *c, kiln_expr_id_t value) {
  const kiln_attr_value_t *alpha = kiln_node_attr(c->node, KILN_ATTR_alpha);
  if (!alpha || alpha->real == 1) return value;
  kiln_number_t number = {.real = alpha->real};
  if (!kiln_dtype_is_float(c->accumulator)) {
    number = (kiln_number_t){.is_integer = true, .integer = (int64_t)alpha->real, .real = alpha->real};
  }
  uint64_t bits = kiln_number_to_bits(number, c->accumulator);
  return op(c, KILN_OP_mul, c->accumulator, value, kiln_scalar_constant(c->kernel, c->accumulator, bits));
}

static kiln_status_t apply_bias(kiln_contraction_t *c, kiln_expr_id_t *value) {
  if (c->node->operand_count < 3) return NULL;
  kiln_request_t request = {
      .value = c->node->operands[2], .guard = kiln_condition_true(c->kernel), .index = {c->n.index}};
  kiln_expr_id_t bias;
  KILN_TRY(kiln_lower(c->lowering, &request, &bias));
  if (c->accumulator != c->dtype) bias = op(c, KILN_OP_cast, c->accumulator, bias, bias);
  *value = op(c, KILN_OP_add, c->accumulator, *value, bias);
  return NULL;
}

/* As every node rounds: to the arithmetic type of its dtype (f32 for halves), then to the dtype. */
static kiln_expr_id_t round_to(kiln_contraction_t *c, kiln_expr_id_t value, kiln_dtype_t dtype) {
  bool is_twice = c->accumulator == KILN_DTYPE_f64 && kiln_dtype_is_half(dtype);
  if (is_twice) value = op(c, KILN_OP_cast, KILN_DTYPE_f32, value, value);
  return c->accumulator == dtype ? value : op(c, KILN_OP_cast, dtype, value, value);
}

/* alpha, bias and activation in the accumulator's dtype, then one rounding. */
static kiln_status_t finish_sum(walk_t *walk) {
  kiln_contraction_t *c = walk->c;
  result_t *result = &walk->results[c->node->first_result];
  kiln_dtype_t dtype = type_of(walk, c->node->first_result)->dtype;
  kiln_expr_id_t value = apply_alpha(c, read_sum(c));
  KILN_TRY(apply_bias(c, &value));
  if (c->node->op == KILN_OP_gemm_rcr_bias_sigmoid) {
    value = op(c, KILN_OP_sigmoid, c->accumulator, value, value);
  }
  value = round_to(c, value, dtype);
  if (c->node->op == KILN_OP_gemm_rcr_bias_relu) value = op(c, KILN_OP_relu, dtype, value, value);
  result->is_known = true;
  result->scalar = value;
  kiln_contraction_result_index(c, result->index);
  return NULL;
}

/* --- what follows -------------------------------------------------------------------------------------- */

static bool renames_elements(kiln_op_t op) {
  return op == KILN_OP_reshape || op == KILN_OP_permute || op == KILN_OP_squeeze || op == KILN_OP_broadcast;
}

static uint32_t axes_of(const kiln_node_t *node, uint32_t rank) {
  const kiln_attr_value_t *dims = kiln_node_attr(node, KILN_ATTR_dims);
  uint32_t set = 0;
  for (uint32_t i = 0; dims && i < dims->list.count; i++) {
    set |= 1u << kiln_view_axis(dims->list.integers[i], rank);
  }
  return set;
}

/* Drops the index of size-1 axes, or adds one for each. */
static void squeezed_index(walk_t *walk, const kiln_node_t *node, const kiln_expr_id_t *from,
                           kiln_expr_id_t *to) {
  const kiln_type_t *operand = type_of(walk, node->operands[0]), *result = type_of(walk, node->first_result);
  bool adds = node->op == KILN_OP_broadcast;
  uint32_t rank = adds ? result->rank : operand->rank, set = axes_of(node, rank), next = 0;
  for (uint32_t i = 0; i < rank; i++) {
    if (adds)
      to[i] = set >> i & 1 ? kiln_index_constant(walk->c->kernel, kiln_dim_constant(0)) : from[next++];
    else if (!(set >> i & 1))
      to[next++] = from[i];
  }
}

/* The index of a view's result, given that of its operand: the opposite direction of kiln_view_index. */
static void renamed_index(walk_t *walk, const kiln_node_t *node, const kiln_expr_id_t *from,
                          kiln_expr_id_t *to) {
  kiln_kernel_t *kernel = walk->c->kernel;
  const kiln_type_t *operand = type_of(walk, node->operands[0]), *result = type_of(walk, node->first_result);
  if (node->op == KILN_OP_permute) {
    const kiln_attr_value_t *dims = kiln_node_attr(node, KILN_ATTR_dims);
    for (uint32_t i = 0; i < result->rank; i++)
      to[i] = from[kiln_view_axis(dims->list.integers[i], result->rank)];
    return;
  }
  if (node->op != KILN_OP_reshape) {
    squeezed_index(walk, node, from, to);
    return;
  }
  kiln_dim_t strides[KILN_MAX_RANK];
  if (!kiln_type_strides(kernel->arena, operand, strides)) kernel->overflowed = true;
  kiln_contraction_unflatten(kernel, kiln_view_linear(kernel, operand->rank, from, strides), result->rank,
                             result->dims, to);
}

/* The index of an element-wise result, given that of an operand with as many elements. */
static void widened_index(walk_t *walk, kiln_value_id_t operand, kiln_value_id_t value, kiln_expr_id_t *out) {
  uint32_t added = type_of(walk, value)->rank - type_of(walk, operand)->rank;
  for (uint32_t i = 0; i < added; i++) {
    out[i] = kiln_index_constant(walk->c->kernel, kiln_dim_constant(0));
  }
  memcpy(out + added, walk->results[operand].index, type_of(walk, operand)->rank * sizeof *out);
}

static kiln_status_t apply_elementwise(walk_t *walk, const kiln_node_t *node, kiln_value_id_t known) {
  kiln_contraction_t *c = walk->c;
  result_t *result = &walk->results[node->first_result];
  const kiln_type_t *type = type_of(walk, node->first_result);
  kiln_expr_id_t scalars[3];
  widened_index(walk, known, node->first_result, result->index);
  for (uint32_t i = 0; i < node->operand_count; i++) {
    scalars[i] = walk->results[node->operands[i]].scalar;
    if (walk->results[node->operands[i]].is_known) continue;
    kiln_request_t request = {.value = node->operands[i], .guard = kiln_condition_true(c->kernel)};
    kiln_view_broadcast(c->kernel, type_of(walk, node->operands[i]), type->rank, result->index,
                        request.index);
    KILN_TRY(kiln_lower(c->lowering, &request, &scalars[i]));
  }
  result->is_known = true;
  result->scalar = kiln_scalar_op(c->kernel, node->op, type->dtype, scalars, node->operand_count,
                                  (uint32_t)(node - c->kernel->graph->nodes));
  return NULL;
}

static kiln_value_id_t known_operand(const walk_t *walk, const kiln_node_t *node) {
  for (uint32_t i = 0; i < node->operand_count; i++) {
    if (node->operands[i] != KILN_NO_VALUE && walk->results[node->operands[i]].is_known)
      return node->operands[i];
  }
  return KILN_NO_VALUE;
}

static kiln_status_t apply_nodes(walk_t *walk) {
  const kiln_group_t *group = walk->c->group;
  KILN_TRY(finish_sum(walk));
  for (uint32_t i = 0; i < group->node_count; i++) {
    const kiln_node_t *node = &walk->c->kernel->graph->nodes[group->nodes[i]];
    kiln_value_id_t known = known_operand(walk, node);
    result_t *result = &walk->results[node->first_result];
    if (known == KILN_NO_VALUE) continue;
    if (!renames_elements(node->op)) {
      KILN_TRY(apply_elementwise(walk, node, known));
      continue;
    }
    result->is_known = true;
    result->scalar = walk->results[known].scalar;
    renamed_index(walk, node, walk->results[known].index, result->index);
  }
  return NULL;
}

static kiln_status_t check_stored(walk_t *walk, kiln_value_id_t value) {
  if (walk->results[value].is_known) return NULL;
  return kiln_error(KILN_INTERNAL, "a contraction's group stores a value that does not depend on it");
}

static kiln_region_t region_along(kiln_contraction_t *c, const kiln_kernel_store_t *stores, bool along_m) {
  kiln_kernel_t *kernel = c->kernel;
  uint32_t tile = along_m ? c->tile.m : c->tile.n;
  const kiln_space_axis_t *outer = along_m ? &c->n : &c->m, *inner = along_m ? &c->m : &c->n;
  const uint32_t axes[] = {c->batch.axis, outer->axis, inner->axis};
  kiln_region_t region = {.axes = kiln_arena_copy(kernel->arena, axes, sizeof axes),
                          .axis_count = 3,
                          .lanes = 1,
                          .most_lanes = tile < 16 ? tile : 16,
                          .stores = stores,
                          .store_count = c->group->store_count};
  return kiln_schedule_vectorize(kernel, region, c->context);
}

/* Along n for every width that members have. */
static void choose_widths(kiln_contraction_t *c, const kiln_kernel_store_t *stores) {
  const kiln_codegen_context_t *context = c->context;
  const kiln_selector_t *selector = &context->grouped->selectors[2];
  for (uint32_t i = 0; i < selector->count; i++) {
    c->context = kiln_contraction_context(c, selector->widths[i]);
    c->epilogues[i] = region_along(c, stores, false);
    c->context = context;
  }
  c->epilogue = c->epilogues[0];
}

/* Along n, unless only m has neighbours in memory. */
static void choose_direction(kiln_contraction_t *c, const kiln_kernel_store_t *stores) {
  if (c->has_widths) {
    choose_widths(c, stores);
    return;
  }
  c->epilogue = region_along(c, stores, false);
  if (c->epilogue.lanes > 1) return;
  kiln_region_t along_m = region_along(c, stores, true);
  c->stores_along_m = along_m.lanes > 1;
  if (c->stores_along_m) c->epilogue = along_m;
}

kiln_status_t kiln_contraction_build_epilogue(kiln_contraction_t *c) {
  kiln_kernel_t *kernel = c->kernel;
  walk_t walk = {c, KILN_NEW_ARRAY(kernel->arena, result_t, kernel->graph->value_count)};
  c->tile_m_axis = kiln_kernel_axis(kernel, c->m.extent, c->tile.m);
  c->tile_n_axis = kiln_kernel_axis(kernel, c->n.extent, c->tile.n);
  c->tile_m = kiln_index_axis(kernel, c->tile_m_axis);
  c->tile_n = kiln_index_axis(kernel, c->tile_n_axis);
  KILN_TRY(apply_nodes(&walk));
  uint32_t count = c->group->store_count;
  kiln_kernel_store_t *stores = KILN_NEW_ARRAY(kernel->arena, kiln_kernel_store_t, count);
  for (uint32_t i = 0; i < count; i++) {
    kiln_value_id_t value = c->group->stores[i].value;
    KILN_TRY(check_stored(&walk, value));
    stores[i] = kiln_lower_store(c->lowering, &c->group->stores[i], walk.results[value].index);
    stores[i].value = walk.results[value].scalar;
  }
  choose_direction(c, stores);
  return NULL;
}

/* --- what may follow: the same walk without a kernel ------------------------------------------------------
 */

enum { MOST_NODES = 400 };

typedef struct {
  const kiln_graph_t *graph;
  const uint32_t *nodes;
  uint32_t node_count;
  /* per node: 0 when it does not depend on the sums, else a number for the way in which its elements are
   * renamed */
  uint32_t renamings[MOST_NODES];
} survey_t;

static int by_number(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

static uint32_t renaming_of(const survey_t *survey, kiln_value_id_t value) {
  if (value == KILN_NO_VALUE || value < survey->graph->input_count) return 0;
  uint32_t node = survey->graph->producers[value];
  const uint32_t *at = bsearch(&node, survey->nodes, survey->node_count, sizeof node, by_number);
  return at ? survey->renamings[at - survey->nodes] : 0;
}

/* Do the two types have the same elements in the same order, the first maybe with more axes of size 1? */
static bool is_widened(const kiln_type_t *wide, const kiln_type_t *type) {
  if (wide->rank < type->rank) return false;
  for (uint32_t i = 0; i < wide->rank; i++) {
    uint32_t added = wide->rank - type->rank;
    if (i < added ? !kiln_dim_is(wide->dims[i], 1) : !kiln_dim_equal(wide->dims[i], type->dims[i - added]))
      return false;
  }
  return true;
}

static const char *survey_elementwise(survey_t *survey, uint32_t position, const kiln_node_t *node) {
  const kiln_type_t *types = survey->graph->types;
  uint32_t *own = &survey->renamings[position];
  for (uint32_t i = 0; i < node->operand_count; i++) {
    uint32_t renaming = renaming_of(survey, node->operands[i]);
    if (!renaming) continue;
    if (!is_widened(&types[node->first_result], &types[node->operands[i]]))
      return "the contraction's result is repeated";
    if (*own && *own != renaming) return "the contraction's result meets itself in another order";
    *own = renaming;
  }
  return NULL;
}

static const char *survey_node(survey_t *survey, uint32_t position) {
  const kiln_node_t *node = &survey->graph->nodes[survey->nodes[position]];
  kiln_op_class_t op_class = kiln_op_info(node->op)->op_class;
  bool depends = false;
  for (uint32_t i = 0; i < node->operand_count; i++) depends |= renaming_of(survey, node->operands[i]) != 0;
  if (op_class == KILN_CLASS_CONTRACTION) {
    survey->renamings[position] = 1;
    return depends ? "it depends on another contraction" : NULL;
  }
  if (!depends) return NULL;
  if (renames_elements(node->op)) {
    survey->renamings[position] = 2 + position;
    return NULL;
  }
  if (op_class == KILN_CLASS_ELEMENTWISE) return survey_elementwise(survey, position, node);
  return "what follows the contraction reads elements of its result elsewhere";
}

const char *kiln_contraction_refusal(const kiln_graph_t *graph, const uint32_t *nodes, uint32_t node_count,
                                     const kiln_value_id_t *stores, uint32_t store_count) {
  survey_t survey = {.graph = graph, .nodes = nodes, .node_count = node_count};
  uint32_t contractions = 0;
  if (node_count > MOST_NODES) return "the kernel would be too large";
  for (uint32_t i = 0; i < node_count; i++) {
    contractions += kiln_op_info(graph->nodes[nodes[i]].op)->op_class == KILN_CLASS_CONTRACTION;
    const char *reason = survey_node(&survey, i);
    if (reason) return reason;
  }
  if (contractions != 1) return "a kernel makes one contraction";
  for (uint32_t i = 0; i < store_count; i++) {
    if (!renaming_of(&survey, stores[i])) return "a stored value does not depend on the contraction";
  }
  return NULL;
}
