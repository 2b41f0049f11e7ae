/* docs/gen_ops.c: prints docs/ops.md from the op table: `build/bin/gen_ops > docs/ops.md`.
 *
 * What the table knows (operands, dtypes, attributes, errors) comes from it; what an op means is its
 * reference expression where that says it, and a sentence below where it does not. tests/py/test_docs_ops.py
 * keeps the page up to date.
 */
#include <stdio.h>
#include <string.h>

#include "ir/op.h"

static const char *const meanings[KILN_OP_COUNT] = {
    /* element-wise ops whose reference is a function with a story of its own */
    [KILN_OP_sigmoid] = "1 / (1 + exp(-a)), without overflow",
    [KILN_OP_silu] = "a * sigmoid(a)",
    [KILN_OP_gelu] = "0.5 * a * (1 + erf(a / sqrt(2))), or the tanh form",
    [KILN_OP_relu] = "max(a, 0); NaN stays",
    [KILN_OP_sign] = "-1, 0 or 1; 0 for NaN",
    [KILN_OP_clamp] =
        "min(max(a, min), max); an absent end does not bind; NaN if a or an end is; ends of integers are integers",
    [KILN_OP_cast] = "a in another dtype: rounds to nearest even; float to integer saturates, NaN gives 0",
    [KILN_OP_bitcast] = "the same bits as another dtype of the same size",
    [KILN_OP_bitwise_not] = "~a; for bool, not a",
    [KILN_OP_floordiv] = "a / b rounded to minus infinity; integer division by zero and by overflow is "
                         "defined (docs/numerics.md)",
    [KILN_OP_remainder] = "a - b * floordiv(a, b): the sign of b",
    [KILN_OP_pow] = "a to the power of b",
    [KILN_OP_maximum] = "the larger; NaN wins",
    [KILN_OP_minimum] = "the smaller; NaN wins",
    [KILN_OP_shift_left] = "a << b; 0 past the width",
    [KILN_OP_shift_right] = "a >> b, arithmetic for signed; 0 or the sign past the width",
    [KILN_OP_where] = "operand 1 where operand 0 (bool) is true, else operand 2; bits are moved",
    /* views */
    [KILN_OP_reshape] = "the same elements in row-major order; one size may be -1",
    [KILN_OP_permute] = "axis i of the result is axis dims[i]",
    [KILN_OP_squeeze] = "drops the axes dims, which have size 1",
    [KILN_OP_broadcast] = "new axes of size 1 at the positions dims of the result",
    [KILN_OP_expand] =
        "repeats axes of size 1 up to shape; -1 keeps a size; a longer shape adds leading axes",
    [KILN_OP_slice] = "elements starts[i], starts[i] + steps[i] ... before limits[i] of each axis",
    [KILN_OP_pad] = "low[i] and high[i] elements of value (0 when absent) around each axis",
    [KILN_OP_cat] = "the operands one after the other along dim",
    [KILN_OP_split] = "consecutive parts of the given sizes along dim: one result each",
    [KILN_OP_repeat] =
        "times[i] copies along each axis (x[k mod size]); more entries than axes add leading axes",
    [KILN_OP_reverse] = "the axes dims backwards",
    /* creation */
    [KILN_OP_full] = "value everywhere",
    [KILN_OP_iota] = "the index along dim",
    [KILN_OP_constant] = "the elements in row-major order, as values or as storage bits",
    /* indexing */
    [KILN_OP_gather] = "x with the index along dim replaced by operand 1's element, as torch.gather",
    [KILN_OP_embedding] = "rows of the table operand 0 chosen by operand 1",
    /* reductions */
    [KILN_OP_sum] = "the sum; 0 of nothing",
    [KILN_OP_mean] = "the mean; NaN of nothing",
    [KILN_OP_prod] = "the product; 1 of nothing",
    [KILN_OP_amax] = "the largest; NaN wins; of nothing an error",
    [KILN_OP_amin] = "the smallest; NaN wins; of nothing an error",
    [KILN_OP_var] = "the variance, divided by n - correction",
    [KILN_OP_argmax] =
        "the first index of the largest, counted in row-major order when dim is absent; NaN wins",
    [KILN_OP_argmin] = "the first index of the smallest, likewise",
    [KILN_OP_any] = "is one element not 0?",
    [KILN_OP_all] = "is no element 0?",
    /* normalizations */
    [KILN_OP_softmax] = "exp(x - max) / sum(exp(x - max)) along dim",
    [KILN_OP_log_softmax] = "x - max - log(sum(exp(x - max))) along dim",
    [KILN_OP_layernorm] = "(x - mean) * rsqrt(var + eps) * gamma + beta over the trailing axes "
                          "normalized_shape; gamma and beta may be none",
    [KILN_OP_rmsnorm] = "x * rsqrt(mean(x * x) + eps) * gamma over the trailing axes; gamma may be none",
    [KILN_OP_layernorm_sigmoid_mul] = "x * sigmoid(layernorm(x, gamma, beta))",
    /* contractions */
    [KILN_OP_gemm_rcr] = "alpha * a[..,M,K] . b[N,K]^T",
    [KILN_OP_gemm_rcr_bias] = "alpha * a . b^T + bias[N]",
    [KILN_OP_gemm_rcr_bias_relu] = "max(0, alpha * a . b^T + bias)",
    [KILN_OP_gemm_rcr_bias_sigmoid] = "sigmoid(alpha * a . b^T + bias)",
    [KILN_OP_matmul] = "NumPy's matmul: a row, a column or batches of matrices",
};

