/* emulator/lanes_loops.h: turns the rows of lanes.def into loops over the 32 lanes of a warp, and a table of
 * them.
 *
 * Included once by each lanes_<isa>.c, which has set the instruction set for the compiler and EMU_LANE_TABLE,
 * the table's name. Every handler computes all 32 lanes, straight-line, so that compilers vectorize it; when
 * some lanes are switched off the result goes to a scratch vector first and is blended in. An operation may
 * therefore see any bits in lanes that are off and must be defined for them. Called by warp run loops, on any
 * worker's thread.
 */
#include "emulator/lane_math.h"
#include "emulator/lanes.h"
#include "emulator/machine.h"

#include <math.h>

/* How a lane of each type is stored, its value's type, and the conversions between the two. */
typedef uint32_t LANE_u8, LANE_s8, LANE_u16, LANE_s16, LANE_u32, LANE_s32, LANE_f16, LANE_bf16, LANE_f32;
typedef uint64_t LANE_u64, LANE_s64, LANE_f64;
typedef uint8_t VALUE_u8;
typedef int8_t VALUE_s8;
typedef uint16_t VALUE_u16;
typedef int16_t VALUE_s16;
typedef uint32_t VALUE_u32;
typedef int32_t VALUE_s32;
typedef uint64_t VALUE_u64;
typedef int64_t VALUE_s64;
typedef float VALUE_f16, VALUE_bf16, VALUE_f32;
typedef double VALUE_f64;
#define BITS_u16 16u
#define BITS_s16 16u
#define BITS_u32 32u
#define BITS_s32 32u
#define BITS_u64 64u
#define BITS_s64 64u

#define GET_u8(x) ((uint8_t)(x))
#define GET_s8(x) ((int8_t)(x))
#define GET_u16(x) ((uint16_t)(x))
#define GET_s16(x) ((int16_t)(x))
#define GET_u32(x) (x)
#define GET_s32(x) ((int32_t)(x))
#define GET_u64(x) (x)
#define GET_s64(x) ((int64_t)(x))
#define GET_f16(x) f32_of_f16(x)
#define GET_bf16(x) f32_of_bits((x) << 16)
#define GET_f32(x) f32_of_bits(x)
#define GET_f64(x) f64_of_bits(x)
#define PUT_u8(x) ((uint8_t)(x))
#define PUT_s8(x) ((uint32_t)(int8_t)(x))
#define PUT_u16(x) ((uint16_t)(x))
#define PUT_s16(x) ((uint16_t)(x))
#define PUT_u32(x) (x)
#define PUT_s32(x) ((uint32_t)(x))
#define PUT_u64(x) (x)
#define PUT_s64(x) ((uint64_t)(x))
#define PUT_f16(x) f16_of_f32(x)
#define PUT_bf16(x) bf16_of_f32(x)
#define PUT_f32(x) canonical_f32(x)
#define PUT_f64(x) bits_of_f64(x)

#if defined __clang__
#pragma clang diagnostic ignored "-Wpass-failed" /* some loops call functions; they stay loops */
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif
#define EACH_LANE INDEPENDENT for (uint32_t l = 0; l < 32; l++)
#define ARG(type, name, index)                                                                               \
  const LANE_##type *restrict name = (const LANE_##type *)(w->frame + i->arg[index])

/* Where the handler writes: the register itself, or scratch when lanes are off. */
#define RESULT(type)                                                                                         \
  LANE_##type scratch[32] __attribute__((aligned(64)));                                                      \
  LANE_##type *result = (LANE_##type *)(w->frame + i->arg[0]);                                               \
  LANE_##type *out = w->mask == ~0u ? result : scratch;
#define BLEND()                                                                                              \
  if (out != result) EMU_EACH_LANE(lane, w->mask) result[lane] = scratch[lane];                              \
  return i + 1

#define HANDLER(key) static const emu_inst_t *lanes_##key(emu_warp_t *w, const emu_inst_t *i)

#define UNARY(key, class, R, A, expression)                                                                  \
  HANDLER(key) {                                                                                             \
    RESULT(R) ARG(A, pa, 1);                                                                                 \
    EACH_LANE {                                                                                              \
      VALUE_##A a = GET_##A(pa[l]);                                                                          \
      out[l] = PUT_##R(expression);                                                                          \
    }                                                                                                        \
    BLEND();                                                                                                 \
  }
