/* codegen/guards.c: what generated code relies on beyond the graph, each thing once. Called by vectorize.c
 * and emission. */
#include "codegen/lanes.h"

void kiln_guard_multiple(kiln_arena_t *arena, kiln_guards_t *guards, kiln_dim_t dim, int64_t multiple) {
  if (kiln_dim_multiple(dim, NULL) >= multiple) return;
  for (size_t i = 0; i < guards->count; i++) {
    kiln_guard_t *known = &guards->items[i];
    if (known->kind != KILN_GUARD_MULTIPLE || !kiln_dim_equal(known->dim, dim)) continue;
    if (known->bound < multiple) known->bound = multiple;
    return;
  }
  KILN_PUSH(arena, guards->items, guards->count, guards->capacity,
            (kiln_guard_t){KILN_GUARD_MULTIPLE, dim, multiple});
}

void kiln_guard_below(kiln_arena_t *arena, kiln_guards_t *guards, kiln_dim_t dim, int64_t bound) {
  for (size_t i = 0; i < guards->count; i++) {
    kiln_guard_t *known = &guards->items[i];
    if (known->kind != KILN_GUARD_BELOW || known->bound != bound) continue;
    if (kiln_dim_provably_ge(known->dim, dim)) return;
    if (kiln_dim_provably_ge(dim, known->dim)) {
      known->dim = dim;
      return;
    }
  }
  KILN_PUSH(arena, guards->items, guards->count, guards->capacity,
            (kiln_guard_t){KILN_GUARD_BELOW, dim, bound});
}
