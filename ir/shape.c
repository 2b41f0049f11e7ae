/* ir/shape.c: the result types of a node from its operands and attributes.
 *
 * kiln_shape_infer settles in this order what holds for every op: operands and attributes against the op's
 * row, dtypes, then the op's own shape rule (below for element-wise ops, in shape_*.c for the families), then
 * the limits on results. Called by the graph builder and by the verifier, which believes nothing else.
 */
#include "ir/shape.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

/* --- refusing ------------------------------------------------------------------------------------------- */

static const char *const rule_names[KILN_RULE_COUNT] = {
#define KILN_RULE(name, reach, sentence) #name,
#include "ir/rules.def"
#undef KILN_RULE
};

const char *kiln_rule_name(kiln_rule_t rule) { return rule_names[rule]; }

kiln_status_t kiln_shape_refuse(const kiln_shape_t *shape, kiln_rule_t rule, const char *format, ...) {
  kiln_buffer_t message;
  kiln_buffer_init(&message);
  va_list arguments;
  va_start(arguments, format);
  kiln_buffer_vprintf(&message, format, arguments);
  va_end(arguments);
  kiln_code_t code = rule == KILN_RULE_size_overflow ? KILN_TOO_LARGE : KILN_INVALID_GRAPH;
  bool has_op = shape->op < KILN_OP_COUNT;
  const char *op = has_op ? kiln_op_info(shape->op)->name : "";
  kiln_status_t status = kiln_error(code, "%s%s%s", op, has_op ? ": " : "", kiln_buffer_text(&message));
  kiln_buffer_deinit(&message);
  if (has_op) status = kiln_error_detail(status, "op", "%s", op);
  return kiln_error_detail(status, "rule", "%s", kiln_rule_name(rule));
}

static bool same_constraint(const kiln_constraint_t *a, const kiln_constraint_t *b) {
  return a->equal == b->equal && kiln_dim_equal(a->left, b->left) && kiln_dim_equal(a->right, b->right);
}

/* Many nodes have one shape, so a constraint is first looked for among the latest ones. */
static void add_constraint(const kiln_shape_t *shape, kiln_constraint_t constraint) {
  kiln_constraints_t *list = shape->constraints;
  for (size_t back = 1; back <= list->count && back <= 32; back++) {
    if (same_constraint(&list->items[list->count - back], &constraint)) return;
  }
  constraint.left = kiln_dim_copy(shape->arena, constraint.left);
  constraint.right = kiln_dim_copy(shape->arena, constraint.right);
  if (shape->op < KILN_OP_COUNT) {
    const char *op = kiln_op_info(shape->op)->name;
    constraint.message = kiln_arena_printf(shape->arena, "%s: %s", op, constraint.message);
  }
  KILN_PUSH(shape->arena, list->items, list->count, list->capacity, constraint);
}

kiln_status_t kiln_shape_require_ge(const kiln_shape_t *shape, kiln_rule_t rule, kiln_dim_t left,
                                    kiln_dim_t right, uint32_t axis, const char *message) {
  if (kiln_dim_provably_ge(left, right)) return NULL;
  if (axis != KILN_NO_AXIS) message = kiln_arena_printf(shape->arena, "axis %u: %s", axis, message);
  kiln_dim_t above; /* left < right for all symbols when right >= left + 1 */
  bool never =
      kiln_dim_add(shape->arena, left, kiln_dim_constant(1), &above) && kiln_dim_provably_ge(right, above);
  if (never) {
    return kiln_shape_refuse(shape, rule, "%s (%s is less than %s)", message,
                             kiln_shape_dim_text(shape, left), kiln_shape_dim_text(shape, right));
  }
  if (shape->constraints) add_constraint(shape, (kiln_constraint_t){left, right, false, message});
  return NULL;
}

