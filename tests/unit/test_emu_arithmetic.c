/* tests/unit/test_emu_arithmetic.c: PTX arithmetic on the emulated device against the host's own.
 *
 * Single instructions, written as inline PTX, run over special values and random bits; expected values come
 * from the host's IEEE arithmetic (in the host's rounding modes), from base/half, or from a formula in wider
 * integers. NaN results of f32 are the GPU's canonical 0x7fffffff.
 */
#include "base/half.h"
#include "tests/support/emu_device.h"

#include <fenv.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT 65536u

static uint64_t random_bits(uint64_t *state) {
  *state += 0x9e3779b97f4a7c15ull;
  uint64_t z = *state;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ z >> 27) * 0x94d049bb133111ebull;
  return z ^ z >> 31;
}

static const uint32_t specials32[] = {0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007fffff, 0x00800000,
                                      0x3f800000, 0xbf800000, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000,
                                      0x7fc00000, 0x7f800001, 0x4f000000, 0xcf000000, 0x4f800000, 0x5f000000};
static const uint64_t specials64[] = {0,
                                      1ull << 63,
                                      1,
                                      0xfffffffffffff,
                                      1ull << 52,
                                      0x3ff0000000000000,
                                      0xbff0000000000000,
                                      0x7fefffffffffffff,
                                      0x7ff0000000000000,
                                      0xfff0000000000000,
                                      0x7ff8000000000000,
                                      0x41e0000000000000,
                                      0xc1e0000000000000,
                                      0x43e0000000000000};

/* Pairs of special values first, then random bits; half of the random floats are near 1, where sums cancel.
 */
static uint32_t input32(uint32_t n, uint32_t which) {
  uint32_t specials = sizeof specials32 / sizeof specials32[0];
  if (n < specials * specials) return specials32[which ? n / specials : n % specials];
  uint64_t state = (uint64_t)n * 4 + which, bits = random_bits(&state);
  return bits >> 63 ? (uint32_t)bits : 0x3f000000 + ((uint32_t)bits & 0x80ffffff);
}
static uint64_t input64(uint32_t n, uint32_t which) {
  uint32_t specials = sizeof specials64 / sizeof specials64[0];
  if (n < specials * specials) return specials64[which ? n / specials : n % specials];
  uint64_t state = (uint64_t)n * 4 + which, bits = random_bits(&state);
  return n & 1 ? bits : 0x3fe0000000000000 + (bits & 0x801fffffffffffff);
}

/* Runs one PTX instruction "op d, a, b, c;" on lanes of 4 or 8 bytes. */
static void run_instruction(const char *op, char constraint, uint32_t operands, uint32_t width,
                            const void *const *inputs, void *result) {
  char source[1024];
  const char *type = width == 8 ? "unsigned long long" : "unsigned";
  static const char *const lists[] = {"", "%1", "%1, %2", "%1, %2, %3"};
  const char *as = constraint == 'f' ? "__int_as_float" : constraint == 'd' ? "__longlong_as_double" : "";
  const char *back = constraint == 'f' ? "__float_as_int" : constraint == 'd' ? "__double_as_longlong" : "";
  const char *value = constraint == 'f' ? "float" : constraint == 'd' ? "double" : type;
  snprintf(
      source, sizeof source,
      "extern \"C\" __global__ void k(const %s *a, const %s *b, const %s *c, %s *d) {\n"
      "  int i = blockIdx.x * blockDim.x + threadIdx.x; %s r;\n"
      "  asm volatile(\"%s %%0, %s;\" : \"=%c\"(r) : \"%c\"(%s(a[i])), \"%c\"(%s(b[i])), \"%c\"(%s(c[i])));\n"
      "  d[i] = %s(r);\n}\n",
      type, type, type, type, value, op, lists[operands], constraint, constraint, as, constraint, as,
      constraint, as, back);
  CUmodule module = emu_compile_for(source, "compute_90");
  CUdeviceptr a = emu_upload(inputs[0], COUNT * width), b = emu_upload(inputs[1], COUNT * width);
  CUdeviceptr c = emu_upload(inputs[2], COUNT * width), d = emu_alloc(COUNT * width);
  EMU_OK(emu_run(emu_function(module, "k"), COUNT / 256, 256, 0, EMU_ARGS(&a, &b, &c, &d)));
  emu_download(result, d, COUNT * width);
  EMU_OK(cuModuleUnload(module));
  const CUdeviceptr all[] = {a, b, c, d};
  for (int n = 0; n < 4; n++) EMU_OK(cuMemFree_v2(all[n]));
}

