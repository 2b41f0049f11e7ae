/* server/devices.h: the server's side of the device processes: what is with them, whose turn it is, their
 * restarts.
 *
 *   execute ready, first of its session -> device_send: LOAD when needed, EXECUTE -> reply in order ->
 * rpc_execute_done
 *
 * Sessions whose first operation is ready wait for a device in a ring, so that each gets its turn; what is
 * with the device is bounded. An execution on a GPU that takes longer than --execution-timeout ends the
 * process: a kernel that never ends cannot be stopped otherwise. When the process dies its commands fail with
 * DEVICE_LOST and it is started anew, with backoff; variants are loaded again when they are next used.
 * Thread: the loop's.
 */
#ifndef KILN_SERVER_DEVICES_H
#define KILN_SERVER_DEVICES_H

#include "server/channel.h"
#include "server/command.h"
#include "server/request.h"

typedef enum { DEVICE_STARTING, DEVICE_READY, DEVICE_LOST } device_state_t;

enum { DEVICE_MAX_PENDING = 64 };
#define DEVICE_MAX_PENDING_BYTES (256ull << 20)

typedef struct {
  channel_t channel;
  server_t *server;
  uint32_t index;
  device_state_t state;
  bool open, exited;
  uint64_t life; /* counts its processes, from 1 */
  uint64_t restarts, deaths_in_a_row, restart_ns;
  bool known;            /* info is valid: it has been ready once */
  kiln_status_t failure; /* why its process could not open it, last time */
  kiln_buffer_t body;    /* of the command being sent */
  kiln_device_info_t info;
  request_t *pending[DEVICE_MAX_PENDING]; /* with the device, a ring in order; each is held */
  uint32_t first_pending, pending_count;
  uint64_t pending_bytes;
  uint64_t first_since_ns;     /* since when the first of them is the first */
  bool overdue;                /* it took too long: its process is being ended */
  request_list_t want_ready;   /* requests that need to know the device */
  TAILQ_HEAD(, session) turns; /* sessions whose first operation is ready */
} device_t;

typedef struct {
  device_t *items;
  uint32_t count;
} devices_t;

kiln_status_t devices_init(server_t *server);
void devices_deinit(server_t *server);
/* The device of the request: *out when it is known; NULL when the request waits for that. NOT_FOUND,
 * UNAVAILABLE. */
kiln_status_t devices_want(request_t *request, device_t **out);
/* Sends the session's operations that are ready and first, as far as devices take them. */
void devices_pump_session(session_t *session);
void devices_unload(server_t *server, variant_t *variant);
const char *device_state_name(device_state_t state);
void devices_started(server_t *server, uint32_t index, int descriptor);
void devices_exited(server_t *server, uint32_t index);
/* Starts again what waited for its backoff, ends what is past its deadline. True while something waits or may
 * be. */
bool devices_tick(server_t *server, uint64_t now_ns);

#endif
