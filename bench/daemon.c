/* bench/daemon.c: what the daemon adds to the work itself, as ratios within one run.
 *
 *   cold compile: a new one-kernel graph through the daemon / the same source, with the same options, in a
 * bare process that only holds NVRTC, equally warm; medians of 15 interleaved rounds. At most 1.25. memory
 * hit:   an execution with small inline tensors / the same bytes sent over the same hops (client, server,
 * device and back) by processes that do nothing else; medians of 2,000 interleaved rounds. At most 1.5. idle
 * memory:  private bytes of all the daemon's processes before the first compile. Under 30 MB.
 *
 * Starts a daemon of its own on the emulated device, with its own folders, and ends it. Exits 1 when a bound
 * is passed.
 */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "ir/text.h"
#include "kiln/kiln.h"
#include "runtime/compile.h"
#include "server/pipeline.h"

enum { COLD_ROUNDS = 15, WARM_ROUNDS = 4, HIT_ROUNDS = 2000, MESSAGE_LIMIT = 1 << 20 };

static void fail(const char *what, kiln_status_t status) {
  fprintf(stderr, "bench/daemon: %s: %s\n", what, kiln_failure_message(status));
  exit(1);
}

static int ascending(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

static double median_us(uint64_t *samples_ns, size_t count) {
  qsort(samples_ns, count, sizeof *samples_ns, ascending);
  return (double)samples_ns[count / 2] / 1e3;
}

/* -- bytes over sockets
 * -------------------------------------------------------------------------------------- */

static bool move_bytes(int descriptor, char *bytes, size_t size, bool out) {
  while (size > 0) {
    ssize_t moved = out ? send(descriptor, bytes, size, MSG_NOSIGNAL) : recv(descriptor, bytes, size, 0);
    if (moved <= 0) return false;
    bytes += moved;
    size -= (size_t)moved;
  }
  return true;
}

static bool send_block(int descriptor, char *bytes, uint32_t size) {
  return move_bytes(descriptor, (char *)&size, sizeof size, true) &&
         move_bytes(descriptor, bytes, size, true);
}

static bool receive_block(int descriptor, char *bytes, uint32_t *out_size) {
  return move_bytes(descriptor, (char *)out_size, sizeof *out_size, false) && *out_size <= MESSAGE_LIMIT &&
         move_bytes(descriptor, bytes, *out_size, false);
}

/* A child that runs serve() on its end of a socket pair; returns the other end. */
static int start_process(void (*serve)(int descriptor, void *argument), void *argument) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) {
    perror("bench/daemon: socketpair");
    exit(1);
  }
  if (fork() == 0) {
    close(pair[0]);
    serve(pair[1], argument);
    _exit(0);
  }
  close(pair[1]);
  return pair[0];
}

/* -- the bare compiler
 * --------------------------------------------------------------------------------------- */

static void serve_compiler(int descriptor, void *argument) {
  const kiln_target_t *target = argument;
  static char source[MESSAGE_LIMIT + 1];
  kiln_compiler_t *compiler;
  kiln_status_t status = kiln_compiler_create(NULL, &compiler);
  if (status) fail("NVRTC", status);
  for (uint32_t size; receive_block(descriptor, source, &size);) {
    source[size] = 0;
    kiln_arena_t arena;
    kiln_arena_init(&arena, 0);
    kiln_kernel_artifact_t artifact;
    status = kiln_compiler_compile(compiler, &arena, source, "kiln_elementwise", target, KILN_IMAGE_PTX,
                                   &artifact);
    if (status) fail("bare compile", status);
    kiln_arena_deinit(&arena);
    send_block(descriptor, source, 1);
  }
}

/* The generated source of a graph of one kernel. */
static const char *source_of(kiln_arena_t *arena, const kiln_target_t *target, const char *text) {
  kiln_graph_list_t graphs = {0};
  kiln_pipeline_t pipeline = {0};
  kiln_symbol_class_t any = {.multiple = {1, 1, 1, 1, 1, 1, 1, 1}};
  kiln_status_t status = kiln_text_parse(arena, "bench", text, strlen(text), &graphs);
  if (!status) {
    status =
        kiln_pipeline_generate(arena, graphs.graphs[0], target, &(kiln_options_t){0}, &any, NULL, &pipeline);
  }
  if (status) fail("source", status);
  return pipeline.kernels[0].source;
}

