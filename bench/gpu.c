/* bench/gpu.c: how fast generated kernels are on a GPU: the day one is there, this is what is looked at
 * first.
 *
 * Each job of bench/gpu.def is compiled for the device as the daemon would, and its launches are timed with
 * the driver's events, back to back. Beside it stand, from the same run: a device-to-device copy that moves
 * as many bytes (achieved bandwidth over it), the arithmetic peak of the device, and the emulated device's
 * estimate. Operands that fit in L2 stay there, for the copy as for the kernels; the large sizes do not fit.
 *
 * Usage: gpu [--versions] [--largest 1|2|3] [--seconds S] [--json FILE] [PART OF A FAMILY OR JOB]
 * Ends with 77 where there is no GPU. With libkiln-emu as libcuda.so.1 it runs without a GPU; times are then
 * those of the host.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/half.h"
#include "ir/text.h"
#include "runtime/device.h"
#include "runtime/driver/cuda.h"
#include "server/pipeline.h"

enum { MOST_TENSORS = 32, SIZES = 3, PATTERN_BYTES = 1 << 20, MOST_REPEATS = 200, WITHOUT_DEVICE = 77 };

static const double measure_ns = 1e8;            /* about this long for one figure */
static const double longest_estimate_ns = 1.5e9; /* host time of one execution on the emulated device */

typedef struct {
  const char *family, *name;
  long long sizes[SIZES];
  double flops;
  int power;
  const char *graph;
} job_t;

static const job_t jobs[] = {
#define KILN_GPU_JOB(family, name, small, medium, large, flops, power, graph)                                \
  {family, name, {small, medium, large}, flops, power, graph},
#include "bench/gpu.def"
#undef KILN_GPU_JOB
};

typedef struct {
  const char *part, *json_path;
  int largest;
  double seconds;
  kiln_compiler_t *compiler;
  kiln_device_t *device, *emulated; /* emulated NULL: no estimates */
  uint64_t begun_ns;
  kiln_buffer_t json;
  unsigned measured, left_out;
} bench_t;

/* Of one job at one size; 0 where it is not known. */
typedef struct {
  double bytes, flops, time_ns, copy_ns, estimate_ns;
  uint32_t launches;
} figures_t;

static void require(kiln_status_t status, const char *what) {
  if (!status) return;
  const char *log = kiln_status_detail(status, "log");
  fprintf(stderr, "bench/gpu: %s: %s\n%s", what, kiln_status_message(status), log ? log : "");
  exit(1);
}

/* --- operands ------------------------------------------------------------------------------------------ */

/* Element i of a pattern that is neither constant nor large. */
static void put_element(char *to, kiln_dtype_t dtype, uint32_t i) {
  float value = (float)(i * 2654435761u >> 8) * 0x1p-23f - 1;
  uint16_t half = dtype == KILN_DTYPE_bf16 ? kiln_bf16_from_f32(value) : kiln_f16_from_f32(value);
  if (dtype == KILN_DTYPE_f32)
    memcpy(to, &value, sizeof value);
  else
    memcpy(to, &half, sizeof half);
}

static kiln_host_span_t make_operand(kiln_arena_t *arena, const kiln_plan_tensor_t *tensor) {
  kiln_host_span_t span;
  uint64_t bytes = 0, element = kiln_dtype_bytes(tensor->type.dtype);
  require(kiln_plan_tensor_bytes(tensor, NULL, &bytes), "operands");
  span = (kiln_host_span_t){kiln_arena_alloc(arena, bytes), bytes};
  uint64_t first = bytes < PATTERN_BYTES ? bytes : PATTERN_BYTES;
  for (uint64_t at = 0; at < first; at += element)
    put_element((char *)span.data + at, tensor->type.dtype, (uint32_t)(at / element));
  for (uint64_t at = first; at < bytes; at += first)
    memcpy((char *)span.data + at, span.data, first < bytes - at ? first : bytes - at);
  return span;
}

/* --- a graph on a device ------------------------------------------------------------------------------- */

typedef struct {
  kiln_device_t *device;
  const kiln_plan_t *plan;
  kiln_executable_t *executable;
  const kiln_host_span_t *inputs;
} loaded_t;

static const char *with_size(kiln_arena_t *arena, const char *graph, long long size) {
  kiln_buffer_t *text = kiln_buffer_in_arena(arena);
  for (; *graph; graph++) {
    if (*graph == '@')
      kiln_buffer_printf(text, "%lld", size);
    else
      kiln_buffer_append(text, graph, 1);
  }
  return kiln_buffer_text(text);
}

