/* tests/support/random_check.c: random graphs on the emulated device (tests/support/random_check.h). */
#include "tests/support/random_check.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "ir/text.h"
#include "tests/support/batch.h"
#include "tests/support/random_graph.h"
#include "tests/support/shrink.h"
#include "tests/support/test_device.h"

enum { BATCH = 40, MOST_TRIES = 400, TRY_SECONDS = 60 };

#if defined(__SANITIZE_ADDRESS__)
enum { SANITIZED = 1 };
#elif defined(__has_feature)
enum { SANITIZED = __has_feature(address_sanitizer) };
#else
enum { SANITIZED = 0 };
#endif

/* --- one graph in several ways -------------------------------------------------------------------------- */

typedef enum { OPTIMIZED, WITHOUT_PASSES, UNFUSED, MERGED, WAYS } way_t;
static const char *const way_names[WAYS] = {"optimized", "without passes", "without fusion", "merged"};

/* As a client's; and, as the seed chooses, without passes, also without fusion, or with whatever is of one
 * class in one launch. */
typedef struct {
  uint64_t seed;
  const kiln_graph_t *graph; /* its inputs still have their names, which say what they hold */
  kiln_symbol_class_t symbol_class;
  const int64_t (*value_sets)[KILN_MAX_SYMBOLS];
  uint32_t value_set_count;
  bool ways[WAYS];
  uint32_t numbers[WAYS]; /* in the batch */
} subject_t;

static const int64_t any_values[][KILN_MAX_SYMBOLS] = {{7, 4}, {1, 1}, {12, 9}};
static const int64_t even_values[][KILN_MAX_SYMBOLS] = {{16, 32}, {48, 16}};
static const int64_t empty_values[][KILN_MAX_SYMBOLS] = {{6, 5}, {0, 3}, {3, 0}};
static const int64_t no_values[][KILN_MAX_SYMBOLS] = {{0}};

static subject_t subject_of(kiln_arena_t *arena, uint64_t seed) {
  subject_t subject = {.seed = seed, .value_sets = no_values, .value_set_count = 1};
  subject.ways[OPTIMIZED] = true;
  subject.ways[WITHOUT_PASSES] = subject.ways[UNFUSED] = seed % 4 == 0;
  subject.ways[MERGED] = seed % 4 == 2;
  kiln_random_options_t options = {.node_count = 1 + (uint32_t)(seed / 4 % 9), .strided = seed % 3 != 0};
  if (seed % 64 == 5) options.node_count = 40;
  int64_t multiple = 1;
  if (seed % 5 == 1) {
    static const struct {
      const int64_t (*sets)[KILN_MAX_SYMBOLS];
      uint32_t count;
      int64_t multiple;
    } choices[] = {{any_values, 3, 1}, {even_values, 2, 16}, {empty_values, 3, 1}};
    subject.value_sets = choices[seed / 5 % 3].sets;
    subject.value_set_count = choices[seed / 5 % 3].count;
    multiple = choices[seed / 5 % 3].multiple;
    options.symbol_count = 2;
    options.value_sets = subject.value_sets;
    options.value_set_count = subject.value_set_count;
  }
  for (int s = 0; s < KILN_MAX_SYMBOLS; s++) subject.symbol_class.multiple[s] = multiple;
  subject.symbol_class.wide = seed % 16 == 3;
  subject.graph = kiln_random_graph(arena, seed, &options);
  return subject;
}

static kiln_status_t add_way(kiln_batch_t *batch, subject_t *subject, way_t way) {
  static const kiln_options_t fused = {0}, unfused = {.unfused = true};
  static const kiln_pass_run_t no_passes = {.list = ""};
  if (way == MERGED)
    return kiln_batch_try_add_regrouped(batch, subject->graph, true, &subject->symbol_class, NULL,
                                        &subject->numbers[way]);
  return kiln_batch_try_add(batch, subject->graph, way == UNFUSED ? &unfused : &fused, &subject->symbol_class,
                            way == OPTIMIZED ? NULL : &no_passes, &subject->numbers[way]);
}

