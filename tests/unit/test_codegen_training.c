/* tests/unit/test_codegen_training.c: what models compute forward and backward, written out of primitive ops
 * as a framework's autograd gives it: attention under several masks, norms, softmax and cross entropy with
 * their gradients. The reference's values in f32 and f16, optimized and node by node; few launches where a
 * norm and its gradient are one kernel by structure.
 * Labels: device, release-only (test_codegen_random runs the same code under the sanitizers)
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/batch.h"
#include "tests/support/graphs.h"
#include "tests/support/random_graph.h"

typedef struct {
  const char *text;  /* with D for the dtype */
  uint32_t launches; /* at most, when optimized */
} model_t;

#define ROW_MEAN(of) "mean(" of ") {dims=[1], keepdim=true}"

static const model_t norms[] = {
    /* y (dy - sum(dy y)) */
    {"graph softmax_backward(%y: D[6,50], %dy: D[6,50]) { %p = mul(%dy, %y) %s = sum(%p) {dims=[1], keepdim=true} "
     "%d = sub(%dy, %s) %dx = mul(%y, %d) return %dx }",
     1},
    {"graph log_softmax_backward(%y: D[5,33], %dy: D[5,33]) { %e = exp(%y) %s = sum(%dy) {dims=[1], keepdim=true} "
     "%p = mul(%e, %s) %dx = sub(%dy, %p) return %dx }",
     1},
    /* both passes from x: the mean and the scale are found again, as checkpointing does */
    {"graph layernorm_backward(%x: D[7,48], %g: D[48], %dy: D[7,48]) { %m = " ROW_MEAN(
         "%x") " %c = sub(%x, %m) "
               "%q = mul(%c, %c) %v = " ROW_MEAN(
                   "%q") " %eps = full() {shape=[], value=0.001, dtype=D} %w = add(%v, %eps) "
                         "%r = rsqrt(%w) %h = mul(%c, %r) %dh = mul(%dy, %g) %a = " ROW_MEAN(
                             "%dh") " %p = mul(%dh, %h) "
                                    "%b = " ROW_MEAN(
                                        "%p") " %hb = mul(%h, %b) %t = sub(%dh, %a) %u = sub(%t, %hb) %dx = mul(%r, %u) return %dx }",
     1},
    {"graph rmsnorm_backward(%x: D[9,40], %g: D[40], %dy: D[9,40]) { %q = mul(%x, %x) %v = " ROW_MEAN(
         "%q") " "
               "%eps = full() {shape=[], value=0.001, dtype=D} %w = add(%v, %eps) %r = rsqrt(%w) %h = mul(%x, %r) "
               "%dh = mul(%dy, %g) %p = mul(%dh, %h) %b = " ROW_MEAN(
                   "%p") " %hb = mul(%h, %b) %u = sub(%dh, %hb) "
                         "%dx = mul(%r, %u) return %dx }",
     1},
    /* the gradients of gamma and beta are sums over the rows */
    {"graph affine_backward(%x: D[30,24], %dy: D[30,24]) { %n = layernorm(%x, none, none) {normalized_shape=[24]} "
     "%p = mul(%dy, %n) %dg = sum(%p) {dims=[0]} %db = sum(%dy) {dims=[0]} return %dg, %db }",
     2},
    {"graph cross_entropy(%x: D[8,21], %ids: i64[8,1]) { %l = log_softmax(%x) {dim=1} %p = gather(%l, %ids) {dim=1} "
     "%n = neg(%p) %y = mean(%n) return %y }",
     2},
    /* (softmax(x) - onehot(ids)) / rows */
    {"graph cross_entropy_backward(%x: D[8,21], %ids: i64[8,1]) { %s = softmax(%x) {dim=1} "
     "%c = iota() {shape=[8,21], dim=1, dtype=i64} %hit = eq(%c, %ids) %o = cast(%hit) {dtype=D} %d = sub(%s, %o) "
     "%n = full() {shape=[], value=8, dtype=D} %dx = div(%d, %n) return %dx }",
     1},
    {"graph gelu_backward(%x: D[100], %dy: D[100]) { %k = full() {shape=[], value=0.70703125, dtype=D} "
     "%h = full() {shape=[], value=0.5, dtype=D} %i = full() {shape=[], value=0.39892578125, dtype=D} "
     "%o = full() {shape=[], value=1.0, dtype=D} %a = mul(%x, %k) %e = erf(%a) %f = add(%e, %o) %c = mul(%f, %h) "
     "%q = mul(%x, %x) %z = mul(%q, %h) %m = neg(%z) %p = exp(%m) %g = mul(%p, %i) %xg = mul(%x, %g) "
     "%d = add(%c, %xg) %dx = mul(%dy, %d) return %dx }",
     1},
};
enum { NORMS = sizeof norms / sizeof *norms };

