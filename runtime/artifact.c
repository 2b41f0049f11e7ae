/* runtime/artifact.c: a compiled kernel as bytes, and what ptxas said of it.
 *
 * Written by compile workers, stored by the caches, shipped to clients, read by the server and the device
 * process before a kernel is loaded; see compile.h. The form is one array: [version, kind, entry, arch,
 * image, ptx or nil, registers, spill stores, spill loads, static shared, stack]. PTX that is the image
 * itself is not written twice.
 */
#include "ir/mpack.h"
#include "runtime/compile.h"

#include <stdio.h>
#include <string.h>

enum { VERSION = 1, FIELDS = 11, MAX_NAME_BYTES = 4096 };

/* The numbers in the order in which they are written. */
static int32_t *number(kiln_kernel_artifact_t *artifact, size_t index) {
  int32_t *const numbers[] = {&artifact->registers, &artifact->spill_store_bytes, &artifact->spill_load_bytes,
                              &artifact->static_shared_bytes, &artifact->stack_bytes};
  return index < sizeof numbers / sizeof *numbers ? numbers[index] : NULL;
}

/* --- ptxas's log ------------------------------------------------------------------------------- */

/* The number before `what` in a line such as "ptxas info : Used 8 registers, 2048 bytes smem"; -1 when it is
 * not there. */
static int32_t number_before(const char *line, size_t length, const char *what) {
  const char *found = memmem(line, length, what, strlen(what));
  if (!found) return -1;
  const char *digits = found;
  while (digits > line && digits[-1] >= '0' && digits[-1] <= '9') digits--;
  int32_t value;
  return digits < found && sscanf(digits, "%d", &value) == 1 ? value : -1;
}

/* True when the line holds `before` followed by the name, quoted or at the end. */
static bool line_names(const char *line, size_t length, const char *before, const char *name) {
  const char *found = memmem(line, length, before, strlen(before));
  if (!found) return false;
  found += strlen(before);
  found += *found == '\'';
  size_t left = (size_t)(line + length - found), name_length = strlen(name);
  return left >= name_length && !memcmp(found, name, name_length) &&
         (left == name_length || found[name_length] == '\'');
}

/* Three lines matter, in this order: "Function properties for <entry>", the stack and spills that follow it,
 * and "Used <n> registers" of the entry. Properties of device functions that were not inlined are between
 * others' names. */
void kiln_kernel_artifact_read_log(kiln_kernel_artifact_t *artifact, const char *log) {
  for (size_t i = 0; number(artifact, i); i++) *number(artifact, i) = -1;
  bool in_kernel = false, in_properties = false;
  size_t length;
  for (const char *line = log; *line; line += length + (line[length] == '\n')) {
    length = strcspn(line, "\n");
    if (memmem(line, length, "Compiling entry function", 24)) {
      in_kernel = line_names(line, length, "Compiling entry function ", artifact->entry);
    } else if (memmem(line, length, "Function properties for", 23)) {
      in_properties = line_names(line, length, "Function properties for ", artifact->entry);
    } else if (in_properties && memmem(line, length, "stack frame", 11)) {
      artifact->stack_bytes = number_before(line, length, " bytes stack frame");
      artifact->spill_store_bytes = number_before(line, length, " bytes spill stores");
      artifact->spill_load_bytes = number_before(line, length, " bytes spill loads");
      in_properties = false;
    } else if (in_kernel && memmem(line, length, " registers", 10)) {
      artifact->registers = number_before(line, length, " registers");
      int32_t shared = number_before(line, length, " bytes smem");
      artifact->static_shared_bytes = shared < 0 ? 0 : shared; /* ptxas is silent about none */
      in_kernel = false;
    }
  }
}

/* --- bytes ------------------------------------------------------------------------------------- */

void kiln_kernel_artifact_encode(const kiln_kernel_artifact_t *artifact, kiln_buffer_t *out) {
  kiln_kernel_artifact_t copy = *artifact;
  kiln_mpack_array(out, FIELDS);
  kiln_mpack_int(out, VERSION);
  kiln_mpack_str(out, artifact->kind == KILN_IMAGE_PTX ? "ptx" : "cubin");
  kiln_mpack_str(out, artifact->entry);
  kiln_mpack_str(out, artifact->arch);
  kiln_mpack_bin(out, artifact->image, artifact->image_bytes);
  if (artifact->kind == KILN_IMAGE_PTX) {
    kiln_mpack_nil(out);
  } else {
    kiln_mpack_bin(out, artifact->ptx, strlen(artifact->ptx) + 1);
  }
  for (size_t i = 0; number(&copy, i); i++) kiln_mpack_int(out, *number(&copy, i));
}

