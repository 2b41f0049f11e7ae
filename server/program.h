/* server/program.h: a graph as some client sent it, parsed, verified and canonicalized once, with its
 * options.
 *
 *   text or map -> [parse, verify, canonicalize; large ones on libuv's pool] -> program -> plan key per
 * (target, class)
 *
 * Programs are shared between sessions by the digest of what was sent: the same bytes are never parsed twice
 * while the program is in the memory cache. A handle of a session is a program; what it compiles to is found
 * by plan key. Names stay here: what goes to workers and caches has none. Thread: made on any one thread,
 * then the loop's.
 */
#ifndef KILN_SERVER_PROGRAM_H
#define KILN_SERVER_PROGRAM_H

#include "ir/canonical.h"
#include "ir/mpack.h"
#include "ir/tensor.h"
#include "server/pipeline.h"

enum { PROGRAM_MAX_CLASSES = 32 };

/* A plan key that this program was compiled or looked up under. */
typedef struct {
  uint32_t device;
  kiln_symbol_class_t symbol_class;
  kiln_digest_t key;
} program_class_t;

typedef struct {
  unsigned references;
  kiln_digest_t digest; /* of what was sent */
  kiln_options_t options;
  kiln_arena_t arena; /* of what follows; the graph itself is kept as bytes only */
  kiln_digest_t hash; /* of the canonical graph */
  const kiln_symbol_t *symbols;
  const kiln_type_t *input_types;
  const bool *output_strided; /* the graph declares its strides */
  uint32_t symbol_count, input_count, output_count;
  kiln_extents_t extents;
  kiln_buffer_t wire;     /* the graph for workers, without names */
  kiln_buffer_t full_key; /* room for a plan key, then the canonical graph's bytes */
  uint64_t compiler;      /* the compiler that `classes` belong to (server's count of identities) */
  program_class_t classes[PROGRAM_MAX_CLASSES];
  size_t class_count, class_next; /* a ring once full */
} program_t;

/* What a client sent; text or form is NULL. */
typedef struct {
  const char *text;
  size_t text_size;
  const char *name; /* which graph of the text; "" when the client did not say */
  const kiln_mpack_t *form;
  kiln_options_t options;
} program_source_t;

/* The digest that a program of this source has. Forms are hashed as decoded, so that theirs is known only
 * then (false). */
bool program_source_digest(const program_source_t *source, kiln_digest_t *out);
/* Parses and prepares; INVALID_GRAPH, NOT_FOUND (no graph of that name), TOO_LARGE, OUT_OF_MEMORY past
 * limit_bytes. */
kiln_status_t program_create(const program_source_t *source, size_t limit_bytes, program_t **out_program);
program_t *program_retain(program_t *program);
void program_release(void *program); /* accepts NULL */
uint64_t program_bytes(const program_t *program);

/* The class of these symbol values; NULL: of the declared typical values, nothing assumed where there are
 * none. */
kiln_symbol_class_t program_class(const program_t *program, const int64_t *symbols);
/* The full key of plan `key`: valid until the next call. */
const kiln_buffer_t *program_full_key(program_t *program, const kiln_digest_t *key);
/* Remembers that the class has this key on the device. */
void program_remember(program_t *program, uint32_t device, const kiln_symbol_class_t *symbol_class,
                      const kiln_digest_t *key);

#endif