static uint32_t in32[3][COUNT], out32[COUNT];
static uint64_t in64[3][COUNT], out64[COUNT];

static void run32(const char *op, char constraint, uint32_t operands) {
  for (uint32_t which = 0; which < 3; which++)
    for (uint32_t n = 0; n < COUNT; n++) in32[which][n] = input32(n, which);
  run_instruction(op, constraint, operands, 4, (const void *[]){in32[0], in32[1], in32[2]}, out32);
}
static void run64(const char *op, char constraint, uint32_t operands) {
  for (uint32_t which = 0; which < 3; which++)
    for (uint32_t n = 0; n < COUNT; n++) in64[which][n] = input64(n, which);
  run_instruction(op, constraint, operands, 8, (const void *[]){in64[0], in64[1], in64[2]}, out64);
}

static float as_float(uint32_t bits) {
  float value;
  memcpy(&value, &bits, 4);
  return value;
}
static double as_double(uint64_t bits) {
  double value;
  memcpy(&value, &bits, 8);
  return value;
}
static uint32_t float_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  return value != value ? 0x7fffffff : bits;
}
static uint64_t double_bits(double value) {
  uint64_t bits;
  memcpy(&bits, &value, 8);
  return value != value ? ~0ull : bits;
}

static const struct {
  const char *suffix;
  int mode;
} roundings[] = {{"rn", FE_TONEAREST}, {"rz", FE_TOWARDZERO}, {"rm", FE_DOWNWARD}, {"rp", FE_UPWARD}};

/* Volatile, so that the host's compiler neither folds nor moves the operation out of the rounding mode. */
static float host_f32(int operation, volatile float a, volatile float b, volatile float c) {
  volatile float r = operation == 0   ? a + b
                     : operation == 1 ? a * b
                     : operation == 2 ? fmaf(a, b, c)
                     : operation == 3 ? a / b
                                      : sqrtf(a);
  return r;
}
static double host_f64(int operation, volatile double a, volatile double b, volatile double c) {
  volatile double r = operation == 0   ? a + b
                      : operation == 1 ? a * b
                      : operation == 2 ? fma(a, b, c)
                      : operation == 3 ? a / b
                                       : sqrt(a);
  return r;
}
static const struct {
  const char *name;
  uint32_t operands;
} operations[] = {{"add", 2}, {"mul", 2}, {"fma", 3}, {"div", 2}, {"sqrt", 1}};

static void f32_arithmetic_rounds_as_the_host_does_in_each_mode(void **state) {
  (void)state;
  for (int op = 0; op < 5; op++)
    for (int r = 0; r < 4; r++) {
      char text[32];
      snprintf(text, sizeof text, "%s.%s.f32", operations[op].name, roundings[r].suffix);
      run32(text, 'f', operations[op].operands);
      fesetround(roundings[r].mode);
      for (uint32_t n = 0; n < COUNT; n++) {
        uint32_t want =
            float_bits(host_f32(op, as_float(in32[0][n]), as_float(in32[1][n]), as_float(in32[2][n])));
        if (out32[n] == want) continue;
        fesetround(FE_TONEAREST);
        fail_msg("%s of %08x %08x %08x is %08x, not %08x", text, in32[0][n], in32[1][n], in32[2][n], out32[n],
                 want);
      }
      fesetround(FE_TONEAREST);
    }
}

