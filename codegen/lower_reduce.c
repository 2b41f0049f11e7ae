/* codegen/lower_reduce.c: reductions and normalizations as folds of a row and operations. See lower_reduce.h.
 *
 * Everything is computed in the arithmetic type: f32 for halves, the dtype itself for others, with sums in it
 * too. What a composite rounds on the way is what its bound allows (docs/numerics.md). The first part finds
 * rows, the second folds, the third spells out the nodes.
 */
#include "codegen/lower_reduce.h"
#include "codegen/constant.h"
#include "codegen/lower.h"

#include <math.h>

/* --- rows ---------------------------------------------------------------------------------------------- */

bool kiln_node_reduces(const kiln_node_t *node) {
  kiln_op_class_t op_class = kiln_op_info(node->op)->op_class;
  return op_class == KILN_CLASS_REDUCTION || op_class == KILN_CLASS_NORMALIZATION;
}

/* A scalar has no axes: dims 0 and -1 are allowed there and mean nothing. */
uint32_t kiln_reduce_axes(const kiln_node_t *node, uint32_t rank) {
  const kiln_attr_value_t *shape = kiln_node_attr(node, KILN_ATTR_normalized_shape);
  const kiln_attr_value_t *dims = kiln_node_attr(node, KILN_ATTR_dims),
                          *dim = kiln_node_attr(node, KILN_ATTR_dim);
  uint32_t all = (1u << rank) - 1, axes = 0;
  if (!rank) return 0;
  if (shape) return all & ~((1u << (rank - shape->list.count)) - 1);
  if (dim) return 1u << kiln_view_axis(dim->integer, rank);
  if (!dims) return all;
  for (uint32_t i = 0; i < dims->list.count; i++) axes |= 1u << kiln_view_axis(dims->list.integers[i], rank);
  return axes;
}

kiln_reduced_t kiln_reduced_of(kiln_kernel_t *kernel, const kiln_node_t *node) {
  const kiln_type_t *source = &kernel->graph->types[node->operands[0]];
  kiln_reduced_t reduced = {source, kiln_reduce_axes(node, source->rank), .count = kiln_dim_constant(1)};
  reduced.keeps_axes = kernel->graph->types[node->first_result].rank == source->rank;
  for (uint32_t i = 0; i < source->rank; i++) {
    if (reduced.axes >> i & 1) reduced.count = kiln_kernel_dim_mul(kernel, reduced.count, source->dims[i]);
  }
  return reduced;
}

bool kiln_reduce_is_inline(const kiln_graph_t *graph, const kiln_node_t *node, uint32_t *out_points) {
  const kiln_type_t *source = &graph->types[node->operands[0]];
  uint32_t axes = kiln_reduce_axes(node, source->rank);
  int64_t points = 1;
  for (uint32_t i = 0; i < source->rank; i++) {
    if (axes >> i & 1 && kiln_dim_is(source->dims[i], 0)) points = 0;
  }
  for (uint32_t i = 0; points && i < source->rank; i++) {
    if (!(axes >> i & 1)) continue;
    if (!kiln_dim_is_constant(source->dims[i]) || source->dims[i].constant > KILN_MOST_INLINE_POINTS)
      return false;
    points *= source->dims[i].constant;
    if (points > KILN_MOST_INLINE_POINTS) return false;
  }
  *out_points = (uint32_t)points;
  return true;
}

void kiln_reduce_index(kiln_kernel_t *kernel, const kiln_reduced_t *reduced, const kiln_expr_id_t *index,
                       kiln_expr_id_t position, kiln_expr_id_t *out_index) {
  uint32_t rank = reduced->source->rank, first = 0, next = 0;
  while (first < rank && !(reduced->axes >> first & 1)) first++;
  for (uint32_t i = 0; i < rank; i++) {
    if (reduced->keeps_axes || !(reduced->axes >> i & 1)) out_index[i] = index[next++];
  }
  for (uint32_t i = rank; i-- > first;) { /* the first reduced axis needs no remainder */
    if (!(reduced->axes >> i & 1)) continue;
    kiln_dim_t size = reduced->source->dims[i];
    out_index[i] = i == first ? position : kiln_index_mod(kernel, position, size);
    if (i > first) position = kiln_index_div(kernel, position, size);
  }
}

void kiln_reduce_affine_index(const kiln_reduced_t *reduced, const kiln_expr_id_t *index,
                              kiln_expr_id_t *out_index) {
  uint32_t next = 0;
  for (uint32_t i = 0; i < reduced->source->rank; i++) {
    if (reduced->axes >> i & 1) out_index[next++] = index[i];
  }
}

/* --- folds --------------------------------------------------------------------------------------------- */

