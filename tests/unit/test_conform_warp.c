/* tests/unit/test_conform_warp.c: conformance of what lanes do together: shuffles, votes, matches,
 * reductions, atomics of every type, asynchronous copies, ldmatrix and stmatrix.
 *
 * Warps of random members with random operands run one kernel of PTX; expectations follow the PTX ISA's
 * pseudo code over all lanes of a warp on the host. Left open by the ISA and not judged: what a shuffle reads
 * from a lane that takes no part, the order of atomics, which lane is elected.
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

#define WARPS 512u
#define LANES (WARPS * 32)

#define HEADER ".version 8.0\n.target sm_90\n.address_size 64\n"
#define THREAD_INDEX                                                                                         \
  "mov.u32 i, %ctaid.x;\nmov.u32 j, %ntid.x;\nmul.lo.u32 i, i, j;\nmov.u32 j, %tid.x;\nadd.u32 i, i, j;\n"

/* --- shuffles --- */

static uint32_t shuffled(char mode, const uint32_t *a, uint32_t lane, uint32_t b, uint32_t c, bool *inside) {
  uint32_t clamp = c & 31, segment = c >> 8 & 31;
  int last = (int)((lane & segment) | (clamp & ~segment)), first = (int)(lane & segment), from;
  b &= 31;
  from = mode == 'u'   ? (int)lane - (int)b
         : mode == 'd' ? (int)(lane + b)
         : mode == 'b' ? (int)(lane ^ b)
                       : first | (int)(b & ~segment);
  *inside = mode == 'u' ? from >= last : from <= last;
  return a[*inside ? (uint32_t)from : lane];
}

static void shuffles_in_all_modes_and_segments_follow_the_pseudo_code(void **state) {
  (void)state;
  static const char *const modes[] = {"up", "down", "bfly", "idx"};
  static uint32_t in[3][LANES], d[LANES], p[LANES];
  for (int m = 0; m < 4; m++) {
    char ptx[2048];
    snprintf(ptx, sizeof ptx,
             HEADER
             ".visible .entry k(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pd, .param .u64 "
             "pp)\n{\n.reg .pred p;\n.reg .b32 i, j, a, b, c, d, r;\n.reg .b64 at;\n%s"
             "ld.param.u64 at, [pa];\nmad.wide.u32 at, i, 4, at;\nld.global.b32 a, [at];\n"
             "ld.param.u64 at, [pb];\nmad.wide.u32 at, i, 4, at;\nld.global.b32 b, [at];\n"
             "ld.param.u64 at, [pc];\nmad.wide.u32 at, i, 4, at;\nld.global.b32 c, [at];\n"
             "shfl.sync.%s.b32 d|p, a, b, c, -1;\nselp.u32 r, 1, 0, p;\n"
             "ld.param.u64 at, [pd];\nmad.wide.u32 at, i, 4, at;\nst.global.b32 [at], d;\n"
             "ld.param.u64 at, [pp];\nmad.wide.u32 at, i, 4, at;\nst.global.b32 [at], r;\nret;\n}\n",
             THREAD_INDEX, modes[m]);
    for (uint32_t n = 0; n < LANES; n++)
      for (uint32_t which = 0; which < 3; which++)
        in[which][n] = (uint32_t)(conform_operand("u64", n + 4096, which) >> (which == 2 ? 3 : 0));
    for (uint32_t n = 0; n < LANES / 2; n++) in[2][n] = modes[m][0] == 'u' ? 0 : 0x1f; /* the usual */
    CUdeviceptr a = emu_upload(in[0], sizeof d), b = emu_upload(in[1], sizeof d),
                c = emu_upload(in[2], sizeof d);
    CUdeviceptr pd = emu_alloc(sizeof d), pp = emu_alloc(sizeof p);
    EMU_OK(emu_run(conform_kernel(ptx), WARPS, 32, 0, EMU_ARGS(&a, &b, &c, &pd, &pp)));
    emu_download(d, pd, sizeof d);
    emu_download(p, pp, sizeof p);
    for (uint32_t n = 0; n < LANES; n++) {
      bool inside;
      uint32_t want = shuffled(modes[m][0], in[0] + n / 32 * 32, n % 32, in[1][n], in[2][n], &inside);
      if (d[n] != want || p[n] != inside)
        fail_msg("shfl.%s: lane %u, b %x, c %x", modes[m], n % 32, in[1][n], in[2][n]);
    }
  }
}

