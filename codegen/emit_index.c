/* codegen/emit_index.c: dimensions, indices and conditions as CUDA expressions, in 32 bits wherever that is
 * enough.
 *
 * Bounds decide it for constants; for symbols the class of the request does (not `wide`), and what it
 * promises is recorded as a guard of the plan. Called by the other emit_*.c.
 */
#include "codegen/emit.h"

static const kiln_expr_t *expr_at(const kiln_emitter_t *emitter, kiln_expr_id_t id) {
  return &emitter->kernel->exprs[id];
}

bool kiln_emit_fits(kiln_emitter_t *emitter, kiln_dim_t dim) {
  const int64_t limit = INT64_C(1) << 31;
  if (kiln_dim_is_constant(dim)) return dim.constant < limit;
  if (emitter->context->symbol_class->wide) return false;
  kiln_guard_below(emitter->kernel->arena, emitter->context->guards, dim, limit);
  return true;
}

/* No less than |dim|, for symbols >= 0: all coefficients made positive. */
static kiln_dim_t magnitude(kiln_emitter_t *emitter, kiln_dim_t dim) {
  if (kiln_dim_is_constant(dim)) return kiln_dim_constant(dim.constant < 0 ? -dim.constant : dim.constant);
  kiln_term_t *terms = kiln_arena_copy(emitter->kernel->arena, dim.terms, dim.term_count * sizeof *dim.terms);
  for (uint32_t i = 0; i < dim.term_count; i++) {
    if (terms[i].coefficient < 0) terms[i].coefficient = -terms[i].coefficient;
  }
  dim.terms = terms;
  return dim;
}

/* The bound of the sum of all terms' magnitudes is that of any partial sum. */
bool kiln_emit_is_wide(kiln_emitter_t *emitter, kiln_expr_id_t index) {
  kiln_kernel_t *kernel = emitter->kernel;
  kiln_expr_t sum = *expr_at(emitter, index);
  kiln_dim_t *dims = kiln_arena_copy(kernel->arena, sum.dims, sum.dim_count * sizeof *dims);
  for (uint32_t i = 0; i < sum.dim_count; i++) dims[i] = magnitude(emitter, dims[i]);
  sum.dims = dims;
  const kiln_expr_t *bounded = expr_at(emitter, kiln_kernel_intern(kernel, sum));
  return !bounded->bounded || !kiln_emit_fits(emitter, magnitude(emitter, bounded->upper));
}

static const char *param_name(kiln_emitter_t *emitter, kiln_dim_t dim, bool *out_is_wide) {
  size_t i = 0;
  while (i < emitter->param_count && !kiln_dim_equal(emitter->params[i].dim, dim)) i++;
  if (i == emitter->param_count) {
    kiln_param_t param = {dim, !kiln_emit_fits(emitter, magnitude(emitter, dim))};
    KILN_PUSH(emitter->kernel->arena, emitter->params, emitter->param_count, emitter->param_capacity, param);
  }
  *out_is_wide = emitter->params[i].is_wide;
  return kiln_arena_printf(emitter->kernel->arena, "n%zu", i);
}

const char *kiln_emit_dim(kiln_emitter_t *emitter, kiln_dim_t dim, bool wide) {
  kiln_arena_t *arena = emitter->kernel->arena;
  if (kiln_dim_is_constant(dim))
    return kiln_arena_printf(arena, "%lld%s", (long long)dim.constant, wide ? "LL" : "");
  bool is_wide;
  const char *name = param_name(emitter, dim, &is_wide);
  return wide && !is_wide ? kiln_arena_printf(arena, "(long long)%s", name) : name;
}

/* --- sums
 * --------------------------------------------------------------------------------------------------- */

static const char *atom_name(kiln_emitter_t *emitter, kiln_expr_id_t atom, bool *out_is_wide) {
  const kiln_expr_t *expr = expr_at(emitter, atom);
  if (expr->kind != KILN_EXPR_AXIS) {
    *out_is_wide = !kiln_emit_fits(emitter, expr->upper);
    return emitter->names[atom];
  }
  *out_is_wide = emitter->axis_is_wide[expr->bits];
  return emitter->axis_names[expr->bits];
}

/* Is the factor to be written as a subtraction? */
static bool is_negative(kiln_dim_t factor) {
  return !kiln_dim_provably_ge(factor, kiln_dim_constant(0)) &&
         kiln_dim_provably_ge(kiln_dim_constant(0), factor);
}

static kiln_dim_t absolute(kiln_emitter_t *emitter, kiln_dim_t factor) {
  return is_negative(factor) ? kiln_kernel_dim_sub(emitter->kernel, kiln_dim_constant(0), factor) : factor;
}

static const char *product(kiln_emitter_t *emitter, kiln_dim_t factor, kiln_expr_id_t atom, bool wide) {
  kiln_arena_t *arena = emitter->kernel->arena;
  bool atom_is_wide;
  const char *name = atom_name(emitter, atom, &atom_is_wide);
  factor = absolute(emitter, factor);
  if (!kiln_dim_is(factor, 1)) {
    return kiln_arena_printf(arena, "%s * %s", kiln_emit_dim(emitter, factor, wide && !atom_is_wide), name);
  }
  return wide && !atom_is_wide ? kiln_arena_printf(arena, "(long long)%s", name) : name;
}

