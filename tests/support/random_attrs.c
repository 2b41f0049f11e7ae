/* tests/support/random_attrs.c: attributes of random nodes (tests/support/random_maker.h).
 *
 * Drawn so that most are accepted, and so that the patterns that passes look for turn up often: pads that
 * tile, slices that halve, expands between reshapes, axes of size 1 that come and go. Dimensions are
 * expressions throughout, since an axis may be a symbol.
 */
#include <math.h>
#include <string.h>

#include "ir/tensor.h"
#include "tests/support/random_maker.h"

static bool one_in(kiln_maker_t *m, uint32_t n) { return kiln_maker_one_in(m, n); }
static uint32_t below(kiln_maker_t *m, uint32_t bound) { return kiln_maker_below(m, bound); }
static kiln_dim_t number(int64_t value) { return kiln_dim_constant(value); }

kiln_attr_value_t *kiln_maker_attr(kiln_attempt_t *attempt, kiln_attr_t attr) {
  attempt->attrs[attempt->attr_count] = (kiln_attr_value_t){.attr = attr};
  return &attempt->attrs[attempt->attr_count++];
}

void kiln_maker_dims(kiln_maker_t *m, kiln_attempt_t *attempt, kiln_attr_t attr, const kiln_dim_t *dims,
                     uint32_t count) {
  kiln_attr_value_t *value = kiln_maker_attr(attempt, attr);
  value->list.count = count;
  value->list.dims = kiln_arena_copy(m->arena, dims, count * sizeof *dims);
}

void kiln_maker_ints(kiln_maker_t *m, kiln_attempt_t *attempt, kiln_attr_t attr, const int64_t *integers,
                     uint32_t count) {
  kiln_attr_value_t *value = kiln_maker_attr(attempt, attr);
  value->list.count = count;
  value->list.integers = kiln_arena_copy(m->arena, integers, count * sizeof *integers);
}

static kiln_number_t random_number(kiln_maker_t *m, kiln_dtype_t dtype) {
  static const double reals[] = {0, -0.0, 1, 1, -1, 2, 0.5, 3, INFINITY, -INFINITY, 1e-40, 65504, NAN};
  if (!kiln_dtype_is_float(dtype)) {
    int64_t integer = below(m, dtype == KILN_DTYPE_bool ? 2 : 6);
    return (kiln_number_t){true, integer, (double)integer};
  }
  return (kiln_number_t){.real = reals[below(m, sizeof reals / sizeof *reals)]};
}

void kiln_maker_permutation(kiln_maker_t *m, uint32_t rank, int64_t *out) {
  for (uint32_t i = 0; i < rank; i++) {
    uint32_t place = below(m, i + 1);
    out[i] = out[place];
    out[place] = i;
  }
}

/* --- views ---------------------------------------------------------------------------------------------- */

/* Prime factors of constant sizes, and expressions as they are. */
static uint32_t factors_of(const kiln_type_t *type, kiln_dim_t *out, uint32_t most) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < type->rank && count < most; i++) {
    if (!kiln_dim_is_constant(type->dims[i]) || kiln_dim_is(type->dims[i], 0)) {
      out[count++] = type->dims[i];
      continue;
    }
    int64_t rest = type->dims[i].constant;
    for (int64_t prime = 2; prime < 32 && count + 1 < most; prime++) {
      for (; rest % prime == 0 && count + 1 < most; rest /= prime) out[count++] = number(prime);
    }
    if (rest > 1) out[count++] = number(rest);
  }
  return count;
}

/* Groups the factors anew, in their order (which cuts and merges axes) or in another. */
static void make_reshape(kiln_maker_t *m, kiln_attempt_t *attempt, const kiln_type_t *type) {
  enum { FACTORS = 24 };
  kiln_dim_t factors[FACTORS], dims[KILN_MAX_RANK];
  int64_t order[FACTORS];
  uint32_t count = factors_of(type, factors, FACTORS), rank = 0;
  kiln_maker_permutation(m, count, order);
  bool in_order = !one_in(m, 4), flat = one_in(m, 6);
  for (uint32_t i = 0; i < count; i++) {
    kiln_dim_t factor = factors[in_order ? i : (uint32_t)order[i]];
    bool starts = !rank || (!flat && rank < 5 && one_in(m, 2));
    if (starts) dims[rank++] = number(1);
    if (!kiln_dim_mul(m->arena, dims[rank - 1], factor, &dims[rank - 1])) return;
    if (!flat && rank < 5 && one_in(m, 10)) dims[rank++] = number(1);
  }
  kiln_maker_dims(m, attempt, KILN_ATTR_shape, dims, rank);
}

