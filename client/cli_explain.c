/* client/cli_explain.c: `kiln explain`: why a graph compiles to what it does.
 *
 * One object, from the daemon's `explain` or made here with --local in the same form (docs/wire.md), printed
 * as JSON or for people: passes, groups and what keeps them apart, launches, kernels with their cost and
 * source, and what the key is made of.
 */
#include "client/cli_daemon.h"
#include "client/cli_json.h"
#include "client/cli_local.h"

#include "kiln_fingerprint.h"

/* -- made here ------------------------------------------------------------------------------------------ */

static json_t *hex_json(const kiln_digest_t *digest) {
  char text[65];
  kiln_digest_hex(digest, text);
  return json_string(text);
}

static json_t *passes_json(const kiln_pass_report_t *report) {
  json_t *list = json_array();
  for (size_t i = 0; i < report->record_count; i++)
    json_array_append_new(list, json_pack("{s:s, s:I, s:I}", "name", report->records[i].name, "applied",
                                          (json_int_t)report->records[i].applied, "duration_ns",
                                          (json_int_t)report->records[i].duration_ns));
  return list;
}

static json_t *groups_json(const kiln_grouping_t *grouping) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < grouping->group_count; i++) {
    const kiln_group_t *group = &grouping->groups[i];
    json_array_append_new(list,
                          json_pack("{s:s, s:I, s:I, s:I, s:s}", "kind", group->kind, "nodes",
                                    (json_int_t)group->node_count, "members", (json_int_t)group->member_count,
                                    "level", (json_int_t)group->level, "reason", group->reason));
  }
  return list;
}

/* ceil(dim / divisor), in the graph's own symbols. */
static json_t *extent_json(const kiln_extent_t *extent, const kiln_graph_t *graph) {
  const char *names[KILN_MAX_SYMBOLS] = {0};
  kiln_buffer_t text;
  kiln_buffer_init(&text);
  for (uint32_t s = 0; s < graph->symbol_count; s++) names[s] = graph->symbols[s].name;
  if (extent->divisor > 1 && !kiln_dim_is_constant(extent->dim)) kiln_buffer_puts(&text, "ceil((");
  if (kiln_dim_is_constant(extent->dim))
    kiln_buffer_printf(&text, "%lld",
                       (long long)((extent->dim.constant + extent->divisor - 1) / extent->divisor));
  else
    kiln_dim_print(&text, extent->dim, names);
  if (extent->divisor > 1 && !kiln_dim_is_constant(extent->dim))
    kiln_buffer_printf(&text, ")/%u)", extent->divisor);
  json_t *json = json_string(kiln_buffer_text(&text));
  kiln_buffer_deinit(&text);
  return json;
}

static json_t *launches_json(const kiln_plan_t *plan, const kiln_graph_t *graph) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < plan->launch_count; i++) {
    const kiln_launch_t *launch = &plan->launches[i];
    json_t *grid = json_array(), *block = json_array();
    for (int d = 0; d < 3; d++) {
      json_array_append_new(grid, extent_json(&launch->grid[d], graph));
      json_array_append_new(block, json_integer(launch->block[d]));
    }
    json_array_append_new(list, json_pack("{s:o, s:s, s:o, s:o, s:I}", "kernel", hex_json(&launch->kernel),
                                          "entry", launch->entry, "grid", grid, "block", block,
                                          "shared_bytes", (json_int_t)launch->shared_bytes));
  }
  return list;
}

/* Launch i's kernel, unless an earlier launch has the same. */
static bool is_first(const kiln_cli_compiled_t *compiled, uint32_t launch) {
  for (uint32_t i = 0; i < launch; i++)
    if (kiln_digest_equal(&compiled->kernel_keys[i], &compiled->kernel_keys[launch])) return false;
  return true;
}

static json_t *sources_json(const kiln_cli_compiled_t *compiled) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < compiled->plan->launch_count; i++) {
    const kiln_kernel_source_t *kernel = &compiled->pipeline.kernels[i];
    const kiln_kernel_artifact_t *artifact = &compiled->artifacts[i];
    if (!is_first(compiled, i)) continue;
    json_array_append_new(
        list, json_pack("{s:o, s:s, s:s, s:s, s:s, s:I, s:i, s:i, s:i, s:i, s:i}", "key",
                        hex_json(&compiled->kernel_keys[i]), "entry", kernel->entry, "source", kernel->source,
                        "ptx", artifact->ptx, "kind", artifact->kind == KILN_IMAGE_CUBIN ? "cubin" : "ptx",
                        "image_bytes", (json_int_t)artifact->image_bytes, "registers", artifact->registers,
                        "spill_store_bytes", artifact->spill_store_bytes, "spill_load_bytes",
                        artifact->spill_load_bytes, "static_shared_bytes", artifact->static_shared_bytes,
                        "stack_bytes", artifact->stack_bytes));
  }
  return list;
}

