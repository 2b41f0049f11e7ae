/* tests/unit/test_conform_async.c: conformance of work that goes on beside its thread, and of what waits for
 * it: cp.async at the edges of memory, mbarrier, bulk copies and reductions, the barrier of a cluster.
 *
 * Source: PTX ISA, sections "cp.async", "mbarrier", "cp.async.bulk", "barrier.cluster". Open: when between
 * its issue and its wait a copy happens; the emulated device takes the latest moment, and a test relies on
 * that to show that a missing wait shows.
 */
#include "tests/support/conform.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
// clang-format on
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Short names for instructions, as CUDA C++ functions. */
#define WRAPPERS                                                                                                                                                                                                                         \
  "typedef unsigned u32; typedef unsigned long long u64;\n"                                                                                                                                                                              \
  "#define DEV static __device__ __forceinline__\n"                                                                                                                                                                                      \
  "DEV u32 at(const void *p) { return (u32)__cvta_generic_to_shared(p); }\n"                                                                                                                                                             \
  "DEV void init(u64 *b, u32 n) { asm volatile(\"mbarrier.init.shared.b64 [%0], %1;\" :: \"r\"(at(b)), \"r\"(n) : \"memory\"); }\n"                                                                                                      \
  "DEV u64 arrive(u64 *b) { u64 s; asm volatile(\"mbarrier.arrive.shared.b64 %0, [%1];\" : \"=l\"(s) : \"r\"(at(b)) : \"memory\"); return s; }\n"                                                                                        \
  "DEV u64 arrive_n(u64 *b, u32 n) { u64 s; asm volatile(\"mbarrier.arrive.shared.b64 %0, [%1], %2;\" : \"=l\"(s) : \"r\"(at(b)), \"r\"(n) : \"memory\"); return s; }\n"                                                                 \
  "DEV void drop(u64 *b) { asm volatile(\"mbarrier.arrive_drop.shared::cta.b64 _, [%0];\" :: \"r\"(at(b)) : \"memory\"); }\n"                                                                                                            \
  "DEV void expect(u64 *b, u32 n) { asm volatile(\"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\" :: \"r\"(at(b)), \"r\"(n) : \"memory\"); }\n"                                                                                \
  "DEV bool test(u64 *b, u64 s) { u32 r; asm volatile(\"{.reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}\" : \"=r\"(r) : \"r\"(at(b)), \"l\"(s) : \"memory\"); return r; }\n"                            \
  "DEV bool over(u64 *b, u32 parity) { u32 r; asm volatile(\"{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}\" : \"=r\"(r) : \"r\"(at(b)), \"r\"(parity) : \"memory\"); return r; }\n"       \
  "DEV u32 pending(u64 s) { u32 r; asm volatile(\"mbarrier.pending_count.b64 %0, %1;\" : \"=r\"(r) : \"l\"(s)); return r; }\n"                                                                                                           \
  "DEV void load(void *d, const void *s, u32 n, u64 *b) { asm volatile(\"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];\" :: \"r\"(at(d)), \"l\"(s), \"r\"(n), \"r\"(at(b)) : \"memory\"); }\n" \
  "DEV void store(void *d, const void *s, u32 n) { asm volatile(\"cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\" :: \"l\"(d), \"r\"(at(s)), \"r\"(n) : \"memory\"); }\n"                                                  \
  "DEV void commit() { asm volatile(\"cp.async.bulk.commit_group;\" ::: \"memory\"); }\n"                                                                                                                                                \
  "DEV void drain() { asm volatile(\"cp.async.bulk.wait_group 0;\" ::: \"memory\"); }\n"

static CUfunction compile(const char *source) {
  return emu_function(emu_compile_for(source, "compute_90"), "k");
}

/* --- cp.async --- */

static const char partial_copy[] = WRAPPERS
    "extern \"C\" __global__ void k(const char *from, char *to, u32 bytes) {\n"
    "  __shared__ __align__(16) char tile[16];\n"
    "  asm volatile(\"cp.async.cg.shared.global [%0], [%1], 16, %2; cp.async.wait_all;\" :: \"r\"(at(tile)), \"l\"(from),\n"
    "    \"r\"(bytes) : \"memory\");\n"
    "  for (int n = 0; n < 16; n++) to[n] = tile[n];\n}\n";

