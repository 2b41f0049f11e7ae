/* tests/unit/test_codegen_contraction.c: contractions on the emulated device against the reference evaluator.
 *
 * Every dtype, op, operand layout and awkward size: the graphs of a test are compiled together and run with
 * all checkers on. What the kernels cost is counted: tensor-core instructions against the padded tile grid,
 * shared memory without a bank conflict, bytes against what the tiling needs.
 * Labels: device */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/batch.h"
#include "tests/support/graphs.h"
#include "tests/support/random_graph.h"

static const kiln_options_t plain = {0}, tf32 = {.allow_tf32 = true};
static const kiln_symbol_class_t no_symbols = {{1, 1, 1, 1, 1, 1, 1, 1}, false};
static const kiln_pass_run_t no_passes = {.list = ""};

/* Each graph, in one batch, gives the reference's values. */
static void check_all_with(const kiln_options_t *options, const char *const *texts, size_t count,
                           const char *arch, const int64_t *symbols) {
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  kiln_batch_t *batch = kiln_batch_create(&arena, arch);
  for (size_t i = 0; i < count; i++)
    kiln_batch_add(batch, graph_from(&arena, texts[i]), options, &no_symbols, &no_passes);
  kiln_batch_compile(batch);
  for (uint32_t i = 0; i < count; i++) {
    const kiln_pipeline_t *pipeline = kiln_batch_pipeline(batch, i);
    const kiln_graph_t *graph = pipeline->input;
    bool rounds = strstr(pipeline->kernels[0].source, ".tf32") != NULL;
    if (rounds != options->allow_tf32) fail_msg("tf32 or not: %s", texts[i]);
    kiln_tensor_t *inputs = KILN_NEW_ARRAY(&arena, kiln_tensor_t, graph->input_count);
    kiln_random_inputs(&arena, graph, i + 1, symbols, inputs);
    kiln_batch_check(batch, i, symbols, inputs, texts[i]);
  }
  kiln_batch_destroy(batch);
  kiln_arena_deinit(&arena);
}

static void check_all(const char *const *texts, size_t count, const char *arch, const int64_t *symbols) {
  check_all_with(&plain, texts, count, arch, symbols);
}

#define CHECK_ALL(texts, arch, symbols) check_all(texts, sizeof(texts) / sizeof *(texts), arch, symbols)

/* --- values -------------------------------------------------------------------------------------------- */

static void every_dtype_in_every_orientation(void **state) {
  (void)state;
  static const char *const dtypes[] = {"f16", "bf16", "f32", "f64", "i8", "u8", "i32", "i64"};
  const char *texts[2 * 8];
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  for (int i = 0; i < 8; i++) {
    const char *d = dtypes[i];
    texts[2 * i] = kiln_arena_printf(
        &arena, "graph g(%%a: %s[37,40], %%b: %s[24,40]) { %%y = gemm_rcr(%%a, %%b) return %%y }", d, d);
    texts[2 * i + 1] = kiln_arena_printf(
        &arena,
        "graph g(%%a: %s[37,72] strides [1,40], %%b: %s[72,48]) { %%y = matmul(%%a, %%b) return %%y }", d, d);
  }
  CHECK_ALL(texts, "sm_90", NULL);
  kiln_arena_deinit(&arena);
}

