/* tests/unit/test_emu_rows.c: loads and stores of every element type, alike whether a warp's lanes go
 * together or not.
 *
 * The emulator moves rows (32 lanes, one element behind the other) and values that all lanes share as
 * vectors, everything else lane by lane. Each kernel copies elements under a condition that switches some
 * lanes off or none, so that both ways must give the same bytes: those of the input. Rows begin at odd
 * elements and end in a warp that is not full.
 */
#include "tests/support/emu_device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define COUNT 1100u /* threads; of 4 blocks */
#define MOST_BYTES 16u

/* clang-format off */
#define TYPES(X) \
  X(char_1, signed char, 1) X(uchar_1, unsigned char, 1) X(short_1, short, 2) X(ushort_1, unsigned short, 2) \
  X(int_1, int, 4) X(float_1, float, 4) X(long_1, long long, 8) X(double_1, double, 8) \
  X(char_2, char2, 2) X(short_2, short2, 4) X(int_2, int2, 8) X(long_2, longlong2, 16) \
  X(char_4, uchar4, 4) X(short_4, ushort4, 8) X(int_4, int4, 16)
/* clang-format on */

#define KERNELS(name, type, bytes)                                                                           \
  "extern \"C\" __global__ void copy_" #name "(const " #type " *a, " #type " *b, int n, int off) {\n"        \
  "  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n && i % 32 != off) b[i] = a[i]; }\n"            \
  "extern \"C\" __global__ void pass_" #name "(const " #type " *a, " #type " *b, int n, int off) {\n"        \
  "  extern __shared__ " #type " s_" #name "[]; int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;\n"     \
  "  if (i < n) s_" #name "[t] = a[i]; __syncthreads();\n"                                                   \
  "  if (i < n && t % 32 != off) b[i] = s_" #name "[t]; }\n"                                                 \
  "extern \"C\" __global__ void same_" #name "(const " #type " *a, " #type " *b, int n, int off) {\n"        \
  "  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n && i % 32 != off) b[i] = a[i / 32 * 32]; }\n"

static const char source[] = TYPES(KERNELS) /**/
    "#define WIDEN(name, type) extern \"C\" __global__ void widen_##name(const type *a, int *b, int off) {\\\n"
    "  int i = threadIdx.x; if (i != off) b[i] = a[i]; }\n"
    "WIDEN(char, signed char) WIDEN(uchar, unsigned char) WIDEN(short, short) WIDEN(ushort, unsigned short)\n"
    "extern \"C\" __global__ void collide(int *a) { a[threadIdx.x / 32] = threadIdx.x; }\n";

static void fill(uint8_t *bytes, size_t count) {
  uint32_t state = 12345;
  for (size_t n = 0; n < count; n++) bytes[n] = (uint8_t)((state = state * 1664525u + 1013904223u) >> 24);
}

/* Copies from and to element 1 on; what is not copied keeps its 0xee. */
static void check_copy(CUmodule module, const char *way, const char *type, uint32_t bytes, int off) {
  static uint8_t in[(COUNT + 2) * MOST_BYTES], out[sizeof in], wanted[sizeof in];
  char name[64];
  int n = (int)COUNT;
  bool same = strcmp(way, "same") == 0;
  snprintf(name, sizeof name, "%s_%s", way, type);
  fill(in, sizeof in);
  memset(wanted, 0xee, sizeof wanted);
  for (uint32_t i = 0; i < COUNT; i++) {
    uint32_t lane = strcmp(way, "pass") == 0 ? i % 288 % 32 : i % 32, from = same ? i / 32 * 32 : i;
    if ((int)lane != off) memcpy(wanted + (i + 1) * bytes, in + (from + 1) * bytes, bytes);
  }
  memset(out, 0xee, sizeof out);
  CUdeviceptr a = emu_upload(in, sizeof in), b = emu_upload(out, sizeof out), a1 = a + bytes, b1 = b + bytes;
  EMU_OK(emu_run(emu_function(module, name), 4, 288, 288 * bytes, EMU_ARGS(&a1, &b1, &n, &off)));
  emu_download(out, b, sizeof out);
  if (memcmp(out, wanted, sizeof out) != 0) fail_msg("%s with lane %d off", name, off);
  EMU_OK(cuMemFree_v2(a));
  EMU_OK(cuMemFree_v2(b));
}

