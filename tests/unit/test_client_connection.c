/* tests/unit/test_client_connection.c: libkiln's connection and requests against a daemon made for the test.
 *
 * Labels: tsan
 */
#include "tests/support/fake_daemon.h"

#include "ir/mpack.h"
#include "kiln/kiln.h"
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { THREADS = 8, ROUNDS = 200, LIMIT = 32 << 20 };

typedef struct {
  fake_daemon_t *daemon;
  kiln_client_t *client;
} fixture_t;

static int set_up(void **state) {
  fixture_t *fixture = calloc(1, sizeof *fixture);
  fixture->daemon = fake_daemon_start(LIMIT);
  kiln_connect_options_t options = {.socket = fake_daemon_path(fixture->daemon), .name = "test"};
  assert_null(kiln_connect(&options, &fixture->client));
  *state = fixture;
  return 0;
}

static int tear_down(void **state) {
  fixture_t *fixture = *state;
  kiln_disconnect(fixture->client);
  fake_daemon_stop(fixture->daemon);
  free(fixture);
  return 0;
}

/* {"n": n} */
static void write_number(kiln_buffer_t *out, int64_t n) {
  kiln_buffer_init(out);
  kiln_mpack_map(out, 1);
  kiln_mpack_str(out, "n");
  kiln_mpack_int(out, n);
}

static kiln_request_t *submit(kiln_client_t *client, const char *method, int64_t n) {
  kiln_request_t *request = NULL;
  kiln_buffer_t params;
  write_number(&params, n);
  assert_null(kiln_submit(client, method, params.data, params.size, &request));
  kiln_buffer_deinit(&params);
  return request;
}

static kiln_status_t call(kiln_client_t *client, const char *method, int64_t n, kiln_reply_t **out_reply) {
  kiln_buffer_t params;
  write_number(&params, n);
  kiln_status_t status = kiln_call(client, method, params.data, params.size, 0, out_reply);
  kiln_buffer_deinit(&params);
  return status;
}

static void assert_code(kiln_status_t failure, const char *code) {
  assert_string_equal(kiln_failure_code(failure), code);
  kiln_failure_free(failure);
}

/* True when echo comes back right; for threads and forked processes, where cmocka cannot be used. */
static bool echoes(kiln_client_t *client, int64_t n) {
  char expected[64];
  kiln_reply_t *reply = NULL;
  snprintf(expected, sizeof expected, "{\"n\": %lld}", (long long)n);
  kiln_status_t failure = call(client, "echo", n, &reply);
  bool right = !failure && !strcmp(kiln_reply_json(reply), expected);
  kiln_failure_free(failure);
  kiln_reply_free(reply);
  return right;
}

/* -- connecting ----------------------------------------------------------------------------------------- */

static void no_daemon_is_one_line_that_says_what_to_do(void **state) {
  (void)state;
  kiln_client_t *client = NULL;
  kiln_status_t failure =
      kiln_connect(&(kiln_connect_options_t){.socket = "unix:/nowhere/kiln.sock"}, &client);
  assert_string_equal(kiln_failure_code(failure), "UNAVAILABLE");
  assert_string_equal(kiln_failure_message(failure),
                      "no daemon answers at unix:/nowhere/kiln.sock: start one "
                      "with `kilnd`, or set KILN_SOCKET");
  assert_string_equal(kiln_failure_detail(failure, "socket"), "/nowhere/kiln.sock");
  assert_true(kiln_failure_retryable(failure));
  kiln_failure_free(failure);
}

static void the_environment_names_the_socket(void **state) {
  fixture_t *fixture = *state;
  kiln_client_t *client = NULL;
  setenv("KILN_SOCKET", fake_daemon_path(fixture->daemon), 1);
  kiln_status_t failure = kiln_connect(NULL, &client);
  unsetenv("KILN_SOCKET");
  assert_null(failure);
  assert_true(echoes(client, 5));
  kiln_disconnect(client);
}

static void tcp_is_unsupported(void **state) {
  (void)state;
  kiln_client_t *client = NULL;
  assert_code(kiln_connect(&(kiln_connect_options_t){.socket = "tcp:localhost:1"}, &client), "UNSUPPORTED");
}

static void a_path_longer_than_a_socket_address_is_refused(void **state) {
  (void)state;
  char path[300];
  kiln_client_t *client = NULL;
  memset(path, 'a', sizeof path - 1);
  path[0] = '/';
  path[sizeof path - 1] = 0;
  assert_code(kiln_connect(&(kiln_connect_options_t){.socket = path}, &client), "UNAVAILABLE");
}

