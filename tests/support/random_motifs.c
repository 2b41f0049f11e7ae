/* tests/support/random_motifs.c: patterns of several nodes for random graphs (tests/support/random_maker.h).
 *
 * Those of models: softmax, norms and attention written out of primitive ops, their backward forms, cross
 * entropy, dequantized weights. Those that broke compilers elsewhere: long chains of views, cats of cats, a
 * where between pads, parts of a split joined in another order, reductions over several axes that are spread
 * out again, an argmax that indexes, indices computed and out of range.
 *
 * The little builders below pass KILN_NO_VALUE on, so that a motif reads like a formula and simply ends where
 * the rules refuse a node.
 */
#include "tests/support/random_maker.h"

static uint32_t below(kiln_maker_t *m, uint32_t bound) { return kiln_maker_below(m, bound); }
static bool one_in(kiln_maker_t *m, uint32_t n) { return kiln_maker_one_in(m, n); }

/* --- builders ------------------------------------------------------------------------------------------- */

static kiln_value_id_t emit(kiln_maker_t *m, kiln_attempt_t attempt) {
  for (uint32_t i = 0; i < attempt.operand_count; i++) {
    if (attempt.operands[i] == KILN_NO_VALUE) return KILN_NO_VALUE;
  }
  return kiln_maker_emit(m, &attempt);
}

static kiln_value_id_t op1(kiln_maker_t *m, kiln_op_t op, kiln_value_id_t a) {
  return emit(m, (kiln_attempt_t){.op = op, .operands = {a}, .operand_count = 1});
}

static kiln_value_id_t op2(kiln_maker_t *m, kiln_op_t op, kiln_value_id_t a, kiln_value_id_t b) {
  return emit(m, (kiln_attempt_t){.op = op, .operands = {a, b}, .operand_count = 2});
}

static kiln_value_id_t where(kiln_maker_t *m, kiln_value_id_t condition, kiln_value_id_t a,
                             kiln_value_id_t b) {
  return emit(m, (kiln_attempt_t){.op = KILN_OP_where, .operands = {condition, a, b}, .operand_count = 3});
}

/* Any op with attributes that kiln_maker_attrs chooses. */
static kiln_value_id_t chosen(kiln_maker_t *m, kiln_op_t op, kiln_value_id_t a) {
  if (a == KILN_NO_VALUE) return a;
  kiln_attempt_t attempt = {.op = op, .operands = {a}, .operand_count = 1};
  kiln_maker_attrs(m, &attempt);
  return emit(m, attempt);
}

static kiln_value_id_t with_dim(kiln_maker_t *m, kiln_op_t op, kiln_value_id_t a, kiln_value_id_t b,
                                int64_t dim) {
  kiln_attempt_t attempt = {.op = op, .operands = {a, b}, .operand_count = b == KILN_NO_VALUE ? 1u : 2u};
  kiln_maker_attr(&attempt, KILN_ATTR_dim)->integer = dim;
  return emit(m, attempt);
}

/* Over axes of which `axes` has the bits, which stay with size 1. */
static kiln_value_id_t reduce(kiln_maker_t *m, kiln_op_t op, kiln_value_id_t a, uint32_t axes) {
  int64_t dims[KILN_MAX_RANK];
  uint32_t count = 0;
  for (uint32_t axis = 0; axis < KILN_MAX_RANK; axis++) {
    if (axes >> axis & 1) dims[count++] = axis;
  }
  kiln_attempt_t attempt = {.op = op, .operands = {a}, .operand_count = 1};
  kiln_maker_ints(m, &attempt, KILN_ATTR_dims, dims, count);
  kiln_maker_attr(&attempt, KILN_ATTR_keepdim)->flag = true;
  return emit(m, attempt);
}

static kiln_value_id_t cast(kiln_maker_t *m, kiln_value_id_t a, kiln_dtype_t dtype) {
  kiln_attempt_t attempt = {.op = KILN_OP_cast, .operands = {a}, .operand_count = 1};
  kiln_maker_attr(&attempt, KILN_ATTR_dtype)->dtype = dtype;
  return emit(m, attempt);
}

