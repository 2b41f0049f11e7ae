/* server/verdict.c: what makes a kernel unfit, and lists of verdicts; see verdict.h. */
#include "server/verdict.h"

const char *verdict_of(kiln_arena_t *arena, const kiln_kernel_artifact_t *artifact, uint64_t compile_ns,
                       uint64_t slow_ns) {
  if (artifact->spill_store_bytes > 0 || artifact->spill_load_bytes > 0)
    return kiln_arena_printf(arena, "the kernel spilled %d bytes of registers",
                             artifact->spill_store_bytes > artifact->spill_load_bytes
                                 ? artifact->spill_store_bytes
                                 : artifact->spill_load_bytes);
  if (slow_ns && compile_ns > slow_ns)
    return kiln_arena_printf(arena, "the kernel took more than %g s to compile", (double)slow_ns / 1e9);
  return NULL;
}

uint32_t verdicts_next_round(const verdicts_t *verdicts) {
  return verdicts->count ? verdicts->items[verdicts->count - 1].round + 1 : 0;
}

void verdicts_add(kiln_arena_t *arena, verdicts_t *verdicts, uint32_t round, uint32_t launch,
                  const char *why) {
  const verdict_t one = {round, {launch, why}};
  KILN_PUSH(arena, verdicts->items, verdicts->count, verdicts->capacity, one);
}

/* Verdicts [first, the result) are of one round, in out. */
static size_t take_round(const verdicts_t *verdicts, size_t first, kiln_verdict_t *out) {
  size_t end = first;
  for (; end < verdicts->count && verdicts->items[end].round == verdicts->items[first].round; end++)
    out[end - first] = verdicts->items[end].verdict;
  return end;
}

kiln_status_t verdicts_apply(kiln_arena_t *arena, const verdicts_t *verdicts, const kiln_target_t *target,
                             const kiln_options_t *options, const kiln_symbol_class_t *symbol_class,
                             kiln_pipeline_t *pipeline) {
  kiln_verdict_t *round = KILN_NEW_ARRAY(arena, kiln_verdict_t, verdicts->count);
  for (size_t first = 0, end; first < verdicts->count; first = end) {
    end = take_round(verdicts, first, round);
    for (size_t i = 0; i < end - first; i++) {
      if (round[i].group >= pipeline->grouping->group_count)
        return kiln_error(KILN_INTERNAL, "a late verdict is on launch %u of a plan of %u", round[i].group,
                          pipeline->grouping->group_count);
    }
    KILN_TRY(kiln_pipeline_divide(arena, target, options, symbol_class, round, end - first, pipeline));
  }
  return NULL;
}

void verdicts_encode(const verdicts_t *verdicts, kiln_buffer_t *out) {
  kiln_mpack_array(out, verdicts->count);
  for (size_t i = 0; i < verdicts->count; i++) {
    kiln_mpack_array(out, 3);
    kiln_mpack_uint(out, verdicts->items[i].round);
    kiln_mpack_uint(out, verdicts->items[i].verdict.group);
    kiln_mpack_str(out, verdicts->items[i].verdict.why);
  }
}

bool verdicts_decode(kiln_arena_t *arena, const kiln_mpack_t *list, verdicts_t *out) {
  if (!list || kiln_mpack_kind(list) != KILN_MPACK_ARRAY) return false;
  for (size_t i = 0; i < kiln_mpack_count(list); i++) {
    const kiln_mpack_t *item = kiln_mpack_item(list, i);
    const char *why;
    size_t size;
    uint64_t round, launch;
    if (kiln_mpack_count(item) != 3 || !kiln_mpack_get_uint(kiln_mpack_item(item, 0), &round) ||
        !kiln_mpack_get_uint(kiln_mpack_item(item, 1), &launch) ||
        !kiln_mpack_get_str(kiln_mpack_item(item, 2), &why, &size) || round > VERDICT_MAX_ROUNDS ||
        launch > UINT32_MAX)
      return false;
    verdicts_add(arena, out, (uint32_t)round, (uint32_t)launch, kiln_arena_strndup(arena, why, size));
  }
  return true;
}
