/* tests/unit/test_codegen_split.c: results that several blocks share: few long rows, few columns,
 * contractions of few tiles and long K.
 *
 * Values against the reference evaluator and against formulas, on the emulated device with all checkers on;
 * the same bits in every run, under another number of threads, and with other work in the same kernel.
 * Labels: release-only (long rows take the sanitized emulator minutes; the runtime's part is in
 * test_runtime_execute)
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "ir/number.h"
#include "tests/support/batch.h"
#include "tests/support/graphs.h"
#include "tests/support/random_graph.h"

static const kiln_options_t plain = {0};
static const kiln_symbol_class_t no_symbols = {{1, 1, 1, 1, 1, 1, 1, 1}, false};
static const kiln_pass_run_t no_passes = {.list = ""};

typedef struct {
  kiln_arena_t arena;
  kiln_batch_t *batch;
} fixture_t;

static void setup(fixture_t *f, const char *arch) {
  kiln_arena_init(&f->arena, 0);
  f->batch = kiln_batch_create(&f->arena, arch);
}

static void end(fixture_t *f) {
  kiln_batch_destroy(f->batch);
  kiln_arena_deinit(&f->arena);
}

static uint32_t add(fixture_t *f, const char *text) {
  return kiln_batch_add(f->batch, graph_from(&f->arena, text), &plain, &no_symbols, &no_passes);
}

static bool is_split(const fixture_t *f, uint32_t number) {
  const kiln_pipeline_t *pipeline = kiln_batch_pipeline(f->batch, number);
  return strstr(pipeline->kernels[0].source, "kiln_is_last<") != NULL;
}

static kiln_tensor_t *random_inputs(fixture_t *f, uint32_t number, const int64_t *symbols) {
  const kiln_graph_t *graph = kiln_batch_pipeline(f->batch, number)->input;
  kiln_tensor_t *inputs = KILN_NEW_ARRAY(&f->arena, kiln_tensor_t, graph->input_count);
  kiln_random_inputs(&f->arena, graph, number + 1, symbols, inputs);
  return inputs;
}

/* --- values -------------------------------------------------------------------------------------------- */

static const char *const split[] = {
    /* few long rows: one, of any width and place; several reductions of one input */
    "graph g(%x: f32[40001]) { %y = sum(%x) return %y }",
    "graph g(%x: f16[3,32776]) { %y = mean(%x) {dims=[1]} %z = argmax(%x) {dim=1} return %y, %z }",
    "graph g(%x: f64[2,34000]) { %y = prod(%x) {dims=[1]} %z = argmin(%x) {dim=1} return %y, %z }",
    "graph g(%x: i8[70001]) { %y = argmax(%x) %z = sum(%x) {dtype=i64} %a = any(%x) return %y, %z, %a }",
    "graph g(%x: bool[40000]) { %y = all(%x) %z = sum(%x) {dtype=i32} return %y, %z }",
    "graph g(%x: bf16[40,41,42]) { %y = amax(%x) return %y }",
    /* what follows has one element per row; views and other work in front */
    "graph g(%x: f32[2,34000], %b: f32[2]) { %q = mul(%x, %x) %m = mean(%q) {dims=[1]} %s = sqrt(%m) "
    "%y = add(%s, %b) return %y, %m }",
    "graph g(%x: f32[200,190]) { %t = permute(%x) {dims=[1,0]} %s = slice(%t) {starts=[1,2], limits=[190,200]} "
    "%y = sum(%s) return %y }",
    /* the outer and the inner axis, a kept one between */
    "graph g(%x: f16[260,3,140]) { %y = sum(%x) {dims=[0,2]} %z = amin(%x) {dims=[0,2]} return %y, %z }",
    /* few columns, and none that is whole */
    "graph g(%x: f32[9000,8]) { %y = sum(%x) {dims=[0]} %z = argmax(%x) {dim=0} return %y, %z }",
    "graph g(%x: f16[15001,3]) { %y = mean(%x) {dims=[0]} %z = argmin(%x) {dim=0} return %y, %z }",
    "graph g(%x: i8[5000,16]) { %y = argmax(%x) {dim=0} %z = argmin(%x) {dim=0} return %y, %z }",
    "graph g(%x: f64[3,5000,2]) { %y = prod(%x) {dims=[1]} return %y }",
    "graph g(%x: bool[20000,4]) { %y = any(%x) {dims=[0]} %z = sum(%x) {dims=[0], dtype=i64} return %y, %z }",
    "graph g(%x: bf16[4000,72], %b: bf16[72]) { %s = sum(%x) {dims=[0]} %z = add(%s, %b) %y = relu(%z) "
    "return %y, %s }",
    /* contractions: odd lengths of K, batches, what comes before and after; a vector, whichever way the
     * matrix lies */
    "graph g(%a: f16[5,8192], %b: f16[7,8192]) { %y = gemm_rcr(%a, %b) return %y }",
    "graph g(%a: bf16[2,17,8001], %b: bf16[2,8001,9], %r: bf16[2,17,9]) { %y = matmul(%a, %b) %z = add(%y, %r) "
    "%s = silu(%z) return %s, %y }",
    "graph g(%a: f32[33,1111], %b: f32[40,1111], %c: f32[40]) { %y = gemm_rcr_bias_relu(%a, %b, %c) return %y }",
    "graph g(%a: f64[3,1500], %b: f64[1500,5]) { %y = matmul(%a, %b) return %y }",
    "graph g(%a: i8[3,2500], %b: i8[5,2500]) { %y = gemm_rcr(%a, %b) return %y }",
    "graph g(%a: i64[4,1200], %b: i64[1200,3]) { %y = matmul(%a, %b) return %y }",
    "graph g(%a: f16[1,70001], %b: f16[3,70001], %c: f16[3]) { %y = gemm_rcr_bias_sigmoid(%a, %b, %c) return %y }",
    "graph g(%a: f32[4099], %b: f32[4099,100]) { %y = matmul(%a, %b) return %y }",
    "graph g(%a: bf16[2,3,90001], %b: bf16[90001]) { %t = permute(%a) {dims=[1,0,2]} %y = matmul(%t, %b) return %y }",
};
enum { SPLIT = sizeof split / sizeof *split };

