/* server/error_wire.h: a status as a MessagePack map {code, message, detail, retry}: in replies, and between
 * our processes. */
#ifndef KILN_SERVER_ERROR_WIRE_H
#define KILN_SERVER_ERROR_WIRE_H

#include "ir/mpack.h"

void error_encode(kiln_buffer_t *out, kiln_status_t status);
/* A status like the one that was encoded; INTERNAL when the bytes are no such map. Never NULL. */
kiln_status_t error_decode(const void *bytes, size_t size);
kiln_status_t error_from(const kiln_mpack_t *value);
/* Another status that says the same: several requests may wait for one outcome. NULL for NULL. */
kiln_status_t error_copy(kiln_status_t status);

#endif
