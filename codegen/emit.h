/* codegen/emit.h: CUDA source of a scheduled kernel, in parts that the families share.
 *
 *   emit.c        the kernel: header comment, parameters, regions over blocks
 *   emit_region.c one region: threads to axes, loads, the loop over lanes, stores
 *   emit_index.c  dimensions, indices and conditions as text
 *   emit_op.c     operations on scalars as text
 *   device_helpers.c, device_memory.c  the functions that generated code may call
 * Text that is part of an expression is a string in the arena; statements go to `body`.
 */
#ifndef KILN_CODEGEN_EMIT_H
#define KILN_CODEGEN_EMIT_H

#include "codegen/lanes.h"

#define KILN_BLOCK_THREADS 256

/* A dimension with symbols, handed to the kernel as a number. */
typedef struct {
  kiln_dim_t dim;
  bool is_wide; /* 64 bits */
} kiln_param_t;

typedef struct {
  kiln_kernel_t *kernel;
  const kiln_group_t *group;
  const kiln_codegen_context_t *context;
  kiln_buffer_t body;
  unsigned indent;
  bool takes_turns; /* a block of a grouped kernel works for one member after the other */
  kiln_param_t *params;
  size_t param_count, param_capacity;
  const char **buffer_names; /* per buffer of the kernel */
  /* of the region at hand */
  const char **axis_names; /* per axis of the kernel */
  bool *axis_is_wide;
  const char **names;      /* per expression that is a variable */
  const char **real_names; /* per half-precision scalar: the variable that holds it as a float */
} kiln_emitter_t;

/* One indented line of the body. */
void kiln_emit_line(kiln_emitter_t *emitter, const char *format, ...) __attribute__((format(printf, 2, 3)));
void kiln_emit_region(kiln_emitter_t *emitter, const kiln_region_t *region);
/* Number of threads of a region: ceil(dim / divisor). At most one axis moves in steps above 1. */
kiln_extent_t kiln_emit_threads(kiln_kernel_t *kernel, const kiln_region_t *region);
/* The same as text of 32 or (is_wide) 64 bits. */
const char *kiln_emit_thread_count(kiln_emitter_t *emitter, const kiln_region_t *region, bool *out_is_wide);
kiln_status_t kiln_emit_kernel(kiln_emitter_t *emitter, const kiln_grouping_t *grouping, const char *entry,
                               kiln_kernel_source_t *out_kernel);
/* The same for a family that writes its body itself, between the two: kernel has entry, grid, block,
 * shared_bytes and scratch, which the body finds at `workspace` and `counters`; source and slots are added.
 */
void kiln_emit_begin(kiln_emitter_t *emitter);
kiln_status_t kiln_emit_finish(kiln_emitter_t *emitter, const kiln_grouping_t *grouping,
                               kiln_kernel_source_t *kernel);
/* The block's number in the launch, or among those of its member. */
const char *kiln_emit_block(const kiln_emitter_t *emitter);
/* Is the buffer a parameter? And its slot. */
bool kiln_emit_is_param(const kiln_emitter_t *emitter, const kiln_kernel_buffer_t *buffer);
kiln_slot_t kiln_emit_buffer_slot(const kiln_kernel_buffer_t *buffer);
/* A region whose axes have names already (kiln_emit_name_axis, after kiln_emit_start_region): the caller has
 * put the thread where it belongs. */
void kiln_emit_start_region(kiln_emitter_t *emitter);
void kiln_emit_name_axis(kiln_emitter_t *emitter, uint32_t axis, const char *name, bool is_wide);
void kiln_emit_point(kiln_emitter_t *emitter, const kiln_region_t *region);
/* An offset as text, after the statements that it needs; the axes have their names. */
const char *kiln_emit_offset(kiln_emitter_t *emitter, kiln_expr_id_t offset);

/* -- emit_index.c
 * ------------------------------------------------------------------------------------------------------- */

/* Can the dimension, and all that is below it, be counted in 31 bits? For one with symbols that is recorded
 * as a guard. */
bool kiln_emit_fits(kiln_emitter_t *emitter, kiln_dim_t dim);
/* An index needs 64 bits when a sum of its terms may leave 31. */
bool kiln_emit_is_wide(kiln_emitter_t *emitter, kiln_expr_id_t index);
const char *kiln_emit_dim(kiln_emitter_t *emitter, kiln_dim_t dim, bool wide);
const char *kiln_emit_index(kiln_emitter_t *emitter, kiln_expr_id_t index, bool wide);
/* The right side of an atom's definition: "a0 / 8". */
const char *kiln_emit_atom(kiln_emitter_t *emitter, kiln_expr_id_t atom, bool wide);
const char *kiln_emit_condition(kiln_emitter_t *emitter, kiln_expr_id_t condition);

/* -- emit_op.c
 * ----------------------------------------------------------------------------------------------------------
 */

const char *kiln_emit_storage_type(kiln_dtype_t dtype);
const char *kiln_emit_arithmetic_type(kiln_dtype_t dtype);
/* A constant in storage form, and in arithmetic form. */
const char *kiln_emit_bits(kiln_emitter_t *emitter, uint64_t bits, kiln_dtype_t dtype);
const char *kiln_emit_number(kiln_emitter_t *emitter, uint64_t bits, kiln_dtype_t dtype);
/* A scalar in storage form (a variable or a constant), and in arithmetic form. */
const char *kiln_emit_stored(kiln_emitter_t *emitter, kiln_expr_id_t scalar);
const char *kiln_emit_value(kiln_emitter_t *emitter, kiln_expr_id_t scalar);
/* Does this OP give storage bits as they are (where, bitcast), or a number to be rounded to its dtype? */
bool kiln_emit_op_moves_bits(const kiln_expr_t *expr);
const char *kiln_emit_op(kiln_emitter_t *emitter, const kiln_expr_t *expr);
/* A number of the arithmetic type, rounded to storage form. */
const char *kiln_emit_rounded(kiln_emitter_t *emitter, const char *number, kiln_dtype_t dtype);

/* -- emit_members.c
 * ----------------------------------------------------------------------------------------------------- */

/* Grouped kernels: the type of a member, whose columns have slots that are dimensions of the small graph; the
 * parameters; and the statements that find the member of a block. */
const kiln_slot_t *kiln_emit_member_type(const kiln_emitter_t *emitter, kiln_buffer_t *out,
                                         uint32_t *out_count);
const kiln_slot_t *kiln_emit_member_params(const kiln_emitter_t *emitter, kiln_buffer_t *out,
                                           uint32_t *out_count);
void kiln_emit_member_of_block(const kiln_emitter_t *emitter, kiln_buffer_t *out);

/* -- device_helpers.c
 * --------------------------------------------------------------------------------------------------- */

/* Appends the definitions of all helpers that `body` calls, and what they call. */
void kiln_emit_helpers(kiln_arena_t *arena, kiln_buffer_t *out, const char *body);

#endif
