/* ir/npy.c: tensors in NumPy's .npy files: the command line's inputs and outputs, and the NumPy tests'.
 *
 * Format: numpy/lib/format.py, versions 1.0 and 2.0: magic, header length, a Python dict with 'descr',
 * 'fortran_order' and 'shape', then the elements. bf16, which NumPy lacks, is stored as uint16 bits. Files
 * come from outside: every length is checked against the file before anything is allocated for it.
 */
#include "ir/tensor.h"

#include "ir/walk.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_HEADER_BYTES = 64 << 10, PREAMBLE_BYTES = 64 };

/* What stands behind the byte order mark in 'descr'. */
static const char *const type_codes[KILN_DTYPE_COUNT] = {
    [KILN_DTYPE_bool] = "b1", [KILN_DTYPE_u8] = "u1",  [KILN_DTYPE_i8] = "i1",
    [KILN_DTYPE_i32] = "i4",  [KILN_DTYPE_i64] = "i8", [KILN_DTYPE_f16] = "f2",
    [KILN_DTYPE_bf16] = "u2", [KILN_DTYPE_f32] = "f4", [KILN_DTYPE_f64] = "f8"};

/* -- the header ----------------------------------------------------------------------------------------- */

static kiln_status_t malformed(const char *path, const char *what) {
  return kiln_error(KILN_INVALID_ARGUMENT, "'%s' is not a .npy file that can be read: %s", path, what);
}

/* Reads preamble and header; the text is NUL-terminated in the arena, the file stands at the first element.
 */
static kiln_status_t read_header(kiln_arena_t *arena, const char *path, FILE *file, char **out_header) {
  unsigned char preamble[12];
  if (fread(preamble, 1, 10, file) != 10 || memcmp(preamble, "\x93NUMPY", 6))
    return malformed(path, "no magic");
  size_t length = preamble[8] | (size_t)preamble[9] << 8;
  if (preamble[6] != 1 && preamble[6] != 2) return malformed(path, "not of version 1 or 2");
  if (preamble[6] == 2) {
    if (fread(preamble + 10, 1, 2, file) != 2) return malformed(path, "the header is cut off");
    length |= (size_t)preamble[10] << 16 | (size_t)preamble[11] << 24;
  }
  if (length > MAX_HEADER_BYTES) return malformed(path, "the header is too long");
  *out_header = kiln_arena_alloc(arena, length + 1);
  if (fread(*out_header, 1, length, file) != length) return malformed(path, "the header is cut off");
  return NULL;
}

/* What follows "'key':" in the header; NULL when the key is not there. */
static const char *value_of(const char *header, const char *key) {
  const char *found = strstr(header, key);
  if (!found) return NULL;
  found += strlen(key);
  return found + strspn(found, " ");
}

static kiln_status_t read_dtype(const char *path, const char *header, kiln_dtype_t expected) {
  const char *descr = value_of(header, "'descr':");
  if (!descr || *descr++ != '\'' || strcspn(descr, "'") < 2)
    return malformed(path, "no 'descr' of a plain type");
  int length = (int)strcspn(descr, "'");
  const char *code = type_codes[expected];
  bool plain = strchr("<|=", descr[0]) && length == 3 && !strncmp(descr + 1, code, 2);
  if (!plain)
    return kiln_error(KILN_INVALID_ARGUMENT, "'%s' holds '%.*s', but %s is expected, which is '%c%s'", path,
                      length, descr, kiln_dtype_name(expected), kiln_dtype_bytes(expected) == 1 ? '|' : '<',
                      code);
  return NULL;
}

static kiln_status_t read_shape(const char *path, const char *header, uint32_t *out_rank, int64_t *sizes) {
  const char *text = value_of(header, "'shape':");
  if (!text || *text++ != '(') return malformed(path, "no 'shape'");
  for (*out_rank = 0;; text++) {
    text += strspn(text, " ");
    if (*text == ')') return NULL;
    char *end;
    errno = 0;
    long long size = strtoll(text, &end, 10);
    if (end == text || errno || size < 0) return malformed(path, "a size is no number");
    if (*out_rank == KILN_MAX_RANK) return malformed(path, "its rank is above 8");
    sizes[(*out_rank)++] = size;
    text = end + strspn(end, " ");
    if (*text == ')') return NULL;
    if (*text != ',') return malformed(path, "its 'shape' is no tuple");
  }
}

/* -- the elements --------------------------------------------------------------------------------------- */

static bool has_bytes(FILE *file, uint64_t bytes) {
  struct stat info;
  long at = ftell(file);
  if (fstat(fileno(file), &info) || at < 0) return false;
  return S_ISREG(info.st_mode) && (uint64_t)info.st_size - (uint64_t)at >= bytes && info.st_size >= at;
}

/* Column-major elements into row-major ones. */
static void transpose(kiln_arena_t *arena, kiln_tensor_t *tensor, size_t bytes) {
  int64_t strides[KILN_MAX_RANK], stride = 1;
  for (uint32_t axis = 0; axis < tensor->rank; axis++) {
    strides[axis] = stride;
    stride *= tensor->sizes[axis];
  }
  void *columns = tensor->data;
  tensor->data = kiln_arena_alloc(arena, bytes);
  kiln_storage_gather(tensor, columns, strides);
}

