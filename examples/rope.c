/* examples/rope.c: a program that uses libkiln: half a rotary embedding, compiled once, executed twice.
 *
 *   cc rope.c -lkiln -lm -o rope && kilnd & ./rope
 *
 * The graph uses each frequency twice along the last axis and has the sequence length as a symbol, so that
 * one compiled program serves every length. Results are compared with the C library's cosines.
 */
#include <kiln/kiln.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { WIDTH = 64, MAX_LENGTH = 48 };

static const char graph[] = "graph table[T=16](%freqs: f32[T,64]) {\n"
                            "  %emb = cat(%freqs, %freqs) {dim=1}\n"
                            "  %cos = cos(%emb)\n"
                            "  return %cos\n"
                            "}\n";

/* Prints what went wrong and ends. */
static void check(kiln_status_t failure) {
  if (!failure) return;
  fprintf(stderr, "rope: %s\n", kiln_failure_message(failure));
  kiln_failure_free(failure);
  exit(1);
}

/* The largest difference between the result and cosines computed here. */
static double largest_difference(const float *freqs, const float *result, int length) {
  double largest = 0;
  for (int t = 0; t < length; t++)
    for (int i = 0; i < 2 * WIDTH; i++)
      largest = fmax(largest, fabs(result[t * 2 * WIDTH + i] - cos(freqs[t * WIDTH + i % WIDTH])));
  return largest;
}

static void execute(kiln_program_t *program, const float *freqs, int length) {
  kiln_array_t input = {.dtype = "f32",
                        .rank = 2,
                        .shape = {length, WIDTH},
                        .data = (void *)freqs,
                        .size_bytes = sizeof(float) * (size_t)length * WIDTH};
  kiln_execution_t execution = {.inputs = &input, .input_count = 1};
  kiln_execution_info_t info;
  kiln_reply_t *reply;
  kiln_array_t output;
  check(kiln_execute(program, &execution, 0, &reply));
  check(kiln_reply_execution(reply, &info));
  check(kiln_reply_output(reply, 0, &output));
  printf("T=%d: %u launch, plan from %s, largest difference %.1e\n", length, info.launches, info.cache,
         largest_difference(freqs, output.data, length));
  kiln_reply_free(reply);
}

int main(void) {
  static float freqs[MAX_LENGTH * WIDTH];
  kiln_client_t *client;
  kiln_program_t *program;
  for (int t = 0; t < MAX_LENGTH; t++)
    for (int i = 0; i < WIDTH; i++) freqs[t * WIDTH + i] = (float)(t / pow(10000, (double)i / WIDTH));
  check(kiln_connect(NULL, &client));
  check(kiln_compile(client, &(kiln_compile_options_t){.graph = graph}, &program));
  printf("compiled: %s\n", kiln_program_info(program)->cache);
  execute(program, freqs, 16);
  execute(program, freqs, MAX_LENGTH);
  kiln_program_free(program);
  kiln_disconnect(client);
  return 0;
}
