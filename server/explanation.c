/* server/explanation.c: a recipe and its artifacts as what explain tells; see explanation.h. */
#include "server/explanation.h"

#include "kiln_fingerprint.h"

/* --- what the recipe says --------------------------------------------------------------------------- */

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
  copy_value(out, kiln_mpack_find(recipe->explain, name), 3);
}

/* "T", with its value at which bytes are counted. */
static void put_typical(const explanation_t *e, kiln_buffer_t *out) {
  const kiln_mpack_t *values = kiln_mpack_find(e->recipe->explain, "typical");
  size_t count = kiln_mpack_count(values) < e->symbol_count ? kiln_mpack_count(values) : e->symbol_count;
  kiln_mpack_member_map(out, "typical", count);
  for (size_t i = 0; i < count; i++) {
    kiln_mpack_str(out, e->symbols[i].name);
    copy_value(out, kiln_mpack_item(values, i), 0);
  }
}

/* --- launches --------------------------------------------------------------------------------------- */

/* A number, or "ceil((T*64) / 256)". */
static void put_extent(const explanation_t *e, const kiln_extent_t *extent, kiln_buffer_t *out) {
  const char *names[KILN_MAX_SYMBOLS] = {0};
  kiln_buffer_t text;
  kiln_buffer_init(&text);
  for (uint32_t s = 0; s < e->symbol_count && s < KILN_MAX_SYMBOLS; s++) names[s] = e->symbols[s].name;
  int64_t divisor = extent->divisor > 1 ? extent->divisor : 1;
  if (kiln_dim_is_constant(extent->dim)) {
    int64_t blocks = extent->dim.constant / divisor + (extent->dim.constant % divisor > 0);
    kiln_buffer_printf(&text, "%lld", (long long)blocks);
  } else {
    if (divisor > 1) kiln_buffer_puts(&text, "ceil((");
    kiln_dim_print(&text, extent->dim, names);
    if (divisor > 1) kiln_buffer_printf(&text, ") / %lld)", (long long)divisor);
  }
  kiln_mpack_str(out, kiln_buffer_text(&text));
  kiln_buffer_deinit(&text);
}

/* Blocks of a launch that an SM holds at once, and what allows how many. -1: not known, since the image is
 * PTX. */
static void put_occupancy(const kiln_occupancy_t *occupancy, bool known, kiln_buffer_t *out) {
  kiln_mpack_member_map(out, "occupancy", 6);
  kiln_mpack_member_int(out, "blocks_per_sm", occupancy->blocks);
  kiln_mpack_member_int(out, "by_registers", known ? (int64_t)occupancy->by_registers : -1);
  kiln_mpack_member_int(out, "by_threads", occupancy->by_threads);
  kiln_mpack_member_int(out, "by_shared", occupancy->by_shared);
  kiln_mpack_member_int(out, "by_blocks", occupancy->by_blocks);
  kiln_mpack_member_int(out, "threads_per_sm", occupancy->threads);
}

static void put_launch(const explanation_t *e, uint32_t index, kiln_buffer_t *out) {
  const kiln_launch_t *launch = &e->recipe->plan->launches[index];
  const kiln_kernel_artifact_t *artifact = &e->artifacts[e->recipe->launch_kernels[index]];
  uint32_t threads = launch->block[0] * launch->block[1] * launch->block[2];
  uint32_t registers = artifact->registers > 0 ? (uint32_t)artifact->registers : 0;
  uint32_t fixed = artifact->static_shared_bytes > 0 ? (uint32_t)artifact->static_shared_bytes : 0;
  kiln_occupancy_t occupancy =
      kiln_target_occupancy(e->target, threads, registers, fixed + launch->shared_bytes);
  kiln_mpack_map(out, 8);
  kiln_mpack_member_hex(out, "kernel", &launch->kernel);
  kiln_mpack_member_str(out, "entry", launch->entry);
  kiln_mpack_member_array(out, "grid", 3);
  for (int axis = 0; axis < 3; axis++) put_extent(e, &launch->grid[axis], out);
  kiln_mpack_member_array(out, "block", 3);
  for (int axis = 0; axis < 3; axis++) kiln_mpack_uint(out, launch->block[axis]);
  kiln_mpack_member_int(out, "shared_bytes", launch->shared_bytes);
  kiln_mpack_member_int(out, "registers", artifact->registers);
  kiln_mpack_member_int(out, "spill_bytes", artifact->spill_store_bytes);
  put_occupancy(&occupancy, artifact->registers >= 0, out);
}

