/* codegen/grouped.h: one kernel for all members of a class.
 *
 *   members -> member.c: small graph, values of its symbols -> the family's own way from graph to source,
 *   with symbols as parameters -> emit_members.c: parameters are those of the block's member -> a table
 *
 * grouped.c leads; families see a codegen context with `grouped` set. What members may differ in beyond sizes
 * (how many neighbours an access takes) is a width: bodies are written for each width that some member has,
 * and a block takes that of its member. Inside codegen/ only.
 */
#ifndef KILN_CODEGEN_GROUPED_H
#define KILN_CODEGEN_GROUPED_H

#include "codegen/member.h"

enum { KILN_MOST_WIDTHS = 5, KILN_MOST_SELECTORS = 3 };

/* A parameter that chooses among bodies: neighbours in one access, powers of two, descending. */
typedef struct {
  const char *name;
  uint32_t widths[KILN_MOST_WIDTHS];
  uint32_t count;
} kiln_selector_t;

/* Of a contraction, symbols at their typical values. */
typedef struct {
  double m, n, k;
} kiln_product_size_t;

typedef struct kiln_grouped {
  uint32_t capacity;          /* of the table as a parameter; 0: it lies in device memory */
  const uint8_t *eps_symbols; /* per node of the small graph (codegen/member.h) */
  kiln_selector_t selectors[KILN_MOST_SELECTORS];
  uint32_t selector_count;
  int64_t most_columns;                /* rows: no row is longer; 0: some may be */
  uint32_t lanes;                      /* rows: neighbours of the widest access */
  const kiln_product_size_t *products; /* contractions: of the members, for the choice of a tile */
  uint32_t product_count;
} kiln_grouped_t;

/* Which members share a kernel, beyond what they compute (member_class.c). */
typedef struct {
  uint32_t number; /* part of the key */
  const char *selector_names[KILN_MOST_SELECTORS];
  uint32_t selector_count;
  uint32_t align_multiple; /* all places and strides are multiples of it; 0: widths say it */
  bool is_flat;            /* one row of any length */
  int64_t most_columns;
  uint32_t lanes;
  int64_t typical[KILN_MAX_SYMBOLS];
} kiln_class_t;

/* false: the group stays alone. */
bool kiln_class_of(const kiln_member_t *member, const kiln_grouping_t *grouping, kiln_class_t *out);
/* A member's value of a selector. */
uint32_t kiln_class_width(const kiln_member_t *member, const kiln_grouping_t *grouping,
                          const kiln_symbol_class_t *symbols, uint32_t selector);
/* Symbols at their typical values. */
double kiln_member_typical(const kiln_member_t *member, kiln_dim_t dim);

/* The symbols' class when N and all strides are multiples of the width. */
kiln_symbol_class_t kiln_grouped_class(const kiln_symbol_class_t *symbols, uint32_t width);

typedef kiln_status_t (*kiln_generate_t)(kiln_arena_t *arena, const kiln_graph_t *graph,
                                         const kiln_grouping_t *grouping, const kiln_group_t *group,
                                         const kiln_codegen_context_t *context,
                                         kiln_kernel_source_t *out_kernel);

/* The kernel of a group with members. UNSUPPORTED when they are not of one class. */
kiln_status_t kiln_grouped_generate(kiln_arena_t *arena, const kiln_graph_t *graph,
                                    const kiln_grouping_t *grouping, const kiln_group_t *group,
                                    const kiln_codegen_context_t *context, kiln_generate_t generate,
                                    kiln_kernel_source_t *out_kernel);

bool kiln_rows_classify(kiln_arena_t *arena, const kiln_graph_t *graph, const kiln_group_t *group,
                        const kiln_target_t *target, kiln_member_class_t *out_class);
bool kiln_contraction_classify(kiln_arena_t *arena, const kiln_graph_t *graph, const kiln_group_t *group,
                               const kiln_target_t *target, kiln_member_class_t *out_class);
bool kiln_elementwise_classify(kiln_arena_t *arena, const kiln_graph_t *graph, const kiln_group_t *group,
                               const kiln_target_t *target, kiln_member_class_t *out_class);

#endif