/* The last 5 bytes of an allocation may be copied by 16, as only they are read. */
static void a_copy_looks_at_the_bytes_of_its_source_size_only(void **state) {
  (void)state;
  unsigned char in[53], out[16];
  for (int n = 0; n < 53; n++) in[n] = (unsigned char)(n + 1);
  CUfunction k = compile(partial_copy);
  CUdeviceptr from = emu_upload(in, sizeof in) + 48, to = emu_alloc(16);
  for (unsigned bytes = 0; bytes <= 5; bytes++) {
    EMU_OK(emu_run(k, 1, 1, 0, EMU_ARGS(&from, &to, &bytes)));
    emu_download(out, to, sizeof out);
    for (unsigned n = 0; n < 16; n++) assert_int_equal(out[n], n < bytes ? 49 + n : 0);
  }
  unsigned none = 0;
  CUdeviceptr nowhere = 16;
  EMU_OK(emu_run(k, 1, 1, 0, EMU_ARGS(&nowhere, &to, &none)));
  unsigned six = 6;
  EMU_RESULT(emu_run(k, 1, 1, 0, EMU_ARGS(&from, &to, &six)), CUDA_ERROR_ILLEGAL_ADDRESS);
  assert_non_null(strstr(emu_report(), "0 bytes past the end of an allocation of 53"));
}

static void a_partial_source_is_aligned_as_a_whole_one(void **state) {
  (void)state;
  unsigned bytes = 4;
  CUdeviceptr from = emu_alloc(64) + 8, to = emu_alloc(16);
  EMU_OK(cuMemsetD8_v2(from - 8, 1, 64));
  EMU_RESULT(emu_run(compile(partial_copy), 1, 1, 0, EMU_ARGS(&from, &to, &bytes)),
             CUDA_ERROR_MISALIGNED_ADDRESS);
  assert_non_null(strstr(emu_report(), "misaligned read of 16 bytes"));
}

static void a_copy_whose_source_is_ignored_fills_with_zeros(void **state) {
  (void)state;
  static const char source[] = WRAPPERS
      "extern \"C\" __global__ void k(const u32 *from, u32 *to) {\n"
      "  __shared__ u32 tile[64]; int t = threadIdx.x;\n"
      "  asm volatile(\"{.reg .pred p; setp.lt.u32 p, %2, 20; cp.async.ca.shared.global [%0], [%1], 4, p;\\n\"\n"
      "    \"cp.async.ca.shared.global [%0+128], [%1], 4, !p; cp.async.wait_all;}\" :: \"r\"(at(tile + t)), \"l\"(from + t),\n"
      "    \"r\"(t) : \"memory\");\n"
      "  to[t] = tile[t]; to[32 + t] = tile[32 + t];\n}\n";
  uint32_t in[32], out[64];
  for (uint32_t n = 0; n < 32; n++) in[n] = n + 100;
  CUdeviceptr from = emu_upload(in, sizeof in), to = emu_alloc(sizeof out);
  EMU_OK(emu_run(compile(source), 1, 32, 0, EMU_ARGS(&from, &to)));
  emu_download(out, to, sizeof out);
  for (uint32_t n = 0; n < 32; n++) {
    assert_int_equal(out[n], n < 20 ? 0 : n + 100);
    assert_int_equal(out[32 + n], n < 20 ? n + 100 : 0);
  }
}

/* --- mbarrier --- */

