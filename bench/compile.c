/* bench/compile.c: how long NVRTC takes for a kernel of each family, to machine code.
 *
 * The graphs of bench/kernels.def, each compiled five times on its own; the median, its family's bound
 * (docs/kernels.md), and a warm compile of an empty program, which no kernel can beat. Processor time, so
 * that what else the machine does is not counted. Exits 1 when a median passes its bound.
 *
 * Usage: compile [PART OF A FAMILY OR JOB]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ir/text.h"
#include "runtime/compile.h"
#include "server/pipeline.h"

enum { REPEATS = 5 };

typedef struct {
  const char *family, *name, *graph;
} job_t;

static const job_t jobs[] = {
#define KILN_JOB(family, name, graph, grid, block, source) {family, name, graph},
#include "bench/kernels.def"
#undef KILN_JOB
};

static void check(kiln_status_t status, const char *what) {
  if (!status) return;
  fprintf(stderr, "bench/compile: %s: %s\n", what, kiln_status_message(status));
  exit(1);
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Seconds of the processor, the median. */
static double time_source(kiln_compiler_t *compiler, const char *source, const char *entry) {
  double seconds[REPEATS];
  kiln_target_t target;
  check(kiln_target_parse("sm_90", &target), "target");
  for (int i = 0; i < REPEATS; i++) {
    kiln_arena_t arena;
    kiln_kernel_artifact_t artifact;
    kiln_arena_init(&arena, 0);
    clock_t start = clock();
    check(kiln_compiler_compile(compiler, &arena, source, entry, &target, KILN_IMAGE_CUBIN, &artifact),
          entry);
    seconds[i] = (double)(clock() - start) / CLOCKS_PER_SEC;
    kiln_arena_deinit(&arena);
  }
  qsort(seconds, REPEATS, sizeof *seconds, by_size);
  return seconds[REPEATS / 2];
}

/* Of a graph's slowest kernel. */
static double time_job(kiln_compiler_t *compiler, const job_t *job) {
  static const kiln_options_t plain = {0};
  static const kiln_symbol_class_t any_size = {{1, 1, 1, 1, 1, 1, 1, 1}, false};
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  kiln_graph_list_t list = {0};
  kiln_target_t target;
  kiln_pipeline_t pipeline;
  check(kiln_target_parse("sm_90", &target), "target");
  check(kiln_text_parse(&arena, job->name, job->graph, strlen(job->graph), &list), job->name);
  check(kiln_pipeline_generate(&arena, list.graphs[0], &target, &plain, &any_size, NULL, &pipeline),
        job->name);
  double most = 0;
  for (uint32_t i = 0; i < pipeline.grouping->group_count; i++) {
    double seconds = time_source(compiler, pipeline.kernels[i].source, pipeline.kernels[i].entry);
    if (seconds > most) most = seconds;
  }
  kiln_arena_deinit(&arena);
  return most;
}

int main(int argc, char **argv) {
  kiln_compiler_t *compiler;
  bool late = false;
  check(kiln_compiler_create(NULL, &compiler), "opening NVRTC");
  printf("%-12s %-28s %8s %6s\n", "family", "job", "seconds", "bound");
  printf("%-12s %-28s %8.3f\n", "", "an empty program", time_source(compiler, "", ""));
  for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
    if (argc > 1 && !strstr(jobs[i].family, argv[1]) && !strstr(jobs[i].name, argv[1])) continue;
    double bound = strcmp(jobs[i].family, "contraction") ? 0.4 : 2, seconds = time_job(compiler, &jobs[i]);
    printf("%-12s %-28s %8.3f %6.1f%s\n", jobs[i].family, jobs[i].name, seconds, bound,
           seconds > bound ? "  past it" : "");
    fflush(stdout);
    late |= seconds > bound;
  }
  kiln_compiler_destroy(compiler);
  return late;
}
