/* server/rpc_explain.c: explain: compiles as compile does, and tells what was done and why. */
#include "kiln_fingerprint.h"
#include "server/graph_request.h"
#include "server/server.h"

/* Copies a value of the stored recipe; its depth is that of recipe_encode, so the stack is bounded. */
static void copy_value(kiln_buffer_t *out, const kiln_mpack_t *value, int depth) {
  const char *text;
  size_t size = 0;
  int64_t number;
  kiln_mpack_kind_t kind = kiln_mpack_kind(value);
  if (kiln_mpack_get_int(value, &number)) {
    kiln_mpack_int(out, number);
  } else if (kiln_mpack_get_str(value, &text, &size)) {
    kiln_mpack_strn(out, text, size);
  } else if (kind == KILN_MPACK_ARRAY && depth) {
    kiln_mpack_array(out, kiln_mpack_count(value));
    for (size_t i = 0; i < kiln_mpack_count(value); i++)
      copy_value(out, kiln_mpack_item(value, i), depth - 1);
  } else if (kind == KILN_MPACK_MAP && depth) {
    kiln_mpack_map(out, kiln_mpack_count(value));
    for (size_t i = 0; i < kiln_mpack_count(value); i++) {
      copy_value(out, kiln_mpack_pair_key(value, i), 0);
      copy_value(out, kiln_mpack_pair_value(value, i), depth - 1);
    }
  } else {
    kiln_mpack_nil(out);
  }
}

static void copy_field(kiln_buffer_t *out, const recipe_t *recipe, const char *name) {
  kiln_mpack_str(out, name);
  copy_value(out, kiln_mpack_find(recipe->explain, name), 2);
}

/* "ceil(T / 256)", or a number. */
static void put_extent(kiln_buffer_t *out, const kiln_extent_t *extent) {
  static const char *const names[KILN_MAX_SYMBOLS] = {"s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7"};
  kiln_buffer_t text;
  kiln_buffer_init(&text);
  if (extent->divisor > 1) kiln_buffer_puts(&text, "ceil((");
  kiln_dim_print(&text, extent->dim, names);
  if (extent->divisor > 1) kiln_buffer_printf(&text, ") / %u)", extent->divisor);
  kiln_mpack_str(out, kiln_buffer_text(&text));
  kiln_buffer_deinit(&text);
}

static void put_launches(kiln_buffer_t *out, const kiln_plan_t *plan) {
  kiln_mpack_member_array(out, "launches", plan->launch_count);
  for (uint32_t i = 0; i < plan->launch_count; i++) {
    const kiln_launch_t *launch = &plan->launches[i];
    kiln_mpack_map(out, 5);
    kiln_mpack_member_hex(out, "kernel", &launch->kernel);
    kiln_mpack_member_str(out, "entry", launch->entry);
    kiln_mpack_member_array(out, "grid", 3);
    for (int axis = 0; axis < 3; axis++) put_extent(out, &launch->grid[axis]);
    kiln_mpack_member_array(out, "block", 3);
    for (int axis = 0; axis < 3; axis++) kiln_mpack_uint(out, launch->block[axis]);
    kiln_mpack_member_int(out, "shared_bytes", launch->shared_bytes);
  }
}

static kiln_status_t put_source(request_t *request, const recipe_kernel_t *kernel, const kernel_t *stored,
                                kiln_buffer_t *out) {
  kiln_kernel_artifact_t artifact;
  KILN_TRY(
      kiln_kernel_artifact_decode(&request->arena, stored->artifact.data, stored->artifact.size, &artifact));
  kiln_mpack_map(out, 11);
  kiln_mpack_member_hex(out, "key", &kernel->key);
  kiln_mpack_member_str(out, "entry", kernel->entry);
  kiln_mpack_member_str(out, "source", kernel->source);
  kiln_mpack_member_str(out, "ptx", artifact.ptx);
  kiln_mpack_member_str(out, "kind", artifact.kind == KILN_IMAGE_PTX ? "ptx" : "cubin");
  kiln_mpack_member_int(out, "image_bytes", (int64_t)artifact.image_bytes);
  kiln_mpack_member_int(out, "registers", artifact.registers);
  kiln_mpack_member_int(out, "spill_store_bytes", artifact.spill_store_bytes);
  kiln_mpack_member_int(out, "spill_load_bytes", artifact.spill_load_bytes);
  kiln_mpack_member_int(out, "static_shared_bytes", artifact.static_shared_bytes);
  kiln_mpack_member_int(out, "stack_bytes", artifact.stack_bytes);
  return NULL;
}

static kiln_status_t put_sources(request_t *request, const variant_t *variant, kiln_buffer_t *out) {
  kiln_mpack_member_array(out, "sources", variant->recipe.kernel_count);
  for (uint32_t i = 0; i < variant->recipe.kernel_count; i++)
    KILN_TRY(put_source(request, &variant->recipe.kernels[i], variant->kernels[i], out));
  return NULL;
}

static const char *describe_class(request_t *request) {
  const program_t *program = request->program;
  kiln_symbol_class_t symbol_class = program_class(program, request->has_symbols ? request->symbols : NULL);
  const char *text = symbol_class.wide ? "64-bit indices" : "32-bit indices";
  for (uint32_t i = 0; i < program->symbol_count; i++)
    text = kiln_arena_printf(&request->arena, "%s, %s a multiple of %lld", text, program->symbols[i].name,
                             (long long)symbol_class.multiple[i]);
  return text;
}

static void put_key_parts(request_t *request, kiln_buffer_t *out) {
  const kiln_options_t *options = &request->program->options;
  kiln_mpack_member_map(out, "key_parts", 6);
  kiln_mpack_member_hex(out, "graph", &request->program->hash);
  kiln_mpack_member_str(out, "target",
                        request->target_count
                            ? request->target_names[0]
                            : request->server->devices.items[request->device].info.target.arch);
  kiln_mpack_member_str(out, "compiler", request->server->workers.identity);
  kiln_mpack_member_str(out, "fingerprint", KILN_FINGERPRINT);
  kiln_mpack_member_str(out, "options",
                        kiln_arena_printf(&request->arena, "precision=%s allow_tf32=%s unfused=%s",
                                          options->excess_precision ? "excess" : "exact",
                                          options->allow_tf32 ? "true" : "false",
                                          options->unfused ? "true" : "false"));
  kiln_mpack_member_str(out, "symbols", describe_class(request));
}

static kiln_status_t explain_step(request_t *request) {
  bool waits = false;
  KILN_TRY(graph_request_program(request, &waits));
  if (waits) return NULL;
  KILN_TRY(graph_request_symbols(request));
  KILN_TRY(graph_request_plans(request, &waits));
  if (waits) return NULL;
  const variant_t *variant = request->outcomes[0].variant;
  kiln_buffer_t *out = request_open_reply(request);
  kiln_mpack_map(out, 12);
  graph_request_put_outcome(request, out);
  kiln_mpack_member_str(out, "miss", request->outcomes[0].miss);
  put_key_parts(request, out);
  copy_field(out, &variant->recipe, "passes");
  copy_field(out, &variant->recipe, "repetitions");
  copy_field(out, &variant->recipe, "graph");
  copy_field(out, &variant->recipe, "groups");
  put_launches(out, variant->recipe.plan);
  KILN_TRY(put_sources(request, variant, out));
  request_reply(request);
  return NULL;
}

kiln_status_t rpc_explain(request_t *request) {
  KILN_TRY(graph_request_targets(request, 1));
  request->step = explain_step;
  return NULL;
}
