/* codegen/index.c: index expressions as sums of atoms, kept simple while they are made.
 *
 * A sum is split by a divisor d into d * quotient + rest; whatever is proven about the rest (codegen uses the
 * bounds that interning found) lets divisions and remainders fold. What is left of a / d is one atom, the
 * same for all that divide by d. Called through index.h by lowering, scheduling and rewriting.
 */
#include "codegen/index.h"

typedef struct {
  kiln_dim_t *dims; /* the constant, then the factors: as in a LINEAR */
  kiln_expr_id_t *atoms;
  uint32_t count;
} sum_t;

static sum_t sum_with_room(kiln_kernel_t *kernel, uint32_t atoms) {
  return (sum_t){KILN_NEW_ARRAY(kernel->arena, kiln_dim_t, atoms + 1),
                 KILN_NEW_ARRAY(kernel->arena, kiln_expr_id_t, atoms), 0};
}

static void sum_push(sum_t *sum, kiln_expr_id_t atom, kiln_dim_t factor) {
  if (kiln_dim_is(factor, 0)) return;
  sum->atoms[sum->count++] = atom;
  sum->dims[sum->count] = factor;
}

static kiln_expr_id_t sum_intern(kiln_kernel_t *kernel, const sum_t *sum) {
  return kiln_kernel_intern(kernel, (kiln_expr_t){.kind = KILN_EXPR_LINEAR,
                                                  .operand_count = sum->count,
                                                  .operands = sum->atoms,
                                                  .dim_count = sum->count + 1,
                                                  .dims = sum->dims});
}

static kiln_expr_id_t from_atom(kiln_kernel_t *kernel, kiln_expr_id_t atom) {
  sum_t sum = sum_with_room(kernel, 1);
  sum_push(&sum, atom, kiln_dim_constant(1));
  return sum_intern(kernel, &sum);
}

/* The atom of an index that is nothing but that atom, else NULL. */
static const kiln_expr_t *lone_atom(const kiln_kernel_t *kernel, kiln_expr_id_t index,
                                    kiln_expr_kind_t kind) {
  const kiln_expr_t *linear = &kernel->exprs[index];
  if (linear->operand_count != 1 || !kiln_dim_is(linear->dims[0], 0) || !kiln_dim_is(linear->dims[1], 1)) {
    return NULL;
  }
  const kiln_expr_t *atom = &kernel->exprs[linear->operands[0]];
  return atom->kind == kind ? atom : NULL;
}

kiln_expr_id_t kiln_index_constant(kiln_kernel_t *kernel, kiln_dim_t value) {
  return kiln_kernel_intern(kernel, (kiln_expr_t){.kind = KILN_EXPR_LINEAR, .dim_count = 1, .dims = &value});
}

kiln_expr_id_t kiln_index_axis(kiln_kernel_t *kernel, uint32_t axis) {
  return from_atom(kernel, kiln_kernel_intern(kernel, (kiln_expr_t){.kind = KILN_EXPR_AXIS, .bits = axis}));
}

kiln_expr_id_t kiln_index_clamped(kiln_kernel_t *kernel, kiln_expr_id_t scalar, kiln_dim_t extent) {
  if (kiln_dim_is(extent, 1)) return kiln_index_constant(kernel, kiln_dim_constant(0));
  return from_atom(kernel, kiln_kernel_intern(kernel, (kiln_expr_t){.kind = KILN_EXPR_CLAMPED,
                                                                    .operand_count = 1,
                                                                    .operands = &scalar,
                                                                    .dim_count = 1,
                                                                    .dims = &extent}));
}

bool kiln_index_is_constant(const kiln_kernel_t *kernel, kiln_expr_id_t index, kiln_dim_t *out_value) {
  *out_value = kernel->exprs[index].dims[0];
  return kernel->exprs[index].operand_count == 0;
}