const char *kiln_shape_type_text(const kiln_shape_t *shape, const kiln_type_t *type) {
  kiln_buffer_t *buffer = kiln_buffer_in_arena(shape->arena);
  kiln_type_print(buffer, type, shape->symbols);
  return kiln_buffer_text(buffer);
}

const char *kiln_shape_dim_text(const kiln_shape_t *shape, kiln_dim_t dim) {
  const char *names[KILN_MAX_SYMBOLS] = {"s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7"};
  for (unsigned s = 0; shape->symbols && s < KILN_MAX_SYMBOLS; s++) {
    if (kiln_dim_symbols(dim) >> s & 1) names[s] = shape->symbols[s].name;
  }
  kiln_buffer_t *buffer = kiln_buffer_in_arena(shape->arena);
  kiln_dim_print(buffer, dim, names);
  return kiln_buffer_text(buffer);
}

/* --- what rules share ----------------------------------------------------------------------------------- */

const kiln_attr_value_t *kiln_shape_attr(const kiln_shape_t *shape, kiln_attr_t attr) {
  for (uint32_t i = 0; i < shape->attr_count; i++) {
    if (shape->attrs[i].attr == attr) return &shape->attrs[i];
  }
  return NULL;
}

kiln_status_t kiln_shape_axis(const kiln_shape_t *shape, int64_t dim, uint32_t rank, bool scalar,
                              uint32_t *out_axis) {
  int64_t axes = rank || !scalar ? rank : 1;
  if (dim < -axes || dim >= axes) {
    return kiln_shape_refuse(shape, KILN_RULE_dim_range, "dim %lld is out of range for rank %u",
                             (long long)dim, rank);
  }
  *out_axis = (uint32_t)(dim < 0 ? dim + axes : dim);
  return NULL;
}

kiln_status_t kiln_shape_axes(const kiln_shape_t *shape, const kiln_attr_value_t *dims, uint32_t rank,
                              bool scalar, uint32_t *out_axes) {
  *out_axes = 0;
  for (uint32_t i = 0; i < dims->list.count; i++) {
    uint32_t axis;
    KILN_TRY(kiln_shape_axis(shape, dims->list.integers[i], rank, scalar, &axis));
    if (*out_axes >> axis & 1) {
      return kiln_shape_refuse(shape, KILN_RULE_dim_twice, "dim %lld names an axis a second time",
                               (long long)dims->list.integers[i]);
    }
    *out_axes |= 1u << axis;
  }
  return NULL;
}

static kiln_status_t overflow(const kiln_shape_t *shape) {
  return kiln_shape_refuse(shape, KILN_RULE_size_overflow, "a size leaves 64 bits");
}

kiln_status_t kiln_shape_add(const kiln_shape_t *shape, kiln_dim_t a, kiln_dim_t b, kiln_dim_t *out) {
  return kiln_dim_add(shape->arena, a, b, out) ? NULL : overflow(shape);
}

kiln_status_t kiln_shape_mul(const kiln_shape_t *shape, kiln_dim_t a, kiln_dim_t b, kiln_dim_t *out) {
  return kiln_dim_mul(shape->arena, a, b, out) ? NULL : overflow(shape);
}

/* "[T,64]", the type without its dtype. */
static const char *shape_text(const kiln_shape_t *shape, const kiln_type_t *type) {
  return kiln_shape_type_text(shape, type) + strlen(kiln_dtype_name(type->dtype));
}

kiln_status_t kiln_shape_broadcast(const kiln_shape_t *shape, kiln_type_t *so_far, const kiln_type_t *other) {
  kiln_type_t result = so_far->rank >= other->rank ? *so_far : *other;
  result.dtype = so_far->dtype;
  for (uint32_t back = 1; back <= so_far->rank && back <= other->rank; back++) {
    kiln_dim_t a = so_far->dims[so_far->rank - back], b = other->dims[other->rank - back];
    if (!kiln_dim_equal(a, b) && !kiln_dim_is(a, 1) && !kiln_dim_is(b, 1)) {
      return kiln_shape_refuse(shape, KILN_RULE_broadcast_shapes, "shapes %s and %s do not broadcast",
                               shape_text(shape, so_far), shape_text(shape, other));
    }
    result.dims[result.rank - back] = kiln_dim_is(a, 1) ? b : a;
  }
  *so_far = result;
  return NULL;
}

