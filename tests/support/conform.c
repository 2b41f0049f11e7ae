/* tests/support/conform.c: see conform.h. */
#include "tests/support/conform.h"

#include "base/half.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
// clang-format on
#include <fenv.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- values --- */

float conform_f32(uint64_t bits) {
  uint32_t narrow = (uint32_t)bits;
  float value;
  memcpy(&value, &narrow, 4);
  return value;
}

double conform_f64(uint64_t bits) {
  double value;
  memcpy(&value, &bits, 8);
  return value;
}

uint64_t conform_f32_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  return value != value ? 0x7fffffff : bits;
}

uint64_t conform_f64_bits(double value) {
  uint64_t bits;
  memcpy(&bits, &value, 8);
  return bits;
}

double conform_value(const char *type, uint64_t bits) {
  if (!strcmp(type, "f64")) return conform_f64(bits);
  if (!strcmp(type, "f32")) return (double)conform_f32(bits);
  return (double)(type[0] == 'b' ? kiln_bf16_to_f32((uint16_t)bits) : kiln_f16_to_f32((uint16_t)bits));
}

/* The nearest half, moved by one where the host's mode wants the other neighbour; `largest` is finite. */
static uint64_t directed(double x, uint16_t nearest, double value, uint16_t largest) {
  int mode = fegetround();
  bool negative = signbit(x);
  if (x != x) return 0x7fff;
  if (mode == FE_TONEAREST || value == x) return nearest;
  bool outward = (mode == FE_UPWARD && !negative) || (mode == FE_DOWNWARD && negative);
  bool beyond = fabs(value) > fabs(x);
  uint16_t magnitude = nearest & 0x7fff;
  if (outward && !beyond) magnitude++;
  if (!outward && beyond) magnitude = magnitude > largest ? largest : (uint16_t)(magnitude - 1);
  return (uint64_t)(magnitude | (negative ? 0x8000 : 0));
}

/* base/half rounds to nearest only while the host does. */
uint64_t conform_round_f16(double x) {
  int mode = fegetround();
  fesetround(FE_TONEAREST);
  uint16_t nearest = kiln_f16_from_f64(x);
  fesetround(mode);
  return directed(x, nearest, (double)kiln_f16_to_f32(nearest), 0x7bff);
}

uint64_t conform_round_bf16(double x) {
  int mode = fegetround();
  fesetround(FE_TONEAREST);
  uint16_t nearest = kiln_bf16_from_f64(x);
  fesetround(mode);
  return directed(x, nearest, (double)kiln_bf16_to_f32(nearest), 0x7f7f);
}

float conform_flush(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x; }

/* --- operands --- */

uint32_t conform_bytes(const char *type) {
  if (strstr(type, "x2") || !strcmp(type, "tf32")) return 4;
  const char *digits = type + strcspn(type, "0123456789");
  return (uint32_t)atoi(digits) / 8;
}

static uint64_t random_bits(uint64_t state) {
  state = (state + 1) * 0x9e3779b97f4a7c15ull;
  state = (state ^ state >> 30) * 0xbf58476d1ce4e5b9ull;
  state = (state ^ state >> 27) * 0x94d049bb133111ebull;
  return state ^ state >> 31;
}

static const uint64_t integers[] = {
    0,          1,          2,          3,          4,          7,         8,          15,
    16,         31,         32,         33,         63,         64,        65,         127,
    128,        255,        256,        0x7fff,     0x8000,     0xffff,    ~0,         ~1,
    0x7fffffff, 0x80000000, 0x80000001, 0xffffffff, 1ull << 32, INT64_MAX, 1ull << 63, (1ull << 63) + 1};
static const uint64_t floats16[] = {0,      0x8000, 0x0001, 0x8001, 0x03ff, 0x0400, 0x3c00, 0xbc00, 0x7bff,
                                    0xfbff, 0x7c00, 0xfc00, 0x7e00, 0x7c01, 0x3f80, 0xbf80, 0x7f7f, 0xff7f,
                                    0x7f80, 0xff80, 0x7fc0, 0x7f81, 0x007f, 0x0080, 0x0100, 0x4200};