bool kiln_index_is_within(kiln_kernel_t *kernel, kiln_expr_id_t index, kiln_dim_t extent) {
  const kiln_expr_t *expr = &kernel->exprs[index];
  if (!expr->bounded || !kiln_dim_provably_ge(expr->lower, kiln_dim_constant(0))) return false;
  kiln_dim_t last = kiln_kernel_dim_sub(kernel, extent, kiln_dim_constant(1));
  return kiln_dim_provably_ge(last, expr->upper);
}

/* --- addition
 * ----------------------------------------------------------------------------------------------- */

/* Does the quotient `high` continue the remainder `low` = x % d: is it x / d, or (x / d) % m? Then
 * d * (x / d) + x % d = x, and d * (x / d % m) + x % d = x % (d * m). Gives what the two together are. */
static bool joins(kiln_kernel_t *kernel, const kiln_expr_t *low, const kiln_expr_t *high,
                  kiln_expr_id_t *out) {
  kiln_dim_t d = low->dims[0];
  if (high->kind == KILN_EXPR_DIV && high->operands[0] == low->operands[0] &&
      kiln_dim_equal(high->dims[0], d)) {
    *out = low->operands[0];
    return true;
  }
  if (high->kind != KILN_EXPR_MOD || kiln_index_div(kernel, low->operands[0], d) != high->operands[0])
    return false;
  *out = kiln_index_mod(kernel, low->operands[0], kiln_kernel_dim_mul(kernel, d, high->dims[0]));
  return true;
}

/* Finds two terms of a sum that join; removes them, and gives what to add instead. */
static bool join_terms(kiln_kernel_t *kernel, sum_t *sum, kiln_dim_t *out_factor,
                       kiln_expr_id_t *out_joined) {
  for (uint32_t i = 0; i < sum->count; i++) {
    const kiln_expr_t *low = &kernel->exprs[sum->atoms[i]];
    if (low->kind != KILN_EXPR_MOD) continue;
    kiln_dim_t wanted = kiln_kernel_dim_mul(kernel, sum->dims[i + 1], low->dims[0]);
    for (uint32_t k = 0; k < sum->count; k++) {
      if (k == i || !kiln_dim_equal(sum->dims[k + 1], wanted)) continue;
      if (!joins(kernel, low, &kernel->exprs[sum->atoms[k]], out_joined)) continue;
      *out_factor = sum->dims[i + 1];
      sum_t rest = sum_with_room(kernel, sum->count);
      rest.dims[0] = sum->dims[0];
      for (uint32_t t = 0; t < sum->count; t++) {
        if (t != i && t != k) sum_push(&rest, sum->atoms[t], sum->dims[t + 1]);
      }
      *sum = rest;
      return true;
    }
  }
  return false;
}

/* a + factor * b by merging the two ascending lists of terms. */
static sum_t merge(kiln_kernel_t *kernel, const kiln_expr_t *a, kiln_dim_t factor, const kiln_expr_t *b) {
  sum_t sum = sum_with_room(kernel, a->operand_count + b->operand_count);
  sum.dims[0] = kiln_kernel_dim_add(kernel, a->dims[0], kiln_kernel_dim_mul(kernel, factor, b->dims[0]));
  for (uint32_t i = 0, k = 0; i < a->operand_count || k < b->operand_count;) {
    bool take_a = k == b->operand_count || (i < a->operand_count && a->operands[i] <= b->operands[k]);
    bool take_b = i == a->operand_count || (k < b->operand_count && b->operands[k] <= a->operands[i]);
    kiln_expr_id_t atom = take_a ? a->operands[i] : b->operands[k];
    kiln_dim_t total = kiln_dim_constant(0);
    if (take_a) total = a->dims[++i];
    if (take_b) total = kiln_kernel_dim_add(kernel, total, kiln_kernel_dim_mul(kernel, factor, b->dims[++k]));
    sum_push(&sum, atom, total);
  }
  return sum;
}

