/* codegen/contraction.h: the contraction family: gemm_rcr and its forms, matmul.
 *
 *   contraction.c           which nodes, the iteration space, the two operands as scalars over it
 *   contraction_plan.c      how operands reach shared memory; the tile, by a cost rule
 *   contraction_epilogue.c  from the sum of products to what is stored
 *   contraction_copy.c      source: from global to shared memory
 *   contraction_emit.c      source: the main loop, the kernel around it, the launch
 *   contraction_parts.c     blocks that share a tile along K
 *   contraction_vector.c    a matrix times a vector, and many small products: plan and source
 *
 * result[batch, m, n] = sum over k of a[batch, m, k] * b[batch, n, k], whatever the layouts: operands are
 * index expressions over these axes. codegen.c lists the first two functions; the rest is for the files
 * above.
 */
#ifndef KILN_CODEGEN_CONTRACTION_H
#define KILN_CODEGEN_CONTRACTION_H

#include "codegen/emit.h"
#include "codegen/grouped.h"
#include "codegen/lower.h"
#include "codegen/schedule.h"

bool kiln_contraction_accepts(const kiln_graph_t *graph, uint32_t node);
/* Why no kernel makes these nodes (ascending) and stores these values; NULL when one does. */
const char *kiln_contraction_refusal(const kiln_graph_t *graph, const uint32_t *nodes, uint32_t node_count,
                                     const kiln_value_id_t *stores, uint32_t store_count);
kiln_status_t kiln_contraction_generate(kiln_arena_t *arena, const kiln_graph_t *graph,
                                        const kiln_grouping_t *grouping, const kiln_group_t *group,
                                        const kiln_codegen_context_t *context,
                                        kiln_kernel_source_t *out_kernel);

/* -- inside the family --------------------------------------------------------------------------------- */

/* An axis of the iteration space; of extent 1: the constant 0. */
typedef struct {
  kiln_dim_t extent;
  uint32_t axis;        /* of the kernel */
  kiln_expr_id_t index; /* LINEAR */
} kiln_space_axis_t;

/* How an operand reaches its tile in shared memory: `width` neighbouring elements at a time along the tile's
 * inner axis, which is k or the operand's rows. */
typedef struct {
  bool along_rows; /* the inner axis is m or n; else k */
  bool is_async;   /* copied as it is, by cp.async; else loaded, computed and stored */
  uint32_t width;  /* elements; 4, 8 or 16 bytes when is_async */
  /* the inner axis in steps of width (for 1: the axis itself), unless one step is all of it */
  bool has_step_axis;
  uint32_t step_axis;
  uint32_t buffer;       /* is_async: what is read, */
  kiln_expr_id_t offset; /* and where: of the first element of a step */
  kiln_region_t region;  /* not is_async: stores `width` elements to the buffer named "to" */
} kiln_copy_t;

typedef struct {
  const char *name; /* "a", "b" */
  kiln_expr_id_t scalar;
  const kiln_space_axis_t *rows; /* m of a, n of b */
  const char *row_name;
  uint32_t tile_rows;
  kiln_copy_t copy;
  /* Of a grouped kernel: a copy for each width that members have, alike but for that. */
  const kiln_selector_t *selector;
  kiln_copy_t copies[KILN_MOST_WIDTHS];
} kiln_operand_t;

/* A tile of results and the threads that make it. */
typedef struct {
  uint32_t m, n, k;          /* results, and how much of K at a time */
  uint32_t warps_m, warps_n; /* tensor cores: each warp has a part of the tile */
  uint32_t threads;
  uint32_t stages; /* of K in shared memory */
  uint32_t parts;  /* of K, each a block's; 1: a tile is one block's */
} kiln_tile_t;

/* A matrix times a vector: threads read neighbouring elements of the matrix, along k or along its rows. Or,
 * where m, n and k are small: a thread for each result. */
typedef struct {
  bool per_thread;
  const kiln_operand_t *matrix;
  bool along_rows;
  uint32_t warps_per_row; /* along k */
  kiln_region_t region;   /* its two stores name a's and b's elements */
} kiln_vector_plan_t;

typedef struct {
  kiln_kernel_t *kernel;
  kiln_lowering_t *lowering;
  const kiln_grouping_t *grouping;
  const kiln_group_t *group;
  const kiln_codegen_context_t *context;
  const kiln_node_t *node;
  kiln_dtype_t dtype;       /* of the operands */
  kiln_dtype_t accumulator; /* f32, f64, i32 or i64 */
  kiln_space_axis_t batch, m, n, k;
  uint32_t batch_rank; /* of the result */
  kiln_operand_t a, b;
  kiln_tile_t tile;
  bool uses_tensor_cores;
  bool is_tf32;   /* which round f32 operands to 10 bits of fraction: only when the request allows it */
  bool is_vector; /* no tiles in shared memory, but */
  kiln_vector_plan_t vector;
  kiln_expr_id_t tile_m, tile_n; /* which tile of results: LINEAR */
  uint32_t tile_m_axis, tile_n_axis;
  kiln_region_t epilogue;
  bool has_widths;                           /* a grouped kernel whose members have sizes of their own */
  kiln_region_t epilogues[KILN_MOST_WIDTHS]; /* then: for each width */
  bool stores_along_m;                       /* the epilogue's vectors are; else along n */
} kiln_contraction_t;