static const uint64_t floats32[] = {0,          0x80000000, 1,          0x80000001, 0x007fffff, 0x00800000,
                                    0x00800001, 0x3f800000, 0xbf800000, 0x3f000000, 0x3fc00000, 0xc0200000,
                                    0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0x7f800001,
                                    0x4effffff, 0x4f000000, 0xcf000000, 0x4f7fffff, 0x4f800000, 0x5f000000,
                                    0x5f800000, 0xdf000000, 0x437f8000, 0x477fff80, 0x47000000, 0xc7000000,
                                    0x42ff0000, 0xc3008000, 0x477fe000, 0x477ff000};
static const uint64_t floats64[] = {0,
                                    1ull << 63,
                                    1,
                                    0xfffffffffffff,
                                    1ull << 52,
                                    0x3fe0000000000000,
                                    0x3ff8000000000000,
                                    0x3ff0000000000000,
                                    0xbff0000000000000,
                                    0x7fefffffffffffff,
                                    0x7ff0000000000000,
                                    0xfff0000000000000,
                                    0x7ff8000000000000,
                                    0x41dfffffffc00000,
                                    0x41e0000000000000,
                                    0xc1e0000000000000,
                                    0x41efffffffe00000,
                                    0x41f0000000000000,
                                    0x43e0000000000000,
                                    0x43f0000000000000,
                                    0xc3e0000000000000,
                                    0x380fffffffffffff,
                                    0x36a0000000000000,
                                    0x47efffffe0000000,
                                    0x47effffff0000000,
                                    0x40efffe000000000};

typedef struct {
  const uint64_t *values;
  uint32_t count;
} specials_t;
#define SPECIALS(array) ((specials_t){array, sizeof array / sizeof array[0]})

static specials_t specials_of(const char *type, uint32_t bytes) {
  bool is_float = type[0] == 'f' || !strncmp(type, "bf", 2);
  if (!is_float || strstr(type, "x2")) return SPECIALS(integers);
  return bytes == 2 ? SPECIALS(floats16) : bytes == 4 ? SPECIALS(floats32) : SPECIALS(floats64);
}

/* Half of the random floats are near 1, where sums cancel and products stay in range; integers come in all
 * magnitudes. */
static uint64_t random_operand(const char *type, uint32_t bytes, uint64_t bits) {
  bool is_float = type[0] == 'f' || !strncmp(type, "bf", 2);
  uint64_t top = bits >> 62;
  if (!is_float) return top < 2 ? bits : top == 2 ? bits >> (bits >> 56 & 63) : bits & 63;
  if (strstr(type, "x2") || bytes == 2 || top < 2) return bits;
  if (bytes == 4) return 0x3f000000 + (bits & 0x80ffffff);
  return 0x3fe0000000000000 + (bits & 0x801fffffffffffff);
}

uint64_t conform_operand(const char *type, uint32_t n, uint32_t which) {
  uint32_t bytes = conform_bytes(type);
  uint64_t mask = bytes == 8 ? ~0ull : (1ull << 8 * bytes) - 1;
  if (which == 0 && bytes <= 2) return n & mask;
  specials_t s = specials_of(type, bytes);
  uint64_t bits = random_bits(n * 3ull + which);
  if (which == 2 || bytes <= 2)
    bits = bits >> 40 & 1 ? s.values[bits % s.count] : random_operand(type, bytes, random_bits(bits));
  else if (n < s.count * s.count)
    bits = s.values[which ? n / s.count : n % s.count];
  else
    bits = random_operand(type, bytes, bits);
  return bits & mask;
}

/* --- kernels --- */

#define MOST_OPERANDS 4

typedef struct {
  char names[MOST_OPERANDS][8]; /* of types: d, a, b, c */
  uint32_t bytes[MOST_OPERANDS];
  uint32_t count;
} operand_types_t;