static void rows_and_shared_values_move_like_single_lanes(void **state) {
  static const char *const ways[] = {"copy", "pass", "same"};
  static const struct {
    const char *name;
    uint32_t bytes;
  } types[] = {
#define TYPE(name, type, bytes) {#name, bytes},
      TYPES(TYPE)
#undef TYPE
  };
  CUmodule module = emu_compile(source);
  (void)state;
  for (size_t way = 0; way < 3; way++)
    for (size_t n = 0; n < sizeof types / sizeof types[0]; n++)
      for (int off = -1; off < 32; off += 8) /* no lane, then lanes 7, 15, 23, 31 */
        check_copy(module, ways[way], types[n].name, types[n].bytes, off);
}

static void narrow_elements_are_extended_by_their_sign(void **state) {
  (void)state;
  CUmodule module = emu_compile(source);
  static const struct {
    const char *name;
    uint32_t bytes;
    bool is_signed;
  } types[] = {{"widen_char", 1, true},
               {"widen_uchar", 1, false},
               {"widen_short", 2, true},
               {"widen_ushort", 2, false}};
  uint8_t in[64];
  fill(in, sizeof in);
  CUdeviceptr a = emu_upload(in, sizeof in), b = emu_alloc(128);
  for (size_t n = 0; n < 4; n++)
    for (int off = -1; off <= 31; off += 32) {
      int32_t out[32] = {0};
      EMU_OK(emu_run(emu_function(module, types[n].name), 1, 32, 0, EMU_ARGS(&a, &b, &off)));
      emu_download(out, b, sizeof out);
      for (uint32_t i = 0; i < 31; i++) {
        int32_t wanted = types[n].bytes == 1 ? in[i] : in[2 * i] | in[2 * i + 1] << 8;
        int32_t top = 1 << (8 * types[n].bytes - 1);
        if (types[n].is_signed && wanted & top) wanted -= 2 * top;
        assert_int_equal(out[i], wanted);
      }
    }
}

/* The ISA says that one of them is kept; here it is the last, as when lanes go one by one. */
static void lanes_that_write_one_address_leave_the_last_value(void **state) {
  (void)state;
  int32_t out[2];
  CUdeviceptr a = emu_alloc(sizeof out);
  EMU_OK(emu_run(emu_function(emu_compile(source), "collide"), 1, 64, 0, EMU_ARGS(&a)));
  emu_download(out, a, sizeof out);
  assert_int_equal(out[0], 31);
  assert_int_equal(out[1], 63);
}

/* A read of memory past a row's end is found although the row begins inside, and one before it. */
static void a_row_that_leaves_its_allocation_faults_at_the_first_lane_outside(void **state) {
  static const struct {
    int64_t start; /* elements of 4 bytes; the allocation has 64 */
    const char *thread;
  } rows[] = {
      {33, "thread (31,0,0)"}, {63, "thread (1,0,0)"}, {64, "thread (0,0,0)"}, {-1, "thread (0,0,0)"}};
  for (size_t n = 0; n < sizeof rows / sizeof rows[0]; n++) {
    CUcontext context;
    EMU_OK(cuCtxCreate_v2(&context, 0, 0));
    int32_t data[64] = {0};
    int count = 32, off = -1;
    CUfunction kernel = emu_function(emu_compile(source), "copy_int_1");
    CUdeviceptr a = emu_upload(data, sizeof data), b = emu_alloc(128), within = a + 4 * 32,
                outside = a + (CUdeviceptr)(4 * rows[n].start);
    EMU_OK(emu_run(kernel, 1, 32, 0, EMU_ARGS(&within, &b, &count, &off)));
    EMU_RESULT(emu_run(kernel, 1, 32, 0, EMU_ARGS(&outside, &b, &count, &off)), CUDA_ERROR_ILLEGAL_ADDRESS);
    const char *report = emu_report();
    if (!strstr(report, rows[n].thread)) fail_msg("no '%s' in\n%s", rows[n].thread, report);
    EMU_OK(cuCtxDestroy_v2(context));
  }
  EMU_OK(cuCtxSetCurrent(*state));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(rows_and_shared_values_move_like_single_lanes, emu_setup, emu_teardown),
      cmocka_unit_test_setup_teardown(narrow_elements_are_extended_by_their_sign, emu_setup, emu_teardown),
      cmocka_unit_test_setup_teardown(lanes_that_write_one_address_leave_the_last_value, emu_setup,
                                      emu_teardown),
      cmocka_unit_test_setup_teardown(a_row_that_leaves_its_allocation_faults_at_the_first_lane_outside,
                                      emu_setup, emu_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
