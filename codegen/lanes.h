/* codegen/lanes.h: what the elements of a vector do to an index: nothing, steps of one, another fixed
 * pattern, or anything.
 *
 * Used by vectorize.c to choose a width and by emission to write the accesses, so that both see the same.
 */
#ifndef KILN_CODEGEN_LANES_H
#define KILN_CODEGEN_LANES_H

#include "codegen/codegen.h"
#include "codegen/scalar.h"

#define KILN_MAX_LANES 16

typedef struct {
  kiln_kernel_t *kernel;
  const kiln_region_t *region;
  bool *depends;                     /* per expression: differs among lanes */
  bool *fixed;                       /* per index expression: a function of the lane alone */
  int64_t (*values)[KILN_MAX_LANES]; /* of fixed ones */
  kiln_expr_id_t *at_zero;           /* per expression: itself in lane 0 */
} kiln_lanes_t;

/* How a load or store touches memory across the lanes. */
typedef struct {
  bool is_vector;         /* all lanes' elements lie in one window, by a fixed pattern */
  bool is_contiguous;     /* lane l has element l of the window */
  uint32_t window;        /* elements from `base` on; a power of two */
  kiln_expr_id_t base;    /* LINEAR: offset of the window, the same for all lanes */
  kiln_expr_id_t pattern; /* LINEAR over the lane axis: position in the window */
} kiln_access_t;

kiln_lanes_t kiln_lanes_analyze(kiln_kernel_t *kernel, const kiln_region_t *region);
kiln_access_t kiln_lanes_access(const kiln_lanes_t *lanes, kiln_expr_id_t offset, kiln_expr_id_t guard);
/* The largest number of elements, a power of two and at most 16 bytes and the window, that one instruction
 * may access. A multiple of a symbol that this needs is recorded as a guard when guards is not NULL. */
uint32_t kiln_access_width(const kiln_kernel_t *kernel, const kiln_access_t *access, uint32_t buffer,
                           const kiln_symbol_class_t *symbol_class, kiln_guards_t *guards);
/* Bytes of one instruction that accesses a whole vector of the region. */
uint32_t kiln_vector_bytes(const kiln_kernel_t *kernel, const kiln_region_t *region, uint32_t buffer);
/* Is the access along a row that begins anywhere, so that neighbouring threads put its vectors together
 * (kiln_load_row, kiln_store_row)? */
bool kiln_access_is_realigned(const kiln_kernel_t *kernel, const kiln_region_t *region,
                              const kiln_access_t *access, uint32_t buffer,
                              const kiln_symbol_class_t *symbol_class);
/* Records dim % multiple == 0 unless it holds anyway. */
void kiln_guard_multiple(kiln_arena_t *arena, kiln_guards_t *guards, kiln_dim_t dim, int64_t multiple);
/* Records dim < bound. */
void kiln_guard_below(kiln_arena_t *arena, kiln_guards_t *guards, kiln_dim_t dim, int64_t bound);

#endif
