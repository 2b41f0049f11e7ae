/* codegen/member_class.c: which members share a kernel beyond what they compute, and what they cost there.
 *
 * | rows         | rows up to 64, 512, 1024, 2048, 4096 or 8192 elements: the number of columns in which a
 * row |              | is added up (rows_tile.c) is then that of the same row alone, so sums have the same
 * bits. |              | Up to 256 columns a row has one element in each: more columns change nothing, so the
 * first |              | class stands for 32 and 64 columns, the second for 128 and 256. Longer rows, and
 * rows of |              | element-wise kernels, keep their length: N is no symbol | | contractions | one
 * class; tiles and widths are chosen for the members at hand | | element-wise | how many neighbours an access
 * takes | Sizes that depend on symbols count with their typical values, and nothing is taken as sure. Called
 * by grouped.c and, as classify, by passes.
 */
#include "codegen/contraction.h"
#include "codegen/grouped.h"
#include "codegen/rows.h"

#include <math.h>
#include <string.h>

enum { DEFAULT_TYPICAL = 1024, LAUNCH_LATENCY_NS = 1500, MOST_ROW = 32768 };

static const int64_t row_classes[] = {64, 512, 1024, 2048, 4096, 8192};
static const char *const row_class_names[] = {
    "rows of up to 64 elements",    "rows of up to 512 elements",   "rows of up to 1,024 elements",
    "rows of up to 2,048 elements", "rows of up to 4,096 elements", "rows of up to 8,192 elements",
};

/* --- sizes --------------------------------------------------------------------------------------------- */

double kiln_member_typical(const kiln_member_t *member, kiln_dim_t dim) {
  int64_t symbols[KILN_MAX_SYMBOLS] = {0}, value;
  for (uint32_t i = 0; i < member->graph->symbol_count; i++) {
    int64_t typical = member->graph->symbols[i].typical;
    symbols[i] = typical ? typical : DEFAULT_TYPICAL;
  }
  return kiln_dim_eval(dim, symbols, &value) ? (double)value : 1e18;
}

static bool is_kind(const kiln_member_t *member, const char *kind) {
  return !strcmp(member->group->kind, kind);
}

static bool reduces(const kiln_member_t *member) {
  for (size_t i = 0; i < member->step_count; i++) {
    kiln_op_class_t op_class = kiln_op_info(member->graph->nodes[member->steps[i].node].op)->op_class;
    if (op_class == KILN_CLASS_REDUCTION || op_class == KILN_CLASS_NORMALIZATION) return true;
  }
  return false;
}

bool kiln_member_keeps_columns(const kiln_member_t *member) {
  if (member->form != KILN_MEMBER_PLANE || !reduces(member)) return false;
  kiln_dim_t columns = member->symbols[KILN_MEMBER_N];
  if (!kiln_dim_is_constant(columns)) return false;
  return !is_kind(member, "rows") || columns.constant > row_classes[5];
}

/* Elements of 16 bytes of the narrowest dtype of a member's planes without K. */
static uint32_t most_lanes(const kiln_member_t *member) {
  size_t least = 16;
  for (uint32_t i = 0; i < member->group->store_count; i++) {
    size_t bytes = kiln_dtype_bytes(member->results[i].dtype);
    if (bytes < least) least = bytes;
  }
  for (size_t i = 0; i < member->leaf_count; i++) {
    size_t bytes = kiln_dtype_bytes(member->leaves[i].dtype);
    if (!(member->leaves[i].axes & KILN_HAS_K) && bytes < least) least = bytes;
  }
  return (uint32_t)(16 / least);
}

/* --- widths -------------------------------------------------------------------------------------------- */

static uint32_t factor_width(const kiln_member_t *member, const kiln_grouping_t *grouping,
                             const kiln_symbol_class_t *symbols, uint32_t number) {
  const kiln_leaf_t *leaf = &member->leaves[member->steps[member->contraction].operands[number] / 2];
  uint32_t outer, inner, most = (uint32_t)(16 / kiln_dtype_bytes(leaf->dtype));
  kiln_leaf_axes(leaf, &outer, &inner);
  int64_t multiple =
      kiln_dim_multiple(member->symbols[leaf->is_transposed ? outer : inner], symbols->multiple);
  if (multiple < most) most = (uint32_t)multiple;
  return kiln_leaf_multiple(member, grouping, symbols, leaf, most);
}

uint32_t kiln_class_width(const kiln_member_t *member, const kiln_grouping_t *grouping,
                          const kiln_symbol_class_t *symbols, uint32_t selector) {
  bool is_product = member->form == KILN_MEMBER_PRODUCT;
  if (is_product && selector < 2) return factor_width(member, grouping, symbols, selector);
  return kiln_member_multiple(member, grouping, symbols, most_lanes(member));
}