static kiln_value_id_t scalar(kiln_maker_t *m, double value, kiln_dtype_t dtype) {
  kiln_attempt_t attempt = {.op = KILN_OP_full};
  kiln_maker_dims(m, &attempt, KILN_ATTR_shape, NULL, 0);
  kiln_maker_attr(&attempt, KILN_ATTR_dtype)->dtype = dtype;
  kiln_number_t number = {.real = value};
  if (!kiln_dtype_is_float(dtype)) number = (kiln_number_t){true, (int64_t)value, value};
  kiln_maker_attr(&attempt, KILN_ATTR_value)->number = number;
  return emit(m, attempt);
}

static kiln_value_id_t iota(kiln_maker_t *m, kiln_dim_t size, kiln_dtype_t dtype) {
  kiln_attempt_t attempt = {.op = KILN_OP_iota};
  kiln_maker_dims(m, &attempt, KILN_ATTR_shape, &size, 1);
  kiln_maker_attr(&attempt, KILN_ATTR_dtype)->dtype = dtype;
  kiln_maker_attr(&attempt, KILN_ATTR_dim)->integer = 0;
  return emit(m, attempt);
}

static kiln_value_id_t swap_last(kiln_maker_t *m, kiln_value_id_t a) {
  if (a == KILN_NO_VALUE) return a;
  uint32_t rank = kiln_maker_type(m, a)->rank;
  if (rank < 2) return KILN_NO_VALUE;
  int64_t dims[KILN_MAX_RANK];
  for (uint32_t i = 0; i < rank; i++) dims[i] = i;
  dims[rank - 1] = rank - 2;
  dims[rank - 2] = rank - 1;
  kiln_attempt_t attempt = {.op = KILN_OP_permute, .operands = {a}, .operand_count = 1};
  kiln_maker_ints(m, &attempt, KILN_ATTR_dims, dims, rank);
  return emit(m, attempt);
}

/* --- what motifs begin with ----------------------------------------------------------------------------- */

/* A float of at least this rank; KILN_NO_VALUE when none was found. */
static kiln_value_id_t some_float(kiln_maker_t *m, uint32_t rank) {
  for (int i = 0; i < 8; i++) {
    kiln_value_id_t value = kiln_maker_value(m, KILN_DTYPES_F, KILN_NO_VALUE);
    const kiln_type_t *type = kiln_maker_type(m, value);
    if (type->rank >= rank && kiln_dtype_is_float(type->dtype)) return value;
  }
  return KILN_NO_VALUE;
}

static kiln_value_id_t some_ranked(kiln_maker_t *m) {
  for (int i = 0; i < 8; i++) {
    kiln_value_id_t value = kiln_maker_value(m, KILN_DTYPES_A, KILN_NO_VALUE);
    if (kiln_maker_type(m, value)->rank) return value;
  }
  return KILN_NO_VALUE;
}

/* Another value of x's dtype that broadcasts to it. */
static kiln_value_id_t partner(kiln_maker_t *m, kiln_value_id_t x) {
  return kiln_maker_value(m, 1u << kiln_maker_type(m, x)->dtype, x);
}

static kiln_dtype_t dtype_of(kiln_maker_t *m, kiln_value_id_t x) { return kiln_maker_type(m, x)->dtype; }
static uint32_t rank_of(kiln_maker_t *m, kiln_value_id_t x) { return kiln_maker_type(m, x)->rank; }
static kiln_dim_t last_of(kiln_maker_t *m, kiln_value_id_t x) {
  return kiln_maker_type(m, x)->dims[rank_of(m, x) - 1];
}

/* The last axis as a rule, another now and then. */
static uint32_t row_axis(kiln_maker_t *m, kiln_value_id_t x) {
  return one_in(m, 4) ? below(m, rank_of(m, x)) : rank_of(m, x) - 1;
}

/* --- motifs of models ----------------------------------------------------------------------------------- */

static bool softmax_written_out(kiln_maker_t *m) {
  kiln_value_id_t x = some_float(m, 1);
  if (x == KILN_NO_VALUE) return false;
  uint32_t axes = 1u << row_axis(m, x);
  kiln_value_id_t shifted = op2(m, KILN_OP_sub, x, reduce(m, KILN_OP_amax, x, axes));
  kiln_value_id_t weights = op1(m, KILN_OP_exp, shifted), sum = reduce(m, KILN_OP_sum, weights, axes);
  if (one_in(m, 2)) return op2(m, KILN_OP_div, weights, sum) != KILN_NO_VALUE;
  return op2(m, KILN_OP_sub, shifted, op1(m, KILN_OP_log, sum)) != KILN_NO_VALUE;
}