static kiln_status_t add(kiln_batch_t *batch, subject_t *subject) {
  for (way_t way = 0; way < WAYS; way++) {
    if (!subject->ways[way]) continue;
    kiln_status_t status = add_way(batch, subject, way);
    if (status) return kiln_error_note(status, "%s", way_names[way]);
  }
  return NULL;
}

static bool accumulates(const kiln_graph_t *graph) {
  for (uint32_t n = 0; n < graph->node_count; n++)
    if (kiln_op_info(graph->nodes[n].op)->op_class > KILN_CLASS_INDEXING) return true;
  return false;
}

static kiln_status_t same_bits(const kiln_graph_t *graph, const kiln_tensor_t *fused,
                               const kiln_tensor_t *unfused) {
  for (uint32_t i = 0; i < graph->output_count; i++) {
    size_t bytes = (size_t)kiln_tensor_elements(&fused[i]) * kiln_dtype_bytes(fused[i].dtype);
    if (memcmp(fused[i].data, unfused[i].data, bytes))
      return kiln_error(KILN_INTERNAL, "output %u differs when fused", i);
  }
  return NULL;
}

static kiln_status_t check_values(kiln_arena_t *arena, kiln_batch_t *batch, const subject_t *subject,
                                  const int64_t *symbols, kiln_batch_tally_t *tally) {
  const kiln_graph_t *graph = subject->graph;
  kiln_tensor_t *inputs = KILN_NEW_ARRAY(arena, kiln_tensor_t, graph->input_count), *got[WAYS];
  kiln_reference_t *expected = KILN_NEW_ARRAY(arena, kiln_reference_t, graph->output_count);
  kiln_random_inputs(arena, graph, subject->seed, symbols, inputs);
  KILN_TRY(kiln_reference_run(arena, graph, symbols, inputs, 0, expected));
  for (way_t way = 0; way < WAYS; way++) {
    if (!subject->ways[way]) continue;
    got[way] = KILN_NEW_ARRAY(arena, kiln_tensor_t, graph->output_count);
    kiln_status_t status = kiln_batch_try_run(batch, subject->numbers[way], symbols, inputs, got[way]);
    if (!status) status = kiln_batch_compare(expected, got[way], graph->output_count, tally);
    if (status)
      return kiln_error_note(status, "%s, symbols %lld, %lld", way_names[way], (long long)symbols[0],
                             (long long)symbols[1]);
  }
  if (!subject->ways[UNFUSED] || accumulates(graph)) return NULL;
  return same_bits(graph, got[WITHOUT_PASSES], got[UNFUSED]);
}

static kiln_status_t check(kiln_arena_t *arena, kiln_batch_t *batch, const subject_t *subject,
                           kiln_batch_tally_t *tally) {
  for (uint32_t i = 0; i < subject->value_set_count; i++)
    KILN_TRY(check_values(arena, batch, subject, subject->value_sets[i], tally));
  return NULL;
}

/* --- one graph alone, in a process of its own ----------------------------------------------------------- */

/* How it ends, as an exit status: what a shrunk graph must share with the one it came from. */
typedef enum { RIGHT, NOT_GENERATED, NOT_COMPILED, WRONG, FAULTY, CRASHED } verdict_t;

typedef struct {
  const char *arch;
  kiln_compiler_t *compiler;
  subject_t subject; /* all but the graph */
  verdict_t wanted;
} trial_t;

static verdict_t verdict_of(kiln_status_t status, verdict_t verdict, bool says) {
  if (!status) return RIGHT;
  const char *log = kiln_status_detail(status, "log"), *report = kiln_status_detail(status, "report");
  if (says) fprintf(stderr, "%s\n%s%s", kiln_status_message(status), log ? log : "", report ? report : "");
  return verdict;
}

/* In the child, which exits without freeing anything. */
static verdict_t judge(const trial_t *trial, const kiln_graph_t *graph, bool says) {
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  subject_t subject = trial->subject;
  subject.graph = graph;
  kiln_batch_t *batch = kiln_batch_create(&arena, trial->arch);
  kiln_batch_use_compiler(batch, trial->compiler);
  kiln_batch_misalign(batch);
  verdict_t verdict = verdict_of(add(batch, &subject), NOT_GENERATED, says);
  if (!verdict) verdict = verdict_of(kiln_batch_try_compile(batch), NOT_COMPILED, says);
  if (verdict) return verdict;
  kiln_status_t status = check(&arena, batch, &subject, NULL);
  return verdict_of(status, kiln_status_code(status) == KILN_INTERNAL ? WRONG : FAULTY, says);
}