/* --- kernels ---------------------------------------------------------------------------------------- */

static void put_source(const recipe_kernel_t *kernel, const kiln_kernel_artifact_t *artifact,
                       kiln_buffer_t *out) {
  kiln_mpack_map(out, 11);
  kiln_mpack_member_hex(out, "key", &kernel->key);
  kiln_mpack_member_str(out, "entry", kernel->entry);
  kiln_mpack_member_str(out, "source", kernel->source);
  kiln_mpack_member_str(out, "ptx", artifact->ptx);
  kiln_mpack_member_str(out, "kind", artifact->kind == KILN_IMAGE_PTX ? "ptx" : "cubin");
  kiln_mpack_member_int(out, "image_bytes", (int64_t)artifact->image_bytes);
  kiln_mpack_member_int(out, "registers", artifact->registers);
  kiln_mpack_member_int(out, "spill_store_bytes", artifact->spill_store_bytes);
  kiln_mpack_member_int(out, "spill_load_bytes", artifact->spill_load_bytes);
  kiln_mpack_member_int(out, "static_shared_bytes", artifact->static_shared_bytes);
  kiln_mpack_member_int(out, "stack_bytes", artifact->stack_bytes);
}

/* --- the key ---------------------------------------------------------------------------------------- */

static const char *describe_class(kiln_arena_t *arena, const explanation_t *e) {
  const char *text = e->symbol_class->wide ? "64-bit indices" : "32-bit indices";
  for (uint32_t i = 0; i < e->symbol_count; i++)
    text = kiln_arena_printf(arena, "%s, %s a multiple of %lld", text, e->symbols[i].name,
                             (long long)e->symbol_class->multiple[i]);
  return text;
}

static void put_key_parts(kiln_arena_t *arena, const explanation_t *e, kiln_buffer_t *out) {
  const kiln_options_t *options = e->options;
  kiln_mpack_member_map(out, "key_parts", 6);
  kiln_mpack_member_hex(out, "graph", e->graph_hash);
  kiln_mpack_member_str(out, "target", e->target_name);
  kiln_mpack_member_str(out, "compiler", e->compiler);
  kiln_mpack_member_str(out, "fingerprint", KILN_FINGERPRINT);
  kiln_mpack_member_str(out, "options",
                        kiln_arena_printf(arena, "precision=%s allow_tf32=%s unfused=%s",
                                          options->excess_precision ? "excess" : "exact",
                                          options->allow_tf32 ? "true" : "false",
                                          options->unfused ? "true" : "false"));
  kiln_mpack_member_str(out, "symbols", describe_class(arena, e));
}

void explanation_put(kiln_arena_t *arena, const explanation_t *e, kiln_buffer_t *out) {
  put_key_parts(arena, e, out);
  copy_field(out, e->recipe, "passes");
  copy_field(out, e->recipe, "repetitions");
  copy_field(out, e->recipe, "graph");
  put_typical(e, out);
  copy_field(out, e->recipe, "groups");
  copy_field(out, e->recipe, "boundaries");
  kiln_mpack_member_array(out, "launches", e->recipe->plan->launch_count);
  for (uint32_t i = 0; i < e->recipe->plan->launch_count; i++) put_launch(e, i, out);
  kiln_mpack_member_array(out, "sources", e->recipe->kernel_count);
  for (uint32_t i = 0; i < e->recipe->kernel_count; i++)
    put_source(&e->recipe->kernels[i], &e->artifacts[i], out);
}
