/* server/flight_verdict.c: judges the kernels of a plan flight once all of them are there; see
 * server/verdict.h.
 *
 * Verdicts that the plan was made with come first, so that the whole list makes the next plan. A plan that
 * was found on disk is judged too: kernels may have been compiled for another kind of image since, which
 * tells spills.
 */
#include "server/flight_parts.h"
#include "server/server.h"

/* The verdicts that the plan was made with; returns the round that comes next. */
static uint32_t start_list(plan_flight_t *plan) {
  const verdicts_t *earlier = &plan->variant->recipe.verdicts;
  plan->verdicts = (verdicts_t){0};
  for (size_t i = 0; i < earlier->count; i++) {
    const verdict_t *one = &earlier->items[i];
    verdicts_add(&plan->arena, &plan->verdicts, one->round, one->verdict.group,
                 kiln_arena_strdup(&plan->arena, one->verdict.why));
  }
  return verdicts_next_round(earlier);
}

/* A verdict on each launch of the kernel. */
static void add_verdicts(plan_flight_t *plan, uint32_t kernel, uint32_t round, const char *why) {
  const recipe_t *recipe = &plan->variant->recipe;
  for (uint32_t i = 0; i < recipe->plan->launch_count; i++) {
    if (recipe->launch_kernels[i] == kernel) verdicts_add(&plan->arena, &plan->verdicts, round, i, why);
  }
  plan->flight.server->counters[COUNTER_late_verdicts]++;
}

static kiln_status_t judge_kernel(plan_flight_t *plan, uint32_t kernel, uint32_t round) {
  const kiln_buffer_t *bytes = &plan->variant->kernels[kernel]->artifact;
  kiln_kernel_artifact_t artifact;
  KILN_TRY(kiln_kernel_artifact_decode(&plan->arena, bytes->data, bytes->size, &artifact));
  const char *why = verdict_of(&plan->arena, &artifact, plan->interests[kernel].compile_ns,
                               plan->flight.server->config->slow_compile);
  if (why) add_verdicts(plan, kernel, round, why);
  return NULL;
}

static kiln_status_t judge_all(void *argument) {
  plan_flight_t *plan = argument;
  const recipe_t *recipe = &plan->variant->recipe;
  uint32_t round = start_list(plan);
  for (uint32_t i = 0; round < VERDICT_MAX_ROUNDS && i < recipe->kernel_count; i++) {
    if (!recipe->kernels[i].stands) KILN_TRY(judge_kernel(plan, i, round));
  }
  return NULL;
}

/* When memory is too short to judge, the plan is taken as it is. */
static bool judge(plan_flight_t *plan, kiln_arena_guarded_t function, void *argument) {
  kiln_status_t status = kiln_arena_guard(&plan->arena, function, argument);
  bool unfit = !status && plan->verdicts.count > plan->variant->recipe.verdicts.count;
  kiln_status_free(status);
  return unfit;
}

bool plan_flight_judge(plan_flight_t *plan) { return judge(plan, judge_all, plan); }

/* --- a compile that was stopped ------------------------------------------------------------------------ */

typedef struct {
  plan_flight_t *plan;
  uint32_t kernel;
} condemned_t;

static kiln_status_t condemn(void *argument) {
  const condemned_t *condemned = argument;
  plan_flight_t *plan = condemned->plan;
  uint32_t round = start_list(plan);
  double limit_s = (double)plan->flight.server->config->compile_timeout / 1e9;
  if (round < VERDICT_MAX_ROUNDS && !plan->variant->recipe.kernels[condemned->kernel].stands)
    add_verdicts(plan, condemned->kernel, round,
                 kiln_arena_printf(&plan->arena, "the kernel's compile was stopped after %g s", limit_s));
  return NULL;
}

bool plan_flight_condemn(plan_flight_t *plan, uint32_t kernel) {
  condemned_t condemned = {plan, kernel};
  return judge(plan, condemn, &condemned);
}
