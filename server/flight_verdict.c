/* server/flight_verdict.c: judges the kernels of a plan flight once all of them are there; see
 * server/verdict.h.
 *
 * Verdicts that the plan was made with come first, so that the whole list makes the next plan. A plan that
 * was found on disk is judged too: kernels may have been compiled for another kind of image since, which
 * tells spills.
 */
#include "server/flight_parts.h"
#include "server/server.h"

/* Adds a verdict for each launch of a kernel that is unfit. Runs in an arena guard. */
static kiln_status_t judge_kernel(plan_flight_t *plan, uint32_t index, uint32_t round) {
  const recipe_t *recipe = &plan->variant->recipe;
  const kiln_buffer_t *bytes = &plan->variant->kernels[index]->artifact;
  kiln_kernel_artifact_t artifact;
  if (recipe->kernels[index].stands) return NULL;
  KILN_TRY(kiln_kernel_artifact_decode(&plan->arena, bytes->data, bytes->size, &artifact));
  const char *why = verdict_of(&plan->arena, &artifact, plan->interests[index].compile_ns,
                               plan->flight.server->config->slow_compile);
  for (uint32_t i = 0; why && i < recipe->plan->launch_count; i++) {
    if (recipe->launch_kernels[i] == index) verdicts_add(&plan->arena, &plan->verdicts, round, i, why);
  }
  if (why) plan->flight.server->counters[COUNTER_late_verdicts]++;
  return NULL;
}

static kiln_status_t judge(void *argument) {
  plan_flight_t *plan = argument;
  const recipe_t *recipe = &plan->variant->recipe;
  uint32_t round = verdicts_next_round(&recipe->verdicts);
  plan->verdicts = (verdicts_t){0};
  for (size_t i = 0; i < recipe->verdicts.count; i++) {
    const verdict_t *earlier = &recipe->verdicts.items[i];
    verdicts_add(&plan->arena, &plan->verdicts, earlier->round, earlier->verdict.group,
                 kiln_arena_strdup(&plan->arena, earlier->verdict.why));
  }
  for (uint32_t i = 0; round < VERDICT_MAX_ROUNDS && i < recipe->kernel_count; i++)
    KILN_TRY(judge_kernel(plan, i, round));
  return NULL;
}

/* When memory is too short to judge, the plan is taken as it is. */
bool plan_flight_judge(plan_flight_t *plan) {
  kiln_status_t status = kiln_arena_guard(&plan->arena, judge, plan);
  bool unfit = !status && plan->verdicts.count > plan->variant->recipe.verdicts.count;
  kiln_status_free(status);
  return unfit;
}