static void make_expand(kiln_maker_t *m, kiln_attempt_t *attempt, const kiln_type_t *type) {
  kiln_dim_t dims[KILN_MAX_RANK];
  uint32_t added = type->rank < 4 && one_in(m, 3) ? 1 : 0;
  if (added) dims[0] = kiln_maker_random_dim(m);
  for (uint32_t i = 0; i < type->rank; i++) {
    bool widens = kiln_dim_is(type->dims[i], 1) && !one_in(m, 3);
    dims[added + i] = widens ? kiln_maker_random_dim(m) : type->dims[i];
  }
  kiln_maker_dims(m, attempt, KILN_ATTR_shape, dims, type->rank + added);
}

/* One axis of a slice: all of it, a half, or somewhere inside. */
static void cut_axis(kiln_maker_t *m, kiln_dim_t size, kiln_dim_t *start, kiln_dim_t *limit) {
  kiln_dim_t half;
  int64_t typical = kiln_maker_size(m, size);
  *start = number(0);
  *limit = size;
  if (one_in(m, 3)) return;
  if (one_in(m, 2) && kiln_dim_div(m->arena, size, number(2), &half)) {
    if (one_in(m, 2))
      *start = half;
    else
      *limit = half;
    return;
  }
  int64_t cut = below(m, (uint32_t)typical + 1);
  *start = number(cut);
  if (one_in(m, 2)) kiln_dim_sub(m->arena, size, number(below(m, (uint32_t)(typical - cut) + 1)), limit);
}

static void make_slice(kiln_maker_t *m, kiln_attempt_t *attempt, const kiln_type_t *type) {
  kiln_dim_t starts[KILN_MAX_RANK], limits[KILN_MAX_RANK];
  int64_t steps[KILN_MAX_RANK];
  for (uint32_t i = 0; i < type->rank; i++) {
    cut_axis(m, type->dims[i], &starts[i], &limits[i]);
    steps[i] = kiln_dim_is_constant(type->dims[i]) ? 1 + below(m, 3) : 1;
  }
  kiln_maker_dims(m, attempt, KILN_ATTR_starts, starts, type->rank);
  kiln_maker_dims(m, attempt, KILN_ATTR_limits, limits, type->rank);
  if (one_in(m, 4)) kiln_maker_ints(m, attempt, KILN_ATTR_steps, steps, type->rank);
}

static void make_pad(kiln_maker_t *m, kiln_attempt_t *attempt, const kiln_type_t *type) {
  kiln_dim_t low[KILN_MAX_RANK] = {0}, high[KILN_MAX_RANK] = {0};
  for (uint32_t i = 0; i < type->rank; i++) {
    if (one_in(m, 2)) continue;
    *(one_in(m, 2) ? &low[i] : &high[i]) = one_in(m, 2) ? type->dims[i] : number(below(m, 4));
  }
  kiln_maker_dims(m, attempt, KILN_ATTR_low, low, type->rank);
  kiln_maker_dims(m, attempt, KILN_ATTR_high, high, type->rank);
  if (one_in(m, 2)) kiln_maker_attr(attempt, KILN_ATTR_value)->number = random_number(m, type->dtype);
}

static void make_split(kiln_maker_t *m, kiln_attempt_t *attempt, const kiln_type_t *type) {
  uint32_t axis = type->rank ? below(m, type->rank) : 0;
  kiln_dim_t size = type->rank ? type->dims[axis] : number(1), sizes[2];
  if (!kiln_dim_div(m->arena, size, number(2), &sizes[0]) || one_in(m, 2))
    sizes[0] = number(below(m, (uint32_t)kiln_maker_size(m, size) + 1));
  if (!kiln_dim_sub(m->arena, size, sizes[0], &sizes[1])) return;
  kiln_maker_attr(attempt, KILN_ATTR_dim)->integer = axis;
  kiln_maker_dims(m, attempt, KILN_ATTR_sizes, sizes, 2);
}

