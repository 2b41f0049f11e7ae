/* server/variant.c: lifetimes of variants and kernels. */
#include "server/variant.h"

#include "server/server.h"

#include <stdlib.h>
#include <string.h>

kiln_digest_t storage_key(const kiln_digest_t *key, kiln_image_kind_t kind) {
  kiln_digest_t out = *key;
  out.bytes[sizeof out.bytes - 1] ^= (uint8_t)kind;
  return out;
}

kernel_t *kernel_create(const void *artifact, size_t size) {
  kernel_t *kernel = calloc(1, sizeof *kernel);
  if (!kernel) return NULL;
  kernel->references = 1;
  kiln_buffer_append(&kernel->artifact, artifact, size);
  if (!kernel->artifact.failed) return kernel;
  kernel_release(kernel);
  return NULL;
}

kernel_t *kernel_retain(kernel_t *kernel) {
  kernel->references++;
  return kernel;
}

void kernel_release(void *pointer) {
  kernel_t *kernel = pointer;
  if (!kernel || --kernel->references) return;
  kiln_buffer_deinit(&kernel->artifact);
  free(kernel);
}

static kiln_status_t decode(void *argument) {
  variant_t *variant = argument;
  KILN_TRY(recipe_decode(&variant->arena, variant->bytes.data, variant->bytes.size, &variant->recipe));
  variant->kernels = KILN_NEW_ARRAY(&variant->arena, kernel_t *, variant->recipe.kernel_count);
  return NULL;
}

kiln_status_t variant_create(server_t *server, const kiln_digest_t *key, kiln_buffer_t *bytes,
                             variant_t **out_variant) {
  variant_t *variant = calloc(1, sizeof *variant);
  if (!variant) {
    kiln_buffer_deinit(bytes);
    return kiln_error_detail(kiln_error(KILN_OUT_OF_MEMORY, "no memory for a plan"), "where", "host");
  }
  *variant = (variant_t){
      .references = 1, .server = server, .id = ++server->variants_made, .key = *key, .bytes = *bytes};
  kiln_buffer_init(bytes);
  kiln_arena_init(&variant->arena, 0);
  kiln_status_t status = kiln_arena_guard(&variant->arena, decode, variant);
  if (status) {
    variant->recipe.kernel_count = 0;
    variant_release(variant);
    return status;
  }
  *out_variant = variant;
  return NULL;
}

variant_t *variant_retain(variant_t *variant) {
  variant->references++;
  return variant;
}

void variant_release(void *pointer) {
  variant_t *variant = pointer;
  if (!variant || --variant->references) return;
  devices_unload(variant->server, variant);
  for (uint32_t i = 0; i < variant->recipe.kernel_count; i++) kernel_release(variant->kernels[i]);
  kiln_buffer_deinit(&variant->bytes);
  kiln_arena_deinit(&variant->arena);
  free(variant);
}

uint64_t variant_bytes(const variant_t *variant) {
  uint64_t bytes = sizeof *variant + variant->arena.used_bytes + variant->bytes.capacity;
  for (uint32_t i = 0; i < variant->recipe.kernel_count; i++) {
    if (variant->kernels[i]) bytes += variant->kernels[i]->artifact.capacity;
  }
  return bytes;
}