/* Where a result is needed before its row is over, one block does all parts. */
static const char *const alone[] = {
    "graph g(%x: f32[2,40001]) { %y = softmax(%x) {dim=1} return %y }",
    "graph g(%x: f16[40000]) { %y = var(%x) return %y }",
    "graph g(%x: f32[20000,2]) { %y = var(%x) {dims=[0]} %z = sum(%x) {dims=[0]} return %y, %z }",
};
enum { ALONE = sizeof alone / sizeof *alone };

/* The graphs above, and what runs gave that had a process and a number of threads of their own. */
typedef struct {
  fixture_t f;
  uint32_t with_1[SPLIT], with_3[SPLIT];
} shared_t;

static uint32_t checksum_of_run(fixture_t *f, uint32_t number) {
  const kiln_graph_t *graph = kiln_batch_pipeline(f->batch, number)->input;
  kiln_tensor_t *outputs = KILN_NEW_ARRAY(&f->arena, kiln_tensor_t, graph->output_count);
  kiln_batch_run(f->batch, number, NULL, random_inputs(f, number, NULL), outputs);
  uint32_t sum = 2166136261u;
  for (uint32_t i = 0; i < graph->output_count; i++) {
    size_t bytes = (size_t)kiln_tensor_elements(&outputs[i]) * kiln_dtype_bytes(outputs[i].dtype);
    for (size_t k = 0; k < bytes; k++) sum = (sum ^ ((uint8_t *)outputs[i].data)[k]) * 16777619u;
  }
  return sum;
}

/* The device takes the number when it is opened, which this process does later. */
static bool run_with_threads(fixture_t *f, const char *threads, uint32_t *out) {
  int ends[2];
  if (pipe(ends)) return false;
  pid_t child = fork();
  if (child == 0) {
    setenv("KILN_EMU_THREADS", threads, 1);
    for (uint32_t i = 0; i < SPLIT; i++) out[i] = checksum_of_run(f, i);
    _exit(write(ends[1], out, SPLIT * sizeof *out) == SPLIT * sizeof *out ? 0 : 1);
  }
  close(ends[1]);
  bool came = read(ends[0], out, SPLIT * sizeof *out) == SPLIT * sizeof *out;
  close(ends[0]);
  waitpid(child, NULL, 0);
  return came;
}

static int set_up_group(void **state) {
  shared_t *shared = calloc(1, sizeof *shared);
  if (!shared) return -1;
  setup(&shared->f, "sm_90");
  for (int i = 0; i < SPLIT; i++) add(&shared->f, split[i]);
  for (int i = 0; i < ALONE; i++) add(&shared->f, alone[i]);
  kiln_batch_compile(shared->f.batch);
  *state = shared;
  return run_with_threads(&shared->f, "1", shared->with_1) &&
                 run_with_threads(&shared->f, "3", shared->with_3)
             ? 0
             : -1;
}