static kiln_status_t malformed(const char *field) {
  return kiln_error_detail(
      kiln_error(KILN_INVALID_ARGUMENT, "kernel artifact: %s is missing or wrong", field), "field", "%s",
      field);
}

static bool read_name(kiln_arena_t *arena, const kiln_mpack_t *value, const char **out) {
  size_t length;
  if (!kiln_mpack_get_str(value, out, &length) || length > MAX_NAME_BYTES || memchr(*out, 0, length))
    return false;
  *out = kiln_arena_strndup(arena, *out, length);
  return true;
}

/* A text with exactly one NUL, at its end. */
static bool read_text(kiln_arena_t *arena, const kiln_mpack_t *value, const void **out, size_t *out_bytes) {
  if (!kiln_mpack_get_bin(value, out, out_bytes) || !*out_bytes) return false;
  if (memchr(*out, 0, *out_bytes) != (const char *)*out + *out_bytes - 1) return false;
  *out = kiln_arena_copy(arena, *out, *out_bytes);
  return true;
}

static bool read_kind(const kiln_mpack_t *value, kiln_image_kind_t *out) {
  *out = kiln_mpack_is_str(value, "ptx") ? KILN_IMAGE_PTX : KILN_IMAGE_CUBIN;
  return *out == KILN_IMAGE_PTX || kiln_mpack_is_str(value, "cubin");
}

/* A cubin is an ELF file; that much is checked here, the rest by the driver that loads it. */
static bool read_cubin(kiln_arena_t *arena, const kiln_mpack_t *value, kiln_kernel_artifact_t *out) {
  if (!kiln_mpack_get_bin(value, &out->image, &out->image_bytes)) return false;
  if (out->image_bytes < 4 || memcmp(out->image, "\177ELF", 4) != 0) return false;
  out->image = kiln_arena_copy(arena, out->image, out->image_bytes);
  return true;
}

static bool read_images(kiln_arena_t *arena, const kiln_mpack_t *image, const kiln_mpack_t *ptx,
                        kiln_kernel_artifact_t *out) {
  if (out->kind == KILN_IMAGE_PTX) {
    bool ok =
        kiln_mpack_kind(ptx) == KILN_MPACK_NIL && read_text(arena, image, &out->image, &out->image_bytes);
    out->ptx = out->image;
    return ok;
  }
  const void *text;
  size_t text_bytes;
  if (!read_cubin(arena, image, out) || !read_text(arena, ptx, &text, &text_bytes)) return false;
  out->ptx = text;
  return true;
}

static bool read_numbers(const kiln_mpack_t *fields, size_t first, kiln_kernel_artifact_t *out) {
  for (size_t i = 0; number(out, i); i++) {
    int64_t value;
    if (!kiln_mpack_get_int(kiln_mpack_item(fields, first + i), &value)) return false;
    if (value < -1 || value > INT32_MAX) return false;
    *number(out, i) = (int32_t)value;
  }
  return true;
}

kiln_status_t kiln_kernel_artifact_decode(kiln_arena_t *arena, const void *bytes, size_t size,
                                          kiln_kernel_artifact_t *out) {
  static const kiln_mpack_limits_t limits = {UINT64_MAX, FIELDS + 1, 2};
  kiln_mpack_scanner_t scanner;
  kiln_mpack_scan_init(&scanner, &limits);
  if (kiln_mpack_scan(&scanner, bytes, size) != KILN_SCAN_COMPLETE || scanner.position != size) {
    return kiln_error(KILN_INVALID_ARGUMENT, "kernel artifact: not one whole MessagePack array");
  }
  const kiln_mpack_t *fields;
  KILN_TRY(kiln_mpack_decode(arena, bytes, size, &fields));
  int64_t version;
  kiln_kernel_artifact_t artifact = {0};
  if (kiln_mpack_kind(fields) != KILN_MPACK_ARRAY || kiln_mpack_count(fields) != FIELDS)
    return malformed("array");
  if (!kiln_mpack_get_int(kiln_mpack_item(fields, 0), &version) || version != VERSION)
    return malformed("version");
  if (!read_kind(kiln_mpack_item(fields, 1), &artifact.kind)) return malformed("kind");
  if (!read_name(arena, kiln_mpack_item(fields, 2), &artifact.entry)) return malformed("entry");
  if (!read_name(arena, kiln_mpack_item(fields, 3), &artifact.arch)) return malformed("arch");
  if (!read_images(arena, kiln_mpack_item(fields, 4), kiln_mpack_item(fields, 5), &artifact))
    return malformed("image");
  if (!read_numbers(fields, 6, &artifact)) return malformed("resources");
  *out = artifact;
  return NULL;
}
