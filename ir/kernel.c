/* ir/kernel.c: the pool of a kernel's expressions, axes and buffers.
 *
 * Interning gives equal expressions one id; ids ascend from operands to users, so that every walk over a
 * kernel is a loop. The bounds of an index expression are found here, once, when it is made. Called by
 * codegen/; thread: one at a time.
 */
#include "ir/kernel.h"

static void release_scratch(void *argument) { kiln_buffer_deinit(argument); }

kiln_kernel_t *kiln_kernel_create(kiln_arena_t *arena, const kiln_graph_t *graph) {
  kiln_kernel_t *kernel = KILN_NEW(arena, kiln_kernel_t);
  kernel->arena = arena;
  kernel->graph = graph;
  kernel->interned = kiln_map_create(arena);
  kiln_buffer_init(&kernel->scratch);
  kiln_arena_defer(arena, release_scratch, &kernel->scratch);
  return kernel;
}

uint32_t kiln_kernel_axis(kiln_kernel_t *kernel, kiln_dim_t extent, uint32_t divisor) {
  KILN_PUSH(kernel->arena, kernel->axes, kernel->axis_count, kernel->axis_capacity,
            (kiln_axis_t){extent, divisor});
  return (uint32_t)kernel->axis_count - 1;
}

uint32_t kiln_kernel_buffer(kiln_kernel_t *kernel, kiln_kernel_buffer_t buffer) {
  for (uint32_t i = 0; i < kernel->buffer_count; i++) {
    const kiln_kernel_buffer_t *known = &kernel->buffers[i];
    if (known->kind == buffer.kind && known->ref.kind == buffer.ref.kind &&
        known->ref.index == buffer.ref.index && known->node == buffer.node &&
        known->written == buffer.written) {
      return i;
    }
  }
  KILN_PUSH(kernel->arena, kernel->buffers, kernel->buffer_count, kernel->buffer_capacity, buffer);
  return (uint32_t)kernel->buffer_count - 1;
}

/* --- dimensions
 * --------------------------------------------------------------------------------------------- */

kiln_dim_t kiln_kernel_dim_add(kiln_kernel_t *kernel, kiln_dim_t a, kiln_dim_t b) {
  kiln_dim_t out = kiln_dim_constant(0);
  if (!kiln_dim_add(kernel->arena, a, b, &out)) kernel->overflowed = true;
  return out;
}

kiln_dim_t kiln_kernel_dim_sub(kiln_kernel_t *kernel, kiln_dim_t a, kiln_dim_t b) {
  kiln_dim_t out = kiln_dim_constant(0);
  if (!kiln_dim_sub(kernel->arena, a, b, &out)) kernel->overflowed = true;
  return out;
}

kiln_dim_t kiln_kernel_dim_mul(kiln_kernel_t *kernel, kiln_dim_t a, kiln_dim_t b) {
  kiln_dim_t out = kiln_dim_constant(0);
  if (!kiln_dim_mul(kernel->arena, a, b, &out)) kernel->overflowed = true;
  return out;
}

/* --- bounds
 * ------------------------------------------------------------------------------------------------- */

static kiln_dim_t less_one(kiln_kernel_t *kernel, kiln_dim_t dim) {
  return kiln_kernel_dim_sub(kernel, dim, kiln_dim_constant(1));
}

/* The largest value of factor * axis, for factor >= 0. Where the number of steps is no polynomial (T / 8),
 * the factor usually makes it one (8 * (T / 8 - 1) <= T - 1); else the bound is loose. */
static kiln_dim_t axis_upper(kiln_kernel_t *kernel, const kiln_axis_t *axis, kiln_dim_t factor) {
  kiln_dim_t divisor = kiln_dim_constant(axis->divisor), steps, scaled;
  if (kiln_dim_is_constant(axis->extent)) {
    int64_t count = (axis->extent.constant + axis->divisor - 1) / axis->divisor;
    return kiln_kernel_dim_mul(kernel, factor, kiln_dim_constant(count - 1));
  }
  if (kiln_dim_div(kernel->arena, axis->extent, divisor, &steps)) {
    return kiln_kernel_dim_mul(kernel, factor, less_one(kernel, steps));
  }
  if (!kiln_dim_div(kernel->arena, factor, divisor, &scaled)) scaled = factor;
  return kiln_kernel_dim_mul(kernel, scaled, less_one(kernel, axis->extent));
}

/* Adds the bounds of factor * atom to those of `sum`. */
static void add_bounds(kiln_kernel_t *kernel, kiln_expr_t *sum, kiln_dim_t factor, const kiln_expr_t *atom) {
  kiln_dim_t zero = kiln_dim_constant(0), magnitude = factor, low, high;
  bool negative = false;
  if (!kiln_dim_provably_ge(factor, zero)) {
    negative = true;
    magnitude = kiln_kernel_dim_sub(kernel, zero, factor);
    if (!kiln_dim_provably_ge(magnitude, zero)) sum->bounded = false;
  }
  if (!atom->bounded) sum->bounded = false;
  if (!sum->bounded) return;
  if (atom->kind == KILN_EXPR_AXIS) {
    low = zero;
    high = axis_upper(kernel, &kernel->axes[atom->bits], magnitude);
  } else {
    low = kiln_kernel_dim_mul(kernel, magnitude, atom->lower);
    high = kiln_kernel_dim_mul(kernel, magnitude, atom->upper);
  }
  sum->lower =
      negative ? kiln_kernel_dim_sub(kernel, sum->lower, high) : kiln_kernel_dim_add(kernel, sum->lower, low);
  sum->upper =
      negative ? kiln_kernel_dim_sub(kernel, sum->upper, low) : kiln_kernel_dim_add(kernel, sum->upper, high);
}

