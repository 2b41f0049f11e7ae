/* codegen/reduce_emit.h: what the layouts of reductions have in common when they are written.
 *
 *   rows_emit.c     threads share a row, lanes are neighbours along it
 *   columns_emit.c  lanes are neighbouring results, threads share what is folded into them
 *   reduce_parts.c  blocks share either
 * An expression is either the same for all that a thread folds and stores, and defined once as soon as the
 * reductions below it are known (its level), or it varies, along the row or over the lanes, and is defined in
 * each loop that needs it. Inside codegen/ only.
 */
#ifndef KILN_CODEGEN_REDUCE_EMIT_H
#define KILN_CODEGEN_REDUCE_EMIT_H

#include "codegen/emit_region.h"

typedef struct {
  kiln_region_writer_t r;
  uint32_t row_axis;
  bool lanes_are_results; /* each lane has reductions of its own */
  bool *varies;           /* per expression */
  uint32_t *level; /* per expression: of how many reductions on top of each other it needs the results */
  uint32_t levels; /* of all reductions */
  bool *kept;      /* per LOAD: stays in registers, in kept_names[slot] */
  bool keeps;      /* some do */
  const char **kept_names;
  const char *kept_slot;
} kiln_reduce_writer_t;

kiln_reduce_writer_t kiln_reduce_writer(kiln_emitter_t *emitter, const kiln_region_t *region,
                                        uint32_t row_axis, bool lanes_are_results);
const kiln_expr_t *kiln_reduce_expr(const kiln_reduce_writer_t *w, kiln_expr_id_t id);
/* Is this a reduction of the level? */
bool kiln_reduce_is_at(const kiln_reduce_writer_t *w, kiln_expr_id_t id, uint32_t level);
/* Stores that vary are written in a loop; the others once. */
bool kiln_reduce_store_varies(const kiln_reduce_writer_t *w, const kiln_kernel_store_t *store);
/* What a loop has to define: all that varies below the operands of the reductions of a level, or, past the
 * last level, below what is stored in a loop. Kept loads end the way when `at_hand`. */
bool *kiln_reduce_needed(const kiln_reduce_writer_t *w, uint32_t level, bool at_hand);
/* Is there one value of the load for each lane, rather than a vector or one for all? */
bool kiln_reduce_is_per_lane(const kiln_reduce_writer_t *w, kiln_expr_id_t load);
/* "x9[k]", where a kept load of this step lies. */
const char *kiln_reduce_kept(const kiln_reduce_writer_t *w, kiln_expr_id_t load);

void kiln_reduce_open_lanes(kiln_reduce_writer_t *w);
void kiln_reduce_close_lanes(kiln_reduce_writer_t *w);
/* What all lanes share, and whole vectors; then, in the loop over the lanes, the rest. */
void kiln_reduce_emit_shared(kiln_reduce_writer_t *w, const bool *needed, bool at_hand);
void kiln_reduce_emit_lane(kiln_reduce_writer_t *w, const bool *needed, bool at_hand);
/* The partial results of a level, named by this prefix, take an element each in a column. */
void kiln_reduce_emit_additions(kiln_reduce_writer_t *w, uint32_t level, const char *partial,
                                const char *column, const char *place);
/* All that does not vary and is known after this level. */
void kiln_reduce_emit_level(kiln_reduce_writer_t *w, uint32_t level);
/* The C type of a partial result, and the one that changes no other. */
const char *kiln_reduce_type(const kiln_reduce_writer_t *w, kiln_expr_id_t id);
const char *kiln_reduce_none(const kiln_reduce_writer_t *w, kiln_expr_id_t id);
void kiln_reduce_declare(kiln_reduce_writer_t *w, uint32_t level, uint32_t columns);
/* The partial results of a run of elements, q, that are added to those of the row, p, behind it: the shorter
 * the chains of additions, the smaller the error. */
enum { KILN_REDUCE_RUN = 16 };
void kiln_reduce_begin_run(kiln_reduce_writer_t *w, uint32_t level, uint32_t turns);
/* Turns of a run over so many points, which a loop goes through in these steps: fewer when none has as many.
 */
uint32_t kiln_reduce_turns(kiln_dim_t points, int64_t step);
void kiln_reduce_end_run(kiln_reduce_writer_t *w, uint32_t level);
/* The variable of a reduction's result, or what stands for it. */
bool kiln_reduce_finds_place(kiln_op_t op);
void kiln_reduce_emit_varying_stores(kiln_reduce_writer_t *w, const bool *needed, bool at_hand);
void kiln_reduce_emit_single_stores(kiln_reduce_writer_t *w);

/* -- reduce_parts.c ------------------------------------------------------------------------------------- */

/* What a block works on, a row or neighbouring results, cut into parts whose partial results meet in the
 * workspace. */
typedef struct {
  uint32_t count;   /* 1: it is not cut, and nothing below is called */
  bool is_split;    /* each part has a block of its own, blockIdx.y; else one block does all of them */
  uint32_t results; /* partial results of a part, for each reduction */
  const char *unit; /* as text: the number of the row, or of the block's results */
} kiln_parts_t;

/* Can each part have a block? Only where nothing has to wait for a result before the row is over. */
bool kiln_parts_may_split(const kiln_reduce_writer_t *w);
/* Names where the partial results of a reduction lie: w%u[part * results + number]. */
void kiln_parts_declare(kiln_reduce_writer_t *w, const kiln_parts_t *parts);
/* Around what a part does, which leaves its partial results there. Behind it all of them are. */
void kiln_parts_open(kiln_reduce_writer_t *w, const kiln_parts_t *parts);
void kiln_parts_close(kiln_reduce_writer_t *w, const kiln_parts_t *parts);
/* For so many units, given as ceil(dim / divisor). */
kiln_scratch_t kiln_parts_scratch(const kiln_reduce_writer_t *w, const kiln_parts_t *parts,
                                  kiln_extent_t units);

#endif
