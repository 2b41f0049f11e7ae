/* codegen/elementwise.h: the element-wise family, as codegen.c lists it. */
#ifndef KILN_CODEGEN_ELEMENTWISE_H
#define KILN_CODEGEN_ELEMENTWISE_H

#include "codegen/codegen.h"

bool kiln_elementwise_accepts(const kiln_graph_t *graph, uint32_t node);
kiln_status_t kiln_elementwise_generate(kiln_arena_t *arena, const kiln_graph_t *graph,
                                        const kiln_grouping_t *grouping, const kiln_group_t *group,
                                        const kiln_codegen_context_t *context,
                                        kiln_kernel_source_t *out_kernel);

#endif
