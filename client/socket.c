/* client/socket.c: finding the daemon's socket, and connecting to it when it can be trusted; see socket.h.
 *
 * Whoever may put a socket in the folder could pose as the daemon and read every tensor. So the folder must
 * be no link and writable by its owner only; the owner is this user, root, or a service that lets in nobody
 * but a group; and the process that answers runs as the owner or as root.
 */
#include "client/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define MACHINE_SOCKET "/run/kiln/kiln.sock"
enum { CONNECT_TIMEOUT_S = 10 };

/* -- which ---------------------------------------------------------------------------------------------- */

static kiln_status_t copy(const char *path, char **out_path) {
  *out_path = strdup(path);
  return *out_path ? NULL : kiln_error(KILN_OUT_OF_MEMORY, "no memory for the socket's path");
}

static kiln_status_t from_address(const char *address, char **out_path) {
  if (!strncmp(address, "unix:", 5)) return copy(address + 5, out_path);
  if (!strncmp(address, "tcp:", 4))
    return kiln_error(KILN_UNSUPPORTED, "'%s': this version speaks over unix sockets only", address);
  return copy(address, out_path);
}

/* A user's own daemon comes before the machine's. */
static kiln_status_t from_defaults(char **out_path) {
  char own[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
  const char *runtime = secure_getenv("XDG_RUNTIME_DIR");
  bool has_own =
      runtime && *runtime && (size_t)snprintf(own, sizeof own, "%s/kiln/kiln.sock", runtime) < sizeof own;
  if (has_own && (!access(own, F_OK) || access(MACHINE_SOCKET, F_OK))) return copy(own, out_path);
  return copy(MACHINE_SOCKET, out_path);
}

kiln_status_t kiln_socket_path(const char *given, char **out_path) {
  const char *environment = secure_getenv("KILN_SOCKET");
  if (given && *given) return from_address(given, out_path);
  if (environment && *environment) return from_address(environment, out_path);
  return from_defaults(out_path);
}

/* -- whether -------------------------------------------------------------------------------------------- */

static kiln_status_t no_answer(const char *path) {
  return kiln_error(KILN_UNAVAILABLE,
                    "no daemon answers at unix:%s: start one with `kilnd`, or set KILN_SOCKET", path);
}

static kiln_status_t check_folder(const char *path, uid_t *out_owner) {
  char copied[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
  struct stat info;
  strcpy(copied, path);
  const char *folder = dirname(copied);
  if (access(path, F_OK) || lstat(folder, &info))
    return no_answer(path); /* nothing there to be trusted or not */
  *out_owner = info.st_uid;
  if (!S_ISDIR(info.st_mode))
    return kiln_error(KILN_PERMISSION_DENIED, "'%s' is a link or no folder: name the socket by its real path",
                      folder);
  if (info.st_mode & (S_IWGRP | S_IWOTH))
    return kiln_error(KILN_PERMISSION_DENIED,
                      "others than its owner may write to '%s', so its socket is not trusted: make it 0700",
                      folder);
  bool trusted = info.st_uid == geteuid() || info.st_uid == 0 || !(info.st_mode & S_IRWXO);
  if (!trusted)
    return kiln_error(KILN_PERMISSION_DENIED, "'%s' belongs to another user, so its socket is not trusted",
                      folder);
  return NULL;
}

static kiln_status_t check_peer(int descriptor, const char *path, uid_t owner) {
  struct ucred peer;
  socklen_t size = sizeof peer;
  if (getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &size))
    return kiln_error_errno(KILN_UNAVAILABLE, errno, "cannot ask who answers at unix:%s", path);
  if (peer.uid == owner || peer.uid == 0) return NULL;
  return kiln_error(KILN_PERMISSION_DENIED,
                    "user %u answers at unix:%s, but the folder belongs to user %u: it is not trusted",
                    (unsigned)peer.uid, path, (unsigned)owner);
}

static kiln_status_t connect_to(int descriptor, const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  struct timeval limit = {.tv_sec = CONNECT_TIMEOUT_S}; /* a daemon that hangs with its backlog full */
  strcpy(address.sun_path, path);
  setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  int result;
  do result = connect(descriptor, (struct sockaddr *)&address, sizeof address);
  while (result && errno == EINTR);
  if (result) return no_answer(path);
  if (fcntl(descriptor, F_SETFL, O_NONBLOCK))
    return kiln_error_errno(KILN_UNAVAILABLE, errno, "cannot prepare the socket");
  return NULL;
}

static kiln_status_t open_trusted(const char *path, int *out_descriptor) {
  uid_t owner;
  if (strlen(path) >= sizeof(((struct sockaddr_un *)NULL)->sun_path))
    return kiln_error(KILN_UNAVAILABLE, "the socket's path '%s' is longer than %zu bytes", path,
                      sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1);
  KILN_TRY(check_folder(path, &owner));
  int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return kiln_error_errno(KILN_UNAVAILABLE, errno, "cannot make a socket");
  kiln_status_t status = connect_to(descriptor, path);
  if (!status) status = check_peer(descriptor, path, owner);
  if (status)
    close(descriptor);
  else
    *out_descriptor = descriptor;
  return status;
}

kiln_status_t kiln_socket_connect(const char *path, int *out_descriptor) {
  return kiln_error_detail(open_trusted(path, out_descriptor), "socket", "%s", path);
}
