/* tests/unit/test_conform_atomic.c: conformance of the atomics that sm_90 added: of vectors, element by
 * element, and of 128 bits; with them movmatrix. Single values of all types are in test_conform_warp.c.
 *
 * Sums are of small integers, so that any order of the additions gives the same bits. Source: PTX ISA,
 * "atom", "red", "movmatrix".
 * Labels: device */
#include "tests/support/conform.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
// clang-format on
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define BLOCKS 4u
#define THREADS 64u

/* --- vectors --- */

typedef struct {
  const char *operation, *type; /* of an element, as conform.h names it */
  uint32_t count, bytes;
} vector_t;

static const vector_t vectors[] = {{"add", "f32", 2, 4},   {"add", "f32", 4, 4},    {"add", "f16", 2, 2},
                                   {"add", "f16", 4, 2},   {"add", "f16", 8, 2},    {"add", "bf16", 8, 2},
                                   {"add", "f16x2", 4, 4}, {"add", "bf16x2", 2, 4}, {"min", "f16", 8, 2},
                                   {"max", "f16", 2, 2},   {"max", "bf16", 4, 2},   {"min", "bf16x2", 4, 4},
                                   {"max", "f16x2", 2, 4}};

static void list(char *text, size_t capacity, const char *stem, uint32_t count) {
  size_t length = (size_t)snprintf(text, capacity, "{");
  for (uint32_t n = 0; n < count; n++)
    length += (size_t)snprintf(text + length, capacity - length, "%s%s%u", n ? ", " : "", stem, n);
  snprintf(text + length, capacity - length, "}");
}

/* Every thread: d = atom [p], a and red [q], a, where a is its thread's number, times 2^n in element n modulo
 * 4; d goes to its own place. Packed types hold the element's number in both halves. */
static void write_vector_kernel(char *ptx, size_t capacity, const vector_t *v) {
  char a[128], d[128];
  bool halves = v->bytes == 2;
  list(a, sizeof a, "a", v->count);
  list(d, sizeof d, "d", v->count);
  size_t length = (size_t)snprintf(
      ptx, capacity,
      ".version 8.1\n.target sm_90\n.address_size 64\n"
      ".visible .entry k(.param .u64 pp, .param .u64 pq, .param .u64 pd, .param .u64 pa)\n{\n"
      ".reg .b%u a<8>, d<8>;\n.reg .b32 i, j;\n.reg .b64 p, q, at;\n"
      "mov.u32 i, %%ctaid.x;\nmov.u32 j, %%ntid.x;\nmul.lo.u32 i, i, j;\nmov.u32 j, %%tid.x;\nadd.u32 i, i, j;\n"
      "ld.param.u64 p, [pp];\nld.param.u64 q, [pq];\nld.param.u64 at, [pa];\nmad.wide.u32 at, i, %u, at;\n",
      8 * v->bytes, v->count * v->bytes);
  for (uint32_t n = 0; n < v->count; n++)
    length += (size_t)snprintf(ptx + length, capacity - length, "ld.global.b%u a%u, [at+%u];\n", 8 * v->bytes,
                               n, n * v->bytes);
  const char *noftz = strcmp(v->type, "f32") ? ".noftz" : "";
  /* The order of the modifiers differs in the ISA's text and in its examples; both are taken. */
  if (halves)
    length += (size_t)snprintf(ptx + length, capacity - length,
                               "atom.relaxed.gpu.global.v%u.%s%s.%s %s, [p], %s;\n"
                               "red.relaxed.gpu.global.%s%s.v%u.%s [q], %s;\n",
                               v->count, v->operation, noftz, v->type, d, a, v->operation, noftz, v->count,
                               v->type, a);
  else
    length += (size_t)snprintf(ptx + length, capacity - length,
                               "atom.global.%s%s.v%u.%s %s, [p], %s;\nred.global.v%u.%s%s.%s [q], %s;\n",
                               v->operation, noftz, v->count, v->type, d, a, v->count, v->operation, noftz,
                               v->type, a);
  length += (size_t)snprintf(ptx + length, capacity - length,
                             "ld.param.u64 at, [pd];\nmad.wide.u32 at, i, %u, at;\n", v->count * v->bytes);
  for (uint32_t n = 0; n < v->count; n++)
    length += (size_t)snprintf(ptx + length, capacity - length, "st.global.b%u [at+%u], d%u;\n", 8 * v->bytes,
                               n * v->bytes, n);
  snprintf(ptx + length, capacity - length, "ret;\n}\n");
}

