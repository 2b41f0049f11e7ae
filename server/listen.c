/* server/listen.c: opens the listening sockets, as server/listen.h says. */
#include "server/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 4096 };

static kiln_status_t default_path(kiln_arena_t *arena, const config_t *config, const char **out) {
  const char *folder = secure_getenv("XDG_RUNTIME_DIR");
  if (*config->socket_group || geteuid() == 0 || !folder || !*folder) {
    if (geteuid() != 0)
      return kiln_error(KILN_INVALID_ARGUMENT, "XDG_RUNTIME_DIR is not set; say --listen unix:PATH");
    folder = "/run";
  }
  *out = kiln_arena_printf(arena, "%s/kiln/kiln.sock", folder);
  return NULL;
}

kiln_status_t listen_paths(kiln_arena_t *arena, const config_t *config, const char **out_paths,
                           size_t *out_count) {
  *out_count = 0;
  for (size_t i = 0; i < config->listen.count; i++) {
    const char *text = config->listen.items[i];
    if (strncmp(text, "tcp:", 4) == 0)
      return kiln_error(KILN_INVALID_ARGUMENT, "cannot listen on '%s': TCP is not supported in this version",
                        text);
    if (strncmp(text, "unix:", 5) != 0 || !text[5])
      return kiln_error(KILN_INVALID_ARGUMENT, "cannot listen on '%s': expected unix:PATH", text);
    out_paths[(*out_count)++] = text + 5;
  }
  if (!*out_count) KILN_TRY(default_path(arena, config, &out_paths[(*out_count)++]));
  return NULL;
}

/* --- the folder ------------------------------------------------------------------------------------- */

static kiln_status_t check_folder(const char *folder, const gid_t *group) {
  struct stat status;
  if (lstat(folder, &status) < 0)
    return kiln_error_errno(KILN_PERMISSION_DENIED, errno, "cannot use folder '%s'", folder);
  if (!S_ISDIR(status.st_mode))
    return kiln_error(KILN_PERMISSION_DENIED, "'%s' is no folder, or a link to one", folder);
  if (status.st_uid != geteuid())
    return kiln_error(KILN_PERMISSION_DENIED, "folder '%s' belongs to another user", folder);
  mode_t others = group && status.st_gid == *group ? S_IRWXO | S_IWGRP : S_IRWXO | S_IRWXG;
  if (status.st_mode & others)
    return kiln_error(KILN_PERMISSION_DENIED, "folder '%s' is open to others; make its mode %s", folder,
                      group ? "0750, with the group that is served" : "0700");
  return NULL;
}

/* Makes the folder (its parent must exist) with the right mode from the start. */
static kiln_status_t make_folder(const char *folder, const gid_t *group) {
  if (mkdir(folder, 0700) < 0) {
    if (errno == EEXIST) return NULL;
    return kiln_error_errno(KILN_PERMISSION_DENIED, errno, "cannot make folder '%s'", folder);
  }
  if (group && (chown(folder, (uid_t)-1, *group) < 0 || chmod(folder, 0750) < 0))
    return kiln_error_errno(KILN_PERMISSION_DENIED, errno, "cannot give folder '%s' to its group", folder);
  return NULL;
}

/* --- the lock --------------------------------------------------------------------------------------- */

static kiln_status_t taken(int lock, const char *path) {
  char holder[32] = "";
  ssize_t size = pread(lock, holder, sizeof holder - 1, 0);
  holder[size > 0 ? strcspn(holder, "\n") : 0] = 0;
  return kiln_error(KILN_UNAVAILABLE, "another kilnd (process %s) already serves '%s'", holder, path);
}

static kiln_status_t take_lock(kiln_arena_t *arena, const char *path, int *out_lock) {
  const char *lock_path = kiln_arena_printf(arena, "%s.lock", path);
  int lock = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (lock < 0) return kiln_error_errno(KILN_PERMISSION_DENIED, errno, "cannot open '%s'", lock_path);
  if (flock(lock, LOCK_EX | LOCK_NB) < 0) {
    kiln_status_t status = taken(lock, path);
    close(lock);
    return status;
  }
  if (ftruncate(lock, 0) < 0 || dprintf(lock, "%d\n", (int)getpid()) < 0) {
    kiln_status_t status = kiln_error_errno(KILN_UNAVAILABLE, errno, "cannot write '%s'", lock_path);
    close(lock);
    return status;
  }
  *out_lock = lock;
  return NULL;
}

/* --- the socket ------------------------------------------------------------------------------------- */

/* Only under the lock: whatever socket is there has no daemon behind it. */
static kiln_status_t bind_socket(const char *path, const gid_t *group, int descriptor) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (strlen(path) >= sizeof address.sun_path)
    return kiln_error(KILN_INVALID_ARGUMENT, "socket path '%s' is longer than %zu bytes", path,
                      sizeof address.sun_path - 1);
  strcpy(address.sun_path, path);
  struct stat old;
  if (lstat(path, &old) == 0) {
    if (!S_ISSOCK(old.st_mode)) return kiln_error(KILN_UNAVAILABLE, "'%s' exists and is no socket", path);
    unlink(path);
  }
  if (bind(descriptor, (struct sockaddr *)&address, sizeof address) < 0 ||
      chmod(path, group ? 0660 : 0600) < 0 || (group && chown(path, (uid_t)-1, *group) < 0) ||
      listen(descriptor, BACKLOG) < 0)
    return kiln_error_errno(KILN_UNAVAILABLE, errno, "cannot listen on '%s'", path);
  return NULL;
}

static kiln_status_t open_socket(const char *path, const gid_t *group, int *out_socket) {
  int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (descriptor < 0) return kiln_error_errno(KILN_UNAVAILABLE, errno, "cannot make a socket");
  kiln_status_t status = bind_socket(path, group, descriptor);
  if (status) {
    close(descriptor);
    return status;
  }
  *out_socket = descriptor;
  return NULL;
}

kiln_status_t listen_open(kiln_arena_t *arena, const char *path, const gid_t *group, listener_t *out) {
  const char *folder = dirname(kiln_arena_strdup(arena, path));
  *out = (listener_t){.path = path, .socket = -1, .lock = -1};
  KILN_TRY(make_folder(folder, group));
  KILN_TRY(check_folder(folder, group));
  KILN_TRY(take_lock(arena, path, &out->lock));
  kiln_status_t status = open_socket(path, group, &out->socket);
  if (status) {
    close(out->lock);
    out->lock = -1;
  }
  return status;
}

void listen_close(listener_t *listener) {
  if (listener->socket < 0) return;
  unlink(listener->path);
  close(listener->socket);
  close(listener->lock);
}