/* One thread does by itself what the ISA says of phases, arrivals and states, step by step. */
static void an_mbarrier_counts_arrivals_and_bytes_of_a_phase(void **state) {
  (void)state;
  static const char source[] = WRAPPERS
      "extern \"C\" __global__ void k(u32 *o) {\n"
      "  __shared__ u64 b; int n = 0;\n"
      "  init(&b, 3);\n"
      "  u64 s = arrive(&b); o[n++] = pending(s); o[n++] = test(&b, s); o[n++] = over(&b, 0); o[n++] = over(&b, 1);\n"
      "  u64 t = arrive_n(&b, 2); o[n++] = pending(t); o[n++] = test(&b, s); o[n++] = test(&b, t);\n"
      "  o[n++] = over(&b, 0); o[n++] = over(&b, 1);\n" /* phase 1 */
      "  drop(&b); s = arrive(&b); o[n++] = pending(s); arrive(&b); o[n++] = test(&b, s); o[n++] = over(&b, 1);\n"
      "  s = arrive(&b); o[n++] = pending(s); o[n++] = over(&b, 0); arrive(&b); o[n++] = over(&b, 0);\n" /* 2
                                                                                                            of
                                                                                                            2
                                                                                                          */
      "  expect(&b, 48); s = arrive(&b); o[n++] = test(&b, s);\n"
      "  asm volatile(\"mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], 32;\" :: \"r\"(at(&b)) : \"memory\");\n"
      "  o[n++] = test(&b, s);\n"
      "  asm volatile(\"mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], 16;\" :: \"r\"(at(&b)) : \"memory\");\n"
      "  o[n++] = test(&b, s);\n"
      "  asm volatile(\"mbarrier.inval.shared.b64 [%0];\" :: \"r\"(at(&b)) : \"memory\"); b = 5; o[n++] = (u32)b;\n}\n";
  static const uint32_t want[] = {
      3, 0, 0, 1, /* one of three arrived */
      2, 1, 1,    /* all did: phase 0 is over */
      1, 0,       /* and phase 1 is not */
      2, 1, 1,    /* a dropped arrival counts in its own phase */
      2, 0, 1,    /* but two are enough for the next; parity 0 is over with phase 2 */
      0, 0, 1,    /* bytes are waited for, too */
      5};
  uint32_t got[sizeof want / sizeof want[0]];
  CUdeviceptr out = emu_alloc(sizeof got);
  EMU_OK(emu_run(compile(source), 1, 1, 0, EMU_ARGS(&out)));
  emu_download(got, out, sizeof got);
  for (size_t n = 0; n < sizeof want / sizeof want[0]; n++)
    if (got[n] != want[n]) fail_msg("step %zu: %u, not %u", n, got[n], want[n]);
}

/* Producers and consumers hand a buffer to and fro, warps of one block and lanes of one warp alike; nothing
 * else orders them, and no checker complains. */
static void threads_that_wait_at_mbarriers_hand_data_over(void **state) {
  (void)state;
  static const char source[] =
      WRAPPERS "extern \"C\" __global__ void k(u32 *o, u32 producers, u32 rounds) {\n"
               "  __shared__ u64 full, empty; __shared__ u32 buffer[64];\n"
               "  u32 t = threadIdx.x, consumers = blockDim.x - producers;\n"
               "  if (t == 0) { init(&full, producers); init(&empty, consumers); }\n"
               "  __syncthreads();\n"
               "  if (t < producers) {\n"
               "    for (u32 r = 0; r < rounds; r++) {\n"
               "      if (r) while (!over(&empty, (r - 1) & 1)) ;\n"
               "      for (u32 n = t; n < 64; n += producers) buffer[n] = r * 64 + n;\n"
               "      arrive(&full);\n    }\n"
               "  } else {\n"
               "    u32 sum = 0;\n"
               "    for (u32 r = 0; r < rounds; r++) {\n"
               "      while (!over(&full, r & 1)) ;\n"
               "      for (u32 n = 0; n < 64; n++) sum = sum * 3 + buffer[n];\n"
               "      arrive(&empty);\n    }\n"
               "    o[t - producers] = sum;\n  }\n}\n";
  static const struct { unsigned threads, producers; } rows[] = {{64, 32}, {32, 7}, {96, 1}, {2, 1}};
  unsigned rounds = 5;
  CUfunction k = compile(source);
  uint32_t want = 0, got[128];
  EMU_OK(kilnEmuSetInstructionLimit(1u << 26)); /* a thread that starves ends the test */
  for (uint32_t n = 0; n < 64 * rounds; n++) want = want * 3 + n;
  for (size_t n = 0; n < sizeof rows / sizeof rows[0]; n++) {
    CUdeviceptr out = emu_alloc(sizeof got);
    unsigned producers = rows[n].producers;
    EMU_OK(emu_run(k, 1, rows[n].threads, 0, EMU_ARGS(&out, &producers, &rounds)));
    emu_download(got, out, (rows[n].threads - producers) * sizeof *got);
    for (unsigned t = 0; t < rows[n].threads - producers; t++) assert_int_equal(got[t], want);
  }
}