/* y (dy - sum(dy y)) */
static bool softmax_backward(kiln_maker_t *m) {
  kiln_value_id_t x = some_float(m, 1);
  if (x == KILN_NO_VALUE) return false;
  uint32_t axis = row_axis(m, x);
  kiln_value_id_t y = with_dim(m, KILN_OP_softmax, x, KILN_NO_VALUE, axis), dy = partner(m, x);
  kiln_value_id_t dot = reduce(m, KILN_OP_sum, op2(m, KILN_OP_mul, dy, y), 1u << axis);
  return op2(m, KILN_OP_mul, y, op2(m, KILN_OP_sub, dy, dot)) != KILN_NO_VALUE;
}

/* (x - mean) rsqrt(mean((x - mean)^2) + eps), with mean 0 as an RMS norm has it. */
static kiln_value_id_t normalized(kiln_maker_t *m, kiln_value_id_t x, uint32_t axes,
                                  kiln_value_id_t *out_scale) {
  kiln_value_id_t centered = x;
  if (one_in(m, 2)) centered = op2(m, KILN_OP_sub, x, reduce(m, KILN_OP_mean, x, axes));
  kiln_value_id_t mean = reduce(m, KILN_OP_mean, op2(m, KILN_OP_mul, centered, centered), axes);
  kiln_value_id_t eps = scalar(m, 1e-3, dtype_of(m, x));
  *out_scale = op1(m, KILN_OP_rsqrt, op2(m, KILN_OP_add, mean, eps));
  return op2(m, KILN_OP_mul, centered, *out_scale);
}

static bool norm_written_out(kiln_maker_t *m) {
  kiln_value_id_t x = some_float(m, 1), scale;
  if (x == KILN_NO_VALUE) return false;
  kiln_value_id_t y = normalized(m, x, 1u << row_axis(m, x), &scale);
  return y != KILN_NO_VALUE && op2(m, KILN_OP_mul, y, partner(m, x)) != KILN_NO_VALUE;
}

/* scale (dy - mean(dy) - y mean(dy y)), and the gradient of gamma over the other axes. */
static bool norm_backward(kiln_maker_t *m) {
  kiln_value_id_t x = some_float(m, 2), scale;
  if (x == KILN_NO_VALUE) return false;
  uint32_t rank = rank_of(m, x), axes = 1u << (rank - 1);
  kiln_value_id_t y = normalized(m, x, axes, &scale);
  if (y == KILN_NO_VALUE) return false;
  kiln_value_id_t dy = partner(m, x), dy_y = op2(m, KILN_OP_mul, dy, y);
  kiln_value_id_t inner =
      op2(m, KILN_OP_sub, dy, op2(m, KILN_OP_mul, y, reduce(m, KILN_OP_mean, dy_y, axes)));
  if (one_in(m, 2)) reduce(m, KILN_OP_sum, dy_y, axes - 1);
  return op2(m, KILN_OP_mul, scale, inner) != KILN_NO_VALUE;
}

/* softmax(x x^T / 2 under a mask) x; the mask is causal, a window, or none. */
static bool attention(kiln_maker_t *m) {
  kiln_value_id_t x = some_float(m, 2);
  if (x == KILN_NO_VALUE) return false;
  kiln_dtype_t dtype = dtype_of(m, x);
  kiln_value_id_t scores = op2(m, KILN_OP_matmul, x, swap_last(m, x));
  scores = op2(m, KILN_OP_mul, scores, scalar(m, 0.5, dtype));
  if (scores == KILN_NO_VALUE) return false;
  kiln_value_id_t column = iota(m, last_of(m, scores), KILN_DTYPE_i32);
  if (column == KILN_NO_VALUE) return false;
  kiln_attempt_t up = {.op = KILN_OP_broadcast, .operands = {column}, .operand_count = 1};
  kiln_maker_ints(m, &up, KILN_ATTR_dims, (int64_t[]){1}, 1);
  kiln_value_id_t row = emit(m, up), hidden = op2(m, KILN_OP_gt, column, row);
  if (one_in(m, 3))
    hidden = op2(m, KILN_OP_logical_or, hidden,
                 op2(m, KILN_OP_lt, op2(m, KILN_OP_add, column, scalar(m, 2, KILN_DTYPE_i32)), row));
  if (!one_in(m, 4)) scores = where(m, hidden, scalar(m, one_in(m, 2) ? -1e30 : -65504, dtype), scores);
  if (scores == KILN_NO_VALUE) return false;
  int64_t last = rank_of(m, scores) - 1;
  kiln_value_id_t weights = with_dim(m, KILN_OP_softmax, scores, KILN_NO_VALUE, last);
  return op2(m, KILN_OP_matmul, weights, x) != KILN_NO_VALUE;
}