static loaded_t load(const bench_t *bench, kiln_arena_t *arena, kiln_device_t *device, const job_t *job,
                     long long size) {
  static const kiln_options_t options = {0};
  static const kiln_symbol_class_t no_symbols = {{1, 1, 1, 1, 1, 1, 1, 1}, false};
  const kiln_device_info_t *info = kiln_device_info(device);
  const char *text = with_size(arena, job->graph, size);
  kiln_graph_list_t list = {0};
  kiln_pipeline_t pipeline;
  loaded_t out = {.device = device};
  require(kiln_text_parse(arena, job->name, text, strlen(text), &list), job->name);
  const kiln_graph_t *graph = list.graphs[0];
  require(kiln_pipeline_generate(arena, graph, &info->target, &options, &no_symbols, NULL, &pipeline),
          job->name);
  uint32_t count = pipeline.grouping->group_count;
  kiln_digest_t *keys = KILN_NEW_ARRAY(arena, kiln_digest_t, count);
  kiln_kernel_artifact_t *artifacts = KILN_NEW_ARRAY(arena, kiln_kernel_artifact_t, count);
  for (uint32_t i = 0; i < count; i++) {
    const kiln_kernel_source_t *kernel = &pipeline.kernels[i];
    keys[i] =
        kiln_pipeline_kernel_key(kernel->source, &info->target, kiln_compiler_identity(bench->compiler));
    require(kiln_compiler_compile(bench->compiler, arena, kernel->source, kernel->entry, &info->target,
                                  info->image_kind, &artifacts[i]),
            job->name);
  }
  out.plan = kiln_pipeline_plan(arena, &pipeline, keys);
  require(kiln_device_load(device, out.plan, artifacts, &out.executable), job->name);
  kiln_host_span_t *inputs = KILN_NEW_ARRAY(arena, kiln_host_span_t, out.plan->input_count);
  for (uint32_t i = 0; i < out.plan->input_count; i++) inputs[i] = make_operand(arena, &out.plan->inputs[i]);
  out.inputs = inputs;
  return out;
}

static double time_of(const loaded_t *loaded, uint32_t repeat, const char *name) {
  double ns = 0;
  require(kiln_device_time(loaded->device, loaded->executable, NULL, loaded->inputs, repeat, &ns), name);
  return ns;
}

static double tensor_bytes(const kiln_plan_t *plan) {
  double total = 0;
  for (uint32_t i = 0; i < plan->input_count + plan->output_count; i++) {
    uint64_t bytes = 0;
    const kiln_plan_tensor_t *tensor =
        i < plan->input_count ? &plan->inputs[i] : &plan->outputs[i - plan->input_count];
    require(kiln_plan_tensor_bytes(tensor, NULL, &bytes), "sizes");
    total += (double)bytes;
  }
  return total;
}

/* --- figures ------------------------------------------------------------------------------------------- */

static uint32_t repeats_for(double once_ns) {
  double repeats = once_ns > 0 ? measure_ns / once_ns : MOST_REPEATS;
  return repeats < 1 ? 1 : repeats > MOST_REPEATS ? MOST_REPEATS : (uint32_t)repeats;
}

static void measure(const bench_t *bench, const job_t *job, long long size, figures_t *out) {
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  loaded_t loaded = load(bench, &arena, bench->device, job, size);
  out->bytes = tensor_bytes(loaded.plan);
  out->launches = loaded.plan->launch_count;
  uint32_t repeat = repeats_for(time_of(&loaded, 1, job->name));
  out->time_ns = time_of(&loaded, repeat, job->name);
  require(kiln_device_time_copy(bench->device, (uint64_t)(out->bytes / 2), repeat, &out->copy_ns), "copying");
  kiln_device_unload(bench->device, loaded.executable);
  kiln_arena_deinit(&arena);
}

/* Launches between the last reading of the counters and now. */
static double read_estimate(kiln_device_t *emulated) {
  static const char field[] = "\"estimated_ns\":";
  kiln_buffer_t json;
  double total = 0;
  kiln_buffer_init(&json);
  require(kiln_device_counters(emulated, &json), "counters");
  for (const char *at = kiln_buffer_text(&json); (at = strstr(at, field));)
    total += atof(at += strlen(field));
  kiln_buffer_deinit(&json);
  return total;
}

/* kiln_device_time runs everything twice. *host_ns: what one execution took here. */
static double estimate(const bench_t *bench, const job_t *job, long long size, double *host_ns) {
  kiln_arena_t arena;
  kiln_arena_init(&arena, 0);
  loaded_t loaded = load(bench, &arena, bench->emulated, job, size);
  require(kiln_device_count(bench->emulated, true), "counting");
  *host_ns = time_of(&loaded, 1, job->name);
  double ns = read_estimate(bench->emulated) / 2;
  kiln_device_unload(bench->emulated, loaded.executable);
  kiln_arena_deinit(&arena);
  return ns;
}

/* --- peaks --------------------------------------------------------------------------------------------- */

