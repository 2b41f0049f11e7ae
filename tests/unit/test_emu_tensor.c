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
  const char *operation; /* of single bits, else NULL */
} case_t;

static const case_t cases[] = {
    {"m16n8k16", "f32", "f16", "f16", 16, 16, NULL},
    {"m16n8k8", "f32", "f16", "f16", 16, 8, NULL},
    {"m16n8k16", "f16", "f16", "f16", 16, 16, NULL},
    {"m16n8k16", "f32", "bf16", "bf16", 16, 16, NULL},
    {"m16n8k8", "f32", "bf16", "bf16", 16, 8, NULL},
    {"m16n8k8", "f32", "tf32", "tf32", 16, 8, NULL},
    {"m16n8k4", "f32", "tf32", "tf32", 16, 4, NULL},
    {"m8n8k4", "f64", "f64", "f64", 8, 4, NULL},
    {"m16n8k8", "f64", "f64", "f64", 16, 8, NULL},
    {"m16n8k16", "f64", "f64", "f64", 16, 16, NULL},
    {"m16n8k32", "s32", "s8", "s8", 16, 32, NULL},
    {"m16n8k16", "s32", "u8", "s8", 16, 16, NULL},
    {"m8n8k16", "s32", "s8", "u8", 8, 16, NULL},
    {"m16n8k64", "s32", "s4", "s4", 16, 64, NULL},
    {"m16n8k32", "s32", "u4", "s4", 16, 32, NULL},
    {"m8n8k32", "s32", "s4", "u4", 8, 32, NULL},
    {"m16n8k4", "f64", "f64", "f64", 16, 4, NULL},
    {"m16n8k8", "f16", "f16", "f16", 16, 8, NULL},
    {"m16n8k16", "f32", "e4m3", "e5m2", 16, 16, NULL},
    {"m16n8k32", "f32", "e5m2", "e4m3", 16, 32, NULL},
    {"m16n8k32", "f16", "e4m3", "e4m3", 16, 32, NULL},
    {"m8n8k128", "s32", "b1", "b1", 8, 128, ".xor.popc"},
    {"m16n8k128", "s32", "b1", "b1", 16, 128, ".and.popc"},
    {"m16n8k256", "s32", "b1", "b1", 16, 256, ".xor.popc"},
    {"m16n8k256", "s32", "b1", "b1", 16, 256, ".and.popc"},
};

static int bits_of(const char *type) {
  if (!strcmp(type, "f64")) return 64;
  if (strstr(type, "32")) return 32;
  if (strstr(type, "16")) return 16;
  if (type[0] == 'e') return 8;
  return type[1] == '8' ? 8 : type[0] == 'b' ? 1 : 4;
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
  if (bits == 1)
    return (place_t){c->m == 8 || i < 32 || (i >= 64 && i < 96) ? group : group + 8,
                     member * 32 + (i & 31) + (i >= 64 ? 128 : 0)};
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
  if (bits == 1) return (place_t){member * 32 + (i & 31) + (i >= 32 ? 128 : 0), group};
  return (place_t){member * 8 + (i & 7) + (i >= 8 ? 32 : 0), group};
}

static place_t place_c(const case_t *c, int lane, int i) {
  (void)c;
  return (place_t){(lane >> 2) + (i >= 2 ? 8 : 0), lane % 4 * 2 + (i & 1)};
}

/* Small integers in 8-bit floats: a power of two and the digits behind it. */
static uint64_t encode_float8(int fraction, int bias, int value) {
  int magnitude = abs(value), exponent = 0;
  while (magnitude >> (exponent + 1)) exponent++;
  if (!magnitude) return 0;
  int digits = ((magnitude << fraction) >> exponent) & ((1 << fraction) - 1);
  return (uint64_t)((value < 0 ? 128 : 0) | (exponent + bias) << fraction | digits);
}

static uint64_t encode(const char *type, int value) {
  if (!strcmp(type, "e4m3")) return encode_float8(3, 7, value);
  if (!strcmp(type, "e5m2")) return encode_float8(2, 15, value);
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
#define MOST_COLUMNS 256

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
           "  asm volatile(\"mma.sync.aligned.%s.row.col.%s.%s.%s.%s%s %s;\" : %s : %s);\n"
           "  for (int n = 0; n < %d; n++) o[l * %d + n] = r[n];\n}\n",
           type, type, type, type, type, d, c->shape, c->d, c->a, c->b, c->d,
           c->operation ? c->operation : "", braces, outputs, inputs, d, d);
  return emu_compile_for(source, "compute_90");
}