static void make_repeat(kiln_maker_t *m, kiln_attempt_t *attempt, const kiln_type_t *type) {
  int64_t times[KILN_MAX_RANK];
  uint32_t count = type->rank + (type->rank < 4 && one_in(m, 4));
  for (uint32_t i = 0; i < count; i++) times[i] = one_in(m, 2) ? 1 : one_in(m, 20) ? 0 : 1 + below(m, 3);
  kiln_maker_ints(m, attempt, KILN_ATTR_times, times, count);
}

/* Some of the axes; of those of size 1 only, where asked. */
static void make_axes(kiln_maker_t *m, kiln_attempt_t *attempt, const kiln_type_t *type, bool only_ones) {
  int64_t dims[KILN_MAX_RANK];
  uint32_t count = 0;
  for (uint32_t i = 0; i < type->rank; i++) {
    if (one_in(m, 2) && (!only_ones || kiln_dim_is(type->dims[i], 1))) dims[count++] = i;
  }
  kiln_maker_ints(m, attempt, KILN_ATTR_dims, dims, count);
}

static void make_broadcast(kiln_maker_t *m, kiln_attempt_t *attempt, const kiln_type_t *type) {
  int64_t dims[KILN_MAX_RANK];
  uint32_t count = 0;
  for (uint32_t i = 0; i <= type->rank && count < 2; i++) {
    if (one_in(m, 2)) dims[count++] = i;
  }
  kiln_maker_ints(m, attempt, KILN_ATTR_dims, dims, count);
}

/* --- creation, reductions, the rest --------------------------------------------------------------------- */

static void make_creation(kiln_maker_t *m, kiln_attempt_t *attempt) {
  kiln_dim_t dims[3];
  uint32_t rank = below(m, 4);
  kiln_dtype_t dtype = kiln_maker_random_dtype(m);
  for (uint32_t i = 0; i < rank; i++) {
    do {
      dims[i] = kiln_maker_random_dim(m);
    } while (attempt->op == KILN_OP_constant && !kiln_dim_is_constant(dims[i]));
  }
  kiln_maker_attr(attempt, KILN_ATTR_dtype)->dtype = dtype;
  kiln_maker_dims(m, attempt, KILN_ATTR_shape, dims, rank);
  if (attempt->op == KILN_OP_full)
    kiln_maker_attr(attempt, KILN_ATTR_value)->number = random_number(m, dtype);
  if (attempt->op == KILN_OP_iota)
    kiln_maker_attr(attempt, KILN_ATTR_dim)->integer = rank ? below(m, rank) : 0;
  if (attempt->op != KILN_OP_constant) return;
  int64_t elements = 1;
  for (uint32_t i = 0; i < rank; i++) elements *= dims[i].constant;
  if (elements > 300) return; /* without values it is refused */
  kiln_number_t *numbers = KILN_NEW_ARRAY(m->arena, kiln_number_t, elements);
  for (int64_t i = 0; i < elements; i++) numbers[i] = random_number(m, dtype);
  kiln_attr_value_t *values = kiln_maker_attr(attempt, KILN_ATTR_values);
  values->list.count = (uint32_t)elements;
  values->list.numbers = numbers;
}

static void make_reduction(kiln_maker_t *m, kiln_attempt_t *attempt, const kiln_type_t *type) {
  bool one_axis = attempt->op == KILN_OP_argmax || attempt->op == KILN_OP_argmin;
  bool all = one_in(m, 5);
  if (one_axis && !all) {
    kiln_maker_attr(attempt, KILN_ATTR_dim)->integer = type->rank ? below(m, type->rank) : 0;
  } else if (!all && one_in(m, 2) && type->rank) {
    kiln_maker_ints(m, attempt, KILN_ATTR_dims, (int64_t[]){type->rank - 1}, 1);
  } else if (!all) {
    make_axes(m, attempt, type, false);
  }
  if (one_in(m, 2)) kiln_maker_attr(attempt, KILN_ATTR_keepdim)->flag = true;
  bool sums = attempt->op == KILN_OP_sum || attempt->op == KILN_OP_prod;
  if (sums && one_in(m, 3)) kiln_maker_attr(attempt, KILN_ATTR_dtype)->dtype = kiln_maker_random_dtype(m);
  if (attempt->op == KILN_OP_var && one_in(m, 2))
    kiln_maker_attr(attempt, KILN_ATTR_correction)->real = below(m, 3);
}