static void a_folder_that_others_write_to_is_not_trusted(void **state) {
  fixture_t *fixture = *state;
  kiln_client_t *client = NULL;
  chmod(fake_daemon_folder(fixture->daemon), 0777);
  kiln_connect_options_t options = {.socket = fake_daemon_path(fixture->daemon)};
  kiln_status_t failure = kiln_connect(&options, &client);
  chmod(fake_daemon_folder(fixture->daemon), 0700);
  assert_code(failure, "PERMISSION_DENIED");
}

static void a_folder_that_is_a_link_is_not_trusted(void **state) {
  fixture_t *fixture = *state;
  char link[256], path[300];
  kiln_client_t *client = NULL;
  snprintf(link, sizeof link, "%s-link", fake_daemon_folder(fixture->daemon));
  snprintf(path, sizeof path, "%s/fake.sock", link);
  assert_int_equal(symlink(fake_daemon_folder(fixture->daemon), link), 0);
  kiln_status_t failure = kiln_connect(&(kiln_connect_options_t){.socket = path}, &client);
  unlink(link);
  assert_code(failure, "PERMISSION_DENIED");
}

/* -- requests ------------------------------------------------------------------------------------------- */

static void a_reply_is_json_and_messagepack(void **state) {
  fixture_t *fixture = *state;
  kiln_reply_t *reply = NULL;
  size_t size;
  assert_null(call(fixture->client, "echo", -70000, &reply));
  assert_string_equal(kiln_reply_json(reply), "{\"n\": -70000}");
  const void *bytes = kiln_reply_bytes(reply, &size);
  const uint8_t expected[] = {0x81, 0xa1, 'n', 0xd2, 0xff, 0xfe, 0xee, 0x90};
  assert_int_equal(size, sizeof expected);
  assert_memory_equal(bytes, expected, size);
  kiln_reply_free(reply);
}

static void an_error_carries_code_message_and_detail(void **state) {
  fixture_t *fixture = *state;
  kiln_reply_t *reply = NULL;
  kiln_status_t failure = kiln_call(fixture->client, "fail", NULL, 0, 0, &reply);
  assert_string_equal(kiln_failure_code(failure), "INVALID_ARGUMENT");
  assert_string_equal(kiln_failure_message(failure), "x is wrong");
  assert_string_equal(kiln_failure_detail(failure, "field"), "x");
  assert_false(kiln_failure_retryable(failure));
  kiln_failure_free(failure);
  assert_true(echoes(fixture->client, 1));
}

static void replies_in_another_order_reach_their_requests(void **state) {
  fixture_t *fixture = *state;
  kiln_reply_t *reply = NULL;
  kiln_request_t *first = submit(fixture->client, "hold", 0), *second = submit(fixture->client, "hold", 0);
  assert_true(echoes(fixture->client, 42));
  assert_false(kiln_request_poll(first));
  assert_null(kiln_call(fixture->client, "release", NULL, 0, 0, &reply));
  assert_string_equal(kiln_reply_json(reply), "{\"n\": 2}");
  kiln_reply_free(reply);
  assert_true(kiln_request_poll(first));
  assert_null(kiln_request_finish(first, &reply));
  kiln_reply_free(reply);
  assert_null(kiln_request_finish(second, &reply));
  kiln_reply_free(reply);
}

typedef struct {
  kiln_client_t *client;
  int64_t base;
  atomic_uint *wrong;
} worker_t;

static void *echo_many(void *argument) {
  worker_t *worker = argument;
  for (int64_t i = 0; i < ROUNDS; i++)
    if (!echoes(worker->client, worker->base + i)) ++*worker->wrong;
  return NULL;
}

static unsigned run_threads(kiln_client_t *client) {
  pthread_t threads[THREADS];
  worker_t workers[THREADS];
  atomic_uint wrong = 0;
  for (int i = 0; i < THREADS; i++) {
    workers[i] = (worker_t){client, i * INT64_C(1000000), &wrong};
    pthread_create(&threads[i], NULL, echo_many, &workers[i]);
  }
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  return wrong;
}

static void threads_share_one_connection(void **state) {
  fixture_t *fixture = *state;
  assert_int_equal(run_threads(fixture->client), 0);
  assert_int_equal(fake_daemon_connections(fixture->daemon), 1);
}

static void a_wait_that_times_out_leaves_the_request_going(void **state) {
  fixture_t *fixture = *state;
  kiln_reply_t *reply = NULL;
  kiln_request_t *request = submit(fixture->client, "hold", 0);
  assert_code(kiln_request_wait(request, 20), "DEADLINE_EXCEEDED");
  assert_null(kiln_call(fixture->client, "release", NULL, 0, 0, &reply));
  kiln_reply_free(reply);
  assert_null(kiln_request_finish(request, &reply));
  kiln_reply_free(reply);
}

