/* server/control.c: sends and receives control messages, with at most one descriptor each. */
#include "server/control.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

typedef union {
  struct cmsghdr header;
  char bytes[CMSG_SPACE(sizeof(int))];
} ancillary_t;

bool control_send(int control, const control_message_t *message, int descriptor) {
  ancillary_t ancillary = {0};
  struct iovec span = {.iov_base = (void *)message, .iov_len = sizeof *message};
  struct msghdr packet = {.msg_iov = &span, .msg_iovlen = 1};
  if (descriptor >= 0) {
    packet.msg_control = ancillary.bytes;
    packet.msg_controllen = sizeof ancillary.bytes;
    struct cmsghdr *header = CMSG_FIRSTHDR(&packet);
    *header = (struct cmsghdr){
        .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof descriptor)};
    memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  }
  ssize_t sent;
  do sent = sendmsg(control, &packet, MSG_NOSIGNAL | MSG_DONTWAIT);
  while (sent < 0 && errno == EINTR);
  return sent == sizeof *message;
}

int control_receive(int control, control_message_t *out, int *out_descriptor) {
  ancillary_t ancillary;
  struct iovec span = {.iov_base = out, .iov_len = sizeof *out};
  struct msghdr packet = {.msg_iov = &span,
                          .msg_iovlen = 1,
                          .msg_control = ancillary.bytes,
                          .msg_controllen = sizeof ancillary.bytes};
  *out_descriptor = -1;
  ssize_t received;
  do received = recvmsg(control, &packet, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  while (received < 0 && errno == EINTR);
  if (received < 0) return errno == EAGAIN ? 0 : -1;
  struct cmsghdr *header = CMSG_FIRSTHDR(&packet);
  if (header && header->cmsg_type == SCM_RIGHTS)
    memcpy(out_descriptor, CMSG_DATA(header), sizeof *out_descriptor);
  return received == sizeof *out ? 1 : -1;
}