/* Floating-point operations of an SM per clock. Source: peak rates in NVIDIA's data sheets and architecture
 * papers over SMs and boost clock: dense f16 and bf16 with f32 sums on tensor cores; f32 without them. */
static double flops_per_clock(const kiln_target_t *target, bool is_half) {
  static const struct {
    uint32_t major, minor;
    double half, single;
  } rows[] = {{8, 0, 2048, 128},  {8, 6, 1024, 256},  {8, 9, 1024, 256}, {9, 0, 4096, 256},
              {10, 0, 8192, 256}, {12, 0, 1024, 256}, {12, 1, 1024, 256}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (rows[i].major == target->major && rows[i].minor == target->minor)
      return is_half ? rows[i].half : rows[i].single;
  }
  return 0;
}

/* Operations per nanosecond; 0: not known. */
static double peak_of(const bench_t *bench, const job_t *job) {
  const kiln_device_info_t *info = kiln_device_info(bench->device);
  bool is_half = strstr(job->name, "f16") != NULL; /* f16 or bf16 */
  return flops_per_clock(&info->target, is_half) * info->target.sm_count * info->clock_khz / 1e6;
}

/* --- the table ----------------------------------------------------------------------------------------- */

static void print_head(const bench_t *bench) {
  printf("%-13s %-42s %10s %7s %10s %8s %7s %8s %7s", "family", "job", "n", "launch", "us", "GB/s", "/ copy",
         "TFLOP/s", "/ peak");
  printf(" %12s\n", bench->emulated ? "estimate us" : "");
}

static void print_or_dash(const char *format_width, double value, int digits) {
  int width = atoi(format_width);
  if (value > 0)
    printf(" %*.*f", width, digits, value);
  else
    printf(" %*s", width, "-");
}

static void put_row(bench_t *bench, const job_t *job, long long size, const figures_t *f, double peak) {
  double gb_per_s = f->bytes / f->time_ns, tflops = f->flops / f->time_ns / 1000;
  printf("%-13s %-42s %10lld %7u %10.2f %8.1f %7.3f", job->family, job->name, size, f->launches,
         f->time_ns / 1e3, gb_per_s, f->copy_ns / f->time_ns);
  print_or_dash("8", tflops, 2);
  print_or_dash("7", peak > 0 ? tflops * 1000 / peak : 0, 3);
  print_or_dash("12", f->estimate_ns / 1e3, 2);
  puts("");
  fflush(stdout);
  kiln_buffer_printf(
      &bench->json,
      "%s\n  {\"family\": \"%s\", \"job\": \"%s\", \"n\": %lld, \"launches\": %u, \"time_ns\": %.0f, "
      "\"bytes\": %.0f, \"copy_ns\": %.0f, \"flops\": %.0f, \"peak_flops_per_ns\": %.1f, "
      "\"estimate_ns\": %.0f}",
      bench->measured ? "," : "", job->family, job->name, size, f->launches, f->time_ns, f->bytes, f->copy_ns,
      f->flops, peak, f->estimate_ns);
}

static double elapsed_s(const bench_t *bench) {
  return (double)(kiln_clock_monotonic_ns() - bench->begun_ns) / 1e9;
}

static void run_job(bench_t *bench, const job_t *job) {
  double host_ns = 0, before = 0; /* of the size before on the emulated device, and its work */
  for (int i = 0; i < bench->largest; i++) {
    figures_t f = {.flops = job->flops};
    if (elapsed_s(bench) > bench->seconds) {
      bench->left_out++;
      continue;
    }
    for (int p = 0; p < job->power; p++) f.flops *= (double)job->sizes[i];
    measure(bench, job, job->sizes[i], &f);
    double work = f.flops > 0 ? f.flops : f.bytes;
    if (bench->emulated && (!i || host_ns * work / before < longest_estimate_ns))
      f.estimate_ns = estimate(bench, job, job->sizes[i], &host_ns);
    else
      host_ns = longest_estimate_ns; /* nor for what is larger still */
    before = work;
    put_row(bench, job, job->sizes[i], &f, f.flops > 0 ? peak_of(bench, job) : 0);
    bench->measured++;
  }
}

/* --- opening ------------------------------------------------------------------------------------------- */

static void open_cuda(bench_t *bench) {
  const kiln_device_spec_t cuda = {.kind = KILN_DEVICE_CUDA};
  kiln_status_t status = kiln_device_create(&cuda, &bench->device);
  if (!status) return;
  printf("driver: none that can be used: %s\n", kiln_status_message(status));
  exit(WITHOUT_DEVICE);
}

