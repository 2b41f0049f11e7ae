/* bench/grouping.c: matrix products in one launch against the same products one by one.
 *
 * Each set is f16 products with bias over 1,024 and 2,048 rows, compiled as one graph (one launch, or the
 * bench fails) and as one graph for each product. Both run on the emulated device, which counts: the roofline
 * estimate of its time, sectors requested, instructions. Per set:
 *
 * - time: grouped over one by one, by the estimate; never above 1;
 * - gain: its inverse, and over the most there is: the estimates of all one by one over the longest of them,
 * or over what they are worth on a full device (each times its tiles per SM), whichever is more. Equal
 * members of t tiles can gain min(members, SMs / t);
 * - sectors, instructions: grouped over one by one;
 * - compile: seconds of the grouped kernel; bytes that it spills.
 *
 * Where a CUDA GPU is found, its events time both as well, and the ratio stands in the last column.
 * Usage: grouping [PART OF A SET'S NAME]
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/half.h"
#include "ir/text.h"
#include "runtime/device.h"
#include "server/pipeline.h"

enum { MOST_PRODUCTS = 24 };

typedef struct {
  int n, k;
} product_t;

typedef struct {
  const char *name;
  uint32_t count;
  product_t products[MOST_PRODUCTS];
} set_t;

#define NARROW_AND_WIDE                                                                                      \
  {512, 704}, {256, 704}, {512, 120}, {256, 120}, {256, 328}, {256, 328}, {128, 480}, { 256, 480 }

static const set_t sets[] = {
    {"eight", 8, {NARROW_AND_WIDE}},
    {"eight and two of K = 3200", 10, {NARROW_AND_WIDE, {256, 3200}, {128, 3200}}},
    {"fifteen",
     15,
     {{768, 144},
      {384, 2400},
      {384, 360},
      {512, 176},
      {512, 112},
      {128, 64},
      {128, 72},
      {128, 64},
      {128, 64},
      {128, 72},
      {128, 120},
      {128, 120},
      {128, 64},
      {128, 120},
      {128, 120}}},
    {"2 of 256x256", 2, {{256, 256}, {256, 256}}},
    {"17 of 160x512",
     17,
     {{160, 512},
      {160, 512},
      {160, 512},
      {160, 512},
      {160, 512},
      {160, 512},
      {160, 512},
      {160, 512},
      {160, 512},
      {160, 512},
      {160, 512},
      {160, 512},
      {160, 512},
      {160, 512},
      {160, 512},
      {160, 512},
      {160, 512}}},
};

typedef struct {
  kiln_compiler_t *compiler;
  kiln_device_t *emulated, *cuda; /* cuda NULL: none is there */
} bench_t;

/* Of one graph. */
typedef struct {
  double estimated_ns, sectors, instructions, blocks, compile_s, event_ns;
  uint32_t launches;
  int32_t spilled;
} figures_t;

static void require(kiln_status_t status, const char *what) {
  if (!status) return;
  const char *log = kiln_status_detail(status, "log");
  fprintf(stderr, "bench/grouping: %s: %s\n%s", what, kiln_status_message(status), log ? log : "");
  exit(1);
}

/* --- a graph on a device ------------------------------------------------------------------------------- */

static const kiln_graph_t *make_graph(kiln_arena_t *arena, int rows, const product_t *products,
                                      uint32_t count) {
  kiln_buffer_t *text = kiln_buffer_in_arena(arena);
  kiln_graph_list_t list = {0};
  kiln_buffer_puts(text, "graph g(");
  for (uint32_t i = 0; i < count; i++)
    kiln_buffer_printf(text, "%s%%x%u: f16[%d,%d], %%w%u: f16[%d,%d], %%b%u: f16[%d]", i ? ", " : "", i, rows,
                       products[i].k, i, products[i].n, products[i].k, i, products[i].n);
  kiln_buffer_puts(text, ") {");
  for (uint32_t i = 0; i < count; i++)
    kiln_buffer_printf(text, " %%y%u = gemm_rcr_bias(%%x%u, %%w%u, %%b%u)", i, i, i, i);
  kiln_buffer_puts(text, " return ");
  for (uint32_t i = 0; i < count; i++) kiln_buffer_printf(text, "%s%%y%u", i ? ", " : "", i);
  kiln_buffer_puts(text, " }");
  const char *written = kiln_buffer_text(text);
  require(kiln_text_parse(arena, "grouping", written, strlen(written), &list), "the graph");
  return list.graphs[0];
}

