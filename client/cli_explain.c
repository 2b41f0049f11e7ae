/* client/cli_explain.c: `kiln explain`: why a graph compiles to what it does.
 *
 * One object, from the daemon's `explain` or made here with --local in the same form (docs/wire.md), printed
 * as JSON or for people: passes, groups with the bytes that they move, what keeps them apart, launches with
 * what bounds their occupancy, kernels with their cost and source, and what the key is made of.
 */
#include "client/cli_daemon.h"
#include "client/cli_json.h"
#include "client/cli_local.h"

#include "server/explanation.h"

/* -- made here ------------------------------------------------------------------------------------------ */

/* The artifacts of a recipe's kernels, which are the distinct ones of the launches. */
static const kiln_kernel_artifact_t *artifacts_of(kiln_cli_t *cli, const kiln_cli_compiled_t *compiled,
                                                  const recipe_t *recipe) {
  kiln_kernel_artifact_t *artifacts =
      KILN_NEW_ARRAY(cli->arena, kiln_kernel_artifact_t, recipe->kernel_count);
  for (uint32_t i = 0; i < recipe->plan->launch_count; i++)
    artifacts[recipe->launch_kernels[i]] = compiled->artifacts[i];
  return artifacts;
}

/* A reply as the daemon's. */
static kiln_status_t write_local(kiln_cli_t *cli, const kiln_graph_t *graph,
                                 const kiln_cli_compiled_t *compiled, const kiln_compiler_t *compiler,
                                 const kiln_target_t *target, kiln_buffer_t *out) {
  const kiln_options_t options = kiln_cli_code_options(cli);
  kiln_buffer_t *bytes = kiln_buffer_in_arena(cli->arena);
  const char *identity = kiln_compiler_identity(compiler);
  recipe_t recipe;
  recipe_encode(cli->arena, &compiled->pipeline, &compiled->verdicts, target, identity, bytes);
  if (bytes->failed) return kiln_error(KILN_OUT_OF_MEMORY, "no memory for an explanation");
  KILN_TRY(recipe_decode(cli->arena, bytes->data, bytes->size, &recipe));
  const explanation_t explanation = {.recipe = &recipe,
                                     .artifacts = artifacts_of(cli, compiled, &recipe),
                                     .target = target,
                                     .target_name = target->arch,
                                     .symbols = graph->symbols,
                                     .symbol_count = graph->symbol_count,
                                     .graph_hash = &compiled->pipeline.hash,
                                     .options = &options,
                                     .symbol_class = &compiled->symbol_class,
                                     .compiler = identity};
  kiln_mpack_map(out, 5 + EXPLANATION_PAIRS);
  kiln_mpack_member_hex(out, "key", &compiled->key);
  kiln_mpack_member_str(out, "cache", "compiled");
  kiln_mpack_member_map(out, "kernels", 2);
  kiln_mpack_member_uint(out, "found", 0);
  kiln_mpack_member_uint(out, "compiled", compiled->distinct_kernels);
  kiln_mpack_member_map(out, "timings", 2);
  kiln_mpack_member_uint(out, "plan_ns", compiled->plan_ns);
  kiln_mpack_member_uint(out, "compile_ns", compiled->compile_ns);
  kiln_mpack_member_str(out, "miss", "--local uses no cache");
  explanation_put(cli->arena, &explanation, out);
  return out->failed ? kiln_error(KILN_OUT_OF_MEMORY, "no memory for an explanation") : NULL;
}

static kiln_status_t explain_local(kiln_cli_t *cli, const kiln_graph_t *graph, const int64_t *symbols,
                                   const char *target_name, json_t **out) {
  kiln_compiler_t *compiler;
  kiln_target_t target;
  kiln_cli_compiled_t compiled;
  const kiln_mpack_t *told;
  kiln_buffer_t *reply = kiln_buffer_in_arena(cli->arena);
  KILN_TRY(kiln_target_parse(target_name, &target));
  KILN_TRY(kiln_cli_open_compiler(cli, &compiler));
  KILN_TRY(kiln_cli_compile_local(cli, compiler, graph, symbols, &target, KILN_IMAGE_CUBIN, &compiled));
  KILN_TRY(write_local(cli, graph, &compiled, compiler, &target, reply));
  KILN_TRY(kiln_mpack_decode(cli->arena, reply->data, reply->size, &told));
  return kiln_cli_mpack_json(cli, told, out);
}

/* -- asked of the daemon -------------------------------------------------------------------------------- */

static void free_reply(void *reply) { kiln_reply_free(reply); }

static kiln_status_t explain_daemon(kiln_cli_t *cli, const kiln_cli_source_t *source, const int64_t *symbols,
                                    const char *target, json_t **out) {
  kiln_client_t *client;
  kiln_reply_t *reply;
  kiln_buffer_t *request = kiln_buffer_in_arena(cli->arena);
  KILN_TRY(kiln_cli_connect(cli, &client));
  kiln_mpack_map(request, 3u + (symbols != NULL) + (target != NULL));
  kiln_cli_write_graph(cli, request, source);
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
      "  %-20s applied %lld\n", kiln_cli_json_text(pass, "name"), kiln_cli_json_integer(pass, "applied"));
}

