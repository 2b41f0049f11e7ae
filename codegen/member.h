/* codegen/member.h: a vertical group as one member of a class: what its kernel is once sizes are parameters.
 *
 *   group -> member_walk.c, member_view.c: leaves, steps, symbols -> member.c: class key
 *                                                  -> member_graph.c: a small graph over the symbols
 *
 * Three forms. PLANE: every value is a plane of M rows of N elements (leading axes are one, trailing axes are
 * one), or a row, a column or a point of it. PRODUCT: a plane that begins with a contraction along K.
 * LITERAL: anything else, as it stands: members then differ in their buffers only. Members of equal keys give
 * the same small graph; their symbols have values of their own, expressions over the symbols of the graph
 * they come from. Inside codegen/ only.
 */
#ifndef KILN_CODEGEN_MEMBER_H
#define KILN_CODEGEN_MEMBER_H

#include "codegen/codegen.h"

/* Symbols of the small graph; strides and what else there is come behind. */
enum { KILN_MEMBER_M, KILN_MEMBER_N, KILN_MEMBER_K };

typedef enum { KILN_MEMBER_LITERAL, KILN_MEMBER_PLANE, KILN_MEMBER_PRODUCT } kiln_member_form_t;

/* Axes that a value has; the others are of size 1. */
enum { KILN_HAS_M = 1, KILN_HAS_N = 2, KILN_HAS_K = 4 };

/* What is read or written, where it lies in memory. In a plane the outer axis is M or N, the inner one N or
 * K; a LITERAL leaf is the whole tensor. */
typedef struct {
  kiln_value_id_t value;     /* whose buffer it is */
  const kiln_store_t *store; /* of what is written */
  kiln_dtype_t dtype;
  uint32_t axes;      /* KILN_HAS_* */
  bool is_vector;     /* has rank 1: an affine operand, a bias */
  bool k_is_outer;    /* of a second factor: it is [K, N] */
  bool is_transposed; /* the outer axis has neighbours in memory; else the inner one */
  bool steps;         /* some step is made along the other axis: it is not of size 1 */
  kiln_dim_t offset;  /* of its first element, in elements */
  kiln_dim_t stride;  /* of the axis without neighbours; 0 when it does not step */
  int stride_symbol;  /* of the small graph; -1: the stride follows from the sizes */
} kiln_leaf_t;

/* An operation of the small graph. Operands are leaves (even numbers) or earlier steps (odd ones). */
typedef struct {
  uint32_t node; /* of the graph */
  uint32_t axes; /* of its result */
  uint32_t operand_count;
  const uint32_t *operands; /* KILN_NO_VALUE for an absent one */
  int eps_symbol;           /* holds the bits of eps; -1: none does */
} kiln_step_t;

typedef struct {
  const kiln_graph_t *graph;
  const kiln_group_t *group;
  kiln_member_form_t form;
  kiln_leaf_t *leaves; /* read, each in one manner */
  size_t leaf_count, leaf_capacity;
  kiln_leaf_t *results; /* one per store of the group */
  uint32_t *stored;     /* what each store stores, as an operand */
  kiln_step_t *steps;
  size_t step_count, step_capacity;
  uint32_t contraction; /* the step that is one; UINT32_MAX: none */
  kiln_dim_t symbols[KILN_MAX_SYMBOLS];
  uint32_t symbol_count;
  bool is_wide; /* something passes 2^31 elements */
} kiln_member_t;

/* grouping: where values lie; NULL while that is not known: they then lie densely. NULL when the group cannot
 * be a member. */
kiln_member_t *kiln_member_create(kiln_arena_t *arena, const kiln_graph_t *graph,
                                  const kiln_grouping_t *grouping, const kiln_group_t *group);
/* Fills in a PLANE or a PRODUCT; false when the group is neither. */
bool kiln_member_walk(kiln_arena_t *arena, const kiln_grouping_t *grouping, kiln_member_t *member);
/* What members of one kernel have in common; `class` is what else their kernel is chosen by. */
void kiln_member_key(kiln_arena_t *arena, const kiln_member_t *member, const kiln_grouping_t *grouping,
                     uint32_t class, uint64_t out_key[2]);
/* The largest power of two, at most `most`, that divides places and strides of a leaf, in elements, so that
 * as many neighbours are one access; and of all leaves without K, and of the length of rows. */
uint32_t kiln_leaf_multiple(const kiln_member_t *member, const kiln_grouping_t *grouping,
                            const kiln_symbol_class_t *symbols, const kiln_leaf_t *leaf, uint32_t most);
uint32_t kiln_member_multiple(const kiln_member_t *member, const kiln_grouping_t *grouping,
                              const kiln_symbol_class_t *symbols, uint32_t most);
/* Its outer and its inner axis, as symbols of the small graph. */
void kiln_leaf_axes(const kiln_leaf_t *leaf, uint32_t *out_outer, uint32_t *out_inner);

/* The small graph, its one group and where that finds its leaves: leaf i is input i, store i output i. */
typedef struct {
  const kiln_graph_t *graph;
  kiln_group_t group;
  kiln_grouping_t grouping;
  uint8_t *eps_symbols; /* per node: 1 + the symbol that holds the bits of its eps; 0: none */
} kiln_member_graph_t;

/* typical: of the symbols, for what a kernel is tuned to; NULL: nothing is known. Leaves of a plane are
 * aligned to so many elements, or to 16 bytes. */
void kiln_member_graph(kiln_arena_t *arena, const kiln_member_t *member, const kiln_grouping_t *grouping,
                       const int64_t *typical, uint32_t align_multiple, kiln_member_graph_t *out);
/* The boundary layout of a leaf of a LITERAL member. */
kiln_layout_t kiln_leaf_layout(const kiln_member_t *member, const kiln_grouping_t *grouping,
                               const kiln_leaf_t *leaf);
/* Is the length of rows part of the class, a constant in the small graph? */
bool kiln_member_keeps_columns(const kiln_member_t *member);
/* A dimension of the small graph for this member. */
bool kiln_member_dim(kiln_arena_t *arena, const kiln_member_t *member, kiln_dim_t dim, kiln_dim_t *out);

#endif