/* A node being spelled out; its terms are what is folded: one per point, or one for the row. */
typedef struct {
  kiln_kernel_t *kernel;
  const kiln_node_t *node;
  kiln_dtype_t dtype; /* in which it computes */
  bool is_row;
  uint32_t count; /* of terms */
} builder_t;

static kiln_expr_id_t op2(builder_t *b, kiln_op_t op, kiln_dtype_t dtype, kiln_expr_id_t x,
                          kiln_expr_id_t y) {
  const kiln_expr_id_t operands[] = {x, y};
  return kiln_scalar_op(b->kernel, op, dtype, operands, 2, KILN_NO_NODE);
}

static kiln_expr_id_t op1(builder_t *b, kiln_op_t op, kiln_dtype_t dtype, kiln_expr_id_t x) {
  return kiln_scalar_op(b->kernel, op, dtype, &x, 1, KILN_NO_NODE);
}

static kiln_expr_id_t real(builder_t *b, double value, kiln_dtype_t dtype) {
  return kiln_scalar_constant(b->kernel, dtype, kiln_number_to_bits((kiln_number_t){.real = value}, dtype));
}

static kiln_dtype_t arithmetic(kiln_dtype_t dtype) {
  return kiln_dtype_is_half(dtype) ? KILN_DTYPE_f32 : dtype;
}

/* Operations over the terms, one result per term: with a second list, or with a scalar that all share. */
static kiln_expr_id_t *map2(builder_t *b, kiln_op_t op, const kiln_expr_id_t *x, const kiln_expr_id_t *y) {
  kiln_expr_id_t *made = KILN_NEW_ARRAY(b->kernel->arena, kiln_expr_id_t, b->count);
  for (uint32_t i = 0; i < b->count; i++) made[i] = op2(b, op, b->dtype, x[i], y[i]);
  return made;
}

static kiln_expr_id_t *map_with(builder_t *b, kiln_op_t op, const kiln_expr_id_t *x, kiln_expr_id_t y) {
  kiln_expr_id_t *made = KILN_NEW_ARRAY(b->kernel->arena, kiln_expr_id_t, b->count);
  for (uint32_t i = 0; i < b->count; i++) made[i] = op2(b, op, b->dtype, x[i], y);
  return made;
}

static kiln_expr_id_t *map1(builder_t *b, kiln_op_t op, kiln_dtype_t dtype, const kiln_expr_id_t *x) {
  kiln_expr_id_t *made = KILN_NEW_ARRAY(b->kernel->arena, kiln_expr_id_t, b->count);
  for (uint32_t i = 0; i < b->count; i++) made[i] = op1(b, op, dtype, x[i]);
  return made;
}

static kiln_op_t combiner(kiln_op_t reduction) {
  switch (reduction) {
  case KILN_OP_prod:
    return KILN_OP_mul;
  case KILN_OP_amax:
    return KILN_OP_maximum;
  case KILN_OP_amin:
    return KILN_OP_minimum;
  case KILN_OP_any:
    return KILN_OP_logical_or;
  case KILN_OP_all:
    return KILN_OP_logical_and;
  default:
    return KILN_OP_add;
  }
}

/* Neighbours first, as the tree over threads does it: the order of a sum does not depend on where it is made.
 */
static kiln_expr_id_t fold_points(builder_t *b, kiln_op_t op, kiln_dtype_t dtype, kiln_expr_id_t *terms) {
  uint32_t count = b->count;
  if (!count) {
    bool one = op == KILN_OP_prod || op == KILN_OP_all;
    return kiln_scalar_constant(b->kernel, dtype,
                                kiln_number_to_bits((kiln_number_t){true, one, one}, dtype));
  }
  while (count > 1) {
    uint32_t pairs = count / 2;
    for (uint32_t i = 0; i < pairs; i++)
      terms[i] = op2(b, combiner(op), dtype, terms[2 * i], terms[2 * i + 1]);
    if (count % 2) terms[pairs] = terms[count - 1];
    count = pairs + count % 2;
  }
  return terms[0];
}

static kiln_expr_id_t fold(builder_t *b, kiln_op_t op, kiln_dtype_t dtype, const kiln_expr_id_t *terms) {
  if (b->is_row) return kiln_scalar_reduce(b->kernel, op, dtype, terms[0]);
  return fold_points(b, op, dtype, kiln_arena_copy(b->kernel->arena, terms, b->count * sizeof *terms));
}

