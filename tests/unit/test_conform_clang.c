/* tests/unit/test_conform_clang.c: PTX of a second producer: LLVM's NVPTX back end, through clang.
 *
 * Kernels with clang's own builtins, no CUDA header or library, compiled when the test runs; the same work in
 * C on the host says what must come out. Skipped, with a reason, where there is no clang or it has no such
 * target.
 * Labels: device */
#include "tests/support/conform.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
// clang-format on
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THREADS 256

static const char source[] =
    "#define KERNEL extern \"C\" __attribute__((global)) void\n"
    "#define DEVICE __attribute__((device))\n"
    "typedef unsigned u32; typedef unsigned long long u64; typedef unsigned __int128 u128;\n"
    "DEVICE static int thread() { return __nvvm_read_ptx_sreg_ctaid_x() * __nvvm_read_ptx_sreg_ntid_x()\n"
    "  + __nvvm_read_ptx_sreg_tid_x(); }\n"
    /* integers, wide products, a local array with a computed index, a switch */
    "KERNEL integers(const u32 *a, u64 *d) {\n"
    "  int t = thread(); u32 x = a[t], digits[16]; u64 sum = 0;\n"
    "  for (int i = 0; i < 16; i++) digits[i] = x >> 2 * i & 15;\n"
    "  for (int i = 0; i < 16; i++) sum = sum * 31 + digits[digits[i]];\n"
    "  switch (x % 7) { case 0: sum ^= 5; break; case 1: sum += 7; break; case 2: sum <<= 3; break;\n"
    "    case 3: sum = ~sum; break; case 4: sum *= x; break; case 5: sum /= x | 1; break; }\n"
    "  u128 wide = (u128)sum * (((u64)x << 32) + 12345) + sum;\n"
    "  d[t] = (u64)wide ^ (u64)(wide >> 64) ^ __builtin_popcount(x) ^ __builtin_bitreverse32(x)\n"
    "    ^ (u64)__builtin_clzll(sum | 1) << 40; }\n"
    /* floats: rounding modes, conversions, a call that is not inlined */
    "DEVICE __attribute__((noinline)) double horner(double x, int n) {\n"
    "  double r = 0; for (int i = n; i > 0; i--) r = __nvvm_fma_rn_d(r, x, 1.0 / i); return r; }\n"
    "KERNEL floats(const float *a, double *d) {\n"
    "  int t = thread(); float x = a[t];\n"
    "  float up = __nvvm_add_rp_f(x, 0x1p-30f), down = __nvvm_mul_rm_f(x, 3.3f);\n"
    "  d[t] = up + down * 0x1p-10 + horner(x, 5) + __nvvm_sqrt_rn_f(x * x) + (double)(long long)(x * 100)\n"
    "    + __nvvm_fabs_d(x) + (double)(unsigned char)(int)x; }\n"
    /* shared memory, barrier, shuffles, votes, atomics */
    "__attribute__((shared)) int row[256];\n"
    "KERNEL together(const int *a, int *d, int *total) {\n"
    "  int t = __nvvm_read_ptx_sreg_tid_x(), x = a[t];\n"
    "  row[t] = x; __syncthreads();\n"
    "  x = row[255 - t];\n"
    "  for (int step = 16; step; step /= 2) x += __nvvm_shfl_sync_bfly_i32(0xffffffff, x, step, 31);\n"
    "  int ballot = __nvvm_vote_ballot_sync(0xffffffff, a[t] & 1);\n"
    "  __nvvm_atom_add_gen_i(total, a[t]);\n"
    "  d[t] = x ^ ballot ^ __nvvm_bar0_popc(a[t] > 0); }\n"
    /* a structure by value */
    "struct pair { short low; double high; int more[5]; };\n"
    "KERNEL structures(struct pair p, double *d) {\n"
    "  int t = thread(); struct pair copy = p; copy.more[t % 5] += t;\n"
    "  d[t] = copy.low + copy.high * copy.more[t % 5] + copy.more[(t + 1) % 5]; }\n";

static CUmodule compile(void) {
  char folder[] = "/tmp/kiln-clang-XXXXXX", command[512], path[64];
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/k.cu", folder);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs(source, file);
  fclose(file);
  snprintf(command, sizeof command,
           "clang -x cuda --cuda-device-only --cuda-gpu-arch=sm_80 -nocudainc -nocudalib -ffp-contract=off "
           "-Wno-unknown-cuda-version -Xclang -target-feature -Xclang +ptx72 -S -O2 %s -o - 2>%s/log",
           path, folder);
  static char ptx[1 << 18];
  FILE *pipe = popen(command, "r");
  size_t length = pipe ? fread(ptx, 1, sizeof ptx - 1, pipe) : 0;
  ptx[length] = 0;
  int status = pipe ? pclose(pipe) : -1;
  snprintf(command, sizeof command, "%s/log", folder);
  unlink(command);
  unlink(path);
  rmdir(folder);
  if (status != 0) return NULL;
  CUmodule module = NULL;
  if (emu_load(&module, ptx)) fail_msg("clang's PTX does not load: %s", emu_report());
  return module;
}

static CUmodule compile_or_skip(void) {
  CUmodule module = compile();
  if (module) return module;
  print_message("skipped: no clang with the NVPTX target\n");
  skip();
  return NULL;
}

