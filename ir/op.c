/* ir/op.c: the tables of ops and attributes, made from ops.def and attrs.def. */
#include "ir/op.h"

#include <string.h>

/* --- attributes ----------------------------------------------------------------------------------------- */

static const struct {
  const char *name;
  kiln_attr_kind_t kind;
} attrs[KILN_ATTR_COUNT] = {
#define KILN_ATTR(name, kind) {#name, KILN_ATTR_KIND_##kind},
#include "ir/attrs.def"
#undef KILN_ATTR
};

/* One array of attribute rules per op, each closed by an empty row so that none is of size 0. */
#define UNPACK(...) __VA_ARGS__
#define REQUIRED(name) {KILN_ATTR_##name, KILN_PRESENCE_REQUIRED, 0, NULL, NULL},
#define OPTIONAL(name) {KILN_ATTR_##name, KILN_PRESENCE_OPTIONAL, 0, NULL, NULL},
#define FLAG(name, value) {KILN_ATTR_##name, KILN_PRESENCE_DEFAULT, value, NULL, NULL},
#define REAL(name, value) {KILN_ATTR_##name, KILN_PRESENCE_DEFAULT, value, NULL, NULL},
#define WORD(name, value, choices) {KILN_ATTR_##name, KILN_PRESENCE_DEFAULT, 0, value, choices},
#define KILN_ELEMENTWISE(name, arity, dtypes, result, attrs, ...)                                            \
  static const kiln_attr_rule_t attrs_of_##name[] = {UNPACK attrs{KILN_ATTR_COUNT, 0, 0, NULL, NULL}};
#define KILN_OP(name, class, least, most, optional, dtypes, result, attrs)                                   \
  static const kiln_attr_rule_t attrs_of_##name[] = {UNPACK attrs{KILN_ATTR_COUNT, 0, 0, NULL, NULL}};
#include "ir/ops.def"
#undef KILN_ELEMENTWISE
#undef KILN_OP

/* --- ops ------------------------------------------------------------------------------------------------ */

#define ATTRS_OF(name)                                                                                       \
  .attrs = attrs_of_##name, .attr_count = sizeof attrs_of_##name / sizeof(kiln_attr_rule_t) - 1

static const kiln_op_info_t ops[KILN_OP_COUNT] = {
#define KILN_ELEMENTWISE(op, arity, dtype_set, result_rule, attr_list, ulp32, ulp64, on_float, on_int, ...)  \
  {.name = #op,                                                                                              \
   .op_class = KILN_CLASS_ELEMENTWISE,                                                                       \
   .operands_least = arity,                                                                                  \
   .operands_most = arity,                                                                                   \
   .dtypes = dtype_set,                                                                                      \
   .result = KILN_RESULT_##result_rule,                                                                      \
   ATTRS_OF(op),                                                                                             \
   .ulp_f32 = ulp32,                                                                                         \
   .ulp_f64 = ulp64,                                                                                         \
   .device_float = on_float,                                                                                 \
   .device_int = on_int},
#define KILN_OP(op, class, least, most, optional, dtype_set, result_rule, attr_list)                         \
  {.name = #op,                                                                                              \
   .op_class = KILN_CLASS_##class,                                                                           \
   .operands_least = least,                                                                                  \
   .operands_most = most,                                                                                    \
   .optional_operands = optional,                                                                            \
   .dtypes = dtype_set,                                                                                      \
   .result = KILN_RESULT_##result_rule,                                                                      \
   ATTRS_OF(op)},
#include "ir/ops.def"
#undef KILN_ELEMENTWISE
#undef KILN_OP
};

static const char *const reserved[] = {"attention", "dynamic_slice", "dynamic_update", "scatter_add",
                                       "cumsum",    "sort",          "topk",           "random",
                                       "conv",      "pool"};

static bool is_name(const char *candidate, const char *name, size_t length) {
  return strlen(candidate) == length && !memcmp(candidate, name, length);
}

const kiln_op_info_t *kiln_op_info(kiln_op_t op) { return &ops[op]; }

bool kiln_op_parse(const char *name, size_t length, kiln_op_t *out_op) {
  for (unsigned op = 0; op < KILN_OP_COUNT; op++) {
    if (!is_name(ops[op].name, name, length)) continue;
    *out_op = op;
    return true;
  }
  return false;
}

bool kiln_op_is_reserved(const char *name, size_t length) {
  for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++) {
    if (is_name(reserved[i], name, length)) return true;
  }
  return false;
}

const char *kiln_attr_name(kiln_attr_t attr) { return attrs[attr].name; }

kiln_attr_kind_t kiln_attr_kind(kiln_attr_t attr) { return attrs[attr].kind; }

bool kiln_attr_parse(const char *name, size_t length, kiln_attr_t *out_attr) {
  for (unsigned attr = 0; attr < KILN_ATTR_COUNT; attr++) {
    if (!is_name(attrs[attr].name, name, length)) continue;
    *out_attr = attr;
    return true;
  }
  return false;
}

const kiln_attr_rule_t *kiln_op_attr_rule(kiln_op_t op, kiln_attr_t attr) {
  for (uint32_t i = 0; i < ops[op].attr_count; i++) {
    if (ops[op].attrs[i].attr == attr) return &ops[op].attrs[i];
  }
  return NULL;
}