/* Does y come before x in the order that argmax or argmin seeks? Of equals the first stays. */
static kiln_expr_id_t beats(builder_t *b, kiln_expr_id_t y, kiln_expr_id_t x) {
  kiln_expr_id_t better =
      op2(b, b->node->op == KILN_OP_argmax ? KILN_OP_gt : KILN_OP_lt, KILN_DTYPE_bool, y, x);
  if (!kiln_dtype_is_float(b->dtype)) return better;
  kiln_expr_id_t x_is_number =
      op1(b, KILN_OP_logical_not, KILN_DTYPE_bool, op1(b, KILN_OP_isnan, KILN_DTYPE_bool, x));
  kiln_expr_id_t y_is_nan = op1(b, KILN_OP_isnan, KILN_DTYPE_bool, y);
  kiln_expr_id_t first_nan = op2(b, KILN_OP_logical_and, KILN_DTYPE_bool, y_is_nan, x_is_number);
  return op2(b, KILN_OP_logical_or, KILN_DTYPE_bool, better, first_nan);
}

static kiln_expr_id_t fold_place(builder_t *b, const kiln_expr_id_t *terms) {
  if (b->is_row) return kiln_scalar_reduce(b->kernel, b->node->op, KILN_DTYPE_i64, terms[0]);
  kiln_expr_id_t best = terms[0], place = kiln_scalar_constant(b->kernel, KILN_DTYPE_i64, 0);
  for (uint32_t i = 1; i < b->count; i++) {
    kiln_expr_id_t better = beats(b, terms[i], best);
    const kiln_expr_id_t values[] = {better, terms[i], best};
    const kiln_expr_id_t places[] = {better, kiln_scalar_constant(b->kernel, KILN_DTYPE_i64, i), place};
    best = kiln_scalar_op(b->kernel, KILN_OP_where, b->dtype, values, 3, KILN_NO_NODE);
    place = kiln_scalar_op(b->kernel, KILN_OP_where, KILN_DTYPE_i64, places, 3, KILN_NO_NODE);
  }
  return place;
}

/* --- counts -------------------------------------------------------------------------------------------- */

/* The number of points less `taken`, not below 0, as a float. */
static kiln_expr_id_t divisor(builder_t *b, kiln_dim_t count, double taken) {
  if (kiln_dim_is_constant(count)) return real(b, fmax(0, (double)count.constant - taken), b->dtype);
  kiln_expr_id_t number = kiln_scalar_position(b->kernel, kiln_index_constant(b->kernel, count));
  number = op1(b, KILN_OP_cast, KILN_DTYPE_f64, number);
  if (taken) {
    number = op2(b, KILN_OP_sub, KILN_DTYPE_f64, number, real(b, taken, KILN_DTYPE_f64));
    number = op2(b, KILN_OP_maximum, KILN_DTYPE_f64, number, real(b, 0, KILN_DTYPE_f64));
  }
  return op1(b, KILN_OP_cast, b->dtype, number);
}

static kiln_expr_id_t mean(builder_t *b, kiln_dim_t count, const kiln_expr_id_t *x) {
  return op2(b, KILN_OP_div, b->dtype, fold(b, KILN_OP_sum, b->dtype, x), divisor(b, count, 0));
}

/* The mean of the squares, with `taken` degrees of freedom less. */
static kiln_expr_id_t mean_square(builder_t *b, kiln_dim_t count, double taken, const kiln_expr_id_t *x) {
  kiln_expr_id_t sum = fold(b, KILN_OP_sum, b->dtype, map2(b, KILN_OP_mul, x, x));
  return op2(b, KILN_OP_div, b->dtype, sum, divisor(b, count, taken));
}

static double float_attr(const kiln_node_t *node, kiln_attr_t attr, double otherwise) {
  const kiln_attr_value_t *value = kiln_node_attr(node, attr);
  return value ? value->real : otherwise;
}

/* --- reductions ---------------------------------------------------------------------------------------- */

/* Sums and products of bools ask whether any, or all, are true; so do extremes. */
static kiln_op_t on_bools(kiln_op_t op) {
  return op == KILN_OP_sum || op == KILN_OP_amax    ? KILN_OP_any
         : op == KILN_OP_prod || op == KILN_OP_amin ? KILN_OP_all
                                                    : op;
}

static kiln_expr_id_t reduce(builder_t *b, kiln_dim_t count, kiln_dtype_t result, const kiln_expr_id_t *x) {
  kiln_op_t op = b->node->op;
  switch (op) {
  case KILN_OP_argmax:
  case KILN_OP_argmin:
    return fold_place(b, x);
  case KILN_OP_mean:
    return mean(b, count, x);
  case KILN_OP_var:
    return mean_square(b, count, float_attr(b->node, KILN_ATTR_correction, 1),
                       map_with(b, KILN_OP_sub, x, mean(b, count, x)));
  case KILN_OP_any:
  case KILN_OP_all:
    return fold(b, op, KILN_DTYPE_bool, map1(b, KILN_OP_cast, KILN_DTYPE_bool, x));
  case KILN_OP_sum:
  case KILN_OP_prod: /* terms are taken in the result's dtype */
    x = map1(b, KILN_OP_cast, result, x);
    b->dtype = arithmetic(result);
    x = map1(b, KILN_OP_cast, b->dtype, x);
    break;
  default:
    break;
  }
  return fold(b, b->dtype == KILN_DTYPE_bool ? on_bools(op) : op, b->dtype, x);
}

