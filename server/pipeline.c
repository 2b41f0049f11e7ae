/* server/pipeline.c: a graph's way to kernel sources and a plan, composed of passes and codegen.
 *
 * The one file that sees both; a compile worker runs it for a miss, commands for `kiln opt` and `--local`,
 * tests and fuzzers directly. Everything lives in the caller's arena. Errors say what was being done when
 * they happened.
 */
#include "server/pipeline.h"

#include <assert.h>
#include <string.h>

#include "base/map.h"
#include "ir/canonical.h"
#include "kiln_fingerprint.h"
#include "runtime/compile.h"

#define WIDE_ELEMENTS ((int64_t)1 << 31)

/* --- symbol classes ------------------------------------------------------------------------------------ */

static void add_extent(kiln_extents_t *extents, kiln_arena_t *arena, kiln_map_t *seen, kiln_dim_t elements) {
  if (kiln_dim_is_constant(elements)) {
    extents->wide |= elements.constant >= WIDE_ELEMENTS;
    return;
  }
  bool added;
  kiln_map_put(seen, elements.terms, elements.term_count * sizeof *elements.terms, &added);
  if (added)
    KILN_PUSH(arena, extents->counts, extents->count, extents->capacity, kiln_dim_copy(arena, elements));
}

kiln_extents_t kiln_pipeline_extents(kiln_arena_t *arena, kiln_arena_t *scratch, const kiln_graph_t *graph) {
  kiln_extents_t extents = {0};
  kiln_map_t *seen = kiln_map_create(scratch);
  for (uint32_t i = 0; i < graph->value_count; i++) {
    kiln_dim_t elements;
    if (kiln_type_elements(scratch, &graph->types[i], &elements)) add_extent(&extents, arena, seen, elements);
  }
  return extents;
}

/* The largest of 16, 8, 4, 2, 1 that divides the value. */
static int64_t largest_divisor(int64_t value) {
  int64_t power = 16;
  while (value % power) power /= 2;
  return power;
}

kiln_symbol_class_t kiln_pipeline_symbol_class(const kiln_extents_t *extents, uint32_t symbol_count,
                                               const int64_t *values) {
  kiln_symbol_class_t out = {.wide = extents->wide};
  int64_t all[KILN_MAX_SYMBOLS] = {0};
  bool all_known = true;
  for (uint32_t s = 0; s < KILN_MAX_SYMBOLS; s++) {
    bool known = s < symbol_count && values[s] >= 0;
    if (known) all[s] = values[s];
    all_known &= known || s >= symbol_count;
    out.multiple[s] = known ? largest_divisor(values[s]) : 1;
  }
  for (size_t i = 0; all_known && !out.wide && i < extents->count; i++) {
    int64_t elements;
    out.wide = !kiln_dim_eval(extents->counts[i], all, &elements) || elements >= WIDE_ELEMENTS;
  }
  return out;
}

/* Each divides every unfit group in two; see passes/late_cuts.c. */
enum { MOST_ROUNDS = 32 };

/* --- from graph to kernels ----------------------------------------------------------------------------- */

static kiln_status_t group(kiln_arena_t *arena, const kiln_target_t *target, const kiln_options_t *options,
                           kiln_pipeline_t *out) {
  kiln_families_t families = kiln_codegen_families();
  kiln_status_t status =
      kiln_group(arena, out->optimized, &families, target, options, &out->cuts, &out->grouping);
  return kiln_error_note(status, "grouping graph '%s'", out->optimized->name);
}

kiln_status_t kiln_pipeline_optimize(kiln_arena_t *arena, const kiln_graph_t *graph,
                                     const kiln_target_t *target, const kiln_options_t *options,
                                     const kiln_pass_run_t *run, kiln_pipeline_t *out) {
  *out = (kiln_pipeline_t){0};
  kiln_status_t status = kiln_graph_verify(arena, graph, &out->constraints);
  if (status) return kiln_error_note(status, "verifying graph '%s'", graph->name);
  out->input = kiln_graph_canonicalize(arena, graph);
  out->hash = kiln_graph_hash(arena, out->input);
  status = kiln_passes_run(arena, out->input, options, run, &out->optimized, &out->passes);
  if (status) return kiln_error_note(status, "optimizing graph '%s'", graph->name);
  return group(arena, target, options, out);
}

/* Kernels of all groups. Those that codegen refuses are cut in two, and *out_again is set: the graph must be
 * grouped once more. */