/* The reference expression of an element-wise op: for floats, or for integers where it takes no floats. */
static const char *const expressions[KILN_OP_COUNT][2] = {
#define KILN_ELEMENTWISE(name, arity, dtypes, result, attrs, ulp32, ulp64, dev_float, dev_int, ref_float,    \
                         ref_int)                                                                            \
  [KILN_OP_##name] = {#ref_float, #ref_int},
#include "ir/ops.def"
#undef KILN_ELEMENTWISE
};

static const struct {
  kiln_op_class_t op_class;
  const char *title, *note;
} sections[] = {
    {KILN_CLASS_ELEMENTWISE, "Element-wise",
     "Operands have one dtype and broadcast as in NumPy. The last two columns bound the error of the "
     "generated code in\n"
     "units in the last place of f32 (f16 and bf16 compute in it) and f64; 0 means correctly rounded."},
    {KILN_CLASS_VIEW, "Views", "They move elements and keep every bit, of -0.0 and of NaNs too."},
    {KILN_CLASS_CREATION, "Creation", NULL},
    {KILN_CLASS_INDEXING, "Indexing",
     "Operand 1 holds indices, i32 or i64. An index outside is clamped, never followed."},
    {KILN_CLASS_REDUCTION, "Reductions",
     "Over `dims`: all of them when absent, none when `[]`. Accumulation is f32 or wider and tree-shaped; "
     "integers wrap."},
    {KILN_CLASS_NORMALIZATION, "Normalizations", "One node, computed in f32 (f64 for f64), rounded once."},
    {KILN_CLASS_CONTRACTION, "Contractions",
     "Accumulated and finished in f32 (f64 for f64), rounded once; integers wrap at their own dtype."},
};

static void print_dtypes(kiln_dtype_set_t set) {
  static const struct {
    kiln_dtype_set_t set;
    const char *name;
  } named[] = {{KILN_DTYPES_A, "any"},      {KILN_DTYPES_N, "numbers"},         {KILN_DTYPES_F, "floats"},
               {KILN_DTYPES_I, "integers"}, {KILN_DTYPES_IB, "integers, bool"}, {0, "-"}};
  for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
    if (named[i].set == set) printf(" %s |", named[i].name);
  }
}

static void print_operands(const kiln_op_info_t *info) {
  printf(" %u", info->operands_least);
  if (info->operands_most == KILN_MANY) printf(" or more");
  for (uint32_t i = 0, first = 1; i < 32; i++) {
    if (!(info->optional_operands >> i & 1)) continue;
    printf("%s%u", first ? ", may be none: " : " ", i);
    first = 0;
  }
  printf(" |");
}

