/* server/recipe.h: everything that planning a graph gives: the plan, its kernels' sources, and what explain
 * tells of it.
 *
 * Made by a compile worker from the pipeline's result, kept by the server as one body of bytes in the plan
 * cache, memory and disk. With the sources beside the plan a lost kernel is compiled again without planning.
 * It depends on its key only: no names, times or paths inside.
 */
#ifndef KILN_SERVER_RECIPE_H
#define KILN_SERVER_RECIPE_H

#include "ir/mpack.h"
#include "server/verdict.h"

typedef struct {
  kiln_digest_t key; /* kernel key */
  const char *entry, *source;
  bool stands; /* unfit, and taken as it is: not judged again */
} recipe_kernel_t;

typedef struct {
  const kiln_plan_t *plan;
  const void *plan_bytes;
  size_t plan_size;
  recipe_kernel_t *kernels; /* distinct */
  uint32_t kernel_count;
  uint32_t *launch_kernels; /* per launch: its kernel */
  verdicts_t verdicts;      /* that were applied */
  const kiln_mpack_t
      *explain; /* the whole map: "passes", "repetitions", "graph", "typical", "groups", "boundaries" */
} recipe_t;

/* verdicts: those that the pipeline was divided by. identity: of the compiler that will compile the kernels;
 * it enters their keys. */
void recipe_encode(kiln_arena_t *arena, const kiln_pipeline_t *pipeline, const verdicts_t *verdicts,
                   const kiln_target_t *target, const char *identity, kiln_buffer_t *out);
/* The bytes must outlive the result. INTERNAL on bytes that recipe_encode would not have written. */
kiln_status_t recipe_decode(kiln_arena_t *arena, const void *bytes, size_t size, recipe_t *out);

#endif
