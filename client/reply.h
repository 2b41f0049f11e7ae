/* client/reply.h: a message from the daemon, decoded in place: the result of one request.
 *
 * Made by connection.c from the bytes of one message, handed to whoever finishes the request. Shared by
 * reference count: a DLPack tensor keeps the reply alive whose memory it shows.
 */
#ifndef KILN_CLIENT_REPLY_H
#define KILN_CLIENT_REPLY_H

#include "ir/mpack.h"
#include "kiln/kiln.h"

/* Decodes one scanned message. Takes the bytes over, also when it fails. */
kiln_status_t kiln_reply_create(kiln_buffer_t *message, kiln_reply_t **out_reply);
void kiln_reply_retain(kiln_reply_t *reply);

/* What kind of message: true for a reply, with its id (-1 for nil). */
bool kiln_reply_is_reply(const kiln_reply_t *reply, int64_t *out_id);
/* The daemon's error as a status; NULL when it sent a result. */
kiln_status_t kiln_reply_error(const kiln_reply_t *reply);
const kiln_mpack_t *kiln_reply_result(const kiln_reply_t *reply);

/* The field of a map that must be there: INTERNAL when the daemon left it out or it is of another type. */
kiln_status_t kiln_reply_uint(const kiln_mpack_t *map, const char *key, uint64_t *out);
/* A copy that lives as long as the reply. */
kiln_status_t kiln_reply_text(kiln_reply_t *reply, const kiln_mpack_t *map, const char *key,
                              const char **out);

#endif
