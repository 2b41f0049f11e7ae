/* client/cli_verify.c: computed values against the reference; see cli_verify.h.
 *
 * The check of `kiln run --check` (device against reference) and of `kiln opt --verify` (a graph after the
 * passes against the same graph before).
 */
#include "client/cli_verify.h"

#include <math.h>
#include <string.h>

static void report_wrong(kiln_cli_t *cli, const char *name, const kiln_comparison_t *found) {
  fprintf(stderr,
          "kiln: '%s' is wrong in %lld of %lld elements: element %lld is %.9g, should be %.9g within %.3g\n",
          name, (long long)found->wrong, (long long)found->elements, (long long)found->first_wrong,
          found->got, found->expected, found->bound);
  cli->exit_code = KILN_EXIT_FAILED;
}

kiln_cli_check_t kiln_cli_compare(kiln_cli_t *cli, const kiln_graph_t *graph,
                                  const kiln_reference_t *references, const kiln_tensor_t *outputs) {
  kiln_cli_check_t all = {0};
  for (uint32_t i = 0; i < graph->output_count; i++) {
    kiln_comparison_t one = kiln_reference_compare(&references[i], &outputs[i]);
    all.elements += one.elements;
    all.undecided += one.undecided;
    all.wrong += one.wrong;
    all.worst_ratio = fmax(all.worst_ratio, one.worst_ratio);
    if (one.wrong) report_wrong(cli, kiln_cli_output_name(cli->arena, graph, i), &one);
  }
  return all;
}

/* -- --verify ------------------------------------------------------------------------------------------- */

/* Both sides may err: the bounds add up. */
static void widen(kiln_reference_t *result, const kiln_reference_t *other) {
  int64_t count = kiln_tensor_elements(&result->value);
  for (int64_t i = 0; i < count; i++) result->bound[i] += other->bound[i];
}

static kiln_status_t verify_at(kiln_cli_t *cli, const kiln_graph_t *before, const kiln_graph_t *after,
                               const int64_t *symbols, uint64_t seed) {
  uint32_t count = before->output_count;
  kiln_cli_values_t values;
  kiln_reference_t *expected = KILN_NEW_ARRAY(cli->arena, kiln_reference_t, count);
  kiln_reference_t *computed = KILN_NEW_ARRAY(cli->arena, kiln_reference_t, count);
  kiln_tensor_t *tensors = KILN_NEW_ARRAY(cli->arena, kiln_tensor_t, count);
  KILN_TRY(kiln_cli_random_values(cli->arena, before, seed, symbols, &values));
  KILN_TRY(kiln_reference_run(cli->arena, before, symbols, values.inputs, 0, expected));
  KILN_TRY(kiln_reference_run(cli->arena, after, symbols, values.inputs, 0, computed));
  for (uint32_t i = 0; i < count; i++) {
    widen(&expected[i], &computed[i]);
    tensors[i] = computed[i].value;
  }
  kiln_cli_check_t check = kiln_cli_compare(cli, before, expected, tensors);
  fprintf(stderr, "verified %lld elements before and after the passes: %lld wrong, %lld undecided\n",
          (long long)check.elements, (long long)check.wrong, (long long)check.undecided);
  return NULL;
}

/* The values of --symbol; `otherwise` for the rest. */
static kiln_status_t symbols_for(kiln_cli_t *cli, const kiln_graph_t *graph, int64_t otherwise,
                                 int64_t *symbols) {
  for (uint32_t s = 0; s < graph->symbol_count; s++)
    symbols[s] = otherwise ? otherwise : graph->symbols[s].typical;
  return kiln_cli_given_symbols(cli, graph, symbols);
}

/* Small values first; a graph whose constraints refuse them all is evaluated at its typical ones. */
kiln_status_t kiln_cli_verify(kiln_cli_t *cli, const kiln_graph_t *before, const kiln_graph_t *after) {
  static const int64_t candidates[] = {16, 64, 0};
  kiln_status_t status = NULL;
  int64_t seed, symbols[KILN_MAX_SYMBOLS];
  KILN_TRY(kiln_cli_integer(cli, "--seed", 0, INT64_MAX, 0, &seed));
  for (size_t i = 0; i < sizeof candidates / sizeof *candidates; i++) {
    kiln_status_free(status);
    KILN_TRY(symbols_for(cli, before, candidates[i], symbols));
    status = verify_at(cli, before, after, symbols, (uint64_t)seed);
    if (kiln_status_code(status) != KILN_INVALID_ARGUMENT || !before->symbol_count) break;
  }
  return kiln_error_note(status, "verifying");
}