/* The barrier is told when the thread's copies have happened: with .noinc by an arrival that it counts on. */
static void copies_tell_an_mbarrier(void **state) {
  (void)state;
  static const char source[] = WRAPPERS
      "#define COPY asm volatile(\"cp.async.ca.shared.global [%0], [%1], 4;\" :: \"r\"(at(tile + t)), \"l\"(from + t) : \"memory\")\n"
      "extern \"C\" __global__ void k(const u32 *from, u32 *o, int noinc) {\n"
      "  __shared__ u64 b; __shared__ u32 tile[64]; u32 t = threadIdx.x;\n"
      "  tile[t] = 7; if (t == 0) init(&b, 64);\n  __syncthreads();\n  COPY;\n"
      "  if (noinc) asm volatile(\"cp.async.mbarrier.arrive.noinc.shared.b64 [%0];\" :: \"r\"(at(&b)) : \"memory\");\n"
      "  else { asm volatile(\"cp.async.mbarrier.arrive.shared.b64 [%0];\" :: \"r\"(at(&b)) : \"memory\"); arrive(&b); }\n"
      "  o[64 + t] = *(volatile u32 *)&tile[t];\n" /* too early: what was there before */
      "  while (!over(&b, 0)) ;\n  o[t] = tile[t ^ 1];\n}\n";
  uint32_t in[64], got[128];
  for (uint32_t n = 0; n < 64; n++) in[n] = n + 1000;
  CUdeviceptr from = emu_upload(in, sizeof in), out = emu_alloc(sizeof got);
  CUfunction k = compile(source);
  for (int noinc = 0; noinc < 2; noinc++) {
    EMU_OK(emu_run(k, 1, 64, 0, EMU_ARGS(&from, &out, &noinc)));
    emu_download(got, out, sizeof got);
    for (uint32_t n = 0; n < 64; n++) assert_int_equal(got[n], (n ^ 1) + 1000);
    assert_int_equal(got[64], 7);
  }
}

static void wrong_use_of_an_mbarrier_is_reported(void **state) {
  (void)state;
  static const char source[] =
      WRAPPERS "extern \"C\" __global__ void k(u64 *global, u32 which) {\n"
               "  __shared__ u64 b, c; b = 0;\n"
               "  if (which == 0) arrive(&b);\n"
               "  if (which == 1) { init(&c, 1); arrive_n(&c, 2); }\n"
               "  if (which == 2) asm volatile(\"mbarrier.inval.b64 [%0];\" :: \"l\"(global));\n}\n";
  CUfunction k = compile(source);
  CUdeviceptr global = emu_alloc(8);
  EMU_OK(cuMemsetD8_v2(global, 0, 8));
  for (unsigned which = 0; which < 2; which++) {
    EMU_OK(emu_run(k, 1, 1, 0, EMU_ARGS(&global, &which)));
    assert_non_null(strstr(emu_report(), which ? "2 arrivals at an mbarrier that waits for 1"
                                               : "this mbarrier has not been initialized"));
  }
  unsigned which = 2;
  EMU_RESULT(emu_run(k, 1, 1, 0, EMU_ARGS(&global, &which)), CUDA_ERROR_INVALID_ADDRESS_SPACE);
  assert_non_null(strstr(emu_report(), "an mbarrier that is not in shared memory"));
}

/* --- bulk copies --- */

#define BULK_WORDS 1024u

