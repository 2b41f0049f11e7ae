/* ir/shape.h: what the shape rules of the op families share; inside ir/ only (passes call ir/verify.h).
 *
 * A rule reads operand types and attributes from a kiln_shape_t and writes result shapes into it; dtypes and
 * everything that the row in ops.def says were settled before (ir/shape.c). A rule that does not hold is
 * refused by its name in rules.def; what depends on the values of symbols is left as a constraint.
 */
#ifndef KILN_IR_SHAPE_H
#define KILN_IR_SHAPE_H

#include "ir/verify.h"

typedef enum {
#define KILN_RULE(name, reach, sentence) KILN_RULE_##name,
#include "ir/rules.def"
#undef KILN_RULE
  KILN_RULE_COUNT
} kiln_rule_t;

const char *kiln_rule_name(kiln_rule_t rule);

typedef struct {
  kiln_arena_t *arena;
  const kiln_symbol_t *symbols; /* for messages; NULL: unknown */
  kiln_op_t op;
  const kiln_type_t *const *operands; /* NULL for an absent one */
  uint32_t operand_count, attr_count, result_count;
  const kiln_attr_value_t *attrs;
  kiln_type_t *results;
  kiln_constraints_t *constraints; /* NULL: not wanted */
} kiln_shape_t;

/* As kiln_shape_infer (ir/verify.h), with names for the symbols in messages. */
kiln_status_t kiln_shape_infer_named(kiln_arena_t *arena, const kiln_symbol_t *symbols, kiln_op_t op,
                                     const kiln_type_t *const *operands, uint32_t operand_count,
                                     const kiln_attr_value_t *attrs, uint32_t attr_count,
                                     kiln_type_t *results, uint32_t result_count,
                                     kiln_constraints_t *out_constraints);

/* INVALID_GRAPH (TOO_LARGE for size_overflow) with the op's name before the message. */
kiln_status_t kiln_shape_refuse(const kiln_shape_t *shape, kiln_rule_t rule, const char *format, ...)
    __attribute__((format(printf, 3, 4), returns_nonnull));
/* The rule holds when left >= right: refused when that is false for all symbols, a constraint when it is
 * undecided. The message names no symbol, since plans hold it; with an axis (or KILN_NO_AXIS) it begins with
 * "axis 1: ". */
#define KILN_NO_AXIS UINT32_MAX
kiln_status_t kiln_shape_require_ge(const kiln_shape_t *shape, kiln_rule_t rule, kiln_dim_t left,
                                    kiln_dim_t right, uint32_t axis, const char *message);

/* For messages, in the arena: "T+1", "f32[T,64]". */
const char *kiln_shape_dim_text(const kiln_shape_t *shape, kiln_dim_t dim);
const char *kiln_shape_type_text(const kiln_shape_t *shape, const kiln_type_t *type);

/* The attribute, or NULL. */
const kiln_attr_value_t *kiln_shape_attr(const kiln_shape_t *shape, kiln_attr_t attr);
/* One dim, possibly negative, to an axis of a value of this rank. Rank 0 counts as rank 1, as in PyTorch,
 * when scalar. */
kiln_status_t kiln_shape_axis(const kiln_shape_t *shape, int64_t dim, uint32_t rank, bool scalar,
                              uint32_t *out_axis);
/* Several dims to a bit set of axes, each once. */
kiln_status_t kiln_shape_axes(const kiln_shape_t *shape, const kiln_attr_value_t *dims, uint32_t rank,
                              bool scalar, uint32_t *out_axes);
/* Checked arithmetic: size_overflow when it leaves 64 bits. */
kiln_status_t kiln_shape_add(const kiln_shape_t *shape, kiln_dim_t a, kiln_dim_t b, kiln_dim_t *out);
kiln_status_t kiln_shape_mul(const kiln_shape_t *shape, kiln_dim_t a, kiln_dim_t b, kiln_dim_t *out);
/* Broadcasts other's shape into *shape_so_far (NumPy's rule). */
kiln_status_t kiln_shape_broadcast(const kiln_shape_t *shape, kiln_type_t *so_far, const kiln_type_t *other);
/* Can dtype hold the number: an integer in range for integers, 0 or 1 for bool, anything for floats? */
kiln_status_t kiln_shape_value_fits(const kiln_shape_t *shape, kiln_number_t number, kiln_dtype_t dtype);
/* A bound on rank, size and bytes that every value of a graph obeys. what names the value: "result", "input
 * %x". */
kiln_status_t kiln_shape_check_type(const kiln_shape_t *shape, const kiln_type_t *type, const char *what);

/* What a graph's inputs and outputs obey beyond that: strides and alignment. what is "the input" or "the
 * output". */
kiln_status_t kiln_shape_check_boundary(const kiln_shape_t *shape, const kiln_type_t *type,
                                        const kiln_layout_t *layout, bool is_output);

/* The rules. Each sets result dims (and ranks); result dtypes are there already. */
typedef kiln_status_t (*kiln_shape_rule_t)(const kiln_shape_t *shape);
kiln_status_t kiln_shape_reshape(const kiln_shape_t *shape);
kiln_status_t kiln_shape_permute(const kiln_shape_t *shape);
kiln_status_t kiln_shape_squeeze(const kiln_shape_t *shape);
kiln_status_t kiln_shape_broadcast_axes(const kiln_shape_t *shape);
kiln_status_t kiln_shape_expand(const kiln_shape_t *shape);
kiln_status_t kiln_shape_slice(const kiln_shape_t *shape);
kiln_status_t kiln_shape_pad(const kiln_shape_t *shape);
kiln_status_t kiln_shape_cat(const kiln_shape_t *shape);
kiln_status_t kiln_shape_split(const kiln_shape_t *shape);
kiln_status_t kiln_shape_repeat(const kiln_shape_t *shape);
kiln_status_t kiln_shape_reverse(const kiln_shape_t *shape);
kiln_status_t kiln_shape_full(const kiln_shape_t *shape);
kiln_status_t kiln_shape_iota(const kiln_shape_t *shape);
kiln_status_t kiln_shape_constant(const kiln_shape_t *shape);
kiln_status_t kiln_shape_gather(const kiln_shape_t *shape);
kiln_status_t kiln_shape_embedding(const kiln_shape_t *shape);
kiln_status_t kiln_shape_reduction(const kiln_shape_t *shape);
kiln_status_t kiln_shape_softmax(const kiln_shape_t *shape);
kiln_status_t kiln_shape_normalization(const kiln_shape_t *shape);
kiln_status_t kiln_shape_gemm(const kiln_shape_t *shape);
kiln_status_t kiln_shape_matmul(const kiln_shape_t *shape);

#endif