static void a_call_that_times_out_is_cancelled(void **state) {
  fixture_t *fixture = *state;
  kiln_reply_t *reply = NULL;
  assert_code(kiln_call(fixture->client, "hold", NULL, 0, 20, &reply), "DEADLINE_EXCEEDED");
  assert_true(echoes(fixture->client, 1)); /* behind the cancel */
  assert_int_equal(fake_daemon_cancels(fixture->daemon), 1);
  assert_int_equal(fake_daemon_held(fixture->daemon), 0);
}

static void a_cancelled_request_has_its_one_outcome(void **state) {
  fixture_t *fixture = *state;
  kiln_reply_t *reply = NULL;
  kiln_request_t *request = submit(fixture->client, "hold", 0);
  kiln_request_cancel(request);
  assert_code(kiln_request_finish(request, &reply), "CANCELLED");
}

static void freeing_a_request_drops_its_reply(void **state) {
  fixture_t *fixture = *state;
  kiln_request_free(submit(fixture->client, "big", 1 << 20));
  assert_true(echoes(fixture->client, 3));
}

/* -- descriptors ---------------------------------------------------------------------------------------- */

static bool is_readable(int descriptor, int timeout_ms) {
  struct pollfd polled = {descriptor, POLLIN, 0};
  return poll(&polled, 1, timeout_ms) == 1;
}

static void the_descriptor_tells_of_the_reply(void **state) {
  fixture_t *fixture = *state;
  kiln_reply_t *reply = NULL;
  kiln_request_t *request = submit(fixture->client, "echo", 9);
  int descriptor = kiln_request_descriptor(request);
  assert_true(descriptor >= 0);
  while (!kiln_request_poll(request)) assert_true(is_readable(descriptor, 5000));
  assert_null(kiln_request_finish(request, &reply));
  kiln_reply_free(reply);
}

static void the_descriptor_tells_when_another_thread_took_the_reply_in(void **state) {
  fixture_t *fixture = *state;
  kiln_reply_t *reply = NULL;
  kiln_request_t *request = submit(fixture->client, "hold", 0);
  int descriptor = kiln_request_descriptor(request);
  assert_null(kiln_call(fixture->client, "release", NULL, 0, 0, &reply)); /* reads both replies */
  kiln_reply_free(reply);
  assert_true(is_readable(descriptor, 5000));
  assert_true(kiln_request_poll(request));
  assert_true(is_readable(kiln_request_descriptor(request), 0));
  kiln_request_free(request);
}

/* -- a connection that is lost -------------------------------------------------------------------------- */

static void a_request_in_flight_is_lost_with_the_connection_and_the_next_reconnects(void **state) {
  fixture_t *fixture = *state;
  kiln_reply_t *reply = NULL;
  kiln_request_t *held = submit(fixture->client, "hold", 0);
  assert_code(kiln_call(fixture->client, "hangup", NULL, 0, 0, &reply), "CONNECTION_LOST");
  assert_code(kiln_request_finish(held, &reply), "CONNECTION_LOST");
  assert_true(echoes(fixture->client, 8));
  assert_int_equal(fake_daemon_connections(fixture->daemon), 2);
}

static void a_client_outlives_a_restart_that_it_did_not_see(void **state) {
  fixture_t *fixture = *state;
  fake_daemon_restart(fixture->daemon);
  assert_true(echoes(fixture->client, 8));
}

/* Tries again what says that it may succeed later. */
static void *echo_until_answered(void *argument) {
  worker_t *worker = argument;
  for (int64_t i = 0; i < ROUNDS; i++) {
    kiln_reply_t *reply = NULL;
    kiln_status_t failure = call(worker->client, "echo", i, &reply);
    if (kiln_failure_retryable(failure)) i--;
    if (failure && !kiln_failure_retryable(failure)) ++*worker->wrong;
    kiln_failure_free(failure);
    kiln_reply_free(reply);
  }
  return NULL;
}

static void what_a_restart_breaks_may_be_tried_again(void **state) {
  fixture_t *fixture = *state;
  pthread_t threads[2];
  atomic_uint wrong = 0;
  worker_t worker = {fixture->client, 0, &wrong};
  for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, echo_until_answered, &worker);
  for (int i = 0; i < 5; i++) fake_daemon_restart(fixture->daemon);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  assert_int_equal(wrong, 0);
}

static void bytes_that_are_no_message_lose_the_connection(void **state) {
  fixture_t *fixture = *state;
  kiln_reply_t *reply = NULL;
  assert_code(kiln_call(fixture->client, "garbage", NULL, 0, 0, &reply), "CONNECTION_LOST");
  assert_true(echoes(fixture->client, 2));
}

