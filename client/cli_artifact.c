/* client/cli_artifact.c: one graph compiled for one target, by this process or by a daemon; see
 * cli_compile.h.
 */
#include "client/cli_compile.h"
#include "client/cli_daemon.h"
#include "client/cli_local.h"

#include "base/map.h"
#include "ir/mpack.h"

/* -- in this process ------------------------------------------------------------------------------------ */

static const char *hex(kiln_arena_t *arena, const kiln_digest_t *digest) {
  char text[65];
  kiln_digest_hex(digest, text);
  return kiln_arena_strdup(arena, text);
}

/* Launches that share a kernel have equal keys; each is taken once. */
static void take_kernels(kiln_cli_t *cli, const kiln_cli_compiled_t *compiled, kiln_cli_artifact_t *out) {
  kiln_map_t *seen = kiln_map_create(cli->arena);
  out->kernels = KILN_NEW_ARRAY(cli->arena, kiln_cli_kernel_t, compiled->plan->launch_count);
  for (uint32_t i = 0; i < compiled->plan->launch_count; i++) {
    const kiln_digest_t *key = &compiled->kernel_keys[i];
    bool is_new;
    kiln_map_put(seen, key, sizeof *key, &is_new);
    if (is_new)
      out->kernels[out->kernel_count++] =
          (kiln_cli_kernel_t){.key = hex(cli->arena, key), .artifact = compiled->artifacts[i]};
  }
}

kiln_status_t kiln_cli_artifact_local(kiln_cli_t *cli, const kiln_graph_t *graph, const char *target_name,
                                      kiln_cli_artifact_t *out) {
  kiln_compiler_t *compiler;
  kiln_target_t target;
  kiln_cli_compiled_t compiled;
  const int64_t *symbols;
  bool all_known;
  KILN_TRY(kiln_cli_typical_symbols(cli, graph, &symbols, &all_known));
  KILN_TRY(kiln_target_parse(target_name, &target));
  KILN_TRY(kiln_cli_open_compiler(cli, &compiler));
  KILN_TRY(kiln_cli_compile_local(cli, compiler, graph, symbols, &target, KILN_IMAGE_CUBIN, &compiled));
  kiln_buffer_t *plan = kiln_buffer_in_arena(cli->arena);
  kiln_plan_encode(compiled.plan, plan);
  if (plan->failed) return kiln_error(KILN_OUT_OF_MEMORY, "no memory for the plan");
  *out = (kiln_cli_artifact_t){.target = target_name,
                               .key = hex(cli->arena, &compiled.key),
                               .plan = plan->data,
                               .plan_bytes = plan->size};
  take_kernels(cli, &compiled, out);
  return NULL;
}

/* -- by a daemon ---------------------------------------------------------------------------------------- */

static void free_reply(void *reply) { kiln_reply_free(reply); }

static const char *text_at(kiln_arena_t *arena, const kiln_mpack_t *map, const char *key) {
  const kiln_mpack_t *value = kiln_mpack_find(map, key);
  const char *text = "";
  size_t length = 0;
  if (value) kiln_mpack_get_str(value, &text, &length);
  return kiln_arena_strndup(arena, text, length);
}

static const void *bytes_at(const kiln_mpack_t *map, const char *key, size_t *out_size) {
  const kiln_mpack_t *value = kiln_mpack_find(map, key);
  const void *bytes = NULL;
  *out_size = 0;
  if (value) kiln_mpack_get_bin(value, &bytes, out_size);
  return bytes;
}

static int32_t number_at(const kiln_mpack_t *map, const char *key) {
  const kiln_mpack_t *value = kiln_mpack_find(map, key);
  int64_t number = -1;
  if (value) kiln_mpack_get_int(value, &number);
  return (int32_t)number;
}

static kiln_cli_kernel_t read_kernel(kiln_arena_t *arena, const kiln_mpack_t *map) {
  const kiln_mpack_t *kind = kiln_mpack_find(map, "kind");
  kiln_cli_kernel_t kernel = {.key = text_at(arena, map, "key")};
  kernel.artifact = (kiln_kernel_artifact_t){
      .kind = kind && kiln_mpack_is_str(kind, "cubin") ? KILN_IMAGE_CUBIN : KILN_IMAGE_PTX,
      .ptx = text_at(arena, map, "ptx"),
      .entry = text_at(arena, map, "entry"),
      .arch = text_at(arena, map, "arch"),
      .registers = number_at(map, "registers"),
      .spill_store_bytes = number_at(map, "spill_store_bytes"),
      .spill_load_bytes = number_at(map, "spill_load_bytes"),
      .static_shared_bytes = number_at(map, "static_shared_bytes"),
      .stack_bytes = number_at(map, "stack_bytes"),
  };
  kernel.artifact.image = bytes_at(map, "image", &kernel.artifact.image_bytes);
  return kernel;
}

static kiln_status_t read_artifact(kiln_cli_t *cli, const kiln_reply_t *reply, kiln_cli_artifact_t *out) {
  const kiln_mpack_t *result;
  size_t size;
  const void *bytes = kiln_reply_bytes(reply, &size);
  KILN_TRY(kiln_mpack_decode(cli->arena, bytes, size, &result));
  const kiln_mpack_t *list = kiln_mpack_find(result, "artifacts");
  if (!list || kiln_mpack_count(list) != 1) return kiln_error(KILN_INTERNAL, "the daemon sent no artifact");
  const kiln_mpack_t *artifact = kiln_mpack_item(list, 0), *kernels = kiln_mpack_find(artifact, "kernels");
  out->key = text_at(cli->arena, artifact, "key");
  out->plan = bytes_at(artifact, "plan", &out->plan_bytes);
  out->kernel_count = kernels ? kiln_mpack_count(kernels) : 0;
  out->kernels = KILN_NEW_ARRAY(cli->arena, kiln_cli_kernel_t, out->kernel_count);
  for (size_t i = 0; i < out->kernel_count; i++)
    out->kernels[i] = read_kernel(cli->arena, kiln_mpack_item(kernels, i));
  return NULL;
}

static void write_request(const kiln_cli_t *cli, kiln_buffer_t *out, const kiln_cli_source_t *source,
                          const int64_t *symbols, const char *target) {
  kiln_mpack_map(out, symbols ? 6 : 5);
  kiln_cli_write_graph(cli, out, source);
  if (symbols) kiln_cli_write_symbols(out, source->graph, symbols);
  kiln_mpack_str(out, "artifacts");
  kiln_mpack_bool(out, true);
  kiln_mpack_str(out, "targets");
  kiln_mpack_array(out, 1);
  kiln_mpack_str(out, target);
}

kiln_status_t kiln_cli_artifact_daemon(kiln_cli_t *cli, const kiln_cli_source_t *source, const char *target,
                                       kiln_cli_artifact_t *out) {
  kiln_client_t *client;
  kiln_reply_t *reply;
  const int64_t *symbols;
  bool all_known;
  KILN_TRY(kiln_cli_typical_symbols(cli, source->graph, &symbols, &all_known));
  KILN_TRY(kiln_cli_connect(cli, &client));
  kiln_buffer_t *request = kiln_buffer_in_arena(cli->arena);
  write_request(cli, request, source, all_known ? symbols : NULL, target);
  if (request->failed) return kiln_error(KILN_OUT_OF_MEMORY, "no memory for a request");
  KILN_TRY(kiln_call(client, "compile", request->data, request->size, 0, &reply));
  kiln_arena_defer(cli->arena, free_reply, reply);
  *out = (kiln_cli_artifact_t){.target = target};
  return read_artifact(cli, reply, out);
}