static json_t *symbol_class_json(kiln_arena_t *arena, const kiln_graph_t *graph,
                                 const kiln_symbol_class_t *class) {
  const char *text = class->wide ? "64-bit indices" : "32-bit indices";
  for (uint32_t s = 0; s < graph->symbol_count; s++)
    text = kiln_arena_printf(arena, "%s, %s a multiple of %lld", text, graph->symbols[s].name,
                             (long long)class->multiple[s]);
  return json_string(text);
}

static json_t *local_json(kiln_cli_t *cli, const kiln_graph_t *graph, const kiln_cli_compiled_t *compiled,
                          const kiln_compiler_t *compiler, const char *target) {
  kiln_buffer_t *text = kiln_buffer_in_arena(cli->arena);
  kiln_text_print(cli->arena, text, compiled->pipeline.optimized);
  json_t *parts = json_pack("{s:o, s:s, s:s, s:s, s:s, s:o}", "graph", hex_json(&compiled->pipeline.hash),
                            "target", target, "compiler", kiln_compiler_identity(compiler), "fingerprint",
                            KILN_FINGERPRINT, "options", "precision=exact", "symbols",
                            symbol_class_json(cli->arena, graph, &compiled->symbol_class));
  return json_pack("{s:o, s:s, s:{s:i, s:I}, s:{s:I, s:I}, s:s, s:o, s:o, s:I, s:s, s:o, s:o, s:o}", "key",
                   hex_json(&compiled->key), "cache", "compiled", "kernels", "found", 0, "compiled",
                   (json_int_t)compiled->distinct_kernels, "timings", "plan_ns",
                   (json_int_t)compiled->plan_ns, "compile_ns", (json_int_t)compiled->compile_ns, "miss",
                   "--local uses no cache", "key_parts", parts, "passes",
                   passes_json(&compiled->pipeline.passes), "repetitions",
                   (json_int_t)compiled->pipeline.passes.repetitions, "graph", kiln_buffer_text(text),
                   "groups", groups_json(compiled->pipeline.grouping), "launches",
                   launches_json(compiled->plan, graph), "sources", sources_json(compiled));
}

static kiln_status_t explain_local(kiln_cli_t *cli, const kiln_graph_t *graph, const int64_t *symbols,
                                   const char *target_name, json_t **out) {
  kiln_compiler_t *compiler;
  kiln_target_t target;
  kiln_cli_compiled_t compiled;
  KILN_TRY(kiln_target_parse(target_name, &target));
  KILN_TRY(kiln_cli_open_compiler(cli, &compiler));
  KILN_TRY(kiln_cli_compile_local(cli, compiler, graph, symbols, &target, KILN_IMAGE_CUBIN, &compiled));
  *out = local_json(cli, graph, &compiled, compiler, target_name);
  return kiln_cli_keep_json(cli, *out);
}

/* -- asked of the daemon -------------------------------------------------------------------------------- */

static void free_reply(void *reply) { kiln_reply_free(reply); }

static kiln_status_t explain_daemon(kiln_cli_t *cli, const kiln_cli_source_t *source, const int64_t *symbols,
                                    const char *target, json_t **out) {
  kiln_client_t *client;
  kiln_reply_t *reply;
  kiln_buffer_t *request = kiln_buffer_in_arena(cli->arena);
  KILN_TRY(kiln_cli_connect(cli, &client));
  kiln_mpack_map(request, 2u + (symbols != NULL) + (target != NULL));
  kiln_cli_write_graph(request, source);
  if (symbols) kiln_cli_write_symbols(request, source->graph, symbols);
  if (target) {
    kiln_mpack_str(request, "targets");
    kiln_mpack_array(request, 1);
    kiln_mpack_str(request, target);
  }
  if (request->failed) return kiln_error(KILN_OUT_OF_MEMORY, "no memory for a request");
  KILN_TRY(kiln_call(client, "explain", request->data, request->size, 0, &reply));
  kiln_arena_defer(cli->arena, free_reply, reply);
  return kiln_cli_reply_json(cli, reply, out);
}

/* -- for people ----------------------------------------------------------------------------------------- */

static void print_key(const json_t *explained) {
  const char *miss = kiln_cli_json_text(explained, "miss");
  printf("plan %s: %s%s%s\n", kiln_cli_json_text(explained, "key"), kiln_cli_json_text(explained, "cache"),
         *miss ? ", because " : "", miss);
  puts("key parts:");
  kiln_cli_print_lines(json_object_get(explained, "key_parts"), 2);
}