static operand_types_t parse_types(const char *types) {
  operand_types_t t = {.count = 0};
  while (*types && t.count < MOST_OPERANDS) {
    size_t length = strcspn(types, " ");
    assert_true(length < sizeof t.names[0]);
    memcpy(t.names[t.count], types, length);
    t.bytes[t.count] = conform_bytes(t.names[t.count]);
    t.count++;
    types += length + strspn(types + length, " ");
  }
  return t;
}

CUfunction conform_kernel(const char *ptx) {
  emu_needs_capability(9);
  CUmodule module = NULL;
  CUresult result = emu_load(&module, ptx);
  if (result) fail_msg("%s\n%s", emu_report(), ptx);
  return emu_function(module, "k");
}

/* Registers of 8-bit types are 16 bits wide, as PTX has it. */
static CUmodule build(const char *statements, const operand_types_t *t) {
  static const char *const names[] = {"d", "a", "b", "c"};
  char ptx[4096];
  size_t length = (size_t)snprintf(
      ptx, sizeof ptx,
      ".version 8.0\n.target sm_90\n.address_size 64\n"
      ".visible .entry k(.param .u64 at_d, .param .u64 at_a, .param .u64 at_b, .param .u64 at_c)\n{\n"
      ".reg .pred p, q;\n.reg .b16 h0, h1;\n.reg .b32 r0, r1, r2, i, j;\n.reg .b64 w0, w1, at;\n"
      "mov.u32 i, %%ctaid.x;\nmov.u32 j, %%ntid.x;\nmul.lo.u32 i, i, j;\nmov.u32 j, %%tid.x;\n"
      "add.u32 i, i, j;\n");
  for (uint32_t n = 0; n < t->count; n++) {
    length += (size_t)snprintf(ptx + length, sizeof ptx - length, ".reg .b%u %s;\n",
                               t->bytes[n] == 1 ? 16 : 8 * t->bytes[n], names[n]);
    if (n == 0) continue;
    length += (size_t)snprintf(ptx + length, sizeof ptx - length,
                               "ld.param.u64 at, [at_%s];\nmad.wide.u32 at, i, %u, at;\n"
                               "ld.global.%c%u %s, [at];\n",
                               names[n], t->bytes[n],
                               t->names[n][0] == 's' ? 's'
                               : t->bytes[n] == 1    ? 'u'
                                                     : 'b',
                               8 * t->bytes[n], names[n]);
  }
  snprintf(ptx + length, sizeof ptx - length,
           "%s\nld.param.u64 at, [at_d];\nmad.wide.u32 at, i, %u, at;\nst.global.%c%u [at], d;\nret;\n}\n",
           statements, t->bytes[0], t->bytes[0] == 1 ? 'u' : 'b', 8 * t->bytes[0]);
  CUmodule module = NULL;
  if (emu_load(&module, ptx)) print_error("'%s' does not load: %s", statements, emu_report());
  return module;
}

static uint64_t operands[MOST_OPERANDS][CONFORM_COUNT]; /* [0] are the results */

static CUdeviceptr upload_operands(const char *type, uint32_t bytes, uint32_t which) {
  unsigned char *packed = malloc((size_t)CONFORM_COUNT * bytes);
  assert_non_null(packed);
  for (uint32_t n = 0; n < CONFORM_COUNT; n++) {
    operands[which + 1][n] = conform_operand(type, n, which);
    memcpy(packed + (size_t)n * bytes, &operands[which + 1][n], bytes);
  }
  CUdeviceptr address = emu_upload(packed, (size_t)CONFORM_COUNT * bytes);
  free(packed);
  return address;
}

