/* codegen/emit_region.h: the parts of a region's source, for families that lay a region over threads in their
 * own way.
 *
 * A writer knows how each load of the region is done and which half-precision scalars are computed with; the
 * functions write single statements to the emitter's body, and name what they define. Inside codegen/ only.
 */
#ifndef KILN_CODEGEN_EMIT_REGION_H
#define KILN_CODEGEN_EMIT_REGION_H

#include "codegen/emit.h"

typedef struct {
  kiln_emitter_t *emitter;
  const kiln_region_t *region;
  kiln_lanes_t lanes;
  const bool *reachable;
  size_t count;          /* of expressions when the writer was made: what the flags below are per */
  bool *needs_real;      /* per half-precision scalar: some operation computes with it */
  kiln_access_t *loads;  /* per LOAD */
  uint32_t *load_widths; /* per LOAD: elements per instruction; 1: element by element */
  bool *realigned;       /* per LOAD: its vectors are put together by neighbouring threads */
  uint32_t team;         /* of so many threads, which all come to each load and store; they know as `left` the
                            elements from the vector on, and whether it is the first of its row by this text */
  const char *is_first;
  unsigned next_number; /* of a variable */
} kiln_region_writer_t;

/* Starts a region: no expression has a name yet. */
kiln_region_writer_t kiln_region_writer(kiln_emitter_t *emitter, const kiln_region_t *region);
/* ceil(extent / divisor) as text. */
const char *kiln_emit_steps(kiln_emitter_t *emitter, kiln_dim_t extent, uint32_t divisor, bool wide);
/* Takes `thread`, a number below the product of the region's axes, apart: the last axis first. */
void kiln_emit_axes(kiln_region_writer_t *r, bool is_wide);
/* Names a scalar's variable, which gets this text, and its arithmetic form, which is defined where it is
 * needed. */
void kiln_emit_scalar(kiln_region_writer_t *r, kiln_expr_id_t id, const char *text);
/* The statement that defines an expression; none for those that are text where they are used. */
void kiln_emit_expr(kiln_region_writer_t *r, kiln_expr_id_t id);
/* A load whose width is above 1: the whole window, outside the loop over lanes; and the lane's element of it,
 * inside. */
void kiln_emit_vector_load(kiln_region_writer_t *r, kiln_expr_id_t id);
void kiln_emit_lane_of_vector(kiln_region_writer_t *r, kiln_expr_id_t id);
/* What a load of one element evaluates to, its conditions included. */
const char *kiln_emit_element_load(kiln_region_writer_t *r, kiln_expr_id_t id);
/* "in0 + 4 * a0" and "in0[4 * a0]" */
const char *kiln_emit_address(kiln_region_writer_t *r, uint32_t buffer, kiln_expr_id_t offset);
const char *kiln_emit_element(kiln_region_writer_t *r, uint32_t buffer, kiln_expr_id_t offset);
/* Bytes of one instruction that stores a whole vector. */
uint32_t kiln_emit_store_bytes(kiln_region_writer_t *r, uint32_t buffer);
/* A vector s<number> to its place. */
void kiln_emit_vector_store(kiln_region_writer_t *r, uint32_t number);

#endif