static kiln_status_t generate_once(kiln_arena_t *arena, const kiln_codegen_context_t *context,
                                   kiln_pipeline_t *out, bool *out_again) {
  uint32_t count = out->grouping->group_count;
  kiln_kernel_source_t *kernels = KILN_NEW_ARRAY(arena, kiln_kernel_source_t, count);
  for (uint32_t i = 0; i < count; i++) {
    kiln_status_t status = kiln_codegen_group(arena, out->optimized, out->grouping, i, context, &kernels[i]);
    if (!status) continue;
    const char *why = kiln_arena_strdup(arena, kiln_status_message(status));
    bool is_refused =
        kiln_status_code(status) == KILN_TOO_LARGE || kiln_status_code(status) == KILN_UNSUPPORTED;
    if (!is_refused || !kiln_cut_group(arena, out->optimized, &out->grouping->groups[i], why, &out->cuts))
      return kiln_error_note(status, "generating kernel %u of graph '%s'", i, out->optimized->name);
    kiln_status_free(status);
    *out_again = true;
  }
  out->kernels = kernels;
  return NULL;
}

static kiln_status_t generate(kiln_arena_t *arena, const kiln_target_t *target, const kiln_options_t *options,
                              const kiln_symbol_class_t *symbol_class, kiln_pipeline_t *out) {
  kiln_codegen_context_t context = {target, options, symbol_class, &out->guards, NULL, NULL};
  for (int round = 0; round < MOST_ROUNDS; round++) {
    bool again = false;
    out->guards = (kiln_guards_t){0};
    KILN_TRY(generate_once(arena, &context, out, &again));
    if (!again) return NULL;
    KILN_TRY(group(arena, target, options, out));
  }
  return kiln_error(KILN_TOO_LARGE, "graph '%s' cannot be cut into kernels that can be generated",
                    out->optimized->name);
}

kiln_status_t kiln_pipeline_generate(kiln_arena_t *arena, const kiln_graph_t *graph,
                                     const kiln_target_t *target, const kiln_options_t *options,
                                     const kiln_symbol_class_t *symbol_class, const kiln_pass_run_t *run,
                                     kiln_pipeline_t *out) {
  KILN_TRY(kiln_pipeline_optimize(arena, graph, target, options, run, out));
  return generate(arena, target, options, symbol_class, out);
}

static kiln_digest_t digest_of(const kiln_kernel_source_t *kernel) {
  return kiln_sha256(kernel->source, strlen(kernel->source));
}

bool kiln_pipeline_stands(const kiln_pipeline_t *pipeline, uint32_t launch) {
  if (!pipeline->standing) return false;
  kiln_digest_t digest = digest_of(&pipeline->kernels[launch]);
  return kiln_map_find(pipeline->standing, &digest, sizeof digest) != NULL;
}

/* Its source may be that of several launches, now or after the next grouping. */
static void let_stand(kiln_arena_t *arena, kiln_pipeline_t *pipeline, uint32_t launch) {
  if (!pipeline->standing) pipeline->standing = kiln_map_create(arena);
  kiln_digest_t digest = digest_of(&pipeline->kernels[launch]);
  kiln_map_put(pipeline->standing, &digest, sizeof digest, NULL);
}

kiln_status_t kiln_pipeline_divide(kiln_arena_t *arena, const kiln_target_t *target,
                                   const kiln_options_t *options, const kiln_symbol_class_t *symbol_class,
                                   const kiln_verdict_t *verdicts, size_t count, kiln_pipeline_t *pipeline) {
  size_t cuts_before = pipeline->cuts.count;
  for (size_t i = 0; i < count; i++) {
    const kiln_group_t *unfit = &pipeline->grouping->groups[verdicts[i].group];
    if (!kiln_cut_kernel(arena, pipeline->optimized, unfit, verdicts[i].why, &pipeline->cuts))
      let_stand(arena, pipeline, verdicts[i].group);
  }
  if (pipeline->cuts.count == cuts_before) return NULL;
  KILN_TRY(group(arena, target, options, pipeline));
  return generate(arena, target, options, symbol_class, pipeline);
}

/* --- the plan ------------------------------------------------------------------------------------------ */

static kiln_plan_tensor_t plan_tensor(kiln_arena_t *arena, const kiln_type_t *type,
                                      const kiln_layout_t *layout) {
  kiln_plan_tensor_t tensor = {.type = *type, .align_bytes = layout->align_bytes};
  if (layout->has_strides) {
    memcpy(tensor.strides, layout->strides, sizeof tensor.strides);
  } else {
    bool dense = kiln_type_strides(arena, type, tensor.strides);
    assert(dense); /* the verifier refuses types whose sizes leave 64 bits */
  }
  return tensor;
}

static const kiln_plan_tensor_t *plan_inputs(kiln_arena_t *arena, const kiln_graph_t *graph) {
  kiln_plan_tensor_t *inputs = KILN_NEW_ARRAY(arena, kiln_plan_tensor_t, graph->input_count);
  for (uint32_t i = 0; i < graph->input_count; i++) {
    inputs[i] = plan_tensor(arena, &graph->types[i], &graph->input_layouts[i]);
  }
  return inputs;
}