static bool integer_fits(int64_t value, kiln_dtype_t dtype) {
  switch (dtype) {
  case KILN_DTYPE_bool:
    return value == 0 || value == 1;
  case KILN_DTYPE_u8:
    return value >= 0 && value <= UINT8_MAX;
  case KILN_DTYPE_i8:
    return value >= INT8_MIN && value <= INT8_MAX;
  case KILN_DTYPE_i32:
    return value >= INT32_MIN && value <= INT32_MAX;
  default:
    return true;
  }
}

static kiln_status_t require_integer(const kiln_shape_t *shape, kiln_number_t number, kiln_dtype_t dtype) {
  if (number.is_integer) return NULL;
  return kiln_shape_refuse(shape, KILN_RULE_value_range, "%g is not an integer, as %s needs", number.real,
                           kiln_dtype_name(dtype));
}

kiln_status_t kiln_shape_value_fits(const kiln_shape_t *shape, kiln_number_t number, kiln_dtype_t dtype) {
  if (kiln_dtype_is_float(dtype)) return NULL;
  KILN_TRY(require_integer(shape, number, dtype));
  if (integer_fits(number.integer, dtype)) return NULL;
  return kiln_shape_refuse(shape, KILN_RULE_value_range, "%lld does not fit %s", (long long)number.integer,
                           kiln_dtype_name(dtype));
}

/* --- limits on every value ------------------------------------------------------------------------------ */

kiln_status_t kiln_shape_check_type(const kiln_shape_t *shape, const kiln_type_t *type, const char *what) {
  if (type->rank > KILN_MAX_RANK) {
    return kiln_shape_refuse(shape, KILN_RULE_rank, "%s would have rank %u; at most %d is supported", what,
                             type->rank, KILN_MAX_RANK);
  }
  for (uint32_t i = 0; i < type->rank; i++) {
    KILN_TRY(kiln_shape_require_ge(shape, KILN_RULE_size_negative, type->dims[i], kiln_dim_constant(0), i,
                                   "a size is negative"));
  }
  kiln_dim_t bytes, item_bytes = kiln_dim_constant((int64_t)kiln_dtype_bytes(type->dtype));
  bool fits =
      kiln_type_elements(shape->arena, type, &bytes) && kiln_dim_mul(shape->arena, bytes, item_bytes, &bytes);
  if (fits && kiln_dim_is_constant(bytes)) return NULL;
  if (fits) {
    return kiln_shape_require_ge(shape, KILN_RULE_size_overflow, kiln_dim_constant(INT64_MAX), bytes,
                                 KILN_NO_AXIS, "a value has more bytes than 63 bits count");
  }
  return kiln_shape_refuse(shape, KILN_RULE_size_overflow, "%s %s has more bytes than 63 bits count", what,
                           kiln_shape_type_text(shape, type));
}

/* --- operands, attributes and dtypes against the row ---------------------------------------------------- */

static kiln_status_t check_operands(const kiln_shape_t *shape) {
  const kiln_op_info_t *info = kiln_op_info(shape->op);
  uint32_t least = info->operands_least, most = info->operands_most, count = shape->operand_count;
  if (count < least || count > most) {
    return kiln_shape_refuse(shape, KILN_RULE_operand_count, "takes %s%u operand%s, not %u",
                             least < most ? "at least " : "", least, least == 1 ? "" : "s", count);
  }
  for (uint32_t i = 0; i < count; i++) {
    bool optional = i < 32 && (info->optional_operands >> i & 1);
    if (shape->operands[i] || optional) continue;
    return kiln_shape_refuse(shape, KILN_RULE_operand_absent, "operand %u may not be none", i);
  }
  return NULL;
}