static void bulk_copies_bring_and_take_what_their_waits_wait_for(void **state) {
  (void)state;
  static const char source[] = WRAPPERS
      "extern \"C\" __global__ void k(const u32 *from, u32 *to, u32 *early) {\n"
      "  __shared__ __align__(16) u32 tile[1024]; __shared__ u64 b; u32 t = threadIdx.x;\n"
      "  for (u32 n = t; n < 1024; n += 64) tile[n] = 9;\n"
      "  if (t == 0) init(&b, 1);\n  __syncthreads();\n"
      "  if (t == 0) { expect(&b, 4096); load(tile, from, 1024, &b); load(tile + 256, from + 256, 3072, &b);\n"
      "    early[0] = *(volatile u32 *)tile; }\n"
      "  while (!over(&b, 0)) ;\n"
      "  for (u32 n = t; n < 1024; n += 64) tile[n] = tile[n] * 2 + 1;\n"
      "  asm volatile(\"fence.proxy.async.shared::cta;\" ::: \"memory\");\n  __syncthreads();\n"
      "  if (t == 0) { store(to, tile, 4096); commit(); early[1] = *(volatile u32 *)to; drain();\n"
      "    early[2] = *(volatile u32 *)to; store(to + 1024, tile, 16); }\n}\n"; /* an exit waits, too */
  static uint32_t in[BULK_WORDS], got[BULK_WORDS + 4];
  uint32_t early[3];
  for (uint32_t n = 0; n < BULK_WORDS; n++) in[n] = n * n;
  memset(got, 0xff, sizeof got);
  CUdeviceptr from = emu_upload(in, sizeof in), to = emu_upload(got, sizeof got),
              seen = emu_alloc(sizeof early);
  EMU_OK(emu_run(compile(source), 1, 64, 0, EMU_ARGS(&from, &to, &seen)));
  kiln_emu_counters_t c = emu_last_launch().counters;
  emu_download(got, to, sizeof got);
  emu_download(early, seen, sizeof early);
  for (uint32_t n = 0; n < BULK_WORDS; n++) assert_int_equal(got[n], n * n * 2 + 1);
  for (uint32_t n = 0; n < 4; n++) assert_int_equal(got[BULK_WORDS + n], n * n * 2 + 1);
  assert_int_equal(early[0], 9);
  assert_int_equal(early[1], 0xffffffff);
  assert_int_equal(early[2], 1);
  assert_int_equal(c.bytes_read, 4096 + 32);         /* and the sector that is read early */
  assert_int_equal(c.bytes_written, 4096 + 32 + 32); /* the 16 bytes behind, and `early` */
}

#define ROW(name, operation, bytes, expression) {operation, bytes, name},
#define FUNCTION(name, operation, bytes, expression)                                                         \
  static uint64_t name(uint64_t a, uint64_t b, uint64_t c) {                                                 \
    (void)c;                                                                                                 \
    return (uint64_t)(expression);                                                                           \
  }
#define LESS(T, a, b) ((T)(a) < (T)(b))
#define F(T, a, b) conform_value(#T, a) + conform_value(#T, b)
#define REDUCTIONS(X)                                                                                        \
  X(bulk_and, "and.b32", 4, a &b)                                                                            \
  X(bulk_or, "or.b64", 8, a | b)                                                                             \
  X(bulk_xor, "xor.b32", 4, a ^ b)                                                                           \
  X(bulk_add32, "add.u32", 4, (uint32_t)(a + b))                                                             \
  X(bulk_add64, "add.u64", 8, a + b)                                                                         \
  X(bulk_min, "min.s32", 4, LESS(int32_t, a, b) ? a : b)                                                     \
  X(bulk_max, "max.u64", 8, LESS(uint64_t, a, b) ? b : a)                                                    \
  X(bulk_inc, "inc.u32", 4, a >= b ? 0 : a + 1)                                                              \
  X(bulk_dec, "dec.u32", 4, a == 0 || a > b ? b : a - 1)                                                     \
  X(bulk_f64, "add.f64", 8, conform_f64_bits(F(f64, a, b)))                                                  \
  X(bulk_f16, "add.noftz.f16", 2, conform_round_f16(F(f16, a, b)))                                           \
  X(bulk_bf16, "add.noftz.bf16", 2, conform_round_bf16(F(bf16, a, b)))                                       \
  X(bulk_min16, "min.f16", 2,                                                                                \
    conform_value("f16", a) < conform_value("f16", b) || conform_value("f16", b) != conform_value("f16", b)  \
        ? a                                                                                                  \
        : b)
REDUCTIONS(FUNCTION)

