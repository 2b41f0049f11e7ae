/* server/graph_request.h: what compile, execute and explain have in common: a graph, symbols, options,
 * targets. */
#ifndef KILN_SERVER_GRAPH_REQUEST_H
#define KILN_SERVER_GRAPH_REQUEST_H

#include "server/devices.h"
#include "server/request.h"

/* Reads graph, name and options and gets the program: request->program is set, or the request waits for the
 * pool, which resumes it (out_waits). */
kiln_status_t graph_request_program(request_t *request, bool *out_waits);
/* Reads the field symbols into request->symbols (-1: not given) and has_symbols, against the program's names.
 */
kiln_status_t graph_request_symbols(request_t *request);
kiln_status_t graph_request_targets(request_t *request, size_t max_count);
/* Gets the next of the request's plans, for targets or the device; true in *out_waits when it is not all
 * there yet. */
kiln_status_t graph_request_plans(request_t *request, bool *out_waits);

/* key, cache, kernels and timings: 4 pairs of a reply's map. */
void graph_request_put_outcome(const request_t *request, kiln_buffer_t *out);

#endif
