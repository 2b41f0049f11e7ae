/* kiln/kiln.h: libkiln, the client of kiln's daemon: compile tensor graphs, execute them, ask how it is.
 *
 *   kiln_client_t *client;
 *   kiln_program_t *program;
 *   kiln_reply_t *reply;
 *   kiln_connect(NULL, &client);
 *   kiln_compile(client, &(kiln_compile_options_t){.graph = text}, &program);
 *   kiln_execute(program, &(kiln_execution_t){.inputs = arrays, .input_count = 2}, 0, &reply);
 *   kiln_reply_output(reply, 0, &array);
 *
 * Link with -lkiln. Functions return NULL for success, else a failure that the caller frees. All functions
 * may be called from any thread at the same time, a client and its programs be shared between threads;
 * freeing an object while another thread uses it is the caller's fault, as everywhere. The library never
 * prints, exits, starts a thread or raises SIGPIPE. A client reconnects by itself after the daemon has been
 * restarted, and a process forked off gets a connection of its own when it first uses the client.
 */
#ifndef KILN_KILN_H
#define KILN_KILN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Raised when a program built with an older header would misbehave. */
#define KILN_ABI_VERSION 1
int kiln_abi_version(void); /* of the library that is loaded */

/* -- failures ------------------------------------------------------------------------------------------- */

typedef struct kiln_status *kiln_status_t; /* NULL: success */

/* "INVALID_GRAPH", "UNAVAILABLE" ... as docs/wire.md lists them, and "CONNECTION_LOST"; "OK" for NULL. */
const char *kiln_failure_code(kiln_status_t failure);
/* One line for a person; "" for NULL. Lives as long as the failure. */
const char *kiln_failure_message(kiln_status_t failure);
/* A detail by name: "field", "line", "column", "node", "op", "rule", "log", "socket" ...; NULL when absent.
 */
const char *kiln_failure_detail(kiln_status_t failure, const char *name);
/* May the same request succeed later? */
bool kiln_failure_retryable(kiln_status_t failure);
void kiln_failure_free(kiln_status_t failure);

/* -- connection ----------------------------------------------------------------------------------------- */

typedef struct kiln_client kiln_client_t;

typedef struct {
  /* The daemon's socket, a path with or without "unix:". NULL: $KILN_SOCKET, else
   * $XDG_RUNTIME_DIR/kiln/kiln.sock or /run/kiln/kiln.sock, whichever exists. */
  const char *socket;
  const char *name; /* of the application, for the daemon's log; may be NULL */
} kiln_connect_options_t;

/* Connects, checking that the socket's folder and the daemon belong to this user or to root. options may be
 * NULL. UNAVAILABLE when no daemon answers, PERMISSION_DENIED when folder or peer are another user's; both
 * carry the detail "socket". */
kiln_status_t kiln_connect(const kiln_connect_options_t *options, kiln_client_t **out_client);
/* Closes the connection; requests that wait end with CONNECTION_LOST. Programs, requests and replies of the
 * client may be freed before or after. Accepts NULL. */
void kiln_disconnect(kiln_client_t *client);

/* -- requests ------------------------------------------------------------------------------------------- */

/* A request on its way. Exactly one outcome: a reply, the daemon's error, or CONNECTION_LOST. */
typedef struct kiln_request kiln_request_t;
/* The result of a request. */
typedef struct kiln_reply kiln_reply_t;

/* Sends a request: any method of docs/wire.md, params being one MessagePack map (NULL: none). Returns when it
 * is sent. */
kiln_status_t kiln_submit(kiln_client_t *client, const char *method, const void *params, size_t params_bytes,
                          kiln_request_t **out_request);
/* A descriptor that polls readable when the request may be done; ask kiln_request_poll then. Owned by the
 * request; -1 when descriptors are short. */
int kiln_request_descriptor(kiln_request_t *request);
/* Takes in what has arrived, without waiting. True when the request is done. */
bool kiln_request_poll(kiln_request_t *request);
/* Waits until the request is done; DEADLINE_EXCEEDED after timeout_ms (0: no limit), the request going on. */
kiln_status_t kiln_request_wait(kiln_request_t *request, uint32_t timeout_ms);
/* Asks the daemon to end the request. It still has its one outcome, usually CANCELLED. */
void kiln_request_cancel(kiln_request_t *request);
/* Waits, hands over the reply and frees the request, also when it failed. */
kiln_status_t kiln_request_finish(kiln_request_t *request, kiln_reply_t **out_reply);
/* Cancels the request unless it is done, and frees it. Accepts NULL. */
void kiln_request_free(kiln_request_t *request);

/* kiln_submit, kiln_request_wait and kiln_request_finish in one; past timeout_ms (0: no limit) the request is
 * cancelled. */
kiln_status_t kiln_call(kiln_client_t *client, const char *method, const void *params, size_t params_bytes,
                        uint32_t timeout_ms, kiln_reply_t **out_reply);