/* softmax(q k^T / 4 under a mask) v for 2 heads; MASK turns %z into %m. */
#define ATTENTION(name, more, mask)                                                                          \
  "graph " name "(%q: D[2,9,16], %k: D[2,13,16], %v: D[2,13,16]" more ") { %t = permute(%k) {dims=[0,2,1]} " \
  "%s = matmul(%q, %t) {out=f32} %f = full() {shape=[], value=0.25, dtype=f32} %z = mul(%s, %f) "            \
  "%i = iota() {shape=[9,13], dim=0, dtype=i32} %j = iota() {shape=[9,13], dim=1, dtype=i32} "               \
  "%never = full() {shape=[], value=-inf, dtype=f32} " mask                                                  \
  " %w = softmax(%m) {dim=-1} %p = cast(%w) {dtype=D} %y = matmul(%p, %v) return %y }"

static const model_t attentions[] = {
    {ATTENTION("no_mask", "", "%o = full() {shape=[], value=1.0, dtype=f32} %m = mul(%z, %o)"), 3},
    {ATTENTION("causal", "", "%c = le(%j, %i) %m = where(%c, %z, %never)"), 3},
    {ATTENTION("window", "",
               "%c = le(%j, %i) %n = full() {shape=[], value=3, dtype=i32} %e = add(%j, %n) %d = ge(%e, %i) "
               "%b = logical_and(%c, %d) %m = where(%b, %z, %never)"),
     3},
    {ATTENTION("padding", ", %keep: bool[2,13]",
               "%b = broadcast(%keep) {dims=[1]} %m = where(%b, %z, %never)"),
     3},
    {ATTENTION("added", ", %bias: f32[9,13]", "%m = add(%z, %bias)"), 3},
    {ATTENTION(
         "distance", ", %slope: f32[2]",
         "%d = sub(%j, %i) %e = cast(%d) {dtype=f32} %l = broadcast(%slope) {dims=[1,2]} %b = mul(%l, %e) "
         "%m = add(%z, %b)"),
     3},
    /* dv = p^T dy, dp = dy v^T, ds = p (dp - sum(dp p)), dq = ds k, dk = ds^T q */
    {"graph attention_backward(%q: D[2,9,16], %k: D[2,13,16], %v: D[2,13,16], %dy: D[2,9,16]) { "
     "%t = permute(%k) {dims=[0,2,1]} %s = matmul(%q, %t) %f = full() {shape=[], value=0.25, dtype=D} "
     "%z = mul(%s, %f) %p = softmax(%z) {dim=-1} %pt = permute(%p) {dims=[0,2,1]} %dv = matmul(%pt, %dy) "
     "%vt = permute(%v) {dims=[0,2,1]} %dp = matmul(%dy, %vt) %a = mul(%dp, %p) "
     "%b = sum(%a) {dims=[-1], keepdim=true} %c = sub(%dp, %b) %d = mul(%p, %c) %ds = mul(%d, %f) "
     "%dq = matmul(%ds, %k) %dst = permute(%ds) {dims=[0,2,1]} %dk = matmul(%dst, %q) return %dq, %dk, %dv }",
     8},
};
enum { ATTENTIONS = sizeof attentions / sizeof *attentions };

