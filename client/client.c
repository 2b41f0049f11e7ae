/* client/client.c: a client: where the daemon is, and the connection to it at the moment.
 *
 * A connection is replaced when it was lost (the daemon restarted) and when the process has forked. All locks
 * live in a `life` that belongs to one process: a forked process cannot know whether a thread that it does
 * not have holds one, so it starts a life of its own and leaves the old one alone.
 */
#include "client/client.h"
#include "client/socket.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct life {
  struct life *before; /* of the process that forked this one; kept, but never touched */
  pid_t process;
  pthread_mutex_t lock;
  /* under the lock: */
  bool closed;
  uint64_t serial; /* of the connection; also above all serials of the lives before */
  kiln_connection_t *connection;
} life_t;

struct kiln_client {
  atomic_uint references;
  char *socket_path, *name;
  _Atomic(life_t *) life;
};

/* -- lives ---------------------------------------------------------------------------------------------- */

static life_t *life_create(life_t *before) {
  life_t *life = calloc(1, sizeof *life);
  if (!life) return NULL;
  life->before = before;
  life->process = getpid();
  life->serial = before ? before->serial : 0;
  life->closed = before && before->closed;
  pthread_mutex_init(&life->lock, NULL);
  return life;
}

static void life_destroy(life_t *life) {
  kiln_connection_release(life->connection);
  if (life->process == getpid()) pthread_mutex_destroy(&life->lock);
  free(life);
}

/* This process's life. NULL when memory is short. */
static life_t *current_life(kiln_client_t *client) {
  life_t *life = client->life;
  if (life->process == getpid()) return life;
  life_t *made = life_create(life);
  if (!made || atomic_compare_exchange_strong(&client->life, &life, made)) return made;
  life_destroy(made); /* another thread was first; `life` is now its life */
  return life;
}

/* -- clients -------------------------------------------------------------------------------------------- */

static void client_destroy(kiln_client_t *client) {
  for (life_t *life = client->life, *before; life; life = before) {
    before = life->before;
    life_destroy(life);
  }
  free(client->socket_path);
  free(client->name);
  free(client);
}

static kiln_status_t client_create(const kiln_connect_options_t *options, kiln_client_t **out_client) {
  char *path = NULL;
  KILN_TRY(kiln_socket_path(options->socket, &path));
  kiln_client_t *client = calloc(1, sizeof *client);
  life_t *life = life_create(NULL);
  char *name = options->name ? strdup(options->name) : NULL;
  if (client && life && (name || !options->name)) {
    client->references = 1;
    client->socket_path = path;
    client->name = name;
    client->life = life;
    *out_client = client;
    return NULL;
  }
  free(path);
  free(client);
  free(name);
  if (life) life_destroy(life);
  return kiln_error(KILN_OUT_OF_MEMORY, "no memory for a client");
}

void kiln_client_retain(kiln_client_t *client) { client->references++; }

void kiln_client_release(kiln_client_t *client) {
  if (client && !--client->references) client_destroy(client);
}

/* Under the lock. Makes sure of a connection that works. */
static kiln_status_t renew(const kiln_client_t *client, life_t *life) {
  if (life->closed) return kiln_error(KILN_UNAVAILABLE, "the client has been disconnected");
  if (life->connection && kiln_connection_is_usable(life->connection)) return NULL;
  kiln_connection_release(life->connection);
  life->connection = NULL;
  KILN_TRY(kiln_connection_open(client->socket_path, client->name, &life->connection));
  life->serial++;
  return NULL;
}

kiln_status_t kiln_client_connection(kiln_client_t *client, kiln_connection_t **out_connection,
                                     uint64_t *out_serial) {
  life_t *life = current_life(client);
  if (!life) return kiln_error(KILN_OUT_OF_MEMORY, "no memory for a connection");
  pthread_mutex_lock(&life->lock);
  kiln_status_t status = renew(client, life);
  if (!status) {
    kiln_connection_retain(life->connection);
    *out_connection = life->connection;
    *out_serial = life->serial;
  }
  pthread_mutex_unlock(&life->lock);
  return status;
}

bool kiln_client_handle_get(kiln_client_t *client, const kiln_client_handle_t *remembered, uint64_t serial,
                            uint64_t *out_handle) {
  life_t *life = current_life(client);
  if (!life) return false;
  pthread_mutex_lock(&life->lock);
  bool valid = remembered->serial == serial;
  *out_handle = remembered->handle;
  pthread_mutex_unlock(&life->lock);
  return valid;
}

void kiln_client_handle_set(kiln_client_t *client, kiln_client_handle_t *remembered, uint64_t serial,
                            uint64_t handle) {
  life_t *life = current_life(client);
  if (!life) return;
  pthread_mutex_lock(&life->lock);
  *remembered = (kiln_client_handle_t){serial, handle};
  pthread_mutex_unlock(&life->lock);
}

kiln_status_t kiln_client_submit(kiln_client_t *client, const char *method, const struct iovec *params,
                                 size_t part_count, kiln_request_t **out_request) {
  kiln_status_t status = NULL;
  for (int attempt = 0; attempt < 2; attempt++) {
    kiln_connection_t *connection;
    uint64_t serial;
    kiln_status_free(status);
    KILN_TRY(kiln_client_connection(client, &connection, &serial));
    status = kiln_connection_submit(connection, method, params, part_count, out_request);
    kiln_connection_release(connection);
    if (kiln_status_code(status) != KILN_CONNECTION_LOST) break;
  }
  return status;
}

/* -- public --------------------------------------------------------------------------------------------- */

kiln_status_t kiln_connect(const kiln_connect_options_t *options, kiln_client_t **out_client) {
  static const kiln_connect_options_t defaults;
  kiln_connection_t *connection;
  kiln_client_t *client;
  uint64_t serial;
  KILN_TRY(client_create(options ? options : &defaults, &client));
  kiln_status_t status = kiln_client_connection(client, &connection, &serial);
  if (status) {
    kiln_client_release(client);
    return status;
  }
  kiln_connection_release(connection);
  *out_client = client;
  return NULL;
}

void kiln_disconnect(kiln_client_t *client) {
  if (!client) return;
  life_t *life = current_life(client);
  if (life) {
    pthread_mutex_lock(&life->lock);
    life->closed = true;
    if (life->connection) kiln_connection_close(life->connection);
    pthread_mutex_unlock(&life->lock);
  }
  kiln_client_release(client);
}

kiln_status_t kiln_submit(kiln_client_t *client, const char *method, const void *params, size_t params_bytes,
                          kiln_request_t **out_request) {
  static const char no_fields = (char)0x80; /* an empty map */
  struct iovec part = {params ? (void *)params : (void *)&no_fields, params ? params_bytes : 1};
  return kiln_client_submit(client, method, &part, 1, out_request);
}

kiln_status_t kiln_call(kiln_client_t *client, const char *method, const void *params, size_t params_bytes,
                        uint32_t timeout_ms, kiln_reply_t **out_reply) {
  kiln_request_t *request;
  KILN_TRY(kiln_submit(client, method, params, params_bytes, &request));
  return kiln_request_finish_within(request, timeout_ms, out_reply);
}
