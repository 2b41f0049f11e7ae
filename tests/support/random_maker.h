/* tests/support/random_maker.h: what the parts of the generator of random graphs share.
 *
 *   random_graph.c: inputs, choice of ops and operands, outputs
 *   random_attrs.c: attributes of one op that its shape rule will mostly accept
 *   random_motifs.c: several nodes at once, as models and bug reports have them
 *
 * Everything is tried and the shape rules decide: what they refuse, for any value of the symbols, is dropped.
 */
#ifndef KILN_TESTS_SUPPORT_RANDOM_MAKER_H
#define KILN_TESTS_SUPPORT_RANDOM_MAKER_H

#include "tests/support/random_graph.h"

typedef struct {
  kiln_arena_t *arena;
  kiln_graph_builder_t *builder;
  const kiln_random_options_t *options;
  uint64_t state;
  uint32_t value_count, node_count;
  kiln_dim_t palette[6]; /* few sizes per graph, so that values fit each other */
  uint32_t palette_count;
} kiln_maker_t;

/* One node in the making. */
typedef struct {
  kiln_op_t op;
  kiln_value_id_t operands[8];
  uint32_t operand_count;
  kiln_attr_value_t attrs[6];
  uint32_t attr_count;
} kiln_attempt_t;

uint32_t kiln_maker_below(kiln_maker_t *m, uint32_t bound);
bool kiln_maker_one_in(kiln_maker_t *m, uint32_t n);
const kiln_type_t *kiln_maker_type(const kiln_maker_t *m, kiln_value_id_t value);
/* A dimension, and a value's elements, for the first set of symbol values. */
int64_t kiln_maker_size(const kiln_maker_t *m, kiln_dim_t dim);
int64_t kiln_maker_elements(const kiln_maker_t *m, const kiln_type_t *type);
kiln_dim_t kiln_maker_random_dim(kiln_maker_t *m);
kiln_dtype_t kiln_maker_random_dtype(kiln_maker_t *m);
/* A value whose dtype is in the set and, unless like is KILN_NO_VALUE, whose shape is like's or broadcasts
 * to it; some other value when few fit. Recent values come more often. */
kiln_value_id_t kiln_maker_value(kiln_maker_t *m, kiln_dtype_set_t dtypes, kiln_value_id_t like);
/* Appends the node; KILN_NO_VALUE when the rules refuse it or its results would be too large. */
kiln_value_id_t kiln_maker_emit(kiln_maker_t *m, kiln_attempt_t *attempt);

/* --- random_attrs.c */
kiln_attr_value_t *kiln_maker_attr(kiln_attempt_t *attempt, kiln_attr_t attr);
void kiln_maker_dims(kiln_maker_t *m, kiln_attempt_t *attempt, kiln_attr_t attr, const kiln_dim_t *dims,
                     uint32_t count);
void kiln_maker_ints(kiln_maker_t *m, kiln_attempt_t *attempt, kiln_attr_t attr, const int64_t *integers,
                     uint32_t count);
void kiln_maker_permutation(kiln_maker_t *m, uint32_t rank, int64_t *out);
void kiln_maker_attrs(kiln_maker_t *m, kiln_attempt_t *attempt);

/* --- random_motifs.c: false when it could not be made */
bool kiln_maker_motif(kiln_maker_t *m);

#endif
