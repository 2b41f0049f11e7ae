/* server/verdict.h: late verdicts: kernels that turn out to be unfit once they are compiled.
 *
 *   plan -> kernels compiled -> a kernel spills registers, or took too long -> plan once more with its group
 *   divided -> ... at most VERDICT_MAX_ROUNDS times
 *
 * A plan's verdicts are a list; planning the same graph and applying the list gives the same plan again, in
 * any worker. The list is kept with the plan, so that a plan from the cache is judged no more. A flight of
 * the daemon judges (flight_plan.c), a worker applies (worker.c); `--local` commands do both.
 */
#ifndef KILN_SERVER_VERDICT_H
#define KILN_SERVER_VERDICT_H

#include "ir/mpack.h"
#include "runtime/compile.h"
#include "server/pipeline.h"

enum { VERDICT_MAX_ROUNDS = 4 };
#define VERDICT_SLOW_NS 30000000000ull /* where no option says another */

typedef struct {
  uint32_t round; /* 0, 1 ...: verdicts of one round are on launches of one plan */
  kiln_verdict_t verdict;
} verdict_t;

typedef struct {
  verdict_t *items;
  size_t count, capacity;
} verdicts_t;

/* Why a compiled kernel is unfit; NULL when it is fit. compile_ns is 0 for a kernel that was found in a
 * cache. */
const char *verdict_of(kiln_arena_t *arena, const kiln_kernel_artifact_t *artifact, uint64_t compile_ns,
                       uint64_t slow_ns);
/* The round that comes next. */
uint32_t verdicts_next_round(const verdicts_t *verdicts);
void verdicts_add(kiln_arena_t *arena, verdicts_t *verdicts, uint32_t round, uint32_t launch,
                  const char *why);
/* Divides a pipeline that was just generated, round after round. INTERNAL when they are not of this graph. */
kiln_status_t verdicts_apply(kiln_arena_t *arena, const verdicts_t *verdicts, const kiln_target_t *target,
                             const kiln_options_t *options, const kiln_symbol_class_t *symbol_class,
                             kiln_pipeline_t *pipeline);

/* [[round, launch, why] ...] */
void verdicts_encode(const verdicts_t *verdicts, kiln_buffer_t *out);
/* False on anything else. */
bool verdicts_decode(kiln_arena_t *arena, const kiln_mpack_t *list, verdicts_t *out);

#endif