static bool is_choice(const char *word, const char *choices) {
  size_t length = strlen(word);
  for (const char *choice = choices; *choice; choice += strspn(choice, "|")) {
    size_t size = strcspn(choice, "|");
    if (size == length && !memcmp(choice, word, size)) return true;
    choice += size;
  }
  return false;
}

static kiln_status_t check_attr(const kiln_shape_t *shape, uint32_t index) {
  const kiln_attr_value_t *attr = &shape->attrs[index];
  const char *name = kiln_attr_name(attr->attr);
  const kiln_attr_rule_t *rule = kiln_op_attr_rule(shape->op, attr->attr);
  if (!rule) return kiln_shape_refuse(shape, KILN_RULE_attr_unknown, "has no attribute '%s'", name);
  for (uint32_t i = 0; i < index; i++) {
    if (shape->attrs[i].attr != attr->attr) continue;
    return kiln_shape_refuse(shape, KILN_RULE_attr_twice, "attribute '%s' is given twice", name);
  }
  if (kiln_attr_kind(attr->attr) == KILN_ATTR_KIND_WORD && !is_choice(attr->word, rule->choices)) {
    return kiln_shape_refuse(shape, KILN_RULE_attr_word, "%s=\"%s\" is none of %s", name, attr->word,
                             rule->choices);
  }
  return NULL;
}

static kiln_status_t check_attrs(const kiln_shape_t *shape) {
  for (uint32_t i = 0; i < shape->attr_count; i++) KILN_TRY(check_attr(shape, i));
  const kiln_op_info_t *info = kiln_op_info(shape->op);
  for (uint32_t i = 0; i < info->attr_count; i++) {
    const kiln_attr_rule_t *rule = &info->attrs[i];
    if (rule->presence != KILN_PRESENCE_REQUIRED || kiln_shape_attr(shape, rule->attr)) continue;
    return kiln_shape_refuse(shape, KILN_RULE_attr_missing, "needs the attribute '%s'",
                             kiln_attr_name(rule->attr));
  }
  return NULL;
}

/* Which operand's dtype decides: the first, except that the condition of where comes before the values. */
static uint32_t leading_operand(kiln_op_t op) { return op == KILN_OP_where ? 1 : 0; }

static kiln_status_t check_index_dtype(const kiln_shape_t *shape) {
  kiln_dtype_t dtype = shape->operands[1]->dtype;
  if (dtype == KILN_DTYPE_i32 || dtype == KILN_DTYPE_i64) return NULL;
  return kiln_shape_refuse(shape, KILN_RULE_index_dtype, "indices are i32 or i64, not %s",
                           kiln_dtype_name(dtype));
}

static kiln_status_t check_dtypes(const kiln_shape_t *shape) {
  const kiln_op_info_t *info = kiln_op_info(shape->op);
  if (!info->operands_most) return NULL;
  uint32_t leading = leading_operand(shape->op);
  if (shape->op == KILN_OP_where && shape->operands[0]->dtype != KILN_DTYPE_bool) {
    return kiln_shape_refuse(shape, KILN_RULE_where_condition, "the condition is %s, not bool",
                             kiln_dtype_name(shape->operands[0]->dtype));
  }
  kiln_dtype_t dtype = shape->operands[leading]->dtype;
  if (!kiln_dtype_in(dtype, info->dtypes)) {
    return kiln_shape_refuse(shape, KILN_RULE_operand_dtype, "does not take %s", kiln_dtype_name(dtype));
  }
  if (info->op_class == KILN_CLASS_INDEXING) return check_index_dtype(shape);
  for (uint32_t i = leading + 1; i < shape->operand_count; i++) {
    if (!shape->operands[i] || shape->operands[i]->dtype == dtype) continue;
    return kiln_shape_refuse(shape, KILN_RULE_operand_dtypes_differ,
                             "operand %u is %s, operand %u is %s; insert a cast", leading,
                             kiln_dtype_name(dtype), i, kiln_dtype_name(shape->operands[i]->dtype));
  }
  return NULL;
}