/* Elements of 16 bytes. */
static inline uint32_t kiln_contraction_chunk(const kiln_contraction_t *c) {
  return 16 / (uint32_t)kiln_dtype_bytes(c->dtype);
}

/* Elements from one row of the tile of sums to the next: no two of the eight rows that a warp writes at a
 * time share a bank. */
static inline uint32_t kiln_contraction_sums_stride(const kiln_contraction_t *c) { return c->tile.n + 8; }

/* The context in which everything has this width. */
const kiln_codegen_context_t *kiln_contraction_context(const kiln_contraction_t *c, uint32_t width);
/* The index of each axis of a shape, given the position in row-major order. */
void kiln_contraction_unflatten(kiln_kernel_t *kernel, kiln_expr_id_t position, uint32_t rank,
                                const kiln_dim_t *dims, kiln_expr_id_t *out_index);
/* The index of the result at (batch, m, n). */
void kiln_contraction_result_index(kiln_contraction_t *c, kiln_expr_id_t *out_index);

/* Chooses both operands' copies and the tile. */
void kiln_contraction_plan(kiln_contraction_t *c);

/* Builds the region that stores, over (batch, m, n), from the sums in shared memory. */
kiln_status_t kiln_contraction_build_epilogue(kiln_contraction_t *c);
/* The statements that copy one step of K of an operand to its tile; `step` and the tile's pointer are
 * variables. `type` is that of coordinates. */
void kiln_contraction_emit_copy(kiln_emitter_t *emitter, const kiln_contraction_t *c,
                                const kiln_operand_t *operand, const char *type);
/* Before that, and before the loop: what a step's copies keep from step to step, which are made in order. */
void kiln_contraction_emit_pointers(kiln_emitter_t *emitter, const kiln_contraction_t *c,
                                    const kiln_operand_t *operand, const char *type);
/* A kernel's source in the making. */
typedef struct {
  kiln_contraction_t *c;
  kiln_emitter_t emitter;
  const char *type;     /* of coordinates */
  const char *storage;  /* C types: an operand's element, */
  const char *sum;      /* what sums are kept in, unsigned for integers so that they wrap, */
  const char *sum_tile; /* and the same in shared memory */
  bool has_chains;      /* K may be long enough for the sum to be taken in two levels */
} kiln_contraction_writer_t;

enum { KILN_CONTRACTION_CHAIN = 512 /* products added one after the other; docs/numerics.md allows 1024 */ };

kiln_status_t kiln_contraction_emit(kiln_contraction_t *c, kiln_kernel_source_t *out_kernel);

/* Region over (batch, outer, inner) of an operand's elements; how many loads are neighbours along an axis. */
uint32_t kiln_contraction_contiguous(kiln_contraction_t *c, const kiln_operand_t *operand, bool along_rows);
/* Symbols at their typical values. */
double kiln_contraction_typical(const kiln_contraction_t *c, kiln_dim_t dim);

/* Have all sizes but K no symbols? */
bool kiln_contraction_is_static(const kiln_contraction_t *c);
/* How many blocks should share a tile that takes an SM so many cycles for each of K. */
uint32_t kiln_contraction_parts(const kiln_contraction_t *c, const kiln_tile_t *tile, double cycles_per_k);
/* A grid of tiles gets the parts as its second axis, and the kernel its workspace. */
void kiln_contraction_add_parts(const kiln_contraction_t *c, kiln_kernel_source_t *kernel);
/* Defines first_step and end_step, of so many steps. */
void kiln_contraction_emit_range(kiln_contraction_writer_t *w, const char *type, const char *steps);
/* From the part's sums in shared memory to all sums; what follows is the last block's alone. */
void kiln_contraction_emit_meeting(kiln_contraction_writer_t *w);

void kiln_contraction_plan_vector(kiln_contraction_t *c);
/* The statements that leave the sums in shared memory, at the pointer `sums`. */
void kiln_contraction_emit_vector(kiln_contraction_writer_t *w);
/* Its whole body but for the stores: the thread's place and its sum, at `sums`. */
void kiln_contraction_emit_per_thread(kiln_contraction_writer_t *w);
uint32_t kiln_contraction_vector_parts(const kiln_contraction_t *c);

#endif