static int driver_version(char *path, size_t path_bytes) {
  kiln_cuda_t cuda;
  int version = 0;
  require(kiln_cuda_open("libcuda.so.1", &cuda), "driver");
  require(kiln_cuda_status(&cuda, cuda.cuDriverGetVersion(&version), "cuDriverGetVersion"), "driver");
  snprintf(path, path_bytes, "%s", cuda.library.path);
  kiln_cuda_close(&cuda);
  return version;
}

/* One line on the driver, one on NVRTC, each with what it lacks. */
static void print_versions(const bench_t *bench) {
  const kiln_device_info_t *info = kiln_device_info(bench->device);
  const char *identity = kiln_compiler_identity(bench->compiler);
  char path[512];
  int driver = driver_version(path, sizeof path), major = 0, minor = 0;
  sscanf(identity, "NVRTC %d.%d", &major, &minor);
  printf("driver: %s, CUDA %d.%d; %s, %s, %u SMs, %.0f GiB%s\n", path, driver / 1000, driver % 1000 / 10,
         info->name, info->target.arch, info->target.sm_count, (double)info->memory_bytes / (1 << 30),
         driver < 12010 ? ": OLDER than CUDA 12.1, which kiln needs" : "");
  bool knows = kiln_compiler_supports(bench->compiler, &info->target, KILN_IMAGE_CUBIN);
  bool newer = driver < major * 1000 + minor * 10;
  printf("NVRTC: %s, %d.%d%s%s%s\n", kiln_compiler_library(bench->compiler), major, minor,
         knows ? ", knows " : ": DOES NOT KNOW ", info->target.arch,
         newer ? "; newer than the driver, which may refuse its PTX (tests written in PTX would fail)" : "");
}

static void open_emulated(bench_t *bench) {
  kiln_device_spec_t spec;
  const kiln_target_t *target = &kiln_device_info(bench->device)->target;
  require(kiln_device_spec_parse(target->major == 8 ? "emulated:a100" : "emulated:h200", &spec), "emulated");
  kiln_status_t status = kiln_device_create(&spec, &bench->emulated);
  if (status) printf("no estimates: %s\n", kiln_status_message(status));
  kiln_status_free(status);
}

static int usage(void) {
  fputs("usage: gpu [--versions] [--largest 1|2|3] [--seconds S] [--json FILE] [PART OF A FAMILY OR JOB]\n",
        stderr);
  return 2;
}

/* False on misuse. */
static bool read_arguments(bench_t *bench, char **argument, bool *out_versions) {
  while (*++argument) {
    const char *name = *argument;
    if (!strcmp(name, "--versions")) {
      *out_versions = true;
    } else if (strncmp(name, "--", 2) != 0) {
      bench->part = name;
    } else if (!argument[1]) {
      return false;
    } else if (!strcmp(name, "--largest")) {
      bench->largest = atoi(*++argument);
    } else if (!strcmp(name, "--seconds")) {
      bench->seconds = atof(*++argument);
    } else if (!strcmp(name, "--json")) {
      bench->json_path = *++argument;
    } else {
      return false;
    }
  }
  return bench->largest >= 1 && bench->largest <= SIZES;
}

static void write_json(bench_t *bench) {
  const kiln_device_info_t *info = kiln_device_info(bench->device);
  FILE *file = bench->json_path ? fopen(bench->json_path, "w") : NULL;
  if (!bench->json_path) return;
  if (!file || bench->json.failed) {
    fprintf(stderr, "bench/gpu: cannot write %s\n", bench->json_path);
    exit(1);
  }
  fprintf(file,
          "{\"device\": \"%s\", \"target\": \"%s\", \"sm_count\": %u, \"clock_khz\": %u, \"left_out\": %u,\n",
          info->name, info->target.arch, info->target.sm_count, info->clock_khz, bench->left_out);
  fprintf(file, " \"rows\": [%s\n]}\n", kiln_buffer_text(&bench->json));
  fclose(file);
}

int main(int argc, char **argv) {
  bench_t bench = {.largest = SIZES, .seconds = 1e9, .begun_ns = kiln_clock_monotonic_ns()};
  bool versions_only = false;
  (void)argc;
  if (!read_arguments(&bench, argv, &versions_only)) return usage();
  open_cuda(&bench);
  require(kiln_compiler_create(NULL, &bench.compiler), "NVRTC");
  print_versions(&bench);
  if (!versions_only) {
    open_emulated(&bench);
    print_head(&bench);
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
      bool wanted = !bench.part || strstr(jobs[i].family, bench.part) || strstr(jobs[i].name, bench.part);
      if (wanted) run_job(&bench, &jobs[i]);
    }
    printf("%u measured, %u left out for time\n", bench.measured, bench.left_out);
    write_json(&bench);
  }
  kiln_device_destroy(bench.emulated);
  kiln_device_destroy(bench.device);
  kiln_compiler_destroy(bench.compiler);
  kiln_buffer_deinit(&bench.json);
  return 0;
}