static void f64_arithmetic_rounds_as_the_host_does_in_each_mode(void **state) {
  (void)state;
  for (int op = 0; op < 5; op++)
    for (int r = 0; r < 4; r++) {
      char text[32];
      snprintf(text, sizeof text, "%s.%s.f64", operations[op].name, roundings[r].suffix);
      run64(text, 'd', operations[op].operands);
      fesetround(roundings[r].mode);
      for (uint32_t n = 0; n < COUNT; n++) {
        uint64_t want =
            double_bits(host_f64(op, as_double(in64[0][n]), as_double(in64[1][n]), as_double(in64[2][n])));
        if (double_bits(as_double(out64[n])) == want) continue;
        fesetround(FE_TONEAREST);
        fail_msg("%s of %a %a %a is %a", text, as_double(in64[0][n]), as_double(in64[1][n]),
                 as_double(in64[2][n]), as_double(out64[n]));
      }
      fesetround(FE_TONEAREST);
    }
}

static void ftz_flushes_denormal_inputs_and_results_and_keeps_the_sign(void **state) {
  (void)state;
  run32("mul.rn.ftz.f32", 'f', 2);
  for (uint32_t n = 0; n < COUNT; n++) {
    float a = as_float(in32[0][n]), b = as_float(in32[1][n]);
    if (fabsf(a) < 0x1p-126f) a = copysignf(0, a);
    if (fabsf(b) < 0x1p-126f) b = copysignf(0, b);
    double exact = (double)a * b; /* exact in double, so that its magnitude decides */
    float want = fabs(exact) < 0x1p-126 ? copysignf(0, (float)exact) : (float)exact;
    if (fabs(exact) < 0x1p-126 && fabs(exact) > 0x1p-126 * (1 - 0x1p-24))
      continue; /* the ISA leaves before or after open */
    assert_int_equal(out32[n], float_bits(want));
  }
}

/* --- integers: expected values in 128 bits --- */

typedef __int128 wide_t;

static wide_t widen(uint64_t bits, uint32_t width, bool is_signed) {
  if (width == 4) return is_signed ? (wide_t)(int32_t)bits : (wide_t)(uint32_t)bits;
  return is_signed ? (wide_t)(int64_t)bits : (wide_t)bits;
}

static wide_t integer_result(const char *op, wide_t a, wide_t b, wide_t c, uint32_t width) {
  if (!strcmp(op, "add")) return a + b;
  if (!strcmp(op, "sub")) return a - b;
  if (!strcmp(op, "mul.lo")) return (wide_t)((unsigned __int128)a * (unsigned __int128)b);
  if (!strcmp(op, "mul.hi")) return (a * b) >> (8 * width);
  if (!strcmp(op, "mad.lo"))
    return (wide_t)((unsigned __int128)a * (unsigned __int128)b + (unsigned __int128)c);
  if (!strcmp(op, "min")) return a < b ? a : b;
  if (!strcmp(op, "max")) return a > b ? a : b;
  if (!strcmp(op, "div")) return b ? a / b : -1;
  return b ? a % b : a;
}

static void integer_arithmetic_matches_128_bit_arithmetic(void **state) {
  (void)state;
  static const char *const ops[] = {"add", "sub", "mul.lo", "mad.lo", "min", "max", "div", "rem"};
  static const char *const types[] = {"u32", "s32", "u64", "s64"};
  for (size_t o = 0; o < sizeof ops / sizeof ops[0]; o++)
    for (int t = 0; t < 4; t++) {
      char text[32];
      bool is_signed = t & 1;
      uint32_t width = t < 2 ? 4 : 8;
      snprintf(text, sizeof text, "%s.%s", ops[o], types[t]);
      if (width == 4)
        run32(text, 'r', strcmp(ops[o], "mad.lo") == 0 ? 3 : 2);
      else
        run64(text, 'l', strcmp(ops[o], "mad.lo") == 0 ? 3 : 2);
      for (uint32_t n = 0; n < COUNT; n++) {
        wide_t a = widen(width == 4 ? in32[0][n] : in64[0][n], width, is_signed);
        wide_t b = widen(width == 4 ? in32[1][n] : in64[1][n], width, is_signed);
        wide_t c = widen(width == 4 ? in32[2][n] : in64[2][n], width, is_signed);
        wide_t want = integer_result(ops[o], a, b, c, width);
        if (width == 4)
          assert_int_equal(out32[n], (uint32_t)want);
        else
          assert_int_equal(out64[n], (uint64_t)want);
      }
    }
}