/* cp.reduce.async.bulk with each operation: what the same atomics would do, element by element. */
static void bulk_reductions_combine_each_element(void **state) {
  (void)state;
  static const struct {
    const char *operation;
    uint32_t bytes; /* of an element */
    conform_expected_t expected;
  } rows[] = {REDUCTIONS(ROW)};
  enum { ROWS = sizeof rows / sizeof rows[0] };
  static unsigned char in[2048], sum[2048], got[2048];
  for (size_t n = 0; n < ROWS; n++) {
    char source[8192];
    snprintf(
        source, sizeof source,
        "%sextern \"C\" __global__ void k(const u64 *from, u64 *to) {\n"
        "  __shared__ __align__(16) u64 tile[256]; tile[threadIdx.x] = from[threadIdx.x];\n"
        "  __syncthreads();\n  if (threadIdx.x == 0) {\n"
        "    asm volatile(\"cp.reduce.async.bulk.global.shared::cta.bulk_group.%s [%%0], [%%1], 2048;\" ::\n"
        "      \"l\"(to), \"r\"(at(tile)) : \"memory\"); commit(); drain(); }\n}\n",
        WRAPPERS, rows[n].operation);
    bool halves = rows[n].bytes == 2;
    const char *type = strstr(rows[n].operation, "bf16")  ? "bf16"
                       : halves                           ? "f16"
                       : strstr(rows[n].operation, "f64") ? "f64"
                                                          : "u64";
    for (uint32_t e = 0; e < 2048 / rows[n].bytes; e++) {
      uint64_t a = conform_operand(type, e * 37 + 1, 1), b = conform_operand(type, e * 53 + 2, 1);
      if (conform_value("f16", a) != conform_value("f16", a) && halves) a = 0x3c00; /* payloads are open */
      memcpy(sum + e * rows[n].bytes, &a, rows[n].bytes);
      memcpy(in + e * rows[n].bytes, &b, rows[n].bytes);
    }
    CUdeviceptr from = emu_upload(in, sizeof in), to = emu_upload(sum, sizeof sum);
    EMU_OK(emu_run(compile(source), 1, 256, 0, EMU_ARGS(&from, &to)));
    emu_download(got, to, sizeof got);
    for (uint32_t e = 0; e < 2048 / rows[n].bytes; e++) {
      uint64_t a = 0, b = 0, r = 0;
      memcpy(&a, sum + e * rows[n].bytes, rows[n].bytes);
      memcpy(&b, in + e * rows[n].bytes, rows[n].bytes);
      memcpy(&r, got + e * rows[n].bytes, rows[n].bytes);
      uint64_t want = rows[n].expected(a, b, 0);
      bool both_nan =
          !strcmp(type, "f64") && conform_f64(r) != conform_f64(r) && conform_f64(want) != conform_f64(want);
      if (r != want && !both_nan)
        fail_msg("%s of %llx and %llx: %llx, not %llx", rows[n].operation, (unsigned long long)a,
                 (unsigned long long)b, (unsigned long long)r, (unsigned long long)want);
    }
  }
}

