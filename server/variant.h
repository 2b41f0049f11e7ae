/* server/variant.h: a plan with all its kernels, ready for a device: what the memory cache holds and
 * executions use.
 *
 * Variants and kernels are shared: by the memory cache, flights and requests; the last holder's release ends
 * them, and a variant then leaves the devices that loaded it. Thread: the loop's.
 */
#ifndef KILN_SERVER_VARIANT_H
#define KILN_SERVER_VARIANT_H

#include "runtime/compile.h"
#include "server/config.h"
#include "server/recipe.h"

typedef struct server server_t;

typedef struct {
  unsigned references;
  kiln_buffer_t artifact; /* kiln_kernel_artifact_encode */
} kernel_t;

typedef struct {
  unsigned references;
  server_t *server;
  uint64_t id;       /* the name that devices know it by, never used again */
  kiln_digest_t key; /* of the plan */
  kiln_arena_t arena;
  kiln_buffer_t bytes; /* the recipe points into it */
  recipe_t recipe;
  kernel_t **kernels;                /* per recipe kernel; NULL until it is there */
  uint64_t loaded[CONFIG_MAX_ITEMS]; /* per device: the life of its process that has it; 0: none */
} variant_t;

/* Keys in the memory cache and of kernels on disk: an image is either PTX or a cubin, which keys proper do
 * not say. */
kiln_digest_t storage_key(const kiln_digest_t *key, kiln_image_kind_t kind);

kernel_t *kernel_create(const void *artifact, size_t size); /* NULL when memory is short */
kernel_t *kernel_retain(kernel_t *kernel);
void kernel_release(void *kernel); /* accepts NULL */

/* Takes the bytes over, even when it fails: INTERNAL when they are no recipe. */
kiln_status_t variant_create(server_t *server, const kiln_digest_t *key, kiln_buffer_t *bytes,
                             variant_t **out_variant);
variant_t *variant_retain(variant_t *variant);
void variant_release(void *variant); /* accepts NULL */
uint64_t variant_bytes(const variant_t *variant);

#endif
