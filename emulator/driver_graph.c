/* emulator/driver_graph.c: graphs: the nodes that a capture leaves behind, executable graphs, and their
 * launches.
 *
 * Nodes are numbered in the order in which they were captured, which respects their dependencies; a launch
 * puts them into the stream in that order, one after the other. A GPU may run independent nodes at the same
 * time; no program can tell, as it may not rely on either. Parameters and sizes are those at capture; whether
 * kernels, events and memory are still there is looked at when a graph is launched. Executable graphs share
 * their graph's nodes. See driver.h.
 */
#include "emulator/driver.h"

#include <stdlib.h>
#include <string.h>

struct CUgraph_st {
  emu_nodes_t *nodes;
  CUgraph next; /* in its context */
};

struct CUgraphExec_st {
  emu_nodes_t *nodes;
  struct CUevent_st done; /* a launch waits for the one before, whatever their streams */
  CUgraphExec next;       /* in its context */
};

/* --- nodes --- */

void emu_node_set_deinit(emu_node_set_t *set) {
  free(set->items);
  *set = (emu_node_set_t){0};
}

/* The array, with room for `count` items; NULL when memory is short, and then it is as it was. */
static void *with_room(void *items, uint32_t *capacity, uint32_t count, size_t item_bytes) {
  if (items && count <= *capacity) return items;
  uint32_t wanted = count < 8 ? 8 : 2 * count;
  void *grown = realloc(items, wanted * item_bytes);
  if (grown) *capacity = wanted;
  return grown;
}

static bool contains(const emu_node_set_t *set, uint32_t node) {
  for (uint32_t n = 0; n < set->count; n++)
    if (set->items[n] == node) return true;
  return false;
}

bool emu_node_set_add(emu_node_set_t *set, const uint32_t *items, uint32_t count) {
  uint32_t *room = with_room(set->items, &set->capacity, set->count + count, sizeof *room);
  if (!room) return false;
  set->items = room;
  for (uint32_t n = 0; n < count; n++)
    if (!contains(set, items[n])) set->items[set->count++] = items[n];
  return true;
}

emu_nodes_t *emu_nodes_create(void) {
  emu_nodes_t *nodes = calloc(1, sizeof *nodes);
  if (nodes) nodes->users = 1;
  return nodes;
}

void emu_nodes_release(emu_nodes_t *nodes) {
  if (!nodes || --nodes->users) return;
  for (uint32_t n = 0; n < nodes->count; n++) {
    emu_op_deinit(&nodes->items[n]->op);
    emu_node_set_deinit(&nodes->items[n]->after);
    free(nodes->items[n]);
  }
  free(nodes->items);
  free(nodes);
}

bool emu_nodes_add(emu_nodes_t *nodes, const emu_op_t *op, const emu_node_set_t *after) {
  CUgraphNode node = calloc(1, sizeof *node);
  CUgraphNode *room = with_room(nodes->items, &nodes->capacity, nodes->count + 1, sizeof node);
  if (room) nodes->items = room;
  if (node && room && emu_node_set_add(&node->after, after->items, after->count)) {
    node->op = *op;
    nodes->items[nodes->count++] = node;
    return true;
  }
  emu_op_t lost = *op;
  emu_op_deinit(&lost);
  free(node);
  return false;
}

/* --- handles --- */

CUgraph emu_graph_create(CUcontext context, emu_nodes_t *nodes) {
  CUgraph graph = calloc(1, sizeof *graph);
  if (!graph) return NULL;
  graph->nodes = nodes;
  graph->next = context->graphs;
  context->graphs = graph;
  return graph;
}

static CUgraph *find_graph(CUcontext context, CUgraph graph) {
  CUgraph *at = &context->graphs;
  while (*at && *at != graph) at = &(*at)->next;
  return *at ? at : NULL;
}

static CUgraphExec *find_exec(CUcontext context, CUgraphExec exec) {
  CUgraphExec *at = &context->execs;
  while (*at && *at != exec) at = &(*at)->next;
  return *at ? at : NULL;
}

static void free_exec(CUgraphExec exec) {
  emu_nodes_release(exec->nodes);
  free(exec);
}

void emu_graphs_deinit(CUcontext context) {
  for (CUgraph g = context->graphs, next; g; g = next) {
    next = g->next;
    emu_nodes_release(g->nodes);
    free(g);
  }
  for (CUgraphExec e = context->execs, next; e; e = next) {
    next = e->next;
    free_exec(e);
  }
}