/* --- normalizations ------------------------------------------------------------------------------------ */

/* softmax and log_softmax, with the greatest taken off so that nothing overflows. */
static kiln_expr_id_t softmax(builder_t *b, const kiln_expr_id_t *x, kiln_expr_id_t own) {
  kiln_expr_id_t greatest = fold(b, KILN_OP_amax, b->dtype, x);
  kiln_expr_id_t *weights = map1(b, KILN_OP_exp, b->dtype, map_with(b, KILN_OP_sub, x, greatest));
  kiln_expr_id_t sum = fold(b, KILN_OP_sum, b->dtype, weights);
  own = op2(b, KILN_OP_sub, b->dtype, own, greatest);
  if (b->node->op == KILN_OP_log_softmax)
    return op2(b, KILN_OP_sub, b->dtype, own, op1(b, KILN_OP_log, b->dtype, sum));
  return op2(b, KILN_OP_div, b->dtype, op1(b, KILN_OP_exp, b->dtype, own), sum);
}

/* A member of a group has its own, whose bits are a symbol's value. */
static kiln_expr_id_t eps_of(builder_t *b) {
  const uint8_t *symbols = b->kernel->eps_symbols;
  uint8_t symbol = symbols ? symbols[b->node - b->kernel->graph->nodes] : 0;
  if (!symbol) return real(b, float_attr(b->node, KILN_ATTR_eps, 1e-5), b->dtype);
  kiln_expr_id_t bits = kiln_scalar_position(
      b->kernel, kiln_index_constant(b->kernel, kiln_dim_symbol(b->kernel->arena, symbol - 1u)));
  return op1(b, KILN_OP_bitcast, KILN_DTYPE_f32, op1(b, KILN_OP_cast, KILN_DTYPE_i32, bits));
}

/* layernorm, rmsnorm and layernorm_sigmoid_mul: two passes, of which the first finds the mean. */
static kiln_expr_id_t normalize(builder_t *b, kiln_dim_t count, const kiln_expr_id_t *x, kiln_expr_id_t own,
                                const kiln_expr_id_t *affine) {
  kiln_expr_id_t value = own;
  if (b->node->op != KILN_OP_rmsnorm) {
    kiln_expr_id_t centre = mean(b, count, x);
    x = map_with(b, KILN_OP_sub, x, centre);
    value = op2(b, KILN_OP_sub, b->dtype, own, centre);
  }
  kiln_expr_id_t eps = eps_of(b);
  kiln_expr_id_t spread = op2(b, KILN_OP_add, b->dtype, mean_square(b, count, 0, x), eps);
  value = op2(b, KILN_OP_mul, b->dtype, value, op1(b, KILN_OP_rsqrt, b->dtype, spread));
  for (uint32_t i = 1; i < b->node->operand_count; i++) {
    if (b->node->operands[i] == KILN_NO_VALUE) continue;
    value = op2(b, i == 1 ? KILN_OP_mul : KILN_OP_add, b->dtype, value,
                op1(b, KILN_OP_cast, b->dtype, *affine++));
  }
  if (b->node->op != KILN_OP_layernorm_sigmoid_mul) return value;
  return op2(b, KILN_OP_mul, b->dtype, own, op1(b, KILN_OP_sigmoid, b->dtype, value));
}

kiln_expr_id_t kiln_reduce_build(kiln_kernel_t *kernel, const kiln_node_t *node, const kiln_expr_id_t *points,
                                 uint32_t point_count, const kiln_expr_id_t *others) {
  kiln_reduced_t reduced = kiln_reduced_of(kernel, node);
  kiln_dtype_t result = kernel->graph->types[node->first_result].dtype;
  builder_t b = {kernel, node, arithmetic(reduced.source->dtype), point_count == KILN_ROW,
                 point_count == KILN_ROW ? 1 : point_count};
  bool converts = node->op == KILN_OP_sum || node->op == KILN_OP_prod; /* which take the operand as it is */
  const kiln_expr_id_t *x = converts ? points : map1(&b, KILN_OP_cast, b.dtype, points);
  if (kiln_op_info(node->op)->op_class == KILN_CLASS_REDUCTION)
    return op1(&b, KILN_OP_cast, result, reduce(&b, reduced.count, result, x));
  kiln_expr_id_t own = op1(&b, KILN_OP_cast, b.dtype, others[0]);
  bool is_softmax = node->op == KILN_OP_softmax || node->op == KILN_OP_log_softmax;
  return op1(&b, KILN_OP_cast, result,
             is_softmax ? softmax(&b, x, own) : normalize(&b, reduced.count, x, own, others + 1));
}