/* Fills `operands` with a row's operands and the device's results. False when it does not load. */
static bool run(const char *statements, const operand_types_t *t) {
  CUmodule module = build(statements, t);
  if (!module) return false;
  CUdeviceptr at[MOST_OPERANDS] = {emu_alloc((size_t)CONFORM_COUNT * t->bytes[0])};
  for (uint32_t n = 1; n < t->count; n++) at[n] = upload_operands(t->names[n], t->bytes[n], n - 1);
  EMU_OK(emu_run(emu_function(module, "k"), CONFORM_COUNT / 256, 256, 0,
                 EMU_ARGS(&at[0], &at[1], &at[2], &at[3])));
  unsigned char *packed = malloc((size_t)CONFORM_COUNT * t->bytes[0]);
  assert_non_null(packed);
  emu_download(packed, at[0], (size_t)CONFORM_COUNT * t->bytes[0]);
  for (uint32_t n = 0; n < CONFORM_COUNT; n++) {
    operands[0][n] = 0;
    memcpy(&operands[0][n], packed + (size_t)n * t->bytes[0], t->bytes[0]);
  }
  free(packed);
  for (uint32_t n = 0; n < t->count; n++) emu_free(at[n]);
  emu_unload(module);
  return true;
}

static bool same(const char *type, uint64_t got, uint64_t want) {
  if (!strcmp(type, "f64") && conform_f64(want) != conform_f64(want))
    return conform_f64(got) != conform_f64(got);
  return got == want;
}

/* False, with the operands on standard error, when one is wrong. */
static bool check_in_mode(const conform_row_t *row, const char *suffix, int mode) {
  char text[512];
  operand_types_t t = parse_types(row->types);
  const char *place = strstr(row->text, "%s");
  int before = place ? (int)(place - row->text) : (int)strlen(row->text);
  snprintf(text, sizeof text, "%.*s%s%s", before, row->text, place ? suffix : "", place ? place + 2 : "");
  if (!run(text, &t)) return false;
  uint64_t mask = t.bytes[0] == 8 ? ~0ull : (1ull << 8 * t.bytes[0]) - 1;
  for (uint32_t n = 0; n < CONFORM_COUNT; n++) {
    uint64_t sources[3] = {0};
    for (uint32_t k = 1; k < t.count; k++) sources[k - 1] = operands[k][n];
    fesetround(mode);
    uint64_t want = row->expected(sources[0], sources[1], sources[2]) & mask;
    fesetround(FE_TONEAREST);
    if (same(t.names[0], operands[0][n], want)) continue;
    print_error("'%s' of %llx %llx %llx is %llx, not %llx\n", text, (unsigned long long)sources[0],
                (unsigned long long)sources[1], (unsigned long long)sources[2],
                (unsigned long long)operands[0][n], (unsigned long long)want);
    return false;
  }
  return true;
}

void conform_check(const conform_row_t *rows, size_t count) {
  emu_needs_capability(9);
  static const struct {
    const char *suffix;
    int mode;
  } modes[] = {{"rn", FE_TONEAREST}, {"rz", FE_TOWARDZERO}, {"rm", FE_DOWNWARD}, {"rp", FE_UPWARD}};
  bool right = true;
  for (size_t n = 0; n < count; n++)
    for (size_t m = 0; m < (strstr(rows[n].text, "%s") ? 4 : 1); m++)
      right &= check_in_mode(&rows[n], modes[m].suffix, modes[m].mode);
  assert_true(right);
}

static bool check_bound(const conform_bound_t *row) {
  operand_types_t t = parse_types(row->types);
  if (!run(row->text, &t)) return false;
  for (uint32_t n = 0; n < CONFORM_COUNT; n++) {
    double x = conform_value(t.names[1], operands[1][n]), got = conform_value(t.names[0], operands[0][n]);
    if (fabs(x) < row->least || fabs(x) > row->most) continue;
    double exact = row->exact(x), error = fabs(got - exact);
    bool same_special = (exact != exact && got != got) || got == exact;
    if (same_special || error <= row->absolute || error <= row->relative * fabs(exact)) continue;
    print_error("'%s' of %a is %a, too far from %a\n", row->text, x, got, exact);
    return false;
  }
  return true;
}

void conform_check_bounds(const conform_bound_t *rows, size_t count) {
  emu_needs_capability(9);
  bool right = true;
  for (size_t n = 0; n < count; n++) right &= check_bound(&rows[n]);
  assert_true(right);
}