/* Takes the lock when the calling thread's context has the graph; otherwise gives the error to return. */
static CUresult lock_graph(CUgraph graph, CUcontext *out_context) {
  CUresult result = emu_current(out_context);
  if (result) return result;
  pthread_mutex_lock(&(*out_context)->lock);
  if (graph && find_graph(*out_context, graph)) return CUDA_SUCCESS;
  pthread_mutex_unlock(&(*out_context)->lock);
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphDestroy(CUgraph graph) {
  CUcontext context;
  CUresult result = lock_graph(graph, &context);
  if (result) return result;
  *find_graph(context, graph) = graph->next;
  emu_nodes_release(graph->nodes);
  pthread_mutex_unlock(&context->lock);
  free(graph);
  return CUDA_SUCCESS;
}

/* With no array, *count becomes the number of nodes; with one, as many as fit, and the rest of it is NULL. */
CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
  CUcontext context;
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = lock_graph(graph, &context);
  if (result) return result;
  for (size_t n = 0; nodes && n < *count; n++)
    nodes[n] = n < graph->nodes->count ? graph->nodes->items[n] : NULL;
  if (!nodes || *count > graph->nodes->count) *count = graph->nodes->count;
  pthread_mutex_unlock(&context->lock);
  return CUDA_SUCCESS;
}

