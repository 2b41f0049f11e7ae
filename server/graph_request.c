/* server/graph_request.c: from the fields of compile, execute and explain to a program and its plans.
 *
 * Each function may be called again when the request is resumed, and goes on from where it stands.
 */
#include "server/graph_request.h"

#include "base/clock.h"
#include "server/server.h"

#include <stdlib.h>
#include <string.h>

enum { POOL_BYTES = 64 << 10 }; /* a graph that is longer is parsed on the pool */
#define PROGRAM_LIMIT_BYTES (4ull << 30)

/* --- the program ------------------------------------------------------------------------------------ */

static kiln_status_t read_options(request_t *request, kiln_options_t *out) {
  const kiln_mpack_t *map = field_find(&request->fields, "options");
  if (!map) return NULL;
  if (kiln_mpack_kind(map) != KILN_MPACK_MAP) return field_wrong(&request->fields, "options", "a map");
  fields_t fields = {.arena = &request->arena, .map = map, .path = "options."};
  const char *precision;
  KILN_TRY(fields_known(&fields, "precision allow_tf32 unfused"));
  KILN_TRY(field_text(&fields, "precision", "exact", &precision));
  if (strcmp(precision, "exact") != 0 && strcmp(precision, "excess") != 0)
    return field_wrong(&fields, "precision", "\"exact\" or \"excess\"");
  out->excess_precision = !strcmp(precision, "excess");
  KILN_TRY(field_bool(&fields, "allow_tf32", false, &out->allow_tf32));
  return field_bool(&fields, "unfused", false, &out->unfused);
}

static kiln_status_t read_source(request_t *request, program_source_t *out) {
  const kiln_mpack_t *graph;
  KILN_TRY(field_require(&request->fields, "graph", &graph));
  KILN_TRY(field_text(&request->fields, "name", "", &out->name));
  KILN_TRY(read_options(request, &out->options));
  if (kiln_mpack_get_str(graph, &out->text, &out->text_size)) return NULL;
  out->form = graph;
  if (kiln_mpack_kind(graph) != KILN_MPACK_MAP)
    return field_wrong(&request->fields, "graph", "text or a map");
  return *out->name ? field_wrong(&request->fields, "name", "no value with a graph that is a map") : NULL;
}

static void keep_program(request_t *request, program_t *program) {
  server_t *server = request->server;
  server->counters[COUNTER_graphs_parsed]++;
  request->program = program;
  kiln_status_t status = kiln_memory_cache_put(server->programs, &program->digest, NULL, 0,
                                               program_retain(program), program_bytes(program));
  if (status) program_release(program);
  kiln_status_free(status);
}

typedef struct {
  uv_work_t work;
  request_t *request;
  program_source_t source;
  program_t *program;
  kiln_status_t status;
} parsing_t;

static void parse(uv_work_t *work) {
  parsing_t *parsing = work->data;
  parsing->status = program_create(&parsing->source, PROGRAM_LIMIT_BYTES, &parsing->program);
}

static void parsed(uv_work_t *work, int unused) {
  parsing_t *parsing = work->data;
  request_t *request = parsing->request;
  (void)unused;
  if (parsing->program) keep_program(request, parsing->program);
  if (parsing->status) {
    request_fail(request, parsing->status);
  } else {
    request_resume(request);
  }
  request_unhold(request);
  free(parsing);
}

static kiln_status_t parse_on_pool(request_t *request, const program_source_t *source) {
  parsing_t *parsing = calloc(1, sizeof *parsing);
  if (!parsing)
    return kiln_error_detail(kiln_error(KILN_OUT_OF_MEMORY, "no memory for a graph"), "where", "host");
  *parsing = (parsing_t){.work.data = parsing, .request = request, .source = *source};
  request->holds++;
  uv_queue_work(&request->server->loop, &parsing->work, parse, parsed);
  return NULL;
}

kiln_status_t graph_request_program(request_t *request, bool *out_waits) {
  if (request->program) return NULL;
  program_source_t source = {0};
  KILN_TRY(read_source(request, &source));
  kiln_digest_t digest;
  program_t *known = program_source_digest(&source, &digest)
                         ? kiln_memory_cache_get(request->server->programs, &digest, NULL, 0)
                         : NULL;
  if (known) {
    request->program = program_retain(known);
    return NULL;
  }
  if (request->message.size > POOL_BYTES) {
    *out_waits = true;
    return parse_on_pool(request, &source);
  }
  program_t *program;
  KILN_TRY(program_create(&source, PROGRAM_LIMIT_BYTES, &program));
  keep_program(request, program);
  return NULL;
}

/* --- symbols and targets ---------------------------------------------------------------------------- */

static kiln_status_t read_symbol(request_t *request, const fields_t *fields, size_t index) {
  const program_t *program = request->program;
  const kiln_mpack_t *key = kiln_mpack_pair_key(fields->map, index);
  for (uint32_t i = 0; i < program->symbol_count; i++) {
    if (!kiln_mpack_is_str(key, program->symbols[i].name)) continue;
    return field_int(fields, program->symbols[i].name, 0, INT64_MAX, -1, &request->symbols[i]);
  }
  const char *name = "";
  size_t size = 0;
  kiln_mpack_get_str(key, &name, &size);
  return field_wrong(fields, kiln_arena_strndup(&request->arena, name, size < 64 ? size : 64),
                     "the name of a symbol of the graph");
}