#define BINARY(key, class, R, A, B, expression)                                                              \
  HANDLER(key) {                                                                                             \
    RESULT(R) ARG(A, pa, 1);                                                                                 \
    ARG(B, pb, 2);                                                                                           \
    EACH_LANE {                                                                                              \
      VALUE_##A a = GET_##A(pa[l]);                                                                          \
      VALUE_##B b = GET_##B(pb[l]);                                                                          \
      out[l] = PUT_##R(expression);                                                                          \
    }                                                                                                        \
    BLEND();                                                                                                 \
  }
#define TERNARY(key, class, R, A, B, C, expression)                                                          \
  HANDLER(key) {                                                                                             \
    RESULT(R) ARG(A, pa, 1);                                                                                 \
    ARG(B, pb, 2);                                                                                           \
    ARG(C, pc, 3);                                                                                           \
    EACH_LANE {                                                                                              \
      VALUE_##A a = GET_##A(pa[l]);                                                                          \
      VALUE_##B b = GET_##B(pb[l]);                                                                          \
      VALUE_##C c = GET_##C(pc[l]);                                                                          \
      out[l] = PUT_##R(expression);                                                                          \
    }                                                                                                        \
    BLEND();                                                                                                 \
  }
#define QUATERNARY(key, class, R, A, B, C, E, expression)                                                    \
  HANDLER(key) {                                                                                             \
    RESULT(R) ARG(A, pa, 1);                                                                                 \
    ARG(B, pb, 2);                                                                                           \
    ARG(C, pc, 3);                                                                                           \
    ARG(E, pe, 4);                                                                                           \
    EACH_LANE {                                                                                              \
      VALUE_##A a = GET_##A(pa[l]);                                                                          \
      VALUE_##B b = GET_##B(pb[l]);                                                                          \
      VALUE_##C c = GET_##C(pc[l]);                                                                          \
      VALUE_##E e = GET_##E(pe[l]);                                                                          \
      out[l] = PUT_##R(expression);                                                                          \
    }                                                                                                        \
    BLEND();                                                                                                 \
  }
/* selp d, a, b, p */
#define SELECT(key, class, R, A)                                                                             \
  HANDLER(key) {                                                                                             \
    RESULT(R) ARG(A, pa, 1);                                                                                 \
    ARG(A, pb, 2);                                                                                           \
    uint32_t p = *emu_u32(w, i->arg[3]);                                                                     \
    EACH_LANE { out[l] = p >> l & 1 ? pa[l] : pb[l]; }                                                       \
    BLEND();                                                                                                 \
  }
/* setp p|q, a, b, c: see store_predicates. */
#define COMPARE(key, class, A, B, expression)                                                                \
  HANDLER(key) {                                                                                             \
    ARG(A, pa, 2);                                                                                           \
    ARG(B, pb, 3);                                                                                           \
    uint32_t r = 0;                                                                                          \
    EACH_LANE {                                                                                              \
      VALUE_##A a = GET_##A(pa[l]);                                                                          \
      VALUE_##B b = GET_##B(pb[l]);                                                                          \
      r |= (uint32_t)(expression) << l;                                                                      \
    }                                                                                                        \
    return store_predicates(w, i, r);                                                                        \
  }
#define TESTP_TYPE(key, class, A, type, magnitude, infinity_value, least_value, condition)                   \
  HANDLER(key) {                                                                                             \
    ARG(A, pa, 1);                                                                                           \
    const type infinity = infinity_value, least = least_value;                                               \
    uint32_t r = 0;                                                                                          \
    EACH_LANE {                                                                                              \
      type x = pa[l] & magnitude;                                                                            \
      r |= (uint32_t)(condition) << l;                                                                       \
    }                                                                                                        \
    (void)infinity, (void)least;                                                                             \
    uint32_t *p = emu_u32(w, i->arg[0]);                                                                     \
    *p = (*p & ~w->mask) | (r & w->mask);                                                                    \
    return i + 1;                                                                                            \
  }
