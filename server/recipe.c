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
    kiln_mpack_array(out, 4);
    kiln_mpack_bin(out, &keys[distinct[i]], sizeof *keys);
    kiln_mpack_str(out, kernel->entry);
    kiln_mpack_str(out, kernel->source);
    kiln_mpack_bool(out, kiln_pipeline_stands(pipeline, distinct[i]));
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

/* --- out: what groups move ---------------------------------------------------------------------------- */

/* Of a graph, with its symbols at their typical values. */
typedef struct {
  kiln_arena_t *arena;
  const kiln_graph_t *graph;
  const kiln_grouping_t *grouping;
  int64_t symbols[KILN_MAX_SYMBOLS];
  bool *seen; /* per graph input: an earlier group has read it */
  kiln_buffer_t *out;
} teller_t;

static int64_t bytes_of(const teller_t *t, kiln_value_id_t value) {
  const kiln_type_t *type = &t->graph->types[value];
  int64_t bytes = (int64_t)kiln_dtype_bytes(type->dtype), size;
  for (uint32_t i = 0; i < type->rank; i++) {
    if (!kiln_dim_eval(type->dims[i], t->symbols, &size) || __builtin_mul_overflow(bytes, size, &bytes))
      return INT64_MAX;
  }
  return bytes;
}

static bool takes_a_part(const kiln_node_t *node, uint32_t operand) {
  bool looks_up = node->op == KILN_OP_gather || node->op == KILN_OP_embedding;
  return node->op == KILN_OP_slice || (looks_up && operand == 0);
}

/* At most this much of a value that the group reads: a slice or a look-up takes what it gives. */
static int64_t bytes_read_of(const teller_t *t, const kiln_group_t *group, kiln_value_id_t value) {
  int64_t all = bytes_of(t, value), part = 0;
  for (uint32_t n = 0; n < group->node_count; n++) {
    const kiln_node_t *node = &t->graph->nodes[group->nodes[n]];
    for (uint32_t i = 0; i < node->operand_count; i++) {
      if (node->operands[i] != value) continue;
      int64_t taken = takes_a_part(node, i) ? bytes_of(t, node->first_result) : all;
      if (__builtin_add_overflow(part, taken, &part) || part >= all) return all;
    }
  }
  return part ? part : all; /* no node: it is copied */
}

static void put_name(const teller_t *t, kiln_value_id_t value) {
  kiln_mpack_str(t->out, kiln_graph_value_name(t->arena, t->graph, value));
}

/* bytes_read and bytes_written are what the group's boundaries cost; bytes_fewest is the part that no
 * grouping avoids: the first read of an input, the results. */
static void put_traffic(const teller_t *t, const kiln_group_t *group) {
  double read = 0, written = 0, fewest = 0;
  for (uint32_t i = 0; i < group->input_count; i++) {
    kiln_value_id_t value = group->inputs[i];
    double bytes = (double)bytes_read_of(t, group, value);
    read += bytes;
    if (value >= t->graph->input_count || t->seen[value]) continue;
    t->seen[value] = true;
    fewest += bytes;
  }
  for (uint32_t i = 0; i < group->store_count; i++) {
    double bytes = (double)bytes_of(t, group->stores[i].value);
    written += bytes;
    if (group->stores[i].buffer.kind == KILN_BUFFER_OUTPUT) fewest += bytes;
  }
  kiln_mpack_member_int(t->out, "bytes_read", (int64_t)read);
  kiln_mpack_member_int(t->out, "bytes_written", (int64_t)written);
  kiln_mpack_member_int(t->out, "bytes_fewest", (int64_t)fewest);
}

static void put_group(const teller_t *t, const kiln_group_t *group) {
  kiln_mpack_map(t->out, 10);
  kiln_mpack_member_str(t->out, "kind", group->kind);
  kiln_mpack_member_uint(t->out, "nodes", group->node_count);
  kiln_mpack_member_uint(t->out, "members", group->member_count);
  kiln_mpack_member_uint(t->out, "level", group->level);
  kiln_mpack_member_str(t->out, "reason", group->reason);
  kiln_mpack_member_array(t->out, "reads", group->input_count);
  for (uint32_t i = 0; i < group->input_count; i++) put_name(t, group->inputs[i]);
  kiln_mpack_member_array(t->out, "stores", group->store_count);
  for (uint32_t i = 0; i < group->store_count; i++) put_name(t, group->stores[i].value);
  put_traffic(t, group);
}

