/* passes/grouping.h: what the files of grouping share: which values are cut, regions, the cones between cuts.
 *
 *   cost.c: cuts where work would be done many times over -> cuts.c: cuts where a kernel would be too large,
 *   with regions.c: what is computed together with a reduction or a contraction -> group.c: one kernel per
 *   set of stores that fit together, with windows.c: parts of concatenations, levels.c: in which order
 *   -> kernels.c: groups -> horizontal.c: which groups share a launch -> buffers.c: where the results lie
 *
 * A *cut* value is computed once, stored, and read from memory by what lies behind it. Everything else is
 * computed in registers wherever it is needed: the *cone* of a value is every node from which it is computed,
 * back to cut values and graph inputs. A graph output is stored, but that alone cuts nothing: who goes on
 * from it recomputes it, in the same kernel at no cost. Large graphs fall into *windows* of consecutive
 * nodes, about a kernel each; a value cut for size is read by other windows only, inside its own it is at
 * hand.
 *
 * Reductions, normalizations and contractions are never computed twice: each belongs to one *region*, with
 * everything that its kernel computes from its results. What others read of a region is cut, and at hand
 * inside it, so a region is a window too. Inside passes/ only.
 */
#ifndef KILN_PASSES_GROUPING_H
#define KILN_PASSES_GROUPING_H

#include "passes/passes.h"

/* Why a value is stored and read from memory. */
typedef enum {
  CUT_NONE,
  CUT_COST,     /* computing it once saves more than a launch costs */
  CUT_SIZE,     /* the end of a window: the kernel would have been too large */
  CUT_BUFFERS,  /* the kernel would have read too many buffers */
  CUT_FAMILY,   /* no one family accepts both sides */
  CUT_REGION,   /* the result of a region, for others */
  CUT_PROLOGUE, /* an operand of a contraction, which each tile would compute again */
  CUT_LATE,     /* the caller's: a kernel turned out to be unfit */
  CUT_UNFUSED
} cut_t;

enum {
  FIRST_REGION_WINDOW = 1 << 30, /* windows from here on are regions */
  THREADS_PER_SM = 2048,
  LAUNCH_NS = 3000 /* what a launch costs beyond its work; company.c says whence */
};

typedef struct {
  kiln_arena_t *arena;
  const kiln_graph_t *graph;
  const kiln_families_t *families;
  const kiln_target_t *target;
  const kiln_options_t *options;
  uint8_t *cuts;        /* per value: a cut_t */
  bool *live;           /* per node: some output needs it */
  uint64_t *masks;      /* per node: bit f is set when family f accepts it */
  uint32_t *windows;    /* per node */
  const char **reasons; /* per value: the caller's, for CUT_LATE and what is kept apart */
} grouping_t;

/* Does a node of this window read the value from memory? */
static inline bool is_leaf(const grouping_t *g, uint32_t window, kiln_value_id_t value) {
  if (value < g->graph->input_count) return true;
  if (g->cuts[value] != CUT_SIZE && g->cuts[value] != CUT_REGION) return g->cuts[value] != CUT_NONE;
  return g->windows[g->graph->producers[value]] != window;
}

static inline uint32_t window_of(const grouping_t *g, kiln_value_id_t value) {
  return value < g->graph->input_count ? 0 : g->windows[g->graph->producers[value]];
}

/* Of a kernel's buffers, how many are kept for what one value is stored to; the rest is for what its cone
 * reads. */
static inline uint32_t buffers_for_stores(uint32_t max_buffers) {
  return max_buffers < 8 ? 1 : max_buffers / 4;
}

/* -- cones
 * -----------------------------------------------------------------------------------------------------------------
 */
typedef struct {
  const grouping_t *grouping;
  uint32_t *node_stamps, *value_stamps, stamp; /* an entry equal to stamp is in the cone */
  uint32_t *nodes;
  kiln_value_id_t *leaves;
  size_t node_count, node_capacity, leaf_count, leaf_capacity;
  kiln_value_id_t *pending; /* values still to be walked from */
  size_t pending_count, pending_capacity;
} cone_t;