static int tear_down_group(void **state) {
  shared_t *shared = *state;
  end(&shared->f);
  free(shared);
  return 0;
}

static void results_of_several_blocks_are_right(void **state) {
  fixture_t *f = &((shared_t *)*state)->f;
  for (uint32_t i = 0; i < SPLIT + ALONE; i++) {
    const char *text = i < SPLIT ? split[i] : alone[i - SPLIT];
    if (is_split(f, i) != (i < SPLIT)) fail_msg("split or not: %s", text);
    kiln_batch_check(f->batch, i, NULL, random_inputs(f, i, NULL), text);
  }
}

static void every_run_gives_the_same_bits(void **state) {
  shared_t *shared = *state;
  for (uint32_t i = 0; i < SPLIT; i++) {
    uint32_t now = checksum_of_run(&shared->f, i);
    if (now != shared->with_1[i] || now != shared->with_3[i]) fail_msg("other bits: %s", split[i]);
  }
}

static void symbols_may_make_rows_longer_or_shorter_than_is_typical(void **state) {
  (void)state;
  static const char *const texts[] = {
      "graph g[T=2,S=100000](%x: f32[T,S]) { %y = sum(%x) {dims=[1]} %z = argmax(%x) {dim=1} return %y, %z }",
      "graph g[T=3,S=100000](%x: f32[S,T]) { %y = sum(%x) {dims=[0]} %z = argmax(%x) {dim=0} return %y, %z }",
  };
  static const int64_t sizes[][2] = {{2, 1}, {1, 40000}, {0, 5}, {300, 7}};
  static const kiln_symbol_class_t wide = {{1, 1, 1, 1, 1, 1, 1, 1}, true};
  fixture_t f;
  setup(&f, "sm_80");
  for (int i = 0; i < 4; i++) {
    kiln_batch_add(f.batch, graph_from(&f.arena, texts[i % 2]), &plain, i < 2 ? &no_symbols : &wide,
                   &no_passes);
  }
  kiln_batch_compile(f.batch);
  for (uint32_t i = 0; i < 4; i++) {
    assert_true(is_split(&f, i));
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
      int64_t symbols[KILN_MAX_SYMBOLS] = {sizes[k][0], sizes[k][1]};
      kiln_batch_check(f.batch, i, symbols, random_inputs(&f, i, symbols), texts[i % 2]);
    }
  }
  end(&f);
}

/* Down to less than a part has, and to nothing. */
static void k_may_be_shorter_than_is_typical(void **state) {
  (void)state;
  static const char *const texts[] = {
      "graph g[K=8192](%a: f16[5,K], %b: f16[7,K], %c: f16[7]) { %y = gemm_rcr_bias(%a, %b, %c) return %y }",
      "graph g[K=8192](%a: f32[5,K], %b: f32[K,7]) { %y = matmul(%a, %b) return %y }",
      "graph g[K=65536](%a: f32[1,K], %b: f32[7,K]) { %y = gemm_rcr(%a, %b) return %y }",
  };
  static const int64_t lengths[] = {0, 1, 3, 33, 600, 8193};
  fixture_t f;
  setup(&f, "sm_80");
  for (int i = 0; i < 3; i++) add(&f, texts[i]);
  kiln_batch_compile(f.batch);
  for (uint32_t i = 0; i < 3; i++) {
    assert_true(is_split(&f, i));
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
      int64_t symbols[KILN_MAX_SYMBOLS] = {lengths[k]};
      kiln_batch_check(f.batch, i, symbols, random_inputs(&f, i, symbols), texts[i]);
    }
  }
  end(&f);
}

/* Blocks that share a row cannot wait for its sum: few long rows take a kernel for each reduction and one for
 * the rest, many of them one kernel. What has one element per row, and other folds of the same rows, joins.
 */