/* --- classes ------------------------------------------------------------------------------------------- */

static bool class_of_rows(const kiln_member_t *member, kiln_class_t *out) {
  int64_t length = (int64_t)kiln_member_typical(member, member->symbols[KILN_MEMBER_N]);
  bool is_sure = kiln_dim_is_constant(member->symbols[KILN_MEMBER_N]);
  out->selector_count = 1;
  out->selector_names[0] = "width";
  out->lanes = most_lanes(member);
  if (kiln_member_keeps_columns(member)) /* several blocks may share a longer one when it is alone */
    return member->symbols[KILN_MEMBER_N].constant <= MOST_ROW;
  size_t i = 0;
  while (i < 5 && row_classes[i] < length) i++;
  out->typical[KILN_MEMBER_N] = row_classes[i];
  out->most_columns = is_sure ? row_classes[i] : 0;
  out->number = 2 * (uint32_t)i + is_sure;
  return is_sure || length <= row_classes[i];
}

static bool class_of_product(const kiln_member_t *member, kiln_class_t *out) {
  static const char *const names[] = {"a_width", "b_width", "width"};
  (void)member;
  out->selector_count = 3;
  memcpy(out->selector_names, names, sizeof names);
  return true;
}

/* A flat one has vectors that may end early; what lies in rows, only whole ones. */
static bool class_of_elementwise(const kiln_member_t *member, const kiln_grouping_t *grouping,
                                 kiln_class_t *out) {
  const kiln_symbol_class_t unknown = {{1, 1, 1, 1, 1, 1, 1, 1}, false};
  bool is_flat = kiln_dim_is(member->symbols[KILN_MEMBER_M], 1);
  uint32_t most = most_lanes(member);
  kiln_member_t places = *member;
  if (is_flat) places.symbols[KILN_MEMBER_N] = kiln_dim_constant(0); /* any length */
  out->align_multiple = kiln_member_multiple(&places, grouping, &unknown, most);
  out->is_flat = is_flat;
  out->number = out->align_multiple;
  return true;
}

bool kiln_class_of(const kiln_member_t *member, const kiln_grouping_t *grouping, kiln_class_t *out) {
  *out = (kiln_class_t){0};
  if (member->form == KILN_MEMBER_LITERAL) return true;
  if (member->form == KILN_MEMBER_PRODUCT) return class_of_product(member, out);
  return is_kind(member, "rows") && reduces(member) ? class_of_rows(member, out)
                                                    : class_of_elementwise(member, grouping, out);
}

/* --- cost ---------------------------------------------------------------------------------------------- */

static double leaf_bytes(const kiln_member_t *member, const kiln_leaf_t *leaf) {
  double elements = 1;
  if (leaf->axes & KILN_HAS_M) elements *= kiln_member_typical(member, member->symbols[KILN_MEMBER_M]);
  if (leaf->axes & KILN_HAS_N) elements *= kiln_member_typical(member, member->symbols[KILN_MEMBER_N]);
  if (leaf->axes & KILN_HAS_K) elements *= kiln_member_typical(member, member->symbols[KILN_MEMBER_K]);
  return elements * (double)kiln_dtype_bytes(leaf->dtype);
}

static double literal_bytes(const kiln_member_t *member, const kiln_leaf_t *leaf, kiln_arena_t *arena) {
  kiln_dim_t elements;
  const kiln_type_t *type = &member->graph->types[leaf->value];
  if (!kiln_type_elements(arena, type, &elements)) return 1e18;
  return kiln_member_typical(member, elements) * (double)kiln_dtype_bytes(type->dtype);
}

static double bytes_of(kiln_arena_t *arena, const kiln_member_t *member) {
  double bytes = 0;
  bool is_literal = member->form == KILN_MEMBER_LITERAL;
  for (size_t i = 0; i < member->leaf_count; i++)
    bytes += is_literal ? literal_bytes(member, &member->leaves[i], arena)
                        : leaf_bytes(member, &member->leaves[i]);
  for (uint32_t i = 0; i < member->group->store_count; i++)
    bytes += is_literal ? literal_bytes(member, &member->results[i], arena)
                        : leaf_bytes(member, &member->results[i]);
  return bytes;
}

/* Blocks that move memory: as many at once as hold 2,048 threads of an SM, each with its share of what the
 * memory gives an SM, and a latency that nothing hides. */
