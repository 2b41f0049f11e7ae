/* server/recipe.c: recipes as MessagePack and back. */
#include "server/recipe.h"

#include "base/map.h"
#include "ir/text.h"

#include <string.h>

enum { MAX_GRAPH_TEXT_BYTES = 1 << 20 }; /* a longer one is of no use to a reader */

/* --- out -------------------------------------------------------------------------------------------- */

static void put_kernels(kiln_arena_t *arena, const kiln_pipeline_t *pipeline, const kiln_digest_t *keys,
                        uint32_t count, kiln_buffer_t *out) {
  kiln_map_t *seen = kiln_map_create(arena);
  uint32_t *distinct = KILN_NEW_ARRAY(arena, uint32_t, count), distinct_count = 0;
  for (uint32_t i = 0; i < count; i++) {
    bool added;
    kiln_map_put(seen, &keys[i], sizeof keys[i], &added);
    if (added) distinct[distinct_count++] = i;
  }
  kiln_mpack_member_array(out, "kernels", distinct_count);
  for (uint32_t i = 0; i < distinct_count; i++) {
    const kiln_kernel_source_t *kernel = &pipeline->kernels[distinct[i]];
    kiln_mpack_array(out, 3);
    kiln_mpack_bin(out, &keys[distinct[i]], sizeof *keys);
    kiln_mpack_str(out, kernel->entry);
    kiln_mpack_str(out, kernel->source);
  }
}

static void put_passes(const kiln_pass_report_t *report, kiln_buffer_t *out) {
  kiln_mpack_member_array(out, "passes", report->record_count);
  for (size_t i = 0; i < report->record_count; i++) {
    kiln_mpack_map(out, 2);
    kiln_mpack_member_str(out, "name", report->records[i].name);
    kiln_mpack_member_uint(out, "applied", report->records[i].applied);
  }
  kiln_mpack_member_uint(out, "repetitions", report->repetitions);
}

static void put_groups(const kiln_grouping_t *grouping, kiln_buffer_t *out) {
  kiln_mpack_member_array(out, "groups", grouping->group_count);
  for (uint32_t i = 0; i < grouping->group_count; i++) {
    const kiln_group_t *group = &grouping->groups[i];
    kiln_mpack_map(out, 5);
    kiln_mpack_member_str(out, "kind", group->kind);
    kiln_mpack_member_uint(out, "nodes", group->node_count);
    kiln_mpack_member_uint(out, "members", group->member_count);
    kiln_mpack_member_uint(out, "level", group->level);
    kiln_mpack_member_str(out, "reason", group->reason);
  }
}

static void put_graph(kiln_arena_t *arena, const kiln_graph_t *graph, kiln_buffer_t *out) {
  kiln_buffer_t text;
  kiln_buffer_init(&text);
  kiln_text_print(arena, &text, graph);
  kiln_mpack_member_str(out, "graph", text.size <= MAX_GRAPH_TEXT_BYTES ? kiln_buffer_text(&text) : "");
  kiln_buffer_deinit(&text);
}

void recipe_encode(kiln_arena_t *arena, const kiln_pipeline_t *pipeline, const kiln_target_t *target,
                   const char *identity, kiln_buffer_t *out) {
  uint32_t count = pipeline->grouping->group_count;
  kiln_digest_t *keys = KILN_NEW_ARRAY(arena, kiln_digest_t, count);
  for (uint32_t i = 0; i < count; i++)
    keys[i] = kiln_pipeline_kernel_key(pipeline->kernels[i].source, target, identity);
  kiln_buffer_t plan;
  kiln_buffer_init(&plan);
  kiln_plan_encode(kiln_pipeline_plan(arena, pipeline, keys), &plan);
  kiln_mpack_map(out, 6);
  kiln_mpack_member_bin(out, "plan", kiln_buffer_text(&plan), plan.size);
  out->failed |= plan.failed;
  kiln_buffer_deinit(&plan);
  put_kernels(arena, pipeline, keys, count, out);
  put_passes(&pipeline->passes, out);
  put_graph(arena, pipeline->optimized, out);
  put_groups(pipeline->grouping, out);
}

/* --- in --------------------------------------------------------------------------------------------- */

static bool get_text(kiln_arena_t *arena, const kiln_mpack_t *value, const char **out) {
  const char *text;
  size_t size;
  if (!value || !kiln_mpack_get_str(value, &text, &size)) return false;
  *out = kiln_arena_strndup(arena, text, size);
  return true;
}

static bool get_kernel(kiln_arena_t *arena, const kiln_mpack_t *value, recipe_kernel_t *out) {
  const void *key;
  size_t size;
  if (kiln_mpack_count(value) != 3 || !kiln_mpack_get_bin(kiln_mpack_item(value, 0), &key, &size) ||
      size != sizeof out->key)
    return false;
  memcpy(&out->key, key, size);
  return get_text(arena, kiln_mpack_item(value, 1), &out->entry) &&
         get_text(arena, kiln_mpack_item(value, 2), &out->source);
}

static bool get_kernels(kiln_arena_t *arena, const kiln_mpack_t *list, recipe_t *out) {
  size_t count = kiln_mpack_count(list);
  out->kernels = KILN_NEW_ARRAY(arena, recipe_kernel_t, count);
  kiln_map_t *by_key = kiln_map_create(arena);
  for (size_t i = 0; i < count; i++) {
    if (!get_kernel(arena, kiln_mpack_item(list, i), &out->kernels[i])) return false;
    *kiln_map_put(by_key, &out->kernels[i].key, sizeof out->kernels[i].key, NULL) = i;
  }
  out->kernel_count = (uint32_t)count;
  out->launch_kernels = KILN_NEW_ARRAY(arena, uint32_t, out->plan->launch_count);
  for (uint32_t i = 0; i < out->plan->launch_count; i++) {
    const uint64_t *kernel = kiln_map_find(by_key, &out->plan->launches[i].kernel, sizeof(kiln_digest_t));
    if (!kernel) return false;
    out->launch_kernels[i] = (uint32_t)*kernel;
  }
  return true;
}

kiln_status_t recipe_decode(kiln_arena_t *arena, const void *bytes, size_t size, recipe_t *out) {
  *out = (recipe_t){0};
  KILN_TRY(kiln_mpack_decode(arena, bytes, size, &out->explain));
  const kiln_mpack_t *plan = kiln_mpack_find(out->explain, "plan");
  const kiln_mpack_t *kernels = kiln_mpack_find(out->explain, "kernels");
  if (!plan || !kernels || !kiln_mpack_get_bin(plan, &out->plan_bytes, &out->plan_size))
    return kiln_error(KILN_INTERNAL, "a stored plan has no plan or no kernels");
  KILN_TRY(kiln_plan_decode(arena, out->plan_bytes, out->plan_size, &out->plan));
  if (!get_kernels(arena, kernels, out))
    return kiln_error(KILN_INTERNAL, "a stored plan's kernels are not those of its launches");
  return NULL;
}