static uint64_t daemon_compile_ns(kiln_client_t *client, const char *graph) {
  uint64_t begin_ns = kiln_clock_monotonic_ns();
  kiln_program_t *program;
  kiln_status_t status = kiln_compile(client, &(kiln_compile_options_t){.graph = graph}, &program);
  if (status) fail("compile", status);
  uint64_t took_ns = kiln_clock_monotonic_ns() - begin_ns;
  if (strcmp(kiln_program_info(program)->cache, "compiled") != 0) {
    fprintf(stderr, "bench/daemon: a new graph came from the %s cache\n", kiln_program_info(program)->cache);
    exit(1);
  }
  kiln_program_free(program);
  return took_ns;
}

static uint64_t bare_compile_ns(int bare, const char *source) {
  static char block[MESSAGE_LIMIT];
  uint32_t size = (uint32_t)strlen(source);
  memcpy(block, source, size);
  uint64_t begin_ns = kiln_clock_monotonic_ns();
  if (!send_block(bare, block, size) || !receive_block(bare, block, &size)) fail("bare compile", NULL);
  return kiln_clock_monotonic_ns() - begin_ns;
}

/* The two take turns at going first, since who compiles second finds NVRTC's pages in the processor's caches.
 */
static double bench_cold_compile(kiln_client_t *client, int bare, const kiln_target_t *target) {
  static uint64_t daemon_ns[COLD_ROUNDS], bare_ns[COLD_ROUNDS];
  for (int round = -WARM_ROUNDS; round < COLD_ROUNDS; round++) {
    char graph[512];
    snprintf(graph, sizeof graph,
             "graph g(%%x: f32[1000,300], %%y: f32[300]) {\n  %%a = mul(%%x, %%y)\n  %%c = full() {shape=[], "
             "value=%d.5, "
             "dtype=f32}\n  %%b = add(%%a, %%c)\n  %%z = tanh(%%b)\n  return %%z\n}\n",
             round + 100);
    kiln_arena_t arena;
    kiln_arena_init(&arena, 0);
    const char *source = source_of(&arena, target, graph);
    uint64_t took_ns[2];
    for (int turn = 0; turn < 2; turn++) {
      bool through_daemon = (turn ^ round) & 1;
      took_ns[through_daemon] =
          through_daemon ? daemon_compile_ns(client, graph) : bare_compile_ns(bare, source);
    }
    if (round >= 0) {
      bare_ns[round] = took_ns[0];
      daemon_ns[round] = took_ns[1];
    }
    kiln_arena_deinit(&arena);
  }
  double daemon_us = median_us(daemon_ns, COLD_ROUNDS), bare_us = median_us(bare_ns, COLD_ROUNDS);
  printf("cold compile, one kernel     %8.1f ms   bare NVRTC %8.1f ms   ratio %.3f (at most 1.25)\n",
         daemon_us / 1e3, bare_us / 1e3, daemon_us / bare_us);
  return daemon_us / bare_us;
}

/* -- the memory hit
 * ------------------------------------------------------------------------------------------ */

/* The last hop: answers each block with `answer bytes` bytes. */
static void serve_echo(int descriptor, void *argument) {
  static char block[MESSAGE_LIMIT];
  for (uint32_t size; receive_block(descriptor, block, &size);)
    send_block(descriptor, block, *(uint32_t *)argument);
}

/* The hop between: passes blocks on, and answers back. */
static void serve_relay(int descriptor, void *argument) {
  static char block[MESSAGE_LIMIT];
  int next = start_process(serve_echo, argument);
  for (uint32_t size; receive_block(descriptor, block, &size);) {
    if (!send_block(next, block, size) || !receive_block(next, block, &size)) return;
    send_block(descriptor, block, size);
  }
}