static void every_form_with_its_epilogue(void **state) {
  (void)state;
  static const char *const texts[] = {
      "graph g(%a: f16[2,9,33], %b: f16[21,33], %c: f16[21]) { %y = gemm_rcr_bias(%a, %b, %c) {alpha=0.5} return %y }",
      "graph g(%a: bf16[9,34], %b: bf16[21,34], %c: bf16[21]) { %y = gemm_rcr_bias_relu(%a, %b, %c) return %y }",
      "graph g(%a: f32[9,34], %b: f32[21,34], %c: f32[21]) { %y = gemm_rcr_bias_sigmoid(%a, %b, %c) {alpha=-1} return %y }",
      "graph g(%a: i8[9,70], %b: i8[21,70], %c: i8[21]) { %y = gemm_rcr_bias_relu(%a, %b, %c) {alpha=-3} return %y }",
      "graph g(%a: i8[9,70], %b: i8[21,70]) { %y = gemm_rcr(%a, %b) {out=i32, alpha=1000} return %y }",
      "graph g(%a: i64[9,7], %b: i64[21,7]) { %y = gemm_rcr(%a, %b) {alpha=9007199254740992} return %y }",
      "graph g(%a: f16[9,40], %b: f16[21,40]) { %y = gemm_rcr(%a, %b) {out=f32} return %y }",
      "graph g(%a: f64[9,40], %b: f64[21,40], %c: f64[21]) { %y = gemm_rcr_bias_sigmoid(%a, %b, %c) {out=f16} return %y }",
      "graph g(%a: f32[9,40], %b: f32[21,40]) { %y = gemm_rcr(%a, %b) {out=bf16} return %y }",
  };
  CHECK_ALL(texts, "sm_80", NULL);
}

static void sizes_of_nothing_one_and_primes(void **state) {
  (void)state;
  static const char *const texts[] = {
      "graph g(%a: f16[3,0], %b: f16[5,0], %c: f16[5]) { %y = gemm_rcr_bias_sigmoid(%a, %b, %c) return %y }",
      "graph g(%a: i32[3,0], %b: i32[0,5]) { %y = matmul(%a, %b) return %y }",
      "graph g(%a: f16[1,1], %b: f16[1,1]) { %y = matmul(%a, %b) return %y }",
      "graph g(%a: f32[7], %b: f32[7]) { %y = matmul(%a, %b) return %y }",
      "graph g(%a: f16[7], %b: f16[7,13]) { %y = matmul(%a, %b) return %y }",
      "graph g(%a: bf16[2,5,7], %b: bf16[7]) { %y = matmul(%a, %b) return %y }",
      "graph g(%a: f16[131,67], %b: f16[67,137]) { %y = matmul(%a, %b) return %y }",
      "graph g(%a: f64[17,1], %b: f64[1,19]) { %y = matmul(%a, %b) return %y }",
      "graph g(%a: u8[17,3], %b: u8[3,1]) { %y = matmul(%a, %b) return %y }",
  };
  CHECK_ALL(texts, "sm_90", NULL);
}

static void batches_are_broadcast(void **state) {
  (void)state;
  static const char *const texts[] = {
      "graph g(%a: f16[3,1,17,24], %b: f16[2,24,16]) { %y = matmul(%a, %b) return %y }",
      "graph g(%a: f32[5,24], %b: f32[4,2,24,6]) { %y = matmul(%a, %b) return %y }",
      "graph g(%a: bf16[24], %b: bf16[4,24,6]) { %y = matmul(%a, %b) return %y }",
      "graph g(%a: i32[2,1,3,1,4,5], %b: i32[1,2,1,3,5,6]) { %y = matmul(%a, %b) return %y }",
  };
  CHECK_ALL(texts, "sm_90", NULL);
}

static void operands_lie_as_strides_and_alignment_say(void **state) {
  (void)state;
  static const char *const texts[] = {
      "graph g(%a: f16[40,48] strides [96,2], %b: f16[40,48] strides [1,40]) { %y = gemm_rcr(%a, %b) return %y }",
      "graph g(%a: f16[40,48] align 2, %b: f16[40,48] align 4) { %y = gemm_rcr(%a, %b) return %y }",
      "graph g(%a: f16[40,44] align 8, %b: f16[44,42]) { %y = matmul(%a, %b) return %y strides [1,64] }",
      "graph g(%a: f32[40,48] strides [0,1], %b: f32[40,48] strides [1,0]) { %y = gemm_rcr(%a, %b) return %y }",
      "graph g(%a: i8[40,48] strides [50,1], %b: i8[48,40]) { %y = matmul(%a, %b) return %y strides [41,1] }",
      "graph g(%a: bf16[2,3,16,32] strides [1536,32,96,1], %b: bf16[2,3,32,8] strides [768,8,24,1]) { %y = matmul(%a, %b) return %y strides [384,8,24,1] }",
  };
  CHECK_ALL(texts, "sm_80", NULL);
}

