/* server/rpc_explain.c: explain: compiles as compile does, and tells what was done and why. */
#include "server/explanation.h"
#include "server/graph_request.h"
#include "server/server.h"

static kiln_status_t decode_artifacts(request_t *request, const variant_t *variant,
                                      const kiln_kernel_artifact_t **out) {
  uint32_t count = variant->recipe.kernel_count;
  kiln_kernel_artifact_t *artifacts = KILN_NEW_ARRAY(&request->arena, kiln_kernel_artifact_t, count);
  for (uint32_t i = 0; i < count; i++) {
    const kiln_buffer_t *stored = &variant->kernels[i]->artifact;
    KILN_TRY(kiln_kernel_artifact_decode(&request->arena, stored->data, stored->size, &artifacts[i]));
  }
  *out = artifacts;
  return NULL;
}

static kiln_status_t explain_step(request_t *request) {
  bool waits = false;
  KILN_TRY(graph_request_program(request, &waits));
  if (waits) return NULL;
  KILN_TRY(graph_request_symbols(request));
  KILN_TRY(graph_request_plans(request, &waits));
  if (waits) return NULL;
  const program_t *program = request->program;
  const variant_t *variant = request->outcomes[0].variant;
  const kiln_target_t *device = &request->server->devices.items[request->device].info.target;
  kiln_symbol_class_t symbol_class = program_class(program, request->has_symbols ? request->symbols : NULL);
  explanation_t explanation = {.recipe = &variant->recipe,
                               .target = request->target_count ? &request->targets[0] : device,
                               .target_name = request->target_count ? request->target_names[0] : device->arch,
                               .symbols = program->symbols,
                               .symbol_count = program->symbol_count,
                               .graph_hash = &program->hash,
                               .options = &program->options,
                               .symbol_class = &symbol_class,
                               .compiler = request->server->workers.identity};
  KILN_TRY(decode_artifacts(request, variant, &explanation.artifacts));
  kiln_buffer_t *out = request_open_reply(request);
  kiln_mpack_map(out, 5 + EXPLANATION_PAIRS);
  graph_request_put_outcome(request, out);
  kiln_mpack_member_str(out, "miss", request->outcomes[0].miss);
  explanation_put(&request->arena, &explanation, out);
  request_reply(request);
  return NULL;
}

kiln_status_t rpc_explain(request_t *request) {
  KILN_TRY(graph_request_targets(request, 1));
  request->step = explain_step;
  return NULL;
}
