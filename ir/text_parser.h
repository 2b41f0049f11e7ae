/* ir/text_parser.h: the parser's state, shared by graphs (text_parse.c) and what stands in braces and
 * brackets (text_attrs.c). Internal to the text parser. */
#ifndef KILN_IR_TEXT_PARSER_H
#define KILN_IR_TEXT_PARSER_H

#include "base/map.h"
#include "ir/graph.h"
#include "ir/text_lexer.h"

typedef struct {
  kiln_lexer_t lexer;
  kiln_arena_t *arena;
  kiln_graph_builder_t *builder;
  kiln_map_t *values; /* name -> value id */
  kiln_symbol_t symbols[KILN_MAX_SYMBOLS];
  uint32_t symbol_count;
  /* What the statement being read has so far. */
  kiln_value_id_t *operands;
  kiln_attr_value_t *attrs;
  kiln_token_t *results; /* the names on the left */
  size_t operand_count, operand_capacity, attr_count, attr_capacity, result_count, result_capacity;
} kiln_parser_t;

/* "2*T+1": moves past it. */
kiln_status_t kiln_parser_dim(kiln_parser_t *parser, kiln_dim_t *out);
/* "[1, T, 2*T]": moves past it. */
kiln_status_t kiln_parser_dims(kiln_parser_t *parser, kiln_dim_t **out_dims, uint32_t *out_count);
/* "f32": moves past it. Reserved dtypes are UNSUPPORTED. */
kiln_status_t kiln_parser_dtype(kiln_parser_t *parser, kiln_dtype_t *out);
/* "{dim=1, sizes=[32,96]}": the attributes of an op, onto parser->attrs. */
kiln_status_t kiln_parser_attrs(kiln_parser_t *parser, kiln_op_t op);

#endif
