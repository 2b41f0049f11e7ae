/* server/rpc_compile.c: compile: a graph in, a handle and what it took out; with targets, artifacts to ship.
 */
#include "server/graph_request.h"
#include "server/server.h"

static void put_number(kiln_buffer_t *out, const char *name, int64_t value) {
  kiln_mpack_str(out, name);
  kiln_mpack_int(out, value);
}

static void put_text(kiln_buffer_t *out, const char *name, const char *value) {
  kiln_mpack_str(out, name);
  kiln_mpack_str(out, value);
}

static void put_key(kiln_buffer_t *out, const kiln_digest_t *key) {
  char hex[65];
  kiln_digest_hex(key, hex);
  put_text(out, "key", hex);
}

static kiln_status_t put_kernel(request_t *request, const recipe_kernel_t *kernel, const kernel_t *stored,
                                kiln_buffer_t *out) {
  kiln_kernel_artifact_t artifact;
  KILN_TRY(
      kiln_kernel_artifact_decode(&request->arena, stored->artifact.data, stored->artifact.size, &artifact));
  kiln_mpack_map(out, 11);
  put_key(out, &kernel->key);
  put_text(out, "entry", artifact.entry);
  put_text(out, "arch", artifact.arch);
  put_text(out, "kind", artifact.kind == KILN_IMAGE_PTX ? "ptx" : "cubin");
  kiln_mpack_str(out, "image");
  kiln_mpack_bin(out, artifact.image, artifact.image_bytes);
  put_text(out, "ptx", artifact.ptx);
  put_number(out, "registers", artifact.registers);
  put_number(out, "spill_store_bytes", artifact.spill_store_bytes);
  put_number(out, "spill_load_bytes", artifact.spill_load_bytes);
  put_number(out, "static_shared_bytes", artifact.static_shared_bytes);
  put_number(out, "stack_bytes", artifact.stack_bytes);
  return NULL;
}

static kiln_status_t put_artifact(request_t *request, uint32_t index, kiln_buffer_t *out) {
  const variant_t *variant = request->outcomes[index].variant;
  const recipe_t *recipe = &variant->recipe;
  kiln_mpack_map(out, 4);
  put_text(out, "target",
           request->target_count ? request->target_names[index]
                                 : request->server->devices.items[request->device].info.target.arch);
  put_key(out, &variant->key);
  kiln_mpack_str(out, "plan");
  kiln_mpack_bin(out, recipe->plan_bytes, recipe->plan_size);
  kiln_mpack_str(out, "kernels");
  kiln_mpack_array(out, recipe->kernel_count);
  for (uint32_t i = 0; i < recipe->kernel_count; i++)
    KILN_TRY(put_kernel(request, &recipe->kernels[i], variant->kernels[i], out));
  return NULL;
}

static kiln_status_t compile_step(request_t *request) {
  bool waits = false;
  KILN_TRY(graph_request_program(request, &waits));
  if (waits) return NULL;
  KILN_TRY(graph_request_symbols(request));
  KILN_TRY(graph_request_plans(request, &waits));
  if (waits) return NULL;
  uint64_t handle;
  KILN_TRY(session_handle(request->session, request->program, &handle));
  kiln_buffer_t *out = request_open_reply(request);
  kiln_mpack_map(out, request->wants_artifacts ? 6 : 5);
  kiln_mpack_str(out, "executable");
  kiln_mpack_uint(out, handle);
  graph_request_put_outcome(request, out);
  if (request->wants_artifacts) {
    kiln_mpack_str(out, "artifacts");
    kiln_mpack_array(out, request->outcome_count);
    for (uint32_t i = 0; i < request->outcome_count; i++) KILN_TRY(put_artifact(request, i, out));
  }
  request_reply(request);
  return NULL;
}

kiln_status_t rpc_compile(request_t *request) {
  KILN_TRY(field_bool(&request->fields, "artifacts", false, &request->wants_artifacts));
  KILN_TRY(graph_request_targets(request, 8));
  request->step = compile_step;
  return NULL;
}