static void make_normalization(kiln_maker_t *m, kiln_attempt_t *attempt, const kiln_type_t *type) {
  static const double epsilons[] = {1e-5, 1e-5, 1e-12, 0.5};
  uint32_t count = type->rank ? 1 + (type->rank > 1 && one_in(m, 4)) : 0;
  kiln_maker_dims(m, attempt, KILN_ATTR_normalized_shape, &type->dims[type->rank - count], count);
  kiln_maker_attr(attempt, KILN_ATTR_eps)->real = epsilons[below(m, 4)];
}

static void make_contraction(kiln_maker_t *m, kiln_attempt_t *attempt, const kiln_type_t *type) {
  static const double alphas[] = {1, 2, -1, 0.5};
  bool is_float = kiln_dtype_is_float(type->dtype);
  if (attempt->op != KILN_OP_matmul && one_in(m, 3))
    kiln_maker_attr(attempt, KILN_ATTR_alpha)->real = alphas[below(m, is_float ? 4 : 3)];
  if (!one_in(m, 4)) return;
  kiln_dtype_t out = type->dtype == KILN_DTYPE_i8 ? KILN_DTYPE_i32 : kiln_maker_random_dtype(m);
  if (!is_float || kiln_dtype_is_float(out)) kiln_maker_attr(attempt, KILN_ATTR_out)->dtype = out;
}

static void make_ends(kiln_maker_t *m, kiln_attempt_t *attempt, kiln_dtype_t dtype) {
  if (one_in(m, 2)) kiln_maker_attr(attempt, KILN_ATTR_min)->number = random_number(m, dtype);
  if (one_in(m, 2)) kiln_maker_attr(attempt, KILN_ATTR_max)->number = random_number(m, dtype);
}

void kiln_maker_attrs(kiln_maker_t *m, kiln_attempt_t *attempt) {
  const kiln_type_t *type = attempt->operand_count ? kiln_maker_type(m, attempt->operands[0]) : NULL;
  int64_t dims[KILN_MAX_RANK];
  switch (kiln_op_info(attempt->op)->op_class) {
  case KILN_CLASS_CREATION:
    return make_creation(m, attempt);
  case KILN_CLASS_REDUCTION:
    return make_reduction(m, attempt, type);
  case KILN_CLASS_CONTRACTION:
    return make_contraction(m, attempt, type);
  default:
    break;
  }
  switch (attempt->op) {
  case KILN_OP_cast:
  case KILN_OP_bitcast:
    kiln_maker_attr(attempt, KILN_ATTR_dtype)->dtype = kiln_maker_random_dtype(m);
    return;
  case KILN_OP_clamp:
    return make_ends(m, attempt, type->dtype);
  case KILN_OP_gelu:
    kiln_maker_attr(attempt, KILN_ATTR_approximate)->word = one_in(m, 2) ? "none" : "tanh";
    return;
  case KILN_OP_reshape:
    return make_reshape(m, attempt, type);
  case KILN_OP_permute:
    kiln_maker_permutation(m, type->rank, dims);
    return kiln_maker_ints(m, attempt, KILN_ATTR_dims, dims, type->rank);
  case KILN_OP_squeeze:
    return make_axes(m, attempt, type, true);
  case KILN_OP_reverse:
    return make_axes(m, attempt, type, false);
  case KILN_OP_broadcast:
    return make_broadcast(m, attempt, type);
  case KILN_OP_expand:
    return make_expand(m, attempt, type);
  case KILN_OP_slice:
    return make_slice(m, attempt, type);
  case KILN_OP_pad:
    return make_pad(m, attempt, type);
  case KILN_OP_cat:
  case KILN_OP_gather:
  case KILN_OP_softmax:
  case KILN_OP_log_softmax:
    kiln_maker_attr(attempt, KILN_ATTR_dim)->integer =
        type->rank ? (one_in(m, 2) ? type->rank - 1 : below(m, type->rank)) : 0;
    return;
  case KILN_OP_split:
    return make_split(m, attempt, type);
  case KILN_OP_repeat:
    return make_repeat(m, attempt, type);
  case KILN_OP_layernorm:
  case KILN_OP_rmsnorm:
  case KILN_OP_layernorm_sigmoid_mul:
    return make_normalization(m, attempt, type);
  default:
    return;
  }
}
