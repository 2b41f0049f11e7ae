/* bench/emulator.c: how fast the emulated device is, as ratios against something measured in the same run.
 *
 * | row | what is measured | bound |
 * |---|---|---|
 * | elementwise | a kernel with one expf per element, on one thread, against the C loop that does the same |
 * 2 | | gemm | f16 tensor-core product against a blocked single-threaded C product in f32 | 6 | | checkers |
 * each of the two with all checkers on against off | 3 | | counters | the element-wise kernel with counters
 * on against off | none | | empty | launch and synchronize a kernel that does nothing, in microseconds | 20 |
 * | cores | wall time of the product on one core against all of them, where the machine is idle | 1.8 on two
 * | | threads | CPU time of the product on all cores against one: what sharing it costs, on any machine |
 * none |
 *
 * Times of one thread are CPU time of the process, so that a busy machine does not disturb them. The program
 * runs itself once more with KILN_EMU_THREADS=1 for what must have one thread. Usage: emulator
 */
#include "base/clock.h"
#include "tests/support/nvrtc_compile.h"

#include "base/cuda_abi.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KILN_CUDA(need, name, params) CUresult name params;
#include "base/cuda.def"
#undef KILN_CUDA

#define ELEMENTS (1u << 20)
#define SIZE 1024u
/* Each time is the least of so many runs: short ones more often, since caches are shared with other work. */
#define SHORT_REPEATS 30
#define LONG_REPEATS 3

static double cpu_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
static double wall_seconds(void) { return 1e-9 * (double)kiln_clock_monotonic_ns(); }

static void check(CUresult result, const char *what) {
  const char *name = NULL;
  if (result == CUDA_SUCCESS) return;
  cuGetErrorName(result, &name);
  fprintf(stderr, "%s: %s\n", what, name);
  exit(1);
}
#define OK(call) check((call), #call)

static const char source[] =
    "extern \"C\" __global__ void empty() {}\n"
    "extern \"C\" __global__ void elementwise(const float *a, float *b, int n) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) b[i] = expf(a[i]) * 0.5f + a[i]; }\n"
    /* c[1024,1024] = a[1024,1024] * b[1024,1024]^T: blocks of 64x64, four warps of 32x32, 32 of k at a time.
     */
    "extern \"C\" __global__ void gemm(const unsigned *a, const unsigned *b, float *c) {\n"
    "  __shared__ __align__(16) unsigned sa[64 * 20], sb[64 * 20];\n"
    "  int t = threadIdx.x, w = t / 32, l = t % 32, m0 = (w / 2) * 32, n0 = (w % 2) * 32;\n"
    "  const uint4 *ga = (const uint4 *)(a + blockIdx.y * 64 * 512), *gb = (const uint4 *)(b + blockIdx.x * "
    "64 * 512);\n"
    "  float d[2][4][4] = {};\n"
    "  for (int k = 0; k < 32; k++) {\n"
    "    for (int i = 0; i < 2; i++) {\n"
    "      int row = t / 4 + 32 * i, part = t % 4;\n"
    "      *(uint4 *)(sa + row * 20 + 4 * part) = ga[row * 128 + k * 4 + part];\n"
    "      *(uint4 *)(sb + row * 20 + 4 * part) = gb[row * 128 + k * 4 + part];\n"
    "    }\n"
    "    __syncthreads();\n"
    "    for (int kk = 0; kk < 2; kk++) {\n"
    "      unsigned fa[2][4], fb[4][2];\n"
    "      for (int i = 0; i < 2; i++) for (int r = 0; r < 4; r++)\n"
    "        fa[i][r] = sa[(m0 + 16 * i + l / 4 + 8 * (r % 2)) * 20 + kk * 8 + l % 4 + 4 * (r / 2)];\n"
    "      for (int j = 0; j < 4; j++) for (int r = 0; r < 2; r++)\n"
    "        fb[j][r] = sb[(n0 + 8 * j + l / 4) * 20 + kk * 8 + l % 4 + 4 * r];\n"
    "      for (int i = 0; i < 2; i++) for (int j = 0; j < 4; j++)\n"
    "        asm volatile(\"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
    "{%8,%9}, \"\n"
    "          \"{%0,%1,%2,%3};\" : \"+f\"(d[i][j][0]), \"+f\"(d[i][j][1]), \"+f\"(d[i][j][2]), "
    "\"+f\"(d[i][j][3])\n"
    "          : \"r\"(fa[i][0]), \"r\"(fa[i][1]), \"r\"(fa[i][2]), \"r\"(fa[i][3]), \"r\"(fb[j][0]), "
    "\"r\"(fb[j][1]));\n"
    "    }\n"
    "    __syncthreads();\n"
    "  }\n"
    "  for (int i = 0; i < 2; i++) for (int j = 0; j < 4; j++) for (int r = 0; r < 4; r++)\n"
    "    c[(blockIdx.y * 64 + m0 + 16 * i + l / 4 + 8 * (r / 2)) * 1024 + blockIdx.x * 64 + n0 + 8 * j + l % "
    "4 * 2 + r % 2]\n"
    "      = d[i][j][r];\n}\n";