static kiln_dtype_t result_dtype(const kiln_shape_t *shape) {
  const kiln_op_info_t *info = kiln_op_info(shape->op);
  const kiln_attr_value_t *dtype = kiln_shape_attr(shape, KILN_ATTR_dtype),
                          *out = kiln_shape_attr(shape, KILN_ATTR_out);
  switch (info->result) {
  case KILN_RESULT_BOOL:
    return KILN_DTYPE_bool;
  case KILN_RESULT_I64:
    return KILN_DTYPE_i64;
  case KILN_RESULT_ATTR:
  case KILN_RESULT_ATTR_OR_SAME:
    if (dtype) return dtype->dtype;
    break;
  case KILN_RESULT_OUT_OR_SAME:
    if (out) return out->dtype;
    break;
  case KILN_RESULT_SAME:
    break;
  }
  return shape->operands[leading_operand(shape->op)]->dtype;
}

/* --- element-wise ops ----------------------------------------------------------------------------------- */

/* An end of an integer clamp may lie outside the dtype: what it gives wraps, as all integer arithmetic. */
static kiln_status_t check_clamp(const kiln_shape_t *shape) {
  const kiln_attr_value_t *min = kiln_shape_attr(shape, KILN_ATTR_min),
                          *max = kiln_shape_attr(shape, KILN_ATTR_max);
  kiln_dtype_t dtype = shape->operands[0]->dtype;
  if (!min && !max) return kiln_shape_refuse(shape, KILN_RULE_clamp_bounds, "needs a min or a max");
  if (kiln_dtype_is_float(dtype)) return NULL;
  if (min) KILN_TRY(require_integer(shape, min->number, dtype));
  return max ? require_integer(shape, max->number, dtype) : NULL;
}

static kiln_status_t check_bitcast(const kiln_shape_t *shape) {
  kiln_dtype_t from = shape->operands[0]->dtype, to = shape->results[0].dtype;
  if (kiln_dtype_bytes(from) == kiln_dtype_bytes(to)) return NULL;
  return kiln_shape_refuse(shape, KILN_RULE_bitcast_size, "%s has %zu bytes, %s has %zu",
                           kiln_dtype_name(from), kiln_dtype_bytes(from), kiln_dtype_name(to),
                           kiln_dtype_bytes(to));
}

static kiln_status_t elementwise(const kiln_shape_t *shape) {
  if (shape->op == KILN_OP_clamp) KILN_TRY(check_clamp(shape));
  if (shape->op == KILN_OP_bitcast) KILN_TRY(check_bitcast(shape));
  kiln_type_t result = *shape->operands[0];
  for (uint32_t i = 1; i < shape->operand_count; i++) {
    KILN_TRY(kiln_shape_broadcast(shape, &result, shape->operands[i]));
  }
  result.dtype = shape->results[0].dtype;
  shape->results[0] = result;
  return NULL;
}

/* --- the whole ------------------------------------------------------------------------------------------ */