kiln_expr_id_t kiln_index_add_scaled(kiln_kernel_t *kernel, kiln_expr_id_t a, kiln_dim_t factor,
                                     kiln_expr_id_t b) {
  sum_t sum = merge(kernel, &kernel->exprs[a], factor, &kernel->exprs[b]);
  while (join_terms(kernel, &sum, &factor, &b)) {
    a = sum_intern(kernel, &sum);
    sum = merge(kernel, &kernel->exprs[a], factor, &kernel->exprs[b]);
  }
  return sum_intern(kernel, &sum);
}

kiln_expr_id_t kiln_index_add(kiln_kernel_t *kernel, kiln_expr_id_t a, kiln_expr_id_t b) {
  return kiln_index_add_scaled(kernel, a, kiln_dim_constant(1), b);
}

/* --- division
 * ----------------------------------------------------------------------------------------------- */

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

bool kiln_index_split(kiln_kernel_t *kernel, kiln_expr_id_t a, kiln_dim_t divisor,
                      kiln_expr_id_t *out_quotient, kiln_expr_id_t *out_rest) {
  const kiln_expr_t *expr = &kernel->exprs[a];
  sum_t quotient = sum_with_room(kernel, expr->operand_count),
        rest = sum_with_room(kernel, expr->operand_count);
  kiln_dim_t part;
  if (kiln_dim_is_constant(expr->dims[0]) && kiln_dim_is_constant(divisor)) {
    int64_t floored = floor_div(expr->dims[0].constant, divisor.constant);
    quotient.dims[0] = kiln_dim_constant(floored);
    rest.dims[0] = kiln_dim_constant(expr->dims[0].constant - floored * divisor.constant);
  } else if (kiln_dim_div(kernel->arena, expr->dims[0], divisor, &part)) {
    quotient.dims[0] = part;
  } else {
    rest.dims[0] = expr->dims[0];
  }
  for (uint32_t i = 0; i < expr->operand_count; i++) {
    bool divides = kiln_dim_div(kernel->arena, expr->dims[i + 1], divisor, &part);
    if (divides)
      sum_push(&quotient, expr->operands[i], part);
    else
      sum_push(&rest, expr->operands[i], expr->dims[i + 1]);
  }
  *out_quotient = sum_intern(kernel, &quotient);
  *out_rest = sum_intern(kernel, &rest);
  return kiln_index_is_within(kernel, *out_rest, divisor);
}

