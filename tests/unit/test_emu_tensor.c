/* tests/unit/test_emu_tensor.c: matrix instructions against a plain matrix product.
 *
 * Where each element of a fragment lies is written down here per shape, as the tables of the PTX ISA have it
 * ("Matrix Fragments for mma.m16n8k16" and so on), apart from the one formula that the emulator uses. Inputs
 * are small integers, so that every format holds them and every sum exactly.
 */
#include "base/half.h"
#include "tests/support/emu_device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct {
  const char *shape, *d, *a, *b; /* c has d's type */
  int m, k;
} case_t;

static const case_t cases[] = {
    {"m16n8k16", "f32", "f16", "f16", 16, 16}, {"m16n8k8", "f32", "f16", "f16", 16, 8},
    {"m16n8k16", "f16", "f16", "f16", 16, 16}, {"m16n8k16", "f32", "bf16", "bf16", 16, 16},
    {"m16n8k8", "f32", "bf16", "bf16", 16, 8}, {"m16n8k8", "f32", "tf32", "tf32", 16, 8},
    {"m16n8k4", "f32", "tf32", "tf32", 16, 4}, {"m8n8k4", "f64", "f64", "f64", 8, 4},
    {"m16n8k8", "f64", "f64", "f64", 16, 8},   {"m16n8k16", "f64", "f64", "f64", 16, 16},
    {"m16n8k32", "s32", "s8", "s8", 16, 32},   {"m16n8k16", "s32", "u8", "s8", 16, 16},
    {"m8n8k16", "s32", "s8", "u8", 8, 16},     {"m16n8k64", "s32", "s4", "s4", 16, 64},
    {"m16n8k32", "s32", "u4", "s4", 16, 32},   {"m8n8k32", "s32", "s4", "u4", 8, 32},
};

static int bits_of(const char *type) {
  if (!strcmp(type, "f64")) return 64;
  if (strstr(type, "32")) return 32;
  if (strstr(type, "16")) return 16;
  return type[1] == '8' ? 8 : 4;
}

typedef struct {
  int row, column;
} place_t;

/* Element i of a lane's A fragment, from the ISA's table for the shape. */
static place_t place_a(const case_t *c, int lane, int i) {
  int group = lane >> 2, member = lane % 4, bits = bits_of(c->a);
  if (bits == 16 && c->k == 16)
    return (place_t){i < 2 || (i >= 4 && i < 6) ? group : group + 8, member * 2 + (i & 1) + (i >= 4 ? 8 : 0)};
  if (bits == 16) return (place_t){i < 2 ? group : group + 8, member * 2 + (i & 1)};
  if (bits == 32 && c->k == 8)
    return (place_t){i == 0 || i == 2 ? group : group + 8, i < 2 ? member : member + 4};
  if (bits == 32) return (place_t){i == 0 ? group : group + 8, member};
  if (bits == 64 && c->m == 8) return (place_t){group, member};
  if (bits == 64) return (place_t){i % 2 == 0 ? group : group + 8, i / 2 * 4 + member};
  if (bits == 4)
    return (place_t){i < 8 || (i >= 16 && i < 24) ? group : group + 8,
                     member * 8 + (i & 7) + (i >= 16 ? 32 : 0)};
  if (c->m == 8) return (place_t){group, member * 4 + i};
  if (c->k == 16) return (place_t){i < 4 ? group : group + 8, member * 4 + (i & 3)};
  return (place_t){i < 4 || (i >= 8 && i < 12) ? group : group + 8, member * 4 + (i & 3) + (i >= 8 ? 16 : 0)};
}

static place_t place_b(const case_t *c, int lane, int i) {
  int group = lane >> 2, member = lane % 4, bits = bits_of(c->b);
  if (bits == 16) return (place_t){member * 2 + (i & 1) + (i >= 2 ? 8 : 0), group};
  if (bits >= 32) return (place_t){member + 4 * i, group};
  if (bits == 8) return (place_t){member * 4 + (i & 3) + (i >= 4 ? 16 : 0), group};
  return (place_t){member * 8 + (i & 7) + (i >= 8 ? 32 : 0), group};
}

static place_t place_c(const case_t *c, int lane, int i) {
  (void)c;
  return (place_t){(lane >> 2) + (i >= 2 ? 8 : 0), lane % 4 * 2 + (i & 1)};
}