static kiln_status_t bytes_of(const char *path, kiln_dtype_t dtype, uint32_t rank, const int64_t *sizes,
                              uint64_t *out_bytes) {
  *out_bytes = kiln_dtype_bytes(dtype);
  bool empty = false;
  for (uint32_t axis = 0; axis < rank; axis++) {
    empty |= !sizes[axis];
    if (sizes[axis] &&
        (__builtin_mul_overflow(*out_bytes, (uint64_t)sizes[axis], out_bytes) || *out_bytes >> 63))
      return malformed(path, "its sizes leave 63 bits");
  }
  if (empty) *out_bytes = 0;
  return NULL;
}

static kiln_status_t read_file(kiln_arena_t *arena, const char *path, FILE *file, kiln_dtype_t expected,
                               kiln_tensor_t *out) {
  char *header;
  uint32_t rank;
  int64_t sizes[KILN_MAX_RANK];
  uint64_t bytes;
  KILN_TRY(read_header(arena, path, file, &header));
  KILN_TRY(read_dtype(path, header, expected));
  KILN_TRY(read_shape(path, header, &rank, sizes));
  KILN_TRY(bytes_of(path, expected, rank, sizes, &bytes));
  const char *order = value_of(header, "'fortran_order':");
  if (!order || (strncmp(order, "False", 5) && strncmp(order, "True", 4)))
    return malformed(path, "no 'fortran_order'");
  if (!has_bytes(file, bytes)) return malformed(path, "it is cut off");
  KILN_TRY(kiln_tensor_create(arena, expected, rank, sizes, out));
  if (fread(out->data, 1, bytes, file) != bytes) return malformed(path, "it is cut off");
  if (*order == 'T') transpose(arena, out, bytes);
  if (expected == KILN_DTYPE_bool)
    for (uint64_t i = 0; i < bytes; i++) ((uint8_t *)out->data)[i] = ((uint8_t *)out->data)[i] != 0;
  return NULL;
}

/* Closes the file at the latest when the arena goes, which may be in the middle of reading. */
static void close_file(void *argument) {
  FILE **file = argument;
  if (*file) fclose(*file);
  *file = NULL;
}

kiln_status_t kiln_npy_read(kiln_arena_t *arena, const char *path, kiln_dtype_t expected,
                            kiln_tensor_t *out) {
  FILE **file = KILN_NEW(arena, FILE *);
  kiln_arena_defer(arena, close_file, file);
  *file = fopen(path, "rbe");
  if (!*file) return kiln_error_errno(KILN_NOT_FOUND, errno, "cannot open '%s'", path);
  kiln_status_t status = read_file(arena, path, *file, expected, out);
  close_file(file);
  return status;
}

/* -- writing -------------------------------------------------------------------------------------------- */

/* Magic, version 1.0, length, dict; padded with spaces to a multiple of 64 and ended by a newline. Returns
 * its bytes. */
static size_t format_header(const kiln_tensor_t *tensor, char header[8 * PREAMBLE_BYTES]) {
  char shape[KILN_MAX_RANK * 24 + 1] = "";
  size_t at = 0;
  for (uint32_t axis = 0; axis < tensor->rank; axis++)
    at += (size_t)snprintf(shape + at, sizeof shape - at, "%lld, ", (long long)tensor->sizes[axis]);
  int used = snprintf(header + 10, 8 * PREAMBLE_BYTES - 10,
                      "{'descr': '%c%s', 'fortran_order': False, 'shape': (%s), }",
                      kiln_dtype_bytes(tensor->dtype) == 1 ? '|' : '<', type_codes[tensor->dtype], shape);
  size_t total = (10 + (size_t)used + 1 + PREAMBLE_BYTES - 1) / PREAMBLE_BYTES * PREAMBLE_BYTES,
         rest = total - 10;
  memset(header + 10 + used, ' ', rest - (size_t)used);
  header[total - 1] = '\n';
  memcpy(header, "\x93NUMPY\x01\x00", 8);
  header[8] = (char)(rest & 0xff);
  header[9] = (char)(rest >> 8);
  return total;
}

kiln_status_t kiln_npy_write(const char *path, const kiln_tensor_t *tensor) {
  char header[8 * PREAMBLE_BYTES];
  size_t header_bytes = format_header(tensor, header);
  size_t bytes = (size_t)kiln_tensor_elements(tensor) * kiln_dtype_bytes(tensor->dtype);
  FILE *file = fopen(path, "wbe");
  if (!file) return kiln_error_errno(KILN_INVALID_ARGUMENT, errno, "cannot write '%s'", path);
  bool written =
      fwrite(header, 1, header_bytes, file) == header_bytes && fwrite(tensor->data, 1, bytes, file) == bytes;
  int error = written ? 0 : errno;
  if (fclose(file) && !error) error = errno;
  return error ? kiln_error_errno(KILN_UNAVAILABLE, error, "cannot write '%s'", path) : NULL;
}