static void what_follows_rows_that_blocks_share_is_a_kernel_of_its_own(void **state) {
  (void)state;
  static const struct {
    const char *text;
    uint32_t launches;
  } cases[] = {
      {"graph g(%x: f32[2,33000]) { %m = amax(%x) {dims=[1], keepdim=true} %d = sub(%x, %m) %e = exp(%d) "
       "%s = sum(%e) {dims=[1], keepdim=true} %y = div(%e, %s) return %y }",
       3},
      {"graph g(%x: f32[300,33000]) { %m = amax(%x) {dims=[1], keepdim=true} %d = sub(%x, %m) %e = exp(%d) "
       "%s = sum(%e) {dims=[1], keepdim=true} %y = div(%e, %s) return %y }",
       1},
      {"graph g(%x: f32[2,33000]) { %s = sum(%x) {dims=[1]} %v = var(%x) {dims=[1]} %m = mean(%x) {dims=[1]} "
       "%a = argmax(%x) {dim=1} %d = sub(%s, %m) return %d, %v, %a }",
       2},
  };
  fixture_t f;
  setup(&f, "sm_90");
  for (uint32_t i = 0; i < 3; i++) {
    add(&f, cases[i].text);
    assert_int_equal(kiln_batch_pipeline(f.batch, i)->grouping->group_count, cases[i].launches);
  }
  kiln_batch_compile(f.batch);
  for (uint32_t i = 0; i < 3; i += 2)
    kiln_batch_check(f.batch, i, NULL, random_inputs(&f, i, NULL), cases[i].text);
  end(&f);
}

/* --- long sums ----------------------------------------------------------------------------------------- */

/* 2^24 and many ones: a chain that begins with the former loses every one that follows in it. In chains of at
 * most 16 few are lost. */
static void many_small_terms_are_not_lost_behind_a_great_one(void **state) {
  (void)state;
  fixture_t f;
  setup(&f, "sm_90");
  uint32_t row = add(&f, "graph g(%x: f32[50000]) { %y = sum(%x) return %y }");
  uint32_t columns = add(&f, "graph g(%x: f32[50000,2]) { %y = sum(%x) {dims=[0]} return %y }");
  kiln_batch_compile(f.batch);
  for (uint32_t number = row; number <= columns; number++) {
    int64_t sizes[] = {50000, 2};
    kiln_tensor_t x, y;
    assert_null(kiln_tensor_create(&f.arena, KILN_DTYPE_f32, number == row ? 1 : 2, sizes, &x));
    uint32_t step = number == row ? 1 : 2;
    float *values = x.data;
    for (uint32_t i = 0; i < 50000 * step; i++) values[i] = i < step ? 16777216.0f : 1.0f;
    kiln_batch_run(f.batch, number, NULL, &x, &y);
    for (uint32_t i = 0; i < step; i++) {
      double lost = 16777216.0 + 49999.0 - (double)((float *)y.data)[i];
      if (lost < -64 || lost > 64) fail_msg("%g ones were lost", lost);
    }
  }
  end(&f);
}

static void sums_and_means_of_equal_terms_are_exact(void **state) {
  (void)state;
  static const char *const texts[] = {
      "graph g(%x: f32[100,100,100]) { %y = sum(%x) return %y }",
      "graph g(%x: f16[100000]) { %y = mean(%x) return %y }",
      "graph g(%x: f32[100000,2]) { %y = mean(%x) {dims=[0]} return %y }",
  };
  static const struct {
    kiln_dtype_t dtype;
    double value, right;
  } cases[] = {{KILN_DTYPE_f32, 100, 1e8}, {KILN_DTYPE_f16, 1, 1}, {KILN_DTYPE_f32, 1, 1}};
  fixture_t f;
  setup(&f, "sm_90");
  for (int i = 0; i < 3; i++) add(&f, texts[i]);
  kiln_batch_compile(f.batch);
  for (uint32_t i = 0; i < 3; i++) {
    const kiln_type_t *type = &kiln_batch_pipeline(f.batch, i)->input->types[0];
    int64_t sizes[KILN_MAX_RANK];
    kiln_tensor_t x, y;
    assert_null(kiln_type_sizes(type, NULL, sizes));
    assert_null(kiln_tensor_create(&f.arena, type->dtype, type->rank, sizes, &x));
    uint64_t one = kiln_number_to_bits((kiln_number_t){.real = cases[i].value}, cases[i].dtype);
    size_t bytes = kiln_dtype_bytes(cases[i].dtype);
    for (int64_t k = 0; k < kiln_tensor_elements(&x); k++)
      memcpy((char *)x.data + k * (int64_t)bytes, &one, bytes);
    kiln_batch_run(f.batch, i, NULL, &x, &y);
    uint64_t right = kiln_number_to_bits((kiln_number_t){.real = cases[i].right}, cases[i].dtype), got = 0;
    memcpy(&got, y.data, bytes);
    if (got != right) fail_msg("%s", texts[i]);
  }
  end(&f);
}

