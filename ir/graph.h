/* ir/graph.h: a graph: a pure function on tensors.
 *
 * Values are numbered: the inputs first, then the results of the nodes in node order. Nodes stand in
 * topological order: a node's operands have smaller ids than its results. Graphs are built once, by
 * kiln_graph_builder_*, and const ever after; they live in one arena. Building checks nothing but memory:
 * kiln_graph_verify (ir/verify.h) is the specification.
 */
#ifndef KILN_IR_GRAPH_H
#define KILN_IR_GRAPH_H

#include "base/status.h"
#include "ir/dim.h"
#include "ir/dtype.h"
#include "ir/op.h"

typedef uint32_t kiln_value_id_t;
#define KILN_NO_VALUE UINT32_MAX /* an absent optional operand */

typedef struct {
  kiln_dtype_t dtype;
  uint32_t rank;
  kiln_dim_t dims[KILN_MAX_RANK];
} kiln_type_t;

/* A number as it was written: exact for 64-bit integers and for doubles. */
typedef struct {
  bool is_integer;
  int64_t integer; /* valid when is_integer */
  double real;     /* always valid (rounded when is_integer) */
} kiln_number_t;

typedef struct {
  kiln_attr_t attr;
  union {
    int64_t integer;      /* INT */
    double real;          /* FLOAT */
    kiln_number_t number; /* NUMBER */
    bool flag;            /* BOOL */
    kiln_dtype_t dtype;   /* DTYPE */
    const char *word;     /* WORD */
    struct {              /* INTS, DIMS, NUMBERS */
      uint32_t count;
      union {
        const int64_t *integers;
        const kiln_dim_t *dims;
        const kiln_number_t *numbers;
      };
    } list;
  };
} kiln_attr_value_t;

typedef struct {
  kiln_op_t op;
  uint32_t operand_count;
  uint32_t result_count;
  uint32_t attr_count;
  kiln_value_id_t first_result; /* results are first_result .. first_result + result_count - 1 */
  const kiln_value_id_t *operands;
  const kiln_attr_value_t *attrs; /* sorted by kiln_attr_t; absent ones are not there */
  uint32_t line;                  /* in the text it came from; 0: none */
} kiln_node_t;

/* How a boundary tensor lies in memory. Dense row-major unless has_strides. Strides count elements and are >=
 * 0. */
typedef struct {
  bool has_strides;
  kiln_dim_t strides[KILN_MAX_RANK];
  uint32_t align_bytes; /* a power of two, 16 by default */
} kiln_layout_t;

typedef struct {
  const char *name;
  int64_t typical; /* 0: not given */
} kiln_symbol_t;

typedef struct {
  const char *name;
  uint32_t symbol_count, input_count, node_count, output_count, value_count;
  const kiln_symbol_t *symbols;
  const kiln_type_t *types; /* per value */
  const char *const
      *value_names;          /* per value, each may be NULL; NULL as a whole when the graph has no names */
  const uint32_t *producers; /* per value: its node, or KILN_NO_VALUE for an input */
  const kiln_layout_t *input_layouts;
  const kiln_node_t *nodes;
  const kiln_value_id_t *outputs; /* a value may be returned twice, an input may be returned */
  const kiln_layout_t *output_layouts;
} kiln_graph_t;

/* --- building ------------------------------------------------------------------------------------------- */
typedef struct kiln_graph_builder kiln_graph_builder_t;

kiln_graph_builder_t *kiln_graph_builder_create(kiln_arena_t *arena, const char *name);
unsigned kiln_graph_builder_symbol(kiln_graph_builder_t *builder, const char *name, int64_t typical);
/* All inputs come before the first node. layout NULL: dense, aligned to 16. name may be NULL. */
kiln_value_id_t kiln_graph_builder_input(kiln_graph_builder_t *builder, const char *name, kiln_type_t type,
                                         const kiln_layout_t *layout);
/* Appends a node whose result types the caller knows; copies operands, attributes and types. Returns the
 * first result. */
kiln_value_id_t kiln_graph_builder_node(kiln_graph_builder_t *builder, kiln_op_t op,
                                        const kiln_value_id_t *operands, uint32_t operand_count,
                                        const kiln_attr_value_t *attrs, uint32_t attr_count,
                                        const kiln_type_t *result_types, uint32_t result_count,
                                        uint32_t line);
/* Appends a node whose result types the op's rules give (ir/shape.c); INVALID_GRAPH when they refuse. This is
 * what passes call. */
kiln_status_t kiln_graph_builder_infer(kiln_graph_builder_t *builder, kiln_op_t op,
                                       const kiln_value_id_t *operands, uint32_t operand_count,
                                       const kiln_attr_value_t *attrs, uint32_t attr_count, uint32_t line,
                                       kiln_value_id_t *out_first_result);
void kiln_graph_builder_name(kiln_graph_builder_t *builder, kiln_value_id_t value, const char *name);
const kiln_type_t *kiln_graph_builder_type(const kiln_graph_builder_t *builder, kiln_value_id_t value);
/* The node that made the value, as built so far; NULL for an input. */
const kiln_node_t *kiln_graph_builder_producer(const kiln_graph_builder_t *builder, kiln_value_id_t value);
void kiln_graph_builder_output(kiln_graph_builder_t *builder, kiln_value_id_t value,
                               const kiln_layout_t *layout);
const kiln_graph_t *kiln_graph_builder_finish(kiln_graph_builder_t *builder);

/* --- reading -------------------------------------------------------------------------------------------- */
const kiln_attr_value_t *kiln_node_attr(const kiln_node_t *node, kiln_attr_t attr); /* NULL when absent */
int64_t kiln_node_int(const kiln_node_t *node, kiln_attr_t attr, int64_t otherwise);
/* The node that made the value; NULL for an input. */
const kiln_node_t *kiln_graph_producer(const kiln_graph_t *graph, kiln_value_id_t value);
/* "%name" when it has one, else "%t<id>"; in the arena. */
const char *kiln_graph_value_name(kiln_arena_t *arena, const kiln_graph_t *graph, kiln_value_id_t value);

/* What costs take the symbols to be: their typical values, 1024 where none is given. */
void kiln_graph_typical_symbols(const kiln_graph_t *graph, int64_t out[KILN_MAX_SYMBOLS]);

bool kiln_type_equal(const kiln_type_t *a, const kiln_type_t *b);
bool kiln_type_same_shape(const kiln_type_t *a, const kiln_type_t *b);
/* The number of elements; false when it leaves 64 bits. */
bool kiln_type_elements(kiln_arena_t *arena, const kiln_type_t *type, kiln_dim_t *out);
/* True when some dimension is the constant 0. */
bool kiln_type_is_empty(const kiln_type_t *type);
/* Row-major element strides. */
bool kiln_type_strides(kiln_arena_t *arena, const kiln_type_t *type, kiln_dim_t out[KILN_MAX_RANK]);
void kiln_type_print(kiln_buffer_t *out, const kiln_type_t *type,
                     const kiln_symbol_t *symbols); /* f32[T,64] */

#endif