static uint64_t encode(const char *type, int value) {
  uint64_t bits = 0;
  double wide = value;
  float narrow = (float)value;
  if (!strcmp(type, "f64"))
    memcpy(&bits, &wide, 8);
  else if (!strcmp(type, "f32") || !strcmp(type, "tf32"))
    memcpy(&bits, &narrow, 4);
  else if (!strcmp(type, "f16"))
    bits = kiln_f16_from_f32(narrow);
  else if (!strcmp(type, "bf16"))
    bits = kiln_bf16_from_f32(narrow);
  else
    bits = (uint64_t)value & (~0ull >> (64 - bits_of(type)));
  return bits;
}

typedef place_t (*placing_t)(const case_t *c, int lane, int i);
#define MOST_COLUMNS 64

/* The registers of 32 lanes that hold a matrix; returns how many each lane has. */
static int pack(const case_t *c, const char *type, placing_t placing, int elements,
                int values[][MOST_COLUMNS], uint64_t *registers) {
  int bits = bits_of(type), each = bits >= 32 ? 1 : 32 / bits, per_lane = elements / 32,
      count = per_lane / each;
  memset(registers, 0, sizeof *registers * 32 * (size_t)count);
  for (int lane = 0; lane < 32; lane++)
    for (int i = 0; i < per_lane; i++) {
      place_t at = placing(c, lane, i);
      registers[lane * count + i / each] |= encode(type, values[at.row][at.column]) << (i % each * bits % 64);
    }
  return count;
}

static void list(char *text, size_t capacity, const char *format, int first, int count) {
  size_t length = strlen(text);
  for (int n = first; n < first + count; n++)
    length +=
        (size_t)snprintf(text + length, capacity - length, "%s%s%d%s", n == first ? "" : ",", format, n, "");
}

/* A kernel that loads fragments of so many registers, runs the instruction, and stores d. */
static CUmodule compile(const case_t *c, int d, int a, int b) {
  static char source[8192];
  char braces[512] = "{", outputs[1024] = "", inputs[2048] = "";
  bool wide = !strcmp(c->d, "f64");
  const char *type = wide ? "double" : "unsigned", *constraint = wide ? "d" : "r";
  list(braces, sizeof braces, "%", 0, d);
  strcat(braces, "},{");
  list(braces, sizeof braces, "%", d, a);
  strcat(braces, "},{");
  list(braces, sizeof braces, "%", d + a, b);
  strcat(braces, "},{");
  list(braces, sizeof braces, "%", d + a + b, d);
  strcat(braces, "}");
  for (int n = 0; n < d; n++)
    sprintf(outputs + strlen(outputs), "%s\"=%s\"(r[%d])", n ? "," : "", constraint, n);
  for (int n = 0; n < a; n++) sprintf(inputs + strlen(inputs), "\"%s\"(a[l*%d+%d]),", constraint, a, n);
  for (int n = 0; n < b; n++) sprintf(inputs + strlen(inputs), "\"%s\"(b[l*%d+%d]),", constraint, b, n);
  for (int n = 0; n < d; n++)
    sprintf(inputs + strlen(inputs), "%s\"%s\"(c[l*%d+%d])", n ? "," : "", constraint, d, n);
  snprintf(source, sizeof source,
           "extern \"C\" __global__ void k(const %s *a, const %s *b, const %s *c, %s *o) {\n"
           "  int l = threadIdx.x; %s r[%d];\n"
           "  asm volatile(\"mma.sync.aligned.%s.row.col.%s.%s.%s.%s %s;\" : %s : %s);\n"
           "  for (int n = 0; n < %d; n++) o[l * %d + n] = r[n];\n}\n",
           type, type, type, type, type, d, c->shape, c->d, c->a, c->b, c->d, braces, outputs, inputs, d, d);
  return emu_compile_for(source, "compute_90");
}

/* Registers are 4 bytes wide on the device, or 8 for f64. */
static CUdeviceptr upload(const uint64_t *registers, int count, bool wide) {
  static uint32_t narrow[32 * 32];
  for (int n = 0; n < count; n++) narrow[n] = (uint32_t)registers[n];
  return wide ? emu_upload(registers, (size_t)count * 8) : emu_upload(narrow, (size_t)count * 4);
}

static int a_values[16][MOST_COLUMNS], b_values[64][MOST_COLUMNS], c_values[16][MOST_COLUMNS],
    d_values[16][MOST_COLUMNS];