/* --- the same bits ------------------------------------------------------------------------------------- */

/* A sum alone, and beside or in front of other work, which decides whether blocks share it. */
static void a_sum_has_the_same_bits_whatever_is_fused_with_it(void **state) {
  (void)state;
  static const char *const texts[][2] = {
      {"graph g(%x: f32[3,50001]) { %s = sum(%x) {dims=[1], keepdim=true} return %s }",
       "graph g(%x: f32[3,50001]) { %s = sum(%x) {dims=[1], keepdim=true} %d = div(%x, %s) return %s, %d }"},
      {"graph g(%x: f32[3,50001]) { %s = sum(%x) {dims=[1]} return %s }",
       "graph g(%x: f32[3,50001]) { %s = sum(%x) {dims=[1]} %v = var(%x) {dims=[1]} %a = argmax(%x) {dim=1} "
       "return %s, %v, %a }"},
      {"graph g(%x: f32[20001,4]) { %s = sum(%x) {dims=[0]} return %s }",
       "graph g(%x: f32[20001,4]) { %s = sum(%x) {dims=[0]} %v = var(%x) {dims=[0]} return %s, %v }"},
      /* another width of accesses: of 4 elements, of 1 */
      {"graph g(%x: f32[20001,4]) { %s = sum(%x) {dims=[0]} return %s }",
       "graph g(%x: f32[20001,4] strides [5,1]) { %s = sum(%x) {dims=[0]} return %s }"},
      {"graph g(%x: f32[2,65536]) { %s = sum(%x) {dims=[1]} return %s }",
       "graph g(%x: f32[2,65536] strides [65539,1]) { %s = sum(%x) {dims=[1]} return %s }"},
      /* a contraction, and the same with an epilogue */
      {"graph g(%a: f16[20,8200], %b: f16[30,8200]) { %y = gemm_rcr(%a, %b) return %y }",
       "graph g(%a: f16[20,8200], %b: f16[30,8200], %c: f16[20,30]) { %y = gemm_rcr(%a, %b) %z = mul(%y, %c) "
       "return %y, %z }"},
      /* a row that fits, alone and in a kernel that keeps too much of it */
      {"graph g(%x: f32[2,20000]) { %s = sum(%x) {dims=[1], keepdim=true} return %s }",
       "graph g(%x: f32[2,20000], %y: f32[2,20000], %z: f32[2,20000], %w: f32[2,20000]) { %s = sum(%x) {dims=[1], "
       "keepdim=true} %a = mul(%x, %y) %b = mul(%z, %w) %c = add(%a, %b) %m = mean(%c) {dims=[1], keepdim=true} "
       "%d = sub(%c, %m) %e = mul(%d, %s) return %s, %e }"},
  };
  enum { TEXTS = sizeof texts / sizeof *texts };
  fixture_t f;
  setup(&f, "sm_90");
  for (int i = 0; i < 2 * TEXTS; i++) add(&f, texts[i / 2][i % 2]);
  kiln_batch_compile(f.batch);
  for (uint32_t i = 0; i < TEXTS; i++) {
    kiln_tensor_t inputs[4], apart[1], together[3];
    kiln_random_inputs(&f.arena, kiln_batch_pipeline(f.batch, 2 * i + 1)->input, i, NULL, inputs);
    kiln_batch_run(f.batch, 2 * i, NULL, inputs, apart);
    kiln_batch_run(f.batch, 2 * i + 1, NULL, inputs, together);
    size_t bytes = (size_t)kiln_tensor_elements(&apart[0]) * kiln_dtype_bytes(apart[0].dtype);
    if (memcmp(apart[0].data, together[0].data, bytes)) fail_msg("other bits: %s", texts[i][1]);
  }
  end(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(results_of_several_blocks_are_right),
      cmocka_unit_test(every_run_gives_the_same_bits),
      cmocka_unit_test(symbols_may_make_rows_longer_or_shorter_than_is_typical),
      cmocka_unit_test(what_follows_rows_that_blocks_share_is_a_kernel_of_its_own),
      cmocka_unit_test(k_may_be_shorter_than_is_typical),
      cmocka_unit_test(many_small_terms_are_not_lost_behind_a_great_one),
      cmocka_unit_test(sums_and_means_of_equal_terms_are_exact),
      cmocka_unit_test(a_sum_has_the_same_bits_whatever_is_fused_with_it),
  };
  return cmocka_run_group_tests_name("codegen: split reductions", tests, set_up_group, tear_down_group);
}