static void sizes_come_with_the_execution(void **state) {
  (void)state;
  const int64_t symbols[KILN_MAX_SYMBOLS] = {21, 3, 35};
  static const char *const texts[] = {
      "graph g[T,B,K](%a: f16[B,T,K], %b: f16[B,K,T]) { %y = matmul(%a, %b) return %y }",
      "graph g[T,B,K](%a: f32[B,T,64], %b: f32[96,64], %c: f32[96]) {%y = gemm_rcr_bias(%a, %b, %c) return %y}",
      "graph g[T,B,K](%a: bf16[T,32*K], %b: bf16[K,32*K]) { %y = gemm_rcr(%a, %b) return %y }",
  };
  CHECK_ALL(texts, "sm_90", symbols);
}

static void a_matrix_times_a_vector_in_every_layout(void **state) {
  (void)state;
  const int64_t symbols[KILN_MAX_SYMBOLS] = {90, 50};
  static const char *const texts[] = {
      "graph g[K,N](%a: f16[1,512], %b: f16[1000,512]) { %y = gemm_rcr(%a, %b) return %y }",
      "graph g[K,N](%a: f16[1,512], %b: f16[512,1000], %c: f16[1000]) { %y = matmul(%a, %b) %z = add(%y, %c) return %z }",
      "graph g[K,N](%a: f32[300,77], %b: f32[77]) { %y = matmul(%a, %b) return %y }",
      "graph g[K,N](%a: bf16[3,300,80], %b: bf16[80,1]) { %y = matmul(%a, %b) return %y }",
      "graph g[K,N](%a: f64[1300], %b: f64[1300]) { %y = matmul(%a, %b) return %y }",
      "graph g[K,N](%a: i8[1,70], %b: i8[40,70], %c: i8[40]) { %y = gemm_rcr_bias_relu(%a, %b, %c) return %y }",
      "graph g[K,N](%a: i64[1,70], %b: i64[70,40]) { %y = matmul(%a, %b) return %y }",
      "graph g[K,N](%a: f16[5,1,K], %b: f16[5,K,N]) { %y = matmul(%a, %b) return %y }",
      "graph g[K,N](%a: f16[1,K], %b: i8[N,K]) { %w = cast(%b) {dtype=f16} %y = gemm_rcr(%a, %w) return %y }",
      "graph g[K,N](%a: f32[300,9000] strides [1,300], %b: f32[9000]) { %y = matmul(%a, %b) return %y }",
      "graph g[K,N](%a: f16[1,9000], %b: f16[3,9000]) { %y = gemm_rcr(%a, %b) {out=f32} return %y }",
  };
  CHECK_ALL(texts, "sm_80", symbols);
}

static void many_small_products(void **state) {
  (void)state;
  const int64_t symbols[KILN_MAX_SYMBOLS] = {70};
  static const char *const texts[] = {
      "graph g[B](%a: f32[1000,3,5], %b: f32[1000,5,4]) { %y = matmul(%a, %b) return %y }",
      "graph g[B](%a: i8[B,7,33], %b: i8[B,33,2]) { %y = matmul(%a, %b) return %y }",
      "graph g[B](%a: bf16[B,1,8], %b: bf16[6,8], %c: bf16[6]) { %y = gemm_rcr_bias_relu(%a, %b, %c) return %y }",
      "graph g[B](%a: f64[1,3], %b: f64[3,1]) { %y = matmul(%a, %b) {out=f16} %z = exp(%y) return %z }",
  };
  CHECK_ALL(texts, "sm_90", symbols);
}