/* -mean of the log-probability that ids choose */
static bool cross_entropy(kiln_maker_t *m) {
  kiln_value_id_t x = some_float(m, 1);
  if (x == KILN_NO_VALUE) return false;
  int64_t last = rank_of(m, x) - 1;
  kiln_value_id_t logs = with_dim(m, KILN_OP_log_softmax, x, KILN_NO_VALUE, last);
  kiln_attempt_t best = {.op = KILN_OP_argmax, .operands = {partner(m, x)}, .operand_count = 1};
  kiln_maker_attr(&best, KILN_ATTR_dim)->integer = -1;
  kiln_maker_attr(&best, KILN_ATTR_keepdim)->flag = true;
  kiln_value_id_t picked = with_dim(m, KILN_OP_gather, logs, emit(m, best), last);
  return op1(m, KILN_OP_neg, op1(m, KILN_OP_mean, picked)) != KILN_NO_VALUE;
}

/* x times a weight that was kept in 8 bits. */
static bool dequantized_product(kiln_maker_t *m) {
  kiln_value_id_t x = some_float(m, 2);
  if (x == KILN_NO_VALUE) return false;
  kiln_dtype_t dtype = dtype_of(m, x);
  kiln_value_id_t weight = cast(m, cast(m, x, KILN_DTYPE_i8), dtype);
  weight = op2(m, KILN_OP_mul, weight, scalar(m, 0.25, dtype));
  if (one_in(m, 2)) return op2(m, KILN_OP_gemm_rcr, x, weight) != KILN_NO_VALUE;
  kiln_value_id_t y = op2(m, KILN_OP_matmul, x, swap_last(m, weight));
  return op1(m, KILN_OP_relu, y) != KILN_NO_VALUE;
}

/* --- motifs that broke compilers ------------------------------------------------------------------------ */

static bool chain_of_views(kiln_maker_t *m) {
  static const kiln_op_t views[] = {KILN_OP_reshape, KILN_OP_reshape, KILN_OP_permute,  KILN_OP_permute,
                                    KILN_OP_slice,   KILN_OP_expand,  KILN_OP_pad,      KILN_OP_repeat,
                                    KILN_OP_reverse, KILN_OP_squeeze, KILN_OP_broadcast};
  kiln_value_id_t x = some_ranked(m);
  for (uint32_t left = 3 + below(m, 6), tries = 0; left && tries < 20 && x != KILN_NO_VALUE; tries++) {
    kiln_value_id_t next = chosen(m, views[below(m, sizeof views / sizeof *views)], x);
    if (next == KILN_NO_VALUE) continue;
    x = next;
    left--;
  }
  return x != KILN_NO_VALUE;
}

static kiln_value_id_t cat_of(kiln_maker_t *m, const kiln_value_id_t *parts, uint32_t count, int64_t dim) {
  kiln_attempt_t attempt = {.op = KILN_OP_cat, .operand_count = count};
  for (uint32_t i = 0; i < count; i++) attempt.operands[i] = parts[i];
  kiln_maker_attr(&attempt, KILN_ATTR_dim)->integer = dim;
  return emit(m, attempt);
}

static bool cats_of_cats(kiln_maker_t *m) {
  kiln_value_id_t x = some_ranked(m);
  if (x == KILN_NO_VALUE) return false;
  for (int i = 0; i < 3 && x != KILN_NO_VALUE; i++) {
    int64_t dim = below(m, rank_of(m, x));
    kiln_value_id_t flipped = chosen(m, KILN_OP_reverse, x), part = chosen(m, KILN_OP_slice, x);
    const kiln_value_id_t parts[] = {x, one_in(m, 2) ? flipped : x, part};
    kiln_value_id_t next = cat_of(m, parts, 3, dim);
    x = next == KILN_NO_VALUE ? cat_of(m, parts, 2, dim) : next;
  }
  return x != KILN_NO_VALUE;
}