/* --- what the emulator is compared with --- */

__attribute__((noinline)) static void c_elementwise(const float *a, float *b, unsigned n) {
  for (unsigned i = 0; i < n; i++) {
    b[i] = expf(a[i]) * 0.5f + a[i];
    __asm__ volatile("" ::: "memory"); /* one element at a time: no vector code */
  }
}

/* c = a * b^T in blocks that stay in the first-level cache. */
static void c_gemm(const float *a, const float *b, float *c) {
  enum { BLOCK = 32 };
  memset(c, 0, sizeof *c * SIZE * SIZE);
  for (unsigned i0 = 0; i0 < SIZE; i0 += BLOCK)
    for (unsigned k0 = 0; k0 < SIZE; k0 += BLOCK)
      for (unsigned j0 = 0; j0 < SIZE; j0 += BLOCK)
        for (unsigned i = i0; i < i0 + BLOCK; i++)
          for (unsigned j = j0; j < j0 + BLOCK; j++) {
            float sum = c[i * SIZE + j];
            for (unsigned k = k0; k < k0 + BLOCK; k++) sum += a[i * SIZE + k] * b[j * SIZE + k];
            c[i * SIZE + j] = sum;
          }
}

/* --- measurements --- */

typedef struct {
  CUfunction empty, elementwise, gemm;
  CUdeviceptr a, b, c;
} device_t;

static CUdeviceptr filled(size_t bytes) {
  CUdeviceptr address;
  OK(cuMemAlloc_v2(&address, bytes));
  OK(cuMemsetD32_v2(address, 0x3c003c00, bytes / 4)); /* halves of 1, floats of 0.0078 */
  return address;
}

static void open_device(device_t *d) {
  CUcontext context;
  CUmodule module;
  char *ptx = test_nvrtc_compile(source, "compute_80", NULL);
  if (!ptx) exit(1);
  OK(cuInit(0));
  OK(cuCtxCreate_v2(&context, 0, 0));
  OK(kilnEmuSetCounting(0));
  OK(kilnEmuSetChecks(KILN_EMU_CHECK_ALL)); /* so that the memory has its shadows; off again below */
  OK(cuModuleLoadData(&module, ptx));
  free(ptx);
  OK(cuModuleGetFunction(&d->empty, module, "empty"));
  OK(cuModuleGetFunction(&d->elementwise, module, "elementwise"));
  OK(cuModuleGetFunction(&d->gemm, module, "gemm"));
  d->a = filled(sizeof(float) * ELEMENTS);
  d->b = filled(sizeof(float) * ELEMENTS);
  d->c = filled(sizeof(float) * ELEMENTS);
  OK(kilnEmuSetChecks(0));
}

static void run_elementwise(const device_t *d) {
  device_t copy = *d;
  int n = (int)ELEMENTS;
  OK(cuLaunchKernel(d->elementwise, ELEMENTS / 256, 1, 1, 256, 1, 1, 0, NULL,
                    (void *[]){&copy.a, &copy.c, &n}, NULL));
  OK(cuCtxSynchronize());
}
static void run_gemm(const device_t *d) {
  device_t copy = *d;
  OK(cuLaunchKernel(d->gemm, SIZE / 64, SIZE / 64, 1, 128, 1, 1, 0, NULL,
                    (void *[]){&copy.a, &copy.b, &copy.c}, NULL));
  OK(cuCtxSynchronize());
}

/* The least of some runs after one to warm up. */
static double least(void (*run)(const device_t *), const device_t *d, double (*clock)(void)) {
  int repeats = run == run_elementwise ? SHORT_REPEATS : LONG_REPEATS;
  double best = INFINITY;
  run(d);
  for (int n = 0; n < repeats; n++) {
    double start = clock();
    run(d);
    double took = clock() - start;
    best = took < best ? took : best;
  }
  return best;
}