/* Values that every type holds: 0 to 3. */
static uint64_t small(const vector_t *v, uint32_t thread, uint32_t element) {
  double x = (thread * 5 + element * 3) % 4;
  uint64_t half = v->type[0] == 'b' ? conform_round_bf16(x) : conform_round_f16(x);
  return !strcmp(v->type, "f32") ? conform_f32_bits((float)x) : v->bytes == 4 ? half | half << 16 : half;
}

static double element_value(const vector_t *v, const unsigned char *memory, uint32_t index) {
  uint64_t bits = 0;
  memcpy(&bits, memory + index * v->bytes, v->bytes);
  if (!strcmp(v->type, "f32")) return (double)conform_f32(bits);
  if (v->bytes == 4) assert_int_equal(bits & 0xffff, bits >> 16); /* both halves went the same way */
  return conform_value(v->type[0] == 'b' ? "bf16" : "f16", bits & 0xffff);
}

static double combined(const char *operation, double x, double y) {
  return operation[0] == 'a' ? x + y : (operation[1] == 'i') == (x < y) ? x : y;
}

static void elements_of_vectors_are_updated_one_by_one(void **state) {
  (void)state;
  static unsigned char in[BLOCKS * THREADS * 16], old[BLOCKS * THREADS * 16];
  for (size_t row = 0; row < sizeof vectors / sizeof vectors[0]; row++) {
    const vector_t *v = &vectors[row];
    uint32_t blocks = v->type[0] == 'b' ? 1 : BLOCKS; /* sums that bfloat16 holds: up to 96 */
    unsigned char zero[16] = {0}, p_end[16], q_end[16];
    char ptx[4096];
    write_vector_kernel(ptx, sizeof ptx, v);
    for (uint32_t t = 0; t < BLOCKS * THREADS; t++)
      for (uint32_t n = 0; n < v->count; n++) {
        uint64_t bits = small(v, t, n);
        memcpy(in + (t * v->count + n) * v->bytes, &bits, v->bytes);
      }
    CUdeviceptr p = emu_upload(zero, 16), q = emu_upload(zero, 16), a = emu_upload(in, sizeof in),
                d = emu_alloc(sizeof old);
    EMU_OK(emu_run(conform_kernel(ptx), blocks, THREADS, 0, EMU_ARGS(&p, &q, &d, &a)));
    emu_download(p_end, p, 16);
    emu_download(q_end, q, 16);
    emu_download(old, d, blocks * THREADS * v->count * v->bytes);
    for (uint32_t n = 0; n < v->count; n++) {
      double want = 0, sum_of_old = 0;
      for (uint32_t t = 0; t < blocks * THREADS; t++) {
        want = combined(v->operation, want, element_value(v, in, t * v->count + n));
        sum_of_old += element_value(v, old, t * v->count + n);
      }
      if (element_value(v, p_end, n) != want || element_value(v, q_end, n) != want)
        fail_msg("%s of v%u.%s: element %u is %g and %g, not %g", v->operation, v->count, v->type, n,
                 element_value(v, p_end, n), element_value(v, q_end, n), want);
      if (v->operation[0] == 'a') assert_true(sum_of_old > 0 && sum_of_old < want * blocks * THREADS);
    }
  }
}

/* --- 128 bits --- */

/* Each thread adds 2^64 + 1 by compare-and-swap, then puts its own number into a chain of exchanges: what is
 * in the place at the end and all that came out of it are all numbers, each once. */