/* The result as MessagePack. Lives as long as the reply. */
const void *kiln_reply_bytes(const kiln_reply_t *reply, size_t *out_size);
/* The result as JSON text (binaries as strings of hexadecimal digits), made at the first call; NULL when
 * memory is short. Lives as long as the reply. */
const char *kiln_reply_json(kiln_reply_t *reply);
void kiln_reply_free(kiln_reply_t *reply); /* accepts NULL */

/* -- compiling ------------------------------------------------------------------------------------------ */

/* A compiled graph. It remembers its text, so that it outlives a restart of the daemon. */
typedef struct kiln_program kiln_program_t;

typedef struct {
  const char *graph;               /* in the text form; needed */
  const char *name;                /* which graph, of a text with several; else NULL */
  uint32_t device;                 /* index as `hello` lists them */
  uint32_t timeout_ms;             /* 0: no limit */
  bool excess_precision;           /* keep f32 between fused operations on f16 and bf16 */
  bool allow_tf32;                 /* f32 contractions may round their operands to tf32 */
  const char *const *symbol_names; /* values to specialize for: all symbols or none */
  const int64_t *symbol_values;
  uint32_t symbol_count;
} kiln_compile_options_t;

typedef struct {
  const char *key;   /* of the plan, 64 hexadecimal digits */
  const char *cache; /* "memory", "disk" or "compiled" */
  uint32_t kernels_found, kernels_compiled;
  uint64_t total_ns, plan_ns, compile_ns;
} kiln_program_info_t;

kiln_status_t kiln_compile(kiln_client_t *client, const kiln_compile_options_t *options,
                           kiln_program_t **out_program);
/* Of the first compile. Lives as long as the program. */
const kiln_program_info_t *kiln_program_info(const kiln_program_t *program);
void kiln_program_free(kiln_program_t *program); /* accepts NULL */

/* -- tensors -------------------------------------------------------------------------------------------- */

#define KILN_ARRAY_MAX_RANK 8

/* A tensor in host memory. data is its storage, from the first to the last element: dense row-major, or as
 * the graph declares by strides. */
typedef struct {
  const char *dtype; /* "f32", "bf16", "bool" ... */
  uint32_t rank;
  int64_t shape[KILN_ARRAY_MAX_RANK];
  bool has_strides;
  int64_t strides[KILN_ARRAY_MAX_RANK]; /* in elements; with has_strides */
  void *data;
  size_t size_bytes;
} kiln_array_t;

struct DLManagedTensor; /* as dlpack.h defines it */

/* The array of a CPU tensor, whose memory it borrows: the tensor must outlive its use. UNSUPPORTED for other
 * devices, dtypes without a name here, negative strides and ranks above 8. */
kiln_status_t kiln_array_from_dlpack(const struct DLManagedTensor *tensor, kiln_array_t *out_array);
/* A tensor that owns what it shows: the reply's memory lives until both reply and tensor are freed. */
kiln_status_t kiln_reply_output_dlpack(kiln_reply_t *reply, uint32_t index,
                                       struct DLManagedTensor **out_tensor);

/* -- executing ------------------------------------------------------------------------------------------ */

typedef struct {
  const kiln_array_t *inputs; /* one per input of the graph, in its order */
  uint32_t input_count;
  const char *const *symbol_names; /* needed only for symbols that no input's shape tells */
  const int64_t *symbol_values;
  uint32_t symbol_count;
  uint32_t deadline_ms; /* the daemon gives up then: DEADLINE_EXCEEDED; 0: no limit */
  bool counters;        /* count on an emulated device; UNSUPPORTED on others */
} kiln_execution_t;

/* Sends an execution; inputs may be changed once it returns. Compiles the program again when the daemon that
 * compiled it is gone. */
kiln_status_t kiln_execute_submit(kiln_program_t *program, const kiln_execution_t *execution,
                                  kiln_request_t **out_request);
/* The same, and waits for the reply; past timeout_ms (0: no limit) the execution is cancelled. */
kiln_status_t kiln_execute(kiln_program_t *program, const kiln_execution_t *execution, uint32_t timeout_ms,
                           kiln_reply_t **out_reply);

typedef struct {
  const char *key, *cache; /* of the plan that ran */
  uint64_t total_ns, upload_ns, launch_ns, download_ns;
  uint32_t launches;    /* kernels, copies and fills on the device */
  uint32_t realigned;   /* operands that went through an aligned temporary */
  const char *counters; /* JSON; NULL when not asked for */
} kiln_execution_info_t;

/* Of an execution's reply. INVALID_ARGUMENT for another's. Lives as long as the reply. */
kiln_status_t kiln_reply_execution(kiln_reply_t *reply, kiln_execution_info_t *out_info);
uint32_t kiln_reply_output_count(const kiln_reply_t *reply);
/* Borrows the reply's memory. INVALID_ARGUMENT when there is no such output. */
kiln_status_t kiln_reply_output(const kiln_reply_t *reply, uint32_t index, kiln_array_t *out_array);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
