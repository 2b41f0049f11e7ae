/* server/rpc_compile.c: compile: a graph in, a handle and what it took out; with targets, artifacts to ship.
 */
#include "server/graph_request.h"
#include "server/server.h"

static kiln_status_t put_kernel(request_t *request, const recipe_kernel_t *kernel, const kernel_t *stored,
                                kiln_buffer_t *out) {
  kiln_kernel_artifact_t artifact;
  KILN_TRY(
      kiln_kernel_artifact_decode(&request->arena, stored->artifact.data, stored->artifact.size, &artifact));
  kiln_mpack_map(out, 11);
  kiln_mpack_member_hex(out, "key", &kernel->key);
  kiln_mpack_member_str(out, "entry", artifact.entry);
  kiln_mpack_member_str(out, "arch", artifact.arch);
  kiln_mpack_member_str(out, "kind", artifact.kind == KILN_IMAGE_PTX ? "ptx" : "cubin");
  kiln_mpack_member_bin(out, "image", artifact.image, artifact.image_bytes);
  kiln_mpack_member_str(out, "ptx", artifact.ptx);
  kiln_mpack_member_int(out, "registers", artifact.registers);
  kiln_mpack_member_int(out, "spill_store_bytes", artifact.spill_store_bytes);
  kiln_mpack_member_int(out, "spill_load_bytes", artifact.spill_load_bytes);
  kiln_mpack_member_int(out, "static_shared_bytes", artifact.static_shared_bytes);
  kiln_mpack_member_int(out, "stack_bytes", artifact.stack_bytes);
  return NULL;
}

static kiln_status_t put_artifact(request_t *request, uint32_t index, kiln_buffer_t *out) {
  const variant_t *variant = request->outcomes[index].variant;
  const recipe_t *recipe = &variant->recipe;
  kiln_mpack_map(out, 4);
  kiln_mpack_member_str(out, "target",
                        request->target_count
                            ? request->target_names[index]
                            : request->server->devices.items[request->device].info.target.arch);
  kiln_mpack_member_hex(out, "key", &variant->key);
  kiln_mpack_member_bin(out, "plan", recipe->plan_bytes, recipe->plan_size);
  kiln_mpack_member_array(out, "kernels", recipe->kernel_count);
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
  kiln_mpack_member_uint(out, "executable", handle);
  graph_request_put_outcome(request, out);
  if (request->wants_artifacts) {
    kiln_mpack_member_array(out, "artifacts", request->outcome_count);
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