static void bound_linear(kiln_kernel_t *kernel, kiln_expr_t *expr) {
  expr->bounded = true;
  expr->lower = expr->upper = expr->dims[0];
  for (uint32_t i = 0; i < expr->operand_count; i++) {
    add_bounds(kernel, expr, expr->dims[i + 1], &kernel->exprs[expr->operands[i]]);
  }
}

/* floor(upper / divisor) where that is a polynomial, else upper itself, which is no less. */
static kiln_dim_t quotient_upper(kiln_kernel_t *kernel, kiln_dim_t upper, kiln_dim_t divisor) {
  kiln_dim_t quotient;
  if (kiln_dim_is_constant(upper) && kiln_dim_is_constant(divisor) && divisor.constant > 0) {
    return kiln_dim_constant(upper.constant < 0 ? 0 : upper.constant / divisor.constant);
  }
  kiln_dim_t count = kiln_kernel_dim_add(kernel, upper, kiln_dim_constant(1));
  if (kiln_dim_div(kernel->arena, count, divisor, &quotient)) return less_one(kernel, quotient);
  return upper;
}

static bool is_total(const kiln_kernel_t *kernel, const kiln_expr_t *expr) {
  bool divides = expr->kind == KILN_EXPR_DIV || expr->kind == KILN_EXPR_MOD;
  if (expr->kind == KILN_EXPR_CLAMPED) return true;
  for (uint32_t i = 0; i < expr->operand_count; i++) {
    const kiln_expr_t *operand = &kernel->exprs[expr->operands[i]];
    if (!operand->total) return false;
    if (divides && !(operand->bounded && kiln_dim_provably_ge(operand->lower, kiln_dim_constant(0))))
      return false;
  }
  return true;
}

static void find_bounds(kiln_kernel_t *kernel, kiln_expr_t *expr) {
  expr->lower = kiln_dim_constant(0);
  expr->total = is_total(kernel, expr);
  switch (expr->kind) {
  case KILN_EXPR_LINEAR:
    bound_linear(kernel, expr);
    break;
  case KILN_EXPR_AXIS:
    expr->bounded = true;
    expr->upper = axis_upper(kernel, &kernel->axes[expr->bits], kiln_dim_constant(1));
    break;
  case KILN_EXPR_DIV: {
    const kiln_expr_t *operand = &kernel->exprs[expr->operands[0]];
    expr->bounded = operand->bounded;
    if (expr->bounded) expr->upper = quotient_upper(kernel, operand->upper, expr->dims[0]);
    break;
  }
  case KILN_EXPR_MOD:
  case KILN_EXPR_CLAMPED:
    expr->bounded = true;
    expr->upper = less_one(kernel, expr->dims[0]);
    break;
  default:
    break;
  }
}

/* --- interning
 * ---------------------------------------------------------------------------------------------- */

static void append_dim(kiln_buffer_t *key, kiln_dim_t dim) {
  kiln_buffer_append(key, &dim.term_count, sizeof dim.term_count);
  kiln_buffer_append(key, &dim.constant, sizeof dim.constant);
  for (uint32_t i = 0; i < dim.term_count; i++) {
    kiln_buffer_append(key, &dim.terms[i].powers, sizeof dim.terms[i].powers);
    kiln_buffer_append(key, &dim.terms[i].coefficient, sizeof dim.terms[i].coefficient);
  }
}

static void make_key(kiln_buffer_t *key, const kiln_expr_t *expr) {
  const uint32_t head[] = {expr->kind, expr->dtype, expr->op, expr->operand_count, expr->dim_count};
  kiln_buffer_clear(key);
  kiln_buffer_append(key, head, sizeof head);
  kiln_buffer_append(key, &expr->bits, sizeof expr->bits);
  kiln_buffer_append(key, expr->operands, sizeof *expr->operands * expr->operand_count);
  for (uint32_t i = 0; i < expr->dim_count; i++) append_dim(key, expr->dims[i]);
}

kiln_expr_id_t kiln_kernel_intern(kiln_kernel_t *kernel, kiln_expr_t expr) {
  bool added;
  make_key(&kernel->scratch, &expr);
  if (kernel->scratch.failed) kernel->overflowed = true;
  uint64_t *id =
      kiln_map_put(kernel->interned, kiln_buffer_text(&kernel->scratch), kernel->scratch.size, &added);
  if (!added) return (kiln_expr_id_t)*id;
  *id = kernel->expr_count;
  expr.operands = kiln_arena_copy(kernel->arena, expr.operands, sizeof *expr.operands * expr.operand_count);
  expr.dims = kiln_arena_copy(kernel->arena, expr.dims, sizeof *expr.dims * expr.dim_count);
  find_bounds(kernel, &expr);
  KILN_PUSH(kernel->arena, kernel->exprs, kernel->expr_count, kernel->expr_capacity, expr);
  return (kiln_expr_id_t)(kernel->expr_count - 1);
}

/* --- walking
 * ------------------------------------------------------------------------------------------------ */

void kiln_kernel_mark(const kiln_kernel_t *kernel, bool *marked) {
  for (size_t i = kernel->expr_count; i-- > 0;) {
    const kiln_expr_t *expr = &kernel->exprs[i];
    for (uint32_t k = 0; marked[i] && k < expr->operand_count; k++) marked[expr->operands[k]] = true;
  }
}

bool *kiln_region_reachable(const kiln_kernel_t *kernel, const kiln_region_t *region) {
  bool *marked = KILN_NEW_ARRAY(kernel->arena, bool, kernel->expr_count);
  for (uint32_t i = 0; i < region->store_count; i++) {
    marked[region->stores[i].offset] = true;
    marked[region->stores[i].value] = true;
  }
  kiln_kernel_mark(kernel, marked);
  return marked;
}