static uint64_t expected_integer(uint32_t x) {
  uint32_t digits[16];
  uint64_t sum = 0;
  for (int i = 0; i < 16; i++) digits[i] = x >> 2 * i & 15;
  for (int i = 0; i < 16; i++) sum = sum * 31 + digits[digits[i]];
  switch (x % 7) {
  case 0:
    sum ^= 5;
    break;
  case 1:
    sum += 7;
    break;
  case 2:
    sum <<= 3;
    break;
  case 3:
    sum = ~sum;
    break;
  case 4:
    sum *= x;
    break;
  case 5:
    sum /= x | 1;
    break;
  }
  unsigned __int128 wide = (unsigned __int128)sum * (((uint64_t)x << 32) + 12345) + sum;
  uint32_t reversed = 0;
  for (int bit = 0; bit < 32; bit++) reversed |= (x >> bit & 1) << (31 - bit);
  return (uint64_t)wide ^ (uint64_t)(wide >> 64) ^ (uint64_t)__builtin_popcount(x) ^ reversed ^
         (uint64_t)__builtin_clzll(sum | 1) << 40;
}

static void integers_local_arrays_and_switches_from_clang(void **state) {
  (void)state;
  static uint32_t in[64 * THREADS];
  static uint64_t out[64 * THREADS];
  CUmodule module = compile_or_skip();
  for (uint32_t n = 0; n < 64 * THREADS; n++) in[n] = (uint32_t)conform_operand("u32", n, 1);
  CUdeviceptr a = emu_upload(in, sizeof in), d = emu_alloc(sizeof out);
  EMU_OK(emu_run(emu_function(module, "integers"), 64, THREADS, 0, EMU_ARGS(&a, &d)));
  emu_download(out, d, sizeof out);
  for (uint32_t n = 0; n < 64 * THREADS; n++) assert_int_equal(out[n], expected_integer(in[n]));
}

/* The one rounding of an exact sum or product of two floats in double. */
static float rounded_up(double exact) {
  float r = (float)exact;
  return (double)r < exact ? nextafterf(r, INFINITY) : r;
}
static float rounded_down(double exact) {
  float r = (float)exact;
  return (double)r > exact ? nextafterf(r, -INFINITY) : r;
}
static double expected_float(float x) {
  float up = rounded_up((double)x + 0x1p-30), down = rounded_down((double)x * (double)3.3f), square = x * x;
  double polynomial = 0;
  for (int i = 5; i > 0; i--) polynomial = fma(polynomial, (double)x, 1.0 / i);
  float hundred = x * 100;
  return (double)up + (double)down * 0x1p-10 + polynomial + (double)sqrtf(square) +
         (double)(long long)hundred + fabs((double)x) + (double)(unsigned char)(int)x;
}

static void floats_and_calls_from_clang(void **state) {
  (void)state;
  static float in[THREADS];
  static double out[THREADS];
  CUmodule module = compile_or_skip();
  for (int n = 0; n < THREADS; n++) in[n] = (float)(n - 100) * 0.37f;
  CUdeviceptr a = emu_upload(in, sizeof in), d = emu_alloc(sizeof out);
  EMU_OK(emu_run(emu_function(module, "floats"), 1, THREADS, 0, EMU_ARGS(&a, &d)));
  emu_download(out, d, sizeof out);
  for (int n = 0; n < THREADS; n++)
    if (out[n] != expected_float(in[n]))
      fail_msg("of %a it is %a, not %a", (double)in[n], out[n], expected_float(in[n]));
}

static void barriers_shuffles_votes_and_atomics_from_clang(void **state) {
  (void)state;
  int in[THREADS], out[THREADS], total = 0, sum = 0, positive = 0;
  CUmodule module = compile_or_skip();
  for (int n = 0; n < THREADS; n++) in[n] = n * 37 % 101 - 50, sum += in[n], positive += in[n] > 0;
  CUdeviceptr a = emu_upload(in, sizeof in), d = emu_alloc(sizeof out), t = emu_upload(&total, sizeof total);
  EMU_OK(emu_run(emu_function(module, "together"), 1, THREADS, 0, EMU_ARGS(&a, &d, &t)));
  emu_download(out, d, sizeof out);
  emu_download(&total, t, sizeof total);
  assert_int_equal(total, sum);
  for (int n = 0; n < THREADS; n++) {
    int warp = n / 32, x = 0;
    unsigned ballot = 0;
    for (int lane = 0; lane < 32; lane++) {
      x += in[255 - 32 * warp - lane];
      ballot |= (unsigned)(in[32 * warp + lane] & 1) << lane;
    }
    assert_int_equal(out[n], x ^ (int)ballot ^ positive);
  }
}

static void structures_by_value_from_clang(void **state) {
  (void)state;
  struct {
    short low;
    double high;
    int more[5];
  } p = {-3, 0.5, {1, 20, 300, 4000, 50000}};
  double out[THREADS];
  CUmodule module = compile_or_skip();
  CUdeviceptr d = emu_alloc(sizeof out);
  EMU_OK(emu_run(emu_function(module, "structures"), 1, THREADS, 0, EMU_ARGS(&p, &d)));
  emu_download(out, d, sizeof out);
  for (int t = 0; t < THREADS; t++)
    assert_true(out[t] == p.low + p.high * (p.more[t % 5] + t) + p.more[(t + 1) % 5]);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, emu_setup, emu_teardown)
  const struct CMUnitTest tests[] = {
      TEST(integers_local_arrays_and_switches_from_clang),
      TEST(floats_and_calls_from_clang),
      TEST(barriers_shuffles_votes_and_atomics_from_clang),
      TEST(structures_by_value_from_clang),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