static void append_term(kiln_buffer_t *out, bool negative, const char *term) {
  if (out->size)
    kiln_buffer_printf(out, negative ? " - %s" : " + %s", term);
  else
    kiln_buffer_printf(out, negative ? "-%s" : "%s", term);
}

/* The term of a dimension without symbols. */
static int64_t constant_term(kiln_dim_t dim) {
  if (kiln_dim_is_constant(dim)) return dim.constant;
  kiln_term_t last = dim.terms[dim.term_count - 1];
  return last.powers ? 0 : last.coefficient;
}

/* The terms of a sum: those with a positive factor, then those with a negative one; `sides` chooses which,
 * and negates when only negative ones are wanted. */
enum { POSITIVE = 1, NEGATIVE = 2 };

static const char *sum(kiln_emitter_t *emitter, const kiln_expr_t *linear, unsigned sides, bool wide) {
  kiln_dim_t constant[2]; /* what depends on symbols, and the number */
  kiln_buffer_t out;
  kiln_buffer_init(&out);
  constant[1] = kiln_dim_constant(constant_term(linear->dims[0]));
  constant[0] = kiln_kernel_dim_sub(emitter->kernel, linear->dims[0], constant[1]);
  for (unsigned side = POSITIVE; side <= NEGATIVE; side++) {
    bool minus = side == NEGATIVE && sides != NEGATIVE;
    if (!(sides & side)) continue;
    for (uint32_t i = 0; i < linear->operand_count; i++) {
      if (is_negative(linear->dims[i + 1]) != (side == NEGATIVE)) continue;
      append_term(&out, minus, product(emitter, linear->dims[i + 1], linear->operands[i], wide));
    }
    for (int part = 0; part < 2; part++) {
      if (kiln_dim_is(constant[part], 0) || is_negative(constant[part]) != (side == NEGATIVE)) continue;
      append_term(&out, minus, kiln_emit_dim(emitter, absolute(emitter, constant[part]), wide));
    }
  }
  const char *text = out.size ? kiln_arena_strdup(emitter->kernel->arena, out.data) : "0";
  if (out.failed) emitter->body.failed = true;
  kiln_buffer_deinit(&out);
  return text;
}

const char *kiln_emit_index(kiln_emitter_t *emitter, kiln_expr_id_t index, bool wide) {
  return sum(emitter, expr_at(emitter, index), POSITIVE | NEGATIVE, wide);
}

/* --- atoms and conditions
 * ----------------------------------------------------------------------------------- */

const char *kiln_emit_atom(kiln_emitter_t *emitter, kiln_expr_id_t atom, bool wide) {
  kiln_arena_t *arena = emitter->kernel->arena;
  const kiln_expr_t *expr = expr_at(emitter, atom);
  if (expr->kind == KILN_EXPR_CLAMPED) {
    return kiln_arena_printf(arena, "kiln_clamp_index(%s, %s)", kiln_emit_stored(emitter, expr->operands[0]),
                             kiln_emit_dim(emitter, expr->dims[0], wide));
  }
  bool operand_is_wide = kiln_emit_is_wide(emitter, expr->operands[0]);
  const char *operator= expr->kind == KILN_EXPR_DIV ? "/" : "%";
  const char *operand = kiln_emit_index(emitter, expr->operands[0], operand_is_wide);
  const char *divisor = kiln_emit_dim(emitter, expr->dims[0], false);
  bool is_sum = expr_at(emitter, expr->operands[0])->operand_count > 1 ||
                !kiln_dim_is(expr_at(emitter, expr->operands[0])->dims[0], 0) ||
                !kiln_dim_is(expr_at(emitter, expr->operands[0])->dims[1], 1);
  return kiln_arena_printf(arena, is_sum ? "(%s) %s %s" : "%s %s %s", operand, operator, divisor);
}

static const char *comparison(kiln_emitter_t *emitter, kiln_expr_id_t index) {
  const kiln_expr_t *linear = expr_at(emitter, index);
  bool wide = kiln_emit_is_wide(emitter, index);
  const char *left = sum(emitter, linear, POSITIVE, wide), *right = sum(emitter, linear, NEGATIVE, wide);
  bool has_atom = false;
  for (uint32_t i = 0; i < linear->operand_count; i++) has_atom |= !is_negative(linear->dims[i + 1]);
  if (has_atom) return kiln_arena_printf(emitter->kernel->arena, "%s >= %s", left, right);
  return kiln_arena_printf(emitter->kernel->arena, "%s <= %s", right, left);
}

const char *kiln_emit_condition(kiln_emitter_t *emitter, kiln_expr_id_t condition) {
  const kiln_expr_t *expr = expr_at(emitter, condition);
  const char *text = expr->operand_count ? comparison(emitter, expr->operands[0]) : "true";
  for (uint32_t i = 1; i < expr->operand_count; i++) {
    text =
        kiln_arena_printf(emitter->kernel->arena, "%s && %s", text, comparison(emitter, expr->operands[i]));
  }
  return text;
}
