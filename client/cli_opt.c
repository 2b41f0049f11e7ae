/* client/cli_opt.c: `kiln opt`: what the passes make of a graph, and how it would be grouped; no daemon.
 *
 * Runs server/pipeline.c's first half in this process. The graph is printed so that it is accepted as input
 * again: what else there is to say stands in comments above it. A graph with an op that no kernel family
 * takes still shows its passes; the error about the grouping follows.
 */
#include "client/cli.h"
#include "client/cli_verify.h"

#include "server/pipeline.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* -- numbered dumps ------------------------------------------------------------------------------------- */

typedef struct {
  kiln_arena_t *arena;
  const char *folder;
  kiln_status_t status; /* of the first dump that failed */
} dump_t;

static void dump_graph(void *argument, unsigned number, const char *name, const kiln_graph_t *graph) {
  dump_t *dump = argument;
  if (dump->status) return;
  const char *path = kiln_arena_printf(dump->arena, "%s/%02u-%s.kiln", dump->folder, number, name);
  kiln_buffer_t text;
  kiln_buffer_init(&text);
  kiln_text_print(dump->arena, &text, graph);
  dump->status = kiln_cli_write_file(path, kiln_buffer_text(&text), text.size);
  kiln_buffer_deinit(&text);
}

/* -- statistics ----------------------------------------------------------------------------------------- */

static json_t *passes_json(const kiln_pass_report_t *report) {
  json_t *passes = json_array();
  for (size_t i = 0; i < report->record_count; i++)
    json_array_append_new(passes, json_pack("{s:s, s:I}", "name", report->records[i].name, "applied",
                                            (json_int_t)report->records[i].applied));
  return passes;
}

static json_t *groups_json(const kiln_grouping_t *grouping) {
  json_t *groups = json_array();
  for (uint32_t i = 0; grouping && i < grouping->group_count; i++) {
    const kiln_group_t *group = &grouping->groups[i];
    json_array_append_new(groups, json_pack("{s:s, s:I, s:I}", "kind", group->kind, "nodes",
                                            (json_int_t)group->node_count, "members",
                                            (json_int_t)group->member_count));
  }
  return groups;
}

static void print_json(const kiln_pipeline_t *pipeline) {
  char hash[65];
  kiln_digest_hex(&pipeline->hash, hash);
  const kiln_grouping_t *grouping = pipeline->grouping;
  json_t *statistics = json_pack("{s:s, s:I, s:o, s:o, s:o}", "hash", hash, "repetitions",
                                 (json_int_t)pipeline->passes.repetitions, "passes",
                                 passes_json(&pipeline->passes), "groups", groups_json(grouping), "launches",
                                 grouping ? json_integer(grouping->group_count) : json_null());
  json_dumpf(statistics, stdout, JSON_COMPACT);
  putchar('\n');
  json_decref(statistics);
}

static void print_comments(const kiln_pipeline_t *pipeline) {
  char hash[65];
  kiln_digest_hex(&pipeline->hash, hash);
  printf("# hash %s\n# passes:", hash);
  for (size_t i = 0; i < pipeline->passes.record_count; i++)
    printf("%s %s %u", i ? "," : "", pipeline->passes.records[i].name, pipeline->passes.records[i].applied);
  putchar('\n');
  const kiln_grouping_t *grouping = pipeline->grouping;
  if (!grouping) return;
  printf("# launches: %u\n", grouping->group_count);
  for (uint32_t i = 0; i < grouping->group_count; i++) {
    const kiln_group_t *group = &grouping->groups[i];
    printf("#   %s of %u nodes", group->kind, group->node_count);
    if (group->member_count > 1) printf(" in %u members", group->member_count);
    printf("%s%s\n", *group->reason ? ": " : "", group->reason);
  }
}

/* -- printing the graph --------------------------------------------------------------------------------- */

/* GraphViz's own program draws, when it is installed. */
static kiln_status_t print_svg(const char *dot) {
  if (system("command -v dot >/dev/null 2>&1"))
    return kiln_error(KILN_UNAVAILABLE,
                      "--print svg needs GraphViz's 'dot': install graphviz or use --print dot");
  fflush(stdout);
  FILE *pipe = popen("dot -Tsvg", "w");
  if (!pipe) return kiln_error(KILN_UNAVAILABLE, "cannot start 'dot'");
  fputs(dot, pipe);
  return pclose(pipe) ? kiln_error(KILN_INTERNAL, "'dot' could not draw the graph") : NULL;
}

