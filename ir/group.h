/* ir/group.h: what grouping decides: which nodes become one launch, and where their results lie.
 *
 * Made by passes/group*.c and passes/buffers.c, read by codegen (group -> kernel IR) and by server/pipeline.c
 * (-> plan). All ids are of the optimized graph. A node may stand in several groups (recomputed); a value
 * that some group stores is "materialized" and others read it from its buffer.
 */
#ifndef KILN_IR_GROUP_H
#define KILN_IR_GROUP_H

#include "ir/graph.h"

typedef enum {
  KILN_BUFFER_INPUT,  /* graph input `index` */
  KILN_BUFFER_OUTPUT, /* graph output `index` */
  KILN_BUFFER_TEMP    /* temporary `index` of the buffer plan, dense row-major, aligned to 256 bytes */
} kiln_buffer_kind_t;

typedef struct {
  kiln_buffer_kind_t kind;
  uint32_t index;
} kiln_buffer_ref_t;

/* One value written by a group. The same value may be stored twice (returned twice, or returned and read on).
 */
typedef struct {
  kiln_value_id_t value;
  kiln_buffer_ref_t buffer;
} kiln_store_t;

typedef struct {
  const char *kind;      /* the kernel family: "elementwise", "reduction" ... */
  const uint32_t *nodes; /* in topological order; empty for a plain copy of inputs to outputs */
  uint32_t node_count;
  const kiln_value_id_t *inputs; /* values read from memory, each once */
  uint32_t input_count;
  const kiln_store_t *stores;
  uint32_t store_count;
  uint32_t members;   /* vertical groups side by side in this launch; 1 when alone */
  uint32_t level;     /* groups of one level are independent; levels increase along every dependency */
  const char *reason; /* why it was not merged with a neighbour, for explain; "" when nothing kept it apart */
} kiln_group_t;

typedef struct {
  const kiln_group_t *groups; /* in launch order */
  uint32_t group_count;
  /* per value of the graph: where readers find it; valid when it is an input or materialized */
  const kiln_buffer_ref_t *storage;
  /* temporaries: each lives in a slot of the arena; slots are reused by lifetime */
  const uint32_t *temp_slots;
  const kiln_value_id_t *temp_values;
  uint32_t temp_count;
  uint32_t slot_count;
} kiln_grouping_t;

/* What passes must know of kernels, per family: implemented in codegen, handed over by the pipeline. */
typedef struct {
  const char *name;
  /* Can this node be part of a kernel of the family? */
  bool (*accepts)(const kiln_graph_t *graph, uint32_t node);
  uint32_t max_nodes;   /* of one kernel */
  uint32_t max_buffers; /* pointers of one kernel */
} kiln_family_t;

typedef struct {
  const kiln_family_t *items;
  size_t count;
} kiln_families_t;

#endif
