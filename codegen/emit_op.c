/* codegen/emit_op.c: operations on scalars as CUDA expressions, from the device columns of ops.def.
 *
 * A scalar has a storage form, what memory holds, and an arithmetic form: float for f16 and bf16, bool for
 * bool, the same for the others. An operation takes arithmetic forms, and its result is rounded to storage
 * form at once, so that it does not depend on what is fused with it. Called by emit_region.c.
 */
#include "codegen/constant.h"
#include "codegen/emit.h"

#include <math.h>
#include <string.h>

static const char *const storage_types[KILN_DTYPE_COUNT] = {
#define KILN_DTYPE(name, bytes, class, storage, arithmetic) storage,
#include "ir/dtypes.def"
#undef KILN_DTYPE
};

static const char *const arithmetic_types[KILN_DTYPE_COUNT] = {
#define KILN_DTYPE(name, bytes, class, storage, arithmetic) arithmetic,
#include "ir/dtypes.def"
#undef KILN_DTYPE
};

const char *kiln_emit_storage_type(kiln_dtype_t dtype) { return storage_types[dtype]; }
const char *kiln_emit_arithmetic_type(kiln_dtype_t dtype) { return arithmetic_types[dtype]; }

static const char *unsigned_type(kiln_dtype_t dtype) {
  switch (kiln_dtype_bytes(dtype)) {
  case 8:
    return "unsigned long long";
  case 4:
    return "unsigned";
  default:
    return "unsigned char";
  }
}

/* --- constants
 * ---------------------------------------------------------------------------------------------- */

static const char *float_text(kiln_arena_t *arena, double value, bool is_double) {
  if (isnan(value) || isinf(value)) return NULL;
  const char *digits = kiln_arena_printf(arena, is_double ? "%.17g" : "%.9g", value);
  const char *point = strpbrk(digits, ".e") ? "" : ".0";
  const char *suffix = is_double ? "" : "f";
  return kiln_arena_printf(arena, signbit(value) ? "(%s%s%s)" : "%s%s%s", digits, point, suffix);
}

static const char *integer_text(kiln_arena_t *arena, uint64_t bits, kiln_dtype_t dtype) {
  switch (dtype) {
  case KILN_DTYPE_bool:
  case KILN_DTYPE_u8:
    return kiln_arena_printf(arena, "%u", (unsigned)(uint8_t)bits);
  case KILN_DTYPE_i8:
    return kiln_arena_printf(arena, "%d", (int)(int8_t)bits);
  case KILN_DTYPE_i32:
    if ((int32_t)bits == INT32_MIN) return "(-2147483647 - 1)";
    return kiln_arena_printf(arena, "%d", (int)(int32_t)bits);
  default:
    if ((int64_t)bits == INT64_MIN) return "(-9223372036854775807LL - 1)";
    return kiln_arena_printf(arena, "%lldLL", (long long)bits);
  }
}

const char *kiln_emit_bits(kiln_emitter_t *emitter, uint64_t bits, kiln_dtype_t dtype) {
  kiln_arena_t *arena = emitter->kernel->arena;
  if (kiln_dtype_is_half(dtype)) return kiln_arena_printf(arena, "(unsigned short)0x%04x", (unsigned)bits);
  if (!kiln_dtype_is_float(dtype)) {
    return kiln_arena_printf(arena, "(%s)%s", storage_types[dtype], integer_text(arena, bits, dtype));
  }
  return kiln_emit_number(emitter, bits, dtype);
}

const char *kiln_emit_number(kiln_emitter_t *emitter, uint64_t bits, kiln_dtype_t dtype) {
  kiln_arena_t *arena = emitter->kernel->arena;
  if (dtype == KILN_DTYPE_bool) return bits ? "true" : "false";
  if (!kiln_dtype_is_float(dtype)) {
    return kiln_arena_printf(arena, "(%s)%s", arithmetic_types[dtype], integer_text(arena, bits, dtype));
  }
  bool is_double = dtype == KILN_DTYPE_f64;
  double value = kiln_real_from_bits(bits, dtype);
  const char *text = float_text(arena, value, is_double);
  if (text) return text;
  if (is_double)
    return kiln_arena_printf(arena, "__longlong_as_double(0x%016llxLL)", (unsigned long long)bits);
  float single = (float)value;
  uint32_t word;
  memcpy(&word, &single, sizeof word);
  if (dtype == KILN_DTYPE_f32)
    word = (uint32_t)bits; /* a signaling NaN would not survive the conversions above */
  return kiln_arena_printf(arena, "__int_as_float(0x%08x)", (unsigned)word);
}