cone_t cone_create(const grouping_t *grouping);
void cone_clear(cone_t *cone);
/* Adds the cone of a value, as the window sees it; the value is computed even when it is cut, an input is
 * read. The values of one cone are of one window. False as soon as the cone has more nodes or leaves than the
 * limits. */
bool cone_add(cone_t *cone, uint32_t window, kiln_value_id_t value, uint32_t node_limit, uint32_t leaf_limit);

/* -- measuring (cuts.c, regions.c)
 * ------------------------------------------------------------------------------------------------------------
 * Nodes are placed in order; what is known of a value is known of every value before it. */
typedef struct regions regions_t;

typedef struct {
  grouping_t *grouping;
  cone_t cone;
  uint32_t *nodes, *leaves;      /* per value: upper bounds of its cone */
  uint64_t *masks;               /* per value: families that accept the whole cone */
  uint32_t *levels;              /* per value: at least as many kernels come before its own */
  uint32_t *last_readers;        /* per value: the last node that reads it */
  uint32_t *output_uses;         /* per value: how often it is returned */
  uint32_t window, window_start; /* its number and first node */
  regions_t *regions;
} measure_t;

/* The families that take these nodes have the smallest of their limits. */
void limits_of(const grouping_t *grouping, uint64_t mask, uint32_t *node_limit, uint32_t *leaf_limit);
/* The level of a kernel that reads a value from memory. */
uint32_t level_behind(const measure_t *measure, kiln_value_id_t value);
/* Nodes, leaves, families and level of a node's cone, from those of its operands. */
void measure_node(measure_t *measure, uint32_t node);
void cut(measure_t *measure, kiln_value_id_t value, cut_t why);

regions_t *regions_create(measure_t *measure);
/* Puts a node into a region, a new one if need be; false when it is no region's business. What it reads of
 * other regions is cut. */
bool regions_take(measure_t *measure, uint32_t node);
bool is_in_region(const measure_t *measure, kiln_value_id_t value);
uint32_t region_level(const measure_t *measure, kiln_value_id_t value);

/* -- deciding
 * --------------------------------------------------------------------------------------------------------------
 */
/* Number of elements for costs: symbols at their typical values. */
double typical_elements(const kiln_graph_t *graph, const kiln_type_t *type);
double typical_bytes(const kiln_graph_t *graph, const kiln_type_t *type);
/* Is an op worth storing its result where that would be needed many times over? */
bool is_dear(kiln_op_t op);
void cut_by_cost(grouping_t *grouping);
void cut_by_size(grouping_t *grouping);
/* -- windows.c: concatenations that no kernel makes: their parts are stored in place */
typedef struct {
  kiln_value_id_t value;
  const kiln_window_t *window; /* where it is stored */
} part_t;

typedef struct {
  part_t *parts;
  size_t count, capacity;
  bool *is_dissolved; /* per value: nobody stores it as a whole */
} windows_t;

windows_t find_windows(grouping_t *grouping, const uint32_t *output_uses);
/* The level of each stored value, or part: values of one level do not depend on each other. A dissolved value
 * is there when the last of its parts is, on the level of that one. */
void find_levels(const grouping_t *grouping, cone_t *cone, const windows_t *windows,
                 const kiln_value_id_t *stored, size_t count, uint32_t *out_levels);
/* Storage, temporaries and slots of a grouping whose groups are final. */
void plan_buffers(const grouping_t *grouping, kiln_grouping_t *out);
/* Bytes of all slots, symbols at their typical values. */
double arena_bytes_of(const grouping_t *grouping, const kiln_grouping_t *planned);
/* Horizontal groups (horizontal.c), and then the buffers. apart: per value, the number of the only launches
 * that may store it; 0: any. */
void arrange_launches(const grouping_t *g, const uint32_t *apart, kiln_grouping_t *grouping);

#endif