/* --- votes, matches, reductions --- */

/* Of each warp only the members run these; results are stored one after the other for each thread. */
static const char together[] = HEADER
    ".visible .entry k(.param .u64 pa, .param .u64 pm, .param .u64 pd)\n{\n"
    ".reg .pred p, q, e;\n.reg .b32 i, j, a, m, r, s;\n.reg .b64 at, w;\n" THREAD_INDEX
    "ld.param.u64 at, [pa];\nmad.wide.u32 at, i, 4, at;\nld.global.b32 a, [at];\n"
    "ld.param.u64 at, [pm];\nmad.wide.u32 at, i, 4, at;\nld.global.b32 m, [at];\n"
    "shr.u32 r, m, j;\nand.b32 r, r, 1;\nsetp.eq.u32 p, r, 0;\n@p bra OUT;\n"
    "ld.param.u64 at, [pd];\nmad.wide.u32 at, i, 64, at;\n"
    "activemask.b32 r;\nst.global.b32 [at], r;\n"
    "and.b32 r, a, 3;\nsetp.ne.u32 p, r, 0;\nvote.sync.ballot.b32 r, p, m;\nst.global.b32 [at+4], r;\n"
    "vote.sync.all.pred q, p, m;\nselp.u32 r, 1, 0, q;\nvote.sync.any.pred q, p, m;\nselp.u32 s, 2, 0, q;\n"
    "or.b32 r, r, s;\nvote.sync.uni.pred q, !p, m;\nselp.u32 s, 4, 0, q;\nor.b32 r, r, s;\n"
    "st.global.b32 [at+8], r;\n"
    "and.b32 r, a, 3;\nmatch.any.sync.b32 s, r, m;\nst.global.b32 [at+12], s;\n"
    "match.all.sync.b32 s|q, r, m;\nselp.u32 r, 1, 0, q;\nst.global.b32 [at+16], s;\nst.global.b32 [at+20], r;\n"
    "cvt.u64.u32 w, a;\nand.b64 w, w, 1;\nshl.b64 w, w, 40;\nmatch.any.sync.b64 s, w, m;\nst.global.b32 [at+24], s;\n"
    "redux.sync.add.s32 r, a, m;\nst.global.b32 [at+28], r;\nredux.sync.min.s32 r, a, m;\n"
    "st.global.b32 [at+32], r;\nredux.sync.max.u32 r, a, m;\nst.global.b32 [at+36], r;\n"
    "redux.sync.and.b32 r, a, m;\nst.global.b32 [at+40], r;\nredux.sync.or.b32 r, a, m;\n"
    "st.global.b32 [at+44], r;\nredux.sync.xor.b32 r, a, m;\nst.global.b32 [at+48], r;\n"
    "elect.sync r|e, m;\nselp.u32 s, 1, 0, e;\nst.global.b32 [at+52], r;\nst.global.b32 [at+56], s;\n"
    "OUT:\nret;\n}\n";

enum {
  ACTIVE,
  BALLOT,
  VOTES,
  MATCH,
  MATCH_ALL,
  MATCHED,
  MATCH64,
  ADD,
  MIN,
  MAX,
  AND,
  OR,
  XOR,
  ELECTED,
  ELECT
};

static void expect_together(const uint32_t *a, uint32_t members, uint32_t lane, uint32_t *want) {
  uint32_t count = 0, agreeing = 0;
  memset(want, 0, 16 * sizeof *want);
  want[MIN] = INT32_MAX, want[AND] = ~0u;
  want[ACTIVE] = members;
  for (uint32_t other = 0; other < 32; other++) {
    if (!(members >> other & 1)) continue;
    uint32_t x = a[other];
    count++;
    want[BALLOT] |= (uint32_t)((x & 3) != 0) << other;
    want[MATCH] |= (uint32_t)((x & 3) == (a[lane] & 3)) << other;
    want[MATCH64] |= (uint32_t)((x & 1) == (a[lane] & 1)) << other;
    want[ADD] += x;
    want[MIN] = (int32_t)x < (int32_t)want[MIN] ? x : want[MIN];
    want[MAX] = x > want[MAX] ? x : want[MAX];
    want[AND] &= x, want[OR] |= x, want[XOR] ^= x;
  }
  for (uint32_t other = 0; other < 32; other++) agreeing += want[BALLOT] >> other & 1;
  want[VOTES] = (agreeing == count) | (agreeing > 0) << 1 | (agreeing == 0 || agreeing == count) << 2;
  want[MATCHED] = want[MATCH] == members;
  want[MATCH_ALL] = want[MATCHED] ? members : 0;
}