static void multiply_high_gives_the_upper_half_of_the_product(void **state) {
  (void)state;
  run32("mul.hi.u32", 'r', 2);
  for (uint32_t n = 0; n < COUNT; n++)
    assert_int_equal(out32[n], (uint32_t)((uint64_t)in32[0][n] * in32[1][n] >> 32));
  run64("mul.hi.s64", 'l', 2);
  for (uint32_t n = 0; n < COUNT; n++)
    assert_int_equal(out64[n], (uint64_t)(((wide_t)(int64_t)in64[0][n] * (int64_t)in64[1][n]) >> 64));
}

static void shifts_past_the_width_give_zero_or_the_sign(void **state) {
  (void)state;
  run32("shl.b32", 'r', 2);
  for (uint32_t n = 0; n < COUNT; n++)
    assert_int_equal(out32[n], in32[1][n] > 31 ? 0 : in32[0][n] << in32[1][n]);
  run32("shr.s32", 'r', 2);
  for (uint32_t n = 0; n < COUNT; n++)
    assert_int_equal(out32[n], (uint32_t)((int32_t)in32[0][n] >> (in32[1][n] > 31 ? 31 : in32[1][n])));
}

/* Bit by bit, as the ISA's pseudo code has it. */
static uint32_t extracted(uint32_t a, uint32_t position, uint32_t length, bool is_signed) {
  position &= 255, length &= 255;
  uint32_t top = position + length - 1 < 31 ? position + length - 1 : 31, result = 0;
  bool sign = is_signed && length && a >> top & 1;
  for (uint32_t bit = 0; bit < 32; bit++) {
    bool set = bit < length && position + bit < 32 ? a >> (position + bit) & 1 : sign;
    result |= (uint32_t)set << bit;
  }
  return result;
}

static void bit_field_extract_follows_the_pseudo_code_of_the_isa(void **state) {
  (void)state;
  for (int is_signed = 0; is_signed < 2; is_signed++) {
    run32(is_signed ? "bfe.s32" : "bfe.u32", 'r', 3);
    for (uint32_t n = 0; n < COUNT; n++)
      assert_int_equal(out32[n], extracted(in32[0][n], in32[1][n], in32[2][n], is_signed));
  }
}

static void prmt_picks_bytes_and_replicates_signs(void **state) {
  (void)state;
  run32("prmt.b32", 'r', 3);
  for (uint32_t n = 0; n < COUNT; n++) {
    uint8_t bytes[8], want[4];
    memcpy(bytes, &in32[0][n], 4);
    memcpy(bytes + 4, &in32[1][n], 4);
    for (int k = 0; k < 4; k++) {
      uint32_t pick = in32[2][n] >> 4 * k & 15;
      want[k] = pick & 8 ? (uint8_t)((int8_t)bytes[pick & 7] >> 7) : bytes[pick & 7];
    }
    assert_memory_equal(&out32[n], want, 4);
  }
}

/* --- conversions, all 65,536 halves --- */