static int64_t gcd(int64_t a, int64_t b) {
  while (b) {
    int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a < 0 ? -a : a;
}

/* A common part of factor and divisor that is worth trying: their greatest divisor for numbers, the factor
 * itself for polynomials that divide the divisor. */
static bool common_part(kiln_kernel_t *kernel, kiln_dim_t factor, kiln_dim_t divisor, kiln_dim_t *out_part,
                        kiln_dim_t *out_rest) {
  *out_part = factor;
  if (kiln_dim_is_constant(factor) && kiln_dim_is_constant(divisor)) {
    *out_part = kiln_dim_constant(gcd(factor.constant, divisor.constant));
  }
  if (kiln_dim_is(*out_part, 1) || !kiln_dim_provably_ge(*out_part, kiln_dim_constant(0))) return false;
  return kiln_dim_div(kernel->arena, divisor, *out_part, out_rest);
}

/* index = part * *out_quotient + *out_rest with 0 <= rest < part, and divisor = part * *out_divisor, for some
 * part. */
static bool factor_out(kiln_kernel_t *kernel, kiln_expr_id_t index, kiln_dim_t divisor, kiln_dim_t *out_part,
                       kiln_dim_t *out_divisor, kiln_expr_id_t *out_quotient, kiln_expr_id_t *out_rest) {
  const kiln_expr_t *expr = &kernel->exprs[index];
  for (uint32_t i = 1; i < expr->dim_count; i++) {
    if (common_part(kernel, expr->dims[i], divisor, out_part, out_divisor) &&
        kiln_index_split(kernel, index, *out_part, out_quotient, out_rest)) {
      return true;
    }
  }
  return false;
}

static kiln_expr_id_t division_atom(kiln_kernel_t *kernel, kiln_expr_kind_t kind, kiln_expr_id_t a,
                                    kiln_dim_t divisor) {
  return from_atom(
      kernel,
      kiln_kernel_intern(
          kernel,
          (kiln_expr_t){.kind = kind, .operand_count = 1, .operands = &a, .dim_count = 1, .dims = &divisor}));
}

/* Takes the part of `a` that is a multiple of the divisor out of it, when what stays is not negative. */
static kiln_expr_id_t reduce(kiln_kernel_t *kernel, kiln_expr_id_t a, kiln_dim_t divisor,
                             kiln_expr_id_t *out_quotient) {
  kiln_expr_id_t rest;
  kiln_index_split(kernel, a, divisor, out_quotient, &rest);
  const kiln_expr_t *expr = &kernel->exprs[rest];
  if (expr->bounded && kiln_dim_provably_ge(expr->lower, kiln_dim_constant(0))) return rest;
  *out_quotient = kiln_index_constant(kernel, kiln_dim_constant(0));
  return a;
}

/* a / divisor for an `a` without multiples of the divisor. Each step makes the divisor smaller or `a`
 * shallower. */
static kiln_expr_id_t divide_rest(kiln_kernel_t *kernel, kiln_expr_id_t a, kiln_dim_t divisor) {
  kiln_expr_id_t quotient, rest;
  kiln_dim_t part, smaller;
  if (kiln_index_is_within(kernel, a, divisor)) return kiln_index_constant(kernel, kiln_dim_constant(0));
  if (factor_out(kernel, a, divisor, &part, &smaller, &quotient, &rest)) {
    return kiln_index_div(kernel, quotient, smaller);
  }
  const kiln_expr_t *atom = lone_atom(kernel, a, KILN_EXPR_DIV);
  if (atom)
    return kiln_index_div(kernel, atom->operands[0], kiln_kernel_dim_mul(kernel, atom->dims[0], divisor));
  atom = lone_atom(kernel, a, KILN_EXPR_MOD);
  if (atom && kiln_dim_div(kernel->arena, atom->dims[0], divisor, &smaller)) {
    return kiln_index_mod(kernel, kiln_index_div(kernel, atom->operands[0], divisor), smaller);
  }
  return division_atom(kernel, KILN_EXPR_DIV, a, divisor);
}

kiln_expr_id_t kiln_index_div(kiln_kernel_t *kernel, kiln_expr_id_t a, kiln_dim_t divisor) {
  if (kiln_dim_is(divisor, 1) || kiln_dim_is(divisor, 0)) return a;
  kiln_expr_id_t quotient, rest = reduce(kernel, a, divisor, &quotient);
  return kiln_index_add(kernel, quotient, divide_rest(kernel, rest, divisor));
}

kiln_expr_id_t kiln_index_mod(kiln_kernel_t *kernel, kiln_expr_id_t a, kiln_dim_t divisor) {
  if (kiln_dim_is(divisor, 1)) return kiln_index_constant(kernel, kiln_dim_constant(0));
  if (kiln_dim_is(divisor, 0)) return a;
  kiln_expr_id_t quotient, rest;
  kiln_dim_t part, smaller;
  a = reduce(kernel, a, divisor, &quotient);
  if (kiln_index_is_within(kernel, a, divisor)) return a;
  if (factor_out(kernel, a, divisor, &part, &smaller, &quotient, &rest)) {
    return kiln_index_add_scaled(kernel, rest, part, kiln_index_mod(kernel, quotient, smaller));
  }
  const kiln_expr_t *atom = lone_atom(kernel, a, KILN_EXPR_MOD);
  if (atom && kiln_dim_div(kernel->arena, atom->dims[0], divisor, &smaller)) {
    return kiln_index_mod(kernel, atom->operands[0], divisor);
  }
  return division_atom(kernel, KILN_EXPR_MOD, a, divisor);
}
