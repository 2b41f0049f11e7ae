/* ir/op.h: what the rows of ops.def become: the op enum and a const table of everything known about each op.
 */
#ifndef KILN_IR_OP_H
#define KILN_IR_OP_H

#include "ir/dtype.h"

#define KILN_MANY UINT32_MAX /* no upper limit to the operands */

typedef enum {
#define KILN_ELEMENTWISE(name, ...) KILN_OP_##name,
#define KILN_OP(name, ...) KILN_OP_##name,
#include "ir/ops.def"
#undef KILN_ELEMENTWISE
#undef KILN_OP
  KILN_OP_COUNT
} kiln_op_t;

typedef enum {
#define KILN_ATTR(name, kind) KILN_ATTR_##name,
#include "ir/attrs.def"
#undef KILN_ATTR
  KILN_ATTR_COUNT
} kiln_attr_t;

typedef enum {
  KILN_ATTR_KIND_INT,
  KILN_ATTR_KIND_FLOAT,
  KILN_ATTR_KIND_NUMBER,
  KILN_ATTR_KIND_BOOL,
  KILN_ATTR_KIND_DTYPE,
  KILN_ATTR_KIND_WORD,
  KILN_ATTR_KIND_INTS,
  KILN_ATTR_KIND_DIMS,
  KILN_ATTR_KIND_NUMBERS
} kiln_attr_kind_t;

typedef enum {
  KILN_CLASS_ELEMENTWISE,
  KILN_CLASS_VIEW,
  KILN_CLASS_CREATION,
  KILN_CLASS_INDEXING,
  KILN_CLASS_REDUCTION,
  KILN_CLASS_NORMALIZATION,
  KILN_CLASS_CONTRACTION
} kiln_op_class_t;

typedef enum {
  KILN_RESULT_SAME,
  KILN_RESULT_BOOL,
  KILN_RESULT_I64,
  KILN_RESULT_ATTR,
  KILN_RESULT_ATTR_OR_SAME,
  KILN_RESULT_OUT_OR_SAME
} kiln_result_rule_t;

typedef enum { KILN_PRESENCE_REQUIRED, KILN_PRESENCE_OPTIONAL, KILN_PRESENCE_DEFAULT } kiln_presence_t;

/* One attribute of one op. */
typedef struct {
  kiln_attr_t attr;
  kiln_presence_t presence;
  double number;       /* default of FLOAT and BOOL */
  const char *word;    /* default of WORD */
  const char *choices; /* of WORD: "none|tanh" */
} kiln_attr_rule_t;

typedef struct {
  const char *name;
  kiln_op_class_t op_class;
  uint32_t operands_least;
  uint32_t operands_most;
  uint32_t optional_operands; /* bit i: operand i may be `none` */
  kiln_dtype_set_t dtypes;
  kiln_result_rule_t result;
  const kiln_attr_rule_t *attrs; /* in the order of printing */
  uint32_t attr_count;
  double ulp_f32, ulp_f64; /* element-wise ops only, as the next two */
  const char *device_float;
  const char *device_int;
} kiln_op_info_t;

const kiln_op_info_t *kiln_op_info(kiln_op_t op);
bool kiln_op_parse(const char *name, size_t length, kiln_op_t *out_op);
/* A name that the design keeps for an op to come (attention, sort ...): UNSUPPORTED rather than unknown. */
bool kiln_op_is_reserved(const char *name, size_t length);

const char *kiln_attr_name(kiln_attr_t attr);
kiln_attr_kind_t kiln_attr_kind(kiln_attr_t attr);
bool kiln_attr_parse(const char *name, size_t length, kiln_attr_t *out_attr);
/* The op's rule for an attribute; NULL when the op has no such attribute. */
const kiln_attr_rule_t *kiln_op_attr_rule(kiln_op_t op, kiln_attr_t attr);

#endif