static void exchanges_and_swaps_of_128_bits_are_whole(void **state) {
  (void)state;
  static const char ptx[] =
      ".version 8.3\n.target sm_90\n.address_size 64\n"
      ".visible .entry k(.param .u64 pc, .param .u64 px, .param .u64 pd)\n{\n"
      ".reg .pred p;\n.reg .b32 i, j;\n.reg .b64 c, x, at, l, h, l1, h1, ol, oh;\n.reg .b128 old, new, got;\n"
      ".shared .align 16 .b8 own[16];\n"
      "ld.param.u64 c, [pc];\nld.param.u64 x, [px];\nmov.u32 i, %ctaid.x;\nmov.u32 j, %ntid.x;\nmul.lo.u32 i, i, j;\n"
      "mov.u32 j, %tid.x;\nadd.u32 i, i, j;\nld.global.v2.b64 {l, h}, [c];\n"
      "AGAIN:\nmov.b128 old, {l, h};\nadd.u64 l1, l, 1;\nadd.u64 h1, h, 1;\nmov.b128 new, {l1, h1};\n"
      "atom.global.cas.b128 got, [c], old, new;\nmov.b128 {ol, oh}, got;\nsetp.ne.u64 p, ol, l;\n"
      "mov.u64 l, ol;\nmov.u64 h, oh;\n@p bra AGAIN;\n"
      "cvt.u64.u32 l, i;\nadd.u64 l, l, 1;\nshl.b64 h, l, 32;\nmov.b128 new, {l, h};\n"
      "atom.global.exch.b128 got, [x], new;\nld.param.u64 at, [pd];\nmad.wide.u32 at, i, 16, at;\n"
      "st.global.b128 [at], got;\n"
      "mov.u32 j, %tid.x;\nsetp.ne.u32 p, j, 0;\n@p bra OUT;\n" /* in shared memory, too */
      "st.shared.b128 [own], new;\natom.shared.exch.b128 got, [own], old;\n"
      "mov.b128 {ol, oh}, got;\nsetp.ne.u64 p, oh, h;\n@p trap;\nOUT:\nret;\n}\n";
  uint64_t zero[2] = {0}, counter[2], last[2], out[BLOCKS * THREADS][2];
  bool seen[BLOCKS * THREADS + 1] = {false};
  CUdeviceptr c = emu_upload(zero, sizeof zero), x = emu_upload(zero, sizeof zero), d = emu_alloc(sizeof out);
  EMU_OK(emu_run(conform_kernel(ptx), BLOCKS, THREADS, 0, EMU_ARGS(&c, &x, &d)));
  emu_download(counter, c, sizeof counter);
  emu_download(last, x, sizeof last);
  emu_download(out, d, sizeof out);
  assert_int_equal(counter[0], BLOCKS * THREADS);
  assert_int_equal(counter[1], BLOCKS * THREADS);
  for (uint32_t n = 0; n <= BLOCKS * THREADS; n++) {
    const uint64_t *pair = n < BLOCKS * THREADS ? out[n] : last;
    assert_true(pair[0] <= BLOCKS * THREADS && pair[1] == pair[0] << 32);
    assert_false(seen[pair[0]]);
    seen[pair[0]] = true;
  }
}

/* --- movmatrix --- */

static void movmatrix_exchanges_rows_and_columns(void **state) {
  (void)state;
  static const char ptx[] =
      ".version 7.8\n.target sm_75\n.address_size 64\n"
      ".visible .entry k(.param .u64 pd)\n{\n.reg .b32 j, r, s;\n.reg .b64 at;\n"
      "mov.u32 j, %tid.x;\nshl.b32 r, j, 1;\nadd.u32 s, r, 1;\nshl.b32 s, s, 16;\nor.b32 r, r, s;\n"
      "movmatrix.sync.aligned.m8n8.trans.b16 s, r;\nld.param.u64 at, [pd];\n"
      "mad.wide.u32 at, j, 4, at;\nst.global.b32 [at], s;\nret;\n}\n";
  uint16_t got[8][8];
  CUdeviceptr d = emu_alloc(sizeof got);
  EMU_OK(emu_run(conform_kernel(ptx), 1, 32, 0, EMU_ARGS(&d)));
  emu_download(got, d, sizeof got);
  for (int row = 0; row < 8; row++)
    for (int column = 0; column < 8; column++) assert_int_equal(got[row][column], 8 * column + row);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, emu_setup, emu_teardown)
  const struct CMUnitTest tests[] = {
      TEST(elements_of_vectors_are_updated_one_by_one),
      TEST(exchanges_and_swaps_of_128_bits_are_whole),
      TEST(movmatrix_exchanges_rows_and_columns),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