/* Casts, scales, pads, gathered rows on the way in; activations, residuals, renamed elements on the way out.
 */
static void what_comes_before_and_after_is_part_of_the_kernel(void **state) {
  (void)state;
  static const char *const texts[] = {
      "graph g(%a: f16[70,64], %b: f16[40,64], %r: f16[70,40]) { %y = gemm_rcr(%a, %b) %s = silu(%y) %z = add(%s, %r) return %z }",
      "graph g(%a: f16[2,35,64], %b: f16[64,48]) { %y = matmul(%a, %b) %v = reshape(%y) {shape=[2,35,6,8]} %p = permute(%v) {dims=[0,2,1,3]} %q = cast(%p) {dtype=f32} %z = mul(%q, %q) return %z, %y }",
      "graph g(%a: i8[70,64], %s: f16[70,1], %b: f16[40,64]) { %f = cast(%a) {dtype=f16} %d = mul(%f, %s) %y = gemm_rcr(%d, %b) %z = relu(%y) return %z }",
      "graph g(%t: f32[50,32], %i: i64[21], %b: f32[32,20]) { %e = embedding(%t, %i) %y = matmul(%e, %b) %z = tanh(%y) return %z }",
      "graph g(%a: f16[17,20], %c: f16[17,12], %b: f16[32,24]) { %x = cat(%a, %c) {dim=1} %p = pad(%x) {low=[0,0], high=[3,0]} %y = matmul(%p, %b) return %y }",
  };
  CHECK_ALL(texts, "sm_80", NULL);
}

/* A chain of more than 1024 products would be less accurate than docs/numerics.md promises. */
static void long_sums_are_taken_in_levels(void **state) {
  (void)state;
  static const char *const texts[] = {
      "graph g(%a: f32[3,5000], %b: f32[5,5000]) { %y = gemm_rcr(%a, %b) return %y }",
      "graph g(%a: f64[3,1500], %b: f64[5,1500]) { %y = gemm_rcr(%a, %b) return %y }",
      "graph g(%a: f16[3,5000], %b: f16[5,5000]) { %y = gemm_rcr(%a, %b) {out=f32} return %y }",
  };
  CHECK_ALL(texts, "sm_90", NULL);
}

/* --- tf32 ----------------------------------------------------------------------------------------------- */

/* Both operands along k and along their rows, of any alignment; long K; what follows. Bounds allow for 10
 * bits of an operand's fraction, and for none where it has no more. */
static void f32_is_rounded_to_tf32_where_the_request_allows_it(void **state) {
  (void)state;
  static const char *const texts[] = {
      "graph g(%a: f32[128,96], %b: f32[96,96]) { %y = gemm_rcr(%a, %b) return %y }",
      "graph g(%a: f32[67,101], %b: f32[101,35]) { %y = matmul(%a, %b) return %y }",
      "graph g(%a: f32[96,192] strides [1,96], %b: f32[192,96]) { %y = matmul(%a, %b) return %y }",
      "graph g(%a: f32[2,33,2049], %b: f32[2,2049,40], %c: f32[40]) { %y = matmul(%a, %b) %z = add(%y, %c) %r = relu(%z) return %r }",
      "graph g(%a: f32[3,70], %b: f32[24,70], %c: f32[24]) { %y = gemm_rcr_bias_sigmoid(%a, %b, %c) return %y }",
  };
  check_all_with(&tf32, texts, sizeof texts / sizeof *texts, "sm_80", NULL);
}

