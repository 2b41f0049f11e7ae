/* tests/unit/test_emu_math.c: CUDA's math library on the emulated device within its published error bounds.
 *
 * Bounds are the maximum errors in ulps of the CUDA C++ Programming Guide, "Mathematical Functions"; expected
 * values are the host's in long double. Inputs reach the slow paths: large arguments of the trigonometric
 * functions go through a table in global memory and an array in local memory, powers through a called
 * function.
 */
#include "tests/support/emu_device.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct {
  const char *name, *f32, *f64; /* expressions of x */
  long double (*reference)(long double x);
  int bound_f32, bound_f64;
} function_t;

static long double reciprocal_sqrt(long double x) { return 1 / sqrtl(x); }
static long double self_power(long double x) { return powl(x, x); }
static long double remainder_by_3(long double x) { return fmodl(x, 3); }
static long double reciprocal(long double x) { return 1 / x; }

static const function_t functions[] = {
    {"sin", "sinf(x)", "sin(x)", sinl, 2, 2},
    {"cos", "cosf(x)", "cos(x)", cosl, 2, 2},
    {"tan", "tanf(x)", "tan(x)", tanl, 4, 2},
    {"exp", "expf(x)", "exp(x)", expl, 2, 1},
    {"exp2", "exp2f(x)", "exp2(x)", exp2l, 2, 1},
    {"expm1", "expm1f(x)", "expm1(x)", expm1l, 1, 1},
    {"log", "logf(x)", "log(x)", logl, 1, 1},
    {"log2", "log2f(x)", "log2(x)", log2l, 1, 1},
    {"log1p", "log1pf(x)", "log1p(x)", log1pl, 1, 1},
    {"sqrt", "sqrtf(x)", "sqrt(x)", sqrtl, 0, 0},
    {"rsqrt", "rsqrtf(x)", "rsqrt(x)", reciprocal_sqrt, 2, 1},
    {"tanh", "tanhf(x)", "tanh(x)", tanhl, 2, 2},
    {"erf", "erff(x)", "erf(x)", erfl, 2, 2},
    {"pow", "powf(x, x)", "pow(x, x)", self_power, 4, 2},
    {"fmod", "fmodf(x, 3.0f)", "fmod(x, 3.0)", remainder_by_3, 0, 0},
    {"reciprocal", "1.0f / x", "1.0 / x", reciprocal, 0, 0},
};

#define COUNT 4096
static double inputs[COUNT], f64_out[COUNT];
static float f32_in[COUNT], f32_out[COUNT];

static void fill_inputs(void) {
  static const double specials[] = {0.0, -0.0,  1,       -1,   0.5,      INFINITY,        -INFINITY,
                                    NAN, 1e-40, -1e-310, 1e30, 105615.0, 3.14159265358979};
  uint64_t state = 12345;
  for (int n = 0; n < COUNT; n++) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    double unit = (double)(state >> 11) * 0x1p-53 - 0.5;
    double scale = n % 4 == 0 ? 1e6 : n % 4 == 1 ? 1e-3 : n % 4 == 2 ? 6 : exp(unit * 150);
    inputs[n] = n < (int)(sizeof specials / sizeof specials[0]) ? specials[n] : unit * scale;
    f32_in[n] = (float)inputs[n];
  }
}

/* The distance of `got` from the exact value in units of the last place of the format there. */
static long double error_ulps(long double exact, long double got, int digits, int least_exponent) {
  if (isnan(exact)) return isnan(got) ? 0 : INFINITY;
  if (isinf(got) || isinf(exact)) return got == exact ? 0 : INFINITY;
  int exponent = exact == 0 ? least_exponent : ilogbl(exact);
  if (exponent < least_exponent) exponent = least_exponent;
  return fabsl(got - exact) / ldexpl(1, exponent - digits + 1);
}

/* Exact values beyond the format's range become infinite, as a result there must. */
static long double limited(long double exact, long double most) {
  return fabsl(exact) > most ? copysignl(INFINITY, exact) : exact;
}

static CUmodule compile(const function_t *f) {
  char source[1024];
  snprintf(source, sizeof source,
           "extern \"C\" __global__ void f32(const float *a, float *o) {\n"
           "  int i = blockIdx.x * 128 + threadIdx.x; float x = a[i]; o[i] = %s; }\n"
           "extern \"C\" __global__ void f64(const double *a, double *o) {\n"
           "  int i = blockIdx.x * 128 + threadIdx.x; double x = a[i]; o[i] = %s; }\n",
           f->f32, f->f64);
  return emu_compile(source);
}

static void check(const function_t *f) {
  CUmodule module = compile(f);
  CUdeviceptr narrow = emu_upload(f32_in, sizeof f32_in), wide = emu_upload(inputs, sizeof inputs);
  CUdeviceptr narrow_out = emu_alloc(sizeof f32_out), wide_out = emu_alloc(sizeof f64_out);
  EMU_OK(emu_run(emu_function(module, "f32"), COUNT / 128, 128, 0, EMU_ARGS(&narrow, &narrow_out)));
  EMU_OK(emu_run(emu_function(module, "f64"), COUNT / 128, 128, 0, EMU_ARGS(&wide, &wide_out)));
  emu_download(f32_out, narrow_out, sizeof f32_out);
  emu_download(f64_out, wide_out, sizeof f64_out);
  for (int n = 0; n < COUNT; n++) {
    long double exact = limited(f->reference(f32_in[n]), 0x1.ffffffp127L);
    if (error_ulps(exact, f32_out[n], 24, -126) > f->bound_f32 + 0.5L)
      fail_msg("%s(%a) in f32 is %a, not %La", f->name, (double)f32_in[n], (double)f32_out[n], exact);
    exact = limited(f->reference(inputs[n]), DBL_MAX);
    if (error_ulps(exact, f64_out[n], 53, -1022) > f->bound_f64 + 0.5L)
      fail_msg("%s(%a) in f64 is %a, not %La", f->name, inputs[n], f64_out[n], exact);
  }
}

static void every_function_is_within_its_published_bound(void **state) {
  (void)state;
  fill_inputs();
  for (size_t n = 0; n < sizeof functions / sizeof functions[0]; n++) check(&functions[n]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(every_function_is_within_its_published_bound, emu_setup, emu_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