/* A value that one launch stores and others read: what it costs and why. */
static void put_boundary(const teller_t *t, uint32_t temp) {
  kiln_value_id_t value = t->grouping->temp_values[temp];
  kiln_mpack_map(t->out, 3);
  kiln_mpack_str(t->out, "value");
  put_name(t, value);
  kiln_mpack_member_int(t->out, "bytes", bytes_of(t, value));
  kiln_mpack_member_str(t->out, "reason", t->grouping->temp_reasons[temp]);
}

static void put_grouping(kiln_arena_t *arena, const kiln_pipeline_t *pipeline, kiln_buffer_t *out) {
  const kiln_graph_t *graph = pipeline->optimized;
  const kiln_grouping_t *grouping = pipeline->grouping;
  teller_t teller = {.arena = arena,
                     .graph = graph,
                     .grouping = grouping,
                     .seen = KILN_NEW_ARRAY(arena, bool, graph->input_count),
                     .out = out};
  kiln_graph_typical_symbols(graph, teller.symbols);
  kiln_mpack_member_array(out, "typical", graph->symbol_count);
  for (uint32_t s = 0; s < graph->symbol_count; s++) kiln_mpack_int(out, teller.symbols[s]);
  kiln_mpack_member_array(out, "groups", grouping->group_count);
  for (uint32_t i = 0; i < grouping->group_count; i++) put_group(&teller, &grouping->groups[i]);
  kiln_mpack_member_array(out, "boundaries", grouping->temp_count);
  for (uint32_t i = 0; i < grouping->temp_count; i++) put_boundary(&teller, i);
}

/* --- out: the whole ------------------------------------------------------------------------------------- */

static void put_graph(kiln_arena_t *arena, const kiln_graph_t *graph, kiln_buffer_t *out) {
  kiln_buffer_t text;
  kiln_buffer_init(&text);
  kiln_text_print(arena, &text, graph);
  kiln_mpack_member_str(out, "graph", text.size <= MAX_GRAPH_TEXT_BYTES ? kiln_buffer_text(&text) : "");
  kiln_buffer_deinit(&text);
}

void recipe_encode(kiln_arena_t *arena, const kiln_pipeline_t *pipeline, const verdicts_t *verdicts,
                   const kiln_target_t *target, const char *identity, kiln_buffer_t *out) {
  uint32_t count = pipeline->grouping->group_count;
  kiln_digest_t *keys = KILN_NEW_ARRAY(arena, kiln_digest_t, count);
  for (uint32_t i = 0; i < count; i++)
    keys[i] = kiln_pipeline_kernel_key(pipeline->kernels[i].source, target, identity);
  kiln_buffer_t plan;
  kiln_buffer_init(&plan);
  kiln_plan_encode(kiln_pipeline_plan(arena, pipeline, keys), &plan);
  kiln_mpack_map(out, 9);
  kiln_mpack_member_bin(out, "plan", kiln_buffer_text(&plan), plan.size);
  out->failed |= plan.failed;
  kiln_buffer_deinit(&plan);
  put_kernels(arena, pipeline, keys, count, out);
  put_passes(&pipeline->passes, out);
  put_graph(arena, pipeline->optimized, out);
  put_grouping(arena, pipeline, out);
  kiln_mpack_str(out, "verdicts");
  verdicts_encode(verdicts, out);
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
  if (kiln_mpack_count(value) != 4 || !kiln_mpack_get_bin(kiln_mpack_item(value, 0), &key, &size) ||
      size != sizeof out->key || !kiln_mpack_get_bool(kiln_mpack_item(value, 3), &out->stands))
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
  if (!verdicts_decode(arena, kiln_mpack_find(out->explain, "verdicts"), &out->verdicts))
    return kiln_error(KILN_INTERNAL, "a stored plan's late verdicts cannot be read");
  return NULL;
}
