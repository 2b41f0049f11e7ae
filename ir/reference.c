/* ir/reference.c: the reference evaluator's walk over a graph, its memory, and the comparison with what was
 * computed.
 *
 *   verify -> check symbols and inputs -> for each node: make results, evaluate by class, let go of what is
 * read out
 *
 * Values live on the heap, counted against the caller's limit, and go after their last use; one deferred call
 * on the arena frees what is left, outputs included, also when the arena unwinds. Nothing here recurses.
 */
#include "ir/reference_impl.h"

#include "ir/verify.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_LIMIT_BYTES (UINT64_C(8) << 30)

static kiln_status_t (*const evaluators[])(const kiln_ref_call_t *) = {
    [KILN_CLASS_ELEMENTWISE] = kiln_ref_elementwise, [KILN_CLASS_VIEW] = kiln_ref_view,
    [KILN_CLASS_CREATION] = kiln_ref_creation,       [KILN_CLASS_INDEXING] = kiln_ref_indexing,
    [KILN_CLASS_REDUCTION] = kiln_ref_reduction,     [KILN_CLASS_NORMALIZATION] = kiln_ref_normalization,
    [KILN_CLASS_CONTRACTION] = kiln_ref_contraction};

const kiln_ref_value_t *kiln_ref_operand(const kiln_ref_call_t *call, uint32_t index) {
  if (index >= call->node->operand_count || call->node->operands[index] == KILN_NO_VALUE) return NULL;
  return &call->run->values[call->node->operands[index]];
}

/* -- memory --------------------------------------------------------------------------------------------- */

void *kiln_ref_alloc(kiln_ref_run_t *run, int64_t count, size_t item_bytes) {
  uint64_t bytes;
  if (__builtin_mul_overflow((uint64_t)count, item_bytes, &bytes) ||
      bytes > run->limit_bytes - run->used_bytes) {
    run->refused = KILN_TOO_LARGE;
    return NULL;
  }
  void *memory = calloc(bytes ? bytes : 1, 1);
  if (memory)
    run->used_bytes += bytes;
  else
    run->refused = KILN_OUT_OF_MEMORY;
  return memory;
}

void kiln_ref_free(kiln_ref_run_t *run, void *memory, int64_t count, size_t item_bytes) {
  if (memory) run->used_bytes -= (uint64_t)count * item_bytes;
  free(memory);
}

static void release_value(kiln_ref_run_t *run, kiln_ref_value_t *value) {
  kiln_ref_free(run, value->bound, value->elements, sizeof *value->bound);
  if (value->owned)
    kiln_ref_free(run, value->tensor.data, value->elements, kiln_dtype_bytes(value->tensor.dtype));
  value->bound = NULL;
  value->tensor.data = NULL;
}

static void release_run(void *argument) {
  kiln_ref_run_t *run = argument;
  for (uint32_t v = 0; v < run->value_count; v++) release_value(run, &run->values[v]);
}

static kiln_status_t refusal(const kiln_ref_run_t *run) {
  if (!run->refused) return NULL;
  return kiln_error_detail(kiln_error(run->refused,
                                      "the reference evaluator needs more than %s (%llu MiB in use)",
                                      run->refused == KILN_TOO_LARGE ? "its limit" : "there is memory",
                                      (unsigned long long)(run->used_bytes >> 20)),
                           "where", "host");
}

/* -- setting out ---------------------------------------------------------------------------------------- */

static void count_uses(kiln_ref_run_t *run) {
  for (uint32_t n = 0; n < run->graph->node_count; n++) {
    const kiln_node_t *node = &run->graph->nodes[n];
    for (uint32_t i = 0; i < node->operand_count; i++)
      if (node->operands[i] != KILN_NO_VALUE) run->values[node->operands[i]].uses++;
  }
  for (uint32_t i = 0; i < run->graph->output_count; i++) run->values[run->graph->outputs[i]].uses++;
}

/* The graph's own rules, the inputs' types and the constraints on symbols. Leaves the symbols in the run. */
static kiln_status_t check(kiln_arena_t *arena, kiln_ref_run_t *run, const int64_t *symbols,
                           const kiln_tensor_t *inputs) {
  const kiln_graph_t *graph = run->graph;
  kiln_constraints_t constraints = {0};
  KILN_TRY(kiln_graph_verify(arena, graph, &constraints));
  if (graph->symbol_count) memcpy(run->symbols, symbols, graph->symbol_count * sizeof *symbols);
  KILN_TRY(kiln_symbols_bind(graph->symbols, graph->symbol_count, graph->types, graph->input_count, inputs,
                             run->symbols));
  return kiln_constraints_check(&constraints, run->symbols);
}

static void make_values(kiln_arena_t *arena, kiln_ref_run_t *run, const kiln_tensor_t *inputs) {
  run->value_count = run->graph->value_count;
  run->values = KILN_NEW_ARRAY(arena, kiln_ref_value_t, run->value_count);
  for (uint32_t i = 0; i < run->graph->input_count; i++)
    run->values[i] = (kiln_ref_value_t){.tensor = inputs[i], .elements = kiln_tensor_elements(&inputs[i])};
  count_uses(run);
  kiln_arena_defer(arena, release_run, run);
}

/* -- nodes ---------------------------------------------------------------------------------------------- */

