/* tests/unit/test_client_alloc_failure.c: every allocation of libkiln fails once, one after the other.
 *
 * As test_base_alloc_failure.c does it: the sources are compiled in here with allocation functions that count
 * down, on the thread of the test only, since the daemon that answers lives in this process too.
 */
#include "tests/support/fake_daemon.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static __thread long allocations_until_failure; /* 0: the countdown has struck, or is off */

static bool fails_now(void) { return allocations_until_failure && !--allocations_until_failure; }
static void *failing_malloc(size_t size) { return fails_now() ? NULL : malloc(size); }
static void *failing_calloc(size_t count, size_t size) { return fails_now() ? NULL : calloc(count, size); }
static void *failing_realloc(void *memory, size_t size) { return fails_now() ? NULL : realloc(memory, size); }
static char *failing_strdup(const char *text) { return fails_now() ? NULL : strdup(text); }

#define malloc failing_malloc
#define calloc failing_calloc
#define realloc failing_realloc
#define strdup failing_strdup
#include "base/arena.c"
#include "base/buffer.c"
#include "base/status.c"
#include "client/array.c"
#include "client/client.c"
#include "client/connection.c"
#include "client/json.c"
#include "client/program.c"
#include "client/reply.c"
#include "client/socket.c"
#undef malloc
#undef calloc
#undef realloc
#undef strdup

static fake_daemon_t *daemon_for_all;

/* Memory ran out, possibly for a reply, which costs the connection. */
static bool is_expected(kiln_status_t failure) {
  kiln_code_t code = kiln_status_code(failure);
  kiln_status_free(failure);
  return code == KILN_OUT_OF_MEMORY || code == KILN_CONNECTION_LOST;
}

static bool read_reply(kiln_reply_t *reply) {
  kiln_execution_info_t info;
  struct DLManagedTensor *tensor;
  kiln_status_t failure = kiln_reply_execution(reply, &info);
  if (failure) return is_expected(failure);
  failure = kiln_reply_output_dlpack(reply, 0, &tensor);
  if (failure) return is_expected(failure);
  tensor->deleter(tensor);
  return !kiln_reply_json(reply) || strstr(kiln_reply_json(reply), "\"launches\": 3");
}

static bool execute(kiln_program_t *program) {
  float numbers[3] = {1, 2, 3};
  kiln_array_t input = {
      .dtype = "f32", .rank = 1, .shape = {3}, .data = numbers, .size_bytes = sizeof numbers};
  kiln_request_t *request = NULL;
  kiln_reply_t *reply = NULL;
  kiln_status_t failure =
      kiln_execute_submit(program, &(kiln_execution_t){.inputs = &input, .input_count = 1}, &request);
  if (failure) return is_expected(failure);
  kiln_request_descriptor(request);
  kiln_request_cancel(request);
  failure = kiln_request_finish(request, &reply);
  if (failure) return is_expected(failure);
  bool right = read_reply(reply);
  kiln_reply_free(reply);
  return right;
}

/* Everything an application does, as far as it gets. True when each failure was an expected one. */
static bool run_application(void) {
  kiln_client_t *client = NULL;
  kiln_program_t *program = NULL;
  kiln_connect_options_t options = {.socket = fake_daemon_path(daemon_for_all), .name = "test"};
  kiln_status_t failure = kiln_connect(&options, &client);
  if (failure) return is_expected(failure);
  failure = kiln_compile(client, &(kiln_compile_options_t){.graph = "g"}, &program);
  bool right = failure ? is_expected(failure) : execute(program);
  kiln_program_free(program);
  kiln_disconnect(client);
  return right;
}

static void an_application_survives_each_failed_allocation(void **state) {
  (void)state;
  long nth = 1;
  for (bool struck = true; struck; nth++) {
    allocations_until_failure = nth;
    bool right = run_application();
    struck = !allocations_until_failure;
    allocations_until_failure = 0;
    if (!right) fail_msg("allocation %ld: another failure than that memory ran out", nth);
  }
  assert_true(nth > 25); /* the countdown reached what an application allocates: 34 when written */
}

static int set_up(void **state) {
  (void)state;
  daemon_for_all = fake_daemon_start(1 << 24);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  fake_daemon_stop(daemon_for_all);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_application_survives_each_failed_allocation),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
