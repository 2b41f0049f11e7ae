/* client/cli_compile.c: `kiln compile`: graphs to plans and kernels on disk, for other machines.
 *
 *   every graph of every file, for every target -> <key>.plan, <key>.cubin, <key>.ptx, manifest.json
 *
 * Names are keys, so that graphs that share a kernel share its file and running it again changes nothing. No
 * device is needed.
 */
#include "client/cli_compile.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const char *const default_targets[] = {"sm_90"};

/* -- what to compile ------------------------------------------------------------------------------------ */

typedef struct {
  const char *const *names;
  size_t count;
} targets_t;

/* --target may be given several times, and take several names separated by commas. */
static targets_t read_targets(kiln_cli_t *cli) {
  const char **names = NULL;
  size_t count = 0, capacity = 0, cursor = 0;
  for (const char *text; (text = kiln_cli_next(cli, "--target", &cursor));)
    while (*text) {
      size_t length = strcspn(text, ",");
      if (length) KILN_PUSH(cli->arena, names, count, capacity, kiln_arena_strndup(cli->arena, text, length));
      text += length + (text[length] == ',');
    }
  return count ? (targets_t){names, count} : (targets_t){default_targets, 1};
}

/* -- what is written ------------------------------------------------------------------------------------ */

static kiln_status_t write_keyed(kiln_cli_t *cli, const char *folder, const char *key, const char *extension,
                                 const void *data, size_t size) {
  return kiln_cli_write_file(kiln_arena_printf(cli->arena, "%s/%s.%s", folder, key, extension), data, size);
}

static kiln_status_t write_artifact(kiln_cli_t *cli, const char *folder,
                                    const kiln_cli_artifact_t *artifact) {
  KILN_TRY(write_keyed(cli, folder, artifact->key, "plan", artifact->plan, artifact->plan_bytes));
  for (size_t i = 0; i < artifact->kernel_count; i++) {
    const char *key = artifact->kernels[i].key;
    const kiln_kernel_artifact_t *kernel = &artifact->kernels[i].artifact;
    KILN_TRY(write_keyed(cli, folder, key, "ptx", kernel->ptx, strlen(kernel->ptx)));
    if (kernel->kind == KILN_IMAGE_CUBIN)
      KILN_TRY(write_keyed(cli, folder, key, "cubin", kernel->image, kernel->image_bytes));
  }
  return NULL;
}

static json_t *kernel_json(const kiln_cli_kernel_t *kernel) {
  const kiln_kernel_artifact_t *artifact = &kernel->artifact;
  return json_pack("{s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:i}", "key", kernel->key, "entry",
                   artifact->entry, "arch", artifact->arch, "kind",
                   artifact->kind == KILN_IMAGE_CUBIN ? "cubin" : "ptx", "registers", artifact->registers,
                   "spill_store_bytes", artifact->spill_store_bytes, "spill_load_bytes",
                   artifact->spill_load_bytes, "shared_bytes", artifact->static_shared_bytes, "stack_bytes",
                   artifact->stack_bytes);
}

static json_t *manifest_entry(const kiln_cli_source_t *source, const kiln_cli_artifact_t *artifact) {
  json_t *kernels = json_array();
  for (size_t i = 0; i < artifact->kernel_count; i++)
    json_array_append_new(kernels, kernel_json(&artifact->kernels[i]));
  return json_pack("{s:s, s:s, s:s, s:s, s:o}", "file", source->path, "graph", source->graph->name, "target",
                   artifact->target, "plan", artifact->key, "kernels", kernels);
}

static kiln_status_t write_manifest(kiln_cli_t *cli, const char *folder, json_t *entries) {
  json_t *manifest = json_pack("{s:O}", "graphs", entries);
  char *text = json_dumps(manifest, JSON_INDENT(2));
  json_decref(manifest);
  if (!text) return kiln_error(KILN_OUT_OF_MEMORY, "no memory for the manifest");
  kiln_status_t status =
      kiln_cli_write_file(kiln_arena_printf(cli->arena, "%s/manifest.json", folder), text, strlen(text));
  free(text);
  return status;
}

/* -- the command ---------------------------------------------------------------------------------------- */

static kiln_status_t compile_graph(kiln_cli_t *cli, const char *folder, const kiln_cli_source_t *source,
                                   const char *target, json_t *entries) {
  kiln_cli_artifact_t artifact;
  kiln_cli_progress("compiling '%s' for %s", source->graph->name, target);
  kiln_status_t status = kiln_cli_flag(cli, "--local")
                             ? kiln_cli_artifact_local(cli, source->graph, target, &artifact)
                             : kiln_cli_artifact_daemon(cli, source, target, &artifact);
  if (status)
    return kiln_error_note(status, "compiling '%s' of %s for %s", source->graph->name, source->path, target);
  KILN_TRY(write_artifact(cli, folder, &artifact));
  json_array_append_new(entries, manifest_entry(source, &artifact));
  kiln_cli_progress_clear();
  printf("%s %s %s %.16s: %zu kernels\n", source->path, source->graph->name, target, artifact.key,
         artifact.kernel_count);
  return NULL;
}

static kiln_status_t compile_file(kiln_cli_t *cli, const char *folder, size_t operand,
                                  const targets_t *targets, json_t *entries) {
  kiln_cli_source_t source;
  kiln_graph_list_t graphs;
  KILN_TRY(kiln_cli_load_all(cli, operand, &source, &graphs));
  for (size_t g = 0; g < graphs.count; g++) {
    source.graph = graphs.graphs[g];
    for (size_t t = 0; t < targets->count; t++)
      KILN_TRY(compile_graph(cli, folder, &source, targets->names[t], entries));
  }
  return NULL;
}

static void release_json(void *value) { json_decref(value); }

static kiln_status_t run(kiln_cli_t *cli) {
  const char *folder = kiln_cli_value(cli, "--output-dir");
  targets_t targets = read_targets(cli);
  json_t *entries = json_array();
  if (!entries) return kiln_error(KILN_OUT_OF_MEMORY, "no memory for the manifest");
  kiln_arena_defer(cli->arena, release_json, entries);
  if (!folder) return kiln_error(KILN_INVALID_ARGUMENT, "'kiln compile' needs -o DIR: where to write");
  for (size_t t = 0; t < targets.count; t++) {
    kiln_target_t target;
    KILN_TRY(kiln_target_parse(targets.names[t], &target));
  }
  KILN_TRY(kiln_cli_make_folder(folder));
  for (size_t i = 0; i < cli->operand_count; i++) KILN_TRY(compile_file(cli, folder, i, &targets, entries));
  return write_manifest(cli, folder, entries);
}

static const kiln_cli_option_t options[] = {
    {"--target", "ARCH", "what to compile for, repeated or separated by commas (default sm_90)"},
    {"--output-dir", "DIR", "where to write; -o for short"},
    {"--graph", "NAME", "only this graph of each file"},
    {"--symbol", "NAME=VALUE", "what to specialize for; otherwise the typical value"},
    KILN_CLI_OPTION_TF32,
    {"--local", NULL, "compile in this process, without a daemon"},
    {NULL, NULL, NULL},
};

const kiln_cli_command_t kiln_cli_compile = {
    .name = "compile",
    .operands = "FILE...",
    .operands_least = 1,
    .operands_most = UINT32_MAX,
    .summary = "Compile graphs to files: plans, cubins, PTX and a manifest.",
    .options = options,
    .run = run,
};