static void a_disconnected_client_says_so(void **state) {
  fixture_t *fixture = *state;
  kiln_program_t *program = NULL;
  kiln_reply_t *reply = NULL;
  assert_null(kiln_compile(fixture->client, &(kiln_compile_options_t){.graph = "g"}, &program));
  kiln_request_t *held = submit(fixture->client, "hold", 0);
  kiln_disconnect(fixture->client);
  fixture->client = NULL;
  assert_code(kiln_request_finish(held, &reply), "CONNECTION_LOST");
  assert_code(kiln_execute(program, &(kiln_execution_t){0}, 0, &reply), "UNAVAILABLE");
  kiln_program_free(program);
}

/* -- large messages ------------------------------------------------------------------------------------- */

static kiln_status_t send_bytes(kiln_client_t *client, size_t size) {
  kiln_reply_t *reply = NULL;
  kiln_buffer_t params;
  void *data = calloc(1, size);
  kiln_buffer_init(&params);
  kiln_mpack_map(&params, 2);
  kiln_mpack_str(&params, "data");
  kiln_mpack_bin(&params, data, size);
  kiln_mpack_str(&params, "n");
  kiln_mpack_int(&params, 1);
  free(data);
  kiln_status_t status = kiln_call(client, "echo", params.data, params.size, 0, &reply);
  kiln_buffer_deinit(&params);
  kiln_reply_free(reply);
  return status;
}

static void a_message_above_the_daemons_limit_is_refused_before_it_is_sent(void **state) {
  fixture_t *fixture = *state;
  assert_code(send_bytes(fixture->client, LIMIT), "TOO_LARGE");
  assert_null(send_bytes(fixture->client, LIMIT - 100));
  assert_int_equal(fake_daemon_connections(fixture->daemon), 1);
}

/* The daemon reads nothing until its 8 MiB are gone, and this client is sending 16 MiB. */
static void a_sender_reads_what_keeps_the_daemon_from_reading(void **state) {
  fixture_t *fixture = *state;
  kiln_reply_t *reply = NULL;
  size_t size;
  kiln_request_t *flood = submit(fixture->client, "flood", 0);
  assert_null(send_bytes(fixture->client, 16 << 20));
  assert_null(kiln_request_finish(flood, &reply));
  kiln_reply_bytes(reply, &size);
  assert_true(size > 8 << 20);
  kiln_reply_free(reply);
}

/* -- fork ----------------------------------------------------------------------------------------------- */

static int exit_code_of(pid_t child) {
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void a_forked_process_has_a_connection_of_its_own(void **state) {
  fixture_t *fixture = *state;
  kiln_request_t *held = submit(fixture->client, "hold", 0);
  pid_t child = fork();
  if (!child) {
    kiln_reply_t *reply = NULL;
    kiln_status_t failure = kiln_request_finish(held, &reply); /* the parent's */
    bool refused = !strcmp(kiln_failure_code(failure), "CONNECTION_LOST");
    _exit(refused && echoes(fixture->client, 77) ? 0 : 1);
  }
  assert_int_equal(exit_code_of(child), 0);
  assert_int_equal(fake_daemon_connections(fixture->daemon), 2);
  assert_false(kiln_request_poll(held));
  assert_true(echoes(fixture->client, 78));
  kiln_request_free(held);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(no_daemon_is_one_line_that_says_what_to_do),
      TEST(the_environment_names_the_socket),
      cmocka_unit_test(tcp_is_unsupported),
      cmocka_unit_test(a_path_longer_than_a_socket_address_is_refused),
      TEST(a_folder_that_others_write_to_is_not_trusted),
      TEST(a_folder_that_is_a_link_is_not_trusted),
      TEST(a_reply_is_json_and_messagepack),
      TEST(an_error_carries_code_message_and_detail),
      TEST(replies_in_another_order_reach_their_requests),
      TEST(threads_share_one_connection),
      TEST(a_wait_that_times_out_leaves_the_request_going),
      TEST(a_call_that_times_out_is_cancelled),
      TEST(a_cancelled_request_has_its_one_outcome),
      TEST(freeing_a_request_drops_its_reply),
      TEST(the_descriptor_tells_of_the_reply),
      TEST(the_descriptor_tells_when_another_thread_took_the_reply_in),
      TEST(a_request_in_flight_is_lost_with_the_connection_and_the_next_reconnects),
      TEST(a_client_outlives_a_restart_that_it_did_not_see),
      TEST(what_a_restart_breaks_may_be_tried_again),
      TEST(bytes_that_are_no_message_lose_the_connection),
      TEST(a_disconnected_client_says_so),
      TEST(a_message_above_the_daemons_limit_is_refused_before_it_is_sent),
      TEST(a_sender_reads_what_keeps_the_daemon_from_reading),
      TEST(a_forked_process_has_a_connection_of_its_own),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