static void print_passes(const json_t *explained) {
  size_t index;
  json_t *pass;
  printf("passes (%lld repetitions rewritten):\n", kiln_cli_json_integer(explained, "repetitions"));
  json_array_foreach(json_object_get(explained, "passes"), index, pass) printf(
      "  %-20s applied %-4lld %.2f ms\n", kiln_cli_json_text(pass, "name"),
      kiln_cli_json_integer(pass, "applied"), (double)kiln_cli_json_integer(pass, "duration_ns") / 1e6);
}

static void print_groups(const json_t *explained) {
  size_t index;
  json_t *group;
  puts("groups:");
  json_array_foreach(json_object_get(explained, "groups"), index, group) {
    const char *reason = kiln_cli_json_text(group, "reason");
    printf("  %zu %s: %lld nodes, level %lld%s%s\n", index, kiln_cli_json_text(group, "kind"),
           kiln_cli_json_integer(group, "nodes"), kiln_cli_json_integer(group, "level"),
           *reason ? "; not merged further: " : "", reason);
  }
}

static void print_launches(const json_t *explained) {
  size_t index;
  json_t *launch;
  puts("launches:");
  json_array_foreach(json_object_get(explained, "launches"), index, launch) {
    const json_t *grid = json_object_get(launch, "grid"), *block = json_object_get(launch, "block");
    printf("  %zu %s of kernel %.16s: grid (%s, %s, %s), block (%lld, %lld, %lld)\n", index,
           kiln_cli_json_text(launch, "entry"), kiln_cli_json_text(launch, "kernel"),
           json_string_value(json_array_get(grid, 0)), json_string_value(json_array_get(grid, 1)),
           json_string_value(json_array_get(grid, 2)), json_integer_value(json_array_get(block, 0)),
           json_integer_value(json_array_get(block, 1)), json_integer_value(json_array_get(block, 2)));
  }
}

/* The compiler tells a cubin's cost only. */
static void print_cost(const json_t *kernel) {
  if (kiln_cli_json_integer(kernel, "registers") < 0) return;
  printf("%lld registers, %lld bytes spilled, %lld bytes of shared memory, ",
         kiln_cli_json_integer(kernel, "registers"), kiln_cli_json_integer(kernel, "spill_store_bytes"),
         kiln_cli_json_integer(kernel, "static_shared_bytes"));
}

static void print_sources(const json_t *explained) {
  size_t index;
  json_t *kernel;
  json_array_foreach(json_object_get(explained, "sources"), index, kernel) {
    printf("\nkernel %s: ", kiln_cli_json_text(kernel, "key"));
    print_cost(kernel);
    printf("%s of %lld bytes\n%s\n", kiln_cli_json_text(kernel, "kind"),
           kiln_cli_json_integer(kernel, "image_bytes"), kiln_cli_json_text(kernel, "source"));
  }
}

static void print_text(const json_t *explained) {
  print_key(explained);
  print_passes(explained);
  print_groups(explained);
  print_launches(explained);
  printf("\noptimized graph:\n%s", kiln_cli_json_text(explained, "graph"));
  print_sources(explained);
}

/* -- the command ---------------------------------------------------------------------------------------- */

static kiln_status_t run(kiln_cli_t *cli) {
  kiln_cli_source_t source;
  const int64_t *symbols;
  bool all_known;
  json_t *explained;
  const char *target = kiln_cli_value(cli, "--target");
  KILN_TRY(kiln_cli_load(cli, 0, &source));
  KILN_TRY(kiln_cli_typical_symbols(cli, source.graph, &symbols, &all_known));
  kiln_cli_progress("compiling '%s'", source.graph->name);
  KILN_TRY(kiln_cli_flag(cli, "--local")
               ? explain_local(cli, source.graph, symbols, target ? target : "sm_90", &explained)
               : explain_daemon(cli, &source, all_known ? symbols : NULL, target, &explained));
  kiln_cli_progress_clear();
  (kiln_cli_flag(cli, "--json") ? kiln_cli_print_json : print_text)(explained);
  return NULL;
}

static const kiln_cli_option_t options[] = {
    KILN_CLI_OPTION_GRAPH,
    {"--symbol", "NAME=VALUE", "what to specialize for; otherwise the typical value"},
    {"--target", "ARCH", "what to compile for (default: the daemon's device; sm_90 with --local)"},
    {"--json", NULL, "print one JSON object"},
    {"--local", NULL, "compile in this process, without a daemon"},
    {NULL, NULL, NULL},
};

const kiln_cli_command_t kiln_cli_explain = {
    .name = "explain",
    .operands = "FILE",
    .operands_least = 1,
    .operands_most = 1,
    .summary = "Explain what a graph compiles to: passes, groups, kernels and their cost, key.",
    .options = options,
    .run = run,
};
