/* server/explanation.h: what explain tells of a compiled graph, in one form for the daemon and for --local.
 *
 *   recipe (passes, groups, boundaries, launches) + artifacts (registers, shared memory) + target -> pairs of
 * a map (docs/wire.md, "explain"): bytes, occupancy and sources beside each other
 *
 * Nothing is compiled here: what a plan in a cache holds is enough.
 */
#ifndef KILN_SERVER_EXPLANATION_H
#define KILN_SERVER_EXPLANATION_H

#include "server/recipe.h"

typedef struct {
  const recipe_t *recipe;
  const kiln_kernel_artifact_t *artifacts; /* per kernel of the recipe */
  const kiln_target_t *target;
  const char *target_name;
  const kiln_symbol_t *symbols; /* with the names of the client's graph */
  uint32_t symbol_count;
  /* what the key is made of */
  const kiln_digest_t *graph_hash;
  const kiln_options_t *options;
  const kiln_symbol_class_t *symbol_class;
  const char *compiler;
} explanation_t;

enum { EXPLANATION_PAIRS = 9 };

/* Appends EXPLANATION_PAIRS pairs of a map. */
void explanation_put(kiln_arena_t *arena, const explanation_t *explanation, kiln_buffer_t *out);

#endif
