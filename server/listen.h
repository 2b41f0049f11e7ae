/* server/listen.h: the listening sockets: their folder, their lock, their place in the file system.
 *
 * Called by the supervisor before anything else, on its only thread. A socket lies in a folder that belongs
 * to the daemon's user and that nobody else may write to (with a group: its members may enter). One daemon
 * per socket: it holds an exclusive flock on "<socket>.lock", which holds its process id; under the lock a
 * stale socket is replaced.
 */
#ifndef KILN_SERVER_LISTEN_H
#define KILN_SERVER_LISTEN_H

#include "server/config.h"

#include <sys/types.h>

typedef struct {
  const char *path;
  int socket, lock;
} listener_t;

/* "unix:PATH" of the arguments, or the default place; INVALID_ARGUMENT for what this version does not listen
 * on. */
kiln_status_t listen_paths(kiln_arena_t *arena, const config_t *config, const char **out_paths,
                           size_t *out_count);
/* UNAVAILABLE names the daemon that already serves the path; PERMISSION_DENIED what is wrong with the folder.
 */
kiln_status_t listen_open(kiln_arena_t *arena, const char *path, const gid_t *group, listener_t *out);
/* Removes the socket; the lock file stays, so that two daemons can never hold locks on two files of one name.
 */
void listen_close(listener_t *listener);

#endif