/* --- the test ------------------------------------------------------------------------------------------- */

static const kiln_symbol_class_t no_symbols = {{1, 1, 1, 1, 1, 1, 1, 1}, false};
static const kiln_options_t fused = {0}, unfused = {.unfused = true};
static const kiln_pass_run_t no_passes = {.list = ""};

/* D stands for the dtype where no letter, digit or underscore is beside it. */
static const kiln_graph_t *graph_for(kiln_arena_t *arena, const char *text, const char *dtype) {
  kiln_buffer_t *out = kiln_buffer_in_arena(arena);
  for (const char *at = text; *at; at++) {
    bool alone =
        *at == 'D' && (at[-1] == ' ' || at[-1] == '=') && !(at[1] >= 'A' && at[1] <= 'z' && at[1] != '[');
    if (alone)
      kiln_buffer_puts(out, dtype);
    else
      kiln_buffer_append(out, at, 1);
  }
  return graph_from(arena, kiln_buffer_text(out));
}

/* The seeds give each input its character: small integers, numbers near 0, ties, awkward ones. */
static void check_model(kiln_arena_t *arena, kiln_batch_t *batch, uint32_t first, kiln_batch_tally_t *tally) {
  const kiln_graph_t *graph = kiln_batch_pipeline(batch, first)->input;
  kiln_tensor_t inputs[4], got[4];
  kiln_reference_t expected[4];
  for (uint64_t seed = 1; seed <= 4; seed++) {
    kiln_random_inputs(arena, graph, seed, NULL, inputs);
    assert_null(kiln_reference_run(arena, graph, NULL, inputs, 0, expected));
    for (uint32_t way = 0; way < 2; way++) {
      kiln_batch_run(batch, first + way, NULL, inputs, got);
      kiln_status_t status = kiln_batch_compare(expected, got, graph->output_count, tally);
      if (status)
        fail_msg("%s, seed %llu: %s", graph->name, (unsigned long long)seed, kiln_status_message(status));
    }
  }
}

static void check_models(const model_t *models, uint32_t count, const char *dtype, const char *arch) {
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  kiln_batch_t *batch = kiln_batch_create(&arena, arch);
  kiln_batch_tally_t tally = {0};
  for (uint32_t i = 0; i < count; i++) {
    const kiln_graph_t *graph = graph_for(&arena, models[i].text, dtype);
    uint32_t number = kiln_batch_add(batch, graph, &fused, &no_symbols, NULL);
    kiln_batch_add(batch, graph, &unfused, &no_symbols, &no_passes);
    uint32_t launches = kiln_batch_pipeline(batch, number)->grouping->group_count;
    if (launches > models[i].launches) fail_msg("%u launches: %s", launches, graph->name);
  }
  kiln_batch_compile(batch);
  for (uint32_t i = 0; i < count; i++) check_model(&arena, batch, 2 * i, &tally);
  if (tally.undecided > tally.elements / 3)
    fail_msg("%llu of %llu elements are undecided", (unsigned long long)tally.undecided,
             (unsigned long long)tally.elements);
  kiln_batch_destroy(batch);
  kiln_arena_deinit(&arena);
}

static void norms_and_losses_and_their_gradients(void **state) {
  (void)state;
  check_models(norms, NORMS, "f32", "sm_80");
  check_models(norms, NORMS, "f16", "sm_90");
}

static void attention_under_several_masks_and_its_gradient(void **state) {
  (void)state;
  check_models(attentions, ATTENTIONS, "f32", "sm_90");
  check_models(attentions, ATTENTIONS, "f16", "sm_80");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(norms_and_losses_and_their_gradients),
      cmocka_unit_test(attention_under_several_masks_and_its_gradient),
  };
  return cmocka_run_group_tests_name("codegen: training", tests, NULL, NULL);
}