static const char half_source[] =
    "extern \"C\" __global__ void widen(const unsigned short *a, float *f, float *b) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "  asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(f[i]) : \"h\"(a[i]));\n"
    "  b[i] = __int_as_float(a[i] << 16);\n}\n"
    "extern \"C\" __global__ void narrow(const float *a, unsigned short *f, unsigned short *b) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "  asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(f[i]) : \"f\"(a[i]));\n"
    "  asm(\"cvt.rn.bf16.f32 %0, %1;\" : \"=h\"(b[i]) : \"f\"(a[i]));\n}\n"
    "extern \"C\" __global__ void fma16(const unsigned short *a, const unsigned short *b, const unsigned "
    "short *c,\n"
    "                                 unsigned short *f, unsigned short *g) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "  asm(\"fma.rn.f16 %0, %1, %2, %3;\" : \"=h\"(f[i]) : \"h\"(a[i]), \"h\"(b[i]), \"h\"(c[i]));\n"
    "  asm(\"add.f16 %0, %1, %2;\" : \"=h\"(g[i]) : \"h\"(a[i]), \"h\"(b[i]));\n}\n";

static void every_half_widens_to_its_value(void **state) {
  (void)state;
  static uint16_t halves[COUNT];
  static float f[COUNT], b[COUNT];
  for (uint32_t n = 0; n < COUNT; n++) halves[n] = (uint16_t)n;
  CUfunction widen_kernel = emu_function(emu_compile(half_source), "widen");
  CUdeviceptr in = emu_upload(halves, sizeof halves), f_out = emu_alloc(sizeof f),
              b_out = emu_alloc(sizeof b);
  EMU_OK(emu_run(widen_kernel, COUNT / 128, 128, 0, EMU_ARGS(&in, &f_out, &b_out)));
  emu_download(f, f_out, sizeof f);
  emu_download(b, b_out, sizeof b);
  for (uint32_t n = 0; n < COUNT; n++) {
    assert_int_equal(float_bits(f[n]), float_bits(kiln_f16_to_f32((uint16_t)n)));
    if (b[n] == b[n]) assert_int_equal(float_bits(b[n]), float_bits(kiln_bf16_to_f32((uint16_t)n)));
  }
}

static void floats_narrow_to_the_nearest_half(void **state) {
  (void)state;
  static uint16_t f[COUNT], b[COUNT];
  for (uint32_t n = 0; n < COUNT; n++) in32[0][n] = input32(n, 0);
  for (uint32_t n = COUNT / 2; n < COUNT; n++) { /* around the halves, where ties are */
    uint64_t seed = n;
    uint32_t half = (uint32_t)random_bits(&seed) & 0xffff;
    in32[0][n] = float_bits(kiln_f16_to_f32((uint16_t)half)) + (n % 3 - 1) * 0x1000;
  }
  CUfunction narrow_kernel = emu_function(emu_compile(half_source), "narrow");
  CUdeviceptr in = emu_upload(in32[0], sizeof in32[0]), f_out = emu_alloc(sizeof f),
              b_out = emu_alloc(sizeof b);
  EMU_OK(emu_run(narrow_kernel, COUNT / 128, 128, 0, EMU_ARGS(&in, &f_out, &b_out)));
  emu_download(f, f_out, sizeof f);
  emu_download(b, b_out, sizeof b);
  for (uint32_t n = 0; n < COUNT; n++) {
    float x = as_float(in32[0][n]);
    assert_int_equal(f[n], x != x ? 0x7fff : kiln_f16_from_f32(x));
    assert_int_equal(b[n], x != x ? 0x7fff : kiln_bf16_from_f32(x));
  }
}

/* fma in long double is exact for halves up to one rounding of the sum, which 64 bits of fraction make
 * harmless here: 11 + 11 bits of product against an exponent range of 40 leave the sum within 64 bits
 * wherever it is not dominated. */
static void half_fma_rounds_once(void **state) {
  (void)state;
  static uint16_t in[3][COUNT], f[COUNT], g[COUNT];
  for (uint32_t n = 0; n < COUNT; n++)
    for (uint32_t k = 0; k < 3; k++) {
      uint64_t seed = n * 3ull + k;
      in[k][n] = (uint16_t)random_bits(&seed);
    }
  CUfunction kernel = emu_function(emu_compile(half_source), "fma16");
  CUdeviceptr a = emu_upload(in[0], sizeof in[0]), b = emu_upload(in[1], sizeof in[1]),
              c = emu_upload(in[2], sizeof in[2]);
  CUdeviceptr f_out = emu_alloc(sizeof f), g_out = emu_alloc(sizeof g);
  EMU_OK(emu_run(kernel, COUNT / 128, 128, 0, EMU_ARGS(&a, &b, &c, &f_out, &g_out)));
  emu_download(f, f_out, sizeof f);
  emu_download(g, g_out, sizeof g);
  for (uint32_t n = 0; n < COUNT; n++) {
    double x = kiln_f16_to_f32(in[0][n]), y = kiln_f16_to_f32(in[1][n]), z = kiln_f16_to_f32(in[2][n]);
    long double sum = (long double)(x * y) + z;
    double once = (double)sum; /* to odd, so that the second rounding does no harm */
    if ((long double)once != sum && once == once && !isinf(once)) {
      uint64_t bits = double_bits(once);
      if (!(bits & 1)) bits += (fabsl(sum) > fabs(once)) ? 1 : -1ull;
      once = as_double(bits);
    }
    assert_int_equal(f[n], once != once ? 0x7fff : kiln_f16_from_f64(once));
    assert_int_equal(g[n], x + y != x + y ? 0x7fff : kiln_f16_from_f64(x + y));
  }
}

/* PTX ISA, cvt: out of range clamps; NaN gives 0, or the top bit when either side has 64 bits. */
static void floats_convert_to_integers_by_clamping(void **state) {
  (void)state;
  static int64_t wide[COUNT];
  static int32_t narrow[COUNT];
  static const char source[] = "extern \"C\" __global__ void k(const float *a, int *n, long long *w) {\n"
                               "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                               "  asm(\"cvt.rzi.s32.f32 %0, %1;\" : \"=r\"(n[i]) : \"f\"(a[i]));\n"
                               "  asm(\"cvt.rzi.s64.f32 %0, %1;\" : \"=l\"(w[i]) : \"f\"(a[i]));\n}\n";
  for (uint32_t n = 0; n < COUNT; n++) in32[0][n] = input32(n, 0);
  CUdeviceptr in = emu_upload(in32[0], sizeof in32[0]), n_out = emu_alloc(sizeof narrow),
              w_out = emu_alloc(sizeof wide);
  EMU_OK(emu_run(emu_function(emu_compile(source), "k"), COUNT / 256, 256, 0, EMU_ARGS(&in, &n_out, &w_out)));
  emu_download(narrow, n_out, sizeof narrow);
  emu_download(wide, w_out, sizeof wide);
  for (uint32_t n = 0; n < COUNT; n++) {
    float x = as_float(in32[0][n]);
    assert_int_equal(narrow[n], x != x         ? 0
                                : x >= 0x1p31f ? INT32_MAX
                                : x < -0x1p31f ? INT32_MIN
                                               : (int32_t)x);
    assert_int_equal(wide[n], x != x || x < -0x1p63f ? INT64_MIN : x >= 0x1p63f ? INT64_MAX : (int64_t)x);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(f32_arithmetic_rounds_as_the_host_does_in_each_mode, emu_setup,
                                      emu_teardown),
      cmocka_unit_test_setup_teardown(f64_arithmetic_rounds_as_the_host_does_in_each_mode, emu_setup,
                                      emu_teardown),
      cmocka_unit_test_setup_teardown(ftz_flushes_denormal_inputs_and_results_and_keeps_the_sign, emu_setup,
                                      emu_teardown),
      cmocka_unit_test_setup_teardown(integer_arithmetic_matches_128_bit_arithmetic, emu_setup, emu_teardown),
      cmocka_unit_test_setup_teardown(multiply_high_gives_the_upper_half_of_the_product, emu_setup,
                                      emu_teardown),
      cmocka_unit_test_setup_teardown(shifts_past_the_width_give_zero_or_the_sign, emu_setup, emu_teardown),
      cmocka_unit_test_setup_teardown(bit_field_extract_follows_the_pseudo_code_of_the_isa, emu_setup,
                                      emu_teardown),
      cmocka_unit_test_setup_teardown(prmt_picks_bytes_and_replicates_signs, emu_setup, emu_teardown),
      cmocka_unit_test_setup_teardown(every_half_widens_to_its_value, emu_setup, emu_teardown),
      cmocka_unit_test_setup_teardown(floats_narrow_to_the_nearest_half, emu_setup, emu_teardown),
      cmocka_unit_test_setup_teardown(half_fma_rounds_once, emu_setup, emu_teardown),
      cmocka_unit_test_setup_teardown(floats_convert_to_integers_by_clamping, emu_setup, emu_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