/* A child to judge in, 0 inside it: where cmocka's handlers do not go on with the test, and time is bounded.
 */
static pid_t fork_judge(unsigned seconds) {
  fflush(NULL);
  pid_t child = fork();
  if (child) return child;
  signal(SIGABRT, SIG_DFL);
  signal(SIGSEGV, SIG_DFL);
  alarm(seconds);
  return 0;
}

static verdict_t verdict_from(pid_t child) {
  int how = 0;
  if (child < 0 || waitpid(child, &how, 0) != child) return CRASHED;
  if (WIFEXITED(how) && WEXITSTATUS(how) == TEST_SKIP_EXIT_CODE) _Exit(TEST_SKIP_EXIT_CODE); /* no device */
  return WIFEXITED(how) ? (verdict_t)WEXITSTATUS(how) : CRASHED;
}

static verdict_t judge_apart(const trial_t *trial, const kiln_graph_t *graph, bool says) {
  pid_t child = fork_judge(TRY_SECONDS);
  if (!child) {
    bool quiet = !says && freopen("/dev/null", "w", stderr);
    _exit(judge(trial, graph, !quiet));
  }
  return verdict_from(child);
}

static bool fails_the_same(void *argument, const kiln_graph_t *graph) {
  const trial_t *trial = argument;
  return judge_apart(trial, graph, false) == trial->wanted;
}

/* The set of values that fails alone, where symbols are several. */
static void narrow_values(trial_t *trial) {
  subject_t all = trial->subject;
  for (uint32_t i = 0; i < all.value_set_count; i++) {
    trial->subject.value_sets = &all.value_sets[i];
    trial->subject.value_set_count = 1;
    if (judge_apart(trial, all.graph, false) == trial->wanted) return;
  }
  trial->subject = all;
}

static bool reproduce(kiln_arena_t *arena, trial_t *trial, kiln_buffer_t *out) {
  trial->wanted = judge_apart(trial, trial->subject.graph, true);
  if (!trial->wanted) return false;
  narrow_values(trial);
  kiln_shrink_options_t options = {fails_the_same, trial, trial->subject.value_sets[0], MOST_TRIES};
  const kiln_graph_t *smallest = kiln_shrink(arena, trial->subject.graph, &options);
  judge_apart(trial, smallest, true);
  kiln_text_print(arena, out, smallest);
  return true;
}

bool kiln_random_reproduce(kiln_arena_t *arena, const kiln_graph_t *graph, const char *arch, uint64_t seed,
                           const int64_t *symbols, kiln_buffer_t *out_text) {
  int64_t values[1][KILN_MAX_SYMBOLS] = {{0}};
  for (uint32_t s = 0; s < graph->symbol_count; s++) values[0][s] = symbols[s];
  trial_t trial = {.arch = arch};
  trial.subject = (subject_t){.seed = seed,
                              .graph = graph,
                              .symbol_class = {{1, 1, 1, 1, 1, 1, 1, 1}, false},
                              .value_sets = values,
                              .value_set_count = 1,
                              .ways = {true, true, true, true}};
  return reproduce(arena, &trial, out_text);
}

/* --- many ----------------------------------------------------------------------------------------------- */

/* What a batch's process tells of itself, in memory that it shares with the test's. */
typedef struct {
  kiln_batch_tally_t tally;
  uint64_t kernels;
  uint32_t failed; /* the number in the batch of the graph that failed; NONE: it is not known */
} account_t;
#define NONE UINT32_MAX

typedef struct {
  const kiln_random_check_t *what;
  kiln_compiler_t *compiler;
  account_t *account;
} run_t;

