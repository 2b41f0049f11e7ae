/* ir/dtype.c: the table of element types, made from dtypes.def. */
#include "ir/dtype.h"

#include <string.h>

typedef enum { CLASS_B, CLASS_U, CLASS_I, CLASS_F } class_t;

static const struct {
  const char *name;
  size_t bytes;
  class_t class;
} dtypes[KILN_DTYPE_COUNT] = {
#define KILN_DTYPE(name, bytes, class, storage, arithmetic) {#name, bytes, CLASS_##class},
#include "ir/dtypes.def"
#undef KILN_DTYPE
};

static const char *const reserved[] = {"i16", "u16", "u32", "u64", "f8e4m3", "f8e5m2", "i4", "u4"};

static bool is_name(const char *candidate, const char *name, size_t length) {
  return strlen(candidate) == length && !memcmp(candidate, name, length);
}

const char *kiln_dtype_name(kiln_dtype_t dtype) { return dtypes[dtype].name; }

bool kiln_dtype_parse(const char *name, size_t length, kiln_dtype_t *out_dtype) {
  for (unsigned dtype = 0; dtype < KILN_DTYPE_COUNT; dtype++) {
    if (!is_name(dtypes[dtype].name, name, length)) continue;
    *out_dtype = dtype;
    return true;
  }
  return false;
}

bool kiln_dtype_is_reserved(const char *name, size_t length) {
  for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++) {
    if (is_name(reserved[i], name, length)) return true;
  }
  return false;
}

size_t kiln_dtype_bytes(kiln_dtype_t dtype) { return dtypes[dtype].bytes; }

bool kiln_dtype_is_float(kiln_dtype_t dtype) { return dtypes[dtype].class == CLASS_F; }

bool kiln_dtype_is_integer(kiln_dtype_t dtype) {
  return dtypes[dtype].class == CLASS_U || dtypes[dtype].class == CLASS_I;
}

bool kiln_dtype_is_half(kiln_dtype_t dtype) { return dtype == KILN_DTYPE_f16 || dtype == KILN_DTYPE_bf16; }

bool kiln_dtype_in(kiln_dtype_t dtype, kiln_dtype_set_t set) { return set >> dtype & 1; }
