/* passes/simplify_math.c: rules for element-wise ops.
 *
 * Part of simplify; see passes/simplify_rules.def for the list and passes/simplify.h for what a rule may do.
 * What is not here is as deliberate as what is: x + 0.0 turns -0.0 into 0.0, x * 0 is not 0 for NaN, x - x is
 * not 0 for infinity, and a cast through a float is not a cast of integers, because floats saturate where
 * integers wrap.
 */
#include <math.h>

#include "passes/simplify.h"

/* Bits of significand and range of exponent decide which dtypes hold all values of which. */
static bool holds_all(kiln_dtype_t wide, kiln_dtype_t narrow) {
  static const kiln_dtype_set_t holders[KILN_DTYPE_COUNT] = {
      [KILN_DTYPE_bool] = KILN_DTYPES_A,
      [KILN_DTYPE_u8] = KILN_DTYPES_F | 1u << KILN_DTYPE_u8 | 1u << KILN_DTYPE_i32 | 1u << KILN_DTYPE_i64,
      [KILN_DTYPE_i8] = KILN_DTYPES_F | 1u << KILN_DTYPE_i8 | 1u << KILN_DTYPE_i32 | 1u << KILN_DTYPE_i64,
      [KILN_DTYPE_i32] = 1u << KILN_DTYPE_i32 | 1u << KILN_DTYPE_i64 | 1u << KILN_DTYPE_f64,
      [KILN_DTYPE_i64] = 1u << KILN_DTYPE_i64,
      [KILN_DTYPE_f16] = 1u << KILN_DTYPE_f16 | 1u << KILN_DTYPE_f32 | 1u << KILN_DTYPE_f64,
      [KILN_DTYPE_bf16] = 1u << KILN_DTYPE_bf16 | 1u << KILN_DTYPE_f32 | 1u << KILN_DTYPE_f64,
      [KILN_DTYPE_f32] = 1u << KILN_DTYPE_f32 | 1u << KILN_DTYPE_f64,
      [KILN_DTYPE_f64] = 1u << KILN_DTYPE_f64,
  };
  return holders[narrow] >> wide & 1;
}

bool simplify_cast_same(rewrite_t *rw, draft_t *draft) {
  return rewrite_type(rw, draft->operands[0])->dtype == draft->type.dtype &&
         draft_become(draft, draft->operands[0]);
}

bool simplify_cast_merge(rewrite_t *rw, draft_t *draft) {
  const kiln_node_t *inner = rewrite_match(rw, draft->operands[0], KILN_OP_cast);
  if (!inner) return false;
  kiln_dtype_t from = rewrite_type(rw, inner->operands[0])->dtype;
  kiln_dtype_t through = rewrite_type(rw, draft->operands[0])->dtype;
  kiln_dtype_t to = draft->type.dtype;
  if (!holds_all(through, from)) return false;
  bool wraps = kiln_dtype_is_integer(from) && kiln_dtype_is_integer(to) && !holds_all(to, from);
  if (wraps && kiln_dtype_is_float(through)) return false; /* through a float it would saturate instead */
  return draft_set(rw, draft, KILN_OP_cast, &inner->operands[0], 1, draft->attrs, draft->attr_count);
}

bool simplify_bitcast_merge(rewrite_t *rw, draft_t *draft) {
  kiln_value_id_t x = draft->operands[0];
  if (rewrite_type(rw, x)->dtype == draft->type.dtype) return draft_become(draft, x);
  const kiln_node_t *inner = rewrite_match(rw, x, KILN_OP_bitcast);
  if (!inner || rewrite_type(rw, x)->dtype == KILN_DTYPE_bool)
    return false; /* a bool may normalize its bits */
  return draft_set(rw, draft, KILN_OP_bitcast, &inner->operands[0], 1, draft->attrs, draft->attr_count);
}

bool simplify_involution(rewrite_t *rw, draft_t *draft) {
  const kiln_node_t *inner = rewrite_match(rw, draft->operands[0], draft->op);
  return inner && draft_become(draft, inner->operands[0]);
}

bool simplify_involution_of_bool(rewrite_t *rw, draft_t *draft) {
  const kiln_node_t *inner = rewrite_match(rw, draft->operands[0], draft->op);
  return inner && rewrite_type(rw, inner->operands[0])->dtype == KILN_DTYPE_bool &&
         draft_become(draft, inner->operands[0]);
}

bool simplify_idempotent(rewrite_t *rw, draft_t *draft) {
  return rewrite_match(rw, draft->operands[0], draft->op) && draft_become(draft, draft->operands[0]);
}

/* The op's neutral right operand for the dtype; symmetric: it is neutral on the left as well. */
static kiln_number_t neutral_of(kiln_op_t op, kiln_dtype_t dtype, bool *symmetric) {
  bool is_float = kiln_dtype_is_float(dtype);
  switch (op) {
  case KILN_OP_add:
    *symmetric = true;
    return is_float ? number_real(-0.0) : number_integer(0);
  case KILN_OP_mul:
  case KILN_OP_div:
    *symmetric = op == KILN_OP_mul;
    return is_float ? number_real(1) : number_integer(1);
  default:
    *symmetric = op == KILN_OP_bitwise_or || op == KILN_OP_bitwise_xor;
    return number_zero(dtype);
  }
}

/* The number as the dtype sees it: 1 written as an integer is 1.0 of a float. */
static bool full_is(const rewrite_t *rw, kiln_value_id_t value, kiln_number_t wanted) {
  kiln_number_t number;
  if (!rewrite_match_full(rw, value, &number)) return false;
  if (!wanted.is_integer) return number_equal(number_real(number.real), wanted);
  return number.is_integer ? number.integer == wanted.integer : number.real == wanted.real;
}

bool simplify_neutral_operand(rewrite_t *rw, draft_t *draft) {
  bool symmetric;
  kiln_number_t neutral = neutral_of(draft->op, draft->type.dtype, &symmetric);
  if (full_is(rw, draft->operands[1], neutral)) return draft_expand(rw, draft, draft->operands[0]);
  return symmetric && full_is(rw, draft->operands[0], neutral) && draft_expand(rw, draft, draft->operands[1]);
}

bool simplify_same_operands(rewrite_t *rw, draft_t *draft) {
  (void)rw;
  return draft->operands[0] == draft->operands[1] && draft_become(draft, draft->operands[0]);
}

bool simplify_where_decided(rewrite_t *rw, draft_t *draft) {
  kiln_number_t condition;
  kiln_value_id_t yes = draft->operands[1], no = draft->operands[2];
  if (yes == no) return draft_expand(rw, draft, yes);
  if (!rewrite_match_full(rw, draft->operands[0], &condition)) return false;
  return draft_expand(rw, draft, condition.real != 0 ? yes : no); /* NaN is true */
}