static void bulk_copies_of_odd_sizes_and_places_are_faults(void **state) {
  static const char source[] =
      WRAPPERS "extern \"C\" __global__ void k(const char *from, u32 bytes) {\n"
               "  __shared__ __align__(16) char tile[256]; __shared__ u64 b; init(&b, 1);\n"
               "  load(tile, from, bytes, &b); expect(&b, bytes); while (!over(&b, 0)) ;\n}\n";
  static const struct {
    unsigned offset, bytes;
    CUresult result;
    const char *report;
  } rows[] = {{0, 0, CUDA_SUCCESS, ""},
              {0, 128, CUDA_SUCCESS, ""},
              {0, 24, CUDA_ERROR_ILLEGAL_INSTRUCTION, "a bulk copy of 24 bytes"},
              {8, 16, CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned read"},
              {16, 128, CUDA_ERROR_ILLEGAL_ADDRESS, "past the end of an allocation of 128 bytes"},
              {0, 272, CUDA_ERROR_ILLEGAL_ADDRESS, "past the end of an allocation of 128 bytes"}};
  for (size_t n = 0; n < sizeof rows / sizeof rows[0]; n++) {
    CUcontext context;
    EMU_OK(cuCtxGetCurrent(&context));
    CUfunction k = compile(source);
    CUdeviceptr from = emu_alloc(128) + rows[n].offset;
    EMU_OK(cuMemsetD8_v2(from - rows[n].offset, 1, 128));
    unsigned bytes = rows[n].bytes;
    EMU_RESULT(emu_run(k, 1, 1, 0, EMU_ARGS(&from, &bytes)), rows[n].result);
    assert_non_null(strstr(emu_report(), rows[n].report));
    if (!rows[n].result) continue;
    EMU_OK(cuCtxDestroy_v2(context)); /* a fault sticks to it */
    EMU_OK(cuCtxCreate_v2(&context, 0, 0));
    *state = context;
  }
}

/* --- clusters of one block --- */

static void a_cluster_barrier_waits_for_all_threads_of_the_block(void **state) {
  (void)state;
  static const char source[] = WRAPPERS
      "extern \"C\" __global__ void k(u32 *o) {\n"
      "  __shared__ u32 row[128]; u32 t = threadIdx.x, rank, there, mine = at(&row[t]);\n"
      "  for (u32 round = 0; round < 3; round++) {\n"
      "    row[t] = t * (round + 1);\n"
      "    asm volatile(\"barrier.cluster.arrive.release.aligned;\\nbarrier.cluster.wait.acquire.aligned;\" ::: \"memory\");\n"
      "    u32 next = row[(t + 33) % 128];\n"
      "    asm volatile(\"barrier.cluster.arrive;\\nbarrier.cluster.wait;\" ::: \"memory\");\n"
      "    o[round * 128 + t] = next;\n  }\n"
      "  asm(\"getctarank.shared::cluster.u32 %0, %1;\" : \"=r\"(rank) : \"r\"(mine));\n"
      "  asm(\"mapa.shared::cluster.u32 %0, %1, 0;\" : \"=r\"(there) : \"r\"(mine));\n"
      "  o[384 + t] = rank + (there - mine);\n}\n";
  uint32_t got[512];
  CUdeviceptr out = emu_alloc(sizeof got);
  EMU_OK(emu_run(compile(source), 1, 128, 0, EMU_ARGS(&out)));
  emu_download(got, out, sizeof got);
  for (uint32_t n = 0; n < 512; n++) assert_int_equal(got[n], n < 384 ? (n + 33) % 128 * (n / 128 + 1) : 0);
}

/* A kernel's parameters have generic addresses: __grid_constant__ ones are passed on by pointer. */
static void parameters_are_reached_through_generic_pointers(void **state) {
  (void)state;
  static const char source[] =
      "struct table { int values[16]; };\n"
      "__device__ __noinline__ int pick(const int *values, int n) { return values[n]; }\n"
      "extern \"C\" __global__ void k(const __grid_constant__ table t, const int *other, int *o) {\n"
      "  int n = threadIdx.x; o[n] = pick(n & 1 ? t.values : other, n & 15);\n"
      "  unsigned inside; asm(\"{.reg .pred p; isspacep.param p, %1; selp.u32 %0, 1, 0, p;}\" : \"=r\"(inside) : \"l\"(t.values));\n"
      "  o[32 + n] = inside + __isGlobal(t.values) + __isGlobal(other);\n}\n";
  int table[16], other[16], got[64];
  for (int n = 0; n < 16; n++) table[n] = n * n, other[n] = -n;
  CUdeviceptr at = emu_upload(other, sizeof other), out = emu_alloc(sizeof got);
  EMU_OK(emu_run(compile(source), 1, 32, 0, EMU_ARGS(table, &at, &out)));
  emu_download(got, out, sizeof got);
  for (int n = 0; n < 32; n++) {
    assert_int_equal(got[n], n & 1 ? (n & 15) * (n & 15) : -(n & 15));
    assert_int_equal(got[32 + n], 3); /* the ISA: the parameters' window lies within that of global memory */
  }
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, emu_setup, emu_teardown)
  const struct CMUnitTest tests[] = {
      TEST(a_copy_looks_at_the_bytes_of_its_source_size_only),
      TEST(a_partial_source_is_aligned_as_a_whole_one),
      TEST(a_copy_whose_source_is_ignored_fills_with_zeros),
      TEST(an_mbarrier_counts_arrivals_and_bytes_of_a_phase),
      TEST(threads_that_wait_at_mbarriers_hand_data_over),
      TEST(copies_tell_an_mbarrier),
      TEST(wrong_use_of_an_mbarrier_is_reported),
      TEST(bulk_copies_bring_and_take_what_their_waits_wait_for),
      TEST(bulk_reductions_combine_each_element),
      TEST(bulk_copies_of_odd_sizes_and_places_are_faults),
      TEST(a_cluster_barrier_waits_for_all_threads_of_the_block),
      TEST(parameters_are_reached_through_generic_pointers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