kiln_status_t graph_request_symbols(request_t *request) {
  const kiln_mpack_t *map = field_find(&request->fields, "symbols");
  for (int i = 0; i < KILN_MAX_SYMBOLS; i++) request->symbols[i] = -1;
  if (!map) return NULL;
  if (kiln_mpack_kind(map) != KILN_MPACK_MAP) return field_wrong(&request->fields, "symbols", "a map");
  fields_t fields = {.arena = &request->arena, .map = map, .path = "symbols."};
  for (size_t i = 0; i < kiln_mpack_count(map); i++) KILN_TRY(read_symbol(request, &fields, i));
  request->has_symbols = true;
  return NULL;
}

kiln_status_t graph_request_targets(request_t *request, size_t max_count) {
  const kiln_mpack_t *list = field_find(&request->fields, "targets");
  if (!list) return NULL;
  size_t count = kiln_mpack_count(list);
  if (kiln_mpack_kind(list) != KILN_MPACK_ARRAY || !count || count > max_count)
    return field_wrong(&request->fields, "targets",
                       kiln_arena_printf(&request->arena, "an array of 1 to %zu names", max_count));
  for (size_t i = 0; i < count; i++) {
    const char *name;
    size_t size;
    const char *field = kiln_arena_printf(&request->arena, "targets[%zu]", i);
    if (!kiln_mpack_get_str(kiln_mpack_item(list, i), &name, &size))
      return field_wrong(&request->fields, field, "a string");
    request->target_names[i] = kiln_arena_strndup(&request->arena, name, size);
    KILN_TRY(kiln_error_detail(kiln_target_parse(request->target_names[i], &request->targets[i]), "field",
                               "%s", field));
  }
  request->target_count = (uint32_t)count;
  return NULL;
}

/* --- plans ------------------------------------------------------------------------------------------ */

static kiln_status_t choose_class(const request_t *request, kiln_symbol_class_t *out) {
  const program_t *program = request->program;
  for (uint32_t i = 0; request->has_symbols && i < program->symbol_count; i++) {
    if (request->symbols[i] < 0)
      return kiln_error_detail(
          kiln_error(KILN_INVALID_ARGUMENT, "no value for symbol '%s'", program->symbols[i].name), "field",
          "symbols.%s", program->symbols[i].name);
  }
  *out = program_class(program, request->has_symbols ? request->symbols : NULL);
  return NULL;
}

kiln_status_t graph_request_plans(request_t *request, bool *out_waits) {
  uint32_t wanted = request->target_count ? request->target_count : 1;
  while (request->outcome_count < wanted && !*out_waits) {
    flight_target_t target = {.target = &request->targets[request->outcome_count],
                              .image_kind = KILN_IMAGE_CUBIN,
                              .device = FLIGHT_NO_DEVICE};
    if (!request->target_count) {
      device_t *device;
      KILN_TRY(devices_want(request, &device));
      *out_waits = !device;
      if (!device) break;
      target = (flight_target_t){
          .target = &device->info.target, .image_kind = device->info.image_kind, .device = request->device};
    }
    *out_waits = !workers_want_identity(request);
    if (*out_waits) break;
    kiln_symbol_class_t symbol_class;
    KILN_TRY(choose_class(request, &symbol_class));
    plan_outcome_t outcome = {0};
    KILN_TRY(flights_want(request, &target, &symbol_class, &outcome, out_waits));
    if (!*out_waits) request->outcomes[request->outcome_count++] = outcome;
  }
  return NULL;
}

/* --- replies ---------------------------------------------------------------------------------------- */

void graph_request_put_outcome(const request_t *request, kiln_buffer_t *out) {
  tier_t tier = TIER_MEMORY;
  uint64_t found = 0, compiled = 0, plan_ns = 0, compile_ns = 0;
  for (uint32_t i = 0; i < request->outcome_count; i++) {
    const plan_outcome_t *outcome = &request->outcomes[i];
    if (outcome->tier > tier) tier = outcome->tier;
    found += outcome->found;
    compiled += outcome->compiled;
    plan_ns += outcome->plan_ns;
    compile_ns += outcome->compile_ns;
  }
  kiln_mpack_member_hex(out, "key", &request->outcomes[0].variant->key);
  kiln_mpack_member_str(out, "cache", tier_name(tier));
  kiln_mpack_member_map(out, "kernels", 2);
  kiln_mpack_member_uint(out, "found", found);
  kiln_mpack_member_uint(out, "compiled", compiled);
  kiln_mpack_member_map(out, "timings", 3);
  kiln_mpack_member_uint(out, "total_ns", kiln_clock_monotonic_ns() - request->arrived_ns);
  kiln_mpack_member_uint(out, "plan_ns", plan_ns);
  kiln_mpack_member_uint(out, "compile_ns", compile_ns);
}