static const kiln_plan_tensor_t *plan_outputs(kiln_arena_t *arena, const kiln_graph_t *graph) {
  kiln_plan_tensor_t *outputs = KILN_NEW_ARRAY(arena, kiln_plan_tensor_t, graph->output_count);
  for (uint32_t i = 0; i < graph->output_count; i++) {
    outputs[i] = plan_tensor(arena, &graph->types[graph->outputs[i]], &graph->output_layouts[i]);
  }
  return outputs;
}

static kiln_dim_t bytes_of(kiln_arena_t *arena, const kiln_type_t *type) {
  kiln_dim_t bytes, element = kiln_dim_constant((int64_t)kiln_dtype_bytes(type->dtype));
  bool fits = kiln_type_elements(arena, type, &bytes) && kiln_dim_mul(arena, bytes, element, &bytes);
  assert(fits); /* as above */
  return bytes;
}

/* Per slot the sizes of the temporaries that live in it. */
static const kiln_plan_slot_t *plan_slots(kiln_arena_t *arena, const kiln_graph_t *graph,
                                          const kiln_grouping_t *grouping) {
  kiln_plan_slot_t *slots = KILN_NEW_ARRAY(arena, kiln_plan_slot_t, grouping->slot_count);
  kiln_dim_t **bytes = KILN_NEW_ARRAY(arena, kiln_dim_t *, grouping->slot_count);
  for (uint32_t t = 0; t < grouping->temp_count; t++) slots[grouping->temp_slots[t]].count++;
  for (uint32_t s = 0; s < grouping->slot_count; s++) {
    bytes[s] = KILN_NEW_ARRAY(arena, kiln_dim_t, slots[s].count);
    slots[s] = (kiln_plan_slot_t){.bytes = bytes[s], .count = slots[s].count};
  }
  for (uint32_t t = 0; t < grouping->temp_count; t++) {
    *bytes[grouping->temp_slots[t]]++ = bytes_of(arena, &graph->types[grouping->temp_values[t]]);
  }
  return slots;
}

/* The constants of a plan in the making: a node's data stands there once, however many kernels read it. */
typedef struct {
  kiln_plan_constant_t *items;
  size_t count, capacity;
  uint32_t *numbers; /* per node of the graph: its constant + 1 */
} constants_t;

static uint32_t number_of_constant(kiln_arena_t *arena, const kiln_graph_t *graph, constants_t *constants,
                                   uint32_t node) {
  if (!constants->numbers[node]) {
    kiln_plan_constant_t constant = {0};
    constant.data = kiln_codegen_constant(arena, graph, node, &constant.size);
    KILN_PUSH(arena, constants->items, constants->count, constants->capacity, constant);
    constants->numbers[node] = (uint32_t)constants->count;
  }
  return constants->numbers[node] - 1;
}

/* Codegen's slots name the node of a constant; those of a plan, the constant's place in the plan. */
static const kiln_slot_t *plan_slots_of(kiln_arena_t *arena, const kiln_graph_t *graph,
                                        const kiln_slot_t *named, size_t count, constants_t *constants) {
  kiln_slot_t *slots = kiln_arena_copy(arena, named, count * sizeof *slots);
  for (size_t i = 0; i < count; i++) {
    if (slots[i].kind != KILN_SLOT_CONSTANT) continue;
    slots[i].buffer.index = number_of_constant(arena, graph, constants, slots[i].buffer.index);
  }
  return slots;
}

static const kiln_table_t *plan_table(kiln_arena_t *arena, const kiln_graph_t *graph,
                                      const kiln_table_t *named, constants_t *constants) {
  if (!named) return NULL;
  kiln_table_t *table = kiln_arena_copy(arena, named, sizeof *table);
  table->cells =
      plan_slots_of(arena, graph, named->cells, (size_t)named->row_count * named->column_count, constants);
  return table;
}

static const kiln_launch_t *plan_launches(kiln_arena_t *arena, const kiln_pipeline_t *pipeline,
                                          const kiln_digest_t *kernel_keys, constants_t *constants) {
  uint32_t count = pipeline->grouping->group_count;
  kiln_launch_t *launches = KILN_NEW_ARRAY(arena, kiln_launch_t, count);
  for (uint32_t i = 0; i < count; i++) {
    const kiln_kernel_source_t *kernel = &pipeline->kernels[i];
    launches[i] = (kiln_launch_t){
        .kernel = kernel_keys[i],
        .entry = kernel->entry,
        .shared_bytes = kernel->shared_bytes,
        .scratch = kernel->scratch,
        .slots = plan_slots_of(arena, pipeline->optimized, kernel->slots, kernel->slot_count, constants),
        .table = plan_table(arena, pipeline->optimized, kernel->table, constants),
        .slot_count = kernel->slot_count};
    memcpy(launches[i].grid, kernel->grid, sizeof kernel->grid);
    memcpy(launches[i].block, kernel->block, sizeof kernel->block);
  }
  return launches;
}