static void fail_with(const run_t *run, kiln_arena_t *arena, const subject_t *subject) {
  kiln_buffer_t text;
  kiln_buffer_init(&text);
  trial_t trial = {run->what->arch, run->compiler, *subject, RIGHT};
  bool fails = reproduce(arena, &trial, &text);
  fprintf(stderr, "seed %llu for %s, shrunk:\n%s\n", (unsigned long long)subject->seed, run->what->arch,
          kiln_buffer_text(&text));
  kiln_buffer_deinit(&text);
  fail_msg("seed %llu for %s%s", (unsigned long long)subject->seed, run->what->arch,
           fails ? "" : " (in its batch, not alone)");
}

/* In a process of its own: the parent opens no device, which a fault would leave broken for its children. */
static verdict_t judge_batch(const run_t *run, kiln_arena_t *arena, subject_t *subjects, uint32_t count) {
  account_t *account = run->account;
  kiln_batch_t *batch = kiln_batch_create(arena, run->what->arch);
  kiln_batch_use_compiler(batch, run->compiler);
  kiln_batch_misalign(batch);
  kiln_status_t status = NULL;
  for (account->failed = 0; account->failed < count; account->failed++) {
    status = add(batch, &subjects[account->failed]);
    if (status) return verdict_of(status, NOT_GENERATED, true);
  }
  account->failed = NONE;
  status = kiln_batch_try_compile(batch);
  if (status) return verdict_of(status, NOT_COMPILED, true);
  for (account->failed = 0; account->failed < count; account->failed++) {
    status = check(arena, batch, &subjects[account->failed], &account->tally);
    if (status) return verdict_of(status, WRONG, true);
  }
  account->kernels += kiln_batch_kernel_count(batch);
  return RIGHT;
}

static verdict_t judge_batch_apart(const run_t *run, kiln_arena_t *arena, subject_t *subjects,
                                   uint32_t count) {
  pid_t child = fork_judge(BATCH * TRY_SECONDS);
  if (!child) _exit(judge_batch(run, arena, subjects, count));
  return verdict_from(child);
}

static void check_batch(const run_t *run, uint64_t first, uint32_t count) {
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  subject_t subjects[BATCH];
  for (uint32_t i = 0; i < count; i++) subjects[i] = subject_of(&arena, first + i);
  if (judge_batch_apart(run, &arena, subjects, count)) {
    if (run->account->failed < count) fail_with(run, &arena, &subjects[run->account->failed]);
    for (uint32_t i = 0; i < count; i++) {
      trial_t trial = {run->what->arch, run->compiler, subjects[i], RIGHT};
      if (judge_apart(&trial, subjects[i].graph, false)) fail_with(run, &arena, &subjects[i]);
    }
    fail_msg("the batch from seed %llu fails, none of it alone", (unsigned long long)first);
  }
  kiln_arena_deinit(&arena);
}

static uint64_t number_from(const char *variable, uint64_t otherwise) {
  const char *text = getenv(variable);
  return text ? strtoull(text, NULL, 0) : otherwise;
}

void kiln_random_check(const kiln_random_check_t *check) {
  uint64_t first = number_from("KILN_SEED", check->first_seed);
  uint64_t count = number_from("KILN_COUNT", getenv("KILN_SEED") ? 1 : SANITIZED ? 40 : check->count);
  run_t run = {.what = check};
  run.account = mmap(NULL, sizeof *run.account, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(run.account != MAP_FAILED);
  kiln_status_t status = kiln_compiler_create(NULL, &run.compiler);
  if (status) fail_msg("%s", kiln_status_message(status));
  for (uint64_t i = 0; i < count; i += BATCH)
    check_batch(&run, first + i, count - i < BATCH ? (uint32_t)(count - i) : BATCH);
  kiln_compiler_destroy(run.compiler);
  const account_t *account = run.account;
  print_message("%llu graphs from seed %llu for %s: %llu kernels, %llu elements compared, %.1f%% undecided\n",
                (unsigned long long)count, (unsigned long long)first, check->arch,
                (unsigned long long)account->kernels, (unsigned long long)account->tally.elements,
                100.0 * (double)account->tally.undecided / (double)(account->tally.elements + 1));
  if (count >= BATCH) assert_true(account->tally.undecided < account->tally.elements / 5);
  munmap(run.account, sizeof *run.account);
}