/* a = 1 + 2^-11 lies between two numbers of tf32: ties go away from zero, so a * 1 is 1 + 2^-10. */
static void operands_are_rounded_to_the_nearest_and_ties_away_from_zero(void **state) {
  (void)state;
  const char *text = "graph g(%a: f32[16,16], %b: f32[32,16]) { %y = gemm_rcr(%a, %b) return %y }";
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  kiln_batch_t *batch = kiln_batch_create(&arena, "sm_80");
  kiln_batch_add(batch, graph_from(&arena, text), &tf32, &no_symbols, &no_passes);
  kiln_batch_compile(batch);
  kiln_tensor_t inputs[2], y;
  assert_null(kiln_tensor_create(&arena, KILN_DTYPE_f32, 2, (int64_t[]){16, 16}, &inputs[0]));
  assert_null(kiln_tensor_create(&arena, KILN_DTYPE_f32, 2, (int64_t[]){32, 16}, &inputs[1]));
  for (int i = 0; i < 16; i++) ((float *)inputs[0].data)[16 * i + i] = (i % 2 ? -1 : 1) * (1 + 0x1p-11f);
  for (int i = 0; i < 32; i++) ((float *)inputs[1].data)[16 * i + i % 16] = 1;
  kiln_batch_run(batch, 0, NULL, inputs, &y);
  for (int i = 0; i < 16; i++)
    assert_true(((float *)y.data)[32 * i + i] == (i % 2 ? -1 : 1) * (1 + 0x1p-10f));
  kiln_batch_destroy(batch);
  kiln_arena_deinit(&arena);
}

/* --- costs --------------------------------------------------------------------------------------------- */

/* The tile, as the kernel's comment tells it. */
typedef struct {
  unsigned m, n, k, warps_m, warps_n;
} tile_t;

static tile_t tile_of(const kiln_batch_t *batch, uint32_t number) {
  const char *source = kiln_batch_pipeline(batch, number)->kernels[0].source;
  const char *tile = strstr(source, "A block makes "), *warps = strstr(source, " warps, each ");
  tile_t out = {0};
  assert_non_null(tile);
  assert_int_equal(sscanf(tile, "A block makes %u x %u results, %u of K", &out.m, &out.n, &out.k), 3);
  if (!warps) return out;
  while (warps[-1] != '/') warps--;
  assert_int_equal(sscanf(warps, " %u x %u warps", &out.warps_m, &out.warps_n), 2);
  return out;
}

static uint64_t parts_of(const kiln_batch_t *batch, uint32_t number) {
  unsigned parts = 1;
  const char *told = strstr(kiln_batch_pipeline(batch, number)->kernels[0].source, "K has ");
  if (told) assert_int_equal(sscanf(told, "K has %u parts", &parts), 1);
  return parts;
}

typedef struct {
  kiln_arena_t arena;
  kiln_batch_t *batch;
  kiln_tensor_t *inputs[8];
} counted_t;

static void count_begin_with(counted_t *counted, const kiln_options_t *options, const char *const *texts,
                             size_t count) {
  kiln_arena_init(&counted->arena, 0);
  counted->batch = kiln_batch_create(&counted->arena, "sm_90");
  for (size_t i = 0; i < count; i++) {
    const kiln_graph_t *graph = graph_from(&counted->arena, texts[i]);
    kiln_batch_add(counted->batch, graph, options, &no_symbols, &no_passes);
    counted->inputs[i] = KILN_NEW_ARRAY(&counted->arena, kiln_tensor_t, graph->input_count);
    kiln_random_inputs(&counted->arena, graph, 1, NULL, counted->inputs[i]);
  }
  kiln_batch_compile(counted->batch);
}

static void count_begin(counted_t *counted, const char *const *texts, size_t count) {
  count_begin_with(counted, &plain, texts, count);
}

static void count_end(counted_t *counted) {
  kiln_batch_destroy(counted->batch);
  kiln_arena_deinit(&counted->arena);
}

static uint64_t count(counted_t *counted, uint32_t number, const char *name) {
  return kiln_batch_counter(counted->batch, number, NULL, counted->inputs[number], name);
}

static uint64_t tiles(uint64_t extent, unsigned size) { return (extent + size - 1) / size; }

