/* ir/plan.h: a compiled graph as data: launches in order, where every tensor lies, what must hold of the
 * symbols.
 *
 * Made by server/pipeline.c from a grouping and codegen's launch records; cached, shipped, and executed by
 * runtime/execute.c. Holds no names, no code, no addresses: kernels are referred to by key.
 */
#ifndef KILN_IR_PLAN_H
#define KILN_IR_PLAN_H

#include "base/hash.h"
#include "ir/group.h"
#include "ir/target.h"
#include "ir/verify.h"

/* One kernel parameter, or one cell of a table. */
typedef enum {
  KILN_SLOT_BUFFER,    /* the device address of a buffer */
  KILN_SLOT_DIM32,     /* a dimension expression as a 32-bit integer */
  KILN_SLOT_DIM64,     /* a dimension expression as a 64-bit integer */
  KILN_SLOT_CONSTANT,  /* the address of constant data `buffer.index` of the plan */
  KILN_SLOT_WORKSPACE, /* the address of the workspace */
  KILN_SLOT_COUNTERS,  /* the address of the counters */
  KILN_SLOT_PLACE,     /* the device address of a buffer and `dim` bytes: cells only */
  /* of the launch's table: all of it as a value; or the device addresses of its rows and of its prefixes, and
   * (32 bits) the number of rows */
  KILN_SLOT_TABLE,
  KILN_SLOT_TABLE_ROWS,
  KILN_SLOT_TABLE_FIRST,
  KILN_SLOT_TABLE_COUNT
} kiln_slot_kind_t;

typedef struct {
  kiln_slot_kind_t kind;
  kiln_buffer_ref_t buffer;
  kiln_dim_t dim;
} kiln_slot_t;

/* ceil(dim / divisor): a number of blocks. */
typedef struct {
  kiln_dim_t dim;
  uint32_t divisor;
} kiln_extent_t;

/* Memory through which the blocks of one launch work together. Launches run one after the other, so a plan
 * needs as much as the launch that needs most. */
typedef struct {
  kiln_dim_t workspace_bytes; /* holds whatever was there */
  kiln_dim_t counters;        /* 32 bits each: 0 before the launch, and 0 after it */
} kiln_scratch_t;

/* What the members of a grouped kernel do not have in common: a row for each, evaluated for each execution.
 * A block finds its member by the prefixes: first[i] is the number of blocks of all members before i.
 *
 *   as a value:        { unsigned count, first[capacity + 1]; row rows[capacity]; }
 *   in device memory:  row rows[count]; unsigned first[count + 1];
 *
 * A row is its cells in order, those of 8 bytes before those of 4, padded to 8. */
typedef struct {
  const kiln_slot_t *cells; /* row by row: PLACE, CONSTANT, DIM32 or DIM64; a column has one kind */
  uint32_t column_count, row_count;
  uint32_t capacity;           /* rows of the value; 0: the table lies in device memory */
  const kiln_extent_t *blocks; /* three per row, whose product is the member's number of blocks */
  uint32_t most_blocks;        /* of the grid, whose blocks then take several turns; 0: one for each */
} kiln_table_t;

/* Bytes of a cell, and of a row. */
uint32_t kiln_cell_bytes(kiln_slot_kind_t kind);
uint32_t kiln_table_row_bytes(const kiln_table_t *table);
/* Where the rows of a value begin, and where it ends. */
uint32_t kiln_table_rows_at(uint32_t capacity);
uint32_t kiln_table_value_bytes(const kiln_table_t *table);

/* A kernel before NVRTC: what codegen returns for a group. */
typedef struct {
  const char *entry;     /* the extern "C" name in the source */
  const char *source;    /* CUDA C++, self-contained */
  kiln_extent_t grid[3]; /* a grid of 0 blocks means nothing to do */
  uint32_t block[3];
  uint32_t shared_bytes;
  kiln_scratch_t scratch;
  const kiln_slot_t *slots;
  uint32_t slot_count;
  const kiln_table_t *table; /* of a grouped kernel, whose grid follows from it; else NULL */
} kiln_kernel_source_t;

typedef struct {
  kiln_digest_t kernel; /* kernel key */
  const char *entry;
  kiln_extent_t grid[3];
  uint32_t block[3];
  uint32_t shared_bytes;
  kiln_scratch_t scratch;
  const kiln_slot_t *slots;
  uint32_t slot_count;
  const kiln_table_t *table;
} kiln_launch_t;

/* A boundary tensor. Strides in elements; dense ones are spelled out as well. */
typedef struct {
  kiln_type_t type;
  kiln_dim_t strides[KILN_MAX_RANK];
  uint32_t align_bytes;
} kiln_plan_tensor_t;

/* A slot of the arena: as large as the largest of the temporaries that live in it. */
typedef struct {
  const kiln_dim_t *bytes;
  uint32_t count;
} kiln_plan_slot_t;

/* Data that kernels read, uploaded when the plan is loaded. */
typedef struct {
  const void *data;
  size_t size;
} kiln_plan_constant_t;

/* What the kernels rely on beyond the graph: the plan fits an execution only when all hold. */
typedef struct {
  enum { KILN_GUARD_MULTIPLE, KILN_GUARD_BELOW } kind; /* dim is a multiple of bound; dim < bound */
  kiln_dim_t dim;
  int64_t bound;
} kiln_guard_t;

typedef struct {
  uint32_t symbol_count;
  const kiln_plan_tensor_t *inputs, *outputs;
  uint32_t input_count, output_count;
  const kiln_plan_slot_t *slots; /* the temporary arena */
  const uint32_t *temp_slots;    /* temporary -> slot */
  uint32_t slot_count, temp_count;
  const kiln_launch_t *launches;
  uint32_t launch_count;
  const kiln_plan_constant_t *constants;
  uint32_t constant_count;
  const kiln_constraint_t *constraints;
  uint32_t constraint_count;
  const kiln_guard_t *guards;
  uint32_t guard_count;
} kiln_plan_t;

bool kiln_plan_guards_hold(const kiln_plan_t *plan, const int64_t *symbols);

/* MessagePack, self-describing, the same bytes for the same plan. */
void kiln_plan_encode(const kiln_plan_t *plan, kiln_buffer_t *out);
/* INVALID_ARGUMENT on anything that encode would not have written; every index is checked. */
kiln_status_t kiln_plan_decode(kiln_arena_t *arena, const void *bytes, size_t size,
                               const kiln_plan_t **out_plan);

#endif