static void votes_matches_and_reductions_of_any_members(void **state) {
  (void)state;
  static uint32_t a[LANES], m[LANES], d[LANES][16];
  for (uint32_t n = 0; n < LANES; n++) {
    uint32_t warp = n / 32;
    a[n] = (uint32_t)conform_operand("u64", n + 9999, 1);
    if (warp % 4 == 1) a[n] &= ~3u;
    if (warp % 4 == 2) a[n] |= 2;
    m[n] = warp < 8 ? ~0u : (uint32_t)(conform_operand("u64", warp + 5555, 1) | 1u << warp % 32);
  }
  CUdeviceptr pa = emu_upload(a, sizeof a), pm = emu_upload(m, sizeof m), pd = emu_upload(d, sizeof d);
  EMU_OK(emu_run(conform_kernel(together), WARPS, 32, 0, EMU_ARGS(&pa, &pm, &pd)));
  emu_download(d, pd, sizeof d);
  for (uint32_t n = 0; n < LANES; n++) {
    uint32_t want[16];
    if (!(m[n] >> n % 32 & 1)) continue;
    expect_together(a + n / 32 * 32, m[n], n % 32, want);
    for (int k = 0; k < ELECTED; k++)
      if (d[n][k] != want[k])
        fail_msg("result %d of lane %u, members %x: %x, not %x", k, n % 32, m[n], d[n][k], want[k]);
    assert_true(m[n] >> d[n][ELECTED] & 1);
    assert_int_equal(d[n][ELECT], d[n][ELECTED] == n % 32);
  }
}

/* --- atomics: each on a place of its own, so that the old and the new value tell all --- */

#define PLACE(bits)                                                                                          \
  "{ .shared .align 8 .b64 place[256];\n.reg .b32 x;\nmov.u32 x, place;\nmad.lo.u32 j, j, 8, x;\n"           \
  "st.shared.b" bits " [j], a;\n"
#define ATOM(operation, bits, scratch)                                                                       \
  PLACE(bits) "atom.shared." operation " " scratch ", [j], b;\nld.shared.b" bits " d, [j]; }"
#define RED(operation, bits) PLACE(bits) "red.shared." operation " [j], b;\nld.shared.b" bits " d, [j]; }"
#define CAS(bits, scratch)                                                                                   \
  PLACE(bits) "atom.shared.cas.b" bits " " scratch ", [j], b, c;\nld.shared.b" bits " d, [j]; }"
#define OLD(operation, bits) PLACE(bits) "atom.shared." operation " d, [j], b; }"

#define F32_SUM(a, b) conform_f32_bits(conform_f32(a) + conform_f32(b))
#define F16_SUM(a, b) conform_round_f16(conform_value("f16", (a)&0xffff) + conform_value("f16", (b)&0xffff))
#define BF16_SUM(a, b)                                                                                       \
  conform_round_bf16(conform_value("bf16", (a)&0xffff) + conform_value("bf16", (b)&0xffff))
#define SIGNED_LESS(a, b) ((int32_t)(a) < (int32_t)(b))