const kiln_plan_t *kiln_pipeline_plan(kiln_arena_t *arena, const kiln_pipeline_t *pipeline,
                                      const kiln_digest_t *kernel_keys) {
  const kiln_graph_t *graph = pipeline->optimized;
  const kiln_grouping_t *grouping = pipeline->grouping;
  constants_t constants = {.numbers = KILN_NEW_ARRAY(arena, uint32_t, graph->node_count)};
  const kiln_launch_t *launches = plan_launches(arena, pipeline, kernel_keys, &constants);
  kiln_plan_t *plan = KILN_NEW(arena, kiln_plan_t);
  *plan = (kiln_plan_t){
      .symbol_count = graph->symbol_count,
      .inputs = plan_inputs(arena, graph),
      .input_count = graph->input_count,
      .outputs = plan_outputs(arena, graph),
      .output_count = graph->output_count,
      .slots = plan_slots(arena, graph, grouping),
      .slot_count = grouping->slot_count,
      .temp_slots = grouping->temp_slots,
      .temp_count = grouping->temp_count,
      .launches = launches,
      .launch_count = grouping->group_count,
      .constants = constants.items,
      .constant_count = (uint32_t)constants.count,
      .constraints = pipeline->constraints.items,
      .constraint_count = (uint32_t)pipeline->constraints.count,
      .guards = pipeline->guards.items,
      .guard_count = (uint32_t)pipeline->guards.count,
  };
  return plan;
}

/* --- keys ---------------------------------------------------------------------------------------------- */

static void hash_number(kiln_hasher_t *hasher, uint64_t number) {
  uint8_t bytes[8];
  for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)(number >> 8 * i);
  kiln_hasher_field(hasher, bytes, sizeof bytes);
}

/* Keys of different kinds differ even where their fields are the same. A server that cannot get these few
 * bytes cannot name its work either. */
static kiln_hasher_t *start_key(const char *kind) {
  kiln_hasher_t *hasher = kiln_hasher_create();
  assert(hasher);
  kiln_hasher_field(hasher, kind, strlen(kind));
  return hasher;
}

static void hash_text(kiln_hasher_t *hasher, const char *text) {
  kiln_hasher_field(hasher, text, strlen(text));
}

static void hash_target(kiln_hasher_t *hasher, const kiln_target_t *target) {
  hash_text(hasher, target->arch);
  const uint64_t numbers[] = {target->major,
                              target->minor,
                              target->sm_count,
                              target->shared_bytes_per_block,
                              target->shared_bytes_per_sm,
                              target->registers_per_sm,
                              target->threads_per_sm,
                              target->l2_bytes,
                              target->memory_bytes,
                              target->memory_gb_per_s};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) hash_number(hasher, numbers[i]);
}

static void hash_options(kiln_hasher_t *hasher, const kiln_options_t *options) {
  hash_number(hasher, options->excess_precision);
  hash_number(hasher, options->allow_tf32);
  hash_number(hasher, options->unfused);
}

kiln_digest_t kiln_pipeline_plan_key_of_hash(const kiln_digest_t *graph_hash, uint32_t symbol_count,
                                             const kiln_target_t *target, const kiln_options_t *options,
                                             const kiln_symbol_class_t *symbol_class,
                                             const char *compiler_identity) {
  kiln_hasher_t *hasher = start_key("plan");
  hash_text(hasher, KILN_FINGERPRINT);
  kiln_hasher_field(hasher, graph_hash->bytes, sizeof graph_hash->bytes);
  hash_target(hasher, target);
  hash_options(hasher, options);
  for (uint32_t i = 0; i < symbol_count; i++) hash_number(hasher, (uint64_t)symbol_class->multiple[i]);
  hash_number(hasher, symbol_class->wide);
  hash_text(hasher, compiler_identity);
  return kiln_hasher_finish(hasher);
}

kiln_digest_t kiln_pipeline_plan_key(kiln_arena_t *arena, const kiln_graph_t *canonical,
                                     const kiln_target_t *target, const kiln_options_t *options,
                                     const kiln_symbol_class_t *symbol_class, const char *compiler_identity) {
  kiln_digest_t graph = kiln_graph_hash(arena, canonical);
  return kiln_pipeline_plan_key_of_hash(&graph, canonical->symbol_count, target, options, symbol_class,
                                        compiler_identity);
}

kiln_digest_t kiln_pipeline_kernel_key(const char *source, const kiln_target_t *target,
                                       const char *compiler_identity) {
  kiln_hasher_t *hasher = start_key("kernel");
  hash_text(hasher, source);
  hash_target(hasher, target);
  hash_text(hasher, compiler_identity);
  hash_text(hasher, kiln_compiler_options());
  return kiln_hasher_finish(hasher);
}
