/* server/control.h: what supervisor and server tell each other, over one SOCK_SEQPACKET pair.
 *
 * The supervisor owns all children; the server asks for a worker or device process by role and index, gets
 * one end of a socket pair with it, and may have it killed. The message is a plain struct: both ends are one
 * executable. A child is named by (role, index) and not by process id, so that no id is used after it was
 * reaped.
 */
#ifndef KILN_SERVER_CONTROL_H
#define KILN_SERVER_CONTROL_H

#include "server/config.h"

typedef enum {
  CONTROL_SPAWN,   /* server: start child (role, index); its slot is empty */
  CONTROL_KILL,    /* server: end it now, if it is still there */
  CONTROL_DRAIN,   /* server: a client asked for it; supervisor: no new connections, finish, exit with 0 */
  CONTROL_SPAWNED, /* supervisor: here is its socket; without one when it could not be started */
  CONTROL_EXITED   /* supervisor: it ended, its slot is empty; wait_status says how */
} control_kind_t;

typedef struct {
  control_kind_t kind;
  role_t role;
  uint32_t index;
  int32_t wait_status;
} control_message_t;

enum {
  CONTROL_DESCRIPTOR = 3,
  LISTEN_DESCRIPTOR = 4
}; /* where a child finds its sockets; listeners follow each other */

/* descriptor -1: none is passed. Neither function waits. False when the other end is gone or its queue is
 * full. */
bool control_send(int control, const control_message_t *message, int descriptor);
/* 1: a message, with *out_descriptor -1 when none came; 0: nothing there; -1: the other end is gone. */
int control_receive(int control, control_message_t *out, int *out_descriptor);

#endif