static kiln_status_t make_result(kiln_ref_run_t *run, kiln_value_id_t id) {
  const kiln_type_t *type = &run->graph->types[id];
  kiln_ref_value_t *value = &run->values[id];
  value->tensor.dtype = type->dtype;
  value->tensor.rank = type->rank;
  KILN_TRY(kiln_type_sizes(type, run->symbols, value->tensor.sizes));
  value->elements = kiln_tensor_elements(&value->tensor);
  value->tensor.data = kiln_ref_alloc(run, value->elements, kiln_dtype_bytes(type->dtype));
  value->owned = value->tensor.data != NULL;
  return refusal(run);
}

static kiln_status_t evaluate(kiln_ref_run_t *run, const kiln_node_t *node) {
  for (uint32_t r = 0; r < node->result_count; r++) KILN_TRY(make_result(run, node->first_result + r));
  kiln_ref_call_t call = {run, node, &run->values[node->first_result]};
  KILN_TRY(evaluators[kiln_op_info(node->op)->op_class](&call));
  return refusal(run);
}

static void let_go(kiln_ref_run_t *run, const kiln_node_t *node) {
  for (uint32_t i = 0; i < node->operand_count; i++) {
    if (node->operands[i] == KILN_NO_VALUE) continue;
    kiln_ref_value_t *operand = &run->values[node->operands[i]];
    if (!--operand->uses) release_value(run, operand);
  }
  for (uint32_t r = 0; r < node->result_count; r++) {
    kiln_ref_value_t *result = &run->values[node->first_result + r];
    if (!result->uses) release_value(run, result);
  }
}

static kiln_status_t hand_out(kiln_ref_run_t *run, kiln_reference_t *outputs) {
  for (uint32_t i = 0; i < run->graph->output_count; i++) {
    kiln_ref_value_t *value = &run->values[run->graph->outputs[i]];
    if (!value->bound) value->bound = kiln_ref_alloc(run, value->elements, sizeof *value->bound);
    outputs[i] = (kiln_reference_t){value->tensor, value->bound};
  }
  return refusal(run);
}

kiln_status_t kiln_reference_run(kiln_arena_t *arena, const kiln_graph_t *graph, const int64_t *symbols,
                                 const kiln_tensor_t *inputs, uint64_t limit_bytes,
                                 kiln_reference_t *outputs) {
  const kiln_options_t none = {0};
  return kiln_reference_run_with(arena, graph, &none, symbols, inputs, limit_bytes, outputs);
}

kiln_status_t kiln_reference_run_with(kiln_arena_t *arena, const kiln_graph_t *graph,
                                      const kiln_options_t *options, const int64_t *symbols,
                                      const kiln_tensor_t *inputs, uint64_t limit_bytes,
                                      kiln_reference_t *outputs) {
  kiln_ref_run_t *run = KILN_NEW(arena, kiln_ref_run_t);
  *run = (kiln_ref_run_t){.graph = graph,
                          .allows_tf32 = options->allow_tf32,
                          .limit_bytes = limit_bytes ? limit_bytes : DEFAULT_LIMIT_BYTES};
  KILN_TRY(check(arena, run, symbols, inputs));
  make_values(arena, run, inputs);
  for (uint32_t n = 0; n < graph->node_count; n++) {
    const kiln_node_t *node = &graph->nodes[n];
    kiln_status_t status = evaluate(run, node);
    if (status)
      return kiln_error_note(status, "evaluating %s (%s)",
                             kiln_graph_value_name(arena, graph, node->first_result),
                             kiln_op_info(node->op)->name);
    let_go(run, node);
  }
  return hand_out(run, outputs);
}

/* -- comparison ----------------------------------------------------------------------------------------- */

static bool same_bits(const kiln_tensor_t *a, const kiln_tensor_t *b, int64_t at) {
  size_t bytes = kiln_dtype_bytes(a->dtype);
  return !memcmp((const char *)a->data + at * (int64_t)bytes, (const char *)b->data + at * (int64_t)bytes,
                 bytes);
}

/* A bound above 0 frees the payload of a NaN and the sign of a zero; see KILN_REF_ANY_FORM. */
static bool is_within(double got, double expected, double bound) {
  if (!bound) return false; /* and the bits differ */
  if (isnan(expected)) return isnan(got);
  return got == expected || fabs(got - expected) <= bound;
}

kiln_comparison_t kiln_reference_compare(const kiln_reference_t *reference, const kiln_tensor_t *got) {
  assert(reference->value.dtype == got->dtype);
  kiln_comparison_t result = {.elements = kiln_tensor_elements(&reference->value), .first_wrong = -1};
  for (int64_t i = 0; i < result.elements; i++) {
    double bound = reference->bound[i];
    if (isinf(bound)) result.undecided++;
    if (isinf(bound) || same_bits(&reference->value, got, i)) continue;
    double expected = kiln_ref_read_real(&reference->value, i), actual = kiln_ref_read_real(got, i);
    if (is_within(actual, expected, bound)) {
      if (actual != expected && !isnan(expected))
        result.worst_ratio = fmax(result.worst_ratio, fabs(actual - expected) / bound);
      continue;
    }
    if (!result.wrong++) {
      result.first_wrong = i;
      result.got = actual, result.expected = expected, result.bound = bound;
    }
  }
  return result;
}