static void print_attr(const kiln_attr_rule_t *rule) {
  static const char *const kinds[] = {"integer", "float",    "number", "flag",   "dtype",
                                      "word",    "integers", "dims",   "numbers"};
  kiln_attr_kind_t kind = kiln_attr_kind(rule->attr);
  printf("%s: %s", kiln_attr_name(rule->attr), kinds[kind]);
  if (rule->presence == KILN_PRESENCE_OPTIONAL) printf(", optional");
  if (rule->presence != KILN_PRESENCE_DEFAULT) return;
  if (kind == KILN_ATTR_KIND_BOOL) printf(" = %s", rule->number ? "true" : "false");
  if (kind == KILN_ATTR_KIND_FLOAT) printf(" = %g", rule->number);
  if (kind != KILN_ATTR_KIND_WORD) return;
  printf(" = \"%s\" of ", rule->word);
  for (const char *c = rule->choices; *c; c++) printf("%.*s", *c == '|' ? 2 : 1, *c == '|' ? ", " : c);
}

static void print_attrs(const kiln_op_info_t *info) {
  for (uint32_t i = 0; i < info->attr_count; i++) {
    printf(i ? "; " : " ");
    print_attr(&info->attrs[i]);
  }
  printf(" |");
}

static void print_result(const kiln_op_info_t *info) {
  static const char *const results[] = {"same", "bool", "i64", "`dtype`", "`dtype` or same", "`out` or same"};
  printf(" %s |", results[info->result]);
}

/* False when nobody said what the op means. */
static bool print_meaning(kiln_op_t op) {
  bool on_integers_only = !(kiln_op_info(op)->dtypes & KILN_DTYPES_F);
  const char *meaning = meanings[op] ? meanings[op] : expressions[op][on_integers_only];
  if (!meaning || strstr(meaning, "kiln_ref")) return false;
  printf(" ");
  for (const char *c = meaning; *c; c++) printf(*c == '|' ? "\\|" : "%c", *c); /* of a table cell */
  printf(" |");
  return true;
}

static bool print_op(kiln_op_t op) {
  const kiln_op_info_t *info = kiln_op_info(op);
  printf("| %s |", info->name);
  print_operands(info);
  print_dtypes(info->dtypes);
  print_result(info);
  print_attrs(info);
  if (!print_meaning(op)) {
    fprintf(stderr, "gen_ops: no meaning for op '%s'\n", info->name);
    return false;
  }
  if (info->op_class == KILN_CLASS_ELEMENTWISE) printf(" %g | %g |", info->ulp_f32, info->ulp_f64);
  printf("\n");
  return true;
}

static bool print_section(size_t index) {
  bool errors = sections[index].op_class == KILN_CLASS_ELEMENTWISE;
  printf("\n## %s\n\n", sections[index].title);
  if (sections[index].note) printf("%s\n\n", sections[index].note);
  printf("| op | operands | dtypes | result | attributes | meaning |%s\n",
         errors ? " f32 ulp | f64 ulp |" : "");
  printf("|---|---|---|---|---|---|%s\n", errors ? "---|---|" : "");
  for (unsigned op = 0; op < KILN_OP_COUNT; op++) {
    if (kiln_op_info(op)->op_class == sections[index].op_class && !print_op(op)) return false;
  }
  return true;
}

static void print_rules(void) {
  printf("\n## What a graph must obey\n\nThe verifier's rules (`ir/rules.def`); the name of a broken one is "
         "the detail `rule`"
         " of the error.\n\n| rule | what must hold |\n|---|---|\n");
#define KILN_RULE(name, reach, sentence) printf("| %s | %s |\n", #name, sentence);
#include "ir/rules.def"
#undef KILN_RULE
}

int main(void) {
  printf("# Ops\n\nGenerated by `docs/gen_ops.c` from `ir/ops.def`; to change it, change those. Rounding, "
         "special values and\n"
         "differences from NumPy and PyTorch are in `docs/numerics.md`, the way to write a graph in "
         "`docs/text-format.md`.\n");
  for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
    if (!print_section(i)) return 1;
  }
  print_rules();
  return 0;
}
