/* passes/wide_cat.c: a cat of very many operands becomes a tree of cats, each within what one kernel can
 * read.
 *
 *   cat(%x0 ... %x499) {dim=0}   ->   cat(cat(%x0 ... %x63), ..., cat(%x448 ... %x499))
 *
 * Grouping cuts between nodes, never inside one: this gives it places to cut, and costs nothing where it need
 * not. Stands last, since simplify flattens cats. Counts cats.
 */
#include "passes/rewrite.h"

enum { WIDEST_OPERANDS = 64 };

/* One level of the tree; the number of its cats, 0 when one was refused. */
static uint32_t join(rewrite_t *rw, const draft_t *draft, kiln_value_id_t *values, uint32_t count) {
  uint32_t joined = 0;
  for (uint32_t first = 0; first < count; first += WIDEST_OPERANDS) {
    uint32_t width = count - first < WIDEST_OPERANDS ? count - first : WIDEST_OPERANDS;
    kiln_value_id_t part =
        width == 1 ? values[first]
                   : rewrite_emit(rw, KILN_OP_cat, &values[first], width, draft->attrs, draft->attr_count);
    if (part == KILN_NO_VALUE) return 0;
    values[joined++] = part;
  }
  return joined;
}

static bool narrow(rewrite_t *rw, draft_t *draft) {
  uint32_t count = draft->operand_count;
  kiln_value_id_t *values = kiln_arena_copy(rw->arena, draft->operands, count * sizeof *values);
  while (count > WIDEST_OPERANDS) {
    count = join(rw, draft, values, count);
    if (!count) return false;
  }
  return draft_set(rw, draft, KILN_OP_cat, values, count, draft->attrs, draft->attr_count);
}

const kiln_graph_t *kiln_pass_wide_cat(kiln_pass_context_t *context, const kiln_graph_t *graph) {
  if (!graph_has(graph, KILN_OP_cat)) return graph;
  rewrite_t rw = rewrite_begin(context, graph);
  for (uint32_t n = 0; n < graph->node_count; n++) {
    const kiln_node_t *node = &graph->nodes[n];
    if (node->op != KILN_OP_cat || node->operand_count <= WIDEST_OPERANDS) {
      rewrite_copy(&rw, node);
      continue;
    }
    draft_t draft = rewrite_draft(&rw, node);
    if (narrow(&rw, &draft)) context->applied++;
    rw.map[node->first_result] = rewrite_place(&rw, &draft);
  }
  return rewrite_finish(&rw);
}