static void tensor_cores_multiply_no_more_than_the_padded_tiles(void **state) {
  (void)state;
  static const uint64_t sizes[][3] = {{128, 128, 128}, {100, 70, 90}, {257, 129, 65}, {20, 30, 8200}};
  static const char *const texts[] = {
      "graph g(%a: f16[128,128], %b: f16[128,128]) { %y = gemm_rcr(%a, %b) return %y }",
      "graph g(%a: bf16[100,90], %b: bf16[90,70]) { %y = matmul(%a, %b) return %y }",
      "graph g(%a: f16[257,65], %b: f16[129,65]) { %y = gemm_rcr(%a, %b) return %y }",
      "graph g(%a: f16[20,8200], %b: f16[30,8200]) { %y = gemm_rcr(%a, %b) return %y }",
  };
  counted_t counted;
  count_begin(&counted, texts, 4);
  assert_non_null(strstr(kiln_batch_pipeline(counted.batch, 3)->kernels[0].source, "K has "));
  for (uint32_t i = 0; i < 4; i++) {
    tile_t tile = tile_of(counted.batch, i);
    uint64_t blocks = tiles(sizes[i][0], tile.m) * tiles(sizes[i][1], tile.n);
    uint64_t products = blocks * tile.m * tile.n * tiles(sizes[i][2], tile.k) * tile.k;
    assert_int_equal(count(&counted, i, "tensor_operations"), products);
  }
  count_end(&counted);
}

static void tf32_multiplies_no_more_than_the_padded_tiles(void **state) {
  (void)state;
  static const uint64_t sizes[][3] = {{128, 128, 64}, {67, 35, 101}};
  static const char *const texts[] = {
      "graph g(%a: f32[128,64], %b: f32[128,64]) { %y = gemm_rcr(%a, %b) return %y }",
      "graph g(%a: f32[67,101], %b: f32[101,35]) { %y = matmul(%a, %b) return %y }",
  };
  counted_t counted;
  count_begin_with(&counted, &tf32, texts, 2);
  for (uint32_t i = 0; i < 2; i++) {
    tile_t tile = tile_of(counted.batch, i);
    uint64_t blocks = tiles(sizes[i][0], tile.m) * tiles(sizes[i][1], tile.n);
    assert_int_equal(count(&counted, i, "tensor_operations"),
                     blocks * tile.m * tile.n * tiles(sizes[i][2], tile.k) * tile.k);
  }
  count_end(&counted);
}

/* Passes of the banks that one step of K needs: 128 bytes each, for what is copied in and what every warp
 * (or, in plain arithmetic, every thread: 16 x 16 of them, 16 bytes along k of each of its rows and columns)
 * reads. */
static uint64_t fewest_wavefronts(const tile_t *tile) {
  uint64_t copies = (tile->m + tile->n) * 64 / 128;
  if (!tile->warps_m) return copies + 8 * 4 * 4 * (tile->m / 16 + tile->n / 16);
  uint64_t matrices = tile->m / tile->warps_m / 16 + tile->n / tile->warps_n / 16;
  return copies + (uint64_t)tile->warps_m * tile->warps_n * (tile->k / 16) * matrices * 4;
}