static bool is_node(CUcontext context, CUgraphNode node) {
  for (CUgraph g = context->graphs; g; g = g->next)
    for (uint32_t n = 0; n < g->nodes->count; n++)
      if (g->nodes->items[n] == node) return true;
  return false;
}

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type) {
  static const CUgraphNodeType types[] = {
      [EMU_OP_LAUNCH] = CU_GRAPH_NODE_TYPE_KERNEL,       [EMU_OP_COPY] = CU_GRAPH_NODE_TYPE_MEMCPY,
      [EMU_OP_FILL] = CU_GRAPH_NODE_TYPE_MEMSET,         [EMU_OP_HOST] = CU_GRAPH_NODE_TYPE_HOST,
      [EMU_OP_RECORD] = CU_GRAPH_NODE_TYPE_EVENT_RECORD, [EMU_OP_WAIT] = CU_GRAPH_NODE_TYPE_WAIT_EVENT};
  CUcontext context;
  CUresult result = emu_current(&context);
  if (result) return result;
  pthread_mutex_lock(&context->lock);
  bool found = type && node && is_node(context, node);
  if (found) *type = types[node->op.kind];
  pthread_mutex_unlock(&context->lock);
  return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* --- executable graphs --- */

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
  CUcontext context;
  if (!exec || flags & ~15ull)
    return CUDA_ERROR_INVALID_VALUE; /* flags change when and where work is prepared */
  CUresult result = lock_graph(graph, &context);
  if (result) return result;
  CUgraphExec made = calloc(1, sizeof *made);
  if (made) {
    made->nodes = graph->nodes;
    made->nodes->users++;
    made->done.context = context;
    made->next = context->execs;
    context->execs = *exec = made;
  }
  pthread_mutex_unlock(&context->lock);
  return made ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Launches of it that are under way go to their end first. */
CUresult cuGraphExecDestroy(CUgraphExec exec) {
  CUcontext context;
  CUresult result = emu_current(&context);
  if (result) return result;
  emu_drain(context, NULL);
  pthread_mutex_lock(&context->lock);
  CUgraphExec *at = exec ? find_exec(context, exec) : NULL;
  if (at) {
    *at = exec->next;
    free_exec(exec);
  }
  pthread_mutex_unlock(&context->lock);
  return at ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* --- launches --- */

static bool is_covered(CUcontext context, const void *pointer, size_t bytes) {
  emu_range_t range;
  return emu_memory_covers(&context->memory, (uint64_t)(uintptr_t)pointer, bytes, &range);
}

/* Whether what the operation names still exists. */
static bool is_alive(CUcontext context, const emu_op_t *op) {
  CUmodule module = context->modules;
  if (op->to_device && !is_covered(context, op->destination, op->bytes)) return false;
  if (op->from_device && !is_covered(context, op->source, op->bytes)) return false;
  if (op->event && !emu_is_event(context, op->event)) return false;
  if (op->kind != EMU_OP_LAUNCH) return true;
  while (module && module->serial != op->module) module = module->next;
  return module != NULL;
}

/* A copy of an operation to be run or captured; false when memory is short. */
static bool copy_op(CUcontext context, const emu_op_t *op, emu_op_t *out_copy) {
  *out_copy = *op;
  out_copy->staged = NULL;
  if (op->staged) {
    if (!(out_copy->staged = malloc(op->bytes))) return false;
    out_copy->source = memcpy(out_copy->staged, op->staged, op->bytes);
  }
  if (op->kind != EMU_OP_LAUNCH || (out_copy->launch = emu_launch_again(context, op->launch))) return true;
  free(out_copy->staged);
  return false;
}

static emu_op_t *make_op(const emu_op_t *contents) {
  emu_op_t *op = malloc(sizeof *op);
  if (op) *op = *contents;
  return op;
}

static void free_ops(emu_op_t *first) {
  for (emu_op_t *next; first; first = next) {
    next = first->next;
    emu_op_deinit(first);
    free(first);
  }
}

/* Operations of a launch, in order: a wait for the launch before, the nodes, the record that says it is done.
 */
static CUresult make_ops(CUcontext context, CUgraphExec exec, emu_op_t **out_first) {
  emu_op_t contents = {.kind = EMU_OP_WAIT, .event = &exec->done}, **end = out_first;
  const emu_nodes_t *nodes = exec->nodes;
  for (uint32_t n = 0; n < nodes->count + 2; n++) {
    bool is_node = n > 0 && n <= nodes->count;
    if (is_node && !is_alive(context, &nodes->items[n - 1]->op)) return CUDA_ERROR_INVALID_VALUE;
    if (is_node && !copy_op(context, &nodes->items[n - 1]->op, &contents)) return CUDA_ERROR_OUT_OF_MEMORY;
    if (n > nodes->count) contents = (emu_op_t){.kind = EMU_OP_RECORD, .event = &exec->done};
    contents.next = NULL;
    if (!(*end = make_op(&contents))) {
      emu_op_deinit(&contents);
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    end = &(*end)->next;
  }
  return CUDA_SUCCESS;
}

static CUresult append_graph(CUcontext context, CUgraphExec exec, CUstream stream) {
  emu_op_t *first = NULL;
  CUresult result = make_ops(context, exec, &first);
  if (result) {
    free_ops(first);
    return result;
  }
  for (emu_op_t *next; first; first = next) {
    next = first->next;
    emu_append(context, stream, first);
  }
  return CUDA_SUCCESS;
}

/* A launch that is captured puts the nodes into the graph that is being made: all come after what the stream
 * did before, and the stream goes on after those that no other follows. */
static CUresult capture_graph(CUcontext context, const emu_nodes_t *nodes, CUstream stream,
                              emu_nodes_t *into) {
  emu_node_set_t before = stream->captured, leaves = {0};
  uint32_t base = into->count;
  bool fine = true;
  for (uint32_t n = 0; n < nodes->count && fine; n++) {
    const emu_node_set_t *own = &nodes->items[n]->after;
    emu_node_set_t after = {0};
    emu_op_t op;
    for (uint32_t k = 0; k < own->count && fine; k++)
      fine = emu_node_set_add(&after, &(uint32_t){base + own->items[k]}, 1);
    if (!own->count) fine = emu_node_set_add(&after, before.items, before.count);
    fine = fine && copy_op(context, &nodes->items[n]->op, &op) && emu_nodes_add(into, &op, &after);
    emu_node_set_deinit(&after);
  }
  for (uint32_t n = 0; n < nodes->count && fine; n++) {
    bool followed = false;
    for (uint32_t k = n + 1; k < nodes->count; k++) followed |= contains(&nodes->items[k]->after, n);
    if (!followed) fine = emu_node_set_add(&leaves, &(uint32_t){base + n}, 1);
  }
  if (!fine || !leaves.count) {
    emu_node_set_deinit(&leaves);
    return fine ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
  }
  emu_node_set_deinit(&stream->captured);
  stream->captured = leaves;
  return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream handle) {
  CUcontext context;
  CUresult result = emu_current(&context);
  if (result) return result;
  CUstream stream = emu_stream_of(context, handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  pthread_mutex_lock(&context->lock);
  if (!exec || !find_exec(context, exec))
    result = CUDA_ERROR_INVALID_VALUE;
  else if (!(result = emu_capture_refuses(context, stream)))
    result = stream->capture ? capture_graph(context, exec->nodes, stream, emu_capture_nodes(stream->capture))
                             : append_graph(context, exec, stream);
  pthread_mutex_unlock(&context->lock);
  return result;
}