#define TESTP(test, condition)                                                                               \
  TESTP_TYPE(testp_##test##_f32, F32, u32, uint32_t, 0x7fffffffu, 0x7f800000u, 0x00800000u, condition)       \
  TESTP_TYPE(testp_##test##_f64, F64, u64, uint64_t, ~(1ull << 63), 0x7ffull << 52, 1ull << 52, condition)
/* d, a, b, carry (read, and written where `sets`); the carry is the bit above the result, or the borrow. */
#define CARRY(key, T, expression, sets)                                                                      \
  HANDLER(key) {                                                                                             \
    ARG(T, pa, 1);                                                                                           \
    ARG(T, pb, 2);                                                                                           \
    LANE_##T *d = (LANE_##T *)(w->frame + i->arg[0]);                                                        \
    uint32_t *cc = emu_u32(w, i->arg[3]);                                                                    \
    EMU_EACH_LANE(l, w->mask) {                                                                              \
      LANE_##T a = pa[l], b = pb[l];                                                                         \
      uint32_t carry = cc[l];                                                                                \
      __typeof__(expression) r = expression;                                                                 \
      (void)carry;                                                                                           \
      d[l] = (LANE_##T)r;                                                                                    \
      if (sets) cc[l] = (uint32_t)(r >> BITS_##T) & 1;                                                       \
    }                                                                                                        \
    return i + 1;                                                                                            \
  }
#define CARRY_MAD(key, T, expression, sets)                                                                  \
  HANDLER(key) {                                                                                             \
    ARG(T, pa, 1);                                                                                           \
    ARG(T, pb, 2);                                                                                           \
    ARG(T, pc, 3);                                                                                           \
    LANE_##T *d = (LANE_##T *)(w->frame + i->arg[0]);                                                        \
    uint32_t *cc = emu_u32(w, i->arg[4]);                                                                    \
    EMU_EACH_LANE(l, w->mask) {                                                                              \
      LANE_##T a = pa[l], b = pb[l], c = pc[l];                                                              \
      uint32_t carry = cc[l];                                                                                \
      __typeof__(expression) r = expression;                                                                 \
      (void)carry;                                                                                           \
      d[l] = (LANE_##T)r;                                                                                    \
      if (sets) cc[l] = (uint32_t)(r >> BITS_##T) & 1;                                                       \
    }                                                                                                        \
    return i + 1;                                                                                            \
  }
/* Between integers: the low bits, or with .sat the nearest value that fits. */
#define CONVERT_INT(key, R, A)                                                                               \
  HANDLER(key) {                                                                                             \
    RESULT(R) ARG(A, pa, 1);                                                                                 \
    if (i->saturate) EACH_LANE {                                                                             \
        out[l] = PUT_##R(SATURATE_##R(GET_##A(pa[l])));                                                      \
      }                                                                                                      \
    else                                                                                                     \
      EACH_LANE { out[l] = PUT_##R((VALUE_##R)GET_##A(pa[l])); }                                             \
    BLEND();                                                                                                 \
  }
#define SATURATE(x, low, high) saturated(is_negative(x), (uint64_t)(x), low, high)
#define SATURATE_u8(x) ((uint8_t)SATURATE(x, 0, UINT8_MAX))
#define SATURATE_s8(x) ((int8_t)SATURATE(x, INT8_MIN, (uint64_t)INT8_MAX))
#define SATURATE_u16(x) ((uint16_t)SATURATE(x, 0, UINT16_MAX))
#define SATURATE_s16(x) ((int16_t)SATURATE(x, INT16_MIN, (uint64_t)INT16_MAX))
#define SATURATE_u32(x) ((uint32_t)SATURATE(x, 0, UINT32_MAX))
#define SATURATE_s32(x) ((int32_t)SATURATE(x, INT32_MIN, (uint64_t)INT32_MAX))
#define SATURATE_u64(x) ((uint64_t)SATURATE(x, 0, UINT64_MAX))
#define SATURATE_s64(x) ((int64_t)SATURATE(x, INT64_MIN, (uint64_t)INT64_MAX))
/* From a float: rounded as i->rounding says, clamped; a NaN gives 0, or only the top bit where either side
 * has 64 bits. */
#define FLOAT_TO_INT(key, R, A, low, high, least, most)                                                      \
  HANDLER(key) {                                                                                             \
    RESULT(R) ARG(A, pa, 1);                                                                                 \
    const bool wide = sizeof(VALUE_##R) == 8 || sizeof(VALUE_##A) == 8;                                      \
    const VALUE_##R of_nan = wide ? (VALUE_##R)(1ull << (8 * sizeof(VALUE_##R) - 1)) : 0;                    \
    EACH_LANE {                                                                                              \
      VALUE_##A a = round_integral(GET_##A(pa[l]), i->rounding);                                             \
      VALUE_##R r = a != a                   ? of_nan                                                        \
                    : a < (VALUE_##A)(low)   ? least                                                         \
                    : a >= (VALUE_##A)(high) ? most                                                          \
                                             : (VALUE_##R)a;                                                 \
      out[l] = PUT_##R(r);                                                                                   \
    }                                                                                                        \
    BLEND();                                                                                                 \
  }
#define INTEGRAL(key, T)                                                                                     \
  HANDLER(key) {                                                                                             \
    RESULT(T) ARG(T, pa, 1);                                                                                 \
    if (i->mode) EACH_LANE {                                                                                 \
        out[l] = PUT_##T(round_integral(GET_##T(pa[l]), i->rounding));                                       \
      }                                                                                                      \
    else                                                                                                     \
      EACH_LANE { out[l] = PUT_##T(GET_##T(pa[l])); }                                                        \
    BLEND();                                                                                                 \
  }
/* To a half type in any rounding mode; the fast form is for rounding an f32 to nearest. i->mode: .relu */
#define ROUND_TO_HALF(key, R, A, fast)                                                                       \
  HANDLER(key) {                                                                                             \
    RESULT(R) ARG(A, pa, 1);                                                                                 \
    if (fast && i->rounding == EMU_ROUND_NEAREST && !i->mode && !i->saturate && !i->finite) EACH_LANE {      \
        out[l] = PUT_##R((float)GET_##A(pa[l]));                                                             \
      }                                                                                                      \
    else                                                                                                     \
      EMU_EACH_LANE(l, w->mask) out[l] = FINITE_##R(R##_rounded(limited(GET_##A(pa[l]), i), i->rounding));   \
    BLEND();                                                                                                 \
  }
/* .satfinite: the greatest finite number instead of infinity. */
#define FINITE(bits, infinity) ((bits) - (i->finite && ((bits)&0x7fffu) == (infinity)))
#define FINITE_f16(bits) FINITE(bits, 0x7c00u)
#define FINITE_bf16(bits) FINITE(bits, 0x7f80u)
/* cvt.rn.f16x2.f32 d, a, b: a goes to the upper half. */
#define PACK_HALVES(key, R)                                                                                  \
  HANDLER(key) {                                                                                             \
    RESULT(u32) ARG(f32, pa, 1);                                                                             \
    ARG(f32, pb, 2);                                                                                         \
    EMU_EACH_LANE(l, w->mask) {                                                                              \
      uint32_t upper = R##_rounded(limited(GET_f32(pa[l]), i), i->rounding),                                 \
               lower = R##_rounded(limited(GET_f32(pb[l]), i), i->rounding);                                 \
      out[l] = FINITE_##R(upper) << 16 | FINITE_##R(lower);                                                  \
    }                                                                                                        \
    BLEND();                                                                                                 \
  }
/* 8-bit floats come in pairs; a goes to the upper byte. */
#define PACK_FP8(key, R)                                                                                     \
  HANDLER(key) {                                                                                             \
    RESULT(u16) ARG(f32, pa, 1);                                                                             \
    ARG(f32, pb, 2);                                                                                         \
    EMU_EACH_LANE(l, w->mask)                                                                                \
    out[l] = R##_rounded(limited(GET_f32(pa[l]), i)) << 8 | R##_rounded(limited(GET_f32(pb[l]), i));         \
    BLEND();                                                                                                 \
  }
#define FP8_OF_HALVES(key, R)                                                                                \
  HANDLER(key) {                                                                                             \
    RESULT(u16) ARG(u32, pa, 1);                                                                             \
    EMU_EACH_LANE(l, w->mask)                                                                                \
    out[l] = R##_rounded(limited(GET_f16(pa[l] >> 16), i)) << 8 |                                            \
             R##_rounded(limited(GET_f16(pa[l] & 0xffff), i));                                               \
    BLEND();                                                                                                 \
  }
#define HALVES_OF_FP8(key, A)                                                                                \
  HANDLER(key) {                                                                                             \
    RESULT(u32) ARG(u16, pa, 1);                                                                             \
    EMU_EACH_LANE(l, w->mask)                                                                                \
    out[l] = PUT_f16(limited(GET_f16(f16_of_##A(pa[l] >> 8 & 255)), i)) << 16 |                              \
             PUT_f16(limited(GET_f16(f16_of_##A(pa[l] & 255)), i));                                          \
    BLEND();                                                                                                 \
  }
/* i->kind: 1 for .rna, ties away from zero */
#define TF32(key)                                                                                            \
  HANDLER(key) {                                                                                             \
    RESULT(u32) ARG(u32, pa, 1);                                                                             \
    EACH_LANE { out[l] = tf32_of_bits(pa[l], i); }                                                           \
    BLEND();                                                                                                 \
  }

/* p = r op c and q = !r op c, where there are a q (arg 1 != 0) and an op (i->kind) with c (arg 4; i->mode:
 * negated). */
static const emu_inst_t *store_predicates(emu_warp_t *w, const emu_inst_t *i, uint32_t r) {
  uint32_t mask = w->mask, not_r = ~r;
  if (i->kind) {
    uint32_t c = *emu_u32(w, i->arg[4]);
    if (i->mode) c = ~c;
    r = i->kind == 1 ? r & c : i->kind == 2 ? r | c : r ^ c;
    not_r = i->kind == 1 ? not_r & c : i->kind == 2 ? not_r | c : not_r ^ c;
  }
  uint32_t *p = emu_u32(w, i->arg[0]);
  *p = (*p & ~mask) | (r & mask);
  if (i->arg[1]) {
    uint32_t *q = emu_u32(w, i->arg[1]);
    *q = (*q & ~mask) | (not_r & mask);
  }
  return i + 1;
}

static inline double limited(double x, const emu_inst_t *i) {
  if (i->mode && !(x > 0)) return x != x ? x : 0;
  if (i->saturate) return x > 1 ? 1 : x > 0 ? x : 0;
  return x;
}

#include "emulator/lanes.def"
#undef UNARY
#undef BINARY
#undef TERNARY
#undef QUATERNARY
#undef SELECT
#undef COMPARE
#undef TESTP
#undef CARRY
#undef CARRY_MAD
#undef CONVERT_INT
#undef FLOAT_TO_INT
#undef INTEGRAL
#undef ROUND_TO_HALF
#undef PACK_HALVES
#undef TF32
#undef PACK_FP8
#undef FP8_OF_HALVES
#undef HALVES_OF_FP8

#define ENTRY(key, class, args) {#key, lanes_##key, EMU_CLASS_##class, args},
#define UNARY(key, class, ...) ENTRY(key, class, 2)
#define BINARY(key, class, ...) ENTRY(key, class, 3)
#define TERNARY(key, class, ...) ENTRY(key, class, 4)
#define QUATERNARY(key, class, ...) ENTRY(key, class, 5)
#define SELECT(key, class, ...) ENTRY(key, class, 4)
#define COMPARE(key, class, ...) ENTRY(key, class, 5)
#define TESTP(test, ...) ENTRY(testp_##test##_f32, F32, 2) ENTRY(testp_##test##_f64, F64, 2)
#define CARRY(key, ...) ENTRY(key, INTEGER, 4)
#define CARRY_MAD(key, ...) ENTRY(key, INTEGER, 5)
#define CONVERT_INT(key, ...) ENTRY(key, CONVERSION, 2)
#define FLOAT_TO_INT(key, ...) ENTRY(key, CONVERSION, 2)
#define INTEGRAL(key, ...) ENTRY(key, CONVERSION, 2)
#define ROUND_TO_HALF(key, ...) ENTRY(key, CONVERSION, 2)
#define PACK_HALVES(key, ...) ENTRY(key, CONVERSION, 3)
#define TF32(key) ENTRY(key, CONVERSION, 2)
#define PACK_FP8(key, ...) ENTRY(key, CONVERSION, 3)
#define FP8_OF_HALVES(key, ...) ENTRY(key, CONVERSION, 2)
#define HALVES_OF_FP8(key, ...) ENTRY(key, CONVERSION, 2)
static const emu_lane_op_t lane_ops[] = {
#include "emulator/lanes.def"
};

#include "emulator/lanes_rows.h"
#include "emulator/lanes_stamps.h"

const emu_lane_table_t EMU_LANE_TABLE = {.ops = lane_ops,
                                         .count = sizeof lane_ops / sizeof lane_ops[0],
                                         .rows = {.load = rows_load,
                                                  .store = rows_store,
                                                  .survey = survey,
                                                  .warp_reads = warp_reads,
                                                  .warp_writes = warp_writes,
                                                  .block_reads = block_reads,
                                                  .block_writes = block_writes,
                                                  .tensor_rows = tensor_rows}};