static void cost_of_moving(const kiln_target_t *target, double blocks, kiln_member_class_t *out) {
  double sm_bytes_per_ns = target->memory_gb_per_s / (double)(target->sm_count ? target->sm_count : 1);
  out->blocks = blocks;
  out->blocks_per_sm = target->threads_per_sm / 256 ? target->threads_per_sm / 256 : 1;
  double per_block = blocks > 0 ? out->bytes / blocks : 0;
  out->block_ns =
      LAUNCH_LATENCY_NS + per_block * out->blocks_per_sm / (sm_bytes_per_ns > 0 ? sm_bytes_per_ns : 1);
}

static bool classify(kiln_arena_t *arena, const kiln_graph_t *graph, const kiln_group_t *group,
                     kiln_member_class_t *out, kiln_member_t **out_member, kiln_class_t *out_own) {
  *out = (kiln_member_class_t){0};
  *out_member = kiln_member_create(arena, graph, NULL, group);
  if (!*out_member || !kiln_class_of(*out_member, NULL, out_own)) return false;
  kiln_member_key(arena, *out_member, NULL, out_own->number, out->key);
  out->bytes = bytes_of(arena, *out_member);
  return true;
}

bool kiln_rows_classify(kiln_arena_t *arena, const kiln_graph_t *graph, const kiln_group_t *group,
                        const kiln_target_t *target, kiln_member_class_t *out) {
  kiln_member_t *member;
  kiln_class_t own;
  if (kiln_rows_fills_device(graph, group, target)) return false;
  if (!classify(arena, graph, group, out, &member, &own)) return false;
  if (member->form == KILN_MEMBER_LITERAL) {
    cost_of_moving(target, ceil(out->bytes / (256 * 16)), out);
    return true;
  }
  double rows = kiln_member_typical(member, member->symbols[KILN_MEMBER_M]),
         columns = kiln_member_typical(member, member->symbols[KILN_MEMBER_N]);
  double rows_per_block = columns <= 64 ? 32 : columns <= 512 ? 8 : 1;
  cost_of_moving(target, columns > 0 ? ceil(rows / rows_per_block) : 0, out);
  size_t i = 0;
  while (i < 6 && row_classes[i] != own.most_columns) i++;
  out->name = i < 6 ? row_class_names[i] : "rows of one length";
  return true;
}

bool kiln_elementwise_classify(kiln_arena_t *arena, const kiln_graph_t *graph, const kiln_group_t *group,
                               const kiln_target_t *target, kiln_member_class_t *out) {
  kiln_member_t *member;
  kiln_class_t own;
  if (!classify(arena, graph, group, out, &member, &own)) return false;
  cost_of_moving(target, ceil(out->bytes / (256 * 32)), out);
  return true;
}

/* A tile of 64 x 64: what its SM multiplies or reads in a step of K, whichever takes longer. Products per
 * cycle of an SM, dense: 1,024 of halves by tensor cores (A100; H100 has twice that), 64 of f32; f64 and
 * integers count as half of f32. Source: NVIDIA A100 Tensor Core GPU Architecture, table 2. 1.4 GHz. */
static double tile_ns(const kiln_target_t *target, kiln_dtype_t dtype, double k) {
  const double ghz = 1.4, side = 64;
  double per_ns = (kiln_dtype_is_half(dtype) ? (target->major >= 9 ? 2048 : 1024)
                   : dtype == KILN_DTYPE_f32 ? 64
                                             : 32) *
                  ghz;
  double bytes_per_ns = target->memory_gb_per_s / (double)(target->sm_count ? target->sm_count : 1);
  double multiply = side * side * k / per_ns,
         read = 2 * side * k * (double)kiln_dtype_bytes(dtype) / bytes_per_ns;
  return LAUNCH_LATENCY_NS + (multiply > read ? multiply : read);
}

bool kiln_contraction_classify(kiln_arena_t *arena, const kiln_graph_t *graph, const kiln_group_t *group,
                               const kiln_target_t *target, kiln_member_class_t *out) {
  kiln_member_t *member;
  kiln_class_t own;
  if (!classify(arena, graph, group, out, &member, &own)) return false;
  if (member->form == KILN_MEMBER_LITERAL) {
    cost_of_moving(target, ceil(out->bytes / (256 * 16)), out);
    return true;
  }
  double m = kiln_member_typical(member, member->symbols[KILN_MEMBER_M]),
         n = kiln_member_typical(member, member->symbols[KILN_MEMBER_N]),
         k = kiln_member_typical(member, member->symbols[KILN_MEMBER_K]);
  out->blocks = ceil(m / 64) * ceil(n / 64);
  out->block_ns = tile_ns(target, member->leaves[0].dtype, k);
  out->blocks_per_sm = 2;
  return true;
}
