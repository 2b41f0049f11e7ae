/* passes/horizontal.h: what the files of horizontal grouping share: who waits for whom, what a launch costs,
 * what memory an order of launches takes.
 *
 *   group.c: vertical groups -> horizontal.c: which of them share a launch, and the order of launches; asks
 *   dependencies.c: who waits for whom? classes.c: who could share a launch, and how often must there be one?
 *   company.c: who gains by it? memory.c: what fits? and has merge.c make the group -> buffers.c
 *
 * Inside passes/ only.
 */
#ifndef KILN_PASSES_HORIZONTAL_H
#define KILN_PASSES_HORIZONTAL_H

#include "passes/grouping.h"

/* -- dependencies.c: group i must run before every one of readers[starts[i]] .. readers[starts[i + 1] - 1] */
typedef struct {
  uint32_t count;
  uint32_t *starts, *readers; /* a reader stands there once for each value that it reads */
  uint32_t *waits;            /* per group: how often it is a reader */
} dependencies_t;

dependencies_t find_dependencies(const grouping_t *g, const kiln_group_t *groups, uint32_t count);
/* What the buffer of a store holds: the value itself, or the one of which it is a window. */
static inline kiln_value_id_t held_value(const kiln_store_t *store) {
  return store->window ? store->window->of : store->value;
}

/* -- classes.c ------------------------------------------------------------------------------------------ */
#define NO_CLASS UINT32_MAX

/* The groups of a class and of one rank. */
typedef struct {
  uint32_t left, ready; /* that are not launched; that could be */
} tier_t;

/* Groups that could share a launch. Each has a rank: how many of the class stand on the longest way that
 * begins with it. */
typedef struct {
  const char *name;
  uint32_t *groups, count;   /* in order */
  uint32_t *tiers_of;        /* per group of the class, as in groups */
  tier_t *tiers;             /* the highest rank first */
  uint32_t tier, tier_count; /* the first that has groups left */
  uint32_t *ready, ready_count;
  uint32_t left;
  uint32_t awaited;           /* all groups before this place were ready once */
  bool is_queued, is_waiting; /* in the lists of horizontal.c */
} class_t;

typedef struct {
  const kiln_group_t *groups;
  uint32_t group_count;
  kiln_member_class_t *costs; /* per group */
  uint32_t *classes;          /* per group: NO_CLASS when it must stay alone */
  uint32_t *places;           /* per group: in its class */
  class_t *items;
  size_t count, capacity;
} classes_t;

/* apart: per value, the number of the only launches that may store it. is_bound: groups stay on their level.
 */
classes_t find_classes(const grouping_t *g, const kiln_group_t *groups, uint32_t count, const uint32_t *apart,
                       bool is_bound);
/* Ranks, and by them the tiers. */
void rank_classes(kiln_arena_t *arena, classes_t *classes, const dependencies_t *dependencies);

/* -- merge.c: several groups as one; their order is the members' ----------------------------------------- */
kiln_group_t merge_groups(kiln_arena_t *arena, const kiln_group_t *groups, const uint32_t *indices,
                          uint32_t count);
/* The group's level, when all before it have theirs; levels: per value, that of the launches that write it,
 * + 1. What is read was written before, or the order is wrong. */
void set_level(const grouping_t *g, kiln_group_t *group, uint32_t *levels);

/* -- sequence.c: contractions in one launch with those that read their results point by point; returns how
 * many launches are left, in order */
uint32_t join_sequences(const grouping_t *g, const uint32_t *apart, kiln_group_t *groups, uint32_t count);
/* -- beside.c: small launches beside independent ones of another family; the same */
uint32_t join_neighbours(const grouping_t *g, const uint32_t *apart, kiln_group_t *groups, uint32_t count);

/* -- memory.c: bytes of the temporaries that are alive while groups run in some order ------------------- */
typedef struct {
  const grouping_t *grouping;
  double *bytes;          /* per value: of a temporary, 0 for all others */
  uint32_t *readers_left; /* per value: groups that read it and have not run */
  bool *is_held;          /* per value */
  double live_bytes, peak_bytes;
} memory_t;

memory_t memory_create(const grouping_t *g, const kiln_group_t *groups, uint32_t count);
/* What a group would add to what is alive. */
double memory_needed(const memory_t *memory, const kiln_group_t *group);
/* Some groups run in one launch. */
void memory_run(memory_t *memory, const kiln_group_t *const *groups, uint32_t count);
/* Inputs and outputs, which an execution holds from beginning to end. */
double memory_of_boundary(const kiln_graph_t *graph);

/* -- company.c: the cost rule --------------------------------------------------------------------------- */
/* Marks those members of a launch that gain nothing by company and had better run alone; returns how many. */
uint32_t find_loners(kiln_arena_t *arena, const kiln_target_t *target,
                     const kiln_member_class_t *const *members, uint32_t count, bool *out_is_alone);
/* Modelled time of one launch of these members. */
double launch_ns(const kiln_target_t *target, const kiln_member_class_t *const *members, uint32_t count);

#endif