static void fill_matrices(const case_t *c) {
  bool unsigned_a = c->a[0] == 'u', unsigned_b = c->b[0] == 'u';
  for (int row = 0; row < 64; row++)
    for (int column = 0; column < MOST_COLUMNS; column++) {
      if (row < 16) a_values[row][column] = (row * 7 + column * 3) % 16 - (unsigned_a ? 0 : 8);
      b_values[row][column] = (row * 5 + column * 11) % 16 - (unsigned_b ? 0 : 8);
      if (row < 16) c_values[row][column] = (row * 13 + column) % 100 - 50;
    }
  for (int row = 0; row < c->m; row++)
    for (int column = 0; column < 8; column++) {
      int sum = c_values[row][column];
      for (int k = 0; k < c->k; k++) sum += a_values[row][k] * b_values[k][column];
      d_values[row][column] = sum;
    }
}

static void mma_of_every_shape_is_the_matrix_product(void **state) {
  (void)state;
  static uint64_t registers[32 * 32], got[32 * 32];
  for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) {
    const case_t *c = &cases[n];
    bool wide = !strcmp(c->d, "f64");
    fill_matrices(c);
    int a = pack(c, c->a, place_a, c->m * c->k, a_values, registers);
    CUdeviceptr pa = upload(registers, 32 * a, wide);
    int b = pack(c, c->b, place_b, 8 * c->k, b_values, registers);
    CUdeviceptr pb = upload(registers, 32 * b, wide);
    int d = pack(c, c->d, place_c, 8 * c->m, c_values, registers);
    CUdeviceptr pc = upload(registers, 32 * d, wide), out = emu_alloc(32 * 32 * 8);
    EMU_OK(emu_run(emu_function(compile(c, d, a, b), "k"), 1, 32, 0, EMU_ARGS(&pa, &pb, &pc, &out)));
    assert_int_equal(emu_last_launch().counters.tensor_operations, c->m * 8 * c->k);
    pack(c, c->d, place_c, 8 * c->m, d_values, registers);
    emu_download(got, out, (size_t)(32 * d * (wide ? 8 : 4)));
    for (int r = 0; r < 32 * d; r++) {
      uint64_t value = wide ? got[r] : ((uint32_t *)got)[r];
      if (value != registers[r])
        fail_msg("%s %s %s: register %d of lane %d is %llx, not %llx", c->shape, c->d, c->a, r % d, r / d,
                 (unsigned long long)value, (unsigned long long)registers[r]);
    }
  }
}

/* Row r, column n of matrix m holds 256 m + 8 r + n; each lane gets two neighbours of a row, or with .trans
 * of a column. */
static void ldmatrix_spreads_rows_over_lanes(void **state) {
  (void)state;
  static const char source[] =
      "extern \"C\" __global__ void k(unsigned *o) {\n"
      "  __shared__ __align__(16) unsigned short m[256]; int l = threadIdx.x; unsigned r[8];\n"
      "  for (int i = l; i < 256; i += 32) m[i] = i / 64 * 256 + i % 64;\n"
      "  __syncwarp();\n"
      "  unsigned at = (unsigned)__cvta_generic_to_shared(m + 8 * l);\n"
      "  asm volatile(\"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\"\n"
      "    : \"=r\"(r[0]), \"=r\"(r[1]), \"=r\"(r[2]), \"=r\"(r[3]) : \"r\"(at));\n"
      "  asm volatile(\"ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\"\n"
      "    : \"=r\"(r[4]), \"=r\"(r[5]), \"=r\"(r[6]), \"=r\"(r[7]) : \"r\"(at));\n"
      "  for (int n = 0; n < 8; n++) o[l * 8 + n] = r[n];\n}\n";
  CUdeviceptr out = emu_alloc(32 * 8 * 4);
  unsigned o[256];
  EMU_OK(emu_run(emu_function(emu_compile(source), "k"), 1, 32, 0, EMU_ARGS(&out)));
  emu_download(o, out, sizeof o);
  for (unsigned l = 0; l < 32; l++)
    for (unsigned m = 0; m < 4; m++) {
      unsigned row = l / 4, column = l % 4 * 2, plain = 256 * m + 8 * row + column,
               across = 256 * m + 8 * column + row;
      assert_int_equal(o[l * 8 + m], plain | (plain + 1) << 16);
      assert_int_equal(o[l * 8 + 4 + m], across | (across + 8) << 16);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(mma_of_every_shape_is_the_matrix_product, emu_setup, emu_teardown),
      cmocka_unit_test_setup_teardown(ldmatrix_spreads_rows_over_lanes, emu_setup, emu_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