/* "64.0 KiB" */
static const char *size_text(kiln_cli_t *cli, long long bytes) {
  static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double size = (double)bytes;
  size_t unit = 0;
  for (; size >= 1024 && unit + 1 < sizeof units / sizeof *units; unit++) size /= 1024;
  return kiln_arena_printf(cli->arena, unit ? "%.1f %s" : "%.0f %s", size, units[unit]);
}

static void print_names(const char *what, const json_t *names) {
  const size_t most = 16, count = json_array_size(names);
  if (!count) return;
  printf("      %s", what);
  for (size_t i = 0; i < count && i < most; i++)
    printf("%s%s", i ? ", " : " ", json_string_value(json_array_get(names, i)));
  if (count > most) printf(" and %zu more", count - most);
  puts("");
}

static void print_group(kiln_cli_t *cli, size_t index, const json_t *group) {
  const char *reason = kiln_cli_json_text(group, "reason");
  long long members = kiln_cli_json_integer(group, "members");
  printf("  %zu %s: %lld nodes, level %lld", index, kiln_cli_json_text(group, "kind"),
         kiln_cli_json_integer(group, "nodes"), kiln_cli_json_integer(group, "level"));
  if (members > 1) printf(", %lld members", members);
  printf("; reads %s,", size_text(cli, kiln_cli_json_integer(group, "bytes_read")));
  printf(" writes %s", size_text(cli, kiln_cli_json_integer(group, "bytes_written")));
  printf(" (%s in any grouping)\n", size_text(cli, kiln_cli_json_integer(group, "bytes_fewest")));
  print_names("reads", json_object_get(group, "reads"));
  print_names("stores", json_object_get(group, "stores"));
  if (*reason) printf("      not merged further: %s\n", reason);
}

static void print_groups(kiln_cli_t *cli, const json_t *explained) {
  size_t index;
  json_t *group, *boundary, *value;
  const char *name;
  long long planned = 0, fewest = 0;
  const char *before = " (bytes at ";
  printf("groups");
  json_object_foreach(json_object_get(explained, "typical"), name, value) {
    printf("%s%s = %lld", before, name, (long long)json_integer_value(value));
    before = ", ";
  }
  puts(*before == ',' ? "):" : ":");
  json_array_foreach(json_object_get(explained, "groups"), index, group) {
    print_group(cli, index, group);
    planned += kiln_cli_json_integer(group, "bytes_read") + kiln_cli_json_integer(group, "bytes_written");
    fewest += kiln_cli_json_integer(group, "bytes_fewest");
  }
  printf("  in all %s,", size_text(cli, planned));
  printf(" of which %s in any grouping\n", size_text(cli, fewest));
  puts("boundaries:");
  json_array_foreach(json_object_get(explained, "boundaries"), index, boundary) printf(
      "  %s (%s): %s\n", kiln_cli_json_text(boundary, "value"),
      size_text(cli, kiln_cli_json_integer(boundary, "bytes")), kiln_cli_json_text(boundary, "reason"));
}

/* The compiler tells a cubin's registers only. */
static void print_occupancy(const json_t *launch) {
  const json_t *occupancy = json_object_get(launch, "occupancy");
  long long registers = kiln_cli_json_integer(launch, "registers");
  printf("      %lld blocks per SM: ", kiln_cli_json_integer(occupancy, "blocks_per_sm"));
  if (registers < 0)
    printf("registers of PTX are not known (--target tells them), ");
  else
    printf("%lld by %lld registers, ", kiln_cli_json_integer(occupancy, "by_registers"), registers);
  printf("%lld by threads, %lld by shared memory, at most %lld; ",
         kiln_cli_json_integer(occupancy, "by_threads"), kiln_cli_json_integer(occupancy, "by_shared"),
         kiln_cli_json_integer(occupancy, "by_blocks"));
  printf("%lld threads\n", kiln_cli_json_integer(occupancy, "threads_per_sm"));
  if (kiln_cli_json_integer(launch, "spill_bytes") > 0)
    printf("      spills %lld bytes of registers\n", kiln_cli_json_integer(launch, "spill_bytes"));
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
    print_occupancy(launch);
  }
}

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

static void print_text(kiln_cli_t *cli, const json_t *explained) {
  print_key(explained);
  print_passes(explained);
  print_groups(cli, explained);
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
  if (kiln_cli_flag(cli, "--json"))
    kiln_cli_print_json(explained);
  else
    print_text(cli, explained);
  return NULL;
}

static const kiln_cli_option_t options[] = {
    KILN_CLI_OPTION_GRAPH,
    {"--symbol", "NAME=VALUE", "what to specialize for; otherwise the typical value"},
    {"--target", "ARCH", "what to compile for (default: the daemon's device; sm_90 with --local)"},
    KILN_CLI_OPTION_TF32,
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