#define ATOMICS(X)                                                                                           \
  X(add_u32, ATOM("add.u32", "32", "r0"), "u32 u32 u32", a + b)                                              \
  X(add_u64, ATOM("add.u64", "64", "w0"), "u64 u64 u64", a + b)                                              \
  X(add_f32, ATOM("add.f32", "32", "r0"), "f32 f32 f32", F32_SUM(a, b))                                      \
  X(add_f64, ATOM("add.f64", "64", "w0"), "f64 f64 f64", conform_f64_bits(conform_f64(a) + conform_f64(b)))  \
  X(add_f16, ATOM("add.noftz.f16", "16", "h0"), "f16 f16 f16", F16_SUM(a, b))                                \
  X(add_bf16, ATOM("add.noftz.bf16", "16", "h0"), "bf16 bf16 bf16", BF16_SUM(a, b))                          \
  X(add_f16x2, ATOM("add.noftz.f16x2", "32", "r0"), "f16x2 f16x2 f16x2",                                     \
    F16_SUM(a, b) | F16_SUM(a >> 16, b >> 16) << 16)                                                         \
  X(add_bf16x2, ATOM("add.noftz.bf16x2", "32", "r0"), "bf16x2 bf16x2 bf16x2",                                \
    BF16_SUM(a, b) | BF16_SUM(a >> 16, b >> 16) << 16)                                                       \
  X(min_s32, ATOM("min.s32", "32", "r0"), "s32 s32 s32", SIGNED_LESS(a, b) ? a : b)                          \
  X(max_s32, ATOM("max.s32", "32", "r0"), "s32 s32 s32", SIGNED_LESS(a, b) ? b : a)                          \
  X(min_u32, ATOM("min.u32", "32", "r0"), "u32 u32 u32", a < b ? a : b)                                      \
  X(max_u64, ATOM("max.u64", "64", "w0"), "u64 u64 u64", a < b ? b : a)                                      \
  X(min_s64, ATOM("min.s64", "64", "w0"), "s64 s64 s64", (int64_t)a < (int64_t)b ? a : b)                    \
  X(inc_u32, ATOM("inc.u32", "32", "r0"), "u32 u32 u32", a >= b ? 0 : a + 1)                                 \
  X(dec_u32, ATOM("dec.u32", "32", "r0"), "u32 u32 u32", a == 0 || a > b ? b : a - 1)                        \
  X(and_b32, ATOM("and.b32", "32", "r0"), "b32 b32 b32", a &b)                                               \
  X(or_b64, ATOM("or.b64", "64", "w0"), "b64 b64 b64", a | b)                                                \
  X(xor_b32, ATOM("xor.b32", "32", "r0"), "b32 b32 b32", a ^ b)                                              \
  X(exch_b64, ATOM("exch.b64", "64", "w0"), "b64 b64 b64", b)                                                \
  X(cas_b16, CAS("16", "h0"), "b16 b16 b16 b16", a == b ? c : a)                                             \
  X(cas_b32, CAS("32", "r0"), "b32 b32 b32 b32", a == b ? c : a)                                             \
  X(cas_b64, CAS("64", "w0"), "b64 b64 b64 b64", a == b ? c : a)                                             \
  X(old_add, OLD("add.f32", "32"), "b32 b32 f32", a)                                                         \
  X(old_exch, OLD("exch.b32", "32"), "b32 b32 b32", a)                                                       \
  X(old_min, OLD("min.s64", "64"), "b64 b64 b64", a)                                                         \
  X(red_add, RED("add.u32", "32"), "u32 u32 u32", a + b)                                                     \
  X(red_xor, RED("xor.b64", "64"), "b64 b64 b64", a ^ b)                                                     \
  X(red_max, RED("max.s32", "32"), "s32 s32 s32", SIGNED_LESS(a, b) ? b : a)
ATOMICS(CONFORM_FUNCTION)

static void atomics_of_every_type_store_what_the_operation_gives(void **state) {
  (void)state;
  static const conform_row_t rows[] = {ATOMICS(CONFORM_ENTRY)};
  CONFORM_ROWS(rows);
}

/* --- asynchronous copies, matrices in shared memory --- */

/* Bytes of 16 that a copy with a source size does not read are zero. */
static void asynchronous_copies_fill_with_zeros_behind_the_source_size(void **state) {
  (void)state;
  static const char ptx[] = HEADER
      ".visible .entry k(.param .u64 pa, .param .u64 pd)\n{\n.reg .b32 i, j, s, n, r<4>;\n.reg .b64 from, to;\n"
      ".shared .align 16 .b8 tile[512];\n" THREAD_INDEX
      "ld.param.u64 from, [pa];\nmad.wide.u32 from, i, 16, from;\nmov.u32 s, tile;\nmad.lo.u32 s, j, 16, s;\n"
      "rem.u32 n, j, 17;\ncp.async.cg.shared.global [s], [from], 16, n;\ncp.async.commit_group;\n"
      "cp.async.wait_group 0;\nld.shared.v4.b32 {r0, r1, r2, r3}, [s];\n"
      "ld.param.u64 to, [pd];\nmad.wide.u32 to, i, 16, to;\nst.global.v4.b32 [to], {r0, r1, r2, r3};\nret;\n}\n";
  unsigned char in[512], out[512];
  for (int n = 0; n < 512; n++) in[n] = (unsigned char)(n | 1);
  CUdeviceptr a = emu_upload(in, sizeof in), d = emu_alloc(sizeof out);
  EMU_OK(emu_run(conform_kernel(ptx), 1, 32, 0, EMU_ARGS(&a, &d)));
  emu_download(out, d, sizeof out);
  for (int n = 0; n < 512; n++) assert_int_equal(out[n], n % 16 < n / 16 % 17 ? in[n] : 0);
}

