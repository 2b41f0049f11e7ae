/* passes/spaces.h: iteration spaces of reductions and contractions, and which values are laid out along them.
 *
 * A kernel of a reduction has a thread or more for each *row*: the elements that are reduced together. What
 * it computes has one element per point of the space (FULL: a normalized row) or one per row (KEPT: a sum). A
 * kernel of a contraction has one element per product sum (FULL). Whether a node fits is a matter of shapes:
 * axes of size 1 do not count, the others must stand in the space's order. Asked by passes/regions.c.
 */
#ifndef KILN_PASSES_SPACES_H
#define KILN_PASSES_SPACES_H

#include "ir/graph.h"

typedef struct {
  bool is_rows;     /* of a reduction or a normalization; else of a contraction */
  uint32_t rank;    /* axes of size 1 left out */
  uint32_t reduced; /* bit i: axis i runs along the row */
  kiln_dim_t dims[KILN_MAX_RANK];
} space_t;

typedef enum { FORM_FULL, FORM_KEPT } form_t;

/* The space of a reduction, normalization or contraction node, and the form of its result there. */
space_t space_of_node(const kiln_graph_t *graph, const kiln_node_t *node, form_t *out_form);
bool spaces_equal(const space_t *a, const space_t *b);
/* Has the type the space's axes (for FORM_KEPT: those that are not reduced), in order? */
bool has_form(const space_t *space, const kiln_type_t *type, form_t form);
/* Can a value of this type and form be broadcast to the result such that each element stays on its row? */
bool stays_in_place(const space_t *space, const kiln_type_t *operand, form_t form, const kiln_type_t *result,
                    form_t result_form);

#endif
