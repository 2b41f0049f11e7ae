/* codegen/codegen.c: the kernel families, one row each, and the way from a group to the family that generates
 * it. */
#include "codegen/codegen.h"

#include "codegen/contraction.h"
#include "codegen/elementwise.h"
#include "codegen/grouped.h"
#include "codegen/joined.h"
#include "codegen/rows.h"

#include <string.h>

/* 400 nodes compile in about 0.4 s; 480 pointers leave room for dimensions in 4 KiB of parameters. */
static const kiln_family_t families[] = {
    {"elementwise", kiln_elementwise_accepts, 400, 480, kiln_elementwise_classify, NULL},
    {"rows", kiln_rows_accepts, 400, 480, kiln_rows_classify, kiln_rows_shares},
    {"contraction", kiln_contraction_accepts, 400, 480, kiln_contraction_classify, NULL},
};

static const kiln_generate_t generators[] = {
    kiln_elementwise_generate,
    kiln_rows_generate,
    kiln_contraction_generate,
};

kiln_families_t kiln_codegen_families(void) {
  return (kiln_families_t){families, sizeof families / sizeof *families};
}

static kiln_generate_t generator_of(const char *kind) {
  for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
    if (!strcmp(families[i].name, kind)) return generators[i];
  }
  return NULL;
}

kiln_status_t kiln_codegen_group(kiln_arena_t *arena, const kiln_graph_t *graph,
                                 const kiln_grouping_t *grouping, uint32_t group,
                                 const kiln_codegen_context_t *context, kiln_kernel_source_t *out_kernel) {
  const kiln_group_t *wanted = &grouping->groups[group];
  if (wanted->join != KILN_JOIN_CLASS)
    return kiln_joined_generate(arena, graph, grouping, wanted, context, generator_of, out_kernel);
  kiln_generate_t generate = generator_of(wanted->kind);
  if (!generate) return kiln_error(KILN_INTERNAL, "no kernel family '%s'", wanted->kind);
  if (wanted->member_count > 1)
    return kiln_grouped_generate(arena, graph, grouping, wanted, context, generate, out_kernel);
  return generate(arena, graph, grouping, wanted, context, out_kernel);
}