static kiln_host_span_t make_operand(kiln_arena_t *arena, const kiln_plan_tensor_t *tensor) {
  uint64_t bytes = 0;
  require(kiln_plan_tensor_bytes(tensor, NULL, &bytes), "operands");
  uint16_t *items = kiln_arena_alloc(arena, bytes);
  for (uint64_t i = 0; i < bytes / 2; i++) items[i] = kiln_f16_from_f32((float)(int)(i * 7 % 16) / 16 - 0.5f);
  return (kiln_host_span_t){items, bytes};
}

typedef struct {
  const kiln_plan_t *plan;
  kiln_executable_t *executable;
  kiln_host_span_t *inputs;
} loaded_t;

static loaded_t load(const bench_t *bench, kiln_arena_t *arena, kiln_device_t *device,
                     const kiln_graph_t *graph, figures_t *out) {
  static const kiln_options_t options = {0};
  static const kiln_symbol_class_t no_symbols = {{1, 1, 1, 1, 1, 1, 1, 1}, false};
  const kiln_device_info_t *info = kiln_device_info(device);
  const char *identity = kiln_compiler_identity(bench->compiler);
  kiln_pipeline_t pipeline;
  loaded_t loaded;
  require(kiln_pipeline_generate(arena, graph, &info->target, &options, &no_symbols, NULL, &pipeline),
          "kernels");
  uint32_t count = out->launches = pipeline.grouping->group_count;
  kiln_digest_t *keys = KILN_NEW_ARRAY(arena, kiln_digest_t, count);
  kiln_kernel_artifact_t *artifacts = KILN_NEW_ARRAY(arena, kiln_kernel_artifact_t, count);
  for (uint32_t i = 0; i < count; i++) {
    const kiln_kernel_source_t *kernel = &pipeline.kernels[i];
    keys[i] = kiln_pipeline_kernel_key(kernel->source, &info->target, identity);
    uint64_t start_ns = kiln_clock_monotonic_ns();
    require(kiln_compiler_compile(bench->compiler, arena, kernel->source, kernel->entry, &info->target,
                                  KILN_IMAGE_CUBIN, &artifacts[i]),
            "compiling");
    out->compile_s += (double)(kiln_clock_monotonic_ns() - start_ns) * 1e-9;
    out->spilled += artifacts[i].spill_store_bytes + artifacts[i].spill_load_bytes;
    if (info->image_kind == KILN_IMAGE_CUBIN) continue;
    artifacts[i].kind = KILN_IMAGE_PTX;
    artifacts[i].image = artifacts[i].ptx;
    artifacts[i].image_bytes = strlen(artifacts[i].ptx) + 1;
  }
  loaded.plan = kiln_pipeline_plan(arena, &pipeline, keys);
  require(kiln_device_load(device, loaded.plan, artifacts, &loaded.executable), "loading");
  loaded.inputs = KILN_NEW_ARRAY(arena, kiln_host_span_t, loaded.plan->input_count);
  for (uint32_t i = 0; i < loaded.plan->input_count; i++)
    loaded.inputs[i] = make_operand(arena, &loaded.plan->inputs[i]);
  return loaded;
}

/* A counter of the last launches, summed. */
static double sum_of(const char *json, const char *name) {
  char field[64];
  double total = 0;
  snprintf(field, sizeof field, "\"%s\":", name);
  for (const char *at = json; (at = strstr(at, field));) total += atof(at += strlen(field));
  return total;
}

