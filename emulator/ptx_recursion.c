/* emulator/ptx_recursion.c: which functions of a module may call themselves.
 *
 * The calls of all bodies are read from the tokens; one through a pointer may reach every function whose
 * address is taken, which is a node of its own, behind those of the functions. Functions that call nothing
 * that is left, or that nothing left calls, are taken away (Kahn's algorithm from both ends) until only
 * cycles, and what lies between cycles, remain. Called by ptx_module.c before bodies are decoded, as calls
 * among those that remain are decoded differently (ptx_decode_call.c). Thread: the loading one.
 */
#include "emulator/ptx.h"

#include <string.h>

typedef struct {
  uint32_t caller, callee; /* numbers of first declarations */
} edge_t;

typedef struct {
  emu_module_t *m;
  edge_t *edges;
  size_t count, capacity;
} graph_t;

static uint32_t number_of(const emu_module_t *m, const emu_function_t *function) {
  return (uint32_t)(emu_ptx_function(m, function->name, strlen(function->name)) - m->functions);
}

static void add_edge(graph_t *g, uint32_t caller, uint32_t callee) {
  edge_t edge = {caller, callee};
  KILN_PUSH(&g->m->arena, g->edges, g->count, g->capacity, edge);
}

/* At "(": the token behind the ")" that closes it. */
static size_t skip_list(const emu_token_t *t, size_t n) {
  while (t[n].kind != EMU_TOKEN_END && !emu_token_is(&t[n], ")") && !emu_token_is(&t[n], ";")) n++;
  return emu_token_is(&t[n], ")") ? n + 1 : n;
}

/* Behind "call": modifiers, results in parentheses, the name or pointer. */
static void add_call(graph_t *g, uint32_t caller, size_t n) {
  const emu_token_t *t = g->m->tokens.tokens;
  while (t[n].kind == EMU_TOKEN_WORD && t[n].text[0] == '.') n++;
  if (emu_token_is(&t[n], "(")) n = skip_list(t, n);
  if (emu_token_is(&t[n], ",")) n++;
  if (t[n].kind != EMU_TOKEN_WORD) return;
  const emu_function_t *callee = emu_ptx_function(g->m, t[n].text, t[n].length);
  if (callee) {
    add_edge(g, caller, (uint32_t)(callee - g->m->functions));
    return;
  }
  add_edge(g, caller, (uint32_t)g->m->function_count);
}

static void add_calls(graph_t *g, const emu_function_t *function) {
  const emu_token_t *t = g->m->tokens.tokens;
  uint32_t depth = 0, caller = number_of(g->m, function);
  size_t n = function->body;
  do {
    depth += emu_token_is(&t[n], "{");
    depth -= emu_token_is(&t[n], "}");
    if (emu_token_is(&t[n], "call")) add_call(g, caller, n + 1);
    n++;
  } while (depth && t[n].kind != EMU_TOKEN_END);
}

/* Takes away the functions without an edge, among those left, that begins (or ends) at them; false when there
 * is none. */
static bool peel(const graph_t *g, bool *left, uint32_t *degrees, bool callers) {
  bool any = false;
  memset(degrees, 0, (g->m->function_count + 1) * sizeof *degrees);
  for (size_t n = 0; n < g->count; n++)
    if (left[g->edges[n].caller] && left[g->edges[n].callee])
      degrees[callers ? g->edges[n].caller : g->edges[n].callee]++;
  for (size_t f = 0; f <= g->m->function_count; f++) {
    if (!left[f] || degrees[f]) continue;
    left[f] = false;
    any = true;
  }
  return any;
}

void emu_ptx_find_recursion(emu_module_t *m) {
  graph_t g = {.m = m};
  bool *left = KILN_NEW_ARRAY(&m->arena, bool, m->function_count + 1);
  uint32_t *degrees = KILN_NEW_ARRAY(&m->arena, uint32_t, m->function_count + 1);
  for (size_t f = 0; f < m->function_count; f++) {
    left[f] = true;
    if (m->functions[f].addressed) add_edge(&g, (uint32_t)m->function_count, (uint32_t)f);
    if (m->functions[f].body) add_calls(&g, &m->functions[f]);
  }
  left[m->function_count] = true;
  for (bool peeled = true; peeled;) {
    peeled = peel(&g, left, degrees, true);
    peeled |= peel(&g, left, degrees, false);
  }
  for (size_t f = 0; f < m->function_count; f++)
    m->functions[f].recursive = left[number_of(m, &m->functions[f])];
}

#define CALL_BYTES 16u /* of the modelled stack: a return address and a saved register or two */

void emu_ptx_finish_saved(emu_saved_t *saved) {
  for (size_t n = 0; n < saved->slot_count; n++)
    saved->record_bytes += saved->slots[n].width ? saved->slots[n].width : 1;
  for (size_t n = 0; n < saved->range_count; n++) saved->record_bytes += saved->ranges[n].bytes;
  saved->frame_bytes += CALL_BYTES;
}