/* For tf32: f32 has half as many of K in 64 bytes, and in a product. */
static void the_loop_over_k_of_tf32_has_no_bank_conflict(void **state) {
  (void)state;
  static const char *const texts[] = {
      "graph g(%a: f32[128,64], %b: f32[128,64]) { %y = gemm_rcr(%a, %b) return %y }",
      "graph g(%a: f32[128,80], %b: f32[128,80]) { %y = gemm_rcr(%a, %b) return %y }",
      "graph g(%a: f32[128,64] strides [1,128], %b: f32[64,128]) { %y = matmul(%a, %b) return %y }",
      "graph g(%a: f32[128,80] strides [1,128], %b: f32[80,128]) { %y = matmul(%a, %b) return %y }",
      "graph g(%a: f32[1024,64] strides [1,1024], %b: f32[64,1024]) { %y = matmul(%a, %b) return %y }",
      "graph g(%a: f32[1024,80] strides [1,1024], %b: f32[80,1024]) { %y = matmul(%a, %b) return %y }",
  };
  const uint64_t sizes[] = {128, 128, 1024};
  counted_t counted;
  count_begin_with(&counted, &tf32, texts, 6);
  for (uint32_t i = 0; i < 6; i += 2) {
    tile_t tile = tile_of(counted.batch, i);
    uint64_t blocks = tiles(sizes[i / 2], tile.m) * tiles(sizes[i / 2], tile.n);
    uint64_t added = count(&counted, i + 1, "shared_wavefronts") - count(&counted, i, "shared_wavefronts");
    tile.k *= 2;
    assert_int_equal(added, blocks * fewest_wavefronts(&tile));
  }
  count_end(&counted);
}

/* The same kernel with one step of K more: what that adds is what the loop does. */
static void the_loop_over_k_has_no_bank_conflict(void **state) {
  (void)state;
  static const char *const texts[] = {
      "graph g(%a: f16[256,64], %b: f16[128,64]) { %y = gemm_rcr(%a, %b) return %y }",
      "graph g(%a: f16[256,96], %b: f16[128,96]) { %y = gemm_rcr(%a, %b) return %y }",
      "graph g(%a: f16[256,64] strides [1,256], %b: f16[64,128]) { %y = matmul(%a, %b) return %y }",
      "graph g(%a: f16[256,96] strides [1,256], %b: f16[96,128]) { %y = matmul(%a, %b) return %y }",
      "graph g(%a: f32[128,64], %b: f32[128,64]) { %y = gemm_rcr(%a, %b) return %y }",
      "graph g(%a: f32[128,80], %b: f32[128,80]) { %y = gemm_rcr(%a, %b) return %y }",
      "graph g(%a: f32[128,64] strides [1,128], %b: f32[64,128]) { %y = matmul(%a, %b) return %y }",
      "graph g(%a: f32[128,80] strides [1,128], %b: f32[80,128]) { %y = matmul(%a, %b) return %y }",
  };
  const uint64_t sizes[][2] = {{256, 128}, {256, 128}, {128, 128}, {128, 128}};
  counted_t counted;
  count_begin(&counted, texts, 8);
  for (uint32_t i = 0; i < 8; i += 2) {
    tile_t tile = tile_of(counted.batch, i);
    uint64_t blocks = tiles(sizes[i / 2][0], tile.m) * tiles(sizes[i / 2][1], tile.n);
    uint64_t added = count(&counted, i + 1, "shared_wavefronts") - count(&counted, i, "shared_wavefronts");
    assert_int_equal(added, blocks * fewest_wavefronts(&tile));
  }
  count_end(&counted);
}

