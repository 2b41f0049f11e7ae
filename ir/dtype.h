/* ir/dtype.h: element types and their classes. */
#ifndef KILN_IR_DTYPE_H
#define KILN_IR_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
#define KILN_DTYPE(name, bytes, class, storage, arithmetic) KILN_DTYPE_##name,
#include "ir/dtypes.def"
#undef KILN_DTYPE
  KILN_DTYPE_COUNT
} kiln_dtype_t;

/* Sets of dtypes, for the operand rules of ops.def. */
typedef uint32_t kiln_dtype_set_t;
#define KILN_DTYPES_B (1u << KILN_DTYPE_bool)
#define KILN_DTYPES_I                                                                                        \
  (1u << KILN_DTYPE_u8 | 1u << KILN_DTYPE_i8 | 1u << KILN_DTYPE_i32 | 1u << KILN_DTYPE_i64)
#define KILN_DTYPES_F                                                                                        \
  (1u << KILN_DTYPE_f16 | 1u << KILN_DTYPE_bf16 | 1u << KILN_DTYPE_f32 | 1u << KILN_DTYPE_f64)
#define KILN_DTYPES_IB (KILN_DTYPES_I | KILN_DTYPES_B)
#define KILN_DTYPES_N (KILN_DTYPES_I | KILN_DTYPES_F)
#define KILN_DTYPES_A (KILN_DTYPES_N | KILN_DTYPES_B)

const char *kiln_dtype_name(kiln_dtype_t dtype);
bool kiln_dtype_parse(const char *name, size_t length, kiln_dtype_t *out_dtype);
/* A name that the design keeps for a dtype to come (i16, f8e4m3 ...): UNSUPPORTED rather than unknown. */
bool kiln_dtype_is_reserved(const char *name, size_t length);
size_t kiln_dtype_bytes(kiln_dtype_t dtype);
bool kiln_dtype_is_float(kiln_dtype_t dtype);
bool kiln_dtype_is_integer(kiln_dtype_t dtype); /* bool is none */
bool kiln_dtype_is_half(kiln_dtype_t dtype);    /* f16, bf16 */
bool kiln_dtype_in(kiln_dtype_t dtype, kiln_dtype_set_t set);

#endif
