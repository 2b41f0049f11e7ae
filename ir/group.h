/* ir/group.h: what grouping decides: which nodes become one launch, and where their results lie.
 *
 * Made by passes/group*.c and passes/buffers.c, read by codegen (group -> kernel IR) and by server/pipeline.c
 * (-> plan). All ids are of the optimized graph. A node may stand in several groups (recomputed); a value
 * that some group stores is "materialized" and others read it from its buffer.
 */
#ifndef KILN_IR_GROUP_H
#define KILN_IR_GROUP_H

#include "ir/graph.h"
#include "ir/target.h"

typedef enum {
  KILN_BUFFER_INPUT,  /* graph input `index` */
  KILN_BUFFER_OUTPUT, /* graph output `index` */
  KILN_BUFFER_TEMP    /* temporary `index` of the buffer plan, dense row-major, aligned to 256 bytes */
} kiln_buffer_kind_t;

typedef struct {
  kiln_buffer_kind_t kind;
  uint32_t index;
} kiln_buffer_ref_t;

/* Where a value lies inside a larger one: it was to be concatenated, and is written there at once. */
typedef struct {
  kiln_value_id_t of; /* what the buffer holds and readers know: several stores make it together */
  kiln_value_id_t as; /* the concatenation: the same value, or one of which it is a reshape */
  kiln_dim_t start[KILN_MAX_RANK]; /* where the stored value's first element stands in `as`, per axis */
} kiln_window_t;

/* One value written by a group. The same value may be stored twice (returned twice, or returned and read on).
 */
typedef struct {
  kiln_value_id_t value;
  kiln_buffer_ref_t buffer;
  const kiln_window_t *window; /* NULL: the buffer holds the value alone */
} kiln_store_t;

/* How members share a launch. */
typedef enum {
  KILN_JOIN_CLASS, /* vertical groups of one class: one code, a table of members */
  /* Each block does its part of all in turn; a member may read, at its own points, what an earlier one has
   * stored. Such values are not among the group's inputs. */
  KILN_JOIN_SEQUENCE,
  KILN_JOIN_BESIDE /* two groups of different families, each with blocks of its own */
} kiln_join_t;

typedef struct kiln_group {
  const char *kind;      /* the kernel family: "elementwise", "reduction" ... */
  const uint32_t *nodes; /* in topological order; empty for a plain copy of inputs to outputs */
  uint32_t node_count;
  const kiln_value_id_t *inputs; /* values read from memory, each once */
  uint32_t input_count;
  const kiln_store_t *stores;
  uint32_t store_count;
  /* A horizontal group: vertical groups of one class (below) side by side in one launch. Their nodes, inputs
   * and stores are together those of the group, which keeps each input once; members have no members. 1 and
   * NULL when alone. */
  const struct kiln_group *members;
  uint32_t member_count;
  kiln_join_t join;
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
  const char *const
      *temp_reasons; /* why the value is stored, and not computed where it is read: for explain */
  uint32_t temp_count;
  uint32_t slot_count;
} kiln_grouping_t;

/* With whom a vertical group may share a launch, and what it costs there. */
typedef struct {
  uint64_t key[2]; /* one kernel runs groups of one kind and equal keys, whatever their number and sizes */
  double blocks;   /* thread blocks when alone, symbols at their typical values */
  double block_ns; /* modelled time of one block on the target */
  double bytes;    /* read and written, at least */
  uint32_t blocks_per_sm; /* that run at once */
  const char *name;       /* of the class, for explain: "f16 rows of up to 256"; NULL: its kind says enough */
} kiln_member_class_t;

/* What passes must know of kernels, per family: implemented in codegen, handed over by the pipeline. */
typedef struct {
  const char *name;
  /* Can this node be part of a kernel of the family? */
  bool (*accepts)(const kiln_graph_t *graph, uint32_t node);
  uint32_t max_nodes;   /* of one kernel */
  uint32_t max_buffers; /* pointers of one kernel */
  /* The class of a vertical group (its nodes, inputs and stores); false: it must stay alone. Costs no more
   * than a walk over its nodes. NULL: the family has no grouped form. */
  bool (*classify)(kiln_arena_t *arena, const kiln_graph_t *graph, const struct kiln_group *group,
                   const kiln_target_t *target, kiln_member_class_t *out_class);
  /* Should several blocks share each row of this reduction? Then its results are known only when the kernel
   * is over, to what has one element per row. NULL: never. */
  bool (*shares_rows)(const kiln_graph_t *graph, uint32_t node, const kiln_target_t *target);
} kiln_family_t;

typedef struct {
  const kiln_family_t *items;
  size_t count;
} kiln_families_t;

#endif