static void a_tile_reads_its_rows_and_columns_once(void **state) {
  (void)state;
  static const char *const texts[] = {
      "graph g(%a: f16[256,96], %b: f16[128,96]) { %y = gemm_rcr(%a, %b) return %y }",
      "graph g(%a: f32[96,192] strides [1,96], %b: f32[192,96]) { %y = matmul(%a, %b) return %y }",
      "graph g(%a: f16[1,1024], %b: f16[1000,1024]) { %y = gemm_rcr(%a, %b) return %y }",
      "graph g(%a: f16[1,1024], %b: f16[1024,1024]) { %y = matmul(%a, %b) return %y }",
      "graph g(%a: f16[20,8200], %b: f16[30,8200]) { %y = gemm_rcr(%a, %b) return %y }",
      "graph g(%a: f16[1,40000], %b: f16[8,40000]) { %y = gemm_rcr(%a, %b) return %y }",
  };
  const uint64_t sizes[][4] = {{256, 128, 96, 2}, {96, 96, 192, 4}}; /* m, n, k, bytes */
  counted_t counted;
  count_begin(&counted, texts, 6);
  for (uint32_t i = 0; i < 2; i++) {
    const uint64_t *size = sizes[i];
    tile_t tile = tile_of(counted.batch, i);
    uint64_t a = size[0] * size[2] * size[3] * tiles(size[1], tile.n),
             b = size[1] * size[2] * size[3] * tiles(size[0], tile.m), y = size[0] * size[1] * size[3];
    assert_true((double)count(&counted, i, "bytes_moved") <= 1.1 * (double)(a + b + y));
  }
  /* A matrix times a vector: the matrix once. */
  assert_true((double)count(&counted, 2, "bytes_moved") <= 1.05 * (1000 * 1024 * 2));
  assert_true((double)count(&counted, 3, "bytes_moved") <= 1.05 * (1024 * 1024 * 2));
  /* Parts of K leave their sums in f32 and read them once. */
  tile_t tile = tile_of(counted.batch, 4);
  uint64_t grid_m = tiles(20, tile.m), grid_n = tiles(30, tile.n), parts = parts_of(counted.batch, 4);
  uint64_t operands = (20 * grid_n + 30 * grid_m) * 8200 * 2,
           sums = grid_m * grid_n * tile.m * tile.n * 4 * parts;
  assert_true(parts > 1);
  assert_true((double)count(&counted, 4, "bytes_moved") <= 1.1 * (double)(operands + 20 * 30 * 2 + 2 * sums));
  assert_true(parts_of(counted.batch, 5) > 1);
  assert_true((double)count(&counted, 5, "bytes_moved") <= 1.05 * (8 * 40000 * 2 + 8 * 40000 * 2));
  count_end(&counted);
}

static void results_are_stored_in_whole_sectors_whichever_way_they_lie(void **state) {
  (void)state;
  static const char *const texts[] = {
      "graph g(%a: f16[96,64], %b: f16[64,96]) { %y = matmul(%a, %b) return %y }",
      "graph g(%a: f16[96,64], %b: f16[64,96]) { %y = matmul(%a, %b) return %y strides [1,96] }",
  };
  counted_t counted;
  count_begin(&counted, texts, 2);
  for (uint32_t i = 0; i < 2; i++) {
    assert_int_equal(count(&counted, i, "global_store_sectors"), 96 * 96 * 2 / 32);
    assert_int_equal(count(&counted, i, "global_store_requests"), 96 * 96 * 2 / (32 * 16));
  }
  count_end(&counted);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_dtype_in_every_orientation),
      cmocka_unit_test(every_form_with_its_epilogue),
      cmocka_unit_test(sizes_of_nothing_one_and_primes),
      cmocka_unit_test(batches_are_broadcast),
      cmocka_unit_test(operands_lie_as_strides_and_alignment_say),
      cmocka_unit_test(sizes_come_with_the_execution),
      cmocka_unit_test(a_matrix_times_a_vector_in_every_layout),
      cmocka_unit_test(many_small_products),
      cmocka_unit_test(what_comes_before_and_after_is_part_of_the_kernel),
      cmocka_unit_test(long_sums_are_taken_in_levels),
      cmocka_unit_test(f32_is_rounded_to_tf32_where_the_request_allows_it),
      cmocka_unit_test(operands_are_rounded_to_the_nearest_and_ties_away_from_zero),
      cmocka_unit_test(tf32_multiplies_no_more_than_the_padded_tiles),
      cmocka_unit_test(the_loop_over_k_of_tf32_has_no_bank_conflict),
      cmocka_unit_test(tensor_cores_multiply_no_more_than_the_padded_tiles),
      cmocka_unit_test(the_loop_over_k_has_no_bank_conflict),
      cmocka_unit_test(results_are_stored_in_whole_sectors_whichever_way_they_lie),
      cmocka_unit_test(a_tile_reads_its_rows_and_columns_once),
  };
  return cmocka_run_group_tests_name("codegen: contractions", tests, NULL, NULL);
}