static kiln_status_t print_graph(kiln_cli_t *cli, const char *form, const kiln_pipeline_t *pipeline) {
  kiln_status_t status = NULL;
  kiln_buffer_t text;
  kiln_buffer_init(&text);
  if (!strcmp(form, "text"))
    kiln_text_print(cli->arena, &text, pipeline->optimized);
  else
    kiln_text_print_dot(cli->arena, &text, pipeline->optimized);
  if (text.failed)
    status = kiln_error(KILN_OUT_OF_MEMORY, "no memory to print the graph");
  else if (!strcmp(form, "svg"))
    status = print_svg(kiln_buffer_text(&text));
  else
    fputs(kiln_buffer_text(&text), stdout);
  kiln_buffer_deinit(&text);
  return status;
}

/* -- the command ---------------------------------------------------------------------------------------- */

/* --print's default is text, and nothing beside --stats. */
static kiln_status_t read_forms(const kiln_cli_t *cli, const char **out_print, bool *out_json) {
  static const char *const forms[] = {"text", "dot", "svg", "none"};
  const char *print = kiln_cli_value(cli, "--print");
  const char *stats = kiln_cli_value(cli, "--stats");
  if (stats && strcmp(stats, "json"))
    return kiln_error(KILN_INVALID_ARGUMENT, "--stats %s: only json is known", stats);
  *out_json = stats != NULL;
  *out_print = print ? print : stats ? "none" : "text";
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
    if (!strcmp(forms[i], *out_print)) return NULL;
  return kiln_error(KILN_INVALID_ARGUMENT, "--print %s: choose text, dot, svg or none", print);
}

static kiln_status_t print_all(kiln_cli_t *cli, const char *form, bool json,
                               const kiln_pipeline_t *pipeline) {
  if (json) print_json(pipeline);
  if (!strcmp(form, "none")) return NULL;
  if (!strcmp(form, "text") && !json) print_comments(pipeline);
  return print_graph(cli, form, pipeline);
}

static kiln_status_t optimize(kiln_cli_t *cli, const kiln_graph_t *graph, kiln_pipeline_t *pipeline) {
  const char *target_name = kiln_cli_value(cli, "--target");
  kiln_target_t target;
  kiln_options_t code_options = {.unfused = kiln_cli_flag(cli, "--unfused")};
  dump_t dump = {.arena = cli->arena, .folder = kiln_cli_value(cli, "--dump")};
  kiln_pass_run_t run = {.list = kiln_cli_value(cli, "--passes"), .dump_argument = &dump};
  if (dump.folder) {
    KILN_TRY(kiln_cli_make_folder(dump.folder));
    run.dump = dump_graph;
  }
  KILN_TRY(kiln_target_parse(target_name ? target_name : "sm_90", &target));
  kiln_status_t status = kiln_pipeline_optimize(cli->arena, graph, &target, &code_options, &run, pipeline);
  if (!status) return dump.status;
  kiln_status_free(dump.status);
  return status;
}

static kiln_status_t run(kiln_cli_t *cli) {
  kiln_cli_source_t source;
  kiln_pipeline_t pipeline = {0};
  const char *form;
  bool json;
  KILN_TRY(read_forms(cli, &form, &json));
  KILN_TRY(kiln_cli_load(cli, 0, &source));
  kiln_status_t status = optimize(cli, source.graph, &pipeline);
  bool only_grouping_failed = kiln_status_code(status) == KILN_UNSUPPORTED && pipeline.optimized;
  if (status && !only_grouping_failed) return status;
  kiln_status_t printed = print_all(cli, form, json, &pipeline);
  if (!printed && kiln_cli_flag(cli, "--verify"))
    printed = kiln_cli_verify(cli, source.graph, pipeline.optimized);
  if (!printed) return status;
  kiln_status_free(status);
  return printed;
}

static const kiln_cli_option_t options[] = {
    KILN_CLI_OPTION_GRAPH,
    {"--passes", "LIST", "run these passes, separated by commas, instead of all; \"\" runs none"},
    {"--print", "FORM", "the optimized graph as text (default), dot, svg or none"},
    {"--stats", "json", "one JSON object: hash, repetitions, passes, groups, launches"},
    {"--verify", NULL, "evaluate the graph before and after on random inputs and compare"},
    {"--symbol", "NAME=VALUE", "with --verify: value of a symbol (otherwise small ones are tried)"},
    {"--seed", "N", "with --verify: seed of the inputs (default 0)"},
    {"--dump", "DIR", "write the graph after each pass as DIR/NN-PASS.kiln"},
    {"--target", "ARCH", "what to group for (default sm_90)"},
    {"--unfused", NULL, "every node its own launch"},
    {NULL, NULL, NULL},
};

const kiln_cli_command_t kiln_cli_opt = {
    .name = "opt",
    .operands = "FILE",
    .operands_least = 1,
    .operands_most = 1,
    .summary = "Show what the passes make of a graph and how it is grouped, without a daemon.",
    .options = options,
    .run = run,
};