/* Registers are 4 bytes wide on the device, or 8 for f64. */
static CUdeviceptr upload(const uint64_t *registers, int count, bool wide) {
  static uint32_t narrow[32 * 32];
  for (int n = 0; n < count; n++) narrow[n] = (uint32_t)registers[n];
  return wide ? emu_upload(registers, (size_t)count * 8) : emu_upload(narrow, (size_t)count * 4);
}

static int a_values[16][MOST_COLUMNS], b_values[256][MOST_COLUMNS], c_values[16][MOST_COLUMNS],
    d_values[16][MOST_COLUMNS];

/* Of single bits: whether they differ, or whether both are set. */
static int product(const case_t *c, int a, int b) {
  if (!c->operation) return a * b;
  return c->operation[1] == 'x' ? (a ^ b) & 1 : a & b & 1;
}

static void fill_matrices(const case_t *c) {
  bool unsigned_a = c->a[0] == 'u', unsigned_b = c->b[0] == 'u';
  for (int row = 0; row < 256; row++)
    for (int column = 0; column < MOST_COLUMNS; column++) {
      if (row < 16) a_values[row][column] = (row * 7 + column * 3) % 16 - (unsigned_a ? 0 : 8);
      b_values[row][column] = (row * 5 + column * 11) % 16 - (unsigned_b ? 0 : 8);
      if (row < 16) c_values[row][column] = (row * 13 + column) % 100 - 50;
    }
  for (int row = 0; row < c->m; row++)
    for (int column = 0; column < 8; column++) {
      int sum = c_values[row][column];
      for (int k = 0; k < c->k; k++) sum += product(c, a_values[row][k], b_values[k][column]);
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

/* --- m8n8k4 of f16: four products at once, a layout of its own, A and B by rows or columns --- */

/* Where element n of a lane lies, straight from the tables of the ISA. */
static place_t quad_place(char matrix, bool by_rows, bool wide, int lane, int n) {
  int r = lane % 4, h = lane < 16 ? 0 : 4;
  if (matrix == 'a') return by_rows ? (place_t){r + h, n} : (place_t){n + h, r};
  if (matrix == 'b') return by_rows ? (place_t){r, n + h} : (place_t){n, r + h};
  return wide ? (place_t){(r & 1) + (n & 2) + h, (n & 4) + (r & 2) + (n & 1)} : (place_t){r + h, n};
}

static void put_quads(char matrix, bool by_rows, bool wide, int values[4][8][8], uint32_t *registers) {
  int count = matrix == 'a' || matrix == 'b' ? 4 : 8;
  for (int lane = 0; lane < 32; lane++)
    for (int n = 0; n < count; n++) {
      place_t at = quad_place(matrix, by_rows, wide, lane, n);
      int value = values[lane % 16 / 4][at.row][at.column];
      if (wide)
        registers[lane * 8 + n] = (uint32_t)encode("f32", value);
      else
        ((uint16_t *)registers)[lane * count + n] = (uint16_t)encode("f16", value);
    }
}

static void mma_of_quads_computes_four_products_in_every_layout(void **state) {
  (void)state;
  static const char *const layouts[] = {"row", "col"};
  static const char *const sums[][2] = {{"f32", "f32"}, {"f16", "f16"}, {"f32", "f16"}};
  static int a[4][8][8], b[4][8][8], c[4][8][8], d[4][8][8];
  static uint32_t ra[64], rb[64], rc[256], want[256], got[256];
  for (int q = 0; q < 4; q++)
    for (int row = 0; row < 8; row++)
      for (int column = 0; column < 8; column++) {
        a[q][row][column] = (row * 5 + column * 3 + q) % 9 - 4;
        b[q][row][column] = (row * 7 + column * 2 + q * 3) % 11 - 5;
        c[q][row][column] = (row * 3 + column + q) % 13 - 6;
        d[q][row][column] = c[q][row][column];
      }
  for (int q = 0; q < 4; q++)
    for (int row = 0; row < 8; row++)
      for (int column = 0; column < 8; column++)
        for (int k = 0; k < 4; k++) d[q][row][column] += a[q][row][k] * b[q][k][column];
  for (int kind = 0; kind < 12; kind++) {
    const char *const *types = sums[kind / 4];
    bool a_rows = kind % 2 == 0, b_rows = kind / 2 % 2 == 0, d_wide = types[0][1] == '3',
         c_wide = types[1][1] == '3';
    char ptx[4096];
    const char *d_list = d_wide ? "{d0,d1,d2,d3,d4,d5,d6,d7}" : "{d0,d1,d2,d3}",
               *c_list = c_wide ? "{c0,c1,c2,c3,c4,c5,c6,c7}" : "{c0,c1,c2,c3}";
    put_quads('a', a_rows, false, a, ra);
    put_quads('b', b_rows, false, b, rb);
    put_quads('c', false, c_wide, c, rc);
    put_quads('c', false, d_wide, d, want);
    snprintf(
        ptx, sizeof ptx,
        ".version 7.0\n.target sm_80\n.address_size 64\n"
        ".visible .entry k(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pd)\n{\n"
        ".reg .b32 t, a<2>, b<2>, c<8>, d<8>;\n.reg .b64 at;\nmov.u32 t, %%tid.x;\n"
        "ld.param.u64 at, [pa];\nmad.wide.u32 at, t, 8, at;\nld.global.v2.b32 {a0,a1}, [at];\n"
        "ld.param.u64 at, [pb];\nmad.wide.u32 at, t, 8, at;\nld.global.v2.b32 {b0,b1}, [at];\n"
        "ld.param.u64 at, [pc];\nmad.wide.u32 at, t, %d, at;\nld.global.v4.b32 {c0,c1,c2,c3}, [at];\n%s"
        "mma.sync.aligned.m8n8k4.%s.%s.%s.f16.f16.%s %s, {a0,a1}, {b0,b1}, %s;\n"
        "ld.param.u64 at, [pd];\nmad.wide.u32 at, t, %d, at;\nst.global.v4.b32 [at], {d0,d1,d2,d3};\n%sret;\n}\n",
        c_wide ? 32 : 16, c_wide ? "ld.global.v4.b32 {c4,c5,c6,c7}, [at+16];\n" : "", layouts[!a_rows],
        layouts[!b_rows], types[0], types[1], d_list, c_list, d_wide ? 32 : 16,
        d_wide ? "st.global.v4.b32 [at+16], {d4,d5,d6,d7};\n" : "");
    CUmodule module;
    EMU_OK(cuModuleLoadData(&module, ptx));
    CUdeviceptr pa = emu_upload(ra, sizeof ra), pb = emu_upload(rb, sizeof rb),
                pc = emu_upload(rc, sizeof rc), pd = emu_alloc(sizeof got);
    EMU_OK(emu_run(emu_function(module, "k"), 1, 32, 0, EMU_ARGS(&pa, &pb, &pc, &pd)));
    emu_download(got, pd, d_wide ? 1024 : 512);
    for (int n = 0; n < (d_wide ? 256 : 128); n++)
      if (got[n] != want[n])
        fail_msg("%s.%s %s: word %d is %x, not %x", layouts[!a_rows], layouts[!b_rows], types[0], n, got[n],
                 want[n]);
    assert_int_equal(emu_last_launch().counters.tensor_operations, 4 * 8 * 8 * 4);
  }
}

/* --- what does not exist --- */

static void products_that_the_isa_does_not_have_are_refused(void **state) {
  (void)state;
  static const char *const operations[] = {"m16n8k16.row.col.f16.bf16.bf16.f16",
                                           "m16n8k16.row.col.f32.f16.bf16.f32",
                                           "m16n8k16.row.col.f32.f16.f16.f16",
                                           "m16n8k16.row.col.f32.e4m3.s8.f32",
                                           "m16n8k16.col.col.f32.f16.f16.f32",
                                           "m16n8k16.row.row.f32.f16.f16.f32",
                                           "m16n8k16.row.col.satfinite.f32.f16.f16.f32",
                                           "m16n8k4.row.col.f32.f16.f16.f32",
                                           "m8n8k8.row.col.f32.f16.f16.f32",
                                           "m8n8k4.row.col.f16.f16.f16.f32"};
  for (size_t n = 0; n < sizeof operations / sizeof operations[0]; n++) {
    char ptx[512];
    CUmodule module;
    snprintf(ptx, sizeof ptx,
             ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k()\n{\n.reg .b32 r<8>;\n"
             "mma.sync.aligned.%s {r0,r1,r2,r3}, {r0,r1,r2,r3}, {r0,r1}, {r0,r1,r2,r3};\nret;\n}\n",
             operations[n]);
    EMU_RESULT(cuModuleLoadData(&module, ptx), CUDA_ERROR_INVALID_PTX);
    assert_non_null(strstr(emu_report(), "PTX line 7: unknown instruction 'mma.sync"));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(mma_of_every_shape_is_the_matrix_product, emu_setup, emu_teardown),
      cmocka_unit_test_setup_teardown(ldmatrix_spreads_rows_over_lanes, emu_setup, emu_teardown),
      cmocka_unit_test_setup_teardown(mma_of_quads_computes_four_products_in_every_layout, emu_setup,
                                      emu_teardown),
      cmocka_unit_test_setup_teardown(products_that_the_isa_does_not_have_are_refused, emu_setup,
                                      emu_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
