/* client/cli_json.h: JSON objects of the commands, to and from text. */
#ifndef KILN_CLIENT_CLI_JSON_H
#define KILN_CLIENT_CLI_JSON_H

#include "client/cli.h"
#include "ir/mpack.h"
#include "kiln/kiln.h"
#include <jansson.h>

/* A value that is released with the command's arena. OUT_OF_MEMORY for NULL. */
kiln_status_t kiln_cli_keep_json(kiln_cli_t *cli, json_t *value);
/* A reply's result; released with the command's arena. */
kiln_status_t kiln_cli_reply_json(kiln_cli_t *cli, kiln_reply_t *reply, json_t **out);
/* A MessagePack value, as a reply would have it; released with the command's arena. */
kiln_status_t kiln_cli_mpack_json(kiln_cli_t *cli, const kiln_mpack_t *value, json_t **out);
/* The answer to a method called without params; released with the command's arena. */
kiln_status_t kiln_cli_ask(kiln_cli_t *cli, kiln_client_t *client, const char *method, json_t **out);
/* On stdout, in one line. */
void kiln_cli_print_json(const json_t *value);
/* On stdout, one line per scalar, nested values indented. */
void kiln_cli_print_lines(const json_t *value, int indent);

/* Members of an object; "" and 0 when absent. */
const char *kiln_cli_json_text(const json_t *object, const char *key);
long long kiln_cli_json_integer(const json_t *object, const char *key);

#endif