/* where(i < limit, pad(a), pad(b)) along the last axis */
static bool where_of_pads(kiln_maker_t *m) {
  kiln_value_id_t x = some_ranked(m);
  if (x == KILN_NO_VALUE) return false;
  kiln_value_id_t a = chosen(m, KILN_OP_pad, x), b = chosen(m, KILN_OP_pad, x);
  if (a == KILN_NO_VALUE) return false;
  kiln_value_id_t place = iota(m, last_of(m, a), KILN_DTYPE_i64);
  kiln_value_id_t before = op2(m, KILN_OP_lt, place, scalar(m, 1 + below(m, 5), KILN_DTYPE_i64));
  kiln_value_id_t joined = where(m, before, a, b);
  return joined != KILN_NO_VALUE || where(m, before, a, partner(m, a)) != KILN_NO_VALUE;
}

static bool parts_joined_again(kiln_maker_t *m) {
  kiln_value_id_t x = some_ranked(m);
  if (x == KILN_NO_VALUE) return false;
  kiln_attempt_t split = {.op = KILN_OP_split, .operands = {x}, .operand_count = 1};
  kiln_maker_attrs(m, &split);
  if (!split.attr_count) return false;
  int64_t dim = split.attrs[0].integer;
  kiln_value_id_t first = emit(m, split);
  if (first == KILN_NO_VALUE) return false;
  bool numbers = dtype_of(m, x) != KILN_DTYPE_bool;
  kiln_value_id_t turned = numbers ? op1(m, KILN_OP_neg, first + 1) : first + 1;
  return cat_of(m, (kiln_value_id_t[]){turned, first, first + 1}, 2 + below(m, 2), dim) != KILN_NO_VALUE;
}

/* A reduction over some axes at once, and what it gives under x again. */
static bool spread_reduction(kiln_maker_t *m) {
  static const kiln_op_t reductions[] = {KILN_OP_sum, KILN_OP_amax, KILN_OP_amin, KILN_OP_prod};
  kiln_value_id_t x = some_ranked(m);
  if (x == KILN_NO_VALUE || dtype_of(m, x) == KILN_DTYPE_bool) return false;
  uint32_t axes = below(m, 1u << rank_of(m, x));
  kiln_value_id_t r = reduce(m, reductions[below(m, 4)], x, axes);
  if (one_in(m, 2)) r = op2(m, KILN_OP_maximum, r, reduce(m, KILN_OP_amin, x, axes));
  return op2(m, one_in(m, 2) ? KILN_OP_sub : KILN_OP_ge, x, r) != KILN_NO_VALUE;
}

/* Indices computed from values: i * a - b, in part outside. */
static bool computed_gather(kiln_maker_t *m) {
  kiln_value_id_t x = some_ranked(m), ids = some_ranked(m);
  if (x == KILN_NO_VALUE || ids == KILN_NO_VALUE) return false;
  kiln_dtype_t dtype = one_in(m, 2) ? KILN_DTYPE_i32 : KILN_DTYPE_i64;
  ids = op2(m, KILN_OP_mul, cast(m, ids, dtype), scalar(m, 3, dtype));
  ids = op2(m, KILN_OP_sub, ids, scalar(m, 2, dtype));
  if (one_in(m, 2)) return op2(m, KILN_OP_embedding, x, ids) != KILN_NO_VALUE;
  return with_dim(m, KILN_OP_gather, x, ids, below(m, rank_of(m, x))) != KILN_NO_VALUE;
}

bool kiln_maker_motif(kiln_maker_t *m) {
  static bool (*const motifs[])(kiln_maker_t *) = {
      softmax_written_out, softmax_backward,    norm_written_out, norm_backward,  attention,
      cross_entropy,       dequantized_product, chain_of_views,   chain_of_views, cats_of_cats,
      where_of_pads,       parts_joined_again,  spread_reduction, computed_gather};
  return motifs[below(m, sizeof motifs / sizeof *motifs)](m);
}
