/* client/json.h: a MessagePack value as JSON text, for people and scripts. */
#ifndef KILN_CLIENT_JSON_H
#define KILN_CLIENT_JSON_H

#include "ir/mpack.h"

/* Binaries become strings of hexadecimal digits, infinities and NaN null, keys that are no strings "". */
void kiln_json_print(kiln_buffer_t *out, const kiln_mpack_t *value);

#endif