static double bench_memory_hit(kiln_client_t *client) {
  const char *graph = "graph hit(%x: f32[64], %y: f32[64]) { %z = add(%x, %y) return %z }";
  kiln_program_t *program;
  kiln_status_t status = kiln_compile(client, &(kiln_compile_options_t){.graph = graph}, &program);
  if (status) fail("compile", status);
  float data[2][64] = {{1}, {2}};
  kiln_array_t inputs[2];
  for (int i = 0; i < 2; i++) {
    inputs[i] = (kiln_array_t){
        .dtype = "f32", .rank = 1, .shape = {64}, .data = data[i], .size_bytes = sizeof data[i]};
  }
  uint32_t answer_bytes = sizeof data[0] + 150; /* the output and the reply's other fields */
  static char block[MESSAGE_LIMIT];
  int relay = start_process(serve_relay, &answer_bytes);
  static uint64_t hit_ns[HIT_ROUNDS], echo_ns[HIT_ROUNDS];
  for (int round = -100; round < HIT_ROUNDS; round++) {
    kiln_reply_t *reply;
    uint64_t begin_ns = kiln_clock_monotonic_ns();
    status = kiln_execute(program, &(kiln_execution_t){.inputs = inputs, .input_count = 2}, 0, &reply);
    if (status) fail("execute", status);
    kiln_reply_free(reply);
    uint64_t between_ns = kiln_clock_monotonic_ns();
    uint32_t size = sizeof data + 100; /* the inputs and the request's other fields */
    if (!send_block(relay, block, size) || !receive_block(relay, block, &size)) fail("echo", NULL);
    if (round >= 0) {
      hit_ns[round] = between_ns - begin_ns;
      echo_ns[round] = kiln_clock_monotonic_ns() - between_ns;
    }
  }
  close(relay);
  kiln_program_free(program);
  double hit_us = median_us(hit_ns, HIT_ROUNDS), echo_us = median_us(echo_ns, HIT_ROUNDS);
  printf("memory hit, 64 + 64 f32      %8.1f us   ping-pong  %8.1f us   ratio %.3f (at most 1.5)\n", hit_us,
         echo_us, hit_us / echo_us);
  return hit_us / echo_us;
}

/* -- the daemon
 * ---------------------------------------------------------------------------------------------- */

/* Private bytes of a process and of all its descendants. */
static uint64_t private_bytes(pid_t root) {
  uint64_t sum = 0;
  DIR *folder = opendir("/proc");
  for (struct dirent *entry; folder && (entry = readdir(folder));) {
    pid_t pid = atoi(entry->d_name), ancestor = pid;
    char path[64], line[256];
    while (ancestor > 1 && ancestor != root) {
      snprintf(path, sizeof path, "/proc/%d/stat", ancestor);
      FILE *stat = fopen(path, "r");
      if (!stat || !fgets(line, sizeof line, stat) ||
          sscanf(strrchr(line, ')') + 1, " %*c %d", &ancestor) != 1)
        ancestor = 0;
      if (stat) fclose(stat);
    }
    if (ancestor != root || pid == 0) continue;
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", pid);
    FILE *rollup = fopen(path, "r");
    while (rollup && fgets(line, sizeof line, rollup)) {
      unsigned long kilobytes;
      if (sscanf(line, "Private_%*[^:]: %lu", &kilobytes) == 1) sum += kilobytes * 1024;
    }
    if (rollup) fclose(rollup);
  }
  if (folder) closedir(folder);
  return sum;
}

static pid_t start_daemon(const char *folder) {
  pid_t daemon = fork();
  if (daemon != 0) return daemon;
  char program[512], listen[512], cache[512];
  snprintf(program, sizeof program, "%s/bin/kilnd",
           getenv("KILN_BUILD_DIR") ? getenv("KILN_BUILD_DIR") : "build");
  snprintf(listen, sizeof listen, "unix:%s/kiln.sock", folder);
  snprintf(cache, sizeof cache, "%s/cache", folder);
  execl(program, "kilnd", "--listen", listen, "--device", "emulated", "--cache-dir", cache, "--log-level",
        "error", NULL);
  perror(program);
  _exit(127);
}

int main(void) {
  char folder[] = "/tmp/kiln-bench-XXXXXX", socket_path[64];
  if (!mkdtemp(folder)) {
    perror("bench/daemon: /tmp");
    return 1;
  }
  snprintf(socket_path, sizeof socket_path, "%s/kiln.sock", folder);
  kiln_target_t target;
  kiln_status_t status = kiln_target_parse("sm_90", &target);
  if (status) fail("target", status);
  int bare = start_process(serve_compiler, &target);
  pid_t daemon = start_daemon(folder);
  kiln_client_t *client = NULL;
  for (int tries = 0; tries < 100 && (tries == 0 || status); tries++) {
    kiln_failure_free(status);
    status = kiln_connect(&(kiln_connect_options_t){.socket = socket_path}, &client);
    if (status) usleep(50 * 1000);
  }
  if (status) fail("connect", status);
  usleep(500 * 1000); /* let the device process come up */
  double idle_mb = (double)private_bytes(daemon) / 1e6;
  printf("idle before the first compile %7.1f MB private in all processes (under 30)\n", idle_mb);
  double cold = bench_cold_compile(client, bare, &target);
  double hit = bench_memory_hit(client);
  kiln_disconnect(client);
  kill(daemon, SIGTERM);
  waitpid(daemon, NULL, 0);
  close(bare);
  char command[128];
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  if (system(command)) perror(command);
  return cold > 1.25 || hit > 1.5 || idle_mb >= 30;
}
