/* passes/rewrite.h: what a pass is written with: walk the old graph in order, build the new one, match on
 * what was built.
 *
 * A pass begins a rewrite, turns each node into a draft (its operands are values of the new graph), changes
 * the draft by rules that keep its result type and meaning, places it and notes which new value stands for
 * which old one. Dead nodes may be left behind: dce removes them. Inside passes/ only; one thread; all memory
 * is the context's arena.
 */
#ifndef KILN_PASSES_REWRITE_H
#define KILN_PASSES_REWRITE_H

#include "passes/passes.h"

typedef struct {
  kiln_pass_context_t *context;
  kiln_arena_t *arena;
  const kiln_graph_t *source;
  kiln_graph_builder_t *builder;
  kiln_value_id_t *map; /* per value of source: the value of the new graph that equals it */
} rewrite_t;

/* A node on its way into the new graph. Rules change everything but type. */
typedef struct {
  kiln_op_t op;
  const kiln_value_id_t *operands;
  uint32_t operand_count;
  const kiln_attr_value_t *attrs; /* sorted by kiln_attr_t */
  uint32_t attr_count;
  uint32_t line;
  kiln_type_t type;      /* of its one result */
  kiln_value_id_t value; /* a value of the new graph that the draft turned out to equal, else KILN_NO_VALUE */
} draft_t;

/* Has the graph a node of this op? A pass that looks for one it has not returns the graph at once. */
bool graph_has(const kiln_graph_t *graph, kiln_op_t op);
/* Starts the new graph with the symbols and inputs of the source. */
rewrite_t rewrite_begin(kiln_pass_context_t *context, const kiln_graph_t *source);
/* Outputs and names; the source itself when the pass counted nothing. */
const kiln_graph_t *rewrite_finish(rewrite_t *rw);

/* The node with its operands mapped; type and value are of its first result. */
draft_t rewrite_draft(const rewrite_t *rw, const kiln_node_t *node);
/* Appends the draft's node, unless it became a value; returns the value. */
kiln_value_id_t rewrite_place(rewrite_t *rw, const draft_t *draft);
/* Appends the node as it is, with all its results, and maps them. */
void rewrite_copy(rewrite_t *rw, const kiln_node_t *node);
/* Appends a helper node whose type is inferred; KILN_NO_VALUE when the op's rules refuse, or when an operand
 * is that. */
kiln_value_id_t rewrite_emit(rewrite_t *rw, kiln_op_t op, const kiln_value_id_t *operands,
                             uint32_t operand_count, const kiln_attr_value_t *attrs, uint32_t attr_count);
/* The value with this shape: itself, or a reshape. */
kiln_value_id_t rewrite_reshape(rewrite_t *rw, kiln_value_id_t value, const kiln_dim_t *dims, uint32_t rank);

static inline const kiln_type_t *rewrite_type(const rewrite_t *rw, kiln_value_id_t value) {
  return kiln_graph_builder_type(rw->builder, value);
}
/* The node of this op that made the value, or NULL. */
const kiln_node_t *rewrite_match(const rewrite_t *rw, kiln_value_id_t value, kiln_op_t op);
/* True when every element of the value is this number, because a `full` made it. */
bool rewrite_match_full(const rewrite_t *rw, kiln_value_id_t value, kiln_number_t *out);

/* -- changing a draft: each returns true, so that a rule can end with it
 * --------------------------------------------------- */
bool draft_become(draft_t *draft, kiln_value_id_t value); /* false for KILN_NO_VALUE */
bool draft_set(rewrite_t *rw, draft_t *draft, kiln_op_t op, const kiln_value_id_t *operands,
               uint32_t operand_count, const kiln_attr_value_t *attrs, uint32_t attr_count);
/* The draft's result is this value, expanded to the draft's type where it is smaller. */
bool draft_expand(rewrite_t *rw, draft_t *draft, kiln_value_id_t value);
/* The draft's result is this value's elements in row-major order. */
bool draft_reshape(rewrite_t *rw, draft_t *draft, kiln_value_id_t value);
bool draft_full(rewrite_t *rw, draft_t *draft, kiln_number_t number);
const kiln_attr_value_t *draft_attr(const draft_t *draft, kiln_attr_t attr); /* NULL when absent */
int64_t draft_int(const draft_t *draft, kiln_attr_t attr);

/* -- attributes
 * ------------------------------------------------------------------------------------------------------------
 */
static inline kiln_attr_value_t attr_dims(kiln_attr_t attr, const kiln_dim_t *dims, uint32_t count) {
  return (kiln_attr_value_t){.attr = attr, .list = {.count = count, .dims = dims}};
}
static inline kiln_attr_value_t attr_ints(kiln_attr_t attr, const int64_t *integers, uint32_t count) {
  return (kiln_attr_value_t){.attr = attr, .list = {.count = count, .integers = integers}};
}
static inline kiln_attr_value_t attr_int(kiln_attr_t attr, int64_t integer) {
  return (kiln_attr_value_t){.attr = attr, .integer = integer};
}
static inline kiln_attr_value_t attr_dtype(kiln_dtype_t dtype) {
  return (kiln_attr_value_t){.attr = KILN_ATTR_dtype, .dtype = dtype};
}
static inline kiln_number_t number_real(double real) { return (kiln_number_t){.real = real}; }
static inline kiln_number_t number_integer(int64_t integer) {
  return (kiln_number_t){.is_integer = true, .integer = integer, .real = (double)integer};
}
/* 0 of the dtype: +0.0 for floats. */
static inline kiln_number_t number_zero(kiln_dtype_t dtype) {
  return kiln_dtype_is_float(dtype) ? number_real(0) : number_integer(0);
}
/* The fill of a pad: its value attribute, 0 when absent. */
kiln_number_t number_of_pad(const kiln_attr_value_t *value, kiln_dtype_t dtype);
bool number_equal(kiln_number_t a, kiln_number_t b); /* the same number, -0.0 and 0.0 apart, no NaN */

/* -- shapes
 * ----------------------------------------------------------------------------------------------------------------
 */
/* True when a and b differ in size-1 axes only; to_b[i] is then the axis of b for each axis of a that is
 * not 1. */
bool shapes_match_but_ones(const kiln_type_t *a, const kiln_type_t *b, uint32_t to_b[KILN_MAX_RANK]);

/* What a slice takes of one axis: elements start, start + step ... below limit. */
typedef struct {
  kiln_dim_t start, limit;
  int64_t step;
} range_t;
range_t range_of(const kiln_attr_value_t *attrs, uint32_t attr_count, uint32_t axis);
bool range_is_whole(range_t range, kiln_dim_t size);

/* The registered passes: one function per row of passes.def. */
#define KILN_PASS(name)                                                                                      \
  const kiln_graph_t *kiln_pass_##name(kiln_pass_context_t *context, const kiln_graph_t *graph);
#include "passes/passes.def"
#undef KILN_PASS

#endif
