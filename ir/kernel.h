/* ir/kernel.h: kernel IR: what a group of nodes becomes before it is CUDA source.
 *
 *   group -> lowering: expressions over axes -> scheduling: axes split, merged, made vectors -> emission
 *
 * A kernel is a list of regions. A region has axes and stores: every point of its iteration space writes one
 * element per store. What is written and where are expressions, hash-consed in one pool per kernel, so that
 * work that two stores have in common, or two points that one thread handles, is one expression and done
 * once. Expressions are numbered in the order of their making: operands have smaller ids. Everything lives in
 * the arena.
 */
#ifndef KILN_IR_KERNEL_H
#define KILN_IR_KERNEL_H

#include "base/buffer.h"
#include "base/map.h"
#include "ir/group.h"

typedef uint32_t kiln_expr_id_t;

typedef enum {
  /* Index expressions. LINEAR is what all users hold; the next four are the atoms inside it. */
  KILN_EXPR_LINEAR, /* dims[0] + sum of dims[i + 1] * operands[i]; operands ascend, no factor is 0 */
  KILN_EXPR_AXIS,   /* axis `bits` of the kernel */
  KILN_EXPR_DIV, /* operands[0] / dims[0]; wherever it is evaluated, the operand is >= 0 and the divisor > 0
                  */
  KILN_EXPR_MOD, /* operands[0] % dims[0]; likewise */
  KILN_EXPR_CLAMPED, /* the integer scalar operands[0], clamped to [0, dims[0] - 1] */
  /* A condition: all of operands (LINEAR) are >= 0. No operand: true. */
  KILN_EXPR_ALL,
  /* Scalars, each of one dtype and in storage form. */
  KILN_EXPR_LOAD, /* buffer `bits` at element operands[0] where condition operands[1] holds, else 0 bits */
  KILN_EXPR_CONSTANT, /* `bits` */
  KILN_EXPR_POSITION, /* the value of index operands[0], an i64 */
  KILN_EXPR_OP, /* `op` applied to operands; `bits` is its node + 1 in the graph where attributes matter, else
                   0 */
  KILN_EXPR_SELECT, /* operands[0] (a condition) ? operands[1] : operands[2] */
  /* The elements operands[0] of a whole row combined by the reduction `op`: the same along the row. For
   * argmax and argmin the position in the row, an i64. */
  KILN_EXPR_REDUCE
} kiln_expr_kind_t;

typedef struct {
  kiln_expr_kind_t kind;
  kiln_dtype_t dtype; /* of scalars */
  kiln_op_t op;
  uint32_t operand_count;
  uint32_t dim_count;
  uint64_t bits;
  const kiln_expr_id_t *operands;
  const kiln_dim_t *dims;
  /* Index expressions: lower <= value <= upper wherever it is evaluated, when `bounded`. */
  bool bounded;
  kiln_dim_t lower, upper;
  /* Index expressions: may be evaluated, and has these bounds, at every point of the axes, since the operand
   * of each division below is >= 0 whatever guard it stood under. */
  bool total;
} kiln_expr_t;

/* 0, 1 .. ceil(extent / divisor) - 1. The divisor is above 1 for an axis that moves in steps of a vector. */
typedef struct {
  kiln_dim_t extent;
  uint32_t divisor;
} kiln_axis_t;

/* Memory that the kernel reads or writes. */
typedef struct {
  /* a parameter; a constant node's data; or shared memory, which the family declares */
  enum { KILN_KERNEL_BUFFER, KILN_KERNEL_TABLE, KILN_KERNEL_SHARED } kind;
  kiln_buffer_ref_t ref; /* of a parameter; its index tells shared buffers apart */
  const char *name;      /* of shared memory: the pointer's */
  uint32_t node;         /* of a table */
  kiln_dtype_t dtype;
  bool written;
  uint32_t align_bytes;
} kiln_kernel_buffer_t;

typedef struct {
  uint32_t buffer;
  kiln_expr_id_t offset; /* LINEAR, in elements */
  kiln_expr_id_t value;
} kiln_kernel_store_t;

typedef struct {
  const uint32_t *axes; /* of the kernel, outermost first; threads walk the last one first */
  uint32_t axis_count;
  uint32_t lane_axis;  /* the axis over the elements of a vector, when lanes > 1 */
  uint32_t lanes;      /* elements of a vector; 1: none */
  uint32_t most_lanes; /* that vectorization may choose; 0: any */
  bool realigns;       /* its vectors along rows may begin anywhere: threads next to each other, which have
                          neighbouring ones, put them together from aligned ones (codegen/vectorize.c) */
  bool has_tail;       /* the last vector may be partial: its axis has an extent that lanes need not divide */
  /* REDUCEs run over the last axis and its lanes; stores without it are one per row. Where a region has
   * REDUCEs and no row, they run over an axis that it does not list, in each lane on its own. */
  bool has_row;
  const struct kiln_tile
      *tile; /* its blocks are tiles that are transposed (codegen/tiles.h); NULL: they are not */
  const kiln_kernel_store_t *stores;
  uint32_t store_count;
} kiln_region_t;

typedef struct {
  kiln_arena_t *arena;
  const kiln_graph_t *graph;
  kiln_expr_t *exprs;
  size_t expr_count, expr_capacity;
  kiln_axis_t *axes;
  size_t axis_count, axis_capacity;
  kiln_kernel_buffer_t *buffers;
  size_t buffer_count, buffer_capacity;
  kiln_region_t *regions;
  size_t region_count, region_capacity;
  kiln_map_t *interned;
  kiln_buffer_t scratch; /* key bytes while interning */
  /* Per node: 1 + the symbol that holds the bits of its eps as an f32; 0: the attribute holds. NULL: all
   * hold. */
  const uint8_t *eps_symbols;
  bool overflowed; /* some dimension left 64 bits: the kernel is not usable */
} kiln_kernel_t;

kiln_kernel_t *kiln_kernel_create(kiln_arena_t *arena, const kiln_graph_t *graph);
uint32_t kiln_kernel_axis(kiln_kernel_t *kernel, kiln_dim_t extent, uint32_t divisor);
/* The number of the buffer, added when it is new. */
uint32_t kiln_kernel_buffer(kiln_kernel_t *kernel, kiln_kernel_buffer_t buffer);
/* The expression equal to this one, added (with copies of operands and dims) when it is new. Simplifies
 * nothing: that is what codegen/index.h is for. */
kiln_expr_id_t kiln_kernel_intern(kiln_kernel_t *kernel, kiln_expr_t expr);
/* Marks roots (already set in `marked`, one flag per expression) and everything below them. */
void kiln_kernel_mark(const kiln_kernel_t *kernel, bool *marked);
/* Marks the expressions below the stores of a region: offsets and values. */
bool *kiln_region_reachable(const kiln_kernel_t *kernel, const kiln_region_t *region);

/* Arithmetic on dimensions that records overflow in the kernel. */
kiln_dim_t kiln_kernel_dim_add(kiln_kernel_t *kernel, kiln_dim_t a, kiln_dim_t b);
kiln_dim_t kiln_kernel_dim_sub(kiln_kernel_t *kernel, kiln_dim_t a, kiln_dim_t b);
kiln_dim_t kiln_kernel_dim_mul(kiln_kernel_t *kernel, kiln_dim_t a, kiln_dim_t b);

#endif