/* stmatrix puts fragments where ldmatrix finds them, by rows or, with .trans, by columns. Register r of lane
 * l holds elements (l/4, l%4*2) and the next of matrix r; element (row, column) is 64 r + 8 row + column. */
static void stored_matrices_lie_in_rows_or_columns_and_load_back(void **state) {
  (void)state;
  static const char format[] = HEADER
      ".visible .entry k(.param .u64 pd)\n{\n.reg .b32 j, s, r<8>;\n.reg .b64 to;\n"
      ".shared .align 16 .b8 tile[1024];\nmov.u32 j, %%tid.x;\nmov.u32 s, tile;\n"
      "mul.lo.u32 r4, j, 2;\nadd.u32 r5, r4, 1;\nshl.b32 r5, r5, 16;\nor.b32 r0, r4, r5;\n"
      "add.u32 r1, r0, 0x00400040;\nadd.u32 r2, r1, 0x00400040;\nadd.u32 r3, r2, 0x00400040;\n"
      "and.b32 r4, j, 31;\nmad.lo.u32 s, r4, 16, s;\n"
      "stmatrix.sync.aligned.m8n8.x4%s.shared.b16 [s], {r0, r1, r2, r3};\nbar.sync 0;\n"
      "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {r4, r5}, [s];\n"
      "ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {r6}, [s];\n"
      "ld.param.u64 to, [pd];\nmad.wide.u32 to, j, 32, to;\nld.shared.v4.b32 {r0, r1, r2, r3}, [s];\n"
      "st.global.v4.b32 [to], {r0, r1, r2, r3};\nst.global.b32 [to+16], r4;\nst.global.b32 [to+20], r5;\n"
      "st.global.b32 [to+24], r6;\nret;\n}\n";
  for (uint16_t across = 0; across < 2; across++) {
    char ptx[2048];
    uint16_t out[32][16];
    snprintf(ptx, sizeof ptx, format, across ? ".trans" : "");
    CUdeviceptr d = emu_alloc(sizeof out);
    EMU_OK(emu_run(conform_kernel(ptx), 1, 32, 0, EMU_ARGS(&d)));
    emu_download(out, d, sizeof out);
    for (uint16_t lane = 0; lane < 32; lane++) {
      uint16_t matrix = lane / 8, line = lane % 8;
      for (uint16_t n = 0; n < 8; n++) /* the row of shared memory that this lane's address names */
        assert_int_equal(out[lane][n], 64 * matrix + (across ? 8 * n + line : 8 * line + n));
      for (uint16_t n = 0; n < 2; n++) {
        uint16_t row = lane / 4, column = (uint16_t)(lane % 4 * 2 + n);
        uint16_t plain = (uint16_t)(8 * row + column), turned = (uint16_t)(8 * column + row);
        assert_int_equal(out[lane][8 + n], across ? turned : plain);
        assert_int_equal(out[lane][10 + n], 64 + (across ? turned : plain));
        assert_int_equal(out[lane][12 + n], across ? plain : turned);
      }
    }
  }
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, emu_setup, emu_teardown)
  const struct CMUnitTest tests[] = {
      TEST(shuffles_in_all_modes_and_segments_follow_the_pseudo_code),
      TEST(votes_matches_and_reductions_of_any_members),
      TEST(atomics_of_every_type_store_what_the_operation_gives),
      TEST(asynchronous_copies_fill_with_zeros_behind_the_source_size),
      TEST(stored_matrices_lie_in_rows_or_columns_and_load_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