static void run_counted(kiln_arena_t *arena, kiln_device_t *device, const loaded_t *loaded, figures_t *out) {
  kiln_buffer_t *json = kiln_buffer_in_arena(arena);
  kiln_host_span_t *outputs = KILN_NEW_ARRAY(arena, kiln_host_span_t, loaded->plan->output_count);
  kiln_execution_timings_t timings;
  for (uint32_t i = 0; i < loaded->plan->output_count; i++)
    outputs[i] = make_operand(arena, &loaded->plan->outputs[i]);
  require(kiln_device_count(device, true), "counting");
  require(kiln_device_execute(device, loaded->executable, NULL, loaded->inputs, outputs, &timings),
          "running");
  require(kiln_device_counters(device, json), "counters");
  const char *text = kiln_buffer_text(json);
  out->estimated_ns = sum_of(text, "estimated_ns");
  out->instructions = sum_of(text, "instructions");
  out->sectors = sum_of(text, "global_load_sectors") + sum_of(text, "global_store_sectors");
  out->blocks = 1;
  for (int i = 0; i < 3; i++) {
    const kiln_extent_t *extent = &loaded->plan->launches[0].grid[i];
    out->blocks *= ceil((double)extent->dim.constant / extent->divisor);
  }
}

static figures_t measure(const bench_t *bench, int rows, const product_t *products, uint32_t count) {
  figures_t out = {0}, unused = {0};
  kiln_arena_t arena = {0};
  const kiln_graph_t *graph = make_graph(&arena, rows, products, count);
  loaded_t loaded = load(bench, &arena, bench->emulated, graph, &out);
  run_counted(&arena, bench->emulated, &loaded, &out);
  kiln_device_unload(bench->emulated, loaded.executable);
  if (bench->cuda) {
    loaded = load(bench, &arena, bench->cuda, graph, &unused);
    require(kiln_device_time(bench->cuda, loaded.executable, NULL, loaded.inputs, 100, &out.event_ns),
            "timing");
    kiln_device_unload(bench->cuda, loaded.executable);
  }
  kiln_arena_deinit(&arena);
  return out;
}

/* --- the table ----------------------------------------------------------------------------------------- */

static void print_set(const bench_t *bench, const set_t *set, int rows) {
  double sms = kiln_device_info(bench->emulated)->target.sm_count, longest_ns = 0, full_ns = 0;
  figures_t apart = {0}, grouped = measure(bench, rows, set->products, set->count);
  for (uint32_t i = 0; i < set->count; i++) {
    figures_t one = measure(bench, rows, &set->products[i], 1);
    apart.estimated_ns += one.estimated_ns;
    apart.sectors += one.sectors;
    apart.instructions += one.instructions;
    apart.event_ns += one.event_ns;
    longest_ns = fmax(longest_ns, one.estimated_ns);
    full_ns += one.estimated_ns * fmin(1, one.blocks / sms);
  }
  double gain = apart.estimated_ns / grouped.estimated_ns,
         most = apart.estimated_ns / fmax(longest_ns, full_ns);
  printf("%-26s %5d %8u %7.3f %6.2f %8.2f %8.3f %7.3f %8.2f %6d", set->name, rows, grouped.launches, 1 / gain,
         gain, gain / most, grouped.sectors / apart.sectors, grouped.instructions / apart.instructions,
         grouped.compile_s, grouped.spilled);
  if (bench->cuda) printf(" %10.3f", grouped.event_ns / apart.event_ns);
  printf("\n");
}

int main(int argc, char **argv) {
  bench_t bench = {0};
  const kiln_device_spec_t cuda = {.kind = KILN_DEVICE_CUDA};
  kiln_device_spec_t emulated;
  setvbuf(stdout, NULL, _IOLBF, 0);
  require(kiln_compiler_create(NULL, &bench.compiler), "NVRTC");
  require(kiln_device_spec_parse("emulated:h200", &emulated), "emulated");
  require(kiln_device_create(&emulated, &bench.emulated), "the emulated device");
  kiln_status_t status = kiln_device_create(&cuda, &bench.cuda);
  kiln_status_free(status);
  printf("%-26s %5s %8s %7s %6s %8s %8s %7s %8s %6s%s\n", "set", "rows", "launches", "time", "gain",
         "of most", "sectors", "instr", "compile", "spills", bench.cuda ? "       GPU" : "");
  for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
    if (argc > 1 && !strstr(sets[i].name, argv[1])) continue;
    for (int rows = 1024; rows <= 2048; rows *= 2) print_set(&bench, &sets[i], rows);
  }
  kiln_device_destroy(bench.cuda);
  kiln_device_destroy(bench.emulated);
  kiln_compiler_destroy(bench.compiler);
  return 0;
}