/* --- operands
 * ----------------------------------------------------------------------------------------------- */

const char *kiln_emit_stored(kiln_emitter_t *emitter, kiln_expr_id_t scalar) {
  const kiln_expr_t *expr = &emitter->kernel->exprs[scalar];
  if (expr->kind == KILN_EXPR_CONSTANT) return kiln_emit_bits(emitter, expr->bits, expr->dtype);
  return emitter->names[scalar];
}

const char *kiln_emit_value(kiln_emitter_t *emitter, kiln_expr_id_t scalar) {
  const kiln_expr_t *expr = &emitter->kernel->exprs[scalar];
  if (expr->kind == KILN_EXPR_CONSTANT) return kiln_emit_number(emitter, expr->bits, expr->dtype);
  if (kiln_dtype_is_half(expr->dtype)) return emitter->real_names[scalar];
  if (expr->dtype == KILN_DTYPE_bool) {
    return kiln_arena_printf(emitter->kernel->arena, "(%s != 0)", emitter->names[scalar]);
  }
  return emitter->names[scalar];
}

/* --- casts
 * -------------------------------------------------------------------------------------------------- */

/* To f16 or bf16 with one rounding: types that f32 does not hold exactly go through f32 rounded to odd. */
static const char *cast_to_half(kiln_arena_t *arena, const char *value, kiln_dtype_t from) {
  bool is_exact = kiln_dtype_bytes(from) == 1 || kiln_dtype_is_half(from) || from == KILN_DTYPE_f32;
  if (is_exact) return kiln_dtype_is_float(from) ? value : kiln_arena_printf(arena, "(float)%s", value);
  return kiln_arena_printf(arena, "kiln_round_to_odd(%s)", value);
}

static const char *cast_text(kiln_emitter_t *emitter, kiln_expr_id_t operand, kiln_dtype_t to) {
  kiln_arena_t *arena = emitter->kernel->arena;
  kiln_dtype_t from = emitter->kernel->exprs[operand].dtype;
  const char *value = kiln_emit_value(emitter, operand);
  if (to == KILN_DTYPE_bool) return kiln_arena_printf(arena, "%s != 0", value);
  if (kiln_dtype_is_half(to)) return cast_to_half(arena, value, from);
  if (kiln_dtype_is_float(from) && kiln_dtype_is_integer(to)) {
    return kiln_arena_printf(arena, "kiln_saturate<%s>(%s)", arithmetic_types[to], value);
  }
  return kiln_arena_printf(arena, "(%s)%s", arithmetic_types[to], value);
}

static const char *bitcast_text(kiln_emitter_t *emitter, kiln_expr_id_t operand, kiln_dtype_t to) {
  kiln_dtype_t from = emitter->kernel->exprs[operand].dtype;
  const char *stored = kiln_emit_stored(emitter, operand), *function = NULL;
  if (from == KILN_DTYPE_f32) function = "__float_as_int";
  if (from == KILN_DTYPE_f64) function = "__double_as_longlong";
  if (to == KILN_DTYPE_f32) function = "__int_as_float";
  if (to == KILN_DTYPE_f64) function = "__longlong_as_double";
  if (function) return kiln_arena_printf(emitter->kernel->arena, "%s(%s)", function, stored);
  return kiln_arena_printf(emitter->kernel->arena, "(%s)%s", storage_types[to], stored);
}

/* --- operations
 * --------------------------------------------------------------------------------------------- */

/* An absent bound of clamp is the dtype's own end. */
static const char *absent_number(kiln_dtype_t dtype, kiln_attr_t attr) {
  bool lower = attr == KILN_ATTR_min;
  switch (dtype) {
  case KILN_DTYPE_u8:
    return lower ? "0" : "255";
  case KILN_DTYPE_i8:
    return lower ? "-128" : "127";
  case KILN_DTYPE_i32:
    return lower ? "(-2147483647 - 1)" : "2147483647";
  case KILN_DTYPE_i64:
    return lower ? "(-9223372036854775807LL - 1)" : "9223372036854775807LL";
  case KILN_DTYPE_f64:
    return lower ? "-__longlong_as_double(0x7ff0000000000000LL)"
                 : "__longlong_as_double(0x7ff0000000000000LL)";
  default:
    return lower ? "-__int_as_float(0x7f800000)" : "__int_as_float(0x7f800000)";
  }
}