static const kiln_shape_rule_t rules[KILN_OP_COUNT] = {
    [KILN_OP_reshape] = kiln_shape_reshape,
    [KILN_OP_permute] = kiln_shape_permute,
    [KILN_OP_squeeze] = kiln_shape_squeeze,
    [KILN_OP_broadcast] = kiln_shape_broadcast_axes,
    [KILN_OP_expand] = kiln_shape_expand,
    [KILN_OP_slice] = kiln_shape_slice,
    [KILN_OP_pad] = kiln_shape_pad,
    [KILN_OP_cat] = kiln_shape_cat,
    [KILN_OP_split] = kiln_shape_split,
    [KILN_OP_repeat] = kiln_shape_repeat,
    [KILN_OP_reverse] = kiln_shape_reverse,
    [KILN_OP_full] = kiln_shape_full,
    [KILN_OP_iota] = kiln_shape_iota,
    [KILN_OP_constant] = kiln_shape_constant,
    [KILN_OP_gather] = kiln_shape_gather,
    [KILN_OP_embedding] = kiln_shape_embedding,
    [KILN_OP_softmax] = kiln_shape_softmax,
    [KILN_OP_log_softmax] = kiln_shape_softmax,
    [KILN_OP_layernorm] = kiln_shape_normalization,
    [KILN_OP_rmsnorm] = kiln_shape_normalization,
    [KILN_OP_layernorm_sigmoid_mul] = kiln_shape_normalization,
    [KILN_OP_gemm_rcr] = kiln_shape_gemm,
    [KILN_OP_gemm_rcr_bias] = kiln_shape_gemm,
    [KILN_OP_gemm_rcr_bias_relu] = kiln_shape_gemm,
    [KILN_OP_gemm_rcr_bias_sigmoid] = kiln_shape_gemm,
    [KILN_OP_matmul] = kiln_shape_matmul,
};

static kiln_shape_rule_t rule_of(kiln_op_t op) {
  kiln_op_class_t op_class = kiln_op_info(op)->op_class;
  if (op_class == KILN_CLASS_ELEMENTWISE) return elementwise;
  return op_class == KILN_CLASS_REDUCTION ? kiln_shape_reduction : rules[op];
}

kiln_status_t kiln_shape_result_count(kiln_op_t op, const kiln_attr_value_t *attrs, uint32_t attr_count,
                                      uint32_t *out_count) {
  *out_count = 1;
  if (op != KILN_OP_split) return NULL;
  kiln_shape_t shape = {.op = op, .attrs = attrs, .attr_count = attr_count};
  const kiln_attr_value_t *sizes = kiln_shape_attr(&shape, KILN_ATTR_sizes);
  if (!sizes) return kiln_shape_refuse(&shape, KILN_RULE_attr_missing, "needs the attribute 'sizes'");
  if (!sizes->list.count) return kiln_shape_refuse(&shape, KILN_RULE_split_sizes, "needs at least one size");
  *out_count = sizes->list.count;
  return NULL;
}

kiln_status_t kiln_shape_infer_named(kiln_arena_t *arena, const kiln_symbol_t *symbols, kiln_op_t op,
                                     const kiln_type_t *const *operands, uint32_t operand_count,
                                     const kiln_attr_value_t *attrs, uint32_t attr_count,
                                     kiln_type_t *results, uint32_t result_count,
                                     kiln_constraints_t *out_constraints) {
  const kiln_shape_t shape = {
      .arena = arena,
      .symbols = symbols,
      .op = op,
      .operands = operands,
      .operand_count = operand_count,
      .attr_count = attr_count,
      .result_count = result_count,
      .attrs = attrs,
      .results = results,
      .constraints = out_constraints,
  };
  KILN_TRY(check_operands(&shape));
  KILN_TRY(check_attrs(&shape));
  KILN_TRY(check_dtypes(&shape));
  for (uint32_t i = 0; i < result_count; i++) results[i] = (kiln_type_t){.dtype = result_dtype(&shape)};
  KILN_TRY(rule_of(op)(&shape));
  for (uint32_t i = 0; i < result_count; i++)
    KILN_TRY(kiln_shape_check_type(&shape, &results[i], "the result"));
  return NULL;
}

kiln_status_t kiln_shape_infer(kiln_arena_t *arena, kiln_op_t op, const kiln_type_t *const *operands,
                               uint32_t operand_count, const kiln_attr_value_t *attrs, uint32_t attr_count,
                               kiln_type_t *results, uint32_t result_count,
                               kiln_constraints_t *out_constraints) {
  return kiln_shape_infer_named(arena, NULL, op, operands, operand_count, attrs, attr_count, results,
                                result_count, out_constraints);
}
