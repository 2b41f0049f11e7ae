/* passes/replica.h: a value seen as copies of a smaller one: what repetition makes and delay moves.
 *
 * Two kinds that must never be mixed up: a tile, y[k] = x[k mod N], is a `repeat`; an interleave, y[k] = x[k
 * / times], is reshape -> expand -> reshape with the new axis behind the repeated one. Inside passes/ only.
 */
#ifndef KILN_PASSES_REPLICA_H
#define KILN_PASSES_REPLICA_H

#include "passes/rewrite.h"

typedef struct {
  kiln_value_id_t base;         /* the elements of the value that is repeated, perhaps in another shape */
  kiln_type_t inner;            /* its type as it is repeated; the rank of the repeated value */
  int64_t times[KILN_MAX_RANK]; /* per axis; 1: not repeated */
  bool interleave;              /* else a tile */
} replica_t;

bool replica_match(const rewrite_t *rw, kiln_value_id_t value, replica_t *out);
/* The value that is repeated, in the shape in which it is repeated. */
kiln_value_id_t replica_inner(rewrite_t *rw, const replica_t *replica);
/* Makes the draft the repetition of inner: `times` and `interleave` of the replica, one entry per axis of the
 * draft. */
bool replica_build(rewrite_t *rw, draft_t *draft, kiln_value_id_t inner, const replica_t *replica);

#endif