/* Bounds are numbers of the arithmetic type (integers: of i64, as a bound may lie outside the dtype). */
static const char *attr_text(kiln_emitter_t *emitter, const kiln_expr_t *expr, kiln_dtype_t dtype,
                             kiln_attr_t attr) {
  const kiln_node_t *node = &emitter->kernel->graph->nodes[kiln_scalar_op_node(expr)];
  const kiln_attr_value_t *value = kiln_node_attr(node, attr);
  if (kiln_attr_kind(attr) == KILN_ATTR_KIND_WORD) {
    return value ? value->word : kiln_op_attr_rule(expr->op, attr)->word;
  }
  if (!value) return absent_number(dtype, attr);
  if (kiln_dtype_is_half(dtype)) dtype = KILN_DTYPE_f32;
  if (kiln_dtype_is_integer(dtype)) dtype = KILN_DTYPE_i64;
  return kiln_emit_number(emitter, kiln_number_to_bits(value->number, dtype), dtype);
}

/* Appends what a "$..." of a device expression stands for; returns the text behind it. */
static const char *substitute(kiln_emitter_t *emitter, const kiln_expr_t *expr, kiln_buffer_t *out,
                              const char *at) {
  kiln_dtype_t dtype = emitter->kernel->exprs[expr->operands[0]].dtype;
  if (*at >= '0' && *at <= '2') {
    kiln_buffer_puts(out, kiln_emit_value(emitter, expr->operands[*at - '0']));
    return at + 1;
  }
  if (*at == 'T' || *at == 'U') {
    kiln_buffer_puts(out, *at == 'T' ? arithmetic_types[dtype] : unsigned_type(dtype));
    return at + 1;
  }
  size_t length = strspn(at, "abcdefghijklmnopqrstuvwxyz_");
  kiln_attr_t attr;
  if (kiln_attr_parse(at, length, &attr)) kiln_buffer_puts(out, attr_text(emitter, expr, dtype, attr));
  return at + length;
}

bool kiln_emit_op_moves_bits(const kiln_expr_t *expr) {
  return expr->op == KILN_OP_where || expr->op == KILN_OP_bitcast;
}

static const char *expand(kiln_emitter_t *emitter, const kiln_expr_t *expr, const char *at) {
  kiln_buffer_t out;
  kiln_buffer_init(&out);
  while (*at) {
    size_t plain = strcspn(at, "$");
    kiln_buffer_append(&out, at, plain);
    at += plain;
    if (*at) at = substitute(emitter, expr, &out, at + 1);
  }
  const char *text = kiln_arena_strdup(emitter->kernel->arena, kiln_buffer_text(&out));
  if (out.failed) emitter->body.failed = true;
  kiln_buffer_deinit(&out);
  return text;
}

const char *kiln_emit_op(kiln_emitter_t *emitter, const kiln_expr_t *expr) {
  const kiln_op_info_t *info = kiln_op_info(expr->op);
  kiln_dtype_t dtype = emitter->kernel->exprs[expr->operands[0]].dtype;
  switch (expr->op) {
  case KILN_OP_cast:
    return cast_text(emitter, expr->operands[0], expr->dtype);
  case KILN_OP_bitcast:
    return bitcast_text(emitter, expr->operands[0], expr->dtype);
  case KILN_OP_where:
    return kiln_arena_printf(
        emitter->kernel->arena, "%s ? %s : %s", kiln_emit_value(emitter, expr->operands[0]),
        kiln_emit_stored(emitter, expr->operands[1]), kiln_emit_stored(emitter, expr->operands[2]));
  default:
    return expand(emitter, expr, kiln_dtype_is_float(dtype) ? info->device_float : info->device_int);
  }
}

const char *kiln_emit_rounded(kiln_emitter_t *emitter, const char *number, kiln_dtype_t dtype) {
  if (!kiln_dtype_is_half(dtype)) return number;
  return kiln_arena_printf(emitter->kernel->arena, "kiln_%s(%s)", kiln_dtype_name(dtype), number);
}