static void report(const char *name, double value, const char *unit, const char *bound) {
  printf("%-12s %8.2f%s  (%s)\n", name, value, unit, bound);
}

/* What all checkers cost a run that takes `unchecked` without them. */
static void report_checkers(void (*run)(const device_t *), const device_t *d, double unchecked,
                            const char *bound) {
  OK(kilnEmuSetChecks(KILN_EMU_CHECK_ALL));
  report("checkers", least(run, d, cpu_seconds) / unchecked, "", bound);
  OK(kilnEmuSetChecks(0));
}

static void measure_elementwise(const device_t *d) {
  float *a = malloc(sizeof *a * ELEMENTS), *b = malloc(sizeof *b * ELEMENTS);
  if (!a || !b) exit(1);
  for (unsigned n = 0; n < ELEMENTS; n++) a[n] = 0.0078f;
  double host = INFINITY;
  for (int n = 0; n <= SHORT_REPEATS; n++) {
    double start = cpu_seconds();
    c_elementwise(a, b, ELEMENTS);
    double took = cpu_seconds() - start;
    host = took < host ? took : host;
  }
  double device = least(run_elementwise, d, cpu_seconds);
  report("elementwise", device / host, "", "at most 2: emulated against the C loop, one thread");
  report_checkers(run_elementwise, d, device, "at most 3: the same with all checkers on against off");
  OK(kilnEmuSetCounting(1));
  report("counters", least(run_elementwise, d, cpu_seconds) / device, "",
         "the same with counters on against off");
  OK(kilnEmuSetCounting(0));
  free(a);
  free(b);
}

static void measure_gemm(const device_t *d) {
  float *a = malloc(sizeof *a * SIZE * SIZE), *b = malloc(sizeof *b * SIZE * SIZE),
        *c = malloc(sizeof *c * SIZE * SIZE);
  if (!a || !b || !c) exit(1);
  for (unsigned n = 0; n < SIZE * SIZE; n++) a[n] = b[n] = 1;
  double start = cpu_seconds();
  c_gemm(a, b, c);
  double host = cpu_seconds() - start, device = least(run_gemm, d, cpu_seconds);
  OK(cuMemcpyDtoH_v2(b, d->c, sizeof *b * SIZE * SIZE));
  if (memcmp(b, c, sizeof *b * SIZE * SIZE) != 0) {
    fprintf(stderr, "the two products differ\n");
    exit(1);
  }
  report("gemm", device / host, "", "at most 6: emulated tensor cores against blocked C, one thread");
  report_checkers(run_gemm, d, device, "at most 3: the same with all checkers on against off");
  free(a);
  free(b);
  free(c);
}

static void measure_empty(const device_t *d) {
  enum { LAUNCHES = 20000 };
  double start = wall_seconds();
  for (int n = 0; n < LAUNCHES; n++) {
    OK(cuLaunchKernel(d->empty, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
    OK(cuCtxSynchronize());
  }
  report("empty", 1e6 * (wall_seconds() - start) / LAUNCHES, " us", "at most 20: launch and synchronize");
}

/* In the child: everything on one thread; prints the times of the product last, for the parent. */
static int single_threaded(void) {
  device_t d;
  open_device(&d);
  measure_elementwise(&d);
  measure_gemm(&d);
  measure_empty(&d);
  printf("gemm_seconds %.6f %.6f\n", least(run_gemm, &d, wall_seconds), least(run_gemm, &d, cpu_seconds));
  return 0;
}

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "--single") == 0) return single_threaded();
  char command[4096], line[256];
  double wall = 0, cpu = 0;
  snprintf(command, sizeof command, "KILN_EMU_THREADS=1 '%s' --single", argv[0]);
  FILE *child = popen(command, "r");
  if (!child) return 1;
  while (fgets(line, sizeof line, child))
    if (sscanf(line, "gemm_seconds %lf %lf", &wall, &cpu) != 2) fputs(line, stdout);
  if (pclose(child) != 0) return 1;
  device_t d;
  open_device(&d);
  report("cores", wall / least(run_gemm, &d, wall_seconds), "",
         "at least 1.8 on two idle cores: one against all");
  report("threads", least(run_gemm, &d, cpu_seconds) / cpu, "", "CPU time on all cores against one");
  return 0;
}
